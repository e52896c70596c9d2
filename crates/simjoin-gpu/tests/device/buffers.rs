//! Does a join lose nothing when the buffers of its kernels are full?

use super::vectors::vectors;
use libtest_mimic::Failed;
use simjoin_core::{VectorCount, VectorPredicate};
use simjoin_gpu::{Device, GpuVectors, VectorWay};
use simjoin_plan::{VectorJoin, VectorRoom, VectorTechnique};
use std::sync::Arc;

/// Rows in runs of 128 equal ones. Runs hold one of two points that are exactly at the distance from each other, so a
/// tile has pairs that are surely near, or pairs that the predicate must decide about, or none, in any order. Where
/// pairs are only counted the former are added up and the latter fill the buffer of candidates.
pub fn counting(device: &Arc<Device>) -> Result<(), Failed> {
    let dimension = 8;
    let near = vec![0.3; dimension];
    let (mut at, mut far) = (near.clone(), near.clone());
    at[0] = 0.55;
    far[1] = 9.0;
    // As f32, as the rows are.
    let distance = f64::from(0.55f32) - f64::from(0.3f32);
    for runs in ["aabbab", "abacab"] {
        let of = |run: char| match run {
            'a' => &near,
            'b' => &at,
            _ => &far,
        };
        let rows: Vec<Vec<f64>> =
            runs.chars().flat_map(|run| std::iter::repeat_n(of(run).clone(), 128)).collect();
        let rows = vectors(&rows, false);
        let predicate = VectorPredicate::within(&distance.to_string()).unwrap();
        let join = VectorJoin { probe: &rows, build: &rows, itself: true, predicate };
        let near = runs.chars().filter(|&run| run != 'c').count() as u64 * 128;
        let far = runs.len() as u64 * 128 - near;
        let expected = near * (near - 1) / 2 + far * far.saturating_sub(1) / 2;
        for way in [VectorWay::Tensor, VectorWay::NestedLoop] {
            // As much room as one tile may need.
            let technique =
                GpuVectors { candidates: 0, ..GpuVectors::new(std::slice::from_ref(device), way) };
            let room = VectorRoom { bytes: u64::MAX, threads: 1 };
            let prepared = technique.prepare(&join, &room).map_err(|e| e.to_string())?;
            let (mut worker, mut count) = (prepared.worker(), VectorCount(0));
            for piece in 0..prepared.pieces() {
                let flow = worker.run(piece, &mut count).map_err(|e| e.to_string())?;
                assert!(flow.is_continue());
            }
            if count.0 != expected {
                let (name, counted) = (way.name(), count.0);
                return Err(format!("{name} counts {counted} of {expected} pairs of {runs}").into());
            }
        }
    }
    Ok(())
}
