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
    type Collection: Debug + Send + Sync;
    /// What a user asks for, such as a measure and a threshold.
    type Wanted: Copy + Debug + Send + Sync;
    /// The predicate that decides about a pair.
    type Predicate: Copy + Debug + Send + Sync;
    /// A pair that a technique finds: two entries of the collections, and their overlap or distance.
    type Pair: Copy + Debug + Send + Sync;
    /// A part of a task: a range of probes and the rows that they meet.
    type Range: Clone + Debug + Send + Sync;
    /// The facts about a range from which techniques estimate their cost.
    type Survey<'a>;

    /// Returns the predicate for a user's request.
    fn predicate(wanted: Self::Wanted) -> Self::Predicate;

    /// Returns the directions of a join: one task for a self-join, more for two collections.
    fn directions<'a>(
        left: &'a Self::Collection,
        right: Option<&'a Self::Collection>,
        with_itself: bool,
        predicate: Self::Predicate,
    ) -> Vec<(Task<'a, Self>, Direction)>;

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

    /// Returns whether techniques can count the pairs of rows of a task without pushing what they find.
    fn can_count(_: &Task<'_, Self>) -> bool {
        true
    }

    /// Counts the pairs of rows that these pairs stand for.
    fn rows(task: &Task<'_, Self>, pairs: &[Self::Pair]) -> u64;

    /// Calls `push` with every pair of rows that these pairs stand for.
    fn expand(
        task: &Task<'_, Self>,
        direction: Direction,
        pairs: &[Self::Pair],
        push: impl FnMut(RowPair) -> ControlFlow<()>,
    ) -> ControlFlow<()>;

    /// Returns the first pair of rows that a pair stands for, and whether it sits exactly on the threshold.
    fn shown(task: &Task<'_, Self>, direction: Direction, pair: &Self::Pair) -> (RowPair, bool);

    /// Returns the number of entries and of rows of a collection.
    fn sizes(collection: &Self::Collection) -> (usize, usize);

    /// Returns the number of pairs of rows in the answer that no technique looks for: rows that are one entry, and
    /// pairs with an empty row, where these are in the answer.
    fn unsearched(task: &Task<'_, Self>, direction: Direction) -> u64;

    /// Calls `visit` for each entry that stands in several rows and satisfies the predicate with itself: with its
    /// first pair of rows, the number of pairs, and whether they sit exactly on the threshold.
    fn visit_unsearched(
        task: &Task<'_, Self>,
        direction: Direction,
        visit: impl FnMut(RowPair, u64, bool),
    );

    /// Calls `push` with every pair of rows that no technique looks for.
    fn expand_unsearched(
        task: &Task<'_, Self>,
        direction: Direction,
        push: impl FnMut(RowPair) -> ControlFlow<()>,
    ) -> ControlFlow<()>;

    /// Returns the number of pairs of rows in the answer where it is known without a look at any pair.
    fn known_number(_task: &Task<'_, Self>, _direction: Direction) -> Option<u64> {
        None
    }

    /// Turns the smallest entry of each entry's component into the smallest row of each row's component.
    fn label_rows(
        collection: &Self::Collection,
        predicate: &Self::Predicate,
        component: impl FnMut(u32) -> u32,
    ) -> Vec<u32>;
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
    /// Returns whether this is a self-join.
    pub fn is_itself(self) -> bool {
        matches!(self, Direction::LeftItself | Direction::RightItself)
    }

    /// Returns the input that the left row of a pair belongs to.
    pub fn input_of_left(self) -> Side {
        if self == Direction::RightItself { Side::Right } else { Side::Left }
    }

    /// Returns the rows of a probe and of a build as a person sees them: left and right.
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

/// Returns the share of the work in a part with these pairs and tokens of a whole; `None` if there is nothing.
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

impl<K: Kind> Task<'_, K> {
    /// Returns whether a collection is joined with itself: each unordered pair counts once.
    pub fn is_self_join(&self) -> bool {
        self.order == Order::Before
    }
}
