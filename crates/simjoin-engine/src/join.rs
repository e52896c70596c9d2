//! What does a user ask for, and what comes back?
//!
//! A [`Join`] says what is wanted and how to go about it. For one or two collections it makes a [`Plan`], once; the
//! plan can be shown, and run.
//!
//! ```text
//! Join ─► plan ─► Plan ─► steps, text
//!                   └───► count, pairs, groups ─► Report
//! ```

use crate::answer::{Answer, Components, Counter, Glimpse, Ordered, OutputBuffers, Watched};
use crate::control::Control;
use crate::host::Host;
use crate::kind::{Direction, Kind, Task};
use crate::machine::Machine;
use crate::plan::{Assignments, Limits, Mode, Planned, Setup, Split};
use crate::processor::{PerProcessor, Processor};
use crate::registry::{AUTO, Selection, Subject};
use crate::report::{Engine, Report, StepPlan};
use crate::run::{Executor, Ran, pool};
use crate::technique::Techniques;
use rayon::ThreadPool;
use simjoin_core::{Error, Result, RowPair};
use simjoin_kernels::tier::Tier;
use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;

/// A join: what is wanted, and how to go about it.
///
/// It takes one collection for a self-join, or two that were prepared together.
#[derive(Clone, Debug)]
pub struct Join<K: Kind> {
    wanted: K::Wanted,
    technique: String,
    engine: Engine,
    split: Split,
    limits: Limits,
    timeline: bool,
    with_itself: bool,
    glimpse: Option<Arc<Glimpse>>,
    machine: Option<Machine>,
    host: &'static dyn Host,
}

/// What a plan is run for: some answers take memory of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The number of pairs.
    Count,
    /// All pairs of rows.
    Pairs,
    /// The connected components of a self-join.
    Groups,
}

/// Probe tokens in a piece: large enough that handing it out costs nothing compared with doing it, small
/// enough that a hundred pieces exist where a join takes noticeable time.
const PIECE_TOKENS: usize = 8192;

/// A kind of rows with techniques of its own.
pub(crate) trait Joined: Planned {
    /// What its techniques are registered for.
    const SUBJECT: Subject;

    /// Whether its pairs reach a threshold, so that groups and a glimpse mean something.
    const HAS_THRESHOLD: bool = true;

    /// Looks at the rows as far as the choice needs it; returns what that shows, and the techniques of the CPU.
    fn look(
        join: &Join<Self>,
        selection: &Selection,
        task: &Task<'_, Self>,
        machine: &Machine,
    ) -> (Self::Known, Techniques<Self>);

    /// Says what is wrong with two collections.
    fn check(left: &Self::Collection, right: Option<&Self::Collection>) -> Result<()>;

    /// Describes the collections, in a line each.
    fn describe(
        left: &Self::Collection,
        right: Option<&Self::Collection>,
        predicate: &Self::Predicate,
    ) -> String;

    /// Describes what a part of the join does.
    fn describe_step(step: &StepPlan) -> String;

    /// Estimates the number of pairs of rows of a task; `None` where that does not fit the memory.
    fn estimate_pairs(host: &dyn Host, task: &Task<'_, Self>, memory: u64) -> Option<f64>;
}

/// A kind of rows that the engine joins: [`Sets`](crate::Sets), [`Vectors`](crate::Vectors) or
/// [`Overlaps`](crate::Overlaps).
#[allow(private_bounds)]
pub trait Joinable: Joined {}

impl<K: Joined> Joinable for K {}

impl<K: Kind> Join<K> {
    /// Makes a join with the default technique on all cores.
    pub fn new(wanted: K::Wanted, host: &'static dyn Host) -> Self {
        Join {
            wanted,
            technique: AUTO.into(),
            engine: Engine::Auto,
            split: Split::Auto,
            limits: Limits {
                threads: 0,
                memory: u64::MAX,
                device_memory: u64::MAX,
                answer: 0,
                piece_tokens: PIECE_TOKENS,
            },
            timeline: false,
            with_itself: false,
            glimpse: None,
            machine: None,
            host,
        }
    }

