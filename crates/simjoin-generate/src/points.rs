//! How are synthetic vectors made?
//!
//! They have the distributions of the literature (Böhm, Noll, Plant and Zherdin): DS1, uniform in the unit cube; DS2,
//! Gaussian clusters at random places; DS3, Gaussian clusters with correlated coordinates, different in each cluster.
//!
//! A Gaussian number is the sum of twelve uniform ones, minus six. Its bits are the same on every machine, because no
//! logarithm is needed. Correlated clusters are round ones, multiplied by a random matrix whose j-th direction
//! is 1/(j+1) as strong as the first.
//!
//! # Memory
//!
//! The centres and matrices of the clusters, and a block of output.

use crate::random::Random;
use simjoin_core::{Error, Result};
use simjoin_io::{VectorFormat, display_name, npy_header};
use std::fmt::Write;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// The distribution of points.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Shape {
    /// Uniform in the unit cube: DS1.
    Uniform,
    /// In Gaussian clusters with this deviation in each coordinate: DS2.
    Clusters(f64),
    /// In Gaussian clusters with correlated coordinates, of about this deviation in the strongest direction: DS3.
    Correlated(f64),
}

/// The format of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PointFormat {
    /// NumPy's format, f32.
    Npy,
    /// For each vector, its dimension and its elements, f32.
    Fvecs,
    /// A line for each vector, a field for each number, without a header.
    Csv,
}

impl PointFormat {
    /// Returns the format that a path's ending stands for, without `.gz` or `.zst`; standard output
    /// is CSV.
    pub fn of_path(path: Option<&Path>) -> Result<Self> {
        let Some(path) = path else { return Ok(PointFormat::Csv) };
        match VectorFormat::of_path(path) {
            Ok(VectorFormat::Npy) => Ok(PointFormat::Npy),
            Ok(VectorFormat::Fvecs) => Ok(PointFormat::Fvecs),
            Ok(VectorFormat::Csv) => Ok(PointFormat::Csv),
            _ => Err(Error::Config(format!(
                "the output {} has no known ending; use .npy, .fvecs or .csv (each also with .gz or .zst)",
                display_name(path)
            ))),
        }
    }
}

/// A synthetic collection of vectors.
///
/// ```
/// use simjoin_generate::{PointFormat, Points, Shape};
///
/// let points = Points { vectors: 3, dimension: 2, clusters: 5, shape: Shape::Uniform, seed: 1 };
/// let mut text = Vec::new();
/// points.write(PointFormat::Csv, &Default::default(), |bytes| {
///     text.extend_from_slice(bytes);
///     Ok(())
/// })?;
/// assert_eq!(text.iter().filter(|&&byte| byte == b'\n').count(), 3);
/// # Ok::<(), simjoin_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Points {
    /// The number of vectors.
    pub vectors: u64,
    /// The number of elements of a vector.
    pub dimension: u64,
    /// The number of clusters, for shapes with clusters.
    pub clusters: u64,
    /// Their distribution.
    pub shape: Shape,
    /// The seed. Another seed gives another collection of the same kind.
    pub seed: u64,
}

/// The largest number of elements of a vector.
const MOST: u64 = 1 << 16;

impl Points {
    /// Returns an error for impossible settings.
    pub fn check(&self) -> Result<()> {
        let wrong = |message: String| Err(Error::Config(message));
        if self.vectors == 0 || self.vectors > u64::from(u32::MAX) {
            return wrong(format!(
                "{} vectors cannot be made; expected 1 to {}",
                self.vectors,
                u32::MAX
            ));
        }
        if !(1..=MOST).contains(&self.dimension) {
            return wrong(format!(
                "a dimension of {} cannot be made; expected 1 to {MOST}",
                self.dimension
            ));
        }
        let matrices = matches!(self.shape, Shape::Correlated(_));
        let numbers = self.clusters * self.dimension * if matrices { self.dimension } else { 1 };
        if self.clusters == 0 || self.clusters > 1 << 20 || numbers > 1 << 28 {
            return wrong(format!(
                "{} clusters of dimension {} cannot be made; expected at least 1, and few enough for the memory",
                self.clusters, self.dimension
            ));
        }
        match self.shape {
            Shape::Clusters(spread) | Shape::Correlated(spread)
                if !(spread > 0.0 && spread <= 1e6) =>
            {
                wrong(format!(
                    "a spread of {spread} cannot be made; expected a number above 0, such as 0.05"
                ))
            }
            _ => Ok(()),
        }
    }

