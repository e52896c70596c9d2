//! How does a join run?
//!
//! read → prepare → plan → join → write, each phase timed and shown. The trait [`JoinCommand`] holds the differences
//! between joins of sets, of vectors, and without a threshold.

use crate::explain;
use crate::progress::{BYTES, PARTS, watch};
use crate::report::{Document, Shown};
use crate::settings::{Answer, JoinSettings};
use crate::speak::{answer, note};
use crate::stats::{self, Seconds};
use crate::trace;
use serde_json::{Map, Value};
use simjoin::engine::{
    Control, Engine, Error, Glimpse, Joinable, Machine, Plan, Purpose, Report, Result, RowPair,
    pool,
};
use simjoin_io::{GroupWriter, Ids, PairWriter, WholeFile};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A kind of join, with its own way to read the input and show the answer.
pub trait JoinCommand: Joinable<Collection: Send> {
    /// The options for reading files.
    type Read: std::fmt::Debug + Sync;
    /// The rows as they were read.
    type Raw: Send;
    /// The data that a report shows in addition to the collections.
    type Kept;

    fn read(settings: &JoinSettings<Self>, bytes: &AtomicU64) -> Result<Self::Raw>;

    /// Keeps the data that a report will show.
    fn keep(raw: &mut Self::Raw) -> Option<Self::Kept>;

    fn prepare(raw: Self::Raw) -> Result<Input<Self>>;

    fn glimpse(kept: &Self::Kept, wanted: Self::Wanted, input: &Input<Self>) -> Glimpse;

    fn writer<'a>(
        settings: &JoinSettings<Self>,
        left: Option<&'a Ids>,
        right: Option<&'a Ids>,
    ) -> Result<PairWriter<'a>>;

    /// Describes the input for `--stats`.
    fn facts(input: &Input<Self>) -> Map<String, Value>;

    /// Describes input and results for `--report`.
    fn page(
        settings: &JoinSettings<Self>,
        input: &Input<Self>,
        kept: &Self::Kept,
        report: &Report,
        glimpse: &Glimpse,
    ) -> Shown;
}

/// The collections to join, and the names of their rows.
pub struct Input<K: JoinCommand> {
    pub left: K::Collection,
    pub right: Option<K::Collection>,
    pub left_ids: Option<Ids>,
    pub right_ids: Option<Ids>,
    /// The number of tokens, or of elements of vectors, that were read.
    pub tokens: usize,
}

