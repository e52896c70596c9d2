//! Does every technique of the device find what the oracle finds?
//!
//! Each test needs a device; where there is none, it is counted as ignored, not as passed. With
//! `SIMJOIN_GPU_RECORD=gpu-verification.toml` a run in which all have passed is put on record.

use libtest_mimic::{Arguments, Failed, Trial};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use simjoin_core::{Bounds, Measure, Predicate, SetPair};
use simjoin_cpu::Naive;
use simjoin_gpu::{Device, GpuBitmap, devices};
use simjoin_plan::{Join, Room, Technique, Tile};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

#[path = "../../simjoin-cpu/src/testing.rs"]
mod testing;
use testing::{Rows, collections};

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let device = devices().ok().map(|devices| devices[0].clone());
    type Test = fn(&Arc<Device>) -> Result<(), Failed>;
    let tests: [(&str, Test); 3] = [
        ("random_collections_equal_naive", random_collections),
        ("many_near_duplicates_equal_naive", near_duplicates),
        ("large_sets_equal_naive", large_sets),
    ];
    let trial = |(name, test): (&str, Test)| {
        let here = device.clone();
        let run = move || here.as_ref().map_or_else(|| Err("no device".into()), test);
        Trial::test(name, run).with_ignored_flag(device.is_none())
    };
    let conclusion = libtest_mimic::run(&arguments, tests.map(trial).into());
    if let (Some(device), Some(file)) = (&device, std::env::var_os("SIMJOIN_GPU_RECORD")) {
        if conclusion.has_failed() || conclusion.num_filtered_out > 0 {
            eprintln!("no record: not every test has passed");
            return ExitCode::FAILURE;
        }
        if let Err(error) = std::fs::write(&file, record(device, conclusion.num_passed)) {
            eprintln!("{}: {error}", file.to_string_lossy());
            return ExitCode::FAILURE;
        }
    }
    conclusion.exit_code()
}

/// What was verified where: sources, device, driver, date, and how many tests have passed.
fn record(device: &Device, passed: u64) -> String {
    let info = &device.info;
    let (major, minor) = info.driver;
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (year, month, day) = date(seconds / 86_400);
    format!(
        "sources = \"{}\"\ndevice = \"{}\"\ndriver = \"CUDA {major}.{minor}\"\n\
         date = \"{year}-{month:02}-{day:02}\"\npassed = {passed}\n",
        env!("SIMJOIN_GPU_SOURCES"),
        info.name,
    )
}

/// Year, month and day of a day counted from 1970-01-01.
fn date(mut day: u64) -> (u64, u64, u64) {
    let leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    let mut year = 1970;
    while day >= 365 + u64::from(leap(year)) {
        day -= 365 + u64::from(leap(year));
        year += 1;
    }
    let february = 28 + u64::from(leap(year));
    let mut month = 1;
    for days in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if day < days {
            break;
        }
        day -= days;
        month += 1;
    }
    (year, month, day + 1)
}

fn techniques(device: &Arc<Device>) -> Vec<Box<dyn Technique>> {
    let bitmap =
        |bits| -> Box<dyn Technique> { Box::new(GpuBitmap { device: device.clone(), bits }) };
    GpuBitmap::BITS.map(bitmap).into()
}

fn run(technique: &dyn Technique, join: &Join<'_>, tile: &Tile) -> Vec<SetPair> {
    let room = Room { piece_tokens: 1000, bytes: u64::MAX, threads: 2 };
    let mut pairs = testing::run(technique, join, tile, &room, true).0;
    pairs.sort_unstable();
    pairs
}

