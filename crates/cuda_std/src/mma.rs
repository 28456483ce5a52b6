// SPDX-License-Identifier: MIT OR Apache-2.0
//! Matrix products of a warp, by the tensor cores of Turing and later (`mma.sync`).
//!
//! The 32 lanes multiply together: D = A · B + C, where each lane has some elements of each matrix, its *fragments*, in
//! registers. [`Mma`] says for each element type how large the matrices are and what a lane has of them:
//!
//! | elements of A and B | of C and D | M × N × K | `A` | `B` | `C` | compute |
//! |---|---|---|---|---|---|---|
//! | [`bf16`], [`f16`](struct@f16) | f32 | 16 × 8 × 16 | `[u32; 4]`, two elements each | `[u32; 2]` | `[f32; 4]` | 8.0 |
//! | [`F16M16N8K8`] | f32 | 16 × 8 × 8 | `[u32; 2]`, two elements each | `[u32; 1]` | `[f32; 4]` | 7.5 |
//! | [`Tf32`] | f32 | 16 × 8 × 8 | `[f32; 4]` | `[f32; 2]` | `[f32; 4]` | 8.0 |
//! | `i8` | i32 | 16 × 8 × 32 | `[u32; 4]`, four elements each | `[u32; 2]` | `[i32; 4]` | 8.0 |
//! | [`I8M8N8K16`] | i32 | 8 × 8 × 16 | `[u32; 1]`, four elements each | `[u32; 1]` | `[i32; 2]` | 7.5 |
//! | a pair of [8-bit floats](crate::float8): that of A, that of B | f32 | 16 × 8 × 32 | `[u32; 4]`, four elements each | `[u32; 2]` | `[f32; 4]` | 8.9 |
//! | `f64` | f64 | 8 × 8 × 4 | `[f64; 1]` | `[f64; 1]` | `[f64; 2]` | 8.0 |
//! | [`F64M16N8K8`] | f64 | 16 × 8 × 8 | `[f64; 4]` | `[f64; 2]` | `[f64; 4]` | 9.0 |
//!
//! Of several elements in a word, that of the lowest k is in the lowest bits. Those of 16 bits lie as
//! [`half::pack`](crate::half::pack) and [`ldmatrix_x4`](crate::matrix::ldmatrix_x4) have them: the four matrices of 8 × 8
//! that it loads from a 16 × 16 part of A (by rows) are the upper left, lower left, upper right and lower right one.
//!
//! GPU: that compute capability or later. Source: PTX ISA, "Warp Level Matrix Multiply-Accumulate Instructions: mma".
//!
//! # Rounding
//!
//! Of 16-bit types and `Tf32` products are exact and added in f32, in an order that nobody specifies; of `Tf32` the lowest
//! 13 bits of an f32 are ignored. Those of `f64` are fused multiplications and additions, each rounded to nearest; on the
//! simulated GPU they are in the order of k, which for the hardware no document says. Sums of integers are exact, modulo 2^32.
//!
//! Products of 8-bit floats are added with fewer bits than f32 has, as [`wgmma`](crate::wgmma#rounding) adds them. The
//! simulated GPU adds them in f32.
//!
//! # Convergence
//!
//! All lanes of the warp reach the same call.

use half::{bf16, f16};

use crate::float8::{F8E4M3, F8E5M2};
use crate::machine;
use crate::wgmma::Tf32;

mod sealed {
    use crate::float8::{F8E4M3, F8E5M2};

    pub trait Sealed {}
    impl Sealed for half::bf16 {}
    impl Sealed for half::f16 {}
    impl Sealed for crate::wgmma::Tf32 {}
    impl Sealed for f64 {}
    impl Sealed for i8 {}
    impl Sealed for (F8E4M3, F8E4M3) {}
    impl Sealed for (F8E4M3, F8E5M2) {}
    impl Sealed for (F8E5M2, F8E4M3) {}
    impl Sealed for (F8E5M2, F8E5M2) {}
    impl Sealed for super::F16M16N8K8 {}
    impl Sealed for super::I8M8N8K16 {}
    impl Sealed for super::F64M16N8K8 {}
}

