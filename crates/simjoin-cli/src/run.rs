//! How does a run go?
//!
//! read → prepare → join → write, each phase timed and shown.

use crate::explain;
use crate::progress::{BYTES, PARTS, watch};
use crate::report::{Kept, Keys, SetsRun};
use crate::settings::{Answer, Settings};
use crate::speak::{answer, note};
use crate::stats::{self, Seconds};
use crate::trace;
use simjoin::{
    Control, Engine, Error, Glimpse, Join, Report, Result, RowPair, SetCollection, pool, prepare,
};
use simjoin_io::{
    GroupWriter, Ids, PairWriter, ReadSets, TokenTexts, WholeFile, read_sets, read_sets_with_texts,
};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

pub fn run(settings: &Settings) -> Result<()> {
    let begin = Instant::now();
    let mut seconds = Seconds::default();
    let interrupt = Interrupt::install()?;

    let bytes = AtomicU64::new(0);
    let total = total_bytes(&settings.left, settings.right.as_deref());
    let (input, texts) = watch(
        settings.quiet,
        "reading  ",
        BYTES,
        || (bytes.load(Ordering::Relaxed), total),
        || read(settings, &bytes),
    )?;
    seconds.read = begin.elapsed();

    let phase = Instant::now();
    let kept = texts.map(|texts| Kept {
        left: input.left.sets.clone(),
        right: input.right.as_ref().map(|right| right.sets.clone()),
        texts,
    });
    let left_ids = input.left.ids;
    let (right_sets, right_ids) =
        input.right.map_or((None, None), |table| (Some(table.sets), table.ids));
    let tokens =
        input.left.sets.tokens.len() + right_sets.as_ref().map_or(0, |sets| sets.tokens.len());
    let pool = pool(settings.threads)?;
    let (left, right) = watch(
        settings.quiet,
        "preparing",
        PARTS,
        || (0, 0),
        || pool.install(|| prepare(input.left.sets, right_sets, input.universe)),
    )?;
    seconds.prepare = phase.elapsed();

    let planned = (settings.explain || settings.report.is_some())
        .then(|| pool.install(|| explain::before(settings, &left, right.as_ref())))
        .transpose()?;
    let glimpse = kept.as_ref().map(|_| {
        let predicate = settings.join.predicate();
        Arc::new(Glimpse::of_sets(predicate, &left, right.as_ref(), true))
    });
    let join = match &glimpse {
        Some(glimpse) => settings.join.clone().glimpse(glimpse.clone()),
        None => settings.join.clone(),
    };
    let phase = Instant::now();
    let sides = Sides { join, left: &left, right: right.as_ref(), left_ids, right_ids };
    interrupt.joining.store(true, Ordering::Relaxed);
    // Outputs are opened before the join: a folder that does not exist should not cost one.
    let stats = settings.stats.as_deref().map(WholeFile::create).transpose()?;
    let trace = settings.trace.as_deref().map(WholeFile::create).transpose()?;
    let page = settings.report.as_deref().map(WholeFile::create).transpose()?;
    let mut writing = Duration::ZERO;
    let report = watch(
        settings.quiet,
        "joining  ",
        PARTS,
        || interrupt.control.progress(),
        || {
            pool.install(|| match settings.answer {
                Answer::Count => count(&sides, &interrupt),
                Answer::Groups => groups(settings, &sides, &interrupt, &mut writing),
                Answer::Pairs => pairs(settings, &sides, &interrupt, &mut writing),
            })
        },
    )?;
    seconds.join = phase.elapsed().saturating_sub(writing);
    seconds.write = writing;
    seconds.total = begin.elapsed();
    let simulated = tell_faults(report.engine, &report.warnings)?;
    if let Some(planned) = planned.as_ref().filter(|_| settings.explain) {
        explain::after(planned, &report, seconds.join);
    }

    if let Some(file) = trace {
        file.finish(trace::document(&report.timeline).as_bytes())?;
    }
    if let Some(file) = stats {
        let document = stats::document(&left, right.as_ref(), tokens, &report, &seconds);
        file.finish(&document.into_bytes())?;
    }
    if let (Some(file), Some(kept), Some(glimpse), Some(planned)) = (page, kept, glimpse, planned) {
        let devices = match simulated {
            Some(device) => vec![device],
            None if is_on_device(report.engine) => devices(),
            None => Vec::new(),
        };
        let run = SetsRun {
            kind: settings.command,
            answer: settings.answer.name(),
            paths: (&settings.left, settings.right.as_deref()),
            predicate: settings.join.predicate(),
            tokenizer: settings.read.tokenizer,
            with_itself: settings.with_itself,
            left: &left,
            right: right.as_ref(),
            kept: &kept,
            keys: Keys { left_ids: sides.left_ids.as_ref(), right_ids: sides.right_ids.as_ref() },
            planned: &planned,
            report: &report,
            glimpse: &glimpse,
            seconds: &seconds,
            devices,
        };
        file.finish(run.document().page()?.as_bytes())?;
    }
    Ok(())
}

