//! How does a piece of a join run on its device, and how do pairs come back?
//!
//! ```text
//! tiles of the piece ─► compare until all is done or the buffer is full ─► predicate ─► state ─► pairs, in chunks
//!                          ▲                                                              │
//!                          └───────────────── once more where it was full ────────────────┘
//! ```
//!
//! The predicate's kernel reads the number of candidates from the device, so that the host waits once a
//! turn; while one chunk of pairs is handed on, the next is on its way.

use super::load::Loaded;
use super::{GpuVectors, TileKind, Work, fixed_grid};
use crate::device::{Device, failed};
use crate::pinned::Pinned;
use crate::sets::sleep_until;
use cudarc::driver::{
    CudaEvent, CudaFunction, CudaSlice, CudaStream, DevicePtr, DeviceRepr, LaunchConfig,
    PushKernelArg, ValidAsZeroBits, result, sys,
};
use simjoin_core::{Result, Sink, VectorPair};
use simjoin_engine::{Vectors, Worker};
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

/// Pairs of a chunk on its way to the host.
const CHUNK: usize = 256 << 10;

/// Bytes of the host for each worker.
pub(super) const HOST_BYTES: u64 = 2 * (CHUNK * size_of::<VectorPair>()) as u64;

/// What a worker and its kernels tell each other.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct State {
    reserved: u32,
    refused: u32,
    answered: u32,
    unused: u32,
    pub(super) counted: u64,
}

// SAFETY: numbers, laid out as in the kernels.
unsafe impl DeviceRepr for State {}
// SAFETY: zeros are numbers.
unsafe impl ValidAsZeroBits for State {}

pub(super) const BEGIN: State =
    State { reserved: 0, refused: u32::MAX, answered: 0, unused: 0, counted: 0 };

/// A pair as the device writes it.
#[repr(transparent)]
#[derive(Clone, Copy)]
struct Found(VectorPair);

// SAFETY: two numbers of four bytes and one of eight, laid out as in the kernels.
unsafe impl DeviceRepr for Found {}

/// What a worker holds on its device.
struct Buffers<'w> {
    work: Work<'w>,
    state: CudaSlice<State>,
    tiles: CudaSlice<u64>,
    done: CudaSlice<u8>,
    candidates: CudaSlice<u64>,
    values: CudaSlice<u32>,
    answers: CudaSlice<Found>,
    compare: CudaFunction,
    verify: CudaFunction,
    ended: CudaEvent,
    chunks: [Pinned<Found>; 2],
}

/// One stream of work.
pub(super) struct TileWorker<'w> {
    technique: &'w GpuVectors,
    loaded: &'w Loaded,
    /// Made for the first piece.
    buffers: Option<Buffers<'w>>,
    candidates: u64,
}

impl<'w> TileWorker<'w> {
    pub(super) fn new(technique: &'w GpuVectors, loaded: &'w Loaded) -> Self {
        TileWorker { technique, loaded, buffers: None, candidates: 0 }
    }
}

impl Loaded {
    /// The kernels that compare and decide. Compiled when they are first asked for.
    pub(super) fn kernels(&self, work: &Work<'_>) -> Result<(CudaFunction, CudaFunction)> {
        let compare = compare_function(&self.device, self.kind)?;
        let verify = match self.kind {
            TileKind::Tensor { bytes: true, .. } => "answer_whole",
            _ => "verify",
        };
        Ok((compare, work.function(verify)?))
    }
}

/// Returns the kernel that compares tiles of a kind. It is compiled when it is first asked for.
pub(super) fn compare_function(device: &Device, kind: TileKind) -> Result<CudaFunction> {
    let (source, name) = match kind {
        TileKind::Direct => (super::DIRECT, "direct"),
        TileKind::Tensor { .. } => (super::TENSOR, "multiply_tiles"),
    };
    let compare = device.function(source, &kind.defines(), name)?;
    let shared = kind.shared_bytes();
    if shared > 0 {
        let which = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        compare.set_attribute(which, shared as i32).map_err(failed("asking for shared memory"))?;
    }
    Ok(compare)
}

