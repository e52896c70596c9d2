//! Which technique does which part of a join, and on which processor?
//!
//! A [`Plan`](crate::Plan) is made once, from the techniques, limits and facts in [`Setup`]; [`Assignments`] say who does what.
//! What differs between the kinds is [`Planned`]: `sets.rs` with `choose.rs` (the techniques of one processor), `axis.rs`
//! and `divide.rs` (the share of each processor); `vectors.rs` and `overlaps.rs` with `whole.rs`. [`Corrections`] correct
//! estimates by past joins.

mod assign;
mod axis;
mod choose;
mod corrections;
mod divide;
mod overlaps;
mod sets;
mod setup;
mod tuning;
mod vectors;
mod whole;

pub(crate) use assign::{Assignment, Assignments, Chosen, Decided, Division, Planned, Queued};
pub(crate) use axis::ProbeAxis;
pub use choose::{Choice, Resources, choose};
pub(crate) use corrections::Corrections;
pub use setup::Split;
pub(crate) use setup::{Limits, Mode, Setup};
pub(crate) use tuning::Tuning;
