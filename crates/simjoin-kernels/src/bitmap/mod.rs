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
        /// As [`super::loops::run`], with the tier's instructions.
        $(#[target_feature(enable = $features)])?
        pub(super) unsafe fn run<const W: usize>(
            planes: &[&[u64]; W],
            probes: &[[u64; W]; super::PROBES],
            limits: &[u64; super::PROBES],
            out: &mut [u32],
        ) -> usize {
            // SAFETY: the caller's.
            unsafe { super::loops::run::<$lanes, W>(planes, probes, limits, out) }
        }

        /// # Safety
        ///
        /// As [`super::loops::lists`], with the tier's instructions.
        $(#[target_feature(enable = $features)])?
        pub(super) unsafe fn lists<const W: usize>(
            planes: &[&[u64]; W],
            weights: &[i32],
            probes: &super::Probes<'_, W>,
            first: usize,
            out: &mut super::Survivors,
        ) -> usize {
            // SAFETY: the caller's.
            unsafe { super::loops::lists::<$lanes, W>(planes, weights, probes, first, out) }
        }

        /// # Safety
        ///
        /// As [`super::loops::fold`], with the tier's instructions.
        $(#[target_feature(enable = $features)])?
        pub(super) unsafe fn fold<const W: usize>(tokens: &[u32], top: u32) -> [u64; W] {
            // SAFETY: the caller's.
            unsafe { super::loops::fold::<$lanes, W>(tokens, top) }
        }

        /// # Safety
        ///
        /// As [`super::loops::distance`], with the tier's instructions.
        $(#[target_feature(enable = $features)])?
        pub(super) unsafe fn distance<const W: usize>(a: &[u64; W], b: &[u64; W]) -> u64 {
            // SAFETY: the caller's.
            unsafe { super::loops::distance::<$lanes, W>(a, b) }
        }
    };
}

mod loops;
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

/// Toggles the bit of the token that stands `rank` places below the most frequent one.
#[inline(always)]
pub fn toggle<const W: usize>(signature: &mut [u64; W], rank: u32) {
    signature[(rank / 64) as usize % W] ^= 1 << (rank % 64);
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
