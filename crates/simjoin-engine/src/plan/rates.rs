//! How far off are the estimates on this machine?
//!
//! A technique's cost function knows what a tile takes on the machine that it was fitted on. What it
//! takes here, over what was estimated, is remembered for each technique, apart for joins of each length,
//! since in short ones it is the start that counts and in long ones the memory. It is the mean of many
//! joins: the last one says as little of the next as any other. Dividing work between CPU and device asks
//! for it; choosing among the techniques of one side does not, so that the choice stays the same.

use std::collections::BTreeMap;

/// What joins take of which less than this many seconds were expected says little.
const LEAST: f64 = 1e-3;

/// How large a difference is believed. A run may be slow by accident, because kernels had to be compiled
/// first or the machine was busy; it is never fast by accident.
const FASTER: f64 = 3.0;
const SLOWER: f64 = 2.0;

/// How many joins count at most: what they say may change with the machine.
const MANY: u32 = 30;

/// Seconds taken over seconds estimated, and how often that was seen.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Seen {
    ratio: f64,
    times: u32,
}

/// Seconds taken over seconds estimated, by technique and length of joins.
#[derive(Clone, Debug, PartialEq)]
pub struct Rates {
    seen: BTreeMap<String, BTreeMap<i32, Seen>>,
    /// How much longer both sides take while they work at once, at least.
    friction: f64,
    /// The same where the device compares signatures.
    bitmap_friction: f64,
    /// What the CPU loses while sets are sent to a device that joins by lists: so many seconds for each token.
    sending: f64,
    /// What dividing work must promise, over the better side alone.
    worthwhile: f64,
    /// Pairs to have looked at for that.
    enough: usize,
    /// Work is divided whatever that promises.
    always: bool,
}

impl Default for Rates {
    /// Estimates are right, and the sides are not in each other's way.
    fn default() -> Self {
        Rates {
            seen: BTreeMap::new(),
            friction: 1.0,
            bitmap_friction: 1.0,
            sending: 0.0,
            worthwhile: 0.95,
            enough: 400,
            always: false,
        }
    }
}

/// The length of a join of so many seconds: up by one where they are about three times as many.
fn scale(seconds: f64) -> i32 {
    (2.0 * seconds.clamp(LEAST, 1e6).log10()).floor() as i32
}

impl Rates {
    /// The largest ratio that is believed; its inverse is the smallest.
    pub const MOST: f64 = 20.0;

    /// Of sides that share memory and cores. An H200 beside 16 cores, 2026-11-17, 18 joins of 0.5 to 63 ms with
    /// lists on the device, at the shares that pay: the device takes 0.94 to 1.1 times what it takes alone. The
    /// CPU, half of whose threads rest while sets are sent, takes as much longer as that takes on a bus of 55 GB/s:
    /// 0.4 to 0.7 ms beside joins of 10 million tokens, 5 to 8 of 88 million, 12 of 176 million (2026-11-18).
    /// Signatures: 2026-11-16, 0.9 to 2.4 times.
    ///
    /// With few samples, what is verified is told by a handful of survivors: a join of 11.6 ms on an H200 that was
    /// estimated at 14.4, and two thirds of which it was given, took 16.4 beside 16 cores of which too much was expected
    /// (2026-11-18). So a join of which less was seen is not divided.
    pub fn of_neighbours() -> Self {
        let (friction, bitmap_friction, sending, enough) = (1.05, 1.15, 4.0 / 55e9, 800);
        Rates { friction, bitmap_friction, sending, enough, ..Rates::default() }
    }

    /// How much longer both sides take while they work at once, with that technique on one of them.
    pub fn friction(&self, technique: &str) -> f64 {
        match technique {
            "gpu-prefix" => self.friction,
            device if device.starts_with("gpu-") => self.bitmap_friction,
            _ => self.friction,
        }
    }

    /// Seconds that the CPU loses at first beside that technique, to which so many tokens are sent.
    pub fn lost_beside(&self, technique: &str, tokens: usize) -> f64 {
        if technique == "gpu-prefix" { self.sending * tokens as f64 } else { 0.0 }
    }

    /// What dividing work must promise, over the better side alone.
    pub fn worthwhile(&self) -> f64 {
        self.worthwhile
    }

    /// How many pairs to have looked at before work is divided.
    pub fn enough(&self) -> usize {
        self.enough
    }

    /// The same, but work is divided whatever that promises: for tests of what happens then.
    pub fn dividing_always(self) -> Self {
        Rates { worthwhile: f64::INFINITY, enough: 0, always: true, ..self }
    }

    /// Whether work is divided whatever that promises.
    pub fn divides_always(&self) -> bool {
        self.always
    }

    /// What was seen of joins of that length, or of the length next to it of which something was.
    fn nearest(&self, technique: &str, scale: i32) -> Option<f64> {
        let all = self.seen.get(technique)?;
        let both = [all.range(..=scale).next_back(), all.range(scale..).next()];
        let distance = |(at, _): &(&i32, &Seen)| at.abs_diff(scale);
        both.into_iter().flatten().min_by_key(distance).map(|(_, seen)| seen.ratio)
    }

    /// By what to multiply an estimate of so many seconds.
    pub fn of(&self, technique: &str, estimated: f64) -> f64 {
        self.nearest(technique, scale(estimated)).unwrap_or(1.0)
    }

