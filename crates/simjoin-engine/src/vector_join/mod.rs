//! What does a user ask for vectors, and what comes back?
//!
//! A [`VectorJoin`] says what is wanted; [prepared](VectorJoin::prepare) for one or two collections it has
//! chosen a technique and made its index. Counting, pairs and groups are then runs of the same pieces of work into
//! another sink. What a device fails to do, the CPU does: its stripe, where both work at once, else all of the join.

mod offer;
mod sample;

use crate::answer::{Components, Glimpse, Look, Ordered, OutputBuffers, RowSink};
use crate::host::Host;
use crate::kind::Vectors;
use crate::machine::Machine;
use crate::report::{Engine, Event};
use crate::run::{Control, Hold, PieceSink, Staged, Timeline, did_its_work, thread_row};
use crate::technique::{Budget, Prepared};
use crate::vectors::VectorTask;
use offer::{Chosen, Offer, Pieces, Taken, Taker};
use rayon::ThreadPool;
use simjoin_core::{
    Elements, Error, Result, RowPair, Side, Sink, VectorCollection, VectorPair, VectorPredicate,
};
use simjoin_kernels::tier::Tier;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// The names of the techniques for vectors on CPU cores, `auto` first.
pub const VECTOR_TECHNIQUES: [&str; 4] = ["auto", "quantile", "grid", "nested-loop"];

/// The names of those on GPUs.
pub const GPU_VECTOR_TECHNIQUES: [&str; 4] =
    ["gpu-quantile", "gpu-tensor", "gpu-grid", "gpu-nested-loop"];

/// A join of vectors: what is wanted, and how to go about it.
#[derive(Clone, Debug)]
pub struct VectorJoin {
    predicate: VectorPredicate,
    technique: String,
    engine: Engine,
    threads: usize,
    memory: u64,
    device_memory: u64,
    timeline: bool,
    glimpse: Option<Arc<Glimpse>>,
    machine: Option<Machine>,
    host: &'static dyn Host,
}

/// What a join of vectors is going to do.
#[derive(Clone, Debug, PartialEq)]
pub struct VectorPlan {
    /// Where it runs: on CPU cores, on GPUs, or on both.
    pub engine: Engine,
    /// The technique.
    pub technique: &'static str,
    /// What it has decided, in words.
    pub details: String,
    /// Every technique, with its estimated seconds on all threads if it can do it within the memory.
    pub considered: Vec<(&'static str, Option<f64>)>,
    /// Pairs of vectors to decide about.
    pub compared: f64,
    /// Whether vectors are rotated to their principal directions.
    pub rotated: bool,
    /// Threads.
    pub threads: usize,
}

/// What a join of vectors did.
#[derive(Clone, Debug, PartialEq)]
pub struct VectorReport {
    /// Pairs in the answer.
    pub pairs: u64,
    /// Pairs that the predicate was asked about.
    pub candidates: u64,
    /// Where it ran.
    pub engine: Engine,
    /// The technique that ran.
    pub technique: &'static str,
    /// What it had decided, in words.
    pub details: String,
    /// Whether vectors were rotated to their principal directions.
    pub rotated: bool,
    /// The part of the pairs to decide about that devices did, where they and CPU cores shared the work.
    pub device_part: Option<f64>,
    /// What was expected of them.
    pub planned_part: Option<f64>,
    /// The part of the time in which both were at something.
    pub overlap: Option<f64>,
    /// Threads that ran.
    pub threads: usize,
    /// Seconds from the first piece to the last pair.
    pub seconds: f64,
    /// The same by the virtual clock, where a device is simulated.
    pub virtual_seconds: Option<f64>,
    /// What went wrong and was put right, such as a device that failed and whose work the CPU did.
    pub warnings: Vec<String>,
    /// What happened when, if [`VectorJoin::timeline`] asked for it.
    pub timeline: Vec<Event>,
}

impl VectorJoin {
    /// A join with the default technique on all cores.
    pub fn new(predicate: VectorPredicate, host: &'static dyn Host) -> Self {
        VectorJoin {
            host,
            predicate,
            technique: "auto".into(),
            engine: Engine::Auto,
            threads: 0,
            memory: u64::MAX,
            device_memory: u64::MAX,
            timeline: false,
            glimpse: None,
            machine: None,
        }
    }

