// SPDX-License-Identifier: MIT OR Apache-2.0
//! Views: an array's elements in another order or shape, without a copy.

use std::fmt;

use ndarray::{Dimension, IntoDimension, IxDyn};

use crate::array::{DeviceArray, Element, checked_len};
use crate::buffer::Buffer;
use crate::error::{Error, Result};
use crate::stream::Stream;

/// A read-only view of a [`DeviceArray`], as ndarray's `ArrayView`: it has a shape and strides of its own, and borrows
/// the array's memory.
///
/// Permuting axes and broadcasting cost nothing; operations that take a view read the elements where they lie.
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
/// assert_eq!(x.t().shape(), [3, 2]);
/// assert_eq!(x.t().strides(), [1, 3]);
/// # Ok(())
/// # }
/// ```
pub struct DeviceView<'a, T, D> {
    memory: DeviceMemory<'a, T>,
    dim: D,
    strides: Vec<usize>,
}

/// All elements of an array, whatever its shape: what a view borrows, and the launch argument for a kernel's `&[T]`.
pub(crate) struct DeviceMemory<'a, T> {
    pub(crate) buffer: &'a Buffer,
    pub(crate) stream: &'a Stream,
    pub(crate) len: usize,
    _element: std::marker::PhantomData<&'a [T]>,
}

impl<T> Clone for DeviceMemory<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for DeviceMemory<'_, T> {}

impl<T, D: Clone> Clone for DeviceView<'_, T, D> {
    fn clone(&self) -> Self {
        Self {
            memory: self.memory,
            dim: self.dim.clone(),
            strides: self.strides.clone(),
        }
    }
}

impl<T: Element, D: Dimension> fmt::Debug for DeviceView<'_, T, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeviceView")
            .field("element", &std::any::type_name::<T>())
            .field("shape", &self.shape())
            .field("strides", &self.strides)
            .field("device", &self.stream().device_id())
            .finish()
    }
}

/// What operations take as a read-only operand: an array or a view of one.
pub trait AsView<T> {
    /// The dimension.
    type Dim: Dimension;

    /// The operand as a view.
    fn as_view(&self) -> DeviceView<'_, T, Self::Dim>;
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
        self.clone()
    }
}

impl<T: Element, D: Dimension> DeviceArray<T, D> {
    /// A view of the whole array.
    pub fn view(&self) -> DeviceView<'_, T, D> {
        DeviceView {
            memory: DeviceMemory {
                buffer: self.buffer(),
                stream: self.stream(),
                len: self.len(),
                _element: std::marker::PhantomData,
            },
            dim: self.raw_dim(),
            strides: standard_strides(self.shape()),
        }
    }

    /// A view with the axes in reverse order: of a matrix, its transpose.
    pub fn t(&self) -> DeviceView<'_, T, D> {
        self.view().reversed_axes()
    }
}

/// The strides of an array in C order, in elements.
fn standard_strides(shape: &[usize]) -> Vec<usize> {
    let mut strides = vec![1; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis] * shape[axis];
    }
    strides
}

impl<'a, T: Element, D: Dimension> DeviceView<'a, T, D> {
    /// The length of each axis.
    pub fn shape(&self) -> &[usize] {
        self.dim.slice()
    }

    /// The distance between neighbours along each axis, in elements; 0 along an axis that was broadcast.
    pub fn strides(&self) -> &[usize] {
        &self.strides
    }

    /// The shape as ndarray's dimension type.
    pub fn raw_dim(&self) -> D {
        self.dim.clone()
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.dim.size()
    }

    /// Whether there is no element.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The stream of the array.
    pub fn stream(&self) -> &'a Stream {
        self.memory.stream
    }

    /// The array's elements, in the order of its memory.
    pub(crate) fn memory(&self) -> DeviceMemory<'a, T> {
        self.memory
    }

    /// Whether the elements lie in C order without a gap. Axes of length 1 do not count, and an empty view does.
    pub fn is_standard_layout(&self) -> bool {
        if self.is_empty() {
            return true;
        }
        let mut expected = 1;
        for (&length, &stride) in self.shape().iter().zip(&self.strides).rev() {
            if length != 1 && stride != expected {
                return false;
            }
            expected *= length;
        }
        true
    }

    /// The view with its axes in reverse order.
    pub fn reversed_axes(mut self) -> Self {
        self.dim.slice_mut().reverse();
        self.strides.reverse();
        self
    }

    /// The view with its axes in another order: axis `i` of the result is axis `axes[i]` of this one.
    ///
    /// # Errors
    ///
    /// [`Error::Axes`] unless `axes` names each axis once.
    pub fn permuted_axes(self, axes: impl IntoDimension<Dim = D>) -> Result<Self> {
        self.with_axes("permuted_axes", axes.into_dimension())
    }

    /// [`permuted_axes`](Self::permuted_axes) for `operation`.
    pub(crate) fn with_axes(self, operation: &'static str, axes: D) -> Result<Self> {
        let mut sorted = axes.slice().to_vec();
        sorted.sort_unstable();
        if !sorted.iter().copied().eq(0..self.dim.ndim()) {
            return Err(Error::Axes {
                operation,
                given: axes.slice().to_vec(),
                wanted: format!("each of the {} axes once", self.dim.ndim()),
            });
        }
        let mut dim = self.dim.clone();
        for (to, &from) in axes.slice().iter().enumerate() {
            dim.slice_mut()[to] = self.dim[from];
        }
        Ok(Self {
            memory: self.memory,
            strides: axes.slice().iter().map(|&axis| self.strides[axis]).collect(),
            dim,
        })
    }

    /// The view repeated to a larger shape, by ndarray's (and NumPy's) rules: the axes are matched from the last; one
    /// of length 1 is repeated, and those that are missing in front are added.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`] if the view does not fit the shape.
    pub fn broadcast<E: Dimension>(&self, shape: impl IntoDimension<Dim = E>) -> Result<DeviceView<'a, T, E>> {
        let dim = shape.into_dimension();
        let (from, to) = (self.shape(), dim.slice());
        let fits = from.len() <= to.len()
            && from
                .iter()
                .rev()
                .zip(to.iter().rev())
                .all(|(&from, &to)| from == to || from == 1)
            && checked_len(to).is_some();
        if !fits {
            return Err(Error::Shape {
                operation: "broadcast",
                given: format!("shape {from:?}"),
                wanted: format!("one that can be repeated to {to:?}"),
            });
        }
        let added = to.len() - from.len();
        let stride = |axis: usize| match axis.checked_sub(added) {
            Some(axis) if from[axis] != 1 => self.strides[axis],
            _ => 0,
        };
        let strides = (0..to.len()).map(stride).collect();
        Ok(DeviceView {
            memory: self.memory,
            strides,
            dim,
        })
    }

    /// The view of a whole array in another shape of as many elements, in C order.
    pub(crate) fn in_shape<E: Dimension>(&self, dim: E) -> DeviceView<'a, T, E> {
        let strides = standard_strides(dim.slice());
        self.laid_out(dim, strides)
    }

    /// A view of the same memory with a shape and strides of its own, which stay within it.
    pub(crate) fn laid_out<E: Dimension>(&self, dim: E, strides: Vec<usize>) -> DeviceView<'a, T, E> {
        DeviceView {
            memory: self.memory,
            dim,
            strides,
        }
    }

    /// The view with a dimension that is known at run time only.
    pub fn into_dyn(self) -> DeviceView<'a, T, IxDyn> {
        DeviceView {
            memory: self.memory,
            dim: self.dim.into_dyn(),
            strides: self.strides,
        }
    }
}
