//! How are all pairs compared without an index?
//!
//! This is the nested loop join in blocks. Rows are packed into panels of sixteen images, which stay in the cache while
//! they are compared with all others. Up to [`FEW`] dimensions, squared differences are summed until no pair of a block is
//! left. With more dimensions, the distance is `|x|² + |y|² − 2·x·y`, whose products cost one operation instead of two.
//!
//! # Flow
//!
//! ```text
//! block of probes, packed ─┐
//!                          ├─ 16 × 16 pairs at a time ─ near? ─ predicate
//! block of builds, packed ─┘
//! ```
//!
//! In a self-join, a block is only compared with itself and later blocks, so each pair is compared once.
//!
//! # Exactness
//!
//! The filter's limits allow for all its errors (`images.rs` of `simjoin-engine`, `simjoin_kernels::distance`).
//!
//! # Memory
//!
//! Two blocks per worker, a few MiB for any input.

use super::bits;
use super::verify::{FoundPairs, Verifier};
use rayon::prelude::*;
use simjoin_core::{Result, Sink, VectorCollection, VectorPair};
use simjoin_engine::{
    Budget, Cost, CostTable, Limits, Prepared, Technique, Transform, VectorSurvey, VectorTask,
    Vectors, Worker, draw,
};
use simjoin_kernels::distance::{Hits, LANES, NOWHERE, Screen, product_error};
use std::ops::{ControlFlow, Range};

/// The technique `nested-loop`.
pub struct NestedLoop;

/// The largest number of dimensions in which differences are summed.
const FEW: usize = 24;
/// The bytes of a packed block of builds, which stays in the second-level cache.
const BLOCK: usize = 384 << 10;
/// The largest size of a block of probes, in blocks of builds.
const BLOCKS: usize = 8;

impl Technique<Vectors> for NestedLoop {
    fn name(&self) -> &'static str {
        "nested-loop"
    }

    fn joins_any_range(&self) -> bool {
        false
    }

    // Measured on a 2-core AMD EPYC (Zen 4), 2026-11-15.
    fn cost(&self, survey: &VectorSurvey, costs: &CostTable) -> Option<Cost> {
        let pair = if survey.dimension <= FEW { 0.08e-9 } else { 0.1e-9 };
        let pair = pair + survey.dimension as f64 * 0.015e-9;
        let near = survey.near_by_image * if survey.dimension <= FEW { 0.3e-9 } else { 1.5e-9 };
        let rows = survey.rows.0 + survey.rows.1;
        Some(Cost::of_parallel(costs.scale * (survey.pairs * (pair + near) + rows * 50e-9)))
    }

    fn memory_bytes(&self, task: &VectorTask<'_>, _: &Range<u32>, threads: usize) -> u64 {
        let builds = block_rows(task.dimension()) as u64;
        let block = 4 * builds * task.dimension() as u64;
        let rows = 16 * (BLOCK as u64 / 64);
        (BLOCKS as u64 + 2) * threads as u64 * (block + rows) + Verifier::memory_bytes(task)
    }

    fn prepare<'a>(
        &self,
        task: &VectorTask<'a>,
        probes: &Range<u32>,
        _budget: &Budget,
    ) -> Result<Box<dyn Prepared<Vectors> + 'a>> {
        let rows = block_rows(task.dimension());
        // Enough pieces for all threads, and no piece larger than its block.
        let per_piece = (task.probe.len() / 64).next_multiple_of(rows).clamp(rows, rows * BLOCKS);
        Ok(Box::new(PreparedLoop::new(task, probes, per_piece)?))
    }
}

/// The technique `nested-loop` for any range of probes, in pieces of a certain size with all that they meet.
pub struct StripedLoop {
    /// The number of probes of a piece.
    pub stripe: usize,
}

impl Technique<Vectors> for StripedLoop {
    fn name(&self) -> &'static str {
        NestedLoop.name()
    }

    fn variant(&self) -> String {
        "stripes".into()
    }

    fn cost(&self, survey: &VectorSurvey, costs: &CostTable) -> Option<Cost> {
        NestedLoop.cost(survey, costs)
    }

    fn memory_bytes(&self, task: &VectorTask<'_>, range: &Range<u32>, threads: usize) -> u64 {
        let stripe = 8 * (self.stripe * (task.dimension() + 4)) as u64;
        NestedLoop.memory_bytes(task, range, threads) + threads as u64 * stripe
    }

    fn prepare<'a>(
        &self,
        task: &VectorTask<'a>,
        probes: &Range<u32>,
        _budget: &Budget,
    ) -> Result<Box<dyn Prepared<Vectors> + 'a>> {
        Ok(Box::new(PreparedLoop::new(task, probes, self.stripe)?))
    }
}

