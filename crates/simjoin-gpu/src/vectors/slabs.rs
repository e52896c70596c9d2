//! How are vectors joined that do not fit a device?
//!
//! As in the paper: in partitions that overlap by the distance. The rows of each side are sorted along the
//! element that varies most and cut into slabs. A slab meets itself and the rows after it (of another side:
//! around it) that are within the distance, slab by slab. Each such pair of slabs is a round: its rows are
//! sent, joined and dropped.
//!
//! # Exactness
//!
//! `|aᵢ−bᵢ| ≤ |a−b|` for every element `i`, so rows farther apart than the largest accepted radius never
//! meet. For a cosine the element is divided by the length of its row, in f64, and the radius is enlarged by
//! more than the error of that.
//!
//! # Memory
//!
//! On the host 12 bytes per row, and the rows of two slabs for each device.

use super::load::{JoinWide, LoadedJoin};
use super::worker::TileWorker;
use super::{CANDIDATE_BYTES, GpuVectors, MIN_CANDIDATES, SMALL_BYTES, TILE_BYTES, VectorWay};
use crate::device::{Device, Lease};
use simjoin_core::{Elements, Error, Result, Sink, VectorCollection, VectorMeasure, VectorPair};
use simjoin_engine::{
    Budget, Fit, Prepared, VectorTask, Vectors, Worker, check_directions, draw, radii,
};
use std::ops::{ControlFlow, Range};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The smallest number of rows in a slab.
const MIN_ROWS: usize = 256;
/// The smallest capacity of a piece for tiles, unless a smaller one is requested.
const MIN_TILES: u64 = 1 << 10;

/// A join of slabs in rounds.
pub(super) struct SlabJoin<'a> {
    technique: GpuVectors,
    task: VectorTask<'a>,
    budget: Budget,
    /// The rows of the probe side and of the build side, in the order of slabs.
    orders: Vec<Vec<u32>>,
    rounds: Vec<Round>,
    dealt: AtomicUsize,
    /// Leases that keep memory from round to round.
    _leases: Vec<Lease>,
}

/// The ranges of probes and of builds that meet, in the order of slabs; the same range if rows meet their own
/// slab.
struct Round {
    probes: Range<usize>,
    builds: Range<usize>,
    self_join: bool,
}

