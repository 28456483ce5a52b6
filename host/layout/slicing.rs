// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parts of a layout, by ndarray's rules; where ndarray panics, here is an error.

use std::ops::Range;

use ndarray::{Dimension, RemoveAxis, Slice, SliceArg, SliceInfoElem};

use super::{Layout, checked_len};
use crate::error::{Error, Result};

/// What is left of an axis: the step to its first element, its length, and its steps.
struct Part {
    skip: isize,
    length: usize,
    stride: isize,
}

/// The place that `index` names on an axis: a negative one counts from the end.
fn from_start(length: usize, index: isize) -> Option<usize> {
    match usize::try_from(index) {
        Ok(index) => Some(index),
        Err(_) => length.checked_sub(index.unsigned_abs()),
    }
}

/// The part of an axis of that length and stride; `None` if it does not lie on the axis.
fn part(length: usize, stride: isize, slice: Slice) -> Option<Part> {
    let start = from_start(length, slice.start)?;
    let end = from_start(length, slice.end.unwrap_or(length as isize))?;
    if slice.step == 0 || start > length || end > length {
        return None;
    }
    let count = end.saturating_sub(start);
    let length = count.div_ceil(slice.step.unsigned_abs());
    let first = if slice.step < 0 && count > 0 { end - 1 } else { start };
    Some(Part {
        // Of an empty part the first element may be beyond the axis: there is no place to go to.
        skip: if count == 0 { 0 } else { first as isize * stride },
        length,
        // Between two elements the product is a distance within the memory.
        stride: if length > 1 { stride * slice.step } else { 0 },
    })
}

/// `start..end;step`, as `s![]` takes it.
fn shown(slice: Slice) -> String {
    let end = slice.end.map_or(String::new(), |end| end.to_string());
    match slice.step {
        1 => format!("{}..{end}", slice.start),
        step => format!("{}..{end};{step}", slice.start),
    }
}

impl<D: Dimension> Layout<D> {
    /// The error of a slice that does not lie on an axis.
    fn outside(&self, operation: &'static str, given: String, axis: usize) -> Error {
        Error::Shape {
            operation,
            given: format!("{given} along axis {axis} of shape {:?}", self.shape()),
            wanted: format!("places from 0 to {}, and a step other than 0", self.shape()[axis]),
        }
    }

    /// The part that ndarray's `s![]` names.
    pub(crate) fn slice<I: SliceArg<D>>(&self, info: &I) -> Result<Layout<I::OutDim>> {
        if info.in_ndim() != self.ndim() {
            return Err(Error::Shape {
                operation: "slice",
                given: format!("a slice of {} axes for shape {:?}", info.in_ndim(), self.shape()),
                wanted: format!("a slice of {} axes", self.ndim()),
            });
        }
        let mut dim = I::OutDim::zeros(info.out_ndim());
        let mut strides = dim.clone();
        let (mut offset, mut axis, mut to) = (self.offset, 0, 0);
        for &element in info.as_ref() {
            match element {
                SliceInfoElem::NewAxis => {
                    (dim[to], to) = (1, to + 1);
                }
                SliceInfoElem::Index(index) => {
                    let place = from_start(self.shape()[axis], index).filter(|&i| i < self.shape()[axis]);
                    let place = place.ok_or_else(|| Error::Shape {
                        operation: "slice",
                        given: format!("index {index} along axis {axis} of shape {:?}", self.shape()),
                        wanted: format!("an index below {}", self.shape()[axis]),
                    })?;
                    offset = offset.wrapping_add_signed((place as isize).wrapping_mul(self.strides()[axis]));
                    axis += 1;
                }
                SliceInfoElem::Slice { start, end, step } => {
                    let slice = Slice { start, end, step };
                    let part = part(self.shape()[axis], self.strides()[axis], slice)
                        .ok_or_else(|| self.outside("slice", shown(slice), axis))?;
                    offset = offset.wrapping_add_signed(part.skip);
                    dim[to] = part.length;
                    strides[to] = part.stride as usize;
                    (axis, to) = (axis + 1, to + 1);
                }
            }
        }
        if checked_len(dim.slice()).is_none() {
            return Err(Error::Shape {
                operation: "slice",
                given: format!("shape {:?}", dim.slice()),
                wanted: "fewer than 2^63 elements".into(),
            });
        }
        Ok(Layout { offset, dim, strides }.settled())
    }

