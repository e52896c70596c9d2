//! The loops of every tier, over sixteen numbers at a time.
//!
//! A tier defines the type of sixteen numbers; the loops are written once and compiled for each tier.

use super::{Hits, LANES};

/// Sixteen f32.
pub(super) trait Floats: Copy {
    /// The number of probes whose sums fit the registers together.
    const PROBES: usize;
    /// # Safety
    /// Sixteen floats are there, and the processor has the tier's instructions; the same holds below.
    unsafe fn load(from: *const f32) -> Self;
    /// # Safety
    /// As for `load`.
    unsafe fn store(self, to: *mut f32);
    /// # Safety
    /// As for `load`.
    unsafe fn splat(value: f32) -> Self;
    /// # Safety
    /// As for `load`.
    unsafe fn sub(self, other: Self) -> Self;
    /// # Safety
    /// As for `load`.
    unsafe fn max(self, other: Self) -> Self;
    /// Returns `self · other + sum`, fused or not.
    /// # Safety
    /// As for `load`.
    unsafe fn mul_add(self, other: Self, sum: Self) -> Self;
    /// Returns a bit for each number that is at most the other; none for NaN.
    /// # Safety
    /// As for `load`.
    unsafe fn at_most(self, other: Self) -> u16;
}

/// Sixteen f64.
pub(super) trait Doubles: Copy {
    /// # Safety
    /// The processor has the tier's instructions; the same holds below.
    unsafe fn zero() -> Self;
    /// # Safety
    /// Sixteen numbers are there.
    unsafe fn load_f32(from: *const f32) -> Self;
    /// # Safety
    /// Sixteen numbers are there.
    unsafe fn load_f64(from: *const f64) -> Self;
    /// Returns `self + a · b`, with both operations rounded separately.
    /// # Safety
    /// As for `zero`.
    unsafe fn add_product(self, a: Self, b: Self) -> Self;
    /// # Safety
    /// As for `zero`.
    unsafe fn sub(self, other: Self) -> Self;
    /// # Safety
    /// As for `zero`.
    unsafe fn to_array(self) -> [f64; 16];
}

/// An element type from which sixteen numbers can be loaded.
pub(super) trait Number: Copy + Default {
    /// # Safety
    /// Sixteen numbers are there, and the processor has the tier's instructions.
    unsafe fn load<D: Doubles>(from: *const Self) -> D;
}

impl Number for f32 {
    #[inline(always)]
    unsafe fn load<D: Doubles>(from: *const f32) -> D {
        // SAFETY: the caller's.
        unsafe { D::load_f32(from) }
    }
}

impl Number for f64 {
    #[inline(always)]
    unsafe fn load<D: Doubles>(from: *const f64) -> D {
        // SAFETY: the caller's.
        unsafe { D::load_f64(from) }
    }
}

/// Reduces sixteen sums to one: the third step of the order.
#[inline(always)]
fn reduce(mut sums: [f64; 16]) -> f64 {
    let mut half = 8;
    while half > 0 {
        for j in 0..half {
            sums[j] += sums[j + half];
        }
        half /= 2;
    }
    sums[0]
}

/// Returns the last elements of a row, followed by zeros: they change no sum.
///
/// # Safety
///
/// `from..count` are the row's elements from `from`, fewer than sixteen.
#[inline(always)]
unsafe fn last<D: Doubles, T: Number>(row: &[T], from: usize) -> D {
    let mut padded = [T::default(); 16];
    padded[..row.len() - from].copy_from_slice(&row[from..]);
    // SAFETY: sixteen numbers are there; the rest is the caller's.
    unsafe { T::load(padded.as_ptr()) }
}

/// The number of elements between two checks of the limit.
const STRETCH: usize = 128;

/// # Safety
///
/// The rows are of one length, and the processor has the tier's instructions.
#[inline(always)]
pub(super) unsafe fn squared<D: Doubles, T: Number>(a: &[T], b: &[T], limit: f64) -> Option<f64> {
    // SAFETY: sixteen elements from `at` are there in both; the rest is the caller's.
    unsafe {
        let whole = a.len() / 16 * 16;
        let mut sums = D::zero();
        let mut at = 0;
        while at < whole {
            let stop = (at + STRETCH).min(whole);
            while at < stop {
                let d = T::load::<D>(a.as_ptr().add(at)).sub(T::load::<D>(b.as_ptr().add(at)));
                sums = sums.add_product(d, d);
                at += 16;
            }
            if at < a.len() && reduce(sums.to_array()) > limit {
                return None;
            }
        }
        if at < a.len() {
            let d = last::<D, T>(a, at).sub(last::<D, T>(b, at));
            sums = sums.add_product(d, d);
        }
        let square = reduce(sums.to_array());
        (square <= limit).then_some(square)
    }
}

