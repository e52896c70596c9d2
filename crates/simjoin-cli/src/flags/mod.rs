//! Which commands and flags are there?
//!
//! [`joins`] and [`generate`] hold the flags of the commands; [`values`] parses their values.

mod generate;
mod joins;
mod values;

use clap::{Parser, Subcommand};
use clap_complete::Shell;
pub use generate::{GenerateCommand, GenerateOutput, SyntheticFlags};
pub use joins::{
    AnswerFlags, BenchFlags, HowFlags, InputFlags, IntersectFlags, JoinFlags, OverlapsFlags,
    SetsFlags, TextFlags, VectorsFlags,
};
pub use values::{Predicates, SplitFlag};

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
            Parquet and Arrow files need --column: a list of strings or integers, or a string that \
            is split at white space. One file is joined with itself; two files are joined left \
            with right, and with --with-itself also right with right. '-' is standard input; \
            gzip and zstd files are decompressed.",
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
            A text file holds one record per line. CSV, TSV, JSONL, Parquet and Arrow files need \
            --column: a string. Records become sets of words (Unicode word boundaries, lower-cased) \
            or of q-grams (all substrings of Q characters, the record padded with Q-1 '$' at both \
            ends). One file is joined with itself; two files are joined left with right, and with \
            --with-itself also right with right. '-' is standard input; gzip and zstd files are \
            decompressed.",
        after_help = "Examples:\n  \
            simjoin text titles.txt --tokens words --jaccard 0.7\n  \
            simjoin text people.csv --column name --id ssn --tokens qgrams:3 --cosine 0.8\n  \
            simjoin text corpus.jsonl --column text --tokens words --jaccard 0.8 --groups -o groups.tsv\n  \
            simjoin text shop_a.csv shop_b.csv --column title --tokens qgrams:2 --dice 0.9 -o links.parquet"
    )]
    Text(TextFlags),
    /// Count the common tokens of all pairs of sets, without a threshold
    #[command(
        long_about = "Counts the common tokens of every pair of sets, without a threshold.\n\n\
            The input is that of 'simjoin sets'. One file is compared with itself, each pair once; two \
            files are compared left with right. Every pair is a row of the output, even without common \
            tokens; --positive omits these. --top K keeps the K largest overlaps of each row, which is then \
            the left row of the pair; of equal overlaps, it keeps the smallest row numbers. Pairs without \
            common tokens are never among them.",
        after_help = "Examples:\n  \
            simjoin overlaps columns.parquet --column values --positive -o shared.parquet\n  \
            simjoin overlaps neighbours.txt --top 10\n  \
            simjoin overlaps old.txt new.txt --positive --count"
    )]
    Overlaps(OverlapsFlags),
    /// Intersect two large sets of numbers or words
    #[command(
        long_about = "Prints the number of common elements of two sets.\n\n\
            A file holds one set: numbers from 0 to 4294967295 or words, separated by white space, in \
            any order; repeated elements count once; or raw 32-bit little-endian integers (.u32); or a \
            one-dimensional NumPy array of integers (.npy). Unless both files hold only numbers, they are \
            compared as words. '-' is standard input; gzip and zstd files are decompressed.",
        after_help = "Examples:\n  \
            simjoin intersect a.u32 b.u32\n  \
            simjoin intersect ids.txt.gz known.npy --containment\n  \
            simjoin intersect old.txt new.txt -o both.txt"
    )]
    Intersect(IntersectFlags),
    /// Join vectors by their distance or cosine
    #[command(
        long_about = "Finds all pairs of vectors within a Euclidean distance, or with at least a cosine.\n\n\
            Files are .npy (two dimensions, f32 or f64), .fvecs, .bvecs, .csv or .tsv (a number in each \
            field, or --column with all numbers of a vector; a first line without any number is a header), \
            .parquet or .arrow (--column with lists). One file is joined with itself; two files are joined \
            left with right. '-' is standard input; gzip and zstd files are decompressed.\n\n\
            Every technique finds the same pairs: a sum in double precision, in one order, decides. The \
            distance in the output is the root of that sum; with --cosine it is 1 - cosine.",
        after_help = "Examples:\n  \
            simjoin vectors points.npy --within 0.25\n  \
            simjoin vectors embeddings.parquet --column vector --id key --cosine 0.95 --groups -o groups.tsv\n  \
            simjoin vectors stars.fvecs other.fvecs --within 1e-3 --count"
    )]
    Vectors(VectorsFlags),
    /// List the GPUs that joins can run on
    #[command(
        long_about = "Lists the GPUs that joins can run on, with memory, compute capability \
            and the techniques that each can run. If there is none, prints the reason and \
            ends with status 0."
    )]
    Devices,
    /// Time self-joins of a file, by every technique, in one process
    #[command(
        long_about = "Times the counting of similar pairs, by several techniques and numbers of \
            threads, in one process.\n\n\
            Thresholds are a comma-separated list; the highest is joined first. The file is read once \
            per number of threads. Preparing it is repeated if that is quick, and the shortest time \
            counts. Then the techniques take turns at each threshold, in changing order. The output \
            shows the shortest and the median join in seconds. Every technique must find the \
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
            The same seed gives the same bytes on every machine. The memory depends on the number of \
            different tokens, not on the number of records. Numbers may end with K, M or G: 5M is \
            5000000. A single set (--sets 1) can also be written as .u32 (raw 32-bit integers) or \
            .npy (NumPy).",
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
