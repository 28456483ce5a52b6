// SPDX-License-Identifier: MIT OR Apache-2.0
//! Elementwise operations on one array, in place too, and `y += α x`.

use std::cmp::Ordering;
use std::fmt::Display;

use cuda_std::launch::SafeKernel;
use cuda_std::param::ByValue;
use cuda_std::{Slice, SliceMut};
use half::{bf16, f16};
use kernels_gpu::map::{self as kernels, THREADS, float_tile_len, tile_len};
use kernels_gpu::num::Num;
use kernels_gpu::op::{Abs, Cos, Exp, Ln, Neg, Relu, Sigmoid, Sin, Sqrt, Square, Tanh};
use ndarray::Dimension;

use super::tiles;
use crate::array::{DeviceArray, Element};
use crate::error::{Error, Result};
use crate::launch::InPlace;

/// An element type that operator `Op` is compiled for.
#[doc(hidden)]
pub trait HasMap<Op>: Element {
    /// Elements that a block treats.
    const TILE: usize;

    type Kernel: SafeKernel<Params = (Slice<'static, Self>, SliceMut<'static, Self>)>;
}

impl<T: Element, Op> HasMap<Op> for T
where
    kernels::map<T, Op>: SafeKernel<Params = (Slice<'static, T>, SliceMut<'static, T>)>,
{
    const TILE: usize = tile_len::<T, T>();

    type Kernel = kernels::map<T, Op>;
}

/// A float type that operator `Op` is compiled for.
#[doc(hidden)]
pub trait HasFloatMap<Op>: Element {
    /// Elements that a block treats.
    const TILE: usize;

    type Kernel: SafeKernel<Params = (Slice<'static, Self>, SliceMut<'static, Self>)>;
}

impl<T: Element + Num, Op> HasFloatMap<Op> for T
where
    kernels::map_float<T, Op>: SafeKernel<Params = (Slice<'static, T>, SliceMut<'static, T>)>,
{
    const TILE: usize = float_tile_len::<T>();

    type Kernel = kernels::map_float<T, Op>;
}

