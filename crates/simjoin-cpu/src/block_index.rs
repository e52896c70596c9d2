//! Which build sets of a given size have a given token early in their prefix?
//!
//! These are the inverted lists of [`prefix_index`](crate::prefix_index), arranged for skipping. The
//! list of a token is cut into *blocks* of sets of one size, by rising size. Within a block the sets
//! ascend by the token's position, then by number. So the sets that can still reach a demand, if this
//! is the first token that they share with the probe, are the *front* of the block.
//!
//! The demand for sets of one size only grows as probes grow, so fronts only shrink. Each worker keeps
//! its own ends of fronts, [`Fronts`], and moves them backwards for a larger demand: later probes skip
//! the same sets without reading them.
//!
//! # Memory
//!
//! The index takes 8 bytes per indexed prefix token, 8 per block and 16 per list; each worker takes
//! another 8 per block and 4 per list. There are at most as many blocks as prefix tokens, and one more
//! per list.

use simjoin_core::{SetCollection, SetId, TokenId};
use simjoin_kernels::prefetch::prefetch;
use std::ops::Range;

/// The class of the block that ends each list; larger than every class.
const SENTINEL: u32 = u32::MAX;

/// Inverted lists in blocks. Units are sets, numbered from the first indexed one.
pub(crate) struct BlockIndex {
    /// The first token that has a list.
    first_token: TokenId,
    /// The first block of each list.
    lists: Vec<u32>,
    /// The blocks of each list by rising class, closed by a sentinel that starts where the list
    /// ends.
    blocks: Vec<Block>,
    /// Units, ascending by position, then by number, within each block.
    units: Vec<u32>,
    /// The number of the set's tokens from the token's position on, parallel to `units`.
    rests: Vec<u32>,
}

/// Sets of one size in one list.
#[derive(Clone, Copy)]
struct Block {
    class: u32,
    start: u32,
}

/// The part of a block that can reach the demand.
#[derive(Clone, Copy)]
struct Front {
    end: u32,
    /// The rest of the last set in the front, which is the smallest one.
    reach: u32,
}

impl BlockIndex {
    /// Indexes the first tokens of a range of sets. `prefixes` holds the number of tokens for each class.
    pub(crate) fn new(sets: &SetCollection, range: &Range<SetId>, prefixes: &[u32]) -> Self {
        let first_token = sets.unique_tokens();
        let lists = (sets.universe() - first_token) as usize;
        // Count the sets and the blocks of each list.
        let mut lengths = vec![0u32; lists];
        let mut counts = vec![0u32; lists];
        let mut classes = vec![SENTINEL; lists];
        Self::visit(sets, range, prefixes, first_token, |list, class, _, _| {
            lengths[list] += 1;
            counts[list] += u32::from(classes[list] != class);
            classes[list] = class;
        });
        let (mut entries, mut block_count) = (0, 0);
        for (length, count) in lengths.iter_mut().zip(&mut counts) {
            let (own_length, own_count) = (*length, *count);
            (*length, *count) = (entries, block_count);
            entries += own_length;
            block_count += own_count + 1;
        }
        let lists = counts;
        let mut blocks = vec![Block { class: SENTINEL, start: 0 }; block_count as usize];
        let mut units = vec![0; entries as usize];
        let mut rests = vec![0; entries as usize];
        // The next free place of each list, and its next block.
        let mut next = lengths;
        let mut next_block = lists.clone();
        classes.fill(SENTINEL);
        Self::visit(sets, range, prefixes, first_token, |list, class, unit, rest| {
            let at = next[list];
            if classes[list] != class {
                classes[list] = class;
                blocks[next_block[list] as usize] = Block { class, start: at };
                next_block[list] += 1;
            }
            units[at as usize] = unit;
            rests[at as usize] = rest;
            next[list] += 1;
        });
        for (&end, &block) in next.iter().zip(&next_block) {
            blocks[block as usize].start = end;
        }
        BlockIndex { first_token, lists, blocks, units, rests }
    }

    /// Calls `entry` with list, class, unit and rest of every prefix token that has a list, in the
    /// order of the lists: by class, then by position, then by set.
    fn visit(
        sets: &SetCollection,
        range: &Range<SetId>,
        prefixes: &[u32],
        first_token: TokenId,
        mut entry: impl FnMut(usize, u32, u32, u32),
    ) {
        for (class, (span, &prefix)) in (0..).zip(sets.classes().iter().zip(prefixes)) {
            let members = span.start.max(range.start)..span.end.min(range.end);
            if members.is_empty() {
                continue;
            }
            for position in 0..prefix {
                for id in members.clone() {
                    let token = sets.set(id)[position as usize];
                    if token >= first_token {
                        let list = (token - first_token) as usize;
                        entry(list, class, id - range.start, span.size - position);
                    }
                }
            }
        }
    }

    /// Returns the fronts of one worker: whole blocks at first.
    pub(crate) fn fronts(&self) -> Fronts {
        let mut fronts = vec![Front { end: 0, reach: 0 }; self.blocks.len()];
        for (front, pair) in fronts.iter_mut().zip(self.blocks.windows(2)) {
            if pair[0].class != SENTINEL {
                let end = pair[1].start;
                *front = Front { end, reach: self.rests[end as usize - 1] };
            }
        }
        Fronts { fronts, heads: self.lists.clone() }
    }

