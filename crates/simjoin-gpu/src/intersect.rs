//! Which elements do two large sets share, found on a device?
//!
//! The kernels of Bellas and Gounaris (Exploiting GPUs for fast intersection of large sets), for two
//! ascending arrays of any length:
//!
//! * `ip` cuts the merge of both arrays into equal parts (intersect path), which threads merge in shared
//!   memory;
//! * `ip-obs` cuts the shorter array into equal parts and looks their elements up in the longer one by binary
//!   search. The upper levels of the search are in shared memory. If the sizes differ much, most of the
//!   longer array is never read;
//! * `ip-hash` cuts as `ip` does and hashes the shorter side of each part in shared memory;
//! * `bitmap` makes a bitmap of one side for each range of values, in shared memory, and tests the other
//!   side. No bitmap is ever written to the device's memory.
//!
//! # Flow
//!
//! ```text
//! two arrays ─► device ─► count, block by block ─► size
//!                              └► where each block's elements begin ─► write them ─► elements
//! ```
//!
//! One kernel counts, without help from the host. If elements are wanted, a second run writes them in
//! ascending order, after the sums of the blocks' counts have determined their positions.
//!
//! # Memory
//!
//! On the device 4 bytes per element of both arrays, 8 per block of some thousand elements, and 4 per element
//! that is written. On the host the elements, and up to 24 MB while arrays are sent.
//!
//! # Exactness
//!
//! Each block owns elements of one array, or a range of values, and no other block owns them. It reads all
//! possible partners of its elements. A kernel checks that arrays ascend after they were sent.

use crate::device::{Device, Lease, failed};
use crate::send::Sender;
use crate::sets::{source, timer};
use cudarc::driver::{
    CudaEvent, CudaFunction, CudaSlice, CudaStream, DevicePtr, DeviceRepr, LaunchConfig,
    PushKernelArg, sys,
};
use simjoin_core::{Error, Result};
use simjoin_engine::Budget;
use std::sync::Arc;
use std::time::Instant;

pub(crate) static SOURCE: &str = source!("intersect.cu");

/// Constants of the kernels: the threads of a block; for `ip` and `ip-hash` the largest number of elements
/// per thread in a tile, and of tiles in a block; for `ip-obs` the elements of the shorter array in a block.
const THREADS: u32 = 256;
const MAX_PER_THREAD: u32 = 27;
const MAX_TILES: u32 = 7;
const PART_ELEMENTS: u64 = 2048;

/// The number of blocks of `ip` that fit on a multiprocessor.
const BLOCKS_PER_MULTIPROCESSOR: u64 = 6;

/// The smallest and the largest number of values in the range of a block of `bitmap`, as powers of two. The
/// largest takes 32 KiB of shared memory.
const MIN_RANGE: u32 = 12;
const MAX_RANGE: u32 = 18;

/// The number of blocks of `bitmap` per multiprocessor, unless ranges would be too small.
const BITMAP_BLOCKS_PER_MULTIPROCESSOR: u64 = 24;

/// A kernel that intersects two arrays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IntersectKernel {
    /// Equal parts of the merge, merged in shared memory.
    Ip,
    /// Binary search with its upper levels in shared memory.
    IpObs,
    /// Equal parts of the merge, hashed in shared memory.
    IpHash,
    /// Bitmaps of ranges of values in shared memory.
    Bitmap,
}

impl IntersectKernel {
    /// All kernels.
    pub const ALL: [IntersectKernel; 4] = [Self::Ip, Self::IpObs, Self::IpHash, Self::Bitmap];

    /// Returns the name in the literature.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ip => "ip",
            Self::IpObs => "ip-obs",
            Self::IpHash => "ip-hash",
            Self::Bitmap => "bitmap",
        }
    }

    /// Returns the kernel with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kernel| kernel.name() == name)
    }

    /// Returns the most suitable kernel for two arrays.
    pub fn choose(a: &DeviceArray, b: &DeviceArray) -> Self {
        let (short, long) = (a.len().min(b.len()) as u64, a.len().max(b.len()) as u64);
        // Lookups read a sector of 32 bytes for each of the last levels. Beyond this ratio it is better not
        // to read the whole longer array.
        if short.saturating_mul(64) < long {
            return Self::IpObs;
        }
        match a.common_range(b) {
            Some((low, high)) if u64::from(high - low) / 16 < short + long => Self::Bitmap,
            _ => Self::Ip,
        }
    }
}