impl<'w> Buffers<'w> {
    fn new(technique: &GpuVectors, loaded: &'w Loaded) -> Result<Self> {
        let at = failed("making the buffers of a worker");
        let device = &loaded.device;
        let stream = device.stream()?;
        let work = Work { device, stream: stream.clone(), wide: loaded.wide };
        let tiles = loaded.most_tiles().max(1) as usize;
        let candidates = technique.candidates();
        let (compare, verify) = loaded.kernels(&work)?;
        let chunk = || Pinned::<Found>::zeros(device, CHUNK);
        // SAFETY: nothing is read before it was written.
        unsafe {
            Ok(Buffers {
                state: stream.alloc(1).map_err(&at)?,
                tiles: stream.alloc(tiles).map_err(&at)?,
                done: stream.alloc(tiles).map_err(&at)?,
                candidates: stream.alloc(candidates).map_err(&at)?,
                values: stream.alloc(candidates).map_err(&at)?,
                answers: stream.alloc(candidates).map_err(&at)?,
                compare,
                verify,
                ended: device.context.new_event(None).map_err(&at)?,
                chunks: [chunk()?, chunk()?],
                work,
            })
        }
    }

    fn wait(&self, patient: bool) -> Result<()> {
        if patient {
            self.ended.record(&self.work.stream).map_err(failed("waiting for the device"))?;
            sleep_until(&self.ended)?;
        }
        self.work.stream.synchronize().map_err(failed("waiting for the device"))
    }

    /// Compares some tiles of the piece that are not done, as long as there is room.
    fn compare(&mut self, loaded: &Loaded, tiles: Range<u32>, only_counts: bool) -> Result<()> {
        let at = failed("comparing vectors");
        let (work, capacity) = (&self.work, self.candidates.len() as u32);
        let (itself, only_counts) = (u32::from(loaded.itself), u32::from(only_counts));
        let stream = &work.stream;
        let count = tiles.len() as u32;
        let first = u64::from(tiles.start);
        let done = self.done.device_ptr(stream).0 + first;
        let tiles = self.tiles.device_ptr(stream).0 + first * size_of::<u64>() as u64;
        let blocks = |each: u32| (work.device.info.multiprocessors * each).min(count);
        let config = |each, shared| LaunchConfig {
            grid_dim: (blocks(each), 1, 1),
            block_dim: (256, 1, 1),
            shared_mem_bytes: shared,
        };
        let [rows, columns] = loaded.points(work);
        let [left, right] = loaded.matrices(work);
        let mut builder = stream.launch_builder(&self.compare);
        match loaded.kind {
            TileKind::Direct => {
                builder
                    .arg(&rows.0)
                    .arg(&rows.1)
                    .arg(&columns.0)
                    .arg(&columns.1)
                    .arg(&loaded.coordinates)
                    .arg(&loaded.limits.near)
                    .arg(&loaded.limits.sure)
                    .arg(&itself)
                    .arg(&only_counts)
                    .arg(&tiles)
                    .arg(&count)
                    .arg(&done)
                    .arg(&mut self.candidates)
                    .arg(&capacity)
                    .arg(&mut self.state);
                // SAFETY: the arguments are those of the kernel, and the buffers as long as it takes them.
                unsafe { builder.launch(config(8, 0)) }.map_err(&at)?;
            }
            TileKind::Tensor { .. } => {
                builder
                    .arg(&left)
                    .arg(&right)
                    .arg(&loaded.row_pieces)
                    .arg(&itself)
                    .arg(&only_counts)
                    .arg(&tiles)
                    .arg(&count)
                    .arg(&done)
                    .arg(&mut self.candidates)
                    .arg(&mut self.values)
                    .arg(&capacity)
                    .arg(&mut self.state);
                // SAFETY: as above.
                unsafe { builder.launch(config(1, loaded.kind.shared_bytes())) }.map_err(&at)?;
            }
        }
        Ok(())
    }

    /// Decides about the candidates.
    fn verify(&mut self, loaded: &Loaded, only_counts: bool) -> Result<()> {
        let at = failed("verifying");
        let work = &self.work;
        let stream = &work.stream;
        let [left, right, left_rows, right_rows] = loaded.elements(work);
        let answers: sys::CUdeviceptr =
            if only_counts { 0 } else { self.answers.device_ptr(stream).0 };
        let config = fixed_grid(work, u64::MAX / 512);
        let mut builder = stream.launch_builder(&self.verify);
        match loaded.kind {
            // Whatever the sum of bytes says is counted already.
            TileKind::Tensor { bytes: true, .. } if only_counts => {}
            TileKind::Tensor { bytes: true, .. } => {
                let limit = loaded.whole as u32;
                builder
                    .arg(&left_rows)
                    .arg(&right_rows)
                    .arg(&self.candidates)
                    .arg(&self.values)
                    .arg(&limit)
                    .arg(&answers)
                    .arg(&mut self.state);
                // SAFETY: the arguments are those of the kernel, and the buffers as long as it takes them.
                unsafe { builder.launch(config) }.map_err(&at)?;
            }
            _ => {
                let decision = loaded.decision(work);
                builder
                    .arg(&left)
                    .arg(&right)
                    .arg(&left_rows)
                    .arg(&right_rows)
                    .arg(&self.candidates)
                    .arg(&decision)
                    .arg(&answers)
                    .arg(&mut self.state);
                // SAFETY: as above.
                unsafe { builder.launch(config) }.map_err(&at)?;
            }
        }
        Ok(())
    }

