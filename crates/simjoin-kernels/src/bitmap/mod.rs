//! Which signatures are close enough?
//!
//! A signature is `W` words of 64 bits in which every token of a set has toggled one bit. A token
//! that two sets share toggles the same bit in both, so the Hamming distance of the signatures is
//! at most the number of tokens that only one of the sets has, `|r| + |s| - 2·|r∩s|`. A pair whose
//! signatures are further apart than its bounds allow is therefore not in the answer.
//!
//! Signatures are stored as a structure of arrays: word `w` of set `i` is `planes[w][i]`. Two kernels
//! compare probes with many sets at once and write the survivors:
//!
//! * [`Kernels::scan_run`]: several probes, each with one limit for all sets (which have one size, say);
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

/// The number of probes that [`Kernels::scan_run`] compares at a time, and [`Kernels::scan_lists`] if the
/// probes meet the same sets.
pub const PROBES: usize = 4;

/// The unit of weights and limits of [`Kernels::scan_lists`] is `1 / WEIGHT_UNIT` bits.
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

/// The probes of [`Kernels::scan_lists`], as a structure of arrays.
#[derive(Clone, Copy, Debug)]
pub struct Probes<'p, const W: usize> {
    /// Word `w` of probe `i` is `planes[w][i]`.
    pub planes: [&'p [u64]; W],
    /// The places of the sets that each probe is compared with.
    pub ranges: &'p [Range<u32>],
    /// The limit of `WEIGHT_UNIT · distance + weight` for each probe.
    pub limits: &'p [i32],
}

/// The survivors that [`Kernels::scan_lists`] has found.
#[derive(Debug, Default)]
pub struct Survivors {
    places: Vec<u32>,
    hits: Vec<(u32, u32)>,
    found: usize,
}

impl Survivors {
    /// The smallest room, in survivors.
    const ROOM: usize = 1024;

    /// The bytes of the smallest room.
    pub const BYTES: u64 = 4 * Self::ROOM as u64;

    /// Makes room for the survivors of `probes` probes with `sets` sets each. Room for one probe suffices; with
    /// room for [`PROBES`] probes, these are compared at a time.
    pub fn reserve(&mut self, probes: usize, sets: usize) {
        let room = (probes * (sets + SLACK)).max(Self::ROOM);
        if self.places.len() < room {
            self.places.resize(room, 0);
        }
    }

    /// Calls `each` with every probe that has survivors and with their places.
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
    /// Returns the kernels of the best tier.
    pub fn best() -> Self {
        Self::of(Tier::best())
    }

    /// Returns the kernels of a tier; the scalar ones if the processor lacks it.
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

    /// Returns the tier that runs.
    pub fn tier(&self) -> Tier {
        self.tier
    }

    /// Returns the signature of a set: each token toggles the bit `(top - token) mod 64·W`. With
    /// `top` the most frequent token, the `64·W` most frequent ones have bits of their own, and
    /// each bit stands for about as many tokens of any frequency.
    #[inline]
    pub fn signature(&self, tokens: &[u32], top: u32) -> [u64; W] {
        // SAFETY: the tier is available.
        unsafe { (self.fold)(tokens, top) }
    }

    /// Returns the number of bits in which two signatures differ.
    #[inline]
    pub fn distance(&self, a: &[u64; W], b: &[u64; W]) -> u64 {
        // SAFETY: the tier is available.
        unsafe { (self.distance)(a, b) }
    }

    /// Compares [`PROBES`] probes with every set of a run and returns the number of survivors. `out`
    /// receives `probe << 16 | set` for each pair whose distance is at most the probe's limit, by rising
    /// set number.
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

    /// Compares each probe from `first` on with the sets of its range, and keeps the sets with
    /// `WEIGHT_UNIT · distance + weight ≤ limit`, rising. Stops before a probe whose survivors might not
    /// fit and returns that probe, or the number of probes at the end.
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

/// The number of entries that a kernel may write behind the last survivor.
pub const SLACK: usize = 16;

/// Toggles the bit of the token that is `rank` places below the most frequent one.
#[inline(always)]
pub fn toggle<const W: usize>(signature: &mut [u64; W], rank: u32) {
    signature[(rank / 64) as usize % W] ^= 1 << (rank % 64);
}

#[cfg(test)]
mod tests;
