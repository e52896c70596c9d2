//! Exact similarity joins for sets, text and vectors.
//!
//! Given one or two collections of sets, find **all** pairs whose similarity reaches a threshold.
//! Thresholds are exact rational numbers and decisions are made in integers, so the answer is the
//! same with every technique and any number of threads.

#![forbid(unsafe_code)]

pub mod engine;
mod gpu;
mod host;

pub use engine::{Error, Result};