    /// Passes the file to a receiver in blocks. `done` counts the finished vectors.
    pub fn write(
        &self,
        format: PointFormat,
        done: &AtomicU64,
        mut receiver: impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        self.check()?;
        let mut random = Random::new(self.seed);
        let d = self.dimension as usize;
        let clusters = if self.shape == Shape::Uniform { 0 } else { self.clusters as usize };
        let centres: Vec<f64> = (0..clusters * d).map(|_| uniform(&mut random)).collect();
        let matrices: Vec<f64> = match self.shape {
            Shape::Correlated(spread) => (0..clusters * d * d)
                .map(|at| spread * (2.0 * uniform(&mut random) - 1.0) / (at % d + 1) as f64)
                .collect(),
            _ => Vec::new(),
        };
        let mut block = Vec::with_capacity(1 << 18);
        if format == PointFormat::Npy {
            block.extend_from_slice(&npy_header("<f4", &[self.vectors, self.dimension]));
        }
        let (mut row, mut round, mut text) = (vec![0f64; d], vec![0f64; d], String::new());
        for _ in 0..self.vectors {
            match self.shape {
                Shape::Uniform => row.iter_mut().for_each(|x| *x = uniform(&mut random)),
                Shape::Clusters(spread) => {
                    let cluster = random.below(self.clusters) as usize;
                    let centre = &centres[cluster * d..][..d];
                    for (x, c) in row.iter_mut().zip(centre) {
                        *x = c + spread * gaussian(&mut random);
                    }
                }
                Shape::Correlated(_) => {
                    let cluster = random.below(self.clusters) as usize;
                    round.iter_mut().for_each(|x| *x = gaussian(&mut random));
                    for (i, x) in row.iter_mut().enumerate() {
                        let line = &matrices[(cluster * d + i) * d..][..d];
                        let along: f64 = line.iter().zip(&round).map(|(a, g)| a * g).sum();
                        *x = centres[cluster * d + i] + along;
                    }
                }
            }
            match format {
                PointFormat::Npy => {
                    block.extend(row.iter().flat_map(|&x| (x as f32).to_le_bytes()));
                }
                PointFormat::Fvecs => {
                    block.extend_from_slice(&(d as i32).to_le_bytes());
                    block.extend(row.iter().flat_map(|&x| (x as f32).to_le_bytes()));
                }
                PointFormat::Csv => {
                    text.clear();
                    for (i, &x) in row.iter().enumerate() {
                        let _ = write!(text, "{}{}", if i > 0 { "," } else { "" }, x as f32);
                    }
                    text.push('\n');
                    block.extend_from_slice(text.as_bytes());
                }
            }
            done.fetch_add(1, Ordering::Relaxed);
            if block.len() >= 1 << 18 {
                receiver(&block)?;
                block.clear();
            }
        }
        receiver(&block)
    }
}

/// Returns a number from 0 to below 1.
fn uniform(random: &mut Random) -> f64 {
    (random.bits() >> 11) as f64 * 2f64.powi(-53)
}

