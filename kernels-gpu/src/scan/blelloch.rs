// SPDX-License-Identifier: MIT OR Apache-2.0
//! The work-efficient scan by a balanced tree: G. Blelloch, "Prefix sums and their applications" (1990).
//!
//! The *up-sweep* combines pairs, then pairs of pairs, up to the root; the *down-sweep* puts what stands before the
//! whole at the root, and hands it down: a node passes what it got to its left child, and that combined with the left
//! child's total to its right child. `2 (m − 1)` combinations for `m` leaves, in `2 log2 m` steps. Neither step changes
//! the order of the elements.
//!
//! A block keeps the tree of its tile in shared memory, with [`LEAVES`] leaves; a leaf is a vector of 16 bytes, folded
//! by its thread (the paper's section 1.2: with fewer processors than elements, each first sums its own). One word is
//! left out after each 128 bytes, so that the nodes of a level, which are a power of two apart, lie in different banks.
//!
//! An array of several tiles is a tree of trees, and the kernel runs twice for each level: in the phase [`UP`] it
//! writes each tile's total; those are scanned by the same kernel, to as many levels as it takes; and in the phase
//! [`DOWN`] each tile's root gets what stands before the tile. That reads every element twice and writes it once, 3 n
//! where the look-back moves 2 n. The shape of the tree depends on the length alone, so floats have the same bits on
//! every run and on every device.

use bytemuck::Pod;
use cuda_block::thread::fold;
use cuda_std::half::{bf16, f16};
use cuda_std::prelude::*;
use cuda_std::shared;

use super::{Row, THREADS, has_vectors, looped, set_within, vec_len};
use crate::op::{Max, Min, Product, ReduceOp, Sum, results};

/// Leaves of a block's tree: two for each thread.
pub const LEAVES: usize = 2 * THREADS;

/// The phase that writes the totals of the tiles.
pub const UP: u32 = 0;

/// The phase that writes an inclusive scan.
pub const DOWN: u32 = 1;

/// The phase that writes an exclusive scan.
pub const DOWN_EXCLUSIVE: u32 = 2;

/// Elements of a tile.
pub const fn tile_len<T, Op: ReduceOp<T>>() -> usize {
    LEAVES * vec_len::<T, Op>()
}

/// Where leaf `i` of a tree of values of type `A` lies in shared memory.
const fn padded<A>(i: usize) -> usize {
    i + i / row_of_banks::<A>()
}

/// Values of type `A` that lie in the 128 bytes of all banks.
const fn row_of_banks<A>() -> usize {
    128 / size_of::<A>().next_power_of_two()
}

/// Bytes of dynamic shared memory that a tree of values of type `A` takes.
pub const fn shared_bytes<A>() -> usize {
    padded::<A>(LEAVES) * size_of::<A>()
}

/// One level's phase: [`UP`] writes the total of each tile of `x` to `totals`; the others write the scan to `out`,
/// where `totals` has what stands before each tile, or is empty, if there is one tile.
///
/// The launch has a block of [`THREADS`] threads for each [`tile_len`] elements, with [`shared_bytes`] of dynamic
/// shared memory; without, it writes nothing.
#[kernel(
    T = [f32, f64, f16, bf16, i32, i64, u8, u16, u32, u64],
    Op = [Min, Max];
    T = [f32, f64, f16, bf16, i32, u8, u16, u32, u64],
    Op = [Sum, Product],
    max_threads = THREADS,
    min_blocks = 4,
)]
pub fn scan_tree<T: Pod, Op: ReduceOp<T>>(
    x: &[T],
    phase: u32,
    totals: SliceMut<'_, <Op as ReduceOp<T>>::Acc>,
    out: SliceMut<'_, <Op as ReduceOp<T>>::Output>,
) {
    match const { vec_len::<T, Op>() } {
        1 => sweep_tile::<T, Op, 1>(x, phase, totals, out),
        2 => sweep_tile::<T, Op, 2>(x, phase, totals, out),
        4 => sweep_tile::<T, Op, 4>(x, phase, totals, out),
        _ => sweep_tile::<T, Op, 8>(x, phase, totals, out),
    }
}

