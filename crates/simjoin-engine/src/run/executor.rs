//! How do threads work through a plan?
//!
//! For one tile after the other, every thread makes a worker and a sink and takes the next piece until
//! none is left. Where CPU and devices work at once, each is a lane of its own: the CPU's on the threads
//! of the join, the devices' on a few threads that mostly wait. While many sets are sent to a device, some of
//! the CPU's threads rest: those that send them need the cores.

use super::plan::{ATTENDANTS, Plan, Step, Work, sizes};
use super::queue::{End, Queue, Queued, Taken};
use super::staging::{Stage, StagedSink};
use super::threads::{Attendants, Resting, threads};
use crate::clock::Clock;
use crate::kind::Sets;
use crate::plan::Choice;
use crate::report::{Event, StepReport};
use crate::sets::{Direction, SetTask, Tile, cut, reaches};
use crate::technique::{Budget, DeviceEvent, DeviceTimes, DeviceUnit, Technique};
use rayon::BroadcastContext;
use simjoin_core::{Error, Result, SetId, SetPair, Sink};
use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Instant;

/// Parts of a step of which more pairs were found than can be held, where nothing was done by then; and at most.
const SOME_PARTS: usize = 8;
const MANY_PARTS: usize = 256;

/// Threads that send sets to a device; and tokens that take them long enough for others to rest. With 8 at rest,
/// joins of 90 million tokens took 0.94 to 0.96 of what they took with none, those of 10 million as long (H200 beside
/// 16 cores, 2026-11-17).
const SENDERS: usize = 8;
const MANY_TOKENS: usize = 4 << 20;

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
        // What a device began and the CPU did again counts once.
        let total = self.total.load(Ordering::Relaxed);
        (self.done.load(Ordering::Relaxed).min(total), total)
    }

    /// Begins work of so many parts.
    pub fn begin(&self, total: u64) {
        self.done.store(0, Ordering::Relaxed);
        self.total.store(total, Ordering::Relaxed);
    }

    /// Some parts are done.
    pub fn advance(&self, parts: u64) {
        self.done.fetch_add(parts, Ordering::Relaxed);
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
pub trait TileSink: Sink<SetPair> {
    /// The number of pairs of rows that these stand for, where nothing else is wanted of them.
    fn rows(&self, _pairs: &[SetPair]) -> Option<u64> {
        None
    }
    /// Begins a tile.
    fn begin(&mut self, _tile: usize) {}

    /// Ends it.
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

impl<S: TileSink> Sink<SetPair> for Watched<'_, S> {
    fn wants_value(&self) -> bool {
        self.sink.wants_value()
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

/// Who works on a step.
#[derive(Clone, Copy)]
enum Crew<'t> {
    /// The threads of the pool.
    Pool,
    /// Threads of its own, which mostly wait for a device.
    Own(&'t Attendants),
}

impl Crew<'_> {
    /// Whose time it is: the CPU's, or the devices'.
    fn end(self) -> End {
        match self {
            Crew::Pool => End::Front,
            Crew::Own(_) => End::Back,
        }
    }
}

/// What running a plan has shown.
pub(crate) struct Ran {
    /// Whether it came to its end.
    pub(crate) complete: bool,
    pub(crate) candidates: u64,
    pub(crate) seconds: f64,
    pub(crate) virtual_seconds: Option<f64>,
    pub(crate) steps: Vec<StepReport>,
    pub(crate) warnings: Vec<String>,
    /// Whether CPU and devices worked at once.
    pub(crate) both: bool,
    pub(crate) share: Option<f64>,
    pub(crate) timeline: Vec<Event>,
}

/// What running some steps has shown.
#[derive(Default)]
struct Lane<'a> {
    reports: Vec<StepReport>,
    warnings: Vec<String>,
    /// What is still to be done, by the CPU when it is alone.
    left: Vec<Queued<'a>>,
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
    timeline: &'a Timeline,
    clock: &'a Clock,
    /// Whether CPU and devices work at once.
    both: bool,
    /// Threads of the CPU that rest until a device has its sets.
    resting: Option<Resting>,
    /// Pieces that sinks have been told of.
    pieces: usize,
}

impl Progress<'_> {
    fn stopped(&self) -> bool {
        self.control.stopped() || self.enough.load(Ordering::Relaxed)
    }
}

