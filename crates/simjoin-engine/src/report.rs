//! Where does a join run, what is it going to do, and what did it do?

use crate::plan::work_share;
use crate::technique::DeviceTimes;
use simjoin_core::{Error, Result};
use std::fmt;
use std::str::FromStr;

/// Where a join runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Engine {
    /// Wherever it is fastest.
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
    /// The name used on the command line and in statistics.
    pub fn name(self) -> &'static str {
        match self {
            Engine::Auto => "auto",
            Engine::Cpu => "cpu",
            Engine::Gpu => "gpu",
            Engine::Hybrid => "hybrid",
        }
    }

    /// The error for a technique that the engine does not have, of those on a CPU and on a GPU.
    pub fn lacks(self, technique: &str, cpu: &[&str], gpu: &[&str]) -> Error {
        Error::Config(match self {
            Engine::Gpu | Engine::Hybrid => format!(
                "unknown technique {technique:?} on a GPU; expected one of {}",
                gpu.join(", ")
            ),
            _ if gpu.contains(&technique) => {
                format!("technique {technique} runs on a GPU; use --engine gpu")
            }
            _ => format!("unknown technique {technique:?}; expected one of {}", cpu.join(", ")),
        })
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
pub struct Report {
    /// Pairs of rows in the answer.
    pub pairs: u64,
    /// Pairs of distinct sets that were verified; one that a filter let through twice counts twice.
    pub candidates: u64,
    /// The technique that ran; several are joined by `+`.
    pub technique: String,
    /// The engine that ran.
    pub engine: Engine,
    /// The number of threads that ran.
    pub threads: usize,
    /// The devices' part of the work, as [`share`](Self::share) tells it, as planned where the CPU works beside
    /// them.
    pub planned_share: Option<f64>,
    /// Seconds from the first tile to the last pair.
    pub seconds: f64,
    /// The same by the virtual clock, where a device is simulated.
    pub virtual_seconds: Option<f64>,
    /// The parts of the join: those of the CPU in the order in which they ran, then those of devices, then
    /// what the CPU did for a device that failed.
    pub steps: Vec<StepReport>,
    /// What went wrong and was put right: a device that failed, and whose tiles the CPU did.
    pub warnings: Vec<String>,
    /// What happened when, if the join was asked for it.
    pub timeline: Vec<Event>,
}

impl Report {
    /// What devices did in all parts.
    pub fn trace(&self) -> DeviceTimes {
        let mut all = DeviceTimes::default();
        for step in &self.steps {
            all += step.trace;
        }
        all
    }

    /// The devices' part of the work: the mean of their shares of the pairs that the length filter leaves, and of
    /// the tokens of probes; `None` where nothing was to be done.
    pub fn share(&self) -> Option<f64> {
        share(self.steps.iter().map(|step| (step.on_device, step.pairs, step.tokens)))
    }

    /// The part of the time in which both CPU and devices had something to do; `None` where only one of
    /// them did anything.
    pub fn overlap(&self) -> Option<f64> {
        let of = |device: bool| self.steps.iter().filter(move |step| step.on_device == device);
        let mut both = 0.0;
        for cpu in of(false) {
            for device in of(true) {
                let end = (cpu.begin + cpu.seconds).min(device.begin + device.seconds);
                both += (end - cpu.begin.max(device.begin)).max(0.0);
            }
        }
        let seconds = self.virtual_seconds.unwrap_or(self.seconds);
        let busy = of(false).count() > 0 && of(true).count() > 0 && seconds > 0.0;
        busy.then(|| (both / seconds).min(1.0))
    }
}

/// The devices' part of the work, of steps of which it is known who does them, and how many pairs and tokens they
/// have.
pub(crate) fn share(steps: impl Iterator<Item = (bool, u64, u64)>) -> Option<f64> {
    let (mut part, mut whole) = ([0; 2], [0; 2]);
    for (on_device, pairs, tokens) in steps {
        whole = [whole[0] + pairs, whole[1] + tokens];
        if on_device {
            part = [part[0] + pairs, part[1] + tokens];
        }
    }
    work_share(part, whole)
}

/// Something that happened during a join.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Where: a thread of the CPU, a stream or the copies of a device.
    pub row: String,
    /// What.
    pub what: String,
    /// When it began, in seconds from the beginning of the join.
    pub begin: f64,
    /// How long it took.
    pub seconds: f64,
}

/// What a part of a join did.
#[derive(Clone, Debug, PartialEq)]
pub struct StepReport {
    /// The technique that ran.
    pub technique: &'static str,
    /// Its variant, such as `256 bits`; may be empty.
    pub variant: String,
    /// Whether a device did it.
    pub on_device: bool,
    /// The smallest and the largest size of a probe.
    pub probes: (u32, u32),
    /// Pairs of sets that the length filter leaves.
    pub pairs: u64,
    /// Tokens of the probes.
    pub tokens: u64,
    /// The seconds that were estimated, if any were.
    pub estimated: Option<f64>,
    /// When it began, in seconds from the beginning of the join.
    pub begin: f64,
    /// The seconds that it took.
    pub seconds: f64,
    /// What a device did for it.
    pub trace: DeviceTimes,
}

/// What a part of a join will do, and what else was considered.
#[derive(Clone, Debug, PartialEq)]
pub struct StepPlan {
    /// Whether a device is to do it.
    pub on_device: bool,
    /// The smallest and the largest size of a probe.
    pub probes: (u32, u32),
    /// The smallest and the largest size of a set that it may meet.
    pub builds: (u32, u32),
    /// Pairs of sets that the length filter leaves.
    pub pairs: u64,
    /// Tokens of the probes.
    pub tokens: u64,
    /// The technique chosen, and its variant.
    pub technique: (&'static str, String),
    /// Its estimated seconds.
    pub seconds: Option<f64>,
    /// Every technique considered: name, variant, estimated seconds if it can do it in the memory.
    pub considered: Vec<(&'static str, String, Option<f64>)>,
}
