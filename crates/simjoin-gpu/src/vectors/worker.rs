//! How does a piece of a join run on its device, and how are pairs fetched?
//!
//! ```text
//! tiles of the piece ─► compare until all is done or the buffer is full ─► predicate ─► state ─► pairs, in chunks
//!                          ▲                                                              │
//!                          └───────────────── once more if it was full ───────────────────┘
//! ```
//!
//! The kernel of the predicate reads the number of candidates on the device, so the host waits once per
//! repetition. While one chunk of pairs is handed on, the next one is copied.

use super::load::LoadedJoin;
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

/// The number of pairs in a chunk that is copied to the host.
const CHUNK: usize = 256 << 10;

/// The bytes on the host for each worker.
pub(super) const HOST_BYTES: u64 = 2 * (CHUNK * size_of::<VectorPair>()) as u64;

/// The state that a worker and its kernels share.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct VectorState {
    reserved: u32,
    refused: u32,
    answered: u32,
    unused: u32,
    pub(super) counted: u64,
}

// SAFETY: numbers, laid out as in the kernels.
unsafe impl DeviceRepr for VectorState {}
// SAFETY: zeros are numbers.
unsafe impl ValidAsZeroBits for VectorState {}

pub(super) const INITIAL_STATE: VectorState =
    VectorState { reserved: 0, refused: u32::MAX, answered: 0, unused: 0, counted: 0 };

/// A pair in the layout of the kernels.
#[repr(transparent)]
#[derive(Clone, Copy)]
struct DevicePair(VectorPair);

// SAFETY: two numbers of four bytes and one of eight, laid out as in the kernels.
unsafe impl DeviceRepr for DevicePair {}

/// The buffers of a worker.
struct Buffers<'w> {
    work: Work<'w>,
    state: CudaSlice<VectorState>,
    tiles: CudaSlice<u64>,
    done: CudaSlice<u8>,
    candidates: CudaSlice<u64>,
    values: CudaSlice<u32>,
    answers: CudaSlice<DevicePair>,
    compare: CudaFunction,
    verify: CudaFunction,
    ended: CudaEvent,
    chunks: [Pinned<DevicePair>; 2],
}

/// A worker with one stream.
pub(super) struct TileWorker<'w> {
    technique: &'w GpuVectors,
    loaded: &'w LoadedJoin,
    /// The number of the first piece.
    first: usize,
    /// The buffers, created for the first piece.
    buffers: Option<Buffers<'w>>,
    candidates: u64,
}

impl<'w> TileWorker<'w> {
    pub(super) fn new(technique: &'w GpuVectors, loaded: &'w LoadedJoin, first: usize) -> Self {
        TileWorker { technique, loaded, first, buffers: None, candidates: 0 }
    }
}

impl LoadedJoin {
    /// Returns the kernels that compare and decide. They are compiled when first needed.
    pub(super) fn kernels(&self, work: &Work<'_>) -> Result<(CudaFunction, CudaFunction)> {
        let compare = compare_function(&self.device, self.kind)?;
        let verify = match self.kind {
            TileKind::Tensor { bytes: true, .. } => "answer_whole",
            _ => "verify",
        };
        Ok((compare, work.function(verify)?))
    }
}

/// Returns the kernel that compares tiles of a kind. It is compiled when first needed.
pub(super) fn compare_function(device: &Device, kind: TileKind) -> Result<CudaFunction> {
    let (source, name) = match kind {
        TileKind::Direct => (super::DIRECT, "direct"),
        TileKind::Tensor { .. } => (super::TENSOR, "multiply_tiles"),
    };
    let compare = device.function(source, &kind.defines(), name)?;
    let shared = kind.shared_bytes();
    if shared > 0 {
        let which = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        compare.set_attribute(which, shared as i32).map_err(failed("setting the shared memory"))?;
    }
    Ok(compare)
}

impl<'w> Buffers<'w> {
    fn new(technique: &GpuVectors, loaded: &'w LoadedJoin) -> Result<Self> {
        let at = failed("allocating the buffers of a worker");
        let device = &loaded.device;
        let stream = device.stream()?;
        let work = Work { device, stream: stream.clone(), wide: loaded.wide };
        let tiles = loaded.most_tiles().max(1) as usize;
        let candidates = technique.candidates();
        let (compare, verify) = loaded.kernels(&work)?;
        let chunk = || Pinned::<DevicePair>::zeros(device, CHUNK);
        // SAFETY: nothing is read before it is written.
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

    /// Compares the unfinished tiles of a range until the buffer is full.
    fn compare(&mut self, loaded: &LoadedJoin, tiles: Range<u32>, only_counts: bool) -> Result<()> {
        let at = failed("comparing vectors");
        let (work, capacity) = (&self.work, self.candidates.len() as u32);
        let (self_join, only_counts) = (u32::from(loaded.self_join), u32::from(only_counts));
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
                    .arg(&self_join)
                    .arg(&only_counts)
                    .arg(&tiles)
                    .arg(&count)
                    .arg(&done)
                    .arg(&mut self.candidates)
                    .arg(&capacity)
                    .arg(&mut self.state);
                // SAFETY: the arguments match the kernel, and the buffers have the lengths that it needs.
                unsafe { builder.launch(config(8, 0)) }.map_err(&at)?;
            }
            TileKind::Tensor { .. } => {
                builder
                    .arg(&left)
                    .arg(&right)
                    .arg(&loaded.row_pieces)
                    .arg(&self_join)
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
    fn verify(&mut self, loaded: &LoadedJoin, only_counts: bool) -> Result<()> {
        let at = failed("verifying");
        let work = &self.work;
        let stream = &work.stream;
        let [left, right, left_rows, right_rows] = loaded.elements(work);
        let answers: sys::CUdeviceptr =
            if only_counts { 0 } else { self.answers.device_ptr(stream).0 };
        let config = fixed_grid(work, u64::MAX / 512);
        let mut builder = stream.launch_builder(&self.verify);
        match loaded.kind {
            // Sums of bytes were counted when they were computed.
            TileKind::Tensor { bytes: true, .. } if only_counts => {}
            TileKind::Tensor { bytes: true, .. } => {
                let limit = loaded.whole_limit as u32;
                builder
                    .arg(&left_rows)
                    .arg(&right_rows)
                    .arg(&self.candidates)
                    .arg(&self.values)
                    .arg(&limit)
                    .arg(&answers)
                    .arg(&mut self.state);
                // SAFETY: the arguments match the kernel, and the buffers have the lengths that it needs.
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

    /// Fetches pairs and hands them on, one chunk while the next one is copied.
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
            // SAFETY: `DevicePair` is a transparent wrapper.
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
    from: &CudaSlice<DevicePair>,
    to: &mut Pinned<DevicePair>,
    start: usize,
    count: usize,
) -> Result<()> {
    let pointer = from.device_ptr(stream).0 + (start * size_of::<DevicePair>()) as u64;
    // SAFETY: the device has these pairs, and the chunk is not touched until the stream has been waited for.
    unsafe { result::memcpy_dtoh_async(&mut to[..count], pointer, stream.cu_stream()) }
        .map_err(failed("fetching pairs"))
}

impl Drop for Buffers<'_> {
    /// Waits for copies into the chunks, even after a failure.
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
        let piece = &loaded.pieces[self.first + piece];
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
            stream.memcpy_htod(&[INITIAL_STATE], &mut buffers.state).map_err(&at)?;
            buffers.compare(loaded, tiles.clone(), only_counts)?;
            buffers.verify(loaded, only_counts)?;
            if patient {
                buffers.wait(true)?;
            }
            let mut state = [INITIAL_STATE];
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
