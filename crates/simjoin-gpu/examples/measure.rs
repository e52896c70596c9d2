//! How fast are intersections and overlaps on this machine's device, compared with its limits?
//!
//! `cargo run --release -p simjoin-gpu --example measure -- [intersect] [overlaps] [bits] [techniques] [select] [check]`
//! runs the named measurements, or all of them.

use simjoin_core::{Measure, Predicate, Random, RawSets, Result, SetCollection, prepare};
use simjoin_engine::Budget;
use simjoin_gpu::{
    Counts, Device, DeviceArray, Intersect, IntersectKernel, OverlapTechnique, Overlaps, devices,
};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Instant;

/// The bandwidth of a copy within the memory of an H200, in bytes read and written per second.
const COPY: f64 = 4.3e12;

fn main() -> Result<()> {
    let device = devices()?[0].clone();
    println!("{}, {} multiprocessors", device.info.name, device.info.multiprocessors);
    let asked: Vec<String> = std::env::args().skip(1).collect();
    let wanted = |what: &str| asked.is_empty() || asked.iter().any(|asked| asked == what);
    if wanted("intersect") {
        intersections(&device)?;
    }
    if ["overlaps", "bits", "techniques", "select", "check"].into_iter().any(wanted) {
        overlaps(&device, &wanted)?;
    }
    Ok(())
}

/// Returns a number from 0 to 1, never 0.
fn positive(random: &mut Random) -> f64 {
    ((random.bits() >> 11) + 1) as f64 / (1u64 << 53) as f64
}

/// Returns about `count` ascending numbers below `universe`, with the gaps of independent draws.
fn ascending(seed: u64, count: usize, universe: f64) -> Vec<u32> {
    let mut random = Random::new(seed);
    let mean = universe / count as f64;
    let mut values = Vec::with_capacity(count + count / 50);
    let mut value = -1.0f64;
    loop {
        value += 1.0 + (-(mean - 1.0).max(0.0) * positive(&mut random).ln()).floor();
        if value >= universe {
            return values;
        }
        values.push(value as u32);
    }
}

/// Makes `count` values, each on a separate thread.
fn on_threads<T: Send>(count: usize, make: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let make = &make;
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..count).map(|at| scope.spawn(move || make(at))).collect();
        threads.into_iter().map(|thread| thread.join().expect("a generator")).collect()
    })
}

fn intersections(device: &Arc<Device>) -> Result<()> {
    let cases: [(usize, usize, f64, usize); 6] = [
        (10_000_000, 10_000_000, 1e9, 8),
        (10_000_000, 10_000_000, 2e7, 4),
        (100_000_000, 100_000_000, 1e9, 1),
        (100_000_000, 100_000_000, 4e9, 1),
        (1_000_000, 100_000_000, 4e9, 1),
        (10_000, 100_000_000, 4e9, 1),
    ];
    println!("elements             of universe  kernel       us  GB/s  of copy   elements ms");
    for (n, m, universe, pairs) in cases {
        let size = |at: usize| if at.is_multiple_of(2) { n } else { m };
        let values = on_threads(2 * pairs, |at| ascending(at as u64, size(at), universe));
        let begin = Instant::now();
        let arrays: Vec<DeviceArray> =
            values.iter().map(|values| DeviceArray::new(device, values)).collect::<Result<_>>()?;
        let sent = begin.elapsed().as_secs_f64();
        let pairs: Vec<(&DeviceArray, &DeviceArray)> =
            arrays.chunks(2).map(|pair| (&pair[0], &pair[1])).collect();
        let bytes = 4.0 * (pairs[0].0.len() + pairs[0].1.len()) as f64;
        let mut work = Intersect::new(device)?;
        let mut sizes = Vec::new();
        for kernel in IntersectKernel::ALL {
            sizes.push(work.size(pairs[0].0, pairs[0].1, kernel)?.0);
            work.repeat(&pairs, kernel, 2 * pairs.len())?;
            let times = if n > 20_000_000 { 20 } else { 200 };
            let mut each: Vec<f64> = Vec::new();
            for _ in 0..5 {
                each.push(work.repeat(&pairs, kernel, times)?);
            }
            each.sort_by(f64::total_cmp);
            work.elements(pairs[0].0, pairs[0].1, kernel)?;
            let (_, elements) = work.elements(pairs[0].0, pairs[0].1, kernel)?;
            println!(
                "{n:>9} {m:>9} {universe:>9e}  {:<8} {:>8.1} {:>5.0} {:>7.1}% {:>9.3}",
                kernel.name(),
                each[2] * 1e6,
                bytes / each[2] / 1e9,
                100.0 * bytes / each[2] / COPY,
                elements * 1e3,
            );
        }
        let sent_bytes: usize = arrays.iter().map(|array| 4 * array.len()).sum();
        println!(
            "    {} common; chosen: {}; sent at {:.1} GB/s, including the check that they ascend",
            sizes[0],
            IntersectKernel::choose(pairs[0].0, pairs[0].1).name(),
            sent_bytes as f64 / sent / 1e9,
        );
        assert!(sizes.iter().all(|&size| size == sizes[0]), "{sizes:?}");
    }
    Ok(())
}

