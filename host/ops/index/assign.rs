// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parts that indices name, replaced by others.
//!
//! A kernel writes them, in whatever order its threads come. So where an index may occur more than once, another one finds ahead of
//! it which of them is the last for each part.

use kernels_gpu::index::{self as kernels, THREADS, TILE};
use ndarray::{Axis, Dimension, Ix1, Slice, arr0};

use super::super::tiles;
use super::{Indices, by_word, check_indices, inner, widest_word};
use crate::array::{DeviceArray, Element};
use crate::array_ref::DeviceArrayRef;
use crate::error::{Error, Result};
use crate::launch::{Words, WordsMut};
use crate::stream::Stream;

/// Indices whose last ones are found at a time: their numbers are of 32 bits.
const AT_A_TIME: usize = u32::MAX as usize;

/// Of so many parts less than one is named: it takes less then to have the numbers of named ones 0, of which each is in memory by
/// itself, than all of them.
const SPARSE: usize = 32;

/// Assigning.
impl<T: Element, D: Dimension> DeviceArrayRef<T, D> {
    /// Replaces the parts along an axis that the indices name: `self[.., indices[j], ..] = values[.., j, ..]`, NumPy's
    /// `x[indices] = values` (along the first axis) and PyTorch's `index_copy_`. The values are repeated to the shape of these parts
    /// by NumPy's rules.
    ///
    /// Of an index that occurs more than once the last part stays, as in NumPy, on every device and in every run. To add to what
    /// is there instead: [`scatter_add`](Self::scatter_add). The elements where a mask says:
    /// [`assign_where`](Self::assign_where). Indices are looked at as by [`take`](Self::take).
    ///
    /// # Cost
    ///
    /// Each value is read once and written once. Where an index may occur more than once, each is read once or twice more, and 4 bytes for
    /// each part along the axis are allocated for a while, of which those of the named parts are changed and read: indices on the
    /// device may, and so may more than 256 on the host, which are not looked through for it.
    ///
    /// # Errors
    ///
    /// [`Error::Axes`] if there is no such axis, [`Error::Shape`] if the shape of the values does not broadcast to that of this array
    /// with as many parts along the axis as there are indices, or there are indices and the axis has length 0,
    /// [`Error::Parameter`] if an index on the host is out of bounds, [`Error::DifferentDevices`], and those of an allocation and
    /// a launch.
    ///
    /// # Examples
    ///
    /// ```
    /// use ndarray::{Axis, array};
    /// use warpsmith::{Device, DeviceArray};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let stream = device.default_stream();
    /// let mut x = DeviceArray::zeros(stream, (4, 2))?;
    /// let rows = DeviceArray::from_ndarray(stream, &array![[1.0f32, 2.0], [3.0, 4.0], [5.0, 6.0]])?;
    /// x.assign_at(Axis(0), &[3, 0, 3], &rows)?;
    /// assert_eq!(x.to_ndarray()?, array![[3.0, 4.0], [0.0, 0.0], [0.0, 0.0], [5.0, 6.0]]);
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias("put", "put_along_axis", "index_put", "index_copy", "scatter", "setitem"))]
    pub fn assign_at<'i, E: Dimension>(
        &mut self,
        axis: Axis,
        indices: impl Indices<'i>,
        values: &DeviceArrayRef<T, E>,
    ) -> Result<()> {
        self.put("assign_at", axis, indices, values)
    }

    /// Sets all elements of the parts along an axis that the indices name: `x[indices] = 0` in NumPy, PyTorch's
    /// `index_fill_`. As [`assign_at`](Self::assign_at) of one number.
    ///
    /// # Errors
    ///
    /// As [`assign_at`](Self::assign_at).
    ///
    /// # Examples
    ///
    /// ```
    /// use ndarray::{Axis, array};
    /// use warpsmith::{Device, DeviceArray};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let mut x = DeviceArray::from_ndarray(device.default_stream(), &array![1u8, 2, 3, 4, 5])?;
    /// x.fill_at(Axis(0), &[0, 3], 9)?;
    /// assert_eq!(x.to_ndarray()?, array![9, 2, 3, 9, 5]);
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias("put", "index_fill"))]
    pub fn fill_at<'i>(&mut self, axis: Axis, indices: impl Indices<'i>, value: T) -> Result<()> {
        let value = DeviceArray::literal(self.stream(), &arr0(value))?;
        self.put("fill_at", axis, indices, &value)
    }

    fn put<'i, E: Dimension>(
        &mut self,
        operation: &'static str,
        axis: Axis,
        indices: impl Indices<'i>,
        values: &DeviceArrayRef<T, E>,
    ) -> Result<()> {
        let stream = self.stream().clone();
        stream.check_device(operation, values.stream())?;
        self.layout.check_axis(operation, axis.index())?;
        check_indices(operation, self.shape(), axis.index(), indices.count())?;
        let mut dim = self.raw_dim();
        dim[axis.index()] = indices.count();
        let fits = values.broadcast(dim.clone()).map_err(|_| Error::Shape {
            operation,
            given: format!("values of shape {:?} for shape {:?}", values.shape(), self.shape()),
            wanted: format!(
                "a shape that broadcasts to {:?}, for {} indices",
                dim.slice(),
                indices.count()
            ),
        })?;
        // The same for all parts they are one, which the kernel repeats.
        dim.slice_mut()[..=axis.index()].fill(1);
        let values = values.broadcast(dim).unwrap_or(fits);
        let may_repeat = indices.may_repeat();
        let indices = indices.on_device(operation, &stream, self.shape()[axis.index()])?;
        if indices.is_empty() || self.len() * size_of::<T>() == 0 {
            return Ok(());
        }
        self.change_in_order(&mut |x| match may_repeat {
            true => put_last(x, axis, &indices, &values, AT_A_TIME),
            false => put(x, axis, &indices, &DeviceArray::uninit(&stream, Ix1(0))?, &values),
        })
    }
}

