//! Which pages of an index can hold the partners of a page?
//!
//! This is the multi-level quantile index of Böhm, Noll, Plant and Zherdin ("Index-supported Similarity Join on
//! Graphics Processors", 2009). The points are sorted and cut into quantiles level by level, and pages that a page cannot
//! reach are skipped level by level. Three things differ from the paper. A cut divides the coordinate that varies most at
//! about its median; four cuts make a level of fanout 16, and there are as many levels as the data needs. Nodes have
//! bounds in up to sixteen coordinates. Points are compared as images (`simjoin-engine`), rotated if that helps, the
//! first coordinates of sixteen points at a time.
//!
//! # Flow
//!
//! ```text
//! vectors ─ images ─ cut into quantiles ─ panels of 16 ─ boxes of panels, of 16 panels, of 256, …
//!
//! panel of 16 probes ─ boxes near its box ─ boxes near each probe ─ head of the images ─ rest of the images ─ predicate
//!                      16 at a time          16 at a time            16 × 8 at a time     pair by pair         pair by pair
//! ```
//!
//! In a self-join, a panel is only compared with itself and later panels.
//!
//! # Exactness
//!
//! Images of accepted pairs are within [`Limits::near`]. So are the boxes that hold them, and the heads of the images,
//! whose sums have fewer squares. Pairs within [`Limits::sure`] are accepted without the predicate if the distance is
//! not needed.
//!
//! # Memory
//!
//! The images, twice while they are sorted (4 bytes a coordinate; at most 97 coordinates beyond 160
//! dimensions), 12 bytes a row, and boxes: a sixteenth of the images' first coordinates, twice.

use super::bits;
use super::verify::{FoundPairs, Verifier};
use rayon::prelude::*;
use simjoin_core::{Result, Sink, VectorCollection, VectorCount, VectorPair};
use simjoin_engine::{
    Budget, Cost, CostTable, Fit, Limits, Prepared, Technique, Transform, VectorSurvey, VectorTask,
    Vectors, Worker,
};
use simjoin_kernels::distance::{Hits, LANES, NOWHERE, Screen};
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

/// The technique `quantile`.
pub struct Quantile {
    pub(super) fit: Arc<Fit>,
}

/// The largest number of coordinates in which boxes have bounds.
pub(super) const BOUNDED: usize = 16;

impl Technique<Vectors> for Quantile {
    fn name(&self) -> &'static str {
        "quantile"
    }

    fn joins_any_range(&self) -> bool {
        false
    }

    // Measured on a 2-core AMD EPYC (Zen 4), 2026-11-15.
    fn cost(&self, survey: &VectorSurvey, costs: &CostTable) -> Option<Cost> {
        let rows = survey.rows.0 + survey.rows.1;
        let imaging = if survey.rotated {
            (survey.dimension * survey.coordinates) as f64 * 0.08e-9
        } else {
            survey.coordinates as f64 * 1e-9
        };
        let sorting = 40e-9 * rows.max(2.0).log2() / 16.0;
        let pair = 0.08e-9 + survey.head as f64 * 0.012e-9;
        // Pairs whose heads are near are compared one by one in the other coordinates, if there are any.
        let rest = if survey.head < survey.coordinates { survey.near_by_head * 8e-9 } else { 0.0 };
        let asked =
            if survey.head < survey.coordinates { survey.dimension as f64 * 0.1e-9 } else { 0.0 };
        let near = survey.near_by_image * (0.3e-9 + asked);
        let pairs = survey.pairs * (survey.boxes * pair + rest + near);
        Some(Cost::of_parallel(costs.scale * (rows * (imaging + sorting + 150e-9) + pairs)))
    }

    fn memory_bytes(&self, task: &VectorTask<'_>, _: &Range<u32>, threads: usize) -> u64 {
        let m = self.fit.transform.coordinates().next_multiple_of(LANES) as u64 + 8;
        let rows = task.probe.len() + if task.is_self_join() { 0 } else { task.build.len() };
        rows as u64 * (8 * m + 32) + Verifier::memory_bytes(task) + (threads as u64) * (1 << 18)
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
        let images = |side| transform.all_images(side, transform.coordinates());
        let (probes, longest) = images(task.probe);
        let head = self.fit.head;
        let (probe, build, longest) = if task.is_self_join() {
            (Points::new(probes, task.probe, transform, head), None, longest)
        } else {
            let probe = Points::new(probes, task.probe, transform, head);
            let (builds, other) = images(task.build);
            let build = Points::new(builds, task.build, transform, head);
            (probe, Some(build), longest.max(other))
        };
        let limits = transform.limits(task, longest);
        let per_piece = (probe.panels() / 512).clamp(1, 64);
        let rotated = transform.rotated();
        Ok(Box::new(Index { probe, build, limits, verifier, per_piece, rotated }))
    }
}

