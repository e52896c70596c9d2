//! Does a divided join find exactly the pairs of the undivided join, for every layout?

use arrow_array::builder::{ListBuilder, StringBuilder};
use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{Array, RecordBatch, StringArray};
use proptest::prelude::*;
use simjoin::engine::{Control, Engine};
use simjoin_cluster::count::{LIMIT, ROWS, SAMPLE, SIZES, TOKEN};
use simjoin_cluster::order::TABLE;
use simjoin_cluster::{
    Keys, Layout, Router, Sample, Spec, Task, TaskOptions, TokenCounter, TokenOrder,
};
use simjoin_core::{Measure, Predicate};
use simjoin_io::Tokenizer;
use simjoin_testing::{Rows, brute_force};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;

/// Pairs as (left, right, overlap), sorted.
type Pairs = Vec<(u64, u64, u32)>;

fn lists(rows: &[BTreeSet<u32>]) -> Arc<dyn Array> {
    let mut lists = ListBuilder::new(StringBuilder::new());
    for row in rows {
        lists.append_value(row.iter().map(|token| Some(format!("t{token}"))));
    }
    Arc::new(lists.finish())
}

/// The sums over all partitions.
#[derive(Default)]
struct Counts {
    tokens: BTreeMap<(u64, Vec<u8>), i64>,
    sizes: BTreeMap<i64, i64>,
    rows: BTreeMap<i64, i64>,
    sample: Vec<Vec<u8>>,
}

impl Counts {
    fn take(&mut self, batch: &RecordBatch) {
        let kinds = batch.column(0).as_primitive::<Int32Type>();
        let keys = batch.column(1).as_primitive::<Int64Type>();
        let tokens = batch.column(2).as_binary::<i32>();
        let counts = batch.column(3).as_primitive::<Int64Type>();
        for at in 0..batch.num_rows() {
            let (key, count) = (keys.value(at), counts.value(at));
            match kinds.value(at) {
                TOKEN => {
                    let own = (key as u64, tokens.value(at).to_vec());
                    *self.tokens.entry(own).or_default() += count;
                }
                ROWS => *self.rows.entry(key).or_default() += count,
                SIZES => *self.sizes.entry(key).or_default() += count,
                SAMPLE => self.sample.push(tokens.value(at).to_vec()),
                LIMIT => {}
                kind => panic!("kind {kind}"),
            }
        }
    }

    /// Returns the order, with at most `limit` tokens in its table; `None` if two tokens have one key.
    fn order(&self, keys: Keys, limit: usize) -> Option<TokenOrder> {
        let distinct: BTreeSet<u64> = self.tokens.keys().map(|&(key, _)| key).collect();
        if distinct.len() < self.tokens.len() {
            return None;
        }
        let several = self.tokens.iter().filter(|&(_, &count)| count > 1);
        let mut table: Vec<(i64, u64)> = several.map(|((key, _), &count)| (count, *key)).collect();
        table.sort_unstable();
        let complete = table.len() <= limit;
        let from = table.len().saturating_sub(limit);
        let table: Vec<u64> = table[from..].iter().map(|&(_, key)| key).collect();
        Some(TokenOrder::new(keys, table.into_iter(), complete).unwrap())
    }
}

