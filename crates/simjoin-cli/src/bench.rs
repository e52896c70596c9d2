//! How long does each technique take?
//!
//! # Flow
//!
//! ```text
//! for each number of threads:   start threads ─ read ─ prepare
//!   for each threshold, highest first:
//!     in turns until each has run often enough:   technique ─ technique ─ …
//!     print a row for each technique
//! ```
//!
//! Techniques take turns, so that other load on the machine affects all of them alike. The order changes every time,
//! so that no technique always runs after one that leaves the caches cold. Threads are started before the time is
//! taken. Every run must find the same number of pairs.

use crate::run::Interrupt;
use crate::settings::{BenchSettings, Contestant};
use rayon::ThreadPool;
use serde_json::{Value, json};
use simjoin::engine::{
    AUTO, Control, Error, Join, Predicate, Processor, Purpose, Report, Result, RowPair,
    SetCollection, Sets, StepReport, pool, prepare,
};
use simjoin_io::{STANDARD_OUTPUT, read_sets};
use std::hint::black_box;
use std::io::{StdoutLock, Write};
use std::ops::ControlFlow;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// The rules for repeating a join.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// The number of runs.
    pub repeat: usize,
    /// No further run begins after a join has used this time.
    pub budget: Duration,
    /// A first run is ended after this time.
    pub limit: Option<Duration>,
}

/// Noise dominates runs shorter than this, so they are repeated until the shortest time is stable.
const SHORT: Duration = Duration::from_millis(5);
const SHORT_RUNS: usize = 200;
const SHORT_BUDGET: Duration = Duration::from_millis(200);

impl Pace {
    /// Returns whether a join that took these times runs once more.
    fn again(&self, times: &[Duration]) -> bool {
        let Some(&shortest) = times.iter().min() else { return true };
        let used: Duration = times.iter().sum();
        let short = shortest < SHORT && times.len() < SHORT_RUNS && used < SHORT_BUDGET;
        used < self.budget && (times.len() < self.repeat || short)
    }
}

pub fn run(settings: &BenchSettings) -> Result<()> {
    // No file is written, so an interrupt can end the process at any time.
    Interrupt::install()?;
    let mut rows = RowPrinter::new(settings);
    let mut agreements: Vec<Agreement> =
        settings.predicates.iter().map(|_| Agreement::default()).collect();
    for &threads in &settings.threads {
        let loaded = Loaded::read(settings, threads)?;
        rows.begin()?;
        let mut too_slow = vec![false; settings.contestants.len()];
        for (&predicate, agreement) in settings.predicates.iter().zip(&mut agreements) {
            let mut trials = Vec::with_capacity(settings.contestants.len());
            for (contestant, &skip) in settings.contestants.iter().zip(&too_slow) {
                let join = settings.join(contestant, predicate);
                trials.push(Trial::new(contestant, settings.label(contestant), join, skip));
            }
            let mut turns = Turns::new(trials.len());
            while trials.iter().any(|trial| trial.wants_run(settings.pace)) {
                for &at in turns.next() {
                    let trial = &mut trials[at];
                    if !trial.wants_run(settings.pace) {
                        continue;
                    }
                    let report = trial.run(&loaded, settings)?;
                    if let Some(report) = report {
                        agreement.check(predicate, &trial.label, &report)?;
                        trial.keep(report);
                    }
                }
            }
            for (trial, slow) in trials.iter().zip(&mut too_slow) {
                *slow = trial.report.is_none();
                rows.write(predicate, trial, &loaded)?;
            }
            rows.flush()?;
        }
    }
    Ok(())
}

/// The order in which techniques run: first the order in which they were named, then a different one each time. The
/// orders are the same in every process.
struct Turns {
    order: Vec<usize>,
    /// The state of a linear congruential generator.
    state: u64,
    begun: bool,
}

impl Turns {
    fn new(count: usize) -> Self {
        Turns { order: (0..count).collect(), state: 1, begun: false }
    }

    fn next(&mut self) -> &[usize] {
        if self.begun {
            for last in (1..self.order.len()).rev() {
                self.state = self.state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
                self.order.swap(last, (self.state >> 33) as usize % (last + 1));
            }
        }
        self.begun = true;
        &self.order
    }
}

/// The prepared sets of the file, and the threads that join them.
struct Loaded {
    pool: ThreadPool,
    sets: SetCollection,
    read: Duration,
    prepare: Duration,
}

