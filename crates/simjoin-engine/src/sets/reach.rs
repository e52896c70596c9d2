//! Which sizes can meet at all, and in how many pairs?
//!
//! [`reaches`] is the length filter for every probe size of a tile, sharpened by one fact: the sets
//! of a collection are distinct, so in a self-join two sets of size `n` share at most `n - 1`
//! tokens. Where the bounds ask for more, sets of that size do not meet one another; at high
//! thresholds this leaves small sets without any partner.

use crate::{Order, SetTask, Tile};
use simjoin_core::SetId;
use std::ops::Range;

/// What the probes of one size meet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reach {
    /// The probes of this size in the tile.
    pub probes: Range<SetId>,
    /// The build sets that they may meet. In a self-join a probe meets only those before itself.
    pub builds: Range<SetId>,
    /// The number of pairs of both.
    pub pairs: u64,
    /// The number of its rarest tokens that a probe must look up to meet every partner in reach; 0 without a partner.
    pub prefix: u32,
}

impl Reach {
    /// Returns the build sets that a probe of this size meets.
    #[inline(always)]
    pub fn of(&self, order: Order, probe: SetId) -> Range<SetId> {
        let end = match order {
            Order::Before => self.builds.end.min(probe),
            _ => self.builds.end,
        };
        self.builds.start.min(end)..end
    }
}

/// Returns the reach of each size class of the probe collection within a tile; empty for classes outside the tile and
/// for those that no build set can satisfy.
pub fn reaches(task: &SetTask<'_>, tile: &Tile) -> Vec<Reach> {
    let SetTask { probe, build, predicate: bounds, order } = *task;
    let (mut smaller, mut first) = (0, 0);
    let of_class = |class: &simjoin_core::SizeClass| {
        let n = class.size;
        let below = std::mem::replace(&mut smaller, n);
        let probes = class.start.max(tile.probes.start)..class.end.min(tile.probes.end);
        if probes.is_empty() {
            return Reach::default();
        }
        // Neither an equal size nor the next smaller one: told at once, for the many small sizes that
        // a high threshold leaves alone.
        if order == Order::Before
            && !bounds.accepts(n, n, n.saturating_sub(1))
            && !bounds.accepts(n, below, below)
        {
            return Reach::default();
        }
        // The smallest size that a probe may meet rises with its own.
        let least = bounds.min_size(n);
        while build.classes().get(first).is_some_and(|class| class.size < least) {
            first += 1;
        }
        let start = build.classes().get(first).map_or(build.len() as SetId, |class| class.start);
        let start = start.max(tile.builds.start);
        let end = match order {
            Order::Before if bounds.required_overlap(n, n) >= n => class.start,
            Order::Before => probes.end,
            Order::NotLarger => build.first_of_size(n + 1),
            Order::Smaller => build.first_of_size(n),
        }
        .min(tile.builds.end);
        if start >= end {
            return Reach::default();
        }
        // The demand grows with the partner's size, and the first is the smallest.
        let prefix = (n + 1).saturating_sub(bounds.required_overlap(n, build.size(start)));
        let mut reach = Reach { builds: start..end, probes, pairs: 0, prefix };
        reach.pairs = pairs(&reach, order);
        if reach.pairs == 0 || prefix == 0 { Reach::default() } else { reach }
    };
    probe.classes().iter().map(of_class).collect()
}

/// Returns, for each class, the number of its rarest tokens that a build set must show to be found by every probe that
/// reaches it; 0 where none does.
///
/// Exact: the demand grows with the probe's size, so the smallest size that reaches the class
/// demands least; the first common token of a pair stands so early that the demand can still be
/// met after it.
pub fn build_prefixes(task: &SetTask<'_>, tile: &Tile, reaches: &[Reach]) -> Vec<u32> {
    let SetTask { probe, build, predicate: bounds, .. } = *task;
    // Both ends of what a probe class reaches rise with the class, so the first class that reaches
    // far enough is the smallest.
    let mut next = 0;
    let of_class = |class: &simjoin_core::SizeClass| {
        while next < reaches.len()
            && (reaches[next].pairs == 0 || reaches[next].builds.end <= class.start)
        {
            next += 1;
        }
        let outside = class.start >= tile.builds.end || class.end <= tile.builds.start;
        if next == reaches.len() || reaches[next].builds.start >= class.end || outside {
            return 0;
        }
        let m = class.size;
        (m + 1).saturating_sub(bounds.required_overlap(probe.classes()[next].size, m))
    };
    build.classes().iter().map(of_class).collect()
}

/// Counts the pairs of a reach.
fn pairs(reach: &Reach, order: Order) -> u64 {
    let Reach { probes, builds, .. } = reach;
    let all = |probes: u64| probes * builds.len() as u64;
    if order != Order::Before {
        return all(probes.len() as u64);
    }
    // Probes after the last build set meet all of them; one before it meets those before itself.
    let after = probes.end.saturating_sub(probes.start.max(builds.end));
    let (low, high) = (probes.start.max(builds.start), probes.end.min(builds.end));
    let among = if low < high {
        let first = u64::from(low - builds.start);
        let last = u64::from(high - 1 - builds.start);
        (first + last) * (last - first + 1) / 2
    } else {
        0
    };
    all(u64::from(after)) + among
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sets::tile::tests::collection;
    use simjoin_core::{Bounds, Measure, Predicate};

    #[test]
    fn a_reach_holds_every_possible_partner_and_counts_its_pairs() {
        let left = collection(&[1, 1, 2, 2, 3, 3, 3, 4, 5, 5, 9, 10, 10, 11, 20]);
        let right = collection(&[1, 2, 3, 3, 4, 6, 8, 9, 10, 10, 19]);
        for threshold in ["0.4", "0.5", "0.8", "0.9"] {
            let bounds = Bounds::new(Predicate::parse(Measure::Jaccard, threshold).unwrap());
            for other in [None, Some(&right)] {
                for (task, _) in SetTask::directions(&left, other, true, bounds) {
                    for builds in [0..task.build.len() as u32, 2..7] {
                        let tile = Tile { probes: 3..task.probe.len() as u32 - 1, builds };
                        let reaches = reaches(&task, &tile);
                        let mut pairs = 0;
                        for probe in tile.probes.clone() {
                            let reach = &reaches[task.probe.class_of(probe) as usize];
                            let met = reach.of(task.order, probe);
                            pairs += met.len() as u64;
                            for build in task.partners(probe) {
                                let (n, m) = (task.probe.size(probe), task.build.size(build));
                                let distinct = task.is_self_join() && n == m;
                                let most = m - u32::from(distinct);
                                let possible = bounds.accepts(n, m, most);
                                if possible && tile.builds.contains(&build) {
                                    assert!(met.contains(&build), "{threshold} {probe} {build}");
                                }
                            }
                        }
                        assert_eq!(pairs, reaches.iter().map(|r| r.pairs).sum::<u64>());
                    }
                }
            }
        }
    }
}
