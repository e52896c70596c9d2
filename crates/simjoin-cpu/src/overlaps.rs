//! How are the overlaps of all pairs counted?
//!
//! The pairs are those of two collections, or of one, without a threshold. Nothing can be filtered, so counting must be
//! fast. Bellas and Gounaris (2022) have three methods: a static index (`sf-gssjoin`), bitmaps (`BI`) and a product of
//! matrices (`MM`). This module combines them: it counts some tokens as bits (see `heavy.rs`) and the others by lists.
//! The techniques of `overlap_join.rs` differ in the tokens that are bits:
//!
//! | technique | bits | lists |
//! | --- | --- | --- |
//! | `index` | none | all tokens |
//! | `bitmap` | all tokens | none |
//! | `product` | frequent tokens, if bits are cheaper | the others |
//!
//! # Flow
//!
//! ```text
//! some probes × all build sets of a pass ─► bits: rows × blocks ─► + lists: a walk each ─► counters ─► caller
//! ```
//!
//! # Exactness
//!
//! Every token that two sets share is counted once, as a bit or in a list. Unique tokens are never shared.
//!
//! # Memory
//!
//! The build sets of a pass need lists and rows of bits; each worker needs counters for some probes. If that is too
//! much, there are several passes over fewer build sets.

use crate::heavy::{BitRows, TokenLists, floor, probe_row};
use simjoin_core::{SetCollection, SetId};
use simjoin_engine::OverlapTask;
use simjoin_kernels::product::{PROBES, Product, ROWS};
use std::ops::Range;

/// The largest number of build sets in a pass. Their counters stay in the second-level cache.
const PASS: usize = 1 << 17;

/// The smallest number of build sets in a pass.
const LEAST_PASS: usize = 256;

/// The bytes of the counters of each worker.
const COUNTERS: usize = 4 << 20;

/// The largest number of probes that are counted together.
const TILE: usize = 64;

/// A range of probes whose overlaps with all their build sets are to be counted.
#[derive(Clone)]
pub(crate) struct AllOverlaps<'a> {
    /// The collection of the probes.
    pub(crate) probe: &'a SetCollection,
    /// The collection of the build sets, which is the same in a self-join.
    pub(crate) build: &'a SetCollection,
    /// The range of the probes.
    pub(crate) probes: Range<SetId>,
    /// The build sets that they meet.
    pub(crate) builds: Range<SetId>,
    /// Whether a probe meets only the sets before itself.
    pub(crate) before: bool,
    /// Whether a probe must meet all its build sets in one pass.
    pub(crate) at_once: bool,
    /// The number of words of the bits of a set.
    pub(crate) words: usize,
}

impl<'a> AllOverlaps<'a> {
    pub(crate) fn new(task: &OverlapTask<'a>, probes: &Range<SetId>, words: usize) -> Self {
        AllOverlaps {
            probe: task.probe,
            build: task.build,
            probes: probes.clone(),
            builds: task.met_by(probes),
            before: task.only_before(),
            at_once: task.at_once(),
            words,
        }
    }

    /// Returns the smallest and the largest number of build sets that a pass may have.
    fn pass_sizes(&self) -> (usize, usize) {
        let sets = self.builds.len();
        if self.at_once { (sets, sets) } else { (LEAST_PASS, PASS.min(sets)) }
    }

    /// Returns the bytes that counting takes at least.
    pub(crate) fn least_bytes(&self, threads: usize) -> u64 {
        let (least, mut pass) = self.pass_sizes();
        while pass > least {
            pass = pass.div_ceil(2);
        }
        self.bytes(pass, threads)
    }

    /// Cuts the build sets into ranges that are counted one after the other, as large as the memory allows.
    pub(crate) fn passes(&self, memory: u64, threads: usize) -> Vec<Range<SetId>> {
        let (least, mut pass) = self.pass_sizes();
        while self.bytes(pass, threads) > memory && pass > least {
            pass = pass.div_ceil(2);
        }
        self.passes_of(pass)
    }

    fn passes_of(&self, pass: usize) -> Vec<Range<SetId>> {
        let Range { start, end } = self.builds;
        (start..end).step_by(pass.max(1)).map(|at| at..end.min(at + pass as SetId)).collect()
    }