/// What happened when, if that is wanted.
pub(crate) struct Timeline {
    begin: Instant,
    moments: Option<Mutex<Vec<Event>>>,
}

impl Timeline {
    /// Moments remembered at most.
    const MOST: usize = 500_000;

    pub(crate) fn new(wanted: bool) -> Self {
        Timeline { begin: Instant::now(), moments: wanted.then(Mutex::default) }
    }

    pub(crate) fn add(
        &self,
        row: impl FnOnce() -> String,
        what: &str,
        begin: Instant,
        end: Instant,
    ) {
        let Some(moments) = &self.moments else { return };
        let mut moments = moments.lock().unwrap_or_else(PoisonError::into_inner);
        if moments.len() < Self::MOST {
            moments.push(Event {
                row: row(),
                what: what.to_string(),
                begin: begin.saturating_duration_since(self.begin).as_secs_f64(),
                seconds: end.saturating_duration_since(begin).as_secs_f64(),
            });
        }
    }

    /// Adds a round of a step in virtual time: what it takes to prepare it, about as long as a piece, and then its
    /// pieces, in turn by each of some workers.
    pub(crate) fn add_round(
        &self,
        (begin, seconds): (f64, f64),
        (row, workers): (impl Fn(usize) -> String, usize),
        (technique, on_device): (&str, bool),
        (pieces, ran): (usize, usize),
    ) {
        let Some(moments) = &self.moments else { return };
        let mut moments = moments.lock().unwrap_or_else(PoisonError::into_inner);
        let workers = workers.clamp(1, pieces.max(1));
        let each = seconds / (1 + pieces.div_ceil(workers)) as f64;
        let mut add = |row: String, what: &str, slot: usize| {
            if moments.len() < Self::MOST {
                let begin = begin + slot as f64 * each;
                moments.push(Event { row, what: what.into(), begin, seconds: each });
            }
        };
        add(row(0), "prepare", 0);
        for piece in 0..ran {
            let slot = 1 + piece / workers;
            add(row(piece % workers), technique, slot);
            if on_device {
                add("GPU stream 0".into(), "filter and verify", slot);
            }
        }
    }

    /// Adds something that was done in virtual time.
    pub(crate) fn add_virtual(&self, row: impl FnOnce() -> String, what: &str, span: (f64, f64)) {
        let Some(moments) = &self.moments else { return };
        let (begin, seconds) = span;
        let mut moments = moments.lock().unwrap_or_else(PoisonError::into_inner);
        moments.push(Event { row: row(), what: what.into(), begin, seconds });
    }

    fn add_all(&self, worker: usize, spans: Vec<DeviceEvent>) {
        for DeviceEvent { by, what, begin, end } in spans {
            let row = || match by {
                DeviceUnit::Copies => format!("GPU copies {worker}"),
                DeviceUnit::Stream => format!("GPU stream {worker}"),
            };
            self.add(row, what, begin, end);
        }
    }

    pub(crate) fn into_moments(self) -> Vec<Event> {
        let moments = self.moments.map(Mutex::into_inner);
        moments.map(|found| found.unwrap_or_else(PoisonError::into_inner)).unwrap_or_default()
    }
}

/// The row of a timeline for a thread of the pool.
pub(crate) fn thread_row(worker: usize) -> String {
    format!("CPU thread {}", rayon::current_thread_index().unwrap_or(worker))
}

/// The row of a timeline for a thread of the host.
fn host_row(crew: Crew<'_>, worker: usize) -> String {
    match crew {
        Crew::Pool => thread_row(worker),
        Crew::Own(_) => format!("GPU attendant {worker}"),
    }
}

impl Plan {
    /// Runs `work` on every thread of a crew at once.
    fn broadcast(&self, crew: Crew<'_>, work: impl Fn() + Sync) {
        if self.threads() == 1 && matches!(crew, Crew::Pool) {
            return work();
        }
        let work = |_: BroadcastContext<'_>| work();
        if let Crew::Own(attendants) = crew {
            return drop(attendants.broadcast(work));
        }
        match &self.pool {
            Some(pool) => drop(pool.broadcast(work)),
            None => drop(rayon::broadcast(work)),
        }
    }

