//! `bitmap`: which pairs have close signatures?
//!
//! There is no index. Every set gets a signature in which each token toggles a bit, and every probe is
//! compared with every build set that the length filter leaves, a few billion pairs a second. A
//! pair whose signatures differ in more bits than its sets may differ in tokens is dropped. Survivors
//! are compared once more by a wider signature, then verified. If prefix lists are long (large sets,
//! small universes, low thresholds), no other technique is faster.
//!
//! # Flow
//!
//! ```text
//! block of probes × block of build sets ─► distance, four probes at a time ─► survivors ─┐
//!                     (in the cache)         (one limit for a run of sizes)               ▼
//!                                              sink ◄─ merge ◄─ distance of wide signatures
//! ```
//!
//! # Exactness
//!
//! A token that both sets hold toggles the same bit in both signatures, so signatures differ in at
//! most as many bits as the sets have tokens without a partner: `distance ≤ |r| + |s| - 2·overlap`.
//! A pair of the result has at least the required overlap, so its distance is at most
//! [`Bounds::budget`]. A run of build sets of several sizes is compared with the largest of their
//! budgets.
//!
//! If every token has a bit of its own ([`Dense`]), the signature is the set: the distance *is*
//! the number of tokens without a partner, and the overlap follows without verification.
//!
//! # Memory
//!
//! Each set needs two signatures: `8·W` bytes for the scan and 64 bytes for the second comparison.
//!
//! [`Bounds::budget`]: simjoin_core::Bounds::budget

use crate::verify::Emitter;
use rayon::prelude::*;
use simjoin_core::{Result, SetCollection, SetId, SetPair, Sink};
use simjoin_engine::{
    Budget, Cost, CostTable, Order, Prepared, Random, Reach, SetTask, Sets, Survey, Technique,
    Tile, WIDTHS, Worker, reaches,
};
use simjoin_kernels::bitmap::{Kernels, PROBES, SLACK};
use simjoin_kernels::overlap::Verify;
use simjoin_kernels::prefetch::prefetch;
use std::ops::{ControlFlow, Range};

/// The technique that compares the signatures of all pairs.
pub struct Bitmap {
    /// The words of a signature: 1, 2, 4, 8, 16 or 32.
    pub words: usize,
}

/// The technique that compares bitmaps with a bit for every token.
pub struct Dense;

/// The words of the second signature.
const WIDE: usize = 8;

/// The approximate number of signature pairs in a piece: a few milliseconds.
const PIECE_PAIRS: u64 = 16_000_000;

/// The smallest number of signature pairs in a piece.
const LEAST_PAIRS: u64 = 50_000;

/// The build sets in a block: their signatures fit the second-level cache.
const BLOCK: usize = 4096;

/// Build sets of neighbouring sizes form one run until it has this many sets.
const RUN: u32 = 512;

impl Bitmap {
    /// The widths of a signature, in words.
    pub const WORDS: [usize; 6] = [1, 2, 4, 8, 16, 32];

    fn place(&self) -> usize {
        self.words.ilog2() as usize
    }
}

impl Technique<Sets> for Bitmap {
    fn name(&self) -> &'static str {
        "bitmap"
    }

    fn variant(&self) -> String {
        format!("{} bits", 64 * self.words)
    }

    fn cost(&self, survey: &Survey<'_>, costs: &CostTable) -> Option<Cost> {
        let place = self.place();
        let pairs = survey.pairs as f64;
        let survival = |place: usize| survey.survival[place.min(WIDTHS.len() - 1)];
        let seconds = if is_exact(&survey.task, self.words) {
            pairs * survival(place) * costs.second
        } else {
            let second =
                if self.words < WIDE { pairs * survival(place) * costs.second } else { 0.0 };
            let verified = pairs * survival(place.max(3));
            // The sets are rarely in the cache.
            let each = |size: f64| 2.0 * costs.verify + 2.0 * size * costs.verify_token;
            second
                + verified * each(survey.mean_size)
                + crowded(survey, self.words.max(WIDE))
                    .map(|(pairs, n)| pairs * each(n))
                    .sum::<f64>()
        };
        Some(Cost {
            // Signatures are made in several steps; threads must be woken for each.
            serial: if survey.sets > 2_000 { 4.0 * costs.start } else { costs.start },
            parallel: survey.tokens as f64 * 2.0 * costs.sign_token
                + survey.sets as f64 * costs.pass * (2 + self.words) as f64
                + survey.runs(|| calls(survey)) as f64 * costs.call
                + pairs * costs.scan[place]
                + seconds,
        })
    }

    fn memory_bytes(&self, task: &SetTask<'_>, tile: &Tile, threads: usize) -> u64 {
        // The signatures of a self-join are one array, but it leaves out the sets between probes and
        // build sets that are far apart.
        let sets = (tile.probes.len() + tile.builds.len()) as u64;
        let sets =
            if task.order == Order::Before { sets.min(task.build.len() as u64) } else { sets };
        // While planes are made, each signature exists twice.
        let wide = if self.words < WIDE { 8 * WIDE as u64 } else { 0 };
        sets * (16 * self.words as u64 + wide)
            + 24 * (task.build.len() / RUN as usize + task.build.classes().len()) as u64
            + threads as u64 * 4 * (PROBES * BLOCK + SLACK) as u64
    }

    fn prepare<'a>(
        &self,
        task: &SetTask<'a>,
        tile: &Tile,
        _: &Budget,
    ) -> Result<Box<dyn Prepared<Sets> + 'a>> {
        Ok(match self.words {
            1 => Box::new(Signed::<1>::new(task, tile)),
            2 => Box::new(Signed::<2>::new(task, tile)),
            4 => Box::new(Signed::<4>::new(task, tile)),
            8 => Box::new(Signed::<8>::new(task, tile)),
            16 => Box::new(Signed::<16>::new(task, tile)),
            _ => Box::new(Signed::<32>::new(task, tile)),
        })
    }
}

