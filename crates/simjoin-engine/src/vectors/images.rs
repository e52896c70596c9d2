//! What does a filter look at instead of a vector?
//!
//! At its *image*: a few f32 coordinates, whose distances are those of the vectors or less. Vectors are centred,
//! scaled by a power of two, and *folded*; then their coordinates become one of two shapes:
//!
//! * **axes**: the vector's elements, those that vary most first;
//! * **rotated**: the vector seen along the principal directions of a sample; where these are fewer than
//!   the dimension, one further coordinate holds the length of what they leave over.
//!
//! For a cosine the vectors are divided by their lengths first: `|a/|a| − b/|b||² = 2 − 2·cos`.
//!
//! # Outliers
//!
//! Rounding to f32 errs by a part of a vector's length, so a single row of 10¹⁶ would blur all others. Each element `t`
//! of the scaled vector is therefore folded into `[−F, F]`: values beyond come back like a ray between two mirrors,
//!
//! ```text
//! φ(t) = (−1)ⁿ·(t − 2F·n),  n = t / 2F rounded      φ(t) = t where |t| ≤ F;  |φ(t) − φ(s)| ≤ |t − s|
//! ```
//!
//! after being limited to ±2²⁶·F, which no distance survives any longer either. Neither step moves two values apart, so
//! images of near vectors stay near; images of far ones rarely come near by chance. `F` is a power of two from about twice
//! the length of the longest row of a sample, whose own outliers are limited first, so ordinary rows are not folded.
//!
//! # Exactness
//!
//! [`Limits::near`] is such that no pair that the predicate accepts has images farther apart, as the
//! kernels compute it; [`Limits::sure`] such that the predicate accepts every pair whose images are that
//! near; where a row was folded, no pair is sure. With `u = 2⁻⁵³`, `v = 2⁻²⁴`, `t` the scaled and centred vector, `L` no
//! less than the length of any `φ(t)`, `O` no less than that of any `t` once limited, `B` the directions (`d` × `k`) and
//! `τ` the largest row sum of `|BᵀB − I|`:
//!
//! 1. The predicate accepts only pairs whose true distance is at most `ε⁺`: `ε·(1+g)` by the error `g` of
//!    its sum, or, for a cosine, `√(2 − 2T + 8g)`. It accepts all within `ε⁻`, with minus signs.
//! 2. Along `B` a distance grows by a factor of `1+τ` at most, as `|Bᵀx|² ≤ |BᵀB|·|x|²`; with all `d`
//!    directions it shrinks by no more than `1−τ`. What the directions leave over, `r = |(I−BBᵀ)t|`, has
//!    `|r₁−r₂| ≤ |(I−BBᵀ)(t₁−t₂)|`, and `|Bᵀx|² + |(I−BBᵀ)x|² ≤ (1+2τ)·|x|²`.
//! 3. Computing an image moves it by at most `η = 4·u·O + L·(1.01·v + 2·d·(√k+2)·u) + √(d+1)·2⁻¹⁴⁰`: centring and scaling;
//!    rounding to f32; the products with `B`, each wrong by at most `d·u·|t|` relative to a column of length about 1;
//!    numbers below the normal ones. Dividing by a length adds `2·(d+8)·u` times the scale. Folding itself is exact: what
//!    is taken off is a multiple of a power of two, and what remains a multiple of the last bit of `t`. `r²` is the
//!    difference `|t|² − |Bᵀt|²`, wrong by at most `E = L²·(τ + 4·d·(√k+2)·u)`, so `r` by at most `√E`. Elements of f32
//!    input that are only put into another order, scaled and folded are not rounded at all.
//! 4. So images of accepted pairs are within `ε⁺·(1+2τ) + 2η` (in scaled units), and the kernels' squares are within
//!    the relative error of their sums.
//!
//! Every bound is taken generously; it costs nothing.

use super::VectorTask;
use super::rotation::{self, WHOLE};
use nalgebra::{DMatrix, DMatrixView};
use rayon::prelude::*;
use simjoin_core::{Elements, Random, VectorCollection, VectorMeasure};
use simjoin_kernels::distance::{exact_error, relative_error};
use std::ops::Range;

/// Squared distances that decide, in the units of images.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Pairs beyond are not in the answer.
    pub near: f32,
    /// Pairs up to here are; negative where a filter cannot tell.
    pub sure: f32,
}

/// What filters compare of the vectors of a join.
#[derive(Debug)]
pub struct Fit {
    /// The way in which vectors become images.
    pub transform: Transform,
    /// Coordinates that are compared first.
    pub head: usize,
}

