//! How is a join of vectors planned?
//!
//! One processor does a join as a whole, by the technique that a sample estimates to be cheapest. CPU and devices share
//! it stripe by stripe: a nested loop on both, or products on the tensor cores of a device.

use super::Setup;
use super::assign::{Assignment, Planned};
use super::axis::Part;
use super::whole::{self, Whole};
use crate::host::Host;
use crate::machine::striped_loop;
use crate::processor::Processor;
use crate::technique::{Technique, Techniques};
use crate::vectors::{VectorKnown, VectorTask, Vectors};
use simjoin_core::Result;
use std::ops::Range;

impl Whole for Vectors {
    fn seconds(
        setup: &Setup<Self>,
        technique: &dyn Technique<Self>,
        task: &VectorTask<'_>,
        probes: &Range<u32>,
    ) -> Option<f64> {
        let cost = technique.cost(setup.known.survey.as_ref()?, &setup.costs())?;
        let part = task.pairs_of(probes) / task.pairs().max(1.0);
        Some((cost.serial + cost.parallel / setup.threads as f64) * part.min(1.0))
    }

    fn needs_memory(_: &VectorTask<'_>) -> &'static str {
        "the join"
    }

    fn sharing_names() -> &'static str {
        "gpu-tensor or gpu-nested-loop"
    }
}

impl Planned for Vectors {
    type Known = VectorKnown;

    fn sharing(host: &'static dyn Host) -> Techniques<Self> {
        vec![striped_loop(host)]
    }

    fn device_techniques(setup: &Setup<Self>, both_work: bool) -> Result<Techniques<Self>> {
        let Setup { machine, host, known, limits, .. } = setup;
        machine.device_vector_techniques(*host, known.fit.as_ref(), limits.device_memory, both_work)
    }

    fn assign<'a>(
        setup: &Setup<Self>,
        parts: Vec<Part<'a, Self>>,
        processor: Processor,
        technique: Option<usize>,
        both_work: bool,
    ) -> Result<Vec<Assignment<'a, Self>>> {
        whole::assign(setup, parts, processor, technique, both_work)
    }

    fn glance(setup: &Setup<Self>, assignment: &Assignment<'_, Self>) -> f64 {
        whole::glance(setup, assignment)
    }
}
