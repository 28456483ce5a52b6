// SPDX-License-Identifier: MIT OR Apache-2.0
//! Arrays in another order: transposition, permutation of axes, and what a view shows as an array of its own.
//!
//! The host only plans (plan.rs): axes that are one on both sides are merged, an element and what lies beside it on
//! both sides becomes a word as wide as an access can be, and what is left is copied, transposed by tiles, or copied
//! line by line or word by word.

mod join;
mod plan;

use std::ops::{Deref, Range};

use bytemuck::Zeroable;
use cuda_std::SliceMut;
use cuda_std::launch::SafeKernel;
use kernels_gpu::transpose::{self as kernels, copy_lines, copy_strided, transpose_tiles};
use kernels_gpu::transpose::{
    BATCH_AXES, CHUNK, Extent, LINE_AXES, Lines, STRIDED_AXES, STRIDED_THREADS, STRIDED_TILE, Strided, TILE_THREADS,
    Tiles,
};
use ndarray::{Dimension, IntoDimension, Ix1};

pub(super) use self::join::{is_lined, join_two, rows_along};
use self::plan::{Axis, Lie, Plan, Tiling, first, pieces};
use super::tiles;
use crate::array::{DeviceArray, Element};
use crate::array_ref::DeviceArrayRef;
use crate::error::{Error, Result};
use crate::launch::{LaunchConfig, Words, WordsMut};
use crate::stream::Stream;
use crate::view::DeviceView;

/// The most steps of a launch: blocks of tiles, or words; what 32-bit arithmetic and a grid allow.
const MOST: usize = (1 << 31) - 1;

/// What views show, as arrays of their own. Every element is read and written once.
impl<T: Element, D: Dimension> DeviceArrayRef<T, D> {
    /// The elements as an array of their own, in C order, on the same stream.
    ///
    /// The bits of the elements are kept, also those of a NaN.
    ///
    /// # Errors
    ///
    /// Those of an allocation and a launch.
    ///
    /// # Examples
    ///
    /// ```
    /// use ndarray::array;
    /// use warpsmith::{Device, DeviceArray};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let x = DeviceArray::from_ndarray(device.default_stream(), &array![[1, 2, 3], [4, 5, 6]])?;
    /// let columns_twice = x.t().broadcast((2, 3, 2))?.to_array()?;
    /// let columns = [[1, 4], [2, 5], [3, 6]];
    /// assert_eq!(columns_twice.to_ndarray()?, array![columns, columns]);
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias("ascontiguousarray", "contiguous"))]
    pub fn to_array(&self) -> Result<DeviceArray<T, D>> {
        DeviceArray::made(self.stream(), self.raw_dim(), &mut |out| self.to_array_into(out))
    }

    /// [`to_array`](Self::to_array) into an existing array or view.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`] if the shapes differ, [`Error::DifferentDevices`], and those of a launch.
    pub fn to_array_into(&self, out: &mut DeviceArrayRef<T, D>) -> Result<()> {
        copy("to_array", self, out)
    }

    /// A copy of the elements, as [`to_array`](Self::to_array): what `clone` is elsewhere, but that it can fail.
    ///
    /// # Errors
    ///
    /// Those of [`to_array`](Self::to_array).
    ///
    /// # Examples
    ///
    /// ```
    /// use ndarray::array;
    /// use warpsmith::{Device, DeviceArray};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let x = DeviceArray::from_ndarray(device.default_stream(), &array![1, 2, 3])?;
    /// let mut y = x.try_clone()?;
    /// y.add_assign_scalar(10)?;
    /// assert_eq!((x.to_ndarray()?, y.to_ndarray()?), (array![1, 2, 3], array![11, 12, 13]));
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias("copy", "clone"))]
    pub fn try_clone(&self) -> Result<DeviceArray<T, D>> {
        self.to_array()
    }

    /// The elements themselves where they are in C order without a gap, else a copy that is.
    pub(super) fn in_order(&self) -> Result<Ordered<'_, T, D>> {
        if self.is_standard_layout() {
            Ok(Ordered::AsIs(self.view()))
        } else {
            Ok(Ordered::Copied(self.to_array()?))
        }
    }

    /// The elements themselves if no stride is negative, and they do not interlace with an output, else a copy in C order.
    pub(super) fn forwards<E: Dimension>(&self, out: Option<&DeviceArrayRef<T, E>>) -> Result<Ordered<'_, T, D>> {
        if self.layout.is_reversed() || out.is_some_and(|out| self.interlaces(out)) {
            Ok(Ordered::Copied(self.to_array()?))
        } else {
            Ok(Ordered::AsIs(self.view()))
        }
    }

    /// All elements in some order, one after another without a gap: themselves where they lie so, else a copy.
    pub(super) fn in_any_order(&self) -> Result<Ordered<'_, T, Ix1>> {
        match self.in_memory_order() {
            Some(elements) => Ok(Ordered::AsIs(elements)),
            None => Ok(Ordered::Copied(self.to_array()?.into_shape(self.len())?)),
        }
    }
}

