//! Which probes of a join of sets go to the CPU, and which to a device?
//!
//! The dichotomy of HySet: probes before a point of the [axis](ProbeAxis) go to the CPU, those after it, with larger
//! sets, to the device. Both work at the same time, so the join takes as long as the slower side.
//!
//! The split point is found by bisection, starting from the ratio of the two estimated speeds. All estimates follow
//! from one set of samples of the whole axis, and so do the techniques of each part. Either processor may get
//! everything. A part around the point is queued for the processor that finishes first, because estimates are wrong.

use super::choose::{FAR_LONGER, JUDGED_ON, Resources, cheapest, guess, ranges_for};
use super::{Chosen, Corrections, Division, ProbeAxis, Queued, Tuning};
use crate::kind::Direction;
use crate::processor::{PerProcessor, Processor};
use crate::run::ChunkSize;
use crate::sets::{Effort, Samples, Sets, Survey};
use crate::technique::Technique;

/// The fraction of the time that sampling may take by the estimate of [`Effort`], which is half of what it takes; and
/// the smallest number of list pairs to sample.
const PLANNING: f64 = 0.02;
const FEW: usize = 12;

/// The number of pairs to sample for each range of sizes that is planned by itself.
const OF_RANGE: usize = 400;

/// The bisection stops when both sides finish within this fraction of the time, or after this many steps.
const CLOSE: f64 = 0.02;
const STEPS: usize = 10;

/// The samples of each direction.
struct Profile<'l, 'a> {
    axis: &'l ProbeAxis<'a>,
    /// `None` if no samples were taken: assumptions are used instead.
    samples: Option<Vec<(Direction, Samples)>>,
}

impl<'l, 'a> Profile<'l, 'a> {
    /// Draws samples for about `seconds`.
    fn sampled(axis: &'l ProbeAxis<'a>, seconds: f64) -> Self {
        let sampled = |(direction, survey): &(Direction, Survey<'a>)| {
            (*direction, Samples::new(survey, Effort::of(survey, seconds, FEW)))
        };
        Profile { axis, samples: Some(axis.whole().iter().map(sampled).collect()) }
    }

    /// Uses assumptions instead of samples.
    fn assumed(axis: &'l ProbeAxis<'a>) -> Self {
        Profile { axis, samples: None }
    }

    /// Returns the number of pairs sampled.
    fn pairs(&self) -> usize {
        self.samples.iter().flatten().map(|(_, samples)| samples.pairs()).sum()
    }

    fn whole(&self) -> Vec<Survey<'a>> {
        self.complete(self.axis.whole().iter().cloned())
    }

    fn between(&self, [from, to]: [f64; 2]) -> Vec<Survey<'a>> {
        self.complete(self.axis.surveys(from, to))
    }

    fn complete(&self, surveys: impl Iterator<Item = (Direction, Survey<'a>)>) -> Vec<Survey<'a>> {
        let seen = surveys.filter_map(|(direction, survey)| match &self.samples {
            None => Some(guess(&survey)),
            Some(samples) => {
                let (_, samples) = samples.iter().find(|one| one.0 == direction)?;
                Some(survey.seen_in(samples))
            }
        });
        seen.filter(|survey| survey.pairs > 0).collect()
    }
}

/// The techniques of both processors, and the facts that estimates are made from.
#[derive(Clone)]
pub(super) struct Sides<'s> {
    pub(super) techniques: PerProcessor<Vec<&'s dyn Technique<Sets>>>,
    pub(super) resources: Resources<'s>,
    pub(super) corrections: &'s Corrections,
    /// The fraction of each processor's work that is queued, if the caller fixed it.
    pub(super) queued: Option<f64>,
}

