//! How does `simjoin generate` run?
//!
//! Mistakes in the options are found before a file is opened.

use crate::flags::{GenerateCommand, GenerateOutput, SyntheticFlags};
use crate::progress::{BYTES, PARTS, watch};
use crate::run::Interrupt;
use crate::settings::is_standard;
use simjoin::engine::{Error, Result};
use simjoin_generate::{
    Dirty, FrequencyOrder, PROFILES, PointFormat, Points, Profile, Shape, SizeLaw, Synthetic,
    Tokens, inflate,
};
use simjoin_io::{Format, LinesWriter, NumberFormat, display_name, npy_header};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// The collection to generate.
#[derive(Debug)]
enum Job {
    List,
    Synthetic(Synthetic),
    Inflate { file: PathBuf, times: u64 },
    Dirty { file: PathBuf, dirty: Dirty },
    Points { points: Points, format: PointFormat },
}

/// The checked options of `simjoin generate`.
#[derive(Debug)]
pub struct GenerateSettings {
    job: Job,
    /// `None` is standard output.
    output: Option<PathBuf>,
    format: NumberFormat,
    quiet: bool,
}

impl GenerateSettings {
    pub fn of(flags: GenerateCommand) -> Result<Self> {
        let (job, output) = match flags {
            GenerateCommand::Uniform(flags) => synthetic(flags, Tokens::Uniform)?,
            GenerateCommand::Zipf { synthetic: flags, exponent } => {
                synthetic(flags, Tokens::Zipf(exponent))?
            }
            GenerateCommand::Like { name: None, output, .. } => (Job::List, output),
            GenerateCommand::Like { name: Some(profile), sets, seed, output, .. } => {
                let sets = sets.unwrap_or(profile.sets);
                (Job::Synthetic(profile.synthetic(sets, seed.seed)), output)
            }
            GenerateCommand::Normal { synthetic: flags, deviation } => {
                let deviation = deviation.unwrap_or_else(|| flags.universe.div_ceil(8));
                synthetic(flags, Tokens::Normal(deviation))?
            }
            GenerateCommand::Inflate { file, times, output } => {
                (Job::Inflate { file: lines("inflate", file)?, times }, output)
            }
            GenerateCommand::Dirty { file, copies, edits, seed, output } => {
                let dirty = Dirty { copies, edits, seed: seed.seed };
                dirty.check()?;
                (Job::Dirty { file: lines("dirty", file)?, dirty }, output)
            }
            GenerateCommand::Vectors {
                shape,
                vectors,
                dimension,
                clusters,
                spread,
                seed,
                output,
            } => {
                let given = [("--clusters", clusters.is_some()), ("--spread", spread.is_some())];
                if let Some((option, _)) =
                    given.iter().find(|(_, given)| shape == "uniform" && *given)
                {
                    return Err(Error::Config(format!(
                        "{option} only applies to the shapes clusters and correlated, not to uniform"
                    )));
                }
                let spread = spread.unwrap_or(0.05);
                let points = Points {
                    vectors,
                    dimension,
                    clusters: clusters.unwrap_or(5),
                    shape: match shape.as_str() {
                        "uniform" => Shape::Uniform,
                        "clusters" => Shape::Clusters(spread),
                        _ => Shape::Correlated(spread),
                    },
                    seed: seed.seed,
                };
                points.check()?;
                let path = output.output.as_deref().filter(|path| !is_standard(path));
                (Job::Points { points, format: PointFormat::of_path(path)? }, output)
            }
        };
        let GenerateOutput { output, quiet } = output;
        // `-` is standard output.
        let output = output.filter(|path| !is_standard(path));
        // Vectors have formats of their own.
        let format = match (&job, output.as_deref()) {
            (Job::Points { .. }, _) | (_, None) => NumberFormat::Text,
            (_, Some(path)) => NumberFormat::of_path(path),
        };
        if format != NumberFormat::Text
            && !matches!(&job, Job::Synthetic(synthetic) if synthetic.sets == 1)
        {
            return Err(Error::Config(format!(
                "{} can only hold a single set; add --sets 1, or choose another ending",
                output.as_deref().map(display_name).unwrap_or_default()
            )));
        }
        Ok(GenerateSettings { job, output, format, quiet })
    }
}

fn synthetic(flags: SyntheticFlags, tokens: Tokens) -> Result<(Job, GenerateOutput)> {
    let synthetic = Synthetic {
        sets: flags.sets,
        universe: flags.universe,
        size: flags.size,
        sizes: SizeLaw::Poisson,
        tokens,
        seed: flags.seed.seed,
    };
    synthetic.check()?;
    Ok((Job::Synthetic(synthetic), flags.output))
}

