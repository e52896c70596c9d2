//! How many tokens does every pair of sets share, found on a device?
//!
//! After Bellas and Gounaris (Exploiting GPUs for fast intersection of large sets), without a threshold.
//! Their techniques are here for comparison:
//!
//! * `index` (sf-gssjoin): lists of all tokens, one atomic addition for each meeting;
//! * `bitmap`: a bit for each token of the universe, and-popcount of all pairs;
//! * `bitmap-dynamic`, `binary-search`, `hash`: one row at a time is made ready as a bitmap, a search tree or
//!   a hash table, and the tokens of all columns are looked up in it;
//! * `dense`: the product of the bit matrices on tensor cores, of devices whose tensor cores multiply bits.
//!
//! `combined` is what should be used: the most frequent tokens are bits of a dense product, the rare ones
//! have lists, and additions go into the counts that the product has left. Frequencies of real tokens fall
//! so fast that a few thousand bits leave short lists. How many bits there are is decided by what both
//! parts are estimated to cost.
//!
//! # Flow
//!
//! ```text
//! sets ─► device ─► frequencies ─► frequent tokens: bits ─► product ─┐ counts of a tile,   ┌► host, tile by tile
//!                              └─► rare tokens: lists ────► walk ────┴ 1, 2 or 4 bytes ────┼► pairs that satisfy a predicate
//!                                                                                          └► the best of each row
//! ```
//!
//! A tile is a range of rows by all columns; in a self-join by the columns before its last row. There
//! each unordered pair is counted once, unless the best of each row are wanted.
//!
//! # Memory
//!
//! On the device 4 bytes a token and 12 a set; for `combined` 4 a token more, 8 for each token of the
//! universe, and one bit for each set and frequent token; and tiles, which become smaller where memory is
//! short. On the host two pieces of a tile, or a batch of answers. Neither follows the number of results.
//!
//! # Exactness
//!
//! Every common token of a pair is either frequent, and then one bit in both rows of the matrix, or rare,
//! and then the column stands once in its list. Counts are as wide as the largest overlap needs, so no
//! addition reaches into a neighbour. Predicates are decided in integers, as everywhere.

mod compute;
mod fetch;
mod on_device;
mod scale;
mod selection;
mod sides;
mod tile;
mod top;

pub(crate) use on_device::Here;
pub(crate) use selection::{Selection, SelectionPlan};
pub(crate) use sides::{Side, Sides};
pub use tile::{Counts, OverlapTile};

use crate::device::Device;
use crate::sets::{source, timer};
use cudarc::driver::LaunchConfig;
use simjoin_core::{Bounds, Predicate, Result, SetCollection, SetPair};
use simjoin_engine::Budget;
use std::ops::ControlFlow;
use std::sync::Arc;
use tile::Want;

pub(crate) static SOURCE: &str = source!("shared.cuh", "overlaps.cu");

/// Threads of a block; rows and columns of a block of the product; bits that it takes in a step: as in
/// the kernels.
const THREADS: u32 = 256;
const ROWS: u32 = 128;
const COLUMNS: u32 = 256;
const STEP: u32 = 512;

/// Pairs and 256-bit pieces of them that the product takes in a second, on tensor cores and without, and
/// entries of lists that are walked in one: of an H200.
const PRODUCT: f64 = 9e12;
const POPCOUNT: f64 = 4e11;
const WALK: f64 = 3e10;

/// Bytes of a tile that is consumed on the device, and of a piece of one on its way to the host, at most.
const TILE: u64 = 2 << 30;
const PIECE: u64 = 16 << 20;

/// Bytes for answers, on the device and on the host, at most.
const ANSWERS: u64 = 256 << 20;

/// Bytes for what is small.
const SMALL: u64 = 1024;

/// Shared memory, in words, for what a row is made into.
const LOOK_UP_ROOM: u32 = 12_000;

/// How the overlaps of all pairs are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OverlapTechnique {
    /// Lists of all tokens and atomic additions.
    Index,
    /// A bit for each token, common bits counted word by word.
    Bitmap,
    /// A bitmap of one row at a time.
    BitmapDynamic,
    /// Binary search in one row at a time.
    BinarySearch,
    /// A hash table of one row at a time.
    Hash,
    /// A bit for each token, multiplied by tensor cores where they do that.
    Dense,
    /// Frequent tokens as in `Dense`, rare ones as in `Index`. How many are frequent, if not as many as
    /// is estimated to be best.
    Combined(Option<u32>),
}

impl OverlapTechnique {
    /// Every one.
    pub const ALL: [OverlapTechnique; 7] = [
        Self::Combined(None),
        Self::Dense,
        Self::Bitmap,
        Self::Index,
        Self::BitmapDynamic,
        Self::BinarySearch,
        Self::Hash,
    ];

    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Self::Index => "index",
            Self::Bitmap => "bitmap",
            Self::BitmapDynamic => "bitmap-dynamic",
            Self::BinarySearch => "binary-search",
            Self::Hash => "hash",
            Self::Dense => "dense",
            Self::Combined(_) => "combined",
        }
    }

    /// The one of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|technique| technique.name() == name)
    }

    /// The kernel that looks tokens up, if it is of that kind.
    fn look_up(self) -> Option<&'static str> {
        match self {
            Self::BitmapDynamic => Some("look_up_bitmap"),
            Self::BinarySearch => Some("look_up_search"),
            Self::Hash => Some("look_up_hash"),
            _ => None,
        }
    }
}

