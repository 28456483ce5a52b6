// SPDX-License-Identifier: MIT OR Apache-2.0
//! The reductions along one axis that have a name.

use kernels_gpu::compiled::Number;
use kernels_gpu::op::{All, Any, ArgMax, ArgMin, Max, Mean, Min, Product, Std, Sum, Variance};
use ndarray::{Axis, RemoveAxis};

use super::{Wants, along_axis, along_axis_into};
use crate::array::DeviceArray;
use crate::array_ref::DeviceArrayRef;
use crate::error::Result;

/// Reductions along one axis: one result for each lane, asynchronously. Every element is read once; as for whole
/// arrays, the bits of float results depend on the shape, and of a view on how it lies.
///
/// Where the elements of a lane lie side by side, and so do the lanes, short ones, and longer ones if they are many, take a
/// warp or a part of one each, others a block or several. Otherwise neighbouring threads have neighbouring lanes. So a
/// transposed array is read along its first axis as the array is along its last. Parts of rows or columns, permuted,
/// reversed and repeated arrays are read where they lie as well; only what has more than two distances between its lanes,
/// and reversed lanes whose places are asked for, are copied first. The error of a float sum is as for whole arrays, with
/// [`RowPlan::depth`](kernels_gpu::reduce::RowPlan::depth) and
/// [`ColumnPlan::depth`](kernels_gpu::reduce::ColumnPlan::depth).
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
/// assert_eq!(x.sum_axis(Axis(0))?.to_ndarray()?, array![5i64, 7, 9]);
/// assert_eq!(x.argmax_axis(Axis(1))?.to_ndarray()?, array![2, 2]);
/// assert_eq!(x.mean_axis(Axis(1))?.to_ndarray()?, array![2.0, 5.0]);
/// # Ok(())
/// # }
/// ```
///
/// The axis is kept, with length 1, by [`insert_axis`](Self::insert_axis), which costs nothing: NumPy's `keepdims`. So the
/// results broadcast against the array, here in a softmax of each row:
///
/// ```
/// use ndarray::{Axis, array};
/// use warpsmith::{Device, DeviceArray};
///
/// # fn main() -> warpsmith::Result<()> {
/// let device = Device::auto()?;
/// let x = DeviceArray::from_ndarray(device.default_stream(), &array![[0.0, 0.0], [1000.0, 0.0]])?;
/// let mut softmax = x.sub(&x.max_axis(Axis(1))?.insert_axis(Axis(1))?)?;
/// softmax.exp_inplace()?;
/// let sums = softmax.sum_axis(Axis(1))?;
/// softmax.div_assign(&sums.insert_axis(Axis(1))?)?;
/// assert_eq!(softmax.to_ndarray()?, array![[0.5, 0.5], [1.0, 0.0]]);
/// # Ok(())
/// # }
/// ```
impl<T: Number, D: RemoveAxis> DeviceArrayRef<T, D> {
    /// The sums along an axis, as [`sum`](Self::sum) of each lane; the result has one axis less.
    ///
    /// # Errors
    ///
    /// [`Error::Axes`](crate::Error::Axes) if there is no such axis, and those of an allocation and a launch.
    pub fn sum_axis(&self, axis: Axis) -> Result<DeviceArray<T::Total, D::Smaller>> {
        along_axis::<Sum, T, D>("sum_axis", self, axis, Wants::Any)
    }

    /// [`sum_axis`](Self::sum_axis) into an existing array or view.
    ///
    /// # Errors
    ///
    /// As [`sum_axis`](Self::sum_axis), [`Error::Shape`](crate::Error::Shape) if the output has another shape, and
    /// [`Error::DifferentDevices`](crate::Error::DifferentDevices).
    pub fn sum_axis_into(&self, axis: Axis, out: &mut DeviceArrayRef<T::Total, D::Smaller>) -> Result<()> {
        along_axis_into::<Sum, T, D>("sum_axis_into", self, axis, Wants::Any, out)
    }

