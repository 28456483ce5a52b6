// SPDX-License-Identifier: MIT OR Apache-2.0
//! Matrix times matrix in f32 on the ordinary cores of Hopper and later GPUs: `C ← α A B + β C`.
//!
//! A block computes tiles of `C`, one after another: of 128 × 256 elements by eight warps, a thread 8 × 16, or, where there
//! are too few of these for all multiprocessors, of 64 × 128 by four warps, a thread 8 × 8. One more thread has the tensor
//! memory accelerator copy the tiles of `A` and `B`, 8 or 16 elements of k at a time, into a ring of stages in shared
//! memory, so that no copy takes registers or issue slots of those that multiply. With eight warps it has a warpgroup of
//! its own, which gives its registers to the others.
//!
//! What is scarce are issue slots: for each element of k a thread issues 128 fused multiply-adds and six reads of 16 bytes
//! from shared memory (64 and four for the small tiles). For these, both operands lie along their lines (`A` by columns, `B` by rows): one read brings four
//! rows of `A` for one element of k. Then the register file: it gives a fused multiply-add one operand from each of its
//! two banks and one that was read just before. So columns go there and back: in even ones the rows ascend, in odd ones
//! they descend (of the small tiles, rows do), and each instruction has but one operand that the one before had not. And what is stored was multiplied
//! by α into other registers, or the assembler would keep the sums in aligned groups of four, as the reads of `B`, and
//! both in the same bank.
//!
//! A warp's lanes wait for each other before one of them says that a stage is free: lanes are free to run ahead of each
//! other, and one that read a barrier's parity two rounds late would wait for ever.
//!
//! Work `2 m n k`. Each element of `C` is one chain of fused multiply-adds in the order of k: the same bits as
//! [`gemm`](super::gemm) gives.

use cuda_std::mbarrier::{self, Mbarrier};
use cuda_std::prelude::*;
use cuda_std::tma::TensorMap;
use cuda_std::warpgroup;

use super::tiles::{Tile, Tiles};
use super::{scaled, unroll};

/// Rows of a thread's tile, in chunks of four that lie 32 apart. Its `C` columns, 8 or 16, are in chunks of four that lie
/// 16 apart: a warp of 8 × 4 threads has 64 rows and `4 C` columns.
const ROWS: usize = 8;

/// Warps side by side along the columns of a block's tile.
const WARPS_ALONG_N: usize = 4;

/// Rows of tiles that blocks of neighbouring numbers share.
const GROUP: u32 = 8;

/// Elements of a stage's tile of `A`.
const A_LEN: usize = 1024;

/// Elements of a stage's tile of `B`.
const B_LEN: usize = 2048;

/// Rows of a block's tile, of whose columns a thread has `columns`.
pub const fn tile_m(columns: usize) -> usize {
    8 * columns
}

/// Columns of a block's tile.
pub const fn tile_n(columns: usize) -> usize {
    16 * columns
}

/// Elements along k of a stage.
pub const fn tile_k(columns: usize) -> usize {
    A_LEN / tile_m(columns)
}

/// Warps that multiply.
const fn warps(columns: usize) -> usize {
    tile_m(columns) / 64 * WARPS_ALONG_N
}

/// Warps ahead of them, of which one thread has the copies made: registers are given away by whole warpgroups.
const fn producer_warps(columns: usize) -> usize {
    if columns == 16 { 4 } else { 1 }
}

/// Threads of a block.
pub const fn threads(columns: usize) -> usize {
    32 * (producer_warps(columns) + warps(columns))
}

/// Blocks that a multiprocessor holds at a time.
pub const fn blocks(columns: usize) -> usize {
    16 / columns
}

/// Stages of the ring.
const fn stages(columns: usize) -> usize {
    columns
}

/// The dynamic shared memory of a launch in bytes: the tiles are aligned to 128.
pub const fn shared_bytes(columns: usize) -> usize {
    128 + stages(columns) * (4 * (A_LEN + B_LEN) + 16)
}

