//! How are overlaps counted if some tokens are in many sets and most tokens are in few?
//!
//! The tokens of a collection are divided by frequency. The *heavy* tokens, from a certain number on, become
//! columns of a bit matrix, which is multiplied by the probes' rows by counting bits. The other tokens have
//! inverted lists, which are walked entry by entry. A frequent token has a long list, but its column costs one
//! bit for every pair, set or not. [`Weigh`] finds the point at which both cost the same.
//!
//! Both parts of an overlap are exact, and every token is in exactly one of them, so their sum is exact.

use rayon::prelude::*;
use simjoin_core::{SetCollection, SetId, TokenId};
use simjoin_kernels::product::{PROBES, Product, ROWS};
use simjoin_kernels::tier::Tier;
use std::ops::Range;

/// The number of tokens in a word.
pub(crate) const BITS: u32 = 64;

/// The rows of sets in a bit matrix of the heavy tokens, in the blocks of [`Product`].
pub(crate) struct BitRows {
    words: usize,
    blocks: Vec<u64>,
}

impl BitRows {
    /// Returns the bytes for a number of sets.
    pub(crate) fn memory_bytes(sets: usize, words: usize) -> u64 {
        (sets.next_multiple_of(ROWS) * words * 8) as u64
    }

    /// Makes the rows of a range of sets, with the most frequent tokens in `words` words.
    pub(crate) fn new(sets: &SetCollection, range: Range<SetId>, words: usize) -> Self {
        let count = range.len();
        let mut blocks = vec![0; count.div_ceil(ROWS) * ROWS * words];
        blocks.par_chunks_mut((ROWS * words).max(1)).enumerate().for_each(|(at, block)| {
            let first = range.start + (at * ROWS) as SetId;
            for (row, set) in (first..range.end.min(first + ROWS as SetId)).enumerate() {
                for_each_bit(sets.set(set), sets.universe(), words, |word, bit| {
                    block[ROWS * word + row] |= bit;
                });
            }
        });
        BitRows { words, blocks }
    }

    /// Multiplies a block by some probes. The block is named by its first set, counted from the range's start.
    #[inline]
    pub(crate) fn multiply(
        &self,
        product: &Product,
        block: usize,
        probes: &[&[u64]; PROBES],
        out: &mut [[u32; ROWS]; PROBES],
    ) {
        let words = ROWS * self.words;
        product.multiply(&self.blocks[block * words..(block + 1) * words], probes, out);
    }
}

/// Writes the row of one set, as a probe.
pub(crate) fn probe_row(tokens: &[TokenId], universe: u32, row: &mut [u64]) {
    row.fill(0);
    for_each_bit(tokens, universe, row.len(), |word, bit| row[word] |= bit);
}

/// Calls `each` with the word and the bit of each token. The most frequent token is the first bit of word 0.
#[inline(always)]
fn for_each_bit(tokens: &[TokenId], universe: u32, words: usize, mut each: impl FnMut(usize, u64)) {
    for &token in tokens.iter().rev() {
        let place = universe - 1 - token;
        if place as usize / 64 >= words {
            return;
        }
        each(place as usize / 64, 1 << (place % BITS));
    }
}

/// Returns the first of the most frequent tokens that fit `words` words.
pub(crate) fn floor(universe: u32, words: usize) -> TokenId {
    universe.saturating_sub((words as u64 * u64::from(BITS)).min(universe.into()) as u32)
}

/// Inverted lists over a range of sets. Entries count from the range's start and ascend.
pub(crate) struct TokenLists {
    /// The first token with a list.
    first: TokenId,
    offsets: Vec<u32>,
    entries: Vec<u32>,
}

impl TokenLists {
    /// Returns the bytes for lists with a number of entries.
    pub(crate) fn memory_bytes(sets: &SetCollection, entries: u64) -> u64 {
        4 * entries + 4 * u64::from(sets.universe() - sets.unique_tokens().min(sets.universe()) + 2)
    }

    /// Makes the lists of all tokens that are not unique. Sets from `heavy` on are only in the lists of tokens
    /// below `floor`.
    pub(crate) fn new(
        sets: &SetCollection,
        range: Range<SetId>,
        floor: TokenId,
        heavy: SetId,
    ) -> Self {
        let first = sets.unique_tokens();
        let mut offsets = vec![0u32; (sets.universe().saturating_sub(first)) as usize + 2];
        let tokens = |set: SetId| {
            let tokens = sets.set(set);
            let begin = tokens.partition_point(|&token| token < first);
            let end = if set >= heavy {
                tokens.partition_point(|&token| token < floor).max(begin)
            } else {
                tokens.len()
            };
            &tokens[begin..end]
        };
        for set in range.clone() {
            for &token in tokens(set) {
                offsets[(token - first) as usize + 2] += 1;
            }
        }
        let mut sum = 0;
        for offset in &mut offsets {
            sum += *offset;
            *offset = sum;
        }
        // While a list is filled, its begin (stored one place further) moves to its end.
        let mut entries = vec![0; sum as usize];
        for set in range.clone() {
            for &token in tokens(set) {
                let place = &mut offsets[(token - first) as usize + 1];
                entries[*place as usize] = set - range.start;
                *place += 1;
            }
        }
        offsets.pop();
        TokenLists { first, offsets, entries }
    }