    /// The products along an axis, as [`product`](Self::product) of each lane; the result has one axis less.
    ///
    /// # Errors
    ///
    /// [`Error::Axes`](crate::Error::Axes) if there is no such axis, and those of an allocation and a launch.
    pub fn product_axis(&self, axis: Axis) -> Result<DeviceArray<T::Total, D::Smaller>> {
        along_axis::<Product, T, D>("product_axis", self, axis, Wants::Any)
    }

    /// [`product_axis`](Self::product_axis) into an existing array or view.
    ///
    /// # Errors
    ///
    /// As [`product_axis`](Self::product_axis), [`Error::Shape`](crate::Error::Shape) if the output has another shape,
    /// and [`Error::DifferentDevices`](crate::Error::DifferentDevices).
    pub fn product_axis_into(&self, axis: Axis, out: &mut DeviceArrayRef<T::Total, D::Smaller>) -> Result<()> {
        along_axis_into::<Product, T, D>("product_axis_into", self, axis, Wants::Any, out)
    }

    /// The smallest elements along an axis, as [`min`](Self::min) of each lane; the result has one axis less.
    ///
    /// # Errors
    ///
    /// [`Error::Axes`](crate::Error::Axes) if there is no such axis, [`Error::Empty`](crate::Error::Empty) if it has
    /// length 0, and those of an allocation and a launch.
    pub fn min_axis(&self, axis: Axis) -> Result<DeviceArray<T, D::Smaller>> {
        along_axis::<Min, T, D>("min_axis", self, axis, Wants::One)
    }

    /// [`min_axis`](Self::min_axis) into an existing array or view.
    ///
    /// # Errors
    ///
    /// As [`min_axis`](Self::min_axis), [`Error::Shape`](crate::Error::Shape) if the output has another shape, and
    /// [`Error::DifferentDevices`](crate::Error::DifferentDevices).
    pub fn min_axis_into(&self, axis: Axis, out: &mut DeviceArrayRef<T, D::Smaller>) -> Result<()> {
        along_axis_into::<Min, T, D>("min_axis_into", self, axis, Wants::One, out)
    }

    /// The largest elements along an axis, as [`max`](Self::max) of each lane; the result has one axis less.
    ///
    /// # Errors
    ///
    /// [`Error::Axes`](crate::Error::Axes) if there is no such axis, [`Error::Empty`](crate::Error::Empty) if it has
    /// length 0, and those of an allocation and a launch.
    pub fn max_axis(&self, axis: Axis) -> Result<DeviceArray<T, D::Smaller>> {
        along_axis::<Max, T, D>("max_axis", self, axis, Wants::One)
    }

    /// [`max_axis`](Self::max_axis) into an existing array or view.
    ///
    /// # Errors
    ///
    /// As [`max_axis`](Self::max_axis), [`Error::Shape`](crate::Error::Shape) if the output has another shape, and
    /// [`Error::DifferentDevices`](crate::Error::DifferentDevices).
    pub fn max_axis_into(&self, axis: Axis, out: &mut DeviceArrayRef<T, D::Smaller>) -> Result<()> {
        along_axis_into::<Max, T, D>("max_axis_into", self, axis, Wants::One, out)
    }

    /// The means along an axis, as [`mean`](Self::mean) of each lane; the result has one axis less. Along several, whose number is
    /// known at run time only: [`mean_axes`](Self::mean_axes).
    ///
    /// # Errors
    ///
    /// [`Error::Axes`](crate::Error::Axes) if there is no such axis, [`Error::Empty`](crate::Error::Empty) if it has
    /// length 0, and those of an allocation and a launch.
    pub fn mean_axis(&self, axis: Axis) -> Result<DeviceArray<T::Mean, D::Smaller>> {
        along_axis::<Mean, T, D>("mean_axis", self, axis, Wants::One)
    }

    /// [`mean_axis`](Self::mean_axis) into an existing array or view.
    ///
    /// # Errors
    ///
    /// As [`mean_axis`](Self::mean_axis), [`Error::Shape`](crate::Error::Shape) if the output has another shape, and
    /// [`Error::DifferentDevices`](crate::Error::DifferentDevices).
    pub fn mean_axis_into(&self, axis: Axis, out: &mut DeviceArrayRef<T::Mean, D::Smaller>) -> Result<()> {
        along_axis_into::<Mean, T, D>("mean_axis_into", self, axis, Wants::One, out)
    }

