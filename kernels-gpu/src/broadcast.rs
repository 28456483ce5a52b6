// SPDX-License-Identifier: MIT OR Apache-2.0
//! Elementwise operations on operands that lie in memory in other ways than the output: broadcast, transposed,
//! permuted.
//!
//! The output is in C order; each operand has strides of its own along the output's axes, 0 where it is repeated. The
//! host drops axes of length 1 and merges neighbours that lie one behind the other in every operand, so that at most
//! [`AXES`] are left. The last of them are the *columns*, the product of all others the *rows*. A thread treats a
//! vector of the output: 16 bytes, or what a row has of them. Of each operand it loads a vector as well, or one element
//! where that is repeated along the row; element by element go operands with another stride, operands whose rows begin
//! between vectors of theirs, and what a row has of its first and last vector.
//!
//! Neighbouring threads treat neighbouring vectors; but where an operand is transposed, 128 threads treat a tile of 4
//! vectors × 32 rows, so that the elements which the operand has in one sector of memory are read from the cache.
//! Numbers are taken apart into coordinates by multiplication with a reciprocal (T. Granlund and P. Montgomery,
//! "Division by invariant integers using multiplication", 1994).
//!
//! `n` elements written, and each operand's own elements read once from memory, repetitions from the cache. The output
//! can be an operand: a thread loads the elements that it sets, and none that another sets, before it sets them.

mod plan;
mod vector;

use cuda_std::half::{bf16, f16};
use cuda_std::prelude::*;

use self::plan::SHORT;
use crate::num::Num;
use crate::op::{Add, BinaryOp, Div, Maximum, Minimum, Mul, Pow, Sub};
use crate::tile;

pub use self::plan::{AXES, MOST, OutputAxes, Strides};
pub(crate) use self::vector::{Row, Vector};
pub use crate::tile::THREADS;

/// Blocks that a multiprocessor has room for at least. It leaves a thread 80 registers, so that the longest operators
/// need not spill any; most take fewer.
pub const BLOCKS: usize = 3;

/// What a kernel does for each element, from `M` operands.
pub(crate) trait Body<const M: usize> {
    /// Bytes of the largest of the element types, from which the length of vectors follows.
    const LARGEST: usize;

    /// Loads the operands' elements of a vector, which is in these rows of theirs, and stores the results after that.
    fn vector<const V: usize>(&self, vector: Vector<V>, rows: [Row; M]);
}

/// Lets this thread treat its vector of the shape.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
pub(crate) fn run<const M: usize, B: Body<M>>(shape: &OutputAxes, strides: [&Strides; M], body: &B) {
    // A constant, so that the other lengths are not even compiled.
    match const { tile::vec_len(B::LARGEST) } {
        1 => run_by::<1, M>(shape, strides, body),
        2 => run_by::<2, M>(shape, strides, body),
        4 => run_by::<4, M>(shape, strides, body),
        _ if shape.columns() <= SHORT as u32 => run_by::<SHORT, M>(shape, strides, body),
        8 => run_by::<8, M>(shape, strides, body),
        _ => run_by::<16, M>(shape, strides, body),
    }
}

#[inline(always)]
fn run_by<const V: usize, const M: usize>(shape: &OutputAxes, strides: [&Strides; M], body: &impl Body<M>) {
    let block = thread::block_idx_x().wrapping_mul(thread::block_dim_x());
    if let Some((row, vector)) = shape.vector::<V>(block.wrapping_add(thread::thread_idx_x())) {
        body.vector(vector, shape.places(strides, row));
    }
}

/// `out = op(a, b)`, with results that are no larger than elements.
pub(crate) struct Binary<'a, T, U, F> {
    pub(crate) a: Slice<'a, T>,
    pub(crate) b: Slice<'a, T>,
    pub(crate) out: SliceMut<'a, U>,
    pub(crate) op: F,
}

impl<T: Num, U: Num, F: Fn(T, T) -> U> Body<2> for Binary<'_, T, U, F> {
    const LARGEST: usize = size_of::<T>();

    #[inline(always)]
    fn vector<const V: usize>(&self, vector: Vector<V>, [a, b]: [Row; 2]) {
        let (a, b) = (vector.load(self.a, a), vector.load(self.b, b));
        let (a, b): ([T; V], [T; V]) = (a.elements(), b.elements());
        vector.store(self.out, cuda_std::array::from_fn(|k| (self.op)(a[k], b[k])));
    }
}

/// `out = a op b`, with the operands along the axes of `shape` as their strides say, by `shape.threads()` threads in
/// blocks of at most [`THREADS`]. Strides that leave an operand give 0 instead, and what leaves the output is not set.
#[kernel(
    T = [f32, f64, f16, bf16, i32, i64, u8, u16, u32, u64],
    Op = [Div, Minimum, Maximum, Pow];
    T = [f32, f64, f16, bf16, u8, u16, u32, u64],
    Op = [Add, Sub, Mul],
    max_threads = THREADS,
    min_blocks = BLOCKS,
)]
pub fn broadcast<T: Num, Op: BinaryOp<T>>(
    shape: OutputAxes,
    a: Slice<'_, T>,
    a_strides: Strides,
    b: Slice<'_, T>,
    b_strides: Strides,
    out: SliceMut<'_, T>,
) {
    let op = Op::apply;
    run(&shape, [&a_strides, &b_strides], &Binary { a, b, out, op });
}
