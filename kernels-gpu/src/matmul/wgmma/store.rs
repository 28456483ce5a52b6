// SPDX-License-Identifier: MIT OR Apache-2.0
//! How tiles are stored: by way of shared memory, in boxes that the accelerator copies, with an epilogue or without.

use bytemuck::Pod;
use cuda_std::prelude::*;
use cuda_std::wgmma::{Accumulator, Registers};
use cuda_std::{hint, matrix, tma};

use super::addend::{Reader, RingAddend};
use super::{BOX_BYTES, Block, Factors, LINE, Output, Place, Result, boxes};
use crate::matmul::epilogue::{EpilogueOp, numbers};
use crate::matmul::tiles::Tile;
use crate::matmul::unroll;

/// Whether results of so many bytes, of tiles whose sums take so many registers, may wait to be stored: those of tiles that have more
/// boxes than there is memory for.
pub(super) const fn may_wait(registers: usize, element: usize) -> bool {
    element == 2 && registers == 128
}

/// Stages of the next tile that go by before what is packed is stored, or all but the last, if there are no more: 8000 cycles.
const STAGES_LATER: u32 = 8;

/// What there is no memory for of a tile's sums, rounded to 16 bits, in pairs. It is stored beside the next tile's products: until the
/// tile's first boxes have been copied takes some 4000 cycles, since the accelerator has the ring's stages to copy first, and the tensor
/// cores would wait that long.
pub(super) struct Packed {
    pairs: [u32; 32],
    /// Column, row and product.
    at: [u32; 3],
    /// A bit for each box that is the tile's own.
    boxes: u32,
    /// The `k` of the next tile beside which it is stored, which is not 0 if there is anything.
    due: u32,
}

impl Packed {
    /// None.
    pub(super) const NONE: Self = Self {
        pairs: [0; 32],
        at: [0; 3],
        boxes: 0,
        due: 0,
    };

    /// Whether it is to be stored beside the stage at `k`, which is none of a tile's first.
    #[inline(always)]
    pub(super) fn is_due(&self, k: u32) -> bool {
        self.due == k
    }

    /// Whether there is anything.
    #[inline(always)]
    pub(super) fn is_there(&self) -> bool {
        self.due != 0
    }
}

impl<E: Pod, C: Pod, const R: usize> Block<'_, E, C, R> {
    /// The memory of box `number` of a warp.
    #[inline(always)]
    fn boxed(&self, number: u32, warp: u32) -> Shared<u8> {
        let at = Self::BOXES + (warp as usize * boxes(R) + number as usize % boxes(R)) * BOX_BYTES;
        // SAFETY: it is among the boxes.
        unsafe { self.memory.subarray_unchecked(at, BOX_BYTES) }
    }

    /// Copies that a box's last one may have been followed by, when it is taken again: in the next tile, too, whose boxes are counted
    /// from the first.
    const LATER: usize = {
        let of_tile = R / Self::OF_BOX;
        let apart = of_tile % boxes(R);
        if apart == 0 { boxes(R) - 1 } else { apart - 1 }
    };

    /// The same, when the copy that read it last has done so.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) fn take_box(&self, number: u32, warp: u32) -> Shared<u8> {
        if warp::elect() {
            match const { Self::LATER } {
                0 => tma::wait_read::<0>(),
                1 => tma::wait_read::<1>(),
                2 => tma::wait_read::<2>(),
                _ => tma::wait_read::<3>(),
            }
        }
        warp::sync_warp(warp::FULL_MASK);
        self.boxed(number, warp)
    }

    /// The first column of box `number` of a tile.
    #[inline(always)]
    fn column_of(tile: Tile, number: u32) -> u32 {
        tile.column + number * 2 * Self::OF_BOX as u32
    }

    /// Has box `number` of the tile's rows stored.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) fn store_box(&self, from: Shared<u8>, number: u32, tile: Tile) {
        let column = Self::column_of(tile, number);
        let at = [column, tile.row, tile.product];
        self.store_box_if(tile.owns(tile.row, column), from, at);
    }

    /// Has a box of the result stored, which begins at this column, row and product, if it is the tile's own.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn store_box_if(&self, is_own: bool, from: Shared<u8>, at: [u32; 3]) {
        tma::fence_async();
        warp::sync_warp(warp::FULL_MASK);
        if warp::elect() {
            if is_own {
                let at = cuda_std::array::map(at, |at| at as i32);
                // SAFETY: a box of the map, by the kernel's contract, whose memory is not written before it has been read.
                unsafe { self.c.store(at, from.cast()) };
            }
            // A group all the same: who takes a box again counts them.
            tma::commit();
        }
    }

    /// Puts 16 rows × 32 numbers of 32 bits into a box.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) fn put<V: Pod>(to: Shared<V>, value: impl Fn(usize) -> V) {
        let lane = thread::thread_idx_x() % 32;
        unroll!(4, part => {
            let at = Self::wide_at(part as u32, lane);
            let value = |i: usize| value(4 * part + i);
            // SAFETY: two of the 16 × 32 numbers, the first of them even.
            unsafe {
                to.set_vec_unchecked(at, [value(0), value(1)]);
                to.set_vec_unchecked(at + 8 * 32, [value(2), value(3)]);
            }
        });
    }

    /// Where a lane's first two of four numbers of 32 bits lie in a box; the others lie eight rows further down.
    #[inline(always)]
    pub(super) fn wide_at(part: u32, lane: u32) -> usize {
        let row = lane / 4;
        let column = (2 * part + lane % 4 / 2) ^ row;
        (row * 32 + column * 4 + lane % 2 * 2) as usize
    }

    /// Where, in bytes, the row lies in a box that a lane has of four matrices of numbers of 16 bits.
    #[inline(always)]
    pub(super) fn packed_at(part: u32, lane: u32) -> u32 {
        let row = lane / 8 % 2 * 8 + lane % 8;
        let column = (2 * part + lane / 16) ^ (lane % 8);
        row * LINE as u32 + 16 * column
    }
}

