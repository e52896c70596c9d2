//! Does every variant of every technique find what the oracle finds, on every tile and in any room?
//!
//! The planner picks signature widths by cost, so a test that asks for a technique by name may never
//! see some of them. Here each is run by itself: on whole joins, on tiles that are cut out of them,
//! with little room and with much, dealt to several workers.

use proptest::prelude::*;
use simjoin_core::{
    Bounds, Measure, PairSink, Predicate, RawSets, SetCollection, SetPair, prepare,
};
use simjoin_cpu::{Naive, estimate_rows, techniques};
use simjoin_plan::{Effort, Join, Room, Survey, Technique, Tile, Units};
use std::collections::BTreeSet;
use std::ops::ControlFlow;

type Rows = Vec<BTreeSet<u32>>;

struct Collect {
    exact: bool,
    pairs: Vec<SetPair>,
}

impl PairSink for Collect {
    fn wants_overlap(&self) -> bool {
        self.exact
    }

    fn push(&mut self, pairs: &[SetPair]) -> ControlFlow<()> {
        self.pairs.extend_from_slice(pairs);
        ControlFlow::Continue(())
    }
}

/// The pairs of a tile as they come, the pieces dealt to `workers` workers in turn.
fn run(technique: &dyn Technique, join: &Join<'_>, tile: &Tile, room: &Room) -> Vec<SetPair> {
    let mut sink = Collect { exact: true, pairs: Vec::new() };
    let mut prepared = technique.prepare(join, tile, room);
    for round in 0..prepared.rounds() {
        prepared.begin(round);
        let mut workers: Vec<_> = (0..room.threads).map(|_| prepared.worker()).collect();
        for piece in 0..prepared.pieces() {
            assert!(workers[piece % room.threads].run(piece, &mut sink).is_continue());
        }
    }
    sink.pairs
}

fn collections(left: &Rows, right: Option<&Rows>) -> (SetCollection, Option<SetCollection>) {
    let raw = |rows: &Rows| {
        let mut raw = RawSets::default();
        for row in rows {
            raw.push(&row.iter().copied().collect::<Vec<_>>());
        }
        raw
    };
    let tokens = left.iter().chain(right.into_iter().flatten()).flatten();
    let universe = tokens.max().map_or(0, |&token| token as usize + 1);
    prepare(raw(left), right.map(raw), universe).unwrap()
}

/// Sets of which many are near-duplicates of others, from a small or a large universe.
fn rows() -> impl Strategy<Value = Rows> {
    let universe = prop_oneof![Just(12u32), Just(60), Just(700), Just(5000)];
    universe.prop_flat_map(|universe| {
        let set = prop::collection::btree_set(0..universe, 0..40);
        let edits = prop::collection::vec((any::<prop::sample::Index>(), 0..universe), 0..60);
        (prop::collection::vec(set, 1..40), edits).prop_map(|(mut rows, edits)| {
            for (at, token) in edits {
                let mut copy = rows[at.index(rows.len())].clone();
                if !copy.remove(&token) {
                    copy.insert(token);
                }
                rows.push(copy);
            }
            rows
        })
    })
}

fn predicate() -> impl Strategy<Value = Predicate> {
    let ratio = prop_oneof![Just("0.3"), Just("0.5"), Just("2/3"), Just("0.8"), Just("0.95")];
    (0..Measure::ALL.len(), ratio, 1..6u32).prop_map(|(measure, ratio, count)| {
        let measure = Measure::ALL[measure];
        let text = if measure == Measure::Overlap { count.to_string() } else { ratio.into() };
        Predicate::parse(measure, &text).unwrap()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn every_variant_equals_naive(
        left in rows(),
        right in prop::option::of(rows()),
        predicate in predicate(),
        cuts in any::<[prop::sample::Index; 4]>(),
    ) {
        let (left, right) = collections(&left, right.as_ref());
        for (join, _) in Join::parts(&left, right.as_ref(), true, Bounds::new(predicate)) {
            let whole = Tile::whole(&join);
            // A tile out of the middle as well: any range of probes, any range of build sets.
            let range = |len: usize, a: &prop::sample::Index, b: &prop::sample::Index| {
                let (a, b) = (a.index(len + 1) as u32, b.index(len + 1) as u32);
                a.min(b)..a.max(b)
            };
            let part = Tile {
                probes: range(join.probe.len(), &cuts[0], &cuts[1]),
                builds: range(join.build.len(), &cuts[2], &cuts[3]),
            };
            for tile in [whole, part] {
                let roomy = Room { piece_tokens: 1000, bytes: u64::MAX, threads: 1 };
                let mut wanted = run(&Naive, &join, &tile, &roomy);
                wanted.sort_unstable();
                for technique in techniques() {
                    let label = format!("{} {}", technique.name(), technique.variant());
                    let least = technique.memory_bytes(&join, &tile, 3);
                    let tight = Room { piece_tokens: 50, bytes: least, threads: 3 };
                    let first = run(&*technique, &join, &tile, &roomy);
                    let mut found = first.clone();
                    found.sort_unstable();
                    prop_assert_eq!(&found, &wanted, "{}", label);
                    let mut found = run(&*technique, &join, &tile, &tight);
                    // The number of workers changes nothing, not even the order.
                    let same = Room { threads: 3, ..roomy };
                    prop_assert_eq!(&run(&*technique, &join, &tile, &same), &first, "{}", label);
                    found.sort_unstable();
                    prop_assert_eq!(&found, &wanted, "{} in little room", label);
                }
            }
        }
    }

    #[test]
    fn surveys_and_costs_hold_for_any_join(
        left in rows(),
        right in prop::option::of(rows()),
        predicate in predicate(),
    ) {
        let (left, right) = collections(&left, right.as_ref());
        for (join, _) in Join::parts(&left, right.as_ref(), false, Bounds::new(predicate)) {
            let tile = Tile::whole(&join);
            let survey = Survey::new(&join, &tile, Effort { sets: 10_000, pairs: 200 });
            prop_assert!(survey.list_pairs >= 0.0 && survey.list_pairs.is_finite());
            for part in survey.survival.into_iter().chain(survey.list_survival) {
                prop_assert!((0.0..=1.0).contains(&part));
            }
            for technique in techniques() {
                if let Some(cost) = technique.cost(&survey, &Units::default()) {
                    prop_assert!(cost.seconds(2) > 0.0 && cost.seconds(2).is_finite());
                    prop_assert!(cost.seconds(2) <= cost.seconds(1));
                }
            }
            // With more samples than groups of probes, the estimate is the count.
            let rows: u64 = run(&Naive, &join, &tile, &Room { piece_tokens: 100, bytes: 0, threads: 1 })
                .iter()
                .map(|pair| {
                    u64::from(join.probe.weight(pair.probe)) * u64::from(join.build.weight(pair.build))
                })
                .sum();
            prop_assert_eq!(estimate_rows(&join, 10_000), rows as f64);
        }
    }
}
