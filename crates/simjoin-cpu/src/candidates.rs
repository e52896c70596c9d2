//! Who else may verify what a filter finds?
//!
//! `all-pairs`, `ppjoin` and `group-join` filter and verify by turns. As a [`CandidateSource`] they
//! only filter, and hand each probe's candidates to a [`CandidateSink`], which has them verified
//! elsewhere: on a device, say. `group-join` finds candidates in two steps (Bellas and Gounaris, the
//! work split of GroupJoin): the first set of a probe group with the first sets of the groups that it
//! meets, which are handed on, and all other members of those groups, which it verifies itself.

use crate::set_join;
use simjoin_core::{Result, SetId, SetPair};
use simjoin_engine::{Cost, CostTable, SetTask, Sets, Survey, Technique, Tile};
use std::ops::ControlFlow;

/// A technique that can leave verification to others.
pub trait Filtering: Technique<Sets> {
    /// What filtering the surveyed tile would cost, without verification.
    fn filter_cost(&self, survey: &Survey<'_>, units: &CostTable) -> Cost {
        set_join::cost(survey, units, 0.0)
    }

    /// Prepares a tile for filtering, cut into pieces of so many probe tokens.
    fn source<'a>(
        &self,
        join: &SetTask<'a>,
        tile: &Tile,
        piece_tokens: usize,
    ) -> Box<dyn CandidateSource + 'a>;
}

/// A tile prepared for filtering.
pub trait CandidateSource: Send + Sync {
    /// How many pieces it has.
    fn pieces(&self) -> usize;

    /// A finder for one thread.
    fn finder<'a>(&'a self) -> Box<dyn CandidateFinder + 'a>;
}

/// One thread's filter. Pieces must come in rising order.
pub trait CandidateFinder {
    /// Hands on the candidates of a piece: every pair that satisfies the bounds is among them or among
    /// the answers, once.
    fn find(&mut self, piece: usize, sink: &mut dyn CandidateSink) -> Result<ControlFlow<()>>;

    /// How many candidate pairs it has verified itself.
    fn verified(&self) -> u64;
}

/// Takes candidates.
pub trait CandidateSink {
    /// Whether answers need an exact overlap.
    fn wants_value(&self) -> bool;

    /// Whether it is enough; asked once a probe.
    fn stopped(&self) -> bool;

    /// Takes candidates of a probe, each once.
    fn candidates(&mut self, probe: SetId, builds: &[SetId]) -> Result<ControlFlow<()>>;

    /// Takes pairs that have been verified.
    fn answers(&mut self, pairs: &[SetPair]) -> Result<ControlFlow<()>>;
}
