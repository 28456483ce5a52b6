// SPDX-License-Identifier: MIT OR Apache-2.0
//! Closures over the expressions of two arrays.

use ndarray::Dimension;

use super::Expr;
use super::value::Value;
use crate::array::Element;
use crate::array_ref::DeviceArrayRef;

/// What `function` makes of the expressions of two arrays: one expression or several, which nothing has computed yet.
///
/// The closure is called once, now, with expressions in place of numbers, and so for all elements at once: its operators and
/// methods are those of [`Expr`], `if` is [`select`](Expr::select), and what else it has of arrays, numbers and other expressions
/// is a part of what it gives. It is no more than `function(a.expr(), b.expr())`, and so are functions of one array or of many. A
/// function that is called again and again is [compiled](super::compile), one of numbers is a `#[device_fn]` that is
/// [called](super::call).
///
/// # Examples
///
/// ```
/// use warpsmith::ndarray::{Axis, array};
/// use warpsmith::{Device, DeviceArray, expr};
///
/// # fn main() -> warpsmith::Result<()> {
/// let device = Device::auto()?;
/// let x = DeviceArray::from_ndarray(device.default_stream(), &array![[1.0f32, 2.0], [3.0, 4.0]])?;
/// let row = DeviceArray::from_ndarray(device.default_stream(), &array![10.0f32, 20.0])?;
/// let y = expr::map2(&x, &row, |a, b| a.square() * 3.0 + b);
/// assert_eq!(y.eval()?.to_ndarray()?, array![[13.0, 32.0], [37.0, 68.0]]);
/// let (sum, largest) = expr::map2(&x, &row, |a, b| ((&a * &b).sum_axis(Axis(1)), a.max_axis(Axis(1)) + 0.5));
/// let (sum, largest) = expr::eval((&sum, &largest))?;
/// assert_eq!((sum.to_ndarray()?, largest.to_ndarray()?), (array![50.0, 110.0], array![2.5, 4.5]));
/// # Ok(())
/// # }
/// ```
pub fn map2<'a, T, U, D, E, R>(
    a: &'a DeviceArrayRef<T, D>,
    b: &'a DeviceArrayRef<U, E>,
    function: impl FnOnce(Expr<'a, T, D>, Expr<'a, U, E>) -> R,
) -> R
where
    T: Value<Element = T> + Element,
    U: Value<Element = U> + Element,
    D: Dimension,
    E: Dimension,
{
    function(a.expr(), b.expr())
}
