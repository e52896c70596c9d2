//! Does a failing device return an error, rather than wrong answers, and without a hang or a crash?
//!
//! The emulated device ends the process if memory is used after it was freed. So these tests also check when
//! memory is freed: buffers must outlive the device's use of them, after any failure. Streams run late and in
//! a random order, so that copies are still in flight when something fails.

use super::emulated::{Part, run_in_process};
use super::vectors::{by_cpu, clustered, sorted_pairs, vectors};
use super::{near_duplicates, run};
use libtest_mimic::Failed;
use simjoin_core::{
    Bounds, Error, Measure, Predicate, Result, SetPair, Sink, VectorPair, VectorPredicate,
};
use simjoin_cpu::{Naive, PpJoin};
use simjoin_engine::{Budget, Kind, SetTask, Sets, Technique, Tile, VectorTask, Vectors};
use simjoin_gpu::{
    Device, GpuBitmap, GpuMmJoin, GpuPrefix, GpuVectors, GpuVerify, VectorWay, Way, devices,
};
use simjoin_testing::collections;
use std::ops::ControlFlow;
use std::sync::Arc;

pub const PARTS: [Part; 1] = [("answers_or_errors", answers_or_errors)];

/// Tests a fault at each of many places, on one device and on two.
pub fn anywhere(_: &Arc<Device>) -> std::result::Result<(), Failed> {
    // Early, in the middle and late. The later ones are in joins of vectors.
    let allocations = [2, 9, 30, 70, 150];
    let launches = [1, 4, 12, 30, 60];
    let calls = [30, 200, 500, 900, 1500];
    let faults = [("out-of-memory", allocations), ("launch-failed", launches), ("lost", calls)];
    for (kind, places) in faults {
        for (at, place) in places.into_iter().enumerate() {
            let two = "8.6:2:1G,8.6:2:1G";
            let device = if at % 2 == 0 { "9.0:2:1G" } else { two };
            run_in_process(
                "answers_or_errors",
                &[
                    ("EMULATOR_DEVICES", device),
                    ("EMULATOR_FAULT", &format!("{kind}@{place}")),
                    ("EMULATOR_ORDER", &place.to_string()),
                ],
            )?;
        }
    }
    Ok(())
}

/// Checks that every technique finds the pairs of the CPU or returns that the device has failed.
fn answers_or_errors() -> std::result::Result<(), Failed> {
    let devices = match devices() {
        Err(Error::Unavailable(_)) => return Ok(()),
        devices => devices.map_err(|error| error.to_string())?,
    };
    let rows = near_duplicates(30, 0..200);
    let bounds = Bounds::new(Predicate::parse(Measure::Jaccard, "0.6").unwrap());
    let (sets, _) = collections(&rows, None);
    let joins = SetTask::directions(&sets, None, true, bounds);
    let (task, _) = &joins[0];
    let (tile, budget) = (Tile::whole(task), Budget::unlimited(1000, 2));
    let expected = run(&Naive, task, &tile, &budget);
    let (all, filter, way) = (devices.to_vec(), &PpJoin, Way::B);
    let techniques: [Box<dyn Technique<Sets>>; 4] = [
        Box::new(GpuBitmap::new(devices, 256)),
        Box::new(GpuPrefix { devices: all.clone() }),
        Box::new(GpuMmJoin { devices: all.clone() }),
        Box::new(GpuVerify { devices: all, filter, way }),
    ];
    for technique in techniques {
        let found = sets_of(&*technique, task, &tile, &budget);
        check_result(technique.name(), found, &expected)?;
    }
    let rows = vectors(&clustered(1, 300, 40, 9, 0.3), false);
    let predicate = VectorPredicate::within("1.1").unwrap();
    let task = VectorTask::new(&rows, None, predicate);
    let expected = by_cpu(&task);
    for way in VectorWay::ALL {
        let technique = GpuVectors { tiles: (1, 2), ..GpuVectors::new(devices, way) };
        let found = vectors_of(&technique, &task).map(|pairs| sorted_pairs(&task, &pairs));
        check_result(way.name(), found, &expected)?;
    }
    Ok(())
}

fn check_result<T: PartialEq>(
    name: &str,
    found: Result<T>,
    expected: &T,
) -> std::result::Result<(), String> {
    match found {
        Err(Error::Unavailable(_)) => Ok(()),
        Err(why) => Err(format!("{name}: {why:?}")),
        Ok(found) if found == *expected => Ok(()),
        Ok(_) => Err(format!("{name} finds different pairs")),
    }
}

struct Pairs<T>(Vec<T>);

impl Sink<SetPair> for Pairs<SetPair> {
    fn wants_value(&self) -> bool {
        true
    }

    fn push(&mut self, pairs: &[SetPair]) -> ControlFlow<()> {
        self.0.extend_from_slice(pairs);
        ControlFlow::Continue(())
    }
}

impl Sink<VectorPair> for Pairs<VectorPair> {
    fn wants_value(&self) -> bool {
        true
    }

    fn push(&mut self, pairs: &[VectorPair]) -> ControlFlow<()> {
        self.0.extend_from_slice(pairs);
        ControlFlow::Continue(())
    }
}

/// Returns the pairs that a technique finds.
fn sets_of(
    technique: &dyn Technique<Sets>,
    task: &SetTask<'_>,
    tile: &Tile,
    budget: &Budget,
) -> Result<Vec<SetPair>> {
    let mut sink = Pairs(Vec::new());
    sets_into(technique, task, tile, budget, &mut sink)?;
    sink.0.sort_unstable();
    Ok(sink.0)
}

/// Runs a technique with two workers in turn, until it fails or the sink breaks.
fn sets_into(
    technique: &dyn Technique<Sets>,
    task: &SetTask<'_>,
    tile: &Tile,
    budget: &Budget,
    sink: &mut dyn Sink<SetPair>,
) -> Result<()> {
    let mut prepared = technique.prepare(task, tile, budget)?;
    for round in 0..prepared.rounds() {
        prepared.begin(round)?;
        let mut workers = [prepared.worker()?, prepared.worker()?];
        for piece in 0..prepared.pieces() {
            if workers[piece % 2].run(piece, sink)?.is_break() {
                return Ok(());
            }
        }
    }
    Ok(())
}

fn vectors_of(technique: &GpuVectors, task: &VectorTask<'_>) -> Result<Vec<VectorPair>> {
    let prepared = technique.prepare(task, &Vectors::whole(task), &Budget::unlimited(0, 2))?;
    let mut workers = [prepared.worker()?, prepared.worker()?];
    let mut sink = Pairs(Vec::new());
    for piece in 0..prepared.pieces() {
        let _ = workers[piece % 2].run(piece, &mut sink)?;
    }
    Ok(sink.0)
}