/// Replaces parts along an axis of elements in C order, of which there are some, by the values for each index or for all. So many
/// indices at a time, in their order, so that the last of all is the last.
fn put_last<T: Element, D: Dimension>(
    x: &mut DeviceArrayRef<T, D>,
    axis: Axis,
    indices: &DeviceArrayRef<u64, Ix1>,
    values: &DeviceArrayRef<T, D>,
    at_a_time: usize,
) -> Result<()> {
    for start in (0..indices.len()).step_by(at_a_time) {
        let these = Slice::from(start..indices.len().min(start + at_a_time));
        let of_each = values.shape()[axis.index()] == indices.len();
        let part = values.slice_axis(axis, if of_each { these } else { Slice::from(..) })?;
        let indices = indices.slice_axis(Axis(0), these)?;
        let last = find_last(x.stream(), &indices, x.shape()[axis.index()])?;
        put(x, axis, &indices, &last, &part)?;
    }
    Ok(())
}

/// For each of `n` parts 1 more than the number of the last index that names it; of those that none names, anything.
fn find_last(stream: &Stream, indices: &DeviceArrayRef<u64, Ix1>, n: usize) -> Result<DeviceArray<u32, Ix1>> {
    let config = tiles(indices.len(), TILE, THREADS);
    let are_few = indices.len() < n / SPARSE;
    let mut last = match are_few {
        true => DeviceArray::uninit(stream, Ix1(n))?,
        false => DeviceArray::zeros(stream, n)?,
    };
    if are_few {
        stream.launch::<kernels::find_last>(&config, (indices, true, &mut last))?;
    }
    stream.launch::<kernels::find_last>(&config, (indices, false, &mut last))?;
    Ok(last)
}

/// [`put_last`] by one launch, where `last` says which indices are the last ones, or is empty, if no two are the same.
fn put<T: Element, D: Dimension>(
    x: &mut DeviceArrayRef<T, D>,
    axis: Axis,
    indices: &DeviceArrayRef<u64, Ix1>,
    last: &DeviceArrayRef<u32, Ix1>,
    values: &DeviceArrayRef<T, D>,
) -> Result<()> {
    let (values, stream) = (values.in_order()?, x.stream().clone());
    let n = x.shape()[axis.index()];
    // What an index names is as many bytes.
    let part = inner(x.shape(), axis.index()) * size_of::<T>();
    let word = widest_word(part, [x.address(), values.address()]);
    let words = x.len() / n * size_of::<T>() * indices.len() / word;
    let (from, mut to) = (Words::<u8>::of(&values), WordsMut::<u8>::of(x));
    macro_rules! launch {
        ($word:ty) => {{
            let args = (
                from.cast::<$word>(),
                indices,
                last,
                words,
                n,
                part / word,
                to.cast::<$word>(),
            );
            stream.launch::<kernels::put<$word>>(&tiles(words, TILE, THREADS), args)
        }};
    }
    by_word!(word, launch)
}

#[cfg(test)]
mod tests {
    use ndarray::{Array2, array};

    use super::*;
    use crate::device::Device;

    /// As if there were more indices than the numbers of 32 bits.
    #[test]
    fn indices_some_at_a_time() -> Result<()> {
        let device = Device::simulator();
        let stream = device.default_stream();
        let indices = DeviceArray::from_ndarray(stream, &array![2u64, 0, 2, 1, 0, 3, 2])?;
        let of_each = Array2::from_shape_fn((2, 7), |(i, j)| (i * 10 + j) as i32);
        for at_a_time in [1, 2, 3, 7, 8] {
            let mut x = DeviceArray::<i32, _>::zeros(stream, (2, 5))?;
            let values = DeviceArray::from_ndarray(stream, &of_each)?;
            put_last(&mut x, Axis(1), &indices, &values, at_a_time)?;
            assert_eq!(x.to_ndarray()?, array![[4, 3, 6, 5, 0], [14, 13, 16, 15, 0]]);
            // One part for all indices.
            let mut x = DeviceArray::<i32, _>::zeros(stream, (4, 2))?;
            put_last(
                &mut x,
                Axis(0),
                &indices,
                &DeviceArray::from_ndarray(stream, &array![[7, 8]])?,
                at_a_time,
            )?;
            assert_eq!(x.to_ndarray()?, array![[7, 8], [7, 8], [7, 8], [7, 8]]);
        }
        Ok(())
    }
}