    /// Returns the sets with a token.
    #[inline(always)]
    pub(crate) fn of(&self, token: TokenId) -> &[u32] {
        let at = (token - self.first) as usize;
        &self.entries[self.offsets[at] as usize..self.offsets[at + 1] as usize]
    }

    /// Adds one for each set below `end` and each of these tokens that it holds.
    #[inline]
    pub(crate) fn count(&self, tokens: &[TokenId], end: u32, counts: &mut [u32]) {
        let begin = tokens.partition_point(|&token| token < self.first);
        for &token in &tokens[begin..] {
            let mut list = self.of(token);
            if list.last().is_some_and(|&last| last >= end) {
                list = &list[..list.partition_point(|&set| set < end)];
            }
            for &set in list {
                counts[set as usize] += 1;
            }
        }
    }
}

/// The costs of counting overlaps, in seconds on one core.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Weigh {
    /// Comparing a word of two rows.
    pub(crate) word: f64,
    /// The fixed cost of a product of a block with some probes, for each pair.
    pub(crate) block: f64,
    /// Visiting a set in a list.
    pub(crate) walk: f64,
}

impl Weigh {
    /// Returns the costs that were measured on a 2-core AMD EPYC (Zen 4) on 2026-11-15.
    pub(crate) fn new() -> Self {
        let word = match Tier::best() {
            Tier::Avx512 => 0.065e-9,
            Tier::Avx2 => 0.17e-9,
            Tier::Neon => 0.25e-9,
            Tier::Scalar => 0.45e-9,
        };
        Weigh { word, block: 0.35e-9, walk: 0.8e-9 }
    }

    /// Returns the number of words of the most frequent tokens that are cheaper as columns than as lists;
    /// at most `most`. `pairs` is the number of pairs to count, and `meetings` returns how often sets meet
    /// in the lists of a word's tokens.
    ///
    /// Rarer tokens have fewer meetings, roughly, so the words are counted from the most frequent token until
    /// the lists are cheaper than the columns.
    pub(crate) fn words(&self, meetings: &[f64], pairs: f64, most: usize) -> usize {
        let column = pairs * self.word;
        let of_word = |tokens: &[f64]| tokens.iter().sum::<f64>() * self.walk;
        let worth = meetings.rchunks(BITS as usize).take_while(|tokens| of_word(tokens) > column);
        worth.count().min(most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use simjoin_kernels::overlap::overlap;
    use simjoin_testing::{Rows, collections};

    #[test]
    fn lists_and_bits_together_count_every_token_once() {
        let rows: Rows = (0..70u32)
            .map(|row| {
                (0..300).filter(|token| (token * 7 + row * 13) % (2 + token / 20) == 0).collect()
            })
            .collect();
        let (sets, _) = collections(&rows, None);
        let (len, universe) = (sets.len() as u32, sets.universe());
        for words in 0..=(universe as usize).div_ceil(64) {
            for (range, heavy) in [(0..len, 0), (0..len, len / 2), (5..len - 3, 20), (0..len, len)]
            {
                let floor = floor(universe, words);
                let lists = TokenLists::new(&sets, range.clone(), floor, heavy);
                let bits = BitRows::new(&sets, range.clone(), words);
                let product = Product::best();
                for probe in 0..len {
                    let mut row = vec![0; words];
                    probe_row(sets.set(probe), universe, &mut row);
                    let mut counts = vec![0; range.len()];
                    lists.count(sets.set(probe), range.len() as u32, &mut counts);
                    for block in 0..range.len().div_ceil(ROWS) {
                        let mut out = [[0; ROWS]; PROBES];
                        bits.multiply(&product, block, &[&row; PROBES], &mut out);
                        for (at, &more) in (block * ROWS..range.len()).zip(&out[3]) {
                            if range.start + at as u32 >= heavy {
                                counts[at] += more;
                            }
                        }
                    }
                    for (set, &count) in range.clone().zip(&counts) {
                        assert_eq!(
                            count,
                            overlap(sets.set(probe), sets.set(set)),
                            "{words} {heavy}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn most_frequent_words_become_columns() {
        let weigh = Weigh { word: 1.0, block: 0.0, walk: 1.0 };
        let meetings: Vec<f64> = (0..200).map(f64::from).collect();
        assert_eq!(weigh.words(&meetings, 1e9, 10), 0);
        assert_eq!(weigh.words(&meetings, 0.0, 10), 4);
        assert_eq!(weigh.words(&meetings, 0.0, 3), 3);
        // The last 64 meet 64 · 167.5 times, those before 64 · 103.5 times.
        assert_eq!(weigh.words(&meetings, 64.0 * 120.0, 10), 1);
        assert_eq!(weigh.words(&meetings, 64.0 * 100.0, 10), 2);
    }
}
