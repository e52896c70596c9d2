//! What does a filter look at instead of a vector?
//!
//! At its *image*: a few f32 coordinates, whose distances are those of the vectors or less. Images are
//! scaled by a power of two, so that the threshold is about 1, and are one of two shapes:
//!
//! * **axes**: the vector's elements, those that vary most first;
//! * **rotated**: the vector seen along the principal directions of a sample; where these are fewer than
//!   the dimension, one further coordinate holds the length of what they leave over.
//!
//! For a cosine the vectors are divided by their lengths first: `|a/|a| − b/|b||² = 2 − 2·cos`.
//!
//! # Exactness
//!
//! [`Limits::near`] is such that no pair that the predicate accepts has images farther apart, as the
//! kernels compute it; [`Limits::sure`] such that the predicate accepts every pair whose images are that
//! near. With `u = 2⁻⁵³`, `v = 2⁻²⁴`, `t` the scaled and centred vector, `L` no less than the length of
//! any `t`, `B` the directions (`d` × `k`) and `τ` the largest row sum of `|BᵀB − I|`:
//!
//! 1. The predicate accepts only pairs whose true distance is at most `ε⁺`: `ε·(1+g)` by the error `g` of
//!    its sum, or, for a cosine, `√(2 − 2T + 8g)`. It accepts all within `ε⁻`, with minus signs.
//! 2. Along `B` a distance grows by a factor of `1+τ` at most, as `|Bᵀx|² ≤ |BᵀB|·|x|²`; with all `d`
//!    directions it shrinks by no more than `1−τ`. What the directions leave over, `r = |(I−BBᵀ)t|`, has
//!    `|r₁−r₂| ≤ |(I−BBᵀ)(t₁−t₂)|`, and `|Bᵀx|² + |(I−BBᵀ)x|² ≤ (1+2τ)·|x|²`.
//! 3. Computing an image moves it by at most `η = L·(1.01·v + (d+8)·u + 2·d·(√k+2)·u) + √(d+1)·2⁻¹⁴⁰`: rounding
//!    to f32; centring, scaling and dividing by a length; the products with `B`, each wrong by at most
//!    `d·u·|t|` relative to a column of length about 1; numbers below the normal ones. `r²` is the difference `|t|² − |Bᵀt|²`, wrong by at most
//!    `E = L²·(τ + 4·d·(√k+2)·u)`, so `r` by at most `√E`. Elements of f32 input that are only put into another
//!    order and scaled are not rounded at all.
//! 4. So images of accepted pairs are within `ε⁺·(1+2τ) + 2η` (in scaled units), and the kernels' squares are within
//!    the relative error of their sums.
//!
//! Every bound is taken generously; it costs nothing.

use super::rotation::{self, WHOLE};
use ndarray::{Array2, ArrayView2};
use rayon::prelude::*;
use simjoin_core::{Elements, VectorCollection, VectorMeasure};
use simjoin_engine::{Random, VectorTask};
use simjoin_kernels::distance::{FARTHEST, exact_error, relative_error};
use std::ops::Range;

/// Squared distances that decide, in the units of images.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Pairs beyond are not in the answer.
    pub near: f32,
    /// Pairs up to here are; negative where a filter cannot tell.
    pub sure: f32,
}

/// How vectors become images.
pub struct Transform {
    dimension: usize,
    scale: f64,
    centre: Vec<f64>,
    unit: bool,
    /// Nothing is rounded.
    verbatim: bool,
    shape: Shape,
}

/// How vectors become images: `(x − centre)·scale`, or `x·scale/|x| − centre·scale` for units; then its elements in
/// an order, or along directions.
pub struct Recipe<'a> {
    /// One number for each element.
    pub centre: &'a [f64],
    /// A power of two.
    pub scale: f64,
    /// Whether vectors are divided by their lengths first.
    pub unit: bool,
    /// Which elements are the coordinates; none where these are along directions.
    pub order: Vec<u32>,
    /// Directions as the columns of a matrix of dimension × `columns`, row after row.
    pub basis: Vec<f64>,
    /// Coordinates, but for the one of what is left over.
    pub columns: usize,
    /// Whether a last coordinate holds the length of what the directions leave over.
    pub left_over: bool,
}

