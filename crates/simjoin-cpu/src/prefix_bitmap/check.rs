//! How does a pair whose signatures are close become an answer?
//!
//! It must not have met under an earlier token, and what follows the token must overlap enough. The
//! tokens before are first compared by what the entries say of them: the last one of each, and a
//! bit for each. Where every token that follows has a bit of its own, the signatures tell the
//! overlap; elsewhere the sets are merged.

use super::Lists;
use super::lists::{EXACT, Entry, Slot};
use crate::verify::Emitter;
use simjoin_core::{Bounds, TokenId};
use simjoin_kernels::overlap::Verify;
use simjoin_kernels::prefetch::prefetch;

/// The token before the first.
pub(super) const NONE: TokenId = TokenId::MAX;

/// From survivors of the signatures to answers.
pub(super) struct Check<'c, 'a, 's, const W: usize> {
    pub(super) lists: &'c Lists<'a, W>,
    pub(super) verify: Verify,
    pub(super) required: &'c mut Required,
    pub(super) verified: &'c mut u64,
    pub(super) emitter: &'c mut Emitter<'s>,
}

impl<const W: usize> Check<'_, '_, '_, W> {
    /// Checks a probe with those entries of a list whose places survived.
    #[inline]
    pub(super) fn survivors(&mut self, probe: &Entry<W>, list: &[Slot<W>], survivors: &mut [u32]) {
        let Lists { join, probes, .. } = self.lists;
        let classes = join.build.classes();
        let size = probes[probe.class()].size;
        let r = join.probe.set(probe.set);
        let rest = size - probe.position;
        let mut open = 0;
        for at in 0..survivors.len() {
            let place = survivors[at];
            let build = list[place as usize].read();
            if probe.previous == build.previous && probe.previous != NONE {
                continue;
            }
            let build_size = classes[build.class()].size;
            let build_rest = build_size - build.position;
            let required = self.required.of(&join.bounds, size, build_size);
            if rest.min(build_rest) < required {
                continue;
            }
            // Without a common bit there is no common token before.
            if probe.class & build.class & EXACT != 0 && probe.before & build.before == 0 {
                // Each differing bit is a token that one of the two lacks.
                let overlap = (rest + build_rest - probe.distance(&build)) / 2;
                if overlap >= required {
                    self.emitter.push(probe.set, build.set, overlap);
                }
                continue;
            }
            prefetch(join.build.set(build.set));
            survivors[open] = place;
            open += 1;
        }
        for &place in &survivors[..open] {
            let build = list[place as usize].read();
            let s = join.build.set(build.set);
            let required = self.required.of(&join.bounds, size, s.len() as u32);
            let (i, j) = (probe.position as usize, build.position as usize);
            if probe.before & build.before != 0 && share_a_token(&r[..i], &s[..j]) {
                continue;
            }
            *self.verified += 1;
            let (r, s) = (&r[i + 1..], &s[j + 1..]);
            if let Some(overlap) = self.verify.overlap(r, s, 1, required) {
                self.emitter.push(probe.set, build.set, overlap);
            }
        }
    }
}

/// The required overlap of pairs of small sets, kept once computed.
pub(super) struct Required(Vec<u8>);

impl Required {
    const SIZES: u32 = 64;
    pub(super) const BYTES: u64 = (Self::SIZES * Self::SIZES) as u64;

    pub(super) fn new() -> Self {
        Required(vec![0; (Self::SIZES * Self::SIZES) as usize])
    }

    /// For a build set that passes the length filter.
    #[inline(always)]
    fn of(&mut self, bounds: &Bounds, n: u32, m: u32) -> u32 {
        if n >= Self::SIZES {
            return bounds.required_overlap(n, m);
        }
        let known = &mut self.0[(n * Self::SIZES + m) as usize];
        if *known == 0 {
            // At most `m + 1`, which nothing satisfies; that fits.
            *known = bounds.required_overlap(n, m).min(m + 1) as u8;
        }
        u32::from(*known)
    }
}

/// Whether two ascending slices have a common token.
#[inline(always)]
fn share_a_token(a: &[TokenId], b: &[TokenId]) -> bool {
    let (mut at_a, mut at_b) = (0, 0);
    while at_a < a.len() && at_b < b.len() {
        if a[at_a] == b[at_b] {
            return true;
        }
        let first = a[at_a] < b[at_b];
        at_a += usize::from(first);
        at_b += usize::from(!first);
    }
    false
}
