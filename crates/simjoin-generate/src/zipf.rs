//! How are tokens drawn by Zipf's law, no token twice in a set?
//!
//! The token of rank k has the weight 1/k^s. A token that the set already has is drawn again, which
//! is the same as drawing from the tokens that remain, by their weights. When almost all the weight
//! is drawn, drawing again would take forever: after [`REDRAWS`] in a row the rest of the set is
//! drawn from a tree of the [`Remaining`] weights, where a draw never fails.
//!
//! # The weights
//!
//! k^s is made of multiplications for the whole part of s, and of square roots for its fraction:
//! k^(1/2), k^(1/4), … are the roots of roots, and those whose binary digit is set are multiplied.
//! 32 digits are used, so s is exact to 2⁻³². See the crate's documentation for why there is
//! no `powf`. The weights are then rounded to integers whose sum is known. No token has the weight
//! 0, so that a set can hold all of them.
//!
//! # Memory
//!
//! 8 bytes per token (16 while the table is built), and 8 more once sets are so large that the tree
//! is needed. Universes of over [`LARGE`] tokens get no table: see `inversion.rs`.

use crate::alias::{Alias, BUCKET};
use crate::inversion::Inversion;
use crate::random::Random;
use crate::remaining::Remaining;
use crate::reserve;
use crate::synthetic::Drawn;
use simjoin_core::Result;

/// The draws from the table that take about as long as one draw from the tree.
const REDRAWS: u32 = 32;

/// The largest universe with a table.
const LARGE: u32 = 1 << 26;

/// Without a table the tree is the last resort: it may be larger than the memory.
const LARGE_REDRAWS: u32 = 10_000;

/// The largest exponent. With a larger one, nearly every draw is the first token.
pub(crate) const MAX_EXPONENT: f64 = 10.0;

/// Draws tokens by Zipf's law.
pub(crate) struct Zipf {
    universe: u32,
    exponent: f64,
    law: Law,
    tree: Option<Remaining>,
}

/// The source of a token.
enum Law {
    Table(Alias),
    Inversion(Inversion),
}

impl Zipf {
    /// Prepares for `universe` tokens, at least one.
    pub(crate) fn new(universe: u32, exponent: f64) -> Result<Self> {
        let law = if universe > LARGE {
            Law::Inversion(Inversion::new(universe, exponent))
        } else {
            Law::Table(Alias::new(shares(universe, exponent)?)?)
        };
        Ok(Zipf { universe, exponent, law, tree: None })
    }

    /// Draws tokens until the set has `size`, which is at most the universe.
    pub(crate) fn draw(&mut self, size: u32, random: &mut Random, set: &mut Drawn) -> Result<()> {
        let mut redraws = 0;
        let most = if matches!(self.law, Law::Table(_)) { REDRAWS } else { LARGE_REDRAWS };
        while set.len() < size {
            let token = match &self.law {
                Law::Table(alias) => alias.draw(random),
                Law::Inversion(inversion) => inversion.draw(random),
            };
            if set.insert(token) {
                redraws = 0;
                continue;
            }
            redraws += 1;
            if redraws == most {
                return self.draw_rest(size, random, set);
            }
        }
        Ok(())
    }

    fn draw_rest(&mut self, size: u32, random: &mut Random, set: &mut Drawn) -> Result<()> {
        let tree = match &mut self.tree {
            Some(tree) => tree,
            none => none.insert(Remaining::new(shares(self.universe, self.exponent)?)),
        };
        set.tokens().iter().for_each(|&token| tree.take(token));
        while set.len() < size {
            let token = tree.find(random.below(tree.total()));
            tree.take(token);
            set.insert(token);
        }
        tree.put_back();
        Ok(())
    }
}

/// Returns the weights of all tokens by rank, as shares of [`BUCKET`] times their number.
fn shares(universe: u32, exponent: f64) -> Result<Vec<u64>> {
    let whole = exponent as u32;
    let fraction = ((exponent - f64::from(whole)) * BUCKET as f64) as u32;
    let mut weights: Vec<f64> = reserve(universe as usize)?;
    weights.extend((1..=universe).map(|rank| weight(rank, whole, fraction)));
    let volume = u64::from(universe) * BUCKET;
    let scale = volume as f64 / sum(&weights);
    // The shares replace the weights in the same memory.
    let mut shares: Vec<u64> =
        weights.into_iter().map(|weight| ((weight * scale) as u64).max(1)).collect();
    // The remainder of the rounding goes to the heaviest token.
    let rest: u128 = shares.iter().skip(1).copied().map(u128::from).sum();
    if let Some(first) = shares.first_mut() {
        *first = u128::from(volume).saturating_sub(rest).max(1) as u64;
    }
    Ok(shares)
}

