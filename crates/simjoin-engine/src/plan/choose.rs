//! Which technique for which part of a join?
//!
//! The probes are cut into a few ranges of sizes. Each range is surveyed, every available technique
//! estimates its cost, and the cheapest one that fits the memory gets the range. Neighbouring ranges with
//! the same choice become one tile again.
//!
//! Planning must cost little compared with joining: the numbers of ranges and samples follow a first
//! estimate from exact counts alone, and below a millisecond nothing is sampled.

use crate::sets::MANY;
use crate::tuning::Tuning;
use crate::{
    Cost, CostTable, Effort, Order, SetTask, Sets, Survey, Technique, Tile, WIDTHS, passes, reaches,
};
use simjoin_core::{Error, Result};

/// The resources of a processor for a join.
#[derive(Clone, Copy, Debug)]
pub struct Resources<'c> {
    /// The cost of elementary steps.
    pub costs: &'c CostTable,
    /// The number of threads.
    pub threads: usize,
    /// Bytes for the technique.
    pub memory: u64,
    /// Bytes for it on a device.
    pub device_memory: u64,
    /// A join that takes longer than this many seconds is not worth more samples: another processor does it sooner.
    pub worth: f64,
}

/// A part of a task, and the technique chosen for it.
#[derive(Clone, Debug)]
pub struct Choice {
    /// The part.
    pub tile: Tile,
    /// The technique, by its place among those offered.
    pub technique: usize,
    /// The estimated seconds of every technique offered, on all threads; `None` if it cannot do the tile, does
    /// not fit the memory, or was not estimated.
    pub considered: Vec<Option<f64>>,
    /// Pairs that the length filter leaves.
    pub pairs: u64,
}

/// Tokens indexed at once: positions in an index are 32-bit numbers, with room for list ends.
const MAX_INDEX_TOKENS: usize = 1 << 30;

/// The largest number of passes over a tile, approximately.
const MAX_PASSES: usize = 1000;

/// Techniques are judged by their time on this many threads, so that the choice, and with it the order of the
/// pairs, does not depend on the number of threads.
pub(crate) const JUDGED_ON: usize = 4;

/// A join that seems to take this many times as long as assumed is sampled again, more closely.
pub(crate) const FAR_LONGER: f64 = 3.0;

/// A task that takes fewer seconds than this is not sampled.
const UNSAMPLED_SECONDS: f64 = 0.5e-3;

/// The fraction of the time that sampling may take.
const SAMPLING_SHARE: f64 = 0.02;

/// The smallest number of list pairs of small sets to sample.
const LEAST_SAMPLED_PAIRS: f64 = 48.0;

/// A range of sizes is planned by itself if it takes at least this many seconds.
const RANGE_SECONDS: f64 = 20e-3;

/// The number of list pairs to sample for the explanation of a plan.
const EXPLAINED_PAIRS: usize = 256;

/// Ranges of sizes at most.
const MAX_RANGES: f64 = 6.0;

/// The same for devices, to which sets are sent for each range.
const DEVICE_RANGE_SECONDS: f64 = 50e-3;
const MAX_DEVICE_RANGES: f64 = 4.0;

/// Chooses among techniques for a part of a task. `offered` is not empty.
pub fn choose(
    task: &SetTask<'_>,
    whole: &Tile,
    offered: &[&dyn Technique<Sets>],
    resources: &Resources<'_>,
) -> Result<Vec<Choice>> {
    let coarse = Survey::new(task, whole);
    if coarse.pairs == 0 {
        return Ok(Vec::new());
    }
    let known = |technique: usize| -> Vec<Choice> {
        let choice = |tile: Tile| Choice {
            tile,
            technique,
            considered: vec![None; offered.len()],
            pairs: coarse.pairs,
        };
        // Sets that meet none are left out.
        ranges(&coarse, 1).into_iter().map(choice).collect()
    };
    if offered.len() == 1 {
        return in_passes(task, known(0), offered, resources);
    }
    let on_device = offered.iter().all(|technique| technique.on_device());
    let mut least = coarse.least_seconds(resources.costs).min(resources.worth);
    if on_device {
        let guessed = guess(&coarse);
        let costs = offered.iter().filter_map(|one| one.cost(&guessed, resources.costs));
        // No more samples are drawn for longer ones.
        least = costs.map(|cost| cost.seconds(JUDGED_ON)).fold(resources.worth.min(1.0), f64::min);
    }
    let unsampled = if on_device { Tuning::NO_SAMPLES } else { UNSAMPLED_SECONDS };
    if least < unsampled {
        // Signatures in lists, or of all pairs where these are few.
        if let Some((at, seconds)) = cheapest(&[guess(&coarse)], offered, resources, JUDGED_ON) {
            let mut known = known(at);
            known.iter_mut().for_each(|one| one.considered[at] = Some(seconds));
            return in_passes(task, known, offered, resources);
        }
    }
    let count = if on_device { device_ranges_for(least) } else { ranges_for(least) };
    let mut choices: Vec<Choice> = Vec::new();
    for tile in ranges(&coarse, count) {
        let unseen = if count == 1 { coarse.of_tile(&tile) } else { Survey::new(task, &tile) };
        if unseen.pairs == 0 {
            continue;
        }
        let sampling = Sampling { least, count, on_device };
        let choice = choose_range(task, &unseen, offered, resources, &sampling);
        match choices.last_mut() {
            Some(last) if last.technique == choice.technique => merge(last, choice),
            _ => choices.push(choice),
        }
    }
    in_passes(task, choices, offered, resources)
}

