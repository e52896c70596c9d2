//! What is read, and in what form does it come back?

use crate::format::Format;
use crate::ids::Ids;
use crate::tokenize::Tokenizer;
use simjoin_core::RawSets;

/// What is read from the inputs, and how.
#[derive(Clone, Debug)]
pub struct ReadOptions {
    /// How records become tokens. List columns need [`Tokenizer::Whitespace`]: their elements are
    /// tokens already.
    pub tokenizer: Tokenizer,
    /// Whether the k-th occurrence of a token in a record is a token of its own; otherwise repeated
    /// tokens collapse.
    pub multiset: bool,
    /// The format of both inputs; by default each path's ending decides.
    pub format: Option<Format>,
    /// The column with the records. May be left out when the file has only one beside `id`.
    pub column: Option<String>,
    /// The column with the rows' ids; by default rows go by their number.
    pub id: Option<String>,
    /// How many threads tokenize; a reading and a merging thread come on top.
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

/// One input as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// The records' tokens.
    pub sets: RawSets,
    /// The rows' ids, when an id column was asked for.
    pub ids: Option<Ids>,
}

/// A join's input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadSets {
    /// The left input, or the only one.
    pub left: Table,
    /// The right input of a join of two.
    pub right: Option<Table>,
    /// Token numbers of both are below this.
    pub universe: usize,
}

/// How finely input is cut. Results do not depend on it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cut {
    /// Bytes of text in a block.
    pub(crate) bytes: usize,
    /// Rows of columns in a block, at most.
    pub(crate) rows: usize,
}

impl Cut {
    /// Columns of numbers, which are not tokenized.
    #[cfg(feature = "files")]
    pub(crate) const NUMBERS: Cut = Cut { bytes: 1 << 20, rows: 8192 };

    /// Long q-grams repeat each byte q times in a block's dictionary, so their blocks are smaller.
    pub(crate) fn for_tokenizer(tokenizer: Tokenizer) -> Cut {
        let bytes = match tokenizer {
            Tokenizer::Qgrams(q) => ((4 << 20) / q).clamp(128 << 10, 1 << 20),
            _ => 1 << 20,
        };
        Cut { bytes, rows: 8192 }
    }
}
