//! Every technique against a brute force that shares no code with the engine, over collections of
//! very different shapes, and the laws that every join obeys.

use proptest::prelude::*;
use simjoin::engine::{Control, Join, Measure, Predicate, SetCollection, Sets, techniques_for};
use simjoin_testing::{Found, Rows, brute_force, collections, edited, similar};
use std::collections::{BTreeSet, HashMap};
use std::ops::ControlFlow;

const PREDICATES: [(Measure, &str); 20] = [
    (Measure::Jaccard, "0.5"),
    (Measure::Jaccard, "0.8"),
    (Measure::Jaccard, "0.333333"),
    (Measure::Jaccard, "2/3"),
    (Measure::Jaccard, "1"),
    (Measure::Jaccard, "0.01"),
    (Measure::Cosine, "0.5"),
    (Measure::Cosine, "0.8"),
    (Measure::Cosine, "0.707106781186547524"),
    (Measure::Cosine, "1"),
    (Measure::Dice, "0.5"),
    (Measure::Dice, "0.8"),
    (Measure::Dice, "1"),
    (Measure::Overlap, "1"),
    (Measure::Overlap, "2"),
    (Measure::Overlap, "5"),
    (Measure::Containment, "0.3"),
    (Measure::Containment, "0.5"),
    (Measure::Containment, "0.9"),
    (Measure::Containment, "1"),
];

fn prepared(left: &Rows, right: Option<&Rows>) -> (SetCollection, Option<SetCollection>) {
    let (left, right) = collections(left, right);
    left.validate().unwrap();
    if let Some(right) = &right {
        right.validate().unwrap();
    }
    (left, right)
}

fn pairs(
    predicate: Predicate,
    left: &Rows,
    right: Option<&Rows>,
    technique: &str,
    threads: usize,
) -> Vec<(u32, u32, u32)> {
    let (l, r) = prepared(left, right);
    // Tiny tiles, so that small collections have many.
    let join =
        simjoin::engine::join(predicate).technique(technique).threads(threads).piece_tokens(16);
    let list = rows_of(&join, predicate, (left, &l), (right, r.as_ref()));
    let count = join.count(&l, r.as_ref(), &Control::default()).unwrap().pairs;
    assert_eq!(count, list.len() as u64);
    list
}