/// An element type of A and B. See the [module](self).
pub trait Mma: sealed::Sealed {
    /// What a lane has of A.
    type A: Copy;
    /// What a lane has of B.
    type B: Copy;
    /// What a lane has of C and D.
    type C: Copy;
    /// The extent along K.
    const K: u32;
    /// The rows of A, C and D. B, C and D have 8 columns.
    const M: u32;

    /// Row and column of element `i` of A that `lane` has; of several in a word, the lowest one counts first.
    fn place_a(lane: u32, i: u32) -> (u32, u32);

    /// Row and column of element `i` of B that `lane` has; of several in a word, the lowest one counts first.
    fn place_b(lane: u32, i: u32) -> (u32, u32);

    /// Row and column of element `i` of C and D that `lane` has.
    #[inline(always)]
    fn place_c(lane: u32, i: u32) -> (u32, u32) {
        (lane / 4 + i / 2 * 8, lane % 4 * 2 + i % 2)
    }

    /// [`mma`]
    #[doc(hidden)]
    #[track_caller]
    fn mma(a: Self::A, b: Self::B, c: Self::C) -> Self::C;
}

macro_rules! sixteen_bits {
    ($($type:ident $mma:ident)*) => {$(
        impl Mma for $type {
            type A = [u32; 4];
            type B = [u32; 2];
            type C = [f32; 4];
            const K: u32 = 16;
            const M: u32 = 16;

            #[inline(always)]
            fn place_a(lane: u32, i: u32) -> (u32, u32) {
                (lane / 4 + i / 2 % 2 * 8, lane % 4 * 2 + i % 2 + i / 4 * 8)
            }

            #[inline(always)]
            fn place_b(lane: u32, i: u32) -> (u32, u32) {
                (lane % 4 * 2 + i % 2 + i / 2 * 8, lane / 4)
            }

            #[inline(always)]
            fn mma(a: [u32; 4], b: [u32; 2], c: [f32; 4]) -> [f32; 4] {
                machine::$mma(a, b, c)
            }
        }
    )*};
}

sixteen_bits! { bf16 mma_bf16 f16 mma_f16 }

macro_rules! eight_bits {
    ($($type:ty, $sum:ident, $mma:ident;)*) => {$(
        impl Mma for $type {
            type A = [u32; 4];
            type B = [u32; 2];
            type C = [$sum; 4];
            const K: u32 = 32;
            const M: u32 = 16;

            #[inline(always)]
            fn place_a(lane: u32, i: u32) -> (u32, u32) {
                (lane / 4 + i / 4 % 2 * 8, lane % 4 * 4 + i % 4 + i / 8 * 16)
            }

            #[inline(always)]
            fn place_b(lane: u32, i: u32) -> (u32, u32) {
                (lane % 4 * 4 + i % 4 + i / 4 * 16, lane / 4)
            }

            #[inline(always)]
            fn mma(a: [u32; 4], b: [u32; 2], c: [$sum; 4]) -> [$sum; 4] {
                machine::$mma(a, b, c)
            }
        }
    )*};
}

eight_bits! {
    i8, i32, mma_i8;
    (F8E4M3, F8E4M3), f32, mma_e4m3_e4m3;
    (F8E4M3, F8E5M2), f32, mma_e4m3_e5m2;
    (F8E5M2, F8E4M3), f32, mma_e5m2_e4m3;
    (F8E5M2, F8E5M2), f32, mma_e5m2_e5m2;
}

impl Mma for Tf32 {
    type A = [f32; 4];
    type B = [f32; 2];
    type C = [f32; 4];
    const K: u32 = 8;
    const M: u32 = 16;

    #[inline(always)]
    fn place_a(lane: u32, i: u32) -> (u32, u32) {
        (lane / 4 + i % 2 * 8, lane % 4 + i / 2 * 4)
    }

    #[inline(always)]
    fn place_b(lane: u32, i: u32) -> (u32, u32) {
        (lane % 4 + i * 4, lane / 4)
    }

