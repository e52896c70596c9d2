//! How much do all pairs of rows have in common?
//!
//! Every pair's overlap, without a threshold, streamed tile by tile: a few probes with all build sets of a
//! pass. See `simjoin-cpu/src/overlaps.rs` for how they are counted.
//!
//! # Memory
//!
//! Lists and bit rows of a pass, counters for each thread, rows on their way out; for the best of each row,
//! as many as are asked for, of the rows of a tile.

use crate::device_overlaps::Where;
use rayon::ThreadPoolBuilder;
use simjoin_core::{
    Bounds, Error, Measure, Predicate, Result, RowPair, SetCollection, SetId, SetPair, Side, Sink,
};
use simjoin_cpu::{AllOverlaps, OverlapPass, OverlapPlan, OverlapSpace, OverlapTechnique};
use simjoin_engine::{
    AUTO, Answer, AnswerSink, Control, Direction, Engine, Kind, Order, Ordered, OutputBuffers,
    SetTask, Sets, did_its_work,
};
use simjoin_gpu::OverlapTechnique as GpuTechnique;
use simjoin_kernels::tier::Tier;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

/// The overlaps of all pairs of rows.
///
/// Rows come as [`RowPair`]s whose similarity is the overlap. One collection is compared with itself, each
/// pair once; two that were [prepared](crate::prepare) together are compared left with right.
///
/// ```
/// use simjoin::{Control, Overlaps, RawSets, prepare};
/// use std::ops::ControlFlow;
///
/// let mut rows = RawSets::default();
/// rows.push(&[0, 1, 2]);
/// rows.push(&[1, 2, 3]);
/// rows.push(&[4]);
/// let (sets, _) = prepare(rows, None, 5)?;
/// let mut found = Vec::new();
/// Overlaps::new().positive(true).pairs(&sets, None, &Control::default(), |pairs| {
///     found.extend(pairs.iter().map(|pair| (pair.left, pair.right, pair.overlap)));
///     ControlFlow::Continue(())
/// })?;
/// assert_eq!(found, [(0, 1, 2)]);
/// assert_eq!(Overlaps::new().count(&sets, None, &Control::default())?.pairs, 3);
/// # Ok::<(), simjoin::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Overlaps {
    pub(crate) technique: String,
    pub(crate) engine: Engine,
    threads: usize,
    pub(crate) memory: u64,
    pub(crate) device_memory: u64,
    pub(crate) positive: bool,
    pub(crate) top: Option<usize>,
}

impl Default for Overlaps {
    fn default() -> Self {
        Self::new()
    }
}

/// What counting came to.
#[derive(Clone, Debug, PartialEq)]
pub struct OverlapsReport {
    /// Pairs of rows in the answer.
    pub pairs: u64,
    /// Pairs of distinct sets that were counted.
    pub counted: u64,
    /// The technique that ran; `none` where nothing needed counting.
    pub technique: &'static str,
    /// Where it ran: on the CPU or on a GPU.
    pub engine: Engine,
    /// Bits a set that it compared.
    pub bits: usize,
    /// Over how many ranges of sets it went.
    pub passes: usize,
    /// The number of threads that ran.
    pub threads: usize,
    /// The seconds that were estimated.
    pub estimated: f64,
    /// Seconds from begin to end.
    pub seconds: f64,
    /// What went wrong and was put right: a GPU that failed and whose work the CPU did.
    pub warnings: Vec<String>,
}

impl Overlaps {
    /// All pairs, by the technique that suits, on all cores.
    pub fn new() -> Self {
        Overlaps {
            technique: AUTO.into(),
            engine: Engine::Auto,
            threads: 0,
            memory: u64::MAX,
            device_memory: u64::MAX,
            positive: false,
            top: None,
        }
    }

    /// Chooses where to run: on the CPU, on a GPU, or where that takes less.
    pub fn engine(mut self, engine: Engine) -> Self {
        self.engine = engine;
        self
    }

    /// Bounds the memory, in bytes, that is taken on a GPU. Without it, what is free there.
    pub fn device_memory(mut self, bytes: u64) -> Self {
        self.device_memory = bytes;
        self
    }

    /// Chooses the technique by name, one of those of [`Subject::Overlaps`](crate::Subject::Overlaps).
    pub fn technique(mut self, name: &str) -> Self {
        self.technique = name.into();
        self
    }

