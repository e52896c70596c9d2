//! How are the pairs found that satisfy a predicate?

use super::on_device::OnDevice;
use super::sides::padded;
use super::tile::{Coverage, TileArgument};
use super::{MAX_ANSWERS, MAX_TILE, OverlapSeconds, ROWS, SMALL_BYTES, grid};
use crate::device::{Device, failed};
use crate::sets::{Answer, Predicate, timer};
use cudarc::driver::{
    CudaEvent, CudaFunction, CudaSlice, DevicePtr, LaunchConfig, PushKernelArg, sys,
};
use simjoin_core::{Bounds, Error, Result, SetPair};
use std::ops::{ControlFlow, Range};
use std::sync::Arc;
use std::time::Instant;

/// The plan of a selection: the tiles and the capacity for answers.
#[derive(Clone, Debug, Default)]
pub(crate) struct SelectionPlan {
    tiles: Vec<TileArgument>,
    most: u64,
}

impl SelectionPlan {
    /// Plans a selection that takes at most `bytes` on the host, and the spare memory on the device.
    pub(crate) fn new(on_device: &OnDevice<'_>, bytes: u64) -> Result<Self> {
        let columns = on_device.sides.columns().range.len() as u64;
        let rows = on_device.sides.rows.range.len() as u64;
        // The answers of at least one row must fit.
        if Selection::ANSWER_BYTES * columns > bytes {
            let what = "handing on overlaps".into();
            let (needed, limit) = (Selection::ANSWER_BYTES * columns, bytes);
            return Err(Error::Memory { what, needed, limit, device: false });
        }
        let least = u64::from(ROWS) * padded(columns as usize) * u64::from(on_device.width);
        let spare = on_device.spare.saturating_sub(least + 8 * (rows + 1) + SMALL_BYTES) / 2;
        let capacity = MAX_ANSWERS.min(spare) / size_of::<Answer>() as u64;
        let most = (MAX_ANSWERS.min(bytes) / Selection::ANSWER_BYTES).min(capacity).max(columns);
        let reserved = size_of::<Answer>() as u64 * most + 8 * (rows + 1) + SMALL_BYTES;
        Ok(SelectionPlan { tiles: on_device.tiles(1, MAX_TILE, reserved, Coverage::Once)?, most })
    }

    pub(crate) fn tiles(&self) -> usize {
        self.tiles.len()
    }
}

/// Finds the pairs of tiles that satisfy a predicate.
pub(crate) struct Selection {
    plan: SelectionPlan,
    buffer: CudaSlice<u8>,
    select: CudaFunction,
    predicate: Predicate,
    answers: CudaSlice<Answer>,
    represented: CudaSlice<u64>,
    found: Vec<Answer>,
    pairs: Vec<SetPair>,
    clock: [CudaEvent; 2],
    device: Arc<Device>,
}

impl Selection {
    /// The bytes on the host for an answer.
    pub(crate) const ANSWER_BYTES: u64 = (size_of::<Answer>() + size_of::<SetPair>()) as u64;

    pub(crate) fn new(
        on_device: &OnDevice<'_>,
        bounds: &Bounds,
        plan: &SelectionPlan,
    ) -> Result<Self> {
        let at = failed("allocating pairs");
        let stream = &on_device.stream;
        let largest = plan.tiles.iter().map(|tile| on_device.bytes(tile)).max().unwrap_or(0);
        Ok(Selection {
            plan: plan.clone(),
            buffer: on_device.buffer(largest)?,
            select: on_device.function("select")?,
            predicate: Predicate::new(bounds),
            // SAFETY: nothing is read before it is written.
            answers: unsafe { stream.alloc(plan.most as usize) }.map_err(&at)?,
            represented: stream.alloc_zeros(1).map_err(&at)?,
            found: Vec::new(),
            pairs: Vec::new(),
            clock: [timer(&on_device.device)?, timer(&on_device.device)?],
            device: on_device.device.clone(),
        })
    }

    /// Returns an upper bound of the number of pairs of sets in a tile.
    pub(crate) fn compared(&self, tile: usize) -> u64 {
        let TileArgument { rows, columns, .. } = self.plan.tiles[tile];
        u64::from(rows) * u64::from(columns)
    }

