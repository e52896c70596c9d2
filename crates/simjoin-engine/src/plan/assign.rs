//! Who does what?

use super::{Mode, Setup, Split, Tuning};
use crate::host::Host;
use crate::kind::{Direction, Kind, Task, Work};
use crate::processor::{PerProcessor, Processor};
use crate::report::{StepPlan, StepReport};
use crate::run::{Axis, ChunkSize, Part, Queue, did_its_work};
use crate::technique::{DeviceTimes, Technique, Techniques};
use simjoin_core::{Error, Result};
use std::sync::Arc;

/// A part of a join, and the processor and technique that will do it.
#[derive(Clone)]
pub(crate) struct Assignment<'a, K: Kind> {
    pub(crate) task: Task<'a, K>,
    pub(crate) direction: Direction,
    pub(crate) range: K::Range,
    pub(crate) work: Work,
    pub(crate) processor: Processor,
    /// The technique, by its place among those of the processor.
    pub(crate) technique: usize,
    /// The estimated seconds of every technique of the processor; `None` where it cannot do the range, does not fit
    /// the memory, or was not asked.
    pub(crate) considered: Vec<Option<f64>>,
}

impl<'a, K: Kind> Assignment<'a, K> {
    /// Returns the estimated seconds of the chosen technique.
    pub(crate) fn seconds(&self) -> Option<f64> {
        self.considered[self.technique]
    }

    pub(crate) fn part(self) -> Part<'a, K> {
        Part { task: self.task, direction: self.direction, range: self.range }
    }

    /// Cuts it into about `parts` smaller ones without estimates.
    pub(crate) fn cut(&self, parts: usize) -> Vec<Self> {
        let ranges = K::cut(&self.task, &self.range, parts).into_iter();
        let smaller = ranges.map(|range| {
            let work = K::work(&self.task, &range);
            Assignment {
                range,
                work,
                considered: vec![None; self.considered.len()],
                ..self.clone()
            }
        });
        smaller.collect()
    }

    /// Reports that it was done.
    pub(crate) fn report(
        &self,
        technique: &dyn Technique<K>,
        Decided { details, figures }: Decided,
        (begin, seconds): (f64, f64),
        device_times: DeviceTimes,
    ) -> StepReport {
        StepReport {
            technique: technique.name(),
            variant: technique.variant(),
            details,
            figures,
            processor: self.processor,
            probes: self.work.probe_sizes,
            pairs: self.work.pairs,
            tokens: self.work.tokens,
            estimated: self.seconds(),
            begin,
            seconds,
            device_times,
        }
    }

    /// Describes it as a step of a plan.
    pub(crate) fn planned(&self, offered: &[Box<dyn Technique<K>>]) -> StepPlan {
        let considered = offered.iter().zip(&self.considered);
        StepPlan {
            processor: self.processor,
            probes: self.work.probe_sizes,
            builds: self.work.build_sizes,
            pairs: self.work.pairs,
            tokens: self.work.tokens,
            technique: (offered[self.technique].name(), offered[self.technique].variant()),
            queued: false,
            seconds: self.seconds(),
            considered: considered
                .map(|(technique, seconds)| (technique.name(), technique.variant(), *seconds))
                .collect(),
        }
    }
}

/// What a technique decided in preparing an assignment.
pub(crate) struct Decided {
    /// In words.
    pub(crate) details: String,
    /// In numbers, by name.
    pub(crate) figures: Vec<(&'static str, u64)>,
}

/// Who does what of a join.
pub(crate) struct Assignments<'a, K: Kind> {
    pub(crate) fixed: PerProcessor<Vec<Assignment<'a, K>>>,
    /// Whether both processors work at once.
    pub(crate) shared: bool,
    /// The devices' share of the work, as planned.
    pub(crate) share: Option<f64>,
    queued: Option<(Arc<dyn Axis<'a, K> + 'a>, Queued)>,
    /// Why a processor that was asked for does nothing.
    pub(crate) warning: Option<String>,
}

