//! `mmjoin`: which pairs overlap enough, if all overlaps are counted?
//!
//! MMJoin (Deep, Hu, Koutris 2020): sets of at least Δ₁ tokens and tokens of at least Δ₂ sets are *heavy*.
//! The overlaps of heavy sets in heavy tokens are the product of a bit matrix and its transpose; all other
//! overlaps are counted in inverted lists. Then every overlap is known, so any predicate can be decided. The
//! technique is for containment, where filters leave many pairs.
//!
//! # Flow
//!
//! ```text
//! probe ─► lists: light tokens, and heavy tokens of light sets ─┐
//!       └► bits of its heavy tokens × bits of heavy sets ───────┴─► counters ─► demand of each size ─► sink
//! ```
//!
//! # Exactness
//!
//! A token that probe and build set share is counted once. If both sets and the token are heavy, it is
//! counted as a bit. Otherwise it is counted in the token's list: a light build set is in the lists of all its
//! tokens, and a heavy one is in the lists of its light tokens. No build set is larger than its probe, so a
//! light probe meets no heavy build set. The count is compared with the exact required overlap.
//!
//! # Δ₁ and Δ₂
//!
//! [`Split::choose`] finds both by a cost function over the frequencies of the tokens in a sample of the sets.
//! A token is heavy if its list costs more than its column, and a set is heavy if the lists of its heavy
//! tokens cost more than its row. Each depends on the other, so they are found alternately.
//!
//! # Memory
//!
//! The technique needs the lists, the bit rows of heavy build sets, and four counters per build set and
//! worker.

use crate::heavy::{BITS, BitRows, TokenLists, Weigh, floor, probe_row};
use crate::verify::Emitter;
use simjoin_core::{Measure, Result, SetCollection, SetId, SetPair, Sink, TokenId};
use simjoin_engine::{
    Budget, Cost, CostTable, Order, Prepared, SetTask, Sets, Survey, Technique, Tile, Worker, cut,
};
use simjoin_kernels::product::{PROBES, Product, ROWS};
use std::ops::{ControlFlow, Range};

/// The technique with lists and the product of a bit matrix.
pub struct MmJoin;

/// Seconds to clear a counter and to compare it with the demand (2-core AMD EPYC, 2026-11-15).
const SCAN: f64 = 0.5e-9;

/// The number of counters that are compared with a required overlap at once.
const CHUNK: usize = 64;

/// The number of tokens in the sample for the choice.
const SAMPLE: usize = 10_000;

/// The division into heavy and light.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Split {
    /// Δ₁: the smallest size of heavy sets.
    size: u32,
    /// The number of words of heavy tokens: Δ₂ is the frequency of their rarest token.
    words: usize,
    /// Estimated seconds on one core.
    seconds: f64,
}

/// A sample of the sets of a tile. Each set represents several.
struct Sample<'a> {
    task: &'a SetTask<'a>,
    probes: Vec<SetId>,
    builds: Vec<SetId>,
    /// The number of sets that each one represents.
    of_probes: f64,
    of_builds: f64,
    unique: TokenId,
}

impl<'a> Sample<'a> {
    fn new(task: &'a SetTask<'a>, tile: &Tile) -> Self {
        let some = |sets: &SetCollection, range: &Range<SetId>, half: bool| {
            let step = sets.tokens_in(range).div_ceil(SAMPLE).max(1);
            // Probes and build sets are different samples, so that sets do not meet themselves.
            let first = if half { step / 2 } else { 0 };
            range.clone().skip(first).step_by(step).collect::<Vec<_>>()
        };
        let probes = some(task.probe, &tile.probes, true);
        let builds = some(task.build, &tile.builds, false);
        let scale =
            |range: &Range<SetId>, some: &[SetId]| range.len() as f64 / some.len().max(1) as f64;
        Sample {
            of_probes: scale(&tile.probes, &probes),
            of_builds: scale(&tile.builds, &builds),
            task,
            probes,
            builds,
            unique: task.build.unique_tokens(),
        }
    }

