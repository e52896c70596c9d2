//! How are vectors joined on NVIDIA GPUs?
//!
//! | technique | order of the rows | how two blocks are compared |
//! | --- | --- | --- |
//! | `gpu-nested-loop` | as they come | squared differences in f32 |
//! | `gpu-tensor` | as they come | products in f16 or in bytes, on tensor cores |
//! | `gpu-grid` | by cells as wide as the distance | squared differences in f32 |
//! | `gpu-quantile` | by a multi-level quantile index | differences; products where there are many coordinates |
//!
//! After Böhm, Noll, Plant and Zherdin (Index-supported similarity join on graphics processors): a nested loop
//! with tiles in shared memory, an index whose pages are met by blocks with bounds, a buffer for results that is
//! emptied and resumed, and partitions that overlap where the device is too small.
//!
//! # Flow
//!
//! ```text
//! rows ─► device ─► images, order, bounds ─► tiles ─► compare ─► candidates ─► predicate ─► pairs ─► host
//!                   f16, bytes                  ▲                    │ full?      (f64)
//!                                               └────────────────────┘
//! ```
//!
//! A tile is a block of rows and a block of columns; in a self-join only those with a column after a row.
//! Tiles whose bounds are farther apart than the distance are left out. Two or three workers take pieces of
//! tiles, so that the device compares while answers are on their way.
//!
//! # Exactness
//!
//! Filters keep every pair that the predicate accepts: the images are those of `simjoin_engine` with the errors
//! accounted for there; what tensor cores may err by is in [`tensor`]; bounds of blocks hold all their images.
//! What is kept is decided by the predicate in f64, in the one order that all backends share: distances
//! are equal to the last bit. A buffer that is full loses nothing: tiles that found no room are done again.
//!
//! # Memory
//!
//! On the device the rows, their images or f16 rows, 24 bytes a row while they are sorted, and for each worker
//! its tiles and candidates ([`GpuVectors::bytes_of`]). Where that is more than there is, rows are cut into slabs along the element that varies
//! most, and only slabs that are as near as the distance meet ([`parts`]). On the host two pinned buffers a worker; nothing
//! follows the number of results.

mod load;
mod order;
mod parts;
mod tensor;
mod trial;
mod worker;

use crate::device::{Device, failed};
use crate::nvrtc::Nvrtc;
use cudarc::driver::{
    CudaFunction, CudaSlice, CudaStream, DevicePtr, DeviceRepr, LaunchConfig, sys,
};
use load::{Loaded, Shared};
use parts::Parts;
use simjoin_core::{Error, Result};
use simjoin_engine::{
    Budget, Cost, CostTable, Fit, Prepared, Recipe, Technique, Transform, VectorSurvey, VectorTask,
    Vectors, Worker,
};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use worker::TileWorker;

/// What every kernel source for vectors begins with.
macro_rules! source {
    ($file:literal) => {
        concat!(
            include_str!("../kernels/vectors.cuh"),
            include_str!("../kernels/shared.cuh"),
            include_str!($file)
        )
    };
}

/// Images, order, bounds, the predicate.
pub(crate) static SOURCE: &str = source!("../kernels/vectors.cu");
/// Tiles by differences.
pub(crate) static DIRECT: &str = source!("../kernels/vectors_direct.cu");
/// Tiles on tensor cores.
pub(crate) static TENSOR: &str = source!("../kernels/vectors_tensor.cu");

