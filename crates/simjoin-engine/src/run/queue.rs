//! Which processor does the next chunk?
//!
//! Where CPU and devices share a join, the probes lie on an [axis](Axis) from 0 to 1 by their share of the work. The
//! CPU takes chunks from the front, devices from the back, where sets are large, until they meet. A chunk is either
//!
//! * one of several equal ones ([`ChunkSize::Equal`]): the queue of HySet; or
//! * half of the share with which both processors would finish at the same time, or all of that share if half is not
//!   worth another start-up ([`ChunkSize::Balanced`]). Expected seconds are corrected by the times of past chunks.
//!
//! No pair is lost: each point of the axis is taken exactly once, by one processor or, if that has ended, by the other.

use crate::kind::{Direction, Kind, Task};
use crate::plan::{Chosen, Tuning};
use crate::processor::{PerProcessor, Processor};
use parking_lot::Mutex;
use std::sync::Arc;

/// A part of a join.
#[derive(Clone)]
pub(crate) struct Part<'a, K: Kind> {
    pub(crate) task: Task<'a, K>,
    pub(crate) direction: Direction,
    pub(crate) range: K::Range,
}

/// The probes of a join on an axis from 0 to 1, by their share of the work.
pub(crate) trait Axis<'a, K: Kind>: Send + Sync {
    /// Returns the probes between two points, as one part for each direction that has some. Neighbouring intervals
    /// neither overlap nor leave gaps.
    fn between(&self, from: f64, to: f64) -> Vec<Part<'a, K>>;
}

/// The size of the chunks that a processor takes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ChunkSize {
    /// This fraction of the axis.
    Equal(f64),
    /// Enough for both processors to finish together.
    Balanced {
        /// The seconds that each processor is expected to take for the whole queue.
        seconds: PerProcessor<f64>,
        /// The start-up seconds of each chunk.
        starts: PerProcessor<f64>,
    },
}

/// A chunk that a processor has taken.
pub(crate) struct Chunk<'a, K: Kind> {
    pub(crate) parts: Vec<Part<'a, K>>,
    /// The seconds expected for it.
    pub(crate) seconds: f64,
    /// The technique that suits it best, as far as is known.
    pub(crate) technique: Option<usize>,
}

/// A queue of work that no processor has taken yet.
pub(crate) struct Queue<'a, K: Kind> {
    axis: Arc<dyn Axis<'a, K> + 'a>,
    /// The interval of the axis that was queued.
    whole: [f64; 2],
    size: ChunkSize,
    chosen: PerProcessor<Vec<Chosen>>,
    state: Mutex<State>,
}

struct State {
    left: [f64; 2],
    shown: PerProcessor<Shown>,
}

/// The measured speed of a processor.
#[derive(Clone, Copy, Default)]
struct Shown {
    /// Seconds expected and taken for its chunks; the sum is halved before each new chunk is added.
    expected: f64,
    taken: f64,
    /// The seconds expected for its current chunk, and when it began.
    current: Option<(f64, f64)>,
    /// Whether it takes no more chunks.
    ended: bool,
}

impl Shown {
    /// Returns the ratio of time taken to time expected, as known at time `now`.
    fn correction(&self, now: f64) -> f64 {
        let seen =
            if self.expected > 0.0 && self.taken > 0.0 { self.taken / self.expected } else { 1.0 };
        match self.current {
            // The current chunk is late; it is assumed to need another quarter of the time it has taken.
            Some((expected, since)) if expected > 0.0 && now - since > expected * seen => {
                1.25 * (now - since) / expected
            }
            _ => seen,
        }
    }

    /// Returns the seconds until its current chunk is done.
    fn wait(&self, now: f64) -> f64 {
        let left = |(expected, since): (f64, f64)| {
            (expected * self.correction(now) - (now - since)).max(0.0)
        };
        self.current.map_or(0.0, left)
    }
}

