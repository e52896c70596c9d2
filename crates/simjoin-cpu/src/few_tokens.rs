//! Which tokens can matter if one side of a join is much smaller than the other?
//!
//! A pair meets at a token of both prefixes. So only those prefix tokens of the larger side that the
//! smaller side has too must be indexed or looked up. One bit a token marks them. The bits of a million
//! tokens stay in the cache; lists and cursors would not.
//!
//! # Memory
//!
//! The filter takes one bit for each token of the universe.

use crate::demands::index_prefixes;
use simjoin_core::{SetCollection, SetId, TokenId};
use simjoin_engine::{Order, SetTask, Tile};

/// A side is small if the other one has at least this many times its sets (measured with `ppjoin` on
/// titles as words, Jaccard 0.8, 399,000 sets against 100 to 20,000; 2-core AMD EPYC, 2026-11-15).
const TIMES: usize = 100;

/// The side that is much smaller than the other, if any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Few {
    Neither,
    Probes,
    Builds,
}

impl Few {
    pub(crate) fn of(task: &SetTask<'_>, tile: &Tile) -> Self {
        let (probes, builds) = (tile.probes.len(), tile.builds.len());
        if task.order == Order::Before {
            Few::Neither
        } else if probes * TIMES <= builds {
            Few::Probes
        } else if builds * TIMES <= probes {
            Few::Builds
        } else {
            Few::Neither
        }
    }
}

/// The prefix tokens of the smaller side.
pub(crate) struct FewTokens {
    bits: Vec<u64>,
}

impl FewTokens {
    /// Returns the tokens in the prefixes of a tile's probes.
    pub(crate) fn of_probes(task: &SetTask<'_>, tile: &Tile) -> Self {
        let lengths: Vec<u32> = task
            .probe
            .classes()
            .iter()
            .map(|class| task.predicate.probe_prefix(class.size))
            .collect();
        Self::new(task.probe, tile.probes.clone(), &lengths)
    }

    /// Returns the tokens in the prefixes of a tile's build sets.
    pub(crate) fn of_builds(task: &SetTask<'_>, tile: &Tile) -> Self {
        Self::new(task.build, tile.builds.clone(), &index_prefixes(task))
    }

    fn new(sets: &SetCollection, range: std::ops::Range<SetId>, lengths: &[u32]) -> Self {
        let mut bits = vec![0; sets.universe() as usize / 64 + 1];
        for id in range {
            let length = lengths[sets.class_of(id) as usize] as usize;
            for &token in &sets.set(id)[..length] {
                bits[token as usize / 64] |= 1 << (token % 64);
            }
        }
        FewTokens { bits }
    }

    #[inline(always)]
    pub(crate) fn contain(&self, token: TokenId) -> bool {
        self.bits[token as usize / 64] >> (token % 64) & 1 == 1
    }

    /// Returns whether the smaller side has one of these tokens.
    #[inline(always)]
    pub(crate) fn contain_any(&self, tokens: &[TokenId]) -> bool {
        tokens.iter().any(|&token| self.contain(token))
    }

    pub(crate) fn memory_bytes(task: &SetTask<'_>) -> u64 {
        8 * (u64::from(task.build.universe()) / 64 + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use simjoin_core::{Bounds, Measure, Predicate, RawSets, prepare};

    #[test]
    fn only_tokens_of_the_prefixes_are_marked() {
        let (mut many, mut few) = (RawSets::default(), RawSets::default());
        (0..128).for_each(|row| many.push(&[row, row + 1, row + 2, row + 3, 150]));
        few.push(&[7, 8, 9, 150]);
        let (many, few) = prepare(many, Some(few), 151).unwrap();
        let few = few.unwrap();
        let bounds = Bounds::new(Predicate::parse(Measure::Jaccard, "0.5").unwrap());
        for (probe, build, side) in
            [(&few, &many, Few::Probes), (&many, &few, Few::Builds), (&many, &many, Few::Neither)]
        {
            let task = SetTask { probe, build, predicate: bounds, order: Order::NotLarger };
            let tile = Tile::whole(&task);
            assert_eq!(Few::of(&task, &tile), side);
            let (tokens, prefix) = match side {
                Few::Probes => (FewTokens::of_probes(&task, &tile), bounds.probe_prefix(4)),
                _ => (FewTokens::of_builds(&task, &tile), bounds.index_prefix(4)),
            };
            if side != Few::Neither {
                let prefix = &few.set(0)[..prefix as usize];
                for token in 0..151 {
                    assert_eq!(tokens.contain(token), prefix.contains(&token));
                }
                assert!(tokens.contain_any(few.set(0)) && !tokens.contain_any(&[]));
            }
        }
        let itself =
            SetTask { probe: &many, build: &many, predicate: bounds, order: Order::Before };
        assert_eq!(Few::of(&itself, &Tile { probes: 0..1, builds: 0..128 }), Few::Neither);
    }
}
