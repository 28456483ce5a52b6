// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where the elements of an array or a view lie in its memory: shape, strides, and the place of the first element.

mod slicing;

use std::cmp::Reverse;
use std::ops::Range;

use ndarray::{Dimension, IxDyn};

use crate::error::{Error, Result};

/// A shape with strides in a memory. Every element is within the memory: a layout is made of a whole array, in C order,
/// and changed by functions that check what they are given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layout<D> {
    /// The place of the first element, in elements; 0 where there is none.
    offset: usize,
    dim: D,
    /// As `isize`, the distance between neighbours along each axis, in elements.
    strides: D,
}

impl<D: Dimension> Layout<D> {
    /// Of an array in C order that is the whole memory.
    pub(crate) fn standard(dim: D) -> Self {
        Self::place(0, dim)
    }

    /// In a memory of `len` elements, from element `offset` on with these strides, which are of `isize`: those of a layout in
    /// it, or of some of its elements.
    ///
    /// # Panics
    ///
    /// If an element is outside of the memory.
    pub(crate) fn within(len: usize, offset: usize, dim: D, strides: D) -> Self {
        let layout = Self { offset, dim, strides }.settled();
        assert!(layout.extent().end <= len, "elements outside of their memory");
        layout
    }

    /// In C order from element `offset` on.
    fn place(offset: usize, dim: D) -> Self {
        let mut strides = dim.clone();
        let mut stride: usize = 1;
        for (to, &length) in strides.slice_mut().iter_mut().zip(dim.slice()).rev() {
            *to = stride;
            // Of an empty shape the product can be too large; nobody goes along such strides.
            stride = stride.wrapping_mul(length);
        }
        Self { offset, dim, strides }.settled()
    }

    /// The same, with the first element at 0 where there is none.
    fn settled(mut self) -> Self {
        if self.is_empty() {
            self.offset = 0;
        }
        self
    }

    pub(crate) fn dim(&self) -> &D {
        &self.dim
    }

    pub(crate) fn shape(&self) -> &[usize] {
        self.dim.slice()
    }

    pub(crate) fn strides(&self) -> &[isize] {
        bytemuck::cast_slice(self.strides.slice())
    }

    fn strides_mut(&mut self) -> &mut [isize] {
        bytemuck::cast_slice_mut(self.strides.slice_mut())
    }

    pub(crate) fn offset(&self) -> usize {
        self.offset
    }

    pub(crate) fn len(&self) -> usize {
        self.dim.size()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.shape().contains(&0)
    }

    pub(crate) fn ndim(&self) -> usize {
        self.dim.ndim()
    }

    /// The elements of the memory from the first to the last that the layout has: what is between counts, too.
    pub(crate) fn extent(&self) -> Range<usize> {
        if self.is_empty() {
            return 0..0;
        }
        let (mut first, mut last) = (self.offset, self.offset);
        for (&length, &stride) in self.shape().iter().zip(self.strides()) {
            let steps = (length - 1) * stride.unsigned_abs();
            if stride < 0 {
                first -= steps;
            } else {
                last += steps;
            }
        }
        first..last + 1
    }

    /// Whether the elements lie in C order without a gap. Axes of length 1 do not count, and an empty layout does.
    pub(crate) fn is_standard(&self) -> bool {
        if self.is_empty() {
            return true;
        }
        let mut expected = 1;
        for (&length, &stride) in self.shape().iter().zip(self.strides()).rev() {
            if length != 1 && stride != expected {
                return false;
            }
            expected *= length as isize;
        }
        true
    }

    /// Whether a stride is negative along an axis that has more than one element.
    pub(crate) fn is_reversed(&self) -> bool {
        let mut axes = self.shape().iter().zip(self.strides());
        !self.is_empty() && axes.any(|(&length, &stride)| length > 1 && stride < 0)
    }

    /// The same elements as one axis, in the order of the memory, if they lie in it without gap or repetition.
    pub(crate) fn in_memory_order(&self) -> Option<Layout<ndarray::Ix1>> {
        let extent = self.extent();
        let mut axes: Vec<(usize, usize)> = Vec::with_capacity(self.ndim());
        for (&length, &stride) in self.shape().iter().zip(self.strides()).filter(|axis| *axis.0 != 1) {
            axes.push((stride.unsigned_abs(), length));
        }
        axes.sort_unstable();
        let mut expected = 1;
        for (stride, length) in axes {
            if stride != expected && !self.is_empty() {
                return None;
            }
            expected *= length;
        }
        Some(Layout::place(extent.start, ndarray::Ix1(extent.len())))
    }

    /// The order of the axes in which the elements lie in C order without a gap, if it is another than theirs.
    pub(crate) fn c_order(&self) -> Option<Vec<usize>> {
        if self.is_standard() {
            return None;
        }
        let mut order: Vec<usize> = (0..self.ndim()).collect();
        order.sort_by_key(|&axis| Reverse(self.strides()[axis]));
        let mut expected = 1;
        for &axis in order.iter().rev().filter(|&&axis| self.shape()[axis] != 1) {
            if self.strides()[axis] != expected {
                return None;
            }
            expected *= self.shape()[axis] as isize;
        }
        Some(order)
    }

