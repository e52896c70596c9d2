//! `gpu-verify`: which candidates of a CPU filter are in the answer?
//!
//! CPU filtering with GPU verification (Bellas and Gounaris), with one filtering thread per core. Each thread
//! has two chunks of bounded size, each with a stream. While it fills one chunk with candidates, the device
//! receives and verifies the other.
//!
//! # Flow
//!
//! ```text
//! all-pairs, ppjoin ─► chunk of candidates ─► copy ─► verify (A, B or C) ─► answers ─► sink
//! or group-join        (pinned, two a thread)         (on the device)       (copied back, handed on)
//!     host                  host             device       device                 host
//! ```
//!
//! The three ways to verify divide a chunk among threads differently. **A**: one thread per probe. **B**: one
//! block per probe, which keeps the probe in shared memory, and one thread per candidate. **C**: one block
//! per probe, whose threads process one candidate after the other and cut the merge along its path. The best
//! way depends on the size of the sets. Of `group-join`'s candidates the device gets those that meet first.
//! The host verifies the other members of their groups, as in the paper.
//!
//! # Exactness
//!
//! Every pair of the answer is a candidate (see the filters). Every candidate is merged until the merge ends
//! or the required overlap is out of reach, and is decided in integers.
//!
//! # Memory
//!
//! On the device the sets, and for each worker two chunks with space for their answers. On the host the
//! memory of the filter, and two chunks for each worker.

use crate::device::{Device, Lease, failed};
use crate::pinned::Pinned;
use crate::send::Sender;
use crate::sets::{
    Answers, DeviceSets, Devices, Log, PerSide, Predicate, State, source, tile_sides, timer,
};
use cudarc::driver::{
    CudaEvent, CudaFunction, CudaSlice, CudaStream, DevicePtr, DeviceRepr, LaunchConfig,
    PushKernelArg, sys,
};
use simjoin_core::{Result, SetCollection, SetId, SetPair, Sink};
use simjoin_engine::{
    Budget, CandidateFilter, CandidateFinder, CandidateSink, CandidateSource, Cost, CostTable,
    DeviceEvent, DeviceTimes, DeviceUnit, Prepared, SetTask, Sets, Survey, Technique, Tile, Worker,
};
use std::ops::{ControlFlow, Range};
use std::sync::Arc;
use std::time::{Duration, Instant};

pub(crate) static SOURCE: &str = source!("candidates.cu");

/// The number of candidates in a chunk if there is enough memory, and the smallest one.
const CHUNK: u64 = 1 << 18;
const MIN_CHUNK: u64 = 1 << 12;

/// The number of candidates for each probe that a chunk has space for.
const PER_PROBE: u64 = 4;

/// The number of chunks of a worker.
const SLOTS: usize = 2;

/// The number of pieces per thread, so that all threads end at about the same time.
const PIECES: usize = 8;

/// A way to verify candidates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// One thread per probe.
    A,
    /// One block per probe, one thread per candidate.
    B,
    /// One block per probe, all its threads for each candidate.
    C,
}

impl Way {
    /// All ways.
    pub const ALL: [Way; 3] = [Way::A, Way::B, Way::C];

    /// Returns the best way for sets of this mean size, on an H200.
    fn for_size(mean: f64) -> Self {
        if mean < 500.0 { Way::B } else { Way::C }
    }

    fn kernel(self) -> &'static str {
        match self {
            Way::A => "thread_per_probe",
            Way::B => "block_per_probe",
            Way::C => "block_per_candidate",
        }
    }

    fn launch(self, probes: u32) -> LaunchConfig {
        let (blocks, threads) = match self {
            Way::A => (probes.div_ceil(32), 32),
            Way::B => (probes, 64),
            Way::C => (probes, 128),
        };
        LaunchConfig { grid_dim: (blocks, 1, 1), block_dim: (threads, 1, 1), shared_mem_bytes: 0 }
    }
}

/// The technique that verifies the candidates of a CPU filter on devices.
pub struct GpuVerify {
    /// The devices that it runs on.
    pub devices: Vec<Arc<Device>>,
    /// The CPU filter that finds the candidates.
    pub filter: &'static dyn CandidateFilter,
    /// The way to verify them.
    pub way: Way,
}