    /// Chooses where it runs. [`Engine::Auto`] looks for a GPU where the CPU is expected to take longer than it
    /// takes to wake one up.
    pub fn engine(mut self, engine: Engine) -> Self {
        self.engine = engine;
        self
    }

    /// Bounds the memory, in bytes, that the join takes on each GPU. What does not fit is joined slab by slab.
    pub fn device_memory(mut self, bytes: u64) -> Self {
        self.device_memory = bytes;
        self
    }

    /// Chooses the technique by name, one of [`VECTOR_TECHNIQUES`] or of [`GPU_VECTOR_TECHNIQUES`].
    pub fn technique(mut self, name: &str) -> Self {
        self.technique = name.into();
        self
    }

    /// Runs on a pool of this many threads; 0 for the rayon pool that the caller is in.
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// Bounds the memory, in bytes, that the join takes beside the collections. What has no room for an
    /// index is done without.
    pub fn memory(mut self, bytes: u64) -> Self {
        self.memory = bytes;
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

    /// Remembers what happened when, for [`VectorReport::timeline`].
    pub fn timeline(mut self, wanted: bool) -> Self {
        self.timeline = wanted;
        self
    }

    /// Lets a glimpse, made for the same predicate and collections, see every pair that is found.
    /// Distances are then computed even where pairs are only counted.
    pub fn glimpse(mut self, glimpse: Arc<Glimpse>) -> Self {
        self.glimpse = Some(glimpse);
        self
    }

    /// Which pairs are wanted.
    pub fn predicate(&self) -> VectorPredicate {
        self.predicate
    }

    /// Says what is wrong with the choices, before any work is done.
    pub fn check(&self) -> Result<()> {
        Tier::asked_for().map_err(Error::Config)?;
        let name = self.technique.as_str();
        if !VECTOR_TECHNIQUES.contains(&name) && !GPU_VECTOR_TECHNIQUES.contains(&name) {
            return Err(Error::Config(format!(
                "unknown technique {name:?} for vectors; expected one of {}, {}",
                VECTOR_TECHNIQUES.join(", "),
                GPU_VECTOR_TECHNIQUES.join(", ")
            )));
        }
        self.offer().map(drop)
    }

    fn offer(&self) -> Result<Offer> {
        let held = match self.memory {
            u64::MAX => 0,
            memory => Hold::bytes(memory),
        };
        Offer::new(
            self.engine,
            &self.technique,
            (self.device_memory, held),
            self.planned_for()?,
            self.host,
        )
    }

    /// Chooses a technique for a collection with itself, or for two, and prepares it. Two collections
    /// must be of one dimension and one precision.
    pub fn prepare<'a>(
        &self,
        left: &'a VectorCollection,
        right: Option<&'a VectorCollection>,
    ) -> Result<PreparedVectorJoin<'a>> {
        self.check()?;
        let build = right.unwrap_or(left);
        if left.dimension() != build.dimension() {
            let (one, other) = (left.dimension(), build.dimension());
            let message =
                format!("vectors of dimension {other}; those of {} have {one}", left.name());
            return Err(Error::input(build.name(), "", message));
        }
        let narrow = |side: &VectorCollection| matches!(side.elements(), Elements::F32(_));
        if narrow(left) != narrow(build) {
            return Err(Error::Config(format!(
                "{} and {} are of different precision; widen the one in single precision",
                left.name(),
                build.name()
            )));
        }
        let pool = match self.threads {
            0 => None,
            threads => {
                Some(rayon::ThreadPoolBuilder::new().num_threads(threads).build().map_err(
                    |error| Error::Unavailable(format!("cannot start threads: {error}")),
                )?)
            }
        };
        let threads =
            pool.as_ref().map_or_else(rayon::current_num_threads, ThreadPool::current_num_threads);
        let itself = right.is_none();
        let join = VectorTask::new(left, right, self.predicate);
        // An eighth of the memory is for rows on their way out.
        let seen = self.glimpse.as_ref().map_or(0, |glimpse| glimpse.bytes());
        let bytes = (self.memory - self.memory / 8).saturating_sub(seen);
        let (offer, machine) = (self.offer()?, self.planned_for()?);
        let made = |chosen: Result<Option<Chosen>>, offer: &Offer| match chosen? {
            Some(chosen) => {
                let bytes = bytes.saturating_sub(offer.held_for(&*chosen.technique));
                Made::new(chosen, &join, &within(bytes, threads))
            }
            None => Err(Error::Memory {
                what: "the join".into(),
                needed: offer.least_memory(&join, threads, seen),
                limit: self.memory,
                device: false,
            }),
        };
        let work = || {
            let mut offer = offer;
            let mut tried = made(offer.choose(&join, bytes, threads), &offer);
            // Both at once need all rows on the device; alone it goes slab by slab.
            if self.engine == Engine::Auto && tried.as_ref().is_err_and(is_too_much_for_device) {
                offer = offer.by_one_side();
                tried = made(offer.choose(&join, bytes, threads), &offer);
            }
            match tried {
                Err(why) if self.is_fault(&why) => {
                    let instead =
                        made(Offer::on_cpu(&join, bytes, threads, machine, self.host), &offer)?;
                    Ok((instead, vec![did_its_work(&why)]))
                }
                tried => Ok((tried?, Vec::new())),
            }
        };
        let (Made { prepared, beside, plan }, warnings) = match &pool {
            Some(pool) => pool.install(work)?,
            None => work()?,
        };
        Ok(PreparedVectorJoin {
            prepared,
            beside,
            join,
            plan,
            pool,
            itself,
            rows: left.len(),
            memory: self.memory,
            room: within(bytes, threads),
            warnings,
            timeline: self.timeline,
            glimpse: self.glimpse.clone(),
            machine,
            host: self.host,
        })
    }

