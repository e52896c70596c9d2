//! The product by two registers of four rows. A table in a register counts the bits of half bytes.

use super::{Lanes, ROWS};
use std::arch::x86_64::*;

#[derive(Clone, Copy)]
pub(super) struct Ymms([__m256i; 2]);

impl Lanes for Ymms {
    type Sums = [__m256i; 2];

    #[inline(always)]
    unsafe fn load(from: *const u64) -> Self {
        // SAFETY: the caller's.
        unsafe { Ymms([_mm256_loadu_si256(from.cast()), _mm256_loadu_si256(from.add(4).cast())]) }
    }

    #[inline(always)]
    unsafe fn zero() -> [__m256i; 2] {
        // SAFETY: the caller's.
        unsafe { [_mm256_setzero_si256(); 2] }
    }

    #[inline(always)]
    unsafe fn add(self, probe: u64, mut sums: [__m256i; 2]) -> [__m256i; 2] {
        // SAFETY: the caller's.
        unsafe {
            let probe = _mm256_set1_epi64x(probe as i64);
            let low = _mm256_set1_epi8(15);
            let counts = _mm256_broadcastsi128_si256(_mm_setr_epi8(
                0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4,
            ));
            for (sum, rows) in sums.iter_mut().zip(self.0) {
                let both = _mm256_and_si256(rows, probe);
                let halves = _mm256_add_epi8(
                    _mm256_shuffle_epi8(counts, _mm256_and_si256(both, low)),
                    _mm256_shuffle_epi8(counts, _mm256_and_si256(_mm256_srli_epi16(both, 4), low)),
                );
                *sum = _mm256_add_epi64(*sum, _mm256_sad_epu8(halves, _mm256_setzero_si256()));
            }
            sums
        }
    }

    #[inline(always)]
    unsafe fn store(sums: [__m256i; 2], to: &mut [u32; ROWS]) {
        let mut rows = [0u64; ROWS];
        // SAFETY: the caller's; there is room for all rows.
        unsafe {
            _mm256_storeu_si256(rows.as_mut_ptr().cast(), sums[0]);
            _mm256_storeu_si256(rows.as_mut_ptr().add(4).cast(), sums[1]);
        }
        *to = rows.map(|sum| sum as u32);
    }
}

entry_point!(Ymms, "avx2,popcnt");
