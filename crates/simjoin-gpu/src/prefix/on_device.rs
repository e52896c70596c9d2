//! How are lists made on a device?

use super::items::{ClassesArgument, ItemClass, Items};
use super::{SOURCE, THREADS, listed_tokens};
use crate::device::{Device, Lease, failed};
use crate::send::Sender;
use crate::sets::{DeviceSets, PerSide};
use cudarc::driver::{
    CudaFunction, CudaSlice, CudaStream, DevicePtr, DeviceRepr, LaunchConfig, PushKernelArg, sys,
};
use simjoin_core::{Result, SetId};
use simjoin_engine::{Budget, SetTask, Tile};
use std::ops::Range;
use std::sync::Arc;

/// An entry of a list. The host only uses its size.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Entry {
    set: u32,
    position: u32,
    signature: u64,
}

// SAFETY: numbers, laid out as in the kernels.
unsafe impl DeviceRepr for Entry {}

/// The lists as an argument of a kernel.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct ListsArgument {
    unique: u32,
    top: u32,
    from: u32,
    to: u32,
    sections: u32,
    section_sets: u32,
    begins: sys::CUdeviceptr,
    ends: sys::CUdeviceptr,
    entries: sys::CUdeviceptr,
}

// SAFETY: numbers and addresses, laid out as in the kernels.
unsafe impl DeviceRepr for ListsArgument {}

/// A device with the sets, lists and kernels of a tile.
pub(super) struct OnDevice {
    pub(super) device: Arc<Device>,
    pub(super) stream: Arc<CudaStream>,
    pub(super) kernels: Kernels,
    pub(super) sides: PerSide<DeviceSets>,
    pub(super) probe_classes: CudaSlice<ItemClass>,
    pub(super) build_classes: CudaSlice<ItemClass>,
    pub(super) sections: u32,
    pub(super) begins: CudaSlice<u32>,
    pub(super) ends: CudaSlice<u32>,
    pub(super) entries: CudaSlice<Entry>,
    /// Dropped last.
    pub(super) _lease: Lease,
}

pub(super) struct Kernels {
    pub(super) count: CudaFunction,
    pub(super) place: CudaFunction,
    pub(super) fill: CudaFunction,
    pub(super) probe: CudaFunction,
    pub(super) verify: CudaFunction,
    pub(super) verify_deferred: CudaFunction,
}

/// The settings of the lists on a device.
pub(super) struct ListLayout<'a> {
    pub(super) probe_items: &'a Items,
    pub(super) build_items: &'a Items,
    /// The number of entries of the largest block.
    pub(super) entries: u64,
    /// The number of sections of a list.
    pub(super) sections: u32,
}

impl OnDevice {
    pub(super) fn new(
        device: &Arc<Device>,
        task: &SetTask<'_>,
        tile: &Tile,
        budget: &Budget,
        layout: &ListLayout<'_>,
    ) -> Result<Self> {
        let ListLayout { probe_items, build_items, entries, sections } = *layout;
        let at = failed("sending sets to the device");
        let lease = Lease::new(device);
        let sender = Sender::new(device, budget)?;
        let sides = PerSide::new(task, tile, |sets, range| DeviceSets::new(&sender, sets, range))?;
        let firsts = (sides.probes().first, sides.builds().first);
        let heads = listed_tokens(task).max(1) as usize * sections as usize;
        let stream = sender.stream;
        let kernel = |name| device.function(SOURCE, &[], name);
        // SAFETY: nothing is read before it is written.
        let (begins, ends, entries) = unsafe {
            (
                stream.alloc(heads).map_err(&at)?,
                stream.alloc(heads).map_err(&at)?,
                stream.alloc(entries.max(1) as usize).map_err(&at)?,
            )
        };
        Ok(OnDevice {
            device: device.clone(),
            kernels: Kernels {
                count: kernel("count_entries")?,
                place: kernel("place_lists")?,
                fill: kernel("fill_lists")?,
                probe: kernel("probe_lists")?,
                verify: kernel("verify")?,
                verify_deferred: kernel("verify_deferred")?,
            },
            sides,
            probe_classes: probe_items.on_device(firsts.0, firsts.1).send(&stream)?,
            build_classes: build_items.on_device(firsts.1, firsts.1).send(&stream)?,
            sections,
            begins,
            ends,
            entries,
            stream,
            _lease: lease,
        })
    }

    pub(super) fn lists(
        &self,
        task: &SetTask<'_>,
        block: &Range<SetId>,
        stream: &CudaStream,
    ) -> ListsArgument {
        let first = self.sides.builds().first;
        ListsArgument {
            unique: task.build.unique_tokens(),
            top: task.build.universe().saturating_sub(1),
            from: block.start - first,
            to: block.end - first,
            sections: self.sections,
            section_sets: (block.len() as u32).div_ceil(self.sections),
            begins: self.begins.device_ptr(stream).0,
            ends: self.ends.device_ptr(stream).0,
            entries: self.entries.device_ptr(stream).0,
        }
    }

    /// Launches the kernels that make the lists of a block. Workers wait for them.
    pub(super) fn make_lists(
        &mut self,
        task: &SetTask<'_>,
        block: &Range<SetId>,
        items: Range<u64>,
    ) -> Result<()> {
        let at = failed("making lists");
        let stream = self.stream.clone();
        stream.memset_zeros(&mut self.ends).map_err(&at)?;
        let mut taken = stream.clone_htod(&[0u32]).map_err(&at)?;
        let lists = self.lists(task, block, &stream);
        let heads = self.ends.len() as u32;
        let builds = self.sides.builds().argument(&stream);
        let classes = ClassesArgument::new(&self.build_classes, &stream);
        let count = (items.end - items.start) as u32;
        let grid = |threads: u64| LaunchConfig {
            grid_dim: (threads.div_ceil(u64::from(THREADS)).max(1) as u32, 1, 1),
            block_dim: (THREADS, 1, 1),
            shared_mem_bytes: 0,
        };
        let by_items = |kernel: &CudaFunction| {
            // SAFETY: the arguments match the kernel, and the buffers have the lengths that it needs.
            unsafe {
                stream
                    .launch_builder(kernel)
                    .arg(&builds)
                    .arg(&classes)
                    .arg(&items.start)
                    .arg(&count)
                    .arg(&lists)
                    .launch(grid(32 * u64::from(count)))
                    .map_err(&at)
            }
        };
        by_items(&self.kernels.count)?;
        // SAFETY: as above.
        unsafe {
            stream
                .launch_builder(&self.kernels.place)
                .arg(&lists)
                .arg(&heads)
                .arg(&mut taken)
                .launch(grid(u64::from(heads)))
                .map_err(&at)?;
        }
        by_items(&self.kernels.fill)?;
        Ok(())
    }
}

impl Drop for OnDevice {
    fn drop(&mut self) {
        self.device.make_current();
    }
}