impl Sides<'_> {
    /// Returns the estimated seconds of the cheapest techniques of a processor, corrected by past joins.
    fn seconds(&self, surveys: &[Survey<'_>], processor: Processor) -> f64 {
        let Resources { costs, threads, .. } = self.resources;
        let of_survey = |survey: &Survey<'_>| {
            let estimate = |technique: &&dyn Technique<Sets>| {
                let seconds = technique.cost(survey, costs)?.seconds(threads);
                Some((seconds, technique.name()))
            };
            let all = self.techniques[processor].iter().filter_map(estimate);
            let (seconds, name) = all.min_by(|a, b| a.0.total_cmp(&b.0))?;
            Some(seconds * self.corrections.of(name, seconds))
        };
        surveys.iter().map(|survey| of_survey(survey).unwrap_or(f64::INFINITY)).sum()
    }

    /// Samples an axis, more closely the longer the faster processor takes.
    fn sample<'l, 'a>(&self, axis: &'l ProbeAxis<'a>, assumed: f64) -> Profile<'l, 'a> {
        let worth = if assumed.is_finite() { assumed * PLANNING } else { 0.0 };
        let profile = Profile::sampled(axis, worth);
        let whole = profile.whole();
        let found = Processor::ALL.map(|processor| self.seconds(&whole, processor));
        let found = found[0].min(found[1]);
        if found > FAR_LONGER * assumed && found.is_finite() {
            return Profile::sampled(axis, found * PLANNING);
        }
        profile
    }

    /// Chooses the techniques for a part of the axis: one technique, or, if the part is long, the cheapest one in each
    /// of a few ranges. Times are compared on `judged_on` threads.
    fn choose(
        &self,
        profile: &Profile<'_, '_>,
        [from, to]: [f64; 2],
        processor: Processor,
        judged_on: usize,
    ) -> Vec<Chosen> {
        let offered = &self.techniques[processor][..];
        let by_one = |[from, to]: [f64; 2]| {
            let surveys = profile.between([from, to]);
            let (technique, seconds) = cheapest(&surveys, offered, &self.resources, judged_on)?;
            Some((Chosen { from, to, technique, seconds }, surveys))
        };
        let Some((whole, surveys)) = by_one([from, to]) else { return Vec::new() };
        let count = match processor {
            Processor::Cpu => {
                let least = surveys.iter().map(|one| one.least_seconds(self.resources.costs));
                ranges_for(least.sum()).min(profile.pairs() / OF_RANGE).max(1)
            }
            Processor::Device => 1,
        };
        if count == 1 && surveys.len() <= 1 {
            return vec![whole];
        }
        // At the start of another direction, another technique may become the best.
        let inside = |point: &f64| from < *point && *point < to;
        let equal = (1..count).map(|at| from + (to - from) * at as f64 / count as f64);
        let mut points: Vec<f64> = equal.chain(profile.axis.bounds()).filter(inside).collect();
        points.extend([from, to]);
        points.sort_unstable_by(f64::total_cmp);
        points.dedup();
        let mut chosen: Vec<Chosen> = Vec::new();
        for two in points.windows(2) {
            let Some((next, _)) = by_one([two[0], two[1]]) else { return vec![whole] };
            match chosen.last_mut().filter(|last| last.technique == next.technique) {
                Some(last) => (last.to, last.seconds) = (next.to, last.seconds + next.seconds),
                None => chosen.push(next),
            }
        }
        let seconds: f64 = chosen.iter().map(|one| one.seconds).sum();
        let name = |one: &Chosen| offered[one.technique].name();
        // Ranges have few samples, and another variant of the same technique is not worth another start-up.
        let alike = chosen.windows(2).all(|two| name(&two[0]) == name(&two[1]));
        if alike || Tuning::WORTHWHILE * whole.seconds < seconds { vec![whole] } else { chosen }
    }

    /// Samples the axis, unless that would take a noticeable fraction of the join.
    fn glance<'l, 'a>(&self, axis: &'l ProbeAxis<'a>) -> Profile<'l, 'a> {
        let assumed = Profile::assumed(axis);
        let whole = assumed.whole();
        let seconds = Processor::ALL.map(|processor| self.seconds(&whole, processor));
        let shortest = seconds[0].min(seconds[1]);
        if shortest < Tuning::NO_SAMPLES { assumed } else { self.sample(axis, shortest) }
    }

    /// Chooses the techniques with which a device does a whole join.
    pub(super) fn choose_device(&self, axis: &ProbeAxis<'_>) -> Vec<Chosen> {
        self.choose(&self.glance(axis), [0.0, 1.0], Processor::Device, JUDGED_ON)
    }

    /// Divides a join at a point.
    pub(super) fn divide_at(&self, axis: &ProbeAxis<'_>, point: f64) -> Division {
        self.division(&self.glance(axis), 1.0 - point, [point; 2], None)
    }

    /// Divides a join between the CPU and the device.
    pub(super) fn divide(&self, axis: &ProbeAxis<'_>) -> Division {
        // Assumptions alone say how closely to sample.
        let assumed = Profile::assumed(axis);
        let alone = |profile: &Profile<'_, '_>| {
            let whole = profile.whole();
            PerProcessor::of(|processor| self.seconds(&whole, processor))
        };
        let (expected, forced) = (alone(&assumed), self.queued.is_some());
        if !forced && expected.device < Tuning::NO_SAMPLES && 1.1 * expected.device < expected.cpu {
            return self.division(&assumed, 1.0, [0.0; 2], None);
        }
        let profile = self.sample(axis, expected.cpu.min(expected.device));
        let mut seconds = alone(&profile);
        // Several techniques may be faster than one for the whole join, and by about the same factor for parts of it.
        let all = self.choose(&profile, [0.0, 1.0], Processor::Cpu, self.resources.threads);
        let mixed = if all.len() > 1 {
            let by_one = cheapest(
                &profile.whole(),
                &self.techniques.cpu,
                &self.resources,
                self.resources.threads,
            );
            let several: f64 = all.iter().map(|one| one.seconds).sum();
            by_one.map_or(1.0, |(_, seconds)| (several / seconds).min(1.0))
        } else {
            1.0
        };
        seconds.cpu *= mixed;
        let alone = || {
            let share = if seconds.cpu <= seconds.device { 0.0 } else { 1.0 };
            self.division(&profile, share, [1.0 - share; 2], None)
        };
        let shortest = seconds.cpu.min(seconds.device);
        let worthwhile = Tuning::WORTHWHILE * shortest;
        let known = profile.pairs() >= Tuning::ENOUGH_SAMPLES;
        let worth_it = known && shortest >= Tuning::SHORTEST;
        if !(seconds.cpu + seconds.device).is_finite() || !(worth_it || forced) {
            return alone();
        }
        // The seconds of the CPU for the probes before a point and of the device for those after it, both working.
        let at_once = |share: f64| {
            let point = 1.0 - share;
            let cpu = mixed * self.seconds(&profile.between([0.0, point]), Processor::Cpu);
            let device = self.seconds(&profile.between([point, 1.0]), Processor::Device);
            PerProcessor { cpu: Tuning::FRICTION * cpu, device: Tuning::FRICTION * device }
        };
        let Some((share, both)) = bisect(seconds, at_once) else { return alone() };
        let both_seconds = both.cpu.max(both.device) + Tuning::TOGETHER;
        if both_seconds > worthwhile && !forced {
            return alone();
        }
        let starts = self.starts(&profile, seconds);
        let part = self.queued.unwrap_or_else(|| {
            let cheap = starts.cpu.max(starts.device) < both_seconds / 10.0;
            if both_seconds > Tuning::QUEUED_FROM && cheap { Tuning::QUEUED } else { 0.0 }
        });
        let between = [(1.0 - share) * (1.0 - part), 1.0 - share * (1.0 - part)];
        let queued = (part > 0.0).then(|| {
            let middle = profile.between(between);
            PerProcessor::of(|processor| {
                let factor = if processor == Processor::Cpu { mixed } else { 1.0 };
                let seconds = factor * self.seconds(&middle, processor) - starts[processor];
                (Tuning::FRICTION * seconds.max(0.0), starts[processor])
            })
        });
        self.division(&profile, share, between, queued)
    }

    /// Returns the start-up seconds of each processor, which do not depend on the amount of work.
    fn starts(&self, profile: &Profile<'_, '_>, all: PerProcessor<f64>) -> PerProcessor<f64> {
        let little = Tuning::LEAST_PART;
        let part = |processor: Processor| match processor {
            Processor::Cpu => [0.0, little],
            Processor::Device => [1.0 - little, 1.0],
        };
        PerProcessor::of(|processor| {
            let few = self.seconds(&profile.between(part(processor)), processor);
            ((few - little * all[processor]) / (1.0 - little)).clamp(0.0, all[processor])
        })
    }

    /// Chooses the techniques of a division. `queued`: the seconds of each processor for the queued work, and its
    /// start-up seconds.
    fn division(
        &self,
        profile: &Profile<'_, '_>,
        share: f64,
        [before, after]: [f64; 2],
        queued: Option<PerProcessor<(f64, f64)>>,
    ) -> Division {
        let one = share == 0.0 || share == 1.0;
        let judged_on = if one { JUDGED_ON } else { self.resources.threads };
        let choose = |part: [f64; 2], processor| match part[0] < part[1] {
            true => self.choose(profile, part, processor, judged_on),
            false => Vec::new(),
        };
        let chosen = match share {
            0.0 => PerProcessor { cpu: choose([0.0, 1.0], Processor::Cpu), device: Vec::new() },
            1.0 => PerProcessor { cpu: Vec::new(), device: choose([0.0, 1.0], Processor::Device) },
            _ => PerProcessor {
                cpu: choose([0.0, before], Processor::Cpu),
                device: choose([after, 1.0], Processor::Device),
            },
        };
        let queued = queued.map(|of| Queued {
            between: [before, after],
            size: ChunkSize::Balanced {
                seconds: PerProcessor { cpu: of.cpu.0, device: of.device.0 },
                starts: PerProcessor { cpu: of.cpu.1, device: of.device.1 },
            },
            chosen: PerProcessor::of(|processor| choose([before, after], processor)),
        });
        Division { share, chosen, queued }
    }
}

