//! `skip-join`: what can be skipped because of what was seen before?
//!
//! SKJ (Wang, Qin, Lin, Zhang, Chang 2017): PPJoin that makes use of relations between sets, twice.
//!
//! * *Index-level skipping.* Each list is cut into blocks of sets of one size that ascend by
//!   position, so the first set that fails the position test ends the block. Where it failed once
//!   it fails for all later probes, which are no smaller, so the block is cut there.
//! * *Answer-level skipping.* Neighbouring probes of one size that differ in a token or two form a
//!   group. The first, the leader, looks for all sets that any of them could match; the others, its
//!   followers, take their answers from there. Groups are formed where an estimate says that it
//!   saves time.
//!
//! # Flow
//!
//! ```text
//! probe prefix ─► blocks of lists ─► front of each block ─► count per set ─► merge ─► sink
//!                 (length filter)    (position test)        (candidates)
//!
//! leader prefix, a little longer ─► as above ─► merge, a lower demand ─► its answers ─► sink
//!                                                   │
//! follower: tokens gained and lost ─────────────────┴─► look them up ───► its answers ─► sink
//!           prefix tokens gained ─► as above ─► sets not met by the leader ─► merge ──┘
//! ```
//!
//! # Exactness
//!
//! Let `r` be a probe of size `n`, `s` a set of size `m` that it must share `α` tokens with, and
//! say that the two *meet* at a common token at positions `i` of `r` and `j` of `s`.
//!
//! *Skipping in blocks.* Only meetings with `n-i ≥ α` and `m-j ≥ α` are looked at. The first common
//! token of an answer is one, or fewer than `α` could be common. The two conditions leave the first
//! `n-α+1` tokens of `r` and the first `m-α+1` tokens of `s`, so the meetings seen are exactly the
//! common tokens of those two stretches, and the merge may start behind them as it does behind
//! prefixes; see [`after`]. (`α` is at least what prefixes are made for, so the stretches lie within
//! the prefixes.) The demand of a size `m` only grows with `n`, so a front never has to grow again.
//!
//! *Deriving answers.* Let `x` be a leader and `y` a follower, both of size `n`, that differ in at
//! most `d` tokens each way, and let `s` be an answer of `y`. Let their first common token `w` stand
//! at `i` in `y` and `j` in `s`; so `n-i ≥ α` and `m-j ≥ α`.
//!
//! * If `x` holds `w`, it has at most `d` tokens more before it than `y` has, so it holds it at a
//!   position `k` with `n-k ≥ α-d`. The leader walks its first tokens as long as that holds, and of
//!   each block the front for the demand `α`, to which `s` belongs. So it meets `s`. Moreover `|x∩s|
//!   ≥ |y∩s| - |y∖x| ≥ α-d`, so `s` passes the leader's verification, which demands only `α-d`, and
//!   is kept with its overlap. Its overlap with `y` is `|x∩s| - |(x∖y)∩s| + |(y∖x)∩s|`.
//! * If `x` lacks `w`, it is one of the tokens `y∖x` within the prefix of `y`, whose lists the
//!   follower walks itself.
//!
//! What the leader keeps is never verified again for the follower, so no pair is pushed twice. The
//! leader meets all sets that the last of the group may meet, in a self-join also itself; each member
//! takes those that the order allows it.
//!
//! # Memory
//!
//! The index in blocks (up to 16 bytes per indexed prefix token, and up to 8 for each worker), and 8
//! bytes per build set and worker, whatever the number of candidates.

use crate::block_index::{BlockIndex, Fronts};
use crate::demands::{Demands, index_prefixes};
use crate::set_join;
use crate::verify::{AHEAD, Emitter};
use simjoin_core::{Measure, Result, SetId, SetPair, Sink, TokenId};
use simjoin_engine::{
    Budget, Cost, CostTable, Order, Prepared, SetTask, Sets, Survey, Technique, Tile, Worker, cut,
};
use simjoin_kernels::overlap;
use simjoin_kernels::prefetch::prefetch;
use std::ops::{ControlFlow, Range};

/// Prefix, length and positional filter that skip parts of lists and whole probes.
#[derive(Default)]
pub struct SkipJoin {
    answers: Answers,
}

/// Where the answers of a probe come from.
#[derive(Clone, Copy, Debug, Default)]
enum Answers {
    /// From the leader of a group where the estimate says that it is cheaper.
    #[default]
    Estimated,
    /// From a leader that differs in no more than this many tokens, if there is one.
    #[cfg_attr(not(test), expect(dead_code, reason = "forced by tests and measurements"))]
    Derived(u32),
}

