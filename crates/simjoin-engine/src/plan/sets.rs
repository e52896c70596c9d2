//! How is a join of sets planned?

use super::assign::{Assignment, Chosen, Division, Planned, PlannedAxis};
use super::choose::{Choice, choose, consider};
use super::divide::Sides;
use super::{Mode, ProbeAxis, Setup, Tuning};
use crate::costs::CostTable;
use crate::host::Host;
use crate::kind::{Direction, Kind, Work};
use crate::processor::{PerProcessor, Processor};
use crate::run::{Axis, Part};
use crate::sets::{Effort, SetTask, Sets, Survey};
use crate::technique::{Technique, Techniques};
use simjoin_core::Result;
use std::sync::Arc;

/// Collections of more tokens than this are looked at by all threads.
const MUCH: usize = 1 << 16;

/// List pairs to sample for the virtual time of an assignment that was not estimated.
const GLANCE: usize = 200;

impl Planned for Sets {
    type Known = ();

    fn negligible(_: &Setup<Self>) -> f64 {
        Tuning::NEGLIGIBLE
    }

    fn sharing(_: &'static dyn Host) -> Techniques<Self> {
        Vec::new()
    }

    fn device_techniques(setup: &Setup<Self>, _: bool) -> Result<Techniques<Self>> {
        setup.machine.device_techniques(setup.host)
    }

    fn axis<'a>(
        _: &Setup<Self>,
        directions: &[(SetTask<'a>, Direction)],
    ) -> Arc<dyn PlannedAxis<'a, Self> + 'a> {
        Arc::new(ProbeAxis::new(directions))
    }

    fn assign<'a>(
        setup: &Setup<Self>,
        parts: Vec<Part<'a, Self>>,
        processor: Processor,
        shared: bool,
    ) -> Result<Vec<Assignment<'a, Self>>> {
        let (costs, measured) = setup.machine.costs();
        let offered = setup.offered(processor);
        let assigned = assign_with(setup, parts.clone(), processor, shared, &costs, &offered)?;
        // A choice that matters is made with the costs of this machine.
        let estimated: f64 = assigned.iter().filter_map(Assignment::seconds).sum();
        if measured || shared || offered.len() <= 1 || estimated <= Tuning::WORTH_A_LOOK {
            return Ok(assigned);
        }
        let costs = setup.machine.measured_costs(setup.host);
        assign_with(setup, parts, processor, shared, &costs, &offered)
    }

    fn assign_to<'a>(
        setup: &Setup<Self>,
        parts: Vec<Part<'a, Self>>,
        processor: Processor,
        technique: usize,
        shared: bool,
    ) -> Result<Vec<Assignment<'a, Self>>> {
        let offered = [setup.offered(processor)[technique]];
        let costs = setup.costs();
        let mut assigned = assign_with(setup, parts, processor, shared, &costs, &offered)?;
        for one in &mut assigned {
            let seconds = one.considered[0];
            one.considered = vec![None; setup.techniques[processor].len()];
            one.considered[technique] = seconds;
            one.technique = technique;
        }
        Ok(assigned)
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

/// Assigns parts to some techniques, with a cost table.
fn assign_with<'a>(
    setup: &Setup<Sets>,
    parts: Vec<Part<'a, Sets>>,
    processor: Processor,
    shared: bool,
    costs: &CostTable,
    offered: &[&dyn Technique<Sets>],
) -> Result<Vec<Assignment<'a, Sets>>> {
    let resources = setup.resources(costs, processor, shared);
    let mut assigned = Vec::new();
    for Part { task, direction, range } in parts {
        let decide = || choose(&task, &range, offered, &resources);
        // Large inputs are surveyed by all threads.
        let much = task.probe.total_tokens() > MUCH;
        let choices = if much { setup.install(decide) } else { decide() };
        let choices = choices.map_err(|error| setup.with_answer(error, shared))?;
        let assign = |choice: Choice| {
            let Choice { tile, technique, considered, pairs } = choice;
            let work = Work { pairs, ..Sets::work(&task, &tile) };
            Assignment { task, direction, range: tile, work, processor, technique, considered }
        };
        assigned.extend(choices.into_iter().map(assign));
    }
    Ok(assigned)
}

impl<'a> ProbeAxis<'a> {
    /// Finds the best division between the processors, on all threads.
    fn with_sides<T: Send>(
        setup: &Setup<Sets>,
        costs: &CostTable,
        ask: impl FnOnce(&Sides<'_>) -> T + Send,
    ) -> T {
        let corrections = setup.corrections();
        let shared = setup.mode != Mode::Only(Processor::Device);
        let sides = Sides {
            techniques: PerProcessor::of(|processor| setup.offered(processor)),
            resources: setup.resources(costs, Processor::Cpu, shared),
            corrections: &corrections,
            queued: setup.machine.simulated().and_then(|device| device.queued),
        };
        setup.install(|| ask(&sides))
    }
}

impl<'a> PlannedAxis<'a, Sets> for ProbeAxis<'a> {
    fn least_seconds(&self, setup: &Setup<Sets>) -> f64 {
        self.least_core_seconds(&setup.costs())
    }

    fn divide(&self, setup: &Setup<Sets>) -> Division {
        // Waking a device takes longer than estimating the time of the CPU.
        let (mut costs, measured) = setup.machine.costs();
        if !measured {
            costs = setup.machine.measured_costs(setup.host);
        }
        Self::with_sides(setup, &costs, |sides| sides.divide(self))
    }

    fn divide_at(&self, setup: &Setup<Sets>, point: f64) -> Division {
        Self::with_sides(setup, &setup.costs(), |sides| sides.divide_at(self, point))
    }

    fn choose_device(&self, setup: &Setup<Sets>) -> Vec<Chosen> {
        Self::with_sides(setup, &setup.costs(), |sides| sides.choose_device(self))
    }

    fn for_queue(self: Arc<Self>) -> Arc<dyn Axis<'a, Sets> + 'a> {
        self
    }
}