/// How closely a range is sampled.
struct Sampling {
    /// A lower bound of the seconds that the whole task takes.
    least: f64,
    /// The number of ranges in which it is planned.
    count: usize,
    on_device: bool,
}

impl Sampling {
    /// Returns the sampling effort for a task of some seconds: a fiftieth of them.
    fn effort(&self, survey: &Survey<'_>, seconds: f64) -> Effort {
        // Large sets get fewer samples.
        let large = (survey.mean_size / 25.0).max(1.0);
        let few = (LEAST_SAMPLED_PAIRS / large).max(8.0) as usize;
        if self.on_device {
            // A device has two techniques that differ much: a poor choice costs more than more samples.
            let pairs = (seconds * SAMPLING_SHARE / (2e-6 * large)) as usize;
            return Effort::pairs(pairs.clamp(few, MANY));
        }
        Effort::of(survey, seconds * SAMPLING_SHARE, few)
    }
}

/// Chooses a technique for a range of sizes.
fn choose_range(
    task: &SetTask<'_>,
    unseen: &Survey<'_>,
    offered: &[&dyn Technique<Sets>],
    resources: &Resources<'_>,
    sampling: &Sampling,
) -> Choice {
    let tile = unseen.tile.clone();
    let costs_of = |survey: &Survey<'_>| -> Vec<Option<Cost>> {
        offered.iter().map(|technique| technique.cost(survey, resources.costs)).collect()
    };
    let &Sampling { least, count, on_device } = sampling;
    let effort = sampling.effort(unseen, least);
    let effort = Effort { sets: effort.sets / count + 1, pairs: effort.pairs / count + 1 };
    let mut costs = costs_of(&unseen.clone().sample(effort));
    // An estimate far above the lower bound is sampled more closely: if a tenth of the list pairs survive, none of 36 may
    // survive by chance.
    let seconds = costs.iter().flatten().map(|cost| cost.seconds(JUDGED_ON));
    let seconds = seconds.fold(f64::INFINITY, f64::min);
    if seconds.is_finite() && seconds > FAR_LONGER * least / count as f64 {
        let effort = sampling.effort(unseen, seconds.min(1.0).min(resources.worth));
        costs = costs_of(&unseen.clone().sample(effort));
    }
    let mut by_cost: Vec<(f64, usize)> =
        (0..offered.len()).filter_map(|at| Some((costs[at]?.seconds(JUDGED_ON), at))).collect();
    by_cost.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut considered = vec![None; offered.len()];
    for &(_, at) in &by_cost {
        if fits(task, &tile, offered[at], resources) {
            considered[at] = costs[at].map(|cost| cost.seconds(resources.threads));
        }
    }
    // When none fits at once, the first that can be done in passes is.
    let cheapest = by_cost.iter().map(|&(_, at)| at).find(|&at| considered[at].is_some());
    let technique = cheapest.unwrap_or_else(|| {
        let in_turn: Vec<usize> = if on_device {
            by_cost.iter().map(|&(_, at)| at).collect()
        } else {
            // What has no cost cannot do it.
            let costly = costs.iter().any(Option::is_some);
            (0..offered.len()).filter(|&at| !costly || costs[at].is_some()).collect()
        };
        let can = |at: usize| tiles_in_passes(task, &tile, offered[at], resources).is_ok();
        in_turn.iter().copied().find(|&at| can(at)).or(in_turn.first().copied()).unwrap_or(0)
    });
    Choice { tile, technique, considered, pairs: unseen.pairs }
}