/// Refuses a file whose ending names a format other than lines.
fn lines(command: &str, file: PathBuf) -> Result<PathBuf> {
    match Format::of_path(&file) {
        Format::Lines => Ok(file),
        format => Err(Error::Config(format!(
            "{} has the ending of a {format} file, but generate {command} only reads files with one record per line",
            display_name(&file)
        ))),
    }
}

pub fn run(settings: &GenerateSettings) -> Result<()> {
    let interrupt = Interrupt::install()?;
    let (done, bytes) = (AtomicU64::new(0), AtomicU64::new(0));
    let show = |label,
                template,
                counter: &AtomicU64,
                total,
                work: &mut dyn FnMut() -> Result<()>| {
        watch(settings.quiet, label, template, || (counter.load(Ordering::Relaxed), total), work)
    };
    match &settings.job {
        Job::List => {
            let mut output = Output::new(settings, &interrupt);
            output.write(b"name\tsets\tsize\tuniverse\tabout\n")?;
            for Profile { name, about, sets, size, universe, .. } in PROFILES {
                let line = format!("{name}\t{sets}\t{size}\t{universe}\t{about}\n");
                output.write(line.as_bytes())?;
            }
            output.finish()
        }
        Job::Synthetic(synthetic) => {
            let mut output = Output::new(settings, &interrupt);
            show("making   ", PARTS, &done, synthetic.sets, &mut || {
                if settings.format == NumberFormat::Text {
                    return synthetic.write(&done, |lines| output.write(lines));
                }
                synthetic.draw(&done, |set| {
                    if settings.format == NumberFormat::Npy {
                        output.write(&npy_header("<u4", &[set.len() as u64]))?;
                    }
                    set.chunks(1 << 16).try_for_each(|part| {
                        let bytes: Vec<u8> = part.iter().flat_map(|n| n.to_le_bytes()).collect();
                        output.write(&bytes)
                    })
                })
            })?;
            output.finish()
        }
        Job::Points { points, format } => {
            let mut output = Output::new(settings, &interrupt);
            show("making   ", PARTS, &done, points.vectors, &mut || {
                points.write(*format, &done, |bytes| output.write(bytes))
            })?;
            output.finish()
        }
        Job::Inflate { file, times } => {
            let total = 2 * size(file);
            let mut order = None;
            show("counting ", BYTES, &bytes, total, &mut || {
                order = Some(FrequencyOrder::read(file, &bytes)?);
                Ok(())
            })?;
            let Some(order) = order else {
                return Err(Error::Internal("there is no order of tokens".into()));
            };
            let mut output = Output::new(settings, &interrupt);
            show("making   ", BYTES, &bytes, total, &mut || {
                inflate(file, &order, *times, &bytes, |lines| output.write(lines))
            })?;
            output.finish()
        }
        Job::Dirty { file, dirty } => {
            let mut output = Output::new(settings, &interrupt);
            show("making   ", BYTES, &bytes, size(file), &mut || {
                dirty.write(file, &bytes, |lines| output.write(lines))
            })?;
            output.finish()
        }
    }
}

/// Returns the size of a file; 0 if it is not known.
fn size(file: &Path) -> u64 {
    std::fs::metadata(file).map_or(0, |file| file.len())
}

/// An output that is opened when its first block is written. Until then, Ctrl-C ends the process; after that, it stops
/// the output before its next block, so that no half-written file is left.
struct Output<'a> {
    path: Option<&'a Path>,
    writer: Option<LinesWriter>,
    interrupt: &'a Interrupt,
}

impl<'a> Output<'a> {
    fn new(settings: &'a GenerateSettings, interrupt: &'a Interrupt) -> Self {
        Output { path: settings.output.as_deref(), writer: None, interrupt }
    }

    fn write(&mut self, lines: &[u8]) -> Result<()> {
        self.interrupt.check()?;
        match &mut self.writer {
            Some(writer) => writer.write(lines),
            none => {
                // A half-written standard output cannot be taken back.
                self.interrupt.joining.store(self.path.is_some(), Ordering::Relaxed);
                none.insert(LinesWriter::create(self.path)?).write(lines)
            }
        }
    }

    fn finish(mut self) -> Result<()> {
        // Opens the output even if it is empty.
        self.write(b"")?;
        self.writer.map_or(Ok(0), LinesWriter::finish).map(drop)
    }
}
