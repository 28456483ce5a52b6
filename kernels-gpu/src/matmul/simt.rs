// SPDX-License-Identifier: MIT OR Apache-2.0
//! Matrix times matrix in f32 on the ordinary cores of Hopper and later GPUs: `C ← f(α A B + β C + bias) +
//! residual`.
//!
//! A block computes tiles of `C` of 128 × 256 elements, one after another: eight warps of 64 × 64, a thread 8 × 16. A
//! third warpgroup, of which one thread works and which gives its registers to the others, has the tensor memory accelerator copy the tiles of `A` and `B`, 8 elements of k at a time, into a ring of
//! stages in shared memory, so that no copy takes registers or issue slots of those that multiply.
//!
//! What is scarce are issue slots: for each element of k a thread issues 128 fused multiply-adds and six reads of 16 bytes
//! from shared memory. For these, both operands lie along their lines (`A` by columns, `B` by rows): one read brings four
//! rows of `A` for one element of k. Then the register file: it gives a fused multiply-add one operand from each of its
//! two banks and one that was read just before. So columns go there and back: in even ones the rows ascend, in odd ones
//! they descend, and each instruction has but one operand that the one before had not. And what is stored was multiplied
//! by α into other registers, or the assembler would keep the sums in aligned groups of four, as the reads of `B`, and
//! both in the same bank.
//!
//! A warp's lanes wait for each other before one of them says that a stage is free: lanes are free to run ahead of each
//! other, and one that read a barrier's parity two rounds late would wait for ever.
//!
//! Work `2 m n k`. Each element of `C` is one chain of fused multiply-adds in the order of k: the same bits as
//! [`gemm`](super::gemm) gives.

use cuda_std::hint;
use cuda_std::mbarrier::{self, Mbarrier};
use cuda_std::prelude::*;
use cuda_std::tma::TensorMap;
use cuda_std::warpgroup;

use super::epilogue::{Epilogue, EpiloguePlan};
use super::tiles::{Tile, Tiles};
use super::{scaled, unroll};

/// Threads of a block: two warpgroups that multiply, and one that has the copies made.
pub const THREADS: usize = 384;

/// Warps that multiply: 2 × 4.
const WARPS: usize = 8;

/// Rows of a block's tile.
pub const TILE_M: usize = 128;

/// Columns of a block's tile.
pub const TILE_N: usize = 256;

/// Elements along k of a stage.
pub const TILE_K: usize = 8;

/// Rows of a thread's tile, in chunks of four that lie 32 apart.
const ROWS: usize = 8;

/// Columns of a thread's tile, in chunks of four that lie 16 apart.
const COLUMNS: usize = 16;

/// Rows of tiles that blocks of neighbouring numbers share.
const GROUP: u32 = 8;

/// Stages of the ring.
const STAGES: usize = 16;

/// Elements of a stage's tile of `A`.
const A_LEN: usize = TILE_M * TILE_K;

/// Elements of a stage's tile of `B`.
const B_LEN: usize = TILE_N * TILE_K;

/// The dynamic shared memory of a launch in bytes: the tiles are aligned to 128.
pub const SHARED_BYTES: usize = 128 + STAGES * (4 * (A_LEN + B_LEN) + 16);

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

/// `C ← f(alpha · A B + beta · C + bias) + residual` for each product of the batch, in `c` one after another, in C order,
/// with the function of the plan; where `beta` is 0, `C` is not read.
///
/// # Safety
///
/// A block has [`THREADS`] threads and [`SHARED_BYTES`] bytes of dynamic shared memory; the grid has one axis. The maps have
/// three axes (products, k, lines) and no swizzle; a tile of theirs is, along the last two, [`TILE_K`] × [`TILE_M`] of `a`
/// and [`TILE_K`] × [`TILE_N`] of `b`. `c` has as many elements as the products. The addends are as
/// [`Epilogue::new`] says.
#[kernel(arch = "sm_90a", max_threads = THREADS, min_blocks = 1)]
pub unsafe fn gemm_simt(
    a: TensorMap<'_, f32>,
    b: TensorMap<'_, f32>,
    c: SliceMut<'_, f32>,
    shape: SimtShape,
    alpha: f32,
    beta: f32,
    plan: EpiloguePlan,
    bias: &[f32],
    residual: &[f32],
) {
    // SAFETY (of both): the kernel's contract.
    let result = Result {
        c,
        alpha,
        beta,
        epilogue: unsafe { Epilogue::new(plan, bias, residual) },
    };
    let block = unsafe { Block::new(a, b, shape) };
    let warp = warp::uniform(thread::thread_idx_x() / 32);
    if warp < 4 {
        warpgroup::decrease_registers::<24>();
        if thread::thread_idx_x() == 0 {
            block.produce();
        }
    } else {
        warpgroup::increase_registers::<240>();
        block.consume(warp - 4, &result);
    }
}