    /// Whether it is a device that cannot go on, so that the CPU had best do the join.
    fn is_fault(&self, why: &Error) -> bool {
        match why {
            Error::Unavailable(_) => self.engine != Engine::Cpu,
            // Who asked for a device alone, and gave it less, is told.
            why => is_too_much_for_device(why) && self.engine != Engine::Gpu,
        }
    }
}

fn is_too_much_for_device(why: &Error) -> bool {
    matches!(why, Error::Memory { device: true, .. })
}

/// A budget of so much memory for so many workers.
fn within(bytes: u64, threads: usize) -> Budget {
    Budget { bytes, ..Budget::unlimited(0, threads) }
}

/// A technique that is ready, and what cores do beside it.
struct Made<'a> {
    prepared: Box<dyn Prepared<Vectors> + 'a>,
    beside: Option<(Box<dyn Prepared<Vectors> + 'a>, [f64; 2])>,
    plan: VectorPlan,
}

impl<'a> Made<'a> {
    fn new(chosen: Chosen, join: &VectorTask<'a>, room: &Budget) -> Result<Self> {
        let Chosen { technique, beside, engine, considered, rotated, pair_seconds } = chosen;
        let prepared = technique.prepare(join, &(..), room)?;
        let beside = match beside {
            Some(beside) => Some((beside.prepare(join, &(..), room)?, pair_seconds)),
            None => None,
        };
        let plan = VectorPlan {
            engine,
            technique: technique.name(),
            details: prepared.details(),
            considered,
            compared: join.pairs(),
            rotated,
            threads: room.threads,
        };
        Ok(Made { prepared, beside, plan })
    }
}

/// A join of vectors with its index.
pub struct PreparedVectorJoin<'a> {
    prepared: Box<dyn Prepared<Vectors> + 'a>,
    /// What CPU cores do beside devices, in the same pieces, and how long a pair is expected to take on either.
    beside: Option<(Box<dyn Prepared<Vectors> + 'a>, [f64; 2])>,
    join: VectorTask<'a>,
    plan: VectorPlan,
    pool: Option<ThreadPool>,
    itself: bool,
    rows: usize,
    memory: u64,
    room: Budget,
    /// What went wrong so far and was put right.
    warnings: Vec<String>,
    timeline: bool,
    glimpse: Option<Arc<Glimpse>>,
    machine: Machine,
    host: &'static dyn Host,
}

