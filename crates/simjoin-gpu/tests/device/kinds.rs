//! Do devices of different kinds find together what one finds alone?
//!
//! Compute capability 9.0 has tiles of 256 columns and multiplies by warpgroups, 8.6 has tiles of 128 columns since it
//! has less shared memory, 7.5 has no tensor cores that the techniques use.

use super::emulated::{Part, again};
use super::vectors::{Collect, by_cpu, clustered, named, run, vectors};
use libtest_mimic::Failed;
use simjoin_core::VectorPredicate;
use simjoin_engine::VectorTask;
use simjoin_gpu::{Device, GpuVectors, VectorWay, devices};
use std::sync::Arc;

pub const PARTS: [Part; 1] = [("vectors_on_all_devices", vectors_on_all_devices)];

/// Two devices in both orders.
pub fn vectors_of_two_kinds(_: &Arc<Device>) -> Result<(), Failed> {
    for kinds in ["9.0:4:1G,8.6:3:1G", "8.6:3:1G,9.0:4:1G", "9.0:2:1G,7.5:2:1G"] {
        again("vectors_on_all_devices", &[("EMULATOR_DEVICES", kinds)])?;
    }
    Ok(())
}

/// Every technique on all devices at once. Workers are dealt to devices in turn, and so are pieces: here a piece holds
/// two groups of rows where tiles are broad, and one where they are not.
fn vectors_on_all_devices() -> Result<(), Failed> {
    let devices = devices().map_err(|error| error.to_string())?;
    // More than 32 coordinates let gpu-quantile multiply.
    let cases = [(4, "0.1", &VectorWay::ALL[1..]), (40, "1.1", &VectorWay::ALL[..1])];
    for (dimension, text, ways) in cases {
        let left = vectors(&clustered(1, 4300, dimension, 25, 0.3), false);
        let right = vectors(&clustered(2, 140, dimension, 25, 0.3), false);
        let predicate = VectorPredicate::within(text).unwrap();
        let join = VectorTask::new(&left, Some(&right), predicate);
        let expected = by_cpu(&join);
        for &way in ways {
            let technique = GpuVectors { tiles: (32, 32), ..GpuVectors::new(devices, way) };
            let mut sink = Collect(Vec::new());
            if run(&technique, &join, &mut sink)?.is_none() {
                return Err(format!("{} refuses the join", way.name()).into());
            }
            let found = named(&join, &sink.0);
            if found != expected {
                let (name, found, expected) = (way.name(), found.len(), expected.len());
                return Err(format!("{name} finds {found} of {expected} pairs").into());
            }
        }
    }
    Ok(())
}
