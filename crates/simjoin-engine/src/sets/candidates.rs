//! How does a filter leave verification to others?
//!
//! A [`CandidateFilter`] is a technique that filters and verifies in turns. As a [`CandidateSource`] it
//! only filters, and passes each probe's candidates to a [`CandidateSink`], which has them verified
//! elsewhere, for example on a device.

use crate::{Cost, CostTable, SetTask, Sets, Survey, Technique, Tile};
use simjoin_core::{Result, SetId, SetPair};
use std::ops::ControlFlow;

/// A technique that can leave verification to others.
pub trait CandidateFilter: Technique<Sets> {
    /// Returns what filtering the surveyed tile would cost, without verification.
    fn filter_cost(&self, survey: &Survey<'_>, costs: &CostTable) -> Cost;

    /// Prepares a tile for filtering, cut into pieces of about `piece_tokens` probe tokens.
    fn source<'a>(
        &self,
        task: &SetTask<'a>,
        tile: &Tile,
        piece_tokens: usize,
    ) -> Box<dyn CandidateSource + 'a>;
}

/// A tile prepared for filtering.
pub trait CandidateSource: Send + Sync {
    /// Returns the number of pieces.
    fn pieces(&self) -> usize;

    /// Makes a finder for one thread.
    fn finder<'a>(&'a self) -> Box<dyn CandidateFinder + 'a>;
}

/// One thread's filter. Pieces must come in rising order.
pub trait CandidateFinder {
    /// Passes on the candidates of a piece: every pair that satisfies the bounds is among them or among
    /// the answers, once.
    fn find(&mut self, piece: usize, sink: &mut dyn CandidateSink) -> Result<ControlFlow<()>>;

    /// Returns the number of candidate pairs that the finder has verified itself.
    fn verified(&self) -> u64;
}

/// A receiver of candidates.
pub trait CandidateSink {
    /// Returns whether answers need an exact overlap.
    fn wants_value(&self) -> bool;

    /// Returns whether the finder should stop; asked once a probe.
    fn stopped(&self) -> bool;

    /// Takes candidates of a probe, each once.
    fn candidates(&mut self, probe: SetId, builds: &[SetId]) -> Result<ControlFlow<()>>;

    /// Takes pairs that have been verified.
    fn answers(&mut self, pairs: &[SetPair]) -> Result<ControlFlow<()>>;
}
