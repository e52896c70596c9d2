//! Which flags do joins, intersections and benchmarks have?

use super::values::{
    Predicates, SplitFlag, Techniques, ThresholdValue, bytes, from_one, number_of_threads, one_of,
    predicate, seconds, split,
};
use clap::{Args, ValueHint};
use simjoin::engine::{Engine, Error, Measure, Predicate, Result, Subject, VectorPredicate};
use simjoin_io::{Format, Tokenizer, VectorFormat};
use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug, Args)]
pub struct SetsFlags {
    #[command(flatten)]
    pub join: JoinFlags,
}

#[derive(Debug, Args)]
pub struct TextFlags {
    #[command(flatten)]
    pub join: JoinFlags,

    /// Tokens of a record: 'words' or 'qgrams:Q', such as qgrams:3
    #[arg(long, value_parser = str::parse::<Tokenizer>, value_name = "T", default_value = "words", help_heading = "Tokens")]
    pub tokens: Tokenizer,
}

#[derive(Debug, Args)]
pub struct VectorsFlags {
    /// The file to join; '-' is standard input
    #[arg(value_name = "LEFT", value_hint = ValueHint::FilePath)]
    pub left: PathBuf,

    /// The file to join it with; without it, LEFT is joined with itself
    #[arg(value_name = "RIGHT", value_hint = ValueHint::FilePath)]
    pub right: Option<PathBuf>,

    #[command(flatten)]
    pub predicate: VectorPredicateFlags,

    #[command(flatten)]
    pub answer: AnswerFlags,

    /// The column that holds the vectors: lists, or text of numbers
    #[arg(long, value_name = "C", help_heading = "Input")]
    pub column: Option<String>,

    /// The column whose values name the rows in the output [default: row numbers from 0]
    #[arg(long, value_name = "C", help_heading = "Input")]
    pub id: Option<String>,

    /// The input's format [default: by the file's ending]
    #[arg(
        long,
        value_name = "F",
        value_parser = one_of::<VectorFormat>(["npy", "fvecs", "bvecs", "csv", "tsv", "parquet", "arrow"]),
        help_heading = "Input"
    )]
    pub format: Option<VectorFormat>,

    #[command(flatten)]
    pub how: HowFlags,

    /// Technique; the answer is the same
    #[arg(
        long,
        value_name = "NAME",
        default_value = "auto",
        value_parser = Techniques(Subject::Vectors),
        help_heading = "How"
    )]
    pub technique: String,
}

/// The answer of a join, and its outputs.
#[derive(Debug, Args)]
pub struct AnswerFlags {
    /// Write to FILE: .tsv .csv .jsonl (also with .gz or .zst) .parquet .arrow [default: TSV on standard
    /// output]
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Output")]
    pub output: Option<PathBuf>,

    /// Print only the number of pairs
    #[arg(long, conflicts_with_all = ["groups", "output"], help_heading = "Output")]
    pub count: bool,

    /// Write each row with the smallest row of its connected component (one input only)
    #[arg(long, conflicts_with = "right", help_heading = "Output")]
    pub groups: bool,

    /// Show the plan and its estimates before the join, and the real figures after it
    #[arg(long, help_heading = "Output")]
    pub explain: bool,

    /// Write statistics of the run to FILE: counts, techniques and seconds (JSON)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Output")]
    pub stats: Option<PathBuf>,

    /// Write a page that shows the run to FILE: plan, filters, timeline, similarities, sample of pairs (HTML)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Output")]
    pub report: Option<PathBuf>,

    /// Write a timeline of all threads and GPUs to FILE, for chrome://tracing or Perfetto (JSON)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Output")]
    pub trace: Option<PathBuf>,

    /// Show no progress
    #[arg(short, long, help_heading = "Output")]
    pub quiet: bool,
}

/// Where a join runs, and its limits.
#[derive(Debug, Args)]
pub struct HowFlags {
    /// Where to run: auto uses the CPU, and a GPU if that is faster; hybrid uses both together
    #[arg(
        long,
        value_name = "E",
        default_value = "auto",
        value_parser = one_of::<Engine>(["auto", "cpu", "gpu", "hybrid"]),
        help_heading = "How"
    )]
    pub engine: Engine,

    /// With --engine hybrid: the GPU's share of the work, from 0 to 1, or 'queue' ('queue:CHUNKS'), from which
    /// both take chunks of the work [default: estimated, and corrected while running]
    #[arg(long, value_parser = split, value_name = "SHARE", help_heading = "How")]
    pub split: Option<SplitFlag>,

    /// Number of threads, up to 8 per core [default: one per core]
    #[arg(long, value_parser = number_of_threads, value_name = "N", allow_hyphen_values = true, help_heading = "How")]
    pub threads: Option<usize>,

    #[command(flatten)]
    pub limits: LimitFlags,
}