    /// How many threads of the CPU rest while sets are sent to a device for its first step: where all cores work,
    /// those that send them wait for one, and the device for them. To a simulated device nothing is sent.
    fn senders(&self, step: Option<&Step<'_>>) -> usize {
        static CORES: OnceLock<usize> = OnceLock::new();
        let much = |step: &Step<'_>| step.choice.tile.tokens(&step.join) > MANY_TOKENS;
        let senders = match step {
            Some(step) if much(step) && self.machine.simulated().is_none() => SENDERS,
            _ => return 0,
        };
        // Asking takes as long as some joins.
        let cores = *CORES.get_or_init(|| threads(None).unwrap_or(1));
        let spare = cores.saturating_sub(self.threads());
        senders.saturating_sub(spare).min(self.threads() / 2)
    }

    /// Runs `work` where a crew does.
    fn install_for<T: Send>(&self, crew: Crew<'_>, work: impl FnOnce() -> T + Send) -> T {
        if matches!(crew, Crew::Own(_)) { work() } else { self.install(work) }
    }

    /// Runs everything. `sink` makes the sink of one thread for one part.
    pub(crate) fn run<'a, S: TileSink>(
        &self,
        work: Work<'a>,
        control: &Control,
        sink: impl Fn(&SetTask<'a>, Direction) -> S + Sync,
    ) -> Result<Ran> {
        let sink = &sink;
        let Work { cpu, device, both, rest, share } = work;
        // Progress is counted in probes; what is left for later is told when it is taken.
        let probes_of = |steps: &[Step<'_>]| -> u64 {
            steps.iter().map(|step| step.choice.tile.probes.len() as u64).sum()
        };
        control.done.store(0, Ordering::Relaxed);
        control.total.store(probes_of(&cpu) + probes_of(&device), Ordering::Relaxed);
        let (enough, candidates) = (AtomicBool::new(false), AtomicU64::new(0));
        let (timeline, clock) = (Timeline::new(self.timeline), self.clock());
        let mut progress = Progress {
            control,
            enough: &enough,
            candidates: &candidates,
            timeline: &timeline,
            clock: &clock,
            both,
            resting: None,
            pieces: 0,
        };
        let mut lane = Lane::default();
        if both {
            let resting = Some(Resting::new(self.senders(device.first()), self.pool.as_ref()));
            // They wake up whatever becomes of the device.
            let mut beside = Progress { resting, ..progress };
            // Where one side fails, the other need not go on.
            let end_both = |_: &Error| enough.store(true, Ordering::Relaxed);
            let rest = rest.as_ref();
            let attendants = Attendants::take(ATTENDANTS)?;
            let mut on_device = Ok(Lane::default());
            let on_cpu = attendants.in_place_scope(|scope| {
                let (on_device, attendants) = (&mut on_device, &attendants);
                scope.spawn(move |_| {
                    let crew = Crew::Own(attendants);
                    let ran = self.run_side(device, rest, End::Back, crew, &mut beside, sink);
                    drop(beside);
                    *on_device = ran.inspect_err(end_both);
                });
                let ran = self.run_side(cpu, rest, End::Front, Crew::Pool, &mut progress, sink);
                ran.inspect_err(end_both)
            });
            let device = on_device?;
            lane.add(on_cpu?);
            lane.add(device);
            // What a device that failed did not take any more.
            if let Some(rest) = rest {
                clock.alone(End::Front as usize);
                lane.add(self.run_side(
                    Vec::new(),
                    Some(rest),
                    End::Front,
                    Crew::Pool,
                    &mut progress,
                    sink,
                )?);
            }
        } else {
            clock.alone(End::Front as usize);
            let steps = cpu.into_iter().chain(device).collect();
            lane.add(self.run_lane(steps, Crew::Pool, &mut progress, sink)?);
        }
        // What is left is the CPU's, which has all the memory now.
        if !lane.left.is_empty() && !progress.stopped() {
            progress.both = false;
            clock.alone(End::Front as usize);
            let left = self.steps(std::mem::take(&mut lane.left), true, false)?;
            lane.add(self.run_lane(left, Crew::Pool, &mut progress, sink)?);
        }
        let complete = !progress.stopped();
        let Lane { reports, warnings, .. } = lane;
        let seconds = timeline.begin.elapsed().as_secs_f64();
        Ok(Ran {
            complete,
            candidates: candidates.into_inner(),
            seconds,
            virtual_seconds: clock.virtual_seconds(),
            steps: reports,
            warnings,
            both,
            share,
            timeline: timeline.into_moments(),
        })
    }

