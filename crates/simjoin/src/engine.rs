//! The parts that joins are made of: collections, predicates, plans, techniques and devices.
//!
//! Programs such as the `simjoin` command, which show progress or plans of their own, use these. Everybody else is
//! served by the functions and types of the crate itself, which make use of this module.
//!
//! ```
//! use simjoin::engine::{Control, Measure, Predicate, RawSets, prepare};
//!
//! let mut rows = RawSets::default();
//! rows.push(&[0, 1, 2, 3]);
//! rows.push(&[1, 2, 3, 0, 4]);
//! rows.push(&[5, 6]);
//! let (sets, _) = prepare(rows, None, 7)?;
//!
//! let join = simjoin::engine::join(Predicate::parse(Measure::Jaccard, "0.8")?);
//! let mut found = Vec::new();
//! let report = join.pairs(&sets, None, &Control::default(), |pairs| {
//!     found.extend(pairs.iter().map(|pair| (pair.left, pair.right, pair.overlap)));
//!     std::ops::ControlFlow::Continue(())
//! })?;
//! assert_eq!(found, [(0, 1, 4)]);
//! assert_eq!(report.pairs, 1);
//! # Ok::<(), simjoin::Error>(())
//! ```
//!
//! [`Join::count`] only counts, [`Join::groups`] finds connected components, [`Join::pairs`] streams every pair.
//! Which technique runs is chosen for the data and the machine; [`Plan::explain`] tells what was considered. A
//! [`Glimpse`] shows what the results look like, whatever the answer.

#[cfg(feature = "gpu")]
pub use crate::host::compiler;
pub use crate::host::{intersect, join, overlaps, techniques_for, vector_join};
pub use simjoin_core::{
    Bounds, Elements, Error, Measure, Parameter, Predicate, RawSets, Result, RowPair,
    SetCollection, Side, Threshold, VectorCollection, VectorMeasure, VectorPredicate, prepare,
    refusal,
};
pub use simjoin_cpu::ascending;
pub use simjoin_engine::{
    AUTO, Control, DeviceTimes, Engine, Event, Explanation, Glimpse, GlimpseBin, GlimpsePair,
    Intersect, IntersectReport, Join, Joinable, Machine, Overlaps, Plan, Processor, Purpose,
    Report, SIMULATED_GPU, Sets, Split, StepPlan, StepReport, Subject, Vectors, WantedOverlaps,
    duration, grouped, listed, names, parse_bytes, pool, threads, variants,
};
#[cfg(feature = "gpu")]
pub use simjoin_gpu::{Device, DeviceInfo, LeftOut, devices, left_out};
