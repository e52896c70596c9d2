//! `prefix-bitmap`: which sets with a common rare token have close signatures?
//!
//! The published prefix techniques process one probe at a time and count its prefix tokens in each
//! candidate. This technique processes one *token* at a time. All sets with the token in their prefix
//! are next to each other in a list, each with a small signature of its tokens from this one on. Vector
//! instructions compare every probe of the list with every build set of the list, without counters and
//! without jumps through memory. Few pairs survive, and they are verified.
//!
//! # Flow
//!
//! ```text
//! prefixes ─► lists by token ─► signatures of a list, probe by probe ─► survivors ─► verify ─► sink
//!             (a piece: a       (length filter, distance + position)      (first common token,
//!              range of tokens)                                            overlap of the rests)
//! ```
//!
//! All threads make the lists together. Each handles a part of the sets and has its own places in every
//! list. Then the threads take pieces. A piece is a range of tokens or, for a token with very many pairs,
//! a range of probes. If the lists of all tokens do not fit the memory, they are made and compared in
//! rounds, a range of tokens at a time.
//!
//! # Exactness
//!
//! *Prefix.* Let the pair `r, s` be in the result, with its first common token at `i` in `r` and `j` in
//! `s`. All common tokens are at these positions or later, so `|r|-i` and `|s|-j` reach the required
//! overlap. Therefore the token is in both prefixes, and the pair meets in its list. The pair may meet
//! again in the list of a later common token, but it is reported only if there is no earlier common
//! token, hence exactly once.
//!
//! *Signature.* At the first common token, `i` tokens of `r` and `j` of `s` come before it and have
//! no partner. The signatures of the rests differ in at most as many bits as the rests have tokens
//! without a partner. So `i + j + distance ≤ |r| + |s| - 2·required`, the pair's budget. The kernel
//! compares with the budget's two shares ([`Bounds::probe_share`]), which are never too small.
//!
//! *Distinct sets.* The sets of a collection are distinct, so two sets of one size `n` share at most
//! `n - 1` tokens. In a self-join, a size is left out if its sets would have to share more with sets of
//! their own size and of every smaller size. The remaining sizes determine the lengths of the prefixes.
//!
//! # Memory
//!
//! Each part takes 4 bytes for each token that is not unique, and until lists are opened 8 more bytes a
//! token. A round takes `24 + 8·W` bytes per set and prefix token, with signatures of `W` words. Each
//! worker takes `32 + 16·W` bytes per entry of the longest list, and 12 more if there is enough memory.
//!
//! [`Bounds::probe_share`]: simjoin_core::Bounds::probe_share

mod check;
mod lists;

use self::check::{Check, NONE, Required};
use self::lists::{ClassRange, CollectionLists, PROBE, Slot, class_of, open_lists};
use crate::verify::Emitter;
use rayon::prelude::*;
use simjoin_core::{Result, SetCollection, SetId, SetPair, Sink, SizeClass, TokenId};
use simjoin_engine::{
    Budget, Cost, CostTable, Order, Prepared, Reach, SetTask, Sets, Survey, Technique, Tile,
    Worker, build_prefixes, reaches,
};
use simjoin_kernels::bitmap::{Kernels, PROBES, Probes, SLACK, Survivors, WEIGHT_UNIT};
use simjoin_kernels::overlap::Verify;
use std::ops::{ControlFlow, Range};

/// The technique that compares signatures within prefix lists.
pub struct PrefixBitmap {
    /// The words of a signature: 1, 2 or 4.
    pub words: usize,
}

impl PrefixBitmap {
    /// The widths of a signature, in words.
    pub const WORDS: [usize; 3] = [1, 2, 4];
}

/// The fixed cost of comparing an entry, in signature comparisons.
const ENTRY_WORK: u64 = 32;

/// Three fitted factors of the cost (48 joins on a 2-core EPYC and a Xeon, 2026-11-17): the cost of counting a token
/// that meets no other, in entries; the cost of a token of the universe, in passes over a set; and the share of the
/// tokens that are really merged, of those that may have to be merged.
const COUNTED: f64 = 0.02;
const COUNTER: f64 = 3.0;
const MERGED: f64 = 0.1;

/// The smallest work of a piece, in signature comparisons.
const PIECE_WORK: u64 = 50_000;

/// The number of pieces per thread, if there is enough work.
const PIECES: u64 = 8;

