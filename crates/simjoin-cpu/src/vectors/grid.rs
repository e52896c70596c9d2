//! Which cells of a grid can hold the partners of a cell?
//!
//! The cells of the grid are as wide as the distance, in the first one to three coordinates of the images, so partners
//! are in the same cell or in a neighbouring one. Points are sorted by cell. Three cells in a row are one range of
//! memory, which is compared sixteen points at a time in all coordinates. Cells are visited in order, and so are the
//! rows of their neighbours: a cursor per row finds them.
//!
//! # Flow
//!
//! ```text
//! vectors ─ images ─ sort by cell ─ for each cell: rows of neighbouring cells ─ 16 points at a time ─ predicate
//! ```
//!
//! In a self-join, a cell is only compared with its own later points, and with later rows.
//!
//! # Exactness
//!
//! Images of accepted pairs are within `√near` (see `images.rs` of `simjoin-engine`), hence also in each coordinate. A
//! cell is slightly wider, so the cells of a pair differ by at most one in each coordinate. The comparison of points is
//! exact for the same reasons as every filter on images.
//!
//! # Memory
//!
//! The images twice while they are sorted (4 bytes a coordinate), and 28 bytes a row.

use super::bits;
use super::verify::{FoundPairs, Verifier};
use rayon::prelude::*;
use simjoin_core::{Error, Result, Sink, VectorPair};
use simjoin_engine::{
    Budget, Cost, CostTable, Fit, Limits, Prepared, Technique, VectorSurvey, VectorTask, Vectors,
    Worker,
};
use simjoin_kernels::distance::{Hits, LANES, NOWHERE, Screen};
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

/// The technique `grid`.
pub struct Grid {
    pub(super) fit: Arc<Fit>,
}

/// The largest number of coordinates that determine a cell.
pub(super) const CELL_COORDINATES: usize = 3;
/// The largest number of coordinates of an image. With more, a grid over three of them filters too little.
pub(super) const MOST: usize = 64;
/// The bits of a cell's position in one coordinate. Positions begin at 1, so that the position before the first is 0.
const BITS: u32 = 21;
/// The largest number of cells in one coordinate.
const CELLS: f64 = ((1u64 << BITS) - 4) as f64;
/// The approximate number of points in a piece.
const PIECE: usize = 2048;

impl Technique<Vectors> for Grid {
    fn name(&self) -> &'static str {
        "grid"
    }

    fn joins_any_range(&self) -> bool {
        false
    }

    // Measured on a 2-core AMD EPYC (Zen 4), 2026-11-15.
    fn cost(&self, survey: &VectorSurvey, costs: &CostTable) -> Option<Cost> {
        let cells = survey.cells?;
        let rows = survey.rows.0 + survey.rows.1;
        let neighbours = 3f64.powi(survey.coordinates.min(CELL_COORDINATES) as i32 - 1);
        let pair = 0.1e-9 + survey.coordinates as f64 * 0.02e-9;
        let sorting = 30e-9 * rows.max(2.0).log2() / 16.0;
        let rows = rows * (sorting + survey.coordinates as f64 * 4e-9 + neighbours * 10e-9);
        let pairs = survey.pairs * (cells * pair + survey.near_by_image * 0.3e-9);
        Some(Cost::of_parallel(costs.scale * (rows + pairs)))
    }

    fn memory_bytes(&self, task: &VectorTask<'_>, _: &Range<u32>, threads: usize) -> u64 {
        let m = self.fit.transform.coordinates() as u64;
        let rows = task.probe.len() + if task.is_self_join() { 0 } else { task.build.len() };
        rows as u64 * (8 * m + 28) + Verifier::memory_bytes(task) + (threads as u64) * (1 << 16)
    }

    fn prepare<'a>(
        &self,
        task: &VectorTask<'a>,
        _: &Range<u32>,
        _budget: &Budget,
    ) -> Result<Box<dyn Prepared<Vectors> + 'a>> {
        // Rows without a direction are reported first.
        let verifier = Verifier::new(task)?;
        let transform = &self.fit.transform;
        let m = transform.coordinates();
        if m > MOST {
            return Err(Error::Config(format!(
                "technique `grid` supports up to {MOST} coordinates, but these vectors have {m}; use \
                 technique `quantile`"
            )));
        }
        let (probes, longest) = transform.all_images(task.probe, m);
        let other = (!task.is_self_join()).then(|| transform.all_images(task.build, m));
        let longest = other.as_ref().map_or(longest, |(_, other)| longest.max(*other));
        let limits = transform.limits(task, longest);
        let cell_coordinates = m.min(CELL_COORDINATES);
        let mut low = [f32::INFINITY; CELL_COORDINATES];
        let mut high = [f32::NEG_INFINITY; CELL_COORDINATES];
        let builds = other.as_ref().map_or(&[][..], |(images, _)| images);
        for image in probes.chunks_exact(m).chain(builds.chunks_exact(m)) {
            for (i, &x) in image[..cell_coordinates].iter().enumerate() {
                low[i] = low[i].min(x);
                high[i] = high[i].max(x);
            }
        }
        let least = f64::from(limits.near).sqrt() * (1.0 + 1e-6);
        let width = std::array::from_fn(|i| {
            let extent = f64::from(high[i]) - f64::from(low[i]);
            if extent.is_finite() { least.max(extent / CELLS) } else { 1.0 }
        });
        let layout = GridLayout { cell_coordinates, low, width };
        let probe = Cells::new(&probes, m, &layout);
        let build = other.map(|(images, _)| Cells::new(&images, m, &layout));
        let mut pieces = Vec::new();
        let mut first = 0;
        for cell in 0..probe.len() {
            if (probe.starts[cell + 1] - probe.starts[first]) as usize >= PIECE
                || cell + 1 == probe.len()
            {
                pieces.push(first..cell + 1);
                first = cell + 1;
            }
        }
        Ok(Box::new(PreparedGrid { probe, build, limits, verifier, cell_coordinates, pieces }))
    }
}

