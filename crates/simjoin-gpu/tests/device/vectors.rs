//! Does every technique for vectors find the pairs of a plain loop, with distances equal to the last bit?

use super::{brief, sized, some};
use libtest_mimic::Failed;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use simjoin_core::{
    Elements, Error, Random, Sink, VectorCollection, VectorCount, VectorMeasure, VectorPair,
    VectorPredicate,
};
use simjoin_engine::{Budget, Fit, Kind, Technique, VectorTask, Vectors};
use simjoin_gpu::{Device, GpuVectors, VectorWay};
use std::ops::ControlFlow;
use std::sync::Arc;

pub(crate) type Found = Vec<(u32, u32, u64)>;

pub(crate) struct Collect(pub Vec<VectorPair>);

impl Sink<VectorPair> for Collect {
    fn wants_value(&self) -> bool {
        true
    }

    fn push(&mut self, pairs: &[VectorPair]) -> ControlFlow<()> {
        self.0.extend_from_slice(pairs);
        ControlFlow::Continue(())
    }
}

/// A sink that breaks after the first batch.
struct FirstBatch(u64);

impl Sink<VectorPair> for FirstBatch {
    fn wants_value(&self) -> bool {
        true
    }

    fn push(&mut self, pairs: &[VectorPair]) -> ControlFlow<()> {
        self.0 += pairs.len() as u64;
        ControlFlow::Break(())
    }
}

/// Adds terms in the order that the predicate defines, without any code of the library.
fn in_order(terms: impl Iterator<Item = f64>) -> f64 {
    let mut sums = [0.0; 16];
    terms.enumerate().for_each(|(i, term)| sums[i % 16] += term);
    for half in [8, 4, 2, 1] {
        (0..half).for_each(|j| sums[j] += sums[j + half]);
    }
    sums[0]
}

fn square(a: &[f64], b: &[f64]) -> f64 {
    in_order(a.iter().zip(b).map(|(x, y)| (x - y) * (x - y)))
}

fn product(a: &[f64], b: &[f64]) -> f64 {
    in_order(a.iter().zip(b).map(|(x, y)| x * y))
}

fn all_rows(vectors: &VectorCollection) -> Vec<Vec<f64>> {
    (0..vectors.len())
        .map(|at| {
            let mut row = Vec::new();
            vectors.row(at, &mut row);
            row
        })
        .collect()
}

fn expected(task: &VectorTask<'_>) -> Found {
    let (probes, builds) = (all_rows(task.probe), all_rows(task.build));
    let threshold = task.predicate.threshold();
    let mut found = Vec::new();
    for (probe, a) in probes.iter().enumerate() {
        for (build, b) in
            builds.iter().enumerate().skip(if task.is_self_join() { probe + 1 } else { 0 })
        {
            let distance = match task.predicate.measure() {
                VectorMeasure::Euclidean => {
                    let square = square(a, b);
                    (square <= threshold * threshold).then(|| square.sqrt())
                }
                VectorMeasure::Cosine => {
                    let root = (product(a, a) * product(b, b)).sqrt();
                    let product = product(a, b);
                    (product >= threshold * root).then(|| (1.0 - product / root).max(0.0))
                }
            };
            if let Some(distance) = distance {
                found.push((probe as u32, build as u32, distance.to_bits()));
            }
        }
    }
    found
}

/// Returns every technique in every variant that uses different code.
fn techniques(device: &Arc<Device>, task: &VectorTask<'_>) -> Vec<(String, GpuVectors)> {
    let fit = Arc::new(Fit::of(task));
    let one = [device.clone()];
    let mut all = Vec::new();
    for way in VectorWay::ALL {
        let plain = GpuVectors { fit: Some(fit.clone()), ..GpuVectors::new(&one, way) };
        all.push((way.name().to_owned(), plain.clone()));
        let small = GpuVectors { candidates: 0, tiles: (1, 1), ..plain.clone() };
        all.push((format!("{} with small buffers", way.name()), small));
        if matches!(way, VectorWay::Tensor | VectorWay::Quantile) {
            let half = GpuVectors { bytes: false, ..plain.clone() };
            all.push((format!("{} without bytes", way.name()), half.clone()));
            let warps = GpuVectors { warpgroups: false, ..plain.clone() };
            all.push((format!("{} by warps", way.name()), warps.clone()));
            let both = GpuVectors { bytes: false, ..warps };
            all.push((format!("{} by warps without bytes", way.name()), both));
        }
    }
    let two = [device.clone(), device.clone()];
    all.push(("gpu-quantile twice".into(), GpuVectors::new(&two, VectorWay::Quantile)));
    all.push(("gpu-tensor twice".into(), GpuVectors::new(&two, VectorWay::Tensor)));
    all
}