/// The number of lists that one thread cuts into pieces.
const BLOCK: usize = 1 << 13;

impl Technique<Sets> for PrefixBitmap {
    fn name(&self) -> &'static str {
        "prefix-bitmap"
    }

    fn variant(&self) -> String {
        format!("{} bits", 64 * self.words)
    }

    fn cost(&self, survey: &Survey<'_>, costs: &CostTable) -> Option<Cost> {
        let place = self.words.ilog2() as usize;
        // Tokens that meet no other are only counted. In a self-join, sets that are no probes meet fewer
        // probes if there are fewer.
        let entries = survey.entries as f64;
        let mut live = entries * survey.live;
        if survey.task.order == Order::Before && survey.entries > 0 {
            let probes = survey.probe_entries.min(survey.entries) as f64 / entries;
            live *= probes + (1.0 - probes) * probes;
        }
        let build = survey.task.build;
        let tokens = f64::from(build.universe() - build.unique_tokens());
        let wider = 1.0 + 0.15 * place as f64;
        let survival = survey.list_survival[place];
        // Some survivors are merged, usually only for a few tokens. Their sets are rarely in the cache.
        let closely = 1.6 * survey.list_open * costs.verify
            + MERGED * survey.list_merged * costs.verify_token;
        let narrow = survey.list_survival[0].max(f64::MIN_POSITIVE);
        let pair = costs.list[place] + survival * costs.survivor + closely * survival / narrow;
        Some(Cost {
            serial: if survey.sets > 2_000 { 2.0 * costs.start } else { costs.start }
                + COUNTER * tokens * costs.pass,
            parallel: survey.sets as f64 * costs.pass
                + live * costs.entry * wider
                + (entries - live) * costs.entry * COUNTED
                + survey.list_pairs * pair
                // In a self-join a set is in the lists once, with the longer prefix.
                + survey.list_idle * costs.list[place],
        })
    }

    fn memory_bytes(&self, task: &SetTask<'_>, tile: &Tile, threads: usize) -> u64 {
        fn least<const W: usize>(task: &SetTask<'_>, tile: &Tile, threads: usize) -> u64 {
            let lists = Lists::<W>::counted(task, tile, threads);
            // A round holds at least the longest list.
            lists.fixed_bytes(threads) + lists.longest() * Slot::<W>::BYTES
        }
        match self.words {
            1 => least::<1>(task, tile, threads),
            2 => least::<2>(task, tile, threads),
            _ => least::<4>(task, tile, threads),
        }
    }

    fn memory_at_most(&self, task: &SetTask<'_>, tile: &Tile, threads: usize) -> u64 {
        // A set is in a list once for each of its roles; a token has a start, and a count in each part.
        let longest = (tile.probes.len() + tile.builds.len()) as u64;
        let of_side = |sets: &SetCollection| {
            let tokens = u64::from(sets.universe() - sets.unique_tokens());
            4 * (tokens * (threads.max(1) as u64 + 2) + 1)
        };
        let classes = task.probe.classes().len() + task.build.classes().len();
        fixed_bytes(
            of_side(task.probe) + of_side(task.build),
            classes,
            longest,
            self.words,
            threads,
        ) + longest * (24 + 8 * self.words as u64)
    }

    fn prepare<'a>(
        &self,
        task: &SetTask<'a>,
        tile: &Tile,
        room: &Budget,
    ) -> Result<Box<dyn Prepared<Sets> + 'a>> {
        Ok(match self.words {
            1 => Box::new(Lists::<1>::new(task, tile, room)),
            2 => Box::new(Lists::<2>::new(task, tile, room)),
            _ => Box::new(Lists::<4>::new(task, tile, room)),
        })
    }
}

/// The data of the filter about the probes of one size.
#[derive(Clone, Copy)]
struct ProbeClass {
    size: u32,
    /// The first build set that is large enough.
    first: SetId,
    /// The probe's share of the budget; very large above [`MAX_WEIGHTED`].
    share: i64,
}

/// The data of the filter about the build sets of one size.
#[derive(Clone, Copy, Default)]
struct BuildClass {
    prefix: u32,
    share: i64,
}

/// The largest size that the signature filter supports. Weights of larger sets would not fit, so these
/// always pass.
const MAX_WEIGHTED: u32 = 1 << 26;