/// An ascending array on a device.
pub struct DeviceArray {
    device: Arc<Device>,
    /// At least one element, even if the array is empty.
    values: CudaSlice<u32>,
    len: usize,
    /// Whether its last element is the largest number of all. Kernels do not see that element, since they use
    /// the number as a mark.
    with_max: bool,
    /// The first and the last element without it.
    ends: Option<(u32, u32)>,
    /// Dropped last.
    _lease: Lease,
}

/// The largest number of all.
const MAX_VALUE: u32 = u32::MAX;

impl DeviceArray {
    /// Sends an array, whose elements must ascend strictly.
    pub fn new(device: &Arc<Device>, values: &[u32]) -> Result<Self> {
        let at = failed("sending a set to the device");
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let lease = Lease::new(device);
        let sender = Sender::new(device, &Budget::unlimited(1, threads))?;
        let sent = sender.send(if values.is_empty() { &[0] } else { values })?;
        let with_max = values.last() == Some(&MAX_VALUE);
        let others = &values[..values.len() - usize::from(with_max)];
        let array = DeviceArray {
            device: device.clone(),
            values: sent,
            len: values.len(),
            with_max,
            ends: others.first().copied().zip(others.last().copied()),
            _lease: lease,
        };
        let stream = &sender.stream;
        let mut place = stream.clone_htod(&[u64::MAX]).map_err(&at)?;
        let ascends = device.function(SOURCE, &[], "ascends")?;
        let blocks = (array.len as u64).div_ceil(u64::from(THREADS)).clamp(1, 4096) as u32;
        // SAFETY: the arguments match the kernel, which only reads elements of the array.
        unsafe {
            stream
                .launch_builder(&ascends)
                .arg(&array.values)
                .arg(&(array.len as u64))
                .arg(&mut place)
                .launch(grid(blocks, 0))
                .map_err(&at)?;
        }
        let mut found = [0];
        stream.memcpy_dtoh(&place, &mut found).map_err(&at)?;
        stream.synchronize().map_err(&at)?;
        match found[0] {
            u64::MAX => Ok(array),
            at => Err(Error::Internal(format!(
                "the elements of a set do not ascend after position {at}"
            ))),
        }
    }

    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the number of elements that kernels see.
    fn visible(&self) -> usize {
        self.len - usize::from(self.with_max)
    }

    /// Returns the range of values that both arrays may contain, without the largest number of all; `None` if
    /// there is no such value.
    fn common_range(&self, other: &Self) -> Option<(u32, u32)> {
        let ((a, b), (c, d)) = self.ends.zip(other.ends)?;
        (a.max(c) <= b.min(d)).then_some((a.max(c), b.min(d)))
    }

    fn argument(&self, stream: &CudaStream) -> ArrayArgument {
        ArrayArgument { at: self.values.device_ptr(stream).0, size: self.visible() as u32 }
    }
}

impl Drop for DeviceArray {
    fn drop(&mut self) {
        self.device.make_current();
    }
}

impl Drop for Intersect {
    fn drop(&mut self) {
        self.device.make_current();
    }
}

/// An array as an argument of a kernel.
#[repr(C)]
#[derive(Clone, Copy)]
struct ArrayArgument {
    at: sys::CUdeviceptr,
    size: u32,
}

// SAFETY: numbers and addresses, laid out as in the kernels.
unsafe impl DeviceRepr for ArrayArgument {}

/// The destination of common elements, as an argument of a kernel.
#[repr(C)]
#[derive(Clone, Copy)]
struct FoundArgument {
    total: sys::CUdeviceptr,
    next_total: sys::CUdeviceptr,
    blocks: sys::CUdeviceptr,
    out: sys::CUdeviceptr,
}

// SAFETY: as above.
unsafe impl DeviceRepr for FoundArgument {}

/// The elements of a merge per thread in a tile and the tiles of a block, as an argument of a kernel.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct WorkArgument {
    each: u32,
    tiles: u32,
}

// SAFETY: as above.
unsafe impl DeviceRepr for WorkArgument {}

/// Returns the number of blocks for a merge of this many elements, and their work. If all blocks run at once,
/// they have equal work.
fn cut(elements: u64, multiprocessors: u32) -> (u64, WorkArgument) {
    let tile = u64::from(MAX_PER_THREAD * THREADS);
    let resident = BLOCKS_PER_MULTIPROCESSOR * u64::from(multiprocessors.max(1));
    let tiles = elements.div_ceil(resident * tile).clamp(1, MAX_TILES.into());
    let each = elements.div_ceil(resident * tiles * u64::from(THREADS)).min(MAX_PER_THREAD.into());
    // Odd, and large enough that searching does not take longer than merging.
    let each = (each | 1).clamp(9, MAX_PER_THREAD.into());
    let span = each * tiles * u64::from(THREADS);
    (elements.div_ceil(span), WorkArgument { each: each as u32, tiles: tiles as u32 })
}

