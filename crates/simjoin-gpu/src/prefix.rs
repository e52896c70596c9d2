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

use crate::device::{Device, Lease, failed};
use crate::send::Sender;
use crate::sets::{
    Answers, Channel, DeviceSets, Devices, Predicate, Sides, Stages, State, any_long, host_seconds,
    order, sides, source, verifiers,
};
use cudarc::driver::{
    CudaFunction, CudaSlice, CudaStream, DevicePtr, DeviceRepr, LaunchConfig, PushKernelArg, sys,
};
use simjoin_core::{Result, SetCollection, SetId, SetPair, Sink, SizeClass};
use simjoin_engine::{
    Budget, Cost, CostTable, DeviceEvent, DeviceTimes, DeviceUnit, Prepared, Reach, SetTask, Sets,
    Survey, Technique, Tile, Worker, build_prefixes, reaches,
};
use std::ops::{ControlFlow, Range};
use std::sync::Arc;
use std::time::Instant;

pub(crate) static SOURCE: &str = source!("kernels/prefix.cu");

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
    fn fixed_bytes(join: &SetTask<'_>, tile: &Tile, reaches: &[Reach]) -> u64 {
        let bytes = |(sets, range): (&SetCollection, Range<SetId>)| DeviceSets::bytes(sets, &range);
        let classes = join.build.classes().len() + reaches.len();
        sides(join, tile).map(bytes).sum::<u64>()
            + SECTION_BYTES * u64::from(listed_tokens(join).max(1))
            + (size_of::<ItemClass>() * classes) as u64
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
fn listed_tokens(join: &SetTask<'_>) -> u32 {
    join.build.universe() - join.build.lonely_tokens()
}

/// How many sections a list has: as many as take no more memory than the entries of a block, or little,
/// and no more than there is to spare.
fn sections(join: &SetTask<'_>, entries: u64, spare: u64) -> u32 {
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

impl Technique<Sets> for GpuPrefix {
    fn name(&self) -> &'static str {
        "gpu-prefix"
    }

    fn on_device(&self) -> bool {
        true
    }

    fn cost(&self, survey: &Survey<'_>, _: &CostTable) -> Option<Cost> {
        let devices = self.devices.len() as f64;
        // Walking lists goes as fast as memory does.
        let power: f64 = self.devices.iter().map(|device| device.info.bandwidth_ratio()).sum();
        let entries = (survey.probe_entries + survey.build_entries) as f64 * survey.live;
        let verified = survey.list_pairs * survey.list_survival[0];
        Some(Cost {
            serial: 0.22e-3
                + host_seconds(survey)
                + devices * survey.tokens as f64 * 0.12e-9
                + devices * survey.sets as f64 * 1.7e-9
                + entries * 0.07e-9
                + (survey.list_pairs * 9e-12 + verified * (0.14e-9 + 1e-12 * survey.mean_size))
                    / power,
            shared: 0.0,
        })
    }

    fn memory_bytes(&self, _: &SetTask<'_>, tile: &Tile, threads: usize) -> u64 {
        Self::host_bytes(tile) + self.workers(threads) * LEAST_SURVIVORS * Answers::HOST_BYTES
    }

    fn device_bytes(&self, join: &SetTask<'_>, tile: &Tile, threads: usize) -> u64 {
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
        join: &SetTask<'a>,
        tile: &Tile,
        room: &Budget,
    ) -> Result<Box<dyn Prepared<Sets> + 'a>> {
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

/// The sets of a size, as the device reads them. An item is a set and a part of its prefix.
#[repr(C)]
#[derive(Clone, Copy)]
struct ItemClass {
    /// Its first item.
    item: u64,
    /// Its first set.
    set: u32,
    /// Items of each set.
    each: u32,
    prefix: u32,
    /// The build sets that it meets, if it is one of probes.
    begin: u32,
    end: u32,
}

// SAFETY: numbers, laid out as in the kernels.
unsafe impl DeviceRepr for ItemClass {}

/// The classes of probes or build sets that have items, and what items there are.
struct Items {
    /// By their first items.
    classes: Vec<ItemClass>,
    count: u64,
}

impl Items {
    /// Of sets, their prefix, and what they meet, class by class.
    fn new(of: impl Iterator<Item = (Range<SetId>, u32, Range<SetId>)>) -> Self {
        let mut items = Items { classes: Vec::new(), count: 0 };
        for (sets, prefix, met) in of {
            if sets.is_empty() || prefix == 0 {
                continue;
            }
            let each = prefix.div_ceil(ITEM);
            items.classes.push(ItemClass {
                item: items.count,
                set: sets.start,
                each,
                prefix,
                begin: met.start,
                end: met.end,
            });
            items.count += sets.len() as u64 * u64::from(each);
        }
        items
    }

    /// The first item of a set, or of the first one after it that has some.
    fn first_of(&self, set: SetId) -> u64 {
        let after = self.classes.partition_point(|class| class.set <= set);
        let end = self.classes.get(after).map_or(self.count, |class| class.item);
        let Some(class) = after.checked_sub(1).map(|at| &self.classes[at]) else { return end };
        end.min(class.item + u64::from(set - class.set) * u64::from(class.each))
    }

    /// With sets numbered as on a device, whose first set, and first build set, are these.
    fn on_device(&self, first: SetId, first_build: SetId) -> Items {
        let class = |class: &ItemClass| ItemClass {
            set: class.set - first,
            begin: class.begin.saturating_sub(first_build),
            end: class.end.saturating_sub(first_build),
            ..*class
        };
        Items { classes: self.classes.iter().map(class).collect(), count: self.count }
    }

    fn send(&self, stream: &Arc<CudaStream>) -> Result<CudaSlice<ItemClass>> {
        // An array on the device has at least one element.
        let none = [ItemClass { item: 0, set: 0, each: 1, prefix: 0, begin: 0, end: 0 }];
        let classes = if self.classes.is_empty() { &none } else { &self.classes[..] };
        stream.clone_htod(classes).map_err(failed("sending sets to the device"))
    }
}

/// Classes as a kernel takes them.
#[repr(C)]
#[derive(Clone, Copy)]
struct ClassesArgument {
    all: sys::CUdeviceptr,
    count: u32,
}

// SAFETY: a number and an address, laid out as in the kernels.
unsafe impl DeviceRepr for ClassesArgument {}

impl ClassesArgument {
    fn new(classes: &CudaSlice<ItemClass>, stream: &CudaStream) -> Self {
        ClassesArgument { all: classes.device_ptr(stream).0, count: classes.len() as u32 }
    }
}

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
    probe_classes: CudaSlice<ItemClass>,
    build_classes: CudaSlice<ItemClass>,
    sections: u32,
    begins: CudaSlice<u32>,
    ends: CudaSlice<u32>,
    entries: CudaSlice<Entry>,
    /// The last to go.
    _lease: Lease,
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
    join: SetTask<'a>,
    devices: Devices<Here>,
    predicate: Predicate,
    order: u32,
    reaches: Vec<Reach>,
    /// Blocks of build sets, one a round.
    blocks: Vec<Range<SetId>>,
    probe_items: Items,
    build_items: Items,
    /// This round's block, and its pieces, in items.
    block: Range<SetId>,
    pieces: Vec<Range<u64>>,
    survivors: usize,
    /// Whether there may be pairs that are verified by a warp.
    long: bool,
    /// Whether the driver of any device ends kernels that take long. How long a walk takes is not known beforehand, so
    /// that pieces are small then.
    timeout: bool,
    room: Budget,
}

impl<'a> Listed<'a> {
    fn new(technique: &GpuPrefix, join: &SetTask<'a>, tile: &Tile, room: &Budget) -> Result<Self> {
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
        let of_reach = |reach: &Reach| (reach.probes.clone(), reach.prefix, reach.builds.clone());
        let probe_items = Items::new(reaches.iter().map(of_reach));
        let of_class = |(class, &prefix): (&SizeClass, &u32)| {
            let sets = class.start.max(tile.builds.start)..class.end.min(tile.builds.end);
            (sets, prefix, 0..0)
        };
        let build_items = Items::new(join.build.classes().iter().zip(&prefixes).map(of_class));
        let here = |device: &Arc<Device>| {
            let needs = Needs {
                probe_items: &probe_items,
                build_items: &build_items,
                entries: longest,
                sections,
            };
            Here::new(device, join, tile, room, &needs)
        };
        Ok(Listed {
            join: *join,
            devices: Devices::new(&technique.devices, room, here)?,
            predicate: Predicate::new(&join.predicate),
            order: order(join, tile),
            reaches,
            blocks: blocks.into_iter().map(|(block, _)| block).collect(),
            probe_items,
            build_items,
            block: 0..0,
            pieces: Vec::new(),
            survivors: survivors as usize,
            long: any_long(join, tile),
            timeout: technique.devices.iter().any(|device| device.info.timeout),
            room: *room,
        })
    }
}

/// Cuts the build sets that any probe reaches into blocks; how many entries each has.
fn blocks(
    join: &SetTask<'_>,
    tile: &Tile,
    prefixes: &[u32],
    most: u64,
) -> Vec<(Range<SetId>, u64)> {
    let mut blocks: Vec<(Range<SetId>, u64)> = Vec::new();
    for (class, &prefix) in join.build.classes().iter().zip(prefixes) {
        let prefix = u64::from(prefix);
        let (mut start, end) = (class.start.max(tile.builds.start), class.end.min(tile.builds.end));
        if prefix == 0 {
            continue;
        }
        while start < end {
            let room = |entries: u64| most.saturating_sub(entries) / prefix;
            // Sets that no probe reaches may lie in between; they have no entries.
            let last = blocks.last_mut().filter(|(_, entries)| room(*entries) > 0);
            let (block, entries) = match last {
                Some(last) => last,
                None => {
                    blocks.push((start..start, 0));
                    blocks.last_mut().expect("just pushed")
                }
            };
            // At least one set: there is memory for the largest.
            let taken = room(*entries).clamp(1, u64::from(end - start)) as u32;
            block.end = start + taken;
            *entries += u64::from(taken) * prefix;
            start = block.end;
        }
    }
    blocks
}

/// What a device needs beside the sets.
struct Needs<'a> {
    probe_items: &'a Items,
    build_items: &'a Items,
    /// Entries of the largest block.
    entries: u64,
    /// Sections of a list.
    sections: u32,
}

