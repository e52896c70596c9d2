//! `gpu-verify`: which of a CPU filter's candidates are in the answer?
//!
//! CPU filtering with GPU verification (Bellas and Gounaris), with as many filtering threads as there
//! are cores: each has a stream, and two chunks of bounded size. While it fills one with candidates, the
//! device receives and verifies the other.
//!
//! # Flow
//!
//! ```text
//! all-pairs, ppjoin ─► chunk of candidates ─► copy ─► verify (A, B or C) ─► answers ─► sink
//! or group-join        (pinned, two a thread)         (on the device)       (copied back, handed on)
//!     host                  host             device       device                 host
//! ```
//!
//! The three ways to verify share a chunk among threads differently: **A** a thread for each probe,
//! **B** a block for each probe, which keeps it in shared memory, and a thread for each candidate,
//! **C** a block for each probe, whose threads take one candidate after the other and cut the merge
//! along its path. Which is best follows the
//! size of the sets. Of `group-join`'s candidates the device gets those that meet first; the other
//! members of their groups are verified by the host, as published.
//!
//! # Exactness
//!
//! Every pair of the answer is a candidate (see the filters); every candidate is merged, or given up
//! when it can no longer reach what it needs, and decided in integers.
//!
//! # Memory
//!
//! On the device the sets, and two chunks with room for as many answers for each worker; on the host
//! what the filter needs, and two chunks for each worker.

use crate::device::{Device, Lease, failed};
use crate::pinned::Pinned;
use crate::send::Sender;
use crate::sets::{
    Answers, DeviceSets, Devices, Log, Predicate, Sides, State, sides, source, timer,
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

/// Candidates of a chunk, if there is enough memory; and at least.
const CHUNK: u64 = 1 << 18;
const LEAST_CHUNK: u64 = 1 << 12;

/// A chunk has a probe for each so many candidates at most.
const PER_PROBE: u64 = 4;

/// Chunks of a worker.
const SLOTS: usize = 2;

/// Pieces for each thread, so that all end at about the same time.
const PIECES: usize = 8;

/// How candidates are verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// A thread for each probe.
    A,
    /// A block for each probe, a thread for each candidate.
    B,
    /// A block for each probe, all its threads for each candidate.
    C,
}

impl Way {
    /// All of them.
    pub const ALL: [Way; 3] = [Way::A, Way::B, Way::C];

    /// The best for sets of this mean size, on an H200.
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

/// Candidates from CPU cores, verified on devices.
pub struct GpuVerify {
    /// Where it runs.
    pub devices: Vec<Arc<Device>>,
    /// The technique for CPU cores that finds the candidates.
    pub filter: &'static dyn CandidateFilter,
    /// How they are verified.
    pub way: Way,
}

impl GpuVerify {
    fn sets_bytes(join: &SetTask<'_>, tile: &Tile) -> u64 {
        let bytes = |(sets, range): (&SetCollection, Range<SetId>)| DeviceSets::bytes(sets, &range);
        sides(join, tile).map(bytes).sum()
    }

    /// Bytes on the host beside chunks and answers: the filter's, and sets on their way.
    fn host_bytes(&self, join: &SetTask<'_>, tile: &Tile, threads: usize) -> u64 {
        let sets = (tile.probes.len() + tile.builds.len()) as u64;
        self.filter.memory_bytes(join, tile, threads) + DeviceSets::SENDING * sets
    }

    /// Workers that share a device.
    fn on_one(&self, threads: usize) -> u64 {
        threads.div_ceil(self.devices.len()) as u64
    }
}

/// Bytes of a chunk, on the host and on the device.
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
        Some(Cost { serial: filter.serial + send, shared: filter.shared })
    }

    fn memory_bytes(&self, join: &SetTask<'_>, tile: &Tile, threads: usize) -> u64 {
        let each = chunk_bytes(LEAST_CHUNK) + LEAST_CHUNK * Answers::HOST_BYTES;
        self.host_bytes(join, tile, threads) + threads as u64 * SLOTS as u64 * each
    }

    fn device_bytes(&self, join: &SetTask<'_>, tile: &Tile, threads: usize) -> u64 {
        let each = chunk_bytes(LEAST_CHUNK) + LEAST_CHUNK * Answers::DEVICE_BYTES;
        Self::sets_bytes(join, tile) + self.on_one(threads) * SLOTS as u64 * each
    }

    fn prepare<'a>(
        &self,
        join: &SetTask<'a>,
        tile: &Tile,
        room: &Budget,
    ) -> Result<Box<dyn Prepared<Sets> + 'a>> {
        let threads = room.threads.max(1);
        let on_host = room.bytes.saturating_sub(self.host_bytes(join, tile, threads))
            / (threads * SLOTS) as u64;
        let on_device = room.device_bytes.saturating_sub(Self::sets_bytes(join, tile))
            / (self.on_one(threads) * SLOTS as u64);
        // What a candidate takes at most on either side: with a share of a probe, and answers.
        let each = chunk_bytes(PER_PROBE) / PER_PROBE + Answers::HOST_BYTES;
        let chunk = (on_host.min(on_device) / each).clamp(LEAST_CHUNK, CHUNK);
        let here = |device: &Arc<Device>| Here::new(device, self.way, join, tile, room);
        let offsets = join.probe.offsets();
        let Range { start, end } = tile.probes;
        let tokens = offsets[end as usize] - offsets[start as usize];
        // At the end of a piece a worker waits for its last chunk, so pieces are large.
        let piece = (tokens / (threads * PIECES)).max(room.piece_tokens);
        Ok(Box::new(Offloaded {
            source: self.filter.source(join, tile, piece),
            devices: Devices::new(&self.devices, room, here)?,
            way: self.way,
            predicate: Predicate::new(&join.predicate),
            chunk: chunk as usize,
            room: *room,
        }))
    }
}

