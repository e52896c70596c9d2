//! Do the tensor cores of a device add products of halves as exactly as the filter assumes?
//!
//! The error of their sums is not documented (see [`tensor`](super::tensor)). A device that keeps fewer bits
//! would silently lose pairs. So each device is tested once per process, with the kernel that joins use and
//! one tile. Each row has one large product with every column and 63 products just below the last bits that
//! matter. If sums have 22 bits or fewer, the small products vanish, and the sum is off by twice the bound.
//! The rows differ in signs, in sizes and in the places of the small products. Every sum must reach the true
//! sum less the bound, and none may reach the true sum plus more than the bound.

use super::load::MatrixArgument;
use super::tensor::product_error;
use super::worker::{INITIAL_STATE, compare_function};
use super::{TileKind, load};
use crate::device::{Device, failed};
use cudarc::driver::{DevicePtr, LaunchConfig, PushKernelArg};
use simjoin_core::Result;
use std::sync::Arc;

/// The number of elements in a row: a piece of 128 bytes.
const ELEMENTS: usize = 64;

/// Returns the largest f16 below a power of two.
fn below(exponent: i32) -> u16 {
    ((exponent - 1 + 15) as u16) << 10 | 0x3ff
}

fn power_of_two(exponent: i32) -> u16 {
    ((exponent + 15) as u16) << 10
}

const SIGN: u16 = 1 << 15;

/// Returns the value of an f16 that is zero or normal.
fn value(half: u16) -> f64 {
    let size =
        (1.0 + f64::from(half & 0x3ff) / 1024.0) * 2f64.powi(i32::from(half >> 10 & 31) - 15);
    match half & !SIGN {
        0 => 0.0,
        _ if half & SIGN != 0 => -size,
        _ => size,
    }
}

/// Returns the column: 1, and numbers just below 2⁻¹¹.
fn column() -> [u16; ELEMENTS] {
    let mut column = [below(-11); ELEMENTS];
    column[0] = power_of_two(0);
    column
}

/// Returns a row: 2⁸, and numbers just below 2⁻² or a smaller power.
fn row(at: u32) -> [u16; ELEMENTS] {
    let small = below(-2 - (at / 4 % 8) as i32);
    let mut row = [small; ELEMENTS];
    row[0] = power_of_two(8);
    for (place, half) in row.iter_mut().enumerate().skip(1) {
        match at % 4 {
            0 => {}
            1 => *half |= SIGN,
            2 if place % 2 == 0 => *half |= SIGN,
            3 if place < 16 => *half = 0,
            _ => {}
        }
    }
    row
}

/// Returns the true sum of products of a row and the column, and the bound of the error of a computed sum.
fn sum(row: &[u16; ELEMENTS]) -> (f64, f64) {
    let column = column();
    let pairs = || row.iter().zip(&column).map(|(&x, &y)| (value(x), value(y)));
    let length = |squares: f64| squares.sqrt();
    let lengths =
        length(pairs().map(|(x, _)| x * x).sum()) * length(pairs().map(|(_, y)| y * y).sum());
    (pairs().map(|(x, y)| x * y).sum(), product_error(ELEMENTS) * lengths)
}

