//! `prefix-bitmap`: which sets under one rare token have signatures that are close?
//!
//! The published prefix techniques take one probe at a time and count, candidate by candidate, how
//! often its prefix tokens meet each set. This one takes one *token* at a time. All sets with that
//! token in their prefix stand next to each other, each with a small signature of what follows the
//! token, and every probe among them is compared with every build set among them by vector
//! instructions: no counters, no jumps through memory. Few pairs survive, and they are verified.
//!
//! # Flow
//!
//! ```text
//! prefixes ─► lists by token ─► signatures of a list, probe by probe ─► survivors ─► verify ─► sink
//!             (a piece: a       (length filter, distance + position)      (first common token,
//!              range of tokens)                                            overlap of the rests)
//! ```
//!
//! A piece scans the prefixes of all sets for its own tokens and makes its lists afresh, so pieces
//! share nothing and need no order. A token with very many pairs is cut into several pieces by
//! probes.
//!
//! # Exactness
//!
//! *Prefix.* Let the pair `r, s` be in the result, its first common token at `i` in `r` and `j` in
//! `s`. All common tokens stand there or later, so `|r|-i` and `|s|-j` reach the required overlap:
//! the token is in both prefixes and the pair meets in its list. It may meet again in the list of a
//! later common token; it is reported only where nothing before is common, hence once.
//!
//! *Signature.* At the first common token, `i` tokens of `r` and `j` of `s` come before it and have
//! no partner; the signatures of the rests differ in at most as many bits as the rests have tokens
//! without a partner. So `i + j + distance ≤ |r| + |s| - 2·required`, the pair's budget. The kernel
//! compares with the budget's two shares ([`Bounds::probe_share`]), which are never too small.
//!
//! *Distinct sets.* The sets of a collection differ, so two of one size `n` share at most `n - 1`
//! tokens. In a self-join, sizes for which more is required with their own and every smaller size
//! are left out, and prefixes are as long as the sizes that remain make them.
//!
//! # Memory
//!
//! 20 bytes a token that is in more than one row and 8 more for each worker; and for each worker its
//! piece, `24 + 8·W` bytes per set and prefix token, with signatures of `W` words.
//!
//! [`Bounds::probe_share`]: simjoin_core::Bounds::probe_share

use crate::verify::Emitter;
use rayon::prelude::*;
use simjoin_core::{Bounds, PairSink, SetCollection, SetId, SizeClass, TokenId};
use simjoin_kernels::bitmap::{Kernels, SLACK, WEIGHT_UNIT, toggle};
use simjoin_kernels::overlap::Verify;
use simjoin_kernels::prefetch::prefetch;
use simjoin_plan::{
    Cost, Join, Order, Prepared, Reach, Room, Survey, Technique, Tile, Units, Worker,
    build_prefixes, reaches,
};
use std::ops::{ControlFlow, Range};

/// Prefix lists by token, compared by signatures of so many words.
pub struct PrefixBitmap {
    /// 1, 2 or 4.
    pub words: usize,
}

impl PrefixBitmap {
    /// The widths of a signature, in words.
    pub const WORDS: [usize; 3] = [1, 2, 4];
}

/// What one list entry costs to make, in signature comparisons.
const ENTRY_WORK: u64 = 64;

/// What finding out that a set has nothing to do with a piece costs, in signature comparisons.
const PASS_WORK: u64 = 80;

