//! `skip-join`: which lists and probes can be skipped because of earlier ones?
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
//! prefixes; see `after`. (`α` is at least the demand for which prefixes are made, so the stretches lie within
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
//! A set that the leader keeps is never verified again for the follower, so no pair is pushed twice. The
//! leader meets all sets that the last of the group may meet, in a self-join also itself; each member
//! takes those that the order allows it.
//!
//! # Memory
//!
//! The index in blocks (up to 16 bytes per indexed prefix token, and up to 8 for each worker), and 8
//! bytes per build set and worker, whatever the number of candidates.

mod derive;
mod worker;

use crate::block_index::BlockIndex;
use crate::demands::{Demands, index_prefixes};
use crate::set_join;
use simjoin_core::{Measure, Result, SetId};
use simjoin_engine::{
    Budget, Cost, CostTable, Prepared, SetTask, Sets, Survey, Technique, Tile, Worker, cut,
};
use std::ops::Range;
use worker::SkipWorker;

/// Prefix, length and positional filter that skip parts of lists and whole probes.
#[derive(Default)]
pub struct SkipJoin {
    answers: Answers,
}

/// The way to find the answers of a probe.
#[derive(Clone, Copy, Debug, Default)]
enum Answers {
    /// Derive them from the leader of a group if that is cheaper by estimate.
    #[default]
    Estimated,
    /// Derive them from a leader that differs by at most this number of tokens, if there is one.
    #[cfg_attr(not(test), expect(dead_code, reason = "forced by tests and measurements"))]
    Derived(u32),
}

/// The largest number of tokens by which a follower may differ from its leader. With groups wherever possible, 2 was
/// slower than 1 in 15 of 18 measured joins (2026-11-15, 2-core AMD EPYC).
const DIFFERENCE: u32 = 1;

/// The smallest number of prefix tokens of probes that may form groups. Walking shorter prefixes costs less than a
/// group: with groups wherever possible, Jaccard 0.5 took 43.6 ms instead of 37.3 for `kosarak_36k`, whose sets are
/// small, and Jaccard 0.9 took 18.3 ms instead of 23.3 for `debian_files`, whose sets are large (2026-11-15, 2-core AMD
/// EPYC).
const LEAST_PREFIX: usize = 8;

/// The cost of looking up a list in addition to walking it, in walked sets. Tuned as above.
const PER_LIST: u64 = 16;

/// The cost of a leader's longer merges and of its followers' lookups, in percent of walking the lists
/// of one probe. Tuned as above.
const RELAXED_PERCENT: u64 = 50;

impl Technique<Sets> for SkipJoin {
    fn name(&self) -> &'static str {
        "skip-join"
    }

    fn cost(&self, survey: &Survey<'_>, costs: &CostTable) -> Option<Cost> {
        // The cost is that of ppjoin, but only a part of each list is walked, block by block.
        let cost = set_join::cost(survey, costs, 0.35 * survey.list_position);
        let skipped = survey.list_pairs * (1.0 - survey.list_position) * costs.walk;
        let blocks = survey.probe_entries as f64 * survey.live * costs.lookup;
        // Similar sets mostly contain the same sets, so a third of the answers is derived (retail and two others at
        // containment 0.8 and 1, 2-core AMD EPYC, 2026-11-15).
        let (measure, ..) = survey.task.predicate.parts();
        let derived = if measure == Measure::Containment { 0.65 } else { 1.0 };
        let parallel = derived * (cost.parallel + blocks - skipped);
        Some(Cost { serial: 1.4 * cost.serial, parallel })
    }

    fn memory_bytes(&self, task: &SetTask<'_>, tile: &Tile, threads: usize) -> u64 {
        let builds = &tile.builds;
        let lengths = index_prefixes(task);
        let prefix_tokens =
            builds.clone().map(|id| u64::from(lengths[task.build.class_of(id) as usize])).sum();
        let largest = task.probe.classes().last().map_or(0, |class| u64::from(class.size));
        BlockIndex::memory_bytes(task.build, prefix_tokens, threads)
            + threads as u64 * (8 * builds.len() as u64 + 4 * largest)
    }

    fn prepare<'a>(
        &self,
        task: &SetTask<'a>,
        tile: &Tile,
        room: &Budget,
    ) -> Result<Box<dyn Prepared<Sets> + 'a>> {
        let builds = tile.builds.clone();
        let index = BlockIndex::new(task.build, &builds, &index_prefixes(task));
        let pieces = cut(task, tile, room.piece_tokens);
        Ok(Box::new(PreparedSkip { task: *task, builds, index, answers: self.answers, pieces }))
    }
}