    /// Chooses the technique by name, as `bitmap` or `bitmap:256`. With [`Engine::Hybrid`] it may name one for the CPU
    /// and one for the GPU, as `ppjoin+gpu-bitmap`.
    pub fn technique(mut self, name: &str) -> Self {
        self.technique = name.into();
        self
    }

    /// Chooses where it runs.
    pub fn engine(mut self, engine: Engine) -> Self {
        self.engine = engine;
        self
    }

    /// Chooses how CPU and devices share a join with [`Engine::Hybrid`].
    pub fn split(mut self, split: Split) -> Self {
        self.split = split;
        self
    }

    /// Plans for this machine, instead of the one that the environment asks for
    /// ([`Machine::from_environment`]).
    pub fn machine(mut self, machine: Machine) -> Self {
        self.machine = Some(machine);
        self
    }

    /// Remembers what happened when, for [`Report::timeline`].
    pub fn timeline(mut self, wanted: bool) -> Self {
        self.timeline = wanted;
        self
    }

    /// Lets a glimpse, made for the same predicate and collections, see every pair that is found.
    /// Overlaps and distances are then computed, and pairs brought from devices, even where they are only counted.
    pub fn glimpse(mut self, glimpse: Arc<Glimpse>) -> Self {
        self.glimpse = Some(glimpse);
        self
    }

    /// Returns which pairs are wanted.
    pub fn predicate(&self) -> K::Wanted {
        self.wanted
    }

    /// Runs on a pool of this many threads; 0 for the rayon pool that the caller is in, which is one
    /// thread per core unless set up otherwise.
    pub fn threads(mut self, threads: usize) -> Self {
        self.limits.threads = threads;
        self
    }

    /// Bounds the memory, in bytes, that the join takes in addition to the collections: indexes, signatures,
    /// working space, and rows on their way out. What does not fit at once is done in several passes.
    pub fn memory(mut self, bytes: u64) -> Self {
        self.limits.memory = bytes;
        self
    }

    /// Bounds the memory, in bytes, that the join takes on each device; by default almost all that is free. What does
    /// not fit at once is done in several passes.
    pub fn device_memory(mut self, bytes: u64) -> Self {
        self.limits.device_memory = bytes;
        self
    }

    /// Sets the size of the unit of work, in tokens of probe sets. Smaller pieces spread better over
    /// threads, larger ones cost less to hand out; the answer is the same.
    pub fn piece_tokens(mut self, tokens: usize) -> Self {
        self.limits.piece_tokens = tokens;
        self
    }

    /// In a join of two collections, also joins the right one with itself: new records with the old
    /// ones and with each other, while old records never meet old ones.
    /// [`RowPair::left_input`] tells the two kinds of pairs apart. A single collection is joined
    /// with itself in any case.
    pub fn with_itself(mut self, also: bool) -> Self {
        self.with_itself = also;
        self
    }

    pub(crate) fn host(&self) -> &'static dyn Host {
        self.host
    }

    pub(crate) fn engine_wanted(&self) -> Engine {
        self.engine
    }

    fn planned_for(&self) -> Result<Machine> {
        self.machine.map_or_else(Machine::from_environment, Ok)
    }
}

#[allow(private_bounds)]
impl<K: Joined> Join<K> {
    /// Says what is wrong with the choice of engine and technique, before any work is done.
    pub fn check(&self) -> Result<()> {
        Tier::asked_for().map_err(Error::Config)?;
        let machine = self.planned_for()?;
        let selection = Selection::parse(K::SUBJECT, &self.technique, self.engine)?;
        if self.mode(&selection).needs_devices() && machine.simulated().is_none() {
            self.host.devices()?;
        }
        Ok(())
    }

