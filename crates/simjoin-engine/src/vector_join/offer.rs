//! Who joins vectors: CPU cores, devices, or both at once?
//!
//! [`Offer`] says which techniques there are to choose from, and looks for devices only where they are asked
//! for, or where the CPU would take longer than it takes to wake one up. [`Pieces`] deals the pieces of a join that
//! CPU and devices share.
//!
//! # Both at once
//!
//! A nested loop on CPU cores and one on a device have the same pieces: a stripe of probes with all that they
//! meet. Devices take stripes from the front of the queue, CPU cores from its back, where the stripes of a
//! self-join are smallest. How fast both are is estimated at first and measured as they go, by a virtual clock beside a
//! simulated device; a core takes a stripe only if it
//! is expected to be done with it before the devices would be done with everything, and waits otherwise: devices may
//! turn out to be slower.
//!
//! # Faults
//!
//! A device that fails gives the stripe that it was at back to the cores, which do it and all that is left. No
//! stripe is lost, and no pair is handed on twice: those of a stripe wait until it is complete, and where there are too
//! many of them to wait, a failure ends the join (`vector_stage.rs`).

use super::{GPU_VECTOR_TECHNIQUES, VECTOR_TECHNIQUES};
use crate::clock::Clock;
use crate::costs::CostTable;
use crate::host::{DeviceVectors, Fit, Host, VectorTechniques};
use crate::kind::Vectors;
use crate::machine::{Machine, Simulated, VectorsOnSimulated};
use crate::report::Engine;
use crate::technique::{Technique, Techniques};
use crate::vectors::{STRIPE, VectorSurvey, VectorTask};
use simjoin_core::{Error, Result};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Seconds on the CPU from which a device is looked for: twice what it takes to wake one up.
const WAKE_UP: f64 = 0.6;

/// What both at once must promise, over the better side alone, for `auto` to let them: estimates are off by more than
/// a little. Not measured on a GPU: by its estimates, an H200 is far too fast beside 16 cores for it.
const BOTH: f64 = 0.9;

/// Techniques, and what is known about the join.
pub(crate) struct Offer {
    engine: Engine,
    /// `auto`, or a technique's name.
    name: String,
    device_memory: u64,
    /// Bytes that pairs of devices wait in.
    held: u64,
    /// Whether `auto` may let both work at once.
    both: bool,
    machine: Machine,
    host: &'static dyn Host,
}

/// What was chosen.
pub(crate) struct Chosen {
    pub(crate) technique: Box<dyn Technique<Vectors>>,
    /// What CPU cores do beside devices.
    pub(crate) beside: Option<Box<dyn Technique<Vectors>>>,
    pub(crate) engine: Engine,
    /// Every technique that was thought of, with its estimated seconds.
    pub(crate) considered: Vec<(&'static str, Option<f64>)>,
    pub(crate) rotated: bool,
    /// Seconds for a pair on one core and on devices, where both work.
    pub(crate) pair_seconds: [f64; 2],
}

impl Offer {
    /// Says what is wrong with the choice before any work is done.
    pub(crate) fn new(
        engine: Engine,
        name: &str,
        (device_memory, held): (u64, u64),
        machine: Machine,
        host: &'static dyn Host,
    ) -> Result<Self> {
        if engine == Engine::Cpu && name.starts_with("gpu-") {
            return Err(engine.lacks(name, &VECTOR_TECHNIQUES, &GPU_VECTOR_TECHNIQUES));
        }
        let mut name = name.to_owned();
        if engine == Engine::Gpu && name != "auto" && !name.starts_with("gpu-") {
            name = format!("gpu-{name}");
        }
        if engine == Engine::Hybrid && name == "nested-loop" {
            name = "gpu-nested-loop".into();
        }
        if engine == Engine::Hybrid
            && !matches!(name.as_str(), "auto" | "gpu-nested-loop" | "gpu-tensor")
        {
            return Err(Error::Config(format!(
                "technique {name} has no pieces that CPU and GPU could share; expected gpu-tensor or \
                 gpu-nested-loop for --engine hybrid"
            )));
        }
        let offer = Offer { engine, name, device_memory, held, both: true, machine, host };
        if offer.must_have_devices() {
            offer.on_devices(None, false)?;
        }
        Ok(offer)
    }

