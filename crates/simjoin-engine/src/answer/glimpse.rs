//! What do the results look like?
//!
//! A [`Glimpse`] watches a join, whatever it answers with: it counts the pairs by similarity (or
//! distance), keeps a few of each bin to show, and knows which rows hang together.
//!
//! # Flow
//!
//! ```text
//! technique ─ pairs of sets ─► Seen ─► the sink of the answer
//!                               └────► bins, sample, components
//! ```
//!
//! Pairs of sets are seen before they are expanded to rows, so that counting stays as quick as it is
//! where rows repeat: a pair of sets counts for all pairs of rows that hold them, and one pair of
//! rows, the first of each, stands for them in the sample.
//!
//! # Memory
//!
//! [`Glimpse::bytes`]: bins, [`EACH`] pairs a bin, and 4 bytes a set where groups are wanted; never the
//! number of results.
//!
//! # The sample
//!
//! Each pair of rows has a number by a fixed hash, and each bin keeps the pairs with the smallest
//! ones. So the sample is the same with any number of threads, technique and device, and it holds
//! pairs from the threshold up to identical ones, however rare some of them are.

use super::{Answer, AnswerSink, Components};
use crate::kind::{Direction, Kind, Task};
use crate::sets::Sets;
use crate::vectors::Vectors;
use parking_lot::Mutex;
use simjoin_core::{
    Bounds, Measure, Predicate, RowPair, SetCollection, Side, Sink, VectorCollection,
    VectorMeasure, VectorPredicate, mix64,
};
use std::collections::BinaryHeap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};

/// Pairs that a bin keeps at most.
const EACH: usize = 100;

/// Bins at most, beside one for those that are identical.
const BINS: u64 = 50;

/// What the results of a join look like: see [`Join::glimpse`](crate::Join::glimpse).
#[derive(Debug)]
pub struct Glimpse {
    bins: Vec<Bin>,
    bounds: Option<Bounds>,
    /// Pairs of distinct sets.
    distinct: AtomicU64,
    /// Pairs of rows that sit exactly on the threshold.
    tight: AtomicU64,
    components: Option<Components>,
}

/// Pairs of rows between two similarities.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GlimpseBin {
    /// The smallest similarity, or distance.
    pub from: f64,
    /// What it stays below; the last bin holds this value too, and so does one of a single value.
    pub to: f64,
    /// Pairs of rows.
    pub pairs: u64,
}

/// A pair that stands for others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GlimpsePair {
    /// The rows.
    pub pair: RowPair,
    /// How many pairs of rows hold the same two sets.
    pub rows: u64,
}

#[derive(Debug)]
struct Bin {
    from: f64,
    to: f64,
    pairs: AtomicU64,
    /// Pairs with a larger number need not apply.
    limit: AtomicU64,
    kept: Mutex<BinaryHeap<Kept>>,
}

#[derive(Debug)]
struct Kept {
    number: u64,
    seen: GlimpsePair,
}

impl Kept {
    fn key(&self) -> (u64, u32, u32, bool) {
        let RowPair { left, right, left_input, .. } = self.seen.pair;
        (self.number, left, right, left_input == Side::Right)
    }
}

impl PartialEq for Kept {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Kept {}

impl PartialOrd for Kept {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Kept {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

impl Bin {
    fn new(from: f64, to: f64) -> Self {
        let limit = AtomicU64::new(u64::MAX);
        Bin { from, to, pairs: AtomicU64::new(0), limit, kept: Mutex::default() }
    }

    fn offer(&self, seen: GlimpsePair) {
        let RowPair { left, right, left_input, .. } = seen.pair;
        let rows = u64::from(left) << 32 | u64::from(right);
        let number = mix64(rows ^ u64::from(left_input == Side::Right).reverse_bits());
        if number > self.limit.load(Ordering::Relaxed) {
            return;
        }
        let mut kept = self.kept.lock();
        kept.push(Kept { number, seen });
        if kept.len() > EACH {
            kept.pop();
        }
        if let Some(last) = kept.peek().filter(|_| kept.len() == EACH) {
            self.limit.store(last.number, Ordering::Relaxed);
        }
    }
}

impl Glimpse {
    /// For a join of sets; `groups` for the connected components of a self-join as well.
    pub fn of_sets(
        predicate: Predicate,
        left: &SetCollection,
        right: Option<&SetCollection>,
        groups: bool,
    ) -> Self {
        let bounds = Bounds::new(predicate);
        let (_, p, q) = bounds.parts();
        let bins = if predicate.measure() == Measure::Overlap {
            let largest =
                |sets: &SetCollection| sets.classes().last().map_or(0, |class| class.size);
            let most = right.map_or(u32::MAX, largest).min(largest(left));
            whole_bins(p, u64::from(most))
        } else {
            let mut bins = even_bins(p as f64 / q as f64, 1.0);
            bins.push((1.0, 1.0));
            bins
        };
        let groups = (groups && right.is_none()).then_some(left.len());
        Glimpse::new(bins, Some(bounds), groups)
    }

