// SPDX-License-Identifier: MIT OR Apache-2.0
//! Comparisons, element by element: array with array and array with scalar, to 1 where they hold and 0 where not.
//!
//! Each element is read once and each result, a byte, written once. [`compare()`] and [`compare_scalar()`] walk over
//! tiles as [`binary`](crate::binary) does, [`compare_broadcast()`] as [`crate::broadcast`].

use core::marker::PhantomData;

use cuda_std::half::{bf16, f16};
use cuda_std::prelude::*;

use crate::binary::{Array, Operand, Scalar};
use crate::broadcast::{self, Row, Shape, Strides, Vector};
use crate::num::Num;
use crate::op::{CompareOp, Equal, Greater, GreaterEqual, Less, LessEqual, NotEqual};
use crate::tile::{self, Body};

pub use crate::tile::THREADS;

/// Elements that a block treats: the launch has `n / tile_len` blocks, rounded up, of [`THREADS`] threads.
pub const fn tile_len<T>() -> usize {
    tile::tile_len(size_of::<T>())
}

/// `out[i] = a[i] op b[i]`
struct Compare<'a, T, A, B, Op> {
    a: A,
    b: B,
    out: SliceMut<'a, u8>,
    _types: PhantomData<(T, Op)>,
}

impl<T: Num, A: Operand<T>, B: Operand<T>, Op: CompareOp<T>> Body for Compare<'_, T, A, B, Op> {
    const LARGEST: usize = size_of::<T>();

    #[inline(always)]
    fn len(&self) -> usize {
        Ord::min(self.out.len(), Ord::min(self.a.len(), self.b.len()))
    }

    #[inline(always)]
    fn is_aligned<const N: usize>(&self) -> bool {
        self.a.is_aligned::<N>() && self.b.is_aligned::<N>() && self.out.is_vec_aligned::<N>()
    }

    #[inline(always)]
    unsafe fn vector<const N: usize>(&self, i: usize) {
        // SAFETY (of all three): the caller's promise for the shortest of the arrays.
        unsafe {
            let (a, b): ([T; N], [T; N]) = (self.a.vector(i), self.b.vector(i));
            self.out
                .set_vec_unchecked::<N>(i, core::array::from_fn(|k| Op::holds(a[k], b[k]) as u8));
        }
    }

    #[inline(always)]
    fn element(&self, i: usize) {
        self.out.set(i, Op::holds(self.a.element(i), self.b.element(i)) as u8);
    }
}

/// `out = a op b`, with strides.
struct Strided<'a, T, Op> {
    a: Slice<'a, T>,
    b: Slice<'a, T>,
    out: SliceMut<'a, u8>,
    _op: PhantomData<Op>,
}

impl<T: Num, Op: CompareOp<T>> broadcast::Body<2> for Strided<'_, T, Op> {
    const LARGEST: usize = size_of::<T>();

    #[inline(always)]
    fn vector<const V: usize>(&self, vector: Vector<V>, [a, b]: [Row; 2]) {
        let (a, b) = (vector.load(self.a, a), vector.load(self.b, b));
        let (a, b): ([T; V], [T; V]) = (a.elements(), b.elements());
        vector.store(self.out, core::array::from_fn(|k| Op::holds(a[k], b[k]) as u8));
    }
}

#[inline(always)]
fn run<T: Num, A: Operand<T>, B: Operand<T>, Op: CompareOp<T>>(a: A, b: B, out: SliceMut<'_, u8>) {
    let body = Compare::<T, A, B, Op> {
        a,
        b,
        out,
        _types: PhantomData,
    };
    tile::for_tile(&body);
}

/// `out[i] = a[i] op b[i]`; `a` and `b` are as long as `out`. For `>` and `≥` the operands change places.
#[kernel(
    T = [f32, f64, f16, bf16, i32, i64, u8, u16, u32, u64],
    Op = [Equal, NotEqual, Less, LessEqual],
    max_threads = THREADS,
)]
pub fn compare<T: Num, Op: CompareOp<T>>(a: Slice<'_, T>, b: Slice<'_, T>, out: SliceMut<'_, u8>) {
    run::<T, _, _, Op>(Array(a), Array(b), out);
}

/// `out[i] = a[i] op b`; `a` is as long as `out`.
#[kernel(
    T = [f32, f64, f16, bf16, i32, i64, u8, u16, u32, u64],
    Op = [Equal, NotEqual, Less, LessEqual, Greater, GreaterEqual],
    max_threads = THREADS,
)]
pub fn compare_scalar<T: Num + cuda_std::param::Param, Op: CompareOp<T>>(a: Slice<'_, T>, b: T, out: SliceMut<'_, u8>) {
    run::<T, _, _, Op>(Array(a), Scalar(b), out);
}

/// `out = a op b`, with the operands along the axes of `shape` as their strides say, as in
/// [`broadcast`](fn@broadcast::broadcast).
#[kernel(
    T = [f32, f64, f16, bf16, i32, i64, u8, u16, u32, u64],
    Op = [Equal, NotEqual, Less, LessEqual],
    max_threads = THREADS,
    min_blocks = broadcast::BLOCKS,
)]
pub fn compare_broadcast<T: Num, Op: CompareOp<T>>(
    shape: Shape,
    a: Slice<'_, T>,
    a_strides: Strides,
    b: Slice<'_, T>,
    b_strides: Strides,
    out: SliceMut<'_, u8>,
) {
    let body = Strided::<T, Op> {
        a,
        b,
        out,
        _op: PhantomData,
    };
    broadcast::run(&shape, [&a_strides, &b_strides], &body);
}
