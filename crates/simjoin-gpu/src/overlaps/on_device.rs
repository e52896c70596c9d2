//! How are sets sent to a device, and how are their tokens divided into frequent and rare ones?

use super::sides::{OverlapSide, OverlapSides, padded};
use super::workload::Workload;
use super::{
    LOOK_UP_WORDS, OverlapSeconds, OverlapTechnique, POPCOUNT, PRODUCT, SOURCE, STEP, defines, grid,
};
use crate::device::{Device, Lease, failed};
use crate::send::Sender;
use crate::sets::{DeviceSets, SetsArgument, timer};
use cudarc::driver::{
    CudaEvent, CudaFunction, CudaSlice, CudaStream, DevicePtr, DeviceRepr, LaunchConfig,
    PushKernelArg, sys,
};
use simjoin_core::{Error, Result};
use simjoin_engine::Budget;
use std::sync::Arc;
use std::time::Instant;

/// The lists as an argument of a kernel.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct ListsArgument {
    unique: u32,
    heavy: u32,
    begins: sys::CUdeviceptr,
    ends: sys::CUdeviceptr,
    entries: sys::CUdeviceptr,
}

// SAFETY: numbers and addresses, laid out as in the kernels.
unsafe impl DeviceRepr for ListsArgument {}

/// The lists of the rare tokens.
pub(super) struct Lists {
    begins: CudaSlice<u32>,
    ends: CudaSlice<u32>,
    entries: CudaSlice<u32>,
}

/// The number of sets with each token, among the rows and, if these are other sets, among the columns.
struct Lengths {
    rows: CudaSlice<u32>,
    columns: Option<CudaSlice<u32>>,
}

/// The kernel that looks tokens up in one row at a time, and its memory.
pub(super) struct LookUp {
    pub(super) kernel: &'static str,
    pub(super) blocks: u32,
    /// The words of global memory for each block.
    pub(super) words: u64,
    pub(super) global: Option<CudaSlice<u32>>,
}

/// The bits of frequent tokens of all sets of a side.
pub(super) struct Bits {
    pub(super) rows: CudaSlice<u32>,
    /// The bits of the columns, if these are other sets.
    pub(super) columns: Option<CudaSlice<u32>>,
    pub(super) words: u32,
}