impl<'a, K: Kind> Assignments<'a, K> {
    fn of_one(assignments: Vec<Assignment<'a, K>>) -> Self {
        let (cpu, device) =
            assignments.into_iter().partition(|one| one.processor == Processor::Cpu);
        let fixed = PerProcessor { cpu, device };
        Assignments { fixed, shared: false, share: None, queued: None, warning: None }
    }

    /// Gives nobody anything.
    pub(crate) fn none() -> Self {
        Self::of_one(Vec::new())
    }

    /// Returns whether some of the work goes to the processor that is done first.
    pub(crate) fn has_queue(&self) -> bool {
        self.queued.is_some()
    }

    /// Makes the queue, still full.
    pub(crate) fn queue(&self) -> Option<Queue<'a, K>> {
        let (axis, queued) = self.queued.clone()?;
        Some(Queue::new(axis, queued.between, queued.size, queued.chosen))
    }
}

/// The probes between two points of an axis, and the technique chosen for them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Chosen {
    pub(crate) from: f64,
    pub(crate) to: f64,
    /// Its place among those of the processor.
    pub(crate) technique: usize,
    /// The seconds estimated for it.
    pub(crate) seconds: f64,
}

/// The division of a join: who does which part, and with which techniques.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Division {
    /// The devices' share of the work.
    pub(crate) share: f64,
    /// The techniques of each processor for its part, which may be the whole join; empty if not chosen yet.
    pub(crate) chosen: PerProcessor<Vec<Chosen>>,
    /// The probes between the two parts, for the processor that finishes first.
    pub(crate) queued: Option<Queued>,
}

/// A part of the axis that is queued.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Queued {
    pub(crate) between: [f64; 2],
    pub(crate) size: ChunkSize,
    /// The techniques of each processor for it; empty if not chosen yet.
    pub(crate) chosen: PerProcessor<Vec<Chosen>>,
}

/// A kind of rows whose joins can be planned.
pub(crate) trait Planned: Kind {
    /// The facts that a first look at the rows has shown.
    type Known: Send + Sync;

    /// A join whose exact counts promise fewer seconds than this needs no device.
    fn negligible(setup: &Setup<Self>) -> f64;

    /// Returns the techniques of the CPU that can share a join, if the others can only do it as a whole.
    fn sharing(host: &'static dyn Host) -> Techniques<Self>;

    /// Returns the techniques of devices; `shared`: those that may work next to the CPU.
    fn device_techniques(setup: &Setup<Self>, shared: bool) -> Result<Techniques<Self>>;

    /// Puts the probes of a join on an axis.
    fn axis<'a>(
        setup: &Setup<Self>,
        directions: &[(Task<'a, Self>, Direction)],
    ) -> Arc<dyn PlannedAxis<'a, Self> + 'a>;

    /// Chooses a technique of a processor for each part, and cuts parts until they fit the memory.
    fn assign<'a>(
        setup: &Setup<Self>,
        parts: Vec<Part<'a, Self>>,
        processor: Processor,
        shared: bool,
    ) -> Result<Vec<Assignment<'a, Self>>>;

    /// Assigns parts to a technique, and cuts them until they fit the memory.
    fn assign_to<'a>(
        setup: &Setup<Self>,
        parts: Vec<Part<'a, Self>>,
        processor: Processor,
        technique: usize,
        shared: bool,
    ) -> Result<Vec<Assignment<'a, Self>>>;

