//! How are random numbers drawn?
//!
//! The generator is xoshiro256++ by Blackman and Vigna. The functions that turn its numbers into choices
//! are in this file and not from a library: libraries change them from release to release, and a seed
//! would then give another collection.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// A stream of random numbers.
pub(crate) struct Random(Xoshiro256PlusPlus);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Random(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// Returns 64 random bits.
    #[inline]
    pub(crate) fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Returns a number below `end`, each with exactly the same probability; 0 if `end` is 0. (Lemire,
    /// Fast random integer generation in an interval, 2019.)
    #[inline]
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        let mut product = u128::from(self.bits()) * u128::from(end);
        if (product as u64) < end {
            let uneven = end.wrapping_neg() % end;
            while (product as u64) < uneven {
                product = u128::from(self.bits()) * u128::from(end);
            }
        }
        (product >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The stream is the published one. A change here changes every generated collection.
    #[test]
    fn stream_is_that_of_xoshiro() {
        // The reference program's first numbers from the state that SplitMix64 makes of 0.
        let mut random = Random::new(0);
        let first = [random.bits(), random.bits(), random.bits()];
        assert_eq!(first, [0x53175d61490b23df, 0x61da6f3dc380d507, 0x5c0fdf91ec9a7bfc]);
    }

    #[test]
    fn numbers_below_an_end_are_uniform() {
        let mut random = Random::new(1);
        assert_eq!((random.below(1), random.below(0)), (0, 0));
        let mut counts = [0u32; 7];
        for _ in 0..70_000 {
            counts[random.below(7) as usize] += 1;
        }
        assert!(counts.iter().all(|count| (9_600..10_400).contains(count)), "{counts:?}");
        // An end for which a third of the bits must be thrown away.
        let end = (1 << 63) + (1 << 62);
        let low = (0..30_000).filter(|_| random.below(end) < end / 3).count();
        assert!((9_700..10_300).contains(&low), "{low}");
    }
}