    /// Returns the bytes that a pass of `pass` sets and all workers take, at most.
    fn bytes(&self, pass: usize, threads: usize) -> u64 {
        let words = self.words;
        let sets = self.build.len().max(1);
        // The largest sets are last.
        let first = sets.saturating_sub(pass);
        let offsets = self.build.offsets();
        let tokens = offsets.last().map_or(0, |end| end - offsets[first.min(offsets.len() - 1)]);
        let counters =
            (tile(pass) * pass.next_multiple_of(ROWS) * 4 + tile(pass) * words * 8) as u64;
        TokenLists::memory_bytes(self.build, tokens as u64)
            + BitRows::memory_bytes(pass, words)
            + counters * threads as u64
    }

    /// Prepares a pass. Runs on the current rayon pool.
    pub(crate) fn prepare(&self, builds: Range<SetId>) -> OverlapPass<'a> {
        let floor = floor(self.build.universe(), self.words);
        let lists = TokenLists::new(self.build, builds.clone(), floor, builds.start);
        let bits = BitRows::new(self.build, builds.clone(), self.words);
        let Range { start, end } = self.probes;
        let first = if self.before { builds.start.clamp(start, end) } else { start };
        OverlapPass {
            overlaps: self.clone(),
            tile: tile(builds.len()) as SetId,
            probes: first..end,
            builds,
            words: self.words,
            lists,
            bits,
            product: Product::best(),
        }
    }
}

/// Returns the number of probes that are counted together, for a number of build sets.
fn tile(builds: usize) -> usize {
    (COUNTERS / 4 / builds.max(1)).clamp(PROBES, TILE).next_multiple_of(PROBES)
}

/// A pass that is prepared for counting.
pub(crate) struct OverlapPass<'a> {
    overlaps: AllOverlaps<'a>,
    builds: Range<SetId>,
    probes: Range<SetId>,
    tile: SetId,
    words: usize,
    lists: TokenLists,
    bits: BitRows,
    product: Product,
}

/// The counters of one worker.
#[derive(Default)]
pub(crate) struct OverlapSpace {
    rows: Vec<u64>,
    counts: Vec<u32>,
}

