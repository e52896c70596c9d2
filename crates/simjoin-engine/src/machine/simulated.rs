//! How are joins with a device tested without one?
//!
//! A simulated device runs `bitmap` and `prefix-bitmap` on one thread of the CPU under the names of device
//! techniques, with a chosen speed, memory and failure rate. Its pairs are real, so everything that handles a
//! device can be tested: `SIMJOIN_SIMULATED_GPU=speed=0.5,memory=64M,latency=2,fail=0.1`. It joins vectors by a
//! nested loop, counts overlaps by the CPU's techniques, and intersects two sets by the CPU's function.
//!
//! It never sleeps: a virtual clock (`clock.rs`) advances by the times of the fixed cost table that plans are made
//! with (`machine/mod.rs`). So any speed can be simulated, and every machine behaves the same.
//!
//! * `speed`: relative to one core.
//! * `actual`: its true speed divided by the speed that the planner assumes; 1 unless given.
//! * `latency`: milliseconds before each range of work.
//! * `memory`: bytes, as for a limit on device memory.
//! * `fail`: the fraction of the pieces that fail, chosen by a hash of the tile and the piece. `fail=@3`: only the
//!   third piece that the device runs fails.

use crate::costs::CostTable;
use crate::host::{DeviceIntersection, Host};
use crate::kind::{Kind, Task, Work};
use crate::overlaps::Overlaps;
use crate::processor::Processor;
use crate::registry::{self, COMBINED, Subject};
use crate::sets::Sets;
use crate::technique::{Budget, Cost, Prepared, Technique, Techniques, Worker};
use crate::vectors::Vectors;
use simjoin_core::{Error, Result, Sink, VectorCollection};
use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// The environment variable that asks for a simulated device.
pub const VARIABLE: &str = "SIMJOIN_SIMULATED_GPU";

/// A simulated device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Simulated {
    speed: f64,
    actual: f64,
    /// Seconds before each tile.
    latency: f64,
    pub(crate) memory: u64,
    fail: Fail,
}

/// Which pieces fail.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fail {
    /// This fraction of all pieces.
    Part(f64),
    /// The piece of this number, counted from 1.
    Nth(u64),
}

