//! The product with one row in each lane. An instruction counts the bits.

use super::{Lanes, ROWS};
use std::arch::x86_64::*;

#[derive(Clone, Copy)]
pub(super) struct Zmm(__m512i);

impl Lanes for Zmm {
    type Sums = __m512i;

    #[inline(always)]
    unsafe fn load(from: *const u64) -> Self {
        // SAFETY: the caller's.
        Zmm(unsafe { _mm512_loadu_si512(from.cast()) })
    }

    #[inline(always)]
    unsafe fn zero() -> __m512i {
        // SAFETY: the caller's.
        unsafe { _mm512_setzero_si512() }
    }

    #[inline(always)]
    unsafe fn add(self, probe: u64, sums: __m512i) -> __m512i {
        // SAFETY: the caller's.
        unsafe {
            let both = _mm512_and_si512(self.0, _mm512_set1_epi64(probe as i64));
            _mm512_add_epi64(sums, _mm512_popcnt_epi64(both))
        }
    }

    #[inline(always)]
    unsafe fn store(sums: __m512i, to: &mut [u32; ROWS]) {
        // SAFETY: the caller's; there is room for all rows.
        unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), _mm512_cvtepi64_epi32(sums)) }
    }
}

entry_point!(Zmm, "avx512f,avx512bw,avx512vl,avx512vpopcntdq,avx2,popcnt");
