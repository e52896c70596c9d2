//! What does a join of sets need that others do not?

use super::{SetTask, Sets};
use crate::explain::{grouped, range};
use crate::host::Host;
use crate::join::{Join, Joined};
use crate::machine::Machine;
use crate::registry::{Selection, Subject};
use crate::report::StepPlan;
use crate::technique::Techniques;
use simjoin_core::{Bounds, Result, SetCollection};

/// Sets to sample for an estimate of the number of pairs.
const SAMPLED: usize = 500;

impl Joined for Sets {
    const SUBJECT: Subject = Subject::Sets;

    fn look(
        join: &Join<Self>,
        _: &Selection,
        _: &SetTask<'_>,
        _: &Machine,
    ) -> ((), Techniques<Self>) {
        ((), join.host().set_techniques())
    }

    fn check(left: &SetCollection, right: Option<&SetCollection>) -> Result<()> {
        right.map_or(Ok(()), |right| left.check_numbering(right))
    }

    fn describe(left: &SetCollection, right: Option<&SetCollection>, _: &Bounds) -> String {
        let mut text = String::new();
        for (side, sets) in [("left", Some(left)), ("right", right)] {
            let Some(sets) = sets else { continue };
            let side = if right.is_some() { side } else { "input" };
            let classes = sets.classes();
            let sizes = match (classes.first(), classes.last()) {
                (Some(first), Some(last)) => (first.size, last.size),
                _ => (0, 0),
            };
            text += &format!(
                "{side}: {} records, {} distinct sets of {} tokens, {:.1} on average, universe {}\n",
                grouped(sets.records() as u64),
                grouped(sets.len() as u64),
                range(sizes),
                sets.total_tokens() as f64 / sets.len().max(1) as f64,
                grouped(sets.universe().into()),
            );
        }
        text
    }

    fn describe_step(step: &StepPlan) -> String {
        format!(
            "sets of {} tokens with sets of {}, {} pairs left by length",
            range(step.probes),
            range(step.builds),
            grouped(step.pairs),
        )
    }

    fn estimate_pairs(host: &dyn Host, task: &SetTask<'_>, memory: u64) -> Option<f64> {
        host.estimate_rows(task, SAMPLED, memory)
    }
}
