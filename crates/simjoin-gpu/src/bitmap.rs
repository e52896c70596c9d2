//! `gpu-bitmap`: which sets have signatures that are close, of all pairs, on the device?
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
//! As `bitmap` on the CPU: signatures of a pair in the answer differ in no more bits than the shares
//! of its budget allow ([`Bounds::probe_share`]); the kernel computes the difference in whole numbers
//! of sixteenths and never rounds a share down. Blocks without a pair in reach of the length filter
//! are left out, and every survivor is decided in integers, as `Bounds::accepts` does.
//!
//! A full buffer loses nothing: a block that finds no room notes where it stopped, and is run again
//! from there once the buffer is empty. One step of a block never has more survivors than the buffer
//! has room for.
//!
//! # Memory
//!
//! On the device 4 bytes a token, `28 + BITS / 8` a set, and the buffers of each worker; on the host
//! the answers of a worker at a time.
//!
//! [`Bounds::probe_share`]: simjoin_core::Bounds::probe_share

use crate::device::{Device, failed};
use cudarc::driver::{
    CudaFunction, CudaSlice, CudaStream, DeviceRepr, LaunchConfig, PushKernelArg, ValidAsZeroBits,
    sys,
};
use simjoin_core::{Bounds, Measure, PairSink, Result, SetCollection, SetId, SetPair};
use simjoin_plan::{
    Cost, Join, Order, Prepared, Reach, Room, Survey, Technique, Tile, Units, Worker, reaches,
};
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

pub(crate) const SOURCE: &str = concat!(
    include_str!("kernels/accept.cuh"),
    include_str!("kernels/bitmap.cu"),
    include_str!("kernels/verify.cu")
);

/// Build sets of a range, and ranges that a block goes through at most.
const COLUMNS: u32 = 256;
const RANGES: u32 = 32;

/// Ranges in flight.
const STAGES: u32 = 2;

/// Streams of work.
const WORKERS: usize = 3;

/// Warps of a block.
const WARPS: usize = 8;

/// Sets above this size pass the filter always: their shares would not fit.
const MAX_WEIGHTED: u32 = 1 << 22;
const ALWAYS: i32 = 1 << 28;

/// Survivors that a worker has room for.
const SURVIVORS: usize = 4 << 20;

/// Pairs of a piece.
const PIECE: u64 = 2 << 30;

/// Signatures of all pairs on a device.
#[derive(Debug)]
pub struct GpuBitmap {
    /// Where it runs.
    pub device: Arc<Device>,
    /// 256, 512, 1,024 or 2,048.
    pub bits: u32,
}

impl GpuBitmap {
    /// The widths of a signature, in bits.
    pub const BITS: [u32; 4] = [256, 512, 1024, 2048];
}

impl Technique for GpuBitmap {
    fn name(&self) -> &'static str {
        "gpu-bitmap"
    }

    fn variant(&self) -> String {
        format!("{} bits", self.bits)
    }

    fn cost(&self, survey: &Survey<'_>, _: &Units) -> Option<Cost> {
        let place = (self.bits / 256).ilog2();
        let pair = 0.2e-12 * f64::from(1 << place);
        Some(Cost {
            serial: 1e-3 + survey.tokens as f64 * 0.2e-9 + survey.pairs as f64 * pair,
            shared: 0.0,
        })
    }

    fn memory_bytes(&self, _: &Join<'_>, _: &Tile, threads: usize) -> u64 {
        threads.min(WORKERS) as u64
            * SURVIVORS as u64
            * (size_of::<Answer>() + size_of::<SetPair>()) as u64
    }

    fn prepare<'a>(
        &self,
        join: &Join<'a>,
        tile: &Tile,
        _: &Room,
    ) -> Result<Box<dyn Prepared + 'a>> {
        Ok(Box::new(Signed::new(self, join, tile)?))
    }
}

/// A block of probes, and the ranges of build sets that it goes through.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Item {
    row: u32,
    from: u32,
    to: u32,
}

// SAFETY: three numbers, laid out as in the kernel.
unsafe impl DeviceRepr for Item {}

/// An answer as the device writes it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct Answer {
    probe: u32,
    build: u32,
    overlap: u32,
}

// SAFETY: three numbers, laid out as in the kernel.
unsafe impl DeviceRepr for Answer {}
// SAFETY: zeros are numbers.
unsafe impl ValidAsZeroBits for Answer {}

