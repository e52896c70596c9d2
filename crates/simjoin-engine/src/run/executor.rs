//! How do threads work through a plan?
//!
//! A plan is a list of assignments. For one assignment after the other, every thread makes a worker and a sink and takes
//! the next piece until none is left. CPU and devices that share a join take chunks of it from a queue: the CPU works on
//! the threads of the join, and a few threads that mostly wait attend to the devices.
//!
//! At the end, the CPU does the work of a device that failed.

use super::queue::Queue;
use super::staging::{Stage, StagedSink};
use super::threads::attendants;
use super::timeline::{Timeline, worker_row};
use crate::answer::{Answer, AnswerSink};
use crate::clock::Clock;
use crate::control::{Control, Failure};
use crate::kind::{Direction, Kind};
use crate::plan::{Assignment, Assignments, Decided, Mode, Part, Planned, Setup, technique_for};
use crate::processor::{PerProcessor, Processor};
use crate::report::{Event, StepReport, did_its_work};
use crate::technique::{Budget, DeviceTimes, Prepared, Technique};
use crate::tuning::Tuning;
use parking_lot::Mutex;
use rayon::{BroadcastContext, ThreadPool};
use simjoin_core::{Error, Result, Sink};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

/// The number of parts into which an assignment with too many pairs to hold is cut: if none of it was done, and at most.
const SOME_PARTS: usize = 8;
const MANY_PARTS: usize = 256;

/// The number of a device's pairs that are handed on at a time.
const BATCH: usize = 1 << 16;

/// The result of running a plan.
pub(crate) struct Ran {
    /// Whether it came to its end.
    pub(crate) complete: bool,
    pub(crate) candidates: u64,
    pub(crate) seconds: f64,
    pub(crate) virtual_seconds: Option<f64>,
    pub(crate) steps: Vec<StepReport>,
    pub(crate) warnings: Vec<String>,
    pub(crate) timeline: Vec<Event>,
}

/// Which threads work on an assignment.
#[derive(Clone, Copy)]
enum Threads<'t> {
    /// Those of the join.
    Pool,
    /// Threads of their own, which mostly wait for a device.
    Attendants(&'t ThreadPool),
}

/// The state of one processor at work.
struct ProcessorState<'t, 'a, K: Kind> {
    /// The processor whose clock advances.
    processor: Processor,
    /// The last preparation, which may serve the next assignment too.
    kept: Option<KeptPrepared<'a, K>>,
    threads: Threads<'t>,
    /// Whether the other processor works at the same time.
    both_work: bool,
    /// The technique that the plan of the whole join has for the current chunk. It is worth preparing the whole join for
    /// it, because later chunks probably use it too.
    usual: Option<usize>,
    /// The number of pieces announced to sinks.
    pieces: usize,
}

impl<K: Kind> ProcessorState<'_, '_, K> {
    /// One processor alone, on the threads of the join.
    fn alone() -> Self {
        ProcessorState {
            processor: Processor::Cpu,
            kept: None,
            threads: Threads::Pool,
            both_work: false,
            usual: None,
            pieces: 0,
        }
    }
}

/// The preparation of a technique for a direction of a join.
struct KeptPrepared<'a, K: Kind> {
    technique: (Processor, usize),
    direction: Direction,
    prepared: Box<dyn Prepared<K> + 'a>,
}

/// The work that a processor did.
struct Done<'a, K: Kind> {
    reports: Vec<StepReport>,
    warnings: Vec<String>,
    /// The parts that it failed to do.
    left: Vec<Part<'a, K>>,
}

impl<K: Kind> Default for Done<'_, K> {
    fn default() -> Self {
        Done { reports: Vec::new(), warnings: Vec::new(), left: Vec::new() }
    }
}

impl<K: Kind> Done<'_, K> {
    fn add(&mut self, other: Self) {
        self.reports.extend(other.reports);
        for warning in other.warnings {
            self.warn(warning);
        }
        self.left.extend(other.left);
    }

    fn warn(&mut self, warning: String) {
        if !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }
}

