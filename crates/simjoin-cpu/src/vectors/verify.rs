//! Is a candidate in the answer?
//!
//! A [`Verifier`] evaluates the predicate for two rows; [`FoundPairs`] collects the pairs of a worker for the sink.

use simjoin_core::{Elements, Result, Sink, VectorMeasure, VectorPair, VectorPredicate};
use simjoin_engine::{VectorTask, squared_lengths};
use simjoin_kernels::distance::{Element, Exact, LANES};
use std::ops::ControlFlow;

/// The predicate over the rows of a join.
pub(super) struct Verifier<'a> {
    task: VectorTask<'a>,
    exact: Exact,
    limit: f64,
    /// For a cosine, `a·a` of each probe and each build row.
    squares: Option<[Vec<f64>; 2]>,
}

impl<'a> Verifier<'a> {
    /// Makes a verifier. For a cosine, a row without a direction is an error.
    pub(super) fn new(task: &VectorTask<'a>) -> Result<Self> {
        let exact = Exact::best();
        let squares = match task.predicate.measure() {
            VectorMeasure::Euclidean => None,
            VectorMeasure::Cosine => {
                let probes = squared_lengths(task.probe)?;
                // A self-join has only one side.
                let builds =
                    if task.is_self_join() { Vec::new() } else { squared_lengths(task.build)? };
                Some([probes, builds])
            }
        };
        Ok(Verifier { task: *task, exact, limit: task.predicate.limit(), squares })
    }

    /// Returns the bytes that a verifier of a join takes.
    pub(super) fn memory_bytes(task: &VectorTask<'_>) -> u64 {
        match task.predicate.measure() {
            VectorMeasure::Euclidean => 0,
            VectorMeasure::Cosine => 8 * (task.probe.len() + task.build.len()) as u64,
        }
    }

    /// Returns the distance of two rows if the predicate accepts them: for a cosine, 1 − cosine, and at least 0.
    #[inline]
    pub(super) fn distance(&self, probe: u32, build: u32) -> Option<f64> {
        match (self.task.probe.elements(), self.task.build.elements()) {
            (Elements::F32(a), Elements::F32(b)) => self.decide(a, b, probe, build),
            (Elements::F64(a), Elements::F64(b)) => self.decide(a, b, probe, build),
            // Joins are made with both sides in one precision, so this is rare.
            _ => {
                let (mut a, mut b) = (Vec::new(), Vec::new());
                self.task.probe.entry(probe as usize, &mut a);
                self.task.build.entry(build as usize, &mut b);
                self.of_rows(&a, &b, probe, build)
            }
        }
    }

    #[inline(always)]
    fn decide<T: Element>(&self, a: &[T], b: &[T], probe: u32, build: u32) -> Option<f64> {
        let d = self.task.dimension();
        let row = |at: u32| at as usize * d..(at as usize + 1) * d;
        self.of_rows(&a[row(probe)], &b[row(build)], probe, build)
    }

    #[inline(always)]
    fn of_rows<T: Element>(&self, a: &[T], b: &[T], probe: u32, build: u32) -> Option<f64> {
        let Some([probes, builds]) = &self.squares else {
            return T::squared(&self.exact, a, b, self.limit).map(f64::sqrt);
        };
        let builds = if self.task.is_self_join() { probes } else { builds };
        let (aa, bb) = (probes[probe as usize], builds[build as usize]);
        let ab = T::product(&self.exact, a, b);
        let distance = || (1.0 - VectorPredicate::cosine_of(ab, aa, bb)).max(0.0);
        self.task.predicate.accepts(ab, aa, bb).then(distance)
    }
}

/// Collects pairs and passes them on to a sink.
pub(super) struct FoundPairs<'v, 'a> {
    verifier: &'v Verifier<'a>,
    pairs: Vec<VectorPair>,
    counted: u64,
    candidates: u64,
    wants_value: bool,
    only_counts: bool,
}

/// The approximate number of pairs that are collected before they are passed on.
const BATCH: usize = 4096;

impl<'v, 'a> FoundPairs<'v, 'a> {
    pub(super) fn new(verifier: &'v Verifier<'a>) -> Self {
        FoundPairs {
            verifier,
            pairs: Vec::new(),
            counted: 0,
            candidates: 0,
            wants_value: true,
            only_counts: false,
        }
    }

    /// Begins a piece for a sink.
    pub(super) fn begin(&mut self, sink: &dyn Sink<VectorPair>) {
        self.wants_value = sink.wants_value();
        self.only_counts = sink.only_counts();
    }

    /// Handles a candidate. `sure` says whether a filter has already accepted it.
    #[inline(always)]
    pub(super) fn candidate(&mut self, probe: u32, build: u32, sure: bool) {
        if sure && !self.wants_value {
            if self.only_counts {
                self.counted += 1;
            } else {
                self.pairs.push(VectorPair { probe, build, distance: 0.0 });
            }
            return;
        }
        self.candidates += 1;
        if let Some(distance) = self.verifier.distance(probe, build) {
            if self.only_counts {
                self.counted += 1;
            } else {
                self.pairs.push(VectorPair { probe, build, distance });
            }
        }
    }

    /// If pairs are only counted, counts those of a probe that a filter has accepted, and returns the others.
    #[inline(always)]
    pub(super) fn count_sure(&mut self, mask: u16, squares: &[f32; LANES], sure: f32) -> u16 {
        if !self.only_counts || mask == 0 {
            return mask;
        }
        let within = squares
            .iter()
            .enumerate()
            .fold(0, |bits, (lane, &square)| bits | u16::from(square <= sure) << lane);
        self.counted += u64::from((mask & within).count_ones());
        mask & !within
    }

    /// Passes on the pairs if there are enough for a batch.
    #[inline(always)]
    pub(super) fn pass_on(&mut self, sink: &mut dyn Sink<VectorPair>) -> ControlFlow<()> {
        if self.pairs.len() < BATCH { ControlFlow::Continue(()) } else { self.end(sink) }
    }

    /// Passes on all pairs.
    pub(super) fn end(&mut self, sink: &mut dyn Sink<VectorPair>) -> ControlFlow<()> {
        if self.counted > 0 {
            sink.count(std::mem::take(&mut self.counted));
        }
        if self.pairs.is_empty() {
            return ControlFlow::Continue(());
        }
        let flow = sink.push(&self.pairs);
        self.pairs.clear();
        flow
    }

    /// Returns the number of pairs that were verified.
    pub(super) fn candidates(&self) -> u64 {
        self.candidates
    }
}
