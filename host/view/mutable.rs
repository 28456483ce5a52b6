// SPDX-License-Identifier: MIT OR Apache-2.0
//! Views that write.

use std::any::TypeId;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use ndarray::{Axis, Dimension, IntoDimension, Ix1, IxDyn, RemoveAxis, Slice, SliceArg};

use crate::array::{DeviceArray, Element};
use crate::array_ref::{DeviceArrayRef, Held};
use crate::error::Result;
use crate::layout::Layout;
use crate::stream::Stream;

/// A view of a [`DeviceArray`] or a part of it that borrows it mutably, as ndarray's `ArrayViewMut`.
///
/// It can be [assigned](DeviceArrayRef::assign) to, [filled](DeviceArrayRef::fill), written to by operations and changed in
/// place, and given to a kernel for a `SliceMut<T>` if it is in C order without a gap. Views of parts that have nothing in common
/// ([`split_at_mut`](DeviceArrayRef::split_at_mut), [`axis_chunks_mut`](DeviceArrayRef::axis_chunks_mut)) can be written by several streams:
/// side by side, where the parts lie one behind the other in memory, as those along the first axis do, and one after
/// another where they interlace.
///
/// It dereferences to [`DeviceArrayRef`], which has the operations.
///
/// # Examples
///
/// ```
/// use ndarray::{Axis, array, s};
/// use warpsmith::{Device, DeviceArray};
///
/// # fn main() -> warpsmith::Result<()> {
/// let device = Device::auto()?;
/// let mut x = DeviceArray::zeros(device.default_stream(), (3, 3))?;
/// x.slice_mut(s![1, ..])?.fill(5)?;
/// let (mut left, right) = x.split_at_mut(Axis(1), 2)?;
/// left.slice_mut(s![.., 0])?.assign(&right.index_axis(Axis(1), 0)?)?;
/// assert_eq!(x.to_ndarray()?, array![[0, 0, 0], [5, 5, 5], [0, 0, 0]]);
/// # Ok(())
/// # }
/// ```
///
/// Two mutable views of one array cannot have elements in common:
///
/// ```compile_fail,E0499
/// # use ndarray::s;
/// # use warpsmith::{Device, DeviceArray};
/// # fn main() -> warpsmith::Result<()> {
/// # let device = Device::simulator();
/// let mut x = DeviceArray::<f32, _>::zeros(device.default_stream(), 8)?;
/// let mut left = x.slice_mut(s![..5])?;
/// let mut right = x.slice_mut(s![3..])?;
/// left.fill(1.0)?;
/// right.fill(2.0)?;
/// # Ok(())
/// # }
/// ```
///
/// Nor can a view be made one of other elements, for which it has no borrow:
///
/// ```compile_fail,E0277
/// # use warpsmith::{Device, DeviceArray};
/// # fn main() -> warpsmith::Result<()> {
/// # let device = Device::simulator();
/// let mut x = DeviceArray::<f32, _>::zeros(device.default_stream(), 8)?;
/// let mut y = DeviceArray::<f32, _>::zeros(device.default_stream(), 8)?;
/// std::mem::swap(&mut *x.view_mut(), &mut *y.view_mut());
/// # Ok(())
/// # }
/// ```
pub struct DeviceViewMut<'a, T, D> {
    elements: Held<T, D>,
    _borrow: PhantomData<&'a mut DeviceArray<T, D>>,
}

impl<T, D> Deref for DeviceViewMut<'_, T, D> {
    type Target = DeviceArrayRef<T, D>;

    fn deref(&self) -> &DeviceArrayRef<T, D> {
        &self.elements
    }
}

impl<T, D> DerefMut for DeviceViewMut<'_, T, D> {
    fn deref_mut(&mut self) -> &mut DeviceArrayRef<T, D> {
        &mut self.elements
    }
}

/// A view of that layout, whose elements nobody else has for the lifetime.
fn mutable<'a, T: Element, D: Dimension, E>(of: &DeviceArrayRef<T, D>, layout: Layout<E>) -> DeviceViewMut<'a, T, E> {
    DeviceViewMut {
        elements: of.with_layout(layout),
        _borrow: PhantomData,
    }
}

