//! How do a filter over single sets and the verification form a technique?
//!
//! `all-pairs` and `ppjoin` differ only in their [`Filter`], which chooses candidates among a probe's
//! partners. The common parts are in this file: an index over the prefixes of single sets, a worker's
//! space, and the verification of every candidate. If one side is much smaller than the other,
//! only tokens of the smaller side are indexed or looked up.

use crate::demands::{Demands, index_prefixes};
use crate::few_tokens::{Few, FewTokens};
use crate::prefix_index::{Cursors, PrefixIndex};
use crate::verify::{AHEAD, Emitter, verify};
use simjoin_core::{Measure, Result, SetId, SetPair, Sink};
use simjoin_engine::{
    CandidateFinder, CandidateSink, CandidateSource, Cost, CostTable, Prepared, SetTask, Sets,
    Survey, Tile, Worker, cut,
};
use simjoin_kernels::prefetch::prefetch;
use std::marker::PhantomData;
use std::ops::{ControlFlow, Range};

/// Finds the candidates of a probe.
pub(crate) trait Filter: Send + Sync + 'static {
    /// Whether the index must hold positions.
    const POSITIONS: bool;

    /// Writes candidates among `partners` to the front of `space.candidates`, each once, and the
    /// number of prefix tokens that each shares with the probe to `space.found`. Returns the number of
    /// candidates. Every partner that satisfies the bounds must be a candidate. A candidate with the
    /// number 0 has been dropped again.
    fn candidates(space: &mut Space<'_>, probe: SetId, partners: &Range<SetId>) -> usize;
}

/// Prepares a range of build sets for a filter.
pub(crate) fn prepare<'a, F: Filter>(
    task: &SetTask<'a>,
    tile: &Tile,
    piece_tokens: usize,
) -> PreparedSets<'a, F> {
    let builds = tile.builds.clone();
    let lengths = index_prefixes(task);
    let build = task.build;
    let prefix = |id| &build.set(id)[..lengths[build.class_of(id) as usize] as usize];
    let unit = |id| (id - builds.start, prefix(id));
    let few = Few::of(task, tile);
    let index = if few == Few::Probes {
        let tokens = FewTokens::of_probes(task, tile);
        // Stored, because reading a set again would take longer.
        let met: Vec<SetId> = builds.clone().filter(|&id| tokens.contain_any(prefix(id))).collect();
        let units = met.iter().map(|&id| unit(id));
        PrefixIndex::new(build, F::POSITIONS, units, |token| tokens.contain(token))
    } else {
        PrefixIndex::new(build, F::POSITIONS, builds.clone().map(unit), |_| true)
    };
    let lookups = (few == Few::Builds).then(|| FewTokens::of_builds(task, tile));
    let pieces = cut(task, tile, piece_tokens);
    let index = Index { task: *task, builds, index, lookups };
    PreparedSets { index, pieces, filter: PhantomData }
}

/// The factor for the cost of walking lists outside containment joins (fitted on 2026-11-17, see
/// `benchmarks/recorded/2026-11-15-techniques.md` for the joins).
const WALKED: f64 = 1.3;

/// Returns the cost of a technique with an index over single sets; a share of the list entries that probes
/// visit become candidates.
pub(crate) fn cost(survey: &Survey<'_>, costs: &CostTable, candidates: f64) -> Cost {
    // Long sets are merged from the ends of their prefixes.
    let mut merge = (10.0 + survey.mean_size.min(100.0)) * costs.merge_token;
    let (mut candidates, mut walked) = (candidates, WALKED);
    if survey.task.predicate.parts().0 == Measure::Containment {
        // The index prefix of a small set is short: most sets are met only once and stay candidates. They
        // have all sizes, and are rarely in the cache.
        candidates = (4.0 * candidates).min(0.85);
        merge += 2.0 * costs.verify;
        walked = 1.0;
    }
    Cost {
        // The index and the cursors have a place for every token.
        serial: costs.start
            + 2.0 * f64::from(survey.task.build.universe()) * costs.pass
            + survey.build_entries as f64 * survey.live * costs.index,
        parallel: survey.probe_entries as f64 * survey.live * costs.lookup
            + survey.sets as f64 * costs.pass
            + walked * survey.list_pairs * (costs.walk + candidates * merge),
    }
}

/// Returns the bytes of the index, its cursors, and the numbers and candidates of each worker.
pub(crate) fn memory_bytes(
    task: &SetTask<'_>,
    tile: &Tile,
    threads: usize,
    with_positions: bool,
) -> u64 {
    let lengths = index_prefixes(task);
    let builds = &tile.builds;
    let prefix_tokens =
        builds.clone().map(|id| u64::from(lengths[task.build.class_of(id) as usize])).sum();
    let few = match Few::of(task, tile) {
        Few::Neither => 0,
        Few::Builds => FewTokens::memory_bytes(task),
        Few::Probes => FewTokens::memory_bytes(task) + 4 * builds.len() as u64,
    };
    PrefixIndex::memory_bytes(task.build, with_positions, prefix_tokens, threads)
        + 8 * builds.len() as u64 * threads as u64
        + few
}

/// Build sets and the index over them. Units of the index are sets, counted from `builds.start`.
pub(crate) struct Index<'a> {
    pub(crate) task: SetTask<'a>,
    pub(crate) builds: Range<SetId>,
    pub(crate) index: PrefixIndex,
    /// The tokens to look up, if they are few.
    lookups: Option<FewTokens>,
}

