//! Which loops does every tier run?

use super::{PROBES, Probes, SLACK, Survivors};
use std::ops::Range;

/// A vector of 64-bit lanes.
///
/// # Safety
///
/// The methods may only be called where the tier's instructions are available; loads need `LANES`
/// readable elements, `load_part` needs `count < LANES`; `store_places` needs room for `LANES`
/// elements.
#[allow(clippy::missing_safety_doc)]
pub(super) trait Lanes: Copy {
    const LANES: usize;
    unsafe fn splat(value: u64) -> Self;
    unsafe fn load(from: *const u64) -> Self;
    unsafe fn load_part(from: *const u64, count: usize) -> Self;
    /// 32-bit numbers, their signs extended.
    unsafe fn load_weights(from: *const i32) -> Self;
    unsafe fn xor(self, other: Self) -> Self;
    unsafe fn add(self, other: Self) -> Self;
    unsafe fn popcount(self) -> Self;
    /// Each lane times [`WEIGHT_UNIT`](super::WEIGHT_UNIT).
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

/// See [`super::Kernels::signature`].
#[inline(always)]
pub(super) unsafe fn fold<V: Lanes, const W: usize>(tokens: &[u32], top: u32) -> [u64; W] {
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

/// Returns the distances of a vector of sets from a probe.
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

/// See [`super::Kernels::distance`].
#[inline(always)]
pub(super) unsafe fn distance<V: Lanes, const W: usize>(a: &[u64; W], b: &[u64; W]) -> u64 {
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

/// See [`super::Kernels::scan_run`].
#[inline(always)]
pub(super) unsafe fn run<V: Lanes, const W: usize>(
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

/// Returns the sets of a vector that are close to a probe.
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

/// Compares one probe with a range of sets, writes survivors to `places` and returns their number.
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

/// Compares several probes with the sets that all of them meet, a vector of sets at a time, so that a vector is
/// loaded once for all of them. Sets that only some of them meet are left to [`one`]. Survivors of each
/// probe are written to a separate part of the output.
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

/// The smallest number of common vectors of sets for which several probes are compared together.
const COMMON: usize = 4;

/// See [`super::Kernels::scan_lists`].
#[inline(always)]
pub(super) unsafe fn lists<V: Lanes, const W: usize>(
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
