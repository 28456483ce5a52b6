// SPDX-License-Identifier: MIT OR Apache-2.0
//! The numbers of pictures.

use cuda_std::Float;

/// A channel of a pixel: `u8`, `u16` or `f32`.
pub trait Pixel: bytemuck::Pod + Send + Sync {
    /// The same number; every `u8` and `u16` is an `f32`.
    fn to_f32(self) -> f32;

    /// The nearest number of this type, halves up, and the least or greatest where `value` lies beyond; NaN becomes 0.
    /// An `f32` stays what it is.
    fn from_f32(value: f32) -> Self;
}

macro_rules! integers {
    ($($type:ident),*) => {$(
        impl Pixel for $type {
            #[inline(always)]
            fn to_f32(self) -> f32 {
                self as f32
            }

            #[inline(always)]
            fn from_f32(value: f32) -> Self {
                // Not `floor(value + 0.5)`: that sum is rounded, and makes 1 of the number before 0.5. The difference
                // is exact. A cast saturates.
                let below = Float::floor(value);
                let nearest = if value - below >= 0.5 { below + 1.0 } else { below };
                nearest as $type
            }
        }
    )*};
}

integers!(u8, u16);

impl Pixel for f32 {
    #[inline(always)]
    fn to_f32(self) -> f32 {
        self
    }

    #[inline(always)]
    fn from_f32(value: f32) -> Self {
        value
    }
}
