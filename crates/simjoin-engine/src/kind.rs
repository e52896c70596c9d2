//! What is joined?
//!
//! Sets and vectors are joined by one engine. A [`Kind`] names what differs: the collection, the predicate, the
//! pairs, the unit of work, and what is known beforehand. A [`Task`] is what both have in common: which rows meet
//! which, under which predicate.

use crate::sets::{Survey, Tile};
use crate::vectors::VectorSurvey;
use simjoin_core::{Bounds, SetCollection, SetPair, VectorCollection, VectorPair, VectorPredicate};
use std::fmt::Debug;
use std::ops::RangeFull;

/// A kind of rows that can be joined.
pub trait Kind: Copy + Debug + Send + Sync + Sized + 'static {
    /// The rows of one side.
    type Collection: Debug + Send + Sync;
    /// Which pairs are wanted.
    type Predicate: Copy + Debug + Send + Sync;
    /// What a technique finds.
    type Pair: Copy + Send + Sync;
    /// A part of a task.
    type Range: Clone + Debug + Send + Sync;
    /// What is known about a range, from which techniques estimate their cost.
    type Survey<'a>;
}

/// Sets of tokens.
#[derive(Clone, Copy, Debug)]
pub enum Sets {}

impl Kind for Sets {
    type Collection = SetCollection;
    type Predicate = Bounds;
    type Pair = SetPair;
    type Range = Tile;
    type Survey<'a> = Survey<'a>;
}

/// Vectors of numbers. A task is always prepared as a whole.
#[derive(Clone, Copy, Debug)]
pub enum Vectors {}

impl Kind for Vectors {
    type Collection = VectorCollection;
    type Predicate = VectorPredicate;
    type Pair = VectorPair;
    type Range = RangeFull;
    type Survey<'a> = VectorSurvey;
}

/// Which build rows a probe row meets, apart from the length filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Those before the probe, in the same collection: a self-join.
    Before,
    /// Those no larger than the probe. All vectors are of one size.
    NotLarger,
    /// Those smaller than the probe.
    Smaller,
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
