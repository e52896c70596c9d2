//! What does `simjoin overlaps` mean, and how does it go?
//!
//! read → prepare → count → write, as a join goes.

use crate::flags::OverlapsFlags;
use crate::progress::{BYTES, PARTS, watch};
use crate::run::{Interrupt, tell_faults, total_bytes, write_pairs};
use crate::settings::{bytes, cores, different_files, from_one, number_of_threads, pairs_file};
use crate::speak::{answer, note};
use crate::stats::Seconds;
use serde_json::json;
use simjoin::{
    Engine, Overlaps, OverlapsReport, Result, SetCollection, duration, grouped, pool, prepare,
};
use simjoin_io::{Ids, PairWriter, ReadOptions, Tokenizer, WholeFile, read_sets};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A run of `simjoin overlaps`, resolved.
#[derive(Debug)]
pub struct Settings {
    left: String,
    right: Option<String>,
    read: ReadOptions,
    overlaps: Overlaps,
    threads: usize,
    count: bool,
    /// `None` is standard output.
    output: Option<String>,
    stats: Option<String>,
    explain: bool,
    quiet: bool,
}

impl Settings {
    pub fn of(flags: OverlapsFlags) -> Result<Self> {
        let threads = flags.threads.as_deref().map_or_else(|| Ok(cores()), number_of_threads)?;
        let top = flags.top.as_deref().map(|text| from_one("--top", text));
        let mut overlaps = Overlaps::new()
            .engine(flags.engine.parse()?)
            .technique(&flags.technique)
            .positive(flags.positive)
            .top(top.transpose()?);
        if let Some(text) = &flags.limits.memory {
            overlaps = overlaps.memory(bytes("--memory", text)?);
        }
        if let Some(text) = &flags.limits.device_memory {
            overlaps = overlaps.device_memory(bytes("--device-memory", text)?);
        }
        overlaps.check()?;
        let output = pairs_file(flags.output)?;
        different_files(&[("--output", &output), ("--stats", &flags.stats)])?;
        let read = ReadOptions {
            tokenizer: flags.tokens.map_or(Ok(Tokenizer::Whitespace), |name| name.parse())?,
            multiset: flags.input.multiset,
            format: flags.input.format.as_deref().map(str::parse).transpose()?,
            column: flags.input.column,
            id: flags.id,
            threads,
        };
        Ok(Settings {
            left: flags.left,
            right: flags.right,
            read,
            overlaps,
            threads,
            count: flags.count,
            output,
            stats: flags.stats,
            explain: flags.explain,
            quiet: flags.quiet,
        })
    }
}

pub fn run(settings: &Settings) -> Result<()> {
    let begin = Instant::now();
    let mut seconds = Seconds::default();
    let interrupt = Interrupt::install()?;
    let bytes = AtomicU64::new(0);
    let right = settings.right.as_deref();
    let total = total_bytes(&settings.left, right);
    let input = watch(
        settings.quiet,
        "reading  ",
        BYTES,
        || (bytes.load(Ordering::Relaxed), total),
        || read_sets(&settings.left, right, &settings.read, &bytes),
    )?;
    seconds.read = begin.elapsed();

    let phase = Instant::now();
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
    let sides = (&left, right.as_ref());
    seconds.prepare = phase.elapsed();
    if settings.explain {
        pool.install(|| explain(settings, sides))?;
    }

    interrupt.joining.store(true, Ordering::Relaxed);
    // Outputs are opened before the work: a folder that does not exist should not cost it.
    let stats = settings.stats.as_deref().map(WholeFile::create).transpose()?;
    let mut writing = Duration::ZERO;
    let phase = Instant::now();
    let report = watch(
        settings.quiet,
        "counting ",
        PARTS,
        || interrupt.control.progress(),
        || {
            pool.install(|| {
                if settings.count {
                    settings.overlaps.count(sides.0, sides.1, &interrupt.control)
                } else {
                    let ids = (left_ids.as_ref(), right_ids.as_ref());
                    pairs(settings, sides, ids, &interrupt, &mut writing)
                }
            })
        },
    )?;
    interrupt.check()?;
    tell_faults(Engine::Cpu, &report.warnings)?;
    if settings.count {
        answer(&report.pairs)?;
    }
    seconds.join = phase.elapsed().saturating_sub(writing);
    seconds.write = writing;
    seconds.total = begin.elapsed();
    if settings.explain {
        let (place, rest) = match report.engine {
            Engine::Gpu => ("GPU", String::new()),
            _ => {
                let passes = if report.passes == 1 { "pass" } else { "passes" };
                let estimated = duration(report.estimated);
                ("CPU", format!(", {} {passes} (estimated {estimated})", report.passes))
            }
        };
        note(format_args!(
            "found: {} pairs, {} counted by {} on the {place} in {}{rest}",
            grouped(report.pairs),
            grouped(report.counted),
            report.technique,
            duration(seconds.join.as_secs_f64()),
        ));
    }
    if let Some(file) = stats {
        file.finish(document(sides, tokens, &report, &seconds).as_bytes())?;
    }
    Ok(())
}

