//! How do prefix tokens become lists?
//!
//! All threads share two passes over the prefixes. The sets are divided into parts. The first pass counts, for
//! each part, the prefixes that hold each token; the counts determine where each part writes in each list. The
//! second pass writes. However the sets are divided, the sets of a list are in rising order.
//!
//! A token under which no pair meets gets no list. One set of a pair is a probe, so a token that no probe has
//! in its prefix gets none. (In a tile of a self-join most sets may be no probes.)

use super::{BuildClass, NONE, weigh};
use rayon::prelude::*;
use simjoin_core::{SetCollection, SetId, TokenId};
use simjoin_kernels::bitmap::{Kernels, toggle};
use simjoin_kernels::pages::ask_for_large;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// The marks in [`Entry::class`].
pub(super) const PROBE: u32 = 1 << 31;
/// Every token from the position on has a bit of its own.
pub(super) const EXACT: u32 = 1 << 29;

/// A set in the list of a token.
#[derive(Clone, Copy)]
pub(super) struct Entry<const W: usize> {
    /// The signature of the tokens from `position` on.
    pub(super) signature: [u64; W],
    pub(super) set: SetId,
    /// The set's size class, and marks.
    pub(super) class: u32,
    /// The position of the token in the set.
    pub(super) position: u32,
    /// The number that is added to the distance of a pair with this build set: its position minus its
    /// share of the budget. For sets that are no build sets it is so large that no pair passes.
    pub(super) weight: i32,
    /// The token before it, or [`NONE`].
    pub(super) previous: TokenId,
    /// A bit for each token before it; many tokens share a bit.
    pub(super) before: u32,
}

impl<const W: usize> Entry<W> {
    #[inline(always)]
    pub(super) fn class(&self) -> usize {
        class_of(self.class)
    }

    #[inline(always)]
    pub(super) fn distance(&self, other: &Self) -> u32 {
        let bits = |w: usize| (self.signature[w] ^ other.signature[w]).count_ones();
        (0..W).map(bits).sum()
    }
}

/// Returns the class without its marks.
#[inline(always)]
pub(super) fn class_of(marked: u32) -> usize {
    (marked & (EXACT - 1)) as usize
}

/// The storage of an entry. Several threads write to one list, each to places of its own. Atomic numbers
/// make this safe, and relaxed accesses cost nothing.
pub(super) struct Slot<const W: usize> {
    signature: [AtomicU64; W],
    /// The set, and above it its class and marks.
    set: AtomicU64,
    /// The position, and above it the weight.
    position: AtomicU64,
    /// The token before, and above it the bits of all before.
    previous: AtomicU64,
}