enum Shape {
    Axes(Vec<u32>),
    Rotated { basis: Array2<f64>, error: f64, left_over: bool },
}

/// The true distances that surely are beyond, and within, the predicate.
pub fn radii(join: &VectorTask<'_>) -> (f64, f64) {
    let g = exact_error(join.dimension());
    let threshold = join.predicate.threshold();
    match join.predicate.measure() {
        VectorMeasure::Euclidean => {
            (threshold * (1.0 + g) + 1e-155, threshold * (1.0 - g) - 1e-155)
        }
        VectorMeasure::Cosine => {
            let square = 2.0 - 2.0 * threshold;
            let (more, less) = (square + 8.0 * g, square - 8.0 * g);
            (more.sqrt(), if less > 0.0 { less.sqrt() } else { -1.0 })
        }
    }
}

/// Rows drawn at random from both sides of a join.
pub fn draw(join: &VectorTask<'_>, count: usize) -> Vec<Vec<f64>> {
    let mut random = Random::default();
    let sides: &[&VectorCollection] =
        if join.is_self_join() { &[join.probe] } else { &[join.probe, join.build] };
    let mut rows = Vec::with_capacity(count);
    for side in sides.iter().filter(|side| !side.is_empty()) {
        let share = (count / sides.len()).min(side.len());
        for _ in 0..share {
            let mut row = Vec::new();
            side.row(random.below(side.len() as u64) as usize, &mut row);
            rows.push(row);
        }
    }
    rows
}

impl Transform {
    /// Images with all elements, in falling order of their variance in the sample; centred where products of images are
    /// to be used.
    pub fn axes(join: &VectorTask<'_>, sample: &[Vec<f64>], centred: bool) -> Self {
        Self::new(join, sample, centred, false)
    }

    /// Images along principal directions, where these say more than the elements themselves.
    pub fn best(join: &VectorTask<'_>, sample: &[Vec<f64>]) -> Self {
        Self::new(join, sample, false, true)
    }

    fn new(join: &VectorTask<'_>, sample: &[Vec<f64>], centred: bool, rotate: bool) -> Self {
        let d = join.dimension();
        let unit = join.predicate.measure() == VectorMeasure::Cosine;
        let rows = sample.len().max(1) as f64;
        let mut sample: Vec<Vec<f64>> = sample.to_vec();
        if unit {
            sample.iter_mut().for_each(|row| {
                let length = length(row);
                row.iter_mut().for_each(|x| *x /= length);
            });
        }
        let mut centre = vec![0.0; d];
        for row in &sample {
            centre.iter_mut().zip(row).for_each(|(sum, x)| *sum += x / rows);
        }
        let radius = radii(join).0;
        let exponent = if radius > 1e-154 {
            radius.log2().floor()
        } else {
            // No distance to go by: elements become about 1.
            let largest = sample.iter().flatten().fold(0.0, |most: f64, x| most.max(x.abs()));
            if largest > 0.0 { largest.log2().floor() } else { 0.0 }
        };
        let scale = 2f64.powi(-exponent.clamp(-1000.0, 1000.0) as i32);
        for row in &mut sample {
            row.iter_mut().zip(&centre).for_each(|(x, c)| *x = (*x - c) * scale);
        }
        let mut variances = vec![0.0; d];
        for row in &sample {
            variances.iter_mut().zip(row).for_each(|(sum, x)| *sum += x * x / rows);
        }
        let mut order: Vec<u32> = (0..d as u32).collect();
        order.sort_by(|&a, &b| variances[b as usize].total_cmp(&variances[a as usize]));
        // Wild numbers are left alone.
        let tame = variances.iter().all(|&x| x < 1e200);
        if rotate && tame && d > 1 && sample.len() > 1 {
            let flat: Vec<f64> = sample.iter().flatten().copied().collect();
            if let Ok(matrix) = ArrayView2::from_shape((sample.len(), d), &flat) {
                let found = rotation::principal(&matrix);
                let few = (d / 4).clamp(1, 16);
                let along: f64 = found.variances.iter().take(few).sum();
                let by_axes: f64 = order[..few].iter().map(|&i| variances[i as usize]).sum();
                let says_more = along > 1.1 * by_axes || d > WHOLE;
                if says_more && found.error < 1e-3 && found.columns.ncols() > 0 {
                    let left_over = found.columns.ncols() < d;
                    let (basis, error) = (found.columns, found.error);
                    let shape = Shape::Rotated { basis, error, left_over };
                    return Transform { dimension: d, scale, centre, unit, verbatim: false, shape };
                }
            }
        }
        let narrow = |side: &VectorCollection| matches!(side.elements(), Elements::F32(_));
        let verbatim = !centred && !unit && narrow(join.probe) && narrow(join.build);
        if verbatim {
            centre.fill(0.0);
        }
        Transform { dimension: d, scale, centre, unit, verbatim, shape: Shape::Axes(order) }
    }

