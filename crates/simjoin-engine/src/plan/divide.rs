//! Which probes for the CPU, and which for a device?
//!
//! The probes of all parts of a join stand in a line, those of a part in rising order of size; a point on
//! it is told by the share of the work that lies before it, which is known before anything was looked at: the mean
//! of the shares of two things that take time, pairs, as the length filter leaves them, and tokens. (By pairs alone,
//! half of the tokens of a collection with a few large sets would lie within a thousandth of the line.) The
//! dichotomy of HySet: what lies before a point is the CPU's, what comes after it, with larger sets, the
//! device's. Both work at once, so the join takes as long as the slower side.
//!
//! The point finds itself. Each side says what the whole join would take it, and what a start costs the
//! device; by the ratio of the two speeds follows a first point, as in the model of heterogeneous
//! clusters, where it is the ratio of memory bandwidths. Then both say what they would take for their
//! part, which moves the point, and so on, more often where more is at stake. All of it follows from one
//! look at samples of the whole line: also what each side had best do its part with, and what is kept back
//! for whoever is done first. Either side may get everything.
//!
//! No pair is lost, whatever the estimates: a probe lies between two neighbouring points and no others, and is
//! given there all that it reaches.

use super::choose::{FAR_LONGER, JUDGED_ON, cheapest, guess, ranges_for};
use crate::{
    CostTable, Direction, Effort, Order, Rates, Reach, Resources, Samples, SetTask, Sets, Survey,
    Technique, Tile, reaches,
};
use simjoin_core::SetId;
use std::ops::Range;
use std::sync::OnceLock;

/// The share of the work that is in a part with so many pairs and tokens of a whole; `None` of nothing.
pub fn work_share(part: [u64; 2], whole: [u64; 2]) -> Option<f64> {
    let share = |of: usize| part[of] as f64 / whole[of] as f64;
    (whole[0] > 0 && whole[1] > 0).then(|| f64::midpoint(share(0), share(1)))
}

/// What the probes of a size class reach.
#[derive(Clone, Debug)]
struct OfClass {
    /// Its place among all.
    class: usize,
    reach: Reach,
    /// Its share of the work.
    work: f64,
}