impl Technique for PrefixBitmap {
    fn name(&self) -> &'static str {
        "prefix-bitmap"
    }

    fn variant(&self) -> String {
        format!("{} bits", 64 * self.words)
    }

    fn cost(&self, survey: &Survey<'_>, units: &Units) -> Option<Cost> {
        let place = self.words.ilog2() as usize;
        let entries = match survey.join.order {
            Order::Before => survey.probe_entries,
            _ => survey.probe_entries + survey.build_entries,
        };
        let live = entries as f64 * survey.live;
        let build = survey.join.build;
        let tokens = f64::from(build.universe() - build.lonely_tokens());
        let wider = 1.0 + 0.15 * place as f64;
        let survivors = survey.list_pairs * survey.list_survival[place];
        Some(Cost {
            serial: units.start + entries as f64 * units.pass + tokens * units.pass,
            shared: survey.sets as f64 * units.pass
                + entries as f64 * units.pass
                + live * units.entry * wider
                + survey.list_pairs * units.list[place]
                + survivors * units.survivor
                + survey.list_pairs * survey.list_before * units.merge_token,
        })
    }

    fn memory_bytes(&self, join: &Join<'_>, tile: &Tile, threads: usize) -> u64 {
        // The counts, and for each worker at least the longest list.
        let lists = Lists::<1>::counted(join, tile);
        let longest = (0..lists.counts[0].len()).map(|token| lists.work(token).0).max();
        lists.fixed_bytes(threads) + threads as u64 * longest.unwrap_or(0) * entry_bytes(self.words)
    }

    fn prepare<'a>(&self, join: &Join<'a>, tile: &Tile, room: &Room) -> Box<dyn Prepared + 'a> {
        match self.words {
            1 => Box::new(Lists::<1>::new(join, tile, room)),
            2 => Box::new(Lists::<2>::new(join, tile, room)),
            _ => Box::new(Lists::<4>::new(join, tile, room)),
        }
    }
}

/// Bytes of a list entry: itself, its signature and weight in the window, its place among survivors.
fn entry_bytes(words: usize) -> u64 {
    24 + 16 * words as u64 + 16
}

/// What the filter needs to know of the build sets of one size.
#[derive(Clone, Copy, Default)]
struct BuildClass {
    prefix: u32,
    share: i64,
}

/// Sets above this size pass the signature filter always: their weights would not fit.
const MAX_WEIGHTED: u32 = 1 << 26;

/// Marks in [`Entry::class`].
const PROBE: u32 = 1 << 31;
/// Every token from the position on has a bit of its own.
const EXACT: u32 = 1 << 29;

/// A set in the list of a token.
#[derive(Clone, Copy)]
struct Entry<const W: usize> {
    /// Of the tokens from `position` on.
    signature: [u64; W],
    set: SetId,
    /// The set's size class, and marks.
    class: u32,
    /// Where the token stands in the set.
    position: u32,
    /// The token before it, or [`NONE`].
    previous: TokenId,
    /// A bit for each token before it, many tokens to a bit.
    before: u32,
    /// What is added to the distance of a pair with this build set: its position less its share of
    /// the budget. So large that no pair passes if it is no build set.
    weight: i32,
}

const NONE: TokenId = TokenId::MAX;

impl<const W: usize> Entry<W> {
    const BLANK: Self = Entry {
        signature: [0; W],
        set: 0,
        class: 0,
        position: 0,
        previous: NONE,
        before: 0,
        weight: 0,
    };

    #[inline(always)]
    fn class(&self) -> usize {
        (self.class & (EXACT - 1)) as usize
    }

    #[inline(always)]
    fn distance(&self, other: &Self) -> u32 {
        let bits = |w: usize| (self.signature[w] ^ other.signature[w]).count_ones();
        (0..W).map(bits).sum()
    }
}

/// Sets of one class whose first tokens go into lists.
struct Stretch {
    class: u32,
    sets: Range<SetId>,
    /// How many tokens as a probe.
    probe: u32,
    /// How many tokens as a build set.
    build: u32,
}

/// A collection whose sets go into lists, and in which role.
struct Source<'a> {
    sets: &'a SetCollection,
    range: Range<SetId>,
    probes: bool,
    builds: bool,
}

