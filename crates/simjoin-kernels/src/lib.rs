//! What are the innermost loops of a join?
//!
//! Kernels are pure functions over slices. They do not allocate, read or write files, start threads
//! or return a `Result`. A kernel is a folder; each instruction-set [`tier`] of it is a file.

pub mod bitmap;
pub mod distance;
pub mod intersect;
pub mod overlap;
pub mod pages;
pub mod prefetch;
pub mod product;
pub mod tier;
