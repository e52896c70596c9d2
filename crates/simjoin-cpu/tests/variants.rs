//! Does every variant of every technique find the pairs of the oracle, on every tile and in any memory?
//!
//! The planner picks signature widths by cost, so a test that asks for a technique by name may never
//! run some of them. These tests run each variant by itself: on whole joins and on tiles, with little
//! memory and with much, and with several workers.

use proptest::prelude::*;
use simjoin_core::{Bounds, Measure, Predicate, SetPair};
use simjoin_cpu::{Naive, estimate_rows, techniques};
use simjoin_engine::{Budget, CostTable, Effort, SetTask, Sets, Survey, Technique, Tile};
use simjoin_testing::{Rows, collections, near_duplicates, predicate, rows};

fn run(
    technique: &dyn Technique<Sets>,
    task: &SetTask<'_>,
    tile: &Tile,
    room: &Budget,
) -> Vec<SetPair> {
    simjoin_testing::run(technique, task, tile, room, true).0
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
        for (task, _) in SetTask::directions(&left, right.as_ref(), true, Bounds::new(predicate)) {
            let whole = Tile::whole(&task);
            // Also a tile from the middle: any range of probes and any range of build sets.
            let range = |len: usize, a: &prop::sample::Index, b: &prop::sample::Index| {
                let (a, b) = (a.index(len + 1) as u32, b.index(len + 1) as u32);
                a.min(b)..a.max(b)
            };
            let part = Tile {
                probes: range(task.probe.len(), &cuts[0], &cuts[1]),
                builds: range(task.build.len(), &cuts[2], &cuts[3]),
            };
            for tile in [whole, part] {
                let roomy = Budget::unlimited(1000, 1);
                let mut wanted = run(&Naive, &task, &tile, &roomy);
                wanted.sort_unstable();
                for technique in techniques().into_iter().filter(|one| one.unsupported(&task.predicate).is_none()) {
                    let label = format!("{} {}", technique.name(), technique.variant());
                    let least = technique.memory_bytes(&task, &tile, 3);
                    let most = technique.memory_at_most(&task, &tile, 3);
                    prop_assert!(least <= most, "{}: {} bytes of {}", label, least, most);
                    let tight = Budget { bytes: least, ..Budget::unlimited(50, 3) };
                    let first = run(&*technique, &task, &tile, &roomy);
                    let mut found = first.clone();
                    found.sort_unstable();
                    prop_assert_eq!(&found, &wanted, "{}", label);
                    let mut found = run(&*technique, &task, &tile, &tight);
                    // The number of workers changes nothing, including the order.
                    let same = Budget { threads: 3, ..roomy };
                    prop_assert_eq!(&run(&*technique, &task, &tile, &same), &first, "{}", label);
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
        for (task, _) in SetTask::directions(&left, right.as_ref(), false, Bounds::new(predicate)) {
            let tile = Tile::whole(&task);
            let survey = Survey::new(&task, &tile).sample(Effort { sets: 10_000, pairs: 200 });
            prop_assert!(survey.list_pairs >= 0.0 && survey.list_pairs.is_finite());
            for part in survey.survival.into_iter().chain(survey.list_survival) {
                prop_assert!((0.0..=1.0).contains(&part));
            }
            for technique in techniques() {
                if let Some(cost) = technique.cost(&survey, &CostTable::default()) {
                    prop_assert!(cost.seconds(2) > 0.0 && cost.seconds(2).is_finite());
                    prop_assert!(cost.seconds(2) <= cost.seconds(1));
                }
            }
            // With more samples than groups of probes, the estimate is exact.
            let rows: u64 = run(&Naive, &task, &tile, &Budget::unlimited(100, 1))
                .iter()
                .map(|pair| {
                    u64::from(task.probe.weight(pair.probe)) * u64::from(task.build.weight(pair.build))
                })
                .sum();
            prop_assert_eq!(estimate_rows(&task, 10_000, u64::MAX), Some(rows as f64));
            prop_assert_eq!(estimate_rows(&task, 10_000, 1_000), None);
        }
    }
}

/// Uses enough sets for lists that several threads make together, in several rounds.
#[test]
fn lists_do_not_depend_on_threads_and_rounds() {
    let (left, right) = (near_duplicates(300, 0..2500), near_duplicates(300, 1000..3500));
    for (measure, text) in [(Measure::Jaccard, "0.6"), (Measure::Overlap, "4")] {
        let predicate = Predicate::parse(measure, text).unwrap();
        for right in [None, Some(&right)] {
            let (left, right) = collections(&left, right);
            for (task, _) in
                SetTask::directions(&left, right.as_ref(), false, Bounds::new(predicate))
            {
                let whole = Tile::whole(&task);
                let room = Budget::unlimited(1000, 1);
                let mut expected = run(&Naive, &task, &whole, &room);
                expected.sort_unstable();
                assert!(expected.len() > 500);
                for technique in techniques().iter().filter(|t| t.name() == "prefix-bitmap") {
                    let one = run(&**technique, &task, &whole, &room);
                    let mut sorted = one.clone();
                    sorted.sort_unstable();
                    assert_eq!(sorted, expected);
                    for threads in [2, 5] {
                        let least = technique.memory_bytes(&task, &whole, threads);
                        for bytes in [least, least + 100_000, u64::MAX] {
                            let room = Budget { bytes, ..Budget::unlimited(1000, threads) };
                            assert_eq!(run(&**technique, &task, &whole, &room), one);
                        }
                    }
                }
            }
        }
    }
}

/// Uses more tokens than one thread opens lists for.
#[test]
fn lists_of_many_tokens_agree_with_naive_on_many_threads() {
    // Each set occurs twice, the second time with another last token.
    let row = |row: u32| (0..5).map(|at| 6 * (row / 2) + at + at / 4 * (row % 2)).collect();
    let rows: Rows = (0..40_000).map(row).collect();
    let predicate = Predicate::parse(Measure::Jaccard, "0.6").unwrap();
    let every_other = |from| rows.iter().skip(from).step_by(2).cloned().collect::<Rows>();
    let mut found = 0;
    for (left, right) in [(rows.clone(), None), (every_other(0), Some(every_other(1)))] {
        let (left, right) = collections(&left, right.as_ref());
        for (task, _) in SetTask::directions(&left, right.as_ref(), true, Bounds::new(predicate)) {
            let whole = Tile::whole(&task);
            let all = techniques();
            let of = |name: &str, threads: usize| {
                let technique = all.iter().find(|technique| technique.name() == name).unwrap();
                let mut pairs = run(&**technique, &task, &whole, &Budget::unlimited(1000, threads));
                pairs.sort_unstable();
                pairs
            };
            let expected = of("ppjoin", 1);
            found += expected.len();
            assert_eq!(of("prefix-bitmap", 1), expected);
            assert_eq!(of("prefix-bitmap", 7), expected);
        }
    }
    assert_eq!(found, 2 * 20_000);
}
