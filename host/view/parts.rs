// SPDX-License-Identifier: MIT OR Apache-2.0
//! Views of parts.

use ndarray::{Axis, Dimension, IntoDimension, Ix1, RemoveAxis, Slice, SliceArg};

use super::DeviceView;
use crate::array::Element;
use crate::array_ref::DeviceArrayRef;
use crate::error::Result;

/// The methods that make read-only views, for a borrow of lifetime `$a`.
macro_rules! views {
    ($a:lifetime) => {
        /// A view of all elements.
        pub fn view(&self) -> DeviceView<$a, T, D> {
            self.with(self.layout.clone())
        }

        /// A view with the axes in reverse order: of a matrix, its transpose.
        pub fn t(&self) -> DeviceView<$a, T, D> {
            self.with(self.layout.clone().reversed_axes())
        }

        /// A view with two axes in each other's place: NumPy's `swapaxes`, PyTorch's `transpose(a, b)`. Any order of the axes:
        /// [`permuted_axes`](DeviceView::permuted_axes) of a view.
        ///
        /// # Errors
        ///
        /// [`Error::Axes`](crate::Error::Axes) if there is no such axis.
        ///
        /// # Examples
        ///
        /// ```
        /// use ndarray::Axis;
        /// use warpsmith::{Device, DeviceArray};
        ///
        /// # fn main() -> warpsmith::Result<()> {
        /// let device = Device::auto()?;
        /// let heads = DeviceArray::<f32, _>::zeros(device.default_stream(), (2, 16, 4, 8))?;
        /// assert_eq!(heads.swap_axes(Axis(1), Axis(2))?.shape(), [2, 4, 16, 8]);
        /// # Ok(())
        /// # }
        /// ```
        #[doc(alias = "swapaxes")]
        pub fn swap_axes(&self, a: Axis, b: Axis) -> Result<DeviceView<$a, T, D>> {
            let layout = self.layout.clone();
            Ok(self.with(layout.with_axes_swapped("swap_axes", a.index(), b.index())?))
        }

        /// The elements whose indices are the same along all axes, as many as the shortest axis has: of a matrix, its diagonal.
        ///
        /// # Examples
        ///
        /// A matrix's trace, and numbers added to its diagonal:
        ///
        /// ```
        /// use ndarray::array;
        /// use warpsmith::{Device, DeviceArray};
        ///
        /// # fn main() -> warpsmith::Result<()> {
        /// let device = Device::auto()?;
        /// let mut x = DeviceArray::from_ndarray(device.default_stream(), &array![[1i32, 2, 3], [4, 5, 6]])?;
        /// assert_eq!(x.diag().sum()?, 6i64);
        /// x.diag_mut().add_assign_scalar(10)?;
        /// assert_eq!(x.to_ndarray()?, array![[11, 2, 3], [4, 15, 6]]);
        /// # Ok(())
        /// # }
        /// ```
        #[doc(alias("diagonal", "trace"))]
        pub fn diag(&self) -> DeviceView<$a, T, Ix1> {
            self.with(self.layout.diagonal())
        }

        /// The part that ndarray's [`s![]`](ndarray::s) names: ranges with steps, negative ones too, which take the range
        /// backwards; places that count from the end where they are negative; single indices, which take an axis away;
        /// new axes.
        ///
        /// # Errors
        ///
        /// [`Error::Shape`](crate::Error::Shape) if a range or an index is not within its axis.
        ///
        /// # Examples
        ///
        /// ```
        /// use ndarray::{array, s};
        /// use warpsmith::{Device, DeviceArray};
        ///
        /// # fn main() -> warpsmith::Result<()> {
        /// let device = Device::auto()?;
        /// let x = array![[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12]];
        /// let x = DeviceArray::from_ndarray(device.default_stream(), &x)?;
        /// assert_eq!(x.slice(s![1.., ..;2])?.to_ndarray()?, array![[5, 7], [9, 11]]);
        /// assert_eq!(x.slice(s![-1, ..;-1])?.to_ndarray()?, array![12, 11, 10, 9]);
        /// let error = x.slice(s![.., 2..5]).unwrap_err().to_string();
        /// assert_eq!(error, "slice: given 2..5 along axis 1 of shape [3, 4], wanted places from 0 to 4, and a step other than 0");
        /// # Ok(())
        /// # }
        /// ```
        pub fn slice<I: SliceArg<D>>(&self, info: I) -> Result<DeviceView<$a, T, I::OutDim>> {
            Ok(self.with(self.layout.slice(&info)?))
        }

        /// The part along one axis, by ndarray's [`Slice`].
        ///
        /// # Errors
        ///
        /// [`Error::Axes`](crate::Error::Axes) if there is no such axis, [`Error::Shape`](crate::Error::Shape) if the
        /// range is not within it.
        pub fn slice_axis(&self, axis: Axis, indices: Slice) -> Result<DeviceView<$a, T, D>> {
            Ok(self.with(self.layout.slice_axis("slice_axis", axis.index(), indices)?))
        }

        /// The part with index `index` along an axis, without that axis: of a matrix, a row or a column.
        ///
        /// # Errors
        ///
        /// [`Error::Axes`](crate::Error::Axes) if there is no such axis, [`Error::Shape`](crate::Error::Shape) if it is
        /// not that long.
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
        /// assert_eq!(x.index_axis(Axis(1), 2)?.to_ndarray()?, array![3, 6]);
        /// # Ok(())
        /// # }
        /// ```
        #[doc(alias = "squeeze")]
        pub fn index_axis(&self, axis: Axis, index: usize) -> Result<DeviceView<$a, T, D::Smaller>>
        where
            D: RemoveAxis,
        {
            Ok(self.with(self.layout.index_axis("index_axis", axis.index(), index)?))
        }

        /// The parts before `index` along an axis, and from it on.
        ///
        /// # Errors
        ///
        /// [`Error::Axes`](crate::Error::Axes) if there is no such axis, [`Error::Shape`](crate::Error::Shape) if it is
        /// shorter.
        #[doc(alias = "split")]
        pub fn split_at(&self, axis: Axis, index: usize) -> Result<(DeviceView<$a, T, D>, DeviceView<$a, T, D>)> {
            let (before, from) = self.layout.split_at("split_at", axis.index(), index)?;
            Ok((self.with(before), self.with(from)))
        }

        /// Parts of `size` along an axis, in order; the last has what is left.
        ///
        /// # Errors
        ///
        /// [`Error::Axes`](crate::Error::Axes) if there is no such axis, [`Error::Parameter`](crate::Error::Parameter)
        /// if the size is 0.
        ///
        /// # Examples
        ///
        /// ```
        /// use ndarray::{Axis, array};
        /// use warpsmith::{Device, DeviceArray};
        ///
        /// # fn main() -> warpsmith::Result<()> {
        /// let device = Device::auto()?;
        /// let x = DeviceArray::from_ndarray(device.default_stream(), &array![1, 2, 3, 4, 5])?;
        /// let sums: Result<Vec<i64>, _> = x.axis_chunks(Axis(0), 2)?.map(|part| part.sum()).collect();
        /// assert_eq!(sums?, [3, 7, 5]);
        /// # Ok(())
        /// # }
        /// ```
        #[doc(alias = "array_split")]
        pub fn axis_chunks(
            &self,
            axis: Axis,
            size: usize,
        ) -> Result<impl ExactSizeIterator<Item = DeviceView<$a, T, D>>> {
            let chunks = self.layout.chunks("axis_chunks", axis.index(), size)?;
            let view = self.view();
            Ok(chunks.map(move |layout| view.with(layout)))
        }

        /// The parts with each index along an axis, in order, without that axis.
        ///
        /// # Errors
        ///
        /// [`Error::Axes`](crate::Error::Axes) if there is no such axis.
        pub fn axis_iter(&self, axis: Axis) -> Result<impl ExactSizeIterator<Item = DeviceView<$a, T, D::Smaller>>>
        where
            D: RemoveAxis,
        {
            self.layout.check_axis("axis_iter", axis.index())?;
            let view = self.view();
            Ok((0..self.shape()[axis.index()]).map(move |index| {
                let part = view.layout.index_axis("axis_iter", axis.index(), index);
                view.with(part.expect("an index of the axis"))
            }))
        }

        /// The elements with an axis reversed, as NumPy's `flip`.
        ///
        /// # Errors
        ///
        /// [`Error::Axes`](crate::Error::Axes) if there is no such axis.
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
        /// assert_eq!(x.flip(Axis(1))?.to_ndarray()?, array![[3, 2, 1], [6, 5, 4]]);
        /// # Ok(())
        /// # }
        /// ```
        #[doc(alias("fliplr", "flipud"))]
        pub fn flip(&self, axis: Axis) -> Result<DeviceView<$a, T, D>> {
            Ok(self.with(self.layout.flipped("flip", axis.index())?))
        }

        /// The elements with several axes reversed: NumPy's `flip` with a tuple of axes. Of none, a view of all elements.
        ///
        /// # Errors
        ///
        /// [`Error::Axes`](crate::Error::Axes) if there is no such axis or one is named twice.
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
        /// assert_eq!(x.flip_axes(&[0, 1])?.to_ndarray()?, array![[6, 5, 4], [3, 2, 1]]);
        /// # Ok(())
        /// # }
        /// ```
        pub fn flip_axes(&self, axes: &[usize]) -> Result<DeviceView<$a, T, D>> {
            self.layout.check_axes("flip_axes", axes)?;
            let mut layout = self.layout.clone();
            for &axis in axes {
                layout = layout.flipped("flip_axes", axis)?;
            }
            Ok(self.with(layout))
        }

        /// The elements rotated by `turns` quarter turns in the plane of two axes, from the first towards the second: NumPy's
        /// `rot90`, with `turns` 1 and the axes 0 and 1 unless it is told otherwise, which turns a matrix or a picture counterclockwise.
        /// A negative number turns the other way.
        ///
        /// # Errors
        ///
        /// [`Error::Axes`](crate::Error::Axes) if there is no such axis, or both are the same.
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
        /// assert_eq!(x.rot90(1, Axis(0), Axis(1))?.to_ndarray()?, array![[3, 6], [2, 5], [1, 4]]);
        /// assert_eq!(x.rot90(-1, Axis(0), Axis(1))?.to_ndarray()?, array![[4, 1], [5, 2], [6, 3]]);
        /// # Ok(())
        /// # }
        /// ```
        #[doc(alias = "rotate")]
        pub fn rot90(&self, turns: i32, from: Axis, to: Axis) -> Result<DeviceView<$a, T, D>> {
            let (from, to) = (from.index(), to.index());
            self.layout.check_axes("rot90", &[from, to])?;
            let layout = self.layout.clone();
            Ok(self.with(match turns.rem_euclid(4) {
                0 => layout,
                1 => layout
                    .flipped("rot90", to)?
                    .with_axes_swapped("rot90", from, to)?,
                2 => layout.flipped("rot90", from)?.flipped("rot90", to)?,
                _ => layout
                    .flipped("rot90", from)?
                    .with_axes_swapped("rot90", from, to)?,
            }))
        }

        /// The elements with one more axis, of length 1, which becomes axis number `axis`: what a reduction along an axis
        /// needs to broadcast against the array that was reduced (NumPy's `keepdims`).
        ///
        /// # Errors
        ///
        /// [`Error::Axes`](crate::Error::Axes) if the array has not that many axes.
        ///
        /// # Examples
        ///
        /// ```
        /// use ndarray::{Axis, array};
        /// use warpsmith::{Device, DeviceArray};
        ///
        /// # fn main() -> warpsmith::Result<()> {
        /// let device = Device::auto()?;
        /// let x = DeviceArray::from_ndarray(device.default_stream(), &array![[1.0, 3.0], [2.0, 6.0]])?;
        /// let mean = x.mean_axis(Axis(1))?;
        /// let deviation = x.sub(&mean.insert_axis(Axis(1))?)?;
        /// assert_eq!(deviation.to_ndarray()?, array![[-1.0, 1.0], [-2.0, 2.0]]);
        /// # Ok(())
        /// # }
        /// ```
        #[doc(alias("expand_dims", "newaxis", "unsqueeze", "keepdims"))]
        pub fn insert_axis(&self, axis: Axis) -> Result<DeviceView<$a, T, D::Larger>> {
            Ok(self.with(self.layout.insert_axis("insert_axis", axis.index())?))
        }

        /// The elements in another shape of as many, in the same order, without a copy; PyTorch's `view`.
        ///
        /// Of an array, or a part of one in C order, that is any shape. Of other views it is one whose axes are theirs, split or
        /// put together where the elements lie evenly: the last axis of a range of columns can be split.
        ///
        /// # Errors
        ///
        /// [`Error::Shape`](crate::Error::Shape) if the shape is not one of as many elements, or the elements do not lie so.
        ///
        /// # Examples
        ///
        /// ```
        /// use ndarray::{array, s};
        /// use warpsmith::{Device, DeviceArray};
        ///
        /// # fn main() -> warpsmith::Result<()> {
        /// let device = Device::auto()?;
        /// let x = DeviceArray::from_ndarray(device.default_stream(), &array![[1, 2, 3, 4, 5], [6, 7, 8, 9, 10]])?;
        /// assert_eq!(x.reshape((5, 2))?.to_ndarray()?, array![[1, 2], [3, 4], [5, 6], [7, 8], [9, 10]]);
        /// let pairs = x.slice(s![.., 1..])?.reshape((2, 2, 2))?;
        /// assert_eq!(pairs.to_ndarray()?, array![[[2, 3], [4, 5]], [[7, 8], [9, 10]]]);
        /// assert!(x.t().reshape(10).is_err());
        /// # Ok(())
        /// # }
        /// ```
        #[doc(alias("view", "ravel", "flatten"))]
        pub fn reshape<E: Dimension>(&self, shape: impl IntoDimension<Dim = E>) -> Result<DeviceView<$a, T, E>> {
            Ok(self.with(self.layout.reshaped("reshape", shape.into_dimension())?))
        }

        /// The elements repeated to a larger shape, by ndarray's (and NumPy's) rules: the axes are matched from the last;
        /// one of length 1 is repeated, and those that are missing in front are added.
        ///
        /// # Errors
        ///
        /// [`Error::Shape`](crate::Error::Shape) if the elements do not fit the shape.
        ///
        /// # Examples
        ///
        /// ```
        /// use ndarray::array;
        /// use warpsmith::{Device, DeviceArray};
        ///
        /// # fn main() -> warpsmith::Result<()> {
        /// let device = Device::auto()?;
        /// let row = DeviceArray::from_ndarray(device.default_stream(), &array![1, 2, 3])?;
        /// assert_eq!(row.broadcast((2, 3))?.to_ndarray()?, array![[1, 2, 3], [1, 2, 3]]);
        /// assert!(row.broadcast((3, 2)).is_err());
        /// # Ok(())
        /// # }
        /// ```
        #[doc(alias = "broadcast_to")]
        pub fn broadcast<E: Dimension>(&self, shape: impl IntoDimension<Dim = E>) -> Result<DeviceView<$a, T, E>> {
            Ok(self.with(self.layout.broadcast(shape.into_dimension())?))
        }
    };
}

/// Views, which cost nothing.
impl<T: Element, D: Dimension> DeviceArrayRef<T, D> {
    views!('_);
}

/// Views of views, which last as long as the array is borrowed. As the methods of [`DeviceArrayRef`] of the same names.
impl<'a, T: Element, D: Dimension> DeviceView<'a, T, D> {
    views!('a);
}
