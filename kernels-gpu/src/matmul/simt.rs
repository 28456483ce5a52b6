// SPDX-License-Identifier: MIT OR Apache-2.0
//! Matrix times matrix in f32 on the ordinary cores of Hopper and later GPUs: `C ← f(α A B + β C + bias) +
//! residual`.
//!
//! A block computes tiles of `C`, one after another: of 128 × 256 elements by eight warps, a thread 8 × 16, or, where there
//! are too few of these for all multiprocessors, of 64 × 128 or 32 × 64 by four warps, a thread 8 × 8 or 4 × 4. One more
//! thread has the tensor memory accelerator copy the tiles of `A` and `B`, 8 to 32 elements of k at a time, into a ring of
//! stages in shared memory, so that no copy takes registers or issue slots of those that multiply. With eight warps it has
//! a warpgroup of its own, which gives its registers to the others.
//!
//! What is scarce are issue slots: for each element of k a thread issues 128 fused multiply-adds and six reads of 16 bytes
//! from shared memory (64 and four for tiles of 64 × 128). For these, the operands lie along their lines (`A` by columns,
//! `B` by rows): one read brings four rows of `A` for one element of k. For the smaller tiles `A` may lie along k, too: a
//! read brings four elements of k of one row, by the swizzle without bank conflicts; the largest have no registers for
//! that. Then the register file: it gives a fused multiply-add one operand from each of its two banks and one that was
//! read just before. So columns go there and back: in even ones the rows ascend, in odd ones they descend (of the smaller
//! tiles, rows do), and each instruction has but one operand that the one before had not. And what is stored was
//! multiplied by α into other registers, or the assembler would keep the sums in aligned groups of four, as the reads of
//! `B`, and both in the same bank.
//!
//! A warp's lanes wait for each other before one of them says that a stage is free: lanes are free to run ahead of each
//! other, and one that read a barrier's parity two rounds late would wait for ever.
//!
//! Where tiles are no multiple of the blocks, those of the last two rounds are cut along k (`Parts`), as in [`dmma`](super::dmma):
//! a block begins a tile, whose sums the next block goes on with. So a sum is still one chain, and nobody waits, in effect.
//!
//! Work `2 m n k`. Each element of `C` is one chain of fused multiply-adds in the order of k: the same bits as
//! [`gemm`](super::gemm) gives.

mod handed;
mod result;

use core::marker::PhantomData;

use cuda_std::hint;
use cuda_std::mbarrier::{self, Mbarrier};
use cuda_std::prelude::*;
use cuda_std::tma::{self, Swizzle, TensorMap};
use cuda_std::warpgroup;

use self::handed::Handed;
use super::epilogue::{Epilogue, EpiloguePlan};
use super::gemm::{KMajor, Layout, MnMajor};
use super::handed::Flags;
use super::parts::Parts;
use super::stored::Stored;
use super::tiles::{Tile, Tiles};
use super::unroll;

/// Most rows of a thread's tile.
const MOST_ROWS: usize = 8;

/// Warps side by side along the columns of a block's tile. A warp has 8 × 4 threads.
const WARPS_ALONG_N: usize = 4;

/// Rows of tiles that blocks of neighbouring numbers share.
const GROUP: u32 = 8;

/// Elements of a stage's tile of `A`.
const A_LEN: usize = 1024;

/// Elements of a stage's tile of `B`.
const B_LEN: usize = 2048;

/// Rows of a thread's tile of so many columns: 4, 8 or 16, in chunks of four that lie 16 apart.
const fn rows(columns: usize) -> usize {
    if columns < MOST_ROWS { columns } else { MOST_ROWS }
}

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

/// The swizzle of a tile of `A` that lies along k, whose rows have as many bytes.
pub const fn swizzle(columns: usize) -> Swizzle {
    match 4 * tile_k(columns) {
        128 => Swizzle::B128,
        64 => Swizzle::B64,
        _ => Swizzle::B32,
    }
}

