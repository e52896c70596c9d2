//! Which rows hang together?
//!
//! Connected components by union–find over distinct entries: pairs are never expanded or stored, and
//! the memory is 4 bytes an entry, whatever the number of pairs.

use super::{Answer, AnswerSink};
use crate::kind::{Direction, Entries, Kind, Task};
use parking_lot::Mutex;
use simjoin_core::Sink;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};

/// The connected components of a self-join.
#[derive(Debug)]
pub(crate) struct Components {
    parents: Mutex<Vec<u32>>,
    pairs: AtomicU64,
}

impl Components {
    /// Each entry is alone.
    pub(crate) fn new(entries: usize) -> Self {
        Components { parents: Mutex::new((0..entries as u32).collect()), pairs: AtomicU64::new(0) }
    }

    /// Returns the bytes for the components of so many entries and the labels of so many rows.
    pub(crate) fn memory_bytes((entries, rows): (usize, usize)) -> u64 {
        8 * entries as u64 + 4 * rows as u64
    }

    /// Returns the bytes for the components, and for the labels of as many rows.
    pub(crate) fn bytes(&self) -> u64 {
        12 * self.parents.lock().len() as u64
    }

    pub(crate) fn pairs(&self) -> u64 {
        self.pairs.load(Ordering::Relaxed)
    }

    /// Unites the components of pairs, without counting them.
    pub(crate) fn unite_all(&self, pairs: impl Iterator<Item = (u32, u32)>) {
        let mut parents = self.parents.lock();
        for (one, other) in pairs {
            unite(&mut parents, one, other);
        }
    }

    /// Returns the smallest row of each row's component.
    pub(crate) fn labels<K: Kind>(
        &self,
        entries: &K::Collection,
        predicate: &K::Predicate,
    ) -> Vec<u32> {
        let mut parents = self.parents.lock();
        // The root of a component is its smallest entry, which may not stand in its smallest row.
        let mut smallest: Vec<u32> =
            (0..entries.count()).map(|entry| entries.rows(&entry)[0]).collect();
        for entry in 0..smallest.len() {
            let root = find(&mut parents, entry as u32) as usize;
            smallest[root] = smallest[root].min(smallest[entry]);
        }
        let mut labels: Vec<u32> = (0..entries.records() as u32).collect();
        for entry in 0..entries.count() {
            // Rows of an entry that is in no pair stay alone.
            if K::self_pair(entries, predicate, entry).is_some() {
                let label = smallest[find(&mut parents, entry) as usize];
                entries.rows(&entry).iter().for_each(|&row| labels[row as usize] = label);
            }
        }
        labels
    }
}

impl<K: Kind> Answer<K> for Components {
    type Sink<'s> = GroupSink<'s, K>;

    fn sink<'s>(&'s self, task: &Task<'s, K>, _: Direction) -> GroupSink<'s, K> {
        GroupSink { task: *task, components: self }
    }
}

pub(crate) struct GroupSink<'s, K: Kind> {
    task: Task<'s, K>,
    components: &'s Components,
}

impl<K: Kind> Sink<K::Pair> for GroupSink<'_, K> {
    fn wants_value(&self) -> bool {
        false
    }

    fn count(&mut self, rows: u64) {
        self.components.pairs.fetch_add(rows, Ordering::Relaxed);
    }

    fn push(&mut self, pairs: &[K::Pair]) -> ControlFlow<()> {
        self.components.unite_all(pairs.iter().map(K::ends));
        self.count(K::count_rows(&self.task, pairs));
        ControlFlow::Continue(())
    }
}

impl<K: Kind> AnswerSink<K::Pair> for GroupSink<'_, K> {
    fn absorb(&mut self, pairs: &[K::Pair]) -> Option<u64> {
        // Uniting twice does no harm.
        self.components.unite_all(pairs.iter().map(K::ends));
        Some(K::count_rows(&self.task, pairs))
    }
}

fn unite(parents: &mut [u32], one: u32, other: u32) {
    let (a, b) = (find(parents, one), find(parents, other));
    // The smaller entry becomes the root: deterministic, and halving keeps paths short.
    parents[a.max(b) as usize] = a.min(b);
}

fn find(parents: &mut [u32], mut entry: u32) -> u32 {
    while parents[entry as usize] != entry {
        let grandparent = parents[parents[entry as usize] as usize];
        parents[entry as usize] = grandparent;
        entry = grandparent;
    }
    entry
}
