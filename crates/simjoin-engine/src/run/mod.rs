//! How is a plan carried out: by which threads, in which order, and what if a device fails?

mod executor;
mod queue;
mod staging;
mod threads;
mod timeline;

pub use executor::did_its_work;
pub(crate) use executor::{Executor, Ran};
pub(crate) use queue::{Axis, ChunkSize, Part, Queue};
pub(crate) use staging::Stage;
pub use threads::{pool, threads};