    /// Estimates all techniques for an assignment that is made already.
    fn consider(setup: &Setup<Self>, assignment: &mut Assignment<'_, Self>);

    /// Estimates the seconds of an assignment by a quick look.
    fn glance(setup: &Setup<Self>, assignment: &Assignment<'_, Self>) -> f64;
}

/// An axis from which a division can be planned.
pub(crate) trait PlannedAxis<'a, K: Planned>: Axis<'a, K> {
    /// Returns a lower bound of the seconds that the whole join takes one core.
    fn least_seconds(&self, setup: &Setup<K>) -> f64;

    /// Divides the join so that both processors are expected to finish together, or gives it all to one of them.
    fn divide(&self, setup: &Setup<K>) -> Division;

    /// Divides the join at a point.
    fn divide_at(&self, setup: &Setup<K>, point: f64) -> Division;

    /// Chooses the techniques with which a device does the whole join; empty if not chosen yet.
    fn choose_device(&self, setup: &Setup<K>) -> Vec<Chosen>;

    /// Returns the same axis, for a queue.
    fn for_queue(self: Arc<Self>) -> Arc<dyn Axis<'a, K> + 'a>;
}

impl<'a, K: Planned> Assignments<'a, K> {
    /// Decides who does what.
    pub(crate) fn decide(
        setup: &mut Setup<K>,
        directions: &[(Task<'a, K>, Direction)],
        predicate: &K::Predicate,
    ) -> Result<Self> {
        let axis = K::axis(setup, directions);
        match setup.mode {
            Mode::Only(processor) => Self::alone(setup, directions, &axis, processor),
            Mode::Shared(Split::Auto) => Self::divided(setup, directions, &axis),
            Mode::Shared(Split::Share(share)) => {
                let division = axis.divide_at(setup, 1.0 - share);
                Self::share(setup, axis, division)
            }
            Mode::Shared(Split::Queue(chunks)) => {
                let size = ChunkSize::Equal(1.0 / f64::from(chunks.max(1)));
                let queued = Queued { between: [0.0, 1.0], size, chosen: PerProcessor::default() };
                let fixed = PerProcessor::default();
                let queued = Some((axis.for_queue(), queued));
                Ok(Assignments { fixed, shared: true, share: None, queued, warning: None })
            }
            Mode::Auto => {
                let on_cpu =
                    |setup: &Setup<K>| Self::alone(setup, directions, &axis, Processor::Cpu);
                if axis.least_seconds(setup) < K::negligible(setup) {
                    return on_cpu(setup);
                }
                if !setup.host.awake() && setup.machine.simulated().is_none() {
                    let alone = on_cpu(setup)?;
                    let seconds: f64 = alone.fixed.cpu.iter().filter_map(Assignment::seconds).sum();
                    if seconds < Tuning::WORTH_A_LOOK || !setup.wake_up(predicate) {
                        return Ok(alone);
                    }
                } else if !setup.wake_up(predicate) {
                    return on_cpu(setup);
                }
                Self::divided(setup, directions, &axis)
            }
        }
    }

    /// Gives everything to one processor.
    fn alone(
        setup: &Setup<K>,
        directions: &[(Task<'a, K>, Direction)],
        axis: &Arc<dyn PlannedAxis<'a, K> + 'a>,
        processor: Processor,
    ) -> Result<Self> {
        if processor == Processor::Device && setup.techniques.device.len() > 1 {
            let chosen = axis.choose_device(setup);
            let assigned = assign_chosen(setup, &**axis, &chosen, processor, false);
            // Where it does not fit, another technique may need less.
            if !chosen.is_empty() && !matches!(assigned, Err(Error::Memory { .. })) {
                return assigned.map(Self::of_one);
            }
        }
        let whole = |&(task, direction): &(Task<'a, K>, Direction)| Part {
            task,
            direction,
            range: K::whole(&task),
        };
        let parts = directions.iter().map(whole).collect();
        K::assign(setup, parts, processor, false).map(Self::of_one)
    }

    /// Divides the work so that both processors are expected to finish together, or gives it all to one of them.
    fn divided(
        setup: &Setup<K>,
        directions: &[(Task<'a, K>, Direction)],
        axis: &Arc<dyn PlannedAxis<'a, K> + 'a>,
    ) -> Result<Self> {
        let division = axis.divide(setup);
        let share = division.share;
        let alone = |processor: Processor| match &division.chosen[processor][..] {
            [] => Self::alone(setup, directions, axis, processor),
            chosen => assign_chosen(setup, &**axis, chosen, processor, false).map(Self::of_one),
        };
        let assigned = match share {
            0.0 => alone(Processor::Cpu),
            1.0 => alone(Processor::Device),
            _ => Self::share(setup, axis.clone(), division.clone()),
        };
        let mut assigned = match assigned {
            // Something does not fit the device.
            Err(Error::Memory { .. }) if share > 0.0 => {
                Self::alone(setup, directions, axis, Processor::Cpu)?
            }
            assigned => assigned?,
        };
        let shared = assigned.has_queue() || !assigned.fixed.device.is_empty();
        assigned.share = Some(if shared { share } else { 0.0 });
        // A user who asked for both is told why one processor does it all.
        if !shared
            && setup.mode != Mode::Auto
            && let Err(why @ Error::Memory { .. }) =
                Self::alone(setup, directions, axis, Processor::Device)
        {
            assigned.warning = Some(did_its_work(&why));
        }
        Ok(assigned)
    }

    /// Gives each processor its part, and queues the probes between the two parts.
    fn share(
        setup: &Setup<K>,
        axis: Arc<dyn PlannedAxis<'a, K> + 'a>,
        division: Division,
    ) -> Result<Self> {
        let point = 1.0 - division.share;
        let [before, after] = division.queued.as_ref().map_or([point; 2], |queued| queued.between);
        let fixed = |processor: Processor| {
            let (from, to) = match processor {
                Processor::Cpu => (0.0, before),
                Processor::Device => (after, 1.0),
            };
            match &division.chosen[processor][..] {
                [] => K::assign(setup, axis.between(from, to), processor, true),
                chosen => assign_chosen(setup, &*axis, chosen, processor, true),
            }
        };
        let fixed = PerProcessor { cpu: fixed(Processor::Cpu)?, device: fixed(Processor::Device)? };
        let queued = division.queued.map(|queued| (axis.for_queue(), queued));
        Ok(Assignments { fixed, shared: true, share: Some(division.share), queued, warning: None })
    }

    /// Returns the steps of the plan, with the estimates of all techniques.
    pub(crate) fn steps(&self, setup: &Setup<K>) -> Vec<StepPlan> {
        let all = self.fixed.cpu.iter().chain(&self.fixed.device);
        let plan = |one: &Assignment<'a, K>| {
            let mut one = one.clone();
            K::consider(setup, &mut one);
            one.planned(&setup.techniques[one.processor])
        };
        let mut steps: Vec<StepPlan> = all.map(plan).collect();
        let Some((axis, queued)) = &self.queued else { return steps };
        // Queued work is shown as the CPU would do it, with the device's estimates added.
        for part in axis.between(queued.between[0], queued.between[1]) {
            let of = |processor| K::assign(setup, vec![part.clone()], processor, true);
            let (Ok(cpu), Ok(device)) = (of(Processor::Cpu), of(Processor::Device)) else {
                continue;
            };
            let on_device: Vec<StepPlan> = device.iter().map(plan).collect();
            let seconds: Option<f64> = on_device.iter().map(|step| step.seconds).sum();
            for mut step in cpu.iter().map(plan) {
                let share =
                    step.pairs as f64 / K::work(&part.task, &part.range).pairs.max(1) as f64;
                let both =
                    |(one, other): (f64, f64)| one * other / (one + other).max(f64::MIN_POSITIVE);
                step.seconds = step.seconds.zip(seconds.map(|all| all * share)).map(both);
                step.queued = true;
                step.considered.extend(on_device.iter().flat_map(|one| one.considered.clone()));
                steps.push(step);
            }
        }
        steps
    }
}

/// Assigns parts of an axis to the techniques chosen for them.
fn assign_chosen<'a, K: Planned>(
    setup: &Setup<K>,
    axis: &(dyn PlannedAxis<'a, K> + 'a),
    chosen: &[Chosen],
    processor: Processor,
    shared: bool,
) -> Result<Vec<Assignment<'a, K>>> {
    let mut all = Vec::new();
    for &Chosen { from, to, technique, seconds } in chosen {
        let mut assigned =
            K::assign_to(setup, axis.between(from, to), processor, technique, shared)?;
        let each = seconds / assigned.len().max(1) as f64;
        assigned.iter_mut().for_each(|one| one.considered[technique] = Some(each));
        all.extend(assigned);
    }
    Ok(all)
}
