//! Do devices of different kinds find together the same pairs as one device?
//!
//! Compute capability 9.0 has tiles of 256 columns and multiplies by warpgroups. 8.6 has tiles of 128
//! columns, because it has less shared memory. 7.5 has no tensor cores that the techniques use.

use super::emulated::{Part, run_in_process};
use super::vectors::{Collect, by_cpu, clustered, run, sorted_pairs, vectors};
use libtest_mimic::Failed;
use simjoin_core::VectorPredicate;
use simjoin_engine::VectorTask;
use simjoin_gpu::{Device, GpuVectors, VectorWay, devices};
use std::sync::Arc;

pub const PARTS: [Part; 1] = [("vectors_on_all_devices", vectors_on_all_devices)];

/// Tests two devices in both orders.
pub fn vectors_of_two_kinds(_: &Arc<Device>) -> Result<(), Failed> {
    for kinds in ["9.0:4:1G,8.6:3:1G", "8.6:3:1G,9.0:4:1G", "9.0:2:1G,7.5:2:1G"] {
        run_in_process("vectors_on_all_devices", &[("EMULATOR_DEVICES", kinds)])?;
    }
    Ok(())
}

/// Joins with every technique on all devices at once. Workers are assigned to devices in turn, and so are
/// pieces. A piece has two groups of rows if tiles are wide, and one otherwise.
fn vectors_on_all_devices() -> Result<(), Failed> {
    let devices = devices().map_err(|error| error.to_string())?;
    // With more than 32 coordinates, gpu-quantile uses tensor cores.
    let cases = [(4, "0.1", &VectorWay::ALL[1..]), (40, "1.1", &VectorWay::ALL[..1])];
    for (dimension, text, ways) in cases {
        let left = vectors(&clustered(1, 4300, dimension, 25, 0.3), false);
        let right = vectors(&clustered(2, 140, dimension, 25, 0.3), false);
        let predicate = VectorPredicate::within(text).unwrap();
        let task = VectorTask::new(&left, Some(&right), predicate);
        let expected = by_cpu(&task);
        for &way in ways {
            let technique = GpuVectors { tiles: (32, 32), ..GpuVectors::new(devices, way) };
            let mut sink = Collect(Vec::new());
            if run(&technique, &task, &mut sink)?.is_none() {
                return Err(format!("{} rejects the join", way.name()).into());
            }
            let found = sorted_pairs(&task, &sink.0);
            if found != expected {
                let (name, found, expected) = (way.name(), found.len(), expected.len());
                return Err(format!("{name} finds {found} of {expected} pairs").into());
            }
        }
    }
    Ok(())
}
