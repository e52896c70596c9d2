//! What does a device hold for a join of vectors, and which blocks meet?
//!
//! # Flow
//!
//! ```text
//! rows ─► device ─► longest row ─► images ─► order ─► blocks, bounds ─► tiles that are near, in pieces
//!                             └──► f16 or bytes, in that order
//! ```

mod tiles;

pub(super) use tiles::MatrixArgument;

use super::tensor::{self, Band};
use super::{Frame, GpuVectors, TileKind, VectorWay, Work, fixed_grid, order};
use crate::device::{Device, Lease, failed};
use crate::send::{Plain, Sender};
use cudarc::driver::{CudaSlice, DevicePtr, PushKernelArg, sys};
use simjoin_core::{Elements, Error, Result, VectorCollection, VectorMeasure, VectorPredicate};
use simjoin_engine::{Budget, Fit, Limits, Transform, VectorTask, draw, no_direction};
use std::ops::Range;
use std::sync::Arc;

/// The number of rows in a block of images; as in the kernels.
pub(super) const BLOCK: u32 = 128;
/// The number of blocks of rows in a group, whose tiles are neighbours; as in the kernels.
pub(super) const GROUP: u32 = 16;
/// The largest number of coordinates of bounds if tensor cores compare.
const BOUNDED: usize = 16;
/// The largest number of coordinates that are compared by differences.
pub(super) const DIRECT: usize = 32;

/// The elements as they were read.
enum Raw {
    F32(CudaSlice<f32>),
    F64(CudaSlice<f64>),
}

impl Raw {
    fn pointer(&self, work: &Work<'_>) -> sys::CUdeviceptr {
        match self {
            Raw::F32(all) => all.device_ptr(&work.stream).0,
            Raw::F64(all) => all.device_ptr(&work.stream).0,
        }
    }
}

/// The rows that tensor cores multiply, with their thresholds.
struct Packed {
    rows: CudaSlice<u8>,
    /// The thresholds for products, as a row and as a column; floats or whole numbers.
    thresholds: [CudaSlice<u32>; 2],
    surely: Option<CudaSlice<u32>>,
}

/// The bounds of blocks.
struct Boxes {
    low: CudaSlice<f32>,
    high: CudaSlice<f32>,
}

/// One side of a join on a device.
struct VectorSide {
    count: u32,
    raw: Raw,
    /// The row at each place; `None` if the order is unchanged.
    rows: Option<CudaSlice<u32>>,
    squares: Option<CudaSlice<f64>>,
    points: Option<CudaSlice<f32>>,
    packed: Option<Packed>,
    /// The bounds as rows, and as columns.
    boxes: [Option<Boxes>; 2],
}

/// A range of groups of blocks of rows, and the number of its tiles.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    pub(super) groups: Range<u32>,
    pub(super) tiles: u32,
}

/// The choices that all devices of a join share.
pub(super) struct JoinWide<'a> {
    /// The columns of a tile, if the tensor cores of all devices can multiply it.
    pub(super) columns: Option<u32>,
    /// The join on the first device. The other devices copy its order of rows and its pieces: each device
    /// computes images by itself, and compilers may round a sum differently on another architecture. So two
    /// orders could differ, but pieces are ranges of one order.
    pub(super) first: Option<&'a LoadedJoin>,
}

/// A join whose rows are on a device, prepared to run.
pub(super) struct LoadedJoin {
    pub(super) device: Arc<Device>,
    pub(super) wide: bool,
    pub(super) kind: TileKind,
    pub(super) self_join: bool,
    sides: Vec<VectorSide>,
    predicate: VectorPredicate,
    dimension: u32,
    /// The numbers of coordinates of images and of bounds.
    pub(super) coordinates: u32,
    bounded: u32,
    /// The number of 128-byte pieces in a row that tensor cores multiply.
    pub(super) row_pieces: u32,
    pub(super) limits: Limits,
    /// The largest accepted squared distance, if all squared distances are whole numbers.
    pub(super) whole_limit: i32,
    box_near: f32,
    starts: CudaSlice<u64>,
    pub(super) pieces: Vec<Piece>,
    /// The number of tiles in all pieces, and the number without bounds.
    pub(super) tiles: (u64, u64),
    /// Dropped last.
    _lease: Lease,
}