/// The shape of a batch of products.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, KernelParam)]
pub struct SimtShape {
    /// Products.
    pub batch: u32,
    /// Rows of `A` and `C`.
    pub m: u32,
    /// Columns of `B` and `C`.
    pub n: u32,
    /// Columns of `A` and rows of `B`.
    pub k: u32,
    /// From product to product in the map of `A`: 1, or 0 for one matrix for all.
    pub a_step: u32,
    /// The same of `B`.
    pub b_step: u32,
}

/// `C ← alpha · A B + beta · C` for each product of the batch, in `c` one after another, in C order; where `beta` is 0, `C`
/// is not read.
///
/// # Safety
///
/// A block has [`threads`] threads and [`shared_bytes`] bytes of dynamic shared memory; the grid has one axis. The maps have
/// three axes (products, k, lines) and no swizzle; a tile of theirs is, along the last two, [`tile_k`] × [`tile_m`] of `a`
/// and [`tile_k`] × [`tile_n`] of `b`. `c` has as many elements as the products.
#[kernel(C = [8, 16], arch = "sm_90a", max_threads = threads(C), min_blocks = blocks(C))]
pub unsafe fn gemm_simt<const C: usize>(
    a: TensorMap<'_, f32>,
    b: TensorMap<'_, f32>,
    c: SliceMut<'_, f32>,
    shape: SimtShape,
    alpha: f32,
    beta: f32,
) {
    // SAFETY: the kernel's contract.
    let block = unsafe { Block::<C>::new(a, b, shape) };
    let warp = warp::uniform(thread::thread_idx_x() / 32);
    if warp < producer_warps(C) as u32 {
        if C == 16 {
            warpgroup::decrease_registers::<24>();
        }
        if thread::thread_idx_x() == 0 {
            block.produce();
        }
    } else {
        if C == 16 {
            warpgroup::increase_registers::<240>();
        }
        block.consume(warp - producer_warps(C) as u32, c, alpha, beta);
    }
}

/// What the threads of a block have in common.
struct Block<'a, const C: usize> {
    a: TensorMap<'a, f32>,
    b: TensorMap<'a, f32>,
    shape: SimtShape,
    tiles: Tiles,
    /// Stages of `A`, then those of `B`.
    stages: Shared<f32>,
    /// For each stage whether it is full, then for each whether it is free.
    barriers: Shared<u64>,
}

/// What a thread has of the operands for one element of k.
#[derive(Clone, Copy)]
struct Fragments<const C: usize> {
    a: [f32; ROWS],
    b: [f32; C],
}

impl<'a, const C: usize> Block<'a, C> {
    const STAGES: u32 = stages(C) as u32;

    /// Makes the barriers ready.
    ///
    /// # Safety
    ///
    /// The kernel's contract.
    #[inline(always)]
    unsafe fn new(a: TensorMap<'a, f32>, b: TensorMap<'a, f32>, shape: SimtShape) -> Self {
        let memory = cuda_std::shared::dynamic::<f32>().aligned::<128>();
        // SAFETY: the block has as much memory behind that address.
        let barriers = unsafe { memory.subarray_unchecked(stages(C) * (A_LEN + B_LEN), 4 * stages(C)) }.cast::<u64>();
        let block = Self {
            a,
            b,
            shape,
            tiles: Tiles::new(
                shape.batch,
                [shape.m, shape.n],
                [tile_m(C) as u32, tile_n(C) as u32],
                GROUP,
            ),
            stages: memory,
            barriers,
        };
        if thread::thread_idx_x() == 0 {
            for stage in 0..Self::STAGES {
                block.full(stage).init(1);
                block.free(stage).init(warps(C) as u32);
            }
            mbarrier::fence_init();
        }
        thread::sync_threads();
        block
    }