/// # Safety
///
/// The rows are of one length, and the processor has the tier's instructions.
#[inline(always)]
pub(super) unsafe fn product<D: Doubles, T: Number>(a: &[T], b: &[T]) -> f64 {
    // SAFETY: sixteen elements from `at` are there in both; the rest is the caller's.
    unsafe {
        let whole = a.len() / 16 * 16;
        let mut sums = D::zero();
        let mut at = 0;
        while at < whole {
            let (x, y) = (T::load::<D>(a.as_ptr().add(at)), T::load::<D>(b.as_ptr().add(at)));
            sums = sums.add_product(x, y);
            at += 16;
        }
        if at < a.len() {
            sums = sums.add_product(last::<D, T>(a, at), last::<D, T>(b, at));
        }
        reduce(sums.to_array())
    }
}

/// The number of coordinates between two checks of the limit.
const CHUNK: usize = 8;

/// # Safety
///
/// As [`direct`], for the `P` probes that begin at `chosen[first]`.
#[inline(always)]
#[expect(clippy::too_many_arguments, reason = "two matrices, each with its stride")]
unsafe fn direct_block<F: Floats, const P: usize>(
    probes: &[f32],
    probe_stride: usize,
    chosen: &[u32],
    first: usize,
    points: &[f32],
    point_stride: usize,
    m: usize,
    limit: f32,
    hits: &mut Hits,
) -> u32 {
    // SAFETY: every place that is read is within the bounds that the caller of `direct` has checked.
    unsafe {
        let from: [*const f32; P] =
            std::array::from_fn(|p| probes.as_ptr().add(chosen[first + p] as usize));
        let limit = F::splat(limit);
        let mut sums = [F::splat(0.0); P];
        let mut masks = [0u16; P];
        let mut i = 0;
        loop {
            let stop = (i + CHUNK).min(m);
            while i < stop {
                let point = F::load(points.as_ptr().add(i * point_stride));
                for p in 0..P {
                    let d = point.sub(F::splat(*from[p].add(i * probe_stride)));
                    sums[p] = d.mul_add(d, sums[p]);
                }
                i += 1;
            }
            let mut any = 0;
            for p in 0..P {
                masks[p] = sums[p].at_most(limit);
                any |= masks[p];
            }
            if any == 0 {
                hits.masks[first..first + P].fill(0);
                return 0;
            }
            if i == m {
                break;
            }
        }
        let mut found = 0;
        for p in 0..P {
            hits.masks[first + p] = masks[p];
            if masks[p] != 0 {
                sums[p].store(hits.squares[first + p].as_mut_ptr());
                found += masks[p].count_ones();
            }
        }
        found
    }
}

/// # Safety
///
/// At most sixteen are chosen; all places that coordinates are at are within their slices; the processor has
/// the tier's instructions.
#[inline(always)]
#[expect(clippy::too_many_arguments, reason = "two matrices, each with its stride")]
pub(super) unsafe fn direct<F: Floats, const P: usize>(
    probes: &[f32],
    probe_stride: usize,
    chosen: &[u32],
    points: &[f32],
    point_stride: usize,
    m: usize,
    limit: f32,
    hits: &mut Hits,
) -> u32 {
    let (mut first, mut found) = (0, 0);
    // SAFETY: the caller's.
    unsafe {
        while chosen.len() - first >= P {
            found += direct_block::<F, P>(
                probes,
                probe_stride,
                chosen,
                first,
                points,
                point_stride,
                m,
                limit,
                hits,
            );
            first += P;
        }
        while chosen.len() - first >= 2 {
            found += direct_block::<F, 2>(
                probes,
                probe_stride,
                chosen,
                first,
                points,
                point_stride,
                m,
                limit,
                hits,
            );
            first += 2;
        }
        if first < chosen.len() {
            found += direct_block::<F, 1>(
                probes,
                probe_stride,
                chosen,
                first,
                points,
                point_stride,
                m,
                limit,
                hits,
            );
        }
    }
    found
}