    /// For a join of vectors; `groups` for the connected components of a self-join as well.
    pub fn of_vectors(
        predicate: VectorPredicate,
        left: &VectorCollection,
        right: Option<&VectorCollection>,
        groups: bool,
    ) -> Self {
        let farthest = match predicate.measure() {
            VectorMeasure::Euclidean => predicate.threshold(),
            VectorMeasure::Cosine => 1.0 - predicate.threshold(),
        };
        let mut bins = even_bins(0.0, farthest);
        if bins.is_empty() {
            bins.push((0.0, farthest));
        }
        Glimpse::new(bins, None, (groups && right.is_none()).then_some(left.len()))
    }

    fn new(bins: Vec<(f64, f64)>, bounds: Option<Bounds>, groups: Option<usize>) -> Self {
        Glimpse {
            bins: bins.into_iter().map(|(from, to)| Bin::new(from, to)).collect(),
            bounds,
            distinct: AtomicU64::new(0),
            tight: AtomicU64::new(0),
            components: groups.map(Components::new),
        }
    }

    /// Bytes that it takes at most, the labels of groups included.
    pub fn bytes(&self) -> u64 {
        let sample = self.bins.len() * (size_of::<Bin>() + 2 * EACH * size_of::<Kept>());
        sample as u64 + self.components.as_ref().map_or(0, Components::bytes)
    }

    /// The pairs of rows by similarity, the lowest first. Empty bins are there too.
    pub fn bins(&self) -> Vec<GlimpseBin> {
        let bin = |bin: &Bin| GlimpseBin {
            from: bin.from,
            to: bin.to,
            pairs: bin.pairs.load(Ordering::Relaxed),
        };
        self.bins.iter().map(bin).collect()
    }

    /// Pairs of distinct sets or vectors in the answer.
    pub fn distinct(&self) -> u64 {
        self.distinct.load(Ordering::Relaxed)
    }

    /// Pairs of rows whose similarity is exactly the threshold; `None` for vectors.
    pub fn on_threshold(&self) -> Option<u64> {
        self.bounds.map(|_| self.tight.load(Ordering::Relaxed))
    }

    /// At most so many pairs, as evenly from all bins as they have them, by rising similarity.
    pub fn sample(&self, most: usize) -> Vec<GlimpsePair> {
        let kept = self.bins.iter().map(|bin| {
            let kept = bin.kept.lock();
            let mut kept: Vec<_> = kept.iter().map(|kept| (kept.key(), kept.seen)).collect();
            kept.sort_unstable_by_key(|kept| kept.0);
            kept
        });
        let kept: Vec<_> = kept.collect();
        let turns = (0..EACH).flat_map(|turn| kept.iter().filter_map(move |bin| bin.get(turn)));
        let mut sample: Vec<GlimpsePair> = turns.take(most).map(|kept| kept.1).collect();
        sample.sort_by(|a, b| {
            let key =
                |seen: &GlimpsePair| (seen.pair.left_input.name(), seen.pair.left, seen.pair.right);
            a.pair.similarity.total_cmp(&b.pair.similarity).then(key(a).cmp(&key(b)))
        });
        sample
    }

    /// For each row of a self-join of sets, the smallest row of its component.
    pub fn groups(&self, sets: &SetCollection) -> Option<Vec<u32>> {
        Some(self.components.as_ref()?.labels::<Sets>(sets, &self.bounds?))
    }

    /// For each vector of a self-join, the smallest row of its component.
    pub fn vector_groups(
        &self,
        vectors: &VectorCollection,
        predicate: VectorPredicate,
    ) -> Option<Vec<u32>> {
        Some(self.components.as_ref()?.labels::<Vectors>(vectors, &predicate))
    }

    fn bin(&self, value: f64) -> usize {
        self.bins.partition_point(|bin| bin.from <= value).saturating_sub(1)
    }

