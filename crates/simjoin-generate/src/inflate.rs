//! How is a real collection made larger without changing its character?
//!
//! The method is that of Vernica, Carey and Li (Efficient parallel set-similarity joins using
//! MapReduce, 2010): all tokens are ordered by rising frequency, and copy k of a set replaces each token
//! by the one k places further in the order. So a collection with n times the sets has the same
//! tokens, about the same distribution of frequencies, and a join result with about n times the
//! pairs. (Plain copies would multiply the result by n².) The last token is followed by the first
//! one, so that a copy is a renaming of all tokens and keeps every size and every similarity
//! within it.
//!
//! Each set is followed by its copies. Tokens keep their names. A token that a line holds twice is
//! written once; lines without tokens stay. The frequency of a token is the number of its sets; tokens
//! of the same frequency are ordered by first appearance.
//!
//! # Flow
//!
//! ```text
//! file ─► FrequencyOrder: number tokens, count sets, sort      (first pass)
//! file ─► inflate: numbers ─► places ─► places + k ─► names    (second pass)
//! ```
//!
//! # Memory
//!
//! Each different token takes its bytes and about 50 more. The file may have any length.

use crate::output::Lines;
use simjoin_core::{Error, Result};
use simjoin_io::{Vocabulary, display_name, read_lines};
use std::path::Path;
use std::sync::atomic::AtomicU64;

/// A collection's tokens in the order of rising frequency.
pub struct FrequencyOrder {
    vocabulary: Vocabulary,
    /// The tokens' numbers in order.
    order: Vec<u32>,
    /// For each number, the place in the order.
    places: Vec<u32>,
}

impl FrequencyOrder {
    /// Reads a file of sets, one per line. The bytes read are counted in `bytes_read`.
    ///
    /// The file will be read again, so standard input and pipes are refused.
    pub fn read(path: &Path, bytes_read: &AtomicU64) -> Result<Self> {
        let once = path.as_os_str() == "-"
            || std::fs::metadata(path).is_ok_and(|file| !file.is_file() && !file.is_dir());
        if once {
            let name = display_name(path);
            return Err(Error::Config(format!(
                "{name} can be read only once, but inflate reads its input twice; save it to a \
                 file first"
            )));
        }
        let mut vocabulary = Vocabulary::default();
        // For each number: the count of its sets, and its last line.
        let mut seen: Vec<(u64, u64)> = Vec::new();
        read_lines(path, bytes_read, |line, number| {
            for token in line.split_whitespace() {
                let token = vocabulary.number(token)? as usize;
                if token == seen.len() {
                    seen.push((0, 0));
                }
                let (count, last) = &mut seen[token];
                if *last != number {
                    *last = number;
                    *count += 1;
                }
            }
            Ok(())
        })?;
        let mut order: Vec<u32> = (0..seen.len() as u32).collect();
        order.sort_unstable_by_key(|&token| (seen[token as usize].0, token));
        let mut places = vec![0; order.len()];
        for (place, &token) in (0..).zip(&order) {
            places[token as usize] = place;
        }
        Ok(FrequencyOrder { vocabulary, order, places })
    }

    /// Returns the number of different tokens.
    pub fn tokens(&self) -> usize {
        self.order.len()
    }
}

