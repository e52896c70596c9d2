//! What do tensor cores compute about distances, and how large is the error?
//!
//! `|x−y|² = |x|² + |y|² − 2·x·y`: all products of two blocks of rows are one product of matrices.
//!
//! # Whole numbers
//!
//! If every element is a whole number from 0 to 255 (images, SIFT), rows are bytes, and products are summed
//! in 32-bit integers: `x·y ≤ 255²·d < 2³⁰` for up to [`MAX_BYTE_DIMENSIONS`] dimensions. Every difference, square and
//! sum of the predicate is then a whole number below 2⁵³, so its f64 sum is exact in any order. The pair is
//! in the answer if and only if `|x|² + |y|² − 2·x·y ≤ ⌊ε·ε⌋`, and its distance is the root of the left side.
//! Nothing remains to be decided.
//!
//! # Half precision
//!
//! Otherwise rows are centred, scaled by a power of two so that the longest is between 128 and 256, folded
//! like images (`simjoin_engine`), and rounded to f16: `t` becomes `h`. If the longest row is an outlier, or
//! the distance is too small for f16 compared with it, rows are scaled by the distance instead, and folded
//! until they are shorter than 256 ([`folded`]). Let `ρ ≥ |t − h|`, measured for each row in f64 and enlarged
//! by the error of `t` itself: at most `4·2⁻⁵³` of its length before it is folded, and `2·(d+8)·2⁻⁵³` of 1 if
//! rows are divided by their lengths. The triangle inequality gives
//!
//! ```text
//! | |h₁−h₂| − |t₁−t₂| | ≤ ρ₁ + ρ₂
//! ```
//!
//! So no subtle bound of a product of rounded numbers is needed, and the effect of rounding is no larger than
//! `ρ`, about 2.8·10⁻⁴ of the length for elements of all sizes. Let `R` be the scaled distance beyond which
//! the predicate accepts nothing (`radii`). An accepted pair has
//! `|h₁−h₂|² ≤ (R+ρ₁+ρ₂)² ≤ R² + 2R(ρ₁+ρ₂) + 2ρ₁² + 2ρ₂²`, which is a sum of one part for each row.
//!
//! Products of two f16 are exact in f32. The manufacturer does not document how tensor cores add them.
//! Measurements (Fasi, Higham, Mikaitis and Pranesh 2021, and others since) show this: in a group of 4, 8 or
//! 16 products and the previous sum, each is truncated below the last of 24 bits of the largest, and the
//! result is truncated again. No number in this exceeds `S = Σ|aᵢbᵢ|·(1+…) ≤ |h₁|·|h₂|·(1+…)`, so a group of
//! `g` errs by at most `(g+2)·2⁻²³·S`, and all of `K` products by `(g+2)/g·K·2⁻²³·S`. With `g = 4`, the
//! worst: [`product_error`] `e = (1.5·K + 32)·2⁻²³`, and `2·|p̃ − p| ≤ 2·e·|h₁|·|h₂| ≤ e·(|h₁|² + |h₂|²)`.
//!
//! Together: an accepted pair has `p̃ ≥ v₁ + v₂` with `v = ½·(|h|²·(1−e) − 2Rρ − 2ρ² − R²/2)`, less 2⁻²² of
//! all of that for the few f32 operations of the comparison. In the same way a pair with `p̃ ≥ w₁ + w₂`,
//! `w = ½·(|h|²·(1+e) + 2rρ − r²/2)`, is within `r`, where the predicate accepts everything:
//! `(r−ρ₁−ρ₂)² ≥ r² − 2r(ρ₁+ρ₂)`. The predicate decides about pairs in between.
//!
//! Eight-bit floats would be twice as fast, but their sums are kept to 14 bits.

use super::Frame;
use simjoin_core::{Elements, VectorCollection, VectorMeasure};
use simjoin_engine::{LIMITED, VectorTask, radii};

use cudarc::driver::DeviceRepr;

/// The largest number of dimensions for which sums of bytes surely fit.
pub(super) const MAX_BYTE_DIMENSIONS: usize = 8192;

/// Returns the largest error of products of `k` elements in f16, relative to the product of the lengths.
pub(super) fn product_error(k: usize) -> f64 {
    (1.5 * k as f64 + 32.0) * 2f64.powi(-23)
}

/// The error bounds of products, as an argument of the kernels.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct Band {
    product: f64,
    reach: f64,
    sure: f64,
    moved: f64,
}

// SAFETY: numbers, laid out as in the kernels.
unsafe impl DeviceRepr for Band {}

impl Band {
    /// Returns the bounds for rows of up to a length in a frame, before they are folded.
    pub(super) fn new(task: &VectorTask<'_>, frame: &Frame, longest: f64) -> Self {
        let (more, less) = radii(task);
        let d = task.dimension() as f64;
        let u = 2f64.powi(-53);
        let limited = longest.min(LIMITED * frame.fold * d.sqrt());
        let divided = if frame.unit == 1 { 2.0 * (d + 8.0) * u * frame.scale } else { 0.0 };
        // No pair is sure where rows were folded.
        let sure = if longest <= frame.fold { less * frame.scale } else { -1.0 };
        Band {
            product: product_error(task.dimension().next_multiple_of(64)),
            reach: more * frame.scale * (1.0 + 1e-12),
            sure: sure * (1.0 - 1e-12),
            moved: 4.0 * u * limited + divided + 1e-300,
        }
    }
}