    /// How images are made, for those who make them elsewhere: every coordinate in f64, rounded to f32 once.
    pub fn recipe(&self) -> Recipe<'_> {
        let (order, basis, left_over) = match &self.shape {
            Shape::Axes(order) => (order.clone(), Vec::new(), false),
            Shape::Rotated { basis, left_over, .. } => {
                (Vec::new(), basis.iter().copied().collect(), *left_over)
            }
        };
        let columns = self.coordinates() - usize::from(left_over);
        let Transform { scale, unit, centre, .. } = self;
        Recipe { centre, scale: *scale, unit: *unit, order, basis, columns, left_over }
    }

    /// Coordinates of an image.
    pub fn coordinates(&self) -> usize {
        match &self.shape {
            Shape::Axes(order) => order.len(),
            Shape::Rotated { basis, left_over, .. } => basis.ncols() + usize::from(*left_over),
        }
    }

    /// Whether images are rotated.
    pub(super) fn rotated(&self) -> bool {
        matches!(self.shape, Shape::Rotated { .. })
    }

    /// Makes images of some rows, one after the other with a stride; what is beyond their coordinates is
    /// left as it is. Answers with the length of the longest scaled and centred row.
    pub(super) fn images(
        &self,
        vectors: &VectorCollection,
        rows: Range<usize>,
        out: &mut [f32],
        stride: usize,
    ) -> f64 {
        let d = self.dimension;
        let count = rows.len();
        let mut scaled: Vec<f64> = Vec::with_capacity(count * d);
        let all = rows.start * d..rows.end * d;
        match vectors.elements() {
            Elements::F32(elements) => {
                scaled.extend(elements[all].iter().map(|&x| f64::from(x)));
            }
            Elements::F64(elements) => scaled.extend_from_slice(&elements[all]),
        }
        let mut longest = 0f64;
        let mut squares = Vec::with_capacity(count);
        for row in scaled.chunks_exact_mut(d) {
            let by = if self.unit { self.scale / length(row) } else { self.scale };
            let shift = if self.unit { self.scale } else { 1.0 };
            let mut square = 0.0;
            for (x, &c) in row.iter_mut().zip(&self.centre) {
                *x = if self.unit { *x * by - c * shift } else { (*x - c) * by };
                square += *x * *x;
            }
            squares.push(square);
            longest = longest.max(square);
        }
        match &self.shape {
            Shape::Axes(order) => {
                for (row, image) in scaled.chunks_exact(d).zip(out.chunks_mut(stride)) {
                    for (to, &from) in image.iter_mut().zip(order) {
                        *to = row[from as usize] as f32;
                    }
                }
            }
            Shape::Rotated { basis, left_over, .. } => {
                let Ok(matrix) = ArrayView2::from_shape((count, d), &scaled) else {
                    return f64::INFINITY;
                };
                let seen = matrix.dot(basis);
                let k = basis.ncols();
                for ((image, seen), &square) in
                    out.chunks_mut(stride).zip(seen.rows()).zip(&squares)
                {
                    let mut along = 0.0;
                    for (to, &from) in image.iter_mut().zip(seen) {
                        *to = from as f32;
                        along += from * from;
                    }
                    if *left_over {
                        image[k] = (square - along).max(0.0).sqrt() as f32;
                    }
                }
            }
        }
        // The sum of squares is rounded as well.
        longest.sqrt() * (1.0 + exact_error(d) * d as f64)
    }

    /// The images of all rows with a stride, in parallel, and the length of the longest row. What is
    /// beyond their coordinates is zero.
    pub(super) fn all_images(&self, vectors: &VectorCollection, stride: usize) -> (Vec<f32>, f64) {
        // Rows that fit the cache together.
        let block = ((1 << 17) / self.dimension).clamp(16, 1024);
        let mut out = vec![0f32; vectors.len() * stride];
        let longest = out
            .par_chunks_mut(block * stride)
            .enumerate()
            .map(|(at, out)| {
                let rows = at * block..(at * block + out.len() / stride);
                self.images(vectors, rows, out, stride)
            })
            .reduce(|| 0.0, f64::max);
        (out, longest)
    }

    /// The radii in the units of images with all errors, for rows up to a length: beyond the first nothing
    /// is accepted; within the second, negative where there is none, everything is.
    pub fn reach(&self, join: &VectorTask<'_>, longest: f64) -> (f64, f64) {
        let (more, less) = radii(join);
        let (u, v) = (2f64.powi(-53), 2f64.powi(-24));
        let d = self.dimension as f64;
        let below_normal = (d + 1.0).sqrt() * 2f64.powi(-140);
        let (stretch, moved, complete) = match &self.shape {
            Shape::Axes(_) if self.verbatim => (0.0, below_normal, true),
            Shape::Axes(_) => (0.0, longest * (1.01 * v + (d + 8.0) * u) + below_normal, true),
            Shape::Rotated { basis, error, left_over } => {
                let root = (basis.ncols() as f64).sqrt();
                let products = 2.0 * d * (root + 2.0) * u;
                let moved = longest * (1.01 * v + (d + 8.0) * u + products) + below_normal;
                let over = if *left_over {
                    longest * (error + 4.0 * d * (root + 2.0) * u).sqrt()
                } else {
                    0.0
                };
                (*error, moved + over, !left_over)
            }
        };
        let near = more * self.scale * (1.0 + 2.0 * stretch) + 2.0 * moved;
        let sure = less * self.scale * (1.0 - 2.0 * stretch) - 2.0 * moved;
        (near, if complete { sure } else { -1.0 })
    }

    /// The limits of the kernels that add squared differences; `None` where coordinates are too large for them.
    pub fn limits(&self, join: &VectorTask<'_>, longest: f64) -> Option<Limits> {
        let (near, sure) = self.reach(join, longest);
        // Some filters add zeros at the end of a row, and squares in another order.
        let error = relative_error(self.coordinates() + 64);
        if longest.is_nan() || longest > FARTHEST || near > FARTHEST || error > 0.5 {
            return None;
        }
        let square = near * near * (1.0 + error);
        let near = (square as f32).max(f32::MIN_POSITIVE).next_up();
        let sure = match sure > 0.0 {
            true => ((sure * sure * (1.0 - error)) as f32).next_down(),
            false => -1.0,
        };
        Some(Limits { near, sure })
    }

    /// Whether f32 tells anything about the threshold, for rows up to a length.
    pub(super) fn is_telling(&self, join: &VectorTask<'_>, longest: f64) -> bool {
        let (near, _) = self.reach(join, longest);
        let true_radius = radii(join).0 * self.scale;
        let is_zero = join.predicate.threshold() == 0.0 || true_radius < 1e-6;
        self.limits(join, longest).is_some() && (is_zero || near <= 16.0 * true_radius)
    }
}

