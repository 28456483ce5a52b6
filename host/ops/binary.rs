// SPDX-License-Identifier: MIT OR Apache-2.0
//! Elementwise operations on two operands.

use cuda_std::SliceMut;
use cuda_std::launch::SafeKernel;
use cuda_std::param::ByValue;
use kernels_gpu::binary::{self as kernels, THREADS, tile_len};
use kernels_gpu::op::{Add, Div, Maximum, Minimum, Mul, Sub};
use ndarray::Dimension;

use super::tiles;
use crate::array::{DeviceArray, Element};
use crate::error::Result;

/// An element type that operator `Op` is compiled for.
#[doc(hidden)]
pub trait HasBinary<Op>: Element + ByValue {
    type ArrayArray: SafeKernel<Params = (&'static [Self], &'static [Self], SliceMut<'static, Self>)>;
    type ArrayScalar: SafeKernel<Params = (&'static [Self], Self, SliceMut<'static, Self>)>;
}

impl<T: Element + ByValue, Op> HasBinary<Op> for T
where
    kernels::binary<T, Op>: SafeKernel<Params = (&'static [T], &'static [T], SliceMut<'static, T>)>,
    kernels::binary_scalar<T, Op>: SafeKernel<Params = (&'static [T], T, SliceMut<'static, T>)>,
{
    type ArrayArray = kernels::binary<T, Op>;
    type ArrayScalar = kernels::binary_scalar<T, Op>;
}

/// An element type that operator `Op` is compiled for with the scalar first.
#[doc(hidden)]
pub trait HasScalarBinary<Op>: Element + ByValue {
    type ScalarArray: SafeKernel<Params = (Self, &'static [Self], SliceMut<'static, Self>)>;
}

impl<T: Element + ByValue, Op> HasScalarBinary<Op> for T
where
    kernels::scalar_binary<T, Op>: SafeKernel<Params = (T, &'static [T], SliceMut<'static, T>)>,
{
    type ScalarArray = kernels::scalar_binary<T, Op>;
}

/// The element types of arithmetic: `f32`, `f64`, `i32`, `i64`, `u32`, `u64`.
///
/// Integers wrap around on overflow; a division by zero gives 0 for integers, and what IEEE 754 says for floats.
pub trait Arithmetic:
    HasBinary<Add>
    + HasBinary<Sub>
    + HasBinary<Mul>
    + HasBinary<Div>
    + HasBinary<Minimum>
    + HasBinary<Maximum>
    + HasScalarBinary<Sub>
    + HasScalarBinary<Div>
{
}

macro_rules! implement {
    ($($type:ty),*) => { $(impl Arithmetic for $type {})* };
}

implement!(f32, f64, i32, i64, u32, u64);

fn array_array<Op, T: HasBinary<Op>, D: Dimension>(
    operation: &'static str,
    a: &DeviceArray<T, D>,
    b: &DeviceArray<T, D>,
    out: &mut DeviceArray<T, D>,
) -> Result<()> {
    a.same_shape(operation, b)?;
    a.same_shape(operation, out)?;
    if a.is_empty() {
        return Ok(());
    }
    let config = tiles(a.len(), tile_len::<T>(), THREADS);
    a.stream().launch::<T::ArrayArray>(&config, (a, b, out))
}

fn array_scalar<Op, T: HasBinary<Op>, D: Dimension>(
    operation: &'static str,
    a: &DeviceArray<T, D>,
    b: T,
    out: &mut DeviceArray<T, D>,
) -> Result<()> {
    a.same_shape(operation, out)?;
    if a.is_empty() {
        return Ok(());
    }
    let config = tiles(a.len(), tile_len::<T>(), THREADS);
    a.stream().launch::<T::ArrayScalar>(&config, (a, b, out))
}

fn scalar_array<Op, T: HasScalarBinary<Op>, D: Dimension>(
    operation: &'static str,
    a: T,
    b: &DeviceArray<T, D>,
    out: &mut DeviceArray<T, D>,
) -> Result<()> {
    b.same_shape(operation, out)?;
    if b.is_empty() {
        return Ok(());
    }
    let config = tiles(b.len(), tile_len::<T>(), THREADS);
    b.stream().launch::<T::ScalarArray>(&config, (a, b, out))
}

/// `result = formula: operator, [with array] [into array] [with scalar] [into scalar]`
macro_rules! binary_methods {
    ($($formula:literal: $op:ty = $array:ident $array_into:ident $scalar:ident $scalar_into:ident;)*) => {$(
        #[doc = concat!("`", $formula, "`, element by element.\n\n# Errors\n\n")]
        /// [`Error::Shape`](crate::Error::Shape) if the shapes differ,
        /// [`Error::DifferentDevices`](crate::Error::DifferentDevices), and those of an allocation and a launch.
        pub fn $array(&self, other: &Self) -> Result<Self> {
            self.same_shape(stringify!($array), other)?;
            let mut out = Self::uninit(self.stream(), self.raw_dim())?;
            self.$array_into(other, &mut out)?;
            Ok(out)
        }

        #[doc = concat!("[`", stringify!($array), "`](Self::", stringify!($array), ") into an existing array.\n\n# Errors\n\n")]
        #[doc = concat!("As [`", stringify!($array), "`](Self::", stringify!($array), ").")]
        pub fn $array_into(&self, other: &Self, out: &mut Self) -> Result<()> {
            array_array::<$op, T, D>(stringify!($array), self, other, out)
        }

        #[doc = concat!("[`", stringify!($array), "`](Self::", stringify!($array), ") with one number for every element.\n\n# Errors\n\n")]
        /// Those of an allocation and a launch.
        pub fn $scalar(&self, scalar: T) -> Result<Self> {
            let mut out = Self::uninit(self.stream(), self.raw_dim())?;
            self.$scalar_into(scalar, &mut out)?;
            Ok(out)
        }

        #[doc = concat!("[`", stringify!($scalar), "`](Self::", stringify!($scalar), ") into an existing array.\n\n# Errors\n\n")]
        #[doc = concat!("As [`", stringify!($array), "`](Self::", stringify!($array), ").")]
        pub fn $scalar_into(&self, scalar: T, out: &mut Self) -> Result<()> {
            array_scalar::<$op, T, D>(stringify!($scalar), self, scalar, out)
        }
    )*};
}

/// `formula: operator = method, into`
macro_rules! scalar_first_methods {
    ($($formula:literal: $op:ty = $method:ident $into:ident;)*) => {$(
        #[doc = concat!("`", $formula, "`, element by element.\n\n# Errors\n\n")]
        /// Those of an allocation and a launch.
        pub fn $method(&self, scalar: T) -> Result<Self> {
            let mut out = Self::uninit(self.stream(), self.raw_dim())?;
            self.$into(scalar, &mut out)?;
            Ok(out)
        }

        #[doc = concat!("[`", stringify!($method), "`](Self::", stringify!($method), ") into an existing array.\n\n# Errors\n\n")]
        /// [`Error::Shape`](crate::Error::Shape) if the shapes differ, and those of a launch.
        pub fn $into(&self, scalar: T, out: &mut Self) -> Result<()> {
            scalar_array::<$op, T, D>(stringify!($method), scalar, self, out)
        }
    )*};
}

/// Arithmetic on two operands. Every element is read and written once.
impl<T: Arithmetic, D: Dimension> DeviceArray<T, D> {
    binary_methods! {
        "self + other": Add = add add_into add_scalar add_scalar_into;
        "self − other": Sub = sub sub_into sub_scalar sub_scalar_into;
        "self · other": Mul = mul mul_into mul_scalar mul_scalar_into;
        "self / other": Div = div div_into div_scalar div_scalar_into;
        "min(self, other), NaN where either is NaN": Minimum = minimum minimum_into minimum_scalar minimum_scalar_into;
        "max(self, other), NaN where either is NaN": Maximum = maximum maximum_into maximum_scalar maximum_scalar_into;
    }

    scalar_first_methods! {
        "scalar − self": Sub = scalar_sub scalar_sub_into;
        "scalar / self": Div = scalar_div scalar_div_into;
    }
}