    /// Remembers what a technique took, with so much friction ([`Rates::friction`]; 1 alone). How much it was
    /// is not known well, so that what was seen with friction counts only until something was seen without.
    /// Returns whether that changed anything to speak of.
    pub fn learn(&mut self, technique: &str, friction: f64, estimated: f64, taken: f64) -> bool {
        let old = self.of(technique, estimated);
        let expected = estimated * old * friction;
        // Not by what it took: of the short ones, those that were slow by accident would remain.
        if expected < LEAST {
            return false;
        }
        let of_technique = self.seen.entry(technique.to_string()).or_default();
        let new = Seen { ratio: old, times: 0 };
        let seen = of_technique.entry(scale(estimated)).or_insert(new);
        if friction > 1.0 && seen.times > 0 {
            return false;
        }
        let change = (taken / expected).clamp(1.0 / FASTER, SLOWER);
        // What was expected without having been seen counts as once. Ratios are averaged as such: half and
        // double make one.
        let ratio = old * change.powf(1.0 / f64::from(seen.times + 2));
        let times = if friction > 1.0 { 0 } else { (seen.times + 1).min(MANY) };
        *seen = Seen { ratio: ratio.clamp(1.0 / Self::MOST, Self::MOST), times };
        !(0.98..=1.02).contains(&(seen.ratio / old))
    }

    /// All that is known: technique, length of joins, ratio, and how often it was seen.
    pub fn iter(&self) -> impl Iterator<Item = (&str, i32, f64, u32)> {
        self.seen.iter().flat_map(|(technique, all)| {
            all.iter().map(|(&scale, seen)| (technique.as_str(), scale, seen.ratio, seen.times))
        })
    }

    /// Takes over what was known before; what cannot be is left out.
    pub fn set(&mut self, technique: &str, scale: i32, ratio: f64, times: u32) {
        if (1.0 / Self::MOST..=Self::MOST).contains(&ratio) {
            let of_technique = self.seen.entry(technique.to_string()).or_default();
            of_technique.insert(scale, Seen { ratio, times: times.min(MANY) });
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
    fn what_was_seen_is_averaged() {
        let mut rates = Rates::of_neighbours();
        let friction = rates.friction("bitmap");
        assert!(1.0 < friction && friction < rates.friction("gpu-bitmap"));
        assert_eq!(rates.of("bitmap", 0.1), 1.0);
        assert!(rates.learn("bitmap", 1.0, 0.1, 0.05));
        assert!(near(rates.of("bitmap", 0.1), 0.5f64.sqrt()));
        assert_eq!(rates.of("ppjoin", 0.1), 1.0);
        for _ in 0..3000 {
            rates.learn("bitmap", 1.0, 0.1, 0.05);
            rates.learn("bitmap", 1.0, 0.1, 0.2);
        }
        let found = rates.of("bitmap", 0.1);
        assert!((0.95..1.05).contains(&found), "{found}");
        assert!(!rates.learn("bitmap", 1.0, 0.1, 0.1));
        // What is seen beside the other side counts where nothing else was.
        assert!(!rates.learn("bitmap", friction, 0.1, 1.0));
        assert!(rates.learn("ppjoin", friction, 0.1, 0.05 * friction));
        assert!(near(rates.of("ppjoin", 0.1), 0.5f64.sqrt()));
        // One that took a thousand times as long is hardly believed.
        rates.learn("bitmap", 1.0, 0.1, 100.0);
        assert!(rates.of("bitmap", 0.1) < 1.03 * found);
    }

    #[test]
    fn the_cpu_loses_as_long_as_sets_are_sent() {
        let rates = Rates::of_neighbours();
        let lost =
            [10, 88, 176].map(|millions| rates.lost_beside("gpu-prefix", millions * 1_000_000));
        assert!(
            near(lost[0], 0.727e-3) && near(lost[1], 6.4e-3) && near(lost[2], 12.8e-3),
            "{lost:?}"
        );
        assert_eq!(rates.lost_beside("prefix-bitmap", 1_000_000), 0.0);
        assert_eq!(Rates::default().lost_beside("gpu-prefix", 1_000_000), 0.0);
    }

    #[test]
    fn what_is_beyond_belief_is_not_believed() {
        let mut rates = Rates::default();
        // Too short to tell.
        assert!(!rates.learn("bitmap", 1.0, 1e-4, 1e-2));
        for _ in 0..300 {
            rates.learn("ppjoin", 1.0, 1e-2, 1e3);
        }
        assert_eq!(rates.of("ppjoin", 1e-2), Rates::MOST);
        rates.set("ppjoin", scale(1e-2), f64::NAN, 1);
        // A file may hold any number.
        rates.set("all-pairs", i32::MIN, 2.0, u32::MAX);
        assert_eq!(rates.of("all-pairs", 9e5), 2.0);
        rates.learn("all-pairs", 1.0, 9e5, 9e5);
        assert_eq!(rates.of("ppjoin", 1e-2), Rates::MOST);
    }

    #[test]
    fn short_joins_say_little_of_long_ones() {
        let mut rates = Rates::default();
        let learn = |rates: &mut Rates, estimated: f64, ratio: f64| {
            for _ in 0..300 {
                rates.learn("bitmap", 1.0, estimated, estimated * ratio);
            }
        };
        learn(&mut rates, 2e-3, 0.5);
        // As long as nothing else is known they do.
        assert!(near(rates.of("bitmap", 1.0), 0.5));
        learn(&mut rates, 0.2, 2.0);
        for (estimated, ratio) in [(1e-5, 0.5), (2e-3, 0.5), (5e-3, 0.5), (0.1, 2.0), (9.0, 2.0)] {
            let found = rates.of("bitmap", estimated);
            assert!(near(found, ratio), "{estimated}: {found}");
        }
    }
}
