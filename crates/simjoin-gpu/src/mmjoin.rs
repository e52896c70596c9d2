//! `gpu-mmjoin`: which pairs share enough tokens, if the overlaps of all pairs are counted on the device?
//!
//! The heavy and the light part of MMJoin (Deep, Hu and Koutris), both on the device. Frequent tokens are
//! bits of a matrix whose product tensor cores compute, and rare tokens have lists; see `overlaps/`. No pair
//! is filtered beforehand, so low thresholds and containment cost no more than others. Sets are not divided
//! into light and heavy ones: the product of all sets costs less than separate treatment of some.
//!
//! # Flow
//!
//! ```text
//! sets ─► device ─► bits and lists ─► overlaps of a tile ─► pairs that satisfy the bounds ─► host
//! ```
//!
//! # Exactness
//!
//! Overlaps are exact, every pair of the tile has one, and the bounds are decided in integers on the device,
//! as `Bounds::accepts` does. A row meets the columns before a limit that the order of the join determines.
//!
//! # Memory
//!
//! As in `overlaps/`. On the host the answers of some rows at a time, of at least one row.

use crate::device::Device;
use crate::overlaps::{
    OnDevice, OverlapSeconds, OverlapSide, OverlapSides, OverlapTechnique, Selection, SelectionPlan,
};
use crate::sets::{DeviceSets, Devices};
use simjoin_core::{Measure, Result, SetPair, Sink};
use simjoin_engine::{
    Budget, Cost, CostTable, DeviceEvent, DeviceTimes, Order, Prepared, SetTask, Sets, Survey,
    Technique, Tile, Worker,
};
use std::ops::ControlFlow;
use std::sync::Arc;

/// The technique that counts the overlaps of all pairs on devices.
#[derive(Debug)]
pub struct GpuMmJoin {
    /// The devices that it runs on.
    pub devices: Vec<Arc<Device>>,
}

/// Returns the rows and columns of a tile, without limits.
fn unlimited<'a>(task: &SetTask<'a>, tile: &Tile) -> OverlapSides<'a> {
    let columns = OverlapSide { sets: task.build, range: tile.builds.clone() };
    let same = task.order == Order::Before && tile.probes == tile.builds;
    OverlapSides {
        rows: OverlapSide { sets: task.probe, range: tile.probes.clone() },
        columns: (!same).then_some(columns),
        limits: None,
    }
}

/// Returns the rows and columns of a tile, with the limit of the columns that each row meets.
fn limited<'a>(task: &SetTask<'a>, tile: &Tile) -> OverlapSides<'a> {
    let mut sides = unlimited(task, tile);
    let builds = &tile.builds;
    let end = |probe: u32| {
        let size = task.probe.size(probe);
        let end = match task.order {
            Order::Before => probe,
            Order::NotLarger => task.build.first_of_size(size + 1),
            Order::Smaller => task.build.first_of_size(size),
        };
        end.clamp(builds.start, builds.end) - builds.start
    };
    if sides.columns.is_some() {
        sides.limits = Some(tile.probes.clone().map(end).collect());
    }
    sides
}

impl GpuMmJoin {
    fn workers(&self, threads: usize) -> u64 {
        threads.clamp(1, self.devices.len().max(1)) as u64
    }

    /// Returns the bytes on the host without the answers: limits and sets while they are sent, and the start
    /// of the pairs of each row.
    fn host_bytes(tile: &Tile) -> u64 {
        let (probes, builds) = (tile.probes.len() as u64, tile.builds.len() as u64);
        (12 + DeviceSets::SEND_BYTES) * probes + DeviceSets::SEND_BYTES * builds
    }
}