impl<'a, K: Kind> Queue<'a, K> {
    /// Queues the probes between two points.
    pub(crate) fn new(
        axis: Arc<dyn Axis<'a, K> + 'a>,
        whole: [f64; 2],
        size: ChunkSize,
        chosen: PerProcessor<Vec<Chosen>>,
    ) -> Self {
        let state = Mutex::new(State { left: whole, shown: PerProcessor::default() });
        Queue { axis, whole, size, chosen, state }
    }

    /// Records that a processor takes no more chunks.
    pub(crate) fn end(&self, processor: Processor) {
        self.state.lock().shown[processor].ended = true;
    }

    /// Records that a processor begins a chunk that is expected to take some seconds.
    pub(crate) fn begin(&self, processor: Processor, expected: f64, now: f64) {
        self.state.lock().shown[processor].current = Some((expected, now));
    }

    /// Records that a processor has finished its chunk.
    pub(crate) fn done(&self, processor: Processor, now: f64) {
        let shown = &mut self.state.lock().shown[processor];
        if let Some((expected, since)) = shown.current.take() {
            shown.expected = shown.expected / 2.0 + expected;
            shown.taken = shown.taken / 2.0 + (now - since);
        }
    }

    /// Takes a chunk. A processor that gets none is not expected to ask again.
    pub(crate) fn take(&self, processor: Processor, now: f64) -> Option<Chunk<'a, K>> {
        let (from, to, parts) = {
            let mut state = self.state.lock();
            let amount = self.amount(&state, processor, now);
            if amount <= 0.0 {
                state.shown[processor].ended = true;
                return None;
            }
            let [from, to] = state.left;
            let some = |amount: f64| match processor {
                _ if amount >= to - from => (from, to),
                Processor::Cpu => (from, from + amount),
                Processor::Device => (to - amount, to),
            };
            let (mut first, mut last) = some(amount);
            let mut parts = self.axis.between(first, last);
            // An interval too small to contain a probe is doubled; otherwise it would be halved forever.
            while parts.is_empty() && last - first < to - from {
                (first, last) = some(2.0 * (last - first));
                parts = self.axis.between(first, last);
            }
            match processor {
                Processor::Cpu => state.left[0] = last,
                Processor::Device => state.left[1] = first,
            }
            (first, last, parts)
        };
        let middle = f64::midpoint(from, to);
        let suits = |chosen: &&Chosen| chosen.from <= middle && middle <= chosen.to;
        let technique = self.chosen[processor].iter().find(suits).map(|chosen| chosen.technique);
        let seconds = match &self.size {
            ChunkSize::Equal(_) => 0.0,
            ChunkSize::Balanced { seconds, starts } => {
                starts[processor] + seconds[processor] * self.share(to - from)
            }
        };
        Some(Chunk { parts, seconds, technique })
    }

    /// Returns an interval's length as a share of the whole queue.
    fn share(&self, part: f64) -> f64 {
        part / (self.whole[1] - self.whole[0]).max(f64::MIN_POSITIVE)
    }

    /// Returns the length of the interval that a processor should take next.
    fn amount(&self, state: &State, processor: Processor, now: f64) -> f64 {
        let left = state.left[1] - state.left[0];
        let (own, other) = (state.shown[processor], state.shown[processor.other()]);
        let (seconds, starts) = match &self.size {
            ChunkSize::Equal(part) => return part.min(left),
            _ if other.ended => return left,
            ChunkSize::Balanced { seconds, starts } => (seconds, starts),
        };
        let scaled = |of: PerProcessor<f64>| {
            let (one, two) = (own.correction(now), other.correction(now));
            (of[processor] * one, of[processor.other()] * two)
        };
        let ((own_all, other_all), (own_start, other_start)) = (scaled(*seconds), scaled(*starts));
        let (own_left, other_left) = (own_all * self.share(left), other_all * self.share(left));
        // own start + x · own left = wait + other start + (1 − x) · other left
        let together = other.wait(now) + other_start - own_start + other_left;
        let due = (together / (own_left + other_left).max(f64::MIN_POSITIVE)).min(1.0);
        if due < Tuning::LEAST_PART {
            return 0.0;
        }
        let part =
            if due / 2.0 * own_left > Tuning::WORTH_STARTS * own_start { due / 2.0 } else { due };
        if part > 1.0 - Tuning::LEAST_PART { left } else { part * left }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;
    use crate::plan::ProbeAxis;
    use crate::sets::{SetTask, Sets, Tile};
    use simjoin_core::{Bounds, Measure, Predicate, RawSets, SetCollection, prepare};

    fn sets(left: u32, right: u32) -> (SetCollection, Option<SetCollection>) {
        let rows = |count: u32| {
            let mut raw = RawSets::default();
            for row in 0..count {
                raw.push(&(row..row + 3 + row % 40).collect::<Vec<_>>());
            }
            raw
        };
        prepare(rows(left), Some(rows(right)), 1000).unwrap()
    }

    fn balanced(cpu: f64, device: f64, starts: [f64; 2]) -> ChunkSize {
        ChunkSize::Balanced {
            seconds: PerProcessor { cpu, device },
            starts: PerProcessor { cpu: starts[0], device: starts[1] },
        }
    }

    fn bounds() -> Bounds {
        Bounds::new(Predicate::parse(Measure::Jaccard, "0.3").unwrap())
    }

    /// Lets both processors take all of a queue, and checks that every probe was taken once.
    fn take_all<'a>(
        directions: &[(SetTask<'a>, Direction)],
        size: &ChunkSize,
        clock: &Clock,
        speeds: [f64; 2],
    ) {
        let axis = Arc::new(ProbeAxis::new(directions));
        let queue: Queue<'a, Sets> =
            Queue::new(axis, [0.0, 1.0], size.clone(), PerProcessor::default());
        let taken = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for (processor, speed) in Processor::ALL.into_iter().zip(speeds) {
                let (queue, taken) = (&queue, &taken);
                scope.spawn(move || {
                    let worker = processor as usize;
                    let _ending = clock.ending(worker);
                    let mut now = clock.turn(worker);
                    while let Some(Chunk { parts, seconds, .. }) = queue.take(processor, now) {
                        queue.begin(processor, seconds, now);
                        clock.busy(worker, seconds / speed);
                        taken.lock().extend(parts);
                        now = clock.turn(worker);
                        queue.done(processor, now);
                    }
                });
            }
        });
        // A processor that ended early may have left some, which the executor lets the CPU take.
        queue.end(Processor::Device);
        while let Some(chunk) = queue.take(Processor::Cpu, 1e9) {
            taken.lock().extend(chunk.parts);
        }
        let taken = taken.into_inner();
        let pairs = |task: &SetTask<'_>, tile: &Tile| -> u64 {
            crate::sets::reaches(task, tile).iter().map(|reach| reach.pairs).sum()
        };
        for (task, direction) in directions {
            let of = || taken.iter().filter(|part| part.direction == *direction);
            let met: u64 = of().map(|part| pairs(&part.task, &part.range)).sum();
            assert_eq!(met, pairs(task, &Tile::whole(task)), "{size:?} {speeds:?}");
            let mut probes: Vec<_> = of().map(|part| part.range.probes.clone()).collect();
            probes.sort_unstable_by_key(|probes| probes.start);
            assert!(probes.windows(2).all(|two| two[0].end <= two[1].start), "{probes:?}");
        }
    }

    #[test]
    fn two_processors_take_everything_once() {
        for (rows, partners) in [(900, 300), (3, 2), (1, 0)] {
            let (left, right) = sets(rows, partners);
            let directions = SetTask::directions(&left, right.as_ref(), true, bounds());
            for size in [
                ChunkSize::Equal(1.0 / 64.0),
                ChunkSize::Equal(1.0),
                balanced(1.0, 1.0, [0.0, 1e-4]),
                balanced(1e-3, 1e3, [0.0; 2]),
                balanced(1e3, 1e-3, [0.0; 2]),
                balanced(0.0, 0.0, [0.0; 2]),
            ] {
                // As the threads come, and by virtual time, in the end of it with one side far slower than expected.
                take_all(&directions, &size, &Clock::real(), [1.0; 2]);
                for speeds in [[1.0; 2], [0.03, 1.0], [1.0, 0.03]] {
                    take_all(&directions, &size, &Clock::simulated(2), speeds);
                }
            }
        }
    }

    #[test]
    fn chunk_is_done_by_the_technique_that_suits_where_it_lies() {
        let (left, _) = sets(900, 1);
        let directions = SetTask::directions(&left, None, false, bounds());
        let chosen = |from, to, technique| Chosen { from, to, technique, seconds: 0.1 };
        let queue = |chosen| -> Queue<'_, Sets> {
            let axis = Arc::new(ProbeAxis::new(&directions));
            Queue::new(axis, [0.2, 0.8], balanced(0.2, 0.2, [0.0; 2]), chosen)
        };
        let technique = |queue: &Queue<'_, Sets>, processor| {
            queue.take(processor, 0.0).and_then(|chunk| chunk.technique)
        };
        assert_eq!(technique(&queue(PerProcessor::default()), Processor::Cpu), None);
        // Each takes a quarter at first.
        let cpu = vec![chosen(0.2, 0.4, 5), chosen(0.4, 0.8, 3)];
        let queue = queue(PerProcessor { cpu, device: vec![chosen(0.2, 0.8, 1)] });
        assert_eq!(technique(&queue, Processor::Device), Some(1));
        assert_eq!(technique(&queue, Processor::Cpu), Some(5));
        queue.end(Processor::Device);
        assert_eq!(technique(&queue, Processor::Cpu), Some(3));
    }

    #[test]
    fn rest_is_divided_so_that_both_end_together() {
        let (left, _) = sets(900, 1);
        let directions = SetTask::directions(&left, None, false, bounds());
        let queue = |seconds: [f64; 2], starts| -> Queue<'_, Sets> {
            let axis = Arc::new(ProbeAxis::new(&directions));
            let size = balanced(seconds[0], seconds[1], starts);
            Queue::new(axis, [0.0, 1.0], size, PerProcessor::default())
        };
        let amount = |queue: &Queue<'_, Sets>, processor, now: f64| {
            let found = queue.amount(&queue.state.lock(), processor, now);
            (found * 1000.0).round() / 1000.0
        };
        let first = |seconds, starts| amount(&queue(seconds, starts), Processor::Device, 0.0);
        // As fast as each other, and both free: half. Three times as fast: three quarters. Half of that at once.
        assert_eq!(first([0.2, 0.2], [0.0; 2]), 0.25);
        assert_eq!(first([0.6, 0.2], [0.0; 2]), 0.375);
        // Another start would cost a good part of it: all of its due at once.
        assert_eq!(first([0.2, 0.2], [0.1, 0.1]), 0.5);
        // A start costs more than the other one takes for everything.
        assert_eq!(first([0.2, 0.2], [0.0, 1.0]), 0.0);
        // The other one is busy for longer than this one takes for everything.
        let busy = queue([0.2, 0.2], [0.0; 2]);
        busy.begin(Processor::Cpu, 0.3, 0.0);
        assert_eq!(amount(&busy, Processor::Device, 0.0), 0.5);
        let busy = queue([0.2, 0.2], [0.1, 0.1]);
        busy.begin(Processor::Cpu, 0.3, 0.0);
        assert_eq!(amount(&busy, Processor::Device, 0.0), 1.0);
        // What took three times as long as expected is expected to do so again.
        let slow = queue([0.2, 0.2], [0.0; 2]);
        slow.begin(Processor::Device, 0.01, 0.0);
        slow.done(Processor::Device, 0.03);
        assert_eq!(amount(&slow, Processor::Device, 0.03), 0.125);
        // One that is late takes at least as long as it is.
        let late = queue([0.2, 0.2], [0.0; 2]);
        late.begin(Processor::Cpu, 0.01, 0.0);
        assert!(amount(&late, Processor::Device, 0.04) > 0.4);
        // Nobody else is there.
        let alone = queue([0.2, 0.2], [0.0, 1.0]);
        assert!(alone.take(Processor::Device, 0.0).is_none());
        assert!(alone.take(Processor::Cpu, 0.0).is_some_and(|chunk| chunk.seconds == 0.2));
    }
}
