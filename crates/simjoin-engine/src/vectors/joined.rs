//! What does a join of vectors need that others do not?

use super::{VectorKnown, VectorTask, Vectors, estimate_pairs};
use crate::explain::grouped;
use crate::host::{Host, VectorTechniques};
use crate::join::{Join, Joined};
use crate::machine::Machine;
use crate::processor::Processor;
use crate::registry::{Selection, Subject};
use crate::report::{Engine, StepPlan};
use crate::technique::Techniques;
use simjoin_core::{Elements, Error, Result, VectorCollection, VectorPredicate};

impl Joined for Vectors {
    const SUBJECT: Subject = Subject::Vectors;

    fn look(
        join: &Join<Self>,
        selection: &Selection,
        task: &VectorTask<'_>,
        machine: &Machine,
    ) -> (VectorKnown, Techniques<Self>) {
        // Of a plain loop on a GPU there is nothing to choose; of a simulated device it must be known what it takes.
        let named = selection.of[Processor::Device].as_ref().map(|named| named.name);
        let plain = matches!(named, Some("gpu-tensor" | "gpu-nested-loop"));
        if plain && join.engine_wanted() != Engine::Hybrid && machine.simulated().is_none() {
            return (VectorKnown::default(), join.host().vector_techniques_unseen());
        }
        let VectorTechniques { all, survey, fit } = join.host().vector_techniques(task);
        (VectorKnown { survey: Some(survey), fit: Some(fit) }, all)
    }

    fn check(left: &VectorCollection, right: Option<&VectorCollection>) -> Result<()> {
        let Some(right) = right else { return Ok(()) };
        if left.dimension() != right.dimension() {
            let (one, other) = (left.dimension(), right.dimension());
            let message =
                format!("vectors of dimension {other}; those of {} have {one}", left.name());
            return Err(Error::input(right.name(), "", message));
        }
        let narrow = |side: &VectorCollection| matches!(side.elements(), Elements::F32(_));
        if narrow(left) != narrow(right) {
            return Err(Error::Config(format!(
                "{} and {} are of different precision; widen the one in single precision",
                left.name(),
                right.name()
            )));
        }
        Ok(())
    }

    fn describe(
        left: &VectorCollection,
        right: Option<&VectorCollection>,
        predicate: &VectorPredicate,
    ) -> String {
        let count = |side: &VectorCollection, noun: &str| {
            let rows = format!("{}{noun}", grouped(side.records() as u64));
            let distinct = grouped(side.len() as u64);
            if side.has_repeats() { format!("{rows} ({distinct} distinct)") } else { rows }
        };
        let left_rows = count(left, " vectors");
        let rows = match right {
            None => format!("{left_rows} with themselves"),
            Some(right) => format!("{left_rows} with {}", count(right, "")),
        };
        format!("join: {rows}, dimension {}, {predicate}\n", left.dimension())
    }

    fn describe_step(step: &StepPlan) -> String {
        format!("{} pairs of vectors", grouped(step.pairs))
    }

    fn estimate_pairs(host: &dyn Host, task: &VectorTask<'_>, _: u64) -> Option<f64> {
        estimate_pairs(host, task).ok()
    }
}
