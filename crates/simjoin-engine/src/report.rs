//! Where does a join run, what is it going to do, and what did it do?

use crate::kind::work_share;
use crate::processor::Processor;
use crate::technique::DeviceTimes;
use simjoin_core::{Error, Result};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// Where a join runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Engine {
    /// On the processors that are expected to be fastest.
    #[default]
    Auto,
    /// On CPU cores.
    Cpu,
    /// On a GPU.
    Gpu,
    /// On CPU cores and a GPU at once.
    Hybrid,
}

impl Engine {
    /// Returns the name used on the command line and in statistics.
    pub fn name(self) -> &'static str {
        match self {
            Engine::Auto => "auto",
            Engine::Cpu => "cpu",
            Engine::Gpu => "gpu",
            Engine::Hybrid => "hybrid",
        }
    }
}

impl FromStr for Engine {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        [Engine::Auto, Engine::Cpu, Engine::Gpu, Engine::Hybrid]
            .into_iter()
            .find(|engine| engine.name() == name)
            .ok_or_else(|| {
                Error::Config(format!("unknown engine {name:?}; expected auto, cpu, gpu or hybrid"))
            })
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What a join did.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Report {
    /// Pairs of rows in the answer.
    pub pairs: u64,
    /// Pairs that were verified; a pair that passes a filter twice counts twice.
    pub candidates: u64,
    /// The technique that ran; several are joined by `+`.
    pub technique: String,
    /// The engine that ran.
    pub engine: Engine,
    /// The number of threads that ran.
    pub threads: usize,
    /// The devices' share of the work as planned, where both CPU and devices were considered.
    pub planned_device_share: Option<f64>,
    /// Seconds from the first range to the last pair.
    pub seconds: f64,
    /// The same by the virtual clock, if a device is simulated.
    pub virtual_seconds: Option<f64>,
    /// The steps of the join: those of the CPU in the order in which they ran, then those of devices, then
    /// those that the CPU did for a device that failed.
    pub steps: Vec<StepReport>,
    /// Problems that were overcome, such as a device that failed, so that the CPU did its work.
    pub warnings: Vec<String>,
    /// The events of the join, if a timeline was requested.
    pub timeline: Vec<Event>,
}

impl Report {
    /// Returns what devices did in all steps.
    pub fn device_times(&self) -> DeviceTimes {
        let mut all = DeviceTimes::default();
        for step in &self.steps {
            all += step.device_times;
        }
        all
    }

    /// Returns the devices' share of the work: the mean of their shares of the pairs that pass the length filter
    /// and of the tokens of probes; `None` if there was no work.
    pub fn device_share(&self) -> Option<f64> {
        device_share(self.steps.iter().map(|step| (step.processor, step.pairs, step.tokens)))
    }

    /// Returns the fraction of the time in which both CPU and devices worked; `None` if only one of them did.
    pub fn concurrency(&self) -> Option<f64> {
        let of = |processor| self.steps.iter().filter(move |step| step.processor == processor);
        let mut both = 0.0;
        for cpu in of(Processor::Cpu) {
            for device in of(Processor::Device) {
                let end = (cpu.begin + cpu.seconds).min(device.begin + device.seconds);
                both += (end - cpu.begin.max(device.begin)).max(0.0);
            }
        }
        let seconds = self.virtual_seconds.unwrap_or(self.seconds);
        let busy = Processor::ALL.into_iter().all(|one| of(one).count() > 0) && seconds > 0.0;
        busy.then(|| (both / seconds).min(1.0))
    }

    /// Describes what the techniques decided while they prepared.
    pub fn details(&self) -> String {
        let mut all: Vec<&str> = Vec::new();
        for step in self.steps.iter().filter(|step| !step.details.is_empty()) {
            if !all.contains(&&*step.details) {
                all.push(&step.details);
            }
        }
        all.join("; ")
    }

    /// Returns the numbers that the techniques had decided in preparing, by name; of several, the largest.
    pub fn figures(&self) -> BTreeMap<&'static str, u64> {
        let mut all = BTreeMap::new();
        for &(name, number) in self.steps.iter().flat_map(|step| &step.figures) {
            let largest = all.entry(name).or_insert(0);
            *largest = number.max(*largest);
        }
        all
    }
}

/// Returns the devices' share of steps with these processors, pairs and tokens.
pub(crate) fn device_share(steps: impl Iterator<Item = (Processor, u64, u64)>) -> Option<f64> {
    let (mut part, mut whole) = ([0; 2], [0; 2]);
    for (processor, pairs, tokens) in steps {
        whole = [whole[0] + pairs, whole[1] + tokens];
        if processor == Processor::Device {
            part = [part[0] + pairs, part[1] + tokens];
        }
    }
    work_share(part, whole)
}

/// Returns the warning about a device that failed and whose work the CPU did.
pub fn did_its_work(why: &Error) -> String {
    format!("{why}; the CPU did its work")
}

/// Something that happened during a join.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// The row of the timeline: a thread of the CPU, a stream of a device, or its copies.
    pub row: String,
    /// What was done, such as `filter`.
    pub what: String,
    /// When it began, in seconds from the beginning of the join.
    pub begin: f64,
    /// How long it took.
    pub seconds: f64,
}

/// What a step of a join did.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct StepReport {
    /// The technique that ran.
    pub technique: &'static str,
    /// Its variant, such as `256 bits`; may be empty.
    pub variant: String,
    /// A description of what it decided while it prepared; may be empty.
    pub details: String,
    /// Numbers that it decided in preparing, by name.
    pub figures: Vec<(&'static str, u64)>,
    /// What it ran on.
    pub processor: Processor,
    /// The smallest and the largest size of a probe; of vectors, their dimension.
    pub probes: (u32, u32),
    /// Pairs that the length filter leaves.
    pub pairs: u64,
    /// Tokens, or numbers, of the probes.
    pub tokens: u64,
    /// The seconds that were estimated, if any were.
    pub estimated: Option<f64>,
    /// When it began, in seconds from the beginning of the join.
    pub begin: f64,
    /// The seconds that it took.
    pub seconds: f64,
    /// What a device did for it.
    pub device_times: DeviceTimes,
}

/// What a step of a join will do, and what else was considered.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct StepPlan {
    /// What is to run it.
    pub processor: Processor,
    /// Whether both processors share the join. This is then how this one would do all of it.
    pub shared: bool,
    /// The smallest and the largest size of a probe; of vectors, their dimension.
    pub probes: (u32, u32),
    /// The smallest and the largest size that it may meet.
    pub builds: (u32, u32),
    /// Pairs that the length filter leaves.
    pub pairs: u64,
    /// Tokens, or numbers, of the probes.
    pub tokens: u64,
    /// The technique chosen, and its variant.
    pub technique: (&'static str, String),
    /// The estimated seconds.
    pub seconds: Option<f64>,
    /// Every technique considered: name, variant, estimated seconds if it can do it in the memory.
    pub considered: Vec<(&'static str, String, Option<f64>)>,
}
