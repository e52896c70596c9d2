//! Are the intersections of two arrays those of the oracle?

use crate::brief;
use libtest_mimic::Failed;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use simjoin_core::{Error, Random};
use simjoin_gpu::{Device, DeviceArray, IntersectKernel, intersect};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Checks the size and the elements from every kernel and from the chosen one, in both orders of the arrays.
fn check(device: &Arc<Device>, a: &[u32], b: &[u32], case: &str) -> Result<(), String> {
    let elements_of_a: BTreeSet<u32> = a.iter().copied().collect();
    let expected: Vec<u32> =
        b.iter().copied().filter(|value| elements_of_a.contains(value)).collect();
    for kernel in IntersectKernel::ALL.map(Some).into_iter().chain([None]) {
        for (a, b) in [(a, b), (b, a)] {
            let name = kernel.map_or("auto", IntersectKernel::name);
            let run = |elements| {
                intersect(device, a, b, kernel, elements).map_err(|error| error.to_string())
            };
            let size = run(false)?.size;
            if size != expected.len() as u64 {
                return Err(format!("{case}: {name} counts {size} of {}", expected.len()));
            }
            let found = run(true)?;
            if found.elements.as_deref() != Some(&expected) || found.size != size {
                let (n, m) = (a.len(), b.len());
                return Err(format!("{case}: {name} writes different elements of {n} and {m}"));
            }
        }
    }
    Ok(())
}

/// Returns `count` ascending numbers with random gaps, from `first` on.
fn ascending(seed: u64, first: u32, count: usize, gap: u64) -> Vec<u32> {
    let mut random = Random::new(seed);
    let mut value = u64::from(first);
    let mut values = Vec::new();
    while values.len() < count && value <= u64::from(u32::MAX) {
        values.push(value as u32);
        value += 1 + random.bits() % gap;
    }
    values
}

/// Tests disjoint arrays, equal ones, one inside the other, one element, all elements, runs, very different
/// sizes, the first and the last number, sizes at the edges of blocks, and empty arrays.
pub(crate) fn adversarial(device: &Arc<Device>) -> Result<(), Failed> {
    let large = if brief() { 9_000 } else { 100_000 };
    let all: Vec<u32> = (0..large).collect();
    let every = |step: u32, from: u32| (from..large).step_by(step as usize).collect::<Vec<u32>>();
    let runs = |length: u32, from: u32| {
        all.iter()
            .copied()
            .filter(|value| ((value + from) / length).is_multiple_of(2))
            .collect::<Vec<u32>>()
    };
    let top: Vec<u32> = (u32::MAX - large..=u32::MAX).collect();
    let ends = [0, u32::MAX];
    let cases: Vec<(&str, Vec<u32>, Vec<u32>)> = vec![
        ("nothing", vec![], vec![]),
        ("nothing and all", vec![], all.clone()),
        ("one element", vec![7], vec![7]),
        ("one element, another", vec![7], vec![8]),
        ("one element and all", vec![large / 2], all.clone()),
        ("one element beyond all", vec![large], all.clone()),
        ("equal", all.clone(), all.clone()),
        ("inside", every(3, 1), all.clone()),
        ("inside, far apart", every(997, 1), all.clone()),
        ("even and odd", every(2, 0), every(2, 1)),
        ("disjoint ranges", all.clone(), (large..2 * large).collect()),
        ("touching ranges", all.clone(), (large - 1..2 * large).collect()),
        ("runs of 5 and 7", runs(5, 0), runs(7, 3)),
        ("runs of 4,000", runs(4000, 0), runs(4000, 17)),
        ("the last numbers", top.clone(), top.iter().copied().step_by(2).collect()),
        ("first and last", ends.to_vec(), ends.to_vec()),
        ("first, last and all between", ends.to_vec(), [&all[..], &top].concat()),
        ("both ends in one tile", vec![0, 1, u32::MAX], vec![0, 5, u32::MAX - 1, u32::MAX]),
        ("multiples of a power of two", (0..5000).map(|i| i << 19).collect(), every(2, 0)),
        (
            "ten and very many",
            ascending(1, 5, 10, 400_000),
            ascending(2, 0, 40 * large as usize, 3),
        ),
        (
            "sparse",
            ascending(3, 0, large as usize, 80_000),
            ascending(4, 9, large as usize, 60_000),
        ),
        ("sparse and dense", ascending(5, 0, 3000, 800), ascending(6, 0, 10 * large as usize, 3)),
    ];
    for (case, a, b) in &cases {
        check(device, a, b, case)?;
    }
    // Sizes at which tiles, blocks and parts end.
    for edge in [1, 2, 3, 4, 2048, 3840, 4096, 30_720, 61_440] {
        for size in [edge - 1, edge, edge + 1, edge + 5] {
            if brief() && size > 9000 {
                continue;
            }
            let a: Vec<u32> = (0..size).map(|i| 3 * i).collect();
            let b: Vec<u32> = (0..size).map(|i| 2 * i + 1).collect();
            check(device, &a, &b, &format!("{size} elements"))?;
            check(device, &a, &a, &format!("{size} equal elements"))?;
            check(device, &a, &[3 * size.saturating_sub(1)], &format!("the last of {size}"))?;
        }
    }
    Ok(())
}

pub(crate) fn random(device: &Arc<Device>) -> Result<(), Failed> {
    let config = Config {
        cases: if brief() { 3 } else { 150 },
        failure_persistence: None,
        ..Config::default()
    };
    let most = if brief() { 4_000usize } else { 120_000 };
    let gaps = || prop_oneof![Just(1u64), Just(2), Just(30), Just(1000), Just(30_000)];
    let input = (any::<u64>(), 0..most, 0..most, gaps(), gaps(), 0..5000u32, 0..4u32);
    let result = TestRunner::new(config).run(&input, |(seed, n, m, g, h, offset, shared)| {
        let a = ascending(seed, 0, n, g);
        let mut b = ascending(seed ^ 1, offset, m, h);
        // Some elements of `a` are added to `b`.
        if shared > 0 {
            b.extend(a.iter().copied().step_by(1 << (2 * shared)));
            b.sort_unstable();
            b.dedup();
        }
        let case = format!("seed {seed}: {n} and {m}, gaps {g} and {h}");
        check(device, &a, &b, &case).map_err(TestCaseError::fail)
    });
    result.map_err(|error| error.to_string().into())
}

/// Tests that arrays that do not ascend are rejected.
pub(crate) fn rejected(device: &Arc<Device>) -> Result<(), Failed> {
    let mut values: Vec<u32> = (0..50_000).collect();
    values[40_000] = 39_999;
    match DeviceArray::new(device, &values) {
        Err(Error::Internal(why)) if why.contains("39999") => Ok(()),
        Err(error) => Err(error.to_string().into()),
        Ok(_) => Err("accepted".into()),
    }
}