impl Simulated {
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let wrong = |what: &str| {
            Error::Config(format!(
                "{VARIABLE}: {what:?} is not understood; expected such as \
                 speed=5,memory=64M,latency=2,fail=0.1"
            ))
        };
        let mut device = Simulated {
            speed: 1.0,
            actual: 1.0,
            latency: 0.0,
            memory: 1 << 30,
            fail: Fail::Part(0.0),
        };
        for part in text.split(',') {
            let (name, value) = part.split_once('=').ok_or_else(|| wrong(part))?;
            let within = |low: f64, high: f64| {
                let number = value.parse().ok().filter(|number| (low..=high).contains(number));
                number.ok_or_else(|| wrong(part))
            };
            match name.trim() {
                "speed" => device.speed = within(1e-6, 1e6)?,
                "actual" => device.actual = within(1e-3, 1e3)?,
                "latency" => device.latency = within(0.0, 1e6)? / 1e3,
                "fail" => {
                    device.fail = match value.strip_prefix('@').map(str::parse) {
                        Some(Ok(nth)) if nth > 0 => Fail::Nth(nth),
                        Some(_) => return Err(wrong(part)),
                        None => Fail::Part(within(0.0, 1.0)?),
                    }
                }
                "memory" => {
                    device.memory = crate::size::bytes(value).ok_or_else(|| wrong(part))?;
                }
                _ => return Err(wrong(part)),
            }
        }
        Ok(device)
    }

    /// Returns the techniques of the device for sets: two of the CPU's under other names.
    pub(crate) fn set_techniques(self, mut of_cpu: Techniques<Sets>) -> Techniques<Sets> {
        const PLAYED: [(&str, &str, &str); 2] =
            [("gpu-bitmap", "bitmap", "256 bits"), ("gpu-prefix", "prefix-bitmap", "64 bits")];
        let played = PLAYED.into_iter().filter_map(|(name, player, variant)| {
            let mut all = of_cpu.iter();
            let at = all.position(|one| one.name() == player && one.variant() == variant)?;
            Some((name, of_cpu.swap_remove(at)))
        });
        self.play(played.collect(), |_| 0)
    }

    /// Returns its techniques for vectors: a nested loop under the name of each technique that a GPU has.
    pub(crate) fn vector_techniques(
        self,
        striped_loop: impl Fn() -> Box<dyn Technique<Vectors>>,
    ) -> Techniques<Vectors> {
        let names = registry::names(Subject::Vectors, Processor::Device);
        let played = names.map(|name| (name, striped_loop())).collect();
        self.play(played, |task| task.sides().map(VectorCollection::bytes).sum())
    }

    /// Returns its techniques for overlaps: one of the CPU's under the name of each technique that a GPU has.
    pub(crate) fn overlap_techniques(
        self,
        of_cpu: impl Fn() -> Techniques<Overlaps>,
    ) -> Techniques<Overlaps> {
        let played = registry::names(Subject::Overlaps, Processor::Device).filter_map(|name| {
            let player = match name {
                "dense" | "bitmap" => "bitmap",
                COMBINED => "product",
                _ => "index",
            };
            Some((name, of_cpu().into_iter().find(|one| one.name() == player)?))
        });
        self.play(played.collect(), |task| {
            task.sides().map(|sets| 4 * sets.total_tokens() as u64).sum()
        })
    }

    /// Intersects two sets by the CPU's function, under the name of the technique. It is one piece of work.
    pub(crate) fn intersect(
        self,
        host: &dyn Host,
        (a, b): (&[u32], &[u32]),
        technique: Option<&'static str>,
        elements: bool,
    ) -> Result<DeviceIntersection> {
        let begin = Instant::now();
        let needed = 4 * (a.len() + b.len()) as u64;
        if needed > self.memory {
            return Err(too_little_memory(needed));
        }
        let mut common = elements.then(Vec::new);
        let size = match &mut common {
            None => host.intersect(a, b, None, None).size,
            Some(common) => {
                let mut take = |some: &[u32]| {
                    common.extend_from_slice(some);
                    ControlFlow::Continue(())
                };
                host.intersect(a, b, None, Some(&mut take)).size
            }
        };
        if self.fails(1, mixed((a.len() as u64) << 32 ^ b.len() as u64)) {
            return Err(failure());
        }
        let seconds = self.actual_seconds(self.seconds(begin.elapsed().as_secs_f64()));
        let first = registry::names(Subject::Intersections, Processor::Device).next();
        Ok(DeviceIntersection {
            size,
            elements: common,
            technique: technique.or(first).unwrap_or("none"),
            seconds: (self.latency, seconds - self.latency),
        })
    }

    /// Makes techniques of the device of those of the CPU. `resident` counts the bytes of rows that the device holds.
    fn play<K: Kind>(
        self,
        techniques: Vec<(&'static str, Box<dyn Technique<K>>)>,
        resident: fn(&Task<'_, K>) -> u64,
    ) -> Techniques<K> {
        let done = Arc::new(AtomicU64::new(0));
        let simulated = |(name, inner)| -> Box<dyn Technique<K>> {
            Box::new(OnSimulated { device: self, name, inner, resident, done: done.clone() })
        };
        techniques.into_iter().map(simulated).collect()
    }

    /// Returns the seconds that the planner expects the device to take for work of `seconds` on one core.
    pub(crate) fn seconds(&self, of_core: f64) -> f64 {
        self.latency + of_core / self.speed
    }

    /// Returns the virtual seconds that the device takes for work that is expected to take `seconds`.
    pub(crate) fn actual_seconds(&self, expected: f64) -> f64 {
        let latency = self.latency.min(expected);
        latency + (expected - latency) / self.actual
    }

    /// Returns whether a piece fails, given its number among those that the device runs, counted from 1, and its hash.
    pub(crate) fn fails(&self, nth: u64, piece: u64) -> bool {
        match self.fail {
            Fail::Part(part) => fraction(piece) < part,
            Fail::Nth(wanted) => nth == wanted,
        }
    }
}

impl fmt::Display for Simulated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Simulated { speed, memory, latency, .. } = self;
        write!(
            f,
            "the GPU is simulated: {speed} times the speed of a core, {memory} bytes of memory, {} ms before each tile",
            latency * 1e3
        )?;
        match self.fail {
            Fail::Part(0.0) => Ok(()),
            Fail::Part(part) => write!(f, ", {part} of the pieces fail"),
            Fail::Nth(nth) => write!(f, ", piece {nth} fails"),
        }
    }
}

