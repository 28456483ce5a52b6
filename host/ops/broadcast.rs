// SPDX-License-Identifier: MIT OR Apache-2.0
//! What elementwise operations on several operands share: the shape of the result, and whether operands lie as it does.

use ndarray::{DimMax, Dimension};

use crate::array::Element;
use crate::array_ref::DeviceArrayRef;
use crate::error::{Error, Result};
use crate::stream::Stream;

/// The dimension that two operands have together.
pub(super) type Common<D, E> = <D as DimMax<E>>::Output;

/// The shape that two operands on one device are repeated to.
pub(super) fn common<T: Element, U: Element, D: DimMax<E> + Dimension, E: Dimension>(
    operation: &'static str,
    a: &DeviceArrayRef<T, D>,
    b: &DeviceArrayRef<U, E>,
) -> Result<Common<D, E>> {
    a.stream().check_device(operation, b.stream())?;
    common_dim(operation, &a.raw_dim(), &b.raw_dim())
}

/// The shape that two shapes are repeated to, by NumPy's rules: axes are matched from the last, and one of length 1 is
/// repeated, as one that is missing.
pub(super) fn common_dim<D: DimMax<E> + Dimension, E: Dimension>(
    operation: &'static str,
    a: &D,
    b: &E,
) -> Result<Common<D, E>> {
    let (a, b) = (a.slice(), b.slice());
    let mut dim = Common::<D, E>::zeros(a.len().max(b.len()));
    let at = |shape: &[usize], back: usize| shape.iter().rev().nth(back).copied().unwrap_or(1);
    let mut fits = true;
    for (back, to) in dim.slice_mut().iter_mut().rev().enumerate() {
        let lengths = (at(a, back), at(b, back));
        *to = if lengths.0 == 1 { lengths.1 } else { lengths.0 };
        fits &= lengths.1 == 1 || lengths.1 == *to;
    }
    if fits && dim.size_checked().is_some() {
        return Ok(dim);
    }
    Err(Error::Shape {
        operation,
        given: format!("shapes {a:?} and {b:?}"),
        wanted: if fits {
            "fewer than 2^63 elements together".into()
        } else {
            "shapes that broadcast together: along each axis, from the last, equal lengths or a 1".into()
        },
    })
}

/// An error unless the output has the shape of the result, and is on the device of the stream that computes it.
pub(super) fn check_out<T: Element, D: Dimension>(
    operation: &'static str,
    stream: &Stream,
    result: &[usize],
    out: &DeviceArrayRef<T, D>,
) -> Result<()> {
    if result == out.shape() {
        return stream.check_device(operation, out.stream());
    }
    Err(unfit(operation, result, out.shape()))
}

fn unfit(operation: &'static str, result: &[usize], out: &[usize]) -> Error {
    Error::Shape {
        operation,
        given: format!("an output of shape {out:?}"),
        wanted: format!("one of the result's shape, {result:?}"),
    }
}

/// The methods of operations on two operands: `result by function of two arrays, function of an array and a number;`, and
/// a line for each operation: `formula: operator => with array, into array, with number, into number`. The functions
/// compute into an output of the result's shape.
macro_rules! two_operand_methods {
    ($result:ident by $arrays:ident, $number:ident; $($rows:tt)*) => {
        two_operand_methods! { @rows [$result $arrays $number] $($rows)* }
    };
    (@rows $of:tt $($(#[$doc:meta])* $formula:literal: $op:ident => $($method:ident)*;)*) => {
        $(two_operand_methods! { @row $of [$(#[$doc])*] $formula $op $($method)* })*
    };
    (@row [$result:ident $arrays:ident $number:ident] [$(#[$doc:meta])*] $formula:literal $op:ident
     $array:ident $array_into:ident $scalar:ident $scalar_into:ident) => {
        #[doc = concat!("`", $formula, "`, element by element, broadcast as in NumPy.\n")]
        $(#[$doc])*
        ///
        /// # Errors
        ///
        /// [`Error::Shape`](crate::Error::Shape) if the shapes do not broadcast together,
        /// [`Error::DifferentDevices`](crate::Error::DifferentDevices), and those of an allocation and a launch.
        pub fn $array<E: Dimension>(&self, other: &DeviceArrayRef<T, E>) -> Result<DeviceArray<$result, Common<D, E>>>
        where
            D: DimMax<E>,
        {
            let (a, b) = (self, other);
            let dim = common(stringify!($array), a, b)?;
            DeviceArray::made(a.stream(), dim, &mut |out| $arrays::<$op, _, _, _, _>(a, b, out))
        }

        #[doc = concat!("[`", stringify!($array), "`](Self::", stringify!($array), ") into an existing array or view, which has the \
                         shape of the result.\n\n# Errors\n\n")]
        #[doc = concat!("As [`", stringify!($array), "`](Self::", stringify!($array), ").")]
        pub fn $array_into<E: Dimension>(
            &self,
            other: &DeviceArrayRef<T, E>,
            out: &mut DeviceArrayRef<$result, Common<D, E>>,
        ) -> Result<()>
        where
            D: DimMax<E>,
        {
            let (a, b) = (self, other);
            let dim = common(stringify!($array), a, b)?;
            check_out(stringify!($array), a.stream(), dim.slice(), out)?;
            $arrays::<$op, _, _, _, _>(a, b, out)
        }

        #[doc = concat!("[`", stringify!($array), "`](Self::", stringify!($array), ") with one number for every element.\n\n# Errors\n\n")]
        /// Those of an allocation and a launch.
        pub fn $scalar(&self, scalar: T) -> Result<DeviceArray<$result, D>> {
            DeviceArray::made(self.stream(), self.raw_dim(), &mut |out| $number::<$op, _, _>(self, scalar, out))
        }

        #[doc = concat!("[`", stringify!($scalar), "`](Self::", stringify!($scalar), ") into an existing array or view of the same \
                         shape.\n\n# Errors\n\n")]
        /// [`Error::Shape`](crate::Error::Shape) if the shapes differ, and those of a launch.
        pub fn $scalar_into(&self, scalar: T, out: &mut DeviceArrayRef<$result, D>) -> Result<()> {
            check_out(stringify!($scalar), self.stream(), self.shape(), out)?;
            $number::<$op, _, _>(self, scalar, out)
        }
    };
}

pub(super) use two_operand_methods;

/// Whether elements that are repeated to the shape of `out` lie as it does, if that is in C order.
pub(super) fn is_dense<T: Element, U: Element, D: Dimension, E: Dimension>(
    elements: &DeviceArrayRef<T, D>,
    out: &DeviceArrayRef<U, E>,
) -> bool {
    elements.len() == out.len() && elements.is_standard_layout()
}
