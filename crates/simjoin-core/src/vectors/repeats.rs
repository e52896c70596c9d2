//! Which rows are equal?
//!
//! # Flow
//!
//! ```text
//! rows ─► high halves of hashes ─► filter ─► low halves ─► filter ─► sort by hash ─► compare rows ─► entries
//! ```
//!
//! A filter has at least eight counters a row, of two bits each: no hash, one, or more. A row whose counter says *one*
//! differs from all others. Hashes that share a counter by chance leave about a tenth of the rows, a second filter leaves
//! a hundredth. Usually nothing is left after the comparison, no row is moved, and nothing is kept.
//!
//! # Exactness
//!
//! Equal rows have one hash, so they share counters and stand together once sorted. Rows of one hash are compared by
//! their bits; if they differ, they are sorted by their bits. Hashes decide about nothing but speed.
//!
//! # Memory
//!
//! 4 bytes a row for halves of hashes, 2 to 4 for counters, and 16 bytes for each row that the filters leave. Pages that
//! are touched for the first time cost as much as hashing does.

use rayon::prelude::*;

/// Which rows are which entries.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Repeats {
    /// The entry of each row.
    pub(super) entries: Vec<u32>,
    /// The rows of all entries, one entry after the other, and where those of each begin.
    rows: Vec<u32>,
    starts: Vec<u32>,
}

impl Repeats {
    /// Returns the rows of an entry, ascending.
    #[inline]
    pub(super) fn rows(&self, entry: u32) -> &[u32] {
        let entry = entry as usize;
        &self.rows[self.starts[entry] as usize..self.starts[entry + 1] as usize]
    }
}

/// A number whose bits can be compared and hashed.
pub(super) trait Bits: Copy + Send + Sync {
    /// How many numbers one step of the hash takes.
    const STEP: usize;

    /// Returns the bits of the number.
    fn bits(self) -> u64;

    /// Tells whether the number is neither infinite nor NaN.
    fn is_finite(self) -> bool;

    /// Returns the bits of up to [`Self::STEP`] numbers.
    fn words(some: &[Self]) -> [u64; 2];
}

impl Bits for f32 {
    const STEP: usize = 4;

    fn bits(self) -> u64 {
        self.to_bits().into()
    }

    #[inline]
    fn is_finite(self) -> bool {
        f32::is_finite(self)
    }

    #[inline]
    fn words(some: &[f32]) -> [u64; 2] {
        let bits = |at: usize| some.get(at).map_or(0, |x| u64::from(x.to_bits()));
        [bits(0) | bits(1) << 32, bits(2) | bits(3) << 32]
    }
}

impl Bits for f64 {
    const STEP: usize = 2;

    fn bits(self) -> u64 {
        self.to_bits()
    }

    #[inline]
    fn is_finite(self) -> bool {
        f64::is_finite(self)
    }

    #[inline]
    fn words(some: &[f64]) -> [u64; 2] {
        let bits = |at: usize| some.get(at).map_or(0, |x| x.to_bits());
        [bits(0), bits(1)]
    }
}

/// Digits of π.
const KEYS: [u64; 4] =
    [0x243f_6a88_85a3_08d3, 0x1319_8a2e_0370_7344, 0xa409_3822_299f_31d0, 0x082e_fa98_ec4e_6c89];

/// Multiplies, and folds the product into 64 bits.
#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

/// Hashes a row, in two chains that the processor computes at once.
#[inline]
pub(super) fn hash<T: Bits>(row: &[T]) -> u64 {
    let mut chains = [KEYS[0], KEYS[1]];
    let mut steps = row.chunks_exact(2 * T::STEP);
    for step in &mut steps {
        let (one, other) = step.split_at(T::STEP);
        for (chain, some) in chains.iter_mut().zip([one, other]) {
            let [a, b] = T::words(some);
            *chain = fold(*chain ^ a, KEYS[2] ^ b);
        }
    }
    for (chain, some) in chains.iter_mut().zip(steps.remainder().chunks(T::STEP)) {
        let [a, b] = T::words(some);
        *chain = fold(*chain ^ a, KEYS[2] ^ b);
    }
    fold(chains[0] ^ KEYS[3], chains[1].rotate_left(32) ^ KEYS[0])
}

/// Counts halves of hashes up to two.
struct Counters {
    /// 32 counters a word: the lower bit says *one or more*, the upper one *more than one*.
    words: Vec<u64>,
    shift: u32,
}

impl Counters {
    fn of(halves: impl ExactSizeIterator<Item = u32>) -> Self {
        // As many as halves can tell apart.
        let counters = (8 * halves.len() as u64).next_power_of_two().clamp(64, 1 << 32);
        let words = vec![0; (counters / 32) as usize];
        let mut all = Counters { words, shift: 32 - counters.trailing_zeros() };
        for half in halves {
            let (word, one) = all.place(half);
            all.words[word] |= (all.words[word] & one) << 1 | one;
        }
        all
    }

    #[inline]
    fn place(&self, half: u32) -> (usize, u64) {
        let counter = half >> self.shift;
        ((counter / 32) as usize, 1 << (2 * (counter % 32)))
    }

