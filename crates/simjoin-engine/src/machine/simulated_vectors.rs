//! What if a GPU that joins vectors were slow, or small, or failed?
//!
//! The simulated device of `simulated.rs` for vectors: one thread runs the nested loop in the name of every technique
//! that a device has, with the memory and the failures that were asked for. How long it takes is told by a virtual clock.

use super::simulated::{Simulated, failed, too_little_memory};
use crate::costs::CostTable;
use crate::kind::Vectors;
use crate::technique::{Budget, Cost, Prepared, Technique, Worker};
use crate::vectors::{VectorSurvey, VectorTask};
use simjoin_core::{Result, Sink, VectorPair};
use std::ops::{ControlFlow, RangeFull};
use std::sync::atomic::{AtomicU64, Ordering};

/// A technique of a simulated device.
pub(crate) struct OnSimulated {
    pub(crate) device: Simulated,
    pub(crate) name: &'static str,
    /// What it does, in stripes of so many probes.
    pub(crate) of: Box<dyn Technique<Vectors>>,
    pub(crate) stripe: usize,
    /// Bytes that may be taken on it.
    pub(crate) memory: u64,
    /// How many times as slow as the built-in costs a core is.
    pub(crate) scale: f64,
}

impl Technique<Vectors> for OnSimulated {
    fn name(&self) -> &'static str {
        self.name
    }

    fn on_device(&self) -> bool {
        true
    }

    fn cost(&self, survey: &VectorSurvey, costs: &CostTable) -> Option<Cost> {
        let stripes = (survey.rows.0 / self.stripe as f64).ceil();
        let of_core = self.scale * self.of.cost(survey, costs)?.shared;
        Some(Cost::of_serial(stripes * self.device.seconds(of_core / stripes.max(1.0))))
    }

    fn memory_bytes(&self, _: &VectorTask<'_>, _: &RangeFull, _: usize) -> u64 {
        0
    }

    fn prepare<'a>(
        &self,
        task: &VectorTask<'a>,
        range: &RangeFull,
        budget: &Budget,
    ) -> Result<Box<dyn Prepared<Vectors> + 'a>> {
        let rows = task.probe.bytes() + if task.is_self_join() { 0 } else { task.build.bytes() };
        let needed = rows + self.of.memory_bytes(task, range, 1);
        if needed > self.memory.min(self.device.memory) {
            return Err(too_little_memory(needed));
        }
        let inner = self.of.prepare(task, range, budget)?;
        Ok(Box::new(PreparedOnSimulated { device: self.device, inner, done: AtomicU64::new(0) }))
    }
}

struct PreparedOnSimulated<'a> {
    device: Simulated,
    inner: Box<dyn Prepared<Vectors> + 'a>,
    /// How many pieces the device has done so far.
    done: AtomicU64,
}

impl Prepared<Vectors> for PreparedOnSimulated<'_> {
    fn details(&self) -> String {
        self.inner.details()
    }

    fn pieces(&self) -> usize {
        self.inner.pieces()
    }

    fn workers(&self) -> usize {
        1
    }

    fn worker<'w>(&'w self) -> Result<Box<dyn Worker<Vectors> + 'w>> {
        Ok(Box::new(SimulatedWorker { of: self, inner: self.inner.worker()? }))
    }
}

struct SimulatedWorker<'w> {
    of: &'w PreparedOnSimulated<'w>,
    inner: Box<dyn Worker<Vectors> + 'w>,
}

impl Worker<Vectors> for SimulatedWorker<'_> {
    fn run(&mut self, piece: usize, sink: &mut dyn Sink<VectorPair>) -> Result<ControlFlow<()>> {
        let PreparedOnSimulated { device, done, .. } = self.of;
        let flow = self.inner.run(piece, sink)?;
        if flow.is_break() {
            return Ok(flow);
        }
        let nth = done.fetch_add(1, Ordering::Relaxed) + 1;
        // A piece that fails does so at its end, with its pairs handed on: the worst moment.
        if device.fails(nth, piece as u64) {
            return Err(failed());
        }
        Ok(flow)
    }

    fn candidates(&self) -> u64 {
        self.inner.candidates()
    }
}
