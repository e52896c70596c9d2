//! How are sets sent to a device, and answers fetched from it?

use crate::device::{Device, failed};
use crate::send::{LARGE, Sender};
use cudarc::driver::{
    CudaEvent, CudaSlice, CudaStream, DevicePtr, DeviceRepr, LaunchConfig, PushKernelArg,
    ValidAsZeroBits, sys,
};
use simjoin_core::{
    Bounds, Measure, Result, SetCollection, SetId, SetPair, Sink, SizeClass, TokenId,
};
use simjoin_engine::{Budget, DeviceEvent, DeviceTimes, DeviceUnit, Order, SetTask, Survey, Tile};
use std::ops::{ControlFlow, Range};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Includes a kernel source.
macro_rules! kernel {
    ($file:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/kernels/", $file))
    };
}
pub(crate) use kernel;

/// Concatenates kernel sources after the headers that all of them need.
macro_rules! source {
    ($($file:literal),+) => {
        concat!(
            $crate::sets::kernel!("accept.cuh"),
            $crate::sets::kernel!("sets.cuh"),
            $($crate::sets::kernel!($file)),+
        )
    };
}
pub(crate) use source;

/// The predicate in the layout of the kernels.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Predicate {
    p: u64,
    q: u64,
    measure: u32,
    slope: f32,
}

// SAFETY: numbers, laid out as in the kernels.
unsafe impl DeviceRepr for Predicate {}

impl Predicate {
    pub(crate) fn new(bounds: &Bounds) -> Self {
        let (measure, p, q) = bounds.parts();
        let t = p as f64 / q as f64;
        let (measure, slope) = match measure {
            Measure::Jaccard => (0, t / (1.0 + t)),
            Measure::Cosine => (1, t),
            Measure::Dice => (2, t / 2.0),
            Measure::Overlap => (3, t),
            Measure::Containment => (4, t),
        };
        Predicate { p, q, measure, slope: slope as f32 }
    }
}

/// Returns the order of a join as the number that kernels use.
pub(crate) fn order_number(task: &SetTask<'_>, tile: &Tile) -> u32 {
    match task.order {
        Order::Before if builds_precede_probes(tile) => 3,
        Order::Before => 0,
        Order::NotLarger => 1,
        Order::Smaller => 2,
    }
}

/// Returns whether every build set comes before every probe.
fn builds_precede_probes(tile: &Tile) -> bool {
    tile.builds.end <= tile.probes.start
}

/// The kernel that computes the layout of sets from their size classes.
pub(crate) static SOURCE: &str = source!("sets.cu");

/// A range of sets on a device, where they are numbered from 0.
pub(crate) struct DeviceSets {
    /// The number of the first set in its collection.
    pub(crate) first: SetId,
    offsets: CudaSlice<u64>,
    /// The tokens of all sets. If any set is repeated, the weights of all sets follow.
    tokens: CudaSlice<u32>,
    /// The position of the weights in `tokens`.
    weights: Option<usize>,
    /// The size class of each set.
    pub(crate) classes: CudaSlice<u32>,
}

/// Sets as an argument of a kernel.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct SetsArgument {
    offsets: sys::CUdeviceptr,
    tokens: sys::CUdeviceptr,
    weights: sys::CUdeviceptr,
}

// SAFETY: addresses, laid out as in the kernels.
unsafe impl DeviceRepr for SetsArgument {}

/// A size class in the layout of the kernel.
#[repr(C)]
#[derive(Clone, Copy)]
struct DeviceClass {
    /// The position of its first set, in tokens.
    offset: u64,
    start: u32,
    size: u32,
}

// SAFETY: numbers, laid out as in the kernel.
unsafe impl DeviceRepr for DeviceClass {}

impl DeviceSets {
    /// The bytes on the host for each set while sets are sent.
    pub(crate) const SEND_BYTES: u64 = 4;

