//! What can be typed?

use clap::builder::{PossibleValue, PossibleValuesParser, StringValueParser, TypedValueParser};
use clap::{Arg, Args, Parser, Subcommand, ValueHint};
use clap_complete::Shell;
use simjoin::engine::{AUTO, Processor, Subject, names};
use simjoin_generate::{PROFILES, Profile};
use std::ffi::OsStr;

/// Exact similarity joins: all pairs of similar sets, texts or vectors, none missed.
#[derive(Debug, Parser)]
#[command(
    name = "simjoin",
    version,
    arg_required_else_help = true,
    disable_help_subcommand = true,
    after_help = "Examples:\n  \
        simjoin sets baskets.txt --jaccard 0.8\n  \
        simjoin text titles.csv --column title --tokens words --jaccard 0.7 -o pairs.parquet\n  \
        simjoin text old.jsonl new.jsonl --column text --tokens qgrams:3 --cosine 0.9\n  \
        simjoin vectors points.npy --within 0.25 --count\n  \
        simjoin generate zipf --sets 5M --universe 500K --size 10 -o 5M-500K-10.txt\n\n\
        'simjoin COMMAND --help' explains a command."
)]
pub struct Flags {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Join sets: lines of tokens, or list columns
    #[command(
        long_about = "Finds all pairs of similar sets.\n\n\
            A text file holds one set per line, tokens separated by white space. CSV, TSV, JSONL, \
            Parquet and Arrow files take --column: a list of strings or integers, or a string that \
            is split at white space. One file is joined with itself; two files are joined left \
            with right, and with --with-itself right with right as well. '-' is standard input; \
            gzip and zstd are read as they are.",
        after_help = "Examples:\n  \
            simjoin sets baskets.txt --jaccard 0.8\n  \
            simjoin sets baskets.txt.gz --overlap 5 --count\n  \
            simjoin sets tables.parquet --column values --containment 0.9 -o joinable.csv\n  \
            simjoin sets old.txt new.txt --with-itself --jaccard 0.8 -o found.tsv\n  \
            cat baskets.txt | simjoin sets - --dice 0.9 --groups"
    )]
    Sets(SetsFlags),
    /// Join text records by their words or q-grams
    #[command(
        long_about = "Finds all pairs of similar text records.\n\n\
            A text file holds one record per line. CSV, TSV, JSONL, Parquet and Arrow files take \
            --column: a string. Records become sets of words (Unicode word boundaries, lower-cased) \
            or of q-grams (all substrings of Q characters, the record padded with Q-1 '$' at both \
            ends). One file is joined with itself; two files are joined left with right, and with \
            --with-itself right with right as well. '-' is standard input; gzip and zstd are read \
            as they are.",
        after_help = "Examples:\n  \
            simjoin text titles.txt --tokens words --jaccard 0.7\n  \
            simjoin text people.csv --column name --id ssn --tokens qgrams:3 --cosine 0.8\n  \
            simjoin text corpus.jsonl --column text --tokens words --jaccard 0.8 --groups -o groups.tsv\n  \
            simjoin text shop_a.csv shop_b.csv --column title --tokens qgrams:2 --dice 0.9 -o links.parquet"
    )]
    Text(TextFlags),
    /// Count what all pairs of sets have in common, without a threshold
    #[command(
        long_about = "Counts the common tokens of every pair of sets, without a threshold.\n\n\
            Input is as for 'simjoin sets'. One file is compared with itself, each pair once; two files \
            left with right. Every pair is a row of the output, also one that has nothing in common: \
            --positive leaves these out, --top K keeps the K largest overlaps of each row, which is then \
            the left one of its pairs (of equal overlaps those with the smallest row numbers; none \
            without anything in common).",
        after_help = "Examples:\n  \
            simjoin overlaps columns.parquet --column values --positive -o shared.parquet\n  \
            simjoin overlaps neighbours.txt --top 10\n  \
            simjoin overlaps old.txt new.txt --positive --count"
    )]
    Overlaps(OverlapsFlags),
    /// Intersect two large sets of numbers or words
    #[command(
        long_about = "Prints how many elements two sets have in common.\n\n\
            A file holds one set: numbers from 0 to 4294967295 or words, separated by white space, in \
            any order, each counting once; or raw 32-bit little-endian integers (.u32); or a \
            one-dimensional NumPy array of integers (.npy). What is not numbers on both sides is \
            compared as words. '-' is standard input; gzip and zstd are read as they are.",
        after_help = "Examples:\n  \
            simjoin intersect a.u32 b.u32\n  \
            simjoin intersect ids.txt.gz known.npy --containment\n  \
            simjoin intersect old.txt new.txt -o both.txt"
    )]
    Intersect(IntersectFlags),
    /// Join vectors by their distance or cosine
    #[command(
        long_about = "Finds all pairs of vectors within a Euclidean distance, or of at least a cosine.\n\n\
            Files are .npy (two dimensions, f32 or f64), .fvecs, .bvecs, .csv or .tsv (a number in each \
            field, or --column with all numbers of a vector), .parquet or .arrow (--column with lists). One \
            file is joined with itself; two files are joined left with right. '-' is standard input; gzip and zstd \
            are read as they are.\n\n\
            Which pairs are found is decided by one sum in double precision, in one order, whatever the \
            technique. The distance in the output is that sum's root; with --cosine it is 1 - cosine.",
        after_help = "Examples:\n  \
            simjoin vectors points.npy --within 0.25\n  \
            simjoin vectors embeddings.parquet --column vector --id key --cosine 0.95 --groups -o groups.tsv\n  \
            simjoin vectors stars.fvecs other.fvecs --within 1e-3 --count"
    )]
    Vectors(VectorsFlags),
    /// List the GPUs that joins can run on
    #[command(
        long_about = "Lists the GPUs that joins can run on, with memory, compute capability \
            and the techniques that each can run. Where there is none, says so and why, \
            and ends with status 0."
    )]
    Devices,
    /// Time self-joins of a file, by every technique, in one process
    #[command(
        long_about = "Times the counting of similar pairs, by several techniques and numbers of \
            threads, in one process.\n\n\
            Thresholds are a comma-separated list and come highest first. The file is read once \
            per number of threads, and prepared once or, where that is quick, several times, of which \
            the shortest counts; then the techniques take turns at each threshold, in changing order. \
            Shown are the shortest and the median join in seconds. Every technique must find the \
            same number of pairs. The file may have any format that 'simjoin sets' reads.",
        after_help = "Examples:\n  \
            simjoin bench baskets.txt --jaccard 0.5,0.7,0.9\n  \
            simjoin bench baskets.txt --cosine 0.8 --technique ppjoin,group-join --threads 1,2,4\n  \
            simjoin bench titles.csv --column title --tokens words --jaccard 2/3 --json"
    )]
    Bench(BenchFlags),
    /// Make artificial collections
    #[command(
        subcommand,
        arg_required_else_help = true,
        disable_help_subcommand = true,
        long_about = "Makes artificial collections: lines of tokens or of text, or vectors.\n\n\
            A seed stands for the same bytes on every machine. Memory follows the number of \
            different tokens, never the number of records. Numbers may end with K, M or G: 5M is \
            5000000. A single set (--sets 1) is also written as .u32 (raw 32-bit integers) or .npy \
            (NumPy).",
        after_help = "Examples:\n  \
            simjoin generate uniform --sets 5M --universe 500K --size 10 -o 5M-500K-10.txt\n  \
            simjoin generate zipf --sets 10M --universe 50K --size 25 --exponent 0.8 -o z.txt.zst\n  \
            simjoin generate normal --sets 1 --universe 1G --size 10M -o a.u32\n  \
            simjoin generate inflate baskets.txt --times 10 -o baskets-10.txt\n  \
            simjoin generate dirty titles.txt --copies 2 --edits 1..5 -o dirty.txt\n\n\
            'simjoin generate COMMAND --help' explains a command."
    )]
    Generate(GenerateCommand),
    /// Print a completion script for a shell
    #[command(after_help = "Example:\n  \
        simjoin completions bash > ~/.local/share/bash-completion/completions/simjoin")]
    Completions {
        /// The shell
        shell: Shell,
    },
}