/// # Safety
///
/// `m` bounds are there of each kind, and the processor has the tier's instructions.
#[inline(always)]
pub(super) unsafe fn boxes<F: Floats>(
    lows: &[f32],
    highs: &[f32],
    low: &[f32],
    high: &[f32],
    m: usize,
    limit: f32,
) -> u16 {
    // SAFETY: the caller's.
    unsafe {
        let (zero, mut sum) = (F::splat(0.0), F::splat(0.0));
        for i in 0..m {
            let above = F::load(lows.as_ptr().add(LANES * i)).sub(F::splat(*high.get_unchecked(i)));
            let below = F::splat(*low.get_unchecked(i)).sub(F::load(highs.as_ptr().add(LANES * i)));
            let gap = above.max(below).max(zero);
            sum = gap.mul_add(gap, sum);
        }
        sum.at_most(F::splat(limit))
    }
}

/// # Safety
///
/// `m` bounds and coordinates are there, and the processor has the tier's instructions.
#[inline(always)]
pub(super) unsafe fn within<F: Floats>(
    lows: &[f32],
    highs: &[f32],
    m: usize,
    at: usize,
    point: &[f32],
    stride: usize,
    limit: f32,
) -> u16 {
    // SAFETY: the caller's.
    unsafe {
        let (zero, mut sum) = (F::splat(0.0), F::splat(0.0));
        for i in 0..m {
            let x = F::splat(*point.get_unchecked(at + i * stride));
            let above = F::load(lows.as_ptr().add(LANES * i)).sub(x);
            let below = x.sub(F::load(highs.as_ptr().add(LANES * i)));
            let gap = above.max(below).max(zero);
            sum = gap.mul_add(gap, sum);
        }
        sum.at_most(F::splat(limit))
    }
}

/// # Safety
///
/// The rows are of one length, a multiple of sixteen, and the processor has the tier's instructions.
#[inline(always)]
pub(super) unsafe fn rest<F: Floats>(a: &[f32], b: &[f32], square: f32, limit: f32) -> Option<f32> {
    // SAFETY: sixteen elements from `at` are there in both; the rest is the caller's.
    unsafe {
        let mut lanes = [0f32; LANES];
        let mut whole = square;
        let mut at = 0;
        while at < a.len() {
            // Two sums at a time; the limit is checked after every 32 coordinates.
            let d = F::load(a.as_ptr().add(at)).sub(F::load(b.as_ptr().add(at)));
            let mut sum = d.mul_add(d, F::splat(0.0));
            at += LANES;
            if at < a.len() {
                let d = F::load(a.as_ptr().add(at)).sub(F::load(b.as_ptr().add(at)));
                sum = d.mul_add(d, sum);
                at += LANES;
            }
            sum.store(lanes.as_mut_ptr());
            let mut half = LANES / 2;
            while half > 0 {
                for j in 0..half {
                    lanes[j] += lanes[j + half];
                }
                half /= 2;
            }
            whole += lanes[0];
            if whole > limit {
                return None;
            }
        }
        // NaN is never near.
        (whole <= limit).then_some(whole)
    }
}

/// # Safety
///
/// Two panels of `m` coordinates are there, and the processor has the tier's instructions.
#[inline(always)]
pub(super) unsafe fn products<F: Floats, const P: usize>(
    probes: &[f32],
    points: &[f32],
    m: usize,
    least_probes: &[f32; LANES],
    least_points: &[f32; LANES],
    hits: &mut Hits,
) -> u32 {
    // SAFETY: the caller's; sixteen is a multiple of `P`.
    unsafe {
        let zero = F::splat(0.0);
        let least_points = F::load(least_points.as_ptr());
        let mut found = 0;
        let mut first = 0;
        while first < LANES {
            let mut sums = [zero; P];
            for i in 0..m {
                let point = F::load(points.as_ptr().add(LANES * i));
                let probe = probes.as_ptr().add(LANES * i + first);
                for (p, sum) in sums.iter_mut().enumerate() {
                    *sum = point.mul_add(F::splat(*probe.add(p)), *sum);
                }
            }
            for p in 0..P {
                let least = F::splat(least_probes[first + p]);
                let over = sums[p].sub(least).sub(least_points);
                let mask = zero.at_most(over);
                hits.masks[first + p] = mask;
                if mask != 0 {
                    over.store(hits.squares[first + p].as_mut_ptr());
                    found += mask.count_ones();
                }
            }
            first += P;
        }
        found
    }
}