struct Lists<'a, const W: usize> {
    task: SetTask<'a>,
    reaches: Vec<Reach>,
    probes: Vec<ProbeClass>,
    builds: Vec<BuildClass>,
    /// One side for a self-join; probes and build sets for a join of two.
    sides: Vec<CollectionLists<'a, W>>,
    /// The token of each list. Lists are numbered by their places here.
    tokens: Vec<TokenId>,
    rounds: Vec<Range<usize>>,
    /// The current round, and its pieces.
    round: Range<usize>,
    pieces: Vec<Piece>,
    threads: u64,
    /// The number of probes whose survivors fit the memory.
    at_once: usize,
}

/// The bytes in addition to the entries: counts and starts and, for each worker, a window for the longest
/// list, and survivors.
fn fixed_bytes(counts: u64, classes: usize, longest: u64, words: usize, threads: usize) -> u64 {
    let window = (longest + WINDOW as u64) * (32 + 16 * words as u64) + Survivors::BYTES;
    counts + 100 * classes as u64 + threads as u64 * (window + Required::BYTES)
}

/// A range of lists, or a part of the probes of a single list.
#[derive(Clone, Debug)]
struct Piece {
    lists: Range<usize>,
    part: u32,
    parts: u32,
}

impl<'a, const W: usize> Lists<'a, W> {
    fn new(task: &SetTask<'a>, tile: &Tile, room: &Budget) -> Self {
        let mut lists = Self::counted(task, tile, room.threads);
        lists.rounds = if room.bytes == u64::MAX {
            // Everything fits.
            let all = 0..lists.tokens.len();
            if all.is_empty() { Vec::new() } else { vec![all] }
        } else {
            let mut left = room.bytes.saturating_sub(lists.fixed_bytes(room.threads));
            let more =
                room.threads as u64 * 4 * (PROBES as u64 - 1) * (lists.longest() + SLACK as u64);
            if more < left / 8 {
                left -= more;
            } else {
                lists.at_once = 1;
            }
            lists.rounds(left / Slot::<W>::BYTES)
        };
        lists
    }

    /// Returns the bytes in addition to the entries.
    fn fixed_bytes(&self, threads: usize) -> u64 {
        let counts = self.sides.iter().map(CollectionLists::bytes).sum::<u64>()
            + 4 * self.tokens.len() as u64;
        let classes = self.reaches.len() + self.builds.len();
        fixed_bytes(counts, classes, self.longest(), W, threads)
    }

    /// Returns the number of entries of the longest list.
    fn longest(&self) -> u64 {
        (0..self.tokens.len()).map(|list| self.entries(list)).max().unwrap_or(0)
    }