/// Warps that multiply.
pub const fn warps(columns: usize) -> usize {
    tile_m(columns) / (8 * rows(columns)) * WARPS_ALONG_N
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

/// The sums of a tile, which blocks that hand it over have in memory, by warps.
pub const fn handed_len(columns: usize) -> usize {
    tile_m(columns) * tile_n(columns)
}

/// The dynamic shared memory of a launch in bytes: the tiles are aligned to 1024. Behind them and the barriers are the rows that go
/// to `C` by words.
pub const fn shared_bytes(columns: usize) -> usize {
    1024 + stages(columns) * (4 * (A_LEN + B_LEN) + 16) + warps(columns) * 4 * result::rows_len(columns)
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
    /// Columns of `A` and rows of `B`: 1 at least.
    pub k: u32,
    /// `k` or more, or, where the batch is the parts of one product along k, how much of it each has, but the last, which has what is left: a
    /// multiple of [`tile_k`], with which none is empty.
    pub part: u32,
    /// From product to product in the map of `A`: 1, or 0 for one matrix for all.
    pub a_step: u32,
    /// The same of `B`.
    pub b_step: u32,
    /// Tiles, the first ones, that are not cut: blocks take them in turn. They are a multiple of the blocks, or all.
    pub whole: u32,
    /// Steps of [`tile_k`] along k that a block has of the other tiles: at least as many as a tile has.
    pub share: u32,
}

/// `C ← f(alpha · A B + beta · C + bias) + residual` for each product of the batch, in `c` one after another, in C order,
/// with the function of the plan; where `beta` is 0, `C` is not read. Flags are 0 at its start and at its end.
///
/// # Safety
///
/// A block has [`threads`] threads and [`shared_bytes`] bytes of dynamic shared memory; the grid has one axis. The maps have
/// three axes, the products first. A tile of `a` is, along the last two, [`tile_k`] × [`tile_m`], without a swizzle, or,
/// where it lies along k, [`tile_m`] × [`tile_k`] with that [`swizzle`]; of `b` [`tile_k`] × [`tile_n`], without
/// one. `c` has as many elements as the products. The addends are as [`Epilogue::new`] says.
/// If tiles are cut, `partials` has [`handed_len`] elements, and `flags` a word for each of [`warps`] warps, for each block.
#[kernel(
    A = [KMajor, MnMajor], C = [4, 8];
    A = [MnMajor], C = [16],
    arch = "sm_90a",
    max_threads = threads(C),
    min_blocks = blocks(C),
)]
pub unsafe fn gemm_simt<A: Layout, const C: usize>(
    a: TensorMap<'_, f32>,
    b: TensorMap<'_, f32>,
    c: SliceMut<'_, f32>,
    shape: SimtShape,
    alpha: f32,
    beta: f32,
    plan: EpiloguePlan,
    bias: &[f32],
    residual: &[f32],
    partials: SliceMut<'_, f32>,
    flags: SliceMut<'_, u32>,
) {
    // SAFETY (of both): the kernel's contract.
    let result = Stored {
        c,
        alpha,
        beta,
        epilogue: unsafe { Epilogue::new(plan, bias, residual) },
    };
    let block = unsafe { Block::<A, C>::new(a, b, shape) };
    let handed = Handed {
        partials,
        flags: Flags::new(flags, warps(C)),
    };
    let warp = warp::uniform(thread::thread_idx_x() / 32);
    if warp < producer_warps(C) as u32 {
        if C == 16 {
            warpgroup::decrease_registers::<32>();
        }
        if thread::thread_idx_x() == 0 {
            block.produce();
        }
    } else {
        if C == 16 {
            warpgroup::increase_registers::<232>();
        }
        block.consume(warp - producer_warps(C) as u32, &result, &handed);
    }
}

/// What the threads of a block have in common.
struct Block<'a, A, const C: usize> {
    a: TensorMap<'a, f32>,
    b: TensorMap<'a, f32>,
    shape: SimtShape,
    /// Stages of `A`, then those of `B`.
    stages: Shared<f32>,
    /// For each stage whether it is full, then for each whether it is free.
    barriers: Shared<u64>,
    layout: PhantomData<A>,
}

/// What a thread has of the operands for one element of k.
#[derive(Clone, Copy)]
struct Fragments<const C: usize> {
    a: [f32; MOST_ROWS],
    b: [f32; C],
}

/// Where a thread's elements begin: in a block's tile, and in those of a stage.
#[derive(Clone, Copy)]
struct Place {
    row: usize,
    column: usize,
}

