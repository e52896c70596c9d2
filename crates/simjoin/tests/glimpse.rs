//! What must hold for a glimpse at the results, whatever the join answers with.

use proptest::prelude::*;
use simjoin::engine::{
    Bounds, Control, Elements, Engine, Glimpse, Join, Measure, Predicate, RowPair, SetCollection,
    Sets, Side, VectorCollection, VectorPredicate, Vectors,
};
use simjoin_testing::{Rows, brute_force, collections};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;

/// Rows of few tokens, of which many are equal and some are empty.
fn rows(most: usize) -> impl Strategy<Value = Rows> {
    prop::collection::vec(prop::collection::btree_set(0..12u32, 0..6), 0..most)
}

/// Left or right input of the left row, left row, right row: overlap.
type Found = BTreeMap<(bool, u32, u32), u32>;

/// The expected pairs of a join of one or two inputs, and of the right one with itself.
fn expected_pairs(
    predicate: Predicate,
    left: &Rows,
    right: Option<&Rows>,
    with_itself: bool,
) -> Found {
    let pairs = |within: bool, left: &Rows, right: Option<&Rows>| {
        let found = brute_force(predicate, left, right).into_iter();
        found.map(move |(l, r, overlap)| ((within, l, r), overlap))
    };
    let mut found: Found = pairs(false, left, right).collect();
    if let Some(right) = right.filter(|_| with_itself) {
        found.extend(pairs(true, right, None));
    }
    found
}

fn predicates() -> impl Strategy<Value = Predicate> {
    let texts = ["0.5", "0.8", "2/3", "1", "0.3"];
    (0..5usize, 0..5usize, 1..4u32).prop_map(move |(measure, text, count)| {
        match Measure::ALL[measure] {
            Measure::Overlap => Predicate::parse(Measure::Overlap, &count.to_string()).unwrap(),
            measure => Predicate::parse(measure, texts[text]).unwrap(),
        }
    })
}

#[derive(Clone, Copy, Debug)]
enum Answer {
    Count,
    Pairs,
    Groups,
}

