//! How does the engine reach the GPUs of this machine?

use crate::{GpuVectors, IntersectKernel, Nvrtc, VectorWay, techniques};
use simjoin_core::Result;
use simjoin_engine::{
    CandidateFilter, Device, DeviceIntersection, DeviceVectors, Overlaps, Sets, Technique,
    Techniques, Vectors,
};

/// Returns the GPUs of this machine, or an error that says why none can be used.
pub fn gpus() -> Result<&'static dyn Device> {
    crate::devices()?;
    Nvrtc::get()?;
    Ok(&Gpus)
}

/// Opens the GPU that [`intersect_on_first`] uses, or returns an error that says why there is none.
pub fn open_first() -> Result<()> {
    crate::first_device()?;
    Nvrtc::get().map(drop)
}

/// Intersects two ascending sets on the first GPU with the named kernel, or with the most suitable one if no
/// name is given.
pub fn intersect_on_first(
    a: &[u32],
    b: &[u32],
    technique: Option<&str>,
    elements: bool,
) -> Result<DeviceIntersection> {
    let kernel = technique.and_then(IntersectKernel::named);
    let found = crate::intersect(crate::first_device()?, a, b, kernel, elements)?;
    Ok(DeviceIntersection {
        size: found.size,
        elements: found.elements,
        technique: found.technique,
        seconds: (found.transfer, found.kernel),
    })
}

/// Returns the names of the GPUs that can be used.
pub fn gpu_names() -> Vec<String> {
    let devices = crate::devices().unwrap_or_default();
    devices.iter().map(|device| device.info.name.clone()).collect()
}

/// All GPUs that can be used.
struct Gpus;

impl Device for Gpus {
    fn set_techniques(&self, filters: &[&'static dyn CandidateFilter]) -> Techniques<Sets> {
        techniques(crate::devices().unwrap_or_default(), filters)
    }

    fn vector_techniques(&self, how: DeviceVectors) -> Techniques<Vectors> {
        let DeviceVectors { fit, memory, shared } = how;
        let devices = crate::devices().unwrap_or_default();
        let technique = |way| -> Box<dyn Technique<Vectors>> {
            Box::new(GpuVectors {
                fit: fit.clone(),
                memory,
                stripes: shared,
                patient: shared,
                ..GpuVectors::new(devices, way)
            })
        };
        // Other ways order the rows, so their pieces are no stripes.
        let able =
            |way: &VectorWay| !shared || matches!(way, VectorWay::Tensor | VectorWay::NestedLoop);
        VectorWay::ALL.into_iter().filter(able).map(technique).collect()
    }

    fn overlap_techniques(&self) -> Techniques<Overlaps> {
        let devices = crate::devices().unwrap_or_default();
        devices.first().map(crate::overlap_techniques).unwrap_or_default()
    }

    fn free_memory(&self) -> u64 {
        let devices = crate::devices().unwrap_or_default();
        // A device that has failed also fails at its next work, which the CPU then does.
        let free = devices.iter().map(|device| device.free_memory().unwrap_or(u64::MAX));
        free.min().unwrap_or(u64::MAX)
    }
}
