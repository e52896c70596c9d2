//! What becomes of the pairs of a device that fails in the middle?
//!
//! Pairs of a device's tile are held until the tile is complete, and handed on then. A device that fails
//! leaves nothing behind, so the CPU can do the tile as if nothing had happened. A tile with more pairs than
//! may be held is begun again in parts, each of which is complete sooner; only those of a single probe may
//! go straight on, and a failure after that ends the join. Where pairs are only counted, none is held.

use super::executor::TileSink;
use simjoin_core::{SetPair, Sink};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Pairs held at most, if there is memory for them.
const HELD: u64 = 4 << 20;

const PAIR: u64 = size_of::<SetPair>() as u64;

/// The pairs of a tile.
pub(crate) struct Stage {
    most: usize,
    count: AtomicUsize,
    /// More may go straight on.
    opens: bool,
    open: AtomicBool,
    full: AtomicBool,
    /// Probes that are done, as far as progress was told.
    pub(crate) done: AtomicU64,
    rows: AtomicU64,
    held: Mutex<Vec<Vec<SetPair>>>,
}

impl Stage {
    /// Bytes that it takes at most, of so many: a sixteenth.
    pub(crate) fn bytes(memory: u64) -> u64 {
        // Arrays that grow may be half empty.
        (memory / 16).min(2 * HELD * PAIR)
    }

    /// Room for as many pairs as are of use within the memory. Whether more go straight on.
    pub(crate) fn within(memory: u64, opens: bool) -> Self {
        let most = (Self::bytes(memory) / (2 * PAIR)) as usize;
        Stage {
            most,
            count: AtomicUsize::new(0),
            opens,
            open: AtomicBool::new(false),
            full: AtomicBool::new(false),
            done: AtomicU64::new(0),
            rows: AtomicU64::new(0),
            held: Mutex::default(),
        }
    }

    /// Whether some pairs have gone on already.
    pub(crate) fn is_open(&self) -> bool {
        self.open.load(Ordering::Relaxed)
    }

    /// Whether there were more pairs than may be held.
    pub(crate) fn is_full(&self) -> bool {
        self.full.load(Ordering::Relaxed)
    }

    /// The pairs that are held, of each worker, and the rows that were counted.
    pub(crate) fn into_held(self) -> (Vec<Vec<SetPair>>, u64) {
        let held = self.held.into_inner().unwrap_or_else(PoisonError::into_inner);
        (held, self.rows.into_inner())
    }
}

/// A worker's sink, with or without a stage before it.
pub(crate) struct StagedSink<'s, S> {
    sink: S,
    stage: Option<&'s Stage>,
    held: Vec<SetPair>,
}

impl<'s, S> StagedSink<'s, S> {
    pub(crate) fn new(sink: S, stage: Option<&'s Stage>) -> Self {
        StagedSink { sink, stage, held: Vec::new() }
    }
}

impl<S: TileSink> Sink<SetPair> for StagedSink<'_, S> {
    fn wants_value(&self) -> bool {
        self.sink.wants_value()
    }

    fn stopped(&self) -> bool {
        self.sink.stopped()
    }

    fn only_counts(&self) -> bool {
        self.sink.only_counts()
    }

    fn count(&mut self, rows: u64) {
        match self.stage {
            Some(stage) => drop(stage.rows.fetch_add(rows, Ordering::Relaxed)),
            None => self.sink.count(rows),
        }
    }

    fn push(&mut self, pairs: &[SetPair]) -> ControlFlow<()> {
        let Some(stage) = self.stage else { return self.sink.push(pairs) };
        if let Some(rows) = self.sink.rows(pairs) {
            stage.rows.fetch_add(rows, Ordering::Relaxed);
            return ControlFlow::Continue(());
        }
        let before = stage.count.fetch_add(pairs.len(), Ordering::Relaxed);
        if before + pairs.len() > stage.most {
            if !stage.opens {
                stage.full.store(true, Ordering::Relaxed);
                return ControlFlow::Break(());
            }
            stage.open.store(true, Ordering::Relaxed);
            return self.sink.push(pairs);
        }
        self.held.extend_from_slice(pairs);
        ControlFlow::Continue(())
    }
}

impl<S: TileSink> TileSink for StagedSink<'_, S> {
    fn begin(&mut self, tile: usize) {
        self.sink.begin(tile);
    }

    fn end(&mut self) -> ControlFlow<()> {
        self.sink.end()
    }
}

impl<S> Drop for StagedSink<'_, S> {
    fn drop(&mut self) {
        if let Some(stage) = self.stage
            && !self.held.is_empty()
        {
            let mut held = stage.held.lock().unwrap_or_else(PoisonError::into_inner);
            held.push(std::mem::take(&mut self.held));
        }
    }
}
