//! Which number identifies a token before all tokens have been counted?
//!
//! A token's key is a hash of its bytes, the same on every machine. The counting checks that different
//! tokens of the input have different keys: it counts by key *and* token, so two tokens with one key
//! are seen, and the counting is repeated with another seed. After that, 8 bytes stand for a token of
//! any length.

use simjoin_core::{Error, Result};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// The largest number of bits of a key. The highest bit marks tokens of the table.
pub const MAX_BITS: u32 = 63;

/// A function from tokens to keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keys {
    seed: u64,
    bits: u32,
}

impl Keys {
    /// Makes a function to keys of `bits` bits, from 1 to 63. Tests use few bits so that keys collide.
    pub fn new(seed: u64, bits: u32) -> Result<Self> {
        if !(1..=MAX_BITS).contains(&bits) {
            return Err(Error::Config(format!("keys of {bits} bits; expected 1 to {MAX_BITS}")));
        }
        Ok(Keys { seed, bits })
    }

    /// Returns the key of a token.
    #[inline]
    pub fn key(&self, token: &[u8]) -> u64 {
        xxh3_64_with_seed(token, self.seed) >> (64 - self.bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_the_same_everywhere_and_fit_their_bits() {
        let keys = Keys::new(7, 63).unwrap();
        // A fixed value: two versions of the program on one cluster must agree.
        assert_eq!(keys.key(b"similarity"), 3_833_921_600_768_370_748);
        assert!(keys.key(b"") <= u64::MAX >> 1);
        assert_ne!(keys.key(b"a"), Keys::new(8, 63).unwrap().key(b"a"));
        let few = Keys::new(7, 3).unwrap();
        assert!((0..100u32).all(|n| few.key(&n.to_le_bytes()) < 8));
        assert!(Keys::new(0, 0).is_err() && Keys::new(0, 64).is_err());
    }
}
