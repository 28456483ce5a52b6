// SPDX-License-Identifier: MIT OR Apache-2.0
//! Matrix times matrix on Hopper's tensor cores: `C ← α A B`, of numbers of 16 bits or of f32 rounded to TF32, accumulated
//! in f32.
//!
//! A block computes tiles of `C` of 128 × `2 R` elements, one after another. Three warpgroups share the work ("CUTLASS
//! 3.x", NVIDIA 2023: warp specialised, persistent). One thread of the first, the producer, has the tensor memory
//! accelerator copy the tiles of `A` and `B`, 128 bytes of k at a time, into a ring of stages in shared memory; the
//! two others, the consumers, multiply them (`wgmma`), 64 rows of the tile each, with the sums in registers. Two barriers
//! a stage say that it is full, and that both consumers are done with it. A tile's result goes by way of shared memory,
//! in boxes of 16 rows × 128 bytes for each warp, and is stored by the accelerator while the next tile is multiplied.
//!
//! Tiles and boxes are 128 bytes wide and lie in shared memory with the swizzle of 128 bytes, so that neither side has
//! bank conflicts. An operand of 16-bit elements may lie along k or along its lines: `wgmma` takes both. Elements out of
//! bounds are read as zeros and not written, so any shape is right.
//!
//! Of TF32 `wgmma` takes from shared memory only what lies along k. But A can come from registers: so an `A` along m is read
//! by the consumers, those of the next stage while they multiply this one. A `B` along n is the `A` of `Cᵀ = Bᵀ Aᵀ`, whose tiles are stored transposed. For an `A` along m and a `B` along n, one has to be copied.
//!
//! Work `2 m n k`. Elements moved from the cache `m n k (1 / 128 + 1 / (2 R))`. The sums of a tile's element are in the
//! order of k, in f32 with the tensor core's rounding: of 64-bit dot products in hardware, whose error is at most
//! `k u Σ|a||b|` with `u = 2⁻²³`, since a tensor core truncates where f32 arithmetic rounds (M. Fasi, N. Higham, M.
//! Mikaitis, S. Pranesh, "Numerical behavior of NVIDIA tensor cores", 2021).

use bytemuck::Pod;
use cuda_std::half::pack;
use cuda_std::mbarrier::{self, Mbarrier};
use cuda_std::prelude::*;
use cuda_std::tma::{self, TensorMap, TensorMapMut};
use cuda_std::wgmma::{Accumulator, KMajor, Layout, MatrixDescriptor, MnMajor, Operand, Registers, Tf32};
use cuda_std::{matrix, warpgroup};
use half::{bf16, f16};

mod tf32;

use super::tiles::{Tile, Tiles};
use super::unroll;

/// Threads of a block: the producer's warpgroup, and two of consumers.
pub const THREADS: usize = 384;

/// Rows of a block's tile.
pub const TILE_M: usize = 128;

/// Bytes of a line of a stage, or of a box of the result.
pub const LINE: usize = 128;

/// Elements along k of a stage, where they have so many bytes. Of an operand along its lines, a box has as many of these.
pub const fn tile_k(element: usize) -> usize {
    LINE / element
}

/// Bytes of a stage's tile of `A`.
const A_BYTES: usize = TILE_M * LINE;

/// Rows of tiles that blocks of neighbouring numbers share.
const GROUP: u32 = 16;

/// Warps that multiply.
const CONSUMER_WARPS: usize = 8;

/// Rows of the boxes in which a warp stores its part, and columns of those of a transposed result.
pub const BOX_M: usize = 16;

const BOX_BYTES: usize = BOX_M * LINE;

/// Rows of the boxes of a transposed result, of f32.
pub const TRANSPOSED_BOX_ROWS: usize = BOX_BYTES / (BOX_M * size_of::<f32>());

/// Columns of a block's tile, whose sums take `registers` of a thread.
pub const fn tile_n(registers: usize) -> usize {
    2 * registers
}

/// Stages of the ring: as many as fit.
const fn stages(registers: usize) -> usize {
    match registers {
        32 => 8,
        64 => 6,
        _ => 4,
    }
}

/// Boxes of a warp that are stored at the same time.
const fn boxes(registers: usize) -> usize {
    match registers {
        96 => 4,
        _ => 2,
    }
}

/// Bytes of a stage's tile of `B`.
const fn b_bytes(registers: usize) -> usize {
    tile_n(registers) * LINE
}

/// Bytes in front of the barriers.
const fn tiles_bytes(registers: usize) -> usize {
    stages(registers) * (A_BYTES + b_bytes(registers)) + CONSUMER_WARPS * boxes(registers) * BOX_BYTES
}

