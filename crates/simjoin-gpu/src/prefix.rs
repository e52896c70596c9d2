//! `gpu-prefix`: which sets share a rare token early enough, found and verified on the device?
//!
//! The prefix index of HySet and fgssjoin: lists are made on the device and walked by all probes. A list
//! has sections, which hold sets of neighbouring sizes, so that a probe walks little beyond what it may meet.
//! Where memory is short, the build sets are cut into blocks, and the lists of one block are made after the
//! other's. Neither a matrix of pairs nor a counter per pair is held: an entry of a list survives by itself,
//! and a pair is answered for the first token that it shares.
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
//! On the device 4 bytes a token, 16 a set, 8 for each section of a list, of which there is at least one
//! for each token of the universe that stands in several rows, 16 for each prefix token of a block, and for
//! each worker 8 MiB and 28 bytes for each survivor that it has room for. Blocks become smaller and sections
//! fewer where memory is short.

use crate::device::{Device, failed};
use crate::send::Sender;
use crate::sets::{
    Answers, Channel, DeviceSets, Devices, Predicate, Sides, Stages, State, any_long, order, sides,
    source, verifiers,
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

/// Entries of a block at most: places in the lists are 32-bit numbers.
const MAX_ENTRIES: u64 = 1 << 31;

/// Blocks where memory is short.
const MANY_BLOCKS: u64 = 500;

/// Sections of a list at most: those of a list are placed by one warp.
const SECTIONS: u32 = 32;

/// Bytes of sections that are always worth it; more where entries take more.
const FEW_SECTION_BYTES: u64 = 16 << 20;
const SECTION_BYTES: u64 = 8;

/// Prefix tokens that a warp looks at, as in the kernels.
const ITEM: u32 = 256;

/// Items of a piece at most; and at least, where there are several.
const PIECE: usize = 1 << 20;
const SMALL_PIECE: u64 = 1 << 17;

/// Survivors that a worker has room for, if there is enough memory; and at least.
const SURVIVORS: u64 = 4 << 20;
const LEAST_SURVIVORS: u64 = 1 << 16;

const ENTRY_BYTES: u64 = size_of::<Entry>() as u64;
const SURVIVOR_BYTES: u64 = size_of::<Survivor>() as u64 + 4 + Answers::DEVICE_BYTES;

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
        let bytes = |(sets, range): (&SetCollection, Range<SetId>)| DeviceSets::bytes(sets, &range);
        let classes = size_of::<ProbeClass>() * reaches.len();
        sides(join, tile).map(bytes).sum::<u64>()
            + SECTION_BYTES * u64::from(listed_tokens(join).max(1))
            + 4 * join.build.classes().len() as u64
            + classes as u64
    }

    /// Bytes on the host beside the answers: sets on their way.
    fn host_bytes(tile: &Tile) -> u64 {
        DeviceSets::SENDING * (tile.probes.len() + tile.builds.len()) as u64
    }

    /// Bytes of the progress and the survivors of each worker.
    fn worker_bytes(survivors: u64) -> u64 {
        8 * PIECE as u64 + survivors * SURVIVOR_BYTES
    }
}

/// How many tokens have a list.
fn listed_tokens(join: &Join<'_>) -> u32 {
    join.build.universe() - join.build.lonely_tokens()
}

