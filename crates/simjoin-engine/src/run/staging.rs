//! What becomes of the pairs of a device that fails in the middle?
//!
//! Pairs that a device finds in a range are held until the range is complete, and [committed](Stage::commit) then. A
//! device that fails leaves nothing behind: its stage is dropped, and the CPU does the range as if nothing had
//! happened. A range with more pairs than may be held is begun again in smaller parts, which are complete sooner; only
//! those of a range that cannot be cut go straight on, and a failure after that ends the join. Where pairs are only
//! counted or only unite groups, a number is held and no pair.

use crate::answer::AnswerSink;
use crate::plan::held_bytes;
use parking_lot::Mutex;
use simjoin_core::Sink;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// The pairs of a range that is not complete.
pub(crate) struct Stage<P> {
    most: usize,
    count: AtomicUsize,
    /// Pairs that do not fit go straight on.
    opens: bool,
    open: AtomicBool,
    full: AtomicBool,
    /// Probes that are done, as progress was told.
    pub(crate) done: AtomicU64,
    rows: AtomicU64,
    held: Mutex<Vec<Vec<P>>>,
}

impl<P: Copy> Stage<P> {
    /// Makes a stage for as many pairs as are useful within the memory. `opens`: more go straight on.
    pub(crate) fn within(memory: u64, opens: bool) -> Self {
        Self::of((held_bytes::<P>(memory) / (2 * size_of::<P>() as u64)) as usize, opens)
    }

    fn of(most: usize, opens: bool) -> Self {
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

    /// Returns whether some pairs have gone on already.
    pub(crate) fn is_open(&self) -> bool {
        self.open.load(Ordering::Relaxed)
    }

    /// Returns whether more pairs were found than may be held.
    pub(crate) fn is_full(&self) -> bool {
        self.full.load(Ordering::Relaxed)
    }

    /// Takes out what is held, since the range is complete: the pairs of each worker, and the rows that were counted.
    pub(crate) fn commit(self) -> (Vec<Vec<P>>, u64) {
        (self.held.into_inner(), self.rows.into_inner())
    }
}

/// A worker's sink, with or without a stage before it, which takes nothing more once the join is stopped.
pub(crate) struct StagedSink<'s, P, S, F> {
    pub(crate) sink: S,
    stage: Option<&'s Stage<P>>,
    held: Vec<P>,
    stopped: F,
}

impl<'s, P, S, F> StagedSink<'s, P, S, F> {
    pub(crate) fn new(sink: S, stage: Option<&'s Stage<P>>, stopped: F) -> Self {
        StagedSink { sink, stage, held: Vec::new(), stopped }
    }

    /// Leaves what this worker has found in the stage.
    pub(crate) fn finish(self) {
        if let Some(stage) = self.stage.filter(|_| !self.held.is_empty()) {
            stage.held.lock().push(self.held);
        }
    }
}

impl<P: Copy, S: AnswerSink<P>, F: Fn() -> bool> Sink<P> for StagedSink<'_, P, S, F> {
    fn wants_value(&self) -> bool {
        self.sink.wants_value()
    }

    fn stopped(&self) -> bool {
        (self.stopped)() || self.stage.is_some_and(Stage::is_full) || self.sink.stopped()
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

    fn push(&mut self, pairs: &[P]) -> ControlFlow<()> {
        // A piece may find so many pairs that writing them takes minutes.
        if self.stopped() {
            return ControlFlow::Break(());
        }
        let Some(stage) = self.stage else { return self.sink.push(pairs) };
        if let Some(rows) = self.sink.absorb(pairs) {
            stage.rows.fetch_add(rows, Ordering::Relaxed);
            return ControlFlow::Continue(());
        }
        let before = stage.count.fetch_add(pairs.len(), Ordering::Relaxed);
        if before + pairs.len() <= stage.most {
            self.held.extend_from_slice(pairs);
            return ControlFlow::Continue(());
        }
        if !stage.opens {
            stage.full.store(true, Ordering::Relaxed);
            return ControlFlow::Break(());
        }
        stage.open.store(true, Ordering::Relaxed);
        self.sink.push(pairs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Kept {
        pairs: Vec<u32>,
        absorbs: bool,
    }

    impl Sink<u32> for Kept {
        fn wants_value(&self) -> bool {
            true
        }

        fn push(&mut self, pairs: &[u32]) -> ControlFlow<()> {
            self.pairs.extend_from_slice(pairs);
            ControlFlow::Continue(())
        }
    }

    impl AnswerSink<u32> for Kept {
        fn absorb(&mut self, pairs: &[u32]) -> Option<u64> {
            self.absorbs.then_some(pairs.len() as u64)
        }
    }

    #[test]
    fn held_pairs_of_all_workers_are_committed() {
        let stage = Stage::of(10, false);
        for first in [0, 5] {
            let mut sink = StagedSink::new(Kept::default(), Some(&stage), || false);
            assert!(sink.push(&[first, first + 1]).is_continue() && sink.sink.pairs.is_empty());
            sink.finish();
        }
        assert_eq!(stage.commit(), (vec![vec![0, 1], vec![5, 6]], 0));
    }

    #[test]
    fn full_stage_ends_the_range_unless_pairs_may_go_straight_on() {
        let stage = Stage::of(3, false);
        let mut sink = StagedSink::new(Kept::default(), Some(&stage), || false);
        assert!(sink.push(&[1, 2, 3]).is_continue() && !stage.is_full());
        assert!(sink.push(&[4]).is_break() && stage.is_full() && !stage.is_open());
        let stage = Stage::of(3, true);
        let mut sink = StagedSink::new(Kept::default(), Some(&stage), || false);
        assert!(sink.push(&[1, 2]).is_continue() && sink.push(&[3, 4]).is_continue());
        assert!(stage.is_open() && !stage.is_full());
        assert_eq!((sink.sink.pairs.clone(), sink.held.clone()), (vec![3, 4], vec![1, 2]));
    }

    #[test]
    fn absorbed_pairs_leave_only_their_number() {
        let stage = Stage::of(1, false);
        let mut sink =
            StagedSink::new(Kept { absorbs: true, ..Kept::default() }, Some(&stage), || false);
        assert!(sink.push(&[1, 2, 3]).is_continue());
        sink.count(4);
        sink.finish();
        assert_eq!(stage.commit(), (Vec::new(), 7));
    }
}
