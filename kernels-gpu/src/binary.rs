// SPDX-License-Identifier: MIT OR Apache-2.0
//! Elementwise operations on two operands: array with array, array with scalar, scalar with array.
//!
//! Each element is read once and written once: `3 n` elements moved with two arrays, `2 n` with one. A block treats
//! [`tile_len`] elements; a thread treats 16 bytes.
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

/// An operand: an array, or one number for all elements.
pub(crate) trait Operand: Copy {
    /// What it has elements of.
    type Element: Copy;

    /// How many elements it has.
    fn len(self) -> usize;

    /// Whether vectors of `N` may be loaded at multiples of `N`.
    fn is_aligned<const N: usize>(self) -> bool;

    /// Elements `i .. i + N`.
    ///
    /// # Safety
    ///
    /// `is_aligned::<N>()` holds, `i` is a multiple of `N`, and `i + N` is at most `len()`.
    unsafe fn vector<const N: usize>(self, i: usize) -> [Self::Element; N];

    /// Element `i`.
    fn element(self, i: usize) -> Self::Element;
}

/// An array as an operand.
#[derive(Clone, Copy)]
pub(crate) struct Array<'a, T>(pub(crate) Slice<'a, T>);

/// A number as an operand.
#[derive(Clone, Copy)]
pub(crate) struct Scalar<T>(pub(crate) T);

impl<T: Num> Operand for Array<'_, T> {
    type Element = T;

    #[inline(always)]
    fn len(self) -> usize {
        self.0.len()
    }

    #[inline(always)]
    fn is_aligned<const N: usize>(self) -> bool {
        self.0.is_vec_aligned::<N>()
    }

    #[inline(always)]
    unsafe fn vector<const N: usize>(self, i: usize) -> [T; N] {
        // SAFETY: the caller's promise.
        unsafe { self.0.get_vec_unchecked::<N>(i) }
    }

    #[inline(always)]
    fn element(self, i: usize) -> T {
        self.0.get(i)
    }
}

impl<T: Num> Operand for Scalar<T> {
    type Element = T;

    #[inline(always)]
    fn len(self) -> usize {
        usize::MAX
    }

    #[inline(always)]
    fn is_aligned<const N: usize>(self) -> bool {
        true
    }

    #[inline(always)]
    unsafe fn vector<const N: usize>(self, _: usize) -> [T; N] {
        [self.0; N]
    }

    #[inline(always)]
    fn element(self, _: usize) -> T {
        self.0
    }
}

/// `out[i] = op(a[i], b[i])`, with results that are no larger than elements.
struct Binary<'a, U, A, B, F> {
    a: A,
    b: B,
    out: SliceMut<'a, U>,
    op: F,
}

impl<U, A, B, F> Body for Binary<'_, U, A, B, F>
where
    U: Num,
    A: Operand,
    B: Operand<Element = A::Element>,
    F: Fn(A::Element, A::Element) -> U,
{
    const LARGEST: usize = size_of::<A::Element>();

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
            let (a, b): ([_; N], [_; N]) = (self.a.vector(i), self.b.vector(i));
            self.out
                .set_vec_unchecked::<N>(i, cuda_std::array::from_fn(|k| (self.op)(a[k], b[k])));
        }
    }

    #[inline(always)]
    fn element(&self, i: usize) {
        self.out.set(i, (self.op)(self.a.element(i), self.b.element(i)));
    }
}

/// Lets this block treat its tile of `out[i] = op(a[i], b[i])`, with results that are no larger than elements.
#[inline(always)]
pub(crate) fn run<T, U: Num>(
    a: impl Operand<Element = T>,
    b: impl Operand<Element = T>,
    out: SliceMut<'_, U>,
    op: impl Fn(T, T) -> U,
) {
    tile::for_tile(&Binary { a, b, out, op });
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
    run(Array(a), Array(b), out, Op::apply);
}

/// `out[i] = a[i] op b`; `a` is as long as `out`.
#[kernel(
    T = [f32, f64, f16, bf16, i32, i64, u8, u16, u32, u64],
    Op = [Div, Minimum, Maximum, Pow];
    T = [f32, f64, f16, bf16, u8, u16, u32, u64],
    Op = [Add, Sub, Mul],
    max_threads = THREADS,
)]
pub fn binary_scalar<T: Num + cuda_std::param::Param, Op: BinaryOp<T>>(a: Slice<'_, T>, b: T, out: SliceMut<'_, T>) {
    run(Array(a), Scalar(b), out, Op::apply);
}

/// `out[i] = a op b[i]`, for the operators that do not commute; `b` is as long as `out`.
#[kernel(
    T = [f32, f64, f16, bf16, i32, i64, u8, u16, u32, u64],
    Op = [Div, Pow];
    T = [f32, f64, f16, bf16, u8, u16, u32, u64],
    Op = [Sub],
    max_threads = THREADS,
)]
pub fn scalar_binary<T: Num + cuda_std::param::Param, Op: BinaryOp<T>>(a: T, b: Slice<'_, T>, out: SliceMut<'_, T>) {
    run(Scalar(a), Array(b), out, Op::apply);
}
