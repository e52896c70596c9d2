//! How are lists walked, and survivors verified?

use super::THREADS;
use super::items::ClassesArgument;
use super::on_device::OnDevice;
use super::prepared::PreparedLists;
use crate::device::failed;
use crate::sets::{Channel, Stages, State, verify_grid};
use cudarc::driver::{CudaSlice, DeviceRepr, LaunchConfig, PushKernelArg};
use simjoin_core::{Result, SetId, SetPair, Sink};
use simjoin_engine::{DeviceEvent, DeviceTimes, Sets, Worker};
use std::ops::{ControlFlow, Range};

#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Survivor {
    probe: u32,
    build: u32,
    position: u32,
}

// SAFETY: numbers, laid out as in the kernels.
unsafe impl DeviceRepr for Survivor {}

pub(super) struct ListWorker<'a> {
    pub(super) prepared: &'a PreparedLists<'a>,
    pub(super) on_device: &'a OnDevice,
    pub(super) channel: Channel,
    pub(super) survivors: CudaSlice<Survivor>,
    /// The survivors that a warp verifies.
    pub(super) deferred: CudaSlice<u32>,
    /// The position at which each item of the piece continues: a token and an entry.
    pub(super) progress: CudaSlice<u64>,
    pub(super) verified: u64,
}

impl Stages for ListWorker<'_> {
    /// A range of items.
    type Piece = Range<u64>;

    fn channel(&mut self) -> &mut Channel {
        &mut self.channel
    }

    fn firsts(&self) -> (SetId, SetId) {
        (self.on_device.sides.probes().first, self.on_device.sides.builds().first)
    }

    fn filter(&mut self, items: &mut Range<u64>) -> Result<()> {
        let (prepared, on_device) = (self.prepared, self.on_device);
        let count = (items.end - items.start) as u32;
        let capacity = self.survivors.len() as u32;
        let Channel { stream, state, .. } = &mut self.channel;
        // SAFETY: the arguments match the kernel, and the buffers have the lengths that it needs.
        unsafe {
            stream
                .launch_builder(&on_device.kernels.probe)
                .arg(&on_device.sides.probes().argument(stream))
                .arg(&ClassesArgument::new(&on_device.probe_classes, stream))
                .arg(&on_device.sides.builds().argument(stream))
                .arg(&on_device.lists(&prepared.task, &prepared.block, stream))
                .arg(&items.start)
                .arg(&count)
                .arg(&mut self.progress)
                .arg(&prepared.predicate)
                .arg(&prepared.order)
                .arg(&mut self.survivors)
                .arg(&capacity)
                .arg(state)
                .launch(LaunchConfig {
                    grid_dim: (count.div_ceil(THREADS / 32), 1, 1),
                    block_dim: (THREADS, 1, 1),
                    shared_mem_bytes: 0,
                })
                .map_err(failed("walking lists"))?;
        }
        Ok(())
    }

    fn verify(&mut self, only_counts: bool) -> Result<()> {
        let on_device = self.on_device;
        let Channel { stream, state, answers, .. } = &mut self.channel;
        let answers = answers.argument(stream, only_counts);
        // SAFETY: as above.
        unsafe {
            stream
                .launch_builder(&on_device.kernels.verify)
                .arg(&on_device.sides.probes().argument(stream))
                .arg(&on_device.sides.builds().argument(stream))
                .arg(&self.survivors)
                .arg(&mut self.deferred)
                .arg(&self.prepared.predicate)
                .arg(&answers)
                .arg(&mut *state)
                .launch(verify_grid(&on_device.device))
                .map_err(failed("verifying"))?;
            if self.prepared.long {
                stream
                    .launch_builder(&on_device.kernels.verify_deferred)
                    .arg(&on_device.sides.probes().argument(stream))
                    .arg(&on_device.sides.builds().argument(stream))
                    .arg(&self.survivors)
                    .arg(&self.deferred)
                    .arg(&self.prepared.predicate)
                    .arg(&answers)
                    .arg(state)
                    .launch(verify_grid(&on_device.device))
                    .map_err(failed("verifying"))?;
            }
        }
        Ok(())
    }

    fn done(&mut self, state: &State) {
        self.verified += u64::from(state.survivors());
        self.channel.log.times.compared += state.walked;
    }
}

impl Worker<Sets> for ListWorker<'_> {
    fn run(&mut self, piece: usize, sink: &mut dyn Sink<SetPair>) -> Result<ControlFlow<()>> {
        let items = self.prepared.pieces[piece].clone();
        let progress = &mut self.progress;
        self.channel.stream.memset_zeros(progress).map_err(failed("walking lists"))?;
        self.filter_and_verify(items, sink)
    }

    fn candidates(&self) -> u64 {
        self.verified
    }

    fn times(&self) -> DeviceTimes {
        self.channel.log.times
    }

    fn events(&mut self) -> Vec<DeviceEvent> {
        self.channel.log.take_events()
    }
}
