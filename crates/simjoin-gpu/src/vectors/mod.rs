//! How are vectors joined on NVIDIA GPUs?
//!
//! | technique | order of the rows | how two blocks are compared |
//! | --- | --- | --- |
//! | `gpu-nested-loop` | as given | squared differences in f32 |
//! | `gpu-tensor` | as given | products in f16 or in bytes, on tensor cores |
//! | `gpu-grid` | by cells as wide as the distance | squared differences in f32 |
//! | `gpu-quantile` | by a multi-level quantile index | differences; products where there are many coordinates |
//!
//! After Böhm, Noll, Plant and Zherdin (Index-supported similarity join on graphics processors): a nested
//! loop with tiles in shared memory, an index whose pages are compared block by block with bounds, a buffer
//! for results that is emptied and reused, and overlapping partitions if the device is too small.
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
//! Tiles whose bounds are farther apart than the distance are left out. Two or three workers process pieces
//! of tiles, so that the device compares while answers are copied.
//!
//! # Exactness
//!
//! Filters keep every pair that the predicate accepts. The images are those of `simjoin_engine`, with the
//! errors that it accounts for. [`tensor`] bounds the error of tensor cores. Bounds of blocks contain all
//! their images. The predicate decides about the remaining pairs in f64, in the one order that all backends
//! share, so distances are equal to the last bit. A full buffer loses nothing: tiles that found no space are
//! compared again.
//!
//! # Memory
//!
//! On the device the rows, their images or f16 rows, 24 bytes per row while they are sorted, and for each
//! worker its tiles and candidates ([`GpuVectors::bytes_of`]). If that is more than the memory, rows are cut
//! into slabs along the element that varies most, and only slabs that are within the distance meet
//! ([`slabs`]). On the host two pinned buffers per worker. None of this depends on the number of results.

mod load;
mod order;
mod precision;
mod slabs;
mod tensor;
mod worker;

use crate::device::{Device, failed};
use crate::nvrtc::Nvrtc;
use cudarc::driver::{
    CudaFunction, CudaSlice, CudaStream, DevicePtr, DeviceRepr, LaunchConfig, sys,
};
use load::{JoinWide, LoadedJoin};
use simjoin_core::{Error, Result};
use simjoin_engine::{
    Budget, Cost, CostTable, Fit, Prepared, Technique, Transform, VectorSurvey, VectorTask,
    Vectors, Worker,
};
use slabs::SlabJoin;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use worker::TileWorker;

/// Concatenates the headers of the kernels for vectors and one source.
macro_rules! source {
    ($file:literal) => {
        concat!(
            include_str!("../kernels/vectors.cuh"),
            include_str!("../kernels/shared.cuh"),
            include_str!($file)
        )
    };
}

/// The kernels for images, order, bounds and the predicate.
pub(crate) static SOURCE: &str = source!("../kernels/vectors.cu");
/// The kernel that compares tiles by differences.
pub(crate) static DIRECT: &str = source!("../kernels/vectors_direct.cu");
/// The kernel that compares tiles on tensor cores.
pub(crate) static TENSOR: &str = source!("../kernels/vectors_tensor.cu");

