//! How does a block of records become sets?
//!
//! A [`BlockBuilder`] numbers the tokens of one block, independently of all other blocks ([`BlockSets`]). A row holds
//! each local number at most once: a stamp per token says in which row it was last seen, so nothing is sorted. With
//! `multiset`, the k-th occurrence (k ≥ 2) of a token in a record is a token of its own: the token's bytes, the byte
//! 0xFF, and k. UTF-8 text never holds the byte 0xFF, so such a token differs from all others.

use crate::dictionary::{Hasher, Tokens};
use crate::tokenize::{Scratch, Tokenizer, for_each_token};
use hashbrown::HashTable;
use simjoin_core::Error;

/// The ids of a block's rows.
#[derive(Default)]
pub(crate) struct BlockIds {
    pub(crate) text: String,
    pub(crate) ends: Vec<usize>,
    pub(crate) places: Vec<u64>,
    /// Whether every id had an integer type and fits a signed 64-bit integer.
    pub(crate) integers: bool,
}

/// The sets of a block, as rows of local token numbers.
pub(crate) struct BlockSets {
    pub(crate) tokens: Tokens,
    /// The tokens of all rows, by local number.
    pub(crate) rows: Vec<u32>,
    /// The end of each row in `rows`.
    pub(crate) ends: Vec<usize>,
    pub(crate) ids: BlockIds,
    /// The error in the record after the last row, if it has one.
    pub(crate) error: Option<Error>,
}

/// Hashes a number; neighbours differ in the high bits and in the low ones.
#[inline]
fn spread(bits: u64) -> u64 {
    let product = bits.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    product ^ (product >> 32)
}

/// Builds the sets of one block after another.
pub(crate) struct BlockBuilder {
    tokenizer: Tokenizer,
    multiset: bool,
    hasher: Hasher,
    table: HashTable<u32>,
    /// The bits of each integer, with its local number. An integer is converted to decimal once per block.
    integers: HashTable<(u64, u32)>,
    /// By local number: the row that the token was last seen in, counted from 1.
    stamps: Vec<u32>,
    /// By local number: the number of occurrences in that row.
    counts: Vec<u32>,
    scratch: Scratch,
    repeated: Vec<u8>,
    row: u32,
    out: BlockSets,
}

impl BlockBuilder {
    pub(crate) fn new(tokenizer: Tokenizer, multiset: bool, hasher: Hasher) -> Self {
        BlockBuilder {
            tokenizer,
            multiset,
            hasher,
            table: HashTable::new(),
            integers: HashTable::new(),
            stamps: Vec::new(),
            counts: Vec::new(),
            scratch: Scratch::default(),
            repeated: Vec::new(),
            row: 1,
            out: Self::empty(),
        }
    }

    fn empty() -> BlockSets {
        BlockSets {
            tokens: Tokens::default(),
            rows: Vec::new(),
            ends: Vec::new(),
            ids: BlockIds { integers: true, ..BlockIds::default() },
            error: None,
        }
    }

    /// Returns the tokenizer of the records.
    pub(crate) fn tokenizer(&self) -> Tokenizer {
        self.tokenizer
    }

    /// Adds a record's tokens to the current row.
    #[inline]
    pub(crate) fn record(&mut self, text: &str) {
        let mut scratch = std::mem::take(&mut self.scratch);
        for_each_token(self.tokenizer, text, &mut scratch, |token| self.token(token));
        self.scratch = scratch;
    }

    /// Adds an integer to the current row; the token is its decimal text. All integers of a block have one type, so
    /// their `bits` identify them.
    #[inline]
    pub(crate) fn integer<I: itoa::Integer + Copy>(&mut self, bits: u64, value: I) {
        let hash = spread(bits);
        let known = self.integers.find(hash, |&(other, _)| other == bits);
        let number = match known {
            Some(&(_, number)) => number,
            None => {
                let number = self.number(itoa::Buffer::new().format(value).as_bytes());
                self.integers.insert_unique(hash, (bits, number), |&(bits, _)| spread(bits));
                number
            }
        };
        if self.is_repeated(number) {
            self.repeated_token(itoa::Buffer::new().format(value).as_bytes(), number);
        }
    }

    /// Adds one token, unchanged, to the current row.
    #[inline]
    pub(crate) fn token(&mut self, token: &[u8]) {
        let number = self.number(token);
        if self.is_repeated(number) {
            self.repeated_token(token, number);
        }
    }

    /// Adds a token to the current row if it is new there. Returns true if it is repeated and repetitions count.
    #[inline]
    fn is_repeated(&mut self, number: u32) -> bool {
        let stamp = &mut self.stamps[number as usize];
        if *stamp == self.row {
            return self.multiset;
        }
        *stamp = self.row;
        self.out.rows.push(number);
        false
    }

    /// Returns the local number of a token.
    #[inline]
    fn number(&mut self, token: &[u8]) -> u32 {
        let hash = self.hasher.hash(token);
        let (number, new) = self.out.tokens.number(&mut self.table, token, hash);
        if new {
            self.stamps.push(0);
        }
        number
    }

