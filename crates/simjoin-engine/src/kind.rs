//! What is joined?
//!
//! One engine joins sets and vectors, and counts overlaps. A [`Kind`] names what differs between them: the collection,
//! the predicate, the pairs, the unit of work, and the survey of a range. A [`Task`] is common to all: which rows meet
//! which, under which predicate.

use simjoin_core::{RowPair, Side};
use std::fmt::Debug;
use std::ops::{ControlFlow, Range};

/// A kind of rows that can be joined.
pub trait Kind: Copy + Debug + Send + Sync + Sized + 'static {
    /// The rows of one side.
    type Collection: Entries;
    /// The user's request, such as a measure and a threshold.
    type Wanted: Copy + Debug + Send + Sync;
    /// The predicate that decides about a pair.
    type Predicate: From<Self::Wanted> + Copy + Debug + Send + Sync;
    /// A pair that a technique finds: two entries of the collections, and their overlap or distance.
    type Pair: Copy + Debug + Send + Sync;
    /// A part of a task: a range of probes and the rows that they meet.
    type Range: Clone + Debug + Send + Sync;
    /// The facts about a range from which techniques estimate their cost.
    type Survey<'a>;

    /// Whether a probe meets only builds that are no larger, so that each of two sides probes the other one.
    const BY_SIZE: bool = false;

    /// Returns the predicate for a user's request.
    fn predicate(wanted: Self::Wanted) -> Self::Predicate {
        wanted.into()
    }

    /// Returns the directions of a join, as [`Task::directions`] does unless the kind supports fewer.
    fn directions<'a>(
        left: &'a Self::Collection,
        right: Option<&'a Self::Collection>,
        with_itself: bool,
        predicate: Self::Predicate,
    ) -> Vec<(Task<'a, Self>, Direction)> {
        Task::directions(left, right, with_itself, predicate)
    }

    /// Returns the range that is a whole task.
    fn whole(task: &Task<'_, Self>) -> Self::Range;

    /// The probes of a range are cut only at multiples of this.
    const STEP: u32 = 1;

    /// Returns the probes of a task in rising order, in sections whose probes have about the same work each: the
    /// probes of each section, the pairs that they may meet, and their tokens.
    fn sections(task: &Task<'_, Self>) -> Vec<(Range<u32>, [u64; 2])>;

    /// Returns the range in which these probes meet all builds that they reach; `None` if they reach none.
    fn range_of(task: &Task<'_, Self>, probes: Range<u32>) -> Option<Self::Range>;

    /// Returns the probes of a range.
    fn probes(range: &Self::Range) -> Range<u32>;

    /// Measures a range.
    fn work(task: &Task<'_, Self>, range: &Self::Range) -> Work;

    /// Cuts a range into about `parts` smaller ones, each by its own probes. A range that cannot be cut comes back
    /// alone.
    fn cut(task: &Task<'_, Self>, range: &Self::Range, parts: usize) -> Vec<Self::Range>;

    /// Returns the probe and the build of a pair.
    fn ends(pair: &Self::Pair) -> (u32, u32);

    /// Returns the overlap of a pair, and its similarity or distance.
    fn value(task: &Task<'_, Self>, pair: &Self::Pair) -> (u32, f64);

    /// Returns whether a pair sits exactly on the threshold.
    fn on_threshold(_: &Task<'_, Self>, _: &Self::Pair) -> bool {
        false
    }

    /// Returns the pair of an entry with itself, if it satisfies the predicate. An entry without such a pair is in no
    /// pair at all.
    fn self_pair(
        entries: &Self::Collection,
        predicate: &Self::Predicate,
        entry: u32,
    ) -> Option<Self::Pair>;

    /// Returns whether the pairs that techniques find are pairs of rows already.
    fn finds_rows(_: &Task<'_, Self>) -> bool {
        false
    }

    /// Returns whether techniques can count the pairs of rows of a task without pushing what they find.
    fn can_count(_: &Task<'_, Self>) -> bool {
        true
    }

    /// Counts the pairs of rows that these pairs stand for.
    fn count_rows(task: &Task<'_, Self>, pairs: &[Self::Pair]) -> u64 {
        let Task { probe, build, .. } = task;
        if Self::finds_rows(task) || !(probe.has_repeats() || build.has_repeats()) {
            return pairs.len() as u64;
        }
        let rows = |pair| {
            let ends = Self::ends(pair);
            let (a, b) = (probe.weight(ends.0), build.weight(ends.1));
            if task.is_repeat(ends) { a * (a - 1) / 2 } else { a * b }
        };
        pairs.iter().map(rows).sum()
    }

    /// Calls `push` with every pair of rows that these pairs stand for.
    #[inline]
    fn expand(
        task: &Task<'_, Self>,
        direction: Direction,
        pairs: &[Self::Pair],
        mut push: impl FnMut(RowPair) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let (left_input, of_rows) = (direction.input_of_left(), Self::finds_rows(task));
        for pair in pairs {
            let (ends, (overlap, similarity)) = (Self::ends(pair), Self::value(task, pair));
            let (probes, builds) = match of_rows {
                true => (std::slice::from_ref(&ends.0), std::slice::from_ref(&ends.1)),
                false => (task.probe.rows(&ends.0), task.build.rows(&ends.1)),
            };
            let repeat = task.is_repeat(ends);
            for (at, &probe) in probes.iter().enumerate() {
                for &build in if repeat { &builds[at + 1..] } else { builds } {
                    let (left, right) = match of_rows {
                        true => (probe, build),
                        false => direction.left_and_right(probe, build),
                    };
                    push(RowPair { left, right, overlap, similarity, left_input })?;
                }
            }
        }
        ControlFlow::Continue(())
    }

    /// Returns the number of pairs of rows in the answer that no technique looks for: repeats, and pairs with an empty
    /// row, where these are in the answer.
    fn unsearched(task: &Task<'_, Self>, _: Direction) -> u64 {
        task.repeats().map(|pair| Self::count_rows(task, &[pair])).sum()
    }

    /// Calls `push` with every pair of rows that no technique looks for.
    fn expand_unsearched(
        task: &Task<'_, Self>,
        direction: Direction,
        mut push: impl FnMut(RowPair) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        task.repeats().try_for_each(|pair| Self::expand(task, direction, &[pair], &mut push))
    }

    /// Returns the number of pairs of rows in the answer where it is known without a look at any pair.
    fn known_number(_task: &Task<'_, Self>, _direction: Direction) -> Option<u64> {
        None
    }

    /// Returns the number of entries and of rows of a collection.
    fn sizes(entries: &Self::Collection) -> (usize, usize) {
        entries.sizes()
    }
}

/// The rows of one side. Rows that are equal are one entry.
pub trait Entries: Debug + Send + Sync {
    /// Returns the number of entries, and of rows, including empty ones.
    fn sizes(&self) -> (usize, usize);

    /// Returns whether some entry stands in several rows.
    fn has_repeats(&self) -> bool;

    /// Returns the number of rows that hold an entry.
    fn weight(&self, entry: u32) -> u64 {
        self.rows(&entry).len() as u64
    }

    /// Returns the rows that hold an entry, ascending; at least one.
    fn rows<'r>(&'r self, entry: &'r u32) -> &'r [u32];
}

/// Which side of a join probes which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The left side with itself.
    LeftItself,
    /// The left side looks for partners on the right.
    LeftProbes,
    /// The right side looks for partners on the left.
    RightProbes,
    /// The right side with itself.
    RightItself,
}

impl Direction {
    /// Returns the input that the left row of a pair belongs to.
    pub fn input_of_left(self) -> Side {
        if self == Direction::RightItself { Side::Right } else { Side::Left }
    }

    /// Returns the rows of a probe and of a build in the order of the answer: left and right.
    #[inline]
    pub fn left_and_right(self, probe: u32, build: u32) -> (u32, u32) {
        let exchange = match self {
            Direction::LeftItself | Direction::RightItself => build < probe,
            Direction::LeftProbes => false,
            Direction::RightProbes => true,
        };
        if exchange { (build, probe) } else { (probe, build) }
    }
}

/// Which build rows a probe row meets, apart from the length filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Those before the probe, in the same collection: a self-join.
    Before,
    /// Those no larger than the probe. All vectors are of one size, and overlaps ask for none.
    NotLarger,
    /// Those smaller than the probe.
    Smaller,
}

/// The amount of work in a range.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Work {
    /// The probes.
    pub probes: Range<u32>,
    /// The smallest and the largest size of a probe; of vectors, the dimension.
    pub probe_sizes: (u32, u32),
    /// The smallest and the largest size of an entry that they may meet.
    pub build_sizes: (u32, u32),
    /// Pairs that the length filter leaves.
    pub pairs: u64,
    /// Tokens, or numbers, of the probes.
    pub tokens: u64,
}

/// Returns the share of the work in a part with these pairs and tokens of a whole; `None` if the whole has none.
pub(crate) fn work_share(part: [u64; 2], whole: [u64; 2]) -> Option<f64> {
    let share = |of: usize| part[of] as f64 / whole[of] as f64;
    (whole[0] > 0 && whole[1] > 0).then(|| f64::midpoint(share(0), share(1)))
}

/// Probe rows, build rows, and what a pair of them must satisfy.
#[derive(Debug)]
pub struct Task<'a, K: Kind> {
    /// The rows that look for partners.
    pub probe: &'a K::Collection,
    /// The rows that are found. The same collection as `probe` in a self-join.
    pub build: &'a K::Collection,
    /// What a pair must satisfy.
    pub predicate: K::Predicate,
    /// Which build rows a probe meets.
    pub order: Order,
}

impl<K: Kind> Clone for Task<'_, K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K: Kind> Copy for Task<'_, K> {}

impl<'a, K: Kind> Task<'a, K> {
    /// Returns the tasks that make up a self-join (one) or a join of two collections (one, or two if sizes decide who
    /// probes; and one more for the right collection `with_itself`).
    pub fn directions(
        left: &'a K::Collection,
        right: Option<&'a K::Collection>,
        with_itself: bool,
        predicate: K::Predicate,
    ) -> Vec<(Self, Direction)> {
        let task = |probe, build, order| Task { probe, build, predicate, order };
        let Some(right) = right else {
            return vec![(task(left, left, Order::Before), Direction::LeftItself)];
        };
        let mut all = vec![(task(left, right, Order::NotLarger), Direction::LeftProbes)];
        if K::BY_SIZE {
            all.push((task(right, left, Order::Smaller), Direction::RightProbes));
        }
        if with_itself {
            all.push((task(right, right, Order::Before), Direction::RightItself));
        }
        all
    }

    /// Returns whether a collection is joined with itself: each unordered pair counts once.
    pub fn is_self_join(&self) -> bool {
        self.order == Order::Before
    }
    /// Returns the collections: one in a self-join, else two.
    pub(crate) fn sides(&self) -> impl Iterator<Item = &'a K::Collection> + use<'a, K> {
        [Some(self.probe), (!self.is_self_join()).then_some(self.build)].into_iter().flatten()
    }

    /// Returns whether this pair of entries is one entry with itself.
    fn is_repeat(&self, (probe, build): (u32, u32)) -> bool {
        self.is_self_join() && probe == build
    }

    /// Returns the pair with itself of each entry that stands in several rows, in a self-join.
    pub(crate) fn repeats(&self) -> impl Iterator<Item = K::Pair> {
        let Task { probe, predicate, .. } = self;
        let some = self.is_self_join() && probe.has_repeats();
        let entries = 0..if some { probe.sizes().0 as u32 } else { 0 };
        let repeated = entries.filter(|&entry| probe.weight(entry) > 1);
        repeated.filter_map(|entry| K::self_pair(probe, predicate, entry))
    }
}

/// Cuts a range of probes into about `parts` smaller ones, each of a whole number of units but the last one.
pub(crate) fn cut_probes(probes: &Range<u32>, unit: usize, parts: usize) -> Vec<Range<u32>> {
    let units = probes.len().div_ceil(unit);
    let each = units.div_ceil(parts.clamp(1, units.max(1))).max(1) * unit;
    let starts = probes.clone().step_by(each);
    starts.map(|start| start..probes.end.min(start.saturating_add(each as u32))).collect()
}
