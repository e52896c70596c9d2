//! How are tiles joined on an NVIDIA GPU?
//!
//! Kernels are CUDA sources. They are compiled for the device when they are first needed. Neither a driver
//! nor a compiler is needed to build this crate, or to run it without a GPU.
//!
//! * [`devices`] finds the devices, or says what is missing and how to get it.
//! * [`GpuBitmap`] compares the signatures of all pairs on binary tensor cores and verifies the survivors.
//! * [`GpuPrefix`] makes lists of prefix tokens on the device and verifies the pairs that meet in them.
//! * [`GpuVerify`] verifies the candidates that a CPU filter finds.
//! * [`GpuMmJoin`] counts the overlaps of all pairs and keeps those that satisfy the bounds.
//! * [`GpuVectors`] joins vectors: a nested loop, tensor cores, a grid, a quantile index.
//! * [`intersect()`] finds the elements that two large sets share, [`Overlaps`] the overlap of every pair of
//!   sets.
//!
//! Modules that they share: `sets.rs` sends sets to a device and fetches answers, `send.rs` and `pinned.rs`
//! send large arrays. Kernels that they share: `accept.cuh` (the decision in integers) and `sets.cuh`.

mod bitmap;
mod device;
mod host;
mod intersect;
#[doc(hidden)]
pub mod kernel_text;
mod mmjoin;
mod nvrtc;
mod overlap_join;
mod overlaps;
mod pinned;
mod prefix;
mod send;
mod sets;
mod vectors;
mod verify;

pub use bitmap::GpuBitmap;
pub use device::{Device, DeviceInfo, LeftOut, devices, first_device, left_out, opened};
pub use host::{gpu_names, gpus, intersect_on_first, open_first};
pub use intersect::{DeviceArray, Intersect, IntersectKernel, Intersection, intersect};
pub use mmjoin::GpuMmJoin;
pub use nvrtc::Nvrtc;
#[doc(hidden)]
pub use nvrtc::cache_entry;
pub use overlap_join::overlap_techniques;
pub use overlaps::{Counts, OverlapSeconds, OverlapTechnique, OverlapTile, Overlaps};
pub use prefix::GpuPrefix;
#[doc(hidden)]
pub use send::send_by_threads_from;
pub use vectors::{GpuVectors, VectorWay};
pub use verify::{GpuVerify, Way};

use simjoin_engine::{CandidateFilter, Sets, Techniques};
use std::sync::Arc;

/// Returns every technique in all its variants. Workers are spread over `devices`. [`GpuVerify`] verifies the
/// candidates that `filters` find.
pub fn techniques(
    devices: &[Arc<Device>],
    filters: &[&'static dyn CandidateFilter],
) -> Techniques<Sets> {
    let mut techniques: Techniques<Sets> = vec![
        Box::new(GpuPrefix { devices: devices.to_vec() }),
        Box::new(GpuMmJoin { devices: devices.to_vec() }),
    ];
    for bits in GpuBitmap::BITS {
        techniques.push(Box::new(GpuBitmap::new(devices, bits)));
    }
    for &filter in filters {
        for way in Way::ALL {
            techniques.push(Box::new(GpuVerify { devices: devices.to_vec(), filter, way }));
        }
    }
    techniques
}

/// A kernel source and the settings that it is compiled with.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// The purpose of the kernel.
    pub name: &'static str,
    /// The source, in CUDA C++.
    pub source: &'static str,
    /// Macros to define, with their values.
    pub defines: Vec<(&'static str, u32)>,
    /// The architectures that it must compile for.
    pub architectures: &'static [&'static str],
}

/// The architectures that checks compile kernels for.
const EVERYWHERE: &[&str] = &["sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"];
/// The architectures whose tensor cores multiply bits ([`DeviceInfo::multiplies_bits`]).
const MULTIPLY_BITS: &[&str] = &["sm_80", "sm_86", "sm_89", "sm_90"];
/// The architectures that copy to shared memory asynchronously.
const COPY_ASYNC: &[&str] = &["sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"];

/// Returns every kernel source with every set of definitions, for checks.
pub fn kernels() -> Vec<Kernel> {
    let everywhere = EVERYWHERE;
    let plain = |name, source| Kernel { name, source, defines: vec![], architectures: everywhere };
    let mut kernels = vec![plain("sets", sets::SOURCE), plain("prefix", prefix::SOURCE)];
    kernels.push(plain("candidates", verify::SOURCE));
    kernels.push(plain("intersect", intersect::SOURCE));
    for bits in GpuBitmap::BITS {
        for tensor in [true, false] {
            kernels.push(Kernel {
                name: "bitmap",
                source: bitmap::SOURCE,
                defines: bitmap::defines(bits, tensor).into(),
                architectures: if tensor { MULTIPLY_BITS } else { everywhere },
            });
        }
    }
    for width in [1, 2, 4] {
        for (tensor, stages, architectures) in
            [(true, 3, MULTIPLY_BITS), (false, 3, COPY_ASYNC), (false, 2, &["sm_75"][..])]
        {
            kernels.push(Kernel {
                name: "overlaps",
                source: overlaps::SOURCE,
                defines: overlaps::defines(width, tensor, stages).into(),
                architectures,
            });
        }
    }
    for wide in [false, true] {
        kernels.push(Kernel {
            name: "vectors",
            source: vectors::SOURCE,
            defines: vectors::defines(wide).into(),
            architectures: everywhere,
        });
    }
    kernels.push(plain("vectors_direct", vectors::DIRECT));
    for (defines, architectures) in vectors::tensor_variants() {
        kernels.push(Kernel {
            name: "vectors_tensor",
            source: vectors::TENSOR,
            defines,
            architectures,
        });
    }
    kernels
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_kernel_computes_warp_numbers_from_32_bit_thread_numbers() {
        for kernel in kernels() {
            let text: String = kernel.source.split_whitespace().collect();
            let wraps = text.contains("(blockIdx.x*blockDim.x+threadIdx.x)/32");
            assert!(
                !wraps,
                "{}: a grid may have 2^32 threads or more; use warp_of_grid",
                kernel.name
            );
        }
    }
}
