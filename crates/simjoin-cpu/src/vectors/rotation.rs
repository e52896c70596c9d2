//! In which directions do vectors differ most?
//!
//! The principal directions of a sample, as the columns of a matrix. How good they are decides only how
//! quickly far pairs are recognised; that the columns are orthonormal matters for exactness, and how far
//! they are from it is measured ([`Directions::error`]).
//!
//! All directions of up to [`WHOLE`] dimensions, by Jacobi's method on the covariance; the strongest
//! [`STRONGEST`] of more dimensions, by subspace iteration on the sample itself, so that no matrix of dimension ×
//! dimension is made.

use ndarray::{Array2, ArrayView2};
use simjoin_engine::Random;

/// Dimensions up to which all directions are found.
pub(super) const WHOLE: usize = 160;
/// Directions that are kept of more dimensions.
pub(super) const STRONGEST: usize = 96;

/// Orthonormal directions, the strongest first.
pub(super) struct Directions {
    /// A direction a column.
    pub(super) columns: Array2<f64>,
    /// The variance of the sample in each.
    pub(super) variances: Vec<f64>,
    /// No row of `|BᵀB − I|` adds up to more.
    pub(super) error: f64,
}

/// The principal directions of centred rows.
pub(super) fn principal(sample: &ArrayView2<'_, f64>) -> Directions {
    let (rows, d) = sample.dim();
    let part = 1.0 / rows.max(1) as f64;
    let mut basis = if d <= WHOLE {
        let covariance = sample.t().dot(sample) * part;
        columns_of(&eigenvectors(&covariance))
    } else {
        let mut random = Random::default();
        let mut basis: Vec<Vec<f64>> = (0..STRONGEST.min(rows))
            .map(|_| (0..d).map(|_| random.below(1 << 20) as f64 - f64::from(1 << 19)).collect())
            .collect();
        for _ in 0..2 {
            orthonormalise(&mut basis);
            let images = sample.dot(&matrix_of(&basis, d));
            basis = columns_of(&sample.t().dot(&images));
        }
        orthonormalise(&mut basis);
        let matrix = matrix_of(&basis, d);
        let images = sample.dot(&matrix);
        columns_of(&matrix.dot(&eigenvectors(&(images.t().dot(&images) * part))))
    };
    orthonormalise(&mut basis);
    let columns = matrix_of(&basis, d);
    let images = sample.dot(&columns);
    let variances: Vec<f64> =
        images.columns().into_iter().map(|column| column.dot(&column) * part).collect();
    // Jacobi's method gives them in no order.
    let mut order: Vec<usize> = (0..variances.len()).collect();
    order.sort_by(|&a, &b| variances[b].total_cmp(&variances[a]));
    let columns = Array2::from_shape_fn((d, order.len()), |(i, j)| columns[(i, order[j])]);
    let variances = order.iter().map(|&at| variances[at]).collect();
    let gram = columns.t().dot(&columns);
    let off = |(i, j): (usize, usize)| (gram[(i, j)] - f64::from(u8::from(i == j))).abs();
    let measured = (0..order.len())
        .map(|i| (0..order.len()).map(|j| off((i, j))).sum::<f64>())
        .fold(0.0, f64::max);
    // The products that it was measured with are rounded as well.
    let rounding = 2.0 * (order.len() * d) as f64 * 2f64.powi(-53);
    Directions { columns, variances, error: measured + rounding }
}

fn columns_of(matrix: &Array2<f64>) -> Vec<Vec<f64>> {
    matrix.columns().into_iter().map(|column| column.to_vec()).collect()
}

fn matrix_of(columns: &[Vec<f64>], d: usize) -> Array2<f64> {
    Array2::from_shape_fn((d, columns.len()), |(i, j)| columns[j][i])
}

/// Gram and Schmidt's method, twice; what depends on earlier columns is dropped.
fn orthonormalise(columns: &mut Vec<Vec<f64>>) {
    let mut kept: Vec<Vec<f64>> = Vec::with_capacity(columns.len());
    for mut column in columns.drain(..) {
        let before = length(&column);
        for _ in 0..2 {
            for other in &kept {
                let share: f64 = column.iter().zip(other).map(|(x, y)| x * y).sum();
                column.iter_mut().zip(other).for_each(|(x, y)| *x -= share * y);
            }
        }
        let after = length(&column);
        if after > 1e-9 * before && after.is_normal() {
            column.iter_mut().for_each(|x| *x /= after);
            kept.push(column);
        }
    }
    *columns = kept;
}

