//! `all-pairs`: which sets share a rare token with this one?
//!
//! AllPairs (Bayardo, Ma, Srikant 2007) in the filter–verification form of Mann, Augsten and Bouros
//! (2016): each build set's index prefix is put into inverted lists. A probe walks the lists of its
//! prefix tokens, within the range that the length filter leaves, and counts its prefix tokens in each
//! set. Every set that it meets is verified.
//!
//! # Flow
//!
//! ```text
//! probe prefix ─► inverted lists ─► count per set ─► sets met ─► merge after the prefix ─► sink
//!                 (length filter)                    (candidates)
//! ```
//!
//! # Exactness
//!
//! Two sets that satisfy the bounds share a token within probe prefix and index prefix (see
//! [`Bounds::probe_prefix`](simjoin_core::Bounds::probe_prefix)), so the probe meets the set. Every
//! pair that meets is verified with the exact required overlap.
//!
//! # Memory
//!
//! The technique needs the index, and 8 bytes per build set and worker, whatever the number of
//! candidates.

use crate::set_join::{self, Filter, Space};
use simjoin_core::{Result, SetId};
use simjoin_engine::{
    Budget, CandidateFilter, CandidateSource, Cost, CostTable, Prepared, SetTask, Sets, Survey,
    Technique, Tile,
};
use std::ops::Range;

/// The technique with prefix filter and length filter.
pub struct AllPairs;

impl Technique<Sets> for AllPairs {
    fn name(&self) -> &'static str {
        "all-pairs"
    }

    fn cost(&self, survey: &Survey<'_>, costs: &CostTable) -> Option<Cost> {
        // A set that the probe meets under several tokens counts once.
        Some(set_join::cost(survey, costs, 0.2))
    }

    fn memory_bytes(&self, task: &SetTask<'_>, tile: &Tile, threads: usize) -> u64 {
        set_join::memory_bytes(task, tile, threads, Self::POSITIONS)
    }

    fn prepare<'a>(
        &self,
        task: &SetTask<'a>,
        tile: &Tile,
        room: &Budget,
    ) -> Result<Box<dyn Prepared<Sets> + 'a>> {
        Ok(Box::new(set_join::prepare::<Self>(task, tile, room.piece_tokens)))
    }
}

impl CandidateFilter for AllPairs {
    fn filter_cost(&self, survey: &Survey<'_>, costs: &CostTable) -> Cost {
        set_join::cost(survey, costs, 0.0)
    }

    fn source<'a>(
        &self,
        task: &SetTask<'a>,
        tile: &Tile,
        piece_tokens: usize,
    ) -> Box<dyn CandidateSource + 'a> {
        Box::new(set_join::prepare::<Self>(task, tile, piece_tokens))
    }
}

impl Filter for AllPairs {
    const POSITIONS: bool = false;

    fn candidates(space: &mut Space<'_>, probe: SetId, partners: &Range<SetId>) -> usize {
        let index = &space.index.index;
        let base = space.index.builds.start;
        let prefix = &space.index.task.probe.set(probe)[..space.demands.probe_prefix()];
        let mut count = 0;
        for &token in index.shared(prefix).1 {
            let (units, _) =
                index.units(&mut space.cursors, token, partners.start - base, partners.end - base);
            for &unit in units {
                let found = &mut space.found[unit as usize];
                space.candidates[count] = unit;
                count += usize::from(*found == 0);
                *found += 1;
            }
        }
        count
    }
}