    /// Does what one side was given, and then what it can get of the rest, until none is left or a device
    /// fails.
    fn run_side<'a, S: TileSink>(
        &self,
        steps: Vec<Step<'a>>,
        rest: Option<&Queue<'a>>,
        end: End,
        crew: Crew<'_>,
        progress: &mut Progress<'_>,
        sink: &(impl Fn(&SetTask<'a>, Direction) -> S + Sync),
    ) -> Result<Lane<'a>> {
        let on_cpu = end == End::Front;
        let clock = progress.clock;
        let _ending = clock.ending(end as usize);
        let Some(rest) = rest else { return self.run_lane(steps, crew, progress, sink) };
        let mut lane = Lane::default();
        // The rest lies after what the CPU was given, and before what a device was.
        let nearest = if on_cpu { steps.last() } else { steps.first() };
        let technique = nearest.map(|step| step.choice.technique);
        let mut next = (!steps.is_empty()).then_some(steps);
        let mut now = clock.turn(end as usize);
        loop {
            let steps = match next.take() {
                Some(first) => {
                    rest.begin(end, rest.outside(end), now);
                    first
                }
                None => {
                    let Some(Taken { tiles, work, technique: best }) = rest.take(end, now) else {
                        break;
                    };
                    rest.begin(end, work, now);
                    let steps = self.steps_beside(tiles.clone(), on_cpu, best.or(technique));
                    // What does not fit beside the other side fits the CPU alone.
                    if let Err(Error::Memory { .. }) = steps {
                        lane.left.extend(tiles);
                        rest.end(end);
                        break;
                    }
                    let steps = steps?;
                    let probes = |step: &Step<'_>| step.choice.tile.probes.len() as u64;
                    let more: u64 = steps.iter().map(probes).sum();
                    progress.control.total.fetch_add(more, Ordering::Relaxed);
                    steps
                }
            };
            lane.add(self.run_lane(steps, crew, progress, sink)?);
            now = clock.turn(end as usize);
            rest.done(end, now);
            // A device that has failed once takes nothing more.
            if !lane.left.is_empty() || progress.stopped() {
                rest.end(end);
                break;
            }
        }
        Ok(lane)
    }