    fn must_have_devices(&self) -> bool {
        matches!(self.engine, Engine::Gpu | Engine::Hybrid) || self.name.starts_with("gpu-")
    }

    /// Every technique of devices; `beside`: those that share their pieces with CPU cores.
    fn on_devices(&self, fit: Option<&Fit>, shared: bool) -> Result<Techniques<Vectors>> {
        let memory = self.device_memory;
        let Some(device) = self.machine.simulated() else {
            let how = DeviceVectors { fit: fit.cloned(), memory, shared };
            return Ok(self.host.devices()?.vector_techniques(how));
        };
        let simulated = |name| -> Box<dyn Technique<Vectors>> {
            Box::new(VectorsOnSimulated {
                device,
                name,
                of: self.host.striped_loop(STRIPE),
                stripe: STRIPE,
                memory,
                scale: self.machine.scale(),
            })
        };
        Ok(GPU_VECTOR_TECHNIQUES.into_iter().map(simulated).collect())
    }

    /// A technique that needs no look at the data beforehand.
    fn plain(&self) -> Result<Option<Chosen>> {
        let plain = matches!(self.name.as_str(), "gpu-tensor" | "gpu-nested-loop");
        // Of a simulated device it must be known what it takes.
        if !plain || self.engine == Engine::Hybrid || self.machine.simulated().is_some() {
            return Ok(None);
        }
        let technique =
            self.on_devices(None, false)?.into_iter().find(|one| one.name() == self.name);
        Ok(technique.map(|technique| Chosen {
            technique,
            beside: None,
            engine: Engine::Gpu,
            considered: Vec::new(),
            rotated: false,
            pair_seconds: [0.0; 2],
        }))
    }

    /// Chooses a technique; `None` where none has room.
    pub(crate) fn choose(
        &self,
        join: &VectorTask<'_>,
        bytes: u64,
        threads: usize,
    ) -> Result<Option<Chosen>> {
        if let Some(chosen) = self.plain()? {
            return Ok(Some(chosen));
        }
        let VectorTechniques { all, survey, fit } = self.host.vector_techniques(join);
        let able = |one: &dyn Technique<Vectors>| self.bytes_of(one, join, threads) <= bytes;
        let seconds = |one: &dyn Technique<Vectors>| {
            let cost = one.cost(&survey, &CostTable::default()).filter(|_| able(one))?;
            Some(match one.on_device() {
                true => cost.serial,
                false => self.machine.scale() * cost.shared / threads as f64,
            })
        };
        let least = |all: &[Box<dyn Technique<Vectors>>]| {
            all.iter().filter_map(|one| seconds(&**one)).fold(f64::INFINITY, f64::min)
        };
        let mut offered = match self.engine {
            Engine::Gpu => self.on_devices(Some(&fit), false)?,
            Engine::Hybrid => {
                let both = self.both(join, &survey, (bytes, threads))?;
                return Ok(both.map(|(_, chosen)| chosen));
            }
            _ if self.name.starts_with("gpu-") => self.on_devices(Some(&fit), false)?,
            _ => all,
        };
        // A simulated device never sleeps.
        let simulated = self.machine.simulated().is_some();
        let worth_looking = if simulated { 0.0 } else { WAKE_UP };
        if self.engine == Engine::Auto && self.name == "auto" && least(&offered) > worth_looking {
            let asleep = !self.host.awake() && !simulated;
            // Whoever has no device needs none.
            if let Ok(more) = self.on_devices(Some(&fit), false) {
                let wake_up = if asleep { WAKE_UP / 2.0 } else { 0.0 };
                let (of_cpu, of_device) = (least(&offered), least(&more) + wake_up);
                if self.both
                    && let Some((both, mut chosen)) = self.both(join, &survey, (bytes, threads))?
                    && both + wake_up < BOTH * of_cpu.min(of_device)
                {
                    let all = offered.iter().chain(&more);
                    chosen.considered = all.map(|one| (one.name(), seconds(&**one))).collect();
                    return Ok(Some(chosen));
                }
                if of_device < of_cpu {
                    let rest = std::mem::replace(&mut offered, more);
                    offered.extend(rest);
                }
            }
        }
        let considered = offered.iter().map(|one| (one.name(), seconds(&**one))).collect();
        let named = |one: &dyn Technique<Vectors>| self.name == "auto" || one.name() == self.name;
        let mut best: Option<(f64, Box<dyn Technique<Vectors>>)> = None;
        for one in offered {
            let fits = able(&*one);
            let cost = match self.name.as_str() {
                "auto" => seconds(&*one),
                // What was asked for is done, whatever it costs.
                _ => Some(0.0),
            };
            if let Some(cost) = cost.filter(|_| fits && named(&*one))
                && best.as_ref().is_none_or(|(least, _)| cost < *least)
            {
                best = Some((cost, one));
            }
        }
        Ok(best.map(|(_, technique)| Chosen {
            engine: if technique.on_device() { Engine::Gpu } else { Engine::Cpu },
            technique,
            beside: None,
            considered,
            rotated: survey.rotated,
            pair_seconds: [0.0; 2],
        }))
    }

