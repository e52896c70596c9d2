//! How are the overlaps of all pairs counted on a GPU?
//!
//! The device counts tile by tile and hands on counts, pairs that have something in common, or the best
//! sets of each set; here they become pairs of rows. Of the best sets of a set, as many as rows are wanted
//! are enough: each has a row that comes before all rows of the sets after it.

use crate::overlaps::{Overlaps, OverlapsReport, best, join};
use simjoin_core::{
    Error, Measure, Predicate, Result, RowPair, SetCollection, SetId, SetPair, Sink,
};
use simjoin_cpu::AllOverlaps;
use simjoin_engine::{
    AUTO, Answer, AnswerSink, Budget, Control, Direction, Engine, Ordered, Processor, Sets,
    Subject, chosen,
};
use simjoin_gpu::{Device, OverlapTechnique, Overlaps as OnDevice};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Instant;

/// Counting that takes longer than this many seconds on the CPU is worth looking for a device.
const WAKE_UP: f64 = 0.6;

/// Pairs handed on at once.
const BATCH: usize = 1024;

/// A device, and how it counts.
pub(crate) type Where = (Arc<Device>, OverlapTechnique);

impl Overlaps {
    /// Returns the technique of a GPU that was asked for, if one was.
    pub(crate) fn asked_for(&self) -> Result<Option<OverlapTechnique>> {
        let found = chosen(Subject::Overlaps, &self.technique, self.engine)?;
        Ok(found.filter(|(processor, _)| *processor == Processor::Device).map(|(_, name)| {
            OverlapTechnique::named(name).unwrap_or(OverlapTechnique::Combined(None))
        }))
    }

    /// The device that is to count, if one is: the one asked for, or where the CPU would take long any.
    pub(crate) fn device(
        &self,
        asked_for: Option<OverlapTechnique>,
        on_cpu: impl FnOnce() -> Result<f64>,
    ) -> Result<Option<Where>> {
        if let Some(technique) = asked_for {
            return Ok(Some((simjoin_gpu::first_device()?.clone(), technique)));
        }
        if self.engine != Engine::Auto || self.technique != AUTO || on_cpu()? < WAKE_UP {
            return Ok(None);
        }
        // Whoever has no device needs none.
        let device = simjoin_gpu::first_device().ok();
        Ok(device.map(|device| (device.clone(), OverlapTechnique::Combined(None))))
    }

    /// Whether the CPU is to do what a device could not.
    pub(crate) fn rather_on_cpu(&self, error: &Error) -> bool {
        self.engine == Engine::Auto
            && self.technique == AUTO
            && matches!(error, Error::Memory { .. } | Error::Unavailable(_))
    }

    fn begin<'a>(
        &self,
        (device, technique): &Where,
        left: &'a SetCollection,
        right: Option<&'a SetCollection>,
    ) -> Result<OnDevice<'a>> {
        let device_bytes = match self.device_memory {
            // A little for the driver.
            u64::MAX => device.free_memory().map(|free| free - free / 20)?,
            limit => limit,
        };
        let room = Budget {
            piece_tokens: 0,
            bytes: self.memory - self.memory / 8,
            device_bytes,
            threads: self.pool_threads(),
            patient: false,
            events: false,
        };
        OnDevice::new(device, left, right, *technique, &room)
    }

    /// Counts the pairs of rows that have something in common, but for rows that hold the same set.
    pub(crate) fn count_on_device(
        &self,
        place: &Where,
        left: &SetCollection,
        right: Option<&SetCollection>,
    ) -> Result<OverlapsReport> {
        let begin = Instant::now();
        let shape = self.shape(left, right);
        let mut device = self.begin(place, left, right)?;
        let found = device.count(Predicate::parse(Measure::Overlap, "1")?)?;
        Ok(OverlapsReport { pairs: found, ..report(place, &shape, &device, begin) })
    }

    /// Hands on every pair of rows in the answer, but for rows that hold the same set and empty ones.
    pub(crate) fn pairs_on_device<F: FnMut(&[RowPair]) -> ControlFlow<()> + Send>(
        &self,
        place: &Where,
        (left, right): (&SetCollection, Option<&SetCollection>),
        ordered: &Ordered<F>,
        part: Direction,
        control: &Control,
    ) -> Result<OverlapsReport> {
        let begin = Instant::now();
        let shape = self.shape(left, right);
        let mut device = self.begin(place, left, right)?;
        control.begin(left.len() as u64);
        let join = join(&shape);
        let mut sink = Answer::<Sets>::sink(ordered, &join, part);
        sink.begin(0);
        let go_on = |sets: u64| {
            control.advance(sets);
            if control.stopped() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        if let Some(top) = self.top {
            let sets = 0..shape.build.len() as SetId;
            let ranks: Vec<u32> = sets.map(|set| shape.build.rows(set)[0]).collect();
            let most = u32::try_from(top).unwrap_or(u32::MAX);
            let _ = device.top(most, Some(&ranks), |probe, pairs| {
                let own = right.is_none().then(|| (probe, left.size(probe)));
                let others = pairs.iter().map(|pair| (pair.build, pair.overlap));
                for row in best(&shape, top, right.is_none(), probe, own.into_iter().chain(others))
                {
                    sink.push_row(row)?;
                }
                go_on(1)
            })?;
        } else if self.positive {
            let _ = device.selected(Predicate::parse(Measure::Overlap, "1")?, |pairs| {
                sink.push(pairs)?;
                go_on(0)
            })?;
        } else {
            let mut batch = Vec::with_capacity(BATCH);
            let _ = device.counts(|tile| {
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
                    sink.push(&batch)?;
                    batch.clear();
                }
                go_on(u64::from(tile.rows))
            })?;
        }
        let _ = sink.end();
        Ok(report(place, &shape, &device, begin))
    }
}

