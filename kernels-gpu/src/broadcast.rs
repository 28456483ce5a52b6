// SPDX-License-Identifier: MIT OR Apache-2.0
//! Elementwise operations on operands that lie in memory in other ways than the output: broadcast, transposed,
//! permuted.
//!
//! The output is in C order; each operand has strides of its own along the output's axes, 0 where it is repeated. The
//! host drops axes of length 1 and merges neighbours that lie one behind the other in every operand, so that at most
//! [`AXES`] are left. The last of them are the *columns*, the product of all others the *rows*. A block treats a tile
//! of columns × rows: neighbouring threads write neighbouring elements, and a tile as high as it is wide lets the
//! elements that a transposed operand has in one sector of memory be read from the cache. A thread knows its column
//! without a division; only rows of three axes and more are divided into coordinates, by multiplication with a
//! reciprocal (T. Granlund and P. Montgomery, "Division by invariant integers using multiplication", 1994).
//!
//! `n` elements written, and each operand's own elements read once from memory, repetitions from the cache. Indices are
//! 32-bit where every array has less than 2^31 elements, and 64-bit otherwise.

use core::marker::PhantomData;

use bytemuck::{Pod, Zeroable};
use cuda_std::half::{bf16, f16};
use cuda_std::prelude::*;

use crate::num::Num;
use crate::op::{Add, BinaryOp, Div, Maximum, Minimum, Mul, Pow, Sub};

/// Threads of a block.
pub const THREADS: usize = 256;

/// Blocks that a multiprocessor has room for at least. It leaves a thread 80 registers, so that the longest operators
/// need not spill any; most take fewer.
pub const BLOCKS: usize = 3;

/// Axes that a launch can have.
pub const AXES: usize = MIDDLE + 2;

/// Axes between the first and the last.
const MIDDLE: usize = 6;

/// Elements of a thread, whose loads are all in flight before it stores.
const UNROLL: u32 = 4;

/// Arrays with fewer elements are indexed with 32 bits, of which the reciprocals need one.
const NARROW: u64 = 1 << 31;

/// A number to divide by.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Divisor {
    value: u64,
    multiplier: u32,
    shift: u32,
}

// SAFETY: numbers, of 8, 4 and 4 bytes, in C order: no padding.
unsafe impl Zeroable for Divisor {}
// SAFETY: as above.
unsafe impl Pod for Divisor {}

impl Divisor {
    /// Divides by `value`, at least 1.
    fn new(value: u64) -> Self {
        let shift = value.next_power_of_two().trailing_zeros();
        // Below 2^32, since 2^shift is less than twice the value.
        let multiplier = if value < NARROW {
            (((1 << shift) - value) << 32) / value + 1
        } else {
            0
        };
        Self {
            value,
            multiplier: multiplier as u32,
            shift,
        }
    }

    /// Quotient and remainder of numbers below 2^31, where the divisor is below 2^31 too.
    #[inline(always)]
    fn div_rem_narrow(&self, x: u32) -> (u32, u32) {
        let high = ((x as u64 * self.multiplier as u64) >> 32) as u32;
        let quotient = high.wrapping_add(x).wrapping_shr(self.shift);
        (quotient, x.wrapping_sub(quotient.wrapping_mul(self.value as u32)))
    }
}

/// The output's axes, and how blocks and threads share its elements.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    start: u64,
    columns: u64,
    rows: u64,
    column_tiles: Divisor,
    /// The lengths of the axes between the first and the last, from the last of them.
    middle: [Divisor; MIDDLE],
    middles: u32,
    lanes_log2: u32,
    tile: [u32; 2],
    step: [u32; 2],
    narrow: u32,
    unroll: u32,
}

// SAFETY: three 8-byte numbers, seven structures of 16 bytes, eight 4-byte numbers, in C order: no padding.
unsafe impl Zeroable for Shape {}
// SAFETY: as above.
unsafe impl Pod for Shape {}

/// An operand's strides along the output's axes, in elements.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Strides {
    start: u64,
    column: u64,
    middle: [u64; MIDDLE],
    first: u64,
}

// SAFETY: 8-byte numbers alone.
unsafe impl Zeroable for Strides {}
// SAFETY: as above.
unsafe impl Pod for Strides {}

cuda_std::kernel_param!(Shape, Strides);