/// A device with the sets of the tile.
struct Here {
    device: Arc<Device>,
    verify: CudaFunction,
    sides: Sides<DeviceSets>,
    /// The last to go.
    _lease: Lease,
}

impl Here {
    fn new(
        device: &Arc<Device>,
        way: Way,
        join: &SetTask<'_>,
        tile: &Tile,
        room: &Budget,
    ) -> Result<Self> {
        let lease = Lease::new(device);
        let sender = Sender::new(device, room)?;
        let sides = Sides::new(join, tile, |sets, range| DeviceSets::new(&sender, sets, range))?;
        let verify = device.function(SOURCE, &[], way.kernel())?;
        sender.stream.synchronize().map_err(failed("sending sets to the device"))?;
        Ok(Here { device: device.clone(), verify, sides, _lease: lease })
    }
}

impl Drop for Here {
    fn drop(&mut self) {
        self.device.make_current();
    }
}

struct Offloaded<'a> {
    source: Box<dyn CandidateSource + 'a>,
    devices: Devices<Here>,
    way: Way,
    predicate: Predicate,
    chunk: usize,
    room: Budget,
}

impl Prepared<Sets> for Offloaded<'_> {
    fn pieces(&self) -> usize {
        self.source.pieces()
    }

    fn worker<'a>(&'a self) -> Result<Box<dyn Worker<Sets> + 'a>> {
        let here = self.devices.deal();
        let slot = || Slot::new(&here.device, self.chunk);
        let slots = [slot()?, slot()?];
        Ok(Box::new(OffloadWorker {
            finder: self.source.finder(),
            pipeline: Pipeline {
                offloaded: self,
                here,
                slots,
                filling: 0,
                verified: 0,
                log: Log::new(&self.room),
            },
        }))
    }

    fn events(&mut self) -> Vec<DeviceEvent> {
        self.devices.events()
    }
}

/// A chunk as the kernels take it.
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

/// Where answers go, as the kernels take it.
#[repr(C)]
#[derive(Clone, Copy)]
struct OutputArgument {
    answers: sys::CUdeviceptr,
    state: sys::CUdeviceptr,
}

// SAFETY: addresses, laid out as in the kernels.
unsafe impl DeviceRepr for OutputArgument {}

/// A chunk on its way: filled by the host, then with the device until its answers are taken.
struct Slot {
    candidates: Pinned<u32>,
    probes: Pinned<u32>,
    /// Where the candidates of each probe begin, and where the last ones end.
    starts: Pinned<u32>,
    state: Pinned<State>,
    answers: Answers,
    device_candidates: CudaSlice<u32>,
    device_probes: CudaSlice<u32>,
    device_starts: CudaSlice<u32>,
    device_state: CudaSlice<State>,
    /// Of its own, so that one chunk is copied while another is verified.
    stream: Arc<CudaStream>,
    /// When the copies began, when they ended, and when the answers were complete.
    events: [CudaEvent; 3],
    /// Candidates and probes filled in so far.
    filled: usize,
    probe_count: usize,
    /// Whether the device has it.
    away: bool,
}

impl Slot {
    fn new(device: &Arc<Device>, chunk: usize) -> Result<Self> {
        let at = failed("making the buffers of a worker");
        let stream = device.stream()?;
        let probes = chunk / PER_PROBE as usize + 1;
        // SAFETY: nothing is read before it was written.
        unsafe {
            Ok(Slot {
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
                away: false,
            })
        }
    }
}

struct OffloadWorker<'a> {
    finder: Box<dyn CandidateFinder + 'a>,
    pipeline: Pipeline<'a>,
}

/// All of a worker but its filter.
struct Pipeline<'a> {
    offloaded: &'a Offloaded<'a>,
    here: &'a Here,
    slots: [Slot; SLOTS],
    /// The slot that is being filled.
    filling: usize,
    verified: u64,
    log: Log,
}

