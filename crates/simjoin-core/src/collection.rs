//! How are sets stored for joins?
//!
//! A [`SetCollection`] holds each *distinct* set once, in compressed rows (`offsets` + `tokens`):
//!
//! * tokens are numbered by rising frequency, ties by first appearance, so that a set's prefix
//!   holds its rarest tokens; within a set they ascend;
//! * sets are ordered by size, then lexicographically, so that sets of one size
//!   ([`SizeClass`]) and sets with a common prefix are neighbours;
//! * the original row numbers of each distinct set are kept separately, ascending. Identical rows are
//!   joined once and expanded by the sink;
//! * empty rows are in no set, because they match nothing.
//!
//! # Memory
//!
//! A collection takes 4 bytes a token, 16 bytes a set and 4 bytes a row. While it is built, it takes
//! a second copy of the tokens and 16 more bytes a row.

use crate::bounds::MAX_SIZE;
use crate::{Error, Result, SetId, TokenId};
use rayon::prelude::*;
use std::ops::Range;

/// The records as the reader delivers them: row `r` holds `tokens[offsets[r]..offsets[r + 1]]`.
///
/// Tokens are numbered by first appearance; no row holds a token twice. The two inputs of a join
/// share one numbering.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawSets {
    /// The beginning of each row, and the end of the last one.
    pub offsets: Vec<usize>,
    /// The tokens of all rows.
    pub tokens: Vec<TokenId>,
}

impl Default for RawSets {
    fn default() -> Self {
        RawSets { offsets: vec![0], tokens: Vec::new() }
    }
}

impl RawSets {
    /// Returns the number of rows, empty ones included.
    pub fn rows(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Adds a row.
    pub fn push(&mut self, row: &[TokenId]) {
        self.tokens.extend_from_slice(row);
        self.offsets.push(self.tokens.len());
    }

    fn row(&self, row: u32) -> &[TokenId] {
        &self.tokens[self.offsets[row as usize]..self.offsets[row as usize + 1]]
    }
}

/// All sets of one size: a contiguous range of set numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizeClass {
    /// The size of each set in the class.
    pub size: u32,
    /// The first set of the class.
    pub start: SetId,
    /// The set after the last.
    pub end: SetId,
}

/// Distinct sets in joinable order. See the module's documentation for the invariants.
#[derive(Clone, Debug, Default)]
pub struct SetCollection {
    offsets: Vec<usize>,
    tokens: Vec<TokenId>,
    classes: Vec<SizeClass>,
    class_of: Vec<u32>,
    repeats: Vec<u64>,
    row_offsets: Vec<u32>,
    rows: Vec<u32>,
    records: usize,
    universe: u32,
    unique: u32,
}

impl SetCollection {
    /// Returns the number of distinct, non-empty sets.
    pub fn len(&self) -> usize {
        self.class_of.len()
    }

    /// Returns whether there is no set at all.
    pub fn is_empty(&self) -> bool {
        self.class_of.is_empty()
    }

    /// Returns the number of rows that were read, empty and repeated ones included.
    pub fn records(&self) -> usize {
        self.records
    }

    /// Says so if two collections number their tokens differently, because one call of [`prepare`] did not make both.
    /// It looks at the numbers of tokens only.
    pub fn check_numbering(&self, other: &SetCollection) -> Result<()> {
        let same = self.universe == other.universe && self.unique == other.unique;
        if same || self.is_empty() || other.is_empty() {
            return Ok(());
        }
        let message = "the two collections number tokens differently; expected both from one call of `prepare`";
        Err(Error::Config(message.into()))
    }

    /// Returns the number of tokens of all distinct sets.
    pub fn total_tokens(&self) -> usize {
        self.tokens.len()
    }

    /// Returns the number of tokens of a range of sets.
    pub fn tokens_in(&self, sets: &Range<SetId>) -> usize {
        self.offsets[sets.end as usize] - self.offsets[sets.start as usize]
    }

    /// Returns the number of different tokens of both sides of a join. All token numbers are below it.
    pub fn universe(&self) -> u32 {
        self.universe
    }

    /// Returns the number of unique tokens: those that occur in a single row of the whole input. They
    /// have the smallest numbers. They count as members, but no two rows share one.
    pub fn unique_tokens(&self) -> u32 {
        self.unique
    }

