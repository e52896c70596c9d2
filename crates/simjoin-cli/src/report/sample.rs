//! Which pairs does the page show?
//!
//! Records are shown as their tokens, in the order of the input; common tokens are marked. Long texts are shortened: a
//! record to [`TOKENS`] tokens or about [`BYTES`] bytes, a token or an id to [`WORD`] characters.

use super::SAMPLE;
use super::shapes::Frequencies;
use crate::run::{Input, JoinCommand};
use serde::Serialize;
use simjoin::engine::{Glimpse, GlimpsePair, RawSets, Side, VectorCollection};
use simjoin_io::{Ids, TokenTexts};
use std::collections::HashSet;

/// The largest number of tokens of a record that are shown.
const TOKENS: usize = 150;

/// The largest number of bytes of tokens that are shown; one more token may exceed it.
const BYTES: usize = 2000;

/// The number of tokens that are shown of the first row of a group.
const FIRST: usize = 12;

/// The largest number of characters of a token or an id that are shown.
const WORD: usize = 80;

/// The largest number of elements of a vector that are shown.
const ELEMENTS: usize = 6;

/// The original input, in which people recognise the records.
pub struct Kept {
    pub left: RawSets,
    pub right: Option<RawSets>,
    pub texts: TokenTexts,
}

impl Kept {
    /// Returns the frequency of each token in both inputs together.
    pub fn frequencies(&self) -> Frequencies {
        let mut counts = vec![0u32; self.texts.len()];
        for sets in [Some(&self.left), self.right.as_ref()].into_iter().flatten() {
            sets.tokens.iter().for_each(|&token| counts[token as usize] += 1);
        }
        Frequencies::new(&counts, |token| cut(&self.texts.get(token)))
    }

    /// Returns the first tokens of a row of the left input.
    pub fn beginning(&self, row: u32) -> String {
        let tokens = self.row(Side::Left, row);
        let texts = tokens.iter().take(FIRST).map(|&token| cut(&self.texts.get(token)));
        let more = if tokens.len() > FIRST { " …" } else { "" };
        texts.collect::<Vec<_>>().join(" ") + more
    }

    fn row(&self, side: Side, row: u32) -> &[u32] {
        let sets = match (side, &self.right) {
            (Side::Right, Some(right)) => right,
            _ => &self.left,
        };
        &sets.tokens[sets.offsets[row as usize]..sets.offsets[row as usize + 1]]
    }

    fn record(&self, key: String, tokens: &[u32], other: &[u32]) -> Record {
        let other: HashSet<u32> = other.iter().copied().collect();
        let mut record = Record { key, size: tokens.len(), ..Record::default() };
        let mut bytes = 0;
        for (at, token) in tokens.iter().enumerate() {
            if at == TOKENS || bytes >= BYTES {
                break;
            }
            let text = cut(&self.texts.get(*token));
            bytes += text.len();
            record.tokens.push(text);
            if other.contains(token) {
                record.shared.push(at);
            }
        }
        record
    }
}

/// The names of rows.
#[derive(Default)]
pub struct Keys<'a> {
    pub left_ids: Option<&'a Ids>,
    pub right_ids: Option<&'a Ids>,
}

impl<'a> Keys<'a> {
    pub fn of<K: JoinCommand>(input: &'a Input<K>) -> Self {
        Keys { left_ids: input.left_ids.as_ref(), right_ids: input.right_ids.as_ref() }
    }

    /// Returns the name of a row of the left input.
    pub fn left(&self, row: u32) -> String {
        self.name(Side::Left, row)
    }

    fn name(&self, side: Side, row: u32) -> String {
        let ids = if side == Side::Right { self.right_ids } else { self.left_ids };
        ids.map_or_else(|| row.to_string(), |ids| cut(ids.get(row as usize)))
    }
}

