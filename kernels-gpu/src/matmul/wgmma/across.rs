// SPDX-License-Identifier: MIT OR Apache-2.0
//! Products of numbers of 16 bits as `Cᵀ = Bᵀ Aᵀ`, by tiles of other sizes.
//!
//! What the tensor cores take for their right matrix has any number of lines that is a multiple of 8, if they lie along k; of those
//! that lie along themselves there are 64 in a box, or 32, at half the speed of copies. In C order the lines of `A` lie along k. So
//! they are the columns of a tile here, and those of `B`, which lie as they like, its rows, 64 for each consumer; and the result is
//! transposed on its way to shared memory (`stmatrix`). There are tiles of 192 × 96 and 192 × 176, with three consumers, of 128 × 96, where
//! one of these is left out, of 128 × 112, of 256 × 160 and 256 × 168, whose two consumers have two parts of 64 rows each, which they
//! store one after the other, and of 64 × 48, whose two consumers have stages in turn and exchange their sums, so that each adds and
//! stores half of them.
//!
//! What is added to each sum, a residual or the old element, the accelerator copies into the boxes of the result before the sums are
//! there. A thread finds it where it then puts the result.

use core::iter::StepBy;
use core::ops::Range;

use bytemuck::Pod;
use cuda_std::mbarrier::Mbarrier;
use cuda_std::prelude::*;
use cuda_std::tma::{TensorMap, TensorMapMut};
use cuda_std::wgmma::{Accumulator, KMajor, Registers};
use cuda_std::{hint, matrix, tma, warpgroup};
use half::{bf16, f16};

use super::{
    BOX_BYTES, BOX_M, Block, HALF_TILE_M, Input, LINE, Output, Place, WgmmaShape, consumers, parts, stages, threads,
    tile_m, tile_n,
};
use crate::matmul::epilogue::{Epilogue, EpilogueOp, EpiloguePlan};
use crate::matmul::tiles::Tile;
use crate::matmul::unroll;

/// Boxes of a consumer's part of the result, of 16 rows of it, of which the last one may have 8.
const fn boxes(registers: usize) -> usize {
    registers.div_ceil(8)
}

/// Rows that a copy has: those of a box, or half as many where a tile's are no multiple of that, since the other half's are the next
/// tile's, which another block stores.
pub const fn copy_m(registers: usize) -> usize {
    match tile_n(registers) % BOX_M {
        0 => BOX_M,
        _ => BOX_M / 2,
    }
}

/// Whether `B` may lie along n: the columns of a tile are in boxes of 32.
pub const fn in_boxes(registers: usize) -> bool {
    tile_n(registers).is_multiple_of(32)
}

/// Whether tiles whose sums take so many registers may have [`HALF_TILE_M`] rows, by
/// [`gemm_wgmma_across_in_fours`](fn@gemm_wgmma_across_in_fours): consumers then have the same rows, and stages in turn.
pub(super) const fn may_have_half_rows(registers: usize) -> bool {
    registers == 56
}

/// Bytes of a tile's result, and of the sums that consumers of the same rows exchange.
pub(super) const fn result_bytes(registers: usize) -> usize {
    let boxes = boxes(registers) * BOX_BYTES;
    let of_all = tile_m(registers) / 64 / parts(registers) * boxes;
    let exchanged = boxes + 128 * registers * size_of::<f32>();
    let exchanges = tile_m(registers) == HALF_TILE_M || may_have_half_rows(registers);
    if exchanges && exchanged > of_all {
        exchanged
    } else {
        of_all
    }
}