/// What the kernels of the first source are compiled with.
pub(crate) fn defines(wide: bool) -> [(&'static str, u32); 1] {
    [("WIDE", u32::from(wide))]
}

/// Streams of work for each device.
const WORKERS: usize = 3;
/// Candidates that a worker has room for: at most, enough for another worker to be worth it, and at least, those of
/// one tile.
const CANDIDATES: usize = 8 << 20;
const MANY_CANDIDATES: usize = 1 << 20;
const LEAST_CANDIDATES: usize = 1 << 15;
/// Bytes on the device for each of them: the pair, a value, and the answer.
const CANDIDATE_BYTES: u64 = 8 + 4 + 16;
/// Tiles of a piece: at least, unless there are fewer, and at most.
const TILES: (u64, u64) = (1 << 10, 1 << 21);
/// Bytes on the device for each of them: where it is, and whether it is done.
const TILE_BYTES: u64 = 8 + 1;
/// Bytes for what is small.
const SMALL: u64 = 1 << 20;

/// Seconds for a pair by differences in so many coordinates, and by products of so many elements, on an H200.
fn by_differences(m: f64) -> f64 {
    (4.0 + 2.0 * m) / 2.2e13
}

fn by_products(d: f64) -> f64 {
    (2.0 * (d / 64.0).ceil() * 64.0 + 95.0) / 3.9e14
}

/// How rows are ordered and compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VectorWay {
    /// As they come, by differences.
    NestedLoop,
    /// As they come, by products on tensor cores.
    Tensor,
    /// By cells, by differences.
    Grid,
    /// By a quantile index.
    Quantile,
}

impl VectorWay {
    /// Every one.
    pub const ALL: [VectorWay; 4] = [Self::Quantile, Self::Tensor, Self::Grid, Self::NestedLoop];

    /// The technique's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::NestedLoop => "gpu-nested-loop",
            Self::Tensor => "gpu-tensor",
            Self::Grid => "gpu-grid",
            Self::Quantile => "gpu-quantile",
        }
    }
}

/// A technique for vectors on devices.
#[derive(Clone)]
pub struct GpuVectors {
    /// Where it runs.
    pub devices: Vec<Arc<Device>>,
    /// How.
    pub way: VectorWay,
    /// How vectors are looked at; found anew where it is not given and needed.
    pub fit: Option<Arc<Fit>>,
    /// Bytes that may be taken on each device.
    pub memory: u64,
    /// Candidates that a worker has room for.
    pub candidates: usize,
    /// Tiles of a piece, at least and at most.
    pub tiles: (u64, u64),
    /// Whether rows of small whole numbers are joined as bytes.
    pub bytes: bool,
    /// Whether warpgroups multiply, where the device has them.
    pub warpgroups: bool,
    /// Whether a piece is [`STRIPE`](Self::STRIPE) probes with all that they meet, so that others can do some;
    /// not for those that order the rows.
    pub stripes: bool,
    /// Whether others need the cores: who waits for a device sleeps meanwhile.
    pub patient: bool,
    /// Seconds that a launch may take, where it is not the device that says so.
    pub launch_seconds: Option<f64>,
}

/// How two blocks are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TileKind {
    /// By differences, 128 × 128.
    Direct,
    /// By products.
    Tensor { bytes: bool, warpgroups: bool, columns: u32, stages: u32 },
}

impl TileKind {
    /// Columns of a tile.
    fn columns(self) -> u32 {
        match self {
            TileKind::Direct => 128,
            TileKind::Tensor { columns, .. } => columns,
        }
    }

    fn defines(self) -> Vec<(&'static str, u32)> {
        match self {
            TileKind::Direct => vec![],
            TileKind::Tensor { bytes, warpgroups, columns, stages } => vec![
                ("BYTES", u32::from(bytes)),
                ("WGMMA", u32::from(warpgroups)),
                ("COLUMNS", columns),
                ("STAGES", stages),
                ("HELD", self.held()),
            ],
        }
    }

    /// Returns which of a device's ways to add products of halves it takes; `None` where it adds none.
    fn adds_halves(self) -> Option<usize> {
        match self {
            TileKind::Tensor { bytes: false, warpgroups, .. } => Some(usize::from(warpgroups)),
            _ => None,
        }
    }

    /// Bytes of shared memory.
    fn shared_bytes(self) -> u32 {
        match self {
            TileKind::Direct => 0,
            TileKind::Tensor { columns, stages, .. } => {
                (128 + columns) * (stages * 128 + 4 * 4) + 12 * self.held() + 1024
            }
        }
    }

    /// Candidates that a block holds before it writes them out.
    fn held(self) -> u32 {
        if matches!(self, TileKind::Tensor { warpgroups: true, .. }) { 2048 } else { 512 }
    }
}

