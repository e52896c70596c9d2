//! Sixteen tokens a block.

use super::blocks::{self, Block};
use std::arch::x86_64::*;

#[derive(Clone, Copy)]
struct Zmm(__m512i);

impl Block for Zmm {
    const TOKENS: usize = 16;

    #[inline(always)]
    unsafe fn load(from: *const u32) -> Self {
        // SAFETY: the caller's.
        Zmm(unsafe { _mm512_loadu_si512(from.cast()) })
    }

    #[inline(always)]
    unsafe fn load_part(from: *const u32, count: usize) -> Self {
        // SAFETY: the caller's; lanes outside the mask are not read.
        unsafe {
            let first = _mm512_set1_epi32(*from as i32);
            let mask = ((1u32 << count) - 1) as __mmask16;
            Zmm(_mm512_mask_loadu_epi32(first, mask, from.cast()))
        }
    }

    #[inline(always)]
    unsafe fn contains(self, token: u32) -> bool {
        // SAFETY: the caller's.
        unsafe { _mm512_cmpeq_epi32_mask(self.0, _mm512_set1_epi32(token as i32)) != 0 }
    }

    #[inline(always)]
    unsafe fn equals(self, other: Self) -> bool {
        // SAFETY: the caller's.
        unsafe { _mm512_cmpneq_epi32_mask(self.0, other.0) == 0 }
    }
}

/// # Safety
///
/// The processor has the tier's instructions.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx2,popcnt")]
pub(super) unsafe fn verify(a: &[u32], b: &[u32], found: u32, required: u32) -> Option<u32> {
    // SAFETY: the caller's.
    unsafe { blocks::verify::<Zmm>(a, b, found, required) }
}
