//! New records against old ones: the join of two and the self-join of the right side in one run, and
//! nothing else.

use proptest::prelude::*;
use simjoin::engine::{
    Control, Join, Measure, Predicate, SetCollection, Sets, Side, techniques_for,
};
use simjoin_testing::{Rows, collections, edited};
use std::ops::ControlFlow;

type Found = Vec<(Side, u32, u32, u32)>;

const PREDICATES: [(Measure, &str); 8] = [
    (Measure::Jaccard, "0.5"),
    (Measure::Jaccard, "0.8"),
    (Measure::Jaccard, "1"),
    (Measure::Cosine, "0.7"),
    (Measure::Dice, "0.8"),
    (Measure::Overlap, "1"),
    (Measure::Overlap, "4"),
    (Measure::Containment, "0.9"),
];

fn prepared(old: &Rows, new: &Rows) -> (SetCollection, SetCollection) {
    let (old, new) = collections(old, Some(new));
    (old, new.unwrap())
}

/// All pairs in the order in which they come; their number is the one that counting finds.
fn found(join: &Join<Sets>, left: &SetCollection, right: Option<&SetCollection>) -> Found {
    let mut list = Vec::new();
    let report = join
        .pairs(left, right, &Control::default(), |rows| {
            list.extend(rows.iter().map(|row| (row.left_input, row.left, row.right, row.overlap)));
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!(report.pairs, list.len() as u64);
    let counted = join.count(left, right, &Control::default()).unwrap();
    assert_eq!(counted.pairs, list.len() as u64);
    list
}

fn sorted(mut list: Found) -> Found {
    list.sort_unstable();
    list
}

/// The law: what the two joins find one by one, each pair once, whatever the technique and the
/// number of threads.
fn check(predicate: Predicate, old: &Rows, new: &Rows) {
    let (left, right) = prepared(old, new);
    let plain = simjoin::engine::join(predicate).technique("naive").threads(1).piece_tokens(16);
    let within = found(&plain, &right, None).into_iter();
    let expected = sorted(
        found(&plain, &left, Some(&right))
            .into_iter()
            .chain(within.map(|(_, l, r, overlap)| (Side::Right, l, r, overlap)))
            .collect(),
    );
    for technique in techniques_for(predicate) {
        let join = plain.clone().technique(technique).with_itself(true);
        let one = found(&join, &left, Some(&right));
        let many = found(&join.clone().threads(3), &left, Some(&right));
        assert_eq!(one, many, "{technique}, {predicate}, by 3 threads");
        for &(side, l, r, _) in &one {
            assert!(side == Side::Left || l < r, "{technique}: the smaller row is on the left");
        }
        assert_eq!(sorted(one), expected, "{technique}, {predicate}, {old:?}, {new:?}");
    }
}

/// Sets of one world, so that many are similar and some are equal.
fn rows(most: usize) -> impl Strategy<Value = Rows> {
    let seeds = prop::collection::btree_set(0..40u32, 1..12);
    let edits = prop::collection::vec(prop::collection::vec(0..40u32, 0..4), 0..most);
    let near = (seeds, edits).prop_map(|(seed, edits)| {
        edits.into_iter().map(|edit| edited(&seed, edit)).collect::<Rows>()
    });
    let any = prop::collection::vec(prop::collection::btree_set(0..30u32, 0..9), 0..most);
    let sparse = prop::collection::vec(prop::collection::btree_set(0..400u32, 0..9), 0..most);
    prop_oneof![near, any, sparse]
}

fn predicate() -> impl Strategy<Value = Predicate> {
    (0..PREDICATES.len())
        .prop_map(|at| Predicate::parse(PREDICATES[at].0, PREDICATES[at].1).unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn it_is_the_join_of_two_and_the_self_join_of_the_right(
        old in rows(40), new in rows(25), predicate in predicate(),
    ) {
        check(predicate, &old, &new);
    }

    #[test]
    fn repeats_within_and_across_the_inputs(
        old in rows(20), new in rows(12), predicate in predicate(), twice in any::<bool>(),
    ) {
        // Old sets stand among the new ones, and the new ones stand there twice.
        let mut new: Rows = new.iter().chain(old.iter().step_by(2)).cloned().collect();
        new.extend(new.clone());
        let mut old = old;
        if twice {
            old.extend(old.clone());
        }
        check(predicate, &old, &new);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn few_against_many(
        old in prop::collection::vec(prop::collection::btree_set(0..80u32, 1..12), 430..500),
        new in rows(3), picks in prop::collection::vec(0..430usize, 0..3), predicate in predicate(),
    ) {
        // One side is so much smaller that techniques look only at the tokens it has; either way.
        let mut new = new;
        new.extend(picks.into_iter().map(|at| old[at].clone()));
        check(predicate, &old, &new);
        check(predicate, &new, &old);
    }
}

#[test]
fn an_old_set_meets_no_old_set() {
    let old: Rows = vec![(0..5).collect(), (0..5).collect(), (0..6).collect()];
    let new: Rows = vec![(0..6).collect(), (50..55).collect(), (0..6).collect()];
    let (left, right) = prepared(&old, &new);
    let join =
        simjoin::engine::join(Predicate::parse(Measure::Jaccard, "0.8").unwrap()).with_itself(true);
    assert_eq!(
        sorted(found(&join, &left, Some(&right))),
        [
            (Side::Left, 0, 0, 5),
            (Side::Left, 0, 2, 5),
            (Side::Left, 1, 0, 5),
            (Side::Left, 1, 2, 5),
            (Side::Left, 2, 0, 6),
            (Side::Left, 2, 2, 6),
            (Side::Right, 0, 2, 6),
        ]
    );
    // Without the option the pairs within the right side are not there, and a single collection is
    // joined with itself with and without it.
    let apart = found(&join.clone().with_itself(false), &left, Some(&right));
    assert!(apart.len() == 6 && apart.iter().all(|&(side, ..)| side == Side::Left));
    let alone = found(&join, &left, None);
    assert_eq!(alone, found(&join.clone().with_itself(false), &left, None));
    assert!(alone.len() == 3 && alone.iter().all(|&(side, ..)| side == Side::Left));
}

#[test]
fn a_consumer_may_stop_and_little_memory_changes_nothing() {
    let old: Rows =
        (0..900u32).map(|row| (row / 3 % 97..row / 3 % 97 + 5 + row % 4).collect()).collect();
    let new: Rows = old.iter().step_by(3).cloned().collect();
    let (left, right) = prepared(&old, &new);
    let join = simjoin::engine::join(Predicate::parse(Measure::Jaccard, "0.6").unwrap())
        .with_itself(true)
        .piece_tokens(64);
    for technique in ["all-pairs", "ppjoin", "group-join"] {
        let join = join.clone().technique(technique);
        let whole = found(&join, &left, Some(&right));
        let passes = found(&join.clone().memory(30 << 10).threads(2), &left, Some(&right));
        assert_eq!(sorted(whole.clone()), sorted(passes), "{technique}");
        let mut seen = 0;
        join.pairs(&left, Some(&right), &Control::default(), |rows| {
            seen += rows.len();
            ControlFlow::Break(())
        })
        .unwrap();
        assert!(seen > 0 && seen < whole.len());
        let control = Control::default();
        control.stop();
        let stopped =
            join.pairs(&left, Some(&right), &control, |_| ControlFlow::Continue(())).unwrap();
        assert_eq!(stopped.pairs, 0);
    }
}
