//! How do threads work through the tiles of a join?
//!
//! The planner cuts each part of the join into tiles and names a technique for each. For one tile after
//! the other, every thread makes a worker and a sink and takes the next piece until none is left.

use crate::join::{Engine, Report, StepPlan, StepReport};
use crate::queue::{End, Queue, Queued};
use crate::stage::{Stage, StagedSink};
use crate::units;
use rayon::{BroadcastContext, ThreadPool, ThreadPoolBuilder};
use simjoin_core::{Error, PairSink, Result, SetCollection, SetId, SetPair};
use simjoin_plan::{
    Choice, Join, Means, Part, Room, Technique, Tile, Trace, Units, choose, choose_for, sides,
    split, split_at,
};
use std::ops::{ControlFlow, Range};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// Joins estimated to take longer than this many seconds are worth measuring the machine for, which
/// takes a fiftieth of that.
const CALIBRATE: f64 = 0.6;

/// Pairs of a device that are handed on at once.
const BATCH: usize = 1 << 16;

/// Lets another thread watch a join and end it.
#[derive(Debug, Default)]
pub struct Control {
    done: AtomicU64,
    total: AtomicU64,
    stop: AtomicBool,
}

impl Control {
    /// Work done and work in all, in an arbitrary unit; (0, 0) until the work is known.
    pub fn progress(&self) -> (u64, u64) {
        (self.done.load(Ordering::Relaxed), self.total.load(Ordering::Relaxed))
    }

    /// Asks the join to end early; what it has found so far is incomplete.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Whether [`stop`](Self::stop) was called.
    pub fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// A sink for one thread that is told where tiles begin and end. Tiles are numbered from 0 over
/// the whole join.
pub(crate) trait TileSink: PairSink {
    fn begin(&mut self, _tile: usize) {}
    fn end(&mut self) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

/// A sink that also listens to the user, and to the other workers.
struct Watched<'a, S> {
    sink: &'a mut S,
    progress: &'a Progress<'a>,
    failure: &'a Failure,
}

impl<S: PairSink> PairSink for Watched<'_, S> {
    fn wants_overlap(&self) -> bool {
        self.sink.wants_overlap()
    }

    fn stopped(&self) -> bool {
        self.progress.stopped() || self.failure.is_there()
    }

    fn only_counts(&self) -> bool {
        self.sink.only_counts()
    }

    fn count(&mut self, rows: u64) {
        self.sink.count(rows);
    }

    fn push(&mut self, pairs: &[SetPair]) -> ControlFlow<()> {
        self.sink.push(pairs)
    }
}

/// What a plan is made from, beside the techniques.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Threads to run on; 0 is the pool that the caller is in.
    pub(crate) threads: usize,
    /// Bytes for everything beside the collections.
    pub(crate) memory: u64,
    /// Bytes on each device.
    pub(crate) device_memory: u64,
    /// Bytes of the memory for the sink.
    pub(crate) sink: u64,
    /// Probe tokens in a piece.
    pub(crate) tile_tokens: usize,
}

impl Limits {
    fn for_technique(&self) -> u64 {
        if self.memory == u64::MAX { u64::MAX } else { self.memory.saturating_sub(self.sink) }
    }
}

/// Techniques to choose from, and threads to run them.
pub(crate) struct Plan {
    offered: Vec<Box<dyn Technique>>,
    /// The CPU's techniques where devices have been offered work: they do the tiles of a device that has
    /// failed, and their own part of a hybrid join.
    on_cpu: Vec<Box<dyn Technique>>,
    hybrid: Option<Split>,
    limits: Limits,
    explain: bool,
    /// `None`: the pool that the caller is in.
    pool: Option<ThreadPool>,
}

/// How a hybrid join is split.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Split {
    /// Where both sides are estimated to end at the same time.
    Auto,
    /// The device gets this share of the pairs that the length filter leaves.
    Share(f64),
    /// Both take tiles from the ends of a queue.
    Queue,
}

