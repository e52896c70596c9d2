//! How are the best columns of each row found?

use super::tile::{Coverage, TileArgument};
use super::{MAX_ANSWERS, MAX_TILE, Overlaps, grid};
use crate::device::failed;
use crate::sets::{Answer, timer};
use cudarc::driver::{DevicePtr, LaunchConfig, PushKernelArg};
use simjoin_core::{Error, Result, SetId, SetPair};
use std::ops::ControlFlow;
use std::time::Instant;

impl Overlaps<'_> {
    /// Hands on the `most` columns with the largest positive overlaps for each row, the best first. Ties go
    /// to the smaller number in `ranks`, which has a different number for each column, or without `ranks` to
    /// the smaller column. In a self-join every row meets all others.
    pub fn top(
        &mut self,
        most: u32,
        ranks: Option<&[u32]>,
        mut consume: impl FnMut(SetId, &[SetPair]) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>> {
        let Some(on_device) = &self.on_device else { return Ok(ControlFlow::Continue(())) };
        let at = failed("fetching the best pairs");
        let stream = &on_device.stream;
        let columns = on_device.sides.columns().range.len();
        let rows = on_device.sides.rows.range.len() as u64;
        let most = most.min(columns as u32);
        if most == 0 {
            return Ok(ControlFlow::Continue(()));
        }
        if ranks.is_some_and(|ranks| ranks.len() != columns) {
            return Err(Error::Internal("not every column has a rank".into()));
        }
        let ranks_on_device = match ranks {
            Some(ranks) => Some(stream.clone_htod(ranks).map_err(&at)?),
            None => None,
        };
        let ranks_pointer = ranks_on_device.as_ref().map_or(0, |ranks| ranks.device_ptr(stream).0);
        let row_bytes = (size_of::<Answer>() + size_of::<SetPair>()) as u64 * u64::from(most);
        if row_bytes > self.budget.bytes {
            let what = "the best pairs of a row".into();
            let (needed, limit) = (row_bytes, self.budget.bytes);
            return Err(Error::Memory { what, needed, limit, device: false });
        }
        let batch = MAX_ANSWERS.min(self.budget.bytes).min(on_device.spare / 4) / row_bytes;
        let batch = batch.clamp(1, rows) as u32;
        let reserved = (size_of::<Answer>() as u64 * u64::from(most) + 4) * u64::from(batch);
        let reserved = reserved + if ranks.is_some() { 4 * columns as u64 } else { 0 };
        let tiles = on_device.tiles(1, MAX_TILE, reserved, Coverage::All)?;
        let bytes = tiles.iter().map(|tile| on_device.bytes(tile)).max().unwrap_or(0);
        let mut buffer = on_device.buffer(bytes)?;
        let top = on_device.function("top")?;
        // SAFETY: nothing is read before it is written.
        let (answers, counted) = unsafe {
            (
                stream.alloc::<Answer>(batch as usize * most as usize).map_err(&at)?,
                stream.alloc::<u32>(batch as usize).map_err(&at)?,
            )
        };
        let clock = [timer(&on_device.device)?, timer(&on_device.device)?];
        let mut found: Vec<Answer> = Vec::new();
        let mut pairs: Vec<SetPair> = Vec::new();
        for tile in &tiles {
            let whole = on_device
                .timed(&clock, &mut self.seconds.count, || on_device.compute(&mut buffer, tile))?;
            for first in (0..whole.rows).step_by(batch as usize) {
                let rows = batch.min(whole.rows - first);
                let part = TileArgument {
                    counts: whole.counts
                        + u64::from(first) * whole.stride * u64::from(on_device.width),
                    first: whole.first + first,
                    rows,
                    ..whole
                };
                on_device.timed(&clock, &mut self.seconds.select, || {
                    let config = LaunchConfig { grid_dim: (rows, 1, 1), ..grid(1) };
                    // SAFETY: the arguments match the kernel. There is space for `most` answers of each row.
                    unsafe {
                        stream
                            .launch_builder(&top)
                            .arg(&part)
                            .arg(&ranks_pointer)
                            .arg(&most)
                            .arg(&answers.device_ptr(stream).0)
                            .arg(&counted.device_ptr(stream).0)
                            .launch(config)
                    }
                    .map(drop)
                    .map_err(failed("finding the best pairs"))
                })?;
                let waiting = Instant::now();
                let mut counts = vec![0u32; rows as usize];
                found.resize(rows as usize * most as usize, Answer::default());
                stream.memcpy_dtoh(&answers.slice(..found.len()), &mut found).map_err(&at)?;
                stream.memcpy_dtoh(&counted.slice(..counts.len()), &mut counts).map_err(&at)?;
                stream.synchronize().map_err(&at)?;
                self.seconds.fetch += waiting.elapsed().as_secs_f64();
                for (row, (best, &count)) in
                    (part.first..).zip(found.chunks(most as usize).zip(&counts))
                {
                    pairs.clear();
                    pairs.extend(best[..count as usize].iter().map(|best| best.pair((0, 0))));
                    let rank = |build: SetId| ranks.map_or(build, |ranks| ranks[build as usize]);
                    pairs.sort_unstable_by_key(|pair| {
                        (std::cmp::Reverse(pair.overlap), rank(pair.build))
                    });
                    if consume(row, &pairs).is_break() {
                        return Ok(ControlFlow::Break(()));
                    }
                }
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}
