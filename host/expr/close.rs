// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether arrays are nearly equal.

use ndarray::Dimension;

use super::value::Value;
use crate::array::Element;
use crate::array_ref::DeviceArrayRef;
use crate::error::Result;
use crate::ops::Real;

impl<T: Value<Element = T> + Element + Real, D: Dimension> DeviceArrayRef<T, D> {
    /// Whether all elements are equal to those of `other`, but for `absolute + relative · |other|`: NumPy's `allclose`, whose
    /// `rtol` is 1e-5 and `atol` 1e-8 unless it is told otherwise. Infinities are close to themselves, and NaN to nothing. One
    /// kernel, which computes in `f64`; this waits for it.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`](crate::Error::Shape) if the shapes differ, [`Error::DifferentDevices`](crate::Error::DifferentDevices);
    /// those of an allocation and a launch, and of earlier kernels.
    ///
    /// # Examples
    ///
    /// ```
    /// use ndarray::array;
    /// use warpsmith::{Device, DeviceArray};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let x = DeviceArray::from_ndarray(device.default_stream(), &array![1.0f32, 2.0, f32::INFINITY])?;
    /// let y = DeviceArray::from_ndarray(device.default_stream(), &array![1.0f32, 2.001, f32::INFINITY])?;
    /// assert!(x.all_close(&y, 1e-3, 0.0)?);
    /// assert!(!x.all_close(&y, 1e-4, 1e-4)?);
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias("allclose", "isclose"))]
    pub fn all_close(&self, other: &Self, relative: f64, absolute: f64) -> Result<bool> {
        self.fits("all_close", other)?;
        let (x, y) = (self.expr().cast::<f64>(), other.expr().cast::<f64>());
        let is_near = (&x - &y).abs().less_equal(y.abs() * relative + absolute) & y.is_finite();
        let are_close = (x.equal(&y) | is_near).all().eval()?;
        Ok(are_close.get(())? != 0)
    }
}
