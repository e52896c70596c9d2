//! How are sizes, lengths, tokens and groups distributed?
//!
//! Distributions have few bins: one for each size if there are at most [`EACH`] sizes, otherwise at most [`BINS`] bins
//! of growing width, for a logarithmic axis.

use super::sample::Keys;
use serde::Serialize;
use simjoin::engine::{GlimpseBin, SetCollection, VectorCollection};

/// The largest number of sizes that have a bin each.
const EACH: u64 = 80;

/// The largest number of bins of a distribution over more sizes.
const BINS: u64 = 48;

/// The approximate number of points of a curve.
const POINTS: usize = 90;

/// The number of frequent tokens that are named.
const NAMED: usize = 12;

/// The number of large groups that are named.
const LARGEST: usize = 8;

/// A bin: its range, with both ends included if they are whole numbers, and the number of values in it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Bar {
    pub from: f64,
    pub to: f64,
    pub count: u64,
}

impl From<GlimpseBin> for Bar {
    fn from(bin: GlimpseBin) -> Self {
        Bar { from: bin.from, to: bin.to, count: bin.pairs }
    }
}

/// Returns bins of sizes from their counts, by rising size.
fn binned(counts: &[(u64, u64)]) -> Vec<Bar> {
    let (Some(&(low, _)), Some(&(high, _))) = (counts.first(), counts.last()) else {
        return Vec::new();
    };
    let low = low.max(1);
    let growth = ((high + 1) as f64 / low as f64).powf(1.0 / BINS as f64);
    let mut bars = Vec::new();
    let (mut from, mut rest) = (low, counts);
    while from <= high {
        let wide = if high - low < EACH { from + 1 } else { (from as f64 * growth).ceil() as u64 };
        let next = wide.clamp(from + 1, high + 1);
        let (in_bin, more) = rest.split_at(rest.partition_point(|&(size, _)| size < next));
        let count = in_bin.iter().map(|&(_, count)| count).sum();
        bars.push(Bar { from: from as f64, to: (next - 1) as f64, count });
        (from, rest) = (next, more);
    }
    bars
}

/// Returns the number of records by the size of their sets, without empty ones.
pub fn sizes(sets: &SetCollection) -> Vec<Bar> {
    let classes = sets.classes().iter().map(|class| {
        let rows = (class.start..class.end).map(|set| u64::from(sets.weight(set))).sum();
        (u64::from(class.size), rows)
    });
    binned(&classes.collect::<Vec<_>>())
}

/// Returns the number of vectors by their length, in even bins.
pub fn lengths(vectors: &VectorCollection) -> Vec<Bar> {
    let mut row = Vec::new();
    let mut length = |at: usize| {
        row.clear();
        vectors.row(at, &mut row);
        // Scaled, so that no square is too large or too small.
        let largest = row.iter().fold(0.0, |largest: f64, value| largest.max(value.abs()));
        if largest == 0.0 {
            return 0.0;
        }
        let sum: f64 = row.iter().map(|value| (value / largest) * (value / largest)).sum();
        (largest * sum.sqrt()).min(f64::MAX)
    };
    let mut ends = (f64::INFINITY, 0.0f64);
    for at in 0..vectors.records() {
        let length = length(at);
        ends = (ends.0.min(length), ends.1.max(length));
    }
    let (low, high) = ends;
    if low > high {
        return Vec::new();
    }
    let count = if low == high { 1 } else { BINS as usize };
    let edge = |bin: usize| {
        let share = bin as f64 / count as f64;
        if bin == count { high } else { low * (1.0 - share) + high * share }
    };
    let bar = |bin: usize| Bar { from: edge(bin), to: edge(bin + 1), count: 0 };
    let mut bars: Vec<Bar> = (0..count).map(bar).collect();
    for at in 0..vectors.records() {
        let length = length(at);
        let bin = bars.partition_point(|bar| bar.from <= length).saturating_sub(1);
        bars[bin].count += 1;
    }
    bars
}

/// The frequencies of tokens.
#[derive(Debug, Serialize)]
pub struct Frequencies {
    /// The number of different tokens.
    pub tokens: u64,
    /// The number of tokens of all records.
    pub occurrences: u64,
    /// The number of tokens that only one record holds.
    pub once: u64,
    /// Ranks from 1, and the number of records that hold the token of that rank.
    pub curve: Vec<(u64, u64)>,
    /// The most frequent tokens, and the number of records that hold them.
    pub named: Vec<(String, u64)>,
}