/// The limits of a join.
#[derive(Debug, Args)]
pub struct LimitFlags {
    /// Memory for the join in addition to the input, such as 512M or 4G [default: no limit]
    #[arg(long, value_parser = bytes, value_name = "SIZE", allow_hyphen_values = true, help_heading = "How")]
    pub memory: Option<u64>,

    /// Memory for the join on each GPU, such as 2G [default: all free memory]
    #[arg(long, value_parser = bytes, value_name = "SIZE", allow_hyphen_values = true, help_heading = "How")]
    pub device_memory: Option<u64>,
}

/// Which pairs of vectors: exactly one of these.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
#[command(next_help_heading = "Which pairs (one of)")]
pub struct VectorPredicateFlags {
    /// Euclidean distance at most EPS, from 0
    #[arg(long, value_parser = VectorPredicate::within, value_name = "EPS", allow_hyphen_values = true)]
    pub within: Option<VectorPredicate>,

    /// Cosine at least T, from -1 to 1
    #[arg(long, value_parser = VectorPredicate::cosine, value_name = "T", allow_hyphen_values = true)]
    pub cosine: Option<VectorPredicate>,
}

#[derive(Debug, Args)]
pub struct JoinFlags {
    /// The file to join; '-' is standard input
    #[arg(value_name = "LEFT", value_hint = ValueHint::FilePath)]
    pub left: PathBuf,

    /// The file to join it with; without it, LEFT is joined with itself
    #[arg(value_name = "RIGHT", value_hint = ValueHint::FilePath)]
    pub right: Option<PathBuf>,

    #[command(flatten)]
    pub predicate: PredicateFlags<Predicate>,

    #[command(flatten)]
    pub answer: AnswerFlags,

    /// Also join RIGHT with itself: new records with old ones and with each other
    #[arg(long, help_heading = "Input")]
    pub with_itself: bool,

    #[command(flatten)]
    pub input: InputFlags,

    /// The column whose values name the rows in the output [default: row numbers from 0]
    #[arg(long, value_name = "C", help_heading = "Input")]
    pub id: Option<String>,

    #[command(flatten)]
    pub how: HowFlags,

    /// Technique; the answer is the same. With --engine hybrid, one for the CPU and one for the GPU may be
    /// named, such as ppjoin+gpu-bitmap
    #[arg(
        long,
        value_name = "NAME",
        default_value = "auto",
        value_parser = Techniques(Subject::Sets),
        help_heading = "How"
    )]
    pub technique: String,
}

/// Which pairs: exactly one of these.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
#[command(next_help_heading = "Which pairs (one of)")]
pub struct PredicateFlags<W: ThresholdValue> {
    /// Common tokens / all tokens ≥ T; T is above 0 and at most 1
    #[arg(long, value_parser = predicate::<W>(Measure::Jaccard), value_name = "T", allow_hyphen_values = true)]
    pub jaccard: Option<W>,

    /// Common tokens / √(size · size) ≥ T
    #[arg(long, value_parser = predicate::<W>(Measure::Cosine), value_name = "T", allow_hyphen_values = true)]
    pub cosine: Option<W>,

    /// 2 · common tokens / (size + size) ≥ T
    #[arg(long, value_parser = predicate::<W>(Measure::Dice), value_name = "T", allow_hyphen_values = true)]
    pub dice: Option<W>,

    /// Common tokens ≥ N
    #[arg(long, value_parser = predicate::<W>(Measure::Overlap), value_name = "N", allow_hyphen_values = true)]
    pub overlap: Option<W>,

    /// Common tokens / smaller size ≥ T
    #[arg(long, value_parser = predicate::<W>(Measure::Containment), value_name = "T", allow_hyphen_values = true)]
    pub containment: Option<W>,
}