fn failure() -> Error {
    Error::Unavailable("the simulated GPU failed".into())
}

fn too_little_memory(needed: u64) -> Error {
    let message = format!("the simulated GPU has too little memory: {needed} bytes are needed");
    Error::Unavailable(message)
}

/// A technique of the CPU that stands in for one of a device.
struct OnSimulated<K: Kind> {
    device: Simulated,
    name: &'static str,
    inner: Box<dyn Technique<K>>,
    resident: fn(&Task<'_, K>) -> u64,
    /// The number of pieces that the device has run so far.
    done: Arc<AtomicU64>,
}

impl<K: Kind> Technique<K> for OnSimulated<K> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn variant(&self) -> String {
        "simulated".into()
    }

    fn on_device(&self) -> bool {
        true
    }

    fn joins_any_range(&self) -> bool {
        self.inner.joins_any_range()
    }

    fn cost(&self, survey: &K::Survey<'_>, costs: &CostTable) -> Option<Cost> {
        let of_core = self.inner.cost(survey, costs)?.seconds(1);
        Some(Cost::of_serial(self.device.seconds(of_core)))
    }

    fn memory_bytes(&self, _: &Task<'_, K>, _: &K::Range, _: usize) -> u64 {
        0
    }

    fn device_bytes(&self, task: &Task<'_, K>, range: &K::Range, _: usize) -> u64 {
        (self.resident)(task) + self.inner.memory_bytes(task, range, 1)
    }

    fn device_at_most(&self, task: &Task<'_, K>, range: &K::Range, _: usize) -> u64 {
        (self.resident)(task) + self.inner.memory_at_most(task, range, 1)
    }

    fn prepare<'a>(
        &self,
        task: &Task<'a, K>,
        range: &K::Range,
        budget: &Budget,
    ) -> Result<Box<dyn Prepared<K> + 'a>> {
        let needed = self.device_bytes(task, range, 1);
        if needed > self.device.memory {
            return Err(too_little_memory(needed));
        }
        let bytes = budget.device_bytes.min(self.device.memory);
        let budget = Budget { bytes, threads: 1, ..*budget };
        Ok(Box::new(PreparedOnSimulated {
            device: self.device,
            task: *task,
            inner: self.inner.prepare(task, range, &budget)?,
            range: number_of(task, range),
            round: 0,
            done: self.done.clone(),
        }))
    }
}

/// Returns a hash of a range.
fn number_of<K: Kind>(task: &Task<'_, K>, range: &K::Range) -> u64 {
    let Work { probes, pairs, .. } = K::work(task, range);
    mixed(u64::from(probes.start) << 32 ^ pairs)
}

struct PreparedOnSimulated<'a, K: Kind> {
    device: Simulated,
    task: Task<'a, K>,
    inner: Box<dyn Prepared<K> + 'a>,
    /// The hash of the range.
    range: u64,
    round: usize,
    done: Arc<AtomicU64>,
}

