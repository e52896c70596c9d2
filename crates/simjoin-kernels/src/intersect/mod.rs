//! Which tokens do two ascending slices share?
//!
//! Slices can have any length, up to hundreds of millions of tokens. [`Intersect`] counts the common
//! tokens or writes them in ascending order:
//!
//! * If one slice is far longer than the other, each token of the short one is searched in the long
//!   one by doubling steps and bisection ([`gallop()`]).
//! * If both hold a large share of all numbers and there are no vector instructions, bitmaps are compared
//!   ([`bitmap()`]).
//! * Otherwise all tokens of a block of one slice are compared with all tokens of a block of the other at
//!   once, and the block that ends first is replaced by the next one. The blocks of two equal tokens are
//!   compared with each other exactly once: while one of these blocks is current, the other slice passes
//!   only blocks that end before the token.
//!
//! [`merge()`] is the plain merge of the scalar tier. [`Method::of`] chooses the method. [`split()`] cuts
//! two slices into parts that can be intersected independently.

mod bitmap;
mod blocks;
mod gallop;
mod merge;
mod split;

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "aarch64")]
mod neon;

pub use bitmap::bitmap;
pub use gallop::gallop;
pub use merge::merge;
pub use split::split;

use crate::tier::Tier;

/// A receiver of common tokens.
pub trait Found {
    /// Receives one token. Tokens come in ascending order.
    fn one(&mut self, token: u32);

    /// Receives several tokens: one for each bit, counted from `base`.
    #[inline(always)]
    fn word(&mut self, base: u32, mut bits: u64) {
        while bits != 0 {
            self.one(base + bits.trailing_zeros());
            bits &= bits - 1;
        }
    }
}

/// Counts the common tokens.
#[derive(Clone, Copy, Debug, Default)]
pub struct Size(pub u64);

impl Found for Size {
    #[inline(always)]
    fn one(&mut self, _: u32) {
        self.0 += 1;
    }

    #[inline(always)]
    fn word(&mut self, _: u32, bits: u64) {
        self.0 += u64::from(bits.count_ones());
    }
}

/// Writes the common tokens. The output has room for the shorter slice.
#[derive(Debug)]
pub struct Elements<'o> {
    out: &'o mut [u32],
    len: usize,
}

impl Found for Elements<'_> {
    #[inline(always)]
    fn one(&mut self, token: u32) {
        self.out[self.len] = token;
        self.len += 1;
    }
}

/// A way to intersect two slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// The plain merge.
    Merge,
    /// Searches each token of the shorter slice in the longer one.
    Gallop,
    /// Compares blocks by vector instructions; the plain merge if there are none.
    Blocks,
    /// Compares bitmaps.
    Bitmap,
}

impl Method {
    /// Every method.
    pub const ALL: [Method; 4] = [Method::Merge, Method::Gallop, Method::Blocks, Method::Bitmap];

    /// Returns the name used on the command line and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Method::Merge => "merge",
            Method::Gallop => "gallop",
            Method::Blocks => "blocks",
            Method::Bitmap => "bitmap",
        }
    }

    /// The smallest ratio of the lengths for which [`gallop()`] is faster than blocks, and than the plain
    /// merge.
    const FAR_LONGER: [usize; 2] = [2048, 8];

    /// The largest mean distance of tokens for which [`bitmap()`] is faster than the plain merge. It is never
    /// faster than blocks.
    const DENSE: u64 = 4;

    /// Returns the method that is fastest for two ascending slices, by `benches/intersect.rs` (2-core AMD
    /// EPYC, 2026-11-15; the crate's `README.md` has the results).
    pub fn of(tier: Tier, a: &[u32], b: &[u32]) -> Method {
        let (short, long) = if a.len() <= b.len() { (a, b) } else { (b, a) };
        let (Some(&first), Some(&last)) = (long.first(), long.last()) else { return Method::Merge };
        let [beside_blocks, beside_merge] = Self::FAR_LONGER;
        let far = if tier == Tier::Scalar { beside_merge } else { beside_blocks };
        if short.len().saturating_mul(far) <= long.len() {
            return Method::Gallop;
        }
        if tier != Tier::Scalar {
            return Method::Blocks;
        }
        let numbers = u64::from(last - first) + 1;
        if numbers <= Self::DENSE * short.len() as u64 { Method::Bitmap } else { Method::Merge }
    }
}

