//! Which techniques count overlaps?
//!
//! The three techniques of `overlaps.rs` differ in the number of tokens that are bits. It is decided once for a whole
//! task.
//!
//! # Flow
//!
//! ```text
//! a pass (a round) ─► tiles (pieces) ─► counters of a probe ─┬─► pairs, in batches
//!                                                            ├─► the number of pairs of rows
//!                                                            └─► the best partners of each row
//! ```
//!
//! # Memory
//!
//! The memory is that of `overlaps.rs`. If pairs are only counted and rows repeat, 4 bytes a set are added.

use crate::heavy::{BITS, Weigh, floor};
use crate::overlaps::{AllOverlaps, OverlapPass, OverlapSpace};
use simjoin_core::{Error, Result, SetCollection, SetId, SetPair, Sink};
use simjoin_engine::{
    Budget, Cost, CostTable, OverlapSurvey, OverlapTask, Overlaps, Prepared, Technique, Techniques,
    WantedOverlaps, Worker, best_partners,
};
use std::ops::{ControlFlow, Range};
use std::sync::OnceLock;

/// The number of pairs in a batch.
const BATCH: usize = 1024;

/// Returns every technique for overlaps.
pub fn overlap_techniques(survey: &OverlapSurvey) -> Techniques<Overlaps> {
    CountOverlaps::of(survey).map(|one| -> Box<dyn Technique<Overlaps>> { Box::new(one) }).collect()
}

/// Counts the overlaps of all pairs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CountOverlaps {
    name: &'static str,
    /// The number of words of the bits of a set.
    pub(crate) words: usize,
}

impl CountOverlaps {
    /// Returns the three techniques: with lists only, with bits only, and with the cheapest number of bits.
    pub(crate) fn of(survey: &OverlapSurvey) -> impl Iterator<Item = Self> {
        let all = (survey.universe - survey.unique).div_ceil(BITS) as usize;
        let worth = Weigh::new().words(&survey.meetings, survey.pairs, all);
        [("index", 0), ("bitmap", all), ("product", worth)]
            .into_iter()
            .map(|(name, words)| CountOverlaps { name, words })
    }
}

impl Technique<Overlaps> for CountOverlaps {
    fn name(&self) -> &'static str {
        self.name
    }

    fn variant(&self) -> String {
        match self.words {
            0 => String::new(),
            words => format!("{} bits", words * BITS as usize),
        }
    }

    fn cost(&self, survey: &OverlapSurvey, costs: &CostTable) -> Option<Cost> {
        let weigh = Weigh::new();
        let light = floor(survey.universe, self.words).max(survey.unique) - survey.unique;
        let walked: f64 = survey.meetings[..light as usize].iter().sum();
        // Every counter is cleared and read.
        let blocks = if self.words == 0 { 0.0 } else { weigh.block };
        let each = self.words as f64 * weigh.word + blocks + 0.15e-9;
        Some(Cost::of_parallel(costs.scale * (survey.pairs * each + walked * weigh.walk)))
    }

    fn memory_bytes(&self, task: &OverlapTask<'_>, probes: &Range<SetId>, threads: usize) -> u64 {
        AllOverlaps::new(task, probes, self.words).least_bytes(threads)
    }

    fn prepare<'a>(
        &self,
        task: &OverlapTask<'a>,
        probes: &Range<SetId>,
        budget: &Budget,
    ) -> Result<Box<dyn Prepared<Overlaps> + 'a>> {
        let all = AllOverlaps::new(task, probes, self.words);
        let passes = all.passes(budget.bytes, budget.threads);
        let rows = OnceLock::new();
        Ok(Box::new(PreparedOverlaps { task: *task, all, passes, pass: None, rows }))
    }
}

struct PreparedOverlaps<'a> {
    task: OverlapTask<'a>,
    all: AllOverlaps<'a>,
    passes: Vec<Range<SetId>>,
    pass: Option<OverlapPass<'a>>,
    /// The weights of the sets of both sides; set when pairs of rows are counted.
    rows: OnceLock<RowsOfSets>,
}

/// The weights of probes and of build sets; `None` if every weight is 1.
struct RowsOfSets {
    probes: Option<Vec<u32>>,
    builds: Option<Vec<u32>>,
}