/// The predicate as the device reads it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Predicate {
    p: u64,
    q: u64,
    measure: u32,
    slope: f32,
}

// SAFETY: numbers, laid out as in the kernel.
unsafe impl DeviceRepr for Predicate {}

impl Predicate {
    fn new(bounds: &Bounds) -> Self {
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

/// Sets on the device.
struct Side {
    /// The number of the first.
    first: SetId,
    offsets: CudaSlice<u64>,
    tokens: CudaSlice<u32>,
    /// What the offsets begin with.
    base: u64,
    signatures: CudaSlice<u32>,
    probe_rooms: CudaSlice<i32>,
    build_rooms: CudaSlice<i32>,
    /// Those of build sets in whole bits.
    rough_rooms: CudaSlice<i32>,
}

impl Side {
    fn new(
        technique: &GpuBitmap,
        stream: &Arc<CudaStream>,
        sets: &SetCollection,
        range: &Range<SetId>,
        bounds: &Bounds,
    ) -> Result<Self> {
        let sign = technique.function("sign")?;
        let at = failed("sending sets to the device");
        let (start, end) = (range.start as usize, range.end as usize);
        let offsets = &sets.offsets()[start..=end];
        let tokens = &sets.tokens()[offsets[0]..offsets[offsets.len() - 1]];
        let base = offsets[0] as u64;
        let count = range.len();
        // Blocks and steps read beyond the last set.
        let padded = count.next_multiple_of(COLUMNS as usize) + technique.rows() as usize;
        let mut shares = [Vec::with_capacity(count), Vec::with_capacity(count)];
        for class in sets.classes() {
            let sets = class.end.min(range.end).saturating_sub(class.start.max(range.start));
            let both = [bounds.probe_share(class.size, 16), bounds.build_share(class.size, 16)];
            for (shares, share) in shares.iter_mut().zip(both) {
                let share = if class.size > MAX_WEIGHTED { ALWAYS } else { share as i32 };
                shares.resize(shares.len() + sets as usize, share);
            }
        }
        let wide: Vec<u64> = offsets.iter().map(|&offset| offset as u64).collect();
        let offsets = stream.clone_htod(&wide).map_err(&at)?;
        let tokens = stream.clone_htod(tokens).map_err(&at)?;
        let probe_shares = stream.clone_htod(&shares[0]).map_err(&at)?;
        let build_shares = stream.clone_htod(&shares[1]).map_err(&at)?;
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
        let (count, top) = (count as u32, sets.universe().saturating_sub(1));
        let padded = padded as u32;
        // SAFETY: the arguments are those of the kernel, and the buffers as long as it takes them.
        unsafe {
            stream
                .launch_builder(&sign)
                .arg(&offsets)
                .arg(&tokens)
                .arg(&base)
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
                    grid_dim: (padded.div_ceil(8), 1, 1),
                    block_dim: (256, 1, 1),
                    shared_mem_bytes: 0,
                })
                .map_err(failed("making signatures"))?;
        }
        stream.synchronize().map_err(failed("making signatures"))?;
        let first = range.start;
        Ok(Side { first, offsets, tokens, base, signatures, probe_rooms, build_rooms, rough_rooms })
    }
}

