//! How are overlaps planned?
//!
//! One processor counts all of them: the one that is estimated to take less.

use super::Setup;
use super::assign::{Assignment, Planned};
use super::axis::Part;
use super::whole::{self, Whole};
use crate::overlaps::{OverlapSurvey, OverlapTask, Overlaps, WantedOverlaps};
use crate::processor::Processor;
use crate::registry::COMBINED;
use crate::technique::{Technique, Techniques};
use simjoin_core::Result;
use std::ops::Range;

impl Whole for Overlaps {
    fn seconds(
        setup: &Setup<Self>,
        technique: &dyn Technique<Self>,
        task: &OverlapTask<'_>,
        probes: &Range<u32>,
    ) -> Option<f64> {
        let cost = technique.cost(&setup.known, &setup.costs())?;
        let part = task.pairs_of(probes) as f64 / setup.known.pairs.max(1.0);
        Some((cost.serial + cost.parallel / setup.threads as f64) * part)
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

    fn device_techniques(setup: &Setup<Self>, _: bool) -> Result<Techniques<Self>> {
        let mut all = setup.machine.device_overlap_techniques(setup.host, &setup.known)?;
        if setup.selection.of.device.is_none() {
            all.retain(|technique| technique.name() == COMBINED);
        }
        Ok(all)
    }

    fn assign<'a>(
        setup: &Setup<Self>,
        parts: Vec<Part<'a, Self>>,
        processor: Processor,
        technique: Option<usize>,
        both_work: bool,
    ) -> Result<Vec<Assignment<'a, Self>>> {
        // A single set leaves nothing to count, and neither does an empty side.
        let parts = parts.into_iter().filter(|part| part.task.pairs_of(&part.range) > 0).collect();
        whole::assign(setup, parts, processor, technique, both_work)
    }

    fn glance(setup: &Setup<Self>, assignment: &Assignment<'_, Self>) -> f64 {
        whole::glance(setup, assignment)
    }
}