/// Returns the pairs of a divided join, found in the steps of a cluster.
fn divided(
    inputs: &[&Rows],
    spec: &Spec,
    partitions: usize,
    bits: u32,
    limit: usize,
) -> Option<Pairs> {
    let cut = |rows: &Rows| -> Vec<Rows> {
        let step = rows.len().div_ceil(partitions).max(1);
        rows.chunks(step).map(<[_]>::to_vec).collect()
    };
    // If keys collide, another seed is used, as on a cluster.
    let (order, counts) = (0..50).find_map(|seed| {
        let keys = Keys::new(seed, bits).unwrap();
        let mut counts = Counts::default();
        for rows in inputs {
            for (partition, part) in (0..).zip(cut(rows)) {
                let mut counter =
                    TokenCounter::new(keys, Tokenizer::Whitespace, false, partition, 5);
                let mut batches = counter.add("c", &lists(&part)).unwrap();
                batches.extend(counter.finish().unwrap());
                batches.iter().for_each(|batch| counts.take(batch));
            }
        }
        counts.order(keys, limit).map(|order| (order, counts))
    })?;
    let all: usize = inputs.iter().map(|rows| rows.len()).sum();
    assert_eq!(counts.rows.values().sum::<i64>(), all as i64);
    assert_eq!(counts.sizes.values().sum::<i64>(), all as i64);
    let layout = Arc::new(Layout::new(spec.clone()).unwrap());
    let mut sample = Sample::default();
    for record in &counts.sample {
        sample.push(&order, 0, record).unwrap();
    }
    assert_eq!(sample.loads(&layout).len(), layout.tasks().len());
    let order = Arc::new(order);
    let mut tasks: BTreeMap<(bool, i32), Vec<Vec<u8>>> = BTreeMap::new();
    for gpu in [false, true] {
        for (side, rows) in inputs.iter().enumerate() {
            let mut first = 0;
            for part in cut(rows) {
                let kind = (Tokenizer::Whitespace, false);
                let mut router = Router::new(order.clone(), layout.clone(), kind, side, first, gpu);
                let mut batches = router.add("c", &lists(&part), None).unwrap();
                first = router.next_row();
                batches.extend(router.finish().unwrap());
                for batch in batches {
                    let places = batch.column(0).as_primitive::<Int32Type>();
                    let blocks = batch.column(1).as_binary::<i32>();
                    for at in 0..batch.num_rows() {
                        let task = tasks.entry((gpu, places.value(at))).or_default();
                        task.push(blocks.value(at).to_vec());
                    }
                }
            }
        }
    }
    let options =
        TaskOptions { engine: Engine::Cpu, technique: "auto".into(), threads: 1, memory: None };
    let mut found = Vec::new();
    for ((gpu, place), blocks) in tasks {
        let mut task = Task::new(layout.clone(), place as u32, gpu).unwrap();
        blocks.iter().for_each(|block| task.add(block).unwrap());
        task.run(&options, &Control::default(), |batch| {
            let left = batch.column(0).as_primitive::<Int64Type>();
            let right = batch.column(1).as_primitive::<Int64Type>();
            let overlap = batch.column(2).as_primitive::<Int64Type>();
            found.extend((0..batch.num_rows()).map(|at| {
                (left.value(at) as u64, right.value(at) as u64, overlap.value(at) as u32)
            }));
            ControlFlow::Continue(())
        })
        .unwrap();
    }
    found.sort_unstable();
    Some(found)
}

fn naive(inputs: &[&Rows], spec: &Spec) -> Pairs {
    let measure = Measure::ALL.into_iter().find(|one| one.name() == spec.measure).unwrap();
    let predicate = Predicate::parse(measure, &spec.threshold).unwrap();
    let found = brute_force(predicate, inputs[0], inputs.get(1).copied());
    found.into_iter().map(|(left, right, overlap)| (left.into(), right.into(), overlap)).collect()
}

/// Generates sets with many near-duplicates, frequent tokens, empty sets and very unequal sizes.
fn rows() -> impl Strategy<Value = Rows> {
    let token = prop_oneof![3 => 0..6u32, 2 => 0..40u32, 1 => 0..2000u32];
    let set = prop::collection::btree_set(token, 0..14);
    prop::collection::vec((set, 0..4u32, 0..2000u32), 0..25).prop_map(|seeds| {
        let mut rows = Vec::new();
        for (set, copies, other) in seeds {
            for copy in 0..copies {
                let mut near = set.clone();
                if copy > 1 {
                    near.insert(other);
                }
                rows.push(near);
            }
            rows.push(set);
        }
        rows
    })
}

