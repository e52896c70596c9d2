//! How is a join cut into pieces, and what can do a piece?
//!
//! A [`Join`] says which pairs of sets are to be compared; [`Tile`]s are its parts, the unit of
//! work of every backend; a [`Technique`] knows how to do a tile. No backend is known here.

#![forbid(unsafe_code)]

mod choose;
mod join;
mod rates;
mod reach;
mod samples;
mod split;
mod survey;
mod technique;
mod tile;
mod units;
mod vectors;

pub use choose::{Choice, Means, choose, choose_for};
pub use join::{Join, Order, Part};
pub use rates::Rates;
pub use reach::{Reach, build_prefixes, reaches};
pub use samples::{Effort, Random, Samples};
pub use split::{Chosen, Division, Line, Sides, work_share};
pub use survey::{Survey, WIDTHS};
pub use technique::{Cost, Prepared, Room, Span, Technique, Trace, Unit, Worker};
pub use tile::{Tile, cut, passes};
pub use units::{Ratios, Units};
pub use vectors::{
    PreparedVectors, VectorJoin, VectorRoom, VectorSurvey, VectorTechnique, VectorWorker,
};