impl LoadedJoin {
    /// Sends the rows of a join to a device and cuts it into pieces.
    pub(super) fn new(
        technique: &GpuVectors,
        device: &Arc<Device>,
        task: &VectorTask<'_>,
        budget: &Budget,
        join_wide: &JoinWide<'_>,
    ) -> Result<Self> {
        let lease = Lease::new(device);
        let sender = Sender::new(device, budget)?;
        let wide = !matches!(task.probe.elements(), Elements::F32(_));
        let work = Work { device, stream: sender.stream.clone(), wide };
        let fitted;
        let transform = match (technique.way, &technique.fit) {
            (VectorWay::NestedLoop | VectorWay::Tensor, _) => None,
            (_, Some(fit)) => Some(&fit.transform),
            (_, None) => {
                fitted = Fit::of(task).transform;
                Some(&fitted)
            }
        };
        let wants_tensor = match technique.way {
            VectorWay::NestedLoop | VectorWay::Grid => false,
            VectorWay::Tensor => true,
            VectorWay::Quantile => transform.is_some_and(|one| one.coordinates() > DIRECT),
        };
        let bytes = technique.bytes && tensor::first_elements_are_bytes(task);
        let tensor =
            join_wide.columns.and_then(|columns| technique.tensor_kind(device, bytes, columns));
        let tensor = tensor.filter(|_| wants_tensor);
        let on_tensor_cores = tensor.is_some();
        let both =
            if task.is_self_join() { vec![task.probe] } else { vec![task.probe, task.build] };
        let mut sides = Vec::new();
        for side in &both {
            sides.push(VectorSide {
                count: side.len() as u32,
                raw: send(&sender, side)?,
                rows: None,
                squares: None,
                points: None,
                packed: None,
                boxes: [None, None],
            });
        }
        let kind = tensor.unwrap_or(TileKind::Direct);
        let mut loaded = LoadedJoin {
            device: device.clone(),
            wide,
            kind,
            self_join: task.is_self_join(),
            sides,
            predicate: task.predicate,
            dimension: task.dimension() as u32,
            coordinates: 0,
            bounded: 0,
            row_pieces: 0,
            limits: Limits { near: 0.0, sure: -1.0 },
            whole_limit: 0,
            box_near: f32::INFINITY,
            starts: work.stream.alloc_zeros(1).map_err(failed("preparing"))?,
            pieces: Vec::new(),
            tiles: (0, 0),
            _lease: lease,
        };
        if task.predicate.measure() == VectorMeasure::Cosine {
            loaded.square(&work, &both)?;
        }
        match technique.way {
            VectorWay::NestedLoop => loaded.plain_images(&work, task)?,
            VectorWay::Tensor if !on_tensor_cores => loaded.plain_images(&work, task)?,
            VectorWay::Tensor => {}
            VectorWay::Grid | VectorWay::Quantile => {
                if let Some(transform) = transform {
                    for side in 0..both.len() {
                        loaded.order(&work, task, technique, transform, side, join_wide)?;
                    }
                }
            }
        }
        if on_tensor_cores {
            loaded.pack(&work, task)?;
        }
        loaded.kernels(&work)?;
        loaded.cut(&work, technique, join_wide)?;
        work.stream.synchronize().map_err(failed("preparing"))?;
        Ok(loaded)
    }

    fn build(&self) -> &VectorSide {
        &self.sides[self.sides.len() - 1]
    }

    /// Computes the products of rows with themselves, for a cosine. Returns an error for a row without a
    /// direction.
    fn square(&mut self, work: &Work<'_>, both: &[&VectorCollection]) -> Result<()> {
        let at = failed("measuring rows");
        let (stream, squares) = (&work.stream, work.function("squares")?);
        for (side, vectors) in self.sides.iter_mut().zip(both) {
            // SAFETY: the kernel writes every element.
            let mut out = unsafe { stream.alloc::<f64>(vectors.len().max(1)) }.map_err(&at)?;
            let raw = side.raw.pointer(work);
            // SAFETY: the arguments match the kernel, and the buffers have the lengths that it needs.
            unsafe {
                stream
                    .launch_builder(&squares)
                    .arg(&raw)
                    .arg(&side.count)
                    .arg(&self.dimension)
                    .arg(&mut out)
                    .launch(fixed_grid(work, 16 * u64::from(side.count)))
                    .map_err(&at)?;
            }
            let values = stream.clone_dtoh(&out).map_err(&at)?;
            stream.synchronize().map_err(&at)?;
            let values = &values[..vectors.len()];
            if let Some(row) = values.iter().position(|&x| !VectorPredicate::has_direction(x)) {
                return Err(no_direction(vectors, row, values[row]));
            }
            side.squares = Some(out);
        }
        Ok(())
    }