/// Elements as they lie, or a copy of them, as an operation wants them.
pub enum Ordered<'a, T, D> {
    /// As they lie.
    AsIs(DeviceView<'a, T, D>),
    /// A copy.
    Copied(DeviceArray<T, D>),
}

impl<T: Element, D: Dimension> Ordered<'_, T, D> {
    /// A copy, also of elements that lie as they did.
    pub fn into_copied(self) -> Result<Self> {
        Ok(match self {
            Ordered::AsIs(view) => Ordered::Copied(view.to_array()?),
            copied @ Ordered::Copied(_) => copied,
        })
    }
}

impl<T, D> Deref for Ordered<'_, T, D> {
    type Target = DeviceArrayRef<T, D>;

    fn deref(&self) -> &DeviceArrayRef<T, D> {
        match self {
            Ordered::AsIs(elements) => elements,
            Ordered::Copied(array) => array,
        }
    }
}

/// Other orders of the axes. Every element is read and written once, so that `2 n` elements are moved; their bits are kept,
/// also those of a NaN.
///
/// Where the last axis changes, by tiles in shared memory, so that both reads and writes are whole lines of memory (G.
/// Ruetsch and P. Micikevicius, "Optimizing Matrix Transpose in CUDA", 2009), in words of up to 16 bytes. Axes that stay
/// together count as one.
impl<T: Element, D: Dimension> DeviceArrayRef<T, D> {
    /// The array with its axes in reverse order: of a matrix, its transpose.
    ///
    /// [`t`](Self::t) is the view that costs nothing; this moves the elements into C order.
    ///
    /// # Errors
    ///
    /// Those of an allocation and a launch.
    ///
    /// # Examples
    ///
    /// ```
    /// use ndarray::array;
    /// use warpsmith::{Device, DeviceArray};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let x = DeviceArray::from_ndarray(device.default_stream(), &array![[1, 2, 3], [4, 5, 6]])?;
    /// assert_eq!(x.transpose()?.to_ndarray()?, array![[1, 4], [2, 5], [3, 6]]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn transpose(&self) -> Result<DeviceArray<T, D>> {
        self.t().to_array()
    }

    /// [`transpose`](Self::transpose) into an existing array or view, whose shape is this one's in reverse.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`] if it is not, [`Error::DifferentDevices`], and those of a launch.
    pub fn transpose_into(&self, out: &mut DeviceArrayRef<T, D>) -> Result<()> {
        copy("transpose", &self.t(), out)
    }

    /// The array with its axes in another order: axis `i` of the result is axis `axes[i]` of this one.
    ///
    /// # Errors
    ///
    /// [`Error::Axes`] unless `axes` names each axis once, and those of an allocation and a launch.
    ///
    /// # Examples
    ///
    /// The channels of a picture as three planes:
    ///
    /// ```
    /// use ndarray::Array3;
    /// use warpsmith::{Device, DeviceArray};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let picture = DeviceArray::from_ndarray(device.default_stream(), &Array3::<u8>::zeros((480, 640, 3)))?;
    /// assert_eq!(picture.permute([2, 0, 1])?.shape(), [3, 480, 640]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn permute(&self, axes: impl IntoDimension<Dim = D>) -> Result<DeviceArray<T, D>> {
        self.view().with_axes("permute", axes.into_dimension())?.to_array()
    }

    /// [`permute`](Self::permute) into an existing array or view.
    ///
    /// # Errors
    ///
    /// As [`permute`](Self::permute), [`Error::Shape`] if `out` has not the permuted shape, and
    /// [`Error::DifferentDevices`].
    pub fn permute_into(&self, axes: impl IntoDimension<Dim = D>, out: &mut DeviceArrayRef<T, D>) -> Result<()> {
        let view = self.view().with_axes("permute", axes.into_dimension())?;
        copy("permute", &view, out)
    }
}