    /// Adds the next occurrence of a token that the current row already holds.
    #[cold]
    fn repeated_token(&mut self, token: &[u8], number: u32) {
        if self.counts.len() < self.stamps.len() {
            self.counts.resize(self.stamps.len(), 1);
        }
        self.counts[number as usize] += 1;
        let occurrence = self.counts[number as usize];
        let mut key = std::mem::take(&mut self.repeated);
        key.clear();
        occurrence_token(token, occurrence, &mut key);
        let own = self.number(&key);
        self.repeated = key;
        self.stamps[own as usize] = self.row;
        self.out.rows.push(own);
    }

    /// Sets the id of the current row, before [`end_row`](Self::end_row).
    pub(crate) fn id(&mut self, id: &str, is_integer: bool, place: u64) {
        let ids = &mut self.out.ids;
        ids.text.push_str(id);
        ids.ends.push(ids.text.len());
        ids.places.push(place);
        ids.integers &= is_integer && id.parse::<i64>().is_ok();
    }

    /// Ends the current row.
    #[inline]
    pub(crate) fn end_row(&mut self) {
        if self.multiset && !self.counts.is_empty() {
            let start = self.out.ends.last().copied().unwrap_or(0);
            for &number in &self.out.rows[start..] {
                if let Some(count) = self.counts.get_mut(number as usize) {
                    *count = 1;
                }
            }
        }
        self.out.ends.push(self.out.rows.len());
        self.row += 1;
    }

    /// Returns the rows of the block, without a row that has not ended. The builder is then ready for the next block.
    pub(crate) fn finish(&mut self, error: Option<Error>) -> BlockSets {
        self.table.clear();
        self.integers.clear();
        self.stamps.clear();
        self.counts.clear();
        self.row = 1;
        let mut out = std::mem::replace(&mut self.out, Self::empty());
        out.rows.truncate(out.ends.last().copied().unwrap_or(0));
        out.error = error;
        out
    }
}

/// Appends the token that stands for the k-th occurrence (k ≥ 2) of a token in a record.
pub fn occurrence_token(token: &[u8], occurrence: u32, out: &mut Vec<u8>) {
    out.extend_from_slice(token);
    out.push(0xFF);
    out.extend_from_slice(&occurrence.to_le_bytes());
}

/// Splits a token made by [`occurrence_token`] into the token and the number of its occurrence.
pub(crate) fn split_occurrence(token: &[u8]) -> Option<(&[u8], u32)> {
    let (rest, occurrence) = token.split_last_chunk::<4>()?;
    Some((rest.strip_suffix(&[0xFF])?, u32::from_le_bytes(*occurrence)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(multiset: bool, records: &[&str]) -> (Vec<Vec<u32>>, usize) {
        let mut builder = BlockBuilder::new(Tokenizer::Whitespace, multiset, Hasher::default());
        for record in records {
            builder.record(record);
            builder.end_row();
        }
        let block = builder.finish(None);
        let mut start = 0;
        let rows = block.ends.iter().map(|&end| {
            let row = block.rows[start..end].to_vec();
            start = end;
            row
        });
        (rows.collect(), block.tokens.len())
    }

    #[test]
    fn repeated_tokens_count_once() {
        let (rows, universe) = rows(false, &["a b a a", "", "b b c"]);
        assert_eq!(rows, [vec![0, 1], vec![], vec![1, 2]]);
        assert_eq!(universe, 3);
    }

    #[test]
    fn each_further_occurrence_is_its_own_token_in_multisets() {
        // a=0 b=1 a#2=2 a#3=3, then b#2=4
        let (rows, universe) = rows(true, &["a b a a", "a a", "b b", "a", "a a a"]);
        assert_eq!(rows, [vec![0, 1, 2, 3], vec![0, 2], vec![1, 4], vec![0], vec![0, 2, 3]]);
        assert_eq!(universe, 5);
    }

    #[test]
    fn integers_equal_their_decimal_text() {
        for multiset in [false, true] {
            let mut texts = BlockBuilder::new(Tokenizer::Whitespace, multiset, Hasher::default());
            let mut numbers = BlockBuilder::new(Tokenizer::Whitespace, multiset, Hasher::default());
            // The second block checks that nothing of the first remains.
            for block in [[5i64, -1, 5, 5, 0, i64::MIN, 7], [7, 7, -1, 1 << 40, 5, 5, 7]] {
                for row in block.chunks(4) {
                    for &number in row {
                        texts.token(number.to_string().as_bytes());
                        numbers.integer(number as u64, number);
                    }
                    texts.end_row();
                    numbers.end_row();
                }
                let (text, number) = (texts.finish(None), numbers.finish(None));
                assert_eq!((&text.rows, &text.ends), (&number.rows, &number.ends));
                for at in 0..text.tokens.len() as u32 {
                    assert_eq!(text.tokens.get(at), number.tokens.get(at));
                }
            }
        }
    }

    #[test]
    fn unfinished_rows_are_dropped() {
        let mut builder = BlockBuilder::new(Tokenizer::Whitespace, false, Hasher::default());
        builder.record("a b");
        builder.end_row();
        builder.record("c d");
        let block = builder.finish(Some(Error::Config("x".into())));
        assert_eq!(block.rows, [0, 1]);
        assert_eq!(block.ends, [2]);
        builder.record("z");
        builder.end_row();
        let block = builder.finish(None);
        assert_eq!((block.rows, block.ends, block.tokens.len()), (vec![0], vec![1], 1));
    }
}
