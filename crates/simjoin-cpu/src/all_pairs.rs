//! `all-pairs`: which sets share a rare token with this one?
//!
//! AllPairs (Bayardo, Ma, Srikant 2007) in the filter–verification form of Mann, Augsten and Bouros
//! (2016): each set's index prefix is put into inverted lists; a probe walks the lists of its own
//! prefix, within the stretch that the length filter leaves, and counts how often it meets each
//! set. Every set met is verified.
//!
//! # Flow
//!
//! ```text
//! probe prefix ─► inverted lists ─► count per set ─► sets met ─► merge after the prefix ─► sink
//!                 (length filter)                    (candidates)
//! ```
//!
//! # Exactness
//!
//! Two sets that satisfy the bounds share a token within probe prefix and index prefix (see
//! [`Bounds::probe_prefix`](simjoin_core::Bounds::probe_prefix)), so the pair is met; what is met
//! is verified by the exact demand.
//!
//! # Memory
//!
//! The index, and 8 bytes per build set and worker, whatever the number of candidates.

use crate::demands::{Demands, index_prefixes};
use crate::prefix_index::{Cursors, PrefixIndex};
use crate::verify::{Emitter, verify};
use simjoin_core::{PairSink, SetId};
use simjoin_kernels::prefetch::prefetch;
use simjoin_plan::{Join, Technique, Tile, Tiler, Worker};
use std::ops::{ControlFlow, Range};

/// Prefix filter and length filter.
pub struct AllPairs;

impl Technique for AllPairs {
    fn name(&self) -> &'static str {
        "all-pairs"
    }

    fn memory_bytes(&self, join: &Join<'_>, builds: &Range<SetId>, threads: usize) -> u64 {
        set_index_bytes(join, builds, threads, false)
    }

    fn prepare<'a>(&self, join: &Join<'a>, builds: Range<SetId>) -> Box<dyn Tiler + 'a> {
        let index = index_sets(join, &builds, false);
        Box::new(AllPairsTiler { join: *join, builds, index })
    }
}

/// An index over the prefixes of single sets, numbered from the start of `builds`.
pub(crate) fn index_sets(
    join: &Join<'_>,
    builds: &Range<SetId>,
    with_positions: bool,
) -> PrefixIndex {
    let lengths = index_prefixes(join);
    let build = join.build;
    let prefixes =
        builds.clone().map(|id| &build.set(id)[..lengths[build.class_of(id) as usize] as usize]);
    PrefixIndex::new(build, with_positions, prefixes)
}

/// Bytes for [`index_sets`], its cursors, and counters and candidates of each worker.
pub(crate) fn set_index_bytes(
    join: &Join<'_>,
    builds: &Range<SetId>,
    threads: usize,
    with_positions: bool,
) -> u64 {
    let lengths = index_prefixes(join);
    let prefix_tokens =
        builds.clone().map(|id| u64::from(lengths[join.build.class_of(id) as usize])).sum();
    PrefixIndex::memory_bytes(join.build, with_positions, prefix_tokens, threads)
        + 8 * builds.len() as u64 * threads as u64
}

struct AllPairsTiler<'a> {
    join: Join<'a>,
    builds: Range<SetId>,
    index: PrefixIndex,
}

impl Tiler for AllPairsTiler<'_> {
    fn worker<'a>(&'a self) -> Box<dyn Worker + 'a> {
        Box::new(AllPairsWorker {
            tiler: self,
            demands: Demands::new(&self.join, self.builds.clone()),
            cursors: self.index.cursors(),
            met: vec![0; self.builds.len()],
            candidates: vec![0; self.builds.len() + 1],
            verified: 0,
        })
    }
}

struct AllPairsWorker<'a> {
    tiler: &'a AllPairsTiler<'a>,
    demands: Demands<'a>,
    cursors: Cursors,
    /// How often the current probe has met each build set; all 0 between probes.
    met: Vec<u32>,
    /// The build sets met by the current probe, at the front.
    candidates: Vec<u32>,
    verified: u64,
}

impl AllPairsWorker<'_> {
    /// Fills `candidates` with every build set in `partners` that shares a prefix token.
    fn filter(&mut self, probe: SetId, partners: &Range<SetId>) -> usize {
        let index = &self.tiler.index;
        let base = self.tiler.builds.start;
        let prefix = &self.tiler.join.probe.set(probe)[..self.demands.probe_prefix()];
        let mut count = 0;
        for &token in index.shared(prefix).1 {
            let (units, _) =
                index.units(&mut self.cursors, token, partners.start - base, partners.end - base);
            for &unit in units {
                let met = &mut self.met[unit as usize];
                self.candidates[count] = unit;
                count += usize::from(*met == 0);
                *met += 1;
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
            self.verified += count as u64;
            for at in 0..count {
                if at + AHEAD < count {
                    prefetch(build.set(base + self.candidates[at + AHEAD]));
                }
                let unit = self.candidates[at];
                let found = std::mem::take(&mut self.met[unit as usize]);
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

/// How many candidates ahead of the one being verified tokens are asked for.
pub(crate) const AHEAD: usize = 8;

impl Worker for AllPairsWorker<'_> {
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
