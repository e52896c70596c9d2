//! Does every technique find the same pairs as a loop over all pairs?

use super::*;
use proptest::prelude::*;
use simjoin_core::{Elements, Sink, VectorCollection, VectorMeasure, VectorPair, VectorPredicate};
use simjoin_engine::{Budget, CostTable, Kind, Technique, VectorTask, Vectors};
use std::ops::ControlFlow;

struct Collect(Vec<VectorPair>);

impl Sink<VectorPair> for Collect {
    fn wants_value(&self) -> bool {
        true
    }

    fn push(&mut self, pairs: &[VectorPair]) -> ControlFlow<()> {
        self.0.extend_from_slice(pairs);
        ControlFlow::Continue(())
    }
}

/// Counts pairs, or receives them without their distances.
struct Count {
    pairs: u64,
    only: bool,
}

impl Sink<VectorPair> for Count {
    fn wants_value(&self) -> bool {
        false
    }

    fn only_counts(&self) -> bool {
        self.only
    }

    fn count(&mut self, pairs: u64) {
        assert!(self.only);
        self.pairs += pairs;
    }

    fn push(&mut self, pairs: &[VectorPair]) -> ControlFlow<()> {
        assert!(!self.only);
        self.pairs += pairs.len() as u64;
        ControlFlow::Continue(())
    }
}

/// Sums terms in the order that defines the predicate, independently of the tested code.
fn in_order(terms: impl Iterator<Item = f64>) -> f64 {
    let mut sums = [0.0; 16];
    terms.enumerate().for_each(|(i, term)| sums[i % 16] += term);
    for half in [8, 4, 2, 1] {
        (0..half).for_each(|j| sums[j] += sums[j + half]);
    }
    sums[0]
}

fn expected(task: &VectorTask<'_>) -> Vec<(u32, u32, u64)> {
    let (mut a, mut b) = (Vec::new(), Vec::new());
    let product = |a: &[f64], b: &[f64]| in_order(a.iter().zip(b).map(|(x, y)| x * y));
    let mut found = Vec::new();
    for probe in 0..task.probe.len() {
        task.probe.row(probe, &mut a);
        for build in if task.is_self_join() { probe + 1 } else { 0 }..task.build.len() {
            task.build.row(build, &mut b);
            let threshold = task.predicate.threshold();
            let distance = match task.predicate.measure() {
                VectorMeasure::Euclidean => {
                    let square = in_order(a.iter().zip(&b).map(|(x, y)| (x - y) * (x - y)));
                    (square <= threshold * threshold).then(|| square.sqrt())
                }
                VectorMeasure::Cosine => {
                    let root = (product(&a, &a) * product(&b, &b)).sqrt();
                    let product = product(&a, &b);
                    (product >= threshold * root).then(|| (1.0 - product / root).max(0.0))
                }
            };
            if let Some(distance) = distance {
                found.push((probe as u32, build as u32, distance.to_bits()));
            }
        }
    }
    found
}

fn run(task: &VectorTask<'_>, technique: &dyn Technique<Vectors>, sink: &mut dyn Sink<VectorPair>) {
    let budget = Budget::unlimited(0, 3);
    let prepared = match technique.prepare(task, &Vectors::whole(task), &budget) {
        Ok(prepared) => prepared,
        // Only a grid refuses a join, if there are too many coordinates.
        Err(error) => {
            assert!(error.to_string().contains("technique `grid` supports up to"), "{error}");
            let budget = Budget::unlimited(0, 1);
            NestedLoop.prepare(task, &Vectors::whole(task), &budget).unwrap()
        }
    };
    let mut workers: Vec<_> = (0..3).map(|_| prepared.worker().unwrap()).collect();
    for piece in 0..prepared.pieces() {
        assert!(workers[piece % 3].run(piece, sink).unwrap().is_continue());
    }
    if let Some(estimate) = prepared.estimate() {
        assert!(estimate >= 0.0);
    }
}