/// Returns a number around 0 with a deviation of 1.
fn gaussian(random: &mut Random) -> f64 {
    let mut sum = 0u64;
    for _ in 0..6 {
        let bits = random.bits();
        sum += (bits >> 32) + (bits & 0xffff_ffff);
    }
    sum as f64 * 2f64.powi(-32) - 6.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use simjoin_core::Elements;
    use simjoin_io::{VectorOptions, read_vectors};

    fn made(points: &Points, format: PointFormat) -> Vec<u8> {
        let mut all = Vec::new();
        let done = AtomicU64::new(0);
        points
            .write(format, &done, |bytes| {
                all.extend_from_slice(bytes);
                Ok(())
            })
            .unwrap();
        assert_eq!(done.into_inner(), points.vectors);
        all
    }

    fn points(shape: Shape) -> Points {
        Points { vectors: 2000, dimension: 6, clusters: 3, shape, seed: 5 }
    }

    fn elements(points: &Points, format: PointFormat, name: &str) -> Vec<f64> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        std::fs::write(&path, made(points, format)).unwrap();
        let read =
            read_vectors(path.to_str().unwrap(), &VectorOptions::default(), &AtomicU64::new(0))
                .unwrap();
        assert_eq!((read.vectors.len(), read.vectors.dimension()), (2000, 6));
        let Elements::F64(all) = read.vectors.widened().elements().clone() else { unreachable!() };
        all.iter().map(|&x| f64::from(x as f32)).collect()
    }

    #[test]
    fn every_format_holds_the_same_vectors() {
        for shape in [Shape::Uniform, Shape::Clusters(0.05), Shape::Correlated(0.1)] {
            let points = points(shape);
            let npy = elements(&points, PointFormat::Npy, "a.npy");
            assert_eq!(npy, elements(&points, PointFormat::Fvecs, "a.fvecs"));
            assert_eq!(npy, elements(&points, PointFormat::Csv, "a.csv"));
            let other = Points { seed: 6, ..points };
            assert_ne!(npy, elements(&other, PointFormat::Npy, "a.npy"));
        }
    }

    #[test]
    fn points_have_the_distribution_of_their_shape() {
        let uniform = elements(&points(Shape::Uniform), PointFormat::Npy, "a.npy");
        assert!(uniform.iter().all(|x| (0.0..=1.0).contains(x)));
        let mean: f64 = uniform.iter().sum::<f64>() / uniform.len() as f64;
        assert!((mean - 0.5).abs() < 0.02, "{mean}");
        // One cluster has the given deviation, and its coordinates are uncorrelated.
        let one = Points { clusters: 1, ..points(Shape::Clusters(0.05)) };
        let (deviation, correlation) = statistics(&elements(&one, PointFormat::Npy, "a.npy"));
        assert!((deviation - 0.05).abs() < 0.005, "{deviation}");
        assert!(correlation < 0.1, "{correlation}");
        let one = Points { clusters: 1, ..points(Shape::Correlated(0.05)) };
        let (_, correlation) = statistics(&elements(&one, PointFormat::Npy, "a.npy"));
        assert!(correlation > 0.3, "{correlation}");
    }

    /// Returns the deviation of the first coordinate, and the largest correlation of two.
    fn statistics(all: &[f64]) -> (f64, f64) {
        let column = |i: usize| all.iter().skip(i).step_by(6).copied();
        let mean = |i: usize| column(i).sum::<f64>() / 2000.0;
        let product = |i: usize, j: usize| {
            let (a, b) = (mean(i), mean(j));
            column(i).zip(column(j)).map(|(x, y)| (x - a) * (y - b)).sum::<f64>() / 2000.0
        };
        let correlation = |i, j| (product(i, j) / (product(i, i) * product(j, j)).sqrt()).abs();
        let pairs = (0..6).flat_map(|i| (0..i).map(move |j| (i, j)));
        (product(0, 0).sqrt(), pairs.map(|(i, j)| correlation(i, j)).fold(0.0, f64::max))
    }

    #[test]
    fn impossible_settings_are_errors() {
        let fine = points(Shape::Clusters(0.05));
        for (points, message) in [
            (Points { vectors: 0, ..fine }, "0 vectors"),
            (Points { dimension: 0, ..fine }, "a dimension of 0"),
            (Points { dimension: 1 << 20, ..fine }, "expected 1 to 65536"),
            (Points { clusters: 0, ..fine }, "0 clusters"),
            (Points { shape: Shape::Clusters(0.0), ..fine }, "a spread of 0"),
            (Points { shape: Shape::Correlated(f64::NAN), ..fine }, "a spread of NaN"),
        ] {
            let error = points.check().unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        }
        assert_eq!(PointFormat::of_path(Some(Path::new("a.NPY.gz"))).unwrap(), PointFormat::Npy);
        assert!(
            PointFormat::of_path(Some(Path::new("a.txt")))
                .unwrap_err()
                .to_string()
                .contains(".fvecs")
        );
    }
}