/// In how many tokens a follower may differ from its leader. Among neighbours with one first token,
/// groups wherever possible were slower with 2 than with 1 in 15 of 18 joins measured (2026-11-15,
/// 2-core AMD EPYC).
const DIFFERENCE: u32 = 1;

/// Groups are looked for only among probes with at least this many prefix tokens. Shorter prefixes
/// are walked in less time than a group costs: with groups wherever possible, Jaccard 0.5 took 43.6
/// ms instead of 37.3 for `kosarak_36k`, whose sets are small; Jaccard 0.9 took 18.3 ms instead of
/// 23.3 for `debian_files`, whose sets are large (2026-11-15, 2-core AMD EPYC).
const LEAST_PREFIX: usize = 8;

/// What looking up a list costs beside walking it, in sets walked. Tuned as above.
const PER_LIST: u64 = 16;

/// What a leader's longer merges and its followers' looking up cost, in percent of walking the lists
/// of one probe. Tuned as above.
const RELAXED_PERCENT: u64 = 50;

impl Technique<Sets> for SkipJoin {
    fn name(&self) -> &'static str {
        "skip-join"
    }

    fn cost(&self, survey: &Survey<'_>, units: &CostTable) -> Option<Cost> {
        // As ppjoin, but only the sets met in time are walked, through blocks.
        let cost = set_join::cost(survey, units, 0.35 * survey.list_position);
        let skipped = survey.list_pairs * (1.0 - survey.list_position) * units.walk;
        let blocks = survey.probe_entries as f64 * survey.live * units.lookup;
        // What a set contains is mostly what a similar one contains: a third is derived (retail and two
        // others at containment 0.8 and 1, 2-core AMD EPYC, 2026-11-15).
        let (measure, ..) = survey.join.predicate.parts();
        let derived = if measure == Measure::Containment { 0.65 } else { 1.0 };
        let shared = derived * (cost.shared + blocks - skipped);
        Some(Cost { serial: 1.4 * cost.serial, shared })
    }

    fn memory_bytes(&self, join: &SetTask<'_>, tile: &Tile, threads: usize) -> u64 {
        let builds = &tile.builds;
        let lengths = index_prefixes(join);
        let prefix_tokens =
            builds.clone().map(|id| u64::from(lengths[join.build.class_of(id) as usize])).sum();
        let largest = join.probe.classes().last().map_or(0, |class| u64::from(class.size));
        BlockIndex::memory_bytes(join.build, prefix_tokens, threads)
            + threads as u64 * (8 * builds.len() as u64 + 4 * largest)
    }

    fn prepare<'a>(
        &self,
        join: &SetTask<'a>,
        tile: &Tile,
        room: &Budget,
    ) -> Result<Box<dyn Prepared<Sets> + 'a>> {
        let builds = tile.builds.clone();
        let index = BlockIndex::new(join.build, &builds, &index_prefixes(join));
        let pieces = cut(join, tile, room.piece_tokens);
        Ok(Box::new(PreparedSkip { join: *join, builds, index, answers: self.answers, pieces }))
    }
}

struct PreparedSkip<'a> {
    join: SetTask<'a>,
    builds: Range<SetId>,
    /// Units are sets, counted from `builds.start`.
    index: BlockIndex,
    answers: Answers,
    pieces: Vec<Tile>,
}

impl Prepared<Sets> for PreparedSkip<'_> {
    fn pieces(&self) -> usize {
        self.pieces.len()
    }

    fn worker<'a>(&'a self) -> Result<Box<dyn Worker<Sets> + 'a>> {
        Ok(Box::new(self.skip_worker()))
    }
}

impl PreparedSkip<'_> {
    fn skip_worker(&self) -> SkipWorker<'_> {
        let largest = self.join.probe.classes().last().map_or(0, |class| class.size);
        SkipWorker {
            prepared: self,
            demands: Demands::new(&self.join, self.builds.clone()),
            fronts: self.index.fronts(),
            found: vec![0; self.builds.len()],
            candidates: vec![0; self.builds.len() + 1],
            met: Vec::with_capacity(largest as usize),
            lost: Vec::new(),
            gained: Vec::new(),
            verified: 0,
        }
    }
}

