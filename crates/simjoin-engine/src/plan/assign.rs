//! How does each processor do a join?

use super::{Axis, Mode, Part, Setup, Split};
use crate::host::Host;
use crate::kind::{Direction, Kind, Task, Work};
use crate::processor::{PerProcessor, Processor};
use crate::report::{StepPlan, StepReport, did_its_work};
use crate::technique::{DeviceTimes, Technique, Techniques};
use crate::tuning::Tuning;
use simjoin_core::{Error, Result};

/// The fraction of a join that is looked at to see what the start of a chunk costs.
const TINY: f64 = 1e-3;

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
            shared: false,
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

/// How each processor does a join.
pub(crate) struct Assignments<'a, K: Kind> {
    /// The assignments of each processor for the whole join; of one of them only, unless they share it.
    pub(crate) of: PerProcessor<Vec<Assignment<'a, K>>>,
    /// If both processors share the join: its work, and how they divide it.
    pub(crate) shared: Option<(Axis<'a, K>, ChunkSize)>,
    /// The devices' share of the work as planned, where both processors were considered.
    pub(crate) share: Option<f64>,
    /// Why a processor that was asked for does nothing.
    pub(crate) warning: Option<String>,
}

/// The size of the chunks that processors take of a join that they share.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ChunkSize {
    /// This fraction of the axis.
    Equal(f64),
    /// All that a processor gets at once: this share for devices.
    Share(f64),
    /// Enough for both processors to finish together.
    Balanced {
        /// The seconds that each processor is expected to take for the whole join.
        seconds: PerProcessor<f64>,
        /// The start-up seconds of each chunk.
        starts: PerProcessor<f64>,
    },
}

/// A kind of rows whose joins can be planned.
pub(crate) trait Planned: Kind {
    /// The facts that a first look at the rows has shown.
    type Known: Send + Sync;