    /// What CPU cores had best do without devices; `None` where nothing has room.
    pub(crate) fn on_cpu(
        join: &VectorTask<'_>,
        bytes: u64,
        threads: usize,
        machine: Machine,
        host: &'static dyn Host,
    ) -> Result<Option<Chosen>> {
        let (engine, name) = (Engine::Cpu, "auto".into());
        let cpu = Offer { engine, name, device_memory: 0, held: 0, both: false, machine, host };
        cpu.choose(join, bytes, threads)
    }

    /// The same without both at once.
    pub(crate) fn by_one_side(self) -> Self {
        Offer { both: false, ..self }
    }

    /// Bytes that the pairs of a technique wait in.
    pub(crate) fn held_for(&self, one: &dyn Technique<Vectors>) -> u64 {
        if one.on_device() { self.held } else { 0 }
    }

    /// Bytes of the host that a technique takes, pairs that wait included.
    fn bytes_of(&self, one: &dyn Technique<Vectors>, join: &VectorTask<'_>, threads: usize) -> u64 {
        one.memory_bytes(join, &(..), threads) + self.held_for(one)
    }

    /// A nested loop on CPU cores beside the better one of devices, and the seconds that both are expected to take.
    fn both(
        &self,
        join: &VectorTask<'_>,
        survey: &VectorSurvey,
        (bytes, threads): (u64, usize),
    ) -> Result<Option<(f64, Chosen)>> {
        let cpu = self.host.striped_loop(STRIPE);
        let mut best: Option<(f64, Box<dyn Technique<Vectors>>)> = None;
        let mut considered = Vec::new();
        for one in self.on_devices(None, true)? {
            let shared = matches!(one.name(), "gpu-tensor" | "gpu-nested-loop");
            if !shared || (self.name != "auto" && one.name() != self.name) {
                continue;
            }
            let cost = one.cost(survey, &CostTable::default()).map(|cost| cost.serial);
            considered.push((one.name(), cost));
            if let Some(cost) = cost
                && best.as_ref().is_none_or(|(least, _)| cost < *least)
            {
                best = Some((cost, one));
            }
        }
        let Some((of_device, technique)) = best else { return Ok(None) };
        let memory =
            self.bytes_of(&*technique, join, threads) + cpu.memory_bytes(join, &(..), threads);
        if memory > bytes {
            return Ok(None);
        }
        let of_core = cpu.cost(survey, &CostTable::default());
        let of_core = of_core.map(|cost| self.machine.scale() * cost.shared);
        let of_cores = of_core.map(|seconds| seconds / threads as f64);
        considered.push((cpu.name(), of_cores));
        let pairs = survey.pairs.max(1.0);
        let (of_core, of_cores) =
            (of_core.unwrap_or(f64::INFINITY), of_cores.unwrap_or(f64::INFINITY));
        let chosen = Chosen {
            technique,
            beside: Some(cpu),
            engine: Engine::Hybrid,
            considered,
            rotated: false,
            pair_seconds: [of_core / pairs, of_device / pairs],
        };
        Ok(Some((1.0 / (1.0 / of_cores + 1.0 / of_device), chosen)))
    }

