//! How do sets come to a device, and answers back?

use crate::device::{Device, failed};
use cudarc::driver::{
    CudaEvent, CudaSlice, CudaStream, DevicePtr, DeviceRepr, ValidAsZeroBits, sys,
};
use simjoin_core::{Bounds, Measure, PairSink, Result, SetCollection, SetId, SetPair};
use simjoin_plan::{Join, Order, Tile, Trace};
use std::ops::{ControlFlow, Range};
use std::sync::Arc;
use std::time::Instant;

/// What every kernel source begins with.
macro_rules! source {
    ($file:literal) => {
        concat!(
            include_str!("kernels/accept.cuh"),
            include_str!("kernels/sets.cuh"),
            include_str!($file)
        )
    };
}
pub(crate) use source;

/// The predicate as the device reads it.
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

/// The order of a join as the device reads it.
pub(crate) fn order(join: &Join<'_>, tile: &Tile) -> u32 {
    match join.order {
        Order::Before if apart(tile) => 3,
        Order::Before => 0,
        Order::NotLarger => 1,
        Order::Smaller => 2,
    }
}

/// Whether every build set comes before every probe.
fn apart(tile: &Tile) -> bool {
    tile.builds.end <= tile.probes.start
}

/// A range of sets on a device. There they are numbered from 0.
pub(crate) struct DeviceSets {
    /// The number of the first.
    pub(crate) first: SetId,
    offsets: CudaSlice<u64>,
    tokens: CudaSlice<u32>,
    weights: Option<CudaSlice<u32>>,
    base: u64,
}

/// Sets as a kernel takes them.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct SetsArgument {
    offsets: sys::CUdeviceptr,
    tokens: sys::CUdeviceptr,
    weights: sys::CUdeviceptr,
    base: u64,
}

// SAFETY: numbers and addresses, laid out as in the kernels.
unsafe impl DeviceRepr for SetsArgument {}

impl DeviceSets {
    /// Bytes on the device.
    pub(crate) fn bytes(sets: &SetCollection, range: &Range<SetId>) -> u64 {
        let offsets = sets.offsets();
        let tokens = offsets[range.end as usize] - offsets[range.start as usize];
        4 * tokens as u64 + 12 * (range.len() as u64 + 1)
    }

    /// Sends sets; complete when the stream has been waited for.
    pub(crate) fn new(
        stream: &Arc<CudaStream>,
        sets: &SetCollection,
        range: &Range<SetId>,
    ) -> Result<Self> {
        let at = failed("sending sets to the device");
        let offsets = &sets.offsets()[range.start as usize..=range.end as usize];
        let tokens = &sets.tokens()[offsets[0]..offsets[offsets.len() - 1]];
        let base = offsets[0] as u64;
        let wide: Vec<u64> = offsets.iter().map(|&offset| offset as u64).collect();
        let weights = if sets.has_repeats() {
            let weights: Vec<u32> = range.clone().map(|set| sets.weight(set)).collect();
            Some(stream.clone_htod(&weights).map_err(&at)?)
        } else {
            None
        };
        Ok(DeviceSets {
            first: range.start,
            offsets: stream.clone_htod(&wide).map_err(&at)?,
            tokens: stream.clone_htod(tokens).map_err(&at)?,
            weights,
            base,
        })
    }

    pub(crate) fn argument(&self, stream: &CudaStream) -> SetsArgument {
        let weights = self.weights.as_ref();
        SetsArgument {
            offsets: self.offsets.device_ptr(stream).0,
            tokens: self.tokens.device_ptr(stream).0,
            weights: weights.map_or(0, |weights| weights.device_ptr(stream).0),
            base: self.base,
        }
    }
}

/// The ranges of sets that a tile needs: one that holds probes and build sets of a self-join, or two
/// where these are apart.
pub(crate) fn sides<'a>(
    join: &Join<'a>,
    tile: &Tile,
) -> impl Iterator<Item = (&'a SetCollection, Range<SetId>)> + use<'a> {
    let Tile { probes, builds } = tile.clone();
    let sides = if join.order == Order::Before && !apart(tile) {
        [Some((join.probe, probes.start.min(builds.start)..probes.end.max(builds.end))), None]
    } else {
        [Some((join.probe, probes)), Some((join.build, builds))]
    };
    sides.into_iter().flatten()
}

/// What a worker and its kernels tell each other.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct State {
    reserved: u32,
    refused: u32,
    answered: u32,
    unused: u32,
    rows: u64,
    pub(crate) walked: u64,
}

// SAFETY: numbers, laid out as in the kernels.
unsafe impl DeviceRepr for State {}
// SAFETY: zeros are numbers.
unsafe impl ValidAsZeroBits for State {}

impl State {
    pub(crate) const BEGIN: State =
        State { reserved: 0, refused: u32::MAX, answered: 0, unused: 0, rows: 0, walked: 0 };

    pub(crate) fn answered(&self) -> usize {
        self.answered as usize
    }

