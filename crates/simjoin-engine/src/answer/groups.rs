//! Which rows are connected by pairs?
//!
//! Connected components by union–find over distinct entries: pairs are never expanded or stored, and the memory is 4
//! bytes an entry, whatever the number of pairs.

use super::Answer;
use super::count::CountSink;
use crate::kind::{Direction, Entries, Kind, Task};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// The connected components of a self-join.
#[derive(Debug)]
pub(crate) struct Components {
    parents: Mutex<Vec<u32>>,
    pairs: AtomicU64,
}

impl Components {
    /// Makes a component of each entry.
    pub(crate) fn new(entries: usize) -> Self {
        Components { parents: Mutex::new((0..entries as u32).collect()), pairs: AtomicU64::new(0) }
    }

    /// Returns the bytes for the components of a number of entries and the labels of a number of rows.
    pub(crate) fn memory_bytes((entries, rows): (usize, usize)) -> u64 {
        8 * entries as u64 + 4 * rows as u64
    }

    /// Returns the bytes for the components, and for their labels if no entry stands in several rows.
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
        let (count, rows) = entries.sizes();
        let mut smallest: Vec<u32> =
            (0..count as u32).map(|entry| entries.rows(&entry)[0]).collect();
        for entry in 0..count {
            let root = find(&mut parents, entry as u32) as usize;
            smallest[root] = smallest[root].min(smallest[entry]);
        }
        let mut labels: Vec<u32> = (0..rows as u32).collect();
        for entry in 0..count as u32 {
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
    type Sink<'s> = CountSink<'s, K>;

    fn sink<'s>(&'s self, task: &Task<'s, K>, _: Direction) -> CountSink<'s, K> {
        CountSink { task: *task, total: &self.pairs, components: Some(self) }
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