/// `C ← f(alpha · A B + beta · C + bias)`, or `C ← f(alpha · A B + bias) + residual`, for each product of the batch, with the function
/// of the plan; where `beta` is 0, `C` is not read. `a` has the lines of `B`, and `b` those of `A`: what is multiplied is
/// `Cᵀ = Bᵀ Aᵀ`, whose shape is that of the launch.
///
/// # Safety
///
/// As for [`gemm_wgmma`](fn@super::gemm_wgmma), with [`threads`](WgmmaShape::threads) threads, and tiles of so many rows as the shape
/// says. `b` lies along k, or, where its tiles are [`in_boxes`], is copied in boxes of [`b_box`](super::b_box) lines, with the swizzle of
/// as many elements. `c` has the columns of what is multiplied as its rows, in boxes of [`copy_m`] of them, and so has `residual`,
/// whose boxes are those of `c`: it is read where `has_residual` is not 0, and then `beta` is 0. The bias is as [`Epilogue::new`] says
/// for the strides of what is multiplied, of which the last one is 0. With tiles of 64 rows, `k` is more than a stage has. A launch in clusters is one of whole
/// clusters of as many blocks as the shape says, and a tile of the map of `a`, of four blocks also of that of `b`, is the half that one of
/// them copies: of its lines, or, where these lie along themselves, of the elements along k.
#[kernel(T = [bf16, f16], R = [24, 48, 56, 80, 84, 88], arch = "sm_90a", max_threads = threads(R), min_blocks = 1)]
pub unsafe fn gemm_wgmma_across<T: Input<Element = T> + Output, const R: usize>(
    a: TensorMap<'_, T>,
    b: TensorMap<'_, T>,
    c: TensorMapMut<'_, T>,
    shape: WgmmaShape,
    alpha: f32,
    beta: f32,
    has_residual: u32,
    plan: EpiloguePlan,
    bias: &[T],
    residual: TensorMap<'_, T>,
) where
    [f32; R]: Registers,
{
    // SAFETY: the kernel's contract.
    unsafe {
        gemm_wgmma_across_with::<T, _, R>(
            a,
            b,
            c,
            shape.across(R),
            alpha,
            beta,
            has_residual,
            plan,
            bias,
            residual,
        )
    };
}

/// The same by tiles of 64 rows of what is multiplied in clusters of four, whose consumers have stages in turn. They are an entry, so
/// that nothing is asked for them: the first copies wait for instructions.
///
/// # Safety
///
/// As for [`gemm_wgmma_across`](fn@gemm_wgmma_across), with such tiles, clusters of four, and a `k` that is more than a stage has.
#[kernel(T = [bf16, f16], R = [56], arch = "sm_90a", max_threads = threads(R), min_blocks = 1)]
pub unsafe fn gemm_wgmma_across_in_fours<T: Input<Element = T> + Output, const R: usize>(
    a: TensorMap<'_, T>,
    b: TensorMap<'_, T>,
    c: TensorMapMut<'_, T>,
    shape: WgmmaShape,
    alpha: f32,
    beta: f32,
    has_residual: u32,
    plan: EpiloguePlan,
    bias: &[T],
    residual: TensorMap<'_, T>,
) where
    [f32; R]: Registers,
{
    // SAFETY: the kernel's contract.
    unsafe {
        gemm_wgmma_across_with::<T, _, R>(
            a,
            b,
            c,
            shape.in_fours(),
            alpha,
            beta,
            has_residual,
            plan,
            bias,
            residual,
        )
    };
}

/// The product of both kernels, with any function, by tiles and clusters of the shape: [`across`](WgmmaShape::across) or
/// [`in_fours`](WgmmaShape::in_fours), so that they are constants.
///
/// # Safety
///
/// The kernels'.
#[allow(clippy::too_many_arguments, reason = "a kernel's")]
#[cfg_attr(target_arch = "nvptx64", inline(always))]
pub unsafe fn gemm_wgmma_across_with<T: Input<Element = T> + Output, F: EpilogueOp<f32>, const R: usize>(
    a: TensorMap<'_, T>,
    b: TensorMap<'_, T>,
    c: TensorMapMut<'_, T>,
    shape: WgmmaShape,
    alpha: f32,
    beta: f32,
    has_residual: u32,
    plan: EpiloguePlan<F>,
    bias: &[T],
    residual: TensorMap<'_, T>,
) where
    [f32; R]: Registers,
{
    // SAFETY (of all): the kernel's contract. A consumer reads old elements before it stores these.
    let finish = Finish {
        alpha,
        beta,
        epilogue: unsafe { Epilogue::new(plan, bias, &[]) },
        has_residual: has_residual != 0,
        added: if beta != 0.0 { unsafe { c.reading() } } else { residual },
    };
    let block = unsafe { Block::<T, T, R>::new(a, b, c, shape) };
    let warp = warp::uniform(thread::thread_idx_x() / 32);
    // In this order as in `gemm_wgmma`.
    if warp >= 4 {
        block.consume_across::<T>(warp - 4, finish);
    } else {
        block.produce(warp, None);
    }
}

/// What becomes of the sums.
#[derive(Clone, Copy)]
struct Finish<'a, T, F> {
    alpha: f32,
    beta: f32,
    epilogue: Epilogue<'a, T, F>,
    has_residual: bool,
    /// The old elements, or the residual.
    added: TensorMap<'a, T>,
}