pub(crate) struct PreparedSets<'a, F> {
    index: Index<'a>,
    pieces: Vec<Tile>,
    filter: PhantomData<F>,
}

impl<F: Filter> Prepared<Sets> for PreparedSets<'_, F> {
    fn pieces(&self) -> usize {
        self.pieces.len()
    }

    fn worker<'a>(&'a self) -> Result<Box<dyn Worker<Sets> + 'a>> {
        Ok(Box::new(self.set_worker()))
    }
}

impl<F: Filter> CandidateSource for PreparedSets<'_, F> {
    fn pieces(&self) -> usize {
        self.pieces.len()
    }

    fn finder<'a>(&'a self) -> Box<dyn CandidateFinder + 'a> {
        Box::new(self.set_worker())
    }
}

impl<F: Filter> PreparedSets<'_, F> {
    fn set_worker(&self) -> SetWorker<'_, F> {
        let Index { task, builds, index, .. } = &self.index;
        let space = Space {
            index: &self.index,
            demands: Demands::new(task, builds.clone()),
            cursors: index.cursors(),
            found: vec![0; builds.len()],
            candidates: vec![0; builds.len() + 1],
        };
        let pieces = &self.pieces;
        SetWorker { space, pieces, verified: 0, filter: PhantomData }
    }
}

/// The working space of a filter.
pub(crate) struct Space<'a> {
    pub(crate) index: &'a Index<'a>,
    pub(crate) demands: Demands<'a>,
    pub(crate) cursors: Cursors,
    /// The number of prefix tokens that the current probe shares with each build set; 0 for sets that it
    /// has not met or that were dropped. Between probes all numbers are 0.
    pub(crate) found: Vec<u32>,
    /// The build sets that the current probe has met, at the front. The vector has one entry more than
    /// there are sets, so that a filter may write an entry before it decides whether to keep it.
    pub(crate) candidates: Vec<u32>,
}

struct SetWorker<'a, F> {
    space: Space<'a>,
    pieces: &'a [Tile],
    verified: u64,
    filter: PhantomData<F>,
}

impl<F: Filter> SetWorker<'_, F> {
    /// Filters the partners of a probe and returns the number of candidates.
    #[inline(always)]
    fn filter(&mut self, probe: SetId) -> usize {
        let space = &mut self.space;
        let partners = space.demands.turn_to(probe);
        if partners.is_empty() {
            return 0;
        }
        let prefix = &space.index.task.probe.set(probe)[..space.demands.probe_prefix()];
        if let Some(tokens) = &space.index.lookups
            && !tokens.contain_any(prefix)
        {
            return 0;
        }
        F::candidates(space, probe, &partners)
    }

    fn join<const EXACT: bool>(
        &mut self,
        piece: usize,
        sink: &mut dyn Sink<SetPair>,
    ) -> ControlFlow<()> {
        let SetTask { probe: probes, build, .. } = self.space.index.task;
        let base = self.space.index.builds.start;
        let mut emitter = Emitter::new(sink);
        for probe in self.pieces[piece].probes.clone() {
            let count = self.filter(probe);
            let space = &mut self.space;
            let r = probes.set(probe);
            let probe_prefix = space.demands.probe_prefix();
            for at in 0..count {
                if at + AHEAD < count {
                    prefetch(build.set(base + space.candidates[at + AHEAD]));
                }
                let unit = space.candidates[at];
                let found = std::mem::take(&mut space.found[unit as usize]);
                if found == 0 {
                    continue;
                }
                self.verified += 1;
                let class = build.class_of(base + unit);
                let required = space.demands.required(class);
                let index_prefix = space.demands.index_prefix(class);
                let s = build.set(base + unit);
                if let Some(overlap) =
                    verify::<EXACT>(r, probe_prefix, s, index_prefix, found, required)
                {
                    emitter.push(probe, base + unit, overlap);
                }
            }
            emitter.flow()?;
        }
        emitter.finish()
    }
}

impl<F: Filter> Worker<Sets> for SetWorker<'_, F> {
    fn run(&mut self, piece: usize, sink: &mut dyn Sink<SetPair>) -> Result<ControlFlow<()>> {
        Ok(if sink.wants_value() {
            self.join::<true>(piece, sink)
        } else {
            self.join::<false>(piece, sink)
        })
    }

    fn candidates(&self) -> u64 {
        self.verified
    }
}

impl<F: Filter> CandidateFinder for SetWorker<'_, F> {
    fn find(&mut self, piece: usize, sink: &mut dyn CandidateSink) -> Result<ControlFlow<()>> {
        let base = self.space.index.builds.start;
        for probe in self.pieces[piece].probes.clone() {
            let count = self.filter(probe);
            let Space { found, candidates, .. } = &mut self.space;
            let mut kept = 0;
            for at in 0..count {
                let unit = candidates[at];
                candidates[kept] = base + unit;
                kept += usize::from(std::mem::take(&mut found[unit as usize]) > 0);
            }
            let enough = kept > 0 && sink.candidates(probe, &candidates[..kept])?.is_break();
            if enough || sink.stopped() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn verified(&self) -> u64 {
        self.verified
    }
}