fn report(
    (_, technique): &Where,
    shape: &AllOverlaps<'_>,
    device: &OnDevice<'_>,
    begin: Instant,
) -> OverlapsReport {
    let (probes, builds) = (shape.probe.len() as u64, shape.build.len() as u64);
    let counted =
        if shape.before { probes * probes.saturating_sub(1) / 2 } else { probes * builds };
    OverlapsReport {
        pairs: 0,
        counted,
        technique: technique.name(),
        engine: Engine::Gpu,
        bits: device.frequent() as usize,
        passes: 1,
        threads: 1,
        estimated: 0.0,
        seconds: begin.elapsed().as_secs_f64(),
        warnings: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use simjoin_core::{RawSets, prepare};
    use simjoin_engine::{AUTO, names};

    #[test]
    fn technique_is_that_of_its_engine() {
        let of =
            |engine: Engine, name: &str| Overlaps::new().engine(engine).technique(name).asked_for();
        for name in names(Subject::Overlaps, Processor::Device) {
            let named = of(Engine::Gpu, name).unwrap().map(OverlapTechnique::name);
            assert_eq!(named, Some(name));
        }
        assert!(matches!(of(Engine::Gpu, AUTO), Ok(Some(_))));
        assert!(of(Engine::Gpu, "product").is_err());
        assert!(matches!(of(Engine::Auto, "bitmap"), Ok(None)));
        assert!(matches!(of(Engine::Auto, "hash"), Ok(Some(_))));
        assert!(of(Engine::Cpu, "hash").is_err() && of(Engine::Hybrid, AUTO).is_err());
    }

    #[test]
    #[ignore = "needs a GPU"]
    fn a_gpu_counts_the_same() {
        let rows = |count: u32, factor: u32| {
            let mut raw = RawSets::default();
            for row in 0..count {
                let size = row % 13;
                let tokens = (0..size).map(|at| (row / 2 * factor + at * at) % 97);
                let tokens: std::collections::BTreeSet<u32> = tokens.collect();
                raw.push(&tokens.into_iter().collect::<Vec<_>>());
            }
            raw
        };
        for right in [None, Some(rows(300, 5))] {
            let (left, right) = prepare(rows(700, 7), right, 97).unwrap();
            let sides = (&left, right.as_ref());
            let found = |overlaps: &Overlaps| {
                let control = Control::default();
                let mut found = Vec::new();
                let report = overlaps.pairs(sides.0, sides.1, &control, |rows| {
                    found.extend(rows.iter().map(|row| (row.left, row.right, row.overlap)));
                    ControlFlow::Continue(())
                });
                assert_eq!(report.unwrap().pairs, found.len() as u64);
                let counted = overlaps.count(sides.0, sides.1, &control).unwrap();
                assert_eq!(counted.pairs, found.len() as u64);
                if overlaps.top.is_none() {
                    found.sort_unstable();
                } else {
                    // The best of a row come in their order.
                    found.sort_by_key(|row| row.0);
                }
                found
            };
            for (positive, top) in [(false, None), (true, None), (false, Some(1)), (false, Some(5))]
            {
                let expected = Overlaps::new().engine(Engine::Cpu).positive(positive).top(top);
                let expected = found(&expected);
                for name in names(Subject::Overlaps, Processor::Device).chain([AUTO]) {
                    let on_gpu = Overlaps::new().engine(Engine::Gpu).technique(name);
                    assert_eq!(found(&on_gpu.positive(positive).top(top)), expected, "{name}");
                }
            }
        }
    }
}