    /// Looks at the pairs of rows that no technique looks for.
    pub(crate) fn unsearched<K: Kind>(&self, (task, direction): &(Task<'_, K>, Direction)) {
        let mut look = Look::new(self);
        task.repeats().for_each(|pair| look.at_pairs(task, *direction, &[pair]));
        // These are not pairs of distinct sets.
        look.distinct = 0;
    }
}

/// Bins between two values, as wide as one, two or five of some power of ten.
fn even_bins(low: f64, high: f64) -> Vec<(f64, f64)> {
    if low >= high {
        return Vec::new();
    }
    let range = high - low;
    let mut power = range.log10().floor() as i32 - 3;
    loop {
        for step in [1.0, 2.0, 5.0] {
            // Divided, not multiplied: 17 / 20 and 85 / 100 are the same number.
            let at = |count: f64| match power {
                0.. => count * step * 10f64.powi(power),
                _ => count * step / 10f64.powi(-power),
            };
            let width = at(1.0);
            let first = (low / width).floor();
            // The quotient may come out a little below a whole number that it is.
            let first = if at(first + 1.0) <= low { first + 1.0 } else { first };
            if (high - at(first)) / width > BINS as f64 + 1e-6 {
                continue;
            }
            let count = ((high - at(first)) / width - 1e-6).ceil().max(1.0) as u64;
            let edge = |bin: u64| if bin == count { high } else { at(first + bin as f64) };
            return (0..count).map(|bin| (edge(bin), edge(bin + 1))).collect();
        }
        power += 1;
    }
}

/// Bins of whole numbers: one each, or, where they are many, each wider than the one before.
fn whole_bins(low: u64, high: u64) -> Vec<(f64, f64)> {
    let high = high.max(low);
    let growth = ((high + 1) as f64 / low as f64).powf(1.0 / BINS as f64);
    let mut bins = Vec::new();
    let mut from = low;
    while from <= high {
        let wide = if high - low < BINS { from + 1 } else { (from as f64 * growth).ceil() as u64 };
        let next = wide.clamp(from + 1, high + 1);
        bins.push((from as f64, (next - 1) as f64));
        from = next;
    }
    bins
}

/// One thread's look at pairs; what it counts is added at its end.
struct Look<'a> {
    glimpse: &'a Glimpse,
    pairs: Vec<u64>,
    distinct: u64,
    tight: u64,
}

impl<'a> Look<'a> {
    fn new(glimpse: &'a Glimpse) -> Self {
        Look { glimpse, pairs: vec![0; glimpse.bins.len()], distinct: 0, tight: 0 }
    }

    fn at(&mut self, seen: GlimpsePair) {
        let bin = self.glimpse.bin(seen.pair.similarity);
        self.pairs[bin] += seen.rows;
        self.distinct += 1;
        self.glimpse.bins[bin].offer(seen);
    }

    fn at_pairs<K: Kind>(&mut self, task: &Task<'_, K>, direction: Direction, pairs: &[K::Pair]) {
        for pair in pairs {
            let rows = K::count_rows(task, std::slice::from_ref(pair));
            self.tight += if K::on_threshold(task, pair) { rows } else { 0 };
            // The first pair of rows stands for all of them.
            let _ = K::expand(task, direction, std::slice::from_ref(pair), |pair| {
                self.at(GlimpsePair { pair, rows });
                ControlFlow::Break(())
            });
        }
    }
}

impl Drop for Look<'_> {
    fn drop(&mut self) {
        for (bin, &pairs) in self.glimpse.bins.iter().zip(&self.pairs) {
            bin.pairs.fetch_add(pairs, Ordering::Relaxed);
        }
        self.glimpse.distinct.fetch_add(self.distinct, Ordering::Relaxed);
        self.glimpse.tight.fetch_add(self.tight, Ordering::Relaxed);
    }
}

/// An answer whose pairs a glimpse sees, if one is wanted.
pub(crate) struct Watched<'a, A> {
    pub(crate) answer: &'a A,
    pub(crate) glimpse: Option<&'a Glimpse>,
}

impl<K: Kind, A: Answer<K>> Answer<K> for Watched<'_, A> {
    type Sink<'s>
        = WatchedSink<'s, K, A::Sink<'s>>
    where
        Self: 's;

    fn sink<'s>(&'s self, task: &Task<'s, K>, direction: Direction) -> Self::Sink<'s> {
        WatchedSink {
            sink: self.answer.sink(task, direction),
            look: self.glimpse.map(Look::new),
            task: *task,
            direction,
        }
    }
}

/// A sink with a glimpse at what goes into it.
pub(crate) struct WatchedSink<'s, K: Kind, S> {
    sink: S,
    look: Option<Look<'s>>,
    task: Task<'s, K>,
    direction: Direction,
}