struct Lists<'a, const W: usize> {
    join: Join<'a>,
    tile: Tile,
    reaches: Vec<Reach>,
    /// The probe's share of the budget, by class.
    shares: Vec<i64>,
    builds: Vec<BuildClass>,
    /// One source for a self-join; probes and builds for a join of two.
    sources: Vec<Source<'a>>,
    /// For each source.
    stretches: Vec<Vec<Stretch>>,
    /// Entries of each token from the first that is not lonely, for each source.
    counts: Vec<Vec<u32>>,
    required: Required,
    pieces: Vec<Piece>,
}

/// A range of tokens; of a single token possibly only a part of the probes.
#[derive(Clone, Debug)]
struct Piece {
    tokens: Range<TokenId>,
    part: u32,
    parts: u32,
}

impl<'a, const W: usize> Lists<'a, W> {
    fn new(join: &Join<'a>, tile: &Tile, room: &Room) -> Self {
        let mut lists = Self::counted(join, tile);
        let workers =
            room.bytes.saturating_sub(lists.fixed_bytes(room.threads)) / room.threads.max(1) as u64;
        lists.pieces = lists.cut(workers / entry_bytes(W), room.threads as u64);
        lists
    }

    /// Bytes beside the entries: for each token its counts, the sums by which pieces are cut (or the
    /// histograms of the threads, before), and where its list begins, for each worker.
    fn fixed_bytes(&self, threads: usize) -> u64 {
        let tokens: usize = self.counts.iter().map(Vec::len).sum();
        let classes = self.reaches.len() + self.builds.len();
        (20 + 8 * threads as u64) * tokens as u64
            + 100 * classes as u64
            + 4 * u64::from(Required::SIZES).pow(2)
    }

    /// The lists of a tile, known but for their pieces.
    fn counted(join: &Join<'a>, tile: &Tile) -> Self {
        let reaches = reaches(join, tile);
        let share = |class: &SizeClass| join.bounds.probe_share(class.size, WEIGHT_UNIT);
        let shares = join.probe.classes().iter().map(share).collect();
        let build = |(prefix, class): (u32, &SizeClass)| BuildClass {
            prefix,
            share: join.bounds.build_share(class.size, WEIGHT_UNIT),
        };
        let prefixes = build_prefixes(join, tile, &reaches).into_iter();
        let builds = prefixes.zip(join.build.classes()).map(build).collect();
        let sources = if join.order == Order::Before {
            let range =
                tile.probes.start.min(tile.builds.start)..tile.probes.end.max(tile.builds.end);
            vec![Source { sets: join.probe, range, probes: true, builds: true }]
        } else {
            let (p, b) = (tile.probes.clone(), tile.builds.clone());
            vec![
                Source { sets: join.probe, range: p, probes: true, builds: false },
                Source { sets: join.build, range: b, probes: false, builds: true },
            ]
        };
        let mut lists = Lists {
            join: *join,
            tile: tile.clone(),
            reaches,
            shares,
            builds,
            sources,
            stretches: Vec::new(),
            counts: Vec::new(),
            required: Required::new(join),
            pieces: Vec::new(),
        };
        lists.stretches = lists.sources.iter().map(|source| lists.stretches(source)).collect();
        let counted = lists.sources.iter().zip(&lists.stretches);
        lists.counts = counted.map(|(source, stretches)| Self::count(source, stretches)).collect();
        lists
    }

    /// How many tokens of a set go into lists as a probe and as a build set.
    #[inline(always)]
    fn prefixes(&self, source: &Source<'_>, class: u32, range: &Range<SetId>) -> (u32, u32) {
        let overlaps = |other: &Range<SetId>| range.start < other.end && other.start < range.end;
        let probe = if source.probes && overlaps(&self.tile.probes) {
            self.reaches[class as usize].prefix
        } else {
            0
        };
        let build = if source.builds && overlaps(&self.tile.builds) {
            self.builds[class as usize].prefix
        } else {
            0
        };
        (probe, build)
    }

