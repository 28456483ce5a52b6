// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is added to a tile of the result, by way of the ring: the elements that were there before, or a residual that lies as the
//! result does.
//!
//! The producer has a tile's elements copied behind the tile's last stages of operands, as soon as stages are free: so they are
//! there when the sums are, and nobody has waited for memory. They lie where the right operand does, the lines of either consumer in the
//! stages of its parity, with the swizzle of the result's boxes; a lane reads by `ldmatrix` what it stores by `stmatrix`.

use bytemuck::{Pod, cast};
use cuda_std::prelude::*;
use cuda_std::tma::TensorMap;
use cuda_std::wgmma::Registers;
use cuda_std::{matrix, thread};

use super::{BOX_BYTES, Block, LINE, Output, Place, b_bytes};
use crate::matmul::tiles::Tile;
use crate::matmul::unroll;

/// Lines of a box of the addend: those of a consumer.
pub const ADDEND_M: usize = 64;

const BYTES: usize = ADDEND_M * LINE;

/// What comes by way of the ring.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, KernelParam)]
pub struct RingAddend {
    /// What it is: [`NOTHING`](Self::NOTHING), [`OLD`](Self::OLD) or [`RESIDUAL`](Self::RESIDUAL).
    pub is: u32,
    /// What old elements are multiplied with.
    pub beta: f32,
    /// From product to product in its map: 1, or 0 for one matrix for all.
    pub step: u32,
}

impl RingAddend {
    /// Nothing comes.
    pub const NOTHING: u32 = 0;
    /// The elements that were there before.
    pub const OLD: u32 = 1;
    /// The residual.
    pub const RESIDUAL: u32 = 2;

    /// Whether something comes.
    #[inline(always)]
    pub(super) fn is_there(self) -> bool {
        self.is != Self::NOTHING
    }
}

/// An addend's map, for the producers.
#[derive(Clone, Copy)]
pub(super) struct Addend<'a, C> {
    pub(super) map: TensorMap<'a, C>,
    pub(super) step: u32,
}

impl<E: Pod, C: Pod, const R: usize> Block<'_, E, C, R> {
    /// Boxes of a stage.
    const OF_STAGE: u32 = (b_bytes(R) / BYTES) as u32;

    /// Pairs of stages that a tile's addend fills.
    const PAIRS: u32 = size_of::<C>() as u32 / 2;

    /// Has the stages behind a tile's operands filled with the addend. For one thread of each producer.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) fn produce_addend<const OF_B: bool>(&self, tile: Tile, place: &mut Place<R>, addend: Addend<'_, C>) {
        let mut number = 0;
        while number < 2 * Self::PAIRS {
            self.await_free(*place);
            let (full, group) = (self.full(place.stage), place.stage % 2);
            // Consumers that have all lines of a tile store them by the first of them.
            let fills = OF_B && !(self.shares_k() && group == 1);
            full.arrive_expect_tx(if fills { b_bytes(R) as u32 } else { 0 });
            if fills {
                let row = tile.row + if self.shares_k() { 0 } else { group * ADDEND_M as u32 };
                let first = tile.column + number / 2 * Self::OF_STAGE * Self::COLUMNS;
                unroll!(4, i => {
                    if i < Self::OF_STAGE as usize {
                        let column = first + i as u32 * Self::COLUMNS;
                        let at = [column as i32, row as i32, (tile.product * addend.step) as i32];
                        let to = Self::B + place.stage as usize * b_bytes(R) + i * BYTES;
                        // SAFETY: boxes of the map are, by the kernel's contract, as large, at multiples of 1024 bytes.
                        // Nobody reads the stage before its barrier says that it is full.
                        unsafe { addend.map.load(self.operands(to).cast(), at, full) };
                    }
                });
            }
            *place = place.next();
            number += 1;
        }
    }

    /// Columns of a box.
    const COLUMNS: u32 = 2 * Self::OF_BOX as u32;

    /// Waits until the addend of the tile's next boxes is there, and gives the stage that it is in.
    #[inline(always)]
    fn await_addend(&self, group: u32, place: Place<R>) -> u32 {
        let own = place.after(place.until(group));
        self.full(own.stage).wait(own.round);
        own.stage
    }

    /// Gives a pair of stages back, when all of the consumer's warps have read.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn free_addend(&self, group: u32, place: &mut Place<R>) {
        super::across::meet(group);
        let pair = [*place, place.next()];
        unroll!(2, i => {
            let Place { stage, round } = pair[i];
            if !self.shares_k() || stage % 2 == group {
                // Who arrives ahead of a phase arrives in the one before.
                self.full(stage).wait(round);
                self.release(stage);
            }
        });
        *place = place.after(2);
    }

    /// Gives the stages of a tile's addend back that this consumer has no use for.
    // On the simulated GPU in a frame of its own, as `store`.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) fn pass_addend(&self, group: u32, place: &mut Place<R>, addend: RingAddend) {
        if addend.is_there() {
            unroll!(2, i => {
                if (i as u32) < Self::PAIRS {
                    self.free_addend(group, place);
                }
            });
        }
    }
}

