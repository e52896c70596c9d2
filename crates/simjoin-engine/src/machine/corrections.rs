//! How far off are the estimates on this machine?
//!
//! A technique's cost function was fitted on another machine. The measured seconds of each technique on this machine,
//! divided by the estimate, are recorded separately for short and long joins: start-up dominates short ones, memory
//! long ones. Many joins are averaged, because the last one predicts the next one no better than any other. Only the
//! comparison of CPU and devices uses corrections; the choice among the techniques of one processor does not, so that it
//! stays the same.

use crate::tuning::Tuning;
use std::collections::BTreeMap;

/// Joins with a shorter estimate than this many seconds are ignored.
const LEAST: f64 = 1e-3;

/// The largest change that one run may make. A run may be slow by accident, because kernels had to be compiled
/// first or the machine was busy; it is never fast by accident.
const FASTER: f64 = 3.0;
const SLOWER: f64 = 2.0;

/// The number of joins after which old ones fade, since the machine may change.
const MANY: u32 = 30;

/// The largest ratio accepted; its inverse is the smallest.
const MOST: f64 = 20.0;

/// Seconds taken divided by seconds estimated, and the number of joins behind the ratio.
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

    /// Records the time of a technique that ran alone or while the other processor worked. The slowdown by the other
    /// processor is not known well, so a shared run counts only until the technique has run alone. Returns whether a
    /// factor changed noticeably.
    pub(crate) fn learn(
        &mut self,
        technique: &str,
        shared: bool,
        estimated: f64,
        taken: f64,
    ) -> bool {
        let old = self.of(technique, estimated);
        let expected = estimated * old * if shared { Tuning::FRICTION } else { 1.0 };
        // Short joins are told by their estimate: by their time, only those that were slow by accident would remain.
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

    /// Adds corrections that were known before, except implausible ones.
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
        // A shared join counts if nothing else was recorded.
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
