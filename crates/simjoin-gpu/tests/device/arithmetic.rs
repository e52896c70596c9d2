//! Is the arithmetic that kernels share right where numbers are too large for a test of whole joins?

use libtest_mimic::Failed;
use simjoin_gpu::Device;
use std::sync::Arc;

/// Numbers of warps: of the first and the last thread of the warp that is asked for, in blocks of 256 threads.
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

/// A join may have nearly 2^32 sets, and a warp for each: 2^37 threads.
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
            return Err(
                format!("threads of warp {warp} take themselves for {first} and {last}").into()
            );
        }
    }
    Ok(())
}