    /// The barrier that the copies of a stage complete.
    #[inline(always)]
    fn full(&self, stage: u32) -> Mbarrier {
        // SAFETY: there are two for each stage.
        unsafe { Mbarrier::at_unchecked(self.barriers, stage as usize) }
    }

    /// The barrier at which the warps arrive when they are done with a stage.
    #[inline(always)]
    fn free(&self, stage: u32) -> Mbarrier {
        // SAFETY: there are two for each stage.
        unsafe { Mbarrier::at_unchecked(self.barriers, stage as usize + stages(C)) }
    }

    /// Has the stages filled, one after another. For one thread.
    #[inline(always)]
    fn produce(&self) {
        self.a.prefetch();
        self.b.prefetch();
        let mut step = 0;
        for tile in self.tiles.of_block() {
            let mut k = 0;
            while k < self.shape.k {
                let (stage, round) = (step % Self::STAGES, step / Self::STAGES % 2);
                self.free(stage).wait(round ^ 1);
                self.fill(stage, tile, k);
                k += tile_k(C) as u32;
                step += 1;
            }
        }
    }

    /// Has the tiles at `k` copied to a stage, with which the other warps are done.
    #[inline(always)]
    fn fill(&self, stage: u32, tile: Tile, k: u32) {
        let full = self.full(stage);
        full.arrive_expect_tx(4 * (A_LEN + B_LEN) as u32);
        let (to_a, to_b) = (stage as usize * A_LEN, stages(C) * A_LEN + stage as usize * B_LEN);
        let of_a = (tile.product * self.shape.a_step) as i32;
        let of_b = (tile.product * self.shape.b_step) as i32;
        // SAFETY: boxes of the maps are, by the kernel's contract, as large as the stage has room for them. Nobody reads
        // the stage before its barrier says that it is full.
        unsafe {
            let (a, b) = (
                self.stages.subarray_unchecked(to_a, A_LEN),
                self.stages.subarray_unchecked(to_b, B_LEN),
            );
            self.a.load(a, [tile.row as i32, k as i32, of_a], full);
            self.b.load(b, [tile.column as i32, k as i32, of_b], full);
        }
    }

    /// Multiplies the stages, and stores the tiles.
    #[inline(always)]
    fn consume(&self, warp: u32, c: SliceMut<'_, f32>, alpha: f32, beta: f32) {
        let lane = thread::thread_idx_x() % 32;
        let row = warp / 4 * 64 + lane / 4 * 4;
        let column = warp % 4 * 4 * C as u32 + lane % 4 * 4;
        let mut step = 0;
        for tile in self.tiles.of_block() {
            let mut sums = [[0.0; C]; ROWS];
            let mut k = 0;
            while k < self.shape.k {
                let (stage, round) = (step % Self::STAGES, step / Self::STAGES % 2);
                self.full(stage).wait(round);
                self.multiply(stage as usize, row as usize, column as usize, &mut sums);
                warp::sync_warp(warp::FULL_MASK);
                self.free(stage).arrive_if(lane == 0);
                k += tile_k(C) as u32;
                step += 1;
            }
            self.store(&sums, tile, [tile.row + row, tile.column + column], c, alpha, beta);
        }
    }

    /// Adds the products of a stage. The reads for the next element of k are ahead of the arithmetic.
    #[inline(always)]
    #[allow(unused_assignments, reason = "the last element of k has none behind it")]
    fn multiply(&self, stage: usize, row: usize, column: usize, sums: &mut [[f32; C]; ROWS]) {
        let (a, b) = (stage * A_LEN + row, stages(C) * A_LEN + stage * B_LEN + column);
        let mut next = self.fragments(a, b);
        unroll!(16, k => {
            if k < tile_k(C) {
                let now = next;
                if k + 1 < tile_k(C) {
                    next = self.fragments(a + (k + 1) * tile_m(C), b + (k + 1) * tile_n(C));
                }
                add_products(&now, sums);
            }
        });
    }

