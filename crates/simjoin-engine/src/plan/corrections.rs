//! How far off are the estimates on this machine?
//!
//! A technique's cost function knows what a tile takes on the machine that it was fitted on. The seconds that it takes
//! here, divided by those estimated, are remembered for each technique, apart for joins of each length: in short joins
//! the start counts, in long ones the memory. Many joins are averaged, since the last one says as little of the next as
//! any other. Only the division between CPU and device uses corrections; the choice among the techniques of one
//! processor does not, so that it stays the same.

use super::Tuning;
use std::collections::BTreeMap;

/// Joins of which fewer seconds were expected say little.
const LEAST: f64 = 1e-3;

/// How large a difference is believed. A run may be slow by accident, because kernels had to be compiled
/// first or the machine was busy; it is never fast by accident.
const FASTER: f64 = 3.0;
const SLOWER: f64 = 2.0;

/// Joins that count at most: what they say may change with the machine.
const MANY: u32 = 30;

/// The largest ratio that is believed; its inverse is the smallest.
const MOST: f64 = 20.0;

/// Seconds taken divided by seconds estimated, and how often that was seen.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Seen {
    ratio: f64,
    times: u32,
}

/// Seconds taken divided by seconds estimated, by technique and length of joins.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Corrections {
    seen: BTreeMap<String, BTreeMap<i32, Seen>>,
}

/// Returns the length class of a join: one more for about three times as many seconds.
fn length(seconds: f64) -> i32 {
    (2.0 * seconds.clamp(LEAST, 1e6).log10()).floor() as i32
}

impl Corrections {
    /// Returns the factor for an estimate: that of joins of this length, or of the nearest length that was seen.
    pub(crate) fn of(&self, technique: &str, estimated: f64) -> f64 {
        let Some(all) = self.seen.get(technique) else { return 1.0 };
        let length = length(estimated);
        let both = [all.range(..=length).next_back(), all.range(length..).next()];
        let nearest = both.into_iter().flatten().min_by_key(|(at, _)| at.abs_diff(length));
        nearest.map_or(1.0, |(_, seen)| seen.ratio)
    }

    /// Remembers what a technique took, alone or while the other processor worked. How much that slowed it down is not
    /// known well, so it counts only until the technique was seen alone. Returns whether a factor changed noticeably.
    pub(crate) fn learn(
        &mut self,
        technique: &str,
        shared: bool,
        estimated: f64,
        taken: f64,
    ) -> bool {
        let old = self.of(technique, estimated);
        let expected = estimated * old * if shared { Tuning::FRICTION } else { 1.0 };
        // Judged by what was expected: of the short ones, those that were slow by accident would remain.
        if expected < LEAST {
            return false;
        }
        let of_technique = self.seen.entry(technique.to_string()).or_default();
        let new = Seen { ratio: old, times: 0 };
        let seen = of_technique.entry(length(estimated)).or_insert(new);
        if shared && seen.times > 0 {
            return false;
        }
        let change = (taken / expected).clamp(1.0 / FASTER, SLOWER);
        // The first expectation counts as one join. Ratios are averaged as such: half and double make one.
        let ratio = old * change.powf(1.0 / f64::from(seen.times + 2));
        let times = if shared { 0 } else { (seen.times + 1).min(MANY) };
        *seen = Seen { ratio: ratio.clamp(1.0 / MOST, MOST), times };
        !(0.98..=1.02).contains(&(seen.ratio / old))
    }

    /// Returns all that is known: technique, length class, ratio, and how often it was seen.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, i32, f64, u32)> {
        self.seen.iter().flat_map(|(technique, all)| {
            all.iter().map(|(&length, seen)| (technique.as_str(), length, seen.ratio, seen.times))
        })
    }

    /// Adds what was known before, unless it is beyond belief.
    pub(crate) fn set(&mut self, technique: &str, length: i32, ratio: f64, times: u32) {
        if (1.0 / MOST..=MOST).contains(&ratio) {
            let of_technique = self.seen.entry(technique.to_string()).or_default();
            of_technique.insert(length, Seen { ratio, times: times.min(MANY) });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(found: f64, expected: f64) -> bool {
        (found / expected - 1.0).abs() < 1e-2
    }

    #[test]
    fn ratios_are_averaged() {
        let mut corrections = Corrections::default();
        assert_eq!(corrections.of("bitmap", 0.1), 1.0);
        assert!(corrections.learn("bitmap", false, 0.1, 0.05));
        assert!(near(corrections.of("bitmap", 0.1), 0.5f64.sqrt()));
        assert_eq!(corrections.of("ppjoin", 0.1), 1.0);
        for _ in 0..3000 {
            corrections.learn("bitmap", false, 0.1, 0.05);
            corrections.learn("bitmap", false, 0.1, 0.2);
        }
        let found = corrections.of("bitmap", 0.1);
        assert!((0.95..1.05).contains(&found), "{found}");
        assert!(!corrections.learn("bitmap", false, 0.1, 0.1));
        // A shared join counts where nothing else was seen.
        assert!(!corrections.learn("bitmap", true, 0.1, 1.0));
        assert!(corrections.learn("ppjoin", true, 0.1, 0.05 * Tuning::FRICTION));
        assert!(near(corrections.of("ppjoin", 0.1), 0.5f64.sqrt()));
        // One that took a thousand times as long is hardly believed.
        corrections.learn("bitmap", false, 0.1, 100.0);
        assert!(corrections.of("bitmap", 0.1) < 1.03 * found);
    }

    #[test]
    fn ratios_beyond_belief_are_bounded_or_ignored() {
        let mut corrections = Corrections::default();
        // Too short to tell.
        assert!(!corrections.learn("bitmap", false, 1e-4, 1e-2));
        for _ in 0..300 {
            corrections.learn("ppjoin", false, 1e-2, 1e3);
        }
        assert_eq!(corrections.of("ppjoin", 1e-2), MOST);
        corrections.set("ppjoin", length(1e-2), f64::NAN, 1);
        // A file may hold any number.
        corrections.set("all-pairs", i32::MIN, 2.0, u32::MAX);
        assert_eq!(corrections.of("all-pairs", 9e5), 2.0);
        corrections.learn("all-pairs", false, 9e5, 9e5);
        assert_eq!(corrections.of("ppjoin", 1e-2), MOST);
    }

    #[test]
    fn short_joins_say_little_of_long_ones() {
        let mut corrections = Corrections::default();
        let learn = |corrections: &mut Corrections, estimated: f64, ratio: f64| {
            for _ in 0..300 {
                corrections.learn("bitmap", false, estimated, estimated * ratio);
            }
        };
        learn(&mut corrections, 2e-3, 0.5);
        // As long as nothing else is known they do.
        assert!(near(corrections.of("bitmap", 1.0), 0.5));
        learn(&mut corrections, 0.2, 2.0);
        for (estimated, ratio) in [(1e-5, 0.5), (2e-3, 0.5), (5e-3, 0.5), (0.1, 2.0), (9.0, 2.0)] {
            let found = corrections.of("bitmap", estimated);
            assert!(near(found, ratio), "{estimated}: {found}");
        }
    }
}