fn check(
    device: &Arc<Device>,
    predicate: Predicate,
    left: &Rows,
    right: Option<&Rows>,
) -> Result<(), String> {
    let (left, right) = collections(left, right);
    for (join, _) in Join::parts(&left, right.as_ref(), true, Bounds::new(predicate)) {
        let whole = Tile::whole(&join);
        // And a tile out of the middle.
        let (n, m) = (join.probe.len() as u32, join.build.len() as u32);
        let part = Tile { probes: n / 3..n - n / 5, builds: m / 4..m - m / 4 };
        for tile in [whole, part] {
            let expected = run(&Naive, &join, &tile);
            for technique in techniques(device) {
                let found = run(&*technique, &join, &tile);
                if found != expected {
                    let (name, variant) = (technique.name(), technique.variant());
                    let (found, expected) = (found.len(), expected.len());
                    return Err(format!(
                        "{name} {variant} finds {found} of {expected} pairs at {predicate}"
                    ));
                }
            }
        }
    }
    Ok(())
}

fn predicate() -> impl Strategy<Value = Predicate> {
    let ratio = prop_oneof![
        Just("0.3"),
        Just("0.5"),
        Just("2/3"),
        Just("0.8"),
        Just("0.95"),
        Just("0.707106781186547524")
    ];
    (0..Measure::ALL.len(), ratio, 1..6u32).prop_map(|(measure, ratio, count)| {
        let measure = Measure::ALL[measure];
        let text = if measure == Measure::Overlap { count.to_string() } else { ratio.into() };
        Predicate::parse(measure, &text).unwrap()
    })
}

fn rows() -> impl Strategy<Value = Rows> {
    let universe = prop_oneof![Just(12u32), Just(60), Just(700), Just(5000)];
    universe.prop_flat_map(|universe| {
        let set = prop::collection::btree_set(0..universe, 0..40);
        let edits = prop::collection::vec((any::<prop::sample::Index>(), 0..universe), 0..60);
        (prop::collection::vec(set, 1..40), edits).prop_map(|(mut rows, edits)| {
            for (at, token) in edits {
                let mut copy = rows[at.index(rows.len())].clone();
                if !copy.remove(&token) {
                    copy.insert(token);
                }
                rows.push(copy);
            }
            rows
        })
    })
}

fn random_collections(device: &Arc<Device>) -> Result<(), Failed> {
    let mut runner = TestRunner::new(Config { cases: 100, ..Config::default() });
    let input = (rows(), prop::option::of(rows()), predicate());
    let result = runner.run(&input, |(left, right, predicate)| {
        check(device, predicate, &left, right.as_ref()).map_err(TestCaseError::fail)
    });
    result.map_err(|error| error.to_string().into())
}

/// Enough sets for many blocks and ranges, and more survivors than fit one step.
fn near_duplicates(device: &Arc<Device>) -> Result<(), Failed> {
    let token = |seed: u32, at: u32| (seed.wrapping_mul(2_654_435_761) >> 7) % (7 + at * at * 3);
    let rows = |from: u32| -> Rows {
        (from..from + 4000)
            .map(|row| {
                let seed = row % 500;
                (0..3 + seed % 38).map(|at| token(seed + u32::from(at == row / 500), at)).collect()
            })
            .collect()
    };
    let (left, right) = (rows(0), rows(1500));
    for measure in Measure::ALL {
        let text = if measure == Measure::Overlap { "3" } else { "0.6" };
        let predicate = Predicate::parse(measure, text).unwrap();
        check(device, predicate, &left, None)?;
        check(device, predicate, &left, Some(&right))?;
    }
    Ok(())
}

/// Sizes 1 and 100,000 beside each other; one token in every set; equal sets.
fn large_sets(device: &Arc<Device>) -> Result<(), Failed> {
    let mut rows: Rows = (1..40u32).map(|row| [0, row, row / 2].into()).collect();
    rows.push((0..100_000).collect());
    rows.push((0..100_000).step_by(2).collect());
    rows.push((1..100_000).collect());
    rows.extend(rows.clone());
    for (measure, text) in
        [(Measure::Jaccard, "0.5"), (Measure::Containment, "1"), (Measure::Overlap, "1")]
    {
        check(device, Predicate::parse(measure, text).unwrap(), &rows, None)?;
    }
    Ok(())
}
