//! What does a user ask for, and what comes back?

use crate::count::Counter;
use crate::driver::Control;
use crate::glimpse::{Glimpse, Seen};
use crate::groups::Components;
use crate::machine::Machine;
use crate::ordered::{Ordered, Room};
use crate::plan::{Limits, Mode, Plan, Split, Techniques, cpu_techniques};
use crate::stage::Stage;
use simjoin_core::{Bounds, Error, Predicate, Result, RowPair, SetCollection, Side};
use simjoin_kernels::tier::Tier;
use simjoin_plan::{Part, Technique, Trace, work_share};
use std::fmt;
use std::ops::ControlFlow;
use std::str::FromStr;
use std::sync::Arc;

/// The names of all techniques, `auto` first.
pub const TECHNIQUES: [&str; 11] = [
    "auto",
    "prefix-bitmap",
    "bitmap",
    "dense",
    "ppjoin",
    "group-join",
    "skip-join",
    "all-pairs",
    "mmjoin",
    "lcjoin",
    "naive",
];

/// The names of those techniques that can join by a predicate, `auto` first.
pub fn techniques_for(predicate: Predicate) -> Vec<&'static str> {
    let bounds = Bounds::new(predicate);
    let all = simjoin_cpu::techniques();
    let can = |name: &str| {
        let mut named = all.iter().filter(|technique| technique.name() == name);
        name == "auto" || named.any(|technique| technique.can(&bounds))
    };
    TECHNIQUES.into_iter().filter(|name| can(name)).collect()
}

/// The names of the techniques that run on a GPU.
pub const GPU_TECHNIQUES: [&str; 4] = ["gpu-bitmap", "gpu-prefix", "gpu-verify", "gpu-mmjoin"];

/// Techniques with a fixed signature width, in bits, or with a fixed filter and way to verify.
pub const VARIANTS: [&str; 25] = [
    "prefix-bitmap:64",
    "prefix-bitmap:128",
    "prefix-bitmap:256",
    "bitmap:64",
    "bitmap:128",
    "bitmap:256",
    "bitmap:512",
    "bitmap:1024",
    "bitmap:2048",
    "gpu-bitmap:256",
    "gpu-bitmap:512",
    "gpu-bitmap:1024",
    "gpu-bitmap:2048",
    "gpu-verify:all-pairs",
    "gpu-verify:all-pairs:a",
    "gpu-verify:all-pairs:b",
    "gpu-verify:all-pairs:c",
    "gpu-verify:ppjoin",
    "gpu-verify:ppjoin:a",
    "gpu-verify:ppjoin:b",
    "gpu-verify:ppjoin:c",
    "gpu-verify:group-join",
    "gpu-verify:group-join:a",
    "gpu-verify:group-join:b",
    "gpu-verify:group-join:c",
];

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
    pub(crate) fn lacks(self, technique: &str, cpu: &[&str], gpu: &[&str]) -> Error {
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
    /// What happened when, if [`Join::timeline`] asked for it.
    pub timeline: Vec<Moment>,
}

