//! Which build sets have a given token in their prefix?
//!
//! This is a static inverted index in one array: the list of each token ascends by set and ends with a
//! sentinel. Sets ascend by size, so the partners that the length filter leaves are one stretch of
//! every list, and both ends of that stretch move forward as probes grow. Each worker keeps them as
//! [`Cursors`]; a list is never searched.
//!
//! Unique tokens have no list, because no other set holds them.
//!
//! # Memory
//!
//! The index takes 4 bytes per indexed prefix token (8 with positions) and per list, and 8 bytes per
//! list and worker.

use simjoin_core::{SetCollection, TokenId};

/// The sentinel at the end of each list; larger than every unit.
const SENTINEL: u32 = u32::MAX;

/// Inverted lists of *units*: sets, or groups of sets, numbered from 0.
pub(crate) struct PrefixIndex {
    /// The first token that has a list.
    first_token: TokenId,
    /// The beginning of each list.
    starts: Vec<u32>,
    /// Units, ascending within each list.
    units: Vec<u32>,
    /// The token's position in the set, parallel to `units`; empty if positions are not needed.
    positions: Vec<u32>,
}

impl PrefixIndex {
    /// Indexes the `wanted` tokens in the given prefix of each unit. Units rise.
    pub(crate) fn new<'a>(
        collection: &SetCollection,
        with_positions: bool,
        prefixes: impl Iterator<Item = (u32, &'a [TokenId])> + Clone,
        wanted: impl Fn(TokenId) -> bool,
    ) -> Self {
        let first_token = collection.unique_tokens();
        let lists = (collection.universe() - first_token) as usize;
        // Lengths, shifted by one so that the running sum turns them into starts.
        let mut starts = vec![0u32; lists + 1];
        for (_, prefix) in prefixes.clone() {
            for &token in shared(prefix, first_token).iter().filter(|&&token| wanted(token)) {
                starts[(token - first_token) as usize + 1] += 1;
            }
        }
        let mut end = 0;
        for (list, start) in (0u32..).zip(&mut starts) {
            end += *start;
            *start = end + list;
        }
        let entries = end as usize + lists;
        let mut units = vec![SENTINEL; entries];
        let mut positions = vec![0; if with_positions { entries } else { 0 }];
        let mut next = starts.clone();
        for (unit, prefix) in prefixes {
            let tokens = shared(prefix, first_token);
            let skipped = prefix.len() - tokens.len();
            for (position, &token) in (skipped as u32..).zip(tokens) {
                if !wanted(token) {
                    continue;
                }
                let at = &mut next[(token - first_token) as usize];
                units[*at as usize] = unit;
                if with_positions {
                    positions[*at as usize] = position;
                }
                *at += 1;
            }
        }
        PrefixIndex { first_token, starts, units, positions }
    }

    /// Returns new cursors for one worker.
    pub(crate) fn cursors(&self) -> Cursors {
        Cursors { stretch: self.starts.iter().map(|&start| (start, start)).collect() }
    }

    /// Returns the number of unique tokens at the beginning of an ascending prefix, and the other tokens,
    /// which have lists.
    pub(crate) fn shared<'t>(&self, prefix: &'t [TokenId]) -> (usize, &'t [TokenId]) {
        let tokens = shared(prefix, self.first_token);
        (prefix.len() - tokens.len(), tokens)
    }

    /// Returns the units from `start` to `end` that have `token` in their prefix. Neither end may
    /// be lower than in an earlier call with the same cursors.
    #[inline]
    pub(crate) fn units(
        &self,
        cursors: &mut Cursors,
        token: TokenId,
        start: u32,
        end: u32,
    ) -> (&[u32], std::ops::Range<usize>) {
        let (head, tail) = &mut cursors.stretch[(token - self.first_token) as usize];
        while self.units[*head as usize] < start {
            *head += 1;
        }
        *tail = (*tail).max(*head);
        while self.units[*tail as usize] < end {
            *tail += 1;
        }
        let range = *head as usize..*tail as usize;
        (&self.units[range.clone()], range)
    }

    /// Returns the positions of a stretch given by [`units`](Self::units).
    #[inline]
    pub(crate) fn positions(&self, range: std::ops::Range<usize>) -> &[u32] {
        &self.positions[range]
    }

    /// Returns the bytes of an index over this many prefix tokens, with cursors for each thread.
    pub(crate) fn memory_bytes(
        collection: &SetCollection,
        with_positions: bool,
        prefix_tokens: u64,
        threads: usize,
    ) -> u64 {
        let lists = u64::from(collection.universe() - collection.unique_tokens()) + 1;
        let entry = if with_positions { 8 } else { 4 };
        (prefix_tokens + lists) * entry + lists * (4 + 4 + 8 * threads as u64)
    }
}

/// The stretch of the current probe's partners in each list.
pub(crate) struct Cursors {
    stretch: Vec<(u32, u32)>,
}

fn shared(prefix: &[TokenId], first_token: TokenId) -> &[TokenId] {
    // Unique tokens are the smallest; most prefixes have few, so this walks instead of bisecting.
    let unique = prefix.iter().take_while(|&&token| token < first_token).count();
    &prefix[unique..]
}

#[cfg(test)]
mod tests {
    use super::*;
    use simjoin_core::{RawSets, prepare};

    #[test]
    fn stretches_follow_the_probes() {
        let mut raw = RawSets::default();
        for row in [&[0u32, 1][..], &[0, 2], &[0, 1, 2], &[0, 1, 2, 3]] {
            raw.push(row);
        }
        let (sets, _) = prepare(raw, None, 4).unwrap();
        // Ranks: 3 → 0 (unique), 1 → 1, 2 → 2, 0 → 3.
        let prefixes = (0..4).map(|id| (id, sets.set(id)));
        let index = PrefixIndex::new(&sets, true, prefixes.clone(), |_| true);
        let mut cursors = index.cursors();
        assert_eq!(index.shared(sets.set(3)), (1, &[1, 2, 3][..]));
        let (units, range) = index.units(&mut cursors, 3, 0, 4);
        assert_eq!((units, index.positions(range)), (&[0, 1, 2, 3][..], &[1, 1, 2, 3][..]));
        assert_eq!(index.units(&mut cursors, 2, 0, 2).0, [1]);
        assert_eq!(index.units(&mut cursors, 2, 2, 3).0, [2]);
        assert_eq!(index.units(&mut cursors, 2, 4, 4).0, []);
        // Some sets and some tokens only.
        let some = PrefixIndex::new(&sets, true, prefixes.skip(2), |token| token != 2);
        let mut cursors = some.cursors();
        let (units, range) = some.units(&mut cursors, 3, 0, 4);
        assert_eq!((units, some.positions(range)), (&[2, 3][..], &[2, 3][..]));
        assert_eq!(some.units(&mut cursors, 2, 0, 4).0, []);
    }
}
