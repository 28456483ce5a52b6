// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is added to scores, on its way: the tensor memory accelerator copies boxes of 64 queries and 64 keys to shared memory, and a warp
//! has from there what belongs to its scores as `ldmatrix` gives it, which is how accumulators lie; transposed, where their rows are keys.
//!
//! So no thread computes an address of an element, a bias is there before the scores are, and it takes registers for four words at a time.

use cuda_std::matrix;
use cuda_std::mbarrier::Mbarrier;
use cuda_std::prelude::*;
use cuda_std::tma::TensorMap;
use cuda_std::wgmma::{Accumulator, Registers};

use super::{Half, LINE};
use crate::matmul::unroll;

/// Queries, and keys, of a box.
pub const SIDE: usize = 64;

/// Bytes of a box.
pub(super) const BOX_BYTES: usize = SIDE * LINE;

/// Along which axes of the scores a bias has elements of their own.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, KernelParam)]
pub struct BiasAxes {
    /// 1, or 0 where there is no bias.
    pub is_there: u32,
    /// Of problems, heads and queries: 1, or 0 where it is the same for all.
    pub of: [u32; 3],
}

/// What is added to scores.
#[derive(Clone, Copy)]
pub(super) struct Bias<'a, T> {
    /// Of the axes of the scores. A box is one problem and one head, [`SIDE`] keys, and as many queries, or the only one.
    pub(super) map: TensorMap<'a, T>,
    pub(super) axes: BiasAxes,
    /// What it is multiplied with to be in units of scores.
    pub(super) factor: f32,
}

impl<T: Half> Bias<'_, T> {
    /// Bytes that a copy brings.
    #[inline(always)]
    pub(super) fn bytes(&self) -> u32 {
        self.lines() * LINE as u32
    }

    /// Lines of a box.
    #[inline(always)]
    fn lines(&self) -> u32 {
        1 + self.axes.of[2] * (SIDE as u32 - 1)
    }

    /// Has the box copied that begins at a score: of a problem, a head, a query and a key.
    ///
    /// # Safety
    ///
    /// There is a bias. `to` has [`BOX_BYTES`], at a multiple of 1024 of the block's shared memory, which nobody reads or writes until the
    /// barrier says that [`bytes`](Self::bytes) have come, and the block ends behind that.
    #[inline(always)]
    pub(super) unsafe fn load(&self, to: Shared<T>, [batch, head, query, key]: [u32; 4], barrier: Mbarrier) {
        let [of_batch, of_head, of_query] = self.axes.of;
        let at = cuda_std::array::map([key, query * of_query, head * of_head, batch * of_batch], |at| {
            at as i32
        });
        // SAFETY: the caller's promise.
        unsafe { self.map.load(to, at, barrier) };
    }

    /// Adds what boxes side by side have to the scores of a warpgroup, whose rows are queries, or else keys. For all of its threads.
    ///
    /// # Safety
    ///
    /// There is a bias, and the boxes are there: so many that they have a score for each of the accumulator's, [`BOX_BYTES`] each, as
    /// [`load`](Self::load) has them copied.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) unsafe fn add<const N: usize, const OF_QUERIES: bool>(
        &self,
        boxes: Shared<T>,
        scores: &mut Accumulator<N>,
    ) where
        [f32; N]: Registers,
    {
        let thread = thread::thread_idx_x();
        let (warp, line, matrix) = (thread / 32 % 4, thread % 8, thread / 8 % 4);
        // Of four matrices of 8 × 8, two one above the other in the accumulator, then the two to their right, a lane says where a line of
        // memory begins. Pieces of 16 bytes lie where swizzling has them; a box of one line has that for all.
        let (lower, right) = (matrix % 2, matrix / 2);
        let (row, piece) = match OF_QUERIES {
            true => (16 * warp + 8 * lower + line, right),
            false => (8 * right + line, 2 * warp + lower),
        };
        let row = row * self.axes.of[2];
        let at = row * LINE as u32 + (piece ^ (row % 8)) * 16;
        let next = 16 * LINE as u32 * self.axes.of[2];
        unroll!(8, part => {
            if part < N / 8 {
                let of_part = part as u32;
                let at = match OF_QUERIES {
                    true => (at ^ (of_part % 4 * 32)) + of_part / 4 * BOX_BYTES as u32,
                    false => at + of_part * next,
                };
                // SAFETY: 16 bytes of a line of a box, by the caller's promise; all lanes are here.
                let words = unsafe {
                    match OF_QUERIES {
                        true => matrix::ldmatrix_x4(boxes, at),
                        false => matrix::ldmatrix_x4_trans(boxes, at),
                    }
                };
                scores.update(|i, score| {
                    if i / 8 != part {
                        return score;
                    }
                    let pair: [T; 2] = bytemuck::cast(words[i % 8 / 2]);
                    Float::mul_add(pair[i % 2].widen(), self.factor, score)
                });
            }
        });
    }
}