    /// Returns the bytes on the device.
    pub(crate) fn bytes(sets: &SetCollection, range: &Range<SetId>) -> u64 {
        let offsets = sets.offsets();
        let tokens = offsets[range.end as usize] - offsets[range.start as usize];
        let classes = Self::classes_of(sets, range).len() * size_of::<DeviceClass>();
        4 * tokens as u64 + 16 * (range.len() as u64 + 1) + classes as u64
    }

    /// Returns the size classes of a range of sets.
    fn classes_of(sets: &SetCollection, range: &Range<SetId>) -> Range<usize> {
        if range.is_empty() {
            return 0..0;
        }
        sets.class_of(range.start) as usize..sets.class_of(range.end - 1) as usize + 1
    }

    /// Sends sets. The copy is complete once the stream has been waited for.
    pub(crate) fn new(sender: &Sender, sets: &SetCollection, range: &Range<SetId>) -> Result<Self> {
        let at = failed("sending sets to the device");
        let offsets = &sets.offsets()[range.start as usize..=range.end as usize];
        let tokens = &sets.tokens()[offsets[0]..offsets[offsets.len() - 1]];
        let weights = if sets.has_repeats() { range.len() } else { 0 };
        let stream = &sender.stream;
        let count = range.len() as u32;
        let numbers = Self::classes_of(sets, range);
        let class = |class: &SizeClass| {
            let start = class.start.max(range.start) - range.start;
            let offset = (offsets[start as usize] - offsets[0]) as u64;
            DeviceClass { offset, start, size: class.size }
        };
        let mut classes: Vec<DeviceClass> =
            sets.classes()[numbers.clone()].iter().map(class).collect();
        if classes.is_empty() {
            classes.push(DeviceClass { offset: 0, start: 0, size: 0 });
        }
        let class_count = classes.len() as u32;
        let first_class = numbers.start as u32;
        let classes = stream.clone_htod(&classes).map_err(&at)?;
        // SAFETY: the kernel writes every element.
        let (mut offsets, mut class_of) = unsafe {
            (
                stream.alloc::<u64>(range.len() + 1).map_err(&at)?,
                stream.alloc::<u32>(range.len().max(1)).map_err(&at)?,
            )
        };
        let expand = sender.device.function(SOURCE, &[], "expand_classes")?;
        // SAFETY: the arguments match the kernel, and the buffers have the lengths that it needs.
        unsafe {
            stream
                .launch_builder(&expand)
                .arg(&classes)
                .arg(&class_count)
                .arg(&first_class)
                .arg(&count)
                .arg(&mut offsets)
                .arg(&mut class_of)
                .launch(LaunchConfig {
                    grid_dim: (count / 256 + 1, 1, 1),
                    block_dim: (256, 1, 1),
                    shared_mem_bytes: 0,
                })
                .map_err(&at)?;
        }
        Ok(DeviceSets {
            first: range.start,
            offsets,
            tokens: sender.send_followed(tokens, weights, |start, out: &mut [u32]| {
                for (set, weight) in (range.start + start as SetId..).zip(out) {
                    *weight = sets.weight(set);
                }
            })?,
            weights: (weights > 0).then_some(tokens.len()),
            classes: class_of,
        })
    }

    pub(crate) fn argument(&self, stream: &CudaStream) -> SetsArgument {
        let tokens = self.tokens.device_ptr(stream).0;
        SetsArgument {
            offsets: self.offsets.device_ptr(stream).0,
            tokens,
            weights: self.weights.map_or(0, |begin| tokens + (size_of::<u32>() * begin) as u64),
        }
    }
}