/// Returns the definitions that the kernels of the first source are compiled with.
pub(crate) fn defines(wide: bool) -> [(&'static str, u32); 1] {
    [("WIDE", u32::from(wide))]
}

/// The number of workers per device.
const WORKERS: usize = 3;
/// The capacity of a worker for candidates: the largest one, the one for which another worker is worth it,
/// and the smallest one, which suffices for one tile.
const MAX_CANDIDATES: usize = 8 << 20;
const WORTHWHILE_CANDIDATES: usize = 1 << 20;
const MIN_CANDIDATES: usize = 1 << 15;
/// The bytes on the device for each candidate: the pair, a value and the answer.
const CANDIDATE_BYTES: u64 = 8 + 4 + 16;
/// The smallest number of tiles in a piece, unless there are fewer, and the largest one.
const TILES: (u64, u64) = (1 << 10, 1 << 21);
/// The bytes on the device for each tile: its position, and whether it is done.
const TILE_BYTES: u64 = 8 + 1;
/// The bytes for small buffers.
const SMALL_BYTES: u64 = 1 << 20;

/// Returns the seconds to compare a pair by differences in `m` coordinates, on an H200.
fn by_differences(m: f64) -> f64 {
    (4.0 + 2.0 * m) / 2.2e13
}

fn by_products(d: f64) -> f64 {
    (2.0 * (d / 64.0).ceil() * 64.0 + 95.0) / 3.9e14
}

/// A way to order and compare rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VectorWay {
    /// In the given order, by differences.
    NestedLoop,
    /// In the given order, by products on tensor cores.
    Tensor,
    /// In the order of cells, by differences.
    Grid,
    /// In the order of a quantile index, by differences or products.
    Quantile,
}

impl VectorWay {
    /// All ways.
    pub const ALL: [VectorWay; 4] = [Self::Quantile, Self::Tensor, Self::Grid, Self::NestedLoop];

    /// Returns the name of the technique.
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
    /// The devices that it runs on.
    pub devices: Vec<Arc<Device>>,
    /// The way to order and compare rows.
    pub way: VectorWay,
    /// The fit of the images; computed anew if it is needed and not given.
    pub fit: Option<Arc<Fit>>,
    /// The limit of the memory on each device, in bytes.
    pub memory: u64,
    /// The capacity of a worker for candidates.
    pub candidates: usize,
    /// The smallest and the largest number of tiles in a piece.
    pub tiles: (u64, u64),
    /// Whether rows of small whole numbers are joined as bytes.
    pub bytes: bool,
    /// Whether warpgroups multiply if the device has them.
    pub warpgroups: bool,
    /// Whether a piece is [`STRIPE`](Self::STRIPE) probes with all rows that they meet, so that other
    /// processors can do some pieces; not possible if the rows are ordered.
    pub stripes: bool,
    /// Whether threads that wait for a device should sleep, because others need the cores.
    pub patient: bool,
    /// The seconds that a launch may take, in place of the device's own limit.
    pub launch_seconds: Option<f64>,
}

/// A way to compare two blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TileKind {
    /// By differences, in tiles of 128 × 128.
    Direct,
    /// By products on tensor cores.
    Tensor { bytes: bool, warpgroups: bool, columns: u32, stages: u32 },
}

impl TileKind {
    /// Returns the number of columns in a tile.
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
                ("HELD", self.collected()),
            ],
        }
    }

    /// Returns the index in [`Device::adds_halves`] for these tiles; `None` if they add no halves.
    fn adds_halves(self) -> Option<usize> {
        match self {
            TileKind::Tensor { bytes: false, warpgroups, .. } => Some(usize::from(warpgroups)),
            _ => None,
        }
    }

    /// Returns the bytes of shared memory.
    fn shared_bytes(self) -> u32 {
        match self {
            TileKind::Direct => 0,
            TileKind::Tensor { columns, stages, .. } => {
                (128 + columns) * (stages * 128 + 4 * 4) + 12 * self.collected() + 1024
            }
        }
    }

    /// Returns the number of candidates that a block collects before it writes them out.
    fn collected(self) -> u32 {
        if matches!(self, TileKind::Tensor { warpgroups: true, .. }) { 2048 } else { 512 }
    }
}

