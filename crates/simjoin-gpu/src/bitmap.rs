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

use crate::device::{Device, Lease, failed};
use crate::send::Sender;
use crate::sets::{
    Answers, Channel, DeviceSets, Devices, PerSide, Predicate, Stages, State, has_long_merges,
    host_seconds, order_number, source, tile_sides, verify_grid,
};
use cudarc::driver::{
    CudaFunction, CudaSlice, CudaStream, DeviceRepr, LaunchConfig, PushKernelArg, sys,
};
use simjoin_core::{Bounds, Result, SetCollection, SetId, SetPair, Sink, SizeClass};
use simjoin_engine::{
    Budget, Cost, CostTable, DeviceEvent, DeviceTimes, Order, Prepared, Reach, SetTask, Sets,
    Survey, Technique, Tile, Worker, reaches,
};
use std::ops::{ControlFlow, Range};
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
    fn fixed_bytes(&self, join: &SetTask<'_>, tile: &Tile) -> u64 {
        let Shape { rows, columns, .. } = self.shape();
        let each = u64::from(12 + self.bits / 8);
        let bytes = |(sets, range): (&SetCollection, Range<SetId>)| {
            let padded = range.len() as u64 + u64::from(rows + columns);
            DeviceSets::bytes(sets, &range) + padded * each
        };
        tile_sides(join, tile).map(bytes).sum()
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
            shared: 0.0,
        })
    }

    fn memory_bytes(&self, _: &SetTask<'_>, tile: &Tile, threads: usize) -> u64 {
        self.host_bytes(tile) + self.workers(threads) * MIN_SURVIVORS * Answers::HOST_BYTES
    }

    fn device_bytes(&self, join: &SetTask<'_>, tile: &Tile, threads: usize) -> u64 {
        let workers = self.workers(threads).min(WORKERS as u64);
        self.fixed_bytes(join, tile) + workers * self.worker_bytes(MIN_SURVIVORS)
    }

    fn prepare<'a>(
        &self,
        join: &SetTask<'a>,
        tile: &Tile,
        budget: &Budget,
    ) -> Result<Box<dyn Prepared<Sets> + 'a>> {
        Ok(Box::new(PreparedBitmap::new(self, join, tile, budget)?))
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

/// A block of probes and the ranges of build sets that it goes through.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Item {
    row: u32,
    from: u32,
    to: u32,
}

// SAFETY: three numbers, laid out as in the kernel.
unsafe impl DeviceRepr for Item {}

/// Sets on the device, with their signatures.
struct SignedSets {
    sets: DeviceSets,
    signatures: CudaSlice<u32>,
    probe_rooms: CudaSlice<i32>,
    build_rooms: CudaSlice<i32>,
    /// The rooms of build sets in whole bits, less the turn of their range (see the kernel).
    rough_rooms: CudaSlice<i32>,
}

impl SignedSets {
    fn new(
        technique: &GpuBitmap,
        device: &Device,
        sender: &Sender,
        sets: &SetCollection,
        range: &Range<SetId>,
        bounds: &Bounds,
    ) -> Result<Self> {
        let Shape { rows, columns, threads, .. } = technique.shape();
        let sign = technique.function(device, "sign")?;
        let at = failed("sending sets to the device");
        let count = range.len();
        // Blocks and steps read past the last set.
        let padded = count.next_multiple_of(columns as usize) + rows as usize;
        let stream = &sender.stream;
        let share = |of: &dyn Fn(u32) -> i64| -> Vec<i32> {
            let class = |class: &SizeClass| {
                if class.size > MAX_WEIGHTED { ALWAYS } else { of(class.size) as i32 }
            };
            sets.classes().iter().map(class).collect()
        };
        let send = |shares: Vec<i32>| stream.clone_htod(&shares).map_err(&at);
        let probe_shares = send(share(&|size| bounds.probe_share(size, 16)))?;
        let build_shares = send(share(&|size| bounds.build_share(size, 16)))?;
        let on_device = DeviceSets::new(sender, sets, range)?;
        let words = padded * (technique.bits / 32) as usize;
        // SAFETY: the kernel writes every element.
        let (mut signatures, mut probe_rooms, mut build_rooms, mut rough_rooms) = unsafe {
            (
                stream.alloc::<u32>(words).map_err(&at)?,
                stream.alloc::<i32>(padded).map_err(&at)?,
                stream.alloc::<i32>(padded).map_err(&at)?,
                stream.alloc::<i32>(padded).map_err(&at)?,
            )
        };
        let (count, padded) = (count as u32, padded as u32);
        let top = sets.universe().saturating_sub(1);
        // SAFETY: the arguments match the kernel, and the buffers have the lengths that it needs.
        unsafe {
            stream
                .launch_builder(&sign)
                .arg(&on_device.argument(stream))
                .arg(&on_device.classes)
                .arg(&count)
                .arg(&padded)
                .arg(&top)
                .arg(&probe_shares)
                .arg(&build_shares)
                .arg(&mut signatures)
                .arg(&mut probe_rooms)
                .arg(&mut build_rooms)
                .arg(&mut rough_rooms)
                .launch(LaunchConfig {
                    grid_dim: (padded.div_ceil(threads / 32), 1, 1),
                    block_dim: (threads, 1, 1),
                    shared_mem_bytes: 0,
                })
                .map_err(failed("making signatures"))?;
        }
        Ok(SignedSets { sets: on_device, signatures, probe_rooms, build_rooms, rough_rooms })
    }
}

