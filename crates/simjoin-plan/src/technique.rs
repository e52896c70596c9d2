//! What does a technique promise?
//!
//! A [`Technique`] prepares a range of build sets once (a [`Tiler`], shared by all threads: an
//! inverted index, say); each thread makes a [`Worker`] from it and runs tiles, in rising order.
//! Whatever it does inside, a worker pushes every pair of the tile that satisfies the bounds, once,
//! and no other.

use crate::{Join, Tile};
use simjoin_core::{PairSink, SetId};
use std::ops::{ControlFlow, Range};

/// A way to join tiles.
pub trait Technique: Send + Sync {
    /// The name used on the command line and in statistics.
    fn name(&self) -> &'static str;

    /// Bytes that [`prepare`](Self::prepare) and `threads` workers take for these build sets, at
    /// most.
    fn memory_bytes(&self, join: &Join<'_>, builds: &Range<SetId>, threads: usize) -> u64;

    /// Prepares a range of build sets for probing.
    fn prepare<'a>(&self, join: &Join<'a>, builds: Range<SetId>) -> Box<dyn Tiler + 'a>;
}

/// Build sets prepared for probing.
pub trait Tiler: Sync {
    /// A worker for one thread.
    fn worker<'a>(&'a self) -> Box<dyn Worker + 'a>;
}

/// One thread's working space. Tiles must come in rising order.
pub trait Worker {
    /// Pushes every pair of the tile that satisfies the bounds. `Break` when the sink had enough.
    fn run(&mut self, tile: &Tile, sink: &mut dyn PairSink) -> ControlFlow<()>;

    /// How many candidate pairs this worker has verified so far.
    fn candidates(&self) -> u64;
}
