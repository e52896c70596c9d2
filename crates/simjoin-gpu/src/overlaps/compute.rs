//! How are rows cut into tiles, and how are the overlaps of a tile counted?

use super::on_device::{LookUp, OnDevice};
use super::sides::OverlapSides;
use super::tile::{Coverage, TileArgument};
use super::{COLUMNS, LOOK_UP_WORDS, POPCOUNT, PRODUCT, ROWS, STEP, THREADS, grid};
use crate::device::failed;
use cudarc::driver::{CudaSlice, DevicePtr, LaunchConfig, PushKernelArg, sys};
use simjoin_core::{Error, Result};

impl OnDevice<'_> {
    /// Cuts all rows into tiles of at most `most` bytes each. `buffers` tiles must fit into the spare memory
    /// less `reserved` bytes.
    pub(crate) fn tiles(
        &self,
        buffers: u64,
        most: u64,
        reserved: u64,
        want: Coverage,
    ) -> Result<Vec<TileArgument>> {
        let OverlapSides { rows, columns, limits } = &self.sides;
        let (own, before) = (columns.is_none(), want == Coverage::Once);
        let columns = self.sides.columns().range.len() as u64;
        let rows = rows.range.len() as u64;
        let spare = self.spare.saturating_sub(reserved);
        let most = most.min(spare / buffers);
        let width = u64::from(self.width);
        let launch_limit = self.launch_bytes();
        // The last of more rows meets more columns.
        let columns_of = |end: u64| {
            let end = end.min(rows);
            let limit = limits.as_ref().map_or(columns, |limits| limits[end as usize - 1].into());
            if own && before { limit.min(end) } else { limit }
        };
        let stride_of = |end: u64| columns_of(end).max(1).next_multiple_of(u64::from(COLUMNS));
        let block = u64::from(ROWS);
        let mut tiles = Vec::new();
        let mut first = 0;
        while first < rows {
            let bytes = |blocks: u64| blocks * block * stride_of(first + blocks * block) * width;
            let mut blocks = (rows - first).div_ceil(block);
            let fits = |blocks: u64| bytes(blocks) <= most.min(launch_limit);
            if !fits(blocks) {
                // The largest number of blocks that fits, at least one.
                let (mut low, mut high) = (1, blocks);
                while low < high {
                    let half = (low + high).div_ceil(2);
                    (low, high) = if fits(half) { (half, high) } else { (low, half - 1) };
                }
                blocks = low;
            }
            if bytes(blocks) > most {
                let what = "a tile of overlaps".into();
                let (needed, limit) = (buffers * bytes(blocks), spare);
                return Err(Error::Memory { what, needed, limit, device: true });
            }
            let end = rows.min(first + blocks * block);
            let columns = columns_of(end);
            // If there are limits, rows that meet no column are left out.
            let first = std::mem::replace(&mut first, end);
            if columns == 0 && limits.is_some() {
                continue;
            }
            tiles.push(TileArgument {
                counts: 0,
                stride: stride_of(end),
                limits: 0,
                first: first as u32,
                rows: (end - first) as u32,
                columns: columns as u32,
                own: u32::from(own),
                before: u32::from(before),
            });
        }
        Ok(tiles)
    }

    /// Returns the bytes of counts that one launch of the product computes within its time limit.
    pub(super) fn launch_bytes(&self) -> u64 {
        let Some(bits) = &self.bits else { return u64::MAX };
        let info = &self.device.info;
        let rate = if self.defines[1].1 == 1 { PRODUCT } else { POPCOUNT };
        let pairs = info.launch_seconds() * rate * info.multiprocessor_ratio();
        (pairs * 256.0 / f64::from(32 * bits.words.max(1))) as u64 * u64::from(self.width)
    }

    pub(super) fn bytes(&self, tile: &TileArgument) -> u64 {
        u64::from(tile.rows.next_multiple_of(ROWS)) * tile.stride * u64::from(self.width)
    }

    pub(super) fn buffer(&self, bytes: u64) -> Result<CudaSlice<u8>> {
        // SAFETY: nothing is read before it is written.
        unsafe { self.stream.alloc::<u8>(bytes.max(1) as usize) }
            .map_err(failed("allocating overlaps"))
    }

    /// Launches the kernels that count the overlaps of a tile into a buffer.
    pub(super) fn compute(
        &self,
        buffer: &mut CudaSlice<u8>,
        tile: &TileArgument,
    ) -> Result<TileArgument> {
        let at = failed("counting overlaps");
        let stream = &self.stream;
        let limits = self.limits.as_ref().map_or(0, |limits| limits.device_ptr(stream).0);
        let tile = TileArgument { counts: buffer.device_ptr(stream).0, limits, ..*tile };
        let (row_sets, _) = self.sets();
        if let Some(look_up) = &self.look_up {
            self.look_up(look_up, &tile)?;
            return Ok(tile);
        }
        match &self.bits {
            Some(bits) => {
                let product = self.function("product")?;
                let shared = self.defines[2].1 * (ROWS + COLUMNS) * STEP / 8;
                product
                    .set_attribute(
                        sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                        shared as i32,
                    )
                    .map_err(failed("setting the shared memory"))?;
                let (row_blocks, column_blocks) =
                    (tile.rows.div_ceil(ROWS), tile.columns.div_ceil(COLUMNS));
                // SAFETY: the arguments match the kernel. There are bits for all rows and columns of its
                // blocks, and the tile has space for their counts.
                unsafe {
                    stream
                        .launch_builder(&product)
                        .arg(&bits.rows)
                        .arg(bits.columns.as_ref().unwrap_or(&bits.rows))
                        .arg(&bits.words)
                        .arg(&row_blocks)
                        .arg(&column_blocks)
                        .arg(&tile)
                        .launch(LaunchConfig {
                            grid_dim: (row_blocks * column_blocks, 1, 1),
                            block_dim: (THREADS, 1, 1),
                            shared_mem_bytes: shared,
                        })
                        .map_err(&at)?;
                }
            }
            None => {
                let bytes = self.bytes(&tile) as usize;
                stream.memset_zeros(&mut buffer.slice_mut(..bytes)).map_err(&at)?;
            }
        }
        if self.lists.is_some() {
            let walk = self.function("walk_lists")?;
            // SAFETY: the arguments match the kernel, which adds to counts of the tile's rows.
            unsafe {
                stream
                    .launch_builder(&walk)
                    .arg(&row_sets)
                    .arg(&self.lists_argument())
                    .arg(&tile)
                    .launch(LaunchConfig { grid_dim: (tile.rows, 1, 1), ..grid(1) })
                    .map_err(&at)?;
            }
        }
        Ok(tile)
    }

    pub(super) fn look_up(&self, how: &LookUp, tile: &TileArgument) -> Result<()> {
        let at = failed("counting overlaps");
        let stream = &self.stream;
        let (rows, columns) = self.sets();
        let mut next = stream.alloc_zeros::<u32>(1).map_err(&at)?;
        let global = how.global.as_ref().map_or(0, |global| global.device_ptr(stream).0);
        let kernel = self.function(how.kernel)?;
        // SAFETY: the arguments match the kernel. Each block has `how.words` words, in shared memory or in
        // global memory.
        unsafe {
            stream
                .launch_builder(&kernel)
                .arg(&rows)
                .arg(&columns)
                .arg(tile)
                .arg(&self.universe())
                .arg(&LOOK_UP_WORDS)
                .arg(&global)
                .arg(&how.words)
                .arg(&mut next)
                .launch(LaunchConfig {
                    grid_dim: (how.blocks.min(tile.rows), 1, 1),
                    block_dim: (THREADS, 1, 1),
                    shared_mem_bytes: 4 * LOOK_UP_WORDS,
                })
                .map_err(&at)?;
        }
        Ok(())
    }
}
