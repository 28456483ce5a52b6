// SPDX-License-Identifier: MIT OR Apache-2.0
//! The methods of [`DeviceArray`] that are reductions.

use kernels_gpu::op::{All, Any, ArgMax, ArgMin, Max, Mean, Min, Product, Std, Sum, Variance};
use ndarray::{Axis, Dimension, Ix0, IxDyn, RemoveAxis};

use super::{Reduce, Wants, axes, axes_into, axis, axis_into, whole, whole_into};
use crate::array::DeviceArray;
use crate::error::Result;

/// A method that gives a host value, and its `_into` form.
macro_rules! whole_methods {
    ($(
        $(#[$doc:meta])*
        $op:ident($($parameter:ident: $type:ty)?) = $method:ident $into:ident -> $output:ty, wants $wants:expr;
    )*) => {$(
        $(#[$doc])*
        pub fn $method(&self $(, $parameter: $type)?) -> Result<$output> {
            whole::<$op, T, D>(stringify!($method), self, $wants)
        }

        #[doc = concat!("[`", stringify!($method), "`](Self::", stringify!($method), ") into an array without axes, asynchronously.")]
        ///
        /// # Errors
        ///
        #[doc = concat!("As [`", stringify!($method), "`](Self::", stringify!($method), "), but for those of earlier kernels;")]
        /// [`Error::DifferentDevices`](crate::Error::DifferentDevices).
        pub fn $into(&self, $($parameter: $type,)? out: &mut DeviceArray<$output, Ix0>) -> Result<()> {
            whole_into::<$op, T, D>(stringify!($into), self, $wants, out)
        }
    )*};
}

/// The methods along one axis: `what: operator(parameter) = method into -> output`
macro_rules! axis_methods {
    ($($what:literal $(if $errors:literal)?: $op:ident($($parameter:ident: $type:ty)?) = $method:ident $into:ident of $whole:ident -> $output:ty, wants $wants:expr;)*) => {$(
        #[doc = concat!($what, " along an axis, as [`", stringify!($whole), "`](Self::", stringify!($whole), ") of each lane; the result has one axis less.")]
        ///
        /// # Errors
        ///
        /// [`Error::Axes`](crate::Error::Axes) if there is no such axis,
        $(#[doc = $errors])?
        /// and those of an allocation and a launch.
        pub fn $method(&self, axis: Axis $(, $parameter: $type)?) -> Result<DeviceArray<$output, D::Smaller>> {
            self::axis::<$op, T, D>(stringify!($method), self, axis, $wants)
        }

        #[doc = concat!("[`", stringify!($method), "`](Self::", stringify!($method), ") into an existing array.")]
        ///
        /// # Errors
        ///
        #[doc = concat!("As [`", stringify!($method), "`](Self::", stringify!($method), "), [`Error::Shape`](crate::Error::Shape)")]
        /// if the output has another shape, and [`Error::DifferentDevices`](crate::Error::DifferentDevices).
        pub fn $into(&self, axis: Axis, $($parameter: $type,)? out: &mut DeviceArray<$output, D::Smaller>) -> Result<()> {
            axis_into::<$op, T, D>(stringify!($into), self, axis, $wants, out)
        }
    )*};
}

/// The methods along several axes, as `axis_methods`.
macro_rules! axes_methods {
    ($($what:literal $(if $errors:literal)?: $op:ident($($parameter:ident: $type:ty)?) = $method:ident $into:ident of $whole:ident -> $output:ty, wants $wants:expr;)*) => {$(
        #[doc = concat!($what, " along several axes, as [`", stringify!($whole), "`](Self::", stringify!($whole), ") of each part; the result has the")]
        /// other axes, in their order. Along no axis, every element is a part of its own.
        ///
        /// # Errors
        ///
        /// [`Error::Axes`](crate::Error::Axes) if there is no such axis or one is named twice,
        $(#[doc = $errors])?
        /// and those of an allocation and a launch.
        pub fn $method(&self, axes: &[usize] $(, $parameter: $type)?) -> Result<DeviceArray<$output, IxDyn>> {
            self::axes::<$op, T, D>(stringify!($method), self, axes, $wants)
        }

        #[doc = concat!("[`", stringify!($method), "`](Self::", stringify!($method), ") into an existing array.")]
        ///
        /// # Errors
        ///
        #[doc = concat!("As [`", stringify!($method), "`](Self::", stringify!($method), "), [`Error::Shape`](crate::Error::Shape)")]
        /// if the output has another shape, and [`Error::DifferentDevices`](crate::Error::DifferentDevices).
        pub fn $into(&self, axes: &[usize], $($parameter: $type,)? out: &mut DeviceArray<$output, IxDyn>) -> Result<()> {
            axes_into::<$op, T, D>(stringify!($into), self, axes, $wants, out)
        }
    )*};
}

/// Reductions of the whole array. Every element is read once. A method that gives a number waits for it; its `_into`
/// form is asynchronous.
///
/// The error of a float sum is at most `d u Σ|x|`, to first order, where `u` is the unit roundoff and `d` the depth of
/// the tree in which the elements are combined, which grows as the logarithm of their number:
/// [`RowPlan::depth`](kernels_gpu::reduce::RowPlan::depth). The tree depends on the length alone, so that the bits are
/// the same on every run and every device. 16-bit floats are summed and multiplied in `f32` and rounded once. A sum of
/// nothing but −0 is +0.
impl<T: Reduce, D: Dimension> DeviceArray<T, D> {
    whole_methods! {
        /// The sum; 0 for an empty array. Integers wrap around on overflow, in their own type.
        ///
        /// # Errors
        ///
        /// Those of an allocation and a launch; waits for the result, so also those of earlier kernels.
        ///
        /// # Examples
        ///
        /// ```
        /// # use ndarray::Array2;
        /// # use warpsmith::{Device, DeviceArray};
        /// # fn main() -> warpsmith::Result<()> {
        /// let device = Device::auto()?;
        /// let x = DeviceArray::from_ndarray(device.default_stream(), &Array2::<i64>::ones((100, 200)))?;
        /// assert_eq!(x.sum()?, 20_000);
        ///
        /// let mut total = DeviceArray::zeros(device.default_stream(), ())?;
        /// x.sum_into(&mut total)?; // does not wait
        /// assert_eq!(total.to_ndarray()?.into_scalar(), 20_000);
        /// # Ok(())
        /// # }
        /// ```
        Sum() = sum sum_into -> T, wants Wants::Any;

        /// The product; 1 for an empty array. Integers wrap around on overflow, in their own type.
        ///
        /// # Errors
        ///
        /// As [`sum`](Self::sum).
        Product() = product product_into -> T, wants Wants::Any;

        /// The smallest element; NaN if any element is. −0 is below +0.
        ///
        /// # Errors
        ///
        /// [`Error::Empty`](crate::Error::Empty) for an empty array, and as [`sum`](Self::sum).
        Min() = min min_into -> T, wants Wants::One;

        /// The largest element; NaN if any element is. −0 is below +0.
        ///
        /// # Errors
        ///
        /// [`Error::Empty`](crate::Error::Empty) for an empty array, and as [`sum`](Self::sum).
        Max() = max max_into -> T, wants Wants::One;

        /// The arithmetic mean, summed in `f64`: an `f64` for integers, the element type for floats.
        ///
        /// # Errors
        ///
        /// [`Error::Empty`](crate::Error::Empty) for an empty array, and as [`sum`](Self::sum).
        Mean() = mean mean_into -> <T as kernels_gpu::op::Statistic>::Mean, wants Wants::One;

        /// The variance: the sum of the squared deviations from the mean, divided by the number of elements less `ddof`
        /// (0 for the variance of the elements, 1 for the unbiased estimate from a sample). NaN if an element is NaN or
        /// infinite.
        ///
        /// One pass, in `f64` (T. Chan, G. Golub, R. LeVeque, 1979): number, mean and squared deviations of parts are
        /// combined, so that nothing cancels where the mean is large.
        ///
        /// # Errors
        ///
        /// [`Error::Empty`](crate::Error::Empty) for an empty array, [`Error::Parameter`](crate::Error::Parameter) if
        /// there are not more than `ddof` elements, and as [`sum`](Self::sum).
        ///
        /// # Examples
        ///
        /// ```
        /// # use ndarray::array;
        /// # use warpsmith::{Device, DeviceArray};
        /// # fn main() -> warpsmith::Result<()> {
        /// let device = Device::auto()?;
        /// let x = DeviceArray::from_ndarray(device.default_stream(), &array![1i32, 2, 3, 4])?;
        /// assert_eq!(x.variance(0)?, 1.25);
        /// let unbiased: f64 = x.variance(1)?;
        /// assert!((unbiased - 5.0 / 3.0).abs() < 1e-15);
        /// # Ok(())
        /// # }
        /// ```
        Variance(ddof: usize) = variance variance_into -> <T as kernels_gpu::op::Statistic>::Mean, wants Wants::MoreThan(ddof);

        /// The standard deviation: the square root of the [`variance`](Self::variance), rounded once.
        ///
        /// # Errors
        ///
        /// As [`variance`](Self::variance).
        Std(ddof: usize) = std std_into -> <T as kernels_gpu::op::Statistic>::Mean, wants Wants::MoreThan(ddof);

        /// The index, in C order, of the smallest element: of several the first. The first NaN comes before every
        /// number, as in NumPy, and −0 and +0 are equal.
        ///
        /// # Errors
        ///
        /// [`Error::Empty`](crate::Error::Empty) for an empty array, and as [`sum`](Self::sum).
        ///
        /// # Examples
        ///
        /// ```
        /// # use ndarray::array;
        /// # use warpsmith::{Device, DeviceArray};
        /// # fn main() -> warpsmith::Result<()> {
        /// let device = Device::auto()?;
        /// let x = DeviceArray::from_ndarray(device.default_stream(), &array![[3, 1], [4, 1]])?;
        /// assert_eq!((x.argmin()?, x.argmax()?), (1, 2));
        /// # Ok(())
        /// # }
        /// ```
        ArgMin() = argmin argmin_into -> u64, wants Wants::One;

        /// The index, in C order, of the largest element; the rest is as for [`argmin`](Self::argmin).
        ///
        /// # Errors
        ///
        /// As [`argmin`](Self::argmin).
        ArgMax() = argmax argmax_into -> u64, wants Wants::One;
    }

    /// Whether any element is not 0; NaN is not. `false` for an empty array. Reads the whole array in any case.
    ///
    /// # Errors
    ///
    /// As [`sum`](Self::sum).
    pub fn any(&self) -> Result<bool> {
        Ok(whole::<Any, T, D>("any", self, Wants::Any)? != 0)
    }

    /// [`any`](Self::any) into an array without axes, as 0 or 1, asynchronously.
    ///
    /// # Errors
    ///
    /// As [`sum_into`](Self::sum_into).
    pub fn any_into(&self, out: &mut DeviceArray<u8, Ix0>) -> Result<()> {
        whole_into::<Any, T, D>("any_into", self, Wants::Any, out)
    }

    /// Whether no element is 0; NaN is not. `true` for an empty array. Reads the whole array in any case.
    ///
    /// # Errors
    ///
    /// As [`sum`](Self::sum).
    pub fn all(&self) -> Result<bool> {
        Ok(whole::<All, T, D>("all", self, Wants::Any)? != 0)
    }

    /// [`all`](Self::all) into an array without axes, as 0 or 1, asynchronously.
    ///
    /// # Errors
    ///
    /// As [`sum_into`](Self::sum_into).
    pub fn all_into(&self, out: &mut DeviceArray<u8, Ix0>) -> Result<()> {
        whole_into::<All, T, D>("all_into", self, Wants::Any, out)
    }
}

/// Reductions along one axis: one result for each lane, asynchronously. Every element is read once; as for whole
/// arrays, the bits of float results depend on the shape alone.
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
/// assert_eq!(x.sum_axis(Axis(0))?.to_ndarray()?, array![5, 7, 9]);
/// assert_eq!(x.argmax_axis(Axis(1))?.to_ndarray()?, array![2, 2]);
/// assert_eq!(x.mean_axis(Axis(1))?.to_ndarray()?, array![2.0, 5.0]);
/// # Ok(())
/// # }
/// ```
impl<T: Reduce, D: RemoveAxis> DeviceArray<T, D> {
    axis_methods! {
        "The sums": Sum() = sum_axis sum_axis_into of sum -> T, wants Wants::Any;
        "The products": Product() = product_axis product_axis_into of product -> T, wants Wants::Any;
        "The smallest elements" if "[`Error::Empty`](crate::Error::Empty) if it has length 0,":
            Min() = min_axis min_axis_into of min -> T, wants Wants::One;
        "The largest elements" if "[`Error::Empty`](crate::Error::Empty) if it has length 0,":
            Max() = max_axis max_axis_into of max -> T, wants Wants::One;
        "The means" if "[`Error::Empty`](crate::Error::Empty) if it has length 0,":
            Mean() = mean_axis mean_axis_into of mean -> <T as kernels_gpu::op::Statistic>::Mean, wants Wants::One;
        "The variances" if "[`Error::Empty`](crate::Error::Empty) if it has length 0, [`Error::Parameter`](crate::Error::Parameter) if that is not above `ddof`,":
            Variance(ddof: usize) = variance_axis variance_axis_into of variance -> <T as kernels_gpu::op::Statistic>::Mean, wants Wants::MoreThan(ddof);
        "The standard deviations" if "[`Error::Empty`](crate::Error::Empty) if it has length 0, [`Error::Parameter`](crate::Error::Parameter) if that is not above `ddof`,":
            Std(ddof: usize) = std_axis std_axis_into of std -> <T as kernels_gpu::op::Statistic>::Mean, wants Wants::MoreThan(ddof);
        "The positions of the smallest elements" if "[`Error::Empty`](crate::Error::Empty) if it has length 0,":
            ArgMin() = argmin_axis argmin_axis_into of argmin -> u64, wants Wants::One;
        "The positions of the largest elements" if "[`Error::Empty`](crate::Error::Empty) if it has length 0,":
            ArgMax() = argmax_axis argmax_axis_into of argmax -> u64, wants Wants::One;
        "Whether any element is not 0, as 0 or 1,": Any() = any_axis any_axis_into of any -> u8, wants Wants::Any;
        "Whether no element is 0, as 0 or 1,": All() = all_axis all_axis_into of all -> u8, wants Wants::Any;
    }
}

/// Reductions along several axes, asynchronously. Axes that are neighbours, or have none but axes of length 1 between
/// them, are combined as one; each further group of them costs a copy of the array on the device.
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
impl<T: Reduce, D: Dimension> DeviceArray<T, D> {
    axes_methods! {
        "The sums": Sum() = sum_axes sum_axes_into of sum -> T, wants Wants::Any;
        "The products": Product() = product_axes product_axes_into of product -> T, wants Wants::Any;
        "The smallest elements" if "[`Error::Empty`](crate::Error::Empty) if one has length 0,":
            Min() = min_axes min_axes_into of min -> T, wants Wants::One;
        "The largest elements" if "[`Error::Empty`](crate::Error::Empty) if one has length 0,":
            Max() = max_axes max_axes_into of max -> T, wants Wants::One;
        "The means" if "[`Error::Empty`](crate::Error::Empty) if one has length 0,":
            Mean() = mean_axes mean_axes_into of mean -> <T as kernels_gpu::op::Statistic>::Mean, wants Wants::One;
        "The variances" if "[`Error::Empty`](crate::Error::Empty) if one has length 0, [`Error::Parameter`](crate::Error::Parameter) if parts have no more than `ddof` elements,":
            Variance(ddof: usize) = variance_axes variance_axes_into of variance -> <T as kernels_gpu::op::Statistic>::Mean, wants Wants::MoreThan(ddof);
        "The standard deviations" if "[`Error::Empty`](crate::Error::Empty) if one has length 0, [`Error::Parameter`](crate::Error::Parameter) if parts have no more than `ddof` elements,":
            Std(ddof: usize) = std_axes std_axes_into of std -> <T as kernels_gpu::op::Statistic>::Mean, wants Wants::MoreThan(ddof);
        "Whether any element is not 0, as 0 or 1,": Any() = any_axes any_axes_into of any -> u8, wants Wants::Any;
        "Whether no element is 0, as 0 or 1,": All() = all_axes all_axes_into of all -> u8, wants Wants::Any;
    }
}
