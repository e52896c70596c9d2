//! What if there were a GPU?
//!
//! A simulated device runs `bitmap` and `prefix-bitmap` on one thread of the CPU, with a speed, a
//! memory and a tendency to fail of one's choice. Its pairs are real, so what is done with a device can
//! be tested where there is none: `SIMJOIN_SIMULATED_GPU=speed=0.5,memory=64M,latency=2,fail=0.1`. Vectors are
//! joined on it by a nested loop (`simulated_vectors.rs`).
//!
//! * `speed`: relative to one core. A slower device sleeps. One faster than a core cannot be had; beside
//!   it the cores sleep instead, as if time were stretched, so that both end when they would. Alone it is
//!   only believed to be fast.
//! * `memory`: bytes, as for `--device-memory`.
//! * `latency`: milliseconds before each piece.
//! * `fail`: the part of the pieces that fail; which ones follows from the tile and the piece.
//! * `rest`: the part of a divided join that is kept back for the side that is done first, however long the
//!   join takes.

use crate::threads::Attendants;
use simjoin_core::{Error, PairSink, Result};
use simjoin_cpu::{Bitmap, PrefixBitmap};
use simjoin_plan::{
    Cost, Join, Prepared, Room, Span, Survey, Technique, Tile, Trace, Unit, Units, Worker,
};
use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The environment variable that asks for a simulated device.
pub const VARIABLE: &str = "SIMJOIN_SIMULATED_GPU";

/// A device that is none.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Simulated {
    speed: f64,
    pub(crate) memory: u64,
    latency: Duration,
    fail: f64,
    rest: Option<f64>,
}

impl Simulated {
    /// The one that the environment asks for, if it does.
    pub(crate) fn asked_for() -> Result<Option<Self>> {
        let Some(text) = std::env::var_os(VARIABLE).filter(|text| !text.is_empty()) else {
            return Ok(None);
        };
        Self::parse(&text.to_string_lossy()).map(Some)
    }

    fn parse(text: &str) -> Result<Self> {
        let wrong = |what: &str| {
            Error::Config(format!(
                "{VARIABLE}: {what:?} is not understood; expected such as \
                 speed=5,memory=64M,latency=2,fail=0.1"
            ))
        };
        let mut device = Simulated {
            speed: 1.0,
            memory: 1 << 30,
            latency: Duration::ZERO,
            fail: 0.0,
            rest: None,
        };
        for part in text.split(',') {
            let (name, value) = part.split_once('=').ok_or_else(|| wrong(part))?;
            let number = || value.parse().ok().filter(|&number: &f64| number.is_finite());
            let within = |low: f64, high: f64| {
                number().filter(|number| (low..=high).contains(number)).ok_or_else(|| wrong(part))
            };
            match name.trim() {
                "speed" => device.speed = within(0.001, 1e6)?,
                "latency" => device.latency = Duration::from_secs_f64(within(0.0, 1e6)? / 1e3),
                "fail" => device.fail = within(0.0, 1.0)?,
                "rest" => device.rest = Some(within(0.01, 0.99)?),
                "memory" => {
                    let bytes = crate::size::bytes(value).ok_or_else(|| wrong(part))?;
                    device.memory = bytes;
                }
                _ => return Err(wrong(part)),
            }
        }
        Ok(device)
    }

    /// What it can do, alone or beside the CPU.
    pub(crate) fn techniques(self, stretch: Option<&Stretch>) -> Vec<Box<dyn Technique>> {
        let device = self.beside(stretch);
        let simulated = |name, inner| -> Box<dyn Technique> {
            Box::new(OnSimulated { device, name, inner, stretch: stretch.cloned() })
        };
        vec![
            simulated("gpu-bitmap", Box::new(Bitmap { words: 4 })),
            simulated("gpu-prefix", Box::new(PrefixBitmap { words: 1 })),
        ]
    }

