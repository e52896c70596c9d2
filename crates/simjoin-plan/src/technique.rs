//! What does a technique promise?
//!
//! A [`Technique`] prepares a tile once (a [`Prepared`], shared by all threads: an inverted index,
//! say) and cuts it into pieces; each thread makes a [`Worker`] and takes pieces, in rising order,
//! until none is left. Whatever happens inside, the pieces together push every pair of the tile
//! that satisfies the bounds, once, and no other.

use crate::{Join, Tile};
use simjoin_core::PairSink;
use std::ops::ControlFlow;

/// A way to join tiles.
pub trait Technique: Send + Sync {
    /// The name used on the command line and in statistics.
    fn name(&self) -> &'static str;

    /// Bytes that [`prepare`](Self::prepare) and `threads` workers take for this tile, at most.
    fn memory_bytes(&self, join: &Join<'_>, tile: &Tile, threads: usize) -> u64;

    /// Prepares a tile for probing. Pieces hold about `piece_tokens` probe tokens where a technique
    /// cuts by probes. Runs on the current rayon pool; the pieces do not depend on its size.
    fn prepare<'a>(
        &self,
        join: &Join<'a>,
        tile: &Tile,
        piece_tokens: usize,
    ) -> Box<dyn Prepared + 'a>;
}

/// A tile prepared for probing.
pub trait Prepared: Sync {
    /// How many pieces there are.
    fn pieces(&self) -> usize;

    /// A worker for one thread.
    fn worker<'a>(&'a self) -> Box<dyn Worker + 'a>;
}

/// One thread's working space. Pieces must come in rising order.
pub trait Worker {
    /// Pushes every pair of the piece that satisfies the bounds. `Break` when the sink had enough.
    fn run(&mut self, piece: usize, sink: &mut dyn PairSink) -> ControlFlow<()>;

    /// How many candidate pairs this worker has verified so far.
    fn candidates(&self) -> u64;
}