/// The result of an intersection, with its times.
#[derive(Clone, Debug, Default)]
pub struct Intersection {
    /// The number of common elements.
    pub size: u64,
    /// The common elements in ascending order, if they were wanted.
    pub elements: Option<Vec<u32>>,
    /// The seconds for sending and checking the arrays, and for fetching elements.
    pub transfer: f64,
    /// Seconds on the device.
    pub kernel: f64,
    /// The name of the kernel.
    pub technique: &'static str,
}

/// Intersects arrays that are on a device.
pub struct Intersect {
    device: Arc<Device>,
    stream: Arc<CudaStream>,
    /// Two counters, which are used alternately.
    totals: CudaSlice<u64>,
    turn: usize,
    /// The counts of blocks, or the positions of their elements.
    blocks: CudaSlice<u64>,
    clock: [CudaEvent; 2],
    /// Dropped last.
    _lease: Lease,
}

fn grid(blocks: u32, shared_mem_bytes: u32) -> LaunchConfig {
    LaunchConfig { grid_dim: (blocks, 1, 1), block_dim: (THREADS, 1, 1), shared_mem_bytes }
}

/// The kernels to launch for two arrays, with their arguments.
struct LaunchPlan {
    count: CudaFunction,
    write: CudaFunction,
    a: ArrayArgument,
    b: ArrayArgument,
    /// For `bitmap`: the smallest and the largest value, and the size of a range as a power of two.
    values: Option<(u32, u32, u32)>,
    /// For `ip` and `ip-hash`: how a block's part of the merge is cut.
    work: Option<WorkArgument>,
    blocks: u32,
    shared: u32,
}

impl Intersect {
    /// Creates the stream, counters and events that an intersection needs.
    pub fn new(device: &Arc<Device>) -> Result<Self> {
        let at = failed("preparing an intersection");
        let stream = device.stream()?;
        Ok(Intersect {
            device: device.clone(),
            totals: stream.alloc_zeros(2).map_err(&at)?,
            turn: 0,
            blocks: stream.alloc_zeros(1).map_err(&at)?,
            stream,
            clock: [timer(device)?, timer(device)?],
            _lease: Lease::new(device),
        })
    }

    /// Returns the number of common elements of two arrays, and the seconds on the device.
    pub fn size(
        &mut self,
        a: &DeviceArray,
        b: &DeviceArray,
        kernel: IntersectKernel,
    ) -> Result<(u64, f64)> {
        let max_common = u64::from(a.with_max && b.with_max);
        let Some(plan) = self.plan(a, b, kernel)? else { return Ok((max_common, 0.0)) };
        self.record(0)?;
        self.count(&plan)?;
        self.record(1)?;
        Ok((self.read_total()? + max_common, self.elapsed()?))
    }

    /// Returns the common elements of two arrays, on the device, and the seconds there.
    pub fn elements(
        &mut self,
        a: &DeviceArray,
        b: &DeviceArray,
        kernel: IntersectKernel,
    ) -> Result<(DeviceArray, f64)> {
        let with_max = a.with_max && b.with_max;
        let Some(plan) = self.plan(a, b, kernel)? else {
            let values: &[u32] = if with_max { &[MAX_VALUE] } else { &[] };
            return Ok((DeviceArray::new(&self.device, values)?, 0.0));
        };
        let at = failed("intersecting");
        self.record(0)?;
        self.count(&plan)?;
        self.record(1)?;
        let visible = self.read_total()? as usize;
        let mut seconds = self.elapsed()?;
        let len = visible + usize::from(with_max);
        // SAFETY: every element is written below, or there are none.
        let mut values = unsafe { self.stream.alloc::<u32>(len.max(1)) }.map_err(&at)?;
        let mut ends = None;
        if visible > 0 {
            self.record(0)?;
            self.write(&plan, &values)?;
            self.record(1)?;
            ends = Some((self.value(&values, 0)?, self.value(&values, visible - 1)?));
            seconds += self.elapsed()?;
        }
        if with_max {
            self.stream
                .memcpy_htod(&[MAX_VALUE], &mut values.slice_mut(visible..len))
                .map_err(&at)?;
        }
        self.stream.synchronize().map_err(&at)?;
        let (device, lease) = (self.device.clone(), Lease::new(&self.device));
        Ok((DeviceArray { device, values, len, with_max, ends, _lease: lease }, seconds))
    }