impl OverlapPass<'_> {
    /// Returns the number of tiles.
    pub(crate) fn tiles(&self) -> usize {
        self.probes.len().div_ceil(self.tile as usize)
    }

    /// Counts the overlaps of the probes of a tile, and calls `each` with each probe, a range of build sets that starts
    /// with the first of the pass, and their overlaps. In a self-join, the range ends before the probe.
    pub(crate) fn count<B>(
        &self,
        tile: usize,
        space: &mut OverlapSpace,
        mut each: impl FnMut(SetId, Range<SetId>, &[u32]) -> std::ops::ControlFlow<B>,
    ) -> std::ops::ControlFlow<B> {
        let &AllOverlaps { probe: sets, build, before, .. } = &self.overlaps;
        let start = self.probes.start + tile as SetId * self.tile;
        let probes = start..self.probes.end.min(start + self.tile);
        let end = |probe: SetId| {
            let end = if before { self.builds.end.min(probe) } else { self.builds.end };
            end.saturating_sub(self.builds.start)
        };
        let most = end(probes.end - 1) as usize;
        let stride = most.next_multiple_of(ROWS);
        let count = probes.len().next_multiple_of(PROBES);
        space.counts.clear();
        space.counts.resize(count * stride, 0);
        if self.words > 0 {
            space.rows.resize(count * self.words, 0);
            space.rows.fill(0);
            for (row, probe) in space.rows.chunks_exact_mut(self.words).zip(probes.clone()) {
                probe_row(sets.set(probe), build.universe(), row);
            }
            let mut out = [[0; ROWS]; PROBES];
            // A block stays in the cache for all probes.
            for block in 0..stride / ROWS {
                for first in (0..count).step_by(PROBES) {
                    let rows: [&[u64]; PROBES] = std::array::from_fn(|at| {
                        &space.rows[(first + at) * self.words..(first + at + 1) * self.words]
                    });
                    self.bits.multiply(&self.product, block, &rows, &mut out);
                    for (at, row) in (first..).zip(&out) {
                        let place = at * stride + block * ROWS;
                        space.counts[place..place + ROWS].copy_from_slice(row);
                    }
                }
            }
        }
        let light = floor(build.universe(), self.words);
        for (at, probe) in probes.enumerate() {
            let counts = &mut space.counts[at * stride..(at + 1) * stride];
            let tokens = sets.set(probe);
            let tokens = &tokens[..tokens.partition_point(|&token| token < light)];
            let end = end(probe);
            self.lists.count(tokens, end, counts);
            let builds = self.builds.start..self.builds.start + end;
            each(probe, builds, &counts[..end as usize])?;
        }
        std::ops::ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::overlap_join::CountOverlaps;
    use proptest::prelude::*;
    use simjoin_engine::{Kind, OverlapSurvey, Overlaps, Technique, WantedOverlaps};
    use simjoin_kernels::overlap::overlap;
    use simjoin_testing::{Rows, collections};
    use std::ops::ControlFlow;

    fn task<'a>(
        left: &'a SetCollection,
        right: Option<&'a SetCollection>,
        wanted: WantedOverlaps,
    ) -> OverlapTask<'a> {
        Overlaps::directions(left, right, false, wanted)[0].0
    }

    fn check(left: &Rows, right: Option<&Rows>) {
        let (left, right) = collections(left, right);
        let task = task(&left, right.as_ref(), WantedOverlaps::All);
        let len = left.len() as SetId;
        let survey = OverlapSurvey::new(&task);
        for (_, words) in CountOverlaps::of(&survey).map(|one| (one.name(), one.words)) {
            for (pass, words) in [(PASS, words), (3, words), (PASS, 1)] {
                let mut met = 0;
                for probes in [0..len / 3, len / 3..len] {
                    let all = AllOverlaps::new(&task, &probes, words);
                    for builds in all.passes_of(pass) {
                        let pass = all.prepare(builds);
                        let mut space = OverlapSpace::default();
                        for tile in 0..pass.tiles() {
                            let flow = pass.count(tile, &mut space, |probe, builds, counts| {
                                assert!(probes.contains(&probe));
                                assert_eq!(builds.len(), counts.len());
                                for (build, &count) in builds.zip(counts) {
                                    let expected =
                                        overlap(all.probe.set(probe), all.build.set(build));
                                    assert_eq!(count, expected, "{words} {probe} {build}");
                                    met += 1;
                                }
                                ControlFlow::<()>::Continue(())
                            });
                            assert!(flow.is_continue());
                        }
                    }
                }
                assert_eq!(met, task.pairs_of(&(0..len)), "{words} words");
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]

        #[test]
        fn every_technique_counts_every_pair(
            left in simjoin_testing::rows(),
            right in prop::option::of(simjoin_testing::rows()),
        ) {
            check(&left, right.as_ref());
        }
    }

    #[test]
    fn extreme_collections_are_counted() {
        let all: Rows = (0..40).map(|row| (0..=row * 5).collect()).collect();
        let apart: Rows = (0..40).map(|row| (row * 9..row * 9 + 9).collect()).collect();
        let one: Rows = vec![(0..3).collect()];
        let none: Rows = vec![Rows::new().into_iter().flatten().collect(); 3];
        for left in [&all, &apart, &one, &none] {
            check(left, None);
            for right in [&all, &apart, &one, &none] {
                check(left, Some(right));
            }
        }
    }

    #[test]
    fn little_memory_makes_passes_unless_all_are_needed_at_once() {
        let rows: Rows = (0..2000u32).map(|row| (row..row + 9).collect()).collect();
        let (sets, _) = collections(&rows, None);
        let all = |wanted, words| {
            AllOverlaps::new(&task(&sets, None, wanted), &(0..sets.len() as SetId), words)
        };
        for words in [0, 3] {
            let (some, best) =
                (all(WantedOverlaps::All, words), all(WantedOverlaps::Top(1), words));
            assert!(some.passes(400_000, 1).len() > 1);
            assert!(1000 < some.least_bytes(1) && some.least_bytes(1) < best.least_bytes(1));
            assert_eq!(some.passes(u64::MAX, 1).len(), 1);
            assert_eq!(best.passes(1000, 1).len(), 1);
        }
    }
}