/// The shape of a collection in the literature. Tokens follow Zipf's law or are uniform.
struct Shape {
    name: &'static str,
    sets: usize,
    size: f64,
    universe: u32,
    zipf: bool,
    /// The goal for counting, in milliseconds.
    goal: f64,
}

impl Shape {
    fn make(&self) -> SetCollection {
        let parts = 16;
        let made = on_threads(parts, |part| {
            let mut random = Random::new(part as u64 + 1000);
            let mut raw = RawSets::default();
            let mut seen = vec![false; self.universe as usize];
            let mut row = Vec::new();
            for _ in 0..self.sets / parts {
                // Sizes are distributed exponentially.
                let size = 1.0 - (self.size - 1.0) * positive(&mut random).ln();
                let size = (size.round() as usize).min(self.universe as usize / 2).max(1);
                while row.len() < size {
                    let draw = positive(&mut random);
                    let token = if self.zipf {
                        (draw * f64::from(self.universe).ln()).exp() - 1.0
                    } else {
                        draw * f64::from(self.universe)
                    };
                    let token = (token as u32).min(self.universe - 1);
                    if !std::mem::replace(&mut seen[token as usize], true) {
                        row.push(token);
                    }
                }
                raw.push(&row);
                row.drain(..).for_each(|token| seen[token as usize] = false);
            }
            raw
        });
        let mut all = RawSets::default();
        for raw in made {
            let base = all.tokens.len();
            all.offsets.extend(raw.offsets[1..].iter().map(|offset| base + offset));
            all.tokens.extend_from_slice(&raw.tokens);
        }
        prepare(all, None, self.universe as usize).expect("a collection").0
    }
}

fn shape(name: &'static str, size: f64, universe: u32, zipf: bool, goal: f64) -> Shape {
    Shape { name, sets: 100_000, size, universe, zipf, goal }
}

fn overlaps(device: &Arc<Device>, wanted: &dyn Fn(&str) -> bool) -> Result<()> {
    let collections = [
        shape("BMS-like", 17.0, 1657, true, 20.0),
        shape("WORDS-like", 2021.0, 11_000, true, 200.0),
        shape("ENRON-like", 258.0, 1_100_000, true, 1000.0),
        shape("ENRON-like, uniform", 258.0, 1_100_000, false, 1000.0),
        shape("ORKUT-like", 905.0, 8_700_000, true, 1000.0),
        shape("ORKUT-like, uniform", 905.0, 8_700_000, false, 1000.0),
    ];
    let budget = Budget::unlimited(1000, 16);
    for shape in &collections {
        let sets = shape.make();
        println!(
            "{}: {} sets, average {:.1}, universe {}",
            shape.name,
            sets.len(),
            sets.total_tokens() as f64 / sets.len() as f64,
            sets.universe(),
        );
        if wanted("overlaps") {
            measure(device, &sets, OverlapTechnique::Combined(None), &budget, shape.goal)?;
        }
        if wanted("bits") && sets.universe() > 20_000 {
            for frequent in [1024, 4096, 16_384, 65_536] {
                let technique = OverlapTechnique::Combined(Some(frequent));
                measure(device, &sets, technique, &budget, shape.goal)?;
            }
        }
        if wanted("techniques") {
            for technique in &OverlapTechnique::ALL[1..] {
                // Much slower techniques are measured on fewer sets.
                let bits = matches!(technique, OverlapTechnique::Dense | OverlapTechnique::Bitmap);
                if bits && sets.universe() > 20_000 {
                    continue;
                }
                let slow = !bits && sets.total_tokens() > 10_000_000;
                let fewer = Shape { sets: 10_000, ..*shape };
                if slow {
                    print!("  (10,000 sets) ");
                    measure(device, &fewer.make(), *technique, &budget, shape.goal)?;
                } else {
                    measure(device, &sets, *technique, &budget, shape.goal)?;
                }
            }
        }
        if wanted("select") {
            select(device, &sets, &budget)?;
        }
        if wanted("check") {
            check(device, &Shape { sets: 24_000, ..*shape }.make(), &budget)?;
        }
    }
    Ok(())
}