    #[inline(always)]
    fn mma(a: [f32; 4], b: [f32; 2], c: [f32; 4]) -> [f32; 4] {
        machine::mma_tf32(a, b, c)
    }
}

impl Mma for f64 {
    type A = [f64; 1];
    type B = [f64; 1];
    type C = [f64; 2];
    const K: u32 = 4;
    const M: u32 = 8;

    #[inline(always)]
    fn place_a(lane: u32, _: u32) -> (u32, u32) {
        (lane / 4, lane % 4)
    }

    #[inline(always)]
    fn place_b(lane: u32, _: u32) -> (u32, u32) {
        (lane % 4, lane / 4)
    }

    #[inline(always)]
    fn mma(a: [f64; 1], b: [f64; 1], c: [f64; 2]) -> [f64; 2] {
        machine::mma_f64(a, b, c)
    }
}

/// Elements of `f16`, of which an instruction takes fewer than with `f16` itself: the one that Turing has. Two of them, with the
/// first and the last two words of A and the first and the last word of B, make one of the others.
///
/// ```
/// use cuda_std::half::{self, f16};
/// use cuda_std::mma::{F16M16N8K8, Mma, mma};
/// use cuda_std::prelude::*;
///
/// /// The product of 16 × 8 by 8 × 8 numbers, each by rows.
/// #[kernel(max_threads = 32)]
/// pub fn multiply(x: &[f32], y: &[f32], out: SliceMut<'_, f32>) {
///     let lane = warp::lane_id();
///     let at = |(row, column): (u32, u32)| (row * 8 + column) as usize;
///     let a = |i| x[at(F16M16N8K8::place_a(lane, i))];
///     let b = |i| y[at(F16M16N8K8::place_b(lane, i))];
///     let a = [half::pack::<f16>(a(0), a(1)), half::pack::<f16>(a(2), a(3))];
///     let d = mma::<F16M16N8K8>(a, [half::pack::<f16>(b(0), b(1))], [0.0; 4]);
///     for i in 0..4 {
///         out.set(at(F16M16N8K8::place_c(lane, i)), d[i as usize]);
///     }
/// }
/// # let x: Vec<f32> = (0..128).map(|i| i as f32).collect();
/// # let y: Vec<f32> = (0..64).map(|i| (i % 7) as f32).collect();
/// # let mut out = [0.0; 128];
/// # cuda_std::launch::on_simulator(1, 32, &mut out, |out| multiply(&x, &y, out));
/// assert!((0..128).all(|i| out[i] == (0..8).map(|k| x[i / 8 * 8 + k] * y[k * 8 + i % 8]).sum::<f32>()));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct F16M16N8K8;

impl Mma for F16M16N8K8 {
    type A = [u32; 2];
    type B = [u32; 1];
    type C = [f32; 4];
    const K: u32 = 8;
    const M: u32 = 16;

    #[inline(always)]
    fn place_a(lane: u32, i: u32) -> (u32, u32) {
        f16::place_a(lane, i)
    }

    #[inline(always)]
    fn place_b(lane: u32, i: u32) -> (u32, u32) {
        f16::place_b(lane, i)
    }

    #[inline(always)]
    fn mma(a: [u32; 2], b: [u32; 1], c: [f32; 4]) -> [f32; 4] {
        machine::mma_f16_m16n8k8(a, b, c)
    }
}