    /// The limit of memory that what was asked for needs at least, with so many bytes for other things.
    pub(crate) fn least_memory(&self, join: &VectorTask<'_>, threads: usize, other: u64) -> u64 {
        let VectorTechniques { all, fit, .. } = self.host.vector_techniques(join);
        let devices = self.must_have_devices();
        let all =
            if devices { self.on_devices(Some(&fit), false).unwrap_or_default() } else { all };
        let named = all.iter().filter(|one| self.name == "auto" || one.name() == self.name);
        let beside = match self.engine {
            Engine::Hybrid => self.host.striped_loop(STRIPE).memory_bytes(join, &(..), threads),
            _ => 0,
        };
        let least =
            named.map(|one| one.memory_bytes(join, &(..), threads) + beside).min().unwrap_or(0);
        // Sixteenths of the memory that are left beside rows on their way out and pairs that wait.
        let left = if devices { 13 } else { 14 };
        least.saturating_add(other).saturating_mul(16) / left + 1
    }
}

/// Which of two sides takes a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taker {
    Core,
    Device,
}

/// The pieces of a join: given out in order to one side, or from both ends to two.
pub(crate) struct Pieces {
    state: Mutex<Dealt>,
    /// Something has changed that cores may wait for.
    changed: Condvar,
    /// Pairs of each piece.
    amounts: Vec<f64>,
    shared: bool,
    clock: Clock,
    /// The device whose time is virtual, and the seconds of a core for a pair.
    simulated: Option<(Simulated, f64)>,
    /// Threads that attend to devices, and those among them and among cores that have come.
    attendants: usize,
    come: [AtomicUsize; 2],
}

struct Dealt {
    front: usize,
    back: usize,
    /// What devices have given back.
    returned: Vec<usize>,
    /// Threads that attend to devices.
    attendants: usize,
    /// Pairs that are left.
    left: f64,
    /// Seconds for a pair, on a core and on devices.
    pair_seconds: [f64; 2],
    /// Pairs and seconds that either side has done.
    done: [(f64, f64); 2],
    /// Pieces that either side is at, and since when both are at some.
    at: [usize; 2],
    both_since: Option<f64>,
    /// Seconds in which both were.
    both: f64,
}

impl Dealt {
    /// A side begins or ends a piece.
    fn change(&mut self, taker: Taker, now: f64, change: impl Fn(usize) -> usize) {
        let at = &mut self.at[taker as usize];
        *at = change(*at);
        match (self.at.iter().all(|&at| at > 0), self.both_since) {
            (true, None) => self.both_since = Some(now),
            (false, Some(since)) => {
                self.both += now - since;
                self.both_since = None;
            }
            _ => {}
        }
    }

    fn end(&mut self, taker: Taker, now: f64) {
        self.change(taker, now, |at| at.saturating_sub(1));
    }
}

/// What there is for a side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Piece(usize),
    /// Nothing as yet, but devices may fail, or be slower than expected.
    Later,
    Nothing,
}

impl Pieces {
    /// So many pieces for one side.
    pub(crate) fn new(pieces: usize) -> Self {
        Self::with(vec![1.0; pieces], false, [0.0; 2], 0, None)
    }

    /// Stripes of a join for so many cores and for devices, to which so many threads attend.
    pub(crate) fn shared(
        join: &VectorTask<'_>,
        pair_seconds: [f64; 2],
        (cores, attendants): (usize, usize),
        machine: &Machine,
    ) -> Self {
        let amounts = stripes(join).collect();
        let clock = machine.clock(cores + attendants);
        let simulated = machine.simulated().map(|device| (clock, device));
        Self::with(amounts, true, pair_seconds, attendants, simulated)
    }