/// Returns the ranges of sets that a tile needs: one range that holds the probes and build sets of a
/// self-join, or two if these are apart.
pub(crate) fn tile_sides<'a>(
    task: &SetTask<'a>,
    tile: &Tile,
) -> impl Iterator<Item = (&'a SetCollection, Range<SetId>)> + use<'a> {
    let Tile { probes, builds } = tile.clone();
    let sides = if task.order == Order::Before && !builds_precede_probes(tile) {
        [Some((task.probe, probes.start.min(builds.start)..probes.end.max(builds.end))), None]
    } else {
        [Some((task.probe, probes)), Some((task.build, builds))]
    };
    sides.into_iter().flatten()
}

/// The state that a worker and its kernels share.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct State {
    reserved: u32,
    refused: u32,
    answered: u32,
    taken: u32,
    rows: u64,
    pub(crate) walked: u64,
    deferred: u32,
    deferred_taken: u32,
}

// SAFETY: numbers, laid out as in the kernels.
unsafe impl DeviceRepr for State {}
// SAFETY: zeros are numbers.
unsafe impl ValidAsZeroBits for State {}

impl State {
    const BEGIN: State = State {
        reserved: 0,
        refused: u32::MAX,
        answered: 0,
        taken: 0,
        rows: 0,
        walked: 0,
        deferred: 0,
        deferred_taken: 0,
    };

    /// Returns the number of survivors.
    pub(crate) fn survivors(&self) -> u32 {
        self.reserved.min(self.refused)
    }
}

/// An answer in the layout of the kernels.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Answer {
    probe: u32,
    build: u32,
    overlap: u32,
}

// SAFETY: three numbers, laid out as in the kernels.
unsafe impl DeviceRepr for Answer {}

impl Answer {
    /// Returns the pair. `firsts` are the first probe and the first build set on the device.
    pub(crate) fn pair(&self, firsts: (SetId, SetId)) -> SetPair {
        let (probe, build) = (firsts.0 + self.probe, firsts.1 + self.build);
        SetPair { probe, build, overlap: self.overlap }
    }
}

/// The answers of a worker: their buffers on the device and on the host.
pub(crate) struct Answers {
    on_device: CudaSlice<Answer>,
    found: Vec<Answer>,
    pairs: Vec<SetPair>,
}

impl Answers {
    /// The bytes on the device for each answer of the capacity.
    pub(crate) const DEVICE_BYTES: u64 = size_of::<Answer>() as u64;
    /// The bytes on the host for each answer.
    pub(crate) const HOST_BYTES: u64 = (size_of::<Answer>() + size_of::<SetPair>()) as u64;

    pub(crate) fn new(stream: &Arc<CudaStream>, capacity: usize) -> Result<Self> {
        let at = failed("allocating the buffers of a worker");
        // SAFETY: nothing is read before it is written.
        let on_device = unsafe { stream.alloc(capacity) }.map_err(at)?;
        Ok(Answers { on_device, found: Vec::new(), pairs: Vec::new() })
    }

    /// Returns the address that kernels write answers to; 0 if answers are only counted.
    pub(crate) fn argument(&self, stream: &CudaStream, only_counts: bool) -> sys::CUdeviceptr {
        if only_counts { 0 } else { self.on_device.device_ptr(stream).0 }
    }

    /// Fetches the answers that `state`, as it came from the device, reports, and hands them on. `firsts` are
    /// the first probe and the first build set on the device.
    pub(crate) fn hand_on(
        &mut self,
        stream: &Arc<CudaStream>,
        state: &State,
        firsts: (SetId, SetId),
        sink: &mut dyn Sink<SetPair>,
        log: &mut Log,
    ) -> Result<ControlFlow<()>> {
        if sink.only_counts() {
            sink.count(state.rows);
            return Ok(ControlFlow::Continue(()));
        }
        let answered = state.answered as usize;
        if answered == 0 {
            return Ok(ControlFlow::Continue(()));
        }
        let at = failed("fetching answers");
        let waiting = Instant::now();
        self.found.clear();
        self.found.reserve_exact(answered);
        self.found.resize(answered, Answer::default());
        let from = self.on_device.slice(..answered);
        stream.memcpy_dtoh(&from, self.found.as_mut_slice()).map_err(&at)?;
        stream.synchronize().map_err(&at)?;
        let seconds = waiting.elapsed().as_secs_f64();
        log.times.copies += seconds;
        log.times.waited += seconds;
        log.record(DeviceUnit::Copies, "fetch answers", Instant::now(), seconds);
        self.pairs.clear();
        self.pairs.reserve_exact(answered);
        self.pairs.extend(self.found.iter().map(|answer| answer.pair(firsts)));
        Ok(sink.push(&self.pairs))
    }
}