    /// The ranges of sets of a source, each of one class and in one role throughout, that have tokens
    /// to go into lists.
    fn stretches(&self, source: &Source<'_>) -> Vec<Stretch> {
        let mut stretches = Vec::new();
        let tile = &self.tile;
        for (class, bounds) in (0..).zip(source.sets.classes()) {
            let mut start = bounds.start.max(source.range.start);
            let end = bounds.end.min(source.range.end);
            while start < end {
                let ends = [tile.probes.start, tile.probes.end, tile.builds.start, tile.builds.end];
                let next = ends.into_iter().filter(|&cut| start < cut).fold(end, SetId::min);
                let (probe, build) = self.prefixes(source, class, &(start..next));
                if probe.max(build) > 0 {
                    stretches.push(Stretch { class, sets: start..next, probe, build });
                }
                start = next;
            }
        }
        stretches
    }

    /// How many entries each token will have.
    fn count(source: &Source<'_>, stretches: &[Stretch]) -> Vec<u32> {
        let lonely = source.sets.lonely_tokens();
        let universe = (source.sets.universe() - lonely) as usize;
        let histogram = |parts: &[(&Stretch, Range<SetId>)]| {
            let mut counts = vec![0u32; universe];
            for (Stretch { probe, build, .. }, sets) in parts {
                let prefix = *probe.max(build) as usize;
                for set in sets.clone() {
                    for &token in &source.sets.set(set)[..prefix] {
                        if token >= lonely {
                            counts[(token - lonely) as usize] += 1;
                        }
                    }
                }
            }
            counts
        };
        // One histogram a thread, but never more histogram than tokens.
        let tokens = |part: &Stretch| part.sets.len() * part.probe.max(part.build) as usize;
        let total: usize = stretches.iter().map(tokens).sum();
        let threads = rayon::current_num_threads().min(total / (4 * universe).max(10_000)).max(1);
        if threads == 1 {
            let all: Vec<_> = stretches.iter().map(|part| (part, part.sets.clone())).collect();
            return histogram(&all);
        }
        let mut parts: Vec<Vec<(&Stretch, Range<SetId>)>> = vec![Vec::new()];
        let mut room = total / threads + 1;
        for stretch in stretches {
            let prefix = stretch.probe.max(stretch.build) as usize;
            let mut start = stretch.sets.start;
            while start < stretch.sets.end {
                let end = stretch.sets.end.min(start + (room / prefix + 1) as SetId);
                if let Some(part) = parts.last_mut() {
                    part.push((stretch, start..end));
                }
                room = room.saturating_sub((end - start) as usize * prefix);
                if room == 0 {
                    parts.push(Vec::new());
                    room = total / threads + 1;
                }
                start = end;
            }
        }
        let mut histograms: Vec<Vec<u32>> = parts.par_iter().map(|part| histogram(part)).collect();
        let mut counts = histograms.pop().unwrap_or_default();
        for histogram in histograms {
            for (sum, more) in counts.iter_mut().zip(histogram) {
                *sum += more;
            }
        }
        counts
    }

    /// Entries in the list of a token, and pairs in it.
    #[inline]
    fn work(&self, token: usize) -> (u64, u64) {
        match self.counts.as_slice() {
            [both] => {
                let count = u64::from(both[token]);
                if count < 2 { (0, 0) } else { (count, count * (count - 1) / 2) }
            }
            [probes, builds] => {
                let (probes, builds) = (u64::from(probes[token]), u64::from(builds[token]));
                if probes == 0 || builds == 0 { (0, 0) } else { (probes + builds, probes * builds) }
            }
            _ => (0, 0),
        }
    }