/// Row and column of this lane among the 8 × 4 threads of its warp, where a thread has so many columns.
///
/// A read of 16 bytes takes shared memory four cycles for a warp, one for each quarter of its lanes, but two where each lane reads what
/// the one beside it reads, or each what the one two further reads: of a lane's number the last bit is not the row's, and the one
/// ahead of it not the column's. The largest tiles wait for their multiply-adds and not for these reads, and took a hundredth longer so.
#[inline(always)]
fn lane_place<const C: usize>() -> [u32; 2] {
    let lane = thread::thread_idx_x() % 32;
    if C == 16 {
        [lane / 4, lane % 4]
    } else {
        [lane / 2 % 2 + lane / 8 * 2, lane % 2 + lane / 4 % 2 * 2]
    }
}

impl<'a, A: Layout, const C: usize> Block<'a, A, C> {
    const STAGES: u32 = stages(C) as u32;

    /// Makes the barriers ready.
    ///
    /// # Safety
    ///
    /// The kernel's contract.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    unsafe fn new(a: TensorMap<'a, f32>, b: TensorMap<'a, f32>, shape: SimtShape) -> Self {
        let memory = cuda_std::shared::dynamic::<f32>().aligned::<1024>();
        // SAFETY: the block has as much memory behind that address.
        let barriers = unsafe { memory.subarray_unchecked(stages(C) * (A_LEN + B_LEN), 4 * stages(C)) }.cast::<u64>();
        let block = Self {
            a,
            b,
            shape,
            stages: memory,
            barriers,
            layout: PhantomData,
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

    /// The block's parts of tiles. Either role finds them for itself, which has other registers.
    #[inline(always)]
    fn parts(&self) -> Parts {
        let SimtShape {
            batch,
            m,
            n,
            part,
            whole,
            share,
            ..
        } = self.shape;
        let tiles = Tiles::new(batch, [m, n], [tile_m(C) as u32, tile_n(C) as u32], GROUP);
        let (block, blocks) = (thread::block_idx_x(), thread::grid_dim_x());
        let steps = part.div_ceil(tile_k(C) as u32);
        Parts::new(tiles, steps, [whole, share], [block, 0], [blocks, 1])
    }

    /// The first element of k of a product, and the one behind its last.
    #[inline(always)]
    fn k_of(&self, product: u32) -> [u32; 2] {
        let SimtShape { k, part, .. } = self.shape;
        let first = if part < k { product * part } else { 0 };
        [first, Ord::min(first + part, k)]
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
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn produce(&self) {
        self.a.prefetch();
        self.b.prefetch();
        let mut step = 0;
        for part in self.parts() {
            let [first, end] = self.k_of(part.tile.product);
            let mut k = first + part.from * tile_k(C) as u32;
            let end = Ord::min(first + part.to * tile_k(C) as u32, end);
            while k < end {
                let (stage, round) = (step % Self::STAGES, step / Self::STAGES % 2);
                self.free(stage).wait(round ^ 1);
                self.fill(stage, part.tile, k);
                k += tile_k(C) as u32;
                step += 1;
            }
        }
    }

    /// Has the tiles at `k` copied to a stage, with which the other warps are done.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
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
            let (row, k) = (tile.row as i32, k as i32);
            let at = if A::ALONG_K { [k, row, of_a] } else { [row, k, of_a] };
            self.a.load(a, at, full);
            self.b.load(b, [tile.column as i32, k, of_b], full);
        }
    }

