//! How are the counts of a tile laid out?

use cudarc::driver::{DeviceRepr, sys};
use simjoin_core::SetId;

/// The counts of a tile, in the narrowest type that holds them all.
#[derive(Clone, Copy, Debug)]
pub enum Counts<'a> {
    /// Counts of one byte.
    U8(&'a [u8]),
    /// Counts of two bytes.
    U16(&'a [u16]),
    /// Counts of four bytes.
    U32(&'a [u32]),
}

/// The overlaps of some rows with all columns, or with the columns before each row.
#[derive(Clone, Copy, Debug)]
pub struct OverlapTile<'a> {
    /// The first row.
    pub first: SetId,
    /// The number of rows.
    pub rows: u32,
    /// The number of columns. In a self-join a row has counts for the columns before it.
    pub columns: u32,
    pub(super) own: bool,
    pub(super) stride: usize,
    pub(super) counts: Counts<'a>,
}

impl OverlapTile<'_> {
    /// Calls `each` with the columns and overlaps of a row (`0..rows`): with all columns or, in a self-join,
    /// with those before the row.
    pub fn each(&self, row: u32, mut each: impl FnMut(SetId, u32)) {
        let start = row as usize * self.stride;
        let columns = if self.own { self.first + row } else { self.columns };
        let range = start..start + columns as usize;
        match self.counts {
            Counts::U8(counts) => (0..).zip(&counts[range]).for_each(|(c, &n)| each(c, n.into())),
            Counts::U16(counts) => (0..).zip(&counts[range]).for_each(|(c, &n)| each(c, n.into())),
            Counts::U32(counts) => (0..).zip(&counts[range]).for_each(|(c, &n)| each(c, n)),
        }
    }

    /// Returns the counts of a row; see [`each`](Self::each) for the columns.
    pub fn row(&self, row: u32) -> Counts<'_> {
        let start = row as usize * self.stride;
        let columns = if self.own { self.first + row } else { self.columns };
        let range = start..start + columns as usize;
        match self.counts {
            Counts::U8(counts) => Counts::U8(&counts[range]),
            Counts::U16(counts) => Counts::U16(&counts[range]),
            Counts::U32(counts) => Counts::U32(&counts[range]),
        }
    }
}

/// Interprets bytes as counts of a width.
pub(super) fn as_counts(bytes: &[u8], width: u32) -> Counts<'_> {
    // SAFETY: pinned memory begins at a page, and any bytes are valid numbers.
    unsafe {
        match width {
            1 => Counts::U8(bytes),
            2 => Counts::U16(std::slice::from_raw_parts(bytes.as_ptr().cast(), bytes.len() / 2)),
            _ => Counts::U32(std::slice::from_raw_parts(bytes.as_ptr().cast(), bytes.len() / 4)),
        }
    }
}

/// A tile as an argument of a kernel.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct TileArgument {
    pub(super) counts: sys::CUdeviceptr,
    pub(super) stride: u64,
    pub(super) limits: sys::CUdeviceptr,
    pub(super) first: u32,
    pub(super) rows: u32,
    pub(super) columns: u32,
    pub(super) own: u32,
    pub(super) before: u32,
}

// SAFETY: numbers and addresses, laid out as in the kernels.
unsafe impl DeviceRepr for TileArgument {}

/// The columns that a row meets.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Coverage {
    /// Each pair is met once.
    Once,
    /// Each row meets all others.
    All,
}