/// Mutable views, which cost nothing.
impl<T: Element, D: Dimension> DeviceArrayRef<T, D> {
    /// A mutable view of all elements.
    pub fn view_mut(&mut self) -> DeviceViewMut<'_, T, D> {
        mutable(self, self.layout.clone())
    }

    /// The elements whose indices are the same along all axes, as [`diag`](Self::diag).
    pub fn diag_mut(&mut self) -> DeviceViewMut<'_, T, Ix1> {
        mutable(self, self.layout.diagonal())
    }

    /// The part that ndarray's [`s![]`](ndarray::s) names, as [`slice`](Self::slice).
    ///
    /// # Errors
    ///
    /// As [`slice`](Self::slice).
    pub fn slice_mut<I: SliceArg<D>>(&mut self, info: I) -> Result<DeviceViewMut<'_, T, I::OutDim>> {
        Ok(mutable(self, self.layout.slice(&info)?))
    }

    /// The part along one axis, as [`slice_axis`](Self::slice_axis).
    ///
    /// # Errors
    ///
    /// As [`slice_axis`](Self::slice_axis).
    pub fn slice_axis_mut(&mut self, axis: Axis, indices: Slice) -> Result<DeviceViewMut<'_, T, D>> {
        Ok(mutable(
            self,
            self.layout.slice_axis("slice_axis_mut", axis.index(), indices)?,
        ))
    }

    /// The part with index `index` along an axis, without that axis.
    ///
    /// # Errors
    ///
    /// As [`index_axis`](Self::index_axis).
    pub fn index_axis_mut(&mut self, axis: Axis, index: usize) -> Result<DeviceViewMut<'_, T, D::Smaller>>
    where
        D: RemoveAxis,
    {
        Ok(mutable(
            self,
            self.layout.index_axis("index_axis_mut", axis.index(), index)?,
        ))
    }

    /// The parts before `index` along an axis, and from it on.
    ///
    /// # Errors
    ///
    /// As [`split_at`](Self::split_at).
    pub fn split_at_mut(
        &mut self,
        axis: Axis,
        index: usize,
    ) -> Result<(DeviceViewMut<'_, T, D>, DeviceViewMut<'_, T, D>)> {
        let (before, from) = self.layout.split_at("split_at_mut", axis.index(), index)?;
        Ok((mutable(self, before), mutable(self, from)))
    }

    /// Parts of `size` along an axis, in order; the last has what is left.
    ///
    /// # Errors
    ///
    /// As [`axis_chunks`](Self::axis_chunks).
    ///
    /// # Examples
    ///
    /// Each part on a stream of its own:
    ///
    /// ```
    /// use ndarray::{Axis, array};
    /// use warpsmith::{Device, DeviceArray};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let mut x = DeviceArray::zeros(device.default_stream(), 5)?;
    /// for (number, part) in x.axis_chunks_mut(Axis(0), 2)?.enumerate() {
    ///     part.into_stream(&device.create_stream()?)?.fill(number)?;
    /// }
    /// assert_eq!(x.to_ndarray()?, array![0, 0, 1, 1, 2]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn axis_chunks_mut(
        &mut self,
        axis: Axis,
        size: usize,
    ) -> Result<impl ExactSizeIterator<Item = DeviceViewMut<'_, T, D>>> {
        let chunks = self.layout.chunks("axis_chunks_mut", axis.index(), size)?;
        let all: &Self = self;
        Ok(chunks.map(move |layout| mutable(all, layout)))
    }

    /// The parts with each index along an axis, in order, without that axis.
    ///
    /// # Errors
    ///
    /// As [`axis_iter`](Self::axis_iter).
    pub fn axis_iter_mut(
        &mut self,
        axis: Axis,
    ) -> Result<impl ExactSizeIterator<Item = DeviceViewMut<'_, T, D::Smaller>>>
    where
        D: RemoveAxis,
    {
        self.layout.check_axis("axis_iter_mut", axis.index())?;
        let all: &Self = self;
        Ok((0..all.shape()[axis.index()]).map(move |index| {
            let part = all.layout.index_axis("axis_iter_mut", axis.index(), index);
            mutable(all, part.expect("an index of the axis"))
        }))
    }

    /// The elements in another shape, as [`reshape`](Self::reshape).
    ///
    /// # Errors
    ///
    /// As [`reshape`](Self::reshape).
    pub fn reshape_mut<E: Dimension>(&mut self, shape: impl IntoDimension<Dim = E>) -> Result<DeviceViewMut<'_, T, E>> {
        Ok(mutable(
            self,
            self.layout.reshaped("reshape_mut", shape.into_dimension())?,
        ))
    }

    /// A mutable view of elements in C order without a gap, in another shape of as many.
    pub(crate) fn in_shape_mut<E: Dimension>(&mut self, dim: E) -> DeviceViewMut<'_, T, E> {
        mutable(self, self.layout.in_shape(dim))
    }

    /// These elements by the name of their type, if that is `U`.
    pub(crate) fn of_type_mut<U: Element>(&mut self) -> Option<DeviceViewMut<'_, U, D>> {
        (TypeId::of::<T>() == TypeId::of::<U>()).then(|| DeviceViewMut {
            elements: DeviceArrayRef {
                buffer: Arc::clone(&self.buffer),
                stream: self.stream.clone(),
                layout: self.layout.clone(),
                _element: PhantomData,
                _size: [],
            },
            _borrow: PhantomData,
        })
    }

    /// The elements as one axis, in the order of the memory, if they lie in it without gap or repetition.
    pub(crate) fn in_memory_order_mut(&mut self) -> Option<DeviceViewMut<'_, T, Ix1>> {
        Some(mutable(self, self.layout.in_memory_order()?))
    }
}

