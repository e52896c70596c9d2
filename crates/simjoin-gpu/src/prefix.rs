//! `gpu-prefix`: which sets share a rare token early enough, found and verified on the device?
//!
//! The prefix index of HySet and fgssjoin, in blocks: the build sets are cut into blocks of neighbouring
//! sizes, and for one block after the other the lists are made on the device and walked by all probes
//! that reach it. Neither a matrix of pairs nor a counter per pair is held: an entry of a list
//! survives by itself, and a pair is answered for the first token that it shares.
//!
//! # Flow
//!
//! ```text
//! block of build sets ─► lists of their prefixes ─► entries that a probe meets ─► survivors ─► merge ─► host
//!                        (count, place, fill)        (length, position, 64-bit     (a buffer)   (exact)
//!                                                     signature of what follows)
//! ```
//!
//! # Exactness
//!
//! Two sets that satisfy the bounds share a token within both prefixes ([`reaches`],
//! [`build_prefixes`]); take the first. No common token stands before it, so what the pair shares is
//! shared from there on: the rests must be long enough, and their parity signatures differ in no more
//! bits than tokens may go without a partner. So this entry survives. Others of the same pair may, but
//! the merge sees which token is the first, and only its entry is answered; the decision is made in
//! integers. A full buffer loses nothing: a warp that finds no room notes where it stopped, and goes on
//! from there once the buffer is empty.
//!
//! # Memory
//!
//! On the device 4 bytes a token, 16 a set, 12 for each 256 prefix tokens of a probe, 8 for each token of
//! the universe that stands in several rows, 16 for each prefix token of a block, and for each worker
//! 2 MiB and 24 bytes for each survivor that it has room for. Blocks become smaller where memory is
//! short.

use crate::device::{Device, failed};
use crate::send::{Plain, Sender};
use crate::sets::{
    Answers, Channel, DeviceSets, Devices, Predicate, Sides, Stages, State, Work, order, sides,
    source,
};
use cudarc::driver::{
    CudaFunction, CudaSlice, CudaStream, DevicePtr, DeviceRepr, LaunchConfig, PushKernelArg, sys,
};
use simjoin_core::{PairSink, Result, SetCollection, SetId, SizeClass};
use simjoin_plan::{
    Cost, Join, Prepared, Reach, Room, Span, Survey, Technique, Tile, Trace, Units, Worker,
    build_prefixes, reaches,
};
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

pub(crate) const SOURCE: &str = source!("kernels/prefix.cu");

/// Streams of work for each device.
const WORKERS: usize = 2;

/// Threads of a block.
const THREADS: u32 = 256;

/// Build sets of a block at least, and blocks at most unless memory is short.
const BLOCK_SETS: usize = 16_384;
const BLOCKS: usize = 16;

/// Entries of a block at most: places in the lists are 32-bit numbers.
const MAX_ENTRIES: u64 = 1 << 31;

/// Blocks where memory is short.
const MANY_BLOCKS: u64 = 500;

/// Prefix tokens that a warp looks at.
const ITEM: u32 = 256;

/// Items of a piece.
const PIECE: usize = 1 << 18;

/// Survivors that a worker has room for, if there is enough memory; and at least.
const SURVIVORS: u64 = 4 << 20;
const LEAST_SURVIVORS: u64 = 1 << 16;

const ENTRY_BYTES: u64 = size_of::<Entry>() as u64;
const SURVIVOR_BYTES: u64 = size_of::<Survivor>() as u64 + Answers::DEVICE_BYTES;

/// A prefix index on devices.
#[derive(Debug)]
pub struct GpuPrefix {
    /// Where it runs.
    pub devices: Vec<Arc<Device>>,
}

impl GpuPrefix {
    fn workers(&self, threads: usize) -> u64 {
        threads.min(WORKERS * self.devices.len()) as u64
    }

    /// Bytes on each device beside entries and survivors.
    fn fixed_bytes(join: &Join<'_>, tile: &Tile, reaches: &[Reach]) -> u64 {
        let bytes = |(sets, range): (&SetCollection, Range<SetId>)| {
            DeviceSets::bytes(sets, &range) + 4 * range.len() as u64
        };
        let items = items_of(reaches);
        let tokens = u64::from(join.build.universe() - join.build.lonely_tokens());
        let tables = 4 * join.build.classes().len() + 8 * join.probe.classes().len();
        sides(join, tile).map(bytes).sum::<u64>()
            + size_of::<Item>() as u64 * items
            + 8 * (tokens + 1)
            + tables as u64
    }