/// Copies the elements into an array of their shape.
fn copy<T: Element, D: Dimension>(
    operation: &'static str,
    view: &DeviceArrayRef<T, D>,
    out: &mut DeviceArrayRef<T, D>,
) -> Result<()> {
    check_shape(operation, view.shape(), out.shape())?;
    view.stream().check_device(operation, out.stream())?;
    if view.interlaces(out) {
        return copy_to(&view.to_array()?, view.stream(), out);
    }
    copy_to(view, view.stream(), out)
}

/// An error unless the output has the shape of the elements.
fn check_shape(operation: &'static str, elements: &[usize], out: &[usize]) -> Result<()> {
    if elements == out {
        return Ok(());
    }
    Err(Error::Shape {
        operation,
        given: format!("an output of shape {out:?}"),
        wanted: format!("one of shape {elements:?}"),
    })
}

/// Copies elements to others of the same shape and device, with which they do not interlace, on that stream, which is of
/// the device as well.
pub(crate) fn copy_to<T: Element, D: Dimension>(
    view: &DeviceArrayRef<T, D>,
    stream: &Stream,
    out: &mut DeviceArrayRef<T, D>,
) -> Result<()> {
    if out.len() * size_of::<T>() == 0 {
        return Ok(());
    }
    let plan = Plan::new(&Lie {
        shape: view.shape(),
        x: view.strides(),
        out: out.strides(),
        bytes: size_of::<T>(),
        addresses: [view.address(), out.address()],
    });
    run(&plan, stream, &Words::of(view), &mut WordsMut::of(out), MOST)
}

/// Carries out the plan on that stream, in launches of at most `most` steps. What memory it is, and not of which
/// elements, is what the copy depends on: this is compiled once.
fn run(plan: &Plan, stream: &Stream, x: &Words<'_, u8>, out: &mut WordsMut<'_, u8>, most: usize) -> Result<()> {
    let word = match plan {
        Plan::Contiguous => return copy_contiguous(stream, x, out),
        Plan::Lines { axes } => return launch_lines(axes, stream, x, out, most),
        Plan::Tiles { word, .. } | Plan::Strided { word, .. } => *word,
    };
    match word {
        1 => launch::<u8, transpose_tiles<u8>, copy_strided<u8>>(plan, stream, x, out, most),
        2 => launch::<u16, transpose_tiles<u16>, copy_strided<u16>>(plan, stream, x, out, most),
        4 => launch::<u32, transpose_tiles<u32>, copy_strided<u32>>(plan, stream, x, out, most),
        8 => launch::<u64, transpose_tiles<u64>, copy_strided<u64>>(plan, stream, x, out, most),
        _ => launch::<u128, transpose_tiles<u128>, copy_strided<u128>>(plan, stream, x, out, most),
    }
}

/// Copies elements that lie alike on both sides.
fn copy_contiguous(stream: &Stream, x: &Words<'_, u8>, out: &WordsMut<'_, u8>) -> Result<()> {
    x.reads_on(stream)?;
    out.writes_on(stream)?;
    // SAFETY: both sides have as many bytes without a gap; they are ordered on this stream, whose device they are on.
    unsafe { stream.queue_copy(out.address(), x.address(), out.len())? };
    // Once more: of parts of an array, other threads may have prepared others since.
    x.reads_on(stream)?;
    out.writes_on(stream)
}