/// Estimates every technique for a part of a task by a close look.
pub(crate) fn consider(
    task: &SetTask<'_>,
    tile: &Tile,
    offered: &[&dyn Technique<Sets>],
    resources: &Resources<'_>,
) -> Vec<Option<f64>> {
    let survey = Survey::new(task, tile);
    let survey = survey.sample(Effort::pairs(EXPLAINED_PAIRS));
    let seconds = |technique: &&dyn Technique<Sets>| {
        let cost = technique.cost(&survey, resources.costs)?;
        fits(task, tile, *technique, resources).then(|| cost.seconds(resources.threads))
    };
    offered.iter().map(seconds).collect()
}

/// Returns the number of ranges in which to plan a join that takes one core at least `seconds`.
pub(crate) fn ranges_for(seconds: f64) -> usize {
    (seconds / RANGE_SECONDS).clamp(1.0, MAX_RANGES) as usize
}

/// Returns the number of ranges in which to plan a join that takes a device `seconds`.
fn device_ranges_for(seconds: f64) -> usize {
    (seconds / DEVICE_RANGE_SECONDS).clamp(1.0, MAX_DEVICE_RANGES) as usize
}

/// Returns the technique that does all that was surveyed in the shortest time on `judged_on` threads and fits the
/// memory, and the seconds that it takes on all threads.
pub(crate) fn cheapest(
    surveys: &[Survey<'_>],
    offered: &[&dyn Technique<Sets>],
    resources: &Resources<'_>,
    judged_on: usize,
) -> Option<(usize, f64)> {
    let seconds = |at: usize, threads: usize| -> Option<f64> {
        let of = |survey| Some(offered[at].cost(survey, resources.costs)?.seconds(threads));
        surveys.iter().map(of).sum()
    };
    let judged = (0..offered.len()).filter_map(|at| Some((seconds(at, judged_on)?, at)));
    let mut by_cost: Vec<(f64, usize)> = judged.collect();
    by_cost.sort_by(|a, b| a.0.total_cmp(&b.0));
    let fit =
        |at: usize| surveys.iter().all(|one| fits(&one.task, &one.tile, offered[at], resources));
    // Whether it fits may take long to compute.
    let (_, at) = by_cost.into_iter().find(|&(_, at)| !surveys.is_empty() && fit(at))?;
    Some((at, seconds(at, resources.threads)?))
}

/// Fills in assumptions about a task without reading its sets.
pub(crate) fn guess<'a>(coarse: &Survey<'a>) -> Survey<'a> {
    let mut survey = coarse.clone();
    survey.list_pairs = 4.0 * coarse.probe_entries as f64;
    if coarse.task.order == Order::Before {
        survey.list_idle = survey.list_pairs;
    }
    survey.list_survival = [0.05, 0.04, 0.03];
    survey.list_open = 0.01;
    survey.list_merged = 0.02 * coarse.mean_size;
    survey.survival = [0.02, 0.01, 0.005, 0.002];
    survey.list_position = 0.5;
    const { assert!(WIDTHS.len() == 4) };
    survey
}

fn merge(last: &mut Choice, next: Choice) {
    last.tile.probes.end = next.tile.probes.end;
    last.tile.builds.end = last.tile.builds.end.max(next.tile.builds.end);
    last.tile.builds.start = last.tile.builds.start.min(next.tile.builds.start);
    last.pairs += next.pairs;
    for (sum, more) in last.considered.iter_mut().zip(next.considered) {
        *sum = sum.zip(more).map(|(sum, more)| sum + more);
    }
}

fn fits(
    task: &SetTask<'_>,
    tile: &Tile,
    technique: &dyn Technique<Sets>,
    resources: &Resources<'_>,
) -> bool {
    excess(task, tile, technique, resources).is_none()
}

/// Bytes that a technique needs for a tile and that exceed a limit, and whether on a device.
fn excess(
    task: &SetTask<'_>,
    tile: &Tile,
    technique: &dyn Technique<Sets>,
    resources: &Resources<'_>,
) -> Option<(u64, bool)> {
    let Resources { threads, memory, device_memory, .. } = *resources;
    if memory != u64::MAX && technique.memory_at_most(task, tile, threads) > memory {
        let needed = technique.memory_bytes(task, tile, threads);
        if needed > memory {
            return Some((needed, false));
        }
    }
    if device_memory != u64::MAX && technique.device_at_most(task, tile, threads) > device_memory {
        let needed = technique.device_bytes(task, tile, threads);
        if needed > device_memory {
            return Some((needed, true));
        }
    }
    None
}