impl GpuVerify {
    fn sets_bytes(task: &SetTask<'_>, tile: &Tile) -> u64 {
        let bytes = |(sets, range): (&SetCollection, Range<SetId>)| DeviceSets::bytes(sets, &range);
        tile_sides(task, tile).map(bytes).sum()
    }

    /// Returns the bytes on the host without chunks and answers: those of the filter, and sets while they are
    /// sent.
    fn host_bytes(&self, task: &SetTask<'_>, tile: &Tile, threads: usize) -> u64 {
        let sets = (tile.probes.len() + tile.builds.len()) as u64;
        self.filter.memory_bytes(task, tile, threads) + DeviceSets::SEND_BYTES * sets
    }

    /// Returns the number of workers that share a device.
    fn workers_per_device(&self, threads: usize) -> u64 {
        threads.div_ceil(self.devices.len()) as u64
    }
}

/// Returns the bytes of a chunk, which are the same on the host and on the device.
fn chunk_bytes(candidates: u64) -> u64 {
    4 * candidates + 8 * (candidates / PER_PROBE + 1)
}

impl Technique<Sets> for GpuVerify {
    fn name(&self) -> &'static str {
        "gpu-verify"
    }

    fn on_device(&self) -> bool {
        true
    }

    fn variant(&self) -> String {
        format!("{} {:?}", self.filter.name(), self.way)
    }

    fn cost(&self, survey: &Survey<'_>, costs: &CostTable) -> Option<Cost> {
        if self.way != Way::for_size(survey.mean_size) {
            return None;
        }
        let filter = self.filter.filter_cost(survey, costs);
        let send = 1e-3 + self.devices.len() as f64 * survey.tokens as f64 * 0.15e-9;
        Some(Cost { serial: filter.serial + send, parallel: filter.parallel })
    }

    fn memory_bytes(&self, task: &SetTask<'_>, tile: &Tile, threads: usize) -> u64 {
        let each = chunk_bytes(MIN_CHUNK) + MIN_CHUNK * Answers::HOST_BYTES;
        self.host_bytes(task, tile, threads) + threads as u64 * SLOTS as u64 * each
    }

    fn device_bytes(&self, task: &SetTask<'_>, tile: &Tile, threads: usize) -> u64 {
        let each = chunk_bytes(MIN_CHUNK) + MIN_CHUNK * Answers::DEVICE_BYTES;
        Self::sets_bytes(task, tile) + self.workers_per_device(threads) * SLOTS as u64 * each
    }

    fn prepare<'a>(
        &self,
        task: &SetTask<'a>,
        tile: &Tile,
        budget: &Budget,
    ) -> Result<Box<dyn Prepared<Sets> + 'a>> {
        let threads = budget.threads.max(1);
        let on_host = budget.bytes.saturating_sub(self.host_bytes(task, tile, threads))
            / (threads * SLOTS) as u64;
        let on_device = budget.device_bytes.saturating_sub(Self::sets_bytes(task, tile))
            / (self.workers_per_device(threads) * SLOTS as u64);
        // The largest number of bytes for a candidate on the host or the device, including its part of a
        // probe and its answer.
        let each = chunk_bytes(PER_PROBE) / PER_PROBE + Answers::HOST_BYTES;
        let chunk = (on_host.min(on_device) / each).clamp(MIN_CHUNK, CHUNK);
        let load = |device: &Arc<Device>| OnDevice::new(device, self.way, task, tile, budget);
        let offsets = task.probe.offsets();
        let Range { start, end } = tile.probes;
        let tokens = offsets[end as usize] - offsets[start as usize];
        // A worker waits for its last chunk at the end of a piece, so pieces are large.
        let piece = (tokens / (threads * PIECES)).max(budget.piece_tokens);
        Ok(Box::new(Offloaded {
            source: self.filter.source(task, tile, piece),
            devices: Devices::new(&self.devices, budget, load)?,
            way: self.way,
            predicate: Predicate::new(&task.predicate),
            chunk: chunk as usize,
            budget: *budget,
        }))
    }
}

