//! Which techniques, limits and facts is a plan made from?

use super::Resources;
use super::assign::{Assignment, Planned};
use crate::costs::CostTable;
use crate::host::Host;
use crate::machine::{Corrections, Machine};
use crate::processor::{PerProcessor, Processor};
use crate::registry::{GPU_VERIFY, NAIVE, Selection};
use crate::technique::{Technique, Techniques};
use crate::tuning::Tuning;
use rayon::ThreadPool;
use simjoin_core::{Error, Result};

/// How a join is shared between CPU and devices.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Split {
    /// So that both are expected to finish at the same time.
    #[default]
    Auto,
    /// Devices get this share of the work, from 0 to 1.
    Share(f64),
    /// Both take equal chunks from a queue: this many in all.
    Queue(u32),
}

/// The processors that may work on a join.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Mode {
    Only(Processor),
    Shared(Split),
    /// Whichever processor is faster, or both.
    Auto,
}

impl Mode {
    /// Returns whether devices are needed in any case.
    pub(crate) fn needs_devices(self) -> bool {
        matches!(self, Mode::Only(Processor::Device) | Mode::Shared(_))
    }

    /// Returns whether both processors may work at once.
    pub(crate) fn may_share(self) -> bool {
        !matches!(self, Mode::Only(_))
    }
}

/// The largest number of a device's pairs that are held until their range is complete, if the memory suffices.
const HELD: u64 = 4 << 20;

/// Returns the bytes that pairs held for a device take at most: a sixteenth of the memory.
pub(crate) fn held_bytes<P>(memory: u64) -> u64 {
    // Arrays that grow may be half empty.
    (memory / 16).min(2 * HELD * size_of::<P>() as u64)
}

/// The limits on a join's resources.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Threads to run on; 0 is the pool that the caller is in.
    pub(crate) threads: usize,
    /// Bytes for everything except the collections.
    pub(crate) memory: u64,
    /// Bytes on each device.
    pub(crate) device_memory: u64,
    /// Bytes of the memory for the answer.
    pub(crate) answer: u64,
    /// Probe tokens in a piece.
    pub(crate) piece_tokens: usize,
}

impl Limits {
    /// Returns the bytes for rows on their way out: an eighth of the memory.
    pub(crate) fn for_output(&self) -> u64 {
        self.memory / 8
    }
}

/// The techniques to choose from, the threads that run them, and the facts about rows and machine.
pub(crate) struct Setup<K: Planned> {
    pub(crate) mode: Mode,
    /// The techniques that the user has named.
    pub(crate) selection: Selection,
    /// If only devices were asked for, those of the CPU do the work of a device that fails.
    pub(crate) techniques: PerProcessor<Techniques<K>>,
    pub(crate) limits: Limits,
    pub(crate) timeline: bool,
    /// `None` for the pool of the caller.
    pub(crate) pool: Option<ThreadPool>,
    /// The number of its threads.
    pub(crate) threads: usize,
    pub(crate) machine: Machine,
    pub(crate) host: &'static dyn Host,
    /// The facts that a first look at the rows has shown.
    pub(crate) known: K::Known,
    /// The seconds that the join takes at most, as far as is known; no more is worth planning for.
    pub(crate) worth: f64,
}

