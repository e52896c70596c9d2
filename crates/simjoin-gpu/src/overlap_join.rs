//! How does counting overlaps on a device become a technique?
//!
//! A device counts all pairs of a task and hands them on tile by tile, in the order of the probes; see
//! `overlaps/`. The best `k` rows of a set are in its best `k` sets, since each of these sets holds a row
//! that comes before all rows of the later sets.
//!
//! # Memory
//!
//! As in `overlaps/`.

use crate::device::Device;
use crate::overlaps::{
    OverlapSeconds, OverlapSide, OverlapSides, OverlapTechnique, Overlaps as DeviceOverlaps,
    Selection,
};
use simjoin_core::{Measure, Predicate, Result, SetId, SetPair, Sink};
use simjoin_engine::{
    Budget, Cost, CostTable, DeviceTimes, Kind, OverlapSurvey, OverlapTask, Overlaps, Prepared,
    Technique, Techniques, WantedOverlaps, Worker, best_partners,
};
use std::ops::{ControlFlow, Range};
use std::sync::{Arc, Mutex, PoisonError};

/// The number of pairs that are handed on at once.
const BATCH: usize = 1024;

/// Returns every technique for overlaps on a device.
pub fn overlap_techniques(device: &Arc<Device>) -> Techniques<Overlaps> {
    let technique = |technique| -> Box<dyn Technique<Overlaps>> {
        Box::new(CountOnDevice { device: device.clone(), technique })
    };
    OverlapTechnique::ALL.into_iter().map(technique).collect()
}

/// The technique that counts the overlaps of all pairs on a device.
struct CountOnDevice {
    device: Arc<Device>,
    technique: OverlapTechnique,
}

fn sides<'a>(task: &OverlapTask<'a>) -> OverlapSides<'a> {
    let side =
        |sets| OverlapSide { sets, range: 0..SetId::try_from(sets.len()).unwrap_or(SetId::MAX) };
    let columns = (!task.is_self_join()).then(|| side(task.build));
    OverlapSides { rows: side(task.probe), columns, limits: None }
}

impl Technique<Overlaps> for CountOnDevice {
    fn name(&self) -> &'static str {
        self.technique.name()
    }

    fn on_device(&self) -> bool {
        true
    }

    fn joins_any_range(&self) -> bool {
        false
    }

    /// Returns no estimate for the techniques that exist for comparison.
    fn cost(&self, survey: &OverlapSurvey, _: &CostTable) -> Option<Cost> {
        if !matches!(self.technique, OverlapTechnique::Combined(_)) {
            return None;
        }
        // As for `gpu-mmjoin`, which counts in the same way. Counts of one byte are copied to the host.
        let pieces = f64::from(survey.universe.min(16_384)) / 256.0;
        let pieces = pieces.min(0.6 * survey.tokens / survey.sets.max(1.0));
        let product = if self.device.info.multiplies_bits() { 9e12 } else { 4e11 };
        let of_pair = (2.0 * pieces / product + 4e-12) / self.device.info.multiprocessor_ratio();
        let sending = survey.tokens * 0.5e-9 + survey.sets * 5e-9;
        Some(Cost::of_serial(0.5e-3 + sending + survey.pairs * (of_pair + 0.05e-9)))
    }

    fn memory_bytes(&self, task: &OverlapTask<'_>, _: &Range<SetId>, _: usize) -> u64 {
        let columns = task.build.len() as u64;
        match task.predicate {
            // Two rows of counts of at most four bytes.
            WantedOverlaps::All => 8 * columns.next_multiple_of(256),
            // The answers of a row.
            WantedOverlaps::Positive => Selection::ANSWER_BYTES * columns,
            WantedOverlaps::Top(top) => Selection::ANSWER_BYTES * columns.min(top as u64),
        }
    }

    fn device_bytes(&self, task: &OverlapTask<'_>, _: &Range<SetId>, _: usize) -> u64 {
        if task.probe.is_empty() || task.build.is_empty() {
            return 0;
        }
        use OverlapTechnique::{BinarySearch, BitmapDynamic, Hash, Index};
        let looks_up = matches!(self.technique, BitmapDynamic | BinarySearch | Hash);
        let sides = sides(task);
        let (fixed, tiles) = sides.least_bytes(!looks_up);
        let lists = if self.technique == Index { sides.list_bytes() } else { 0 };
        fixed + tiles + lists
    }

    fn prepare<'a>(
        &self,
        task: &OverlapTask<'a>,
        _: &Range<SetId>,
        budget: &Budget,
    ) -> Result<Box<dyn Prepared<Overlaps> + 'a>> {
        let columns = (!task.is_self_join()).then_some(task.build);
        let device =
            DeviceOverlaps::new(&self.device, task.probe, columns, self.technique, budget)?;
        let bits = u64::from(device.frequent());
        Ok(Box::new(PreparedCounting { task: *task, device: Mutex::new(device), bits }))
    }
}

