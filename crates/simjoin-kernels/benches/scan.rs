//! How many signature pairs a second does one core compare?
//!
//! `cargo bench -p simjoin-kernels --bench scan` prints pairs per second of both scan kernels for
//! each tier and width. Signatures are random, so nothing survives: this is the speed of the filter
//! itself, from a run of 2,048 sets that stays in the cache.

use simjoin_core::Random;
use simjoin_kernels::bitmap::{Kernels, PROBES, Probes, SLACK, Survivors};
use simjoin_kernels::tier::Tier;
use std::hint::black_box;
use std::ops::Range;
use std::time::{Duration, Instant};

const SETS: usize = 2048;

fn main() {
    println!(
        "{:8} {:>5} {:>14} {:>14} {:>14}",
        "tier", "bits", "run pairs/s", "lists pairs/s", "lists of 8"
    );
    for tier in Tier::available() {
        measure::<1>(tier);
        measure::<2>(tier);
        measure::<4>(tier);
        measure::<8>(tier);
        measure::<16>(tier);
        measure::<32>(tier);
    }
}

fn measure<const W: usize>(tier: Tier) {
    let mut random = Random::new(1);
    let mut random = || random.bits();
    let owned: Vec<Vec<u64>> = (0..W).map(|_| (0..SETS).map(|_| random()).collect()).collect();
    let planes: [&[u64]; W] = std::array::from_fn(|w| owned[w].as_slice());
    let probes: [[u64; W]; PROBES] = std::array::from_fn(|_| std::array::from_fn(|_| random()));
    let limit = 4 * W as u64;
    let mut out = vec![0; PROBES * SETS + SLACK];
    let kernels = Kernels::<W>::of(tier);
    let run = pairs_per_second(PROBES * SETS, || {
        kernels.scan_run(black_box(&planes), black_box(&probes), &[limit; PROBES], &mut out)
    });
    let weights = vec![0; SETS];
    let mut survivors = Survivors::default();
    survivors.reserve(PROBES, SETS);
    let probes = PROBES * SETS / 8;
    let mut lists = |ranges: Vec<Range<u32>>| {
        let pairs = ranges.iter().map(ExactSizeIterator::len).sum();
        let probes = Probes {
            planes: std::array::from_fn(|w| &planes[w][..ranges.len()]),
            ranges: &ranges,
            limits: &vec![16 * limit as i32; ranges.len()],
        };
        pairs_per_second(pairs, || {
            kernels.scan_lists(black_box(&planes), &weights, black_box(&probes), 0, &mut survivors)
        })
    };
    let sets = (SETS - SLACK) as u32;
    let long = lists((0..16).map(|probe| probe + 1..sets).collect());
    let short = lists((0..probes as u32).map(|at| at % 200 * 8..at % 200 * 8 + 8).collect());
    println!("{:8} {:>5} {run:>14.3e} {long:>14.3e} {short:>14.3e}", tier.name(), 64 * W);
}

/// Returns the best of ten rounds of 20 ms each.
fn pairs_per_second(pairs: usize, mut call: impl FnMut() -> usize) -> f64 {
    let mut best = f64::INFINITY;
    for _ in 0..10 {
        let begin = Instant::now();
        let mut calls = 0u32;
        while begin.elapsed() < Duration::from_millis(20) {
            for _ in 0..16 {
                black_box(call());
            }
            calls += 16;
        }
        best = best.min(begin.elapsed().as_secs_f64() / f64::from(calls));
    }
    pairs as f64 / best
}
