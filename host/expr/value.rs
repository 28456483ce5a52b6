// SPDX-License-Identifier: MIT OR Apache-2.0
//! The types of an expression's elements, and which one two of them have together.

use cuda_std::scalar::{Scalar, ScalarType};
use half::{bf16, f16};

use crate::array::Element;

mod sealed {
    pub trait Sealed {}
}

/// What an expression's elements may be: `bool`, and the numbers `f32`, `f64`, `f16`, `bf16`, `i32`, `i64`, `u8`, `u16`,
/// `u32` and `u64`.
pub trait Value: Scalar + sealed::Sealed {
    /// What they are in an array: the number itself, and for `bool` a byte, 1 or 0, as comparisons of arrays give.
    type Element: Element + Scalar;

    /// The bits, in the lowest ones.
    #[doc(hidden)]
    fn bits(self) -> u64;

    /// The number that an array's element is.
    #[doc(hidden)]
    fn of_element(element: Self::Element) -> Self;
}

macro_rules! values {
    ($($type:ty as $element:ty: |$x:ident| $bits:expr, |$e:ident| $number:expr;)*) => {$(
        impl sealed::Sealed for $type {}

        impl Value for $type {
            type Element = $element;

            fn bits(self) -> u64 {
                let $x = self;
                $bits
            }

            fn of_element($e: $element) -> Self {
                $number
            }
        }
    )*};
}

values! {
    bool as u8: |x| x.into(), |e| e != 0;
    f32 as f32: |x| x.to_bits().into(), |e| e;
    f64 as f64: |x| x.to_bits(), |e| e;
    f16 as f16: |x| x.to_bits().into(), |e| e;
    bf16 as bf16: |x| x.to_bits().into(), |e| e;
    i32 as i32: |x| (x as u32).into(), |e| e;
    i64 as i64: |x| x as u64, |e| e;
    u8 as u8: |x| x.into(), |e| e;
    u16 as u16: |x| x.into(), |e| e;
    u32 as u32: |x| x.into(), |e| e;
    u64 as u64: |x| x, |e| e;
}

/// The type that numbers of this one and of `U` have together in an expression: that of `a + b`.
///
/// One type stays what it is. Of two floats it is the wider one, and of `f16` and `bf16` `f32`. Of a float and an integer it
/// is the float, as in PyTorch. Of two integers it is the one that has the values of both; for `u64` and a signed one there
/// is none, and one of them has to be [cast](super::Expr::cast).
#[diagnostic::on_unimplemented(
    message = "`{Self}` and `{U}` have no type together in an expression",
    note = "`cast` makes one of the other: `x.cast::<f64>() + y`"
)]
pub trait Promote<U>: Value {
    /// That type.
    type Output: Value;
}

macro_rules! promote {
    ($($a:ty, $b:ty => $output:ty;)*) => {
        $(
            impl Promote<$b> for $a {
                type Output = $output;
            }

            impl Promote<$a> for $b {
                type Output = $output;
            }
        )*

        /// [`Promote`] of types that are known at run time only.
        pub(super) fn promoted(a: ScalarType, b: ScalarType) -> Option<ScalarType> {
            if a == b {
                return Some(a);
            }
            $(
                if (a, b) == (<$a>::TYPE, <$b>::TYPE) || (b, a) == (<$a>::TYPE, <$b>::TYPE) {
                    return Some(<$output>::TYPE);
                }
            )*
            None
        }
    };
    (@same $($type:ty),*) => {$(
        impl Promote<$type> for $type {
            type Output = $type;
        }
    )*};
}

promote!(@same bool, f32, f64, f16, bf16, i32, i64, u8, u16, u32, u64);

promote! {
    f32, f64 => f64;
    f16, f64 => f64;
    bf16, f64 => f64;
    f16, f32 => f32;
    bf16, f32 => f32;
    f16, bf16 => f32;
    i32, f64 => f64;
    i64, f64 => f64;
    u8, f64 => f64;
    u16, f64 => f64;
    u32, f64 => f64;
    u64, f64 => f64;
    i32, f32 => f32;
    i64, f32 => f32;
    u8, f32 => f32;
    u16, f32 => f32;
    u32, f32 => f32;
    u64, f32 => f32;
    i32, f16 => f16;
    i64, f16 => f16;
    u8, f16 => f16;
    u16, f16 => f16;
    u32, f16 => f16;
    u64, f16 => f16;
    i32, bf16 => bf16;
    i64, bf16 => bf16;
    u8, bf16 => bf16;
    u16, bf16 => bf16;
    u32, bf16 => bf16;
    u64, bf16 => bf16;
    i32, i64 => i64;
    u8, i32 => i32;
    u16, i32 => i32;
    u32, i32 => i64;
    u8, i64 => i64;
    u16, i64 => i64;
    u32, i64 => i64;
    u8, u16 => u16;
    u8, u32 => u32;
    u8, u64 => u64;
    u16, u32 => u32;
    u16, u64 => u64;
    u32, u64 => u64;
}
