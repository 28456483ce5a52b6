// SPDX-License-Identifier: MIT OR Apache-2.0
//! Elementwise operations on two arrays. Where operands lie otherwise than the output, or one is a number, the host computes
//! an expression of one operation.
//!
//! Each element is read once and written once: `3 n` elements moved. A block treats [`tile_len`] elements; a thread treats 16
//! bytes.
//!
//! An operand may be the output itself: a thread reads the elements that it sets, and no others, before it sets them.

use cuda_std::half::{bf16, f16};
use cuda_std::prelude::*;

use crate::num::Num;
use crate::op::{Add, BinaryOp, Div, Maximum, Minimum, Mul, Pow, Sub};
use crate::tile::{self, Body};

pub use crate::tile::THREADS;

/// Elements that a block treats: the launch has `n / tile_len` blocks, rounded up, of [`THREADS`] threads.
pub const fn tile_len<T>() -> usize {
    tile::tile_len(size_of::<T>())
}

/// `out[i] = op(a[i], b[i])`
struct Binary<'a, T, F> {
    a: Slice<'a, T>,
    b: Slice<'a, T>,
    out: SliceMut<'a, T>,
    op: F,
}

impl<T: Num, F: Fn(T, T) -> T> Body for Binary<'_, T, F> {
    const LARGEST: usize = size_of::<T>();

    #[inline(always)]
    fn len(&self) -> usize {
        Ord::min(self.out.len(), Ord::min(self.a.len(), self.b.len()))
    }

    #[inline(always)]
    fn is_aligned<const N: usize>(&self) -> bool {
        self.a.is_vec_aligned::<N>() && self.b.is_vec_aligned::<N>() && self.out.is_vec_aligned::<N>()
    }

    #[inline(always)]
    unsafe fn vector<const N: usize>(&self, i: usize) {
        // SAFETY (of all three): the caller's promise for the shortest of the arrays.
        unsafe {
            let (a, b): ([T; N], [T; N]) = (self.a.get_vec_unchecked(i), self.b.get_vec_unchecked(i));
            self.out
                .set_vec_unchecked::<N>(i, cuda_std::array::from_fn(|k| (self.op)(a[k], b[k])));
        }
    }

    #[inline(always)]
    fn element(&self, i: usize) {
        self.out.set(i, (self.op)(self.a.get(i), self.b.get(i)));
    }
}

/// `out[i] = a[i] op b[i]`; `a` and `b` are as long as `out` (of longer ones, the shortest length counts).
#[kernel(
    T = [f32, f64, f16, bf16, i32, i64, u8, u16, u32, u64],
    Op = [Div, Minimum, Maximum, Pow];
    T = [f32, f64, f16, bf16, u8, u16, u32, u64],
    Op = [Add, Sub, Mul],
    max_threads = THREADS,
)]
pub fn binary<T: Num, Op: BinaryOp<T>>(a: Slice<'_, T>, b: Slice<'_, T>, out: SliceMut<'_, T>) {
    let op = Op::apply;
    tile::for_tile(&Binary { a, b, out, op });
}
