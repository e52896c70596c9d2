//! How far off are the estimates on this machine?
//!
//! A technique's cost function knows what a tile takes on the machine that it was fitted on. What it
//! takes here, over what was estimated, is remembered for each technique, apart for joins of each length,
//! since in short ones it is the start that counts and in long ones the memory, and apart for the time in
//! which CPU and device both work, where they share memory and cores. Dividing work between the two asks
//! for it; choosing among the techniques of one side does not, so that the choice stays the same.

use std::collections::BTreeMap;

/// What joins take of which less than this many seconds were expected says little.
const LEAST: f64 = 1e-3;

/// How much of the difference to a new measurement is believed, and how large a one. A run may be slow by
/// accident, because kernels had to be compiled first or the machine was busy; it is never fast by accident.
const FASTER: (f64, f64) = (0.3, 3.0);
const SLOWER: (f64, f64) = (0.2, 1.5);

/// How much of the first ones is believed at least.
const FIRST: [f64; 2] = [0.7, 0.4];

/// In which circumstances: beside the other side, and how long a join ([`scale`]).
type When = (bool, i32);

/// Seconds taken over seconds estimated, and how often that was seen.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Seen {
    ratio: f64,
    times: u32,
}

/// Seconds taken over seconds estimated, by technique and circumstances.
#[derive(Clone, Debug, PartialEq)]
pub struct Rates {
    seen: BTreeMap<String, BTreeMap<When, Seen>>,
    /// How much longer a technique takes beside the other side, as long as that has not been seen.
    beside: f64,
    /// What dividing work must promise, over the better side alone.
    worthwhile: f64,
}

impl Default for Rates {
    /// Estimates are right, and the sides are not in each other's way.
    fn default() -> Self {
        Rates { seen: BTreeMap::new(), beside: 1.0, worthwhile: 0.95 }
    }
}

/// The length of a join of so many seconds: up by one where they are about three times as many.
fn scale(seconds: f64) -> i32 {
    (2.0 * seconds.clamp(LEAST, 1e6).log10()).floor() as i32
}

impl Rates {
    /// The largest ratio that is believed; its inverse is the smallest.
    pub const MOST: f64 = 20.0;

    /// Of sides that share memory and cores: how much they are in each other's way is hard to foresee.
    pub fn of_neighbours() -> Self {
        Rates { beside: 1.25, worthwhile: 0.8, ..Rates::default() }
    }

    /// What dividing work must promise, over the better side alone.
    pub fn worthwhile(&self) -> f64 {
        self.worthwhile
    }

    /// What was seen of joins of that length, or of the length next to it of which something was.
    fn nearest(&self, technique: &str, (beside, scale): When) -> Option<Seen> {
        let all = self.seen.get(technique)?;
        let shorter = all.range((beside, i32::MIN)..=(beside, scale)).next_back();
        let longer = all.range((beside, scale)..=(beside, i32::MAX)).next();
        let distance = |((_, at), _): &(&When, &Seen)| at.abs_diff(scale);
        let both = [shorter, longer].into_iter().flatten();
        both.min_by_key(distance).map(|(_, &seen)| seen)
    }

    /// By what to multiply an estimate of so many seconds. `beside`: while the other side works as well.
    pub fn of(&self, technique: &str, beside: bool, estimated: f64) -> f64 {
        let get = |beside| Some(self.nearest(technique, (beside, scale(estimated)))?.ratio);
        match (get(beside), get(!beside)) {
            // Nothing is faster for having to share; what seemed so was seen of other joins.
            (Some(seen), Some(alone)) if beside => seen.max(alone),
            (Some(seen), _) => seen,
            (None, other) if beside => other.unwrap_or(1.0) * self.beside,
            (None, other) => other.map_or(1.0, |other| other / self.beside),
        }
    }

    /// Remembers what a technique took. Returns whether that changed much.
    pub fn learn(&mut self, technique: &str, beside: bool, estimated: f64, taken: f64) -> bool {
        let old = self.of(technique, beside, estimated);
        // Not by what it took: of the short ones, those that were slow by accident would remain.
        if estimated * old < LEAST {
            return false;
        }
        let of_technique = self.seen.entry(technique.to_string()).or_default();
        let new = Seen { ratio: old, times: 0 };
        let seen = of_technique.entry((beside, scale(estimated))).or_insert(new);
        let change = taken / estimated / old;
        let (belief, most) = if change < 1.0 { FASTER } else { SLOWER };
        let belief = FIRST.get(seen.times as usize).map_or(belief, |first| first.max(belief));
        // Ratios are averaged as such: half and double make one.
        let step = change.clamp(1.0 / most, most).powf(belief);
        let ratio = (old * step).clamp(1.0 / Self::MOST, Self::MOST);
        *seen = Seen { ratio, times: seen.times.saturating_add(1) };
        !(0.95..=1.05).contains(&(ratio / old))
    }