    /// Bytes on the host beside the answers: sets and classes on their way, and items.
    fn host_bytes(tile: &Tile, reaches: &[Reach]) -> u64 {
        let sets = (tile.probes.len() + tile.builds.len()) as u64;
        (4 + DeviceSets::SENDING) * sets + size_of::<Item>() as u64 * items_of(reaches)
    }

    /// Bytes of the progress and the survivors of each worker.
    fn worker_bytes(survivors: u64) -> u64 {
        8 * PIECE as u64 + survivors * SURVIVOR_BYTES
    }
}

/// How many items there are.
fn items_of(reaches: &[Reach]) -> u64 {
    let items = |reach: &Reach| reach.probes.len() as u64 * u64::from(reach.prefix.div_ceil(ITEM));
    reaches.iter().map(items).sum()
}

impl Technique for GpuPrefix {
    fn name(&self) -> &'static str {
        "gpu-prefix"
    }

    fn on_device(&self) -> bool {
        true
    }

    fn cost(&self, survey: &Survey<'_>, _: &Units) -> Option<Cost> {
        let devices = self.devices.len() as f64;
        // Walking lists goes as fast as memory does.
        let power: f64 = self.devices.iter().map(|device| device.info.bandwidth_ratio()).sum();
        let entries = (survey.probe_entries + survey.build_entries) as f64 * survey.live;
        let verified = survey.list_pairs * survey.list_survival[0];
        Some(Cost {
            serial: 5e-3
                + devices * survey.tokens as f64 * 0.15e-9
                + devices * survey.sets as f64 * 5e-9
                + entries * 0.3e-9
                + (survey.list_pairs * 0.01e-9 + verified * (0.15e-9 + 0.01e-9 * survey.mean_size))
                    / power,
            shared: 0.0,
        })
    }

    fn memory_bytes(&self, join: &Join<'_>, tile: &Tile, threads: usize) -> u64 {
        Self::host_bytes(tile, &reaches(join, tile))
            + self.workers(threads) * LEAST_SURVIVORS * Answers::HOST_BYTES
    }

    fn device_bytes(&self, join: &Join<'_>, tile: &Tile, threads: usize) -> u64 {
        let reaches = reaches(join, tile);
        let prefixes = build_prefixes(join, tile, &reaches);
        let longest = prefixes.iter().copied().max().unwrap_or(0);
        let in_class = |class: &SizeClass| {
            u64::from(class.end.min(tile.builds.end))
                .saturating_sub(u64::from(class.start.max(tile.builds.start)))
        };
        let classes = join.build.classes().iter().zip(&prefixes);
        let all: u64 = classes.map(|(class, &prefix)| in_class(class) * u64::from(prefix)).sum();
        Self::fixed_bytes(join, tile, &reaches)
            + ENTRY_BYTES * u64::from(longest).max(all / MANY_BLOCKS)
            + self.workers(threads).min(WORKERS as u64) * Self::worker_bytes(LEAST_SURVIVORS)
    }

    fn prepare<'a>(
        &self,
        join: &Join<'a>,
        tile: &Tile,
        room: &Room,
    ) -> Result<Box<dyn Prepared + 'a>> {
        Ok(Box::new(Listed::new(self, join, tile, room)?))
    }
}

/// An entry of a list: only its size matters here.
#[repr(C)]
#[derive(Clone, Copy)]
struct Entry {
    set: u32,
    position: u32,
    signature: u64,
}

// SAFETY: numbers, laid out as in the kernels.
unsafe impl DeviceRepr for Entry {}

#[repr(C)]
#[derive(Clone, Copy)]
struct Survivor {
    probe: u32,
    build: u32,
    position: u32,
}

// SAFETY: numbers, laid out as in the kernels.
unsafe impl DeviceRepr for Survivor {}

/// A probe and a part of its prefix.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Item {
    probe: u32,
    from: u32,
    to: u32,
}

// SAFETY: numbers, laid out as in the kernels.
unsafe impl DeviceRepr for Item {}
// SAFETY: numbers.
unsafe impl Plain for Item {}