fn pairs(
    settings: &Settings,
    (left, right): (&SetCollection, Option<&SetCollection>),
    (left_ids, right_ids): (Option<&Ids>, Option<&Ids>),
    interrupt: &Interrupt,
    writing: &mut Duration,
) -> Result<OverlapsReport> {
    let right_ids = if right.is_some() { right_ids } else { left_ids };
    let writer = PairWriter::create_overlaps(settings.output.as_deref(), left_ids, right_ids)?;
    write_pairs(writer, interrupt, writing, |take| {
        settings.overlaps.pairs(left, right, &interrupt.control, take)
    })
}

fn explain(
    settings: &Settings,
    (left, right): (&SetCollection, Option<&SetCollection>),
) -> Result<()> {
    for (side, sets) in [("left", Some(left)), ("right", right)] {
        let Some(sets) = sets else { continue };
        note(format_args!(
            "{}: {} records, {} distinct sets of {} tokens on average, universe {}",
            if right.is_some() { side } else { "input" },
            grouped(sets.records() as u64),
            grouped(sets.len() as u64),
            sets.total_tokens() / sets.len().max(1),
            grouped(sets.universe().into()),
        ));
    }
    if let Some(technique) = settings.overlaps.on_gpu() {
        note(format_args!("plan: {technique} on the GPU, as was asked for"));
        return Ok(());
    }
    let threads = settings.threads;
    note(format_args!("plan, on {threads} {}:", if threads == 1 { "thread" } else { "threads" }));
    for (at, (name, words, seconds)) in settings.overlaps.explain(left, right)?.iter().enumerate() {
        let mark = if at == 0 { "  <- chosen" } else { "" };
        let bits = match *words {
            0 => String::new(),
            words => format!("{} bits", grouped(64 * words as u64)),
        };
        note(format_args!("  {name:<10} {bits:>16} {:>12}{mark}", duration(*seconds)));
    }
    Ok(())
}

fn document(
    (left, right): (&SetCollection, Option<&SetCollection>),
    tokens: usize,
    report: &OverlapsReport,
    seconds: &Seconds,
) -> String {
    let document = json!({
        "records": { "left": left.records(), "right": right.map(SetCollection::records) },
        "distinct": { "left": left.len(), "right": right.map(SetCollection::len) },
        "tokens": tokens,
        "universe": left.universe(),
        "pairs": report.pairs,
        "candidates": report.counted,
        "engine": report.engine.name(),
        "technique": report.technique,
        "bits": report.bits,
        "passes": report.passes,
        "threads": report.threads,
        "warnings": report.warnings,
        "seconds": seconds.json(),
    });
    format!("{document:#}\n")
}