/// The definitions of a kernel, and the architectures that it must compile for.
type Variant = (Vec<(&'static str, u32)>, &'static [&'static str]);

/// Returns every variant of the kernel for tensor cores, for checks.
pub(crate) fn tensor_variants() -> Vec<Variant> {
    let mut all = Vec::new();
    // The architectures with enough shared memory for the largest number of columns.
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
    /// The probes of a piece if other processors do some of the pieces.
    pub const STRIPE: usize = simjoin_engine::STRIPE;

    /// Returns the technique for these devices, without a limit of memory.
    pub fn new(devices: &[Arc<Device>], way: VectorWay) -> Self {
        GpuVectors {
            devices: devices.to_vec(),
            way,
            fit: None,
            memory: u64::MAX,
            candidates: MAX_CANDIDATES,
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

    /// Returns the kinds of tiles that the tensor cores of a device can multiply, the fastest first.
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
        let known_inexact = |kind: &TileKind| {
            kind.adds_halves().is_some_and(|by| device.adds_halves[by].get() == Some(&false))
        };
        kinds.retain(|kind| kind.shared_bytes() <= device.shared_bytes() && !known_inexact(kind));
        kinds
    }

    /// Returns the columns of a tile as [`tensor_columns`](Self::tensor_columns) does, but only if tests have
    /// shown that the tensor cores add as exactly as assumed.
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
                            let tried = precision::adds_exactly(device, kind)?;
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

    /// Returns the largest number of columns in a tile that the tensor cores of all these devices can
    /// multiply; `None` if one of the devices cannot.
    fn tensor_columns(&self, devices: &[Arc<Device>]) -> Option<u32> {
        let columns = |device: &Device| -> Vec<u32> {
            self.tensor_kinds(device, false).into_iter().map(TileKind::columns).collect()
        };
        let (first, others) = devices.split_first()?;
        let able = |width: &u32| others.iter().all(|device| columns(device).contains(width));
        columns(first).into_iter().filter(able).max()
    }

    /// Returns the fastest kind of tiles with this number of columns on a device.
    fn tensor_kind(&self, device: &Device, bytes: bool, columns: u32) -> Option<TileKind> {
        self.tensor_kinds(device, bytes).into_iter().find(|kind| kind.columns() == columns)
    }

    /// Returns the bytes on a device for each row, and for a worker with the smallest buffers.
    pub fn bytes_of(&self, task: &VectorTask<'_>) -> (u64, u64) {
        let d = task.dimension() as u64;
        let element = task.probe.bytes() / (task.probe.len().max(1) as u64 * d).max(1);
        let element = element.max(4);
        let packed = 2 * d.next_multiple_of(64) + 12;
        let images = |m: u64| 8 * m + 40;
        let each = match self.way {
            VectorWay::NestedLoop => images(d),
            VectorWay::Tensor => packed.max(images(d)),
            VectorWay::Grid => images(d.min(64)),
            VectorWay::Quantile => packed + images(d.min(64)),
        };
        let rows = (task.probe.len() as u64, task.build.len() as u64);
        (d * element + each + 8, self.worker_bytes(rows, MIN_CANDIDATES))
    }

    /// Returns the bytes on a device for a worker with this capacity, in a join of this many rows.
    fn worker_bytes(&self, rows: (u64, u64), candidates: usize) -> u64 {
        TILE_BYTES * self.most_tiles(rows) + candidates as u64 * CANDIDATE_BYTES + SMALL_BYTES
    }

    /// Returns the largest number of tiles in a piece of a join of this many rows. A group of blocks is never
    /// cut, however many tiles it has.
    fn most_tiles(&self, (probes, builds): (u64, u64)) -> u64 {
        let block = u64::from(TileKind::Direct.columns());
        let (rows, columns) = (probes.div_ceil(block), builds.div_ceil(block));
        let group = rows.min(u64::from(load::GROUP)) * columns;
        if self.stripes { group } else { group.max(self.tiles.1).min(rows * columns) }
    }

    /// Returns the number of workers of a device and the capacity of each for candidates, if `spare` bytes
    /// remain for them; `None` if that is not enough for one worker.
    fn workers(&self, task: &VectorTask<'_>, spare: u64) -> Option<(usize, usize)> {
        let rows = (task.probe.len() as u64, task.build.len() as u64);
        if spare < self.worker_bytes(rows, MIN_CANDIDATES) {
            return None;
        }
        let worth_it = self.worker_bytes(rows, self.candidates().min(WORTHWHILE_CANDIDATES));
        let workers = (spare / worth_it).clamp(1, WORKERS as u64);
        let each = (spare / workers - self.worker_bytes(rows, 0)) / CANDIDATE_BYTES;
        let candidates = each.min(self.candidates() as u64) as usize;
        Some((workers as usize, candidates.max(MIN_CANDIDATES)))
    }

    fn candidates(&self) -> usize {
        self.candidates.clamp(MIN_CANDIDATES, 1 << 28)
    }

    /// Returns the bytes that may be used on each device.
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
    /// Returns a device whose tensor cores were tested and add less exactly than assumed.
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

    fn variant(&self) -> String {
        if self.stripes { "stripes".into() } else { String::new() }
    }

    fn on_device(&self) -> bool {
        true
    }

    fn joins_any_range(&self) -> bool {
        self.stripes
    }

    // Fitted on an H200; see `benchmarks/recorded/2026-11-16-vectors-device.md`.
    fn cost(&self, survey: &VectorSurvey, _: &CostTable) -> Option<Cost> {
        let power: f64 = self.devices.iter().map(|device| device.info.multiprocessor_ratio()).sum();
        let tensor = self.tensor_columns(&self.devices).is_some();
        let (rows, d) = (survey.rows.0 + survey.rows.1, survey.dimension as f64);
        let m = survey.coordinates as f64;
        // Near pairs are fetched, decided and copied to the host.
        let near = survey.pairs * survey.near_by_image * (2e-9 + d * 8.0 / 2.5e12);
        let (pair, kept, sorting) = match self.way {
            VectorWay::NestedLoop => (by_differences(d), 1.0, 0.0),
            VectorWay::Tensor if tensor => (by_products(d), 1.0, 0.0),
            VectorWay::Grid => {
                // The survey counts cells in three coordinates; these cells have twice as many.
                let cells = survey.cells?;
                let kept = 4.0 * cells.powf(m.min(order::MAX_GRID_COORDINATES as f64) / m.min(3.0));
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
        task: &VectorTask<'a>,
        probes: &Range<u32>,
        budget: &Budget,
    ) -> Result<Box<dyn Prepared<Vectors> + 'a>> {
        let memory = self.device_memory()?;
        let budget = Budget { bytes: budget.bytes, ..Budget::unlimited(0, budget.threads) };
        let (row, worker) = self.bytes_of(task);
        let rows = task.probe.len() + if task.is_self_join() { 0 } else { task.build.len() };
        // The number of workers and their capacity follow from the memory without the rows.
        let spare = memory.saturating_sub(row * rows as u64 + SMALL_BYTES);
        let Some((workers, candidates)) = self.workers(task, spare) else {
            if self.stripes {
                return Err(Error::Memory {
                    what: "the join of CPU and GPU at once".into(),
                    needed: row * rows as u64 + SMALL_BYTES + worker,
                    limit: memory,
                    device: true,
                });
            }
            return Ok(Box::new(SlabJoin::new(self, task, &budget, memory)?));
        };
        // Any device may process any piece, so all devices have the same tiles and the same order of rows.
        let columns = self.exact_columns(&self.devices)?;
        let inexact = self.inexact_device();
        if let (VectorWay::Quantile, Some(device)) = (self.way, inexact) {
            return Err(Error::Unavailable(format!(
                "the tensor cores of {} add products less exactly than gpu-quantile requires",
                device.info.name
            )));
        }
        let mut devices: Vec<LoadedJoin> = Vec::new();
        for device in &self.devices {
            let join_wide = JoinWide { columns, first: devices.first() };
            devices.push(LoadedJoin::new(self, device, task, &budget, &join_wide)?);
        }
        let technique = GpuVectors { candidates, ..self.clone() };
        let dealt = AtomicUsize::new(0);
        let mut whole = WholeJoin { pieces: 0..0, technique, devices, workers, dealt };
        whole.choose(probes);
        Ok(Box::new(whole))
    }
}

/// A join whose rows fit the devices.
struct WholeJoin {
    /// The pieces of the range.
    pieces: Range<usize>,
    technique: GpuVectors,
    devices: Vec<LoadedJoin>,
    /// The number of workers per device.
    workers: usize,
    dealt: AtomicUsize,
}

impl WholeJoin {
    /// Chooses the pieces of a range of probes.
    fn choose(&mut self, probes: &Range<u32>) {
        let all = self.devices[0].pieces.len();
        self.pieces = match self.technique.stripes {
            true => {
                let first = probes.start as usize / GpuVectors::STRIPE;
                let end = (probes.end as usize).div_ceil(GpuVectors::STRIPE);
                first.min(all)..end.min(all)
            }
            false => 0..all,
        };
    }
}

impl Prepared<Vectors> for WholeJoin {
    fn details(&self) -> String {
        let details = self.devices[0].describe();
        match self.technique.inexact_device() {
            Some(_) if self.technique.way == VectorWay::Tensor => {
                details + ", since tensor cores add less exactly than assumed"
            }
            _ => details,
        }
    }

    fn pieces(&self) -> usize {
        self.pieces.len()
    }

    fn go_on(&mut self, probes: &Range<u32>) -> bool {
        self.choose(probes);
        self.technique.stripes
    }

    fn workers(&self) -> usize {
        self.workers * self.devices.len()
    }

    fn worker<'w>(&'w self) -> Result<Box<dyn Worker<Vectors> + 'w>> {
        let which = self.dealt.fetch_add(1, Ordering::Relaxed) % self.devices.len();
        Ok(Box::new(TileWorker::new(&self.technique, &self.devices[which], self.pieces.start)))
    }
}

impl LoadedJoin {
    /// Returns the largest number of tiles that a launch compares within its time limit.
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

    /// Returns a description in a few words.
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

/// A device, a stream on it, and the kernels for one type of elements.
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

/// The centring, scaling and folding of rows, in the layout of the kernels.
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
    /// Returns the frame of a transform, and the centre on the device.
    fn of(work: &Work<'_>, transform: &Transform) -> Result<(Self, CudaSlice<f64>)> {
        let &Transform { scale, fold, unit, ref centre, .. } = transform;
        let (d, unit) = (centre.len() as u32, u32::from(unit));
        let centre = work.stream.clone_htod(centre).map_err(failed("preparing"))?;
        let pointer = centre.device_ptr(&work.stream).0;
        Ok((Frame { centre: pointer, scale, fold, d, unit }, centre))
    }
}

/// Returns a launch of this many threads.
fn grid(threads: u64) -> LaunchConfig {
    let blocks = threads.div_ceil(256).max(1);
    LaunchConfig { grid_dim: (blocks as u32, 1, 1), block_dim: (256, 1, 1), shared_mem_bytes: 0 }
}

/// Returns a launch of at most as many threads as a device runs at once. Each thread may do several items.
fn fixed_grid(work: &Work<'_>, threads: u64) -> LaunchConfig {
    let most = u64::from(work.device.info.multiprocessors) * 16;
    grid(threads.min(most * 256))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_may_have_more_tiles_than_a_piece() {
        let vectors = |stripes| GpuVectors { stripes, ..GpuVectors::new(&[], VectorWay::Tensor) };
        // A group of 16 blocks of 20 million rows meets all blocks.
        let rows = (20_000_000, 20_000_000);
        let group = 16 * 20_000_000u64.div_ceil(128);
        assert!(group > TILES.1);
        for stripes in [false, true] {
            assert_eq!(vectors(stripes).most_tiles(rows), group);
            let bytes = vectors(stripes).worker_bytes(rows, 10);
            assert_eq!(bytes, 9 * group + 10 * CANDIDATE_BYTES + SMALL_BYTES);
        }
        // No piece has more tiles than the join.
        assert_eq!(vectors(false).most_tiles((1000, 300)), 8 * 3);
        assert_eq!(vectors(false).most_tiles((2_000_000, 2_000_000)), TILES.1);
        assert_eq!(vectors(true).most_tiles((2_000_000, 2_000_000)), 16 * 15_625);
    }
}
