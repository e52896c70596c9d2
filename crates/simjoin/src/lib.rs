//! Exact similarity joins for sets, text and vectors.
//!
//! Find **all** pairs of rows whose similarity reaches a threshold. Thresholds are exact rational numbers and decisions
//! are made in integers, so the answer is the same with every technique, on every processor and with any number of
//! threads.
//!
//! ```
//! use simjoin::Text;
//!
//! let titles = Text::new([
//!     "Pride and Prejudice, Jane Austen",
//!     "Jane Austen: Pride and Prejudice",
//!     "Emma, Jane Austen",
//! ]);
//! let pairs = simjoin::self_join(&titles).jaccard(0.8).collect()?;
//! assert_eq!((pairs[0].left, pairs[0].right, pairs[0].similarity), (0, 1, 1.0));
//! # Ok::<(), simjoin::Error>(())
//! ```
//!
//! * Inputs are [`Text`], [`Sets`] of strings or integers, and [`Vectors`], from memory or from files.
//! * [`self_join`] compares the rows of one input, [`join()`] those of two, by a measure: see [`Inputs`].
//! * A [`Join`] is told where to run and what to spend, and asked for answers: it counts, collects, writes a file,
//!   finds groups, or is an iterator that takes bounded memory. [`Join::explain`] shows the plan.
//! * [`intersect()`] is for two single sets of up to hundreds of millions of numbers.
//! * [`engine`] holds the parts that all this is made of.
//!
//! Features, both on by default: `io` reads and writes files, `gpu` joins on NVIDIA GPUs.

#![forbid(unsafe_code)]

mod decimal;
pub mod engine;
mod host;
mod input;
mod intersect;
mod join;
#[cfg(not(feature = "gpu"))]
mod no_gpu;
mod pairs;

pub use decimal::Decimal;
pub use engine::{Engine, Error, Explanation, IntersectReport, Report, Result, Side};
pub use input::{Element, Input, Pair, Sets, Text, VectorPair, Vectors};
pub use intersect::{Intersection, intersect};
pub use join::{Inputs, Join, join, self_join};
pub use pairs::Pairs;
#[cfg(feature = "io")]
pub use simjoin_io::{Format, VectorFormat};
pub use simjoin_io::{Token, Tokenizer};
