//! Sixteen numbers are an array. This tier is the reference for the predicate's order.

use super::Hits;
use super::lanes::{self, Doubles, Floats};

#[derive(Clone, Copy)]
struct Array([f32; 16]);

impl Array {
    #[inline(always)]
    fn each(self, other: Self, of: impl Fn(f32, f32) -> f32) -> Self {
        Array(std::array::from_fn(|i| of(self.0[i], other.0[i])))
    }
}

impl Floats for Array {
    const PROBES: usize = 2;

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: the caller's.
        Array(unsafe { from.cast::<[f32; 16]>().read_unaligned() })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: the caller's.
        unsafe { to.cast::<[f32; 16]>().write_unaligned(self.0) };
    }

    #[inline(always)]
    unsafe fn splat(value: f32) -> Self {
        Array([value; 16])
    }

    #[inline(always)]
    unsafe fn sub(self, other: Self) -> Self {
        self.each(other, |a, b| a - b)
    }

    #[inline(always)]
    unsafe fn max(self, other: Self) -> Self {
        self.each(other, |a, b| if a > b { a } else { b })
    }

    #[inline(always)]
    unsafe fn mul_add(self, other: Self, sum: Self) -> Self {
        let products = self.each(other, |a, b| a * b);
        products.each(sum, |a, b| a + b)
    }

    #[inline(always)]
    unsafe fn at_most(self, other: Self) -> u16 {
        (0..16).fold(0, |mask, i| mask | u16::from(self.0[i] <= other.0[i]) << i)
    }
}

#[derive(Clone, Copy)]
struct Sums([f64; 16]);

impl Doubles for Sums {
    #[inline(always)]
    unsafe fn zero() -> Self {
        Sums([0.0; 16])
    }

    #[inline(always)]
    unsafe fn load_f32(from: *const f32) -> Self {
        // SAFETY: the caller's.
        Sums(unsafe { from.cast::<[f32; 16]>().read_unaligned() }.map(f64::from))
    }

    #[inline(always)]
    unsafe fn load_f64(from: *const f64) -> Self {
        // SAFETY: the caller's.
        Sums(unsafe { from.cast::<[f64; 16]>().read_unaligned() })
    }

    #[inline(always)]
    unsafe fn add_product(self, a: Self, b: Self) -> Self {
        Sums(std::array::from_fn(|i| self.0[i] + a.0[i] * b.0[i]))
    }

    #[inline(always)]
    unsafe fn sub(self, other: Self) -> Self {
        Sums(std::array::from_fn(|i| self.0[i] - other.0[i]))
    }

    #[inline(always)]
    unsafe fn to_array(self) -> [f64; 16] {
        self.0
    }
}

lanes::tier_functions!([], Array, Sums);
