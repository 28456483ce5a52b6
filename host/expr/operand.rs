// SPDX-License-Identifier: MIT OR Apache-2.0
//! What stands beside an operator: expressions, arrays, and single numbers.

use half::{bf16, f16};
use ndarray::{Dimension, Ix0, IxDyn};

use super::Expr;
use super::eval::check_shape;
use super::graph::{Node, Part, cast};
use super::value::{Promote, Value};
use crate::array::{DeviceArray, Element};
use crate::array_ref::DeviceArrayRef;
use crate::error::Result;
use crate::view::{DeviceView, DeviceViewMut};

/// What can stand beside numbers of type `T` in an expression: another expression, an array or a view, `&DeviceArray`,
/// `&DeviceView` or `&DeviceArrayRef`, of the same type or of one that [has a type together](Promote) with it; or one number of type `T`.
/// An array by value is the expression's own, and goes when that does.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot stand beside elements of type `{T}` in an expression",
    note = "wanted: an expression, a `DeviceArray` or a `DeviceView`, or a reference to an array or a view, of `{T}` or of a type that has one together with it, \
            or a number of type `{T}`"
)]
pub trait Operand<'a, T> {
    /// The type that both have together.
    type Together: Value;
    /// The dimension; of one number, `Ix0`.
    type Dim: Dimension;

    #[doc(hidden)]
    fn operand(self) -> Hidden<'a>;
}

/// What is an expression by itself, with a type of its own: an expression, an array or a view, `&DeviceArray`, `&DeviceView`,
/// `&DeviceViewMut` or `&DeviceArrayRef`, or one number. Of what type a number is it has to say itself: `0.0` is an `f64`, and `0` an `i32`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no expression",
    note = "wanted: an expression, a `DeviceArray` or a `DeviceView`, a reference to an array or a view, or a number"
)]
pub trait IntoExpr<'a> {
    /// The type of the elements.
    type Value: Value;
    /// The dimension; of one number, `Ix0`.
    type Dim: Dimension;

    #[doc(hidden)]
    fn hidden(self) -> Hidden<'a>;
}

/// A part of an expression, which has no name outside.
#[doc(hidden)]
pub struct Hidden<'a>(pub(super) Part<'a>);

/// Several of them.
#[doc(hidden)]
pub struct HiddenParts<'a>(pub(super) Vec<Part<'a>>);

impl<T: Value> Operand<'_, T> for T {
    type Together = T;
    type Dim = Ix0;

    fn operand(self) -> Hidden<'static> {
        Hidden(Ok(Node::scalar(T::TYPE, self.bits())))
    }
}

impl<'a, T: Promote<U>, U: Value, D: Dimension> Operand<'a, T> for Expr<'a, U, D> {
    type Together = T::Output;
    type Dim = D;

    fn operand(self) -> Hidden<'a> {
        Hidden(self.into_part())
    }
}

impl<'a, T: Promote<U>, U: Value, D: Dimension> Operand<'a, T> for &Expr<'a, U, D> {
    type Together = T::Output;
    type Dim = D;

    fn operand(self) -> Hidden<'a> {
        Hidden(self.part.clone())
    }
}

/// What is an expression by itself: `[parameters] type: element, dimension, its part;`.
macro_rules! into_expr {
    ($([$($parameters:tt)*] $type:ty: $element:ty, $dim:ty, $this:ident => $part:expr;)*) => {$(
        impl<'a, $($parameters)*> IntoExpr<'a> for $type {
            type Value = $element;
            type Dim = $dim;

            fn hidden(self) -> Hidden<'a> {
                let $this = self;
                Hidden($part)
            }
        }
    )*};
    (@numbers $($type:ty),*) => {
        into_expr! { $([] $type: $type, Ix0, this => super::scalar(this).into_part();)* }
    };
    (@arrays $($type:ty),*) => {
        into_expr! { $([T: Value<Element = T> + Element, D: Dimension] $type: T, D, this => Ok(Node::array(this));)* }
    };
}

into_expr! {
    [T: Value, D: Dimension] Expr<'a, T, D>: T, D, this => this.into_part();
    [T: Value, D: Dimension] &Expr<'a, T, D>: T, D, this => this.part.clone();
}

into_expr!(@arrays &'a DeviceArrayRef<T, D>, &'a DeviceArray<T, D>, &'a DeviceView<'_, T, D>, &'a DeviceViewMut<'_, T, D>);

into_expr! {
    [T: Value<Element = T> + Element, D: Dimension + 'static] DeviceArray<T, D>: T, D, this => this.into_expr().into_part();
    [T: Value<Element = T> + Element, D: Dimension + 'a] DeviceView<'a, T, D>: T, D, this => DeviceView::expr(&this).into_part();
}

into_expr!(@numbers bool, f32, f64, f16, bf16, i32, i64, u8, u16, u32, u64);

macro_rules! arrays {
    ($($type:ty),*) => {$(
        impl<'a, T: Promote<U>, U: Value<Element = U> + Element, D: Dimension> Operand<'a, T> for &'a $type {
            type Together = T::Output;
            type Dim = D;

            fn operand(self) -> Hidden<'a> {
                Hidden(Ok(Node::array(self)))
            }
        }
    )*};
}

/// Arrays and views by value.
macro_rules! owned {
    ($($type:ty: $lent:lifetime),*) => {$(
        impl<'a, T: Promote<U>, U: Value<Element = U> + Element, D: Dimension + $lent> Operand<'a, T> for $type {
            type Together = T::Output;
            type Dim = D;

            fn operand(self) -> Hidden<'a> {
                self.hidden()
            }
        }
    )*};
}

owned!(DeviceArray<U, D>: 'static, DeviceView<'a, U, D>: 'a);

arrays!(DeviceArrayRef<U, D>, DeviceArray<U, D>, DeviceView<'_, U, D>, DeviceViewMut<'_, U, D>);

/// An operand that has to be of that shape, as numbers of type `U`.
pub(crate) fn of_shape<'a, T, U: Value>(
    operation: &'static str,
    operand: impl Operand<'a, T>,
    shape: &[usize],
) -> Result<Expr<'a, U, IxDyn>> {
    let part = operand.operand().0?;
    check_shape(operation, &part.shape, shape)?;
    Ok(Expr::of(cast(part, U::TYPE)))
}
