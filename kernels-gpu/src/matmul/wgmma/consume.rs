// SPDX-License-Identifier: MIT OR Apache-2.0
//! The consumers: who multiplies the stages and stores the tiles.

use bytemuck::Pod;
use cuda_std::prelude::*;
use cuda_std::wgmma::{Accumulator, Batch, InRegisters, KMajor, MatrixDescriptor, MultiplyBy, Operand, Registers};
use cuda_std::{tma, warpgroup};

use super::store::Packed;
use super::{
    BOX_BYTES, BOX_M, Block, HALF_TILE_M, Input, LINE, Output, Place, Result, Side, a_bytes, b_bytes, boxes, parts,
};
use crate::matmul::epilogue::EpilogueOp;
use crate::matmul::tiles::Tile;

impl<E: Pod, C: Output, const R: usize> Block<'_, E, C, R>
where
    [f32; R]: Registers,
{
    /// Multiplies the stages, and stores the tiles. For the eight warps of two warpgroups.
    // On the simulated GPU in a frame of its own: there is no room for both roles' in one.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) fn consume<T: Input<Element = E>>(&self, warp: u32, result: Result<'_, C, impl EpilogueOp<f32>>) {
        warpgroup::increase_registers::<232>();
        self.clear_lines();
        let mut place = Place::<R>::FIRST;
        let mut packed = Packed::NONE;
        for tile in self.tiles_of_block() {
            if self.a_comes_from_registers() {
                let sums = self.sums_from_registers(warp, &mut place);
                self.store_crosswise(&sums, result.alpha, warp, tile);
                continue;
            }
            let bias = self.load_bias(tile, 0, &result);
            let beside = |k| {
                if packed.is_due(k) {
                    self.store_packed(&mut packed, warp);
                }
            };
            let mut sums = match (Self::ANY_LAYOUT && self.a_lies_along_m(), self.b_lies_along_n()) {
                (false, false) => self.sums_beside::<T, T, KMajor, KMajor>(warp / 4, &mut place, beside),
                (false, true) => self.sums_beside::<T, T, KMajor, T::AlongLines>(warp / 4, &mut place, beside),
                (true, false) => self.sums_beside::<T, T, T::AlongLines, KMajor>(warp / 4, &mut place, beside),
                (true, true) => self.sums_beside::<T, T, T::AlongLines, T::AlongLines>(warp / 4, &mut place, beside),
            };
            if self.shares_k() {
                self.add_parts(&mut sums, warp / 4, |a, b| a + b);
                if warp >= 4 {
                    self.pass_addend(warp / 4, &mut place, result.addend);
                    continue;
                }
            }
            let row = tile.row + warp * BOX_M as u32;
            let tile = Tile { row, ..tile };
            packed = match self.packs(&result, ()) {
                true => self.store_and_pack(&sums, result.alpha, warp, tile),
                false => {
                    self.store(sums, warp, tile, &result, bias, (), &mut place);
                    Packed::NONE
                }
            };
        }
        if packed.is_there() {
            self.store_packed(&mut packed, warp);
        }
        if warp::elect() {
            // The shared memory is the block's as long as copies read it.
            tma::wait_read::<0>();
        }
    }

    /// This thread's part of the product of 64 rows of the tile, or of the stages of one parity.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) fn sums<T: MultiplyBy<U>, U: Operand, A: Side<T>, B: Side<U>>(
        &self,
        group: u32,
        place: &mut Place<R>,
    ) -> Accumulator<R> {
        self.sums_beside::<T, U, A, B>(group, place, |_| ())
    }

    /// [`sums`](Self::sums), and `beside` on the way, as [`sums_by`](Self::sums_by) does it.
    // Elsewhere, in code that is not optimised, each state of the sums has a place in the frame of `consume`, and the stack
    // has no room for those of all loops.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) fn sums_beside<T: MultiplyBy<U>, U: Operand, A: Side<T>, B: Side<U>>(
        &self,
        group: u32,
        place: &mut Place<R>,
        beside: impl FnMut(u32),
    ) -> Accumulator<R> {
        let (a, b) = (self.a_of::<T, A>(group), self.b_of::<U, B>());
        let multiply = |sums: Batch<R>, stage, step, is_first| {
            // SAFETY (of both): as `sums_by` says.
            match is_first {
                true => unsafe { sums.mma_from_zero(a(stage, step), b(stage, step)) },
                false => unsafe { sums.mma(a(stage, step), b(stage, step)) },
            }
        };
        self.sums_by(group, place, multiply, beside)
    }
}