/// What a kernel is compiled with, and the architectures that it must compile for.
type Variant = (Vec<(&'static str, u32)>, &'static [&'static str]);

/// Every variant of the tensor cores' kernel, for checks.
pub(crate) fn tensor_variants() -> Vec<Variant> {
    let mut all = Vec::new();
    // As many columns as a block has shared memory for.
    let most: &[&str] = &["sm_80", "sm_90", "sm_100"];
    let fewer = crate::COPY_ASYNC;
    for bytes in [false, true] {
        let kind =
            |warpgroups, columns, stages| TileKind::Tensor { bytes, warpgroups, columns, stages };
        all.push((kind(true, 256, 4).defines(), &["sm_90a"][..]));
        all.push((kind(false, 256, 3).defines(), most));
        all.push((kind(false, 128, 2).defines(), fewer));
    }
    all
}

impl GpuVectors {
    /// Probes of a piece, where others do some of the pieces.
    pub const STRIPE: usize = simjoin_engine::STRIPE;

    /// On these devices, with all the memory that they can spare.
    pub fn new(devices: &[Arc<Device>], way: VectorWay) -> Self {
        GpuVectors {
            devices: devices.to_vec(),
            way,
            fit: None,
            memory: u64::MAX,
            candidates: CANDIDATES,
            tiles: TILES,
            bytes: true,
            warpgroups: true,
            stripes: false,
            patient: false,
            launch_seconds: None,
        }
    }

    fn name_of(&self) -> &'static str {
        self.way.name()
    }

    /// Returns the kinds of tiles that tensor cores of a device can multiply, the fastest first.
    fn tensor_kinds(&self, device: &Device, bytes: bool) -> Vec<TileKind> {
        let (major, minor) = device.info.capability;
        if major < 8 {
            return Vec::new();
        }
        let kind =
            |warpgroups, columns, stages| TileKind::Tensor { bytes, warpgroups, columns, stages };
        let mut kinds = vec![kind(false, 256, 3), kind(false, 128, 2)];
        // NVRTC 11 does not know the instructions of warpgroups.
        let known = || Nvrtc::get().is_ok_and(|nvrtc| nvrtc.version() >= (12, 0));
        if self.warpgroups && (major, minor) == (9, 0) && known() {
            kinds.insert(0, kind(true, 256, 4));
        }
        let known_to_err = |kind: &TileKind| {
            kind.adds_halves().is_some_and(|by| device.adds_halves[by].get() == Some(&false))
        };
        kinds.retain(|kind| kind.shared_bytes() <= device.shared_bytes() && !known_to_err(kind));
        kinds
    }

    /// Returns the columns of a tile as [`tensor_columns`](Self::tensor_columns) does, where tensor cores have been tried
    /// and add as exactly as they are taken to.
    fn exact_columns(&self, devices: &[Arc<Device>]) -> Result<Option<u32>> {
        let multiplies = matches!(self.way, VectorWay::Tensor | VectorWay::Quantile);
        while multiplies && let Some(columns) = self.tensor_columns(devices) {
            let mut exact = true;
            for device in devices {
                if let Some(kind) = self.tensor_kind(device, false, columns)
                    && let Some(by) = kind.adds_halves()
                {
                    let known = match device.adds_halves[by].get() {
                        Some(known) => *known,
                        None => {
                            let tried = trial::adds_exactly(device, kind)?;
                            *device.adds_halves[by].get_or_init(|| tried)
                        }
                    };
                    exact &= known;
                }
            }
            if exact {
                return Ok(Some(columns));
            }
        }
        Ok(None)
    }

    /// Returns the columns of a tile that tensor cores of all these devices can multiply; `None` where one of them has
    /// too little of what that needs.
    fn tensor_columns(&self, devices: &[Arc<Device>]) -> Option<u32> {
        let columns = |device: &Device| -> Vec<u32> {
            self.tensor_kinds(device, false).into_iter().map(TileKind::columns).collect()
        };
        let (first, others) = devices.split_first()?;
        let able = |width: &u32| others.iter().all(|device| columns(device).contains(width));
        columns(first).into_iter().filter(able).max()
    }

    /// Returns the fastest kind of tiles of a device that has so many columns.
    fn tensor_kind(&self, device: &Device, bytes: bool, columns: u32) -> Option<TileKind> {
        self.tensor_kinds(device, bytes).into_iter().find(|kind| kind.columns() == columns)
    }

    /// Returns bytes on a device: for each row, and for a worker with as little room as it can do with.
    pub fn bytes_of(&self, join: &VectorTask<'_>) -> (u64, u64) {
        let d = join.dimension() as u64;
        let element = join.probe.bytes() / (join.probe.len().max(1) as u64 * d).max(1);
        let element = element.max(4);
        let packed = 2 * d.next_multiple_of(64) + 12;
        let images = |m: u64| 8 * m + 40;
        let each = match self.way {
            VectorWay::NestedLoop => images(d),
            VectorWay::Tensor => packed.max(images(d)),
            VectorWay::Grid => images(d.min(64)),
            VectorWay::Quantile => packed + images(d.min(64)),
        };
        let rows = (join.probe.len() as u64, join.build.len() as u64);
        (d * element + each + 8, self.worker_bytes(rows, LEAST_CANDIDATES))
    }

    /// Returns bytes on a device for a worker with room for so many candidates, of a join of so many rows.
    fn worker_bytes(&self, rows: (u64, u64), candidates: usize) -> u64 {
        TILE_BYTES * self.most_tiles(rows) + candidates as u64 * CANDIDATE_BYTES + SMALL
    }

    /// Returns the tiles that a piece of a join of so many rows has at most. A group of blocks is never cut, however
    /// many tiles it has.
    fn most_tiles(&self, (probes, builds): (u64, u64)) -> u64 {
        let block = u64::from(TileKind::Direct.columns());
        let (rows, columns) = (probes.div_ceil(block), builds.div_ceil(block));
        let group = rows.min(u64::from(load::GROUP)) * columns;
        if self.stripes { group } else { group.max(self.tiles.1).min(rows * columns) }
    }

    /// Returns how many workers a device has, and how many candidates each has room for, where so many bytes are left
    /// for them; `None` where that is too little for one.
    fn workers(&self, join: &VectorTask<'_>, spare: u64) -> Option<(usize, usize)> {
        let rows = (join.probe.len() as u64, join.build.len() as u64);
        if spare < self.worker_bytes(rows, LEAST_CANDIDATES) {
            return None;
        }
        let worth_it = self.worker_bytes(rows, self.candidates().min(MANY_CANDIDATES));
        let workers = (spare / worth_it).clamp(1, WORKERS as u64);
        let each = (spare / workers - self.worker_bytes(rows, 0)) / CANDIDATE_BYTES;
        let candidates = each.min(self.candidates() as u64) as usize;
        Some((workers as usize, candidates.max(LEAST_CANDIDATES)))
    }

    fn candidates(&self) -> usize {
        self.candidates.clamp(LEAST_CANDIDATES, 1 << 28)
    }

    /// Bytes that may be taken on each device.
    fn device_memory(&self) -> Result<u64> {
        let mut least = self.memory;
        for device in &self.devices {
            let free = device.free_memory()?;
            least = least.min(free - free / 16);
        }
        Ok(least)
    }
}

impl GpuVectors {
    /// Returns a device whose tensor cores were tried and add less exactly than they are taken to.
    fn inexact_device(&self) -> Option<&Device> {
        let inexact = |device: &&Arc<Device>| {
            device.adds_halves.iter().any(|exact| exact.get() == Some(&false))
        };
        self.devices.iter().find(inexact).map(|device| &**device)
    }
}

impl Technique<Vectors> for GpuVectors {
    fn name(&self) -> &'static str {
        self.name_of()
    }

    fn on_device(&self) -> bool {
        true
    }

    fn shares(&self) -> bool {
        self.stripes
    }

    // Measured on an H200, 2026-11-16: cover_10d, MNIST, 1,000,000 × 960, 5,000,000 × 384, 10,000,000 × 8.
    fn cost(&self, survey: &VectorSurvey, _: &CostTable) -> Option<Cost> {
        let power: f64 = self.devices.iter().map(|device| device.info.multiprocessor_ratio()).sum();
        let tensor = self.tensor_columns(&self.devices).is_some();
        let (rows, d) = (survey.rows.0 + survey.rows.1, survey.dimension as f64);
        let m = survey.coordinates as f64;
        // What is near is fetched, decided about, and brought to the host.
        let near = survey.pairs * survey.near_by_image * (2e-9 + d * 8.0 / 2.5e12);
        let (pair, kept, sorting) = match self.way {
            VectorWay::NestedLoop => (by_differences(d), 1.0, 0.0),
            VectorWay::Tensor if tensor => (by_products(d), 1.0, 0.0),
            VectorWay::Grid => {
                // Cells of a survey are those of three coordinates; these have twice as many.
                let cells = survey.cells?;
                let kept = 4.0 * cells.powf(m.min(order::LAID as f64) / m.min(3.0));
                (by_differences(m), kept.max(2e4 / rows.max(1.0)).min(1.0), 1e-9)
            }
            VectorWay::Quantile if survey.coordinates <= load::DIRECT => {
                (by_differences(m), (3.0 * survey.boxes).min(1.0), 3e-9)
            }
            VectorWay::Quantile if tensor => {
                (by_products(d), (3.0 * survey.boxes).min(1.0), 3e-9 + d * 1e-11)
            }
            VectorWay::Tensor | VectorWay::Quantile => return None,
        };
        let sending = rows * (d * 4.0 / 4e10 + sorting);
        Some(Cost::of_serial(2e-3 + sending + (survey.pairs * kept * pair + near) / power))
    }

    fn memory_bytes(&self, _: &VectorTask<'_>, _: &Range<u32>, threads: usize) -> u64 {
        let workers = threads.min(WORKERS * self.devices.len()) as u64;
        workers * worker::HOST_BYTES + (32 << 20)
    }

    fn prepare<'a>(
        &self,
        join: &VectorTask<'a>,
        _: &Range<u32>,
        room: &Budget,
    ) -> Result<Box<dyn Prepared<Vectors> + 'a>> {
        let memory = self.device_memory()?;
        let room = Budget { bytes: room.bytes, ..Budget::unlimited(0, room.threads) };
        let (row, worker) = self.bytes_of(join);
        let rows = join.probe.len() + if join.is_self_join() { 0 } else { join.build.len() };
        // As many workers, and as much room for each, as there is memory beside the rows.
        let spare = memory.saturating_sub(row * rows as u64 + SMALL);
        let Some((workers, candidates)) = self.workers(join, spare) else {
            if self.stripes {
                return Err(Error::Memory {
                    what: "the join of CPU and GPU at once".into(),
                    needed: row * rows as u64 + SMALL + worker,
                    limit: memory,
                    device: true,
                });
            }
            return Ok(Box::new(Parts::new(self, join, &room, memory)?));
        };
        // Any device may take any piece, so all devices have the same tiles and the same order of rows.
        let columns = self.exact_columns(&self.devices)?;
        let inexact = self.inexact_device();
        if let (VectorWay::Quantile, Some(device)) = (self.way, inexact) {
            return Err(Error::Unavailable(format!(
                "the tensor cores of {} add products less exactly than gpu-quantile takes for granted",
                device.info.name
            )));
        }
        let mut devices: Vec<Loaded> = Vec::new();
        for device in &self.devices {
            let shared = Shared { columns, first: devices.first() };
            devices.push(Loaded::new(self, device, join, &room, &shared)?);
        }
        let technique = GpuVectors { candidates, ..self.clone() };
        Ok(Box::new(Whole { technique, devices, workers, dealt: AtomicUsize::new(0) }))
    }
}

