//! `naive`: what would the answer be without any cleverness?
//!
//! Every probe of a tile is compared with every build set that the join's order allows, the whole
//! overlap is counted, and the predicate itself decides. No prefix, no position, no required
//! overlap; only tiles without any partner by length are left out before. This is the oracle that
//! every other technique is compared with, and it is itself tested against a brute force.
//!
//! # Memory
//!
//! None beyond the collections.

use crate::verify::Emitter;
use simjoin_core::{PairSink, SetId};
use simjoin_kernels::overlap::overlap;
use simjoin_plan::{Join, Order, Technique, Tile, Tiler, Worker};
use std::ops::{ControlFlow, Range};

/// The technique without filters.
pub struct Naive;

impl Technique for Naive {
    fn name(&self) -> &'static str {
        "naive"
    }

    fn memory_bytes(&self, _: &Join<'_>, _: &Range<SetId>, _: usize) -> u64 {
        0
    }

    fn prepare<'a>(&self, join: &Join<'a>, builds: Range<SetId>) -> Box<dyn Tiler + 'a> {
        Box::new(NaiveTiler { join: *join, builds })
    }
}

struct NaiveTiler<'a> {
    join: Join<'a>,
    builds: Range<SetId>,
}

impl Tiler for NaiveTiler<'_> {
    fn worker<'a>(&'a self) -> Box<dyn Worker + 'a> {
        Box::new(NaiveWorker { tiler: self, candidates: 0 })
    }
}

struct NaiveWorker<'a> {
    tiler: &'a NaiveTiler<'a>,
    candidates: u64,
}

impl Worker for NaiveWorker<'_> {
    fn run(&mut self, tile: &Tile, sink: &mut dyn PairSink) -> ControlFlow<()> {
        let Join { probe, build, bounds, order } = self.tiler.join;
        let mut emitter = Emitter::new(sink);
        for p in tile.probes.clone() {
            let r = probe.set(p);
            for b in self.tiler.builds.clone() {
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

    fn candidates(&self) -> u64 {
        self.candidates
    }
}