/// What the kernels are compiled with. Wide signatures leave registers for one block a multiprocessor.
pub(crate) fn defines(bits: u32) -> [(&'static str, u32); 4] {
    let (rows, blocks) = if bits == 256 { (256, 2) } else { (512, 1) };
    [("BITS", bits), ("ROWS", rows), ("COLUMNS", COLUMNS), ("BLOCKS", blocks)]
}

impl GpuBitmap {
    fn function(&self, name: &str) -> Result<CudaFunction> {
        self.device.function(SOURCE, &defines(self.bits), name)
    }

    /// Probes of a block.
    fn rows(&self) -> u32 {
        defines(self.bits)[1].1
    }

    /// Ranges in flight; before them, the probes.
    fn shared_bytes(&self) -> u32 {
        (STAGES * COLUMNS * (self.bits / 8 + 4)).max(self.rows() * self.bits / 8)
    }
}

struct Signed {
    device: Arc<Device>,
    filter: CudaFunction,
    verify: CudaFunction,
    shared_bytes: u32,
    predicate: Predicate,
    order: u32,
    tile: Tile,
    /// One for a self-join; probes and build sets for a join of two.
    sides: Vec<Side>,
    items: Vec<Item>,
    pieces: Vec<Range<usize>>,
}

impl Signed {
    fn new(technique: &GpuBitmap, join: &Join<'_>, tile: &Tile) -> Result<Self> {
        let device = &technique.device;
        let stream = device.context.new_stream().map_err(failed("making a stream"))?;
        let before = join.order == Order::Before;
        let sides = if before {
            let range =
                tile.probes.start.min(tile.builds.start)..tile.probes.end.max(tile.builds.end);
            vec![Side::new(technique, &stream, join.probe, &range, &join.bounds)?]
        } else {
            vec![
                Side::new(technique, &stream, join.probe, &tile.probes, &join.bounds)?,
                Side::new(technique, &stream, join.build, &tile.builds, &join.bounds)?,
            ]
        };
        let filter = technique.function("filter")?;
        let shared_bytes = technique.shared_bytes();
        filter
            .set_attribute(
                sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                shared_bytes as i32,
            )
            .map_err(failed("asking for shared memory"))?;
        let items = items(join, tile, &sides, technique.rows());
        let mut pieces: Vec<Range<usize>> = Vec::new();
        let (mut start, mut pairs) = (0, 0);
        for (at, item) in items.iter().enumerate() {
            pairs += u64::from(item.to - item.from) * u64::from(technique.rows() * COLUMNS);
            if pairs >= PIECE || at + 1 == items.len() {
                pieces.push(start..at + 1);
                (start, pairs) = (at + 1, 0);
            }
        }
        Ok(Signed {
            device: device.clone(),
            filter,
            verify: technique.function("verify")?,
            shared_bytes,
            predicate: Predicate::new(&join.bounds),
            order: match join.order {
                Order::Before => 0,
                Order::NotLarger => 1,
                Order::Smaller => 2,
            },
            tile: tile.clone(),
            sides,
            items,
            pieces,
        })
    }
}

/// Blocks of probes with the ranges of build sets that the length filter leaves them.
fn items(join: &Join<'_>, tile: &Tile, sides: &[Side], rows: u32) -> Vec<Item> {
    let (rows_from, columns_from) = (sides[0].first, sides[sides.len() - 1].first);
    let reaches = reaches(join, tile);
    let mut items = Vec::new();
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
                met.end = met.end.min(end);
            }
            let last = (met.end - columns_from).div_ceil(COLUMNS);
            let mut from = (met.start - columns_from) / COLUMNS;
            while from < last {
                let to = last.min(from + RANGES);
                items.push(Item { row: row - rows_from, from, to });
                from = to;
            }
        }
        row = end;
    }
    items
}

impl Prepared for Signed {
    fn pieces(&self) -> usize {
        self.pieces.len()
    }

    fn workers(&self) -> usize {
        // One computes while another one's answers are on their way.
        WORKERS
    }

    fn worker<'a>(&'a self) -> Result<Box<dyn Worker + 'a>> {
        let at = failed("making the buffers of a worker");
        let stream = self.device.context.new_stream().map_err(&at)?;
        // SAFETY: nothing is read before it was written.
        let (survivors, answers) = unsafe {
            (stream.alloc(SURVIVORS).map_err(&at)?, stream.alloc(SURVIVORS).map_err(&at)?)
        };
        let state = stream.alloc_zeros(3).map_err(&at)?;
        Ok(Box::new(SignedWorker {
            signed: self,
            stream,
            survivors,
            answers,
            state,
            found: Vec::new(),
            pairs: Vec::new(),
            verified: 0,
        }))
    }
}

struct SignedWorker<'a> {
    signed: &'a Signed,
    stream: Arc<CudaStream>,
    survivors: CudaSlice<u64>,
    answers: CudaSlice<Answer>,
    /// Survivors reserved, the first reservation that did not fit, and answers.
    state: CudaSlice<u32>,
    found: Vec<Answer>,
    pairs: Vec<SetPair>,
    verified: u64,
}

