//! How is the memory divided between lists and survivors, and the join into rounds and pieces?

use super::items::Items;
use super::on_device::{Here, Needs};
use super::worker::ListWorker;
use super::{
    ENTRY_BYTES, GpuPrefix, LEAST_SURVIVORS, MAX_ENTRIES, PIECE, SECTION_BYTES, SMALL_PIECE,
    SURVIVOR_BYTES, SURVIVORS, WORKERS, listed_tokens, sections,
};
use crate::device::{Device, failed};
use crate::sets::{Answers, Channel, Devices, Predicate, any_long, order};
use simjoin_core::{Result, SetId, SizeClass};
use simjoin_engine::{
    Budget, DeviceEvent, DeviceUnit, Prepared, Reach, SetTask, Sets, Tile, Worker, build_prefixes,
    reaches,
};
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

pub(super) struct Listed<'a> {
    pub(super) join: SetTask<'a>,
    pub(super) devices: Devices<Here>,
    pub(super) predicate: Predicate,
    pub(super) order: u32,
    pub(super) reaches: Vec<Reach>,
    /// Blocks of build sets, one a round.
    pub(super) blocks: Vec<Range<SetId>>,
    pub(super) probe_items: Items,
    pub(super) build_items: Items,
    /// This round's block, and its pieces, in items.
    pub(super) block: Range<SetId>,
    pub(super) pieces: Vec<Range<u64>>,
    pub(super) survivors: usize,
    /// Whether there may be pairs that are verified by a warp.
    pub(super) long: bool,
    /// Whether the driver of any device ends kernels that take long. How long a walk takes is not known beforehand, so
    /// that pieces are small then.
    pub(super) timeout: bool,
    pub(super) room: Budget,
}

impl<'a> Listed<'a> {
    pub(super) fn new(
        technique: &GpuPrefix,
        join: &SetTask<'a>,
        tile: &Tile,
        room: &Budget,
    ) -> Result<Self> {
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