impl<'a> SlabJoin<'a> {
    pub(super) fn new(
        technique: &GpuVectors,
        task: &VectorTask<'a>,
        budget: &Budget,
        memory: u64,
    ) -> Result<Self> {
        let (row, _) = technique.bytes_of(task);
        // A group has a tile for every eight rows of a slab.
        let row = row + TILE_BYTES.div_ceil(8);
        let least_tiles = MIN_TILES.min(technique.tiles.1);
        let least = TILE_BYTES * least_tiles
            + CANDIDATE_BYTES * MIN_CANDIDATES as u64
            + 2 * SMALL_BYTES
            + row * 2 * MIN_ROWS as u64;
        let Some(spare) = memory.checked_sub(least) else {
            return Err(Error::Memory {
                what: "the join".into(),
                needed: least,
                limit: memory,
                device: true,
            });
        };
        // Most of the spare memory is for rows: the larger slabs are, the less often each is sent.
        let tiles = (least_tiles + spare / 64 / TILE_BYTES).min(technique.tiles.1);
        let candidates = MIN_CANDIDATES as u64 + spare / 4 / CANDIDATE_BYTES;
        let candidates = candidates.min(technique.candidates() as u64) as usize;
        let of_worker = TILE_BYTES * (tiles - least_tiles)
            + CANDIDATE_BYTES * (candidates - MIN_CANDIDATES) as u64;
        let slab = MIN_ROWS + ((spare - of_worker) / row / 2) as usize;
        let technique = &GpuVectors {
            candidates,
            tiles: (technique.tiles.0.min(tiles), tiles),
            ..technique.clone()
        };
        check_directions(task)?;
        let axis = most_varying(task);
        let both: &[&VectorCollection] =
            if task.is_self_join() { &[task.probe] } else { &[task.probe, task.build] };
        let cosine = task.predicate.measure() == VectorMeasure::Cosine;
        let sorted: Vec<(Vec<u32>, Vec<f64>)> =
            both.iter().map(|side| sorted(side, axis, cosine)).collect();
        let reach = radii(task).0 * (1.0 + 1e-9) + if cosine { 1e-9 } else { 0.0 };
        let (probe_keys, build_keys) = (&sorted[0].1, &sorted[sorted.len() - 1].1);
        let mut rounds = Vec::new();
        for start in (0..probe_keys.len()).step_by(slab) {
            let probes = start..(start + slab).min(probe_keys.len());
            let (first, last) = (probe_keys[probes.start], probe_keys[probes.end - 1]);
            let end = build_keys.partition_point(|&key| key <= last + reach);
            let mut from = match task.is_self_join() {
                true => {
                    rounds.push(Round {
                        probes: probes.clone(),
                        builds: probes.clone(),
                        self_join: true,
                    });
                    probes.end
                }
                false => build_keys.partition_point(|&key| key < first - reach),
            };
            while from < end {
                let to = (from + slab).min(end);
                rounds.push(Round { probes: probes.clone(), builds: from..to, self_join: false });
                from = to;
            }
        }
        let orders = sorted.into_iter().map(|(order, _)| order).collect();
        // The fit of all rows is good enough for the rows of a slab.
        let ordered = matches!(technique.way, VectorWay::Grid | VectorWay::Quantile);
        let fit = technique.fit.clone();
        let fit = fit.or_else(|| ordered.then(|| Arc::new(Fit::of(task))));
        let technique = GpuVectors { fit, ..technique.clone() };
        let dealt = AtomicUsize::new(0);
        let leases = technique.devices.iter().map(Lease::new).collect();
        Ok(SlabJoin {
            technique,
            task: *task,
            budget: *budget,
            orders,
            rounds,
            dealt,
            _leases: leases,
        })
    }

    /// Returns the rows of one side at some places, as a separate collection.
    fn rows(&self, build: bool, places: &Range<usize>) -> Result<VectorCollection> {
        let side = if build { self.task.build } else { self.task.probe };
        let d = side.dimension();
        let rows = &self.order(build)[places.clone()];
        fn copy_rows<T: Copy>(all: &[T], rows: &[u32], d: usize) -> Vec<T> {
            rows.iter().flat_map(|&row| &all[row as usize * d..][..d]).copied().collect()
        }
        let elements = match side.elements() {
            Elements::F32(all) => Elements::F32(copy_rows(all, rows, d)),
            Elements::F64(all) => Elements::F64(copy_rows(all, rows, d)),
        };
        VectorCollection::of_entries(side.name(), d, elements)
    }

    fn order(&self, build: bool) -> &[u32] {
        &self.orders[if build { self.orders.len() - 1 } else { 0 }]
    }
}

/// Returns the element that varies most in a sample.
fn most_varying(task: &VectorTask<'_>) -> usize {
    let sample = draw(task, 256);
    let spread = |i: usize| {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for row in &sample {
            (low, high) = (low.min(row[i]), high.max(row[i]));
        }
        high - low
    };
    (0..task.dimension()).max_by(|&a, &b| spread(a).total_cmp(&spread(b))).unwrap_or(0)
}

/// Returns the rows in the order of an element (for a cosine, of the element divided by the length of its
/// row) and these keys.
fn sorted(side: &VectorCollection, axis: usize, cosine: bool) -> (Vec<u32>, Vec<f64>) {
    let mut row = Vec::new();
    let mut keyed: Vec<(f64, u32)> = (0..side.len())
        .map(|at| {
            let key = match (side.elements(), cosine) {
                (Elements::F32(all), false) => f64::from(all[at * side.dimension() + axis]),
                (Elements::F64(all), false) => all[at * side.dimension() + axis],
                _ => {
                    side.entry(at, &mut row);
                    row[axis] / row.iter().map(|x| x * x).sum::<f64>().sqrt()
                }
            };
            (key, at as u32)
        })
        .collect();
    keyed.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    (keyed.iter().map(|x| x.1).collect(), keyed.iter().map(|x| x.0).collect())
}

