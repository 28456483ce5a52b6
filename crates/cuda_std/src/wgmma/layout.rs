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

/// How a matrix of `T` lies in shared memory: [`KMajor`] or, of 16-bit elements, [`MnMajor`]. See the [module](super).
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
    /// The matrix at `at`, which begins at a multiple of 1024 bytes; the two distances are multiples of 16 below 2^18.
    /// `leading_byte_offset` counts only where the matrix is in several boxes along M or N: one that lies along these, and is
    /// wider than a box.
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
