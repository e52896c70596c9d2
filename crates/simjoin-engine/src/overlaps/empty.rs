//! Which pairs of rows have nothing in common because one of them is empty?

use super::{OverlapTask, all_pairs};
use crate::kind::Direction;
use simjoin_core::{RowPair, SetCollection, SetId};
use std::ops::ControlFlow;

/// Counts the pairs with an empty row.
pub(super) fn count(task: &OverlapTask<'_>) -> u64 {
    let held = |sets: &SetCollection| -> u64 {
        (0..sets.len() as SetId).map(|set| u64::from(sets.weight(set))).sum()
    };
    let full = match task.is_self_join() {
        true => held(task.probe) * held(task.probe).saturating_sub(1) / 2,
        false => held(task.probe) * held(task.build),
    };
    all_pairs(task) - full
}

/// Calls `push` with every pair with an empty row: by left row, then by right row.
pub(super) fn expand(
    task: &OverlapTask<'_>,
    direction: Direction,
    mut push: impl FnMut(RowPair) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let left_input = direction.input_of_left();
    let mut push =
        |left, right| push(RowPair { left, right, overlap: 0, similarity: 0.0, left_input });
    let itself = task.is_self_join();
    let lefts = are_empty(task.probe);
    let rights = if itself { lefts.clone() } else { are_empty(task.build) };
    let empty = |rows: &[bool]| -> Vec<u32> {
        (0..).zip(rows).filter(|(_, empty)| **empty).map(|(row, _)| row).collect()
    };
    let empty = empty(&rights);
    for (left, &is_empty) in (0..).zip(&lefts) {
        let start = if itself { left + 1 } else { 0 };
        // An empty row meets all others, a full one the empty ones.
        if is_empty {
            (start..rights.len() as u32).try_for_each(|right| push(left, right))?;
        } else {
            let first = empty.partition_point(|&right| right < start);
            empty[first..].iter().try_for_each(|&right| push(left, right))?;
        }
    }
    ControlFlow::Continue(())
}

/// Returns for each row whether it is empty.
fn are_empty(sets: &SetCollection) -> Vec<bool> {
    let mut empty = vec![true; sets.records()];
    for set in 0..sets.len() as SetId {
        sets.rows(set).iter().for_each(|&row| empty[row as usize] = false);
    }
    empty
}
