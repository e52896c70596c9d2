//! Is the machine that a join is planned for a parameter of it, and the simulated device too?

use simjoin::engine::{
    Control, Elements, Engine, Join, Machine, Measure, Predicate, Purpose, RawSets, SetCollection,
    Sets, VectorCollection, VectorPredicate, WantedOverlaps, prepare,
};

fn sets() -> SetCollection {
    let mut rows = RawSets::default();
    for row in 0..2000u32 {
        let set: Vec<u32> = (0..5 + row % 20).map(|at| row % 100 + 7 * at).collect();
        rows.push(&set);
    }
    prepare(rows, None, 300).unwrap().0
}

fn join(machine: Machine) -> Join<Sets> {
    simjoin::engine::join(Predicate::parse(Measure::Jaccard, "0.6").unwrap())
        .threads(2)
        .machine(machine)
}

fn simulated(scale: f64, device: &str) -> Machine {
    Machine::fixed().scaled(scale).simulating(device).unwrap()
}

#[test]
fn join_is_divided_beside_a_simulated_device_whatever_the_cost_table() {
    let (sets, control) = (sets(), Control::default());
    let cpu = join(Machine::fixed()).engine(Engine::Cpu).count(&sets, None, &control).unwrap();
    assert!(cpu.pairs > 1000 && cpu.virtual_seconds.is_none());
    for scale in [0.1, 1.0, 10.0] {
        let both = join(simulated(scale, "speed=2")).engine(Engine::Hybrid);
        let report = both.count(&sets, None, &control).unwrap();
        assert_eq!(report.pairs, cpu.pairs);
        assert!(report.device_share().is_some_and(|share| share > 0.0 && share < 1.0), "{scale}");
        assert!(report.concurrency().is_some_and(|part| part > 0.0 && part <= 1.0), "{scale}");
        // The same again.
        let again = both.count(&sets, None, &control).unwrap();
        assert_eq!(report.virtual_seconds, again.virtual_seconds);
        assert_eq!(report.device_share(), again.device_share());
    }
}

#[test]
fn virtual_time_follows_the_cost_table_and_the_device() {
    let (sets, control) = (sets(), Control::default());
    let alone = |scale: f64, device: &str| {
        let join = join(simulated(scale, device)).engine(Engine::Gpu).technique("gpu-bitmap");
        join.count(&sets, None, &control).unwrap().virtual_seconds.unwrap()
    };
    let near = |found: f64, expected: f64| {
        assert!((found / expected - 1.0).abs() < 1e-9, "{found} {expected}");
    };
    let once = alone(1.0, "speed=1");
    near(alone(10.0, "speed=1"), 10.0 * once);
    near(alone(1.0, "speed=1,actual=0.5"), 2.0 * once);
    near(alone(1.0, "speed=4"), once / 4.0);
    near(alone(1.0, "speed=1,latency=500"), once + 0.5);
}

#[test]
fn vectors_are_shared_with_a_simulated_device_whatever_the_cost_table() {
    let numbers = (0..6000u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 16) as f32 / 65536.0);
    let points = VectorCollection::new("points", 1, Elements::F32(numbers.collect())).unwrap();
    let predicate = VectorPredicate::within("0.0001").unwrap();
    let count = |machine: Machine, engine: Engine| {
        let join =
            simjoin::engine::vector_join(predicate).threads(2).machine(machine).engine(engine);
        join.count(&points, None, &Control::default()).unwrap()
    };
    let cpu = count(Machine::fixed(), Engine::Cpu);
    assert!(cpu.pairs > 100 && cpu.virtual_seconds.is_none());
    let mut parts = Vec::new();
    for scale in [0.1, 1.0, 10.0] {
        let both = count(simulated(scale, "speed=1"), Engine::Hybrid);
        assert_eq!(both.pairs, cpu.pairs);
        assert!(both.concurrency().is_some_and(|part| part > 0.0 && part <= 1.0), "{scale}");
        parts.push(both.device_share().unwrap());
    }
    assert!(
        parts[0] > 0.0 && parts[0] < 1.0 && parts.iter().all(|part| *part == parts[0]),
        "{parts:?}"
    );
}

#[test]
fn estimates_follow_the_cost_table() {
    let sets = sets();
    let elements = Elements::F32((0..3000u32).map(|at| at as f32).collect());
    let points = VectorCollection::new("points", 3, elements).unwrap();
    let estimates = |scale: f64| {
        let machine = Machine::fixed().scaled(scale);
        let within = VectorPredicate::within("10").unwrap();
        let near = simjoin::engine::vector_join(within).threads(1).machine(machine);
        let near = near.engine(Engine::Cpu).technique("nested-loop");
        let near = near.plan(&points, None, Purpose::Count).unwrap().steps()[0].seconds.unwrap();
        let all = simjoin::engine::overlaps(WantedOverlaps::Positive).threads(1).machine(machine);
        let all = all.engine(Engine::Cpu).technique("index");
        let all = all.plan(&sets, None, Purpose::Pairs).unwrap().steps()[0].seconds.unwrap();
        let similar = join(machine).threads(1).engine(Engine::Cpu).technique("ppjoin");
        let similar = similar.plan(&sets, None, Purpose::Count).unwrap();
        [near, all, similar.steps()[0].seconds.unwrap()]
    };
    for (once, slow) in estimates(1.0).into_iter().zip(estimates(10.0)) {
        assert!((slow / once - 10.0).abs() < 1e-6, "{once} {slow}");
    }
}

#[test]
fn device_that_cannot_be_understood_is_an_error() {
    let error = Machine::fixed().simulating("speed=fast").unwrap_err().to_string();
    assert!(error.contains("speed=fast"), "{error}");
}
