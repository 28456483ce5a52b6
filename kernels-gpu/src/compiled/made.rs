// SPDX-License-Identifier: MIT OR Apache-2.0
//! The families that make arrays of nothing: ranges, and random numbers.

use bytemuck::Pod;
use cuda_std::half::{bf16, f16};
use cuda_std::launch::{Retyped, SafeKernel};
use cuda_std::param::ByValue;
use cuda_std::random::Philox4x32;
use cuda_std::{Float, SliceMut};

use super::{Number, Real};
use crate::{create, random};

/// Ranges of elements of this type.
pub trait Range: create::Range<Exact: ByValue> + Send + Sync {
    /// The kernel.
    #[doc(hidden)]
    type Kernel: SafeKernel<Params = RangeParams<Self>>;

    /// How many of `start, start + step, …` lie before `end`, if there are fewer than 2^63, the step is not 0, and all
    /// three are finite.
    #[doc(hidden)]
    fn steps(start: Self, end: Self, step: Self) -> Option<usize>;
}

/// The parameters of [`range`](fn@create::range).
type RangeParams<T> = (
    <T as create::Range>::Exact,
    <T as create::Range>::Exact,
    T,
    SliceMut<'static, T>,
);

/// The element types of uniform and normal random numbers: `f32` and `f64`.
pub trait RandomFloat: Real + Float {
    /// Numbers that a block of the generator makes.
    #[doc(hidden)]
    const PER_BLOCK: u64;
    /// The kernel of uniform ones.
    #[doc(hidden)]
    type Uniform: SafeKernel<Params = (Philox4x32, Self, Self, Self, SliceMut<'static, Self>)>;
    /// The kernel of normal ones.
    #[doc(hidden)]
    type Normal: SafeKernel<Params = (Philox4x32, Self, Self, SliceMut<'static, Self>)>;

    /// The greatest number below this one, which is finite.
    #[doc(hidden)]
    fn below(self) -> Self;
}

/// The element types of random integers: `i32`, `i64`, `u32` and `u64`.
pub trait RandomInteger: Number + Pod + Ord {
    /// Integers that a block of the generator makes.
    #[doc(hidden)]
    const PER_BLOCK: u64;
    /// The kernel.
    #[doc(hidden)]
    type Integers: SafeKernel<Params = (Philox4x32, Self, Self, SliceMut<'static, Self>)>;
    /// The number before and the number after, if there are.
    #[doc(hidden)]
    fn neighbours(self) -> [Option<Self>; 2];
}

/// NumPy's count: the quotient is rounded, so that `end` may be one of the elements.
fn steps_of_floats([start, end, step]: [f64; 3]) -> Option<usize> {
    let steps = ((end - start) / step).ceil();
    let possible = start.is_finite() && end.is_finite() && step.is_finite() && step != 0.0;
    // 2^63
    (possible && steps < 9_223_372_036_854_775_808.0).then_some(steps as usize)
}

fn steps_of_integers([start, end, step]: [i128; 3]) -> Option<usize> {
    let span = if step < 0 { start - end } else { end - start };
    let step = step.unsigned_abs();
    if step == 0 {
        return None;
    }
    let steps = usize::try_from(u128::try_from(span).unwrap_or(0).div_ceil(step)).ok()?;
    isize::try_from(steps).is_ok().then_some(steps)
}

macro_rules! made {
    (range: $steps:ident($wide:ident): $($type:ident as $bits:ident),*) => {$(
        impl Range for $type {
            type Kernel = Retyped<create::range<$bits, <$bits as create::Range>::Exact>, RangeParams<$type>>;

            fn steps(start: Self, end: Self, step: Self) -> Option<usize> {
                $steps([start, end, step].map($wide::from))
            }
        }
    )*};
    (float: $($type:ident by $n:literal),*) => {$(
        impl RandomFloat for $type {
            const PER_BLOCK: u64 = $n;
            type Uniform = random::uniform<$type, $n>;
            type Normal = random::normal<$type, $n>;

            fn below(self) -> Self {
                self.next_down()
            }
        }
    )*};
    (integer: $($type:ident as $bits:ident by $n:literal),*) => {$(
        impl RandomInteger for $type {
            const PER_BLOCK: u64 = $n;
            type Integers = Retyped<
                random::integers<$bits, $n>,
                (Philox4x32, $type, $type, SliceMut<'static, $type>),
            >;

            fn neighbours(self) -> [Option<Self>; 2] {
                [self.checked_sub(1), self.checked_add(1)]
            }
        }
    )*};
}

made!(range: steps_of_floats(f64): f32 as f32, f64 as f64, f16 as f16, bf16 as bf16);
made!(range: steps_of_integers(i128): i32 as u32, i64 as u64, u8 as u8, u16 as u16, u32 as u32, u64 as u64);
made!(float: f32 by 4, f64 by 2);
made!(integer: i32 as u32 by 4, u32 as u32 by 4, i64 as u64 by 2, u64 as u64 by 2);