    /// The variances along an axis, as [`variance`](Self::variance) of each lane; the result has one axis less.
    ///
    /// # Errors
    ///
    /// [`Error::Axes`](crate::Error::Axes) if there is no such axis, [`Error::Empty`](crate::Error::Empty) if it has
    /// length 0, [`Error::Parameter`](crate::Error::Parameter) if that is not above `ddof`, and those of an allocation
    /// and a launch.
    pub fn variance_axis(&self, axis: Axis, ddof: usize) -> Result<DeviceArray<T::Mean, D::Smaller>> {
        along_axis::<Variance, T, D>("variance_axis", self, axis, Wants::MoreThan(ddof))
    }

    /// [`variance_axis`](Self::variance_axis) into an existing array or view.
    ///
    /// # Errors
    ///
    /// As [`variance_axis`](Self::variance_axis), [`Error::Shape`](crate::Error::Shape) if the output has another
    /// shape, and [`Error::DifferentDevices`](crate::Error::DifferentDevices).
    pub fn variance_axis_into(
        &self,
        axis: Axis,
        ddof: usize,
        out: &mut DeviceArrayRef<T::Mean, D::Smaller>,
    ) -> Result<()> {
        along_axis_into::<Variance, T, D>("variance_axis_into", self, axis, Wants::MoreThan(ddof), out)
    }

    /// The standard deviations along an axis, as [`std`](Self::std) of each lane; the result has one axis less.
    ///
    /// # Errors
    ///
    /// [`Error::Axes`](crate::Error::Axes) if there is no such axis, [`Error::Empty`](crate::Error::Empty) if it has
    /// length 0, [`Error::Parameter`](crate::Error::Parameter) if that is not above `ddof`, and those of an allocation
    /// and a launch.
    pub fn std_axis(&self, axis: Axis, ddof: usize) -> Result<DeviceArray<T::Mean, D::Smaller>> {
        along_axis::<Std, T, D>("std_axis", self, axis, Wants::MoreThan(ddof))
    }

    /// [`std_axis`](Self::std_axis) into an existing array or view.
    ///
    /// # Errors
    ///
    /// As [`std_axis`](Self::std_axis), [`Error::Shape`](crate::Error::Shape) if the output has another shape, and
    /// [`Error::DifferentDevices`](crate::Error::DifferentDevices).
    pub fn std_axis_into(&self, axis: Axis, ddof: usize, out: &mut DeviceArrayRef<T::Mean, D::Smaller>) -> Result<()> {
        along_axis_into::<Std, T, D>("std_axis_into", self, axis, Wants::MoreThan(ddof), out)
    }

