//! How many bits do the rows of two bit matrices share?
//!
//! [`Product`] multiplies a matrix of zeros and ones by the transpose of another one. The result holds the
//! sizes of all intersections: `out[p][b]` is the number of bits that are set both in row `p` of the first
//! matrix and in row `b` of the second one.
//!
//! Rows of the first matrix, the probes, are consecutive words. Rows of the second one are in blocks of
//! [`ROWS`]: word `w` of row `i` of a block is `block[ROWS * w + i]`. So a vector holds the same word of
//! several rows, and no sum across a vector is needed. [`PROBES`] probes are multiplied at a time, so that a
//! word of the block is loaded once for all of them.

/// The entry point of a tier: the generic loop, compiled with its instructions.
macro_rules! entry_point {
    ($lanes:ident $(, $features:tt)?) => {
        /// # Safety
        ///
        /// As [`super::multiply`], with the tier's instructions.
        $(#[target_feature(enable = $features)])?
        pub(super) unsafe fn multiply(
            block: &[u64],
            probes: &[&[u64]; super::PROBES],
            out: &mut [[u32; super::ROWS]; super::PROBES],
        ) {
            // SAFETY: the caller's.
            unsafe { super::multiply::<$lanes>(block, probes, out) }
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

/// The number of rows in a block.
pub const ROWS: usize = 8;

/// The number of probes that are multiplied at a time.
pub const PROBES: usize = 4;

type Multiply = unsafe fn(&[u64], &[&[u64]; PROBES], &mut [[u32; ROWS]; PROBES]);

/// The product of one tier.
#[derive(Clone, Copy, Debug)]
pub struct Product {
    tier: Tier,
    multiply: Multiply,
}

impl Product {
    /// Returns the functions of the best tier.
    pub fn best() -> Self {
        Self::of(Tier::best())
    }

    /// Returns the functions of a tier; the scalar ones if the processor lacks it.
    pub fn of(tier: Tier) -> Self {
        let multiply: Multiply = match tier {
            #[cfg(target_arch = "x86_64")]
            Tier::Avx512 if tier.is_available() => avx512::multiply,
            #[cfg(target_arch = "x86_64")]
            Tier::Avx2 if tier.is_available() => avx2::multiply,
            #[cfg(target_arch = "aarch64")]
            Tier::Neon if tier.is_available() => neon::multiply,
            _ => scalar::multiply,
        };
        let tier = if tier.is_available() { tier } else { Tier::Scalar };
        Product { tier, multiply }
    }

    /// Returns the tier that runs.
    pub fn tier(&self) -> Tier {
        self.tier
    }

    /// Multiplies a block by some probes.
    ///
    /// # Panics
    ///
    /// Panics if the probes differ in length, or the block does not have [`ROWS`] words for each word of a probe.
    #[inline]
    pub fn multiply(
        &self,
        block: &[u64],
        probes: &[&[u64]; PROBES],
        out: &mut [[u32; ROWS]; PROBES],
    ) {
        assert!(probes.iter().all(|probe| ROWS * probe.len() == block.len()));
        // SAFETY: the tier is available, and lengths agree.
        unsafe { (self.multiply)(block, probes, out) }
    }
}

/// The same word of all rows of a block, and a sum for each row.
///
/// # Safety
///
/// The methods may only be called where the tier's instructions are available; pointers are to [`ROWS`]
/// elements.
#[allow(clippy::missing_safety_doc)]
trait Lanes: Copy {
    type Sums: Copy;
    unsafe fn load(from: *const u64) -> Self;
    unsafe fn zero() -> Self::Sums;
    /// Adds the number of bits that each word shares with the probe's.
    unsafe fn add(self, probe: u64, sums: Self::Sums) -> Self::Sums;
    unsafe fn store(sums: Self::Sums, to: &mut [u32; ROWS]);
}

/// # Safety
///
/// The tier's instructions are available; all probes have as many words as each row of the block.
#[inline(always)]
unsafe fn multiply<L: Lanes>(
    block: &[u64],
    probes: &[&[u64]; PROBES],
    out: &mut [[u32; ROWS]; PROBES],
) {
    // SAFETY: the caller's; words are counted.
    unsafe {
        let mut sums = [L::zero(); PROBES];
        for word in 0..probes[0].len() {
            let rows = L::load(block.as_ptr().add(ROWS * word));
            for (probe, sums) in probes.iter().zip(&mut sums) {
                *sums = rows.add(*probe.get_unchecked(word), *sums);
            }
        }
        for (sums, out) in sums.into_iter().zip(out) {
            L::store(sums, out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_tier_counts_the_bits(
            words in 0..40usize,
            dense in any::<bool>(),
            seed in prop::collection::vec(any::<u64>(), 12 * 40),
        ) {
            let bit = |at: usize| if dense { seed[at] | seed[at / 2] } else { seed[at] & seed[at / 3] };
            let block: Vec<u64> = (0..ROWS * words).map(bit).collect();
            let rows: Vec<Vec<u64>> =
                (0..PROBES).map(|p| (0..words).map(|w| bit(8 * words + p * words + w)).collect()).collect();
            let probes: [&[u64]; PROBES] = std::array::from_fn(|p| rows[p].as_slice());
            for tier in Tier::available() {
                let mut out = [[7; ROWS]; PROBES];
                let product = Product::of(tier);
                prop_assert_eq!(product.tier(), tier);
                product.multiply(&block, &probes, &mut out);
                for (probe, out) in rows.iter().zip(&out) {
                    for (row, &found) in out.iter().enumerate() {
                        let expected: u32 =
                            (0..words).map(|w| (probe[w] & block[ROWS * w + row]).count_ones()).sum();
                        prop_assert_eq!(found, expected, "{} {}", tier, row);
                    }
                }
            }
        }
    }

    #[test]
    fn full_rows_of_many_words_do_not_overflow() {
        let words = 70_000;
        let (block, row) = (vec![u64::MAX; ROWS * words], vec![u64::MAX; words]);
        for tier in Tier::available() {
            let mut out = [[0; ROWS]; PROBES];
            Product::of(tier).multiply(&block, &[&row; PROBES], &mut out);
            assert_eq!(out, [[64 * words as u32; ROWS]; PROBES], "{tier}");
        }
    }
}