pub fn run<K: JoinCommand>(settings: &JoinSettings<K>) -> Result<()> {
    let begin = Instant::now();
    let mut seconds = Seconds::default();
    let interrupt = Interrupt::install()?;

    let pool = pool(settings.threads)?;
    let bytes = AtomicU64::new(0);
    let total = total_bytes(&settings.left, settings.right.as_deref());
    let mut raw = watch(
        settings.quiet,
        "reading  ",
        BYTES,
        || (bytes.load(Ordering::Relaxed), total),
        || pool.install(|| K::read(settings, &bytes)),
    )?;
    seconds.read = begin.elapsed();

    let phase = Instant::now();
    let kept = settings.report.is_some().then(|| K::keep(&mut raw)).flatten();
    let prepare = || pool.install(|| K::prepare(raw));
    let input = watch(settings.quiet, "preparing", PARTS, || (0, 0), prepare)?;
    seconds.prepare = phase.elapsed();

    let phase = Instant::now();
    let glimpse =
        kept.as_ref().map(|kept| Arc::new(K::glimpse(kept, settings.join.predicate(), &input)));
    let join = match &glimpse {
        Some(glimpse) => settings.join.clone().glimpse(glimpse.clone()),
        None => settings.join.clone(),
    };
    let purpose = match settings.answer {
        Answer::Count => Purpose::Count,
        Answer::Groups => Purpose::Groups,
        Answer::Pairs => Purpose::Pairs,
    };
    let plan = || pool.install(|| join.plan(&input.left, input.right.as_ref(), purpose));
    let plan = watch(settings.quiet, "planning ", PARTS, || (0, 0), plan)?;
    let planning = phase.elapsed();
    // The time of estimating pairs is not part of the join.
    let explained = (settings.explain || settings.report.is_some())
        .then(|| pool.install(|| explain::before(settings.explain, &plan)));

    let phase = Instant::now();
    interrupt.joining.store(true, Ordering::Relaxed);
    // Outputs are opened before the join, so that a missing folder is found first.
    let files = Files::create(settings)?;
    let mut writing = Duration::ZERO;
    let join = || pool.install(|| find(settings, &input, &plan, &interrupt, &mut writing));
    let report = watch(settings.quiet, "joining  ", PARTS, || interrupt.control.progress(), join)?;
    seconds.join = (planning + phase.elapsed()).saturating_sub(writing);
    seconds.write = writing;
    seconds.total = begin.elapsed();
    let devices = devices_after(report.engine, &report.warnings)?;
    if let Some(explained) = explained.as_ref().filter(|_| settings.explain) {
        explain::after(explained, &report, seconds.join);
    }
    let shown = match (&kept, &glimpse, &explained) {
        (Some(kept), Some(glimpse), Some(explained)) => {
            let shown = K::page(settings, &input, kept, &report, glimpse);
            Some(Document::new(settings, shown, explained, &report, &seconds, devices))
        }
        _ => None,
    };
    files.finish(K::facts(&input), &report, &seconds, shown)
}

/// Finds the answer, and writes it.
fn find<K: JoinCommand>(
    settings: &JoinSettings<K>,
    input: &Input<K>,
    plan: &Plan<'_, K>,
    interrupt: &Interrupt,
    writing: &mut Duration,
) -> Result<Report> {
    let left_ids = input.left_ids.as_ref();
    match settings.answer {
        Answer::Count => {
            let report = plan.count(&interrupt.control)?;
            interrupt.check()?;
            answer(&report.pairs)?;
            Ok(report)
        }
        Answer::Groups => {
            let mut writer = GroupWriter::create(settings.output.as_deref(), left_ids)?;
            let (labels, report) = plan.groups(&interrupt.control)?;
            interrupt.check()?;
            let begin = Instant::now();
            writer.write(&labels)?;
            writer.finish()?;
            *writing = begin.elapsed();
            Ok(report)
        }
        Answer::Pairs => {
            let right_ids = if input.right.is_some() { input.right_ids.as_ref() } else { left_ids };
            let writer = K::writer(settings, left_ids, right_ids)?;
            write_pairs(writer, interrupt, writing, |receive| {
                plan.pairs(&interrupt.control, receive)
            })
        }
    }
}

/// The files that are written after the join.
struct Files {
    stats: Option<WholeFile>,
    trace: Option<WholeFile>,
    page: Option<WholeFile>,
}

impl Files {
    fn create<K: JoinCommand>(settings: &JoinSettings<K>) -> Result<Self> {
        let create = |path: &Option<PathBuf>| path.as_deref().map(WholeFile::create).transpose();
        let (stats, trace) = (create(&settings.stats)?, create(&settings.trace)?);
        Ok(Files { stats, trace, page: create(&settings.report)? })
    }

    fn finish(
        self,
        facts: Map<String, Value>,
        report: &Report,
        seconds: &Seconds,
        shown: Option<Document>,
    ) -> Result<()> {
        if let Some(file) = self.trace {
            file.finish(trace::document(&report.timeline).as_bytes())?;
        }
        if let Some(file) = self.stats {
            file.finish(stats::document(facts, report, seconds).as_bytes())?;
        }
        if let Some((file, document)) = self.page.zip(shown) {
            file.finish(document.page()?.as_bytes())?;
        }
        Ok(())
    }
}

