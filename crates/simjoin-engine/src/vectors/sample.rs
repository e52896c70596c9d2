//! About how many pairs of vectors will there be?
//!
//! Some rows of both sides, drawn by fixed random numbers, meet in a plain loop; what they find is scaled up.
//! A row that was drawn for both sides of a self-join finds itself, which does not count.

use super::{VectorTask, Vectors};
use crate::host::Host;
use crate::kind::Kind;
use crate::technique::Budget;
use simjoin_core::{Elements, Random, Result, VectorCollection, VectorCount};
use std::collections::BTreeSet;

/// Probes that are drawn at most.
const PROBES: usize = 512;
/// Products of elements, of all pairs together: they take less than a tenth of a second on a core.
const PRODUCTS: usize = 4_000_000_000;

/// The number of pairs of a join, about.
pub(crate) fn estimate_pairs(host: &dyn Host, join: &VectorTask<'_>) -> Result<f64> {
    let (probes, builds) = (join.probe.len(), join.build.len());
    if probes == 0 || builds == 0 {
        return Ok(0.0);
    }
    let most = PRODUCTS / PROBES / join.dimension().max(1);
    let mut random = Random::default();
    let probe_rows = rows(probes, PROBES, &mut random);
    let build_rows = rows(builds, most.max(1), &mut random);
    let (probe, build) = (drawn(join.probe, &probe_rows)?, drawn(join.build, &build_rows)?);
    let some = VectorTask::new(&probe, Some(&build), join.predicate);
    let stripes = host.striped_loop(PROBES);
    let prepared = stripes.prepare(&some, &Vectors::whole(&some), &Budget::unlimited(0, 1))?;
    let mut worker = prepared.worker()?;
    let mut found = VectorCount::default();
    for piece in 0..prepared.pieces() {
        let _ = worker.run(piece, &mut found)?;
    }
    let themselves =
        if join.is_self_join() { probe_rows.intersection(&build_rows).count() as u64 } else { 0 };
    let scale = probes as f64 / probe.len() as f64 * builds as f64 / build.len() as f64;
    let pairs = found.0.saturating_sub(themselves) as f64 * scale;
    Ok(if join.is_self_join() { pairs / 2.0 } else { pairs })
}

/// So many rows of all, or all of them.
fn rows(all: usize, most: usize, random: &mut Random) -> BTreeSet<usize> {
    if all <= most {
        return (0..all).collect();
    }
    let mut rows = BTreeSet::new();
    while rows.len() < most.min(all / 2 + 1) {
        rows.insert(random.below(all as u64) as usize);
    }
    rows
}

/// These rows of a collection.
fn drawn(vectors: &VectorCollection, rows: &BTreeSet<usize>) -> Result<VectorCollection> {
    fn of<T: Copy>(all: &[T], dimension: usize, rows: &BTreeSet<usize>) -> Vec<T> {
        rows.iter().flat_map(|row| &all[row * dimension..(row + 1) * dimension]).copied().collect()
    }
    let dimension = vectors.dimension();
    let elements = match vectors.elements() {
        Elements::F32(all) => Elements::F32(of(all, dimension, rows)),
        Elements::F64(all) => Elements::F64(of(all, dimension, rows)),
    };
    VectorCollection::new(vectors.name(), dimension, elements)
}