/// The largest length of a row in f16.
const MAX_LENGTH: f64 = 256.0;
/// The smallest scaled threshold: f16 distinguishes rows at that distance.
const MIN_THRESHOLD: f64 = 2.0;

/// Scales a frame into half precision, for rows of up to a length in it before they are folded. Returns the
/// frame and the scaled length.
pub(super) fn folded(task: &VectorTask<'_>, frame: Frame, longest: f64) -> (Frame, f64) {
    let root = (task.dimension() as f64).sqrt();
    let by =
        |factor: f64| Frame { scale: factor * frame.scale, fold: factor * frame.fold, ..frame };
    let ordinary = if longest <= frame.fold { longest } else { longest.min(root * frame.fold) };
    let reach = radii(task).0 * frame.scale;
    let factor = factor(ordinary);
    if factor * reach >= MIN_THRESHOLD {
        return (by(factor), factor * longest);
    }
    // The threshold becomes 8 to 16, or the nearest value that leaves ordinary rows unlimited.
    let fold = power((MAX_LENGTH / root).log2().floor());
    let most = power((fold * LIMITED / 64.0 / ordinary.max(f64::MIN_POSITIVE)).log2().floor());
    let factor = factor.max(power((4.0 - reach.log2()).floor()).min(most));
    let mut frame = by(factor);
    frame.fold = frame.fold.min(fold);
    (frame, factor * longest)
}

/// Returns a power of two that scales a length to about 128 to 256.
fn factor(longest: f64) -> f64 {
    if longest <= 0.0 {
        return 1.0;
    }
    power(7.0 - longest.log2().floor())
}

/// Returns a power of two.
fn power(exponent: f64) -> f64 {
    2f64.powi(exponent.clamp(-1000.0, 1000.0) as i32)
}

/// Returns whether the first elements of a join are small whole numbers, so that all may be.
pub(super) fn first_elements_are_bytes(task: &VectorTask<'_>) -> bool {
    let prefix_is_bytes = |side: &VectorCollection| match side.elements() {
        Elements::F32(all) => all.iter().take(4096).all(|&x| is_byte(f64::from(x))),
        Elements::F64(all) => all.iter().take(4096).all(|&x| is_byte(x)),
    };
    task.predicate.measure() == VectorMeasure::Euclidean
        && task.dimension() <= MAX_BYTE_DIMENSIONS
        && prefix_is_bytes(task.probe)
        && prefix_is_bytes(task.build)
}

#[inline(always)]
fn is_byte(x: f64) -> bool {
    (0.0..=255.0).contains(&x) && x == x.trunc()
}

/// Returns the largest accepted squared distance if all squared distances are whole numbers: none is as large
/// as 2³⁰.
pub(super) fn whole_limit(task: &VectorTask<'_>) -> i32 {
    task.predicate.limit().floor().min(f64::from(1 << 30) - 1.0) as i32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn longest_row_is_scaled_to_128_to_256() {
        for longest in [1e-140, 0.1, 1.0, 127.9, 128.0, 255.9, 3e4, 1e140] {
            let scaled = longest * factor(longest);
            assert!((128.0..256.0).contains(&scaled), "{longest} becomes {scaled}");
        }
        assert_eq!(factor(0.0), 1.0);
    }

    #[test]
    fn only_whole_numbers_up_to_255_are_bytes() {
        assert!([0.0, 1.0, 254.0, 255.0].into_iter().all(is_byte));
        for other in [-1.0, 0.5, 256.0, 1e30, 254.999] {
            assert!(!is_byte(other), "{other}");
        }
    }

    proptest! {
        /// The distances of rows rounded to f16 differ from the true ones by no more than the errors: the
        /// parts of the bound for each row suffice even for products with the largest error.
        #[test]
        fn bounds_hold_for_products_with_the_largest_error(
            rows in prop::collection::vec((-1.0f64..1.0, -1.0f64..1.0), 1..64),
            stretch in 0.0f64..1.0, off in (0.0f64..0.3, 0.0f64..0.3), wrong in -1.0f64..1.0,
        ) {
            let k = rows.len();
            let e = 1000.0 * product_error(k);
            let (a, b): (f64, f64) = (rows.iter().map(|r| r.0 * r.0).sum(), rows.iter().map(|r| r.1 * r.1).sum());
            let p: f64 = rows.iter().map(|r| r.0 * r.1).sum();
            // This is the distance of the rounded rows. That of the true rows differs by at most their
            // errors.
            let apart = (a + b - 2.0 * p).max(0.0).sqrt();
            let computed = p + wrong * e * (a * b).sqrt();
            let radius = (apart + (2.0 * stretch - 1.0) * (off.0 + off.1)).max(0.0);
            let v = |square: f64, off: f64| {
                0.5 * (square * (1.0 - e) - 2.0 * radius * off - 2.0 * off * off - 0.5 * radius * radius)
            };
            prop_assert!(computed + 1e-12 >= v(a, off.0) + v(b, off.1));
            let w = |square: f64, off: f64| {
                0.5 * (square * (1.0 + e) + 2.0 * radius * off - 0.5 * radius * radius)
            };
            let sure = computed >= w(a, off.0) + w(b, off.1) + 1e-12;
            prop_assert!(!sure || apart + off.0 + off.1 <= radius + 1e-6);
        }
    }
}
