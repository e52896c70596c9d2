//! How many tokens does every pair of sets share, counted on a device?
//!
//! After Bellas and Gounaris (Exploiting GPUs for fast intersection of large sets), without a threshold.
//! Their techniques are included for comparison:
//!
//! * `index` (sf-gssjoin): lists of all tokens, one atomic addition per common token of a pair;
//! * `bitmap`: a bit for each token of the universe, and-popcount of all pairs;
//! * `bitmap-dynamic`, `binary-search`, `hash`: one row at a time becomes a bitmap, a search tree or a hash
//!   table, in which the tokens of all columns are looked up;
//! * `dense`: the product of the bit matrices, on tensor cores if they multiply bits.
//!
//! `combined` is the recommended technique. The most frequent tokens are bits of a dense product. The other
//! tokens have lists, whose additions go into the counts of the product. Frequencies of real tokens fall so
//! fast that a few thousand bits leave short lists. The number of bits follows from the estimated costs of
//! both parts.
//!
//! # Flow
//!
//! ```text
//! sets ─► device ─► frequencies ─► frequent tokens: bits ─► product ─┐ counts of a tile,   ┌► host, tile by tile
//!                              └─► rare tokens: lists ────► walk ────┴ 1, 2 or 4 bytes ────┼► pairs that satisfy a predicate
//!                                                                                          └► the best of each row
//! ```
//!
//! A tile is a range of rows by all columns or, in a self-join, by the columns before its last row. There
//! each unordered pair is counted once, unless the best columns of each row are wanted.
//!
//! # Memory
//!
//! On the device 4 bytes per token and 12 per set. In addition for `combined` 4 bytes per token, 8 for each
//! token of the universe, and one bit for each set and frequent token. In addition tiles, which are smaller
//! if memory is short. On the host two pieces of a tile, or a batch of answers. None of this depends on the
//! number of results.
//!
//! # Exactness
//!
//! Every common token of a pair is either frequent, and then one bit in both rows of the matrix, or not, and
//! then the column occurs once in its list. Counts are as wide as the largest overlap needs, so no addition
//! overflows into a neighbour. Predicates are decided in integers, as everywhere.

mod compute;
mod fetch;
mod on_device;
mod selection;
mod sides;
mod tile;
mod top;
mod workload;

pub(crate) use on_device::OnDevice;
pub(crate) use selection::{Selection, SelectionPlan};
pub(crate) use sides::{OverlapSide, OverlapSides};
pub use tile::{Counts, OverlapTile};

use crate::device::Device;
use crate::sets::{source, timer};
use cudarc::driver::LaunchConfig;
use simjoin_core::{Bounds, Predicate, Result, SetCollection, SetPair};
use simjoin_engine::Budget;
use std::ops::ControlFlow;
use std::sync::Arc;
use tile::Coverage;

pub(crate) static SOURCE: &str = source!("shared.cuh", "overlaps.cu", "overlaps_answers.cu");

/// The threads of a block, the rows and columns of a block of the product, and the bits of one of its steps;
/// as in the kernels.
const THREADS: u32 = 256;
const ROWS: u32 = 128;
const COLUMNS: u32 = 256;
const STEP: u32 = 512;

/// The speed of the product, in pieces of 256 bits per second, on tensor cores and without, and that of
/// walking lists, in entries per second; all on an H200.
const PRODUCT: f64 = 9e12;
const POPCOUNT: f64 = 4e11;
const WALK: f64 = 3e10;

/// The largest number of bytes of a tile that is used on the device, and of a piece that is copied to the
/// host.
const MAX_TILE: u64 = 2 << 30;
const MAX_PIECE: u64 = 16 << 20;

/// The largest number of bytes for answers, on the device and on the host.
const MAX_ANSWERS: u64 = 256 << 20;

/// The bytes for small buffers.
const SMALL_BYTES: u64 = 1024;

/// The shared memory for a row's bitmap, search tree or hash table, in words.
const LOOK_UP_WORDS: u32 = 12_000;

/// A technique that counts the overlaps of all pairs.
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
    /// A bit for each token, multiplied on tensor cores if they multiply bits.
    Dense,
    /// Frequent tokens as in `Dense`, the others as in `Index`. The number is that of frequent tokens; `None`
    /// chooses the best one by estimates.
    Combined(Option<u32>),
}

impl OverlapTechnique {
    /// All techniques.
    pub const ALL: [OverlapTechnique; 7] = [
        Self::Combined(None),
        Self::Dense,
        Self::Bitmap,
        Self::Index,
        Self::BitmapDynamic,
        Self::BinarySearch,
        Self::Hash,
    ];

    /// Returns the name of the technique.
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