impl<E: Pod, C: Output, const R: usize> Block<'_, E, C, R>
where
    [f32; R]: Registers,
{
    /// Stores 16 rows of the tile, those of this warp, by boxes of 128 bytes a row. Of a bias that all rows have in common, `bias`
    /// is what [`load_bias`](Self::load_bias) has given for the first box. `place` is that of the addend which comes by way of the
    /// ring, if one does.
    // On the simulated GPU in a frame of its own: there is no room for it in that of `consume`.
    #[allow(clippy::too_many_arguments, reason = "what a tile is, and what becomes of it")]
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) fn store<F: EpilogueOp<f32>>(
        &self,
        mut sums: Accumulator<R>,
        warp: u32,
        tile: Tile,
        result: &Result<'_, C, F>,
        bias: u32,
        factors: impl Factors,
        place: &mut Place<R>,
    ) {
        let alpha = result.alpha;
        if result.addend.is_there() || !result.epilogue.is_identity() || factors.are_there() {
            // Mostly it is 1, and a branch takes less than as many multiplications.
            if alpha != 1.0 {
                sums.update(|_, sum| alpha * sum);
            }
            return match const { Self::OF_BOX } {
                32 => self.store_finished::<32, _>(&sums, warp, tile, result, bias, factors, place),
                _ => self.store_finished::<16, _>(&sums, warp, tile, result, bias, factors, place),
            };
        }
        unroll!(8, number => {
            if number * Self::OF_BOX < R {
                let first = number * Self::OF_BOX;
                let to = self.take_box(number as u32, warp);
                Self::put_sums(to, |i| alpha * sums.element(first + i));
                self.store_box(to, number as u32, tile);
            }
        });
    }

    /// Whether a tile's last boxes wait [packed](Packed): where sums are only scaled, and the next tile has as many stages as go by
    /// meanwhile. With fewer the wait is only put off.
    #[inline(always)]
    pub(super) fn packs<F: EpilogueOp<f32>>(&self, result: &Result<'_, C, F>, factors: impl Factors) -> bool {
        let is_scaled = !result.addend.is_there() && result.epilogue.is_identity() && !factors.are_there();
        may_wait(R, size_of::<C>()) && is_scaled && self.shape.k >= STAGES_LATER * Self::TILE_K
    }

    /// Stores the boxes of a tile that there is memory for, and packs the others.
    // On the simulated GPU in a frame of its own, as `store`.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) fn store_and_pack(&self, sums: &Accumulator<R>, alpha: f32, warp: u32, tile: Tile) -> Packed {
        if !may_wait(R, size_of::<C>()) {
            return Packed::NONE;
        }
        let scaled = |i: usize| alpha * sums.element(i);
        let mut packed = Packed {
            at: [tile.column, tile.row, tile.product],
            due: (STAGES_LATER * Self::TILE_K).min((self.shape.k - 1) / Self::TILE_K * Self::TILE_K),
            ..Packed::NONE
        };
        unroll!(8, number => {
            let (first, has_memory) = (number * Self::OF_BOX, number < boxes(R));
            if first < R && has_memory {
                let to = self.take_box(number as u32, warp);
                Self::put_sums(to, |i| scaled(first + i));
                self.store_box(to, number as u32, tile);
            } else if first < R {
                let is_own = tile.owns(tile.row, Self::column_of(tile, number as u32));
                packed.boxes |= u32::from(is_own) << number;
            }
        });
        let pair = |i: usize| match Self::PACKED + 2 * i < R {
            true => C::pack(scaled(Self::PACKED + 2 * i), scaled(Self::PACKED + 2 * i + 1)),
            false => 0,
        };
        packed.pairs = cuda_std::array::from_fn(pair);
        packed
    }

    /// The first of a thread's sums that are packed.
    const PACKED: usize = boxes(R) * Self::OF_BOX;

    /// Stores what is packed.
    // As `store_and_pack`.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) fn store_packed(&self, packed: &mut Packed, warp: u32) {
        if !may_wait(R, size_of::<C>()) {
            return;
        }
        let [column, row, product] = packed.at;
        unroll!(8, number => {
            let first = number * Self::OF_BOX;
            if first < R && first >= Self::PACKED {
                let to = self.take_box(number as u32, warp);
                Self::put_pairs(to, |i| packed.pairs[(first - Self::PACKED) / 2 + i]);
                let at = [column + 2 * first as u32, row, product];
                self.store_box_if((packed.boxes >> number) & 1 != 0, to, at);
            }
        });
        packed.due = 0;
    }

    /// Loads this lane's word of a bias that all rows have in common, for the columns of box `number` of a tile: ahead of the
    /// sums, or of those of the box before, so that it is there when they are.
    #[inline(always)]
    pub(super) fn load_bias<F: EpilogueOp<f32>>(&self, tile: Tile, number: u32, result: &Result<'_, C, F>) -> u32 {
        let column = tile.column + number * (2 * Self::OF_BOX as u32);
        // SAFETY: the kernel's contract.
        unsafe { result.epilogue.load_of_row(tile.product, column, self.shape.n) }
    }

    /// [`store`](Self::store) where there is more to be done than to scale, box by box, of so many sums of a thread.
    #[allow(clippy::too_many_arguments, reason = "as `store`")]
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn store_finished<const OF_BOX: usize, F: EpilogueOp<f32>>(
        &self,
        sums: &Accumulator<R>,
        warp: u32,
        tile: Tile,
        result: &Result<'_, C, F>,
        mut bias: u32,
        factors: impl Factors,
        place: &mut Place<R>,
    ) {
        let &Result { addend, epilogue, .. } = result;
        let mut reader = Reader::new(warp);
        let lane = thread::thread_idx_x() % 32;
        let extents = [self.shape.m, self.shape.n];
        // A number that the compiler does not know: it would unroll the loop.
        let boxes = hint::opaque((R / OF_BOX) as u32);
        let mut number = 0;
        while number < boxes {
            let column = tile.column + number * (2 * OF_BOX as u32) + lane % 4 * 2;
            let at = [tile.product, tile.row + lane / 4, column];
            let next = self.load_bias(tile, number + 1, result);
            let mut values = factors.multiply(Self::sums_of_box::<OF_BOX>(sums, number), at, extents);
            if addend.is_there() {
                self.begin_addend(&mut reader, number, *place);
            }
            if addend.is == RingAddend::OLD {
                let old = numbers::<C, OF_BOX>(self.addend(&reader, number));
                values = cuda_std::array::from_fn(|i| Float::mul_add(addend.beta, old[i], values[i]));
            }
            let residual = || match addend.is {
                RingAddend::RESIDUAL => Some(self.addend(&reader, number)),
                _ => None,
            };
            // SAFETY: the addends are such by the kernel's contract; what is beyond the matrix is not stored.
            let values = unsafe { epilogue.finish_fragment(values, at, extents, bias, residual) };
            epilogue.see_fragment(values, at, extents);
            let to = self.take_box(number, warp);
            Self::put_sums(to, |i| values[i]);
            self.store_box(to, number, tile);
            if addend.is_there() {
                self.end_addend(&reader, number, place);
            }
            bias = next;
            number += 1;
        }
    }

    /// This thread's sums of a box.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) fn sums_of_box<const OF_BOX: usize>(sums: &Accumulator<R>, number: u32) -> [f32; OF_BOX] {
        let of = |number: usize| {
            let first = if number * OF_BOX < R { number * OF_BOX } else { 0 };
            cuda_std::array::from_fn(|i| sums.element((first + i).min(R - 1)))
        };
        match number {
            0 => of(0),
            1 => of(1),
            2 => of(2),
            3 => of(3),
            4 => of(4),
            5 => of(5),
            6 => of(6),
            // Of tiles that have as many.
            8 if R > 8 * OF_BOX => of(8),
            9 if R > 9 * OF_BOX => of(9),
            10 if R > 10 * OF_BOX => of(10),
            _ => of(7),
        }
    }

    /// Puts this thread's numbers into a box.
    #[inline(always)]
    pub(super) fn put_sums(to: Shared<u8>, value: impl Fn(usize) -> f32) {
        if C::PACKED {
            Self::put_packed(to, value);
        } else {
            Self::put(to.cast(), value);
        }
    }

    /// Puts 16 rows × 64 numbers of 16 bits into a box, four matrices of 8 × 8 at a time.
    #[inline(always)]
    fn put_packed(to: Shared<u8>, value: impl Fn(usize) -> f32) {
        Self::put_pairs(to, |i| C::pack(value(2 * i), value(2 * i + 1)));
    }

    /// The same of numbers that are packed already.
    #[inline(always)]
    fn put_pairs(to: Shared<u8>, pair: impl Fn(usize) -> u32) {
        let lane = thread::thread_idx_x() % 32;
        unroll!(4, part => {
            let pair = |i: usize| pair(4 * part + i);
            let at = Self::packed_at(part as u32, lane);
            // SAFETY: 16 bytes of the box, of 16 rows of 128 bytes; all lanes are here.
            unsafe { matrix::stmatrix_x4(to, at, [pair(0), pair(1), pair(2), pair(3)]) };
        });
    }
}