    /// Counts the overlaps of a tile and the pairs of each of its rows.
    fn begin(
        &mut self,
        on_device: &OnDevice<'_>,
        tile: usize,
        seconds: &mut OverlapSeconds,
    ) -> Result<(TileArgument, CudaSlice<u64>)> {
        let at = failed("selecting pairs");
        let tile = on_device.timed(&self.clock, &mut seconds.count, || {
            on_device.compute(&mut self.buffer, &self.plan.tiles[tile])
        })?;
        let places = on_device.stream.alloc_zeros::<u64>(tile.rows as usize + 1).map_err(&at)?;
        on_device.stream.memset_zeros(&mut self.represented).map_err(&at)?;
        on_device.timed(&self.clock, &mut seconds.select, || {
            self.launch(on_device, &tile, 0..tile.rows, &places, 0)
        })?;
        Ok((tile, places))
    }

    fn launch(
        &self,
        on_device: &OnDevice<'_>,
        tile: &TileArgument,
        rows: Range<u32>,
        places: &CudaSlice<u64>,
        answers: sys::CUdeviceptr,
    ) -> Result<()> {
        let (row_sets, column_sets) = on_device.sets();
        let stream = &on_device.stream;
        // SAFETY: the arguments match the kernel. There is a position for each row, and space for all answers
        // that were counted in these rows.
        unsafe {
            stream
                .launch_builder(&self.select)
                .arg(&row_sets)
                .arg(&column_sets)
                .arg(tile)
                .arg(&rows.start)
                .arg(&self.predicate)
                .arg(&places.device_ptr(stream).0)
                .arg(&answers)
                .arg(&self.represented.device_ptr(stream).0)
                .launch(LaunchConfig { grid_dim: (rows.len() as u32, 1, 1), ..grid(1) })
        }
        .map(drop)
        .map_err(failed("selecting pairs"))
    }

    /// Counts the pairs of input rows that the pairs of a tile represent.
    pub(crate) fn count(
        &mut self,
        on_device: &OnDevice<'_>,
        tile: usize,
        seconds: &mut OverlapSeconds,
    ) -> Result<u64> {
        let at = failed("counting pairs");
        self.begin(on_device, tile, seconds)?;
        let mut rows = [0];
        on_device.stream.memcpy_dtoh(&self.represented, &mut rows).map_err(&at)?;
        on_device.stream.synchronize().map_err(&at)?;
        Ok(rows[0])
    }

    /// Hands on the pairs of a tile.
    pub(crate) fn pairs(
        &mut self,
        on_device: &OnDevice<'_>,
        tile: usize,
        seconds: &mut OverlapSeconds,
        consume: &mut dyn FnMut(&[SetPair]) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>> {
        let at = failed("fetching pairs");
        let stream = &on_device.stream;
        let (tile, mut places) = self.begin(on_device, tile, seconds)?;
        let rows = tile.rows as usize;
        let mut ends = vec![0u64; rows + 1];
        stream.memcpy_dtoh(&places, &mut ends).map_err(&at)?;
        stream.synchronize().map_err(&at)?;
        // Computes the start of the pairs of each row.
        let mut sum = 0;
        for place in &mut ends {
            (*place, sum) = (sum, sum + *place);
        }
        stream.memcpy_htod(&ends, &mut places).map_err(&at)?;
        let firsts = (on_device.sides.rows.range.start, on_device.sides.columns().range.start);
        let mut first = 0;
        while first < rows {
            // All further rows whose answers fit.
            let limit = ends[first] + self.plan.most;
            let end = first + ends[first + 1..].partition_point(|&end| end <= limit);
            let count = (ends[end] - ends[first]) as usize;
            if count > 0 {
                let to = self.answers.device_ptr(stream).0;
                on_device.timed(&self.clock, &mut seconds.select, || {
                    self.launch(on_device, &tile, first as u32..end as u32, &places, to)
                })?;
                let waiting = Instant::now();
                self.found.resize(count, Answer::default());
                stream.memcpy_dtoh(&self.answers.slice(..count), &mut self.found).map_err(&at)?;
                stream.synchronize().map_err(&at)?;
                seconds.fetch += waiting.elapsed().as_secs_f64();
                self.pairs.clear();
                self.pairs.extend(self.found.iter().map(|answer| answer.pair(firsts)));
                if consume(&self.pairs).is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
            first = end;
        }
        Ok(ControlFlow::Continue(()))
    }
}

impl Drop for Selection {
    fn drop(&mut self) {
        self.device.make_current();
    }
}
