//! In which order are vectors compared, so that near ones are neighbours?
//!
//! Blocks of neighbours have bounds, and blocks whose bounds are far apart need not meet. The order only
//! decides how much work that saves, never the result.
//!
//! * [`by_cells`]: by the cells of a grid that are as wide as the distance, in up to [`MAX_GRID_COORDINATES`]
//!   coordinates.
//! * [`by_quantiles`]: the multi-level quantile index of the paper, built by fractionated sorting. All rows
//!   are sorted by a coordinate and cut into [`FANOUT`] parts of equal size; each part is sorted and cut by
//!   another coordinate, and so on down to single blocks. The paper uses the coordinates one after the other;
//!   here each part is divided along the coordinate with the largest extent.
//!
//! Both sort on the device, by digits of eight bits.

use super::{Work, fixed_grid, grid};
use crate::device::failed;
use cudarc::driver::{CudaSlice, DeviceRepr, LaunchConfig, PushKernelArg};
use simjoin_core::Result;

/// The largest number of coordinates of a grid.
pub(super) const MAX_GRID_COORDINATES: usize = 6;
/// The number of rows that a cell should hold, roughly.
const ROWS_PER_CELL: f64 = 16.0;
/// The number of parts that a part is cut into.
const FANOUT: u64 = 8;

/// The number of items in a tile of a sort; as in the kernels.
const SORT_TILE: u32 = 4096;
/// The number of values that a block adds up; as in the kernels.
const SUM_BLOCK: u32 = 2048;

/// The layout of the cells, as an argument of the kernels.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct CellLayout {
    low: [f64; 8],
    width: [f64; 8],
    bits: [u32; 8],
    cells: [u32; 8],
    coordinates: u32,
}

// SAFETY: numbers, laid out as in the kernels.
unsafe impl DeviceRepr for CellLayout {}

/// Returns the rows of images in the order of their cells.
pub(super) fn by_cells(
    work: &Work<'_>,
    images: &CudaSlice<f32>,
    n: u32,
    m: u32,
    extents: &[(f32, f32)],
    near: f32,
) -> Result<CudaSlice<u32>> {
    let at = failed("sorting by cells");
    let least = f64::from(near).sqrt() * (1.0 + 1e-6);
    let mut layout =
        CellLayout { low: [0.0; 8], width: [1.0; 8], bits: [0; 8], cells: [1; 8], coordinates: 0 };
    let mut all = 1.0;
    for &(low, high) in extents.iter().take(MAX_GRID_COORDINATES) {
        let extent = f64::from(high) - f64::from(low);
        let cells = (extent / least).floor().clamp(1.0, f64::from(1 << 24));
        // A coordinate that would make cells too small is cut more coarsely and is the last one.
        let most = (f64::from(n) / ROWS_PER_CELL / all).max(1.0);
        let used = cells.min(most).floor().max(1.0);
        if used < 2.0 && layout.coordinates > 0 {
            break;
        }
        let which = layout.coordinates as usize;
        layout.low[which] = f64::from(low);
        layout.width[which] = (extent / used).max(f64::MIN_POSITIVE) * (1.0 + 1e-12);
        layout.bits[which] = used.log2().ceil().max(1.0) as u32;
        layout.cells[which] = used as u32;
        layout.coordinates += 1;
        all *= used;
        if used < cells || layout.bits.iter().sum::<u32>() > 36 {
            break;
        }
    }
    let bits: u32 = layout.bits.iter().sum();
    let stream = &work.stream;
    // SAFETY: the kernel writes every element.
    let (mut keys, mut rows) = unsafe {
        (
            stream.alloc::<u64>(n as usize).map_err(&at)?,
            stream.alloc::<u32>(n as usize).map_err(&at)?,
        )
    };
    let cells = work.function("cells")?;
    // SAFETY: the arguments match the kernel, and the buffers have the lengths that it needs.
    unsafe {
        stream
            .launch_builder(&cells)
            .arg(images)
            .arg(&n)
            .arg(&m)
            .arg(&layout)
            .arg(&mut keys)
            .arg(&mut rows)
            .launch(fixed_grid(work, u64::from(n)))
            .map_err(&at)?;
    }
    sort(work, keys, rows, n, bits)
}