    /// Returns the position of each set's first token in [`tokens`](Self::tokens), and the end.
    pub fn offsets(&self) -> &[usize] {
        &self.offsets
    }

    /// Returns the tokens of all sets, one set after the other.
    pub fn tokens(&self) -> &[TokenId] {
        &self.tokens
    }

    /// Returns the tokens of a set, ascending.
    #[inline(always)]
    pub fn set(&self, id: SetId) -> &[TokenId] {
        &self.tokens[self.offsets[id as usize]..self.offsets[id as usize + 1]]
    }

    /// Returns the size of a set.
    #[inline(always)]
    pub fn size(&self, id: SetId) -> u32 {
        (self.offsets[id as usize + 1] - self.offsets[id as usize]) as u32
    }

    /// Returns the rows that hold this set, ascending; at least one.
    #[inline(always)]
    pub fn rows(&self, id: SetId) -> &[u32] {
        &self.rows
            [self.row_offsets[id as usize] as usize..self.row_offsets[id as usize + 1] as usize]
    }

    /// Returns the number of rows that hold this set.
    #[inline(always)]
    pub fn weight(&self, id: SetId) -> u32 {
        self.row_offsets[id as usize + 1] - self.row_offsets[id as usize]
    }

    /// Returns whether more than one row holds the same set.
    pub fn has_repeats(&self) -> bool {
        self.rows.len() > self.len()
    }

    /// Returns the size classes, by rising size.
    pub fn classes(&self) -> &[SizeClass] {
        &self.classes
    }

    /// Returns, for each size class, the number of pairs of rows that hold the same set.
    pub fn repeats(&self) -> &[u64] {
        &self.repeats
    }

    /// Returns the position of a set's size in [`classes`](Self::classes).
    #[inline(always)]
    pub fn class_of(&self, id: SetId) -> u32 {
        self.class_of[id as usize]
    }

    /// Returns the first set with at least this size; the number of sets when there is none.
    pub fn first_of_size(&self, size: u32) -> SetId {
        let class = self.classes.partition_point(|c| c.size < size);
        self.classes.get(class).map_or(self.len() as u32, |c| c.start)
    }

    /// Checks all invariants; the error names the first broken one. A collection from [`prepare`] is valid.
    pub fn validate(&self) -> Result<()> {
        let broken = |what: String| Err(Error::Internal(format!("invalid collection: {what}")));
        let sets = self.class_of.len();
        if self.offsets.len() != sets + 1 || self.row_offsets.len() != sets + 1 {
            return broken(format!("{sets} sets need {} offsets", sets + 1));
        }
        if self.offsets[0] != 0 || self.offsets[sets] != self.tokens.len() {
            return broken("offsets do not span the tokens".into());
        }
        if self.row_offsets[0] != 0 || self.row_offsets[sets] as usize != self.rows.len() {
            return broken("row offsets do not span the rows".into());
        }
        if !self.offsets.is_sorted() || !self.row_offsets.is_sorted() {
            return broken("offsets do not ascend".into());
        }
        for id in 0..sets {
            if self.offsets[id] >= self.offsets[id + 1] {
                return broken(format!("set {id} is empty"));
            }
            if self.row_offsets[id] >= self.row_offsets[id + 1] {
                return broken(format!("set {id} stands in no row"));
            }
            let (id, set) = (id as SetId, self.set(id as SetId));
            if !set.is_sorted_by(|a, b| a < b) {
                return broken(format!("the tokens of set {id} do not ascend"));
            }
            if set[set.len() - 1] >= self.universe {
                return broken(format!("set {id} has a token outside the universe"));
            }
            if !self.rows(id).is_sorted_by(|a, b| a < b) {
                return broken(format!("the rows of set {id} do not ascend"));
            }
            if id > 0 {
                let before = self.set(id - 1);
                if (before.len(), before) >= (set.len(), set) {
                    return broken(format!("sets {} and {id} are out of order", id - 1));
                }
            }
        }
        let mut next = 0;
        for (index, class) in self.classes.iter().enumerate() {
            if class.start != next || class.end <= class.start {
                return broken(format!("size class {index} does not follow the one before"));
            }
            for id in class.start..class.end {
                if self.size(id) != class.size || self.class_of(id) != index as u32 {
                    return broken(format!("set {id} is not of its class's size"));
                }
            }
            next = class.end;
        }
        let repeated = self.rows.len() > sets;
        if self.repeats.len() != self.classes.len()
            || repeated != self.repeats.iter().any(|&pairs| pairs > 0)
        {
            return broken("pairs of equal rows are not those of the size classes".into());
        }
        if next as usize != sets {
            return broken("the size classes do not span the sets".into());
        }
        let mut seen = vec![false; self.records];
        for &row in &self.rows {
            match seen.get_mut(row as usize) {
                Some(seen) if !*seen => *seen = true,
                Some(_) => return broken(format!("row {row} stands twice")),
                None => return broken(format!("row {row} is not among the records")),
            }
        }
        Ok(())
    }
}

