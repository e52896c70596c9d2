//! How is a tile cut into items and pieces?

use super::on_device::OnDevice;
use super::worker::BitmapWorker;
use super::{
    BLOCKS_PER_SLOT, GpuBitmap, MAX_BUILDS_OF_BLOCK, MAX_ITEMS, MAX_PIECE_PAIRS, MIN_PIECE_PAIRS,
    MIN_RANGES, MIN_SURVIVORS, PIECES, SURVIVOR_BYTES, SURVIVORS, Shape, WORKERS,
};
use crate::device::{Device, failed};
use crate::sets::{Answers, Channel, Devices, Predicate, has_long_merges, order_number};
use cudarc::driver::DeviceRepr;
use simjoin_core::{Result, SetId};
use simjoin_engine::{
    Budget, DeviceEvent, Order, Prepared, Reach, SetTask, Sets, Tile, Worker, reaches,
};
use std::ops::Range;
use std::sync::Arc;

/// A block of probes and the ranges of build sets that it goes through.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct Item {
    pub(super) row: u32,
    pub(super) from: u32,
    pub(super) to: u32,
}

// SAFETY: three numbers, laid out as in the kernel.
unsafe impl DeviceRepr for Item {}

pub(super) struct PreparedBitmap<'a> {
    pub(super) task: SetTask<'a>,
    pub(super) devices: Devices<OnDevice>,
    /// The tile whose sets the devices hold.
    pub(super) held: Tile,
    pub(super) shape: Shape,
    pub(super) shared_bytes: u32,
    pub(super) predicate: Predicate,
    pub(super) order: u32,
    /// Whether every token has its own bit.
    pub(super) exact: u32,
    /// The tile that is joined now, the same or a part of it.
    pub(super) tile: Tile,
    pub(super) items: Vec<Item>,
    pub(super) pieces: Vec<Range<usize>>,
    /// The number of pairs that each device compares in one launch.
    pub(super) launch_pairs: u64,
    pub(super) survivors: usize,
    /// Whether some pairs may be verified by a warp.
    pub(super) long: bool,
    pub(super) budget: Budget,
}

impl<'a> PreparedBitmap<'a> {
    pub(super) fn new(
        technique: &GpuBitmap,
        task: &SetTask<'a>,
        tile: &Tile,
        budget: &Budget,
    ) -> Result<Self> {
        let load = |device: &Arc<Device>| OnDevice::new(technique, device, task, tile, budget);
        let devices = Devices::new(&technique.devices, budget, load)?;
        let shape = technique.shape();
        let workers = technique.workers(budget.threads).max(1);
        let spare = budget.device_bytes.saturating_sub(technique.fixed_bytes(task, tile));
        let on_device = spare / workers.min(WORKERS as u64);
        let on_device = on_device.saturating_sub(technique.worker_bytes(0)) / SURVIVOR_BYTES;
        let on_host = budget.bytes.saturating_sub(technique.host_bytes(tile))
            / (workers * Answers::HOST_BYTES);
        let survivors = on_device.min(on_host).clamp(MIN_SURVIVORS, SURVIVORS);
        let mut prepared = PreparedBitmap {
            task: *task,
            devices,
            held: tile.clone(),
            shape,
            shared_bytes: technique.shared_bytes(),
            predicate: Predicate::new(&task.predicate),
            order: order_number(task, tile),
            exact: u32::from(task.build.universe() <= technique.bits),
            tile: tile.clone(),
            items: Vec::new(),
            pieces: Vec::new(),
            launch_pairs: technique.launch_pairs(),
            survivors: survivors as usize,
            long: has_long_merges(task, tile),
            budget: *budget,
        };
        prepared.cut(tile);
        Ok(prepared)
    }