impl Shape {
    /// The output's elements from number `start` on, as axes of the lengths `axes`, from the first: 1 to [`AXES`] of
    /// them, none 0. `bytes` is the size of the largest element type. `transposed` says that an operand has its
    /// neighbours along the last axis but one. `extent` is the largest number of elements that any operand or the
    /// output is accessed within.
    ///
    /// # Panics
    ///
    /// If there is no axis, or more than [`AXES`].
    pub fn new(start: usize, axes: &[usize], bytes: usize, transposed: bool, extent: usize) -> Self {
        let (&columns, outer) = axes.split_last().expect("at least one axis");
        assert!(axes.len() <= AXES, "at most {AXES} axes");
        let (columns, rows) = (columns as u64, outer.iter().product::<usize>() as u64);
        // Wide enough to write 128 bytes in one piece, or whole sectors if the tile has to be high as well; narrower
        // for short rows, and as wide as it takes to occupy the block if there are few of them.
        let lanes = if transposed {
            32
        } else {
            Ord::max(128 / bytes as u64, 32)
        };
        let enough = THREADS as u64 / Ord::min(rows, THREADS as u64).next_power_of_two();
        let lanes = Ord::max(Ord::min(lanes, columns.next_power_of_two()), enough) as u32;
        let height = THREADS as u32 / lanes;
        let (tile, step) = if rows > u64::from(height) {
            ([lanes, height * UNROLL], [0, height])
        } else {
            ([lanes * UNROLL, height], [lanes, 0])
        };
        let mut middle = [Divisor::new(1); MIDDLE];
        let middles = outer.len().saturating_sub(1);
        for (to, &length) in middle.iter_mut().zip(outer.iter().skip(1).rev()) {
            *to = Divisor::new(length as u64);
        }
        Self {
            start: start as u64,
            columns,
            rows,
            column_tiles: Divisor::new(columns.div_ceil(u64::from(tile[0]))),
            middle,
            middles: middles as u32,
            lanes_log2: lanes.trailing_zeros(),
            tile,
            step,
            narrow: u32::from((extent as u64) < NARROW),
            unroll: UNROLL,
        }
    }

    /// The blocks of the launch, each of [`THREADS`] threads.
    pub fn blocks(&self) -> u64 {
        self.column_tiles.value * self.rows.div_ceil(u64::from(self.tile[1]))
    }
}

impl Strides {
    /// The strides along the axes of a [`Shape`], from the first; the operand's element for the shape's first one is
    /// number `start`.
    ///
    /// # Panics
    ///
    /// If there is no axis, or more than [`AXES`].
    pub fn new(start: usize, strides: &[usize]) -> Self {
        assert!(strides.len() <= AXES, "at most {AXES} axes");
        let (&column, outer) = strides.split_last().expect("at least one axis");
        let mut middle = [0; MIDDLE];
        for (to, &stride) in middle.iter_mut().zip(outer.iter().skip(1).rev()) {
            *to = stride as u64;
        }
        Self {
            start: start as u64,
            column: column as u64,
            middle,
            first: outer.first().map_or(0, |&stride| stride as u64),
        }
    }
}

/// A number of 32 or 64 bits that counts elements. It wraps around: indices are compared with lengths before an access.
trait Index: Copy + Ord {
    fn of(x: u64) -> Self;
    fn to_usize(self) -> usize;
    /// `self + a · b`
    fn plus(self, a: Self, b: u64) -> Self;
    fn div_rem(self, by: &Divisor) -> (Self, Self);
}

impl Index for u32 {
    #[inline(always)]
    fn of(x: u64) -> Self {
        Ord::min(x, u32::MAX as u64) as u32
    }

    #[inline(always)]
    fn to_usize(self) -> usize {
        self as usize
    }

    #[inline(always)]
    fn plus(self, a: Self, b: u64) -> Self {
        self.wrapping_add(a.wrapping_mul(b as u32))
    }

    #[inline(always)]
    fn div_rem(self, by: &Divisor) -> (Self, Self) {
        by.div_rem_narrow(self)
    }
}

impl Index for u64 {
    #[inline(always)]
    fn of(x: u64) -> Self {
        x
    }

    #[inline(always)]
    fn to_usize(self) -> usize {
        self as usize
    }

    #[inline(always)]
    fn plus(self, a: Self, b: u64) -> Self {
        self.wrapping_add(a.wrapping_mul(b))
    }

    #[inline(always)]
    fn div_rem(self, by: &Divisor) -> (Self, Self) {
        let value = Ord::max(by.value, 1);
        (self / value, self % value)
    }
}

/// What a kernel does for each element, from `M` operands.
pub(crate) trait Body<const M: usize> {
    /// What is computed from the operands' elements.
    type Result: Copy;

    /// The lengths of the operands.
    fn lens(&self) -> [usize; M];

    /// The length of the output.
    fn out_len(&self) -> usize;

    /// The result for the elements `at` of the operands.
    ///
    /// # Safety
    ///
    /// Each is below its operand's length.
    unsafe fn compute(&self, at: [usize; M]) -> Self::Result;

    /// Stores the result as element `i`.
    ///
    /// # Safety
    ///
    /// `i` is below the output's length.
    unsafe fn store(&self, i: usize, result: Self::Result);
}

/// Lets this block treat its tile of the shape.
// Arrays that are indexed with constants, once the loops are unrolled, stay in registers; iterators' do not always.
#[inline(always)]
pub(crate) fn for_tile<const M: usize>(shape: &Shape, strides: [&Strides; M], body: &impl Body<M>) {
    let lens = body.lens();
    let mut empty = false;
    for m in 0..M {
        empty |= lens[m] == 0;
    }
    if empty {
        return;
    }
    if shape.narrow != 0 {
        walk::<u32, M, { UNROLL as usize }>(shape, strides, body);
    } else {
        walk::<u64, M, 1>(shape, strides, body);
    }
}

