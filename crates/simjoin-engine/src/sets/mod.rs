//! Which sets meet which, in which units of work, and what is known about them?
//!
//! A [`SetTask`] is cut into [`Tile`]s; [`Reach`] is the length filter by size class, and a
//! [`Survey`] holds the statistics of a tile, which samples complete. A [`CandidateFilter`] leaves
//! verification to others.

mod candidates;
mod joined;
mod reach;
mod samples;
mod survey;
mod task;
pub(crate) mod tile;

pub use candidates::{CandidateFilter, CandidateFinder, CandidateSink, CandidateSource};
pub use reach::{Reach, build_prefixes, reaches};
pub use samples::Effort;
pub(crate) use samples::MANY;
pub use survey::{Survey, WIDTHS};
pub(crate) use task::size_range;
pub use task::{SetTask, Sets};
pub use tile::{Tile, cut, passes};
