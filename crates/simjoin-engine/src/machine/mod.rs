//! What does the planner assume about the machine, and which clock does a join run by?
//!
//! A [`Machine`] holds what would otherwise depend on where a join runs: the cost table that plans are made
//! with, what techniques took in past runs, the device, and the clock. A join takes it as a parameter, or from two
//! environment variables:
//!
//! * `SIMJOIN_MACHINE=calibrated` (the default) measures the machine once and learns from past runs.
//!   `SIMJOIN_MACHINE=fixed` plans with the built-in cost table, `fixed:10` with one that is ten times as slow.
//!   A fixed machine measures nothing, learns nothing, and leaves `calibration` and `rates` in the user's cache
//!   folder alone.
//! * `SIMJOIN_SIMULATED_GPU=speed=5` adds a simulated device. The machine is then fixed and the clock virtual
//!   (`clock.rs`), so plans and the division of work are the same everywhere.

mod calibration;
mod corrections;
mod learned;
mod simulated;

pub(crate) use corrections::Corrections;
pub(crate) use simulated::Simulated;
pub use simulated::VARIABLE as SIMULATED_GPU;

use crate::clock::Clock;
use crate::costs::CostTable;
use crate::host::{DeviceVectors, Host};
use crate::overlaps::{OverlapSurvey, Overlaps};
use crate::report::StepReport;
use crate::sets::Sets;
use crate::technique::{Technique, Techniques};
use crate::vectors::{Fit, STRIPE, Vectors};
use simjoin_core::{Error, Result};
use std::sync::Arc;

/// The environment variable that chooses the machine.
pub const VARIABLE: &str = "SIMJOIN_MACHINE";

/// The machine that a join is planned for, and the clock that it runs by.
///
/// ```
/// use simjoin_engine::Machine;
///
/// // A tenth as fast as the built-in cost table says, with a device that is five times as fast as a core.
/// let machine = Machine::fixed().scaled(10.0).simulating("speed=5")?;
/// # Ok::<(), simjoin_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Machine {
    /// The factor on the built-in cost table; `None` to measure the machine, and to let past runs correct estimates.
    factor: Option<f64>,
    simulated: Option<Simulated>,
}

impl Machine {
    /// Returns a machine that is measured once and corrected by past runs. Both are kept in the user's cache folder.
    pub fn calibrated() -> Self {
        Machine::default()
    }

    /// Returns a machine with the built-in cost table. Nothing is measured, learned, or kept.
    pub fn fixed() -> Self {
        Machine { factor: Some(1.0), simulated: None }
    }

    /// Multiplies the cost table by a factor. The machine is fixed from then on.
    pub fn scaled(self, factor: f64) -> Self {
        Machine { factor: Some(self.scale() * factor), ..self }
    }

    /// Adds a simulated device, given in the words of `SIMJOIN_SIMULATED_GPU`, such as `speed=5,latency=2`. The machine
    /// is fixed from then on, and its clock virtual.
    pub fn simulating(self, device: &str) -> Result<Self> {
        Ok(Machine { simulated: Some(Simulated::parse(device)?), ..self.scaled(1.0) })
    }

    /// Returns the machine that the environment asks for.
    pub fn from_environment() -> Result<Self> {
        let read = |name: &str| std::env::var_os(name).filter(|text| !text.is_empty());
        let machine = match read(VARIABLE) {
            Some(text) => Self::parse(&text.to_string_lossy())?,
            None => Machine::calibrated(),
        };
        match read(simulated::VARIABLE) {
            Some(device) => machine.simulating(&device.to_string_lossy()),
            None => Ok(machine),
        }
    }

    fn parse(text: &str) -> Result<Self> {
        let factor = match text {
            "calibrated" => return Ok(Machine::calibrated()),
            "fixed" => Some(1.0),
            _ => text.strip_prefix("fixed:").and_then(|factor| factor.parse().ok()),
        };
        match factor.filter(|factor| (1e-6..=1e6).contains(factor)) {
            Some(factor) => Ok(Machine::fixed().scaled(factor)),
            None => Err(Error::Config(format!(
                "{VARIABLE}: {text:?} is not a machine; expected calibrated, fixed, or fixed:FACTOR such as \
                 fixed:10"
            ))),
        }
    }

    /// Describes the simulated device, if there is one.
    pub fn simulated_device(&self) -> Option<String> {
        self.simulated.map(|device| device.to_string())
    }

    /// Returns the simulated device, if there is one.
    pub(crate) fn simulated(&self) -> Option<Simulated> {
        self.simulated
    }

    /// Returns the factor of a fixed machine on the built-in cost table.
    pub(crate) fn scale(&self) -> f64 {
        self.factor.unwrap_or(1.0)
    }

    /// Returns the cost table as far as it is known, and whether it needs no measuring.
    pub(crate) fn costs(&self) -> (CostTable, bool) {
        match self.factor {
            None => calibration::costs(),
            Some(factor) => (CostTable::default().times(factor), true),
        }
    }

