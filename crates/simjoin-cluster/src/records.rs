//! Which tokens does a record of an Arrow column have?
//!
//! A record is a string or a list. A tokenizer cuts a string into tokens. The elements of a list
//! (strings or 64-bit integers) are tokens; the token of an integer is its decimal digits. Repeated
//! tokens count once; with `multiset`, the k-th occurrence (k ≥ 2) is a token of its own
//! ([`occurrence_token`]). A null is an error that names the row.

use crate::keys::Keys;
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, Int64Array, LargeStringArray, StringArray};
use arrow_schema::DataType;
use simjoin_core::{Error, Result};
use simjoin_io::{TokenScratch, Tokenizer, occurrence_token};

/// Strings of either width.
enum Text<'a> {
    Small(&'a StringArray),
    Large(&'a LargeStringArray),
}

impl<'a> Text<'a> {
    fn of(array: &'a dyn Array) -> Option<Self> {
        match array.data_type() {
            DataType::Utf8 => Some(Text::Small(array.as_string())),
            DataType::LargeUtf8 => Some(Text::Large(array.as_string())),
            _ => None,
        }
    }

    fn value(&self, at: usize) -> &'a str {
        match self {
            Text::Small(array) => array.value(at),
            Text::Large(array) => array.value(at),
        }
    }
}

