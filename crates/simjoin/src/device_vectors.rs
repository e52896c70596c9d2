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
//! self-join are smallest. How fast both are is estimated at first and measured as they go; a core takes a stripe only if it
//! is expected to be done with it before the devices would be done with everything.

use crate::join::{Engine, simulated_gpu};
use crate::vectors::{GPU_VECTOR_TECHNIQUES, VECTOR_TECHNIQUES};
use simjoin_core::{Error, Result};
use simjoin_cpu::{Fit, StripedLoop, VectorTechniques};
use simjoin_gpu::{GpuVectors, VectorWay};
use simjoin_plan::{PreparedVectors, VectorJoin, VectorRoom, VectorSurvey, VectorTechnique};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Seconds on the CPU from which a device is looked for: twice what it takes to wake one up.
const WAKE_UP: f64 = 0.6;

/// Rows of a stripe: as many as a device has tiles of beside each other.
const STRIPE: usize = GpuVectors::STRIPE;

/// Techniques, and what is known about the join.
pub(crate) struct Offer {
    engine: Engine,
    /// `auto`, or a technique's name.
    name: String,
    device_memory: u64,
}

/// What was chosen.
pub(crate) struct Chosen {
    pub(crate) technique: Box<dyn VectorTechnique>,
    /// What CPU cores do beside devices.
    pub(crate) beside: Option<Box<dyn VectorTechnique>>,
    pub(crate) engine: Engine,
    /// Every technique that was thought of, with its estimated seconds.
    pub(crate) considered: Vec<(&'static str, Option<f64>)>,
    pub(crate) rotated: bool,
    /// Seconds for a pair on one core and on devices, where both work.
    pub(crate) pair_seconds: [f64; 2],
}

impl Offer {
    /// Says what is wrong with the choice before any work is done.
    pub(crate) fn new(engine: Engine, name: &str, device_memory: u64) -> Result<Self> {
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
        let offer = Offer { engine, name, device_memory };
        if offer.must_have_devices() {
            offer.on_devices(None)?;
        }
        Ok(offer)
    }

    fn must_have_devices(&self) -> bool {
        matches!(self.engine, Engine::Gpu | Engine::Hybrid) || self.name.starts_with("gpu-")
    }

    /// Every technique of devices.
    fn on_devices(&self, fit: Option<&Arc<Fit>>) -> Result<Vec<Box<dyn VectorTechnique>>> {
        if simulated_gpu()?.is_some() {
            let of = |way: VectorWay| -> Box<dyn VectorTechnique> {
                Box::new(Simulated { name: way.name(), of: StripedLoop { stripe: STRIPE } })
            };
            return Ok(VectorWay::ALL.into_iter().map(of).collect());
        }
        let devices = simjoin_gpu::devices()?;
        simjoin_gpu::Nvrtc::get()?;
        let of = |way: VectorWay| -> Box<dyn VectorTechnique> {
            Box::new(GpuVectors {
                fit: fit.cloned(),
                memory: self.device_memory,
                stripes: self.engine == Engine::Hybrid,
                patient: self.engine == Engine::Hybrid,
                ..GpuVectors::new(devices, way)
            })
        };
        Ok(VectorWay::ALL.into_iter().map(of).collect())
    }