    fn with(
        amounts: Vec<f64>,
        shared: bool,
        pair_seconds: [f64; 2],
        attendants: usize,
        simulated: Option<(Clock, Simulated)>,
    ) -> Self {
        let (back, left) = (amounts.len(), amounts.iter().sum());
        let state = Dealt {
            front: 0,
            back,
            returned: Vec::new(),
            attendants,
            left,
            pair_seconds,
            done: [(0.0, 0.0); 2],
            at: [0; 2],
            both_since: None,
            both: 0.0,
        };
        let (clock, simulated) = match simulated {
            Some((clock, device)) => (clock, Some((device, pair_seconds[0]))),
            None => (Clock::real(), None),
        };
        Pieces {
            state: Mutex::new(state),
            changed: Condvar::new(),
            amounts,
            shared,
            clock,
            simulated,
            attendants,
            come: Default::default(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.amounts.len()
    }

    /// How many pieces were taken from the front.
    pub(crate) fn taken(&self) -> usize {
        self.lock().front
    }

    /// One more core, or thread that attends to a device, which is going to take pieces.
    pub(crate) fn hand(&self, taker: Taker) -> Hand<'_> {
        let number = self.come[taker as usize].fetch_add(1, Ordering::Relaxed);
        let worker = if taker == Taker::Core { self.attendants + number } else { number };
        Hand { pieces: self, taker, number, worker, seconds: 0.0 }
    }

    fn next(&self, state: &mut Dealt, taker: Taker) -> Next {
        let cores_share = self.shared && taker == Taker::Core;
        if cores_share && let Some(piece) = state.returned.pop() {
            return Next::Piece(piece);
        }
        let later = if cores_share && state.attendants > 0 { Next::Later } else { Next::Nothing };
        if state.front >= state.back {
            return later;
        }
        if cores_share {
            let piece = state.back - 1;
            let own = self.amounts[piece] * state.pair_seconds[0];
            if later == Next::Later && own > state.left * state.pair_seconds[1] {
                return later;
            }
            state.back -= 1;
            return Next::Piece(piece);
        }
        state.front += 1;
        Next::Piece(state.front - 1)
    }

    /// The virtual seconds that a piece takes one of a side.
    fn virtual_seconds(&self, taker: Taker, piece: usize) -> f64 {
        let Some((device, of_pair)) = self.simulated else { return 0.0 };
        let of_core = self.amounts[piece] * of_pair;
        match taker {
            Taker::Core => of_core,
            Taker::Device => device.actual_seconds(device.seconds(of_core)),
        }
    }

    /// The part of the pairs that devices did.
    pub(crate) fn device_part(&self) -> f64 {
        let state = self.lock();
        let [core, device] = [state.done[0].0, state.done[1].0];
        if core + device > 0.0 { device / (core + device) } else { 0.0 }
    }

    /// The seconds in which cores and devices were at something at once.
    pub(crate) fn both(&self) -> f64 {
        self.lock().both
    }

    /// The seconds that all of it took by the virtual clock, if that is used.
    pub(crate) fn all_virtual_seconds(&self) -> Option<f64> {
        self.clock.virtual_seconds()
    }

    fn lock(&self) -> MutexGuard<'_, Dealt> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Pairs of the stripes of a join.
fn stripes(join: &VectorTask<'_>) -> impl Iterator<Item = f64> {
    let nothing = join.probe.is_empty() || join.build.is_empty();
    let stripes = if nothing { 0 } else { join.probe.len().div_ceil(STRIPE) };
    (0..stripes).map(|piece| {
        let first = piece * STRIPE;
        let probes = STRIPE.min(join.probe.len() - first) as f64;
        let met = if join.is_self_join() { join.probe.len() - first } else { join.build.len() };
        probes * met as f64
    })
}

/// A core, or a thread that attends to a device. When it is dropped, it takes no more pieces.
pub(crate) struct Hand<'p> {
    pieces: &'p Pieces,
    taker: Taker,
    /// Its number among those of its kind, and as a worker of the clock.
    pub(crate) number: usize,
    worker: usize,
    /// The virtual seconds of the piece that it is at.
    seconds: f64,
}

/// A piece that was taken, with its begin and duration in virtual time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Taken {
    pub(crate) piece: usize,
    pub(crate) span: Option<(f64, f64)>,
}