    /// The place of the element with that index.
    pub(crate) fn index(&self, operation: &'static str, index: &D) -> Result<usize> {
        let within =
            index.ndim() == self.ndim() && index.slice().iter().zip(self.shape()).all(|(i, length)| i < length);
        if !within {
            return Err(Error::Shape {
                operation,
                given: format!("index {:?}", index.slice()),
                wanted: format!("an index within shape {:?}", self.shape()),
            });
        }
        let steps = index.slice().iter().zip(self.strides());
        Ok(steps.fold(self.offset, |at, (&i, &stride)| {
            at.wrapping_add_signed((i as isize).wrapping_mul(stride))
        }))
    }

    /// An error unless there is such an axis.
    pub(crate) fn check_axis(&self, operation: &'static str, axis: usize) -> Result<()> {
        check_axes(operation, self.ndim(), &[axis])
    }

    /// An error unless there are such axes, each named once.
    pub(crate) fn check_axes(&self, operation: &'static str, axes: &[usize]) -> Result<()> {
        check_axes(operation, self.ndim(), axes)
    }

    /// The axes in reverse order.
    pub(crate) fn reversed_axes(mut self) -> Self {
        self.dim.slice_mut().reverse();
        self.strides.slice_mut().reverse();
        self
    }

    /// Axis `i` is axis `axes[i]` of this one.
    pub(crate) fn permuted(&self, operation: &'static str, axes: &D) -> Result<Self> {
        let mut sorted = axes.slice().to_vec();
        sorted.sort_unstable();
        if !sorted.iter().copied().eq(0..self.ndim()) {
            return Err(Error::Axes {
                operation,
                given: axes.slice().to_vec(),
                wanted: format!("each of the {} axes once", self.ndim()),
            });
        }
        let mut result = self.clone();
        for (to, &from) in axes.slice().iter().enumerate() {
            result.dim[to] = self.dim[from];
            result.strides[to] = self.strides[from];
        }
        Ok(result)
    }

    /// Two axes in each other's place.
    pub(crate) fn with_axes_swapped(mut self, operation: &'static str, a: usize, b: usize) -> Result<Self> {
        self.check_axis(operation, a)?;
        self.check_axis(operation, b)?;
        self.dim.slice_mut().swap(a, b);
        self.strides.slice_mut().swap(a, b);
        Ok(self)
    }

    /// The elements whose indices are the same along all axes; the one element where there is no axis.
    pub(crate) fn diagonal(&self) -> Layout<ndarray::Ix1> {
        let len = self.shape().iter().copied().min().unwrap_or(1);
        // As far apart as two of them, which are in the memory; one alone has no step.
        let stride = if len > 1 { self.strides().iter().sum() } else { 1_isize };
        Layout {
            offset: self.offset,
            dim: ndarray::Ix1(len),
            strides: ndarray::Ix1(stride as usize),
        }
        .settled()
    }

    /// Repeated to a larger shape, by NumPy's rules.
    pub(crate) fn broadcast<E: Dimension>(&self, dim: E) -> Result<Layout<E>> {
        let mut strides = E::zeros(dim.ndim());
        bytemuck::cast_slice_mut(strides.slice_mut()).copy_from_slice(&self.broadcast_strides(dim.slice())?);
        let offset = self.offset;
        Ok(Layout { offset, dim, strides }.settled())
    }

    /// The strides of [`broadcast`](Self::broadcast).
    pub(crate) fn broadcast_strides(&self, to: &[usize]) -> Result<Vec<isize>> {
        repeated_strides(self.shape(), self.strides(), to)
    }

    /// In another shape of as many elements, of a layout in C order.
    pub(crate) fn in_shape<E: Dimension>(&self, dim: E) -> Layout<E> {
        debug_assert!(self.is_standard() && dim.size() == self.len());
        Layout::place(self.offset, dim)
    }

