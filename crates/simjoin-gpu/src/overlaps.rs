//! How many tokens does every pair of sets share, found on a device?
//!
//! After Bellas and Gounaris (Exploiting GPUs for fast intersection of large sets), without a threshold.
//! Their techniques are here for comparison:
//!
//! * `index` (sf-gssjoin): lists of all tokens, one atomic addition for each meeting;
//! * `bitmap`: a bit for each token of the universe, and-popcount of all pairs;
//! * `bitmap-dynamic`, `binary-search`, `hash`: one row at a time is made ready as a bitmap, a search tree or
//!   a hash table, and the tokens of all columns are looked up in it;
//! * `dense`: the product of the bit matrices on tensor cores, of devices whose tensor cores multiply bits.
//!
//! `combined` is what should be used: the most frequent tokens are bits of a dense product, the rare ones
//! have lists, and additions go into the counts that the product has left. Frequencies of real tokens fall
//! so fast that a few thousand bits leave short lists. How many bits there are is decided by what both
//! parts are estimated to cost.
//!
//! # Flow
//!
//! ```text
//! sets ─► device ─► frequencies ─► frequent tokens: bits ─► product ─┐ counts of a tile,   ┌► host, tile by tile
//!                              └─► rare tokens: lists ────► walk ────┴ 1, 2 or 4 bytes ────┼► pairs that satisfy a predicate
//!                                                                                          └► the best of each row
//! ```
//!
//! A tile is a range of rows by all columns; in a self-join by the columns before its last row. There
//! each unordered pair is counted once, unless the best of each row are wanted.
//!
//! # Memory
//!
//! On the device 4 bytes a token and 12 a set; for `combined` 4 a token more, 8 for each token of the
//! universe, and one bit for each set and frequent token; and tiles, which become smaller where memory is
//! short. On the host two pieces of a tile, or a batch of answers. Neither follows the number of results.
//!
//! # Exactness
//!
//! Every common token of a pair is either frequent, and then one bit in both rows of the matrix, or rare,
//! and then the column stands once in its list. Counts are as wide as the largest overlap needs, so no
//! addition reaches into a neighbour. Predicates are decided in integers, as everywhere.

use crate::device::{Device, Lease, failed};
use crate::pinned::Pinned;
use crate::send::Sender;
use crate::sets::{Answer, DeviceSets, Predicate as DevicePredicate, SetsArgument, source, timer};
use cudarc::driver::{
    CudaEvent, CudaFunction, CudaSlice, CudaStream, DevicePtr, DeviceRepr, LaunchConfig,
    PushKernelArg, result, sys,
};
use simjoin_core::{Bounds, Error, Predicate, Result, SetCollection, SetId, SetPair};
use simjoin_engine::Budget;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;
use std::time::Instant;

pub(crate) static SOURCE: &str = source!("kernels/shared.cuh", "kernels/overlaps.cu");

/// Threads of a block; rows and columns of a block of the product; bits that it takes in a step: as in
/// the kernels.
const THREADS: u32 = 256;
const ROWS: u32 = 128;
const COLUMNS: u32 = 256;
const STEP: u32 = 512;

/// Pairs and 256-bit pieces of them that the product takes in a second, on tensor cores and without, and
/// entries of lists that are walked in one: of an H200.
const PRODUCT: f64 = 9e12;
const POPCOUNT: f64 = 4e11;
const WALK: f64 = 3e10;

/// Bytes of a tile that is consumed on the device, and of a piece of one on its way to the host, at most.
const TILE: u64 = 2 << 30;
const PIECE: u64 = 16 << 20;

/// Bytes for answers, on the device and on the host, at most.
const ANSWERS: u64 = 256 << 20;

/// Bytes for what is small.
const SMALL: u64 = 1024;

/// Shared memory, in words, for what a row is made into.
const LOOK_UP_ROOM: u32 = 12_000;

/// How the overlaps of all pairs are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OverlapTechnique {
    /// Lists of all tokens and atomic additions.
    Index,
    /// A bit for each token, common bits counted word by word.
    Bitmap,
    /// A bitmap of one row at a time.
    BitmapDynamic,
    /// Binary search in one row at a time.
    BinarySearch,
    /// A hash table of one row at a time.
    Hash,
    /// A bit for each token, multiplied by tensor cores where they do that.
    Dense,
    /// Frequent tokens as in `Dense`, rare ones as in `Index`. How many are frequent, if not as many as
    /// is estimated to be best.
    Combined(Option<u32>),
}

impl OverlapTechnique {
    /// Every one.
    pub const ALL: [OverlapTechnique; 7] = [
        Self::Combined(None),
        Self::Dense,
        Self::Bitmap,
        Self::Index,
        Self::BitmapDynamic,
        Self::BinarySearch,
        Self::Hash,
    ];

    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Self::Index => "index",
            Self::Bitmap => "bitmap",
            Self::BitmapDynamic => "bitmap-dynamic",
            Self::BinarySearch => "binary-search",
            Self::Hash => "hash",
            Self::Dense => "dense",
            Self::Combined(_) => "combined",
        }
    }

    /// The one of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|technique| technique.name() == name)
    }

    /// The kernel that looks tokens up, if it is of that kind.
    fn look_up(self) -> Option<&'static str> {
        match self {
            Self::BitmapDynamic => Some("look_up_bitmap"),
            Self::BinarySearch => Some("look_up_search"),
            Self::Hash => Some("look_up_hash"),
            _ => None,
        }
    }
}

/// What the kernels are compiled with.
pub(crate) fn defines(width: u32, tensor: bool, stages: u32) -> [(&'static str, u32); 3] {
    [("WIDTH", width), ("TENSOR", u32::from(tensor)), ("STAGES", stages)]
}

/// Seconds of each part.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct OverlapSeconds {
    /// Sending sets.
    pub send: f64,
    /// On the device: frequencies, bits and lists.
    pub prepare: f64,
    /// On the device: counting.
    pub count: f64,
    /// On the device: finding the pairs that are wanted.
    pub select: f64,
    /// Waiting for what comes back to the host.
    pub fetch: f64,
}

/// Counts of a tile, in the narrowest numbers that all fit.
#[derive(Clone, Copy, Debug)]
pub enum Counts<'a> {
    /// Of one byte.
    U8(&'a [u8]),
    /// Of two.
    U16(&'a [u16]),
    /// Of four.
    U32(&'a [u32]),
}

/// Overlaps of some rows with all columns, or with those before each row.
#[derive(Clone, Copy, Debug)]
pub struct OverlapTile<'a> {
    /// The rows.
    pub first: SetId,
    /// How many there are.
    pub rows: u32,
    /// How many columns there are; in a self-join a row has counts for those before it.
    pub columns: u32,
    own: bool,
    stride: usize,
    counts: Counts<'a>,
}

impl OverlapTile<'_> {
    /// The overlaps of a row (`0..rows`) with columns from 0 on: with all, or in a self-join with those
    /// before it. `each` gets the column and the overlap.
    pub fn each(&self, row: u32, mut each: impl FnMut(SetId, u32)) {
        let start = row as usize * self.stride;
        let columns = if self.own { self.first + row } else { self.columns };
        let range = start..start + columns as usize;
        match self.counts {
            Counts::U8(counts) => (0..).zip(&counts[range]).for_each(|(c, &n)| each(c, n.into())),
            Counts::U16(counts) => (0..).zip(&counts[range]).for_each(|(c, &n)| each(c, n.into())),
            Counts::U32(counts) => (0..).zip(&counts[range]).for_each(|(c, &n)| each(c, n)),
        }
    }

    /// The counts of a row as they lie there; see [`each`](Self::each) for the columns.
    pub fn row(&self, row: u32) -> Counts<'_> {
        let start = row as usize * self.stride;
        let columns = if self.own { self.first + row } else { self.columns };
        let range = start..start + columns as usize;
        match self.counts {
            Counts::U8(counts) => Counts::U8(&counts[range]),
            Counts::U16(counts) => Counts::U16(&counts[range]),
            Counts::U32(counts) => Counts::U32(&counts[range]),
        }
    }
}

