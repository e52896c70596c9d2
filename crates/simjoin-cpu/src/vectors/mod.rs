//! How are vectors joined on CPU cores?
//!
//! | technique | filter | file |
//! | --- | --- | --- |
//! | `nested-loop` | distances in f32, in blocks | `nested_loop.rs` |
//! | `quantile` | boxes of a multi-level quantile index, images | `quantile.rs` |
//! | `grid` | cells as wide as the distance, images | `grid.rs` |
//!
//! All techniques share images, which filters compare instead of vectors (`simjoin-engine`), and `verify.rs` (from
//! candidate to answer). [`vector_techniques`] draws a sample once, for all techniques and for the choice between them.

mod grid;
mod nested_loop;
mod quantile;
#[cfg(test)]
mod tests;
mod verify;

pub use grid::Grid;
pub use nested_loop::{NestedLoop, StripedLoop};
pub use quantile::Quantile;

use simjoin_engine::{
    Fit, Techniques, Transform, VectorSurvey, VectorTask, VectorTechniques, Vectors, draw,
};
use simjoin_kernels::distance::LANES;
use std::sync::Arc;

/// The number of rows whose pairs represent all pairs.
const PAIRED: usize = 512;
/// Vectors of up to this many coordinates are compared in all of them first.
const FEW: usize = 48;
/// The smallest number of coordinates that are compared first if there are more.
const LEAST: usize = 32;

/// Draws a sample of the rows, and returns the techniques and the survey.
pub fn vector_techniques(task: &VectorTask<'_>) -> VectorTechniques {
    let sample = draw(task, Fit::SAMPLE);
    let transform = Transform::best(task, &sample);
    let (survey, head) = survey(task, &transform, &sample);
    let fit = Arc::new(Fit { transform, head });
    let all: Techniques<Vectors> = vec![
        Box::new(Quantile { fit: fit.clone() }),
        Box::new(Grid { fit: fit.clone() }),
        Box::new(NestedLoop),
    ];
    VectorTechniques { all, survey, fit }
}

/// Returns the techniques that need no sample of the rows.
pub fn vector_techniques_unseen() -> Techniques<Vectors> {
    vec![Box::new(NestedLoop)]
}

