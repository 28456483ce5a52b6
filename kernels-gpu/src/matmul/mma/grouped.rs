// SPDX-License-Identifier: MIT OR Apache-2.0
//! Products of many shapes in one launch, by tiles of 128 × 128.

use cuda_std::half::{bf16, f16};
use cuda_std::hint;
use cuda_std::prelude::*;
use cuda_std::wgmma::Operand;

use super::store::Result;
use super::{Block, Input, MmaShape, Output, blocks, group, rows, threads};
use crate::matmul::grouped::{A_ALONG_M, B_ALONG_N, Problem, TILE_M, Table};
use crate::matmul::tiles::Tile;

/// Columns of a block's tile.
pub const COLUMNS: usize = 128;

const _: () = assert!(rows(COLUMNS) == TILE_M as usize);

/// `C ← A B` for each of the problems, by the tiles of [`gemm_mma`](super::gemm_mma()) of so many columns.
///
/// # Safety
///
/// A block has [`threads`] threads and [`shared_bytes`](super::shared_bytes) bytes of dynamic shared memory, for
/// [`COLUMNS`]; the grid has one axis, and a block for each tile, or more. `starts` has where the tiles of each problem
/// begin, of [`TILE_M`] rows, and then how many there are. The matrices are where the problems say, those of `C` in memory
/// that nothing else accesses, those of `A` and
/// `B` in such as nothing writes; the addresses of these are multiples of 16, and so are their strides in bytes.
#[kernel(T = [bf16, f16], arch = "sm_80", max_threads = threads(COLUMNS), min_blocks = blocks(COLUMNS))]
pub unsafe fn gemm_mma_grouped<T: Input + Operand<Element = T> + Output>(problems: &[Problem], starts: &[u32]) {
    let table = Table {
        problems,
        starts,
        tile_n: COLUMNS as u32,
        group: group(COLUMNS, size_of::<T>()),
    };
    let Some((problem, tile)) = table.tile(thread::block_idx_x()) else {
        return;
    };
    let block = Block::<T, COLUMNS>::of_problem(problem, tile);
    // SAFETY: the kernel's contract; where k is 0, nothing is read.
    let sums = unsafe { block.sums_as_they_lie() };
    // Looked for anew: nothing of it was kept in registers meanwhile, of which there are just enough.
    let Some((problem, tile)) = table.tile(hint::opaque(thread::block_idx_x())) else {
        return;
    };
    let c = core::ptr::with_exposed_provenance_mut(problem.c as usize);
    // SAFETY (of both): the kernel's contract; the stages are done with.
    unsafe {
        let c = SliceMut::<T>::from_raw_parts(c, problem.m as usize * problem.n as usize);
        Block::<T, COLUMNS>::of_problem(problem, tile).store(&sums, Result::plain(c));
    }
}

impl<T: Input, const COLUMNS: usize> Block<T, COLUMNS> {
    /// The block that computes a tile of a problem.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn of_problem(problem: Problem, tile: Tile) -> Self {
        let Problem { m, n, k, layout, .. } = problem;
        Self {
            a: core::ptr::with_exposed_provenance(problem.a as usize),
            b: core::ptr::with_exposed_provenance(problem.b as usize),
            shape: MmaShape {
                batch: 1,
                m,
                n,
                k,
                a: [0, problem.a_stride as usize],
                b: [0, problem.b_stride as usize],
                a_along_m: layout & A_ALONG_M,
                b_along_n: layout & B_ALONG_N,
            },
            tile,
            memory: cuda_std::shared::dynamic(),
        }
    }
}