/// Makes a file of sets `times` as large and passes it to `receiver` in blocks of whole lines. The order
/// must be that of the same file.
pub fn inflate(
    path: &Path,
    order: &FrequencyOrder,
    times: u64,
    bytes_read: &AtomicU64,
    mut receiver: impl FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    let tokens = order.tokens() as u64;
    if times == 0 {
        return Err(Error::Config("the factor is 0; expected at least 1".into()));
    }
    if tokens > 0 && times > tokens {
        return Err(Error::input(
            display_name(path),
            "",
            format!(
                "has {tokens} different tokens and can be made at most {tokens} times as large; \
                 further copies would repeat the first ones"
            ),
        ));
    }
    let mut lines = Lines::new(&mut receiver);
    let mut places: Vec<u32> = Vec::new();
    // For each place: the last line with its token.
    let mut seen = vec![0u64; order.tokens()];
    read_lines(path, bytes_read, |line, number| {
        places.clear();
        for token in line.split_whitespace() {
            let Some(token) = order.vocabulary.find(token) else {
                let message = "a token is new; the file has changed since it was first read";
                return Err(Error::input(display_name(path), format!("line {number}"), message));
            };
            let place = order.places[token as usize];
            if seen[place as usize] != number {
                seen[place as usize] = number;
                places.push(place);
            }
        }
        for copy in 0..times {
            for &place in &places {
                let further = u64::from(place) + copy;
                let further = if further < tokens { further } else { further - tokens };
                lines.token(order.vocabulary.token(order.order[further as usize]));
            }
            lines.end_tokens(places.is_empty())?;
        }
        Ok(())
    })?;
    lines.flush()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn inflated(text: &str, times: u64) -> Result<String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let path = file.path();
        let bytes = AtomicU64::new(0);
        let order = FrequencyOrder::read(path, &bytes)?;
        let mut out = Vec::new();
        inflate(path, &order, times, &bytes, |lines| {
            out.extend_from_slice(lines);
            Ok(())
        })?;
        assert_eq!(bytes.into_inner(), 2 * text.len() as u64);
        Ok(String::from_utf8(out).unwrap())
    }

    #[test]
    fn example_of_the_paper_is_reproduced() {
        // The order A, B, C, D, E, F; the record `B A C E` becomes `C B D F`.
        let mut text = String::from("B A C E\n");
        for (count, token) in ["A", "B", "C", "D", "E", "F"].into_iter().enumerate() {
            text += &format!("{token}\n").repeat(2 * count + 1);
        }
        let out = inflated(&text, 3).unwrap();
        let lines: Vec<&str> = out.lines().take(3).collect();
        assert_eq!(lines, ["B A C E", "C B D F", "D C E A"]);
    }

    #[test]
    fn ties_go_by_first_appearance_and_repeated_tokens_count_once() {
        // b, then a and c with two sets each.
        assert_eq!(inflated("a  a a\tb\r\n\nc\nc a", 2).unwrap(), "a b\nc a\n\n\nc\nb\nc a\nb c\n");
    }

    #[test]
    fn empty_input_gives_empty_output() {
        assert_eq!(inflated("", 5).unwrap(), "");
        assert_eq!(inflated("\n", 3).unwrap(), "\n\n\n");
    }

    #[test]
    fn too_many_copies_and_streams_are_errors() {
        let error = inflated("a b\n", 3).err().unwrap().to_string();
        assert!(error.contains("2 different tokens") && error.contains("at most 2"), "{error}");
        assert!(matches!(inflated("a b\n", 0), Err(Error::Config(_))));
        let error = FrequencyOrder::read(Path::new("-"), &AtomicU64::new(0)).err().unwrap();
        assert!(matches!(&error, Error::Config(text) if text.contains("twice")), "{error}");
    }

    #[test]
    fn file_that_changes_between_passes_is_an_error() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path();
        std::fs::write(file.path(), "a\n").unwrap();
        let order = FrequencyOrder::read(path, &AtomicU64::new(0)).unwrap();
        std::fs::write(file.path(), "a\nb\n").unwrap();
        let error = inflate(path, &order, 1, &AtomicU64::new(0), |_| Ok(())).unwrap_err();
        assert!(error.to_string().contains("line 2: a token is new"), "{error}");
    }

    fn frequencies(sets: &[Vec<&str>]) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        sets.iter().flatten().for_each(|token| *counts.entry(token.to_string()).or_default() += 1);
        counts
    }

    proptest! {
        /// Each copy is a renaming: sizes and overlaps stay, the frequencies move along the order.
        #[test]
        fn copy_renames_tokens_along_the_order(
            sets in prop::collection::vec(prop::collection::btree_set(0u32..12, 0..6), 1..20),
        ) {
            let text: String = sets
                .iter()
                .map(|set| {
                    let words: Vec<String> = set.iter().map(u32::to_string).collect();
                    words.join(" ") + "\n"
                })
                .collect();
            let tokens = sets.iter().flatten().collect::<std::collections::BTreeSet<_>>().len();
            let times = tokens.clamp(1, 3);
            let out = inflated(&text, times as u64).unwrap();
            let rows: Vec<Vec<&str>> =
                out.lines().map(|line| line.split_whitespace().collect()).collect();
            prop_assert_eq!(rows.len(), sets.len() * times);
            let copies: Vec<Vec<Vec<&str>>> = (0..times)
                .map(|copy| rows.iter().skip(copy).step_by(times).cloned().collect())
                .collect();
            let original = frequencies(&copies[0]);
            for copy in &copies {
                for (row, set) in copy.iter().zip(&sets) {
                    prop_assert_eq!(row.len(), set.len());
                }

                let counts = frequencies(copy);
                prop_assert!(counts.keys().eq(original.keys()));
                let sorted = |counts: &BTreeMap<String, usize>| {
                    let mut values: Vec<usize> = counts.values().copied().collect();
                    values.sort_unstable();
                    values
                };
                prop_assert_eq!(sorted(&counts), sorted(&original));
            }
            if times > 1 {
                // A token's successor is at least as frequent, but for the one that wraps around.
                let mut next = BTreeMap::new();
                for (row, moved) in copies[0].iter().zip(&copies[1]) {
                    for (token, other) in row.iter().zip(moved) {
                        prop_assert_eq!(*next.entry(*token).or_insert(*other), *other);
                    }
                }
                let falls = next.iter().filter(|(a, b)| original[**a] > original[**b]).count();
                prop_assert!(falls <= 1);
            }
        }
    }
}