/// How vectors become images: `(x − centre)·scale`, or `x·scale/|x| − centre·scale` for units, folded; then its elements
/// in an order, or along directions. Every coordinate is computed in f64 and rounded to f32 once.
#[derive(Debug)]
pub struct Transform {
    /// One number for each element.
    pub centre: Vec<f64>,
    /// A power of two.
    pub scale: f64,
    /// A power of two: scaled elements beyond are folded.
    pub fold: f64,
    /// Whether vectors are divided by their lengths first.
    pub unit: bool,
    /// The elements that are the coordinates; none where these are along directions.
    pub order: Vec<u32>,
    /// Whether a last coordinate holds the length of what the directions leave over.
    pub left_over: bool,
    /// Nothing is rounded.
    verbatim: bool,
    /// A direction is a row. Without rows, images are axes.
    directions: DMatrix<f64>,
    /// The `τ` of the module's documentation.
    error: f64,
}

impl Fit {
    /// Rows that principal directions are taken from.
    pub const SAMPLE: usize = 1024;

    /// Makes images along the directions that say most, and compares all of their coordinates first.
    pub fn of(task: &VectorTask<'_>) -> Self {
        let transform = Transform::best(task, &draw(task, Self::SAMPLE));
        Fit { head: transform.coordinates(), transform }
    }
}

