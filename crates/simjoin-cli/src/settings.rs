//! How are flags checked and combined?
//!
//! Mistakes in the options are found before a file is opened.

use crate::bench::Pace;
use crate::flags::{AnswerFlags, BenchFlags, HowFlags, Predicates, SplitFlag};
use crate::run::JoinCommand;
use simjoin::engine::{
    AUTO, Engine, Error, Join, Measure, Predicate, Processor, Result, Sets, Subject, names,
};
use simjoin_io::{OutputFormat, ReadOptions, Tokenizer, check_outputs};
use std::path::{Path, PathBuf};

/// The kind of answer.
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

/// The settings of a join.
#[derive(Debug)]
pub struct JoinSettings<K: JoinCommand> {
    /// The command: `sets`, `text`, `vectors` or `overlaps`.
    pub command: &'static str,
    pub left: PathBuf,
    pub right: Option<PathBuf>,
    /// Whether the right file is joined with itself as well.
    pub with_itself: bool,
    pub read: K::Read,
    pub join: Join<K>,
    pub threads: usize,
    pub answer: Answer,
    /// `None` is standard output.
    pub output: Option<PathBuf>,
    pub stats: Option<PathBuf>,
    pub trace: Option<PathBuf>,
    pub report: Option<PathBuf>,
    pub explain: bool,
    pub quiet: bool,
}

/// The flags that all joins have.
pub struct CommonFlags {
    pub command: &'static str,
    pub files: (PathBuf, Option<PathBuf>),
    pub with_itself: bool,
    pub answer: AnswerFlags,
    pub how: HowFlags,
    pub technique: String,
}