/// Runs a technique; returns `None` if it does not support the join.
pub(crate) fn run(
    technique: &GpuVectors,
    task: &VectorTask<'_>,
    sink: &mut dyn Sink<VectorPair>,
) -> Result<Option<()>, String> {
    let budget = Budget::unlimited(0, 3);
    let prepared = match technique.prepare(task, &Vectors::whole(task), &budget) {
        Ok(prepared) => prepared,
        Err(error) => {
            let text = error.to_string();
            let orders = matches!(technique.way, VectorWay::Grid | VectorWay::Quantile);
            return if orders && text.contains("coordinates") { Ok(None) } else { Err(text) };
        }
    };
    let worker = || prepared.worker().map_err(|error| error.to_string());
    let mut workers = [worker()?, worker()?];
    for piece in 0..prepared.pieces() {
        let flow = workers[piece % 2].run(piece, sink).map_err(|error| error.to_string())?;
        if flow.is_break() {
            break;
        }
    }
    Ok(Some(()))
}

pub(crate) fn sorted_pairs(task: &VectorTask<'_>, pairs: &[VectorPair]) -> Found {
    let mut found: Found = pairs
        .iter()
        .map(|pair| {
            let (a, b) = match task.is_self_join() {
                true => (pair.probe.min(pair.build), pair.probe.max(pair.build)),
                false => (pair.probe, pair.build),
            };
            (a, b, pair.distance.to_bits())
        })
        .collect();
    found.sort_unstable();
    found
}

pub(crate) fn check_one(
    name: &str,
    technique: &GpuVectors,
    task: &VectorTask<'_>,
    expected: &Found,
) -> Result<bool, String> {
    let mut sink = Collect(Vec::new());
    let shape = format!(
        "{name}: {} x {} of dimension {}, {}",
        task.probe.len(),
        task.build.len(),
        task.dimension(),
        task.predicate
    );
    let fail = |error: String| format!("{shape}: {error}");
    if run(technique, task, &mut sink).map_err(fail)?.is_none() {
        return Ok(false);
    }
    let found = sorted_pairs(task, &sink.0);
    if &found != expected {
        let missing = expected.iter().find(|pair| found.binary_search(pair).is_err());
        let surplus = found.iter().find(|pair| expected.binary_search(pair).is_err());
        return Err(format!(
            "{shape}: {} pairs of {}; not found: {missing:?}; not expected: {surplus:?}",
            found.len(),
            expected.len()
        ));
    }
    let mut count = VectorCount(0);
    run(technique, task, &mut count).map_err(fail)?;
    if count.0 != expected.len() as u64 {
        return Err(format!("{shape}: counts {} of {}", count.0, expected.len()));
    }
    Ok(true)
}

fn check(device: &Arc<Device>, task: &VectorTask<'_>) -> Result<(), String> {
    let expected = expected(task);
    for (name, technique) in techniques(device, task) {
        check_one(&name, &technique, task, &expected)?;
    }
    Ok(())
}

pub(crate) fn vectors(rows: &[Vec<f64>], wide: bool) -> VectorCollection {
    let flat = rows.iter().flatten().copied();
    let elements = match wide {
        true => Elements::F64(flat.collect()),
        false => Elements::F32(flat.map(|x| (x as f32).clamp(f32::MIN, f32::MAX)).collect()),
    };
    VectorCollection::of_entries("v", rows[0].len(), elements).unwrap()
}

/// Returns a join at the exact distance of two rows, or at the next number above or below it.
fn with_tie<'a>(
    probe: &'a VectorCollection,
    build: Option<&'a VectorCollection>,
    cosine: bool,
    pick: (usize, usize),
    nudge_by: i8,
) -> VectorTask<'a> {
    let other = build.unwrap_or(probe);
    let (mut a, mut b) = (Vec::new(), Vec::new());
    probe.row(pick.0 % probe.len(), &mut a);
    other.row(pick.1 % other.len(), &mut b);
    let nudge = |x: f64| match nudge_by {
        -1 => x.next_down(),
        1 => x.next_up(),
        _ => x,
    };
    let predicate = if cosine {
        let cosine = product(&a, &b) / (product(&a, &a) * product(&b, &b)).sqrt();
        let text = format!("{}", nudge(cosine).clamp(-1.0, 1.0));
        VectorPredicate::cosine(&text).or_else(|_| VectorPredicate::cosine("0.5"))
    } else {
        let text = format!("{}", nudge(square(&a, &b).sqrt()).abs());
        VectorPredicate::within(&text).or_else(|_| VectorPredicate::within("1"))
    };
    VectorTask::new(probe, build, predicate.unwrap())
}