impl Technique<Sets> for GpuMmJoin {
    fn name(&self) -> &'static str {
        "gpu-mmjoin"
    }

    fn on_device(&self) -> bool {
        true
    }

    fn cost(&self, survey: &Survey<'_>, _: &CostTable) -> Option<Cost> {
        let devices = self.devices.len() as f64;
        let power: f64 = self.devices.iter().map(|device| device.info.multiprocessor_ratio()).sum();
        let tensor = self.devices.iter().all(|device| device.info.multiplies_bits());
        let (measure, ..) = survey.task.predicate.parts();
        // Other measures filter so much that counting everything is never worth it.
        if measure != Measure::Containment {
            return None;
        }
        // The length filter does not apply. The more tokens sets have, the more of them become bits: 5.5 to
        // 7.8 ps per pair for 10 to 30 tokens of 16,000 and more, 10.8 for 300 of 11,000 (H200, 2026-11-16).
        let half = if survey.task.order == Order::Before { 0.5 } else { 1.0 };
        let pairs = half * survey.tile.probes.len() as f64 * survey.tile.builds.len() as f64;
        let universe = f64::from(survey.task.build.universe().min(16_384));
        let size = survey.tokens as f64 / survey.sets.max(1) as f64;
        let pieces = (universe / 256.0).min(0.6 * size);
        let product = if tensor { 9e12 } else { 4e11 };
        Some(Cost {
            serial: 0.5e-3
                + devices * survey.tokens as f64 * 0.5e-9
                + devices * survey.sets as f64 * 5e-9
                + pairs * (2.0 * pieces / product + 4e-12) / power,
            parallel: 0.0,
        })
    }

    fn memory_bytes(&self, _: &SetTask<'_>, tile: &Tile, threads: usize) -> u64 {
        Self::host_bytes(tile)
            + self.workers(threads) * Selection::ANSWER_BYTES * tile.builds.len() as u64
    }

    fn device_bytes(&self, task: &SetTask<'_>, tile: &Tile, _: usize) -> u64 {
        let sides = unlimited(task, tile);
        let lists = sides.list_bytes();
        // Positions in the lists are 32-bit numbers.
        if lists / 4 > u64::from(u32::MAX) {
            return u64::MAX;
        }
        let (fixed, tiles) = sides.least_bytes(true);
        fixed + tiles + lists + 4 * tile.probes.len() as u64
    }

    fn prepare<'a>(
        &self,
        task: &SetTask<'a>,
        tile: &Tile,
        budget: &Budget,
    ) -> Result<Box<dyn Prepared<Sets> + 'a>> {
        let mut prepared =
            PreparedCounts { task: *task, devices: None, plan: SelectionPlan::default() };
        if tile.probes.is_empty() || tile.builds.is_empty() {
            return Ok(Box::new(prepared));
        }
        let sides = limited(task, tile);
        let load = |device: &Arc<Device>| {
            let technique = OverlapTechnique::Combined(None);
            let mut seconds = OverlapSeconds::default();
            OnDevice::new(device, sides.clone(), technique, budget, &mut seconds)
        };
        let mut devices = Devices::new(&self.devices, budget, load)?;
        let bytes = budget.bytes.saturating_sub(Self::host_bytes(tile));
        let bytes = bytes / self.workers(budget.threads);
        // All devices use the tiles of the device with the least memory.
        let mut plans = Vec::new();
        for on_device in devices.iter_mut() {
            plans.push(SelectionPlan::new(on_device, bytes)?);
        }
        prepared.plan = plans.into_iter().max_by_key(SelectionPlan::tiles).unwrap_or_default();
        prepared.devices = Some(devices);
        Ok(Box::new(prepared))
    }
}

/// A tile of a join, prepared for counting.
struct PreparedCounts<'a> {
    task: SetTask<'a>,
    /// `None` if a side has no sets.
    devices: Option<Devices<OnDevice<'a>>>,
    plan: SelectionPlan,
}

impl Prepared<Sets> for PreparedCounts<'_> {
    fn pieces(&self) -> usize {
        self.plan.tiles()
    }

    fn workers(&self) -> usize {
        self.devices.as_ref().map_or(1, Devices::len)
    }

    fn worker<'a>(&'a self) -> Result<Box<dyn Worker<Sets> + 'a>> {
        let counter = match &self.devices {
            None => None,
            Some(devices) => {
                let on_device = devices.next_device();
                Some((on_device, Selection::new(on_device, &self.task.predicate, &self.plan)?))
            }
        };
        Ok(Box::new(CountWorker {
            counter,
            seconds: OverlapSeconds::default(),
            found: 0,
            compared: 0,
        }))
    }

    fn events(&mut self) -> Vec<DeviceEvent> {
        self.devices.as_mut().map(Devices::events).unwrap_or_default()
    }
}

/// A worker on one device.
struct CountWorker<'a> {
    counter: Option<(&'a OnDevice<'a>, Selection)>,
    seconds: OverlapSeconds,
    found: u64,
    compared: u64,
}

impl Worker<Sets> for CountWorker<'_> {
    fn run(&mut self, piece: usize, sink: &mut dyn Sink<SetPair>) -> Result<ControlFlow<()>> {
        let Some((on_device, selection)) = &mut self.counter else {
            return Ok(ControlFlow::Continue(()));
        };
        self.compared += selection.compared(piece);
        if sink.only_counts() {
            let rows = selection.count(on_device, piece, &mut self.seconds)?;
            sink.count(rows);
            return Ok(match sink.stopped() {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            });
        }
        let found = &mut self.found;
        selection.pairs(on_device, piece, &mut self.seconds, &mut |pairs| {
            *found += pairs.len() as u64;
            sink.push(pairs)
        })
    }

    fn candidates(&self) -> u64 {
        self.found
    }

    fn times(&self) -> DeviceTimes {
        let OverlapSeconds { count, select, fetch, .. } = self.seconds;
        DeviceTimes {
            filter: count,
            verify: select,
            copies: fetch,
            waited: count + select + fetch,
            compared: self.compared,
            ..DeviceTimes::default()
        }
    }
}
