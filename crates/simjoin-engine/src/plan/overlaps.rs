//! How are overlaps planned?
//!
//! One processor counts all of them: the one that is estimated to take less.

use super::assign::{Assignment, Chosen, Division, Planned, PlannedAxis};
use super::whole::{self, Whole};
use super::{Setup, Tuning};
use crate::host::Host;
use crate::kind::{Direction, Kind, Task};
use crate::overlaps::{OverlapSurvey, OverlapTask, Overlaps, WantedOverlaps};
use crate::processor::{PerProcessor, Processor};
use crate::registry::COMBINED;
use crate::run::{Axis, Part};
use crate::technique::{Technique, Techniques};
use simjoin_core::Result;
use std::ops::Range;
use std::sync::Arc;

impl Whole for Overlaps {
    fn seconds(
        setup: &Setup<Self>,
        technique: &dyn Technique<Self>,
        task: &OverlapTask<'_>,
        probes: &Range<u32>,
    ) -> Option<f64> {
        let cost = technique.cost(&setup.known, &setup.costs())?;
        let part = task.pairs_of(probes) as f64 / setup.known.pairs.max(1.0);
        Some((cost.serial + cost.shared / setup.threads as f64) * part)
    }

    fn needs_memory(task: &OverlapTask<'_>) -> &'static str {
        match task.predicate {
            WantedOverlaps::Top(_) => "the best of each row, which takes all sets at once,",
            WantedOverlaps::All | WantedOverlaps::Positive => "counting overlaps",
        }
    }

    fn sharing_names() -> &'static str {
        "one of the CPU"
    }
}

impl Planned for Overlaps {
    type Known = OverlapSurvey;

    fn negligible(setup: &Setup<Self>) -> f64 {
        // A simulated device never sleeps.
        if setup.machine.simulated().is_some() { 0.0 } else { Tuning::WORTH_A_LOOK }
    }

    fn sharing(_: &'static dyn Host) -> Techniques<Self> {
        Vec::new()
    }

    fn device_techniques(setup: &Setup<Self>, _: bool) -> Result<Techniques<Self>> {
        let mut all = setup.machine.device_overlap_techniques(setup.host, &setup.known)?;
        if setup.selection.of.device.is_none() {
            all.retain(|technique| technique.name() == COMBINED);
        }
        Ok(all)
    }

    fn axis<'a>(
        _: &Setup<Self>,
        directions: &[(OverlapTask<'a>, Direction)],
    ) -> Arc<dyn PlannedAxis<'a, Self> + 'a> {
        Arc::new(OverlapAxis(directions.to_vec()))
    }

    fn assign<'a>(
        setup: &Setup<Self>,
        parts: Vec<Part<'a, Self>>,
        processor: Processor,
        shared: bool,
    ) -> Result<Vec<Assignment<'a, Self>>> {
        // A single set leaves nothing to count, and neither does an empty side.
        let parts = parts.into_iter().filter(|part| part.task.pairs_of(&part.range) > 0).collect();
        whole::assign(setup, parts, processor, shared)
    }

    fn assign_to<'a>(
        setup: &Setup<Self>,
        parts: Vec<Part<'a, Self>>,
        processor: Processor,
        technique: usize,
        shared: bool,
    ) -> Result<Vec<Assignment<'a, Self>>> {
        whole::assign_to(setup, parts, processor, technique, shared)
    }

    fn consider(_: &Setup<Self>, _: &mut Assignment<'_, Self>) {}

    fn glance(setup: &Setup<Self>, assignment: &Assignment<'_, Self>) -> f64 {
        whole::glance(setup, assignment)
    }
}

/// The probes of all directions, each on an axis of its own: no two processors share them.
struct OverlapAxis<'a>(Vec<(OverlapTask<'a>, Direction)>);

impl OverlapAxis<'_> {
    /// Returns the seconds that a processor takes; infinite where nothing fits its memory.
    fn seconds(&self, setup: &Setup<Overlaps>, processor: Processor) -> f64 {
        let one = |(task, _): &(Task<'_, Overlaps>, _)| {
            setup.cheapest(task, processor, false).map_or(f64::INFINITY, |(_, seconds)| seconds)
        };
        self.0.iter().map(one).sum()
    }
}

impl<'a> Axis<'a, Overlaps> for OverlapAxis<'a> {
    fn between(&self, from: f64, to: f64) -> Vec<Part<'a, Overlaps>> {
        let part = |&(task, direction): &(Task<'a, Overlaps>, Direction)| {
            let probes = Overlaps::whole(&task).len() as f64;
            let range = (from * probes) as u32..(to * probes) as u32;
            (!range.is_empty()).then_some(Part { task, direction, range })
        };
        self.0.iter().filter_map(part).collect()
    }
}

impl<'a> PlannedAxis<'a, Overlaps> for OverlapAxis<'a> {
    fn least_seconds(&self, setup: &Setup<Overlaps>) -> f64 {
        self.seconds(setup, Processor::Cpu)
    }

    fn divide(&self, setup: &Setup<Overlaps>) -> Division {
        let seconds = PerProcessor::of(|processor| self.seconds(setup, processor));
        let share = if seconds.cpu <= seconds.device { 0.0 } else { 1.0 };
        Division { share, ..Division::default() }
    }

    fn divide_at(&self, _: &Setup<Overlaps>, point: f64) -> Division {
        Division { share: 1.0 - point, ..Division::default() }
    }

    fn choose_device(&self, _: &Setup<Overlaps>) -> Vec<Chosen> {
        Vec::new()
    }

    fn for_queue(self: Arc<Self>) -> Arc<dyn Axis<'a, Overlaps> + 'a> {
        self
    }
}