/// Returns rows in clusters.
pub(crate) fn clustered(
    seed: u64,
    n: usize,
    d: usize,
    clusters: usize,
    spread: f64,
) -> Vec<Vec<f64>> {
    let mut random = Random::new(seed);
    let centres: Vec<Vec<f64>> =
        (0..clusters).map(|_| (0..d).map(|_| random.unit()).collect()).collect();
    let mut row = |at: usize| -> Vec<f64> {
        centres[at % clusters].iter().map(|x| x + spread * (random.unit() - 0.5)).collect()
    };
    (0..n).map(&mut row).collect()
}

/// Generates rows of one of several kinds: on a lattice with many repeats and ties, in clusters, uniform, far
/// from the origin, along a straight line, of all magnitudes, small whole numbers, or ordinary except for a
/// few rows or elements.
fn rows(d: usize, n: usize) -> impl Strategy<Value = Vec<Vec<f64>>> {
    const WILD: [f64; 8] = [1e-30, 1e3, 1e7, 1e16, -1e16, 1e20, 1e150, -9999.0];
    let wild = |x: f64| WILD[(8.0 * (x - 0.8) / 0.2) as usize % 8];
    (0u8..10, prop::collection::vec(prop::collection::vec((-4i32..5, -1.0..1.0), d..=d), n..=n))
        .prop_map(move |(kind, cells)| {
            let row = |row: &Vec<(i32, f64)>| -> Vec<f64> {
                let line = row[0].1;
                let of = |(at, &(whole, part)): (usize, &(i32, f64))| match kind {
                    0 => f64::from(whole),
                    1 => f64::from(row[0].0.signum()) * 100.0 + part,
                    2 => part,
                    3 => 1e6 + part,
                    4 => line * (at + 1) as f64 + 1e-3 * part,
                    5 => part * 10f64.powi(whole),
                    6 => f64::from(whole + 5) * 28.0,
                    7 if line > 0.8 => wild(line) * (1.0 + part),
                    8 if part > 0.8 => wild(part),
                    7 | 8 => part,
                    _ => (part * 3.0).round() + 7.0,
                };
                row.iter().enumerate().map(of).collect()
            };
            cells.iter().map(row).collect()
        })
}

pub fn random(device: &Arc<Device>) -> Result<(), Failed> {
    let cases = if brief() { 2 } else { 40 };
    let config =
        Config { cases, failure_persistence: None, max_shrink_iters: 40, ..Config::default() };
    let mut runner = TestRunner::new(config);
    let shape = prop_oneof![
        3 => (1usize..5, 2usize..500),
        3 => (5usize..30, 2usize..300),
        2 => (30usize..200, 2usize..300),
    ];
    let input = shape.prop_flat_map(|(d, n)| (rows(d, n), rows(d, n / 2 + 1)));
    let settings = (any::<bool>(), any::<bool>(), any::<bool>(), any::<(u16, u16)>(), -1i8..2);
    let result = runner.run(&(input, settings), |((left, right), settings)| {
        let (two, wide, cosine, pick, nudge_by) = settings;
        let (left, right) = (vectors(&left, wide), vectors(&right, wide));
        let zero = |side: &VectorCollection| {
            all_rows(side).iter().any(|row| !VectorPredicate::has_direction(product(row, row)))
        };
        let cosine = cosine && !zero(&left) && !zero(&right);
        let pick = (usize::from(pick.0), usize::from(pick.1));
        let task = with_tie(&left, two.then_some(&right), cosine, pick, nudge_by);
        check(device, &task).map_err(TestCaseError::fail)
    });
    result.map_err(|error| error.to_string().into())
}

