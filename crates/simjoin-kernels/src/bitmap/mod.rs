//! Which signatures are close enough?
//!
//! A signature is `W` words of 64 bits in which every token of a set has toggled one bit. A token
//! that two sets share toggles the same bit in both, so the Hamming distance of the signatures is
//! at most the number of tokens that only one of the sets has, `|r| + |s| - 2·|r∩s|`. A pair whose
//! signatures are further apart than its bounds allow is therefore not in the answer.
//!
//! Signatures are kept as structure of arrays: word `w` of set `i` is `planes[w][i]`. Two kernels
//! compare a probe with many sets at once and write down the survivors:
//!
//! * [`Kernels::scan_run`]: several probes, each with one limit for all sets (of one size, say);
//! * [`Kernels::scan_lists`]: many probes, each with a range of the sets, and a weight per set that is
//!   added to its distance.

/// The entry points of a tier: the generic loops, compiled with its instructions.
macro_rules! entry_points {
    ($lanes:ident $(, $features:tt)?) => {
        /// # Safety
        ///
        /// As [`super::run`], with the tier's instructions.
        $(#[target_feature(enable = $features)])?
        pub(super) unsafe fn run<const W: usize>(
            planes: &[&[u64]; W],
            probes: &[[u64; W]; super::PROBES],
            limits: &[u64; super::PROBES],
            out: &mut [u32],
        ) -> usize {
            // SAFETY: the caller's.
            unsafe { super::run::<$lanes, W>(planes, probes, limits, out) }
        }

        /// # Safety
        ///
        /// As [`super::lists`], with the tier's instructions.
        $(#[target_feature(enable = $features)])?
        pub(super) unsafe fn lists<const W: usize>(
            planes: &[&[u64]; W],
            weights: &[i32],
            probes: &super::Probes<'_, W>,
            first: usize,
            out: &mut super::Survivors,
        ) -> usize {
            // SAFETY: the caller's.
            unsafe { super::lists::<$lanes, W>(planes, weights, probes, first, out) }
        }

        /// # Safety
        ///
        /// As [`super::fold`], with the tier's instructions.
        $(#[target_feature(enable = $features)])?
        pub(super) unsafe fn fold<const W: usize>(tokens: &[u32], top: u32) -> [u64; W] {
            // SAFETY: the caller's.
            unsafe { super::fold::<$lanes, W>(tokens, top) }
        }

        /// # Safety
        ///
        /// As [`super::distance`], with the tier's instructions.
        $(#[target_feature(enable = $features)])?
        pub(super) unsafe fn distance<const W: usize>(a: &[u64; W], b: &[u64; W]) -> u64 {
            // SAFETY: the caller's.
            unsafe { super::distance::<$lanes, W>(a, b) }
        }
    };
}

mod scalar;

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "aarch64")]
mod neon;

use crate::tier::Tier;
use std::ops::Range;

/// How many probes [`Kernels::scan_run`] takes at a time, and [`Kernels::scan_lists`] where they meet the same
/// sets.
pub const PROBES: usize = 4;

/// Weights and limits of [`Kernels::scan_lists`] are in units of `1 / WEIGHT_UNIT` bits.
pub const WEIGHT_UNIT: i32 = 16;

/// The kernels of one tier for signatures of `W` words.
#[derive(Clone, Copy, Debug)]
pub struct Kernels<const W: usize> {
    tier: Tier,
    run: Run<W>,
    lists: Lists<W>,
    fold: Fold<W>,
    distance: Distance<W>,
}

type Distance<const W: usize> = unsafe fn(&[u64; W], &[u64; W]) -> u64;
type Fold<const W: usize> = unsafe fn(&[u32], u32) -> [u64; W];
type Run<const W: usize> =
    unsafe fn(&[&[u64]; W], &[[u64; W]; PROBES], &[u64; PROBES], &mut [u32]) -> usize;
type Lists<const W: usize> =
    unsafe fn(&[&[u64]; W], &[i32], &Probes<'_, W>, usize, &mut Survivors) -> usize;

/// The probes of [`Kernels::scan_lists`], as structure of arrays.
#[derive(Clone, Copy, Debug)]
pub struct Probes<'p, const W: usize> {
    /// Word `w` of probe `i` is `planes[w][i]`.
    pub planes: [&'p [u64]; W],
    /// The places of the sets that each probe is compared with.
    pub ranges: &'p [Range<u32>],
    /// What `WEIGHT_UNIT · distance + weight` may come to.
    pub limits: &'p [i32],
}

/// What [`Kernels::scan_lists`] has found.
#[derive(Debug, Default)]
pub struct Survivors {
    places: Vec<u32>,
    hits: Vec<(u32, u32)>,
    found: usize,
}

impl Survivors {
    /// How many survivors there is room for at least.
    const ROOM: usize = 1024;

    /// Bytes that they take at least.
    pub const BYTES: u64 = 4 * Self::ROOM as u64;

    /// Makes room for the survivors of so many probes, each with so many sets. Room for one will do; with room for
    /// [`PROBES`], those are compared at a time.
    pub fn reserve(&mut self, probes: usize, sets: usize) {
        let room = (probes * (sets + SLACK)).max(Self::ROOM);
        if self.places.len() < room {
            self.places.resize(room, 0);
        }
    }

    /// Calls `each` with every probe that has survivors, and with the places of these.
    #[inline(always)]
    pub fn for_each(&mut self, mut each: impl FnMut(u32, &mut [u32])) {
        let mut start = 0;
        for &(probe, end) in &self.hits[..self.found] {
            each(probe, &mut self.places[start..end as usize]);
            start = end as usize;
        }
    }
}

impl<const W: usize> Kernels<W> {
    /// The kernels of the best tier.
    pub fn best() -> Self {
        Self::of(Tier::best())
    }

    /// The kernels of a tier; those without vector instructions if the processor lacks it.
    pub fn of(tier: Tier) -> Self {
        const { assert!(W.is_power_of_two() && W <= 32) };
        type All<const W: usize> = (Run<W>, Lists<W>, Fold<W>, Distance<W>);
        let (run, lists, fold, distance): All<W> = match tier {
            #[cfg(target_arch = "x86_64")]
            Tier::Avx512 if tier.is_available() => {
                (avx512::run, avx512::lists, avx512::fold, avx512::distance)
            }
            #[cfg(target_arch = "x86_64")]
            Tier::Avx2 if tier.is_available() => {
                (avx2::run, avx2::lists, avx2::fold, avx2::distance)
            }
            #[cfg(target_arch = "aarch64")]
            Tier::Neon if tier.is_available() => {
                (neon::run, neon::lists, neon::fold, neon::distance)
            }
            _ => (scalar::run, scalar::lists, scalar::fold, scalar::distance),
        };
        let tier = if tier.is_available() { tier } else { Tier::Scalar };
        Kernels { tier, run, lists, fold, distance }
    }

    /// The tier that runs.
    pub fn tier(&self) -> Tier {
        self.tier
    }

    /// The signature of a set: each token toggles the bit `(top - token) mod 64·W`. With `top` the
    /// most frequent token, the `64·W` most frequent ones have bits of their own, and each bit
    /// stands for about as many tokens of any frequency.
    #[inline]
    pub fn signature(&self, tokens: &[u32], top: u32) -> [u64; W] {
        // SAFETY: the tier is available.
        unsafe { (self.fold)(tokens, top) }
    }

    /// In how many bits two signatures differ.
    #[inline]
    pub fn distance(&self, a: &[u64; W], b: &[u64; W]) -> u64 {
        // SAFETY: the tier is available.
        unsafe { (self.distance)(a, b) }
    }

    /// Compares [`PROBES`] probes with every set of a run. `out` receives `probe << 16 | set` for
    /// each pair whose distance is at most the probe's limit, by rising set number; the result is
    /// how many.
    ///
    /// # Panics
    ///
    /// If the planes differ in length, the run has more than 2^16 sets, or `out` is shorter than
    /// `PROBES` times the run plus 16.
    #[inline]
    pub fn scan_run(
        &self,
        planes: &[&[u64]; W],
        probes: &[[u64; W]; PROBES],
        limits: &[u64; PROBES],
        out: &mut [u32],
    ) -> usize {
        let sets = planes[0].len();
        assert!(planes.iter().all(|plane| plane.len() == sets) && sets <= 1 << 16);
        assert!(out.len() >= PROBES * sets + SLACK);
        // SAFETY: the tier is available, the planes have one length, and there is room for every
        // pair and for one vector more.
        unsafe { (self.run)(planes, probes, limits, out) }
    }

    /// Compares each probe from `first` on with the sets of its range, and keeps those with
    /// `WEIGHT_UNIT · distance + weight ≤ limit`, rising. Ends where the survivors of the next probe
    /// might not find room; the result is that probe, or the number of all.
    ///
    /// # Panics
    ///
    /// If the planes and weights differ in length, a range ends less than [`SLACK`] before their
    /// end, or `out` has no room for the survivors of a single probe.
    #[inline]
    pub fn scan_lists(
        &self,
        planes: &[&[u64]; W],
        weights: &[i32],
        probes: &Probes<'_, W>,
        first: usize,
        out: &mut Survivors,
    ) -> usize {
        let (sets, count) = (weights.len(), probes.limits.len());
        assert!(planes.iter().all(|plane| plane.len() == sets));
        assert!(probes.planes.iter().all(|plane| plane.len() == count));
        assert!(probes.ranges.len() == count);
        if out.hits.len() < count {
            out.hits.resize(count, (0, 0));
        }
        // SAFETY: the tier is available, lengths agree, and there is a hit for every probe.
        unsafe { (self.lists)(planes, weights, probes, first, out) }
    }
}

/// Entries of the output that a kernel may write beyond the last survivor.
pub const SLACK: usize = 16;

/// A vector of 64-bit lanes.
///
/// # Safety
///
/// The methods may only be called where the tier's instructions are available; loads need `LANES`
/// readable elements, `load_part` needs `count < LANES`; `store_places` needs room for `LANES`
/// elements.
#[allow(clippy::missing_safety_doc)]
trait Lanes: Copy {
    const LANES: usize;
    unsafe fn splat(value: u64) -> Self;
    unsafe fn load(from: *const u64) -> Self;
    unsafe fn load_part(from: *const u64, count: usize) -> Self;
    /// 32-bit numbers, their signs extended.
    unsafe fn load_weights(from: *const i32) -> Self;
    unsafe fn xor(self, other: Self) -> Self;
    unsafe fn add(self, other: Self) -> Self;
    unsafe fn popcount(self) -> Self;
    /// Each lane times [`WEIGHT_UNIT`].
    unsafe fn times_unit(self) -> Self;
    /// A bit for each lane that is at most the other's, as signed numbers.
    unsafe fn at_most(self, other: Self) -> u32;
    /// Writes `base + lane` for each lane in the mask, rising. May write up to `LANES` elements.
    unsafe fn store_places(mask: u32, base: u32, to: *mut u32);
    /// `top - token` of tokens.
    unsafe fn load_ranks(from: *const u32, top: u32) -> Self;
    /// For each lane, `1 << (lane mod 64)` if `lane / 64` is `word` modulo `words`, a power of two;
    /// 0 otherwise.
    unsafe fn bits(self, word: usize, words: usize) -> Self;
    /// The ranks of the first `count` tokens, below `LANES`; other lanes are anything.
    unsafe fn load_ranks_part(from: *const u32, top: u32, count: usize) -> Self;
    /// The first `count` lanes, below `LANES`, and 0 in the others.
    unsafe fn first(self, count: usize) -> Self;
    /// Exclusive or of all lanes.
    unsafe fn fold(self) -> u64;
    /// Sum of all lanes.
    unsafe fn sum(self) -> u64;
}

/// Toggles the bit of the token that stands `rank` places below the most frequent one.
#[inline(always)]
pub fn toggle<const W: usize>(signature: &mut [u64; W], rank: u32) {
    signature[(rank / 64) as usize % W] ^= 1 << (rank % 64);
}

/// See [`Kernels::signature`].
#[inline(always)]
unsafe fn fold<V: Lanes, const W: usize>(tokens: &[u32], top: u32) -> [u64; W] {
    let mut signature = [0; W];
    // SAFETY: the loads stay within the tokens.
    unsafe {
        let mut words = [V::splat(0); W];
        let mut at = 0;
        while at + V::LANES <= tokens.len() {
            let ranks = V::load_ranks(tokens.as_ptr().add(at), top);
            for (w, word) in words.iter_mut().enumerate() {
                *word = word.xor(ranks.bits(w, W));
            }
            at += V::LANES;
        }
        let rest = tokens.len() - at;
        if rest > 0 {
            let ranks = V::load_ranks_part(tokens.as_ptr().add(at), top, rest);
            for (w, word) in words.iter_mut().enumerate() {
                *word = word.xor(ranks.bits(w, W).first(rest));
            }
        }
        for w in 0..W {
            signature[w] = words[w].fold();
        }
    }
    signature
}

// The functions below are compiled once per tier, inside a function that has the tier's
// instructions. They use no closures: a closure is compiled without them.

/// The distances of a vector of sets from a probe.
#[inline(always)]
unsafe fn distances<V: Lanes, const W: usize>(words: &[V; W], probe: &[V; W]) -> V {
    // SAFETY: the caller's.
    unsafe {
        let mut distance = words[0].xor(probe[0]).popcount();
        for w in 1..W {
            distance = distance.add(words[w].xor(probe[w]).popcount());
        }
        distance
    }
}

/// One word of each of a vector's lanes, for every word; `rest` below `LANES` reads fewer.
#[inline(always)]
unsafe fn load<V: Lanes, const W: usize>(planes: &[&[u64]; W], at: usize, rest: usize) -> [V; W] {
    // SAFETY: the caller's.
    unsafe {
        let mut words = [V::splat(0); W];
        for w in 0..W {
            let from = planes[w].as_ptr().add(at);
            words[w] = if rest >= V::LANES { V::load(from) } else { V::load_part(from, rest) };
        }
        words
    }
}

#[inline(always)]
unsafe fn splat<V: Lanes, const W: usize>(words: &[u64; W]) -> [V; W] {
    // SAFETY: the caller's.
    unsafe {
        let mut all = [V::splat(0); W];
        for w in 0..W {
            all[w] = V::splat(words[w]);
        }
        all
    }
}

/// See [`Kernels::distance`].
#[inline(always)]
unsafe fn distance<V: Lanes, const W: usize>(a: &[u64; W], b: &[u64; W]) -> u64 {
    let mut at = 0;
    let mut distance = 0;
    if W >= V::LANES {
        // SAFETY: the loads stay within the signatures.
        unsafe {
            let mut sum = V::splat(0);
            while at + V::LANES <= W {
                let bits = V::load(a.as_ptr().add(at)).xor(V::load(b.as_ptr().add(at)));
                sum = sum.add(bits.popcount());
                at += V::LANES;
            }
            distance = sum.sum();
        }
    }
    while at < W {
        distance += u64::from((a[at] ^ b[at]).count_ones());
        at += 1;
    }
    distance
}

/// See [`Kernels::scan_run`].
#[inline(always)]
unsafe fn run<V: Lanes, const W: usize>(
    planes: &[&[u64]; W],
    probes: &[[u64; W]; PROBES],
    limits: &[u64; PROBES],
    out: &mut [u32],
) -> usize {
    // SAFETY: `scan_run` checked lengths; loads stay within the planes, and at most `LANES ≤ SLACK`
    // elements are written after at most `PROBES · sets` survivors.
    unsafe {
        let sets = planes[0].len();
        let out = out.as_mut_ptr();
        let mut found = 0;
        let mut probe = [[V::splat(0); W]; PROBES];
        for p in 0..PROBES {
            probe[p] = splat::<V, W>(&probes[p]);
        }
        let limit = splat::<V, PROBES>(limits);
        let mut at = 0;
        while at < sets {
            let rest = sets - at;
            let words = load::<V, W>(planes, at, rest);
            let valid = if rest >= V::LANES { u32::MAX } else { (1 << rest) - 1 };
            let mut masks = [0u32; PROBES];
            for p in 0..PROBES {
                masks[p] = distances::<V, W>(&words, &probe[p]).at_most(limit[p]) & valid;
            }
            if masks[0] | masks[1] | masks[2] | masks[3] != 0 {
                for (p, &mask) in masks.iter().enumerate() {
                    V::store_places(mask, (p as u32) << 16 | at as u32, out.add(found));
                    found += mask.count_ones() as usize;
                }
            }
            at += V::LANES;
        }
        found
    }
}

/// A probe in the lanes of vectors.
#[derive(Clone, Copy)]
struct Broadcast<V, const W: usize> {
    words: [V; W],
    limit: V,
}

#[inline(always)]
unsafe fn broadcast<V: Lanes, const W: usize>(
    probes: &Probes<'_, W>,
    at: usize,
) -> Broadcast<V, W> {
    // SAFETY: the caller's; there is such a probe.
    unsafe {
        let mut words = [V::splat(0); W];
        for (word, plane) in words.iter_mut().zip(&probes.planes) {
            *word = V::splat(*plane.get_unchecked(at));
        }
        let limit = i64::from(*probes.limits.get_unchecked(at));
        Broadcast { words, limit: V::splat(limit as u64) }
    }
}

/// Which of a vector of sets a probe is close to.
#[inline(always)]
unsafe fn near<V: Lanes, const W: usize>(
    words: &[V; W],
    weights: V,
    probe: &Broadcast<V, W>,
) -> u32 {
    // SAFETY: the caller's.
    unsafe {
        let distance = distances::<V, W>(words, &probe.words);
        distance.times_unit().add(weights).at_most(probe.limit)
    }
}

/// Compares one probe with a range of sets, writes survivors to `places` and tells how many there are.
#[inline(always)]
unsafe fn one<V: Lanes, const W: usize>(
    (planes, weights): (&[&[u64]; W], &[i32]),
    probe: &Broadcast<V, W>,
    range: Range<usize>,
    places: *mut u32,
) -> usize {
    let (mut at, mut found) = (range.start, 0);
    // SAFETY: the caller's; loads and stores go beyond their ends by less than `LANES ≤ SLACK`.
    unsafe {
        while at < range.end {
            let words = load::<V, W>(planes, at, V::LANES);
            let weights = V::load_weights(weights.as_ptr().add(at));
            let rest = range.end - at;
            let valid = if rest >= V::LANES { u32::MAX } else { (1 << rest) - 1 };
            let mask = near(&words, weights, probe) & valid;
            if mask != 0 {
                V::store_places(mask, at as u32, places.add(found));
                found += mask.count_ones() as usize;
            }
            at += V::LANES;
        }
    }
    found
}

/// Compares several probes with the sets that all of them meet, a vector of sets at a time: what is loaded
/// once serves them all. What only some of them meet, on either side, is left to [`one`]. Survivors of each
/// probe are written to a place of its own.
#[inline(always)]
unsafe fn several<V: Lanes, const W: usize>(
    sets: (&[&[u64]; W], &[i32]),
    probes: &[Broadcast<V, W>; PROBES],
    ranges: &[Range<usize>; PROBES],
    common: Range<usize>,
    places: &[*mut u32; PROBES],
) -> [usize; PROBES] {
    let (planes, weights) = sets;
    let mut found = [0; PROBES];
    // SAFETY: the caller's.
    unsafe {
        for p in 0..PROBES {
            found[p] = one(sets, &probes[p], ranges[p].start..common.start, places[p]);
        }
        let mut at = common.start;
        while at + V::LANES <= common.end {
            let words = load::<V, W>(planes, at, V::LANES);
            let weights = V::load_weights(weights.as_ptr().add(at));
            let mut masks = [0u32; PROBES];
            for p in 0..PROBES {
                masks[p] = near(&words, weights, &probes[p]);
            }
            if masks[0] | masks[1] | masks[2] | masks[3] != 0 {
                for p in 0..PROBES {
                    V::store_places(masks[p], at as u32, places[p].add(found[p]));
                    found[p] += masks[p].count_ones() as usize;
                }
            }
            at += V::LANES;
        }
        for p in 0..PROBES {
            found[p] += one(sets, &probes[p], at..ranges[p].end, places[p].add(found[p]));
        }
    }
    found
}

/// Vectors of sets that several probes have in common for them to be taken together.
const COMMON: usize = 4;

/// See [`Kernels::scan_lists`].
#[inline(always)]
unsafe fn lists<V: Lanes, const W: usize>(
    planes: &[&[u64]; W],
    weights: &[i32],
    probes: &Probes<'_, W>,
    first: usize,
    out: &mut Survivors,
) -> usize {
    let count = probes.limits.len();
    let room = out.places.len();
    let sets = (planes, weights);
    let mut found = 0;
    let mut at_hit = 0;
    let mut at_probe = first;
    while at_probe < count {
        let Range { start, end } = probes.ranges[at_probe];
        let (start, end) = (start as usize, end as usize);
        if start >= end {
            at_probe += 1;
            continue;
        }
        if found + (end - start) + SLACK > room {
            assert!(found > 0, "no room for the survivors of one probe");
            break;
        }
        assert!(end + SLACK <= weights.len());
        let mut taken = 1;
        if end - start >= COMMON * V::LANES && at_probe + PROBES <= count {
            let mut ranges = [const { 0..0 }; PROBES];
            let (mut common, mut needed) = (start..end, found);
            let mut begins = [0; PROBES];
            for p in 0..PROBES {
                let Range { start, end } = probes.ranges[at_probe + p];
                ranges[p] = start as usize..end as usize;
                common = common.start.max(ranges[p].start)..common.end.min(ranges[p].end);
                begins[p] = needed;
                needed += ranges[p].len() + SLACK;
            }
            if common.len() >= COMMON * V::LANES && needed <= room {
                taken = PROBES;
                // SAFETY: the arrays have one length each; what is loaded beyond a range is within the
                // slack of the arrays, and what is written beyond the survivors of a probe within that of
                // its part of the output, for which there is room.
                unsafe {
                    let mut all = [broadcast::<V, W>(probes, at_probe); PROBES];
                    let places = out.places.as_mut_ptr();
                    let mut parts = [places; PROBES];
                    for p in 0..PROBES {
                        assert!(ranges[p].end + SLACK <= weights.len());
                        all[p] = broadcast(probes, at_probe + p);
                        parts[p] = places.add(begins[p]);
                    }
                    let counts = several(sets, &all, &ranges, common, &parts);
                    for p in 0..PROBES {
                        if counts[p] > 0 {
                            parts[p].copy_to(places.add(found), counts[p]);
                            found += counts[p];
                            *out.hits.get_unchecked_mut(at_hit) =
                                ((at_probe + p) as u32, found as u32);
                            at_hit += 1;
                        }
                    }
                }
            }
        }
        if taken == 1 {
            // SAFETY: as above.
            unsafe {
                let probe = broadcast::<V, W>(probes, at_probe);
                let more = one(sets, &probe, start..end, out.places.as_mut_ptr().add(found));
                if more > 0 {
                    found += more;
                    *out.hits.get_unchecked_mut(at_hit) = (at_probe as u32, found as u32);
                    at_hit += 1;
                }
            }
        }
        at_probe += taken;
    }
    out.found = at_hit;
    at_probe
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check<const W: usize>(words: &[[u64; 8]], weights: &[i32], limit: u64) {
        let planes_owned: [Vec<u64>; W] =
            std::array::from_fn(|w| words.iter().map(|set| set[w]).collect());
        let planes: [&[u64]; W] = std::array::from_fn(|w| planes_owned[w].as_slice());
        let signature = |i: usize| -> [u64; W] { std::array::from_fn(|w| words[i][w]) };
        let distance = |a: &[u64; W], b: &[u64; W]| -> u64 {
            a.iter().zip(b).map(|(a, b)| u64::from((a ^ b).count_ones())).sum()
        };
        let probes: [[u64; W]; PROBES] = std::array::from_fn(|p| signature(p % words.len()));
        let limits: [u64; PROBES] = std::array::from_fn(|p| limit + p as u64);
        let mut wanted: Vec<u32> = Vec::new();
        for set in 0..words.len() {
            for p in 0..PROBES {
                if distance(&signature(set), &probes[p]) <= limits[p] {
                    wanted.push((p as u32) << 16 | set as u32);
                }
            }
        }
        wanted.sort_unstable();
        // Lists: every set is a probe that meets those before it, from a third of the way on.
        let list_limit = (limit as i32) * WEIGHT_UNIT;
        let ranges: Vec<Range<u32>> = (0..words.len() as u32).map(|i| i / 3..i).collect();
        let list_limits: Vec<i32> = (0..words.len() as i32).map(|i| list_limit - i).collect();
        let mut listed: Vec<(u32, u32)> = Vec::new();
        for (probe, range) in ranges.iter().enumerate() {
            for set in range.clone() {
                let distance = distance(&signature(set as usize), &signature(probe)) as i32;
                if distance * WEIGHT_UNIT + weights[set as usize] <= list_limits[probe] {
                    listed.push((probe as u32, set));
                }
            }
        }
        let slack = std::iter::repeat_n(u64::MAX, SLACK);
        let padded: [Vec<u64>; W] =
            std::array::from_fn(|w| planes[w].iter().copied().chain(slack.clone()).collect());
        let padded: [&[u64]; W] = std::array::from_fn(|w| padded[w].as_slice());
        let mut padded_weights = weights.to_vec();
        padded_weights.extend([i32::MIN; SLACK]);
        let all = Probes { planes, ranges: &ranges, limits: &list_limits };
        for tier in Tier::available() {
            let kernels = Kernels::<W>::of(tier);
            assert_eq!(kernels.tier(), tier);
            let last = signature(words.len() - 1);
            assert_eq!(kernels.distance(&last, &probes[0]), distance(&last, &probes[0]));
            let mut out = vec![0; PROBES * words.len() + SLACK];
            let found = kernels.scan_run(&planes, &probes, &limits, &mut out);
            let mut run = out[..found].to_vec();
            run.sort_unstable();
            assert_eq!(run, wanted, "{tier}, {W} words");
            // With room for one probe at least, and with room for all.
            for room in [words.len() + SLACK, words.len() * words.len() + SLACK] {
                let mut survivors = Survivors { places: vec![0; room], ..Survivors::default() };
                let (mut next, mut found) = (0, Vec::new());
                while next < words.len() {
                    next = kernels.scan_lists(&padded, &padded_weights, &all, next, &mut survivors);
                    survivors.for_each(|probe, places| {
                        found.extend(places.iter().map(|&place| (probe, place)));
                    });
                }
                assert_eq!(found, listed, "{tier}, {W} words");
            }
        }
    }

    fn check_signature<const W: usize>(tokens: &[u32]) {
        let top = 100_000;
        let mut wanted = [0u64; W];
        for &token in tokens {
            let bit = (top - token) as usize % (64 * W);
            wanted[bit / 64] ^= 1 << (bit % 64);
        }
        for tier in Tier::available() {
            assert_eq!(Kernels::<W>::of(tier).signature(tokens, top), wanted, "{tier}, {W} words");
        }
    }

    proptest! {
        #[test]
        fn every_tier_makes_the_same_signature(
            tokens in prop::collection::vec(0..=100_000u32, 0..60),
        ) {
            check_signature::<1>(&tokens);
            check_signature::<2>(&tokens);
            check_signature::<4>(&tokens);
            check_signature::<8>(&tokens);
            check_signature::<32>(&tokens);
        }

        #[test]
        fn every_tier_finds_what_the_definition_says(
            sets in prop::collection::vec((any::<[u64; 8]>(), any::<bool>(), -400..400i32), 1..150),
            near in any::<[u64; 8]>(),
            limit in 0..300u64,
        ) {
            // Half of the signatures are close to one another, or none would survive.
            let words: Vec<[u64; 8]> = sets
                .iter()
                .map(|(set, close, _)| {
                    if *close { std::array::from_fn(|w| near[w] ^ (set[w] & 0x11)) } else { *set }
                })
                .collect();
            let weights: Vec<i32> = sets.iter().map(|&(_, _, weight)| weight).collect();
            check::<1>(&words, &weights, limit / 8);
            check::<2>(&words, &weights, limit / 4);
            check::<4>(&words, &weights, limit / 2);
            check::<8>(&words, &weights, limit);
        }
    }

    #[test]
    fn everything_and_nothing_survive() {
        let words = vec![[0u64; 8]; 23];
        check::<1>(&words, &[0; 23], 0);
        check::<4>(&words, &[i32::MAX / 2; 23], 0);
        let many = vec![[7u64; 8]; 200];
        check::<1>(&many, &[0; 200], 20);
        check::<2>(&many, &[i32::MAX / 2; 200], 0);
        check::<8>(&vec![[u64::MAX; 8]; 16], &[-5; 16], 512);
    }
}