/// How an assignment ended.
enum Outcome {
    /// All of it was done: a description of the preparation, and the times of a device.
    Complete(Decided, DeviceTimes),
    /// More pairs were found than may be held.
    TooManyPairs,
}

/// A run of a plan.
pub(crate) struct Executor<'r, K: Planned, A> {
    setup: &'r Setup<K>,
    answer: &'r A,
    control: &'r Control,
    /// Nothing more is wanted.
    enough: AtomicBool,
    candidates: AtomicU64,
    timeline: Timeline,
    clock: Clock,
}

impl<'r, K: Planned, A: Answer<K>> Executor<'r, K, A> {
    pub(crate) fn new(setup: &'r Setup<K>, answer: &'r A, control: &'r Control) -> Self {
        Executor {
            setup,
            answer,
            control,
            enough: AtomicBool::new(false),
            candidates: AtomicU64::new(0),
            timeline: Timeline::new(setup.timeline),
            clock: setup.machine.clock(2),
        }
    }

    fn stopped(&self) -> bool {
        self.control.stopped() || self.enough.load(Ordering::Relaxed)
    }

    /// Runs everything.
    pub(crate) fn run(self, work: &Assignments<'_, K>) -> Result<Ran> {
        let mut done = Done::default();
        done.warnings.extend(work.warning.clone());
        let mut alone = ProcessorState::alone();
        // Progress is counted in probes. Of a shared join, each processor has a plan for all of them.
        let others = if work.shared.is_some() { &[][..] } else { &work.of.device };
        let all = work.of.cpu.iter().chain(others);
        self.control.begin(all.map(|one| one.work.probes.len() as u64).sum());
        if let Some((axis, size)) = &work.shared {
            let queue = Queue::new(axis.clone(), size.clone());
            done.add(self.run_both(&work.of, &queue)?);
            // A device that failed may have left some of the queue.
            done.left.extend(queue.rest());
        } else {
            self.clock.alone(Processor::Cpu as usize);
            let all: Vec<_> = work.of.cpu.iter().chain(&work.of.device).cloned().collect();
            done.add(self.run_assignments(all, &mut alone)?);
        }
        // The CPU has all the memory now.
        if !done.left.is_empty() && !self.stopped() {
            self.clock.alone(Processor::Cpu as usize);
            let left = std::mem::take(&mut done.left);
            let assign = || K::assign(self.setup, left, Processor::Cpu, None, false);
            done.add(self.run_assignments(self.setup.install(assign)?, &mut alone)?);
        }
        Ok(Ran {
            complete: !self.stopped(),
            candidates: self.candidates.into_inner(),
            seconds: self.timeline.begin.elapsed().as_secs_f64(),
            virtual_seconds: self.clock.virtual_seconds(),
            steps: done.reports,
            warnings: done.warnings,
            timeline: self.timeline.into_events(),
        })
    }