/// One side of a join, in the order of its quantiles.
struct Points {
    /// The row of each point.
    rows: Vec<u32>,
    /// The first coordinates of the points of each panel.
    head: Vec<f32>,
    heads: usize,
    /// The other coordinates of each point, padded with zeros to a multiple of 16.
    rest: Vec<f32>,
    rests: usize,
    /// The boxes of panels, of 16 panels, and so on. Sixteen boxes have the layout of a panel.
    levels: Vec<Level>,
    bounded: usize,
}

struct Level {
    lows: Vec<f32>,
    highs: Vec<f32>,
    nodes: usize,
}

impl Points {
    fn new(images: Vec<f32>, side: &VectorCollection, transform: &Transform, heads: usize) -> Self {
        let m = transform.coordinates();
        let n = side.len();
        let mut sorted: Vec<(f32, u32)> = (0..n as u32).map(|row| (0.0, row)).collect();
        let bounded = heads.min(BOUNDED);
        cut(&images, m, bounded, &mut sorted);
        let rows: Vec<u32> = sorted.into_iter().map(|(_, row)| row).collect();
        let image = |row: u32| &images[row as usize * m..(row as usize + 1) * m];
        let panels = n.div_ceil(LANES);
        let mut head = vec![NOWHERE; panels * heads * LANES];
        head.par_chunks_mut(heads * LANES).zip(rows.par_chunks(LANES)).for_each(|(panel, rows)| {
            for (lane, &row) in rows.iter().enumerate() {
                for (i, &x) in image(row)[..heads].iter().enumerate() {
                    panel[LANES * i + lane] = x;
                }
            }
        });
        let rests = (m - heads).next_multiple_of(LANES);
        let mut rest = vec![0f32; if m > heads { n * rests } else { 0 }];
        if m > heads {
            rest.par_chunks_mut(rests).zip(&rows).for_each(|(to, &row)| {
                to[..m - heads].copy_from_slice(&image(row)[heads..]);
            });
        }
        drop(images);
        let levels = levels(&head, n, heads, bounded);
        Points { rows, head, heads, rest, rests, levels, bounded }
    }

    fn panels(&self) -> usize {
        self.rows.len().div_ceil(LANES)
    }

    /// Returns the number of points of a panel.
    fn count(&self, panel: usize) -> usize {
        (self.rows.len() - panel * LANES).min(LANES)
    }

    fn head(&self, panel: usize) -> &[f32] {
        &self.head[panel * self.heads * LANES..][..self.heads * LANES]
    }

    fn rest(&self, point: usize) -> &[f32] {
        &self.rest[point * self.rests..][..self.rests]
    }
}

/// The largest number of points that one thread sorts.
const ALONE: usize = 8192;