impl<'a, T: Element, D: Dimension> DeviceViewMut<'a, T, D> {
    /// The parts before `index` along an axis, and from it on.
    pub(crate) fn into_split_axis(self, axis: Axis, index: usize) -> Result<(Self, Self)> {
        let (before, from) = self.layout.split_at("split_at", axis.index(), index)?;
        Ok((mutable(&self, before), mutable(&self, from)))
    }

    /// The part along one axis.
    pub(crate) fn into_slice_axis(self, axis: Axis, indices: Slice) -> Result<Self> {
        let layout = self.layout.slice_axis("slice_axis", axis.index(), indices)?;
        Ok(mutable(&self, layout))
    }

    /// The view with its axes in reverse order.
    pub fn reversed_axes(self) -> Self {
        mutable(&self, self.layout.clone().reversed_axes())
    }

    /// The view with its axes in another order, as [`DeviceView::permuted_axes`](crate::DeviceView::permuted_axes).
    ///
    /// # Errors
    ///
    /// [`Error::Axes`](crate::Error::Axes) unless `axes` names each axis once.
    pub fn permuted_axes(self, axes: impl IntoDimension<Dim = D>) -> Result<Self> {
        Ok(mutable(
            &self,
            self.layout.permuted("permuted_axes", &axes.into_dimension())?,
        ))
    }

    /// The view with a dimension that is known at run time only.
    pub fn into_dyn(self) -> DeviceViewMut<'a, T, IxDyn> {
        mutable(&self, self.layout.clone().into_dyn())
    }

    /// The view with a dimension that is known when the program is compiled, as
    /// [`DeviceView::into_dimensionality`](crate::DeviceView::into_dimensionality).
    ///
    /// # Errors
    ///
    /// [`Error::Shape`](crate::Error::Shape) if it has another number of axes.
    pub fn into_dimensionality<E: Dimension>(self) -> Result<DeviceViewMut<'a, T, E>> {
        Ok(mutable(&self, self.layout.clone().into_dimensionality()?))
    }

    /// The same view with its operations on another stream of the device.
    ///
    /// # Errors
    ///
    /// [`Error::DifferentDevices`](crate::Error::DifferentDevices) if the stream is another device's.
    pub fn into_stream(mut self, stream: &Stream) -> Result<Self> {
        self.stream().check_device("into_stream", stream)?;
        self.elements.stream = stream.clone();
        Ok(self)
    }
}