    /// The same by a stretched clock.
    pub(crate) fn beside(mut self, stretch: Option<&Stretch>) -> Self {
        if let Some(stretch) = stretch {
            self.speed /= stretch.factor;
            self.latency = self.latency.mul_f64(stretch.factor);
        }
        self
    }

    /// Seconds for what takes a core so many.
    pub(crate) fn seconds(&self, of_core: f64) -> f64 {
        self.latency.as_secs_f64() + of_core / self.speed
    }

    /// Waits as long as it takes to answer.
    pub(crate) fn wait(&self) {
        std::thread::sleep(self.latency);
    }

    /// Whether this piece of work fails, by its number.
    pub(crate) fn fails(&self, number: u64) -> bool {
        fraction(number) < self.fail
    }

    /// How the clock is stretched beside it.
    pub(crate) fn stretch(&self) -> Stretch {
        Stretch { factor: self.speed.max(1.0), rest: self.rest, over: Arc::default() }
    }
}

/// A clock that goes slower, until the device fails.
#[derive(Clone, Debug)]
pub(crate) struct Stretch {
    factor: f64,
    rest: Option<f64>,
    over: Arc<AtomicBool>,
}

impl Stretch {
    /// What is to be kept back.
    pub(crate) fn rest(&self) -> Option<f64> {
        self.rest
    }

    /// From now on the CPU is alone.
    pub(crate) fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    /// The CPU's techniques in stretched time.
    pub(crate) fn slowed(&self, techniques: Vec<Box<dyn Technique>>) -> Vec<Box<dyn Technique>> {
        if self.is_none() {
            return techniques;
        }
        let slowed =
            |inner| -> Box<dyn Technique> { Box::new(Slowed { inner, stretch: self.clone() }) };
        techniques.into_iter().map(slowed).collect()
    }

    /// Whether there is anything to it.
    pub(crate) fn is_none(&self) -> bool {
        self.factor == 1.0
    }

    /// How many times as long everything takes.
    pub(crate) fn factor(&self) -> f64 {
        self.factor
    }

    /// Sleeps for what something would have taken longer.
    pub(crate) fn sleep(&self, begin: Instant) {
        let until = begin + begin.elapsed().mul_f64(self.factor);
        // In short naps: the device may fail meanwhile.
        while !self.over.load(Ordering::Relaxed) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            std::thread::sleep(left.min(Duration::from_millis(2)));
        }
    }
}

/// A technique of the CPU in stretched time.
struct Slowed {
    inner: Box<dyn Technique>,
    stretch: Stretch,
}

impl Technique for Slowed {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn variant(&self) -> String {
        self.inner.variant()
    }

    fn cost(&self, survey: &Survey<'_>, units: &Units) -> Option<Cost> {
        let Cost { serial, shared } = self.inner.cost(survey, units)?;
        let factor = self.stretch.factor;
        Some(Cost { serial: serial * factor, shared: shared * factor })
    }

    fn memory_bytes(&self, join: &Join<'_>, tile: &Tile, threads: usize) -> u64 {
        self.inner.memory_bytes(join, tile, threads)
    }

    fn memory_at_most(&self, join: &Join<'_>, tile: &Tile, threads: usize) -> u64 {
        self.inner.memory_at_most(join, tile, threads)
    }

    fn prepare<'a>(
        &self,
        join: &Join<'a>,
        tile: &Tile,
        room: &Room,
    ) -> Result<Box<dyn Prepared + 'a>> {
        let begin = Instant::now();
        let inner = self.inner.prepare(join, tile, room)?;
        self.stretch.sleep(begin);
        Ok(Box::new(SlowedPrepared { inner, stretch: self.stretch.clone() }))
    }
}

struct SlowedPrepared<'a> {
    inner: Box<dyn Prepared + 'a>,
    stretch: Stretch,
}

