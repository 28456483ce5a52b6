// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is multiplied, and by which instructions: numbers, and the generation of GPUs that has tensor cores for them.
//!
//! Whatever the numbers are, a warp multiplies 16 lines by 8, and 32 bytes of k, with as many words in its lanes' registers: by
//! one instruction, or by two or four smaller ones.

use bytemuck::Pod;
use cuda_std::float8::{F8E4M3, F8E5M2};
use cuda_std::half::{bf16, f16};
use cuda_std::mma::{self, F16M16N8K8, I8M8N8K16, mma};
use cuda_std::wgmma::{Operand, Tf32};

use crate::num::Num;

/// GPUs of a generation and later: how a kernel for them copies, and how it shares out a tile.
pub trait Generation {
    /// Whether copies to shared memory pass no register.
    const ASYNC: bool;

    /// Columns of a warp's tile at most. Narrow tiles leave registers for what else a thread has to keep.
    const WARP_COLUMNS: usize;
}

/// From compute capability 7.5 on. A stage's pieces are in registers while they are on their way.
pub struct Turing;

impl Generation for Turing {
    const ASYNC: bool = false;
    const WARP_COLUMNS: usize = 32;
}

/// From compute capability 8.0 on.
pub struct Ampere;

impl Generation for Ampere {
    const ASYNC: bool = true;
    const WARP_COLUMNS: usize = 64;
}

/// From compute capability 8.0 on, where a thread has more registers to keep than sums of 32 bits alone.
pub struct Narrow;

impl Generation for Narrow {
    const ASYNC: bool = true;
    const WARP_COLUMNS: usize = 32;
}

/// Numbers that GPUs from generation `G` on multiply.
pub trait Multiply<G> {
    /// As memory has them.
    type Element: Pod;
    /// What they are summed in.
    type Sum: Num;
    /// A fragment of `A`.
    type A: Copy;
    /// A fragment of `B`.
    type B: Copy;

    /// Instructions along the 32 bytes of k, one after another for each sum: a warp does one for all its sums before the next,
    /// which waits for the one before.
    const STEPS: usize = 1;

    /// Words of a fragment of `A` as they were read, rounded to what the instruction takes: two at a time, or each by itself.
    #[inline(always)]
    fn rounded_a(words: [u32; 4], _by_twos: bool) -> [u32; 4] {
        words
    }

    /// The same of two fragments of `B`.
    #[inline(always)]
    fn rounded_b(words: [u32; 4], _by_twos: bool) -> [u32; 4] {
        words
    }

    /// A fragment of `A`, of rounded words: of the first eight lines and of the others, in the first half of the bytes along k,
    /// then in the second.
    fn a(words: [u32; 4]) -> Self::A;

    /// A fragment of `B`: in the first half of the bytes, and in the second.
    fn b(words: [u32; 2]) -> Self::B;

    /// Adds the products of a step.
    fn multiply(step: usize, a: Self::A, b: Self::B, sums: [Self::Sum; 4]) -> [Self::Sum; 4];
}

/// Numbers that are multiplied from Ampere on, and summed in f32: `f16`, `bf16`, and [`Tf32`], which in memory is `f32`.
pub trait Input: Operand + Multiply<Ampere, Element = <Self as Operand>::Element, Sum = f32> {}

impl<T: Operand + Multiply<Ampere, Element = <T as Operand>::Element, Sum = f32>> Input for T {}

impl Multiply<Ampere> for Tf32 {
    type Element = f32;
    type Sum = f32;
    type A = [f32; 4];
    type B = [f32; 2];

    #[inline(always)]
    fn rounded_a([low0, low1, high0, high1]: [u32; 4], by_twos: bool) -> [u32; 4] {
        let ([low0, high0], [low1, high1]) = (nearest([low0, high0], by_twos), nearest([low1, high1], by_twos));
        [low0, low1, high0, high1]
    }

    #[inline(always)]
    fn rounded_b([low0, high0, low1, high1]: [u32; 4], by_twos: bool) -> [u32; 4] {
        let ([low0, high0], [low1, high1]) = (nearest([low0, high0], by_twos), nearest([low1, high1], by_twos));
        [low0, high0, low1, high1]
    }

    #[inline(always)]
    fn a(words: [u32; 4]) -> [f32; 4] {
        cuda_std::array::map(words, f32::from_bits)
    }

    #[inline(always)]
    fn b(words: [u32; 2]) -> [f32; 2] {
        cuda_std::array::map(words, f32::from_bits)
    }

