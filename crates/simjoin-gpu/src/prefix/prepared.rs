//! How is memory divided between lists and survivors, and the join into rounds and pieces?

use super::items::Items;
use super::on_device::{ListLayout, OnDevice};
use super::worker::ListWorker;
use super::{
    ENTRY_BYTES, GpuPrefix, MAX_ENTRIES, MIN_PIECE, MIN_SURVIVORS, PIECE, SECTION_BYTES,
    SURVIVOR_BYTES, SURVIVORS, WORKERS, listed_tokens, sections,
};
use crate::device::{Device, failed};
use crate::sets::{Answers, Channel, Devices, Predicate, has_long_merges, order_number};
use simjoin_core::{Result, SetId, SizeClass};
use simjoin_engine::{
    Budget, DeviceEvent, DeviceUnit, Prepared, Reach, SetTask, Sets, Tile, Worker, build_prefixes,
    cut, reaches,
};
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

pub(super) struct PreparedLists<'a> {
    pub(super) task: SetTask<'a>,
    pub(super) devices: Devices<OnDevice>,
    pub(super) predicate: Predicate,
    pub(super) order: u32,
    pub(super) reaches: Vec<Reach>,
    /// The blocks of build sets, one per round.
    pub(super) blocks: Vec<Range<SetId>>,
    pub(super) probe_items: Items,
    pub(super) build_items: Items,
    /// The tile whose sets the devices hold, and the probes of it that are joined now.
    pub(super) held: Tile,
    pub(super) probes: Range<SetId>,
    /// The block of this round, and its pieces as ranges of items.
    pub(super) block: Range<SetId>,
    pub(super) pieces: Vec<Range<u64>>,
    pub(super) survivors: usize,
    /// Whether some pairs may be verified by a warp.
    pub(super) long: bool,
    /// Whether the driver of any device ends long kernels. The time of a walk is not known beforehand, so
    /// pieces are small then.
    pub(super) timeout: bool,
    pub(super) budget: Budget,
}

impl<'a> PreparedLists<'a> {
    pub(super) fn new(
        technique: &GpuPrefix,
        task: &SetTask<'a>,
        tile: &Tile,
        budget: &Budget,
    ) -> Result<Self> {
        let reaches = reaches(task, tile);
        let prefixes = build_prefixes(task, tile, &reaches);
        let workers = technique.workers(budget.threads).max(1);
        let workers_per_device = workers.min(WORKERS as u64);
        // Half of the spare memory is for the entries of a block, half for survivors.
        let spare =
            budget.device_bytes.saturating_sub(GpuPrefix::fixed_bytes(task, tile, &reaches));
        let least = workers_per_device * GpuPrefix::worker_bytes(MIN_SURVIVORS);
        let entries = (spare.saturating_sub(least) / ENTRY_BYTES).min(MAX_ENTRIES);
        let entries =
            if spare / 2 > least { entries.min(spare / 2 / ENTRY_BYTES) } else { entries };
        let blocks = blocks(task, tile, &prefixes, entries);
        let longest = blocks.iter().map(|(_, entries)| *entries).max().unwrap_or(0);
        let spare = spare.saturating_sub(longest * ENTRY_BYTES);
        let sections = sections(task, longest, spare.saturating_sub(least) / 2);
        let more = u64::from(listed_tokens(task)) * u64::from(sections - 1) * SECTION_BYTES;
        let spare = spare.saturating_sub(more) / workers_per_device;
        let on_device = spare.saturating_sub(8 * PIECE as u64) / SURVIVOR_BYTES;
        let on_host = budget.bytes.saturating_sub(GpuPrefix::host_bytes(tile))
            / (workers * Answers::HOST_BYTES);
        let survivors = on_device.min(on_host).clamp(MIN_SURVIVORS, SURVIVORS);
        let of_reach = |reach: &Reach| (reach.probes.clone(), reach.prefix, reach.builds.clone());
        let probe_items = Items::new(reaches.iter().map(of_reach));
        let of_class = |(class, &prefix): (&SizeClass, &u32)| {
            let sets = class.start.max(tile.builds.start)..class.end.min(tile.builds.end);
            (sets, prefix, 0..0)
        };
        let build_items = Items::new(task.build.classes().iter().zip(&prefixes).map(of_class));
        let load = |device: &Arc<Device>| {
            let layout = ListLayout {
                probe_items: &probe_items,
                build_items: &build_items,
                entries: longest,
                sections,
            };
            OnDevice::new(device, task, tile, budget, &layout)
        };
        Ok(PreparedLists {
            task: *task,
            devices: Devices::new(&technique.devices, budget, load)?,
            predicate: Predicate::new(&task.predicate),
            order: order_number(task, tile),
            reaches,
            blocks: blocks.into_iter().map(|(block, _)| block).collect(),
            probe_items,
            build_items,
            held: tile.clone(),
            probes: tile.probes.clone(),
            block: 0..0,
            pieces: Vec::new(),
            survivors: survivors as usize,
            long: has_long_merges(task, tile),
            timeout: technique.devices.iter().any(|device| device.info.timeout),
            budget: *budget,
        })
    }
}