impl Here {
    fn new(
        device: &Arc<Device>,
        join: &SetTask<'_>,
        tile: &Tile,
        room: &Budget,
        needs: &Needs<'_>,
    ) -> Result<Self> {
        let Needs { probe_items, build_items, entries, sections } = *needs;
        let at = failed("sending sets to the device");
        let lease = Lease::new(device);
        let sender = Sender::new(device, room)?;
        let sides = Sides::new(join, tile, |sets, range| DeviceSets::new(&sender, sets, range))?;
        let firsts = (sides.probes().first, sides.builds().first);
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
            probe_classes: probe_items.on_device(firsts.0, firsts.1).send(&stream)?,
            build_classes: build_items.on_device(firsts.1, firsts.1).send(&stream)?,
            sections,
            begins,
            ends,
            entries,
            stream,
            _lease: lease,
        })
    }

    fn lists(
        &self,
        join: &SetTask<'_>,
        block: &Range<SetId>,
        stream: &CudaStream,
    ) -> ListsArgument {
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

    /// Lets the device make the lists of a block. Workers begin after it.
    fn list(&mut self, join: &SetTask<'_>, block: &Range<SetId>, items: Range<u64>) -> Result<()> {
        let at = failed("making lists");
        let stream = self.stream.clone();
        stream.memset_zeros(&mut self.ends).map_err(&at)?;
        let mut taken = stream.clone_htod(&[0u32]).map_err(&at)?;
        let lists = self.lists(join, block, &stream);
        let heads = self.ends.len() as u32;
        let builds = self.sides.builds().argument(&stream);
        let classes = ClassesArgument::new(&self.build_classes, &stream);
        let count = (items.end - items.start) as u32;
        let grid = |threads: u64| LaunchConfig {
            grid_dim: (threads.div_ceil(u64::from(THREADS)).max(1) as u32, 1, 1),
            block_dim: (THREADS, 1, 1),
            shared_mem_bytes: 0,
        };
        let by_items = |kernel: &CudaFunction| {
            // SAFETY: the arguments are those of the kernel, and the buffers as long as it takes them.
            unsafe {
                stream
                    .launch_builder(kernel)
                    .arg(&builds)
                    .arg(&classes)
                    .arg(&items.start)
                    .arg(&count)
                    .arg(&lists)
                    .launch(grid(32 * u64::from(count)))
                    .map_err(&at)
            }
        };
        by_items(&self.kernels.count)?;
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
        by_items(&self.kernels.fill)?;
        Ok(())
    }
}