/// The arrangement of cells.
struct GridLayout {
    cell_coordinates: usize,
    low: [f32; CELL_COORDINATES],
    width: [f64; CELL_COORDINATES],
}

impl GridLayout {
    /// Returns the cell of an image, with the last coordinate in the lowest bits.
    fn cell(&self, image: &[f32]) -> u64 {
        (0..self.cell_coordinates).fold(0, |cell, i| {
            let place = (f64::from(image[i]) - f64::from(self.low[i])) / self.width[i];
            cell << BITS | (place as u64 + 1)
        })
    }
}

/// One side of a join, sorted by cell.
struct Cells {
    /// The cells that hold points, in order.
    keys: Vec<u64>,
    /// The position of the first point of each cell, and the number of points at the end.
    starts: Vec<u32>,
    /// The row of each point.
    rows: Vec<u32>,
    /// The coordinates of all points, one coordinate after another, each as long as the stride.
    points: Vec<f32>,
    stride: usize,
    coordinates: usize,
}

impl Cells {
    fn new(images: &[f32], m: usize, layout: &GridLayout) -> Self {
        let mut sorted: Vec<(u64, u32)> = images
            .par_chunks_exact(m)
            .enumerate()
            .map(|(row, image)| (layout.cell(image), row as u32))
            .collect();
        sorted.par_sort_unstable();
        let (mut keys, mut starts) = (Vec::new(), Vec::new());
        for (at, (key, _)) in sorted.iter().enumerate() {
            if keys.last() != Some(key) {
                keys.push(*key);
                starts.push(at as u32);
            }
        }
        starts.push(sorted.len() as u32);
        let rows: Vec<u32> = sorted.into_iter().map(|(_, row)| row).collect();
        let stride = rows.len() + LANES;
        let mut points = vec![NOWHERE; m * stride];
        points.par_chunks_mut(stride).enumerate().for_each(|(i, column)| {
            for (to, &row) in column.iter_mut().zip(&rows) {
                *to = images[row as usize * m + i];
            }
        });
        Cells { keys, starts, rows, points, stride, coordinates: m }
    }

    fn len(&self) -> usize {
        self.keys.len()
    }

    /// Returns the first cell that is not before a key.
    fn first(&self, key: u64) -> usize {
        self.keys.partition_point(|&other| other < key)
    }
}

/// A join with its grid.
struct PreparedGrid<'a> {
    probe: Cells,
    /// The build side; `None` in a self-join.
    build: Option<Cells>,
    limits: Limits,
    verifier: Verifier<'a>,
    cell_coordinates: usize,
    /// The cells of each piece.
    pieces: Vec<Range<usize>>,
}

impl PreparedGrid<'_> {
    fn build(&self) -> &Cells {
        self.build.as_ref().unwrap_or(&self.probe)
    }

    /// Returns the offsets of the rows of neighbours; in a self-join, only of those after the own row.
    fn rows(&self) -> Vec<i64> {
        let mut rows = vec![0i64];
        for _ in 1..self.cell_coordinates {
            let wider = |row: i64| [-1, 0, 1].map(|step| (row + step) << BITS);
            rows = rows.into_iter().flat_map(wider).collect();
        }
        if self.build.is_none() {
            rows.retain(|&row| row > 0);
        }
        rows
    }
}