/// An element type that the kernels with scalar parameters are compiled for.
#[doc(hidden)]
pub trait HasScalarMap: Element + ByValue {
    type Clamp: SafeKernel<Params = (Slice<'static, Self>, Self, Self, SliceMut<'static, Self>)>;
    type Axpy: SafeKernel<Params = (Self, &'static [Self], Slice<'static, Self>, SliceMut<'static, Self>)>;
}

impl<T: Element + ByValue> HasScalarMap for T
where
    kernels::clamp<T>: SafeKernel<Params = (Slice<'static, T>, T, T, SliceMut<'static, T>)>,
    kernels::axpy<T>: SafeKernel<Params = (T, &'static [T], Slice<'static, T>, SliceMut<'static, T>)>,
{
    type Clamp = kernels::clamp<T>;
    type Axpy = kernels::axpy<T>;
}

/// The element types of the functions that every number has: `f32`, `f64`, `f16`, `bf16`, `i32`, `i64`, `u8`, `u16`,
/// `u32` and `u64`.
///
/// Integers wrap around on overflow. 16-bit floats are computed in `f32` and rounded once.
pub trait Math:
    HasMap<Neg> + HasMap<Abs> + HasMap<Square> + HasMap<Relu> + HasScalarMap + PartialOrd + Display
{
}

macro_rules! implement {
    ($name:ident for $($type:ty),*) => { $(impl $name for $type {})* };
}

implement!(Math for f32, f64, f16, bf16, i32, i64, u8, u16, u32, u64);

/// The element types of the functions that only floats have: `f32`, `f64`, `f16` and `bf16`.
///
/// 16-bit floats are computed in `f32` and rounded once.
pub trait FloatMath:
    HasFloatMap<Sqrt>
    + HasFloatMap<Exp>
    + HasFloatMap<Ln>
    + HasFloatMap<Sin>
    + HasFloatMap<Cos>
    + HasFloatMap<Tanh>
    + HasFloatMap<Sigmoid>
{
}

implement!(FloatMath for f32, f64, f16, bf16);

/// `out[i] = f(x[i])`, by kernel `K`, a block of which treats `tile` elements.
pub(super) fn map<K, T: Element, U: Element, D: Dimension>(
    operation: &'static str,
    tile: usize,
    x: &DeviceArray<T, D>,
    out: &mut DeviceArray<U, D>,
) -> Result<()>
where
    K: SafeKernel<Params = (Slice<'static, T>, SliceMut<'static, U>)>,
{
    x.same_shape(operation, out)?;
    if x.is_empty() {
        return Ok(());
    }
    let config = tiles(x.len(), tile, THREADS);
    x.stream().launch::<K>(&config, (x, out))
}

/// `x[i] = f(x[i])`, by kernel `K`, a block of which treats `tile` elements.
fn map_inplace<K, T: Element, D: Dimension>(tile: usize, x: &mut DeviceArray<T, D>) -> Result<()>
where
    K: SafeKernel<Params = (Slice<'static, T>, SliceMut<'static, T>)>,
{
    if x.is_empty() {
        return Ok(());
    }
    let config = tiles(x.len(), tile, THREADS);
    let stream = x.stream().clone();
    // SAFETY: the launch takes `x` mutably beside it; the callers' kernels are those of this family, which keep the
    // contract of `Slice`.
    let input = unsafe { InPlace::of(x) };
    stream.launch::<K>(&config, (input, x))
}

/// `"description": trait<operator> = method, into, inplace;`
macro_rules! unary_methods {
    ($($formula:literal: $has:ident<$op:ty> = $method:ident $into:ident $inplace:ident;)*) => {$(
        #[doc = concat!($formula, ", element by element.\n\n# Errors\n\n")]
        /// Those of an allocation and a launch.
        pub fn $method(&self) -> Result<Self> {
            let mut out = Self::uninit(self.stream(), self.raw_dim())?;
            self.$into(&mut out)?;
            Ok(out)
        }

        #[doc = concat!("[`", stringify!($method), "`](Self::", stringify!($method), ") into an existing array.\n\n# Errors\n\n")]
        /// [`Error::Shape`](crate::Error::Shape) if the shapes differ,
        /// [`Error::DifferentDevices`](crate::Error::DifferentDevices), and those of a launch.
        pub fn $into(&self, out: &mut Self) -> Result<()> {
            map::<<T as $has<$op>>::Kernel, T, T, D>(stringify!($method), <T as $has<$op>>::TILE, self, out)
        }

        #[doc = concat!("[`", stringify!($method), "`](Self::", stringify!($method), ") of the array itself, in its own memory.\n\n# Errors\n\n")]
        /// Those of a launch.
        pub fn $inplace(&mut self) -> Result<()> {
            map_inplace::<<T as $has<$op>>::Kernel, T, D>(<T as $has<$op>>::TILE, self)
        }
    )*};
}

/// Functions of every number. Every element is read and written once.
///
/// # Examples
///
/// ```
/// use ndarray::array;
/// use warpsmith::{Device, DeviceArray};
///
/// # fn main() -> warpsmith::Result<()> {
/// let device = Device::auto()?;
/// let mut x = DeviceArray::from_ndarray(device.default_stream(), &array![1i32, -2, i32::MIN])?;
/// assert_eq!(x.abs()?.to_ndarray()?, array![1, 2, i32::MIN]);
/// x.neg_inplace()?;
/// assert_eq!(x.to_ndarray()?, array![-1, 2, i32::MIN]);
/// # Ok(())
/// # }
/// ```
impl<T: Math, D: Dimension> DeviceArray<T, D> {
    unary_methods! {
        "`−x` (for unsigned integers 2^bits − x)": HasMap<Neg> = neg neg_into neg_inplace;
        "`|x|` (the least integer, which has none, stays what it is)": HasMap<Abs> = abs abs_into abs_inplace;
        "`x²`": HasMap<Square> = square square_into square_inplace;
        "`max(x, 0)`; NaN stays NaN": HasMap<Relu> = relu relu_into relu_inplace;
    }

    /// Each element, or the limit that it is beyond: `low` for one that is less, `high` for one that is greater.
    ///
    /// As Rust's `clamp`: NaN stays NaN, and −0 is not less than 0.
    ///
    /// # Errors
    ///
    /// [`Error::Parameter`] if `low` is greater than `high` or one of them is NaN, and those of an allocation and a
    /// launch.
    ///
    /// # Examples
    ///
    /// ```
    /// use ndarray::array;
    /// use warpsmith::{Device, DeviceArray};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let x = DeviceArray::from_ndarray(device.default_stream(), &array![-3.0f32, 0.25, f32::INFINITY])?;
    /// assert_eq!(x.clamp(-1.0, 1.0)?.to_ndarray()?, array![-1.0, 0.25, 1.0]);
    /// assert!(x.clamp(1.0, -1.0).is_err());
    /// # Ok(())
    /// # }
    /// ```
    pub fn clamp(&self, low: T, high: T) -> Result<Self> {
        check_limits(low, high)?;
        let mut out = Self::uninit(self.stream(), self.raw_dim())?;
        self.clamp_into(low, high, &mut out)?;
        Ok(out)
    }

    /// [`clamp`](Self::clamp) into an existing array.
    ///
    /// # Errors
    ///
    /// As [`clamp`](Self::clamp), [`Error::Shape`] if the shapes differ, and [`Error::DifferentDevices`].
    pub fn clamp_into(&self, low: T, high: T, out: &mut Self) -> Result<()> {
        check_limits(low, high)?;
        self.same_shape("clamp", out)?;
        if self.is_empty() {
            return Ok(());
        }
        let config = tiles(self.len(), tile_len::<T, T>(), THREADS);
        self.stream().launch::<T::Clamp>(&config, (self, low, high, out))
    }

    /// [`clamp`](Self::clamp) of the array itself, in its own memory.
    ///
    /// # Errors
    ///
    /// [`Error::Parameter`] as [`clamp`](Self::clamp), and those of a launch.
    pub fn clamp_inplace(&mut self, low: T, high: T) -> Result<()> {
        check_limits(low, high)?;
        if self.is_empty() {
            return Ok(());
        }
        let config = tiles(self.len(), tile_len::<T, T>(), THREADS);
        let stream = self.stream().clone();
        // SAFETY: the launch takes the array mutably beside it; the kernel keeps the contract of `Slice`.
        let input = unsafe { InPlace::of(self) };
        stream.launch::<T::Clamp>(&config, (input, low, high, self))
    }

    /// Adds `alpha · x` to the array, element by element: BLAS's axpy, with the array as `y`.
    ///
    /// A float is computed with one fused multiply-add, so rounded once; of 16-bit floats that is one in `f32`, whose
    /// result is then rounded to 16 bits. Integers wrap.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`] if the shapes differ, [`Error::DifferentDevices`], and those of a launch.
    ///
    /// # Examples
    ///
    /// ```
    /// use ndarray::array;
    /// use warpsmith::{Device, DeviceArray};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let x = DeviceArray::from_ndarray(device.default_stream(), &array![1.0f32, 2.0, 3.0])?;
    /// let mut y = DeviceArray::from_ndarray(device.default_stream(), &array![10.0f32, 20.0, 30.0])?;
    /// y.axpy(0.5, &x)?;
    /// assert_eq!(y.to_ndarray()?, array![10.5, 21.0, 31.5]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn axpy(&mut self, alpha: T, x: &DeviceArray<T, D>) -> Result<()> {
        self.same_shape("axpy", x)?;
        if self.is_empty() {
            return Ok(());
        }
        let config = tiles(self.len(), tile_len::<T, T>(), THREADS);
        let stream = self.stream().clone();
        // SAFETY: the launch takes the array mutably beside it; the kernel keeps the contract of `Slice`.
        let y = unsafe { InPlace::of(self) };
        stream.launch::<T::Axpy>(&config, (alpha, x, y, self))
    }
}

/// Whether numbers can be limited to `low ..= high`.
fn check_limits<T: Math>(low: T, high: T) -> Result<()> {
    match low.partial_cmp(&high) {
        Some(Ordering::Less | Ordering::Equal) => Ok(()),
        _ => Err(Error::Parameter {
            operation: "clamp",
            parameter: "limits",
            given: format!("{low} to {high}"),
            wanted: "a lower limit that is at most the upper one, and no NaN".into(),
        }),
    }
}

/// Functions of floats, to the error bounds of [`cuda_std::Float`]; of 16-bit floats they are those of `f32`, rounded
/// to 16 bits. Every element is read and written once.
///
/// # Examples
///
/// ```
/// use ndarray::array;
/// use warpsmith::{Device, DeviceArray, f16};
///
/// # fn main() -> warpsmith::Result<()> {
/// let device = Device::auto()?;
/// let mut x = DeviceArray::from_ndarray(device.default_stream(), &array![4.0, 0.25].map(|&x| f16::from_f32(x)))?;
/// x.sqrt_inplace()?;
/// assert_eq!(x.to_ndarray()?, array![2.0, 0.5].map(|&x| f16::from_f32(x)));
/// # Ok(())
/// # }
/// ```
impl<T: FloatMath, D: Dimension> DeviceArray<T, D> {
    unary_methods! {
        "The square root": HasFloatMap<Sqrt> = sqrt sqrt_into sqrt_inplace;
        "`e^x`": HasFloatMap<Exp> = exp exp_into exp_inplace;
        "The natural logarithm": HasFloatMap<Ln> = ln ln_into ln_inplace;
        "The sine of an angle in radians": HasFloatMap<Sin> = sin sin_into sin_inplace;
        "The cosine of an angle in radians": HasFloatMap<Cos> = cos cos_into cos_inplace;
        "The hyperbolic tangent": HasFloatMap<Tanh> = tanh tanh_into tanh_inplace;
        "The logistic function `1 / (1 + e^−x)`": HasFloatMap<Sigmoid> = sigmoid sigmoid_into sigmoid_inplace;
    }
}

/// Functions of one's own.
impl<T: Element, D: Dimension> DeviceArray<T, D> {
    /// A function of each element, by kernel `K`. Every element is read and written once, whatever the function is made
    /// of.
    ///
    /// `K` is a kernel of the caller's kernels crate that does nothing but call
    /// [`kernels_gpu::map::map`](fn@kernels_gpu::map::map), and has its parameters.
    ///
    /// # Errors
    ///
    /// Those of an allocation and a launch.
    ///
    /// # Examples
    ///
    /// ```
    /// use cuda_std::prelude::*;
    /// use kernels_gpu::map::{self, THREADS};
    /// use kernels_gpu::op::UnaryOp;
    /// use ndarray::array;
    /// use warpsmith::{Device, DeviceArray};
    ///
    /// /// From degrees Celsius to degrees Fahrenheit.
    /// pub struct Fahrenheit;
    ///
    /// impl UnaryOp<f32> for Fahrenheit {
    ///     fn apply(celsius: f32) -> f32 {
    ///         celsius * 1.8 + 32.0
    ///     }
    /// }
    ///
    /// #[kernel(max_threads = THREADS)]
    /// pub fn fahrenheit(x: Slice<'_, f32>, out: SliceMut<'_, f32>) {
    ///     map::map::<f32, Fahrenheit>(x, out);
    /// }
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::simulator(); // on a GPU also Device::register_kernels
    /// let x = DeviceArray::from_ndarray(device.default_stream(), &array![-40.0f32, 0.0, 100.0])?;
    /// assert_eq!(x.map_with::<fahrenheit>()?.to_ndarray()?, array![-40.0, 32.0, 212.0]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn map_with<K>(&self) -> Result<Self>
    where
        K: SafeKernel<Params = (Slice<'static, T>, SliceMut<'static, T>)>,
    {
        let mut out = Self::uninit(self.stream(), self.raw_dim())?;
        self.map_with_into::<K>(&mut out)?;
        Ok(out)
    }

    /// [`map_with`](Self::map_with) into an existing array.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`] if the shapes differ, [`Error::DifferentDevices`], and those of a launch.
    pub fn map_with_into<K>(&self, out: &mut Self) -> Result<()>
    where
        K: SafeKernel<Params = (Slice<'static, T>, SliceMut<'static, T>)>,
    {
        map::<K, T, T, D>("map_with", tile_len::<T, T>(), self, out)
    }
}