fn length(column: &[f64]) -> f64 {
    column.iter().map(|x| x * x).sum::<f64>().sqrt()
}

/// The eigenvectors of a symmetric matrix, as columns, by cyclic Jacobi rotations.
fn eigenvectors(matrix: &Array2<f64>) -> Array2<f64> {
    let n = matrix.nrows();
    let mut matrix = matrix.as_standard_layout().into_owned();
    // Rows are neighbours in memory: the transposed vectors are rotated.
    let mut vectors = Array2::<f64>::eye(n);
    let size: f64 = matrix.iter().map(|x| x * x).sum();
    for _sweep in 0..20 {
        let off: f64 = (0..n).map(|i| (0..i).map(|j| matrix[(i, j)].powi(2)).sum::<f64>()).sum();
        // A direction that is a little off is as good.
        if off <= 1e-12 * size || !off.is_normal() {
            break;
        }
        for p in 0..n {
            for q in p + 1..n {
                let apq = matrix[(p, q)];
                if apq.abs() <= 1e-150 {
                    continue;
                }
                let theta = (matrix[(q, q)] - matrix[(p, p)]) / (2.0 * apq);
                let t = theta.signum() / (theta.abs() + (theta * theta + 1.0).sqrt());
                let c = 1.0 / (t * t + 1.0).sqrt();
                let s = t * c;
                rotate_rows(&mut matrix, p, q, c, s);
                for k in 0..n {
                    let (a, b) = (matrix[(k, p)], matrix[(k, q)]);
                    matrix[(k, p)] = c * a - s * b;
                    matrix[(k, q)] = s * a + c * b;
                }
                rotate_rows(&mut vectors, p, q, c, s);
            }
        }
    }
    vectors.reversed_axes().as_standard_layout().into_owned()
}

fn rotate_rows(matrix: &mut Array2<f64>, p: usize, q: usize, c: f64, s: f64) {
    let n = matrix.ncols();
    // `p` comes before `q`, and rows lie one after the other.
    let Some((before, after)) = matrix.as_slice_mut().map(|all| all.split_at_mut(q * n)) else {
        return;
    };
    let (a, b) = (&mut before[p * n..][..n], &mut after[..n]);
    a.iter_mut().zip(b).for_each(|(a, b)| {
        let (x, y) = (*a, *b);
        *a = c * x - s * y;
        *b = s * x + c * y;
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows along a few directions, with a little noise in the others.
    fn sample(rows: usize, d: usize) -> Array2<f64> {
        let mut random = Random::default();
        let mut number = move || random.below(2001) as f64 / 1000.0 - 1.0;
        let directions = Array2::from_shape_fn((5, d), |_| number());
        let weights = Array2::from_shape_fn((rows, 5), |(_, j)| number() * 10.0 / (j + 1) as f64);
        weights.dot(&directions) + Array2::from_shape_fn((rows, d), |_| 0.01 * number())
    }

    #[test]
    fn directions_are_orthonormal_and_the_strongest_come_first() {
        for (rows, d) in [(200, 1), (300, 7), (100, 150), (400, 200), (30, 300)] {
            let sample = sample(rows, d);
            let found = principal(&sample.view());
            let wanted = if d <= WHOLE { d } else { STRONGEST.min(rows) };
            assert!(found.columns.ncols() <= wanted && found.columns.ncols() >= wanted.min(5));
            assert!(d > WHOLE || found.columns.ncols() == d);
            assert!(found.error < 1e-9, "{d}: {}", found.error);
            assert!(found.variances.windows(2).all(|two| two[0] >= two[1]));
            let all: f64 = sample.iter().map(|x| x * x).sum::<f64>() / rows as f64;
            let five: f64 = found.variances.iter().take(5).sum();
            assert!(five > 0.99 * all, "{d}: {five} of {all}");
        }
    }

    #[test]
    fn rows_that_do_not_differ_have_directions_too() {
        let found = principal(&Array2::zeros((10, 4)).view());
        assert_eq!(found.columns.dim(), (4, 4));
        assert!(found.error < 1e-12);
        let found = principal(&Array2::zeros((10, 200)).view());
        assert_eq!(found.columns.dim(), (200, 0));
    }
}
