//! How is a candidate verified?
//!
//! # Exactness
//!
//! Let the probe's prefix end with token `u` and the candidate's index prefix with `v`, and let
//! `found` tokens be common to the two prefixes. If `u < v`, every common token up to `u` is in
//! both prefixes and counted. The rest are the probe's tokens after its prefix and the candidate's
//! tokens above `u`, the first of which is at position `found` or later. So the merge may start at
//! position `found`, or at the first token above `u` if that one is searched. If `v ≤ u`, the same
//! holds with the roles exchanged.

use simjoin_core::{SetId, SetPair, Sink, TokenId};
use simjoin_kernels::overlap;
use std::ops::ControlFlow;

/// Returns the overlap of probe and candidate if it reaches `required`; see [`overlap::verify`].
#[inline(always)]
pub(crate) fn verify<const EXACT: bool>(
    probe: &[TokenId],
    probe_prefix: usize,
    candidate: &[TokenId],
    index_prefix: usize,
    found: u32,
    required: u32,
) -> Option<u32> {
    let compared = found as usize;
    let (u, v) = (probe[probe_prefix - 1], candidate[index_prefix - 1]);
    let (a, b) = if u < v {
        (&probe[probe_prefix..], above(&candidate[compared..], u))
    } else {
        (above(&probe[compared..], v), &candidate[index_prefix..])
    };
    overlap::verify::<EXACT>(a, b, found, required)
}

/// The largest length of slices that are merged from their beginning, without a search.
const SHORT: usize = 64;

/// Returns the tokens above `token`; of a short slice all tokens.
#[inline(always)]
fn above(tokens: &[TokenId], token: TokenId) -> &[TokenId] {
    if tokens.len() <= SHORT {
        return tokens;
    }
    &tokens[tokens.partition_point(|&other| other <= token)..]
}

/// The number of candidates for which tokens are prefetched ahead of the current one.
pub(crate) const AHEAD: usize = 8;

/// The number of pairs in a batch.
const BATCH: usize = 1024;

/// Collects pairs and pushes them in batches.
pub(crate) struct Emitter<'s> {
    sink: &'s mut dyn Sink<SetPair>,
    pairs: Vec<SetPair>,
    flow: ControlFlow<()>,
}

impl<'s> Emitter<'s> {
    pub(crate) fn new(sink: &'s mut dyn Sink<SetPair>) -> Self {
        Emitter { sink, pairs: Vec::with_capacity(BATCH), flow: ControlFlow::Continue(()) }
    }

    #[inline(always)]
    pub(crate) fn push(&mut self, probe: SetId, build: SetId, overlap: u32) {
        self.pairs.push(SetPair { probe, build, overlap });
        if self.pairs.len() == BATCH {
            self.flush();
        }
    }

    #[inline(never)]
    fn flush(&mut self) {
        if self.flow.is_continue() {
            self.flow = self.sink.push(&self.pairs);
        }
        self.pairs.clear();
    }

    /// Returns `Break` once the sink has stopped. Techniques ask after each probe.
    #[inline(always)]
    pub(crate) fn flow(&self) -> ControlFlow<()> {
        if self.sink.stopped() { ControlFlow::Break(()) } else { self.flow }
    }

    /// Pushes the rest of the pairs.
    pub(crate) fn finish(mut self) -> ControlFlow<()> {
        if !self.pairs.is_empty() {
            self.flush();
        }
        self.flow
    }
}
