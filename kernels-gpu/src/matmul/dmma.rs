// SPDX-License-Identifier: MIT OR Apache-2.0
//! Matrix times matrix in f64 on Hopper's tensor cores: `C ← f(α A B + β C + bias) + residual`.
//!
//! A block computes tiles of `C` of `ROWS` × 128 elements, one after another, in the frame of [`simt`](super::simt): one
//! thread of the first warpgroup has the tensor memory accelerator copy tiles of `A` and `B`, 16 elements of k at a time,
//! into a ring of stages in shared memory; eight warps multiply them (`mma.sync.m16n8k8`), each 32 rows × 64 columns (of
//! tiles of 64 rows or fewer: × 32), with the sums in registers. Tiles of 32 rows may have 64 or 32 columns, too, where they are
//! few; the warps that have the same rows and columns of them have eight elements of k each in turn (`slices`), and add up their
//! sums in the end.
//!
//! A warp computes `Cᵀ = Bᵀ Aᵀ`: 16 columns of `C` are rows of the instruction's first operand, 8 rows of `C` the columns
//! of its second. A lane then has two columns of `C` that are neighbours, so that it reads them from shared memory, where
//! `B` lies along its columns, as it writes them to `C`: by 16 bytes. Which rows and columns a lane has of each tile is a
//! permutation with which neither the reads of 16 bytes by eight lanes nor those of 8 by sixteen meet in a bank: tiles lie
//! in shared memory with the swizzle of 128 bytes, in lines of 16 elements. Along k nothing is permuted.
//!
//! An operand may lie along k or along its lines (rows of `A`, columns of `B`). What is read for the next eight elements of
//! k, and the next 16 columns, is read ahead of the arithmetic, from the next stage too.
//!
//! Where tiles are no multiple of the blocks, those of the last two rounds are cut along k, into as many shares as there are
//! blocks (`Parts`). A share has the end of one tile and the beginning of another. A block computes the beginning first, and
//! leaves its sums in memory; the end last, from the sums that its neighbour left. So nobody waits, in effect, and each sum is
//! still one chain in the order of k: the bits do not depend on the shares.
//!
//! Where tiles are so few that multiprocessors would be left over, and k is long, blocks have parts of k of one tile side by
//! side. The one with the last part adds the others' sums to its own, in the order of k: then a sum is as many chains as there
//! are parts, which the host says.
//!
//! Work `2 m n k`. Elements moved from the cache `m n k (1 / ROWS + 1 / 128)`. Each element of `C` is a chain of
//! instructions in the order of k, of eight products each, which are fused multiply-adds; by tiles of 32 rows it is two or
//! four chains (of 128, and of fewer columns), of which each has the next eight elements of k in turn; neighbours are added first.

mod consume;
mod handed;
mod produce;
mod slices;

use core::marker::PhantomData;

use cuda_std::mbarrier::{self, Mbarrier};
use cuda_std::prelude::*;
use cuda_std::tma::TensorMap;
use cuda_std::warpgroup;
use cuda_std::wgmma::{KMajor, MnMajor};

use self::handed::Handed;
use super::epilogue::{Epilogue, EpiloguePlan};
use super::handed::Flags;
use super::parts::Parts;
use super::stored::Stored;
use super::tiles::Tiles;

/// Rows of tiles that blocks of neighbouring numbers share.
const GROUP: u32 = 8;

/// Threads of a block: two warpgroups that multiply, and one that has the copies made.
pub const THREADS: usize = 384;

/// Rows of the tiles that may be narrow, and of which blocks may have parts of k side by side.
pub const PARTED_ROWS: usize = 32;

/// Warps that multiply.
pub const WARPS: usize = 8;

/// Columns of a block's tile, or the most that it has.
pub const TILE_N: usize = 128;

/// Columns that a tile of [`PARTED_ROWS`] rows may have: each warp has 32 of them, or 16 of 32.
pub const PARTED_TILE_N: [usize; 3] = [32, 64, TILE_N];

