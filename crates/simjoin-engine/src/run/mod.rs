//! How is a plan carried out: by which threads, in which order, and what if a device fails?

mod executor;
mod plan;
mod queue;
mod staging;
mod threads;
mod vector_staging;

pub use executor::{Control, TileSink, did_its_work};
pub(crate) use executor::{Timeline, thread_row};
pub(crate) use plan::{Limits, Mode, Plan, Split, cpu_techniques};
pub(crate) use staging::Stage;
pub use threads::{pool, threads, threads_expected};
pub(crate) use vector_staging::{Hold, PieceSink, Staged};