    fn mode(&self, selection: &Selection) -> Mode {
        match (self.engine, selection.only) {
            (Engine::Hybrid, _) => Mode::Shared(self.split),
            (_, Some(processor)) => Mode::Only(processor),
            (_, None) => Mode::Auto,
        }
    }

    /// Plans the join of a collection with itself, or of two.
    pub fn plan<'a>(
        &self,
        left: &'a K::Collection,
        right: Option<&'a K::Collection>,
        purpose: Purpose,
    ) -> Result<Plan<'a, K>> {
        Tier::asked_for().map_err(Error::Config)?;
        K::check(left, right)?;
        if !K::HAS_THRESHOLD && self.glimpse.is_some() {
            let message = "a glimpse shows pairs that reach a threshold; this join has none";
            return Err(Error::Config(message.into()));
        }
        let machine = self.planned_for()?;
        let selection = Selection::parse(K::SUBJECT, &self.technique, self.engine)?;
        let predicate = K::predicate(self.wanted);
        let directions = K::directions(left, right, self.with_itself, predicate);
        let mode = self.mode(&selection);
        let known_number = match purpose {
            Purpose::Count if self.glimpse.is_none() => known_number(&directions),
            _ => None,
        };
        let answer = self.glimpse.as_ref().map_or(0, |glimpse| glimpse.bytes())
            + match purpose {
                Purpose::Count => 0,
                Purpose::Pairs => self.limits.for_output(),
                Purpose::Groups => Components::memory_bytes(K::sizes(left)),
            };
        let mut limits = Limits { answer, ..self.limits };
        if mode.needs_devices() {
            limits.device_memory = machine.device_memory(self.host, limits.device_memory)?;
        }
        let pool = (limits.threads > 0).then(|| pool(limits.threads)).transpose()?;
        let threads =
            pool.as_ref().map_or_else(rayon::current_num_threads, ThreadPool::current_num_threads);
        let look = || K::look(self, &selection, &directions[0].0, &machine);
        let (known, techniques) = match &pool {
            Some(pool) => pool.install(look),
            None => look(),
        };
        let mut setup = Setup {
            mode,
            selection,
            techniques: PerProcessor::default(),
            limits,
            timeline: self.timeline,
            pool,
            threads,
            machine,
            host: self.host,
            known,
            worth: f64::INFINITY,
        };
        setup.techniques.cpu = setup.select(techniques, Processor::Cpu, &predicate)?;
        if mode.needs_devices() {
            setup.add_devices(&predicate)?;
        }
        let assignments = match known_number {
            Some(_) => Assignments::none(),
            None => Assignments::decide(&mut setup, &directions, &predicate)?,
        };
        let glimpse = self.glimpse.clone();
        Ok(Plan { setup, assignments, directions, left, right, predicate, known_number, glimpse })
    }

    /// Counts the pairs of rows.
    pub fn count(
        &self,
        left: &K::Collection,
        right: Option<&K::Collection>,
        control: &Control,
    ) -> Result<Report> {
        self.plan(left, right, Purpose::Count)?.count(control)
    }

    /// Hands every pair of rows to `take`, in batches; see [`Plan::pairs`].
    pub fn pairs(
        &self,
        left: &K::Collection,
        right: Option<&K::Collection>,
        control: &Control,
        take: impl FnMut(&[RowPair]) -> ControlFlow<()> + Send,
    ) -> Result<Report> {
        self.plan(left, right, Purpose::Pairs)?.pairs(control, take)
    }

    /// Finds the connected components of the rows of a self-join; see [`Plan::groups`].
    pub fn groups(&self, rows: &K::Collection, control: &Control) -> Result<(Vec<u32>, Report)> {
        self.plan(rows, None, Purpose::Groups)?.groups(control)
    }
}