/// Estimates the number and the size of pairs of sets so large that their signatures are full and filter
/// nothing. Such pairs may be too few for the samples and yet cost the most.
fn crowded<'s>(survey: &'s Survey<'_>, words: usize) -> impl Iterator<Item = (f64, f64)> + 's {
    let classes = survey.task.probe.classes().iter().zip(&survey.reaches);
    // Half of the bits of two full signatures differ, and larger sets are fuller.
    let full = move |n: u32| survey.task.predicate.budget(n, n) >= 28 * words as i64;
    let full = classes.rev().take_while(move |(class, _)| full(class.size));
    full.map(|(class, reach)| (reach.pairs as f64, f64::from(class.size)))
}

/// Returns the number of comparisons of a probe with a run. If sizes vary much, runs are short.
fn calls(survey: &Survey<'_>) -> u64 {
    let build = survey.task.build;
    let calls = |reach: &Reach| {
        // A run ends at the end of a size, unless it is still short, and at the end of a block.
        let sizes = build.class_of(reach.builds.end - 1) - build.class_of(reach.builds.start) + 1;
        let runs = (sizes as usize).min(reach.builds.len().div_ceil(RUN as usize));
        let runs = runs + reach.builds.len() / BLOCK;
        runs as u64 * reach.probes.len().div_ceil(PROBES) as u64
    };
    survey.reaches.iter().filter(|reach| reach.pairs > 0).map(calls).sum()
}

/// Estimates the number of pairs of rows of a join, without pairs of equal sets, from `samples` groups
/// of probes. Each group of neighbouring probes is joined exactly. Groups are drawn in proportion to
/// their rows. Returns `None` if this takes more than `memory` bytes.
pub fn estimate_rows(task: &SetTask<'_>, samples: usize, memory: u64) -> Option<f64> {
    let whole = Tile::whole(task);
    if (Bitmap { words: 2 }).memory_bytes(task, &whole, rayon::current_num_threads()) > memory {
        return None;
    }
    let signed = Signed::<2>::new(task, &whole);
    let mut groups = Vec::new();
    let mut total = 0u64;
    for (class, reach) in signed.reaches.iter().enumerate().filter(|(_, reach)| reach.pairs > 0) {
        let mut start = reach.probes.start;
        while start < reach.probes.end {
            let end = reach.probes.end.min(start + PROBES as SetId);
            total += (start..end).map(|set| u64::from(task.probe.weight(set))).sum::<u64>();
            groups.push((total, start..end, class));
            start = end;
        }
    }
    if groups.is_empty() {
        return Some(0.0);
    }
    let exhaustive = groups.len() <= samples;
    let chosen: Vec<usize> = if exhaustive {
        (0..groups.len()).collect()
    } else {
        let mut random = Random::default();
        let ticket = |_| {
            let ticket = random.below(total);
            groups.partition_point(|(sum, ..)| *sum <= ticket)
        };
        (0..samples).map(ticket).collect()
    };
    let estimates: Vec<f64> = chosen
        .par_iter()
        .map_init(
            || signed.signed_worker(),
            |worker, &at| {
                let (_, probes, class) = &groups[at];
                let reach = &signed.reaches[*class];
                let mut sink = RowSum { task: *task, rows: 0 };
                let mut emitter = Emitter::new(&mut sink);
                let first = signed.runs.partition_point(|run| run.builds.end <= reach.builds.start);
                for run in &signed.runs[first..] {
                    if run.builds.start >= reach.builds.end {
                        break;
                    }
                    worker.scan(probes.clone(), run, reach, &mut emitter);
                }
                let _ = emitter.finish();
                let weight: u64 = probes.clone().map(|set| u64::from(task.probe.weight(set))).sum();
                sink.rows as f64 / if exhaustive { 1.0 } else { weight as f64 }
            },
        )
        .collect();
    let sum: f64 = estimates.iter().sum();
    Some(if exhaustive { sum } else { sum * total as f64 / samples as f64 })
}