impl Prepared<Vectors> for SlabJoin<'_> {
    fn details(&self) -> String {
        format!("{} rounds of slabs", self.rounds.len())
    }

    fn pieces(&self) -> usize {
        self.rounds.len()
    }

    fn workers(&self) -> usize {
        self.technique.devices.len()
    }

    fn worker<'w>(&'w self) -> Result<Box<dyn Worker<Vectors> + 'w>> {
        let devices = &self.technique.devices;
        let which = self.dealt.fetch_add(1, Ordering::Relaxed) % devices.len();
        Ok(Box::new(SlabWorker { slabs: self, device: &devices[which], candidates: 0 }))
    }
}

struct SlabWorker<'w> {
    slabs: &'w SlabJoin<'w>,
    device: &'w Arc<Device>,
    candidates: u64,
}

impl Worker<Vectors> for SlabWorker<'_> {
    fn run(&mut self, piece: usize, sink: &mut dyn Sink<VectorPair>) -> Result<ControlFlow<()>> {
        let slabs = self.slabs;
        let round = &slabs.rounds[piece];
        let probe = slabs.rows(false, &round.probes)?;
        let other = (!round.self_join).then(|| slabs.rows(true, &round.builds)).transpose()?;
        let task = VectorTask::new(&probe, other.as_ref(), slabs.task.predicate);
        // One device does each round, with its own tiles.
        let columns = slabs.technique.exact_columns(std::slice::from_ref(self.device))?;
        let join_wide = JoinWide { columns, first: None };
        let loaded = match LoadedJoin::new(
            &slabs.technique,
            self.device,
            &task,
            &slabs.budget,
            &join_wide,
        ) {
            // Rows that images cannot distinguish are compared in full.
            Err(Error::Config(_)) => {
                let plain = GpuVectors { way: VectorWay::NestedLoop, ..slabs.technique.clone() };
                LoadedJoin::new(&plain, self.device, &task, &slabs.budget, &join_wide)?
            }
            loaded => loaded?,
        };
        let mut worker = TileWorker::new(&slabs.technique, &loaded, 0);
        let mut sink = RenumberingSink {
            probes: &slabs.order(false)[round.probes.clone()],
            builds: &slabs.order(true)[round.builds.clone()],
            pairs: Vec::new(),
            sink,
        };
        for piece in 0..loaded.pieces.len() {
            let flow = worker.run(piece, &mut sink)?;
            if flow.is_break() {
                self.candidates += worker.candidates();
                return Ok(flow);
            }
        }
        self.candidates += worker.candidates();
        Ok(ControlFlow::Continue(()))
    }

    fn candidates(&self) -> u64 {
        self.candidates
    }
}

/// A sink that replaces the numbers of rows in slabs by those in the whole join.
struct RenumberingSink<'s> {
    probes: &'s [u32],
    builds: &'s [u32],
    pairs: Vec<VectorPair>,
    sink: &'s mut dyn Sink<VectorPair>,
}

impl Sink<VectorPair> for RenumberingSink<'_> {
    fn wants_value(&self) -> bool {
        self.sink.wants_value()
    }

    fn stopped(&self) -> bool {
        self.sink.stopped()
    }

    fn only_counts(&self) -> bool {
        self.sink.only_counts()
    }

    fn count(&mut self, pairs: u64) {
        self.sink.count(pairs);
    }

    fn push(&mut self, pairs: &[VectorPair]) -> ControlFlow<()> {
        self.pairs.clear();
        self.pairs.extend(pairs.iter().map(|pair| VectorPair {
            probe: self.probes[pair.probe as usize],
            build: self.builds[pair.build as usize],
            distance: pair.distance,
        }));
        self.sink.push(&self.pairs)
    }
}