fn rows_of(
    join: &Join<Sets>,
    predicate: Predicate,
    (left, l): (&Rows, &SetCollection),
    (right, r): (Option<&Rows>, Option<&SetCollection>),
) -> Vec<(u32, u32, u32)> {
    let mut list = Vec::new();
    let report = join
        .pairs(l, r, &Control::default(), |rows| {
            for pair in rows {
                let (n, m) = (
                    left[pair.left as usize].len() as u32,
                    right.unwrap_or(left)[pair.right as usize].len() as u32,
                );
                assert_eq!(pair.similarity, predicate.measure().similarity(n, m, pair.overlap));
                list.push((pair.left, pair.right, pair.overlap));
            }
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!(report.pairs, list.len() as u64);
    list
}

fn check(predicate: Predicate, left: &Rows, right: Option<&Rows>) {
    let expected = brute_force(predicate, left, right);
    for technique in techniques_for(predicate) {
        let one = pairs(predicate, left, right, technique, 1);
        let found: Found = one.iter().copied().collect();
        assert_eq!(found.len(), one.len(), "{technique} repeats a pair");
        assert_eq!(found, expected, "{technique}, {predicate}, {left:?}, {right:?}");
        assert_eq!(one, pairs(predicate, left, right, technique, 3), "{technique} by 3 threads");
    }
}

/// Components by repeated relaxation: slow and plain.
fn components(rows: usize, found: &Found) -> Vec<u32> {
    let mut labels: Vec<u32> = (0..rows as u32).collect();
    loop {
        let before = labels.clone();
        for &(a, b, _) in found {
            let least = labels[a as usize].min(labels[b as usize]);
            labels[a as usize] = least;
            labels[b as usize] = least;
        }
        if labels == before {
            return labels;
        }
    }
}

/// Collections of very different shapes.
fn rows() -> impl Strategy<Value = Rows> {
    let dense = prop::collection::vec(prop::collection::btree_set(0..12u32, 0..8), 0..30);
    let sparse = prop::collection::vec(prop::collection::btree_set(0..2000u32, 0..10), 0..30);
    let skewed = prop::collection::vec(
        prop::collection::btree_set(prop_oneof![0..3u32, 0..20u32, 0..400u32], 1..25),
        0..25,
    );
    let mixed_sizes = prop::collection::vec(
        prop_oneof![
            prop::collection::btree_set(0..100u32, 0..3),
            prop::collection::btree_set(0..100u32, 40..90)
        ],
        0..16,
    );
    // Small edits of one set: many pairs on and around every threshold.
    let near = (
        prop::collection::btree_set(0..60u32, 5..30),
        prop::collection::vec(prop::collection::vec(0..60u32, 0..6), 1..25),
    )
        .prop_map(|(seed, edits)| {
            edits.into_iter().map(|edit| edited(&seed, edit)).collect::<Rows>()
        });
    let shape = prop_oneof![dense, sparse, skewed, mixed_sizes, near];
    (shape, 0..4u8).prop_map(|(mut rows, twist)| {
        match twist {
            // One token in every set.
            1 => {
                for row in &mut rows {
                    row.insert(7);
                }
            }
            // The whole collection twice.
            2 => rows.extend(rows.clone()),
            // Some empty sets and a set alone with its tokens.
            3 => {
                rows.push(BTreeSet::new());
                rows.insert(0, BTreeSet::new());
                rows.push((5000..5010).collect());
            }
            _ => {}
        }
        rows
    })
}

fn predicate() -> impl Strategy<Value = Predicate> {
    (0..PREDICATES.len())
        .prop_map(|at| Predicate::parse(PREDICATES[at].0, PREDICATES[at].1).unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn self_join_equals_brute_force(rows in rows(), predicate in predicate()) {
        check(predicate, &rows, None);
    }

    #[test]
    fn join_of_two_equals_brute_force(left in rows(), right in rows(), predicate in predicate()) {
        check(predicate, &left, Some(&right));
    }

    #[test]
    fn join_with_a_near_copy_equals_brute_force(
        left in rows(), drop in prop::collection::vec(any::<bool>(), 0..60), predicate in predicate(),
    ) {
        // The right side repeats part of the left: equal sets on both sides.
        let right: Rows = left.iter().zip(drop.iter().chain(std::iter::repeat(&false)))
            .filter(|(_, drop)| !**drop).map(|(row, _)| row.clone()).collect();
        check(predicate, &left, Some(&right));
    }

    #[test]
    fn symmetry(left in rows(), right in rows(), predicate in predicate()) {
        for technique in techniques_for(predicate) {
            let there: Found = pairs(predicate, &left, Some(&right), technique, 2).into_iter().collect();
            let back: Found = pairs(predicate, &right, Some(&left), technique, 2)
                .into_iter().map(|(l, r, o)| (r, l, o)).collect();
            prop_assert_eq!(&there, &back, "{}", technique);
            // A self-join is the half above the diagonal of the join with itself.
            let whole: Found = pairs(predicate, &left, Some(&left), technique, 1)
                .into_iter().filter(|(l, r, _)| l < r).collect();
            let half: Found = pairs(predicate, &left, None, technique, 1).into_iter().collect();
            prop_assert_eq!(&whole, &half, "{}", technique);
        }
    }

    #[test]
    fn relabelling_and_shuffling_change_nothing(
        rows in rows(), predicate in predicate(), factor in 1..5000u32, seed in any::<u64>(),
    ) {
        // A permutation of the tokens 0..6007 (a prime) and one of the rows.
        let relabel = |token: u32| ((u64::from(token) + 11) * u64::from(factor) % 6007) as u32;
        let mut order: Vec<usize> = (0..rows.len()).collect();
        let mut state = seed | 1;
        for at in (1..order.len()).rev() {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            order.swap(at, (state >> 33) as usize % (at + 1));
        }
        let shuffled: Rows = order.iter().map(|&at| rows[at].iter().map(|&t| relabel(t)).collect()).collect();
        for technique in techniques_for(predicate) {
            let plain: Found = pairs(predicate, &rows, None, technique, 1).into_iter().collect();
            let mapped: Found = pairs(predicate, &shuffled, None, technique, 1).into_iter().map(|(l, r, o)| {
                let (a, b) = (order[l as usize] as u32, order[r as usize] as u32);
                (a.min(b), a.max(b), o)
            }).collect();
            prop_assert_eq!(&plain, &mapped, "{}", technique);
        }
    }

    #[test]
    fn a_higher_threshold_gives_a_subset(
        rows in rows(),
        measure in 0..5usize,
        low in 1..100u32,
        high in 1..100u32,
    ) {
        let measure = Measure::ALL[measure];
        let at = |percent: u32| match measure {
            Measure::Overlap => Predicate::parse(measure, &percent.div_ceil(10).to_string()).unwrap(),
            _ => Predicate::parse(measure, &format!("0.{percent:02}")).unwrap(),
        };
        for technique in techniques_for(at(low)) {
            let more: Found = pairs(at(low.min(high)), &rows, None, technique, 1).into_iter().collect();
            let less: Found = pairs(at(low.max(high)), &rows, None, technique, 1).into_iter().collect();
            prop_assert!(less.is_subset(&more), "{}", technique);
        }
    }

    #[test]
    fn groups_are_the_components_of_the_pairs(rows in rows(), predicate in predicate()) {
        let expected = components(rows.len(), &brute_force(predicate, &rows, None));
        let (sets, _) = prepared(&rows, None);
        for technique in techniques_for(predicate) {
            let join = simjoin::engine::join(predicate).technique(technique).threads(2);
            let (labels, report) = join.groups(&sets, &Control::default()).unwrap();
            prop_assert_eq!(&labels, &expected, "{}", technique);
            prop_assert_eq!(report.pairs, brute_force(predicate, &rows, None).len() as u64);
        }
    }
}

#[test]
fn pairs_exactly_on_the_threshold_are_found() {
    // For each size n up to 60, two sets of sizes n and m with the smallest overlap that reaches
    // the threshold, and two that miss it by one token.
    for (measure, text) in PREDICATES {
        let predicate = Predicate::parse(measure, text).unwrap();
        let mut rows = Rows::new();
        let mut expected = HashMap::new();
        let mut next = 0;
        for n in 1..=60u32 {
            for m in [n, n + 1, n + n / 3] {
                let pair = |common: u32, next: u32| {
                    let a: BTreeSet<u32> = (next..next + n).collect();
                    let b: BTreeSet<u32> =
                        (next..next + common).chain(next + n..next + n + m - common).collect();
                    (a, b)
                };
                let first = (1..=n).find(|&o| {
                    let (a, b) = pair(o, 0);
                    similar(predicate, &a, &b).is_some()
                });
                for common in [first, first.and_then(|o| o.checked_sub(1))].into_iter().flatten() {
                    let (a, b) = pair(common, next);
                    let reaches = Some(common) == first;
                    expected.insert(rows.len() as u32, reaches);
                    rows.extend([a, b]);
                    next += n + m;
                }
            }
        }
        for technique in techniques_for(predicate) {
            let found: BTreeSet<u32> =
                pairs(predicate, &rows, None, technique, 2).into_iter().map(|(l, ..)| l).collect();
            let wanted: BTreeSet<u32> =
                expected.iter().filter(|(_, reaches)| **reaches).map(|(&l, _)| l).collect();
            assert_eq!(found, wanted, "{technique} {predicate}");
        }
    }
}

#[test]
fn sizes_from_one_to_a_hundred_thousand() {
    let whole: BTreeSet<u32> = (0..100_000).collect();
    let rows: Rows = vec![
        whole.clone(),
        (0..1).collect(),
        (0..99_999).collect(),
        (1..100_001).collect(),
        whole,
        (99_999..100_000).collect(),
        (50_000..100_000).collect(),
    ];
    for (measure, text) in PREDICATES {
        check(Predicate::parse(measure, text).unwrap(), &rows, None);
        check(Predicate::parse(measure, text).unwrap(), &rows, Some(&rows[1..4].to_vec()));
    }
}

#[test]
fn nothing_joins_with_nothing() {
    let empty = Rows::new();
    let blank = vec![BTreeSet::new(); 3];
    let one: Rows = vec![(0..3).collect()];
    for (measure, text) in PREDICATES {
        let predicate = Predicate::parse(measure, text).unwrap();
        for rows in [&empty, &blank, &one] {
            check(predicate, rows, None);
            check(predicate, rows, Some(&empty));
            check(predicate, &blank, Some(rows));
        }
    }
}

#[test]
fn many_tiles_keep_one_order_and_a_consumer_may_stop() {
    // Enough sets for many tiles, with answers in all of them.
    let rows: Rows = (0..6000u32)
        .map(|row| {
            let seed = row / 3 * 7 % 5000;
            (seed..seed + 5 + row % 4).collect()
        })
        .collect();
    let predicate = Predicate::parse(Measure::Jaccard, "0.6").unwrap();
    let one = pairs(predicate, &rows, None, "ppjoin", 1);
    assert!(one.len() > 10_000);
    for technique in
        techniques_for(predicate).into_iter().filter(|&name| name != "auto" && name != "naive")
    {
        let alone = pairs(predicate, &rows, None, technique, 1);
        for threads in [2, 5] {
            let mut many = pairs(predicate, &rows, None, technique, threads);
            assert_eq!(alone, many, "{technique}");
            many.sort_unstable();
            let mut sorted = one.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, many, "{technique}");
        }
    }
    let (sets, _) = prepared(&rows, None);
    for threads in [1, 4] {
        let mut seen = 0;
        simjoin::engine::join(predicate)
            .technique("ppjoin")
            .threads(threads)
            .pairs(&sets, None, &Control::default(), |rows| {
                seen += rows.len();
                ControlFlow::Break(())
            })
            .unwrap();
        assert!(seen > 0 && seen < one.len());
    }
}

#[test]
fn little_memory_means_several_passes_and_the_same_answer() {
    let rows: Rows = (0..1200u32)
        .map(|row| (0..4 + row % 9).map(|at| (row / 2 * 31 + at * at * 7) % 397).collect())
        .collect();
    let (some, others) = (rows[..800].to_vec(), rows[600..].to_vec());
    for (measure, text) in [(Measure::Jaccard, "0.6"), (Measure::Containment, "0.8")] {
        let predicate = Predicate::parse(measure, text).unwrap();
        for (left, right) in [(&rows, None), (&some, Some(&others))] {
            let expected = brute_force(predicate, left, right);
            assert!(expected.len() > 300);
            let (l, r) = prepared(left, right);
            for technique in techniques_for(predicate).into_iter().filter(|&name| name != "naive") {
                // A scan needs room for the survivors of each thread's block.
                let scans = ["bitmap", "dense"].contains(&technique);
                let least = if scans { 120 } else { 0 };
                for (kilobytes, threads) in [(50, 1), (60, 2), (80, 3), (1000, 2)] {
                    let kilobytes = kilobytes + least * threads as u64;
                    let join = simjoin::engine::join(predicate)
                        .technique(technique)
                        .threads(threads)
                        .memory(kilobytes << 10);
                    let list = rows_of(&join, predicate, (left, &l), (right, r.as_ref()));
                    let found: Found = list.iter().copied().collect();
                    assert_eq!(found.len(), list.len(), "{technique} repeats a pair");
                    assert_eq!(found, expected, "{technique} in {kilobytes} KiB");
                    if right.is_none() {
                        let (labels, _) = join.groups(&l, &Control::default()).unwrap();
                        assert_eq!(labels, components(left.len(), &expected));
                    }
                }
                let join = simjoin::engine::join(predicate).technique(technique).memory(100);
                let message = join.count(&l, r.as_ref(), &Control::default()).unwrap_err();
                assert!(message.to_string().contains("but the limit is 100"), "{message}");
            }
        }
    }
}

#[test]
fn a_join_that_was_stopped_can_be_run_again() {
    let rows: Rows = (0..500u32).map(|row| (row / 2..row / 2 + 5).collect()).collect();
    let (sets, _) = prepared(&rows, None);
    let join = simjoin::engine::join(Predicate::parse(Measure::Jaccard, "0.5").unwrap())
        .technique("ppjoin")
        .piece_tokens(16);
    let whole = join.count(&sets, None, &Control::default()).unwrap().pairs;
    // A consumer that had enough does not stop the next join with the same control.
    let control = Control::default();
    let first = join.pairs(&sets, None, &control, |_| ControlFlow::Break(())).unwrap();
    assert!(first.pairs < whole);
    assert_eq!(join.count(&sets, None, &control).unwrap().pairs, whole);
    let (done, total) = control.progress();
    assert!(done == total && total > 0);
    // A user who said stop has said so for good, repeats included.
    control.stop();
    assert_eq!(join.pairs(&sets, None, &control, |_| ControlFlow::Continue(())).unwrap().pairs, 0);
}

#[test]
fn what_is_not_there_says_so() {
    let (sets, _) = prepared(&vec![(0..3).collect()], None);
    let predicate = Predicate::parse(Measure::Jaccard, "0.5").unwrap();
    let message =
        |join: Join<Sets>| join.count(&sets, None, &Control::default()).unwrap_err().to_string();
    assert!(
        message(simjoin::engine::join(predicate).technique("magic"))
            .contains("expected one of auto")
    );
    let engine = |name: &str| simjoin::engine::join(predicate).engine(name.parse().unwrap());
    assert!(message(engine("cpu").technique("gpu-bitmap")).contains("expected engine gpu"));
    #[cfg(feature = "gpu")]
    for name in ["gpu", "hybrid"] {
        match simjoin::engine::devices() {
            Ok(_) => {
                assert_eq!(engine(name).count(&sets, None, &Control::default()).unwrap().pairs, 0);
            }
            Err(why) => assert_eq!(message(engine(name)), why.to_string()),
        }
    }
    assert!("tpu".parse::<simjoin::engine::Engine>().is_err());
}