/// Returns whether the sums of a kind of tiles are as exact on a device as assumed.
pub(super) fn adds_exactly(device: &Arc<Device>, kind: TileKind) -> Result<bool> {
    let at = failed("testing tensor cores");
    let (rows, columns) = (load::BLOCK, kind.columns());
    let stream = device.stream()?;
    let left: Vec<u16> = (0..rows).flat_map(row).collect();
    let right: Vec<u16> = (0..columns).flat_map(|_| column()).collect();
    let (left, right) =
        (stream.clone_htod(&left).map_err(&at)?, stream.clone_htod(&right).map_err(&at)?);
    let thresholds = |more: &dyn Fn(f64, f64) -> f32| -> Vec<f32> {
        (0..rows).map(|at| sum(&row(at))).map(|(sum, off)| more(sum, off)).collect()
    };
    let none = stream.alloc_zeros::<f32>(columns as usize).map_err(&at)?;
    let compare = compare_function(device, kind)?;
    // Rounded to f32 so that the bound does not become tighter.
    let reached = thresholds(&|sum, off| ((sum - off) as f32).next_down());
    let not_reached = thresholds(&|sum, off| ((sum + off) as f32).next_up().next_up());
    for (threshold, expected) in [(reached, u64::from(rows * columns)), (not_reached, 0)] {
        let threshold = stream.clone_htod(&threshold).map_err(&at)?;
        let argument = |rows: u64, least: u64, count: u32| MatrixArgument {
            rows,
            least,
            surely: least,
            count,
        };
        let row_side = argument(left.device_ptr(&stream).0, threshold.device_ptr(&stream).0, rows);
        let column_side =
            argument(right.device_ptr(&stream).0, none.device_ptr(&stream).0, columns);
        let tiles = stream.alloc_zeros::<u64>(1).map_err(&at)?;
        let mut done = stream.alloc_zeros::<u8>(1).map_err(&at)?;
        let mut candidates = stream.alloc_zeros::<u64>(1).map_err(&at)?;
        let mut values = stream.alloc_zeros::<u32>(1).map_err(&at)?;
        let mut state = stream.clone_htod(&[INITIAL_STATE]).map_err(&at)?;
        // Pairs that reach their threshold are counted and are no candidates, so no space for candidates is
        // needed.
        let (pieces, self_join, only_counts, count, capacity) = (1u32, 0u32, 1u32, 1u32, 0u32);
        let one = LaunchConfig {
            grid_dim: (1, 1, 1),
            block_dim: (256, 1, 1),
            shared_mem_bytes: kind.shared_bytes(),
        };
        // SAFETY: the arguments match the kernel, and the buffers have the lengths that it needs for one
        // tile.
        unsafe {
            stream
                .launch_builder(&compare)
                .arg(&row_side)
                .arg(&column_side)
                .arg(&pieces)
                .arg(&self_join)
                .arg(&only_counts)
                .arg(&tiles)
                .arg(&count)
                .arg(&mut done)
                .arg(&mut candidates)
                .arg(&mut values)
                .arg(&capacity)
                .arg(&mut state)
                .launch(one)
                .map_err(&at)?;
        }
        let state = stream.clone_dtoh(&state).map_err(&at)?;
        stream.synchronize().map_err(&at)?;
        if state[0].counted != expected {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_halves_are_correct() {
        assert_eq!(
            [0, power_of_two(0), power_of_two(8), power_of_two(-3)].map(value),
            [0.0, 1.0, 256.0, 0.125]
        );
        assert_eq!(value(below(-2)), 0.25 - 2f64.powi(-13));
        assert_eq!(value(below(0) | SIGN), -1.0 + 2f64.powi(-11));
    }

    /// Returns a sum as it is assumed to be computed: in groups, where each product and the previous sum are
    /// truncated below the last of `bits` bits of the largest.
    fn summed(row: &[u16; ELEMENTS], group: usize, bits: i32) -> f64 {
        let products: Vec<f64> =
            row.iter().zip(&column()).map(|(&x, &y)| value(x) * value(y)).collect();
        let mut sum = 0f64;
        for group in products.chunks(group) {
            let most = group.iter().fold(sum.abs(), |most, product| most.max(product.abs()));
            let unit = 2f64.powi(most.log2().floor() as i32 + 1 - bits);
            let cut = |x: f64| (x / unit).trunc() * unit;
            sum = cut(sum) + group.iter().copied().map(cut).sum::<f64>();
            let unit = 2f64.powi(sum.abs().log2().floor() as i32 + 1 - bits);
            sum = (sum / unit).trunc() * unit;
        }
        sum
    }

    #[test]
    fn sums_of_fewer_than_24_bits_are_detected() {
        for group in [4, 8, 16] {
            let off = |bits: i32| {
                let within = |at| {
                    let (sum, off) = sum(&row(at));
                    (summed(&row(at), group, bits) - sum).abs() <= off
                };
                (0..128).filter(|&at| !within(at)).count()
            };
            assert_eq!(off(24), 0, "groups of {group}");
            for bits in [11, 14, 18, 20, 21, 22] {
                assert!(off(bits) > 0, "{bits} bits in groups of {group}");
            }
        }
    }
}
