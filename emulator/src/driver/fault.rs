//! When does a requested fault happen?
//!
//! Allocations (of device and of pinned memory), launches and calls are counted from 1, over all devices.

use super::devices::Device;
use crate::settings::{Fault, settings};
use cudarc::driver::sys::CUresult;

/// The numbers of calls so far.
#[derive(Default)]
pub(super) struct Faults {
    allocations: u64,
    launches: u64,
    calls: u64,
    lost: bool,
}

fn requested(fault: Fault) -> bool {
    settings().faults.contains(&fault)
}

impl Faults {
    /// Counts a call, at which its device may be lost.
    pub(super) fn called(&mut self, devices: &mut [Device], current: Option<usize>) {
        self.calls += 1;
        let due = |fault: &Fault| matches!(fault, Fault::Lost(number) if *number <= self.calls);
        // One device is lost: that of this call, or of the first later call that has a device.
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
        requested(Fault::OutOfMemory(self.allocations))
    }

    /// Returns whether this launch fails.
    pub(super) fn launch_fails(&mut self) -> bool {
        self.launches += 1;
        requested(Fault::LaunchFailed(self.launches))
    }
}