    /// A technique that needs no look at the data beforehand.
    fn plain(&self) -> Result<Option<Chosen>> {
        let plain = matches!(self.name.as_str(), "gpu-tensor" | "gpu-nested-loop");
        if !plain || self.engine == Engine::Hybrid {
            return Ok(None);
        }
        let technique = self.on_devices(None)?.into_iter().find(|one| one.name() == self.name);
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
        join: &VectorJoin<'_>,
        bytes: u64,
        threads: usize,
    ) -> Result<Option<Chosen>> {
        if let Some(chosen) = self.plain()? {
            return Ok(Some(chosen));
        }
        let VectorTechniques { all, survey, fit } = VectorTechniques::new(join);
        let seconds = |one: &dyn VectorTechnique| {
            let able = one.memory_bytes(join, threads) <= bytes;
            let cost = one.cost(&survey).filter(|_| able)?;
            Some(if one.on_device() { cost } else { cost / threads as f64 })
        };
        let least = |all: &[Box<dyn VectorTechnique>]| {
            all.iter().filter_map(|one| seconds(&**one)).fold(f64::INFINITY, f64::min)
        };
        let mut offered = match self.engine {
            Engine::Gpu => self.on_devices(Some(&fit))?,
            Engine::Hybrid => return self.both(join, &survey, (bytes, threads)),
            _ if self.name.starts_with("gpu-") => self.on_devices(Some(&fit))?,
            _ => all,
        };
        if self.engine == Engine::Auto && self.name == "auto" && least(&offered) > WAKE_UP {
            let asleep = !simjoin_gpu::opened() && simulated_gpu()?.is_none();
            // Whoever has no device needs none.
            if let Ok(more) = self.on_devices(Some(&fit)) {
                let wake_up = if asleep { WAKE_UP / 2.0 } else { 0.0 };
                if least(&more) + wake_up < least(&offered) {
                    let rest = std::mem::replace(&mut offered, more);
                    offered.extend(rest);
                }
            }
        }
        let considered = offered.iter().map(|one| (one.name(), seconds(&**one))).collect();
        let named = |one: &dyn VectorTechnique| self.name == "auto" || one.name() == self.name;
        let mut best: Option<(f64, Box<dyn VectorTechnique>)> = None;
        for one in offered {
            let fits = one.memory_bytes(join, threads) <= bytes;
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

    /// A nested loop on CPU cores beside the better one of devices.
    fn both(
        &self,
        join: &VectorJoin<'_>,
        survey: &VectorSurvey,
        (bytes, threads): (u64, usize),
    ) -> Result<Option<Chosen>> {
        let cpu = StripedLoop { stripe: STRIPE };
        let mut best: Option<(f64, Box<dyn VectorTechnique>)> = None;
        let mut considered = Vec::new();
        for one in self.on_devices(None)? {
            let shared = matches!(one.name(), "gpu-tensor" | "gpu-nested-loop");
            if !shared || (self.name != "auto" && one.name() != self.name) {
                continue;
            }
            let cost = one.cost(survey);
            considered.push((one.name(), cost));
            if let Some(cost) = cost
                && best.as_ref().is_none_or(|(least, _)| cost < *least)
            {
                best = Some((cost, one));
            }
        }
        let Some((seconds, technique)) = best else { return Ok(None) };
        let memory = technique.memory_bytes(join, threads) + cpu.memory_bytes(join, threads);
        if memory > bytes {
            return Ok(None);
        }
        let alone = cpu.cost(survey);
        considered.push((cpu.name(), alone.map(|alone| alone / threads as f64)));
        let pairs = survey.pairs.max(1.0);
        Ok(Some(Chosen {
            technique,
            beside: Some(Box::new(cpu)),
            engine: Engine::Hybrid,
            considered,
            rotated: false,
            pair_seconds: [alone.unwrap_or(f64::INFINITY) / pairs, seconds / pairs],
        }))
    }

    /// The bytes that what was asked for needs at least.
    pub(crate) fn least_bytes(&self, join: &VectorJoin<'_>, threads: usize) -> u64 {
        let VectorTechniques { all, fit, .. } = VectorTechniques::new(join);
        let mut all = all;
        if self.must_have_devices() {
            all = self.on_devices(Some(&fit)).unwrap_or_default();
        }
        let named = all.iter().filter(|one| self.name == "auto" || one.name() == self.name);
        let beside = match self.engine {
            Engine::Hybrid => StripedLoop { stripe: STRIPE }.memory_bytes(join, threads),
            _ => 0,
        };
        named.map(|one| one.memory_bytes(join, threads) + beside).min().unwrap_or(0)
    }
}

/// A device that is none: a core that does what it would, in a plain way.
struct Simulated {
    name: &'static str,
    of: StripedLoop,
}

impl VectorTechnique for Simulated {
    fn name(&self) -> &'static str {
        self.name
    }

    fn on_device(&self) -> bool {
        true
    }

    fn cost(&self, survey: &VectorSurvey) -> Option<f64> {
        self.of.cost(survey)
    }

    fn memory_bytes(&self, join: &VectorJoin<'_>, threads: usize) -> u64 {
        self.of.memory_bytes(join, threads)
    }

    fn prepare<'a>(
        &self,
        join: &VectorJoin<'a>,
        room: &VectorRoom,
    ) -> Result<Box<dyn PreparedVectors + 'a>> {
        self.of.prepare(join, room)
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
    /// Pairs of each piece.
    amounts: Vec<f64>,
    shared: bool,
}

struct Dealt {
    front: usize,
    back: usize,
    /// Pairs that are left.
    left: f64,
    /// Seconds for a pair, on a core and on devices.
    pair_seconds: [f64; 2],
    /// Pairs and seconds that either side has done.
    done: [(f64, f64); 2],
}

impl Pieces {
    /// So many pieces for one side.
    pub(crate) fn new(pieces: usize) -> Self {
        Self::with(vec![1.0; pieces], false, [0.0; 2])
    }

