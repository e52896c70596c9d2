//! How fast is this machine?
//!
//! Four short loops of a few milliseconds each represent the work of techniques: comparing signatures in
//! runs and in lists, merging sets, and writing to scattered places. The machine's [`Ratios`] are their times
//! divided by those of the machine that the cost table was measured on.

use simjoin_engine::{Random, Ratios};
use simjoin_kernels::bitmap::{Kernels, PROBES, Probes, SLACK, Survivors, WEIGHT_UNIT};
use simjoin_kernels::overlap::overlap;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Seconds per pair of 64-bit signatures in a list, fitted to the same machines as `CostTable::list`.
const LIST: f64 = 0.1e-9;

/// Seconds per pair of 256-bit signatures in a run, per merged token and per scattered write on the machine
/// of `CostTable::default` (2-core AMD EPYC, 2026-11-15).
const SCAN: f64 = 0.21e-9;
const MERGE: f64 = 2.21e-9;
const SCATTER: f64 = 0.9e-9;

/// Measures the machine.
pub fn calibrate() -> Ratios {
    let mut random = Random::default();
    let mut words = || random.below(u64::MAX);

    let owned: [Vec<u64>; 4] = std::array::from_fn(|_| (0..2048).map(|_| words()).collect());
    let planes: [&[u64]; 4] = std::array::from_fn(|w| owned[w].as_slice());
    let probes: [[u64; 4]; PROBES] = std::array::from_fn(|_| std::array::from_fn(|_| words()));
    let mut out = vec![0; PROBES * 2048 + SLACK];
    let kernels = Kernels::<4>::best();
    let scan = seconds(|| {
        kernels.scan_run(black_box(&planes), black_box(&probes), &[16; PROBES], &mut out) as u64
    }) / (PROBES * 2048) as f64;

    // In this list every set meets the sets before it.
    const LISTED: usize = 1024;
    let plane = [&planes[0][..LISTED + SLACK]];
    let ranges: Vec<_> = (0..LISTED as u32).map(|end| 0..end).collect();
    let limits = [16 * WEIGHT_UNIT; LISTED];
    let listed = Probes { planes: [&plane[0][..LISTED]], ranges: &ranges, limits: &limits };
    let mut survivors = Survivors::default();
    survivors.reserve(PROBES, LISTED);
    let kernels = Kernels::<1>::best();
    let list = seconds(|| {
        let mut next = 0;
        while next < LISTED {
            next = kernels.scan_lists(
                black_box(&plane),
                &[0; LISTED + SLACK],
                &listed,
                next,
                &mut survivors,
            );
        }
        next as u64
    }) / (LISTED * (LISTED - 1) / 2) as f64;

    let sets: [Vec<u32>; 2] = std::array::from_fn(|_| {
        let mut set: Vec<u32> = (0..1000).map(|_| words() as u32 % 100_000).collect();
        set.sort_unstable();
        set.dedup();
        set
    });
    let merge = seconds(|| u64::from(overlap(black_box(&sets[0]), black_box(&sets[1]))))
        / (sets[0].len() + sets[1].len()) as f64;

    let mut places: Vec<u64> = (0..1 << 20).collect();
    let scatter = seconds(|| {
        let mut state = 1u64;
        for value in 0..20_000u64 {
            // Knuth's MMIX generator; the upper 20 bits are the place.
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(value | 1);
            places[(state >> 44) as usize] = value;
        }
        black_box(&mut places)[(state >> 44) as usize]
    }) / 20_000.0;

    let ratio = |measured: f64, known: f64| (measured / known).clamp(0.1, 100.0);
    Ratios {
        vector: ratio(scan, SCAN),
        lists: ratio(list, LIST),
        scalar: ratio(merge, MERGE),
        memory: ratio(scatter, SCATTER),
    }
}

/// Returns the shortest of several runs within a few milliseconds. The first run does not count: it
/// accesses all memory for the first time.
fn seconds(mut run: impl FnMut() -> u64) -> f64 {
    black_box(run());
    let begin = Instant::now();
    let mut best = f64::INFINITY;
    while begin.elapsed() < Duration::from_millis(4) {
        let start = Instant::now();
        black_box(run());
        best = best.min(start.elapsed().as_secs_f64());
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calibration_finds_positive_finite_ratios() {
        let Ratios { vector, lists, scalar, memory } = calibrate();
        for ratio in [vector, lists, scalar, memory] {
            assert!((0.1..=100.0).contains(&ratio), "{ratio}");
        }
    }
}
