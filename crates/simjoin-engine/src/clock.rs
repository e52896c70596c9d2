//! What time is it for workers that run at the same time?
//!
//! [`Clock::real`] is wall-clock time. [`Clock::simulated`] is virtual time, as in a discrete-event simulation: every
//! worker has its own time, the end of the work that it announced last. The work itself runs at full speed on real
//! threads, but a worker takes more work, or reports its result, only when it is its [turn](Clock::turn): when no
//! other worker has an earlier time. So decisions are made in the same order, with the same times, on every machine
//! and under any load.
//!
//! A worker that has finished must end, or the others wait for it. The guard of [`Clock::ending`] ends it even if it fails.

use parking_lot::{Condvar, Mutex};
use std::time::Instant;

/// Tells the time to workers.
pub(crate) struct Clock {
    begin: Instant,
    simulation: Option<Simulation>,
}

struct Simulation {
    workers: Mutex<Vec<Worker>>,
    changed: Condvar,
}

#[derive(Clone, Copy, Default)]
struct Worker {
    time: f64,
    ended: bool,
}

/// Ends a worker when it is dropped.
pub(crate) struct Ending<'c>(&'c Clock, usize);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.update(|workers| workers[self.1].ended = true);
    }
}

impl Clock {
    /// Makes a clock of wall-clock time that starts now.
    pub(crate) fn real() -> Self {
        Clock { begin: Instant::now(), simulation: None }
    }

    /// Makes a clock of virtual time for a number of workers, numbered from 0. If two have the same time, the lower
    /// number goes first.
    pub(crate) fn simulated(workers: usize) -> Self {
        let workers = Mutex::new(vec![Worker::default(); workers]);
        Clock {
            begin: Instant::now(),
            simulation: Some(Simulation { workers, changed: Condvar::new() }),
        }
    }

    /// Returns whether the time is virtual.
    pub(crate) fn is_virtual(&self) -> bool {
        self.simulation.is_some()
    }

    /// Returns the seconds of real time.
    fn real_seconds(&self) -> f64 {
        self.begin.elapsed().as_secs_f64()
    }

    /// Changes virtual time, or returns `None` in real time.
    fn update<T>(&self, change: impl FnOnce(&mut [Worker]) -> T) -> Option<T> {
        let Simulation { workers, changed } = self.simulation.as_ref()?;
        let changes = change(&mut workers.lock());
        changed.notify_all();
        Some(changes)
    }

    /// Waits until no other worker has an earlier time; returns the worker's time.
    pub(crate) fn turn(&self, worker: usize) -> f64 {
        let Some(Simulation { workers, changed }) = &self.simulation else {
            return self.real_seconds();
        };
        let mut workers = workers.lock();
        loop {
            let own = workers[worker].time;
            let earlier = |(at, other): (usize, &Worker)| {
                !other.ended && other.time.total_cmp(&own).then(at.cmp(&worker)).is_lt()
            };
            if !workers.iter().enumerate().any(earlier) {
                return own;
            }
            changed.wait(&mut workers);
        }
    }

    /// Announces that a worker is busy for a number of virtual seconds; returns when it begins.
    pub(crate) fn busy(&self, worker: usize, seconds: f64) -> f64 {
        let begin = self.update(|workers| {
            let begin = workers[worker].time;
            workers[worker].time += if seconds.is_finite() { seconds.max(0.0) } else { 0.0 };
            begin
        });
        begin.unwrap_or_else(|| self.real_seconds())
    }

    /// Returns a guard that ends a worker when it is dropped.
    pub(crate) fn ending(&self, worker: usize) -> Ending<'_> {
        Ending(self, worker)
    }

    /// Lets one worker continue alone, starting when the last one ended.
    pub(crate) fn alone(&self, worker: usize) {
        self.update(|workers| {
            let time = latest(workers);
            workers.iter_mut().for_each(|one| one.ended = true);
            workers[worker] = Worker { time, ended: false };
        });
    }

    /// Returns the virtual seconds that have passed so far.
    pub(crate) fn virtual_seconds(&self) -> Option<f64> {
        self.update(|workers| latest(workers))
    }
}

fn latest(workers: &[Worker]) -> f64 {
    workers.iter().fold(0.0, |latest, one| one.time.max(latest))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lets workers take pieces of fixed durations until none is left; returns the worker and the time of each.
    fn race(durations: [f64; 3], pieces: usize) -> Vec<(usize, f64)> {
        let clock = Clock::simulated(3);
        let taken = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for (worker, duration) in durations.into_iter().enumerate() {
                let (clock, taken) = (&clock, &taken);
                scope.spawn(move || {
                    let _ending = clock.ending(worker);
                    loop {
                        let now = clock.turn(worker);
                        let mut taken = taken.lock();
                        if taken.len() == pieces {
                            break;
                        }
                        taken.push((worker, now));
                        clock.busy(worker, duration);
                    }
                });
            }
        });
        let taken = taken.into_inner();
        let ends = taken.iter().map(|&(worker, at)| at + durations[worker]);
        assert_eq!(clock.virtual_seconds(), Some(ends.fold(0.0, f64::max)));
        taken
    }

    #[test]
    fn turns_follow_virtual_time_whatever_the_threads_do() {
        let expected =
            [(0, 0.0), (1, 0.0), (2, 0.0), (1, 1.0), (0, 2.0), (1, 2.0), (1, 3.0), (0, 4.0)];
        for _ in 0..200 {
            assert_eq!(race([2.0, 1.0, 100.0], 8), expected);
        }
    }

    #[test]
    fn worker_that_has_ended_is_not_waited_for() {
        let clock = Clock::simulated(2);
        drop(clock.ending(0));
        clock.busy(1, 5.0);
        assert_eq!(clock.turn(1), 5.0);
        clock.alone(0);
        assert_eq!((clock.turn(0), clock.busy(0, 1.0)), (5.0, 5.0));
        assert_eq!(clock.virtual_seconds(), Some(6.0));
    }

    #[test]
    fn real_time_never_waits() {
        let clock = Clock::real();
        assert!(!clock.is_virtual() && clock.virtual_seconds().is_none());
        assert!(clock.turn(7) <= clock.busy(3, 9.0));
        drop(clock.ending(0));
    }
}
