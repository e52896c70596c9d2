//! What are the innermost loops of a join?
//!
//! Pure functions over slices: numbers in, a number out; no allocation, no input or output, no
//! threads, no `Result`. A kernel is a folder; each instruction-set [`tier`] of it is a file.

pub mod bitmap;
pub mod distance;
pub mod intersect;
pub mod overlap;
pub mod pages;
pub mod prefetch;
pub mod product;
pub mod tier;