/// A device with the sets, signatures and kernels of a tile.
struct OnDevice {
    device: Arc<Device>,
    /// The stream that makes the signatures. Workers wait for it.
    stream: Arc<CudaStream>,
    filter: CudaFunction,
    verify: CudaFunction,
    verify_deferred: CudaFunction,
    sides: PerSide<SignedSets>,
    /// Dropped last.
    _lease: Lease,
}

impl OnDevice {
    fn new(
        technique: &GpuBitmap,
        device: &Arc<Device>,
        join: &SetTask<'_>,
        tile: &Tile,
        budget: &Budget,
    ) -> Result<Self> {
        let lease = Lease::new(device);
        let sender = Sender::new(device, budget)?;
        let sides = PerSide::new(join, tile, |sets, range| {
            SignedSets::new(technique, device, &sender, sets, range, &join.predicate)
        })?;
        let filter = technique.function(device, "filter")?;
        filter
            .set_attribute(
                sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                technique.shared_bytes() as i32,
            )
            .map_err(failed("setting the shared memory"))?;
        let verify = technique.function(device, "verify")?;
        let verify_deferred = technique.function(device, "verify_deferred")?;
        if budget.events {
            sender.stream.synchronize().map_err(failed("making signatures"))?;
        }
        let (device, stream) = (device.clone(), sender.stream);
        Ok(OnDevice { device, stream, filter, verify, verify_deferred, sides, _lease: lease })
    }
}

impl Drop for OnDevice {
    fn drop(&mut self) {
        self.device.make_current();
    }
}

struct PreparedBitmap<'a> {
    join: SetTask<'a>,
    devices: Devices<OnDevice>,
    /// The tile whose sets the devices hold.
    held: Tile,
    shape: Shape,
    shared_bytes: u32,
    predicate: Predicate,
    order: u32,
    /// Whether every token has its own bit.
    exact: u32,
    /// The tile that is joined now, the same or a part of it.
    tile: Tile,
    items: Vec<Item>,
    pieces: Vec<Range<usize>>,
    /// The number of pairs that each device compares in one launch.
    launch_pairs: u64,
    survivors: usize,
    /// Whether some pairs may be verified by a warp.
    long: bool,
    budget: Budget,
}

impl<'a> PreparedBitmap<'a> {
    fn new(
        technique: &GpuBitmap,
        join: &SetTask<'a>,
        tile: &Tile,
        budget: &Budget,
    ) -> Result<Self> {
        let load = |device: &Arc<Device>| OnDevice::new(technique, device, join, tile, budget);
        let devices = Devices::new(&technique.devices, budget, load)?;
        let shape = technique.shape();
        let workers = technique.workers(budget.threads).max(1);
        let spare = budget.device_bytes.saturating_sub(technique.fixed_bytes(join, tile));
        let on_device = spare / workers.min(WORKERS as u64);
        let on_device = on_device.saturating_sub(technique.worker_bytes(0)) / SURVIVOR_BYTES;
        let on_host = budget.bytes.saturating_sub(technique.host_bytes(tile))
            / (workers * Answers::HOST_BYTES);
        let survivors = on_device.min(on_host).clamp(MIN_SURVIVORS, SURVIVORS);
        let mut prepared = PreparedBitmap {
            join: *join,
            devices,
            held: tile.clone(),
            shape,
            shared_bytes: technique.shared_bytes(),
            predicate: Predicate::new(&join.predicate),
            order: order_number(join, tile),
            exact: u32::from(join.build.universe() <= technique.bits),
            tile: tile.clone(),
            items: Vec::new(),
            pieces: Vec::new(),
            launch_pairs: technique.launch_pairs(),
            survivors: survivors as usize,
            long: has_long_merges(join, tile),
            budget: *budget,
        };
        prepared.cut(tile);
        Ok(prepared)
    }

