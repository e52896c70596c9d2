//! Which processor does the next chunk?
//!
//! CPU and devices that share a join take chunks of its [`Axis`], the CPU from the front, devices from the back, where
//! sets are large, until they meet. [`ChunkSize`] says how large a chunk is: one of several equal ones, which is the
//! queue of HySet; all that a processor gets; or half of the share with which both processors would finish at the same
//! time, or all of that share if half is not worth another start-up. A chunk that is estimated to take far longer is made
//! smaller, and the times of past chunks correct what is expected of the next ones.
//!
//! No pair is lost: each point of the axis is taken exactly once, by one processor or, if that has ended, by the other.

use crate::kind::Kind;
use crate::plan::{Axis, ChunkSize, Part};
use crate::processor::{PerProcessor, Processor};
use crate::tuning::Tuning;
use parking_lot::Mutex;

/// A queue of work that no processor has taken yet.
pub(crate) struct Queue<'a, K: Kind> {
    axis: Axis<'a, K>,
    size: ChunkSize,
    state: Mutex<State>,
}

struct State {
    left: [f64; 2],
    of: PerProcessor<Progress>,
}

/// How far a processor has come, and how fast.
#[derive(Clone, Copy, Default)]
struct Progress {
    /// The length of its chunks on the axis, and the seconds estimated for them.
    length: f64,
    estimated: f64,
    /// Seconds expected and taken for its finished chunks; each sum is halved before a new chunk is added.
    expected: f64,
    taken: f64,
    /// The seconds expected for its current chunk, and when it began.
    current: Option<(f64, f64)>,
    /// Whether it takes no more chunks.
    ended: bool,
}

impl Progress {
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

    /// Returns the seconds for a length of the rest of the axis, if the whole axis takes `seconds`: the estimate for all
    /// of it, less the estimates of the chunks taken.
    fn rest(&self, seconds: f64, left: f64) -> f64 {
        let rest = (seconds - self.estimated) / (1.0 - self.length).max(f64::MIN_POSITIVE);
        rest.max(LEAST_REST * seconds) * left
    }
}

/// The rest of a join is never expected to take less than this fraction of the mean.
const LEAST_REST: f64 = 0.25;

impl<'a, K: Kind> Queue<'a, K> {
    /// Queues all probes of an axis.
    pub(crate) fn new(axis: Axis<'a, K>, size: ChunkSize) -> Self {
        let state = Mutex::new(State { left: [0.0, 1.0], of: PerProcessor::default() });
        Queue { axis, size, state }
    }

    /// Records that a processor takes no more chunks.
    pub(crate) fn end(&self, processor: Processor) {
        self.state.lock().of[processor].ended = true;
    }