/// Launches the plan's kernel, which moves words `W`: `K` for tiles, `S` for strides.
fn launch<W: Element, K, S>(
    plan: &Plan,
    stream: &Stream,
    x: &Words<'_, u8>,
    out: &mut WordsMut<'_, u8>,
    most: usize,
) -> Result<()>
where
    K: SafeKernel<Params = (&'static [W], Tiles, SliceMut<'static, W>)>,
    S: SafeKernel<Params = (&'static [W], Strided, SliceMut<'static, W>)>,
{
    match plan {
        Plan::Contiguous | Plan::Lines { .. } => {}
        Plan::Tiles { batch, a, b, .. } => {
            let tiling = Tiling::new(size_of::<W>(), a, b).expect("the plan has tiles");
            let [a_side, b_side] = tiling.sides;
            let lens: Vec<usize> = batch.iter().map(|axis| axis.len).collect();
            let lens = [&lens[..], &[a.len.div_ceil(a_side), b.len.div_ceil(b_side)]].concat();
            for ranges in pieces(&lens, most, BATCH_AXES + 2) {
                let plan = tiles_of(batch, a, b, &tiling, &ranges);
                let config = LaunchConfig::new(plan.count, TILE_THREADS as u32);
                stream.launch::<K>(&config, (x.cast::<W>(), plan, out.cast::<W>()))?;
            }
        }
        Plan::Strided { axes, .. } => {
            let lens: Vec<usize> = axes.iter().map(|axis| axis.len).collect();
            for ranges in pieces(&lens, most, STRIDED_AXES) {
                let plan = strided_of(axes, &ranges);
                let config = tiles(plan.count as usize, STRIDED_TILE, STRIDED_THREADS);
                stream.launch::<S>(&config, (x.cast::<W>(), plan, out.cast::<W>()))?;
            }
        }
    }
    Ok(())
}

/// Launches the kernel for lines, the last axis being along them.
fn launch_lines(
    axes: &[Axis],
    stream: &Stream,
    x: &Words<'_, u8>,
    out: &mut WordsMut<'_, u8>,
    most: usize,
) -> Result<()> {
    let none = Lines::zeroed();
    for ranges in pieces_of_lines(axes, most) {
        let plan = lines_of(axes, &ranges, out.address());
        let config = tiles(plan.count as usize, STRIDED_THREADS, STRIDED_THREADS);
        let no_other = None::<Words<'_, u8>>;
        stream.launch::<copy_lines>(&config, (x.cast::<u8>(), no_other, plan, none, out.cast::<u8>()))?;
    }
    Ok(())
}

/// The pieces of a copy of lines, whose last ranges count chunks along a line.
fn pieces_of_lines(axes: &[Axis], most: usize) -> impl Iterator<Item = Vec<Range<usize>>> + use<> {
    let mut lens: Vec<usize> = axes.iter().map(|axis| axis.len).collect();
    if let Some(len) = lens.last_mut() {
        *len = len.div_ceil(CHUNK);
    }
    // A piece has a chunk more than those of its length where it does not begin with one: at most twice as many.
    pieces(&lens, (most / 2).max(1), LINE_AXES + 1)
}

/// So many bytes of a line are worth a copy of two arrays' lines in one launch.
const LEAST_OF_TWO: usize = 64;

/// Copies two arrays into neighbouring parts of a third along an axis, the first of which begins at `start`, in one launch,
/// and says whether that was possible. What a line of one and the next line of the other share of the memory's sectors is
/// then written once, and not read and written again when it has left the cache.
pub(super) fn copy_two<T: Element, D: Dimension>(
    views: [&DeviceArrayRef<T, D>; 2],
    axis: usize,
    start: usize,
    out: &mut DeviceArrayRef<T, D>,
) -> Result<bool> {
    let distance = out.strides()[axis] as usize * size_of::<T>();
    let places = [start, start + views[0].shape()[axis]].map(|place| place * distance);
    let (address, strides) = (out.address(), out.strides().to_vec());
    let plan = |view: &DeviceArrayRef<T, D>, place: usize| {
        let address = address + place as u64;
        let axes = Plan::new(&Lie {
            shape: view.shape(),
            x: view.strides(),
            out: &strides,
            bytes: size_of::<T>(),
            addresses: [view.address(), address],
        })
        .into_lines(LEAST_OF_TWO)?;
        let mut all = pieces_of_lines(&axes, MOST / 2);
        let (ranges, None) = (all.next()?, all.next()) else {
            return None;
        };
        let mut lines = lines_of(&axes, &ranges, address);
        lines.out_first += place as u64;
        Some(lines)
    };
    if views.iter().any(|view| view.is_empty()) || size_of::<T>() == 0 {
        return Ok(false);
    }
    let (Some(first), Some(second)) = (plan(views[0], places[0]), plan(views[1], places[1])) else {
        return Ok(false);
    };
    let blocks = first.count.max(second.count).div_ceil(STRIDED_THREADS as u32);
    let config = LaunchConfig::new(2 * blocks, STRIDED_THREADS as u32);
    let stream = out.stream().clone();
    let [x, y] = views.map(|view| Words::<u8>::of(view));
    stream.launch::<copy_lines>(&config, (x, y, first, second, WordsMut::<u8>::of(out)))?;
    Ok(true)
}