    /// Cuts a tile into items and pieces.
    fn cut(&mut self, tile: &Tile) {
        let shape = self.shape;
        let items = items(&self.join, tile, self.devices.first(), shape);
        let pairs_of =
            |item: &Item| u64::from(item.to - item.from) * u64::from(shape.rows * shape.columns);
        let all: u64 = items.iter().map(pairs_of).sum();
        let piece = (all / PIECES).clamp(MIN_PIECE_PAIRS, MAX_PIECE_PAIRS).min(self.launch_pairs);
        self.pieces.clear();
        let (mut start, mut pairs) = (0, 0);
        for (at, item) in items.iter().enumerate() {
            pairs += pairs_of(item);
            if pairs >= piece || at + 1 - start == MAX_ITEMS || at + 1 == items.len() {
                self.pieces.push(start..at + 1);
                (start, pairs) = (at + 1, 0);
            }
        }
        (self.items, self.tile) = (items, tile.clone());
    }
}

/// Returns blocks of probes with the ranges of build sets that the length filter leaves.
fn items(join: &SetTask<'_>, tile: &Tile, on_device: &OnDevice, shape: Shape) -> Vec<Item> {
    let (rows_from, columns_from) =
        (on_device.sides.probes().sets.first, on_device.sides.builds().sets.first);
    let Shape { rows, columns, .. } = shape;
    let reaches = reaches(join, tile);
    let mut blocks: Vec<Item> = Vec::new();
    let mut row = tile.probes.start;
    while row < tile.probes.end {
        let end = tile.probes.end.min(row + rows);
        let classes = join.probe.class_of(row)..join.probe.class_of(end - 1) + 1;
        let met = classes.map(|class| &reaches[class as usize]).filter(|reach| reach.pairs > 0);
        let met = met.fold(None, |all: Option<Range<SetId>>, reach: &Reach| {
            let Range { start, end } = reach.builds;
            Some(all.map_or(start..end, |all| all.start.min(start)..all.end.max(end)))
        });
        if let Some(mut met) = met {
            if join.order == Order::Before {
                met.end = met.end.min(end).max(met.start);
            }
            let from = (met.start - columns_from) / columns;
            let to = met.end.saturating_sub(columns_from).div_ceil(columns);
            blocks.push(Item { row: row - rows_from, from, to });
        }
        row = end;
    }
    // Few blocks are cut smaller, so that the whole device has work.
    let ranges: u64 = blocks.iter().map(|item| u64::from(item.to.saturating_sub(item.from))).sum();
    let at_once = u64::from(BLOCKS_PER_SLOT * shape.blocks * on_device.device.info.multiprocessors);
    let most =
        (ranges / at_once).clamp(MIN_RANGES.into(), (MAX_BUILDS_OF_BLOCK / columns).into()) as u32;
    let cut = |Item { row, from, to }: Item| {
        let starts = (from..to).step_by(most as usize);
        starts.map(move |from| Item { row, from, to: to.min(from + most) })
    };
    blocks.into_iter().flat_map(cut).collect()
}

impl Prepared<Sets> for PreparedBitmap<'_> {
    fn pieces(&self) -> usize {
        self.pieces.len()
    }

    fn go_on(&mut self, tile: &Tile) -> bool {
        let holds = self.held.contains(tile);
        if holds {
            self.cut(tile);
        }
        holds
    }

    fn workers(&self) -> usize {
        WORKERS * self.devices.len()
    }

    fn worker<'a>(&'a self) -> Result<Box<dyn Worker<Sets> + 'a>> {
        let on_device = self.devices.next_device();
        let channel =
            Channel::new(&on_device.device, &on_device.stream, self.survivors, &self.budget)?;
        let at = failed("allocating the buffers of a worker");
        // SAFETY: nothing is read before it is written.
        let (survivors, deferred) = unsafe {
            let stream = &channel.stream;
            (stream.alloc(self.survivors).map_err(&at)?, stream.alloc(self.survivors).map_err(&at)?)
        };
        Ok(Box::new(BitmapWorker {
            prepared: self,
            on_device,
            channel,
            survivors,
            deferred,
            verified: 0,
        }))
    }

    fn events(&mut self) -> Vec<DeviceEvent> {
        self.devices.events()
    }
}

struct BitmapWorker<'a> {
    prepared: &'a PreparedBitmap<'a>,
    on_device: &'a OnDevice,
    channel: Channel,
    survivors: CudaSlice<u64>,
    /// The survivors that a warp verifies.
    deferred: CudaSlice<u32>,
    verified: u64,
}