/// A device with the sets of the tile.
struct OnDevice {
    device: Arc<Device>,
    verify: CudaFunction,
    sides: PerSide<DeviceSets>,
    /// Dropped last.
    _lease: Lease,
}

impl OnDevice {
    fn new(
        device: &Arc<Device>,
        way: Way,
        task: &SetTask<'_>,
        tile: &Tile,
        budget: &Budget,
    ) -> Result<Self> {
        let lease = Lease::new(device);
        let sender = Sender::new(device, budget)?;
        let sides = PerSide::new(task, tile, |sets, range| DeviceSets::new(&sender, sets, range))?;
        let verify = device.function(SOURCE, &[], way.kernel())?;
        sender.stream.synchronize().map_err(failed("sending sets to the device"))?;
        Ok(OnDevice { device: device.clone(), verify, sides, _lease: lease })
    }
}

impl Drop for OnDevice {
    fn drop(&mut self) {
        self.device.make_current();
    }
}

struct Offloaded<'a> {
    source: Box<dyn CandidateSource + 'a>,
    devices: Devices<OnDevice>,
    way: Way,
    predicate: Predicate,
    chunk: usize,
    budget: Budget,
}

impl Prepared<Sets> for Offloaded<'_> {
    fn pieces(&self) -> usize {
        self.source.pieces()
    }

    fn worker<'a>(&'a self) -> Result<Box<dyn Worker<Sets> + 'a>> {
        let on_device = self.devices.next_device();
        let slot = || ChunkSlot::new(&on_device.device, self.chunk);
        let slots = [slot()?, slot()?];
        Ok(Box::new(OffloadWorker {
            finder: self.source.finder(),
            pipeline: Pipeline {
                offloaded: self,
                on_device,
                slots,
                filling: 0,
                verified: 0,
                log: Log::new(&self.budget),
            },
        }))
    }

    fn events(&mut self) -> Vec<DeviceEvent> {
        self.devices.events()
    }
}

/// A chunk as an argument of the kernels.
#[repr(C)]
#[derive(Clone, Copy)]
struct ChunkArgument {
    probes: sys::CUdeviceptr,
    starts: sys::CUdeviceptr,
    candidates: sys::CUdeviceptr,
    count: u32,
}

// SAFETY: numbers and addresses, laid out as in the kernels.
unsafe impl DeviceRepr for ChunkArgument {}

/// The address of answers and of the state, as an argument of the kernels.
#[repr(C)]
#[derive(Clone, Copy)]
struct OutputArgument {
    answers: sys::CUdeviceptr,
    state: sys::CUdeviceptr,
}

// SAFETY: addresses, laid out as in the kernels.
unsafe impl DeviceRepr for OutputArgument {}

/// A chunk: filled by the host, then owned by the device until its answers are fetched.
struct ChunkSlot {
    candidates: Pinned<u32>,
    probes: Pinned<u32>,
    /// The start of the candidates of each probe, and the end of the last ones.
    starts: Pinned<u32>,
    state: Pinned<State>,
    answers: Answers,
    device_candidates: CudaSlice<u32>,
    device_probes: CudaSlice<u32>,
    device_starts: CudaSlice<u32>,
    device_state: CudaSlice<State>,
    /// A separate stream, so that one chunk is copied while another is verified.
    stream: Arc<CudaStream>,
    /// The start of the copies, their end, and the completion of the answers.
    events: [CudaEvent; 3],
    /// The number of candidates and probes in the chunk.
    filled: usize,
    probe_count: usize,
    /// Whether the device is working on it.
    in_flight: bool,
}