impl<W: ThresholdValue> PredicateFlags<W> {
    /// Returns the predicate that was typed.
    pub fn value(self) -> Result<W> {
        let PredicateFlags { jaccard, cosine, dice, overlap, containment } = self;
        let typed = jaccard.or(cosine).or(dice).or(overlap).or(containment);
        typed.ok_or_else(|| Error::Config("no threshold was given, such as --jaccard 0.8".into()))
    }
}

/// The options for reading the input.
#[derive(Debug, Args)]
pub struct InputFlags {
    /// The column that holds the sets or texts (not for lines)
    #[arg(long, value_name = "C", help_heading = "Input")]
    pub column: Option<String>,

    /// The input's format [default: by the file's ending]
    #[arg(
        long,
        value_name = "F",
        value_parser = one_of::<Format>(["lines", "csv", "tsv", "jsonl", "parquet", "arrow"]),
        help_heading = "Input"
    )]
    pub format: Option<Format>,

    /// Keep repeated tokens: the k-th occurrence in a record is a token of its own
    #[arg(long, help_heading = "Tokens")]
    pub multiset: bool,
}

#[derive(Debug, Args)]
pub struct OverlapsFlags {
    /// The file of sets; '-' is standard input
    #[arg(value_name = "LEFT", value_hint = ValueHint::FilePath)]
    pub left: PathBuf,

    /// The file to compare it with; without it, LEFT is compared with itself
    #[arg(value_name = "RIGHT", value_hint = ValueHint::FilePath)]
    pub right: Option<PathBuf>,

    /// Only pairs with common tokens
    #[arg(long, help_heading = "Which pairs")]
    pub positive: bool,

    /// Only the K largest overlaps of each row
    #[arg(long, value_parser = from_one, value_name = "K", help_heading = "Which pairs")]
    pub top: Option<usize>,

    /// Write to FILE: .tsv .csv .jsonl (also with .gz or .zst) .parquet .arrow [default: TSV on standard
    /// output]
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Output")]
    pub output: Option<PathBuf>,

    /// Print only the number of pairs
    #[arg(long, conflicts_with = "output", help_heading = "Output")]
    pub count: bool,

    /// Show every technique with its estimated time before, and the real figures after
    #[arg(long, help_heading = "Output")]
    pub explain: bool,

    /// Write statistics of the run to FILE: counts, techniques and seconds (JSON)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Output")]
    pub stats: Option<PathBuf>,

    /// Write a timeline of all threads and GPUs to FILE, for chrome://tracing or Perfetto (JSON)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Output")]
    pub trace: Option<PathBuf>,

    /// Show no progress
    #[arg(short, long, help_heading = "Output")]
    pub quiet: bool,

    #[command(flatten)]
    pub input: InputFlags,

    /// The column whose values name the rows in the output [default: row numbers from 0]
    #[arg(long, value_name = "C", help_heading = "Input")]
    pub id: Option<String>,

    /// Records are text: 'words' or 'qgrams:Q' [default: the file holds sets]
    #[arg(long, value_parser = str::parse::<Tokenizer>, value_name = "T", help_heading = "Tokens")]
    pub tokens: Option<Tokenizer>,

    /// Where to run: auto uses the CPU, or a GPU if that is faster
    #[arg(
        long,
        value_name = "E",
        default_value = "auto",
        value_parser = one_of::<Engine>(["auto", "cpu", "gpu"]),
        help_heading = "How"
    )]
    pub engine: Engine,

    /// Technique; the answer is the same. 'product' only runs on the CPU, those after it only on a GPU
    #[arg(
        long,
        value_name = "NAME",
        default_value = "auto",
        value_parser = Techniques(Subject::Overlaps),
        help_heading = "How"
    )]
    pub technique: String,

    /// Number of threads, up to 8 per core [default: one per core]
    #[arg(long, value_parser = number_of_threads, value_name = "N", allow_hyphen_values = true, help_heading = "How")]
    pub threads: Option<usize>,

    #[command(flatten)]
    pub limits: LimitFlags,
}

#[derive(Debug, Args)]
pub struct IntersectFlags {
    /// The file of the first set; '-' is standard input
    #[arg(value_name = "A", value_hint = ValueHint::FilePath)]
    pub left: PathBuf,

    /// The file of the second set
    #[arg(value_name = "B", value_hint = ValueHint::FilePath)]
    pub right: PathBuf,

