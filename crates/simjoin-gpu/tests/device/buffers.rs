//! Are joins exact when the buffers of their kernels are full, and is memory released?

use super::emulated::{Part, run_in_process};
use super::vectors::{by_cpu, check_one, clustered, vectors};
use super::{near_duplicates, run};
use libtest_mimic::Failed;
use simjoin_core::{Bounds, Measure, Predicate, VectorCount, VectorPredicate};
use simjoin_cpu::Naive;
use simjoin_engine::{Budget, Kind, SetTask, Technique, Tile, VectorTask, Vectors};
use simjoin_gpu::{Device, GpuBitmap, GpuVectors, VectorWay, devices};
use simjoin_testing::collections;
use std::sync::Arc;

/// Tests rows in runs of 128 equal ones. Runs hold points that are exactly at the distance from each other,
/// or far away. So a tile has pairs that are surely near, pairs that the predicate must decide, or none, in
/// any order. If pairs are only counted, the former are added up and the latter fill the buffer of
/// candidates.
pub fn counting(device: &Arc<Device>) -> Result<(), Failed> {
    let dimension = 8;
    let near = vec![0.3; dimension];
    let (mut at, mut far) = (near.clone(), near.clone());
    at[0] = 0.55;
    far[1] = 9.0;
    // In f32, like the rows.
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
        let task = VectorTask::new(&rows, None, predicate);
        let near = runs.chars().filter(|&run| run != 'c').count() as u64 * 128;
        let far = runs.len() as u64 * 128 - near;
        let expected = near * (near - 1) / 2 + far * far.saturating_sub(1) / 2;
        for way in [VectorWay::Tensor, VectorWay::NestedLoop] {
            // The smallest buffer, which suffices for one tile.
            let technique =
                GpuVectors { candidates: 0, ..GpuVectors::new(std::slice::from_ref(device), way) };
            let budget = Budget::unlimited(0, 1);
            let prepared = technique
                .prepare(&task, &Vectors::whole(&task), &budget)
                .map_err(|e| e.to_string())?;
            let mut worker = prepared.worker().map_err(|e| e.to_string())?;
            let mut count = VectorCount(0);
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

/// Tests launches of one tile or one block at a time, as on a device so slow that the driver would end longer
/// ones.
pub fn short_launches(device: &Arc<Device>) -> Result<(), Failed> {
    let launch_seconds = Some(1e-12);
    let one = std::slice::from_ref(device);
    let rows = vectors(&clustered(3, 600, 12, 9, 0.3), false);
    let predicate = VectorPredicate::within("0.4").unwrap();
    let task = VectorTask::new(&rows, None, predicate);
    let expected = by_cpu(&task);
    for way in VectorWay::ALL {
        let technique = GpuVectors { launch_seconds, ..GpuVectors::new(one, way) };
        check_one(way.name(), &technique, &task, &expected)?;
    }
    let rows = near_duplicates(60, 0..700);
    let (sets, _) = collections(&rows, None);
    let bounds = Bounds::new(Predicate::parse(Measure::Jaccard, "0.6").unwrap());
    let joins = SetTask::directions(&sets, None, false, bounds);
    let (task, _) = &joins[0];
    let (tile, budget) = (Tile::whole(task), Budget::unlimited(1000, 2));
    let usual = GpuBitmap::new(one, 256);
    let short = GpuBitmap { launch_seconds, ..GpuBitmap::new(one, 256) };
    let pieces = |technique: &GpuBitmap| {
        technique.prepare(task, &tile, &budget).map(|one| one.pieces()).map_err(|e| e.to_string())
    };
    let (one, many) = (pieces(&usual)?, pieces(&short)?);
    if one != 1 || many < 3 {
        return Err(format!("pieces: {one} and {many}").into());
    }
    match run(&short, task, &tile, &budget) == run(&Naive, task, &tile, &budget) {
        true => Ok(()),
        false => Err("gpu-bitmap finds different pairs in short launches".into()),
    }
}

pub const PARTS: [Part; 3] = [
    ("joins_of_little_memory", joins_of_little_memory),
    ("display", display),
    ("memory_after_joins", memory_after_joins),
];

/// Tests devices so small that joins fail if they exceed their estimates.
pub fn little_memory(_: &Arc<Device>) -> Result<(), Failed> {
    for devices in ["9.0:2:5M", "7.5:2:5M"] {
        run_in_process("joins_of_little_memory", &[("EMULATOR_DEVICES", devices)])?;
    }
    Ok(())
}

/// Joins with all the memory of the device, in slabs or as a whole.
fn joins_of_little_memory() -> Result<(), Failed> {
    let devices = devices().map_err(|error| error.to_string())?;
    for (rows, dimension, text) in [(900, 8, "0.2"), (300, 100, "1.6")] {
        let rows = vectors(&clustered(4, rows, dimension, 9, 0.3), true);
        let predicate = VectorPredicate::within(text).unwrap();
        let task = VectorTask::new(&rows, None, predicate);
        let expected = by_cpu(&task);
        for way in VectorWay::ALL {
            check_one(way.name(), &GpuVectors::new(devices, way), &task, &expected)?;
        }
    }
    Ok(())
}

/// Tests a device with a display, whose driver ends long kernels.
pub fn timeout(_: &Arc<Device>) -> Result<(), Failed> {
    run_in_process(
        "display",
        &[("EMULATOR_DEVICES", "8.6:2:1G,8.6:2:1G"), ("EMULATOR_DISPLAY", "1")],
    )
}

fn display() -> Result<(), Failed> {
    let devices = devices().map_err(|error| error.to_string())?;
    let seconds: Vec<f64> = devices.iter().map(|device| device.info.launch_seconds()).collect();
    match (devices[0].info.timeout, devices[1].info.timeout) {
        (false, true) if seconds[1] <= 0.3 && seconds[1] < seconds[0] => Ok(()),
        timeouts => Err(format!("{timeouts:?}, launches of {seconds:?} seconds").into()),
    }
}

/// Tests that memory of a join is free for other processes afterwards.
pub fn given_back(_: &Arc<Device>) -> Result<(), Failed> {
    run_in_process("memory_after_joins", &[("EMULATOR_DEVICES", "9.0:2:1G")])
}

fn memory_after_joins() -> Result<(), Failed> {
    let devices = devices().map_err(|error| error.to_string())?;
    let held = || devices[0].held_memory().map_err(|error| error.to_string());
    let rows = vectors(&clustered(5, 300, 4, 9, 0.3), false);
    let predicate = VectorPredicate::within("0.1").unwrap();
    let task = VectorTask::new(&rows, None, predicate);
    let budget = Budget::unlimited(0, 3);
    let technique = GpuVectors::new(devices, VectorWay::NestedLoop);
    let prepared = technique
        .prepare(&task, &Vectors::whole(&task), &budget)
        .map_err(|error| error.to_string())?;
    let worker = || prepared.worker().map_err(|error| error.to_string());
    let (mut first, mut second) = (worker()?, worker()?);
    for worker in [&mut first, &mut second] {
        let flow = worker.run(0, &mut VectorCount(0)).map_err(|error| error.to_string())?;
        assert!(flow.is_continue());
    }
    let most = 256 << 20;
    let during = held()?;
    drop((first, second));
    drop(prepared);
    let after = held()?;
    match during > most && after <= most {
        true => Ok(()),
        false => Err(format!("{during} bytes are held during the join, {after} after it").into()),
    }
}