/// What the kernels are compiled with.
pub(crate) fn defines(width: u32, tensor: bool, stages: u32) -> [(&'static str, u32); 3] {
    [("WIDTH", width), ("TENSOR", u32::from(tensor)), ("STAGES", stages)]
}

/// Seconds of each part.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct OverlapSeconds {
    /// Sending sets.
    pub send: f64,
    /// On the device: frequencies, bits and lists.
    pub prepare: f64,
    /// On the device: counting.
    pub count: f64,
    /// On the device: finding the pairs that are wanted.
    pub select: f64,
    /// Waiting for what comes back to the host.
    pub fetch: f64,
}

/// Counts overlaps on a device.
pub struct Overlaps<'a> {
    room: Budget,
    /// Nothing where a side has no sets.
    here: Option<Here<'a>>,
    /// What it has taken so far.
    pub seconds: OverlapSeconds,
}

fn grid(threads: u64) -> LaunchConfig {
    let blocks = threads.div_ceil(u64::from(THREADS)).max(1);
    LaunchConfig {
        grid_dim: (blocks as u32, 1, 1),
        block_dim: (THREADS, 1, 1),
        shared_mem_bytes: 0,
    }
}

impl<'a> Overlaps<'a> {
    /// Sends the sets of a self-join, or of a join of rows and columns, and prepares them. `room` bounds
    /// what is taken on the device and for tiles and answers on the host.
    pub fn new(
        device: &Arc<Device>,
        rows: &'a SetCollection,
        columns: Option<&'a SetCollection>,
        technique: OverlapTechnique,
        room: &Budget,
    ) -> Result<Self> {
        let mut seconds = OverlapSeconds::default();
        let empty = rows.is_empty() || columns.is_some_and(SetCollection::is_empty);
        let here = match empty {
            true => None,
            false => {
                let (rows, columns) = (Side::all(rows), columns.map(Side::all));
                let sides = Sides { rows, columns, limits: None };
                Some(Here::new(device, sides, technique, room, &mut seconds)?)
            }
        };
        Ok(Overlaps { room: *room, here, seconds })
    }

    /// Bytes of a count.
    pub fn width(&self) -> u32 {
        self.here.as_ref().map_or(1, |here| here.width)
    }

    /// How many of the most frequent tokens have a bit.
    pub fn frequent(&self) -> u32 {
        self.here
            .as_ref()
            .map_or(0, |here| if here.bits.is_some() { here.universe() - here.heavy } else { 0 })
    }

    /// Hands on the pairs whose overlap is positive and satisfies a predicate, by row, then by column. In a
    /// self-join the probe is the later set.
    pub fn selected(
        &mut self,
        predicate: Predicate,
        mut consume: impl FnMut(&[SetPair]) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>> {
        let Some(here) = &self.here else { return Ok(ControlFlow::Continue(())) };
        let bounds = Bounds::new(predicate);
        let plan = SelectionPlan::new(here, self.room.bytes)?;
        let mut selection = Selection::new(here, &bounds, &plan)?;
        for tile in 0..plan.tiles() {
            if selection.pairs(here, tile, &mut self.seconds, &mut consume)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// For how many pairs of rows of the input those pairs stand; no pair comes to the host.
    pub fn count(&mut self, predicate: Predicate) -> Result<u64> {
        let Some(here) = &self.here else { return Ok(0) };
        let plan = SelectionPlan::new(here, self.room.bytes)?;
        let mut selection = Selection::new(here, &Bounds::new(predicate), &plan)?;
        let mut rows = 0;
        for tile in 0..plan.tiles() {
            rows += selection.count(here, tile, &mut self.seconds)?;
        }
        Ok(rows)
    }

    /// Counts all pairs and leaves the counts on the device, one tile after the other: for measuring.
    #[doc(hidden)]
    pub fn count_only(&mut self) -> Result<()> {
        let Some(here) = &self.here else { return Ok(()) };
        let tiles = here.tiles(1, TILE, 0, Want::Once)?;
        let bytes = tiles.iter().map(|tile| here.bytes(tile)).max().unwrap_or(0);
        let mut buffer = here.buffer(bytes)?;
        let clock = [timer(&here.device)?, timer(&here.device)?];
        here.timed(&clock, &mut self.seconds.count, || {
            tiles.iter().try_for_each(|tile| here.compute(&mut buffer, tile).map(drop))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_for_techniques() {
        for technique in OverlapTechnique::ALL {
            assert_eq!(OverlapTechnique::named(technique.name()), Some(technique));
        }
        assert_eq!(OverlapTechnique::named("ip"), None);
    }
}