    /// Counts the common elements of pairs of arrays, one after the other without a pause, `times` times in
    /// all. Returns the seconds on the device for each count. For measurements.
    #[doc(hidden)]
    pub fn repeat(
        &mut self,
        pairs: &[(&DeviceArray, &DeviceArray)],
        kernel: IntersectKernel,
        times: usize,
    ) -> Result<f64> {
        let mut plans = Vec::new();
        for (a, b) in pairs {
            plans.extend(self.plan(a, b, kernel)?);
        }
        self.record(0)?;
        for plan in plans.iter().cycle().take(times) {
            self.count(plan)?;
        }
        self.record(1)?;
        self.stream.synchronize().map_err(failed("intersecting"))?;
        Ok(self.elapsed()? / times as f64)
    }

    /// Returns the launch for two arrays; `None` if they can have no common element.
    fn plan(
        &mut self,
        a: &DeviceArray,
        b: &DeviceArray,
        kernel: IntersectKernel,
    ) -> Result<Option<LaunchPlan>> {
        let Some((low, high)) = a.common_range(b) else { return Ok(None) };
        let same = |array: &DeviceArray| Arc::ptr_eq(&array.device, &self.device);
        if !same(a) || !same(b) {
            return Err(Error::Internal("the arrays are on different devices".into()));
        }
        // The elements of the shorter array are looked up in the longer one.
        let (a, b) = if a.visible() <= b.visible() { (a, b) } else { (b, a) };
        let all = (a.visible() + b.visible()) as u64;
        let (spans, work) = cut(all, self.device.info.multiprocessors);
        let (names, blocks, values) = match kernel {
            IntersectKernel::Ip => (["ip_count", "ip_write"], spans, None),
            IntersectKernel::IpHash => (["ip_hash_count", "ip_hash_write"], spans, None),
            IntersectKernel::IpObs => (
                ["ip_obs_count", "ip_obs_write"],
                (a.visible() as u64).div_ceil(PART_ELEMENTS),
                None,
            ),
            IntersectKernel::Bitmap => {
                let values = u64::from(high - low) + 1;
                let wanted = BITMAP_BLOCKS_PER_MULTIPROCESSOR
                    * u64::from(self.device.info.multiprocessors.max(1));
                let range = (values / wanted).max(1).ilog2().clamp(MIN_RANGE, MAX_RANGE);
                let names = ["bitmap_count", "bitmap_write"];
                (names, values.div_ceil(1 << range), Some((low, high, range)))
            }
        };
        let at = failed("preparing an intersection");
        if (self.blocks.len() as u64) < blocks {
            self.blocks = self.stream.alloc_zeros(blocks as usize).map_err(&at)?;
        }
        Ok(Some(LaunchPlan {
            count: self.device.function(SOURCE, &[], names[0])?,
            write: self.device.function(SOURCE, &[], names[1])?,
            a: a.argument(&self.stream),
            b: b.argument(&self.stream),
            values,
            work: matches!(kernel, IntersectKernel::Ip | IntersectKernel::IpHash).then_some(work),
            blocks: blocks as u32,
            shared: values.map_or(0, |(_, _, range)| 1 << (range - 3)),
        }))
    }

    fn count(&mut self, plan: &LaunchPlan) -> Result<()> {
        self.turn = 1 - self.turn;
        self.launch(plan, &plan.count, 0)
    }

    fn write(&mut self, plan: &LaunchPlan, out: &CudaSlice<u32>) -> Result<()> {
        let place = self.device.function(SOURCE, &[], "place_blocks")?;
        let blocks = u64::from(plan.blocks);
        // SAFETY: the arguments match the kernel, and `blocks` has this number of entries.
        unsafe {
            self.stream
                .launch_builder(&place)
                .arg(&mut self.blocks)
                .arg(&blocks)
                .launch(grid(1, 0))
                .map_err(failed("intersecting"))?;
        }
        self.launch(plan, &plan.write, out.device_ptr(&self.stream).0)
    }

