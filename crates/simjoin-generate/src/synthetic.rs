//! How is a synthetic collection made?
//!
//! For each set, a size is drawn ([`Sizes`]), then that number of different tokens, which are written in
//! rising order. Tokens are the numbers from 1 to the universe. Under Zipf's law token 1 is the most
//! frequent, token 2 the second, and so on.
//!
//! Uniform sets are drawn by Floyd's algorithm (Bentley and Floyd, 1987), which takes one draw per
//! token, even if the set is nearly the universe; for Zipf's law see `zipf.rs`, for the normal
//! one `normal.rs`.
//!
//! # Memory
//!
//! One bit per token of the universe (is it in the current set?), the current set, and the memory of
//! `zipf.rs`.

use crate::normal;
use crate::output::Lines;
use crate::random::Random;
use crate::reserve;
use crate::sizes::{SizeLaw, Sizes};
use crate::zipf::{MAX_EXPONENT, Zipf};
use simjoin_core::{Error, Result};
use std::sync::atomic::{AtomicU64, Ordering};

/// A synthetic collection, as the literature describes one.
///
/// ```
/// use simjoin_generate::Synthetic;
///
/// let collection = Synthetic { sets: 3, universe: 100, size: 4, ..Synthetic::default() };
/// let mut text = Vec::new();
/// collection.write(&Default::default(), |lines| {
///     text.extend_from_slice(lines);
///     Ok(())
/// })?;
/// assert_eq!(text.iter().filter(|&&byte| byte == b'\n').count(), 3);
/// # Ok::<(), simjoin_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Synthetic {
    /// The number of sets.
    pub sets: u64,
    /// The number of different tokens, at most `u32::MAX`.
    pub universe: u64,
    /// The average number of tokens of a set.
    pub size: u64,
    /// The distribution of sizes around it.
    pub sizes: SizeLaw,
    /// The distribution of tokens.
    pub tokens: Tokens,
    /// The seed. Another seed gives another collection of the same kind.
    pub seed: u64,
}

/// The distribution of tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Tokens {
    /// All tokens have the same probability.
    #[default]
    Uniform,
    /// The k-th token has the weight 1/k^s, with this s from 0 to 10.
    Zipf(f64),
    /// Tokens are distributed around the middle of the universe, with this standard deviation. The average
    /// size of sets is at most four times that.
    Normal(u64),
}

impl Synthetic {
    /// Returns an error for impossible settings.
    pub fn check(&self) -> Result<()> {
        let wrong = |message: String| Err(Error::Config(message));
        for (what, number) in
            [("sets", self.sets), ("tokens in the universe", self.universe), ("tokens", self.size)]
        {
            if number == 0 {
                let whose = if what == "tokens" { "sets of an average of " } else { "" };
                return wrong(format!("{whose}0 {what} cannot be made; expected at least 1"));
            }
        }
        if self.universe > u64::from(u32::MAX) {
            return wrong(format!(
                "a universe of {} tokens is too large; at most {} are supported",
                self.universe,
                u32::MAX
            ));
        }
        if self.size > self.universe {
            return wrong(format!(
                "an average size of {} is above the universe of {} tokens; a set holds no token \
                 twice",
                self.size, self.universe
            ));
        }
        match self.tokens {
            Tokens::Normal(deviation) if deviation == 0 || deviation > self.universe => {
                wrong(format!(
                    "a deviation of {deviation} does not fit; expected a number from 1 to the universe \
                     of {} tokens",
                    self.universe
                ))
            }
            Tokens::Normal(deviation) if self.size > normal::MOST.saturating_mul(deviation) => {
                wrong(format!(
                    "an average size of {} does not fit a deviation of {deviation}; at most {} times \
                     the deviation is supported",
                    self.size,
                    normal::MOST
                ))
            }
            Tokens::Zipf(exponent) if !(0.0..=MAX_EXPONENT).contains(&exponent) => wrong(format!(
                "an exponent of {exponent} does not fit; expected a number from 0 to {MAX_EXPONENT}"
            )),
            _ => Ok(()),
        }
    }

