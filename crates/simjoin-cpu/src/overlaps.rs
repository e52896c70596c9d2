//! How large is every intersection?
//!
//! All pairs of two collections, or of one, without a threshold. Nothing can be filtered, so everything is
//! in counting fast: the paper of Bellas and Gounaris (2022) calls these the static index (`sf-gssjoin`),
//! bitmaps (`BI`) and the product of matrices (`MM`). They are one thing here, with another share of the
//! tokens as bits (see `heavy.rs`):
//!
//! | technique | bits | lists |
//! | --- | --- | --- |
//! | `index` | none | all tokens |
//! | `bitmap` | all tokens | none |
//! | `product` | the frequent ones, as many as are worth it | the others |
//!
//! # Flow
//!
//! ```text
//! some probes × all build sets of a pass ─► bits: rows × blocks ─► + lists: a walk each ─► counters ─► caller
//! ```
//!
//! # Exactness
//!
//! Every token that two sets share is counted once, as a bit or in a list. Tokens of a single row are
//! shared by nobody.
//!
//! # Memory
//!
//! For the build sets of a pass, lists and bit rows; for each worker, counters for some probes. Where that
//! is too much, there are several passes over fewer build sets.

use crate::heavy::{BITS, BitRows, TokenLists, Weigh, floor, probe_row};
use simjoin_core::{SetCollection, SetId};
use simjoin_kernels::product::{PROBES, Product, ROWS};
use std::ops::Range;

/// How overlaps are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OverlapTechnique {
    /// By lists alone.
    Index,
    /// By bits alone.
    Bitmap,
    /// By both.
    Product,
}

impl OverlapTechnique {
    /// All of them.
    pub const ALL: [OverlapTechnique; 3] =
        [OverlapTechnique::Index, OverlapTechnique::Bitmap, OverlapTechnique::Product];

    /// The name used on the command line and in reports.
    pub fn name(self) -> &'static str {
        match self {
            OverlapTechnique::Index => "index",
            OverlapTechnique::Bitmap => "bitmap",
            OverlapTechnique::Product => "product",
        }
    }
}

/// Build sets in a pass, at most: their counters stay in the second-level cache.
const PASS: usize = 1 << 17;

/// Build sets in a pass, at least.
const LEAST_PASS: usize = 256;

/// Bytes of counters for each worker.
const COUNTERS: usize = 4 << 20;

/// Probes of a tile, at most.
const TILE: usize = 64;

/// A technique, how many words of tokens are bits, and what it would take.
#[derive(Clone, Copy, Debug)]
pub struct OverlapPlan {
    /// The technique.
    pub technique: OverlapTechnique,
    /// Words of bits a set.
    pub words: usize,
    /// Estimated seconds on one core.
    pub seconds: f64,
    /// Build sets in a pass.
    pub pass: usize,
}

/// Two collections, or one with itself, every pair of which is to be counted.
#[derive(Clone, Copy)]
pub struct AllOverlaps<'a> {
    /// The sets that count.
    pub probe: &'a SetCollection,
    /// The sets that are counted. The same collection in a join with itself.
    pub build: &'a SetCollection,
    /// Whether a probe meets only the sets before itself.
    pub before: bool,
    /// Whether a probe must meet all its build sets in one pass.
    pub at_once: bool,
}

impl<'a> AllOverlaps<'a> {
    /// What each technique would take, in the memory there is; and those that do not fit, with the bytes that
    /// they need.
    pub fn plans(
        &self,
        memory: u64,
        threads: usize,
    ) -> (Vec<OverlapPlan>, Vec<(OverlapTechnique, u64)>) {
        let (universe, lonely) = (self.build.universe(), self.build.lonely_tokens());
        let weigh = Weigh::new();
        let meetings = self.meetings();
        let pairs = self.pairs();
        let all = (universe - lonely).div_ceil(BITS) as usize;
        let sets = self.build.len();
        let (least, most) = if self.at_once { (sets, sets) } else { (LEAST_PASS, PASS.min(sets)) };
        let (mut plans, mut refused) = (Vec::new(), Vec::new());
        for technique in OverlapTechnique::ALL {
            let words = match technique {
                OverlapTechnique::Index => 0,
                OverlapTechnique::Bitmap => all,
                OverlapTechnique::Product => weigh.words(&meetings, pairs, all),
            };
            let light = (floor(universe, words).max(lonely) - lonely) as usize;
            let walked: f64 = meetings[..light].iter().sum();
            let bytes = |pass: usize| self.bytes(pass, words, threads);
            let mut pass = most;
            while bytes(pass) > memory && pass > least {
                pass = pass.div_ceil(2);
            }
            if bytes(pass) > memory {
                refused.push((technique, bytes(pass)));
                continue;
            }
            // Every counter is cleared and looked at.
            let blocks = if words == 0 { 0.0 } else { weigh.block };
            let each = words as f64 * weigh.word + blocks + 0.15e-9;
            let seconds = pairs * each + walked * weigh.walk;
            plans.push(OverlapPlan { technique, words, seconds, pass });
        }
        (plans, refused)
    }

    /// Pairs that are counted.
    fn pairs(&self) -> f64 {
        let (probes, builds) = (self.probe.len() as f64, self.build.len() as f64);
        if self.before { probes * (probes - 1.0).max(0.0) / 2.0 } else { probes * builds }
    }