impl Prepared<Vectors> for PreparedGrid<'_> {
    fn details(&self) -> String {
        format!("{} cells in {} coordinates", self.build().len(), self.cell_coordinates)
    }

    fn pieces(&self) -> usize {
        self.pieces.len()
    }

    fn worker<'w>(&'w self) -> Result<Box<dyn Worker<Vectors> + 'w>> {
        Ok(Box::new(GridWorker {
            of: self,
            screen: Screen::best(),
            found_pairs: FoundPairs::new(&self.verifier),
            hits: Hits::default(),
            rows: self.rows(),
        }))
    }
}

struct GridWorker<'w> {
    of: &'w PreparedGrid<'w>,
    screen: Screen,
    found_pairs: FoundPairs<'w, 'w>,
    hits: Hits,
    rows: Vec<i64>,
}

impl Worker<Vectors> for GridWorker<'_> {
    fn run(&mut self, piece: usize, sink: &mut dyn Sink<VectorPair>) -> Result<ControlFlow<()>> {
        self.found_pairs.begin(sink);
        let of = self.of;
        let (probe, build) = (&of.probe, of.build());
        let (cells, rows) = (of.pieces[piece].clone(), self.rows.clone());
        let key = |cell: usize, row: i64| probe.keys[cell].wrapping_add_signed(row);
        // The first cell of each row of neighbours, and the first cell after the row.
        let mut cursors: Vec<(usize, usize)> = rows
            .iter()
            .map(|&row| {
                let first = build.first(key(cells.start, row) - 1);
                (first, first)
            })
            .collect();
        for cell in cells {
            let own = probe.starts[cell] as usize..probe.starts[cell + 1] as usize;
            if of.build.is_none() {
                let follows = probe.keys.get(cell + 1) == Some(&(probe.keys[cell] + 1));
                let end = probe.starts[cell + 1 + usize::from(follows)] as usize;
                self.compare(&own, own.start..end, true);
            }
            for (&row, (first, after)) in rows.iter().zip(&mut cursors) {
                let key = key(cell, row);
                while build.keys.get(*first).is_some_and(|&other| other < key - 1) {
                    *first += 1;
                }
                *after = (*after).max(*first);
                while build.keys.get(*after).is_some_and(|&other| other <= key + 1) {
                    *after += 1;
                }
                if first < after {
                    let range = build.starts[*first] as usize..build.starts[*after] as usize;
                    self.compare(&own, range, false);
                }
            }
            if self.found_pairs.pass_on(sink).is_break() || sink.stopped() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(self.found_pairs.end(sink))
    }

    fn candidates(&self) -> u64 {
        self.found_pairs.candidates()
    }
}

impl GridWorker<'_> {
    /// Compares the points of a cell with a range of points; `after` says to compare each point only with later ones.
    fn compare(&mut self, own: &Range<usize>, range: Range<usize>, after: bool) {
        let (probe, build, limits) = (&self.of.probe, self.of.build(), self.of.limits);
        let mut start = own.start;
        while start < own.end {
            let end = (start + LANES).min(own.end);
            let count = end - start;
            let chosen: [u32; LANES] = std::array::from_fn(|at| (start + at) as u32);
            let mut at = if after { start } else { range.start };
            while at < range.end {
                let found = self.screen.direct(
                    &probe.points,
                    probe.stride,
                    &chosen[..count],
                    &build.points[at..],
                    build.stride,
                    build.coordinates,
                    limits.near,
                    &mut self.hits,
                );
                if found > 0 {
                    for point in start..end {
                        let mut mask = self.hits.masks[point - start];
                        // Points beyond the range, or not after the own point, are masked.
                        let rest = range.end - at;
                        if rest < LANES {
                            mask &= (1u16 << rest) - 1;
                        }
                        if after && point >= at {
                            mask &= u16::MAX.checked_shl((point - at + 1) as u32).unwrap_or(0);
                        }
                        let squares = &self.hits.squares[point - start];
                        mask = self.found_pairs.count_sure(mask, squares, limits.sure);
                        for lane in bits(mask) {
                            let sure = self.hits.squares[point - start][lane] <= limits.sure;
                            self.found_pairs.candidate(
                                probe.rows[point],
                                build.rows[at + lane],
                                sure,
                            );
                        }
                    }
                }
                at += LANES;
            }
            start = end;
        }
    }
}