    /// Returns the length of the longest row in a frame, before it is folded.
    fn longest(&self, work: &Work<'_>, frame: &Frame) -> Result<f64> {
        let frame = &Frame { fold: f64::INFINITY, ..*frame };
        let at = failed("measuring rows");
        let (stream, lengths) = (&work.stream, work.function("lengths")?);
        let mut longest = stream.alloc_zeros::<u64>(1).map_err(&at)?;
        for side in &self.sides {
            let raw = side.raw.pointer(work);
            // SAFETY: the arguments match the kernel, and the buffers have the lengths that it needs.
            unsafe {
                stream
                    .launch_builder(&lengths)
                    .arg(&raw)
                    .arg(&side.count)
                    .arg(frame)
                    .arg(&mut longest)
                    .launch(fixed_grid(work, 32 * u64::from(side.count)))
                    .map_err(&at)?;
            }
        }
        let bits = stream.clone_dtoh(&longest).map_err(&at)?;
        stream.synchronize().map_err(&at)?;
        let d = f64::from(self.dimension);
        Ok(f64::from_bits(bits[0]).sqrt() * (1.0 + (d + 32.0) * d * 2f64.powi(-53)))
    }

    /// Makes images along the axes, in the order of the rows.
    fn plain_images(&mut self, work: &Work<'_>, task: &VectorTask<'_>) -> Result<()> {
        let transform = Transform::axes(task, &draw(task, 256), false);
        let (frame, _centre) = Frame::of(work, &transform)?;
        let longest = self.longest(work, &frame)?;
        self.limits = transform.limits(task, longest);
        self.coordinates = transform.coordinates() as u32;
        for at in 0..self.sides.len() {
            let images = self.images(work, &transform, &frame, at, self.coordinates, false)?;
            self.sides[at].points = Some(self.gather(work, at, &images, self.coordinates)?);
        }
        Ok(())
    }

    /// Makes images of a side along the directions of the fit, in the order of cells or of an index, and the
    /// bounds of its blocks.
    fn order(
        &mut self,
        work: &Work<'_>,
        task: &VectorTask<'_>,
        technique: &GpuVectors,
        transform: &Transform,
        at: usize,
        join_wide: &JoinWide<'_>,
    ) -> Result<()> {
        let name = technique.name_of();
        let on_tensor_cores = self.kind != TileKind::Direct;
        let (frame, _centre) = Frame::of(work, transform)?;
        // The longest row of both sides.
        let longest = self.longest(work, &frame)?;
        let limits = transform.limits(task, longest);
        let all = transform.coordinates();
        let used = if on_tensor_cores { all.min(BOUNDED) } else { all };
        let m = used as u32;
        if used > 64 {
            return Err(Error::Config(format!(
                "technique {name} supports up to 64 coordinates, but these vectors have {used}; use \
                 technique gpu-tensor"
            )));
        }
        let images = self.images(work, transform, &frame, at, m, used == all)?;
        let n = self.sides[at].count;
        let rows = match technique.way {
            _ if n < 2 => None,
            _ if join_wide.first.is_some() => {
                join_wide.first.map(|first| first.rows_for(work, at)).transpose()?.flatten()
            }
            VectorWay::Grid => {
                let extents = self.extents(work, &images, m)?;
                Some(order::by_cells(work, &images, n, m, &extents, limits.near)?)
            }
            _ => {
                let size = if on_tensor_cores { self.kind.columns() } else { BLOCK };
                Some(order::by_quantiles(work, &images, n, m, u64::from(size))?)
            }
        };
        self.sides[at].rows = rows;
        let points = self.gather(work, at, &images, m)?;
        let [row_size, column_size] = [BLOCK, self.kind.columns()];
        let as_rows = self.bounds(work, at, &points, m, row_size)?;
        let as_columns = self.bounds(work, at, &points, m, column_size)?;
        self.sides[at].boxes = [Some(as_rows), Some(as_columns)];
        self.bounded = m;
        self.box_near = limits.near;
        if !on_tensor_cores {
            self.sides[at].points = Some(points);
            self.coordinates = m;
            self.limits = limits;
        }
        Ok(())
    }