struct SkipWorker<'a> {
    prepared: &'a PreparedSkip<'a>,
    demands: Demands<'a>,
    fronts: Fronts,
    /// For a set that the current probe has met, how often; for one kept by the current leader,
    /// their overlap; 0 for all others, and for all sets between groups.
    found: Vec<u32>,
    /// The sets kept by the current leader, then those met by the current probe, at the front. One
    /// longer than there are sets, so that one may write first and decide then.
    candidates: Vec<u32>,
    /// How many sets had been met after each prefix token that has a list.
    met: Vec<u32>,
    /// The tokens of the leader that the current follower lacks.
    lost: Vec<TokenId>,
    /// The tokens of the current follower that the leader lacks, with their positions.
    gained: Vec<(usize, TokenId)>,
    verified: u64,
}

/// The sets that a probe may meet, as the index sees them.
struct Partners {
    first_class: u32,
    last_class: u32,
    /// In a self-join, the probe's own class: not all of its sets are partners. Otherwise
    /// `u32::MAX`.
    cut_class: u32,
    /// Partners are below this unit.
    end: u32,
}

/// Neighbouring probes of one size.
struct Group {
    probes: Range<SetId>,
    /// In how many tokens the others differ from the first, at most; 0 if each of them is to be
    /// joined from scratch.
    difference: u32,
}