/// The dynamic shared memory of a launch in bytes: the tiles are aligned to 1024.
pub const fn shared_bytes(registers: usize) -> usize {
    1024 + tiles_bytes(registers) + 16 * stages(registers)
}

/// Numbers that the result is stored as.
pub trait Output: Pod {
    /// Whether two are packed into 32 bits.
    const PACKED: bool;

    /// Two of 16 bits.
    fn pack(low: f32, high: f32) -> u32;
}

impl Output for f32 {
    const PACKED: bool = false;

    #[inline(always)]
    fn pack(low: f32, _: f32) -> u32 {
        low.to_bits()
    }
}

impl Output for bf16 {
    const PACKED: bool = true;

    #[inline(always)]
    fn pack(low: f32, high: f32) -> u32 {
        pack::<bf16>(low, high)
    }
}

impl Output for f16 {
    const PACKED: bool = true;

    #[inline(always)]
    fn pack(low: f32, high: f32) -> u32 {
        pack::<f16>(low, high)
    }
}

/// The shape of a batch of products, and how their operands lie.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, KernelParam)]
pub struct WgmmaShape {
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
    /// Whether the map of `A` has its rows last (0: its columns).
    pub a_along_m: u32,
    /// Whether the map of `B` has its columns last (0: its rows).
    pub b_along_n: u32,
    /// Whether the map of `C` has the columns as its rows: `Cᵀ` is what is stored.
    pub transposed: u32,
}

/// `C ← alpha · A B` for each product of the batch.
///
/// # Safety
///
/// A block has [`THREADS`] threads and [`shared_bytes`] bytes of dynamic shared memory; the grid has one axis. The maps
/// have three axes, the products first, and the swizzle of 128 bytes; a tile of theirs is, along the last two axes and with
/// `k` for [`tile_k`], [`TILE_M`] × `k` of `a` (`k` × `k` where it lies along m), [`tile_n`] × `k` of `b` (`k` × `k` where it
/// lies along n), and [`BOX_M`] × 128 bytes of `c`.
///
/// If the operands are of [`Tf32`], so are the types of their maps, and `b` does not lie along n. If the result is
/// `transposed`, it is of f32, and a tile of its map is [`TRANSPOSED_BOX_ROWS`] × [`BOX_M`], with the swizzle of 64 bytes.
#[kernel(
    T = [bf16], C = [bf16, f32], R = [32, 64, 96, 128];
    T = [f16], C = [f16, f32], R = [32, 64, 96, 128];
    T = [Tf32], C = [f32], R = [32, 64, 96, 128],
    arch = "sm_90a",
    max_threads = THREADS,
    min_blocks = 1,
)]
pub unsafe fn gemm_wgmma<T: Input, C: Output, const R: usize>(
    a: TensorMap<'_, <T as Operand>::Element>,
    b: TensorMap<'_, <T as Operand>::Element>,
    c: TensorMapMut<'_, C>,
    shape: WgmmaShape,
    alpha: f32,
) where
    [f32; R]: Registers,
{
    // SAFETY: the kernel's contract.
    let block = unsafe { Block::<T, C, R>::new(a, b, c, shape, alpha) };
    let warp = warp::uniform(thread::thread_idx_x() / 32);
    if warp < 4 {
        warpgroup::decrease_registers::<40>();
        if thread::thread_idx_x() == 0 {
            block.produce();
        }
    } else {
        warpgroup::increase_registers::<232>();
        block.consume(warp - 4);
    }
}

/// What the threads of a block have in common.
pub struct Block<'a, T: Operand, C, const R: usize> {
    a: TensorMap<'a, T::Element>,
    b: TensorMap<'a, T::Element>,
    c: TensorMapMut<'a, C>,
    shape: WgmmaShape,
    alpha: f32,
    tiles: Tiles,
    /// Stages of `A`, stages of `B`, the boxes of the warps.
    memory: Shared<u8>,
    /// For each stage whether it is full, then for each whether it is free.
    barriers: Shared<u64>,
}

/// A place in the ring of stages.
#[derive(Clone, Copy)]
pub struct Place<const R: usize> {
    stage: u32,
    /// The parity of the rounds so far.
    round: u32,
}

impl<const R: usize> Place<R> {
    const FIRST: Self = Self { stage: 0, round: 0 };

    #[inline(always)]
    fn next(self) -> Self {
        if self.stage + 1 == stages(R) as u32 {
            Self {
                stage: 0,
                round: self.round ^ 1,
            }
        } else {
            Self {
                stage: self.stage + 1,
                ..self
            }
        }
    }
}