    /// Returns what nobody has taken.
    pub(crate) fn rest(&self) -> Vec<Part<'a, K>> {
        let [from, to] = self.state.lock().left;
        if from < to { self.axis.between(from, to) } else { Vec::new() }
    }

    /// Records that a processor has finished its chunk.
    pub(crate) fn done(&self, processor: Processor, now: f64) {
        let progress = &mut self.state.lock().of[processor];
        if let Some((expected, since)) = progress.current.take() {
            progress.expected = progress.expected / 2.0 + expected;
            progress.taken = progress.taken / 2.0 + (now - since);
        }
    }

    /// Takes a chunk, which begins now. `assign` decides how this processor does the parts of a chunk, and `estimate`
    /// returns the seconds that this takes. A processor that gets none is marked as ended, so the other one takes all that
    /// is left.
    pub(crate) fn take<T>(
        &self,
        processor: Processor,
        now: f64,
        assign: impl Fn(Vec<Part<'a, K>>) -> T,
        estimate: impl Fn(&T) -> f64,
    ) -> Option<T> {
        let mut state = self.state.lock();
        let mut amount = self.amount(&state, processor, now);
        if amount <= 0.0 {
            state.of[processor].ended = true;
            return None;
        }
        let [from, to] = state.left;
        let interval = |amount: f64| match processor {
            _ if amount >= to - from => (from, to),
            Processor::Cpu => (from, from + amount),
            Processor::Device => (to - amount, to),
        };
        let parts = |amount: f64| {
            let (first, last) = interval(amount);
            self.axis.between(first, last)
        };
        let mut taken = parts(amount);
        // An interval too small to contain a probe is doubled; otherwise it would be halved forever.
        while taken.is_empty() && amount < to - from {
            amount *= 2.0;
            taken = parts(amount);
        }
        let mut chunk = assign(taken);
        let mut seconds = 0.0;
        if let ChunkSize::Balanced { seconds: all, starts } = &self.size {
            seconds = estimate(&chunk);
            let rest = state.of[processor].rest(all[processor], to - from) / (to - from);
            let due = starts[processor] + rest * amount;
            let alone = state.of[processor.other()].ended;
            while seconds > Tuning::TOO_LONG * due && seconds > 2.0 * starts[processor] && !alone {
                let smaller = parts(amount / 2.0);
                if smaller.is_empty() {
                    break;
                }
                amount /= 2.0;
                chunk = assign(smaller);
                seconds = estimate(&chunk);
            }
        }
        let (first, last) = interval(amount);
        match processor {
            Processor::Cpu => state.left[0] = last,
            Processor::Device => state.left[1] = first,
        }
        let progress = &mut state.of[processor];
        progress.length += last - first;
        progress.estimated += seconds;
        progress.current = Some((seconds, now));
        Some(chunk)
    }

    /// Returns the length of the interval that a processor should take next.
    fn amount(&self, state: &State, processor: Processor, now: f64) -> f64 {
        let left = state.left[1] - state.left[0];
        let (own, other) = (state.of[processor], state.of[processor.other()]);
        let (seconds, starts) = match &self.size {
            ChunkSize::Equal(fraction) => return fraction.min(left),
            _ if other.ended => return left,
            ChunkSize::Share(share) => {
                return match processor {
                    Processor::Cpu => (1.0 - share - state.left[0]).clamp(0.0, left),
                    Processor::Device => (state.left[1] - (1.0 - share)).clamp(0.0, left),
                };
            }
            ChunkSize::Balanced { seconds, starts } => (seconds, starts),
        };
        let (own_factor, other_factor) = (own.correction(now), other.correction(now));
        let own_left = own_factor * own.rest(seconds[processor], left);
        let other_left = other_factor * other.rest(seconds[processor.other()], left);
        let own_start = own_factor * starts[processor];
        let other_start = other_factor * starts[processor.other()];
        // own start + x · own left = wait + other start + (1 − x) · other left
        let together = other.wait(now) + other_start - own_start + other_left;
        let due = (together / (own_left + other_left).max(f64::MIN_POSITIVE)).min(1.0);
        if due < Tuning::LEAST_SHARE {
            return 0.0;
        }
        let worth_halving = due / 2.0 * own_left > Tuning::WORTH_STARTS * own_start;
        let fraction = if worth_halving { due / 2.0 } else { due };
        if fraction > 1.0 - Tuning::LEAST_SHARE { left } else { fraction * left }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;
    use crate::kind::Direction;
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

    /// Returns the seconds that parts take a processor, if all pairs take as long.
    fn seconds_of(size: &ChunkSize, processor: Processor, parts: &[Part<'_, Sets>]) -> f64 {
        let ChunkSize::Balanced { seconds, starts } = size else { return 0.0 };
        let pairs = |part: &Part<'_, Sets>| pairs(&part.task, &part.range) as f64;
        let all =
            |part: &Part<'_, Sets>| pairs(&Part { range: Tile::whole(&part.task), ..part.clone() });
        let share: f64 = parts.iter().map(|part| pairs(part) / all(part).max(1.0)).sum();
        starts[processor] + seconds[processor] * share
    }

    fn pairs(task: &SetTask<'_>, tile: &Tile) -> u64 {
        crate::sets::reaches(task, tile).iter().map(|reach| reach.pairs).sum()
    }

    /// Lets both processors take all of a queue, and checks that every probe was taken once.
    fn take_all<'a>(
        directions: &[(SetTask<'a>, Direction)],
        size: &ChunkSize,
        clock: &Clock,
        speeds: [f64; 2],
    ) {
        let queue: Queue<'a, Sets> = Queue::new(Axis::new(directions), size.clone());
        let taken = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for (processor, speed) in Processor::ALL.into_iter().zip(speeds) {
                let (queue, taken) = (&queue, &taken);
                scope.spawn(move || {
                    let worker = processor as usize;
                    let _ending = clock.ending(worker);
                    let mut now = clock.turn(worker);
                    let seconds = |parts: &Vec<Part<'a, Sets>>| seconds_of(size, processor, parts);
                    while let Some(parts) = queue.take(processor, now, |parts| parts, seconds) {
                        clock.busy(worker, seconds(&parts) / speed);
                        taken.lock().extend(parts);
                        now = clock.turn(worker);
                        queue.done(processor, now);
                    }
                });
            }
        });
        taken.lock().extend(queue.rest());
        let taken = taken.into_inner();
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
                ChunkSize::Share(0.0),
                ChunkSize::Share(0.3),
                ChunkSize::Share(1.0),
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
    fn rest_is_divided_so_that_both_end_together() {
        let (left, _) = sets(900, 1);
        let directions = SetTask::directions(&left, None, false, bounds());
        let queue = |seconds: [f64; 2], starts| -> Queue<'_, Sets> {
            Queue::new(Axis::new(&directions), balanced(seconds[0], seconds[1], starts))
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
        let begin = |queue: &Queue<'_, Sets>, processor, seconds| {
            queue.state.lock().of[processor].current = Some((seconds, 0.0));
        };
        let busy = queue([0.2, 0.2], [0.0; 2]);
        begin(&busy, Processor::Cpu, 0.3);
        assert_eq!(amount(&busy, Processor::Device, 0.0), 0.5);
        let busy = queue([0.2, 0.2], [0.1, 0.1]);
        begin(&busy, Processor::Cpu, 0.3);
        assert_eq!(amount(&busy, Processor::Device, 0.0), 1.0);
        // What took three times as long as expected is expected to do so again.
        let slow = queue([0.2, 0.2], [0.0; 2]);
        begin(&slow, Processor::Device, 0.01);
        slow.done(Processor::Device, 0.03);
        assert_eq!(amount(&slow, Processor::Device, 0.03), 0.125);
        // One that is late takes at least as long as it is.
        let late = queue([0.2, 0.2], [0.0; 2]);
        begin(&late, Processor::Cpu, 0.01);
        assert!(amount(&late, Processor::Device, 0.04) > 0.4);
        // Nobody else is there.
        let alone = queue([0.2, 0.2], [0.0, 1.0]);
        assert!(alone.take(Processor::Device, 0.0, drop, |()| 1.0).is_none());
        assert!(alone.take(Processor::Cpu, 0.0, drop, |()| 0.2).is_some());
        assert_eq!(alone.state.lock().left, [1.0, 1.0]);
        // A chunk that takes longer than others of its length is made smaller, and the rest is expected to take less.
        let uneven = queue([0.2, 0.2], [0.0; 2]);
        uneven.take(Processor::Device, 0.0, drop, |()| 0.2).unwrap();
        let left = uneven.state.lock().left[1];
        assert!(left > 0.99, "{left}");
    }
}
