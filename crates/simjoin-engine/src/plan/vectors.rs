//! How is a join of vectors planned?
//!
//! One processor does a join as a whole, by the technique that a sample estimates to be cheapest. CPU and devices share
//! it stripe by stripe: a nested loop on both, or products on the tensor cores of a device.

use super::assign::{Assignment, Chosen, Division, Planned, PlannedAxis, Queued};
use super::whole::{self, Whole};
use super::{Mode, Setup, Tuning};
use crate::host::Host;
use crate::kind::Direction;
use crate::machine::striped_loop;
use crate::processor::{PerProcessor, Processor};
use crate::run::{Axis, ChunkSize, Part};
use crate::technique::{Technique, Techniques};
use crate::vectors::{STRIPE, VectorKnown, VectorTask, Vectors};
use simjoin_core::Result;
use std::ops::Range;
use std::sync::Arc;

/// `auto` shares a join only if that takes less than this fraction of the faster processor's time alone. Not measured
/// on a GPU: by its estimates, an H200 is far too fast for it with 16 cores at its side.
const WORTHWHILE: f64 = 0.9;

impl Whole for Vectors {
    fn seconds(
        setup: &Setup<Self>,
        technique: &dyn Technique<Self>,
        task: &VectorTask<'_>,
        probes: &Range<u32>,
    ) -> Option<f64> {
        let cost = technique.cost(setup.known.survey.as_ref()?, &setup.costs())?;
        let part = task.pairs_of(probes) / task.pairs().max(1.0);
        Some((cost.serial + cost.shared / setup.threads as f64) * part.min(1.0))
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

    fn negligible(setup: &Setup<Self>) -> f64 {
        // A simulated device never sleeps.
        if setup.machine.simulated().is_some() { 0.0 } else { Tuning::WORTH_A_LOOK }
    }

    fn sharing(host: &'static dyn Host) -> Techniques<Self> {
        vec![striped_loop(host)]
    }

    fn device_techniques(setup: &Setup<Self>, shared: bool) -> Result<Techniques<Self>> {
        let Setup { machine, host, known, limits, .. } = setup;
        machine.device_vector_techniques(*host, known.fit.as_ref(), limits.device_memory, shared)
    }

    fn axis<'a>(
        _: &Setup<Self>,
        directions: &[(VectorTask<'a>, Direction)],
    ) -> Arc<dyn PlannedAxis<'a, Self> + 'a> {
        let (task, direction) = directions[0];
        Arc::new(VectorAxis { task, direction })
    }

    fn assign<'a>(
        setup: &Setup<Self>,
        parts: Vec<Part<'a, Self>>,
        processor: Processor,
        shared: bool,
    ) -> Result<Vec<Assignment<'a, Self>>> {
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

/// The probes of a join of vectors on an axis, by whole stripes.
#[derive(Clone, Copy)]
struct VectorAxis<'a> {
    task: VectorTask<'a>,
    direction: Direction,
}

impl VectorAxis<'_> {
    /// Returns the probe that is nearest to a point and begins a stripe.
    fn row(&self, point: f64) -> u32 {
        let rows = self.task.probe.len();
        let part = match self.task.is_self_join() {
            // The first probes meet the most rows.
            true => 1.0 - (1.0 - point).max(0.0).sqrt(),
            false => point,
        };
        let stripes = (part * rows as f64 / STRIPE as f64).round() as usize;
        if point >= 1.0 { rows as u32 } else { (stripes * STRIPE).min(rows) as u32 }
    }
}

impl<'a> Axis<'a, Vectors> for VectorAxis<'a> {
    fn between(&self, from: f64, to: f64) -> Vec<Part<'a, Vectors>> {
        let range = self.row(from)..self.row(to);
        let &VectorAxis { task, direction } = self;
        if range.is_empty() { Vec::new() } else { vec![Part { task, direction, range }] }
    }
}

impl<'a> PlannedAxis<'a, Vectors> for VectorAxis<'a> {
    fn least_seconds(&self, setup: &Setup<Vectors>) -> f64 {
        setup
            .cheapest(&self.task, Processor::Cpu, false)
            .map_or(f64::INFINITY, |(_, seconds)| seconds)
    }

    fn divide(&self, setup: &Setup<Vectors>) -> Division {
        let one = |processor, shared| setup.cheapest(&self.task, processor, shared);
        let alone = PerProcessor::of(|processor| one(processor, false));
        let seconds = |found: Option<(usize, f64)>| found.map_or(f64::INFINITY, |one| one.1);
        let shortest = seconds(alone.cpu).min(seconds(alone.device));
        let shared = PerProcessor::of(|processor| one(processor, true));
        if let (Some((cpu, of_cpu)), Some((device, of_device))) = (shared.cpu, shared.device) {
            let both = 1.0 / (1.0 / of_cpu + 1.0 / of_device);
            let forced = setup.mode != Mode::Auto;
            if forced || both < WORTHWHILE * shortest {
                let share = if both > 0.0 && both.is_finite() { both / of_device } else { 0.5 };
                let techniques = PerProcessor { cpu, device };
                let seconds = PerProcessor { cpu: of_cpu, device: of_device };
                return queue_all(share.clamp(0.0, 1.0), techniques, seconds);
            }
        }
        let share = if seconds(alone.cpu) <= seconds(alone.device) { 0.0 } else { 1.0 };
        Division { share, ..Division::default() }
    }

    fn divide_at(&self, setup: &Setup<Vectors>, point: f64) -> Division {
        let found = self.divide(setup);
        let chosen = |processor: Processor, from: f64, to: f64| -> Vec<Chosen> {
            let all = found.queued.iter().flat_map(|queued| &queued.chosen[processor]);
            all.map(|one| Chosen { from, to, seconds: one.seconds * (to - from), ..*one }).collect()
        };
        let chosen = PerProcessor {
            cpu: chosen(Processor::Cpu, 0.0, point),
            device: chosen(Processor::Device, point, 1.0),
        };
        Division { share: 1.0 - point, chosen, queued: None }
    }

    fn choose_device(&self, _: &Setup<Vectors>) -> Vec<Chosen> {
        Vec::new()
    }

    fn for_queue(self: Arc<Self>) -> Arc<dyn Axis<'a, Vectors> + 'a> {
        self
    }
}

/// Queues all stripes: a processor prepares once for all of them, so that another start costs
/// little.
fn queue_all(share: f64, techniques: PerProcessor<usize>, seconds: PerProcessor<f64>) -> Division {
    let between = [0.0, 1.0];
    let all = |technique, seconds| vec![Chosen { from: 0.0, to: 1.0, technique, seconds }];
    let starts = PerProcessor::of(|processor| Tuning::LEAST_PART * seconds[processor]);
    let queued = Queued {
        between,
        size: ChunkSize::Balanced { seconds, starts },
        chosen: PerProcessor::of(|processor| all(techniques[processor], seconds[processor])),
    };
    Division { share, chosen: PerProcessor::default(), queued: Some(queued) }
}
