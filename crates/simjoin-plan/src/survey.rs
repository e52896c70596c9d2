//! What is there to know about a join before it is run?
//!
//! A [`Survey`] holds what costs are computed from. Numbers of sets, of pairs that the length filter
//! leaves and of prefix tokens are exact. How often sets meet under a common prefix token, and how
//! many pairs survive a comparison of signatures, is found from [`Samples`].

use crate::{Effort, Join, Order, Reach, Samples, Tile, Units, build_prefixes, reaches};
use std::sync::OnceLock;

/// Signature widths, in words, for which survival is estimated.
pub const WIDTHS: [usize; 4] = [1, 2, 4, 8];

/// Statistics of a tile.
#[derive(Clone, Debug)]
pub struct Survey<'a> {
    /// The join.
    pub join: Join<'a>,
    /// The part of it.
    pub tile: Tile,
    /// What each probe class reaches.
    pub reaches: Vec<Reach>,
    /// How many tokens a build set of each class has in its prefix.
    pub(crate) prefixes: Vec<u32>,
    /// Pairs that the length filter leaves.
    pub pairs: u64,
    /// Sets that are in such a pair, as far as their size tells.
    pub sets: u64,
    /// Tokens of those sets.
    pub tokens: u64,
    /// Tokens in the prefixes of probes.
    pub probe_entries: u64,
    /// Tokens in the prefixes of build sets.
    pub build_entries: u64,
    /// The part of the prefix tokens that stand in more than one row.
    pub live: f64,
    /// Pairs of sets under a common prefix token; a pair counts once for each.
    pub list_pairs: f64,
    /// The part of the pairs whose signatures of [`WIDTHS`] words are close enough.
    pub survival: [f64; 4],
    /// The part of the pairs that are in the answer, as far as samples show.
    pub similar: f64,
    /// The part of the list pairs whose signatures of the first three [`WIDTHS`] are close enough.
    pub list_survival: [f64; 3],
    /// The part of the list pairs that are looked at more closely: their signatures of 64 bits are close but
    /// do not tell the overlap, and the tokens just before the common one differ.
    pub list_open: f64,
    /// Tokens that come before the common one in those, over all list pairs: what must be looked at to know
    /// whether a pair has met before.
    pub list_before: f64,
    /// The part of the list pairs that the position filter leaves.
    pub list_position: f64,
    /// The mean size of the sets of a pair.
    pub mean_size: f64,
    /// See [`meetings`](Self::meetings).
    meetings: OnceLock<f64>,
    /// See [`runs`](Self::runs).
    runs: OnceLock<u64>,
}

impl<'a> Survey<'a> {
    /// What a tile shows without a look at its sets.
    pub fn new(join: &Join<'a>, tile: &Tile) -> Self {
        Self::with(join, tile, reaches(join, tile))
    }

    /// The same, of a tile whose [`reaches`] are known.
    pub(crate) fn with(join: &Join<'a>, tile: &Tile, reaches: Vec<Reach>) -> Self {
        let prefixes = build_prefixes(join, tile, &reaches);
        let mut survey = Survey {
            join: *join,
            tile: tile.clone(),
            pairs: reaches.iter().map(|reach| reach.pairs).sum(),
            reaches,
            prefixes,
            sets: 0,
            tokens: 0,
            probe_entries: 0,
            build_entries: 0,
            live: 1.0,
            list_pairs: 0.0,
            survival: [1.0; 4],
            similar: 0.0,
            list_survival: [1.0; 3],
            list_open: 1.0,
            list_before: 0.0,
            list_position: 1.0,
            mean_size: 0.0,
            meetings: OnceLock::new(),
            runs: OnceLock::new(),
        };
        let mut size_pairs = 0.0;
        for (class, reach) in join.probe.classes().iter().zip(&survey.reaches) {
            let probes = reach.probes.len() as u64;
            if reach.pairs > 0 {
                survey.sets += probes;
                survey.tokens += probes * u64::from(class.size);
                survey.probe_entries += probes * u64::from(reach.prefix);
                size_pairs += reach.pairs as f64 * f64::from(class.size);
            }
        }
        for (class, &prefix) in join.build.classes().iter().zip(&survey.prefixes) {
            let start = class.start.max(tile.builds.start);
            let builds = u64::from(class.end.min(tile.builds.end).saturating_sub(start));
            survey.build_entries += builds * u64::from(prefix);
            if prefix > 0 && join.order != Order::Before {
                survey.sets += builds;
                survey.tokens += builds * u64::from(class.size);
            }
        }
        survey.mean_size = size_pairs / (survey.pairs.max(1)) as f64;
        survey
    }

    /// How often sets of the tile meet in the lists of all their tokens. The first technique that asks
    /// counts; the others are told.
    pub fn meetings(&self, count: impl FnOnce() -> f64) -> f64 {
        *self.meetings.get_or_init(count)
    }

    /// How often probes are compared with a run of build sets, counted once as well.
    pub fn runs(&self, count: impl FnOnce() -> u64) -> u64 {
        *self.runs.get_or_init(count)
    }

    /// The same sets and pairs seen from another tile.
    pub(crate) fn of_tile(&self, tile: &Tile) -> Self {
        Survey {
            tile: tile.clone(),
            meetings: OnceLock::new(),
            runs: OnceLock::new(),
            ..self.clone()
        }
    }

    /// What the tile takes one core at least, as far as exact counts tell: making lists, or comparing
    /// signatures.
    pub fn least_seconds(&self, units: &Units) -> f64 {
        let entries = self.probe_entries.max(self.build_entries) as f64;
        (entries * units.entry).min(self.pairs as f64 * units.scan[0])
    }

    /// Looks at some of the sets.
    pub fn sample(self, effort: Effort) -> Self {
        let samples = Samples::new(&self, effort);
        self.seen_in(&samples)
    }

    /// Takes over what samples of this tile, or of one that holds it, show of it.
    pub fn seen_in(mut self, samples: &Samples) -> Self {
        if self.pairs > 0 {
            samples.show(&mut self);
        }
        self
    }
}