/// Cuts the probes into ranges of sizes with about equally many pairs each, and finds what they
/// reach.
fn ranges(survey: &Survey<'_>, count: usize) -> Vec<Tile> {
    let mut tiles: Vec<Tile> = Vec::new();
    let goal = survey.pairs / count as u64 + 1;
    let mut pairs = u64::MAX;
    for reach in survey.reaches.iter().filter(|reach| reach.pairs > 0) {
        match tiles.last_mut() {
            Some(tile) if pairs < goal => {
                tile.probes.end = reach.probes.end;
                tile.builds.start = tile.builds.start.min(reach.builds.start);
                tile.builds.end = tile.builds.end.max(reach.builds.end);
            }
            _ => {
                tiles.push(Tile { probes: reach.probes.clone(), builds: reach.builds.clone() });
                pairs = 0;
            }
        }
        pairs += reach.pairs;
    }
    tiles
}

/// Cuts each choice into as many tiles as the memory asks for: into ranges of build sets, and if that
/// does not help, of probes as well.
fn in_passes(
    task: &SetTask<'_>,
    choices: Vec<Choice>,
    offered: &[&dyn Technique<Sets>],
    resources: &Resources<'_>,
) -> Result<Vec<Choice>> {
    let mut all = Vec::new();
    for choice in choices {
        let technique = offered[choice.technique];
        let tiles = tiles_in_passes(task, &choice.tile, technique, resources)?;
        let parts = tiles.len();
        all.extend(tiles.into_iter().map(|tile| {
            Choice {
                tile,
                technique: choice.technique,
                considered: choice
                    .considered
                    .iter()
                    .map(|seconds| seconds.map(|seconds| seconds / parts as f64))
                    .collect(),
                pairs: choice.pairs / parts as u64,
            }
        }));
    }
    Ok(all)
}

fn tiles_in_passes(
    task: &SetTask<'_>,
    tile: &Tile,
    technique: &dyn Technique<Sets>,
    resources: &Resources<'_>,
) -> Result<Vec<Tile>> {
    match tiles_within(task, tile, technique, resources, false) {
        Err(Error::Memory { .. }) => tiles_within(task, tile, technique, resources, true),
        tiles => tiles,
    }
}

