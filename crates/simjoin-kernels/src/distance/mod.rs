//! How far apart are two vectors, and which of many vectors are near?
//!
//! # The predicate
//!
//! [`Exact`] decides. `Σ(aᵢ−bᵢ)²` and `Σaᵢ·bᵢ` are computed in f64 in one order, the same in every
//! tier and on every device, so that their results agree to the last bit:
//!
//! 1. Elements become f64, which is exact.
//! 2. Sixteen sums: element `i` belongs to sum `i mod 16`, in rising order of `i`. Difference, product
//!    and addition are rounded one by one; nothing is fused.
//! 3. `lⱼ ← lⱼ + lⱼ₊ₕ` for all `j < h`, for `h` = 8, 4, 2, 1. The answer is `l₀`.
//!
//! Squares are not negative and rounded addition is monotone, so the sums of a part of the elements,
//! reduced, never exceed the answer: a loop may stop as soon as they exceed the limit.
//!
//! For `d` elements, with `u = 2⁻⁵³`: a term carries a factor `(1+θ)³` with `|θ| ≤ u` (the difference
//! counts twice in its square, and the product once), and then one more factor for each of at most
//! `⌈d/16⌉ + 4` additions. So `|S − D²| ≤ g·D²` for the true `D²`, with the safe bound
//! `g = (d + 32)·2⁻⁵³`, as long as no square is below the normal numbers.
//!
//! # The filters
//!
//! [`Screen`] compares *images* of vectors: their coordinates, or some of them, rounded to f32. It may
//! only discard pairs above a limit that allows for its errors, or accept pairs below another limit.
//! With `v = 2⁻²⁴`, images `x`, `y` of `m` coordinates and `Q = Σ(xᵢ−yᵢ)²` in real numbers:
//!
//! * **Differences** ([`Screen::direct`], [`Screen::rest`]): a term carries `(1+θ)³`, and one factor
//!   more for each of at most `m + 4` additions, however they are arranged, with or without fused
//!   operations. So the computed `q` has `|q − Q| ≤ r·Q` with `r = 1.01·(m + 8)·2⁻²⁴`, as long as
//!   `(m + 8)·2⁻²⁴ < 0.01`. The error of a square below the normal numbers is at most 2⁻¹⁴⁹, which is
//!   negligible because images are scaled so that limits are about 1. This bound is [`relative_error`]; it
//!   does not depend on the lengths of the vectors.
//! * **Products** ([`Screen::products`]): `|x|² + |y|² − 2·x·y`. The product of two vectors of `m`
//!   coordinates has an error of at most `1.01·(m + 2)·2⁻²⁴·Σ|xᵢyᵢ|`, and `2·Σ|xᵢyᵢ| ≤ |x|² + |y|²`; the
//!   squares `|x|²` are computed in f64 and rounded once; the three additions round values of at most
//!   `2·(|x|² + |y|²)`. So the error of the result is at most `e·(|x|² + |y|²)` with
//!   `e = 1.01·(m + 16)·2⁻²⁴`: [`product_error`]. It grows with the lengths, so images are centred.
//!
//! An image may have fewer coordinates than its vector. This makes distances smaller, never larger. See
//! `images.rs` in `simjoin-engine`, which bounds the errors of the images themselves.

mod lanes;
mod scalar;

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "aarch64")]
mod neon;

use crate::tier::Tier;

/// The number of points in a panel: coordinate `i` of point `l` of a panel is at `16·i + l`.
pub const LANES: usize = 16;

/// The coordinate of empty places in a panel. It is far from every point.
pub const NOWHERE: f32 = (1u64 << 62) as f32;

/// The largest coordinate of an image, so that [`NOWHERE`] is far from it.
pub const FARTHEST: f64 = (1u64 << 60) as f64;

/// Returns the largest relative error of a sum of squared differences of `m` f32 coordinates.
pub fn relative_error(m: usize) -> f64 {
    1.01 * (m as f64 + 8.0) * 2f64.powi(-24)
}

/// Returns the largest error of `|x|² + |y|² − 2·x·y` of `m` f32 coordinates, relative to
/// `|x|² + |y|²`.
pub fn product_error(m: usize) -> f64 {
    1.01 * (m as f64 + 16.0) * 2f64.powi(-24)
}

/// Returns the largest relative error of the predicate's `Σ(aᵢ−bᵢ)²` of `d` elements, which is also the
/// largest error of its `Σaᵢ·bᵢ` relative to `|a|·|b|`.
pub fn exact_error(d: usize) -> f64 {
    (d as f64 + 32.0) * 2f64.powi(-53)
}

