//! What is the global order of tokens?
//!
//! Tokens are ordered by rising frequency, so that a set's first tokens are its rarest (prefix filter).
//! Every order is exact; a better one makes shorter lists. The order has three parts:
//!
//! 1. *unique* tokens, which occur in one record. They match nothing, so they need no number: a record
//!    only stores their count.
//! 2. *light* tokens, which do not fit the table, ordered by their keys.
//! 3. tokens of the *table*, which holds the most frequent tokens, by rising frequency.
//!
//! Usually the table holds every token that is not unique. Then there are no light tokens, and the order
//! is that of the papers. If the input has more different tokens than the table can hold, unique tokens
//! cannot be recognized, and every token outside the table is light.
//!
//! # Memory
//!
//! Every machine needs about 28 bytes for each token of the table, however many tokens the input has.

use crate::keys::Keys;
use simjoin_core::{Error, Result};
use std::collections::HashMap;

/// The place of a token in the global order. Unique tokens have none.
pub type Place = u64;

/// The first place of the table's tokens.
pub const TABLE: Place = 1 << 63;

/// The global order of tokens.
#[derive(Clone, Debug)]
pub struct TokenOrder {
    keys: Keys,
    ranks: HashMap<u64, u32, foldhash::fast::FixedState>,
    complete: bool,
}

impl TokenOrder {
    /// Makes an order with a table: the keys of its tokens by rising frequency. `complete` says
    /// that all other tokens are unique.
    pub fn new(
        keys: Keys,
        table: impl ExactSizeIterator<Item = u64>,
        complete: bool,
    ) -> Result<Self> {
        let length = table.len();
        if u32::try_from(length).is_err() {
            return Err(Error::Config(format!("a table of {length} tokens is too large")));
        }
        let mut ranks =
            HashMap::with_capacity_and_hasher(length, foldhash::fast::FixedState::default());
        ranks.extend(table.zip(0u32..));
        if ranks.len() != length || ranks.keys().any(|&key| key >= TABLE) {
            return Err(Error::Internal("the table of tokens holds a key twice".into()));
        }
        Ok(TokenOrder { keys, ranks, complete })
    }

    /// Returns an order from a table as bytes, eight to a key, the lowest first.
    pub fn from_bytes(keys: Keys, table: &[u8], complete: bool) -> Result<Self> {
        let (eights, rest) = table.as_chunks::<8>();
        if !rest.is_empty() {
            return Err(Error::Internal("the table of tokens ends within a key".into()));
        }
        Self::new(keys, eights.iter().map(|eight| u64::from_le_bytes(*eight)), complete)
    }

    /// Returns the function from tokens to keys.
    pub fn keys(&self) -> Keys {
        self.keys
    }

    /// Returns the number of tokens in the table.
    pub fn len(&self) -> usize {
        self.ranks.len()
    }

    /// Returns whether the table holds none.
    pub fn is_empty(&self) -> bool {
        self.ranks.is_empty()
    }

    /// Writes the places of a record's keys, ascending, to `places` and returns the number of unique tokens.
    #[inline]
    pub fn places(&self, keys: &[u64], places: &mut Vec<Place>) -> u32 {
        places.clear();
        for key in keys {
            match self.ranks.get(key) {
                Some(&rank) => places.push(TABLE | u64::from(rank)),
                None if self.complete => {}
                None => places.push(*key),
            }
        }
        places.sort_unstable();
        (keys.len() - places.len()) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_depend_on_table_and_completeness() {
        let keys = Keys::new(0, 63).unwrap();
        let table = [50u64, 7, 90];
        let mut places = Vec::new();
        let order = TokenOrder::new(keys, table.into_iter(), true).unwrap();
        assert_eq!(order.places(&[7, 8, 50, 60], &mut places), 2);
        assert_eq!(places, [TABLE, TABLE | 1]);
        let bytes: Vec<u8> = table.iter().flat_map(|key| key.to_le_bytes()).collect();
        let order = TokenOrder::from_bytes(keys, &bytes, false).unwrap();
        assert_eq!(order.places(&[7, 8, 50, 60], &mut places), 0);
        assert_eq!(places, [8, 60, TABLE, TABLE | 1]);
        assert!(TokenOrder::new(keys, [1u64, 1].into_iter(), true).is_err());
        assert!(TokenOrder::from_bytes(keys, &bytes[1..], true).is_err());
    }
}