/// How each processor does a join, and with which techniques.
#[allow(private_bounds)]
pub struct Plan<'a, K: Joined> {
    setup: Setup<K>,
    assignments: Assignments<'a, K>,
    directions: Vec<(Task<'a, K>, Direction)>,
    left: &'a K::Collection,
    right: Option<&'a K::Collection>,
    predicate: K::Predicate,
    /// The number of pairs, where only that is wanted and nothing has to be compared for it.
    known_number: Option<u64>,
    glimpse: Option<Arc<Glimpse>>,
}

/// Returns the number of pairs of all directions, where it is known without a look at any pair.
fn known_number<K: Kind>(directions: &[(Task<'_, K>, Direction)]) -> Option<u64> {
    directions.iter().map(|(task, direction)| K::known_number(task, *direction)).sum()
}

#[allow(private_bounds)]
impl<K: Joined> fmt::Debug for Plan<'_, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plan").field("steps", &self.steps()).finish_non_exhaustive()
    }
}

#[allow(private_bounds)]
impl<'a, K: Joined> Plan<'a, K> {
    /// Returns what is going to be done, and the estimates of all techniques considered.
    pub fn steps(&self) -> Vec<StepPlan> {
        self.assignments.steps(&self.setup)
    }

    /// Returns the collections.
    pub fn collections(&self) -> (&'a K::Collection, Option<&'a K::Collection>) {
        (self.left, self.right)
    }

    pub(crate) fn predicate(&self) -> &K::Predicate {
        &self.predicate
    }

    /// Returns the devices' share of the work as planned, where both CPU and devices were considered.
    pub fn planned_device_share(&self) -> Option<f64> {
        self.assignments.share
    }

    /// Returns the number of threads.
    pub fn threads(&self) -> usize {
        self.setup.threads
    }

    /// Returns where the join is going to run.
    pub fn engine(&self) -> Engine {
        let on = |processor| !self.assignments.of[processor].is_empty();
        self.engine_of(on(Processor::Cpu), on(Processor::Device))
    }

    fn engine_of(&self, cpu: bool, device: bool) -> Engine {
        match (cpu, device) {
            (true, true) => Engine::Hybrid,
            (true, false) => Engine::Cpu,
            (false, true) => Engine::Gpu,
            // There is nothing to do.
            (false, false) => match self.setup.mode {
                Mode::Shared(_) => Engine::Hybrid,
                Mode::Only(Processor::Device) => Engine::Gpu,
                Mode::Only(Processor::Cpu) | Mode::Auto => Engine::Cpu,
            },
        }
    }

