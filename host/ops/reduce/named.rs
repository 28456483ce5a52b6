// SPDX-License-Identifier: MIT OR Apache-2.0
//! The reductions of the whole array that have a name.

use kernels_gpu::compiled::Number;
use kernels_gpu::op::{All, Any, ArgMax, ArgMin, Max, Mean, Min, Product, Std, Sum, Variance};
use ndarray::{Dimension, Ix0};

use super::steps::{in_steps, mean_in_steps, std_in_steps, sum_in_steps, total_in_steps, variance_in_steps};
use super::{Wants, whole, whole_into};
use crate::array_ref::DeviceArrayRef;
use crate::error::Result;

/// Reductions of the whole array. Every element is read once. A method that gives a number waits for it; its `_into`
/// form is asynchronous.
///
/// One launch: each block combines a part of the array as a tree (M. Harris, "Optimizing parallel reduction in CUDA",
/// 2007), and the last one to finish combines the blocks' values. The work is `n`, `O(log n)` of it one after another.
///
/// The error of a float sum is at most `d u Σ|x|`, to first order, where `u` is the unit roundoff and `d` the depth of
/// the tree in which the elements are combined, which grows as the logarithm of their number:
/// [`RowPlan::depth`](kernels_gpu::reduce::RowPlan::depth). The tree depends on the length alone, and of a view on how it
/// lies, so that the bits are the same on every run and every device. 16-bit floats are summed and multiplied in `f32` and
/// rounded once. A sum of nothing but −0 is +0.
impl<T: Number, D: Dimension> DeviceArrayRef<T, D> {
    /// The sum; 0 for an empty array. Of integers it is an `i64` or `u64`, whatever their size, as NumPy's, and wraps
    /// around where that overflows; of floats it has their type.
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
    /// let bytes = DeviceArray::from_ndarray(device.default_stream(), &Array2::from_elem((100, 200), 200u8))?;
    /// assert_eq!(bytes.sum()?, 4_000_000u64);
    ///
    /// let mut total = DeviceArray::zeros(device.default_stream(), ())?;
    /// x.sum_into(&mut total)?; // does not wait
    /// assert_eq!(total.to_ndarray()?.into_scalar(), 20_000);
    /// # Ok(())
    /// # }
    /// ```
    pub fn sum(&self) -> Result<T::Total> {
        whole::<Sum, T, D>("sum", self, Wants::Any, Some(sum_in_steps::<T>()))
    }

    /// [`sum`](Self::sum) into an array or view without axes, asynchronously.
    ///
    /// # Errors
    ///
    /// As [`sum`](Self::sum), but for those of earlier kernels;
    /// [`Error::DifferentDevices`](crate::Error::DifferentDevices).
    pub fn sum_into(&self, out: &mut DeviceArrayRef<T::Total, Ix0>) -> Result<()> {
        whole_into::<Sum, T, D>("sum_into", self, Wants::Any, Some(sum_in_steps::<T>()), out)
    }

    /// The product; 1 for an empty array. Its type is that of the [`sum`](Self::sum); of integers it wraps around where
    /// 64 bits overflow.
    ///
    /// A multiplication of 64 bits is four instructions. Products of integers of 8 and 16 bits are made in 32 bits as
    /// far as those have room, so that memory remains the limit.
    ///
    /// # Errors
    ///
    /// As [`sum`](Self::sum).
    #[doc(alias = "prod")]
    pub fn product(&self) -> Result<T::Total> {
        whole::<Product, T, D>("product", self, Wants::Any, total_in_steps::<Product, T>())
    }

    /// [`product`](Self::product) into an array or view without axes, asynchronously.
    ///
    /// # Errors
    ///
    /// As [`product`](Self::product), but for those of earlier kernels;
    /// [`Error::DifferentDevices`](crate::Error::DifferentDevices).
    pub fn product_into(&self, out: &mut DeviceArrayRef<T::Total, Ix0>) -> Result<()> {
        whole_into::<Product, T, D>("product_into", self, Wants::Any, total_in_steps::<Product, T>(), out)
    }

