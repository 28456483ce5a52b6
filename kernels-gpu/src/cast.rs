// SPDX-License-Identifier: MIT OR Apache-2.0
//! Conversions from and to 8-bit floats, which are there for products of matrices: what these are made of and become.

use cuda_std::float8::{F8E4M3, F8E5M2};
use cuda_std::half::{bf16, bf16_from_f32, bf16_to_f32, f16, f16_from_f32, f16_to_f32};

use crate::num::CastTo;

macro_rules! casts_of_float8 {
    ($($type:ident: $to_f32:ident, $from_f32:ident;)*) => {$(
        casts_of_float8!(F8E4M3 $type $to_f32 $from_f32);
        casts_of_float8!(F8E5M2 $type $to_f32 $from_f32);
    )*};
    ($float8:ident $type:ident $to_f32:ident $from_f32:ident) => {
        impl CastTo<$float8> for $type {
            #[inline(always)]
            fn cast(self) -> $float8 {
                $float8::from_f32($to_f32(self))
            }
        }

        impl CastTo<$type> for $float8 {
            #[inline(always)]
            fn cast(self) -> $type {
                $from_f32(self.to_f32())
            }
        }
    };
}

/// `f32` as the others.
#[inline(always)]
fn same(x: f32) -> f32 {
    x
}

casts_of_float8! {
    f32: same, same;
    f16: f16_to_f32, f16_from_f32;
    bf16: bf16_to_f32, bf16_from_f32;
}
