//! Are overlaps without a threshold right, by every technique, on every processor?

use proptest::prelude::*;
use simjoin::engine::{
    AUTO, Control, Engine, Error, Glimpse, Join, Machine, Measure, Overlaps, Predicate, Processor,
    Purpose, RawSets, Report, RowPair, SetCollection, Side, Subject, WantedOverlaps, names,
    overlaps, prepare,
};
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

type Rows = Vec<BTreeSet<u32>>;
type Found = Vec<(u32, u32, u32)>;

fn collections(left: &Rows, right: Option<&Rows>) -> (SetCollection, Option<SetCollection>) {
    let raw = |rows: &Rows| {
        let mut raw = RawSets::default();
        rows.iter().for_each(|row| raw.push(&row.iter().copied().collect::<Vec<_>>()));
        raw
    };
    prepare(raw(left), right.map(raw), 64).unwrap()
}

/// Returns every pair of rows, by counting.
fn expected(left: &Rows, right: Option<&Rows>) -> Found {
    let mut all = Vec::new();
    for (l, a) in left.iter().enumerate() {
        for (r, b) in right.unwrap_or(left).iter().enumerate() {
            if right.is_some() || l < r {
                all.push((l as u32, r as u32, a.intersection(b).count() as u32));
            }
        }
    }
    all
}

fn best_of(left: &Rows, right: Option<&Rows>, top: usize) -> Found {
    let mut all = Vec::new();
    for (l, a) in left.iter().enumerate() {
        let mut of_row: Vec<(Reverse<u32>, u32)> = Vec::new();
        for (r, b) in right.unwrap_or(left).iter().enumerate() {
            let overlap = a.intersection(b).count() as u32;
            if overlap > 0 && (right.is_some() || l != r) {
                of_row.push((Reverse(overlap), r as u32));
            }
        }
        of_row.sort_unstable();
        let best = of_row.into_iter().take(top);
        all.extend(best.map(|(Reverse(overlap), r)| (l as u32, r, overlap)));
    }
    all
}

