//! How are tokens numbered?
//!
//! Tokens are numbered by first appearance: [`Tokens`] is a numbered list of different byte strings and their hashes.
//! A worker numbers the tokens of each block on its own. The [`Dictionary`] then merges the blocks in file order; it
//! looks up only a block's different tokens, with the hashes that the worker computed. So the numbering depends
//! neither on the number of workers nor on where blocks begin.
//!
//! # Memory
//!
//! A token takes its bytes and about 22 more (end, hash, table). The dictionary is dropped when all files are read;
//! the texts of the tokens ([`TokenTexts`]) may be kept.

use crate::block::split_occurrence;
use hashbrown::HashTable;
use simjoin_core::{Error, Result};
use std::hash::{BuildHasher, Hasher as _};

/// The hash function that all threads share while they read an input.
#[derive(Clone, Default)]
pub(crate) struct Hasher(foldhash::fast::RandomState);

impl Hasher {
    #[inline]
    pub(crate) fn hash(&self, bytes: &[u8]) -> u64 {
        let mut state = self.0.build_hasher();
        state.write(bytes);
        state.finish()
    }
}

/// The unit in which places in an input are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Physical lines, from 1.
    Line,
    /// Rows, from 0 as in the output.
    Row,
}

impl Place {
    /// Returns the place as error messages name it.
    pub(crate) fn text(self, number: u64) -> String {
        match self {
            Place::Line => format!("line {number}"),
            Place::Row => format!("row {number} (counting from 0)"),
        }
    }
}

/// Different byte strings, numbered by first appearance.
#[derive(Default)]
pub(crate) struct Tokens {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    hashes: Vec<u64>,
}

impl Tokens {
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    #[inline]
    pub(crate) fn get(&self, number: u32) -> &[u8] {
        let number = number as usize;
        let start = if number == 0 { 0 } else { self.ends[number - 1] };
        &self.bytes[start..self.ends[number]]
    }

    /// Returns the number of a token, and whether the token is new. `table` must belong to this list.
    #[inline]
    pub(crate) fn number(
        &mut self,
        table: &mut HashTable<u32>,
        token: &[u8],
        hash: u64,
    ) -> (u32, bool) {
        if let Some(&number) = table.find(hash, |&number| self.get(number) == token) {
            return (number, false);
        }
        let number = self.ends.len() as u32;
        self.bytes.extend_from_slice(token);
        self.ends.push(self.bytes.len());
        self.hashes.push(hash);
        table.insert_unique(hash, number, |&number| self.hashes[number as usize]);
        (number, true)
    }
}

/// All different tokens of all inputs.
#[derive(Default)]
pub(crate) struct Dictionary {
    tokens: Tokens,
    table: HashTable<u32>,
}

impl Dictionary {
    /// Returns the number of different tokens.
    pub(crate) fn len(&self) -> usize {
        self.tokens.len()
    }

    /// Adds the tokens of a block, and writes their numbers in this dictionary to `numbers`.
    pub(crate) fn append(&mut self, block: &Tokens, numbers: &mut Vec<u32>) -> Result<()> {
        if self.len() + block.len() > u32::MAX as usize {
            return Err(too_many());
        }
        numbers.clear();
        numbers.extend((0..block.len()).map(|local| {
            let token = block.get(local as u32);
            self.tokens.number(&mut self.table, token, block.hashes[local]).0
        }));
        Ok(())
    }

    /// Returns the texts of the tokens.
    pub(crate) fn into_texts(self) -> TokenTexts {
        let Tokens { mut bytes, mut ends, .. } = self.tokens;
        bytes.shrink_to_fit();
        ends.shrink_to_fit();
        TokenTexts { bytes, ends }
    }
}

/// The texts of the tokens of a join, by number.
///
/// # Memory
///
/// The bytes of each token and 8 more.
#[derive(Clone, Debug, Default)]
pub struct TokenTexts {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl TokenTexts {
    /// Returns the text of the token with this number, for people to read. If repeated tokens are kept, the second `a`
    /// of a record is `a (2)`.
    ///
    /// # Panics
    ///
    /// Panics if there is no such token.
    pub fn get(&self, number: u32) -> String {
        let start = if number == 0 { 0 } else { self.ends[number as usize - 1] };
        let token = &self.bytes[start..self.ends[number as usize]];
        match split_occurrence(token) {
            Some((token, occurrence)) => {
                format!("{} ({occurrence})", String::from_utf8_lossy(token))
            }
            None => String::from_utf8_lossy(token).into_owned(),
        }
    }

    /// Returns the number of tokens.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns whether there is no token.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }
}

/// Numbers tokens by first appearance, and finds the token of a number. For callers that read many records once and
/// keep only their tokens.
///
/// ```
/// let mut vocabulary = simjoin_io::Vocabulary::default();
/// assert_eq!(vocabulary.number("salt")?, 0);
/// assert_eq!(vocabulary.number("bread")?, 1);
/// assert_eq!(vocabulary.number("salt")?, 0);
/// assert_eq!((vocabulary.find("bread"), vocabulary.find("oil")), (Some(1), None));
/// assert_eq!(vocabulary.token(1), b"bread");
/// # Ok::<(), simjoin_core::Error>(())
/// ```
#[derive(Default)]
pub struct Vocabulary {
    dictionary: Dictionary,
    hasher: Hasher,
}

impl Vocabulary {
    /// Returns the number of a token; a new token gets the next number.
    #[inline]
    pub fn number(&mut self, token: &str) -> Result<u32> {
        let Dictionary { tokens, table } = &mut self.dictionary;
        let hash = self.hasher.hash(token.as_bytes());
        let (number, new) = tokens.number(table, token.as_bytes(), hash);
        // The last number is never assigned, so that the number of tokens fits 32 bits as well.
        if new && number == u32::MAX { Err(too_many()) } else { Ok(number) }
    }

    /// Returns the number of a token, if it has one.
    #[inline]
    pub fn find(&self, token: &str) -> Option<u32> {
        let Dictionary { tokens, table } = &self.dictionary;
        let hash = self.hasher.hash(token.as_bytes());
        table.find(hash, |&number| tokens.get(number) == token.as_bytes()).copied()
    }

    /// Returns the token with this number, which must have been assigned.
    #[inline]
    pub fn token(&self, number: u32) -> &[u8] {
        self.dictionary.tokens.get(number)
    }
}

fn too_many() -> Error {
    Error::Config(format!(
        "the input has more than {} different tokens, the largest supported number",
        u32::MAX
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_numbered_by_first_appearance_across_blocks() {
        let hasher = Hasher::default();
        let mut dictionary = Dictionary::default();
        let mut numbers = Vec::new();
        for (block, expected) in
            [(vec!["b", "a", "b", ""], vec![0, 1, 2]), (vec!["c", "", "a"], vec![3, 2, 1])]
        {
            let mut tokens = Tokens::default();
            let mut table = HashTable::new();
            for token in block {
                tokens.number(&mut table, token.as_bytes(), hasher.hash(token.as_bytes()));
            }
            dictionary.append(&tokens, &mut numbers).unwrap();
            assert_eq!(numbers, expected);
        }
        assert_eq!(dictionary.len(), 4);
    }

    #[test]
    fn tokens_keep_their_numbers_when_the_table_grows() {
        let hasher = Hasher::default();
        let (mut tokens, mut table) = (Tokens::default(), HashTable::new());
        for round in 0..2 {
            for value in 0..5000u32 {
                let token = value.to_string();
                let found =
                    tokens.number(&mut table, token.as_bytes(), hasher.hash(token.as_bytes()));
                assert_eq!(found, (value, round == 0));
            }
        }
    }
}