/// The items of a piece on the device, and the position at which each warp of each block continues.
struct SentPiece {
    items: CudaSlice<Item>,
    progress: CudaSlice<u32>,
}

impl Stages for BitmapWorker<'_> {
    type Piece = SentPiece;

    fn channel(&mut self) -> &mut Channel {
        &mut self.channel
    }

    fn firsts(&self) -> (SetId, SetId) {
        (self.on_device.sides.probes().sets.first, self.on_device.sides.builds().sets.first)
    }

    fn filter(&mut self, sent: &mut SentPiece) -> Result<()> {
        let (prepared, on_device) = (self.prepared, self.on_device);
        let (probes, builds) = (on_device.sides.probes(), on_device.sides.builds());
        let row_end = prepared.tile.probes.end - probes.sets.first;
        let tile = &prepared.tile.builds;
        let columns = tile.start - builds.sets.first..tile.end - builds.sets.first;
        let capacity = self.survivors.len() as u32;
        let Channel { stream, state, .. } = &mut self.channel;
        // SAFETY: the arguments match the kernel, and the buffers have the lengths that it needs.
        unsafe {
            stream
                .launch_builder(&on_device.filter)
                .arg(&probes.signatures)
                .arg(&probes.probe_rooms)
                .arg(&builds.signatures)
                .arg(&builds.build_rooms)
                .arg(&builds.rough_rooms)
                .arg(&sent.items)
                .arg(&mut sent.progress)
                .arg(&prepared.order)
                .arg(&row_end)
                .arg(&columns.start)
                .arg(&columns.end)
                .arg(&mut self.survivors)
                .arg(&capacity)
                .arg(state)
                .launch(LaunchConfig {
                    grid_dim: (sent.items.len() as u32, 1, 1),
                    block_dim: (prepared.shape.threads, 1, 1),
                    shared_mem_bytes: prepared.shared_bytes,
                })
                .map_err(failed("comparing signatures"))?;
        }
        Ok(())
    }

    fn verify(&mut self, only_counts: bool) -> Result<()> {
        let PreparedBitmap { predicate, order, exact, .. } = self.prepared;
        let on_device = self.on_device;
        let (probes, builds) = (on_device.sides.probes(), on_device.sides.builds());
        let Channel { stream, state, answers, .. } = &mut self.channel;
        let answers = answers.argument(stream, only_counts);
        // SAFETY: as above.
        unsafe {
            stream
                .launch_builder(&on_device.verify)
                .arg(&probes.sets.argument(stream))
                .arg(&builds.sets.argument(stream))
                .arg(&probes.signatures)
                .arg(&probes.probe_rooms)
                .arg(&builds.signatures)
                .arg(&builds.build_rooms)
                .arg(&self.survivors)
                .arg(&mut self.deferred)
                .arg(predicate)
                .arg(order)
                .arg(exact)
                .arg(&answers)
                .arg(&mut *state)
                .launch(verify_grid(&on_device.device))
                .map_err(failed("verifying"))?;
            if self.prepared.long {
                stream
                    .launch_builder(&on_device.verify_deferred)
                    .arg(&probes.sets.argument(stream))
                    .arg(&builds.sets.argument(stream))
                    .arg(&self.survivors)
                    .arg(&self.deferred)
                    .arg(predicate)
                    .arg(&answers)
                    .arg(state)
                    .launch(verify_grid(&on_device.device))
                    .map_err(failed("verifying"))?;
            }
        }
        Ok(())
    }

    fn done(&mut self, state: &State) {
        self.verified += u64::from(state.survivors());
    }
}

impl Worker<Sets> for BitmapWorker<'_> {
    fn run(&mut self, piece: usize, sink: &mut dyn Sink<SetPair>) -> Result<ControlFlow<()>> {
        let at = failed("comparing signatures");
        let items = &self.prepared.items[self.prepared.pieces[piece].clone()];
        let Shape { threads, rows, columns, .. } = self.prepared.shape;
        let ranges: u64 = items.iter().map(|item| u64::from(item.to - item.from)).sum();
        self.channel.log.times.compared += ranges * u64::from(rows * columns);
        let stream = &self.channel.stream;
        let warps = items.len() * (threads / 32) as usize;
        let sent = SentPiece {
            items: stream.clone_htod(items).map_err(&at)?,
            progress: stream.alloc_zeros(warps).map_err(&at)?,
        };
        self.filter_and_verify(sent, sink)
    }

    fn candidates(&self) -> u64 {
        self.verified
    }

    fn times(&self) -> DeviceTimes {
        self.channel.log.times
    }

    fn events(&mut self) -> Vec<DeviceEvent> {
        self.channel.log.take_events()
    }
}