/// How many sections a list has: as many as take no more memory than the entries of a block, or little,
/// and no more than there is to spare.
fn sections(join: &Join<'_>, entries: u64, spare: u64) -> u32 {
    let one = SECTION_BYTES * u64::from(listed_tokens(join).max(1));
    let most = FEW_SECTION_BYTES.max(ENTRY_BYTES * entries).min(spare);
    let mut sections = SECTIONS;
    let too_many = |sections: u32| {
        one * u64::from(sections - 1) > most
            || u64::from(listed_tokens(join)) * u64::from(sections) > MAX_ENTRIES
    };
    while sections > 1 && too_many(sections) {
        sections /= 2;
    }
    sections
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
            serial: 0.4e-3
                + devices * survey.tokens as f64 * 0.12e-9
                + devices * survey.sets as f64 * 1.7e-9
                + entries * 0.06e-9
                + (survey.list_pairs * 9e-12 + verified * (0.14e-9 + 1e-12 * survey.mean_size))
                    / power,
            shared: 0.0,
        })
    }

    fn memory_bytes(&self, _: &Join<'_>, tile: &Tile, threads: usize) -> u64 {
        Self::host_bytes(tile) + self.workers(threads) * LEAST_SURVIVORS * Answers::HOST_BYTES
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

/// The probes of a size, as the device reads them. An item is a probe and a part of its prefix.
#[repr(C)]
#[derive(Clone, Copy)]
struct ProbeClass {
    /// Its first item.
    item: u64,
    /// Its first probe.
    probe: u32,
    /// Items of each probe.
    each: u32,
    prefix: u32,
    /// The build sets that it meets.
    begin: u32,
    end: u32,
}

// SAFETY: numbers, laid out as in the kernels.
unsafe impl DeviceRepr for ProbeClass {}

/// The lists as a kernel takes them.
#[repr(C)]
#[derive(Clone, Copy)]
struct ListsArgument {
    lonely: u32,
    top: u32,
    from: u32,
    to: u32,
    sections: u32,
    section_sets: u32,
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
    sides: Sides<DeviceSets>,
    classes: CudaSlice<ProbeClass>,
    prefixes: CudaSlice<u32>,
    sections: u32,
    begins: CudaSlice<u32>,
    ends: CudaSlice<u32>,
    entries: CudaSlice<Entry>,
}

struct Kernels {
    count: CudaFunction,
    place: CudaFunction,
    fill: CudaFunction,
    probe: CudaFunction,
    verify: CudaFunction,
    verify_deferred: CudaFunction,
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
    class_items: Vec<u64>,
    /// This round's block, and its pieces, in items.
    block: Range<SetId>,
    pieces: Vec<Range<u64>>,
    survivors: usize,
    /// Whether there may be pairs that are verified by a warp.
    long: bool,
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
        let spare = spare.saturating_sub(longest * ENTRY_BYTES);
        let sections = sections(join, longest, spare.saturating_sub(least) / 2);
        let more = u64::from(listed_tokens(join)) * u64::from(sections - 1) * SECTION_BYTES;
        let spare = spare.saturating_sub(more) / on_one;
        let on_device = spare.saturating_sub(8 * PIECE as u64) / SURVIVOR_BYTES;
        let on_host = room.bytes.saturating_sub(GpuPrefix::host_bytes(tile))
            / (workers * Answers::HOST_BYTES);
        let survivors = on_device.min(on_host).clamp(LEAST_SURVIVORS, SURVIVORS);
        // Where the items of each class begin.
        let mut class_items = vec![0];
        for reach in &reaches {
            let items = reach.probes.len() as u64 * u64::from(reach.prefix.div_ceil(ITEM));
            class_items.push(class_items[class_items.len() - 1] + items);
        }
        let here = |device: &Arc<Device>| {
            let needs = Needs {
                reaches: &reaches,
                prefixes: &prefixes,
                class_items: &class_items,
                entries: longest,
                sections,
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
            long: any_long(join, tile),
            room: *room,
        })
    }
}