/// A record of a device's work.
#[derive(Debug, Default)]
pub(crate) struct Log {
    pub(crate) times: DeviceTimes,
    /// The events, if they are recorded.
    events: Option<Vec<DeviceEvent>>,
}

impl Log {
    /// The largest number of recorded events.
    const MAX_EVENTS: usize = 100_000;

    pub(crate) fn new(budget: &Budget) -> Self {
        Log { times: DeviceTimes::default(), events: budget.events.then(Vec::new) }
    }

    /// Records an event that took `seconds` and ended at `end`.
    pub(crate) fn record(
        &mut self,
        by: DeviceUnit,
        what: &'static str,
        end: Instant,
        seconds: f64,
    ) {
        let Some(events) = self.events.as_mut().filter(|events| events.len() < Self::MAX_EVENTS)
        else {
            return;
        };
        let seconds = Duration::try_from_secs_f64(seconds).unwrap_or_default();
        events.push(DeviceEvent { by, what, begin: end.checked_sub(seconds).unwrap_or(end), end });
    }

    pub(crate) fn take_events(&mut self) -> Vec<DeviceEvent> {
        self.events.as_mut().map(std::mem::take).unwrap_or_default()
    }
}

/// Returns the seconds that the host needs to start: for each size of sets, and for the sending threads if
/// there are many tokens.
pub(crate) fn host_seconds(survey: &Survey<'_>) -> f64 {
    let sizes = survey.reaches.len() as f64 * 0.4e-6;
    let many = survey.tokens * size_of::<TokenId>() as u64 >= LARGE as u64;
    if many { sizes + 0.18e-3 } else { sizes }
}

/// The time to poll a device before sleeping, and the time to sleep between polls after that.
const POLL_TIME: Duration = Duration::from_micros(50);
const SLEEP_TIME: Duration = Duration::from_micros(20);

/// Waits for an event without keeping a core busy for long.
pub(crate) fn sleep_until(event: &CudaEvent) -> Result<()> {
    let at = failed("waiting for the device");
    let begin = Instant::now();
    while !event.try_is_complete().map_err(&at)? {
        if begin.elapsed() > POLL_TIME {
            std::thread::sleep(SLEEP_TIME);
        }
    }
    Ok(())
}

/// The connection of a worker to its device: a stream, buffers for answers, and a record of the work.
pub(crate) struct Channel {
    pub(crate) stream: Arc<CudaStream>,
    pub(crate) answers: Answers,
    pub(crate) state: CudaSlice<State>,
    pub(crate) log: Log,
    /// The start of the filter, its end, and the end of verification.
    clock: [CudaEvent; 3],
    patient: bool,
    device: Arc<Device>,
}

impl Channel {
    /// Opens a channel to a device, for work that follows all work given to the stream `after` so far.
    pub(crate) fn new(
        device: &Arc<Device>,
        after: &CudaStream,
        capacity: usize,
        budget: &Budget,
    ) -> Result<Self> {
        let at = failed("allocating the buffers of a worker");
        let stream = device.stream()?;
        let answers = Answers::new(&stream, capacity)?;
        // SAFETY: it is written before any other use.
        let state = unsafe { stream.alloc(1) }.map_err(&at)?;
        stream.join(after).map_err(&at)?;
        let clock = [timer(device)?, timer(device)?, timer(device)?];
        let (log, patient) = (Log::new(budget), budget.patient);
        Ok(Channel { stream, answers, state, log, clock, patient, device: device.clone() })
    }