/// A join that devices hold as a whole.
struct Whole {
    technique: GpuVectors,
    devices: Vec<Loaded>,
    /// For each device.
    workers: usize,
    dealt: AtomicUsize,
}

impl Prepared<Vectors> for Whole {
    fn details(&self) -> String {
        let details = self.devices[0].describe();
        match self.technique.inexact_device() {
            Some(_) if self.technique.way == VectorWay::Tensor => {
                details + ", since tensor cores add less exactly than they are taken to"
            }
            _ => details,
        }
    }

    fn pieces(&self) -> usize {
        self.devices[0].pieces.len()
    }

    fn workers(&self) -> usize {
        self.workers * self.devices.len()
    }

    fn worker<'w>(&'w self) -> Result<Box<dyn Worker<Vectors> + 'w>> {
        let which = self.dealt.fetch_add(1, Ordering::Relaxed) % self.devices.len();
        Ok(Box::new(TileWorker::new(&self.technique, &self.devices[which])))
    }
}

impl Loaded {
    /// Returns how many tiles a launch compares at most, so that it takes no more than so many seconds.
    fn launch_tiles(&self, technique: &GpuVectors) -> u32 {
        let info = &self.device.info;
        let pair = match self.kind {
            TileKind::Direct => by_differences(f64::from(self.coordinates)),
            TileKind::Tensor { .. } => by_products(f64::from(self.dimension())),
        };
        let tile =
            pair * f64::from(load::BLOCK * self.kind.columns()) / info.multiprocessor_ratio();
        let seconds = technique.launch_seconds.unwrap_or_else(|| info.launch_seconds());
        ((seconds / tile) as u32).max(1)
    }