    /// Passes the collection to `receiver`, in blocks of whole lines, and counts finished sets in
    /// `done`.
    pub fn write(
        &self,
        done: &AtomicU64,
        mut receiver: impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let mut lines = Lines::new(&mut receiver);
        let mut digits = itoa::Buffer::new();
        self.draw(done, |set| {
            for token in set {
                lines.token(digits.format(*token).as_bytes());
            }
            lines.end_tokens(false)
        })?;
        lines.flush()
    }

    /// Passes the collection to `receiver`, set by set, each ascending and without repeated tokens, and
    /// counts finished sets in `done`.
    pub fn draw(
        &self,
        done: &AtomicU64,
        mut receiver: impl FnMut(&[u32]) -> Result<()>,
    ) -> Result<()> {
        self.check()?;
        let (universe, size) = (self.universe as u32, self.size as u32);
        let sizes = Sizes::new(self.sizes, size, universe)?;
        let mut source = match self.tokens {
            Tokens::Uniform => Source::Uniform,
            Tokens::Zipf(exponent) => Source::Zipf(Box::new(Zipf::new(universe, exponent)?)),
            Tokens::Normal(deviation) => Source::Normal(deviation as u32),
        };
        let mut random = Random::new(self.seed);
        let mut set = Drawn::new(universe)?;
        for number in 1..=self.sets {
            let size = sizes.draw(&mut random);
            match &mut source {
                Source::Uniform => uniform(universe, size, &mut random, &mut set),
                Source::Zipf(zipf) => zipf.draw(size, &mut random, &mut set)?,
                Source::Normal(deviation) => {
                    normal::draw(universe, *deviation, size, &mut random, &mut set);
                }
            }
            receiver(set.named())?;
            set.clear();
            done.store(number, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// The source of tokens.
enum Source {
    Uniform,
    Zipf(Box<Zipf>),
    Normal(u32),
}

/// Draws a set by Floyd's algorithm: every set of this size has the same probability.
fn uniform(universe: u32, size: u32, random: &mut Random, set: &mut Drawn) {
    for last in universe - size..universe {
        let token = random.below(u64::from(last) + 1) as u32;
        if !set.insert(token) {
            set.insert(last);
        }
    }
}

/// The current set.
pub(crate) struct Drawn {
    tokens: Vec<u32>,
    /// One bit per token of the universe.
    bits: Vec<u64>,
    /// Whether `tokens` are already names.
    named: bool,
}

impl Drawn {
    /// Makes an empty set over a universe.
    pub(crate) fn new(universe: u32) -> Result<Self> {
        let words = (universe as usize).div_ceil(64);
        let mut bits = reserve(words)?;
        bits.resize(words, 0);
        Ok(Drawn { tokens: Vec::new(), bits, named: false })
    }

    /// Adds a token and returns whether it is new.
    #[inline]
    pub(crate) fn insert(&mut self, token: u32) -> bool {
        let (word, bit) = (token as usize / 64, 1 << (token % 64));
        let new = self.bits[word] & bit == 0;
        if new {
            self.bits[word] |= bit;
            self.tokens.push(token);
        }
        new
    }

    pub(crate) fn len(&self) -> u32 {
        self.tokens.len() as u32
    }

    pub(crate) fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// Returns the names of the tokens in rising order, until the next [`clear`](Self::clear). The
    /// first token is called 1, so a name never exceeds the universe.
    fn named(&mut self) -> &[u32] {
        self.tokens.iter_mut().for_each(|token| *token += 1);
        self.tokens.sort_unstable();
        self.named = true;
        &self.tokens
    }

    pub(crate) fn clear(&mut self) {
        let first = u32::from(std::mem::take(&mut self.named));
        for name in self.tokens.drain(..) {
            self.bits[(name - first) as usize / 64] = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(collection: Synthetic) -> String {
        let mut text = Vec::new();
        collection
            .write(&AtomicU64::new(0), |lines| {
                assert!(lines.ends_with(b"\n"));
                text.extend_from_slice(lines);
                Ok(())
            })
            .unwrap();
        String::from_utf8(text).unwrap()
    }

    fn sets(collection: Synthetic) -> Vec<Vec<u32>> {
        let text = text(collection);
        text.lines().map(|line| line.split(' ').map(|t| t.parse().unwrap()).collect()).collect()
    }

    fn make(sets: u64, universe: u64, size: u64, tokens: Tokens) -> Synthetic {
        Synthetic { sets, universe, size, sizes: SizeLaw::Poisson, tokens, seed: 1 }
    }

    /// FNV-1a.
    fn fingerprint(text: &str) -> u64 {
        text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
        })
    }

    /// The collection of a seed must never change.
    #[test]
    fn seed_determines_the_collection() {
        for (tokens, first, expected) in [
            (
                Tokens::Uniform,
                "483 500 672 923 1718 2615 2949 3726 3729 4601 4930",
                0x80b3_ee64_83b3_fa49,
            ),
            (Tokens::Zipf(1.0), "1 8 29 136 333 484 502 672 924 2618 3732", 0x3792_18a4_3107_738e),
            (
                Tokens::Zipf(0.7),
                "83 327 484 502 666 672 925 1718 2618 2953 3732",
                0x5b67_10b2_5974_ef6b,
            ),
            (Tokens::Zipf(6.5), "1 2 3 4 5 6 7 8 9 10 14", 0xefa7_06b4_07e2_97a1),
            (
                Tokens::Normal(600),
                "1790 2137 2159 2166 2348 2485 2596 2790 3042 3467 3571",
                0xb826_80ba_cce6_5383,
            ),
        ] {
            let text = text(make(20_000, 5_000, 10, tokens));
            let line = text.lines().next().unwrap();
            assert_eq!((line, fingerprint(&text)), (first, expected), "{tokens:?}");
        }
        let other = Synthetic { seed: 2, ..make(100, 5_000, 10, Tokens::Uniform) };
        assert_ne!(text(other), text(Synthetic { seed: 1, ..other }));
    }

    #[test]
    fn sets_are_of_different_tokens_in_range() {
        for tokens in [Tokens::Uniform, Tokens::Zipf(1.0), Tokens::Zipf(3.0), Tokens::Normal(0)] {
            for (universe, size) in [(1u64, 1), (2, 1), (2, 2), (7, 6), (50, 25), (50, 50), (9, 5)]
            {
                let tokens = match tokens {
                    Tokens::Normal(_) => Tokens::Normal(universe.div_ceil(4)),
                    other => other,
                };
                for set in sets(make(200, universe, size, tokens)) {
                    assert!(set.windows(2).all(|pair| pair[0] < pair[1]), "{set:?}");
                    assert!(set[0] >= 1 && u64::from(*set.last().unwrap()) <= universe, "{set:?}");
                }
            }
        }
    }

    #[test]
    fn sizes_vary_around_the_average() {
        for tokens in [Tokens::Uniform, Tokens::Zipf(1.0), Tokens::Normal(2_500)] {
            let sets = sets(make(50_000, 20_000, 10, tokens));
            let sizes: Vec<f64> = sets.iter().map(|set| set.len() as f64).collect();
            let mean = sizes.iter().sum::<f64>() / 50_000.0;
            let variance = sizes.iter().map(|size| (size - mean).powi(2)).sum::<f64>() / 50_000.0;
            assert!((mean - 10.0).abs() < 0.06, "{mean}");
            assert!((variance - 9.0).abs() < 0.3, "{variance}");
        }
    }

    #[test]
    fn tokens_follow_their_law() {
        let counts = |tokens, size| {
            let mut counts = vec![0.0; 1001];
            for set in sets(make(200_000 / size, 1000, size, tokens)) {
                set.iter().for_each(|&token| counts[token as usize] += 1.0);
            }
            counts
        };
        let uniform = counts(Tokens::Uniform, 10);
        assert!(uniform[1..].iter().all(|&count| (130.0..270.0).contains(&count)));
        // Sets of one token show the law itself.
        let harmonic: f64 = (1..=1000).map(|rank| 1.0 / f64::from(rank)).sum();
        let zipf = counts(Tokens::Zipf(1.0), 1);
        for rank in [1, 2, 3, 10, 30] {
            let expected = 200_000.0 / harmonic / rank as f64;
            let off = (zipf[rank] - expected).abs();
            assert!(off < 5.0 * expected.sqrt(), "{rank}: {} {expected}", zipf[rank]);
        }
        let tail: f64 = zipf[501..].iter().sum();
        let expected =
            200_000.0 * (501..=1000).map(|rank| 1.0 / f64::from(rank)).sum::<f64>() / harmonic;
        assert!((tail / expected - 1.0).abs() < 0.05, "{tail} {expected}");
        // Nine standard deviations of the mean of 200,000 tokens, and two parts of the law.
        let normal = counts(Tokens::Normal(100), 1);
        let mean: f64 =
            normal.iter().enumerate().map(|(token, count)| token as f64 * count / 2e5).sum();
        assert!((mean - 500.5).abs() < 2.0, "{mean}");
        let within = |from: usize, to: usize| normal[from..=to].iter().sum::<f64>() / 2e5;
        assert!((within(401, 600) - 0.6827).abs() < 0.006, "{}", within(401, 600));
        assert!((within(301, 700) - 0.9545).abs() < 0.004, "{}", within(301, 700));
        // In larger sets frequent tokens remain the frequent ones.
        let zipf = counts(Tokens::Zipf(1.0), 10);
        assert!(zipf[1] > zipf[2] && zipf[2] > zipf[4] && zipf[4] > zipf[16]);
    }

    #[test]
    fn impossible_settings_are_errors() {
        let good = make(1, 10, 10, Tokens::Zipf(1.0));
        good.check().unwrap();
        for (bad, part) in [
            (Synthetic { sets: 0, ..good }, "0 sets"),
            (Synthetic { universe: 0, ..good }, "0 tokens in the universe"),
            (Synthetic { size: 0, ..good }, "an average of 0 tokens"),
            (Synthetic { size: 11, ..good }, "above the universe of 10"),
            (Synthetic { universe: 1 << 32, ..good }, "at most 4294967295"),
            (Synthetic { tokens: Tokens::Zipf(-0.1), ..good }, "from 0 to 10"),
            (Synthetic { tokens: Tokens::Zipf(f64::NAN), ..good }, "from 0 to 10"),
            (Synthetic { tokens: Tokens::Normal(0), ..good }, "from 1 to the universe"),
            (Synthetic { tokens: Tokens::Normal(11), ..good }, "from 1 to the universe"),
            (Synthetic { tokens: Tokens::Normal(2), ..good }, "at most 4 times"),
        ] {
            let error = bad.write(&AtomicU64::new(0), |_| Ok(())).unwrap_err();
            assert!(matches!(&error, Error::Config(text) if text.contains(part)), "{error}");
        }
    }

    /// The universe is too large for a table.
    #[test]
    fn large_universes_need_no_table() {
        for tokens in [Tokens::Uniform, Tokens::Zipf(1.0), Tokens::Normal(12_500_000)] {
            let mut all = Vec::new();
            let wanted = make(2, 100_000_000, 20_000, tokens);
            wanted
                .draw(&AtomicU64::new(0), |set| {
                    assert!(set.windows(2).all(|pair| pair[0] < pair[1]));
                    assert!(set[0] >= 1 && set[set.len() - 1] <= 100_000_000);
                    all.push(set.to_vec());
                    Ok(())
                })
                .unwrap();
            assert!(all.iter().all(|set| (19_000..21_000).contains(&set.len())));
            assert_ne!(all[0], all[1]);
        }
    }

    #[test]
    fn error_of_the_receiver_stops_the_generation() {
        let collection = make(u64::MAX, 100, 10, Tokens::Uniform);
        let error = collection.write(&AtomicU64::new(0), |_| Err(Error::Interrupted)).unwrap_err();
        assert!(matches!(error, Error::Interrupted));
    }
}
