// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parts that indices name, replaced by others.
//!
//! The kernels that there are gather, and add integers that wrap around; so what is there is gathered, and the difference is
//! added to it, of the elements' bits in words of 32 or 64: the sum is the new element, bit for bit, whatever it is, and in
//! whatever order words are added to. That wants an index to be added for once. So the indices are sorted, and where several are
//! the same, the differences of all but the last are 0.

use ndarray::{Axis, Dimension, Ix1, Ix3, arr0};

use super::super::CastTo;
use super::{Indices, ScatterAdd, check_indices, inner};
use crate::array::{DeviceArray, Element};
use crate::array_ref::DeviceArrayRef;
use crate::error::{Error, Result};
use crate::expr::{Promote, Value};
use crate::ops::{Number, Sort};

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
    /// The indices are [sorted](Self::argsort). Of the parts, what is there and the values are read, in the order of the indices, and
    /// their differences written, read, and added to what is there: some nine times the bytes of the values are moved, and three
    /// times as many allocated for a while. Where parts are no multiple of 4 bytes (single elements of 8 and 16 bits), all elements of
    /// this array, too, are copied to words of 32 bits and back. A loop of [`assign`](Self::assign) takes a launch for each part.
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
        let values = values.broadcast(dim.clone()).map_err(|_| Error::Shape {
            operation,
            given: format!("values of shape {:?} for shape {:?}", values.shape(), self.shape()),
            wanted: format!(
                "a shape that broadcasts to {:?}, for {} indices",
                dim.slice(),
                indices.count()
            ),
        })?;
        let indices = indices.on_device(operation, &stream, self.shape()[axis.index()])?;
        if values.len() * size_of::<T>() == 0 {
            return Ok(());
        }
        let values = values.in_order()?;
        self.change_in_order(&mut |x| put(x, axis.index(), &indices, &values))
    }
}

/// Replaces parts along an axis of elements in C order by others in C order. There are some.
fn put<T: Element, D: Dimension>(
    x: &mut DeviceArrayRef<T, D>,
    axis: usize,
    indices: &DeviceArrayRef<u64, Ix1>,
    values: &DeviceArrayRef<T, D>,
) -> Result<()> {
    let (n, part) = (x.shape()[axis], inner(x.shape(), axis) * size_of::<T>());
    let outer = x.shape()[..axis].iter().product();
    let word = 1usize << (8 | part | x.bytes().start | values.bytes().start).trailing_zeros();
    let (of_x, of_values) = (Ix3(outer, n, part / word), Ix3(outer, indices.len(), part / word));
    match word {
        8 => put_words::<u64>(&mut x.words_mut(of_x), indices, &values.words(of_values)),
        4 => put_words::<u32>(&mut x.words_mut(of_x), indices, &values.words(of_values)),
        2 => put_narrow::<u16>(&mut x.words_mut(of_x), indices, &values.words(of_values)),
        _ => put_narrow::<u8>(&mut x.words_mut(of_x), indices, &values.words(of_values)),
    }
}

/// By words of 32 bits: to narrower ones no kernel adds.
fn put_narrow<W: Element + CastTo<u32>>(
    x: &mut DeviceArrayRef<W, Ix3>,
    indices: &DeviceArrayRef<u64, Ix1>,
    values: &DeviceArrayRef<W, Ix3>,
) -> Result<()>
where
    u32: CastTo<W>,
{
    let mut wide = x.cast::<u32>()?;
    put_words(&mut wide, indices, &*values.cast::<u32>()?)?;
    wide.cast_into(x)
}

/// Along the middle axis.
fn put_words<W>(
    x: &mut DeviceArrayRef<W, Ix3>,
    indices: &DeviceArrayRef<u64, Ix1>,
    values: &DeviceArrayRef<W, Ix3>,
) -> Result<()>
where
    W: ScatterAdd + Number + Sort + Value<Element = W> + Promote<W, Output = W>,
{
    let order = indices.argsort(Axis(0))?;
    let sorted = indices.take(Axis(0), &order)?;
    let is_last = last_of_equal(&sorted)?.into_shape((1, sorted.len(), 1))?;
    let (old, new) = (x.take(Axis(1), &sorted)?, values.take(Axis(1), &order)?);
    let differences = is_last.expr().not_equal(0).select(&new - &old, W::ZERO).eval()?;
    x.scatter_add(Axis(1), &sorted, &differences)
}

/// 1 for each index that the next one is not.
fn last_of_equal(sorted: &DeviceArray<u64, Ix1>) -> Result<DeviceArray<u8, Ix1>> {
    let before = sorted.len() - 1;
    let mut is_last = DeviceArray::ones(sorted.stream(), sorted.len())?;
    let (one, next) = (sorted.slice(ndarray::s![..before])?, sorted.slice(ndarray::s![1..])?);
    one.not_equal_into(&next, &mut is_last.slice_mut(ndarray::s![..before])?)?;
    Ok(is_last)
}