impl PreparedVectorJoin<'_> {
    /// What it is going to do.
    pub fn plan(&self) -> &VectorPlan {
        &self.plan
    }

    /// The number of pairs, estimated from a part of them: by the technique's own index, or by what some rows
    /// find in a plain loop.
    pub fn estimate_pairs(&self) -> Option<f64> {
        self.prepared.estimate().or_else(|| sample::estimate(self.host, &self.join).ok())
    }

    /// Counts the pairs.
    pub fn count(&self, control: &Control) -> Result<VectorReport> {
        let total = AtomicU64::new(0);
        let sink = || CountSink { total: &total, control };
        let ran = self.run(control, sink)?;
        Ok(self.report(total.into_inner(), ran))
    }

    /// Hands every pair to `take`, in batches, with its distance as [`RowPair::similarity`]. The order is
    /// that of the technique, whatever the number of threads; on a GPU it is none in particular, and pairs come when no
    /// failure can take them back any more: where it works alone, at the end or when they are millions. `take` may
    /// answer `Break` to end the join early.
    pub fn pairs(
        &self,
        control: &Control,
        take: impl FnMut(&[RowPair]) -> ControlFlow<()> + Send,
    ) -> Result<VectorReport> {
        let room = OutputBuffers::within(self.memory / 8, self.plan.threads);
        let ordered = Ordered::new(room, take).in_any_order(self.plan.engine != Engine::Cpu);
        let sink = || PairsSink { rows: ordered.rows(), itself: self.itself, control };
        let ran = self.run(control, sink)?;
        Ok(self.report(ordered.pairs(), ran))
    }

    /// The connected components of the rows of a self-join: for each row, the smallest row number
    /// of its component. A row without a partner is a component by itself.
    pub fn groups(&self, control: &Control) -> Result<(Vec<u32>, VectorReport)> {
        if !self.itself {
            return Err(Error::Config("groups are those of one collection, not of two".into()));
        }
        let components = Components::new(self.rows);
        let sink = || GroupSink { components: &components, control };
        let ran = self.run(control, sink)?;
        let pairs = components.pairs();
        Ok((components.roots(), self.report(pairs, ran)))
    }

    fn report(&self, pairs: u64, ran: Ran) -> VectorReport {
        let Ran { candidates, seconds, virtual_seconds, device_part, .. } = ran;
        let Ran { both, instead, warnings, timeline, .. } = ran;
        let lasted = virtual_seconds.unwrap_or(seconds);
        let plan = instead.unwrap_or_else(|| self.plan.clone());
        let planned = |[core, device]: [f64; 2]| {
            let [cores, device] = [plan.threads as f64 / core, 1.0 / device];
            device / (cores + device)
        };
        VectorReport {
            pairs,
            candidates,
            engine: plan.engine,
            technique: plan.technique,
            details: plan.details,
            rotated: plan.rotated,
            device_part,
            planned_part: self.beside.as_ref().map(|(_, pair_seconds)| planned(*pair_seconds)),
            overlap: both.filter(|_| lasted > 0.0).map(|both| (both / lasted).min(1.0)),
            threads: plan.threads,
            seconds,
            virtual_seconds,
            warnings,
            timeline,
        }
    }

    /// Lets every thread take pieces until none is left; beside devices, threads of their own attend to these.
    fn run<S: PieceSink + Send>(
        &self,
        control: &Control,
        sink: impl Fn() -> S + Sync,
    ) -> Result<Ran> {
        let begin = Instant::now();
        let device = self.plan.engine != Engine::Cpu;
        let workers = self.prepared.workers().min(self.prepared.pieces()).max(1);
        let pieces = match &self.beside {
            Some((_, pair_seconds)) => {
                let hands = (self.cores(self.prepared.pieces()), workers);
                Pieces::shared(&self.join, *pair_seconds, hands, &self.machine)
            }
            None => Pieces::new(self.prepared.pieces()),
        };
        // What one side does by itself in virtual time is drawn when it is done.
        let simulated = self.machine.simulated().is_some();
        let drawn_later = simulated && self.beside.is_none();
        let timeline = Timeline::new(self.timeline && !drawn_later);
        let joining = Joining::new(control, &timeline);
        control.begin(pieces.len() as u64);
        let watched = || {
            let look = self.glimpse.as_deref().map(Look::new);
            Watched { sink: sink(), look, itself: self.itself, enough: &joining.enough }
        };
        let hold = Hold::within(self.memory, self.beside.is_none());
        let staged = || Staged::new(watched(), &hold);
        let of = (&*self.prepared, self.plan.technique);
        let mut instead = None;
        match &self.beside {
            Some((cpu, _)) => std::thread::scope(|scope| {
                for _ in 0..workers {
                    scope.spawn(|| joining.attend(&pieces, of, (workers, true), staged()));
                }
                joining.on_cores(self, &pieces, (&**cpu, "nested-loop"), &watched);
            }),
            // A device is attended to by threads that do little else.
            None if device => {
                let attended = std::thread::scope(|scope| {
                    let attend = || joining.attend(&pieces, of, (workers, false), staged());
                    let others: Vec<_> = (1..workers).map(|_| scope.spawn(attend)).collect();
                    let mut attended = vec![attend()];
                    for other in others {
                        match other.join() {
                            Ok(one) => attended.push(one),
                            Err(panic) => std::panic::resume_unwind(panic),
                        }
                    }
                    attended
                });
                match joining.fault() {
                    Some(why) => {
                        drop(attended);
                        instead = Some(self.on_cpu_instead(why, &joining, &watched)?);
                    }
                    None => {
                        for mut one in attended {
                            let _ = (one.hand_on(), one.sink.end());
                        }
                    }
                }
            }
            None => joining.on_cores(self, &pieces, of, &watched),
        }
        let of_both = self.beside.as_ref().map(|_| (pieces.device_part(), pieces.both()));
        let (candidates, warnings) = joining.into_result()?;
        let (mut virtual_seconds, mut moments) = (pieces.all_virtual_seconds(), Vec::new());
        if drawn_later {
            let drawn = Timeline::new(self.timeline);
            let mut lasted = self.draw(&drawn, &self.plan, 0.0, (pieces.len(), pieces.taken()));
            if let Some(plan) = &instead {
                let all = plan.pieces;
                lasted += self.draw(&drawn, &plan.plan, lasted, (all, all));
            }
            (virtual_seconds, moments) = (Some(lasted), drawn.into_moments());
        }
        moments.extend(timeline.into_moments());
        let instead = instead.map(|instead| instead.plan);
        Ok(Ran {
            candidates,
            seconds: begin.elapsed().as_secs_f64(),
            virtual_seconds,
            device_part: of_both.map(|(part, _)| part),
            both: of_both.map(|(_, both)| both),
            instead,
            warnings: self.warnings.iter().cloned().chain(warnings).collect(),
            timeline: moments,
        })
    }

    /// Draws what one side has done by itself in virtual time, and returns how long that takes: as long as was
    /// estimated, by a device at its true speed.
    fn draw(
        &self,
        timeline: &Timeline,
        plan: &VectorPlan,
        begin: f64,
        (pieces, ran): (usize, usize),
    ) -> f64 {
        let on_device = plan.engine == Engine::Gpu;
        let considered = plan.considered.iter().find(|(name, _)| *name == plan.technique);
        // Where nothing was estimated, a nanosecond for each pair.
        let unknown = || 1e-9 * self.machine.scale() * plan.compared / plan.threads as f64;
        let expected = considered.and_then(|(_, seconds)| *seconds).unwrap_or_else(unknown);
        let seconds = match self.machine.simulated().filter(|_| on_device) {
            Some(device) => device.actual_seconds(expected),
            None => expected,
        };
        let row = |worker: usize| match on_device {
            true => format!("GPU attendant {worker}"),
            false => format!("CPU thread {worker}"),
        };
        let workers = if on_device { 1 } else { plan.threads };
        let what = (plan.technique, on_device);
        timeline.add_round((begin, seconds), (row, workers), what, (pieces, ran.min(pieces)));
        seconds
    }

    /// How many cores take so many pieces.
    fn cores(&self, pieces: usize) -> usize {
        if self.plan.threads == 1 || pieces <= 1 {
            return 1;
        }
        self.pool.as_ref().map_or_else(rayon::current_num_threads, ThreadPool::current_num_threads)
    }

    /// Does everything on the CPU, since a device has failed; the plan of what did it.
    fn on_cpu_instead<S: PieceSink>(
        &self,
        why: Error,
        joining: &Joining<'_>,
        sink: &(impl Fn() -> S + Sync),
    ) -> Result<Instead> {
        let Budget { bytes, threads, .. } = self.room;
        let make = || {
            let chosen = Offer::on_cpu(&self.join, bytes, threads, self.machine, self.host)?;
            chosen.map(|chosen| Made::new(chosen, &self.join, &self.room)).transpose()
        };
        let made = match &self.pool {
            Some(pool) => pool.install(make)?,
            None => make()?,
        };
        // There may be no room for it.
        let Some(made) = made else { return Err(why) };
        joining.warn(&why);
        let pieces = Pieces::new(made.prepared.pieces());
        joining.control.begin(pieces.len() as u64);
        joining.enough.store(false, Ordering::Relaxed);
        joining.on_cores(self, &pieces, (&*made.prepared, made.plan.technique), sink);
        Ok(Instead { plan: made.plan, pieces: pieces.len() })
    }
}