#[derive(Debug, Args)]
pub struct SetsFlags {
    #[command(flatten)]
    pub join: JoinFlags,
}

#[derive(Debug, Args)]
pub struct TextFlags {
    #[command(flatten)]
    pub join: JoinFlags,

    /// How a record becomes tokens: 'words' or 'qgrams:Q', such as qgrams:3
    #[arg(long, value_name = "T", default_value = "words", help_heading = "Tokens")]
    pub tokens: String,
}

#[derive(Debug, Args)]
pub struct VectorsFlags {
    /// The file to join; '-' is standard input
    #[arg(value_name = "LEFT", value_hint = ValueHint::FilePath)]
    pub left: String,

    /// The file to join it with; without it, LEFT is joined with itself
    #[arg(value_name = "RIGHT", value_hint = ValueHint::FilePath)]
    pub right: Option<String>,

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
        value_parser = ["npy", "fvecs", "bvecs", "csv", "tsv", "parquet", "arrow"],
        help_heading = "Input"
    )]
    pub format: Option<String>,

    #[command(flatten)]
    pub how: HowFlags,

    /// How to join; the answer is the same
    #[arg(
        long,
        value_name = "NAME",
        default_value = "auto",
        value_parser = Techniques(Subject::Vectors),
        help_heading = "How"
    )]
    pub technique: String,
}