impl<K: Kind, S: AnswerSink<K::Pair>> Sink<K::Pair> for WatchedSink<'_, K, S> {
    fn wants_value(&self) -> bool {
        self.look.is_some() || self.sink.wants_value()
    }

    fn stopped(&self) -> bool {
        self.sink.stopped()
    }

    fn only_counts(&self) -> bool {
        self.look.is_none() && self.sink.only_counts()
    }

    fn count(&mut self, rows: u64) {
        self.sink.count(rows);
    }

    fn push(&mut self, pairs: &[K::Pair]) -> ControlFlow<()> {
        if let Some(look) = &mut self.look {
            look.at_pairs(&self.task, self.direction, pairs);
            if let Some(components) = &look.glimpse.components {
                components.unite_all(pairs.iter().map(K::ends));
            }
        }
        self.sink.push(pairs)
    }
}

impl<K: Kind, S: AnswerSink<K::Pair>> AnswerSink<K::Pair> for WatchedSink<'_, K, S> {
    fn begin(&mut self, piece: usize) {
        self.sink.begin(piece);
    }

    fn end(&mut self) -> ControlFlow<()> {
        self.sink.end()
    }

    fn absorb(&mut self, pairs: &[K::Pair]) -> Option<u64> {
        if self.look.is_none() { self.sink.absorb(pairs) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_begin_at_round_numbers_and_leave_no_gap() {
        for (low, high, count) in [
            (0.8, 1.0, 40),
            (0.5, 1.0, 50),
            (0.9, 1.0, 50),
            (0.95, 1.0, 50),
            (1.0 / 3.0, 1.0, 34),
            (0.0, 0.25, 50),
            (0.0, 3e-7, 30),
            (0.0, 7.5e11, 38),
            (0.0, 1e150, 50),
            (0.0, 1e-150, 50),
            (0.999_999_999_999, 1.0, 50),
        ] {
            let bins = even_bins(low, high);
            assert_eq!(bins.len(), count, "{low} to {high}: {bins:?}");
            assert!(bins[0].0 <= low && bins[0].1 > low && bins[count - 1].1 == high);
            assert!(bins.windows(2).all(|two| two[0].1 == two[1].0 && two[0].0 < two[0].1));
        }
        assert_eq!(even_bins(0.8, 1.0)[10], (0.85, 0.855));
        assert!(even_bins(1.0, 1.0).is_empty());
    }

    #[test]
    fn bins_of_whole_numbers_hold_each_number_once() {
        for (low, high) in [(1, 1), (1, 50), (3, 60), (1, 1000), (5, 4_000_000_000), (7, 2)] {
            let bins = whole_bins(low, high);
            assert!(bins.len() <= BINS as usize, "{low} to {high}: {}", bins.len());
            assert_eq!((bins[0].0, bins[bins.len() - 1].1), (low as f64, high.max(low) as f64));
            assert!(bins.windows(2).all(|two| two[0].1 + 1.0 == two[1].0), "{bins:?}");
        }
    }

    #[test]
    fn a_sample_is_spread_over_the_bins_whatever_the_order() {
        let glimpse = |order: &mut dyn Iterator<Item = u32>| {
            let glimpse = Glimpse::new(vec![(0.0, 0.5), (0.5, 1.0), (1.0, 1.0)], None, None);
            let mut look = Look::new(&glimpse);
            for row in order {
                // A thousand at the threshold, ten in the middle, one identical.
                let similarity = match row {
                    0..1000 => 0.25,
                    1000..1010 => 0.75,
                    _ => 1.0,
                };
                let left_input = Side::Left;
                let pair =
                    RowPair { left: row, right: row + 1, overlap: 0, similarity, left_input };
                look.at(GlimpsePair { pair, rows: 2 });
            }
            drop(look);
            glimpse
        };
        let (up, down) = (glimpse(&mut (0..1011)), glimpse(&mut (0..1011).rev()));
        let pairs: Vec<u64> = up.bins().iter().map(|bin| bin.pairs).collect();
        assert_eq!((pairs, up.distinct()), (vec![2000, 20, 2], 1011));
        for (most, parts) in [(500, [100, 10, 1]), (31, [20, 10, 1]), (2, [1, 1, 0]), (0, [0; 3])] {
            let sample = up.sample(most);
            assert_eq!(sample, down.sample(most));
            let of = |value: f64| sample.iter().filter(|one| one.pair.similarity == value).count();
            assert_eq!([of(0.25), of(0.75), of(1.0)], parts);
            assert!(sample.is_sorted_by(|a, b| a.pair.similarity <= b.pair.similarity));
        }
    }
}
