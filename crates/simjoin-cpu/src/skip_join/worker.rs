//! How does a probe find its answers by itself?

use super::PreparedSkip;
use crate::block_index::Fronts;
use crate::demands::Demands;
use crate::verify::{AHEAD, Emitter};
use simjoin_core::{Result, SetId, SetPair, Sink, TokenId};
use simjoin_engine::{SetTask, Sets, Worker};
use simjoin_kernels::overlap;
use simjoin_kernels::prefetch::prefetch;
use std::ops::{ControlFlow, Range};

pub(super) struct SkipWorker<'a> {
    pub(super) prepared: &'a PreparedSkip<'a>,
    pub(super) demands: Demands<'a>,
    pub(super) fronts: Fronts,
    /// For a set that the current probe has met, the number of meetings; for a set that the current leader keeps, their
    /// overlap; 0 for all others, and for all sets between groups.
    pub(super) found: Vec<u32>,
    /// At the front, the sets that the current leader keeps, then those that the current probe has met. There is one
    /// place more than sets, so that a set can be written before it is accepted.
    pub(super) candidates: Vec<u32>,
    /// The number of sets that had been met after each prefix token that has a list.
    pub(super) met: Vec<u32>,
    /// The tokens of the leader that the current follower lacks.
    pub(super) lost: Vec<TokenId>,
    /// The tokens of the current follower that the leader lacks, with their positions.
    pub(super) gained: Vec<(usize, TokenId)>,
    pub(super) verified: u64,
}

/// The sets that a probe may meet, as the index sees them.
pub(super) struct Partners {
    first_class: u32,
    last_class: u32,
    /// In a self-join, the probe's own class: not all of its sets are partners. Otherwise
    /// `u32::MAX`.
    cut_class: u32,
    /// Partners are below this unit.
    end: u32,
}