/// The predicate of one tier.
#[derive(Clone, Copy, Debug)]
pub struct Exact {
    tier: Tier,
    squared_f32: unsafe fn(&[f32], &[f32], f64) -> Option<f64>,
    squared_f64: unsafe fn(&[f64], &[f64], f64) -> Option<f64>,
    product_f32: unsafe fn(&[f32], &[f32]) -> f64,
    product_f64: unsafe fn(&[f64], &[f64]) -> f64,
}

/// The type of a vector's elements.
pub trait Element: Copy + Send + Sync + Into<f64> + sealed::Sealed + 'static {
    /// Returns `Σ(aᵢ−bᵢ)²` if it is at most `limit`.
    fn squared(exact: &Exact, a: &[Self], b: &[Self], limit: f64) -> Option<f64>;
    /// Returns `Σaᵢ·bᵢ`.
    fn product(exact: &Exact, a: &[Self], b: &[Self]) -> f64;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
}

impl Element for f32 {
    #[inline(always)]
    fn squared(exact: &Exact, a: &[f32], b: &[f32], limit: f64) -> Option<f64> {
        assert_eq!(a.len(), b.len());
        // SAFETY: the processor has the tier's instructions, and the slices are of one length.
        unsafe { (exact.squared_f32)(a, b, limit) }
    }

    #[inline(always)]
    fn product(exact: &Exact, a: &[f32], b: &[f32]) -> f64 {
        assert_eq!(a.len(), b.len());
        // SAFETY: the processor has the tier's instructions, and the slices are of one length.
        unsafe { (exact.product_f32)(a, b) }
    }
}

impl Element for f64 {
    #[inline(always)]
    fn squared(exact: &Exact, a: &[f64], b: &[f64], limit: f64) -> Option<f64> {
        assert_eq!(a.len(), b.len());
        // SAFETY: the processor has the tier's instructions, and the slices are of one length.
        unsafe { (exact.squared_f64)(a, b, limit) }
    }

    #[inline(always)]
    fn product(exact: &Exact, a: &[f64], b: &[f64]) -> f64 {
        assert_eq!(a.len(), b.len());
        // SAFETY: the processor has the tier's instructions, and the slices are of one length.
        unsafe { (exact.product_f64)(a, b) }
    }
}

macro_rules! exact_of {
    ($tier:expr, $module:ident) => {
        Exact {
            tier: $tier,
            squared_f32: $module::squared_f32,
            squared_f64: $module::squared_f64,
            product_f32: $module::product_f32,
            product_f64: $module::product_f64,
        }
    };
}

impl Exact {
    /// Returns the functions of the best tier.
    pub fn best() -> Self {
        Self::of(Tier::best())
    }

    /// Returns the functions of a tier; the scalar ones if the processor lacks it.
    pub fn of(tier: Tier) -> Self {
        match tier {
            #[cfg(target_arch = "x86_64")]
            Tier::Avx512 if tier.is_available() => exact_of!(tier, avx512),
            #[cfg(target_arch = "x86_64")]
            Tier::Avx2 if tier.is_available() => exact_of!(tier, avx2),
            #[cfg(target_arch = "aarch64")]
            Tier::Neon if tier.is_available() => exact_of!(tier, neon),
            _ => exact_of!(Tier::Scalar, scalar),
        }
    }

    /// Returns the tier that runs.
    pub fn tier(&self) -> Tier {
        self.tier
    }
}

/// The near points that [`Screen::direct`] has found.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub struct Hits {
    /// For each probe, a bit for each point of the panel that is near enough.
    pub masks: [u16; LANES],
    /// For each probe with any bit set, the squared distances of the points of the panel; only those of
    /// near points are meaningful.
    pub squares: [[f32; LANES]; LANES],
}

impl Default for Hits {
    fn default() -> Self {
        Hits { masks: [0; LANES], squares: [[0.0; LANES]; LANES] }
    }
}

type Direct = unsafe fn(&[f32], usize, &[u32], &[f32], usize, usize, f32, &mut Hits) -> u32;
type Boxes = unsafe fn(&[f32], &[f32], &[f32], &[f32], usize, f32) -> u16;
type Within = unsafe fn(&[f32], &[f32], usize, usize, &[f32], usize, f32) -> u16;
type Rest = unsafe fn(&[f32], &[f32], f32, f32) -> Option<f32>;
type Products = unsafe fn(&[f32], &[f32], usize, &[f32; 16], &[f32; 16], &mut Hits) -> u32;

/// The filters of one tier.
#[derive(Clone, Copy, Debug)]
pub struct Screen {
    tier: Tier,
    direct: Direct,
    boxes: Boxes,
    within: Within,
    rest: Rest,
    products: Products,
}

macro_rules! screen_of {
    ($tier:expr, $module:ident) => {
        Screen {
            tier: $tier,
            direct: $module::direct,
            boxes: $module::boxes,
            within: $module::within,
            rest: $module::rest,
            products: $module::products,
        }
    };
}