    /// Pieces of about equal work, none with more entries than `room` unless a single list has.
    ///
    /// Pieces are ranges of rising tokens, and of a single token ranges of rising probes, so the
    /// order of all pairs does not depend on where the cuts are.
    fn cut(&self, room: u64, threads: u64) -> Vec<Piece> {
        let universe = self.counts[0].len();
        let lonely = self.join.build.lonely_tokens();
        let sets: u64 = self.sources.iter().map(|source| source.range.len() as u64).sum();
        // Work and entries of all tokens up to each.
        let mut sums: Vec<(u64, u64)> = Vec::with_capacity(universe + 1);
        let (mut work, mut entries) = (0, 0);
        for token in 0..universe {
            sums.push((work, entries));
            let (e, p) = self.work(token);
            work += e * ENTRY_WORK + p;
            entries += e;
        }
        sums.push((work, entries));
        if entries == 0 {
            return Vec::new();
        }
        // Every piece passes over all sets: as many pieces as threads, and more only if that is a
        // small part of the work.
        let per_thread = work / (10 * PASS_WORK * sets * threads).max(1);
        let goal = work / (threads * per_thread.clamp(1, 8)) + 1;
        let mut pieces: Vec<Piece> = Vec::new();
        let mut add = |tokens: Range<usize>, parts: u32| {
            let tokens = lonely + tokens.start as u32..lonely + tokens.end as u32;
            for part in 0..parts {
                pieces.push(Piece { tokens: tokens.clone(), part, parts });
            }
        };
        let mut start = 0;
        while start < universe && sums[start].0 < work {
            // Up to the token with which the piece has its work, or as many as there is room for.
            let (done, held) = sums[start];
            let full = sums.partition_point(|&(sum, _)| sum < done + goal);
            let room = sums.partition_point(|&(_, sum)| sum <= held + room) - 1;
            let end = full.min(room).clamp(start + 1, universe);
            let last = sums[end].0 - sums[end - 1].0;
            if end == start + 1 && last > goal + goal / 2 {
                add(start..end, (last / goal) as u32 + 1);
            } else if last > goal + goal / 2 {
                // A token with more work than a piece should have becomes pieces of its own.
                add(start..end - 1, 1);
                add(end - 1..end, (last / goal) as u32 + 1);
            } else {
                add(start..end, 1);
            }
            start = end;
        }
        pieces
    }
}

impl<const W: usize> Prepared for Lists<'_, W> {
    fn pieces(&self) -> usize {
        self.pieces.len()
    }

    fn worker<'a>(&'a self) -> Box<dyn Worker + 'a> {
        Box::new(ListWorker::<W> {
            lists: self,
            kernels: Kernels::best(),
            verify: Verify::best(),
            starts: Vec::new(),
            entries: vec![Vec::new(); self.sources.len()],
            window: Window { planes: std::array::from_fn(|_| Vec::new()), weights: Vec::new() },
            out: Vec::new(),
            verified: 0,
        })
    }
}

/// The list at hand, as structure of arrays.
struct Window<const W: usize> {
    planes: [Vec<u64>; W],
    weights: Vec<i32>,
}

impl<const W: usize> Window<W> {
    #[inline(always)]
    fn fill(&mut self, list: &[Entry<W>]) {
        for w in 0..W {
            self.planes[w].clear();
            self.planes[w].extend(list.iter().map(|entry| entry.signature[w]));
        }
        self.weights.clear();
        self.weights.extend(list.iter().map(|entry| entry.weight));
    }
}

struct ListWorker<'a, const W: usize> {
    lists: &'a Lists<'a, W>,
    kernels: Kernels<W>,
    verify: Verify,
    /// For each source, where the next entry of each of the piece's tokens goes; afterwards, where
    /// the token's entries end. `DEAD` for tokens without pairs.
    starts: Vec<Vec<u32>>,
    entries: Vec<Vec<Entry<W>>>,
    window: Window<W>,
    out: Vec<u32>,
    verified: u64,
}

const DEAD: u32 = u32::MAX;

