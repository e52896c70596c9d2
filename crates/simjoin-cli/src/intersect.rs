//! How does `simjoin intersect` run?
//!
//! read both sets → sort them if they do not ascend → intersect → write.
//!
//! If both files hold only numbers below 2³², their elements are compared as numbers. Otherwise they are compared as
//! words, which a vocabulary numbers.

use crate::flags::IntersectFlags;
use crate::progress::{BYTES, PARTS, watch};
use crate::run::{Interrupt, print_warnings, total_bytes};
use crate::settings::{cores, different_files, is_standard};
use crate::speak::{answer, note};
use crate::stats::Seconds;
use rayon::prelude::*;
use serde_json::json;
use simjoin::engine::{Error, Intersect, IntersectReport, Result, ascending, pool};
use simjoin_io::{
    LinesWriter, NumberFormat, Numbers, Vocabulary, WholeFile, display_name, npy_header,
    read_numbers, read_words,
};
use std::hint::black_box;
use std::io::Write;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The checked options of `simjoin intersect`.
#[derive(Debug)]
pub struct IntersectSettings {
    files: [PathBuf; 2],
    intersect: Intersect,
    threads: usize,
    /// The output for the elements; `Some(None)` is standard output.
    output: Option<Option<PathBuf>>,
    containment: bool,
    /// The number of additional counts.
    repeat: usize,
    stats: Option<PathBuf>,
    explain: bool,
    quiet: bool,
}

impl IntersectSettings {
    pub fn of(flags: IntersectFlags) -> Result<Self> {
        let threads = flags.threads.unwrap_or_else(cores);
        let intersect =
            simjoin::engine::intersect().engine(flags.engine).technique(&flags.technique);
        intersect.check()?;
        if is_standard(&flags.left) && is_standard(&flags.right) {
            let message = "both sets are standard input (`-`); expected at most one";
            return Err(Error::Config(message.into()));
        }
        different_files(
            [Some(&flags.left), Some(&flags.right)],
            [("--output", &flags.output), ("--stats", &flags.stats)],
        )?;
        Ok(IntersectSettings {
            repeat: flags.repeat.unwrap_or(0),
            files: [flags.left, flags.right],
            intersect,
            threads,
            // `-` is standard output.
            output: flags.output.map(|path| Some(path).filter(|path| !is_standard(path))),
            containment: flags.containment,
            stats: flags.stats,
            explain: flags.explain,
            quiet: flags.quiet,
        })
    }
}

/// Two sets; if they are words, with the vocabulary that numbers them.
struct TwoSets {
    sets: [Vec<u32>; 2],
    words: Option<Vocabulary>,
}

pub fn run(settings: &IntersectSettings) -> Result<()> {
    let begin = Instant::now();
    let mut seconds = Seconds::default();
    let interrupt = Interrupt::install()?;
    let bytes = AtomicU64::new(0);
    let total = total_bytes(&settings.files[0], Some(&settings.files[1]));
    let TwoSets { sets, words } = watch(
        settings.quiet,
        "reading  ",
        BYTES,
        || (bytes.load(Ordering::Relaxed), total),
        || read(settings, &bytes),
    )?;
    seconds.read = begin.elapsed();

    let phase = Instant::now();
    let pool = pool(settings.threads)?;
    let [a, b] = watch(
        settings.quiet,
        "sorting  ",
        PARTS,
        || (0, 0),
        || pool.install(|| sets.map(ascending)),
    );
    seconds.prepare = phase.elapsed();
    if settings.explain {
        explain(settings, &a, &b)?;
    }

    // Outputs are opened first, so that a missing folder is reported before the work begins.
    interrupt.joining.store(true, Ordering::Relaxed);
    let stats = settings.stats.as_deref().map(WholeFile::create).transpose()?;
    let mut writing = Duration::ZERO;
    let phase = Instant::now();
    let report = watch(
        settings.quiet,
        "comparing",
        PARTS,
        || (0, 0),
        || {
            pool.install(|| match &settings.output {
                Some(path) => elements(
                    settings,
                    path.as_deref(),
                    (&a, &b),
                    words.as_ref(),
                    &interrupt,
                    &mut writing,
                ),
                None => settings.intersect.size(&a, &b),
            })
        },
    )?;
    interrupt.check()?;
    print_warnings(report.engine, &report.warnings)?;
    seconds.join = phase.elapsed().saturating_sub(writing);
    seconds.write = writing;
    if settings.output.as_ref().is_none_or(Option::is_some) {
        if settings.containment {
            answer(&report.containment())?;
        } else {
            answer(&report.size)?;
        }
    }
    seconds.total = begin.elapsed();
    let again = pool.install(|| repeat(settings, &a, &b))?;
    if settings.explain {
        note(format_args!(
            "found: {} elements, {} of the smaller set, by {} {} in {:.3} ms",
            report.size,
            report.containment(),
            report.technique,
            match report.device {
                None => format!("({}) on {} threads", report.tier, report.threads),
                Some((transfer, kernels)) => format!(
                    "on the GPU ({:.3} ms for transfers, {:.3} ms for kernels)",
                    1e3 * transfer,
                    1e3 * kernels
                ),
            },
            1e3 * report.seconds,
        ));
    }
    if let Some(file) = stats {
        file.finish(document(&report, &seconds, again).as_bytes())?;
    }
    Ok(())
}