/// How an operand lies in a stage.
trait Side<T>: Layout<T> {
    /// Bytes from one group of 64 lines to the next: of what lies along its lines, which are in boxes of 64.
    const LEADING: u32;
    /// Bytes from 16 elements along k to the next.
    const STEP: u32;
}

impl<T> Side<T> for KMajor
where
    KMajor: Layout<T>,
{
    const LEADING: u32 = 16;
    const STEP: u32 = 32;
}

impl<T> Side<T> for MnMajor
where
    MnMajor: Layout<T>,
{
    const LEADING: u32 = 64 * LINE as u32;
    const STEP: u32 = 16 * LINE as u32;
}

/// Numbers that are multiplied: `f16`, `bf16`, and [`Tf32`], which in memory is `f32`.
pub trait Input: Operand {
    /// Whether operands that lie along their lines go through registers.
    const THROUGH_REGISTERS: bool;

    /// This thread's part of the product of 64 rows of a tile, which begin in place `place` of the ring.
    fn sums<C: Output, const R: usize>(
        block: &Block<'_, Self, C, R>,
        group: u32,
        place: &mut Place<R>,
    ) -> Accumulator<R>
    where
        [f32; R]: Registers;
}

macro_rules! inputs {
    ($($type:ident)*) => {$(
        impl Input for $type {
            const THROUGH_REGISTERS: bool = false;

            #[inline(always)]
            fn sums<C: Output, const R: usize>(
                block: &Block<'_, Self, C, R>,
                group: u32,
                place: &mut Place<R>,
            ) -> Accumulator<R>
            where
                [f32; R]: Registers,
            {
                match (block.shape.a_along_m != 0, block.shape.b_along_n != 0) {
                    (false, false) => block.sums::<KMajor, KMajor>(group, place),
                    (false, true) => block.sums::<KMajor, MnMajor>(group, place),
                    (true, false) => block.sums::<MnMajor, KMajor>(group, place),
                    (true, true) => block.sums::<MnMajor, MnMajor>(group, place),
                }
            }
        }
    )*};
}

inputs! { bf16 f16 }

