//! Which GPUs and which compiler for them are there?

use crate::errors::OrRaise;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use simjoin::engine::{Error, Machine};

/// Lists the devices, each as a dictionary of its properties. The list is empty if none can be used.
#[pyfunction]
pub fn devices(py: Python<'_>) -> PyResult<Bound<'_, PyList>> {
    let found = PyList::empty(py);
    // A simulated device replaces the real ones.
    if let Some(what) = Machine::from_environment().or_raise(py)?.simulated_device() {
        let device = PyDict::new(py);
        device.set_item("name", what)?;
        device.set_item("ordinal", py.None())?;
        device.set_item("memory", py.None())?;
        device.set_item("capability", py.None())?;
        device.set_item("driver", py.None())?;
        found.append(device)?;
        return Ok(found);
    }
    let devices = match py.detach(simjoin::engine::devices) {
        // There is no driver, or none of its devices is visible.
        Err(Error::Unavailable(_)) => return Ok(found),
        devices => devices.or_raise(py)?,
    };
    for device in devices {
        let info = &device.info;
        let device = PyDict::new(py);
        device.set_item("name", &info.name)?;
        device.set_item("ordinal", info.ordinal)?;
        device.set_item("memory", info.memory)?;
        device.set_item("capability", info.capability)?;
        device.set_item("driver", info.driver)?;
        found.append(device)?;
    }
    Ok(found)
}

/// Returns the version of NVRTC, the compiler for GPUs. If there is none, the error says how to get it.
#[pyfunction]
pub fn nvrtc_version(py: Python<'_>) -> PyResult<(i32, i32)> {
    py.detach(|| simjoin_gpu::Nvrtc::get().map(simjoin_gpu::Nvrtc::version)).or_raise(py)
}