/// Returns 1/rank^(whole + fraction/2³²).
fn weight(rank: u32, whole: u32, fraction: u32) -> f64 {
    let rank = f64::from(rank);
    let mut power = 1.0;
    for _ in 0..whole {
        power *= rank;
    }
    let (mut root, mut digits) = (rank, fraction);
    while digits != 0 {
        root = root.sqrt();
        if digits >> 31 == 1 {
            power *= root;
        }
        digits <<= 1;
    }
    1.0 / power
}

/// Returns the sum with compensation of the rounding errors (Neumaier 1974), so that it is right to
/// the last digits for billions of weights.
fn sum(weights: &[f64]) -> f64 {
    let (mut sum, mut lost) = (0.0f64, 0.0);
    for &weight in weights {
        let next = sum + weight;
        lost += if sum >= weight { (sum - next) + weight } else { (weight - next) + sum };
        sum = next;
    }
    sum + lost
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_powers() {
        for exponent in [0.0, 0.5, 0.7, 1.0, 1.25, 2.0, 3.999, 10.0] {
            let whole = exponent as u32;
            let fraction = ((exponent - f64::from(whole)) * BUCKET as f64) as u32;
            for rank in [1, 2, 3, 10, 12_345, u32::MAX] {
                let expected = f64::from(rank).powf(-exponent);
                let got = weight(rank, whole, fraction);
                assert!((got / expected - 1.0).abs() < 1e-8, "{rank}^-{exponent}: {got}");
            }
        }
    }

    #[test]
    fn shares_add_up_and_fall_and_are_never_zero() {
        for exponent in [0.0, 0.8, 1.0, 10.0] {
            for universe in [1u32, 2, 7, 1000, 300_000] {
                let shares = shares(universe, exponent).unwrap();
                assert_eq!(shares.iter().sum::<u64>(), u64::from(universe) * BUCKET);
                assert!(shares.windows(2).all(|pair| pair[0] >= pair[1]), "{exponent} {universe}");
                assert!(shares.iter().all(|&share| share > 0), "{exponent} {universe}");
            }
        }
    }

    /// Counts how often each set of two out of three tokens is drawn, and compares with the
    /// chances: p(a)·p(b)/(1-p(a)) + p(b)·p(a)/(1-p(b)).
    #[test]
    fn redrawing_and_the_tree_draw_from_what_remains() {
        let p = [6.0 / 11.0, 3.0 / 11.0, 2.0 / 11.0];
        let mut zipf = Zipf::new(3, 1.0).unwrap();
        for tree in [false, true] {
            let mut random = Random::new(5);
            let mut set = Drawn::new(3).unwrap();
            let mut counts = [0.0f64; 3];
            for _ in 0..100_000 {
                if tree {
                    zipf.draw_rest(2, &mut random, &mut set).unwrap();
                } else {
                    zipf.draw(2, &mut random, &mut set).unwrap();
                }
                // The token that is missing names the set.
                counts[3 - set.tokens().iter().sum::<u32>() as usize] += 1.0;
                set.clear();
            }
            for (missing, a, b) in [(0, 1, 2), (1, 0, 2), (2, 0, 1)] {
                let chance = p[a] * p[b] / (1.0 - p[a]) + p[b] * p[a] / (1.0 - p[b]);
                let share = counts[missing] / 100_000.0;
                assert!((share - chance).abs() < 0.006, "{tree} {missing}: {share} {chance}");
            }
        }
    }

    #[test]
    fn set_can_hold_every_token_under_the_steepest_law() {
        let mut zipf = Zipf::new(5000, MAX_EXPONENT).unwrap();
        let mut set = Drawn::new(5000).unwrap();
        let mut random = Random::new(1);
        for _ in 0..3 {
            zipf.draw(5000, &mut random, &mut set).unwrap();
            assert_eq!(set.len(), 5000);
            set.clear();
        }
        // The tree is restored.
        let tree = zipf.tree.unwrap();
        assert_eq!(tree.total(), 5000 * BUCKET);
    }
}
