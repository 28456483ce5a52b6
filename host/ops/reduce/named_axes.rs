// SPDX-License-Identifier: MIT OR Apache-2.0
//! The reductions along several axes that have a name.

use kernels_gpu::compiled::Number;
use kernels_gpu::op::{All, Any, Max, Mean, Min, Product, Std, Sum, Variance};
use ndarray::{Dimension, IxDyn};

use super::steps::{in_steps, mean_in_steps, std_in_steps, sum_in_steps, total_in_steps, variance_in_steps};
use super::{Wants, along_axes, along_axes_into};
use crate::array::DeviceArray;
use crate::array_ref::DeviceArrayRef;
use crate::error::Result;

/// Reductions along several axes, asynchronously. Axes that are neighbours, or have none but axes of length 1 between
/// them, are combined as one. Several groups of them are combined without a copy of the array: along the longest first,
/// and then along the others, by which no float is rounded more than once (but the error bound of a float sum is that of all
/// depths together). Products of 16-bit floats cost one copy of the array on the device there.
///
/// # Examples
///
/// ```
/// use ndarray::{Array3, array};
/// use warpsmith::{Device, DeviceArray};
///
/// # fn main() -> warpsmith::Result<()> {
/// let device = Device::auto()?;
/// let x = DeviceArray::from_ndarray(device.default_stream(), &Array3::<f32>::ones((4, 3, 5)))?;
/// assert_eq!(x.sum_axes(&[0, 2])?.to_ndarray()?, array![20.0, 20.0, 20.0].into_dyn());
/// # Ok(())
/// # }
/// ```
///
/// The axes are kept, with length 1, by [`insert_axis`](Self::insert_axis), from the first on (NumPy's `keepdims`):
///
/// ```
/// use ndarray::{Array3, Axis};
/// use warpsmith::{Device, DeviceArray};
///
/// # fn main() -> warpsmith::Result<()> {
/// let device = Device::auto()?;
/// let x = DeviceArray::from_ndarray(device.default_stream(), &Array3::<f32>::ones((4, 3, 5)))?;
/// let means = x.mean_axes(&[0, 2])?;
/// let means = means.insert_axis(Axis(0))?.insert_axis(Axis(2))?;
/// assert_eq!(means.shape(), [1, 3, 1]);
/// assert_eq!(x.sub(&means)?.any()?, false);
/// # Ok(())
/// # }
/// ```
impl<T: Number, D: Dimension> DeviceArrayRef<T, D> {
    /// The sums along several axes, as [`sum`](Self::sum) of each part; the result has the other axes, in their order.
    /// Along no axis, every element is a part of its own.
    ///
    /// # Errors
    ///
    /// [`Error::Axes`](crate::Error::Axes) if there is no such axis or one is named twice, and those of an allocation
    /// and a launch.
    pub fn sum_axes(&self, axes: &[usize]) -> Result<DeviceArray<T::Total, IxDyn>> {
        along_axes::<Sum, T, D>("sum_axes", self, axes, Wants::Any, Some(sum_in_steps::<T>()))
    }

    /// [`sum_axes`](Self::sum_axes) into an existing array or view.
    ///
    /// # Errors
    ///
    /// As [`sum_axes`](Self::sum_axes), [`Error::Shape`](crate::Error::Shape) if the output has another shape, and
    /// [`Error::DifferentDevices`](crate::Error::DifferentDevices).
    pub fn sum_axes_into(&self, axes: &[usize], out: &mut DeviceArrayRef<T::Total, IxDyn>) -> Result<()> {
        along_axes_into::<Sum, T, D>("sum_axes_into", self, axes, Wants::Any, Some(sum_in_steps::<T>()), out)
    }

    /// The products along several axes, as [`product`](Self::product) of each part; the result has the other axes, in
    /// their order. Along no axis, every element is a part of its own.
    ///
    /// # Errors
    ///
    /// [`Error::Axes`](crate::Error::Axes) if there is no such axis or one is named twice, and those of an allocation
    /// and a launch.
    pub fn product_axes(&self, axes: &[usize]) -> Result<DeviceArray<T::Total, IxDyn>> {
        along_axes::<Product, T, D>("product_axes", self, axes, Wants::Any, total_in_steps::<Product, T>())
    }

    /// [`product_axes`](Self::product_axes) into an existing array or view.
    ///
    /// # Errors
    ///
    /// As [`product_axes`](Self::product_axes), [`Error::Shape`](crate::Error::Shape) if the output has another shape,
    /// and [`Error::DifferentDevices`](crate::Error::DifferentDevices).
    pub fn product_axes_into(&self, axes: &[usize], out: &mut DeviceArrayRef<T::Total, IxDyn>) -> Result<()> {
        along_axes_into::<Product, T, D>(
            "product_axes_into",
            self,
            axes,
            Wants::Any,
            total_in_steps::<Product, T>(),
            out,
        )
    }

