//! `gpu-bitmap`: which of all pairs of sets have close signatures?
//!
//! # Flow
//!
//! ```text
//! sets ─► device ─► signatures ─► blocks of probes × ranges of build sets ─► survivors ─► merge ─► host
//!                   (parity bits)  (binary tensor cores, length by blocks)    (a buffer)   (exact)
//! ```
//!
//! # Exactness
//!
//! As in `bitmap` on the CPU, the signatures of a pair in the answer differ in no more bits than the shares
//! of its budget allow ([`Bounds::probe_share`]). The kernel computes the difference in whole sixteenths of a
//! bit and never rounds a share down. Blocks without a pair within reach of the length filter are left out.
//! Every survivor is decided in integers, as `Bounds::accepts` does.
//!
//! A full buffer loses nothing. A warp that finds no space notes where it stopped, and continues from there
//! once the buffer is empty. One step of a warp never has more survivors than the buffer holds.
//!
//! If the universe has no more tokens than a signature has bits, every token has its own bit. Then the common
//! bits are the overlap, and no survivor is merged.
//!
//! # Memory
//!
//! On the device 4 bytes per token, `28 + BITS / 8` per set, and 24 for each survivor that a worker's buffer
//! holds. On the host the answers of one worker at a time.
//!
//! [`Bounds::probe_share`]: simjoin_core::Bounds::probe_share

mod on_device;
mod prepared;
mod worker;

use crate::device::Device;
use crate::sets::{Answers, DeviceSets, host_seconds, source, tile_sides};
use cudarc::driver::CudaFunction;
use prepared::{Item, PreparedBitmap};
use simjoin_core::{Result, SetCollection, SetId};
use simjoin_engine::{Budget, Cost, CostTable, Prepared, SetTask, Sets, Survey, Technique, Tile};
use std::ops::Range;
use std::sync::Arc;

pub(crate) static SOURCE: &str = source!("shared.cuh", "bitmap.cu");

/// The largest number of build sets that a block goes through.
const MAX_BUILDS_OF_BLOCK: u32 = 8192;

/// The number of blocks for each one that a device runs at once, and the smallest number of ranges that a
/// block goes through.
const BLOCKS_PER_SLOT: u32 = 4;
const MIN_RANGES: u32 = 2;

/// An upper bound of the additional items that result from cutting blocks into smaller ones.
const MAX_EXTRA_ITEMS: u64 = 1 << 13;

/// The number of ranges in flight.
const STAGES: u32 = 2;

/// The number of workers per device: one computes while the answers of another one are copied.
const WORKERS: usize = 3;

/// The largest size whose share fits. Larger sets always pass the filter.
const MAX_WEIGHTED: u32 = 1 << 22;
const ALWAYS: i32 = 1 << 28;

/// The capacity of a worker for survivors if there is enough memory, and the smallest one.
const SURVIVORS: u64 = 4 << 20;
const MIN_SURVIVORS: u64 = 1 << 16;

/// The bytes on the device for each survivor.
const SURVIVOR_BYTES: u64 = size_of::<u64>() as u64 + 4 + Answers::DEVICE_BYTES;

/// The number of pieces of a join, and the smallest and largest number of pairs in a piece.
const PIECES: u64 = 8;
const MIN_PIECE_PAIRS: u64 = 1 << 29;
const MAX_PIECE_PAIRS: u64 = 1 << 35;

/// The largest number of items in a piece.
const MAX_ITEMS: usize = 1 << 15;

/// The technique that compares the signatures of all pairs on devices.
#[derive(Debug)]
pub struct GpuBitmap {
    /// The devices that it runs on.
    pub devices: Vec<Arc<Device>>,
    /// The bits of a signature: 256, 512, 1,024 or 2,048.
    pub bits: u32,
    /// Whether to use tensor cores, which must multiply bits.
    pub tensor: bool,
    /// The seconds that a launch may take, in place of the device's own limit.
    pub launch_seconds: Option<f64>,
}

/// The shape of the filter: threads and probes of a block, build sets of a range and of a step, and the
/// number of blocks for which a multiprocessor has registers.
#[derive(Clone, Copy, Debug)]
struct Shape {
    threads: u32,
    rows: u32,
    columns: u32,
    step: u32,
    blocks: u32,
}

/// Returns the fastest shape of those tried on an H200.
fn shape(bits: u32, tensor: bool) -> Shape {
    let shape =
        |threads, rows, columns, step, blocks| Shape { threads, rows, columns, step, blocks };
    match (tensor, bits) {
        (true, 256) => shape(128, 256, 512, 64, 2),
        (true, 512 | 1024) => shape(128, 256, 256, 64, 2),
        // Some devices with such tensor cores have only 99 KiB of shared memory.
        (true, _) => shape(256, 256, 128, 32, 2),
        // Each thread has one probe. Devices without such tensor cores have 64 KiB.
        (false, 256 | 512) => shape(256, 256, 256, 64, 1),
        (false, 1024) => shape(256, 256, 128, 64, 1),
        (false, _) => shape(256, 256, 64, 64, 1),
    }
}