/// What becomes of the sums.
struct Result<'a> {
    c: SliceMut<'a, f32>,
    alpha: f32,
    beta: f32,
    epilogue: Epilogue<'a, f32>,
}

/// What the threads of a block have in common.
struct Block<'a> {
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
struct Fragments {
    a: [f32; ROWS],
    b: [f32; COLUMNS],
}

impl<'a> Block<'a> {
    /// Makes the barriers ready.
    ///
    /// # Safety
    ///
    /// The kernel's contract.
    #[inline(always)]
    unsafe fn new(a: TensorMap<'a, f32>, b: TensorMap<'a, f32>, shape: SimtShape) -> Self {
        let stages = cuda_std::shared::dynamic::<f32>().aligned::<128>();
        // SAFETY: the block has as much memory behind that address.
        let barriers = unsafe { stages.subarray_unchecked(STAGES * (A_LEN + B_LEN), 4 * STAGES) }.cast::<u64>();
        let block = Self {
            a,
            b,
            shape,
            tiles: Tiles::new(shape.batch, [shape.m, shape.n], [TILE_M as u32, TILE_N as u32], GROUP),
            stages,
            barriers,
        };
        if thread::thread_idx_x() == 0 {
            for stage in 0..STAGES as u32 {
                block.full(stage).init(1);
                block.free(stage).init(WARPS as u32);
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
        unsafe { Mbarrier::at_unchecked(self.barriers, stage as usize + STAGES) }
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
                let (stage, round) = (step % STAGES as u32, step / STAGES as u32 % 2);
                self.free(stage).wait(round ^ 1);
                self.fill(stage, tile, k);
                k += TILE_K as u32;
                step += 1;
            }
        }
    }

    /// Has the tiles at `k` copied to a stage, with which the other warps are done.
    #[inline(always)]
    fn fill(&self, stage: u32, tile: Tile, k: u32) {
        let full = self.full(stage);
        full.arrive_expect_tx(4 * (A_LEN + B_LEN) as u32);
        let (to_a, to_b) = (stage as usize * A_LEN, STAGES * A_LEN + stage as usize * B_LEN);
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
    // On the simulated GPU in a frame of its own: there is no room for both roles' in one.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn consume(&self, warp: u32, result: &Result<'_>) {
        let lane = thread::thread_idx_x() % 32;
        let row = warp / 4 * 64 + lane / 4 * 4;
        let column = warp % 4 * 64 + lane % 4 * 4;
        let mut step = 0;
        for tile in self.tiles.of_block() {
            let mut sums = [[0.0; COLUMNS]; ROWS];
            let mut k = 0;
            while k < self.shape.k {
                let (stage, round) = (step % STAGES as u32, step / STAGES as u32 % 2);
                self.full(stage).wait(round);
                self.multiply(stage as usize, row as usize, column as usize, &mut sums);
                warp::sync_warp(warp::FULL_MASK);
                self.free(stage).arrive_if(lane == 0);
                k += TILE_K as u32;
                step += 1;
            }
            let at = [tile.row + row, tile.column + column];
            self.store(&sums, tile, at, result);
            if !result.epilogue.is_identity() {
                self.finish(tile, at, result);
            }
        }
    }

