//! How do pairs reach the user in one order, from many threads, in bounded memory?
//!
//! Each worker expands the pairs of its tile to rows in a buffer of its own. Tiles are handed on in
//! their order: a worker whose tile's turn it is passes rows straight on; one that is early keeps
//! its buffer, leaves it behind when the tile is done and there is room, and otherwise waits for
//! its turn.
//!
//! # Memory
//!
//! [`OutputBuffers::buffer`] rows a worker and [`OutputBuffers::early`] rows left behind, whatever the number of
//! pairs.
//!
//! # Progress
//!
//! Tiles are begun in order, so the tile whose turn it is has always been begun or is left behind
//! complete; its worker never waits. Nobody waits for a tile that has not been begun.

use super::count::repeated_sets;
use crate::run::{Control, TileSink};
use crate::sets::{Direction, SetTask};
use simjoin_core::{Bounds, Measure, RowPair, SetCollection, SetPair, Side, Sink};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// How many rows may be held back.
#[derive(Clone, Copy)]
pub struct OutputBuffers {
    /// Rows that a worker collects before it passes them on.
    buffer: usize,
    /// Rows of finished tiles that may wait for their turn.
    early: usize,
}

impl OutputBuffers {
    /// As much as is of use, within so many bytes: half for buffers, half for early tiles.
    pub fn within(bytes: u64, threads: usize) -> Self {
        let rows = bytes / 2 / size_of::<RowPair>() as u64;
        let each = rows / threads.max(1) as u64;
        OutputBuffers {
            buffer: each.clamp(64, 1 << 15) as usize,
            early: rows.min(1 << 20) as usize,
        }
    }
}

/// Hands rows from many threads to one consumer, in the order of tiles.
pub struct Ordered<F> {
    /// Tiles may come in any order: nobody waits.
    any_order: bool,
    room: OutputBuffers,
    state: Mutex<State<F>>,
    turn: Condvar,
}

struct State<F> {
    take: F,
    flow: ControlFlow<()>,
    pairs: u64,
    /// The tile whose turn it is.
    next: usize,
    /// Complete tiles that are early.
    early: BTreeMap<usize, Vec<RowPair>>,
    early_rows: usize,
}

impl<F: FnMut(&[RowPair]) -> ControlFlow<()>> State<F> {
    fn pass_on(&mut self, rows: &[RowPair]) {
        if self.flow.is_continue() && !rows.is_empty() {
            self.pairs += rows.len() as u64;
            self.flow = (self.take)(rows);
        }
    }
}

impl<F: FnMut(&[RowPair]) -> ControlFlow<()> + Send> Ordered<F> {
    /// Hands rows to `take`.
    pub fn new(room: OutputBuffers, take: F) -> Self {
        let state = State {
            take,
            flow: ControlFlow::Continue(()),
            pairs: 0,
            next: 0,
            early: BTreeMap::new(),
            early_rows: 0,
        };
        let (state, turn) = (Mutex::new(state), Condvar::new());
        Ordered { any_order: false, room, state, turn }
    }

    /// Passes tiles on as they come: for two that work at once, and neither waits for the other.
    pub fn in_any_order(mut self, any_order: bool) -> Self {
        self.any_order = any_order;
        self
    }

    /// Makes the sink of one thread.
    pub fn worker<'a>(
        &'a self,
        join: &SetTask<'a>,
        part: Direction,
        measure: Measure,
    ) -> OrderedSink<'a, F> {
        OrderedSink { rows: self.rows(), join: *join, part, measure }
    }

    /// A worker's rows on their way out.
    pub(crate) fn rows(&self) -> RowSink<'_, F> {
        RowSink { ordered: self, tile: 0, rows: Vec::new() }
    }

    /// Returns the number of rows handed on so far.
    pub fn pairs(&self) -> u64 {
        self.lock().pairs
    }

    /// Passes on the pairs of rows of one side that hold the same set.
    pub fn repeats(
        &self,
        (sets, left_input): (&SetCollection, Side),
        (bounds, measure): (Bounds, Measure),
        control: &Control,
    ) {
        let mut state = self.lock();
        let mut rows = Vec::new();
        for set in repeated_sets(sets, bounds) {
            let size = sets.size(set);
            let similarity = measure.similarity(size, size, size);
            for (at, &left) in sets.rows(set).iter().enumerate() {
                for &right in &sets.rows(set)[at + 1..] {
                    rows.push(RowPair { left, right, overlap: size, similarity, left_input });
                    if rows.len() >= self.room.buffer {
                        state.pass_on(&rows);
                        rows.clear();
                    }
                }
                if state.flow.is_break() || control.stopped() {
                    return;
                }
            }
        }
        state.pass_on(&rows);
    }

    /// Passes on rows that belong to no tile, after all tiles.
    pub fn rest(&self, rows: &[RowPair]) -> ControlFlow<()> {
        let mut state = self.lock();
        state.pass_on(rows);
        state.flow
    }

    fn lock(&self) -> MutexGuard<'_, State<F>> {
        // A poisoned lock means that another worker panicked; its panic is the one to report.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until it is this tile's turn, or the consumer has had enough.
    fn wait(&self, tile: usize) -> MutexGuard<'_, State<F>> {
        let too_early = |state: &mut State<F>| !self.any_order && state.next != tile;
        self.turn
            .wait_while(self.lock(), |state| too_early(state) && state.flow.is_continue())
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// The tile whose turn it is has been passed on whole: so are those that follow and are early.
    fn advance(&self, mut state: MutexGuard<'_, State<F>>) -> ControlFlow<()> {
        if self.any_order {
            return state.flow;
        }
        state.next += 1;
        while let Some(rows) = {
            let next = state.next;
            state.early.remove(&next)
        } {
            state.early_rows -= rows.len();
            state.pass_on(&rows);
            state.next += 1;
        }
        self.turn.notify_all();
        state.flow
    }
}