impl<K: Kind> Prepared<K> for PreparedOnSimulated<'_, K> {
    fn details(&self) -> String {
        self.inner.details()
    }

    fn figures(&self) -> Vec<(&'static str, u64)> {
        self.inner.figures()
    }

    fn rounds(&self) -> usize {
        self.inner.rounds()
    }

    fn begin(&mut self, round: usize) -> Result<()> {
        self.round = round;
        self.inner.begin(round)
    }

    fn pieces(&self) -> usize {
        self.inner.pieces()
    }

    fn go_on(&mut self, range: &K::Range) -> bool {
        self.range = number_of(&self.task, range);
        self.inner.go_on(range)
    }

    /// Returns one, so that pieces are run in order, and fail in order.
    fn workers(&self) -> usize {
        1
    }

    fn worker<'w>(&'w self) -> Result<Box<dyn Worker<K> + 'w>> {
        Ok(Box::new(SimulatedWorker { prepared: self, inner: self.inner.worker()? }))
    }
}

struct SimulatedWorker<'w, 'a, K: Kind> {
    prepared: &'w PreparedOnSimulated<'a, K>,
    inner: Box<dyn Worker<K> + 'w>,
}

impl<K: Kind> Worker<K> for SimulatedWorker<'_, '_, K> {
    fn run(&mut self, piece: usize, sink: &mut dyn Sink<K::Pair>) -> Result<ControlFlow<()>> {
        let flow = self.inner.run(piece, sink)?;
        if flow.is_break() {
            return Ok(flow);
        }
        let PreparedOnSimulated { device, range, round, done, .. } = self.prepared;
        let nth = done.fetch_add(1, Ordering::Relaxed) + 1;
        // A failing piece fails at its end, after its pairs were handed on: the worst case.
        let number = range.wrapping_add((*round as u64) << 32 | piece as u64);
        if device.fails(nth, number) {
            return Err(failure());
        }
        Ok(flow)
    }

    fn candidates(&self) -> u64 {
        self.inner.candidates()
    }
}

/// Mixes the bits of a number. Not by `mix64`: recorded failures of simulated devices depend on these numbers.
fn mixed(number: u64) -> u64 {
    let mixed = (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

/// Hashes a number to [0, 1).
fn fraction(number: u64) -> f64 {
    (mixed(number) >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_is_parsed_from_its_text() {
        let device = Simulated::parse("speed=5,actual=2,memory=64M,latency=2,fail=0.2").unwrap();
        let expected = Simulated {
            speed: 5.0,
            actual: 2.0,
            latency: 0.002,
            memory: 64 << 20,
            fail: Fail::Part(0.2),
        };
        assert_eq!(device, expected);
        assert!(device.to_string().contains("5 times") && device.to_string().contains("2 ms"));
        assert_eq!(Simulated::parse("fail=@3").unwrap().fail, Fail::Nth(3));
        for wrong in [
            "",
            "speed",
            "speed=0",
            "speed=x",
            "fail=2",
            "fail=@0",
            "fail=@x",
            "memory=lots",
            "colour=red",
            "actual=0",
        ] {
            let said = Simulated::parse(wrong).unwrap_err().to_string();
            assert!(said.contains(VARIABLE), "{said}");
        }
    }

    #[test]
    fn true_speed_may_differ_from_the_one_that_is_believed() {
        let device = Simulated::parse("speed=4,actual=0.5,latency=1000").unwrap();
        let expected = device.seconds(8.0);
        assert_eq!((expected, device.actual_seconds(expected)), (3.0, 5.0));
    }

    #[test]
    fn failures_are_as_frequent_as_asked_for() {
        let below = |limit: f64| (0..10_000).filter(|&n| fraction(n) < limit).count();
        assert!((900..1100).contains(&below(0.1)));
        assert_eq!((below(0.0), below(1.0)), (0, 10_000));
        let device = Simulated::parse("fail=@3").unwrap();
        let failed: Vec<u64> = (1..9).filter(|&nth| device.fails(nth, 7)).collect();
        assert_eq!(failed, [3]);
    }
}