/// What the probes of a size reach, as the device reads it.
#[repr(C)]
#[derive(Clone, Copy)]
struct DeviceReach {
    begin: u32,
    end: u32,
}

// SAFETY: numbers, laid out as in the kernels.
unsafe impl DeviceRepr for DeviceReach {}

/// The lists as a kernel takes them.
#[repr(C)]
#[derive(Clone, Copy)]
struct ListsArgument {
    lonely: u32,
    top: u32,
    begins: sys::CUdeviceptr,
    ends: sys::CUdeviceptr,
    entries: sys::CUdeviceptr,
}

// SAFETY: numbers and addresses, laid out as in the kernels.
unsafe impl DeviceRepr for ListsArgument {}

/// A device with all that it needs.
struct Here {
    device: Arc<Device>,
    stream: Arc<CudaStream>,
    kernels: Kernels,
    sides: Sides<Side>,
    reaches: CudaSlice<DeviceReach>,
    prefixes: CudaSlice<u32>,
    items: CudaSlice<Item>,
    begins: CudaSlice<u32>,
    ends: CudaSlice<u32>,
    entries: CudaSlice<Entry>,
}

struct Side {
    sets: DeviceSets,
    /// The size class of each set.
    classes: CudaSlice<u32>,
}

struct Kernels {
    count: CudaFunction,
    place: CudaFunction,
    fill: CudaFunction,
    probe: CudaFunction,
    verify: CudaFunction,
}

struct Listed<'a> {
    join: Join<'a>,
    devices: Devices<Here>,
    predicate: Predicate,
    order: u32,
    reaches: Vec<Reach>,
    /// Blocks of build sets, one a round.
    blocks: Vec<Range<SetId>>,
    /// Where the items of each probe class begin.
    class_items: Vec<usize>,
    /// This round's block, and its pieces, in items.
    block: Range<SetId>,
    pieces: Vec<Range<usize>>,
    survivors: usize,
    room: Room,
}

impl<'a> Listed<'a> {
    fn new(technique: &GpuPrefix, join: &Join<'a>, tile: &Tile, room: &Room) -> Result<Self> {
        let reaches = reaches(join, tile);
        let prefixes = build_prefixes(join, tile, &reaches);
        let workers = technique.workers(room.threads).max(1);
        let on_one = workers.min(WORKERS as u64);
        // Half of what is left is for the entries of a block, half for survivors.
        let spare = room.device_bytes.saturating_sub(GpuPrefix::fixed_bytes(join, tile, &reaches));
        let least = on_one * GpuPrefix::worker_bytes(LEAST_SURVIVORS);
        let entries = (spare.saturating_sub(least) / ENTRY_BYTES).min(MAX_ENTRIES);
        let entries =
            if spare / 2 > least { entries.min(spare / 2 / ENTRY_BYTES) } else { entries };
        let blocks = blocks(join, tile, &prefixes, entries);
        let longest = blocks.iter().map(|(_, entries)| *entries).max().unwrap_or(0);
        let spare = spare.saturating_sub(longest * ENTRY_BYTES) / on_one;
        let on_device = spare.saturating_sub(8 * PIECE as u64) / SURVIVOR_BYTES;
        let on_host = room.bytes.saturating_sub(GpuPrefix::host_bytes(tile, &reaches))
            / (workers * Answers::HOST_BYTES);
        let survivors = on_device.min(on_host).clamp(LEAST_SURVIVORS, SURVIVORS);
        // Where the items of each class begin.
        let mut class_items = vec![0];
        for reach in &reaches {
            let items = reach.probes.len() * reach.prefix.div_ceil(ITEM) as usize;
            class_items.push(class_items[class_items.len() - 1] + items);
        }
        let here = |device: &Arc<Device>| {
            let needs = Needs {
                reaches: &reaches,
                prefixes: &prefixes,
                class_items: &class_items,
                entries: longest,
            };
            Here::new(device, join, tile, room, &needs)
        };
        Ok(Listed {
            join: *join,
            devices: Devices::new(&technique.devices, room, here)?,
            predicate: Predicate::new(&join.bounds),
            order: order(join, tile),
            reaches,
            blocks: blocks.into_iter().map(|(block, _)| block).collect(),
            class_items,
            block: 0..0,
            pieces: Vec::new(),
            survivors: survivors as usize,
            room: *room,
        })
    }
}

