//! Which probes for the CPU, and which for a device?
//!
//! The probes of all parts of a join stand in a line, those of a part in rising order of size; a point on
//! it is told by the share of the pairs, as the length filter leaves them, that lie before it. The
//! dichotomy of HySet: what lies before a point is the CPU's, what comes after it, with larger sets, the
//! device's. Both work at once, so the join takes as long as the slower side.
//!
//! The point finds itself. Each side says what the whole join would take it, and what a start costs the
//! device; by the ratio of the two speeds follows a first point, as in the model of heterogeneous
//! clusters, where it is the ratio of memory bandwidths. Then both say what they would take for their
//! part, which moves the point, and so on, more often where more is at stake. Either side may get
//! everything.

use crate::{Effort, Join, Means, Part, Rates, Reach, Survey, Technique, Tile, reaches};
use simjoin_core::SetId;

/// The probes of all parts of a join, in a line.
#[derive(Clone, Debug)]
pub struct Line<'a> {
    /// Those that have pairs.
    parts: Vec<(Join<'a>, Part)>,
    /// Pairs before each part, and in all.
    before: Vec<f64>,
}

impl<'a> Line<'a> {
    /// The line of these parts.
    pub fn new(parts: &[(Join<'a>, Part)]) -> Self {
        let (mut with_pairs, mut before) = (Vec::new(), vec![0.0]);
        for &(join, part) in parts {
            let pairs: u64 = reaches(&join, &Tile::whole(&join)).iter().map(|one| one.pairs).sum();
            if pairs > 0 {
                with_pairs.push((join, part));
                before.push(before[before.len() - 1] + pairs as f64);
            }
        }
        Line { parts: with_pairs, before }
    }

    /// What lies between two points: a tile of each part that has some of it, no larger than need be.
    pub fn between(&self, from: f64, to: f64) -> Vec<(Join<'a>, Part, Tile)> {
        let all = self.before[self.before.len() - 1];
        let mut tiles = Vec::new();
        for (at, &(join, part)) in self.parts.iter().enumerate() {
            let (start, end) = (self.before[at], self.before[at + 1]);
            let local = |point: f64| match end - start {
                // So few pairs beside so many that they do not count: they lie where they begin.
                0.0 => f64::from(point * all > start || point >= 1.0),
                pairs => (point * all - start) / pairs,
            };
            let whole = Tile::whole(&join);
            let probes = split_at(&join, local(from))..split_at(&join, local(to));
            let tile = Tile { probes, ..whole };
            let reaches = reaches(&join, &tile);
            let met = reaches.iter().filter(|reach| reach.pairs > 0);
            let met = met.fold(None, |met: Option<Tile>, reach| {
                let Reach { probes, builds, .. } = reach.clone();
                Some(match met {
                    None => Tile { probes, builds },
                    Some(met) => Tile {
                        probes: met.probes.start..probes.end,
                        builds: met.builds.start.min(builds.start)..met.builds.end.max(builds.end),
                    },
                })
            });
            tiles.extend(met.map(|tile| (join, part, tile)));
        }
        tiles
    }
}

/// The probe before which lies this share of the pairs that the length filter leaves.
fn split_at(join: &Join<'_>, share: f64) -> SetId {
    if share >= 1.0 {
        return join.probe.len() as SetId;
    }
    if share <= 0.0 {
        return 0;
    }
    let reaches = reaches(join, &Tile::whole(join));
    let all: u64 = reaches.iter().map(|reach| reach.pairs).sum();
    let mut left = all as f64 * share;
    for reach in reaches.iter().filter(|reach| reach.pairs > 0) {
        let pairs = reach.pairs as f64;
        if left < pairs {
            return reach.probes.start + (reach.probes.len() as f64 * left / pairs) as SetId;
        }
        left -= pairs;
    }
    join.probe.len() as SetId
}

/// How the work is divided, and what is expected of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Division {
    /// The device's part of the pairs.
    pub share: f64,
    /// Seconds of the CPU for its part.
    pub cpu: f64,
    /// Seconds of the device for its part.
    pub device: f64,
    /// Those of it that a start takes, however little there is to do.
    pub start: f64,
    /// Seconds of the CPU for everything.
    pub cpu_alone: f64,
    /// Seconds of the device for everything.
    pub device_alone: f64,
    /// The device's technique for everything, by its place among those offered, and the seconds estimated
    /// for it; where a single one does it.
    pub device_technique: Option<(usize, f64)>,
}

impl Division {
    /// Seconds of the join.
    pub fn seconds(&self) -> f64 {
        self.cpu.max(self.device)
    }
}

/// Beginning and ending two sides at once.
const TOGETHER: f64 = 0.2e-3;

/// What dividing must promise, over the better side alone.
const WORTHWHILE: f64 = 0.95;

/// A part of the work that is next to nothing.
const LEAST: f64 = 0.02;

/// Seconds below which work is not divided, and from which on planning is done with care.
const SHORT: f64 = 2e-3;
const LONG: f64 = 20e-3;

/// The part of the time that each look at samples may take, and list pairs to look at in any case.
const PLANNING: f64 = 0.005;
const FEW: usize = 64;

/// Divides a join between the CPU and a device. `rates` say how far off estimates have been.
pub fn divide<'a>(
    line: &Line<'a>,
    cpu: &[&dyn Technique],
    device: &[&dyn Technique],
    means: &Means<'_>,
    rates: &Rates,
) -> Division {
    let survey = |from: f64, to: f64, part: f64| -> Vec<Survey<'a>> {
        let tiles = line.between(from, to).into_iter();
        let surveys = tiles.map(|(join, _, tile)| Survey::new(&join, &tile));
        let sampled = |survey: Survey<'a>| {
            let effort = Effort::of(&survey, part, FEW);
            survey.sample(effort)
        };
        surveys.filter(|survey| survey.pairs > 0).map(sampled).collect()
    };
    // The technique that takes least, as far as is known here, and what its own estimate is.
    let cheapest = |survey: &Survey<'_>, offered: &[&dyn Technique], beside: bool| {
        let costs = offered.iter().enumerate().filter_map(|(at, one)| {
            let seconds = one.cost(survey, means.units)?.seconds(means.threads);
            Some((at, seconds, seconds * rates.of(one.name(), beside)))
        });
        let least = costs.min_by(|a, b| a.2.total_cmp(&b.2));
        least.map(|(at, seconds, _)| (at, seconds))
    };
    let of = |surveys: &[Survey<'_>], offered: &[&dyn Technique], beside: bool| -> f64 {
        let of_survey = |survey: &Survey<'_>| {
            cheapest(survey, offered, beside).map_or(f64::INFINITY, |(at, seconds)| {
                seconds * rates.of(offered[at].name(), beside)
            })
        };
        surveys.iter().map(of_survey).sum()
    };
    // A first look with few samples, and a closer one where there is time for it.
    let mut all = survey(0.0, 1.0, 0.0);
    let shortest = of(&all, cpu, false).min(of(&all, device, false));
    if shortest > LONG && shortest.is_finite() {
        all = survey(0.0, 1.0, shortest * PLANNING);
    }
    let [cpu_alone, cpu_beside] = [false, true].map(|beside| of(&all, cpu, beside));
    let [device_alone, device_beside] = [false, true].map(|beside| of(&all, device, beside));
    let everything = |share: f64| Division {
        share,
        cpu: if share == 0.0 { cpu_alone } else { 0.0 },
        device: if share == 1.0 { device_alone } else { 0.0 },
        start: 0.0,
        cpu_alone,
        device_alone,
        device_technique: match &all[..] {
            [survey] => cheapest(survey, device, false),
            _ => None,
        },
    };
    let mut best = if cpu_alone <= device_alone { everything(0.0) } else { everything(1.0) };
    if !(cpu_alone + device_alone).is_finite() {
        return best;
    }
    // At best both would work all the time, each as fast as it is beside the other.
    let together = cpu_beside * device_beside / (cpu_beside + device_beside) + TOGETHER;
    if together > WORTHWHILE * best.seconds() || best.seconds() < SHORT {
        return best;
    }
    let part = best.seconds() * PLANNING;
    let start = of(&survey(1.0 - LEAST, 1.0, 0.0), device, true).min(device_beside);
    let rounds = if best.seconds() < LONG { 1 } else { 3 };
    // What each takes for a whole, the start left out: at first by what it takes for everything.
    let (mut of_cpu, mut of_device) = (cpu_beside, device_beside - start);
    for _ in 0..rounds {
        let share = (of_cpu - start) / (of_cpu + of_device);
        if !(LEAST..=1.0 - LEAST).contains(&share) {
            break;
        }
        let front = of(&survey(0.0, 1.0 - share, part), cpu, true);
        let back = of(&survey(1.0 - share, 1.0, part), device, true);
        let together = front.max(back) + TOGETHER;
        if together < best.seconds().min(WORTHWHILE * cpu_alone.min(device_alone)) {
            let (cpu, device) = (front + TOGETHER, back + TOGETHER);
            best = Division { share, cpu, device, start, ..best };
        }
        if (front - back).abs() < 0.05 * together {
            break;
        }
        (of_cpu, of_device) = (front / (1.0 - share), (back - start).max(0.0) / share);
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tile::tests::{collection, collections};
    use crate::{Cost, Prepared, Room, Units};
    use simjoin_core::{Bounds, Measure, Predicate, Result};

    /// Takes so long to start, and so long for a pair; for each token of it, if asked to.
    struct Rate {
        start: f64,
        pair: f64,
        by_size: bool,
    }

    impl Technique for Rate {
        fn name(&self) -> &'static str {
            "rate"
        }

        fn cost(&self, survey: &Survey<'_>, _: &Units) -> Option<Cost> {
            let each = if self.by_size { self.pair * survey.mean_size } else { self.pair };
            Some(Cost { serial: self.start + each * survey.pairs as f64, shared: 0.0 })
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
        let line = Line::new(&Join::parts(&sets, None, false, bounds));
        let (units, rates) = (Units::default(), Rates::default());
        let means = Means {
            units: &units,
            threads: 1,
            memory: u64::MAX,
            device_memory: u64::MAX,
            explain: false,
        };
        let mut divided = 0;
        for by_size in [false, true] {
            let cpu = Rate { start: 1e-6, pair: 1e-7, by_size };
            for speed in [0.1, 0.3, 1.0, 3.0, 10.0, 100.0, 1000.0] {
                for start in [0.0, 1e-3, 1e-2, 10.0] {
                    let device = Rate { start, pair: cpu.pair / speed, by_size };
                    let seconds = |from: f64, to: f64, of: &Rate| -> f64 {
                        let surveys = line.between(from, to).into_iter();
                        let surveys = surveys.map(|(join, _, tile)| Survey::new(&join, &tile));
                        surveys.map(|one| of.cost(&one, &units).unwrap().serial).sum()
                    };
                    let longer = |share: f64| {
                        let at = 1.0 - share;
                        seconds(0.0, at, &cpu).max(seconds(at, 1.0, &device))
                    };
                    let found = divide(&line, &[&cpu], &[&device], &means, &rates);
                    let chosen = longer(found.share);
                    let points = (0..=1000).map(|point| longer(f64::from(point) / 1000.0));
                    let best = points.fold(f64::INFINITY, f64::min);
                    assert!(chosen <= 1.1 * best, "{speed} {start}: {chosen} is not near {best}");
                    divided += usize::from(found.share > 0.0 && found.share < 1.0);
                }
            }
        }
        assert!(divided > 20, "{divided}");
    }

    #[test]
    fn what_lies_between_points_is_everything_once() {
        let (left, right) = collections(&[3, 3, 3, 4, 4, 5, 9, 9], Some(&[3, 4, 4, 5, 9, 10, 10]));
        let bounds = Bounds::new(Predicate::parse(Measure::Jaccard, "0.5").unwrap());
        let parts = Join::parts(&left, right.as_ref(), true, bounds);
        let line = Line::new(&parts);
        for count in [1u32, 2, 3, 10, 100] {
            let mut met = vec![0u64; parts.len()];
            for at in 0..count {
                let point = |at: u32| f64::from(at) / f64::from(count);
                for (join, part, tile) in line.between(point(at), point(at + 1)) {
                    let place = parts.iter().position(|(_, one)| *one == part).unwrap();
                    met[place] += Survey::new(&join, &tile).pairs;
                }
            }
            for ((join, _), met) in parts.iter().zip(met) {
                assert_eq!(met, Survey::new(join, &Tile::whole(join)).pairs, "{count}");
            }
        }
    }
}