    /// Runs steps one after the other. Those that a device has failed to do are left, for the CPU.
    fn run_lane<'a, S: TileSink>(
        &self,
        steps: Vec<Step<'a>>,
        crew: Crew<'_>,
        progress: &mut Progress<'_>,
        sink: &(impl Fn(&SetTask<'a>, Direction) -> S + Sync),
    ) -> Result<Lane<'a>> {
        let mut lane = Lane::default();
        let clock = progress.clock;
        // In virtual time, it is known beforehand what each step takes.
        let expected: Vec<f64> = match clock.is_virtual() {
            true => steps.iter().map(|step| self.virtual_seconds(step)).collect(),
            false => vec![0.0; steps.len()],
        };
        let mut now = clock.busy(crew.end() as usize, expected.iter().sum());
        let mut waiting: VecDeque<_> = steps.into_iter().zip(expected).collect();
        while let Some((step, expected)) = waiting.pop_front() {
            if progress.stopped() {
                break;
            }
            let technique = &*self.techniques(step.on_cpu)[step.choice.technique];
            let alone = step.choice.tile.probes.len() <= 1;
            let stage = technique.on_device().then(|| Stage::within(self.limits.memory, alone));
            let begin = Instant::now();
            let span = clock.is_virtual().then_some((now, expected));
            let ran = self.run_step((&step, span), technique, crew, stage.as_ref(), progress, sink);
            // What a device began and did not end is done again.
            let again = match &stage {
                Some(stage) if ran.is_err() => stage.done.load(Ordering::Relaxed),
                _ => 0,
            };
            progress.control.done.fetch_sub(again, Ordering::Relaxed);
            let trace = match ran {
                Ok(trace) => trace,
                Err(_) if stage.as_ref().is_some_and(Stage::is_full) => {
                    let parts = parts_of(step, again);
                    let each = expected / parts.len().max(1) as f64;
                    for part in parts.into_iter().rev() {
                        waiting.push_front((part, each));
                    }
                    continue;
                }
                // Whatever is wrong with the device, nothing of the tile has gone on, so the CPU can do it.
                Err(why) if stage.as_ref().is_some_and(|s| !s.is_open()) => {
                    let warning = format!("{why}; the CPU did its work");
                    if !lane.warnings.contains(&warning) {
                        lane.warnings.push(warning);
                    }
                    lane.left.push((step.join, step.part, step.choice.tile));
                    now += expected;
                    continue;
                }
                Err(error) => return Err(error),
            };
            if let Some(stage) = stage {
                self.hand_on(&step, stage, crew, progress, sink);
            }
            let Step { join, choice, .. } = &step;
            let (begin, seconds, trace) = match span {
                None => {
                    let since = begin.saturating_duration_since(progress.timeline.begin);
                    (since.as_secs_f64(), begin.elapsed().as_secs_f64(), trace)
                }
                Some((begin, seconds)) if technique.on_device() => {
                    (begin, seconds, DeviceTimes { filter: seconds, waited: seconds, ..trace })
                }
                Some((begin, seconds)) => (begin, seconds, trace),
            };
            now += expected;
            lane.reports.push(StepReport {
                technique: technique.name(),
                variant: technique.variant(),
                on_device: technique.on_device(),
                probes: sizes(join.probe, &choice.tile.probes),
                pairs: choice.pairs,
                tokens: join.probe.tokens_in(&choice.tile.probes) as u64,
                estimated: choice.seconds(),
                begin,
                seconds,
                trace,
            });
        }
        Ok(lane)
    }

