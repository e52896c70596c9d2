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
//! * [`settings`]: the environment variables.
//! * [`compiler`]: the functions of NVRTC, by [`translate`], [`ptx`] and [`toolchain`].
//! * [`image`]: the format of modules.
//! * [`driver`]: the functions of the driver.
//! * `device/`: the built-ins of a kernel, in C++, which are compiled with each kernel.
//!
//! Limits: blocks run one after the other, and one launch at a time, so effects between simultaneous blocks are not
//! shown. Memory is as strongly ordered as the processor's. Times mean nothing. The folder's README lists everything
//! that is emulated.

pub mod compiler;
pub mod driver;
pub mod image;
pub mod ptx;
pub mod settings;
pub mod toolchain;
pub mod translate;