impl Pipeline<'_> {
    /// Gives the chunk that is being filled to the device.
    fn send(&mut self, counts: bool) -> Result<()> {
        let at = failed("sending candidates");
        let here = self.here;
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
            answers: slot.answers.argument(stream, counts),
            state: slot.device_state.device_ptr(stream).0,
        };
        let probes = here.sides.probes().argument(stream);
        let builds = here.sides.builds().argument(stream);
        // SAFETY: the arguments are those of the kernel, and the buffers as long as it takes them; they
        // are left alone until the last event.
        unsafe {
            stream
                .launch_builder(&here.verify)
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
        slot.away = true;
        Ok(())
    }

    /// Waits for a chunk that the device has, and hands its answers on.
    fn receive(&mut self, which: usize, sink: &mut dyn Sink<SetPair>) -> Result<ControlFlow<()>> {
        let slot = &mut self.slots[which];
        (slot.filled, slot.probe_count) = (0, 0);
        if !std::mem::take(&mut slot.away) {
            return Ok(ControlFlow::Continue(()));
        }
        let at = failed("waiting for the device");
        let waiting = Instant::now();
        slot.events[2].synchronize().map_err(&at)?;
        let now = Instant::now();
        let log = &mut self.log;
        log.trace.waited += (now - waiting).as_secs_f64();
        let [begin, copied, done] = &slot.events;
        let copies = f64::from(begin.elapsed_ms(copied).map_err(&at)?) / 1e3;
        let verify = f64::from(copied.elapsed_ms(done).map_err(&at)?) / 1e3;
        log.trace.copies += copies;
        log.trace.verify += verify;
        // When the device was done is known only where the host waited for it; it was not later.
        log.span(DeviceUnit::Stream, "verify", now, verify);
        let ago = Duration::try_from_secs_f64(verify).unwrap_or_default();
        let copied = now.checked_sub(ago).unwrap_or(now);
        log.span(DeviceUnit::Copies, "send candidates", copied, copies);
        let state = slot.state[0];
        let firsts = (self.here.sides.probes().first, self.here.sides.builds().first);
        slot.answers.hand_on(&slot.stream, &state, firsts, sink, &mut self.log)
    }

    /// Sends the chunk that is being filled, and turns to the other one.
    fn turn(&mut self, sink: &mut dyn Sink<SetPair>) -> Result<ControlFlow<()>> {
        self.send(sink.only_counts())?;
        self.filling = (self.filling + 1) % SLOTS;
        self.receive(self.filling, sink)
    }
}

/// Takes a probe's candidates into the chunk.
struct Taker<'w, 'a, 's> {
    pipeline: &'w mut Pipeline<'a>,
    sink: &'s mut dyn Sink<SetPair>,
}

impl CandidateSink for Taker<'_, '_, '_> {
    fn wants_value(&self) -> bool {
        self.sink.wants_value()
    }

    fn stopped(&self) -> bool {
        self.sink.stopped()
    }

    fn candidates(&mut self, probe: SetId, mut builds: &[SetId]) -> Result<ControlFlow<()>> {
        let here = self.pipeline.here;
        let first = here.sides.builds().first;
        while !builds.is_empty() {
            let slot = &mut self.pipeline.slots[self.pipeline.filling];
            let room = slot.candidates.len() - slot.filled;
            if room == 0 || slot.probe_count == slot.probes.len() {
                if self.pipeline.turn(self.sink)?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
                continue;
            }
            let (now, later) = builds.split_at(room.min(builds.len()));
            slot.probes[slot.probe_count] = probe - here.sides.probes().first;
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
        let waited = self.pipeline.log.trace.waited;
        let mut taker = Taker { pipeline: &mut self.pipeline, sink };
        let flow = self.finder.find(piece, &mut taker)?;
        let pipeline = &mut self.pipeline;
        let mut flow = flow;
        // What is still on its way belongs to this piece.
        if flow.is_continue() && pipeline.slots[pipeline.filling].filled > 0 {
            flow = pipeline.turn(sink)?;
        }
        for which in (pipeline.filling..).take(SLOTS) {
            if flow.is_continue() {
                flow = pipeline.receive(which % SLOTS, sink)?;
            }
        }
        let waited = pipeline.log.trace.waited - waited;
        pipeline.log.trace.host += begin.elapsed().as_secs_f64() - waited;
        Ok(flow)
    }

    fn candidates(&self) -> u64 {
        self.pipeline.verified + self.finder.verified()
    }

    fn times(&self) -> DeviceTimes {
        self.pipeline.log.trace
    }

    fn events(&mut self) -> Vec<DeviceEvent> {
        self.pipeline.log.take()
    }
}

impl Drop for Pipeline<'_> {
    fn drop(&mut self) {
        // Buffers outlive what the device does with them: chunks go back to a pool, and are lent again.
        for slot in &self.slots {
            self.here.device.drain(&slot.stream);
        }
    }
}