impl Prepared for SlowedPrepared<'_> {
    fn rounds(&self) -> usize {
        self.inner.rounds()
    }

    fn begin(&mut self, round: usize) -> Result<()> {
        let begin = Instant::now();
        self.inner.begin(round)?;
        self.stretch.sleep(begin);
        Ok(())
    }

    fn pieces(&self) -> usize {
        self.inner.pieces()
    }

    fn workers(&self) -> usize {
        self.inner.workers()
    }

    fn worker<'a>(&'a self) -> Result<Box<dyn Worker + 'a>> {
        Ok(Box::new(SlowedWorker { inner: self.inner.worker()?, stretch: &self.stretch }))
    }
}

struct SlowedWorker<'a> {
    inner: Box<dyn Worker + 'a>,
    stretch: &'a Stretch,
}

impl Worker for SlowedWorker<'_> {
    fn run(&mut self, piece: usize, sink: &mut dyn PairSink) -> Result<ControlFlow<()>> {
        let begin = Instant::now();
        let flow = self.inner.run(piece, sink)?;
        self.stretch.sleep(begin);
        Ok(flow)
    }

    fn candidates(&self) -> u64 {
        self.inner.candidates()
    }
}

impl Simulated {
    /// Sleeps for what a device that is slower than a core takes longer; the seconds that it takes.
    pub(crate) fn sleep_after(&self, busy: Duration) -> f64 {
        let simulated = busy.as_secs_f64() / self.speed;
        std::thread::sleep(Duration::from_secs_f64((simulated - busy.as_secs_f64()).max(0.0)));
        simulated
    }

    /// Prepares something as slowly as the device does, by one thread, however many could help.
    fn timed<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let begin = Instant::now();
        let done = match Attendants::take(1) {
            Ok(one) => one.install(work),
            Err(_) => work(),
        };
        self.sleep_after(begin.elapsed());
        done
    }
}

impl fmt::Display for Simulated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Simulated { speed, memory, latency, fail, .. } = self;
        write!(
            f,
            "the GPU is simulated: {speed} times the speed of a core, {memory} bytes of memory, \
             {latency:?} before each piece, {fail} of the pieces fail"
        )
    }
}

/// A CPU technique in the part of a device's.
struct OnSimulated {
    device: Simulated,
    name: &'static str,
    inner: Box<dyn Technique>,
    stretch: Option<Stretch>,
}

impl Technique for OnSimulated {
    fn name(&self) -> &'static str {
        self.name
    }

    fn variant(&self) -> String {
        "simulated".into()
    }

    fn on_device(&self) -> bool {
        true
    }

    fn cost(&self, survey: &Survey<'_>, units: &Units) -> Option<Cost> {
        let seconds = self.inner.cost(survey, units)?.seconds(1);
        Some(Cost { serial: self.device.seconds(seconds), shared: 0.0 })
    }

    fn memory_bytes(&self, _: &Join<'_>, _: &Tile, _: usize) -> u64 {
        0
    }

    fn device_bytes(&self, join: &Join<'_>, tile: &Tile, _: usize) -> u64 {
        self.inner.memory_bytes(join, tile, 1)
    }

    fn device_at_most(&self, join: &Join<'_>, tile: &Tile, _: usize) -> u64 {
        self.inner.memory_at_most(join, tile, 1)
    }

    fn prepare<'a>(
        &self,
        join: &Join<'a>,
        tile: &Tile,
        room: &Room,
    ) -> Result<Box<dyn Prepared + 'a>> {
        let fits = self.device_at_most(join, tile, 1) <= self.device.memory;
        let needed = if fits { 0 } else { self.device_bytes(join, tile, 1) };
        if needed > self.device.memory {
            self.stretch.iter().for_each(Stretch::end);
            return Err(too_little_memory(needed));
        }
        let room = Room { bytes: room.device_bytes.min(self.device.memory), threads: 1, ..*room };
        let inner = self.device.timed(|| self.inner.prepare(join, tile, &room))?;
        let failures = Arc::new(AtomicU64::new(u64::from(tile.probes.start) << 20));
        let stretch = self.stretch.clone();
        Ok(Box::new(PreparedOnSimulated {
            device: self.device,
            inner,
            failures,
            stretch,
            spans: room.spans,
        }))
    }
}

