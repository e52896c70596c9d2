//! How are sets signed on a device?

use super::{ALWAYS, GpuBitmap, MAX_WEIGHTED, Shape};
use crate::device::{Device, Lease, failed};
use crate::send::Sender;
use crate::sets::{DeviceSets, PerSide};
use cudarc::driver::{CudaFunction, CudaSlice, CudaStream, LaunchConfig, PushKernelArg, sys};
use simjoin_core::{Bounds, Result, SetCollection, SetId, SizeClass};
use simjoin_engine::{Budget, SetTask, Tile};
use std::ops::Range;
use std::sync::Arc;

/// Sets on the device, with their signatures.
pub(super) struct SignedSets {
    pub(super) sets: DeviceSets,
    pub(super) signatures: CudaSlice<u32>,
    pub(super) probe_rooms: CudaSlice<i32>,
    pub(super) build_rooms: CudaSlice<i32>,
    /// The rooms of build sets in whole bits, less the turn of their range (see the kernel).
    pub(super) rough_rooms: CudaSlice<i32>,
}

impl SignedSets {
    pub(super) fn new(
        technique: &GpuBitmap,
        device: &Device,
        sender: &Sender,
        sets: &SetCollection,
        range: &Range<SetId>,
        bounds: &Bounds,
    ) -> Result<Self> {
        let Shape { rows, columns, threads, .. } = technique.shape();
        let sign = technique.function(device, "sign")?;
        let at = failed("sending sets to the device");
        let count = range.len();
        // Blocks and steps read past the last set.
        let padded = count.next_multiple_of(columns as usize) + rows as usize;
        let stream = &sender.stream;
        let share = |of: &dyn Fn(u32) -> i64| -> Vec<i32> {
            let class = |class: &SizeClass| {
                if class.size > MAX_WEIGHTED { ALWAYS } else { of(class.size) as i32 }
            };
            sets.classes().iter().map(class).collect()
        };
        let send = |shares: Vec<i32>| stream.clone_htod(&shares).map_err(&at);
        let probe_shares = send(share(&|size| bounds.probe_share(size, 16)))?;
        let build_shares = send(share(&|size| bounds.build_share(size, 16)))?;
        let on_device = DeviceSets::new(sender, sets, range)?;
        let words = padded * (technique.bits / 32) as usize;
        // SAFETY: the kernel writes every element.
        let (mut signatures, mut probe_rooms, mut build_rooms, mut rough_rooms) = unsafe {
            (
                stream.alloc::<u32>(words).map_err(&at)?,
                stream.alloc::<i32>(padded).map_err(&at)?,
                stream.alloc::<i32>(padded).map_err(&at)?,
                stream.alloc::<i32>(padded).map_err(&at)?,
            )
        };
        let (count, padded) = (count as u32, padded as u32);
        let top = sets.universe().saturating_sub(1);
        // SAFETY: the arguments match the kernel, and the buffers have the lengths that it needs.
        unsafe {
            stream
                .launch_builder(&sign)
                .arg(&on_device.argument(stream))
                .arg(&on_device.classes)
                .arg(&count)
                .arg(&padded)
                .arg(&top)
                .arg(&probe_shares)
                .arg(&build_shares)
                .arg(&mut signatures)
                .arg(&mut probe_rooms)
                .arg(&mut build_rooms)
                .arg(&mut rough_rooms)
                .launch(LaunchConfig {
                    grid_dim: (padded.div_ceil(threads / 32), 1, 1),
                    block_dim: (threads, 1, 1),
                    shared_mem_bytes: 0,
                })
                .map_err(failed("making signatures"))?;
        }
        Ok(SignedSets { sets: on_device, signatures, probe_rooms, build_rooms, rough_rooms })
    }
}

/// A device with the sets, signatures and kernels of a tile.
pub(super) struct OnDevice {
    pub(super) device: Arc<Device>,
    /// The stream that makes the signatures. Workers wait for it.
    pub(super) stream: Arc<CudaStream>,
    pub(super) filter: CudaFunction,
    pub(super) verify: CudaFunction,
    pub(super) verify_deferred: CudaFunction,
    pub(super) sides: PerSide<SignedSets>,
    /// Dropped last.
    pub(super) _lease: Lease,
}

impl OnDevice {
    pub(super) fn new(
        technique: &GpuBitmap,
        device: &Arc<Device>,
        task: &SetTask<'_>,
        tile: &Tile,
        budget: &Budget,
    ) -> Result<Self> {
        let lease = Lease::new(device);
        let sender = Sender::new(device, budget)?;
        let sides = PerSide::new(task, tile, |sets, range| {
            SignedSets::new(technique, device, &sender, sets, range, &task.predicate)
        })?;
        let filter = technique.function(device, "filter")?;
        filter
            .set_attribute(
                sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                technique.shared_bytes() as i32,
            )
            .map_err(failed("setting the shared memory"))?;
        let verify = technique.function(device, "verify")?;
        let verify_deferred = technique.function(device, "verify_deferred")?;
        if budget.events {
            sender.stream.synchronize().map_err(failed("making signatures"))?;
        }
        let (device, stream) = (device.clone(), sender.stream);
        Ok(OnDevice { device, stream, filter, verify, verify_deferred, sides, _lease: lease })
    }
}

impl Drop for OnDevice {
    fn drop(&mut self) {
        self.device.make_current();
    }
}