    /// Returns every occurrence of a token in these sets with the size of its set, ascending.
    fn tokens(&self, sets: &SetCollection, some: &[SetId]) -> Vec<(TokenId, u32)> {
        let tokens = |&set: &SetId| {
            let tokens = sets.set(set);
            let known = tokens.partition_point(|&token| token < self.unique);
            tokens[known..].iter().map(move |&token| (token, sets.size(set)))
        };
        let mut all: Vec<(TokenId, u32)> = some.iter().flat_map(tokens).collect();
        all.sort_unstable();
        all
    }

    /// Returns the number of meetings of sets in the lists of each word of tokens, the most frequent
    /// word first.
    fn meetings(&self, probes: &[(TokenId, u32)], builds: &[(TokenId, u32)]) -> Vec<f64> {
        let universe = self.task.build.universe();
        let mut words = vec![0.0; (universe - self.unique).div_ceil(BITS) as usize];
        let mut of_builds = builds.chunk_by(same).peekable();
        for of_probes in probes.chunk_by(same) {
            let token = of_probes[0].0;
            while of_builds.next_if(|chunk| chunk[0].0 < token).is_some() {}
            if let Some(met) = of_builds.next_if(|chunk| chunk[0].0 == token) {
                let word = ((universe - 1 - token) / BITS) as usize;
                let times = of_probes.len() as f64 * met.len() as f64;
                words[word] += times * self.of_probes * self.of_builds;
            }
        }
        words
    }

    /// Returns the numbers of probes and of build sets of at least a size.
    fn heavy(&self, size: u32) -> (f64, f64) {
        let count = |sets: &SetCollection, some: &[SetId]| {
            some.iter().filter(|&&set| sets.size(set) >= size).count() as f64
        };
        (
            self.of_probes * count(self.task.probe, &self.probes),
            self.of_builds * count(self.task.build, &self.builds),
        )
    }
}

/// Returns whether two occurrences are of the same token.
fn same(one: &(TokenId, u32), other: &(TokenId, u32)) -> bool {
    one.0 == other.0
}

/// Returns the share of the build sets that a probe meets: a half in a self-join.
fn half(task: &SetTask<'_>) -> f64 {
    if task.order == Order::Before { 0.5 } else { 1.0 }
}

impl Split {
    /// Returns the split with the least cost, with a limit for the words of all heavy build sets together.
    fn choose(task: &SetTask<'_>, tile: &Tile, most: u64) -> Split {
        let sample = Sample::new(task, tile);
        let weigh = Weigh::new();
        let half = half(task);
        let probes = sample.tokens(task.probe, &sample.probes);
        let builds = sample.tokens(task.build, &sample.builds);
        let every: Vec<f64> =
            sample.meetings(&probes, &builds).into_iter().map(|met| met * half).collect();
        let pairs = half * tile.probes.len() as f64 * tile.builds.len() as f64;
        let walked: f64 = every.iter().sum();
        let mut best =
            Split { size: u32::MAX, words: 0, seconds: walked * weigh.walk + pairs * SCAN };
        let mut size = 1;
        // Three alternations: later ones change little.
        for _ in 0..3 {
            let (heavy_probes, heavy_builds) = sample.heavy(size);
            if heavy_probes == 0.0 || heavy_builds == 0.0 {
                break;
            }
            let of_heavy: Vec<(TokenId, u32)> =
                builds.iter().copied().filter(|&(_, of)| of >= size).collect();
            // Probes below that size meet no heavy set; most meetings are between large sets.
            let met: Vec<f64> =
                sample.meetings(&probes, &of_heavy).into_iter().map(|met| met * half).collect();
            let product = half * heavy_probes * heavy_builds;
            let column = product * weigh.word;
            let words = met.iter().take_while(|&&met| met * weigh.walk > column).count();
            let words = words.min((most as f64 / heavy_builds) as usize);
            let saved: f64 = met[..words].iter().sum();
            let seconds = (walked - saved).max(0.0) * weigh.walk
                + words as f64 * column
                + product * weigh.block
                + pairs * SCAN;
            if words > 0 && seconds < best.seconds {
                best = Split { size, words, seconds };
            }
            if words == 0 {
                break;
            }
            // The mean number of probes that walk the list of a set's token.
            let heavy_tokens = of_heavy.len().max(1) as f64 * sample.of_builds;
            let each = saved / heavy_tokens * weigh.walk;
            let row = half * heavy_probes * words as f64 * weigh.word;
            let next = (row / each.max(1e-15)).ceil().clamp(1.0, f64::from(u32::MAX)) as u32;
            if next == size {
                break;
            }
            size = next;
        }
        best
    }
}

