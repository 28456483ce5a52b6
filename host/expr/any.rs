// SPDX-License-Identifier: MIT OR Apache-2.0
//! Expressions whose type and number of axes are known at run time only.

use std::sync::Arc;

use cuda_std::scalar::ScalarType;
use half::{bf16, f16};
use ndarray::{Dimension, IxDyn};

use super::Expr;
use super::explain::explain;
use super::graph::{Node, Part};
use crate::error::Result;

macro_rules! any_expr {
    ($($variant:ident $type:ty;)*) => {
        /// An expression of any [`Value`](super::Value): what a [`Formula`](super::Formula) is made of, and makes.
        ///
        /// # Examples
        ///
        /// ```
        /// use warpsmith::expr::AnyExpr;
        /// use warpsmith::ndarray::array;
        /// use warpsmith::{Device, DeviceArray};
        ///
        /// # fn main() -> warpsmith::Result<()> {
        /// let device = Device::auto()?;
        /// let x = DeviceArray::from_ndarray(device.default_stream(), &array![[1.0f32], [2.0]])?;
        /// let any: AnyExpr = (&x * 2.0).into();
        /// assert_eq!((any.type_name(), any.shape()?), ("f32", &[2, 1][..]));
        /// # Ok(())
        /// # }
        /// ```
        #[derive(Clone, Debug)]
        #[must_use = "nothing is computed before it is evaluated"]
        pub enum AnyExpr<'a> {
            $(
                #[doc = concat!("Of `", stringify!($type), "`.")]
                $variant(Expr<'a, $type, IxDyn>),
            )*
        }

        $(
            impl<'a, D: Dimension> From<Expr<'a, $type, D>> for AnyExpr<'a> {
                fn from(expr: Expr<'a, $type, D>) -> Self {
                    Self::$variant(Expr::of(expr.into_part()))
                }
            }
        )*

        impl<'a> AnyExpr<'a> {
            /// The part, whose type is one of an expression's.
            pub(super) fn of(node: Arc<Node<'a>>) -> Self {
                match node.ty {
                    $(ScalarType::$variant => Self::$variant(Expr::of(Ok(node))),)*
                    ty => unreachable!("no expression is of {}", ty.name()),
                }
            }

            pub(super) fn part(&self) -> &Part<'a> {
                match self {
                    $(Self::$variant(expr) => &expr.part,)*
                }
            }

            /// The name of the type of its elements: `"f32"`.
            pub fn type_name(&self) -> &'static str {
                match self {
                    $(Self::$variant(_) => ScalarType::$variant.name(),)*
                }
            }
        }
    };
}

any_expr! {
    Bool bool;
    F32 f32;
    F64 f64;
    F16 f16;
    Bf16 bf16;
    I32 i32;
    I64 i64;
    U8 u8;
    U16 u16;
    U32 u32;
    U64 u64;
}

impl AnyExpr<'_> {
    /// The shape of what it gives.
    ///
    /// # Errors
    ///
    /// That of the operation that put the expression together wrongly, as of [`eval`](Expr::eval).
    pub fn shape(&self) -> Result<&[usize]> {
        match self.part() {
            Ok(node) => Ok(&node.shape),
            Err(problem) => Err(problem.clone().into()),
        }
    }

    /// As [`Expr::explain`].
    ///
    /// # Errors
    ///
    /// As [`Expr::explain`].
    pub fn explain(&self) -> Result<String> {
        explain(self.part().as_ref().map_err(Clone::clone)?)
    }
}