fn spec() -> impl Strategy<Value = Spec> {
    let predicate = prop_oneof![
        prop::sample::select(vec!["0.5", "0.6", "0.75", "0.8", "1", "1/3"])
            .prop_flat_map(|t| (prop::sample::select(vec!["jaccard", "cosine", "dice"]), Just(t))),
        prop::sample::select(vec!["1", "2", "5"]).prop_map(|t| ("overlap", t)),
        prop::sample::select(vec!["0.5", "0.9", "1"]).prop_map(|t| ("containment", t)),
    ];
    let cuts = prop::collection::btree_set((0..16u32, prop_oneof![Just(0), any::<u32>()]), 0..4);
    let groups = prop::collection::vec(cuts.prop_map(|cuts| cuts.into_iter().collect()), 1..7);
    (predicate, groups, any::<bool>(), any::<[u32; 6]>(), any::<u64>()).prop_map(
        |((measure, threshold), groups, zones, heavy, gpu)| {
            let groups: Vec<Vec<(u32, u32)>> = groups;
            let count = groups.len() as u32;
            let zones = if zones && count > 1 {
                vec![(Some(TABLE | 9), 0, count / 2), (None, count / 2, count - count / 2)]
            } else {
                vec![(None, 0, count)]
            };
            let heavy =
                heavy[..4].iter().map(|&one| (TABLE | u64::from(one % 40), one / 64 % count));
            let mut spec = Spec {
                measure: measure.into(),
                threshold: threshold.into(),
                itself: true,
                zones,
                heavy: heavy.collect(),
                groups,
                gpu: Vec::new(),
            };
            let tasks = Layout::new(spec.clone()).unwrap().tasks().len() as u32;
            spec.gpu = (0..tasks).filter(|task| gpu >> (task % 64) & 1 == 1).collect();
            spec
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn divided_self_join_finds_the_pairs_of_the_undivided_join(
        rows in rows(),
        spec in spec(),
        partitions in 1..4usize,
        limit in prop::sample::select(vec![0, 3, 20, 1 << 20]),
    ) {
        let found = divided(&[&rows], &spec, partitions, 63, limit).unwrap();
        prop_assert_eq!(found, naive(&[&rows], &spec));
    }

    #[test]
    fn divided_join_of_two_finds_the_pairs_of_the_undivided_join(
        left in rows(),
        right in rows(),
        spec in spec(),
        limit in prop::sample::select(vec![0, 20, 1 << 20]),
    ) {
        let mut spec = Spec { itself: false, ..spec };
        let tasks = Layout::new(Spec { gpu: Vec::new(), ..spec.clone() }).unwrap().tasks().len();
        spec.gpu.retain(|&task| (task as usize) < tasks);
        let found = divided(&[&left, &right], &spec, 2, 63, limit).unwrap();
        prop_assert_eq!(found, naive(&[&left, &right], &spec));
    }

    /// With keys of 12 bits, half of these inputs have two tokens with one key.
    #[test]
    fn colliding_keys_are_detected(rows in rows(), spec in spec()) {
        if let Some(found) = divided(&[&rows], &spec, 2, 12, 1 << 20) {
            prop_assert_eq!(found, naive(&[&rows], &spec));
        }
    }
}

#[test]
fn ids_are_kept_and_the_earlier_row_comes_first() {
    let rows: Rows =
        [[1, 2, 3], [4, 5, 6], [1, 2, 3], [1, 2, 3]].into_iter().map(BTreeSet::from).collect();
    let ids = StringArray::from(vec!["z", "y", "x", "a"]);
    let keys = Keys::new(0, 63).unwrap();
    let mut counter = TokenCounter::new(keys, Tokenizer::Whitespace, false, 0, 0);
    let mut counts = Counts::default();
    counter.add("c", &lists(&rows)).unwrap().iter().for_each(|batch| counts.take(batch));
    counter.finish().unwrap().iter().for_each(|batch| counts.take(batch));
    let order = Arc::new(counts.order(keys, 100).unwrap());
    let spec = Spec {
        measure: "jaccard".into(),
        threshold: "0.9".into(),
        itself: true,
        zones: vec![(None, 0, 2)],
        heavy: Vec::new(),
        // No layout puts row 3 and the others into different ranges: equal sets stay together.
        groups: vec![vec![], vec![(3, 0)]],
        gpu: Vec::new(),
    };
    let layout = Arc::new(Layout::new(spec).unwrap());
    let kind = (Tokenizer::Whitespace, false);
    let mut router = Router::new(order, layout.clone(), kind, 0, 1000, false);
    let mut batches = router.add("c", &lists(&rows), Some(("id", &ids))).unwrap();
    assert_eq!(router.next_row(), 1004);
    batches.extend(router.finish().unwrap());
    let mut found = Vec::new();
    for place in 0..layout.tasks().len() as u32 {
        let mut task = Task::new(layout.clone(), place, false).unwrap();
        for batch in &batches {
            let places = batch.column(0).as_primitive::<Int32Type>();
            for at in (0..batch.num_rows()).filter(|&at| places.value(at) as u32 == place) {
                task.add(batch.column(1).as_binary::<i32>().value(at)).unwrap();
            }
        }
        let options = TaskOptions {
            engine: Engine::Cpu,
            technique: "auto".into(),
            threads: 2,
            memory: Some(1 << 24),
        };
        task.run(&options, &Control::default(), |batch| {
            let (left, right) =
                (batch.column(0).as_string::<i32>(), batch.column(1).as_string::<i32>());
            found.extend(
                (0..batch.num_rows())
                    .map(|at| (left.value(at).to_owned(), right.value(at).to_owned())),
            );
            ControlFlow::Continue(())
        })
        .unwrap();
    }
    found.sort();
    let expected = [("x", "a"), ("z", "a"), ("z", "x")];
    assert_eq!(found, expected.map(|(l, r)| (l.to_owned(), r.to_owned())));
    let nulls = StringArray::from(vec![Some("z"), None, Some("x"), Some("a")]);
    let order = Arc::new(counts.order(keys, 100).unwrap());
    let mut router = Router::new(order, layout, kind, 0, 0, false);
    let said = router.add("c", &lists(&rows), Some(("id", &nulls))).unwrap_err().to_string();
    assert_eq!(said, "id column `id`: row 1 (counting from 0): null; a value was expected");
}