    /// Lets both processors work at the same time, until the queue is empty.
    fn run_both<'a>(
        &self,
        of: &PerProcessor<Vec<Assignment<'a, K>>>,
        queue: &Queue<'a, K>,
    ) -> Result<Done<'a, K>> {
        // If one processor fails, the other one stops.
        let end_both = |_: &Error| self.enough.store(true, Ordering::Relaxed);
        let attendants = attendants(Tuning::ATTENDANTS)?;
        let mut on_device = Ok(Done::default());
        let on_cpu = attendants.in_place_scope(|scope| {
            let (on_device, attendants) = (&mut on_device, &attendants);
            scope.spawn(move |_| {
                let mut state = ProcessorState {
                    processor: Processor::Device,
                    threads: Threads::Attendants(attendants),
                    both_work: true,
                    ..ProcessorState::alone()
                };
                *on_device = self.run_chunks(&of.device, queue, &mut state).inspect_err(end_both);
            });
            let mut state = ProcessorState { both_work: true, ..ProcessorState::alone() };
            self.run_chunks(&of.cpu, queue, &mut state).inspect_err(end_both)
        });
        let device = on_device?;
        let mut done = on_cpu?;
        done.add(device);
        Ok(done)
    }

    /// Does chunks of the queue until there is none for this processor, or it fails. `whole` is how it would do the
    /// whole join.
    fn run_chunks<'a>(
        &self,
        whole: &[Assignment<'a, K>],
        queue: &Queue<'a, K>,
        state: &mut ProcessorState<'_, 'a, K>,
    ) -> Result<Done<'a, K>> {
        let processor = state.processor;
        let _ending = self.clock.ending(processor as usize);
        let mut done = Done::default();
        let mut now = self.clock.turn(processor as usize);
        let assign_part = |part: Part<'a, K>| {
            // A device has few techniques, and which one is best differs much between chunks.
            let technique = match processor {
                Processor::Cpu => technique_for(whole, &part),
                Processor::Device => None,
            };
            let assigned = K::assign(self.setup, vec![part.clone()], processor, technique, true);
            (part, assigned)
        };
        let assign = |parts: Vec<Part<'a, K>>| parts.into_iter().map(assign_part).collect();
        let estimate = |chunk: &Vec<(_, Result<Vec<Assignment<'a, K>>>)>| {
            let all = chunk.iter().filter_map(|(_, assigned)| assigned.as_ref().ok()).flatten();
            all.map(|one| one.seconds().unwrap_or_else(|| K::glance(self.setup, one))).sum()
        };
        while let Some(chunk) = queue.take(processor, now, assign, estimate) {
            for (part, assigned) in chunk {
                state.usual = technique_for(whole, &part);
                match assigned {
                    Ok(assignments) => done.add(self.run_assignments(assignments, state)?),
                    // What does not fit while the other processor works is done after that has finished.
                    Err(Error::Memory { .. }) => done.left.push(part),
                    Err(error) => return Err(error),
                }
            }
            now = self.clock.turn(processor as usize);
            queue.done(processor, now);
            // A device that has failed once takes nothing more.
            if !done.left.is_empty() || self.stopped() {
                queue.end(processor);
                break;
            }
        }
        Ok(done)
    }

    /// Runs assignments one after the other. Those that a device has failed to do are left, for the CPU.
    fn run_assignments<'a>(
        &self,
        assignments: Vec<Assignment<'a, K>>,
        state: &mut ProcessorState<'_, 'a, K>,
    ) -> Result<Done<'a, K>> {
        let mut done = Done::default();
        // In virtual time, the duration of each assignment is known beforehand.
        let seconds = |one: &Assignment<'a, K>| match self.clock.is_virtual() {
            true => self.setup.virtual_seconds(one),
            false => 0.0,
        };
        let mut waiting: VecDeque<_> =
            assignments.into_iter().map(|one| (seconds(&one), one)).collect();
        let all = waiting.iter().map(|(seconds, _)| seconds).sum();
        let mut now = self.clock.busy(state.processor as usize, all);
        while let Some((seconds, assignment)) = waiting.pop_front() {
            if self.stopped() {
                break;
            }
            let technique = self.setup.technique(&assignment);
            let stage = (assignment.processor == Processor::Device).then(|| {
                let cuts = || K::cut(&assignment.task, &assignment.range, 2).len() > 1;
                Stage::within(self.setup.limits.memory, !(technique.joins_any_range() && cuts()))
            });
            let begin = Instant::now();
            let span = self.clock.is_virtual().then_some((now, seconds));
            let ran = self.run_one(&assignment, technique, span, stage.as_ref(), state);
            match (ran, stage) {
                (Ok(Outcome::TooManyPairs), Some(stage)) => {
                    let again = stage.done.load(Ordering::Relaxed);
                    self.control.retreat(again);
                    let parts = assignment.cut(parts_for(&assignment, again));
                    let each = seconds / parts.len().max(1) as f64;
                    parts.into_iter().rev().for_each(|part| waiting.push_front((each, part)));
                    continue;
                }
                (Ok(Outcome::TooManyPairs), None) => {}
                (Ok(Outcome::Complete(decided, times)), stage) => {
                    if let Some(stage) = stage {
                        self.commit(&assignment, stage, state);
                    }
                    let (begin, seconds, times) = match span {
                        None => {
                            let since = begin.saturating_duration_since(self.timeline.begin);
                            (since.as_secs_f64(), begin.elapsed().as_secs_f64(), times)
                        }
                        Some((begin, seconds)) if assignment.processor == Processor::Device => (
                            begin,
                            seconds,
                            DeviceTimes { filter: seconds, waited: seconds, ..times },
                        ),
                        Some((begin, seconds)) => (begin, seconds, times),
                    };
                    let span = (begin, seconds);
                    done.reports.push(assignment.report(technique, decided, span, times));
                }
                // Whatever is wrong with the device, nothing of the range has gone on, so the CPU can do it.
                (Err(why), Some(stage)) if !stage.is_open() && self.replaces(&why) => {
                    self.control.retreat(stage.done.load(Ordering::Relaxed));
                    done.warn(did_its_work(&why));
                    done.left.push(assignment.part());
                }
                (Err(error), _) => return Err(error),
            }
            now += seconds;
        }
        Ok(done)
    }

    /// Returns whether the CPU does the work of a device that failed like this. A user who asked for devices alone, and
    /// gave them too little memory, is told.
    fn replaces(&self, why: &Error) -> bool {
        let alone = self.setup.mode == Mode::Only(Processor::Device);
        !(alone && matches!(why, Error::Memory { .. }))
    }

    /// Runs one assignment, by all threads; in virtual time it has a begin and a duration.
    fn run_one<'a>(
        &self,
        assignment: &Assignment<'a, K>,
        technique: &dyn Technique<K>,
        span: Option<(f64, f64)>,
        stage: Option<&Stage<K::Pair>>,
        state: &mut ProcessorState<'_, 'a, K>,
    ) -> Result<Outcome> {
        let times = Mutex::new(DeviceTimes::default());
        let mut begin = Instant::now();
        let mut prepared = self.prepare(assignment, technique, state)?;
        let rounds = prepared.rounds();
        for round in 0..rounds {
            if round > 0 {
                begin = Instant::now();
            }
            self.install_for(state.threads, || prepared.begin(round))?;
            if span.is_none() {
                let row = || row(assignment.processor, 0);
                self.timeline.add(row, "prepare", begin, Instant::now());
            }
            self.timeline.add_device(0, prepared.events());
            let current = Round {
                assignment,
                technique: technique.name(),
                prepared: &*prepared,
                pieces: prepared.pieces(),
                number: (round, rounds),
                first: state.pieces,
                shown: span.is_none(),
                next: AtomicUsize::new(0),
                finished: AtomicUsize::new(0),
                workers: AtomicUsize::new(0),
                failure: Failure::default(),
                times: &times,
                stage,
            };
            // Of many threads, leave some to those that attend to devices.
            let most = match state.threads {
                Threads::Pool if state.both_work => self.setup.threads - self.setup.threads / 6,
                _ => usize::MAX,
            };
            let most = most.min(prepared.workers());
            self.broadcast(state.threads, || self.work(&current, most));
            let Round { pieces, next, failure, .. } = current;
            // Where a worker failed, not all pieces were begun.
            let begun = pieces.min(next.into_inner());
            state.pieces += begun;
            if let Some((begin, seconds)) = span {
                let each = seconds / rounds as f64;
                let workers = match state.threads {
                    Threads::Pool => self.setup.threads.min(prepared.workers()),
                    Threads::Attendants(_) => prepared.workers(),
                };
                self.timeline.add_round(
                    (begin + round as f64 * each, each),
                    (assignment.processor, workers),
                    technique.name(),
                    (pieces, begun),
                );
            }
            failure.check()?;
            if stage.is_some_and(Stage::is_full) {
                return Ok(Outcome::TooManyPairs);
            }
        }
        let decided = Decided { details: prepared.details(), figures: prepared.figures() };
        let technique = (assignment.processor, assignment.technique);
        state.kept = Some(KeptPrepared { technique, direction: assignment.direction, prepared });
        Ok(Outcome::Complete(decided, times.into_inner()))
    }

    /// Prepares an assignment, or continues with the preparation of the previous one.
    fn prepare<'a>(
        &self,
        assignment: &Assignment<'a, K>,
        technique: &dyn Technique<K>,
        state: &mut ProcessorState<'_, 'a, K>,
    ) -> Result<Box<dyn Prepared<K> + 'a>> {
        let Assignment { task, direction, range, processor, .. } = assignment;
        let of_same = (*processor, assignment.technique);
        let kept = state.kept.take();
        let same = kept.filter(|kept| kept.technique == of_same && kept.direction == *direction);
        if let Some(mut kept) = same
            && kept.prepared.go_on(range)
        {
            return Ok(kept.prepared);
        }
        let budget = self.budget(state);
        let whole = K::whole(task);
        let keeps = state.usual == Some(assignment.technique)
            && technique.goes_on()
            && technique.device_at_most(task, &whole, budget.threads) <= budget.device_bytes
            && technique.memory_at_most(task, &whole, budget.threads) <= budget.bytes;
        if keeps {
            let mut prepared =
                self.install_for(state.threads, || technique.prepare(task, &whole, &budget))?;
            if prepared.go_on(range) {
                return Ok(prepared);
            }
        }
        self.install_for(state.threads, || technique.prepare(task, range, &budget))
    }

    /// Takes pieces of a round until none is left, as one worker of at most `most`.
    fn work(&self, round: &Round<'_, '_, K>, most: usize) {
        let number = round.workers.fetch_add(1, Ordering::Relaxed);
        if number >= most {
            return;
        }
        let mut worker = match round.prepared.worker() {
            Ok(worker) => worker,
            Err(error) => return round.failure.set(error),
        };
        let Assignment { task, direction, .. } = round.assignment;
        let stopped = || self.stopped() || round.failure.is_there();
        let mut sink = StagedSink::new(self.answer.sink(task, *direction), round.stage, stopped);
        let full = || round.stage.is_some_and(Stage::is_full);
        while !stopped() && !full() {
            let piece = round.next.fetch_add(1, Ordering::Relaxed);
            if piece >= round.pieces {
                break;
            }
            sink.sink.begin(round.first + piece);
            let begin = Instant::now();
            // A piece that was begun is ended, whatever happens: others may wait for it.
            let ran = worker.run(piece, &mut sink);
            let ended = sink.sink.end();
            if round.shown {
                let row = || row(round.assignment.processor, number);
                self.timeline.add(row, round.technique, begin, Instant::now());
            }
            match ran {
                Err(error) => round.failure.set(error),
                // A worker that stops because another one failed, or for lack of room, has not had enough.
                Ok(flow) if flow.is_break() || ended.is_break() => {
                    if !full() && !round.failure.is_there() {
                        self.enough.store(true, Ordering::Relaxed);
                    }
                }
                Ok(_) => {}
            }
            let more = round.finish_piece();
            self.control.advance(more);
            if let Some(stage) = round.stage {
                stage.done.fetch_add(more, Ordering::Relaxed);
            }
        }
        sink.finish();
        self.candidates.fetch_add(worker.candidates(), Ordering::Relaxed);
        self.timeline.add_device(number, worker.events());
        *round.times.lock() += worker.times();
    }

    /// Hands on the pairs that a device found in a complete range.
    fn commit(
        &self,
        assignment: &Assignment<'_, K>,
        stage: Stage<K::Pair>,
        state: &mut ProcessorState<'_, '_, K>,
    ) {
        let (held, rows) = stage.commit();
        let make = || self.answer.sink(&assignment.task, assignment.direction);
        if rows > 0 {
            make().count(rows);
        }
        let batches: Vec<&[K::Pair]> = held.iter().flat_map(|pairs| pairs.chunks(BATCH)).collect();
        if batches.is_empty() {
            return;
        }
        let next = AtomicUsize::new(0);
        let first = state.pieces;
        self.broadcast(state.threads, || {
            let mut sink = make();
            while !self.stopped() {
                let batch = next.fetch_add(1, Ordering::Relaxed);
                let Some(pairs) = batches.get(batch) else { break };
                sink.begin(first + batch);
                let pushed = sink.push(pairs);
                if sink.end().is_break() || pushed.is_break() {
                    self.enough.store(true, Ordering::Relaxed);
                }
            }
        });
        state.pieces += batches.len().min(next.into_inner());
    }

    fn budget(&self, state: &ProcessorState<'_, '_, K>) -> Budget {
        let Setup { limits, .. } = self.setup;
        let bytes = self.setup.memory(state.both_work);
        Budget {
            piece_tokens: limits.piece_tokens,
            bytes,
            device_bytes: limits.device_memory,
            threads: match state.threads {
                Threads::Attendants(threads) if bytes != u64::MAX => threads.current_num_threads(),
                // As many threads send rows, because the device waits for them.
                Threads::Attendants(_) => Tuning::SENDERS.min(self.setup.threads),
                Threads::Pool => self.setup.threads,
            },
            patient: matches!(state.threads, Threads::Attendants(_)),
            events: self.setup.timeline,
        }
    }

    /// Runs `work` on every thread at once.
    fn broadcast(&self, threads: Threads<'_>, work: impl Fn() + Sync) {
        if self.setup.threads == 1 && matches!(threads, Threads::Pool) {
            return work();
        }
        let work = |_: BroadcastContext<'_>| work();
        match (threads, &self.setup.pool) {
            (Threads::Attendants(attendants), _) => drop(attendants.broadcast(work)),
            (Threads::Pool, Some(pool)) => drop(pool.broadcast(work)),
            (Threads::Pool, None) => drop(rayon::broadcast(work)),
        }
    }

    /// Runs `work` where some threads do.
    fn install_for<T: Send>(&self, threads: Threads<'_>, work: impl FnOnce() -> T + Send) -> T {
        if matches!(threads, Threads::Attendants(_)) { work() } else { self.setup.install(work) }
    }
}