/// Finds the devices' share with which both processors finish at about the same time, and the seconds of both. It
/// starts from the ratio of their times for the whole join, and then bisects between a share that was too large and
/// one that was too small.
fn bisect(
    alone: PerProcessor<f64>,
    at_once: impl Fn(f64) -> PerProcessor<f64>,
) -> Option<(f64, PerProcessor<f64>)> {
    let (mut enough, mut too_much) = (0.0, 1.0);
    let mut share = alone.cpu / (alone.cpu + alone.device);
    let mut best: Option<(f64, PerProcessor<f64>)> = None;
    for _ in 0..STEPS {
        if !(Tuning::LEAST_PART..=1.0 - Tuning::LEAST_PART).contains(&share) {
            break;
        }
        let both = at_once(share);
        let longer = both.cpu.max(both.device);
        if best.is_none_or(|(_, before)| longer < before.cpu.max(before.device)) {
            best = Some((share, both));
        }
        if (both.cpu - both.device).abs() < CLOSE * longer {
            break;
        }
        *(if both.cpu > both.device { &mut enough } else { &mut too_much }) = share;
        share = f64::midpoint(enough, too_much);
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::costs::CostTable;
    use crate::sets::SetTask;
    use crate::sets::tile::tests::collection;
    use crate::{Budget, Cost, Prepared, Tile};
    use simjoin_core::{Bounds, Measure, Predicate, Result, SetCollection};
    use std::sync::atomic::{AtomicBool, Ordering};

    fn axis_of(sets: &SetCollection) -> ProbeAxis<'_> {
        let bounds = Bounds::new(Predicate::parse(Measure::Jaccard, "0.5").unwrap());
        ProbeAxis::new(&SetTask::directions(sets, None, false, bounds))
    }

    /// As many sets of each of some sizes.
    fn rising() -> SetCollection {
        let sizes: Vec<u32> = (0..3000).map(|at| 5 + at / 150).collect();
        collection(&sizes)
    }

    fn pairs_of(axis: &ProbeAxis<'_>) -> f64 {
        axis.whole().iter().map(|(_, survey)| survey.pairs as f64).sum()
    }

    fn sides<'s>(
        cpu: Vec<&'s dyn Technique<Sets>>,
        device: &'s dyn Technique<Sets>,
        costs: &'s CostTable,
        corrections: &'s Corrections,
    ) -> Sides<'s> {
        Sides {
            techniques: PerProcessor { cpu, device: vec![device] },
            resources: Resources { costs, threads: 1, memory: u64::MAX, device_memory: u64::MAX },
            corrections,
            queued: None,
        }
    }

    type Estimate = dyn Fn(&Survey<'_>) -> f64 + Send + Sync;

    /// A technique of which only the estimate is asked for.
    struct Estimated {
        name: &'static str,
        seconds: Box<Estimate>,
    }

    impl Estimated {
        /// Takes so many seconds to start, and for a pair; for each token of it, if `by_size`.
        fn rate(start: f64, pair: f64, by_size: bool) -> Self {
            let seconds = move |survey: &Survey<'_>| {
                let each = if by_size { pair * survey.mean_size } else { pair };
                start + each * survey.pairs as f64
            };
            Estimated { name: "rate", seconds: Box::new(seconds) }
        }

        /// Takes so many seconds for a pair of small sets, and for one of others.
        fn suited(name: &'static str, small: f64, large: f64) -> Self {
            let seconds = move |survey: &Survey<'_>| {
                let classes = survey.join.probe.classes().iter().zip(&survey.reaches);
                let each = |size: u32| if size < 15 { small } else { large };
                let pairs = classes.map(|(class, reach)| each(class.size) * reach.pairs as f64);
                1e-4 + pairs.sum::<f64>()
            };
            Estimated { name, seconds: Box::new(seconds) }
        }
    }

    impl Technique<Sets> for Estimated {
        fn name(&self) -> &'static str {
            self.name
        }

        fn cost(&self, survey: &Survey<'_>, _: &CostTable) -> Option<Cost> {
            Some(Cost::of_serial((self.seconds)(survey)))
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
        let axis = axis_of(&sets);
        let (costs, corrections) = (CostTable::default(), Corrections::default());
        let mut divided = 0;
        for by_size in [false, true] {
            let pair = 1e-7;
            let cpu = Estimated::rate(1e-6, pair, by_size);
            for speed in [0.1, 0.3, 1.0, 3.0, 10.0, 100.0, 1000.0] {
                for start in [0.0, 1e-3, 1e-2, 10.0] {
                    let device = Estimated::rate(start, pair / speed, by_size);
                    let seconds = |from: f64, to: f64, of: &Estimated| -> f64 {
                        axis.surveys(from, to).map(|(_, survey)| (of.seconds)(&survey)).sum()
                    };
                    let longer = |share: f64| {
                        let at = 1.0 - share;
                        seconds(0.0, at, &cpu).max(seconds(at, 1.0, &device))
                    };
                    let found = sides(vec![&cpu], &device, &costs, &corrections).divide(&axis);
                    let chosen = longer(found.share);
                    let points = (0..=1000).map(|point| longer(f64::from(point) / 1000.0));
                    let best = points.fold(f64::INFINITY, f64::min);
                    // Sharing must be worth the friction between both.
                    let most = 1.2 * best + Tuning::TOGETHER;
                    assert!(chosen <= most, "{speed} {start}: {chosen} is not near {best}");
                    divided += usize::from(found.share > 0.0 && found.share < 1.0);
                }
            }
        }
        assert!(divided > 15, "{divided}");
    }

    #[test]
    fn join_of_which_few_pairs_were_sampled_is_not_divided() {
        let sets = rising();
        let axis = axis_of(&sets);
        let (costs, corrections) = (CostTable::default(), Corrections::default());
        for (seconds, divided) in [(1e-3, false), (0.3, true)] {
            let rate = Estimated::rate(0.0, seconds / pairs_of(&axis), false);
            let share = sides(vec![&rate], &rate, &costs, &corrections).divide(&axis).share;
            assert_eq!(share > 0.0 && share < 1.0, divided, "{seconds}: {share}");
            // Unless it must be.
            let mut forced = sides(vec![&rate], &rate, &costs, &corrections);
            forced.queued = Some(0.5);
            let found = forced.divide(&axis);
            assert!(found.share > 0.0 && found.share < 1.0 && found.queued.is_some(), "{found:?}");
        }
    }

    #[test]
    fn long_part_is_done_by_several_techniques_each_where_it_is_best() {
        let sizes: Vec<u32> = (0..4000).map(|at| 5 + at / 200).collect();
        let sets = collection(&sizes);
        let axis = axis_of(&sets);
        // Lists take so long to make that all of it is planned in ranges.
        let costs = CostTable { entry: 1e-4, scan: [1e-6; 6], ..CostTable::default() };
        let corrections = Corrections::default();
        let first = Estimated::suited("first", 1e-7, 1e-6);
        let second = Estimated::suited("second", 1e-6, 1e-7);
        let device = Estimated::suited("device", 2e-7, 2e-7);
        let covers = |chosen: &[Chosen], from: f64, to: f64| {
            assert_eq!((chosen[0].from, chosen[chosen.len() - 1].to), (from, to), "{chosen:?}");
            assert!(chosen.windows(2).all(|two| two[0].to == two[1].from), "{chosen:?}");
        };
        let both = sides(vec![&first, &second], &device, &costs, &corrections);
        let Division { chosen, .. } = both.divide_at(&axis, 0.9);
        covers(&chosen.cpu, 0.0, 0.9);
        covers(&chosen.device, 0.9, 1.0);
        let places: Vec<usize> = chosen.cpu.iter().map(|one| one.technique).collect();
        assert_eq!(places, [0, 1]);
        // Two variants of one technique are not worth another start.
        let other = Estimated::suited("first", 1e-6, 1e-7);
        let alike = sides(vec![&first, &other], &device, &costs, &corrections);
        assert_eq!(alike.divide_at(&axis, 0.9).chosen.cpu.len(), 1);
        // What several take together is known when the join is divided, and who does what of the queue too.
        for part in [None, Some(0.25), Some(0.5)] {
            let found = Sides { queued: part, ..both.clone() }.divide(&axis);
            assert!(found.share > 0.2 && found.share < 0.5, "{found:?}");
            let queued = found.queued.unwrap();
            let [from, to] = queued.between;
            let expected = part.unwrap_or(Tuning::QUEUED);
            assert!((to - from - expected).abs() < 1e-9, "{from} {to}");
            covers(&found.chosen.cpu, 0.0, from);
            covers(&found.chosen.device, to, 1.0);
            covers(&queued.chosen.cpu, from, to);
            covers(&queued.chosen.device, from, to);
        }
    }

    #[test]
    fn queue_is_left_out_where_a_start_costs_too_much() {
        let sets = rising();
        let axis = axis_of(&sets);
        let (costs, corrections) = (CostTable::default(), Corrections::default());
        let rate = |start| Estimated::rate(start, 0.3 / pairs_of(&axis), false);
        let cpu = rate(0.0);
        for (start, queued) in [(1e-3, true), (0.03, false)] {
            let device = rate(start);
            let found = sides(vec![&cpu], &device, &costs, &corrections).divide(&axis);
            assert!(found.share > 0.3 && found.share <= 0.51, "{found:?}");
            assert_eq!(found.queued.is_some(), queued, "{start}");
            let ends = (found.chosen.cpu[0].to, found.chosen.device[0].from);
            assert_eq!(ends.0 == ends.1, !queued, "{ends:?}");
        }
    }

    #[test]
    fn processor_that_is_far_slower_gets_nothing() {
        let sets = rising();
        let axis = axis_of(&sets);
        let (costs, corrections) = (CostTable::default(), Corrections::default());
        let rate = |speed: f64| Estimated::rate(0.0, 0.3 / speed / pairs_of(&axis), false);
        for (speed, alone) in [(0.02, Some(0.0)), (0.5, None), (2.0, None), (50.0, Some(1.0))] {
            let (cpu, device) = (rate(1.0), rate(speed));
            let share = sides(vec![&cpu], &device, &costs, &corrections).divide(&axis).share;
            let found = (share == 0.0 || share == 1.0).then_some(share);
            assert_eq!(found, alone, "{speed}: {share}");
        }
    }

    #[test]
    fn sets_are_sampled_unless_a_device_surely_does_a_short_join_sooner() {
        let sets = collection(&[5; 300]);
        let axis = axis_of(&sets);
        let (costs, corrections) = (CostTable::default(), Corrections::default());
        // Seconds of the CPU and of the device, who gets it, and whether samples were taken.
        for (cpu, device, share, sampled) in [
            (0.6e-3, 0.4e-3, 1.0, false),
            (0.41e-3, 0.4e-3, 1.0, true),
            (0.2e-3, 0.4e-3, 0.0, true),
            (6e-3, 0.9e-3, 1.0, true),
        ] {
            let asked = std::sync::Arc::new(AtomicBool::default());
            let fixed = |taken: f64| {
                let asked = asked.clone();
                let seconds = move |survey: &Survey<'_>| {
                    let seen = survey.survival != guess(survey).survival;
                    asked.fetch_or(seen, Ordering::Relaxed);
                    taken
                };
                Estimated { name: "fixed", seconds: Box::new(seconds) }
            };
            let (cpu, device) = (fixed(cpu), fixed(device));
            let found = sides(vec![&cpu], &device, &costs, &corrections).divide(&axis);
            assert_eq!((found.share, asked.load(Ordering::Relaxed)), (share, sampled), "{found:?}");
        }
    }
}
