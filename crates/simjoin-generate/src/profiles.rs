//! How are the collections of the literature imitated?
//!
//! Most of them are not available. A [`Profile`] holds the figures of the papers' tables: the number of sets,
//! their average size, and the number of different tokens. Tokens follow Zipf's law, and sizes are skewed, if
//! the papers say so. If candidates dominate the time, a join of such a collection takes about as long as one
//! of the real collection. It has hardly any near-duplicates, so its results are fewer.

use crate::sizes::SizeLaw;
use crate::synthetic::{Synthetic, Tokens};

/// A collection of the literature.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Profile {
    /// The name used on the command line.
    pub name: &'static str,
    /// A description of its contents.
    pub about: &'static str,
    /// The number of sets.
    pub sets: u64,
    /// The average number of tokens of a set, rounded.
    pub size: u64,
    /// The number of different tokens.
    pub universe: u64,
    /// The distribution of sizes.
    pub sizes: SizeLaw,
}

/// Every profile.
pub const PROFILES: [Profile; 32] = {
    use SizeLaw::{Geometric, Poisson};
    const fn profile(
        name: &'static str,
        (sets, size, universe): (u64, u64, u64),
        sizes: SizeLaw,
        about: &'static str,
    ) -> Profile {
        Profile { name, about, sets, size, universe, sizes }
    }
    [
        profile("aol", (10_000_000, 3, 3_900_000), Geometric, "queries of a search engine"),
        profile("bms", (510_000, 7, 1_657), Geometric, "purchases in a shop"),
        profile("dblp-100k", (100_000, 88, 7_205), Poisson, "2-grams of publications"),
        profile("dblp-200k", (200_000, 88, 8_817), Poisson, "2-grams of publications"),
        profile("dblp-300k", (300_000, 88, 10_000), Poisson, "2-grams of publications"),
        profile("dblp-1m", (1_000_000, 88, 15_000), Poisson, "2-grams of publications"),
        // No table has its universe: that of its parts grows with the cube root of their sets.
        profile("dblp", (6_100_000, 88, 27_000), Poisson, "2-grams of publications"),
        profile("enron", (250_000, 135, 1_100_000), Geometric, "words of e-mails"),
        profile("kosarak", (1_000_000, 8, 41_000), Geometric, "clicks on a news site"),
        profile("lvj", (3_100_000, 37, 7_500_000), Geometric, "interests of users"),
        profile("orkut", (2_700_000, 120, 8_700_000), Geometric, "groups of users"),
        profile("twitter", (1_600_000, 75, 37_000), Poisson, "words of tweets"),
        profile("bms-25", (13_000_000, 7, 1_681), Geometric, "bms, 25 times the sets"),
        profile("enron-25", (6_100_000, 135, 1_100_000), Geometric, "enron, 25 times the sets"),
        profile("lvj-5", (15_000_000, 37, 7_500_000), Geometric, "lvj, five times the sets"),
        profile("bms-10k", (10_000, 35, 1_657), Poisson, "the largest sets of bms"),
        profile("bms-50k", (50_000, 22, 1_657), Poisson, "the largest sets of bms"),
        profile("bms-100k", (100_000, 17, 1_657), Poisson, "the largest sets of bms"),
        profile("enron-10k", (10_000, 794, 1_100_000), Poisson, "the largest sets of enron"),
        profile("enron-50k", (50_000, 374, 1_100_000), Poisson, "the largest sets of enron"),
        profile("enron-100k", (100_000, 258, 1_100_000), Poisson, "the largest sets of enron"),
        profile("orkut-10k", (10_000, 1_001, 8_700_000), Poisson, "the largest sets of orkut"),
        profile("orkut-50k", (50_000, 984, 8_700_000), Poisson, "the largest sets of orkut"),
        profile("orkut-100k", (100_000, 905, 8_700_000), Poisson, "the largest sets of orkut"),
        profile("twitter-10k", (10_000, 150, 37_000), Poisson, "the largest sets of twitter"),
        profile("twitter-50k", (50_000, 142, 37_000), Poisson, "the largest sets of twitter"),
        profile("twitter-100k", (100_000, 140, 37_000), Poisson, "the largest sets of twitter"),
        profile("words-10k", (10_000, 3_494, 11_000), Poisson, "the largest bags of words"),
        profile("words-50k", (50_000, 2_396, 11_000), Poisson, "the largest bags of words"),
        profile("words-100k", (100_000, 2_021, 11_000), Poisson, "the largest bags of words"),
        profile("dblp-q3", (16_000_000, 73, 32_513), Poisson, "3-grams of titles of publications"),
        profile("imdb-q3", (16_000_000, 20, 37_623), Poisson, "3-grams of titles of films"),
    ]
};

impl Profile {
    /// Returns the profile with a name.
    pub fn named(name: &str) -> Option<Profile> {
        PROFILES.into_iter().find(|profile| profile.name == name)
    }

    /// Returns a synthetic collection of `sets` sets with this profile.
    pub fn synthetic(&self, sets: u64, seed: u64) -> Synthetic {
        let tokens = Tokens::Zipf(1.0);
        Synthetic {
            sets,
            universe: self.universe,
            size: self.size,
            sizes: self.sizes,
            tokens,
            seed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    #[test]
    fn every_profile_has_its_average_size() {
        for profile in PROFILES {
            assert_eq!(Profile::named(profile.name), Some(profile));
            let synthetic = profile.synthetic(400, 1);
            let (mut sets, mut tokens) = (0u64, 0u64);
            let receiver = |set: &[u32]| {
                sets += 1;
                tokens += set.len() as u64;
                Ok(())
            };
            synthetic.draw(&AtomicU64::new(0), receiver).unwrap();
            let (average, expected) = (tokens as f64 / sets as f64, profile.size as f64);
            // If sizes are skewed, a standard error is a twentieth of the average.
            assert!((average / expected - 1.0).abs() < 0.25, "{}: {average}", profile.name);
        }
        assert_eq!(Profile::named("nothing"), None);
    }
}
