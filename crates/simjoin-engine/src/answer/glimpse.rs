//! What do the results look like?
//!
//! A [`Glimpse`] watches a join, whatever its answer: it counts the pairs by similarity (or distance), keeps a few of
//! each bin to show, and finds the groups.
//!
//! # Flow
//!
//! ```text
//! technique ─ pairs of sets ─► WatchedSink ─► the sink of the answer
//!                                   └───────► bins, sample, components
//! ```
//!
//! Pairs of sets are seen before they are expanded to rows, so that counting stays as quick as it is where rows repeat:
//! a pair of sets counts for all pairs of rows that hold them, and one pair of rows, the first of each, stands for them
//! in the sample.
//!
//! # Memory
//!
//! [`Glimpse::bytes`]: bins, [`EACH`] pairs a bin, and 4 bytes a set of a self-join; never the number of results.
//!
//! # The sample
//!
//! Each pair of rows has a number by a fixed hash, and each bin keeps the pairs with the smallest numbers. So the sample
//! is the same with any number of threads, technique and device, and it holds pairs from the threshold up to identical
//! ones, however rare some of them are.

use super::{Answer, AnswerSink, Components};
use crate::kind::{Direction, Kind, Task};
use parking_lot::Mutex;
use simjoin_core::{
    Bounds, Measure, Predicate, RowPair, SetCollection, Side, Sink, VectorCollection,
    VectorMeasure, VectorPredicate, mix64,
};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};

/// Pairs that a bin keeps at most.
const EACH: usize = 100;

/// Bins at most; sets have one more, for pairs of identical sets.
const BINS: u64 = 50;

/// What the results of a join look like: see [`Join::glimpse`](crate::Join::glimpse).
#[derive(Debug)]
pub struct Glimpse {
    bins: Vec<Bin>,
    of_sets: bool,
    /// Pairs of distinct sets.
    distinct: AtomicU64,
    /// Pairs of rows that sit exactly on the threshold.
    on_threshold: AtomicU64,
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
    /// The number of pairs of rows that hold the same two sets.
    pub rows: u64,
}

#[derive(Debug)]
struct Bin {
    from: f64,
    to: f64,
    pairs: AtomicU64,
    /// Pairs with a larger number are not kept.
    limit: AtomicU64,
    /// By number and input.
    kept: Mutex<BTreeMap<(u64, Side), GlimpsePair>>,
}

impl Bin {
    fn offer(&self, seen: GlimpsePair) {
        let RowPair { left, right, left_input, .. } = seen.pair;
        let rows = u64::from(left) << 32 | u64::from(right);
        let number = mix64(rows ^ u64::from(left_input == Side::Right).reverse_bits());
        if number > self.limit.load(Ordering::Relaxed) {
            return;
        }
        let mut kept = self.kept.lock();
        kept.insert((number, left_input), seen);
        if kept.len() > EACH {
            kept.pop_last();
        }
        if let Some((last, _)) = kept.last_key_value().filter(|_| kept.len() == EACH) {
            self.limit.store(last.0, Ordering::Relaxed);
        }
    }
}

impl Glimpse {
    /// Makes a glimpse for a join of sets.
    pub fn of_sets(
        predicate: Predicate,
        left: &SetCollection,
        right: Option<&SetCollection>,
    ) -> Self {
        let (_, p, q) = Bounds::new(predicate).parts();
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
        Glimpse::new(bins, true, right.is_none().then_some(left.len()))
    }

    /// Makes a glimpse for a join of vectors.
    pub fn of_vectors(
        predicate: VectorPredicate,
        left: &VectorCollection,
        right: Option<&VectorCollection>,
    ) -> Self {
        let farthest = match predicate.measure() {
            VectorMeasure::Euclidean => predicate.threshold(),
            VectorMeasure::Cosine => 1.0 - predicate.threshold(),
        };
        let mut bins = even_bins(0.0, farthest);
        if bins.is_empty() {
            bins.push((0.0, farthest));
        }
        Glimpse::new(bins, false, right.is_none().then_some(left.len()))
    }