/// A sink that adds up the pairs of rows of pairs of sets.
struct RowSum<'a> {
    task: SetTask<'a>,
    rows: u64,
}

impl Sink<SetPair> for RowSum<'_> {
    fn wants_value(&self) -> bool {
        false
    }

    fn push(&mut self, pairs: &[SetPair]) -> ControlFlow<()> {
        for pair in pairs {
            let probe = u64::from(self.task.probe.weight(pair.probe));
            self.rows += probe * u64::from(self.task.build.weight(pair.build));
        }
        ControlFlow::Continue(())
    }
}

/// Returns whether signatures of this width hold a bit for every token.
fn is_exact(task: &SetTask<'_>, words: usize) -> bool {
    task.build.universe() as usize <= 64 * words
}

impl Dense {
    fn words(task: &SetTask<'_>) -> Option<usize> {
        Bitmap::WORDS.into_iter().find(|&words| is_exact(task, words))
    }
}

impl Technique<Sets> for Dense {
    fn name(&self) -> &'static str {
        "dense"
    }

    fn cost(&self, survey: &Survey<'_>, costs: &CostTable) -> Option<Cost> {
        Bitmap { words: Self::words(&survey.task)? }.cost(survey, costs)
    }

    fn memory_bytes(&self, task: &SetTask<'_>, tile: &Tile, threads: usize) -> u64 {
        let words = Self::words(task).unwrap_or(32);
        Bitmap { words }.memory_bytes(task, tile, threads)
    }

    fn prepare<'a>(
        &self,
        task: &SetTask<'a>,
        tile: &Tile,
        room: &Budget,
    ) -> Result<Box<dyn Prepared<Sets> + 'a>> {
        // If the universe is too large, use the widest signatures and verification.
        let words = Self::words(task).unwrap_or(32);
        Bitmap { words }.prepare(task, tile, room)
    }
}

/// The signatures of a range of sets.
struct Signatures<const W: usize> {
    base: SetId,
    /// Word `w` of set `base + i` is `planes[w][i]`.
    planes: [Vec<u64>; W],
    wide: Vec<[u64; WIDE]>,
}

impl<const W: usize> Signatures<W> {
    fn new(sets: &SetCollection, range: Range<SetId>, exact: bool) -> Self {
        let (kernels, wide) = (Kernels::<W>::best(), Kernels::<WIDE>::best());
        let top = sets.universe().saturating_sub(1);
        let base = range.start;
        let narrow: Vec<[u64; W]> = range
            .clone()
            .into_par_iter()
            .with_min_len(1024)
            .map(|set| kernels.signature(sets.set(set), top))
            .collect();
        let mut planes: [Vec<u64>; W] = std::array::from_fn(|_| Vec::new());
        planes.par_iter_mut().enumerate().for_each(|(w, plane)| {
            plane.extend(narrow.iter().map(|signature| signature[w]));
        });
        let wide = if exact || W >= WIDE {
            Vec::new()
        } else {
            range
                .into_par_iter()
                .with_min_len(1024)
                .map(|set| wide.signature(sets.set(set), top))
                .collect()
        };
        Signatures { base, planes, wide }
    }

    fn of(&self, set: SetId) -> [u64; W] {
        std::array::from_fn(|w| self.planes[w][(set - self.base) as usize])
    }
}

struct Signed<'a, const W: usize> {
    task: SetTask<'a>,
    reaches: Vec<Reach>,
    /// Whether signatures have a bit for every token.
    exact: bool,
    /// `None` in a self-join, which uses the signatures of the build sets.
    probes: Option<Signatures<W>>,
    builds: Signatures<W>,
    /// The runs of build sets, and the classes in each.
    runs: Vec<Run>,
    pieces: Vec<Range<SetId>>,
}

struct Run {
    builds: Range<SetId>,
    classes: Range<usize>,
}

