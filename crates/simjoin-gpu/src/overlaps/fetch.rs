//! How are all counts copied to the host?

use super::tile::{Coverage, TileArgument, as_counts};
use super::{MAX_PIECE, OverlapTile, Overlaps};
use crate::device::{Device, failed};
use crate::pinned::Pinned;
use crate::sets::timer;
use cudarc::driver::{CudaStream, result};
use simjoin_core::{Error, Result};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Instant;

impl Overlaps<'_> {
    /// Hands on the overlaps of all pairs, tile by tile, until the consumer breaks.
    pub fn counts(
        &mut self,
        mut consume: impl FnMut(&OverlapTile<'_>) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>> {
        let Some(on_device) = &self.on_device else { return Ok(ControlFlow::Continue(())) };
        let at = failed("fetching counts");
        let tiles = on_device.tiles(2, 16 * MAX_PIECE, 0, Coverage::Once)?;
        let most = tiles.iter().map(|tile| on_device.bytes(tile)).max().unwrap_or(0);
        let mut buffers = [on_device.buffer(most)?, on_device.buffer(most)?];
        let widest =
            tiles.iter().map(|tile| tile.stride * u64::from(on_device.width)).max().unwrap_or(1);
        let least = widest.max(1);
        let piece = (self.budget.bytes / 2).min(MAX_PIECE).max(least);
        if 2 * least > self.budget.bytes {
            let (needed, limit) = (2 * least, self.budget.bytes);
            let what = "handing on overlaps".into();
            return Err(Error::Memory { what, needed, limit, device: false });
        }
        let pinned = || Pinned::<u8>::any(&on_device.device, piece as usize);
        // Waits for copies, even after a failure, before the memory that they write to is freed.
        let mut pinned = [pinned()?, pinned()?];
        let drained = WaitOnDrop(on_device.device.clone(), on_device.copies.clone());
        let event = || timer(&on_device.device);
        let clocks = [[event()?, event()?], [event()?, event()?]];
        let copied = [event()?, event()?];
        let mut fetch = 0.0;
        let mut count = 0.0;
        let mut flow = ControlFlow::Continue(());
        let mut launch = |number: usize| -> Result<TileArgument> {
            let [begin, end] = &clocks[number % 2];
            begin.record(&on_device.stream).map_err(&at)?;
            let tile = on_device.compute(&mut buffers[number % 2], &tiles[number])?;
            end.record(&on_device.stream).map_err(&at)?;
            Ok(tile)
        };
        let mut launched = if tiles.is_empty() { None } else { Some(launch(0)?) };
        'tiles: for number in 0..tiles.len() {
            let Some(tile) = launched.take() else { break };
            // The buffer of the next tile was emptied before the current tile was launched.
            launched = if number + 1 < tiles.len() { Some(launch(number + 1)?) } else { None };
            on_device.copies.wait(&clocks[number % 2][1]).map_err(&at)?;
            let row_bytes = tile.stride * u64::from(on_device.width);
            let each = ((piece / row_bytes).max(1) as u32).min(tile.rows);
            let pieces: Vec<u32> = (0..tile.rows).step_by(each as usize).collect();
            let rows_of = |first: u32| each.min(tile.rows - first);
            let copy = |which: usize, into: &mut [Pinned<u8>; 2]| -> Result<()> {
                let first = pieces[which];
                let bytes = (u64::from(rows_of(first)) * row_bytes) as usize;
                let from = tile.counts + u64::from(first) * row_bytes;
                let to = &mut into[which % 2][..bytes];
                // SAFETY: the tile has these rows, and the host does not touch the memory until the event.
                unsafe { result::memcpy_dtoh_async(to, from, on_device.copies.cu_stream()) }
                    .map_err(&at)?;
                copied[which % 2].record(&on_device.copies).map_err(&at)
            };
            copy(0, &mut pinned)?;
            for which in 0..pieces.len() {
                if which + 1 < pieces.len() {
                    copy(which + 1, &mut pinned)?;
                }
                let waiting = Instant::now();
                copied[which % 2].synchronize().map_err(&at)?;
                fetch += waiting.elapsed().as_secs_f64();
                let handed = OverlapTile {
                    first: tile.first + pieces[which],
                    rows: rows_of(pieces[which]),
                    columns: tile.columns,
                    own: tile.own != 0,
                    stride: tile.stride as usize,
                    counts: as_counts(&pinned[which % 2], on_device.width),
                };
                if consume(&handed).is_break() {
                    flow = ControlFlow::Break(());
                    break 'tiles;
                }
            }
            let [begin, end] = &clocks[number % 2];
            count += f64::from(begin.elapsed_ms(end).map_err(&at)?) / 1e3;
        }
        drop(drained);
        on_device.stream.synchronize().map_err(&at)?;
        self.seconds.count += count;
        self.seconds.fetch += fetch;
        Ok(flow)
    }
}

/// A stream that is waited for when it is dropped, so that the memory that it writes to can be freed
/// afterwards.
struct WaitOnDrop(Arc<Device>, Arc<CudaStream>);

impl Drop for WaitOnDrop {
    fn drop(&mut self) {
        self.0.drain(&self.1);
    }
}
