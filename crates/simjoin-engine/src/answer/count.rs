//! How many pairs are there?
//!
//! A pair of distinct sets stands for every pair of rows that hold them; it is never expanded.

use crate::run::TileSink;
use crate::sets::SetTask;
use simjoin_core::{Bounds, SetCollection, SetId, SetPair, Sink};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Default)]
pub(crate) struct Counter {
    total: AtomicU64,
}

impl Counter {
    pub(crate) fn worker<'a>(&'a self, join: &SetTask<'a>) -> CountSink<'a> {
        CountSink { weights: Weights::new(join), total: &self.total }
    }

    pub(crate) fn total(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }
}

pub(crate) struct CountSink<'a> {
    weights: Weights<'a>,
    total: &'a AtomicU64,
}

impl Sink<SetPair> for CountSink<'_> {
    fn wants_value(&self) -> bool {
        false
    }

    fn only_counts(&self) -> bool {
        true
    }

    fn count(&mut self, rows: u64) {
        self.total.fetch_add(rows, Ordering::Relaxed);
    }

    fn push(&mut self, pairs: &[SetPair]) -> ControlFlow<()> {
        self.total.fetch_add(self.weights.rows(pairs), Ordering::Relaxed);
        ControlFlow::Continue(())
    }
}

impl TileSink for CountSink<'_> {
    fn rows(&self, pairs: &[SetPair]) -> Option<u64> {
        Some(self.weights.rows(pairs))
    }
}

/// Turns pairs of sets into numbers of pairs of rows.
pub(crate) struct Weights<'a> {
    probe: &'a SetCollection,
    build: &'a SetCollection,
    repeats: bool,
}

impl<'a> Weights<'a> {
    pub(crate) fn new(join: &SetTask<'a>) -> Self {
        let repeats = join.probe.has_repeats() || join.build.has_repeats();
        Weights { probe: join.probe, build: join.build, repeats }
    }

    /// How many pairs of rows these pairs of sets stand for.
    pub(crate) fn rows(&self, pairs: &[SetPair]) -> u64 {
        if !self.repeats {
            return pairs.len() as u64;
        }
        pairs
            .iter()
            .map(|pair| {
                u64::from(self.probe.weight(pair.probe)) * u64::from(self.build.weight(pair.build))
            })
            .sum()
    }
}

/// The pairs of rows of one collection that hold the same set, as far as the set satisfies the
/// bounds with itself: what a self-join adds, because techniques compare distinct sets only.
pub fn repeats(sets: &SetCollection, bounds: Bounds) -> u64 {
    let classes = sets.classes().iter().zip(sets.repeats());
    classes
        .filter(|(class, _)| bounds.accepts(class.size, class.size, class.size))
        .map(|(_, pairs)| pairs)
        .sum()
}

/// The sets that stand in several rows and satisfy the bounds with themselves.
pub(crate) fn repeated_sets(
    sets: &SetCollection,
    bounds: Bounds,
) -> impl Iterator<Item = SetId> + '_ {
    (0..sets.len() as SetId).filter(move |&set| {
        let size = sets.size(set);
        sets.weight(set) > 1 && bounds.accepts(size, size, size)
    })
}