/// Who works on a step.
#[derive(Clone, Copy)]
enum Crew {
    /// The threads of the pool.
    Pool,
    /// So many threads of its own, which mostly wait for a device.
    Own(usize),
}

/// Threads beside those of the pool that attend to devices.
const ATTENDANTS: usize = 3;

/// A part of the join, and what is to be done with it.
struct Step<'a> {
    join: Join<'a>,
    part: Part,
    choice: Choice,
    /// Whether it is for the CPU beside, or in place of, a device.
    on_cpu: bool,
}

/// What running a plan has shown.
pub(crate) struct Ran {
    candidates: u64,
    steps: Vec<StepReport>,
    warnings: Vec<String>,
}

/// What running some steps has shown.
#[derive(Default)]
struct Lane<'a> {
    reports: Vec<StepReport>,
    warnings: Vec<String>,
    /// What is still to be done.
    left: Vec<Step<'a>>,
}

impl<'a> Lane<'a> {
    fn add(&mut self, other: Lane<'a>) {
        self.reports.extend(other.reports);
        self.warnings.extend(other.warnings);
        self.left.extend(other.left);
    }
}

/// How far a join is.
struct Progress<'a> {
    control: &'a Control,
    /// The sink had enough.
    enough: &'a AtomicBool,
    candidates: &'a AtomicU64,
    /// Pieces that sinks have been told of, and probes done.
    pieces: usize,
    probes: u64,
}

impl Progress<'_> {
    fn stopped(&self) -> bool {
        self.control.stopped() || self.enough.load(Ordering::Relaxed)
    }
}

impl Plan {
    pub(crate) fn new(
        offered: Vec<Box<dyn Technique>>,
        hybrid: Option<Split>,
        limits: Limits,
        explain: bool,
    ) -> Result<Self> {
        let pool =
            match limits.threads {
                0 => None,
                threads => Some(ThreadPoolBuilder::new().num_threads(threads).build().map_err(
                    |error| Error::Unavailable(format!("cannot start threads: {error}")),
                )?),
            };
        let on_device = offered.iter().any(|technique| technique.on_device());
        let on_cpu = if on_device { cpu_techniques() } else { Vec::new() };
        Ok(Plan { offered, on_cpu, hybrid, limits, explain, pool })
    }

    pub(crate) fn report(&self, pairs: u64, ran: Ran) -> Report {
        let mut names: Vec<&str> = Vec::new();
        for step in &ran.steps {
            if !names.contains(&step.technique) {
                names.push(step.technique);
            }
        }
        if names.is_empty() {
            // Nothing could meet, so nothing was run.
            let first = self.offered[0].name();
            let alone = self.offered.iter().all(|technique| technique.name() == first);
            names.push(if alone { first } else { "auto" });
        }
        Report {
            pairs,
            candidates: ran.candidates,
            technique: names.join("+"),
            engine: if self.hybrid.is_some() {
                Engine::Hybrid
            } else if self.offered.iter().all(|offer| offer.on_device()) {
                Engine::Gpu
            } else {
                Engine::Cpu
            },
            threads: self.threads(),
            steps: ran.steps,
            warnings: ran.warnings,
        }
    }

    pub(crate) fn threads(&self) -> usize {
        self.pool.as_ref().map_or_else(rayon::current_num_threads, ThreadPool::current_num_threads)
    }

    /// Runs `work` on every thread of a crew at once.
    fn broadcast(&self, crew: Crew, work: impl Fn() + Sync) {
        if let Crew::Own(threads) = crew {
            std::thread::scope(|scope| {
                for _ in 0..threads {
                    scope.spawn(&work);
                }
            });
            return;
        }
        if self.threads() == 1 {
            return work();
        }
        let work = |_: BroadcastContext<'_>| work();
        match &self.pool {
            Some(pool) => drop(pool.broadcast(work)),
            None => drop(rayon::broadcast(work)),
        }
    }