/// Slices of k of a tile of [`PARTED_ROWS`] rows and so many columns, each of other warps. As many are the chains of each sum.
pub const fn slices(columns: usize) -> usize {
    if columns == TILE_N { 2 } else { 4 }
}

/// Elements along k of a stage, and lines of a box of an operand that lies along them: 128 bytes.
pub const TILE_K: usize = 16;

/// Elements of 16 lines of a stage.
const LINES: usize = 16 * TILE_K;

/// Rows of a warp's tile, in four groups of 8.
const WARP_ROWS: u32 = 32;

/// Groups of 16 columns of a warp's tile.
const fn groups(rows: usize) -> usize {
    if rows == 128 { 4 } else { 2 }
}

/// Warps side by side.
const fn warps_n(rows: usize) -> u32 {
    (TILE_N / 16 / groups(rows)) as u32
}

/// Stages of the ring: a power of two.
const fn stages(rows: usize) -> usize {
    if rows == 128 { 4 } else { 8 }
}

/// Elements of a stage's tile of `A`.
const fn a_len(rows: usize) -> usize {
    rows * TILE_K
}

/// Elements of a stage's tile of `B`.
const B_LEN: usize = TILE_N * TILE_K;

/// The sums of a block's warps, which those of tiles of so many rows have one after another in memory where blocks hand them over.
pub const fn handed_len(rows: usize) -> usize {
    WARPS * sums_of_warp(rows)
}

/// The sums of a warp.
const fn sums_of_warp(rows: usize) -> usize {
    WARP_ROWS as usize * 16 * groups(rows)
}

/// The dynamic shared memory in bytes of a launch with tiles of so many rows: they are aligned to 1024.
pub const fn shared_bytes(rows: usize) -> usize {
    let exchanged = if rows == PARTED_ROWS { slices::EXCHANGED_LEN } else { 0 };
    1024 + stages(rows) * (8 * (a_len(rows) + B_LEN) + 16) + 8 * exchanged
}

/// The shape of a batch of products.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, KernelParam)]
pub struct DmmaShape {
    /// Products.
    pub batch: u32,
    /// Rows of `A` and `C`.
    pub m: u32,
    /// Columns of `B` and `C`.
    pub n: u32,
    /// Columns of `A` and rows of `B`: 1 at least.
    pub k: u32,
    /// Columns of a tile: [`TILE_N`], or, of tiles of [`PARTED_ROWS`] rows, one of [`PARTED_TILE_N`].
    pub columns: u32,
    /// From product to product in the map of `A`: 1, or 0 for one matrix for all.
    pub a_step: u32,
    /// The same of `B`.
    pub b_step: u32,
    /// Whether the map of an `a` that lies along its lines has them by 16, as a further axis: not 0, or 0.
    pub a_in_one: u32,
    /// The same of `b`.
    pub b_in_one: u32,
    /// Tiles, the first ones, that are not cut: blocks take them in turn. They are a multiple of the blocks, or all.
    pub whole: u32,
    /// Steps of [`TILE_K`] along k that a block has of the other tiles: at least as many as a tile has. Where blocks have parts of k
    /// side by side, those of each part but the last, which has one at least.
    pub share: u32,
}

