//! What does a technique promise?
//!
//! A [`Technique`] prepares a range of a task once (a [`Prepared`], shared by all threads: an inverted index,
//! say) and cuts it into pieces; each thread makes a [`Worker`] and takes pieces, in rising order,
//! until none is left. Where not everything fits the memory at once, that happens in rounds. Whatever
//! happens inside, the pieces together push every pair of the range that satisfies the predicate, once,
//! and no other.

use crate::CostTable;
use crate::kind::{Kind, Task};
use simjoin_core::{Result, Sink};
use std::ops::ControlFlow;
use std::time::Instant;

/// A way to join.
pub trait Technique<K: Kind>: Send + Sync {
    /// Returns the name used on the command line and in statistics.
    fn name(&self) -> &'static str;

    /// Returns what distinguishes it from other techniques of that name, such as `256 bits`; empty if
    /// there is but one.
    fn variant(&self) -> String {
        String::new()
    }

    /// Returns whether a device does the work: rows are sent to it for each range, so one range is better than
    /// several, and planning must be as quick as it is.
    fn on_device(&self) -> bool {
        false
    }

    /// Returns whether it can join any range of a task, so that processors can share the task; others can only join it
    /// as a whole.
    fn joins_any_range(&self) -> bool {
        true
    }

    /// Returns whether what it prepares for a whole task can [go on](Prepared::go_on) to any range of it, so that the rows
    /// are sent to a device once and not for each range.
    fn goes_on(&self) -> bool {
        false
    }

    /// Returns why it cannot join by this predicate, such as `only supports containment 1`; `None` if it can.
    fn unsupported(&self, _predicate: &K::Predicate) -> Option<&'static str> {
        None
    }

    /// Estimates the cost of the surveyed range; `None` if the technique cannot join it, or should only do so when the
    /// user names it.
    fn cost(&self, survey: &K::Survey<'_>, costs: &CostTable) -> Option<Cost>;

    /// Returns the bytes that [`prepare`](Self::prepare) and `threads` workers take at most, when
    /// they are given no more.
    fn memory_bytes(&self, task: &Task<'_, K>, range: &K::Range, threads: usize) -> u64;

    /// Returns the bytes that they take on a device, at most, when they are given no more.
    fn device_bytes(&self, _task: &Task<'_, K>, _range: &K::Range, _threads: usize) -> u64 {
        0
    }

    /// Returns a quick upper bound of [`memory_bytes`](Self::memory_bytes), which may take longer.
    fn memory_at_most(&self, task: &Task<'_, K>, range: &K::Range, threads: usize) -> u64 {
        self.memory_bytes(task, range, threads)
    }

    /// Returns a quick upper bound of [`device_bytes`](Self::device_bytes).
    fn device_at_most(&self, task: &Task<'_, K>, range: &K::Range, threads: usize) -> u64 {
        self.device_bytes(task, range, threads)
    }

    /// Prepares a range, within a budget. Runs on the current rayon pool. The order of
    /// the pairs of all pieces together does not depend on the number of threads, unless a device
    /// finds them.
    fn prepare<'a>(
        &self,
        task: &Task<'a, K>,
        range: &K::Range,
        budget: &Budget,
    ) -> Result<Box<dyn Prepared<K> + 'a>>;
}

/// Techniques to choose from.
pub type Techniques<K> = Vec<Box<dyn Technique<K>>>;

/// The limits that a technique must keep to.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// Probe tokens in a piece, where a technique cuts by probes.
    pub piece_tokens: usize,
    /// Bytes for what is prepared and for all workers; never below
    /// [`memory_bytes`](Technique::memory_bytes).
    pub bytes: u64,
    /// The same on a device; never below [`device_bytes`](Technique::device_bytes).
    pub device_bytes: u64,
    /// The number of workers.
    pub threads: usize,
    /// Whether a thread that waits for a device should sleep, because others need the cores.
    pub patient: bool,
    /// Whether to record events for a timeline.
    pub events: bool,
}

impl Budget {
    /// Returns a budget without limits.
    pub fn unlimited(piece_tokens: usize, threads: usize) -> Self {
        Budget {
            piece_tokens,
            bytes: u64::MAX,
            device_bytes: u64::MAX,
            threads,
            patient: false,
            events: false,
        }
    }
}

/// Seconds on one core.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// The part that one thread does while the others wait.
    pub serial: f64,
    /// The part that all threads share.
    pub parallel: f64,
}

impl Cost {
    /// Returns the cost of work that all threads share.
    pub fn of_parallel(seconds: f64) -> Self {
        Cost { serial: 0.0, parallel: seconds }
    }

    /// Returns the cost of work that one thread does, or a device, while the others wait.
    pub fn of_serial(seconds: f64) -> Self {
        Cost { serial: seconds, parallel: 0.0 }
    }

