//! Intersects by bitmaps.
//!
//! The numbers are divided into stretches. For each stretch, the tokens of both slices become bits, and words
//! of bits are compared. This takes one step for each token and one for every 64 numbers, so it suits slices
//! that hold a large share of all numbers.

use super::Found;

/// The number of words in a stretch: both bitmaps fit the first-level cache.
const WORDS: usize = 512;
const STRETCH: u64 = 64 * WORDS as u64;

/// Finds the common tokens of two ascending slices.
pub fn bitmap<F: Found>(a: &[u32], b: &[u32], found: &mut F) {
    let (mut a, mut b) = (a, b);
    let mut words = [[0u64; WORDS]; 2];
    while let (Some(&x), Some(&y)) = (a.first(), b.first()) {
        // Skip stretches in which one of the slices has no token.
        let base = x.max(y) & !63;
        a = &a[a.partition_point(|&token| token < base)..];
        b = &b[b.partition_point(|&token| token < base)..];
        let end = u64::from(base) + STRETCH;
        let last =
            fill(&mut a, base, end, &mut words[0]).min(fill(&mut b, base, end, &mut words[1]));
        let [of_a, of_b] = &mut words;
        for (at, (x, y)) in of_a.iter_mut().zip(of_b.iter_mut()).enumerate() {
            let both = *x & *y;
            (*x, *y) = (0, 0);
            if both != 0 && at <= last {
                found.word(base + 64 * at as u32, both);
            }
        }
    }
}

/// Sets the bits of the tokens below `end`, removes these tokens and returns the last word with a bit.
#[inline(always)]
fn fill(tokens: &mut &[u32], base: u32, end: u64, words: &mut [u64; WORDS]) -> usize {
    let (mut word, mut bits, mut at) = (0, 0u64, 0);
    while let Some(&token) = tokens.get(at)
        && u64::from(token) < end
    {
        let place = token - base;
        if (place / 64) as usize != word {
            words[word] = bits;
            (word, bits) = ((place / 64) as usize, 0);
        }
        bits |= 1 << (place % 64);
        at += 1;
    }
    words[word] = bits;
    *tokens = &tokens[at..];
    word
}