    /// In a few words.
    fn describe(&self) -> String {
        let how = match self.kind {
            TileKind::Direct => format!("differences in {} coordinates", self.coordinates),
            TileKind::Tensor { bytes: true, .. } => "products of bytes".into(),
            TileKind::Tensor { .. } => "products in half precision".into(),
        };
        let (tiles, all) = self.tiles;
        format!("{how}, {tiles} tiles of {all}")
    }
}

/// A device, a stream, and the kernels that are compiled for a kind of elements.
struct Work<'a> {
    device: &'a Arc<Device>,
    stream: Arc<CudaStream>,
    wide: bool,
}

impl Work<'_> {
    fn function(&self, name: &str) -> Result<CudaFunction> {
        self.device.function(SOURCE, &defines(self.wide), name)
    }
}

/// How rows are centred, scaled and folded, as the device reads it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Frame {
    centre: sys::CUdeviceptr,
    scale: f64,
    fold: f64,
    d: u32,
    unit: u32,
}

// SAFETY: numbers and an address, laid out as in the kernels.
unsafe impl DeviceRepr for Frame {}

impl Frame {
    /// That of a transform, and the centre on the device.
    fn of(work: &Work<'_>, transform: &Transform) -> Result<(Self, CudaSlice<f64>)> {
        let recipe = transform.recipe();
        let centre = work.stream.clone_htod(recipe.centre).map_err(failed("preparing"))?;
        let pointer = centre.device_ptr(&work.stream).0;
        let (d, unit) = (recipe.centre.len() as u32, u32::from(recipe.unit));
        let Recipe { scale, fold, .. } = recipe;
        Ok((Frame { centre: pointer, scale, fold, d, unit }, centre))
    }
}

