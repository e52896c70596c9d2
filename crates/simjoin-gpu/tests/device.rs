//! Does every technique for devices find the pairs of the oracle?
//!
//! Each test needs a device. Without one it counts as ignored, not as passed. With `SIMJOIN_GPU_RECORD=1`, a
//! run in which all tests passed is recorded (`cargo xtask gpu-record`). `SIMJOIN_GPU_TESTS=brief` makes
//! every test smaller, for a run under compute-sanitizer, which slows kernels down a hundredfold. `small`
//! makes them smaller still, for the emulated device, which is slower than that. Such runs are not recorded.

use libtest_mimic::{Arguments, Failed, Trial};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use simjoin_core::{Bounds, Measure, Predicate, SetPair};
use simjoin_cpu::{Naive, PpJoin, PrefixBitmap, filters};
use simjoin_engine::{
    Budget, Choice, CostTable, Resources, SetTask, Sets, Technique, Tile, choose, cut,
};
use simjoin_gpu::{Device, GpuBitmap, GpuMmJoin, GpuPrefix, GpuVerify, Way, devices};
use simjoin_testing::{Rows, collections, near_duplicates, predicate, rows};
use std::collections::BTreeSet;
use std::process::ExitCode;
use std::sync::Arc;

#[path = "device/arithmetic.rs"]
mod arithmetic;
#[path = "device/buffers.rs"]
mod buffers;
#[path = "device/emulated.rs"]
mod emulated;
#[path = "device/faults.rs"]
mod faults;
#[path = "device/intersections.rs"]
mod intersections;
#[path = "device/kinds.rs"]
mod kinds;
#[path = "device/machines.rs"]
mod machines;
#[path = "device/overlaps.rs"]
mod overlaps;
#[allow(dead_code, reason = "`kernels.rs` reports the changes")]
#[path = "device/record.rs"]
mod record;
#[path = "device/vectors.rs"]
mod vectors;

