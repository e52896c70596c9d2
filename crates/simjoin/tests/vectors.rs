//! What must hold for joins of vectors, whatever the technique.

use proptest::prelude::*;
use simjoin::engine::{
    AUTO, Control, Elements, Join, Plan, Processor, Purpose, Result, Subject, VectorCollection,
    VectorPredicate, Vectors, names,
};
use std::collections::BTreeMap;
use std::ops::ControlFlow;

type Found = BTreeMap<(u32, u32), u64>;

fn techniques() -> impl Iterator<Item = &'static str> {
    std::iter::once(AUTO).chain(names(Subject::Vectors, Processor::Cpu))
}

fn plan<'a>(
    join: &Join<Vectors>,
    left: &'a VectorCollection,
    right: Option<&'a VectorCollection>,
) -> Result<Plan<'a, Vectors>> {
    join.plan(left, right, Purpose::Count)
}

fn collection(d: usize, rows: &[Vec<f32>]) -> VectorCollection {
    let elements = Elements::F32(rows.iter().flatten().copied().collect());
    VectorCollection::new("rows", d, elements).unwrap()
}

fn pairs(join: &Join<Vectors>, left: &VectorCollection, right: Option<&VectorCollection>) -> Found {
    let mut found = Found::new();
    let report = join
        .pairs(left, right, &Control::default(), |pairs| {
            for pair in pairs {
                assert!(right.is_some() || pair.left < pair.right);
                assert!(found.insert((pair.left, pair.right), pair.similarity.to_bits()).is_none());
            }
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!(report.pairs, found.len() as u64);
    found
}

/// A plain loop in double precision. Elements are small whole numbers: every order of adding gives the same.
fn brute_force(left: &[Vec<f32>], right: Option<&[Vec<f32>]>, distance: f64) -> Found {
    let mut found = Found::new();
    for (a, x) in left.iter().enumerate() {
        for (b, y) in right.unwrap_or(left).iter().enumerate() {
            let square: f64 =
                x.iter().zip(y).map(|(x, y)| (f64::from(*x) - f64::from(*y)).powi(2)).sum();
            if (right.is_some() || a < b) && square <= distance * distance {
                found.insert((a as u32, b as u32), square.sqrt().to_bits());
            }
        }
    }
    found
}

fn rows() -> impl Strategy<Value = (usize, Vec<Vec<f32>>, Vec<Vec<f32>>)> {
    (1usize..20, 0usize..120, 0usize..60).prop_flat_map(|(d, left, right)| {
        let row = prop::collection::vec((-6i8..7).prop_map(f32::from), d);
        (Just(d), prop::collection::vec(row.clone(), left), prop::collection::vec(row, right))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn techniques_and_threads_agree_with_a_plain_loop(
        (d, left, right) in rows(),
        (whole, threads) in (0u32..30, 1usize..4),
        turn in any::<u16>(),
    ) {
        let distance = f64::from(whole).sqrt();
        let predicate = VectorPredicate::within(&format!("{distance}")).unwrap();
        let (l, r) = (collection(d, &left), collection(d, &right));
        let itself = brute_force(&left, None, distance);
        let both = brute_force(&left, Some(&right), distance);
        for technique in techniques() {
            let join = simjoin::engine::vector_join(predicate).technique(technique).threads(threads);
            prop_assert_eq!(&pairs(&join, &l, None), &itself, "{}", technique);
            prop_assert_eq!(&pairs(&join, &l, Some(&r)), &both, "{}", technique);
            // The other way round, every pair is turned.
            let turned: Found = pairs(&join, &r, Some(&l)).into_iter().map(|((b, a), x)| ((a, b), x)).collect();
            prop_assert_eq!(&turned, &both);
            let count = |left, right| join.count(left, right, &Control::default()).unwrap().pairs;
            prop_assert_eq!(count(&l, None), itself.len() as u64);
            prop_assert_eq!(count(&l, Some(&r)), both.len() as u64);
            // Rows in another order, and coordinates in another order: the same pairs.
            let n = left.len().max(1);
            let place = |row: usize| (row + turn as usize) % n;
            let mut moved = left.clone();
            for (row, values) in left.iter().enumerate() {
                moved[place(row)] = values.iter().rev().copied().collect();
            }
            let found: Found = pairs(&join, &collection(d, &moved), None);
            let expected: Found = itself.iter().map(|(&(a, b), &x)| {
                let (a, b) = (place(a as usize) as u32, place(b as usize) as u32);
                ((a.min(b), a.max(b)), x)
            }).collect();
            prop_assert_eq!(found, expected);
            // A larger distance finds no less.
            let wider = VectorPredicate::within(&format!("{}", distance + 0.5)).unwrap();
            let wider = pairs(&simjoin::engine::vector_join(wider).technique(technique), &l, None);
            prop_assert!(itself.keys().all(|pair| wider.contains_key(pair)));
            // Groups are the components of the pairs.
            let (groups, report) = join.groups(&l, &Control::default()).unwrap();
            prop_assert_eq!(report.pairs, itself.len() as u64);
            let mut labels: Vec<u32> = (0..left.len() as u32).collect();
            loop {
                let before = labels.clone();
                for &(a, b) in itself.keys() {
                    let least = labels[a as usize].min(labels[b as usize]);
                    labels[a as usize] = least;
                    labels[b as usize] = least;
                }
                if labels == before { break; }
            }
            prop_assert_eq!(groups, labels);
        }
    }
}

fn lattice(side: u16) -> VectorCollection {
    let rows: Vec<Vec<f32>> = (0..side)
        .flat_map(|x| {
            (0..side).map(move |y| vec![f32::from(x), f32::from(y), f32::from((x * y) % 3)])
        })
        .collect();
    collection(3, &rows)
}

#[test]
fn the_order_does_not_depend_on_threads() {
    let points = lattice(60);
    for technique in techniques() {
        let all = |threads| {
            let mut found = Vec::new();
            let predicate = VectorPredicate::within("1.5").unwrap();
            let join =
                simjoin::engine::vector_join(predicate).technique(technique).threads(threads);
            join.pairs(&points, None, &Control::default(), |pairs| {
                found.extend(pairs.iter().map(|pair| (pair.left, pair.right)));
                ControlFlow::Continue(())
            })
            .unwrap();
            found
        };
        let one = all(1);
        assert!(one.len() > 5000);
        assert!(all(3) == one, "{technique}");
    }
}

#[test]
fn little_memory_is_enough_or_refused() {
    let points = lattice(40);
    let predicate = VectorPredicate::within("1").unwrap();
    let count = |join: &Join<Vectors>| {
        join.count(&points, None, &Control::default())
            .map(|report| (report.pairs, report.technique))
    };
    let free = simjoin::engine::vector_join(predicate).threads(2);
    let (pairs, _) = count(&free).unwrap();
    // No room for an index: the nested loop needs none.
    let needed = count(&free.clone().memory(1)).unwrap_err().to_string();
    assert!(needed.contains("bytes of memory, but the limit is 1"), "{needed}");
    let bytes: u64 = needed.split(' ').find_map(|word| word.parse().ok()).unwrap();
    assert_eq!(count(&free.clone().memory(bytes)).unwrap().0, pairs);
    assert!(count(&free.technique("quantile").memory(1000)).is_err());
}

#[test]
fn sinks_may_stop_and_joins_may_be_stopped() {
    let points = lattice(60);
    for technique in techniques() {
        let join = simjoin::engine::vector_join(VectorPredicate::within("2").unwrap())
            .technique(technique)
            .threads(2);
        let plan = join.plan(&points, None, Purpose::Pairs).unwrap();
        let mut batches = 0;
        plan.pairs(&Control::default(), |_| {
            batches += 1;
            ControlFlow::Break(())
        })
        .unwrap();
        assert_eq!(batches, 1);
        let control = Control::default();
        control.stop();
        assert_eq!(plan.count(&control).unwrap().pairs, 0);
        let control = Control::default();
        plan.count(&control).unwrap();
        let (done, total) = control.progress();
        assert_eq!(done, total);
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let (two, three) = (collection(2, &[vec![1.0, 2.0]]), collection(3, &[vec![1.0, 2.0, 3.0]]));
    let join = simjoin::engine::vector_join(VectorPredicate::within("1").unwrap());
    let error = plan(&join, &two, Some(&three)).err().unwrap().to_string();
    assert_eq!(error, "rows: vectors of dimension 3; those of rows have 2");
    let error = plan(&join, &two, Some(&two.clone().widened())).err().unwrap().to_string();
    assert!(error.contains("different precision"), "{error}");
    let error = plan(&join.clone().technique("ppjoin"), &two, None).err().unwrap().to_string();
    assert!(error.contains("expected one of auto, quantile, grid, nested-loop"), "{error}");
    let zero = collection(2, &[vec![1.0, 2.0], vec![0.0, 0.0]]);
    for technique in techniques() {
        let cosine = simjoin::engine::vector_join(VectorPredicate::cosine("0.5").unwrap())
            .technique(technique);
        let error = cosine.count(&zero, None, &Control::default()).err().unwrap().to_string();
        assert!(
            error.starts_with("rows: row 1 (counting from 0): the vector is zero"),
            "{technique}: {error}"
        );
    }
}

#[test]
fn estimated_pairs_are_near_and_exact_where_every_row_is_sampled() {
    // On a line, each point has four partners within 2 but those at the ends.
    let line = |count: usize| {
        let elements = Elements::F32((0..count).map(|at| at as f32).collect());
        VectorCollection::new("line", 1, elements).unwrap()
    };
    let join = simjoin::engine::vector_join(VectorPredicate::within("2").unwrap())
        .technique("nested-loop");
    let about = |left: &VectorCollection, right: Option<&VectorCollection>| {
        plan(&join, left, right).unwrap().estimate_pairs().unwrap()
    };
    let (few, many) = (line(400), line(100_000));
    assert_eq!(about(&few, None), 797.0);
    assert_eq!(about(&few, Some(&few)), 1994.0);
    assert_eq!(about(&few, Some(&many)), 1997.0);
    let pairs = about(&many, None);
    assert!((150_000.0..250_000.0).contains(&pairs), "{pairs}");
    assert_eq!(about(&line(1), None), 0.0);
}

/// Rows that repeat a few vectors, with both zeros.
fn repeated_rows() -> impl Strategy<Value = (usize, Vec<Vec<f32>>, Vec<Vec<f32>>)> {
    (1usize..6, 1usize..12).prop_flat_map(|(d, kinds)| {
        let number = prop_oneof![Just(-0.0f32), Just(1e30), (-2i8..3).prop_map(f32::from)];
        let some = prop::collection::vec(prop::collection::vec(number, d), kinds);
        let picks = || prop::collection::vec(0..kinds, 1..100);
        (Just(d), some, picks(), picks()).prop_map(|(d, some, left, right)| {
            let rows = |picks: Vec<usize>| picks.into_iter().map(|at| some[at].clone()).collect();
            (d, rows(left), rows(right))
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn repeated_rows_are_all_in_the_answer(
        (d, left, right) in repeated_rows(),
        (whole, wide) in (0u32..9, any::<bool>()),
    ) {
        let distance = f64::from(whole).sqrt();
        let predicate = VectorPredicate::within(&format!("{distance}")).unwrap();
        let (mut l, mut r) = (collection(d, &left), collection(d, &right));
        if wide {
            (l, r) = (l.widened(), r.widened());
        }
        prop_assert!(l.len() <= l.records() && l.records() == left.len());
        let itself = brute_force(&left, None, distance);
        let both = brute_force(&left, Some(&right), distance);
        for technique in techniques() {
            let join = simjoin::engine::vector_join(predicate).technique(technique);
            prop_assert_eq!(&pairs(&join, &l, None), &itself, "{}", technique);
            prop_assert_eq!(&pairs(&join, &l, Some(&r)), &both, "{}", technique);
            let count = |left, right| join.count(left, right, &Control::default()).unwrap().pairs;
            prop_assert_eq!(count(&l, None), itself.len() as u64);
            prop_assert_eq!(count(&l, Some(&r)), both.len() as u64);
            let (groups, report) = join.groups(&l, &Control::default()).unwrap();
            prop_assert_eq!(report.pairs, itself.len() as u64);
            for &(a, b) in itself.keys() {
                prop_assert_eq!(groups[a as usize], groups[b as usize]);
            }
            for (row, &group) in (0u32..).zip(&groups) {
                prop_assert!(group <= row && groups[group as usize] == group);
            }
            if technique == "nested-loop" {
                let about = plan(&join, &l, Some(&r)).unwrap().estimate_pairs().unwrap();
                prop_assert!((about - both.len() as f64).abs() < 1e-6 * (1.0 + about));
                let about = plan(&join, &l, None).unwrap().estimate_pairs().unwrap();
                prop_assert!((about - itself.len() as f64).abs() < 1e-6 * (1.0 + about));
            }
        }
    }
}

#[test]
fn identical_rows_are_compared_once() {
    let rows = collection(3, &vec![vec![0.25, 1.0, -3.0]; 50_000]);
    for predicate in [VectorPredicate::within("0").unwrap(), VectorPredicate::cosine("1").unwrap()]
    {
        for technique in techniques() {
            let join = simjoin::engine::vector_join(predicate).technique(technique);
            let report = join.count(&rows, None, &Control::default()).unwrap();
            assert_eq!((report.pairs, report.candidates), (50_000 * 49_999 / 2, 0), "{technique}");
            let (groups, report) = join.groups(&rows, &Control::default()).unwrap();
            assert_eq!(report.pairs, 50_000 * 49_999 / 2);
            assert!(groups.iter().all(|&group| group == 0));
            let report = join.count(&rows, Some(&rows), &Control::default()).unwrap();
            assert_eq!(report.pairs, 50_000 * 50_000);
            assert!(report.candidates <= 1);
        }
    }
    // Rows are named as they were read.
    let mut rows = vec![vec![1.0, 2.0]; 7];
    rows.extend(vec![vec![0.0, 0.0]; 3]);
    for rows in [collection(2, &rows), collection(2, &vec![vec![0.0, 0.0]; 3])] {
        let row = rows.records() - 3;
        for technique in techniques() {
            let join = simjoin::engine::vector_join(VectorPredicate::cosine("0.5").unwrap());
            let error = join.technique(technique).count(&rows, None, &Control::default());
            let error = error.err().unwrap().to_string();
            let expected = format!("rows: row {row} (counting from 0): the vector is zero");
            assert!(error.starts_with(&expected), "{technique}: {error}");
        }
    }
}

#[test]
fn outliers_do_not_change_what_joins_of_ordinary_rows_take() {
    let mut rows: Vec<Vec<f32>> = (0..3000u32)
        .map(|at| (1..4).map(|i| ((at * at * i + 31 * at) % 9973) as f32 / 9973.0).collect())
        .collect();
    let predicate = VectorPredicate::within("0.02").unwrap();
    let ordinary = brute_force(&rows, None, 0.02);
    for (row, far) in [(2, 1e16), (77, -1e20), (1500, 3e38), (2999, 1e9)] {
        rows[row][1] = far;
    }
    let expected = brute_force(&rows, None, 0.02);
    assert!(expected.len() < ordinary.len() && !expected.is_empty());
    let rows = collection(3, &rows);
    for technique in techniques() {
        let join = simjoin::engine::vector_join(predicate).technique(technique);
        assert_eq!(pairs(&join, &rows, None), expected, "{technique}");
        let report = join.count(&rows, None, &Control::default()).unwrap();
        assert!(report.candidates < 2 * expected.len() as u64 + 1000, "{technique}");
    }
}
