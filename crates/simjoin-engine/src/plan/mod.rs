//! Which technique does which part of a join, and on which processor?
//!
//! [`choose()`] picks techniques for one processor, [`Sides::divide`] divides a join between CPU and
//! device, and [`Rates`] correct estimates by what past joins took.

mod choose;
mod divide;
mod rates;

pub use choose::{Choice, Resources, choose, choose_for};
pub use divide::{Chosen, Division, Line, Sides, work_share};
pub use rates::Rates;
