//! The `simjoin` command.
//!
//! A command has three steps: [`flags`] parses the arguments, [`settings`] checks and combines them, [`run`] and
//! [`bench`] execute. [`sets`], [`vectors`] and [`overlaps`] hold the differences between joins of sets, of vectors,
//! and without a threshold; [`generate`] and [`intersect`] are one file each. An error is one line on standard error;
//! the exit status is 0, 1 for an error of the run, 2 for wrong usage, 130 after Ctrl-C.

#![deny(unsafe_code)]
// These macros panic if the output is closed; `speak` does not.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod allocator;
mod bench;
mod devices;
mod explain;
mod flags;
mod generate;
mod intersect;
mod overlaps;
mod progress;
mod report;
mod run;
mod sets;
mod settings;
mod speak;
mod stats;
mod trace;
mod vectors;

use clap::error::{ContextKind, ErrorKind};
use clap::{CommandFactory, Parser};
use flags::{Command, Flags};
use settings::BenchSettings;
use simjoin::engine::{Error, Parameter};
use simjoin_io::{STANDARD_OUTPUT, escape_controls};
use speak::note;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: allocator::OrExit = allocator::OrExit;

fn main() -> ExitCode {
    let flags = match Flags::try_parse() {
        Ok(flags) => flags,
        Err(error) => return usage(&error),
    };
    let result = match flags.command {
        Command::Sets(flags) => sets::of_sets(flags).and_then(|settings| run::run(&settings)),
        Command::Text(flags) => sets::of_text(flags).and_then(|settings| run::run(&settings)),
        Command::Overlaps(flags) => overlaps::of(flags).and_then(|settings| run::run(&settings)),
        Command::Intersect(flags) => {
            intersect::IntersectSettings::of(flags).and_then(|settings| intersect::run(&settings))
        }
        Command::Vectors(flags) => vectors::of(flags).and_then(|settings| run::run(&settings)),
        Command::Devices => devices::run(),
        Command::Bench(flags) => {
            BenchSettings::of_bench(flags).and_then(|settings| bench::run(&settings))
        }
        Command::Generate(flags) => {
            generate::GenerateSettings::of(flags).and_then(|settings| generate::run(&settings))
        }
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Flags::command(), "simjoin", &mut script);
            let written = io::stdout().write_all(&script);
            written.map_err(|error| Error::io(STANDARD_OUTPUT, error))
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if reader_is_gone(&error) => ExitCode::SUCCESS,
        Err(error) => {
            let status = match error {
                Error::Config(_) | Error::Parameter { .. } => 2,
                // Shells report this status for a program that Ctrl-C ended.
                Error::Interrupted => 130,
                _ => 1,
            };
            fail(&error.message(flag), status)
        }
    }
}

/// Spells a parameter as a flag.
fn flag(parameter: Parameter) -> String {
    format!("--{}", parameter.name().replace('_', "-"))
}

/// Returns whether the reader of standard output has ended, as `head` does after its last line.
fn reader_is_gone(error: &Error) -> bool {
    matches!(error, Error::Io { path, source }
        if path == STANDARD_OUTPUT && source.kind() == io::ErrorKind::BrokenPipe)
}

/// Prints help and version unchanged, and a usage error as one line.
fn usage(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        return match error.print() {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => ExitCode::FAILURE,
            _ => ExitCode::SUCCESS,
        };
    }
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        note(format_args!("{}", error.render().to_string().trim_end()));
        return ExitCode::from(2);
    }
    if error.kind() == ErrorKind::ValueValidation
        && let Some(why) = std::error::Error::source(error)
    {
        let message = match (why.downcast_ref::<Error>(), error.get(ContextKind::InvalidArg)) {
            (Some(why), _) => why.message(flag),
            (None, Some(argument)) => {
                // The argument is shown with the name of its value.
                let argument = argument.to_string();
                format!("{} {why}", argument.split(' ').next().unwrap_or_default())
            }
            (None, None) => why.to_string(),
        };
        return fail(&message, 2);
    }
    let text = error.to_string();
    let first = text.split("\n\n").next().unwrap_or_default();
    let line = first.split_whitespace().collect::<Vec<_>>().join(" ");
    let line = line.strip_prefix("error: ").unwrap_or(&line);
    let help = match command_named() {
        Some(name) => format!("simjoin {name} --help"),
        None => "simjoin --help".into(),
    };
    fail(&format!("{line} (try '{help}')"), 2)
}

/// Returns the name of the command that was typed, if there is such a command.
fn command_named() -> Option<String> {
    let typed = std::env::args_os().nth(1)?;
    Flags::command().find_subcommand(&typed).map(|command| command.get_name().to_owned())
}

fn fail(message: &str, status: u8) -> ExitCode {
    let colours = io::stderr().is_terminal();
    let (bold, plain) = if colours { ("\x1b[1;31m", "\x1b[0m") } else { ("", "") };
    // A message is one line, and control characters in it must not reach the terminal.
    let message = message.replace(['\n', '\r'], " ");
    let message = escape_controls(&message);
    note(format_args!("{bold}simjoin:{plain} {message}"));
    ExitCode::from(status)
}