impl<const W: usize> ListWorker<'_, W> {
    /// Makes the lists of a piece.
    #[inline(never)]
    fn gather(&mut self, piece: &Piece) {
        let (lists, kernels) = (self.lists, self.kernels);
        let lonely = lists.join.build.lonely_tokens();
        let top = lists.join.build.universe() - 1;
        let range = (piece.tokens.start - lonely) as usize..(piece.tokens.end - lonely) as usize;
        self.starts.resize(lists.sources.len(), Vec::new());
        for (at, source) in lists.sources.iter().enumerate() {
            let starts = &mut self.starts[at];
            starts.clear();
            let mut next = 0;
            for token in range.clone() {
                if lists.work(token).0 == 0 {
                    starts.push(DEAD);
                } else {
                    starts.push(next);
                    next += lists.counts[at][token];
                }
            }
            let entries = &mut self.entries[at];
            if entries.len() < next as usize {
                entries.resize(next as usize, Entry::BLANK);
            }
            for &Stretch { class, ref sets, probe, build } in &lists.stretches[at] {
                let prefix = probe.max(build) as usize;
                let share = if build > 0 { lists.builds[class as usize].share } else { 0 };
                for set in sets.clone() {
                    let tokens = source.sets.set(set);
                    let first = first_from(&tokens[..prefix], piece.tokens.start);
                    if first == prefix || tokens[first] >= piece.tokens.end {
                        continue;
                    }
                    // Of all tokens from `first` on; each step takes one away.
                    let mut signature = kernels.signature(&tokens[first..], top);
                    let mut before =
                        tokens[..first].iter().fold(0, |bits, &token| bits | bit_of(token));
                    for position in first..prefix {
                        let token = tokens[position];
                        if token >= piece.tokens.end {
                            break;
                        }
                        let start = &mut starts[(token - piece.tokens.start) as usize];
                        if *start != DEAD {
                            let mut marks = 0;
                            if (position as u32) < probe {
                                marks |= PROBE;
                            }
                            if top - token < 64 * W as u32 {
                                marks |= EXACT;
                            }
                            let weight = if (position as u32) < build {
                                weigh(position as u32, share, tokens.len())
                            } else {
                                i32::MAX
                            };
                            entries[*start as usize] = Entry {
                                signature,
                                set,
                                class: class | marks,
                                position: position as u32,
                                previous: if position == 0 { NONE } else { tokens[position - 1] },
                                before,
                                weight,
                            };
                            *start += 1;
                        }
                        toggle(&mut signature, top - token);
                        before |= bit_of(token);
                    }
                }
            }
        }
    }

    /// Compares probes with build sets, both in the list of one token.
    #[inline(never)]
    fn compare(
        &mut self,
        probes: Range<usize>,
        part: Range<usize>,
        builds: Range<usize>,
        emitter: &mut Emitter<'_>,
    ) {
        let ListWorker { lists, kernels, entries, window, out, .. } = self;
        let list = &entries[entries.len() - 1][builds];
        let probes = &entries[0][probes][part];
        let before = lists.join.order == Order::Before;
        let mut check = Check { lists, verify: self.verify, verified: &mut self.verified, emitter };
        if list.len() <= SHORT {
            check.short(probes, list);
            return;
        }
        window.fill(list);
        if out.len() < list.len() + SLACK {
            out.resize((list.len() + SLACK).next_power_of_two(), 0);
        }
        let (mut low, mut high) = (0, 0);
        for probe in probes {
            if probe.class & PROBE == 0 {
                continue;
            }
            let reach = &lists.reaches[probe.class()].builds;
            let end = if before { reach.end.min(probe.set) } else { reach.end };
            while high < list.len() && list[high].set < end {
                high += 1;
            }
            while low < high && list[low].set < reach.start {
                low += 1;
            }
            if low == high {
                continue;
            }
            let size = lists.join.probe.classes()[probe.class()].size;
            let limit = lists.limit(probe, size);
            let planes: [&[u64]; W] = std::array::from_fn(|w| &window.planes[w][low..high]);
            let weights = &window.weights[low..high];
            let found = kernels.scan_list(&planes, weights, &probe.signature, limit, out);
            if found > 0 {
                check.survivors(probe, size, &list[low..], &mut out[..found]);
            }
        }
    }
}

