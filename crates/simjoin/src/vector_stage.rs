//! What becomes of the pairs of vectors that a device has found, if it fails?
//!
//! They are held until what they belong to is complete, and handed on then, so that a device that fails leaves
//! nothing behind and the CPU can do the same as if nothing had happened: one stripe, where CPU cores have the same
//! pieces ([`Staged::hand_on`] after each); all of the join, where a device's pieces are its own. Where there are more
//! pairs than may be held, they go straight on, and a failure after that ends the join. Where pairs are only counted
//! or only unite groups, a number is held and no pair: uniting twice does no harm.

use crate::stage::Stage;
use simjoin_core::{VectorPair, VectorSink};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// A sink for one thread that is told where pieces begin and end.
pub(crate) trait PieceSink: VectorSink {
    fn begin(&mut self, _piece: usize) {}

    fn end(&mut self) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    /// Takes of pairs what may be taken again, all but their number; `false` where that is nothing.
    fn takes_again(&mut self, pairs: &[VectorPair]) -> bool;
}

/// How many pairs all threads that attend to devices may hold.
pub(crate) struct Hold {
    most: usize,
    held: AtomicUsize,
    opened: AtomicBool,
}

impl Hold {
    /// Bytes that it takes at most, of so many.
    pub(crate) fn bytes(memory: u64) -> u64 {
        Stage::bytes(memory)
    }

    /// As many as are of use within the memory.
    pub(crate) fn within(memory: u64) -> Self {
        // Arrays that grow may be half empty.
        let most = Self::bytes(memory) / (2 * size_of::<VectorPair>() as u64);
        Hold { most: most as usize, held: AtomicUsize::new(0), opened: AtomicBool::new(false) }
    }

    /// Whether pairs of anything went straight on.
    pub(crate) fn is_open(&self) -> bool {
        self.opened.load(Ordering::Relaxed)
    }
}

/// A thread's sink, with or without a place before it where pairs wait.
pub(crate) struct Staged<'h, S> {
    pub(crate) sink: S,
    hold: Option<&'h Hold>,
    pairs: Vec<VectorPair>,
    counted: u64,
    open: bool,
}

impl<'h, S: PieceSink> Staged<'h, S> {
    pub(crate) fn new(sink: S, hold: Option<&'h Hold>) -> Self {
        Staged { sink, hold, pairs: Vec::new(), counted: 0, open: false }
    }

    /// Whether some pairs of what is not complete have gone on.
    pub(crate) fn is_open(&self) -> bool {
        self.open
    }

    /// Hands on what is held: it is complete.
    pub(crate) fn hand_on(&mut self) -> ControlFlow<()> {
        self.open = false;
        self.pass()
    }

    fn pass(&mut self) -> ControlFlow<()> {
        let (pairs, counted) = self.take();
        if counted > 0 {
            self.sink.count(counted);
        }
        if pairs.is_empty() { ControlFlow::Continue(()) } else { self.sink.push(&pairs) }
    }

    /// Forgets what is held: it will be found again.
    pub(crate) fn forget(&mut self) {
        self.take();
    }

    fn take(&mut self) -> (Vec<VectorPair>, u64) {
        if let Some(hold) = self.hold {
            hold.held.fetch_sub(self.pairs.len(), Ordering::Relaxed);
        }
        (std::mem::take(&mut self.pairs), std::mem::take(&mut self.counted))
    }
}

impl<S: PieceSink> VectorSink for Staged<'_, S> {
    fn wants_distance(&self) -> bool {
        self.sink.wants_distance()
    }

    fn stopped(&self) -> bool {
        self.sink.stopped()
    }

    fn only_counts(&self) -> bool {
        self.sink.only_counts()
    }

    fn count(&mut self, pairs: u64) {
        match self.hold {
            Some(_) => self.counted += pairs,
            None => self.sink.count(pairs),
        }
    }

    fn push(&mut self, pairs: &[VectorPair]) -> ControlFlow<()> {
        let Some(hold) = self.hold.filter(|_| !self.open) else { return self.sink.push(pairs) };
        if self.sink.takes_again(pairs) {
            self.counted += pairs.len() as u64;
            return ControlFlow::Continue(());
        }
        let held = hold.held.fetch_add(pairs.len(), Ordering::Relaxed);
        if held + pairs.len() <= hold.most {
            self.pairs.extend_from_slice(pairs);
            return ControlFlow::Continue(());
        }
        hold.held.fetch_sub(pairs.len(), Ordering::Relaxed);
        hold.opened.store(true, Ordering::Relaxed);
        self.open = true;
        self.pass()?;
        self.sink.push(pairs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Kept {
        pairs: Vec<VectorPair>,
        number: u64,
        again: bool,
    }

    impl VectorSink for Kept {
        fn wants_distance(&self) -> bool {
            true
        }

        fn count(&mut self, pairs: u64) {
            self.number += pairs;
        }

        fn push(&mut self, pairs: &[VectorPair]) -> ControlFlow<()> {
            self.pairs.extend_from_slice(pairs);
            ControlFlow::Continue(())
        }
    }

    impl PieceSink for Kept {
        fn takes_again(&mut self, _: &[VectorPair]) -> bool {
            self.again
        }
    }

    fn pairs(rows: std::ops::Range<u32>) -> Vec<VectorPair> {
        rows.map(|probe| VectorPair { probe, build: 0, distance: 0.5 }).collect()
    }

    #[test]
    fn pairs_go_on_when_what_they_belong_to_is_complete() {
        let hold = Hold::within(1 << 20);
        let mut staged = Staged::new(Kept::default(), Some(&hold));
        assert!(staged.push(&pairs(0..10)).is_continue() && staged.sink.pairs.is_empty());
        staged.forget();
        assert!(staged.push(&pairs(5..20)).is_continue() && staged.hand_on().is_continue());
        assert_eq!(staged.sink.pairs, pairs(5..20));
        assert!(!staged.is_open() && !hold.is_open());
        assert_eq!(hold.held.into_inner(), 0);
    }

    #[test]
    fn more_than_may_be_held_goes_straight_on() {
        let hold = Hold { most: 10, held: AtomicUsize::new(0), opened: AtomicBool::new(false) };
        let mut staged = Staged::new(Kept::default(), Some(&hold));
        let mut other = Staged::new(Kept::default(), Some(&hold));
        assert!(staged.push(&pairs(0..6)).is_continue());
        // What one holds, another may not.
        assert!(other.push(&pairs(0..5)).is_continue());
        assert_eq!(other.sink.pairs, pairs(0..5));
        assert!(other.is_open() && !staged.is_open() && hold.is_open());
        assert!(staged.push(&pairs(6..10)).is_continue());
        assert!(staged.sink.pairs.is_empty() && !staged.is_open());
        assert!(staged.push(&pairs(10..11)).is_continue());
        assert_eq!(staged.sink.pairs, pairs(0..11));
        assert_eq!(hold.held.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn of_what_may_be_taken_again_only_the_number_is_held() {
        let hold = Hold { most: 1, held: AtomicUsize::new(0), opened: AtomicBool::new(false) };
        let mut staged = Staged::new(Kept { again: true, ..Kept::default() }, Some(&hold));
        assert!(staged.push(&pairs(0..9)).is_continue());
        staged.count(3);
        assert_eq!((staged.sink.number, staged.is_open()), (0, false));
        assert!(staged.hand_on().is_continue());
        assert_eq!((staged.sink.number, staged.sink.pairs.len()), (12, 0));
    }
}
