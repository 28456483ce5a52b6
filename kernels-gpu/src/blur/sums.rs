// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a box blur sums in, for each type of pixel.
//!
//! Integers are summed exactly, and divided once. Floats are summed in `f64`; since what has entered a running sum also
//! leaves it, and ∞ − ∞ is no number, infinities and NaNs are counted beside the sum of the finite numbers, so that
//! they are where they belong and nowhere else.

use cuda_block::warp::inclusive_scan_strided;
use cuda_std::param::ByValue;
use cuda_std::prelude::*;
use cuda_std::warp::FULL_MASK;

/// A running sum: numbers enter it and leave it again.
pub trait Running: Copy {
    /// The sum of nothing.
    const ZERO: Self;

    /// The sum with that of `other`.
    fn add(self, other: Self) -> Self;

    /// The sum without that of `other`.
    fn sub(self, other: Self) -> Self;

    /// The sum over this lane and every `C`th below it.
    ///
    /// # Convergence
    ///
    /// All lanes of the warp call it.
    fn scan<const C: usize>(self) -> Self;

    /// The sum of lane `lane`.
    ///
    /// # Convergence
    ///
    /// All lanes of the warp call it.
    fn shuffle(self, lane: u32) -> Self;
}

macro_rules! integers {
    ($($type:ident),*) => {$(
        impl Running for $type {
            const ZERO: Self = 0;

            #[inline(always)]
            fn add(self, other: Self) -> Self {
                self.wrapping_add(other)
            }

            #[inline(always)]
            fn sub(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }

            #[inline(always)]
            fn scan<const C: usize>(self) -> Self {
                inclusive_scan_strided::<C, _>(self, Self::wrapping_add)
            }

            #[inline(always)]
            fn shuffle(self, lane: u32) -> Self {
                warp::shuffle(FULL_MASK, self, lane)
            }
        }
    )*};
}

integers!(u32, u64);

/// A sum of floats that keeps apart what is not finite.
#[derive(Clone, Copy)]
pub struct Extended {
    /// The sum of the finite numbers.
    finite: f64,
    /// How many +∞ there are (the lower 32 bits) and how many −∞ (the upper); a NaN counts as both.
    infinities: u64,
}

const PLUS_INFINITY: u64 = 1;
const MINUS_INFINITY: u64 = 1 << 32;

impl Extended {
    /// The sum of that one number.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn of(x: f64) -> Self {
        // 0 of what is finite, NaN of the rest.
        #[allow(clippy::eq_op)]
        if x - x == 0.0 {
            return Self {
                finite: x,
                infinities: 0,
            };
        }
        let infinities = if x > 0.0 {
            PLUS_INFINITY
        } else if x < 0.0 {
            MINUS_INFINITY
        } else {
            PLUS_INFINITY + MINUS_INFINITY
        };
        Self {
            finite: 0.0,
            infinities,
        }
    }

    #[inline(always)]
    fn value(self) -> f64 {
        let (plus, minus) = (self.infinities as u32 != 0, self.infinities >> 32 != 0);
        match (plus, minus) {
            (false, false) => self.finite,
            (true, false) => f64::INFINITY,
            (false, true) => f64::NEG_INFINITY,
            (true, true) => f64::NAN,
        }
    }
}

impl Running for Extended {
    const ZERO: Self = Self {
        finite: 0.0,
        infinities: 0,
    };

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        Self {
            finite: self.finite + other.finite,
            infinities: self.infinities.wrapping_add(other.infinities),
        }
    }

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        Self {
            finite: self.finite - other.finite,
            infinities: self.infinities.wrapping_sub(other.infinities),
        }
    }

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn scan<const C: usize>(self) -> Self {
        let mut infinities = self.infinities;
        // Nearly always there is none.
        if warp::any(FULL_MASK, infinities != 0) {
            infinities = inclusive_scan_strided::<C, _>(infinities, u64::wrapping_add);
        }
        Self {
            finite: inclusive_scan_strided::<C, _>(self.finite, |a, b| a + b),
            infinities,
        }
    }

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn shuffle(self, lane: u32) -> Self {
        Self {
            finite: warp::shuffle(FULL_MASK, self.finite, lane),
            infinities: if warp::any(FULL_MASK, self.infinities != 0) {
                warp::shuffle(FULL_MASK, self.infinities, lane)
            } else {
                0
            },
        }
    }
}

/// The number of pixels that a mean is over.
#[derive(Clone, Copy)]
pub struct Divisor {
    count: u64,
    reciprocal: f32,
    wide_reciprocal: f64,
}

impl Divisor {
    /// For a mean over `count ≥ 1` pixels.
    #[inline(always)]
    pub fn new(count: u64) -> Self {
        Self {
            count,
            reciprocal: 1.0 / count as f32,
            wide_reciprocal: 1.0 / count as f64,
        }
    }