/// What comes out of a join.
#[derive(Debug, Args)]
pub struct AnswerFlags {
    /// Write to FILE: .tsv .csv .jsonl (also with .gz or .zst) .parquet .arrow [default: TSV on standard
    /// output]
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Output")]
    pub output: Option<String>,

    /// Print only the number of pairs
    #[arg(long, conflicts_with_all = ["groups", "output"], help_heading = "Output")]
    pub count: bool,

    /// Write each row with the smallest row of its connected component (one input only)
    #[arg(long, conflicts_with = "right", help_heading = "Output")]
    pub groups: bool,

    /// Show the plan and its estimates before the join, and what became of them after it
    #[arg(long, help_heading = "Output")]
    pub explain: bool,

    /// Write what was read, found and how long it took as JSON to FILE
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Output")]
    pub stats: Option<String>,

    /// Write a page (HTML) that shows the run: plan, filters, timeline, similarities, a sample of pairs
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Output")]
    pub report: Option<String>,

    /// Write what each thread and each GPU did when, for chrome://tracing or Perfetto (JSON)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Output")]
    pub trace: Option<String>,

    /// Show no progress
    #[arg(short, long, help_heading = "Output")]
    pub quiet: bool,
}

/// Where a join runs, and what it may take.
#[derive(Debug, Args)]
pub struct HowFlags {
    /// Where to run: auto is the CPU, and a GPU where that pays; hybrid is both at once
    #[arg(
        long,
        value_name = "E",
        default_value = "auto",
        value_parser = ["auto", "cpu", "gpu", "hybrid"],
        help_heading = "How"
    )]
    pub engine: String,

    /// With --engine hybrid: the GPU's share of the work, from 0 to 1, or 'queue' ('queue:TILES'): both
    /// take tiles as they can [default: by estimate, corrected while running]
    #[arg(long, value_name = "SHARE", help_heading = "How")]
    pub split: Option<String>,

    /// Number of threads [default: one per core]
    #[arg(long, value_name = "N", allow_hyphen_values = true, help_heading = "How")]
    pub threads: Option<String>,

    #[command(flatten)]
    pub limits: LimitFlags,
}