/// The functions of a tier, compiled with its instructions.
macro_rules! tier_functions {
    ([$($attribute:meta)?], $floats:ty, $doubles:ty) => {
        /// # Safety
        /// The processor has the tier's instructions, and the rows are of one length.
        $(#[$attribute])?
        pub(super) unsafe fn squared_f32(a: &[f32], b: &[f32], limit: f64) -> Option<f64> {
            // SAFETY: the caller's.
            unsafe { lanes::squared::<$doubles, f32>(a, b, limit) }
        }

        /// # Safety
        /// The processor has the tier's instructions, and the rows are of one length.
        $(#[$attribute])?
        pub(super) unsafe fn squared_f64(a: &[f64], b: &[f64], limit: f64) -> Option<f64> {
            // SAFETY: the caller's.
            unsafe { lanes::squared::<$doubles, f64>(a, b, limit) }
        }

        /// # Safety
        /// The processor has the tier's instructions, and the rows are of one length.
        $(#[$attribute])?
        pub(super) unsafe fn product_f32(a: &[f32], b: &[f32]) -> f64 {
            // SAFETY: the caller's.
            unsafe { lanes::product::<$doubles, f32>(a, b) }
        }

        /// # Safety
        /// The processor has the tier's instructions, and the rows are of one length.
        $(#[$attribute])?
        pub(super) unsafe fn product_f64(a: &[f64], b: &[f64]) -> f64 {
            // SAFETY: the caller's.
            unsafe { lanes::product::<$doubles, f64>(a, b) }
        }

        lanes::screen_functions!([$($attribute)?], $floats);
    };
}

/// The filters of a tier, compiled with its instructions.
macro_rules! screen_functions {
    ([$($attribute:meta)?], $floats:ty) => {
        const _: () = assert!(16 % <$floats as lanes::Floats>::PROBES == 0);

        /// # Safety
        /// As for the loop of that name; the same holds below.
        $(#[$attribute])?
        #[expect(clippy::too_many_arguments, reason = "two matrices, each with its stride")]
        pub(super) unsafe fn direct(
            probes: &[f32],
            probe_stride: usize,
            chosen: &[u32],
            points: &[f32],
            point_stride: usize,
            m: usize,
            limit: f32,
            hits: &mut Hits,
        ) -> u32 {
            const P: usize = <$floats as lanes::Floats>::PROBES;
            // SAFETY: the caller's.
            unsafe {
                lanes::direct::<$floats, P>(
                    probes, probe_stride, chosen, points, point_stride, m, limit, hits,
                )
            }
        }

        /// # Safety
        /// As for the loop of that name.
        $(#[$attribute])?
        pub(super) unsafe fn boxes(
            lows: &[f32],
            highs: &[f32],
            low: &[f32],
            high: &[f32],
            m: usize,
            limit: f32,
        ) -> u16 {
            // SAFETY: the caller's.
            unsafe { lanes::boxes::<$floats>(lows, highs, low, high, m, limit) }
        }

        /// # Safety
        /// As for the loop of that name.
        $(#[$attribute])?
        pub(super) unsafe fn within(
            lows: &[f32],
            highs: &[f32],
            m: usize,
            at: usize,
            point: &[f32],
            stride: usize,
            limit: f32,
        ) -> u16 {
            // SAFETY: the caller's.
            unsafe { lanes::within::<$floats>(lows, highs, m, at, point, stride, limit) }
        }

        /// # Safety
        /// As for the loop of that name.
        $(#[$attribute])?
        pub(super) unsafe fn rest(a: &[f32], b: &[f32], square: f32, limit: f32) -> Option<f32> {
            // SAFETY: the caller's.
            unsafe { lanes::rest::<$floats>(a, b, square, limit) }
        }

        /// # Safety
        /// As for the loop of that name.
        $(#[$attribute])?
        pub(super) unsafe fn products(
            probes: &[f32],
            points: &[f32],
            m: usize,
            least_probes: &[f32; 16],
            least_points: &[f32; 16],
            hits: &mut Hits,
        ) -> u32 {
            const P: usize = <$floats as lanes::Floats>::PROBES;
            // SAFETY: the caller's.
            unsafe {
                lanes::products::<$floats, P>(probes, points, m, least_probes, least_points, hits)
            }
        }
    };
}

pub(super) use {screen_functions, tier_functions};