fn main() -> ExitCode {
    if let Some(code) =
        emulated::run_part(&[&buffers::PARTS, &faults::PARTS, &kinds::PARTS, &machines::PARTS])
    {
        return code;
    }
    let arguments = Arguments::from_args();
    let device = devices().ok().map(|devices| devices[0].clone());
    type Test = fn(&Arc<Device>) -> Result<(), Failed>;
    let tests: [(&str, Test); 27] = [
        ("random_collections_equal_naive", random_collections),
        ("near_duplicates_equal_naive", many_near_duplicates),
        ("large_sets_equal_naive", large_sets),
        ("long_sets_equal_naive", long_sets),
        ("full_buffers_lose_no_pairs", full_buffers),
        ("repeated_sets_are_counted_per_row", repeated_sets),
        ("tiles_that_do_not_fit_are_cut", tiles_that_do_not_fit),
        ("large_arrays_are_sent_completely", large_arrays),
        ("intersections_of_adversarial_arrays_equal_oracle", intersections::adversarial),
        ("intersections_of_random_arrays_equal_oracle", intersections::random),
        ("arrays_that_do_not_ascend_are_rejected", intersections::rejected),
        ("overlaps_of_random_collections_equal_merges", overlaps::random),
        ("overlaps_of_many_sets_equal_merges", overlaps::many),
        ("overlaps_of_adversarial_sets_equal_merges", overlaps::adversarial),
        ("overlaps_stop_when_consumer_breaks", overlaps::stopped),
        ("random_vectors_equal_plain_loop", vectors::random),
        ("equal_vectors_are_all_found", vectors::duplicates),
        ("vectors_of_every_dimension_equal_plain_loop", vectors::dimensions),
        ("vectors_of_bytes_equal_plain_loop", vectors::bytes),
        ("joins_of_many_vectors_equal_cpu", vectors::many),
        ("sorting_in_several_pieces_finds_all_pairs", vectors::sorted_in_pieces),
        ("vectors_that_do_not_fit_are_joined_in_slabs", vectors::small_device),
        ("zero_rows_outliers_and_empty_inputs_are_handled", vectors::edges),
        ("counts_are_exact_when_candidate_buffer_is_full", buffers::counting),
        ("short_launches_lose_no_pairs", buffers::short_launches),
        ("nan_is_the_longest_length", arithmetic::lengths),
        ("warp_numbers_are_correct_beyond_2_to_the_27", arithmetic::warps),
    ];
    // Only an emulated device can be of any kind, and can fail on request.
    let emulated: [(&str, Test); 10] = [
        ("two_kinds_of_devices_find_all_vectors", kinds::vectors_of_two_kinds),
        ("failing_devices_return_errors_or_exact_answers", faults::anywhere),
        ("device_memory_is_released_after_a_join", buffers::given_back),
        ("joins_stay_within_estimated_device_memory", buffers::little_memory),
        ("launches_are_short_if_driver_has_a_timeout", buffers::timeout),
        ("devices_unknown_to_nvrtc_run_portable_code", machines::newer_device),
        ("devices_without_code_are_unavailable", machines::nothing_compiles),
        ("inexact_tensor_cores_are_not_used", machines::inexact_device),
        ("unusable_devices_are_left_out", machines::some_left_out),
        ("damaged_cached_code_is_compiled_again", machines::damaged_code),
    ];
    let is_emulated = device.as_deref().is_some_and(emulated::is_emulated);
    let trial = |able: bool| {
        let device = &device;
        move |(name, test): (&str, Test)| {
            let device = device.clone();
            let run = move || device.as_ref().map_or_else(|| Err("no device".into()), test);
            Trial::test(name, run).with_ignored_flag(!able)
        }
    };
    let mut trials: Vec<Trial> = tests.map(trial(device.is_some())).into();
    trials.extend(emulated.map(trial(is_emulated)));
    let conclusion = libtest_mimic::run(&arguments, trials);
    if std::env::var_os("SIMJOIN_GPU_RECORD").is_some() {
        let Some(device) = &device else {
            eprintln!("no record: no GPU was found");
            return ExitCode::FAILURE;
        };
        if conclusion.has_failed() || conclusion.num_filtered_out > 0 || brief() {
            eprintln!("no record: not every test passed at full length");
            return ExitCode::FAILURE;
        }
        let written = record::record(&device.info, conclusion.num_passed).and_then(|text| {
            std::fs::write(record::FILE, text).map_err(|e| format!("{}: {e}", record::FILE))
        });
        if let Err(why) = written {
            eprintln!("no record: {why}");
            return ExitCode::FAILURE;
        }
    }
    conclusion.exit_code()
}

/// The size of each test.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Length {
    Full,
    Brief,
    Small,
}

/// Returns the length that `SIMJOIN_GPU_TESTS` selects.
fn length() -> Length {
    match std::env::var("SIMJOIN_GPU_TESTS").as_deref() {
        Err(_) | Ok("full" | "") => Length::Full,
        Ok("brief") => Length::Brief,
        Ok("small") => Length::Small,
        Ok(other) => panic!("SIMJOIN_GPU_TESTS={other}: expected full, brief or small"),
    }
}

/// Returns whether tests are shortened.
fn brief() -> bool {
    length() != Length::Full
}

/// Returns the value for the current length.
fn sized<T>(full: T, brief: T, small: T) -> T {
    match length() {
        Length::Full => full,
        Length::Brief => brief,
        Length::Small => small,
    }
}

/// Returns all items, or every `part`-th one if tests are shortened.
fn some<T>(all: impl IntoIterator<Item = T>, part: usize) -> impl Iterator<Item = T> {
    all.into_iter().step_by(if brief() { part } else { 1 })
}

/// Returns every technique on one device, the filter without tensor cores, and techniques on two devices,
/// which are the same one.
fn techniques(device: &Arc<Device>) -> Vec<Box<dyn Technique<Sets>>> {
    let one = [device.clone()];
    let two = [device.clone(), device.clone()];
    let mut techniques = simjoin_gpu::techniques(&one, &filters());
    for bits in GpuBitmap::BITS {
        let bitmap = GpuBitmap { tensor: false, ..GpuBitmap::new(&one, bits) };
        techniques.push(Box::new(bitmap));
    }
    techniques.push(Box::new(GpuBitmap::new(&two, 256)));
    techniques.push(Box::new(GpuPrefix { devices: two.to_vec() }));
    techniques.push(Box::new(GpuMmJoin { devices: two.to_vec() }));
    let (devices, filter, way) = (two.to_vec(), &PpJoin, Way::B);
    techniques.push(Box::new(GpuVerify { devices, filter, way }));
    techniques
}