    /// Tells whether another hash may be equal to this one.
    #[inline]
    fn is_shared(&self, half: u32) -> bool {
        let (word, one) = self.place(half);
        self.words[word] & one << 1 != 0
    }
}

/// Rows that are filtered at a time.
const BLOCK: usize = 1 << 10;
/// Elements, or rows, that take about half a millisecond: threads take no fewer at a time.
const WORTH: usize = 1 << 20;

/// Returns the rows whose halves may be equal to those of others.
fn sharing(halves: &[u32]) -> Vec<u32> {
    let counters = Counters::of(halves.iter().copied());
    let pieces = halves.par_chunks(WORTH).enumerate().map(|(piece, halves)| {
        let mut sharing = Vec::with_capacity(halves.len() / 8);
        for (block, halves) in halves.chunks(BLOCK).enumerate() {
            // Without a branch, because it could not be foreseen.
            let (mut rows, mut count) = ([0; BLOCK], 0);
            for (row, &half) in ((piece * WORTH + block * BLOCK) as u32..).zip(halves) {
                rows[count] = row;
                count += usize::from(counters.is_shared(half));
            }
            sharing.extend_from_slice(&rows[..count]);
        }
        sharing
    });
    pieces.collect::<Vec<_>>().concat()
}

/// Returns the rows that may be equal to another one, with their hashes.
fn suspects<T: Bits>(
    elements: &[T],
    d: usize,
    hash: impl Fn(&[T]) -> u64 + Sync,
) -> Vec<(u64, u32)> {
    let least = WORTH.div_ceil(d);
    let halves =
        elements.par_chunks_exact(d).with_min_len(least).map(|row| (hash(row) >> 32) as u32);
    let halves: Vec<u32> = halves.collect();
    let rows = sharing(&halves);
    drop(halves);
    // The other halves tell most of those apart that share a counter by chance.
    let hash_of = |row: u32| hash(&elements[row as usize * d..(row as usize + 1) * d]);
    let halves = rows.par_iter().with_min_len(least).map(|&row| hash_of(row) as u32);
    let halves: Vec<u32> = halves.collect();
    let left = sharing(&halves).into_par_iter().with_min_len(least);
    left.map(|at| rows[at as usize]).map(|row| (hash_of(row), row)).collect()
}

/// Finds rows that are equal bit by bit, and returns those that are equal to an earlier row, with the first such row,
/// in any order. Runs on the current rayon pool.
fn later<T: Bits>(elements: &[T], d: usize, hash: impl Fn(&[T]) -> u64 + Sync) -> Vec<(u32, u32)> {
    let mut hashed = suspects(elements, d, hash);
    hashed.par_sort_unstable();
    let row =
        |row: u32| elements[row as usize * d..(row as usize + 1) * d].iter().map(|x| x.bits());
    let same = |a: u32, b: u32| row(a).eq(row(b));
    let mut later = Vec::new();
    for alike in hashed.chunk_by_mut(|a, b| a.0 == b.0).filter(|alike| alike.len() > 1) {
        if !alike[1..].iter().all(|other| same(alike[0].1, other.1)) {
            // Different rows of one hash.
            alike.sort_unstable_by(|a, b| row(a.1).cmp(row(b.1)).then(a.1.cmp(&b.1)));
        }
        for equal in alike.chunk_by(|a, b| same(a.1, b.1)) {
            later.extend(equal[1..].iter().map(|other| (other.1, equal[0].1)));
        }
    }
    later
}

/// Keeps the first of the rows that are equal, and tells which rows they are; `None` where all differ.
pub(super) fn merge<T: Bits>(
    elements: &mut Vec<T>,
    d: usize,
    hash: impl Fn(&[T]) -> u64 + Sync,
) -> Option<Repeats> {
    let mut later = later(elements, d, hash);
    if later.is_empty() {
        return None;
    }
    later.par_sort_unstable();
    let count = elements.len() / d;
    // Rows between two that are left out move together.
    let (mut entries, mut distinct, mut next) = (Vec::with_capacity(count), 0u32, 0);
    let end = (count as u32, 0);
    for &(row, first) in later.iter().chain([&end]) {
        let rows = next..row as usize;
        if distinct as usize != rows.start {
            elements.copy_within(rows.start * d..rows.end * d, distinct as usize * d);
        }
        let before = distinct;
        distinct += rows.len() as u32;
        entries.extend(before..distinct);
        if entries.len() < count {
            entries.push(entries[first as usize]);
        }
        next = row as usize + 1;
    }
    elements.truncate(distinct as usize * d);
    elements.shrink_to_fit();
    Some(by_entry(entries, distinct as usize))
}

