// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reductions by kernels of the user's own.

use ndarray::{Axis, Dimension, Ix0, RemoveAxis};

use super::run::{Extent, ReduceColumns, ReduceRows, check_output, launch, launch_rows};
use super::without;
use crate::array::{DeviceArray, Element};
use crate::error::Result;
use crate::ops::KernelOf;

/// Reductions by operators that other kernel crates define ([`kernels_gpu::op::ReduceOp`]), of elements of any type.
///
/// The kernels crate has, for an operator, a kernel that calls [`kernels_gpu::reduce::reduce()`] and, for reductions
/// along axes, one that calls [`kernels_gpu::reduce::reduce_columns()`]; here they are named by their handles. The
/// operator is associative and commutative, up to rounding: elements are combined as a tree, and not in their order. An
/// empty array gives what the operator finishes its identity to.
///
/// # Examples
///
/// ```
/// use cuda_std::prelude::*;
/// use kernels_gpu::op::ReduceOp;
/// use kernels_gpu::reduce::{self, BLOCKS, ColumnPlan, RowPlan, THREADS};
/// use ndarray::{Axis, array};
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
/// #[kernel(max_threads = THREADS, min_blocks = BLOCKS)]
/// pub fn range(
///     x: &[i32],
///     plan: RowPlan,
///     partials: SliceMut<'_, [i32; 2]>,
///     counters: SliceMut<'_, u32>,
///     out: SliceMut<'_, [i32; 2]>,
/// ) {
///     reduce::reduce::<i32, Range>(x, plan, partials, counters, out);
/// }
///
/// #[kernel(max_threads = THREADS, min_blocks = BLOCKS)]
/// pub fn range_columns(
///     x: &[i32],
///     plan: ColumnPlan,
///     partials: SliceMut<'_, [i32; 2]>,
///     counters: SliceMut<'_, u32>,
///     out: SliceMut<'_, [i32; 2]>,
/// ) {
///     reduce::reduce_columns::<i32, Range>(x, plan, partials, counters, out);
/// }
///
/// # fn main() -> warpsmith::Result<()> {
/// let device = Device::simulator(); // on a GPU also Device::register_kernels
/// let x = DeviceArray::from_ndarray(device.default_stream(), &array![[3, 1], [4, 1], [5, 9]])?;
/// assert_eq!(x.reduce_with::<range>()?, [1, 9]);
/// let columns = x.reduce_axis_with::<range, range_columns>(Axis(0))?;
/// assert_eq!(columns.to_ndarray()?, array![[3, 5], [1, 9]].map_axis(Axis(1), |pair| [pair[0], pair[1]]));
/// # Ok(())
/// # }
/// ```
impl<T: Element, D: Dimension> DeviceArray<T, D> {
    /// The elements combined by kernel `R`; waits for the result.
    ///
    /// # Errors
    ///
    /// Those of an allocation and a launch, and those of earlier kernels.
    pub fn reduce_with<R: ReduceRows<T>>(&self) -> Result<<R as ReduceRows<T>>::Output> {
        let mut out = DeviceArray::uninit(self.stream(), Ix0())?;
        self.reduce_with_into::<R>(&mut out)?;
        Ok(out.to_ndarray()?.into_scalar())
    }

    /// [`reduce_with`](Self::reduce_with) into an array without axes, asynchronously.
    ///
    /// # Errors
    ///
    /// [`Error::DifferentDevices`](crate::Error::DifferentDevices), and those of an allocation and a launch.
    pub fn reduce_with_into<R: ReduceRows<T>>(
        &self,
        out: &mut DeviceArray<<R as ReduceRows<T>>::Output, Ix0>,
    ) -> Result<()> {
        check_output("reduce_with_into", self, &[], out)?;
        launch_rows::<R, _, _, _>(self, Extent::whole(self.len()), self.len() as u64, out, KernelOf::User)
    }

    /// The elements of each lane along an axis combined by kernel `R` where they lie side by side, and by `C` where
    /// they do not; the result has one axis less.
    ///
    /// # Errors
    ///
    /// [`Error::Axes`](crate::Error::Axes) if there is no such axis, and those of an allocation and a launch.
    pub fn reduce_axis_with<R, C>(&self, axis: Axis) -> Result<DeviceArray<<R as ReduceRows<T>>::Output, D::Smaller>>
    where
        D: RemoveAxis,
        R: ReduceRows<T>,
        C: ReduceColumns<T, Output = <R as ReduceRows<T>>::Output>,
    {
        let mut out = DeviceArray::uninit(self.stream(), without("reduce_axis_with", self, axis)?)?;
        self.reduce_axis_with_into::<R, C>(axis, &mut out)?;
        Ok(out)
    }

    /// [`reduce_axis_with`](Self::reduce_axis_with) into an existing array.
    ///
    /// # Errors
    ///
    /// As [`reduce_axis_with`](Self::reduce_axis_with), [`Error::Shape`](crate::Error::Shape) if the output has another
    /// shape, and [`Error::DifferentDevices`](crate::Error::DifferentDevices).
    pub fn reduce_axis_with_into<R, C>(
        &self,
        axis: Axis,
        out: &mut DeviceArray<<R as ReduceRows<T>>::Output, D::Smaller>,
    ) -> Result<()>
    where
        D: RemoveAxis,
        R: ReduceRows<T>,
        C: ReduceColumns<T, Output = <R as ReduceRows<T>>::Output>,
    {
        let dim = without("reduce_axis_with_into", self, axis)?;
        check_output("reduce_axis_with_into", self, dim.slice(), out)?;
        let extent = Extent::axis(self.shape(), axis.index());
        launch::<R, C, _, _, _, _>(self, extent, extent.length as u64, out, KernelOf::User)
    }
}