fn run(
    technique: &dyn Technique<Sets>,
    task: &SetTask<'_>,
    tile: &Tile,
    budget: &Budget,
) -> Vec<SetPair> {
    let mut pairs = simjoin_testing::run(technique, task, tile, budget, true).0;
    pairs.sort_unstable();
    pairs
}

/// Compares every technique with the oracle: pairs and their number, in a whole join and in a tile from its
/// middle, with unlimited memory or with as little as possible.
fn check(
    device: &Arc<Device>,
    predicate: Predicate,
    left: &Rows,
    right: Option<&Rows>,
    tight: bool,
) -> Result<(), String> {
    let (left, right) = collections(left, right);
    for (task, _) in SetTask::directions(&left, right.as_ref(), true, Bounds::new(predicate)) {
        let whole = Tile::whole(&task);
        let (n, m) = (task.probe.len() as u32, task.build.len() as u32);
        let part = Tile { probes: n / 3..n - n / 5, builds: m / 4..m - m / 4 };
        for tile in [whole, part] {
            let unlimited = Budget::unlimited(1000, 2);
            let expected = run(&Naive, &task, &tile, &unlimited);
            let weight = |pair: &SetPair| {
                u64::from(task.probe.weight(pair.probe)) * u64::from(task.build.weight(pair.build))
            };
            let rows: u64 = expected.iter().map(weight).sum();
            for technique in techniques(device) {
                let device_bytes = technique.device_bytes(&task, &tile, 2);
                let bytes = technique.memory_bytes(&task, &tile, 2);
                let tight_budget =
                    Budget { bytes, device_bytes, patient: true, events: true, ..unlimited };
                let budget = if tight { tight_budget } else { unlimited };
                let found = run(&*technique, &task, &tile, &budget);
                let counted = simjoin_testing::count(&*technique, &task, &tile, &budget);
                if tile == Tile::whole(&task) && technique.goes_on() {
                    let parts = cut(&task, &tile, task.probe.total_tokens() / 3);
                    let mut on = simjoin_testing::run_on(&*technique, &task, &parts, &budget);
                    on.sort_unstable();
                    if on != expected {
                        return Err(format!("{} in {parts:?} at {predicate}", technique.name()));
                    }
                }
                if found != expected || counted != rows {
                    let (name, variant) = (technique.name(), technique.variant());
                    let (found, expected) = (found.len(), expected.len());
                    return Err(format!(
                        "{name} {variant} finds {found} of {expected} pairs and counts {counted} of \
                         {rows} rows at {predicate}"
                    ));
                }
            }
        }
    }
    Ok(())
}

fn random_collections(device: &Arc<Device>) -> Result<(), Failed> {
    let cases = if brief() { 2 } else { 60 };
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new(config);
    let input = (rows(), prop::option::of(rows()), predicate(), any::<bool>());
    let result = runner.run(&input, |(left, right, predicate, tight)| {
        check(device, predicate, &left, right.as_ref(), tight).map_err(TestCaseError::fail)
    });
    result.map_err(|error| error.to_string().into())
}

/// Enough sets for many blocks and ranges, and more survivors than fit in one step.
fn many_near_duplicates(device: &Arc<Device>) -> Result<(), Failed> {
    let (left, right) = if brief() {
        (near_duplicates(60, 0..260), near_duplicates(60, 130..300))
    } else {
        (near_duplicates(400, 0..2600), near_duplicates(400, 1000..3000))
    };
    for measure in some(Measure::ALL, 5) {
        let text = if measure == Measure::Overlap { "3" } else { "0.6" };
        let predicate = Predicate::parse(measure, text).unwrap();
        check(device, predicate, &left, None, false)?;
        check(device, predicate, &left, Some(&right), false)?;
    }
    Ok(())
}

