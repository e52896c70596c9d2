//! How is a join planned, and how is the plan carried out, on any processor?
//!
//! A [`SetTask`], a [`VectorTask`] or an [`OverlapTask`] says which rows meet which; a [`Technique`] knows how to do a
//! range of it on a CPU or a device. The planner gives ranges to techniques, the executor runs them,
//! and an answer takes the pairs. No technique and no device is known here: a [`Host`] brings them.

#![forbid(unsafe_code)]

mod answer;
mod cache;
mod clock;
mod control;
mod costs;
mod explain;
mod host;
mod intersect;
mod join;
mod kind;
mod machine;
mod overlaps;
mod plan;
mod processor;
mod registry;
mod report;
mod run;
mod sets;
mod size;
mod technique;
mod tuning;
mod vectors;

pub use answer::{Glimpse, GlimpseBin, GlimpsePair};
pub use cache::{cache_file, keep};
pub use control::Control;
pub use costs::{CostTable, Ratios};
pub use explain::{Explanation, duration, grouped};
pub use host::{
    CpuIntersection, Device, DeviceIntersection, DeviceVectors, Host, TakeElements,
    VectorTechniques,
};
pub use intersect::{Intersect, IntersectReport};
pub use join::{Join, Joinable, Plan, Purpose};
pub use kind::{Direction, Kind, Order, Task, Work};
pub use machine::{Machine, SIMULATED_GPU};
pub use overlaps::{OverlapSurvey, OverlapTask, Overlaps, WantedOverlaps, best_partners};
pub use plan::{Choice, Resources, Split, choose};
pub use processor::{PerProcessor, Processor};
pub use registry::{AUTO, Subject, chosen, listed, names, variants};
pub use report::{Engine, Event, Report, StepPlan, StepReport, did_its_work};
pub use run::{pool, threads};
pub use sets::{
    CandidateFilter, CandidateFinder, CandidateSink, CandidateSource, Effort, Reach, SetTask, Sets,
    Survey, Tile, WIDTHS, build_prefixes, cut, passes, reaches,
};
pub use simjoin_core::Random;
pub use size::bytes as parse_bytes;
pub use technique::{
    Budget, Cost, DeviceEvent, DeviceTimes, DeviceUnit, Prepared, Technique, Techniques, Worker,
};
pub use vectors::{
    Fit, LIMITED, Limits, STRIPE, Transform, VectorSurvey, VectorTask, Vectors, check_directions,
    draw, no_direction, radii, squared_lengths,
};