impl RowsOfSets {
    fn new(task: &OverlapTask<'_>) -> Self {
        let of = |sets: &SetCollection| {
            let weights = (0..sets.len() as SetId).map(|set| sets.weight(set));
            sets.has_repeats().then(|| weights.collect())
        };
        RowsOfSets { probes: of(task.probe), builds: of(task.build) }
    }

    /// Counts the pairs of rows of a probe.
    fn count(&self, probe: SetId, builds: &Range<SetId>, counts: &[u32], zeros: bool) -> u64 {
        let wanted = |count: u32| count > 0 || zeros;
        let partners = match &self.builds {
            Some(rows) => {
                let rows = &rows[builds.start as usize..builds.end as usize];
                let each = counts.iter().zip(rows);
                each.map(|(&count, &rows)| u64::from(if wanted(count) { rows } else { 0 })).sum()
            }
            None => counts.iter().map(|&count| u64::from(wanted(count))).sum::<u64>(),
        };
        partners * self.probes.as_ref().map_or(1, |rows| u64::from(rows[probe as usize]))
    }
}

impl Prepared<Overlaps> for PreparedOverlaps<'_> {
    fn figures(&self) -> Vec<(&'static str, u64)> {
        let bits = self.all.words as u64 * u64::from(BITS);
        vec![("bits", bits), ("passes", self.passes.len() as u64)]
    }

    fn rounds(&self) -> usize {
        self.passes.len()
    }

    fn begin(&mut self, round: usize) -> Result<()> {
        // The memory of the last pass is for this one.
        self.pass = None;
        self.pass = Some(self.all.prepare(self.passes[round].clone()));
        Ok(())
    }

    fn pieces(&self) -> usize {
        self.pass.as_ref().map_or(0, OverlapPass::tiles)
    }

    fn worker<'w>(&'w self) -> Result<Box<dyn Worker<Overlaps> + 'w>> {
        let pass = self.pass.as_ref();
        let pass = pass.ok_or_else(|| Error::Internal("a pass has not begun".into()))?;
        Ok(Box::new(OverlapWorker {
            task: self.task,
            pass,
            rows: &self.rows,
            space: OverlapSpace::default(),
            batch: Vec::new(),
            counted: 0,
        }))
    }
}

struct OverlapWorker<'w, 'a> {
    task: OverlapTask<'a>,
    pass: &'w OverlapPass<'a>,
    rows: &'w OnceLock<RowsOfSets>,
    space: OverlapSpace,
    batch: Vec<SetPair>,
    counted: u64,
}

impl Worker<Overlaps> for OverlapWorker<'_, '_> {
    fn run(&mut self, piece: usize, sink: &mut dyn Sink<SetPair>) -> Result<ControlFlow<()>> {
        let OverlapWorker { task, pass, rows, space, batch, counted } = self;
        batch.clear();
        let zeros = task.predicate == WantedOverlaps::All;
        if let WantedOverlaps::Top(top) = task.predicate {
            return Ok(pass.count(piece, space, |probe, builds, counts| {
                *counted += counts.len() as u64;
                let overlaps = builds.zip(counts.iter().copied());
                hand_on(sink, &best_partners(task, top, probe, overlaps))
            }));
        }
        if sink.only_counts() {
            let rows = rows.get_or_init(|| RowsOfSets::new(task));
            let mut found = 0;
            let flow = pass.count(piece, space, |probe, builds, counts| {
                *counted += counts.len() as u64;
                found += rows.count(probe, &builds, counts, zeros);
                hand_on(sink, &[])
            });
            sink.count(found);
            return Ok(flow);
        }
        Ok(pass.count(piece, space, |probe, builds, counts| {
            *counted += counts.len() as u64;
            for (build, &overlap) in builds.zip(counts) {
                if overlap > 0 || zeros {
                    batch.push(SetPair { probe, build, overlap });
                    if batch.len() == BATCH {
                        sink.push(batch)?;
                        batch.clear();
                    }
                }
            }
            let flow = hand_on(sink, batch);
            batch.clear();
            flow
        }))
    }

    fn candidates(&self) -> u64 {
        self.counted
    }
}

/// Hands on the pairs of a probe, unless no more are wanted.
fn hand_on(sink: &mut dyn Sink<SetPair>, pairs: &[SetPair]) -> ControlFlow<()> {
    if sink.stopped() {
        return ControlFlow::Break(());
    }
    if pairs.is_empty() { ControlFlow::Continue(()) } else { sink.push(pairs) }
}