/// A tile as a kernel takes it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct TileArgument {
    counts: sys::CUdeviceptr,
    stride: u64,
    limits: sys::CUdeviceptr,
    first: u32,
    rows: u32,
    columns: u32,
    own: u32,
    before: u32,
}

// SAFETY: numbers and addresses, laid out as in the kernels.
unsafe impl DeviceRepr for TileArgument {}

/// The lists as a kernel takes them.
#[repr(C)]
#[derive(Clone, Copy)]
struct ListsArgument {
    lonely: u32,
    heavy: u32,
    begins: sys::CUdeviceptr,
    ends: sys::CUdeviceptr,
    entries: sys::CUdeviceptr,
}

// SAFETY: as above.
unsafe impl DeviceRepr for ListsArgument {}

/// Lists of the tokens that have some.
struct Lists {
    begins: CudaSlice<u32>,
    ends: CudaSlice<u32>,
    entries: CudaSlice<u32>,
}

/// In how many sets of each side tokens stand; of the columns if these are other sets.
struct Lengths {
    rows: CudaSlice<u32>,
    columns: Option<CudaSlice<u32>>,
}

/// What rows are made into, to look tokens up.
struct LookUp {
    kernel: &'static str,
    blocks: u32,
    /// Words for each block beside shared memory.
    words: u64,
    beside: Option<CudaSlice<u32>>,
}

/// The bits of frequent tokens of all sets of a side.
struct Bits {
    rows: CudaSlice<u32>,
    /// Those of the columns, if these are other sets.
    columns: Option<CudaSlice<u32>>,
    words: u32,
}

/// Counts overlaps on a device.
pub struct Overlaps<'a> {
    room: Budget,
    /// Nothing where a side has no sets.
    here: Option<Here<'a>>,
    /// What it has taken so far.
    pub seconds: OverlapSeconds,
}

/// Sets on a device, ready to be counted.
pub(crate) struct Here<'a> {
    sides: Sides<'a>,
    device: Arc<Device>,
    stream: Arc<CudaStream>,
    copies: Arc<CudaStream>,
    technique: OverlapTechnique,
    defines: [(&'static str, u32); 3],
    width: u32,
    row_sets: DeviceSets,
    column_sets: Option<DeviceSets>,
    /// The first frequent token, and the first that stands in several rows.
    heavy: u32,
    lonely: u32,
    bits: Option<Bits>,
    lists: Option<Lists>,
    look_up: Option<LookUp>,
    limits: Option<CudaSlice<u32>>,
    /// Bytes that are left for tiles and answers.
    spare: u64,
    /// The last to go.
    _lease: Lease,
}

/// Sets of a collection: rows, or columns.
#[derive(Clone, Debug)]
pub(crate) struct Side<'a> {
    pub(crate) sets: &'a SetCollection,
    pub(crate) range: Range<SetId>,
}

impl<'a> Side<'a> {
    fn all(sets: &'a SetCollection) -> Self {
        Side { sets, range: 0..sets.len() as SetId }
    }

    fn bytes(&self) -> u64 {
        DeviceSets::bytes(self.sets, &self.range)
    }

    /// The size of the largest but so many.
    fn size(&self, but: SetId) -> u32 {
        let wanted = self.range.end.checked_sub(1 + but).filter(|set| *set >= self.range.start);
        wanted.map_or(0, |set| self.sets.size(set))
    }
}

/// Rows and columns: the same sets where there are no columns. Where each row meets only the first columns,
/// `limits` tells how many, which rises.
#[derive(Clone, Debug)]
pub(crate) struct Sides<'a> {
    pub(crate) rows: Side<'a>,
    pub(crate) columns: Option<Side<'a>>,
    pub(crate) limits: Option<Vec<u32>>,
}

impl<'a> Sides<'a> {
    fn columns(&self) -> &Side<'a> {
        self.columns.as_ref().unwrap_or(&self.rows)
    }

    /// The largest overlap that a pair may have.
    fn most_overlap(&self) -> u32 {
        match &self.columns {
            Some(columns) => self.rows.size(0).min(columns.size(0)),
            // That of the two largest, which are different sets.
            None => self.rows.size(1),
        }
    }

    /// Bytes of a count.
    fn width(&self) -> u32 {
        match self.most_overlap() {
            0..=0xff => 1,
            0x100..=0xffff => 2,
            _ => 4,
        }
    }

    /// Bytes on the device that are always held, and of the smallest tiles with what is beside them.
    pub(crate) fn least_bytes(&self, by_bits_and_lists: bool) -> (u64, u64) {
        let sides = 1 + u64::from(self.columns.is_some());
        let tokens = u64::from(self.rows.sets.universe() - self.rows.sets.lonely_tokens());
        let lengths = if by_bits_and_lists { 4 * (1 + sides) * (tokens + 1) } else { 0 };
        let (rows, columns) = (self.rows.range.len() as u64, self.columns().range.len());
        let limits = self.limits.as_ref().map_or(0, |limits| 4 * limits.len() as u64);
        let fixed = self.rows.bytes() + self.columns.as_ref().map_or(0, Side::bytes) + lengths;
        let tiles = 2 * u64::from(ROWS) * padded(columns) * u64::from(self.width());
        let answers = size_of::<Answer>() as u64 * columns as u64 + 8 * (rows + 1);
        (fixed + limits, tiles + answers + SMALL)
    }

    /// Bytes on the device that lists of all tokens take.
    pub(crate) fn list_bytes(&self) -> u64 {
        let Side { sets, range } = self.columns();
        let offsets = sets.offsets();
        4 * (offsets[range.end as usize] - offsets[range.start as usize]) as u64
    }
}

/// What a tile is for.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Want {
    /// Each pair once.
    Once,
    /// Each row with all others.
    All,
}

fn grid(threads: u64) -> LaunchConfig {
    let blocks = threads.div_ceil(u64::from(THREADS)).max(1);
    LaunchConfig {
        grid_dim: (blocks as u32, 1, 1),
        block_dim: (THREADS, 1, 1),
        shared_mem_bytes: 0,
    }
}

fn padded(sets: usize) -> u64 {
    (sets as u64).next_multiple_of(u64::from(COLUMNS))
}

impl<'a> Overlaps<'a> {
    /// Sends the sets of a self-join, or of a join of rows and columns, and prepares them. `room` bounds
    /// what is taken on the device and for tiles and answers on the host.
    pub fn new(
        device: &Arc<Device>,
        rows: &'a SetCollection,
        columns: Option<&'a SetCollection>,
        technique: OverlapTechnique,
        room: &Budget,
    ) -> Result<Self> {
        let mut seconds = OverlapSeconds::default();
        let empty = rows.is_empty() || columns.is_some_and(SetCollection::is_empty);
        let here = match empty {
            true => None,
            false => {
                let (rows, columns) = (Side::all(rows), columns.map(Side::all));
                let sides = Sides { rows, columns, limits: None };
                Some(Here::new(device, sides, technique, room, &mut seconds)?)
            }
        };
        Ok(Overlaps { room: *room, here, seconds })
    }

