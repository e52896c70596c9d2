//! Exact similarity joins for sets, text and vectors.
//!
//! Given one or two collections of sets, find **all** pairs whose similarity reaches a threshold.
//! Thresholds are exact rational numbers and decisions are made in integers, so the answer is the
//! same with every technique and any number of threads.
//!
//! ```
//! use simjoin::{Control, Measure, Predicate, RawSets, prepare};
//!
//! let mut rows = RawSets::default();
//! rows.push(&[0, 1, 2, 3]);
//! rows.push(&[1, 2, 3, 0, 4]);
//! rows.push(&[5, 6]);
//! let (sets, _) = prepare(rows, None, 7)?;
//!
//! let join = simjoin::join(Predicate::parse(Measure::Jaccard, "0.8")?);
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
//! [`Join::count`] only counts, [`Join::groups`] finds connected components, [`Join::pairs`]
//! streams every pair. The order of pairs is that of the technique, whatever the number of threads;
//! only on a GPU it is none in particular.
//! Which technique runs is chosen for the data and the machine; [`Plan::explain`] tells what was
//! considered. [`Join::with_itself`] is for new records against old ones. A [`Glimpse`] shows what the
//! results look like, whatever the answer.
//!
//! [`overlaps`] counts what all pairs have in common, without a threshold.
//! [`Intersect`] is for two single sets of up to hundreds of millions of numbers.
//! [`vector_join`] is the same for vectors: all pairs within a Euclidean distance, or of at least a
//! cosine.

#![forbid(unsafe_code)]

mod host;
mod intersect;

pub use host::{compiler, join, overlaps, techniques_for, vector_join};
pub use intersect::{Intersect, IntersectReport};
pub use simjoin_core::{
    Bounds, Elements, Error, Measure, Predicate, RawSets, Result, RowPair, SetCollection, Side,
    Threshold, VectorCollection, VectorMeasure, VectorPredicate, prepare,
};
pub use simjoin_cpu::ascending;
pub use simjoin_engine::{
    AUTO, Control, DeviceTimes, Engine, Event, Explanation, Glimpse, GlimpseBin, GlimpsePair, Join,
    Joinable, Machine, Overlaps, Plan, Processor, Purpose, Report, SIMULATED_GPU, Sets, Split,
    StepPlan, StepReport, Subject, Vectors, WantedOverlaps, duration, grouped, listed, names,
    parse_bytes, pool, threads, threads_expected, variants,
};
pub use simjoin_gpu::{Device, DeviceInfo, LeftOut, devices, left_out};