impl Drop for Here {
    fn drop(&mut self) {
        self.device.make_current();
    }
}

impl Prepared<Sets> for Listed<'_> {
    fn rounds(&self) -> usize {
        self.blocks.len()
    }

    fn begin(&mut self, round: usize) -> Result<()> {
        let block = self.blocks[round].clone();
        let listed = self.build_items.first_of(block.start)..self.build_items.first_of(block.end);
        let begin = Instant::now();
        for here in self.devices.iter_mut() {
            here.list(&self.join, &block, listed.clone())?;
            if self.room.events {
                here.stream.synchronize().map_err(failed("making lists"))?;
            }
        }
        self.devices.note(DeviceUnit::Stream, "make lists", begin);
        // What probes reach rises with their size, so those that reach the block are neighbours.
        let reaches = |reach: &Reach| {
            reach.pairs > 0 && reach.builds.start < block.end && reach.builds.end > block.start
        };
        let first = self.reaches.iter().position(reaches);
        let last = self.reaches.iter().rposition(reaches);
        self.pieces.clear();
        if let (Some(first), Some(last)) = (first, last) {
            let (first, last) = (self.reaches[first].probes.start, self.reaches[last].probes.end);
            let items = self.probe_items.first_of(first)..self.probe_items.first_of(last);
            // Several, so that the survivors of one are verified while another one is filtered.
            let most = if self.timeout { SMALL_PIECE } else { PIECE as u64 };
            let piece = ((items.end - items.start) / 4).clamp(SMALL_PIECE, most);
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

    fn worker<'a>(&'a self) -> Result<Box<dyn Worker<Sets> + 'a>> {
        let here = self.devices.deal();
        let at = failed("making the buffers of a worker");
        let channel = Channel::new(&here.device, &here.stream, self.survivors, &self.room)?;
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

    fn events(&mut self) -> Vec<DeviceEvent> {
        self.devices.events()
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
        let capacity = self.survivors.len() as u32;
        let Channel { stream, state, .. } = &mut self.channel;
        // SAFETY: the arguments are those of the kernel, and the buffers as long as it takes them.
        unsafe {
            stream
                .launch_builder(&here.kernels.probe)
                .arg(&here.sides.probes().argument(stream))
                .arg(&ClassesArgument::new(&here.probe_classes, stream))
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

impl Worker<Sets> for ListWorker<'_> {
    fn run(&mut self, piece: usize, sink: &mut dyn Sink<SetPair>) -> Result<ControlFlow<()>> {
        let items = self.listed.pieces[piece].clone();
        let progress = &mut self.progress;
        self.channel.stream.memset_zeros(progress).map_err(failed("walking lists"))?;
        self.both(items, sink)
    }

    fn candidates(&self) -> u64 {
        self.verified
    }

    fn times(&self) -> DeviceTimes {
        self.channel.log.trace
    }

    fn events(&mut self) -> Vec<DeviceEvent> {
        self.channel.log.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_item_belongs_to_the_set_that_its_number_says() {
        // Sets and prefixes of classes, some without items.
        let classes = [(0..3, 1), (3..3, 9), (3..5, 0), (5..9, 256), (9..11, 257), (11..12, 700)];
        let items = Items::new(classes.iter().map(|(sets, prefix)| (sets.clone(), *prefix, 0..0)));
        assert_eq!(items.count, 3 + 4 + 2 * 2 + 3);
        let mut next = 0;
        for (sets, prefix) in classes {
            for set in sets {
                assert_eq!(items.first_of(set), next, "set {set}");
                next += u64::from(prefix.div_ceil(ITEM));
            }
        }
        assert_eq!(items.first_of(12), items.count);
        assert_eq!(Items::new(std::iter::empty()).first_of(7), 0);
    }
}
