//! Which flags do the commands for artificial collections have?

use super::values::{at_least_one, count, number, profiles, range};
use clap::{Args, Subcommand, ValueHint};
use simjoin_generate::Profile;
use std::ops::RangeInclusive;
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub enum GenerateCommand {
    /// Sets of equally frequent tokens
    #[command(
        long_about = "Makes sets of equally frequent tokens.\n\n\
            Tokens are the numbers from 1 to the universe. No set is empty or holds a token twice; \
            sizes follow a Poisson distribution.",
        after_help = "Examples:\n  \
            simjoin generate uniform --sets 5M --universe 500K --size 10 -o 5M-500K-10.txt\n  \
            simjoin generate uniform --sets 1K --universe 100 --size 5 | simjoin sets - --jaccard 0.5"
    )]
    Uniform(SyntheticFlags),
    /// Sets of tokens that follow Zipf's law
    #[command(
        long_about = "Makes sets of tokens that follow Zipf's law.\n\n\
            Tokens are the numbers from 1 to the universe; token k is drawn with the weight 1/k^S. \
            No set is empty or holds a token twice; sizes follow a Poisson distribution.",
        after_help = "Examples:\n  \
            simjoin generate zipf --sets 5M --universe 500K --size 10 -o 5M-500K-10.txt\n  \
            simjoin generate zipf --sets 20M --universe 50K --size 5 --exponent 0.8 --seed 2 -o z.zst"
    )]
    Zipf {
        #[command(flatten)]
        synthetic: SyntheticFlags,

        /// Exponent of the law, from 0 (equally frequent tokens) to 10
        #[arg(
            long,
            value_name = "S",
            default_value = "1.0",
            help_heading = "What",
            allow_hyphen_values = true, value_parser = number)]
        exponent: f64,
    },
    /// Sets that resemble a collection of the literature
    #[command(
        long_about = "Makes sets that resemble a collection of the literature.\n\n\
            The number of sets, their average size and the number of different tokens are those in the \
            papers' tables. Tokens follow Zipf's law, and sizes are skewed if the papers show that. There \
            are hardly any near-duplicates.",
        after_help = "Examples:\n  \
            simjoin generate like --list\n  \
            simjoin generate like kosarak -o kosarak.txt.zst\n  \
            simjoin generate like dblp-1m --sets 50K -o dblp-50k.txt"
    )]
    Like {
        /// The collection
        #[arg(value_name = "NAME", value_parser = profiles(), required_unless_present = "list")]
        name: Option<Profile>,

        /// List the collections: sets, tokens per set, different tokens (TSV)
        #[arg(long, help_heading = "What", conflicts_with_all = ["name", "sets"])]
        list: bool,

        /// Number of sets [default: that of the collection]
        #[arg(long, value_name = "N", help_heading = "What", allow_hyphen_values = true, value_parser = at_least_one)]
        sets: Option<u64>,

        #[command(flatten)]
        seed: Seed,

        #[command(flatten)]
        output: GenerateOutput,
    },
    /// Sets of tokens that follow a normal distribution
    #[command(
        long_about = "Makes sets of tokens that follow a normal distribution.\n\n\
            Tokens are the numbers from 1 to the universe, and those in its middle are the most frequent. \
            No set is empty or holds a token twice; sizes follow a Poisson distribution.",
        after_help = "Examples:\n  \
            simjoin generate normal --sets 1 --universe 1G --size 10M -o a.u32\n  \
            simjoin generate normal --sets 1K --universe 100M --size 10K --deviation 5M -o n.txt.zst"
    )]
    Normal {
        #[command(flatten)]
        synthetic: SyntheticFlags,

        /// Standard deviation, in tokens; at least a quarter of the average size [default: an eighth of the
        /// universe]
        #[arg(long, value_name = "N", help_heading = "What", allow_hyphen_values = true, value_parser = at_least_one)]
        deviation: Option<u64>,
    },
    /// Vectors: uniform, in clusters, or in correlated clusters
    #[command(
        long_about = "Makes vectors in single precision, distributed as in the literature on joins of vectors: \
            uniformly in the unit cube (DS1), in Gaussian clusters (DS2), or in Gaussian clusters with \
            correlated coordinates (DS3). The output ends with .npy, .fvecs or .csv; standard output is CSV.",
        after_help = "Examples:\n  \
            simjoin generate vectors uniform --vectors 1M --dimension 8 -o ds1.npy\n  \
            simjoin generate vectors clusters --vectors 1M --dimension 8 --clusters 5 -o ds2.npy\n  \
            simjoin generate vectors correlated --vectors 10K --dimension 960 --spread 0.1 -o ds3.fvecs"
    )]
    Vectors {
        /// Distribution of the vectors
        #[arg(value_name = "SHAPE", value_parser = ["uniform", "clusters", "correlated"])]
        shape: String,

        /// Number of vectors
        #[arg(long, value_name = "N", help_heading = "What", allow_hyphen_values = true, value_parser = at_least_one)]
        vectors: u64,

        /// Number of elements of each vector
        #[arg(long, value_name = "D", help_heading = "What", allow_hyphen_values = true, value_parser = at_least_one)]
        dimension: u64,

        /// Number of clusters; not for uniform [default: 5]
        #[arg(long, value_name = "K", help_heading = "What", allow_hyphen_values = true, value_parser = at_least_one)]
        clusters: Option<u64>,

        /// Standard deviation of a cluster in each coordinate, or in its strongest direction; not for uniform
        /// [default: 0.05]
        #[arg(long, value_name = "S", help_heading = "What", allow_hyphen_values = true, value_parser = number)]
        spread: Option<f64>,

        #[command(flatten)]
        seed: Seed,

        #[command(flatten)]
        output: GenerateOutput,
    },
    /// Make a file of sets several times as large
    #[command(
        long_about = "Makes a file of sets several times as large.\n\n\
            The method is that of Vernica, Carey and Li: tokens are sorted by rising frequency, and \
            copy k of a set replaces each token by the one k places further on (the first follows \
            the last). So the tokens stay the same, and the result of a join grows with the file, \
            not with its square. FILE holds one set per line, tokens separated by white space; in \
            the output, each set is followed by its copies. FILE is read twice, so it cannot be \
            standard input; gzip and zstd files are decompressed.",
        after_help = "Example:\n  \
            simjoin generate inflate baskets.txt.gz --times 10 -o baskets-10.txt.gz"
    )]
    Inflate {
        /// The file of sets
        #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
        file: PathBuf,

        /// Factor by which the number of sets grows
        #[arg(long, value_name = "N", help_heading = "What", allow_hyphen_values = true, value_parser = at_least_one)]
        times: u64,

        #[command(flatten)]
        output: GenerateOutput,
    },
    /// Add copies with typing errors to the records of a text file
    #[command(
        long_about = "Adds copies with typing errors to the records of a text file.\n\n\
            FILE holds one record per line; in the output, each record is followed by its copies. A \
            copy has random insertions, deletions and replacements of single characters. '-' is \
            standard input; gzip and zstd files are decompressed.",
        after_help = "Examples:\n  \
            simjoin generate dirty titles.txt --copies 2 -o dirty.txt\n  \
            simjoin generate dirty names.txt --copies 10 --edits 1..2 --seed 7 -o dirty.txt"
    )]
    Dirty {
        /// The file of records; '-' is standard input
        #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
        file: PathBuf,

        /// Number of copies of each record
        #[arg(long, value_name = "N", help_heading = "What", allow_hyphen_values = true, value_parser = at_least_one)]
        copies: u64,

        /// Number of edits of a copy: a number, or a range that includes both ends
        #[arg(
            long,
            value_name = "A..B",
            default_value = "1..5",
            help_heading = "What",
            allow_hyphen_values = true, value_parser = range)]
        edits: RangeInclusive<u64>,

        #[command(flatten)]
        seed: Seed,

        #[command(flatten)]
        output: GenerateOutput,
    },
}