/// What the CPU did all of a join with, after a device had failed.
struct Instead {
    plan: VectorPlan,
    pieces: usize,
}

/// What a run took.
struct Ran {
    candidates: u64,
    seconds: f64,
    virtual_seconds: Option<f64>,
    device_part: Option<f64>,
    /// Seconds in which both sides were at something.
    both: Option<f64>,
    /// What the CPU did all of it with, after a device had failed.
    instead: Option<VectorPlan>,
    warnings: Vec<String>,
    timeline: Vec<Event>,
}

/// What the threads of a run share.
struct Joining<'a> {
    control: &'a Control,
    timeline: &'a Timeline,
    candidates: AtomicU64,
    /// Nothing more is wanted.
    enough: AtomicBool,
    /// What ends the join.
    failure: Mutex<Option<Error>>,
    /// What went wrong with a device that was to do everything, and has left nothing behind.
    fault: Mutex<Option<Error>>,
    warnings: Mutex<Vec<String>>,
}

impl<'a> Joining<'a> {
    fn new(control: &'a Control, timeline: &'a Timeline) -> Self {
        Joining {
            control,
            timeline,
            candidates: AtomicU64::new(0),
            enough: AtomicBool::new(false),
            failure: Mutex::new(None),
            fault: Mutex::new(None),
            warnings: Mutex::default(),
        }
    }

    fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
        of.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the join.
    fn fail(&self, why: Error) {
        self.enough.store(true, Ordering::Relaxed);
        Self::lock(&self.failure).get_or_insert(why);
    }

    fn warn(&self, why: &Error) {
        let (mut warnings, warning) = (Self::lock(&self.warnings), did_its_work(why));
        if !warnings.contains(&warning) {
            warnings.push(warning);
        }
    }

    /// What went wrong with a device that was to do everything.
    fn fault(&self) -> Option<Error> {
        Self::lock(&self.fault).take()
    }

    /// Pairs that the predicate was asked about, and warnings.
    fn into_result(self) -> Result<(u64, Vec<String>)> {
        let Joining { candidates, failure, warnings, .. } = self;
        match failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some(why) => Err(why),
            None => {
                let warnings = warnings.into_inner().unwrap_or_else(PoisonError::into_inner);
                Ok((candidates.into_inner(), warnings))
            }
        }
    }

    fn is_over(&self) -> bool {
        self.control.stopped() || self.enough.load(Ordering::Relaxed)
    }

    /// Every core takes pieces.
    fn on_cores<S: PieceSink>(
        &self,
        of: &PreparedVectorJoin<'_>,
        pieces: &Pieces,
        how: (&dyn Prepared<Vectors>, &str),
        sink: &(impl Fn() -> S + Sync),
    ) {
        let work = || self.work(pieces, how, sink());
        if of.cores(pieces.len()) == 1 {
            return work();
        }
        match &of.pool {
            Some(pool) => drop(pool.broadcast(|_| work())),
            None => drop(rayon::broadcast(|_| work())),
        }
    }

    /// A core takes pieces until there are none.
    fn work<S: PieceSink>(
        &self,
        pieces: &Pieces,
        (prepared, technique): (&dyn Prepared<Vectors>, &str),
        mut sink: S,
    ) {
        let mut hand = pieces.hand(Taker::Core);
        let mut worker = match prepared.worker() {
            Ok(worker) => worker,
            Err(why) => return self.fail(why),
        };
        while let Some(Taken { piece, span }) = hand.take(|| !self.is_over()) {
            sink.begin(piece);
            let begin = Instant::now();
            let ran = worker.run(piece, &mut sink);
            let seconds = begin.elapsed().as_secs_f64();
            // Others wait for the end of a piece, whatever became of it.
            let end = sink.end();
            match span {
                None => self.timeline.add(|| thread_row(0), technique, begin, Instant::now()),
                Some(span) => {
                    let row = || format!("CPU thread {}", hand.number);
                    self.timeline.add_virtual(row, technique, span);
                }
            }
            hand.done(piece, seconds, 1);
            match ran {
                Ok(flow) => self.ended(if flow.is_break() { flow } else { end }),
                Err(why) => self.fail(why),
            }
        }
        self.candidates.fetch_add(worker.candidates(), Ordering::Relaxed);
    }

    fn ended(&self, flow: ControlFlow<()>) {
        match flow {
            ControlFlow::Continue(()) => self.control.advance(1),
            ControlFlow::Break(()) => self.enough.store(true, Ordering::Relaxed),
        }
    }

    /// One of so many threads takes pieces for a device until there are none or the device fails. What it is at then is
    /// given back where CPU cores share the pieces; else the device has done nothing.
    fn attend<'h, S: PieceSink>(
        &self,
        pieces: &Pieces,
        (prepared, technique): (&dyn Prepared<Vectors>, &str),
        (attendants, shared): (usize, bool),
        mut staged: Staged<'h, S>,
    ) -> Staged<'h, S> {
        let mut hand = pieces.hand(Taker::Device);
        let mut worker = match prepared.worker() {
            Ok(worker) => worker,
            Err(why) if shared => {
                self.warn(&why);
                return staged;
            }
            Err(why) if staged.close() => {
                self.enough.store(true, Ordering::Relaxed);
                Self::lock(&self.fault).get_or_insert(why);
                return staged;
            }
            Err(why) => {
                self.fail(why);
                return staged;
            }
        };
        while let Some(Taken { piece, span }) = hand.take(|| !self.is_over()) {
            staged.sink.begin(piece);
            let begin = Instant::now();
            let ran = worker.run(piece, &mut staged);
            let seconds = begin.elapsed().as_secs_f64();
            let row = || format!("GPU attendant {}", hand.number);
            match span {
                None => self.timeline.add(row, technique, begin, Instant::now()),
                Some(span) => {
                    self.timeline.add_virtual(row, technique, span);
                    self.timeline.add_virtual(|| "GPU stream 0".into(), "filter and verify", span);
                }
            }
            let flow = match ran {
                Ok(flow) => flow,
                // Whatever it is, nobody asks for the rest.
                Err(_) if self.is_over() => break,
                Err(why) if !shared && staged.close() => {
                    self.enough.store(true, Ordering::Relaxed);
                    Self::lock(&self.fault).get_or_insert(why);
                    break;
                }
                Err(why) if !shared || staged.is_open() => {
                    self.fail(why);
                    break;
                }
                Err(why) => {
                    staged.forget();
                    self.warn(&why);
                    hand.give_back(piece);
                    break;
                }
            };
            hand.done(piece, seconds, attendants);
            let handed_on = if shared { staged.hand_on() } else { ControlFlow::Continue(()) };
            let end = staged.sink.end();
            let broken = [flow, handed_on, end].iter().any(ControlFlow::is_break);
            self.ended(if broken { ControlFlow::Break(()) } else { flow });
        }
        self.candidates.fetch_add(worker.candidates(), Ordering::Relaxed);
        staged
    }
}