    pub(crate) fn rows(&self) -> u64 {
        self.rows
    }

    /// How many survivors have found room.
    pub(crate) fn survivors(&self) -> u32 {
        self.reserved.min(self.refused)
    }

    /// Whether all have.
    pub(crate) fn complete(&self) -> bool {
        self.refused == u32::MAX
    }
}

/// An answer as the device writes it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Answer {
    probe: u32,
    build: u32,
    overlap: u32,
}

// SAFETY: three numbers, laid out as in the kernels.
unsafe impl DeviceRepr for Answer {}
// SAFETY: zeros are numbers.
unsafe impl ValidAsZeroBits for Answer {}

impl Answer {
    /// As a pair of sets, of which these are the first on the device.
    pub(crate) fn pair(&self, probe: SetId, build: SetId) -> SetPair {
        SetPair { probe: probe + self.probe, build: build + self.build, overlap: self.overlap }
    }
}

/// A worker's way to its device: a stream, buffers for answers, and what it took.
pub(crate) struct Channel {
    pub(crate) stream: Arc<CudaStream>,
    pub(crate) answers: CudaSlice<Answer>,
    pub(crate) state: CudaSlice<State>,
    pub(crate) trace: Trace,
    found: Vec<Answer>,
    pairs: Vec<SetPair>,
    clock: [CudaEvent; 2],
}

/// What the time of a piece of work is added to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Work {
    Filter,
    Verify,
}

impl Channel {
    /// Bytes on the device for each answer that there is room for.
    pub(crate) const ANSWER_BYTES: u64 = size_of::<Answer>() as u64;
    /// The same on the host.
    pub(crate) const HOST_BYTES: u64 = (size_of::<Answer>() + size_of::<SetPair>()) as u64;

    pub(crate) fn new(device: &Device, capacity: usize) -> Result<Self> {
        let at = failed("making the buffers of a worker");
        let stream = device.context.new_stream().map_err(&at)?;
        // SAFETY: nothing is read before it was written.
        let answers = unsafe { stream.alloc(capacity) }.map_err(&at)?;
        let state = stream.clone_htod(&[State::BEGIN]).map_err(&at)?;
        let event = || {
            let flags = sys::CUevent_flags::CU_EVENT_DEFAULT;
            device.context.new_event(Some(flags)).map_err(failed("making an event"))
        };
        let clock = [event()?, event()?];
        let (found, pairs) = (Vec::new(), Vec::new());
        Ok(Channel { stream, answers, state, trace: Trace::default(), found, pairs, clock })
    }

    pub(crate) fn reset(&mut self) -> Result<()> {
        let at = failed("starting a kernel");
        self.stream.memcpy_htod(&[State::BEGIN], &mut self.state).map_err(at)
    }

    /// Where answers go: nowhere if only their number is wanted.
    pub(crate) fn answers_argument(&self, sink: &dyn PairSink) -> sys::CUdeviceptr {
        if sink.only_counts() { 0 } else { self.answers.device_ptr(&self.stream).0 }
    }

    /// Gives work to the device, waits for it and for the state that it leaves.
    pub(crate) fn timed(
        &mut self,
        what: Work,
        launch: impl FnOnce(&mut Self) -> Result<()>,
    ) -> Result<State> {
        let at = failed("waiting for the device");
        self.clock[0].record(&self.stream).map_err(&at)?;
        launch(self)?;
        self.clock[1].record(&self.stream).map_err(&at)?;
        let mut state = [State::BEGIN];
        let waiting = Instant::now();
        self.stream.memcpy_dtoh(&self.state, &mut state).map_err(&at)?;
        self.stream.synchronize().map_err(&at)?;
        self.trace.waited += waiting.elapsed().as_secs_f64();
        let seconds = self.clock[0].elapsed_ms(&self.clock[1]).map_err(&at)? as f64 / 1e3;
        match what {
            Work::Filter => self.trace.filter += seconds,
            Work::Verify => self.trace.verify += seconds,
        }
        Ok(state[0])
    }

    /// Hands on what the verified survivors have come to.
    pub(crate) fn hand_on(
        &mut self,
        state: &State,
        firsts: (SetId, SetId),
        sink: &mut dyn PairSink,
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
        self.found.resize(answered, Answer::default());
        let from = self.answers.slice(..answered);
        self.stream.memcpy_dtoh(&from, self.found.as_mut_slice()).map_err(&at)?;
        self.stream.synchronize().map_err(&at)?;
        let seconds = waiting.elapsed().as_secs_f64();
        self.trace.copies += seconds;
        self.trace.waited += seconds;
        let begin = Instant::now();
        self.pairs.clear();
        self.pairs.extend(self.found.iter().map(|answer| answer.pair(firsts.0, firsts.1)));
        let flow = sink.push(&self.pairs);
        self.trace.host += begin.elapsed().as_secs_f64();
        Ok(flow)
    }
}