pub(super) fn length(row: &[f64]) -> f64 {
    row.iter().map(|x| x * x).sum::<f64>().sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use simjoin_core::VectorPredicate;
    use simjoin_kernels::distance::{Element, Exact};

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]

        /// Pairs that the predicate accepts are near by their images; pairs that are surely near are
        /// accepted.
        #[test]
        fn limits_hold(
            d in prop_oneof![1usize..40, 150usize..200],
            n in 2usize..40,
            shift in prop_oneof![Just(0.0), Just(1000.0), Just(-1e7)],
            spread in prop_oneof![Just(1.0), Just(1e-3), Just(1e12)],
            (wide, cosine, centred, rotate) in any::<(bool, bool, bool, bool)>(),
            pick in any::<(u16, u16)>(),
            seed in any::<u64>(),
        ) {
            let mut random = Random::default();
            (0..seed % 100).for_each(|_| { random.below(2); });
            let values: Vec<f64> = (0..n * d)
                .map(|at| shift + spread * (random.below(2001) as f64 - 1000.0) / (1 + at % d) as f64)
                .collect();
            let elements = match wide {
                true => Elements::F64(values.clone()),
                false => Elements::F32(values.iter().map(|&x| x as f32).collect()),
            };
            let vectors = VectorCollection::new("v", d, elements).unwrap();
            let widened = vectors.clone().widened();
            let Elements::F64(values) = widened.elements() else { unreachable!() };
            let row = |at: usize| &values[at * d..(at + 1) * d];
            let exact = Exact::best();
            let (a, b) = (row(pick.0 as usize % n), row(pick.1 as usize % n));
            let product = |a: &[f64], b: &[f64]| f64::product(&exact, a, b);
            if (0..n).any(|at| !VectorPredicate::has_direction(product(row(at), row(at)))) && cosine {
                return Ok(());
            }
            let predicate = if cosine {
                let cosine = VectorPredicate::cosine_of(product(a, b), product(a, a), product(b, b));
                VectorPredicate::cosine(&format!("{}", cosine.clamp(-1.0, 1.0))).unwrap()
            } else {
                let square = f64::squared(&exact, a, b, f64::MAX).unwrap();
                VectorPredicate::within(&format!("{}", square.sqrt())).unwrap()
            };
            let join = VectorTask::new(&vectors, None, predicate);
            let sample = draw(&join, 64);
            let transform = if rotate {
                Transform::best(&join, &sample)
            } else {
                Transform::axes(&join, &sample, centred)
            };
            let m = transform.coordinates();
            let (images, longest) = transform.all_images(&vectors, m + 3);
            let Some(limits) = transform.limits(&join, longest) else { return Ok(()) };
            for probe in 0..n {
                for build in 0..n {
                    let image = |at: usize| &images[at * (m + 3)..at * (m + 3) + m];
                    let square: f64 = image(probe).iter().zip(image(build))
                        .map(|(&x, &y)| (f64::from(x) - f64::from(y)).powi(2)).sum();
                    let (a, b) = (row(probe), row(build));
                    let accepted = match predicate.measure() {
                        VectorMeasure::Euclidean => f64::squared(&exact, a, b, predicate.limit()).is_some(),
                        VectorMeasure::Cosine => predicate.accepts(product(a, b), product(a, a), product(b, b)),
                    };
                    prop_assert!(!accepted || square <= f64::from(limits.near));
                    prop_assert!(accepted || square > f64::from(limits.sure));
                }
            }
        }
    }
}
