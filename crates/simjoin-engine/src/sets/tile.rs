//! What is the unit of work?
//!
//! A tile is a range of probe sets and the range of build sets that they may meet. Tiles are cut the same way for any
//! number of threads, so that results can be handed on in one order.

use crate::SetTask;
use simjoin_core::{SetCollection, SetId};
use std::ops::Range;

/// A range of probe sets and the range of build sets that contains all their partners.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tile {
    /// The probe sets.
    pub probes: Range<SetId>,
    /// The build sets; never empty.
    pub builds: Range<SetId>,
}

impl Tile {
    /// Returns the tile that is a whole join.
    pub fn whole(task: &SetTask<'_>) -> Self {
        Tile { probes: 0..task.probe.len() as SetId, builds: 0..task.build.len() as SetId }
    }

    /// Returns whether it holds all sets of another tile.
    pub fn contains(&self, other: &Tile) -> bool {
        let holds = |own: &Range<SetId>, other: &Range<SetId>| {
            own.start <= other.start && other.end <= own.end
        };
        holds(&self.probes, &other.probes) && holds(&self.builds, &other.builds)
    }
}

/// Cuts a tile into smaller ones of about `tile_tokens` probe tokens, in rising order. Tiles without
/// any partner, by order or by length, are left out.
pub fn cut(task: &SetTask<'_>, tile: &Tile, tile_tokens: usize) -> Vec<Tile> {
    let mut tiles = Vec::new();
    let builds = &tile.builds;
    let mut start = tile.probes.start;
    while start < tile.probes.end {
        let mut end = start;
        let mut tokens = 0;
        while end < tile.probes.end && tokens < tile_tokens.max(1) {
            tokens += task.probe.size(end) as usize;
            end += 1;
        }
        // Both ends of the partners' range rise with the probe.
        let first = task.partners(start).start.max(builds.start);
        let last = task.partners(end - 1).end.min(builds.end);
        if first < last {
            tiles.push(Tile { probes: start..end, builds: first..last });
        }
        start = end;
    }
    tiles
}

/// Cuts a range of build sets into ranges of at most `max_tokens` tokens each (a larger single set
/// is a range of its own). An index is made for one range at a time.
pub fn passes(
    build: &SetCollection,
    builds: &Range<SetId>,
    max_tokens: usize,
) -> Vec<Range<SetId>> {
    if max_tokens >= build.total_tokens() && !builds.is_empty() {
        return vec![builds.clone()];
    }
    let mut passes = Vec::new();
    let (mut start, mut tokens) = (builds.start, 0);
    for id in builds.clone() {
        let size = build.size(id) as usize;
        if id > start && tokens + size > max_tokens {
            passes.push(start..id);
            (start, tokens) = (id, 0);
        }
        tokens += size;
    }
    if start < builds.end {
        passes.push(start..builds.end);
    }
    passes
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::Direction;
    use simjoin_core::{Bounds, Measure, Predicate, RawSets, prepare};

    /// Sets of these sizes without a common token.
    pub(crate) fn collection(sizes: &[u32]) -> SetCollection {
        collections(sizes, None).0
    }

    /// Sets of these sizes, no two of which share a token.
    pub(crate) fn collections(
        left: &[u32],
        right: Option<&[u32]>,
    ) -> (SetCollection, Option<SetCollection>) {
        let mut next = 0;
        let mut raw = |sizes: &[u32]| {
            let mut raw = RawSets::default();
            for &size in sizes {
                raw.push(&(next..next + size).collect::<Vec<_>>());
                next += size;
            }
            raw
        };
        let (left, right) = (raw(left), right.map(&mut raw));
        prepare(left, right, next as usize).unwrap()
    }

    fn jaccard(threshold: &str) -> Bounds {
        Bounds::new(Predicate::parse(Measure::Jaccard, threshold).unwrap())
    }

    #[test]
    fn every_pair_that_the_length_filter_leaves_is_in_exactly_one_tile() {
        let left = collection(&[1, 1, 2, 3, 5, 8, 5000, 5000, 6000, 7000, 9000]);
        let right = collection(&[1, 2, 2, 4, 8, 10, 4000, 5000, 5500, 9999]);
        for other in [None, Some(&right)] {
            for (task, _) in SetTask::directions(&left, other, true, jaccard("0.7")) {
                for builds in passes(task.build, &(0..task.build.len() as SetId), 6000) {
                    let tile = Tile { builds: builds.clone(), ..Tile::whole(&task) };
                    let tiles = cut(&task, &tile, 5000);
                    for probe in 0..task.probe.len() as SetId {
                        let partners = task.partners(probe);
                        let wanted = partners.start.max(builds.start)..partners.end.min(builds.end);
                        let owners: Vec<_> =
                            tiles.iter().filter(|t| t.probes.contains(&probe)).collect();
                        assert!(owners.len() <= 1);
                        if !wanted.is_empty() {
                            assert!(owners[0].builds.start <= wanted.start);
                            assert!(owners[0].builds.end >= wanted.end);
                        }
                    }
                    assert!(tiles.iter().all(|t| !t.builds.is_empty()));
                }
            }
        }
    }

    #[test]
    fn partners_of_a_join_of_two_meet_each_pair_once() {
        let left = collection(&[1, 2, 2, 3, 4, 4, 5, 9]);
        let right = collection(&[1, 1, 2, 3, 3, 4, 8, 10]);
        let bounds = jaccard("0.5");
        let mut met = std::collections::HashMap::new();
        for (task, part) in SetTask::directions(&left, Some(&right), false, bounds) {
            for probe in 0..task.probe.len() as SetId {
                for build in task.partners(probe) {
                    let swapped = part == Direction::RightProbes;
                    let pair = if swapped { (build, probe) } else { (probe, build) };
                    *met.entry(pair).or_insert(0) += 1;
                }
            }
        }
        for l in 0..left.len() as SetId {
            for r in 0..right.len() as SetId {
                let (a, b) = (left.size(l), right.size(r));
                let possible = bounds.accepts(a, b, a.min(b));
                assert_eq!(met.get(&(l, r)).copied().unwrap_or(0), u32::from(possible));
            }
        }
    }

    #[test]
    fn passes_span_the_sets_and_respect_the_limit() {
        let sets = collection(&[1, 2, 3, 4, 5, 100]);
        let passes = passes(&sets, &(0..6), 6);
        assert_eq!(passes, [0..3, 3..4, 4..5, 5..6]);
        assert_eq!(super::passes(&sets, &(1..4), 6), [1..3, 3..4]);
        assert!(super::passes(&collection(&[]), &(0..0), 6).is_empty());
    }
}