    /// Runs on a pool of this many threads; 0 for the rayon pool that the caller is in.
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// Bounds the memory, in bytes, that is taken beside the collections.
    pub fn memory(mut self, bytes: u64) -> Self {
        self.memory = bytes;
        self
    }

    /// Leaves out pairs that have nothing in common.
    pub fn positive(mut self, only: bool) -> Self {
        self.positive = only;
        self
    }

    /// For each row (of the left collection, where there are two) only so many partners: those with the
    /// largest overlaps, of equal ones those with the smallest row numbers, none without anything in
    /// common. The row is the `left` one of its pairs, so a pair of one collection may come twice, once
    /// for each row. The largest overlap comes first.
    pub fn top(mut self, count: Option<usize>) -> Self {
        self.top = count;
        self
    }

    /// Says what is wrong with the choice of technique, before any work is done.
    pub fn check(&self) -> Result<()> {
        Tier::asked_for().map_err(Error::Config)?;
        self.asked_for().map(drop)
    }

    /// The technique of a GPU that was asked for, if one was.
    pub fn on_gpu(&self) -> Option<&'static str> {
        self.asked_for().ok().flatten().map(GpuTechnique::name)
    }

    /// Every technique of the CPU that fits the memory, with the words of bits that a set would have and the estimated
    /// seconds; the one that is chosen comes first.
    pub fn explain(
        &self,
        left: &SetCollection,
        right: Option<&SetCollection>,
    ) -> Result<Vec<(&'static str, usize, f64)>> {
        self.check()?;
        if self.on_gpu().is_some() {
            return Ok(Vec::new());
        }
        let threads = self.pool_threads();
        let plans = self.plans(&self.shape(left, right), threads)?;
        let shown =
            |plan: &OverlapPlan| (plan.technique.name(), plan.words, plan.seconds / threads as f64);
        Ok(plans.iter().map(shown).collect())
    }

    /// Counts the pairs of rows in the answer. Where that is all pairs nothing needs to be compared.
    pub fn count(
        &self,
        left: &SetCollection,
        right: Option<&SetCollection>,
        control: &Control,
    ) -> Result<OverlapsReport> {
        self.check()?;
        if self.top.is_some() {
            return self.pairs(left, right, control, |_| ControlFlow::Continue(()));
        }
        if !self.positive {
            let pairs = match right {
                Some(right) => left.records() as u64 * right.records() as u64,
                None => left.records() as u64 * (left.records() as u64).saturating_sub(1) / 2,
            };
            return Ok(OverlapsReport {
                pairs,
                counted: 0,
                technique: "none",
                engine: Engine::Cpu,
                bits: 0,
                passes: 0,
                threads: 1,
                estimated: 0.0,
                seconds: 0.0,
                warnings: Vec::new(),
            });
        }
        let shape = self.shape(left, right);
        let mut warnings = Vec::new();
        if let Some(place) = self.place(&shape)? {
            match self.count_on_device(&place, left, right) {
                Err(error) if self.rather_on_cpu(&error) => warnings.push(did_its_work(&error)),
                Err(error) => return Err(error),
                Ok(mut report) => {
                    if right.is_none() {
                        report.pairs += Sets::repeats(left, &any_token()?);
                    }
                    return Ok(report);
                }
            }
        }
        let found = AtomicU64::new(0);
        let (probes, builds) = (weights(shape.probe), weights(shape.build));
        let mut report = self.run(&shape, control, || {
            |_: usize, pass: &OverlapPass<'_>, tile: usize, space: &mut OverlapSpace| {
                let mut rows = 0;
                let flow = pass.count(tile, space, |probe, met, counts| {
                    let partners = match &builds {
                        Some(weights) => {
                            let weights = &weights[met.start as usize..met.end as usize];
                            let each = counts.iter().zip(weights);
                            each.map(|(&count, &rows)| u64::from(if count > 0 { rows } else { 0 }))
                                .sum()
                        }
                        None => counts.iter().map(|&count| u64::from(count > 0)).sum::<u64>(),
                    };
                    rows += partners
                        * probes.as_ref().map_or(1, |rows| u64::from(rows[probe as usize]));
                    if control.stopped() {
                        ControlFlow::Break(())
                    } else {
                        ControlFlow::Continue(())
                    }
                });
                found.fetch_add(rows, Ordering::Relaxed);
                flow
            }
        })?;
        report.pairs = found.into_inner();
        report.warnings = warnings;
        if right.is_none() {
            report.pairs += Sets::repeats(left, &any_token()?);
        }
        Ok(report)
    }

    /// Hands every pair of rows in the answer to `take`, in batches. Their order does not depend on the
    /// number of threads. `take` may answer `Break` to end early.
    pub fn pairs(
        &self,
        left: &SetCollection,
        right: Option<&SetCollection>,
        control: &Control,
        take: impl FnMut(&[RowPair]) -> ControlFlow<()> + Send,
    ) -> Result<OverlapsReport> {
        self.check()?;
        let shape = self.shape(left, right);
        let room = OutputBuffers::within(self.memory / 8, self.pool_threads());
        let ordered = Ordered::new(room, take);
        let part = if right.is_none() { Direction::LeftItself } else { Direction::LeftProbes };
        let join = join(&shape);
        let (mut on_device, mut warnings) = (None, Vec::new());
        if let Some(place) = self.place(&shape)? {
            match self.pairs_on_device(&place, (left, right), &ordered, part, control) {
                Err(error) if ordered.pairs() == 0 && self.rather_on_cpu(&error) => {
                    warnings.push(did_its_work(&error));
                }
                found => on_device = Some(found?),
            }
        }
        let on_cpu = || {
            self.run(&shape, control, || {
                let mut sink = Answer::<Sets>::sink(&ordered, &join, part);
                let mut batch = Vec::with_capacity(BATCH);
                let shape = &shape;
                move |number: usize,
                      pass: &OverlapPass<'_>,
                      tile: usize,
                      space: &mut OverlapSpace| {
                    sink.begin(number);
                    let flow = pass.count(tile, space, |probe, builds, counts| {
                        if control.stopped() {
                            return ControlFlow::Break(());
                        }
                        if let Some(top) = self.top {
                            let overlaps = builds.zip(counts.iter().copied());
                            for row in best(shape, top, right.is_none(), probe, overlaps) {
                                sink.push_row(row)?;
                            }
                            return ControlFlow::Continue(());
                        }
                        for (build, &overlap) in builds.zip(counts) {
                            if overlap > 0 || !self.positive {
                                batch.push(SetPair { probe, build, overlap });
                                if batch.len() == BATCH {
                                    sink.push(&batch)?;
                                    batch.clear();
                                }
                            }
                        }
                        sink.push(&batch)?;
                        batch.clear();
                        ControlFlow::Continue(())
                    });
                    batch.clear();
                    let ended = sink.end();
                    if flow.is_break() { flow } else { ended }
                }
            })
        };
        let mut report = on_device.map_or_else(on_cpu, Ok)?;
        if self.top.is_none() {
            if right.is_none() {
                ordered.repeats::<Sets>((left, Side::Left), &any_token()?, control);
            }
            if !self.positive {
                let _ = empty_pairs(left, right, control, |rows| ordered.rest(rows));
            }
        }
        report.pairs = ordered.pairs();
        report.warnings.append(&mut warnings);
        Ok(report)
    }

    /// The device that is to count, if one is.
    fn place(&self, shape: &AllOverlaps<'_>) -> Result<Option<Where>> {
        self.device(self.asked_for()?, || {
            let threads = self.pool_threads();
            let plans = self.plans(shape, threads)?;
            Ok(plans.first().map_or(0.0, |plan| plan.seconds / threads as f64))
        })
    }

    pub(crate) fn shape<'a>(
        &self,
        left: &'a SetCollection,
        right: Option<&'a SetCollection>,
    ) -> AllOverlaps<'a> {
        // The best of a row may come after it, and are known only after all sets.
        let at_once = self.top.is_some();
        let before = right.is_none() && !at_once;
        AllOverlaps { probe: left, build: right.unwrap_or(left), before, at_once }
    }

    pub(crate) fn pool_threads(&self) -> usize {
        if self.threads == 0 { rayon::current_num_threads() } else { self.threads }
    }

    /// The techniques to choose from, the best one first.
    fn plans(&self, shape: &AllOverlaps<'_>, threads: usize) -> Result<Vec<OverlapPlan>> {
        // An eighth of the memory is for rows on their way out.
        let memory = self.memory - self.memory / 8;
        let (mut plans, refused) = shape.plans(memory, threads);
        plans.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
        if let Some(at) = plans.iter().position(|plan| plan.technique.name() == self.technique) {
            plans.swap(0, at);
        } else if self.technique != AUTO {
            plans.clear();
        }
        if plans.is_empty() && !shape.build.is_empty() {
            let asked = |name: &str| self.technique == AUTO || self.technique == name;
            let asked = refused.iter().filter(|(technique, _)| asked(technique.name()));
            let needed = asked.map(|&(_, bytes)| bytes).min().unwrap_or(u64::MAX);
            let what = match self.top {
                Some(_) => "the best of each row, which takes all sets at once,",
                None => "counting overlaps",
            };
            return Err(Error::Memory {
                what: what.into(),
                // That eighth included.
                needed: needed.saturating_add(needed.div_ceil(7)),
                limit: self.memory,
                device: false,
            });
        }
        Ok(plans)
    }

    /// Runs over all tiles of all passes, each taken by one worker, in rising order.
    fn run<W>(
        &self,
        shape: &AllOverlaps<'_>,
        control: &Control,
        worker: impl Fn() -> W + Sync,
    ) -> Result<OverlapsReport>
    where
        W: FnMut(usize, &OverlapPass<'_>, usize, &mut OverlapSpace) -> ControlFlow<()>,
    {
        let begin = Instant::now();
        let threads = self.pool_threads();
        let own = (self.threads > 0)
            .then(|| ThreadPoolBuilder::new().num_threads(threads).build())
            .transpose()
            .map_err(|error| Error::Unavailable(format!("cannot start threads: {error}")))?;
        let work = || -> Result<OverlapsReport> {
            let plans = self.plans(shape, threads)?;
            let Some(plan) = plans.first() else {
                return Ok(OverlapsReport {
                    pairs: 0,
                    counted: 0,
                    technique: OverlapTechnique::Index.name(),
                    engine: Engine::Cpu,
                    bits: 0,
                    passes: 0,
                    threads,
                    estimated: 0.0,
                    seconds: 0.0,
                    warnings: Vec::new(),
                });
            };
            let passes = shape.passes(plan);
            let (probes, builds) = (shape.probe.len() as u64, shape.build.len() as u64);
            let counted =
                if shape.before { probes * probes.saturating_sub(1) / 2 } else { probes * builds };
            control.begin(probes * passes.len() as u64);
            let mut first = 0;
            for builds in &passes {
                if control.stopped() {
                    break;
                }
                let pass = shape.prepare(plan, builds.clone());
                let (tiles, next) = (pass.tiles(), AtomicUsize::new(0));
                let enough = AtomicUsize::new(0);
                rayon::broadcast(|_| {
                    let mut worker = worker();
                    let mut space = OverlapSpace::default();
                    loop {
                        let tile = next.fetch_add(1, Ordering::Relaxed);
                        if tile >= tiles || enough.load(Ordering::Relaxed) > 0 {
                            return;
                        }
                        if worker(first + tile, &pass, tile, &mut space).is_break() {
                            enough.fetch_add(1, Ordering::Relaxed);
                        }
                        control.advance(probes / tiles.max(1) as u64);
                    }
                });
                first += tiles;
                if enough.into_inner() > 0 {
                    break;
                }
            }
            Ok(OverlapsReport {
                pairs: 0,
                counted,
                technique: plan.technique.name(),
                engine: Engine::Cpu,
                bits: 64 * plan.words,
                passes: passes.len(),
                threads,
                estimated: plan.seconds / threads as f64,
                seconds: 0.0,
                warnings: Vec::new(),
            })
        };
        let mut report = own.map_or_else(work, |pool| pool.install(work))?;
        report.seconds = begin.elapsed().as_secs_f64();
        Ok(report)
    }
}