/// A round of an assignment, which its workers share.
struct Round<'r, 'a, K: Kind> {
    assignment: &'r Assignment<'a, K>,
    technique: &'static str,
    prepared: &'r dyn Prepared<K>,
    pieces: usize,
    /// Its number, and how many there are.
    number: (usize, usize),
    /// The number of its first piece in the whole join.
    first: usize,
    /// Whether its events are those of real time.
    shown: bool,
    next: AtomicUsize,
    finished: AtomicUsize,
    workers: AtomicUsize,
    failure: Failure,
    times: &'r Mutex<DeviceTimes>,
    stage: Option<&'r Stage<K::Pair>>,
}

impl<K: Kind> Round<'_, '_, K> {
    /// Notes that a piece is finished, and returns how many probes more are done with it.
    fn finish_piece(&self) -> u64 {
        let (round, rounds) = self.number;
        let finished = self.finished.fetch_add(1, Ordering::Relaxed);
        let mark = |pieces: usize| {
            let done = (round as f64 + pieces as f64 / self.pieces as f64) / rounds as f64;
            (self.assignment.work.probes.len() as f64 * done) as u64
        };
        mark(finished + 1) - mark(finished)
    }
}

/// Into how many parts to cut an assignment with too many pairs to hold, when some of its probes were done: each then
/// finds half of what can be held, if the rest is like that.
fn parts_for<K: Kind>(assignment: &Assignment<'_, K>, done: u64) -> usize {
    match done {
        0 => SOME_PARTS,
        done => (2 * assignment.work.probes.len()).div_ceil(done as usize).clamp(2, MANY_PARTS),
    }
}

/// Returns the name of a worker's row in a timeline of real time.
fn row(processor: Processor, worker: usize) -> String {
    match processor {
        Processor::Cpu => worker_row(processor, rayon::current_thread_index().unwrap_or(worker)),
        Processor::Device => worker_row(processor, worker),
    }
}