    /// The positions of the smallest elements along an axis, as [`argmin`](Self::argmin) of each lane; the result has
    /// one axis less. For [`bincount`](Self::bincount) they are cast to `u32`, in which positions in fewer than 2^32 elements are.
    ///
    /// # Errors
    ///
    /// [`Error::Axes`](crate::Error::Axes) if there is no such axis, [`Error::Empty`](crate::Error::Empty) if it has
    /// length 0, and those of an allocation and a launch.
    ///
    /// # Examples
    ///
    /// How many points are nearest to each of three centres:
    ///
    /// ```
    /// # use ndarray::{Axis, array};
    /// # use warpsmith::{Device, DeviceArray};
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let distances = array![[0.5f32, 2.0, 9.0], [3.0, 0.1, 4.0], [0.2, 0.9, 7.0]];
    /// let distances = DeviceArray::from_ndarray(device.default_stream(), &distances)?;
    /// let nearest = distances.argmin_axis(Axis(1))?;
    /// assert_eq!(nearest.to_ndarray()?, array![0, 1, 0]);
    /// let mut points = DeviceArray::zeros(device.default_stream(), 3)?;
    /// nearest.cast::<u32>()?.bincount_into(&mut points)?;
    /// assert_eq!(points.to_ndarray()?, array![2, 1, 0]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn argmin_axis(&self, axis: Axis) -> Result<DeviceArray<u64, D::Smaller>> {
        along_axis::<ArgMin, T, D>("argmin_axis", self, axis, Wants::OneIndexed)
    }

    /// [`argmin_axis`](Self::argmin_axis) into an existing array or view.
    ///
    /// # Errors
    ///
    /// As [`argmin_axis`](Self::argmin_axis), [`Error::Shape`](crate::Error::Shape) if the output has another shape,
    /// and [`Error::DifferentDevices`](crate::Error::DifferentDevices).
    pub fn argmin_axis_into(&self, axis: Axis, out: &mut DeviceArrayRef<u64, D::Smaller>) -> Result<()> {
        along_axis_into::<ArgMin, T, D>("argmin_axis_into", self, axis, Wants::OneIndexed, out)
    }

    /// The positions of the largest elements along an axis, as [`argmax`](Self::argmax) of each lane; the result has
    /// one axis less. They are counted as those of [`argmin_axis`](Self::argmin_axis).
    ///
    /// # Errors
    ///
    /// [`Error::Axes`](crate::Error::Axes) if there is no such axis, [`Error::Empty`](crate::Error::Empty) if it has
    /// length 0, and those of an allocation and a launch.
    pub fn argmax_axis(&self, axis: Axis) -> Result<DeviceArray<u64, D::Smaller>> {
        along_axis::<ArgMax, T, D>("argmax_axis", self, axis, Wants::OneIndexed)
    }

    /// [`argmax_axis`](Self::argmax_axis) into an existing array or view.
    ///
    /// # Errors
    ///
    /// As [`argmax_axis`](Self::argmax_axis), [`Error::Shape`](crate::Error::Shape) if the output has another shape,
    /// and [`Error::DifferentDevices`](crate::Error::DifferentDevices).
    pub fn argmax_axis_into(&self, axis: Axis, out: &mut DeviceArrayRef<u64, D::Smaller>) -> Result<()> {
        along_axis_into::<ArgMax, T, D>("argmax_axis_into", self, axis, Wants::OneIndexed, out)
    }

    /// Whether any element is not 0, as 0 or 1, along an axis, as [`any`](Self::any) of each lane; the result has one
    /// axis less.
    ///
    /// # Errors
    ///
    /// [`Error::Axes`](crate::Error::Axes) if there is no such axis, and those of an allocation and a launch.
    pub fn any_axis(&self, axis: Axis) -> Result<DeviceArray<u8, D::Smaller>> {
        along_axis::<Any, T, D>("any_axis", self, axis, Wants::Any)
    }

    /// [`any_axis`](Self::any_axis) into an existing array or view.
    ///
    /// # Errors
    ///
    /// As [`any_axis`](Self::any_axis), [`Error::Shape`](crate::Error::Shape) if the output has another shape, and
    /// [`Error::DifferentDevices`](crate::Error::DifferentDevices).
    pub fn any_axis_into(&self, axis: Axis, out: &mut DeviceArrayRef<u8, D::Smaller>) -> Result<()> {
        along_axis_into::<Any, T, D>("any_axis_into", self, axis, Wants::Any, out)
    }

    /// Whether no element is 0, as 0 or 1, along an axis, as [`all`](Self::all) of each lane; the result has one axis
    /// less.
    ///
    /// # Errors
    ///
    /// [`Error::Axes`](crate::Error::Axes) if there is no such axis, and those of an allocation and a launch.
    pub fn all_axis(&self, axis: Axis) -> Result<DeviceArray<u8, D::Smaller>> {
        along_axis::<All, T, D>("all_axis", self, axis, Wants::Any)
    }

    /// [`all_axis`](Self::all_axis) into an existing array or view.
    ///
    /// # Errors
    ///
    /// As [`all_axis`](Self::all_axis), [`Error::Shape`](crate::Error::Shape) if the output has another shape, and
    /// [`Error::DifferentDevices`](crate::Error::DifferentDevices).
    pub fn all_axis_into(&self, axis: Axis, out: &mut DeviceArrayRef<u8, D::Smaller>) -> Result<()> {
        along_axis_into::<All, T, D>("all_axis_into", self, axis, Wants::Any, out)
    }
}