    /// Stripes of a join for cores and devices.
    pub(crate) fn shared(join: &VectorJoin<'_>, pair_seconds: [f64; 2]) -> Self {
        let amounts = (0..join.probe.len().div_ceil(STRIPE)).map(|piece| {
            let first = piece * STRIPE;
            let probes = STRIPE.min(join.probe.len() - first) as f64;
            let met = if join.itself { join.probe.len() - first } else { join.build.len() };
            probes * met as f64
        });
        Self::with(amounts.collect(), true, pair_seconds)
    }

    fn with(amounts: Vec<f64>, shared: bool, pair_seconds: [f64; 2]) -> Self {
        let (back, left) = (amounts.len(), amounts.iter().sum());
        let state = Dealt { front: 0, back, left, pair_seconds, done: [(0.0, 0.0); 2] };
        Pieces { state: Mutex::new(state), amounts, shared }
    }

    pub(crate) fn len(&self) -> usize {
        self.amounts.len()
    }

    /// The next piece for a side; `None` where there is none, or none that would be done in time.
    pub(crate) fn take(&self, taker: Taker) -> Option<usize> {
        let mut state = self.lock();
        if state.front >= state.back {
            return None;
        }
        let piece = match taker {
            Taker::Core if self.shared => {
                let piece = state.back - 1;
                let own = self.amounts[piece] * state.pair_seconds[0];
                if own > state.left * state.pair_seconds[1] {
                    return None;
                }
                state.back -= 1;
                piece
            }
            _ => {
                state.front += 1;
                state.front - 1
            }
        };
        state.left -= self.amounts[piece];
        Some(piece)
    }

    /// A side has done a piece in so many seconds, beside so many others of its kind.
    pub(crate) fn done(&self, taker: Taker, piece: usize, seconds: f64, others: usize) {
        let side = usize::from(taker == Taker::Device);
        let mut state = self.lock();
        let done = &mut state.done[side];
        done.0 += self.amounts[piece];
        // Devices work on several pieces at once; a core on one.
        done.1 += if side == 1 { seconds / others.max(1) as f64 } else { seconds };
        let (pairs, seconds) = *done;
        if pairs > 0.0 {
            state.pair_seconds[side] = seconds / pairs;
        }
    }

    /// The part of the pairs that devices did.
    pub(crate) fn device_part(&self) -> f64 {
        let state = self.lock();
        let [core, device] = [state.done[0].0, state.done[1].0];
        if core + device > 0.0 { device / (core + device) } else { 0.0 }
    }

    fn lock(&self) -> MutexGuard<'_, Dealt> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_piece_is_dealt_once() {
        let pieces = Pieces::with(vec![8.0, 6.0, 4.0, 2.0], true, [1.0, 1.0]);
        assert_eq!(pieces.take(Taker::Device), Some(0));
        assert_eq!(pieces.take(Taker::Core), Some(3));
        assert_eq!(pieces.take(Taker::Device), Some(1));
        assert_eq!(pieces.take(Taker::Core), Some(2));
        assert_eq!((pieces.take(Taker::Core), pieces.take(Taker::Device)), (None, None));
    }

    #[test]
    fn cores_take_only_what_they_can_do_in_time() {
        let pieces = Pieces::with(vec![8.0, 8.0, 8.0], true, [10.0, 1.0]);
        // 80 seconds on a core; 24 for all of it on the device.
        assert_eq!(pieces.take(Taker::Core), None);
        assert_eq!(pieces.take(Taker::Device), Some(0));
        // It turns out to be slower than that.
        pieces.done(Taker::Device, 0, 800.0, 1);
        assert_eq!(pieces.take(Taker::Core), Some(2));
        assert_eq!(pieces.take(Taker::Device), Some(1));
    }

    #[test]
    fn one_side_takes_all_in_order() {
        let pieces = Pieces::new(3);
        let taken: Vec<_> = std::iter::from_fn(|| pieces.take(Taker::Core)).collect();
        assert_eq!(taken, [0, 1, 2]);
    }
}
