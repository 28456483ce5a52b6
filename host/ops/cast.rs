// SPDX-License-Identifier: MIT OR Apache-2.0
//! Conversions between element types.

use cuda_std::launch::SafeKernel;
use cuda_std::{Slice, SliceMut};
use half::{bf16, f16};
use kernels_gpu::cast as kernels;
use ndarray::Dimension;

use super::map::map;
use crate::array::{DeviceArray, Element};
use crate::error::Result;

/// An element type that can be cast to `U`: any two of `f32`, `f64`, `f16`, `bf16`, `i32`, `i64`, `u8`, `u16`, `u32`
/// and `u64`, also the same.
pub trait CastTo<U: Element>: Element {
    /// The kernel of [`cast`](DeviceArray::cast).
    #[doc(hidden)]
    type Kernel: SafeKernel<Params = (Slice<'static, Self>, SliceMut<'static, U>)>;

    /// The kernel of [`cast_saturating`](DeviceArray::cast_saturating).
    #[doc(hidden)]
    type Saturating: SafeKernel<Params = (Slice<'static, Self>, SliceMut<'static, U>)>;

    /// The kernel of [`cast_wrapping`](DeviceArray::cast_wrapping).
    #[doc(hidden)]
    type Wrapping: SafeKernel<Params = (Slice<'static, Self>, SliceMut<'static, U>)>;
}

/// `from types => [to types], kernel of the saturating form, kernel of the wrapping form`
macro_rules! casts {
    ($($from:ident),* => $to:tt, $saturating:ident, $wrapping:ident) => {
        $(casts!(@from $from $to $saturating $wrapping);)*
    };
    (@from $from:ident [$($to:ident),*] $saturating:ident $wrapping:ident) => {$(
        impl CastTo<$to> for $from {
            type Kernel = kernels::cast<$from, $to>;
            type Saturating = kernels::$saturating<$from, $to>;
            type Wrapping = kernels::$wrapping<$from, $to>;
        }
    )*};
}

casts!(f32, f64, f16, bf16, i32, i64, u8, u16, u32, u64 => [f32, f64, f16, bf16], cast, cast);
casts!(f32, f64, f16, bf16 => [i32, i64, u8, u16, u32, u64], cast, cast_wrapping);
casts!(i32, i64, u16, u32, u64 => [i32, i64, u8, u16, u32, u64], cast_saturating, cast);
casts!(u8 => [i32, i64, u8, u16, u32, u64], cast, cast);

/// `description, kernel = method into`, with an example
macro_rules! cast_methods {
    ($($(#[$doc:meta])* $kernel:ident = $method:ident $into:ident;)*) => {$(
        $(#[$doc])*
        pub fn $method<U: Element>(&self) -> Result<DeviceArray<U, D>>
        where
            T: CastTo<U>,
        {
            let mut out = DeviceArray::uninit(self.stream(), self.raw_dim())?;
            self.$into(&mut out)?;
            Ok(out)
        }

        #[doc = concat!("[`", stringify!($method), "`](Self::", stringify!($method), ") into an existing array.\n\n# Errors\n\n")]
        /// [`Error::Shape`](crate::Error::Shape) if the shapes differ,
        /// [`Error::DifferentDevices`](crate::Error::DifferentDevices), and those of a launch.
        pub fn $into<U: Element>(&self, out: &mut DeviceArray<U, D>) -> Result<()>
        where
            T: CastTo<U>,
        {
            map::<T::$kernel, T, U, D>(stringify!($method), kernels::tile_len::<T, U>(), self, out)
        }
    )*};
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
impl<T: Element, D: Dimension> DeviceArray<T, D> {
    cast_methods! {
        /// The elements as another type, as Rust's `as`: integers wrap, floats round to nearest, a float becomes the
        /// nearest integer towards zero that the type has, and NaN becomes 0.
        ///
        /// A number is rounded once, also to `f16` and `bf16`.
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
        Kernel = cast cast_into;

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
        Saturating = cast_saturating cast_saturating_into;

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
        Wrapping = cast_wrapping cast_wrapping_into;
    }
}
