// SPDX-License-Identifier: MIT OR Apache-2.0
//! The lanes of an array along an axis, one after another, and back: for kernels that treat rows.

use ndarray::{Dimension, Ix1, IxDyn};

use super::transpose::Ordered;
use crate::array::{DeviceArray, Element};
use crate::array_ref::DeviceArrayRef;
use crate::error::Result;

impl<T: Element, D: Dimension> DeviceArrayRef<T, D> {
    /// The elements, those of each lane along an axis side by side: themselves where they lie so, else a copy.
    pub(super) fn lanes_along(&self, axis: usize) -> Result<Ordered<'_, T, Ix1>> {
        let last = self.ndim() - 1;
        if axis == last {
            return Ok(match self.in_order()? {
                Ordered::AsIs(view) => Ordered::AsIs(view.into_dim(Ix1(self.len()))),
                Ordered::Copied(array) => Ordered::Copied(array.into_shape(self.len())?),
            });
        }
        let axes = moved(last + 1, axis, last);
        let lanes = self.view().into_dyn().permuted_axes(axes)?.to_array()?;
        Ok(Ordered::Copied(lanes.into_shape(self.len())?))
    }
}

/// The array of that shape whose lanes along an axis are these, one after another.
pub(super) fn of_lanes<T: Element, D: Dimension>(
    lanes: DeviceArray<T, Ix1>,
    dim: D,
    axis: usize,
) -> Result<DeviceArray<T, D>> {
    let last = dim.ndim() - 1;
    if axis == last {
        return lanes.into_shape(dim);
    }
    let there = moved(last + 1, axis, last);
    let shape = IxDyn(&there.iter().map(|&axis| dim[axis]).collect::<Vec<_>>());
    let lanes = lanes.into_shape(shape)?;
    let array = lanes.view().permuted_axes(moved(last + 1, last, axis))?.to_array()?;
    array.into_shape(dim)
}

/// The numbers of so many axes when one of them has gone from its place to another.
fn moved(count: usize, from: usize, to: usize) -> Vec<usize> {
    let mut axes: Vec<usize> = (0..count).collect();
    let axis = axes.remove(from);
    axes.insert(to, axis);
    axes
}