struct PreparedOnSimulated<'a> {
    device: Simulated,
    inner: Box<dyn Prepared + 'a>,
    /// Counts pieces, over all rounds; a failure follows from the number.
    failures: Arc<AtomicU64>,
    stretch: Option<Stretch>,
    spans: bool,
}

impl Prepared for PreparedOnSimulated<'_> {
    fn rounds(&self) -> usize {
        self.inner.rounds()
    }

    fn begin(&mut self, round: usize) -> Result<()> {
        let inner = &mut self.inner;
        self.device.timed(|| inner.begin(round))
    }

    fn pieces(&self) -> usize {
        self.inner.pieces()
    }

    fn workers(&self) -> usize {
        1
    }

    fn worker<'a>(&'a self) -> Result<Box<dyn Worker + 'a>> {
        Ok(Box::new(SimulatedWorker {
            device: self.device,
            inner: self.inner.worker()?,
            failures: &self.failures,
            stretch: self.stretch.as_ref(),
            trace: Trace::default(),
            spans: self.spans.then(Vec::new),
        }))
    }
}

struct SimulatedWorker<'a> {
    device: Simulated,
    inner: Box<dyn Worker + 'a>,
    failures: &'a AtomicU64,
    stretch: Option<&'a Stretch>,
    trace: Trace,
    spans: Option<Vec<Span>>,
}

impl Worker for SimulatedWorker<'_> {
    fn run(&mut self, piece: usize, sink: &mut dyn PairSink) -> Result<ControlFlow<()>> {
        self.device.wait();
        let begin = Instant::now();
        let flow = self.inner.run(piece, sink)?;
        let simulated = self.device.sleep_after(begin.elapsed());
        if let Some(spans) = &mut self.spans {
            let (by, what) = (Unit::Stream, "filter and verify");
            spans.push(Span { by, what, begin, end: Instant::now() });
        }
        self.trace.filter += simulated;
        self.trace.waited += simulated;
        // A piece that fails does so at its end, with its pairs handed on: the worst moment.
        let number = self.failures.fetch_add(1, Ordering::Relaxed);
        if self.device.fails(number) {
            self.stretch.into_iter().for_each(Stretch::end);
            return Err(failed());
        }
        Ok(flow)
    }

    fn candidates(&self) -> u64 {
        self.inner.candidates()
    }

    fn trace(&self) -> Trace {
        self.trace
    }

    fn spans(&mut self) -> Vec<Span> {
        self.spans.as_mut().map(std::mem::take).unwrap_or_default()
    }
}

/// What is said where it has failed.
pub(crate) fn failed() -> Error {
    Error::Unavailable("the simulated GPU failed".into())
}

/// What is said where something does not fit.
pub(crate) fn too_little_memory(needed: u64) -> Error {
    let message = format!("the simulated GPU has too little memory: {needed} bytes are needed");
    Error::Unavailable(message)
}

/// A number from 0 to 1 that looks as if it had nothing to do with this one.
fn fraction(number: u64) -> f64 {
    let mixed = (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (mixed >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_what_the_text_says() {
        let device = Simulated::parse("speed=5,memory=64M,latency=2,fail=0.2,rest=0.5").unwrap();
        let latency = Duration::from_millis(2);
        let (memory, rest) = (64 << 20, Some(0.5));
        assert_eq!(device, Simulated { speed: 5.0, memory, latency, fail: 0.2, rest });
        assert!(device.to_string().contains("5 times"));
        for wrong in ["", "speed", "speed=0", "speed=x", "fail=2", "memory=lots", "colour=red"] {
            let said = Simulated::parse(wrong).unwrap_err().to_string();
            assert!(said.contains(VARIABLE), "{said}");
        }
    }

    #[test]
    fn failures_are_as_frequent_as_asked_for() {
        let below = |limit: f64| (0..10_000).filter(|&n| fraction(n) < limit).count();
        assert!((900..1100).contains(&below(0.1)));
        assert_eq!((below(0.0), below(1.0)), (0, 10_000));
    }
}