fn check(task: &VectorTask<'_>) {
    let expected = expected(task);
    let VectorTechniques { all, survey, .. } = vector_techniques(task);
    assert!(all.iter().any(|one| one.cost(&survey, &CostTable::default()).is_some()));
    for technique in &all {
        let mut sink = Collect(Vec::new());
        run(task, &**technique, &mut sink);
        let mut found: Vec<(u32, u32, u64)> = sink
            .0
            .iter()
            .map(|pair| {
                let (a, b) = match task.is_self_join() {
                    true => (pair.probe.min(pair.build), pair.probe.max(pair.build)),
                    false => (pair.probe, pair.build),
                };
                (a, b, pair.distance.to_bits())
            })
            .collect();
        found.sort_unstable();
        assert_eq!(found, expected, "{} on {}", technique.name(), task.predicate);
        for only in [false, true] {
            let mut sink = Count { pairs: 0, only };
            run(task, &**technique, &mut sink);
            assert_eq!(sink.pairs, expected.len() as u64, "{} counts", technique.name());
        }
    }
}

fn vectors(d: usize, rows: &[Vec<f64>], wide: bool) -> VectorCollection {
    let flat = rows.iter().flatten().copied();
    let elements = match wide {
        true => Elements::F64(flat.collect()),
        false => Elements::F32(flat.map(|x| (x as f32).clamp(f32::MIN, f32::MAX)).collect()),
    };
    VectorCollection::of_entries("v", d, elements).unwrap()
}

/// Returns a threshold that is exactly the distance of two of the rows, or differs from it in the last bit.
fn threshold(task: &VectorTask<'_>, pick: (u16, u16), nudge: i8) -> VectorPredicate {
    let (mut a, mut b) = (Vec::new(), Vec::new());
    task.probe.row(pick.0 as usize % task.probe.len(), &mut a);
    task.build.row(pick.1 as usize % task.build.len(), &mut b);
    let nudged = |x: f64| match nudge {
        -1 => x.next_down(),
        1 => x.next_up(),
        _ => x,
    };
    match task.predicate.measure() {
        VectorMeasure::Euclidean => {
            let square = in_order(a.iter().zip(&b).map(|(x, y)| (x - y) * (x - y)));
            let text = format!("{}", nudged(square.sqrt()).abs());
            VectorPredicate::within(&text).unwrap_or(task.predicate)
        }
        VectorMeasure::Cosine => {
            let product = |a: &[f64], b: &[f64]| in_order(a.iter().zip(b).map(|(x, y)| x * y));
            let cosine = product(&a, &b) / (product(&a, &a) * product(&b, &b)).sqrt();
            let text = format!("{}", nudged(cosine).clamp(-1.0, 1.0));
            VectorPredicate::cosine(&text).unwrap_or(task.predicate)
        }
    }
}

/// Generates rows of one of several kinds: on a lattice with many repeats and ties, in clusters, uniform, far from the
/// origin, along a line, of many magnitudes, or ordinary except for a few elements or rows.
fn rows(d: usize, n: usize) -> impl Strategy<Value = Vec<Vec<f64>>> {
    const WILD: [f64; 8] = [1e-30, 1e3, 1e7, 1e16, -1e16, 1e20, 1e150, -9999.0];
    (0u8..8, prop::collection::vec(prop::collection::vec((-4i32..5, -1.0..1.0), d..=d), n..=n))
        .prop_map(|(kind, cells)| {
            let row = |row: &Vec<(i32, f64)>| -> Vec<f64> {
                let line = row[0].1;
                let of = |(at, &(whole, part)): (usize, &(i32, f64))| match kind {
                    0 => f64::from(whole),
                    1 => f64::from(row[0].0.signum()) * 100.0 + part,
                    2 => part,
                    3 => 1e6 + part,
                    4 => line * (at + 1) as f64 + 1e-3 * part,
                    // Whole rows, and single elements.
                    5 if line > 0.8 => WILD[(8.0 * (line - 0.8) / 0.2) as usize % 8] * (1.0 + part),
                    6 if part > 0.8 => WILD[(8.0 * (part - 0.8) / 0.2) as usize % 8],
                    5 | 6 => part,
                    _ => part * 10f64.powi(whole),
                };
                row.iter().enumerate().map(of).collect()
            };
            cells.iter().map(row).collect()
        })
}

