// SPDX-License-Identifier: MIT OR Apache-2.0
//! How matrices lie in shared memory, and where.

use core::marker::PhantomData;

use bytemuck::Pod;
use half::{bf16, f16};

use super::operand::Operand;
use super::sealed::Sealed;
use crate::machine::{self, Major};
use crate::shared::Shared;
use crate::tma::Swizzle;

/// How a matrix of `T` lies in shared memory: [`KMajor`], [`KMajorPieces`] or, of 16-bit elements, [`MnMajor`]. See the [module](super).
#[diagnostic::on_unimplemented(
    message = "the tensor cores take no `{T}` that lies `{Self}`",
    note = "16-bit elements lie `KMajor` or `MnMajor`, all others `KMajor`"
)]
pub trait Layout<T>: Sealed + Major {}

/// Neighbours along K are neighbours in memory: A by rows, B by columns.
#[derive(Clone, Copy, Debug)]
pub struct KMajor;

/// Neighbours along M or N are neighbours in memory: A by columns, B by rows.
#[derive(Clone, Copy, Debug)]
pub struct MnMajor;

/// [`MnMajor`] in boxes of 32 elements, with 64-byte swizzle.
#[derive(Clone, Copy, Debug)]
pub struct MnMajorB64;

impl Sealed for KMajor {}

impl Major for KMajor {
    const TRANSPOSED: i32 = 0;
    const SWIZZLE: Swizzle = Swizzle::B128;
}

impl<T: Operand> Layout<T> for KMajor {}

/// [`KMajor`] in pieces of 16 bytes, without swizzle: those of neighbouring rows are neighbours, and a matrix begins with any of them.
///
/// A plane has the first 8 of 16 numbers of each row, another one the others; so what a filter of two taps reads is the same planes, a
/// piece further on:
///
/// ```
/// use cuda_std::half::{self, bf16};
/// use cuda_std::prelude::*;
/// use cuda_std::tma;
/// use cuda_std::wgmma::{Accumulator, KMajorPieces, MatrixDescriptor};
///
/// /// `x` has 65 rows of 16 numbers, `w` two taps of 32 columns of as many; row `i` of `d` is the sum of the products of rows `i` and
/// /// `i + 1`. For one block of 128 threads.
/// #[kernel(max_threads = 128)]
/// pub fn filter(x: &[f32], w: &[f32], d: SliceMut<'_, f32>) {
///     const PLANE: usize = 72 * 8;
///     let rows = shared_array![bf16; 2 * PLANE + 64].aligned::<128>();
///     let taps = shared_array![bf16; 2 * 2 * 32 * 8 + 64].aligned::<128>();
///     let t = thread::thread_idx_x() as usize;
///     for i in (t..65 * 16).step_by(128) {
///         rows.set(i % 16 / 8 * PLANE + i / 16 * 8 + i % 8, half::bf16_from_f32(x[i]));
///     }
///     for i in (t..64 * 16).step_by(128) {
///         taps.set(i % 16 / 8 * 64 * 8 + i / 16 * 8 + i % 8, half::bf16_from_f32(w[i]));
///     }
///     tma::fence_async();
///     thread::sync_threads();
///     let a = MatrixDescriptor::<bf16, KMajorPieces>::new(rows, 2 * PLANE as u32, 128);
///     let b = MatrixDescriptor::<bf16, KMajorPieces>::new(taps, 64 * 16, 128);
///     // SAFETY: all is written, and stays as it is until the wait.
///     let sums = unsafe {
///         let sums = Accumulator::<16>::zero().start().mma(a, b);
///         sums.mma(a.advance(16), b.advance(32 * 16)).commit().wait()
///     };
///     let (row, column) = Accumulator::<16>::place(t as u32, 3);
///     d.set((row * 32 + column) as usize, sums.get::<3>());
/// }
/// # let x: Vec<f32> = (0..65 * 16).map(|i| (i % 7) as f32).collect();
/// # let w: Vec<f32> = (0..64 * 16).map(|i| (i % 5) as f32 - 1.0).collect();
/// # let mut d = vec![f32::NAN; 64 * 32];
/// # cuda_std::launch::on_simulator(1, 128, &mut d, |d| filter(&x, &w, d));
/// # let dot = |i: usize, j: usize| (0..16).map(|k| x[i * 16 + k] * w[j * 16 + k]).sum::<f32>();
/// // Thread 37 has an element of row 25.
/// let (row, column) = (25, 3);
/// assert_eq!(Accumulator::<16>::place(37, 3), (25, 3));
/// assert_eq!(d[row * 32 + column], dot(row, column) + dot(row + 1, 32 + column));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct KMajorPieces;

impl Sealed for KMajorPieces {}

impl Major for KMajorPieces {
    const TRANSPOSED: i32 = 0;
    const SWIZZLE: Swizzle = Swizzle::None;
}

impl<T: Operand> Layout<T> for KMajorPieces {}

macro_rules! mn_major {
    ($($layout:ident $swizzle:ident;)*) => {$(
        impl Sealed for $layout {}

        impl Major for $layout {
            const TRANSPOSED: i32 = 1;
            const SWIZZLE: Swizzle = Swizzle::$swizzle;
        }

        impl Layout<bf16> for $layout {}
        impl Layout<f16> for $layout {}
    )*};
}

mn_major! {
    MnMajor B128;
    MnMajorB64 B64;
}

/// Where a matrix of `T` lies in shared memory, with the swizzle of its layout. See the [module](super).
pub struct MatrixDescriptor<T, L> {
    pub(super) raw: machine::MatrixDescriptor,
    _layout: PhantomData<(T, L)>,
}

impl<T, L> Clone for MatrixDescriptor<T, L> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T, L> Copy for MatrixDescriptor<T, L> {}

impl<T: Operand, L: Layout<T>> MatrixDescriptor<T, L> {
    /// The matrix at `at`, which begins at a multiple of 1024 bytes, or without swizzle of 16; the two distances are multiples of 16 below
    /// 2^18. `leading_byte_offset` counts only without swizzle, and where the matrix is in several boxes along M or N: one that lies along
    /// these, and is wider than a box.
    #[inline(always)]
    pub fn new<U: Pod>(at: Shared<U>, leading_byte_offset: u32, stride_byte_offset: u32) -> Self {
        Self {
            raw: machine::MatrixDescriptor::new(at.ptr(), leading_byte_offset, stride_byte_offset, L::SWIZZLE),
            _layout: PhantomData,
        }
    }

    /// The matrix `bytes` bytes further on, a multiple of 16: the next K, or another buffer of a ring.
    #[inline(always)]
    pub fn advance(self, bytes: u32) -> Self {
        Self {
            raw: self.raw.advance(bytes),
            _layout: PhantomData,
        }
    }
}