/// Pairs handed on at once.
const BATCH: usize = 1024;

/// What a sink has to know of the collections.
pub(crate) fn join<'a>(shape: &AllOverlaps<'a>) -> SetTask<'a> {
    let bounds = Bounds::new(
        Predicate::parse(Measure::Overlap, "1")
            .unwrap_or_else(|_| unreachable!("one is a whole number")),
    );
    SetTask { probe: shape.probe, build: shape.build, predicate: bounds, order: Order::Before }
}

/// How many rows hold each set, unless each is held by one.
fn weights(sets: &SetCollection) -> Option<Vec<u32>> {
    sets.has_repeats().then(|| (0..sets.len() as SetId).map(|set| sets.weight(set)).collect())
}

/// A token in common.
pub(crate) fn any_token() -> Result<Bounds> {
    Ok(Bounds::new(Predicate::parse(Measure::Overlap, "1")?))
}

/// The best partners of each row that holds a set.
pub(crate) fn best(
    shape: &AllOverlaps<'_>,
    top: usize,
    itself: bool,
    probe: SetId,
    overlaps: impl Iterator<Item = (SetId, u32)>,
) -> Vec<RowPair> {
    // One more, for the row itself is among its own partners.
    let most = if itself { top.saturating_add(1) } else { top };
    let mut heap: BinaryHeap<Reverse<(u32, Reverse<u32>)>> = BinaryHeap::new();
    let mut least = 1;
    for (build, overlap) in overlaps {
        if overlap < least {
            continue;
        }
        for &row in shape.build.rows(build) {
            if heap.len() == most {
                if heap.peek().is_none_or(|Reverse(last)| *last >= (overlap, Reverse(row))) {
                    break;
                }
                heap.pop();
            }
            heap.push(Reverse((overlap, Reverse(row))));
        }
        if heap.len() == most {
            least = heap.peek().map_or(1, |Reverse((overlap, _))| (*overlap).max(1));
        }
    }
    let found = heap.into_sorted_vec();
    let mut rows = Vec::new();
    for &left in shape.probe.rows(probe) {
        let partners = found.iter().map(|Reverse((overlap, Reverse(right)))| (*overlap, *right));
        let others = partners.filter(|&(_, right)| !itself || right != left).take(top);
        rows.extend(others.map(|(overlap, right)| RowPair {
            left,
            right,
            overlap,
            similarity: f64::from(overlap),
            left_input: Side::Left,
        }));
    }
    rows
}