/// Returns the rows of images in the order of a quantile index, down to parts of a size.
pub(super) fn by_quantiles(
    work: &Work<'_>,
    images: &CudaSlice<f32>,
    n: u32,
    m: u32,
    block: u64,
) -> Result<CudaSlice<u32>> {
    let at = failed("sorting by quantiles");
    let stream = &work.stream;
    // SAFETY: the kernel writes every element.
    let mut rows = unsafe { stream.alloc::<u32>(n as usize) }.map_err(&at)?;
    let count_up = work.function("count_up")?;
    // SAFETY: the arguments match the kernel, and the buffers have the lengths that it needs.
    unsafe {
        stream
            .launch_builder(&count_up)
            .arg(&mut rows)
            .arg(&n)
            .launch(fixed_grid(work, u64::from(n)))
            .map_err(&at)?;
    }
    let mut sizes = vec![block * FANOUT];
    while sizes[sizes.len() - 1] < u64::from(n) {
        sizes.push(sizes[sizes.len() - 1] * FANOUT);
    }
    let (farthest, part_keys) = (work.function("farthest")?, work.function("part_keys")?);
    for &size in sizes.iter().rev() {
        let parts = u64::from(n).div_ceil(size);
        // SAFETY: the kernels write every element before it is read.
        let (mut split, mut keys) = unsafe {
            (
                stream.alloc::<u32>(parts as usize).map_err(&at)?,
                stream.alloc::<u64>(n as usize).map_err(&at)?,
            )
        };
        // SAFETY: the arguments match the kernels, and the buffers have the lengths that they need.
        unsafe {
            stream
                .launch_builder(&farthest)
                .arg(images)
                .arg(&rows)
                .arg(&n)
                .arg(&m)
                .arg(&size)
                .arg(&mut split)
                .launch(LaunchConfig {
                    grid_dim: (parts as u32, 1, 1),
                    block_dim: (128, 1, 1),
                    shared_mem_bytes: 0,
                })
                .map_err(&at)?;
            stream
                .launch_builder(&part_keys)
                .arg(images)
                .arg(&rows)
                .arg(&n)
                .arg(&m)
                .arg(&size)
                .arg(&split)
                .arg(&mut keys)
                .launch(fixed_grid(work, u64::from(n)))
                .map_err(&at)?;
        }
        let bits = 32 + (64 - (parts - 1).leading_zeros());
        rows = sort(work, keys, rows, n, bits)?;
    }
    Ok(rows)
}

/// Returns the rows in the order of the lowest `bits` bits of their keys.
fn sort(
    work: &Work<'_>,
    mut keys: CudaSlice<u64>,
    mut rows: CudaSlice<u32>,
    n: u32,
    bits: u32,
) -> Result<CudaSlice<u32>> {
    let at = failed("sorting");
    let stream = &work.stream;
    let tiles = n.div_ceil(SORT_TILE);
    let numbers = 256 * tiles;
    // SAFETY: the kernels write every element before it is read.
    let (mut other_keys, mut other_rows, mut counts) = unsafe {
        (
            stream.alloc::<u64>(n as usize).map_err(&at)?,
            stream.alloc::<u32>(n as usize).map_err(&at)?,
            stream.alloc::<u32>(numbers as usize).map_err(&at)?,
        )
    };
    let (digit_counts, move_items) = (work.function("digit_counts")?, work.function("move_items")?);
    let blocks =
        LaunchConfig { grid_dim: (tiles, 1, 1), block_dim: (256, 1, 1), shared_mem_bytes: 0 };
    for shift in (0..bits).step_by(8) {
        // SAFETY: the arguments match the kernels, and the buffers have the lengths that they need.
        unsafe {
            stream
                .launch_builder(&digit_counts)
                .arg(&keys)
                .arg(&n)
                .arg(&shift)
                .arg(&tiles)
                .arg(&mut counts)
                .launch(blocks)
                .map_err(&at)?;
        }
        sums_before(work, &mut counts, numbers)?;
        // SAFETY: as above.
        unsafe {
            stream
                .launch_builder(&move_items)
                .arg(&keys)
                .arg(&rows)
                .arg(&n)
                .arg(&shift)
                .arg(&tiles)
                .arg(&counts)
                .arg(&mut other_keys)
                .arg(&mut other_rows)
                .launch(blocks)
                .map_err(&at)?;
        }
        std::mem::swap(&mut keys, &mut other_keys);
        std::mem::swap(&mut rows, &mut other_rows);
    }
    Ok(rows)
}

/// Replaces each number by the sum of those before it.
fn sums_before(work: &Work<'_>, numbers: &mut CudaSlice<u32>, count: u32) -> Result<()> {
    let at = failed("sorting");
    let stream = &work.stream;
    let pieces = count.div_ceil(SUM_BLOCK);
    // SAFETY: the kernel writes every element.
    let mut sums = unsafe { stream.alloc::<u32>(pieces as usize) }.map_err(&at)?;
    let (kernel, add) = (work.function("sums_before")?, work.function("add_sums")?);
    // SAFETY: the arguments match the kernel, and the buffers have the lengths that it needs.
    unsafe {
        stream
            .launch_builder(&kernel)
            .arg(&mut *numbers)
            .arg(&count)
            .arg(&mut sums)
            .launch(LaunchConfig {
                grid_dim: (pieces, 1, 1),
                block_dim: (256, 1, 1),
                shared_mem_bytes: 0,
            })
            .map_err(&at)?;
    }
    if pieces == 1 {
        return Ok(());
    }
    sums_before(work, &mut sums, pieces)?;
    // SAFETY: as above.
    unsafe {
        stream
            .launch_builder(&add)
            .arg(numbers)
            .arg(&count)
            .arg(&sums)
            .launch(grid(u64::from(count)))
            .map_err(&at)?;
    }
    Ok(())
}