impl<T: Output, F: EpilogueOp<f32>> Finish<'_, T, F> {
    /// Whether there is one for each element that is added.
    #[inline(always)]
    fn adds(&self) -> bool {
        self.beta != 0.0 || self.has_residual
    }

    /// Whether it changes nothing.
    #[inline(always)]
    fn is_identity(&self) -> bool {
        !self.adds() && self.epilogue.is_identity()
    }

    /// What becomes of sums, with the bias of this thread's lines and what is added to each.
    #[inline(always)]
    fn finish(&self, mut sums: [f32; 8], bias: [f32; 2], added: [f32; 8]) -> [f32; 8] {
        if self.beta != 0.0 {
            sums = cuda_std::array::from_fn(|i| Float::mul_add(self.beta, added[i], sums[i]));
        }
        self.epilogue
            .finish_lines(sums, bias, self.has_residual.then_some(added))
    }
}

impl<E: Pod, C: Output, const R: usize> Block<'_, E, C, R>
where
    [f32; R]: Registers,
{
    const COPY_BYTES: usize = copy_m(R) * LINE;

    /// The boxes that a consumer stores: all of its lines' or, where both have the same, half of them.
    #[inline(always)]
    fn boxes_of(&self, group: u32) -> [u32; 2] {
        let (half, all) = (boxes(R).div_ceil(2) as u32, boxes(R) as u32);
        match (self.shares_k(), group) {
            (false, _) => [0, all],
            (true, 0) => [0, half],
            (true, _) => [half, all],
        }
    }

    /// Multiplies the stages, and stores the tiles. For the consumers' warps.
    // As `consume`.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn consume_across<T: Input<Element = E>>(&self, warp: u32, finish: Finish<'_, C, impl EpilogueOp<f32>>) {
        if consumers(R) == 2 {
            warpgroup::increase_registers::<232>();
        } else {
            warpgroup::increase_registers::<152>();
        }
        let group = warp / 4;
        let lines = if self.shares_k() {
            0
        } else {
            64 * parts(R) as u32 * group
        };
        let mut place = Place::<R>::FIRST;
        let mut round = 0;
        for mut tile in self.tiles_of_block() {
            tile.row += lines;
            let row = tile.row + warp % 4 * 16 + thread::thread_idx_x() % 32 / 4;
            // SAFETY: the kernel's contract.
            let bias = |row| unsafe { finish.epilogue.load_of_lines([tile.product, row, 0], self.shape.m) };
            let first = bias(row);
            if finish.adds() {
                self.load_added(group, tile, finish.added);
            }
            if parts(R) == 2 {
                let second = bias(row + 64);
                let [sums, others] = self.sums_of_parts::<T>(group, &mut place);
                self.finish_part(sums, group, tile, first, &finish, &mut round);
                tile.row += 64;
                if finish.adds() {
                    self.load_added(group, tile, finish.added);
                }
                self.finish_part(others, group, tile, second, &finish, &mut round);
                continue;
            }
            let mut sums = match (self.a_lies_along_m(), self.b_lies_along_n()) {
                (false, false) => self.sums::<T, T, KMajor, KMajor>(group, &mut place),
                (false, true) => self.sums::<T, T, KMajor, T::AlongLinesBy32>(group, &mut place),
                (true, false) => self.sums::<T, T, T::AlongLines, KMajor>(group, &mut place),
                (true, true) => self.sums::<T, T, T::AlongLines, T::AlongLinesBy32>(group, &mut place),
            };
            if self.shares_k() {
                self.exchange_parts(&mut sums, group);
            }
            self.finish_part(sums, group, tile, first, &finish, &mut round);
        }
        if warp::elect() {
            // The shared memory is the block's as long as copies read it.
            tma::wait_read::<0>();
        }
    }

    /// The sums of both parts of this consumer's rows.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn sums_of_parts<T: Input<Element = E>>(&self, group: u32, place: &mut Place<R>) -> [Accumulator<R>; 2] {
        match (self.a_lies_along_m(), self.b_lies_along_n()) {
            (false, false) => self.sums_of_both::<T, T, KMajor, KMajor>(group, place),
            (false, true) => self.sums_of_both::<T, T, KMajor, T::AlongLinesBy32>(group, place),
            (true, false) => self.sums_of_both::<T, T, T::AlongLines, KMajor>(group, place),
            (true, true) => self.sums_of_both::<T, T, T::AlongLines, T::AlongLinesBy32>(group, place),
        }
    }

    /// Stores what becomes of the sums of 64 rows, which begin at the tile's, with the bias of this thread's. `round` is that of the
    /// barrier of what is added to them.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn finish_part<F: EpilogueOp<f32>>(
        &self,
        mut sums: Accumulator<R>,
        group: u32,
        tile: Tile,
        bias: [f32; 2],
        finish: &Finish<'_, C, F>,
        round: &mut u32,
    ) {
        sums.update(|_, sum| finish.alpha * sum);
        if finish.adds() {
            self.added(group).wait(*round);
            *round ^= 1;
        } else {
            self.take_boxes(group);
        }
        if finish.is_identity() {
            self.put_across(&sums, group);
        } else {
            self.put_finished(&sums, group, |sums, number| {
                let added = if finish.adds() {
                    self.take_added(group, number)
                } else {
                    [0.0; 8]
                };
                finish.finish(sums, bias, added)
            });
        }
        self.store_boxes(group, tile);
    }

    /// Adds the other consumer's sums to those that this one stores.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn exchange_parts(&self, sums: &mut Accumulator<R>, group: u32) {
        // SAFETY: they are behind the boxes.
        let parts = unsafe {
            self.memory
                .subarray_unchecked(Self::BOXES + boxes(R) * BOX_BYTES, 512 * R)
        }
        .cast::<f32>();
        let number = thread::thread_idx_x() as usize % 128;
        // Constants, so that each consumer has a branch of its own.
        let give = |sums: &mut Accumulator<R>, [first, end]: [u32; 2]| {
            sums.update(|i, sum| {
                if (first..end).contains(&(i as u32 / 8)) {
                    // SAFETY: `R` numbers of 128 threads.
                    unsafe { parts.set_unchecked(i * 128 + number, sum) };
                }
                sum
            });
        };
        let take = |sums: &mut Accumulator<R>, [first, end]: [u32; 2]| {
            sums.update(|i, sum| match (first..end).contains(&(i as u32 / 8)) {
                // SAFETY: as above.
                true => sum + unsafe { parts.get_unchecked(i * 128 + number) },
                false => sum,
            });
        };
        if group == 0 {
            give(sums, self.boxes_of(1));
        } else {
            give(sums, self.boxes_of(0));
        }
        thread::sync_threads_named::<1, 256>();
        if group == 0 {
            take(sums, self.boxes_of(0));
        } else {
            take(sums, self.boxes_of(1));
        }
        thread::sync_threads_named::<1, 256>();
    }

    /// The memory of this consumer's boxes, of 16 rows of the result and 64 columns, one after another: of all its lines.
    #[inline(always)]
    pub(super) fn boxes_across(&self, group: u32) -> Shared<u8> {
        let first = if self.shares_k() { 0 } else { group as usize * boxes(R) };
        // SAFETY: they are among the boxes.
        unsafe {
            self.memory
                .subarray_unchecked(Self::BOXES + first * BOX_BYTES, boxes(R) * BOX_BYTES)
        }
    }

    /// Waits until the copies that read the boxes last have done so.
    #[inline(always)]
    pub(super) fn take_boxes(&self, group: u32) {
        if warp::elect() {
            tma::wait_read::<0>();
        }
        meet(group);
    }

    /// The barrier that the copies of what is added to a consumer's sums complete.
    #[inline(always)]
    fn added(&self, group: u32) -> Mbarrier {
        // SAFETY: there is one for each consumer behind those of the stages.
        unsafe { Mbarrier::at_unchecked(self.barriers, 2 * stages(R) + group as usize) }
    }

    /// Has what is added to each sum copied into the boxes, by the threads that have had these stored.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn load_added(&self, group: u32, tile: Tile, from: TensorMap<'_, C>) {
        if !warp::elect() {
            return;
        }
        tma::wait_read::<0>();
        let copies = self.copies_of_warp(group);
        let loaded = self.added(group);
        loaded.arrive_expect_tx(copies.clone().count() as u32 * Self::COPY_BYTES as u32);
        for number in copies {
            // What the last box has no rows for has those ahead of it.
            let brought = if Self::is_in_tile(number) { number } else { number - 1 };
            let at = Self::copied_at(tile, brought);
            // SAFETY: a box of the map, by the kernel's contract, into memory that is not read before its barrier says so.
            unsafe { from.load(self.copied(group, number).cast(), at, loaded) };
        }
    }

    /// Where this thread's numbers of a box are, four matrices of 8 × 8 at a time.
    #[inline(always)]
    fn place_in_box(number: u32) -> u32 {
        let (warp, lane) = (thread::thread_idx_x() / 32 % 4, thread::thread_idx_x() % 32);
        let (row, column) = (lane / 16 * 8 + lane % 8, (2 * warp + lane / 8 % 2) ^ (lane % 8));
        number * BOX_BYTES as u32 + row * LINE as u32 + 16 * column
    }

    /// What is added to this thread's sums of a box, from where they are put then.
    #[inline(always)]
    fn take_added(&self, group: u32, number: u32) -> [f32; 8] {
        // SAFETY: 16 bytes of the box, of 16 rows of 128 bytes; all lanes are here.
        let words = unsafe { matrix::ldmatrix_x4_trans(self.boxes_across(group), Self::place_in_box(number)) };
        cuda_std::array::from_fn(|i| bytemuck::cast::<u16, C>((words[i / 2] >> (16 * (i % 2))) as u16).widen())
    }

    /// Puts this thread's sums of a box into it.
    #[inline(always)]
    pub(super) fn put_box(&self, group: u32, number: u32, value: impl Fn(usize) -> f32) {
        let pair = |i: usize| C::pack(value(i), value(i + 1));
        let pairs = [pair(0), pair(2), pair(4), pair(6)];
        // SAFETY: as in `take_added`.
        unsafe { matrix::stmatrix_x4_trans(self.boxes_across(group), Self::place_in_box(number), pairs) };
    }

    /// Puts the sums into the boxes as they are.
    #[inline(always)]
    fn put_across(&self, sums: &Accumulator<R>, group: u32) {
        let [first, end] = self.boxes_of(group);
        unroll!(16, number => {
            if number < boxes(R) && (first..end).contains(&(number as u32)) {
                self.put_box(group, number as u32, |i| sums.element((8 * number + i).min(R - 1)));
            }
        });
    }

    /// Puts what becomes of the sums into the boxes, in a loop that is not unrolled, as `store_finished`.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn put_finished(&self, sums: &Accumulator<R>, group: u32, finish: impl Fn([f32; 8], u32) -> [f32; 8]) {
        let [mut number, end] = self.boxes_of(group).map(hint::opaque);
        while number < end {
            let values = finish(Self::sums_of_box::<8>(sums, number), number);
            self.put_box(group, number, |i| values[i]);
            number += 1;
        }
    }

    /// Has the boxes stored, by the warps in turn.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn store_boxes(&self, group: u32, tile: Tile) {
        tma::fence_async();
        meet(group);
        if !warp::elect() {
            return;
        }
        for number in self.copies_of_warp(group) {
            let at = Self::copied_at(tile, number);
            if Self::is_in_tile(number) && tile.owns(tile.row, at[1] as u32) {
                // SAFETY: a box of the map, by the kernel's contract, whose memory is not written before it has been read.
                unsafe { self.c.store(at, self.copied(group, number).cast()) };
            }
            tma::commit();
        }
    }

    /// The copies that this warp asks for: of whole boxes, so that there may be one more than a tile has rows for.
    #[inline(always)]
    fn copies_of_warp(&self, group: u32) -> StepBy<Range<u32>> {
        let [first, end] = self.boxes_of(group).map(|number| number * (BOX_M / copy_m(R)) as u32);
        (first + thread::thread_idx_x() / 32 % 4..end).step_by(4)
    }

    /// Whether a tile has rows for a copy.
    #[inline(always)]
    fn is_in_tile(number: u32) -> bool {
        copy_m(R) == BOX_M || number < (tile_n(R) / copy_m(R)) as u32
    }

    /// The memory of what is copied.
    #[inline(always)]
    fn copied(&self, group: u32, number: u32) -> Shared<u8> {
        // SAFETY: of one of the boxes.
        unsafe {
            self.boxes_across(group)
                .subarray_unchecked(number as usize * Self::COPY_BYTES, Self::COPY_BYTES)
        }
    }

    /// Where in the maps it is of a tile.
    #[inline(always)]
    fn copied_at(tile: Tile, number: u32) -> [i32; 3] {
        let row = tile.column + number * copy_m(R) as u32;
        [tile.row as i32, row as i32, tile.product as i32]
    }
}

/// Has the warps of a consumer wait for each other.
#[inline(always)]
pub(super) fn meet(group: u32) {
    match group {
        0 => thread::sync_threads_named::<2, 128>(),
        1 => thread::sync_threads_named::<3, 128>(),
        _ => thread::sync_threads_named::<4, 128>(),
    }
}
