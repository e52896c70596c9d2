//! What does a user ask for, and what comes back?

use crate::answer::{Components, Counter, Glimpse, Ordered, OutputBuffers, Seen, repeats};
use crate::host::Host;
use crate::kind::Sets;
use crate::machine::Machine;
use crate::report::{Engine, Report, StepPlan};
use crate::run::{Control, Limits, Mode, Plan, Split, Stage, cpu_techniques};
use crate::sets::{Direction, SetTask};
use crate::technique::{Technique, Techniques};
use simjoin_core::{Bounds, Error, Predicate, Result, RowPair, SetCollection, Side};
use simjoin_kernels::tier::Tier;
use std::ops::ControlFlow;
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

/// A similarity join: what is wanted, and how to go about it.
///
/// Give it one collection for a self-join, or two that were prepared together.
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
    host: &'static dyn Host,
}

/// Probe tokens in a tile: large enough that handing it out costs nothing beside doing it, small
/// enough that a hundred tiles exist where a join takes noticeable time.
const TILE_TOKENS: usize = 8192;

impl Join {
    /// A join with the default technique on all cores.
    pub fn new(predicate: Predicate, host: &'static dyn Host) -> Self {
        Join {
            host,
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
        let estimate = |join| self.host.estimate_rows(&join, 500, self.limits.memory);
        let parts = self.parts(left, right);
        let found: Option<f64> = parts.iter().map(|&(join, _)| estimate(join)).sum();
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
            self.named(machine.device_side(self.host)?)?;
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
        let room = OutputBuffers::within(self.limits.memory / 8, plan.threads());
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
    ) -> Vec<(SetTask<'a>, Direction)> {
        SetTask::parts(left, right, self.with_itself, self.bounds())
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
        itself.map_or(0, |(sets, _)| repeats(sets, self.bounds()))
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
            limits.device_memory = machine.device_memory(self.host, limits.device_memory)?;
        }
        let shown = (self.explain, self.timeline);
        let mut plan = Plan::new(mode, cpu, device, limits, shown, machine, self.host)?;
        if matches!(mode, Mode::Both(_)) {
            plan.beside(self.named(machine.device_side(self.host)?)?);
        }
        Ok(plan)
    }

    fn plan(&self) -> Result<Plan> {
        self.plan_beside(0)
    }

    /// Who works, and the techniques of the CPU and of devices to choose from.
    fn offered(&self, machine: &Machine) -> Result<(Mode, Techniques<Sets>, Techniques<Sets>)> {
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
                Ok((Mode::Auto, cpu_techniques(self.host), Vec::new()))
            }
            Engine::Gpu => {
                let device = self.named(machine.device_techniques(self.host)?)?;
                Ok((Mode::Device, cpu_techniques(self.host), device))
            }
            Engine::Auto if on_gpu => {
                let device = self.named(machine.device_techniques(self.host)?)?;
                Ok((Mode::Device, cpu_techniques(self.host), device))
            }
            Engine::Hybrid => Ok((Mode::Both(self.split), cpu_techniques(self.host), Vec::new())),
            Engine::Auto | Engine::Cpu => {
                Ok((Mode::Cpu, self.named(self.host.set_techniques())?, Vec::new()))
            }
        }
    }

    /// Returns the names of those techniques that can join by the predicate, `auto` first.
    pub fn techniques(&self) -> Vec<&'static str> {
        let all = self.host.set_techniques();
        let can = |name: &str| {
            let mut named = all.iter().filter(|technique| technique.name() == name);
            name == "auto" || named.any(|technique| technique.can(&self.bounds()))
        };
        TECHNIQUES.into_iter().filter(|name| can(name)).collect()
    }

    /// Those of the techniques that were asked for.
    fn named(&self, all: Techniques<Sets>) -> Result<Techniques<Sets>> {
        let (name, variant) = self.technique.split_once(':').unwrap_or((&self.technique, ""));
        let all = all.into_iter();
        let offered: Vec<_> = if self.technique == "auto" {
            all.filter(|one| one.name() != "naive").collect()
        } else {
            // "256 bits" is bitmap:256, "ppjoin B" is gpu-verify:ppjoin:b.
            let wanted = |technique: &dyn Technique<Sets>| {
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