#[derive(Debug, Args)]
pub struct SyntheticFlags {
    /// Number of sets
    #[arg(long, value_name = "N", help_heading = "What", allow_hyphen_values = true, value_parser = at_least_one)]
    pub sets: u64,

    /// Number of different tokens
    #[arg(long, value_name = "N", help_heading = "What", allow_hyphen_values = true, value_parser = at_least_one)]
    pub universe: u64,

    /// Average number of tokens of a set
    #[arg(long, value_name = "N", help_heading = "What", allow_hyphen_values = true, value_parser = at_least_one)]
    pub size: u64,

    #[command(flatten)]
    pub seed: Seed,

    #[command(flatten)]
    pub output: GenerateOutput,
}

#[derive(Debug, Args)]
pub struct Seed {
    /// Seed of the random numbers; the same seed gives the same output
    #[arg(
        long,
        value_name = "N",
        default_value = "1",
        help_heading = "What",
        allow_hyphen_values = true, value_parser = count)]
    pub seed: u64,
}

#[derive(Debug, Args)]
pub struct GenerateOutput {
    /// Write to FILE, compressed if it ends with .gz or .zst [default: standard output]
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Output")]
    pub output: Option<PathBuf>,

    /// Show no progress
    #[arg(short, long, help_heading = "Output")]
    pub quiet: bool,
}
