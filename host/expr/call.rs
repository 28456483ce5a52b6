// SPDX-License-Identifier: MIT OR Apache-2.0
//! Device functions of one's own as parts of expressions.

use cuda_std::launch::DeviceFn;
use ndarray::{DimMax, Dimension};

use super::Expr;
use super::graph::{Node, Part, cast};
use super::operand::{HiddenParts, Operand};
use super::operators::{Common, Common3};
use super::value::Value;
use crate::backend::DeviceFnInfo;

/// Operands for a device function's arguments, whose types are `A`: a tuple of one to four, each of its argument's type.
pub trait Arguments<'a, A> {
    /// The dimension that all have together.
    type Dim: Dimension;

    #[doc(hidden)]
    fn parts(self) -> HiddenParts<'a>;
}

macro_rules! arguments {
    ($($operand:ident $type:ident $dim:ident),+; $together:ty where $($bounds:tt)*) => {
        impl<'a, $($operand, $type,)+ $($dim: Dimension),+> Arguments<'a, ($($type,)+)> for ($($operand,)+)
        where
            $($operand: Operand<'a, $type, Together = $type, Dim = $dim>, $type: Value,)+
            $($bounds)*
        {
            type Dim = $together;

            fn parts(self) -> HiddenParts<'a> {
                #[allow(non_snake_case)]
                let ($($operand,)+) = self;
                HiddenParts(vec![$($operand.operand().0.and_then(|part| cast(part, $type::TYPE))),+])
            }
        }
    };
}

arguments!(A T D; D where);
arguments!(A T D, B U E; Common<D, E> where D: DimMax<E>);
arguments!(A T D, B U E, C V F; Common3<D, E, F> where D: DimMax<E>, Common<D, E>: DimMax<F>);
arguments!(
    A T D, B U E, C V F, G W H; Common<Common3<D, E, F>, H>
    where D: DimMax<E>, Common<D, E>: DimMax<F>, Common3<D, E, F>: DimMax<H>
);

/// A device function of one's own, applied to each element: see `#[device_fn]` in `cuda_std`.
///
/// On a GPU its PTX has to be there: [`Device::register_kernels`](crate::Device::register_kernels) of the crate that has it.
///
/// # Errors
///
/// Evaluating it is [`Error::NoModule`](crate::Error::NoModule) or
/// [`Error::SignatureMismatch`](crate::Error::SignatureMismatch) where a GPU was not given the function's PTX, or other.
///
/// # Examples
///
/// ```
/// use cuda_std::prelude::*;
/// use warpsmith::ndarray::array;
/// use warpsmith::{Device, DeviceArray, expr};
///
/// /// A step of the logistic map.
/// #[device_fn(T = [f32, f64])]
/// pub fn logistic<T: Float>(rate: T, x: T) -> T {
///     rate * x * (T::from_f64(1.0) - x)
/// }
///
/// # fn main() -> warpsmith::Result<()> {
/// let device = Device::simulator();
/// let x = DeviceArray::from_ndarray(device.default_stream(), &array![0.25f64, 0.5])?;
/// let next = expr::call::<logistic<f64>, _>((4.0, &x));
/// assert_eq!((next + 1.0).eval()?.to_ndarray()?, array![1.75, 2.0]);
/// # Ok(())
/// # }
/// ```
pub fn call<'a, F: DeviceFn<Output: Value>, A: Arguments<'a, F::Arguments>>(
    arguments: A,
) -> Expr<'a, F::Output, A::Dim> {
    let parts = arguments
        .parts()
        .0
        .into_iter()
        .collect::<std::result::Result<Vec<_>, _>>();
    let function: &'static DeviceFnInfo = const { &DeviceFnInfo::of::<F>() };
    let called: Part<'a> = parts.and_then(|parts| Node::call(function.name, function, function.result, parts));
    Expr::of(called)
}
