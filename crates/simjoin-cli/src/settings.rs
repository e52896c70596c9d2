//! What is meant by what was typed?
//!
//! What is wrong with the options alone is found before a file is opened.

use crate::bench::Pace;
use crate::flags::{AnswerFlags, BenchFlags, HowFlags, PredicateFlags};
use crate::run::Rows;
use simjoin::engine::{
    AUTO, Engine, Error, Join, Measure, Parameter, Predicate, Processor, Result, Sets, Split,
    Subject, Threshold, names,
};
use simjoin_io::{OutputFormat, ReadOptions, Tokenizer};
use std::cmp::Ordering;
use std::path::PathBuf;
use std::time::Duration;

/// What to hand out.
#[derive(Debug, PartialEq, Eq)]
pub enum Answer {
    Pairs,
    Count,
    Groups,
}

impl Answer {
    pub fn of(flags: &AnswerFlags) -> Self {
        match (flags.count, flags.groups) {
            (true, _) => Answer::Count,
            (_, true) => Answer::Groups,
            _ => Answer::Pairs,
        }
    }
}

/// A run, resolved.
#[derive(Debug)]
pub struct Settings<K: Rows> {
    /// The command: `sets`, `text`, `vectors` or `overlaps`.
    pub command: &'static str,
    pub left: String,
    pub right: Option<String>,
    /// Whether the right file is joined with itself as well.
    pub with_itself: bool,
    pub read: K::Read,
    pub join: Join<K>,
    pub threads: usize,
    pub answer: Answer,
    /// `None` is standard output.
    pub output: Option<String>,
    pub stats: Option<String>,
    pub trace: Option<String>,
    pub report: Option<String>,
    pub explain: bool,
    pub quiet: bool,
}

/// The files of a join, and what they are joined for.
pub struct Wanted {
    pub command: &'static str,
    pub files: (String, Option<String>),
    pub with_itself: bool,
    pub answer: AnswerFlags,
    pub how: HowFlags,
    pub technique: String,
}

impl<K: Rows> Settings<K> {
    /// Resolves a join; `read` is told the number of threads.
    pub fn resolve(
        wanted: Wanted,
        join: Join<K>,
        read: impl FnOnce(usize) -> Result<K::Read>,
    ) -> Result<Self> {
        let Wanted { command, files, with_itself, answer, how, technique } = wanted;
        let threads = how.threads.as_deref().map_or_else(|| Ok(cores()), number_of_threads)?;
        if with_itself && files.1.is_none() {
            return Err(Error::Config(
                "--with-itself is for two files: it joins RIGHT with LEFT and with itself, and RIGHT \
                 is missing"
                    .into(),
            ));
        }
        let engine: Engine = how.engine.parse()?;
        let mut join = join
            .engine(engine)
            .technique(&technique)
            .with_itself(with_itself)
            .timeline(answer.trace.is_some() || answer.report.is_some());
        if let Some(text) = &how.split {
            join = join.split(split(engine, text)?);
        }
        if let Some(text) = &how.limits.memory {
            join = join.memory(bytes("--memory", text)?);
        }
        if let Some(text) = &how.limits.device_memory {
            join = join.device_memory(bytes("--device-memory", text)?);
        }
        join.check()?;
        let output = pairs_file(answer.output.clone())?;
        different_files(&[
            ("--output", &output),
            ("--stats", &answer.stats),
            ("--trace", &answer.trace),
            ("--report", &answer.report),
        ])?;
        if files.0 == "-" && files.1.as_deref() == Some("-") {
            return Err(Error::Config(
                "only one of the two inputs can be standard input (-)".into(),
            ));
        }
        Ok(Settings {
            command,
            left: files.0,
            right: files.1,
            with_itself,
            read: read(threads)?,
            join,
            threads,
            answer: Answer::of(&answer),
            output,
            stats: answer.stats,
            trace: answer.trace,
            report: answer.report,
            explain: answer.explain,
            quiet: answer.quiet,
        })
    }
}

/// Tiles of a queue, unless it is said how many.
const QUEUE_TILES: u32 = 64;

