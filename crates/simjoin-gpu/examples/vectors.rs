//! How fast are joins of vectors on this machine's device, compared with its limits?
//!
//! `cargo run --release -p simjoin-gpu --example vectors -- [WHAT[=FILE]]…` where WHAT is `mnist` (a file of
//! 70,000 × 784 bytes), `cover` (the .npy of `cover_10d`), `gist` (1,000,000 × 960), `text` (5,000,000 × 384)
//! or `low` (10,000,000 × 8, uniform and in clusters). `/N` after a name uses one N-th of the rows.
//!
//! Times are from rows in memory to pairs in memory. A sample of rows is joined with all others on the CPU.
//! It determines the distance for the wanted number of partners, and checks the pairs of these rows.

use parking_lot::Mutex;
use simjoin_core::{
    Elements, Error, Random, Result, Sink, VectorCollection, VectorPair, VectorPredicate,
};
use simjoin_engine::{Budget, Fit, Kind, Technique, VectorTask, Vectors};
use simjoin_gpu::{Device, GpuVectors, VectorWay, devices};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// The limits of an H200 per second: operations in f16 and on bytes by warpgroups (twice the dense rate by
/// warps), and bytes over the bus.
const HALVES: f64 = 624e12;
const BYTES: f64 = 1250e12;
const BUS: f64 = 55e9;

fn main() -> Result<()> {
    let device = devices()?[0].clone();
    println!("{}, {} multiprocessors", device.info.name, device.info.multiprocessors);
    for asked in std::env::args().skip(1) {
        let (what, file) = asked.split_once('=').unwrap_or((&asked, ""));
        let (what, part) = what.split_once('/').unwrap_or((what, "1"));
        let part: usize = part.parse().unwrap_or(1);
        match what {
            "mnist" => mnist(&device, file)?,
            "cover" => cover(&device, file)?,
            "gist" => large(&device, "gist-like", 1_000_000 / part, 960)?,
            "text" => large(&device, "text-like", 5_000_000 / part, 384)?,
            "low" => low(&device, 10_000_000 / part)?,
            other => println!("{other}: unknown name"),
        }
    }
    Ok(())
}

fn read(file: &str) -> Result<Vec<u8>> {
    std::fs::read(file).map_err(|error| Error::io(file, error))
}

fn mnist(device: &Arc<Device>, file: &str) -> Result<()> {
    let elements: Vec<f32> = read(file)?.into_iter().map(f32::from).collect();
    let rows = VectorCollection::new("mnist", 784, Elements::F32(elements))?;
    for (distance, pairs) in [("503.6", 38_630), ("937", 1_976_218)] {
        let case = Case { rows: &rows, distance, pairs: Some(pairs), sample: &[] };
        case.measure(device, VectorWay::Tensor, true)?;
        case.measure(device, VectorWay::Tensor, false)?;
        case.measure(device, VectorWay::Quantile, true)?;
    }
    Ok(())
}

fn cover(device: &Arc<Device>, file: &str) -> Result<()> {
    let bytes = read(file)?;
    let header = 10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    let elements = bytes[header..]
        .chunks_exact(4)
        .map(|x| f32::from_le_bytes([x[0], x[1], x[2], x[3]]))
        .collect();
    let rows = VectorCollection::new("cover_10d", 10, Elements::F32(elements))?;
    for (distance, pairs) in [("34.66", 141_359), ("141.3", 9_146_574)] {
        let case = Case { rows: &rows, distance, pairs: Some(pairs), sample: &[] };
        for way in VectorWay::ALL {
            case.measure(device, way, true)?;
        }
    }
    Ok(())
}

fn large(device: &Arc<Device>, name: &str, n: usize, d: usize) -> Result<()> {
    let begin = Instant::now();
    let elements = manifold(n, d, 24, 2000);
    let rows = VectorCollection::new(name, d, Elements::F32(elements))?;
    println!("{name}: made in {:.1} s", begin.elapsed().as_secs_f64());
    let (distance, sample) = sampled(&rows, 32, 64.0);
    let case = Case { rows: &rows, distance: &distance, pairs: None, sample: &sample };
    case.measure(device, VectorWay::Tensor, true)?;
    case.measure(device, VectorWay::Quantile, true)
}

fn low(device: &Arc<Device>, n: usize) -> Result<()> {
    for clusters in [0, 5] {
        let elements = points(n, 8, clusters);
        let name = if clusters == 0 { "uniform" } else { "clusters" };
        let rows = VectorCollection::new(name, 8, Elements::F32(elements))?;
        let (distance, sample) = sampled(&rows, 48, 1.5);
        let case = Case { rows: &rows, distance: &distance, pairs: None, sample: &sample };
        case.measure(device, VectorWay::Grid, true)?;
        case.measure(device, VectorWay::Quantile, true)?;
    }
    Ok(())
}

/// Returns a number in [0, 1).
fn unit(random: &mut Random) -> f32 {
    (random.bits() >> 40) as f32 / (1u64 << 24) as f32
}