impl Report {
    /// What devices did in all parts.
    pub fn trace(&self) -> Trace {
        let mut all = Trace::default();
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
pub struct Moment {
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
    pub trace: Trace,
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

/// A similarity join: what is wanted, and how to go about it.
///
/// Give it one collection for a self-join, or two that were [prepared](crate::prepare) together.
#[derive(Clone, Debug)]
pub struct Join {
    predicate: Predicate,
    technique: String,
    engine: Engine,
    split: Split,
    limits: Limits,
    explain: bool,
    timeline: bool,
    with_itself: bool,
    glimpse: Option<Arc<Glimpse>>,
    machine: Option<Machine>,
}

/// Probe tokens in a tile: large enough that handing it out costs nothing beside doing it, small
/// enough that a hundred tiles exist where a join takes noticeable time.
const TILE_TOKENS: usize = 8192;

impl Join {
    /// A join with the default technique on all cores.
    pub fn new(predicate: Predicate) -> Self {
        Join {
            predicate,
            technique: "auto".into(),
            engine: Engine::Auto,
            split: Split::Auto,
            explain: false,
            timeline: false,
            with_itself: false,
            glimpse: None,
            machine: None,
            limits: Limits {
                threads: 0,
                memory: u64::MAX,
                device_memory: u64::MAX,
                sink: 0,
                tile_tokens: TILE_TOKENS,
            },
        }
    }

    /// Chooses the technique by name, one of [`TECHNIQUES`] or [`VARIANTS`].
    pub fn technique(mut self, name: &str) -> Self {
        self.technique = name.into();
        self
    }

    /// Chooses the engine.
    pub fn engine(mut self, engine: Engine) -> Self {
        self.engine = engine;
        self
    }

    /// Gives the devices of a hybrid join this share of the work, from 0 to 1, instead of one that is
    /// estimated.
    pub fn split(mut self, share: f64) -> Self {
        self.split = Split::Share(share);
        self
    }

    /// Lets CPU and devices of a hybrid join take tiles from the two ends of a queue, instead of splitting
    /// the work beforehand. It begins with so many tiles, of which one or several are taken at a time.
    pub fn queue(mut self, tiles: u32) -> Self {
        self.split = Split::Queue(tiles.max(1));
        self
    }

    /// Plans for this machine, instead of the one that the environment asks for
    /// ([`Machine::from_environment`]).
    pub fn machine(mut self, machine: Machine) -> Self {
        self.machine = Some(machine);
        self
    }

    fn planned_for(&self) -> Result<Machine> {
        self.machine.map_or_else(Machine::from_environment, Ok)
    }

    /// Remembers what happened when, for [`Report::timeline`].
    pub fn timeline(mut self, wanted: bool) -> Self {
        self.timeline = wanted;
        self
    }

    /// Lets a glimpse, made for the same predicate and collections, see every pair that is found.
    /// Overlaps are then computed, and pairs brought from devices, even where they are only counted.
    pub fn glimpse(mut self, glimpse: Arc<Glimpse>) -> Self {
        self.glimpse = Some(glimpse);
        self
    }

    /// Which pairs are wanted.
    pub fn predicate(&self) -> Predicate {
        self.predicate
    }

    /// Runs on a pool of this many threads; 0 for the rayon pool that the caller is in, which is one
    /// thread per core unless set up otherwise.
    pub fn threads(mut self, threads: usize) -> Self {
        self.limits.threads = threads;
        self
    }

    /// Bounds the memory, in bytes, that the join takes beside the collections: indexes, signatures,
    /// working space, and rows on their way out. What does not fit at once is done in several passes.
    pub fn memory(mut self, bytes: u64) -> Self {
        self.limits.memory = bytes;
        self
    }

    /// Bounds the memory, in bytes, that the join takes on each device; all that is free, and a little
    /// less, unless set. What does not fit at once is done in several passes.
    pub fn device_memory(mut self, bytes: u64) -> Self {
        self.limits.device_memory = bytes;
        self
    }

    /// Sets the size of the unit of work, in tokens of probe sets. Smaller tiles spread better over
    /// threads, larger ones cost less to hand out; the answer is the same.
    pub fn tile_tokens(mut self, tokens: usize) -> Self {
        self.limits.tile_tokens = tokens;
        self
    }

    /// Estimates what every technique would take even where the choice needs no estimate, so that
    /// [`Report::steps`] can set it beside what was measured.
    pub fn estimates(mut self, wanted: bool) -> Self {
        self.explain = wanted;
        self
    }

    /// What [`count`](Self::count) and its like would do, and what else was considered.
    pub fn explain(
        &self,
        left: &SetCollection,
        right: Option<&SetCollection>,
    ) -> Result<Vec<StepPlan>> {
        self.clone().estimates(true).plan()?.explain(&self.parts(left, right))
    }

    /// Estimates the number of pairs that [`count`](Self::count) would find, from a sample of the
    /// sets; pairs of rows that hold the same set are counted exactly. `None` where the signatures
    /// for it do not fit the memory.
    pub fn estimate_pairs(
        &self,
        left: &SetCollection,
        right: Option<&SetCollection>,
    ) -> Option<f64> {
        let estimate = |join| simjoin_cpu::estimate_rows(join, 500, self.limits.memory);
        let parts = self.parts(left, right);
        let found: Option<f64> = parts.iter().map(|(join, _)| estimate(join)).sum();
        Some(found? + self.repeats(left, right) as f64)
    }

    /// In a join of two collections, also joins the right one with itself: new records with the old
    /// ones and with each other, while old records never meet old ones.
    /// [`RowPair::left_input`] tells the two kinds of pairs apart. A single collection is joined
    /// with itself in any case.
    pub fn with_itself(mut self, also: bool) -> Self {
        self.with_itself = also;
        self
    }

    /// Says what is wrong with the choice of engine and technique, before any work is done.
    pub fn check(&self) -> Result<()> {
        Tier::asked_for().map_err(Error::Config)?;
        let machine = self.planned_for()?;
        self.offered(&machine)?;
        if self.engine == Engine::Hybrid {
            self.named(device_side(&machine)?)?;
        }
        Ok(())
    }

    /// Counts the pairs of rows.
    pub fn count(
        &self,
        left: &SetCollection,
        right: Option<&SetCollection>,
        control: &Control,
    ) -> Result<Report> {
        let mut plan = self.plan()?;
        let counter = Counter::default();
        let work = plan.decide(&self.parts(left, right), false)?;
        let ran = plan.run(work, control, |join, part| {
            Seen::new(counter.worker(join), self.seen_by(), join, part)
        })?;
        self.see_repeats(left, right);
        Ok(plan.report(counter.total() + self.repeats(left, right), ran))
    }

    /// Hands every pair of rows to `take`, in batches. The order is that of the technique and does not
    /// depend on the number of threads, as long as the memory suffices for one pass; where a GPU works,
    /// which is [`Engine::Auto`]'s to decide, there is none. `take` may
    /// answer `Break` to end the join early.
    pub fn pairs(
        &self,
        left: &SetCollection,
        right: Option<&SetCollection>,
        control: &Control,
        take: impl FnMut(&[RowPair]) -> ControlFlow<()> + Send,
    ) -> Result<Report> {
        // An eighth of the memory is for rows on their way out.
        let mut plan = self.plan_beside(self.limits.memory / 8)?;
        let work = plan.decide(&self.parts(left, right), false)?;
        let room = Room::within(self.limits.memory / 8, plan.threads());
        let measure = self.predicate.measure();
        let ordered = Ordered::new(room, take).in_any_order(work.both);
        let ran = plan.run(work, control, |join, part| {
            Seen::new(ordered.worker(join, part, measure), self.seen_by(), join, part)
        })?;
        self.see_repeats(left, right);
        if let Some(side) = self.itself(left, right) {
            ordered.repeats(side, (self.bounds(), measure), control);
        }
        Ok(plan.report(ordered.pairs(), ran))
    }

    /// The connected components of the rows of a self-join: for each row, the smallest row number
    /// of its component. A row without a partner is a component by itself.
    pub fn groups(&self, sets: &SetCollection, control: &Control) -> Result<(Vec<u32>, Report)> {
        let mut plan = self.plan_beside(Components::memory_bytes(sets))?;
        let components = Components::new(sets.len());
        let work = plan.decide(&self.parts(sets, None), false)?;
        let ran = plan.run(work, control, |join, part| {
            Seen::new(components.worker(join), self.seen_by(), join, part)
        })?;
        self.see_repeats(sets, None);
        let pairs = components.pairs() + self.repeats(sets, None);
        Ok((components.labels(sets, self.bounds()), plan.report(pairs, ran)))
    }

    fn bounds(&self) -> Bounds {
        Bounds::new(self.predicate)
    }

    fn parts<'a>(
        &self,
        left: &'a SetCollection,
        right: Option<&'a SetCollection>,
    ) -> Vec<(simjoin_plan::Join<'a>, Part)> {
        simjoin_plan::Join::parts(left, right, self.with_itself, self.bounds())
    }

    /// The collection that is joined with itself, if there is one.
    fn itself<'a>(
        &self,
        left: &'a SetCollection,
        right: Option<&'a SetCollection>,
    ) -> Option<(&'a SetCollection, Side)> {
        match right {
            None => Some((left, Side::Left)),
            Some(right) => self.with_itself.then_some((right, Side::Right)),
        }
    }

    /// Pairs of rows that hold the same set.
    fn repeats(&self, left: &SetCollection, right: Option<&SetCollection>) -> u64 {
        let itself = self.itself(left, right);
        itself.map_or(0, |(sets, _)| crate::count::repeats(sets, self.bounds()))
    }

    fn seen_by(&self) -> Option<&Glimpse> {
        self.glimpse.as_deref()
    }

    /// Shows pairs of rows that hold the same set to the glimpse.
    fn see_repeats(&self, left: &SetCollection, right: Option<&SetCollection>) {
        if let (Some(glimpse), Some(side)) = (&self.glimpse, self.itself(left, right)) {
            glimpse.repeats(side, self.bounds());
        }
    }

    /// A plan beside a sink that takes so many bytes.
    fn plan_beside(&self, sink: u64) -> Result<Plan> {
        let machine = self.planned_for()?;
        let (mode, cpu, device) = self.offered(&machine)?;
        let sink = sink + self.seen_by().map_or(0, Glimpse::bytes);
        let mut limits = Limits { sink, ..self.limits };
        // What a device has found waits for its tile to be complete.
        if mode == Mode::Device && limits.memory != u64::MAX {
            limits.sink += Stage::bytes(limits.memory);
        }
        if mode == Mode::Device || matches!(mode, Mode::Both(_)) {
            limits.device_memory = device_memory(&machine, limits.device_memory)?;
        }
        let shown = (self.explain, self.timeline);
        let mut plan = Plan::new(mode, cpu, device, limits, shown, machine)?;
        if matches!(mode, Mode::Both(_)) {
            plan.beside(self.named(device_side(&machine)?)?);
        }
        Ok(plan)
    }

    fn plan(&self) -> Result<Plan> {
        self.plan_beside(0)
    }

    /// Who works, and the techniques of the CPU and of devices to choose from.
    fn offered(&self, machine: &Machine) -> Result<(Mode, Techniques, Techniques)> {
        let name = self.technique.split(':').next().unwrap_or_default();
        let on_gpu = GPU_TECHNIQUES.contains(&name);
        let short = |one: &&str| one.strip_prefix("gpu-") == Some(name);
        let known = self.technique == "auto" || on_gpu || GPU_TECHNIQUES.iter().any(short);
        match self.engine {
            // Told before a device is looked for, which may not be there.
            Engine::Gpu | Engine::Hybrid if !known => {
                Err(self.engine.lacks(name, &TECHNIQUES, &GPU_TECHNIQUES))
            }
            Engine::Cpu if on_gpu => Err(self.engine.lacks(name, &TECHNIQUES, &GPU_TECHNIQUES)),
            Engine::Auto if self.technique == "auto" => {
                Ok((Mode::Auto, cpu_techniques(), Vec::new()))
            }
            Engine::Gpu => {
                let device = self.named(gpu_techniques(machine)?)?;
                Ok((Mode::Device, cpu_techniques(), device))
            }
            Engine::Auto if on_gpu => {
                let device = self.named(gpu_techniques(machine)?)?;
                Ok((Mode::Device, cpu_techniques(), device))
            }
            Engine::Hybrid => Ok((Mode::Both(self.split), cpu_techniques(), Vec::new())),
            Engine::Auto | Engine::Cpu => {
                Ok((Mode::Cpu, self.named(simjoin_cpu::techniques())?, Vec::new()))
            }
        }
    }

    /// Those of the techniques that were asked for.
    fn named(&self, all: Techniques) -> Result<Techniques> {
        let (name, variant) = self.technique.split_once(':').unwrap_or((&self.technique, ""));
        let all = all.into_iter();
        let offered: Vec<_> = if self.technique == "auto" {
            all.filter(|one| one.name() != "naive").collect()
        } else {
            // "256 bits" is bitmap:256, "ppjoin B" is gpu-verify:ppjoin:b.
            let wanted = |technique: &dyn Technique| {
                let own = technique.name().strip_prefix("gpu-");
                let named = technique.name() == name || own == Some(name);
                let words = technique.variant().to_lowercase();
                let is_there = |part: &str| words.split(' ').any(|word| word == part);
                named && (variant.is_empty() || variant.split(':').all(is_there))
            };
            all.filter(|technique| wanted(&**technique)).collect()
        };
        if !offered.is_empty() && !offered.iter().any(|technique| technique.can(&self.bounds())) {
            return Err(Error::Config(format!(
                "technique {name} is for containment 1 alone: it finds the sets that contain another one \
                 wholly"
            )));
        }
        if offered.is_empty() {
            return Err(self.engine.lacks(&self.technique, &TECHNIQUES, &GPU_TECHNIQUES));
        }
        Ok(offered)
    }
}

/// The simulated device that the environment asks for, in words.
pub fn simulated_gpu() -> Result<Option<String>> {
    Ok(Machine::from_environment()?.simulated().map(|device| device.to_string()))
}

/// Returns the version of NVRTC, which compiles for GPUs, or says why it cannot.
pub fn compiler() -> Result<(i32, i32)> {
    simjoin_gpu::Nvrtc::get().map(simjoin_gpu::Nvrtc::version)
}

/// The techniques of all devices.
fn gpu_techniques(machine: &Machine) -> Result<Techniques> {
    if let Some(device) = machine.simulated() {
        return Ok(device.techniques());
    }
    let devices = simjoin_gpu::devices()?;
    simjoin_gpu::Nvrtc::get()?;
    Ok(simjoin_gpu::techniques(devices))
}

/// The techniques of all devices beside the CPU, whose cores have work of their own.
pub(crate) fn device_side(machine: &Machine) -> Result<Techniques> {
    let mut device = gpu_techniques(machine)?;
    device.retain(|one| one.name() != "gpu-verify");
    Ok(device)
}

/// What each device can spare, unless a limit is given.
pub(crate) fn device_memory(machine: &Machine, limit: u64) -> Result<u64> {
    if limit != u64::MAX {
        return Ok(limit);
    }
    if let Some(device) = machine.simulated() {
        return Ok(device.memory);
    }
    let mut least = u64::MAX;
    for device in simjoin_gpu::devices()? {
        // A device that has failed fails at what it is given as well, which the CPU then does.
        least = least.min(device.free_memory().unwrap_or(u64::MAX));
    }
    // A little for the driver.
    Ok(least - least / 20)
}
