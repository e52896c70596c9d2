//! An instruction that packs tokens. Comparisons are those of AVX2, which counts as fast as can be: twice as
//! many tokens a block would need four times the comparisons, and comparisons into masks take longer.

use super::Elements;
use super::avx2::Ymm;
use super::blocks::{self, Block};
use std::arch::x86_64::*;

#[derive(Clone, Copy)]
struct Half(__m256i);

impl Block for Half {
    const TOKENS: usize = 8;

    #[inline(always)]
    unsafe fn load(from: *const u32) -> Self {
        // SAFETY: the caller's.
        Half(unsafe { _mm256_loadu_si256(from.cast()) })
    }

    #[inline(always)]
    unsafe fn common(self, other: *const u32) -> u32 {
        // SAFETY: the caller's.
        unsafe { Ymm(self.0).common(other) }
    }

    #[inline(always)]
    unsafe fn write(self, bits: u32, to: *mut u32) {
        // SAFETY: the caller's.
        unsafe {
            let packed = _mm256_maskz_compress_epi32(bits as __mmask8, self.0);
            _mm256_storeu_si256(to.cast(), packed);
        }
    }
}

/// # Safety
///
/// The processor has the tier's instructions.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx2,popcnt")]
pub(super) unsafe fn elements(a: &[u32], b: &[u32], found: &mut Elements<'_>) {
    // SAFETY: the caller's.
    unsafe { blocks::intersect::<Half, _>(a, b, found) }
}