/// Turns records into collections with one token order: rising frequency over both inputs,
/// ties by first appearance. `universe` is the number of distinct tokens: all must be below it.
///
/// A token that is not, and one that a row holds twice, is an error that names the row.
///
/// Runs on the current rayon pool; the result does not depend on the number of threads.
pub fn prepare(
    mut left: RawSets,
    mut right: Option<RawSets>,
    universe: usize,
) -> Result<(SetCollection, Option<SetCollection>)> {
    if universe > MAX_SIZE as usize {
        return Err(too_large(universe, "distinct tokens", MAX_SIZE));
    }
    let right_name = if right.is_some() { "the right input" } else { "the input" };
    let left_name = if right.is_some() { "the left input" } else { right_name };
    check(&left, left_name, universe)?;
    right.as_ref().map_or(Ok(()), |right| check(right, right_name, universe))?;
    for raw in [Some(&left), right.as_ref()].into_iter().flatten() {
        if raw.rows() >= u32::MAX as usize {
            return Err(too_large(raw.rows(), "rows", u32::MAX - 1));
        }
    }
    let mut frequency = count(&left.tokens, universe);
    if let Some(right) = &right {
        for (sum, more) in frequency.iter_mut().zip(count(&right.tokens, universe)) {
            *sum += more;
        }
    }
    let rank = ranks(&frequency);
    // Ranks rise with frequency, so the tokens that occur once come first.
    let numbers = Numbers {
        universe: universe as u32,
        unique: frequency.par_iter().filter(|&&count| count <= 1).count() as u32,
    };
    drop(frequency);
    renumber(&mut left, &rank);
    if let Some(right) = &mut right {
        renumber(right, &rank);
    }
    drop(rank);
    let left = arrange(&left, left_name, numbers)?;
    let right = right.map(|raw| arrange(&raw, right_name, numbers)).transpose()?;
    Ok((left, right))
}

/// The number of tokens that are checked at a time.
const CHUNK: usize = 1 << 14;

/// Names the first row that breaks a promise of [`RawSets`], except for repeated tokens.
fn check(raw: &RawSets, name: &str, universe: usize) -> Result<()> {
    let (first, last) = (raw.offsets.first(), raw.offsets.last());
    if first != Some(&0) || last != Some(&raw.tokens.len()) || !raw.offsets.is_sorted() {
        let message = "the offsets of the rows must ascend from 0 to the number of tokens";
        return Err(Error::input(name, "", message));
    }
    // The largest token of a chunk is found by vector instructions.
    let beyond = |token: TokenId| token as usize >= universe;
    let holds_one = |chunk: &[TokenId]| chunk.iter().copied().max().is_some_and(beyond);
    let Some(chunk) = raw.tokens.par_chunks(CHUNK).position_first(holds_one) else {
        return Ok(());
    };
    let rest = &raw.tokens[chunk * CHUNK..];
    let at = chunk * CHUNK + rest.iter().take_while(|&&token| !beyond(token)).count();
    let row = raw.offsets.partition_point(|&offset| offset <= at) - 1;
    let token = raw.tokens[at];
    let message = format!("token {token} is not below {universe}, the number of tokens");
    Err(Error::input(name, place(row), message))
}

fn place(row: usize) -> String {
    format!("row {row} (counting from 0)")
}