    /// Makes the lists of a tile, without their rounds.
    fn counted(task: &SetTask<'a>, tile: &Tile, threads: usize) -> Self {
        let reaches = reaches(task, tile);
        let probe = |(class, reach): (&SizeClass, &Reach)| ProbeClass {
            size: class.size,
            first: reach.builds.start,
            share: if class.size > MAX_WEIGHTED {
                i64::MAX / 2
            } else {
                task.predicate.probe_share(class.size, WEIGHT_UNIT)
            },
        };
        let probes = task.probe.classes().iter().zip(&reaches).map(probe).collect();
        let build = |(prefix, class): (u32, &SizeClass)| BuildClass {
            prefix,
            share: task.predicate.build_share(class.size, WEIGHT_UNIT),
        };
        let prefixes = build_prefixes(task, tile, &reaches).into_iter();
        let builds: Vec<BuildClass> = prefixes.zip(task.build.classes()).map(build).collect();
        let side = |sets: &'a SetCollection, as_probes: bool, as_builds: bool| {
            let prefixes = |class: usize, sets: &Range<SetId>| {
                let within =
                    |range: &Range<SetId>| range.start <= sets.start && sets.end <= range.end;
                let probe = as_probes && within(&tile.probes);
                let build = as_builds && within(&tile.builds);
                (
                    if probe { reaches[class].prefix } else { 0 },
                    if build { builds[class].prefix } else { 0 },
                )
            };
            CollectionLists::counted(sets, class_ranges(sets, tile, prefixes), threads)
        };
        let mut sides = if task.order == Order::Before {
            vec![side(task.probe, true, true)]
        } else {
            vec![side(task.probe, true, false), side(task.build, false, true)]
        };
        let tokens = open_lists(&mut sides);
        Lists {
            task: *task,
            reaches,
            probes,
            builds,
            sides,
            tokens,
            rounds: Vec::new(),
            round: 0..0,
            pieces: Vec::new(),
            threads: threads as u64,
            at_once: PROBES,
        }
    }

    /// Returns the number of entries of a list, on all sides.
    #[inline(always)]
    fn entries(&self, list: usize) -> u64 {
        self.sides.iter().map(|side| side.entries(list..list + 1) as u64).sum()
    }

    /// Returns the work of a list, in signature comparisons.
    #[inline(always)]
    fn work(&self, list: usize) -> u64 {
        let entries = |side: &CollectionLists<'_, W>| side.entries(list..list + 1) as u64;
        match self.sides.as_slice() {
            [both] => entries(both) * ENTRY_WORK + entries(both) * (entries(both) - 1) / 2,
            sides => {
                let (probes, builds) = (entries(&sides[0]), entries(&sides[1]));
                (probes + builds) * ENTRY_WORK + probes * builds
            }
        }
    }

    /// Returns ranges of lists whose entries fit the memory. A list that does not fit is a range by itself.
    fn rounds(&self, room: u64) -> Vec<Range<usize>> {
        let count = self.tokens.len();
        let mut rounds = Vec::new();
        let (mut start, mut held) = (0, 0);
        for list in 0..count {
            let entries = self.entries(list);
            if held > 0 && held + entries > room {
                rounds.push(start..list);
                (start, held) = (list, 0);
            }
            held += entries;
        }
        if start < count {
            rounds.push(start..count);
        }
        rounds
    }

    /// Cuts the lists of a round into pieces of about equal work.
    ///
    /// Pieces are ranges of rising tokens or, within a token, ranges of rising probes. So the order of all
    /// pairs does not depend on the cuts.
    fn cut(&self, round: &Range<usize>) -> Vec<Piece> {
        let starts: Vec<usize> = round.clone().step_by(BLOCK).collect();
        let block = |start: usize| start..round.end.min(start + BLOCK);
        let work = |start: usize| block(start).map(|list| self.work(list)).sum::<u64>();
        let goal = |all: u64| (all / (self.threads * PIECES)).max(PIECE_WORK);
        match starts[..] {
            [start] => self.cut_block(block(start), goal(work(start))),
            _ => {
                let goal = goal(starts.par_iter().map(|&start| work(start)).sum());
                let pieces = |&start: &usize| self.cut_block(block(start), goal);
                starts.par_iter().flat_map_iter(pieces).collect()
            }
        }
    }

    /// Cuts a range of lists into pieces of about equal work.
    fn cut_block(&self, block: Range<usize>, goal: u64) -> Vec<Piece> {
        let mut pieces: Vec<Piece> = Vec::new();
        let (mut start, mut done) = (block.start, 0);
        for list in block.clone() {
            let work = self.work(list);
            if work > goal + goal / 2 {
                // A list with more work than a piece becomes several pieces.
                if start < list {
                    pieces.push(Piece { lists: start..list, part: 0, parts: 1 });
                }
                let parts = (work / goal) as u32 + 1;
                let piece = |part| Piece { lists: list..list + 1, part, parts };
                pieces.extend((0..parts).map(piece));
                (start, done) = (list + 1, 0);
            } else {
                done += work;
                if done >= goal {
                    pieces.push(Piece { lists: start..list + 1, part: 0, parts: 1 });
                    (start, done) = (list + 1, 0);
                }
            }
        }
        if start < block.end {
            pieces.push(Piece { lists: start..block.end, part: 0, parts: 1 });
        }
        pieces
    }
}

/// Returns the ranges of sets that have tokens for lists. The sets of a range have one class and the same
/// roles. `prefixes` returns the number of these tokens as a probe and as a build set.
fn class_ranges(
    sets: &SetCollection,
    tile: &Tile,
    prefixes: impl Fn(usize, &Range<SetId>) -> (u32, u32),
) -> Vec<ClassRange> {
    let mut ranges = Vec::new();
    let ends = [tile.probes.start, tile.probes.end, tile.builds.start, tile.builds.end];
    for (class, bounds) in (0..).zip(sets.classes()) {
        let mut start = bounds.start;
        while start < bounds.end {
            let next = ends.into_iter().filter(|&cut| start < cut).fold(bounds.end, SetId::min);
            let (probe, build) = prefixes(class as usize, &(start..next));
            if probe.max(build) > 0 {
                let (sets, size) = (start..next, bounds.size);
                ranges.push(ClassRange { class, sets, size, probe, build });
            }
            start = next;
        }
    }
    ranges
}

