//! How are lists walked, and survivors verified?

use super::THREADS;
use super::items::ClassesArgument;
use super::listed::Listed;
use super::on_device::Here;
use crate::device::failed;
use crate::sets::{Channel, Stages, State, verifiers};
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
    pub(super) listed: &'a Listed<'a>,
    pub(super) here: &'a Here,
    pub(super) channel: Channel,
    pub(super) survivors: CudaSlice<Survivor>,
    /// Those that are verified by a warp.
    pub(super) later: CudaSlice<u32>,
    /// Where each item of the piece is to go on: a token and an entry.
    pub(super) progress: CudaSlice<u64>,
    pub(super) verified: u64,
}

impl Stages for ListWorker<'_> {
    /// Items.
    type Piece = Range<u64>;

    fn channel(&mut self) -> &mut Channel {
        &mut self.channel
    }

    fn firsts(&self) -> (SetId, SetId) {
        (self.here.sides.probes().first, self.here.sides.builds().first)
    }

    fn filter(&mut self, items: &mut Range<u64>) -> Result<()> {
        let (listed, here) = (self.listed, self.here);
        let count = (items.end - items.start) as u32;
        let capacity = self.survivors.len() as u32;
        let Channel { stream, state, .. } = &mut self.channel;
        // SAFETY: the arguments are those of the kernel, and the buffers as long as it takes them.
        unsafe {
            stream
                .launch_builder(&here.kernels.probe)
                .arg(&here.sides.probes().argument(stream))
                .arg(&ClassesArgument::new(&here.probe_classes, stream))
                .arg(&here.sides.builds().argument(stream))
                .arg(&here.lists(&listed.join, &listed.block, stream))
                .arg(&items.start)
                .arg(&count)
                .arg(&mut self.progress)
                .arg(&listed.predicate)
                .arg(&listed.order)
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
        let here = self.here;
        let Channel { stream, state, answers, .. } = &mut self.channel;
        let answers = answers.argument(stream, only_counts);
        // SAFETY: as above.
        unsafe {
            stream
                .launch_builder(&here.kernels.verify)
                .arg(&here.sides.probes().argument(stream))
                .arg(&here.sides.builds().argument(stream))
                .arg(&self.survivors)
                .arg(&mut self.later)
                .arg(&self.listed.predicate)
                .arg(&answers)
                .arg(&mut *state)
                .launch(verifiers(&here.device))
                .map_err(failed("verifying"))?;
            if self.listed.long {
                stream
                    .launch_builder(&here.kernels.verify_deferred)
                    .arg(&here.sides.probes().argument(stream))
                    .arg(&here.sides.builds().argument(stream))
                    .arg(&self.survivors)
                    .arg(&self.later)
                    .arg(&self.listed.predicate)
                    .arg(&answers)
                    .arg(state)
                    .launch(verifiers(&here.device))
                    .map_err(failed("verifying"))?;
            }
        }
        Ok(())
    }

    fn done(&mut self, state: &State) {
        self.verified += u64::from(state.survivors());
        self.channel.log.trace.compared += state.walked;
    }
}

impl Worker<Sets> for ListWorker<'_> {
    fn run(&mut self, piece: usize, sink: &mut dyn Sink<SetPair>) -> Result<ControlFlow<()>> {
        let items = self.listed.pieces[piece].clone();
        let progress = &mut self.progress;
        self.channel.stream.memset_zeros(progress).map_err(failed("walking lists"))?;
        self.both(items, sink)
    }

    fn candidates(&self) -> u64 {
        self.verified
    }

    fn times(&self) -> DeviceTimes {
        self.channel.log.trace
    }

    fn events(&mut self) -> Vec<DeviceEvent> {
        self.channel.log.take()
    }
}
