//! Sixteen numbers are two registers of f32, or four of f64.

use super::Hits;
use super::lanes::{self, Doubles, Floats};
use std::arch::x86_64::*;

#[derive(Clone, Copy)]
struct Ymm(__m256, __m256);

impl Floats for Ymm {
    const PROBES: usize = 4;

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: the caller's.
        unsafe { Ymm(_mm256_loadu_ps(from), _mm256_loadu_ps(from.add(8))) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: the caller's.
        unsafe {
            _mm256_storeu_ps(to, self.0);
            _mm256_storeu_ps(to.add(8), self.1);
        }
    }

    #[inline(always)]
    unsafe fn splat(value: f32) -> Self {
        // SAFETY: the caller's.
        let value = unsafe { _mm256_set1_ps(value) };
        Ymm(value, value)
    }

    #[inline(always)]
    unsafe fn sub(self, other: Self) -> Self {
        // SAFETY: the caller's.
        unsafe { Ymm(_mm256_sub_ps(self.0, other.0), _mm256_sub_ps(self.1, other.1)) }
    }

    #[inline(always)]
    unsafe fn max(self, other: Self) -> Self {
        // SAFETY: the caller's.
        unsafe { Ymm(_mm256_max_ps(self.0, other.0), _mm256_max_ps(self.1, other.1)) }
    }

    #[inline(always)]
    unsafe fn mul_add(self, other: Self, sum: Self) -> Self {
        // SAFETY: the caller's.
        unsafe {
            Ymm(_mm256_fmadd_ps(self.0, other.0, sum.0), _mm256_fmadd_ps(self.1, other.1, sum.1))
        }
    }

    #[inline(always)]
    unsafe fn at_most(self, other: Self) -> u16 {
        // SAFETY: the caller's.
        unsafe {
            let low = _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_LE_OQ>(self.0, other.0));
            let high = _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_LE_OQ>(self.1, other.1));
            (low | high << 8) as u16
        }
    }
}

#[derive(Clone, Copy)]
struct Four([__m256d; 4]);

impl Four {
    #[inline(always)]
    fn each(self, other: Self, of: impl Fn(__m256d, __m256d) -> __m256d) -> Self {
        let (a, b) = (self.0, other.0);
        Four([of(a[0], b[0]), of(a[1], b[1]), of(a[2], b[2]), of(a[3], b[3])])
    }
}

impl Doubles for Four {
    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: the caller's.
        Four([unsafe { _mm256_setzero_pd() }; 4])
    }

    #[inline(always)]
    unsafe fn load_f32(from: *const f32) -> Self {
        // SAFETY: the caller's.
        let four = |at| unsafe { _mm256_cvtps_pd(_mm_loadu_ps(from.add(at))) };
        Four([four(0), four(4), four(8), four(12)])
    }

    #[inline(always)]
    unsafe fn load_f64(from: *const f64) -> Self {
        // SAFETY: the caller's.
        let four = |at| unsafe { _mm256_loadu_pd(from.add(at)) };
        Four([four(0), four(4), four(8), four(12)])
    }

    #[inline(always)]
    unsafe fn add_product(self, a: Self, b: Self) -> Self {
        // SAFETY: the caller's.
        let products = a.each(b, |a, b| unsafe { _mm256_mul_pd(a, b) });
        // SAFETY: the caller's.
        self.each(products, |sum, product| unsafe { _mm256_add_pd(sum, product) })
    }

    #[inline(always)]
    unsafe fn sub(self, other: Self) -> Self {
        // SAFETY: the caller's.
        self.each(other, |a, b| unsafe { _mm256_sub_pd(a, b) })
    }

    #[inline(always)]
    unsafe fn to_array(self) -> [f64; 16] {
        let mut all = [0.0; 16];
        for (part, from) in all.chunks_exact_mut(4).zip(self.0) {
            // SAFETY: there is room for four; the rest is the caller's.
            unsafe { _mm256_storeu_pd(part.as_mut_ptr(), from) };
        }
        all
    }
}

lanes::tier_functions!([target_feature(enable = "avx2,fma,popcnt")], Ymm, Four);
