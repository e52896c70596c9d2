//! How far off are the estimates on this machine?
//!
//! A technique's cost function knows what a tile takes on the machine that it was fitted on. What it
//! takes here, over what was estimated, is remembered for each technique, and apart for the time in which
//! CPU and device both work, where they share memory and cores. Dividing work between the two asks for
//! it; choosing among the techniques of one side does not, so that the choice stays the same.

use std::collections::BTreeMap;

/// What joins take of which less than this many seconds were expected says little.
const LEAST: f64 = 1e-3;

/// How much of the difference to a new measurement is believed, and how large a one. A run may be slow by
/// accident, because kernels had to be compiled first or the machine was busy; it is never fast by accident.
const FASTER: (f64, f64) = (0.3, 3.0);
const SLOWER: (f64, f64) = (0.2, 1.5);

/// Seconds taken over seconds estimated, by technique and circumstances.
#[derive(Clone, Debug, PartialEq)]
pub struct Rates {
    seen: BTreeMap<(String, bool), f64>,
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

    /// By what to multiply an estimate. `beside`: while the other side works as well.
    pub fn of(&self, technique: &str, beside: bool) -> f64 {
        let get = |beside| self.seen.get(&(technique.to_string(), beside)).copied();
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
        let old = self.of(technique, beside);
        // Not by what it took: of the short ones, those that were slow by accident would remain.
        if estimated * old < LEAST {
            return false;
        }
        let change = taken / estimated / old;
        let (belief, most) = if change < 1.0 { FASTER } else { SLOWER };
        // Ratios are averaged as such: half and double make one.
        let step = change.clamp(1.0 / most, most).powf(belief);
        let new = (old * step).clamp(1.0 / Self::MOST, Self::MOST);
        self.seen.insert((technique.to_string(), beside), new);
        !(0.95..=1.05).contains(&(new / old))
    }

    /// All that is known: technique, whether beside the other side, ratio.
    pub fn iter(&self) -> impl Iterator<Item = (&str, bool, f64)> {
        self.seen.iter().map(|((technique, beside), &ratio)| (technique.as_str(), *beside, ratio))
    }

    /// Takes over what was known before; what cannot be is left out.
    pub fn set(&mut self, technique: &str, beside: bool, ratio: f64) {
        if (1.0 / Self::MOST..=Self::MOST).contains(&ratio) {
            self.seen.insert((technique.to_string(), beside), ratio);
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
        assert_eq!(rates.of("bitmap", false), 1.0);
        assert!(rates.learn("bitmap", false, 0.1, 0.05));
        assert!(near(rates.of("bitmap", false), 0.5f64.powf(0.3)));
        assert_eq!(rates.of("bitmap", true), rates.of("bitmap", false));
        assert_eq!(rates.of("ppjoin", false), 1.0);
        assert!(Rates::of_neighbours().of("ppjoin", true) > 1.0);
        for _ in 0..300 {
            rates.learn("bitmap", false, 0.1, 0.2);
            rates.learn("bitmap", true, 0.1, 0.4);
        }
        assert!(near(rates.of("bitmap", false), 2.0) && near(rates.of("bitmap", true), 4.0));
        assert!(!rates.learn("bitmap", true, 0.1, 0.4));
        // One that took a thousand times as long is hardly believed.
        rates.learn("bitmap", true, 0.1, 400.0);
        assert!(near(rates.of("bitmap", true), 4.0 * 1.5f64.powf(0.2)));
        // Too short to tell, and beyond belief.
        assert!(!rates.learn("bitmap", true, 1e-4, 1e-2));
        for _ in 0..300 {
            rates.learn("ppjoin", false, 1e-2, 1e3);
        }
        assert_eq!(rates.of("ppjoin", false), Rates::MOST);
        rates.set("ppjoin", false, f64::NAN);
        assert_eq!(rates.of("ppjoin", false), Rates::MOST);
    }
}