/// Returns a number of about normal distribution.
fn normal(random: &mut Random) -> f32 {
    (0..6).map(|_| unit(random)).sum::<f32>() * 1.414 - 4.242
}

/// Makes rows in parts, each part on a thread.
fn in_parts(n: usize, d: usize, make: impl Fn(&mut Random, &mut [f32]) + Sync) -> Vec<f32> {
    let mut all = vec![0f32; n * d];
    let rows = n.div_ceil(64);
    std::thread::scope(|scope| {
        for (part, rows) in all.chunks_mut(rows * d).enumerate() {
            let make = &make;
            scope.spawn(move || {
                let mut random = Random::new(part as u64 * 77 + 1);
                rows.chunks_exact_mut(d).for_each(|row| make(&mut random, row));
            });
        }
    });
    all
}

/// Returns points in the unit cube, or in Gaussian clusters in it.
fn points(n: usize, d: usize, clusters: usize) -> Vec<f32> {
    let mut random = Random::new(5);
    let centres: Vec<f32> = (0..clusters * d).map(|_| unit(&mut random)).collect();
    in_parts(n, d, |random, row| match clusters {
        0 => row.iter_mut().for_each(|x| *x = unit(random)),
        _ => {
            let which = random.bits() as usize % clusters * d;
            row.iter_mut().zip(&centres[which..]).for_each(|(x, c)| *x = c + 0.05 * normal(random));
        }
    })
}

/// Returns clusters on a surface of few dimensions, embedded in many, with some noise, like features of
/// images and texts.
fn manifold(n: usize, d: usize, latent: usize, clusters: usize) -> Vec<f32> {
    let mut random = Random::new(9);
    let directions: Vec<f32> =
        (0..latent * d).map(|_| normal(&mut random) / (d as f32).sqrt()).collect();
    let centres: Vec<f32> = (0..clusters * latent).map(|_| normal(&mut random)).collect();
    in_parts(n, d, |random, row| {
        let which = random.bits() as usize % clusters * latent;
        row.iter_mut().for_each(|x| *x = 0.002 * (unit(random) - 0.5));
        for (at, centre) in centres[which..which + latent].iter().enumerate() {
            let z = centre + 0.35 * normal(random);
            let direction = &directions[at * d..(at + 1) * d];
            row.iter_mut().zip(direction).for_each(|(x, y)| *x += z * y);
        }
    })
}

/// Returns the distance at which sampled rows have this number of partners on average, and these rows with
/// their partners.
fn sampled(rows: &VectorCollection, count: usize, partners: f64) -> (String, Vec<(u32, u64)>) {
    let begin = Instant::now();
    let Elements::F32(all) = rows.elements() else { return (String::new(), Vec::new()) };
    let (n, d) = (rows.len(), rows.dimension());
    let picked: Vec<usize> = (0..count).map(|at| at * (n / count) + at).collect();
    let squares: Vec<Mutex<Vec<f64>>> = picked.iter().map(|_| Mutex::new(Vec::new())).collect();
    let next = AtomicUsize::new(0);
    let block = 4096;
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                let mut near: Vec<Vec<f64>> = picked.iter().map(|_| Vec::new()).collect();
                loop {
                    let start = next.fetch_add(block, Ordering::Relaxed);
                    if start >= n {
                        break;
                    }
                    for row in start..(start + block).min(n) {
                        let b = &all[row * d..(row + 1) * d];
                        for (&which, near) in picked.iter().zip(&mut near) {
                            let a = &all[which * d..(which + 1) * d];
                            if which != row {
                                near.push(square(a, b));
                            }
                        }
                    }
                    // Only the nearest are needed.
                    for near in &mut near {
                        if near.len() > 100_000 {
                            near.select_nth_unstable_by(20_000, f64::total_cmp);
                            near.truncate(20_000);
                        }
                    }
                }
                for (all, near) in squares.iter().zip(near) {
                    all.lock().extend(near);
                }
            });
        }
    });
    let lists: Vec<Vec<f64>> = squares.into_iter().map(Mutex::into_inner).collect();
    let mut every: Vec<f64> = lists.iter().flatten().copied().collect();
    let wanted = ((count as f64 * partners) as usize).min(every.len() - 1);
    every.select_nth_unstable_by(wanted, f64::total_cmp);
    let distance = format!("{:.5}", every[wanted].sqrt());
    let radius: f64 = distance.parse().expect("a number");
    let partners = |list: &Vec<f64>| list.iter().filter(|&&x| x <= radius * radius).count() as u64;
    let sample: Vec<(u32, u64)> =
        picked.iter().map(|&row| row as u32).zip(lists.iter().map(partners)).collect();
    println!(
        "{}: {n} x {d}, within {distance}; {count} rows have {} partners; found in {:.1} s",
        rows.name(),
        sample.iter().map(|x| x.1).sum::<u64>(),
        begin.elapsed().as_secs_f64()
    );
    (distance, sample)
}