type Kernel<F> = unsafe fn(&[u32], &[u32], &mut F);

/// The intersection of one tier.
#[derive(Clone, Copy, Debug)]
pub struct Intersect {
    tier: Tier,
    size: Kernel<Size>,
    elements: for<'o> unsafe fn(&[u32], &[u32], &mut Elements<'o>),
}

impl Intersect {
    /// Returns the functions of the best tier.
    pub fn best() -> Self {
        Self::of(Tier::best())
    }

    /// Returns the functions of a tier; the merge if the processor lacks it.
    pub fn of(tier: Tier) -> Self {
        match tier {
            #[cfg(target_arch = "x86_64")]
            Tier::Avx512 if tier.is_available() => {
                Intersect { tier, size: avx512::size, elements: avx2::elements }
            }
            #[cfg(target_arch = "x86_64")]
            Tier::Avx2 if tier.is_available() => {
                Intersect { tier, size: avx2::size, elements: avx2::elements }
            }
            #[cfg(target_arch = "aarch64")]
            Tier::Neon if tier.is_available() => {
                Intersect { tier, size: neon::size, elements: neon::elements }
            }
            _ => Intersect {
                tier: Tier::Scalar,
                size: merge,
                elements: |a, b, found| merge(a, b, found),
            },
        }
    }

    /// Returns the tier that runs.
    pub fn tier(&self) -> Tier {
        self.tier
    }

    /// Returns the number of common tokens of two ascending slices.
    pub fn size(&self, a: &[u32], b: &[u32]) -> u64 {
        self.size_by(Method::of(self.tier, a, b), a, b)
    }

    /// Returns the number of common tokens of two ascending slices, counted by a given method.
    pub fn size_by(&self, method: Method, a: &[u32], b: &[u32]) -> u64 {
        let mut found = Size::default();
        let (short, long) = if a.len() <= b.len() { (a, b) } else { (b, a) };
        match method {
            Method::Merge => merge(short, long, &mut found),
            Method::Gallop => gallop(short, long, &mut found),
            Method::Bitmap => bitmap(short, long, &mut found),
            // SAFETY: the processor has the tier's instructions.
            Method::Blocks => unsafe { (self.size)(short, long, &mut found) },
        }
        found.0
    }

    /// Writes the tokens that two ascending slices share, in order, and returns their number.
    ///
    /// # Panics
    ///
    /// Panics if `out` is shorter than both slices.
    pub fn elements(&self, a: &[u32], b: &[u32], out: &mut [u32]) -> usize {
        self.elements_by(Method::of(self.tier, a, b), a, b, out)
    }

