//! How large is the next set?
//!
//! By default one token is certain and every other one is in the set with the same probability: a size
//! is 1 plus a binomially distributed number out of `universe - 1`. So no set is empty, none is larger
//! than the universe, and the mean is exactly the given average. If the universe is much larger than the
//! sets, as usual, a size is 1 plus a Poisson number: for an average of 10, the standard deviation is 3.
//!
//! Skewed sizes are geometric: each further token is present with the same probability. So small sets
//! are the most frequent, and some sets are many times as large as the average.
//!
//! Probabilities are integers. The most likely number gets a fixed one, and rational factors give those
//! of its neighbours. The table ends at probabilities below 2⁻⁴² of the largest, so it has a few times
//! √average entries.

use crate::alias::{Alias, BUCKET};
use crate::random::Random;
use simjoin_core::Result;

/// The distribution of sizes around their average.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SizeLaw {
    /// A Poisson distribution.
    #[default]
    Poisson,
    /// A geometric distribution: smaller sizes are more frequent.
    Geometric,
}

/// A generator of sizes.
pub(crate) struct Sizes {
    smallest: u32,
    alias: Alias,
}

/// The probability of the most likely size during the computation, and the binary digits that are
/// dropped at its end.
const LARGEST: u128 = 1 << 62;
const DROPPED: u32 = 20;

impl Sizes {
    /// Makes a generator of sizes from 1 to `universe` with an average in that range.
    pub(crate) fn new(law: SizeLaw, average: u32, universe: u32) -> Result<Self> {
        let (smallest, chances) = match law {
            SizeLaw::Poisson => chances(average, universe),
            SizeLaw::Geometric => (1, geometric(average, universe)),
        };
        let total: u128 = chances.iter().copied().map(u128::from).sum();
        let volume = chances.len() as u128 * u128::from(BUCKET);
        let mut shares: Vec<u64> =
            chances.iter().map(|&chance| (u128::from(chance) * volume / total) as u64).collect();
        // The remainder of the rounding goes to the most likely size.
        let rest = volume as u64 - shares.iter().sum::<u64>();
        if let Some(share) = shares.iter_mut().max() {
            *share += rest;
        }
        Ok(Sizes { smallest, alias: Alias::new(shares)? })
    }

    /// Draws a size.
    #[inline]
    pub(crate) fn draw(&self, random: &mut Random) -> u32 {
        self.smallest + self.alias.draw(random)
    }
}

/// Returns the chances of the sizes from 1 on: each is the one before it times the chance of a
/// further token. The average is slightly below the requested one if the universe cuts off more
/// than rounding does.
fn geometric(average: u32, universe: u32) -> Vec<u64> {
    let mut chances = Vec::new();
    let mut chance = LARGEST;
    while chance >> DROPPED > 0 && chances.len() < universe as usize {
        chances.push((chance >> DROPPED) as u64);
        chance = chance * u128::from(average - 1) / u128::from(average);
    }
    chances
}

/// Returns the smallest size that occurs, and the chances of it and the following ones.
fn chances(average: u32, universe: u32) -> (u32, Vec<u64>) {
    if average == 1 || average == universe {
        return (average, vec![1]);
    }
    let others = u128::from(universe) - 1;
    // The odds of being in the set, for every other token.
    let (inside, outside) = (u128::from(average) - 1, u128::from(universe - average));
    let likely = (others + 1) * inside / others;
    let mut chances = Vec::new();
    let (mut number, mut chance) = (likely, LARGEST);
    while chance >> DROPPED > 0 {
        chances.push((chance >> DROPPED) as u64);
        if number == 0 {
            break;
        }
        chance = chance * (number * outside) / ((others - number + 1) * inside);
        number -= 1;
    }
    let smallest = likely + 2 - chances.len() as u128;
    chances.reverse();
    (number, chance) = (likely, LARGEST);
    while number < others {
        chance = chance * ((others - number) * inside) / ((number + 1) * outside);
        number += 1;
        if chance >> DROPPED == 0 {
            break;
        }
        chances.push((chance >> DROPPED) as u64);
    }
    (smallest as u32, chances)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the mean and the variance of the table that is drawn from.
    fn moments(law: SizeLaw, average: u32, universe: u32) -> (f64, f64) {
        let sizes = Sizes::new(law, average, universe).unwrap();
        let volumes = sizes.alias.volumes();
        let total = volumes.iter().map(|&volume| volume as f64).sum::<f64>();
        let mean = |of: &dyn Fn(f64) -> f64| {
            let sum = (u64::from(sizes.smallest)..).zip(&volumes);
            sum.map(|(size, &volume)| of(size as f64) * (volume as f64 / total)).sum::<f64>()
        };
        let average = mean(&|size| size);
        (average, mean(&|size| (size - average) * (size - average)))
    }

    #[test]
    fn sizes_have_the_binomial_mean_and_variance() {
        for (average, universe) in [
            (1, 1),
            (1, 10),
            (10, 10),
            (2, 3),
            (9, 10),
            (5, 50_000),
            (10, 500_000),
            (25, 500_000),
            (1000, 1_000_000_000),
            (999_999, 1_000_000),
            (2_000_000_000, u32::MAX),
            (u32::MAX - 1, u32::MAX),
        ] {
            let (mean, variance) = moments(SizeLaw::Poisson, average, universe);
            let chance = f64::from(average - 1) / f64::from((universe - 1).max(1));
            let expected = f64::from(average - 1) * (1.0 - chance);
            assert!((mean / f64::from(average) - 1.0).abs() < 1e-9, "{average} {universe}: {mean}");
            assert!(
                (variance - expected).abs() <= 1e-6 * expected.max(1.0),
                "{average} {universe}: {variance} {expected}"
            );
        }
    }

    #[test]
    fn skewed_sizes_have_the_mean_and_the_variance_of_geometric_ones() {
        for average in [1, 2, 7, 37, 135] {
            let (mean, variance) = moments(SizeLaw::Geometric, average, 1_000_000);
            let expected = f64::from(average) * f64::from(average - 1);
            assert!((mean / f64::from(average) - 1.0).abs() < 1e-6, "{average}: {mean}");
            assert!(
                (variance - expected).abs() <= 1e-4 * expected.max(1.0),
                "{average}: {variance}"
            );
        }
        assert_eq!(geometric(1000, 3).len(), 3);
    }

    #[test]
    fn every_size_is_in_range() {
        for universe in 1..40 {
            for average in 1..=universe {
                let (smallest, chances) = chances(average, universe);
                assert!(smallest >= 1 && smallest + chances.len() as u32 - 1 <= universe);
            }
        }
    }
}