/// What a join may take.
#[derive(Debug, Args)]
pub struct LimitFlags {
    /// Memory for the join beside the input, such as 512M or 4G [default: as much as is of use]
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true, help_heading = "How")]
    pub memory: Option<String>,

    /// Memory for the join on each GPU, such as 2G [default: what is free]
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true, help_heading = "How")]
    pub device_memory: Option<String>,
}

/// Which pairs of vectors: exactly one of these.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
#[command(next_help_heading = "Which pairs (one of)")]
pub struct VectorPredicateFlags {
    /// Euclidean distance at most EPS, from 0
    #[arg(long, value_name = "EPS", allow_hyphen_values = true)]
    pub within: Option<String>,

    /// Cosine at least T, from -1 to 1
    #[arg(long, value_name = "T", allow_hyphen_values = true)]
    pub cosine: Option<String>,
}

#[derive(Debug, Args)]
pub struct JoinFlags {
    /// The file to join; '-' is standard input
    #[arg(value_name = "LEFT", value_hint = ValueHint::FilePath)]
    pub left: String,

    /// The file to join it with; without it, LEFT is joined with itself
    #[arg(value_name = "RIGHT", value_hint = ValueHint::FilePath)]
    pub right: Option<String>,

    #[command(flatten)]
    pub predicate: PredicateFlags,

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

    /// How to join; the answer is the same. With --engine hybrid one for the CPU and one for the GPU may be
    /// named, as ppjoin+gpu-bitmap
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
pub struct PredicateFlags {
    /// Common tokens / all tokens ≥ T, which is above 0 and at most 1
    #[arg(long, value_name = "T", allow_hyphen_values = true)]
    pub jaccard: Option<String>,

    /// Common tokens / √(size · size) ≥ T
    #[arg(long, value_name = "T", allow_hyphen_values = true)]
    pub cosine: Option<String>,

    /// 2 · common tokens / (size + size) ≥ T
    #[arg(long, value_name = "T", allow_hyphen_values = true)]
    pub dice: Option<String>,

    /// Common tokens ≥ N
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub overlap: Option<String>,

    /// Common tokens / smaller size ≥ T
    #[arg(long, value_name = "T", allow_hyphen_values = true)]
    pub containment: Option<String>,
}

/// What stands where in the input.
#[derive(Debug, Args)]
pub struct InputFlags {
    /// The column that holds the sets or texts (not for lines)
    #[arg(long, value_name = "C", help_heading = "Input")]
    pub column: Option<String>,

    /// The input's format [default: by the file's ending]
    #[arg(
        long,
        value_name = "F",
        value_parser = ["lines", "csv", "tsv", "jsonl", "parquet", "arrow"],
        help_heading = "Input"
    )]
    pub format: Option<String>,

    /// Keep repeated tokens: the k-th occurrence in a record is a token of its own
    #[arg(long, help_heading = "Tokens")]
    pub multiset: bool,
}

#[derive(Debug, Args)]
pub struct OverlapsFlags {
    /// The file of sets; '-' is standard input
    #[arg(value_name = "LEFT", value_hint = ValueHint::FilePath)]
    pub left: String,

    /// The file to compare it with; without it, LEFT is compared with itself
    #[arg(value_name = "RIGHT", value_hint = ValueHint::FilePath)]
    pub right: Option<String>,

    /// Only pairs that have something in common
    #[arg(long, help_heading = "Which pairs")]
    pub positive: bool,

    /// Only the K largest overlaps of each row
    #[arg(long, value_name = "K", help_heading = "Which pairs")]
    pub top: Option<String>,

    /// Write to FILE: .tsv .csv .jsonl (also with .gz or .zst) .parquet .arrow [default: TSV on standard
    /// output]
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Output")]
    pub output: Option<String>,

