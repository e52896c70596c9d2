//! `naive`: how is every pair verified, without filters?
//!
//! Every probe of a tile is compared with every build set that the join's order allows, the whole
//! overlap is counted, and the predicate itself decides. No prefix, position or required overlap is
//! used; only tiles in which no sizes match are left out earlier. This is the oracle that every other
//! technique is compared with, and it is itself tested against a brute force.
//!
//! # Memory
//!
//! The technique needs no memory in addition to the collections.

use crate::verify::Emitter;
use simjoin_core::{Result, SetId, SetPair, Sink};
use simjoin_engine::{
    Budget, Cost, CostTable, Order, Prepared, SetTask, Sets, Survey, Technique, Tile, Worker, cut,
};
use simjoin_kernels::overlap::overlap;
use std::ops::{ControlFlow, Range};

/// The technique without filters.
pub struct Naive;

impl Technique<Sets> for Naive {
    fn name(&self) -> &'static str {
        "naive"
    }

    fn cost(&self, survey: &Survey<'_>, costs: &CostTable) -> Option<Cost> {
        let tokens = 2.0 * survey.mean_size.max(1.0);
        let pairs = survey.tile.probes.len() as f64 * survey.tile.builds.len() as f64 / 2.0;
        Some(Cost { serial: costs.start, parallel: pairs * tokens * costs.merge_token })
    }

    fn memory_bytes(&self, _: &SetTask<'_>, _: &Tile, _: usize) -> u64 {
        0
    }

    fn prepare<'a>(
        &self,
        task: &SetTask<'a>,
        tile: &Tile,
        room: &Budget,
    ) -> Result<Box<dyn Prepared<Sets> + 'a>> {
        let pieces = cut(task, tile, room.piece_tokens);
        Ok(Box::new(PreparedNaive { task: *task, builds: tile.builds.clone(), pieces }))
    }
}

struct PreparedNaive<'a> {
    task: SetTask<'a>,
    builds: Range<SetId>,
    pieces: Vec<Tile>,
}

impl Prepared<Sets> for PreparedNaive<'_> {
    fn pieces(&self) -> usize {
        self.pieces.len()
    }

    fn worker<'a>(&'a self) -> Result<Box<dyn Worker<Sets> + 'a>> {
        Ok(Box::new(NaiveWorker { prepared: self, candidates: 0 }))
    }
}

struct NaiveWorker<'a> {
    prepared: &'a PreparedNaive<'a>,
    candidates: u64,
}

impl NaiveWorker<'_> {
    fn join(&mut self, piece: usize, sink: &mut dyn Sink<SetPair>) -> ControlFlow<()> {
        let SetTask { probe, build, predicate: bounds, order } = self.prepared.task;
        let mut emitter = Emitter::new(sink);
        for p in self.prepared.pieces[piece].probes.clone() {
            let r = probe.set(p);
            for b in self.prepared.builds.clone() {
                let s = build.set(b);
                let meets = match order {
                    Order::Before => b < p,
                    Order::NotLarger => s.len() <= r.len(),
                    Order::Smaller => s.len() < r.len(),
                };
                if !meets {
                    continue;
                }
                self.candidates += 1;
                let common = overlap(r, s);
                if bounds.accepts(r.len() as u32, s.len() as u32, common) {
                    emitter.push(p, b, common);
                }
            }
            emitter.flow()?;
        }
        emitter.finish()
    }
}

impl Worker<Sets> for NaiveWorker<'_> {
    fn run(&mut self, piece: usize, sink: &mut dyn Sink<SetPair>) -> Result<ControlFlow<()>> {
        Ok(self.join(piece, sink))
    }

    fn candidates(&self) -> u64 {
        self.candidates
    }
}