impl Screen {
    /// Returns the functions of the best tier.
    pub fn best() -> Self {
        Self::of(Tier::best())
    }

    /// Returns the functions of a tier; the scalar ones if the processor lacks it.
    pub fn of(tier: Tier) -> Self {
        match tier {
            #[cfg(target_arch = "x86_64")]
            Tier::Avx512 if tier.is_available() => screen_of!(tier, avx512),
            #[cfg(target_arch = "x86_64")]
            Tier::Avx2 if tier.is_available() => screen_of!(tier, avx2),
            #[cfg(target_arch = "aarch64")]
            Tier::Neon if tier.is_available() => screen_of!(tier, neon),
            _ => screen_of!(Tier::Scalar, scalar),
        }
    }

    /// Returns the tier that runs.
    pub fn tier(&self) -> Tier {
        self.tier
    }

    /// Finds which of 16 points are within `limit` (squared) of which probes, by their first `m` coordinates,
    /// and returns the number of pairs.
    ///
    /// Coordinate `i` of the probe `p` is `probes[chosen[p] + i·probe_stride]`; coordinate `i` of the point
    /// `l` is `points[i·point_stride + l]`. There are at most 16 probes. After every eight coordinates it
    /// checks whether any pair is left.
    #[inline(always)]
    #[expect(clippy::too_many_arguments, reason = "two matrices, each with its stride")]
    pub fn direct(
        &self,
        probes: &[f32],
        probe_stride: usize,
        chosen: &[u32],
        points: &[f32],
        point_stride: usize,
        m: usize,
        limit: f32,
        hits: &mut Hits,
    ) -> u32 {
        let last = m.saturating_sub(1);
        let largest = chosen.iter().copied().max().unwrap_or(0) as usize;
        assert!(chosen.len() <= LANES && largest + last * probe_stride < probes.len().max(1));
        assert!(last * point_stride + LANES <= points.len());
        // SAFETY: the processor has the tier's instructions; every place that is read was just checked.
        unsafe { (self.direct)(probes, probe_stride, chosen, points, point_stride, m, limit, hits) }
    }

    /// Returns a bit for each of 16 boxes that is within `limit` (squared) of another box. `lows` and `highs`
    /// are the bounds of the 16 boxes, in the layout of a panel; `low` and `high` are those of the other box.
    #[inline(always)]
    pub fn boxes(&self, lows: &[f32], highs: &[f32], low: &[f32], high: &[f32], limit: f32) -> u16 {
        let m = low.len();
        assert!(high.len() == m && lows.len() >= LANES * m && highs.len() >= LANES * m);
        // SAFETY: the processor has the tier's instructions; every place that is read was just checked.
        unsafe { (self.boxes)(lows, highs, low, high, m, limit) }
    }

    /// Returns a bit for each of 16 boxes that is within `limit` (squared) of a point. Coordinate `i` of the
    /// point is `point[at + i·stride]`.
    #[inline(always)]
    pub fn within(
        &self,
        lows: &[f32],
        highs: &[f32],
        (point, at, stride): (&[f32], usize, usize),
        m: usize,
        limit: f32,
    ) -> u16 {
        assert!(lows.len() >= LANES * m && highs.len() >= LANES * m);
        assert!(at + m.saturating_sub(1) * stride < point.len().max(1));
        // SAFETY: the processor has the tier's instructions; every place that is read was just checked.
        unsafe { (self.within)(lows, highs, m, at, point, stride, limit) }
    }

    /// Returns the sum of `square` and the squared differences of two rows if it is at most `limit`. The
    /// lengths of rows are multiples of 16.
    #[inline(always)]
    pub fn rest(&self, a: &[f32], b: &[f32], square: f32, limit: f32) -> Option<f32> {
        assert!(a.len() == b.len() && a.len().is_multiple_of(LANES));
        // SAFETY: the processor has the tier's instructions; the rows are of one length.
        unsafe { (self.rest)(a, b, square, limit) }
    }

    /// Finds which of the 16 × 16 pairs of two panels of `m` coordinates have `x·y ≥ least(x) + least(y)`, and
    /// returns their number. For each probe with any bit set, `squares` holds `x·y − least(x) − least(y)`.
    #[inline(always)]
    pub fn products(
        &self,
        probes: &[f32],
        points: &[f32],
        m: usize,
        least_probes: &[f32; LANES],
        least_points: &[f32; LANES],
        hits: &mut Hits,
    ) -> u32 {
        assert!(probes.len() >= LANES * m && points.len() >= LANES * m);
        // SAFETY: the processor has the tier's instructions; every place that is read was just checked.
        unsafe { (self.products)(probes, points, m, least_probes, least_points, hits) }
    }
}

#[cfg(test)]
mod tests;