impl<'a, T: Input, C: Output, const R: usize> Block<'a, T, C, R>
where
    [f32; R]: Registers,
{
    /// The first byte of the stages of `B`.
    const B: usize = stages(R) * A_BYTES;

    /// Elements along k of a stage.
    const TILE_K: usize = tile_k(size_of::<T::Element>());

    /// Those who say that they are done with a stage: consumers, or, where they read it themselves, their warps.
    const ARRIVALS: u32 = if T::THROUGH_REGISTERS { CONSUMER_WARPS as u32 } else { 2 };

    /// The first byte of the boxes.
    const BOXES: usize = Self::B + stages(R) * b_bytes(R);

    /// Makes the barriers ready.
    ///
    /// # Safety
    ///
    /// The kernel's contract.
    #[inline(always)]
    unsafe fn new(
        a: TensorMap<'a, T::Element>,
        b: TensorMap<'a, T::Element>,
        c: TensorMapMut<'a, C>,
        shape: WgmmaShape,
        alpha: f32,
    ) -> Self {
        let memory = cuda_std::shared::dynamic::<u8>().aligned::<1024>();
        // SAFETY: the block has as much memory behind that address.
        let barriers = unsafe { memory.subarray_unchecked(tiles_bytes(R), 16 * stages(R)) }.cast::<u64>();
        let block = Self {
            a,
            b,
            c,
            shape,
            alpha,
            tiles: Tiles::new(
                shape.batch,
                [shape.m, shape.n],
                [TILE_M as u32, tile_n(R) as u32],
                GROUP,
            ),
            memory,
            barriers,
        };
        if thread::thread_idx_x() == 0 {
            a.prefetch();
            b.prefetch();
            c.prefetch();
            for stage in 0..stages(R) as u32 {
                block.full(stage).init(1);
                block.free(stage).init(Self::ARRIVALS);
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

    /// The barrier at which the consumers arrive when they are done with a stage.
    #[inline(always)]
    fn free(&self, stage: u32) -> Mbarrier {
        // SAFETY: there are two for each stage.
        unsafe { Mbarrier::at_unchecked(self.barriers, stage as usize + stages(R)) }
    }

    /// The tiles from byte `at` on, of elements of the operands.
    #[inline(always)]
    fn operands(&self, at: usize) -> Shared<T::Element> {
        // SAFETY: what is asked for is in the tiles, of which there are as many bytes.
        unsafe { self.memory.subarray_unchecked(at, tiles_bytes(R) - at) }.cast()
    }

    /// Has the stages filled, one after another. For one thread.
    #[inline(always)]
    fn produce(&self) {
        let mut place = Place::<R>::FIRST;
        for tile in self.tiles.of_block() {
            let mut k = 0;
            while k < self.shape.k {
                self.free(place.stage).wait(place.round ^ 1);
                self.fill(place.stage, tile, k);
                place = place.next();
                k += Self::TILE_K as u32;
            }
        }
    }

    /// Has the tiles at `k` copied to a stage, with which the consumers are done.
    #[inline(always)]
    fn fill(&self, stage: u32, tile: Tile, k: u32) {
        let full = self.full(stage);
        full.arrive_expect_tx((A_BYTES + b_bytes(R)) as u32);
        let (row, column, k) = (tile.row as i32, tile.column as i32, k as i32);
        let (to_a, to_b) = (stage as usize * A_BYTES, Self::B + stage as usize * b_bytes(R));
        let product = (tile.product * self.shape.a_step) as i32;
        // SAFETY (of the four): boxes of the maps are, by the kernel's contract, as large as the stage has room for
        // them, at multiples of 1024 bytes. Nobody reads the stage before its barrier says that it is full.
        if self.shape.a_along_m == 0 {
            unsafe { self.a.load(self.operands(to_a), [k, row, product], full) };
        } else {
            for i in 0..TILE_M / Self::TILE_K {
                let at = [row + (i * Self::TILE_K) as i32, k, product];
                unsafe { self.a.load(self.operands(to_a + i * Self::TILE_K * LINE), at, full) };
            }
        }
        let product = (tile.product * self.shape.b_step) as i32;
        if self.shape.b_along_n == 0 {
            unsafe { self.b.load(self.operands(to_b), [k, column, product], full) };
        } else {
            for i in 0..tile_n(R) / Self::TILE_K {
                let at = [column + (i * Self::TILE_K) as i32, k, product];
                unsafe { self.b.load(self.operands(to_b + i * Self::TILE_K * LINE), at, full) };
            }
        }
    }

    /// Multiplies the stages, and stores the tiles. For the eight warps of two warpgroups.
    #[inline(always)]
    fn consume(&self, warp: u32) {
        let mut place = Place::<R>::FIRST;
        for tile in self.tiles.of_block() {
            let sums = T::sums(self, warp / 4, &mut place);
            let row = tile.row + warp * BOX_M as u32;
            self.store(&sums, warp, Tile { row, ..tile });
        }
        if thread::thread_idx_x().is_multiple_of(32) {
            // The shared memory is the block's as long as copies read it.
            tma::wait_read::<0>();
        }
    }

    /// This thread's part of the product of 64 rows of the tile.
    // Elsewhere, in code that is not optimised, each state of the sums has a place in the frame of `consume`, and the stack
    // has no room for those of all loops.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn sums<A: Side<T>, B: Side<T>>(&self, group: u32, place: &mut Place<R>) -> Accumulator<R> {
        let a = MatrixDescriptor::<T, A>::new(self.operands(group as usize * 64 * LINE), A::LEADING, 1024);
        let b = MatrixDescriptor::<T, B>::new(self.operands(Self::B), B::LEADING, 1024);
        let a = |stage: u32, step: u32| a.advance(stage * A_BYTES as u32 + step * A::STEP);
        let b = |stage: u32, step: u32| b.advance(stage * b_bytes(R) as u32 + step * B::STEP);
        let leads = thread::thread_idx_x().is_multiple_of(256 / Self::ARRIVALS);

        let mut stage = place.stage;
        self.full(stage).wait(place.round);
        // SAFETY (of these): the stage is full, and is not filled again before both consumers have arrived at its
        // barrier, which they do when they have waited for what reads it.
        let mut sums = unsafe {
            let sums = Accumulator::<R>::zero().start();
            let sums = sums.mma_from_zero(a(stage, 0), b(stage, 0));
            let sums = sums.mma(a(stage, 1), b(stage, 1));
            let sums = sums.mma(a(stage, 2), b(stage, 2));
            sums.mma(a(stage, 3), b(stage, 3)).commit()
        };
        *place = place.next();
        let mut k = Self::TILE_K as u32;
        while k < self.shape.k {
            let previous = stage;
            stage = place.stage;
            self.full(stage).wait(place.round);
            sums = unsafe {
                let sums = sums.restart();
                let sums = sums.mma(a(stage, 0), b(stage, 0));
                let sums = sums.mma(a(stage, 1), b(stage, 1));
                let sums = sums.mma(a(stage, 2), b(stage, 2));
                sums.mma(a(stage, 3), b(stage, 3)).commit().wait_but_newest()
            };
            self.free(previous).arrive_if(leads);
            *place = place.next();
            k += Self::TILE_K as u32;
        }
        let sums = sums.wait();
        self.free(stage).arrive_if(leads);
        sums
    }

    /// Stores 16 rows of the tile, those of this warp, by boxes of 128 bytes a row.
    #[inline(always)]
    fn store(&self, sums: &Accumulator<R>, warp: u32, tile: Tile) {
        // A box has this many of a thread's sums.
        let of_box = LINE / size_of::<C>() / 2;
        unroll!(8, number => {
            if number * of_box < R {
                self.store_box(sums, number, warp, tile);
            }
        });
    }

    #[inline(always)]
    fn store_box(&self, sums: &Accumulator<R>, number: usize, warp: u32, tile: Tile) {
        let at = Self::BOXES + (warp as usize * boxes(R) + number % boxes(R)) * BOX_BYTES;
        // SAFETY: it is among the boxes.
        let to = unsafe { self.memory.subarray_unchecked(at, BOX_BYTES) };
        let lane = thread::thread_idx_x() % 32;
        if lane == 0 {
            if boxes(R) == 2 {
                tma::wait_read::<1>()
            } else {
                tma::wait_read::<3>()
            }
        }
        warp::sync_warp(warp::FULL_MASK);
        let first = number * LINE / size_of::<C>() / 2;
        if C::PACKED {
            Self::put_packed(to, sums, first, lane, self.alpha);
        } else if self.is_transposed() {
            tf32::put_transposed(to.cast(), sums, first, lane, self.alpha);
        } else {
            self.put(to.cast(), sums, first, lane);
        }
        tma::fence_async();
        warp::sync_warp(warp::FULL_MASK);
        if lane == 0 {
            let column = (tile.column as usize + number * LINE / size_of::<C>()) as i32;
            let (row, product) = (tile.row as i32, tile.product as i32);
            let at = match self.is_transposed() {
                false => [column, row, product],
                true => [row, column, product],
            };
            // SAFETY: a box of the map, by the kernel's contract, whose memory is not written before it has been read.
            unsafe { self.c.store(at, to.cast()) };
            tma::commit();
        }
    }

    /// Puts 16 rows × 64 numbers of 16 bits into a box, from sum `first` on, four matrices of 8 × 8 at a time.
    #[inline(always)]
    fn put_packed(to: Shared<u8>, sums: &Accumulator<R>, first: usize, lane: u32, alpha: f32) {
        let row = lane / 8 % 2 * 8 + lane % 8;
        unroll!(4, part => {
            let pair = |i: usize| C::pack(alpha * sums.element(first + 8 * part + i), alpha * sums.element(first + 8 * part + i + 1));
            let column = (2 * part as u32 + lane / 16) ^ (lane % 8);
            let at = (row as usize * LINE) + 16 * column as usize;
            // SAFETY: 16 bytes of the box, of 16 rows of 128 bytes; all lanes are here.
            unsafe { matrix::stmatrix_x4(to, at as u32, [pair(0), pair(2), pair(4), pair(6)]) };
        });
    }

    /// Whether `Cᵀ` is stored.
    #[inline(always)]
    fn is_transposed(&self) -> bool {
        T::THROUGH_REGISTERS && self.shape.transposed != 0
    }

    /// Puts 16 rows × 32 numbers of 32 bits into a box, from sum `first` on.
    #[inline(always)]
    fn put(&self, to: Shared<f32>, sums: &Accumulator<R>, first: usize, lane: u32) {
        let rows = match T::THROUGH_REGISTERS && self.shape.a_along_m != 0 {
            true => tf32::rows(lane),
            false => [lane / 4, lane / 4 + 8],
        };
        unroll!(4, part => {
            let i = first + 4 * part;
            let at = |row: u32| {
                let column = (2 * part as u32 + lane % 4 / 2) ^ (row % 8);
                (row * 32 + column * 4 + lane % 2 * 2) as usize
            };
            // SAFETY: two of the 16 × 32 numbers, the first of them even.
            unsafe {
                to.set_vec_unchecked(at(rows[0]), [self.alpha * sums.element(i), self.alpha * sums.element(i + 1)]);
                to.set_vec_unchecked(at(rows[1]), [self.alpha * sums.element(i + 2), self.alpha * sums.element(i + 3)]);
            }
        });
    }
}
