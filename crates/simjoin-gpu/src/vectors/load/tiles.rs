//! Which tiles does a join on a device have, and what are the arguments of its kernels?

use super::{BLOCK, Boxes, GROUP, JoinWide, LoadedJoin, Piece, VectorSide};
use crate::device::failed;
use crate::vectors::{GpuVectors, Work};
use cudarc::driver::{CudaSlice, DevicePtr, DeviceRepr, LaunchConfig, PushKernelArg, sys};
use simjoin_core::{Result, VectorMeasure};
use std::ops::Range;

/// The bounds of blocks as an argument of the kernels.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct BoundsArgument {
    low: sys::CUdeviceptr,
    high: sys::CUdeviceptr,
    blocks: u32,
    size: u32,
}

// SAFETY: numbers and addresses, laid out as in the kernels.
unsafe impl DeviceRepr for BoundsArgument {}

/// Rows as an argument of the kernel for tensor cores.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(in crate::vectors) struct MatrixArgument {
    pub(in crate::vectors) rows: sys::CUdeviceptr,
    pub(in crate::vectors) least: sys::CUdeviceptr,
    pub(in crate::vectors) surely: sys::CUdeviceptr,
    pub(in crate::vectors) count: u32,
}

// SAFETY: as above.
unsafe impl DeviceRepr for MatrixArgument {}

/// The predicate as an argument of the kernels.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(in crate::vectors) struct DecisionArgument {
    threshold: f64,
    row_squares: sys::CUdeviceptr,
    column_squares: sys::CUdeviceptr,
    d: u32,
    cosine: u32,
}

// SAFETY: as above.
unsafe impl DeviceRepr for DecisionArgument {}

impl LoadedJoin {
    fn bounds_argument(&self, work: &Work<'_>, column: bool) -> BoundsArgument {
        let side = if column { self.build() } else { &self.sides[0] };
        let size = if column { self.kind.columns() } else { BLOCK };
        let boxes = side.boxes[usize::from(column)].as_ref();
        let pointer = |of: fn(&Boxes) -> &CudaSlice<f32>| {
            boxes.map_or(0, |boxes| of(boxes).device_ptr(&work.stream).0)
        };
        BoundsArgument {
            low: pointer(|boxes| &boxes.low),
            high: pointer(|boxes| &boxes.high),
            blocks: side.count.div_ceil(size),
            size,
        }
    }

    /// Counts the tiles of each group of blocks and cuts the groups into pieces.
    pub(super) fn cut(
        &mut self,
        work: &Work<'_>,
        technique: &GpuVectors,
        join_wide: &JoinWide<'_>,
    ) -> Result<()> {
        let at = failed("finding tiles");
        let stream = &work.stream;
        let rows = self.bounds_argument(work, false);
        let columns = self.bounds_argument(work, true);
        if rows.blocks == 0 || columns.blocks == 0 {
            return Ok(());
        }
        let groups = rows.blocks.div_ceil(GROUP);
        let mut counts = stream.alloc_zeros::<u32>(groups as usize).map_err(&at)?;
        let nothing = 0u64;
        self.prune(work, 0..groups, nothing, counts.device_ptr(stream).0, nothing)?;
        let counted = stream.clone_dtoh(&counts).map_err(&at)?;
        stream.synchronize().map_err(&at)?;
        // Kept alive until the kernel has ended.
        let _ = &mut counts;
        let mut starts = vec![0u64];
        for &count in &counted {
            starts.push(starts[starts.len() - 1] + u64::from(count));
        }
        let total = starts[groups as usize];
        let all = f64::from(rows.blocks) * f64::from(columns.blocks);
        self.tiles = (total, if self.self_join { all / 2.0 } else { all } as u64);
        let piece = |groups: Range<u32>| {
            let tiles = starts[groups.end as usize] - starts[groups.start as usize];
            Piece { groups, tiles: tiles as u32 }
        };
        if let Some(first) = join_wide.first {
            self.pieces = first.pieces.iter().map(|of| piece(of.groups.clone())).collect();
        } else {
            let most = (total / 12).clamp(technique.tiles.0, technique.tiles.1);
            let mut first = 0;
            for group in 0..groups {
                let tiles = starts[group as usize + 1] - starts[first as usize];
                let next = counted.get(group as usize + 1).copied().map_or(0, u64::from);
                let full = tiles > 0 && (tiles + next > most || group + 1 == groups);
                // A group is a stripe.
                if full || technique.stripes {
                    self.pieces.push(piece(first..group + 1));
                    first = group + 1;
                }
            }
        }
        self.starts = stream.clone_htod(&starts).map_err(&at)?;
        Ok(())
    }

