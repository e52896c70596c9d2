//! The NVIDIA GPUs of this machine.

use simjoin_core::Result;
use simjoin_engine::{
    Device, DeviceIntersection, DeviceVectors, Overlaps, Sets, Technique, Techniques, Vectors,
};
use simjoin_gpu::{GpuVectors, IntersectKernel, Nvrtc, VectorWay};

/// Returns the version of NVRTC, which compiles for GPUs, or says why it cannot.
pub fn compiler() -> Result<(i32, i32)> {
    Nvrtc::get().map(Nvrtc::version)
}

pub(crate) fn devices() -> Result<&'static dyn Device> {
    simjoin_gpu::devices()?;
    Nvrtc::get()?;
    Ok(&Gpus)
}

pub(crate) fn first_device() -> Result<()> {
    simjoin_gpu::first_device()?;
    Nvrtc::get().map(drop)
}

pub(crate) fn awake() -> bool {
    simjoin_gpu::opened()
}

pub(crate) fn names() -> Vec<String> {
    let devices = simjoin_gpu::devices().unwrap_or_default();
    devices.iter().map(|device| device.info.name.clone()).collect()
}

pub(crate) fn intersect(
    a: &[u32],
    b: &[u32],
    technique: Option<&str>,
    elements: bool,
) -> Result<DeviceIntersection> {
    let kernel = technique.and_then(IntersectKernel::named);
    let found = simjoin_gpu::intersect(simjoin_gpu::first_device()?, a, b, kernel, elements)?;
    Ok(DeviceIntersection {
        size: found.size,
        elements: found.elements,
        technique: found.technique,
        seconds: (found.transfer, found.kernel),
    })
}

/// All GPUs that can be used.
struct Gpus;

impl Device for Gpus {
    fn set_techniques(&self) -> Techniques<Sets> {
        let devices = simjoin_gpu::devices().unwrap_or_default();
        simjoin_gpu::techniques(devices, &simjoin_cpu::filters())
    }

    fn vector_techniques(&self, how: DeviceVectors) -> Techniques<Vectors> {
        let DeviceVectors { fit, memory, shared } = how;
        let devices = simjoin_gpu::devices().unwrap_or_default();
        let technique = |way| -> Box<dyn Technique<Vectors>> {
            Box::new(GpuVectors {
                fit: fit.clone(),
                memory,
                stripes: shared,
                patient: shared,
                ..GpuVectors::new(devices, way)
            })
        };
        VectorWay::ALL.into_iter().map(technique).collect()
    }

    fn overlap_techniques(&self) -> Techniques<Overlaps> {
        let devices = simjoin_gpu::devices().unwrap_or_default();
        devices.first().map(simjoin_gpu::overlap_techniques).unwrap_or_default()
    }

    fn free_memory(&self) -> u64 {
        let devices = simjoin_gpu::devices().unwrap_or_default();
        // A device that has failed fails at what it is given as well, which the CPU then does.
        let free = devices.iter().map(|device| device.free_memory().unwrap_or(u64::MAX));
        free.min().unwrap_or(u64::MAX)
    }
}