/// Returns the bytes without the bit matrix.
fn least_bytes(task: &SetTask<'_>, tile: &Tile, threads: usize) -> u64 {
    let offsets = task.build.offsets();
    let tokens = offsets[tile.builds.end as usize] - offsets[tile.builds.start as usize];
    TokenLists::memory_bytes(task.build, tokens as u64)
        + (threads * PROBES * 4 * (tile.builds.len() + 2 * ROWS)) as u64
        + 4 * (threads * tile.builds.len()) as u64
}

impl Technique<Sets> for MmJoin {
    fn name(&self) -> &'static str {
        "mmjoin"
    }

    fn cost(&self, survey: &Survey<'_>, costs: &CostTable) -> Option<Cost> {
        let (measure, ..) = survey.task.predicate.parts();
        // For other measures, filters are so effective that counting all overlaps is never faster.
        if measure != Measure::Containment {
            return None;
        }
        let offsets = survey.task.build.offsets();
        let Range { start, end } = survey.tile.builds;
        let tokens = (offsets[end as usize] - offsets[start as usize]) as f64;
        let split = Split::choose(&survey.task, &survey.tile, u64::MAX);
        Some(Cost {
            serial: costs.start
                + 2.0 * f64::from(survey.task.build.universe()) * costs.pass
                + 0.4 * tokens * costs.index,
            parallel: split.seconds,
        })
    }

    fn memory_bytes(&self, task: &SetTask<'_>, tile: &Tile, threads: usize) -> u64 {
        least_bytes(task, tile, threads)
    }

    fn prepare<'a>(
        &self,
        task: &SetTask<'a>,
        tile: &Tile,
        room: &Budget,
    ) -> Result<Box<dyn Prepared<Sets> + 'a>> {
        let spare = room.bytes.saturating_sub(least_bytes(task, tile, room.threads));
        // Plus a row for each current probe.
        let split = Split::choose(task, tile, spare / 8 / 2);
        Ok(Box::new(Multiplied::new(task, tile, split, room.piece_tokens)))
    }
}

struct Multiplied<'a> {
    task: SetTask<'a>,
    builds: Range<SetId>,
    split: Split,
    /// The first heavy build set.
    heavy: SetId,
    lists: TokenLists,
    bits: BitRows,
    product: Product,
    pieces: Vec<Tile>,
}

impl<'a> Multiplied<'a> {
    fn new(task: &SetTask<'a>, tile: &Tile, split: Split, piece_tokens: usize) -> Self {
        let build = task.build;
        let first = if split.words == 0 { SetId::MAX } else { build.first_of_size(split.size) };
        let heavy = first.clamp(tile.builds.start, tile.builds.end);
        let light = floor(build.universe(), split.words);
        Multiplied {
            lists: TokenLists::new(build, tile.builds.clone(), light, heavy),
            bits: BitRows::new(build, heavy..tile.builds.end, split.words),
            product: Product::best(),
            pieces: cut(task, tile, piece_tokens),
            builds: tile.builds.clone(),
            task: *task,
            split,
            heavy,
        }
    }
}