    /// Writes the tokens that two ascending slices share by a given method, and returns their number.
    ///
    /// # Panics
    ///
    /// Panics if `out` is shorter than both slices.
    pub fn elements_by(&self, method: Method, a: &[u32], b: &[u32], out: &mut [u32]) -> usize {
        let (short, long) = if a.len() <= b.len() { (a, b) } else { (b, a) };
        let mut found = Elements { out: &mut out[..short.len()], len: 0 };
        match method {
            Method::Merge => merge(short, long, &mut found),
            Method::Gallop => gallop(short, long, &mut found),
            Method::Bitmap => bitmap(short, long, &mut found),
            // SAFETY: the processor has the tier's instructions.
            Method::Blocks => unsafe { (self.elements)(short, long, &mut found) },
        }
        found.len
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::btree_set;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn check(a: &[u32], b: &[u32]) {
        let in_b: BTreeSet<u32> = b.iter().copied().collect();
        let expected: Vec<u32> = a.iter().copied().filter(|token| in_b.contains(token)).collect();
        // Every cut leaves each common token on one side.
        let steps = a.len() + b.len();
        for cut in [0, 1, steps / 3, steps / 2, steps.saturating_sub(1), steps, steps + 9] {
            let (i, j) = split(a, b, cut);
            assert!((cut.min(steps)..=cut + 1).contains(&(i + j)), "{i} {j} {cut}");
            let mut size = Size::default();
            merge(&a[..i], &b[..j], &mut size);
            merge(&a[i..], &b[j..], &mut size);
            assert_eq!(size.0, expected.len() as u64, "{cut}");
        }
        for tier in Tier::available() {
            let intersect = Intersect::of(tier);
            assert_eq!(intersect.tier(), tier);
            for (a, b) in [(a, b), (b, a)] {
                assert_eq!(intersect.size(a, b), expected.len() as u64, "{tier}");
                // Nothing is written beyond the length of the shorter slice.
                let room = a.len().min(b.len());
                let mut out = vec![7; room + 1];
                let count = intersect.elements(a, b, &mut out[..room]);
                assert_eq!(out[..count], expected, "{tier}");
                assert_eq!(out[room], 7);
                for method in Method::ALL {
                    let size = intersect.size_by(method, a, b);
                    assert_eq!(size, expected.len() as u64, "{tier} {method:?}");
                    let count = intersect.elements_by(method, a, b, &mut out[..room]);
                    assert_eq!(out[..count], expected, "{tier} {method:?}");
                    assert_eq!(out[room], 7);
                }
            }
        }
    }

    #[test]
    fn every_method_handles_extreme_slices() {
        let all: Vec<u32> = (0..1000).collect();
        let even: Vec<u32> = (0..1000).step_by(2).collect();
        let odd: Vec<u32> = (1..1000).step_by(2).collect();
        let ends = [0, 1, u32::MAX - 1, u32::MAX];
        let last: Vec<u32> = (u32::MAX - 70..=u32::MAX).collect();
        let runs: Vec<u32> = (0..50u32).flat_map(|run| 100 * run..100 * run + run).collect();
        let sparse: Vec<u32> = (0..100).map(|at| at * 40_000_000).collect();
        let many: Vec<u32> = (0..100_000).map(|at| at * 3).collect();
        let cases: [&[u32]; 11] =
            [&[], &[5], &[999], &all, &even, &odd, &ends, &last, &runs, &sparse, &many];
        for a in cases {
            for b in cases {
                check(a, b);
            }
        }
        // Long enough for two streams, one of which ends early.
        let low: Vec<u32> = (0..3000).chain(4_000_000_000..4_000_000_100).collect();
        let high: Vec<u32> = (0..100).chain(3_999_999_000..4_000_002_000).collect();
        for a in [&low, &high, &many] {
            for b in [&low, &high, &many] {
                check(a, b);
            }
        }
        // Every alignment of two runs, and every length of a rest.
        for start in 0..40 {
            for length in 0..40 {
                check(&all[..64 + length as usize], &all[start..start + 33]);
                check(&even[..length as usize], &all[start..]);
            }
        }
    }

    proptest! {
        #[test]
        fn every_method_intersects_any_two_sets(
            universe in 1..3000u32,
            a in btree_set(any::<u32>(), 0..400),
            b in btree_set(any::<u32>(), 0..400),
            c in btree_set(0..40_000u32, 1000..3000),
            d in btree_set(0..40_000u32, 100..3000),
        ) {
            let wide = |set: &BTreeSet<u32>| set.iter().copied().collect::<Vec<_>>();
            check(&wide(&c), &wide(&d));
            check(&wide(&a), &wide(&b));
            let within = |set: BTreeSet<u32>| -> Vec<u32> {
                set.into_iter().map(|token| token % universe).collect::<BTreeSet<_>>().into_iter().collect()
            };
            check(&within(a), &within(b));
        }
    }
}
