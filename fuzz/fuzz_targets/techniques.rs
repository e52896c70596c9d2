//! Joins random collections. Every technique must find the pairs of the oracle, in self-joins and joins of
//! two, including the right one with itself, with any number of threads.

#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use simjoin::engine::{
    Control, Join, Measure, Predicate, RawSets, SetCollection, Sets, Side, prepare, techniques_for,
};
use std::collections::BTreeSet;
use std::ops::ControlFlow;

#[derive(Arbitrary, Debug)]
struct Case {
    left: Vec<Vec<u8>>,
    right: Option<Vec<Vec<u8>>>,
    with_itself: bool,
    measure: u8,
    percent: u8,
    threads: bool,
}

fn raw(rows: &[Vec<u8>]) -> RawSets {
    let mut sets = RawSets::default();
    for row in rows {
        let tokens: BTreeSet<u32> = row.iter().map(|&token| u32::from(token)).collect();
        sets.push(&tokens.into_iter().collect::<Vec<_>>());
    }
    sets
}

fn answer(
    task: &Join<Sets>,
    left: &SetCollection,
    right: Option<&SetCollection>,
) -> Vec<(Side, u32, u32, u32)> {
    let mut pairs = Vec::new();
    let report = task
        .pairs(left, right, &Control::default(), |rows| {
            pairs.extend(
                rows.iter().map(|pair| (pair.left_input, pair.left, pair.right, pair.overlap)),
            );
            ControlFlow::Continue(())
        })
        .unwrap();
    let count = task.count(left, right, &Control::default()).unwrap();
    assert_eq!((report.pairs, count.pairs), (pairs.len() as u64, pairs.len() as u64));
    pairs.sort_unstable();
    pairs
}

fuzz_target!(|case: Case| {
    let measure = Measure::ALL[usize::from(case.measure) % Measure::ALL.len()];
    let threshold = match measure {
        Measure::Overlap => (1 + case.percent % 20).to_string(),
        _ => format!("{}/100", 1 + case.percent % 100),
    };
    let predicate = Predicate::parse(measure, &threshold).unwrap();
    let (left, right) = prepare(raw(&case.left), case.right.as_deref().map(raw), 256).unwrap();
    left.validate().unwrap();
    let task = simjoin::engine::join(predicate)
        .threads(1 + usize::from(case.threads))
        .with_itself(case.with_itself);
    let oracle = answer(&task.clone().technique("naive"), &left, right.as_ref());
    for technique in techniques_for(predicate) {
        let found = answer(&task.clone().technique(technique), &left, right.as_ref());
        assert_eq!(oracle, found, "{technique}");
    }
});