impl<E: Pod, C: Pod, const R: usize> Block<'_, E, C, R>
where
    [f32; R]: Registers,
{
    /// This thread's part of the product of 128 rows of the tile, 64 and 64, over all stages: of each first that of the former rows. When
    /// its instructions are on their way, those of the stage before are waited for, so that the tensor cores always have some.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) fn sums_of_both<T: MultiplyBy<U>, U: Operand, A: Side<T>, B: Side<U>>(
        &self,
        group: u32,
        place: &mut Place<R>,
    ) -> [Accumulator<R>; 2] {
        let (a, b) = (self.a_of::<T, A>(group), self.b_of::<U, B>());
        // SAFETY (of all): as `sums_by` says; a stage is given back when both have been waited for.
        let multiply = |sums: Batch<R>, stage, part: u32, is_first| {
            let (a, b) = (
                |step| a(stage, step).advance(part * (64 * LINE) as u32),
                |step| b(stage, step),
            );
            let sums = match is_first {
                true => unsafe { sums.mma_from_zero(a(0), b(0)) },
                false => unsafe { sums.mma(a(0), b(0)) },
            };
            unsafe { sums.mma(a(1), b(1)).mma(a(2), b(2)).mma(a(3), b(3)) }.commit()
        };
        let mut stage = place.stage;
        self.full(stage).wait(place.round);
        let mut first = multiply(Accumulator::any().start(), stage, 0, true);
        let mut second = multiply(Accumulator::any().start(), stage, 1, true);
        *place = place.next();
        let mut k = Self::TILE_K;
        while k < self.shape.k {
            let previous = stage;
            stage = place.stage;
            self.full(stage).wait(place.round);
            first = multiply(first.restart(), stage, 0, false);
            second = second.wait_but_newest();
            self.release(previous);
            second = multiply(second.restart(), stage, 1, false);
            *place = place.next();
            k += Self::TILE_K;
        }
        let sums = [first.wait(), second.wait()];
        self.release(stage);
        sums
    }
}

