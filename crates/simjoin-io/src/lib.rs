//! How do records get from files into sets, and pairs from a join into files?
//!
//! * [`read_sets`] reads one or two inputs (lines, CSV, TSV, JSONL, Parquet, Arrow IPC; plain,
//!   gzip or zstd; files or standard input), tokenizes their records and numbers the tokens.
//! * [`read_vectors`] reads vectors (npy, fvecs, bvecs, CSV, TSV, Parquet, Arrow IPC).
//! * [`PairWriter`] and [`GroupWriter`] write answers (TSV, CSV, JSONL, Parquet, Arrow IPC). A
//!   file appears under its name only when it is complete.
//! * [`collect_sets`] and [`collect_vectors`] take tables that are in memory already, [`PairBatches`] makes
//!   such tables of answers.
//! * [`read_numbers`] reads one large set of numbers: text, raw 32-bit integers or a NumPy array.
//! * [`read_lines`], [`Vocabulary`] and [`LinesWriter`] are for tools that work line by line.
//!
//! ```text
//! path ─ source ─ reader ══ blocks ══> workers ══ local rows ══> merge ─> RawSets + Ids
//!        (gzip,   (one thread:         (threads: tokenize,       (calling thread:
//!         zstd)    cut into blocks)     number per block)         one dictionary)
//! ```
//!
//! Nothing here panics on what a file holds: bad input is an [`Error`](simjoin_core::Error) of one
//! line that names the file, the place and what was expected.

#![forbid(unsafe_code)]

mod block;
mod dictionary;
mod format;
mod ids;
mod memory;
mod numbers;
mod pipeline;
mod read;
mod readers;
mod source;
mod tokenize;
mod vectors;
mod writers;

pub use dictionary::{TokenTexts, Vocabulary};
pub use format::Format;
pub use ids::Ids;
pub use memory::{Batches, ElementSets, PairBatches};
pub use numbers::{NumberFormat, Numbers, npy_header, read_numbers, read_words};
pub use read::{ReadOptions, ReadSets, Table, collect_sets, read_sets, read_sets_with_texts};
pub use readers::lines::read_lines;
pub use tokenize::{Scratch as TokenScratch, Tokenizer};
pub use vectors::{ReadVectors, VectorFormat, VectorOptions, collect_vectors, read_vectors};
pub use writers::{GroupWriter, LinesWriter, OutputFormat, PairWriter, WholeFile};
