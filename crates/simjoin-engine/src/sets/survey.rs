//! What is there to know about a join before it is run?
//!
//! A [`Survey`] holds what costs are computed from. Numbers of sets, of pairs that the length filter
//! leaves and of prefix tokens are exact. How often sets meet under a common prefix token, and how
//! many pairs survive a comparison of signatures, is found from samples (`samples.rs`).

use super::samples;
use crate::{CostTable, Effort, Order, Reach, SetTask, Tile, build_prefixes, reaches};
use simjoin_core::SetId;
use std::ops::Range;
use std::sync::OnceLock;

/// Signature widths, in words, for which survival is estimated.
pub const WIDTHS: [usize; 4] = [1, 2, 4, 8];

/// Statistics of a tile.
#[derive(Clone, Debug)]
pub struct Survey<'a> {
    /// The join.
    pub task: SetTask<'a>,
    /// The part of it.
    pub tile: Tile,
    /// The build sets that each probe class reaches.
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
    /// The two together, where a set that has both roles stands in a list once.
    pub entries: u64,
    /// The part of the prefix tokens that stand in more than one row.
    pub live: f64,
    /// Pairs of sets under a common prefix token; a pair counts once for each.
    pub list_pairs: f64,
    /// Pairs of a self-join under a token that is in the prefixes of both as probes, but not in that of the
    /// smaller one as a build set. A technique that has one list for both roles meets them too.
    pub list_idle: f64,
    /// The part of the pairs whose signatures of [`WIDTHS`] words are close enough.
    pub survival: [f64; 4],
    /// The part of the pairs that are in the answer, as far as samples show.
    pub similar: f64,
    /// The part of the list pairs whose signatures of the first three [`WIDTHS`] are close enough.
    pub list_survival: [f64; 3],
    /// The part of the list pairs that are looked at more closely: their signatures of 64 bits are close but
    /// do not tell the overlap, and the tokens just before the common one differ.
    pub list_open: f64,
    /// Tokens that may have to be merged in those, over all list pairs.
    pub list_merged: f64,
    /// The part of the list pairs that the position filter leaves.
    pub list_position: f64,
    /// The mean size of the sets of a pair.
    pub mean_size: f64,
    /// See [`runs`](Self::runs).
    runs: OnceLock<u64>,
}

impl<'a> Survey<'a> {
    /// What a tile shows without a look at its sets.
    pub fn new(task: &SetTask<'a>, tile: &Tile) -> Self {
        let reaches = reaches(task, tile);
        let prefixes = build_prefixes(task, tile, &reaches);
        let mut survey = Survey {
            task: *task,
            tile: tile.clone(),
            pairs: reaches.iter().map(|reach| reach.pairs).sum(),
            reaches,
            prefixes,
            sets: 0,
            tokens: 0,
            probe_entries: 0,
            build_entries: 0,
            entries: 0,
            live: 1.0,
            list_pairs: 0.0,
            list_idle: 0.0,
            survival: [1.0; 4],
            similar: 0.0,
            list_survival: [1.0; 3],
            list_open: 1.0,
            list_merged: 0.0,
            list_position: 1.0,
            mean_size: 0.0,
            runs: OnceLock::new(),
        };
        let mut size_pairs = 0.0;
        for (class, reach) in task.probe.classes().iter().zip(&survey.reaches) {
            let probes = reach.probes.len() as u64;
            if reach.pairs > 0 {
                survey.sets += probes;
                survey.tokens += probes * u64::from(class.size);
                survey.probe_entries += probes * u64::from(reach.prefix);
                size_pairs += reach.pairs as f64 * f64::from(class.size);
            }
        }
        survey.entries = survey.probe_entries;
        for (at, (class, &prefix)) in task.build.classes().iter().zip(&survey.prefixes).enumerate()
        {
            let among = |sets: &Range<SetId>| {
                class.end.min(sets.end).saturating_sub(class.start.max(sets.start))
            };
            let builds = u64::from(among(&tile.builds));
            survey.build_entries += builds * u64::from(prefix);
            // Those that are among the probes of a self-join have been counted.
            let (mut more, mut longer) = (builds, 0);
            if task.order == Order::Before && survey.reaches[at].pairs > 0 {
                let both =
                    tile.probes.start.max(tile.builds.start)..tile.probes.end.min(tile.builds.end);
                more -= u64::from(among(&both));
                longer = u64::from(among(&both))
                    * u64::from(prefix.saturating_sub(survey.reaches[at].prefix));
            }
            survey.entries += more * u64::from(prefix) + longer;
            if prefix > 0 {
                survey.sets += more;
                survey.tokens += more * u64::from(class.size);
            }
        }
        survey.mean_size = size_pairs / (survey.pairs.max(1)) as f64;
        survey
    }