/// The piece of a copy of lines whose last range counts chunks along a line.
fn lines_of(axes: &[Axis], ranges: &[Range<usize>], address: u64) -> Lines {
    let (line, others) = (axes.len() - 1, &axes[..axes.len() - 1]);
    let (first, axes_kept, rank, count) = piece(others, &ranges[..line]);
    let begin = ranges[line].start * CHUNK;
    let len = axes[line].len.min(ranges[line].end * CHUNK) - begin;
    let ends = others.iter().map(|axis| axis.out).chain([first.1 + begin, len]);
    let aligned = ends.fold(address as usize, |all, end| all | end).is_multiple_of(CHUNK);
    let chunks = if aligned { len } else { len + CHUNK - 1 }.div_ceil(CHUNK);
    Lines {
        x_first: (first.0 + begin) as u64,
        out_first: (first.1 + begin) as u64,
        len: len as u64,
        chunks: Extent::new(chunks),
        count: (count * chunks) as u32,
        rank: rank as u32,
        axes: axes_kept,
    }
}

/// A piece of a copy along axes with the ranges given: its first element on either side, its axes as a kernel takes
/// them (the innermost first), how many they are, and their steps.
fn piece<const N: usize>(axes: &[Axis], ranges: &[Range<usize>]) -> ((usize, usize), [kernels::Axis; N], usize, usize) {
    let start = first(axes);
    let none = kernels::Axis {
        extent: Extent::new(1),
        x_stride: 0,
        out_stride: 0,
    };
    let (mut first, mut kept, mut rank, mut count) = ((start, 0), [none; N], 0, 1);
    for (axis, range) in axes.iter().zip(ranges).rev() {
        first.0 = first.0.wrapping_add_signed(range.start as isize * axis.x);
        first.1 += range.start * axis.out;
        if range.len() > 1 {
            kept[rank] = kernels::Axis {
                extent: Extent::new(range.len()),
                x_stride: axis.x as u64,
                out_stride: axis.out as u64,
            };
            rank += 1;
            count *= range.len();
        }
    }
    (first, kept, rank, count)
}

fn strided_of(axes: &[Axis], ranges: &[Range<usize>]) -> Strided {
    let (first, axes, rank, count) = piece(axes, ranges);
    Strided {
        x_first: first.0 as u64,
        out_first: first.1 as u64,
        count: count as u32,
        rank: rank as u32,
        axes,
    }
}

/// So many tiles along the input's rows are as good one after another along the output's rows, or better.
const MANY_TILES: usize = 32;

/// The piece of a transposition whose last two ranges count tiles along `a` and `b`. Neighbours are along the shorter axis,
/// so that lines of memory which two tiles share on its side are soon whole in the cache.
fn tiles_of(batch: &[Axis], a: &Axis, b: &Axis, tiling: &Tiling, ranges: &[Range<usize>]) -> Tiles {
    let (batch_ranges, tiles) = ranges.split_at(batch.len());
    let (first, axes, rank, count) = piece(batch, batch_ranges);
    let [a_side, b_side] = tiling.sides;
    let (a_first, b_first) = (tiles[0].start * a_side, tiles[1].start * b_side);
    Tiles {
        // Forwards along both axes of the tiles.
        x_first: (first.0 + a_first * a.x as usize + b_first * b.x as usize) as u64,
        out_first: (first.1 + a_first * a.out + b_first * b.out) as u64,
        a_len: (a.len.min(tiles[0].end * a_side) - a_first) as u64,
        b_len: (b.len.min(tiles[1].end * b_side) - b_first) as u64,
        a_stride: a.x as u64,
        b_stride: b.out as u64,
        a_tiles: Extent::new(tiles[0].len()),
        b_tiles: Extent::new(tiles[1].len()),
        way: tiling.way,
        a_first: u32::from(a.len <= b.len || b.len.div_ceil(b_side) >= MANY_TILES),
        sides: tiling.sides.map(|side| side as u32),
        padded: u32::from(tiling.padded),
        zero: 0,
        count: (count * tiles[0].len() * tiles[1].len()) as u32,
        rank: rank as u32,
        axes,
    }
}

#[cfg(test)]
mod tests;
