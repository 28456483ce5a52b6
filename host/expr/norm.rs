// SPDX-License-Identifier: MIT OR Apache-2.0
//! Euclidean norms.

use ndarray::{Axis, Dimension, RemoveAxis};

use crate::array::DeviceArray;
use crate::array_ref::DeviceArrayRef;
use crate::error::Result;
use crate::optim::Parameter;

/// Euclidean norms: the root of the sum of the squares, each by one kernel that reads every element once.
///
/// Of 16-bit floats they are computed in `f32`, and rounded once. Squares overflow where an element is above 1.8 · 10¹⁹ (`f32`,
/// and 16-bit floats) or 1.3 · 10¹⁵⁴ (`f64`): then the norm is ∞, as NumPy's.
impl<T: Parameter, D: Dimension> DeviceArrayRef<T, D> {
    /// The norm of all elements: NumPy's `linalg.norm` of a vector, and of a matrix its Frobenius norm; 0 for an empty array.
    /// Waits for the number. As a part of an expression, on the device, it is `x.expr().square().sum().sqrt()`.
    ///
    /// # Errors
    ///
    /// Those of an allocation and a launch; waits for the result, so also those of earlier kernels.
    ///
    /// # Examples
    ///
    /// ```
    /// use ndarray::{Axis, array};
    /// use warpsmith::{Device, DeviceArray};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let x = DeviceArray::from_ndarray(device.default_stream(), &array![[3.0f32, 4.0], [0.0, 12.0]])?;
    /// assert_eq!(x.norm()?, 13.0);
    /// assert_eq!(x.norm_axis(Axis(1))?.to_ndarray()?, array![5.0, 12.0]);
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "linalg.norm")]
    pub fn norm(&self) -> Result<T> {
        let norm = self.expr().cast::<T::State>().square().sum().sqrt();
        norm.cast::<T>().eval()?.get(())
    }

    /// The [`norm`](Self::norm) of each line along an axis, asynchronously.
    ///
    /// # Errors
    ///
    /// [`Error::Axes`](crate::Error::Axes) if there is no such axis; those of an allocation and a launch.
    pub fn norm_axis(&self, axis: Axis) -> Result<DeviceArray<T, D::Smaller>>
    where
        D: RemoveAxis,
    {
        let norms = self.expr().cast::<T::State>().square().sum_axis(axis).sqrt();
        norms.cast::<T>().eval()
    }
}