impl Hand<'_> {
    /// Takes the next piece, as long as there is anything to `go_on` with. Cores that would not be done in time
    /// wait for what becomes of devices.
    pub(crate) fn take(&mut self, go_on: impl Fn() -> bool) -> Option<Taken> {
        let Hand { pieces, taker, worker, .. } = *self;
        let clock = &pieces.clock;
        let mut now = clock.turn(worker);
        let mut state = pieces.lock();
        while go_on() {
            match pieces.next(&mut state, taker) {
                Next::Piece(piece) => {
                    state.left -= pieces.amounts[piece];
                    state.change(taker, now, |at| at + 1);
                    self.seconds = pieces.virtual_seconds(taker, piece);
                    let begin = clock.busy(worker, self.seconds);
                    let span = clock.is_virtual().then_some((begin, self.seconds));
                    return Some(Taken { piece, span });
                }
                Next::Nothing => return None,
                Next::Later if clock.is_virtual() => {
                    drop(state);
                    clock.wait_for(worker, 0);
                    now = clock.turn(worker);
                    state = pieces.lock();
                }
                Next::Later => {
                    state = pieces.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                    now = clock.now(worker);
                }
            }
        }
        None
    }

    /// A piece is done, in so many seconds, beside so many others of its kind.
    pub(crate) fn done(&mut self, piece: usize, seconds: f64, others: usize) {
        let Hand { pieces, taker, worker, .. } = *self;
        let now = pieces.clock.turn(worker);
        let seconds = if pieces.clock.is_virtual() { self.seconds } else { seconds };
        let mut state = pieces.lock();
        state.end(taker, now);
        let done = &mut state.done[taker as usize];
        done.0 += pieces.amounts[piece];
        // Devices work on several pieces at once; a core on one.
        done.1 += if taker == Taker::Device { seconds / others.max(1) as f64 } else { seconds };
        let (pairs, seconds) = *done;
        if pairs > 0.0 {
            state.pair_seconds[taker as usize] = seconds / pairs;
        }
        pieces.changed.notify_all();
    }

    /// A device has failed to do a piece.
    pub(crate) fn give_back(&mut self, piece: usize) {
        let pieces = self.pieces;
        let now = pieces.clock.turn(self.worker);
        let mut state = pieces.lock();
        state.end(self.taker, now);
        state.left += pieces.amounts[piece];
        state.returned.push(piece);
        pieces.changed.notify_all();
    }
}