/// Reads the input, and what the tokens are called where a report is to show them.
fn read(settings: &Settings, bytes: &AtomicU64) -> Result<(ReadSets, Option<TokenTexts>)> {
    let (left, right) = (settings.left.as_str(), settings.right.as_deref());
    if settings.report.is_some() {
        let (sets, texts) = read_sets_with_texts(left, right, &settings.read, bytes)?;
        return Ok((sets, Some(texts)));
    }
    Ok((read_sets(left, right, &settings.read, bytes)?, None))
}

/// Tells what became of devices: that there is none but a simulated one, which it answers with, and what was wrong.
pub fn tell_faults(engine: Engine, warnings: &[String]) -> Result<Option<String>> {
    let simulated = if is_on_device(engine) { simjoin::simulated_gpu()? } else { None };
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

/// The devices that are there, in words.
fn devices() -> Vec<String> {
    let found = simjoin::devices().unwrap_or_default();
    found.iter().map(|device| device.info.name.clone()).collect()
}

/// What is joined, and how its rows are named.
struct Sides<'a> {
    join: Join,
    left: &'a SetCollection,
    right: Option<&'a SetCollection>,
    left_ids: Option<Ids>,
    right_ids: Option<Ids>,
}

fn count(sides: &Sides<'_>, interrupt: &Interrupt) -> Result<Report> {
    let report = sides.join.count(sides.left, sides.right, &interrupt.control)?;
    interrupt.check()?;
    answer(&report.pairs)?;
    Ok(report)
}

fn groups(
    settings: &Settings,
    sides: &Sides<'_>,
    interrupt: &Interrupt,
    writing: &mut Duration,
) -> Result<Report> {
    let writer = GroupWriter::create(settings.output.as_deref(), sides.left_ids.as_ref())?;
    write_groups(writer, interrupt, writing, || sides.join.groups(sides.left, &interrupt.control))
}

fn pairs(
    settings: &Settings,
    sides: &Sides<'_>,
    interrupt: &Interrupt,
    writing: &mut Duration,
) -> Result<Report> {
    let right_ids = if sides.right.is_some() { &sides.right_ids } else { &sides.left_ids };
    let create =
        if settings.with_itself { PairWriter::create_with_itself } else { PairWriter::create };
    let writer = create(settings.output.as_deref(), sides.left_ids.as_ref(), right_ids.as_ref())?;
    write_pairs(writer, interrupt, writing, |take| {
        sides.join.pairs(sides.left, sides.right, &interrupt.control, take)
    })
}

/// Finds the groups, and writes them.
pub fn write_groups<R>(
    mut writer: GroupWriter<'_>,
    interrupt: &Interrupt,
    writing: &mut Duration,
    find: impl FnOnce() -> Result<(Vec<u32>, R)>,
) -> Result<R> {
    let (labels, report) = find()?;
    interrupt.check()?;
    let begin = Instant::now();
    writer.write(&labels)?;
    writer.finish()?;
    *writing = begin.elapsed();
    Ok(report)
}

/// Writes the pairs that are found, and ends the output once all of them are. What could not be written ends
/// the search as well.
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

/// Ctrl-C and termination. Until the join begins nothing is open, and the process just ends; from
/// then on the join is asked to stop, so that the half-written output is removed.
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
        ctrlc::set_handler(move || {
            if !joining.load(Ordering::Relaxed) {
                std::process::exit(130);
            }
            interrupted.store(true, Ordering::Relaxed);
            control.stop();
        })
        .map_err(|error| Error::Internal(format!("cannot watch for interrupts: {error}")))?;
        Ok(interrupt)
    }

    pub fn check(&self) -> Result<()> {
        if self.interrupted.load(Ordering::Relaxed) {
            return Err(Error::Interrupted);
        }
        Ok(())
    }
}

/// The size of the files to be read; 0 when one is standard input.
pub fn total_bytes(left: &str, right: Option<&str>) -> u64 {
    let size = |path: &str| std::fs::metadata(path).map_or(0, |file| file.len());
    let sizes: Vec<u64> = [Some(left), right].into_iter().flatten().map(size).collect();
    if sizes.contains(&0) { 0 } else { sizes.iter().sum() }
}
