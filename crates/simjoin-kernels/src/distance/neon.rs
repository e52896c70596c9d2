//! Sixteen numbers are four registers of f32, or eight of f64.

use super::Hits;
use super::lanes::{self, Doubles, Floats};
use std::arch::aarch64::*;

#[derive(Clone, Copy)]
struct Quads([float32x4_t; 4]);

impl Quads {
    #[inline(always)]
    fn each(self, other: Self, of: impl Fn(float32x4_t, float32x4_t) -> float32x4_t) -> Self {
        let (a, b) = (self.0, other.0);
        Quads([of(a[0], b[0]), of(a[1], b[1]), of(a[2], b[2]), of(a[3], b[3])])
    }
}

impl Floats for Quads {
    const PROBES: usize = 4;

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: the caller's.
        let four = |at| unsafe { vld1q_f32(from.add(at)) };
        Quads([four(0), four(4), four(8), four(12)])
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        for (at, four) in self.0.into_iter().enumerate() {
            // SAFETY: the caller's.
            unsafe { vst1q_f32(to.add(4 * at), four) };
        }
    }

    #[inline(always)]
    unsafe fn splat(value: f32) -> Self {
        // SAFETY: the caller's.
        Quads([unsafe { vdupq_n_f32(value) }; 4])
    }

    #[inline(always)]
    unsafe fn sub(self, other: Self) -> Self {
        // SAFETY: the caller's.
        self.each(other, |a, b| unsafe { vsubq_f32(a, b) })
    }

    #[inline(always)]
    unsafe fn max(self, other: Self) -> Self {
        // SAFETY: the caller's.
        self.each(other, |a, b| unsafe { vmaxq_f32(a, b) })
    }

    #[inline(always)]
    unsafe fn mul_add(self, other: Self, sum: Self) -> Self {
        let (a, b, c) = (self.0, other.0, sum.0);
        // SAFETY: the caller's.
        let of = |i: usize| unsafe { vfmaq_f32(c[i], a[i], b[i]) };
        Quads([of(0), of(1), of(2), of(3)])
    }

    #[inline(always)]
    unsafe fn at_most(self, other: Self) -> u16 {
        let mut mask = 0;
        for i in 0..4 {
            // SAFETY: the caller's.
            let bits = unsafe {
                let weights = vld1q_u32([1u32, 2, 4, 8].as_ptr());
                vaddvq_u32(vandq_u32(vcleq_f32(self.0[i], other.0[i]), weights))
            };
            mask |= (bits as u16) << (4 * i);
        }
        mask
    }
}

#[derive(Clone, Copy)]
struct Eight([float64x2_t; 8]);

impl Doubles for Eight {
    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: the caller's.
        Eight([unsafe { vdupq_n_f64(0.0) }; 8])
    }

    #[inline(always)]
    unsafe fn load_f32(from: *const f32) -> Self {
        // SAFETY: the caller's.
        Eight(std::array::from_fn(|i| unsafe { vcvt_f64_f32(vld1_f32(from.add(2 * i))) }))
    }

    #[inline(always)]
    unsafe fn load_f64(from: *const f64) -> Self {
        // SAFETY: the caller's.
        Eight(std::array::from_fn(|i| unsafe { vld1q_f64(from.add(2 * i)) }))
    }

    #[inline(always)]
    unsafe fn add_product(self, a: Self, b: Self) -> Self {
        // SAFETY: the caller's.
        let of = |i: usize| unsafe { vaddq_f64(self.0[i], vmulq_f64(a.0[i], b.0[i])) };
        Eight(std::array::from_fn(of))
    }

    #[inline(always)]
    unsafe fn sub(self, other: Self) -> Self {
        // SAFETY: the caller's.
        Eight(std::array::from_fn(|i| unsafe { vsubq_f64(self.0[i], other.0[i]) }))
    }

    #[inline(always)]
    unsafe fn to_array(self) -> [f64; 16] {
        let mut all = [0.0; 16];
        for (part, from) in all.chunks_exact_mut(2).zip(self.0) {
            // SAFETY: there is room for two; the rest is the caller's.
            unsafe { vst1q_f64(part.as_mut_ptr(), from) };
        }
        all
    }
}

lanes::tier_functions!([target_feature(enable = "neon")], Quads, Eight);
