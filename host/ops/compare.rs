// SPDX-License-Identifier: MIT OR Apache-2.0
//! Comparisons, element by element.

use kernels_gpu::compiled::{Compare, Number};
use kernels_gpu::op::{Equal, Greater, GreaterEqual, Less, LessEqual, NotEqual};
use ndarray::{DimMax, Dimension};

use super::broadcast::{Common, check_out, common, two_operand_methods};
use crate::array::DeviceArray;
use crate::array_ref::DeviceArrayRef;
use crate::error::Result;
use crate::expr::one::Term;

/// Two arrays that fit the shape of `out`.
fn array_array<Op, T: Compare<Op>, D: Dimension, E: Dimension, F: Dimension>(
    a: &DeviceArrayRef<T, D>,
    b: &DeviceArrayRef<T, E>,
    out: &mut DeviceArrayRef<u8, F>,
) -> Result<()> {
    Term::binary(T::OPERATOR, Term::array(a), Term::array(b))?.write(a.stream(), out)
}

/// An array of the shape of `out`, and one number.
fn array_scalar<Op, T: Compare<Op>, D: Dimension>(
    a: &DeviceArrayRef<T, D>,
    b: T,
    out: &mut DeviceArrayRef<u8, D>,
) -> Result<()> {
    Term::binary(T::OPERATOR, Term::array(a), Term::number(b))?.write(a.stream(), out)
}

/// Comparisons with NumPy's names; a result is an array of bytes, 1 where the comparison holds and 0 where not: the
/// mask of [`select`](DeviceArrayRef::select).
///
/// NaN compares as IEEE 754 says: it is not equal to anything, itself included, and neither less nor greater. −0
/// equals 0. Operands are broadcast as in [`add`](DeviceArrayRef::add).
impl<T: Number, D: Dimension> DeviceArrayRef<T, D> {
    two_operand_methods! {
        u8 by array_array, array_scalar;
        ///
        /// # Examples
        ///
        /// ```
        /// use ndarray::array;
        /// use warpsmith::{Device, DeviceArray};
        ///
        /// # fn main() -> warpsmith::Result<()> {
        /// let device = Device::auto()?;
        /// let x = DeviceArray::from_ndarray(device.default_stream(), &array![[1, 2], [3, 4]])?;
        /// let row = DeviceArray::from_ndarray(device.default_stream(), &array![1, 4])?;
        /// assert_eq!(x.equal(&row)?.to_ndarray()?, array![[1, 0], [0, 1]]);
        /// assert_eq!(x.equal_scalar(3)?.to_ndarray()?, array![[0, 0], [1, 0]]);
        /// # Ok(())
        /// # }
        /// ```
        "self = other": Equal => equal equal_into equal_scalar equal_scalar_into;
        "self ≠ other": NotEqual => not_equal not_equal_into not_equal_scalar not_equal_scalar_into;
        "self < other": Less => less less_into less_scalar less_scalar_into;
        "self ≤ other": LessEqual => less_equal less_equal_into less_equal_scalar less_equal_scalar_into;
        "self > other": Greater => greater greater_into greater_scalar greater_scalar_into;
        "self ≥ other": GreaterEqual => greater_equal greater_equal_into greater_equal_scalar greater_equal_scalar_into;
    }
}
