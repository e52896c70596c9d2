//! What is meant by what was typed?
//!
//! What is wrong with the options alone is found before a file is opened.

use crate::flags::{JoinFlags, SetsFlags, TextFlags};
use simjoin::{Engine, Error, Join, Measure, Predicate, Result};
use simjoin_io::{OutputFormat, ReadOptions, Tokenizer};

/// What to hand out.
#[derive(Debug, PartialEq, Eq)]
pub enum Answer {
    Pairs,
    Count,
    Groups,
}

/// A run, resolved.
#[derive(Debug)]
pub struct Settings {
    pub left: String,
    pub right: Option<String>,
    pub read: ReadOptions,
    pub join: Join,
    pub threads: usize,
    pub answer: Answer,
    /// `None` is standard output.
    pub output: Option<String>,
    pub stats: Option<String>,
    pub quiet: bool,
}

impl Settings {
    pub fn of_sets(flags: SetsFlags) -> Result<Self> {
        resolve(flags.join, Tokenizer::Whitespace)
    }

    pub fn of_text(flags: TextFlags) -> Result<Self> {
        resolve(flags.join, flags.tokens.parse()?)
    }
}

fn resolve(flags: JoinFlags, tokenizer: Tokenizer) -> Result<Settings> {
    let predicate = [
        (Measure::Jaccard, &flags.jaccard),
        (Measure::Cosine, &flags.cosine),
        (Measure::Dice, &flags.dice),
        (Measure::Overlap, &flags.overlap),
        (Measure::Containment, &flags.containment),
    ]
    .into_iter()
    .find_map(|(measure, text)| text.as_deref().map(|text| Predicate::parse(measure, text)))
    .ok_or_else(|| Error::Config("no threshold was given, such as --jaccard 0.8".into()))??;
    let engine: Engine = flags.engine.parse()?;
    let threads = match &flags.threads {
        None => std::thread::available_parallelism().map_or(1, usize::from),
        Some(text) => {
            text.parse().ok().filter(|n| (1..=MAX_THREADS).contains(n)).ok_or_else(|| {
                Error::Config(format!(
                    "--threads {text:?} does not fit; expected a number from 1 to {MAX_THREADS}"
                ))
            })?
        }
    };
    let mut join = Join::new(predicate).engine(engine).technique(&flags.technique);
    if let Some(text) = &flags.memory {
        join = join.memory(bytes(text)?);
    }
    join.check()?;
    let format = flags.format.as_deref().map(str::parse).transpose()?;
    // Standard output by name is standard output.
    let output = flags.output.filter(|path| path != "-");
    if let Some(path) = output.as_ref().filter(|path| !is_special(path)) {
        OutputFormat::of_path(path)?;
    }
    let answer = match (flags.count, flags.groups) {
        (true, _) => Answer::Count,
        (_, true) => Answer::Groups,
        _ => Answer::Pairs,
    };
    let read = ReadOptions {
        tokenizer,
        multiset: flags.multiset,
        format,
        column: flags.column,
        id: flags.id,
        threads,
    };
    Ok(Settings {
        left: flags.left,
        right: flags.right,
        read,
        join,
        threads,
        answer,
        output,
        stats: flags.stats,
        quiet: flags.quiet,
    })
}

const MAX_THREADS: usize = 1024;

/// A device or a pipe, which may have any name.
fn is_special(path: &str) -> bool {
    std::fs::metadata(path).is_ok_and(|file| !file.is_file() && !file.is_dir())
}

/// Reads a size such as `512M`, `4G`, `1.5GiB` or `1000000`.
fn bytes(text: &str) -> Result<u64> {
    let wrong = || {
        Error::Config(format!("--memory {text:?} is not a size; expected one such as 512M or 4G"))
    };
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let shift = match unit.to_ascii_uppercase().trim_end_matches("IB").trim_end_matches('B') {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        _ => return Err(wrong()),
    };
    let number: f64 = number.parse().map_err(|_| wrong())?;
    let bytes = number * (1u64 << shift) as f64;
    if bytes >= 1.0 && bytes < (1u64 << 60) as f64 { Ok(bytes as u64) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(bytes("512M").unwrap(), 512 << 20);
        assert_eq!(bytes("4g").unwrap(), 4 << 30);
        assert_eq!(bytes("1.5KiB").unwrap(), 1536);
        assert_eq!(bytes("1000").unwrap(), 1000);
        assert_eq!(bytes("2MB").unwrap(), 2 << 20);
        for wrong in ["", "M", "-1G", "0", "1X", "1.2.3M", "99999999T", "half"] {
            assert!(bytes(wrong).is_err(), "{wrong}");
        }
    }
}