    /// The smallest elements along several axes, as [`min`](Self::min) of each part; the result has the other axes, in
    /// their order. Along no axis, every element is a part of its own.
    ///
    /// # Errors
    ///
    /// [`Error::Axes`](crate::Error::Axes) if there is no such axis or one is named twice,
    /// [`Error::Empty`](crate::Error::Empty) if one has length 0, and those of an allocation and a launch.
    pub fn min_axes(&self, axes: &[usize]) -> Result<DeviceArray<T, IxDyn>> {
        along_axes::<Min, T, D>("min_axes", self, axes, Wants::One, Some(in_steps::<Min, Min, T>))
    }

    /// [`min_axes`](Self::min_axes) into an existing array or view.
    ///
    /// # Errors
    ///
    /// As [`min_axes`](Self::min_axes), [`Error::Shape`](crate::Error::Shape) if the output has another shape, and
    /// [`Error::DifferentDevices`](crate::Error::DifferentDevices).
    pub fn min_axes_into(&self, axes: &[usize], out: &mut DeviceArrayRef<T, IxDyn>) -> Result<()> {
        along_axes_into::<Min, T, D>(
            "min_axes_into",
            self,
            axes,
            Wants::One,
            Some(in_steps::<Min, Min, T>),
            out,
        )
    }

    /// The largest elements along several axes, as [`max`](Self::max) of each part; the result has the other axes, in
    /// their order. Along no axis, every element is a part of its own.
    ///
    /// # Errors
    ///
    /// [`Error::Axes`](crate::Error::Axes) if there is no such axis or one is named twice,
    /// [`Error::Empty`](crate::Error::Empty) if one has length 0, and those of an allocation and a launch.
    pub fn max_axes(&self, axes: &[usize]) -> Result<DeviceArray<T, IxDyn>> {
        along_axes::<Max, T, D>("max_axes", self, axes, Wants::One, Some(in_steps::<Max, Max, T>))
    }

    /// [`max_axes`](Self::max_axes) into an existing array or view.
    ///
    /// # Errors
    ///
    /// As [`max_axes`](Self::max_axes), [`Error::Shape`](crate::Error::Shape) if the output has another shape, and
    /// [`Error::DifferentDevices`](crate::Error::DifferentDevices).
    pub fn max_axes_into(&self, axes: &[usize], out: &mut DeviceArrayRef<T, IxDyn>) -> Result<()> {
        along_axes_into::<Max, T, D>(
            "max_axes_into",
            self,
            axes,
            Wants::One,
            Some(in_steps::<Max, Max, T>),
            out,
        )
    }

    /// The means along several axes, as [`mean`](Self::mean) of each part; the result has the other axes, in their
    /// order. Along no axis, every element is a part of its own.
    ///
    /// # Errors
    ///
    /// [`Error::Axes`](crate::Error::Axes) if there is no such axis or one is named twice,
    /// [`Error::Empty`](crate::Error::Empty) if one has length 0, and those of an allocation and a launch.
    pub fn mean_axes(&self, axes: &[usize]) -> Result<DeviceArray<T::Mean, IxDyn>> {
        along_axes::<Mean, T, D>("mean_axes", self, axes, Wants::One, Some(mean_in_steps::<T>))
    }

    /// [`mean_axes`](Self::mean_axes) into an existing array or view.
    ///
    /// # Errors
    ///
    /// As [`mean_axes`](Self::mean_axes), [`Error::Shape`](crate::Error::Shape) if the output has another shape, and
    /// [`Error::DifferentDevices`](crate::Error::DifferentDevices).
    pub fn mean_axes_into(&self, axes: &[usize], out: &mut DeviceArrayRef<T::Mean, IxDyn>) -> Result<()> {
        along_axes_into::<Mean, T, D>("mean_axes_into", self, axes, Wants::One, Some(mean_in_steps::<T>), out)
    }

    /// The variances along several axes, as [`variance`](Self::variance) of each part; the result has the other axes,
    /// in their order. Along no axis, every element is a part of its own.
    ///
    /// # Errors
    ///
    /// [`Error::Axes`](crate::Error::Axes) if there is no such axis or one is named twice,
    /// [`Error::Empty`](crate::Error::Empty) if one has length 0, [`Error::Parameter`](crate::Error::Parameter) if
    /// parts have no more than `ddof` elements, and those of an allocation and a launch.
    pub fn variance_axes(&self, axes: &[usize], ddof: usize) -> Result<DeviceArray<T::Mean, IxDyn>> {
        along_axes::<Variance, T, D>(
            "variance_axes",
            self,
            axes,
            Wants::MoreThan(ddof),
            Some(variance_in_steps::<T>),
        )
    }