impl<const W: usize> Prepared<Sets> for Lists<'_, W> {
    fn rounds(&self) -> usize {
        self.rounds.len()
    }

    fn begin(&mut self, round: usize) -> Result<()> {
        self.round = self.rounds[round].clone();
        let Range { start, end } = self.round;
        let tokens = self.tokens[start]..self.tokens[end - 1] + 1;
        for side in &mut self.sides {
            side.gather(start..end, &tokens, &self.builds);
        }
        self.pieces = self.cut(&self.round);
        Ok(())
    }

    fn pieces(&self) -> usize {
        self.pieces.len()
    }

    fn worker<'a>(&'a self) -> Result<Box<dyn Worker<Sets> + 'a>> {
        Ok(Box::new(ListWorker::<W> {
            lists: self,
            kernels: Kernels::best(),
            verify: Verify::best(),
            required: Required::new(),
            builds: Columns::default(),
            probes: Columns::default(),
            ranges: Vec::new(),
            limits: Vec::new(),
            survivors: Survivors::default(),
            verified: 0,
        }))
    }
}

/// The smallest number of entries in a window.
const WINDOW: usize = 256;

/// The largest number of entries of lists in which all pairs are compared, whatever their sizes.
const SHORT: usize = 24;

/// Entries as a structure of arrays.
struct Columns<const W: usize> {
    planes: [Vec<u64>; W],
    weights: Vec<i32>,
}

impl<const W: usize> Default for Columns<W> {
    fn default() -> Self {
        Columns { planes: std::array::from_fn(|_| Vec::new()), weights: Vec::new() }
    }
}

impl<const W: usize> Columns<W> {
    /// Stores entries, followed by some that are never close to any probe.
    #[inline(always)]
    fn fill(&mut self, slots: &[Slot<W>]) {
        for (w, plane) in self.planes.iter_mut().enumerate() {
            plane.clear();
            plane.extend(slots.iter().map(|slot| slot.word(w)));
            plane.extend([0; SLACK]);
        }
        self.weights.clear();
        self.weights.extend(slots.iter().map(|slot| slot.position().1));
        self.weights.extend([i32::MAX; SLACK]);
    }

    fn planes(&self, range: Range<usize>) -> [&[u64]; W] {
        std::array::from_fn(|w| &self.planes[w][range.clone()])
    }
}

/// A worker with a window: the current lists as a structure of arrays.
struct ListWorker<'a, const W: usize> {
    lists: &'a Lists<'a, W>,
    kernels: Kernels<W>,
    verify: Verify,
    required: Required,
    builds: Columns<W>,
    /// The probes of a join of two. In a self-join, probes are among the build sets.
    probes: Columns<W>,
    /// For each probe, the places of the build sets that it meets.
    ranges: Vec<Range<u32>>,
    limits: Vec<i32>,
    survivors: Survivors,
    verified: u64,
}

