//! Which rows share the most with a row?

use super::OverlapTask;
use simjoin_core::{SetId, SetPair};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Returns the `top` best partners of each row that holds a probe set, as pairs of rows: the largest overlap first, of
/// equal ones the smallest row number. `overlaps` are those of build sets, in any order; in a self-join the probe is
/// among them.
pub fn best_partners(
    task: &OverlapTask<'_>,
    top: usize,
    probe: SetId,
    overlaps: impl Iterator<Item = (SetId, u32)>,
) -> Vec<SetPair> {
    let itself = task.is_self_join();
    // One more, for the row itself is among its own partners.
    let most = if itself { top.saturating_add(1) } else { top };
    let mut heap: BinaryHeap<Reverse<(u32, Reverse<u32>)>> = BinaryHeap::new();
    let mut least = 1;
    for (build, overlap) in overlaps {
        if overlap < least {
            continue;
        }
        for &row in task.build.rows(build) {
            if heap.len() == most {
                if heap.peek().is_none_or(|Reverse(last)| *last >= (overlap, Reverse(row))) {
                    break;
                }
                heap.pop();
            }
            heap.push(Reverse((overlap, Reverse(row))));
        }
        if heap.len() == most {
            least = heap.peek().map_or(1, |Reverse((overlap, _))| (*overlap).max(1));
        }
    }
    let found = heap.into_sorted_vec();
    let mut pairs = Vec::new();
    for &row in task.probe.rows(probe) {
        let partners = found.iter().map(|Reverse((overlap, Reverse(other)))| (*overlap, *other));
        let others = partners.filter(|&(_, other)| !itself || other != row).take(top);
        pairs.extend(others.map(|(overlap, build)| SetPair { probe: row, build, overlap }));
    }
    pairs
}