impl<'a> PreparedLoop<'a> {
    fn new(task: &VectorTask<'a>, probes: &Range<u32>, per_piece: usize) -> Result<Self> {
        let sample = draw(task, 256);
        let many = task.dimension() > FEW;
        let transform = Transform::axes(task, &sample, many);
        let longest = longest(&transform, task.probe).max(longest(&transform, task.build));
        let limits = transform.limits(task, longest);
        let verifier = Verifier::new(task)?;
        let reach = transform.reach(task, longest);
        // Products are too inexact for rows that are long compared with the distance.
        let longest = transform.longest_folded(longest);
        let blur = 2.0 * product_error(task.dimension()) * longest * longest;
        let products = many && blur <= reach.0 * reach.0;
        let (task, probes, rows) = (*task, probes.clone(), block_rows(task.dimension()));
        Ok(PreparedLoop {
            task,
            probes,
            transform,
            limits,
            reach,
            products,
            verifier,
            rows,
            per_piece,
        })
    }
}

/// Returns the number of rows of a block of builds, which fill a whole number of panels.
fn block_rows(d: usize) -> usize {
    (BLOCK / (4 * d) / LANES * LANES).clamp(LANES, 1024)
}

/// Returns the length of the longest image.
fn longest(transform: &Transform, side: &VectorCollection) -> f64 {
    let d = side.dimension();
    let block = ((1 << 16) / d).clamp(1, 1024);
    (0..side.len().div_ceil(block))
        .into_par_iter()
        .map(|at| {
            let rows = at * block..((at + 1) * block).min(side.len());
            transform.images(side, rows.clone(), &mut vec![0.0; rows.len() * d], d)
        })
        .reduce(|| 0.0, f64::max)
}

/// A join that is prepared.
struct PreparedLoop<'a> {
    task: VectorTask<'a>,
    probes: Range<u32>,
    transform: Transform,
    limits: Limits,
    reach: (f64, f64),
    products: bool,
    verifier: Verifier<'a>,
    /// The number of rows of a block of builds.
    rows: usize,
    /// The number of rows of a block of probes, which is a piece.
    per_piece: usize,
}

impl Prepared<Vectors> for PreparedLoop<'_> {
    fn details(&self) -> String {
        let how = if self.products { "products" } else { "differences" };
        format!("{how} in blocks of {} rows", self.rows)
    }

    fn pieces(&self) -> usize {
        self.probes.len().div_ceil(self.per_piece)
    }

    fn go_on(&mut self, probes: &Range<u32>) -> bool {
        self.probes = probes.clone();
        true
    }

    fn worker<'w>(&'w self) -> Result<Box<dyn Worker<Vectors> + 'w>> {
        Ok(Box::new(LoopWorker {
            of: self,
            screen: Screen::best(),
            found_pairs: FoundPairs::new(&self.verifier),
            hits: Hits::default(),
            probes: Packed::default(),
            builds: Packed::default(),
        }))
    }
}

/// Rows that are packed into panels.
#[derive(Default)]
struct Packed {
    images: Vec<f32>,
    panels: Vec<f32>,
    /// For products: the row's part of the smallest product of a near pair. The two parts of a pair are added.
    least: Vec<f32>,
    /// For products: `|x|²`.
    squares: Vec<f64>,
}

impl Packed {
    fn pack(&mut self, of: &PreparedLoop<'_>, side: &VectorCollection, rows: Range<usize>) {
        let d = side.dimension();
        let count = rows.len();
        self.images.resize(count * d, 0.0);
        of.transform.images(side, rows, &mut self.images, d);
        let panels = count.div_ceil(LANES);
        // Products with padding must not be the difference of two infinities.
        let nowhere = if of.products { 0.0 } else { NOWHERE };
        self.panels.clear();
        self.panels.resize(panels * d * LANES, nowhere);
        for (panel, rows) in
            self.panels.chunks_exact_mut(d * LANES).zip(self.images.chunks(d * LANES))
        {
            for (lane, row) in rows.chunks_exact(d).enumerate() {
                for (i, &x) in row.iter().enumerate() {
                    panel[LANES * i + lane] = x;
                }
            }
        }
        if of.products {
            let error = product_error(d);
            let near = of.reach.0 * of.reach.0 * (1.0 + 1e-5);
            self.squares.clear();
            self.squares.extend(
                self.images
                    .chunks_exact(d)
                    .map(|row| row.iter().map(|&x| f64::from(x) * f64::from(x)).sum::<f64>()),
            );
            self.least.clear();
            self.least.extend(
                self.squares
                    .iter()
                    .map(|square| (0.5 * square * (1.0 - error) - 0.25 * near) as f32),
            );
            self.least.resize(panels * LANES, f32::MAX);
            self.squares.resize(panels * LANES, 0.0);
        }
    }

