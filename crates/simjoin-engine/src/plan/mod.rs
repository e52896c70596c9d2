//! Which technique does which part of a join, and on which processor?
//!
//! A [`Plan`](crate::Plan) is made once, from the techniques, limits and facts in [`Setup`]; [`Assignments`] say how each
//! processor does the join (`assign.rs`). If both share it, they take chunks of its [`Axis`]. What differs between the
//! kinds is [`Planned`]: `sets.rs` with `choose.rs`; `vectors.rs` and `overlaps.rs` with `whole.rs`.

mod assign;
mod axis;
mod choose;
mod overlaps;
mod sets;
mod setup;
mod vectors;
mod whole;

pub(crate) use assign::{Assignment, Assignments, ChunkSize, Decided, Planned, technique_for};
pub(crate) use axis::{Axis, Part};
pub use choose::{Choice, Resources, choose};
pub use setup::Split;
pub(crate) use setup::{Limits, Mode, Setup, held_bytes};