/// Cuts the build sets that any probe reaches into blocks; how many entries each has.
fn blocks(join: &Join<'_>, tile: &Tile, prefixes: &[u32], most: u64) -> Vec<(Range<SetId>, u64)> {
    let sets = BLOCK_SETS.max(tile.builds.len().div_ceil(BLOCKS)) as u64;
    let mut blocks: Vec<(Range<SetId>, u64)> = Vec::new();
    for (class, &prefix) in join.build.classes().iter().zip(prefixes) {
        let prefix = u64::from(prefix);
        let (mut start, end) = (class.start.max(tile.builds.start), class.end.min(tile.builds.end));
        if prefix == 0 {
            continue;
        }
        while start < end {
            let room = |block: &Range<SetId>, entries: u64| {
                let by_entries = most.saturating_sub(entries) / prefix;
                by_entries.min(sets.saturating_sub(block.len() as u64))
            };
            let last = blocks
                .last_mut()
                .filter(|(block, entries)| block.end == start && room(block, *entries) > 0);
            let (block, entries) = match last {
                Some(last) => last,
                None => {
                    blocks.push((start..start, 0));
                    blocks.last_mut().expect("just pushed")
                }
            };
            // At least one set: there is memory for the largest.
            let taken = room(block, *entries).clamp(1, u64::from(end - start)) as u32;
            block.end += taken;
            *entries += u64::from(taken) * prefix;
            start = block.end;
        }
    }
    blocks
}

/// What a device needs beside the sets.
struct Needs<'a> {
    reaches: &'a [Reach],
    prefixes: &'a [u32],
    /// Where the items of each probe class begin.
    class_items: &'a [usize],
    /// Entries of the largest block.
    entries: u64,
}

/// Sends the items of all probes: class by class, set by set, a few tokens of its prefix each.
fn send_items(
    sender: &Sender,
    reaches: &[Reach],
    class_items: &[usize],
    first: SetId,
) -> Result<CudaSlice<Item>> {
    let count = class_items[class_items.len() - 1];
    // An array on the device has at least one element.
    sender.send_with(count.max(1), |start, out: &mut [Item]| {
        if count == 0 {
            return out.fill(Item::default());
        }
        let mut class = class_items.partition_point(|&begin| begin <= start) - 1;
        let mut place = start - class_items[class];
        for item in out {
            while place == class_items[class + 1] - class_items[class] {
                (class, place) = (class + 1, 0);
            }
            let Reach { probes, prefix, .. } = &reaches[class];
            let each = prefix.div_ceil(ITEM) as usize;
            let probe = probes.start + (place / each) as SetId - first;
            let from = (place % each) as u32 * ITEM;
            *item = Item { probe, from, to: (*prefix).min(from + ITEM) };
            place += 1;
        }
    })
}

impl Here {
    fn new(
        device: &Arc<Device>,
        join: &Join<'_>,
        tile: &Tile,
        room: &Room,
        needs: &Needs<'_>,
    ) -> Result<Self> {
        let Needs { reaches, prefixes, class_items, entries } = *needs;
        let at = failed("sending sets to the device");
        let sender = Sender::new(device, room)?;
        let sides = Sides::new(join, tile, |sets, range| {
            let classes = sender.send_with(range.len(), |start, out: &mut [u32]| {
                for (set, class) in (range.start + start as SetId..).zip(out) {
                    *class = sets.class_of(set);
                }
            })?;
            Ok(Side { sets: DeviceSets::new(&sender, sets, range)?, classes })
        })?;
        let items = send_items(&sender, reaches, class_items, sides.probes().sets.first)?;
        let first = sides.builds().sets.first;
        let reach = |reach: &Reach| DeviceReach {
            begin: reach.builds.start.saturating_sub(first),
            end: reach.builds.end.saturating_sub(first),
        };
        let reaches: Vec<DeviceReach> = reaches.iter().map(reach).collect();
        let tokens = (join.build.universe() - join.build.lonely_tokens()) as usize + 1;
        let stream = sender.stream;
        let kernel = |name| device.function(SOURCE, &[], name);
        // SAFETY: nothing is read before it was written.
        let (begins, ends, entries) = unsafe {
            (
                stream.alloc(tokens).map_err(&at)?,
                stream.alloc(tokens).map_err(&at)?,
                stream.alloc(entries.max(1) as usize).map_err(&at)?,
            )
        };
        let here = Here {
            device: device.clone(),
            kernels: Kernels {
                count: kernel("count_entries")?,
                place: kernel("place_lists")?,
                fill: kernel("fill_lists")?,
                probe: kernel("probe_lists")?,
                verify: kernel("verify")?,
            },
            sides,
            reaches: stream.clone_htod(&reaches).map_err(&at)?,
            prefixes: stream.clone_htod(prefixes).map_err(&at)?,
            items,
            begins,
            ends,
            entries,
            stream,
        };
        here.stream.synchronize().map_err(&at)?;
        Ok(here)
    }