    /// Counts the tiles of groups, or writes them.
    pub(in crate::vectors) fn prune(
        &self,
        work: &Work<'_>,
        groups: Range<u32>,
        starts: sys::CUdeviceptr,
        counts: sys::CUdeviceptr,
        tiles: sys::CUdeviceptr,
    ) -> Result<()> {
        let prune = work.function("prune")?;
        let rows = self.bounds_argument(work, false);
        let columns = self.bounds_argument(work, true);
        let self_join = u32::from(self.self_join);
        // SAFETY: the arguments match the kernel, and the buffers have the lengths that it needs.
        unsafe {
            work.stream
                .launch_builder(&prune)
                .arg(&rows)
                .arg(&columns)
                .arg(&self.bounded)
                .arg(&self.box_near)
                .arg(&self_join)
                .arg(&groups.start)
                .arg(&starts)
                .arg(&counts)
                .arg(&tiles)
                .launch(LaunchConfig {
                    grid_dim: (groups.len() as u32, 1, 1),
                    block_dim: (256, 1, 1),
                    shared_mem_bytes: 2 * GROUP * self.bounded * 4,
                })
                .map_err(failed("finding tiles"))?;
        }
        Ok(())
    }

    /// Returns the address of the start of each group's tiles.
    pub(in crate::vectors) fn starts(&self, work: &Work<'_>) -> sys::CUdeviceptr {
        self.starts.device_ptr(&work.stream).0
    }

    /// Returns the address and the number of the images, for rows and for columns.
    pub(in crate::vectors) fn points(&self, work: &Work<'_>) -> [(sys::CUdeviceptr, u32); 2] {
        [&self.sides[0], self.build()].map(|side| {
            let points = side.points.as_ref();
            (points.map_or(0, |points| points.device_ptr(&work.stream).0), side.count)
        })
    }

    /// Returns the rows and columns for tensor cores.
    pub(in crate::vectors) fn matrices(&self, work: &Work<'_>) -> [MatrixArgument; 2] {
        let of = |side: &VectorSide, which: usize| {
            let packed = side.packed.as_ref();
            let stream = &work.stream;
            MatrixArgument {
                rows: packed.map_or(0, |packed| packed.rows.device_ptr(stream).0),
                least: packed.map_or(0, |packed| packed.thresholds[which].device_ptr(stream).0),
                surely: packed
                    .and_then(|packed| packed.surely.as_ref())
                    .map_or(0, |surely| surely.device_ptr(stream).0),
                count: side.count,
            }
        };
        [of(&self.sides[0], 0), of(self.build(), 1)]
    }

    /// Returns the addresses of the elements of rows and of columns, and of their orders.
    pub(in crate::vectors) fn elements(&self, work: &Work<'_>) -> [sys::CUdeviceptr; 4] {
        let last = self.sides.len() - 1;
        [
            self.sides[0].raw.pointer(work),
            self.build().raw.pointer(work),
            self.rows_pointer(work, 0),
            self.rows_pointer(work, last),
        ]
    }

    pub(in crate::vectors) fn decision(&self, work: &Work<'_>) -> DecisionArgument {
        let cosine = self.predicate.measure() == VectorMeasure::Cosine;
        let squares = |side: &VectorSide| {
            side.squares.as_ref().map_or(0, |squares| squares.device_ptr(&work.stream).0)
        };
        DecisionArgument {
            threshold: if cosine { self.predicate.threshold() } else { self.predicate.limit() },
            row_squares: squares(&self.sides[0]),
            column_squares: squares(self.build()),
            d: self.dimension,
            cosine: u32::from(cosine),
        }
    }

    /// Returns the largest number of tiles in a piece.
    pub(in crate::vectors) fn most_tiles(&self) -> u32 {
        self.pieces.iter().map(|piece| piece.tiles).max().unwrap_or(0)
    }
}