    /// Write the common elements to FILE, ascending, one per line; .u32 and .npy files are binary; '-' is
    /// standard output
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Output")]
    pub output: Option<PathBuf>,

    /// Print the number of common elements divided by the smaller size: 1 if one set contains the other
    #[arg(long, help_heading = "Output")]
    pub containment: bool,

    /// Show the plan before, and the real figures after
    #[arg(long, help_heading = "Output")]
    pub explain: bool,

    /// Write statistics of the run to FILE: counts, technique and seconds (JSON)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Output")]
    pub stats: Option<PathBuf>,

    /// Show no progress
    #[arg(short, long, help_heading = "Output")]
    pub quiet: bool,

    /// Where to run: auto uses the CPU, unless the technique is one of a GPU
    #[arg(
        long,
        value_name = "E",
        default_value = "auto",
        value_parser = one_of::<Engine>(["auto", "cpu", "gpu"]),
        help_heading = "How"
    )]
    pub engine: Engine,

    /// Technique; the answer is the same. 'ip', 'ip-obs' and 'ip-hash' run on a GPU
    #[arg(
        long,
        value_name = "NAME",
        default_value = "auto",
        value_parser = Techniques(Subject::Intersections),
        help_heading = "How"
    )]
    pub technique: String,

    /// Number of threads, up to 8 per core [default: one per core]
    #[arg(long, value_parser = number_of_threads, value_name = "N", allow_hyphen_values = true, help_heading = "How")]
    pub threads: Option<usize>,

    /// Also count N times, and read both sets N times; --stats contains the shortest times
    #[arg(
        long,
        value_parser = from_one,
        value_name = "N",
        conflicts_with = "output",
        hide_short_help = true,
        help_heading = "How"
    )]
    pub repeat: Option<usize>,
}

#[derive(Debug, Args)]
pub struct BenchFlags {
    /// The file to join with itself
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub file: PathBuf,

    #[command(flatten)]
    pub predicate: PredicateFlags<Predicates>,

    #[command(flatten)]
    pub input: InputFlags,

    /// Records are text: 'words' or 'qgrams:Q' [default: the file holds sets]
    #[arg(long, value_parser = str::parse::<Tokenizer>, value_name = "T", help_heading = "Tokens")]
    pub tokens: Option<Tokenizer>,

    /// Where to run, comma-separated
    #[arg(
        long,
        value_name = "ES",
        default_value = "auto",
        value_delimiter = ',',
        value_parser = one_of::<Engine>(["auto", "cpu", "gpu", "hybrid"]),
        help_heading = "How"
    )]
    pub engine: Vec<Engine>,

    /// With --engine hybrid: how to split the work, comma-separated: 'auto', the GPU's share from 0 to 1,
    /// or 'queue' ('queue:CHUNKS') [default: auto]
    #[arg(long, value_parser = split, value_name = "SHARES", value_delimiter = ',', help_heading = "How")]
    pub split: Vec<SplitFlag>,

    /// Techniques, comma-separated [default: all that suit the engine and the predicate, except naive]
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        value_parser = Techniques(Subject::Sets),
        help_heading = "How"
    )]
    pub technique: Vec<String>,

    /// Numbers of threads, comma-separated [default: 1 and one per core]
    #[arg(long, value_parser = number_of_threads, value_delimiter = ',', value_name = "NS", help_heading = "How")]
    pub threads: Vec<usize>,

    #[command(flatten)]
    pub limits: LimitFlags,

    /// Find the pairs instead of only counting them
    #[arg(long, help_heading = "How")]
    pub pairs: bool,

    /// Run each join up to N times; more often if it takes less than 5 ms
    #[arg(long, value_parser = from_one, value_name = "N", default_value = "5", help_heading = "How often")]
    pub repeat: usize,

    /// Start no further run of a join after its runs have taken this time
    #[arg(long, value_parser = seconds, value_name = "SECONDS", default_value = "2", help_heading = "How often")]
    pub budget: Duration,

    /// End the first run of a join after this time, and skip its technique at lower thresholds
    #[arg(long, value_parser = seconds, value_name = "SECONDS", hide_short_help = true, help_heading = "How often")]
    pub limit: Option<Duration>,

    /// Print one JSON object per line
    #[arg(long, help_heading = "Output")]
    pub json: bool,
}
