//! Which functions and classes does Python call?
//!
//! This is the native half of the package `simjoin`. The other half, in `python/simjoin`, holds the public
//! functions with their keywords, documentation and exceptions. This half reads data (`input.rs`), runs a
//! join on a separate thread (`job.rs`; `join.rs` with `sets.rs` and `vectors.rs`; `overlaps.rs`), and returns answers
//! (`output.rs`).

#![allow(clippy::needless_pass_by_value, reason = "arguments from Python are passed by value")]

mod devices;
mod errors;
mod input;
mod job;
mod join;
mod output;
mod overlaps;
mod sets;
mod spark;
mod vectors;

use pyo3::prelude::*;

/// The native half of the package.
#[pymodule]
mod _native {
    #[pymodule_export]
    use crate::devices::{devices, nvrtc_version};
    #[pymodule_export]
    use crate::output::{Stream, Table};
    #[pymodule_export]
    use crate::overlaps::{intersect, overlaps};
    #[pymodule_export]
    use crate::sets::join;
    #[pymodule_export]
    use crate::spark::{
        ClusterCounter, ClusterLayout, ClusterOrder, ClusterRouter, ClusterSample, ClusterTask,
    };
    #[pymodule_export]
    use crate::vectors::vector_join;

    #[allow(non_upper_case_globals, reason = "Python's name for it")]
    #[pymodule_export]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