/// Finds all pairs, in the order in which they come, and checks that as many are counted.
fn run(
    join: &Join<Overlaps>,
    left: &SetCollection,
    right: Option<&SetCollection>,
) -> (Found, Report) {
    let mut found = Vec::new();
    let control = Control::default();
    let report = join
        .pairs(left, right, &control, |rows| {
            assert!(rows.iter().all(|row| row.similarity == f64::from(row.overlap)));
            found.extend(rows.iter().map(|row| (row.left, row.right, row.overlap)));
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!(report.pairs, found.len() as u64);
    assert_eq!(join.count(left, right, &control).unwrap().pairs, report.pairs);
    (found, report)
}

fn found(join: &Join<Overlaps>, left: &SetCollection, right: Option<&SetCollection>) -> Found {
    run(join, left, right).0
}

fn sorted(mut rows: Found) -> Found {
    rows.sort_unstable();
    rows
}

/// Sorts by left row alone: the best of a row come in their order.
fn by_left(mut rows: Found) -> Found {
    rows.sort_by_key(|row| row.0);
    rows
}

fn rows() -> impl Strategy<Value = Rows> {
    prop::collection::vec(prop::collection::btree_set(0..64u32, 0..12), 0..40)
}

/// Some rows with copies of others among them.
fn rows_with_copies() -> impl Strategy<Value = Rows> {
    let copies = prop::collection::vec(any::<prop::sample::Index>(), 0..10);
    (rows(), copies).prop_map(|(mut rows, copies)| {
        for copy in copies {
            if !rows.is_empty() {
                rows.push(rows[copy.index(rows.len())].clone());
            }
        }
        rows
    })
}

fn techniques() -> impl Iterator<Item = &'static str> {
    std::iter::once(AUTO).chain(names(Subject::Overlaps, Processor::Cpu))
}

fn fixed() -> Machine {
    Machine::fixed()
}

/// 3,000 rows of at most nine tokens: more pairs than are held of a device before they are handed on.
fn many_rows() -> SetCollection {
    rows_of(3000)
}

fn rows_of(count: u32) -> SetCollection {
    let rows: Rows = (0..count)
        .map(|row| (0..9).map(|at| (row.wrapping_mul(2_654_435_761) >> (3 * at)) % 64).collect())
        .collect();
    collections(&rows, None).0
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn every_pair_comes_once_with_its_overlap(
        left in rows_with_copies(),
        right in prop::option::of(rows()),
        top in 1..6usize,
    ) {
        let (l, r) = collections(&left, right.as_ref());
        let all = expected(&left, right.as_ref());
        for technique in techniques() {
            for threads in [1, 3] {
                let found = |wanted| {
                    let join = overlaps(wanted).technique(technique).threads(threads);
                    found(&join.engine(Engine::Cpu), &l, r.as_ref())
                };
                prop_assert_eq!(&sorted(found(WantedOverlaps::All)), &all, "{}", technique);
                let positive: Vec<_> = all.iter().copied().filter(|row| row.2 > 0).collect();
                prop_assert_eq!(&sorted(found(WantedOverlaps::Positive)), &positive);
                let best = by_left(found(WantedOverlaps::Top(top)));
                prop_assert_eq!(best, best_of(&left, right.as_ref(), top), "{}", technique);
            }
        }
    }

    #[test]
    fn answer_is_that_of_the_cpu_when_a_device_fails(
        left in rows_with_copies(),
        right in prop::option::of(rows()),
        device in prop::sample::select(vec![
            "speed=3", "speed=3,fail=1", "speed=3,fail=0.5", "speed=3,fail=@1", "speed=3,fail=@2",
            "speed=3,memory=1", "latency=1000",
        ]),
        technique in prop::sample::select(vec![AUTO, "combined", "dense", "index", "hash"]),
        engine in prop::sample::select(vec![Engine::Auto, Engine::Gpu]),
    ) {
        let (l, r) = collections(&left, right.as_ref());
        let machine = fixed().scaled(1e4).simulating(device).unwrap();
        for wanted in [WantedOverlaps::All, WantedOverlaps::Positive, WantedOverlaps::Top(2)] {
            let on_cpu = overlaps(wanted).engine(Engine::Cpu).machine(fixed());
            let on_device = overlaps(wanted).engine(engine).technique(technique).machine(machine);
            let too_small = device.contains("memory=1") && (engine, technique) != (Engine::Auto, AUTO);
            if too_small {
                // Who asks for the device alone is told that it is too small, if there is something to do.
                let ignored = |_: &[RowPair]| ControlFlow::Continue(());
                let ran = on_device.pairs(&l, r.as_ref(), &Control::default(), ignored);
                let refused = matches!(ran, Err(Error::Memory { device: true, .. }));
                prop_assert!(refused || ran.is_ok());
                continue;
            }
            let (rows, report) = run(&on_device, &l, r.as_ref());
            let wanted_rows = found(&on_cpu, &l, r.as_ref());
            prop_assert_eq!(by_left(sorted(rows)), by_left(sorted(wanted_rows)));
            let failed = report.steps.iter().all(|step| step.processor == Processor::Cpu);
            prop_assert!(failed || device != "speed=3,fail=1");
        }
    }
}

#[test]
fn nothing_and_nothing_but_empty_rows() {
    for left in [Rows::new(), vec![BTreeSet::new(); 3], vec![BTreeSet::from([1])]] {
        for right in [None, Some(Rows::new()), Some(vec![BTreeSet::new(); 2])] {
            let (l, r) = collections(&left, right.as_ref());
            for technique in techniques() {
                let found = |wanted| {
                    let join = overlaps(wanted).technique(technique).threads(2);
                    sorted(found(&join.engine(Engine::Cpu), &l, r.as_ref()))
                };
                assert_eq!(found(WantedOverlaps::All), expected(&left, right.as_ref()));
                assert!(found(WantedOverlaps::Top(2)).is_empty(), "{technique}");
                assert!(found(WantedOverlaps::Positive).is_empty(), "{technique}");
            }
        }
    }
}

#[test]
fn right_side_is_counted_with_itself_as_well_where_that_is_wanted() {
    let set = |tokens: &[u32]| tokens.iter().copied().collect::<BTreeSet<u32>>();
    let left = vec![set(&[1, 2]), set(&[])];
    let right = vec![set(&[1]), set(&[1, 2]), set(&[]), set(&[1, 2])];
    let (l, r) = collections(&left, Some(&right));
    for wanted in [WantedOverlaps::All, WantedOverlaps::Positive, WantedOverlaps::Top(2)] {
        let mut parts: [Found; 2] = Default::default();
        let join = overlaps(wanted).with_itself(true).machine(fixed());
        let report = join.pairs(&l, r.as_ref(), &Control::default(), |rows| {
            for row in rows {
                let part = usize::from(row.left_input == Side::Right);
                parts[part].push((row.left, row.right, row.overlap));
            }
            ControlFlow::Continue(())
        });
        let [both, itself] = parts.map(by_left);
        assert_eq!(report.unwrap().pairs, (both.len() + itself.len()) as u64);
        let counted = join.count(&l, r.as_ref(), &Control::default()).unwrap().pairs;
        assert_eq!(counted, (both.len() + itself.len()) as u64);
        let of = |left: &Rows, right: Option<&Rows>| match wanted {
            WantedOverlaps::Top(top) => best_of(left, right, top),
            WantedOverlaps::All => expected(left, right),
            WantedOverlaps::Positive => {
                expected(left, right).into_iter().filter(|row| row.2 > 0).collect()
            }
        };
        let order =
            |rows| if matches!(wanted, WantedOverlaps::Top(_)) { rows } else { sorted(rows) };
        assert_eq!(order(both), of(&left, Some(&right)), "{wanted:?}");
        assert_eq!(order(itself), of(&right, None), "{wanted:?}");
    }
}

#[test]
fn passes_and_threads_change_nothing_and_enough_is_enough() {
    let sets = many_rows();
    let positive = || overlaps(WantedOverlaps::Positive).machine(fixed());
    let of = |join: Join<Overlaps>| found(&join, &sets, None);
    let one = of(positive().threads(1));
    assert_eq!(of(positive().threads(3)), one);
    let control = Control::default();
    let tight = |wanted| overlaps(wanted).machine(fixed()).threads(1).memory(700_000);
    let report = tight(WantedOverlaps::Positive).count(&sets, None, &control).unwrap();
    assert!(report.figures()["passes"] > 1 && report.pairs == one.len() as u64, "{report:?}");
    assert_eq!(sorted(of(tight(WantedOverlaps::Positive))), sorted(one));
    let best = tight(WantedOverlaps::Top(2));
    let refused = best.count(&sets, None, &control).unwrap_err();
    let Error::Memory { needed, limit: 700_000, .. } = refused else { panic!("{refused}") };
    assert!(best.clone().memory(needed - needed / 100).count(&sets, None, &control).is_err());
    best.clone().memory(needed).count(&sets, None, &control).unwrap();
    // Rows on their way out need some as well.
    let pairs =
        |join: &Join<Overlaps>| join.pairs(&sets, None, &control, |_| ControlFlow::Continue(()));
    let refused = pairs(&best).unwrap_err();
    let Error::Memory { needed: for_pairs, .. } = refused else { panic!("{refused}") };
    assert!(for_pairs > needed && pairs(&best.clone().memory(needed)).is_err());
    pairs(&best.memory(for_pairs)).unwrap();
    for threads in [1, 3] {
        let mut batches = 0;
        let once = |_: &[RowPair]| {
            batches += 1;
            ControlFlow::Break(())
        };
        let all = overlaps(WantedOverlaps::All).machine(fixed()).threads(threads);
        all.pairs(&sets, None, &control, once).unwrap();
        assert_eq!(batches, 1);
    }
}

#[test]
fn plan_is_what_runs() {
    let sets = rows_of(1000);
    let device = fixed().simulating("speed=1000").unwrap();
    for (machine, engine, expected) in [
        (fixed(), Engine::Auto, Engine::Cpu),
        (fixed(), Engine::Cpu, Engine::Cpu),
        (device, Engine::Auto, Engine::Gpu),
        (device, Engine::Gpu, Engine::Gpu),
        (device, Engine::Cpu, Engine::Cpu),
    ] {
        for wanted in [WantedOverlaps::All, WantedOverlaps::Positive, WantedOverlaps::Top(3)] {
            let join = overlaps(wanted).machine(machine).engine(engine).threads(2);
            let plan = join.plan(&sets, None, Purpose::Pairs).unwrap();
            let explained = plan.explain();
            let again = join.plan(&sets, None, Purpose::Pairs).unwrap();
            assert_eq!(plan.steps(), again.steps());
            assert_eq!(plan.engine(), expected);
            let report = plan.pairs(&Control::default(), |_| ControlFlow::Continue(())).unwrap();
            assert_eq!(report.engine, expected);
            let technique =
                |step: &simjoin::engine::StepPlan| (step.technique.0, step.technique.1.clone());
            let planned: Vec<_> = explained.steps.iter().map(technique).collect();
            let ran: Vec<_> =
                report.steps.iter().map(|step| (step.technique, step.variant.clone())).collect();
            assert_eq!((planned.len(), &planned), (1, &ran), "{wanted:?}");
            assert_eq!(report.technique, planned[0].0);
            assert_eq!(report.steps[0].estimated, explained.steps[0].seconds);
            assert_eq!(report.candidates, explained.steps[0].pairs);
            assert_eq!(
                report.planned_device_share.is_some(),
                engine == Engine::Auto && machine == device
            );
        }
    }
}

#[test]
fn device_that_fails_late_leaves_its_work_to_the_cpu() {
    let sets = many_rows();
    let wanted = WantedOverlaps::Positive;
    let expected =
        sorted(found(&overlaps(wanted).machine(fixed()).engine(Engine::Cpu), &sets, None));
    for (fail, failed) in [("fail=@40", 1), ("fail=1", 1), ("fail=@1000000", 0)] {
        let machine = fixed().simulating(&format!("speed=5,{fail}")).unwrap();
        for technique in [AUTO, "bitmap"] {
            let join = overlaps(wanted).engine(Engine::Gpu).technique(technique).machine(machine);
            let (rows, report) = run(&join, &sets, None);
            assert!(sorted(rows) == expected, "{fail}");
            assert_eq!(report.warnings.len(), failed, "{fail}: {:?}", report.warnings);
            assert!(report.warnings.iter().all(|said| said.contains("the CPU did its work")));
            // Few pairs fit the memory of a stage, so the device does its work in parts.
            let (rows, report) = run(&join.memory(3_000_000), &sets, None);
            assert!(sorted(rows) == expected, "{fail} in little memory");
            assert!(failed > 0 || report.steps.len() > 1, "{:?}", report.steps);
        }
    }
}

#[test]
fn number_of_all_pairs_is_known_without_counting() {
    let sets = many_rows();
    let join = overlaps(WantedOverlaps::All).machine(fixed());
    let control = Control::default();
    let plan = join.plan(&sets, None, Purpose::Count).unwrap();
    let said = plan.explain().to_string();
    assert!(said.contains("the number of pairs is known"), "{said}");
    assert!(said.contains("about 4,498,500 pairs"), "{said}");
    let report = plan.count(&control).unwrap();
    assert_eq!((report.pairs, report.candidates), (4_498_500, 0));
    assert_eq!((report.technique.as_str(), report.engine), ("none", Engine::Cpu));
    // Such a plan has nothing to find pairs with.
    let refused = plan.pairs(&control, |_| ControlFlow::Continue(())).unwrap_err();
    assert!(refused.to_string().contains("made for counting"), "{refused}");
    // One for pairs can count.
    let plan = join.plan(&sets, None, Purpose::Pairs).unwrap();
    assert_eq!(plan.count(&control).unwrap().pairs, 4_498_500);
}

#[test]
fn what_needs_a_threshold_is_refused() {
    let sets = many_rows();
    let join = overlaps(WantedOverlaps::Positive).machine(fixed());
    let refused = join.groups(&sets, &Control::default()).unwrap_err();
    assert!(refused.to_string().contains("threshold"), "{refused}");
    let any = Predicate::parse(Measure::Overlap, "1").unwrap();
    let glimpse = Arc::new(Glimpse::of_sets(any, &sets, None));
    let refused = join.glimpse(glimpse).count(&sets, None, &Control::default()).unwrap_err();
    assert!(refused.to_string().contains("threshold"), "{refused}");
}

#[test]
fn technique_is_that_of_its_engine() {
    let machine = fixed().simulating("speed=2").unwrap();
    let check = |engine: Engine, name: &str| {
        let join = overlaps(WantedOverlaps::All).engine(engine).technique(name);
        join.machine(machine).check().map_err(|error| error.to_string())
    };
    for name in names(Subject::Overlaps, Processor::Device).chain([AUTO]) {
        assert_eq!(check(Engine::Gpu, name), Ok(()));
    }
    for name in techniques() {
        assert_eq!(check(Engine::Cpu, name), Ok(()));
    }
    assert!(check(Engine::Auto, "bitmap").is_ok() && check(Engine::Auto, "hash").is_ok());
    for (engine, name) in [
        (Engine::Gpu, "product"),
        (Engine::Cpu, "hash"),
        (Engine::Auto, "magic"),
        (Engine::Hybrid, AUTO),
    ] {
        let refused = check(engine, name).unwrap_err();
        assert!(refused.contains("expected"), "{refused}");
    }
}

#[test]
#[ignore = "needs a GPU"]
fn a_gpu_counts_the_same() {
    let rows = |count: u32, factor: u32| {
        let mut raw = RawSets::default();
        for row in 0..count {
            let size = row % 13;
            let tokens = (0..size).map(|at| (row / 2 * factor + at * at) % 97);
            let tokens: BTreeSet<u32> = tokens.collect();
            raw.push(&tokens.into_iter().collect::<Vec<_>>());
        }
        raw
    };
    for right in [None, Some(rows(300, 5))] {
        let (left, right) = prepare(rows(700, 7), right, 97).unwrap();
        let found = |join: Join<Overlaps>, wanted| {
            let rows = found(&join, &left, right.as_ref());
            if matches!(wanted, WantedOverlaps::Top(_)) { by_left(rows) } else { sorted(rows) }
        };
        for wanted in [
            WantedOverlaps::All,
            WantedOverlaps::Positive,
            WantedOverlaps::Top(1),
            WantedOverlaps::Top(5),
        ] {
            let expected = found(overlaps(wanted).engine(Engine::Cpu), wanted);
            for name in names(Subject::Overlaps, Processor::Device).chain([AUTO]) {
                let on_gpu = overlaps(wanted).engine(Engine::Gpu).technique(name);
                assert_eq!(found(on_gpu, wanted), expected, "{name}");
            }
        }
    }
}