fn tiles_within(
    task: &SetTask<'_>,
    tile: &Tile,
    technique: &dyn Technique<Sets>,
    resources: &Resources<'_>,
    cut_probes: bool,
) -> Result<Vec<Tile>> {
    let tokens = task.build.total_tokens().max(task.probe.total_tokens());
    if resources.memory.min(resources.device_memory) == u64::MAX && tokens <= MAX_INDEX_TOKENS {
        return Ok(vec![tile.clone()]);
    }
    let mut tokens = tokens.clamp(1, MAX_INDEX_TOKENS);
    loop {
        let builds = passes(task.build, &tile.builds, tokens);
        let probes = if cut_probes {
            passes(task.probe, &tile.probes, tokens)
        } else {
            vec![tile.probes.clone()]
        };
        let tiles: Vec<Tile> = probes
            .iter()
            .flat_map(|probes| {
                builds.iter().map(|builds| Tile { probes: probes.clone(), builds: builds.clone() })
            })
            .filter(|tile| reaches(task, tile).iter().any(|reach| reach.pairs > 0))
            .collect();
        let excess = tiles.iter().filter_map(|tile| excess(task, tile, technique, resources)).max();
        let Some((needed, device)) = excess else { return Ok(tiles) };
        // Each pass walks all probes: with passes this small the join would not end.
        let uncut =
            builds.len() == tile.builds.len() && (!cut_probes || probes.len() == tile.probes.len());
        if tiles.len() > MAX_PASSES || uncut || tokens == 1 {
            return Err(Error::Memory {
                what: format!("{} in {} passes", technique.name(), tiles.len()),
                needed,
                limit: if device { resources.device_memory } else { resources.memory },
                device,
            });
        }
        tokens /= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sets::tile::tests::{collection, collections};
    use crate::{Budget, Prepared};
    use simjoin_core::{Bounds, Measure, Predicate};
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Takes this number of bytes of a device for each set of a tile.
    struct OnDevice(u64);

    impl Technique<Sets> for OnDevice {
        fn name(&self) -> &'static str {
            "on-device"
        }

        fn on_device(&self) -> bool {
            true
        }

        fn cost(&self, _: &Survey<'_>, _: &CostTable) -> Option<Cost> {
            Some(Cost { serial: 1.0 / self.0 as f64, parallel: 0.0 })
        }

        fn memory_bytes(&self, _: &SetTask<'_>, _: &Tile, _: usize) -> u64 {
            0
        }

        fn device_bytes(&self, _: &SetTask<'_>, tile: &Tile, _: usize) -> u64 {
            self.0 * (tile.probes.len() + tile.builds.len()) as u64
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

    /// Takes this number of seconds, and counts how often it is asked.
    struct Asked(f64, AtomicUsize);

    impl Technique<Sets> for Asked {
        fn name(&self) -> &'static str {
            "asked"
        }

        fn cost(&self, _: &Survey<'_>, _: &CostTable) -> Option<Cost> {
            self.1.fetch_add(1, Ordering::Relaxed);
            Some(Cost { serial: self.0, parallel: 0.0 })
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
    fn range_that_takes_far_longer_than_assumed_is_sampled_again() {
        let sets = collection(&[5; 300]);
        let bounds = Bounds::new(Predicate::parse(Measure::Jaccard, "0.5").unwrap());
        let (task, _) = SetTask::directions(&sets, None, false, bounds)[0];
        let costs = CostTable { entry: 1e-5, scan: [1e-6; 6], ..CostTable::default() };
        let least = Survey::new(&task, &Tile::whole(&task)).least_seconds(&costs);
        assert!(least > UNSAMPLED_SECONDS && ranges_for(least) == 1, "{least}");
        let (threads, memory, device_memory) = (2, u64::MAX, u64::MAX);
        let worth = f64::INFINITY;
        let resources = Resources { costs: &costs, threads, memory, device_memory, worth };
        for (times, looks) in [(1.0, 1), (0.9 * FAR_LONGER, 1), (1.1 * FAR_LONGER, 2)] {
            let (one, other) = (Asked(times * least, 0.into()), Asked(1e9, 0.into()));
            let choices = choose(&task, &Tile::whole(&task), &[&one, &other], &resources).unwrap();
            assert_eq!((choices.len(), choices[0].technique), (1, 0));
            assert_eq!(one.1.into_inner(), looks, "{times}");
        }
    }

    #[test]
    fn tile_too_large_for_a_device_is_cut_or_refused() {
        let sizes: Vec<u32> = (0..400).map(|at| 3 + at / 100).collect();
        let sets = collection(&sizes);
        let bounds = Bounds::new(Predicate::parse(Measure::Jaccard, "0.5").unwrap());
        let (task, _) = SetTask::directions(&sets, None, false, bounds)[0];
        let costs = CostTable::default();
        let resources = |device_memory| Resources {
            costs: &costs,
            threads: 2,
            memory: u64::MAX,
            device_memory,
            worth: f64::INFINITY,
        };
        let (small, large) = (OnDevice(10), OnDevice(1_000));
        let offered: [&dyn Technique<Sets>; 2] = [&small, &large];
        // The faster one, as long as it fits; then the other one; then that in passes.
        let chosen =
            |limit| choose(&task, &Tile::whole(&task), &offered, &resources(limit)).unwrap();
        for (limit, technique) in [(u64::MAX, 1), (800_000, 1), (8_000, 0), (7_999, 0), (900, 0)] {
            let choices = chosen(limit);
            let needs = |choice: &Choice| offered[technique].device_bytes(&task, &choice.tile, 2);
            assert!(choices.iter().all(|choice| choice.technique == technique), "{limit}");
            assert!(choices.iter().all(|choice| needs(choice) <= limit), "{limit}");
            assert_eq!(choices.len() > 1, limit < 8_000, "{limit}");
            // Every pair that the length filter leaves is in one tile.
            let pairs =
                |tile: &Tile| -> u64 { reaches(&task, tile).iter().map(|reach| reach.pairs).sum() };
            let all: u64 = choices.iter().map(|choice| pairs(&choice.tile)).sum();
            assert_eq!(all, pairs(&Tile::whole(&task)), "{limit}");
        }
        let refused =
            choose(&task, &Tile::whole(&task), &offered, &resources(19)).unwrap_err().to_string();
        assert!(refused.contains("GPU memory") && refused.contains("19"), "{refused}");
        // A single build set is no reason not to cut the probes.
        let (sets, one) = collections(&sizes, Some(&[4]));
        let (task, _) = SetTask::directions(&sets, one.as_ref(), false, bounds)[0];
        let choices = choose(&task, &Tile::whole(&task), &offered, &resources(900)).unwrap();
        assert!(choices.len() > 1 && choices.iter().all(|choice| choice.tile.builds.len() == 1));
    }
}