    /// The smallest element; NaN if any element is. −0 is below +0.
    ///
    /// # Errors
    ///
    /// [`Error::Empty`](crate::Error::Empty) for an empty array, and as [`sum`](Self::sum).
    pub fn min(&self) -> Result<T> {
        whole::<Min, T, D>("min", self, Wants::One, Some(in_steps::<Min, Min, T>))
    }

    /// [`min`](Self::min) into an array or view without axes, asynchronously.
    ///
    /// # Errors
    ///
    /// As [`min`](Self::min), but for those of earlier kernels;
    /// [`Error::DifferentDevices`](crate::Error::DifferentDevices).
    pub fn min_into(&self, out: &mut DeviceArrayRef<T, Ix0>) -> Result<()> {
        whole_into::<Min, T, D>("min_into", self, Wants::One, Some(in_steps::<Min, Min, T>), out)
    }

    /// The largest element; NaN if any element is. −0 is below +0.
    ///
    /// # Errors
    ///
    /// [`Error::Empty`](crate::Error::Empty) for an empty array, and as [`sum`](Self::sum).
    pub fn max(&self) -> Result<T> {
        whole::<Max, T, D>("max", self, Wants::One, Some(in_steps::<Max, Max, T>))
    }

    /// [`max`](Self::max) into an array or view without axes, asynchronously.
    ///
    /// # Errors
    ///
    /// As [`max`](Self::max), but for those of earlier kernels;
    /// [`Error::DifferentDevices`](crate::Error::DifferentDevices).
    pub fn max_into(&self, out: &mut DeviceArrayRef<T, Ix0>) -> Result<()> {
        whole_into::<Max, T, D>("max_into", self, Wants::One, Some(in_steps::<Max, Max, T>), out)
    }

    /// The arithmetic mean, summed in `f64`: an `f64` for integers, the element type for floats.
    ///
    /// # Errors
    ///
    /// [`Error::Empty`](crate::Error::Empty) for an empty array, and as [`sum`](Self::sum).
    #[doc(alias = "average")]
    pub fn mean(&self) -> Result<T::Mean> {
        whole::<Mean, T, D>("mean", self, Wants::One, Some(mean_in_steps::<T>))
    }

    /// [`mean`](Self::mean) into an array or view without axes, asynchronously.
    ///
    /// # Errors
    ///
    /// As [`mean`](Self::mean), but for those of earlier kernels;
    /// [`Error::DifferentDevices`](crate::Error::DifferentDevices).
    pub fn mean_into(&self, out: &mut DeviceArrayRef<T::Mean, Ix0>) -> Result<()> {
        whole_into::<Mean, T, D>("mean_into", self, Wants::One, Some(mean_in_steps::<T>), out)
    }

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
    #[doc(alias = "var")]
    pub fn variance(&self, ddof: usize) -> Result<T::Mean> {
        whole::<Variance, T, D>("variance", self, Wants::MoreThan(ddof), Some(variance_in_steps::<T>))
    }

    /// [`variance`](Self::variance) into an array or view without axes, asynchronously.
    ///
    /// # Errors
    ///
    /// As [`variance`](Self::variance), but for those of earlier kernels;
    /// [`Error::DifferentDevices`](crate::Error::DifferentDevices).
    pub fn variance_into(&self, ddof: usize, out: &mut DeviceArrayRef<T::Mean, Ix0>) -> Result<()> {
        whole_into::<Variance, T, D>(
            "variance_into",
            self,
            Wants::MoreThan(ddof),
            Some(variance_in_steps::<T>),
            out,
        )
    }