fn too_large(count: usize, what: &str, limit: u32) -> Error {
    Error::input("input", "", format!("{count} {what}, but at most {limit} are supported"))
}

/// The facts about token numbers that both sides of a join share.
#[derive(Clone, Copy)]
struct Numbers {
    universe: u32,
    unique: u32,
}

/// Counts the occurrences of each token.
fn count(tokens: &[TokenId], universe: usize) -> Vec<u32> {
    // One histogram a thread, but never more counters than tokens.
    let parts = rayon::current_num_threads().min(tokens.len() / universe.max(1)).max(1);
    let histograms: Vec<Vec<u32>> = tokens
        .par_chunks(tokens.len().div_ceil(parts).max(1))
        .map(|chunk| {
            let mut histogram = vec![0u32; universe];
            for &token in chunk {
                histogram[token as usize] += 1;
            }
            histogram
        })
        .collect();
    let mut histograms = histograms.into_iter();
    let mut total = histograms.next().unwrap_or_else(|| vec![0; universe]);
    for histogram in histograms {
        total.par_iter_mut().zip(histogram).for_each(|(sum, more)| *sum += more);
    }
    total
}

/// Returns the new number of each token: its place by (frequency, first appearance).
fn ranks(frequency: &[u32]) -> Vec<TokenId> {
    let mut order: Vec<u64> = frequency
        .iter()
        .zip(0u64..)
        .map(|(&count, token)| u64::from(count) << 32 | token)
        .collect();
    order.par_sort_unstable();
    let mut rank = vec![0; frequency.len()];
    for (new, old) in (0..).zip(order) {
        rank[(old & u64::from(u32::MAX)) as usize] = new;
    }
    rank
}

/// Renumbers all tokens and sorts each row.
fn renumber(raw: &mut RawSets, rank: &[TokenId]) {
    let rows = raw.rows();
    let step = rows.div_ceil(rayon::current_num_threads() * 8).max(1);
    let mut parts = Vec::new();
    let mut rest = raw.tokens.as_mut_slice();
    for start in (0..rows).step_by(step) {
        let offsets = &raw.offsets[start..=(start + step).min(rows)];
        let (part, more) = rest.split_at_mut(offsets[offsets.len() - 1] - offsets[0]);
        parts.push((offsets, part));
        rest = more;
    }
    parts.into_par_iter().for_each(|(offsets, tokens)| {
        for token in tokens.iter_mut() {
            *token = rank[*token as usize];
        }
        for ends in offsets.windows(2) {
            tokens[ends[0] - offsets[0]..ends[1] - offsets[0]].sort_unstable();
        }
    });
}

