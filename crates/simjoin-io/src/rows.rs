//! How are rows in memory read, and the tokens of several inputs numbered together?
//!
//! [`Rows`] copy the values that they are made of, so that the [pipeline] can cut them into blocks for its threads. A
//! [`SetReader`] reads rows and files, one input after another.
//!
//! # Memory
//!
//! 8 bytes per integer; the bytes of a string and 8 more.

use crate::block::BlockBuilder;
use crate::dictionary::{Dictionary, Hasher, Place, TokenTexts};
use crate::options::{BlockSize, ReadOptions, Table};
use crate::pipeline::{self, Block, BlockReader, PipelineOptions};
use simjoin_core::Result;
use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// Rows in memory. A clone shares them.
///
/// ```
/// use simjoin_io::{ReadOptions, Rows, SetReader};
///
/// let mut reader = SetReader::default();
/// let numbers = Rows::of_tokens([vec![7, 8], vec![8]]);
/// let strings = Rows::of_tokens([["8", "nine"]]);
/// let options = ReadOptions::default();
/// assert_eq!(reader.rows("numbers", &numbers, &options)?.sets.tokens, [0, 1, 1]);
/// assert_eq!(reader.rows("strings", &strings, &options)?.sets.tokens, [1, 2]);
/// assert_eq!(reader.universe(), 3);
/// # Ok::<(), simjoin_core::Error>(())
/// ```
#[derive(Clone)]
pub struct Rows {
    values: Arc<dyn Values>,
    /// The end of the values of each row.
    ends: Arc<Vec<usize>>,
}

/// A token of a set: a string, or an integer, which is the same token as its decimal text.
pub trait Token: sealed::Token {}

impl<T: sealed::Token + ?Sized> Token for T {}

mod sealed {
    /// The operations that [`Rows`](super::Rows) need, hidden from other crates.
    pub trait Token {
        /// A list of such tokens.
        type Values: super::Values + Default + 'static;

        /// Adds the token to a list.
        fn add(&self, values: &mut Self::Values);
    }

    impl<T: Token + ?Sized> Token for &T {
        type Values = T::Values;

        fn add(&self, values: &mut Self::Values) {
            (**self).add(values);
        }
    }
}

/// A list of tokens of one type, or of records.
pub trait Values: Send + Sync {
    /// Returns the number of values.
    fn len(&self) -> usize;

    /// Returns the number of bytes of some values.
    fn bytes(&self, values: Range<usize>) -> usize;

    /// Adds a value to the current row of a block.
    fn add_to(&self, value: usize, block: &mut Builder<'_>);
}

/// A block builder in a public wrapper, because [`Values`] is public by its use in a public trait.
pub struct Builder<'b>(&'b mut BlockBuilder);

macro_rules! integers {
    ($wide:ty: $($integer:ty)*) => {
        impl Values for Vec<$wide> {
            fn len(&self) -> usize {
                self.len()
            }

            fn bytes(&self, values: Range<usize>) -> usize {
                8 * values.len()
            }

            fn add_to(&self, value: usize, block: &mut Builder<'_>) {
                block.0.integer(self[value] as u64, self[value]);
            }
        }

        $(impl sealed::Token for $integer {
            type Values = Vec<$wide>;

            fn add(&self, values: &mut Vec<$wide>) {
                values.push(*self as $wide);
            }
        })*
    };
}

integers!(u64: u8 u16 u32 u64 usize);
integers!(i64: i8 i16 i32 i64 isize);

/// A list of strings.
#[derive(Default)]
pub struct Strings {
    text: String,
    ends: Vec<usize>,
}

impl Strings {
    fn push(&mut self, text: &str) {
        self.text.push_str(text);
        self.ends.push(self.text.len());
    }

    fn start(&self, value: usize) -> usize {
        if value == 0 { 0 } else { self.ends[value - 1] }
    }

    fn get(&self, value: usize) -> &str {
        &self.text[self.start(value)..self.ends[value]]
    }
}

impl Values for Strings {
    fn len(&self) -> usize {
        self.ends.len()
    }

    fn bytes(&self, values: Range<usize>) -> usize {
        self.start(values.end) - self.start(values.start)
    }