/// Tests many rows that are equal, or a lattice step apart, so that blocks and buffers overflow.
pub fn duplicates(device: &Arc<Device>) -> Result<(), Failed> {
    let n = sized(1500, 300, 200);
    for (d, wide) in some([(3, false), (16, true), (40, false)], 3) {
        let mut random = Random::new(d as u64);
        let mut lattice =
            |_| -> Vec<f64> { (0..d).map(|_| (random.unit() * 1.2).floor()).collect() };
        let mut left: Vec<Vec<f64>> = (0..n / 3).map(&mut lattice).collect();
        left.extend(left.clone());
        left.extend(left[..n / 3].to_vec());
        let right: Vec<Vec<f64>> = (0..n / 2).map(&mut lattice).collect();
        let (left, right) = (vectors(&left, wide), vectors(&right, wide));
        for text in ["0", "1", "1.4142135623730951"] {
            let predicate = VectorPredicate::within(text).unwrap();
            for other in [None, Some(&right)] {
                let task = VectorTask::new(&left, other, predicate);
                check(device, &task)?;
            }
        }
    }
    Ok(())
}

/// Tests dimensions from 1 to 4,096, at distances that some pairs have exactly.
pub fn dimensions(device: &Arc<Device>) -> Result<(), Failed> {
    let all = [1, 2, 3, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 128, 257, 784, 960, 2048, 4096];
    let most = sized(4096, 4096, 960);
    for d in some(all, 6).filter(|&d| d <= most) {
        let n = if d > 1000 { 260 } else { sized(520, 520, 140) };
        let left = clustered(d as u64, n, d, 9, 0.3);
        let right = clustered(d as u64 + 1, n / 2, d, 9, 0.3);
        for wide in [false, true] {
            let (left, right) = (vectors(&left, wide), vectors(&right, wide));
            for cosine in [false, true] {
                // Half of the four cases.
                if sized(false, false, wide == cosine) {
                    continue;
                }
                for (two, nudge_by) in [(false, 0), (true, -1)] {
                    // There are nine clusters; the two rows belong to the same one.
                    let task = with_tie(
                        &left,
                        two.then_some(&right),
                        cosine,
                        (4, if two { 13 } else { 22 }),
                        nudge_by,
                    );
                    check(device, &task)?;
                }
            }
        }
    }
    Ok(())
}

/// Tests thousands of rows, with many blocks, cells and pages, against the CPU's nested loop.
pub fn many(device: &Arc<Device>) -> Result<(), Failed> {
    let cases: [(usize, usize, usize, f64, &str, bool); 7] = [
        (40_000, 2, 50, 0.1, "0.002", false),
        (60_000, 8, 40, 0.4, "0.09", false),
        (20_000, 8, 1, 1.0, "0.25", true),
        (30_000, 27, 60, 0.5, "0.9", false),
        (12_000, 100, 30, 0.6, "2.2", false),
        (9_000, 384, 20, 0.5, "3.85", true),
        (6_000, 960, 20, 0.4, "4.9", false),
    ];
    for (n, d, clusters, spread, text, wide) in some(cases, 3) {
        let n = n / sized(1, 20, 60);
        let left = vectors(&clustered(7, n, d, clusters, spread), wide);
        let right = vectors(&clustered(8, n / 2, d, clusters, spread), wide);
        let predicate = VectorPredicate::within(text).unwrap();
        for other in [None, Some(&right)] {
            let task = VectorTask::new(&left, other, predicate);
            let expected = by_cpu(&task);
            for (name, technique) in techniques(device, &task) {
                check_one(&name, &technique, &task, &expected)?;
            }
        }
    }
    Ok(())
}

/// Tests more rows than one table of counts can sort; few are near each other, and some are equal.
pub fn sorted_in_pieces(device: &Arc<Device>) -> Result<(), Failed> {
    let mut random = Random::new(11);
    let mut rows: Vec<Vec<f64>> = (0..34_000).map(|_| vec![100.0 * random.unit()]).collect();
    rows.extend(rows[..20].to_vec());
    let points = vectors(&rows, true);
    let predicate = VectorPredicate::within("1e-5").unwrap();
    let task = VectorTask::new(&points, None, predicate);
    let mut sorted: Vec<u32> = (0..rows.len() as u32).collect();
    sorted.sort_by(|&a, &b| rows[a as usize][0].total_cmp(&rows[b as usize][0]));
    let mut expected = Found::new();
    for (at, &a) in sorted.iter().enumerate() {
        for &b in &sorted[at + 1..] {
            let distance = square(&rows[a as usize], &rows[b as usize]).sqrt();
            if distance > 1e-5 {
                break;
            }
            expected.push((a.min(b), a.max(b), distance.to_bits()));
        }
    }
    expected.sort_unstable();
    let one = [device.clone()];
    for way in [VectorWay::Grid, VectorWay::Quantile] {
        check_one(way.name(), &GpuVectors::new(&one, way), &task, &expected)?;
    }
    Ok(())
}