/// A consumer's way through the addend of a tile, as it stores the tile's boxes one after another.
pub(super) struct Reader {
    group: u32,
    stage: u32,
}

impl Reader {
    #[inline(always)]
    pub(super) fn new(warp: u32) -> Self {
        Self {
            group: warp / 4,
            stage: 0,
        }
    }
}

impl<E: Pod, C: Output, const R: usize> Block<'_, E, C, R>
where
    [f32; R]: Registers,
{
    /// Ahead of box `number` of a tile that has an addend.
    #[inline(always)]
    pub(super) fn begin_addend(&self, reader: &mut Reader, number: u32, place: Place<R>) {
        if number.is_multiple_of(Self::OF_STAGE) {
            reader.stage = self.await_addend(reader.group, place);
        }
    }

    /// Behind box `number` of a tile that has an addend.
    #[inline(always)]
    pub(super) fn end_addend(&self, reader: &Reader, number: u32, place: &mut Place<R>) {
        if (number + 1).is_multiple_of(Self::OF_STAGE) {
            self.free_addend(reader.group, place);
        }
    }

    /// The words of the addend for this thread's sums of box `number`: as [`put_sums`](Self::put_sums) stores them.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) fn addend<const OF_BOX: usize>(&self, reader: &Reader, number: u32) -> [u32; OF_BOX] {
        let (warp, lane) = (thread::thread_idx_x() / 32 % 4, thread::thread_idx_x() % 32);
        let of_stage = number % Self::OF_STAGE;
        let at = reader.stage * b_bytes(R) as u32 + of_stage * BYTES as u32 + warp * BOX_BYTES as u32;
        // SAFETY: sixteen lines of a box, which are among the stages of `B`.
        let from = unsafe { self.memory.subarray_unchecked(Self::B + at as usize, BOX_BYTES) };
        let mut words = [0; OF_BOX];
        unroll!(4, part => {
            // SAFETY (of both): of the box, of 16 lines of 128 bytes, which is full; all lanes are here.
            if C::PACKED {
                let of_part = unsafe { matrix::ldmatrix_x4(from, Self::packed_at(part as u32, lane)) };
                unroll!(4, i => { words[4 * part + i] = of_part[i]; });
            } else {
                let at = Self::wide_at(part as u32, lane);
                let from = from.cast::<f32>();
                let [upper, lower]: [[f32; 2]; 2] =
                    unsafe { [from.get_vec_unchecked(at), from.get_vec_unchecked(at + 8 * LINE / 4)] };
                [words[4 * part], words[4 * part + 1]] = cast(upper);
                [words[4 * part + 2], words[4 * part + 3]] = cast(lower);
            }
        });
        words
    }
}