    /// The part along one axis.
    pub(crate) fn slice_axis(&self, operation: &'static str, axis: usize, slice: Slice) -> Result<Self> {
        self.check_axis(operation, axis)?;
        let part = part(self.shape()[axis], self.strides()[axis], slice)
            .ok_or_else(|| self.outside(operation, shown(slice), axis))?;
        let mut result = self.clone();
        result.offset = self.offset.wrapping_add_signed(part.skip);
        result.dim[axis] = part.length;
        result.strides_mut()[axis] = part.stride;
        Ok(result.settled())
    }

    /// The part of an axis in that range, which it has.
    pub(crate) fn range(&self, axis: usize, range: Range<usize>) -> Self {
        let mut result = self.clone();
        result.dim[axis] = range.len();
        if !range.is_empty() {
            let skip = (range.start as isize).wrapping_mul(self.strides()[axis]);
            result.offset = self.offset.wrapping_add_signed(skip);
        }
        result.settled()
    }

    /// The part with one index along an axis, without the axis.
    pub(crate) fn index_axis(&self, operation: &'static str, axis: usize, index: usize) -> Result<Layout<D::Smaller>>
    where
        D: RemoveAxis,
    {
        self.check_axis(operation, axis)?;
        if index >= self.shape()[axis] {
            return Err(Error::Shape {
                operation,
                given: format!("index {index} along axis {axis} of shape {:?}", self.shape()),
                wanted: format!("an index below {}", self.shape()[axis]),
            });
        }
        let one = self.range(axis, index..index + 1);
        Ok(Layout {
            offset: one.offset,
            dim: one.dim.remove_axis(ndarray::Axis(axis)),
            strides: one.strides.remove_axis(ndarray::Axis(axis)),
        }
        .settled())
    }

    /// The parts before and from `index` along an axis.
    pub(crate) fn split_at(&self, operation: &'static str, axis: usize, index: usize) -> Result<(Self, Self)> {
        self.check_axis(operation, axis)?;
        let length = self.shape()[axis];
        if index > length {
            return Err(Error::Shape {
                operation,
                given: format!("index {index} along axis {axis} of shape {:?}", self.shape()),
                wanted: format!("an index of at most {length}"),
            });
        }
        Ok((self.range(axis, 0..index), self.range(axis, index..length)))
    }

    /// Parts of `size` along an axis, the last of what is left.
    pub(crate) fn chunks(
        &self,
        operation: &'static str,
        axis: usize,
        size: usize,
    ) -> Result<impl ExactSizeIterator<Item = Self> + use<D>> {
        self.check_axis(operation, axis)?;
        if size == 0 {
            return Err(Error::Parameter {
                operation,
                parameter: "size",
                given: "0".into(),
                wanted: "at least 1".into(),
            });
        }
        let (whole, length) = (self.clone(), self.shape()[axis]);
        Ok((0..length.div_ceil(size)).map(move |i| {
            let start = i * size;
            whole.range(axis, start..(start + size.min(length - start)))
        }))
    }

    /// With an axis reversed.
    pub(crate) fn flipped(&self, operation: &'static str, axis: usize) -> Result<Self> {
        self.slice_axis(operation, axis, Slice::new(0, None, -1))
    }

    /// With an axis of length 1 at that place.
    pub(crate) fn insert_axis(&self, operation: &'static str, axis: usize) -> Result<Layout<D::Larger>> {
        if axis > self.ndim() {
            return Err(Error::Axes {
                operation,
                given: vec![axis],
                wanted: format!("an axis of at most {}", self.ndim()),
            });
        }
        let inserted = |from: &[usize], value: usize| {
            let mut dim = D::Larger::zeros(from.len() + 1);
            let to = dim.slice_mut();
            to[..axis].copy_from_slice(&from[..axis]);
            to[axis] = value;
            to[axis + 1..].copy_from_slice(&from[axis..]);
            dim
        };
        Ok(Layout {
            offset: self.offset,
            dim: inserted(self.shape(), 1),
            strides: inserted(self.strides.slice(), 0),
        })
    }
}
