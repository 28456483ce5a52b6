// SPDX-License-Identifier: MIT OR Apache-2.0
//! Elementwise operations on one array.

use cuda_std::SliceMut;
use cuda_std::launch::SafeKernel;
use kernels_gpu::map::{self as kernels, THREADS, tile_len};
use kernels_gpu::op::{Abs, Cos, Exp, Ln, Neg, Relu, Sigmoid, Sin, Sqrt, Square, Tanh};
use ndarray::Dimension;

use super::tiles;
use crate::array::{DeviceArray, Element};
use crate::error::Result;

/// An element type that operator `Op` is compiled for.
#[doc(hidden)]
pub trait HasMap<Op>: Element {
    type Kernel: SafeKernel<Params = (&'static [Self], SliceMut<'static, Self>)>;
}

impl<T: Element, Op> HasMap<Op> for T
where
    kernels::map<T, Op>: SafeKernel<Params = (&'static [T], SliceMut<'static, T>)>,
{
    type Kernel = kernels::map<T, Op>;
}

/// A float type that operator `Op` is compiled for.
#[doc(hidden)]
pub trait HasFloatMap<Op>: Element {
    type Kernel: SafeKernel<Params = (&'static [Self], SliceMut<'static, Self>)>;
}

impl<T: Element, Op> HasFloatMap<Op> for T
where
    kernels::map_float<T, Op>: SafeKernel<Params = (&'static [T], SliceMut<'static, T>)>,
{
    type Kernel = kernels::map_float<T, Op>;
}

/// An element type that can be cast to `U`: any two of `f32`, `f64`, `i32`, `i64`, `u32`, `u64`.
pub trait CastTo<U: Element>: Element {
    /// The kernel.
    #[doc(hidden)]
    type Kernel: SafeKernel<Params = (&'static [Self], SliceMut<'static, U>)>;
}

impl<T: Element, U: Element> CastTo<U> for T
where
    kernels::cast<T, U>: SafeKernel<Params = (&'static [T], SliceMut<'static, U>)>,
{
    type Kernel = kernels::cast<T, U>;
}

/// The element types of the functions that every number has: `f32`, `f64`, `i32`, `i64`, `u32`, `u64`.
pub trait Math: HasMap<Neg> + HasMap<Abs> + HasMap<Square> + HasMap<Relu> {}

macro_rules! implement {
    ($name:ident for $($type:ty),*) => { $(impl $name for $type {})* };
}

implement!(Math for f32, f64, i32, i64, u32, u64);

/// The element types of the functions that only floats have: `f32`, `f64`.
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

implement!(FloatMath for f32, f64);

fn map<K, T: Element, U: Element, D: Dimension>(
    operation: &'static str,
    x: &DeviceArray<T, D>,
    out: &mut DeviceArray<U, D>,
) -> Result<()>
where
    K: SafeKernel<Params = (&'static [T], SliceMut<'static, U>)>,
{
    x.same_shape(operation, out)?;
    if x.is_empty() {
        return Ok(());
    }
    let config = tiles(x.len(), tile_len::<T, U>(), THREADS);
    x.stream().launch::<K>(&config, (x, out))
}

/// `"description": trait<operator> = method, into;`
macro_rules! unary_methods {
    ($($formula:literal: $has:ident<$op:ty> = $method:ident $into:ident;)*) => {$(
        #[doc = concat!($formula, ", element by element.\n\n# Errors\n\n")]
        /// Those of an allocation and a launch.
        pub fn $method(&self) -> Result<Self> {
            let mut out = Self::uninit(self.stream(), self.raw_dim())?;
            self.$into(&mut out)?;
            Ok(out)
        }

        #[doc = concat!("[`", stringify!($method), "`](Self::", stringify!($method), ") into an existing array.\n\n# Errors\n\n")]
        /// [`Error::Shape`](crate::Error::Shape) if the shapes differ, and those of a launch.
        pub fn $into(&self, out: &mut Self) -> Result<()> {
            map::<<T as $has<$op>>::Kernel, T, T, D>(stringify!($method), self, out)
        }
    )*};
}

/// Functions of every number. Every element is read and written once.
impl<T: Math, D: Dimension> DeviceArray<T, D> {
    unary_methods! {
        "`−x` (for unsigned integers 2^bits − x)": HasMap<Neg> = neg neg_into;
        "`|x|` (the least integer, which has none, stays what it is)": HasMap<Abs> = abs abs_into;
        "`x²`": HasMap<Square> = square square_into;
        "`max(x, 0)`": HasMap<Relu> = relu relu_into;
    }
}

/// Functions of floats, to the error bounds of [`cuda_std::Float`]. Every element is read and written once.
impl<T: FloatMath, D: Dimension> DeviceArray<T, D> {
    unary_methods! {
        "The square root": HasFloatMap<Sqrt> = sqrt sqrt_into;
        "`e^x`": HasFloatMap<Exp> = exp exp_into;
        "The natural logarithm": HasFloatMap<Ln> = ln ln_into;
        "The sine of an angle in radians": HasFloatMap<Sin> = sin sin_into;
        "The cosine of an angle in radians": HasFloatMap<Cos> = cos cos_into;
        "The hyperbolic tangent": HasFloatMap<Tanh> = tanh tanh_into;
        "The logistic function `1 / (1 + e^−x)`": HasFloatMap<Sigmoid> = sigmoid sigmoid_into;
    }
}

/// Casts. Every element is read and written once.
impl<T: Element, D: Dimension> DeviceArray<T, D> {
    /// The elements as another type, as Rust's `as`: integers wrap, floats round to nearest, a float becomes the nearest
    /// integer towards zero that the type has, and NaN becomes 0.
    ///
    /// # Errors
    ///
    /// Those of an allocation and a launch.
    pub fn cast<U: Element>(&self) -> Result<DeviceArray<U, D>>
    where
        T: CastTo<U>,
    {
        let mut out = DeviceArray::uninit(self.stream(), self.raw_dim())?;
        self.cast_into(&mut out)?;
        Ok(out)
    }

    /// [`cast`](Self::cast) into an existing array.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`](crate::Error::Shape) if the shapes differ, and those of a launch.
    pub fn cast_into<U: Element>(&self, out: &mut DeviceArray<U, D>) -> Result<()>
    where
        T: CastTo<U>,
    {
        map::<T::Kernel, T, U, D>("cast", self, out)
    }
}
