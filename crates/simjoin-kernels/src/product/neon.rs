//! The product by four registers of two rows.

use super::{Lanes, ROWS};
use std::arch::aarch64::*;

#[derive(Clone, Copy)]
pub(super) struct Quads([uint64x2_t; 4]);

impl Lanes for Quads {
    type Sums = [uint64x2_t; 4];

    #[inline(always)]
    unsafe fn load(from: *const u64) -> Self {
        // SAFETY: the caller's.
        unsafe {
            Quads([
                vld1q_u64(from),
                vld1q_u64(from.add(2)),
                vld1q_u64(from.add(4)),
                vld1q_u64(from.add(6)),
            ])
        }
    }

    #[inline(always)]
    unsafe fn zero() -> [uint64x2_t; 4] {
        // SAFETY: the caller's.
        unsafe { [vdupq_n_u64(0); 4] }
    }

    #[inline(always)]
    unsafe fn add(self, probe: u64, mut sums: [uint64x2_t; 4]) -> [uint64x2_t; 4] {
        // SAFETY: the caller's.
        unsafe {
            let probe = vdupq_n_u64(probe);
            for (sum, rows) in sums.iter_mut().zip(self.0) {
                let bytes = vcntq_u8(vreinterpretq_u8_u64(vandq_u64(rows, probe)));
                *sum = vpadalq_u32(*sum, vpaddlq_u16(vpaddlq_u8(bytes)));
            }
            sums
        }
    }

    #[inline(always)]
    unsafe fn store(sums: [uint64x2_t; 4], to: &mut [u32; ROWS]) {
        // SAFETY: the caller's; there is room for all rows.
        unsafe {
            for (at, sum) in sums.into_iter().enumerate() {
                vst1_u32(to.as_mut_ptr().add(2 * at), vmovn_u64(sum));
            }
        }
    }
}

entry_point!(Quads, "neon");