enum Elements<'a> {
    Text(Text<'a>),
    Integers(&'a Int64Array),
}

enum Column<'a> {
    Text(Text<'a>),
    Lists { ends: &'a [i32], array: &'a dyn Array, elements: Elements<'a> },
    LargeLists { ends: &'a [i64], array: &'a dyn Array, elements: Elements<'a> },
}

/// A token of a record: its key and the range of its bytes.
#[derive(Clone, Copy)]
struct Item {
    key: u64,
    start: usize,
    end: usize,
}

/// Turns rows into tokens. It reuses its buffers from row to row.
pub struct Records {
    keys: Keys,
    tokenizer: Tokenizer,
    multiset: bool,
    scratch: TokenScratch,
    bytes: Vec<u8>,
    items: Vec<Item>,
    plain: Vec<u64>,
}

impl Records {
    /// Makes a reader of records; the tokenizer is for strings.
    pub fn new(keys: Keys, tokenizer: Tokenizer, multiset: bool) -> Self {
        Records {
            keys,
            tokenizer,
            multiset,
            scratch: TokenScratch::default(),
            bytes: Vec::new(),
            items: Vec::new(),
            plain: Vec::new(),
        }
    }

    /// Calls `take` for each row with the keys of its distinct tokens, ascending. Errors name the column
    /// `name` and count rows from `first`.
    pub fn keys_of(
        &mut self,
        array: &dyn Array,
        (name, first): (&str, u64),
        mut take: impl FnMut(&[u64]) -> Result<()>,
    ) -> Result<()> {
        if self.multiset {
            return self.tokens_of(array, (name, first), |_, row| {
                let mut keys: Vec<u64> = row.map(|(key, _)| key).collect();
                keys.sort_unstable();
                take(&keys)
            });
        }
        let column = Column::of(array, name)?;
        let mut plain = std::mem::take(&mut self.plain);
        for row in 0..array.len() {
            plain.clear();
            let keys = self.keys;
            self.each(&column, row, (name, first), |token| plain.push(keys.key(token)))?;
            plain.sort_unstable();
            plain.dedup();
            take(&plain)?;
        }
        self.plain = plain;
        Ok(())
    }

    /// Calls `take` for each row with its number and its distinct tokens, as keys and bytes.
    pub fn tokens_of(
        &mut self,
        array: &dyn Array,
        (name, first): (&str, u64),
        mut take: impl FnMut(u64, &mut dyn ExactSizeIterator<Item = (u64, &[u8])>) -> Result<()>,
    ) -> Result<()> {
        let column = Column::of(array, name)?;
        for row in 0..array.len() {
            let (mut bytes, mut items) =
                (std::mem::take(&mut self.bytes), std::mem::take(&mut self.items));
            bytes.clear();
            items.clear();
            let keys = self.keys;
            self.each(&column, row, (name, first), |token| {
                let start = bytes.len();
                bytes.extend_from_slice(token);
                items.push(Item { key: keys.key(token), start, end: bytes.len() });
            })?;
            self.distinct(&mut bytes, &mut items);
            let mut tokens = items.iter().map(|item| (item.key, &bytes[item.start..item.end]));
            take(first + row as u64, &mut tokens)?;
            (self.bytes, self.items) = (bytes, items);
        }
        Ok(())
    }

    /// Removes repeated tokens, or turns them into tokens of their own.
    fn distinct(&self, bytes: &mut Vec<u8>, items: &mut Vec<Item>) {
        items.sort_unstable_by(|a, b| {
            (a.key, &bytes[a.start..a.end]).cmp(&(b.key, &bytes[b.start..b.end]))
        });
        let mut occurrence = 1u32;
        for at in 1..items.len() {
            let (before, own) = (items[at - 1], items[at]);
            let first = items[at - occurrence as usize];
            if own.key != before.key && occurrence == 1 {
                continue;
            }
            if bytes[first.start..first.end] != bytes[own.start..own.end] {
                occurrence = 1;
                continue;
            }
            occurrence += 1;
            if self.multiset {
                let mut token = Vec::new();
                occurrence_token(&bytes[own.start..own.end], occurrence, &mut token);
                let start = bytes.len();
                bytes.extend_from_slice(&token);
                items[at] = Item { key: self.keys.key(&token), start, end: bytes.len() };
            } else {
                // Marked, and removed below.
                items[at].end = items[at].start;
                items[at].key = u64::MAX;
            }
        }
        items.retain(|item| item.key != u64::MAX);
    }

    fn each(
        &mut self,
        column: &Column<'_>,
        row: usize,
        (name, first): (&str, u64),
        mut emit: impl FnMut(&[u8]),
    ) -> Result<()> {
        let (range, array, elements) = match column {
            Column::Text(text) => {
                let missing = match text {
                    Text::Small(array) => array.is_null(row),
                    Text::Large(array) => array.is_null(row),
                };
                if !missing {
                    self.tokenizer.for_each(text.value(row), &mut self.scratch, emit);
                }
                return Ok(());
            }
            Column::Lists { ends, array, elements } => {
                (ends[row] as usize..ends[row + 1] as usize, array, elements)
            }
            Column::LargeLists { ends, array, elements } => {
                (ends[row] as usize..ends[row + 1] as usize, array, elements)
            }
        };
        if array.is_null(row) {
            return Ok(());
        }
        let begin = range.start;
        for at in range {
            let missing = match elements {
                Elements::Text(Text::Small(array)) => array.is_null(at),
                Elements::Text(Text::Large(array)) => array.is_null(at),
                Elements::Integers(array) => array.is_null(at),
            };
            if missing {
                return Err(Error::input(
                    format!("column `{name}`"),
                    format!("row {} (counting from 0)", first + row as u64),
                    format!("element {} of the list is null; a token was expected", at - begin),
                ));
            }
            match elements {
                Elements::Text(text) => emit(text.value(at).as_bytes()),
                Elements::Integers(array) => {
                    emit(itoa::Buffer::new().format(array.value(at)).as_bytes());
                }
            }
        }
        Ok(())
    }
}

impl<'a> Column<'a> {
    fn of(array: &'a dyn Array, name: &str) -> Result<Self> {
        if let Some(text) = Text::of(array) {
            return Ok(Column::Text(text));
        }
        let elements = |values: &'a dyn Array| match values.data_type() {
            DataType::Int64 => Some(Elements::Integers(values.as_primitive::<Int64Type>())),
            _ => Text::of(values).map(Elements::Text),
        };
        let column = match array.data_type() {
            DataType::List(_) => {
                let list = array.as_list::<i32>();
                elements(list.values()).map(|elements| Column::Lists {
                    ends: list.value_offsets(),
                    array,
                    elements,
                })
            }
            DataType::LargeList(_) => {
                let list = array.as_list::<i64>();
                elements(list.values()).map(|elements| Column::LargeLists {
                    ends: list.value_offsets(),
                    array,
                    elements,
                })
            }
            _ => None,
        };
        column.ok_or_else(|| {
            Error::input(
                format!("column `{name}`"),
                "",
                format!(
                    "is of type {}; strings, or lists of strings or 64-bit integers were expected",
                    array.data_type()
                ),
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::builder::{Int64Builder, ListBuilder};

    fn keys() -> Keys {
        Keys::new(1, 63).unwrap()
    }

    fn tokens(multiset: bool, bits: u32, rows: &[&str]) -> Vec<Vec<Vec<u8>>> {
        let keys = Keys::new(1, bits).unwrap();
        let mut records = Records::new(keys, Tokenizer::Whitespace, multiset);
        let mut out = Vec::new();
        let array = StringArray::from(rows.to_vec());
        records
            .tokens_of(&array, ("c", 0), |_, row| {
                let mut row: Vec<_> = row.map(|(_, token)| token.to_vec()).collect();
                row.sort();
                out.push(row);
                Ok(())
            })
            .unwrap();
        out
    }

    #[test]
    fn repeated_tokens_count_once_or_become_their_own_tokens() {
        // With keys of one bit every token collides with others; their bytes still tell them apart.
        for bits in [1, 2, 63] {
            let rows = tokens(false, bits, &["b a b b", "", "c"]);
            assert_eq!(rows, [vec![b"a".to_vec(), b"b".to_vec()], vec![], vec![b"c".to_vec()]]);
            let rows = tokens(true, bits, &["b a b b"]);
            let own = |k: u32| [&b"b\xff"[..], &k.to_le_bytes()].concat();
            assert_eq!(rows, [vec![b"a".to_vec(), b"b".to_vec(), own(2), own(3)]]);
        }
    }

    #[test]
    fn integers_become_tokens_of_their_digits() {
        let mut lists = ListBuilder::new(Int64Builder::new());
        lists.append_value([Some(7), Some(-3), Some(7)]);
        lists.append_value([]);
        let lists = lists.finish();
        let mut records = Records::new(keys(), Tokenizer::Whitespace, false);
        let mut found = Vec::new();
        records
            .keys_of(&lists, ("c", 0), |row| {
                found.push(row.to_vec());
                Ok(())
            })
            .unwrap();
        let mut expected = vec![keys().key(b"7"), keys().key(b"-3")];
        expected.sort_unstable();
        assert_eq!(found, [expected, vec![]]);
    }

    #[test]
    fn null_rows_have_no_tokens() {
        let mut records = Records::new(keys(), Tokenizer::Whitespace, false);
        let mut sizes = |array: &dyn Array| {
            let mut sizes = Vec::new();
            let take = |row: &[u64]| {
                sizes.push(row.len());
                Ok(())
            };
            records.keys_of(array, ("title", 40), take).unwrap();
            sizes
        };
        assert_eq!(sizes(&StringArray::from(vec![Some("a b"), None, Some("c")])), [2, 0, 1]);
        let mut lists = ListBuilder::new(Int64Builder::new());
        lists.append_null();
        lists.append_value([Some(7), Some(8)]);
        assert_eq!(sizes(&lists.finish()), [0, 2]);
    }

    #[test]
    fn errors_name_nulls_and_unsupported_types() {
        let mut records = Records::new(keys(), Tokenizer::Whitespace, false);
        let mut said = |array: &dyn Array| {
            records.keys_of(array, ("title", 40), |_| Ok(())).unwrap_err().to_string()
        };
        let mut lists = ListBuilder::new(Int64Builder::new());
        lists.append_value([Some(7), None]);
        assert!(said(&lists.finish()).contains("row 40 (counting from 0): element 1 of the list"));
        assert!(said(&Int64Array::from(vec![1])).contains("is of type Int64; strings"));
    }
}