impl Prepared<Sets> for Multiplied<'_> {
    fn pieces(&self) -> usize {
        self.pieces.len()
    }

    fn worker<'a>(&'a self) -> Result<Box<dyn Worker<Sets> + 'a>> {
        let stride = self.builds.len() + 2 * ROWS;
        Ok(Box::new(MultipliedWorker {
            multiplied: self,
            stride,
            counts: vec![0; PROBES * stride],
            rows: vec![0; PROBES * self.split.words],
            written: 0,
            met: Vec::new(),
            candidates: 0,
        }))
    }
}

struct MultipliedWorker<'a> {
    multiplied: &'a Multiplied<'a>,
    stride: usize,
    /// The overlap of each current probe and each build set; 0 between probes.
    counts: Vec<u32>,
    rows: Vec<u64>,
    /// The end of the counters that the product has written for the current probes.
    written: u32,
    /// The build sets that a probe meets, if they are few.
    met: Vec<u32>,
    candidates: u64,
}

impl MultipliedWorker<'_> {
    fn join(&mut self, piece: usize, sink: &mut dyn Sink<SetPair>) -> ControlFlow<()> {
        let Multiplied { task, pieces, .. } = self.multiplied;
        let mut emitter = Emitter::new(sink);
        let probes = pieces[piece].probes.clone();
        for first in probes.clone().step_by(PROBES) {
            let group = first..probes.end.min(first + PROBES as SetId);
            self.multiply(&group);
            for (at, probe) in group.enumerate() {
                let partners = self.partners(probe);
                let heavy = task.probe.size(probe) >= self.multiplied.split.size;
                if heavy || !self.look_up(at, probe, &partners, &mut emitter) {
                    self.scan(at, probe, &partners, &mut emitter);
                }
            }
            emitter.flow()?;
        }
        emitter.finish()
    }

    /// Returns the build sets that a probe meets.
    fn partners(&self, probe: SetId) -> Range<SetId> {
        let Multiplied { task, builds, .. } = self.multiplied;
        let partners = task.partners(probe);
        let (start, end) = (partners.start.max(builds.start), partners.end.min(builds.end));
        if start < end { start..end } else { builds.start..builds.start }
    }

    /// Counts the common heavy tokens of heavy build sets and these probes.
    fn multiply(&mut self, group: &Range<SetId>) {
        let Multiplied { task, builds, split, heavy, bits, product, .. } = self.multiplied;
        let largest = group.end - 1;
        self.written = 0;
        // The largest probe may have no partner although a smaller one has.
        let end = group.clone().map(|probe| self.partners(probe).end).max().unwrap_or(0);
        if split.words == 0 || task.probe.size(largest) < split.size || end <= *heavy {
            return;
        }
        for (at, row) in self.rows.chunks_exact_mut(split.words).enumerate() {
            match group.clone().nth(at) {
                // A light probe of the group meets no heavy set; its counts are cleared below.
                Some(probe) => probe_row(task.probe.set(probe), task.build.universe(), row),
                None => row.fill(0),
            }
        }
        let rows: [&[u64]; PROBES] =
            std::array::from_fn(|at| &self.rows[at * split.words..(at + 1) * split.words]);
        let mut out = [[0; ROWS]; PROBES];
        let base = (heavy - builds.start) as usize;
        self.written = end - builds.start;
        for block in 0..((end - heavy) as usize).div_ceil(ROWS) {
            bits.multiply(product, block, &rows, &mut out);
            for (at, probe) in group.clone().enumerate() {
                if task.probe.size(probe) >= split.size {
                    let place = at * self.stride + base + block * ROWS;
                    self.counts[place..place + ROWS].copy_from_slice(&out[at]);
                }
            }
        }
    }

    /// Walks the lists of a light probe and checks only the sets that it meets, if these are few. Returns whether
    /// they are.
    fn look_up(
        &mut self,
        at: usize,
        probe: SetId,
        partners: &Range<SetId>,
        emitter: &mut Emitter<'_>,
    ) -> bool {
        let Multiplied { task, builds, lists, .. } = self.multiplied;
        let tokens = task.probe.set(probe);
        let tokens = &tokens[tokens.partition_point(|&t| t < task.build.unique_tokens())..];
        let entries: usize = tokens.iter().map(|&token| lists.of(token).len()).sum();
        if 4 * entries > partners.len() {
            return false;
        }
        let counts = &mut self.counts[at * self.stride..(at + 1) * self.stride];
        let (start, end) = (partners.start - builds.start, partners.end - builds.start);
        self.met.clear();
        for &token in tokens {
            for &set in lists.of(token).iter().take_while(|&&set| set < end) {
                let count = &mut counts[set as usize];
                if *count == 0 {
                    self.met.push(set);
                }
                *count += 1;
            }
        }
        let n = task.probe.size(probe);
        self.candidates += self.met.len() as u64;
        for &set in &self.met {
            let overlap = std::mem::take(&mut counts[set as usize]);
            let build = builds.start + set;
            if set >= start && task.predicate.accepts(n, task.build.size(build), overlap) {
                emitter.push(probe, build, overlap);
            }
        }
        true
    }

    /// Walks the lists, compares all counters with the required overlap of their size, and clears them.
    fn scan(
        &mut self,
        at: usize,
        probe: SetId,
        partners: &Range<SetId>,
        emitter: &mut Emitter<'_>,
    ) {
        let Multiplied { task, builds, lists, .. } = self.multiplied;
        let SetTask { probe: probes, build, predicate: bounds, .. } = task;
        let counts = &mut self.counts[at * self.stride..(at + 1) * self.stride];
        lists.count(probes.set(probe), partners.end - builds.start, counts);
        let n = probes.size(probe);
        self.candidates += partners.len() as u64;
        let mut next = partners.start;
        while next < partners.end {
            let class = build.classes()[build.class_of(next) as usize];
            let end = class.end.min(partners.end);
            let required = bounds.required_overlap(n, class.size).max(1);
            let of_class = &counts[(next - builds.start) as usize..(end - builds.start) as usize];
            for (first, some) in (next..end).step_by(CHUNK).zip(of_class.chunks(CHUNK)) {
                // Usually none is large enough, so many are checked at once. Overlaps have 31 bits.
                if some.iter().fold(false, |any, &found| any | (found as i32 >= required as i32)) {
                    for (set, &overlap) in (first..).zip(some).filter(|(_, at)| **at >= required) {
                        emitter.push(probe, set, overlap);
                    }
                }
            }
            next = end;
        }
        // Blocks extend beyond the last partner, and the probes of a group have different last partners.
        let end = (self.multiplied.builds.len() + ROWS)
            .min(self.written.max(partners.end - builds.start) as usize + ROWS);
        counts[..end].fill(0);
    }
}