/// Returns the true distances beyond which the predicate accepts nothing, and within which it accepts everything.
pub fn radii(task: &VectorTask<'_>) -> (f64, f64) {
    let g = exact_error(task.dimension());
    let threshold = task.predicate.threshold();
    match task.predicate.measure() {
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

/// Draws rows at random from both sides of a join.
pub fn draw(task: &VectorTask<'_>, count: usize) -> Vec<Vec<f64>> {
    let mut random = Random::default();
    let sides: Vec<_> = task.sides().collect();
    let mut rows = Vec::with_capacity(count);
    for side in sides.iter().filter(|side| !side.is_empty()) {
        let share = (count / sides.len()).min(side.len());
        for _ in 0..share {
            let mut row = Vec::new();
            side.entry(random.below(side.len() as u64) as usize, &mut row);
            rows.push(row);
        }
    }
    rows
}

/// Folded rows are no longer, in the units of images, so that rounding them to f32 moves them by little.
const LONGEST: f64 = (1u64 << 18) as f64;
/// The same for rows that are not rounded at all.
const VERBATIM: f64 = (1u64 << 40) as f64;
/// The bound for folding is no less.
const LEAST_FOLD: f64 = 64.0;
/// How many times the bound for folding an element may be before it is limited.
pub const LIMITED: f64 = (1u64 << 26) as f64;
/// Deviations beyond this multiple of the usual one are those of outliers.
const ORDINARY: f64 = 64.0;
/// The most times that an element may deviate as much as another one.
const APART: f64 = 1024.0;

/// Moves each element of a sample that is far from the others towards them, so that no outlier decides what is ordinary.
fn limit_outliers(sample: &mut [Vec<f64>], d: usize) {
    if sample.len() < 3 {
        return;
    }
    let middle = |all: &mut Vec<f64>| {
        let place = all.len().saturating_sub(1) / 2;
        if all.is_empty() { 0.0 } else { *all.select_nth_unstable_by(place, f64::total_cmp).1 }
    };
    // The median of each element, and how far the others are from it that differ.
    let usual = |i: usize| {
        let mut column: Vec<f64> = sample.iter().map(|row| row[i]).collect();
        let median = middle(&mut column);
        column.iter_mut().for_each(|x| *x = (*x - median).abs());
        column.retain(|&x| x > 0.0);
        (median, ORDINARY * middle(&mut column))
    };
    let usual: Vec<(f64, f64)> = (0..d).into_par_iter().map(usual).collect();
    let mut all = usual.iter().map(|one| one.1).filter(|&x| x > 0.0).collect();
    let most = APART * middle(&mut all);
    for row in sample {
        for (x, (median, usual)) in row.iter_mut().zip(&usual) {
            *x = x.max(median - usual.min(most)).min(median + usual.min(most));
        }
    }
}

/// Returns the length of the longest of some rows, seen from a centre. No square is too large for it.
fn extent(rows: &[Vec<f64>], centre: &[f64]) -> f64 {
    let length = |row: &Vec<f64>| {
        let seen = || row.iter().zip(centre).map(|(x, c)| (x - c).abs());
        let largest = seen().fold(0.0, f64::max);
        let part = |x: f64| if largest > 0.0 { x / largest } else { 0.0 };
        largest * seen().map(|x| part(x) * part(x)).sum::<f64>().sqrt()
    };
    rows.iter().map(length).fold(0.0, f64::max)
}

/// Returns a power of two.
fn power(exponent: f64) -> f64 {
    2f64.powi(exponent.clamp(-1000.0, 1000.0) as i32)
}

impl Transform {
    /// Makes images of all elements, in falling order of their variance in the sample; centred where products of images are
    /// to be used.
    pub fn axes(task: &VectorTask<'_>, sample: &[Vec<f64>], centred: bool) -> Self {
        Self::new(task, sample, centred, false)
    }

    /// Makes images along principal directions, where these say more than the elements themselves.
    pub fn best(task: &VectorTask<'_>, sample: &[Vec<f64>]) -> Self {
        Self::new(task, sample, false, true)
    }

    fn new(task: &VectorTask<'_>, sample: &[Vec<f64>], centred: bool, rotate: bool) -> Self {
        let d = task.dimension();
        let unit = task.predicate.measure() == VectorMeasure::Cosine;
        let mut sample: Vec<Vec<f64>> = sample.to_vec();
        if unit {
            // A row without a direction is reported when the join begins.
            sample.retain(|row| length(row).is_normal());
            sample.iter_mut().for_each(|row| {
                let length = length(row);
                row.iter_mut().for_each(|x| *x /= length);
            });
        }
        limit_outliers(&mut sample, d);
        let rows = sample.len().max(1) as f64;
        let mut centre = vec![0.0; d];
        for row in &sample {
            centre.iter_mut().zip(row).for_each(|(sum, x)| *sum += x / rows);
        }
        let around = extent(&sample, &centre);
        let around_zero = extent(&sample, &vec![0.0; d]);
        // Folded rows are up to √d times as long as the bound.
        let most = power((LONGEST / (d as f64).sqrt()).log2().floor());
        let threshold = radii(task).0.max(8.0 * around / most);
        let scale = power(-threshold.log2().floor());
        let fold = |extent: f64, most: f64| {
            power((2.0 * extent * scale).max(LEAST_FOLD).log2().ceil()).min(most)
        };
        let mut transform = Transform {
            scale,
            centre,
            fold: fold(around, most),
            unit,
            order: Vec::new(),
            left_over: false,
            verbatim: false,
            directions: DMatrix::zeros(0, d),
            error: 0.0,
        };
        for row in &mut sample {
            row.iter_mut().zip(&transform.centre).for_each(|(x, c)| *x = (*x - c) * scale);
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
            let matrix = DMatrix::from_vec(d, sample.len(), flat);
            if let Some(found) = rotation::principal(&matrix) {
                let few = (d / 4).clamp(1, 16);
                let along: f64 = found.variances.iter().take(few).sum();
                let by_axes: f64 = order[..few].iter().map(|&i| variances[i as usize]).sum();
                let says_more = along > 1.1 * by_axes || d > WHOLE;
                if says_more && found.error < 1e-3 && found.rows.nrows() > 0 {
                    transform.left_over = found.rows.nrows() < d;
                    (transform.directions, transform.error) = (found.rows, found.error);
                    return transform;
                }
            }
        }
        transform.order = order;
        let narrow = |side: &VectorCollection| matches!(side.elements(), Elements::F32(_));
        if !centred && !unit && narrow(task.probe) && narrow(task.build) {
            transform.verbatim = true;
            transform.centre.fill(0.0);
            transform.fold = fold(around_zero, VERBATIM);
        }
        transform
    }

    /// Returns the directions as the columns of a matrix, row after row; empty where images are axes.
    pub fn basis(&self) -> &[f64] {
        // Columns of the one are rows of the other.
        self.directions.as_slice()
    }

    /// Returns the number of coordinates of an image.
    pub fn coordinates(&self) -> usize {
        self.order.len() + self.directions.nrows() + usize::from(self.left_over)
    }

    /// Returns whether images are rotated.
    pub fn rotated(&self) -> bool {
        self.directions.nrows() > 0
    }

    /// Makes images of some rows, one after the other with a stride, and leaves what is beyond their coordinates as it is.
    /// Returns the length of the longest scaled and centred row.
    pub fn images(
        &self,
        vectors: &VectorCollection,
        rows: Range<usize>,
        out: &mut [f32],
        stride: usize,
    ) -> f64 {
        let d = self.centre.len();
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
            longest = longest.max(square);
            if square > self.fold * self.fold {
                row.iter_mut().for_each(|x| *x = self.folded(*x));
                square = row.iter().map(|x| x * x).sum();
            }
            squares.push(square);
        }
        if self.rotated() {
            let seen = &self.directions * DMatrixView::from_slice(&scaled, d, count);
            let images = out.chunks_mut(stride).zip(seen.column_iter()).zip(&squares);
            for ((image, seen), &square) in images {
                let mut along = 0.0;
                for (to, &from) in image.iter_mut().zip(&seen) {
                    *to = from as f32;
                    along += from * from;
                }
                if self.left_over {
                    image[seen.len()] = (square - along).max(0.0).sqrt() as f32;
                }
            }
        } else {
            for (row, image) in scaled.chunks_exact(d).zip(out.chunks_mut(stride)) {
                for (to, &from) in image.iter_mut().zip(&self.order) {
                    *to = row[from as usize] as f32;
                }
            }
        }
        // The sum of squares is rounded as well.
        longest.sqrt() * (1.0 + exact_error(d) * d as f64)
    }

    /// Makes the images of all rows with a stride, in parallel, with zeros beyond their coordinates. Returns them and the
    /// length of the longest row.
    pub fn all_images(&self, vectors: &VectorCollection, stride: usize) -> (Vec<f32>, f64) {
        // Rows that fit the cache together.
        let block = ((1 << 17) / self.centre.len()).clamp(16, 1024);
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

    /// Folds an element; see the module's documentation.
    fn folded(&self, x: f64) -> f64 {
        let most = LIMITED * self.fold;
        let x = x.clamp(-most, most);
        let turns = (x / (2.0 * self.fold)).round();
        let rest = x - 2.0 * self.fold * turns;
        if turns % 2.0 == 0.0 { rest } else { -rest }
    }

    /// Returns a length that no row exceeds once folded, for rows up to a length.
    pub fn longest_folded(&self, longest: f64) -> f64 {
        let root = (self.centre.len() as f64).sqrt() * (1.0 + 1e-12);
        if longest <= self.fold { longest } else { longest.min(root * self.fold) }
    }

    /// Returns the radii in the units of images with all errors, for rows up to a length before they are folded: nothing
    /// beyond the first is accepted; everything within the second is, which is negative where there is none.
    pub fn reach(&self, task: &VectorTask<'_>, longest: f64) -> (f64, f64) {
        let (more, less) = radii(task);
        let (u, v) = (2f64.powi(-53), 2f64.powi(-24));
        let d = self.centre.len() as f64;
        let below_normal = (d + 1.0).sqrt() * 2f64.powi(-140);
        let length = self.longest_folded(longest);
        let limited = longest.min(LIMITED * self.fold * d.sqrt());
        let divided = if self.unit { 2.0 * (d + 8.0) * u * self.scale } else { 0.0 };
        let made = 4.0 * u * limited + divided + 1.01 * v * length + below_normal;
        let (stretch, moved) = if self.rotated() {
            let products = d * ((self.directions.nrows() as f64).sqrt() + 2.0) * u;
            let over = if self.left_over { (self.error + 4.0 * products).sqrt() } else { 0.0 };
            (self.error, made + length * (2.0 * products + over))
        } else {
            (0.0, if self.verbatim { below_normal } else { made })
        };
        let near = more * self.scale * (1.0 + 2.0 * stretch) + 2.0 * moved;
        let sure = less * self.scale * (1.0 - 2.0 * stretch) - 2.0 * moved;
        (near, if !self.left_over && longest <= self.fold { sure } else { -1.0 })
    }

    /// Returns the limits of the kernels that add squared differences, for rows up to a length before they are folded.
    pub fn limits(&self, task: &VectorTask<'_>, longest: f64) -> Limits {
        let (near, sure) = self.reach(task, longest);
        // Some filters add zeros at the end of a row, and squares in another order.
        let error = relative_error(self.coordinates() + 64);
        if error > 0.5 {
            // Sums of more squares tell nothing.
            let farthest = 2.0 * self.longest_folded(longest);
            return Limits { near: (4.0 * farthest * farthest + 1.0) as f32, sure: -1.0 };
        }
        let square = near * near * (1.0 + error);
        // Squares below the normal numbers do not matter compared with the least limit.
        let near = (square as f32).max(2f32.powi(-100)).next_up();
        let sure = match sure > 0.0 {
            true => ((sure * sure * (1.0 - error)) as f32).next_down(),
            false => -1.0,
        };
        Limits { near, sure }
    }
}

fn length(row: &[f64]) -> f64 {
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
            let vectors = VectorCollection::of_entries("v", d, elements).unwrap();
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
            let task = VectorTask::new(&vectors, None, predicate);
            let sample = draw(&task, 64);
            let transform = if rotate {
                Transform::best(&task, &sample)
            } else {
                Transform::axes(&task, &sample, centred)
            };
            let m = transform.coordinates();
            let (images, longest) = transform.all_images(&vectors, m + 3);
            let limits = transform.limits(&task, longest);
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
