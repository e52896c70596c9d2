//! How are rows written as text?
//!
//! Rows are formatted into one buffer, which is written whenever it is full; nothing is allocated per row. Many pairs
//! have few different similarities, so a small table holds the texts of recent ones.

use super::target::Target;
use super::{OutputColumns, OutputFormat, ValueColumns};
use crate::ids::Ids;
use simjoin_core::RowPair;
use std::io::{self, Write};

const BUFFER_BYTES: usize = 1 << 20;

/// Writes TSV, CSV or JSONL.
pub(super) struct TextWriter<'a> {
    target: Target,
    buffer: Vec<u8>,
    /// How the left row is named, by its input.
    left: [KeyText<'a>; 2],
    right: KeyText<'a>,
    style: Style,
    values: ValueColumns,
    inputs: bool,
    numbers: NumberTexts,
}

enum Style {
    /// Values separated by this byte.
    Delimited(u8),
    /// The text before each value (both keys, overlap, similarity or distance, input), and the text at the end of a
    /// row.
    Json([Vec<u8>; 5], &'static [u8]),
}

/// How a row is named.
enum KeyText<'a> {
    /// By its number.
    Number,
    /// An id that is written unchanged.
    Plain(&'a Ids),
    /// An id that may need quotes in delimited text.
    Quoted(&'a Ids),
    /// An id that is a JSON string.
    Json(&'a Ids),
}

impl<'a> TextWriter<'a> {
    /// Prepares the header, which is written with the first rows.
    pub(super) fn new(target: Target, format: OutputFormat, columns: &OutputColumns<'a>) -> Self {
        let [left, right] = &columns.keys;
        let score =
            if columns.values == ValueColumns::Distance { "distance" } else { "similarity" };
        let mut buffer = Vec::with_capacity(BUFFER_BYTES + (64 << 10));
        let style = match format {
            OutputFormat::Jsonl => {
                let names = [left.name, right.name, "overlap", score, "left_input"];
                let before = |at: usize| {
                    format!("{}\"{}\":", if at == 0 { '{' } else { ',' }, names[at]).into_bytes()
                };
                Style::Json([0, 1, 2, 3, 4].map(before), b"}\n")
            }
            _ => {
                let delimiter = if format == OutputFormat::Csv { "," } else { "\t" };
                let mut names = vec![left.name, right.name];
                names.extend(columns.values.names());
                if columns.inputs {
                    names.push("left_input");
                }
                buffer.extend_from_slice(names.join(delimiter).as_bytes());
                buffer.push(b'\n');
                Style::Delimited(delimiter.as_bytes()[0])
            }
        };
        let key = |ids: Option<&'a Ids>, integers: bool| match (ids, &style) {
            (None, _) => KeyText::Number,
            (Some(ids), Style::Json(..)) if integers => KeyText::Plain(ids),
            (Some(ids), Style::Json(..)) => KeyText::Json(ids),
            (Some(ids), Style::Delimited(delimiter)) => {
                if needs_quotes(ids.text().as_bytes(), *delimiter) {
                    KeyText::Quoted(ids)
                } else {
                    KeyText::Plain(ids)
                }
            }
        };
        let (left, right) = (
            left.ids.map(|ids| key(ids, left.is_integers())),
            key(right.ids[0], right.is_integers()),
        );
        let OutputColumns { values, inputs, .. } = *columns;
        let numbers = NumberTexts::new();
        TextWriter { target, buffer, left, right, style, values, inputs, numbers }
    }

    pub(super) fn write(&mut self, rows: &[RowPair]) -> io::Result<()> {
        let TextWriter { target, buffer, left, right, style, values, inputs, numbers } = self;
        for row in rows {
            let left = &left[row.left_input as usize];
            match style {
                Style::Delimited(delimiter) => {
                    push_key(buffer, left, row.left, *delimiter);
                    buffer.push(*delimiter);
                    push_key(buffer, right, row.right, *delimiter);
                    if values.overlap() {
                        buffer.push(*delimiter);
                        push_number(buffer, row.overlap);
                    }
                    if values.score() {
                        buffer.push(*delimiter);
                        numbers.push(buffer, row.similarity);
                    }
                    if *inputs {
                        buffer.push(*delimiter);
                        buffer.extend_from_slice(row.left_input.name().as_bytes());
                    }
                    buffer.push(b'\n');
                }
                Style::Json(before, end) => {
                    buffer.extend_from_slice(&before[0]);
                    push_key(buffer, left, row.left, 0);
                    buffer.extend_from_slice(&before[1]);
                    push_key(buffer, right, row.right, 0);
                    if values.overlap() {
                        buffer.extend_from_slice(&before[2]);
                        push_number(buffer, row.overlap);
                    }
                    if values.score() {
                        buffer.extend_from_slice(&before[3]);
                        numbers.push(buffer, row.similarity);
                    }
                    if *inputs {
                        buffer.extend_from_slice(&before[4]);
                        buffer.push(b'"');
                        buffer.extend_from_slice(row.left_input.name().as_bytes());
                        buffer.push(b'"');
                    }
                    buffer.extend_from_slice(end);
                }
            }
            if buffer.len() >= BUFFER_BYTES {
                target.write_all(buffer)?;
                buffer.clear();
            }
        }
        Ok(())
    }

    pub(super) fn finish(mut self) -> io::Result<Target> {
        self.target.write_all(&self.buffer)?;
        Ok(self.target)
    }
}

#[inline]
fn push_number(out: &mut Vec<u8>, number: u32) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

#[inline]
fn push_key(out: &mut Vec<u8>, key: &KeyText<'_>, row: u32, delimiter: u8) {
    match key {
        KeyText::Number => push_number(out, row),
        KeyText::Plain(ids) => out.extend_from_slice(ids.get(row as usize).as_bytes()),
        KeyText::Quoted(ids) => push_quoted(out, ids.get(row as usize).as_bytes(), delimiter),
        KeyText::Json(ids) => push_json(out, ids.get(row as usize)),
    }
}

/// Returns whether text needs quotes to be read back as one field.
fn needs_quotes(text: &[u8], delimiter: u8) -> bool {
    memchr::memchr3(delimiter, b'"', b'\n', text).is_some() || memchr::memchr(b'\r', text).is_some()
}

fn push_quoted(out: &mut Vec<u8>, text: &[u8], delimiter: u8) {
    if !needs_quotes(text, delimiter) {
        out.extend_from_slice(text);
        return;
    }
    out.push(b'"');
    for &byte in text {
        if byte == b'"' {
            out.push(b'"');
        }
        out.push(byte);
    }
    out.push(b'"');
}

fn push_json(out: &mut Vec<u8>, text: &str) {
    if serde_json::to_writer(&mut *out, text).is_err() {
        // Writing a string to memory does not fail.
        out.extend_from_slice(b"\"\"");
    }
}

/// Remembers the texts of recent numbers, by a few bits of a hash.
struct NumberTexts {
    slots: Vec<Slot>,
}

#[derive(Clone, Copy)]
struct Slot {
    bits: u64,
    length: u8,
    text: [u8; 31],
}

const SLOT_BITS: u32 = 10;

impl NumberTexts {
    fn new() -> Self {
        // A NaN marks unused slots.
        let empty = Slot { bits: f64::NAN.to_bits(), length: 0, text: [0; 31] };
        NumberTexts { slots: vec![empty; 1 << SLOT_BITS] }
    }

    /// Writes the shortest decimal that is read back as the same number.
    #[inline]
    fn push(&mut self, out: &mut Vec<u8>, number: f64) {
        let bits = number.to_bits();
        let hash = bits.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - SLOT_BITS);
        let slot = &mut self.slots[hash as usize];
        if slot.bits != bits {
            let start = out.len();
            // Writing to memory does not fail.
            let _ = write!(out, "{number}");
            let text = &out[start..];
            if text.len() <= slot.text.len() && !number.is_nan() {
                slot.bits = bits;
                slot.length = text.len() as u8;
                slot.text[..text.len()].copy_from_slice(text);
            }
            return;
        }
        out.extend_from_slice(&slot.text[..usize::from(slot.length)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn csv_readers_read_back_quoted_text() {
        for (delimiter, other) in [(b',', "\t"), (b'\t', ",")] {
            for text in ["plain", "a\tb", "a,b", "say \"hi\"", "two\nlines", "cr\rcr", "é"] {
                let mut out = Vec::new();
                push_quoted(&mut out, text.as_bytes(), delimiter);
                out.push(delimiter);
                out.extend_from_slice(b"next\n");
                let mut reader = csv::ReaderBuilder::new()
                    .has_headers(false)
                    .delimiter(delimiter)
                    .from_reader(&out[..]);
                let record = reader.records().next().unwrap().unwrap();
                assert_eq!(record.iter().collect::<Vec<_>>(), [text, "next"]);
            }
            assert!(!needs_quotes(other.as_bytes(), delimiter));
        }
    }

    proptest! {
        #[test]
        fn numbers_are_written_as_by_the_standard_library(
            values in prop::collection::vec(
                prop_oneof![0f64..=1.0, (0u32..50).prop_map(f64::from),
                    (1u32..60, 1u32..60).prop_map(|(a, b)| f64::from(a) / f64::from(b)),
                    any::<f64>()], 0..200)
        ) {
            let mut numbers = NumberTexts::new();
            for value in values {
                let mut out = Vec::new();
                numbers.push(&mut out, value);
                prop_assert_eq!(String::from_utf8(out).unwrap(), value.to_string());
            }
        }
    }
}
