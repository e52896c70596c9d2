//! How are the pairs found that satisfy a predicate?

use super::on_device::Here;
use super::sides::padded;
use super::tile::{TileArgument, Want};
use super::{ANSWERS, OverlapSeconds, ROWS, SMALL, TILE, grid};
use crate::device::{Device, failed};
use crate::sets::{Answer, Predicate, timer};
use cudarc::driver::{
    CudaEvent, CudaFunction, CudaSlice, DevicePtr, LaunchConfig, PushKernelArg, sys,
};
use simjoin_core::{Bounds, Error, Result, SetPair};
use std::ops::{ControlFlow, Range};
use std::sync::Arc;
use std::time::Instant;

/// How pairs are selected: the tiles, and the number of answers that there is room for.
#[derive(Clone, Debug, Default)]
pub(crate) struct SelectionPlan {
    tiles: Vec<TileArgument>,
    most: u64,
}

impl SelectionPlan {
    /// Plans a selection that takes at most `bytes` on the host, and on the device at most what is left.
    pub(crate) fn new(here: &Here<'_>, bytes: u64) -> Result<Self> {
        let columns = here.sides.columns().range.len() as u64;
        let rows = here.sides.rows.range.len() as u64;
        // Room for the answers of one row at least.
        if Selection::ANSWER * columns > bytes {
            let what = "handing on overlaps".into();
            let (needed, limit) = (Selection::ANSWER * columns, bytes);
            return Err(Error::Memory { what, needed, limit, device: false });
        }
        let least = u64::from(ROWS) * padded(columns as usize) * u64::from(here.width);
        let spare = here.spare.saturating_sub(least + 8 * (rows + 1) + SMALL) / 2;
        let on_device = ANSWERS.min(spare) / size_of::<Answer>() as u64;
        let most = (ANSWERS.min(bytes) / Selection::ANSWER).min(on_device).max(columns);
        let beside = size_of::<Answer>() as u64 * most + 8 * (rows + 1) + SMALL;
        Ok(SelectionPlan { tiles: here.tiles(1, TILE, beside, Want::Once)?, most })
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
    stand_for: CudaSlice<u64>,
    found: Vec<Answer>,
    pairs: Vec<SetPair>,
    clock: [CudaEvent; 2],
    device: Arc<Device>,
}

impl Selection {
    /// Bytes on the host for an answer.
    pub(crate) const ANSWER: u64 = (size_of::<Answer>() + size_of::<SetPair>()) as u64;

    pub(crate) fn new(here: &Here<'_>, bounds: &Bounds, plan: &SelectionPlan) -> Result<Self> {
        let at = failed("making room for pairs");
        let stream = &here.stream;
        let largest = plan.tiles.iter().map(|tile| here.bytes(tile)).max().unwrap_or(0);
        Ok(Selection {
            plan: plan.clone(),
            buffer: here.buffer(largest)?,
            select: here.function("select")?,
            predicate: Predicate::new(bounds),
            // SAFETY: nothing is read before it was written.
            answers: unsafe { stream.alloc(plan.most as usize) }.map_err(&at)?,
            stand_for: stream.alloc_zeros(1).map_err(&at)?,
            found: Vec::new(),
            pairs: Vec::new(),
            clock: [timer(&here.device)?, timer(&here.device)?],
            device: here.device.clone(),
        })
    }

    /// Returns an upper bound of the number of pairs of sets in a tile.
    pub(crate) fn compared(&self, tile: usize) -> u64 {
        let TileArgument { rows, columns, .. } = self.plan.tiles[tile];
        u64::from(rows) * u64::from(columns)
    }

    /// Counts the overlaps of a tile, and the pairs of each of its rows.
    fn begin(
        &mut self,
        here: &Here<'_>,
        tile: usize,
        seconds: &mut OverlapSeconds,
    ) -> Result<(TileArgument, CudaSlice<u64>)> {
        let at = failed("selecting pairs");
        let tile = here.timed(&self.clock, &mut seconds.count, || {
            here.compute(&mut self.buffer, &self.plan.tiles[tile])
        })?;
        let places = here.stream.alloc_zeros::<u64>(tile.rows as usize + 1).map_err(&at)?;
        here.stream.memset_zeros(&mut self.stand_for).map_err(&at)?;
        here.timed(&self.clock, &mut seconds.select, || {
            self.launch(here, &tile, 0..tile.rows, &places, 0)
        })?;
        Ok((tile, places))
    }

    fn launch(
        &self,
        here: &Here<'_>,
        tile: &TileArgument,
        rows: Range<u32>,
        places: &CudaSlice<u64>,
        answers: sys::CUdeviceptr,
    ) -> Result<()> {
        let (row_sets, column_sets) = here.sets();
        let stream = &here.stream;
        // SAFETY: the arguments are those of the kernel; there is a place for each row, and room for as many
        // answers as were counted in these rows.
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
                .arg(&self.stand_for.device_ptr(stream).0)
                .launch(LaunchConfig { grid_dim: (rows.len() as u32, 1, 1), ..grid(1) })
        }
        .map(drop)
        .map_err(failed("selecting pairs"))
    }

    /// Counts the pairs of rows of the input that the pairs of a tile stand for.
    pub(crate) fn count(
        &mut self,
        here: &Here<'_>,
        tile: usize,
        seconds: &mut OverlapSeconds,
    ) -> Result<u64> {
        let at = failed("counting pairs");
        self.begin(here, tile, seconds)?;
        let mut rows = [0];
        here.stream.memcpy_dtoh(&self.stand_for, &mut rows).map_err(&at)?;
        here.stream.synchronize().map_err(&at)?;
        Ok(rows[0])
    }

    /// Hands on the pairs of a tile.
    pub(crate) fn pairs(
        &mut self,
        here: &Here<'_>,
        tile: usize,
        seconds: &mut OverlapSeconds,
        consume: &mut dyn FnMut(&[SetPair]) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>> {
        let at = failed("fetching pairs");
        let stream = &here.stream;
        let (tile, mut places) = self.begin(here, tile, seconds)?;
        let rows = tile.rows as usize;
        let mut ends = vec![0u64; rows + 1];
        stream.memcpy_dtoh(&places, &mut ends).map_err(&at)?;
        stream.synchronize().map_err(&at)?;
        // Where the pairs of each row begin.
        let mut sum = 0;
        for place in &mut ends {
            (*place, sum) = (sum, sum + *place);
        }
        stream.memcpy_htod(&ends, &mut places).map_err(&at)?;
        let firsts = (here.sides.rows.range.start, here.sides.columns().range.start);
        let mut first = 0;
        while first < rows {
            // As many rows as there is room for.
            let room = ends[first] + self.plan.most;
            let end = first + ends[first + 1..].partition_point(|&end| end <= room);
            let count = (ends[end] - ends[first]) as usize;
            if count > 0 {
                let to = self.answers.device_ptr(stream).0;
                here.timed(&self.clock, &mut seconds.select, || {
                    self.launch(here, &tile, first as u32..end as u32, &places, to)
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
