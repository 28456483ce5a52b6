// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rust's operators on expressions, on arrays, views and references to them, and on numbers before those.

use std::ops;

use cuda_std::scalar::Scalar;
use half::{bf16, f16};
use kernels_gpu::compiled::Number;
use ndarray::{DimMax, Dimension};

use super::Expr;
use super::graph::function::{Binary, Unary};
use super::graph::{Node, Part, binary, cast, unary};
use super::operand::{Hidden, IntoExpr, Operand};
use super::value::{Promote, Value};
use crate::array::{DeviceArray, Element};
use crate::array_ref::DeviceArrayRef;
use crate::view::{DeviceView, DeviceViewMut};

/// The dimension that two operands have together.
pub(super) type Common<D, E> = <D as DimMax<E>>::Output;

/// The dimension that three operands have together.
pub(super) type Common3<D, E, F> = Common<Common<D, E>, F>;

/// `operator` of two parts, in the type `U` that they have together.
pub(super) fn together<'a, U: Scalar>(operator: Binary, a: Part<'a>, b: Part<'a>) -> Part<'a> {
    binary(operator, cast(a?, U::TYPE)?, cast(b?, U::TYPE)?)
}

/// What is an expression by itself, as one.
fn expression<'a, X: IntoExpr<'a>>(x: X) -> Expr<'a, X::Value, X::Dim> {
    Expr::of(x.hidden().0)
}

/// One of the operators between two operands.
#[doc(hidden)]
pub struct Operator(Binary);

/// What can stand behind an operator that an array by value stands before. It is every [`Operand`]: such an array lends nothing, so that the
/// operand says for how long there is an expression of both.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot stand beside elements of type `{T}` in an expression",
    note = "wanted: an expression, a `DeviceArray` or a `DeviceView`, or a reference to an array or a view, of `{T}` or of a type that has one together with it, \
            or a number of type `{T}`"
)]
pub trait Behind<T> {
    /// The type that both have together.
    type Together: Value;
    /// The dimension; of one number, `Ix0`.
    type Dim: Dimension;
    /// An expression of what the operand lends.
    type Expr<U, D>;

