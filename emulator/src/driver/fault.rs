//! When does a planted fault happen?
//!
//! Allocations (of device and of pinned memory), launches and calls are counted from 1, over all devices.

use super::devices::Device;
use crate::settings::{Fault, settings};
use cudarc::driver::sys::CUresult;

/// How many there were.
#[derive(Default)]
pub(super) struct Faults {
    allocations: u64,
    launches: u64,
    calls: u64,
    lost: bool,
}

fn planted(fault: Fault) -> bool {
    settings().faults.contains(&fault)
}

impl Faults {
    /// A call: it may be the one at which its device is lost.
    pub(super) fn called(&mut self, devices: &mut [Device], current: Option<usize>) {
        self.calls += 1;
        let due = |fault: &Fault| matches!(fault, Fault::Lost(number) if *number <= self.calls);
        // One device is lost: that of the call, or of the first call after it that has one.
        if !self.lost
            && let Some(device) = current
            && settings().faults.iter().any(due)
        {
            self.lost = true;
            devices[device].error = Some(CUresult::CUDA_ERROR_UNKNOWN);
        }
    }

    /// Returns whether this allocation fails.
    pub(super) fn allocation_fails(&mut self) -> bool {
        self.allocations += 1;
        planted(Fault::OutOfMemory(self.allocations))
    }

    /// Returns whether this launch fails.
    pub(super) fn launch_fails(&mut self) -> bool {
        self.launches += 1;
        planted(Fault::LaunchFailed(self.launches))
    }
}