/// Returns the pairs of the CPU's nested loop.
pub(crate) fn by_cpu(task: &VectorTask<'_>) -> Found {
    let prepared = simjoin_cpu::NestedLoop
        .prepare(task, &Vectors::whole(task), &Budget::unlimited(0, 16))
        .expect("a nested loop");
    let next = std::sync::atomic::AtomicUsize::new(0);
    let pairs = std::thread::scope(|scope| {
        let work = || {
            let mut worker = prepared.worker().expect("a worker");
            let mut sink = Collect(Vec::new());
            loop {
                let piece = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                if piece >= prepared.pieces() {
                    return sink.0;
                }
                assert!(worker.run(piece, &mut sink).expect("a piece").is_continue());
            }
        };
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(work)).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("a thread")).collect::<Vec<_>>()
    });
    sorted_pairs(task, &pairs)
}

/// Tests images of bytes, which tensor cores decide, against the oracle.
pub fn bytes(device: &Arc<Device>) -> Result<(), Failed> {
    for (n, d) in some([(700, 784), (1500, 20), (900, 128)], 3) {
        let n = n / sized(1, 1, 3);
        let mut random = Random::new(3);
        let images: Vec<Vec<f64>> = (0..10)
            .map(|_| {
                (0..d).map(|_| (random.unit() * 600.0 - 300.0).clamp(0.0, 255.0).floor()).collect()
            })
            .collect();
        let rows: Vec<Vec<f64>> = (0..n)
            .map(|at| {
                let noise = |x: &f64| (x + random.unit() * 30.0 - 15.0).clamp(0.0, 255.0).floor();
                images[at % 10].iter().map(noise).collect()
            })
            .collect();
        for wide in [false, true] {
            let left = vectors(&rows, wide);
            let right = vectors(&rows[n / 3..n / 2], wide);
            for other in [None, Some(&right)] {
                check(device, &with_tie(&left, other, false, (1, 31), 0))?;
            }
        }
    }
    Ok(())
}

/// Tests a device that is too small for the rows, so that slabs are used, and one that is too small even for
/// those.
pub fn small_device(device: &Arc<Device>) -> Result<(), Failed> {
    let n = if brief() { 1200 } else { 6000 };
    for (d, cosine, text) in some([(4, false, "0.05"), (70, false, "1.1"), (12, true, "0.99")], 3) {
        let left = vectors(&clustered(1, n, d, 25, 0.3), false);
        let right = vectors(&clustered(2, n / 2, d, 25, 0.3), false);
        let predicate = match cosine {
            true => VectorPredicate::cosine(text).unwrap(),
            false => VectorPredicate::within(text).unwrap(),
        };
        for other in [None, Some(&right)] {
            let task = VectorTask::new(&left, other, predicate);
            let expected = by_cpu(&task);
            for way in VectorWay::ALL {
                let small = GpuVectors {
                    candidates: 0,
                    tiles: (1, 64),
                    ..GpuVectors::new(std::slice::from_ref(device), way)
                };
                let budget = Budget::unlimited(0, 2);
                let prepare = |memory: u64| {
                    GpuVectors { memory, ..small.clone() }.prepare(
                        &task,
                        &Vectors::whole(&task),
                        &budget,
                    )
                };
                // The memory in the error suffices, and one byte less does not.
                let needed = match prepare(1 << 16) {
                    Err(Error::Memory { needed, limit, device: true, .. }) if limit == 1 << 16 => {
                        needed
                    }
                    Err(error) => return Err(error.to_string().into()),
                    Ok(_) => return Err("64 KiB suffice".into()),
                };
                if prepare(needed - 1).is_ok() {
                    return Err(format!("{}: less than {needed} bytes suffice", way.name()).into());
                }
                let (row, _) = small.bytes_of(&task);
                for memory in some([needed, needed + row * n as u64 / 2], 2) {
                    let prepared = prepare(memory).map_err(|error| error.to_string())?;
                    if !prepared.details().contains("slabs") {
                        return Err(format!("{}: {memory} bytes hold all rows", way.name()).into());
                    }
                    let small = GpuVectors { memory, ..small.clone() };
                    check_one(way.name(), &small, &task, &expected)?;
                }
            }
        }
    }
    Ok(())
}