#[inline(always)]
fn pack(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

#[inline(always)]
fn unpack(both: &AtomicU64) -> (u32, u32) {
    let both = both.load(Ordering::Relaxed);
    (both as u32, (both >> 32) as u32)
}

impl<const W: usize> Slot<W> {
    pub(super) const BYTES: u64 = size_of::<Self>() as u64;

    fn blank() -> Self {
        Slot {
            signature: [const { AtomicU64::new(0) }; W],
            set: AtomicU64::new(0),
            position: AtomicU64::new(0),
            previous: AtomicU64::new(0),
        }
    }

    #[inline(always)]
    fn write(&self, entry: &Entry<W>) {
        for w in 0..W {
            self.signature[w].store(entry.signature[w], Ordering::Relaxed);
        }
        self.set.store(pack(entry.set, entry.class), Ordering::Relaxed);
        self.position.store(pack(entry.position, entry.weight as u32), Ordering::Relaxed);
        self.previous.store(pack(entry.previous, entry.before), Ordering::Relaxed);
    }

    #[inline(always)]
    pub(super) fn read(&self) -> Entry<W> {
        let (set, class) = self.set();
        let (position, weight) = self.position();
        let (previous, before) = unpack(&self.previous);
        let signature = std::array::from_fn(|w| self.word(w));
        Entry { signature, set, class, position, weight, previous, before }
    }

    #[inline(always)]
    pub(super) fn word(&self, w: usize) -> u64 {
        self.signature[w].load(Ordering::Relaxed)
    }

    /// Returns the set, and its class with marks.
    #[inline(always)]
    pub(super) fn set(&self) -> (SetId, u32) {
        unpack(&self.set)
    }

    /// Returns the position and the weight.
    #[inline(always)]
    pub(super) fn position(&self) -> (u32, i32) {
        let (position, weight) = unpack(&self.position);
        (position, weight as i32)
    }
}

/// Sets of one class whose first tokens go into lists.
#[derive(Clone)]
pub(super) struct ClassRange {
    pub(super) class: u32,
    pub(super) sets: Range<SetId>,
    /// The number of prefix tokens of each set.
    pub(super) size: u32,
    /// The number of prefix tokens of each set as a probe.
    pub(super) probe: u32,
    /// The number of prefix tokens of each set as a build set.
    pub(super) build: u32,
}

impl ClassRange {
    fn prefix(&self) -> usize {
        self.probe.max(self.build) as usize
    }

    /// Returns the work of putting one of its sets into lists, in entries: all of its tokens are signed.
    fn work(&self) -> usize {
        self.prefix() + self.size as usize / SIGNED
    }
}

/// The number of tokens that are signed in the time of one entry.
const SIGNED: usize = 16;

/// Sets that one thread puts into lists.
struct Part {
    ranges: Vec<ClassRange>,
    /// For each token that is not unique, the number of prefixes that hold it; later, the place of its next
    /// entry among the entries of all tokens, or `DEAD`.
    cursors: Vec<u32>,
}

const DEAD: u32 = u32::MAX;

/// The lists of a collection.
pub(super) struct CollectionLists<'a, const W: usize> {
    sets: &'a SetCollection,
    parts: Vec<Part>,
    /// The beginning of each list among the entries of all lists, and the end of the last one. Only tokens
    /// with pairs have lists.
    starts: Vec<u32>,
    /// The entries of the round.
    pub(super) slots: Vec<Slot<W>>,
}

impl<'a, const W: usize> CollectionLists<'a, W> {
    /// Counts the prefix tokens of sets, in one part for each thread, but in fewer parts if the counts would
    /// take more room than the tokens.
    pub(super) fn counted(
        sets: &'a SetCollection,
        ranges: Vec<ClassRange>,
        threads: usize,
    ) -> Self {
        let universe = (sets.universe() - sets.unique_tokens()) as usize;
        let total: usize = ranges.iter().map(|part| part.sets.len() * part.work()).sum();
        let count = threads.min(total / (universe / 4).max(2_000)).max(1);
        let ranges = cut(ranges, total / count + 1);
        let probed = Probed::new(sets, &ranges, universe, threads);
        let part = |ranges| Part { ranges, cursors: vec![0; universe] };
        let mut parts: Vec<Part> = ranges.into_iter().map(part).collect();
        in_parallel(&mut parts, |part| part.count(sets, probed.as_ref()));
        CollectionLists { sets, parts, starts: Vec::new(), slots: Vec::new() }
    }

    /// Returns the bytes of counts and starts.
    pub(super) fn bytes(&self) -> u64 {
        let tokens: usize = self.parts.iter().map(|part| part.cursors.len()).sum();
        4 * (tokens + self.starts.len()) as u64
    }

    /// Returns the number of entries of the lists.
    pub(super) fn entries(&self, lists: Range<usize>) -> usize {
        (self.starts[lists.end] - self.starts[lists.start]) as usize
    }

    /// Returns the places of the entries of lists in a round that begins with the list `first`.
    #[inline(always)]
    pub(super) fn places(&self, lists: Range<usize>, first: usize) -> Range<usize> {
        let base = self.starts[first];
        (self.starts[lists.start] - base) as usize..(self.starts[lists.end] - base) as usize
    }