/// Reads how a hybrid join is to be split.
fn split(engine: Engine, text: &str) -> Result<Split> {
    if engine != Engine::Hybrid {
        return Err(Error::Config("--split is for --engine hybrid".into()));
    }
    let share: Option<f64> = text.parse().ok().filter(|share| (0.0..=1.0).contains(share));
    let tiles = match text.strip_prefix("queue:") {
        Some(tiles) => tiles.parse().ok().filter(|tiles| (1..=1_000_000).contains(tiles)),
        None => (text == "queue").then_some(QUEUE_TILES),
    };
    match (share, tiles) {
        _ if text == "auto" => Ok(Split::Auto),
        (Some(share), _) => Ok(Split::Share(share)),
        (_, Some(tiles)) => Ok(Split::Queue(tiles)),
        _ => Err(Error::Config(format!(
            "--split {text:?} does not fit; expected auto, a share from 0 to 1, queue, or queue and a \
             number of tiles such as queue:100"
        ))),
    }
}

/// A bench, resolved.
#[derive(Debug)]
pub struct BenchSettings {
    pub file: String,
    /// With any number of threads: each number of threads reads on its own.
    pub read: ReadOptions,
    /// The highest threshold first, each once.
    pub predicates: Vec<Predicate>,
    pub contestants: Vec<Contestant>,
    pub threads: Vec<usize>,
    pub memory: Option<u64>,
    pub device_memory: Option<u64>,
    pub pairs: bool,
    pub pace: Pace,
    pub json: bool,
}

/// One way to join.
#[derive(Clone, Debug, PartialEq)]
pub struct Contestant {
    pub engine: Engine,
    /// How a hybrid join is split.
    pub split: Option<String>,
    pub technique: String,
}

impl Contestant {
    fn all(
        engines: &[Engine],
        splits: &[String],
        techniques: &[String],
        predicates: &[Predicate],
    ) -> Vec<Self> {
        let mut all = Vec::new();
        for &engine in engines {
            let of_engine: Vec<&str> = match engine {
                Engine::Gpu => names(Subject::Sets, Processor::Device).collect(),
                // Each side chooses.
                Engine::Hybrid => vec![AUTO],
                // Those that can do all of it, and are made for it.
                _ => {
                    let can = |name: &&str| {
                        predicates.iter().all(|&one| {
                            let made = *name != "mmjoin" || one.measure() == Measure::Containment;
                            made && simjoin::engine::techniques_for(one).contains(name)
                        })
                    };
                    let all = names(Subject::Sets, Processor::Cpu).filter(can);
                    std::iter::once(AUTO).chain(all).collect()
                }
            };
            let names: Vec<String> = if techniques.is_empty() {
                of_engine.iter().filter(|&&name| name != "naive").map(|&name| name.into()).collect()
            } else {
                techniques.to_vec()
            };
            let splits = match engine {
                Engine::Hybrid if !splits.is_empty() => splits.iter().cloned().map(Some).collect(),
                _ => vec![None],
            };
            for split in splits {
                let one =
                    |technique: String| Contestant { engine, split: split.clone(), technique };
                all.extend(names.iter().cloned().map(one));
            }
        }
        distinct(all)
    }

    fn join(&self, predicate: Predicate) -> Result<Join<Sets>> {
        let join = simjoin::engine::join(predicate).engine(self.engine).technique(&self.technique);
        Ok(match &self.split {
            Some(text) => join.split(split(self.engine, text)?),
            None => join,
        })
    }
}

impl BenchSettings {
    /// The join of a contestant for one of the predicates.
    pub fn join(&self, contestant: &Contestant, predicate: Predicate) -> Result<Join<Sets>> {
        let mut join = contestant.join(predicate)?;
        if let Some(bytes) = self.memory {
            join = join.memory(bytes);
        }
        if let Some(bytes) = self.device_memory {
            join = join.device_memory(bytes);
        }
        Ok(join)
    }

    /// What a contestant is called in a table: its technique, and where there are several engines what else
    /// distinguishes it.
    pub fn label(&self, contestant: &Contestant) -> String {
        let Contestant { engine, split, technique } = contestant;
        let several = self.contestants.iter().any(|one| one.engine != *engine);
        match split {
            Some(split) => format!("{engine} {split}"),
            None if several => format!("{engine} {technique}"),
            None => technique.clone(),
        }
    }

