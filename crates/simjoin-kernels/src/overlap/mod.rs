//! How many tokens do two sets share, and is it enough?
//!
//! [`verify`] is the one kernel that decides about candidate pairs. It is handed what is left of
//! two ascending sets after the part that a filter has compared already, how many common tokens
//! that part held, and the overlap that the predicate requires.

mod scalar;

pub use scalar::{overlap, verify};