    /// Brings pairs to the host and hands them on, a chunk on its way while another one is taken.
    fn hand_on(
        &mut self,
        answered: usize,
        patient: bool,
        sink: &mut dyn Sink<VectorPair>,
    ) -> Result<ControlFlow<()>> {
        let stream = self.work.stream.clone();
        let starts: Vec<usize> = (0..answered).step_by(CHUNK).collect();
        let len = |which: usize| CHUNK.min(answered - starts[which]);
        if !starts.is_empty() {
            fetch(&stream, &self.answers, &mut self.chunks[0], starts[0], len(0))?;
        }
        for which in 0..starts.len() {
            self.wait(patient)?;
            if which + 1 < starts.len() {
                let to = &mut self.chunks[(which + 1) % 2];
                fetch(&stream, &self.answers, to, starts[which + 1], len(which + 1))?;
            }
            let found = &self.chunks[which % 2][..len(which)];
            // SAFETY: the one is the other, and nothing else.
            let pairs = unsafe {
                std::slice::from_raw_parts(found.as_ptr().cast::<VectorPair>(), found.len())
            };
            if sink.push(pairs).is_break() {
                self.wait(patient)?;
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}

/// Starts a copy of some pairs.
fn fetch(
    stream: &Arc<CudaStream>,
    from: &CudaSlice<Found>,
    to: &mut Pinned<Found>,
    start: usize,
    count: usize,
) -> Result<()> {
    let pointer = from.device_ptr(stream).0 + (start * size_of::<Found>()) as u64;
    // SAFETY: so many pairs are there, and the chunk is left alone until the stream was waited for.
    unsafe { result::memcpy_dtoh_async(&mut to[..count], pointer, stream.cu_stream()) }
        .map_err(failed("fetching pairs"))
}

impl Drop for Buffers<'_> {
    /// Chunks outlive what is copied into them, whatever has happened.
    fn drop(&mut self) {
        self.work.device.drain(&self.work.stream);
    }
}

impl Worker<Vectors> for TileWorker<'_> {
    fn run(&mut self, piece: usize, sink: &mut dyn Sink<VectorPair>) -> Result<ControlFlow<()>> {
        let (loaded, patient) = (self.loaded, self.technique.patient);
        let at = failed("joining vectors");
        loaded.device.context.bind_to_thread().map_err(&at)?;
        if self.buffers.is_none() {
            self.buffers = Some(Buffers::new(self.technique, loaded)?);
        }
        let Some(buffers) = &mut self.buffers else { return Ok(ControlFlow::Continue(())) };
        let piece = &loaded.pieces[piece];
        if piece.tiles == 0 {
            return Ok(ControlFlow::Continue(()));
        }
        let stream = buffers.work.stream.clone();
        stream.memset_zeros(&mut buffers.done).map_err(&at)?;
        let tiles = buffers.tiles.device_ptr(&stream).0;
        loaded.prune(
            &buffers.work,
            piece.groups.clone(),
            loaded.starts(&buffers.work),
            0,
            tiles,
        )?;
        let only_counts = sink.only_counts();
        let most = loaded.launch_tiles(self.technique);
        let mut first = 0;
        while first < piece.tiles {
            let tiles = first..piece.tiles.min(first.saturating_add(most));
            stream.memcpy_htod(&[BEGIN], &mut buffers.state).map_err(&at)?;
            buffers.compare(loaded, tiles.clone(), only_counts)?;
            buffers.verify(loaded, only_counts)?;
            if patient {
                buffers.wait(true)?;
            }
            let mut state = [BEGIN];
            stream.memcpy_dtoh(&buffers.state, &mut state).map_err(&at)?;
            stream.synchronize().map_err(&at)?;
            let [state] = state;
            self.candidates += u64::from(state.reserved.min(state.refused));
            if state.counted > 0 {
                sink.count(state.counted);
            }
            if !only_counts && buffers.hand_on(state.answered as usize, patient, sink)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
            if sink.stopped() {
                return Ok(ControlFlow::Break(()));
            }
            if state.refused == u32::MAX {
                first = tiles.end;
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn candidates(&self) -> u64 {
        self.candidates
    }
}