    /// Estimates the number of pairs of rows, from a sample; pairs that no technique looks for are counted exactly.
    /// `None` where that does not fit the memory.
    pub fn estimate_pairs(&self) -> Option<f64> {
        if let Some(known) = known_number(&self.directions) {
            return Some(known as f64);
        }
        let Setup { host, limits, .. } = &self.setup;
        let estimate = |(task, _): &(Task<'a, K>, _)| K::estimate_pairs(*host, task, limits.memory);
        let found: Option<f64> = self.setup.install(|| self.directions.iter().map(estimate).sum());
        Some(found? + self.unsearched() as f64)
    }

    /// Counts the pairs of rows.
    pub fn count(&self, control: &Control) -> Result<Report> {
        let counter = Counter::default();
        let ran = self.run(&counter, control)?;
        let unsearched = if ran.complete { self.unsearched() } else { 0 };
        let pairs = self.known_number.unwrap_or(counter.total() + unsearched);
        Ok(self.report(pairs, ran))
    }

    /// Hands every pair of rows to `take`, in batches. The order is that of the technique and does not
    /// depend on the number of threads, as long as the memory suffices for one pass; where a GPU works,
    /// which is [`Engine::Auto`]'s to decide, there is none. `take` may answer `Break` to end the join early.
    pub fn pairs(
        &self,
        control: &Control,
        take: impl FnMut(&[RowPair]) -> ControlFlow<()> + Send,
    ) -> Result<Report> {
        self.compares()?;
        let buffers = OutputBuffers::within(self.setup.limits.for_output(), self.setup.threads);
        let ordered = Ordered::new(buffers, take).in_any_order(self.assignments.shared.is_some());
        let ran = self.run(&ordered, control)?;
        if ran.complete {
            self.directions.iter().for_each(|direction| ordered.unsearched(direction, control));
        }
        Ok(self.report(ordered.pairs(), ran))
    }

    /// Finds the connected components of the rows of a self-join: for each row, the smallest row number
    /// of its component. A row without a partner is a component by itself.
    pub fn groups(&self, control: &Control) -> Result<(Vec<u32>, Report)> {
        if self.right.is_some() {
            let message = "groups are those of one collection; two were given";
            return Err(Error::Config(message.into()));
        }
        if !K::HAS_THRESHOLD {
            let message = "groups are of pairs that reach a threshold; this join has none";
            return Err(Error::Config(message.into()));
        }
        let components = Components::new(K::sizes(self.left).0);
        let ran = self.run(&components, control)?;
        let pairs = components.pairs() + if ran.complete { self.unsearched() } else { 0 };
        Ok((components.labels::<K>(self.left, &self.predicate), self.report(pairs, ran)))
    }

    /// Refuses a plan that compares nothing, because only the number of pairs was wanted.
    fn compares(&self) -> Result<()> {
        match self.known_number {
            None => Ok(()),
            Some(_) => Err(Error::Config(
                "the plan was made for counting and compares nothing; expected one made for pairs"
                    .into(),
            )),
        }
    }

    fn run<A: Answer<K>>(&self, answer: &A, control: &Control) -> Result<Ran> {
        let watched = Watched { answer, glimpse: self.glimpse.as_deref() };
        let ran = Executor::new(&self.setup, &watched, control).run(&self.assignments)?;
        // A join that was cut short says nothing of what it would have taken.
        if ran.complete {
            if let Some(glimpse) = &self.glimpse {
                self.directions.iter().for_each(|direction| glimpse.unsearched(direction));
            }
            let Setup { machine, host, threads, .. } = &self.setup;
            // Corrections go by the name of a technique, and those of overlaps have names that others have too.
            if K::SUBJECT != Subject::Overlaps {
                machine.learn(*host, *threads, self.assignments.shared.is_some(), &ran.steps);
            }
        }
        Ok(ran)
    }

    /// Returns the number of pairs of rows that no technique looks for.
    fn unsearched(&self) -> u64 {
        self.directions.iter().map(|(task, direction)| K::unsearched(task, *direction)).sum()
    }

    fn report(&self, pairs: u64, ran: Ran) -> Report {
        let mut names: Vec<&str> = Vec::new();
        for step in &ran.steps {
            if !names.contains(&step.technique) {
                names.push(step.technique);
            }
        }
        if self.known_number.is_some() {
            names.push("none");
        } else if names.is_empty() {
            // Nothing could meet, so nothing was run.
            let main = match self.setup.mode {
                Mode::Only(Processor::Device) => Processor::Device,
                _ => Processor::Cpu,
            };
            let offered = self.setup.offered(main);
            let first = offered.first().map_or(AUTO, |one| one.name());
            let alone = offered.iter().all(|technique| technique.name() == first);
            names.push(if alone { first } else { AUTO });
        }
        let ran_on = |processor| ran.steps.iter().any(|step| step.processor == processor);
        Report {
            pairs,
            candidates: ran.candidates,
            technique: names.join("+"),
            engine: self.engine_of(ran_on(Processor::Cpu), ran_on(Processor::Device)),
            threads: self.setup.threads,
            planned_device_share: self.assignments.share,
            seconds: ran.seconds,
            virtual_seconds: ran.virtual_seconds,
            steps: ran.steps,
            warnings: ran.warnings,
            timeline: ran.timeline,
        }
    }
}
