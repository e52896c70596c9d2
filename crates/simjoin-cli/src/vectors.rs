//! What does `simjoin vectors` mean, and how does it go?
//!
//! read → prepare → join → write, each phase timed and shown. What is wrong with the options alone is found
//! before a file is opened.

use crate::flags::VectorsFlags;
use crate::progress::{BYTES, PARTS, watch};
use crate::report::{Keys, VectorsRun};
use crate::run::{Interrupt, tell_faults, total_bytes, write_groups, write_pairs};
use crate::settings::{Answer, bytes, cores, different_files, number_of_threads, pairs_file};
use crate::speak::{answer, note};
use crate::stats::Seconds;
use crate::trace;
use serde_json::json;
use simjoin::{
    Elements, Error, Glimpse, PreparedVectorJoin, Result, VectorCollection, VectorJoin,
    VectorPredicate, VectorReport, duration, grouped, pool,
};
use simjoin_io::{
    GroupWriter, Ids, PairWriter, ReadVectors, VectorFormat, VectorOptions, WholeFile, read_vectors,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A run, resolved.
#[derive(Debug)]
pub struct Settings {
    left: String,
    right: Option<String>,
    read: VectorOptions,
    join: VectorJoin,
    threads: usize,
    answer: Answer,
    /// `None` is standard output.
    output: Option<String>,
    stats: Option<String>,
    report: Option<String>,
    trace: Option<String>,
    explain: bool,
    quiet: bool,
}

impl Settings {
    pub fn of(flags: VectorsFlags) -> Result<Self> {
        let predicate = match (&flags.predicate.within, &flags.predicate.cosine) {
            (Some(text), _) => VectorPredicate::within(text)?,
            (None, Some(text)) => VectorPredicate::cosine(text)?,
            (None, None) => {
                return Err(Error::Config("no threshold was given, such as --within 0.25".into()));
            }
        };
        let answer = Answer::of(&flags.answer);
        let threads = flags.threads.as_deref().map_or_else(|| Ok(cores()), number_of_threads)?;
        let mut join = simjoin::vector_join(predicate)
            .technique(&flags.technique)
            .engine(flags.engine.engine.parse()?)
            .timeline(flags.report.is_some() || flags.trace.trace.is_some());
        if let Some(text) = &flags.limits.memory {
            join = join.memory(bytes("--memory", text)?);
        }
        if let Some(text) = &flags.limits.device_memory {
            join = join.device_memory(bytes("--device-memory", text)?);
        }
        join.check()?;
        let output = pairs_file(flags.answer.output)?;
        different_files(&[
            ("--output", &output),
            ("--stats", &flags.answer.stats),
            ("--report", &flags.report),
            ("--trace", &flags.trace.trace),
        ])?;
        if flags.left == "-" && flags.right.as_deref() == Some("-") {
            return Err(Error::Config(
                "only one of the two inputs can be standard input (-)".into(),
            ));
        }
        let format: Option<VectorFormat> = flags.format.as_deref().map(str::parse).transpose()?;
        if format.is_none() {
            for path in [Some(&flags.left), flags.right.as_ref()].into_iter().flatten() {
                VectorFormat::of_path(path)?;
            }
        }
        Ok(Settings {
            left: flags.left,
            right: flags.right,
            read: VectorOptions { format, column: flags.column, id: flags.id },
            join,
            threads,
            answer,
            output,
            stats: flags.answer.stats,
            report: flags.report,
            trace: flags.trace.trace,
            explain: flags.answer.explain,
            quiet: flags.answer.quiet,
        })
    }
}

pub fn run(settings: &Settings) -> Result<()> {
    let begin = Instant::now();
    let mut seconds = Seconds::default();
    let interrupt = Interrupt::install()?;
    let bytes = AtomicU64::new(0);
    let total = total_bytes(&settings.left, settings.right.as_deref());
    let read = |path: &String| read_vectors(path, &settings.read, &bytes);
    let (left, right) = watch(
        settings.quiet,
        "reading  ",
        BYTES,
        || (bytes.load(Ordering::Relaxed), total),
        || Ok::<_, Error>((read(&settings.left)?, settings.right.as_ref().map(read).transpose()?)),
    )?;
    seconds.read = begin.elapsed();

    let phase = Instant::now();
    let sides = Sides::new(left, right);
    let pool = pool(settings.threads)?;
    let glimpse = settings.report.as_ref().map(|_| {
        let predicate = settings.join.predicate();
        Arc::new(Glimpse::of_vectors(predicate, &sides.left, sides.right.as_ref(), true))
    });
    let join = match &glimpse {
        Some(glimpse) => settings.join.clone().glimpse(glimpse.clone()),
        None => settings.join.clone(),
    };
    let prepared = watch(
        settings.quiet,
        "preparing",
        PARTS,
        || (0, 0),
        || pool.install(|| join.prepare(&sides.left, sides.right.as_ref())),
    )?;
    seconds.prepare = phase.elapsed();

    let estimate = (settings.explain || settings.report.is_some())
        .then(|| pool.install(|| before(settings, &sides, &prepared)));
    let phase = Instant::now();
    interrupt.joining.store(true, Ordering::Relaxed);
    // Outputs are opened before the join: a folder that does not exist should not cost one.
    let stats = settings.stats.as_deref().map(WholeFile::create).transpose()?;
    let page = settings.report.as_deref().map(WholeFile::create).transpose()?;
    let trace = settings.trace.as_deref().map(WholeFile::create).transpose()?;
    let mut writing = Duration::ZERO;
    let report = watch(
        settings.quiet,
        "joining  ",
        PARTS,
        || interrupt.control.progress(),
        || {
            pool.install(|| match settings.answer {
                Answer::Count => count(&prepared, &interrupt),
                Answer::Groups => groups(settings, &sides, &prepared, &interrupt, &mut writing),
                Answer::Pairs => pairs(settings, &sides, &prepared, &interrupt, &mut writing),
            })
        },
    )?;
    seconds.join = phase.elapsed().saturating_sub(writing);
    seconds.write = writing;
    seconds.total = begin.elapsed();
    tell_faults(prepared.plan().engine, &report.warnings)?;
    if let Some(estimate) = estimate.filter(|_| settings.explain) {
        note(format_args!(
            "found: {} pairs (estimated {}), {} verified in double precision, prepared in {}, joined in {}",
            grouped(report.pairs),
            estimate.map_or_else(|| "-".into(), |pairs| grouped(pairs as u64)),
            grouped(report.candidates),
            duration(seconds.prepare.as_secs_f64()),
            duration(seconds.join.as_secs_f64()),
        ));
        if let Some(part) = report.device_part {
            note(format_args!(
                "the GPU did {:.1} % of the pairs (planned {:.1} %), the CPU the others; both worked at once {:.0} % \
                 of the time",
                100.0 * part,
                100.0 * report.planned_part.unwrap_or(0.0),
                100.0 * report.overlap.unwrap_or(0.0),
            ));
        }
    }
    if let Some(file) = trace {
        file.finish(trace::document(&report.timeline).as_bytes())?;
    }
    if let Some(file) = stats {
        file.finish(document(&sides, &report, &seconds).as_bytes())?;
    }
    if let (Some(file), Some(glimpse)) = (page, glimpse) {
        let run = VectorsRun {
            answer: settings.answer.name(),
            paths: (&settings.left, settings.right.as_deref()),
            predicate: settings.join.predicate(),
            left: &sides.left,
            right: sides.right.as_ref(),
            keys: Keys { left_ids: sides.left_ids.as_ref(), right_ids: sides.right_ids.as_ref() },
            plan: prepared.plan(),
            estimated_pairs: estimate.flatten(),
            report: &report,
            glimpse: &glimpse,
            seconds: &seconds,
        };
        file.finish(run.document().page()?.as_bytes())?;
    }
    Ok(())
}

/// What is joined, and how its rows are named.
struct Sides {
    left: VectorCollection,
    right: Option<VectorCollection>,
    left_ids: Option<Ids>,
    right_ids: Option<Ids>,
}

impl Sides {
    /// Brings both sides to one precision.
    fn new(left: ReadVectors, right: Option<ReadVectors>) -> Self {
        let (mut left, left_ids) = (left.vectors, left.ids);
        let (mut right, right_ids) =
            right.map_or((None, None), |right| (Some(right.vectors), right.ids));
        let is_wide = |side: &VectorCollection| matches!(side.elements(), Elements::F64(_));
        if let Some(other) = right.take() {
            let both = is_wide(&left) == is_wide(&other);
            if !both {
                left = left.widened();
            }
            right = Some(if both { other } else { other.widened() });
        }
        Sides { left, right, left_ids, right_ids }
    }
}

/// Shows the plan where that is asked for; answers with the number of pairs that it expects.
fn before(settings: &Settings, sides: &Sides, prepared: &PreparedVectorJoin<'_>) -> Option<f64> {
    let estimate = prepared.estimate_pairs();
    if settings.explain {
        let text = prepared.text(&settings.join, &sides.left, sides.right.as_ref(), estimate);
        note(format_args!("{}", text.trim_end()));
    }
    estimate
}

fn count(prepared: &PreparedVectorJoin<'_>, interrupt: &Interrupt) -> Result<VectorReport> {
    let report = prepared.count(&interrupt.control)?;
    interrupt.check()?;
    answer(&report.pairs)?;
    Ok(report)
}

fn groups(
    settings: &Settings,
    sides: &Sides,
    prepared: &PreparedVectorJoin<'_>,
    interrupt: &Interrupt,
    writing: &mut Duration,
) -> Result<VectorReport> {
    let writer = GroupWriter::create(settings.output.as_deref(), sides.left_ids.as_ref())?;
    write_groups(writer, interrupt, writing, || prepared.groups(&interrupt.control))
}

fn pairs(
    settings: &Settings,
    sides: &Sides,
    prepared: &PreparedVectorJoin<'_>,
    interrupt: &Interrupt,
    writing: &mut Duration,
) -> Result<VectorReport> {
    let right_ids = if sides.right.is_some() { &sides.right_ids } else { &sides.left_ids };
    let output = settings.output.as_deref();
    let writer = PairWriter::create_distances(output, sides.left_ids.as_ref(), right_ids.as_ref())?;
    write_pairs(writer, interrupt, writing, |take| prepared.pairs(&interrupt.control, take))
}

/// The document that `--stats` writes.
fn document(sides: &Sides, report: &VectorReport, seconds: &Seconds) -> String {
    let right = sides.right.as_ref();
    let document = json!({
        "records": { "left": sides.left.len(), "right": right.map(VectorCollection::len) },
        "dimension": sides.left.dimension(),
        "pairs": report.pairs,
        "candidates": report.candidates,
        "engine": report.engine.name(),
        "device_part": report.device_part,
        "planned_part": report.planned_part,
        "overlap": report.overlap,
        "virtual_seconds": report.virtual_seconds,
        "technique": report.technique,
        "details": report.details,
        "rotated": report.rotated,
        "threads": report.threads,
        "warnings": report.warnings,
        "seconds": seconds.json(),
    });
    format!("{document:#}\n")
}