    /// [`variance_axes`](Self::variance_axes) into an existing array or view.
    ///
    /// # Errors
    ///
    /// As [`variance_axes`](Self::variance_axes), [`Error::Shape`](crate::Error::Shape) if the output has another
    /// shape, and [`Error::DifferentDevices`](crate::Error::DifferentDevices).
    pub fn variance_axes_into(
        &self,
        axes: &[usize],
        ddof: usize,
        out: &mut DeviceArrayRef<T::Mean, IxDyn>,
    ) -> Result<()> {
        along_axes_into::<Variance, T, D>(
            "variance_axes_into",
            self,
            axes,
            Wants::MoreThan(ddof),
            Some(variance_in_steps::<T>),
            out,
        )
    }

    /// The standard deviations along several axes, as [`std`](Self::std) of each part; the result has the other axes,
    /// in their order. Along no axis, every element is a part of its own.
    ///
    /// # Errors
    ///
    /// [`Error::Axes`](crate::Error::Axes) if there is no such axis or one is named twice,
    /// [`Error::Empty`](crate::Error::Empty) if one has length 0, [`Error::Parameter`](crate::Error::Parameter) if
    /// parts have no more than `ddof` elements, and those of an allocation and a launch.
    pub fn std_axes(&self, axes: &[usize], ddof: usize) -> Result<DeviceArray<T::Mean, IxDyn>> {
        along_axes::<Std, T, D>("std_axes", self, axes, Wants::MoreThan(ddof), Some(std_in_steps::<T>))
    }

    /// [`std_axes`](Self::std_axes) into an existing array or view.
    ///
    /// # Errors
    ///
    /// As [`std_axes`](Self::std_axes), [`Error::Shape`](crate::Error::Shape) if the output has another shape, and
    /// [`Error::DifferentDevices`](crate::Error::DifferentDevices).
    pub fn std_axes_into(&self, axes: &[usize], ddof: usize, out: &mut DeviceArrayRef<T::Mean, IxDyn>) -> Result<()> {
        along_axes_into::<Std, T, D>(
            "std_axes_into",
            self,
            axes,
            Wants::MoreThan(ddof),
            Some(std_in_steps::<T>),
            out,
        )
    }

    /// Whether any element is not 0, as 0 or 1, along several axes, as [`any`](Self::any) of each part; the result has
    /// the other axes, in their order. Along no axis, every element is a part of its own.
    ///
    /// # Errors
    ///
    /// [`Error::Axes`](crate::Error::Axes) if there is no such axis or one is named twice, and those of an allocation
    /// and a launch.
    pub fn any_axes(&self, axes: &[usize]) -> Result<DeviceArray<u8, IxDyn>> {
        along_axes::<Any, T, D>("any_axes", self, axes, Wants::Any, Some(in_steps::<Any, Any, T>))
    }

    /// [`any_axes`](Self::any_axes) into an existing array or view.
    ///
    /// # Errors
    ///
    /// As [`any_axes`](Self::any_axes), [`Error::Shape`](crate::Error::Shape) if the output has another shape, and
    /// [`Error::DifferentDevices`](crate::Error::DifferentDevices).
    pub fn any_axes_into(&self, axes: &[usize], out: &mut DeviceArrayRef<u8, IxDyn>) -> Result<()> {
        along_axes_into::<Any, T, D>(
            "any_axes_into",
            self,
            axes,
            Wants::Any,
            Some(in_steps::<Any, Any, T>),
            out,
        )
    }

    /// Whether no element is 0, as 0 or 1, along several axes, as [`all`](Self::all) of each part; the result has the
    /// other axes, in their order. Along no axis, every element is a part of its own.
    ///
    /// # Errors
    ///
    /// [`Error::Axes`](crate::Error::Axes) if there is no such axis or one is named twice, and those of an allocation
    /// and a launch.
    pub fn all_axes(&self, axes: &[usize]) -> Result<DeviceArray<u8, IxDyn>> {
        along_axes::<All, T, D>("all_axes", self, axes, Wants::Any, Some(in_steps::<All, All, T>))
    }

    /// [`all_axes`](Self::all_axes) into an existing array or view.
    ///
    /// # Errors
    ///
    /// As [`all_axes`](Self::all_axes), [`Error::Shape`](crate::Error::Shape) if the output has another shape, and
    /// [`Error::DifferentDevices`](crate::Error::DifferentDevices).
    pub fn all_axes_into(&self, axes: &[usize], out: &mut DeviceArrayRef<u8, IxDyn>) -> Result<()> {
        along_axes_into::<All, T, D>(
            "all_axes_into",
            self,
            axes,
            Wants::Any,
            Some(in_steps::<All, All, T>),
            out,
        )
    }
}