    #[doc(hidden)]
    fn behind<D>(self, left: Hidden<'static>, operator: Operator) -> Self::Expr<Self::Together, D>;
}

macro_rules! behind {
    ($([$($parameters:tt)*] $type:ty: $lent:lifetime;)*) => {$(
        impl<$($parameters)*> Behind<T> for $type {
            type Together = <Self as Operand<$lent, T>>::Together;
            type Dim = <Self as Operand<$lent, T>>::Dim;
            type Expr<V, E> = Expr<$lent, V, E>;

            fn behind<E>(self, left: Hidden<'static>, operator: Operator) -> Expr<$lent, Self::Together, E> {
                Expr::of(together::<Self::Together>(operator.0, left.0, Operand::<$lent, T>::operand(self).0))
            }
        }
    )*};
    (@lent $($type:ty),*) => {
        behind! {$(
            ['a, T: Promote<U>, U: Value<Element = U> + Element, D: Dimension] &'a $type: 'a;
        )*}
    };
}

behind! {
    [T: Value] T: 'static;
    ['a, T: Promote<U>, U: Value, D: Dimension] Expr<'a, U, D>: 'a;
    ['a, T: Promote<U>, U: Value, D: Dimension] &Expr<'a, U, D>: 'a;
    [T: Promote<U>, U: Value<Element = U> + Element, D: Dimension + 'static] DeviceArray<U, D>: 'static;
    ['a, T: Promote<U>, U: Value<Element = U> + Element, D: Dimension + 'a] DeviceView<'a, U, D>: 'a;
}

behind!(@lent DeviceArrayRef<U, D>, DeviceArray<U, D>, DeviceView<'_, U, D>, DeviceViewMut<'_, U, D>);

/// Integers and `bool`.
pub trait Bits: Value {}

macro_rules! bits {
    ($($type:ty),*) => {
        $(impl Bits for $type {})*
    };
}

bits!(bool, i32, i64, u8, u16, u32, u64);

macro_rules! operators {
    ($($bound:ident: $($trait:ident $method:ident),*;)*) => {$($(
        operators!(@on $bound $trait $method Expr<'a, T, D>, this => this.into_part());
        operators!(@on $bound $trait $method &Expr<'a, T, D>, this => this.part.clone());
        operators!(@owned $bound $trait $method [Element = T]);
        operators!(@of $bound $trait $method [Element = T] DeviceView<'a, T, D>);
        operators!(@of $bound $trait $method [Element = T] &'a DeviceArray<T, D>);
        operators!(@of $bound $trait $method [Element = T] &'a DeviceArrayRef<T, D>);
        operators!(@of $bound $trait $method [Element = T] &'a DeviceView<'_, T, D>);
        operators!(@of $bound $trait $method [Element = T] &'a DeviceViewMut<'_, T, D>);
    )*)*};
    (@on $bound:ident $trait:ident $method:ident $left:ty, $this:ident => $part:expr) => {
        impl<'a, T: Value + $bound, D: DimMax<R::Dim> + Dimension, R: Operand<'a, T>> ops::$trait<R> for $left {
            type Output = Expr<'a, R::Together, Common<D, R::Dim>>;

            fn $method(self, other: R) -> Self::Output {
                let $this = self;
                Expr::of(together::<R::Together>(Binary::$trait, $part, other.operand().0))
            }
        }
    };
    (@owned $bound:ident $trait:ident $method:ident [$element:ident = T]) => {
        impl<T, D: DimMax<R::Dim> + Dimension + 'static, R: Behind<T>> ops::$trait<R> for DeviceArray<T, D>
        where
            T: Value<$element = T> + Element + $bound,
        {
            type Output = R::Expr<R::Together, Common<D, R::Dim>>;

            fn $method(self, other: R) -> Self::Output {
                other.behind(Hidden(Ok(Node::owned(self, T::TYPE))), Operator(Binary::$trait))
            }
        }
    };
    (@of $bound:ident $trait:ident $method:ident [$element:ident = T] $left:ty) => {
        impl<'a, T, D: DimMax<R::Dim> + Dimension + 'a, R: Operand<'a, T>> ops::$trait<R> for $left
        where
            T: Value<$element = T> + Element + $bound,
        {
            type Output = Expr<'a, R::Together, Common<D, R::Dim>>;

            fn $method(self, other: R) -> Self::Output {
                expression(self).$method(other)
            }
        }
    };
}

operators! {
    Number: Add add, Sub sub, Mul mul, Div div, Rem rem;
    Bits: BitAnd bitand, BitOr bitor, BitXor bitxor;
}

/// One number before an expression or an array of its type.
macro_rules! numbers {
    ($traits:tt: $($type:ty),*) => {$(
        numbers!(@each $type, $traits);
        numbers!(@array $type, $traits, 'static, [], DeviceArray<$type, D>);
        numbers!(@array $type, $traits, 'a, ['a,], DeviceView<'a, $type, D>);
        numbers!(@array $type, $traits, 'a, ['a,], &'a DeviceArray<$type, D>);
        numbers!(@array $type, $traits, 'a, ['a,], &'a DeviceArrayRef<$type, D>);
        numbers!(@array $type, $traits, 'a, ['a,], &'a DeviceView<'_, $type, D>);
        numbers!(@array $type, $traits, 'a, ['a,], &'a DeviceViewMut<'_, $type, D>);
    )*};
    (@array $type:ty, [$($trait:ident $method:ident),*], $lent:lifetime, $lifetimes:tt, $right:ty) => {$(
        numbers!(@of $type, $trait $method, $lent, $lifetimes, $right);
    )*};
    (@of $type:ty, $trait:ident $method:ident, $lent:lifetime, [$($lifetimes:tt)*], $right:ty) => {
        impl<$($lifetimes)* D: Dimension + $lent> ops::$trait<$right> for $type {
            type Output = Expr<$lent, $type, D>;

            fn $method(self, other: $right) -> Self::Output {
                self.$method(expression(other))
            }
        }
    };
    (@each $type:ty, [$($trait:ident $method:ident),*]) => {$(
        impl<'a, D: Dimension> ops::$trait<Expr<'a, $type, D>> for $type {
            type Output = Expr<'a, $type, D>;

            fn $method(self, other: Expr<'a, $type, D>) -> Self::Output {
                Expr::of(together::<$type>(Binary::$trait, super::scalar(self).into_part(), other.into_part()))
            }
        }

        impl<'a, D: Dimension> ops::$trait<&Expr<'a, $type, D>> for $type {
            type Output = Expr<'a, $type, D>;

            fn $method(self, other: &Expr<'a, $type, D>) -> Self::Output {
                self.$method(other.clone())
            }
        }
    )*};
}

numbers!([Add add, Sub sub, Mul mul, Div div, Rem rem]: f32, f64, f16, bf16, i32, i64, u8, u16, u32, u64);

/// Operators before one operand.
macro_rules! prefixes {
    ($($bound:ident: $trait:ident $method:ident;)*) => {$(
        impl<'a, T: Value + $bound, D: Dimension> ops::$trait for Expr<'a, T, D> {
            type Output = Self;

            fn $method(self) -> Self {
                Self::of(self.into_part().and_then(|x| unary(Unary::$trait, x)))
            }
        }

        impl<'a, T: Value + $bound, D: Dimension> ops::$trait for &Expr<'a, T, D> {
            type Output = Expr<'a, T, D>;

            fn $method(self) -> Self::Output {
                self.clone().$method()
            }
        }

        prefixes!(@array $bound $trait $method 'static [] [Element = T] DeviceArray<T, D>);
        prefixes!(@array $bound $trait $method 'a ['a,] [Element = T] DeviceView<'a, T, D>);
        prefixes!(@array $bound $trait $method 'a ['a,] [Element = T] &'a DeviceArray<T, D>);
        prefixes!(@array $bound $trait $method 'a ['a,] [Element = T] &'a DeviceArrayRef<T, D>);
        prefixes!(@array $bound $trait $method 'a ['a,] [Element = T] &'a DeviceView<'_, T, D>);
        prefixes!(@array $bound $trait $method 'a ['a,] [Element = T] &'a DeviceViewMut<'_, T, D>);
    )*};
    (
        @array $bound:ident $trait:ident $method:ident $lent:lifetime [$($lifetimes:tt)*] [$element:ident = T] $array:ty
    ) => {
        impl<$($lifetimes)* T: Value<$element = T> + Element + $bound, D: Dimension + $lent> ops::$trait for $array {
            type Output = Expr<$lent, T, D>;

            fn $method(self) -> Self::Output {
                expression(self).$method()
            }
        }
    };
}

prefixes! {
    Number: Neg neg;
    Bits: Not not;
}