/// Sets on a device, prepared for counting.
struct PreparedCounting<'a> {
    task: OverlapTask<'a>,
    /// The device, which the only worker locks.
    device: Mutex<DeviceOverlaps<'a>>,
    bits: u64,
}

impl Prepared<Overlaps> for PreparedCounting<'_> {
    fn figures(&self) -> Vec<(&'static str, u64)> {
        vec![("bits", self.bits), ("passes", 1)]
    }

    fn pieces(&self) -> usize {
        1
    }

    fn workers(&self) -> usize {
        1
    }

    fn worker<'w>(&'w self) -> Result<Box<dyn Worker<Overlaps> + 'w>> {
        Ok(Box::new(CountingWorker { counting: self, seconds: OverlapSeconds::default() }))
    }
}

struct CountingWorker<'w, 'a> {
    counting: &'w PreparedCounting<'a>,
    seconds: OverlapSeconds,
}

impl Worker<Overlaps> for CountingWorker<'_, '_> {
    fn run(&mut self, _: usize, sink: &mut dyn Sink<SetPair>) -> Result<ControlFlow<()>> {
        let PreparedCounting { task, device, .. } = self.counting;
        let mut device = device.lock().unwrap_or_else(PoisonError::into_inner);
        let found = match task.predicate {
            WantedOverlaps::All => all(&mut device, sink),
            WantedOverlaps::Positive => positive(&mut device, sink),
            WantedOverlaps::Top(top) => best(&mut device, task, top, sink),
        };
        self.seconds = device.seconds;
        found
    }

    fn candidates(&self) -> u64 {
        let task = &self.counting.task;
        task.pairs_of(&Overlaps::whole(task))
    }

    fn times(&self) -> DeviceTimes {
        let OverlapSeconds { send, prepare, count, select, fetch } = self.seconds;
        DeviceTimes {
            compared: self.candidates(),
            filter: prepare + count,
            verify: select,
            copies: send + fetch,
            waited: send + prepare + fetch,
            ..DeviceTimes::default()
        }
    }
}

/// Hands on every pair.
fn all(device: &mut DeviceOverlaps<'_>, sink: &mut dyn Sink<SetPair>) -> Result<ControlFlow<()>> {
    let mut batch = Vec::with_capacity(BATCH);
    device.counts(|tile| {
        for row in 0..tile.rows {
            let probe = tile.first + row;
            let mut flow = ControlFlow::Continue(());
            tile.each(row, |build, overlap| {
                batch.push(SetPair { probe, build, overlap });
                if batch.len() == BATCH && flow.is_continue() {
                    flow = sink.push(&batch);
                    batch.clear();
                }
            });
            flow?;
            hand_on(sink, &batch)?;
            batch.clear();
        }
        ControlFlow::Continue(())
    })
}

/// Hands on the pairs with a positive overlap, or the number of pairs of rows that they represent.
fn positive(
    device: &mut DeviceOverlaps<'_>,
    sink: &mut dyn Sink<SetPair>,
) -> Result<ControlFlow<()>> {
    let any_token = Predicate::parse(Measure::Overlap, "1")?;
    if sink.only_counts() {
        sink.count(device.count(any_token)?);
        return Ok(hand_on(sink, &[]));
    }
    device.selected(any_token, |pairs| hand_on(sink, pairs))
}

/// Hands on the best partners of each row.
fn best(
    device: &mut DeviceOverlaps<'_>,
    task: &OverlapTask<'_>,
    top: usize,
    sink: &mut dyn Sink<SetPair>,
) -> Result<ControlFlow<()>> {
    let sets = 0..task.build.len() as SetId;
    let ranks: Vec<u32> = sets.map(|set| task.build.rows(set)[0]).collect();
    let most = u32::try_from(top).unwrap_or(u32::MAX);
    device.top(most, Some(&ranks), |probe, pairs| {
        // A device leaves out the set itself, which other rows may hold too.
        let own = task.is_self_join().then(|| (probe, task.probe.size(probe)));
        let others = pairs.iter().map(|pair| (pair.build, pair.overlap));
        hand_on(sink, &best_partners(task, top, probe, own.into_iter().chain(others)))
    })
}

/// Hands on pairs, unless no more are wanted.
fn hand_on(sink: &mut dyn Sink<SetPair>, pairs: &[SetPair]) -> ControlFlow<()> {
    if sink.stopped() {
        return ControlFlow::Break(());
    }
    if pairs.is_empty() { ControlFlow::Continue(()) } else { sink.push(pairs) }
}