    /// `entries`: those of a self-join, which has groups.
    fn new(bins: Vec<(f64, f64)>, of_sets: bool, entries: Option<usize>) -> Self {
        let bin = |(from, to)| {
            let (pairs, limit) = (AtomicU64::new(0), AtomicU64::new(u64::MAX));
            Bin { from, to, pairs, limit, kept: Mutex::default() }
        };
        Glimpse {
            bins: bins.into_iter().map(bin).collect(),
            of_sets,
            distinct: AtomicU64::new(0),
            on_threshold: AtomicU64::new(0),
            components: entries.map(Components::new),
        }
    }

    /// Returns the bytes that it takes at most, including the labels of groups.
    pub fn bytes(&self) -> u64 {
        let each = size_of::<(u64, Side)>() + size_of::<GlimpsePair>();
        let sample = self.bins.len() * (size_of::<Bin>() + 2 * EACH * each);
        sample as u64 + self.components.as_ref().map_or(0, Components::bytes)
    }

    /// Returns the number of pairs of rows by similarity, the lowest first, with empty bins.
    pub fn bins(&self) -> Vec<GlimpseBin> {
        let bin = |bin: &Bin| GlimpseBin {
            from: bin.from,
            to: bin.to,
            pairs: bin.pairs.load(Ordering::Relaxed),
        };
        self.bins.iter().map(bin).collect()
    }

    /// Returns the number of pairs of distinct sets or vectors in the answer.
    pub fn distinct(&self) -> u64 {
        self.distinct.load(Ordering::Relaxed)
    }

    /// Returns the number of pairs of rows whose similarity is exactly the threshold; `None` for vectors.
    pub fn on_threshold(&self) -> Option<u64> {
        self.of_sets.then(|| self.on_threshold.load(Ordering::Relaxed))
    }

    /// Returns at most `most` pairs by rising similarity, as evenly from all bins as possible.
    pub fn sample(&self, most: usize) -> Vec<GlimpsePair> {
        let kept: Vec<Vec<GlimpsePair>> =
            self.bins.iter().map(|bin| bin.kept.lock().values().copied().collect()).collect();
        let turns = (0..EACH).flat_map(|turn| kept.iter().filter_map(move |bin| bin.get(turn)));
        let mut sample: Vec<GlimpsePair> = turns.take(most).copied().collect();
        sample.sort_by(|a, b| {
            let key = |seen: &GlimpsePair| (seen.pair.left_input, seen.pair.left, seen.pair.right);
            a.pair.similarity.total_cmp(&b.pair.similarity).then(key(a).cmp(&key(b)))
        });
        sample
    }

    /// Returns the smallest row of each row's component, in a self-join.
    pub fn groups<K: Kind>(&self, rows: &K::Collection, wanted: K::Wanted) -> Option<Vec<u32>> {
        Some(self.components.as_ref()?.labels::<K>(rows, &K::predicate(wanted)))
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

/// Makes bins between two values, as wide as one, two or five of some power of ten.
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
            // The quotient of a multiple may be rounded down below a whole number.
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

/// Makes bins of whole numbers: one each, or, where they are many, each wider than the one before.
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

/// One thread's counts, which are added when it is dropped.
struct Look<'a> {
    glimpse: &'a Glimpse,
    pairs: Vec<u64>,
    distinct: u64,
    on_threshold: u64,
}

impl<'a> Look<'a> {
    fn new(glimpse: &'a Glimpse) -> Self {
        Look { glimpse, pairs: vec![0; glimpse.bins.len()], distinct: 0, on_threshold: 0 }
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
            self.on_threshold += if K::on_threshold(task, pair) { rows } else { 0 };
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
        self.glimpse.on_threshold.fetch_add(self.on_threshold, Ordering::Relaxed);
    }
}

/// An answer whose pairs a glimpse sees, if there is one.
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

/// A sink whose pairs a glimpse sees.
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
            let glimpse = Glimpse::new(vec![(0.0, 0.5), (0.5, 1.0), (1.0, 1.0)], true, None);
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