    /// Multiplies the stages, and stores the tiles, or hands them over.
    // On the simulated GPU in a frame of its own: there is no room for both roles' in one.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn consume(&self, warp: u32, result: &Stored<'_, f32>, handed: &Handed<'_, C>) {
        let [row, column] = lane_place::<C>();
        let place = Place {
            row: (warp / 4 * 64 + row * Self::ROWS_APART) as usize,
            column: (warp % 4 * 4 * C as u32 + column * 4) as usize,
        };
        let mut step = 0;
        for part in self.parts() {
            let mut sums = [[0.0; C]; MOST_ROWS];
            if part.from > 0 {
                handed.take(warp, &mut sums);
            }
            let [first, end] = self.k_of(part.tile.product);
            let [from, to] = [part.from, part.to].map(|step| Ord::min(first + step * tile_k(C) as u32, end));
            let mut left = to - from;
            while left >= tile_k(C) as u32 {
                let elements = self.wait_for(step, place);
                if A::ALONG_K {
                    elements.multiply_along_k(&mut sums);
                } else {
                    elements.multiply(&mut sums);
                }
                self.give_back(step);
                left -= tile_k(C) as u32;
                step += 1;
            }
            if left > 0 {
                self.wait_for(step, place).multiply_first(left as usize, &mut sums);
                self.give_back(step);
                step += 1;
            }
            if !part.is_last {
                handed.leave(warp, &sums);
                continue;
            }
            self.store(&sums, part.tile, place, warp, result);
            if !result.epilogue.is_identity() {
                self.finish(part.tile, place, result);
            }
        }
    }

    /// The thread's elements of the stage of that step, which is waited for.
    #[inline(always)]
    fn wait_for(&self, step: u32, place: Place) -> Elements<A, C> {
        let (stage, round) = (step % Self::STAGES, step / Self::STAGES % 2);
        self.full(stage).wait(round);
        self.elements(stage as usize, place)
    }

    /// Says that this warp is done with the stage of that step: then a copy may write what the lanes have read.
    #[inline(always)]
    fn give_back(&self, step: u32) {
        tma::fence_async();
        warp::sync_warp(warp::FULL_MASK);
        let leads = thread::thread_idx_x().is_multiple_of(32);
        self.free(step % Self::STAGES).arrive_if(leads);
    }

    /// The thread's elements of a stage, from its first row and its first column on.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn elements(&self, stage: usize, place: Place) -> Elements<A, C> {
        let line = if A::ALONG_K { tile_k(C) } else { 1 };
        let (a, b) = (place.row * line, place.column);
        // SAFETY: they are in the tiles of the stage.
        unsafe {
            Elements {
                a: self.stages.subarray_unchecked(stage * A_LEN + a, A_LEN - a),
                b: self
                    .stages
                    .subarray_unchecked(stages(C) * A_LEN + stage * B_LEN + b, B_LEN - b),
                row: place.row,
                layout: PhantomData,
            }
        }
    }
}

/// A thread's elements of a stage.
struct Elements<A, const C: usize> {
    a: Shared<f32>,
    b: Shared<f32>,
    row: usize,
    layout: PhantomData<A>,
}

// Inlined on the device alone: elsewhere, in code that is not optimised, each step would have a place of its own in the
// frame of who calls it, and the stack has no room for all.
impl<A: Layout, const C: usize> Elements<A, C> {
    /// Adds their products. The reads for the next element of k are ahead of the arithmetic.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[allow(unused_assignments, reason = "the last element of k has none behind it")]
    fn multiply(&self, sums: &mut [[f32; C]; MOST_ROWS]) {
        let mut next = Fragments {
            a: self.rows(0),
            b: self.columns(0),
        };
        unroll!(8, four => {
            if 4 * four < tile_k(C) {
                unroll!(4, i => {
                    let (now, k) = (next, 4 * four + i + 1);
                    if k < tile_k(C) {
                        next = Fragments {
                            a: self.rows(k),
                            b: self.columns(k),
                        };
                    }
                    add_products(&now, sums);
                });
            }
        });
    }

    /// [`multiply`](Self::multiply) where `A` lies along k: its reads are for four elements of k, and four ahead.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[allow(unused_assignments, reason = "the last elements of k have none behind them")]
    fn multiply_along_k(&self, sums: &mut [[f32; C]; MOST_ROWS]) {
        let (mut next_rows, mut next) = (self.rows_along_k(0), self.columns(0));
        unroll!(8, four => {
            if 4 * four < tile_k(C) {
                let rows = next_rows;
                if 4 * four + 4 < tile_k(C) {
                    next_rows = self.rows_along_k(four + 1);
                }
                unroll!(4, i => {
                    let now = Fragments { a: element_of(&rows, i), b: next };
                    if 4 * four + i + 1 < tile_k(C) {
                        next = self.columns(4 * four + i + 1);
                    }
                    add_products(&now, sums);
                });
            }
        });
    }