/// Tests that a row without a direction is named in the error, a sink that breaks ends the join, and empty
/// inputs have no pairs.
pub fn edges(device: &Arc<Device>) -> Result<(), Failed> {
    outliers(device)?;
    let mut rows = clustered(5, 400, 6, 3, 0.2);
    rows[333] = vec![0.0; 6];
    let with_zero = vectors(&rows, false);
    let predicate = VectorPredicate::cosine("0.9").unwrap();
    let task = VectorTask::new(&with_zero, None, predicate);
    let budget = Budget::unlimited(0, 2);
    for way in VectorWay::ALL {
        let technique = GpuVectors::new(std::slice::from_ref(device), way);
        match technique.prepare(&task, &Vectors::whole(&task), &budget) {
            Err(error) if error.to_string().contains("row 333") => {}
            Err(error) => return Err(format!("{}: {error}", way.name()).into()),
            Ok(_) => return Err(format!("{}: a zero has a direction", way.name()).into()),
        }
        rows[333] = vec![1.0; 6];
        let plain = vectors(&rows, false);
        rows[333] = vec![0.0; 6];
        let predicate = VectorPredicate::within("10").unwrap();
        let task = VectorTask::new(&plain, None, predicate);
        let mut first_batch = FirstBatch(0);
        run(&technique, &task, &mut first_batch)?;
        if first_batch.0 == 0 || first_batch.0 > 400 * 399 / 2 {
            return Err(format!("{}: {} pairs before it stopped", way.name(), first_batch.0).into());
        }
        for count in [0usize, 1] {
            let few = VectorCollection::of_entries("few", 6, Elements::F32(vec![0.5; 6 * count]))
                .unwrap();
            for (build, expected) in
                [(None, 0), (Some(&few), count * count), (Some(&plain), 400 * count)]
            {
                let task = VectorTask::new(&few, build, predicate);
                let mut sink = VectorCount(0);
                run(&technique, &task, &mut sink)?;
                if sink.0 != expected as u64 {
                    return Err(format!("{}: {} of {expected}", way.name(), sink.0).into());
                }
            }
        }
    }
    Ok(())
}

/// Tests rows in `[0, 1]` with one row, or every fifth, that has an element far away: the predicate decides
/// few pairs.
fn outliers(device: &Arc<Device>) -> Result<(), Failed> {
    let n = sized(3000, 1000, 300);
    for (d, text) in [(3, "0.05"), (40, "1.6")] {
        for every in [n, 5] {
            for far in [1e16, -1e9, 1e38] {
                let mut random = Random::new(d as u64);
                let mut row = |at: usize| -> Vec<f64> {
                    let mut row: Vec<f64> = (0..d).map(|_| random.unit()).collect();
                    if at % every == 1 {
                        row[at % 7 % d] = far;
                    }
                    row
                };
                let rows: Vec<Vec<f64>> = (0..n).map(&mut row).collect();
                let rows = vectors(&rows, far < 0.0);
                let task = VectorTask::new(&rows, None, VectorPredicate::within(text).unwrap());
                let expected = by_cpu(&task);
                for (name, technique) in techniques(device, &task) {
                    check_one(&name, &technique, &task, &expected)?;
                    let candidates = candidates(&technique, &task)?;
                    let most = expected.len() as u64 + (n * n / 40) as u64;
                    if candidates > most {
                        let pairs = expected.len();
                        return Err(
                            format!("{name}: {candidates} candidates of {pairs} pairs").into()
                        );
                    }
                }
            }
        }
    }
    Ok(())
}

/// Counts the pairs that the predicate decides.
fn candidates(technique: &GpuVectors, task: &VectorTask<'_>) -> Result<u64, String> {
    let budget = Budget::unlimited(0, 1);
    let prepared =
        technique.prepare(task, &Vectors::whole(task), &budget).map_err(|e| e.to_string())?;
    let mut worker = prepared.worker().map_err(|e| e.to_string())?;
    let mut sink = Collect(Vec::new());
    for piece in 0..prepared.pieces() {
        let _ = worker.run(piece, &mut sink).map_err(|e| e.to_string())?;
    }
    Ok(worker.candidates())
}