/// Sorts rows by their entries.
fn by_entry(entries: Vec<u32>, distinct: usize) -> Repeats {
    let mut starts = vec![0u32; distinct + 1];
    entries.iter().for_each(|&entry| starts[entry as usize + 1] += 1);
    (0..distinct).for_each(|entry| starts[entry + 1] += starts[entry]);
    let (mut next, mut rows) = (starts.clone(), vec![0u32; entries.len()]);
    for (row, &entry) in (0u32..).zip(&entries) {
        rows[next[entry as usize] as usize] = row;
        next[entry as usize] += 1;
    }
    Repeats { entries, rows, starts }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    /// Merges rows by looking every row up among the earlier ones.
    fn expected<T: Bits>(elements: &[T], d: usize) -> (Vec<u64>, Vec<u32>) {
        let (mut known, mut kept, mut entries) = (HashMap::new(), Vec::new(), Vec::new());
        for row in elements.chunks_exact(d) {
            let bits: Vec<u64> = row.iter().map(|x| x.bits()).collect();
            let next = known.len() as u32;
            entries.push(*known.entry(bits.clone()).or_insert_with(|| {
                kept.extend(bits);
                next
            }));
        }
        (kept, entries)
    }

    fn check<T: Bits>(elements: &[T], d: usize, hash: impl Fn(&[T]) -> u64 + Sync) {
        let (kept, entries) = expected(elements, d);
        let mut merged = elements.to_vec();
        let repeats = merge(&mut merged, d, hash);
        assert_eq!(merged.iter().map(|x| x.bits()).collect::<Vec<_>>(), kept);
        assert_eq!(repeats.is_none(), kept.len() == elements.len());
        let Some(repeats) = repeats else { return };
        assert_eq!(((repeats.starts.len() - 1), &repeats.entries), (kept.len() / d, &entries));
        let mut seen = 0;
        for entry in 0..repeats.starts.len() as u32 - 1 {
            let rows = repeats.rows(entry);
            assert!(rows.is_sorted() && rows.iter().all(|&row| entries[row as usize] == entry));
            seen += rows.len();
        }
        assert_eq!(seen, entries.len());
    }

    /// Checks hashes that are good, that many rows share, and that all share.
    fn check_all(elements: &[f64], d: usize) {
        let narrow: Vec<f32> = elements.iter().map(|&x| x as f32).collect();
        check(elements, d, hash);
        check(&narrow, d, hash);
        check(elements, d, |row| hash(row) & 7 << 61);
        check(&narrow, d, |row| hash(row) % 3);
        check(elements, d, |_| 0);
        check(&narrow, d, |_| u64::MAX);
    }

    proptest! {
        #[test]
        fn equal_rows_are_found(
            d in 1usize..12,
            numbers in prop::collection::vec((0u8..8, -1.0..1.0f64), 0..1500),
            repeated in 0u8..9,
        ) {
            // From rows that all differ to rows of few numbers, among them zeros of both signs.
            let number = |(kind, x): &(u8, f64)| match *kind {
                kind if kind >= repeated => *x,
                0 | 1 => 0.0,
                2 => -0.0,
                kind => f64::from(kind),
            };
            let elements: Vec<f64> = numbers.iter().map(number).collect();
            check_all(&elements[..elements.len() / d * d], d);
        }

        #[test]
        fn few_equal_rows_are_found_among_many(
            d in 1usize..6,
            rows in 2usize..3000,
            copies in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 0..5),
        ) {
            let mut elements: Vec<f64> = (0..rows * d).map(|at| at as f64).collect();
            for (from, to) in copies {
                let (from, to) = (from.index(rows), to.index(rows));
                elements.copy_within(from * d..(from + 1) * d, to * d);
            }
            check_all(&elements, d);
        }
    }

    #[test]
    fn none_one_and_all_rows_may_be_equal() {
        check_all(&[], 3);
        check_all(&[1.0, 2.0, 3.0], 3);
        check_all(&[0.0, -0.0], 1);
        for rows in [2, 100, 20_000] {
            check_all(&vec![0.5; 3 * rows], 3);
            let distinct: Vec<f64> = (0..rows).map(|row| row as f64).collect();
            check_all(&distinct, 1);
            check_all(&distinct.repeat(2), 1);
        }
    }

    #[test]
    fn rows_of_several_pieces_are_compared() {
        let count = 2 * WORTH + 3 * BLOCK / 2;
        let mut elements: Vec<f32> = (0..count).map(|row| row as f32).collect();
        let last = WORTH + 7;
        elements[last] = 5.0;
        elements[count - 1] = 5.0;
        let repeats = merge(&mut elements, 1, hash).unwrap();
        assert_eq!((repeats.starts.len() - 1, elements.len()), (count - 2, count - 2));
        assert_eq!(repeats.rows(5), [5, last as u32, count as u32 - 1]);
        assert_eq!((repeats.entries[last + 1], elements[last]), (last as u32, last as f32 + 1.0));
    }

    #[test]
    fn hashes_of_similar_rows_differ() {
        let grid = (0..100_000u32).flat_map(|row| [row % 10, row / 10 % 100, row / 1000, 0, 0]);
        let grid: Vec<f32> = grid.map(|x| x as f32).collect();
        assert!(suspects(&grid, 5, hash).len() < 3000);
        let wide: Vec<f64> = grid.iter().map(|&x| f64::from(x)).collect();
        assert!(suspects(&wide, 5, hash).len() < 3000);
    }
}