/// Returns the beginning of a text.
fn cut(text: &str) -> String {
    match text.char_indices().nth(WORD) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

/// A sample of the pairs.
#[derive(Serialize)]
pub struct Sample {
    pub pairs: Vec<Pair>,
    /// Whether rows have ids.
    pub ids: bool,
}

#[derive(Serialize)]
pub struct Pair {
    /// The similarity, or the distance.
    pub value: f64,
    /// The number of common tokens.
    pub overlap: Option<u32>,
    /// The number of pairs of rows that hold the same two sets.
    pub rows: u64,
    /// Whether both rows are of the right input.
    pub within_right: bool,
    pub left: Record,
    pub right: Record,
}

#[derive(Default, Serialize)]
pub struct Record {
    /// The row number or id.
    pub key: String,
    /// The number of tokens or elements.
    pub size: usize,
    /// The first tokens or elements.
    pub tokens: Vec<String>,
    /// The positions in `tokens` of those that the other record also holds.
    pub shared: Vec<usize>,
}

impl Sample {
    /// Makes a sample of pairs of sets.
    pub fn of_sets(glimpse: &Glimpse, kept: &Kept, keys: &Keys<'_>, two: bool) -> Self {
        let right_side = if two { Side::Right } else { Side::Left };
        let pair = |seen: &GlimpsePair| {
            let pair = seen.pair;
            let left = kept.row(pair.left_input, pair.left);
            let right = kept.row(right_side, pair.right);
            Pair {
                value: pair.similarity,
                overlap: Some(pair.overlap),
                rows: seen.rows,
                within_right: pair.left_input == Side::Right,
                left: kept.record(keys.name(pair.left_input, pair.left), left, right),
                right: kept.record(keys.name(right_side, pair.right), right, left),
            }
        };
        Sample {
            pairs: glimpse.sample(SAMPLE).iter().map(pair).collect(),
            ids: keys.left_ids.is_some(),
        }
    }

    /// Makes a sample of pairs of vectors.
    pub fn of_vectors(
        glimpse: &Glimpse,
        left: &VectorCollection,
        right: Option<&VectorCollection>,
        keys: &Keys<'_>,
    ) -> Self {
        let right_side = if right.is_some() { Side::Right } else { Side::Left };
        let right = right.unwrap_or(left);
        let record = |key: String, vectors: &VectorCollection, row: u32| Record {
            key,
            size: vectors.dimension(),
            tokens: first(vectors, row),
            shared: Vec::new(),
        };
        let pair = |seen: &GlimpsePair| Pair {
            value: seen.pair.similarity,
            overlap: None,
            rows: seen.rows,
            within_right: false,
            left: record(keys.left(seen.pair.left), left, seen.pair.left),
            right: record(keys.name(right_side, seen.pair.right), right, seen.pair.right),
        };
        Sample {
            pairs: glimpse.sample(SAMPLE).iter().map(pair).collect(),
            ids: keys.left_ids.is_some(),
        }
    }
}

/// Returns the first elements of a vector.
fn first(vectors: &VectorCollection, row: u32) -> Vec<String> {
    let mut elements = Vec::new();
    vectors.row(row as usize, &mut elements);
    elements.iter().take(ELEMENTS).map(|&value| short(value)).collect()
}

/// Returns the beginning of a vector.
pub fn beginning(vectors: &VectorCollection, row: u32) -> String {
    let more = if vectors.dimension() > ELEMENTS { ", …" } else { "" };
    format!("({}{more})", first(vectors, row).join(", "))
}

/// Formats a number with a few digits.
fn short(value: f64) -> String {
    if value == 0.0 || (1e-3..1e6).contains(&value.abs()) {
        // Up to six digits, without trailing zeros.
        let digits = 5usize.saturating_sub(value.abs().max(1.0).log10() as usize);
        let text = format!("{value:.digits$}");
        let text = if text.contains('.') {
            text.trim_end_matches('0').trim_end_matches('.')
        } else {
            &text
        };
        text.to_owned()
    } else {
        format!("{value:.4e}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_is_shortened_between_characters() {
        assert_eq!(cut("é"), "é");
        let long = "é".repeat(WORD + 1);
        assert_eq!(cut(&long), format!("{}…", "é".repeat(WORD)));
        assert_eq!(cut(&long[..2 * WORD]), &long[..2 * WORD]);
    }

    #[test]
    fn numbers_are_short() {
        for (value, text) in [
            (0.0, "0"),
            (1.0, "1"),
            (-0.25, "-0.25"),
            (123_456.789, "123457"),
            (100.0, "100"),
            (1.0 / 3.0, "0.33333"),
            (1e9, "1.0000e9"),
            (-1e-9, "-1.0000e-9"),
        ] {
            assert_eq!(short(value), text);
        }
    }
}
