//! How is a join cut into pieces, and what can do a piece?
//!
//! A [`Join`] says which pairs of sets are to be compared; [`Tile`]s are its parts, the unit of
//! work of every backend; a [`Technique`] knows how to do a tile. No backend is known here.

#![forbid(unsafe_code)]

mod join;
mod reach;
mod technique;
mod tile;

pub use join::{Join, Order, Part};
pub use reach::{Reach, reaches};
pub use technique::{Prepared, Technique, Worker};
pub use tile::{Tile, cut, passes};
