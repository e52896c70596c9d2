//! How do pairs reach the user in one order, from many threads, in bounded memory?
//!
//! Each worker expands the pairs of its piece to rows in a buffer of its own. Pieces are handed on in
//! their order: the worker whose piece is next passes its rows straight on; one that is early keeps its buffer, leaves
//! it behind when the piece is done if there is enough memory, and otherwise waits.
//!
//! # Memory
//!
//! [`OutputBuffers::buffer`] rows a worker and [`OutputBuffers::early`] rows left behind, whatever the number of
//! pairs.
//!
//! # Progress
//!
//! Pieces are begun in order, so the next piece has always been begun or is left behind
//! complete; its worker never waits. No worker waits for a piece that has not been begun.

use super::{Answer, AnswerSink};
use crate::control::Control;
use crate::kind::{Direction, Kind, Task};
use parking_lot::{Condvar, Mutex, MutexGuard};
use simjoin_core::{RowPair, Sink};
use std::collections::BTreeMap;
use std::ops::ControlFlow;

/// The numbers of rows that may be held back.
#[derive(Clone, Copy)]
pub struct OutputBuffers {
    /// Rows that a worker collects before it passes them on.
    buffer: usize,
    /// Rows of finished pieces that may wait for their turn.
    early: usize,
}

impl OutputBuffers {
    /// Makes buffers as large as is useful within a number of bytes: half for workers, half for early pieces.
    pub fn within(bytes: u64, threads: usize) -> Self {
        let rows = bytes / 2 / size_of::<RowPair>() as u64;
        let each = rows / threads.max(1) as u64;
        OutputBuffers {
            buffer: each.clamp(64, 1 << 15) as usize,
            early: rows.min(1 << 20) as usize,
        }
    }
}

/// Hands rows from many threads to one consumer, in the order of pieces.
pub struct Ordered<F> {
    /// Pieces may come in any order, so no worker waits.
    any_order: bool,
    buffers: OutputBuffers,
    state: Mutex<State<F>>,
    turn: Condvar,
}

struct State<F> {
    take: F,
    flow: ControlFlow<()>,
    pairs: u64,
    /// The piece that comes next.
    next: usize,
    /// Complete pieces that are early.
    early: BTreeMap<usize, Vec<RowPair>>,
    early_rows: usize,
}

impl<F: FnMut(&[RowPair]) -> ControlFlow<()>> State<F> {
    /// Passes on rows, which are then none.
    fn pass_on(&mut self, rows: &mut Vec<RowPair>) {
        if self.flow.is_continue() && !rows.is_empty() {
            self.pairs += rows.len() as u64;
            self.flow = (self.take)(rows);
        }
        rows.clear();
    }
}

impl<F: FnMut(&[RowPair]) -> ControlFlow<()> + Send> Ordered<F> {
    /// Hands rows to `take`.
    pub fn new(buffers: OutputBuffers, take: F) -> Self {
        let state = State {
            take,
            flow: ControlFlow::Continue(()),
            pairs: 0,
            next: 0,
            early: BTreeMap::new(),
            early_rows: 0,
        };
        Ordered { any_order: false, buffers, state: Mutex::new(state), turn: Condvar::new() }
    }

    /// Passes pieces on as they come, where two processors work at once and neither waits for the other.
    pub fn in_any_order(mut self, any_order: bool) -> Self {
        self.any_order = any_order;
        self
    }

    /// Returns the number of rows handed on so far.
    pub fn pairs(&self) -> u64 {
        self.state.lock().pairs
    }

    /// Passes on the pairs of rows that no technique looks for, after all pieces.
    pub(crate) fn unsearched<K: Kind>(
        &self,
        (task, direction): &(Task<'_, K>, Direction),
        control: &Control,
    ) {
        let mut state = self.state.lock();
        let mut rows = Vec::new();
        let flow = K::expand_unsearched(task, *direction, |row| {
            rows.push(row);
            if rows.len() < self.buffers.buffer {
                return ControlFlow::Continue(());
            }
            state.pass_on(&mut rows);
            if control.stopped() { ControlFlow::Break(()) } else { state.flow }
        });
        if flow.is_continue() {
            state.pass_on(&mut rows);
        }
    }

    /// Waits until a piece is next, or the consumer wants no more.
    fn wait(&self, state: &mut MutexGuard<'_, State<F>>, piece: usize) {
        self.turn.wait_while(state, |state| {
            !self.any_order && state.next != piece && state.flow.is_continue()
        });
    }

    /// Passes on the early pieces that follow the next one, which has been passed on whole.
    fn advance(&self, state: &mut State<F>) -> ControlFlow<()> {
        if self.any_order {
            return state.flow;
        }
        state.next += 1;
        while let Some(mut rows) = state.early.remove(&state.next) {
            state.early_rows -= rows.len();
            state.pass_on(&mut rows);
            state.next += 1;
        }
        self.turn.notify_all();
        state.flow
    }
}

impl<K: Kind, F: FnMut(&[RowPair]) -> ControlFlow<()> + Send> Answer<K> for Ordered<F> {
    type Sink<'s>
        = OrderedSink<'s, K, F>
    where
        F: 's;

    fn sink<'s>(&'s self, task: &Task<'s, K>, direction: Direction) -> OrderedSink<'s, K, F> {
        OrderedSink { ordered: self, task: *task, direction, piece: 0, rows: Vec::new() }
    }
}

/// The sink of one thread, which expands pairs to rows.
pub struct OrderedSink<'s, K: Kind, F> {
    ordered: &'s Ordered<F>,
    task: Task<'s, K>,
    direction: Direction,
    piece: usize,
    rows: Vec<RowPair>,
}