    /// Makes the lists of a range of tokens.
    pub(super) fn gather(
        &mut self,
        lists: Range<usize>,
        tokens: &Range<TokenId>,
        builds: &[BuildClass],
    ) {
        let (first, entries) = (self.starts[lists.start], self.entries(lists));
        if self.slots.len() < entries {
            self.slots.clear();
            self.slots.reserve_exact(entries);
            ask_for_large(self.slots.spare_capacity_mut());
            if self.parts.len() == 1 {
                self.slots.resize_with(entries, Slot::blank);
            } else {
                // The first access to this much memory takes as long as filling it.
                let blank = (0..entries).into_par_iter().with_min_len(1 << 14);
                blank.map(|_| Slot::blank()).collect_into_vec(&mut self.slots);
            }
        }
        let (sets, slots) = (self.sets, &self.slots);
        in_parallel(&mut self.parts, |part| part.gather(sets, slots, first, tokens, builds));
    }
}

/// The number of prefix tokens that are tested in the time of putting one into a list.
const PER_ENTRY: usize = 8;

/// A bit for each token that is not unique: whether a probe has it in its prefix.
struct Probed(Vec<u64>);

impl Probed {
    /// Makes the bits, if enough of the sets are no probes for the test to save time.
    fn new(
        sets: &SetCollection,
        parts: &[Vec<ClassRange>],
        universe: usize,
        threads: usize,
    ) -> Option<Self> {
        let ranges = || parts.iter().flatten();
        let entries = |probes: bool| -> usize {
            let those = ranges().filter(|part| (part.probe > 0) == probes);
            those.map(|part| part.sets.len() * part.prefix()).sum()
        };
        // One thread reads the probes; all threads would put the other sets into lists.
        let (probes, others) = (entries(true), entries(false));
        if probes == 0 || others * PER_ENTRY < probes * threads {
            return None;
        }
        let unique = sets.unique_tokens();
        let mut bits = vec![0; universe.div_ceil(64)];
        for range in ranges() {
            for set in range.sets.clone() {
                for &token in &sets.set(set)[..range.probe as usize] {
                    if token >= unique {
                        let at = (token - unique) as usize;
                        bits[at / 64] |= 1 << (at % 64);
                    }
                }
            }
        }
        Some(Probed(bits))
    }

    #[inline(always)]
    fn contains(&self, at: usize) -> bool {
        self.0[at / 64] >> (at % 64) & 1 == 1
    }
}

/// The number of tokens in a block.
const BLOCK: usize = 256;

/// The largest number of tokens whose lists one thread opens. With few tokens, each thread opens fewer.
const CHUNK: usize = 128 * BLOCK;
const CHUNKS: usize = 32;

fn chunk_of(universe: usize) -> usize {
    (universe / CHUNKS).next_multiple_of(BLOCK).clamp(4 * BLOCK, CHUNK)
}

