//! How many pairs of vectors are expected?
//!
//! Some rows of both sides, drawn by fixed random numbers, meet in a plain loop; what they find is scaled up.
//! An entry that was drawn for both sides of a self-join finds itself, which does not count.

use super::{VectorTask, Vectors};
use crate::host::Host;
use crate::kind::{Entries, Kind};
use crate::technique::Budget;
use simjoin_core::{Elements, Random, Result, Sink, VectorCollection, VectorPair};
use std::collections::BTreeSet;
use std::ops::ControlFlow;

/// Probes that are drawn at most.
const PROBES: usize = 512;
/// Products of elements, of all pairs together: they take less than a tenth of a second on a core.
const PRODUCTS: usize = 4_000_000_000;

/// Estimates the number of pairs of rows of a join, without repeats.
pub(crate) fn estimate_pairs(host: &dyn Host, task: &VectorTask<'_>) -> Result<f64> {
    let (probes, builds) = (task.probe.len(), task.build.len());
    if probes == 0 || builds == 0 {
        return Ok(0.0);
    }
    let most = PRODUCTS / PROBES / task.dimension().max(1);
    let mut random = Random::default();
    let probe_rows = rows(probes, PROBES, &mut random);
    let build_rows = rows(builds, most.max(1), &mut random);
    let (probe, build) = (drawn(task.probe, &probe_rows)?, drawn(task.build, &build_rows)?);
    let some = VectorTask::new(&probe, Some(&build), task.predicate);
    let stripes = host.striped_loop(PROBES);
    let prepared = stripes.prepare(&some, &Vectors::whole(&some), &Budget::unlimited(0, 1))?;
    let mut worker = prepared.worker()?;
    let mut found = Weighed { task, probes: probe_rows, builds: build_rows, rows: 0 };
    for piece in 0..prepared.pieces() {
        let _ = worker.run(piece, &mut found)?;
    }
    let scale = probes as f64 / probe.len() as f64 * builds as f64 / build.len() as f64;
    let pairs = found.rows as f64 * scale;
    Ok(if task.is_self_join() { pairs / 2.0 } else { pairs })
}

/// Counts the pairs of rows that pairs of drawn entries stand for.
struct Weighed<'j, 'a> {
    task: &'j VectorTask<'a>,
    /// The entries that were drawn.
    probes: Vec<usize>,
    builds: Vec<usize>,
    rows: u64,
}

impl Sink<VectorPair> for Weighed<'_, '_> {
    fn wants_value(&self) -> bool {
        false
    }

    fn push(&mut self, pairs: &[VectorPair]) -> ControlFlow<()> {
        for pair in pairs {
            let (probe, build) =
                (self.probes[pair.probe as usize], self.builds[pair.build as usize]);
            if !(self.task.is_self_join() && probe == build) {
                let (a, b) = (probe as u32, build as u32);
                self.rows += self.task.probe.weight(a) * self.task.build.weight(b);
            }
        }
        ControlFlow::Continue(())
    }
}

/// Draws at most a number of rows, or a little more than half of all.
fn rows(all: usize, most: usize, random: &mut Random) -> Vec<usize> {
    if all <= most {
        return (0..all).collect();
    }
    let mut rows = BTreeSet::new();
    while rows.len() < most.min(all / 2 + 1) {
        rows.insert(random.below(all as u64) as usize);
    }
    rows.into_iter().collect()
}

/// Copies these rows of a collection.
fn drawn(vectors: &VectorCollection, rows: &[usize]) -> Result<VectorCollection> {
    fn of<T: Copy>(all: &[T], dimension: usize, rows: &[usize]) -> Vec<T> {
        rows.iter().flat_map(|row| &all[row * dimension..(row + 1) * dimension]).copied().collect()
    }
    let dimension = vectors.dimension();
    let elements = match vectors.elements() {
        Elements::F32(all) => Elements::F32(of(all, dimension, rows)),
        Elements::F64(all) => Elements::F64(of(all, dimension, rows)),
    };
    VectorCollection::of_entries(vectors.name(), dimension, elements)
}