impl Loaded {
    fn read(settings: &BenchSettings, threads: usize) -> Result<Self> {
        let pool = pool(threads)?;
        let mut options = settings.read.clone();
        options.threads = threads;
        let begin = Instant::now();
        let input = read_sets(&settings.file, None, &options, &AtomicU64::new(0))?;
        let read = begin.elapsed();
        // Quick preparations are repeated, and the shortest time counts.
        let (mut shortest, mut used) = (Duration::MAX, Duration::ZERO);
        loop {
            let rows = input.left.sets.clone();
            let begin = Instant::now();
            let (sets, _) = pool.install(|| prepare(rows, None, input.universe))?;
            let prepare = begin.elapsed();
            shortest = shortest.min(prepare);
            used += prepare;
            if used > Duration::from_millis(50) {
                return Ok(Loaded { pool, sets, read, prepare: shortest });
            }
        }
    }
}

/// A technique at a threshold, and the results of its runs so far.
struct Trial<'a> {
    contestant: &'a Contestant,
    label: String,
    join: Join<Sets>,
    /// Whether it is skipped because it was too slow at a higher threshold.
    skipped: bool,
    /// Whether the limit ended the first run.
    ended: bool,
    times: Vec<Duration>,
    /// The report of the shortest run; `None` if no run has finished.
    report: Option<Report>,
}

impl<'a> Trial<'a> {
    fn new(contestant: &'a Contestant, label: String, join: Join<Sets>, skipped: bool) -> Self {
        Trial { contestant, label, join, skipped, ended: false, times: Vec::new(), report: None }
    }

    /// Returns the estimated seconds, and for `auto` the estimated pairs.
    fn estimates(&self, loaded: &Loaded) -> Result<(Option<f64>, Option<f64>)> {
        loaded.pool.install(|| {
            let plan = self.join.plan(&loaded.sets, None, Purpose::Count)?;
            let auto = self.contestant.technique == AUTO;
            Ok((plan.seconds(), auto.then(|| plan.estimate_pairs()).flatten()))
        })
    }

    fn wants_run(&self, pace: Pace) -> bool {
        !self.skipped && !self.ended && pace.again(&self.times)
    }

    /// Keeps the report if the last run was the shortest.
    fn keep(&mut self, report: Report) {
        if self.times.last() == self.times.iter().min() {
            self.report = Some(report);
        }
    }

    /// Times one run. Returns `None` if the limit ended it.
    fn run(&mut self, loaded: &Loaded, settings: &BenchSettings) -> Result<Option<Report>> {
        // A join that has finished in time once will do so again. Later runs are not watched by a thread, which could
        // disturb them.
        let limit = settings.pace.limit.filter(|_| self.times.is_empty());
        let control = Control::default();
        let (took, report) = within(limit, &control, || {
            loaded.pool.install(|| {
                let begin = Instant::now();
                let report = if settings.pairs {
                    let receive = |pairs: &[RowPair]| {
                        black_box(pairs);
                        ControlFlow::Continue(())
                    };
                    self.join.pairs(&loaded.sets, None, &control, receive)
                } else {
                    self.join.count(&loaded.sets, None, &control)
                };
                (begin.elapsed(), report)
            })
        });
        let report = report?;
        if control.stopped() {
            self.ended = true;
            return Ok(None);
        }
        self.times.push(took);
        Ok(Some(report))
    }

    fn shortest(&self) -> Option<f64> {
        self.times.iter().min().map(Duration::as_secs_f64)
    }

    fn median(&self) -> Option<f64> {
        let mut times = self.times.clone();
        times.sort_unstable();
        let upper = times.get(times.len() / 2)?;
        let lower = times.get(times.len().wrapping_sub(1) / 2)?;
        Some((*lower + *upper).as_secs_f64() / 2.0)
    }

    /// Returns the number of runs that were started.
    fn runs(&self) -> usize {
        self.times.len() + usize::from(self.ended)
    }
}

/// Runs the work, and stops it through its control after the limit.
fn within<T>(limit: Option<Duration>, control: &Control, work: impl FnOnce() -> T) -> T {
    let Some(limit) = limit else { return work() };
    std::thread::scope(|scope| {
        let (done, finished) = channel::<()>();
        let watch = move || {
            if finished.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
                control.stop();
            }
        };
        // If no thread can be started, there is no limit.
        let _ = std::thread::Builder::new().spawn_scoped(scope, watch);
        let result = work();
        drop(done);
        result
    })
}

/// The number of pairs that the first run at a threshold found; all others must find the same.
#[derive(Default)]
struct Agreement(Option<(u64, String)>);