    /// Adds the products of the first elements of k alone. Those of what is behind the last one, zeros, would make 0 of a sum
    /// that is −0.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn multiply_first(&self, count: usize, sums: &mut [[f32; C]; MOST_ROWS]) {
        let mut k = 0;
        while k < count {
            let a = if A::ALONG_K { self.rows_at(k) } else { self.rows(k) };
            let b = self.columns(k);
            add_products(&Fragments { a, b }, sums);
            // A number that the compiler does not know: it would unroll the loop.
            k = hint::opaque(k as u32) as usize + 1;
        }
    }

    /// The rows, which lie along k, for element `k`.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn rows_at(&self, k: usize) -> [f32; MOST_ROWS] {
        let first = 4 * self.unit(k / 4) + k % 4;
        let mut of_k = [0.0; MOST_ROWS];
        unroll!(8, i => {
            if i < rows(C) {
                // SAFETY: rows of the tile.
                of_k[i] = unsafe { self.a.get_unchecked(first + 8 * i * tile_k(C)) };
            }
        });
        of_k
    }

    /// Where the `four`th four elements of k are in a row that lies along k, in units of 16 bytes: the swizzle puts them
    /// elsewhere by the row's number, by its last three bits where a row has 128 bytes, by two bits above the last one where
    /// it has 64. The rows of a thread have these in common.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn unit(&self, four: usize) -> usize {
        let units = tile_k(C) / 4;
        four ^ (self.row * units / 8 % units)
    }

    /// The rows for element `k`.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn rows(&self, k: usize) -> [f32; MOST_ROWS] {
        let mut of_k = [0.0; MOST_ROWS];
        unroll!(2, chunk => {
            if chunk < rows(C) / 4 {
                // SAFETY: rows of the tile, at multiples of four.
                let four: [f32; 4] = unsafe { self.a.get_vec_unchecked(k * tile_m(C) + 32 * chunk) };
                unroll!(4, i => {
                    of_k[4 * chunk + i] = four[i];
                });
            }
        });
        of_k
    }

    /// The rows, which lie along k, for the `four`th four elements of k.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn rows_along_k(&self, four: usize) -> [[f32; 4]; MOST_ROWS] {
        let unit = self.unit(four);
        let mut along_k = [[0.0; 4]; MOST_ROWS];
        // SAFETY (of both): rows of the tile, at multiples of four.
        let first = unsafe { self.a.subarray_unchecked(4 * unit, self.a.len() - 4 * unit) };
        unroll!(8, i => {
            if i < rows(C) {
                along_k[i] = unsafe { first.get_vec_unchecked(8 * i * tile_k(C)) };
            }
        });
        along_k
    }

    /// The columns for element `k`.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn columns(&self, k: usize) -> [f32; C] {
        let mut columns = [0.0; C];
        unroll!(4, chunk => {
            if chunk < C / 4 {
                // SAFETY: columns of the tile, at multiples of four.
                let four: [f32; 4] = unsafe { self.b.get_vec_unchecked(k * tile_n(C) + 16 * chunk) };
                unroll!(4, i => {
                    columns[4 * chunk + i] = four[i];
                });
            }
        });
        columns
    }
}

/// Element `i` of each row.
///
/// A function of its own since the compiler would look at 32 copies of it.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
fn element_of(rows: &[[f32; 4]; MOST_ROWS], i: usize) -> [f32; MOST_ROWS] {
    let mut elements = [0.0; MOST_ROWS];
    unroll!(8, row => {
        elements[row] = rows[row][i];
    });
    elements
}

/// Adds the products for one element of k, there and back along columns or, where there are fewer than 16, along rows: of
/// the two, what has fewer conflicts in the assembler's code.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
fn add_products<const C: usize>(of: &Fragments<C>, sums: &mut [[f32; C]; MOST_ROWS]) {
    let back_and_forth = |line: usize, i, length| if line.is_multiple_of(2) { i } else { length - 1 - i };
    let mut add = |i: usize, j: usize| sums[i][j] = of.a[i].mul_add(of.b[j], sums[i][j]);
    if C == 16 {
        for j in 0..C {
            for i in 0..rows(C) {
                add(back_and_forth(j, i, rows(C)), j);
            }
        }
    } else {
        for i in 0..rows(C) {
            for j in 0..C {
                add(i, back_and_forth(i, j, C));
            }
        }
    }
}