/// Orders the rows by (size, tokens, row) and stores each distinct set once.
fn arrange(raw: &RawSets, name: &str, numbers: Numbers) -> Result<SetCollection> {
    let records = raw.rows();
    // The sort key holds the size and the first token; only ties compare all tokens.
    let mut order: Vec<(u32, TokenId, u32)> = (0..records as u32)
        .into_par_iter()
        .filter_map(|row| {
            let tokens = raw.row(row);
            tokens.first().map(|&first| (tokens.len() as u32, first, row))
        })
        .collect();
    order.par_sort_unstable_by(|a, b| {
        (a.0, a.1)
            .cmp(&(b.0, b.1))
            .then_with(|| raw.row(a.2).cmp(raw.row(b.2)))
            .then_with(|| a.2.cmp(&b.2))
    });
    // Find first occurrences in parallel, then number them.
    let first: Vec<bool> = (0..order.len())
        .into_par_iter()
        .map(|i| {
            i == 0 || {
                let (a, b) = (order[i - 1], order[i]);
                (a.0, a.1) != (b.0, b.1) || raw.row(a.2) != raw.row(b.2)
            }
        })
        .collect();
    let sets = first.iter().filter(|&&first| first).count();
    let mut collection = SetCollection {
        offsets: Vec::with_capacity(sets + 1),
        tokens: Vec::new(),
        classes: Vec::new(),
        class_of: Vec::with_capacity(sets),
        repeats: Vec::new(),
        row_offsets: Vec::with_capacity(sets + 1),
        rows: order.iter().map(|&(_, _, row)| row).collect(),
        records,
        universe: numbers.universe,
        unique: numbers.unique,
    };
    let mut end = 0;
    for (position, &(size, _, _)) in (0u32..).zip(&order) {
        if !first[position as usize] {
            continue;
        }
        let id = collection.class_of.len() as SetId;
        collection.offsets.push(end);
        collection.row_offsets.push(position);
        end += size as usize;
        match collection.classes.last_mut() {
            Some(class) if class.size == size => class.end = id + 1,
            _ => collection.classes.push(SizeClass { size, start: id, end: id + 1 }),
        }
        collection.class_of.push(collection.classes.len() as u32 - 1);
    }
    collection.offsets.push(end);
    collection.row_offsets.push(order.len() as u32);
    drop((order, first));
    let repeats = |class: &SizeClass| {
        let pairs = |set: SetId| {
            let rows = u64::from(collection.weight(set));
            rows * (rows - 1) / 2
        };
        (class.start..class.end).map(pairs).sum()
    };
    collection.repeats = collection.classes.iter().map(repeats).collect();

    // Copy the tokens of each distinct set from its first row.
    let mut tokens = vec![0; end];
    let step = sets.div_ceil(rayon::current_num_threads() * 8).max(1);
    let mut parts = Vec::new();
    let mut rest = tokens.as_mut_slice();
    for start in (0..sets).step_by(step) {
        let stop = (start + step).min(sets);
        let (part, more) = rest.split_at_mut(collection.offsets[stop] - collection.offsets[start]);
        parts.push((start..stop, part));
        rest = more;
    }
    let repeated = parts
        .into_par_iter()
        .flat_map_iter(|(ids, mut part)| {
            let mut repeated = None;
            for id in ids {
                let row = collection.rows[collection.row_offsets[id] as usize];
                let source = raw.row(row);
                let (target, more) = part.split_at_mut(source.len());
                target.copy_from_slice(source);
                part = more;
                if source.windows(2).any(|pair| pair[0] == pair[1]) {
                    repeated = repeated.or(Some(row));
                }
            }
            repeated
        })
        .min();
    if let Some(row) = repeated {
        let message = "a token is repeated; expected different tokens";
        return Err(Error::input(name, place(row as usize), message));
    }
    collection.tokens = tokens;
    Ok(collection)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn raw(rows: &[&[u32]]) -> RawSets {
        let mut raw = RawSets::default();
        for row in rows {
            raw.push(row);
        }
        raw
    }

    #[test]
    fn tokens_are_numbered_by_frequency_then_first_appearance() {
        // Frequencies: 0 → 3, 1 → 1, 2 → 2, 3 → 1.
        let (sets, _) = prepare(raw(&[&[0, 1, 2], &[0], &[2, 3, 0]]), None, 4).unwrap();
        sets.validate().unwrap();
        // New numbers: 1 → 0, 3 → 1, 2 → 2, 0 → 3.
        assert_eq!(sets.set(0), [3]);
        assert_eq!(sets.set(1), [0, 2, 3]);
        assert_eq!(sets.set(2), [1, 2, 3]);
        assert_eq!((sets.rows(0), sets.rows(1), sets.rows(2)), (&[1][..], &[0][..], &[2][..]));
    }

    #[test]
    fn identical_rows_are_one_set_and_empty_rows_none() {
        let (sets, _) =
            prepare(raw(&[&[], &[1, 0], &[2], &[0, 1], &[], &[0, 1]]), None, 3).unwrap();
        sets.validate().unwrap();
        assert_eq!((sets.len(), sets.records(), sets.has_repeats()), (2, 6, true));
        assert_eq!(sets.rows(0), [2]);
        assert_eq!(sets.rows(1), [1, 3, 5]);
        assert_eq!(sets.first_of_size(1), 0);
        assert_eq!(sets.first_of_size(2), 1);
        assert_eq!(sets.first_of_size(3), 2);
    }

    #[test]
    fn both_sides_share_one_order() {
        let (left, right) = prepare(raw(&[&[0, 1]]), Some(raw(&[&[1, 2], &[1]])), 3).unwrap();
        // Token 1 is the most frequent over both sides.
        assert_eq!(left.set(0), [0, 2]);
        let right = right.unwrap();
        assert_eq!(right.set(0), [2]);
        assert_eq!(right.set(1), [1, 2]);
        assert_eq!((left.universe(), right.universe()), (3, 3));
        assert_eq!((left.unique_tokens(), right.unique_tokens()), (2, 2));
    }

    #[test]
    fn empty_input_makes_an_empty_collection() {
        let (sets, _) = prepare(RawSets::default(), None, 0).unwrap();
        sets.validate().unwrap();
        assert!(sets.is_empty());
        assert_eq!(sets.first_of_size(1), 0);
    }

    #[test]
    fn rows_that_break_the_promises_are_named() {
        let good = || raw(&[&[0], &[1]]);
        let offsets = |offsets: &[usize]| RawSets { offsets: offsets.into(), tokens: vec![0, 1] };
        for (left, right, expected) in [
            (
                raw(&[&[0], &[1, 1]]),
                None,
                "the input: row 1 (counting from 0): a token is repeated",
            ),
            (
                good(),
                Some(raw(&[&[0, 1, 0]])),
                "the right input: row 0 (counting from 0): a token is",
            ),
            (
                raw(&[&[0], &[], &[1, 2]]),
                None,
                "the input: row 2 (counting from 0): token 2 is not",
            ),
            (raw(&[&[9]]), Some(good()), "the left input: row 0 (counting from 0): token 9 is not"),
            (offsets(&[]), None, "the offsets of the rows must ascend"),
            (offsets(&[0]), None, "the offsets of the rows must ascend"),
            (offsets(&[1, 2]), None, "the offsets of the rows must ascend"),
            (offsets(&[0, 3]), None, "the offsets of the rows must ascend"),
            (offsets(&[0, 2, 1, 2]), None, "the offsets of the rows must ascend"),
        ] {
            let error = prepare(left, right, 2).unwrap_err();
            assert!(matches!(error, Error::Input { .. }), "{error:?}");
            assert!(error.to_string().contains(expected), "{error}");
        }
        assert!(prepare(raw(&[&[0]]), None, 0).is_err());
    }

    #[test]
    fn validate_names_the_broken_invariant() {
        let (good, _) = prepare(raw(&[&[0, 1], &[2], &[0, 2]]), None, 3).unwrap();
        let broken = |change: fn(&mut SetCollection), expected: &str| {
            let mut bad = good.clone();
            change(&mut bad);
            let message = bad.validate().unwrap_err().to_string();
            assert!(message.contains(expected), "{message}");
        };
        broken(|c| c.tokens.swap(1, 2), "do not ascend");
        broken(|c| c.universe = 1, "outside the universe");
        broken(|c| c.rows[0] = 99, "not among the records");
        broken(|c| c.rows[0] = c.rows[1], "stands twice");
        broken(|c| c.class_of[0] = 1, "not of its class's size");
        broken(|c| c.offsets[1] = 0, "is empty");
        broken(|c| c.offsets[1] = 1000, "offsets do not ascend");
        broken(|c| c.row_offsets[1] = 1000, "offsets do not ascend");
        broken(|c| c.tokens.truncate(1), "do not span the tokens");
    }

    proptest! {
        #[test]
        fn every_row_is_in_its_set(
            rows in prop::collection::vec(prop::collection::btree_set(0..40u32, 0..12), 0..60),
            threads in 1..4usize,
        ) {
            let mut sets = RawSets::default();
            for row in &rows {
                sets.push(&row.iter().copied().collect::<Vec<_>>());
            }
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let (collection, _) = pool.install(|| prepare(sets, None, 40)).unwrap();
            collection.validate().unwrap();
            prop_assert_eq!(collection.records(), rows.len());
            // Equal rows share a set, different rows do not, and sizes are kept.
            let mut set_of = vec![None; rows.len()];
            for id in 0..collection.len() as SetId {
                for &row in collection.rows(id) {
                    set_of[row as usize] = Some(id);
                    prop_assert_eq!(collection.set(id).len(), rows[row as usize].len());
                }
            }
            for (a, row) in rows.iter().enumerate() {
                prop_assert_eq!(set_of[a].is_none(), row.is_empty());
                for (b, other) in rows.iter().enumerate() {
                    prop_assert_eq!(row == other, set_of[a] == set_of[b]);
                }
            }
        }
    }
}