    /// Runs one step, by all threads; in virtual time it has a begin and a duration.
    fn run_step<'a, S: TileSink>(
        &self,
        (step, span): (&Step<'a>, Option<(f64, f64)>),
        technique: &dyn Technique<Sets>,
        crew: Crew<'_>,
        stage: Option<&Stage>,
        progress: &mut Progress<'_>,
        sink: &(impl Fn(&SetTask<'a>, Direction) -> S + Sync),
    ) -> Result<DeviceTimes> {
        let Step { join, part, choice, .. } = step;
        let tile = &choice.tile;
        let bytes = self.memory(progress.both);
        let room = Budget {
            piece_tokens: self.limits.tile_tokens,
            bytes,
            device_bytes: self.limits.device_memory,
            threads: match crew {
                Crew::Own(threads) if bytes != u64::MAX => threads.current_num_threads(),
                // Sets are sent by as many: a device waits for them, beside the CPU too.
                Crew::Own(_) => SENDERS.min(self.threads()),
                Crew::Pool => self.threads(),
            },
            patient: matches!(crew, Crew::Own(_)),
            events: self.timeline,
        };
        // Of many threads, leave some to those that attend to devices.
        let most = match crew {
            Crew::Pool if progress.both => self.threads() - self.threads() / 6,
            _ => usize::MAX,
        };
        let trace = Mutex::new(DeviceTimes::default());
        let timeline = progress.timeline;
        let begin = Instant::now();
        let mut prepared = self.install_for(crew, || technique.prepare(join, tile, &room))?;
        // A device has its sets.
        progress.resting = None;
        let rounds = prepared.rounds();
        for round in 0..rounds {
            self.install_for(crew, || prepared.begin(round))?;
            if span.is_none() {
                timeline.add(|| host_row(crew, 0), "prepare", begin, Instant::now());
            }
            timeline.add_all(0, prepared.events());
            let pieces = prepared.pieces();
            let next = AtomicUsize::new(0);
            let finished = AtomicUsize::new(0);
            let workers = AtomicUsize::new(0);
            let failure = Failure::default();
            let shared: &Progress<'_> = progress;
            self.broadcast(crew, || {
                let number = workers.fetch_add(1, Ordering::Relaxed);
                if number >= most.min(prepared.workers()) {
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
                    let begin = Instant::now();
                    // A piece that was begun is ended, whatever happens: others may wait for it.
                    let ran = worker.run(piece, &mut watched);
                    let ended = sink.end();
                    let row = || host_row(crew, number);
                    if span.is_none() {
                        timeline.add(row, technique.name(), begin, Instant::now());
                    }
                    match ran {
                        Err(error) => failure.set(error),
                        Ok(flow) if flow.is_break() || ended.is_break() => {
                            // A worker that stops because another one failed has not had enough, nor one
                            // whose stage is full.
                            if stage.is_some_and(Stage::is_full) {
                                failure.set(Error::Unavailable("too many pairs to hold".into()));
                            } else if !failure.is_there() {
                                shared.enough.store(true, Ordering::Relaxed);
                            }
                        }
                        Ok(_) => {}
                    }
                    let done = finished.fetch_add(1, Ordering::Relaxed);
                    let mark = |done: usize| {
                        let done = (round as f64 + done as f64 / pieces as f64) / rounds as f64;
                        (tile.probes.len() as f64 * done) as u64
                    };
                    let more = mark(done + 1) - mark(done);
                    shared.control.done.fetch_add(more, Ordering::Relaxed);
                    if let Some(stage) = stage {
                        stage.done.fetch_add(more, Ordering::Relaxed);
                    }
                }
                shared.candidates.fetch_add(worker.candidates(), Ordering::Relaxed);
                timeline.add_all(number, worker.events());
                *trace.lock().unwrap_or_else(PoisonError::into_inner) += worker.times();
            });
            // Where a worker failed, not all pieces were begun.
            let begun = pieces.min(next.into_inner());
            progress.pieces += begun;
            if let Some((begin, seconds)) = span {
                let each = seconds / rounds as f64;
                let round = (begin + round as f64 * each, each);
                let row = |worker: usize| match crew {
                    Crew::Pool => format!("CPU thread {worker}"),
                    Crew::Own(_) => host_row(crew, worker),
                };
                let workers = match crew {
                    Crew::Pool => self.threads().min(prepared.workers()),
                    Crew::Own(_) => prepared.workers(),
                };
                let what = (technique.name(), technique.on_device());
                timeline.add_round(round, (row, workers), what, (pieces, begun));
            }
            failure.check()?;
        }
        Ok(trace.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    /// Hands on what a device has found in a tile that is complete.
    fn hand_on<'a, S: TileSink>(
        &self,
        step: &Step<'a>,
        stage: Stage,
        crew: Crew<'_>,
        progress: &mut Progress<'_>,
        sink: &(impl Fn(&SetTask<'a>, Direction) -> S + Sync),
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

/// Cuts a step of which more pairs were found than can be held, when about so many of its probes were done.
/// There are at least two probes.
fn parts_of(step: Step<'_>, done: u64) -> Vec<Step<'_>> {
    let Step { join, part, choice, on_cpu } = step;
    let Tile { probes, builds } = choice.tile;
    // Half of what can be held, if the rest is like that.
    let parts = match done {
        0 => SOME_PARTS,
        done => (2 * probes.len()).div_ceil(done as usize).clamp(2, MANY_PARTS),
    };
    let each = probes.len().div_ceil(parts);
    let tiles = probes.clone().step_by(each).flat_map(|start| {
        let probes = start..probes.end.min(start.saturating_add(each as SetId));
        // At once, with the build sets that they may meet.
        cut(&join, &Tile { probes, builds: builds.clone() }, usize::MAX)
    });
    let of_tile = |tile: Tile| {
        // What a part takes was not estimated.
        let considered = vec![None; choice.considered.len()];
        let pairs = reaches(&join, &tile).iter().map(|reach| reach.pairs).sum();
        let choice = Choice { tile, technique: choice.technique, considered, pairs };
        Step { join, part, choice, on_cpu }
    };
    tiles.map(of_tile).collect()
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

/// Returns the warning about a device that failed and whose work the CPU did.
pub fn did_its_work(why: &Error) -> String {
    format!("{why}; the CPU did its work")
}