fn measure(
    device: &Arc<Device>,
    sets: &SetCollection,
    technique: OverlapTechnique,
    budget: &Budget,
    goal: f64,
) -> Result<()> {
    let mut overlaps = Overlaps::new(device, sets, None, technique, budget)?;
    overlaps.count_only()?;
    let first = overlaps.seconds;
    overlaps.count_only()?;
    let count = overlaps.seconds.count - first.count;
    // Prepare again, now that everything is warm.
    drop(overlaps);
    let overlaps = Overlaps::new(device, sets, None, technique, budget)?;
    let prepare = overlaps.seconds.prepare;
    let pairs = sets.len() as f64 * (sets.len() as f64 - 1.0) / 2.0;
    println!(
        "  {:<14} {:>6} bits, {} bytes: prepare {:>7.2} ms, count {:>8.2} ms, goal {goal} ms; \
         {:.2e} pairs/s, written at {:.0} GB/s; sent in {:.0} ms",
        technique.name(),
        overlaps.frequent(),
        overlaps.width(),
        prepare * 1e3,
        count * 1e3,
        pairs / count,
        pairs * f64::from(overlaps.width()) / count / 1e9,
        overlaps.seconds.send * 1e3,
    );
    Ok(())
}

/// Measures the containment join, and the best ten columns of each row.
fn select(device: &Arc<Device>, sets: &SetCollection, budget: &Budget) -> Result<()> {
    let technique = OverlapTechnique::Combined(None);
    for threshold in ["1", "0.8"] {
        let predicate = Predicate::parse(Measure::Containment, threshold)?;
        let mut overlaps = Overlaps::new(device, sets, None, technique, budget)?;
        let mut found = 0;
        let flow = overlaps.selected(predicate, |pairs| {
            found += pairs.len();
            if found < 50_000_000 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        let seconds = overlaps.seconds;
        println!(
            "  {predicate}: {found} pairs{}; count {:.1} ms, select {:.1} ms, fetch {:.1} ms",
            if flow.is_break() { ", then stopped" } else { "" },
            seconds.count * 1e3,
            seconds.select * 1e3,
            seconds.fetch * 1e3,
        );
    }
    let mut overlaps = Overlaps::new(device, sets, None, technique, budget)?;
    let mut found = 0;
    let flow = overlaps.top(10, None, |_, pairs| {
        found += pairs.len();
        ControlFlow::Continue(())
    })?;
    assert!(flow.is_continue());
    let seconds = overlaps.seconds;
    println!(
        "  the best 10 of each row: {found}; count {:.1} ms, select {:.1} ms, fetch {:.1} ms",
        seconds.count * 1e3,
        seconds.select * 1e3,
        seconds.fetch * 1e3,
    );
    Ok(())
}

/// Checks that the sum of all overlaps is the number of pairs of sets with a common token, summed over
/// tokens.
fn check(device: &Arc<Device>, sets: &SetCollection, budget: &Budget) -> Result<()> {
    let mut frequency = vec![0u64; sets.universe() as usize];
    sets.tokens().iter().for_each(|&token| frequency[token as usize] += 1);
    let expected: u64 = frequency.iter().map(|&many| many * many.saturating_sub(1) / 2).sum();
    let technique = OverlapTechnique::Combined(None);
    let mut overlaps = Overlaps::new(device, sets, None, technique, budget)?;
    let begin = Instant::now();
    let (mut sum, mut pairs) = (0u64, 0u64);
    let flow = overlaps.counts(|tile| {
        for row in 0..tile.rows {
            match tile.row(row) {
                Counts::U8(row) => {
                    pairs += row.len() as u64;
                    sum += row.chunks(1 << 16).map(total).sum::<u64>();
                }
                Counts::U16(row) => {
                    pairs += row.len() as u64;
                    sum += row.iter().map(|&count| u64::from(count)).sum::<u64>();
                }
                Counts::U32(row) => {
                    pairs += row.len() as u64;
                    sum += row.iter().map(|&count| u64::from(count)).sum::<u64>();
                }
            }
        }
        ControlFlow::Continue(())
    })?;
    let seconds = begin.elapsed().as_secs_f64();
    assert!(flow.is_continue() && sum == expected, "{sum} instead of {expected}");
    println!(
        "  all counts of {} sets to the host in {:.0} ms ({:.1} GB/s): {pairs} pairs share {sum} tokens, \
         as expected",
        sets.len(),
        seconds * 1e3,
        pairs as f64 * f64::from(overlaps.width()) / seconds / 1e9,
    );
    Ok(())
}

fn total(part: &[u8]) -> u64 {
    u64::from(part.iter().map(|&count| u32::from(count)).sum::<u32>())
}
