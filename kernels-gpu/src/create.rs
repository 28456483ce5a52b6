// SPDX-License-Identifier: MIT OR Apache-2.0
//! Arrays that are made on the device: of one value, of equal steps.
//!
//! Work `n`, span 1; each element is written once and nothing is read. What [`fill`](fn@fill) writes are bits: there is
//! one entry for all types.

use bytemuck::{Pod, Zeroable};
use cuda_std::half::{bf16, f16};
use cuda_std::param::Param;
use cuda_std::prelude::*;

use crate::generate;
pub use crate::generate::THREADS;

/// Vectors of 16 bytes that a thread writes.
const VECTORS: usize = 4;

/// Elements of type `T` that a block writes: the launch has `n / tile_len` blocks, rounded up, of [`THREADS`] threads.
pub const fn tile_len<T>() -> usize {
    generate::tile_len::<T>(VECTORS)
}
use crate::num::CastTo;

/// Sixteen bytes that repeat themselves: elements whose size divides 16.
#[repr(C)]
#[derive(Clone, Copy, KernelParam, Pod, Zeroable)]
pub struct Pattern([u32; 4]);

impl Pattern {
    /// As many of `value` as fit, or nothing if its size does not divide 16.
    pub fn of<T: Pod>(value: T) -> Option<Self> {
        let mut pattern = Self([0; 4]);
        let (bytes, value) = (bytemuck::bytes_of_mut(&mut pattern), bytemuck::bytes_of(&value));
        if value.is_empty() || !bytes.len().is_multiple_of(value.len()) {
            return None;
        }
        for part in bytes.chunks_exact_mut(value.len()) {
            part.copy_from_slice(value);
        }
        Some(pattern)
    }
}

/// Byte `i` of `out` is byte `i % 16` of the pattern. The launch has as many blocks as [`tile_len::<u8>`](tile_len) says.
#[kernel(max_threads = THREADS)]
pub fn fill(pattern: Pattern, out: SliceMut<'_, u8>) {
    generate::write::<u8, 16, VECTORS, VECTORS>(out, |_| bytemuck::cast(pattern.0));
}

/// A number of a range.
pub trait Range: Pod {
    /// What the numbers are computed in.
    type Exact: Pod;

    /// The same number.
    fn exactly(self) -> Self::Exact;

    /// `start + index · step`
    fn at(start: Self::Exact, step: Self::Exact, index: usize) -> Self;
}

/// In f64 by one fused multiply-add, rounded once more where the type is a narrower one.
macro_rules! range_of_floats {
    ($($type:ident)*) => {$(
        impl Range for $type {
            type Exact = f64;

            #[inline(always)]
            fn exactly(self) -> f64 {
                self.cast()
            }

            #[inline(always)]
            fn at(start: f64, step: f64, index: usize) -> $type {
                Float::mul_add(index as f64, step, start).cast()
            }
        }
    )*};
}

range_of_floats!(f32 f64 f16 bf16);

macro_rules! range_of_integers {
    ($($type:ident)*) => {$(
        impl Range for $type {
            type Exact = $type;

            #[inline(always)]
            fn exactly(self) -> $type {
                self
            }

            #[inline(always)]
            fn at(start: $type, step: $type, index: usize) -> $type {
                start.wrapping_add(step.wrapping_mul(index as $type))
            }
        }
    )*};
}

range_of_integers!(i32 i64 u8 u16 u32 u64);

/// `out[i] = start + i · step`, and `last` where `i` is the last.
#[kernel(
    T = [f32, f64, f16, bf16],
    W = [f64];
    T = [u8],
    W = [u8];
    T = [u16],
    W = [u16];
    T = [u32],
    W = [u32];
    T = [u64],
    W = [u64],
    max_threads = THREADS,
)]
pub fn range<T: Range<Exact = W> + Param, W: Param + Copy>(start: W, step: W, last: T, out: SliceMut<'_, T>) {
    let end = out.len().wrapping_sub(1);
    generate::write_each::<_, VECTORS>(out, |i| if i == end { last } else { T::at(start, step, i) });
}
