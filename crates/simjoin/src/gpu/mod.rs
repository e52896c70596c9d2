//! What can the GPUs of this machine do? Without the feature `gpu` there are none.

#[cfg(not(feature = "gpu"))]
mod disabled;
#[cfg(feature = "gpu")]
mod enabled;

#[cfg(not(feature = "gpu"))]
pub(crate) use disabled::{awake, devices, first_device, intersect, names};
#[cfg(feature = "gpu")]
pub use enabled::compiler;
#[cfg(feature = "gpu")]
pub(crate) use enabled::{awake, devices, first_device, intersect, names};
