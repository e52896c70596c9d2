//! How is a join of sets planned?

use super::Setup;
use super::assign::{Assignment, Planned};
use super::axis::Part;
use super::choose::{cheapest, choose, consider, guess};
use crate::costs::CostTable;
use crate::kind::{Direction, Kind, Work};
use crate::processor::{PerProcessor, Processor};
use crate::sets::{Effort, SetTask, Sets, Survey, Tile};
use crate::technique::Techniques;
use crate::tuning::Tuning;
use simjoin_core::Result;

/// Collections of more tokens than this are surveyed by all threads.
const LARGE: usize = 1 << 16;

/// List pairs to sample for the seconds of an assignment that was not estimated.
const GLANCE: usize = 200;

impl Planned for Sets {
    type Known = ();

    fn surely_short(
        setup: &Setup<Self>,
        directions: &[(SetTask<'_>, Direction)],
    ) -> Option<Processor> {
        let costs = setup.costs();
        let tasks = directions.iter().map(|(task, _)| task);
        let surveys = tasks.map(|task| guess(&Survey::new(task, &Tile::whole(task))));
        let surveys: Vec<Survey<'_>> = surveys.collect();
        let seconds = PerProcessor::of(|processor| {
            let offered = setup.offered(processor);
            let resources = setup.resources(&costs, processor, false);
            let found = cheapest(&surveys, &offered, &resources, setup.threads);
            found.map_or(f64::INFINITY, |(at, seconds)| {
                seconds * setup.corrections().of(offered[at].name(), seconds)
            })
        });
        let sooner = Tuning::SURELY_SOONER * seconds.device < seconds.cpu;
        if seconds.cpu < Tuning::NEGLIGIBLE {
            Some(Processor::Cpu)
        } else if seconds.device < Tuning::NO_SAMPLES && sooner {
            Some(Processor::Device)
        } else {
            None
        }
    }

    fn device_techniques(setup: &Setup<Self>, _: bool) -> Result<Techniques<Self>> {
        setup.machine.device_techniques(setup.host)
    }

    fn assign<'a>(
        setup: &Setup<Self>,
        parts: Vec<Part<'a, Self>>,
        processor: Processor,
        technique: Option<usize>,
        both_work: bool,
    ) -> Result<Vec<Assignment<'a, Self>>> {
        let (costs, measured) = setup.machine.costs();
        let assigned = assign_with(setup, parts.clone(), processor, technique, both_work, &costs)?;
        // A choice that matters is made with the costs of this machine.
        let estimated: f64 = assigned.iter().filter_map(Assignment::seconds).sum();
        if measured || estimated <= Tuning::WORTH_A_LOOK {
            return Ok(assigned);
        }
        let costs = setup.machine.measured_costs(setup.host);
        assign_with(setup, parts, processor, technique, both_work, &costs)
    }

    fn consider(setup: &Setup<Self>, assignment: &mut Assignment<'_, Self>) {
        let Assignment { task, range, processor, .. } = assignment;
        let offered = setup.offered(*processor);
        let costs = setup.costs();
        let resources = setup.resources(&costs, *processor, false);
        let found = setup.install(|| consider(task, range, &offered, &resources));
        for (seconds, found) in assignment.considered.iter_mut().zip(found) {
            *seconds = seconds.or(found);
        }
    }

    fn glance(setup: &Setup<Self>, assignment: &Assignment<'_, Self>) -> f64 {
        let costs = setup.costs();
        let survey = Survey::new(&assignment.task, &assignment.range);
        let survey = survey.sample(Effort::pairs(GLANCE));
        let cost = setup.technique(assignment).cost(&survey, &costs);
        let seconds = cost.map(|cost| cost.seconds(setup.threads));
        seconds.filter(|seconds| seconds.is_finite()).unwrap_or(survey.least_seconds(&costs))
    }
}

/// Assigns parts with a cost table.
fn assign_with<'a>(
    setup: &Setup<Sets>,
    parts: Vec<Part<'a, Sets>>,
    processor: Processor,
    technique: Option<usize>,
    both_work: bool,
    costs: &CostTable,
) -> Result<Vec<Assignment<'a, Sets>>> {
    let all = setup.offered(processor);
    let offered = technique.map_or(&all[..], |at| &all[at..=at]);
    let resources = setup.resources(costs, processor, both_work);
    let mut assigned = Vec::new();
    for Part { task, direction, range } in parts {
        let decide = || choose(&task, &range, offered, &resources);
        // Large inputs are surveyed by all threads.
        let large = task.probe.total_tokens() > LARGE;
        let choices = if large { setup.install(decide) } else { decide() };
        let choices = choices.map_err(|error| setup.with_answer(error, both_work))?;
        assigned.extend(choices.into_iter().map(|choice| {
            let work = Work { pairs: choice.pairs, ..Sets::work(&task, &choice.tile) };
            let mut considered = vec![None; all.len()];
            let first = technique.unwrap_or(0);
            considered[first..first + offered.len()].copy_from_slice(&choice.considered);
            let (range, technique) = (choice.tile, first + choice.technique);
            Assignment { task, direction, range, work, processor, technique, considered }
        }));
    }
    Ok(assigned)
}
