//! Which options do readers have, and which results?

use crate::format::Format;
use crate::ids::Ids;
use crate::tokenize::Tokenizer;
use simjoin_core::RawSets;

/// The options for reading inputs of sets.
#[derive(Clone, Debug)]
pub struct ReadOptions {
    /// Splits records into tokens. List columns need [`Tokenizer::Whitespace`], because their elements are already
    /// tokens.
    pub tokenizer: Tokenizer,
    /// Whether the k-th occurrence of a token in a record is a token of its own; otherwise repeated
    /// tokens count once.
    pub multiset: bool,
    /// The format of both inputs; by default each path's ending decides.
    pub format: Option<Format>,
    /// The column with the records. Optional if the file has only one column other than `id`.
    pub column: Option<String>,
    /// The column with the ids of the rows; by default a row is named by its number.
    pub id: Option<String>,
    /// The number of threads that tokenize, in addition to a reading and a merging thread.
    pub threads: usize,
}

impl Default for ReadOptions {
    fn default() -> Self {
        ReadOptions {
            tokenizer: Tokenizer::Whitespace,
            multiset: false,
            format: None,
            column: None,
            id: None,
            threads: 1,
        }
    }
}

/// The rows of one input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// The tokens of the records.
    pub sets: RawSets,
    /// The ids of the rows, if an id column was requested.
    pub ids: Option<Ids>,
}

/// All inputs of a join.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadSets {
    /// The left input, or the only one.
    pub left: Table,
    /// The right input of a join of two.
    pub right: Option<Table>,
    /// The number of different tokens; all token numbers are below it.
    pub universe: usize,
}

/// The size of the blocks that an input is cut into. Results do not depend on it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockSize {
    /// The approximate number of bytes of text in a block.
    pub(crate) bytes: usize,
    /// The largest number of rows of a table in a block.
    pub(crate) rows: usize,
}

impl BlockSize {
    /// The size of blocks of columns of numbers, which are not tokenized.
    #[cfg(feature = "files")]
    pub(crate) const NUMBERS: BlockSize = BlockSize { bytes: 1 << 20, rows: 8192 };

    /// Returns the size of blocks of records for a tokenizer. Long q-grams repeat each byte q times in the dictionary
    /// of a block, so their blocks are smaller.
    pub(crate) fn for_tokenizer(tokenizer: Tokenizer) -> BlockSize {
        let bytes = match tokenizer {
            Tokenizer::Qgrams(q) => ((4 << 20) / q).clamp(128 << 10, 1 << 20),
            _ => 1 << 20,
        };
        BlockSize { bytes, rows: 8192 }
    }
}