/// `C ← f(alpha · A B + beta · C + bias) + residual` for each product of the batch, in `c` one after another, in C order,
/// with the function of the plan; where `beta` is 0, `C` is not read. Flags are 0 at its start and at its end, and so are
/// partial sums where blocks have parts of k side by side.
///
/// # Safety
///
/// A block has [`THREADS`] threads and [`shared_bytes`] bytes of dynamic shared memory. The grid's second axis has the parts of k;
/// if there are several, or fewer columns than [`TILE_N`], `ROWS` are [`PARTED_ROWS`], all tiles are whole, and the first axis has a
/// block for each. The maps have the
/// products first, and the swizzle of 128 bytes. Of what lies along k there are two axes more, and a tile of theirs is `ROWS` ×
/// [`TILE_K`] of `a` and `shape.columns` × `TILE_K` of `b`. Of what lies along its lines there are three:
/// pieces of 16 lines, k, and the lines of a piece, and a tile has as many pieces as the block's; or one piece of all lines, of which a
/// tile has 16. `c` has as many elements as the products. The addends are as [`Epilogue::new`] says. If tiles are cut,
/// `partials` has [`handed_len`] elements, and `flags` [`WARPS`] words, for each block; if they are in parts, `partials` has as many
/// elements for each block but those with the last part.
#[kernel(
    A = [KMajor, MnMajor], B = [KMajor, MnMajor], ROWS = [32, 64, 128],
    arch = "sm_90a",
    max_threads = THREADS,
    min_blocks = 1,
)]
pub unsafe fn gemm_dmma<A: Side, B: Side, const ROWS: usize>(
    a: TensorMap<'_, f64>,
    b: TensorMap<'_, f64>,
    c: SliceMut<'_, f64>,
    shape: DmmaShape,
    alpha: f64,
    beta: f64,
    plan: EpiloguePlan,
    bias: &[f64],
    residual: &[f64],
    partials: SliceMut<'_, f64>,
    flags: SliceMut<'_, u32>,
) {
    // SAFETY (of both): the kernel's contract.
    let result = Stored {
        c,
        alpha,
        beta,
        epilogue: unsafe { Epilogue::new(plan, bias, residual) },
    };
    let block = unsafe { Block::<A, B, ROWS>::new(a, b, shape) };
    let handed = Handed {
        partials,
        flags: Flags::new(flags, WARPS),
    };
    let warp = warp::uniform(thread::thread_idx_x() / 32);
    if warp < 4 {
        warpgroup::decrease_registers::<40>();
        if warp == 0 && warp::elect() {
            block.produce();
        }
    } else {
        warpgroup::increase_registers::<232>();
        block.consume(warp - 4, &result, &handed);
    }
}

/// How an operand lies in memory, and in a stage: along k ([`KMajor`]), or along its lines ([`MnMajor`]).
pub trait Side {
    /// Whether along k.
    const ALONG_K: bool;

    /// Where element `k` of a line lies, in elements.
    fn place(line: u32, k: u32) -> u32;

    /// The row of the 8 of group `j` that is number `i` to the instruction. In either half of the numbers, with four
    /// elements of k in a row, no two are in a bank.
    fn row(i: u32, j: u32) -> u32;

    /// The first of the two columns of 16 that are numbers `i` and `i + 8` to the instruction.
    fn column(i: u32) -> u32;
}

impl Side for KMajor {
    const ALONG_K: bool = true;

    #[inline(always)]
    fn place(line: u32, k: u32) -> u32 {
        line * 16 + ((k / 2) ^ (line % 8)) * 2 + k % 2
    }

    #[inline(always)]
    fn row(i: u32, j: u32) -> u32 {
        8 * j + i % 4 * 2 + i / 4
    }

    #[inline(always)]
    fn column(i: u32) -> u32 {
        2 * i
    }
}

impl Side for MnMajor {
    const ALONG_K: bool = false;

    #[inline(always)]
    fn place(line: u32, k: u32) -> u32 {
        line / 16 * LINES as u32 + k * 16 + ((line % 16 / 2) ^ (k % 8)) * 2 + line % 2
    }

    #[inline(always)]
    fn row(i: u32, j: u32) -> u32 {
        j / 2 * 16 + j % 2 * 4 + i % 2 + i / 2 % 2 * 8 + i / 4 * 2
    }

    #[inline(always)]
    fn column(i: u32) -> u32 {
        // Of two neighbours among the lanes, the pieces of 16 bytes are four apart: those of four elements of k are not.
        i / 2 * 2 + i % 2 * 8
    }
}

/// The sums of a lane: of each group of 16 columns and each of 8 rows.
type Sums = [[[f64; 4]; 4]; 4];

