//! What is an emulated CUDA device?
//!
//! One library that is both `libcuda` and `libnvrtc`: a program loads it in place of NVIDIA's, and runs its host code and
//! its kernels, unchanged, on a processor. It is for tests: slow, strict, and with faults on request.
//!
//! ```text
//! CUDA C++ ─► compiler ─► image ─► driver: streams, memory ─► launch ─► device/runtime.cc: threads as fibers
//!             translate              │                                   device/matrix.cc: tensor cores
//!             toolchain (c++)        └ faults, log, reports
//! ```
//!
//! * [`settings`]: what do the environment variables ask for?
//! * [`compiler`]: what does NVRTC do here? [`translate`], [`ptx`] and [`toolchain`] are how.
//! * [`image`]: what do modules look like between compiler and driver?
//! * [`driver`]: what does the driver do here?
//! * `device/`: what does a kernel find on the device? C++, compiled with each kernel.
//!
//! Limits: blocks run one after the other, and one launch at a time, so that nothing shows that only simultaneous blocks
//! can do to each other; memory is as strongly ordered as the processor's; nothing is told about time. What is emulated
//! and what is not, form by form, is in the folder's README.

pub mod compiler;
pub mod driver;
pub mod image;
pub mod ptx;
pub mod settings;
pub mod toolchain;
pub mod translate;