    /// The standard deviation: the square root of the [`variance`](Self::variance), rounded once.
    ///
    /// # Errors
    ///
    /// As [`variance`](Self::variance).
    pub fn std(&self, ddof: usize) -> Result<T::Mean> {
        whole::<Std, T, D>("std", self, Wants::MoreThan(ddof), Some(std_in_steps::<T>))
    }

    /// [`std`](Self::std) into an array or view without axes, asynchronously.
    ///
    /// # Errors
    ///
    /// As [`std`](Self::std), but for those of earlier kernels;
    /// [`Error::DifferentDevices`](crate::Error::DifferentDevices).
    pub fn std_into(&self, ddof: usize, out: &mut DeviceArrayRef<T::Mean, Ix0>) -> Result<()> {
        whole_into::<Std, T, D>("std_into", self, Wants::MoreThan(ddof), Some(std_in_steps::<T>), out)
    }

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
    pub fn argmin(&self) -> Result<u64> {
        whole::<ArgMin, T, D>("argmin", self, Wants::OneIndexed, None)
    }

    /// [`argmin`](Self::argmin) into an array or view without axes, asynchronously.
    ///
    /// # Errors
    ///
    /// As [`argmin`](Self::argmin), but for those of earlier kernels;
    /// [`Error::DifferentDevices`](crate::Error::DifferentDevices).
    pub fn argmin_into(&self, out: &mut DeviceArrayRef<u64, Ix0>) -> Result<()> {
        whole_into::<ArgMin, T, D>("argmin_into", self, Wants::OneIndexed, None, out)
    }

    /// The index, in C order, of the largest element; the rest is as for [`argmin`](Self::argmin).
    ///
    /// # Errors
    ///
    /// As [`argmin`](Self::argmin).
    pub fn argmax(&self) -> Result<u64> {
        whole::<ArgMax, T, D>("argmax", self, Wants::OneIndexed, None)
    }

    /// [`argmax`](Self::argmax) into an array or view without axes, asynchronously.
    ///
    /// # Errors
    ///
    /// As [`argmax`](Self::argmax), but for those of earlier kernels;
    /// [`Error::DifferentDevices`](crate::Error::DifferentDevices).
    pub fn argmax_into(&self, out: &mut DeviceArrayRef<u64, Ix0>) -> Result<()> {
        whole_into::<ArgMax, T, D>("argmax_into", self, Wants::OneIndexed, None, out)
    }

    /// Whether any element is not 0; NaN is not. `false` for an empty array. Reads the whole array in any case.
    ///
    /// # Errors
    ///
    /// As [`sum`](Self::sum).
    pub fn any(&self) -> Result<bool> {
        Ok(whole::<Any, T, D>("any", self, Wants::Any, Some(in_steps::<Any, Any, T>))? != 0)
    }

    /// [`any`](Self::any) into an array or view without axes, as 0 or 1, asynchronously.
    ///
    /// # Errors
    ///
    /// As [`sum_into`](Self::sum_into).
    pub fn any_into(&self, out: &mut DeviceArrayRef<u8, Ix0>) -> Result<()> {
        whole_into::<Any, T, D>("any_into", self, Wants::Any, Some(in_steps::<Any, Any, T>), out)
    }

    /// Whether no element is 0; NaN is not. `true` for an empty array. Reads the whole array in any case.
    ///
    /// # Errors
    ///
    /// As [`sum`](Self::sum).
    pub fn all(&self) -> Result<bool> {
        Ok(whole::<All, T, D>("all", self, Wants::Any, Some(in_steps::<All, All, T>))? != 0)
    }

    /// [`all`](Self::all) into an array or view without axes, as 0 or 1, asynchronously.
    ///
    /// # Errors
    ///
    /// As [`sum_into`](Self::sum_into).
    pub fn all_into(&self, out: &mut DeviceArrayRef<u8, Ix0>) -> Result<()> {
        whole_into::<All, T, D>("all_into", self, Wants::Any, Some(in_steps::<All, All, T>), out)
    }
}
