//! Which rows hang together?
//!
//! Connected components by union–find over distinct sets: pairs are never expanded or stored, and
//! the memory is 4 bytes a set, whatever the number of pairs.

use super::count::Weights;
use crate::run::TileSink;
use crate::sets::SetTask;
use simjoin_core::{Bounds, SetCollection, SetId, SetPair, Sink};
use std::ops::ControlFlow;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Debug)]
pub(crate) struct Components {
    parents: Mutex<Vec<SetId>>,
    pairs: AtomicU64,
}

impl Components {
    pub(crate) fn new(sets: usize) -> Self {
        Components { parents: Mutex::new((0..sets as SetId).collect()), pairs: AtomicU64::new(0) }
    }

    /// Bytes for the components and the labels of a collection.
    pub(crate) fn memory_bytes(sets: &SetCollection) -> u64 {
        8 * sets.len() as u64 + 4 * sets.records() as u64
    }

    /// Bytes for the components and the labels of as many rows.
    pub(crate) fn bytes(&self) -> u64 {
        12 * lock(&self.parents).len() as u64
    }

    pub(crate) fn worker<'a>(&'a self, join: &SetTask<'a>) -> GroupSink<'a> {
        GroupSink { weights: Weights::new(join), components: self }
    }

    pub(crate) fn pairs(&self) -> u64 {
        self.pairs.load(Ordering::Relaxed)
    }

    /// Counts pairs.
    pub(crate) fn count(&self, pairs: u64) {
        self.pairs.fetch_add(pairs, Ordering::Relaxed);
    }

    /// Joins the components of pairs, without counting them.
    pub(crate) fn unite_all(&self, pairs: impl Iterator<Item = (SetId, SetId)>) {
        let mut parents = lock(&self.parents);
        for (one, other) in pairs {
            unite(&mut parents, one, other);
        }
    }

    /// For each row, the smallest row of its component, where each row is a set of its own.
    pub(crate) fn roots(&self) -> Vec<u32> {
        let mut parents = lock(&self.parents);
        // The smallest is the root.
        (0..parents.len() as SetId).map(|row| find(&mut parents, row)).collect()
    }

    /// For each row, the smallest row of its component.
    pub(crate) fn labels(&self, sets: &SetCollection, bounds: Bounds) -> Vec<u32> {
        let mut parents = lock(&self.parents);
        // Rows of one set belong together if the set satisfies the bounds with itself; if it does
        // not, neither does it with any other set, and each of its rows stays alone.
        let together = |set| {
            let size = sets.size(set);
            bounds.accepts(size, size, size)
        };
        let mut smallest: Vec<u32> =
            (0..sets.len() as SetId).map(|set| sets.rows(set)[0]).collect();
        for set in 0..sets.len() as SetId {
            let root = find(&mut parents, set) as usize;
            smallest[root] = smallest[root].min(sets.rows(set)[0]);
        }
        let mut labels: Vec<u32> = (0..sets.records() as u32).collect();
        for set in (0..sets.len() as SetId).filter(|&set| together(set)) {
            let label = smallest[find(&mut parents, set) as usize];
            for &row in sets.rows(set) {
                labels[row as usize] = label;
            }
        }
        labels
    }
}

pub(crate) struct GroupSink<'a> {
    weights: Weights<'a>,
    components: &'a Components,
}

impl Sink<SetPair> for GroupSink<'_> {
    fn wants_value(&self) -> bool {
        false
    }

    fn push(&mut self, pairs: &[SetPair]) -> ControlFlow<()> {
        self.components.count(self.weights.rows(pairs));
        self.components.unite_all(pairs.iter().map(|pair| (pair.probe, pair.build)));
        ControlFlow::Continue(())
    }
}

impl TileSink for GroupSink<'_> {}

fn unite(parents: &mut [SetId], one: SetId, other: SetId) {
    let (a, b) = (find(parents, one), find(parents, other));
    // The smaller set becomes the root: deterministic, and halving keeps paths short.
    parents[a.max(b) as usize] = a.min(b);
}

fn find(parents: &mut [SetId], mut set: SetId) -> SetId {
    while parents[set as usize] != set {
        let grandparent = parents[parents[set as usize] as usize];
        parents[set as usize] = grandparent;
        set = grandparent;
    }
    set
}

fn lock(parents: &Mutex<Vec<SetId>>) -> std::sync::MutexGuard<'_, Vec<SetId>> {
    // A poisoned lock means that another worker panicked; its panic is the one to report.
    parents.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