    /// Print only the number of pairs
    #[arg(long, conflicts_with = "output", help_heading = "Output")]
    pub count: bool,

    /// Show every technique with its estimated time before, and what became of it after
    #[arg(long, help_heading = "Output")]
    pub explain: bool,

    /// Write what was read, found and how long it took as JSON to FILE
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Output")]
    pub stats: Option<String>,

    /// Write what each thread and each GPU did when, for chrome://tracing or Perfetto (JSON)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Output")]
    pub trace: Option<String>,

    /// Show no progress
    #[arg(short, long, help_heading = "Output")]
    pub quiet: bool,

    #[command(flatten)]
    pub input: InputFlags,

    /// The column whose values name the rows in the output [default: row numbers from 0]
    #[arg(long, value_name = "C", help_heading = "Input")]
    pub id: Option<String>,

    /// Records are text: 'words' or 'qgrams:Q' [default: the file holds sets]
    #[arg(long, value_name = "T", help_heading = "Tokens")]
    pub tokens: Option<String>,

    /// Where to run: auto is the CPU, and a GPU where that pays
    #[arg(
        long,
        value_name = "E",
        default_value = "auto",
        value_parser = ["auto", "cpu", "gpu"],
        help_heading = "How"
    )]
    pub engine: String,

    /// How to count; the answer is the same. 'product' is a way of the CPU, those after it are ways of a
    /// GPU
    #[arg(
        long,
        value_name = "NAME",
        default_value = "auto",
        value_parser = Techniques(Subject::Overlaps),
        help_heading = "How"
    )]
    pub technique: String,

    /// Number of threads [default: one per core]
    #[arg(long, value_name = "N", allow_hyphen_values = true, help_heading = "How")]
    pub threads: Option<String>,

    #[command(flatten)]
    pub limits: LimitFlags,
}

#[derive(Debug, Args)]
pub struct IntersectFlags {
    /// The file of one set; '-' is standard input
    #[arg(value_name = "A", value_hint = ValueHint::FilePath)]
    pub left: String,

    /// The file of the other one
    #[arg(value_name = "B", value_hint = ValueHint::FilePath)]
    pub right: String,

    /// Write the common elements to FILE, ascending, one per line; .u32 and .npy hold numbers as they
    /// are; '-' is standard output
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Output")]
    pub output: Option<String>,

    /// Print the common elements over the smaller size: 1 where one set contains the other
    #[arg(long, help_heading = "Output")]
    pub containment: bool,

    /// Show the plan before, and what became of it after
    #[arg(long, help_heading = "Output")]
    pub explain: bool,

    /// Write what was read, found and how long it took as JSON to FILE
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Output")]
    pub stats: Option<String>,

    /// Show no progress
    #[arg(short, long, help_heading = "Output")]
    pub quiet: bool,

    /// Where to run: auto is the CPU, unless the technique is one of a GPU
    #[arg(
        long,
        value_name = "E",
        default_value = "auto",
        value_parser = ["auto", "cpu", "gpu"],
        help_heading = "How"
    )]
    pub engine: String,

    /// How to intersect; the answer is the same. 'ip', 'ip-obs' and 'ip-hash' are ways of a GPU
    #[arg(
        long,
        value_name = "NAME",
        default_value = "auto",
        value_parser = Techniques(Subject::Intersections),
        help_heading = "How"
    )]
    pub technique: String,

    /// Number of threads [default: one per core]
    #[arg(long, value_name = "N", allow_hyphen_values = true, help_heading = "How")]
    pub threads: Option<String>,

    /// Count N times more, and read both sets as often, for the times of both in --stats
    #[arg(
        long,
        value_name = "N",
        conflicts_with = "output",
        hide_short_help = true,
        help_heading = "How"
    )]
    pub repeat: Option<String>,
}

#[derive(Debug, Args)]
pub struct BenchFlags {
    /// The file to join with itself
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub file: String,