    fn lists(&self, join: &Join<'_>, stream: &CudaStream) -> ListsArgument {
        ListsArgument {
            lonely: join.build.lonely_tokens(),
            top: join.build.universe().saturating_sub(1),
            begins: self.begins.device_ptr(stream).0,
            ends: self.ends.device_ptr(stream).0,
            entries: self.entries.device_ptr(stream).0,
        }
    }

    /// Makes the lists of a block.
    fn list(&mut self, join: &Join<'_>, block: &Range<SetId>) -> Result<()> {
        let at = failed("making lists");
        let stream = self.stream.clone();
        stream.memset_zeros(&mut self.ends).map_err(&at)?;
        let mut taken = stream.clone_htod(&[0u32]).map_err(&at)?;
        let lists = self.lists(join, &stream);
        let tokens = join.build.universe() - join.build.lonely_tokens();
        let Side { sets, classes } = self.sides.builds();
        let (from, to) = (block.start - sets.first, block.end - sets.first);
        let builds = sets.argument(&stream);
        let grid = |threads: u64| LaunchConfig {
            grid_dim: (threads.div_ceil(u64::from(THREADS)).max(1) as u32, 1, 1),
            block_dim: (THREADS, 1, 1),
            shared_mem_bytes: 0,
        };
        let by_sets = |kernel: &CudaFunction| {
            // SAFETY: the arguments are those of the kernel, and the buffers as long as it takes them.
            unsafe {
                stream
                    .launch_builder(kernel)
                    .arg(&builds)
                    .arg(classes)
                    .arg(&self.prefixes)
                    .arg(&from)
                    .arg(&to)
                    .arg(&lists)
                    .launch(grid(32 * block.len() as u64))
                    .map_err(&at)
            }
        };
        by_sets(&self.kernels.count)?;
        // SAFETY: as above.
        unsafe {
            stream
                .launch_builder(&self.kernels.place)
                .arg(&lists)
                .arg(&tokens)
                .arg(&mut taken)
                .launch(grid(u64::from(tokens)))
                .map_err(&at)?;
        }
        by_sets(&self.kernels.fill)?;
        stream.synchronize().map_err(&at)
    }
}

impl Prepared for Listed<'_> {
    fn rounds(&self) -> usize {
        self.blocks.len()
    }

    fn begin(&mut self, round: usize) -> Result<()> {
        let block = self.blocks[round].clone();
        for here in self.devices.iter_mut() {
            here.list(&self.join, &block)?;
        }
        // What probes reach rises with their size, so those that reach the block are neighbours.
        let reaches = |reach: &Reach| {
            reach.pairs > 0 && reach.builds.start < block.end && reach.builds.end > block.start
        };
        let first = self.reaches.iter().position(reaches);
        let last = self.reaches.iter().rposition(reaches);
        self.pieces.clear();
        if let (Some(first), Some(last)) = (first, last) {
            let items = self.class_items[first]..self.class_items[last + 1];
            let starts = items.clone().step_by(PIECE);
            self.pieces.extend(starts.map(|start| start..items.end.min(start + PIECE)));
        }
        self.block = block;
        Ok(())
    }

    fn pieces(&self) -> usize {
        self.pieces.len()
    }

    fn workers(&self) -> usize {
        WORKERS * self.devices.len()
    }

    fn worker<'a>(&'a self) -> Result<Box<dyn Worker + 'a>> {
        let here = self.devices.deal();
        let at = failed("making the buffers of a worker");
        let channel = Channel::new(&here.device, self.survivors, &self.room)?;
        // SAFETY: nothing is read before it was written.
        let (survivors, progress) = unsafe {
            let stream = &channel.stream;
            (stream.alloc(self.survivors).map_err(&at)?, stream.alloc(PIECE).map_err(&at)?)
        };
        Ok(Box::new(ListWorker { listed: self, here, channel, survivors, progress, verified: 0 }))
    }

    fn spans(&mut self) -> Vec<Span> {
        self.devices.spans()
    }
}