    /// The thread's rows from element `a` of the stages on, and its columns from `b` on.
    #[inline(always)]
    fn fragments(&self, a: usize, b: usize) -> Fragments<C> {
        let mut fragments = Fragments {
            a: [0.0; ROWS],
            b: [0.0; C],
        };
        // SAFETY (of both): the rows and columns of a thread are in the tiles of the stage, at multiples of four.
        unroll!(2, chunk => {
            let four: [f32; 4] = unsafe { self.stages.get_vec_unchecked(a + 32 * chunk) };
            unroll!(4, i => {
                fragments.a[4 * chunk + i] = four[i];
            });
        });
        unroll!(C / 4, chunk => {
            let four: [f32; 4] = unsafe { self.stages.get_vec_unchecked(b + 16 * chunk) };
            unroll!(4, j => {
                fragments.b[4 * chunk + j] = four[j];
            });
        });
        fragments
    }

    /// Puts the thread's sums into `C`.
    #[inline(always)]
    fn store(
        &self,
        sums: &[[f32; C]; ROWS],
        tile: Tile,
        [row, column]: [u32; 2],
        c: SliceMut<'_, f32>,
        alpha: f32,
        beta: f32,
    ) {
        let SimtShape { m, n, .. } = self.shape;
        let wide = n % 4 == 0 && c.is_vec_aligned::<4>();
        unroll!(8, i => {
            let row = row + i as u32 / 4 * 32 + i as u32 % 4;
            if row < m {
                let line = (tile.product as usize * m as usize + row as usize) * n as usize;
                unroll!(C / 4, chunk => {
                    let column = column + 16 * chunk as u32;
                    let at = line + column as usize;
                    let four = |j: usize| sums[i][4 * chunk + j];
                    let four = [four(0), four(1), four(2), four(3)];
                    // SAFETY (of both): the row and the column are in C, which `c` has all of; with lines of a multiple
                    // of four, the whole vector is, and aligned.
                    if wide && column < n {
                        unsafe { put(c, at, four, alpha, beta) };
                    } else {
                        unroll!(4, j => {
                            if column + (j as u32) < n {
                                unsafe { put(c, at + j, [four[j]], alpha, beta) };
                            }
                        });
                    }
                });
            }
        });
    }
}

/// Adds the products for one element of k, there and back along columns or, where there are 8 of them, along rows: of the
/// two, what has fewer conflicts in the assembler's code.
#[inline(always)]
fn add_products<const C: usize>(of: &Fragments<C>, sums: &mut [[f32; C]; ROWS]) {
    let back_and_forth = |line: usize, i, length| if line.is_multiple_of(2) { i } else { length - 1 - i };
    let mut add = |i: usize, j: usize| sums[i][j] = of.a[i].mul_add(of.b[j], sums[i][j]);
    if C == 16 {
        for j in 0..C {
            for i in 0..ROWS {
                add(back_and_forth(j, i, ROWS), j);
            }
        }
    } else {
        for i in 0..ROWS {
            for j in 0..C {
                add(i, back_and_forth(i, j, C));
            }
        }
    }
}

/// `c ← alpha · sums + beta · c`
///
/// # Safety
///
/// There are `N` elements at `at`, aligned as vectors of `N` are.
#[inline(always)]
unsafe fn put<const N: usize>(c: SliceMut<'_, f32>, at: usize, sums: [f32; N], alpha: f32, beta: f32) {
    let values = if beta == 0.0 {
        sums.map(|sum| scaled(alpha, sum, None))
    } else {
        // SAFETY: the same memory, which is written only through `c`; index and alignment are the caller's promise.
        let old: [f32; N] = unsafe { Slice::from_raw_parts(c.as_ptr(), c.len()).get_vec_unchecked::<N>(at) };
        cuda_std::array::from_fn(|i| scaled(alpha, sums[i], Some((beta, old[i]))))
    };
    // SAFETY: the caller's promise.
    unsafe { c.set_vec_unchecked(at, values) };
}