/// What the threads of a block have in common.
struct Block<'a, A, B, const ROWS: usize> {
    a: TensorMap<'a, f64>,
    b: TensorMap<'a, f64>,
    shape: DmmaShape,
    /// Stages of `A`, then those of `B`.
    stages: Shared<f64>,
    /// For each stage whether it is full, then for each whether it is free.
    barriers: Shared<u64>,
    _sides: PhantomData<(A, B)>,
}

impl<'a, A: Side, B: Side, const ROWS: usize> Block<'a, A, B, ROWS> {
    const STAGES: u32 = stages(ROWS) as u32;

    /// The first element of the stages of `B`.
    const B_START: usize = stages(ROWS) * a_len(ROWS);

    /// Makes the barriers ready.
    ///
    /// # Safety
    ///
    /// The kernel's contract.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    unsafe fn new(a: TensorMap<'a, f64>, b: TensorMap<'a, f64>, shape: DmmaShape) -> Self {
        let stages = cuda_std::shared::dynamic::<f64>().aligned::<1024>();
        let count = Self::STAGES as usize;
        // SAFETY: the block has as much memory behind that address.
        let barriers = unsafe { stages.subarray_unchecked(Self::B_START + count * B_LEN, 2 * count) }.cast::<u64>();
        let block = Self {
            a,
            b,
            shape,
            stages,
            barriers,
            _sides: PhantomData,
        };
        if thread::thread_idx_x() == 0 {
            for stage in 0..Self::STAGES {
                block.full(stage).init(1);
                block.free(stage).init(block.readers());
            }
            mbarrier::fence_init();
        }
        thread::sync_threads();
        block
    }

    /// The block's parts of tiles. Either role finds them for itself, which has other registers.
    #[inline(always)]
    fn parts(&self) -> Parts {
        let DmmaShape {
            batch,
            m,
            n,
            k,
            whole,
            share,
            ..
        } = self.shape;
        let tiles = Tiles::new(batch, [m, n], [ROWS as u32, self.tile_n()], GROUP);
        let (blocks, parts) = (thread::grid_dim_x(), thread::grid_dim_y());
        let of_block = [thread::block_idx_x(), thread::block_idx_y()];
        Parts::new(
            tiles,
            k.div_ceil(TILE_K as u32),
            [whole, share],
            of_block,
            [blocks, parts],
        )
    }

    /// Columns of a tile.
    #[inline(always)]
    fn tile_n(&self) -> u32 {
        // Constants, so that a division by it is a shift, and leaves no panic.
        match (ROWS, self.shape.columns) {
            (PARTED_ROWS, 32) => 32,
            (PARTED_ROWS, 64) => 64,
            _ => TILE_N as u32,
        }
    }

    /// The warps that read a stage.
    #[inline(always)]
    fn readers(&self) -> u32 {
        match ROWS {
            // Those of its first half, and those of its second, of as many slices as there are.
            PARTED_ROWS if self.tile_n() as usize == TILE_N => WARPS as u32,
            PARTED_ROWS => WARPS as u32 / 2,
            _ => WARPS as u32,
        }
    }

    /// The barrier that the copies of a stage complete, of step `step` along k.
    #[inline(always)]
    fn full(&self, step: u32) -> Mbarrier {
        // SAFETY: there are two for each stage.
        unsafe { Mbarrier::at_unchecked(self.barriers, (step % Self::STAGES) as usize) }
    }

    /// The barrier at which the warps arrive when they are done with a stage.
    #[inline(always)]
    fn free(&self, step: u32) -> Mbarrier {
        // SAFETY: there are two for each stage.
        unsafe { Mbarrier::at_unchecked(self.barriers, (step % Self::STAGES + Self::STAGES) as usize) }
    }

    /// So many elements of the stages.
    #[inline(always)]
    fn operand(&self, at: usize, len: usize) -> Shared<f64> {
        // SAFETY: what is asked for is in the stages.
        unsafe { self.stages.subarray_unchecked(at, len) }
    }
}