/// A sink with a glimpse at what goes into it, if one is wanted.
struct Watched<'a, S> {
    sink: S,
    look: Option<Look<'a>>,
    itself: bool,
    /// Somebody else has had enough.
    enough: &'a AtomicBool,
}

impl<S: PieceSink> Sink<VectorPair> for Watched<'_, S> {
    fn wants_value(&self) -> bool {
        self.look.is_some() || self.sink.wants_value()
    }

    fn stopped(&self) -> bool {
        self.enough.load(Ordering::Relaxed) || self.sink.stopped()
    }

    fn only_counts(&self) -> bool {
        self.look.is_none() && self.sink.only_counts()
    }

    fn count(&mut self, pairs: u64) {
        self.sink.count(pairs);
    }

    fn push(&mut self, pairs: &[VectorPair]) -> ControlFlow<()> {
        if let Some(look) = &mut self.look {
            look.at_vectors(pairs, self.itself);
        }
        self.sink.push(pairs)
    }
}

impl<S: PieceSink> PieceSink for Watched<'_, S> {
    fn begin(&mut self, piece: usize) {
        self.sink.begin(piece);
    }

    fn end(&mut self) -> ControlFlow<()> {
        self.sink.end()
    }

    fn takes_again(&mut self, pairs: &[VectorPair]) -> bool {
        self.look.is_none() && self.sink.takes_again(pairs)
    }
}