#[cfg_attr(target_arch = "nvptx64", inline(always))]
fn sweep_tile<T: Pod, Op: ReduceOp<T>, const V: usize>(
    x: &[T],
    phase: u32,
    totals: SliceMut<'_, Op::Acc>,
    out: SliceMut<'_, Op::Output>,
) {
    let tree = Tree::<Op::Acc> {
        nodes: shared::dynamic(),
    };
    if tree.nodes.len() < padded::<Op::Acc>(LEAVES) || thread::block_dim_x() as usize != THREADS {
        return;
    }
    let row = Row {
        lo: 0,
        hi: x.len(),
        vectors: has_vectors::<T, Op::Output>() && x.is_vec_aligned::<V>(),
    };
    let block = thread::block_idx_x() as usize;
    let t = thread::thread_idx_x() as usize;
    let (start, len) = (block * LEAVES * V, LEAVES * V);
    let leaf = |half: usize| half * THREADS + t;
    let at = |half: usize| (leaf(half) * V) as u32;
    let window = row.window(start, len);
    let loaded: [[T; V]; 2] = cuda_std::array::from_fn(|half| window.load(x, start, at(half)));
    let values: [[Op::Acc; V]; 2] = cuda_std::array::from_fn(|half| {
        window.lift::<T, Op, V>(loaded[half], at(half), start as u64 + at(half) as u64)
    });
    for half in 0..2 {
        tree.set(leaf(half), fold(values[half], Op::combine));
    }
    tree.up_sweep(t, Op::combine);
    if phase == UP {
        if t == 0 {
            set_within(totals, block, tree.get(LEAVES - 1));
        }
        return;
    }
    if t == 0 {
        let before = if block < totals.len() {
            totals.get(block)
        } else {
            Op::identity()
        };
        tree.set(LEAVES - 1, before);
    }
    tree.down_sweep(t, Op::combine);
    // The phase's output may be shorter than the input only by a mistake of the caller; what does not fit is dropped.
    let row = Row {
        hi: Ord::min(row.hi, out.len()),
        vectors: has_vectors::<T, Op::Output>() && out.is_vec_aligned::<V>(),
        ..row
    };
    let window = row.window(start, len);
    let [mut next, mut last] = values;
    for half in 0..looped(2) {
        let index = start as u64 + at(half) as u64;
        let before = tree.get(leaf(half));
        let results = results::<T, Op, V>(before, next, index, phase == DOWN_EXCLUSIVE);
        window.store(out, start, at(half), results);
        (next, last) = (last, next);
    }
}

/// A balanced tree in shared memory. A node's value lies at the last leaf of its subtree.
///
/// Whoever makes one has made sure that there is room for [`LEAVES`] leaves, padded.
#[derive(Clone, Copy)]
struct Tree<A> {
    nodes: Shared<A>,
}

impl<A: Pod> Tree<A> {
    /// Node `i`, less than `LEAVES`.
    #[inline(always)]
    fn get(self, i: usize) -> A {
        // SAFETY: there is room for LEAVES leaves, padded.
        unsafe { self.nodes.get_unchecked(padded::<A>(i)) }
    }

    /// Sets node `i`, less than `LEAVES`.
    #[inline(always)]
    fn set(self, i: usize, value: A) {
        // SAFETY: there is room for LEAVES leaves, padded.
        unsafe { self.nodes.set_unchecked(padded::<A>(i), value) }
    }

    /// Combines the leaves up to the root. Called by all threads of the block, `t` the number of each.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn up_sweep(self, t: usize, combine: impl Fn(A, A) -> A) {
        let mut distance = 1;
        while distance < LEAVES {
            thread::sync_threads();
            if t < LEAVES / 2 / distance {
                let (left, right) = children(t, distance);
                self.set(right, combine(self.get(left), self.get(right)));
            }
            distance *= 2;
        }
        thread::sync_threads();
    }

    /// Hands what is at the root down to the leaves, each of which then has what stands before it. Called by all
    /// threads of the block, `t` the number of each.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn down_sweep(self, t: usize, combine: impl Fn(A, A) -> A) {
        let mut distance = LEAVES / 2;
        while distance > 0 {
            thread::sync_threads();
            if t < LEAVES / 2 / distance {
                let (left, right) = children(t, distance);
                let (before, left_total) = (self.get(right), self.get(left));
                self.set(left, before);
                self.set(right, combine(before, left_total));
            }
            distance /= 2;
        }
        thread::sync_threads();
    }
}

/// The children of node `t` of the level whose subtrees have `2 · distance` leaves.
#[inline(always)]
fn children(t: usize, distance: usize) -> (usize, usize) {
    ((2 * t + 1) * distance - 1, (2 * t + 2) * distance - 1)
}
