//! Which types do all parts of simjoin share?
//!
//! * [`Measure`], [`Threshold`] and [`Predicate`] define the wanted pairs exactly: a threshold
//!   is a rational number taken from its decimal text.
//! * [`Bounds`] turns a predicate into integers: required overlap, size bounds, prefix lengths.
//! * [`RawSets`] are the records as the reader delivers them; [`SetCollection`] is their joinable form.
//! * [`VectorCollection`] and [`VectorPredicate`] are the same for vectors.
//! * A technique pushes [`SetPair`]s into a [`Sink`].
//! * [`Random`] is one sequence of numbers for samples and tests.
//! * [`Error`] names the cause of a failure: the input, the configuration, or simjoin itself.
//!
//! This crate knows no files, no schedulers, no techniques and no devices.

#![forbid(unsafe_code)]

mod bounds;
mod collection;
mod error;
mod measure;
mod pairs;
mod random;
pub mod refusal;
mod threshold;
mod vectors;

pub use bounds::Bounds;
pub use collection::{RawSets, SetCollection, SizeClass, prepare};
pub use error::{Error, Parameter, Result};
pub use measure::{Measure, Predicate};
pub use pairs::{RowPair, SetPair, Side, Sink, VectorCount, VectorPair};
pub use random::{Random, mix64};
pub use threshold::Threshold;
pub use vectors::{Elements, VectorCollection, VectorMeasure, VectorPredicate};

/// A set's position in its collection: sets are ordered by size, then lexicographically.
pub type SetId = u32;

/// A token's rank: tokens are numbered by rising frequency.
pub type TokenId = u32;