struct CountSink<'a> {
    total: &'a AtomicU64,
    control: &'a Control,
}

impl Sink<VectorPair> for CountSink<'_> {
    fn wants_value(&self) -> bool {
        false
    }

    fn stopped(&self) -> bool {
        self.control.stopped()
    }

    fn only_counts(&self) -> bool {
        true
    }

    fn count(&mut self, pairs: u64) {
        self.total.fetch_add(pairs, Ordering::Relaxed);
    }

    fn push(&mut self, pairs: &[VectorPair]) -> ControlFlow<()> {
        self.count(pairs.len() as u64);
        ControlFlow::Continue(())
    }
}

impl PieceSink for CountSink<'_> {
    fn takes_again(&mut self, _: &[VectorPair]) -> bool {
        true
    }
}

struct PairsSink<'a, F> {
    rows: RowSink<'a, F>,
    itself: bool,
    control: &'a Control,
}

impl<F: FnMut(&[RowPair]) -> ControlFlow<()> + Send> Sink<VectorPair> for PairsSink<'_, F> {
    fn wants_value(&self) -> bool {
        true
    }

    fn stopped(&self) -> bool {
        self.control.stopped()
    }

    fn push(&mut self, pairs: &[VectorPair]) -> ControlFlow<()> {
        for pair in pairs {
            let (mut left, mut right) = (pair.probe, pair.build);
            if self.itself && right < left {
                (left, right) = (right, left);
            }
            let (similarity, left_input) = (pair.distance, Side::Left);
            self.rows.push(RowPair { left, right, overlap: 0, similarity, left_input })?;
        }
        ControlFlow::Continue(())
    }
}

impl<F: FnMut(&[RowPair]) -> ControlFlow<()> + Send> PieceSink for PairsSink<'_, F> {
    fn begin(&mut self, piece: usize) {
        self.rows.begin(piece);
    }

    fn end(&mut self) -> ControlFlow<()> {
        self.rows.end()
    }

    fn takes_again(&mut self, _: &[VectorPair]) -> bool {
        false
    }
}

struct GroupSink<'a> {
    components: &'a Components,
    control: &'a Control,
}

impl Sink<VectorPair> for GroupSink<'_> {
    fn wants_value(&self) -> bool {
        false
    }

    fn stopped(&self) -> bool {
        self.control.stopped()
    }

    fn count(&mut self, pairs: u64) {
        self.components.count(pairs);
    }

    fn push(&mut self, pairs: &[VectorPair]) -> ControlFlow<()> {
        self.components.count(pairs.len() as u64);
        self.components.unite_all(pairs.iter().map(|pair| (pair.probe, pair.build)));
        ControlFlow::Continue(())
    }
}

impl PieceSink for GroupSink<'_> {
    fn takes_again(&mut self, pairs: &[VectorPair]) -> bool {
        self.components.unite_all(pairs.iter().map(|pair| (pair.probe, pair.build)));
        true
    }
}