/// What is added to the distance of a pair.
#[inline(always)]
fn weigh(position: u32, share: i64, size: usize) -> i32 {
    if size > MAX_WEIGHTED as usize {
        return i32::MIN;
    }
    let weight = i64::from(WEIGHT_UNIT) * i64::from(position) - share;
    weight.clamp(i32::MIN.into(), (i32::MAX - 1).into()) as i32
}

impl<const W: usize> Lists<'_, W> {
    /// What distance and weight of a pair with this probe may come to.
    #[inline(always)]
    fn limit(&self, probe: &Entry<W>, size: u32) -> i32 {
        if size > MAX_WEIGHTED {
            return i32::MAX - 1;
        }
        let limit = self.shares[probe.class()] - i64::from(WEIGHT_UNIT) * i64::from(probe.position);
        limit.clamp(i32::MIN.into(), (i32::MAX - 1).into()) as i32
    }
}

/// From survivors of the signatures to answers.
struct Check<'c, 'a, 's, const W: usize> {
    lists: &'c Lists<'a, W>,
    verify: Verify,
    verified: &'c mut u64,
    emitter: &'c mut Emitter<'s>,
}

/// Lists up to this length are compared pair by pair.
const SHORT: usize = 8;

impl<const W: usize> Check<'_, '_, '_, W> {
    /// Compares the probes of a short list with its build sets.
    #[inline(always)]
    fn short(&mut self, probes: &[Entry<W>], list: &[Entry<W>]) {
        let Lists { join, reaches, .. } = self.lists;
        let before = join.order == Order::Before;
        for probe in probes {
            if probe.class & PROBE == 0 {
                continue;
            }
            let reach = &reaches[probe.class()].builds;
            let end = if before { reach.end.min(probe.set) } else { reach.end };
            let size = join.probe.classes()[probe.class()].size;
            let limit = self.lists.limit(probe, size);
            for (place, build) in (0..).zip(list) {
                if build.set >= end {
                    break;
                }
                let distance = WEIGHT_UNIT * probe.distance(build) as i32;
                if distance.saturating_add(build.weight) <= limit && build.set >= reach.start {
                    self.survivors(probe, size, list, &mut [place]);
                }
            }
        }
    }

    #[inline]
    fn survivors(&mut self, probe: &Entry<W>, size: u32, list: &[Entry<W>], survivors: &mut [u32]) {
        let Lists { join, required, .. } = self.lists;
        let classes = join.build.classes();
        let r = join.probe.set(probe.set);
        let rest = size - probe.position;
        let mut open = 0;
        for at in 0..survivors.len() {
            let place = survivors[at];
            let build = &list[place as usize];
            if probe.previous == build.previous && probe.previous != NONE {
                continue;
            }
            let build_size = classes[build.class()].size;
            let build_rest = build_size - build.position;
            let required = required.of(&join.bounds, size, build_size);
            if rest.min(build_rest) < required {
                continue;
            }
            // Without a common bit there is no common token before.
            if probe.class & build.class & EXACT != 0 && probe.before & build.before == 0 {
                // Each differing bit is a token that one of the two lacks.
                let overlap = (rest + build_rest - probe.distance(build)) / 2;
                if overlap >= required {
                    self.emitter.push(probe.set, build.set, overlap);
                }
                continue;
            }
            prefetch(join.build.set(build.set));
            survivors[open] = place;
            open += 1;
        }
        for &place in &survivors[..open] {
            let build = &list[place as usize];
            let s = join.build.set(build.set);
            let required = required.of(&join.bounds, size, s.len() as u32);
            let (i, j) = (probe.position as usize, build.position as usize);
            if probe.before & build.before != 0 && share_a_token(&r[..i], &s[..j]) {
                continue;
            }
            *self.verified += 1;
            let (r, s) = (&r[i + 1..], &s[j + 1..]);
            if let Some(overlap) = self.verify.overlap(r, s, 1, required) {
                self.emitter.push(probe.set, build.set, overlap);
            }
        }
    }
}