struct PreparedSkip<'a> {
    task: SetTask<'a>,
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
        let largest = self.task.probe.classes().last().map_or(0, |class| class.size);
        SkipWorker {
            prepared: self,
            demands: Demands::new(&self.task, self.builds.clone()),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Naive;
    use proptest::prelude::*;
    use simjoin_core::{Bounds, Measure, Predicate, SetPair};
    use simjoin_engine::passes;
    use simjoin_testing::{Rows, collections, run};
    use std::collections::BTreeSet;

    /// Returns all pairs and the number of verified ones. The tiles of each pass are dealt to two workers in turn.
    fn answer(
        technique: &dyn Technique<Sets>,
        task: &SetTask<'_>,
        exact: bool,
    ) -> (Vec<SetPair>, u64) {
        let (mut pairs, mut verified) = (Vec::new(), 0);
        let whole = Tile::whole(task);
        let room = Budget::unlimited(60, 2);
        for builds in passes(task.build, &whole.builds, task.build.total_tokens() * 2 / 3 + 1) {
            let tile = Tile { builds, ..whole.clone() };
            let more = run(technique, task, &tile, &room, exact);
            pairs.extend(more.0);
            verified += more.1;
        }
        pairs.sort_unstable();
        (pairs, verified)
    }

    fn check(predicate: Predicate, left: &Rows, right: Option<&Rows>) {
        let (left, right) = collections(left, right);
        for (task, _) in SetTask::directions(&left, right.as_ref(), true, Bounds::new(predicate)) {
            let expected = answer(&Naive, &task, true).0;
            let policies = (0..4).map(Answers::Derived).chain([Answers::Estimated]);
            for answers in policies {
                let found = answer(&SkipJoin { answers }, &task, true).0;
                assert_eq!(found, expected, "{predicate} {answers:?}");
                let counted = answer(&SkipJoin { answers }, &task, false).0;
                assert_eq!(counted.len(), expected.len(), "{predicate} {answers:?}");
                for (counted, expected) in counted.iter().zip(&expected) {
                    assert_eq!((counted.probe, counted.build), (expected.probe, expected.build));
                    let (n, m) = (task.probe.size(counted.probe), task.build.size(counted.build));
                    assert!(counted.overlap <= expected.overlap);
                    assert!(task.predicate.accepts(n, m, counted.overlap));
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
    fn the_estimate_forms_groups_of_large_sets_only() {
        // Sets that agree in all but one token, which is frequent and so not in the prefix.
        for (size, expected) in [(40, 1), (8, 0)] {
            let alike = (0..20u32).map(|row| (0..size - 1).chain([100 + row]).collect());
            let others = (0..2000u32).map(|row| BTreeSet::from([100 + row % 20, 1000 + row]));
            let (sets, _) = collections(&alike.chain(others).collect(), None);
            let predicate = Predicate::parse(Measure::Jaccard, "0.7").unwrap();
            let (task, _) = SetTask::directions(&sets, None, false, Bounds::new(predicate))[0];
            let builds = 0..sets.len() as SetId;
            let index = BlockIndex::new(&sets, &builds, &index_prefixes(&task));
            let prepared = PreparedSkip {
                task,
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
            let answers = answer(&SkipJoin::default(), &task, true).0;
            assert_eq!(answers.len(), 20 * 19 / 2);
            assert_eq!(answers, answer(&Naive, &task, true).0);
        }
    }
}