    /// Cuts a tile into items and pieces.
    fn cut(&mut self, tile: &Tile) {
        let shape = self.shape;
        let items = items(&self.task, tile, self.devices.first(), shape);
        let pairs_of =
            |item: &Item| u64::from(item.to - item.from) * u64::from(shape.rows * shape.columns);
        let all: u64 = items.iter().map(pairs_of).sum();
        let piece = (all / PIECES).clamp(MIN_PIECE_PAIRS, MAX_PIECE_PAIRS).min(self.launch_pairs);
        self.pieces.clear();
        let (mut start, mut pairs) = (0, 0);
        for (at, item) in items.iter().enumerate() {
            pairs += pairs_of(item);
            if pairs >= piece || at + 1 - start == MAX_ITEMS || at + 1 == items.len() {
                self.pieces.push(start..at + 1);
                (start, pairs) = (at + 1, 0);
            }
        }
        (self.items, self.tile) = (items, tile.clone());
    }
}

/// Returns blocks of probes with the ranges of build sets that the length filter leaves.
pub(super) fn items(
    task: &SetTask<'_>,
    tile: &Tile,
    on_device: &OnDevice,
    shape: Shape,
) -> Vec<Item> {
    let (rows_from, columns_from) =
        (on_device.sides.probes().sets.first, on_device.sides.builds().sets.first);
    let Shape { rows, columns, .. } = shape;
    let reaches = reaches(task, tile);
    let mut blocks: Vec<Item> = Vec::new();
    let mut row = tile.probes.start;
    while row < tile.probes.end {
        let end = tile.probes.end.min(row + rows);
        let classes = task.probe.class_of(row)..task.probe.class_of(end - 1) + 1;
        let met = classes.map(|class| &reaches[class as usize]).filter(|reach| reach.pairs > 0);
        let met = met.fold(None, |all: Option<Range<SetId>>, reach: &Reach| {
            let Range { start, end } = reach.builds;
            Some(all.map_or(start..end, |all| all.start.min(start)..all.end.max(end)))
        });
        if let Some(mut met) = met {
            if task.order == Order::Before {
                met.end = met.end.min(end).max(met.start);
            }
            let from = (met.start - columns_from) / columns;
            let to = met.end.saturating_sub(columns_from).div_ceil(columns);
            blocks.push(Item { row: row - rows_from, from, to });
        }
        row = end;
    }
    // Few blocks are cut smaller, so that the whole device has work.
    let ranges: u64 = blocks.iter().map(|item| u64::from(item.to.saturating_sub(item.from))).sum();
    let at_once = u64::from(BLOCKS_PER_SLOT * shape.blocks * on_device.device.info.multiprocessors);
    let most =
        (ranges / at_once).clamp(MIN_RANGES.into(), (MAX_BUILDS_OF_BLOCK / columns).into()) as u32;
    let cut = |Item { row, from, to }: Item| {
        let starts = (from..to).step_by(most as usize);
        starts.map(move |from| Item { row, from, to: to.min(from + most) })
    };
    blocks.into_iter().flat_map(cut).collect()
}

impl Prepared<Sets> for PreparedBitmap<'_> {
    fn pieces(&self) -> usize {
        self.pieces.len()
    }

    fn go_on(&mut self, tile: &Tile) -> bool {
        let holds = self.held.contains(tile);
        if holds {
            self.cut(tile);
        }
        holds
    }

    fn workers(&self) -> usize {
        WORKERS * self.devices.len()
    }

    fn worker<'a>(&'a self) -> Result<Box<dyn Worker<Sets> + 'a>> {
        let on_device = self.devices.next_device();
        let channel =
            Channel::new(&on_device.device, &on_device.stream, self.survivors, &self.budget)?;
        let at = failed("allocating the buffers of a worker");
        // SAFETY: nothing is read before it is written.
        let (survivors, deferred) = unsafe {
            let stream = &channel.stream;
            (stream.alloc(self.survivors).map_err(&at)?, stream.alloc(self.survivors).map_err(&at)?)
        };
        Ok(Box::new(BitmapWorker {
            prepared: self,
            on_device,
            channel,
            survivors,
            deferred,
            verified: 0,
        }))
    }

    fn events(&mut self) -> Vec<DeviceEvent> {
        self.devices.events()
    }
}
