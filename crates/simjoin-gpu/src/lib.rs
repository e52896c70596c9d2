//! How are tiles joined on an NVIDIA GPU?
//!
//! Kernels are CUDA sources that are compiled when they are first needed, for the device that is
//! there; neither a driver nor a compiler is needed to build this crate, or to run it without a GPU.
//!
//! * [`devices`] finds what is there, or says what is missing and how to get it.
//! * [`GpuBitmap`] compares signatures of all pairs by binary tensor cores and verifies what survives.

mod bitmap;
mod device;
mod nvrtc;

pub use bitmap::GpuBitmap;
pub use device::{Device, DeviceInfo, devices};
pub use nvrtc::Nvrtc;

use simjoin_core::Result;
use simjoin_plan::Technique;

/// Every technique of the devices of this machine, in all its variants. Several devices are not used
/// yet: the first one is.
pub fn techniques() -> Result<Vec<Box<dyn Technique>>> {
    let device = &devices()?[0];
    Nvrtc::get()?;
    let bitmap =
        |bits| -> Box<dyn Technique> { Box::new(GpuBitmap { device: device.clone(), bits }) };
    Ok(GpuBitmap::BITS.map(bitmap).into())
}

/// A kernel source, and what it is compiled with.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// What it is for.
    pub name: &'static str,
    /// CUDA C++.
    pub source: &'static str,
    /// Definitions.
    pub defines: Vec<(&'static str, u32)>,
}

/// Every kernel source with every set of definitions, for checks.
pub fn kernels() -> Vec<Kernel> {
    let bitmap = |bits| Kernel {
        name: "bitmap",
        source: bitmap::SOURCE,
        defines: bitmap::defines(bits).into(),
    };
    GpuBitmap::BITS.map(bitmap).into()
}