    pub fn of_bench(flags: BenchFlags) -> Result<Self> {
        if flags.file == "-" {
            return Err(Error::Config(
                "bench reads its file once per number of threads; standard input can be read only \
                 once, so name a file"
                    .into(),
            ));
        }
        let (measure, text) = predicate(&flags.predicate)?;
        let mut predicates = list(text, |text| Predicate::parse(measure, text))?;
        predicates.sort_by(|one, other| by_value(other.threshold(), one.threshold()));
        let threads = match &flags.threads {
            None if cores() == 1 => vec![1],
            None => vec![1, cores()],
            Some(text) => list(text, number_of_threads)?,
        };
        let engines = flags.engine.iter().map(|name| name.parse()).collect::<Result<Vec<_>>>()?;
        if !flags.split.is_empty() && !engines.contains(&Engine::Hybrid) {
            return Err(Error::Config("--split is for --engine hybrid".into()));
        }
        let contestants = Contestant::all(&engines, &flags.split, &flags.technique, &predicates);
        for contestant in &contestants {
            predicates.iter().try_for_each(|&predicate| contestant.join(predicate)?.check())?;
        }
        let pace = Pace {
            repeat: from_one("--repeat", &flags.repeat)?,
            budget: seconds("--budget", &flags.budget)?,
            limit: flags.limit.as_deref().map(|text| seconds("--limit", text)).transpose()?,
        };
        let size = |flag, text: &Option<String>| -> Result<Option<u64>> {
            text.as_deref().map(|text| bytes(flag, text)).transpose()
        };
        let read = ReadOptions {
            tokenizer: flags.tokens.map_or(Ok(Tokenizer::Whitespace), |name| name.parse())?,
            multiset: flags.input.multiset,
            format: flags.input.format.as_deref().map(str::parse).transpose()?,
            column: flags.input.column,
            id: None,
            threads: 1,
        };
        Ok(BenchSettings {
            file: flags.file,
            read,
            predicates,
            contestants,
            threads,
            memory: size("--memory", &flags.limits.memory)?,
            device_memory: size("--device-memory", &flags.limits.device_memory)?,
            pairs: flags.pairs,
            pace,
            json: flags.json,
        })
    }
}

/// The measure that was chosen and what was typed for it.
pub fn predicate(flags: &PredicateFlags) -> Result<(Measure, &str)> {
    [
        (Measure::Jaccard, &flags.jaccard),
        (Measure::Cosine, &flags.cosine),
        (Measure::Dice, &flags.dice),
        (Measure::Overlap, &flags.overlap),
        (Measure::Containment, &flags.containment),
    ]
    .into_iter()
    .find_map(|(measure, text)| text.as_deref().map(|text| (measure, text)))
    .ok_or_else(|| Error::Config("no threshold was given, such as --jaccard 0.8".into()))
}

pub fn cores() -> usize {
    simjoin::engine::threads(None).unwrap_or(1)
}

pub fn number_of_threads(text: &str) -> Result<usize> {
    let number = text.parse().map_err(|_| {
        let message = format!("{text:?} is not a whole number; expected one from 1, such as 4");
        Error::parameter(Parameter::Threads, message)
    })?;
    simjoin::engine::threads(Some(number))
}

/// Compares two thresholds; each part is at most 10¹⁸, so the products fit.
fn by_value(one: Threshold, other: Threshold) -> Ordering {
    let product = |p: u64, q: u64| u128::from(p) * u128::from(q);
    product(one.numerator(), other.denominator())
        .cmp(&product(other.numerator(), one.denominator()))
}

/// Reads a number of seconds such as `2` or `0.5`.
fn seconds(option: &str, text: &str) -> Result<Duration> {
    text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()).ok_or_else(
        || Error::Config(format!("{option} {text:?} does not fit; expected seconds, such as 2.5")),
    )
}

