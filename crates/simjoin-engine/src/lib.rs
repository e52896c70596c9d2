//! How is a join planned, and how is the plan carried out, on any processor?
//!
//! A [`SetTask`] or a [`VectorTask`] says which rows meet which; a [`Technique`] knows how to do a
//! range of it on a CPU or a device. The planner gives ranges to techniques, the executor runs them,
//! and an answer takes the pairs. No technique and no device is known here: a [`Host`] brings them.

#![forbid(unsafe_code)]

mod answer;
mod clock;
mod costs;
mod explain;
mod host;
mod kind;
mod machine;
mod plan;
mod report;
mod run;
mod set_join;
mod sets;
mod size;
mod technique;
mod vector_join;
mod vectors;

pub use answer::{Glimpse, GlimpseBin, GlimpsePair, Ordered, OrderedSink, OutputBuffers, repeats};
pub use costs::{CostTable, Ratios};
pub use explain::{Explanation, duration, grouped, planned_seconds};
pub use host::{Device, DeviceVectors, Fit, Host, VectorTechniques};
pub use kind::{Kind, Order, Sets, Task, Vectors};
pub use machine::{Machine, SIMULATED_GPU};
pub use plan::{
    Choice, Chosen, Division, Line, Rates, Resources, Sides, choose, choose_for, work_share,
};
pub use report::{Engine, Event, Report, StepPlan, StepReport};
pub use run::{Control, TileSink, did_its_work, pool, threads, threads_expected};
pub use set_join::{GPU_TECHNIQUES, Join, TECHNIQUES, VARIANTS, simulated_gpu};
pub use sets::{
    Direction, Effort, Random, Reach, Samples, SetTask, Survey, Tile, WIDTHS, build_prefixes, cut,
    passes, reaches,
};
pub use size::bytes as parse_bytes;
pub use technique::{
    Budget, Cost, DeviceEvent, DeviceTimes, DeviceUnit, Prepared, Technique, Techniques, Worker,
};
pub use vector_join::{
    GPU_VECTOR_TECHNIQUES, PreparedVectorJoin, VECTOR_TECHNIQUES, VectorJoin, VectorPlan,
    VectorReport,
};
pub use vectors::{STRIPE, VectorSurvey, VectorTask};