impl<const W: usize> ListWorker<'_, W> {
    /// Compares the probes of a range of lists, or a part of the probes of one list, with the build sets.
    #[inline(never)]
    fn compare(&mut self, window: Range<usize>, piece: &Piece, emitter: &mut Emitter<'_>) {
        let lists = self.lists;
        let first = lists.round.start;
        let last = lists.sides.len() - 1;
        let (probe_side, build_side) = (&lists.sides[0], &lists.sides[last]);
        let all_probes = probe_side.places(window.clone(), first);
        let all_builds = build_side.places(window.clone(), first);
        let part = part_of(all_probes.len(), piece, lists.task.order);
        let probe_slots = &probe_side.slots[all_probes.clone()][part.clone()];
        let build_slots = &build_side.slots[all_builds.clone()];
        self.ranges.resize(part.len(), 0..0);
        self.limits.resize(part.len(), 0);
        let mut widest = 0;
        if lists.task.order == Order::Before {
            self.builds.fill(&build_slots[..part.end]);
        } else {
            self.builds.fill(build_slots);
            self.probes.fill(probe_slots);
        }
        for list in window {
            let here = probe_side.places(list..list + 1, first);
            let begin = (here.start - all_probes.start).max(part.start);
            let end = (here.end - all_probes.start).min(part.end);
            let met = build_side.places(list..list + 1, first);
            let met = met.start - all_builds.start..met.end - all_builds.start;
            let (mut low, mut high) = (met.start, met.start);
            let taken = begin - part.start..end - part.start;
            let filters =
                self.ranges[taken.clone()].iter_mut().zip(&mut self.limits[taken.clone()]);
            let filters = filters.zip(&probe_slots[taken]);
            for (place, ((range, limit), slot)) in (begin..end).zip(filters) {
                let class = slot.set().1;
                let probe = &lists.probes[class_of(class)];
                if lists.task.order == Order::Before {
                    // The entries before it in the list are the sets before it.
                    high = if class & PROBE == 0 { low } else { place };
                } else {
                    let end = lists.reaches[class_of(class)].builds.end;
                    while high < met.end && build_slots[high].set().0 < end {
                        high += 1;
                    }
                }
                // Sets that are too small are passed over where there may be many; elsewhere they
                // fail later.
                if met.len() > SHORT {
                    while low < high && build_slots[low].set().0 < probe.first {
                        low += 1;
                    }
                }
                widest = widest.max(high - low);
                *range = low as u32..high as u32;
                *limit = probe.limit(slot.position().0);
            }
        }
        if widest == 0 {
            return;
        }
        let ListWorker { kernels, builds, probes, ranges, limits, survivors, .. } = self;
        survivors.reserve(lists.at_once, widest);
        let planes = builds.planes(0..builds.weights.len());
        let probes = Probes {
            planes: if last == 0 {
                builds.planes(part.clone())
            } else {
                probes.planes(0..part.len())
            },
            ranges,
            limits,
        };
        let verify = self.verify;
        let (required, verified) = (&mut self.required, &mut self.verified);
        let mut check = Check { lists, verify, required, verified, emitter };
        let mut next = 0;
        while next < part.len() && check.emitter.flow().is_continue() {
            next = kernels.scan_lists(&planes, &builds.weights, &probes, next, survivors);
            survivors.for_each(|probe, places| {
                check.survivors(&probe_slots[probe as usize].read(), build_slots, places);
            });
        }
    }
}

impl ProbeClass {
    /// Returns the limit for the sum of distance and weight of a pair with this probe.
    #[inline(always)]
    fn limit(&self, position: u32) -> i32 {
        let limit = self.share - i64::from(WEIGHT_UNIT) * i64::from(position);
        limit.clamp(i32::MIN.into(), (i32::MAX - 1).into()) as i32
    }
}

/// Returns the number that is added to the distance of a pair.
#[inline(always)]
fn weigh(position: u32, share: i64, size: usize) -> i32 {
    if size > MAX_WEIGHTED as usize {
        return i32::MIN;
    }
    let weight = i64::from(WEIGHT_UNIT) * i64::from(position) - share;
    weight.clamp(i32::MIN.into(), (i32::MAX - 1).into()) as i32
}

impl<const W: usize> ListWorker<'_, W> {
    fn join(&mut self, piece: usize, sink: &mut dyn Sink<SetPair>) -> ControlFlow<()> {
        let lists = self.lists;
        let piece = &lists.pieces[piece];
        let mut emitter = Emitter::new(sink);
        let mut start = piece.lists.start;
        let mut held = 0;
        for list in piece.lists.clone() {
            held += lists.entries(list);
            if held >= WINDOW as u64 || list + 1 == piece.lists.end {
                self.compare(start..list + 1, piece, &mut emitter);
                emitter.flow()?;
                (start, held) = (list + 1, 0);
            }
        }
        emitter.finish()
    }
}

impl<const W: usize> Worker<Sets> for ListWorker<'_, W> {
    fn run(&mut self, piece: usize, sink: &mut dyn Sink<SetPair>) -> Result<ControlFlow<()>> {
        Ok(self.join(piece, sink))
    }

    fn candidates(&self) -> u64 {
        self.verified
    }
}

/// Returns the probes of a piece among those of its token. All pieces have about equal numbers of pairs.
fn part_of(probes: usize, piece: &Piece, order: Order) -> Range<usize> {
    let at = |part: u32| {
        let share = f64::from(part) / f64::from(piece.parts);
        // In a self-join a probe meets the sets before it, so pairs grow with the square.
        let share = if order == Order::Before { share.sqrt() } else { share };
        (share * probes as f64).round() as usize
    };
    if piece.parts == 1 { 0..probes } else { at(piece.part)..at(piece.part + 1) }
}
