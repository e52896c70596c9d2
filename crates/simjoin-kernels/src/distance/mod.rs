//! How far apart are two vectors, and which of many are near?
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
//! For `d` elements, with `u = 2⁻⁵³`: a term carries a factor `(1+θ)³` with `|θ| ≤ u` (difference,
//! square of it, product), then at most `⌈d/16⌉ + 4` additions, each with one more. So
//! `|S − D²| ≤ g·D²` for the true `D²`, with `g = (d + 32)·2⁻⁵³` to be on the safe side, as long as no
//! square is below the normal numbers.
//!
//! # The filters
//!
//! [`Screen`] looks at *images* of vectors: their coordinates, or some of them, rounded to f32. It may
//! only discard pairs beyond a limit that allows for its errors, or accept pairs below another one.
//! With `v = 2⁻²⁴`, images `x`, `y` of `m` coordinates and `Q = Σ(xᵢ−yᵢ)²` in real numbers:
//!
//! * **Differences** ([`Screen::direct`], [`Screen::rest`]): a term carries `(1+θ)³`, and one factor
//!   more for each of at most `m + 4` additions, however they are arranged, with or without fused
//!   operations. So the computed `q` has `|q − Q| ≤ r·Q` with `r = 1.01·(m + 8)·2⁻²⁴`, as long as
//!   `(m + 8)·2⁻²⁴ < 0.01`. Squares below the normal numbers are wrong by at most 2⁻¹⁴⁹ each: images are
//!   scaled so that limits are about 1. This is [`relative_error`]; it does not depend on how long the
//!   vectors are.
//! * **Products** ([`Screen::products`]): `|x|² + |y|² − 2·x·y`. The product of two vectors of `m`
//!   coordinates is wrong by at most `1.01·(m + 2)·2⁻²⁴·Σ|xᵢyᵢ|`, and `2·Σ|xᵢyᵢ| ≤ |x|² + |y|²`; the
//!   squares `|x|²` come from f64 and are rounded once; the three additions that join them round values of at most
//!   `2·(|x|² + |y|²)`. So the whole is wrong by at most `e·(|x|² + |y|²)` with
//!   `e = 1.01·(m + 16)·2⁻²⁴`: [`product_error`]. It grows with the lengths, so images are centred.
//!
//! An image may also be smaller than its vector, which makes distances smaller, never larger: see
//! `image.rs` in `simjoin-cpu`, where the errors of making images are accounted for.

mod lanes;
mod scalar;

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "aarch64")]
mod neon;

use crate::tier::Tier;

/// Points in a panel: coordinate `i` of point `l` of a panel stands at `16·i + l`.
pub const LANES: usize = 16;

/// A coordinate that is far from everything: that of places in a panel which hold no point.
pub const NOWHERE: f32 = (1u64 << 62) as f32;

/// The largest coordinate that an image may have, so that [`NOWHERE`] is far from it.
pub const FARTHEST: f64 = (1u64 << 60) as f64;

/// By how much sums of squared differences of `m` f32 coordinates are wrong at most, as a part of them.
pub fn relative_error(m: usize) -> f64 {
    1.01 * (m as f64 + 8.0) * 2f64.powi(-24)
}

/// By how much `|x|² + |y|² − 2·x·y` of `m` f32 coordinates is wrong at most, as a part of
/// `|x|² + |y|²`.
pub fn product_error(m: usize) -> f64 {
    1.01 * (m as f64 + 16.0) * 2f64.powi(-24)
}

/// By how much the predicate's `Σ(aᵢ−bᵢ)²` of `d` elements is wrong at most, as a part of it; or its
/// `Σaᵢ·bᵢ`, as a part of `|a|·|b|`.
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

/// Numbers that vectors are made of.
pub trait Element: Copy + Send + Sync + Into<f64> + sealed::Sealed + 'static {
    /// `Σ(aᵢ−bᵢ)²` if it is at most `limit`.
    fn squared(exact: &Exact, a: &[Self], b: &[Self], limit: f64) -> Option<f64>;
    /// `Σaᵢ·bᵢ`.
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
    /// The best tier's.
    pub fn best() -> Self {
        Self::of(Tier::best())
    }

    /// A tier's; that without vector instructions if the processor lacks it.
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

    /// The tier that runs.
    pub fn tier(&self) -> Tier {
        self.tier
    }
}

/// What [`Screen::direct`] has found.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub struct Hits {
    /// For each probe, a bit for each point of the panel that is near enough.
    pub masks: [u16; LANES],
    /// For each probe with any bit set, the squared distance of each point of the panel, of those that
    /// are near enough at least.
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
    /// The best tier's.
    pub fn best() -> Self {
        Self::of(Tier::best())
    }

    /// A tier's; that without vector instructions if the processor lacks it.
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

    /// The tier that runs.
    pub fn tier(&self) -> Tier {
        self.tier
    }

    /// Which of 16 points are within `limit` (squared) of which probes, by their first `m` coordinates.
    ///
    /// Coordinate `i` of the probe `p` is `probes[chosen[p] + i·probe_stride]`, that of the point `l`
    /// `points[i·point_stride + l]`. At most 16 probes. Answers with the number of pairs found. After
    /// every eight coordinates it looks whether anything is left.
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

    /// Which of 16 boxes are within `limit` (squared) of a box. Bounds of the 16 lie as points of a panel
    /// do; `low` and `high` are those of the one.
    #[inline(always)]
    pub fn boxes(&self, lows: &[f32], highs: &[f32], low: &[f32], high: &[f32], limit: f32) -> u16 {
        let m = low.len();
        assert!(high.len() == m && lows.len() >= LANES * m && highs.len() >= LANES * m);
        // SAFETY: the processor has the tier's instructions; every place that is read was just checked.
        unsafe { (self.boxes)(lows, highs, low, high, m, limit) }
    }

    /// Which of 16 boxes are within `limit` (squared) of a point: coordinate `i` of it is
    /// `point[at + i·stride]`.
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

    /// `square` and the squared differences of two rows together, if that is at most `limit`. Rows are as long as
    /// a multiple of 16.
    #[inline(always)]
    pub fn rest(&self, a: &[f32], b: &[f32], square: f32, limit: f32) -> Option<f32> {
        assert!(a.len() == b.len() && a.len().is_multiple_of(LANES));
        // SAFETY: the processor has the tier's instructions; the rows are of one length.
        unsafe { (self.rest)(a, b, square, limit) }
    }

    /// For the 16 × 16 pairs of two panels of `m` coordinates: whether `x·y ≥ least(x) + least(y)`. For each probe with
    /// any bit set, `squares` holds `x·y − least(x) − least(y)`. Answers with the number of pairs found.
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
