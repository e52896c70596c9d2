//! Sixteen numbers are one register of f32, or two of f64.

use super::Hits;
use super::lanes::{self, Doubles, Floats};
use std::arch::x86_64::*;

#[derive(Clone, Copy)]
struct Zmm(__m512);

impl Floats for Zmm {
    const PROBES: usize = 8;

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: the caller's.
        Zmm(unsafe { _mm512_loadu_ps(from) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: the caller's.
        unsafe { _mm512_storeu_ps(to, self.0) };
    }

    #[inline(always)]
    unsafe fn splat(value: f32) -> Self {
        // SAFETY: the caller's.
        Zmm(unsafe { _mm512_set1_ps(value) })
    }

    #[inline(always)]
    unsafe fn sub(self, other: Self) -> Self {
        // SAFETY: the caller's.
        Zmm(unsafe { _mm512_sub_ps(self.0, other.0) })
    }

    #[inline(always)]
    unsafe fn max(self, other: Self) -> Self {
        // SAFETY: the caller's.
        Zmm(unsafe { _mm512_max_ps(self.0, other.0) })
    }

    #[inline(always)]
    unsafe fn mul_add(self, other: Self, sum: Self) -> Self {
        // SAFETY: the caller's.
        Zmm(unsafe { _mm512_fmadd_ps(self.0, other.0, sum.0) })
    }

    #[inline(always)]
    unsafe fn at_most(self, other: Self) -> u16 {
        // SAFETY: the caller's.
        unsafe { _mm512_cmp_ps_mask::<_CMP_LE_OQ>(self.0, other.0) }
    }
}

#[derive(Clone, Copy)]
struct Two(__m512d, __m512d);

impl Doubles for Two {
    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: the caller's.
        unsafe { Two(_mm512_setzero_pd(), _mm512_setzero_pd()) }
    }

    #[inline(always)]
    unsafe fn load_f32(from: *const f32) -> Self {
        // SAFETY: the caller's.
        unsafe {
            Two(
                _mm512_cvtps_pd(_mm256_loadu_ps(from)),
                _mm512_cvtps_pd(_mm256_loadu_ps(from.add(8))),
            )
        }
    }

    #[inline(always)]
    unsafe fn load_f64(from: *const f64) -> Self {
        // SAFETY: the caller's.
        unsafe { Two(_mm512_loadu_pd(from), _mm512_loadu_pd(from.add(8))) }
    }

    #[inline(always)]
    unsafe fn add_product(self, a: Self, b: Self) -> Self {
        // SAFETY: the caller's.
        unsafe {
            Two(
                _mm512_add_pd(self.0, _mm512_mul_pd(a.0, b.0)),
                _mm512_add_pd(self.1, _mm512_mul_pd(a.1, b.1)),
            )
        }
    }

    #[inline(always)]
    unsafe fn sub(self, other: Self) -> Self {
        // SAFETY: the caller's.
        unsafe { Two(_mm512_sub_pd(self.0, other.0), _mm512_sub_pd(self.1, other.1)) }
    }

    #[inline(always)]
    unsafe fn to_array(self) -> [f64; 16] {
        let mut all = [0.0; 16];
        // SAFETY: there is room for sixteen; the rest is the caller's.
        unsafe {
            _mm512_storeu_pd(all.as_mut_ptr(), self.0);
            _mm512_storeu_pd(all.as_mut_ptr().add(8), self.1);
        }
        all
    }
}

lanes::tier_functions!(
    [target_feature(enable = "avx512f,avx512bw,avx512vl,avx2,fma,popcnt")],
    Zmm,
    Two
);