fn case() -> impl Strategy<Value = (usize, Vec<Vec<f64>>, Vec<Vec<f64>>)> {
    prop_oneof![
        3 => (1usize..5, 2usize..400),
        3 => (5usize..30, 2usize..150),
        1 => (30usize..200, 2usize..60),
    ]
    .prop_flat_map(|(d, n)| (Just(d), rows(d, n), rows(d, n / 2 + 1)))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn every_technique_finds_exactly_the_pairs(
        (d, left, right) in case(),
        (wide, itself, cosine) in any::<(bool, bool, bool)>(),
        pick in any::<(u16, u16)>(),
        nudge in -1i8..2,
    ) {
        let (left, right) = (vectors(d, &left, wide), vectors(d, &right, wide));
        let predicate =
            if cosine { VectorPredicate::cosine("0.9") } else { VectorPredicate::within("0.5") };
        let right = (!itself).then_some(&right);
        let mut task = VectorTask::new(&left, right, predicate.unwrap());
        task.predicate = threshold(&task, pick, nudge);
        let direction = |side: &VectorCollection| {
            let mut row = Vec::new();
            (0..side.len()).all(|at| {
                side.row(at, &mut row);
                VectorPredicate::has_direction(row.iter().map(|x| x * x).sum())
            })
        };
        if cosine && !(direction(&left) && direction(task.build)) {
            for technique in &vector_techniques(&task).all {
                let budget = Budget::unlimited(0, 1);
                let error = technique.prepare(&task, &Vectors::whole(&task), &budget).err().unwrap().to_string();
                assert!(error.contains("counting from 0") || technique.name() != "nested-loop", "{error}");
            }
            return Ok(());
        }
        check(&task);
    }
}

fn within(text: &str) -> VectorPredicate {
    VectorPredicate::within(text).unwrap()
}

#[test]
fn empty_single_and_equal_rows_are_joined() {
    for wide in [false, true] {
        for d in [1, 3, 100] {
            let none = vectors(d, &[], wide);
            let one = vectors(d, &[vec![1.5; d]], wide);
            let same = vectors(d, &vec![vec![0.25; d]; 100], wide);
            for text in ["0", "1", "1e-150", "1e150"] {
                for side in [&none, &one, &same] {
                    check(&VectorTask::new(side, None, within(text)));
                    check(&VectorTask::new(side, Some(&same), within(text)));
                    check(&VectorTask::new(side, Some(&none), within(text)));
                }
            }
        }
    }
}

#[test]
fn vectors_of_many_dimensions_are_joined() {
    let mut random = simjoin_engine::Random::default();
    for (d, n) in [(784, 80), (1000, 40), (4096, 40)] {
        let rows: Vec<Vec<f64>> = (0..n)
            .map(|row| {
                let base = f64::from(row % 7);
                (0..d)
                    .map(|at| base * ((at % 13) as f64) + random.below(1000) as f64 / 500.0)
                    .collect()
            })
            .collect();
        for wide in [false, true] {
            let side = vectors(d, &rows, wide);
            let task = VectorTask::new(&side, None, within("1"));
            for pick in [(0, 7), (1, 2), (3, 24)] {
                check(&VectorTask { predicate: threshold(&task, pick, 0), ..task });
            }
            let task = VectorTask { predicate: VectorPredicate::cosine("0.99").unwrap(), ..task };
            check(&VectorTask { predicate: threshold(&task, (0, 7), 0), ..task });
        }
    }
}