/// This thread's elements, `U` at a time: all operands are loaded before the first result is stored.
// As above.
#[inline(always)]
fn walk<I: Index, const M: usize, const U: usize>(shape: &Shape, strides: [&Strides; M], body: &impl Body<M>) {
    let (row_tile, column_tile) = shape.column_tiles.div_rem_narrow(thread::block_idx_x());
    let lens = body.lens();
    let last: [I; M] = core::array::from_fn(|m| I::of(lens[m] as u64 - 1));
    let (rows, columns) = (I::of(shape.rows), I::of(shape.columns));
    // One round with the blocks of the host's launch.
    let mut t = thread::thread_idx_x();
    while t < THREADS as u32 {
        let lane = t & 1u32.wrapping_shl(shape.lanes_log2).wrapping_sub(1);
        let column = I::of(lane as u64).plus(I::of(column_tile as u64), shape.tile[0] as u64);
        let row = I::of(t.wrapping_shr(shape.lanes_log2) as u64).plus(I::of(row_tile as u64), shape.tile[1] as u64);
        // The bound is known to the host alone, so that the loop stays one: unrolled, 64-bit divisions would fill the
        // kernel.
        let mut step = 0;
        while step < shape.unroll {
            let results: [Option<_>; U] = core::array::from_fn(|u| {
                let step = I::of(step as u64 + u as u64);
                let (column, row) = (
                    column.plus(step, shape.step[0] as u64),
                    row.plus(step, shape.step[1] as u64),
                );
                let i = I::of(shape.start).plus(row, shape.columns).plus(column, 1);
                if column >= columns || row >= rows || i.to_usize() >= body.out_len() {
                    return None;
                }
                let at = offsets(shape, strides, row, column);
                let mut inside = [0; M];
                for m in 0..M {
                    debug_assert!(at[m] <= last[m], "the strides leave operand {m}");
                    // Strides that the host did not make do no harm.
                    inside[m] = Ord::min(at[m], last[m]).to_usize();
                }
                // SAFETY: each is at most its operand's last index.
                Some((i, unsafe { body.compute(inside) }))
            });
            for u in 0..U {
                if let Some((i, result)) = results[u] {
                    // SAFETY: below the output's length, as asked above.
                    unsafe { body.store(i.to_usize(), result) };
                }
            }
            step += U as u32;
        }
        t += thread::block_dim_x();
    }
}

/// Where each operand's element for a place of the output is.
#[inline(always)]
fn offsets<I: Index, const M: usize>(shape: &Shape, strides: [&Strides; M], row: I, column: I) -> [I; M] {
    let mut at: [I; M] = core::array::from_fn(|m| I::of(strides[m].start).plus(column, strides[m].column));
    let mut rest = row;
    for k in 0..MIDDLE {
        if k as u32 >= shape.middles {
            break;
        }
        let (quotient, coordinate) = rest.div_rem(&shape.middle[k]);
        at = core::array::from_fn(|m| at[m].plus(coordinate, strides[m].middle[k]));
        rest = quotient;
    }
    core::array::from_fn(|m| at[m].plus(rest, strides[m].first))
}

/// `out = a op b`
struct Broadcast<'a, T, Op> {
    a: Slice<'a, T>,
    b: Slice<'a, T>,
    out: SliceMut<'a, T>,
    _op: PhantomData<Op>,
}

impl<T: Num, Op: BinaryOp<T>> Body<2> for Broadcast<'_, T, Op> {
    type Result = T;

    #[inline(always)]
    fn lens(&self) -> [usize; 2] {
        [self.a.len(), self.b.len()]
    }

    #[inline(always)]
    fn out_len(&self) -> usize {
        self.out.len()
    }

    #[inline(always)]
    unsafe fn compute(&self, at: [usize; 2]) -> T {
        // SAFETY (of both): the caller's promise; a vector of one is aligned like its element.
        let ([a], [b]) = unsafe { (self.a.get_vec_unchecked(at[0]), self.b.get_vec_unchecked(at[1])) };
        Op::apply(a, b)
    }

    #[inline(always)]
    unsafe fn store(&self, i: usize, result: T) {
        // SAFETY: as above.
        unsafe { self.out.set_vec_unchecked(i, [result]) };
    }
}

/// `out = a op b`, with the operands along the axes of `shape` as their strides say: `shape.blocks()` blocks of
/// [`THREADS`] threads. Strides that leave an operand give its last element instead.
#[kernel(
    T = [f32, f64, f16, bf16, i32, i64, u8, u16, u32, u64],
    Op = [Add, Sub, Mul, Div, Minimum, Maximum, Pow],
    max_threads = THREADS,
    min_blocks = BLOCKS,
)]
pub fn broadcast<T: Num, Op: BinaryOp<T>>(
    shape: Shape,
    a: Slice<'_, T>,
    a_strides: Strides,
    b: Slice<'_, T>,
    b_strides: Strides,
    out: SliceMut<'_, T>,
) {
    let body = Broadcast::<T, Op> {
        a,
        b,
        out,
        _op: PhantomData,
    };
    for_tile(&shape, [&a_strides, &b_strides], &body);
}
