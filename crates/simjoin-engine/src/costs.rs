//! What do the elementary steps of a join cost on this machine?
//!
//! Costs are seconds on one core. The numbers below were measured on a 2-core AMD EPYC (Zen 4,
//! AVX-512) on 2026-11-15 with `benchmarks/run.py techniques`, but for `list`, `survivor`, `second` and
//! `verify`: these were fitted on 2026-11-16 and 17 to joins on a 2-core AMD EPYC without AVX-512 and on a
//! Xeon with it, so that with the ratios of each they give the measured times. [`CostTable::scaled`] fits all of them to
//! another machine by four ratios, measured by a short calibration: comparing signatures in runs and in
//! lists, scalar steps, and jumps through memory.

/// Seconds per elementary step on one core.
#[derive(Clone, Debug, PartialEq)]
pub struct CostTable {
    /// Comparing one pair of signatures of 64, 128, 256, … 2,048 bits when a run of neighbours is scanned.
    pub scan: [f64; 6],
    /// Comparing one pair of signatures of 64, 128, 256 bits when a prefix list is scanned.
    pub list: [f64; 3],
    /// Making a list entry, its part of the lists' upkeep included.
    pub entry: f64,
    /// Skipping a set.
    pub pass: f64,
    /// Beginning to compare probes with a run of sets.
    pub call: f64,
    /// Handling a survivor of a scanned list.
    pub survivor: f64,
    /// Comparing the wide signatures of a survivor of a scan.
    pub second: f64,
    /// Verifying a pair, and each token of it.
    pub verify: f64,
    /// Verifying: for each token of both sets.
    pub verify_token: f64,
    /// Signing a token.
    pub sign_token: f64,
    /// Putting a prefix token into an inverted index.
    pub index: f64,
    /// Looking up a prefix token in an inverted index.
    pub lookup: f64,
    /// Meeting a set in an inverted list.
    pub walk: f64,
    /// Merging, for each token of both sets.
    pub merge_token: f64,
    /// Beginning a join.
    pub start: f64,
    /// The factor for steps that this table does not list.
    pub scale: f64,
}

impl Default for CostTable {
    fn default() -> Self {
        CostTable {
            scan: [0.077e-9, 0.112e-9, 0.21e-9, 0.43e-9, 1.2e-9, 2.8e-9],
            list: [0.135e-9, 0.175e-9, 0.245e-9],
            entry: 20e-9,
            pass: 1.5e-9,
            call: 90e-9,
            survivor: 4.1e-9,
            second: 6e-9,
            verify: 16e-9,
            verify_token: 0.35e-9,
            sign_token: 0.25e-9,
            index: 9e-9,
            lookup: 21e-9,
            walk: 4.8e-9,
            merge_token: 1.6e-9,
            start: 15e-6,
            scale: 1.0,
        }
    }
}

/// The times of this machine divided by those of the machine behind [`CostTable::default`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratios {
    /// At comparing signatures with vector instructions, in runs.
    pub vector: f64,
    /// The same, in lists.
    pub lists: f64,
    /// At merging sets.
    pub scalar: f64,
    /// At writing to scattered places.
    pub memory: f64,
}

impl CostTable {
    /// Returns the cost table of another machine.
    pub fn scaled(&self, ratios: Ratios) -> Self {
        let Ratios { vector, lists, scalar, memory } = ratios;
        let mixed = (memory + scalar) / 2.0;
        CostTable {
            scan: self.scan.map(|unit| unit * vector),
            list: self.list.map(|unit| unit * lists),
            entry: self.entry * mixed,
            pass: self.pass * scalar,
            call: self.call * scalar,
            survivor: self.survivor * mixed,
            second: self.second * mixed,
            verify: self.verify * mixed,
            verify_token: self.verify_token * scalar,
            sign_token: self.sign_token * vector,
            index: self.index * memory,
            lookup: self.lookup * memory,
            walk: self.walk * mixed,
            merge_token: self.merge_token * scalar,
            start: self.start,
            scale: self.scale,
        }
    }

    /// Returns the cost table of a machine on which every step takes `factor` times as long.
    pub fn times(&self, factor: f64) -> Self {
        let all = Ratios { vector: factor, lists: factor, scalar: factor, memory: factor };
        let (start, scale) = (self.start * factor, self.scale * factor);
        CostTable { start, scale, ..self.scaled(all) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_that_is_slower_at_everything_has_a_scaled_table() {
        let (units, slow) = (CostTable::default(), CostTable::default().times(4.0));
        assert_eq!(slow.scan, units.scan.map(|unit| 4.0 * unit));
        assert_eq!((slow.start, slow.second), (4.0 * units.start, 4.0 * units.second));
        assert_eq!(slow.times(0.25), units);
    }
}