    fn begin(&mut self) -> Result<()> {
        let at = failed("starting a kernel");
        self.stream.memcpy_htod(&[State::BEGIN], &mut self.state).map_err(&at)?;
        self.clock[0].record(&self.stream).map_err(at)
    }

    fn filtered(&mut self) -> Result<()> {
        self.clock[1].record(&self.stream).map_err(failed("starting a kernel"))
    }

    /// Waits for the work given to the device, and returns the state that it leaves.
    fn wait(&mut self) -> Result<State> {
        let at = failed("waiting for the device");
        self.clock[2].record(&self.stream).map_err(&at)?;
        let mut state = [State::BEGIN];
        let waiting = Instant::now();
        if self.patient {
            sleep_until(&self.clock[2])?;
        }
        self.stream.memcpy_dtoh(&self.state, &mut state).map_err(&at)?;
        self.stream.synchronize().map_err(&at)?;
        let end = Instant::now();
        self.log.times.waited += (end - waiting).as_secs_f64();
        let [began, filtered, verified] = &self.clock;
        let seconds = |from: &CudaEvent, to: &CudaEvent| -> Result<f64> {
            Ok(f64::from(from.elapsed_ms(to).map_err(&at)?) / 1e3)
        };
        let (filter, verify) = (seconds(began, filtered)?, seconds(filtered, verified)?);
        self.log.times.filter += filter;
        self.log.times.verify += verify;
        let between = Duration::try_from_secs_f64(verify).unwrap_or_default();
        let filter_end = end.checked_sub(between).unwrap_or(end);
        self.log.record(DeviceUnit::Stream, "filter", filter_end, filter);
        self.log.record(DeviceUnit::Stream, "verify", end, verify);
        Ok(state[0])
    }

    /// Hands on the answers of the verified survivors.
    pub(crate) fn hand_on(
        &mut self,
        state: &State,
        firsts: (SetId, SetId),
        sink: &mut dyn Sink<SetPair>,
    ) -> Result<ControlFlow<()>> {
        let begin = Instant::now();
        let waited = self.log.times.waited;
        let flow = self.answers.hand_on(&self.stream, state, firsts, sink, &mut self.log)?;
        let waited = self.log.times.waited - waited;
        self.log.times.host += begin.elapsed().as_secs_f64() - waited;
        Ok(flow)
    }
}

impl Drop for Channel {
    /// Waits for the device: after a failure it may still use memory that is freed next, here and in the
    /// worker.
    fn drop(&mut self) {
        self.device.drain(&self.stream);
    }
}

/// Returns an event that records its time.
pub(crate) fn timer(device: &Device) -> Result<CudaEvent> {
    let flags = sys::CUevent_flags::CU_EVENT_DEFAULT;
    device.context.new_event(Some(flags)).map_err(failed("creating an event"))
}

/// A filter whose survivors go into a buffer, followed by their verification. The host launches both at once,
/// since the device knows the number of survivors.
pub(crate) trait Stages {
    /// The work of a piece and its progress.
    type Piece;

    fn channel(&mut self) -> &mut Channel;

    /// Returns the first probe and the first build set on the device.
    fn firsts(&self) -> (SetId, SetId);

    /// Launches the filter, which continues until the piece is complete or the buffer is full.
    fn filter(&mut self, piece: &mut Self::Piece) -> Result<()>;

    /// Launches the verification of the survivors.
    fn verify(&mut self, only_counts: bool) -> Result<()>;

    /// Takes note of the counts of one filter run and its verification.
    fn done(&mut self, state: &State);