/// The required overlap of small sets, from a table.
struct Required(Vec<u32>);

impl Required {
    const SIZES: u32 = 64;

    fn new(join: &Join<'_>) -> Self {
        let sizes = join.probe.classes().iter().map(|class| class.size);
        let sizes = sizes.max().unwrap_or(0).min(Self::SIZES - 1);
        let mut table = vec![0; (Self::SIZES * Self::SIZES) as usize];
        for n in 1..=sizes {
            for m in join.bounds.min_size(n)..=n {
                table[(n * Self::SIZES + m) as usize] = join.bounds.required_overlap(n, m);
            }
        }
        Required(table)
    }

    /// For a build set that passes the length filter.
    #[inline(always)]
    fn of(&self, bounds: &Bounds, n: u32, m: u32) -> u32 {
        if n < Self::SIZES {
            self.0[(n * Self::SIZES + m) as usize]
        } else {
            bounds.required_overlap(n, m)
        }
    }
}

/// The first token of an ascending slice that is not below a limit.
#[inline(always)]
fn first_from(tokens: &[TokenId], limit: TokenId) -> usize {
    if tokens.len() > 16 {
        return tokens.partition_point(|&token| token < limit);
    }
    tokens.iter().position(|&token| token >= limit).unwrap_or(tokens.len())
}

/// One of 32 bits for a token.
#[inline(always)]
fn bit_of(token: TokenId) -> u32 {
    1 << (token.wrapping_mul(0x9e37_79b1) >> 27)
}

/// Whether two ascending slices have a common token.
#[inline(always)]
fn share_a_token(a: &[TokenId], b: &[TokenId]) -> bool {
    let (mut at_a, mut at_b) = (0, 0);
    while at_a < a.len() && at_b < b.len() {
        if a[at_a] == b[at_b] {
            return true;
        }
        let first = a[at_a] < b[at_b];
        at_a += usize::from(first);
        at_b += usize::from(!first);
    }
    false
}

impl<const W: usize> Worker for ListWorker<'_, W> {
    fn run(&mut self, piece: usize, sink: &mut dyn PairSink) -> ControlFlow<()> {
        let lists = self.lists;
        let piece = &lists.pieces[piece];
        self.gather(piece);
        let mut emitter = Emitter::new(sink);
        let tokens = (piece.tokens.end - piece.tokens.start) as usize;
        let last = self.starts.len() - 1;
        let mut begin = [0; 2];
        for token in 0..tokens {
            if self.starts[0][token] == DEAD {
                continue;
            }
            let end = [self.starts[0][token] as usize, self.starts[last][token] as usize];
            let (probes, builds) = (begin[0]..end[0], begin[1]..end[1]);
            let part = part_of(probes.len(), piece, lists.join.order);
            let probes_met = part.len();
            self.compare(probes, part, builds, &mut emitter);
            begin = end;
            if token % 16 == 0 || probes_met > 256 {
                emitter.flow()?;
            }
        }
        emitter.finish()
    }

    fn candidates(&self) -> u64 {
        self.verified
    }
}

/// The probes of a piece among those of its token: parts of about equal numbers of pairs.
fn part_of(probes: usize, piece: &Piece, order: Order) -> Range<usize> {
    let at = |part: u32| {
        let share = f64::from(part) / f64::from(piece.parts);
        // In a self-join a probe meets those before it: the pairs grow with the square.
        let share = if order == Order::Before { share.sqrt() } else { share };
        (share * probes as f64).round() as usize
    };
    if piece.parts == 1 { 0..probes } else { at(piece.part)..at(piece.part + 1) }
}