    fn launch(
        &self,
        plan: &LaunchPlan,
        kernel: &CudaFunction,
        out: sys::CUdeviceptr,
    ) -> Result<()> {
        let totals = self.totals.device_ptr(&self.stream).0;
        let total = |turn: usize| totals + (turn * size_of::<u64>()) as u64;
        let found = FoundArgument {
            total: total(self.turn),
            next_total: total(1 - self.turn),
            blocks: self.blocks.device_ptr(&self.stream).0,
            out,
        };
        let mut launch = self.stream.launch_builder(kernel);
        launch.arg(&plan.a).arg(&plan.b);
        if let Some((low, high, range)) = &plan.values {
            launch.arg(low).arg(high).arg(range);
        }
        if let Some(work) = &plan.work {
            launch.arg(work);
        }
        // SAFETY: the arguments match the kernel. The arrays ascend, and there is space for the count of
        // every block and for all counted elements.
        unsafe { launch.arg(&found).launch(grid(plan.blocks, plan.shared)) }
            .map(drop)
            .map_err(failed("intersecting"))
    }

    fn record(&self, which: usize) -> Result<()> {
        self.clock[which].record(&self.stream).map_err(failed("intersecting"))
    }

    fn elapsed(&self) -> Result<f64> {
        let milliseconds = self.clock[0].elapsed_ms(&self.clock[1]);
        Ok(f64::from(milliseconds.map_err(failed("intersecting"))?) / 1e3)
    }

    fn read_total(&self) -> Result<u64> {
        let at = failed("intersecting");
        let mut totals = [0; 2];
        self.stream.memcpy_dtoh(&self.totals, &mut totals).map_err(&at)?;
        self.stream.synchronize().map_err(&at)?;
        Ok(totals[self.turn])
    }

    fn value(&self, values: &CudaSlice<u32>, place: usize) -> Result<u32> {
        let at = failed("intersecting");
        let mut value = [0];
        self.stream.memcpy_dtoh(&values.slice(place..=place), &mut value).map_err(&at)?;
        self.stream.synchronize().map_err(&at)?;
        Ok(value[0])
    }

    /// Copies an array to the host.
    pub fn fetch(&self, array: &DeviceArray) -> Result<Vec<u32>> {
        let at = failed("fetching elements");
        let mut values = vec![0; array.len];
        if array.len > 0 {
            self.stream.memcpy_dtoh(&array.values.slice(..array.len), &mut values).map_err(&at)?;
            self.stream.synchronize().map_err(&at)?;
        }
        Ok(values)
    }
}

/// Intersects two ascending slices. Returns the number of common elements and, if wanted, the elements.
/// Without a kernel, the most suitable one is chosen.
pub fn intersect(
    device: &Arc<Device>,
    a: &[u32],
    b: &[u32],
    kernel: Option<IntersectKernel>,
    elements: bool,
) -> Result<Intersection> {
    let begin = Instant::now();
    let [a, b] = [DeviceArray::new(device, a)?, DeviceArray::new(device, b)?];
    let mut transfer = begin.elapsed().as_secs_f64();
    let kernel = kernel.unwrap_or_else(|| IntersectKernel::choose(&a, &b));
    let technique = kernel.name();
    let mut work = Intersect::new(device)?;
    if !elements {
        let (size, kernel) = work.size(&a, &b, kernel)?;
        return Ok(Intersection { size, elements: None, transfer, kernel, technique });
    }
    let (common, kernel) = work.elements(&a, &b, kernel)?;
    let begin = Instant::now();
    let elements = work.fetch(&common)?;
    transfer += begin.elapsed().as_secs_f64();
    let size = elements.len() as u64;
    Ok(Intersection { size, elements: Some(elements), transfer, kernel, technique })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_are_found_by_name() {
        for kernel in IntersectKernel::ALL {
            assert_eq!(IntersectKernel::named(kernel.name()), Some(kernel));
        }
        assert_eq!(IntersectKernel::named("merge"), None);
    }

    #[test]
    fn blocks_cover_every_element_of_a_merge() {
        for elements in [1, 5, 1000, 100_000, 19_999_999, 20_000_000, 1 << 30, 1 << 33] {
            for multiprocessors in [1, 20, 132] {
                let (blocks, work) = cut(elements, multiprocessors);
                let WorkArgument { each, tiles } = work;
                let span = u64::from(each * tiles * THREADS);
                assert!(blocks * span >= elements && (blocks - 1) * span < elements);
                assert!(each <= MAX_PER_THREAD && each % 2 == 1 && tiles <= MAX_TILES, "{work:?}");
                assert!(blocks < 1 << 31);
            }
        }
        // All blocks run at once.
        assert!(cut(20_000_000, 132).0 <= 6 * 132);
    }
}