    fn add_to(&self, value: usize, block: &mut Builder<'_>) {
        block.0.token(self.get(value).as_bytes());
    }
}

macro_rules! strings {
    ($($string:ty)*) => {
        $(impl sealed::Token for $string {
            type Values = Strings;

            fn add(&self, values: &mut Strings) {
                values.push(self);
            }
        })*
    };
}

strings!(str String Box<str> Arc<str> Cow<'_, str>);

/// Strings that the pipeline tokenizes.
struct TextRecords(Strings);

impl Values for TextRecords {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn bytes(&self, values: Range<usize>) -> usize {
        self.0.bytes(values)
    }

    fn add_to(&self, value: usize, block: &mut Builder<'_>) {
        block.0.record(self.0.get(value));
    }
}

impl Rows {
    /// Makes rows of records that are to be tokenized.
    pub fn of_text(records: impl IntoIterator<Item: AsRef<str>>) -> Self {
        let mut strings = Strings::default();
        records.into_iter().for_each(|record| strings.push(record.as_ref()));
        let ends = (1..=strings.len()).collect();
        Rows { values: Arc::new(TextRecords(strings)), ends: Arc::new(ends) }
    }

    /// Makes rows of tokens.
    pub fn of_tokens<R: IntoIterator<Item: Token>>(rows: impl IntoIterator<Item = R>) -> Self {
        let mut values = <<R::Item as sealed::Token>::Values>::default();
        let mut ends = Vec::new();
        for row in rows {
            row.into_iter().for_each(|token| sealed::Token::add(&token, &mut values));
            ends.push(values.len());
        }
        Rows { values: Arc::new(values), ends: Arc::new(ends) }
    }

    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    fn values_of(&self, row: usize) -> Range<usize> {
        (if row == 0 { 0 } else { self.ends[row - 1] })..self.ends[row]
    }
}

impl fmt::Debug for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rows").field("rows", &self.len()).finish_non_exhaustive()
    }
}

/// Cuts rows into blocks.
struct RowsReader {
    rows: Rows,
    next: usize,
    block_size: BlockSize,
}

impl BlockReader for RowsReader {
    fn next_block(&mut self) -> Result<Option<Box<dyn Block>>> {
        let (first, mut bytes) = (self.next, 0);
        while self.next < self.rows.len()
            && self.next - first < self.block_size.rows
            && bytes < self.block_size.bytes
        {
            bytes += self.rows.values.bytes(self.rows.values_of(self.next));
            self.next += 1;
        }
        let block = RowsBlock { rows: self.rows.clone(), range: first..self.next };
        Ok((first < self.next).then(|| Box::new(block) as Box<dyn Block>))
    }

    fn place(&self) -> Place {
        Place::Row
    }
}

/// A range of rows.
struct RowsBlock {
    rows: Rows,
    range: Range<usize>,
}

impl Block for RowsBlock {
    fn tokenize(&self, builder: &mut BlockBuilder) -> Result<()> {
        for row in self.range.clone() {
            for value in self.rows.values_of(row) {
                self.rows.values.add_to(value, &mut Builder(builder));
            }
            builder.end_row();
        }
        Ok(())
    }
}

/// Reads several inputs and numbers their tokens together.
#[derive(Default)]
pub struct SetReader {
    dictionary: Dictionary,
    hasher: Hasher,
}

impl SetReader {
    /// Reads rows in memory; messages call them `name`. The tokenizer only applies to records, not to tokens.
    pub fn rows(&mut self, name: &str, rows: &Rows, options: &ReadOptions) -> Result<Table> {
        self.check(options)?;
        let block_size = BlockSize::for_tokenizer(options.tokenizer);
        let reader = RowsReader { rows: rows.clone(), next: 0, block_size };
        self.read(Box::new(reader), name, options, true)
    }

    /// Returns the number of different tokens of all inputs.
    pub fn universe(&self) -> usize {
        self.dictionary.len()
    }

    /// Returns the texts of the tokens.
    pub fn into_texts(self) -> TokenTexts {
        self.dictionary.into_texts()
    }