    #[command(flatten)]
    pub predicate: PredicateFlags,

    #[command(flatten)]
    pub input: InputFlags,

    /// Records are text: 'words' or 'qgrams:Q' [default: the file holds sets]
    #[arg(long, value_name = "T", help_heading = "Tokens")]
    pub tokens: Option<String>,

    /// Where to run, comma-separated
    #[arg(
        long,
        value_name = "ES",
        default_value = "auto",
        value_delimiter = ',',
        value_parser = ["auto", "cpu", "gpu", "hybrid"],
        help_heading = "How"
    )]
    pub engine: Vec<String>,

    /// With --engine hybrid: how to split the work, comma-separated: 'auto', the GPU's share from 0 to 1,
    /// or 'queue' ('queue:TILES') [default: auto]
    #[arg(long, value_name = "SHARES", value_delimiter = ',', help_heading = "How")]
    pub split: Vec<String>,

    /// Techniques, comma-separated [default: all that suit the engine and the predicate, but naive]
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        value_parser = Techniques(Subject::Sets),
        help_heading = "How"
    )]
    pub technique: Vec<String>,

    /// Numbers of threads, comma-separated [default: 1 and one per core]
    #[arg(long, value_name = "NS", help_heading = "How")]
    pub threads: Option<String>,

    #[command(flatten)]
    pub limits: LimitFlags,

    /// Hand on the pairs instead of counting them
    #[arg(long, help_heading = "How")]
    pub pairs: bool,

    /// Run each join up to N times; more often where it takes under 5 ms
    #[arg(long, value_name = "N", default_value = "5", help_heading = "How often")]
    pub repeat: String,

    /// Begin no further run of a join that has used this many seconds
    #[arg(long, value_name = "SECONDS", default_value = "2", help_heading = "How often")]
    pub budget: String,

    /// End a first run after this many seconds, and leave out the technique at lower thresholds
    #[arg(long, value_name = "SECONDS", hide_short_help = true, help_heading = "How often")]
    pub limit: Option<String>,

    /// Print one JSON object per line
    #[arg(long, help_heading = "Output")]
    pub json: bool,
}