/// Returns the squared distance, added in the order of the predicate.
fn square(a: &[f32], b: &[f32]) -> f64 {
    let mut sums = [0f64; 16];
    let (mut x, mut y) = (a.chunks_exact(16), b.chunks_exact(16));
    for (x, y) in (&mut x).zip(&mut y) {
        for j in 0..16 {
            let difference = f64::from(x[j]) - f64::from(y[j]);
            sums[j] += difference * difference;
        }
    }
    for (j, (x, y)) in x.remainder().iter().zip(y.remainder()).enumerate() {
        let difference = f64::from(*x) - f64::from(*y);
        sums[j] += difference * difference;
    }
    for half in [8, 4, 2, 1] {
        (0..half).for_each(|j| sums[j] += sums[j + half]);
    }
    sums[0]
}

struct Case<'a> {
    rows: &'a VectorCollection,
    distance: &'a str,
    pairs: Option<u64>,
    sample: &'a [(u32, u64)],
}

struct Keep(Vec<VectorPair>);

impl Sink<VectorPair> for Keep {
    fn wants_value(&self) -> bool {
        true
    }

    fn push(&mut self, pairs: &[VectorPair]) -> ControlFlow<()> {
        self.0.extend_from_slice(pairs);
        ControlFlow::Continue(())
    }
}

impl Case<'_> {
    fn measure(&self, device: &Arc<Device>, way: VectorWay, bytes: bool) -> Result<()> {
        let Case { rows, distance, .. } = *self;
        let predicate = VectorPredicate::within(distance)?;
        let task = VectorTask::new(rows, None, predicate);
        let begin = Instant::now();
        let ordered = matches!(way, VectorWay::Grid | VectorWay::Quantile);
        let fit = ordered.then(|| Arc::new(Fit::of(&task)));
        let surveyed = begin.elapsed().as_secs_f64();
        let technique =
            GpuVectors { fit, bytes, ..GpuVectors::new(std::slice::from_ref(device), way) };
        let budget = Budget::unlimited(0, 15);
        let (n, d) = (rows.len() as f64, rows.dimension() as f64);
        let repetitions = if n * n * d > 1e15 { 2 } else { 4 };
        let mut best = f64::INFINITY;
        let (mut first, mut parts, mut details) = (0.0, (0.0, 0.0), String::new());
        let (mut found, mut candidates) = (0u64, 0u64);
        for repetition in 0..repetitions {
            let begin = Instant::now();
            let prepared = technique.prepare(&task, &Vectors::whole(&task), &budget)?;
            let ready = begin.elapsed().as_secs_f64();
            let next = AtomicUsize::new(0);
            let work = || -> Result<(Vec<VectorPair>, u64)> {
                let (mut worker, mut sink) = (prepared.worker()?, Keep(Vec::new()));
                loop {
                    let piece = next.fetch_add(1, Ordering::Relaxed);
                    if piece >= prepared.pieces() {
                        return Ok((sink.0, worker.candidates()));
                    }
                    let _ = worker.run(piece, &mut sink)?;
                }
            };
            let kept = std::thread::scope(|scope| {
                let workers = prepared.workers().min(3);
                let threads: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
                let ended = threads.into_iter().map(|thread| thread.join().expect("a thread"));
                ended.collect::<Result<Vec<_>>>()
            })?;
            let seconds = begin.elapsed().as_secs_f64();
            if repetition == 0 {
                first = seconds;
            }
            if seconds < best {
                best = seconds;
                parts = (ready, seconds - ready);
            }
            details = prepared.details();
            found = kept.iter().map(|kept| kept.0.len() as u64).sum();
            candidates = kept.iter().map(|kept| kept.1).sum();
            if repetition == 0 {
                for &(row, partners) in self.sample {
                    let of = |pair: &&VectorPair| pair.probe == row || pair.build == row;
                    let all = kept.iter().map(|kept| kept.0.iter().filter(of).count() as u64);
                    let all: u64 = all.sum();
                    if all != partners {
                        println!("WRONG: row {row} has {partners} partners, found {all}");
                    }
                }
            }
        }
        if self.pairs.is_some_and(|pairs| pairs != found) {
            println!("WRONG: {found} pairs instead of {:?}", self.pairs);
        }
        let by_bytes = details.contains("bytes");
        let operations = n * (n - 1.0) * d;
        println!(
            "{} {n} x {d} within {distance}, {}: {:.1} ms ({:.1} preparing, {:.1} joining; first {:.1}; survey {:.1}); \
             {found} pairs, {:.1} partners, {candidates} candidates; {details}; as all pairs {:.1}% of {}, bus {:.1}%",
            rows.name(),
            way.name(),
            best * 1e3,
            parts.0 * 1e3,
            parts.1 * 1e3,
            first * 1e3,
            surveyed * 1e3,
            2.0 * found as f64 / n,
            100.0 * operations / parts.1 / if by_bytes { BYTES } else { HALVES },
            if by_bytes { "bytes" } else { "halves" },
            100.0 * (n * d * 4.0 + found as f64 * 16.0) / best / BUS,
        );
        Ok(())
    }
}
