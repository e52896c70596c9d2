//! How is one technique run on one tile?

use simjoin_core::{SetPair, Sink};
use simjoin_engine::{Budget, Prepared, SetTask, Sets, Technique, Tile};
use std::ops::ControlFlow;

struct Collect {
    exact: bool,
    pairs: Vec<SetPair>,
}

impl Sink<SetPair> for Collect {
    fn wants_value(&self) -> bool {
        self.exact
    }

    fn push(&mut self, pairs: &[SetPair]) -> ControlFlow<()> {
        self.pairs.extend_from_slice(pairs);
        ControlFlow::Continue(())
    }
}

/// A sink that only counts rows.
struct Count<'a> {
    task: SetTask<'a>,
    rows: u64,
}

impl Sink<SetPair> for Count<'_> {
    fn wants_value(&self) -> bool {
        false
    }

    fn only_counts(&self) -> bool {
        true
    }

    fn count(&mut self, rows: u64) {
        self.rows += rows;
    }

    fn push(&mut self, pairs: &[SetPair]) -> ControlFlow<()> {
        let SetTask { probe, build, .. } = self.task;
        for pair in pairs {
            self.rows += u64::from(probe.weight(pair.probe)) * u64::from(build.weight(pair.build));
        }
        ControlFlow::Continue(())
    }
}

/// Returns the pairs of a tile in the order in which they are pushed, and the number of candidates.
pub fn run(
    technique: &dyn Technique<Sets>,
    task: &SetTask<'_>,
    tile: &Tile,
    room: &Budget,
    exact: bool,
) -> (Vec<SetPair>, u64) {
    let mut sink = Collect { exact, pairs: Vec::new() };
    let verified = run_into(technique, task, tile, room, &mut sink);
    (sink.pairs, verified)
}

/// Counts the pairs of rows of a tile.
pub fn count(
    technique: &dyn Technique<Sets>,
    task: &SetTask<'_>,
    tile: &Tile,
    room: &Budget,
) -> u64 {
    let mut sink = Count { task: *task, rows: 0 };
    run_into(technique, task, tile, room, &mut sink);
    sink.rows
}

/// Returns the pairs of some tiles, one after the other, for which a technique prepares once.
pub fn run_on(
    technique: &dyn Technique<Sets>,
    task: &SetTask<'_>,
    tiles: &[Tile],
    room: &Budget,
) -> Vec<SetPair> {
    let mut sink = Collect { exact: true, pairs: Vec::new() };
    let mut prepared = technique.prepare(task, &Tile::whole(task), room).unwrap();
    for tile in tiles {
        assert!(prepared.go_on(tile), "{tile:?}");
        run_prepared(&mut *prepared, room, &mut sink);
    }
    sink.pairs
}

fn run_into(
    technique: &dyn Technique<Sets>,
    task: &SetTask<'_>,
    tile: &Tile,
    room: &Budget,
    sink: &mut dyn Sink<SetPair>,
) -> u64 {
    run_prepared(&mut *technique.prepare(task, tile, room).unwrap(), room, sink)
}

/// Deals pieces to `room.threads` workers in turn.
fn run_prepared(
    prepared: &mut dyn Prepared<Sets>,
    room: &Budget,
    sink: &mut dyn Sink<SetPair>,
) -> u64 {
    let mut verified = 0;
    for round in 0..prepared.rounds() {
        prepared.begin(round).unwrap();
        let mut workers: Vec<_> = (0..room.threads).map(|_| prepared.worker().unwrap()).collect();
        for piece in 0..prepared.pieces() {
            assert!(workers[piece % room.threads].run(piece, sink).unwrap().is_continue());
        }
        verified += workers.iter().map(|worker| worker.candidates()).sum::<u64>();
    }
    verified
}