impl SignedWorker<'_> {
    /// Verifies the survivors and hands the answers on.
    fn verify(&mut self, count: u32, sink: &mut dyn PairSink) -> Result<ControlFlow<()>> {
        let Signed { verify, sides, predicate, order, .. } = self.signed;
        let at = failed("verifying");
        let (probes, builds) = (&sides[0], &sides[sides.len() - 1]);
        self.verified += u64::from(count);
        let mut answered = self.state.slice_mut(2..3);
        // SAFETY: the arguments are those of the kernel, and the buffers as long as it takes them.
        unsafe {
            self.stream
                .launch_builder(verify)
                .arg(&probes.offsets)
                .arg(&probes.tokens)
                .arg(&probes.base)
                .arg(&builds.offsets)
                .arg(&builds.tokens)
                .arg(&builds.base)
                .arg(&probes.signatures)
                .arg(&probes.probe_rooms)
                .arg(&builds.signatures)
                .arg(&builds.build_rooms)
                .arg(&self.survivors)
                .arg(&count)
                .arg(predicate)
                .arg(order)
                .arg(&mut self.answers)
                .arg(&mut answered)
                .launch(LaunchConfig {
                    grid_dim: (count.div_ceil(128), 1, 1),
                    block_dim: (128, 1, 1),
                    shared_mem_bytes: 0,
                })
                .map_err(&at)?;
        }
        let mut answered = [0; 3];
        self.stream.memcpy_dtoh(&self.state, &mut answered).map_err(&at)?;
        self.stream.synchronize().map_err(&at)?;
        let answered = answered[2] as usize;
        if answered == 0 {
            return Ok(ControlFlow::Continue(()));
        }
        self.found.resize(answered, Answer::default());
        self.stream
            .memcpy_dtoh(&self.answers.slice(..answered), self.found.as_mut_slice())
            .map_err(&at)?;
        self.stream.synchronize().map_err(&at)?;
        self.pairs.clear();
        self.pairs.extend(self.found.iter().map(|answer| SetPair {
            probe: probes.first + answer.probe,
            build: builds.first + answer.build,
            overlap: answer.overlap,
        }));
        Ok(sink.push(&self.pairs))
    }
}

impl Worker for SignedWorker<'_> {
    fn run(&mut self, piece: usize, sink: &mut dyn PairSink) -> Result<ControlFlow<()>> {
        let signed = self.signed;
        let at = failed("comparing signatures");
        let items = &signed.items[signed.pieces[piece].clone()];
        // Where each warp of each block is to go on.
        let begin = vec![0u32; items.len() * WARPS];
        let sent = self.stream.clone_htod(items).map_err(&at)?;
        let mut progress = self.stream.clone_htod(&begin).map_err(&at)?;
        let (probes, builds) = (&signed.sides[0], &signed.sides[signed.sides.len() - 1]);
        let row_end = signed.tile.probes.end - probes.first;
        let columns =
            signed.tile.builds.start - builds.first..signed.tile.builds.end - builds.first;
        let capacity = SURVIVORS as u32;
        loop {
            self.stream.memcpy_htod(&[0, u32::MAX, 0], &mut self.state).map_err(&at)?;
            // SAFETY: the arguments are those of the kernel, and the buffers as long as it takes them.
            unsafe {
                self.stream
                    .launch_builder(&signed.filter)
                    .arg(&probes.signatures)
                    .arg(&probes.probe_rooms)
                    .arg(&builds.signatures)
                    .arg(&builds.rough_rooms)
                    .arg(&sent)
                    .arg(&mut progress)
                    .arg(&signed.order)
                    .arg(&row_end)
                    .arg(&columns.start)
                    .arg(&columns.end)
                    .arg(&mut self.survivors)
                    .arg(&capacity)
                    .arg(&mut self.state)
                    .launch(LaunchConfig {
                        grid_dim: (items.len() as u32, 1, 1),
                        block_dim: (256, 1, 1),
                        shared_mem_bytes: signed.shared_bytes,
                    })
                    .map_err(&at)?;
            }
            let mut state = [0; 3];
            self.stream.memcpy_dtoh(&self.state, &mut state).map_err(&at)?;
            self.stream.synchronize().map_err(&at)?;
            let survivors = state[0].min(state[1]);
            if survivors > 0 && self.verify(survivors, sink)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
            if sink.stopped() {
                return Ok(ControlFlow::Break(()));
            }
            if state[1] == u32::MAX {
                return Ok(ControlFlow::Continue(()));
            }
        }
    }

    fn candidates(&self) -> u64 {
        self.verified
    }
}
