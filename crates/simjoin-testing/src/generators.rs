//! Which random collections and predicates are joins tested on?

use crate::Rows;
use proptest::prelude::*;
use simjoin_core::{Measure, Predicate};
use std::collections::BTreeSet;

/// Generates sets from a small or a large universe, many of them near-duplicates of others.
pub fn rows() -> impl Strategy<Value = Rows> {
    let universe = prop_oneof![Just(12u32), Just(60), Just(700), Just(5000)];
    universe.prop_flat_map(|universe| {
        let set = prop::collection::btree_set(0..universe, 0..40);
        let edits = prop::collection::vec((any::<prop::sample::Index>(), 0..universe), 0..60);
        (prop::collection::vec(set, 1..40), edits).prop_map(|(mut rows, edits)| {
            for (at, token) in edits {
                rows.push(edited(&rows[at.index(rows.len())], [token]));
            }
            rows
        })
    })
}

/// Returns a copy of a set without the tokens that it has, and with those that it lacks.
pub fn edited(set: &BTreeSet<u32>, tokens: impl IntoIterator<Item = u32>) -> BTreeSet<u32> {
    let mut set = set.clone();
    for token in tokens {
        if !set.remove(&token) {
            set.insert(token);
        }
    }
    set
}

/// Generates predicates of every measure.
pub fn predicate() -> impl Strategy<Value = Predicate> {
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

/// Returns near-duplicates of `seeds` sets, of sizes 3 to 40, over tokens of very different frequencies.
pub fn near_duplicates(seeds: u32, rows: std::ops::Range<u32>) -> Rows {
    let token = |seed: u32, at: u32| (seed.wrapping_mul(2_654_435_761) >> 7) % (7 + at * at * 3);
    rows.map(|row| {
        let seed = row % seeds;
        (0..3 + seed % 38).map(|at| token(seed + u32::from(at == row / seeds), at)).collect()
    })
    .collect()
}