/// The rows of one worker.
pub struct RowSink<'a, F> {
    ordered: &'a Ordered<F>,
    tile: usize,
    rows: Vec<RowPair>,
}

impl<F: FnMut(&[RowPair]) -> ControlFlow<()> + Send> RowSink<'_, F> {
    pub(crate) fn begin(&mut self, tile: usize) {
        self.tile = tile;
    }

    /// Takes a row.
    pub(crate) fn push(&mut self, row: RowPair) -> ControlFlow<()> {
        self.rows.push(row);
        if self.rows.len() < self.ordered.room.buffer {
            return ControlFlow::Continue(());
        }
        let mut state = self.ordered.wait(self.tile);
        state.pass_on(&self.rows);
        self.rows.clear();
        if state.flow.is_break() {
            self.ordered.turn.notify_all();
        }
        state.flow
    }

    pub(crate) fn end(&mut self) -> ControlFlow<()> {
        let mut state = self.ordered.lock();
        let early = !self.ordered.any_order && state.next != self.tile;
        if early && state.early_rows + self.rows.len() <= self.ordered.room.early {
            state.early_rows += self.rows.len();
            let rows = std::mem::take(&mut self.rows);
            state.early.insert(self.tile, rows);
            return state.flow;
        }
        drop(state);
        let mut state = self.ordered.wait(self.tile);
        state.pass_on(&self.rows);
        self.rows.clear();
        self.ordered.advance(state)
    }
}

impl<F> Drop for RowSink<'_, F> {
    /// A worker that panics never ends its tile: nobody may go on waiting for it.
    fn drop(&mut self) {
        if std::thread::panicking() {
            let mut state = self.ordered.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.flow = ControlFlow::Break(());
            self.ordered.turn.notify_all();
        }
    }
}

/// The rows of a probe and of a set that it found as a person sees them: left and right.
pub(crate) fn as_shown(part: Direction, probe: u32, build: u32) -> (u32, u32) {
    let exchange = match part {
        Direction::LeftItself | Direction::RightItself => build < probe,
        Direction::LeftProbes => false,
        Direction::RightProbes => true,
    };
    if exchange { (build, probe) } else { (probe, build) }
}

/// The input that the left row of a pair belongs to.
pub(crate) fn input_of_left(part: Direction) -> Side {
    if part == Direction::RightItself { Side::Right } else { Side::Left }
}

/// The sink of one thread, which expands pairs of sets to rows.
pub struct OrderedSink<'a, F> {
    rows: RowSink<'a, F>,
    join: SetTask<'a>,
    part: Direction,
    measure: Measure,
}

impl<F: FnMut(&[RowPair]) -> ControlFlow<()> + Send> OrderedSink<'_, F> {
    /// Takes a row as it is.
    pub fn push_row(&mut self, row: RowPair) -> ControlFlow<()> {
        self.rows.push(row)
    }
}

impl<F: FnMut(&[RowPair]) -> ControlFlow<()> + Send> Sink<SetPair> for OrderedSink<'_, F> {
    fn wants_value(&self) -> bool {
        true
    }

    fn push(&mut self, pairs: &[SetPair]) -> ControlFlow<()> {
        let SetTask { probe: probes, build: builds, .. } = self.join;
        let left_input = input_of_left(self.part);
        for &SetPair { probe, build, overlap } in pairs {
            let similarity =
                self.measure.similarity(probes.size(probe), builds.size(build), overlap);
            for &a in probes.rows(probe) {
                for &b in builds.rows(build) {
                    let (left, right) = as_shown(self.part, a, b);
                    self.rows.push(RowPair { left, right, overlap, similarity, left_input })?;
                }
            }
        }
        ControlFlow::Continue(())
    }
}

impl<F: FnMut(&[RowPair]) -> ControlFlow<()> + Send> TileSink for OrderedSink<'_, F> {
    fn begin(&mut self, tile: usize) {
        self.rows.begin(tile);
    }

    fn end(&mut self) -> ControlFlow<()> {
        self.rows.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::Order;
    use simjoin_core::{Predicate, RawSets, prepare};

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

    /// Tile t has t pairs (t, 0), (t, 1) …; a thread a tile, the later tiles first.
    fn run(room: OutputBuffers, take: impl FnMut(&[RowPair]) -> ControlFlow<()> + Send) -> u64 {
        let sets = collection();
        let join = join(&sets);
        let ordered = Ordered::new(room, take);
        std::thread::scope(|scope| {
            for tile in (0..8).rev() {
                let mut sink = ordered.worker(&join, Direction::LeftProbes, Measure::Jaccard);
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
    fn rows_come_in_tile_order_however_little_room_there_is() {
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
    fn enough_is_enough_for_everybody() {
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
    fn a_panic_ends_the_waiting() {
        let sets = collection();
        let join = join(&sets);
        let ordered = Ordered::new(OutputBuffers { buffer: 1, early: 0 }, |_: &[RowPair]| {
            ControlFlow::Continue(())
        });
        let (first, second) = std::thread::scope(|scope| {
            let mut waiting = ordered.worker(&join, Direction::LeftProbes, Measure::Jaccard);
            let second = scope.spawn(move || {
                waiting.begin(1);
                waiting.push(&[pair(1, 0)])
            });
            let mut failing = ordered.worker(&join, Direction::LeftProbes, Measure::Jaccard);
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
