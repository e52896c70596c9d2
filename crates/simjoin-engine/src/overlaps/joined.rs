//! What do overlaps need that other joins do not?

use super::{OverlapSurvey, OverlapTask, Overlaps, WantedOverlaps};
use crate::explain::{grouped, range};
use crate::host::Host;
use crate::join::{Join, Joined};
use crate::machine::Machine;
use crate::registry::{Selection, Subject};
use crate::report::StepPlan;
use crate::sets::{SetTask, Sets};
use crate::technique::Techniques;
use simjoin_core::{Bounds, Result, SetCollection};

impl Joined for Overlaps {
    const SUBJECT: Subject = Subject::Overlaps;
    const HAS_THRESHOLD: bool = false;

    fn look(
        join: &Join<Self>,
        _: &Selection,
        task: &OverlapTask<'_>,
        _: &Machine,
    ) -> (OverlapSurvey, Techniques<Self>) {
        let survey = OverlapSurvey::new(task);
        let techniques = join.host().overlap_techniques(&survey);
        (survey, techniques)
    }

    fn check(left: &SetCollection, right: Option<&SetCollection>) -> Result<()> {
        right.map_or(Ok(()), |right| left.check_numbering(right))
    }

    fn describe(left: &SetCollection, right: Option<&SetCollection>, _: &WantedOverlaps) -> String {
        Sets::describe(left, right, &Bounds::ANY_TOKEN)
    }

    fn describe_step(step: &StepPlan) -> String {
        format!(
            "sets of {} tokens with sets of {}, {} pairs to count",
            range(step.probes),
            range(step.builds),
            grouped(step.pairs),
        )
    }

    fn estimate_pairs(host: &dyn Host, task: &OverlapTask<'_>, memory: u64) -> Option<f64> {
        let itself = task.is_self_join();
        let right = (!itself).then_some(task.build);
        let tasks = SetTask::directions(task.probe, right, false, Bounds::ANY_TOKEN);
        let estimates = tasks.iter().map(|(task, _)| Sets::estimate_pairs(host, task, memory));
        let positive: f64 = estimates.sum::<Option<f64>>()?;
        Some(match task.predicate {
            // The number of all pairs is known; see `known_number`.
            WantedOverlaps::All | WantedOverlaps::Positive => positive,
            WantedOverlaps::Top(top) => {
                // Each pair may be among the best of both rows, and no row has more partners than `top`.
                let twice = if itself { 2.0 } else { 1.0 };
                (twice * positive).min(task.probe.records() as f64 * top as f64)
            }
        })
    }
}