    /// All that is known: technique, whether beside the other side, length of joins, ratio.
    pub fn iter(&self) -> impl Iterator<Item = (&str, bool, i32, f64)> {
        self.seen.iter().flat_map(|(technique, all)| {
            all.iter()
                .map(|(&(beside, scale), seen)| (technique.as_str(), beside, scale, seen.ratio))
        })
    }

    /// Takes over what was known before; what cannot be is left out.
    pub fn set(&mut self, technique: &str, beside: bool, scale: i32, ratio: f64) {
        if (1.0 / Self::MOST..=Self::MOST).contains(&ratio) {
            let times = FIRST.len() as u32;
            let of_technique = self.seen.entry(technique.to_string()).or_default();
            of_technique.insert((beside, scale), Seen { ratio, times });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_seen_is_believed_in_part_and_for_the_like() {
        let mut rates = Rates::default();
        let near = |ratio: f64, expected: f64| (ratio - expected).abs() < 1e-9;
        let of = |rates: &Rates, beside| rates.of("bitmap", beside, 0.1);
        assert_eq!(of(&rates, false), 1.0);
        assert!(rates.learn("bitmap", false, 0.1, 0.05));
        assert!(near(of(&rates, false), 0.5f64.powf(0.7)));
        assert_eq!(of(&rates, true), of(&rates, false));
        assert_eq!(rates.of("ppjoin", false, 0.1), 1.0);
        assert!(Rates::of_neighbours().of("ppjoin", true, 0.1) > 1.0);
        for _ in 0..300 {
            rates.learn("bitmap", false, 0.1, 0.2);
            rates.learn("bitmap", true, 0.1, 0.4);
        }
        assert!(near(of(&rates, false), 2.0) && near(of(&rates, true), 4.0));
        assert!(!rates.learn("bitmap", true, 0.1, 0.4));
        // One that took a thousand times as long is hardly believed.
        rates.learn("bitmap", true, 0.1, 400.0);
        assert!(near(of(&rates, true), 4.0 * 1.5f64.powf(0.2)));
        // Too short to tell, and beyond belief.
        assert!(!rates.learn("bitmap", true, 1e-4, 1e-2));
        for _ in 0..300 {
            rates.learn("ppjoin", false, 1e-2, 1e3);
        }
        assert_eq!(rates.of("ppjoin", false, 1e-2), Rates::MOST);
        rates.set("ppjoin", false, scale(1e-2), f64::NAN);
        // A file may hold any number.
        rates.set("all-pairs", false, i32::MIN, 2.0);
        assert_eq!(rates.of("all-pairs", false, 9e5), 2.0);
        assert_eq!(rates.of("ppjoin", false, 1e-2), Rates::MOST);
    }

    #[test]
    fn short_joins_say_little_of_long_ones() {
        let mut rates = Rates::default();
        let learn = |rates: &mut Rates, beside, estimated: f64, ratio: f64| {
            for _ in 0..300 {
                rates.learn("bitmap", beside, estimated, estimated * ratio);
            }
        };
        learn(&mut rates, false, 2e-3, 0.5);
        // As long as nothing else is known they do.
        assert!((rates.of("bitmap", false, 1.0) - 0.5).abs() < 1e-6);
        learn(&mut rates, false, 0.2, 2.0);
        for (estimated, ratio) in [(1e-5, 0.5), (2e-3, 0.5), (5e-3, 0.5), (0.1, 2.0), (9.0, 2.0)] {
            let found = rates.of("bitmap", false, estimated);
            assert!((found - ratio).abs() < 1e-6, "{estimated}: {found}");
        }
        // To share makes nothing faster.
        learn(&mut rates, true, 0.2, 1.0);
        assert!((rates.of("bitmap", true, 0.2) - 2.0).abs() < 1e-6);
    }
}