/// A range of tokens with its counts in all parts of one or two sides.
struct Chunk<'c> {
    first: TokenId,
    /// For each side, the cursors of each of its parts.
    cursors: [Vec<&'c mut [u32]>; 2],
    /// The number of tokens with pairs.
    live: usize,
    /// The number of entries of their lists on each side; later, the beginning of the next list.
    entries: [u32; 2],
    /// The places for these tokens and, for each side, for the beginnings of their lists.
    tokens: &'c mut [TokenId],
    starts: [&'c mut [u32]; 2],
}

/// Gives each token with pairs a list on every side and each part the places of its entries. Returns these
/// tokens. The counts of all parts are summed for a block of tokens at a time, so this takes no room in addition
/// to its result.
pub(super) fn open_lists<const W: usize>(sides: &mut [CollectionLists<'_, W>]) -> Vec<TokenId> {
    let unique = sides[0].sets.unique_tokens();
    let universe = sides[0].parts[0].cursors.len();
    let alone = sides.len() == 1;
    let chunk_len = chunk_of(universe);
    let mut cursors: [Vec<_>; 2] = [Vec::new(), Vec::new()];
    for (side, cursors) in sides.iter_mut().zip(&mut cursors) {
        cursors.extend(side.parts.iter_mut().map(|part| part.cursors.chunks_mut(chunk_len)));
    }
    let chunk = |start: usize| Chunk {
        first: unique + start as TokenId,
        cursors: cursors
            .each_mut()
            .map(|parts| parts.iter_mut().flat_map(Iterator::next).collect()),
        live: 0,
        entries: [0; 2],
        tokens: &mut [],
        starts: [&mut [], &mut []],
    };
    let mut chunks: Vec<Chunk<'_>> = (0..universe).step_by(chunk_len).map(chunk).collect();
    in_parallel(&mut chunks, |chunk| chunk.count(alone));
    let live = chunks.iter().map(|chunk| chunk.live).sum();
    let mut tokens = vec![0; live];
    let mut starts = [vec![0; live + 1], vec![0; if alone { 0 } else { live + 1 }]];
    let mut ends = [0; 2];
    let (mut tokens_left, mut starts_left) =
        (&mut tokens[..], starts.each_mut().map(|of| &mut of[..]));
    for chunk in &mut chunks {
        // The lists of a chunk begin where those of the previous chunk end.
        for (end, entries) in ends.iter_mut().zip(&mut chunk.entries) {
            *end += std::mem::replace(entries, *end);
        }
        (chunk.tokens, tokens_left) = tokens_left.split_at_mut(chunk.live);
        for (of, left) in chunk.starts.iter_mut().zip(&mut starts_left) {
            let count = chunk.live.min(left.len());
            (*of, *left) = std::mem::take(left).split_at_mut(count);
        }
    }
    for (left, end) in starts_left.iter_mut().zip(ends) {
        if let [last] = left {
            *last = end;
        }
    }
    in_parallel(&mut chunks, |chunk| chunk.open(alone));
    drop(chunks);
    for (side, starts) in sides.iter_mut().zip(starts) {
        side.starts = starts;
    }
    tokens
}

impl Chunk<'_> {
    fn blocks(&self) -> impl Iterator<Item = Range<usize>> + use<> {
        let tokens = self.cursors[0].first().map_or(0, |cursors| cursors.len());
        (0..tokens).step_by(BLOCK).map(move |start| start..tokens.min(start + BLOCK))
    }

    /// Returns the number of prefixes that hold each token of a block, on each side, and whether the token
    /// has pairs.
    fn counts(&self, block: &Range<usize>, alone: bool) -> ([[u32; BLOCK]; 2], [bool; BLOCK]) {
        let mut counts = [[0; BLOCK]; 2];
        for (counts, parts) in counts.iter_mut().zip(&self.cursors) {
            for part in parts {
                for (sum, &more) in counts.iter_mut().zip(&part[block.clone()]) {
                    *sum += more;
                }
            }
        }
        let [left, right] = &counts;
        let meets = |at: usize| if alone { left[at] > 1 } else { left[at] > 0 && right[at] > 0 };
        let has_pairs = std::array::from_fn(meets);
        (counts, has_pairs)
    }

    fn count(&mut self, alone: bool) {
        for block in self.blocks() {
            let (counts, has_pairs) = self.counts(&block, alone);
            self.live += has_pairs.iter().filter(|&&live| live).count();
            for (entries, counts) in self.entries.iter_mut().zip(&counts) {
                let of_live = |(&count, &live): (&u32, &bool)| if live { count } else { 0 };
                *entries += counts.iter().zip(&has_pairs).map(of_live).sum::<u32>();
            }
        }
    }

    /// Writes the beginnings of the lists.
    fn open(&mut self, alone: bool) {
        let mut list = 0;
        for block in self.blocks() {
            let (counts, has_pairs) = self.counts(&block, alone);
            let mut next = [[DEAD; BLOCK]; 2];
            for at in (0..block.len()).filter(|&at| has_pairs[at]) {
                self.tokens[list] = self.first + (block.start + at) as TokenId;
                for side in 0..if alone { 1 } else { 2 } {
                    self.starts[side][list] = self.entries[side];
                    next[side][at] = self.entries[side];
                    self.entries[side] += counts[side][at];
                }
                list += 1;
            }
            // The entries of a part follow those of the previous part.
            for (parts, next) in self.cursors.iter_mut().zip(&mut next) {
                for part in parts {
                    for (cursor, next) in part[block.clone()].iter_mut().zip(next.iter_mut()) {
                        let count = std::mem::replace(cursor, *next);
                        *next = if *next == DEAD { DEAD } else { *next + count };
                    }
                }
            }
        }
    }
}

/// Cuts ranges into parts of about equal work; at least one.
fn cut(ranges: Vec<ClassRange>, goal: usize) -> Vec<Vec<ClassRange>> {
    let mut parts = vec![Vec::new()];
    let mut room = goal;
    for range in ranges {
        let work = range.work();
        let mut start = range.sets.start;
        while start < range.sets.end {
            if room == 0 {
                parts.push(Vec::new());
                room = goal;
            }
            let end = range.sets.end.min(start + room.div_ceil(work) as SetId);
            if let Some(part) = parts.last_mut() {
                part.push(ClassRange { sets: start..end, ..range.clone() });
            }
            room = room.saturating_sub((end - start) as usize * work);
            start = end;
        }
    }
    parts
}

/// Runs `work` on all items, in parallel if there are several.
fn in_parallel<T: Send>(items: &mut [T], work: impl Fn(&mut T) + Sync + Send) {
    match items {
        [item] => work(item),
        items => items.par_iter_mut().for_each(work),
    }
}

impl Part {
    fn count(&mut self, sets: &SetCollection, probed: Option<&Probed>) {
        let unique = sets.unique_tokens();
        for range in &self.ranges {
            let prefix = range.prefix();
            let probed = probed.filter(|_| range.probe == 0);
            for set in range.sets.clone() {
                for &token in &sets.set(set)[..prefix] {
                    if token < unique {
                        continue;
                    }
                    let at = (token - unique) as usize;
                    if probed.is_none_or(|probed| probed.contains(at)) {
                        self.cursors[at] += 1;
                    }
                }
            }
        }
    }

    fn gather<const W: usize>(
        &mut self,
        sets: &SetCollection,
        slots: &[Slot<W>],
        first_slot: u32,
        wanted: &Range<TokenId>,
        builds: &[BuildClass],
    ) {
        let kernels = Kernels::<W>::best();
        let top = sets.universe() - 1;
        let unique = sets.unique_tokens();
        for range in &self.ranges {
            let &ClassRange { class, probe, build, .. } = range;
            let prefix = range.prefix();
            let share = if build > 0 { builds[class as usize].share } else { 0 };
            for set in range.sets.clone() {
                let tokens = sets.set(set);
                let mut first = first_from(&tokens[..prefix], wanted.start);
                if probe == 0 {
                    // Check first whether a list has probes: this is faster than signing the set for none.
                    let live = |&t: &TokenId| self.cursors[(t - unique) as usize] != DEAD;
                    first += tokens[first..prefix].iter().position(live).unwrap_or(prefix - first);
                }
                if first == prefix || tokens[first] >= wanted.end {
                    continue;
                }
                // The signature of all tokens from `first` on; each step removes one token.
                let mut signature = kernels.signature(&tokens[first..], top);
                let mut before = tokens[..first].iter().fold(0, |bits, &t| bits | bit_of(t));
                let mut previous = if first == 0 { NONE } else { tokens[first - 1] };
                for (position, &token) in (first as u32..).zip(&tokens[first..prefix]) {
                    if token >= wanted.end {
                        break;
                    }
                    let cursor = &mut self.cursors[(token - unique) as usize];
                    if *cursor != DEAD {
                        let mut class = class;
                        if position < probe {
                            class |= PROBE;
                        }
                        if top - token < 64 * W as u32 {
                            class |= EXACT;
                        }
                        let weight = if position < build {
                            weigh(position, share, tokens.len())
                        } else {
                            i32::MAX
                        };
                        let entry =
                            Entry { signature, set, class, position, weight, previous, before };
                        slots[(*cursor - first_slot) as usize].write(&entry);
                        *cursor += 1;
                    }
                    toggle(&mut signature, top - token);
                    before |= bit_of(token);
                    previous = token;
                }
            }
        }
    }
}

/// Returns the first token of an ascending slice that is not below a limit.
#[inline(always)]
fn first_from(tokens: &[TokenId], limit: TokenId) -> usize {
    if tokens.len() > 16 {
        return tokens.partition_point(|&token| token < limit);
    }
    tokens.iter().position(|&token| token >= limit).unwrap_or(tokens.len())
}

/// Returns one of 32 bits for a token.
#[inline(always)]
fn bit_of(token: TokenId) -> u32 {
    1 << (token.wrapping_mul(0x9e37_79b1) >> 27)
}
