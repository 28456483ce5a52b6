// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rust's operators on expressions, on references to arrays, and on numbers before expressions.

use std::ops;

use cuda_std::scalar::Scalar;
use half::{bf16, f16};
use kernels_gpu::compiled::Number;
use ndarray::{DimMax, Dimension};

use super::Expr;
use super::graph::function::{Binary, Unary};
use super::graph::{Part, binary, cast, unary};
use super::operand::Operand;
use super::value::Value;
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
    (@of $bound:ident $trait:ident $method:ident [$element:ident = T] $left:ty) => {
        impl<'a, T, D: DimMax<R::Dim> + Dimension, R: Operand<'a, T>> ops::$trait<R> for $left
        where
            T: Value<$element = T> + Element + $bound,
        {
            type Output = Expr<'a, R::Together, Common<D, R::Dim>>;

            fn $method(self, other: R) -> Self::Output {
                self.expr().$method(other)
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
        numbers!(@array $type, $traits, &'a DeviceArray<$type, D>);
        numbers!(@array $type, $traits, &'a DeviceArrayRef<$type, D>);
        numbers!(@array $type, $traits, &'a DeviceView<'_, $type, D>);
    )*};
    (@array $type:ty, [$($trait:ident $method:ident),*], $right:ty) => {$(
        impl<'a, D: Dimension> ops::$trait<$right> for $type {
            type Output = Expr<'a, $type, D>;

            fn $method(self, other: $right) -> Self::Output {
                self.$method(other.expr())
            }
        }
    )*};
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
    )*};
}

prefixes! {
    Number: Neg neg;
    Bits: Not not;
}
