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
//! part, which moves the point, and so on, more often where more is at stake. All of it follows from one
//! look at samples of the whole line. Either side may get everything.

use crate::choose::{fits, guess, single};
use crate::{
    Effort, Join, Means, Order, Part, Rates, Reach, Samples, Survey, Technique, Tile, Units,
    reaches,
};
use simjoin_core::SetId;
use std::ops::Range;

/// A size class, by its place, and what its probes reach.
type OfClass = (usize, Reach);

/// The probes of all parts of a join, in a line.
#[derive(Clone, Debug)]
pub struct Line<'a> {
    /// Those that have pairs, with what their probes reach, by size class.
    parts: Vec<(Join<'a>, Part, Vec<OfClass>)>,
    /// Pairs before each part, and in all.
    before: Vec<f64>,
    /// What is known of all of it without a look at its sets.
    surveys: Vec<(Part, Survey<'a>)>,
}

impl<'a> Line<'a> {
    /// The line of these parts.
    pub fn new(parts: &[(Join<'a>, Part)]) -> Self {
        let (mut with_pairs, mut before) = (Vec::new(), vec![0.0]);
        for &(join, part) in parts {
            let reaches = reaches(&join, &Tile::whole(&join)).into_iter().enumerate();
            let reaches: Vec<_> = reaches.filter(|(_, reach)| reach.pairs > 0).collect();
            let pairs: u64 = reaches.iter().map(|(_, reach)| reach.pairs).sum();
            if pairs > 0 {
                with_pairs.push((join, part, reaches));
                before.push(before[before.len() - 1] + pairs as f64);
            }
        }
        let mut line = Line { parts: with_pairs, before, surveys: Vec::new() };
        line.surveys = line.surveys(0.0, 1.0).collect();
        line
    }

    /// What all of it takes one core at least, as far as exact counts tell.
    pub fn least_seconds(&self, units: &Units) -> f64 {
        self.surveys.iter().map(|(_, survey)| survey.least_seconds(units)).sum()
    }

    /// What lies between two points: a tile of each part that has some of it, no larger than need be.
    pub fn between(&self, from: f64, to: f64) -> Vec<(Join<'a>, Part, Tile)> {
        self.tiles(from, to).map(|(join, part, tile, _)| (join, part, tile)).collect()
    }

    /// What is known of that without a look at its sets.
    fn surveys(&self, from: f64, to: f64) -> impl Iterator<Item = (Part, Survey<'a>)> {
        self.tiles(from, to).map(|(join, part, tile, reaches)| {
            let mut by_class = vec![Reach::default(); join.probe.classes().len()];
            for (class, reach) in reaches {
                by_class[*class] = reach.within(join.order, &tile).unwrap_or_default();
            }
            (part, Survey::with(&join, &tile, by_class))
        })
    }

    fn tiles(
        &self,
        from: f64,
        to: f64,
    ) -> impl Iterator<Item = (Join<'a>, Part, Tile, &[OfClass])> {
        let all = self.before[self.before.len() - 1];
        self.parts.iter().enumerate().filter_map(move |(at, (join, part, reaches))| {
            let (start, end) = (self.before[at], self.before[at + 1]);
            let local = |point: f64| match end - start {
                // So few pairs beside so many that they do not count: they lie where they begin.
                0.0 => f64::from(point * all > start || point >= 1.0),
                pairs => (point * all - start) / pairs,
            };
            let probes = split_at(reaches, local(from))..split_at(reaches, local(to));
            let tile = tile_of(join.order, reaches, &probes)?;
            Some((*join, *part, tile, &reaches[..]))
        })
    }
}

/// The probe before which lies this share of the pairs that the length filter leaves.
fn split_at(reaches: &[OfClass], share: f64) -> SetId {
    let end = reaches.last().map_or(0, |(_, reach)| reach.probes.end);
    if share >= 1.0 {
        return end;
    }
    if share <= 0.0 {
        return 0;
    }
    let all: u64 = reaches.iter().map(|(_, reach)| reach.pairs).sum();
    let mut left = all as f64 * share;
    for (_, reach) in reaches {
        let pairs = reach.pairs as f64;
        if left < pairs {
            return reach.probes.start + (reach.probes.len() as f64 * left / pairs) as SetId;
        }
        left -= pairs;
    }
    end
}

/// Those of the probes that reach something, and what they reach.
fn tile_of(order: Order, reaches: &[OfClass], within: &Range<SetId>) -> Option<Tile> {
    let first = reaches.partition_point(|(_, reach)| reach.probes.end <= within.start);
    let mut tile: Option<Tile> = None;
    for (_, reach) in &reaches[first..] {
        let probes = reach.probes.start.max(within.start)..reach.probes.end.min(within.end);
        if probes.is_empty() {
            break;
        }
        // The last one meets all that any of them does.
        let builds = reach.of(order, probes.end - 1);
        match &mut tile {
            _ if builds.is_empty() => {}
            None => tile = Some(Tile { probes, builds }),
            Some(tile) => {
                tile.probes.end = probes.end;
                tile.builds.start = tile.builds.start.min(builds.start);
                tile.builds.end = tile.builds.end.max(builds.end);
            }
        }
    }
    tile
}

/// What samples of each part of the line show.
struct Profile<'l, 'a> {
    line: &'l Line<'a>,
    samples: Vec<(Part, Samples)>,
}

impl<'l, 'a> Profile<'l, 'a> {
    /// Takes about so many seconds.
    fn new(line: &'l Line<'a>, seconds: f64) -> Self {
        let sampled = |(part, survey): &(Part, Survey<'a>)| {
            (*part, Samples::new(survey, Effort::of(survey, seconds, FEW)))
        };
        Profile { line, samples: line.surveys.iter().map(sampled).collect() }
    }

    /// The whole line.
    fn all(&self) -> Vec<Survey<'a>> {
        self.seen(self.line.surveys.iter().cloned())
    }

    /// What lies between two points.
    fn between(&self, from: f64, to: f64) -> Vec<Survey<'a>> {
        self.seen(self.line.surveys(from, to))
    }

    fn seen(&self, surveys: impl Iterator<Item = (Part, Survey<'a>)>) -> Vec<Survey<'a>> {
        let seen = surveys.filter_map(|(part, survey)| {
            let (_, samples) = self.samples.iter().find(|one| one.0 == part)?;
            Some(survey.seen_in(samples))
        });
        seen.filter(|survey| survey.pairs > 0).collect()
    }
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
    /// What is kept back for the side that is done first: from one point to another.
    pub kept: [f64; 2],
    /// Seconds of the CPU and of the device for what lies before and after it.
    pub outside: [f64; 2],
    /// Seconds of each for all that is kept back, beside those of a start.
    pub inside: [f64; 2],
    /// Seconds of each that taking some of what is kept back costs, however little.
    pub starts: [f64; 2],
    /// Seconds of the CPU for everything.
    pub cpu_alone: f64,
    /// Seconds of the device for everything.
    pub device_alone: f64,
    /// The techniques of the CPU and of the device, where one does all of a side's part at once: its place
    /// among those offered, and the seconds estimated for it.
    pub techniques: [Option<(usize, f64)>; 2],
}

impl Division {
    /// Seconds of the join.
    pub fn seconds(&self) -> f64 {
        self.cpu.max(self.device)
    }
}

/// Beginning and ending two sides at once.
const TOGETHER: f64 = 0.2e-3;

/// A part of the work that is next to nothing.
const LEAST: f64 = 0.02;

/// A part of the work that is small.
const SMALL: f64 = 0.25;

/// Seconds below which work is not divided, and from which on planning is done with care.
const SHORT: f64 = 1.5e-3;
const LONG: f64 = 20e-3;

/// Seconds of a device below which a look at samples would take a good part of them, and how many times as
/// long the CPU must be assumed to take for none to be needed. So short a join is not divided, and a device
/// is in its start most of the time, of which samples tell nothing.
const NO_LOOK: f64 = 0.75e-3;
const SURELY: f64 = 1.1;

/// The part of the time that a look at samples may take, and list pairs to look at in any case.
const PLANNING: f64 = 0.03;
const FEW: usize = 12;

/// A join that turns out to be so many times as long as was assumed is looked at once more, more closely.
pub(crate) const FAR_LONGER: f64 = 3.0;

/// Divides a join between the CPU and a device. `rates` say how far off estimates have been; `keep_back`
/// says, by the seconds of the join, which part of each side's work whoever comes first is to do.
pub fn divide<'a>(
    line: &Line<'a>,
    cpu: &[&dyn Technique],
    device: &[&dyn Technique],
    means: &Means<'_>,
    rates: &Rates,
    keep_back: impl Fn(f64) -> f64,
) -> Division {
    // What each technique says that it takes: its place among those offered, and seconds.
    let costs = |survey: &Survey<'_>, offered: &[&dyn Technique]| -> Vec<(usize, f64)> {
        let cost = |at: usize| Some(offered[at].cost(survey, means.units)?.seconds(means.threads));
        (0..offered.len()).filter_map(|at| Some((at, cost(at)?))).collect()
    };
    let cheapest = |costs: Vec<(usize, f64)>| costs.into_iter().min_by(|a, b| a.1.total_cmp(&b.1));
    // The seconds that the cheapest one takes, as far as is known here, and the friction beside the other side.
    let of = |surveys: &[Survey<'_>], offered: &[&dyn Technique]| -> (f64, f64) {
        surveys.iter().fold((0.0, 1.0), |(seconds, friction), survey| {
            let Some((at, estimated)) = cheapest(costs(survey, offered)) else {
                return (f64::INFINITY, friction);
            };
            let name = offered[at].name();
            let corrected = estimated * rates.of(name, estimated);
            (seconds + corrected, friction.max(rates.friction(name)))
        })
    };
    let everything =
        |share: f64, all: &[Survey<'_>], [cpu_alone, device_alone]: [f64; 2]| Division {
            share,
            cpu: if share == 0.0 { cpu_alone } else { 0.0 },
            device: if share == 1.0 { device_alone } else { 0.0 },
            kept: [1.0 - share; 2],
            outside: [0.0; 2],
            inside: [0.0; 2],
            starts: [0.0; 2],
            cpu_alone,
            device_alone,
            techniques: match all {
                [survey] if share == 0.0 => [single(survey, cpu, means), None],
                [survey] => [None, cheapest(costs(survey, device))],
                _ => [None; 2],
            },
        };
    // What may be assumed says how closely to look.
    let assumed: Vec<_> = line.surveys.iter().map(|(_, survey)| guess(survey)).collect();
    let alone = [of(&assumed, cpu).0, of(&assumed, device).0];
    if alone[1] < NO_LOOK && alone[0] > SURELY * alone[1] {
        return everything(1.0, &assumed, alone);
    }
    let shortest = alone[0].min(alone[1]);
    let mut profile =
        Profile::new(line, if shortest.is_finite() { shortest * PLANNING } else { 0.0 });
    let mut all = profile.all();
    let found = of(&all, cpu).0.min(of(&all, device).0);
    if found > FAR_LONGER * shortest && found.is_finite() {
        profile = Profile::new(line, found * PLANNING);
        all = profile.all();
    }
    let ((cpu_alone, least), (device_alone, _)) = (of(&all, cpu), of(&all, device));
    // The seconds of CPU and device, working at once, for what lies between two points each.
    let at_once = |parts: [Range<f64>; 2]| {
        let [front, back] = parts.map(|part| profile.between(part.start, part.end));
        let ((front, one), (back, other)) = (of(&front, cpu), of(&back, device));
        [front, back].map(|seconds| seconds * one.max(other))
    };
    let share = if cpu_alone <= device_alone { 0.0 } else { 1.0 };
    let mut best = everything(share, &all, [cpu_alone, device_alone]);
    if !(cpu_alone + device_alone).is_finite() {
        return best;
    }
    let worthwhile = rates.worthwhile() * best.seconds();
    // At best both would work all the time, in each other's way as little as the CPU alone is.
    let [cpu_beside, device_beside] = [cpu_alone, device_alone].map(|seconds| seconds * least);
    let together = cpu_beside * device_beside / (cpu_beside + device_beside) + TOGETHER;
    if together > worthwhile || best.seconds() < SHORT {
        return best;
    }
    let start = of(&profile.between(1.0 - LEAST, 1.0), device).0.min(device_alone) * least;
    // What a start takes does not become less by taking less.
    let together = cpu_beside * device_beside / (cpu_beside + device_beside - start) + TOGETHER;
    if together > worthwhile {
        return best;
    }
    // The more goes to the device, the longer it takes, and the CPU the less: first by what each takes for
    // everything, then between the points of which one was too much and the other too little.
    let (mut enough, mut too_much) = (0.0, 1.0);
    let mut share = cpu_beside / (cpu_beside + device_beside);
    let steps = if best.seconds() < LONG { 4 } else { 10 };
    for _ in 0..steps {
        if !(LEAST..=1.0 - LEAST).contains(&share) {
            break;
        }
        let [front, back] = at_once([0.0..1.0 - share, 1.0 - share..1.0]);
        let together = front.max(back) + TOGETHER;
        if together < best.seconds().min(worthwhile) {
            let (cpu, device) = (front + TOGETHER, back + TOGETHER);
            best = Division { share, cpu, device, ..best };
        }
        if (front - back).abs() < 0.02 * together {
            break;
        }
        *(if front > back { &mut enough } else { &mut too_much }) = share;
        share = f64::midpoint(enough, too_much);
    }
    if best.share > 0.0 && best.share < 1.0 {
        let keep_back = keep_back(best.seconds());
        // The samples of all show more than those that a look at a part would take. The CPU, which has many
        // techniques to choose from, needs them most.
        let known = |from: f64, to: f64, offered: &[&dyn Technique]| {
            let surveys = profile.between(from, to);
            let [survey] = &surveys[..] else { return None };
            let mut costs = costs(survey, offered);
            costs.retain(|&(at, _)| fits(&survey.join, &survey.tile, offered[at], means));
            cheapest(costs)
        };
        if keep_back == 0.0 {
            let at = 1.0 - best.share;
            best.kept = [at; 2];
            best.techniques = [known(0.0, at, cpu), known(at, 1.0, device)];
            return best;
        }
        // A side with a small part is slow: what it has begun would keep the other one waiting.
        let later = |part: f64| if part < SMALL { (2.0 * keep_back).min(1.0) } else { keep_back };
        let now = |part: f64| part * (1.0 - later(part));
        let [from, to] = [now(1.0 - best.share), 1.0 - now(best.share)];
        best.kept = [from, to];
        best.outside = at_once([0.0..from, to..1.0]);
        // A little at either end, and everything, tell what a start takes.
        let little = LEAST.min(to - from);
        let part = little / (to - from);
        let all = at_once([from..to, from..to]);
        let few = at_once([from..from + little, to - little..to]);
        for side in 0..2 {
            let start = (few[side] - part * all[side]) / (1.0 - part).max(f64::EPSILON);
            best.starts[side] = start.clamp(0.0, all[side]);
            best.inside[side] = all[side] - best.starts[side];
        }
        best.techniques = [known(0.0, from, cpu), None];
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tile::tests::{collection, collections};
    use crate::{Cost, Prepared, Room, Units};
    use simjoin_core::{Bounds, Measure, Predicate, Result};
    use std::sync::atomic::{AtomicBool, Ordering};

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
                    let found = divide(&line, &[&cpu], &[&device], &means, &rates, |_| 0.0);
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

    /// Takes so many seconds, and remembers whether it was asked about more than can be assumed.
    struct Fixed(f64, AtomicBool);

    impl Technique for Fixed {
        fn name(&self) -> &'static str {
            "fixed"
        }

        fn cost(&self, survey: &Survey<'_>, _: &Units) -> Option<Cost> {
            let seen = survey.survival != guess(survey).survival;
            self.1.fetch_or(seen, Ordering::Relaxed);
            Some(Cost { serial: self.0, shared: 0.0 })
        }

        fn memory_bytes(&self, _: &Join<'_>, _: &Tile, _: usize) -> u64 {
            0
        }

        fn prepare<'a>(&self, _: &Join<'a>, _: &Tile, _: &Room) -> Result<Box<dyn Prepared + 'a>> {
            unreachable!("only planned")
        }
    }

    #[test]
    fn sets_are_looked_at_unless_a_device_surely_does_a_short_join_sooner() {
        let sets = collection(&[5; 300]);
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
        // Seconds of the CPU and of the device, who gets it, and whether samples were taken.
        for (cpu, device, share, looked) in [
            (0.6e-3, 0.4e-3, 1.0, false),
            (0.41e-3, 0.4e-3, 1.0, true),
            (0.2e-3, 0.4e-3, 0.0, true),
            (6e-3, 0.9e-3, 1.0, true),
        ] {
            let [cpu, device] = [cpu, device].map(|seconds| Fixed(seconds, AtomicBool::default()));
            let found = divide(&line, &[&cpu], &[&device], &means, &rates, |_| 0.0);
            assert_eq!((found.share, device.1.into_inner()), (share, looked), "{found:?}");
            assert_eq!([found.cpu_alone, found.device_alone], [cpu.0, device.0]);
            assert_eq!(found.techniques[share as usize].map(|(at, _)| at), Some(0));
        }
    }

    #[test]
    fn what_lies_between_points_is_everything_once() {
        let (left, right) = collections(&[3, 3, 3, 4, 4, 5, 9, 9], Some(&[3, 4, 4, 5, 9, 10, 10]));
        let bounds = Bounds::new(Predicate::parse(Measure::Jaccard, "0.5").unwrap());
        let parts = Join::parts(&left, right.as_ref(), true, bounds);
        let line = Line::new(&parts);
        for (from, to) in [(0.0, 1.0), (0.0, 0.3), (0.3, 0.8), (0.75, 1.0)] {
            for (_, survey) in line.surveys(from, to) {
                let same = Survey::new(&survey.join, &survey.tile);
                assert_eq!((&survey.reaches, survey.pairs), (&same.reaches, same.pairs));
                assert_eq!(survey.prefixes, same.prefixes);
            }
        }
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