/// Returns the survey of the sample, and the number of coordinates to compare first.
fn survey(
    task: &VectorTask<'_>,
    transform: &Transform,
    sample: &[Vec<f64>],
) -> (VectorSurvey, usize) {
    let m = transform.coordinates();
    let rows =
        (task.probe.len() as f64, if task.is_self_join() { 0.0 } else { task.build.len() as f64 });
    let n = sample.len().min(PAIRED);
    let step = (sample.len() / n.max(1)).max(1);
    let flat: Vec<f64> = sample.iter().step_by(step).take(n).flatten().copied().collect();
    let d = task.dimension();
    let mut images = vec![0f32; n * m];
    // Rows without a direction are reported later.
    let drawn =
        simjoin_core::VectorCollection::of_entries("sample", d, simjoin_core::Elements::F64(flat));
    let longest = match drawn {
        Ok(vectors) if n > 0 => transform.images(&vectors, 0..n, &mut images, m),
        _ => 0.0,
    };
    let near = transform.reach(task, longest).0;
    let near = near * near;

    let bounded = m.min(quantile::BOUNDED);
    let builds = if task.is_self_join() { rows.0 } else { rows.1 };
    let widths = panel_widths(&images, m, bounded, builds);

    // Coordinates after which pairs are counted: multiples of eight, and all of them.
    let stops: Vec<usize> = (1..=m).filter(|&i| i % 8 == 0 || i == m).collect();
    let mut left = vec![0u64; stops.len()];
    let (mut pairs, mut boxes, mut cells) = (0u64, 0u64, 0u64);
    let cell_coordinates = m.min(grid::CELL_COORDINATES);
    let width = near.sqrt();
    for a in 0..n {
        let x = &images[a * m..(a + 1) * m];
        for b in a + 1..n {
            let y = &images[b * m..(b + 1) * m];
            pairs += 1;
            let gap: f64 = (0..bounded)
                .map(|i| {
                    let width = (widths[a * bounded + i] + widths[b * bounded + i]) / 2.0;
                    f64::from(((x[i] - y[i]).abs() - width).max(0.0)).powi(2)
                })
                .sum();
            boxes += u64::from(gap <= near);
            cells += u64::from(
                (0..cell_coordinates).all(|i| f64::from((x[i] - y[i]).abs()) <= 1.5 * width),
            );
            let (mut square, mut from) = (0f32, 0);
            for (stop, left) in stops.iter().zip(&mut left) {
                square += x[from..*stop]
                    .iter()
                    .zip(&y[from..*stop])
                    .map(|(x, y)| (x - y) * (x - y))
                    .sum::<f32>();
                from = *stop;
                if f64::from(square) > near {
                    break;
                }
                *left += 1;
            }
        }
    }
    // An event that did not occur counts as half an event.
    let part = |count: u64| (count as f64 + 0.5) / (pairs as f64 + 1.0);
    let head = if m <= FEW {
        m
    } else {
        // A coordinate of the head costs about a thirtieth of a cycle a pair, as most blocks of pairs end
        // early; comparing the rest costs about a hundred cycles. (2-core AMD EPYC, MNIST, 2026-11-15)
        let cost = |at: usize| stops[at] as f64 / 30.0 + part(left[at]) * 100.0;
        let able = (0..stops.len()).filter(|&at| stops[at] >= LEAST);
        able.min_by(|&a, &b| cost(a).total_cmp(&cost(b))).map_or(m, |at| stops[at])
    };
    let at_head = stops.iter().position(|&stop| stop == head).unwrap_or(0);
    let count = |at: usize| left.get(at).copied().unwrap_or(0);
    let survey = VectorSurvey {
        rows,
        pairs: task.pairs(),
        dimension: d,
        coordinates: m,
        head,
        rotated: transform.rotated(),
        boxes: part(boxes),
        near_by_head: part(count(at_head)),
        near_by_image: part(count(stops.len().saturating_sub(1))),
        cells: (m <= grid::MOST).then(|| part(cells)),
    };
    (survey, head)
}

/// Estimates the width of the panel around each image of a sample, in an index over `rows` rows. The sample is cut into
/// quantiles as the index would be; each further cut halves the widest coordinate.
fn panel_widths(images: &[f32], m: usize, bounded: usize, rows: f64) -> Vec<f32> {
    let n = images.len() / m;
    let mut sorted: Vec<(f32, u32)> = (0..n as u32).map(|row| (0.0, row)).collect();
    quantile::cut(images, m, bounded, &mut sorted);
    let further = (rows / n.max(1) as f64).max(1.0).log2().round() as usize;
    let mut all = vec![0f32; n * bounded];
    for part in sorted.chunks(LANES) {
        let mut widths: Vec<f32> = (0..bounded)
            .map(|i| {
                let of = |&(_, row): &(f32, u32)| images[row as usize * m + i];
                let low = part.iter().map(of).fold(f32::INFINITY, f32::min);
                part.iter().map(of).fold(f32::NEG_INFINITY, f32::max) - low
            })
            .collect();
        for _ in 0..further {
            if let Some(widest) = widths.iter_mut().max_by(|a, b| a.total_cmp(b)) {
                *widest /= 2.0;
            }
        }
        for &(_, row) in part {
            all[row as usize * bounded..][..bounded].copy_from_slice(&widths);
        }
    }
    all
}

/// Iterates over the positions of the bits that are set.
#[derive(Clone, Copy)]
struct Bits(u16);

fn bits(mask: u16) -> Bits {
    Bits(mask)
}

impl Iterator for Bits {
    type Item = usize;

    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        let place = self.0.trailing_zeros() as usize;
        self.0 &= self.0.wrapping_sub(1);
        (place < 16).then_some(place)
    }
}

impl DoubleEndedIterator for Bits {
    #[inline(always)]
    fn next_back(&mut self) -> Option<usize> {
        let place = self.0.checked_ilog2()?;
        self.0 &= !(1 << place);
        Some(place as usize)
    }
}