impl PreparedLists<'_> {
    /// Makes the lists of a block on all devices.
    fn make_lists(&mut self, block: &Range<SetId>) -> Result<()> {
        let listed = self.build_items.first_of(block.start)..self.build_items.first_of(block.end);
        let begin = Instant::now();
        for on_device in self.devices.iter_mut() {
            on_device.make_lists(&self.task, block, listed.clone())?;
            if self.budget.events {
                on_device.stream.synchronize().map_err(failed("making lists"))?;
            }
        }
        self.devices.record_since(DeviceUnit::Stream, "make lists", begin);
        Ok(())
    }
}

/// Cuts the build sets that any probe reaches into blocks of at most `most` entries. Returns the blocks with
/// their numbers of entries.
fn blocks(
    task: &SetTask<'_>,
    tile: &Tile,
    prefixes: &[u32],
    most: u64,
) -> Vec<(Range<SetId>, u64)> {
    let mut blocks: Vec<(Range<SetId>, u64)> = Vec::new();
    for (class, &prefix) in task.build.classes().iter().zip(prefixes) {
        let prefix = u64::from(prefix);
        let (mut start, end) = (class.start.max(tile.builds.start), class.end.min(tile.builds.end));
        if prefix == 0 {
            continue;
        }
        while start < end {
            let free = |entries: u64| most.saturating_sub(entries) / prefix;
            // Sets that no probe reaches may lie in between. They have no entries.
            let last = blocks.last_mut().filter(|(_, entries)| free(*entries) > 0);
            let (block, entries) = match last {
                Some(last) => last,
                None => {
                    blocks.push((start..start, 0));
                    blocks.last_mut().expect("just pushed")
                }
            };
            // At least one set: the memory suffices for the largest.
            let taken = free(*entries).clamp(1, u64::from(end - start)) as u32;
            block.end = start + taken;
            *entries += u64::from(taken) * prefix;
            start = block.end;
        }
    }
    blocks
}

impl Prepared<Sets> for PreparedLists<'_> {
    fn rounds(&self) -> usize {
        self.blocks.len()
    }

    fn begin(&mut self, round: usize) -> Result<()> {
        let block = self.blocks[round].clone();
        // Ranges that follow one another may share the lists of a block.
        if block != self.block {
            self.make_lists(&block)?;
        }
        // The reach of probes rises with their size, so the probes that reach the block are neighbours.
        let reaches = |reach: &Reach| {
            reach.pairs > 0 && reach.builds.start < block.end && reach.builds.end > block.start
        };
        let first = self.reaches.iter().position(reaches);
        let last = self.reaches.iter().rposition(reaches);
        self.pieces.clear();
        if let (Some(first), Some(last)) = (first, last) {
            let first = self.reaches[first].probes.start.max(self.probes.start);
            let last = self.reaches[last].probes.end.min(self.probes.end).max(first);
            let items = self.probe_items.first_of(first)..self.probe_items.first_of(last);
            // Several pieces, so that the survivors of one are verified while another one is filtered.
            let most = if self.timeout { MIN_PIECE } else { PIECE as u64 };
            let piece = ((items.end - items.start) / 4).clamp(MIN_PIECE, most);
            let starts = items.clone().step_by(piece as usize);
            self.pieces.extend(starts.map(|start| start..items.end.min(start + piece)));
        }
        self.block = block;
        Ok(())
    }

    fn pieces(&self) -> usize {
        self.pieces.len()
    }

    fn go_on(&mut self, tile: &Tile) -> bool {
        // A probe meets all build sets of the held tile that it reaches, so the tile must have them all.
        let all = Tile { probes: tile.probes.clone(), ..self.held.clone() };
        let natural = cut(&self.task, &all, usize::MAX);
        let same = self.held.contains(tile) && natural.len() == 1 && tile.contains(&natural[0]);
        if same {
            self.probes = tile.probes.clone();
        }
        same
    }

    fn workers(&self) -> usize {
        WORKERS * self.devices.len()
    }

    fn worker<'a>(&'a self) -> Result<Box<dyn Worker<Sets> + 'a>> {
        let on_device = self.devices.next_device();
        let at = failed("allocating the buffers of a worker");
        let channel =
            Channel::new(&on_device.device, &on_device.stream, self.survivors, &self.budget)?;
        // SAFETY: nothing is read before it is written.
        let (survivors, deferred, progress) = unsafe {
            let stream = &channel.stream;
            (
                stream.alloc(self.survivors).map_err(&at)?,
                stream.alloc(self.survivors).map_err(&at)?,
                stream.alloc(PIECE).map_err(&at)?,
            )
        };
        Ok(Box::new(ListWorker {
            prepared: self,
            on_device,
            channel,
            survivors,
            deferred,
            progress,
            verified: 0,
        }))
    }

    fn events(&mut self) -> Vec<DeviceEvent> {
        self.devices.events()
    }
}
