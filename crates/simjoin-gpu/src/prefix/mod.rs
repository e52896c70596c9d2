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

mod items;
mod listed;
mod on_device;
mod worker;

use crate::device::Device;
use crate::sets::{Answers, DeviceSets, host_seconds, sides, source};
use items::ItemClass;
use listed::Listed;
use on_device::Entry;
use simjoin_core::{Result, SetCollection, SetId, SizeClass};
use simjoin_engine::{
    Budget, Cost, CostTable, Prepared, Reach, SetTask, Sets, Survey, Technique, Tile,
    build_prefixes, reaches,
};
use std::ops::Range;
use std::sync::Arc;
use worker::Survivor;

pub(crate) static SOURCE: &str = source!("prefix.cu");

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
    join.build.universe() - join.build.unique_tokens()
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