impl<E: Pod, C: Pod, const R: usize> Block<'_, E, C, R> {
    /// Writes zeros to the lines of `A` that no copy brings. For all consumers, ahead of their first stage.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) fn clear_lines(&self) {
        if self.leaves_lines_out() {
            self.clear(0, a_bytes(R), [self.shape.a_lines, HALF_TILE_M as u32]);
        }
    }

    /// Writes zeros to the lines of an operand's stages from one to another: the first stage begins at `at`, and a stage has so many
    /// bytes. For all consumers, ahead of their first stage.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) fn clear(&self, at: usize, bytes: usize, lines: [u32; 2]) {
        // Numbers of 16 bytes.
        let of_line = (LINE / 16) as u32;
        let (first, end) = (lines[0] * of_line, lines[1] * of_line);
        let mut stage = 0;
        while stage < super::stages(R) {
            let lines = self.operands(at + stage * bytes).cast::<u32>();
            let mut number = first + (thread::thread_idx_x() - 128);
            while number < end {
                // SAFETY: within the lines of the stage.
                unsafe { lines.set_vec_unchecked(4 * number as usize, [0; 4]) };
                number += 256;
            }
            stage += 1;
        }
        // The instructions read them.
        tma::fence_async();
        thread::sync_threads_named::<1, 256>();
    }

    /// Adds the second consumer's sums to the first's.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) fn add_parts<S: Pod>(&self, sums: &mut Accumulator<R, S>, group: u32, add: impl Fn(S, S) -> S)
    where
        [S; R]: InRegisters<S>,
    {
        // The boxes of the second one's warps, which store none.
        let (at, bytes) = (Self::BOXES + 4 * boxes(R) * BOX_BYTES, 4 * boxes(R) * BOX_BYTES);
        // SAFETY: they are among the boxes.
        let parts = unsafe { self.memory.subarray_unchecked(at, bytes) }.cast::<S>();
        let number = thread::thread_idx_x() as usize % 128;
        if group == 1 {
            sums.update(|i, sum| {
                // SAFETY (of both): 32 numbers of 128 threads.
                unsafe { parts.set_unchecked(i * 128 + number, sum) };
                sum
            });
        }
        thread::sync_threads_named::<1, 256>();
        if group == 0 {
            sums.update(|i, sum| add(sum, unsafe { parts.get_unchecked(i * 128 + number) }));
        }
        thread::sync_threads_named::<1, 256>();
    }

    /// `A` in a stage, for one of the four instructions of that: a consumer's rows, or all.
    #[inline(always)]
    pub(super) fn a_of<T: Operand, A: Side<T>>(&self, group: u32) -> impl Fn(u32, u32) -> MatrixDescriptor<T, A> {
        let row = if self.shares_k() {
            0
        } else {
            group as usize * 64 * parts(R)
        };
        let a = MatrixDescriptor::<T, A>::new(self.operands(row * LINE), A::LEADING, A::STRIDE);
        move |stage: u32, step: u32| a.advance(stage * a_bytes(R) as u32 + step * A::STEP)
    }

    /// `B` in a stage, for one of the four.
    #[inline(always)]
    pub(super) fn b_of<T: Operand, B: Side<T>>(&self) -> impl Fn(u32, u32) -> MatrixDescriptor<T, B> {
        let b = MatrixDescriptor::<T, B>::new(self.operands(Self::B), B::LEADING, B::STRIDE);
        move |stage: u32, step: u32| b.advance(stage * b_bytes(R) as u32 + step * B::STEP)
    }

    /// This consumer's sums over all stages, or over those of one parity, by `multiply`, which is given a stage, one of its four
    /// steps, and whether the sums begin with that.
    ///
    /// A stage that it is given is full, and is not filled again before all consumers that read it have arrived at its barrier,
    /// which they do when they have waited for what reads it; each batch is committed and waited for.
    ///
    /// `beside` is called with the `k` of each stage but the first, while its products and those of the one before are on their way.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) fn sums_by<S: Pod>(
        &self,
        group: u32,
        place: &mut Place<R>,
        multiply: impl Fn(Batch<R, S>, u32, u32, bool) -> Batch<R, S>,
        mut beside: impl FnMut(u32),
    ) -> Accumulator<R, S>
    where
        [S; R]: InRegisters<S>,
    {
        // The place of the first stage, and from one stage to the next.
        let (first, step) = match self.shares_k() {
            true => (place.until(group), 2),
            false => (0, 1),
        };
        // The same in all lanes. Where the assembler does not see that, it brings each descriptor into uniform registers by itself; but
        // in narrow tiles the products would wait for the shuffle. Of 16 bits it sees it.
        let stage_at = |place: Place<R>| match R == 128 && !Self::ANY_LAYOUT {
            true => warp::uniform(place.stage),
            false => place.stage,
        };
        let begin = *place;
        *place = begin.after(first);
        let mut stage = stage_at(*place);
        self.full(stage).wait(place.round);
        let sums = multiply(Accumulator::<R, S>::zero().start(), stage, 0, true);
        let sums = multiply(sums, stage, 1, false);
        let sums = multiply(sums, stage, 2, false);
        let mut sums = multiply(sums, stage, 3, false).commit();
        *place = place.after(step);
        let mut k = (first + step) * Self::TILE_K;
        while k < self.shape.k {
            let previous = stage;
            stage = stage_at(*place);
            self.full(stage).wait(place.round);
            let next = multiply(sums.restart(), stage, 0, false);
            let next = multiply(next, stage, 1, false);
            let next = multiply(next, stage, 2, false);
            let next = multiply(next, stage, 3, false).commit();
            beside(k);
            sums = next.wait_but_newest();
            self.release(previous);
            *place = place.after(step);
            k += step * Self::TILE_K;
        }
        let sums = sums.wait();
        self.release(stage);
        if self.shares_k() {
            *place = begin.far_after(self.shape.k.div_ceil(Self::TILE_K));
        }
        sums
    }
}
