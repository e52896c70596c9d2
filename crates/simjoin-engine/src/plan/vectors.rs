//! How is a join of vectors planned?
//!
//! One processor does a join as a whole, by the technique that a sample estimates to be cheapest. CPU and devices share
//! it stripe by stripe: a nested loop on both, or products on the tensor cores of a device.

use super::assign::{Assignment, Chosen, Division, Planned, PlannedAxis, Queued};
use super::{Mode, Setup, Tuning};
use crate::host::Host;
use crate::kind::{Direction, Kind};
use crate::machine::striped_loop;
use crate::processor::{PerProcessor, Processor};
use crate::run::{Axis, ChunkSize, Part};
use crate::technique::{Technique, Techniques};
use crate::vectors::{STRIPE, VectorKnown, VectorTask, Vectors};
use simjoin_core::{Error, Result};
use std::ops::Range;
use std::sync::Arc;

/// `auto` shares a join only if that takes less than this fraction of the faster processor's time alone. Not measured
/// on a GPU: by its estimates, an H200 is far too fast for it with 16 cores at its side.
const WORTHWHILE: f64 = 0.9;

/// The seconds for a pair if nothing was estimated.
const UNKNOWN_PAIR: f64 = 1e-9;

impl Setup<Vectors> {
    /// Estimates the seconds of a technique for some probes.
    fn seconds(
        &self,
        technique: &dyn Technique<Vectors>,
        task: &VectorTask<'_>,
        probes: &Range<u32>,
    ) -> Option<f64> {
        let cost = technique.cost(self.known.survey.as_ref()?, &self.costs())?;
        let part = task.pairs_of(probes) / task.pairs().max(1.0);
        Some((cost.serial + cost.shared / self.threads as f64) * part.min(1.0))
    }

    /// Returns the bytes that a technique needs and that exceed a limit, and whether on a device.
    fn excess(
        &self,
        technique: &dyn Technique<Vectors>,
        task: &VectorTask<'_>,
        probes: &Range<u32>,
        shared: bool,
    ) -> Option<(u64, bool)> {
        let needed = technique.memory_bytes(task, probes, self.threads);
        let on_device = technique.device_bytes(task, probes, self.threads);
        if needed > self.memory(shared) {
            Some((needed, false))
        } else if on_device > self.limits.device_memory {
            Some((on_device, true))
        } else {
            None
        }
    }

    /// Returns the cheapest technique of a processor that fits the memory, by its place, and its seconds.
    fn cheapest(
        &self,
        task: &VectorTask<'_>,
        processor: Processor,
        shared: bool,
    ) -> Option<(usize, f64)> {
        let whole = Vectors::whole(task);
        let all = self.techniques[processor].iter().enumerate();
        let able = all.filter(|(_, one)| !shared || one.shares());
        let fitting = able.filter(|(_, one)| self.excess(&***one, task, &whole, shared).is_none());
        let costs = fitting
            .map(|(at, one)| (at, self.seconds(&**one, task, &whole).unwrap_or(f64::INFINITY)));
        costs.min_by(|a, b| a.1.total_cmp(&b.1))
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
        let mut assigned = Vec::new();
        for part in parts.into_iter().filter(|part| !part.range.is_empty()) {
            let Part { task, range, .. } = &part;
            let striped = shared || *range != Vectors::whole(task);
            let (mut considered, mut least) = (Vec::new(), None::<(u64, bool)>);
            let mut best: Option<(f64, usize)> = None;
            for (at, one) in setup.techniques[processor].iter().enumerate() {
                let excess = setup.excess(&**one, task, range, shared);
                let able = (!striped || one.shares()) && excess.is_none();
                let seconds = setup.seconds(&**one, task, range).filter(|_| able);
                considered.push(seconds);
                // A technique that has no estimate is the last choice.
                let judged = seconds.unwrap_or(f64::INFINITY);
                if able && best.is_none_or(|(before, _)| judged < before) {
                    best = Some((judged, at));
                }
                if let Some(excess) = excess {
                    least = Some(least.map_or(excess, |before| before.min(excess)));
                }
            }
            let Some((_, technique)) = best else {
                let Some((needed, device)) = least else {
                    return Err(Error::Config(
                        "the technique does a join only as a whole; expected one that CPU and GPU can share: \
                         gpu-tensor or gpu-nested-loop"
                            .into(),
                    ));
                };
                let limit = if device { setup.limits.device_memory } else { setup.memory(shared) };
                let error = Error::Memory { what: "the join".into(), needed, limit, device };
                return Err(setup.with_answer(error, shared));
            };
            let work = Vectors::work(task, range);
            let Part { task, direction, range } = part;
            assigned.push(Assignment {
                task,
                direction,
                range,
                work,
                processor,
                technique,
                considered,
            });
        }
        Ok(assigned)
    }

    fn assign_to<'a>(
        setup: &Setup<Self>,
        parts: Vec<Part<'a, Self>>,
        processor: Processor,
        technique: usize,
        shared: bool,
    ) -> Result<Vec<Assignment<'a, Self>>> {
        let mut assigned = Self::assign(setup, parts, processor, shared)?;
        assigned.iter_mut().for_each(|one| one.technique = technique);
        Ok(assigned)
    }

    fn consider(_: &Setup<Self>, _: &mut Assignment<'_, Self>) {}

    fn glance(setup: &Setup<Self>, assignment: &Assignment<'_, Self>) -> f64 {
        let pairs = assignment.work.pairs as f64;
        UNKNOWN_PAIR * setup.machine.scale() * pairs / setup.threads as f64
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
