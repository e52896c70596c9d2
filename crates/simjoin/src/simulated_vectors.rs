//! What if a GPU that joins vectors were slow, or small, or failed?
//!
//! The simulated device of `simulated.rs` for vectors: one core runs the nested loop in the name of every technique
//! that a device has, with the speed, the latency, the memory and the failures that were asked for. Beside a device
//! that is faster than a core, CPU cores sleep ([`Slowed`]), as if time were stretched.

use crate::simulated::{Simulated, Stretch, failed, too_little_memory};
use simjoin_core::{Result, VectorSink};
use simjoin_cpu::StripedLoop;
use simjoin_plan::{
    PreparedVectors, VectorJoin, VectorRoom, VectorSurvey, VectorTechnique, VectorWorker,
};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// A technique of a simulated device.
pub(crate) struct OnSimulated {
    pub(crate) device: Simulated,
    pub(crate) name: &'static str,
    pub(crate) of: StripedLoop,
    /// Bytes that may be taken on it.
    pub(crate) memory: u64,
    /// How the clock goes, where cores work beside it.
    pub(crate) stretch: Option<Stretch>,
}

impl VectorTechnique for OnSimulated {
    fn name(&self) -> &'static str {
        self.name
    }

    fn on_device(&self) -> bool {
        true
    }

    fn cost(&self, survey: &VectorSurvey) -> Option<f64> {
        Some(self.device.seconds(self.of.cost(survey)?))
    }

    fn memory_bytes(&self, _: &VectorJoin<'_>, _: usize) -> u64 {
        0
    }

    fn prepare<'a>(
        &self,
        join: &VectorJoin<'a>,
        room: &VectorRoom,
    ) -> Result<Box<dyn PreparedVectors + 'a>> {
        let rows = join.probe.bytes() + if join.itself { 0 } else { join.build.bytes() };
        let needed = rows + self.of.memory_bytes(join, 1);
        if needed > self.memory.min(self.device.memory) {
            self.stretch.iter().for_each(Stretch::end);
            return Err(too_little_memory(needed));
        }
        let begin = Instant::now();
        let inner = self.of.prepare(join, room)?;
        self.device.sleep_after(begin.elapsed());
        let (device, stretch) = (self.device, self.stretch.clone());
        Ok(Box::new(PreparedOnSimulated { device, inner, stretch, begun: AtomicU64::new(0) }))
    }
}

struct PreparedOnSimulated<'a> {
    device: Simulated,
    inner: Box<dyn PreparedVectors + 'a>,
    stretch: Option<Stretch>,
    /// Pieces so far; a failure follows from the number.
    begun: AtomicU64,
}

impl PreparedVectors for PreparedOnSimulated<'_> {
    fn details(&self) -> String {
        self.inner.details()
    }

    fn pieces(&self) -> usize {
        self.inner.pieces()
    }

    fn workers(&self) -> usize {
        1
    }

    fn worker<'w>(&'w self) -> Box<dyn VectorWorker + 'w> {
        Box::new(SimulatedWorker { of: self, inner: self.inner.worker() })
    }
}

struct SimulatedWorker<'w> {
    of: &'w PreparedOnSimulated<'w>,
    inner: Box<dyn VectorWorker + 'w>,
}

impl VectorWorker for SimulatedWorker<'_> {
    fn run(&mut self, piece: usize, sink: &mut dyn VectorSink) -> Result<ControlFlow<()>> {
        let PreparedOnSimulated { device, stretch, begun, .. } = self.of;
        device.wait();
        let begin = Instant::now();
        let flow = self.inner.run(piece, sink)?;
        device.sleep_after(begin.elapsed());
        // A piece that fails does so at its end, with its pairs handed on: the worst moment.
        if device.fails(begun.fetch_add(1, Ordering::Relaxed)) {
            stretch.iter().for_each(Stretch::end);
            return Err(failed());
        }
        Ok(flow)
    }

    fn candidates(&self) -> u64 {
        self.inner.candidates()
    }
}

/// What cores do, in stretched time.
pub(crate) struct Slowed {
    pub(crate) of: StripedLoop,
    pub(crate) stretch: Stretch,
}

impl VectorTechnique for Slowed {
    fn name(&self) -> &'static str {
        self.of.name()
    }

    fn cost(&self, survey: &VectorSurvey) -> Option<f64> {
        Some(self.of.cost(survey)? * self.stretch.factor())
    }

    fn memory_bytes(&self, join: &VectorJoin<'_>, threads: usize) -> u64 {
        self.of.memory_bytes(join, threads)
    }

    fn prepare<'a>(
        &self,
        join: &VectorJoin<'a>,
        room: &VectorRoom,
    ) -> Result<Box<dyn PreparedVectors + 'a>> {
        let inner = self.of.prepare(join, room)?;
        Ok(Box::new(SlowedLoop { inner, stretch: self.stretch.clone() }))
    }
}

struct SlowedLoop<'a> {
    inner: Box<dyn PreparedVectors + 'a>,
    stretch: Stretch,
}

impl PreparedVectors for SlowedLoop<'_> {
    fn pieces(&self) -> usize {
        self.inner.pieces()
    }

    fn worker<'w>(&'w self) -> Box<dyn VectorWorker + 'w> {
        Box::new(SlowedWorker { inner: self.inner.worker(), stretch: &self.stretch })
    }
}

struct SlowedWorker<'w> {
    inner: Box<dyn VectorWorker + 'w>,
    stretch: &'w Stretch,
}

impl VectorWorker for SlowedWorker<'_> {
    fn run(&mut self, piece: usize, sink: &mut dyn VectorSink) -> Result<ControlFlow<()>> {
        let begin = Instant::now();
        let flow = self.inner.run(piece, sink)?;
        self.stretch.sleep(begin);
        Ok(flow)
    }

    fn candidates(&self) -> u64 {
        self.inner.candidates()
    }
}