    /// Returns the cost table after measuring the machine, unless it is fixed.
    pub(crate) fn measured_costs(&self, host: &dyn Host) -> CostTable {
        match self.factor {
            None => calibration::calibrated(host),
            Some(_) => self.costs().0,
        }
    }

    /// Returns the corrections of estimates for joins on a number of threads.
    pub(crate) fn corrections(&self, host: &dyn Host, threads: usize) -> Corrections {
        match self.factor {
            None => learned::corrections(host, threads),
            Some(_) => Corrections::default(),
        }
    }

    /// Records the times of techniques that ran one after the other, or at once, unless the machine is fixed.
    pub(crate) fn learn(
        &self,
        host: &dyn Host,
        threads: usize,
        at_once: bool,
        steps: &[StepReport],
    ) {
        if self.factor.is_none() && host.awake() {
            learned::learn(host, threads, at_once, steps);
        }
    }

    /// Returns the techniques of all devices for sets.
    pub(crate) fn device_techniques(&self, host: &dyn Host) -> Result<Techniques<Sets>> {
        match self.simulated() {
            Some(device) => Ok(device.set_techniques(host.set_techniques())),
            None => Ok(host.devices()?.set_techniques(&host.filters())),
        }
    }

    /// Returns the techniques of all devices for vectors; `shared`: including those that can share a join with the CPU.
    pub(crate) fn device_vector_techniques(
        &self,
        host: &'static dyn Host,
        fit: Option<&Arc<Fit>>,
        memory: u64,
        shared: bool,
    ) -> Result<Techniques<Vectors>> {
        if let Some(device) = self.simulated() {
            return Ok(device.vector_techniques(|| striped_loop(host)));
        }
        let of = |shared| -> Result<Techniques<Vectors>> {
            let how = DeviceVectors { fit: fit.cloned(), memory, shared };
            Ok(host.devices()?.vector_techniques(how))
        };
        let mut all = of(false)?;
        if shared {
            all.extend(of(true)?);
        }
        Ok(all)
    }

    /// Returns the techniques of all devices for overlaps.
    pub(crate) fn device_overlap_techniques(
        &self,
        host: &dyn Host,
        survey: &OverlapSurvey,
    ) -> Result<Techniques<Overlaps>> {
        match self.simulated() {
            Some(device) => Ok(device.overlap_techniques(|| host.overlap_techniques(survey))),
            None => Ok(host.devices()?.overlap_techniques()),
        }
    }

    /// Returns the bytes that a join may take on each device: the given limit, or the free memory.
    pub(crate) fn device_memory(&self, host: &dyn Host, limit: u64) -> Result<u64> {
        if limit != u64::MAX {
            return Ok(limit);
        }
        if let Some(device) = self.simulated() {
            return Ok(device.memory);
        }
        let free = host.devices()?.free_memory();
        // The driver needs a little.
        Ok(free - free / 20)
    }

    /// Returns a clock for a number of workers. It is virtual if the device is simulated.
    pub(crate) fn clock(&self, workers: usize) -> Clock {
        if self.simulated.is_some() { Clock::simulated(workers) } else { Clock::real() }
    }
}

/// Returns the technique for vectors by which CPU cores share a join.
pub(crate) fn striped_loop(host: &dyn Host) -> Box<dyn Technique<Vectors>> {
    host.striped_loop(STRIPE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_is_parsed_from_its_text() {
        assert_eq!(Machine::parse("calibrated").unwrap(), Machine::calibrated());
        assert_eq!(Machine::parse("fixed").unwrap(), Machine::fixed());
        assert_eq!(Machine::parse("fixed:0.1").unwrap().scale(), 0.1);
        for wrong in ["fast", "fixed:", "fixed:x", "fixed:0", "fixed:-1", "fixed:inf", "fixed:NaN"]
        {
            let said = Machine::parse(wrong).unwrap_err().to_string();
            assert!(said.contains(VARIABLE) && said.contains(wrong), "{said}");
        }
    }

    #[test]
    fn simulated_device_fixes_the_machine_and_its_clock() {
        let machine = Machine::calibrated().simulating("speed=2").unwrap();
        assert_eq!(machine.costs(), (CostTable::default(), true));
        assert_eq!(machine.costs().0, CostTable::default());
        assert!(machine.clock(2).is_virtual() && !Machine::fixed().clock(2).is_virtual());
    }

    #[test]
    fn scaled_machine_has_a_scaled_cost_table() {
        let (costs, known) = Machine::fixed().scaled(10.0).costs();
        assert!(known && costs.start == 10.0 * CostTable::default().start);
        let twice = Machine::fixed().scaled(2.0).simulating("speed=2").unwrap().scaled(3.0);
        assert_eq!(twice.scale(), 6.0);
    }
}
