//! Which number does a token have?
//!
//! Tokens are numbered by first appearance: [`Tokens`] is a numbered list of distinct byte strings
//! that remembers each one's hash. Every block of input is numbered on its own by a worker; the
//! [`Dictionary`] then takes in the blocks in file order, looking up only a block's distinct
//! tokens, with the hashes the worker computed. So the numbering does not depend on how many workers there
//! are or where blocks begin.
//!
//! # Memory
//!
//! A distinct token takes its bytes and about 22 more (end, hash, table). The dictionary lives only
//! while files are read; what the tokens are called ([`TokenTexts`]) may be kept.

use crate::block::repeated;
use hashbrown::HashTable;
use simjoin_core::{Error, Result};
use std::hash::{BuildHasher, Hasher as _};

/// The one hash function of a reading run.
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

/// How places in a file are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Physical lines, from 1.
    Line,
    /// Rows, from 0 as in the output.
    Row,
}

impl Place {
    /// The place as errors name it.
    pub(crate) fn text(self, number: u64) -> String {
        match self {
            Place::Line => format!("line {number}"),
            Place::Row => format!("row {number} (counting from 0)"),
        }
    }
}

/// Distinct byte strings, numbered by first appearance.
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

    /// The number of a token, and whether it is new. `table` must belong to this list.
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

/// All distinct tokens of all inputs.
#[derive(Default)]
pub(crate) struct Dictionary {
    tokens: Tokens,
    table: HashTable<u32>,
}

impl Dictionary {
    /// How many distinct tokens there are.
    pub(crate) fn len(&self) -> usize {
        self.tokens.len()
    }

    /// Takes in a block's tokens and writes to `numbers` which number each has here.
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

    /// What the tokens are called.
    pub(crate) fn into_texts(self) -> TokenTexts {
        let Tokens { mut bytes, mut ends, .. } = self.tokens;
        bytes.shrink_to_fit();
        ends.shrink_to_fit();
        TokenTexts { bytes, ends }
    }
}

/// What the tokens of a join are called, by their number.
///
/// # Memory
///
/// The bytes of each distinct token and 8 more.
#[derive(Clone, Debug, Default)]
pub struct TokenTexts {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl TokenTexts {
    /// The token with this number, for a person to read: the second `a` of a record, where repeated
    /// tokens are kept, is `a (2)`.
    ///
    /// # Panics
    ///
    /// When there is no such token.
    pub fn get(&self, number: u32) -> String {
        let start = if number == 0 { 0 } else { self.ends[number as usize - 1] };
        let token = &self.bytes[start..self.ends[number as usize]];
        match repeated(token) {
            Some((token, time)) => format!("{} ({time})", String::from_utf8_lossy(token)),
            None => String::from_utf8_lossy(token).into_owned(),
        }
    }

    /// How many tokens there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is no token.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }
}

/// Numbers for tokens by first appearance, and back. For callers that make one pass over many
/// records and keep nothing of them but their tokens.
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
    /// The token's number; a new token gets the next one.
    #[inline]
    pub fn number(&mut self, token: &str) -> Result<u32> {
        let Dictionary { tokens, table } = &mut self.dictionary;
        let hash = self.hasher.hash(token.as_bytes());
        let (number, new) = tokens.number(table, token.as_bytes(), hash);
        // The last number is never given, so that the count of all fits 32 bits as well.
        if new && number == u32::MAX { Err(too_many()) } else { Ok(number) }
    }

    /// The token's number, if it has one.
    #[inline]
    pub fn find(&self, token: &str) -> Option<u32> {
        let Dictionary { tokens, table } = &self.dictionary;
        let hash = self.hasher.hash(token.as_bytes());
        table.find(hash, |&number| tokens.get(number) == token.as_bytes()).copied()
    }

    /// The token with this number, which must have been given.
    #[inline]
    pub fn token(&self, number: u32) -> &[u8] {
        self.dictionary.tokens.get(number)
    }
}

fn too_many() -> Error {
    Error::Config(format!(
        "the input has more than {} distinct tokens, which is more than is supported",
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
    fn many_tokens_survive_growth() {
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
