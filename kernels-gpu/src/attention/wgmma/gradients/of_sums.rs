// SPDX-License-Identifier: MIT OR Apache-2.0
//! The gradients of queries, of their sums.

use cuda_std::half::{bf16, f16};
use cuda_std::prelude::*;
use cuda_std::wgmma::Accumulator;

use super::super::consume::store_line;
use super::scores::{LINES, PRODUCTS};
use super::{CONSUMERS, COUNTERS, FOURS, Half, ROWS, SUMS};
use crate::attention::{AttentionShape, Lines, divide};
use crate::matmul::unroll;

/// Threads of a block: one for each of the consumers', which has the same elements.
pub const THREADS: usize = 128 * CONSUMERS;

/// Stores the sums of [`attention_gradients_wgmma`](super::attention_gradients_wgmma()), times `scale`, as gradients of queries: 0 of tiles of which
/// none sees a key. Sets the words of its `turns` to 0 again.
///
/// # Safety
///
/// A block has [`THREADS`] threads; the grid has one axis, with a block for each tile of the [`queries`](super::queries) that such a kernel has. The shape is
/// valid for those, and its head dimension one that such a kernel has. `sums` are all tiles of that, which had as many `chains`, `sequences` fit the shape,
/// `out` begins at a multiple of 16 bytes and has the heads one after another, each in C order, and `turns` are that kernel's, which has ended.
#[kernel(T = [bf16, f16], arch = "sm_90a", max_threads = THREADS)]
pub unsafe fn attention_gradients_of_sums<T: Half>(
    sums: &[f32],
    sequences: &[u32],
    out: SliceMut<'_, T>,
    turns: SliceMut<'_, u32>,
    shape: AttentionShape,
    scale: f32,
    chains: u32,
) {
    let (block, thread) = (thread::block_idx_x() as usize, thread::thread_idx_x());
    // SAFETY (of both): the kernel's contract: there are these, and one for each block.
    unsafe {
        if thread < chains {
            let all = thread::grid_dim_x() as usize;
            turns.set_vec_unchecked(COUNTERS + thread as usize * all + block, [0]);
        }
        if block == 0 && (thread as usize) < COUNTERS {
            turns.set_vec_unchecked(thread as usize, [0]);
        }
    }
    // A tile has as many elements, of queries of one piece of 64 or of two.
    let (pieces, queries) = match shape.dim as usize > LINES {
        true => (2, LINES as u32),
        false => (1, 2 * LINES as u32),
    };
    let Some(tile) = shape.tile(thread::block_idx_x(), queries) else {
        return;
    };
    // SAFETY: the kernel's contract.
    let found = unsafe { shape.sequence(sequences, Lines::Queries, tile.batch, (tile.row, queries)) };
    let Some((sequence, row)) = found else {
        return;
    };
    let [begin, end] = sequence.keys_of_tile(row, queries);
    let head = tile.batch * shape.heads + tile.head;
    let number = head * shape.blocks(shape.queries, queries) + tile.row / queries;
    let mut elements = Accumulator::<PRODUCTS>::zero();
    // The blocks of keys that the tile's queries see, one after another: of each chain one has stored, if there are as many.
    let rows = ROWS as u32;
    let blocks = if begin < end {
        (end - 1) / rows - begin / rows + 1
    } else {
        0
    };
    let first = begin / rows;
    let mut ahead = 0;
    while ahead < chains && ahead < blocks {
        let turn = first + ahead;
        let chain = turn - divide(turn, chains) * chains;
        let tile = (chain * thread::grid_dim_x() + number) as usize;
        let from = tile * SUMS[0] * SUMS[1] + 4 * thread as usize;
        // SAFETY: in the tile, by the kernel's contract, at a multiple of 16 bytes.
        let fours = cuda_std::array::map([0, 1, 2, 3, 4, 5, 6, 7], |j| unsafe {
            sums.load_vec_unchecked::<4>(from + j * FOURS)
        });
        elements.update(|i, sum| sum + fours[i / 4][i % 4]);
        ahead += 1;
    }
    // A consumer has half of the queries, or a piece of each.
    let consumer = thread / 128;
    let (of_query, piece) = match pieces {
        1 => (consumer * LINES as u32, 0),
        _ => (0, consumer),
    };
    let query = row + of_query + Accumulator::<PRODUCTS>::place(thread, 0).0;
    let first = head as usize * shape.queries as usize + sequence.first_query as usize;
    unroll!(2, half => {
        let query = query + 8 * half as u32;
        let line = (query < sequence.queries).then_some((first + query as usize) * pieces as usize + piece as usize);
        // SAFETY: as lines of a piece it is in the results, by the kernel's contract, at a multiple of 16 bytes.
        unsafe { store_line(&elements, half, &out, line, |sum| sum * scale) };
    });
}