    #[inline(always)]
    fn multiply(_: usize, a: [f32; 4], b: [f32; 2], sums: [f32; 4]) -> [f32; 4] {
        mma::<Tf32>(a, b, sums)
    }
}

/// The words of two numbers of the same line, rounded to TF32.
#[inline(always)]
fn nearest(two: [u32; 2], by_twos: bool) -> [u32; 2] {
    let two = cuda_std::array::map(two, f32::from_bits);
    let rounded = match by_twos {
        true => mma::nearest_tf32_of_two(two),
        false => cuda_std::array::map(two, mma::nearest_tf32),
    };
    cuda_std::array::map(rounded, f32::to_bits)
}

/// Numbers whose fragments are the words: how they are multiplied from a generation on.
macro_rules! words {
    ($($type:ty, $generation:ident: $element:ident to $sum:ident, $steps:literal by $multiply:expr;)*) => {$(
        impl Multiply<$generation> for $type {
            const STEPS: usize = $steps;
            type Element = $element;
            type Sum = $sum;
            type A = [u32; 4];
            type B = [u32; 2];

            #[inline(always)]
            fn a(words: [u32; 4]) -> [u32; 4] {
                words
            }

            #[inline(always)]
            fn b(words: [u32; 2]) -> [u32; 2] {
                words
            }

            #[inline(always)]
            fn multiply(step: usize, a: [u32; 4], b: [u32; 2], sums: [$sum; 4]) -> [$sum; 4] {
                $multiply(step, a, b, sums)
            }
        }
    )*};
}

words! {
    f16, Ampere: f16 to f32, 1 by |_, a, b, sums| mma::<f16>(a, b, sums);
    bf16, Ampere: bf16 to f32, 1 by |_, a, b, sums| mma::<bf16>(a, b, sums);
    i8, Ampere: u8 to i32, 1 by |_, a, b, sums| mma::<i8>(a, b, sums);
    f16, Turing: f16 to f32, 2 by f16_on_turing;
    i8, Turing: u8 to i32, 2 by i8_on_turing;
    (F8E4M3, F8E4M3), Narrow: u8 to f32, 1 by |_, a, b, sums| mma::<(F8E4M3, F8E4M3)>(a, b, sums);
    (F8E4M3, F8E5M2), Narrow: u8 to f32, 1 by |_, a, b, sums| mma::<(F8E4M3, F8E5M2)>(a, b, sums);
    (F8E5M2, F8E4M3), Narrow: u8 to f32, 1 by |_, a, b, sums| mma::<(F8E5M2, F8E4M3)>(a, b, sums);
}

impl Multiply<Narrow> for f64 {
    type Element = f64;
    type Sum = f64;
    type A = [f64; 2];
    type B = f64;

    #[inline(always)]
    fn a(words: [u32; 4]) -> [f64; 2] {
        [double([words[0], words[1]]), double([words[2], words[3]])]
    }

    #[inline(always)]
    fn b(words: [u32; 2]) -> f64 {
        double(words)
    }

    /// By one instruction for either eight lines of `A`.
    #[inline(always)]
    fn multiply(_: usize, a: [f64; 2], b: f64, [d0, d1, d2, d3]: [f64; 4]) -> [f64; 4] {
        let [d0, d1] = mma::<f64>([a[0]], [b], [d0, d1]);
        let [d2, d3] = mma::<f64>([a[1]], [b], [d2, d3]);
        [d0, d1, d2, d3]
    }
}

/// The number of two words.
#[inline(always)]
fn double([low, high]: [u32; 2]) -> f64 {
    f64::from_bits(u64::from(low) | u64::from(high) << 32)
}

/// By one instruction for either half of k.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
fn f16_on_turing(half: usize, a: [u32; 4], b: [u32; 2], sums: [f32; 4]) -> [f32; 4] {
    mma::<F16M16N8K8>([a[2 * half], a[2 * half + 1]], [b[half]], sums)
}

/// By one instruction for either half of k and of the lines of `A`.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
fn i8_on_turing(half: usize, a: [u32; 4], b: [u32; 2], [d0, d1, d2, d3]: [i32; 4]) -> [i32; 4] {
    let [d0, d1] = mma::<I8M8N8K16>([a[2 * half]], [b[half]], [d0, d1]);
    let [d2, d3] = mma::<I8M8N8K16>([a[2 * half + 1]], [b[half]], [d2, d3]);
    [d0, d1, d2, d3]
}
