// SPDX-License-Identifier: MIT OR Apache-2.0
//! Elementwise operations on one array.
//!
//! Each element is read once and written once: `2 n` elements moved. A block treats [`tile_len`] elements; a thread
//! has several 16-byte loads in flight before it stores.

use core::marker::PhantomData;

use cuda_std::prelude::*;

use crate::num::{CastTo, Num};
use crate::op::{Abs, Cast, Cos, Exp, Ln, Neg, Relu, Sigmoid, Sin, Sqrt, Square, Tanh, UnaryOp};
use crate::tile::{self, Body};

pub use crate::tile::THREADS;

/// Elements that a block treats: the launch has `n / tile_len` blocks, rounded up, of [`THREADS`] threads.
pub const fn tile_len<T, U>() -> usize {
    tile::tile_len(largest::<T, U>())
}

const fn largest<T, U>() -> usize {
    if size_of::<T>() > size_of::<U>() {
        size_of::<T>()
    } else {
        size_of::<U>()
    }
}

/// `out[i] = op(x[i])`
struct Map<'a, T, U, Op> {
    x: &'a [T],
    out: SliceMut<'a, U>,
    _op: PhantomData<Op>,
}

impl<T: Num, U: Num, Op: UnaryOp<T, U>> Body for Map<'_, T, U, Op> {
    #[inline(always)]
    fn len(&self) -> usize {
        Ord::min(self.out.len(), self.x.len())
    }

    #[inline(always)]
    fn is_aligned<const N: usize>(&self) -> bool {
        self.x.is_vec_aligned::<N>() && self.out.is_vec_aligned::<N>()
    }

    #[inline(always)]
    unsafe fn vectors<const N: usize, const V: usize>(&self, i: usize, stride: usize) {
        // SAFETY (of both): the caller's promise for the shorter of the arrays.
        let x: [[T; N]; V] = core::array::from_fn(|v| unsafe { self.x.load_vec_unchecked(i + v * stride) });
        for (v, x) in x.into_iter().enumerate() {
            unsafe { self.out.set_vec_unchecked::<N>(i + v * stride, x.map(Op::apply)) };
        }
    }

    #[inline(always)]
    fn element(&self, i: usize) {
        self.out.set(i, Op::apply(self.x[i]));
    }
}

#[inline(always)]
fn run<T: Num, U: Num, Op: UnaryOp<T, U>>(x: &[T], out: SliceMut<'_, U>) {
    let body = Map::<T, U, Op> {
        x,
        out,
        _op: PhantomData,
    };
    tile::for_tile(largest::<T, U>(), &body);
}

/// `out[i] = op(x[i])`, for operators that every number has; `x` is as long as `out`.
#[kernel(
    T = [f32, f64, i32, i64, u32, u64],
    Op = [Neg, Abs, Square, Relu],
    max_threads = THREADS,
)]
pub fn map<T: Num, Op: UnaryOp<T>>(x: &[T], out: SliceMut<'_, T>) {
    run::<T, T, Op>(x, out);
}

/// `out[i] = op(x[i])`, for operators that only floats have; `x` is as long as `out`.
#[kernel(
    T = [f32, f64],
    Op = [Sqrt, Exp, Ln, Sin, Cos, Tanh, Sigmoid],
    max_threads = THREADS,
)]
pub fn map_float<T: Num + Float, Op: UnaryOp<T>>(x: &[T], out: SliceMut<'_, T>) {
    run::<T, T, Op>(x, out);
}

/// `out[i] = x[i] as U`; `x` is as long as `out`.
#[kernel(
    T = [f32, f64, i32, i64, u32, u64],
    U = [f32, f64, i32, i64, u32, u64],
    max_threads = THREADS,
)]
pub fn cast<T: Num + CastTo<U>, U: Num>(x: &[T], out: SliceMut<'_, U>) {
    run::<T, U, Cast>(x, out);
}