/// Prints warnings about devices, and whether one was simulated; returns the devices that worked.
fn devices_after(engine: Engine, warnings: &[String]) -> Result<Vec<String>> {
    Ok(match print_warnings(engine, warnings)? {
        Some(device) => vec![device],
        None if is_on_device(engine) => {
            let found = simjoin::engine::devices().unwrap_or_default();
            found.iter().map(|device| device.info.name.clone()).collect()
        }
        None => Vec::new(),
    })
}

/// Prints warnings about devices, and whether one was simulated; returns the description of that one.
pub fn print_warnings(engine: Engine, warnings: &[String]) -> Result<Option<String>> {
    let tried = is_on_device(engine) || !warnings.is_empty();
    let simulated = if tried { Machine::from_environment()?.simulated_device() } else { None };
    if let Some(device) = &simulated {
        note(format_args!("simjoin: {device}"));
    }
    for warning in warnings {
        note(format_args!("simjoin: warning: {warning}"));
    }
    Ok(simulated)
}

fn is_on_device(engine: Engine) -> bool {
    matches!(engine, Engine::Gpu | Engine::Hybrid)
}

/// Writes pairs as they are found, and finishes the output after the last one. A failed write ends the search.
pub fn write_pairs<R>(
    mut writer: PairWriter<'_>,
    interrupt: &Interrupt,
    writing: &mut Duration,
    find: impl FnOnce(&mut (dyn FnMut(&[RowPair]) -> ControlFlow<()> + Send)) -> Result<R>,
) -> Result<R> {
    let mut failure = None;
    let report = find(&mut |rows| {
        let begin = Instant::now();
        let result = writer.write(rows);
        *writing += begin.elapsed();
        match result {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                failure = Some(error);
                ControlFlow::Break(())
            }
        }
    })?;
    if let Some(error) = failure {
        return Err(error);
    }
    interrupt.check()?;
    let begin = Instant::now();
    writer.finish()?;
    *writing += begin.elapsed();
    Ok(report)
}

/// Handles Ctrl-C and termination. Before the join no file is open, and the process ends; during the join, the join is
/// asked to stop, so that the half-written output is removed.
pub struct Interrupt {
    pub control: Arc<Control>,
    pub joining: Arc<AtomicBool>,
    interrupted: Arc<AtomicBool>,
}

impl Interrupt {
    pub fn install() -> Result<Self> {
        let interrupt = Interrupt {
            control: Arc::default(),
            joining: Arc::default(),
            interrupted: Arc::default(),
        };
        let (control, joining, interrupted) =
            (interrupt.control.clone(), interrupt.joining.clone(), interrupt.interrupted.clone());
        // If the system refuses a thread for it, Ctrl-C just ends the process.
        if std::thread::Builder::new().spawn(|| ()).map(JoinHandle::join).is_err() {
            return Ok(interrupt);
        }
        let stop = move || {
            if !joining.load(Ordering::Relaxed) {
                std::process::exit(130);
            }
            interrupted.store(true, Ordering::Relaxed);
            control.stop();
        };
        let mut tries = 0;
        // The thread that has just ended may briefly still count as running.
        while let Err(error) = ctrlc::set_handler(stop.clone()) {
            tries += 1;
            if tries == 1000 {
                let message = format!("cannot watch for interrupts: {error}");
                return Err(Error::Unavailable(message));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(interrupt)
    }

    pub fn check(&self) -> Result<()> {
        if self.interrupted.load(Ordering::Relaxed) {
            return Err(Error::Interrupted);
        }
        Ok(())
    }
}

/// Returns the size of the files to be read; 0 if one is standard input.
pub fn total_bytes(left: &Path, right: Option<&Path>) -> u64 {
    let size = |path: &Path| std::fs::metadata(path).map_or(0, |file| file.len());
    let sizes: Vec<u64> = [Some(left), right].into_iter().flatten().map(size).collect();
    if sizes.contains(&0) { 0 } else { sizes.iter().sum() }
}