    /// Returns the technique with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|technique| technique.name() == name)
    }

    /// Returns the kernel that looks tokens up, if the technique has one.
    fn look_up(self) -> Option<&'static str> {
        match self {
            Self::BitmapDynamic => Some("look_up_bitmap"),
            Self::BinarySearch => Some("look_up_search"),
            Self::Hash => Some("look_up_hash"),
            _ => None,
        }
    }
}

/// Returns the definitions that the kernels are compiled with.
pub(crate) fn defines(width: u32, tensor: bool, stages: u32) -> [(&'static str, u32); 3] {
    [("WIDTH", width), ("TENSOR", u32::from(tensor)), ("STAGES", stages)]
}

/// The seconds of each part of the work.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct OverlapSeconds {
    /// Sending sets.
    pub send: f64,
    /// On the device: frequencies, bits and lists.
    pub prepare: f64,
    /// On the device: counting.
    pub count: f64,
    /// On the device: selecting pairs.
    pub select: f64,
    /// Waiting for copies to the host.
    pub fetch: f64,
}

/// Counts overlaps on a device.
pub struct Overlaps<'a> {
    budget: Budget,
    /// `None` if a side has no sets.
    on_device: Option<OnDevice<'a>>,
    /// The seconds spent so far.
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
    /// Sends the sets of a self-join, or of a join of rows and columns, and prepares them. `budget` bounds
    /// the memory on the device, and that of tiles and answers on the host.
    pub fn new(
        device: &Arc<Device>,
        rows: &'a SetCollection,
        columns: Option<&'a SetCollection>,
        technique: OverlapTechnique,
        budget: &Budget,
    ) -> Result<Self> {
        let mut seconds = OverlapSeconds::default();
        let empty = rows.is_empty() || columns.is_some_and(SetCollection::is_empty);
        let on_device = match empty {
            true => None,
            false => {
                let (rows, columns) = (OverlapSide::all(rows), columns.map(OverlapSide::all));
                let sides = OverlapSides { rows, columns, limits: None };
                Some(OnDevice::new(device, sides, technique, budget, &mut seconds)?)
            }
        };
        Ok(Overlaps { budget: *budget, on_device, seconds })
    }

    /// Returns the bytes of a count.
    pub fn width(&self) -> u32 {
        self.on_device.as_ref().map_or(1, |on_device| on_device.width)
    }

    /// Returns the number of tokens that have a bit: the most frequent ones.
    pub fn frequent(&self) -> u32 {
        self.on_device.as_ref().map_or(0, |on_device| {
            if on_device.bits.is_some() { on_device.universe() - on_device.heavy } else { 0 }
        })
    }

    /// Hands on the pairs whose overlap is positive and satisfies a predicate, by row, then by column. In a
    /// self-join the probe is the later set.
    pub fn selected(
        &mut self,
        predicate: Predicate,
        mut consume: impl FnMut(&[SetPair]) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>> {
        let Some(on_device) = &self.on_device else { return Ok(ControlFlow::Continue(())) };
        let bounds = Bounds::new(predicate);
        let plan = SelectionPlan::new(on_device, self.budget.bytes)?;
        let mut selection = Selection::new(on_device, &bounds, &plan)?;
        for tile in 0..plan.tiles() {
            if selection.pairs(on_device, tile, &mut self.seconds, &mut consume)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Returns the number of pairs of input rows that those pairs represent. No pair is copied to the host.
    pub fn count(&mut self, predicate: Predicate) -> Result<u64> {
        let Some(on_device) = &self.on_device else { return Ok(0) };
        let plan = SelectionPlan::new(on_device, self.budget.bytes)?;
        let mut selection = Selection::new(on_device, &Bounds::new(predicate), &plan)?;
        let mut rows = 0;
        for tile in 0..plan.tiles() {
            rows += selection.count(on_device, tile, &mut self.seconds)?;
        }
        Ok(rows)
    }

    /// Counts all pairs and leaves the counts on the device, one tile after the other. For measurements.
    #[doc(hidden)]
    pub fn count_only(&mut self) -> Result<()> {
        let Some(on_device) = &self.on_device else { return Ok(()) };
        let tiles = on_device.tiles(1, MAX_TILE, 0, Coverage::Once)?;
        let bytes = tiles.iter().map(|tile| on_device.bytes(tile)).max().unwrap_or(0);
        let mut buffer = on_device.buffer(bytes)?;
        let clock = [timer(&on_device.device)?, timer(&on_device.device)?];
        on_device.timed(&clock, &mut self.seconds.count, || {
            tiles.iter().try_for_each(|tile| on_device.compute(&mut buffer, tile).map(drop))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn techniques_are_found_by_name() {
        for technique in OverlapTechnique::ALL {
            assert_eq!(OverlapTechnique::named(technique.name()), Some(technique));
        }
        assert_eq!(OverlapTechnique::named("ip"), None);
    }
}