/// Far more candidates and answers than fit at once, on the device and on the host.
fn full_buffers(device: &Arc<Device>) -> Result<(), Failed> {
    let rows: Rows = some(0..1500u32, 12)
        .map(|row| (0..12).chain([20 + row % 700, 800 + row]).collect())
        .collect();
    for (measure, text) in
        some([(Measure::Jaccard, "0.7"), (Measure::Cosine, "0.8"), (Measure::Overlap, "9")], 3)
    {
        let predicate = Predicate::parse(measure, text).unwrap();
        check(device, predicate, &rows, None, true)?;
        check(device, predicate, &rows, Some(&near_duplicates(300, 0..sized(900, 100, 50))), true)?;
    }
    Ok(())
}

/// A collection in which every row is repeated: rows are counted, but sets are joined once.
fn repeated_sets(device: &Arc<Device>) -> Result<(), Failed> {
    let mut rows = near_duplicates(40, 0..400);
    rows.extend(rows.clone());
    for measure in some(Measure::ALL, 5) {
        let text = if measure == Measure::Overlap { "2" } else { "0.5" };
        check(device, Predicate::parse(measure, text).unwrap(), &rows, None, false)?;
    }
    Ok(())
}

/// Sizes 1 and 100,000 together; one token in every set; equal sets.
fn large_sets(device: &Arc<Device>) -> Result<(), Failed> {
    let mut rows: Rows = (1..40u32).map(|row| [0, row, row / 2].into()).collect();
    let large = if brief() { 5_000 } else { 100_000 };
    rows.push((0..large).collect());
    rows.push((0..large).step_by(2).collect());
    rows.push((1..large).collect());
    rows.extend(rows.clone());
    for (measure, text) in
        some([(Measure::Jaccard, "0.5"), (Measure::Containment, "1"), (Measure::Overlap, "1")], 2)
    {
        check(device, Predicate::parse(measure, text).unwrap(), &rows, None, false)?;
    }
    Ok(())
}

/// Long sets whose common tokens are at the borders of stretches of a merge by a warp, first or last; sizes
/// near multiples of a stretch; pairs that fail the bounds at their end.
fn long_sets(device: &Arc<Device>) -> Result<(), Failed> {
    let mut rows = Rows::new();
    for size in some([127, 129, 239, 240, 241, 479, 480, 481, 959, 960, 961, 1919, 1921], 5) {
        let even = |count: u32| (0..count).map(|at| 2 * at);
        rows.push(even(size).collect());
        // Shares the tokens at even places, or all tokens except the first, the last or some in the middle.
        rows.push(even(size).map(|token| token + token / 2 % 2).collect());
        rows.push((1..size + 1).map(|at| 2 * at).collect());
        rows.push(even(size - 1).chain([2 * size + 1]).collect());
        for missing in [1, size / 9, size / 5] {
            let from = size / 3;
            let other = |at: u32| u32::from((from..from + missing).contains(&at));
            rows.push((0..size).map(|at| 2 * at + other(at)).collect());
            rows.push((0..size).map(|at| 2 * at + u32::from(at >= size - missing)).collect());
        }
    }
    let predicates = [
        (Measure::Jaccard, "0.8"),
        (Measure::Jaccard, "1/3"),
        (Measure::Containment, "1"),
        (Measure::Overlap, "240"),
    ];
    for (measure, text) in some(predicates, 2) {
        check(device, Predicate::parse(measure, text).unwrap(), &rows, None, false)?;
    }
    Ok(())
}

/// Arrays of every kind that several threads send, in two collections, with repeats. The pairs are compared
/// with those of the CPU.
fn large_arrays(device: &Arc<Device>) -> Result<(), Failed> {
    // Every array of more than one buffer is sent by several threads, and those of one buffer too.
    simjoin_gpu::send_by_threads_from(1 << 10);
    let outcome = large_arrays_by_threads(device);
    simjoin_gpu::send_by_threads_from(1 << 20);
    outcome
}