fn look(
    join: &Join<Sets>,
    (left, right): (&SetCollection, Option<&SetCollection>),
    answer: Answer,
) -> (Arc<Glimpse>, u64) {
    let glimpse = Arc::new(Glimpse::of_sets(join.predicate(), left, right));
    let join = join.clone().glimpse(glimpse.clone());
    let control = Control::default();
    let report = match answer {
        Answer::Count => join.count(left, right, &control),
        Answer::Groups => join.groups(left, &control).map(|(_, report)| report),
        Answer::Pairs => join.pairs(left, right, &control, |_| ControlFlow::Continue(())),
    };
    (glimpse, report.unwrap().pairs)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_glimpse_sees_every_pair_once(
        one in rows(40),
        two in prop::option::of(rows(25)),
        with_itself in any::<bool>(),
        predicate in predicates(),
    ) {
        let bounds = Bounds::new(predicate);
        let expected = expected_pairs(predicate, &one, two.as_ref(), with_itself);
        let (left, right) = collections(&one, two.as_ref());
        let row = |within: bool, is_left: bool, row: u32| {
            let input = match &two {
                Some(two) if within || !is_left => two,
                _ => &one,
            };
            &input[row as usize]
        };
        let mut tight = 0;
        let mut distinct = BTreeSet::new();
        for (&(within, a, b), &overlap) in &expected {
            let (x, y) = (row(within, true, a), row(within, false, b));
            tight += u64::from(bounds.compare(x.len() as u32, y.len() as u32, overlap).is_eq());
            let itself = within || two.is_none();
            if !itself || x != y {
                distinct.insert((within, if itself { x.min(y) } else { x }, if itself { x.max(y) } else { y }));
            }
        }
        let mut first = None;
        for (technique, threads) in [("auto", 1), ("bitmap", 2), ("ppjoin", 3), ("naive", 1)] {
            for answer in [Answer::Count, Answer::Pairs, Answer::Groups] {
                if matches!(answer, Answer::Groups) && right.is_some() {
                    continue;
                }
                let join = simjoin::engine::join(predicate)
                    .engine(Engine::Cpu)
                    .technique(technique)
                    .threads(threads)
                    .with_itself(with_itself && right.is_some())
                    .piece_tokens(16);
                let (glimpse, pairs) = look(&join, (&left, right.as_ref()), answer);
                prop_assert_eq!(pairs, expected.len() as u64);
                let bins = glimpse.bins();
                prop_assert_eq!(bins.iter().map(|bin| bin.pairs).sum::<u64>(), pairs);
                prop_assert_eq!(glimpse.on_threshold(), Some(tight));
                prop_assert_eq!(glimpse.distinct(), distinct.len() as u64);
                let sample = glimpse.sample(500);
                let mut rows = 0;
                for seen in &sample {
                    let RowPair { left, right, overlap, similarity, left_input } = seen.pair;
                    let key = (left_input == Side::Right, left, right);
                    prop_assert_eq!(expected.get(&key), Some(&overlap));
                    let (x, y) = (row(key.0, true, left), row(key.0, false, right));
                    let shown = predicate.measure().similarity(x.len() as u32, y.len() as u32, overlap);
                    prop_assert_eq!(shown.to_bits(), similarity.to_bits());
                    rows += seen.rows;
                }
                // So few are all there, and stand for all pairs of rows.
                let crowded = bins.iter().any(|bin| bin.pairs > 100);
                prop_assert!(rows == pairs || crowded);
                if right.is_none() {
                    let labels = join.groups(&left, &Control::default()).unwrap().0;
                    prop_assert_eq!(glimpse.groups::<Sets>(&left, predicate), Some(labels));
                }
                let seen = (bins, sample);
                prop_assert_eq!(first.get_or_insert_with(|| seen.clone()), &seen);
            }
        }
    }

    #[test]
    fn a_glimpse_at_vectors_sees_every_pair_once(
        one in prop::collection::vec((0u8..9, 0u8..9), 0..60),
        two in prop::option::of(prop::collection::vec((0u8..9, 0u8..9), 0..30)),
        cosine in any::<bool>(),
    ) {
        let collection = |rows: &[(u8, u8)]| {
            // No vector without a direction.
            let elements = rows.iter().flat_map(|row| [f32::from(row.0) + 1.0, f32::from(row.1)]);
            VectorCollection::new("rows", 2, Elements::F32(elements.collect())).unwrap()
        };
        let (left, right) = (collection(&one), two.as_ref().map(|rows| collection(rows)));
        let predicate = match cosine {
            true => VectorPredicate::cosine("0.95").unwrap(),
            false => VectorPredicate::within("1.5").unwrap(),
        };
        let mut expected = BTreeMap::new();
        let plain = simjoin::engine::vector_join(predicate);
        plain.pairs(&left, right.as_ref(), &Control::default(), |pairs| {
            expected.extend(pairs.iter().map(|pair| ((pair.left, pair.right), pair.similarity.to_bits())));
            ControlFlow::Continue(())
        }).unwrap();
        let mut distinct = BTreeSet::new();
        for &(l, r) in expected.keys() {
            let (x, y) = (one[l as usize], two.as_ref().unwrap_or(&one)[r as usize]);
            if two.is_some() {
                distinct.insert((x, y));
            } else if x != y {
                distinct.insert((x.min(y), x.max(y)));
            }
        }
        for (technique, threads) in [("nested-loop", 1), ("quantile", 2), ("grid", 3)] {
            for answer in [Answer::Count, Answer::Pairs, Answer::Groups] {
                let glimpse = Arc::new(Glimpse::of_vectors(predicate, &left, right.as_ref()));
                let join = simjoin::engine::vector_join(predicate)
                    .technique(technique)
                    .threads(threads)
                    .timeline(true)
                    .glimpse(glimpse.clone());
                let (control, right) = (Control::default(), right.as_ref());
                let report = match answer {
                    Answer::Count => join.count(&left, right, &control),
                    Answer::Pairs => join.pairs(&left, right, &control, |_| ControlFlow::Continue(())),
                    Answer::Groups if right.is_some() => continue,
                    Answer::Groups => join.groups(&left, &control).map(|(_, report)| report),
                }.unwrap();
                prop_assert_eq!(report.pairs, expected.len() as u64);
                prop_assert_eq!(glimpse.distinct(), distinct.len() as u64);
                prop_assert_eq!(glimpse.bins().iter().map(|bin| bin.pairs).sum::<u64>(), report.pairs);
                for seen in glimpse.sample(500) {
                    let key = (seen.pair.left, seen.pair.right);
                    prop_assert_eq!(expected.get(&key), Some(&seen.pair.similarity.to_bits()));
                }
                if right.is_none() {
                    let labels = plain.groups(&left, &control).unwrap().0;
                    prop_assert_eq!(glimpse.groups::<Vectors>(&left, predicate), Some(labels));
                }
                prop_assert!(report.timeline.iter().all(|moment| moment.seconds <= report.seconds));
            }
        }
    }
}