    /// Alternates filter and verification until the piece is complete.
    fn filter_and_verify(
        &mut self,
        mut piece: Self::Piece,
        sink: &mut dyn Sink<SetPair>,
    ) -> Result<ControlFlow<()>> {
        loop {
            self.channel().begin()?;
            self.filter(&mut piece)?;
            self.channel().filtered()?;
            self.verify(sink.only_counts())?;
            let state = self.channel().wait()?;
            self.done(&state);
            let firsts = self.firsts();
            if self.channel().hand_on(&state, firsts, sink)?.is_break() || sink.stopped() {
                return Ok(ControlFlow::Break(()));
            }
            if state.refused == u32::MAX {
                return Ok(ControlFlow::Continue(()));
            }
        }
    }
}

/// The number of steps above which a warp does a merge; as in the kernels.
const STEPS: u64 = 256;

/// Returns whether there may be merges of more than [`STEPS`] steps.
pub(crate) fn has_long_merges(task: &SetTask<'_>, tile: &Tile) -> bool {
    let largest = |sets: &SetCollection, range: &Range<SetId>| {
        if range.is_empty() { 0 } else { u64::from(sets.size(range.end - 1)) }
    };
    largest(task.probe, &tile.probes) + largest(task.build, &tile.builds) > STEPS
}

/// Returns a launch of as many warps as the device runs at once. They verify any number of survivors.
pub(crate) fn verify_grid(device: &Device) -> LaunchConfig {
    LaunchConfig {
        grid_dim: (16 * device.info.multiprocessors, 1, 1),
        // The number of warps that have shared memory for tokens; as in the kernels.
        block_dim: (128, 1, 1),
        shared_mem_bytes: 0,
    }
}

/// The data of each device. Workers are assigned to the devices in turn.
pub(crate) struct Devices<T> {
    all: Vec<T>,
    next: AtomicUsize,
    log: Log,
}

impl<T> Devices<T> {
    /// Creates the data of each device, one after the other; this includes sending sets.
    pub(crate) fn new(
        devices: &[Arc<Device>],
        budget: &Budget,
        mut make: impl FnMut(&Arc<Device>) -> Result<T>,
    ) -> Result<Self> {
        let mut log = Log::new(budget);
        let mut timed = |device: &Arc<Device>| {
            let begin = Instant::now();
            let made = make(device);
            log.record(
                DeviceUnit::Copies,
                "send sets",
                Instant::now(),
                begin.elapsed().as_secs_f64(),
            );
            made
        };
        let all = devices.iter().map(&mut timed).collect::<Result<_>>()?;
        Ok(Devices { all, next: AtomicUsize::new(0), log })
    }

    /// Records an event that began at `begin` and has just ended.
    pub(crate) fn record_since(&mut self, by: DeviceUnit, what: &'static str, begin: Instant) {
        self.log.record(by, what, Instant::now(), begin.elapsed().as_secs_f64());
    }

    /// Returns the recorded events of the preparation, and forgets them.
    pub(crate) fn events(&mut self) -> Vec<DeviceEvent> {
        self.log.take_events()
    }

    /// Returns the data of the device for the next worker.
    pub(crate) fn next_device(&self) -> &T {
        &self.all[self.next.fetch_add(1, Ordering::Relaxed) % self.all.len()]
    }

    pub(crate) fn first(&self) -> &T {
        &self.all[0]
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.all.iter_mut()
    }
}

/// The data of each side of a tile: one entry for a self-join, or one for probes and one for build sets.
pub(crate) struct PerSide<T>(Vec<T>);

impl<T> PerSide<T> {
    pub(crate) fn new(
        task: &SetTask<'_>,
        tile: &Tile,
        mut make: impl FnMut(&SetCollection, &Range<SetId>) -> Result<T>,
    ) -> Result<Self> {
        let make = |(sets, range): (&SetCollection, Range<SetId>)| make(sets, &range);
        Ok(PerSide(tile_sides(task, tile).map(make).collect::<Result<_>>()?))
    }

    pub(crate) fn probes(&self) -> &T {
        &self.0[0]
    }

    pub(crate) fn builds(&self) -> &T {
        &self.0[self.0.len() - 1]
    }
}
