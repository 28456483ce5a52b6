// SPDX-License-Identifier: MIT OR Apache-2.0
//! Views: an array's elements in another order or shape, or a part of them, without a copy.

mod kernel;
mod mutable;
mod parts;

use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::Arc;

use ndarray::{Dimension, IntoDimension, IxDyn};

use crate::array::{DeviceArray, Element};
use crate::array_ref::{DeviceArrayRef, Held};
use crate::error::Result;
use crate::layout::Layout;
use crate::stream::Stream;

pub use mutable::DeviceViewMut;

/// A read-only view of a [`DeviceArray`], as ndarray's `ArrayView`: it has a shape and strides of its own, and borrows
/// the array's memory.
///
/// Slicing, permuting axes and broadcasting cost nothing. A view dereferences to [`DeviceArrayRef`], which has the
/// operations: they take views as they take arrays.
///
/// # Examples
///
/// ```
/// use ndarray::{array, s};
/// use warpsmith::{Device, DeviceArray};
///
/// # fn main() -> warpsmith::Result<()> {
/// let device = Device::auto()?;
/// let x = DeviceArray::from_ndarray(device.default_stream(), &array![[1i32, 2, 3], [4, 5, 6]])?;
/// assert_eq!(x.t().shape(), [3, 2]);
/// assert_eq!(x.t().strides(), [1, 3]);
/// let last_columns = x.slice(s![.., 1..])?;
/// assert_eq!(last_columns.sum()?, 16i64);
/// # Ok(())
/// # }
/// ```
pub struct DeviceView<'a, T, D> {
    elements: Held<T, D>,
    _borrow: PhantomData<&'a DeviceArray<T, D>>,
}

impl<T, D> Deref for DeviceView<'_, T, D> {
    type Target = DeviceArrayRef<T, D>;

    fn deref(&self) -> &DeviceArrayRef<T, D> {
        &self.elements
    }
}

impl<T: Element, D: Dimension> Clone for DeviceView<'_, T, D> {
    fn clone(&self) -> Self {
        self.with(self.layout.clone())
    }
}

/// An array or a view: what [`elementwise()`](crate::ops::elementwise()) takes as operands, which may be of several types.
/// Other operations take `&DeviceArrayRef`, which references to arrays and views become by themselves.
pub trait AsView<T> {
    /// The dimension.
    type Dim: Dimension;

    /// The operand as a view.
    fn as_view(&self) -> DeviceView<'_, T, Self::Dim>;
}

impl<T: Element, D: Dimension> AsView<T> for DeviceArrayRef<T, D> {
    type Dim = D;

    fn as_view(&self) -> DeviceView<'_, T, D> {
        self.view()
    }
}

impl<T: Element, D: Dimension> AsView<T> for DeviceArray<T, D> {
    type Dim = D;

    fn as_view(&self) -> DeviceView<'_, T, D> {
        self.view()
    }
}

impl<T: Element, D: Dimension> AsView<T> for DeviceView<'_, T, D> {
    type Dim = D;

    fn as_view(&self) -> DeviceView<'_, T, D> {
        self.view()
    }
}

impl<T: Element, D: Dimension> AsView<T> for DeviceViewMut<'_, T, D> {
    type Dim = D;

    fn as_view(&self) -> DeviceView<'_, T, D> {
        self.view()
    }
}

impl<T: Element, D: Dimension> DeviceArrayRef<T, D> {
    /// A view with that layout, which is within the memory.
    fn with<E>(&self, layout: Layout<E>) -> DeviceView<'_, T, E> {
        DeviceView {
            elements: self.with_layout(layout),
            _borrow: PhantomData,
        }
    }

    /// The view of a whole array in another shape of as many elements, in C order.
    pub(crate) fn in_shape<E: Dimension>(&self, dim: E) -> DeviceView<'_, T, E> {
        self.with(self.layout.in_shape(dim))
    }

    /// A view of the same memory with a shape and strides of its own, which stay within it.
    pub(crate) fn laid_out<E: Dimension>(&self, dim: E, strides: Vec<usize>) -> DeviceView<'_, T, E> {
        self.with(self.layout.laid_out(dim, &strides))
    }

    /// The same bits, taken for elements of another type of the same size.
    pub(crate) fn bits<U: Element>(&self) -> DeviceView<'_, U, D> {
        const { assert!(size_of::<T>() == size_of::<U>()) };
        DeviceView {
            elements: DeviceArrayRef {
                buffer: Arc::clone(&self.buffer),
                stream: self.stream.clone(),
                layout: self.layout.clone(),
                _element: PhantomData,
                _size: [],
            },
            _borrow: PhantomData,
        }
    }

    /// The elements as one axis, in the order of the memory, if they lie in it without gap or repetition.
    pub(crate) fn in_memory_order(&self) -> Option<DeviceView<'_, T, ndarray::Ix1>> {
        Some(self.with(self.layout.in_memory_order()?))
    }
}

impl<'a, T: Element, D: Dimension> DeviceView<'a, T, D> {
    /// A view with that layout, as long as this one's borrow.
    fn with<E>(&self, layout: Layout<E>) -> DeviceView<'a, T, E> {
        DeviceView {
            elements: self.with_layout(layout),
            _borrow: PhantomData,
        }
    }

    /// The view of a whole array in another shape of as many elements, in C order.
    pub(crate) fn into_dim<E: Dimension>(self, dim: E) -> DeviceView<'a, T, E> {
        self.with(self.layout.in_shape(dim))
    }

    /// A view from the first element on with a shape and strides of its own, which stay within the memory.
    pub(crate) fn into_laid_out<E: Dimension>(self, dim: E, strides: Vec<usize>) -> DeviceView<'a, T, E> {
        self.with(self.layout.laid_out(dim, &strides))
    }

    /// The view with its axes in reverse order.
    pub fn reversed_axes(self) -> Self {
        self.with(self.layout.clone().reversed_axes())
    }

    /// The view with its axes in another order: axis `i` of the result is axis `axes[i]` of this one.
    ///
    /// # Errors
    ///
    /// [`Error::Axes`](crate::Error::Axes) unless `axes` names each axis once.
    #[doc(alias("moveaxis", "movedim", "permute_dims"))]
    pub fn permuted_axes(self, axes: impl IntoDimension<Dim = D>) -> Result<Self> {
        self.with_axes("permuted_axes", axes.into_dimension())
    }

    /// [`permuted_axes`](Self::permuted_axes) for `operation`.
    pub(crate) fn with_axes(self, operation: &'static str, axes: D) -> Result<Self> {
        Ok(self.with(self.layout.permuted(operation, &axes)?))
    }

    /// The view with a dimension that is known at run time only.
    pub fn into_dyn(self) -> DeviceView<'a, T, IxDyn> {
        self.with(self.layout.clone().into_dyn())
    }

    /// The view with a dimension that is known when the program is compiled.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`](crate::Error::Shape) if it has another number of axes.
    pub fn into_dimensionality<E: Dimension>(self) -> Result<DeviceView<'a, T, E>> {
        Ok(self.with(self.layout.clone().into_dimensionality()?))
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