    /// Returns the number of comparisons of a probe with a run of build sets. It is counted once, for the first
    /// technique that asks.
    pub fn runs(&self, count: impl FnOnce() -> u64) -> u64 {
        *self.runs.get_or_init(count)
    }

    /// Returns the same survey for another tile.
    pub(crate) fn of_tile(&self, tile: &Tile) -> Self {
        Survey { tile: tile.clone(), runs: OnceLock::new(), ..self.clone() }
    }

    /// Returns a lower bound of the seconds that the tile takes one core, from exact counts: for making lists, or for
    /// comparing signatures.
    pub fn least_seconds(&self, costs: &CostTable) -> f64 {
        let entries = self.probe_entries.max(self.build_entries) as f64;
        (entries * costs.entry).min(self.pairs as f64 * costs.scan[0])
    }

    /// Completes the survey with estimates from samples.
    pub fn sample(mut self, effort: Effort) -> Self {
        samples::sample(&mut self, effort);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sets::tile::tests::collections;
    use simjoin_core::{Bounds, Measure, Predicate};

    #[test]
    fn a_set_with_both_roles_is_counted_once() {
        let sizes: Vec<u32> = (0..60).map(|at| 1 + at * at % 23).collect();
        let (left, right) = collections(&sizes, Some(&sizes[..40]));
        let bounds = Bounds::new(Predicate::parse(Measure::Jaccard, "0.6").unwrap());
        let mut parts = SetTask::directions(&left, None, false, bounds);
        parts.extend(SetTask::directions(&left, right.as_ref(), false, bounds));
        for (task, _) in parts {
            let (probes, builds) = (task.probe.len() as SetId, task.build.len() as SetId);
            for probes in [0..probes, 0..probes / 2, probes / 3..probes, 7..9] {
                for builds in [0..builds, 0..builds / 2, builds / 2..builds] {
                    let tile = Tile { probes: probes.clone(), builds };
                    let survey = Survey::new(&task, &tile);
                    let as_probe = |set: SetId| {
                        let inside = tile.probes.contains(&set);
                        if inside {
                            survey.reaches[task.probe.class_of(set) as usize].prefix
                        } else {
                            0
                        }
                    };
                    let as_build = |set: SetId| {
                        let inside = tile.builds.contains(&set);
                        if inside { survey.prefixes[task.build.class_of(set) as usize] } else { 0 }
                    };
                    // A set's tokens in lists, and its size.
                    let listed: Vec<(u32, u32)> = if task.order == Order::Before {
                        let one = |set| (as_probe(set).max(as_build(set)), task.probe.size(set));
                        (0..task.probe.len() as SetId).map(one).collect()
                    } else {
                        let probe = |set| (as_probe(set), task.probe.size(set));
                        let build = |set| (as_build(set), task.build.size(set));
                        let probes = (0..task.probe.len() as SetId).map(probe);
                        probes.chain((0..task.build.len() as SetId).map(build)).collect()
                    };
                    let found: Vec<_> = listed.iter().filter(|(tokens, _)| *tokens > 0).collect();
                    let entries: u64 = found.iter().map(|(tokens, _)| u64::from(*tokens)).sum();
                    let tokens: u64 = found.iter().map(|(_, size)| u64::from(*size)).sum();
                    let expected = (entries, found.len() as u64, tokens);
                    assert_eq!((survey.entries, survey.sets, survey.tokens), expected, "{tile:?}");
                }
            }
        }
    }
}