    /// Returns the processor that does a join so soon that planning would cost too much, if there is one.
    fn surely_short(
        _setup: &Setup<Self>,
        _directions: &[(Task<'_, Self>, Direction)],
    ) -> Option<Processor> {
        None
    }

    /// Returns the techniques of the CPU that can share a join, if the others can only do it as a whole.
    fn sharing(_host: &'static dyn Host) -> Techniques<Self> {
        Vec::new()
    }

    /// Returns the techniques of devices; `both_work`: those that may work at the same time as the CPU.
    fn device_techniques(setup: &Setup<Self>, both_work: bool) -> Result<Techniques<Self>>;

    /// Chooses a technique of a processor for each part, and cuts parts until they fit the memory. `technique`: the
    /// only one to choose from.
    fn assign<'a>(
        setup: &Setup<Self>,
        parts: Vec<Part<'a, Self>>,
        processor: Processor,
        technique: Option<usize>,
        both_work: bool,
    ) -> Result<Vec<Assignment<'a, Self>>>;

    /// Estimates all techniques for an assignment that is made already.
    fn consider(_setup: &Setup<Self>, _assignment: &mut Assignment<'_, Self>) {}

    /// Estimates the seconds of an assignment by a quick look.
    fn glance(setup: &Setup<Self>, assignment: &Assignment<'_, Self>) -> f64;
}

impl<'a, K: Kind> Assignments<'a, K> {
    /// Gives all of the work to one processor, or to none.
    fn of_one(assignments: Vec<Assignment<'a, K>>) -> Self {
        let (cpu, device) =
            assignments.into_iter().partition(|one| one.processor == Processor::Cpu);
        let of = PerProcessor { cpu, device };
        Assignments { of, shared: None, share: None, warning: None }
    }

    /// Gives nobody anything.
    pub(crate) fn none() -> Self {
        Self::of_one(Vec::new())
    }
}

impl<'a, K: Planned> Assignments<'a, K> {
    /// Decides who does what.
    pub(crate) fn decide(
        setup: &mut Setup<K>,
        directions: &[(Task<'a, K>, Direction)],
        predicate: &K::Predicate,
    ) -> Result<Self> {
        let on_cpu = |setup: &Setup<K>| Self::alone(setup, directions, Processor::Cpu);
        match setup.mode {
            Mode::Only(processor) => Self::alone(setup, directions, processor),
            Mode::Shared(split) => {
                let device = match whole(setup, directions, Processor::Device, true) {
                    // A user who asked for both is told why one processor does it all.
                    Err(why @ Error::Memory { .. }) => {
                        let warning = Some(did_its_work(&why));
                        return Ok(Assignments { warning, ..on_cpu(setup)? });
                    }
                    device => device?,
                };
                setup.worth = expected(setup, &device);
                let cpu = whole(setup, directions, Processor::Cpu, true)?;
                Ok(Self::sharing(setup, directions, PerProcessor { cpu, device }, split))
            }
            Mode::Auto => {
                if !setup.host.awake() && setup.machine.simulated().is_none() {
                    let alone = on_cpu(setup)?;
                    if seconds_of(&alone.of.cpu) < Tuning::WORTH_A_LOOK || !setup.wake_up(predicate)
                    {
                        return Ok(alone);
                    }
                } else if !setup.wake_up(predicate) {
                    return on_cpu(setup);
                }
                Self::fastest(setup, directions)
            }
        }
    }

    /// Gives everything to one processor.
    fn alone(
        setup: &Setup<K>,
        directions: &[(Task<'a, K>, Direction)],
        processor: Processor,
    ) -> Result<Self> {
        whole(setup, directions, processor, false).map(Self::of_one)
    }

    /// Gives everything to the processor that is expected to be faster, or lets both share it where that pays.
    fn fastest(setup: &mut Setup<K>, directions: &[(Task<'a, K>, Direction)]) -> Result<Self> {
        // Waking a device takes longer than measuring the machine.
        if !setup.machine.costs().1 {
            setup.machine.measured_costs(setup.host);
        }
        if let Some(processor) = K::surely_short(setup, directions) {
            return Self::alone(setup, directions, processor);
        }
        let device = match whole(setup, directions, Processor::Device, false) {
            // Something does not fit the device.
            Err(Error::Memory { .. }) => return Self::alone(setup, directions, Processor::Cpu),
            device => device?,
        };
        setup.worth = expected(setup, &device);
        let cpu = whole(setup, directions, Processor::Cpu, false)?;
        let alone = PerProcessor { cpu, device };
        let seconds = both_expected(setup, &alone);
        let shortest = seconds.cpu.min(seconds.device);
        let able = |processor| setup.techniques[processor].iter().any(|one| one.joins_any_range());
        if shortest > Tuning::SHORTEST && Processor::ALL.into_iter().all(able) {
            // Where the memory is shared too, or the best techniques cannot share, the processors go about it otherwise.
            let shares = |one: &Assignment<'_, K>| setup.technique(one).joins_any_range();
            let same = setup.limits.memory == u64::MAX
                && Processor::ALL.into_iter().all(|one| alone[one].iter().all(shares));
            let of = match same {
                true => Ok(alone.clone()),
                false => PerProcessor::try_of(|one| whole(setup, directions, one, true)),
            };
            if let Ok(of) = of {
                let both = both_expected(setup, &of);
                let both =
                    Tuning::FRICTION / (1.0 / both.cpu + 1.0 / both.device) + Tuning::TOGETHER;
                if both < Tuning::WORTHWHILE * shortest {
                    return Ok(Self::sharing(setup, directions, of, Split::Auto));
                }
            }
        }
        let PerProcessor { cpu, device } = alone;
        let on_cpu = seconds.cpu <= seconds.device;
        let share = Some(if on_cpu { 0.0 } else { 1.0 });
        Ok(Assignments { share, ..Self::of_one(if on_cpu { cpu } else { device }) })
    }

    /// Lets both processors share a join.
    fn sharing(
        setup: &Setup<K>,
        directions: &[(Task<'a, K>, Direction)],
        of: PerProcessor<Vec<Assignment<'a, K>>>,
        split: Split,
    ) -> Self {
        let axis = Axis::new(directions);
        let (size, share) = match split {
            Split::Share(share) => (ChunkSize::Share(share), Some(share)),
            Split::Queue(chunks) => (ChunkSize::Equal(1.0 / f64::from(chunks.max(1))), None),
            Split::Auto => {
                let seconds = both_expected(setup, &of);
                let starts = PerProcessor::of(|processor| {
                    start(setup, &axis, &of[processor], processor, seconds[processor])
                });
                let share = 1.0 / (1.0 + seconds.device / seconds.cpu.max(f64::MIN_POSITIVE));
                let share = if share.is_finite() { share } else { 0.5 };
                (ChunkSize::Balanced { seconds, starts }, Some(share))
            }
        };
        Assignments { of, shared: Some((axis, size)), share, warning: None }
    }

    /// Returns the steps of the plan, with the estimates of all techniques.
    pub(crate) fn steps(&self, setup: &Setup<K>) -> Vec<StepPlan> {
        let plan = |one: &Assignment<'a, K>| {
            let mut one = one.clone();
            K::consider(setup, &mut one);
            let shared = self.shared.is_some();
            StepPlan { shared, ..one.planned(&setup.techniques[one.processor]) }
        };
        self.of.cpu.iter().chain(&self.of.device).map(plan).collect()
    }
}

/// Assigns a whole join to a processor.
fn whole<'a, K: Planned>(
    setup: &Setup<K>,
    directions: &[(Task<'a, K>, Direction)],
    processor: Processor,
    both_work: bool,
) -> Result<Vec<Assignment<'a, K>>> {
    let part = |&(task, direction): &(_, _)| Part { task, direction, range: K::whole(&task) };
    K::assign(setup, directions.iter().map(part).collect(), processor, None, both_work)
}

/// Returns the estimated seconds of assignments; those without an estimate do not count.
fn seconds_of<K: Kind>(assignments: &[Assignment<'_, K>]) -> f64 {
    assignments.iter().filter_map(Assignment::seconds).sum()
}

/// Returns the seconds that assignments are expected to take, corrected by past joins.
fn expected<K: Planned>(setup: &Setup<K>, assignments: &[Assignment<'_, K>]) -> f64 {
    let corrections = setup.corrections();
    let corrected = |one: &Assignment<'_, K>| {
        let seconds = one.seconds().unwrap_or_else(|| setup.install(|| K::glance(setup, one)));
        seconds * corrections.of(setup.technique(one).name(), seconds)
    };
    assignments.iter().map(corrected).sum()
}

/// Returns the seconds that each processor is expected to take for its assignments.
fn both_expected<K: Planned>(
    setup: &Setup<K>,
    of: &PerProcessor<Vec<Assignment<'_, K>>>,
) -> PerProcessor<f64> {
    PerProcessor::of(|processor| expected(setup, &of[processor]))
}

/// Returns the seconds that a chunk of a join takes a processor however small it is, if all of the join takes it
/// `seconds`: by a look at a tiny chunk at its end of the axis.
fn start<'a, K: Planned>(
    setup: &Setup<K>,
    axis: &Axis<'a, K>,
    whole: &[Assignment<'a, K>],
    processor: Processor,
    seconds: f64,
) -> f64 {
    let (from, to) = match processor {
        Processor::Cpu => (0.0, TINY),
        Processor::Device => (1.0 - TINY, 1.0),
    };
    let tiny = axis.between(from, to).into_iter().filter_map(|part| {
        let technique = technique_for(whole, &part);
        K::assign(setup, vec![part], processor, technique, true).ok()
    });
    let tiny: f64 = tiny.flatten().map(|one| setup.install(|| K::glance(setup, &one))).sum();
    tiny.max(Tuning::LEAST_START * seconds).max(Tuning::CHUNK * setup.machine.scale())
}

/// Returns the technique with which a processor does a part of a join, if this is how it does the whole: that of the
/// assignment in which the middle probe of the part lies.
pub(crate) fn technique_for<'a, K: Kind>(
    whole: &[Assignment<'a, K>],
    part: &Part<'a, K>,
) -> Option<usize> {
    let probes = K::probes(&part.range);
    let middle = probes.start + (probes.end - probes.start) / 2;
    let mut own = whole.iter().filter(|one| one.direction == part.direction);
    own.find(|one| one.work.probes.contains(&middle)).map(|one| one.technique)
}
