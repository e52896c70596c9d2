//! In which directions do vectors differ most?
//!
//! The principal directions of a sample. How good they are decides only how quickly far pairs are recognised. That they
//! are orthonormal matters for exactness: how far they are from it is measured ([`Directions::error`]), and
//! [`images`](super::images) allows for that, so nothing depends on the precision of the library that finds them.
//!
//! All directions of up to [`WHOLE`] dimensions are eigenvectors of the covariance; the strongest [`STRONGEST`] of more
//! dimensions are found by subspace iteration on the sample itself, so that no matrix of dimension × dimension is made.

use nalgebra::{DMatrix, SymmetricEigen};
use simjoin_core::Random;

/// Dimensions up to which all directions are found.
pub(super) const WHOLE: usize = 160;
/// Directions that are kept of more dimensions.
const STRONGEST: usize = 96;

/// Orthonormal directions, the strongest first.
pub(super) struct Directions {
    /// A direction a row.
    pub(super) rows: DMatrix<f64>,
    /// The variance of the sample in each.
    pub(super) variances: Vec<f64>,
    /// With the directions as the columns of `B`, no row of `|BᵀB − I|` adds up to more.
    pub(super) error: f64,
}

/// Finds the principal directions of centred vectors, which are the columns of a matrix; `None` where the method does not
/// converge.
pub(super) fn principal(sample: &DMatrix<f64>) -> Option<Directions> {
    let (d, count) = sample.shape();
    let covariance = |seen: &DMatrix<f64>| seen * seen.transpose() / count.max(1) as f64;
    let (columns, variances) = if d <= WHOLE {
        eigenvectors(covariance(sample))?
    } else {
        let mut random = Random::default();
        let mut number = || random.below(1 << 20) as f64 - f64::from(1 << 19);
        let mut basis = DMatrix::from_fn(d, STRONGEST.min(count), |_, _| number());
        for _ in 0..2 {
            basis = basis.qr().q();
            basis = sample * (sample.transpose() * &basis);
        }
        basis = basis.qr().q();
        let (inner, variances) = eigenvectors(covariance(&(basis.transpose() * sample)))?;
        (basis * inner, variances)
    };
    let mut order: Vec<usize> = (0..variances.len()).collect();
    order.sort_by(|&a, &b| variances[b].total_cmp(&variances[a]));
    let rows = DMatrix::from_fn(order.len(), d, |i, j| columns[(j, order[i])]);
    let variances = order.iter().map(|&at| variances[at]).collect();
    let gram = &rows * rows.transpose() - DMatrix::identity(order.len(), order.len());
    let measured = gram.abs().row_sum().max();
    // The products that it was measured with are rounded as well.
    let rounding = 2.0 * (order.len() * d) as f64 * 2f64.powi(-53);
    Some(Directions { rows, variances, error: measured + rounding })
}

/// Finds the eigenvectors of a symmetric matrix, as columns, and its eigenvalues.
fn eigenvectors(matrix: DMatrix<f64>) -> Option<(DMatrix<f64>, Vec<f64>)> {
    let most = 100 * matrix.nrows().max(1);
    let found = SymmetricEigen::try_new(matrix, f64::EPSILON, most)?;
    Some((found.eigenvectors, found.eigenvalues.iter().copied().collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Vectors along a few directions, with a little noise in the others.
    fn sample(count: usize, d: usize) -> DMatrix<f64> {
        let mut random = Random::default();
        let mut number = move || random.below(2001) as f64 / 1000.0 - 1.0;
        let directions = DMatrix::from_fn(d, 5, |_, _| number());
        let weights = DMatrix::from_fn(5, count, |i, _| number() * 10.0 / (i + 1) as f64);
        directions * weights + DMatrix::from_fn(d, count, |_, _| 0.01 * number())
    }

    #[test]
    fn directions_are_orthonormal_and_the_strongest_come_first() {
        for (count, d) in [(200, 1), (300, 7), (100, 150), (400, 200), (30, 300)] {
            let sample = sample(count, d);
            let found = principal(&sample).unwrap();
            let wanted = if d <= WHOLE { d } else { STRONGEST.min(count) };
            assert_eq!(found.rows.shape(), (wanted, d));
            assert!(found.error < 1e-9, "{d}: {}", found.error);
            assert!(found.variances.windows(2).all(|two| two[0] >= two[1]));
            let all: f64 = sample.norm_squared() / count as f64;
            let five: f64 = found.variances.iter().take(5).sum();
            assert!(five > 0.99 * all, "{d}: {five} of {all}");
            let seen = &found.rows * &sample;
            for (row, variance) in seen.row_iter().zip(&found.variances) {
                let difference = row.norm_squared() / count as f64 - variance;
                assert!(difference.abs() < 1e-9 * all, "{d}: {difference}");
            }
        }
    }

    #[test]
    fn vectors_that_do_not_differ_have_directions_too() {
        for (d, count, directions) in [(4, 10, 4), (200, 10, 10)] {
            let found = principal(&DMatrix::zeros(d, count)).unwrap();
            assert_eq!(found.rows.shape(), (directions, d));
            assert!(found.error < 1e-12);
        }
    }
}
