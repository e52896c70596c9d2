//! What joins are tests of techniques run on?

use crate::testing::Rows;
use proptest::prelude::*;
use simjoin_core::{Measure, Predicate};

/// Sets of which many are near-duplicates of others, from a small or a large universe.
pub(crate) fn rows() -> impl Strategy<Value = Rows> {
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

#[allow(dead_code, reason = "not every test has one")]
pub(crate) fn predicate() -> impl Strategy<Value = Predicate> {
    let ratio = prop_oneof![
        Just("0.3"),
        Just("0.5"),
        Just("2/3"),
        Just("0.8"),
        Just("0.95"),
        Just("0.707106781186547524")
    ];
    (0..Measure::ALL.len(), ratio, 1..6u32).prop_map(|(measure, ratio, count)| {
        let measure = Measure::ALL[measure];
        let text = if measure == Measure::Overlap { count.to_string() } else { ratio.into() };
        Predicate::parse(measure, &text).unwrap()
    })
}

#[allow(dead_code, reason = "not every test wants so many")]
/// Near-duplicates of so many seeds, of sizes 3 to 40, over tokens of very different frequencies.
pub(crate) fn near_duplicates(seeds: u32, rows: std::ops::Range<u32>) -> Rows {
    let token = |seed: u32, at: u32| (seed.wrapping_mul(2_654_435_761) >> 7) % (7 + at * at * 3);
    rows.map(|row| {
        let seed = row % seeds;
        (0..3 + seed % 38).map(|at| token(seed + u32::from(at == row / seeds), at)).collect()
    })
    .collect()
}
