// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reduction: all elements combined into one by an associative operator.
//!
//! The tree of CUDA's classic reduction (M. Harris, "Optimizing parallel reduction in CUDA", 2007), with shuffles below
//! the warp: each thread combines a grid-stride share of the elements in [`chains`] independent chains, the block
//! combines its threads' values ([`block::reduce`]), and writes one value. A second launch of one block combines those.
//! Every element is read once. The order depends only on the length and the number of blocks, so floats give the same
//! bits on every run of one launch plan.

use cuda_std::prelude::*;

use crate::block;
use crate::op::{Max, Min, Product, ReduceOp, Sum, WideSum};
use crate::tile;

/// Threads of a block.
pub const THREADS: usize = 256;

/// Blocks that a multiprocessor holds at a time, and that the launch has for each: every block is running from the start,
/// and ptxas need not spill registers to make room for more.
pub const BLOCKS: usize = 4;

/// Vectors of 16 bytes that a thread has in flight, each combined in a chain of its own.
const UNROLL: usize = 4;

/// Elements that a block reads in one step of its loop.
pub const fn tile_len<T>() -> usize {
    THREADS * UNROLL * tile::vec_len(size_of::<T>())
}

/// Independent chains of combination in a thread that reads elements of type `T`.
pub const fn chains<T>() -> usize {
    UNROLL * tile::vec_len(size_of::<T>())
}

/// Combines the elements of `x` into one value for each block, in `partials`, which has as many elements as the grid
/// has blocks (the values of blocks beyond are dropped). Blocks have [`THREADS`] threads.
#[kernel(
    T = [f32, f64, i32, i64, u32, u64],
    Op = [Sum, Product, Min, Max, WideSum],
    max_threads = THREADS,
    min_blocks = BLOCKS,
)]
pub fn reduce<T: crate::num::Num, Op: ReduceOp<T>>(x: &[T], partials: SliceMut<'_, <Op as ReduceOp<T>>::Acc>) {
    let value = match tile::vec_len(size_of::<T>()) {
        2 => thread_share::<T, Op, 2>(x),
        _ => thread_share::<T, Op, 4>(x),
    };
    let total = block::reduce::<_, THREADS>(value, Op::identity(), Op::combine);
    let block = thread::block_idx_x() as usize;
    if let Some(total) = total
        && block < partials.len()
    {
        // SAFETY: in bounds, as just checked, and a vector of one is aligned like its element. Checked here and not by
        // `set`, whose panic would cost registers.
        unsafe { partials.set_vec_unchecked(block, [total]) };
    }
}

/// This thread's share of the elements, combined: whole tiles by vectors of `N`, the rest one by one.
#[inline(always)]
fn thread_share<T: crate::num::Num, Op: ReduceOp<T>, const N: usize>(x: &[T]) -> Op::Acc {
    let tile = THREADS * UNROLL * N;
    let t = thread::thread_idx_x() as usize;
    let whole = if thread::block_dim_x() as usize == THREADS && x.is_vec_aligned::<N>() {
        x.len() / tile * tile
    } else {
        0
    };
    let mut chains = [[Op::identity(); N]; UNROLL];
    let mut start = thread::block_idx_x() as usize * tile;
    while start < whole {
        // SAFETY: aligned, as asked above; with THREADS threads, the tile's last vector ends within `whole`.
        let loaded: [[T; N]; UNROLL] =
            core::array::from_fn(|u| unsafe { x.load_vec_unchecked::<N>(start + (u * THREADS + t) * N) });
        // Arrays made anew with constant indices stay in registers; changed in place by iterators, they would not.
        chains = core::array::from_fn(|u| core::array::from_fn(|k| Op::combine(chains[u][k], Op::lift(loaded[u][k]))));
        start += thread::grid_dim_x() as usize * tile;
    }
    let mut total = fold_chains::<T, Op, N>(chains);
    let mut i = whole + thread::index_1d();
    while i < x.len() {
        total = Op::combine(total, Op::lift(x[i]));
        i += thread::stride_1d();
    }
    total
}

/// Combines the chains pairwise, as a tree: first those of one position in the vectors, then the positions.
#[inline(always)]
fn fold_chains<T, Op: ReduceOp<T>, const N: usize>(chains: [[Op::Acc; N]; UNROLL]) -> Op::Acc {
    let positions: [Op::Acc; N] =
        core::array::from_fn(|k| fold_pairwise(core::array::from_fn::<_, UNROLL, _>(|u| chains[u][k]), Op::combine));
    fold_pairwise(positions, Op::combine)
}

/// Combines `N` values, a power of two, as a tree.
#[inline(always)]
fn fold_pairwise<A: Copy, const N: usize>(mut values: [A; N], combine: impl Fn(A, A) -> A) -> A {
    let mut half = N;
    while half > 1 {
        half /= 2;
        for i in 0..half {
            values[i] = combine(values[i], values[i + half]);
        }
    }
    values[0]
}