/// Sets on a device, prepared for counting.
pub(crate) struct OnDevice<'a> {
    pub(super) sides: OverlapSides<'a>,
    pub(super) device: Arc<Device>,
    pub(super) stream: Arc<CudaStream>,
    pub(super) copies: Arc<CudaStream>,
    pub(super) technique: OverlapTechnique,
    pub(super) defines: [(&'static str, u32); 3],
    pub(super) width: u32,
    pub(super) row_sets: DeviceSets,
    pub(super) column_sets: Option<DeviceSets>,
    /// The first frequent token, and the first token that is not unique.
    pub(super) heavy: u32,
    pub(super) unique: u32,
    pub(super) bits: Option<Bits>,
    pub(super) lists: Option<Lists>,
    pub(super) look_up: Option<LookUp>,
    pub(super) limits: Option<CudaSlice<u32>>,
    /// The bytes that remain for tiles and answers.
    pub(super) spare: u64,
    /// Dropped last.
    pub(super) _lease: Lease,
}

impl<'a> OnDevice<'a> {
    /// Sends sets and prepares them; no side may be empty.
    pub(crate) fn new(
        device: &Arc<Device>,
        sides: OverlapSides<'a>,
        technique: OverlapTechnique,
        budget: &Budget,
        seconds: &mut OverlapSeconds,
    ) -> Result<Self> {
        let at = failed("preparing to count overlaps");
        let begin = Instant::now();
        let width = sides.width();
        let tensor = technique != OverlapTechnique::Bitmap && device.info.multiplies_bits();
        let stages = if device.info.capability.0 >= 8 { 3 } else { 2 };
        let OverlapSides { rows, columns, limits } = &sides;
        let universe = rows.sets.universe();
        let unique = rows.sets.unique_tokens();
        let tokens = universe - unique;
        let (fixed, tile) = sides.least_bytes(technique.look_up().is_none());
        let limit = budget.device_bytes.min(device.free_memory()?);
        let spare = limit.saturating_sub(fixed + tile);
        let memory_error = |more: u64| {
            let what = format!("counting overlaps by {} on the GPU", technique.name());
            Err(Error::Memory { what, needed: fixed + tile + more, limit, device: true })
        };
        if limit < fixed + tile {
            return memory_error(0);
        }
        let lease = Lease::new(device);
        let sender = Sender::new(device, budget)?;
        let send = |side: &OverlapSide<'_>| DeviceSets::new(&sender, side.sets, &side.range);
        let row_sets = send(rows)?;
        let column_sets = columns.as_ref().map(send).transpose()?;
        let limits = limits.as_ref().map(|limits| sender.send(limits)).transpose()?;
        let stream = sender.stream;
        stream.synchronize().map_err(&at)?;
        seconds.send += begin.elapsed().as_secs_f64();
        let mut on_device = OnDevice {
            sides,
            device: device.clone(),
            copies: device.stream()?,
            stream,
            technique,
            defines: defines(width, tensor, stages),
            width,
            row_sets,
            column_sets,
            heavy: universe,
            unique,
            bits: None,
            lists: None,
            look_up: None,
            limits,
            spare: limit - fixed,
            _lease: lease,
        };
        if let Some(kernel) = technique.look_up() {
            let words = on_device.global_words();
            // At least one block must have its memory.
            if 4 * words > spare {
                return memory_error(4 * words);
            }
            let fitting = (spare / 2).checked_div(4 * words).unwrap_or(u64::MAX).max(1);
            let blocks = fitting.min(4 * u64::from(device.info.multiprocessors));
            // SAFETY: nothing is read before it is written.
            let global = unsafe { on_device.stream.alloc((words * blocks).max(1) as usize) };
            let global = (words > 0).then(|| global.map_err(&at)).transpose()?;
            on_device.look_up = Some(LookUp { kernel, blocks: blocks as u32, words, global });
            on_device.spare -= 4 * words * blocks;
            return Ok(on_device);
        }
        let clock = [timer(device)?, timer(device)?];
        let mut taken = 0;
        on_device.record(&clock[0])?;
        if tokens > 0 {
            let lengths = on_device.lengths(tokens)?;
            let workload = on_device.workload(tokens, spare, tensor, &lengths)?;
            let Some((frequent, class)) = on_device.choose_bits(tokens, &workload) else {
                return memory_error(workload.bytes(0, None));
            };
            taken = workload.bytes(frequent, class);
            if taken > spare {
                return memory_error(taken);
            }
            let entries = workload.list_entries(class);
            if entries > u64::from(u32::MAX) {
                let what = format!("lists of {entries} entries on the GPU");
                let (needed, limit) = (4 * entries, 4 * u64::from(u32::MAX));
                return Err(Error::Memory { what, needed, limit, device: true });
            }
            on_device.heavy = universe - frequent;
            on_device.prepare(frequent, entries, lengths)?;
        }
        on_device.record(&clock[1])?;
        on_device.stream.synchronize().map_err(&at)?;
        seconds.prepare += f64::from(clock[0].elapsed_ms(&clock[1]).map_err(&at)?) / 1e3;
        on_device.spare -= taken;
        Ok(on_device)
    }

    /// Returns the number of tokens that get bits, and their last class; `None` if nothing fits.
    fn choose_bits(&self, tokens: u32, workload: &Workload) -> Option<(u32, Option<usize>)> {
        match self.technique {
            OverlapTechnique::Index
            | OverlapTechnique::BitmapDynamic
            | OverlapTechnique::BinarySearch
            | OverlapTechnique::Hash => Some((0, None)),
            OverlapTechnique::Bitmap | OverlapTechnique::Dense => {
                Some((tokens, workload.class_within(tokens)))
            }
            OverlapTechnique::Combined(None) => workload.choose(),
            OverlapTechnique::Combined(Some(frequent)) => {
                let frequent = frequent.min(tokens);
                Some((frequent, workload.class_within(frequent)))
            }
        }
    }

    pub(super) fn universe(&self) -> u32 {
        self.sides.rows.sets.universe()
    }

    pub(super) fn record(&self, event: &CudaEvent) -> Result<()> {
        event.record(&self.stream).map_err(failed("counting overlaps"))
    }

    /// Launches work, waits for it, and adds its seconds on the device to a sum.
    pub(super) fn timed<T>(
        &self,
        clock: &[CudaEvent; 2],
        sum: &mut f64,
        launch: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let at = failed("waiting for the device");
        self.record(&clock[0])?;
        let launched = launch()?;
        self.record(&clock[1])?;
        self.stream.synchronize().map_err(&at)?;
        *sum += f64::from(clock[0].elapsed_ms(&clock[1]).map_err(&at)?) / 1e3;
        Ok(launched)
    }

    pub(super) fn function(&self, name: &str) -> Result<CudaFunction> {
        self.device.function(SOURCE, &self.defines, name)
    }

    pub(super) fn sets(&self) -> (SetsArgument, SetsArgument) {
        let rows = self.row_sets.argument(&self.stream);
        let columns = self.column_sets.as_ref().map(|sets| sets.argument(&self.stream));
        (rows, columns.unwrap_or(rows))
    }

    /// Counts the sets with each token that is not unique.
    fn lengths(&self, tokens: u32) -> Result<Lengths> {
        let at = failed("counting tokens");
        let count_tokens = self.function("count_tokens")?;
        let (row_sets, column_sets) = self.sets();
        let of = |side: &OverlapSide<'_>, argument: SetsArgument| {
            let mut lengths = self.stream.alloc_zeros::<u32>(tokens as usize + 1).map_err(&at)?;
            let count = side.range.len() as u32;
            // SAFETY: the arguments match the kernel. `lengths` has a number for each token.
            unsafe {
                self.stream
                    .launch_builder(&count_tokens)
                    .arg(&argument)
                    .arg(&count)
                    .arg(&self.unique)
                    .arg(&mut lengths)
                    .launch(grid(32 * u64::from(count)))
                    .map_err(&at)?;
            }
            Ok(lengths)
        };
        let columns = self.sides.columns.as_ref();
        let columns = columns.map(|columns| of(columns, column_sets)).transpose()?;
        Ok(Lengths { rows: of(&self.sides.rows, row_sets)?, columns })
    }

    /// Counts the entries and meetings that determine the costs of lists and bits.
    fn workload(
        &self,
        tokens: u32,
        spare: u64,
        tensor: bool,
        lengths: &Lengths,
    ) -> Result<Workload> {
        let at = failed("counting tokens");
        let weigh = self.function("weigh")?;
        let pointer = |slice: &CudaSlice<u32>| slice.device_ptr(&self.stream).0;
        let of_rows = pointer(&lengths.rows);
        let of_columns = lengths.columns.as_ref().map_or(of_rows, pointer);
        let sums = self.stream.alloc_zeros::<u64>(64).map_err(&at)?;
        let first = sums.device_ptr(&self.stream).0;
        let blocks = LaunchConfig { grid_dim: (528, 1, 1), ..grid(1) };
        // SAFETY: the arguments match the kernel, and `sums` has twice 32 numbers.
        unsafe {
            self.stream
                .launch_builder(&weigh)
                .arg(&of_rows)
                .arg(&of_columns)
                .arg(&tokens)
                .arg(&first)
                .arg(&(first + 32 * 8))
                .launch(blocks)
                .map_err(&at)?;
        }
        let mut read = [0u64; 64];
        self.stream.memcpy_dtoh(&sums, &mut read).map_err(&at)?;
        self.stream.synchronize().map_err(&at)?;
        let OverlapSides { rows, columns, .. } = &self.sides;
        let (n, m) = (rows.range.len() as f64, self.sides.columns().range.len() as f64);
        let power = self.device.info.multiprocessor_ratio();
        let mut workload = Workload {
            pairs: if columns.is_some() { n * m } else { n * m / 2.0 },
            bit: 1.0 / (256.0 * power * if tensor { PRODUCT } else { POPCOUNT }),
            sets: padded(rows.range.len())
                + columns.as_ref().map_or(0, |columns| padded(columns.range.len())),
            tokens,
            spare,
            entries: [0; 32],
            meetings: [0; 32],
        };
        workload.entries.copy_from_slice(&read[..32]);
        workload.meetings.copy_from_slice(&read[32..]);
        Ok(workload)
    }

    /// Makes the bits of the frequent tokens and the lists of the others, which have `entries` entries.
    fn prepare(&mut self, frequent: u32, entries: u64, lengths: Lengths) -> Result<()> {
        if frequent > 0 {
            self.bits = Some(self.make_bits(frequent)?);
        }
        if self.heavy > self.unique && entries > 0 {
            self.make_lists(entries, lengths)?;
        }
        self.stream.synchronize().map_err(failed("preparing to count overlaps"))
    }

    fn make_bits(&self, frequent: u32) -> Result<Bits> {
        let at = failed("preparing to count overlaps");
        let stream = &self.stream;
        let (row_sets, column_sets) = self.sets();
        let words = frequent.next_multiple_of(STEP) / 32;
        let fill = self.function("fill_bits")?;
        let make = |side: &OverlapSide<'_>, argument: SetsArgument| {
            let (count, padded) = (side.range.len() as u32, padded(side.range.len()));
            let words_in_all = padded as usize * words as usize;
            // SAFETY: every word is written below.
            let mut bits = unsafe { stream.alloc::<u32>(words_in_all) }.map_err(&at)?;
            // SAFETY: the arguments match the kernel, and `bits` has a row for each padded set.
            unsafe {
                stream
                    .launch_builder(&fill)
                    .arg(&argument)
                    .arg(&count)
                    .arg(&(padded as u32))
                    .arg(&self.heavy)
                    .arg(&words)
                    .arg(&mut bits)
                    .launch(grid(32 * padded))
                    .map_err(&at)?;
            }
            Ok(bits)
        };
        let columns = self.sides.columns.as_ref();
        let columns = columns.map(|columns| make(columns, column_sets)).transpose()?;
        Ok(Bits { rows: make(&self.sides.rows, row_sets)?, columns, words })
    }

    fn make_lists(&mut self, entries: u64, lengths: Lengths) -> Result<()> {
        let at = failed("preparing to count overlaps");
        let stream = self.stream.clone();
        let ends = lengths.columns.unwrap_or(lengths.rows);
        // SAFETY: nothing is read before it is written.
        let (begins, list) = unsafe {
            (
                stream.alloc::<u32>(ends.len()).map_err(&at)?,
                stream.alloc::<u32>(entries as usize).map_err(&at)?,
            )
        };
        self.lists = Some(Lists { begins, ends, entries: list });
        let lists = self.lists_argument();
        let (_, column_sets) = self.sets();
        let mut taken = stream.alloc_zeros::<u32>(1).map_err(&at)?;
        let count = self.sides.columns().range.len() as u32;
        let (place, fill) = (self.function("place_lists")?, self.function("fill_lists")?);
        // SAFETY: the arguments match the kernels. There is an entry for each rare token of each column.
        unsafe {
            stream
                .launch_builder(&place)
                .arg(&lists)
                .arg(&mut taken)
                .launch(grid(u64::from(self.heavy - self.unique)))
                .map_err(&at)?;
            stream
                .launch_builder(&fill)
                .arg(&column_sets)
                .arg(&count)
                .arg(&lists)
                .launch(grid(32 * u64::from(count)))
                .map_err(&at)?;
        }
        Ok(())
    }

    pub(super) fn lists_argument(&self) -> ListsArgument {
        let pointer = |slice: &CudaSlice<u32>| slice.device_ptr(&self.stream).0;
        let lists = self.lists.as_ref();
        ListsArgument {
            unique: self.unique,
            heavy: self.heavy,
            begins: lists.map_or(0, |lists| pointer(&lists.begins)),
            ends: lists.map_or(0, |lists| pointer(&lists.ends)),
            entries: lists.map_or(0, |lists| pointer(&lists.entries)),
        }
    }

    /// Returns the words of global memory that a block needs to look tokens up.
    fn global_words(&self) -> u64 {
        let words = match self.technique {
            OverlapTechnique::BitmapDynamic => u64::from(self.universe()).div_ceil(32),
            OverlapTechnique::Hash => (2 * u64::from(self.sides.rows.size(0))).next_power_of_two(),
            _ => 0,
        };
        if words > u64::from(LOOK_UP_WORDS) { words } else { 0 }
    }
}

impl Drop for OnDevice<'_> {
    fn drop(&mut self) {
        self.device.make_current();
    }
}
