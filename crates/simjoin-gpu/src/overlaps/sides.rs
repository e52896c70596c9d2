//! Which sets are compared, and how much memory do they need at least?

use super::{COLUMNS, ROWS, SMALL_BYTES};
use crate::sets::{Answer, DeviceSets};
use simjoin_core::{SetCollection, SetId};
use std::ops::Range;

/// A range of the sets of a collection, as rows or as columns.
#[derive(Clone, Debug)]
pub(crate) struct OverlapSide<'a> {
    pub(crate) sets: &'a SetCollection,
    pub(crate) range: Range<SetId>,
}

impl<'a> OverlapSide<'a> {
    pub(super) fn all(sets: &'a SetCollection) -> Self {
        OverlapSide { sets, range: 0..sets.len() as SetId }
    }

    pub(super) fn bytes(&self) -> u64 {
        DeviceSets::bytes(self.sets, &self.range)
    }

    /// Returns the size of the largest set after leaving out the `but` largest ones; 0 if there is none.
    pub(super) fn size(&self, but: SetId) -> u32 {
        let wanted = self.range.end.checked_sub(1 + but).filter(|set| *set >= self.range.start);
        wanted.map_or(0, |set| self.sets.size(set))
    }
}

/// The rows and columns of a tile. If `columns` is `None`, they are the same sets as the rows. Row `i` meets
/// the columns before `limits[i]`, which rises with `i`; without limits it meets all columns.
#[derive(Clone, Debug)]
pub(crate) struct OverlapSides<'a> {
    pub(crate) rows: OverlapSide<'a>,
    pub(crate) columns: Option<OverlapSide<'a>>,
    pub(crate) limits: Option<Vec<u32>>,
}

impl<'a> OverlapSides<'a> {
    pub(super) fn columns(&self) -> &OverlapSide<'a> {
        self.columns.as_ref().unwrap_or(&self.rows)
    }

    /// Returns an upper bound of the overlap of a pair.
    pub(super) fn most_overlap(&self) -> u32 {
        match &self.columns {
            Some(columns) => self.rows.size(0).min(columns.size(0)),
            // The overlap of the two largest sets, which are different sets.
            None => self.rows.size(1),
        }
    }

    /// Returns the bytes of a count.
    pub(super) fn width(&self) -> u32 {
        match self.most_overlap() {
            0..=0xff => 1,
            0x100..=0xffff => 2,
            _ => 4,
        }
    }

    /// Returns the bytes on the device that are always needed, and those of the smallest tiles and their
    /// answers.
    pub(crate) fn least_bytes(&self, by_bits_and_lists: bool) -> (u64, u64) {
        let sides = 1 + u64::from(self.columns.is_some());
        let tokens = u64::from(self.rows.sets.universe() - self.rows.sets.unique_tokens());
        let lengths = if by_bits_and_lists { 4 * (1 + sides) * (tokens + 1) } else { 0 };
        let (rows, columns) = (self.rows.range.len() as u64, self.columns().range.len());
        let limits = self.limits.as_ref().map_or(0, |limits| 4 * limits.len() as u64);
        let fixed =
            self.rows.bytes() + self.columns.as_ref().map_or(0, OverlapSide::bytes) + lengths;
        let tiles = 2 * u64::from(ROWS) * padded(columns) * u64::from(self.width());
        let answers = size_of::<Answer>() as u64 * columns as u64 + 8 * (rows + 1);
        (fixed + limits, tiles + answers + SMALL_BYTES)
    }

    /// Returns the bytes on the device that lists of all tokens take.
    pub(crate) fn list_bytes(&self) -> u64 {
        let OverlapSide { sets, range } = self.columns();
        let offsets = sets.offsets();
        4 * (offsets[range.end as usize] - offsets[range.start as usize]) as u64
    }
}

pub(super) fn padded(sets: usize) -> u64 {
    (sets as u64).next_multiple_of(u64::from(COLUMNS))
}