    /// Returns the images of a side with `m` coordinates, in the order of its rows.
    fn images(
        &self,
        work: &Work<'_>,
        transform: &Transform,
        frame: &Frame,
        at: usize,
        m: u32,
        complete: bool,
    ) -> Result<CudaSlice<f32>> {
        let fail = failed("making images");
        let (stream, images) = (&work.stream, work.function("images")?);
        let side = &self.sides[at];
        let one = |len: usize| len.max(1);
        // SAFETY: the kernel writes every element.
        let mut out =
            unsafe { stream.alloc::<f32>(one(side.count as usize * m as usize)) }.map_err(&fail)?;
        let order = stream.clone_htod(&nonempty(&transform.order)).map_err(&fail)?;
        let basis = stream.clone_htod(&nonempty(transform.basis())).map_err(&fail)?;
        let basis_pointer =
            if transform.basis().is_empty() { 0 } else { basis.device_ptr(stream).0 };
        let left_over = u32::from(complete && transform.left_over);
        let columns = m - left_over;
        let stride = (transform.coordinates() - usize::from(transform.left_over)) as u32;
        let raw = side.raw.pointer(work);
        // SAFETY: the arguments match the kernel, and the buffers have the lengths that it needs.
        unsafe {
            stream
                .launch_builder(&images)
                .arg(&raw)
                .arg(&side.count)
                .arg(frame)
                .arg(&order)
                .arg(&basis_pointer)
                .arg(&columns)
                .arg(&stride)
                .arg(&left_over)
                .arg(&mut out)
                .launch(fixed_grid(work, 32 * u64::from(side.count)))
                .map_err(&fail)?;
        }
        // The arrays that were sent are in use until here.
        stream.synchronize().map_err(&fail)?;
        Ok(out)
    }

    /// Returns the lowest and the highest value of each coordinate.
    fn extents(&self, work: &Work<'_>, images: &CudaSlice<f32>, m: u32) -> Result<Vec<(f32, f32)>> {
        let at = failed("measuring images");
        let (stream, extents) = (&work.stream, work.function("extents")?);
        let mut low = stream.clone_htod(&vec![u32::MAX; m as usize]).map_err(&at)?;
        let mut high = stream.alloc_zeros::<u32>(m as usize).map_err(&at)?;
        let numbers = images.len() as u64;
        // SAFETY: the arguments match the kernel, and the buffers have the lengths that it needs.
        unsafe {
            stream
                .launch_builder(&extents)
                .arg(images)
                .arg(&numbers)
                .arg(&m)
                .arg(&mut low)
                .arg(&mut high)
                .launch(fixed_grid(work, numbers.max(1024)))
                .map_err(&at)?;
        }
        let low = stream.clone_dtoh(&low).map_err(&at)?;
        let high = stream.clone_dtoh(&high).map_err(&at)?;
        stream.synchronize().map_err(&at)?;
        let back = |x: u32| f32::from_bits(if x >> 31 == 1 { x ^ 0x8000_0000 } else { !x });
        Ok(low.iter().zip(&high).map(|(&low, &high)| (back(low), back(high))).collect())
    }

