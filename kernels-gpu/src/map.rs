// SPDX-License-Identifier: MIT OR Apache-2.0
//! Functions of the elements of one array, in place too.
//!
//! Work `n`, span 1. Each element is read once and written once: `2 n` elements moved. A
//! block treats [`tile_len`] elements; a thread makes one 16-byte access to each array (one of 8 bytes in functions of
//! 16-bit floats). Inputs are [`Slice`]s, since they may be the output: a thread loads what it will
//! overwrite before it stores, and nothing else.

use core::marker::PhantomData;

use bytemuck::Pod;
use cuda_std::half::{bf16, f16};
use cuda_std::prelude::*;

use crate::num::Num;
use crate::op::{Abs, Cos, Exp, Ln, Neg, Relu, Sigmoid, Sin, Sqrt, Square, Tanh, UnaryOp};
use crate::tile::{self, Body};

pub use crate::tile::THREADS;

/// Elements that a block treats: the launch has `n / tile_len` blocks, rounded up, of [`THREADS`] threads.
pub const fn tile_len<T, U>() -> usize {
    tile::tile_len(largest::<T, U>())
}

/// [`tile_len`] of [`map_float`](fn@map_float): that of the type which the function is computed in.
///
/// So a thread has four evaluations of 16-bit floats, too, as it has of `f32`: with more of them, the larger functions
/// are not unrolled, and the elements lie in local memory.
pub const fn float_tile_len<T: Num>() -> usize {
    tile::tile_len(largest::<T, T::Wide>())
}

const fn largest<T, U>() -> usize {
    if size_of::<T>() > size_of::<U>() {
        size_of::<T>()
    } else {
        size_of::<U>()
    }
}

/// `out[i] = function(x[i])`, where the function computes in numbers of type `W`.
struct Map<'a, T, U, W, F> {
    x: Slice<'a, T>,
    out: SliceMut<'a, U>,
    function: F,
    _wide: PhantomData<W>,
}

impl<T: Pod, U: Pod, W, F: Fn(T) -> U> Body for Map<'_, T, U, W, F> {
    const LARGEST: usize = largest::<T, W>();

    #[inline(always)]
    fn len(&self) -> usize {
        Ord::min(self.out.len(), self.x.len())
    }

    #[inline(always)]
    fn is_aligned<const N: usize>(&self) -> bool {
        self.x.is_vec_aligned::<N>() && self.out.is_vec_aligned::<N>()
    }

    #[inline(always)]
    unsafe fn vector<const N: usize>(&self, i: usize) {
        // SAFETY (of both): the caller's promise for the shorter of the arrays.
        unsafe {
            let x: [T; N] = self.x.get_vec_unchecked(i);
            self.out
                .set_vec_unchecked::<N>(i, cuda_std::array::map(x, &self.function));
        }
    }

    #[inline(always)]
    fn element(&self, i: usize) {
        self.out.set(i, (self.function)(self.x.get(i)));
    }
}

/// Lets this block compute `out[i] = function(x[i])` for its tile.
#[inline(always)]
pub(crate) fn run<T: Pod, U: Pod>(x: Slice<'_, T>, out: SliceMut<'_, U>, function: impl Fn(T) -> U) {
    run_in::<T, U, U>(x, out, function);
}

/// [`run`], with a function that computes in numbers of type `W`.
#[inline(always)]
fn run_in<T: Pod, U: Pod, W>(x: Slice<'_, T>, out: SliceMut<'_, U>, function: impl Fn(T) -> U) {
    tile::for_tile(&Map::<T, U, W, _> {
        x,
        out,
        function,
        _wide: PhantomData,
    });
}

/// `out[i] = op(x[i])`, for operators that every number has; `x` is as long as `out`, and may be it.
#[kernel(
    T = [f32, f64, f16, bf16, i32, i64, u8, u16, u32, u64],
    Op = [Abs];
    T = [f32, f64, f16, bf16, u8, u16, u32, u64],
    Op = [Neg, Square];
    T = [f32, f64, f16, bf16, i32, i64],
    Op = [Relu],
    max_threads = THREADS,
)]
pub fn map<T: Num, Op: UnaryOp<T>>(x: Slice<'_, T>, out: SliceMut<'_, T>) {
    run(x, out, Op::apply);
}

/// `out[i] = op(x[i])`, for operators that only floats have; `x` is as long as `out`, and may be it.
#[kernel(
    T = [f32, f64, f16, bf16],
    Op = [Sqrt, Exp, Ln, Sin, Cos, Tanh, Sigmoid],
    max_threads = THREADS,
)]
pub fn map_float<T: Num<Wide: Float>, Op: UnaryOp<T>>(x: Slice<'_, T>, out: SliceMut<'_, T>) {
    run_in::<T, T, T::Wide>(x, out, Op::apply);
}