    /// How often sets meet in the list of each token from the first on that more than one row has.
    fn meetings(&self) -> Vec<f64> {
        let lonely = self.build.lonely_tokens();
        let frequencies = |sets: &SetCollection| {
            let mut count = vec![0u32; (sets.universe() - lonely) as usize];
            for &token in sets.tokens() {
                if let Some(count) = token.checked_sub(lonely).map(|at| &mut count[at as usize]) {
                    *count += 1;
                }
            }
            count
        };
        let builds = frequencies(self.build);
        if self.before {
            return builds.iter().map(|&n| f64::from(n) * f64::from(n) / 2.0).collect();
        }
        let probes = frequencies(self.probe);
        builds.iter().zip(probes).map(|(&b, p)| f64::from(b) * f64::from(p)).collect()
    }

    /// Bytes for a pass of so many sets with so many words of bits, and for all workers, at most.
    pub fn bytes(&self, pass: usize, words: usize, threads: usize) -> u64 {
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

    /// The ranges of build sets that are counted one after the other.
    pub fn passes(&self, plan: &OverlapPlan) -> Vec<Range<SetId>> {
        let len = self.build.len() as SetId;
        (0..len).step_by(plan.pass.max(1)).map(|at| at..len.min(at + plan.pass as SetId)).collect()
    }

    /// Prepares a pass. Runs on the current rayon pool.
    pub fn prepare(&self, plan: &OverlapPlan, builds: Range<SetId>) -> OverlapPass<'a> {
        let floor = floor(self.build.universe(), plan.words);
        let lists = TokenLists::new(self.build, builds.clone(), floor, builds.start);
        let bits = BitRows::new(self.build, builds.clone(), plan.words);
        let first = if self.before { builds.start } else { 0 };
        let probes = first..self.probe.len() as SetId;
        OverlapPass {
            overlaps: *self,
            tile: tile(builds.len()) as SetId,
            probes,
            builds,
            words: plan.words,
            lists,
            bits,
            product: Product::best(),
        }
    }
}

/// Probes in a tile over so many build sets.
fn tile(builds: usize) -> usize {
    (COUNTERS / 4 / builds.max(1)).clamp(PROBES, TILE).next_multiple_of(PROBES)
}

/// Build sets that probes can be counted with.
pub struct OverlapPass<'a> {
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
pub struct OverlapSpace {
    rows: Vec<u64>,
    counts: Vec<u32>,
}

impl OverlapPass<'_> {
    /// How many tiles there are.
    pub fn tiles(&self) -> usize {
        self.probes.len().div_ceil(self.tile as usize)
    }

    /// Counts the overlaps of a tile's probes and hands each probe on with the overlaps of the build sets
    /// from the pass's first on; in a join with itself only as far as sets are before the probe.
    pub fn count<B>(
        &self,
        tile: usize,
        space: &mut OverlapSpace,
        mut each: impl FnMut(SetId, Range<SetId>, &[u32]) -> std::ops::ControlFlow<B>,
    ) -> std::ops::ControlFlow<B> {
        let AllOverlaps { probe: sets, build, before, .. } = self.overlaps;
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
    use proptest::prelude::*;
    use simjoin_kernels::overlap::overlap;
    use simjoin_testing::{Rows, collections};
    use std::ops::ControlFlow;

    fn check(left: &Rows, right: Option<&Rows>) {
        let (left, right) = collections(left, right);
        let before = right.is_none();
        let build = right.as_ref().unwrap_or(&left);
        let all = AllOverlaps { probe: &left, build, before, at_once: false };
        for plan in all.plans(u64::MAX, 2).0 {
            for (pass, words) in [(plan.pass, plan.words), (3, plan.words), (plan.pass, 1)] {
                let plan = OverlapPlan { pass, words, ..plan };
                let mut met = 0;
                for builds in all.passes(&plan) {
                    let pass = all.prepare(&plan, builds);
                    let mut space = OverlapSpace::default();
                    for tile in 0..pass.tiles() {
                        let flow = pass.count(tile, &mut space, |probe, builds, counts| {
                            assert_eq!(builds.len(), counts.len());
                            for (build, &count) in builds.zip(counts) {
                                let expected = overlap(all.probe.set(probe), all.build.set(build));
                                assert_eq!(count, expected, "{plan:?} {probe} {build}");
                                met += 1;
                            }
                            ControlFlow::<()>::Continue(())
                        });
                        assert!(flow.is_continue());
                    }
                }
                assert_eq!(met, all.pairs() as u64, "{plan:?}");
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
    fn adversaries() {
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
    fn little_memory_makes_passes_or_is_refused() {
        let rows: Rows = (0..2000u32).map(|row| (row..row + 9).collect()).collect();
        let (sets, _) = collections(&rows, None);
        let all = AllOverlaps { probe: &sets, build: &sets, before: true, at_once: false };
        let (plans, _) = all.plans(400_000, 1);
        assert!(plans.iter().all(|plan| plan.pass < 2000), "{plans:?}");
        let refused = |all: &AllOverlaps<'_>| {
            let (plans, refused) = all.plans(1000, 1);
            assert!(plans.is_empty());
            refused.iter().map(|&(_, bytes)| bytes).min()
        };
        let at_once = AllOverlaps { at_once: true, ..all };
        assert!(Some(1000) < refused(&all) && refused(&all) < refused(&at_once));
        let (plans, _) = at_once.plans(u64::MAX, 1);
        assert!(plans.iter().all(|plan| plan.pass == 2000), "{plans:?}");
    }
}