/// The probes of all parts of a join, in a line.
#[derive(Clone, Debug)]
pub struct Line<'a> {
    /// Those that have pairs, with what their probes reach, by size class.
    parts: Vec<(SetTask<'a>, Direction, Vec<OfClass>)>,
    /// The share of the work before each part, and all of it.
    before: Vec<f64>,
    /// What is known of all of it without a look at its sets, once that is asked for.
    surveys: OnceLock<Vec<(Direction, Survey<'a>)>>,
}

impl<'a> Line<'a> {
    /// The line of these parts.
    pub fn new(parts: &[(SetTask<'a>, Direction)]) -> Self {
        let mut with_pairs: Vec<(SetTask<'a>, Direction, Vec<OfClass>)> = Vec::new();
        for &(join, part) in parts {
            let reaches = reaches(&join, &Tile::whole(&join)).into_iter().enumerate();
            let reaches = reaches.filter(|(_, reach)| reach.pairs > 0);
            let reaches: Vec<_> =
                reaches.map(|(class, reach)| OfClass { class, reach, work: 0.0 }).collect();
            if !reaches.is_empty() {
                with_pairs.push((join, part, reaches));
            }
        }
        let of_class = |join: &SetTask<'_>, reach: &Reach| {
            [reach.pairs, join.probe.tokens_in(&reach.probes) as u64]
        };
        let mut whole = [0; 2];
        for (join, _, reaches) in &with_pairs {
            for one in reaches {
                let [pairs, tokens] = of_class(join, &one.reach);
                whole = [whole[0] + pairs, whole[1] + tokens];
            }
        }
        let (mut before, mut end) = (vec![0.0], 0.0);
        for (join, _, reaches) in &mut with_pairs {
            for one in reaches {
                one.work = work_share(of_class(join, &one.reach), whole).unwrap_or(0.0);
                end += one.work;
            }
            before.push(end);
        }
        Line { parts: with_pairs, before, surveys: OnceLock::new() }
    }

    /// What is known of all of it without a look at its sets.
    fn whole(&self) -> &[(Direction, Survey<'a>)] {
        self.surveys.get_or_init(|| self.surveys(0.0, 1.0).collect())
    }

    /// Where each part but the first begins.
    fn bounds(&self) -> impl Iterator<Item = f64> {
        let all = self.before[self.before.len() - 1];
        let inner = self.before.iter().take(self.before.len() - 1).skip(1);
        inner.map(move |before| before / all)
    }

    /// What all of it takes one core at least, as far as exact counts tell.
    pub fn least_seconds(&self, units: &CostTable) -> f64 {
        self.whole().iter().map(|(_, survey)| survey.least_seconds(units)).sum()
    }

    /// What lies between two points: a tile of each part that has some of it, no larger than need be.
    pub fn between(&self, from: f64, to: f64) -> Vec<(SetTask<'a>, Direction, Tile)> {
        self.tiles(from, to).map(|(join, part, tile, _)| (join, part, tile)).collect()
    }

    /// What is known of what lies between two points without a look at its sets.
    fn surveys(&self, from: f64, to: f64) -> impl Iterator<Item = (Direction, Survey<'a>)> {
        self.tiles(from, to).map(|(join, part, tile, reaches)| {
            let mut by_class = vec![Reach::default(); join.probe.classes().len()];
            for OfClass { class, reach, .. } in reaches {
                by_class[*class] = reach.within(join.order, &tile).unwrap_or_default();
            }
            (part, Survey::with(&join, &tile, by_class))
        })
    }

    fn tiles(
        &self,
        from: f64,
        to: f64,
    ) -> impl Iterator<Item = (SetTask<'a>, Direction, Tile, &[OfClass])> {
        let all = self.before[self.before.len() - 1];
        self.parts.iter().enumerate().filter_map(move |(at, (join, part, reaches))| {
            let (start, end) = (self.before[at], self.before[at + 1]);
            let local = |point: f64| match end - start {
                // So little beside so much that it does not count: it lies where it begins.
                0.0 => f64::from(point * all > start || point >= 1.0),
                work => (point * all - start) / work,
            };
            let probes = split_at(reaches, local(from))..split_at(reaches, local(to));
            let tile = tile_of(join.order, reaches, &probes)?;
            Some((*join, *part, tile, &reaches[..]))
        })
    }
}

/// The probe before which lies this share of the work.
fn split_at(reaches: &[OfClass], share: f64) -> SetId {
    let end = reaches.last().map_or(0, |last| last.reach.probes.end);
    if share >= 1.0 {
        return end;
    }
    if share <= 0.0 {
        return 0;
    }
    let mut left = share * reaches.iter().map(|one| one.work).sum::<f64>();
    for OfClass { reach, work, .. } in reaches {
        if left < *work {
            return reach.probes.start + (reach.probes.len() as f64 * left / work) as SetId;
        }
        left -= work;
    }
    end
}

/// Those of the probes that reach something, and what they reach.
fn tile_of(order: Order, reaches: &[OfClass], within: &Range<SetId>) -> Option<Tile> {
    let first = reaches.partition_point(|one| one.reach.probes.end <= within.start);
    let mut tile: Option<Tile> = None;
    for OfClass { reach, .. } in &reaches[first..] {
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
    /// Where none were taken, what may be assumed serves.
    samples: Option<Vec<(Direction, Samples)>>,
}

impl<'l, 'a> Profile<'l, 'a> {
    /// Takes about so many seconds.
    fn new(line: &'l Line<'a>, seconds: f64) -> Self {
        let sampled = |(part, survey): &(Direction, Survey<'a>)| {
            (*part, Samples::new(survey, Effort::of(survey, seconds, FEW)))
        };
        Profile { line, samples: Some(line.whole().iter().map(sampled).collect()) }
    }

    /// Without a look at any set.
    fn assumed(line: &'l Line<'a>) -> Self {
        Profile { line, samples: None }
    }

    /// How many pairs were looked at.
    fn looked_at(&self) -> usize {
        self.samples.iter().flatten().map(|(_, samples)| samples.pairs()).sum()
    }

    /// The whole line.
    fn all(&self) -> Vec<Survey<'a>> {
        self.seen(self.line.whole().iter().cloned())
    }

    /// What lies between two points.
    fn between(&self, from: f64, to: f64) -> Vec<Survey<'a>> {
        self.seen(self.line.surveys(from, to))
    }

    fn seen(&self, surveys: impl Iterator<Item = (Direction, Survey<'a>)>) -> Vec<Survey<'a>> {
        let seen = surveys.filter_map(|(part, survey)| match &self.samples {
            None => Some(guess(&survey)),
            Some(samples) => {
                let (_, samples) = samples.iter().find(|one| one.0 == part)?;
                Some(survey.seen_in(samples))
            }
        });
        seen.filter(|survey| survey.pairs > 0).collect()
    }
}

/// What lies between two points, and the technique that is to do it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Chosen {
    /// Where it begins.
    pub from: f64,
    /// Where it ends.
    pub to: f64,
    /// Its place among those offered.
    pub technique: usize,
    /// The seconds estimated for it.
    pub seconds: f64,
}

/// How the work is divided, and what is expected of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Division {
    /// The device's part of the work.
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
    /// What the CPU and the device are to do their parts with: all of what lies before and after what is kept
    /// back, in order; nothing where no technique can.
    pub techniques: [Vec<Chosen>; 2],
    /// What each had best do what is kept back with.
    pub techniques_inside: [Vec<Chosen>; 2],
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

/// The part of the time that a look at samples may take by what [`Effort`] expects of them, which is half of
/// what they take; and list pairs to look at in any case.
const PLANNING: f64 = 0.02;
const FEW: usize = 12;

/// Pairs to have looked at for each range of sizes that is planned by itself.
const OF_RANGE: usize = 400;

/// What several techniques must promise over one: of ranges there are few samples, so that each may look best
/// with another technique by chance. Variants of one are not worth beginning anew.
const SEVERAL: f64 = 0.95;

/// What both together may take over what they would if all parts of the work were alike.
const HOPE: f64 = 0.93;

/// What dividing work must promise where the device is the slower side. It gets what lies at the end of the line, a
/// few large sets of which samples say little: beside simulated devices of a tenth of a core, the CPU was done in half
/// to two thirds of the time that they took (2026-11-18). One that is so slow is worth a tenth at best.
const OF_SLOW_DEVICE: f64 = 0.9;

/// How many times as long it is taken to be then, at most: what it takes is estimated too low there, and too much for it
/// costs more than too little. `debian_files` at 0.5 beside three tenths of a core took 73 ms with 0.42 of the work, by
/// which both were expected to end together, and 63 with 0.35 (2026-11-18).
const SLOW_DEVICE_LONGER: f64 = 1.25;

/// More than a part, but not all.
fn more_than(part: f64) -> f64 {
    1.0 - (1.0 - part).powi(3)
}

/// Who works, and what is known of them.
#[derive(Clone, Copy)]
pub struct Sides<'s> {
    /// Techniques of the CPU.
    pub cpu: &'s [&'s dyn Technique<Sets>],
    /// Techniques of the device.
    pub device: &'s [&'s dyn Technique<Sets>],
    /// What plans are made with.
    pub means: &'s Resources<'s>,
    /// How far off estimates have been.
    pub rates: &'s Rates,
}

impl Sides<'_> {
    /// The cheapest technique for what was surveyed: its place among those offered, and seconds.
    fn cheapest(
        &self,
        survey: &Survey<'_>,
        offered: &[&dyn Technique<Sets>],
    ) -> Option<(usize, f64)> {
        let Resources { units, threads, .. } = *self.means;
        let cost = |at: usize| Some((at, offered[at].cost(survey, units)?.seconds(threads)));
        (0..offered.len()).filter_map(cost).min_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// The seconds that the cheapest techniques take, as far as is known here, and the friction beside the other
    /// side.
    fn seconds(&self, surveys: &[Survey<'_>], offered: &[&dyn Technique<Sets>]) -> (f64, f64) {
        surveys.iter().fold((0.0, 1.0), |(seconds, friction), survey| {
            let Some((at, estimated)) = self.cheapest(survey, offered) else {
                return (f64::INFINITY, friction);
            };
            let name = offered[at].name();
            let corrected = estimated * self.rates.of(name, estimated);
            (seconds + corrected, friction.max(self.rates.friction(name)))
        })
    }

    /// The seconds that the CPU loses at first beside the device, which does this.
    fn lost_beside(&self, surveys: &[Survey<'_>]) -> f64 {
        let lost = |survey: &Survey<'_>| {
            let (at, _) = self.cheapest(survey, self.device)?;
            let tokens = survey.tile.tokens(&survey.join);
            Some(self.rates.lost_beside(self.device[at].name(), tokens))
        };
        surveys.iter().filter_map(lost).fold(0.0, f64::max)
    }

    /// Looks at the sets of a line, more closely the longer it takes the faster side.
    fn look<'l, 'a>(&self, line: &'l Line<'a>, assumed: f64) -> (Profile<'l, 'a>, Vec<Survey<'a>>) {
        let shortest = |surveys: &[Survey<'_>]| {
            self.seconds(surveys, self.cpu).0.min(self.seconds(surveys, self.device).0)
        };
        let some = if assumed.is_finite() { assumed * PLANNING } else { 0.0 };
        let mut profile = Profile::new(line, some);
        let mut all = profile.all();
        let found = shortest(&all);
        if found > FAR_LONGER * assumed && found.is_finite() {
            profile = Profile::new(line, found * PLANNING);
            all = profile.all();
        }
        (profile, all)
    }

    /// In how many ranges to look at it: the more the longer it takes, if there are samples of each.
    fn ranges(&self, profile: &Profile<'_, '_>, surveys: &[Survey<'_>]) -> usize {
        let least = surveys.iter().map(|one| one.least_seconds(self.means.units)).sum();
        ranges_for(least).min(profile.looked_at() / OF_RANGE).max(1)
    }

    /// What to do a part of the line with, of which these are the surveys: by one technique, or, where it is
    /// long, by the one that is cheapest in each of some ranges of it, as [`choose_for`](super::choose_for)
    /// would. Judged by the time on so many threads.
    fn choose(
        &self,
        profile: &Profile<'_, '_>,
        surveys: &[Survey<'_>],
        [from, to]: [f64; 2],
        on_cpu: bool,
        judged_on: usize,
    ) -> Vec<Chosen> {
        let offered = if on_cpu { self.cpu } else { self.device };
        let by_one = |surveys: &[Survey<'_>], [from, to]: [f64; 2]| {
            let (technique, seconds) = cheapest(surveys, offered, self.means, judged_on)?;
            Some(Chosen { from, to, technique, seconds })
        };
        let whole = by_one(surveys, [from, to]);
        let count = if on_cpu { self.ranges(profile, surveys) } else { 1 };
        if count == 1 && surveys.len() <= 1 {
            return whole.into_iter().collect();
        }
        // Where another part of the join begins, another technique may be the best.
        let inside = |point: &f64| from < *point && *point < to;
        let equal = (1..count).map(|at| from + (to - from) * at as f64 / count as f64);
        let mut points: Vec<f64> = equal.chain(profile.line.bounds()).filter(inside).collect();
        points.extend([from, to]);
        points.sort_unstable_by(f64::total_cmp);
        points.dedup();
        let mut chosen: Vec<Chosen> = Vec::new();
        for two in points.windows(2) {
            let next = by_one(&profile.between(two[0], two[1]), [two[0], two[1]]);
            let Some(next) = next else { return whole.into_iter().collect() };
            match chosen.last_mut().filter(|last| last.technique == next.technique) {
                Some(last) => (last.to, last.seconds) = (next.to, last.seconds + next.seconds),
                None => chosen.push(next),
            }
        }
        let seconds: f64 = chosen.iter().map(|one| one.seconds).sum();
        let name = |one: &Chosen| offered[one.technique].name();
        let alike = chosen.windows(2).all(|two| name(&two[0]) == name(&two[1]));
        match whole {
            Some(whole) if alike || SEVERAL * whole.seconds < seconds => vec![whole],
            _ => chosen,
        }
    }

    /// Divides a join at a point given by hand: what each side is to do its part with.
    pub fn choose_at(&self, line: &Line<'_>, point: f64) -> [Vec<Chosen>; 2] {
        self.choose_both(&self.glance(line), [[0.0, point], [point, 1.0]])
    }

    /// What the device had best do all of a join with.
    pub fn choose_device(&self, line: &Line<'_>) -> Vec<Chosen> {
        let profile = self.glance(line);
        self.choose(&profile, &profile.all(), [0.0, 1.0], false, JUDGED_ON)
    }

    /// Looks at the sets of a line, unless that would take a good part of the join.
    fn glance<'l, 'a>(&self, line: &'l Line<'a>) -> Profile<'l, 'a> {
        let assumed = Profile::assumed(line);
        let all = assumed.all();
        let seconds = |offered| self.seconds(&all, offered).0;
        let shortest = seconds(self.cpu).min(seconds(self.device));
        if shortest < NO_LOOK { assumed } else { self.look(line, shortest).0 }
    }

    /// What the CPU and the device had best do a part each with.
    fn choose_both(&self, profile: &Profile<'_, '_>, parts: [[f64; 2]; 2]) -> [Vec<Chosen>; 2] {
        let [cpu, device] = parts.map(|[from, to]| profile.between(from, to));
        let threads = self.means.threads;
        [
            self.choose(profile, &cpu, parts[0], true, threads),
            self.choose(profile, &device, parts[1], false, threads),
        ]
    }

    /// Divides a join between the CPU and the device. `keep_back` says, by the seconds of the join and those that
    /// coming back for more costs each side, which part of the work of each whoever comes first is to do.
    pub fn divide(
        &self,
        line: &Line<'_>,
        keep_back: impl Fn(f64, Option<[f64; 2]>) -> [f64; 2],
    ) -> Division {
        let Sides { cpu, device, means, rates } = *self;
        let everything = |share: f64,
                          profile: &Profile<'_, '_>,
                          all: &[Survey<'_>],
                          [cpu_alone, device_alone]: [f64; 2]| Division {
            share,
            cpu: if share == 0.0 { cpu_alone } else { 0.0 },
            device: if share == 1.0 { device_alone } else { 0.0 },
            kept: [1.0 - share; 2],
            outside: [0.0; 2],
            inside: [0.0; 2],
            starts: [0.0; 2],
            cpu_alone,
            device_alone,
            techniques: if share == 0.0 {
                [self.choose(profile, all, [0.0, 1.0], true, JUDGED_ON), Vec::new()]
            } else {
                [Vec::new(), self.choose(profile, all, [0.0, 1.0], false, means.threads)]
            },
            techniques_inside: Default::default(),
        };
        // What may be assumed says how closely to look.
        let assumed = Profile::assumed(line);
        let surveys = assumed.all();
        let alone = [self.seconds(&surveys, cpu).0, self.seconds(&surveys, device).0];
        let always = rates.divides_always();
        if alone[1] < NO_LOOK && alone[0] > SURELY * alone[1] && !always {
            return everything(1.0, &assumed, &surveys, alone);
        }
        let (profile, all) = self.look(line, alone[0].min(alone[1]));
        let ((cpu_alone, least), (device_alone, _)) =
            (self.seconds(&all, cpu), self.seconds(&all, device));
        // Several techniques may do all of it sooner than one, and then parts of it too, about as much.
        let mixed = if self.ranges(&profile, &all) > 1 {
            let by_one = all.iter().filter_map(|one| Some(self.cheapest(one, cpu)?.1));
            let by_one: f64 = by_one.sum();
            let several = self.choose(&profile, &all, [0.0, 1.0], true, means.threads);
            let several: f64 = several.iter().map(|one| one.seconds).sum();
            if several > 0.0 { (several / by_one).min(1.0) } else { 1.0 }
        } else {
            1.0
        };
        let cpu_alone = cpu_alone * mixed;
        // The seconds of CPU and device, working at once, for what lies between two points each.
        let at_once = |parts: [Range<f64>; 2]| {
            let [front, back] = parts.map(|part| profile.between(part.start, part.end));
            let ((front, one), (back, other)) =
                (self.seconds(&front, cpu), self.seconds(&back, device));
            [front * mixed, back].map(|seconds| seconds * one.max(other))
        };
        // The same of what they begin with.
        let lost = self.lost_beside(&all);
        let longer = (device_alone / cpu_alone).clamp(1.0, SLOW_DEVICE_LONGER);
        let from_the_first = |parts: [Range<f64>; 2]| {
            let [front, back] = at_once(parts);
            [front + lost, back * longer]
        };
        let share = if cpu_alone <= device_alone { 0.0 } else { 1.0 };
        let alone = || everything(share, &profile, &all, [cpu_alone, device_alone]);
        if !(cpu_alone + device_alone).is_finite() {
            return alone();
        }
        let shortest = cpu_alone.min(device_alone);
        let slow = if device_alone > cpu_alone && !always { OF_SLOW_DEVICE } else { f64::INFINITY };
        let worthwhile = rates.worthwhile().min(slow) * shortest;
        // At best both would work all the time, in each other's way as little as the CPU alone is.
        let [cpu_beside, device_beside] = [cpu_alone, device_alone].map(|seconds| seconds * least);
        let together = cpu_beside * device_beside / (cpu_beside + device_beside) + TOGETHER;
        // What a few samples show of the parts of a short join may be anything.
        let known = profile.looked_at() >= rates.enough();
        // Where there is time to look, what lies at the front may pay more than the rest.
        let hope = if shortest < LONG { 1.0 } else { HOPE };
        if hope * together > worthwhile || (shortest < SHORT && !always) || !known {
            return alone();
        }
        // At the end of the line, a little may be a few huge sets that take long.
        let little = [[0.0, LEAST], [1.0 - LEAST, 1.0]].map(|[from, to]| {
            let little = profile.between(from, to);
            self.seconds(&little, device).0
        });
        let start = little[0].min(little[1]).min(device_alone) * least;
        // What a start takes does not become less by taking less.
        let together = cpu_beside * device_beside / (cpu_beside + device_beside - start) + TOGETHER;
        if hope * together > worthwhile {
            return alone();
        }
        // The more goes to the device, the longer it takes, and the CPU the less: first by what each takes for
        // everything, then between the points of which one was too much and the other too little.
        let (mut enough, mut too_much) = (0.0, 1.0);
        let mut share = cpu_beside / (cpu_beside + device_beside);
        let steps = if shortest < LONG { 4 } else { 10 };
        // The share, and the seconds of CPU and device.
        let mut best: Option<(f64, [f64; 2])> = None;
        for _ in 0..steps {
            if !(LEAST..=1.0 - LEAST).contains(&share) {
                break;
            }
            let [front, back] = from_the_first([0.0..1.0 - share, 1.0 - share..1.0]);
            let together = front.max(back) + TOGETHER;
            let before = best.map_or(worthwhile, |(_, [front, back])| front.max(back));
            if together < before {
                best = Some((share, [front + TOGETHER, back + TOGETHER]));
            }
            if (front - back).abs() < 0.02 * together {
                break;
            }
            *(if front > back { &mut enough } else { &mut too_much }) = share;
            share = f64::midpoint(enough, too_much);
        }
        let Some((share, [cpu, device])) = best else { return alone() };
        // Seconds of each side for what lies between two points, beside those of a start, and those: a little at
        // either end, and everything, tell.
        let with_start = |[from, to]: [f64; 2]| {
            let little = LEAST.min(to - from);
            let part = little / (to - from);
            let all = at_once([from..to, from..to]);
            let few = at_once([from..from + little, to - little..to]);
            let start = |side: usize| {
                let start = (few[side] - part * all[side]) / (1.0 - part).max(f64::EPSILON);
                start.clamp(0.0, all[side])
            };
            let starts = [start(0), start(1)];
            ([all[0] - starts[0], all[1] - starts[1]], starts)
        };
        let kept_for = |[of_cpu, of_device]: [f64; 2]| {
            // A side with a small part is slow: what it has begun would keep the other one waiting.
            let later = |part: f64, kept: f64| if part < SMALL { more_than(kept) } else { kept };
            let now = |part: f64, kept: f64| part * (1.0 - later(part, kept));
            // A slow device is not to be waited for either.
            let of_device = if share < 0.5 { of_device.max(of_cpu) } else { of_device };
            if of_cpu.max(of_device) == 0.0 {
                [1.0 - share; 2]
            } else {
                [now(1.0 - share, of_cpu), 1.0 - now(share, of_device)]
            }
        };
        // How much follows from what it costs to come back for it, which hardly depends on how much it is.
        let mut kept = kept_for(keep_back(cpu.max(device), None));
        let (mut inside, mut starts) = ([0.0; 2], [0.0; 2]);
        if kept[0] < kept[1] {
            (inside, starts) = with_start(kept);
            let known = kept_for(keep_back(cpu.max(device), Some(starts)));
            if known != kept {
                kept = known;
                (inside, starts) =
                    if kept[0] < kept[1] { with_start(kept) } else { Default::default() };
            }
        }
        let [from, to] = kept;
        Division {
            share,
            cpu,
            device,
            kept,
            outside: if from < to { from_the_first([0.0..from, to..1.0]) } else { [0.0; 2] },
            inside,
            starts,
            cpu_alone,
            device_alone,
            techniques: self.choose_both(&profile, [[0.0, from], [to, 1.0]]),
            techniques_inside: if from < to {
                self.choose_both(&profile, [kept; 2])
            } else {
                Default::default()
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sets::tile::tests::{collection, collections};
    use crate::{Budget, Cost, CostTable, Prepared};
    use simjoin_core::{Bounds, Measure, Predicate, Result, SetCollection};
    use std::sync::atomic::{AtomicBool, Ordering};

    fn line_of(sets: &SetCollection) -> Line<'_> {
        let bounds = Bounds::new(Predicate::parse(Measure::Jaccard, "0.5").unwrap());
        Line::new(&SetTask::parts(sets, None, false, bounds))
    }

    /// As many sets of each of some sizes.
    fn rising() -> SetCollection {
        let sizes: Vec<u32> = (0..3000).map(|at| 5 + at / 150).collect();
        collection(&sizes)
    }

    fn pairs_of(line: &Line<'_>) -> f64 {
        line.whole().iter().map(|(_, survey)| survey.pairs as f64).sum()
    }

    fn one_thread(units: &CostTable) -> Resources<'_> {
        let (memory, device_memory) = (u64::MAX, u64::MAX);
        Resources { units, threads: 1, memory, device_memory, explain: false }
    }

    /// Takes so long to start, and so long for a pair; for each token of it, if asked to.
    struct Rate {
        start: f64,
        pair: f64,
        by_size: bool,
    }

    impl Technique<Sets> for Rate {
        fn name(&self) -> &'static str {
            "rate"
        }

        fn cost(&self, survey: &Survey<'_>, _: &CostTable) -> Option<Cost> {
            let each = if self.by_size { self.pair * survey.mean_size } else { self.pair };
            Some(Cost { serial: self.start + each * survey.pairs as f64, shared: 0.0 })
        }

        fn memory_bytes(&self, _: &SetTask<'_>, _: &Tile, _: usize) -> u64 {
            0
        }

        fn prepare<'a>(
            &self,
            _: &SetTask<'a>,
            _: &Tile,
            _: &Budget,
        ) -> Result<Box<dyn Prepared<Sets> + 'a>> {
            unreachable!("only planned")
        }
    }

    #[test]
    fn both_sides_end_at_about_the_same_time_whatever_their_speeds() {
        let sets = rising();
        let line = line_of(&sets);
        let (units, rates) = (CostTable::default(), Rates::default());
        let means = one_thread(&units);
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
                    let sides =
                        Sides { cpu: &[&cpu], device: &[&device], means: &means, rates: &rates };
                    let found = sides.divide(&line, |_, _| [0.0; 2]);
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
    fn a_join_of_which_little_was_seen_is_not_divided() {
        let sets = rising();
        let line = line_of(&sets);
        let (units, rates) = (CostTable::default(), Rates::default());
        let means = one_thread(&units);
        let pairs = pairs_of(&line);
        for (seconds, divided) in [(3e-3, false), (0.3, true)] {
            let rate = Rate { start: 0.0, pair: seconds / pairs, by_size: false };
            let sides = Sides { cpu: &[&rate], device: &[&rate], means: &means, rates: &rates };
            let share = sides.divide(&line, |_, _| [0.0; 2]).share;
            assert_eq!(share > 0.0 && share < 1.0, divided, "{seconds}: {share}");
        }
    }

    /// Takes so long for a pair of sets that are small, and of those that are not.
    struct Suited {
        name: &'static str,
        small: f64,
        large: f64,
    }

    impl Technique<Sets> for Suited {
        fn name(&self) -> &'static str {
            self.name
        }

        fn cost(&self, survey: &Survey<'_>, _: &CostTable) -> Option<Cost> {
            let classes = survey.join.probe.classes().iter().zip(&survey.reaches);
            let each = |size: u32| if size < 15 { self.small } else { self.large };
            let pairs = classes.map(|(class, reach)| each(class.size) * reach.pairs as f64);
            Some(Cost { serial: 1e-4 + pairs.sum::<f64>(), shared: 0.0 })
        }

        fn memory_bytes(&self, _: &SetTask<'_>, _: &Tile, _: usize) -> u64 {
            0
        }

        fn prepare<'a>(
            &self,
            _: &SetTask<'a>,
            _: &Tile,
            _: &Budget,
        ) -> Result<Box<dyn Prepared<Sets> + 'a>> {
            unreachable!("only planned")
        }
    }

    #[test]
    fn a_long_part_is_done_by_several_techniques_each_where_it_is_best() {
        let sizes: Vec<u32> = (0..4000).map(|at| 5 + at / 200).collect();
        let sets = collection(&sizes);
        let line = line_of(&sets);
        // Lists take so long to make that all of it is looked at in ranges.
        let units = CostTable { entry: 1e-4, scan: [1e-6; 6], ..CostTable::default() };
        let rates = Rates::default();
        let means = one_thread(&units);
        let suited = |name, small, large| Suited { name, small, large };
        let (first, second) = (suited("first", 1e-7, 1e-6), suited("second", 1e-6, 1e-7));
        let device = suited("device", 2e-7, 2e-7);
        let sides =
            Sides { cpu: &[&first, &second], device: &[&device], means: &means, rates: &rates };
        let covers = |chosen: &[Chosen], from: f64, to: f64| {
            assert_eq!((chosen[0].from, chosen[chosen.len() - 1].to), (from, to), "{chosen:?}");
            assert!(chosen.windows(2).all(|two| two[0].to == two[1].from), "{chosen:?}");
        };
        let [cpu, of_device] = sides.choose_at(&line, 0.9);
        covers(&cpu, 0.0, 0.9);
        covers(&of_device, 0.9, 1.0);
        let places = |chosen: &[Chosen]| chosen.iter().map(|one| one.technique).collect::<Vec<_>>();
        assert_eq!(places(&cpu), [0, 1]);
        // Two variants of one technique are not.
        let variants = [suited("first", 1e-7, 1e-6), suited("first", 1e-6, 1e-7)];
        let alike = Sides { cpu: &[&variants[0], &variants[1]], ..sides };
        assert_eq!(alike.choose_at(&line, 0.9)[0].len(), 1);
        // What both together take is known when the join is divided, and so is who does what is kept back.
        for part in [0.0, 0.25, 0.5] {
            let found = sides.divide(&line, |_, _| [part; 2]);
            assert!(found.share > 0.2 && found.share < 0.5, "{found:?}");
            let [from, to] = found.kept;
            assert_eq!(from < to, part > 0.0);
            covers(&found.techniques[0], 0.0, from);
            covers(&found.techniques[1], to, 1.0);
            if part > 0.0 {
                covers(&found.techniques_inside[0], from, to);
                covers(&found.techniques_inside[1], from, to);
            }
            // One technique alone would take five times as long.
            assert!(found.cpu_alone < 1.3e-7 * pairs_of(&line), "{found:?}");
        }
    }

    #[test]
    fn a_device_that_is_far_slower_gets_nothing() {
        let sets = rising();
        let line = line_of(&sets);
        let (units, rates) = (CostTable::default(), Rates::default());
        let means = one_thread(&units);
        let rate =
            |speed: f64| Rate { start: 0.0, pair: 0.3 / speed / pairs_of(&line), by_size: false };
        for (speed, divided) in [(0.1, false), (0.3, true), (1.0 / 0.3, true)] {
            let (cpu, device) = (rate(1.0), rate(speed));
            let sides = Sides { cpu: &[&cpu], device: &[&device], means: &means, rates: &rates };
            let share = sides.divide(&line, |_, _| [0.0; 2]).share;
            assert_eq!(share > 0.0, divided, "{speed}: {share}");
        }
    }

    #[test]
    fn nothing_is_kept_back_where_coming_back_for_it_turns_out_to_cost_too_much() {
        let sets = rising();
        let line = line_of(&sets);
        let (units, rates) = (CostTable::default(), Rates::default());
        let means = one_thread(&units);
        let rate = |start| Rate { start, pair: 0.3 / pairs_of(&line), by_size: false };
        let (cpu, device) = (rate(0.0), rate(0.02));
        let sides = Sides { cpu: &[&cpu], device: &[&device], means: &means, rates: &rates };
        let keep_back = |_: f64, starts: Option<[f64; 2]>| match starts {
            Some([_, start]) if start > 0.015 => [0.0; 2],
            _ => [0.25; 2],
        };
        let found = sides.divide(&line, keep_back);
        assert!(found.share > 0.3 && found.share < 0.5, "{found:?}");
        assert_eq!(found.kept, [1.0 - found.share; 2]);
        assert_eq!((found.inside, found.starts), ([0.0; 2], [0.0; 2]));
        assert_eq!(found.techniques[0][0].to, found.techniques[1][0].from);
    }

    /// Takes so many seconds, and remembers whether it was asked about more than can be assumed.
    struct Fixed(f64, AtomicBool);

    impl Technique<Sets> for Fixed {
        fn name(&self) -> &'static str {
            "fixed"
        }

        fn cost(&self, survey: &Survey<'_>, _: &CostTable) -> Option<Cost> {
            let seen = survey.survival != guess(survey).survival;
            self.1.fetch_or(seen, Ordering::Relaxed);
            Some(Cost { serial: self.0, shared: 0.0 })
        }

        fn memory_bytes(&self, _: &SetTask<'_>, _: &Tile, _: usize) -> u64 {
            0
        }

        fn prepare<'a>(
            &self,
            _: &SetTask<'a>,
            _: &Tile,
            _: &Budget,
        ) -> Result<Box<dyn Prepared<Sets> + 'a>> {
            unreachable!("only planned")
        }
    }

    #[test]
    fn sets_are_looked_at_unless_a_device_surely_does_a_short_join_sooner() {
        let sets = collection(&[5; 300]);
        let line = line_of(&sets);
        let (units, rates) = (CostTable::default(), Rates::default());
        let means = one_thread(&units);
        // Seconds of the CPU and of the device, who gets it, and whether samples were taken.
        for (cpu, device, share, looked) in [
            (0.6e-3, 0.4e-3, 1.0, false),
            (0.41e-3, 0.4e-3, 1.0, true),
            (0.2e-3, 0.4e-3, 0.0, true),
            (6e-3, 0.9e-3, 1.0, true),
        ] {
            let [cpu, device] = [cpu, device].map(|seconds| Fixed(seconds, AtomicBool::default()));
            let sides = Sides { cpu: &[&cpu], device: &[&device], means: &means, rates: &rates };
            let found = sides.divide(&line, |_, _| [0.0; 2]);
            assert_eq!((found.share, device.1.into_inner()), (share, looked), "{found:?}");
            assert_eq!([found.cpu_alone, found.device_alone], [cpu.0, device.0]);
            let places: Vec<_> =
                found.techniques[share as usize].iter().map(|one| one.technique).collect();
            assert_eq!(places, [0]);
        }
    }

    #[test]
    fn what_lies_between_points_is_everything_once() {
        let (left, right) = collections(&[3, 3, 3, 4, 4, 5, 9, 9], Some(&[3, 4, 4, 5, 9, 10, 10]));
        let bounds = Bounds::new(Predicate::parse(Measure::Jaccard, "0.5").unwrap());
        let parts = SetTask::parts(&left, right.as_ref(), true, bounds);
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