impl Worker<Sets> for MultipliedWorker<'_> {
    fn run(&mut self, piece: usize, sink: &mut dyn Sink<SetPair>) -> Result<ControlFlow<()>> {
        Ok(self.join(piece, sink))
    }

    fn candidates(&self) -> u64 {
        self.candidates
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Naive;
    use proptest::prelude::*;
    use simjoin_core::{Bounds, Predicate};
    use simjoin_testing::{Rows, collections, run};

    /// Checks that every split finds the pairs of the oracle.
    struct By(u32, usize);

    impl Technique<Sets> for By {
        fn name(&self) -> &'static str {
            "by"
        }

        fn cost(&self, _: &Survey<'_>, _: &CostTable) -> Option<Cost> {
            None
        }

        fn memory_bytes(&self, _: &SetTask<'_>, _: &Tile, _: usize) -> u64 {
            0
        }

        fn prepare<'a>(
            &self,
            task: &SetTask<'a>,
            tile: &Tile,
            room: &Budget,
        ) -> Result<Box<dyn Prepared<Sets> + 'a>> {
            let split = Split { size: self.0, words: self.1, seconds: 0.0 };
            Ok(Box::new(Multiplied::new(task, tile, split, room.piece_tokens)))
        }
    }

    fn check(left: &Rows, right: Option<&Rows>, predicate: Predicate) {
        let (left, right) = collections(left, right);
        for (task, _) in SetTask::directions(&left, right.as_ref(), true, Bounds::new(predicate)) {
            let whole = Tile::whole(&task);
            let (probes, builds) = (whole.probes.end, whole.builds.end);
            let part = Tile { probes: probes / 3..probes, builds: builds / 4..builds - builds / 5 };
            for tile in [whole, part] {
                let sorted = |technique: &dyn Technique<Sets>, piece, threads| {
                    let room = Budget::unlimited(piece, threads);
                    let mut found = run(technique, &task, &tile, &room, true).0;
                    found.sort_unstable();
                    found
                };
                let expected = sorted(&Naive, 100, 1);
                assert_eq!(sorted(&MmJoin, 50, 2), expected);
                for size in [1, 5, 12, u32::MAX] {
                    for words in [0, 1, 2, (task.build.universe() as usize).div_ceil(64)] {
                        let found = sorted(&By(size, words), 30, 3);
                        assert_eq!(found, expected, "{size} {words}");
                    }
                }
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]

        #[test]
        fn every_split_equals_naive(
            left in simjoin_testing::rows(),
            right in prop::option::of(simjoin_testing::rows()),
            predicate in simjoin_testing::predicate(),
        ) {
            check(&left, right.as_ref(), predicate);
        }
    }

    #[test]
    fn extreme_collections_agree_with_naive() {
        let nested: Rows = (1..60).map(|size| (0..size).collect()).collect();
        let apart: Rows = (0..40).map(|row| (row * 3..row * 3 + 3).collect()).collect();
        let ones: Rows = (0..60).map(|token| [token].into()).collect();
        let empty: Rows = vec![Default::default(); 3];
        for threshold in ["1", "0.8", "0.1"] {
            let predicate = Predicate::parse(Measure::Containment, threshold).unwrap();
            for left in [&nested, &apart, &ones, &empty] {
                check(left, None, predicate);
                for right in [&nested, &apart, &ones, &empty] {
                    check(left, Some(right), predicate);
                }
            }
        }
    }

    #[test]
    fn dense_sets_become_bits_and_sparse_ones_do_not() {
        let bounds = Bounds::new(Predicate::parse(Measure::Containment, "0.9").unwrap());
        let choose = |rows: &Rows, most| {
            let (sets, _) = collections(rows, None);
            let (task, _) = SetTask::directions(&sets, None, false, bounds)[0];
            Split::choose(&task, &Tile::whole(&task), most)
        };
        let bit = |row: u32, token: u32| (row.wrapping_mul(token * 2 + 77) >> 9).is_multiple_of(2);
        let dense: Rows =
            (1..500).map(|row| (0..200).filter(|&token| bit(row, token)).collect()).collect();
        let split = choose(&dense, u64::MAX);
        assert!(split.words >= 3 && split.size < 90, "{split:?}");
        // Not more words than fit the memory.
        let (sets, _) = collections(&dense, None);
        for most in [10, 500, 1000] {
            let split = choose(&dense, most);
            let heavy = sets.len() - sets.first_of_size(split.size) as usize;
            assert!(split.words * heavy <= most as usize, "{split:?}");
        }
        let sparse: Rows = (0..500).map(|row| (row * 3..row * 3 + 5).collect()).collect();
        assert_eq!(choose(&sparse, u64::MAX).words, 0);
    }
}