impl Run {
    /// Returns the largest budget of a probe of size `n` with a set of the run, or a little more;
    /// negative if there is none.
    #[inline(always)]
    fn limit(&self, task: &SetTask<'_>, n: u32) -> i64 {
        let size = |class: usize| task.build.classes()[class].size;
        let (first, last) = (size(self.classes.start), size(self.classes.end - 1));
        if first == last {
            return task.predicate.budget(n, first);
        }
        // Shares are linear in the size, so the largest is at one of the ends.
        const UNIT: i32 = 16;
        let share = |size: u32| task.predicate.build_share(size, UNIT);
        (task.predicate.probe_share(n, UNIT) + share(first).max(share(last)))
            .div_euclid(UNIT.into())
    }
}

impl<'a, const W: usize> Signed<'a, W> {
    fn new(task: &SetTask<'a>, tile: &Tile) -> Self {
        let reaches = reaches(task, tile);
        let met = reaches.iter().filter(|reach| reach.pairs > 0);
        let all = |ranges: &mut dyn Iterator<Item = &Range<SetId>>| {
            let first = ranges.next().cloned().unwrap_or(0..0);
            ranges.fold(first, |span, range| span.start.min(range.start)..span.end.max(range.end))
        };
        let probes = all(&mut met.clone().map(|reach| &reach.probes));
        let builds = all(&mut met.clone().map(|reach| &reach.builds));
        let exact = is_exact(task, W);
        let span = probes.start.min(builds.start)..probes.end.max(builds.end);
        let together = span.len() <= probes.len() + builds.len();
        let (probe_signatures, build_signatures) = if task.order == Order::Before && together {
            (None, Signatures::new(task.build, span, exact))
        } else {
            let probes = Signatures::new(task.probe, probes, exact);
            (Some(probes), Signatures::new(task.build, builds.clone(), exact))
        };
        let pieces = cut(&reaches, task.order);
        let runs = runs(task.build, builds);
        Signed {
            task: *task,
            reaches,
            exact,
            probes: probe_signatures,
            builds: build_signatures,
            runs,
            pieces,
        }
    }

    fn probe_signatures(&self) -> &Signatures<W> {
        self.probes.as_ref().unwrap_or(&self.builds)
    }
}

/// Cuts probes into pieces of about equal numbers of pairs, by rising probe.
fn cut(reaches: &[Reach], order: Order) -> Vec<Range<SetId>> {
    let mut pieces: Vec<Range<SetId>> = Vec::new();
    let all: u64 = reaches.iter().map(|reach| reach.pairs).sum();
    let goal = (all / 16).clamp(LEAST_PAIRS, PIECE_PAIRS);
    let mut pairs = u64::MAX;
    for reach in reaches.iter().filter(|reach| reach.pairs > 0) {
        for probe in reach.probes.clone() {
            if pairs >= goal {
                pieces.push(probe..probe);
                pairs = 0;
            }
            if let Some(piece) = pieces.last_mut() {
                piece.end = probe + 1;
            }
            pairs += reach.of(order, probe).len() as u64;
        }
    }
    pieces
}

/// Cuts build sets into runs of neighbouring sizes, none longer than a block.
fn runs(sets: &SetCollection, builds: Range<SetId>) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for (at, class) in sets.classes().iter().enumerate() {
        let range = class.start.max(builds.start)..class.end.min(builds.end);
        let mut start = range.start;
        while start < range.end {
            match runs.last_mut() {
                Some(run) if (run.builds.len() as u32) < RUN && run.builds.end == start => {
                    run.builds.end = range.end.min(run.builds.start + BLOCK as u32);
                    run.classes.end = at + 1;
                    start = run.builds.end;
                }
                _ => {
                    let end = range.end.min(start + BLOCK as u32);
                    runs.push(Run { builds: start..end, classes: at..at + 1 });
                    start = end;
                }
            }
        }
    }
    runs
}

impl<const W: usize> Prepared<Sets> for Signed<'_, W> {
    fn pieces(&self) -> usize {
        self.pieces.len()
    }

    fn worker<'a>(&'a self) -> Result<Box<dyn Worker<Sets> + 'a>> {
        Ok(Box::new(self.signed_worker()))
    }
}

impl<const W: usize> Signed<'_, W> {
    fn signed_worker(&self) -> SignedWorker<'_, W> {
        SignedWorker {
            signed: self,
            kernels: Kernels::best(),
            wide: Kernels::best(),
            verify: Verify::best(),
            out: vec![0; PROBES * BLOCK + SLACK],
            verified: 0,
        }
    }
}