impl Frequencies {
    /// Makes frequencies from the number of records that hold each token; `name` returns the text of a token.
    pub fn new(counts: &[u32], name: impl Fn(u32) -> String) -> Self {
        let mut order: Vec<u32> = (0..counts.len() as u32).collect();
        order.sort_unstable_by_key(|&token| (std::cmp::Reverse(counts[token as usize]), token));
        let count = |rank: usize| u64::from(counts[order[rank - 1] as usize]);
        let mut curve: Vec<(u64, u64)> = Vec::new();
        let growth = (counts.len().max(1) as f64).powf(1.0 / POINTS as f64);
        let mut rank = 1;
        while rank <= counts.len() {
            curve.push((rank as u64, count(rank)));
            let next = ((rank as f64 * growth).ceil() as usize).max(rank + 1);
            // The last point is that of the rarest token.
            rank = if rank < counts.len() { next.min(counts.len()) } else { next };
        }
        Frequencies {
            tokens: counts.len() as u64,
            occurrences: counts.iter().map(|&count| u64::from(count)).sum(),
            once: counts.iter().filter(|&&count| count == 1).count() as u64,
            curve,
            named: order
                .iter()
                .take(NAMED)
                .map(|&token| (name(token), u64::from(counts[token as usize])))
                .collect(),
        }
    }
}

/// The connected components of the rows.
#[derive(Debug, Serialize)]
pub struct Groups {
    /// The number of groups of two or more rows.
    pub groups: u64,
    /// The number of rows in these groups.
    pub rows: u64,
    /// The number of rows without a partner.
    pub alone: u64,
    /// The number of these groups by size.
    pub bins: Vec<Bar>,
    /// The largest groups: the name of the first row, the size, and the beginning of that row.
    pub largest: Vec<(String, u64, String)>,
}

impl Groups {
    /// Makes groups from the smallest row of each row's group; `beginning` returns the beginning of a row.
    pub fn new(labels: &[u32], keys: &Keys<'_>, beginning: impl Fn(u32) -> String) -> Self {
        let mut sizes = vec![0u32; labels.len()];
        labels.iter().for_each(|&label| sizes[label as usize] += 1);
        let alone = sizes.iter().filter(|&&size| size == 1).count() as u64;
        let mut largest: Vec<(u32, u32)> = Vec::new();
        for (row, &size) in (0..).zip(&sizes).filter(|(_, size)| **size > 1) {
            largest.push((size, row));
            if largest.len() > 8 * LARGEST {
                largest.sort_unstable_by_key(|&(size, row)| (std::cmp::Reverse(size), row));
                largest.truncate(LARGEST);
            }
        }
        largest.sort_unstable_by_key(|&(size, row)| (std::cmp::Reverse(size), row));
        largest.truncate(LARGEST);
        let shown = |&(size, row): &(u32, u32)| (keys.left(row), u64::from(size), beginning(row));
        let largest = largest.iter().map(shown).collect();
        sizes.retain(|&size| size > 1);
        sizes.sort_unstable();
        let counts: Vec<(u64, u64)> = sizes
            .chunk_by(|one, other| one == other)
            .map(|equal| (u64::from(equal[0]), equal.len() as u64))
            .collect();
        Groups {
            groups: sizes.len() as u64,
            rows: sizes.iter().map(|&size| u64::from(size)).sum(),
            alone,
            bins: binned(&counts),
            largest,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_hold_every_size_once() {
        assert!(binned(&[]).is_empty());
        assert_eq!(binned(&[(3, 7)]), [Bar { from: 3.0, to: 3.0, count: 7 }]);
        for high in [1, 48, 80, 81, 1000, 4_000_000_000] {
            let counts = [(1, 5), (high.max(2) - 1, 2), (high.max(3), 9)];
            let bars = binned(&counts);
            assert!(bars.len() <= EACH as usize);
            assert_eq!(bars.iter().map(|bar| bar.count).sum::<u64>(), 16);
            assert!(bars.windows(2).all(|two| two[0].to + 1.0 == two[1].from));
        }
    }

    #[test]
    fn curves_begin_with_the_most_frequent_token_and_end_with_the_rarest() {
        let counts: Vec<u32> = (0..100_000).map(|token| 1 + 500_000 / (token + 1)).collect();
        let found = Frequencies::new(&counts, |token| format!("t{token}"));
        assert!(found.curve.len() <= POINTS + 1, "{}", found.curve.len());
        assert_eq!(found.curve[0], (1, 500_001));
        assert_eq!(found.curve.last(), Some(&(100_000, 6)));
        assert_eq!(found.named[1], ("t1".into(), 250_001));
        assert_eq!((found.tokens, found.once), (100_000, 0));
        let none = Frequencies::new(&[], |_| String::new());
        assert!(none.curve.is_empty() && none.named.is_empty());
    }

    #[test]
    fn groups_are_counted_by_size() {
        let shown = |row: u32| format!("is {row}");
        let found = Groups::new(&[0, 0, 2, 0, 4, 4, 6], &Keys::default(), shown);
        assert_eq!((found.groups, found.rows, found.alone), (2, 5, 2));
        assert_eq!(found.largest, [("0".into(), 3, "is 0".into()), ("4".into(), 2, "is 4".into())]);
        let counts: Vec<u64> = found.bins.iter().map(|bar| bar.count).collect();
        assert_eq!(counts, [1, 1]);
    }
}