impl Agreement {
    fn check(&mut self, predicate: Predicate, technique: &str, report: &Report) -> Result<()> {
        let who = || format!("{technique} on {} threads", report.threads);
        match &self.0 {
            None => self.0 = Some((report.pairs, who())),
            Some((pairs, first)) if *pairs != report.pairs => {
                return Err(Error::Internal(format!(
                    "{predicate}: {first} finds {pairs} pairs, but {} finds {}",
                    who(),
                    report.pairs
                )));
            }
            Some(_) => {}
        }
        Ok(())
    }
}

/// Prints rows as aligned columns or as JSON lines.
struct RowPrinter<'a> {
    settings: &'a BenchSettings,
    out: StdoutLock<'static>,
    /// The widths of the columns for thresholds and for names of techniques.
    widths: (usize, usize),
    /// Whether the names of the columns have been written.
    begun: bool,
}

impl<'a> RowPrinter<'a> {
    fn new(settings: &'a BenchSettings) -> Self {
        let measure = settings.predicates[0].measure().name();
        let thresholds = settings.predicates.iter().map(|one| one.threshold().to_string().len());
        let widths = (
            thresholds.max().unwrap_or(0).max(measure.len()),
            settings
                .contestants
                .iter()
                .map(|one| settings.label(one).len())
                .max()
                .unwrap_or(0)
                .max(13),
        );
        RowPrinter { settings, out: std::io::stdout().lock(), widths, begun: false }
    }

    /// Writes the names of the columns, once.
    fn begin(&mut self) -> Result<()> {
        if !self.settings.json && !std::mem::replace(&mut self.begun, true) {
            let measure = self.settings.predicates[0].measure().name();
            let [technique, ran, threads, pairs] = ["technique", "ran", "threads", "pairs"];
            let [candidates, read, prepare] = ["candidates", "read s", "prepare s"];
            let [shortest, median, runs] = ["join s", "median s", "runs"];
            self.line([
                measure, technique, ran, threads, pairs, candidates, read, prepare, shortest,
                median, runs,
            ])?;
            self.flush()?;
        }
        Ok(())
    }

    fn write(&mut self, predicate: Predicate, trial: &Trial<'_>, loaded: &Loaded) -> Result<()> {
        let threads = loaded.pool.current_num_threads();
        let report = trial.report.as_ref();
        if self.settings.json {
            let (seconds, pairs) = trial.estimates(loaded)?;
            let row = json!({
                "file": self.settings.file.display().to_string(),
                "measure": predicate.measure().name(),
                "threshold": predicate.threshold().to_string(),
                "engine": trial.contestant.engine.name(),
                "split": trial.contestant.split.as_ref().map(|split| &split.text),
                "technique": trial.contestant.technique,
                "ran": report.map(|report| &report.technique),
                "ran_on": report.map(|report| report.engine.name()),
                "device_share": report.and_then(Report::device_share),
                "planned_device_share": report.and_then(|report| report.planned_device_share),
                "concurrency": report.and_then(Report::concurrency),
                "virtual_seconds": report.and_then(|report| report.virtual_seconds),
                "threads": threads,
                "pairs": report.map(|report| report.pairs),
                "candidates": report.map(|report| report.candidates),
                "read": loaded.read.as_secs_f64(),
                "prepare": loaded.prepare.as_secs_f64(),
                "join_min": trial.shortest(),
                "join_median": trial.median(),
                "joins": trial.times.iter().map(Duration::as_secs_f64).collect::<Vec<_>>(),
                "runs": trial.runs(),
                "finished": report.is_some(),
                "device": report.map(crate::stats::device),
                "steps": report.map(|report| report.steps.iter().map(step).collect::<Vec<_>>()),
                "estimated_seconds": seconds,
                "estimated_pairs": pairs,
            });
            return writeln!(self.out, "{row}").map_err(output);
        }
        let or_dash = |value: Option<String>| value.unwrap_or_else(|| "-".into());
        let seconds = |value: f64| format!("{value:.6}");
        let join = match (trial.shortest(), self.settings.pace.limit) {
            (Some(shortest), _) => seconds(shortest),
            (None, Some(limit)) if trial.ended => format!("> {}", limit.as_secs_f64()),
            (None, _) => "skipped".into(),
        };
        self.line([
            &predicate.threshold().to_string(),
            &trial.label,
            report.map_or("-", |report| &report.technique),
            &threads.to_string(),
            &or_dash(report.map(|report| report.pairs.to_string())),
            &or_dash(report.map(|report| report.candidates.to_string())),
            &seconds(loaded.read.as_secs_f64()),
            &seconds(loaded.prepare.as_secs_f64()),
            &join,
            &or_dash(trial.median().map(seconds)),
            &trial.runs().to_string(),
        ])
    }