    /// Runs `work` where a crew does.
    fn install<T: Send>(&self, crew: Crew, work: impl FnOnce() -> T + Send) -> T {
        match &self.pool {
            _ if matches!(crew, Crew::Own(_)) => work(),
            Some(pool) => pool.install(work),
            None => work(),
        }
    }

    /// What is to be done.
    fn steps<'a>(&self, parts: &[(Join<'a>, Part)]) -> Result<Vec<Step<'a>>> {
        let (units, measured) = units::units();
        let steps = self.choose(parts, &units)?;
        // Where a choice matters, it is made with the units of this machine.
        let estimated: f64 = steps.iter().filter_map(|step| step.choice.seconds()).sum();
        let worth_it = self.explain || (self.offered.len() > 1 && estimated > CALIBRATE);
        if measured || !worth_it {
            return Ok(steps);
        }
        self.choose(parts, &units::calibrated())
    }

    /// Bytes for a technique. In a hybrid join two of them run at once.
    fn memory(&self) -> u64 {
        match self.limits.for_technique() {
            all if self.hybrid.is_some() && all != u64::MAX => all / 2,
            all => all,
        }
    }

    fn means<'m>(&self, units: &'m Units) -> Means<'m> {
        Means {
            units,
            threads: self.threads(),
            memory: self.memory(),
            device_memory: self.limits.device_memory,
            explain: self.explain,
        }
    }

    fn choose<'a>(&self, parts: &[(Join<'a>, Part)], units: &Units) -> Result<Vec<Step<'a>>> {
        let offered: Vec<&dyn Technique> = self.offered.iter().map(|offer| &**offer).collect();
        let means = self.means(units);
        let mut steps = Vec::new();
        if let Some(hybrid) = self.hybrid {
            for &(join, part) in parts {
                let at = match hybrid {
                    Split::Share(share) => split_at(&join, 1.0 - share),
                    // What a queue comes to is known only afterwards.
                    _ => split(&join, &self.refs(true), &self.refs(false), &means),
                };
                for (tile, on_cpu) in sides(&join, at).into_iter().zip([true, false]) {
                    steps.extend(self.steps_for(&join, part, &tile, on_cpu, &means)?);
                }
            }
            return Ok(steps);
        }
        for &(join, part) in parts {
            let choices = choose(&join, &offered, &means).map_err(|error| self.with_sink(error))?;
            steps.extend(choices.into_iter().map(|choice| Step {
                join,
                part,
                choice,
                on_cpu: false,
            }));
        }
        Ok(steps)
    }

    /// What the CPU or a device is to do with a tile.
    fn steps_for<'a>(
        &self,
        join: &Join<'a>,
        part: Part,
        tile: &Tile,
        on_cpu: bool,
        means: &Means<'_>,
    ) -> Result<Vec<Step<'a>>> {
        if tile.probes.is_empty() {
            return Ok(Vec::new());
        }
        let choices = choose_for(join, tile, &self.refs(on_cpu), means);
        let choices = choices.map_err(|error| self.with_sink(error))?;
        Ok(choices.into_iter().map(|choice| Step { join: *join, part, choice, on_cpu }).collect())
    }

    /// An error about memory speaks of all of it.
    fn with_sink(&self, error: Error) -> Error {
        match error {
            Error::Memory { what, needed, device: false, .. } => Error::Memory {
                what,
                needed: needed * if self.hybrid.is_some() { 2 } else { 1 } + self.limits.sink,
                limit: self.limits.memory,
                device: false,
            },
            other => other,
        }
    }

    /// What would be done, and what else was considered.
    pub(crate) fn explain(&self, parts: &[(Join<'_>, Part)]) -> Result<Vec<StepPlan>> {
        let steps = self.install(Crew::Pool, || self.steps(parts))?;
        let describe = |step: Step<'_>| {
            let Choice { tile, technique, considered, pairs } = step.choice;
            let offered = self.techniques(step.on_cpu);
            let label = |at: usize| (offered[at].name(), offered[at].variant());
            StepPlan {
                probes: sizes(step.join.probe, &tile.probes),
                builds: sizes(step.join.build, &tile.builds),
                pairs,
                technique: label(technique),
                seconds: considered[technique],
                considered: (0..considered.len())
                    .map(|at| (label(at).0, label(at).1, considered[at]))
                    .collect(),
            }
        };
        Ok(steps.into_iter().map(describe).collect())
    }

    fn techniques(&self, on_cpu: bool) -> &[Box<dyn Technique>] {
        if on_cpu { &self.on_cpu } else { &self.offered }
    }

    fn refs(&self, on_cpu: bool) -> Vec<&dyn Technique> {
        self.techniques(on_cpu).iter().map(|technique| &**technique).collect()
    }

    /// Runs every step of every part. `sink` makes the sink of one thread for one part.
    pub(crate) fn run<'a, S: TileSink>(
        &self,
        parts: &[(Join<'a>, Part)],
        control: &Control,
        sink: impl Fn(&Join<'a>, Part) -> S + Sync,
    ) -> Result<Ran> {
        let sink = &sink;
        let queued = self.hybrid == Some(Split::Queue);
        let steps =
            if queued { Vec::new() } else { self.install(Crew::Pool, || self.steps(parts))? };
        // Progress is counted in probes, over all steps.
        let total = if queued {
            parts.iter().map(|(join, _)| join.probe.len() as u64).sum()
        } else {
            steps.iter().map(|step| step.choice.tile.probes.len() as u64).sum()
        };
        control.done.store(0, Ordering::Relaxed);
        control.total.store(total, Ordering::Relaxed);
        let (enough, candidates) = (AtomicBool::new(false), AtomicU64::new(0));
        let mut progress =
            Progress { control, enough: &enough, candidates: &candidates, pieces: 0, probes: 0 };
        let mut lane = Lane::default();
        if self.hybrid.is_some() {
            let (own, of_device): (Vec<_>, Vec<_>) = steps.into_iter().partition(|s| s.on_cpu);
            let queue = queued.then(|| Queue::new(parts));
            let mut beside = Progress { ..progress };
            // Where one side fails, the other need not go on.
            let end_both = |_: &Error| enough.store(true, Ordering::Relaxed);
            let (device, cpu) = std::thread::scope(|scope| {
                let device = scope.spawn(|| {
                    let crew = Crew::Own(ATTENDANTS);
                    match &queue {
                        Some(queue) => self.run_queue(queue, End::Back, crew, &mut beside, sink),
                        None => self.run_lane(of_device, crew, &mut beside, sink),
                    }
                    .inspect_err(end_both)
                });
                let cpu = match &queue {
                    Some(queue) => {
                        self.run_queue(queue, End::Front, Crew::Pool, &mut progress, sink)
                    }
                    None => self.run_lane(own, Crew::Pool, &mut progress, sink),
                };
                let cpu = cpu.inspect_err(end_both);
                (device.join(), cpu)
            });
            let device = match device {
                Ok(device) => device?,
                Err(panic) => std::panic::resume_unwind(panic),
            };
            lane.add(cpu?);
            lane.add(device);
        } else {
            lane.add(self.run_lane(steps, Crew::Pool, &mut progress, sink)?);
        }
        // What devices have left is the CPU's.
        while !lane.left.is_empty() && !progress.stopped() {
            let left = std::mem::take(&mut lane.left);
            lane.add(self.run_lane(left, Crew::Pool, &mut progress, sink)?);
        }
        let Lane { reports, warnings, .. } = lane;
        Ok(Ran { candidates: candidates.into_inner(), steps: reports, warnings })
    }

    /// Takes tiles from one end of a queue until none is left, or until a device fails.
    fn run_queue<'a, S: TileSink>(
        &self,
        queue: &Queue<'a>,
        end: End,
        crew: Crew,
        progress: &mut Progress<'_>,
        sink: &(impl Fn(&Join<'a>, Part) -> S + Sync),
    ) -> Result<Lane<'a>> {
        let mut lane = Lane::default();
        let on_cpu = end == End::Front;
        let (units, _) = units::units();
        let means = self.means(&units);
        while let Some((Queued { join, part, tile }, tiles)) = queue.take(end) {
            let begin = Instant::now();
            let steps =
                self.install(crew, || self.steps_for(&join, part, &tile, on_cpu, &means))?;
            lane.add(self.run_lane(steps, crew, progress, sink)?);
            queue.done(end, tiles, begin.elapsed().as_secs_f64());
            // A device that has failed once takes nothing more.
            if !lane.left.is_empty() || progress.stopped() {
                break;
            }
        }
        Ok(lane)
    }

    /// Runs steps one after the other. Those that a device has failed to do are left, for the CPU.
    fn run_lane<'a, S: TileSink>(
        &self,
        steps: Vec<Step<'a>>,
        crew: Crew,
        progress: &mut Progress<'_>,
        sink: &(impl Fn(&Join<'a>, Part) -> S + Sync),
    ) -> Result<Lane<'a>> {
        let mut lane = Lane::default();
        for step in steps {
            if progress.stopped() {
                break;
            }
            let technique = &*self.techniques(step.on_cpu)[step.choice.technique];
            let stage = technique.on_device().then(|| Stage::within(self.limits.memory));
            let begin = Instant::now();
            let ran = self.run_step(&step, technique, crew, stage.as_ref(), progress, sink);
            let trace = match ran {
                Ok(trace) => trace,
                // Nothing of the tile has gone on, so the CPU can do it.
                Err(Error::Unavailable(why)) if stage.as_ref().is_some_and(|s| !s.is_open()) => {
                    lane.warnings.push(format!("{why}; the CPU did its work"));
                    let Step { join, part, choice, .. } = &step;
                    let (units, _) = units::units();
                    let means = self.means(&units);
                    let instead = || self.steps_for(join, *part, &choice.tile, true, &means);
                    lane.left.extend(self.install(crew, instead)?);
                    continue;
                }
                Err(error) => return Err(error),
            };
            if let Some(stage) = stage {
                self.hand_on(&step, stage, crew, progress, sink);
            }
            let Step { join, choice, .. } = &step;
            progress.probes += choice.tile.probes.len() as u64;
            progress.control.done.fetch_max(progress.probes, Ordering::Relaxed);
            lane.reports.push(StepReport {
                technique: technique.name(),
                variant: technique.variant(),
                probes: sizes(join.probe, &choice.tile.probes),
                estimated: choice.seconds(),
                seconds: begin.elapsed().as_secs_f64(),
                trace,
            });
        }
        Ok(lane)
    }

    /// Runs one step, by all threads.
    fn run_step<'a, S: TileSink>(
        &self,
        step: &Step<'a>,
        technique: &dyn Technique,
        crew: Crew,
        stage: Option<&Stage>,
        progress: &mut Progress<'_>,
        sink: &(impl Fn(&Join<'a>, Part) -> S + Sync),
    ) -> Result<Trace> {
        let Step { join, part, choice, .. } = step;
        let tile = &choice.tile;
        let room = Room {
            piece_tokens: self.limits.tile_tokens,
            bytes: self.memory(),
            device_bytes: self.limits.device_memory,
            threads: match crew {
                Crew::Pool => self.threads(),
                Crew::Own(threads) => threads,
            },
        };
        let trace = Mutex::new(Trace::default());
        let mut prepared = self.install(crew, || technique.prepare(join, tile, &room))?;
        let rounds = prepared.rounds();
        for round in 0..rounds {
            self.install(crew, || prepared.begin(round))?;
            let pieces = prepared.pieces();
            let next = AtomicUsize::new(0);
            let finished = AtomicUsize::new(0);
            let workers = AtomicUsize::new(0);
            let failure = Failure::default();
            let shared: &Progress<'_> = progress;
            self.broadcast(crew, || {
                if workers.fetch_add(1, Ordering::Relaxed) >= prepared.workers() {
                    return;
                }
                let mut worker = match prepared.worker() {
                    Ok(worker) => worker,
                    Err(error) => return failure.set(error),
                };
                let mut sink = StagedSink::new(sink(join, *part), stage);
                while !shared.stopped() && !failure.is_there() {
                    let piece = next.fetch_add(1, Ordering::Relaxed);
                    if piece >= pieces {
                        break;
                    }
                    sink.begin(shared.pieces + piece);
                    let mut watched =
                        Watched { sink: &mut sink, progress: shared, failure: &failure };
                    // A piece that was begun is ended, whatever happens: others may wait for it.
                    let ran = worker.run(piece, &mut watched);
                    let ended = sink.end();
                    match ran {
                        Err(error) => failure.set(error),
                        Ok(flow) if flow.is_break() || ended.is_break() => {
                            // A worker that stops because another one failed has not had enough.
                            if !failure.is_there() {
                                shared.enough.store(true, Ordering::Relaxed);
                            }
                        }
                        Ok(_) => {}
                    }
                    let done = 1 + finished.fetch_add(1, Ordering::Relaxed);
                    let done = (round as f64 + done as f64 / pieces as f64) / rounds as f64;
                    let probes = (tile.probes.len() as f64 * done) as u64;
                    shared.control.done.fetch_max(shared.probes + probes, Ordering::Relaxed);
                }
                shared.candidates.fetch_add(worker.candidates(), Ordering::Relaxed);
                *trace.lock().unwrap_or_else(PoisonError::into_inner) += worker.trace();
            });
            // Where a worker failed, not all pieces were begun.
            progress.pieces += pieces.min(next.into_inner());
            failure.check()?;
        }
        Ok(trace.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    /// Hands on what a device has found in a tile that is complete.
    fn hand_on<'a, S: TileSink>(
        &self,
        step: &Step<'a>,
        stage: Stage,
        crew: Crew,
        progress: &mut Progress<'_>,
        sink: &(impl Fn(&Join<'a>, Part) -> S + Sync),
    ) {
        let (held, rows) = stage.into_held();
        if rows > 0 {
            sink(&step.join, step.part).count(rows);
        }
        // In batches, for as many threads.
        let batches: Vec<&[SetPair]> = held.iter().flat_map(|pairs| pairs.chunks(BATCH)).collect();
        if batches.is_empty() {
            return;
        }
        let next = AtomicUsize::new(0);
        let shared: &Progress<'_> = progress;
        self.broadcast(crew, || {
            let mut sink = sink(&step.join, step.part);
            while !shared.stopped() {
                let batch = next.fetch_add(1, Ordering::Relaxed);
                let Some(pairs) = batches.get(batch) else { break };
                sink.begin(shared.pieces + batch);
                let pushed = sink.push(pairs);
                if sink.end().is_break() || pushed.is_break() {
                    shared.enough.store(true, Ordering::Relaxed);
                }
            }
        });
        progress.pieces += batches.len().min(next.into_inner());
    }
}

/// The first thing that went wrong in any thread.
#[derive(Default)]
struct Failure {
    there: AtomicBool,
    first: Mutex<Option<Error>>,
}

impl Failure {
    fn is_there(&self) -> bool {
        self.there.load(Ordering::Relaxed)
    }

    /// Remembers an error, and tells the other threads.
    fn set(&self, error: Error) {
        let mut first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
        first.get_or_insert(error);
        self.there.store(true, Ordering::Relaxed);
    }

    fn check(self) -> Result<()> {
        let first = self.first.into_inner().unwrap_or_else(PoisonError::into_inner);
        first.map_or(Ok(()), Err)
    }
}

/// The techniques that `auto` chooses from on the CPU.
fn cpu_techniques() -> Vec<Box<dyn Technique>> {
    let all = simjoin_cpu::techniques().into_iter();
    all.filter(|technique| technique.name() != "naive").collect()
}

/// The smallest and the largest size in a range of sets.
fn sizes(sets: &SetCollection, range: &Range<SetId>) -> (u32, u32) {
    if range.is_empty() { (0, 0) } else { (sets.size(range.start), sets.size(range.end - 1)) }
}
