//! How are files read into sets, and answers written to files?
//!
//! * [`read_sets`] reads one or two inputs (lines, CSV, TSV, JSONL, Parquet, Arrow IPC; plain,
//!   gzip or zstd; files or standard input), tokenizes their records and numbers the tokens.
//! * [`read_vectors`] reads vectors (npy, fvecs, bvecs, CSV, TSV, Parquet, Arrow IPC).
//! * [`PairWriter`] and [`GroupWriter`] write answers (TSV, CSV, JSONL, Parquet, Arrow IPC). A
//!   file appears under its name only when it is complete.
//! * [`collect_sets`] and [`collect_vectors`] read tables that are already in memory; [`PairBatches`] makes
//!   such tables of answers.
//! * [`check_outputs`] refuses outputs that would overwrite an input or one another.
//! * [`read_numbers`] reads one large set of numbers: text, raw 32-bit integers or a NumPy array.
//! * [`SetReader`] reads several inputs, files or [`Rows`] of strings and integers, and numbers their tokens together.
//!   [`SetInput`] and [`VectorInput`] are inputs of either type, with options.
//! * [`read_lines`], [`Vocabulary`] and [`LinesWriter`] are for tools that work line by line.
//!
//! Without the feature `files`, this crate only reads rows in memory, and has neither Arrow nor Parquet.
//!
//! ```text
//! path ─ source ─ reader ══ blocks ══> workers ══ local rows ══> merge ─> RawSets + Ids
//!        (gzip,   (one thread:         (threads: tokenize,       (calling thread:
//!         zstd)    cut into blocks)     number per block)         one dictionary)
//! ```
//!
//! No content of a file causes a panic. Bad input is an [`Error`](simjoin_core::Error) of one line, which names the
//! file, the place and the expected content.

#![forbid(unsafe_code)]
// Ids and places are only used for files.
#![cfg_attr(not(feature = "files"), allow(dead_code))]

mod block;
mod dictionary;
mod format;
mod ids;
mod input;
#[cfg(feature = "files")]
mod memory;
#[cfg(feature = "files")]
mod npy;
#[cfg(feature = "files")]
mod numbers;
mod options;
mod path;
mod pipeline;
#[cfg(feature = "files")]
mod read;
#[cfg(feature = "files")]
mod readers;
mod rows;
#[cfg(feature = "files")]
mod source;
mod tokenize;
#[cfg(feature = "files")]
mod vectors;
#[cfg(feature = "files")]
mod writers;

pub use block::occurrence_token;
pub use dictionary::{TokenTexts, Vocabulary};
pub use format::Format;
pub use ids::Ids;
pub use input::{SetInput, VectorInput};
#[cfg(feature = "files")]
pub use memory::{Batches, ElementSets, PairBatches};
#[cfg(feature = "files")]
pub use npy::npy_header;
#[cfg(feature = "files")]
pub use numbers::{NumberFormat, Numbers, read_numbers, read_words};
pub use options::{ReadOptions, ReadSets, Table};
pub use path::{STANDARD_OUTPUT, check_outputs, display_name, escape_controls};
#[cfg(feature = "files")]
pub use read::{collect_sets, read_sets, read_sets_with_texts};
#[cfg(feature = "files")]
pub use readers::lines::read_lines;
pub use rows::{Rows, SetReader, Token};
pub use tokenize::{Scratch as TokenScratch, Tokenizer};
#[cfg(feature = "files")]
pub use vectors::{ReadVectors, VectorFormat, VectorOptions, collect_vectors, read_vectors};
#[cfg(feature = "files")]
pub use writers::{GroupWriter, LinesWriter, OutputFormat, PairWriter, WholeFile};
