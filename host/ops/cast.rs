// SPDX-License-Identifier: MIT OR Apache-2.0
//! Conversions between element types.

use kernels_gpu::compiled::CastTo;
use ndarray::Dimension;

use crate::array::{DeviceArray, Element};
use crate::array_ref::DeviceArrayRef;
use crate::error::Result;
use crate::expr::one::{Conversion, Term};

/// `out` is `x` as another type.
fn convert<T: Element + CastTo<U>, U: Element, D: Dimension>(
    operation: &'static str,
    conversion: Conversion,
    x: &DeviceArrayRef<T, D>,
    out: &mut DeviceArrayRef<U, D>,
) -> Result<()> {
    x.fits(operation, out)?;
    let [from, to] = T::TYPES;
    Term::array_of(x, from).cast(conversion, to)?.write(x.stream(), out)
}

/// Casts. Every element is read and written once.
///
/// What a number becomes that the other type has not:
///
/// | from | to | [`cast`](Self::cast) | [`cast_saturating`](Self::cast_saturating) | [`cast_wrapping`](Self::cast_wrapping) |
/// |---|---|---|---|---|
/// | integer | integer | modulo 2^bits | the nearest | modulo 2^bits |
/// | float | integer | the nearest towards zero; NaN becomes 0 | as `cast` | rounded towards zero, modulo 2^bits; NaN and ±∞ become 0 |
/// | any | float | the nearest, ties to even; ±∞ beyond the range | as `cast` | as `cast` |
/// | `f32`, `f16`, `bf16` | `F8E4M3`, `F8E5M2` | the nearest, ties to even; ± the greatest finite number beyond the range | as `cast` | as `cast` |
///
/// 8-bit floats are cast from and to `f32`, `f16` and `bf16`, `i8` from and to `i32` and `f32`, all other types from and to one
/// another.
impl<T: Element, D: Dimension> DeviceArrayRef<T, D> {
    /// The elements as another type, as Rust's `as`: integers wrap, floats round to nearest, a float becomes the
    /// nearest integer towards zero that the type has, and NaN becomes 0.
    ///
    /// A number is rounded once, also to `f16`, `bf16` and 8-bit floats.
    ///
    /// # Errors
    ///
    /// Those of an allocation and a launch.
    ///
    /// # Examples
    ///
    /// ```
    /// use ndarray::array;
    /// use warpsmith::{Device, DeviceArray};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let x = DeviceArray::from_ndarray(device.default_stream(), &array![1.9f32, -1.9, 300.0, f32::NAN])?;
    /// assert_eq!(x.cast::<u8>()?.to_ndarray()?, array![1, 0, 255, 0]);
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "astype")]
    pub fn cast<U: Element>(&self) -> Result<DeviceArray<U, D>>
    where
        T: CastTo<U>,
    {
        DeviceArray::made(self.stream(), self.raw_dim(), &mut |out| self.cast_into(out))
    }

    /// [`cast`](Self::cast) into an existing array or view.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`](crate::Error::Shape) if the shapes differ,
    /// [`Error::DifferentDevices`](crate::Error::DifferentDevices), and those of a launch.
    pub fn cast_into<U: Element>(&self, out: &mut DeviceArrayRef<U, D>) -> Result<()>
    where
        T: CastTo<U>,
    {
        convert("cast", Conversion::Plain, self, out)
    }

    /// The elements as another type; an integer that it does not have becomes the nearest that it has. All other
    /// casts are those of [`cast`](Self::cast).
    ///
    /// # Errors
    ///
    /// Those of an allocation and a launch.
    ///
    /// # Examples
    ///
    /// ```
    /// use ndarray::array;
    /// use warpsmith::{Device, DeviceArray};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let x = DeviceArray::from_ndarray(device.default_stream(), &array![-1i32, 7, 300])?;
    /// assert_eq!(x.cast_saturating::<u8>()?.to_ndarray()?, array![0, 7, 255]);
    /// assert_eq!(x.cast::<u8>()?.to_ndarray()?, array![255, 7, 44]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn cast_saturating<U: Element>(&self) -> Result<DeviceArray<U, D>>
    where
        T: CastTo<U>,
    {
        DeviceArray::made(self.stream(), self.raw_dim(), &mut |out| self.cast_saturating_into(out))
    }

    /// [`cast_saturating`](Self::cast_saturating) into an existing array or view.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`](crate::Error::Shape) if the shapes differ,
    /// [`Error::DifferentDevices`](crate::Error::DifferentDevices), and those of a launch.
    pub fn cast_saturating_into<U: Element>(&self, out: &mut DeviceArrayRef<U, D>) -> Result<()>
    where
        T: CastTo<U>,
    {
        convert("cast_saturating", Conversion::Saturating, self, out)
    }

    /// The elements as another type; a float that becomes an integer is rounded towards zero and taken modulo
    /// 2^bits, and NaN and ±∞ become 0. All other casts are those of [`cast`](Self::cast).
    ///
    /// # Errors
    ///
    /// Those of an allocation and a launch.
    ///
    /// # Examples
    ///
    /// ```
    /// use ndarray::array;
    /// use warpsmith::{Device, DeviceArray};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let x = DeviceArray::from_ndarray(device.default_stream(), &array![1.9f32, -1.9, 300.0, f32::INFINITY])?;
    /// assert_eq!(x.cast_wrapping::<u8>()?.to_ndarray()?, array![1, 255, 44, 0]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn cast_wrapping<U: Element>(&self) -> Result<DeviceArray<U, D>>
    where
        T: CastTo<U>,
    {
        DeviceArray::made(self.stream(), self.raw_dim(), &mut |out| self.cast_wrapping_into(out))
    }

    /// [`cast_wrapping`](Self::cast_wrapping) into an existing array or view.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`](crate::Error::Shape) if the shapes differ,
    /// [`Error::DifferentDevices`](crate::Error::DifferentDevices), and those of a launch.
    pub fn cast_wrapping_into<U: Element>(&self, out: &mut DeviceArrayRef<U, D>) -> Result<()>
    where
        T: CastTo<U>,
    {
        convert("cast_wrapping", Conversion::Wrapping, self, out)
    }
}