/// Returns the definitions that the kernels are compiled with.
pub(crate) fn defines(bits: u32, tensor: bool) -> [(&'static str, u32); 7] {
    let Shape { threads, rows, columns, step, blocks } = shape(bits, tensor);
    [
        ("BITS", bits),
        ("TENSOR", u32::from(tensor)),
        ("THREADS", threads),
        ("ROWS", rows),
        ("COLUMNS", columns),
        ("STEP", step),
        ("BLOCKS", blocks),
    ]
}

impl GpuBitmap {
    /// The widths of a signature, in bits.
    pub const BITS: [u32; 4] = [256, 512, 1024, 2048];

    /// Returns the technique for these devices, with tensor cores if all of them can use them.
    pub fn new(devices: &[Arc<Device>], bits: u32) -> Self {
        let tensor = devices.iter().all(|device| device.info.multiplies_bits());
        GpuBitmap { devices: devices.to_vec(), bits, tensor, launch_seconds: None }
    }

    fn shape(&self) -> Shape {
        shape(self.bits, self.tensor)
    }

    /// Returns the number of pairs that an H200 compares per second.
    fn rate(&self) -> f64 {
        let place = (self.bits / 256).ilog2() as usize;
        match self.tensor {
            true => [7.4e12, 5.1e12, 3.2e12, 1.7e12][place],
            false => [4e11, 2e11, 1e11, 5e10][place],
        }
    }

    /// Returns the number of pairs that every device compares within the time limit of a launch.
    fn launch_pairs(&self) -> u64 {
        let pairs = |device: &Arc<Device>| {
            let seconds = self.launch_seconds.unwrap_or_else(|| device.info.launch_seconds());
            (seconds * self.rate() * device.info.multiprocessor_ratio()) as u64
        };
        self.devices.iter().map(pairs).min().unwrap_or(u64::MAX)
    }

    fn function(&self, device: &Device, name: &str) -> Result<CudaFunction> {
        device.function(SOURCE, &defines(self.bits, self.tensor), name)
    }

    /// Returns the bytes of shared memory: for the ranges in flight, or before them for the probes.
    fn shared_bytes(&self) -> u32 {
        let Shape { rows, columns, .. } = self.shape();
        (STAGES * columns * (self.bits / 8 + 4)).max(rows * self.bits / 8)
    }

    /// Returns the bytes on the device for each worker: items, their progress and survivors.
    fn worker_bytes(&self, survivors: u64) -> u64 {
        let item = size_of::<Item>() as u64 + u64::from(self.shape().threads / 8);
        item * MAX_ITEMS as u64 + survivors * SURVIVOR_BYTES
    }

    /// Returns the bytes on each device without those of the workers.
    fn fixed_bytes(&self, task: &SetTask<'_>, tile: &Tile) -> u64 {
        let Shape { rows, columns, .. } = self.shape();
        let each = u64::from(12 + self.bits / 8);
        let bytes = |(sets, range): (&SetCollection, Range<SetId>)| {
            let padded = range.len() as u64 + u64::from(rows + columns);
            DeviceSets::bytes(sets, &range) + padded * each
        };
        tile_sides(task, tile).map(bytes).sum()
    }
}

impl Technique<Sets> for GpuBitmap {
    fn name(&self) -> &'static str {
        "gpu-bitmap"
    }

    fn on_device(&self) -> bool {
        true
    }

    fn variant(&self) -> String {
        format!("{} bits", self.bits)
    }

    fn goes_on(&self) -> bool {
        true
    }

    fn cost(&self, survey: &Survey<'_>, _: &CostTable) -> Option<Cost> {
        let place = (self.bits / 256).ilog2() as usize;
        let devices = self.devices.len() as f64;
        let power: f64 = self.devices.iter().map(|device| device.info.multiprocessor_ratio()).sum();
        // Each doubling of the width beyond the surveyed ones lets through about a third as many pairs that
        // are not in the answer.
        let [.., narrow, wide] = survey.survival.map(|part| (part - survey.similar).max(0.0));
        let survival = survey.similar + [narrow, wide, wide / 3.0, wide / 9.0][place];
        let pairs = survey.pairs as f64;
        let verified = pairs * survival * (0.25e-9 + 0.012e-9 * survey.mean_size);
        Some(Cost {
            serial: 0.27e-3
                + host_seconds(survey)
                + devices * survey.tokens as f64 * 0.17e-9
                + devices * survey.sets as f64 * 2.5e-9
                + (pairs / self.rate() + verified) / power,
            parallel: 0.0,
        })
    }

    fn memory_bytes(&self, _: &SetTask<'_>, tile: &Tile, threads: usize) -> u64 {
        self.host_bytes(tile) + self.workers(threads) * MIN_SURVIVORS * Answers::HOST_BYTES
    }

    fn device_bytes(&self, task: &SetTask<'_>, tile: &Tile, threads: usize) -> u64 {
        let workers = self.workers(threads).min(WORKERS as u64);
        self.fixed_bytes(task, tile) + workers * self.worker_bytes(MIN_SURVIVORS)
    }

    fn prepare<'a>(
        &self,
        task: &SetTask<'a>,
        tile: &Tile,
        budget: &Budget,
    ) -> Result<Box<dyn Prepared<Sets> + 'a>> {
        Ok(Box::new(PreparedBitmap::new(self, task, tile, budget)?))
    }
}

impl GpuBitmap {
    /// Returns the bytes on the host without the answers: sets while they are sent, and items.
    fn host_bytes(&self, tile: &Tile) -> u64 {
        let (probes, builds) = (tile.probes.len() as u64, tile.builds.len() as u64);
        let blocks = probes / u64::from(self.shape().rows) + 1;
        let items = blocks * (builds / u64::from(MAX_BUILDS_OF_BLOCK) + 2) + MAX_EXTRA_ITEMS;
        DeviceSets::SEND_BYTES * (probes + builds) + size_of::<Item>() as u64 * items
    }

    fn workers(&self, threads: usize) -> u64 {
        threads.min(WORKERS * self.devices.len()) as u64
    }
}
