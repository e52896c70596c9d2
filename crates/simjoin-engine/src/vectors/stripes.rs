//! How does a technique whose pieces are stripes join a range of them?

use super::{STRIPE, VectorSurvey, VectorTask, Vectors};
use crate::costs::CostTable;
use crate::kind::Kind;
use crate::technique::{Budget, Cost, DeviceEvent, DeviceTimes, Prepared, Technique, Worker};
use simjoin_core::{Result, Sink, VectorPair};
use std::ops::{ControlFlow, Range};

/// A technique that prepares a whole task, and whose pieces are its stripes.
pub(crate) struct Striped(Box<dyn Technique<Vectors>>);

impl Striped {
    pub(crate) fn boxed(technique: Box<dyn Technique<Vectors>>) -> Box<dyn Technique<Vectors>> {
        Box::new(Striped(technique))
    }
}

impl Technique<Vectors> for Striped {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn variant(&self) -> String {
        "stripes".into()
    }

    fn on_device(&self) -> bool {
        self.0.on_device()
    }

    fn cost(&self, survey: &VectorSurvey, costs: &CostTable) -> Option<Cost> {
        self.0.cost(survey, costs)
    }

    fn memory_bytes(&self, task: &VectorTask<'_>, _: &Range<u32>, threads: usize) -> u64 {
        self.0.memory_bytes(task, &Vectors::whole(task), threads)
    }

    fn device_bytes(&self, task: &VectorTask<'_>, _: &Range<u32>, threads: usize) -> u64 {
        self.0.device_bytes(task, &Vectors::whole(task), threads)
    }

    fn prepare<'a>(
        &self,
        task: &VectorTask<'a>,
        probes: &Range<u32>,
        budget: &Budget,
    ) -> Result<Box<dyn Prepared<Vectors> + 'a>> {
        let inner = self.0.prepare(task, &Vectors::whole(task), budget)?;
        let mut stripes = Stripes { inner, first: 0, count: 0 };
        stripes.go_on(probes);
        Ok(Box::new(stripes))
    }
}

struct Stripes<'a> {
    inner: Box<dyn Prepared<Vectors> + 'a>,
    first: usize,
    count: usize,
}

impl Prepared<Vectors> for Stripes<'_> {
    fn details(&self) -> String {
        self.inner.details()
    }

    fn figures(&self) -> Vec<(&'static str, u64)> {
        self.inner.figures()
    }

    fn pieces(&self) -> usize {
        self.count
    }

    fn workers(&self) -> usize {
        self.inner.workers()
    }

    fn worker<'w>(&'w self) -> Result<Box<dyn Worker<Vectors> + 'w>> {
        Ok(Box::new(StripeWorker { inner: self.inner.worker()?, first: self.first }))
    }

    fn go_on(&mut self, probes: &Range<u32>) -> bool {
        let pieces = self.inner.pieces();
        self.first = (probes.start as usize / STRIPE).min(pieces);
        self.count = probes.len().div_ceil(STRIPE).min(pieces - self.first);
        true
    }

    fn events(&mut self) -> Vec<DeviceEvent> {
        self.inner.events()
    }
}

struct StripeWorker<'w> {
    inner: Box<dyn Worker<Vectors> + 'w>,
    first: usize,
}

impl Worker<Vectors> for StripeWorker<'_> {
    fn run(&mut self, piece: usize, sink: &mut dyn Sink<VectorPair>) -> Result<ControlFlow<()>> {
        self.inner.run(self.first + piece, sink)
    }

    fn candidates(&self) -> u64 {
        self.inner.candidates()
    }

    fn times(&self) -> DeviceTimes {
        self.inner.times()
    }

    fn events(&mut self) -> Vec<DeviceEvent> {
        self.inner.events()
    }
}