    /// Returns images in the order of their side, block by block.
    fn gather(
        &self,
        work: &Work<'_>,
        at: usize,
        images: &CudaSlice<f32>,
        m: u32,
    ) -> Result<CudaSlice<f32>> {
        let fail = failed("ordering images");
        let (stream, gather) = (&work.stream, work.function("gather")?);
        let side = &self.sides[at];
        let blocks = side.count.div_ceil(BLOCK);
        let numbers = u64::from(blocks) * u64::from(m * BLOCK);
        // SAFETY: the kernel writes every element.
        let mut points = unsafe { stream.alloc::<f32>(numbers.max(1) as usize) }.map_err(&fail)?;
        let rows = self.rows_pointer(work, at);
        // SAFETY: the arguments match the kernel, and the buffers have the lengths that it needs.
        unsafe {
            stream
                .launch_builder(&gather)
                .arg(images)
                .arg(&rows)
                .arg(&side.count)
                .arg(&blocks)
                .arg(&m)
                .arg(&mut points)
                .launch(fixed_grid(work, numbers))
                .map_err(&fail)?;
        }
        Ok(points)
    }

    /// Returns the bounds of blocks of a size.
    fn bounds(
        &self,
        work: &Work<'_>,
        at: usize,
        points: &CudaSlice<f32>,
        m: u32,
        size: u32,
    ) -> Result<Boxes> {
        let fail = failed("bounding blocks");
        let (stream, bounds) = (&work.stream, work.function("bounds")?);
        let n = self.sides[at].count;
        let (blocks, count, wide) = (n.div_ceil(BLOCK), n.div_ceil(size), size / BLOCK);
        let numbers = (count as usize * m as usize).max(1);
        // SAFETY: the kernel writes every element.
        let (mut low, mut high) = unsafe {
            (
                stream.alloc::<f32>(numbers).map_err(&fail)?,
                stream.alloc::<f32>(numbers).map_err(&fail)?,
            )
        };
        // SAFETY: the arguments match the kernel, and the buffers have the lengths that it needs.
        unsafe {
            stream
                .launch_builder(&bounds)
                .arg(points)
                .arg(&n)
                .arg(&blocks)
                .arg(&m)
                .arg(&wide)
                .arg(&count)
                .arg(&mut low)
                .arg(&mut high)
                .launch(fixed_grid(work, 32 * numbers as u64))
                .map_err(&fail)?;
        }
        Ok(Boxes { low, high })
    }

    /// Makes the rows for tensor cores: in bytes if all elements are bytes, and in f16 otherwise.
    fn pack(&mut self, work: &Work<'_>, task: &VectorTask<'_>) -> Result<()> {
        self.whole_limit = tensor::whole_limit(task);
        if let TileKind::Tensor { bytes: true, warpgroups, columns, stages } = self.kind {
            if self.pack_bytes(work)? {
                return Ok(());
            }
            self.kind = TileKind::Tensor { bytes: false, warpgroups, columns, stages };
        }
        self.pack_halves(work, task)
    }

    /// Returns buffers for the rows of a side and for their thresholds. Tiles extend past the last row.
    fn packed_buffers(&self, work: &Work<'_>, at: usize) -> Result<(u32, Packed)> {
        let fail = failed("allocating rows");
        let padded = self.sides[at].count.next_multiple_of(256).max(256);
        let size = padded as usize * self.row_pieces as usize * 128;
        let threshold = || work.stream.alloc_zeros::<u32>(padded as usize).map_err(&fail);
        // SAFETY: the kernels write every element.
        let rows = unsafe { work.stream.alloc::<u8>(size) }.map_err(&fail)?;
        Ok((padded, Packed { rows, thresholds: [threshold()?, threshold()?], surely: None }))
    }

    /// Makes rows of bytes. Returns whether all elements are bytes.
    fn pack_bytes(&mut self, work: &Work<'_>) -> Result<bool> {
        let at = failed("packing rows");
        let (stream, bytes) = (&work.stream, work.function("bytes")?);
        let mut others = stream.alloc_zeros::<u32>(1).map_err(&at)?;
        let width = self.dimension.next_multiple_of(128);
        self.row_pieces = width / 128;
        for which in 0..self.sides.len() {
            let (padded, mut packed) = self.packed_buffers(work, which)?;
            let rows_pointer = self.rows_pointer(work, which);
            let (n, raw) = (self.sides[which].count, self.sides[which].raw.pointer(work));
            let Packed { rows, thresholds: [near, other], .. } = &mut packed;
            // SAFETY: the arguments match the kernel, and the buffers have the lengths that it needs.
            unsafe {
                stream
                    .launch_builder(&bytes)
                    .arg(&raw)
                    .arg(&rows_pointer)
                    .arg(&n)
                    .arg(&padded)
                    .arg(&self.dimension)
                    .arg(&width)
                    .arg(&self.whole_limit)
                    .arg(rows)
                    .arg(near)
                    .arg(other)
                    .arg(&mut others)
                    .launch(fixed_grid(work, 32 * u64::from(padded)))
                    .map_err(&at)?;
            }
            self.sides[which].packed = Some(packed);
        }
        let others = stream.clone_dtoh(&others).map_err(&at)?;
        stream.synchronize().map_err(&at)?;
        Ok(others[0] == 0)
    }