    /// Bytes of a count.
    pub fn width(&self) -> u32 {
        self.here.as_ref().map_or(1, |here| here.width)
    }

    /// How many of the most frequent tokens have a bit.
    pub fn frequent(&self) -> u32 {
        self.here
            .as_ref()
            .map_or(0, |here| if here.bits.is_some() { here.universe() - here.heavy } else { 0 })
    }

    /// Hands on the overlaps of all pairs, tile by tile, until the consumer breaks.
    pub fn counts(
        &mut self,
        mut consume: impl FnMut(&OverlapTile<'_>) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>> {
        let Some(here) = &self.here else { return Ok(ControlFlow::Continue(())) };
        let at = failed("fetching counts");
        let tiles = here.tiles(2, 16 * PIECE, 0, Want::Once)?;
        let most = tiles.iter().map(|tile| here.bytes(tile)).max().unwrap_or(0);
        let mut buffers = [here.buffer(most)?, here.buffer(most)?];
        let widest =
            tiles.iter().map(|tile| tile.stride * u64::from(here.width)).max().unwrap_or(1);
        let least = widest.max(1);
        let piece = (self.room.bytes / 2).min(PIECE).max(least);
        if 2 * least > self.room.bytes {
            let (needed, limit) = (2 * least, self.room.bytes);
            let what = "handing on overlaps".into();
            return Err(Error::Memory { what, needed, limit, device: false });
        }
        let pinned = || Pinned::<u8>::any(&here.device, piece as usize);
        // Waits for copies, whatever happens, before the memory that they write to goes.
        let mut pinned = [pinned()?, pinned()?];
        let drained = Drained(here.device.clone(), here.copies.clone());
        let event = || timer(&here.device);
        let clocks = [[event()?, event()?], [event()?, event()?]];
        let copied = [event()?, event()?];
        let mut fetch = 0.0;
        let mut count = 0.0;
        let mut flow = ControlFlow::Continue(());
        let mut launch = |number: usize| -> Result<TileArgument> {
            let [begin, end] = &clocks[number % 2];
            begin.record(&here.stream).map_err(&at)?;
            let tile = here.compute(&mut buffers[number % 2], &tiles[number])?;
            end.record(&here.stream).map_err(&at)?;
            Ok(tile)
        };
        let mut ahead = if tiles.is_empty() { None } else { Some(launch(0)?) };
        'tiles: for number in 0..tiles.len() {
            let Some(tile) = ahead.take() else { break };
            // Its buffer was emptied before the tile at hand was.
            ahead = if number + 1 < tiles.len() { Some(launch(number + 1)?) } else { None };
            here.copies.wait(&clocks[number % 2][1]).map_err(&at)?;
            let row_bytes = tile.stride * u64::from(here.width);
            let each = ((piece / row_bytes).max(1) as u32).min(tile.rows);
            let pieces: Vec<u32> = (0..tile.rows).step_by(each as usize).collect();
            let rows_of = |first: u32| each.min(tile.rows - first);
            let copy = |which: usize, into: &mut [Pinned<u8>; 2]| -> Result<()> {
                let first = pieces[which];
                let bytes = (u64::from(rows_of(first)) * row_bytes) as usize;
                let from = tile.counts + u64::from(first) * row_bytes;
                let to = &mut into[which % 2][..bytes];
                // SAFETY: the tile has these rows, and the host leaves the memory alone until the event.
                unsafe { result::memcpy_dtoh_async(to, from, here.copies.cu_stream()) }
                    .map_err(&at)?;
                copied[which % 2].record(&here.copies).map_err(&at)
            };
            copy(0, &mut pinned)?;
            for which in 0..pieces.len() {
                if which + 1 < pieces.len() {
                    copy(which + 1, &mut pinned)?;
                }
                let waiting = Instant::now();
                copied[which % 2].synchronize().map_err(&at)?;
                fetch += waiting.elapsed().as_secs_f64();
                let handed = OverlapTile {
                    first: tile.first + pieces[which],
                    rows: rows_of(pieces[which]),
                    columns: tile.columns,
                    own: tile.own != 0,
                    stride: tile.stride as usize,
                    counts: as_counts(&pinned[which % 2], here.width),
                };
                if consume(&handed).is_break() {
                    flow = ControlFlow::Break(());
                    break 'tiles;
                }
            }
            let [begin, end] = &clocks[number % 2];
            count += f64::from(begin.elapsed_ms(end).map_err(&at)?) / 1e3;
        }
        drop(drained);
        here.stream.synchronize().map_err(&at)?;
        self.seconds.count += count;
        self.seconds.fetch += fetch;
        Ok(flow)
    }