/// Sorts points into quantiles. The points are cut along the coordinate that varies most, so that the left part fills a
/// power of two of panels; then both parts are cut further.
pub(super) fn cut(images: &[f32], m: usize, bounded: usize, points: &mut [(f32, u32)]) {
    if points.len() <= LANES {
        return;
    }
    let mut left = LANES;
    while 2 * left < points.len() {
        left *= 2;
    }
    let by = widest(images, m, bounded, points);
    points.iter_mut().for_each(|(key, row)| *key = images[*row as usize * m + by]);
    points.select_nth_unstable_by(left, |a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let (left, right) = points.split_at_mut(left);
    if left.len() < ALONE {
        cut(images, m, bounded, left);
        cut(images, m, bounded, right);
    } else {
        rayon::join(|| cut(images, m, bounded, left), || cut(images, m, bounded, right));
    }
}

/// Returns the coordinate that varies most in a sample of the points.
fn widest(images: &[f32], m: usize, bounded: usize, points: &[(f32, u32)]) -> usize {
    const LOOKED_AT: usize = 64;
    let (mut sums, mut squares) = ([0f64; BOUNDED], [0f64; BOUNDED]);
    let step = (points.len() / LOOKED_AT).max(1);
    let mut count = 0.0;
    for (_, row) in points.iter().step_by(step) {
        let image = &images[*row as usize * m..][..bounded];
        for (i, &x) in image.iter().enumerate() {
            sums[i] += f64::from(x);
            squares[i] += f64::from(x) * f64::from(x);
        }
        count += 1.0;
    }
    let variance = |i: usize| squares[i] - sums[i] * sums[i] / count;
    (0..bounded).max_by(|&a, &b| variance(a).total_cmp(&variance(b)).then(b.cmp(&a))).unwrap_or(0)
}

/// Returns the boxes of panels, of 16 panels, and so on, until there are at most sixteen boxes.
fn levels(head: &[f32], n: usize, heads: usize, bounded: usize) -> Vec<Level> {
    let panels = n.div_ceil(LANES);
    let group = bounded * LANES;
    let empty = |nodes: usize| {
        let size = nodes.div_ceil(LANES).max(1) * group;
        Level { lows: vec![NOWHERE; size], highs: vec![NOWHERE; size], nodes }
    };
    let mut first = empty(panels);
    for panel in 0..panels {
        let count = (n - panel * LANES).min(LANES);
        for i in 0..bounded {
            let all = &head[panel * heads * LANES + i * LANES..][..count];
            let at = panel / LANES * group + i * LANES + panel % LANES;
            first.lows[at] = all.iter().copied().fold(f32::INFINITY, f32::min);
            first.highs[at] = all.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        }
    }
    let mut levels = vec![first];
    while let Some(below) = levels.last().filter(|level| level.nodes > LANES) {
        let mut level = empty(below.nodes.div_ceil(LANES));
        for node in 0..level.nodes {
            let count = (below.nodes - node * LANES).min(LANES);
            for i in 0..bounded {
                let from = node * group + i * LANES;
                let at = node / LANES * group + i * LANES + node % LANES;
                let all = |bounds: &[f32]| bounds[from..from + count].to_vec();
                level.lows[at] = all(&below.lows).into_iter().fold(f32::INFINITY, f32::min);
                level.highs[at] = all(&below.highs).into_iter().fold(f32::NEG_INFINITY, f32::max);
            }
        }
        levels.push(level);
    }
    levels
}

/// A join with its index.
struct Index<'a> {
    probe: Points,
    /// The build side; `None` in a self-join.
    build: Option<Points>,
    limits: Limits,
    verifier: Verifier<'a>,
    /// The number of probe panels in a piece.
    per_piece: usize,
    rotated: bool,
}

impl Index<'_> {
    fn build(&self) -> &Points {
        self.build.as_ref().unwrap_or(&self.probe)
    }

    fn search<'i>(&'i self) -> Search<'i> {
        Search {
            index: self,
            screen: Screen::best(),
            found_pairs: FoundPairs::new(&self.verifier),
            hits: Hits::default(),
            low: vec![0.0; self.probe.bounded],
            high: vec![0.0; self.probe.bounded],
            stack: Vec::new(),
            tested: 0,
            kept: 0,
        }
    }
}

impl Prepared<Vectors> for Index<'_> {
    fn details(&self) -> String {
        let build = self.build();
        format!(
            "{} levels, boxes in {} coordinates, {} compared first{}",
            build.levels.len(),
            build.bounded,
            build.heads,
            if self.rotated { ", rotated" } else { "" },
        )
    }

    fn pieces(&self) -> usize {
        self.probe.panels().div_ceil(self.per_piece)
    }

    fn worker<'w>(&'w self) -> Result<Box<dyn Worker<Vectors> + 'w>> {
        Ok(Box::new(self.search()))
    }

    fn estimate(&self) -> Option<f64> {
        const LOOKED_AT: usize = 128;
        let panels = self.probe.panels();
        if panels == 0 || self.build().rows.is_empty() {
            return Some(0.0);
        }
        let mut search = self.search();
        let mut sink = VectorCount::default();
        search.found_pairs.begin(&sink);
        let looked_at = LOOKED_AT.min(panels);
        for at in 0..looked_at {
            // Takes the middle panel of each of `looked_at` equal parts.
            let panel = (2 * at + 1) * panels / (2 * looked_at);
            search.panel(panel);
        }
        let _ = search.found_pairs.end(&mut sink);
        Some(sink.0 as f64 * panels as f64 / looked_at as f64)
    }
}

/// One thread's search through an index.
struct Search<'i> {
    index: &'i Index<'i>,
    screen: Screen,
    found_pairs: FoundPairs<'i, 'i>,
    hits: Hits,
    /// The lower bounds of the box of the probe panel.
    low: Vec<f32>,
    /// The upper bounds of the box of the probe panel.
    high: Vec<f32>,
    /// The levels and groups of sixteen nodes to visit.
    stack: Vec<(usize, usize)>,
    /// The number of probes that were tested with boxes of panels.
    tested: u64,
    /// The number of tested probes that were near.
    kept: u64,
}