impl<K: JoinCommand> JoinSettings<K> {
    /// Combines the flags of a join; `read` receives the number of threads.
    pub fn resolve(
        flags: CommonFlags,
        join: Join<K>,
        read: impl FnOnce(usize) -> Result<K::Read>,
    ) -> Result<Self> {
        let CommonFlags { command, files, with_itself, answer, how, technique } = flags;
        let threads = how.threads.unwrap_or_else(cores);
        if with_itself && files.1.is_none() {
            return Err(Error::Config(
                "--with-itself needs two files, because it joins RIGHT with LEFT and with itself, and \
                 RIGHT is missing"
                    .into(),
            ));
        }
        let mut join = join
            .engine(how.engine)
            .technique(&technique)
            .with_itself(with_itself)
            .timeline(answer.trace.is_some() || answer.report.is_some());
        if let Some(flag) = how.split {
            only_hybrid(how.engine == Engine::Hybrid)?;
            join = join.split(flag.split);
        }
        if let Some(bytes) = how.limits.memory {
            join = join.memory(bytes);
        }
        if let Some(bytes) = how.limits.device_memory {
            join = join.device_memory(bytes);
        }
        join.check()?;
        let output = pairs_file(answer.output.clone())?;
        different_files(
            [Some(&files.0), files.1.as_ref()],
            [
                ("--output", &output),
                ("--stats", &answer.stats),
                ("--trace", &answer.trace),
                ("--report", &answer.report),
            ],
        )?;
        if is_standard(&files.0) && files.1.as_deref().is_some_and(is_standard) {
            return Err(Error::Config(
                "both inputs are standard input (`-`); expected at most one".into(),
            ));
        }
        Ok(JoinSettings {
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

/// Refuses a split of a join that is not hybrid.
fn only_hybrid(hybrid: bool) -> Result<()> {
    match hybrid {
        true => Ok(()),
        false => Err(Error::Config("--split needs --engine hybrid".into())),
    }
}

/// The settings of a benchmark.
#[derive(Debug)]
pub struct BenchSettings {
    pub file: PathBuf,
    /// The options for reading. The number of threads is set later, because each number of threads reads the file again.
    pub read: ReadOptions,
    /// The predicates, the highest threshold first, each once.
    pub predicates: Vec<Predicate>,
    pub contestants: Vec<Contestant>,
    pub threads: Vec<usize>,
    pub memory: Option<u64>,
    pub device_memory: Option<u64>,
    pub pairs: bool,
    pub pace: Pace,
    pub json: bool,
}

/// An engine, a split and a technique.
#[derive(Clone, Debug, PartialEq)]
pub struct Contestant {
    pub engine: Engine,
    /// The split of a hybrid join.
    pub split: Option<SplitFlag>,
    pub technique: String,
}

impl Contestant {
    fn all(
        engines: &[Engine],
        splits: &[SplitFlag],
        techniques: &[String],
        predicates: &[Predicate],
    ) -> Vec<Self> {
        let mut all = Vec::new();
        for &engine in engines {
            let of_engine: Vec<&str> = match engine {
                Engine::Gpu => names(Subject::Sets, Processor::Device).collect(),
                // Each processor chooses its technique.
                Engine::Hybrid => vec![AUTO],
                // The techniques that support every predicate. `mmjoin` is only useful for containment.
                _ => {
                    let can = |name: &&str| {
                        predicates.iter().all(|&one| {
                            let useful = *name != "mmjoin" || one.measure() == Measure::Containment;
                            useful && simjoin::engine::techniques_for(one).contains(name)
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

    fn join(&self, predicate: Predicate) -> Join<Sets> {
        let join = simjoin::engine::join(predicate).engine(self.engine).technique(&self.technique);
        match &self.split {
            Some(flag) => join.split(flag.split),
            None => join,
        }
    }
}

impl BenchSettings {
    /// Returns the join of a contestant for one of the predicates.
    pub fn join(&self, contestant: &Contestant, predicate: Predicate) -> Join<Sets> {
        let mut join = contestant.join(predicate);
        if let Some(bytes) = self.memory {
            join = join.memory(bytes);
        }
        if let Some(bytes) = self.device_memory {
            join = join.device_memory(bytes);
        }
        join
    }

    /// Returns the name of a contestant in a table: its technique, and with several engines the engine and the split.
    pub fn label(&self, contestant: &Contestant) -> String {
        let Contestant { engine, split, technique } = contestant;
        let several = self.contestants.iter().any(|one| one.engine != *engine);
        match split {
            Some(split) => format!("{engine} {}", split.text),
            None if several => format!("{engine} {technique}"),
            None => technique.clone(),
        }
    }

    pub fn of_bench(flags: BenchFlags) -> Result<Self> {
        if is_standard(&flags.file) {
            return Err(Error::Config(
                "bench reads its file once per number of threads, but standard input can only be read \
                 once; name a file"
                    .into(),
            ));
        }
        let Predicates(predicates) = flags.predicate.value()?;
        let threads = match flags.threads.is_empty() {
            true => distinct(vec![1, cores()]),
            false => distinct(flags.threads),
        };
        only_hybrid(flags.split.is_empty() || flags.engine.contains(&Engine::Hybrid))?;
        let contestants =
            Contestant::all(&flags.engine, &flags.split, &flags.technique, &predicates);
        for contestant in &contestants {
            predicates.iter().try_for_each(|&predicate| contestant.join(predicate).check())?;
        }
        let pace = Pace { repeat: flags.repeat, budget: flags.budget, limit: flags.limit };
        let read = ReadOptions {
            tokenizer: flags.tokens.unwrap_or(Tokenizer::Whitespace),
            multiset: flags.input.multiset,
            format: flags.input.format,
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
            memory: flags.limits.memory,
            device_memory: flags.limits.device_memory,
            pairs: flags.pairs,
            pace,
            json: flags.json,
        })
    }
}

pub fn cores() -> usize {
    simjoin::engine::threads(None).unwrap_or(1)
}

/// Removes repeated values, and keeps the order.
fn distinct<T: PartialEq>(values: Vec<T>) -> Vec<T> {
    let mut kept = Vec::with_capacity(values.len());
    for value in values {
        if !kept.contains(&value) {
            kept.push(value);
        }
    }
    kept
}

/// Returns whether a path is standard input or output by name.
pub fn is_standard(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Checks the ending of the file for pairs or groups; `None` is standard output, which `-` names as well.
pub fn pairs_file(output: Option<PathBuf>) -> Result<Option<PathBuf>> {
    let output = output.filter(|path| !is_standard(path));
    if let Some(path) = &output {
        OutputFormat::of_path(path)?;
    }
    Ok(output)
}

/// Refuses outputs that would overwrite an input or one another.
pub fn different_files<const I: usize, const O: usize>(
    inputs: [Option<&PathBuf>; I],
    outputs: [(&str, &Option<PathBuf>); O],
) -> Result<()> {
    let inputs: Vec<&Path> = inputs.into_iter().flatten().map(PathBuf::as_path).collect();
    let outputs = outputs.into_iter().filter_map(|(option, path)| Some((option, path.as_deref()?)));
    check_outputs(&inputs, &outputs.collect::<Vec<_>>())
}
