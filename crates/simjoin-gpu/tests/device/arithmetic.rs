//! Is the arithmetic of shared kernel functions right for numbers too large for a test of whole joins?

use libtest_mimic::Failed;
use simjoin_gpu::Device;
use std::sync::Arc;

/// Computes the warp numbers of the first and the last thread of a warp, in blocks of 256 threads.
static WARPS: &str = concat!(
    include_str!("../../src/kernels/accept.cuh"),
    include_str!("../../src/kernels/sets.cuh"),
    "
extern \"C\" __global__ void warp_numbers(const u64* warps, u32 count, u64* numbers) {
    for (u32 at = threadIdx.x; at < count; at += 32) {
        u32 block = (u32)(warps[at] / 8), thread = (u32)(warps[at] % 8 * 32);
        u64 first = warp_number(block, 256, thread), last = warp_number(block, 256, thread + 31);
        numbers[at] = last << 32 | first;
    }
}
"
);

/// Computes the larger of each number and the next one.
static LENGTHS: &str = concat!(
    include_str!("../../src/kernels/vectors.cuh"),
    "
extern \"C\" __global__ void longer_ones(const double* lengths, u32 count, double* most) {
    for (u32 at = threadIdx.x; at < count; at += 32) most[at] = longer(lengths[at], lengths[(at + 1) % count]);
}
"
);

/// NaN is larger than anything, in either order: it marks lengths that are unknown.
pub fn lengths(device: &Arc<Device>) -> Result<(), Failed> {
    let (none, most) = (f64::NAN, f64::INFINITY);
    let lengths = [1.0, 2.0, 2.0, 1.0, none, 1.0, most, none, most, 0.0];
    let expected = [2.0, 2.0, 2.0, none, none, most, none, none, most, 1.0];
    let bits: Vec<u64> = lengths.map(f64::to_bits).into();
    let found =
        device.run_once(LENGTHS, "longer_ones", &bits).map_err(|error| error.to_string())?;
    for (at, (found, expected)) in found.into_iter().map(f64::from_bits).zip(expected).enumerate() {
        if found != expected && !(found.is_nan() && expected.is_nan()) {
            return Err(format!("number {at}: {found}, expected {expected}").into());
        }
    }
    Ok(())
}

/// A join may have nearly 2^32 sets with one warp each: 2^37 threads.
pub fn warps(device: &Arc<Device>) -> Result<(), Failed> {
    let warps: Vec<u64> =
        [0, 1, 7, 8, 1 << 20, (1 << 27) - 1, 1 << 27, (1 << 27) + 7, u32::MAX - 2]
            .map(u64::from)
            .into();
    let numbers =
        device.run_once(WARPS, "warp_numbers", &warps).map_err(|error| error.to_string())?;
    for (warp, number) in warps.into_iter().zip(numbers) {
        let (first, last) = (number & u64::from(u32::MAX), number >> 32);
        if (first, last) != (warp, warp) {
            return Err(format!("threads of warp {warp} compute {first} and {last}").into());
        }
    }
    Ok(())
}