    /// Hands on the pairs whose overlap is positive and satisfies a predicate, by row, then by column. In a
    /// self-join the probe is the later set.
    pub fn selected(
        &mut self,
        predicate: Predicate,
        mut consume: impl FnMut(&[SetPair]) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>> {
        let Some(here) = &self.here else { return Ok(ControlFlow::Continue(())) };
        let bounds = Bounds::new(predicate);
        let plan = SelectionPlan::new(here, self.room.bytes)?;
        let mut selection = Selection::new(here, &bounds, &plan)?;
        for tile in 0..plan.tiles() {
            if selection.pairs(here, tile, &mut self.seconds, &mut consume)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// For how many pairs of rows of the input those pairs stand; no pair comes to the host.
    pub fn count(&mut self, predicate: Predicate) -> Result<u64> {
        let Some(here) = &self.here else { return Ok(0) };
        let plan = SelectionPlan::new(here, self.room.bytes)?;
        let mut selection = Selection::new(here, &Bounds::new(predicate), &plan)?;
        let mut rows = 0;
        for tile in 0..plan.tiles() {
            rows += selection.count(here, tile, &mut self.seconds)?;
        }
        Ok(rows)
    }

    /// Hands on the `most` columns of the largest positive overlap for each row, the best first; of equal
    /// ones the smaller in `ranks`, which has a different number for each column, or without them the
    /// smaller column. In a self-join every row meets all others.
    pub fn top(
        &mut self,
        most: u32,
        ranks: Option<&[u32]>,
        mut consume: impl FnMut(SetId, &[SetPair]) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>> {
        let Some(here) = &self.here else { return Ok(ControlFlow::Continue(())) };
        let at = failed("fetching the best pairs");
        let stream = &here.stream;
        let columns = here.sides.columns().range.len();
        let rows = here.sides.rows.range.len() as u64;
        let most = most.min(columns as u32);
        if most == 0 {
            return Ok(ControlFlow::Continue(()));
        }
        if ranks.is_some_and(|ranks| ranks.len() != columns) {
            return Err(Error::Internal("not every column has a rank".into()));
        }
        let ranks_here = match ranks {
            Some(ranks) => Some(stream.clone_htod(ranks).map_err(&at)?),
            None => None,
        };
        let ranks_at = ranks_here.as_ref().map_or(0, |ranks| ranks.device_ptr(stream).0);
        let row_bytes = (size_of::<Answer>() + size_of::<SetPair>()) as u64 * u64::from(most);
        if row_bytes > self.room.bytes {
            let what = "the best pairs of a row".into();
            let (needed, limit) = (row_bytes, self.room.bytes);
            return Err(Error::Memory { what, needed, limit, device: false });
        }
        let batch = ANSWERS.min(self.room.bytes).min(here.spare / 4) / row_bytes;
        let batch = batch.clamp(1, rows) as u32;
        let beside = (size_of::<Answer>() as u64 * u64::from(most) + 4) * u64::from(batch);
        let beside = beside + if ranks.is_some() { 4 * columns as u64 } else { 0 };
        let tiles = here.tiles(1, TILE, beside, Want::All)?;
        let bytes = tiles.iter().map(|tile| here.bytes(tile)).max().unwrap_or(0);
        let mut buffer = here.buffer(bytes)?;
        let top = here.function("top")?;
        // SAFETY: nothing is read before it was written.
        let (answers, counted) = unsafe {
            (
                stream.alloc::<Answer>(batch as usize * most as usize).map_err(&at)?,
                stream.alloc::<u32>(batch as usize).map_err(&at)?,
            )
        };
        let clock = [timer(&here.device)?, timer(&here.device)?];
        let mut found: Vec<Answer> = Vec::new();
        let mut pairs: Vec<SetPair> = Vec::new();
        for tile in &tiles {
            let whole =
                here.timed(&clock, &mut self.seconds.count, || here.compute(&mut buffer, tile))?;
            for first in (0..whole.rows).step_by(batch as usize) {
                let rows = batch.min(whole.rows - first);
                let part = TileArgument {
                    counts: whole.counts + u64::from(first) * whole.stride * u64::from(here.width),
                    first: whole.first + first,
                    rows,
                    ..whole
                };
                here.timed(&clock, &mut self.seconds.select, || {
                    let config = LaunchConfig { grid_dim: (rows, 1, 1), ..grid(1) };
                    // SAFETY: the arguments are those of the kernel; there is room for `most` answers of
                    // each row.
                    unsafe {
                        stream
                            .launch_builder(&top)
                            .arg(&part)
                            .arg(&ranks_at)
                            .arg(&most)
                            .arg(&answers.device_ptr(stream).0)
                            .arg(&counted.device_ptr(stream).0)
                            .launch(config)
                    }
                    .map(drop)
                    .map_err(failed("finding the best pairs"))
                })?;
                let waiting = Instant::now();
                let mut counts = vec![0u32; rows as usize];
                found.resize(rows as usize * most as usize, Answer::default());
                stream.memcpy_dtoh(&answers.slice(..found.len()), &mut found).map_err(&at)?;
                stream.memcpy_dtoh(&counted.slice(..counts.len()), &mut counts).map_err(&at)?;
                stream.synchronize().map_err(&at)?;
                self.seconds.fetch += waiting.elapsed().as_secs_f64();
                for (row, (best, &count)) in
                    (part.first..).zip(found.chunks(most as usize).zip(&counts))
                {
                    pairs.clear();
                    pairs.extend(best[..count as usize].iter().map(|best| best.pair((0, 0))));
                    let rank = |build: SetId| ranks.map_or(build, |ranks| ranks[build as usize]);
                    pairs.sort_unstable_by_key(|pair| {
                        (std::cmp::Reverse(pair.overlap), rank(pair.build))
                    });
                    if consume(row, &pairs).is_break() {
                        return Ok(ControlFlow::Break(()));
                    }
                }
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Counts all pairs and leaves the counts on the device, one tile after the other: for measuring.
    #[doc(hidden)]
    pub fn count_only(&mut self) -> Result<()> {
        let Some(here) = &self.here else { return Ok(()) };
        let tiles = here.tiles(1, TILE, 0, Want::Once)?;
        let bytes = tiles.iter().map(|tile| here.bytes(tile)).max().unwrap_or(0);
        let mut buffer = here.buffer(bytes)?;
        let clock = [timer(&here.device)?, timer(&here.device)?];
        here.timed(&clock, &mut self.seconds.count, || {
            tiles.iter().try_for_each(|tile| here.compute(&mut buffer, tile).map(drop))
        })
    }
}

/// How pairs are selected: tile by tile, with room for so many answers on the device and on the host.
#[derive(Clone, Debug, Default)]
pub(crate) struct SelectionPlan {
    tiles: Vec<TileArgument>,
    most: u64,
}

impl SelectionPlan {
    /// What takes no more bytes on the host than these, and on the device no more than are left.
    pub(crate) fn new(here: &Here<'_>, bytes: u64) -> Result<Self> {
        let columns = here.sides.columns().range.len() as u64;
        let rows = here.sides.rows.range.len() as u64;
        // Room for the answers of one row at least.
        if Selection::ANSWER * columns > bytes {
            let what = "handing on overlaps".into();
            let (needed, limit) = (Selection::ANSWER * columns, bytes);
            return Err(Error::Memory { what, needed, limit, device: false });
        }
        let least = u64::from(ROWS) * padded(columns as usize) * u64::from(here.width);
        let spare = here.spare.saturating_sub(least + 8 * (rows + 1) + SMALL) / 2;
        let on_device = ANSWERS.min(spare) / size_of::<Answer>() as u64;
        let most = (ANSWERS.min(bytes) / Selection::ANSWER).min(on_device).max(columns);
        let beside = size_of::<Answer>() as u64 * most + 8 * (rows + 1) + SMALL;
        Ok(SelectionPlan { tiles: here.tiles(1, TILE, beside, Want::Once)?, most })
    }

    pub(crate) fn tiles(&self) -> usize {
        self.tiles.len()
    }
}

/// Finds the pairs of tiles that satisfy a predicate.
pub(crate) struct Selection {
    plan: SelectionPlan,
    buffer: CudaSlice<u8>,
    select: CudaFunction,
    predicate: DevicePredicate,
    answers: CudaSlice<Answer>,
    stand_for: CudaSlice<u64>,
    found: Vec<Answer>,
    pairs: Vec<SetPair>,
    clock: [CudaEvent; 2],
    device: Arc<Device>,
}

impl Selection {
    /// Bytes on the host for an answer.
    pub(crate) const ANSWER: u64 = (size_of::<Answer>() + size_of::<SetPair>()) as u64;

    pub(crate) fn new(here: &Here<'_>, bounds: &Bounds, plan: &SelectionPlan) -> Result<Self> {
        let at = failed("making room for pairs");
        let stream = &here.stream;
        let largest = plan.tiles.iter().map(|tile| here.bytes(tile)).max().unwrap_or(0);
        Ok(Selection {
            plan: plan.clone(),
            buffer: here.buffer(largest)?,
            select: here.function("select")?,
            predicate: DevicePredicate::new(bounds),
            // SAFETY: nothing is read before it was written.
            answers: unsafe { stream.alloc(plan.most as usize) }.map_err(&at)?,
            stand_for: stream.alloc_zeros(1).map_err(&at)?,
            found: Vec::new(),
            pairs: Vec::new(),
            clock: [timer(&here.device)?, timer(&here.device)?],
            device: here.device.clone(),
        })
    }

    /// How many pairs of sets a tile has, at most.
    pub(crate) fn compared(&self, tile: usize) -> u64 {
        let TileArgument { rows, columns, .. } = self.plan.tiles[tile];
        u64::from(rows) * u64::from(columns)
    }

    /// Counts the overlaps of a tile, and the pairs of each of its rows.
    fn begin(
        &mut self,
        here: &Here<'_>,
        tile: usize,
        seconds: &mut OverlapSeconds,
    ) -> Result<(TileArgument, CudaSlice<u64>)> {
        let at = failed("selecting pairs");
        let tile = here.timed(&self.clock, &mut seconds.count, || {
            here.compute(&mut self.buffer, &self.plan.tiles[tile])
        })?;
        let places = here.stream.alloc_zeros::<u64>(tile.rows as usize + 1).map_err(&at)?;
        here.stream.memset_zeros(&mut self.stand_for).map_err(&at)?;
        here.timed(&self.clock, &mut seconds.select, || {
            self.launch(here, &tile, 0..tile.rows, &places, 0)
        })?;
        Ok((tile, places))
    }

    fn launch(
        &self,
        here: &Here<'_>,
        tile: &TileArgument,
        rows: Range<u32>,
        places: &CudaSlice<u64>,
        answers: sys::CUdeviceptr,
    ) -> Result<()> {
        let (row_sets, column_sets) = here.sets();
        let stream = &here.stream;
        // SAFETY: the arguments are those of the kernel; there is a place for each row, and room for as many
        // answers as were counted in these rows.
        unsafe {
            stream
                .launch_builder(&self.select)
                .arg(&row_sets)
                .arg(&column_sets)
                .arg(tile)
                .arg(&rows.start)
                .arg(&self.predicate)
                .arg(&places.device_ptr(stream).0)
                .arg(&answers)
                .arg(&self.stand_for.device_ptr(stream).0)
                .launch(LaunchConfig { grid_dim: (rows.len() as u32, 1, 1), ..grid(1) })
        }
        .map(drop)
        .map_err(failed("selecting pairs"))
    }

    /// For how many pairs of rows of the input the pairs of a tile stand.
    pub(crate) fn count(
        &mut self,
        here: &Here<'_>,
        tile: usize,
        seconds: &mut OverlapSeconds,
    ) -> Result<u64> {
        let at = failed("counting pairs");
        self.begin(here, tile, seconds)?;
        let mut rows = [0];
        here.stream.memcpy_dtoh(&self.stand_for, &mut rows).map_err(&at)?;
        here.stream.synchronize().map_err(&at)?;
        Ok(rows[0])
    }

    /// Hands on the pairs of a tile.
    pub(crate) fn pairs(
        &mut self,
        here: &Here<'_>,
        tile: usize,
        seconds: &mut OverlapSeconds,
        consume: &mut dyn FnMut(&[SetPair]) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>> {
        let at = failed("fetching pairs");
        let stream = &here.stream;
        let (tile, mut places) = self.begin(here, tile, seconds)?;
        let rows = tile.rows as usize;
        let mut ends = vec![0u64; rows + 1];
        stream.memcpy_dtoh(&places, &mut ends).map_err(&at)?;
        stream.synchronize().map_err(&at)?;
        // Where the pairs of each row begin.
        let mut sum = 0;
        for place in &mut ends {
            (*place, sum) = (sum, sum + *place);
        }
        stream.memcpy_htod(&ends, &mut places).map_err(&at)?;
        let firsts = (here.sides.rows.range.start, here.sides.columns().range.start);
        let mut first = 0;
        while first < rows {
            // As many rows as there is room for.
            let room = ends[first] + self.plan.most;
            let end = first + ends[first + 1..].partition_point(|&end| end <= room);
            let count = (ends[end] - ends[first]) as usize;
            if count > 0 {
                let to = self.answers.device_ptr(stream).0;
                here.timed(&self.clock, &mut seconds.select, || {
                    self.launch(here, &tile, first as u32..end as u32, &places, to)
                })?;
                let waiting = Instant::now();
                self.found.resize(count, Answer::default());
                stream.memcpy_dtoh(&self.answers.slice(..count), &mut self.found).map_err(&at)?;
                stream.synchronize().map_err(&at)?;
                seconds.fetch += waiting.elapsed().as_secs_f64();
                self.pairs.clear();
                self.pairs.extend(self.found.iter().map(|answer| answer.pair(firsts)));
                if consume(&self.pairs).is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
            first = end;
        }
        Ok(ControlFlow::Continue(()))
    }
}

impl Drop for Selection {
    fn drop(&mut self) {
        self.device.make_current();
    }
}

impl Drop for Here<'_> {
    fn drop(&mut self) {
        self.device.make_current();
    }
}

/// Bytes as counts of a width.
fn as_counts(bytes: &[u8], width: u32) -> Counts<'_> {
    // SAFETY: pinned memory begins at a page, and any bytes are numbers.
    unsafe {
        match width {
            1 => Counts::U8(bytes),
            2 => Counts::U16(std::slice::from_raw_parts(bytes.as_ptr().cast(), bytes.len() / 2)),
            _ => Counts::U32(std::slice::from_raw_parts(bytes.as_ptr().cast(), bytes.len() / 4)),
        }
    }
}

/// A stream that is waited for when it goes, so that memory which it writes to may go after it.
struct Drained(Arc<Device>, Arc<CudaStream>);

impl Drop for Drained {
    fn drop(&mut self) {
        self.0.drain(&self.1);
    }
}

/// What decides how many tokens are frequent.
struct Scale {
    pairs: f64,
    /// Seconds for each pair and bit.
    bit: f64,
    /// Sets that have bits.
    sets: u64,
    /// Tokens that are not lonely.
    tokens: u32,
    spare: u64,
    /// Entries of lists, and how often rows meet them, by classes of tokens: the 512 most frequent, the
    /// next 512, the next 1,024 and so on.
    entries: [u64; 32],
    meetings: [u64; 32],
}

impl Scale {
    /// Entries of lists if tokens up to this class have bits.
    fn entries_beside(&self, class: Option<usize>) -> u64 {
        self.entries.iter().skip(class.map_or(0, |class| class + 1)).sum()
    }

    /// The last class of which so many frequent tokens hold all.
    fn class_within(&self, frequent: u32) -> Option<usize> {
        if frequent == self.tokens {
            return Some(self.entries.len());
        }
        (frequent / STEP).checked_ilog2().map(|class| class as usize)
    }

    fn bytes(&self, frequent: u32, class: Option<usize>) -> u64 {
        self.sets * u64::from(frequent.next_multiple_of(STEP)) / 8 + 4 * self.entries_beside(class)
    }

    /// How many tokens are best given bits, and the last class of them; `None` where nothing fits.
    fn choose(&self) -> Option<(u32, Option<usize>)> {
        let classes = std::iter::once(None).chain((0..32).map(Some));
        let choices = classes.map_while(|class| {
            let frequent = class.map_or(0, |class| u64::from(STEP) << class);
            let last = class.map_or(0, |class| u64::from(STEP) << class >> 1);
            // Beyond the first that holds all tokens there is nothing.
            (class.is_none_or(|class| class == 0) || last < u64::from(self.tokens))
                .then(|| (frequent.min(self.tokens.into()) as u32, class))
        });
        let cost = |(frequent, class): &(u32, Option<usize>)| {
            let met: u64 = self.meetings.iter().skip(class.map_or(0, |class| class + 1)).sum();
            let bits = frequent.next_multiple_of(STEP);
            self.pairs * f64::from(bits) * self.bit + met as f64 / WALK
        };
        choices
            .filter(|&(frequent, class)| self.bytes(frequent, class) <= self.spare)
            .min_by(|a, b| cost(a).total_cmp(&cost(b)))
    }
}

impl<'a> Here<'a> {
    /// Sends sets and prepares them; no side may be empty.
    pub(crate) fn new(
        device: &Arc<Device>,
        sides: Sides<'a>,
        technique: OverlapTechnique,
        room: &Budget,
        seconds: &mut OverlapSeconds,
    ) -> Result<Self> {
        let at = failed("preparing to count overlaps");
        let begin = Instant::now();
        let width = sides.width();
        let tensor = technique != OverlapTechnique::Bitmap && device.info.multiplies_bits();
        let stages = if device.info.capability.0 >= 8 { 3 } else { 2 };
        let Sides { rows, columns, limits } = &sides;
        let universe = rows.sets.universe();
        let lonely = rows.sets.lonely_tokens();
        let tokens = universe - lonely;
        let (fixed, tile) = sides.least_bytes(technique.look_up().is_none());
        let limit = room.device_bytes.min(device.free_memory()?);
        let spare = limit.saturating_sub(fixed + tile);
        let too_much = |more: u64| {
            let what = format!("counting overlaps by {} on the GPU", technique.name());
            Err(Error::Memory { what, needed: fixed + tile + more, limit, device: true })
        };
        if limit < fixed + tile {
            return too_much(0);
        }
        let lease = Lease::new(device);
        let sender = Sender::new(device, room)?;
        let send = |side: &Side<'_>| DeviceSets::new(&sender, side.sets, &side.range);
        let row_sets = send(rows)?;
        let column_sets = columns.as_ref().map(send).transpose()?;
        let limits = limits.as_ref().map(|limits| sender.send(limits)).transpose()?;
        let stream = sender.stream;
        stream.synchronize().map_err(&at)?;
        seconds.send += begin.elapsed().as_secs_f64();
        let mut here = Here {
            sides,
            device: device.clone(),
            copies: device.stream()?,
            stream,
            technique,
            defines: defines(width, tensor, stages),
            width,
            row_sets,
            column_sets,
            heavy: universe,
            lonely,
            bits: None,
            lists: None,
            look_up: None,
            limits,
            spare: limit - fixed,
            _lease: lease,
        };
        if let Some(kernel) = technique.look_up() {
            let words = here.words_beside();
            // At least one block must have its memory.
            if 4 * words > spare {
                return too_much(4 * words);
            }
            let fitting = (spare / 2).checked_div(4 * words).unwrap_or(u64::MAX).max(1);
            let blocks = fitting.min(4 * u64::from(device.info.multiprocessors));
            // SAFETY: nothing is read before it was written.
            let beside = unsafe { here.stream.alloc((words * blocks).max(1) as usize) };
            let beside = (words > 0).then(|| beside.map_err(&at)).transpose()?;
            here.look_up = Some(LookUp { kernel, blocks: blocks as u32, words, beside });
            here.spare -= 4 * words * blocks;
            return Ok(here);
        }
        let clock = [timer(device)?, timer(device)?];
        let mut taken = 0;
        here.record(&clock[0])?;
        if tokens > 0 {
            let lengths = here.lengths(tokens)?;
            let scale = here.scale(tokens, spare, tensor, &lengths)?;
            let chosen = match technique {
                OverlapTechnique::Index
                | OverlapTechnique::BitmapDynamic
                | OverlapTechnique::BinarySearch
                | OverlapTechnique::Hash => Some((0, None)),
                OverlapTechnique::Bitmap | OverlapTechnique::Dense => {
                    Some((tokens, scale.class_within(tokens)))
                }
                OverlapTechnique::Combined(None) => scale.choose(),
                OverlapTechnique::Combined(Some(frequent)) => {
                    let frequent = frequent.min(tokens);
                    Some((frequent, scale.class_within(frequent)))
                }
            };
            let Some((frequent, class)) = chosen else { return too_much(scale.bytes(0, None)) };
            taken = scale.bytes(frequent, class);
            if taken > spare {
                return too_much(taken);
            }
            let entries = scale.entries_beside(class);
            if entries > u64::from(u32::MAX) {
                let what = format!("lists of {entries} entries on the GPU");
                let (needed, limit) = (4 * entries, 4 * u64::from(u32::MAX));
                return Err(Error::Memory { what, needed, limit, device: true });
            }
            here.heavy = universe - frequent;
            here.prepare(frequent, entries, lengths)?;
        }
        here.record(&clock[1])?;
        here.stream.synchronize().map_err(&at)?;
        seconds.prepare += f64::from(clock[0].elapsed_ms(&clock[1]).map_err(&at)?) / 1e3;
        here.spare -= taken;
        Ok(here)
    }

    /// Cuts all rows into tiles, `buffers` of which must fit into what memory is left beside something.
    pub(crate) fn tiles(
        &self,
        buffers: u64,
        most: u64,
        beside: u64,
        want: Want,
    ) -> Result<Vec<TileArgument>> {
        let Sides { rows, columns, limits } = &self.sides;
        let (own, before) = (columns.is_none(), want == Want::Once);
        let columns = self.sides.columns().range.len() as u64;
        let rows = rows.range.len() as u64;
        let spare = self.spare.saturating_sub(beside);
        let most = most.min(spare / buffers);
        let width = u64::from(self.width);
        let soon = self.launch_bytes();
        // With more rows there are more columns that the last of them meets.
        let columns_of = |end: u64| {
            let end = end.min(rows);
            let limit = limits.as_ref().map_or(columns, |limits| limits[end as usize - 1].into());
            if own && before { limit.min(end) } else { limit }
        };
        let stride_of = |end: u64| columns_of(end).max(1).next_multiple_of(u64::from(COLUMNS));
        let block = u64::from(ROWS);
        let mut tiles = Vec::new();
        let mut first = 0;
        while first < rows {
            let bytes = |blocks: u64| blocks * block * stride_of(first + blocks * block) * width;
            let mut blocks = (rows - first).div_ceil(block);
            let fits = |blocks: u64| bytes(blocks) <= most.min(soon);
            if !fits(blocks) {
                // The largest that fits; at least one.
                let (mut low, mut high) = (1, blocks);
                while low < high {
                    let half = (low + high).div_ceil(2);
                    (low, high) = if fits(half) { (half, high) } else { (low, half - 1) };
                }
                blocks = low;
            }
            if bytes(blocks) > most {
                let what = "a tile of overlaps".into();
                let (needed, limit) = (buffers * bytes(blocks), spare);
                return Err(Error::Memory { what, needed, limit, device: true });
            }
            let end = rows.min(first + blocks * block);
            let columns = columns_of(end);
            // Rows that meet nothing are in no tile where there are limits.
            let first = std::mem::replace(&mut first, end);
            if columns == 0 && limits.is_some() {
                continue;
            }
            tiles.push(TileArgument {
                counts: 0,
                stride: stride_of(end),
                limits: 0,
                first: first as u32,
                rows: (end - first) as u32,
                columns: columns as u32,
                own: u32::from(own),
                before: u32::from(before),
            });
        }
        Ok(tiles)
    }

    /// Returns the bytes of the counts that a launch of the product makes in the seconds that it may take.
    fn launch_bytes(&self) -> u64 {
        let Some(bits) = &self.bits else { return u64::MAX };
        let info = &self.device.info;
        let rate = if self.defines[1].1 == 1 { PRODUCT } else { POPCOUNT };
        let pairs = info.launch_seconds() * rate * info.multiprocessor_ratio();
        (pairs * 256.0 / f64::from(32 * bits.words.max(1))) as u64 * u64::from(self.width)
    }

    fn universe(&self) -> u32 {
        self.sides.rows.sets.universe()
    }

    fn record(&self, event: &CudaEvent) -> Result<()> {
        event.record(&self.stream).map_err(failed("counting overlaps"))
    }

    /// Launches something, waits for it, and adds the seconds on the device to a sum.
    fn timed<T>(
        &self,
        clock: &[CudaEvent; 2],
        sum: &mut f64,
        launch: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let at = failed("waiting for the device");
        self.record(&clock[0])?;
        let launched = launch()?;
        self.record(&clock[1])?;
        self.stream.synchronize().map_err(&at)?;
        *sum += f64::from(clock[0].elapsed_ms(&clock[1]).map_err(&at)?) / 1e3;
        Ok(launched)
    }

    fn function(&self, name: &str) -> Result<CudaFunction> {
        self.device.function(SOURCE, &self.defines, name)
    }

    fn sets(&self) -> (SetsArgument, SetsArgument) {
        let rows = self.row_sets.argument(&self.stream);
        let columns = self.column_sets.as_ref().map(|sets| sets.argument(&self.stream));
        (rows, columns.unwrap_or(rows))
    }

    /// In how many sets of each side the tokens that are not lonely stand.
    fn lengths(&self, tokens: u32) -> Result<Lengths> {
        let at = failed("counting tokens");
        let count = self.function("count_tokens")?;
        let (row_sets, column_sets) = self.sets();
        let of = |side: &Side<'_>, argument: SetsArgument| {
            let mut lengths = self.stream.alloc_zeros::<u32>(tokens as usize + 1).map_err(&at)?;
            let many = side.range.len() as u32;
            // SAFETY: the arguments are those of the kernel; each token has its number.
            unsafe {
                self.stream
                    .launch_builder(&count)
                    .arg(&argument)
                    .arg(&many)
                    .arg(&self.lonely)
                    .arg(&mut lengths)
                    .launch(grid(32 * u64::from(many)))
                    .map_err(&at)?;
            }
            Ok(lengths)
        };
        let columns = self.sides.columns.as_ref();
        let columns = columns.map(|columns| of(columns, column_sets)).transpose()?;
        Ok(Lengths { rows: of(&self.sides.rows, row_sets)?, columns })
    }

    /// What lists and bits would cost.
    fn scale(&self, tokens: u32, spare: u64, tensor: bool, lengths: &Lengths) -> Result<Scale> {
        let at = failed("counting tokens");
        let weigh = self.function("weigh")?;
        let pointer = |slice: &CudaSlice<u32>| slice.device_ptr(&self.stream).0;
        let of_rows = pointer(&lengths.rows);
        let of_columns = lengths.columns.as_ref().map_or(of_rows, pointer);
        let sums = self.stream.alloc_zeros::<u64>(64).map_err(&at)?;
        let first = sums.device_ptr(&self.stream).0;
        let blocks = LaunchConfig { grid_dim: (528, 1, 1), ..grid(1) };
        // SAFETY: the arguments are those of the kernel, and twice 32 numbers are there.
        unsafe {
            self.stream
                .launch_builder(&weigh)
                .arg(&of_rows)
                .arg(&of_columns)
                .arg(&tokens)
                .arg(&first)
                .arg(&(first + 32 * 8))
                .launch(blocks)
                .map_err(&at)?;
        }
        let mut read = [0u64; 64];
        self.stream.memcpy_dtoh(&sums, &mut read).map_err(&at)?;
        self.stream.synchronize().map_err(&at)?;
        let Sides { rows, columns, .. } = &self.sides;
        let (n, m) = (rows.range.len() as f64, self.sides.columns().range.len() as f64);
        let power = self.device.info.multiprocessor_ratio();
        let mut scale = Scale {
            pairs: if columns.is_some() { n * m } else { n * m / 2.0 },
            bit: 1.0 / (256.0 * power * if tensor { PRODUCT } else { POPCOUNT }),
            sets: padded(rows.range.len())
                + columns.as_ref().map_or(0, |columns| padded(columns.range.len())),
            tokens,
            spare,
            entries: [0; 32],
            meetings: [0; 32],
        };
        scale.entries.copy_from_slice(&read[..32]);
        scale.meetings.copy_from_slice(&read[32..]);
        Ok(scale)
    }

    /// Makes bits of frequent tokens and lists of the others, for which there are so many entries.
    fn prepare(&mut self, frequent: u32, entries: u64, lengths: Lengths) -> Result<()> {
        let at = failed("preparing to count overlaps");
        let stream = self.stream.clone();
        let (row_sets, column_sets) = self.sets();
        if frequent > 0 {
            let words = frequent.next_multiple_of(STEP) / 32;
            let fill = self.function("fill_bits")?;
            let make = |side: &Side<'_>, argument: SetsArgument| {
                let (count, padded) = (side.range.len() as u32, padded(side.range.len()));
                let words_in_all = padded as usize * words as usize;
                // SAFETY: every word is written below.
                let mut bits = unsafe { stream.alloc::<u32>(words_in_all) }.map_err(&at)?;
                // SAFETY: the arguments are those of the kernel, and there are so many words.
                unsafe {
                    stream
                        .launch_builder(&fill)
                        .arg(&argument)
                        .arg(&count)
                        .arg(&(padded as u32))
                        .arg(&self.heavy)
                        .arg(&words)
                        .arg(&mut bits)
                        .launch(grid(32 * padded))
                        .map_err(&at)?;
                }
                Ok(bits)
            };
            let columns = self.sides.columns.as_ref();
            let columns = columns.map(|columns| make(columns, column_sets)).transpose()?;
            let rows = make(&self.sides.rows, row_sets)?;
            self.bits = Some(Bits { rows, columns, words });
        }
        if self.heavy > self.lonely && entries > 0 {
            let ends = lengths.columns.unwrap_or(lengths.rows);
            // SAFETY: nothing is read before it was written.
            let (begins, list) = unsafe {
                (
                    stream.alloc::<u32>(ends.len()).map_err(&at)?,
                    stream.alloc::<u32>(entries as usize).map_err(&at)?,
                )
            };
            self.lists = Some(Lists { begins, ends, entries: list });
            let lists = self.lists_argument();
            let mut taken = stream.alloc_zeros::<u32>(1).map_err(&at)?;
            let count = self.sides.columns().range.len() as u32;
            let (place, fill) = (self.function("place_lists")?, self.function("fill_lists")?);
            // SAFETY: the arguments are those of the kernels; there is an entry for each rare token.
            unsafe {
                stream
                    .launch_builder(&place)
                    .arg(&lists)
                    .arg(&mut taken)
                    .launch(grid(u64::from(self.heavy - self.lonely)))
                    .map_err(&at)?;
                stream
                    .launch_builder(&fill)
                    .arg(&column_sets)
                    .arg(&count)
                    .arg(&lists)
                    .launch(grid(32 * u64::from(count)))
                    .map_err(&at)?;
            }
        }
        stream.synchronize().map_err(&at)
    }

    fn lists_argument(&self) -> ListsArgument {
        let pointer = |slice: &CudaSlice<u32>| slice.device_ptr(&self.stream).0;
        let lists = self.lists.as_ref();
        ListsArgument {
            lonely: self.lonely,
            heavy: self.heavy,
            begins: lists.map_or(0, |lists| pointer(&lists.begins)),
            ends: lists.map_or(0, |lists| pointer(&lists.ends)),
            entries: lists.map_or(0, |lists| pointer(&lists.entries)),
        }
    }

    /// Words that a block needs beside shared memory where rows are looked up.
    fn words_beside(&self) -> u64 {
        let words = match self.technique {
            OverlapTechnique::BitmapDynamic => u64::from(self.universe()).div_ceil(32),
            OverlapTechnique::Hash => (2 * u64::from(self.sides.rows.size(0))).next_power_of_two(),
            _ => 0,
        };
        if words > u64::from(LOOK_UP_ROOM) { words } else { 0 }
    }

    fn bytes(&self, tile: &TileArgument) -> u64 {
        u64::from(tile.rows.next_multiple_of(ROWS)) * tile.stride * u64::from(self.width)
    }

    fn buffer(&self, bytes: u64) -> Result<CudaSlice<u8>> {
        // SAFETY: what is read was written before.
        unsafe { self.stream.alloc::<u8>(bytes.max(1) as usize) }
            .map_err(failed("making room for overlaps"))
    }

    /// Launches what counts the overlaps of a tile into a buffer.
    fn compute(&self, buffer: &mut CudaSlice<u8>, tile: &TileArgument) -> Result<TileArgument> {
        let at = failed("counting overlaps");
        let stream = &self.stream;
        let limits = self.limits.as_ref().map_or(0, |limits| limits.device_ptr(stream).0);
        let tile = TileArgument { counts: buffer.device_ptr(stream).0, limits, ..*tile };
        let (row_sets, _) = self.sets();
        if let Some(look_up) = &self.look_up {
            self.look_up(look_up, &tile)?;
            return Ok(tile);
        }
        match &self.bits {
            Some(bits) => {
                let product = self.function("product")?;
                let shared = self.defines[2].1 * (ROWS + COLUMNS) * STEP / 8;
                product
                    .set_attribute(
                        sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                        shared as i32,
                    )
                    .map_err(failed("asking for shared memory"))?;
                let (row_blocks, column_blocks) =
                    (tile.rows.div_ceil(ROWS), tile.columns.div_ceil(COLUMNS));
                // SAFETY: the arguments are those of the kernel; there are bits for all rows and columns
                // of its blocks, and the tile has room for them.
                unsafe {
                    stream
                        .launch_builder(&product)
                        .arg(&bits.rows)
                        .arg(bits.columns.as_ref().unwrap_or(&bits.rows))
                        .arg(&bits.words)
                        .arg(&row_blocks)
                        .arg(&column_blocks)
                        .arg(&tile)
                        .launch(LaunchConfig {
                            grid_dim: (row_blocks * column_blocks, 1, 1),
                            block_dim: (THREADS, 1, 1),
                            shared_mem_bytes: shared,
                        })
                        .map_err(&at)?;
                }
            }
            None => {
                let bytes = self.bytes(&tile) as usize;
                stream.memset_zeros(&mut buffer.slice_mut(..bytes)).map_err(&at)?;
            }
        }
        if self.lists.is_some() {
            let walk = self.function("walk_lists")?;
            // SAFETY: the arguments are those of the kernel, which adds to counts of the tile's rows.
            unsafe {
                stream
                    .launch_builder(&walk)
                    .arg(&row_sets)
                    .arg(&self.lists_argument())
                    .arg(&tile)
                    .launch(LaunchConfig { grid_dim: (tile.rows, 1, 1), ..grid(1) })
                    .map_err(&at)?;
            }
        }
        Ok(tile)
    }

    fn look_up(&self, how: &LookUp, tile: &TileArgument) -> Result<()> {
        let at = failed("counting overlaps");
        let stream = &self.stream;
        let (rows, columns) = self.sets();
        let mut next = stream.alloc_zeros::<u32>(1).map_err(&at)?;
        let beside = how.beside.as_ref().map_or(0, |beside| beside.device_ptr(stream).0);
        let kernel = self.function(how.kernel)?;
        // SAFETY: the arguments are those of the kernel; each block has so many words, in shared memory or
        // beside it.
        unsafe {
            stream
                .launch_builder(&kernel)
                .arg(&rows)
                .arg(&columns)
                .arg(tile)
                .arg(&self.universe())
                .arg(&LOOK_UP_ROOM)
                .arg(&beside)
                .arg(&how.words)
                .arg(&mut next)
                .launch(LaunchConfig {
                    grid_dim: (how.blocks.min(tile.rows), 1, 1),
                    block_dim: (THREADS, 1, 1),
                    shared_mem_bytes: 4 * LOOK_UP_ROOM,
                })
                .map_err(&at)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_for_techniques() {
        for technique in OverlapTechnique::ALL {
            assert_eq!(OverlapTechnique::named(technique.name()), Some(technique));
        }
        assert_eq!(OverlapTechnique::named("ip"), None);
    }

    fn scale(tokens: u32, spare: u64, entries: [u64; 32], meetings: [u64; 32]) -> Scale {
        let (pairs, bit) = (1e10, 1.0 / (256.0 * PRODUCT));
        Scale { pairs, bit, sets: 100_352, tokens, spare, entries, meetings }
    }

    #[test]
    fn frequent_tokens_are_those_that_cost_less_as_bits() {
        // Every class of tokens meets a tenth of what the class before meets.
        let mut meetings = [0; 32];
        let mut many = 1_000_000_000_000;
        for class in &mut meetings[..12] {
            (*class, many) = (many, many / 10);
        }
        let entries = meetings.map(|many| many / 1000);
        let (frequent, class) = scale(1_000_000, u64::MAX, entries, meetings).choose().unwrap();
        assert!((1024..32_768).contains(&frequent), "{frequent}");
        assert_eq!(frequent, STEP << class.unwrap());
        // Where nothing meets, no bits are worth it; where everything does, all are.
        let none = scale(1_000_000, u64::MAX, entries, [0; 32]).choose().unwrap();
        assert_eq!(none, (0, None));
        let all = scale(700, u64::MAX, entries, [1 << 50; 32]).choose().unwrap();
        assert_eq!(all.0, 700);
        // Bits that do not fit are not chosen.
        let some = scale(1 << 20, 100_352 * 256, [0; 32], [1 << 50; 32]).choose().unwrap();
        assert_eq!(some.0, 2048);
        assert!(scale(700, 10, [1000; 32], meetings).choose().is_none());
    }

    #[test]
    fn classes_hold_what_is_frequent() {
        let scale = scale(5000, 0, [1; 32], [1; 32]);
        assert_eq!(scale.class_within(511), None);
        assert_eq!(scale.class_within(512), Some(0));
        assert_eq!(scale.class_within(1023), Some(0));
        assert_eq!(scale.class_within(1024), Some(1));
        assert_eq!(scale.entries_beside(scale.class_within(1024)), 30);
        assert_eq!(scale.entries_beside(scale.class_within(5000)), 0);
        assert_eq!(scale.entries_beside(None), 32);
    }
}
