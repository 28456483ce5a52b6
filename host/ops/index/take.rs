// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gathering: parts of an array along an axis, each named by an index.

use kernels_gpu::index::{self as kernels, THREADS, TILE};
use ndarray::{Axis, Dimension, Ix1};

use super::super::tiles;
use super::{Indices, by_word, check_indices, inner, widest_word};
use crate::array::{DeviceArray, Element};
use crate::array_ref::DeviceArrayRef;
use crate::error::{Error, Result};
use crate::launch::{Words, WordsMut};

/// Gathering.
impl<T: Element, D: Dimension> DeviceArrayRef<T, D> {
    /// The parts with the given indices along an axis, in their order: NumPy's `take`, ndarray's `select`. An index may
    /// occur more than once. The result has as many parts along the axis as there are indices.
    ///
    /// Each element that is named is read once and written once; indices of other types than `u64` are made `u64` first.
    /// Indices on the device are looked at there: one that is out of bounds is a panic of the kernel, which names it; the
    /// simulated GPU reports it at once, and a GPU with the call that waits. Indices on the [host](Indices) are
    /// looked at, and copied to the device, ahead of the launch.
    ///
    /// # Errors
    ///
    /// [`Error::Axes`] if there is no such axis, [`Error::Shape`] if there are indices and the axis has length 0,
    /// [`Error::Parameter`] if an index on the host is out of bounds, [`Error::DifferentDevices`], and those of an allocation and a
    /// launch.
    ///
    /// # Examples
    ///
    /// ```
    /// use ndarray::{Axis, array};
    /// use warpsmith::{Device, DeviceArray};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let x = DeviceArray::from_ndarray(device.default_stream(), &array![[1, 2, 3], [4, 5, 6]])?;
    /// let columns = DeviceArray::from_ndarray(device.default_stream(), &array![2u32, 0, 2, 1])?;
    /// assert_eq!(x.take(Axis(1), &columns)?.to_ndarray()?, array![[3, 1, 3, 2], [6, 4, 6, 5]]);
    /// assert_eq!(x.take(Axis(0), &[1, 0, 1])?.to_ndarray()?, array![[4, 5, 6], [1, 2, 3], [4, 5, 6]]);
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "index_select")]
    pub fn take<'i>(&self, axis: Axis, indices: impl Indices<'i>) -> Result<DeviceArray<T, D>> {
        self.layout.check_axis("take", axis.index())?;
        let dim = self.taken(axis.index(), indices.count())?;
        // Ahead of the allocation: a wrong index is told as what it is, however many there are.
        let indices = indices.on_device("take", self.stream(), self.shape()[axis.index()])?;
        let mut out = DeviceArray::uninit(self.stream(), dim)?;
        take(self, axis.index(), &indices, &mut out)?;
        Ok(out)
    }

    /// [`take`](Self::take) into an existing array or view, which has as many parts along the axis as there are indices.
    ///
    /// Nothing is allocated but for copies: of indices that are not `u64` or on the host, of an array that is not in C order, and
    /// for a result that is not.
    ///
    /// # Errors
    ///
    /// Those of [`take`](Self::take), and [`Error::Shape`] if the result has another shape.
    ///
    /// # Examples
    ///
    /// ```
    /// use ndarray::{Axis, array};
    /// use warpsmith::{Device, DeviceArray};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let table = DeviceArray::from_ndarray(device.default_stream(), &array![[1, 2], [3, 4], [5, 6]])?;
    /// let mut batch = DeviceArray::zeros(device.default_stream(), (2, 2))?;
    /// for order in [[0u64, 1], [2, 0]] {
    ///     table.take_into(Axis(0), &order, &mut batch)?;
    /// }
    /// assert_eq!(batch.to_ndarray()?, array![[5, 6], [1, 2]]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn take_into<'i>(&self, axis: Axis, indices: impl Indices<'i>, out: &mut DeviceArrayRef<T, D>) -> Result<()> {
        self.layout.check_axis("take", axis.index())?;
        self.stream().check_device("take", out.stream())?;
        let wanted = self.taken(axis.index(), indices.count())?;
        if out.shape() != wanted.slice() {
            return Err(Error::Shape {
                operation: "take",
                given: format!("a result of shape {:?}", out.shape()),
                wanted: format!(
                    "shape {:?}, of {} indices along axis {} of shape {:?}",
                    wanted.slice(),
                    indices.count(),
                    axis.index(),
                    self.shape()
                ),
            });
        }
        let indices = indices.on_device("take", self.stream(), self.shape()[axis.index()])?;
        take(self, axis.index(), &indices, out)
    }

    /// The shape that `count` parts along an axis have, if they can be there.
    fn taken(&self, axis: usize, count: usize) -> Result<D> {
        check_indices("take", self.shape(), axis, count)?;
        let mut dim = self.raw_dim();
        dim[axis] = count;
        Ok(dim)
    }
}

/// Copies what `indices` name along an axis of `x` to `out`: whole parts, if there are as many indices as `out` has, else the
/// elements, of which each has an index.
pub(in crate::ops) fn take<T: Element, D: Dimension>(
    x: &DeviceArrayRef<T, D>,
    axis: usize,
    indices: &DeviceArrayRef<u64, Ix1>,
    out: &mut DeviceArrayRef<T, D>,
) -> Result<()> {
    if out.is_empty() || size_of::<T>() == 0 {
        return Ok(());
    }
    let x = x.in_order()?;
    out.write_in_order(x.stream(), &mut |out| copy(&x, axis, indices, out))
}

/// [`take`] of elements in C order to a place for some, which is in C order, too.
fn copy<T: Element, D: Dimension>(
    x: &DeviceArrayRef<T, D>,
    axis: usize,
    indices: &DeviceArrayRef<u64, Ix1>,
    out: &mut DeviceArrayRef<T, D>,
) -> Result<()> {
    let (n, count, inner) = (x.shape()[axis], out.shape()[axis], inner(x.shape(), axis));
    // Where there is one line, both are the same.
    let is_of_parts = indices.len() == count;
    // What an index names is as many bytes.
    let bytes = size_of::<T>() * if is_of_parts { inner } else { 1 };
    let word = widest_word(bytes, [x.address(), out.address()]);
    let (words, inner) = (
        if is_of_parts { 0 } else { bytes / word },
        inner * size_of::<T>() / word,
    );
    let config = tiles(out.len() * size_of::<T>() / word, TILE, THREADS);
    let stream = x.stream();
    let (from, mut to) = (Words::<u8>::of(x), WordsMut::<u8>::of(out));
    macro_rules! launch {
        ($word:ty) => {{
            let args = (
                from.cast::<$word>(),
                indices,
                count,
                words,
                n,
                inner,
                to.cast::<$word>(),
            );
            stream.launch::<kernels::take<$word>>(&config, args)
        }};
    }
    by_word!(word, launch)
}
