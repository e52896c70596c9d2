//! Which tokens do two ascending slices share?
//!
//! For slices of any length, up to hundreds of millions of tokens. [`Intersect`] counts the common
//! tokens or writes them down, in ascending order:
//!
//! * where one slice is far longer than the other, each token of the short one is looked for in the long
//!   one by steps that double, then by halving ([`gallop`]);
//! * otherwise block by block: all tokens of a block of one slice are compared with all of a block of
//!   the other at once, and the block that ends first makes way for the next. Two equal tokens stand in
//!   blocks that are compared with each other exactly once: as long as one of them is at hand, only
//!   blocks that end before it make way on the other side.
//!
//! [`merge`] is the plain merge, which the scalar tier uses and which others are measured by.

mod blocks;
mod gallop;
mod merge;

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "aarch64")]
mod neon;

pub use gallop::gallop;
pub use merge::merge;

use crate::tier::Tier;

/// What becomes of common tokens.
pub trait Found {
    /// They come in ascending order.
    fn one(&mut self, token: u32);
}

/// Counts them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Size(pub u64);

impl Found for Size {
    #[inline(always)]
    fn one(&mut self, _: u32) {
        self.0 += 1;
    }
}

/// Writes them down. There is room for as many as the shorter slice has.
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

/// How many times as long one slice must be for [`gallop`] to be worth it.
const FAR_LONGER: usize = 128;

type Kernel<F> = unsafe fn(&[u32], &[u32], &mut F);

/// The intersection of one tier.
#[derive(Clone, Copy, Debug)]
pub struct Intersect {
    tier: Tier,
    size: Kernel<Size>,
    elements: for<'o> unsafe fn(&[u32], &[u32], &mut Elements<'o>),
}

impl Intersect {
    /// The best tier's.
    pub fn best() -> Self {
        Self::of(Tier::best())
    }

    /// A tier's; the merge if the processor lacks it.
    pub fn of(tier: Tier) -> Self {
        match tier {
            #[cfg(target_arch = "x86_64")]
            Tier::Avx512 if tier.is_available() => {
                Intersect { tier, size: avx2::size, elements: avx512::elements }
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

    /// The tier that runs.
    pub fn tier(&self) -> Tier {
        self.tier
    }

    /// How many tokens two ascending slices share.
    pub fn size(&self, a: &[u32], b: &[u32]) -> u64 {
        let mut found = Size::default();
        let (short, long) = if a.len() <= b.len() { (a, b) } else { (b, a) };
        if short.len().saturating_mul(FAR_LONGER) <= long.len() {
            gallop(short, long, &mut found);
        } else {
            // SAFETY: the processor has the tier's instructions.
            unsafe { (self.size)(short, long, &mut found) };
        }
        found.0
    }

    /// Writes the tokens that two ascending slices share, in order, and returns how many these are.
    ///
    /// # Panics
    ///
    /// Where `out` is shorter than both slices.
    pub fn elements(&self, a: &[u32], b: &[u32], out: &mut [u32]) -> usize {
        let (short, long) = if a.len() <= b.len() { (a, b) } else { (b, a) };
        let mut found = Elements { out: &mut out[..short.len()], len: 0 };
        if short.len().saturating_mul(FAR_LONGER) <= long.len() {
            gallop(short, long, &mut found);
        } else {
            // SAFETY: the processor has the tier's instructions.
            unsafe { (self.elements)(short, long, &mut found) };
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
        let mut size = Size::default();
        gallop(a, b, &mut size);
        assert_eq!(size.0, expected.len() as u64);
        for tier in Tier::available() {
            let intersect = Intersect::of(tier);
            assert_eq!(intersect.tier(), tier);
            for (a, b) in [(a, b), (b, a)] {
                assert_eq!(intersect.size(a, b), expected.len() as u64, "{tier}");
                // Nothing is written beyond what the shorter one has room for.
                let room = a.len().min(b.len());
                let mut out = vec![7; room + 1];
                let count = intersect.elements(a, b, &mut out[..room]);
                assert_eq!(out[..count], expected, "{tier}");
                assert_eq!(out[room], 7);
            }
        }
    }

    #[test]
    fn adversaries() {
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
        fn any_two_sets(
            universe in 1..3000u32,
            a in btree_set(any::<u32>(), 0..400),
            b in btree_set(any::<u32>(), 0..400),
        ) {
            let within = |set: BTreeSet<u32>| -> Vec<u32> {
                set.into_iter().map(|token| token % universe).collect::<BTreeSet<_>>().into_iter().collect()
            };
            check(&within(a), &within(b));
        }
    }
}