    /// Adds the products of a stage. The reads for the next element of k are ahead of the arithmetic.
    #[inline(always)]
    #[allow(unused_assignments, reason = "the last element of k has none behind it")]
    fn multiply(&self, stage: usize, row: usize, column: usize, sums: &mut [[f32; COLUMNS]; ROWS]) {
        let (a, b) = (stage * A_LEN + row, STAGES * A_LEN + stage * B_LEN + column);
        let mut next = self.fragments(a, b);
        unroll!(8, k => {
            let now = next;
            if k + 1 < TILE_K {
                next = self.fragments(a + (k + 1) * TILE_M, b + (k + 1) * TILE_N);
            }
            add_products(&now, sums);
        });
    }

    /// The thread's rows from element `a` of the stages on, and its columns from `b` on.
    #[inline(always)]
    fn fragments(&self, a: usize, b: usize) -> Fragments {
        let mut fragments = Fragments {
            a: [0.0; ROWS],
            b: [0.0; COLUMNS],
        };
        // SAFETY (of both): the rows and columns of a thread are in the tiles of the stage, at multiples of four.
        unroll!(2, chunk => {
            let four: [f32; 4] = unsafe { self.stages.get_vec_unchecked(a + 32 * chunk) };
            unroll!(4, i => {
                fragments.a[4 * chunk + i] = four[i];
            });
        });
        unroll!(4, chunk => {
            let four: [f32; 4] = unsafe { self.stages.get_vec_unchecked(b + 16 * chunk) };
            unroll!(4, j => {
                fragments.b[4 * chunk + j] = four[j];
            });
        });
        fragments
    }

    /// Puts the thread's sums into `C`.
    #[inline(always)]
    fn store(&self, sums: &[[f32; COLUMNS]; ROWS], tile: Tile, [row, column]: [u32; 2], result: &Result<'_>) {
        let SimtShape { m, n, .. } = self.shape;
        let wide = n % 4 == 0 && result.c.is_vec_aligned::<4>();
        unroll!(8, i => {
            let row = row + i as u32 / 4 * 32 + i as u32 % 4;
            if row < m {
                let line = (tile.product as usize * m as usize + row as usize) * n as usize;
                unroll!(4, chunk => {
                    let column = column + 16 * chunk as u32;
                    let at = line + column as usize;
                    let four = |j: usize| sums[i][4 * chunk + j];
                    let four = [four(0), four(1), four(2), four(3)];
                    // SAFETY (of both): the row and the column are in C, which `c` has all of; with lines of a multiple
                    // of four, the whole vector is, and aligned.
                    if wide && column < n {
                        unsafe { result.put(at, four) };
                    } else {
                        unroll!(4, j => {
                            if column + (j as u32) < n {
                                unsafe { result.put(at + j, [four[j]]) };
                            }
                        });
                    }
                });
            }
        });
    }

    /// Finishes what [`store`](Self::store) stored.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn finish(&self, tile: Tile, [row, column]: [u32; 2], result: &Result<'_>) {
        let SimtShape { m, n, .. } = self.shape;
        // A number that the compiler does not know: it would unroll the loop.
        let pieces = hint::opaque((ROWS * COLUMNS / 4) as u32);
        let mut piece = 0;
        while piece < pieces {
            let row = row + piece / 16 * 32 + piece / 4 % 4;
            let column = column + piece % 4 * 16;
            if row < m && column < n {
                let at = [tile.product as usize, row as usize, column as usize];
                // SAFETY: the row and the column are in C, and this thread stored the elements; columns are multiples of 4.
                unsafe {
                    result
                        .epilogue
                        .finish_stored::<4>(result.c, at, [m as usize, n as usize])
                };
            }
            piece += 1;
        }
    }
}

/// Adds the products for one element of k, column by column, there and back.
#[inline(always)]
fn add_products(of: &Fragments, sums: &mut [[f32; COLUMNS]; ROWS]) {
    for j in 0..COLUMNS {
        for i in 0..ROWS {
            let i = if j % 2 == 0 { i } else { ROWS - 1 - i };
            sums[i][j] = of.a[i].mul_add(of.b[j], sums[i][j]);
        }
    }
}

impl Result<'_> {
    /// `c ← alpha · sums + beta · c`
    ///
    /// # Safety
    ///
    /// There are `N` elements at `at`, aligned as vectors of `N` are.
    #[inline(always)]
    unsafe fn put<const N: usize>(&self, at: usize, sums: [f32; N]) {
        let &Self { c, alpha, beta, .. } = self;
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
}
