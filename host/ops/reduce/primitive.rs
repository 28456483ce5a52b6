// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reductions by an operator that is named as a type: the library's, and those of other crates.

use kernels_gpu::compiled::Reduce;
use kernels_gpu::op::ReduceOp;
use ndarray::{Axis, Dimension, Ix0, IxDyn, RemoveAxis};

use super::{Wants, along_axes, along_axes_into, along_axis, along_axis_into, whole, whole_into};
use crate::array::{DeviceArray, Element};
use crate::array_ref::DeviceArrayRef;
use crate::error::Result;

/// Reductions by an operator ([`ReduceOp`]) that is named as a type.
///
/// [`Reduce`] says which are compiled: those of [`ops`](crate::ops) for every [`Number`](crate::ops::Number), and those
/// that a kernels crate names to [`kernels_gpu::operator_kernels!`], for elements of any type. The operator is
/// associative and commutative, up to rounding: elements are combined as a tree, and not in their order. Every element
/// is read once. Where there is none, the result is what the operator finishes its identity to.
///
/// # Examples
///
/// ```
/// use kernels_gpu::op::ReduceOp;
/// use ndarray::{Axis, array};
/// use warpsmith::ops::Max;
/// use warpsmith::{Device, DeviceArray};
///
/// /// The smallest and the largest element.
/// pub struct Range;
///
/// impl ReduceOp<i32> for Range {
///     type Acc = [i32; 2];
///     type Output = [i32; 2];
///
///     fn identity() -> [i32; 2] {
///         [i32::MAX, i32::MIN]
///     }
///
///     fn lift(x: i32, _: u64) -> [i32; 2] {
///         [x, x]
///     }
///
///     fn combine(a: [i32; 2], b: [i32; 2]) -> [i32; 2] {
///         [a[0].min(b[0]), a[1].max(b[1])]
///     }
///
///     fn finish(acc: [i32; 2], _: u64) -> [i32; 2] {
///         acc
///     }
/// }
///
/// kernels_gpu::operator_kernels!(Range: i32 => reduce);
///
/// # fn main() -> warpsmith::Result<()> {
/// let device = Device::simulator(); // on a GPU also Device::register_kernels
/// let x = DeviceArray::from_ndarray(device.default_stream(), &array![[3, 1], [4, 1], [5, 9]])?;
/// assert_eq!(x.reduce::<Max>()?, 9);
/// assert_eq!(x.reduce::<Range>()?, [1, 9]);
/// assert_eq!(x.reduce_axis::<Range>(Axis(0))?.to_ndarray()?.to_vec(), [[3, 5], [1, 9]]);
/// # Ok(())
/// # }
/// ```
impl<T: Element, D: Dimension> DeviceArrayRef<T, D> {
    /// All elements combined; waits for the result.
    ///
    /// # Errors
    ///
    /// Those of an allocation and a launch, and those of earlier kernels.
    #[doc(alias = "ReductionKernel")]
    pub fn reduce<Op: ReduceOp<T>>(&self) -> Result<Op::Output>
    where
        T: Reduce<Op>,
    {
        whole::<Op, T, D>("reduce", self, Wants::AnyIndexed, None)
    }

    /// [`reduce`](Self::reduce) into an array or view without axes, asynchronously.
    ///
    /// # Errors
    ///
    /// [`Error::DifferentDevices`](crate::Error::DifferentDevices), and those of an allocation and a launch.
    pub fn reduce_into<Op: ReduceOp<T>>(&self, out: &mut DeviceArrayRef<Op::Output, Ix0>) -> Result<()>
    where
        T: Reduce<Op>,
    {
        whole_into::<Op, T, D>("reduce_into", self, Wants::AnyIndexed, None, out)
    }

    /// The elements of each lane along an axis combined; the result has one axis less.
    ///
    /// # Errors
    ///
    /// [`Error::Axes`](crate::Error::Axes) if there is no such axis, and those of an allocation and a launch.
    pub fn reduce_axis<Op: ReduceOp<T>>(&self, axis: Axis) -> Result<DeviceArray<Op::Output, D::Smaller>>
    where
        T: Reduce<Op>,
        D: RemoveAxis,
    {
        along_axis::<Op, T, D>("reduce_axis", self, axis, Wants::AnyIndexed)
    }

    /// [`reduce_axis`](Self::reduce_axis) into an existing array or view.
    ///
    /// # Errors
    ///
    /// As [`reduce_axis`](Self::reduce_axis), [`Error::Shape`](crate::Error::Shape) if the output has another shape, and
    /// [`Error::DifferentDevices`](crate::Error::DifferentDevices).
    pub fn reduce_axis_into<Op: ReduceOp<T>>(
        &self,
        axis: Axis,
        out: &mut DeviceArrayRef<Op::Output, D::Smaller>,
    ) -> Result<()>
    where
        T: Reduce<Op>,
        D: RemoveAxis,
    {
        along_axis_into::<Op, T, D>("reduce_axis_into", self, axis, Wants::AnyIndexed, out)
    }

    /// The elements of each part along several axes combined; the result has the other axes, in their order. Along no
    /// axis, every element is a part of its own.
    ///
    /// Axes that are not neighbours, but for those of length 1, cost one copy of the array: the operator is told places, and
    /// so has the elements in C order.
    ///
    /// # Errors
    ///
    /// [`Error::Axes`](crate::Error::Axes) if there is no such axis or one is named twice, and those of an allocation
    /// and a launch.
    pub fn reduce_axes<Op: ReduceOp<T>>(&self, axes: &[usize]) -> Result<DeviceArray<Op::Output, IxDyn>>
    where
        T: Reduce<Op>,
    {
        along_axes::<Op, T, D>("reduce_axes", self, axes, Wants::AnyIndexed, None)
    }

    /// [`reduce_axes`](Self::reduce_axes) into an existing array or view.
    ///
    /// # Errors
    ///
    /// As [`reduce_axes`](Self::reduce_axes), [`Error::Shape`](crate::Error::Shape) if the output has another shape, and
    /// [`Error::DifferentDevices`](crate::Error::DifferentDevices).
    pub fn reduce_axes_into<Op: ReduceOp<T>>(
        &self,
        axes: &[usize],
        out: &mut DeviceArrayRef<Op::Output, IxDyn>,
    ) -> Result<()>
    where
        T: Reduce<Op>,
    {
        along_axes_into::<Op, T, D>("reduce_axes_into", self, axes, Wants::AnyIndexed, None, out)
    }
}