/// Elements of `i8`, of which an instruction takes fewer than with `i8` itself: the one that Turing has. Four of them, each with
/// one word of A and one of B, make one of the others.
///
/// ```
/// use cuda_std::mma::{I8M8N8K16, Mma, mma};
/// use cuda_std::prelude::*;
///
/// /// The product of 8 × 16 numbers, by rows, and 16 × 8, by columns.
/// #[kernel(max_threads = 32)]
/// pub fn multiply(x: &[i8], y: &[i8], out: SliceMut<'_, i32>) {
///     let lane = warp::lane_id();
///     let word = |of: &[i8], at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|i| of[at + i] as u8));
///     let (row, k) = I8M8N8K16::place_a(lane, 0);
///     let a = word(x, (row * 16 + k) as usize);
///     let (k, column) = I8M8N8K16::place_b(lane, 0);
///     let b = word(y, (column * 16 + k) as usize);
///     let d = mma::<I8M8N8K16>([a], [b], [0; 2]);
///     for i in 0..2 {
///         let (row, column) = I8M8N8K16::place_c(lane, i);
///         out.set((row * 8 + column) as usize, d[i as usize]);
///     }
/// }
/// # let x: Vec<i8> = (0..128u8).map(|i| i.wrapping_mul(37) as i8).collect();
/// # let y: Vec<i8> = (0..128u8).map(|i| i.wrapping_mul(101) as i8).collect();
/// # let mut out = [0; 64];
/// # cuda_std::launch::on_simulator(1, 32, &mut out, |out| multiply(&x, &y, out));
/// let dot = |i: usize, j: usize| (0..16).map(|k| i32::from(x[i * 16 + k]) * i32::from(y[j * 16 + k])).sum::<i32>();
/// assert!((0..64).all(|i| out[i] == dot(i / 8, i % 8)));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct I8M8N8K16;

impl Mma for I8M8N8K16 {
    type A = [u32; 1];
    type B = [u32; 1];
    type C = [i32; 2];
    const K: u32 = 16;
    const M: u32 = 8;

    #[inline(always)]
    fn place_a(lane: u32, i: u32) -> (u32, u32) {
        <i8 as Mma>::place_a(lane, i)
    }

    #[inline(always)]
    fn place_b(lane: u32, i: u32) -> (u32, u32) {
        <i8 as Mma>::place_b(lane, i)
    }

    #[inline(always)]
    fn mma(a: [u32; 1], b: [u32; 1], c: [i32; 2]) -> [i32; 2] {
        machine::mma_i8_m8n8k16(a, b, c)
    }
}

/// Elements of `f64`, of which an instruction takes more than with `f64` itself: Hopper is half as fast with its 8 × 8 × 4.
///
/// ```
/// use cuda_std::mma::{F64M16N8K8, Mma, mma};
/// use cuda_std::prelude::*;
///
/// /// The product of 16 × 8 by 8 × 8 numbers, each by rows.
/// #[kernel(max_threads = 32)]
/// pub fn multiply(x: &[f64], y: &[f64], out: SliceMut<'_, f64>) {
///     let lane = warp::lane_id();
///     let at = |(row, column): (u32, u32)| (row * 8 + column) as usize;
///     let a = [0, 1, 2, 3].map(|i| x[at(F64M16N8K8::place_a(lane, i))]);
///     let b = [0, 1].map(|i| y[at(F64M16N8K8::place_b(lane, i))]);
///     let d = mma::<F64M16N8K8>(a, b, [0.0; 4]);
///     for i in 0..4 {
///         out.set(at(F64M16N8K8::place_c(lane, i)), d[i as usize]);
///     }
/// }
/// # let x: Vec<f64> = (0..128).map(f64::from).collect();
/// # let y: Vec<f64> = (0..64).map(|i| f64::from(i % 7)).collect();
/// # let mut out = [0.0; 128];
/// # cuda_std::launch::on_simulator(1, 32, &mut out, |out| multiply(&x, &y, out));
/// assert!((0..128).all(|i| out[i] == (0..8).map(|k| x[i / 8 * 8 + k] * y[k * 8 + i % 8]).sum::<f64>()));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct F64M16N8K8;

impl Mma for F64M16N8K8 {
    type A = [f64; 4];
    type B = [f64; 2];
    type C = [f64; 4];
    const K: u32 = 8;
    const M: u32 = 16;

    #[inline(always)]
    fn place_a(lane: u32, i: u32) -> (u32, u32) {
        (lane / 4 + i % 2 * 8, lane % 4 + i / 2 * 4)
    }