impl SkipWorker<'_> {
    /// The partners of a probe, given the range of sets, which is not empty.
    pub(super) fn partners(&self, sets: &Range<SetId>) -> Partners {
        let PreparedSkip { task: SetTask { build, .. }, builds, .. } = self.prepared;
        let last_class = build.class_of(sets.end - 1);
        let cut = sets.end < build.classes()[last_class as usize].end.min(builds.end);
        Partners {
            first_class: build.class_of(sets.start),
            last_class,
            cut_class: if cut { last_class } else { u32::MAX },
            end: sets.end - builds.start,
        }
    }

    /// Meets the partners of a probe that have one of its tokens early enough, where `rest` of its
    /// tokens stand there or later. Sets that were not met before are written to
    /// `candidates[count..]`; returns the new count. `AGAIN` says whether to count those that were.
    #[inline(always)]
    pub(super) fn meet<const AGAIN: bool>(
        &mut self,
        token: TokenId,
        rest: u32,
        partners: &Partners,
        mut count: usize,
    ) -> usize {
        let SkipWorker { prepared, demands, fronts, found, candidates, .. } = self;
        let demand = |class| {
            let required = demands.required(class);
            (required <= rest).then_some(required)
        };
        let mut add = |unit: u32| {
            let found = &mut found[unit as usize];
            let new = *found == 0;
            candidates[count] = unit;
            count += usize::from(new);
            *found += u32::from(AGAIN | new);
        };
        let (first, last) = (partners.first_class, partners.last_class);
        prepared.index.walk(fronts, token, first, last, demand, |class, units| {
            if class == partners.cut_class {
                units.iter().filter(|&&unit| unit < partners.end).for_each(|&unit| add(unit));
            } else {
                units.iter().for_each(|&unit| add(unit));
            }
        });
        count
    }

    /// Fills `candidates`, `found` and `met` with the partners that share an early token with `r`,
    /// with all demands on the position in `r` lower by `relaxed`. Returns the position of the
    /// first token that has a list.
    #[inline(always)]
    pub(super) fn meet_all(&mut self, r: &[TokenId], relaxed: u32, partners: &Partners) -> usize {
        let index = &self.prepared.index;
        let prefix = (self.demands.probe_prefix() + relaxed as usize).min(r.len());
        let (unique, tokens) = index.shared(&r[..prefix]);
        for &token in tokens {
            index.approach(&self.fronts, token);
        }
        let mut count = 0;
        self.met.clear();
        for (i, &token) in (unique..).zip(tokens) {
            count = self.meet::<true>(token, (r.len() - i) as u32 + relaxed, partners, count);
            self.met.push(count as u32);
        }
        unique
    }

    /// Asks for the tokens of a candidate that will be needed soon.
    #[inline(always)]
    pub(super) fn look_ahead(&self, at: usize, count: usize) {
        if at + AHEAD < count {
            let PreparedSkip { task: SetTask { build, .. }, builds, .. } = self.prepared;
            prefetch(build.set(builds.start + self.candidates[at + AHEAD]));
        }
    }

    /// Pushes the answers of one probe.
    fn scratch<const EXACT: bool>(&mut self, probe: SetId, emitter: &mut Emitter<'_>) {
        let PreparedSkip { task: SetTask { probe: probes, build, .. }, builds, .. } = self.prepared;
        let sets = self.demands.turn_to(probe);
        if sets.is_empty() {
            return;
        }
        let partners = self.partners(&sets);
        let r = probes.set(probe);
        let unique = self.meet_all(r, 0, &partners);
        let count = self.met.last().map_or(0, |&count| count as usize);
        self.verified += count as u64;
        let mut at = 0;
        for (i, segment) in (unique..).zip(0..self.met.len()) {
            while at < self.met[segment] as usize {
                self.look_ahead(at, count);
                let unit = self.candidates[at];
                let found = std::mem::take(&mut self.found[unit as usize]);
                let id = builds.start + unit;
                let s = build.set(id);
                let required = self.demands.required(build.class_of(id));
                let (a, b) = after((r, required, i), (s, required), found);
                if let Some(overlap) = overlap::verify::<EXACT>(a, b, found, required) {
                    emitter.push(probe, id, overlap);
                }
                at += 1;
            }
        }
    }

    fn join<const EXACT: bool>(
        &mut self,
        piece: usize,
        sink: &mut dyn Sink<SetPair>,
    ) -> ControlFlow<()> {
        let tile = &self.prepared.pieces[piece];
        let mut emitter = Emitter::new(sink);
        let mut start = tile.probes.start;
        while start < tile.probes.end {
            self.demands.turn_to(start);
            let group = self.group(start, tile.probes.end);
            start = group.probes.end;
            if group.difference > 0 {
                self.derive::<EXACT>(&group, &mut emitter);
                emitter.flow()?;
            } else {
                for probe in group.probes {
                    self.scratch::<EXACT>(probe, &mut emitter);
                    emitter.flow()?;
                }
            }
        }
        emitter.finish()
    }
}

impl Worker<Sets> for SkipWorker<'_> {
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

/// The parts of two sets after the ranges that have been compared.
///
/// The ranges are the first `|r|-α+1` tokens of `r` and the first `|s|-β+1` tokens of `s`, for the demands `α` and `β`.
/// They have `found` common tokens, the first at position `i` of `r`. Let them end with `u` and `v`. If `u < v`, every
/// common token up to `u` has been found; the rest are the tokens of `r` after its range and those of `s` above `u`,
/// which come after the `found` common ones. If `v ≤ u`, the same holds with the roles exchanged, and the first `i`
/// tokens of `r` have no partner.
#[inline(always)]
pub(super) fn after<'s>(
    (r, alpha, i): (&'s [TokenId], u32, usize),
    (s, beta): (&'s [TokenId], u32),
    found: u32,
) -> (&'s [TokenId], &'s [TokenId]) {
    let (p, q) = (r.len() + 1 - alpha as usize, s.len() + 1 - beta as usize);
    if r[p - 1] < s[q - 1] {
        (&r[p..], &s[found as usize..])
    } else {
        (&r[i + found as usize..], &s[q..])
    }
}
