//! How is a pair with close signatures verified?
//!
//! The pair must not have met under an earlier token, and the tokens from the common one on must overlap
//! enough. The earlier tokens are first compared by the entries, which hold the last earlier token
//! and a bit for each earlier token. If every token from the common one on has a bit of its own, the
//! signatures determine the overlap; otherwise the sets are merged.

use super::Lists;
use super::lists::{EXACT, Entry, Slot};
use crate::verify::Emitter;
use simjoin_core::{Bounds, TokenId};
use simjoin_kernels::overlap::Verify;
use simjoin_kernels::prefetch::prefetch;

/// The value that stands for no earlier token.
pub(super) const NONE: TokenId = TokenId::MAX;

/// Verifies the survivors of the signatures.
pub(super) struct Check<'c, 'a, 's, const W: usize> {
    pub(super) lists: &'c Lists<'a, W>,
    pub(super) verify: Verify,
    pub(super) required: &'c mut Required,
    pub(super) verified: &'c mut u64,
    pub(super) emitter: &'c mut Emitter<'s>,
}

impl<const W: usize> Check<'_, '_, '_, W> {
    /// Checks a probe with the surviving entries of a list.
    #[inline]
    pub(super) fn survivors(&mut self, probe: &Entry<W>, list: &[Slot<W>], survivors: &mut [u32]) {
        let Lists { task, probes, .. } = self.lists;
        let classes = task.build.classes();
        let size = probes[probe.class()].size;
        let r = task.probe.set(probe.set);
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
            let required = self.required.of(&task.predicate, size, build_size);
            if rest.min(build_rest) < required {
                continue;
            }
            // Without a common bit there is no common earlier token.
            if probe.class & build.class & EXACT != 0 && probe.before & build.before == 0 {
                // Each differing bit is a token that only one of the sets has.
                let overlap = (rest + build_rest - probe.distance(&build)) / 2;
                if overlap >= required {
                    self.emitter.push(probe.set, build.set, overlap);
                }
                continue;
            }
            prefetch(task.build.set(build.set));
            survivors[open] = place;
            open += 1;
        }
        for &place in &survivors[..open] {
            let build = list[place as usize].read();
            let s = task.build.set(build.set);
            let required = self.required.of(&task.predicate, size, s.len() as u32);
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

/// A cache of the required overlaps of small sets.
pub(super) struct Required(Vec<u8>);

impl Required {
    const SIZES: u32 = 64;
    pub(super) const BYTES: u64 = (Self::SIZES * Self::SIZES) as u64;

    pub(super) fn new() -> Self {
        Required(vec![0; (Self::SIZES * Self::SIZES) as usize])
    }

    /// Returns the required overlap with a build set that passes the length filter.
    #[inline(always)]
    fn of(&mut self, bounds: &Bounds, n: u32, m: u32) -> u32 {
        if n >= Self::SIZES {
            return bounds.required_overlap(n, m);
        }
        let known = &mut self.0[(n * Self::SIZES + m) as usize];
        if *known == 0 {
            // At most `m + 1`, which no pair satisfies; so it fits the type.
            *known = bounds.required_overlap(n, m).min(m + 1) as u8;
        }
        u32::from(*known)
    }
}

/// The smallest ratio of the lengths for which the tokens of the shorter slice are searched in the longer one.
const SEARCHED: usize = 16;

/// Returns whether two ascending slices have a common token. It starts at the end, where tokens are the
/// most frequent: in huge sets that share many tokens, it soon finds the last one.
#[inline(always)]
fn share_a_token(a: &[TokenId], b: &[TokenId]) -> bool {
    let (few, many) = if a.len() <= b.len() { (a, b) } else { (b, a) };
    if few.len() < many.len() / SEARCHED {
        return shares_one_of_few(few, many);
    }
    let (mut at_a, mut at_b) = (a.len(), b.len());
    while at_a > 0 && at_b > 0 {
        let (one, other) = (a[at_a - 1], b[at_b - 1]);
        if one == other {
            return true;
        }
        at_a -= usize::from(one > other);
        at_b -= usize::from(other > one);
    }
    false
}

/// Returns whether two ascending slices, one of them far shorter, have a common token.
#[inline(never)]
fn shares_one_of_few(few: &[TokenId], many: &[TokenId]) -> bool {
    let mut left = many;
    few.iter().rev().any(|&token| {
        left = &left[..left.partition_point(|&one| one <= token)];
        left.last() == Some(&token)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_token_is_found_at_every_place() {
        let many: Vec<TokenId> = (0..1000).map(|at| 3 * at).collect();
        for len in [0, 1, 2, 5, 61, 62, 63, 64, 1000] {
            // Between the tokens of the other slice, except for one or none.
            let none: Vec<TokenId> = (0..len).map(|at| 3 * (at * 997 / len.max(1)) + 1).collect();
            assert!(!share_a_token(&none, &many) && !share_a_token(&many, &none), "{len}");
            for at in [0, len / 2, len.saturating_sub(1)].into_iter().filter(|_| len > 0) {
                let mut one = none.clone();
                one[at as usize] -= 1;
                assert!(share_a_token(&one, &many) && share_a_token(&many, &one), "{len} {at}");
            }
        }
        assert!(!share_a_token(&[], &[]));
    }
}