/// Cuts the build sets that any probe reaches into blocks; how many entries each has.
fn blocks(join: &Join<'_>, tile: &Tile, prefixes: &[u32], most: u64) -> Vec<(Range<SetId>, u64)> {
    let mut blocks: Vec<(Range<SetId>, u64)> = Vec::new();
    for (class, &prefix) in join.build.classes().iter().zip(prefixes) {
        let prefix = u64::from(prefix);
        let (mut start, end) = (class.start.max(tile.builds.start), class.end.min(tile.builds.end));
        if prefix == 0 {
            continue;
        }
        while start < end {
            let room = |entries: u64| most.saturating_sub(entries) / prefix;
            let last = blocks
                .last_mut()
                .filter(|(block, entries)| block.end == start && room(*entries) > 0);
            let (block, entries) = match last {
                Some(last) => last,
                None => {
                    blocks.push((start..start, 0));
                    blocks.last_mut().expect("just pushed")
                }
            };
            // At least one set: there is memory for the largest.
            let taken = room(*entries).clamp(1, u64::from(end - start)) as u32;
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
    class_items: &'a [u64],
    /// Entries of the largest block.
    entries: u64,
    /// Sections of a list.
    sections: u32,
}

impl Here {
    fn new(
        device: &Arc<Device>,
        join: &Join<'_>,
        tile: &Tile,
        room: &Room,
        needs: &Needs<'_>,
    ) -> Result<Self> {
        let Needs { reaches, prefixes, class_items, entries, sections } = *needs;
        let at = failed("sending sets to the device");
        let sender = Sender::new(device, room)?;
        let sides = Sides::new(join, tile, |sets, range| DeviceSets::new(&sender, sets, range))?;
        let (first_probe, first_build) = (sides.probes().first, sides.builds().first);
        let class = |(reach, &item): (&Reach, &u64)| ProbeClass {
            item,
            probe: reach.probes.start.saturating_sub(first_probe),
            each: reach.prefix.div_ceil(ITEM),
            prefix: reach.prefix,
            begin: reach.builds.start.saturating_sub(first_build),
            end: reach.builds.end.saturating_sub(first_build),
        };
        // Classes without an item are left out, so that the last one that begins no later than an item holds it.
        let with_items = reaches.iter().zip(class_items).filter(|(reach, _)| reach.prefix > 0);
        let mut classes: Vec<ProbeClass> = with_items.map(class).collect();
        if classes.is_empty() {
            classes.push(class((&Reach::default(), &0)));
        }
        let heads = listed_tokens(join).max(1) as usize * sections as usize;
        let stream = sender.stream;
        let kernel = |name| device.function(SOURCE, &[], name);
        // SAFETY: nothing is read before it was written.
        let (begins, ends, entries) = unsafe {
            (
                stream.alloc(heads).map_err(&at)?,
                stream.alloc(heads).map_err(&at)?,
                stream.alloc(entries.max(1) as usize).map_err(&at)?,
            )
        };
        Ok(Here {
            device: device.clone(),
            kernels: Kernels {
                count: kernel("count_entries")?,
                place: kernel("place_lists")?,
                fill: kernel("fill_lists")?,
                probe: kernel("probe_lists")?,
                verify: kernel("verify")?,
                verify_deferred: kernel("verify_deferred")?,
            },
            sides,
            classes: stream.clone_htod(&classes).map_err(&at)?,
            prefixes: stream.clone_htod(prefixes).map_err(&at)?,
            sections,
            begins,
            ends,
            entries,
            stream,
        })
    }

    fn lists(&self, join: &Join<'_>, block: &Range<SetId>, stream: &CudaStream) -> ListsArgument {
        let first = self.sides.builds().first;
        ListsArgument {
            lonely: join.build.lonely_tokens(),
            top: join.build.universe().saturating_sub(1),
            from: block.start - first,
            to: block.end - first,
            sections: self.sections,
            section_sets: (block.len() as u32).div_ceil(self.sections),
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
        let lists = self.lists(join, block, &stream);
        let heads = self.ends.len() as u32;
        let sets = self.sides.builds();
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
                    .arg(&sets.classes)
                    .arg(&self.prefixes)
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
                .arg(&heads)
                .arg(&mut taken)
                .launch(grid(u64::from(heads)))
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
            // Several, so that the survivors of one are verified while another one is filtered.
            let piece = ((items.end - items.start) / 4).clamp(SMALL_PIECE, PIECE as u64);
            let starts = items.clone().step_by(piece as usize);
            self.pieces.extend(starts.map(|start| start..items.end.min(start + piece)));
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
        let (survivors, later, progress) = unsafe {
            let stream = &channel.stream;
            (
                stream.alloc(self.survivors).map_err(&at)?,
                stream.alloc(self.survivors).map_err(&at)?,
                stream.alloc(PIECE).map_err(&at)?,
            )
        };
        Ok(Box::new(ListWorker {
            listed: self,
            here,
            channel,
            survivors,
            later,
            progress,
            verified: 0,
        }))
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
    /// Those that are verified by a warp.
    later: CudaSlice<u32>,
    /// Where each item of the piece is to go on: a token and an entry.
    progress: CudaSlice<u64>,
    verified: u64,
}

impl Stages for ListWorker<'_> {
    /// Items.
    type Piece = Range<u64>;

    fn channel(&mut self) -> &mut Channel {
        &mut self.channel
    }

    fn firsts(&self) -> (SetId, SetId) {
        (self.here.sides.probes().first, self.here.sides.builds().first)
    }

    fn filter(&mut self, items: &mut Range<u64>) -> Result<()> {
        let (listed, here) = (self.listed, self.here);
        let count = (items.end - items.start) as u32;
        let classes = here.classes.len() as u32;
        let capacity = self.survivors.len() as u32;
        let Channel { stream, state, .. } = &mut self.channel;
        // SAFETY: the arguments are those of the kernel, and the buffers as long as it takes them.
        unsafe {
            stream
                .launch_builder(&here.kernels.probe)
                .arg(&here.sides.probes().argument(stream))
                .arg(&here.classes)
                .arg(&classes)
                .arg(&here.sides.builds().argument(stream))
                .arg(&here.lists(&listed.join, &listed.block, stream))
                .arg(&items.start)
                .arg(&count)
                .arg(&mut self.progress)
                .arg(&listed.predicate)
                .arg(&listed.order)
                .arg(&mut self.survivors)
                .arg(&capacity)
                .arg(state)
                .launch(LaunchConfig {
                    grid_dim: (count.div_ceil(THREADS / 32), 1, 1),
                    block_dim: (THREADS, 1, 1),
                    shared_mem_bytes: 0,
                })
                .map_err(failed("walking lists"))?;
        }
        Ok(())
    }

    fn verify(&mut self, only_counts: bool) -> Result<()> {
        let here = self.here;
        let Channel { stream, state, answers, .. } = &mut self.channel;
        let answers = answers.argument(stream, only_counts);
        // SAFETY: as above.
        unsafe {
            stream
                .launch_builder(&here.kernels.verify)
                .arg(&here.sides.probes().argument(stream))
                .arg(&here.sides.builds().argument(stream))
                .arg(&self.survivors)
                .arg(&mut self.later)
                .arg(&self.listed.predicate)
                .arg(&answers)
                .arg(&mut *state)
                .launch(verifiers(&here.device))
                .map_err(failed("verifying"))?;
            if self.listed.long {
                stream
                    .launch_builder(&here.kernels.verify_deferred)
                    .arg(&here.sides.probes().argument(stream))
                    .arg(&here.sides.builds().argument(stream))
                    .arg(&self.survivors)
                    .arg(&self.later)
                    .arg(&self.listed.predicate)
                    .arg(&answers)
                    .arg(state)
                    .launch(verifiers(&here.device))
                    .map_err(failed("verifying"))?;
            }
        }
        Ok(())
    }

    fn done(&mut self, state: &State) {
        self.verified += u64::from(state.survivors());
        self.channel.log.trace.compared += state.walked;
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