fn large_arrays_by_threads(device: &Arc<Device>) -> Result<(), Failed> {
    // One row of each pair of neighbours has up to two additional tokens. There are enough rows that weights
    // take several buffers or, if shortened, that tokens do.
    let count = sized(900_000, 30_000, 5_000);
    let row = |row: u32| -> BTreeSet<u32> {
        let token = |at: u32| {
            let mixed = (row / 2).wrapping_mul(2_654_435_761).rotate_left(at);
            1000 * at + mixed % 1000
        };
        let more = (0..row % 2 * (row % 3)).map(|at| 30_000 + row % 7_000 + at);
        (0..20).map(token).chain(more).collect()
    };
    let mut left: Rows = (0..count).map(row).collect();
    let right: Rows = (count - count / 3..count + count / 3).map(row).collect();
    left.extend((0..count / 20).map(row));
    let bounds = Bounds::new(Predicate::parse(Measure::Jaccard, "0.9").unwrap());
    let (left, right) = collections(&left, Some(&right));
    for (task, part) in SetTask::directions(&left, right.as_ref(), true, bounds) {
        let (whole, budget) = (Tile::whole(&task), Budget::unlimited(10_000, 2));
        let expected = run(&PrefixBitmap { words: 1 }, &task, &whole, &budget);
        let counted = simjoin_testing::count(&PrefixBitmap { words: 1 }, &task, &whole, &budget);
        for technique in simjoin_gpu::techniques(std::slice::from_ref(device), &filters()) {
            let variant = technique.variant();
            // Only one technique with a CPU filter is tested, and in small runs only the fastest of the
            // others.
            if technique.name() == "gpu-verify" && variant != "ppjoin B"
                || technique.name() == "gpu-bitmap"
                    && length() == Length::Small
                    && !variant.contains("256")
            {
                continue;
            }
            let name = format!("{} {variant}, {part:?}", technique.name());
            if run(&*technique, &task, &whole, &budget) != expected {
                return Err(format!("{name}: the pairs differ").into());
            }
            if simjoin_testing::count(&*technique, &task, &whole, &budget) != counted {
                return Err(format!("{name}: the counts differ").into());
            }
        }
        if expected.is_empty() {
            return Err("nothing was found".into());
        }
    }
    Ok(())
}

/// A tile that does not fit the device is cut by the planner.
fn tiles_that_do_not_fit(device: &Arc<Device>) -> Result<(), Failed> {
    // Enough rows that sets take more memory than the padding of a tile.
    let rows = near_duplicates(300, 0..if brief() { 1200 } else { 3000 });
    let (sets, _) = collections(&rows, None);
    let predicate = Predicate::parse(Measure::Jaccard, "0.6").unwrap();
    let joins = SetTask::directions(&sets, None, false, Bounds::new(predicate));
    let (task, _) = &joins[0];
    let whole = Tile::whole(task);
    let expected = run(&Naive, task, &whole, &Budget::unlimited(1000, 1));
    for technique in some(techniques(device), 4) {
        // The limit is halfway between the memory for a join of the largest set and that for all.
        let (n, name) = (whole.probes.end, technique.name());
        // Most tiles of a cut have two sides, each with its fixed part.
        let least = Tile { probes: n - 1..n, builds: 0..1 };
        let [least, all] = [&least, &whole].map(|tile| technique.device_bytes(task, tile, 1));
        let limit = (least + all) / 2;
        let costs = CostTable::default();
        let (memory, threads) = (u64::MAX, 1);
        let (device_memory, worth) = (limit, f64::INFINITY);
        let resources = Resources { costs: &costs, threads, memory, device_memory, worth };
        let choices =
            choose(task, &whole, &[&*technique], &resources).map_err(|error| error.to_string())?;
        if choices.len() < 2 {
            return Err(format!("{name}: one tile for {limit} bytes").into());
        }
        let budget = Budget { device_bytes: limit, ..Budget::unlimited(1000, 1) };
        let each = |choice: &Choice| run(&*technique, task, &choice.tile, &budget);
        let mut found: Vec<SetPair> = choices.iter().flat_map(each).collect();
        found.sort_unstable();
        if found != expected {
            return Err(format!("{name}: {} of {} pairs", found.len(), expected.len()).into());
        }
    }
    Ok(())
}