impl<K: Planned> Setup<K> {
    /// Runs `work` on the threads of the join.
    pub(crate) fn install<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        match &self.pool {
            Some(pool) => pool.install(work),
            None => work(),
        }
    }

    pub(crate) fn technique(&self, assignment: &Assignment<'_, K>) -> &dyn Technique<K> {
        &*self.techniques[assignment.processor][assignment.technique]
    }

    /// Returns the techniques of a processor.
    pub(crate) fn offered(&self, processor: Processor) -> Vec<&dyn Technique<K>> {
        self.techniques[processor].iter().map(|technique| &**technique).collect()
    }

    /// Returns the bytes for a technique. If both processors work, two techniques run at the same time.
    pub(crate) fn memory(&self, both_work: bool) -> u64 {
        match self.limits.memory {
            u64::MAX => u64::MAX,
            all => all.saturating_sub(self.limits.answer) / if both_work { 2 } else { 1 },
        }
    }

    /// Returns the resources of a processor. Next to the CPU, a device has a few attendant threads of its own.
    pub(crate) fn resources<'c>(
        &self,
        costs: &'c CostTable,
        processor: Processor,
        both_work: bool,
    ) -> Resources<'c> {
        let attended = both_work && processor == Processor::Device;
        Resources {
            costs,
            threads: if attended { Tuning::ATTENDANTS } else { self.threads },
            memory: self.memory(both_work),
            device_memory: self.limits.device_memory,
            worth: self.worth,
        }
    }

    /// Adds the answer's memory to an error about memory, so that it states the total.
    pub(crate) fn with_answer(&self, error: Error, both_work: bool) -> Error {
        match error {
            Error::Memory { what, needed, device: false, .. } => {
                let needed = needed.saturating_mul(if both_work { 2 } else { 1 });
                // The answer's part may grow with the limit.
                let part = self.limits.answer as f64 / self.limits.memory.max(1) as f64;
                let needed = match part < 0.9 && self.limits.answer > 0 {
                    true => (needed as f64 / (1.0 - part)).ceil() as u64 + 1,
                    false => needed.saturating_add(self.limits.answer),
                };
                Error::Memory { what, needed, limit: self.limits.memory, device: false }
            }
            other => other,
        }
    }

    pub(crate) fn costs(&self) -> CostTable {
        self.machine.costs().0
    }

    pub(crate) fn corrections(&self) -> Corrections {
        self.machine.corrections(self.host, self.threads)
    }

    /// Keeps the techniques of a processor that were asked for and can join by the predicate.
    pub(crate) fn select(
        &self,
        all: Techniques<K>,
        processor: Processor,
        predicate: &K::Predicate,
    ) -> Result<Techniques<K>> {
        let named = self.selection.of[processor].as_ref();
        let wanted = |technique: &dyn Technique<K>| match named {
            Some(named) => named.is(technique.name(), &technique.variant()),
            // The naive join is for comparison only. The CPU filters for gpu-verify, in addition to its own work.
            None => {
                let verifies = technique.name() == GPU_VERIFY && self.mode.may_share();
                technique.name() != NAIVE && !verifies
            }
        };
        let found: Techniques<K> = all.into_iter().filter(|one| wanted(&**one)).collect();
        let Some(named) = named else { return Ok(found) };
        let why_not = |one: &dyn Technique<K>| one.unsupported(predicate);
        let why = match found.iter().map(|one| why_not(&**one)).collect::<Option<Vec<_>>>() {
            // At least one of them can.
            None => return Ok(found),
            Some(why) => why.first().copied().unwrap_or("is not available for this join"),
        };
        Err(Error::Config(format!("technique `{}` {why}", named.name)))
    }

    /// Looks for devices, unless that was done. Returns false if none can be used; the CPU then does the join.
    pub(crate) fn wake_up(&mut self, predicate: &K::Predicate) -> bool {
        if self.techniques.device.is_empty()
            && let Ok(memory) = self.machine.device_memory(self.host, self.limits.device_memory)
        {
            let before = std::mem::replace(&mut self.limits.device_memory, memory);
            if self.add_devices(predicate).is_err() {
                self.limits.device_memory = before;
            }
        }
        !self.techniques.device.is_empty()
    }

    /// Adds the techniques of devices. Their pairs are held until a range is complete, which takes memory.
    pub(crate) fn add_devices(&mut self, predicate: &K::Predicate) -> Result<()> {
        let both_work = self.mode.may_share();
        let mut all = PerProcessor {
            cpu: K::sharing(self.host),
            device: K::device_techniques(self, both_work)?,
        };
        let named = |all: &Techniques<K>| {
            let shares = all.iter().filter(|one| one.joins_any_range());
            shares.map(|one| one.name()).collect::<Vec<_>>().join(" or ")
        };
        let of_cpu = [named(&self.techniques.cpu), named(&all.cpu)];
        let of_cpu = of_cpu.into_iter().find(|names| !names.is_empty()).unwrap_or_default();
        let expected = PerProcessor { cpu: of_cpu, device: named(&all.device) };
        all.device = self.select(all.device, Processor::Device, predicate)?;
        let wanted = self.selection.of.cpu.as_ref();
        let wanted = |one: &dyn Technique<K>| {
            wanted.is_none_or(|named| named.is(one.name(), &one.variant()))
        };
        self.techniques.cpu.extend(all.cpu.into_iter().filter(|one| wanted(&**one)));
        self.techniques.device = all.device;
        if let Mode::Shared(_) = self.mode {
            for processor in Processor::ALL {
                let able = self.techniques[processor].iter().any(|one| one.joins_any_range());
                if let (false, Some(named)) = (able, &self.selection.of[processor]) {
                    return Err(Error::Config(format!(
                        "technique `{}` does a join only as a whole, so CPU and GPU cannot share it; expected {}",
                        named.name, expected[processor],
                    )));
                }
            }
        }
        if self.limits.memory != u64::MAX {
            self.limits.answer += held_bytes::<K::Pair>(self.limits.memory);
        }
        Ok(())
    }

    /// Returns the seconds that an assignment takes in virtual time: its estimate, or, if it has none, an estimate from a
    /// look at a few of its rows. A simulated device may be faster or slower than that.
    pub(crate) fn virtual_seconds(&self, assignment: &Assignment<'_, K>) -> f64 {
        let estimated = assignment.seconds().filter(|seconds| seconds.is_finite());
        let expected = estimated.unwrap_or_else(|| K::glance(self, assignment));
        match self.machine.simulated().filter(|_| assignment.processor == Processor::Device) {
            Some(device) => device.actual_seconds(expected),
            None => expected,
        }
    }
}