    /// `sum / count`, rounded to nearest, halves up, which is less than 2^16.
    ///
    /// The quotient in `f32` has four roundings, so it is wrong by about 4 · 2^−24 · 2^16 < 1, and its integer part by
    /// at most 1: an exact multiplication tells.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn rounded(self, sum: u64) -> u32 {
        // Sums of pixels are far from wrapping around; what else lies in the array may not be.
        let sum = sum.wrapping_add(self.count / 2);
        let quotient = (sum as f32 * self.reciprocal) as u32;
        let product = u64::from(quotient).wrapping_mul(self.count);
        if product > sum {
            quotient.wrapping_sub(1)
        } else if sum - product >= self.count {
            quotient.wrapping_add(1)
        } else {
            quotient
        }
    }
}

/// How the pixels of one type are summed: along a row, then these sums along a column.
pub trait Sums: 'static {
    /// A channel of a pixel.
    type Pixel: ByValue + bytemuck::Pod;
    /// A row's sum, as it lies in memory between the passes.
    type RowSum: bytemuck::Pod;
    /// The running sum along a row.
    type Row: Running;
    /// The running sum along a column.
    type Column: Running;

    /// The sum of that one pixel.
    fn enter_row(pixel: Self::Pixel) -> Self::Row;
    /// The row's sum to keep.
    fn row_sum(sum: Self::Row) -> Self::RowSum;
    /// The sum of `count` pixels that all are `pixel`.
    fn constant_row(pixel: Self::Pixel, count: u64) -> Self::RowSum;
    /// The sum of that one row's.
    fn enter_column(sum: Self::RowSum) -> Self::Column;
    /// The mean.
    fn mean(sum: Self::Column, divisor: Divisor) -> Self::Pixel;
    /// A pixel that is not summed, in the place of a row's sum.
    fn keep(pixel: Self::Pixel) -> Self::RowSum;
    /// That pixel.
    fn kept(sum: Self::RowSum) -> Self::Pixel;
}

macro_rules! integer_sums {
    ($($(#[$doc:meta])* $name:ident: $pixel:ident, $row:ident;)*) => {$(
        $(#[$doc])*
        pub struct $name;

        impl Sums for $name {
            type Pixel = $pixel;
            type RowSum = $row;
            type Row = $row;
            type Column = u64;

            #[inline(always)]
            fn enter_row(pixel: $pixel) -> $row {
                $row::from(pixel)
            }

            #[inline(always)]
            fn row_sum(sum: $row) -> $row {
                sum
            }

            #[inline(always)]
            fn constant_row(pixel: $pixel, count: u64) -> $row {
                $row::from(pixel).wrapping_mul(count as $row)
            }

            #[inline(always)]
            fn enter_column(sum: $row) -> u64 {
                u64::from(sum)
            }

            #[inline(always)]
            fn mean(sum: u64, divisor: Divisor) -> $pixel {
                divisor.rounded(sum) as $pixel
            }

            #[inline(always)]
            fn keep(pixel: $pixel) -> $row {
                $row::from(pixel)
            }

            #[inline(always)]
            fn kept(sum: $row) -> $pixel {
                sum as $pixel
            }
        }
    )*};
}

integer_sums! {
    /// `u8`. A row's sum fits into 32 bits for every radius below 2^23.
    Bytes: u8, u32;
    /// `u16`, for radii below 2^15, whose row's sums fit into 32 bits.
    Words: u16, u32;
    /// `u16`, for larger radii.
    WideWords: u16, u64;
}

/// `f32`, summed in `f64`.
pub struct Floats;

impl Sums for Floats {
    type Pixel = f32;
    type RowSum = f64;
    type Row = Extended;
    type Column = Extended;

    #[inline(always)]
    fn enter_row(pixel: f32) -> Extended {
        Extended::of(f64::from(pixel))
    }

    #[inline(always)]
    fn row_sum(sum: Extended) -> f64 {
        sum.value()
    }

    #[inline(always)]
    fn constant_row(pixel: f32, count: u64) -> f64 {
        f64::from(pixel) * count as f64
    }

    #[inline(always)]
    fn enter_column(sum: f64) -> Extended {
        Extended::of(sum)
    }

    #[inline(always)]
    fn mean(sum: Extended, divisor: Divisor) -> f32 {
        (sum.value() * divisor.wide_reciprocal) as f32
    }

    // The bits, so that a NaN stays what it is too.
    #[inline(always)]
    fn keep(pixel: f32) -> f64 {
        f64::from_bits(u64::from(pixel.to_bits()))
    }

    #[inline(always)]
    fn kept(sum: f64) -> f32 {
        f32::from_bits(sum.to_bits() as u32)
    }
}
