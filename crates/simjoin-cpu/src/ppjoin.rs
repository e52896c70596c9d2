//! `ppjoin`: which sets share a rare token early enough?
//!
//! PPJoin (Xiao, Wang, Lin, Yu 2008) is AllPairs with positions in its lists. When a probe meets a set at
//! positions `i` and `j`, the two can share at most the common tokens so far, this token, and the
//! shorter of the two rests. If this is below the required overlap, the set is dropped.
//!
//! # Flow
//!
//! ```text
//! probe prefix ─► inverted lists ─► position test ─► count per set ─► merge after the prefix ─► sink
//!                 (length filter)   (per size class)  (candidates)
//! ```
//!
//! Lists ascend by set size, so each is walked in runs of one size, for which the demand and the
//! size are constants.
//!
//! # Exactness
//!
//! The prefix filter is that of `all-pairs`. The position test drops a pair only if `found +
//! min(|r|-i, |s|-j)`, an upper bound of its overlap, is below the required overlap. The count of a
//! dropped pair returns to 0. If the pair meets again, at later positions, the bound is even smaller,
//! so it stays dropped.
//!
//! # Memory
//!
//! The technique needs the index with positions, and 8 bytes per build set and worker.

use crate::set_join::{self, Filter, Index, Space};
use simjoin_core::{Result, SetId};
use simjoin_engine::{
    Budget, CandidateFilter, CandidateSource, Cost, CostTable, Prepared, SetTask, Sets, Survey,
    Technique, Tile,
};
use std::ops::Range;

/// The technique with prefix, length and positional filter.
pub struct PpJoin;

impl Technique<Sets> for PpJoin {
    fn name(&self) -> &'static str {
        "ppjoin"
    }

    fn cost(&self, survey: &Survey<'_>, costs: &CostTable) -> Option<Cost> {
        // Of the sets that pass the position test, about a third are new and stay.
        Some(set_join::cost(survey, costs, 0.35 * survey.list_position))
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

impl CandidateFilter for PpJoin {
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

impl Filter for PpJoin {
    const POSITIONS: bool = true;

    fn candidates(space: &mut Space<'_>, probe: SetId, partners: &Range<SetId>) -> usize {
        let Index { task, builds, index, .. } = space.index;
        let (build, base) = (task.build, builds.start);
        let r = task.probe.set(probe);
        let (unique, tokens) = index.shared(&r[..space.demands.probe_prefix()]);
        let mut count = 0;
        for (i, &token) in (unique..).zip(tokens) {
            let (units, range) =
                index.units(&mut space.cursors, token, partners.start - base, partners.end - base);
            let positions = index.positions(range);
            let rest = (r.len() - i) as u32;
            let mut at = 0;
            while at < units.len() {
                // Handle one run of sets of one size.
                let class = build.class_of(base + units[at]);
                let required = space.demands.required(class);
                let class = build.classes()[class as usize];
                let run_end = class.end - base;
                while at < units.len() && units[at] < run_end {
                    let unit = units[at];
                    let found = &mut space.found[unit as usize];
                    let passes = *found + rest.min(class.size - positions[at]) >= required;
                    space.candidates[count] = unit;
                    count += usize::from(passes & (*found == 0));
                    *found = if passes { *found + 1 } else { 0 };
                    at += 1;
                }
            }
        }
        count
    }
}