/// A thread for each.
fn grid(threads: u64) -> LaunchConfig {
    let blocks = threads.div_ceil(256).max(1);
    LaunchConfig { grid_dim: (blocks as u32, 1, 1), block_dim: (256, 1, 1), shared_mem_bytes: 0 }
}

/// As many threads as a device runs at once, or fewer: each does several.
fn fixed_grid(work: &Work<'_>, threads: u64) -> LaunchConfig {
    let most = u64::from(work.device.info.multiprocessors) * 16;
    grid(threads.min(most * 256))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_has_room_for_a_group_of_more_tiles_than_a_piece() {
        let vectors = |stripes| GpuVectors { stripes, ..GpuVectors::new(&[], VectorWay::Tensor) };
        // A group of 16 blocks of 20 million rows meets as many blocks.
        let rows = (20_000_000, 20_000_000);
        let group = 16 * 20_000_000u64.div_ceil(128);
        assert!(group > TILES.1);
        for stripes in [false, true] {
            assert_eq!(vectors(stripes).most_tiles(rows), group);
            let bytes = vectors(stripes).worker_bytes(rows, 10);
            assert_eq!(bytes, 9 * group + 10 * CANDIDATE_BYTES + SMALL);
        }
        // No piece has more tiles than there are.
        assert_eq!(vectors(false).most_tiles((1000, 300)), 8 * 3);
        assert_eq!(vectors(false).most_tiles((2_000_000, 2_000_000)), TILES.1);
        assert_eq!(vectors(true).most_tiles((2_000_000, 2_000_000)), 16 * 15_625);
    }
}