/// Hands on the pairs with a row that is empty: they have nothing in common.
fn empty_pairs(
    left: &SetCollection,
    right: Option<&SetCollection>,
    control: &Control,
    mut take: impl FnMut(&[RowPair]) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let full = |sets: &SetCollection| {
        let mut full = vec![false; sets.records()];
        (0..sets.len() as SetId)
            .flat_map(|set| sets.rows(set))
            .for_each(|&row| full[row as usize] = true);
        full
    };
    let lefts = full(left);
    let rights = right.map(full);
    let mut rows = Vec::with_capacity(BATCH);
    let mut push = |left: usize, right: usize| {
        let (left, right) = (left as u32, right as u32);
        rows.push(RowPair { left, right, overlap: 0, similarity: 0.0, left_input: Side::Left });
        if rows.len() < BATCH {
            return ControlFlow::Continue(());
        }
        let flow = if control.stopped() { ControlFlow::Break(()) } else { take(&rows) };
        rows.clear();
        flow
    };
    for (row, &is_full) in lefts.iter().enumerate() {
        let others = rights.as_ref().unwrap_or(&lefts);
        let start = if rights.is_some() { 0 } else { row + 1 };
        // A row that is full meets the empty ones; an empty one meets all.
        if is_full && others[start..].iter().all(|&full| full) {
            continue;
        }
        for (other, _) in (start..).zip(&others[start..]).filter(|(_, full)| !(is_full && **full)) {
            push(row, other)?;
        }
    }
    take(&rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use simjoin_core::{RawSets, prepare};
    use simjoin_engine::{Processor, Subject, names};
    use std::collections::BTreeSet;

    type Rows = Vec<BTreeSet<u32>>;

    fn collections(left: &Rows, right: Option<&Rows>) -> (SetCollection, Option<SetCollection>) {
        let raw = |rows: &Rows| {
            let mut raw = RawSets::default();
            rows.iter().for_each(|row| raw.push(&row.iter().copied().collect::<Vec<_>>()));
            raw
        };
        prepare(raw(left), right.map(raw), 64).unwrap()
    }

    /// Every pair of rows, by counting.
    fn expected(left: &Rows, right: Option<&Rows>) -> Vec<(u32, u32, u32)> {
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

    fn best_of(left: &Rows, right: Option<&Rows>, top: usize) -> Vec<(u32, u32, u32)> {
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

    fn found(
        overlaps: &Overlaps,
        left: &SetCollection,
        right: Option<&SetCollection>,
    ) -> Vec<(u32, u32, u32)> {
        let mut found = Vec::new();
        let control = Control::default();
        let report = overlaps
            .pairs(left, right, &control, |rows| {
                found.extend(rows.iter().map(|row| (row.left, row.right, row.overlap)));
                ControlFlow::Continue(())
            })
            .unwrap();
        assert_eq!(report.pairs, found.len() as u64);
        assert_eq!(overlaps.count(left, right, &control).unwrap().pairs, report.pairs);
        found
    }

    fn rows() -> impl Strategy<Value = Rows> {
        prop::collection::vec(prop::collection::btree_set(0..64u32, 0..12), 0..40)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]

        #[test]
        fn every_pair_comes_once_with_its_overlap(
            left in rows(),
            copies in prop::collection::vec(any::<prop::sample::Index>(), 0..10),
            right in prop::option::of(rows()),
            top in 1..6usize,
        ) {
            let mut left = left;
            for copy in copies {
                if !left.is_empty() {
                    left.push(left[copy.index(left.len())].clone());
                }
            }
            let (l, r) = collections(&left, right.as_ref());
            let all = expected(&left, right.as_ref());
            for technique in techniques() {
                for threads in [1, 3] {
                    let overlaps = Overlaps::new().technique(technique).threads(threads);
                    let sorted = |overlaps: &Overlaps| {
                        let mut rows = found(overlaps, &l, r.as_ref());
                        rows.sort_unstable();
                        rows
                    };
                    prop_assert_eq!(&sorted(&overlaps), &all, "{}", technique);
                    let positive: Vec<_> = all.iter().copied().filter(|row| row.2 > 0).collect();
                    prop_assert_eq!(&sorted(&overlaps.clone().positive(true)), &positive);
                    let best = overlaps.clone().top(Some(top));
                    let mut rows = found(&best, &l, r.as_ref());
                    // Each row's best come one after the other, the largest first.
                    rows.sort_by_key(|row| row.0);
                    prop_assert_eq!(rows, best_of(&left, right.as_ref(), top), "{}", technique);
                }
            }
        }
    }

    fn techniques() -> impl Iterator<Item = &'static str> {
        std::iter::once(AUTO).chain(names(Subject::Overlaps, Processor::Cpu))
    }

    #[test]
    fn nothing_and_nothing_but_empty_rows() {
        for left in [Rows::new(), vec![BTreeSet::new(); 3], vec![BTreeSet::from([1])]] {
            for right in [None, Some(Rows::new()), Some(vec![BTreeSet::new(); 2])] {
                let (l, r) = collections(&left, right.as_ref());
                for technique in techniques() {
                    let overlaps = Overlaps::new().technique(technique).threads(2);
                    let mut rows = found(&overlaps, &l, r.as_ref());
                    rows.sort_unstable();
                    assert_eq!(rows, expected(&left, right.as_ref()), "{technique}");
                    assert!(found(&overlaps.clone().top(Some(2)), &l, r.as_ref()).is_empty());
                    assert!(found(&overlaps.positive(true), &l, r.as_ref()).is_empty());
                }
            }
        }
    }

    #[test]
    fn passes_and_threads_change_nothing_and_enough_is_enough() {
        let left: Rows = (0..3000u32)
            .map(|row| {
                (0..9).map(|at| (row.wrapping_mul(2_654_435_761) >> (3 * at)) % 64).collect()
            })
            .collect();
        let (sets, _) = collections(&left, None);
        let of = |overlaps: Overlaps| found(&overlaps.positive(true), &sets, None);
        let one = of(Overlaps::new().threads(1));
        assert_eq!(of(Overlaps::new().threads(3)), one);
        let control = Control::default();
        let tight = Overlaps::new().positive(true).threads(1).memory(700_000);
        let report = tight.count(&sets, None, &control).unwrap();
        assert!(report.passes > 1 && report.pairs == one.len() as u64, "{report:?}");
        let (mut many, mut all) = (of(tight.clone()), one);
        many.sort_unstable();
        all.sort_unstable();
        assert!(many == all);
        let best = tight.top(Some(2));
        let refused = best.count(&sets, None, &control).unwrap_err();
        let Error::Memory { needed, limit: 700_000, .. } = refused else { panic!("{refused}") };
        assert!(best.clone().memory(needed - needed / 100).count(&sets, None, &control).is_err());
        best.memory(needed).count(&sets, None, &control).unwrap();
        for threads in [1, 3] {
            let mut batches = 0;
            let once = |_: &[RowPair]| {
                batches += 1;
                ControlFlow::Break(())
            };
            Overlaps::new().threads(threads).pairs(&sets, None, &control, once).unwrap();
            assert_eq!(batches, 1);
        }
        assert!(Overlaps::new().technique("magic").check().is_err());
        assert!(Overlaps::new().explain(&sets, None).unwrap().len() == 3);
    }
}