#[test]
fn numbers_beyond_single_precision_are_joined() {
    for (factor, shift) in [(1e100, 0.0), (1e-100, 0.0), (1e-9, 1e9), (1.0, 1e30), (1e-160, 0.0)] {
        let rows: Vec<Vec<f64>> = (0..150)
            .map(|row| vec![shift + factor * f64::from(row % 17), factor * f64::from(row % 5)])
            .collect();
        let side = vectors(2, &rows, true);
        let task = VectorTask::new(&side, None, within("0"));
        check(&task);
        for pick in [(0, 1), (3, 9), (2, 19)] {
            check(&VectorTask { predicate: threshold(&task, pick, 0), ..task });
        }
    }
}

/// There are more points than a level of an index holds, and cells of every kind.
#[test]
fn indices_of_several_levels_find_all_pairs() {
    let mut random = simjoin_engine::Random::default();
    let mut number = move |limit: u64| random.below(limit) as f64 / 64.0;
    for d in [2, 8] {
        let rows: Vec<Vec<f64>> = (0..3000)
            .map(|row| (0..d).map(|_| number(if row % 3 == 0 { 64 } else { 640 })).collect())
            .collect();
        let side = vectors(d, &rows, false);
        for text in ["0.125", "1", "2.5"] {
            check(&VectorTask::new(&side, None, within(text)));
        }
    }
}

/// Generates rows in `[0, 1]`, of which some are moved far away.
fn with_outliers(
    d: usize,
    n: usize,
    wide: bool,
    far: impl Fn(usize, &mut [f64]),
) -> VectorCollection {
    let mut random = simjoin_engine::Random::default();
    let rows: Vec<Vec<f64>> = (0..n)
        .map(|at| {
            let mut row: Vec<f64> =
                (0..d).map(|_| random.below(1 << 20) as f64 / f64::from(1 << 20)).collect();
            far(at, &mut row);
            row
        })
        .collect();
    vectors(d, &rows, wide)
}

#[test]
fn outliers_leave_few_candidates_of_ordinary_rows() {
    for (d, text) in [(2, "0.02"), (8, "0.3"), (40, "1.6")] {
        for wide in [false, true] {
            let plain = with_outliers(d, 2000, wide, |_, _| {});
            let one = |far| {
                with_outliers(d, 2000, wide, move |at, row| {
                    if at == 1234 {
                        row[0] = far;
                    }
                })
            };
            // A fifth of the rows have a sentinel value in one element.
            let sentinels = |far| {
                with_outliers(d, 2000, wide, move |at, row| {
                    if at % 5 == 0 {
                        row[at % 7 % d] = far;
                    }
                })
            };
            let wild = with_outliers(d, 2000, wide, |at, row| {
                if at % 50 == 0 {
                    row.iter_mut().for_each(|x| *x *= 10f64.powi((at / 50) as i32 % 38));
                }
            });
            let all =
                [plain, one(1e16), one(-1e9), one(1e38), sentinels(1e20), sentinels(-9999.0), wild];
            for side in &all {
                let task = VectorTask::new(side, None, within(text));
                let pairs = expected(&task).len() as u64;
                for technique in &vector_techniques(&task).all {
                    let prepared = technique
                        .prepare(&task, &Vectors::whole(&task), &Budget::unlimited(0, 1))
                        .unwrap();
                    let (mut sink, mut worker) = (Collect(Vec::new()), prepared.worker().unwrap());
                    for piece in 0..prepared.pieces() {
                        assert!(worker.run(piece, &mut sink).unwrap().is_continue());
                    }
                    assert_eq!(sink.0.len() as u64, pairs);
                    let most = pairs + pairs / 10 + 4000;
                    let candidates = worker.candidates();
                    assert!(candidates <= most, "{}: {candidates} for {pairs}", technique.name());
                }
            }
        }
    }
}