impl ChunkSlot {
    fn new(device: &Arc<Device>, chunk: usize) -> Result<Self> {
        let at = failed("allocating the buffers of a worker");
        let stream = device.stream()?;
        let probes = chunk / PER_PROBE as usize + 1;
        // SAFETY: nothing is read before it is written.
        unsafe {
            Ok(ChunkSlot {
                candidates: Pinned::zeros(device, chunk)?,
                probes: Pinned::zeros(device, probes)?,
                starts: Pinned::zeros(device, probes + 1)?,
                state: Pinned::zeros(device, 1)?,
                answers: Answers::new(&stream, chunk)?,
                device_candidates: stream.alloc(chunk).map_err(&at)?,
                device_probes: stream.alloc(probes).map_err(&at)?,
                device_starts: stream.alloc(probes + 1).map_err(&at)?,
                device_state: stream.alloc(1).map_err(&at)?,
                events: [timer(device)?, timer(device)?, timer(device)?],
                stream,
                filled: 0,
                probe_count: 0,
                in_flight: false,
            })
        }
    }
}

struct OffloadWorker<'a> {
    finder: Box<dyn CandidateFinder + 'a>,
    pipeline: Pipeline<'a>,
}

/// The parts of a worker other than its filter.
struct Pipeline<'a> {
    offloaded: &'a Offloaded<'a>,
    on_device: &'a OnDevice,
    slots: [ChunkSlot; SLOTS],
    /// The index of the chunk that is being filled.
    filling: usize,
    verified: u64,
    log: Log,
}

impl Pipeline<'_> {
    /// Sends the current chunk to the device.
    fn send(&mut self, only_counts: bool) -> Result<()> {
        let at = failed("sending candidates");
        let on_device = self.on_device;
        let slot = &mut self.slots[self.filling];
        let stream = &slot.stream.clone();
        let count = slot.probe_count;
        slot.starts[count] = slot.filled as u32;
        self.verified += slot.filled as u64;
        slot.events[0].record(stream).map_err(&at)?;
        stream.memcpy_htod(&slot.probes[..count], &mut slot.device_probes).map_err(&at)?;
        stream.memcpy_htod(&slot.starts[..=count], &mut slot.device_starts).map_err(&at)?;
        stream
            .memcpy_htod(&slot.candidates[..slot.filled], &mut slot.device_candidates)
            .map_err(&at)?;
        stream.memset_zeros(&mut slot.device_state).map_err(&at)?;
        slot.events[1].record(stream).map_err(&at)?;
        let chunk = ChunkArgument {
            probes: slot.device_probes.device_ptr(stream).0,
            starts: slot.device_starts.device_ptr(stream).0,
            candidates: slot.device_candidates.device_ptr(stream).0,
            count: count as u32,
        };
        let output = OutputArgument {
            answers: slot.answers.argument(stream, only_counts),
            state: slot.device_state.device_ptr(stream).0,
        };
        let probes = on_device.sides.probes().argument(stream);
        let builds = on_device.sides.builds().argument(stream);
        // SAFETY: the arguments match the kernel, and the buffers have the lengths that it needs. They are
        // not touched until the last event.
        unsafe {
            stream
                .launch_builder(&on_device.verify)
                .arg(&chunk)
                .arg(&probes)
                .arg(&builds)
                .arg(&self.offloaded.predicate)
                .arg(&output)
                .launch(self.offloaded.way.launch(count as u32))
                .map_err(failed("verifying"))?;
        }
        stream.memcpy_dtoh(&slot.device_state, &mut slot.state[..]).map_err(&at)?;
        slot.events[2].record(stream).map_err(&at)?;
        slot.in_flight = true;
        Ok(())
    }

    /// Waits for a chunk on the device and hands its answers on.
    fn receive(&mut self, which: usize, sink: &mut dyn Sink<SetPair>) -> Result<ControlFlow<()>> {
        let slot = &mut self.slots[which];
        (slot.filled, slot.probe_count) = (0, 0);
        if !std::mem::take(&mut slot.in_flight) {
            return Ok(ControlFlow::Continue(()));
        }
        let at = failed("waiting for the device");
        let waiting = Instant::now();
        slot.events[2].synchronize().map_err(&at)?;
        let now = Instant::now();
        let log = &mut self.log;
        log.times.waited += (now - waiting).as_secs_f64();
        let [begin, copied, done] = &slot.events;
        let copies = f64::from(begin.elapsed_ms(copied).map_err(&at)?) / 1e3;
        let verify = f64::from(copied.elapsed_ms(done).map_err(&at)?) / 1e3;
        log.times.copies += copies;
        log.times.verify += verify;
        // The exact end on the device is known only if the host waited for it; it was not later than this.
        log.record(DeviceUnit::Stream, "verify", now, verify);
        let ago = Duration::try_from_secs_f64(verify).unwrap_or_default();
        let copied = now.checked_sub(ago).unwrap_or(now);
        log.record(DeviceUnit::Copies, "send candidates", copied, copies);
        let state = slot.state[0];
        let firsts = (self.on_device.sides.probes().first, self.on_device.sides.builds().first);
        slot.answers.hand_on(&slot.stream, &state, firsts, sink, &mut self.log)
    }

    /// Sends the current chunk and switches to the other one.
    fn switch(&mut self, sink: &mut dyn Sink<SetPair>) -> Result<ControlFlow<()>> {
        self.send(sink.only_counts())?;
        self.filling = (self.filling + 1) % SLOTS;
        self.receive(self.filling, sink)
    }
}

