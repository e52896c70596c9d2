//! `ppjoin`: which sets share a rare token early enough?
//!
//! PPJoin (Xiao, Wang, Lin, Yu 2008): AllPairs whose lists also hold positions. When a probe meets
//! a set at positions `i` and `j`, the two can share at most what they have shared so far, this
//! token, and the shorter of the two rests; a set for which that is too little is dropped.
//!
//! # Flow
//!
//! ```text
//! probe prefix ─► inverted lists ─► position test ─► count per set ─► merge after the prefix ─► sink
//!                 (length filter)   (per size class)  (candidates)
//! ```
//!
//! Lists ascend by set size, so each is walked in runs of one size, for which the demand and the
//! size are constants.
//!
//! # Exactness
//!
//! The prefix filter is that of `all-pairs`. The position test drops a pair only when `found +
//! min(|r|-i, |s|-j)`, an upper bound of its overlap, is below the demand. A dropped pair's count
//! returns to 0; should it be met again, at later positions, the bound is smaller still, so it
//! stays dropped.
//!
//! # Memory
//!
//! The index with positions, and 8 bytes per build set and worker.

use crate::all_pairs::{AHEAD, index_sets, set_index_bytes};
use crate::demands::Demands;
use crate::prefix_index::{Cursors, PrefixIndex};
use crate::verify::{Emitter, verify};
use simjoin_core::{PairSink, SetId};
use simjoin_kernels::prefetch::prefetch;
use simjoin_plan::{Join, Technique, Tile, Tiler, Worker};
use std::ops::{ControlFlow, Range};

/// Prefix, length and positional filter.
pub struct PpJoin;

impl Technique for PpJoin {
    fn name(&self) -> &'static str {
        "ppjoin"
    }

    fn memory_bytes(&self, join: &Join<'_>, builds: &Range<SetId>, threads: usize) -> u64 {
        set_index_bytes(join, builds, threads, true)
    }

    fn prepare<'a>(&self, join: &Join<'a>, builds: Range<SetId>) -> Box<dyn Tiler + 'a> {
        let index = index_sets(join, &builds, true);
        Box::new(PpJoinTiler { join: *join, builds, index })
    }
}

struct PpJoinTiler<'a> {
    join: Join<'a>,
    builds: Range<SetId>,
    index: PrefixIndex,
}

impl Tiler for PpJoinTiler<'_> {
    fn worker<'a>(&'a self) -> Box<dyn Worker + 'a> {
        Box::new(PpJoinWorker {
            tiler: self,
            demands: Demands::new(&self.join, self.builds.clone()),
            cursors: self.index.cursors(),
            found: vec![0; self.builds.len()],
            candidates: vec![0; self.builds.len() + 1],
            verified: 0,
        })
    }
}

struct PpJoinWorker<'a> {
    tiler: &'a PpJoinTiler<'a>,
    demands: Demands<'a>,
    cursors: Cursors,
    /// Common prefix tokens of the current probe and each build set; 0 for sets not met or
    /// dropped, and for all sets between probes.
    found: Vec<u32>,
    /// The build sets met by the current probe, at the front; some may have been dropped since.
    candidates: Vec<u32>,
    verified: u64,
}

impl PpJoinWorker<'_> {
    /// Fills `candidates` with every build set in `partners` that passes the position test.
    fn filter(&mut self, probe: SetId, partners: &Range<SetId>) -> usize {
        let PpJoinTiler { join, builds, index } = self.tiler;
        let (build, base) = (join.build, builds.start);
        let r = join.probe.set(probe);
        let (lonely, tokens) = index.shared(&r[..self.demands.probe_prefix()]);
        let mut count = 0;
        for (i, &token) in (lonely..).zip(tokens) {
            let (units, range) =
                index.units(&mut self.cursors, token, partners.start - base, partners.end - base);
            let positions = index.positions(range);
            let rest = (r.len() - i) as u32;
            let mut at = 0;
            while at < units.len() {
                // One run of sets of one size.
                let class = build.class_of(base + units[at]);
                let required = self.demands.required(class);
                let class = build.classes()[class as usize];
                let run_end = class.end - base;
                while at < units.len() && units[at] < run_end {
                    let unit = units[at];
                    let found = &mut self.found[unit as usize];
                    let passes = *found + rest.min(class.size - positions[at]) >= required;
                    self.candidates[count] = unit;
                    count += usize::from(passes & (*found == 0));
                    *found = if passes { *found + 1 } else { 0 };
                    at += 1;
                }
            }
        }
        count
    }

    fn join<const EXACT: bool>(&mut self, tile: &Tile, sink: &mut dyn PairSink) -> ControlFlow<()> {
        let Join { probe: probes, build, .. } = self.tiler.join;
        let base = self.tiler.builds.start;
        let mut emitter = Emitter::new(sink);
        for probe in tile.probes.clone() {
            let partners = self.demands.turn_to(probe);
            if partners.is_empty() {
                continue;
            }
            let count = self.filter(probe, &partners);
            let r = probes.set(probe);
            for at in 0..count {
                if at + AHEAD < count {
                    prefetch(build.set(base + self.candidates[at + AHEAD]));
                }
                let unit = self.candidates[at];
                let found = std::mem::take(&mut self.found[unit as usize]);
                if found == 0 {
                    continue;
                }
                self.verified += 1;
                let class = build.class_of(base + unit);
                let required = self.demands.required(class);
                let found = verify::<EXACT>(
                    r,
                    self.demands.probe_prefix(),
                    build.set(base + unit),
                    self.demands.index_prefix(class),
                    found,
                    required,
                );
                if let Some(overlap) = found {
                    emitter.push(probe, base + unit, overlap);
                }
            }
            emitter.flow()?;
        }
        emitter.finish()
    }
}

impl Worker for PpJoinWorker<'_> {
    fn run(&mut self, tile: &Tile, sink: &mut dyn PairSink) -> ControlFlow<()> {
        if sink.wants_overlap() {
            self.join::<true>(tile, sink)
        } else {
            self.join::<false>(tile, sink)
        }
    }

    fn candidates(&self) -> u64 {
        self.verified
    }
}