impl Worker<Vectors> for Search<'_> {
    fn run(&mut self, piece: usize, sink: &mut dyn Sink<VectorPair>) -> Result<ControlFlow<()>> {
        self.found_pairs.begin(sink);
        let first = piece * self.index.per_piece;
        let last = (first + self.index.per_piece).min(self.index.probe.panels());
        for panel in first..last {
            self.panel(panel);
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

impl Search<'_> {
    /// FoundPairs the partners of a panel.
    fn panel(&mut self, panel: usize) {
        let Index { probe, limits, .. } = self.index;
        let build = self.index.build();
        let itself = self.index.build.is_none();
        let group = probe.bounded * LANES;
        for i in 0..probe.bounded {
            let at = panel / LANES * group + i * LANES + panel % LANES;
            self.low[i] = probe.levels[0].lows[at];
            self.high[i] = probe.levels[0].highs[at];
        }
        self.stack.clear();
        if build.panels() > 0 {
            self.stack.push((build.levels.len() - 1, 0));
        }
        while let Some((level, at)) = self.stack.pop() {
            let boxes = &build.levels[level];
            let range = at * group..(at + 1) * group;
            let (lows, highs) = (&boxes.lows[range.clone()], &boxes.highs[range]);
            let mut near = self.screen.boxes(lows, highs, &self.low, &self.high, limits.near);
            if itself {
                // Earlier panels have already been compared with this one.
                let first = (panel >> (4 * level)).saturating_sub(at * LANES);
                near &= u16::MAX.checked_shl(first as u32).unwrap_or(0);
            }
            if level == 0 {
                if near != 0 {
                    self.meet(panel, at, near, (lows, highs));
                }
            } else {
                // Pushed in reverse, so that the first node is visited first.
                for node in bits(near).rev() {
                    self.stack.push((level - 1, at * LANES + node));
                }
            }
        }
    }

    /// Compares a panel with the panels, of a group of sixteen, whose boxes are near.
    fn meet(&mut self, panel: usize, group: usize, near: u16, (lows, highs): (&[f32], &[f32])) {
        let Index { probe, limits, .. } = self.index;
        let build = self.index.build();
        let (count, head) = (probe.count(panel), probe.head(panel));
        let mut chosen = [[0u32; LANES]; LANES];
        let mut lengths = [0u8; LANES];
        // If boxes rarely exclude single points, they are rarely tested.
        let useless = self.tested > 1 << 12 && 4 * self.kept > 3 * self.tested;
        if useless && !(panel + group).is_multiple_of(16) {
            for at in bits(near) {
                lengths[at] = count as u8;
                chosen[at] = std::array::from_fn(|lane| lane as u32);
            }
        } else {
            for lane in 0..count {
                let point = (head, lane, LANES);
                let mask =
                    near & self.screen.within(lows, highs, point, build.bounded, limits.near);
                self.kept += u64::from(mask.count_ones());
                for at in bits(mask) {
                    chosen[at][lengths[at] as usize] = lane as u32;
                    lengths[at] += 1;
                }
            }
            self.tested += count as u64 * u64::from(near.count_ones());
        }
        for at in bits(near).filter(|&at| lengths[at] > 0) {
            let other = group * LANES + at;
            let chosen = &chosen[at][..lengths[at] as usize];
            let (points, m) = (build.head(other), build.heads);
            let found = self.screen.direct(
                head,
                LANES,
                chosen,
                points,
                LANES,
                m,
                limits.near,
                &mut self.hits,
            );
            if found > 0 {
                self.candidates(panel, other, chosen);
            }
        }
    }

    /// Handles the pairs whose heads are near.
    fn candidates(&mut self, panel: usize, other: usize, chosen: &[u32]) {
        let Index { probe, limits, .. } = self.index;
        let build = self.index.build();
        let same = self.index.build.is_none() && panel == other;
        let more = !build.rest.is_empty();
        for (at, &lane) in chosen.iter().enumerate() {
            let mut mask = self.hits.masks[at];
            if same {
                mask &= u16::MAX.checked_shl(lane + 1).unwrap_or(0);
            }
            if !more {
                mask = self.found_pairs.count_sure(mask, &self.hits.squares[at], limits.sure);
            }
            let point = panel * LANES + lane as usize;
            for found in bits(mask) {
                let mut square = self.hits.squares[at][found];
                let partner = other * LANES + found;
                if more {
                    let (a, b) = (probe.rest(point), build.rest(partner));
                    match self.screen.rest(a, b, square, limits.near) {
                        Some(whole) => square = whole,
                        None => continue,
                    }
                }
                let sure = square <= limits.sure;
                self.found_pairs.candidate(probe.rows[point], build.rows[partner], sure);
            }
        }
    }
}
