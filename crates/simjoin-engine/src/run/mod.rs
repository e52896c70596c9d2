//! How is a plan carried out: by which threads, in which order, and what if a device fails?

mod executor;
mod queue;
mod staging;
mod threads;
mod timeline;

pub(crate) use executor::{Executor, Ran};
pub use threads::{pool, threads};