/// A sink that writes candidates into the chunks of a worker.
struct ChunkFiller<'w, 'a, 's> {
    pipeline: &'w mut Pipeline<'a>,
    sink: &'s mut dyn Sink<SetPair>,
}

impl CandidateSink for ChunkFiller<'_, '_, '_> {
    fn wants_value(&self) -> bool {
        self.sink.wants_value()
    }

    fn stopped(&self) -> bool {
        self.sink.stopped()
    }

    fn candidates(&mut self, probe: SetId, mut builds: &[SetId]) -> Result<ControlFlow<()>> {
        let on_device = self.pipeline.on_device;
        let first = on_device.sides.builds().first;
        while !builds.is_empty() {
            let slot = &mut self.pipeline.slots[self.pipeline.filling];
            let space = slot.candidates.len() - slot.filled;
            if space == 0 || slot.probe_count == slot.probes.len() {
                if self.pipeline.switch(self.sink)?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
                continue;
            }
            let (now, later) = builds.split_at(space.min(builds.len()));
            slot.probes[slot.probe_count] = probe - on_device.sides.probes().first;
            slot.starts[slot.probe_count] = slot.filled as u32;
            slot.probe_count += 1;
            let to = &mut slot.candidates[slot.filled..slot.filled + now.len()];
            for (to, &build) in to.iter_mut().zip(now) {
                *to = build - first;
            }
            slot.filled += now.len();
            builds = later;
        }
        Ok(ControlFlow::Continue(()))
    }

    fn answers(&mut self, pairs: &[SetPair]) -> Result<ControlFlow<()>> {
        Ok(self.sink.push(pairs))
    }
}

impl Worker<Sets> for OffloadWorker<'_> {
    fn run(&mut self, piece: usize, sink: &mut dyn Sink<SetPair>) -> Result<ControlFlow<()>> {
        let begin = Instant::now();
        let waited = self.pipeline.log.times.waited;
        let mut filler = ChunkFiller { pipeline: &mut self.pipeline, sink };
        let flow = self.finder.find(piece, &mut filler)?;
        let pipeline = &mut self.pipeline;
        let mut flow = flow;
        // Chunks in flight belong to this piece.
        if flow.is_continue() && pipeline.slots[pipeline.filling].filled > 0 {
            flow = pipeline.switch(sink)?;
        }
        for which in (pipeline.filling..).take(SLOTS) {
            if flow.is_continue() {
                flow = pipeline.receive(which % SLOTS, sink)?;
            }
        }
        let waited = pipeline.log.times.waited - waited;
        pipeline.log.times.host += begin.elapsed().as_secs_f64() - waited;
        Ok(flow)
    }

    fn candidates(&self) -> u64 {
        self.pipeline.verified + self.finder.verified()
    }

    fn times(&self) -> DeviceTimes {
        self.pipeline.log.times
    }

    fn events(&mut self) -> Vec<DeviceEvent> {
        self.pipeline.log.take_events()
    }
}

impl Drop for Pipeline<'_> {
    fn drop(&mut self) {
        // Wait until the device has finished with the chunks, since they return to a pool and are used again.
        for slot in &self.slots {
            self.on_device.device.drain(&slot.stream);
        }
    }
}
