//! Which probes for the CPU, and which for a device?
//!
//! The dichotomy of HySet with a point that finds itself: the probes before it are the CPU's, those from
//! it on, which are larger, the device's. Both work at once, so the join takes as long as the slower
//! side. The CPU's time rises with the point and the device's falls; where the two estimates meet is
//! found by halving. Either side may get everything.

use crate::{Effort, Join, Means, Survey, Technique, Tile, reaches};
use simjoin_core::SetId;

/// Points that are considered, in equal shares of the pairs that the length filter leaves.
const POINTS: usize = 64;

/// Samples for each estimate.
const EFFORT: Effort = Effort { sets: 800, pairs: 100 };

/// The first probe of the device that makes both sides end at the same time, as far as estimates tell.
pub fn split(
    join: &Join<'_>,
    cpu: &[&dyn Technique],
    device: &[&dyn Technique],
    means: &Means<'_>,
) -> SetId {
    let seconds = |tile: &Tile, offered: &[&dyn Technique]| {
        if tile.probes.is_empty() {
            return 0.0;
        }
        let survey = Survey::new(join, tile);
        if survey.pairs == 0 {
            return 0.0;
        }
        let survey = survey.sample(EFFORT);
        let costs = offered.iter().filter_map(|one| one.cost(&survey, means.units));
        costs.map(|cost| cost.seconds(means.threads)).fold(f64::INFINITY, f64::min)
    };
    let times = |point: usize| {
        let at = split_at(join, point as f64 / POINTS as f64);
        let [before, from] = sides(join, at);
        (seconds(&before, cpu), seconds(&from, device))
    };
    let (mut low, mut high) = (0, POINTS);
    while high - low > 1 {
        let middle = usize::midpoint(low, high);
        let (cpu, device) = times(middle);
        if cpu < device { low = middle } else { high = middle }
    }
    let longer = |point: &usize| {
        let (cpu, device) = times(*point);
        cpu.max(device)
    };
    let points = [0, low, high, POINTS].map(|point| (longer(&point), point));
    let best = points.into_iter().min_by(|a, b| a.0.total_cmp(&b.0));
    split_at(join, best.map_or(1.0, |(_, point)| point as f64 / POINTS as f64))
}

/// The probe before which lies this share of the pairs that the length filter leaves.
pub fn split_at(join: &Join<'_>, share: f64) -> SetId {
    let reaches = reaches(join, &Tile::whole(join));
    let all: u64 = reaches.iter().map(|reach| reach.pairs).sum();
    let mut left = all as f64 * share.clamp(0.0, 1.0);
    if share >= 1.0 {
        return join.probe.len() as SetId;
    }
    for reach in reaches.iter().filter(|reach| reach.pairs > 0) {
        let pairs = reach.pairs as f64;
        if left < pairs {
            return reach.probes.start + (reach.probes.len() as f64 * left / pairs) as SetId;
        }
        left -= pairs;
    }
    join.probe.len() as SetId
}

/// The two tiles that a point makes of a join.
pub fn sides(join: &Join<'_>, at: SetId) -> [Tile; 2] {
    let whole = Tile::whole(join);
    let builds = whole.builds;
    [
        Tile { probes: whole.probes.start..at, builds: builds.clone() },
        Tile { probes: at..whole.probes.end, builds },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tile::tests::collection;
    use crate::{Cost, Prepared, Room, Units};
    use simjoin_core::{Bounds, Measure, Predicate, Result};

    /// Takes so long to start, and so long for a pair.
    struct Rate {
        start: f64,
        pair: f64,
    }

    impl Technique for Rate {
        fn name(&self) -> &'static str {
            "rate"
        }

        fn cost(&self, survey: &Survey<'_>, _: &Units) -> Option<Cost> {
            let seconds = self.start + self.pair * survey.pairs as f64;
            Some(Cost { serial: seconds, shared: 0.0 })
        }

        fn memory_bytes(&self, _: &Join<'_>, _: &Tile, _: usize) -> u64 {
            0
        }

        fn prepare<'a>(&self, _: &Join<'a>, _: &Tile, _: &Room) -> Result<Box<dyn Prepared + 'a>> {
            unreachable!("only planned")
        }
    }

    #[test]
    fn both_sides_end_at_about_the_same_time_whatever_their_speeds() {
        let sizes: Vec<u32> = (0..3000).map(|at| 5 + at / 150).collect();
        let sets = collection(&sizes);
        let bounds = Bounds::new(Predicate::parse(Measure::Jaccard, "0.5").unwrap());
        let (join, _) = Join::parts(&sets, None, false, bounds)[0];
        let units = Units::default();
        let means = Means {
            units: &units,
            threads: 1,
            memory: u64::MAX,
            device_memory: u64::MAX,
            explain: false,
        };
        let cpu = Rate { start: 1e-6, pair: 1e-9 };
        for speed in [0.1, 0.3, 1.0, 3.0, 10.0, 100.0, 1000.0] {
            for start in [0.0, 1e-4, 1e-3, 1.0] {
                let device = Rate { start, pair: cpu.pair / speed };
                let seconds = |tile: &Tile, of: &Rate| {
                    let survey = Survey::new(&join, tile);
                    if survey.pairs == 0 { 0.0 } else { of.start + of.pair * survey.pairs as f64 }
                };
                let longer = |at: SetId| {
                    let [before, from] = sides(&join, at);
                    seconds(&before, &cpu).max(seconds(&from, &device))
                };
                let chosen = longer(split(&join, &[&cpu], &[&device], &means));
                let best = (0..=3000).step_by(10).map(longer).fold(f64::INFINITY, f64::min);
                assert!(chosen <= 1.1 * best, "{speed} {start}: {chosen} is not near {best}");
            }
        }
    }

    #[test]
    fn a_share_lies_before_its_point() {
        let sets = collection(&[3, 3, 3, 4, 4, 4, 5, 5, 9, 9, 9, 9]);
        let bounds = Bounds::new(Predicate::parse(Measure::Jaccard, "0.5").unwrap());
        let (join, _) = Join::parts(&sets, None, false, bounds)[0];
        assert_eq!(split_at(&join, 1.0), 12);
        let points: Vec<SetId> =
            (0..=10).map(|share| split_at(&join, f64::from(share) / 10.0)).collect();
        assert!(points.is_sorted(), "{points:?}");
        let pairs = |tile: &Tile| -> u64 { Survey::new(&join, tile).pairs };
        for at in points {
            let [before, from] = sides(&join, at);
            assert_eq!(pairs(&before) + pairs(&from), pairs(&Tile::whole(&join)));
        }
    }
}