    /// Returns the number of unique tokens at the beginning of an ascending prefix, and the other tokens,
    /// which have lists.
    pub(crate) fn shared<'t>(&self, prefix: &'t [TokenId]) -> (usize, &'t [TokenId]) {
        // Unique tokens are the smallest; most prefixes have few, so this walks instead of
        // bisecting.
        let unique = prefix.iter().take_while(|&&token| token < self.first_token).count();
        (unique, &prefix[unique..])
    }

    /// Prefetches the memory at the beginning of a token's list.
    #[inline(always)]
    pub(crate) fn approach(&self, fronts: &Fronts, token: TokenId) {
        let head = fronts.heads[(token - self.first_token) as usize] as usize;
        prefetch(&self.blocks[head..]);
        prefetch(&fronts.fronts[head..]);
    }

    /// Calls `take` with the front of each block of a token's list, and its class, from the class
    /// `first` to the class `last`. `demand` returns the overlap that a class must be able to reach;
    /// the walk ends with the first class for which it returns `None`. With the same fronts, neither
    /// `first` nor the demand of a class may be lower than in an earlier call.
    #[inline(always)]
    pub(crate) fn walk(
        &self,
        fronts: &mut Fronts,
        token: TokenId,
        first: u32,
        last: u32,
        mut demand: impl FnMut(u32) -> Option<u32>,
        mut take: impl FnMut(u32, &[u32]),
    ) {
        let mut at = self.head(fronts, token, first);
        loop {
            let Block { class, start } = self.blocks[at];
            if class > last {
                break;
            }
            let Some(demand) = demand(class) else { break };
            let front = &mut fronts.fronts[at];
            if front.reach < demand {
                self.shorten(front, start, demand);
            }
            if start < front.end {
                take(class, &self.units[start as usize..front.end as usize]);
            }
            at += 1;
        }
    }

    /// Returns the number of sets of class `first` or later in a token's list, including skipped ones.
    pub(crate) fn length(&self, fronts: &mut Fronts, token: TokenId, first: u32) -> u32 {
        let head = self.head(fronts, token, first);
        let list = (token - self.first_token) as usize;
        let end = self.lists.get(list + 1).map_or(self.blocks.len(), |&next| next as usize);
        self.blocks[end - 1].start - self.blocks[head].start
    }

    /// Returns the first block of a token's list with class `first` or later.
    #[inline(always)]
    fn head(&self, fronts: &mut Fronts, token: TokenId, first: u32) -> usize {
        let head = &mut fronts.heads[(token - self.first_token) as usize];
        while self.blocks[*head as usize].class < first {
            *head += 1;
        }
        *head as usize
    }

    /// Moves the end of a front before the sets whose rest is below the demand.
    #[inline(never)]
    fn shorten(&self, front: &mut Front, start: u32, demand: u32) {
        while front.end > start && self.rests[front.end as usize - 1] < demand {
            front.end -= 1;
        }
        front.reach = if front.end > start { self.rests[front.end as usize - 1] } else { u32::MAX };
    }

    /// Returns the bytes of an index over this many prefix tokens, with fronts for each thread.
    pub(crate) fn memory_bytes(sets: &SetCollection, prefix_tokens: u64, threads: usize) -> u64 {
        let lists = u64::from(sets.universe() - sets.unique_tokens());
        let blocks = prefix_tokens + lists;
        // 12 more bytes per list while it is built, before there are workers.
        8 * prefix_tokens + 8 * blocks + 16 * lists + threads as u64 * (8 * blocks + 4 * lists)
    }
}

/// The end of each block's front, and the first block of each list.
pub(crate) struct Fronts {
    fronts: Vec<Front>,
    /// The first block of each list that is not too small.
    heads: Vec<u32>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use simjoin_core::{RawSets, prepare};

    #[test]
    fn fronts_shrink_as_demands_grow() {
        let mut raw = RawSets::default();
        for row in [&[0u32, 1][..], &[0, 2], &[0, 1, 2], &[3, 1, 2], &[0, 1, 2, 3]] {
            raw.push(row);
        }
        let (sets, _) = prepare(raw, None, 4).unwrap();
        // Ranks: 3 → 0, 0 → 1, 1 → 2, 2 → 3. Sets: {1,2} {1,3} {0,2,3} {1,2,3} {0,1,2,3}.
        let index = BlockIndex::new(&sets, &(0..5), &[2, 3, 4]);
        let mut fronts = index.fronts();
        let mut walk = |token, first, last, demand| {
            let mut met = Vec::new();
            let demand = |_| Some(demand);
            index.walk(&mut fronts, token, first, last, demand, |class, units| {
                met.push((class, units.to_vec()));
            });
            met
        };
        // By position, then by set: set 2 and set 3 hold the token 2 at position 1, set 0 too.
        assert_eq!(walk(2, 0, 2, 1), [(0, vec![0]), (1, vec![2, 3]), (2, vec![4])]);
        assert_eq!(walk(2, 0, 1, 2), [(1, vec![2, 3])]);
        assert_eq!(walk(3, 0, 2, 1), [(0, vec![1]), (1, vec![2, 3]), (2, vec![4])]);
        assert_eq!(walk(3, 1, 2, 1), [(1, vec![2, 3]), (2, vec![4])]);
        assert_eq!(walk(3, 1, 2, 2), []);
        assert_eq!(walk(1, 0, 2, 2), [(0, vec![0, 1]), (1, vec![3]), (2, vec![4])]);
        assert_eq!(walk(1, 0, 2, 3), [(1, vec![3]), (2, vec![4])]);
        assert_eq!(index.length(&mut index.fronts(), 1, 0), 4);
        assert_eq!(index.length(&mut index.fronts(), 3, 2), 1);
        assert_eq!(index.shared(&[0, 1, 3]), (0, &[0, 1, 3][..]));
    }
}