    fn line(&mut self, columns: [&str; 11]) -> Result<()> {
        let (first, names) = self.widths;
        let [threshold, technique, ran, threads, pairs, candidates, read, prepare, rest @ ..] =
            columns;
        let [shortest, median, runs] = rest;
        writeln!(
            self.out,
            "{threshold:<first$}  {technique:<names$}  {ran:<names$}  {threads:>7}  {pairs:>12}  \
             {candidates:>14}  {read:>10}  {prepare:>10}  {shortest:>11}  {median:>11}  {runs:>4}"
        )
        .map_err(output)
    }

    fn flush(&mut self) -> Result<()> {
        self.out.flush().map_err(output)
    }
}

/// The technique that one processor ran.
fn step(step: &StepReport) -> Value {
    json!({
        "technique": step.technique,
        "on_device": step.processor == Processor::Device,
        "pairs": step.pairs,
        "begin": step.begin,
        "seconds": step.seconds,
        "estimated": step.estimated,
    })
}

fn output(error: std::io::Error) -> Error {
    Error::io(STANDARD_OUTPUT, error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use simjoin::engine::{Engine, Measure, RawSets};

    fn pace(repeat: usize, budget: u64) -> Pace {
        Pace { repeat, budget: Duration::from_millis(budget), limit: None }
    }

    fn runs(pace: Pace, each: u64) -> usize {
        let mut times = Vec::new();
        while pace.again(&times) {
            times.push(Duration::from_micros(each));
        }
        times.len()
    }

    #[test]
    fn joins_run_at_least_once_and_short_ones_often() {
        assert_eq!(runs(pace(5, 2000), 100_000), 5);
        assert_eq!(runs(pace(5, 2000), 900_000), 3);
        assert_eq!(runs(pace(5, 2000), 9_000_000), 1);
        assert_eq!(runs(pace(5, 2000), 100), SHORT_RUNS);
        assert_eq!(runs(pace(5, 2000), 4_500), 45);
        assert_eq!(runs(pace(999, 2000), 100), 999);
        assert_eq!(runs(pace(5, 0), 100), 1);
    }

    #[test]
    fn every_technique_has_a_turn_after_different_ones() {
        let mut turns = Turns::new(5);
        assert_eq!(turns.next(), [0, 1, 2, 3, 4]);
        let mut before_the_first = std::collections::BTreeSet::new();
        for _ in 0..50 {
            let order = turns.next().to_vec();
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, [0, 1, 2, 3, 4]);
            let at = order.iter().position(|&one| one == 0).unwrap();
            before_the_first.insert(at.checked_sub(1).map(|before| order[before]));
        }
        assert_eq!(before_the_first.len(), 5);
    }

    #[test]
    fn the_median_of_an_even_number_of_runs_is_the_mean_of_the_middle_two() {
        let predicate = Predicate::parse(Measure::Jaccard, "0.5").unwrap();
        let engine = Engine::Cpu;
        let contestant = Contestant { engine, split: None, technique: "auto".into() };
        let mut trial =
            Trial::new(&contestant, "auto".into(), simjoin::engine::join(predicate), false);
        assert_eq!(trial.median(), None);
        for (second, median) in [(3, 3.0), (1, 2.0), (2, 2.0), (9, 2.5)] {
            trial.times.push(Duration::from_secs(second));
            assert_eq!(trial.median(), Some(median));
        }
        assert_eq!(trial.shortest(), Some(1.0));
    }

    #[test]
    fn errors_name_both_techniques_that_disagree() {
        let predicate = Predicate::parse(Measure::Jaccard, "0.5").unwrap();
        let (none, _) = prepare(RawSets::default(), None, 1).unwrap();
        let join = simjoin::engine::join(predicate).threads(2);
        let report = |pairs| {
            let mut report = join.count(&none, None, &Control::default()).unwrap();
            report.pairs = pairs;
            report
        };
        let mut agreement = Agreement::default();
        agreement.check(predicate, "auto", &report(7)).unwrap();
        agreement.check(predicate, "group-join", &report(7)).unwrap();
        let error = agreement.check(predicate, "all-pairs", &report(8)).unwrap_err();
        assert!(matches!(error, Error::Internal(_)));
        let error = error.to_string();
        for part in ["jaccard ≥ 0.5", "auto on 2 threads finds 7", "all-pairs on 2 threads finds 8"]
        {
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn work_is_stopped_only_after_the_limit() {
        let control = Control::default();
        within(Some(Duration::from_secs(600)), &control, || ());
        assert!(!control.stopped());
        within(Some(Duration::ZERO), &control, || {
            while !control.stopped() {
                std::thread::yield_now();
            }
        });
        assert!(control.stopped());
    }
}
