// SPDX-License-Identifier: MIT OR Apache-2.0
//! Matrix products of a warp, by the tensor cores of Ampere and later (`mma.sync`).
//!
//! The 32 lanes multiply together: D = A · B + C, where each lane has some elements of each matrix, its *fragments*, in
//! registers. [`Mma`] says for each element type how large the matrices are and what a lane has of them:
//!
//! | elements of A and B | of C and D | M × N × K | `A` | `B` | `C` |
//! |---|---|---|---|---|---|
//! | [`bf16`], [`f16`](struct@f16) | f32 | 16 × 8 × 16 | `[u32; 4]`, two elements each | `[u32; 2]` | `[f32; 4]` |
//! | [`Tf32`] | f32 | 16 × 8 × 8 | `[f32; 4]` | `[f32; 2]` | `[f32; 4]` |
//! | `f64` | f64 | 8 × 8 × 4 | `[f64; 1]` | `[f64; 1]` | `[f64; 2]` |
//! | [`F64M16N8K8`] | f64 | 16 × 8 × 8 | `[f64; 4]` | `[f64; 2]` | `[f64; 4]` |
//!
//! Of two elements in a word, that of the lower k is in the lower half, as [`half::pack`](crate::half::pack) and
//! [`ldmatrix_x4`](crate::matrix::ldmatrix_x4) have them: the four matrices of 8 × 8 that it loads from a 16 × 16 part of A
//! (by rows) are the upper left, lower left, upper right and lower right one.
//!
//! GPU: compute 8.0 or later, [`F64M16N8K8`] 9.0 or later. Source: PTX ISA, "Warp Level Matrix Multiply-Accumulate Instructions: mma".
//!
//! # Rounding
//!
//! Of 16-bit types and `Tf32` products are exact and added in f32, in an order that nobody specifies; of `Tf32` the lowest
//! 13 bits of an f32 are ignored. Those of `f64` are fused multiplications and additions, each rounded to nearest; on the
//! simulated GPU they are in the order of k, which for the hardware no document says.
//!
//! # Convergence
//!
//! All lanes of the warp reach the same call.

use half::{bf16, f16};

use crate::machine;
use crate::wgmma::Tf32;

mod sealed {
    pub trait Sealed {}
    impl Sealed for half::bf16 {}
    impl Sealed for half::f16 {}
    impl Sealed for crate::wgmma::Tf32 {}
    impl Sealed for f64 {}
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

    /// Row and column of element `i` of A that `lane` has; of two in a word, the lower one counts first.
    fn place_a(lane: u32, i: u32) -> (u32, u32);

    /// Row and column of element `i` of B that `lane` has; of two in a word, the lower one counts first.
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