/// Reads a comma-separated list; what is repeated counts once.
fn list<T: PartialEq>(text: &str, read: impl Fn(&str) -> Result<T>) -> Result<Vec<T>> {
    text.split(',').map(|part| read(part.trim())).collect::<Result<_>>().map(distinct)
}

/// The first of each value, in order.
fn distinct<T: PartialEq>(values: Vec<T>) -> Vec<T> {
    let mut kept = Vec::with_capacity(values.len());
    for value in values {
        if !kept.contains(&value) {
            kept.push(value);
        }
    }
    kept
}

/// Reads a whole number from 1.
pub fn from_one(option: &str, text: &str) -> Result<usize> {
    text.parse().ok().filter(|&number| number >= 1).ok_or_else(|| {
        Error::Config(format!("{option} {text:?} does not fit; expected a whole number from 1"))
    })
}

/// The file that pairs or groups go to, if its name says how; `None` is standard output, by name as well.
pub fn pairs_file(output: Option<String>) -> Result<Option<String>> {
    let output = output.filter(|path| path != "-");
    if let Some(path) = output.as_ref().filter(|path| !is_special(path)) {
        OutputFormat::of_path(path)?;
    }
    Ok(output)
}

/// Refuses options that would write one over the other's file.
pub fn different_files(files: &[(&str, &Option<String>)]) -> Result<()> {
    let mut seen: Vec<(&str, PathBuf)> = Vec::new();
    for &(option, path) in files {
        let Some(path) = path.as_ref().filter(|path| !is_special(path)) else { continue };
        // A name that cannot be resolved is refused when the file is opened.
        let whole = std::path::absolute(path).unwrap_or_else(|_| path.into());
        if let Some((other, _)) = seen.iter().find(|(_, one)| *one == whole) {
            return Err(Error::Config(format!(
                "{other} and {option} both write to {path}; expected two files"
            )));
        }
        seen.push((option, whole));
    }
    Ok(())
}

/// A device or a pipe, which may have any name.
fn is_special(path: &str) -> bool {
    std::fs::metadata(path).is_ok_and(|file| !file.is_file() && !file.is_dir())
}

/// Reads a size such as `512M`.
pub fn bytes(flag: &str, text: &str) -> Result<u64> {
    simjoin::engine::parse_bytes(text).ok_or_else(|| {
        Error::Config(format!("{flag} {text:?} is not a size; expected one such as 512M or 4G"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_count_each_value_once_and_refuse_what_one_part_refuses() {
        assert_eq!(list("2, 1,2", number_of_threads).unwrap(), [2, 1]);
        for wrong in ["", "1,", "1,x", "0", "1,1025"] {
            assert!(list(wrong, number_of_threads).is_err(), "{wrong}");
        }
    }

    #[test]
    fn thresholds_compare_by_value() {
        let read = |text| Threshold::parse_ratio(text).unwrap();
        assert_eq!(by_value(read("2/3"), read("0.66")), Ordering::Greater);
        assert_eq!(by_value(read("0.50"), read("1/2")), Ordering::Equal);
        let (long, longer) = (read("0.999999999999999998"), read("0.999999999999999999"));
        assert_eq!(by_value(long, longer), Ordering::Less);
    }

    #[test]
    fn numbers_of_seconds() {
        assert_eq!(seconds("--budget", "0.5").unwrap(), Duration::from_millis(500));
        assert_eq!(seconds("--budget", "0").unwrap(), Duration::ZERO);
        for wrong in ["", "-1", "NaN", "inf", "1e300", "soon"] {
            assert!(seconds("--budget", wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn sizes() {
        assert_eq!(bytes("--memory", "512M").unwrap(), 512 << 20);
        assert_eq!(bytes("--memory", "4g").unwrap(), 4 << 30);
        assert_eq!(bytes("--memory", "1.5KiB").unwrap(), 1536);
        assert_eq!(bytes("--memory", "1000").unwrap(), 1000);
        assert_eq!(bytes("--memory", "2MB").unwrap(), 2 << 20);
        for wrong in ["", "M", "-1G", "0", "1X", "1.2.3M", "99999999T", "half"] {
            assert!(bytes("--memory", wrong).is_err(), "{wrong}");
        }
    }
}