    /// The same elements, in their order, in another shape: where each axis of the two shapes, or each group of them that has
    /// as many elements in both, lies evenly.
    pub(crate) fn reshaped<E: Dimension>(&self, operation: &'static str, dim: E) -> Result<Layout<E>> {
        check_reshape(operation, self.shape(), dim.slice())?;
        if self.is_standard() {
            return Ok(self.in_shape(dim));
        }
        let axes = self.shape().iter().zip(self.strides()).filter(|axis| *axis.0 != 1);
        let mut axes = axes.map(|(&length, &stride)| (length, stride));
        // Every group is one of neighbouring axes here, and of neighbouring ones there.
        let mut strides = vec![0; dim.ndim()];
        let mut end = 0;
        while let Some((mut length, mut stride)) = axes.next() {
            let start = end;
            let mut wanted = 1;
            while wanted != length {
                if wanted < length {
                    wanted *= dim[end];
                    end += 1;
                    continue;
                }
                let (inner, step) = axes.next().expect("as many elements in both shapes");
                if stride != inner as isize * step {
                    return Err(Error::Shape {
                        operation,
                        given: format!(
                            "shape {:?} for elements of shape {:?} and strides {:?}",
                            dim.slice(),
                            self.shape(),
                            self.strides()
                        ),
                        wanted: "elements that lie evenly along each axis of it: `to_array` puts them in order".into(),
                    });
                }
                (length, stride) = (length * inner, step);
            }
            for axis in (start..end).rev() {
                strides[axis] = stride;
                stride *= dim[axis] as isize;
            }
        }
        let mut of_dim = dim.clone();
        bytemuck::cast_slice_mut(of_dim.slice_mut()).copy_from_slice(&strides);
        Ok(Layout {
            offset: self.offset,
            dim,
            strides: of_dim,
        })
    }

    /// The same memory with a shape and strides of their own, which stay within it.
    pub(crate) fn laid_out<E: Dimension>(&self, dim: E, strides: &[usize]) -> Layout<E> {
        let mut to = dim.clone();
        to.slice_mut().copy_from_slice(strides);
        Layout {
            offset: self.offset,
            dim,
            strides: to,
        }
    }

    /// The same with another dimension type, if that has as many axes.
    pub(crate) fn into_dimensionality<E: Dimension>(self) -> Result<Layout<E>> {
        match (E::from_dimension(&self.dim), E::from_dimension(&self.strides)) {
            (Some(dim), Some(strides)) => Ok(Layout {
                offset: self.offset,
                dim,
                strides,
            }),
            _ => Err(Error::Shape {
                operation: "into_dimensionality",
                given: format!("shape {:?}", self.shape()),
                wanted: match E::NDIM {
                    Some(1) => "one of 1 axis".into(),
                    Some(axes) => format!("one of {axes} axes"),
                    None => "one of any axes".into(),
                },
            }),
        }
    }

    pub(crate) fn into_dyn(self) -> Layout<IxDyn> {
        let mut strides = IxDyn::zeros(self.strides.ndim());
        strides.slice_mut().copy_from_slice(self.strides.slice());
        Layout {
            offset: self.offset,
            dim: self.dim.into_dyn(),
            strides,
        }
    }
}

/// The strides of elements of that shape, repeated to the shape `to`.
fn repeated_strides(shape: &[usize], strides: &[isize], to: &[usize]) -> Result<Vec<isize>> {
    let fits = |(from, to): (&usize, &usize)| from == to || *from == 1;
    let fit = shape.len() <= to.len() && shape.iter().rev().zip(to.iter().rev()).all(fits);
    if !fit || checked_len(to).is_none() {
        return Err(Error::Shape {
            operation: "broadcast",
            given: format!("shape {shape:?}"),
            wanted: format!("one that can be repeated to {to:?}"),
        });
    }
    let mut result = vec![0; to.len() - shape.len()];
    let stride = |(&length, &stride): (&usize, &isize)| if length == 1 { 0 } else { stride };
    result.extend(shape.iter().zip(strides).map(stride));
    Ok(result)
}

/// An error unless these are some of `ndim` axes, each named once.
pub(crate) fn check_axes(operation: &'static str, ndim: usize, axes: &[usize]) -> Result<()> {
    let is_wrong = |(at, axis): (usize, &usize)| *axis >= ndim || axes[..at].contains(axis);
    if !axes.iter().enumerate().any(is_wrong) {
        return Ok(());
    }
    Err(Error::Axes {
        operation,
        given: axes.to_vec(),
        wanted: match (ndim, axes.len()) {
            (0, _) => "an array that has an axis".into(),
            (_, 1) => format!("an axis below {ndim}"),
            _ => format!("axes below {ndim}, each at most once"),
        },
    })
}

/// An error of `operation` unless elements of shape `from` can have the shape `to`.
pub(crate) fn check_reshape(operation: &'static str, from: &[usize], to: &[usize]) -> Result<()> {
    let len: usize = from.iter().product();
    if checked_len(to) == Some(len) {
        return Ok(());
    }
    Err(Error::Shape {
        operation,
        given: format!("shape {to:?} for {len} elements of shape {from:?}"),
        wanted: format!("a shape of {len} elements"),
    })
}

/// The number of elements of that shape, unless it is 2^63 or more, or would be but for axes of length 0: ndarray has
/// no such shapes either, so that no part of one has too many elements to be counted.
pub(crate) fn checked_len(shape: &[usize]) -> Option<usize> {
    let mut filled = shape.iter().filter(|&&len| len > 0);
    let most = filled.try_fold(1usize, |product, &len| product.checked_mul(len))?;
    isize::try_from(most).ok()?;
    Some(shape.iter().product())
}