fn read(settings: &IntersectSettings, bytes: &AtomicU64) -> Result<TwoSets> {
    let mut sets = Vec::new();
    let mut other = None;
    for path in &settings.files {
        match read_numbers(path, bytes)? {
            Numbers::All(numbers) => sets.push(numbers),
            Numbers::Other { line, word } => {
                other = Some((path, line, word));
                break;
            }
        }
    }
    let (Ok(sets), None) = (<[_; 2]>::try_from(sets), &other) else {
        let Some((path, line, word)) = other else {
            return Err(Error::Internal("a set was not read".into()));
        };
        // Both sets are compared as words, so both files are read again.
        let once = |path: &PathBuf| {
            is_standard(path) || std::fs::metadata(path).is_ok_and(|file| !file.is_file())
        };
        let numbers = |path: &PathBuf| NumberFormat::of_path(path) != NumberFormat::Text;
        if settings.files.iter().any(|path| once(path) || numbers(path)) {
            let name = display_name(path);
            let why = if settings.files.iter().any(numbers) {
                "the other file holds numbers"
            } else {
                "words can only be compared if both sets are ordinary files, because they are read twice"
            };
            return Err(Error::input(
                name,
                format!("line {line}"),
                format!("`{word}` is not a number from 0 to {}, and {why}", u32::MAX),
            ));
        }
        let mut words = Vocabulary::default();
        bytes.store(0, Ordering::Relaxed);
        let [left, right] = &settings.files;
        let sets = [read_words(left, &mut words, bytes)?, read_words(right, &mut words, bytes)?];
        return Ok(TwoSets { sets, words: Some(words) });
    };
    Ok(TwoSets { sets, words: None })
}

/// Writes the common elements.
fn elements(
    settings: &IntersectSettings,
    path: Option<&Path>,
    (a, b): (&[u32], &[u32]),
    words: Option<&Vocabulary>,
    interrupt: &Interrupt,
    writing: &mut Duration,
) -> Result<IntersectReport> {
    let format = path.map_or(NumberFormat::Text, NumberFormat::of_path);
    if words.is_some() && format != NumberFormat::Text {
        return Err(Error::Config(format!(
            "{} can only hold numbers, but the sets hold words; end the output with .txt",
            path.map(display_name).unwrap_or_default()
        )));
    }
    let mut writer = LinesWriter::create(path)?;
    if format == NumberFormat::Npy {
        // The header contains the number of elements.
        let size = settings.intersect.size(a, b)?.size;
        writer.write(&npy_header("<u4", &[size]))?;
    }
    let mut failure = None;
    let mut buffer = Vec::new();
    let report = settings.intersect.elements(a, b, |numbers| {
        let begin = Instant::now();
        buffer.clear();
        for &number in numbers {
            match (format, words) {
                (NumberFormat::Text, None) => {
                    // Writing to memory cannot fail.
                    let _ = writeln!(buffer, "{number}");
                }
                (NumberFormat::Text, Some(words)) => {
                    buffer.extend_from_slice(words.token(number));
                    buffer.push(b'\n');
                }
                _ => buffer.extend_from_slice(&number.to_le_bytes()),
            }
        }
        let result = interrupt.check().and_then(|()| writer.write(&buffer));
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

fn explain(settings: &IntersectSettings, a: &[u32], b: &[u32]) -> Result<()> {
    for (side, set) in [("left", a), ("right", b)] {
        match (set.first(), set.last()) {
            (Some(first), Some(last)) => note(format_args!(
                "{side}: {} elements from {first} to {last}, one in {:.1}",
                set.len(),
                (f64::from(last - first) + 1.0) / set.len() as f64,
            )),
            _ => note(format_args!("{side}: no elements")),
        }
    }
    let (technique, why) = settings.intersect.explain(a, b)?;
    note(format_args!("plan: {technique}: {why}"));
    Ok(())
}

/// Returns the shortest seconds of a repeated count, and of only reading both sets with the same threads.
fn repeat(settings: &IntersectSettings, a: &[u32], b: &[u32]) -> Result<Option<[f64; 2]>> {
    let mut shortest = [f64::INFINITY; 2];
    for _ in 0..settings.repeat {
        let begin = Instant::now();
        black_box(settings.intersect.size(black_box(a), black_box(b))?);
        shortest[0] = shortest[0].min(begin.elapsed().as_secs_f64());
        let begin = Instant::now();
        for set in [a, b] {
            let parts = set.par_chunks(1 << 17);
            black_box(parts.map(|part| part.iter().fold(0, |all, number| all ^ number)).max());
        }
        shortest[1] = shortest[1].min(begin.elapsed().as_secs_f64());
    }
    Ok((settings.repeat > 0).then_some(shortest))
}

fn document(report: &IntersectReport, seconds: &Seconds, again: Option<[f64; 2]>) -> String {
    let document = json!({
        "elements": { "left": report.sets.0, "right": report.sets.1 },
        "size": report.size,
        "containment": report.containment(),
        "engine": report.engine.name(),
        "technique": report.technique,
        "tier": report.tier,
        "threads": report.threads,
        "device": report.device.map(|(transfer, kernels)| json!({
            "transfer": transfer, "kernels": kernels
        })),
        "seconds": seconds.json(),
        "repeated": again.map(|[count, read]| json!({ "count": count, "read": read })),
    });
    format!("{document:#}\n")
}