    /// Returns the seconds on a number of threads. Each thread but the first must be woken up, and more than a few slow
    /// each other down, the more so the shorter the join: sixteen threads of a Xeon did joins of 10 to 50 ms (on one core)
    /// as fast as 6 to 14 ideal threads would, and those of 0.8 to 7 s as fast as 11 to 19 (`prefix-bitmap`, 27 joins).
    pub fn seconds(&self, threads: usize) -> f64 {
        /// The seconds that it takes to wake up a thread.
        const WAKE_UP: f64 = 20e-6;
        /// The number of threads that do not slow each other down in a short join, and what such a join takes one core.
        const FEW_THREADS: f64 = 4.0;
        const SHORT_SECONDS: f64 = 0.03;
        let threads = threads.max(1) as f64;
        // Ten times as long a join occupies a quarter more threads, up to a limit.
        let few = FEW_THREADS * (self.parallel / SHORT_SECONDS).powf(0.1).clamp(1.0, 1.6);
        let together =
            self.parallel / threads.min((few * threads).sqrt()) + WAKE_UP * (threads - 1.0);
        // Work that is too short for several threads is done by one.
        self.serial + together.min(self.parallel)
    }
}

/// A range that is prepared for probing.
pub trait Prepared<K: Kind>: Send + Sync {
    /// Describes in a few words what was decided while preparing.
    fn details(&self) -> String {
        String::new()
    }

    /// Returns numbers that were decided in preparing it, by name, for statistics.
    fn figures(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    /// Returns the number of rounds: pieces are made and run once per round if not all fit the memory at once.
    fn rounds(&self) -> usize {
        1
    }

    /// Prepares the pieces of a round. Called before each round, on the current rayon pool.
    fn begin(&mut self, _round: usize) -> Result<()> {
        Ok(())
    }

    /// Returns the number of pieces in the round.
    fn pieces(&self) -> usize;

    /// Returns the largest number of workers that is useful.
    fn workers(&self) -> usize {
        usize::MAX
    }

    /// Makes a worker for one thread.
    fn worker<'a>(&'a self) -> Result<Box<dyn Worker<K> + 'a>>;

    /// Moves on to another range of the same task without preparing again; returns false if that is not possible.
    fn go_on(&mut self, _range: &K::Range) -> bool {
        false
    }

    /// Estimates the number of pairs from some of the pieces; `None` if that takes as long as finding them.
    fn estimate(&self) -> Option<f64> {
        None
    }

    /// Returns the recorded device events of the preparation, and forgets them.
    fn events(&mut self) -> Vec<DeviceEvent> {
        Vec::new()
    }
}

/// One thread's working space. Pieces must come in rising order.
pub trait Worker<K: Kind> {
    /// Pushes every pair of the piece that satisfies the predicate. Returns `Break` if the sink wants no more.
    fn run(&mut self, piece: usize, sink: &mut dyn Sink<K::Pair>) -> Result<ControlFlow<()>>;

    /// Returns how many candidate pairs this worker has verified so far.
    fn candidates(&self) -> u64;

    /// Returns what a device has done for this worker so far.
    fn times(&self) -> DeviceTimes {
        DeviceTimes::default()
    }

    /// Returns the recorded device events of this worker, and forgets them.
    fn events(&mut self) -> Vec<DeviceEvent> {
        Vec::new()
    }
}

/// A step of work on a device, with its time.
#[derive(Clone, Copy, Debug)]
pub struct DeviceEvent {
    /// What did it.
    pub by: DeviceUnit,
    /// Such as `filter`.
    pub what: &'static str,
    /// Its begin.
    pub begin: Instant,
    /// Its end.
    pub end: Instant,
}

/// A part of a device that works independently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceUnit {
    /// Copies to it and from it.
    Copies,
    /// A stream of kernels.
    Stream,
}

/// The work of a device and of its host threads, in seconds. Sums over workers may exceed the time that passed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DeviceTimes {
    /// Pairs that a filter on the device compared.
    pub compared: u64,
    /// The device: filtering.
    pub filter: f64,
    /// The device: verifying.
    pub verify: f64,
    /// Copies to the device and back.
    pub copies: f64,
    /// The host: filtering and handing answers on.
    pub host: f64,
    /// The host: waiting for the device.
    pub waited: f64,
}

impl DeviceTimes {
    /// Seconds in which the device computed or copied.
    pub fn device(&self) -> f64 {
        self.filter + self.verify + self.copies
    }

    /// Returns the fraction of the device's time in which the host was busy too.
    pub fn hidden(&self) -> Option<f64> {
        let device = self.device();
        (device > 0.0).then(|| (1.0 - self.waited / device).max(0.0))
    }
}

impl std::ops::AddAssign for DeviceTimes {
    fn add_assign(&mut self, other: Self) {
        self.compared += other.compared;
        self.filter += other.filter;
        self.verify += other.verify;
        self.copies += other.copies;
        self.host += other.host;
        self.waited += other.waited;
    }
}