struct SignedWorker<'a, const W: usize> {
    signed: &'a Signed<'a, W>,
    kernels: Kernels<W>,
    wide: Kernels<WIDE>,
    verify: Verify,
    out: Vec<u32>,
    verified: u64,
}

impl<const W: usize> SignedWorker<'_, W> {
    /// Compares up to [`PROBES`] probes of one size with a run.
    fn scan(&mut self, probes: Range<SetId>, run: &Run, reach: &Reach, emitter: &mut Emitter<'_>) {
        let Signed { task, builds, exact, .. } = self.signed;
        let n = task.probe.size(probes.start);
        let last = reach.of(task.order, probes.end - 1);
        let range = run.builds.start.max(last.start)..run.builds.end.min(last.end);
        if range.is_empty() {
            return;
        }
        let limit = run.limit(task, n);
        if limit < 0 {
            return;
        }
        let signatures = self.signed.probe_signatures();
        let mut limits = [u64::MAX; PROBES];
        let mut probe_words = [[0; W]; PROBES];
        for (p, probe) in probes.clone().enumerate() {
            limits[p] = limit as u64;
            probe_words[p] = signatures.of(probe);
        }
        let from = (range.start - builds.base) as usize..(range.end - builds.base) as usize;
        let planes: [&[u64]; W] = std::array::from_fn(|w| &builds.planes[w][from.clone()]);
        let found = self.kernels.scan_run(&planes, &probe_words, &limits, &mut self.out);
        let mut open = 0;
        for at in 0..found {
            let code = self.out[at];
            let probe = probes.start + (code >> 16);
            let build = range.start + (code & 0xffff);
            let m = task.build.size(build);
            let met = build < probe || task.order != Order::Before;
            if *exact {
                let distance = self.kernels.distance(&signatures.of(probe), &builds.of(build));
                let overlap = (n + m - distance as u32) / 2;
                if met && overlap >= task.predicate.required_overlap(n, m) {
                    emitter.push(probe, build, overlap);
                }
                continue;
            }
            let survives = W >= WIDE || {
                let distance = self.wide.distance(
                    &signatures.wide[(probe - signatures.base) as usize],
                    &builds.wide[(build - builds.base) as usize],
                );
                distance as i64 <= limit
            };
            if met && survives {
                prefetch(task.build.set(build));
                self.out[open] = code;
                open += 1;
            }
        }
        for &code in &self.out[..open] {
            let probe = probes.start + (code >> 16);
            let build = range.start + (code & 0xffff);
            let (r, s) = (task.probe.set(probe), task.build.set(build));
            let required = task.predicate.required_overlap(n, s.len() as u32);
            self.verified += 1;
            if let Some(overlap) = self.verify.overlap(r, s, 0, required) {
                emitter.push(probe, build, overlap);
            }
        }
    }
}

impl<const W: usize> SignedWorker<'_, W> {
    fn join(&mut self, piece: usize, sink: &mut dyn Sink<SetPair>) -> ControlFlow<()> {
        let signed = self.signed;
        let Signed { task, reaches, runs, pieces, .. } = signed;
        let piece = pieces[piece].clone();
        let mut emitter = Emitter::new(sink);
        // Take up to `PROBES` probes of one size at a time.
        let mut groups = Vec::new();
        let mut probe = piece.start;
        while probe < piece.end {
            let class = task.probe.class_of(probe) as usize;
            let end = task.probe.classes()[class].end.min(piece.end);
            while probe < end && reaches[class].pairs > 0 {
                let next = end.min(probe + PROBES as u32);
                groups.push((probe..next, class));
                probe = next;
            }
            probe = end;
        }
        let first = groups.iter().map(|(_, class)| reaches[*class].builds.start).min();
        let first = runs.partition_point(|run| run.builds.end <= first.unwrap_or(0));
        for run in &runs[first..] {
            for (probes, class) in &groups {
                let reach = &reaches[*class];
                if reach.builds.start < run.builds.end && run.builds.start < reach.builds.end {
                    self.scan(probes.clone(), run, reach, &mut emitter);
                }
            }
            emitter.flow()?;
            if run.builds.start >= piece.end && task.order == Order::Before {
                break;
            }
        }
        emitter.finish()
    }
}

impl<const W: usize> Worker<Sets> for SignedWorker<'_, W> {
    fn run(&mut self, piece: usize, sink: &mut dyn Sink<SetPair>) -> Result<ControlFlow<()>> {
        Ok(self.join(piece, sink))
    }

    fn candidates(&self) -> u64 {
        self.verified
    }
}