    /// Makes rows in f16.
    fn pack_halves(&mut self, work: &Work<'_>, task: &VectorTask<'_>) -> Result<()> {
        let at = failed("packing rows");
        let (stream, halves) = (&work.stream, work.function("halves")?);
        let transform = Transform::axes(task, &draw(task, 256), true);
        let (frame, _centre) = Frame::of(work, &transform)?;
        let longest = self.longest(work, &frame)?;
        let (frame, longest) = tensor::folded(task, frame, longest);
        let band = Band::new(task, &frame, longest);
        let width = self.dimension.next_multiple_of(64);
        self.row_pieces = width / 64;
        for which in 0..self.sides.len() {
            let (padded, mut packed) = self.packed_buffers(work, which)?;
            let rows_pointer = self.rows_pointer(work, which);
            let (n, raw) = (self.sides[which].count, self.sides[which].raw.pointer(work));
            let mut surely = stream.alloc_zeros::<u32>(padded as usize).map_err(&at)?;
            // SAFETY: the arguments match the kernel, and the buffers have the lengths that it needs.
            unsafe {
                stream
                    .launch_builder(&halves)
                    .arg(&raw)
                    .arg(&rows_pointer)
                    .arg(&n)
                    .arg(&padded)
                    .arg(&frame)
                    .arg(&band)
                    .arg(&width)
                    .arg(&mut packed.rows)
                    .arg(&mut packed.thresholds[0])
                    .arg(&mut surely)
                    .launch(fixed_grid(work, 32 * u64::from(padded)))
                    .map_err(&at)?;
            }
            packed.thresholds[1] = stream.clone_dtod(&packed.thresholds[0]).map_err(&at)?;
            packed.surely = Some(surely);
            self.sides[which].packed = Some(packed);
        }
        stream.synchronize().map_err(&at)
    }

    /// Sends the order of the rows of a side to another device.
    fn rows_for(&self, other: &Work<'_>, at: usize) -> Result<Option<CudaSlice<u32>>> {
        let fail = failed("ordering rows");
        let Some(rows) = &self.sides[at].rows else { return Ok(None) };
        let order = rows.stream().clone_dtoh(rows).map_err(&fail)?;
        rows.stream().synchronize().map_err(&fail)?;
        other.device.context.bind_to_thread().map_err(&fail)?;
        let sent = other.stream.clone_htod(&order).map_err(&fail)?;
        other.stream.synchronize().map_err(&fail)?;
        Ok(Some(sent))
    }

    fn rows_pointer(&self, work: &Work<'_>, at: usize) -> sys::CUdeviceptr {
        self.sides[at].rows.as_ref().map_or(0, |rows| rows.device_ptr(&work.stream).0)
    }

    pub(super) fn dimension(&self) -> u32 {
        self.dimension
    }
}

impl Drop for LoadedJoin {
    fn drop(&mut self) {
        self.device.make_current();
    }
}

/// Returns a copy that is not empty, since a device allocates no empty memory.
fn nonempty<T: Clone + Default>(all: &[T]) -> Vec<T> {
    if all.is_empty() { vec![T::default()] } else { all.to_vec() }
}

/// Sends the elements of a side unchanged.
fn send(sender: &Sender, side: &VectorCollection) -> Result<Raw> {
    fn some<T: Plain>(sender: &Sender, all: &[T]) -> Result<CudaSlice<T>> {
        if all.is_empty() { sender.send(&[T::default()]) } else { sender.send(all) }
    }
    Ok(match side.elements() {
        Elements::F32(all) => Raw::F32(some(sender, all)?),
        Elements::F64(all) => Raw::F64(some(sender, all)?),
    })
}
