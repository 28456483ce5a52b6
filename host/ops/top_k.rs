// SPDX-License-Identifier: MIT OR Apache-2.0
//! The largest elements along an axis.

use kernels_gpu::compiled::TopK;
use kernels_gpu::sort::rows;
use kernels_gpu::top_k::{MAX_PART, MOST, Parts, THREADS};
use ndarray::{Axis, Dimension, Ix1};

use super::lanes::of_lanes;
use super::sort::PlacedOf;
use super::tiles;
use crate::array::{DeviceArray, Element};
use crate::array_ref::DeviceArrayRef;
use crate::error::{Error, Result};
use crate::launch::{LaunchConfig, Words, WordsMut};

/// Rows of fewer elements are a warp's each, others a block's.
const LONG: usize = 4096;

/// Whether rows of `len` elements are sorted: where that was as fast, on an H100, as a warp that keeps the best.
fn is_sorted<T>(len: usize, k: usize) -> bool {
    // A warp that keeps more than its lanes merges twice as many.
    let short = if k > 32 { 512 } else { 128 };
    // Keys with their places are half as wide.
    let narrow = if size_of::<T>() <= 2 { 2 } else { 1 };
    len <= short * narrow || k > MOST
}

/// Elements of a part of a row, where rows are in parts.
const PART: usize = 1 << 14;

/// Blocks that keep a large GPU busy: rows are in parts where there are fewer.
const BLOCKS: usize = 1024;

/// The largest elements.
impl<T: Element + TopK, D: Dimension> DeviceArrayRef<T, D> {
    /// The `k` largest elements along an axis, the largest first, and their places: PyTorch's `topk`. Both results have the
    /// shape of this array but for the axis, along which they have `k` elements; `k` is at most 64 where the axis is longer than 4096 (of
    /// `f64`, 2048), otherwise any.
    ///
    /// NaN counts as larger than every number, and −0 as equal to +0. Of equal elements, those whose place is lower come first, and
    /// are taken. So there is one result, and its bits are the same on every device. For the smallest, negate the elements.
    ///
    /// # Cost
    ///
    /// Along a short axis, of up to 128 elements (512 for a `k` above 32, and twice as many of 16 bits), and for a `k` above 64, all of
    /// each lane are sorted, in one launch. Along longer ones elements are read once, and where rows along the axis are few and long, what
    /// is left of their parts once more: nearly all cost one comparison, since they are below what has been found. Rows that ascend, where
    /// every element is among the largest so far, take several times as long. Along another axis than the last, elements are copied first.
    ///
    /// # Errors
    ///
    /// [`Error::Axes`] if there is no such axis; [`Error::Parameter`] if `k` is greater than the length of the axis, or than 64 along a
    /// long one; those of an allocation and a launch.
    ///
    /// # Examples
    ///
    /// ```
    /// use ndarray::{Axis, array};
    /// use warpsmith::{Device, DeviceArray};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let scores = DeviceArray::from_ndarray(device.default_stream(), &array![[0.1f32, 0.7, 0.2, 0.7], [3.0, 1.0, 2.0, 0.0]])?;
    /// let (values, places) = scores.top_k(Axis(1), 2)?;
    /// assert_eq!(values.to_ndarray()?, array![[0.7, 0.7], [3.0, 2.0]]);
    /// assert_eq!(places.to_ndarray()?, array![[1, 3], [0, 2]]);
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias("topk", "partition", "argpartition"))]
    pub fn top_k(&self, axis: Axis, k: usize) -> Result<(DeviceArray<T, D>, DeviceArray<u64, D>)> {
        self.layout.check_axis("top_k", axis.index())?;
        let len = self.shape()[axis.index()];
        let most = if len <= longest_sorted::<T>() {
            len
        } else {
            MOST.min(len)
        };
        if k > most {
            return Err(Error::Parameter {
                operation: "top_k",
                parameter: "k",
                given: k.to_string(),
                wanted: format!("at most {most}, where axis {} has length {len}", axis.index()),
            });
        }
        let mut dim = self.raw_dim();
        dim[axis.index()] = k;
        let (values, indices) = self.top_k_of_lanes(k, axis.index(), dim.size() / k.max(1))?;
        Ok((
            of_lanes(values, dim.clone(), axis.index())?,
            of_lanes(indices, dim, axis.index())?,
        ))
    }

    /// Of so many lanes along an axis, one after another.
    fn top_k_of_lanes(
        &self,
        k: usize,
        axis: usize,
        rows: usize,
    ) -> Result<(DeviceArray<T, Ix1>, DeviceArray<u64, Ix1>)> {
        let stream = self.stream();
        let find = |x: &DeviceArrayRef<T, Ix1>, places: &DeviceArrayRef<u64, Ix1>, parts: Parts| {
            let results = rows * parts.parts as usize * k;
            let mut values = DeviceArray::uninit(stream, Ix1(results))?;
            let mut indices = DeviceArray::uninit(stream, Ix1(results))?;
            let blocks = u32::try_from(parts.blocks()).unwrap_or(u32::MAX);
            let config = LaunchConfig::new(blocks, THREADS as u32);
            stream.launch::<T::Kernel>(&config, (x, places, parts, &mut values, &mut indices))?;
            Ok((values, indices))
        };
        let none = DeviceArray::uninit(stream, Ix1(0))?;
        if rows * k == 0 {
            return Ok((DeviceArray::uninit(stream, Ix1(0))?, none));
        }
        let (x, len) = (self.lanes_along(axis)?, self.len() / rows);
        if is_sorted::<T>(len, k) {
            return top_k_of_short(&x, len, k);
        }
        let wanted = (len / PART).min(BLOCKS.div_ceil(rows)).max(len.div_ceil(MAX_PART / 2));
        let in_parts = parts(rows, len, k, wanted.max(1));
        let found = find(&x, &none, in_parts)?;
        match in_parts.parts {
            1 => Ok(found),
            count => find(&found.0, &found.1, parts(rows, count as usize * k, k, 1)),
        }
    }
}

/// The most elements of a row that is sorted.
fn longest_sorted<T: TopK>() -> usize {
    rows::most::<PlacedOf<T>>()
}

/// Of rows of `len` elements, no more than [are sorted](longest_sorted), by sorting them.
fn top_k_of_short<T: Element + TopK>(
    x: &DeviceArrayRef<T, Ix1>,
    len: usize,
    k: usize,
) -> Result<(DeviceArray<T, Ix1>, DeviceArray<u64, Ix1>)> {
    let (stream, rows) = (x.stream(), x.len() / len);
    let mut values = DeviceArray::uninit(stream, Ix1(rows * k))?;
    let mut indices = DeviceArray::uninit(stream, Ix1(rows * k))?;
    let of_block = rows::rows_of_block::<PlacedOf<T>>(len);
    let (words, out) = (Words::of::<T, _>(x), WordsMut::of(&mut values));
    let args = (words, len as u32, k as u32, T::PASS, out, &mut indices);
    stream.launch::<T::ShortRows>(&tiles(rows, of_block, rows::THREADS), args)?;
    Ok((values, indices))
}

/// Rows of that many elements in so many parts, of each of which `k` elements are found.
fn parts(rows: usize, len: usize, k: usize, parts: usize) -> Parts {
    Parts {
        rows,
        len,
        parts: parts as u32,
        k: k as u32,
        is_blocks: u32::from(len / parts >= LONG),
        zero: 0,
    }
}