#[derive(Debug, Subcommand)]
pub enum GenerateCommand {
    /// Sets of tokens that are all alike
    #[command(
        long_about = "Makes sets of tokens that are all alike.\n\n\
            Tokens are the numbers from 1 to the universe. No set is empty or holds a token twice; \
            sizes vary around their average as Poisson numbers do.",
        after_help = "Examples:\n  \
            simjoin generate uniform --sets 5M --universe 500K --size 10 -o 5M-500K-10.txt\n  \
            simjoin generate uniform --sets 1K --universe 100 --size 5 | simjoin sets - --jaccard 0.5"
    )]
    Uniform(SyntheticFlags),
    /// Sets of tokens that follow Zipf's law
    #[command(
        long_about = "Makes sets of tokens that follow Zipf's law.\n\n\
            Tokens are the numbers from 1 to the universe; token k is drawn with the weight 1/k^S. \
            No set is empty or holds a token twice; sizes vary around their average as Poisson \
            numbers do.",
        after_help = "Examples:\n  \
            simjoin generate zipf --sets 5M --universe 500K --size 10 -o 5M-500K-10.txt\n  \
            simjoin generate zipf --sets 20M --universe 50K --size 5 --exponent 0.8 --seed 2 -o z.zst"
    )]
    Zipf {
        #[command(flatten)]
        synthetic: SyntheticFlags,

        /// How steep the law is, from 0 (all tokens alike) to 10
        #[arg(
            long,
            value_name = "S",
            default_value = "1.0",
            help_heading = "What",
            allow_hyphen_values = true
        )]
        exponent: String,
    },
    /// Sets in the likeness of a collection of the literature
    #[command(
        long_about = "Makes sets in the likeness of a collection of the literature.\n\n\
            As many sets, of as many tokens on average, of as many different ones as the papers' tables \
            say; tokens follow Zipf's law, and sizes are skewed where the papers show them to be. There \
            are hardly any near-duplicates among them.",
        after_help = "Examples:\n  \
            simjoin generate like --list\n  \
            simjoin generate like kosarak -o kosarak.txt.zst\n  \
            simjoin generate like dblp-1m --sets 50K -o dblp-50k.txt"
    )]
    Like {
        /// The collection
        #[arg(value_name = "NAME", value_parser = profiles(), required_unless_present = "list")]
        name: Option<String>,

        /// List the collections: sets, tokens a set, different tokens (TSV)
        #[arg(long, help_heading = "What", conflicts_with_all = ["name", "sets"])]
        list: bool,

        /// How many sets [default: as many as it has]
        #[arg(long, value_name = "N", help_heading = "What", allow_hyphen_values = true)]
        sets: Option<String>,

        #[command(flatten)]
        seed: Seed,

        #[command(flatten)]
        output: GenerateOutput,
    },
    /// Sets of tokens that follow the normal law
    #[command(
        long_about = "Makes sets of tokens that follow the normal law.\n\n\
            Tokens are the numbers from 1 to the universe, and lie around its middle. No set is empty \
            or holds a token twice; sizes vary around their average as Poisson numbers do.",
        after_help = "Examples:\n  \
            simjoin generate normal --sets 1 --universe 1G --size 10M -o a.u32\n  \
            simjoin generate normal --sets 1K --universe 100M --size 10K --deviation 5M -o n.txt.zst"
    )]
    Normal {
        #[command(flatten)]
        synthetic: SyntheticFlags,

        /// The standard deviation, in tokens; sets have at most four times as many on average [default:
        /// an eighth of the universe]
        #[arg(long, value_name = "N", help_heading = "What", allow_hyphen_values = true)]
        deviation: Option<String>,
    },
    /// Vectors: uniform, in clusters, or in correlated clusters
    #[command(
        long_about = "Makes vectors in single precision, as the literature on joins of vectors does: evenly in \
            the unit cube (DS1), in Gaussian clusters (DS2), or in Gaussian clusters with correlated \
            coordinates (DS3). The ending of the output is .npy, .fvecs or .csv; standard output is CSV.",
        after_help = "Examples:\n  \
            simjoin generate vectors uniform --vectors 1M --dimension 8 -o ds1.npy\n  \
            simjoin generate vectors clusters --vectors 1M --dimension 8 --clusters 5 -o ds2.npy\n  \
            simjoin generate vectors correlated --vectors 10K --dimension 960 --spread 0.1 -o ds3.fvecs"
    )]
    Vectors {
        /// How they lie
        #[arg(value_name = "SHAPE", value_parser = ["uniform", "clusters", "correlated"])]
        shape: String,

        /// How many vectors
        #[arg(long, value_name = "N", help_heading = "What", allow_hyphen_values = true)]
        vectors: String,

        /// How many elements each has
        #[arg(long, value_name = "D", help_heading = "What", allow_hyphen_values = true)]
        dimension: String,

        /// How many clusters
        #[arg(
            long,
            value_name = "K",
            default_value = "5",
            help_heading = "What",
            allow_hyphen_values = true
        )]
        clusters: String,

        /// The deviation of a cluster in each coordinate, or in its strongest direction
        #[arg(
            long,
            value_name = "S",
            default_value = "0.05",
            help_heading = "What",
            allow_hyphen_values = true
        )]
        spread: String,

        #[command(flatten)]
        seed: Seed,

        #[command(flatten)]
        output: GenerateOutput,
    },
    /// Make a file of sets several times as large
    #[command(
        long_about = "Makes a file of sets several times as large.\n\n\
            The method of Vernica, Carey and Li: all tokens are put in the order of rising \
            frequency, and copy k of a set holds, for each token, the one k places further on \
            (after the last comes the first). So the tokens stay the same, and a join's result \
            grows with the file, not with its square. FILE holds one set per line, tokens \
            separated by white space; each is followed by its copies. It is read twice, so it \
            cannot be standard input; gzip and zstd are read as they are.",
        after_help = "Example:\n  \
            simjoin generate inflate baskets.txt.gz --times 10 -o baskets-10.txt.gz"
    )]
    Inflate {
        /// The file of sets
        #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
        file: String,

        /// How many times as many sets the output has
        #[arg(long, value_name = "N", help_heading = "What", allow_hyphen_values = true)]
        times: String,

        #[command(flatten)]
        output: GenerateOutput,
    },
    /// Add copies with typing errors to the records of a text file
    #[command(
        long_about = "Adds copies with typing errors to the records of a text file.\n\n\
            FILE holds one record per line; each is followed by its copies. A copy has suffered \
            random insertions, deletions and replacements of single characters. '-' is standard \
            input; gzip and zstd are read as they are.",
        after_help = "Examples:\n  \
            simjoin generate dirty titles.txt --copies 2 -o dirty.txt\n  \
            simjoin generate dirty names.txt --copies 10 --edits 1..2 --seed 7 -o dirty.txt"
    )]
    Dirty {
        /// The file of records; '-' is standard input
        #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
        file: String,

        /// How many copies each record gets
        #[arg(long, value_name = "N", help_heading = "What", allow_hyphen_values = true)]
        copies: String,

        /// How many edits a copy suffers: a number, or a range with both its ends
        #[arg(
            long,
            value_name = "A..B",
            default_value = "1..5",
            help_heading = "What",
            allow_hyphen_values = true
        )]
        edits: String,

        #[command(flatten)]
        seed: Seed,

        #[command(flatten)]
        output: GenerateOutput,
    },
}