    fn panel(&self, at: usize, d: usize) -> &[f32] {
        &self.panels[at * d * LANES..][..d * LANES]
    }

    fn least(&self, at: usize) -> &[f32; LANES] {
        self.least[at * LANES..].first_chunk().unwrap_or(&[f32::MAX; LANES])
    }
}

struct LoopWorker<'w> {
    of: &'w PreparedLoop<'w>,
    screen: Screen,
    found_pairs: FoundPairs<'w, 'w>,
    hits: Hits,
    probes: Packed,
    builds: Packed,
}

impl Worker<Vectors> for LoopWorker<'_> {
    fn run(&mut self, piece: usize, sink: &mut dyn Sink<VectorPair>) -> Result<ControlFlow<()>> {
        self.found_pairs.begin(sink);
        let of = self.of;
        let first = of.probes.start as usize + piece * of.per_piece;
        let probes = first..(first + of.per_piece).min(of.probes.end as usize);
        let mut start = if of.task.is_self_join() { first } else { 0 };
        self.probes.pack(of, of.task.probe, probes.clone());
        while start < of.task.build.len() {
            let builds = start..(start + of.rows).min(of.task.build.len());
            start = builds.end;
            self.builds.pack(of, of.task.build, builds.clone());
            if self.block(&probes, &builds, of.limits, sink).is_break() || sink.stopped() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(self.found_pairs.end(sink))
    }

    fn candidates(&self) -> u64 {
        self.found_pairs.candidates()
    }
}

impl LoopWorker<'_> {
    /// Compares every pair of panels of two blocks.
    fn block(
        &mut self,
        probes: &Range<usize>,
        builds: &Range<usize>,
        limits: Limits,
        sink: &mut dyn Sink<VectorPair>,
    ) -> ControlFlow<()> {
        let d = self.of.task.dimension();
        let all: [u32; LANES] = std::array::from_fn(|lane| lane as u32);
        for p in 0..probes.len().div_ceil(LANES) {
            let first = probes.start + p * LANES;
            let count = (probes.end - first).min(LANES);
            let lanes = &all[..count];
            for b in 0..builds.len().div_ceil(LANES) {
                let other = builds.start + b * LANES;
                if self.of.task.is_self_join() && other + LANES <= first {
                    continue;
                }
                let found = if self.of.products {
                    self.screen.products(
                        self.probes.panel(p, d),
                        self.builds.panel(b, d),
                        d,
                        self.probes.least(p),
                        self.builds.least(b),
                        &mut self.hits,
                    )
                } else {
                    self.screen.direct(
                        self.probes.panel(p, d),
                        LANES,
                        lanes,
                        self.builds.panel(b, d),
                        LANES,
                        d,
                        limits.near,
                        &mut self.hits,
                    )
                };
                if found > 0 {
                    self.candidates(p, b, (first, count), other, limits);
                }
            }
            self.found_pairs.pass_on(sink)?;
        }
        ControlFlow::Continue(())
    }

    fn candidates(
        &mut self,
        p: usize,
        b: usize,
        (first, count): (usize, usize),
        other: usize,
        limits: Limits,
    ) {
        let (near, sure) = self.of.reach;
        let near = near * near * (1.0 + 1e-5);
        let error = product_error(self.of.task.dimension());
        for lane in 0..count {
            let probe = first + lane;
            let mut mask = self.hits.masks[lane];
            if self.of.task.is_self_join() && other <= probe {
                // Only rows after the probe count.
                mask &= u16::MAX.checked_shl((probe - other + 1) as u32).unwrap_or(0);
            }
            if !self.of.products {
                mask = self.found_pairs.count_sure(mask, &self.hits.squares[lane], limits.sure);
            }
            for found in bits(mask) {
                let build = other + found;
                let value = self.hits.squares[lane][found];
                let sure = if self.of.products {
                    // The value is half of `near + error·both − |x − y|²`, with an error of at most `error·both`.
                    let both = self.probes.squares[p * LANES + lane]
                        + self.builds.squares[b * LANES + found];
                    let most = near + 3.0 * error * both - 2.0 * f64::from(value);
                    sure > 0.0 && most <= sure * sure
                } else {
                    value <= limits.sure
                };
                self.found_pairs.candidate(probe as u32, build as u32, sure);
            }
        }
    }
}