struct ListWorker<'a> {
    listed: &'a Listed<'a>,
    here: &'a Here,
    channel: Channel,
    survivors: CudaSlice<Survivor>,
    /// Where each item of the piece is to go on: a token and an entry.
    progress: CudaSlice<u64>,
    verified: u64,
}

impl Stages for ListWorker<'_> {
    /// Items.
    type Piece = Range<usize>;

    fn channel(&mut self) -> &mut Channel {
        &mut self.channel
    }

    fn filter(&mut self, items: &mut Range<usize>) -> Result<State> {
        let (listed, here) = (self.listed, self.here);
        let (probes, builds) = (here.sides.probes(), here.sides.builds());
        let count = items.len() as u32;
        let first = builds.sets.first;
        let (from, to) = (listed.block.start - first, listed.block.end - first);
        let capacity = self.survivors.len() as u32;
        let (survivors, progress) = (&mut self.survivors, &mut self.progress);
        let state = self.channel.timed(Work::Filter, |channel| {
            let stream = &channel.stream;
            // SAFETY: the arguments are those of the kernel, and the buffers as long as it takes them.
            unsafe {
                stream
                    .launch_builder(&here.kernels.probe)
                    .arg(&probes.sets.argument(stream))
                    .arg(&probes.classes)
                    .arg(&here.reaches)
                    .arg(&builds.sets.argument(stream))
                    .arg(&here.lists(&listed.join, stream))
                    .arg(&here.items.slice(items.clone()))
                    .arg(&count)
                    .arg(progress)
                    .arg(&from)
                    .arg(&to)
                    .arg(&listed.predicate)
                    .arg(&listed.order)
                    .arg(survivors)
                    .arg(&capacity)
                    .arg(&mut channel.state)
                    .launch(LaunchConfig {
                        grid_dim: ((32 * count).div_ceil(THREADS), 1, 1),
                        block_dim: (THREADS, 1, 1),
                        shared_mem_bytes: 0,
                    })
                    .map_err(failed("walking lists"))?;
            }
            Ok(())
        })?;
        self.channel.log.trace.compared += state.walked;
        Ok(state)
    }

    fn verify(&mut self, count: u32, sink: &mut dyn PairSink) -> Result<ControlFlow<()>> {
        let here = self.here;
        let (probes, builds) = (&here.sides.probes().sets, &here.sides.builds().sets);
        self.verified += u64::from(count);
        let survivors = &self.survivors;
        let predicate = &self.listed.predicate;
        let state = self.channel.timed(Work::Verify, |channel| {
            let stream = &channel.stream;
            let answers = channel.answers.argument(stream, sink.only_counts());
            // SAFETY: as above.
            unsafe {
                stream
                    .launch_builder(&here.kernels.verify)
                    .arg(&probes.argument(stream))
                    .arg(&builds.argument(stream))
                    .arg(survivors)
                    .arg(&count)
                    .arg(predicate)
                    .arg(&answers)
                    .arg(&mut channel.state)
                    .launch(LaunchConfig {
                        grid_dim: (count.div_ceil(128), 1, 1),
                        block_dim: (128, 1, 1),
                        shared_mem_bytes: 0,
                    })
                    .map_err(failed("verifying"))?;
            }
            Ok(())
        })?;
        self.channel.hand_on(&state, (probes.first, builds.first), sink)
    }
}

impl Worker for ListWorker<'_> {
    fn run(&mut self, piece: usize, sink: &mut dyn PairSink) -> Result<ControlFlow<()>> {
        let items = self.listed.pieces[piece].clone();
        let progress = &mut self.progress;
        self.channel.stream.memset_zeros(progress).map_err(failed("walking lists"))?;
        self.both(items, sink)
    }

    fn candidates(&self) -> u64 {
        self.verified
    }

    fn trace(&self) -> Trace {
        self.channel.log.trace
    }

    fn spans(&mut self) -> Vec<Span> {
        self.channel.log.take()
    }
}