#[derive(Debug, Args)]
pub struct SyntheticFlags {
    /// How many sets
    #[arg(long, value_name = "N", help_heading = "What", allow_hyphen_values = true)]
    pub sets: String,

    /// How many different tokens they are drawn from
    #[arg(long, value_name = "N", help_heading = "What", allow_hyphen_values = true)]
    pub universe: String,

    /// How many tokens a set has on average
    #[arg(long, value_name = "N", help_heading = "What", allow_hyphen_values = true)]
    pub size: String,

    #[command(flatten)]
    pub seed: Seed,

    #[command(flatten)]
    pub output: GenerateOutput,
}

#[derive(Debug, Args)]
pub struct Seed {
    /// Another number gives another outcome of the same kind
    #[arg(
        long,
        value_name = "N",
        default_value = "1",
        help_heading = "What",
        allow_hyphen_values = true
    )]
    pub seed: String,
}

#[derive(Debug, Args)]
pub struct GenerateOutput {
    /// Write to FILE, compressed if it ends with .gz or .zst [default: standard output]
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Output")]
    pub output: Option<String>,

    /// Show no progress
    #[arg(short, long, help_heading = "Output")]
    pub quiet: bool,
}

/// The collections of the literature.
fn profiles() -> PossibleValuesParser {
    let value = |profile: Profile| PossibleValue::new(profile.name).help(profile.about);
    PossibleValuesParser::new(PROFILES.map(value))
}

/// The names of techniques. They are listed here; whether one fits the engine is for the join to say.
#[derive(Clone)]
struct Techniques(Subject);

impl TypedValueParser for Techniques {
    type Value = String;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&Arg>,
        value: &OsStr,
    ) -> Result<String, clap::Error> {
        StringValueParser::new().parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let mut all = vec![AUTO];
        for name in Processor::ALL.into_iter().flat_map(|processor| names(self.0, processor)) {
            if !all.contains(&name) {
                all.push(name);
            }
        }
        Some(Box::new(all.into_iter().map(PossibleValue::new)))
    }
}