    pub(crate) fn check(&self, options: &ReadOptions) -> Result<()> {
        options.tokenizer.check()
    }

    pub(crate) fn read(
        &mut self,
        reader: Box<dyn BlockReader + '_>,
        name: &str,
        options: &ReadOptions,
        may_be_empty: bool,
    ) -> Result<Table> {
        let pipeline_options = PipelineOptions {
            tokenizer: options.tokenizer,
            multiset: options.multiset,
            with_ids: options.id.is_some(),
            may_be_empty,
            threads: options.threads,
            hasher: self.hasher.clone(),
        };
        pipeline::run(reader, name, &pipeline_options, &mut self.dictionary)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokenize::Tokenizer;
    use proptest::prelude::*;

    fn read(rows: &Rows, options: &ReadOptions) -> (Table, TokenTexts) {
        let mut reader = SetReader::default();
        (reader.rows("rows", rows, options).unwrap(), reader.into_texts())
    }

    /// Returns the tokens of each row as text, sorted.
    fn tokens((table, texts): (Table, TokenTexts)) -> Vec<Vec<String>> {
        let rows = table.sets.offsets.windows(2).map(|ends| {
            let row = &table.sets.tokens[ends[0]..ends[1]];
            let mut row: Vec<String> = row.iter().map(|&token| texts.get(token)).collect();
            row.sort_unstable();
            row
        });
        rows.collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(100))]

        #[test]
        fn integers_strings_and_text_make_the_same_sets(
            rows in prop::collection::vec(prop::collection::vec(0u32..9, 0..6), 0..30),
            multiset in any::<bool>(),
            threads in 1usize..4,
        ) {
            let options = ReadOptions { multiset, threads, ..ReadOptions::default() };
            let strings: Vec<Vec<String>> = rows
                .iter()
                .map(|row| row.iter().map(u32::to_string).collect())
                .collect();
            let lines = strings.iter().map(|row| row.join(" "));
            let expected = read(&Rows::of_text(lines), &options).0;
            prop_assert_eq!(&read(&Rows::of_tokens(&rows), &options).0, &expected);
            prop_assert_eq!(&read(&Rows::of_tokens(&strings), &options).0, &expected);
            let signed = rows.iter().map(|row| row.iter().map(|&token| i64::from(token)));
            prop_assert_eq!(&read(&Rows::of_tokens(signed), &options).0, &expected);
        }
    }

    #[test]
    fn many_rows_are_read_in_blocks() {
        let rows = (0..50_000u32).map(|row| [row, row / 2]);
        let table =
            read(&Rows::of_tokens(rows), &ReadOptions { threads: 3, ..Default::default() }).0;
        assert_eq!(table.sets.rows(), 50_000);
        let same = table.sets.offsets.windows(2).filter(|ends| ends[1] - ends[0] == 1).count();
        assert_eq!(same, 1, "only 0 and 0 / 2 are the same token");
    }

    #[test]
    fn extreme_integers_keep_their_value() {
        let options = ReadOptions::default();
        let found = tokens(read(&Rows::of_tokens([[i64::MIN, -1, i64::MAX]]), &options));
        assert_eq!(found, [["-1", "-9223372036854775808", "9223372036854775807"]]);
        let found = tokens(read(&Rows::of_tokens([[u64::MAX]]), &options));
        assert_eq!(found, [["18446744073709551615"]]);
    }

    #[test]
    fn unsupported_lengths_of_q_grams_are_refused() {
        for q in [0, 101, usize::MAX] {
            let options = ReadOptions { tokenizer: Tokenizer::Qgrams(q), ..Default::default() };
            let error = SetReader::default().rows("rows", &Rows::of_text(["a"]), &options);
            assert!(error.unwrap_err().to_string().contains("from 1 to 100"));
        }
    }

    #[test]
    fn inputs_in_memory_may_be_empty() {
        let nothing = Rows::of_tokens(Vec::<Vec<u32>>::new());
        assert!(nothing.is_empty());
        assert_eq!(read(&nothing, &ReadOptions::default()).0.sets.rows(), 0);
        assert_eq!(read(&Rows::of_text(["", " "]), &ReadOptions::default()).0.sets.rows(), 2);
    }
}