    #[inline(always)]
    fn place_b(lane: u32, i: u32) -> (u32, u32) {
        (lane % 4 + i * 4, lane / 4)
    }

    #[inline(always)]
    fn mma(a: [f64; 4], b: [f64; 2], c: [f64; 4]) -> [f64; 4] {
        machine::mma_f64_m16n8k8(a, b, c)
    }
}

/// A number of which an instruction, which ignores the lowest 13 bits, takes the [`Tf32`] nearest to `x`, ties away from zero:
/// what `cvt.rna.tf32.f32` does, in two instructions. An infinity stays, and NaN stays NaN.
///
/// ```
/// use cuda_std::mma::nearest_tf32;
///
/// let taken = |x: f32| f32::from_bits(nearest_tf32(x).to_bits() & !0x1fff);
/// let step = 2f32.powi(-10);
/// assert_eq!([1.0 + 0.4 * step, 1.0 + 0.5 * step, -1.0 - 0.6 * step].map(taken), [1.0, 1.0 + step, -1.0 - step]);
/// assert!(nearest_tf32(f32::from_bits(0x7fff_ffff)).is_nan());
/// assert_eq!(taken(f32::NEG_INFINITY), f32::NEG_INFINITY);
/// ```
#[inline(always)]
pub fn nearest_tf32(x: f32) -> f32 {
    machine::nearest_tf32(x)
}

/// [`nearest_tf32`] of two numbers that are factors of the same sum, in three instructions. Where one of them is NaN, so is the
/// sum, and both stay as they are; an infinity may get lowest bits, which the instruction ignores.
///
/// ```
/// use cuda_std::mma::nearest_tf32_of_two;
///
/// let taken = |two: [f32; 2]| nearest_tf32_of_two(two).map(|x| f32::from_bits(x.to_bits() & !0x1fff));
/// let step = 2f32.powi(-10);
/// assert_eq!(taken([1.0 + 0.5 * step, f32::INFINITY]), [1.0 + step, f32::INFINITY]);
/// assert_eq!(taken([1.0 + 0.4 * step, -1.0 - 0.6 * step]), [1.0, -1.0 - step]);
/// let [nan, one] = taken([f32::from_bits(0x7fff_ffff), 1.0 + 0.6 * step]);
/// assert!(nan.is_nan() && one == 1.0);
/// ```
#[inline(always)]
pub fn nearest_tf32_of_two(two: [f32; 2]) -> [f32; 2] {
    machine::nearest_tf32_of_two(two)
}

/// A · B + `c`, by one instruction.
///
/// ```
/// use cuda_std::mma::{Mma, mma};
/// use cuda_std::prelude::*;
///
/// /// The product of 8 × 4 by 4 × 8 numbers, each by rows.
/// #[kernel(max_threads = 32)]
/// pub fn multiply(x: &[f64], y: &[f64], out: SliceMut<'_, f64>) {
///     let lane = warp::lane_id();
///     let at = |(row, column): (u32, u32), columns: u32| (row * columns + column) as usize;
///     let (a, b) = (x[at(f64::place_a(lane, 0), 4)], y[at(f64::place_b(lane, 0), 8)]);
///     let d = mma::<f64>([a], [b], [0.0; 2]);
///     for i in 0..2 {
///         out.set(at(f64::place_c(lane, i), 8), d[i as usize]);
///     }
/// }
/// # let x: Vec<f64> = (0..32).map(f64::from).collect();
/// # let y: Vec<f64> = (0..32).map(|i| f64::from(i % 7)).collect();
/// # let mut out = [0.0; 64];
/// # cuda_std::launch::on_simulator(1, 32, &mut out, |out| multiply(&x, &y, out));
/// assert!((0..64).all(|i| out[i] == (0..4).map(|k| x[i / 8 * 4 + k] * y[k * 8 + i % 8]).sum::<f64>()));
/// ```
#[inline(always)]
#[track_caller]
pub fn mma<T: Mma>(a: T::A, b: T::B, c: T::C) -> T::C {
    T::mma(a, b, c)
}
