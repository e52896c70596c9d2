//! How many pairs of rows are there?
//!
//! A pair of distinct sets stands for every pair of rows that hold them; it is never expanded. The same sink finds groups.

use super::{Answer, AnswerSink, Components};
use crate::kind::{Direction, Kind, Task};
use simjoin_core::Sink;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts pairs of rows.
#[derive(Default)]
pub(crate) struct Counter {
    total: AtomicU64,
}

impl Counter {
    pub(crate) fn total(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }
}

impl<K: Kind> Answer<K> for Counter {
    type Sink<'s> = CountSink<'s, K>;

    fn sink<'s>(&'s self, task: &Task<'s, K>, _: Direction) -> CountSink<'s, K> {
        CountSink { task: *task, total: &self.total, components: None }
    }
}

/// Counts pairs of rows, and unites the components of their entries if these are wanted.
pub(crate) struct CountSink<'s, K: Kind> {
    pub(super) task: Task<'s, K>,
    pub(super) total: &'s AtomicU64,
    pub(super) components: Option<&'s Components>,
}

impl<K: Kind> Sink<K::Pair> for CountSink<'_, K> {
    fn wants_value(&self) -> bool {
        false
    }

    fn only_counts(&self) -> bool {
        self.components.is_none() && K::can_count(&self.task)
    }

    fn count(&mut self, rows: u64) {
        self.total.fetch_add(rows, Ordering::Relaxed);
    }

    fn push(&mut self, pairs: &[K::Pair]) -> ControlFlow<()> {
        let rows = self.absorb(pairs).unwrap_or(0);
        self.count(rows);
        ControlFlow::Continue(())
    }
}

impl<K: Kind> AnswerSink<K::Pair> for CountSink<'_, K> {
    fn absorb(&mut self, pairs: &[K::Pair]) -> Option<u64> {
        // Uniting twice does no harm.
        if let Some(components) = self.components {
            components.unite_all(pairs.iter().map(K::ends));
        }
        Some(K::count_rows(&self.task, pairs))
    }
}
