//! What becomes of the pairs of vectors that a device has found, if it fails?
//!
//! They are held until what they belong to is complete, and handed on then, so that a device that fails leaves
//! nothing behind and the CPU can do the same as if nothing had happened: one stripe, where CPU cores have the same
//! pieces ([`Staged::hand_on`] after each); all of the join, where a device's pieces are its own. Where there are more
//! pairs than may be held, they go straight on, and a failure after that ends the join. Where pairs are only counted
//! or only unite groups, a number is held and no pair: uniting twice does no harm.

use super::staging::Stage;
use simjoin_core::{Sink, VectorPair};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

/// A sink for one thread that is told where pieces begin and end.
pub(crate) trait PieceSink: Sink<VectorPair> {
    fn begin(&mut self, _piece: usize) {}

    fn end(&mut self) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    /// Takes of pairs what may be taken again, all but their number; `false` where that is nothing.
    fn takes_again(&mut self, pairs: &[VectorPair]) -> bool;
}

/// How many pairs all threads that attend to devices may hold, and of what.
pub(crate) struct Hold {
    most: usize,
    held: AtomicUsize,
    /// Pairs wait for the whole join, not for their piece.
    whole: bool,
    state: AtomicU8,
}

/// Of the whole join: pairs are held; they go straight on; a device has failed, and nothing goes on any more.
const HOLDING: u8 = 0;
const OPEN: u8 = 1;
const CLOSED: u8 = 2;

impl Hold {
    /// Bytes that it takes at most, of so many.
    pub(crate) fn bytes(memory: u64) -> u64 {
        Stage::bytes(memory)
    }

    /// As many as are of use within the memory.
    pub(crate) fn within(memory: u64, whole: bool) -> Self {
        // Arrays that grow may be half empty.
        let most = Self::bytes(memory) / (2 * size_of::<VectorPair>() as u64);
        Self::of(most as usize, whole)
    }

    fn of(most: usize, whole: bool) -> Self {
        Hold { most, held: AtomicUsize::new(0), whole, state: AtomicU8::new(HOLDING) }
    }

    /// Lets pairs go straight on, if that may be.
    fn open(&self) -> bool {
        !self.whole || self.becomes(OPEN)
    }

    fn close(&self) -> bool {
        self.becomes(CLOSED)
    }

    fn becomes(&self, wanted: u8) -> bool {
        let order = Ordering::SeqCst;
        match self.state.compare_exchange(HOLDING, wanted, order, order) {
            Ok(_) => true,
            Err(state) => state == wanted,
        }
    }
}

/// A thread's sink, with a place before it where pairs wait.
pub(crate) struct Staged<'h, S> {
    pub(crate) sink: S,
    hold: &'h Hold,
    pairs: Vec<VectorPair>,
    counted: u64,
    open: bool,
}

impl<'h, S: PieceSink> Staged<'h, S> {
    pub(crate) fn new(sink: S, hold: &'h Hold) -> Self {
        Staged { sink, hold, pairs: Vec::new(), counted: 0, open: false }
    }

    /// Whether some pairs of what is not complete have gone on.
    pub(crate) fn is_open(&self) -> bool {
        self.open
    }

    /// The device has failed: whether nothing of the whole join has gone on, and nothing will.
    pub(crate) fn close(&self) -> bool {
        self.hold.close()
    }

    /// Hands on what is held: it is complete.
    pub(crate) fn hand_on(&mut self) -> ControlFlow<()> {
        self.open = false;
        self.pass()
    }

    fn pass(&mut self) -> ControlFlow<()> {
        let counted = std::mem::take(&mut self.counted);
        if counted > 0 {
            self.sink.count(counted);
        }
        if self.pairs.is_empty() {
            return ControlFlow::Continue(());
        }
        let flow = self.sink.push(&self.pairs);
        self.forget();
        flow
    }

    /// Forgets what is held: it will be found again.
    pub(crate) fn forget(&mut self) {
        self.hold.held.fetch_sub(self.pairs.len(), Ordering::Relaxed);
        self.pairs = Vec::new();
        self.counted = 0;
    }
}

impl<S: PieceSink> Sink<VectorPair> for Staged<'_, S> {
    fn wants_value(&self) -> bool {
        self.sink.wants_value()
    }

    fn stopped(&self) -> bool {
        self.sink.stopped()
    }

    fn only_counts(&self) -> bool {
        self.sink.only_counts()
    }

    fn count(&mut self, pairs: u64) {
        self.counted += pairs;
    }

    fn push(&mut self, pairs: &[VectorPair]) -> ControlFlow<()> {
        if self.open {
            return self.sink.push(pairs);
        }
        if self.sink.takes_again(pairs) {
            self.counted += pairs.len() as u64;
            return ControlFlow::Continue(());
        }
        let held = self.hold.held.fetch_add(pairs.len(), Ordering::Relaxed);
        if held + pairs.len() <= self.hold.most {
            self.pairs.extend_from_slice(pairs);
            return ControlFlow::Continue(());
        }
        self.hold.held.fetch_sub(pairs.len(), Ordering::Relaxed);
        if !self.hold.open() {
            return ControlFlow::Break(());
        }
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

    impl Sink<VectorPair> for Kept {
        fn wants_value(&self) -> bool {
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
        let hold = Hold::within(1 << 20, false);
        let mut staged = Staged::new(Kept::default(), &hold);
        assert!(staged.push(&pairs(0..10)).is_continue() && staged.sink.pairs.is_empty());
        staged.forget();
        assert!(staged.push(&pairs(5..20)).is_continue() && staged.hand_on().is_continue());
        assert_eq!(staged.sink.pairs, pairs(5..20));
        assert!(!staged.is_open() && hold.close());
        assert_eq!(hold.held.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn more_than_may_be_held_goes_straight_on() {
        let hold = Hold::of(10, true);
        let mut staged = Staged::new(Kept::default(), &hold);
        let mut other = Staged::new(Kept::default(), &hold);
        assert!(staged.push(&pairs(0..6)).is_continue());
        // What one holds, another may not.
        assert!(other.push(&pairs(0..5)).is_continue());
        assert_eq!(other.sink.pairs, pairs(0..5));
        assert!(other.is_open() && !staged.is_open());
        // Too late to take anything back.
        assert!(!hold.close());
        assert!(staged.push(&pairs(6..10)).is_continue());
        assert!(staged.sink.pairs.is_empty() && !staged.is_open());
        assert!(staged.push(&pairs(10..11)).is_continue());
        assert_eq!(staged.sink.pairs, pairs(0..11));
        assert_eq!(hold.held.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn nothing_goes_on_after_a_device_has_failed() {
        let hold = Hold::of(10, true);
        let mut staged = Staged::new(Kept::default(), &hold);
        assert!(staged.push(&pairs(0..10)).is_continue() && hold.close());
        assert!(staged.push(&pairs(10..11)).is_break());
        assert!(staged.sink.pairs.is_empty() && hold.close());
    }

    #[test]
    fn of_what_may_be_taken_again_only_the_number_is_held() {
        let hold = Hold::of(1, true);
        let mut staged = Staged::new(Kept { again: true, ..Kept::default() }, &hold);
        assert!(staged.push(&pairs(0..9)).is_continue());
        staged.count(3);
        assert_eq!((staged.sink.number, staged.is_open()), (0, false));
        assert!(staged.hand_on().is_continue());
        assert_eq!((staged.sink.number, staged.sink.pairs.len()), (12, 0));
    }
}
