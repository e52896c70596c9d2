//! How is one of many weighted things drawn in one step?
//!
//! An alias table (Walker 1977, Vose 1991) has one bucket for each thing, and all buckets have the same
//! volume. A bucket holds a part of its own thing; a part of one other thing fills the rest. A draw picks
//! a bucket, and then one of the two things.
//!
//! # Memory
//!
//! The table takes 8 bytes per thing, and 8 more while it is built.

use crate::random::Random;
use crate::reserve;
use simjoin_core::Result;

/// The volume of a bucket.
pub(crate) const BUCKET: u64 = 1 << 32;

/// A table to draw from.
pub(crate) struct Alias(Vec<Bucket>);

#[derive(Clone, Copy)]
struct Bucket {
    /// The volume of the bucket's own thing.
    own: u32,
    /// The thing that fills the rest.
    other: u32,
}

impl Alias {
    /// Makes a table of things with these shares, which add up to [`BUCKET`] times their number.
    /// There is at least one thing, and at most `u32::MAX`.
    pub(crate) fn new(mut shares: Vec<u64>) -> Result<Self> {
        let mut buckets = reserve(shares.len())?;
        // By default a bucket holds only its own thing.
        buckets.extend((0..shares.len() as u32).map(|thing| Bucket { own: 0, other: thing }));
        let next_heavy = |shares: &[u64], from: usize| {
            (from..shares.len()).find(|&thing| shares[thing] > BUCKET).unwrap_or(shares.len())
        };
        let mut heavy = next_heavy(&shares, 0);
        for at in 0..shares.len() {
            let mut light = at;
            while shares[light] < BUCKET && heavy < shares.len() {
                buckets[light] = Bucket { own: shares[light] as u32, other: heavy as u32 };
                shares[heavy] -= BUCKET - shares[light];
                if shares[heavy] > BUCKET {
                    break;
                }
                // A heavy thing has become light. It is processed now if its position has already been passed.
                let passed = heavy;
                heavy = next_heavy(&shares, heavy + 1);
                if passed > at {
                    break;
                }
                light = passed;
            }
        }
        Ok(Alias(buckets))
    }

    /// Draws a thing.
    #[inline]
    pub(crate) fn draw(&self, random: &mut Random) -> u32 {
        // The product's upper half picks the bucket, its lower half the place in it.
        let product = u128::from(random.bits()) * self.0.len() as u128;
        let (thing, place) = ((product >> 64) as usize, (product as u64 >> 32) as u32);
        let bucket = self.0[thing];
        if place < bucket.own { thing as u32 } else { bucket.other }
    }

    /// Returns the volume that each thing has in all buckets.
    #[cfg(test)]
    pub(crate) fn volumes(&self) -> Vec<u64> {
        let mut volumes = vec![0; self.0.len()];
        for (thing, bucket) in self.0.iter().enumerate() {
            volumes[thing] += u64::from(bucket.own);
            volumes[bucket.other as usize] += BUCKET - u64::from(bucket.own);
        }
        volumes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn one_thing_is_always_drawn() {
        let alias = Alias::new(vec![BUCKET]).unwrap();
        assert_eq!(alias.draw(&mut Random::new(1)), 0);
    }

    proptest! {
        /// The buckets hold exactly the requested shares.
        #[test]
        fn buckets_hold_the_shares_exactly(
            cuts in prop::collection::vec(0u64..=1_000_000, 0..40),
        ) {
            let count = cuts.len() as u64 + 1;
            let mut cuts: Vec<u64> =
                cuts.iter().map(|cut| count * BUCKET / 1_000_000 * cut).collect();
            cuts.extend([0, count * BUCKET]);
            cuts.sort_unstable();
            let shares: Vec<u64> = cuts.windows(2).map(|pair| pair[1] - pair[0]).collect();
            prop_assert_eq!(Alias::new(shares.clone()).unwrap().volumes(), shares);
        }
    }
}
