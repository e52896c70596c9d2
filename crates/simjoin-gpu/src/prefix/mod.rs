//! `gpu-prefix`: which sets share a rare token early enough, found and verified on the device?
//!
//! The prefix index of HySet and fgssjoin. Lists are made on the device, and all probes walk them. A list has
//! sections for sets of neighbouring sizes, so that a probe rarely walks past the sets that it may meet. If
//! memory is short, the build sets are cut into blocks, and the lists of one block are made after those of
//! the other. There is neither a matrix of pairs nor a counter per pair: an entry of a list survives by
//! itself, and a pair is answered for the first token that it shares.
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
//! Two sets that satisfy the bounds share a token within both prefixes ([`reaches`], [`build_prefixes`]).
//! Take the first one. No common token comes before it, so all common tokens are in the rests from there on.
//! The rests must be long enough, and their parity signatures differ in no more bits than the number of
//! tokens that may lack a partner. So this entry survives. Other entries of the same pair may survive too,
//! but the merge finds the first common token, and only its entry is answered. The decision is made in
//! integers. A full buffer loses nothing: a warp that finds no space notes where it stopped, and continues
//! from there once the buffer is empty.
//!
//! # Memory
//!
//! On the device 4 bytes per token, 16 per set, 16 for each prefix token of a block, and 8 for each section
//! of a list. There is at least one section for each token that occurs in several rows. Each worker takes 8
//! MiB, and 28 bytes for each survivor that its buffer holds. If memory is short, blocks are smaller and
//! sections are fewer.

mod items;
mod on_device;
mod prepared;
mod worker;

use crate::device::Device;
use crate::sets::{Answers, DeviceSets, host_seconds, source, tile_sides};
use items::ItemClass;
use on_device::Entry;
use prepared::PreparedLists;
use simjoin_core::{Result, SetCollection, SetId, SizeClass};
use simjoin_engine::{
    Budget, Cost, CostTable, Prepared, Reach, SetTask, Sets, Survey, Technique, Tile,
    build_prefixes, reaches,
};
use std::ops::Range;
use std::sync::Arc;
use worker::Survivor;

pub(crate) static SOURCE: &str = source!("prefix.cu");

/// The number of workers per device.
const WORKERS: usize = 2;

/// The number of threads in a block.
const THREADS: u32 = 256;

/// The largest number of entries in a block of build sets: positions in the lists are 32-bit numbers.
const MAX_ENTRIES: u64 = 1 << 31;

/// The largest number of blocks of build sets if memory is short.
const MAX_BLOCKS: u64 = 500;

/// The largest number of sections of a list, which one warp places.
const MAX_SECTIONS: u32 = 32;

/// The bytes that sections may always take, and the bytes of a section. They may take more if entries do.
const MIN_SECTIONS_BYTES: u64 = 16 << 20;
const SECTION_BYTES: u64 = 8;

/// The number of prefix tokens in an item, which a warp processes; as in the kernels.
const ITEM: u32 = 256;

/// The largest number of items in a piece, and the smallest one if there are several pieces.
const PIECE: usize = 1 << 20;
const MIN_PIECE: u64 = 1 << 17;

/// The capacity of a worker for survivors if there is enough memory, and the smallest one.
const SURVIVORS: u64 = 4 << 20;
const MIN_SURVIVORS: u64 = 1 << 16;

const ENTRY_BYTES: u64 = size_of::<Entry>() as u64;
const SURVIVOR_BYTES: u64 = size_of::<Survivor>() as u64 + 4 + Answers::DEVICE_BYTES;

/// The technique that uses a prefix index on devices.
#[derive(Debug)]
pub struct GpuPrefix {
    /// The devices that it runs on.
    pub devices: Vec<Arc<Device>>,
}

impl GpuPrefix {
    fn workers(&self, threads: usize) -> u64 {
        threads.min(WORKERS * self.devices.len()) as u64
    }

    /// Returns the bytes on each device without entries and survivors.
    fn fixed_bytes(task: &SetTask<'_>, tile: &Tile, reaches: &[Reach]) -> u64 {
        let bytes = |(sets, range): (&SetCollection, Range<SetId>)| DeviceSets::bytes(sets, &range);
        let classes = task.build.classes().len() + reaches.len();
        tile_sides(task, tile).map(bytes).sum::<u64>()
            + SECTION_BYTES * u64::from(listed_tokens(task).max(1))
            + (size_of::<ItemClass>() * classes) as u64
    }

    /// Returns the bytes on the host without the answers: sets while they are sent.
    fn host_bytes(tile: &Tile) -> u64 {
        DeviceSets::SEND_BYTES * (tile.probes.len() + tile.builds.len()) as u64
    }

    /// Returns the bytes of the progress and the survivors of a worker.
    fn worker_bytes(survivors: u64) -> u64 {
        8 * PIECE as u64 + survivors * SURVIVOR_BYTES
    }
}

/// Returns the number of tokens that have a list.
fn listed_tokens(task: &SetTask<'_>) -> u32 {
    task.build.universe() - task.build.unique_tokens()
}

/// Returns the number of sections of a list: a power of two, such that sections take no more than the spare
/// memory, and either little or no more than the entries of a block.
fn sections(task: &SetTask<'_>, entries: u64, spare: u64) -> u32 {
    let one = SECTION_BYTES * u64::from(listed_tokens(task).max(1));
    let most = MIN_SECTIONS_BYTES.max(ENTRY_BYTES * entries).min(spare);
    let mut sections = MAX_SECTIONS;
    let too_many = |sections: u32| {
        one * u64::from(sections - 1) > most
            || u64::from(listed_tokens(task)) * u64::from(sections) > MAX_ENTRIES
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

    fn goes_on(&self) -> bool {
        true
    }

    fn cost(&self, survey: &Survey<'_>, _: &CostTable) -> Option<Cost> {
        let devices = self.devices.len() as f64;
        // The speed of walking lists is that of the memory.
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
            parallel: 0.0,
        })
    }

    fn memory_bytes(&self, _: &SetTask<'_>, tile: &Tile, threads: usize) -> u64 {
        Self::host_bytes(tile) + self.workers(threads) * MIN_SURVIVORS * Answers::HOST_BYTES
    }

    fn device_bytes(&self, task: &SetTask<'_>, tile: &Tile, threads: usize) -> u64 {
        let reaches = reaches(task, tile);
        let prefixes = build_prefixes(task, tile, &reaches);
        let longest = prefixes.iter().copied().max().unwrap_or(0);
        let in_class = |class: &SizeClass| {
            u64::from(class.end.min(tile.builds.end))
                .saturating_sub(u64::from(class.start.max(tile.builds.start)))
        };
        let classes = task.build.classes().iter().zip(&prefixes);
        let all: u64 = classes.map(|(class, &prefix)| in_class(class) * u64::from(prefix)).sum();
        Self::fixed_bytes(task, tile, &reaches)
            + ENTRY_BYTES * u64::from(longest).max(all / MAX_BLOCKS)
            + self.workers(threads).min(WORKERS as u64) * Self::worker_bytes(MIN_SURVIVORS)
    }

    fn prepare<'a>(
        &self,
        task: &SetTask<'a>,
        tile: &Tile,
        budget: &Budget,
    ) -> Result<Box<dyn Prepared<Sets> + 'a>> {
        Ok(Box::new(PreparedLists::new(self, task, tile, budget)?))
    }
}
