// SPDX-License-Identifier: MIT OR Apache-2.0
//! Elementwise operations on two operands.

use kernels_gpu::binary::{THREADS, tile_len};
use kernels_gpu::compiled::{Binary, Number, ScalarFirst};
use kernels_gpu::op::{Add, Div, Maximum, Minimum, Mul, Pow, Sub};
use ndarray::{DimMax, Dimension};

use super::broadcast::{Common, check_out, common, is_dense, two_operand_methods};
use super::tiles;
use crate::array::{DeviceArray, Element};
use crate::array_ref::DeviceArrayRef;
use crate::error::Result;
use crate::expr::one::Term;

/// Two arrays that fit the shape of `out`.
fn array_array<Op, T: Element + Binary<Op>, D: Dimension, E: Dimension, F: Dimension>(
    a: &DeviceArrayRef<T, D>,
    b: &DeviceArrayRef<T, E>,
    out: &mut DeviceArrayRef<T, F>,
) -> Result<()> {
    if out.is_empty() {
        return Ok(());
    }
    if !is_dense(a, out) || !is_dense(b, out) {
        return Term::binary(T::OPERATOR, Term::array(a), Term::array(b))?.write(a.stream(), out);
    }
    let config = tiles(out.len(), tile_len::<T>(), THREADS);
    out.write_in_order(a.stream(), &mut |out| {
        a.stream().launch::<T::ArrayArray>(&config, (a, b, out))
    })
}

/// An array of the shape of `out`, and one number.
fn array_scalar<Op, T: Element + Binary<Op>, D: Dimension>(
    a: &DeviceArrayRef<T, D>,
    b: T,
    out: &mut DeviceArrayRef<T, D>,
) -> Result<()> {
    Term::binary(T::OPERATOR, Term::array(a), Term::number(b))?.write(a.stream(), out)
}

/// One number, and an array of the shape of `out`.
fn scalar_array<Op, T: Element + ScalarFirst<Op>, D: Dimension>(
    a: T,
    b: &DeviceArrayRef<T, D>,
    out: &mut DeviceArrayRef<T, D>,
) -> Result<()> {
    Term::binary(T::OPERATOR, Term::number(a), Term::array(b))?.write(b.stream(), out)
}

/// Operations on two operands that are named as a type: those of [`ops`](crate::ops).
///
/// # Examples
///
/// ```
/// use ndarray::array;
/// use warpsmith::ops::Maximum;
/// use warpsmith::{Device, DeviceArray};
///
/// # fn main() -> warpsmith::Result<()> {
/// let device = Device::auto()?;
/// let x = DeviceArray::from_ndarray(device.default_stream(), &array![[1, 5], [7, 2]])?;
/// let row = DeviceArray::from_ndarray(device.default_stream(), &array![3, 3])?;
/// assert_eq!(x.binary::<Maximum, _>(&row)?.to_ndarray()?, array![[3, 5], [7, 3]]);
/// # Ok(())
/// # }
/// ```
impl<T: Element, D: Dimension> DeviceArrayRef<T, D> {
    /// `Op` of each element and that of `other`, broadcast as in NumPy.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`](crate::Error::Shape) if the shapes do not broadcast together,
    /// [`Error::DifferentDevices`](crate::Error::DifferentDevices), and those of an allocation and a launch.
    pub fn binary<Op, E: Dimension>(&self, other: &DeviceArrayRef<T, E>) -> Result<DeviceArray<T, Common<D, E>>>
    where
        T: Binary<Op>,
        D: DimMax<E>,
    {
        let (a, b) = (self, other);
        DeviceArray::made(a.stream(), common("binary", a, b)?, &mut |out| {
            array_array::<Op, _, _, _, _>(a, b, out)
        })
    }

    /// [`binary`](Self::binary) into an existing array or view, which has the shape of the result.
    ///
    /// # Errors
    ///
    /// As [`binary`](Self::binary).
    pub fn binary_into<Op, E: Dimension>(
        &self,
        other: &DeviceArrayRef<T, E>,
        out: &mut DeviceArrayRef<T, Common<D, E>>,
    ) -> Result<()>
    where
        T: Binary<Op>,
        D: DimMax<E>,
    {
        let (a, b) = (self, other);
        check_out("binary", a.stream(), common("binary", a, b)?.slice(), out)?;
        array_array::<Op, _, _, _, _>(a, b, out)
    }
}

