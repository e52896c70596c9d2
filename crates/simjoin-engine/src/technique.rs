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

    /// Returns whether it does any range of a task, so that processors can share it; others do it only as a whole.
    fn shares(&self) -> bool {
        true
    }

    /// Returns whether it can join by this predicate at all.
    fn can(&self, _predicate: &K::Predicate) -> bool {
        true
    }

    /// Estimates what the surveyed range costs; `None` where the technique cannot do it, or never should unless
    /// it is asked for.
    fn cost(&self, survey: &K::Survey<'_>, costs: &CostTable) -> Option<Cost>;

    /// Returns the bytes that [`prepare`](Self::prepare) and `threads` workers take at most, when
    /// they are given no more.
    fn memory_bytes(&self, task: &Task<'_, K>, range: &K::Range, threads: usize) -> u64;

    /// Returns the bytes that they take on a device, at most, when they are given no more.
    fn device_bytes(&self, _task: &Task<'_, K>, _range: &K::Range, _threads: usize) -> u64 {
        0
    }

    /// Returns no less than [`memory_bytes`](Self::memory_bytes), at once, which that may not.
    fn memory_at_most(&self, task: &Task<'_, K>, range: &K::Range, threads: usize) -> u64 {
        self.memory_bytes(task, range, threads)
    }

    /// Returns no less than [`device_bytes`](Self::device_bytes), at once.
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

/// How large things may become.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// Probe tokens in a piece, where a technique cuts by probes.
    pub piece_tokens: usize,
    /// Bytes for what is prepared and for all workers; never below
    /// [`memory_bytes`](Technique::memory_bytes).
    pub bytes: u64,
    /// The same on a device; never below [`device_bytes`](Technique::device_bytes).
    pub device_bytes: u64,
    /// How many workers there will be.
    pub threads: usize,
    /// Whether others need the cores: who waits for a device sleeps meanwhile.
    pub patient: bool,
    /// Whether to remember what happened when.
    pub events: bool,
}

impl Budget {
    /// As much as there is.
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
    /// What one thread does while the others wait.
    pub serial: f64,
    /// What is shared between the threads.
    pub shared: f64,
}

impl Cost {
    /// Returns the cost of work that all threads share.
    pub fn of_shared(seconds: f64) -> Self {
        Cost { serial: 0.0, shared: seconds }
    }

    /// Returns the cost of work that one thread does, or a device, while the others wait.
    pub fn of_serial(seconds: f64) -> Self {
        Cost { serial: seconds, shared: 0.0 }
    }

    /// Seconds on so many threads. Each but the first must be woken up, and beyond a few they get into each
    /// other's way, less so the longer they work: sixteen did joins that were estimated at 10 to 50 ms of one core as if
    /// they were 6 to 14, those of 70 to 340 as 8 to 12, and those of 0.8 to 7 s as 11 to 19 (`prefix-bitmap` on a Xeon, 27
    /// joins, 2026-11-18). On another machine of that kind the same joins took 1.1 to 2 times as long, so that only a
    /// part of this is expected of them.
    pub fn seconds(&self, threads: usize) -> f64 {
        const WAKE_UP: f64 = 20e-6;
        const FEW: f64 = 4.0;
        const SHORT: f64 = 0.03;
        let threads = threads.max(1) as f64;
        let few = FEW * (self.shared / SHORT).powf(0.1).clamp(1.0, 1.6);
        let together =
            self.shared / threads.min((few * threads).sqrt()) + WAKE_UP * (threads - 1.0);
        // What is too little for all of them is done by one.
        self.serial + together.min(self.shared)
    }
}

/// A range that is prepared for probing.
pub trait Prepared<K: Kind>: Send + Sync {
    /// Describes in a few words what was decided in preparing it.
    fn details(&self) -> String {
        String::new()
    }

    /// Returns how many times pieces are to be made and run, where not all can be at once.
    fn rounds(&self) -> usize {
        1
    }

    /// Makes what the pieces of a round need. Called before each round, on the current rayon pool.
    fn begin(&mut self, _round: usize) -> Result<()> {
        Ok(())
    }

    /// Returns the number of pieces in the round.
    fn pieces(&self) -> usize;

    /// Returns how many workers are of use at most.
    fn workers(&self) -> usize {
        usize::MAX
    }

    /// Makes a worker for one thread.
    fn worker<'a>(&'a self) -> Result<Box<dyn Worker<K> + 'a>>;

    /// Goes on to another range of the same task, if what is prepared serves that too; returns whether it does.
    fn go_on(&mut self, _range: &K::Range) -> bool {
        false
    }

    /// Estimates the number of pairs from some of the pieces; `None` where that takes as long as
    /// finding them.
    fn estimate(&self) -> Option<f64> {
        None
    }

    /// Returns what has happened on a device to prepare this, if that was to be remembered; once.
    fn events(&mut self) -> Vec<DeviceEvent> {
        Vec::new()
    }
}

/// One thread's working space. Pieces must come in rising order.
pub trait Worker<K: Kind> {
    /// Pushes every pair of the piece that satisfies the predicate. `Break` when the sink had enough.
    fn run(&mut self, piece: usize, sink: &mut dyn Sink<K::Pair>) -> Result<ControlFlow<()>>;

    /// Returns how many candidate pairs this worker has verified so far.
    fn candidates(&self) -> u64;

    /// Returns what a device has done for this worker so far.
    fn times(&self) -> DeviceTimes {
        DeviceTimes::default()
    }

    /// Returns when it did so, if that was to be remembered; once.
    fn events(&mut self) -> Vec<DeviceEvent> {
        Vec::new()
    }
}

/// Something that a device did, and when.
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

/// A part of a device that works by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceUnit {
    /// Copies to it and from it.
    Copies,
    /// A stream of kernels.
    Stream,
}

/// What a device did, and what its host did beside it, in seconds. Sums over workers may exceed the
/// time that passed.
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

    /// The part of the device's time in which the host was busy as well.
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