impl SkipWorker<'_> {
    /// The group that begins with `start`.
    #[inline(always)]
    fn group(&mut self, start: SetId, limit: SetId) -> Group {
        let probes = self.prepared.join.probe;
        let most = match self.prepared.answers {
            Answers::Estimated if self.demands.probe_prefix() < LEAST_PREFIX => {
                return Group { probes: start..start + 1, difference: 0 };
            }
            Answers::Estimated => DIFFERENCE,
            Answers::Derived(difference) => difference,
        };
        let x = probes.set(start);
        let size = x.len() as u32;
        let limit = probes.classes()[probes.class_of(start) as usize].end.min(limit);
        let alike = size.saturating_sub(most).max(1);
        let (mut end, mut difference) = (start + 1, 0);
        while end < limit {
            let y = probes.set(end);
            // Sets that differ in one token agree at one end, or nearly always.
            if most == 1 && x[0] != y[0] && x[x.len() - 1] != y[x.len() - 1] {
                break;
            }
            let Some(common) = overlap::verify::<true>(x, y, 0, alike) else { break };
            difference = difference.max(size - common);
            end += 1;
        }
        let group = Group { probes: start..end, difference };
        let derive = match self.prepared.answers {
            Answers::Estimated => difference > 0 && self.pays(&group),
            Answers::Derived(_) => true,
        };
        Group { difference: if derive { difference } else { 0 }, ..group }
    }

    /// Whether followers are likely to save more than a leader costs. Both are measured in sets on
    /// lists; the estimate depends on the index and the group alone, not on earlier tiles.
    #[inline(never)]
    fn pays(&mut self, group: &Group) -> bool {
        let PreparedSkip { join: SetTask { probe: probes, build, .. }, index, .. } = self.prepared;
        let sets = self.demands.turn_to(group.probes.end - 1);
        if sets.is_empty() {
            return false;
        }
        let prefix = self.demands.probe_prefix();
        let first_class = build.class_of(sets.start);
        let x = probes.set(group.probes.start);
        let longer = (prefix + group.difference as usize).min(x.len());
        let mut sum = |tokens: &[TokenId]| -> u64 {
            let tokens = index.shared(tokens).1;
            let lengths =
                tokens.iter().map(|&token| index.length(&mut self.fronts, token, first_class));
            lengths.map(|length| PER_LIST + u64::from(length)).sum()
        };
        let (own, further) = (sum(&x[..prefix]), sum(&x[prefix..longer]));
        let followers = group.probes.len() as u64 - 1;
        let leader = further + RELAXED_PERCENT * (own + further) / 100;
        // Most groups end here: the tokens gained can only make it worse.
        if followers * own <= leader {
            return false;
        }
        let mut gained = 0;
        for y in group.probes.start + 1..group.probes.end {
            differences(x, probes.set(y), &mut self.lost, &mut self.gained);
            for &(position, token) in &self.gained {
                if position < prefix {
                    gained += sum(&[token]);
                }
            }
        }
        followers * own > leader + gained
    }

    /// The partners of a probe, given the range of sets, which is not empty.
    fn partners(&self, sets: &Range<SetId>) -> Partners {
        let PreparedSkip { join: SetTask { build, .. }, builds, .. } = self.prepared;
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
    fn meet<const AGAIN: bool>(
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
    fn meet_all(&mut self, r: &[TokenId], relaxed: u32, partners: &Partners) -> usize {
        let index = &self.prepared.index;
        let prefix = (self.demands.probe_prefix() + relaxed as usize).min(r.len());
        let (lonely, tokens) = index.shared(&r[..prefix]);
        for &token in tokens {
            index.approach(&self.fronts, token);
        }
        let mut count = 0;
        self.met.clear();
        for (i, &token) in (lonely..).zip(tokens) {
            count = self.meet::<true>(token, (r.len() - i) as u32 + relaxed, partners, count);
            self.met.push(count as u32);
        }
        lonely
    }

    /// Asks for the tokens of a candidate that will be needed soon.
    #[inline(always)]
    fn look_ahead(&self, at: usize, count: usize) {
        if at + AHEAD < count {
            let PreparedSkip { join: SetTask { build, .. }, builds, .. } = self.prepared;
            prefetch(build.set(builds.start + self.candidates[at + AHEAD]));
        }
    }

    /// Pushes the answers of one probe.
    fn scratch<const EXACT: bool>(&mut self, probe: SetId, emitter: &mut Emitter<'_>) {
        let PreparedSkip { join: SetTask { probe: probes, build, .. }, builds, .. } = self.prepared;
        let sets = self.demands.turn_to(probe);
        if sets.is_empty() {
            return;
        }
        let partners = self.partners(&sets);
        let r = probes.set(probe);
        let lonely = self.meet_all(r, 0, &partners);
        let count = self.met.last().map_or(0, |&count| count as usize);
        self.verified += count as u64;
        let mut at = 0;
        for (i, segment) in (lonely..).zip(0..self.met.len()) {
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

    /// Pushes the answers of a group: those of the leader, then those of each follower.
    #[inline(never)]
    fn derive<const EXACT: bool>(&mut self, group: &Group, emitter: &mut Emitter<'_>) {
        let probes = self.prepared.join.probe;
        // The last member meets all that any member meets.
        let sets = self.demands.turn_to(group.probes.end - 1);
        if sets.is_empty() {
            return;
        }
        let leader = group.probes.start;
        let kept = self.lead(leader, group.difference, &sets, emitter);
        for follower in leader + 1..group.probes.end {
            differences(probes.set(leader), probes.set(follower), &mut self.lost, &mut self.gained);
            let sets = self.demands.turn_to(follower);
            if !sets.is_empty() {
                self.follow::<EXACT>(follower, kept, &sets, emitter);
            }
        }
        for at in 0..kept {
            self.found[self.candidates[at] as usize] = 0;
        }
    }

    /// Pushes the answers of a leader, and keeps every set of a range that a follower could match,
    /// with its overlap, at the front of `candidates` and in `found`; returns how many.
    fn lead(
        &mut self,
        leader: SetId,
        difference: u32,
        sets: &Range<SetId>,
        emitter: &mut Emitter<'_>,
    ) -> usize {
        let PreparedSkip { join, builds, .. } = self.prepared;
        let SetTask { probe: probes, build, order, .. } = *join;
        let own_end = self.demands.turn_to(leader).end;
        let partners = self.partners(sets);
        let x = probes.set(leader);
        let lonely = self.meet_all(x, difference, &partners);
        let count = self.met.last().map_or(0, |&count| count as usize);
        self.verified += count as u64;
        let (mut at, mut kept) = (0, 0);
        for (i, segment) in (lonely..).zip(0..self.met.len()) {
            while at < self.met[segment] as usize {
                self.look_ahead(at, count);
                let unit = self.candidates[at];
                let found = std::mem::take(&mut self.found[unit as usize]);
                let id = builds.start + unit;
                let s = build.set(id);
                let required = self.demands.required(build.class_of(id));
                let relaxed = required.saturating_sub(difference).max(1);
                let overlap = if order == Order::Before && id == leader {
                    // Tokens without a list are common to no two sets, but to a set and itself.
                    Some(x.len() as u32)
                } else {
                    let (a, b) = after((x, relaxed, i), (s, required), found);
                    overlap::verify::<true>(a, b, found, relaxed)
                };
                if let Some(overlap) = overlap {
                    if overlap >= required && id < own_end {
                        emitter.push(leader, id, overlap);
                    }
                    self.found[unit as usize] = overlap;
                    self.candidates[kept] = unit;
                    kept += 1;
                }
                at += 1;
            }
        }
        kept
    }

    /// Pushes the answers of a follower whose differences from its leader are at hand.
    fn follow<const EXACT: bool>(
        &mut self,
        follower: SetId,
        kept: usize,
        sets: &Range<SetId>,
        emitter: &mut Emitter<'_>,
    ) {
        let PreparedSkip { join: SetTask { probe: probes, build, .. }, builds, index, .. } =
            self.prepared;
        let y = probes.set(follower);
        let (lost, gained) = (self.lost.len() as u32, self.gained.len() as u32);
        for at in 0..kept {
            let unit = self.candidates[at];
            let id = builds.start + unit;
            let with_leader = self.found[unit as usize];
            let required = self.demands.required(build.class_of(id));
            if id >= sets.end || with_leader + gained < required {
                continue;
            }
            self.verified += 1;
            if !EXACT && with_leader >= required + lost {
                emitter.push(follower, id, with_leader - lost);
                continue;
            }
            let s = build.set(id);
            let holds = |token: &TokenId| u32::from(s.binary_search(token).is_ok());
            let more: u32 = self.gained.iter().map(|(_, token)| holds(token)).sum();
            let less: u32 = self.lost.iter().map(holds).sum();
            let overlap = with_leader + more - less;
            if overlap >= required {
                emitter.push(follower, id, overlap);
            }
        }
        // Sets that only the tokens gained lead to.
        let partners = self.partners(sets);
        let mut count = kept;
        for at in 0..self.gained.len() {
            let (position, token) = self.gained[at];
            if position < self.demands.probe_prefix() && !index.shared(&[token]).1.is_empty() {
                count = self.meet::<false>(token, (y.len() - position) as u32, &partners, count);
            }
        }
        self.verified += (count - kept) as u64;
        for at in kept..count {
            let unit = self.candidates[at];
            self.found[unit as usize] = 0;
            let id = builds.start + unit;
            let required = self.demands.required(build.class_of(id));
            if let Some(overlap) = overlap::verify::<EXACT>(y, build.set(id), 0, required) {
                emitter.push(follower, id, overlap);
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

/// What is left of two sets behind the stretches that have been compared.
///
/// The stretches are the first `|r|-α+1` tokens of `r` and the first `|s|-β+1` tokens of `s`, for
/// the demands `α` and `β` given; `found` tokens are common to them, the first at position `i` of
/// `r`. Let them end with `u` and `v`. If `u < v`, every common token up to `u` is among those
/// found; what is left are the tokens of `r` behind its stretch and those of `s` above `u`, which
/// come after the `found` common ones. If `v ≤ u`, the same holds with the roles exchanged, and of
/// `r` the first `i` tokens have no partner at all.
#[inline(always)]
fn after<'s>(
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

/// Writes the tokens of `x` that `y` lacks to `lost`, and those of `y` that `x` lacks to `gained`.
fn differences(
    x: &[TokenId],
    y: &[TokenId],
    lost: &mut Vec<TokenId>,
    gained: &mut Vec<(usize, TokenId)>,
) {
    lost.clear();
    gained.clear();
    let mut at = 0;
    for (position, &token) in y.iter().enumerate() {
        while at < x.len() && x[at] < token {
            lost.push(x[at]);
            at += 1;
        }
        if at < x.len() && x[at] == token {
            at += 1;
        } else {
            gained.push((position, token));
        }
    }
    lost.extend_from_slice(&x[at..]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Naive;
    use proptest::prelude::*;
    use simjoin_core::{Bounds, Measure, Predicate, SetPair};
    use simjoin_engine::passes;
    use simjoin_testing::{Rows, collections, run};
    use std::collections::BTreeSet;

    /// All pairs, and how many were verified; the tiles of each pass dealt to two workers in turn.
    fn answer(
        technique: &dyn Technique<Sets>,
        join: &SetTask<'_>,
        exact: bool,
    ) -> (Vec<SetPair>, u64) {
        let (mut pairs, mut verified) = (Vec::new(), 0);
        let whole = Tile::whole(join);
        let room = Budget::unlimited(60, 2);
        for builds in passes(join.build, &whole.builds, join.build.total_tokens() * 2 / 3 + 1) {
            let tile = Tile { builds, ..whole.clone() };
            let more = run(technique, join, &tile, &room, exact);
            pairs.extend(more.0);
            verified += more.1;
        }
        pairs.sort_unstable();
        (pairs, verified)
    }

    fn check(predicate: Predicate, left: &Rows, right: Option<&Rows>) {
        let (left, right) = collections(left, right);
        for (join, _) in SetTask::directions(&left, right.as_ref(), true, Bounds::new(predicate)) {
            let expected = answer(&Naive, &join, true).0;
            let policies = (0..4).map(Answers::Derived).chain([Answers::Estimated]);
            for answers in policies {
                let found = answer(&SkipJoin { answers }, &join, true).0;
                assert_eq!(found, expected, "{predicate} {answers:?}");
                let counted = answer(&SkipJoin { answers }, &join, false).0;
                assert_eq!(counted.len(), expected.len(), "{predicate} {answers:?}");
                for (counted, expected) in counted.iter().zip(&expected) {
                    assert_eq!((counted.probe, counted.build), (expected.probe, expected.build));
                    let (n, m) = (join.probe.size(counted.probe), join.build.size(counted.build));
                    assert!(counted.overlap <= expected.overlap);
                    assert!(join.predicate.accepts(n, m, counted.overlap));
                }
            }
        }
    }

    const PREDICATES: [(Measure, &str); 14] = [
        (Measure::Jaccard, "0.1"),
        (Measure::Jaccard, "0.5"),
        (Measure::Jaccard, "0.7"),
        (Measure::Jaccard, "0.9"),
        (Measure::Jaccard, "1"),
        (Measure::Cosine, "0.5"),
        (Measure::Cosine, "0.8"),
        (Measure::Dice, "0.6"),
        (Measure::Dice, "0.9"),
        (Measure::Overlap, "1"),
        (Measure::Overlap, "3"),
        (Measure::Overlap, "7"),
        (Measure::Containment, "0.4"),
        (Measure::Containment, "0.8"),
    ];

    /// Sets of a few sizes that differ from one of two seeds by a few exchanged tokens: most have
    /// neighbours that they can follow.
    fn rows() -> impl Strategy<Value = Rows> {
        let seed = || prop::collection::btree_set(0..40u32, 1..14);
        let edits = prop::collection::vec(
            (any::<bool>(), prop::collection::vec((0..40u32, 0..40u32), 0..4)),
            0..40,
        );
        (seed(), seed(), edits).prop_map(|(one, other, edits)| {
            let edit = |(which, exchanges): (bool, Vec<(u32, u32)>)| {
                let mut set = if which { one.clone() } else { other.clone() };
                for (out, into) in exchanges {
                    set.remove(&out);
                    set.insert(into);
                }
                set
            };
            edits.into_iter().map(edit).collect()
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1500))]

        #[test]
        fn derived_answers_are_those_of_the_oracle(
            left in rows(), right in rows(), two in any::<bool>(), at in 0..PREDICATES.len(),
        ) {
            let predicate = Predicate::parse(PREDICATES[at].0, PREDICATES[at].1).unwrap();
            check(predicate, &left, two.then_some(&right));
        }
    }

    #[test]
    fn differences_are_written_in_order() {
        let (mut lost, mut gained) = (vec![9], vec![(9, 9)]);
        differences(&[1, 2, 5, 7], &[2, 3, 5, 9], &mut lost, &mut gained);
        assert_eq!((lost, gained), (vec![1, 7], vec![(1, 3), (3, 9)]));
    }

    #[test]
    fn the_estimate_forms_groups_of_large_sets_only() {
        // Sets that agree in all but one token, which is frequent and so not in the prefix.
        for (size, expected) in [(40, 1), (8, 0)] {
            let alike = (0..20u32).map(|row| (0..size - 1).chain([100 + row]).collect());
            let others = (0..2000u32).map(|row| BTreeSet::from([100 + row % 20, 1000 + row]));
            let (sets, _) = collections(&alike.chain(others).collect(), None);
            let predicate = Predicate::parse(Measure::Jaccard, "0.7").unwrap();
            let (join, _) = SetTask::directions(&sets, None, false, Bounds::new(predicate))[0];
            let builds = 0..sets.len() as SetId;
            let index = BlockIndex::new(&sets, &builds, &index_prefixes(&join));
            let prepared = PreparedSkip {
                join,
                builds: builds.clone(),
                index,
                answers: Answers::Estimated,
                pieces: Vec::new(),
            };
            let mut worker = prepared.skip_worker();
            let leader = sets.first_of_size(size);
            worker.demands.turn_to(leader);
            let group = worker.group(leader, builds.end);
            assert_eq!(group.difference, expected);
            assert_eq!(group.probes.len(), if expected > 0 { 20 } else { 1 });
            let answers = answer(&SkipJoin::default(), &join, true).0;
            assert_eq!(answers.len(), 20 * 19 / 2);
            assert_eq!(answers, answer(&Naive, &join, true).0);
        }
    }
}