/// The methods with the number first, a line for each operation: `formula: operator => method, into`.
macro_rules! scalar_first_methods {
    ($($formula:literal: $op:ident => $method:ident $into:ident;)*) => {$(
        #[doc = concat!("`", $formula, "`, element by element.\n\n# Errors\n\n")]
        /// Those of an allocation and a launch.
        pub fn $method(&self, scalar: T) -> Result<DeviceArray<T, D>> {
            DeviceArray::made(self.stream(), self.raw_dim(), &mut |out| scalar_array::<$op, _, _>(scalar, self, out))
        }

        #[doc = concat!("[`", stringify!($method), "`](Self::", stringify!($method), ") into existing elements of the \
                         same shape.\n\n# Errors\n\n")]
        /// [`Error::Shape`](crate::Error::Shape) if the shapes differ, and those of a launch.
        pub fn $into(&self, scalar: T, out: &mut DeviceArrayRef<T, D>) -> Result<()> {
            check_out(stringify!($method), self.stream(), self.shape(), out)?;
            scalar_array::<$op, _, _>(scalar, self, out)
        }
    )*};
}

/// Arithmetic on two operands. Every element is read and written once, so that `3 n` elements are moved, and `2 n`
/// with a number; a repeated operand's own elements are read from memory once, their repetitions from the cache.
///
/// Floats are exact operations of IEEE 754, those of 16 bits computed in `f32` and rounded once. Integers wrap around
/// on overflow, and a division by zero gives 0, as in NumPy.
///
/// Arrays of different shapes are broadcast by NumPy's rules, as in ndarray's `&a + &b`: the axes are matched from
/// the last, and one of length 1, or missing, is repeated. Operands that lie in memory as the result does are read
/// in the widest accesses; repeated and permuted ones where they lie, without a copy.
impl<T: Number, D: Dimension> DeviceArrayRef<T, D> {
    two_operand_methods! {
        T by array_array, array_scalar;
        ///
        /// # Examples
        ///
        /// ```
        /// use ndarray::array;
        /// use warpsmith::{Device, DeviceArray};
        ///
        /// # fn main() -> warpsmith::Result<()> {
        /// let device = Device::auto()?;
        /// let a = DeviceArray::from_ndarray(device.default_stream(), &array![[1, 2, 3], [4, 5, 6]])?;
        /// let row = DeviceArray::from_ndarray(device.default_stream(), &array![10, 20, 30])?;
        /// assert_eq!(a.add(&row)?.to_ndarray()?, array![[11, 22, 33], [14, 25, 36]]);
        /// let column = DeviceArray::from_ndarray(device.default_stream(), &array![[100], [200], [300]])?;
        /// assert_eq!(a.t().add(&column)?.to_ndarray()?, array![[101, 104], [202, 205], [303, 306]]);
        /// # Ok(())
        /// # }
        /// ```
        "self + other": Add => add add_into add_scalar add_scalar_into;
        "self − other": Sub => sub sub_into sub_scalar sub_scalar_into;
        "self · other": Mul => mul mul_into mul_scalar mul_scalar_into;
        "self / other": Div => div div_into div_scalar div_scalar_into;
        "min(self, other), NaN where either is NaN": Minimum
            => minimum minimum_into minimum_scalar minimum_scalar_into;
        "max(self, other), NaN where either is NaN": Maximum
            => maximum maximum_into maximum_scalar maximum_scalar_into;
        ///
        /// Floats as [`Float::powf`](cuda_std::Float::powf), 16-bit ones computed in `f32`. Integers wrap around on
        /// overflow; a negative exponent gives the reciprocal of the power, rounded towards zero: 1 or −1 for these
        /// bases, 0 for all others, 0 included. `0^0` is 1.
        "self^other": Pow => pow pow_into pow_scalar pow_scalar_into;
    }
}

/// Arithmetic with one number as the first operand.
impl<T: Number, D: Dimension> DeviceArrayRef<T, D> {
    scalar_first_methods! {
        "scalar − self": Sub => scalar_sub scalar_sub_into;
        "scalar / self": Div => scalar_div scalar_div_into;
        "scalar^self": Pow => scalar_pow scalar_pow_into;
    }
}