impl<K: Kind, F: FnMut(&[RowPair]) -> ControlFlow<()> + Send> Sink<K::Pair>
    for OrderedSink<'_, K, F>
{
    fn wants_value(&self) -> bool {
        true
    }

    fn push(&mut self, pairs: &[K::Pair]) -> ControlFlow<()> {
        let OrderedSink { ordered, task, direction, piece, rows } = self;
        K::expand(task, *direction, pairs, |row| {
            rows.push(row);
            if rows.len() < ordered.buffers.buffer {
                return ControlFlow::Continue(());
            }
            let mut state = ordered.state.lock();
            ordered.wait(&mut state, *piece);
            state.pass_on(rows);
            if state.flow.is_break() {
                ordered.turn.notify_all();
            }
            state.flow
        })
    }
}

impl<K: Kind, F: FnMut(&[RowPair]) -> ControlFlow<()> + Send> AnswerSink<K::Pair>
    for OrderedSink<'_, K, F>
{
    fn begin(&mut self, piece: usize) {
        self.piece = piece;
    }

    fn end(&mut self) -> ControlFlow<()> {
        let OrderedSink { ordered, piece, rows, .. } = self;
        let mut state = ordered.state.lock();
        let is_early = !ordered.any_order && state.next != *piece;
        if is_early && state.early_rows + rows.len() <= ordered.buffers.early {
            state.early_rows += rows.len();
            state.early.insert(*piece, std::mem::take(rows));
            return state.flow;
        }
        ordered.wait(&mut state, *piece);
        state.pass_on(rows);
        ordered.advance(&mut state)
    }

    fn absorb(&mut self, _: &[K::Pair]) -> Option<u64> {
        None
    }
}

impl<K: Kind, F> Drop for OrderedSink<'_, K, F> {
    /// Ends the waiting of others: a worker that panics never ends its piece.
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.ordered.state.lock().flow = ControlFlow::Break(());
            self.ordered.turn.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::Order;
    use crate::sets::{SetTask, Sets};
    use simjoin_core::{Bounds, Measure, Predicate, RawSets, SetCollection, SetPair, prepare};

    /// Eight sets of one token each, and a join of them; the pairs are made up.
    fn collection() -> SetCollection {
        let mut raw = RawSets::default();
        (0..8).for_each(|token| raw.push(&[token]));
        prepare(raw, None, 8).unwrap().0
    }

    fn join(sets: &SetCollection) -> SetTask<'_> {
        let bounds = Bounds::new(Predicate::parse(Measure::Jaccard, "0.5").unwrap());
        SetTask { probe: sets, build: sets, predicate: bounds, order: Order::Before }
    }

    fn pair(probe: u32, build: u32) -> SetPair {
        SetPair { probe, build, overlap: 1 }
    }

    /// Runs pieces in a thread each, the last one first; piece p has p pairs (p, 0), (p, 1) …
    fn run(buffers: OutputBuffers, take: impl FnMut(&[RowPair]) -> ControlFlow<()> + Send) -> u64 {
        let sets = collection();
        let join = join(&sets);
        let ordered = Ordered::new(buffers, take);
        std::thread::scope(|scope| {
            for tile in (0..8).rev() {
                let mut sink = Answer::<Sets>::sink(&ordered, &join, Direction::LeftProbes);
                scope.spawn(move || {
                    sink.begin(tile as usize);
                    let pairs: Vec<SetPair> = (0..tile).map(|build| pair(tile, build)).collect();
                    let _ = sink.push(&pairs);
                    let _ = sink.end();
                });
                std::thread::yield_now();
            }
        });
        ordered.pairs()
    }

    #[test]
    fn rows_come_in_piece_order_with_any_buffers() {
        let wanted: Vec<(u32, u32)> =
            (0..8).flat_map(|tile| (0..tile).map(move |build| (tile, build))).collect();
        for (buffer, early) in [(1, 0), (2, 3), (3, 100), (1000, 0), (1000, 5), (1000, 1000)] {
            for _ in 0..50 {
                let mut seen = Vec::new();
                let mut largest = 0;
                let pairs = run(OutputBuffers { buffer, early }, |rows| {
                    largest = largest.max(rows.len());
                    seen.extend(rows.iter().map(|row| (row.left, row.right)));
                    ControlFlow::Continue(())
                });
                assert_eq!((pairs, &seen), (28, &wanted), "room for {buffer} and {early}");
                assert!(largest <= buffer);
            }
        }
    }

    #[test]
    fn break_ends_all_workers() {
        for (buffer, early) in [(1, 0), (2, 3), (1000, 1000)] {
            let mut batches = 0;
            run(OutputBuffers { buffer, early }, |_| {
                batches += 1;
                ControlFlow::Break(())
            });
            assert_eq!(batches, 1);
        }
    }

    #[test]
    fn panic_wakes_up_waiting_workers() {
        let sets = collection();
        let join = join(&sets);
        let ordered = Ordered::new(OutputBuffers { buffer: 1, early: 0 }, |_: &[RowPair]| {
            ControlFlow::Continue(())
        });
        let (first, second) = std::thread::scope(|scope| {
            let mut waiting = Answer::<Sets>::sink(&ordered, &join, Direction::LeftProbes);
            let second = scope.spawn(move || {
                waiting.begin(1);
                waiting.push(&[pair(1, 0)])
            });
            let mut failing = Answer::<Sets>::sink(&ordered, &join, Direction::LeftProbes);
            let first = scope.spawn(move || {
                failing.begin(0);
                panic!("on purpose");
            });
            (first.join(), second.join().unwrap())
        });
        assert!(first.is_err());
        assert!(second.is_break());
    }
}