impl Drop for Hand<'_> {
    fn drop(&mut self) {
        if self.taker == Taker::Device {
            let mut state = self.pieces.lock();
            state.attendants = state.attendants.saturating_sub(1);
            self.pieces.changed.notify_all();
        }
        self.pieces.clock.end(self.worker);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(amounts: &[f64], pair_seconds: [f64; 2]) -> Pieces {
        Pieces::with(amounts.to_vec(), true, pair_seconds, 1, None)
    }

    fn take(hand: &mut Hand<'_>) -> Option<usize> {
        hand.take(|| true).map(|taken| taken.piece)
    }

    fn next(pieces: &Pieces, taker: Taker) -> Next {
        pieces.next(&mut pieces.lock(), taker)
    }

    #[test]
    fn every_piece_is_dealt_once() {
        let pieces = pieces(&[8.0, 6.0, 4.0, 2.0], [1.0, 1.0]);
        let (mut device, mut core) = (pieces.hand(Taker::Device), pieces.hand(Taker::Core));
        assert_eq!(take(&mut device), Some(0));
        assert_eq!(take(&mut core), Some(3));
        assert_eq!(take(&mut device), Some(1));
        assert_eq!(take(&mut core), Some(2));
        assert_eq!(take(&mut device), None);
        // As long as the device may fail, a core is there.
        assert_eq!(next(&pieces, Taker::Core), Next::Later);
        drop(device);
        assert_eq!(take(&mut core), None);
        // Both are at two pieces, as long as neither has ended them.
        assert_eq!(pieces.lock().at, [2, 2]);
        assert_eq!(pieces.both(), 0.0);
        for piece in [3, 2] {
            core.done(piece, 1.0, 1);
        }
        assert!(pieces.both() > 0.0 && pieces.lock().both_since.is_none());
        assert_eq!(pieces.device_part(), 0.0);
    }

    #[test]
    fn cores_take_only_what_they_can_do_in_time() {
        let pieces = pieces(&[8.0, 8.0, 8.0], [10.0, 1.0]);
        let (mut device, mut core) = (pieces.hand(Taker::Device), pieces.hand(Taker::Core));
        // 80 seconds on a core; 24 for all of it on the device.
        assert_eq!(next(&pieces, Taker::Core), Next::Later);
        assert_eq!(take(&mut device), Some(0));
        // It turns out to be slower than that.
        device.done(0, 800.0, 1);
        assert_eq!(take(&mut core), Some(2));
        assert_eq!(take(&mut device), Some(1));
    }

    #[test]
    fn cores_do_what_a_device_gives_back_and_all_that_it_leaves() {
        let pieces = pieces(&[8.0, 8.0, 8.0], [10.0, 1.0]);
        let mut device = pieces.hand(Taker::Device);
        assert_eq!(take(&mut device), Some(0));
        std::thread::scope(|scope| {
            // It waits, since the device would be done before it.
            let core = scope.spawn(|| {
                let mut core = pieces.hand(Taker::Core);
                std::iter::from_fn(|| take(&mut core)).collect::<Vec<_>>()
            });
            device.give_back(0);
            drop(device);
            let mut done = core.join().unwrap();
            done.sort_unstable();
            assert_eq!(done, [0, 1, 2]);
        });
    }

    #[test]
    fn core_that_waits_takes_nothing_when_the_join_is_over() {
        let pieces = pieces(&[8.0, 8.0, 8.0], [10.0, 1.0]);
        let device = pieces.hand(Taker::Device);
        let over = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            let core =
                scope.spawn(|| pieces.hand(Taker::Core).take(|| !over.load(Ordering::SeqCst)));
            over.store(true, Ordering::SeqCst);
            drop(device);
            assert_eq!(core.join().unwrap(), None);
        });
    }

    #[test]
    fn one_side_takes_all_in_order() {
        let pieces = Pieces::new(3);
        let mut core = pieces.hand(Taker::Core);
        let taken: Vec<_> = std::iter::from_fn(|| take(&mut core)).collect();
        assert_eq!(taken, [0, 1, 2]);
    }

    /// Shares 12 pieces of 10 pairs, for each of which a core takes a second, between two cores and a simulated device,
    /// which fails at a piece; returns who took what when, the device's part, and when all was done.
    fn simulate(device: &str, fails_at: Option<usize>) -> (Vec<(usize, usize, f64)>, f64, f64) {
        let device = Simulated::parse(device).unwrap();
        let believed = device.seconds(10.0) / 10.0;
        let clock = Clock::simulated(3);
        let pieces = Pieces::with(vec![10.0; 12], true, [1.0, believed], 1, Some((clock, device)));
        let taken = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for taker in [Taker::Core, Taker::Device, Taker::Core] {
                let (pieces, taken) = (&pieces, &taken);
                scope.spawn(move || {
                    let mut hand = pieces.hand(taker);
                    while let Some(Taken { piece, span }) = hand.take(|| true) {
                        taken.lock().unwrap().push((hand.worker, piece, span.unwrap().0));
                        if taker == Taker::Device && fails_at == Some(piece) {
                            hand.give_back(piece);
                            break;
                        }
                        hand.done(piece, 0.0, 1);
                    }
                });
            }
        });
        let mut taken = taken.into_inner().unwrap();
        // Both cores take at the same time, and either may be the first one.
        taken.sort_by(|a, b| a.2.total_cmp(&b.2).then(a.0.cmp(&b.0)));
        (taken, pieces.device_part(), pieces.all_virtual_seconds().unwrap())
    }

    #[test]
    fn simulated_device_gets_its_part_by_its_speed() {
        for _ in 0..100 {
            // As fast as four cores: eight of twelve pieces, while two cores do two each.
            let (taken, part, seconds) = simulate("speed=4", None);
            let of_device = taken.iter().filter(|one| one.0 == 0).map(|one| one.1);
            assert_eq!(of_device.collect::<Vec<_>>(), (0..8).collect::<Vec<_>>());
            assert_eq!((part, seconds), (8.0 / 12.0, 20.0));
            // Far faster: cores see that they would be the last, and wait.
            let (taken, part, seconds) = simulate("speed=1000", None);
            assert!(taken.iter().all(|one| one.0 == 0) && taken.len() == 12);
            assert!(part == 1.0 && (0.11..0.13).contains(&seconds));
        }
    }

    #[test]
    fn cores_help_when_a_device_is_slower_than_believed() {
        let (taken, part, seconds) = simulate("speed=1000,actual=0.001", None);
        // The first piece shows it, after ten seconds. Then all three are as fast.
        assert_eq!(taken.iter().filter(|one| one.2 < 10.0).count(), 1);
        assert_eq!((part, seconds), (5.0 / 12.0, 50.0));
    }

    #[test]
    fn cores_do_the_rest_when_a_simulated_device_fails() {
        let (taken, part, seconds) = simulate("speed=4", Some(1));
        // It fails at the end of its second piece, at five seconds.
        assert_eq!(taken.iter().filter(|one| one.0 == 0).count(), 2);
        assert_eq!((part, seconds), (1.0 / 12.0, 60.0));
        assert_eq!(taken.len(), 13);
    }
}
