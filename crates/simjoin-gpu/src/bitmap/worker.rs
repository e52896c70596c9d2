//! How are signatures compared, and survivors verified?

use super::Shape;
use super::on_device::OnDevice;
use super::prepared::{Item, PreparedBitmap};
use crate::device::failed;
use crate::sets::{Channel, Stages, State, verify_grid};
use cudarc::driver::{CudaSlice, LaunchConfig, PushKernelArg};
use simjoin_core::{Result, SetId, SetPair, Sink};
use simjoin_engine::{DeviceEvent, DeviceTimes, Sets, Worker};
use std::ops::ControlFlow;

pub(super) struct BitmapWorker<'a> {
    pub(super) prepared: &'a PreparedBitmap<'a>,
    pub(super) on_device: &'a OnDevice,
    pub(super) channel: Channel,
    pub(super) survivors: CudaSlice<u64>,
    /// The survivors that a warp verifies.
    pub(super) deferred: CudaSlice<u32>,
    pub(super) verified: u64,
}

/// The items of a piece on the device, and the position at which each warp of each block continues.
pub(super) struct SentPiece {
    pub(super) items: CudaSlice<Item>,
    pub(super) progress: CudaSlice<u32>,
}

impl Stages for BitmapWorker<'_> {
    type Piece = SentPiece;

    fn channel(&mut self) -> &mut Channel {
        &mut self.channel
    }

    fn firsts(&self) -> (SetId, SetId) {
        (self.on_device.sides.probes().sets.first, self.on_device.sides.builds().sets.first)
    }

    fn filter(&mut self, sent: &mut SentPiece) -> Result<()> {
        let (prepared, on_device) = (self.prepared, self.on_device);
        let (probes, builds) = (on_device.sides.probes(), on_device.sides.builds());
        let row_end = prepared.tile.probes.end - probes.sets.first;
        let tile = &prepared.tile.builds;
        let columns = tile.start - builds.sets.first..tile.end - builds.sets.first;
        let capacity = self.survivors.len() as u32;
        let Channel { stream, state, .. } = &mut self.channel;
        // SAFETY: the arguments match the kernel, and the buffers have the lengths that it needs.
        unsafe {
            stream
                .launch_builder(&on_device.filter)
                .arg(&probes.signatures)
                .arg(&probes.probe_rooms)
                .arg(&builds.signatures)
                .arg(&builds.build_rooms)
                .arg(&builds.rough_rooms)
                .arg(&sent.items)
                .arg(&mut sent.progress)
                .arg(&prepared.order)
                .arg(&row_end)
                .arg(&columns.start)
                .arg(&columns.end)
                .arg(&mut self.survivors)
                .arg(&capacity)
                .arg(state)
                .launch(LaunchConfig {
                    grid_dim: (sent.items.len() as u32, 1, 1),
                    block_dim: (prepared.shape.threads, 1, 1),
                    shared_mem_bytes: prepared.shared_bytes,
                })
                .map_err(failed("comparing signatures"))?;
        }
        Ok(())
    }

    fn verify(&mut self, only_counts: bool) -> Result<()> {
        let PreparedBitmap { predicate, order, exact, .. } = self.prepared;
        let on_device = self.on_device;
        let (probes, builds) = (on_device.sides.probes(), on_device.sides.builds());
        let Channel { stream, state, answers, .. } = &mut self.channel;
        let answers = answers.argument(stream, only_counts);
        // SAFETY: as above.
        unsafe {
            stream
                .launch_builder(&on_device.verify)
                .arg(&probes.sets.argument(stream))
                .arg(&builds.sets.argument(stream))
                .arg(&probes.signatures)
                .arg(&probes.probe_rooms)
                .arg(&builds.signatures)
                .arg(&builds.build_rooms)
                .arg(&self.survivors)
                .arg(&mut self.deferred)
                .arg(predicate)
                .arg(order)
                .arg(exact)
                .arg(&answers)
                .arg(&mut *state)
                .launch(verify_grid(&on_device.device))
                .map_err(failed("verifying"))?;
            if self.prepared.long {
                stream
                    .launch_builder(&on_device.verify_deferred)
                    .arg(&probes.sets.argument(stream))
                    .arg(&builds.sets.argument(stream))
                    .arg(&self.survivors)
                    .arg(&self.deferred)
                    .arg(predicate)
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
    }
}

impl Worker<Sets> for BitmapWorker<'_> {
    fn run(&mut self, piece: usize, sink: &mut dyn Sink<SetPair>) -> Result<ControlFlow<()>> {
        let at = failed("comparing signatures");
        let items = &self.prepared.items[self.prepared.pieces[piece].clone()];
        let Shape { threads, rows, columns, .. } = self.prepared.shape;
        let ranges: u64 = items.iter().map(|item| u64::from(item.to - item.from)).sum();
        self.channel.log.times.compared += ranges * u64::from(rows * columns);
        let stream = &self.channel.stream;
        let warps = items.len() * (threads / 32) as usize;
        let sent = SentPiece {
            items: stream.clone_htod(items).map_err(&at)?,
            progress: stream.alloc_zeros(warps).map_err(&at)?,
        };
        self.filter_and_verify(sent, sink)
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
