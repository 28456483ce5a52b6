// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a warp has of its queries: weights of scores, sums, and how results are stored.

use cuda_std::float::approximate;
use cuda_std::prelude::*;

use super::products::{self, Products, Sums};
use super::{Block, MATRICES};
use crate::attention::decode::tensor::Half;
use crate::attention::{AttentionShape, base};
use crate::matmul::unroll;

/// A lane's scores of a tile of keys: of either 16 queries of the warp, and of each 8 keys, two keys of a query and two of the query 8 further on.
pub(super) type Scores = Products<8>;

/// By how many powers of 2 a score may be greater than that which is taken for the greatest.
const SLACK: f32 = 8.0;

/// What a lane has of its four queries: line `i` of them is 8 queries further on than the one before.
pub(super) struct Rows {
    /// The greatest exponent, or one that is no more than [`SLACK`] smaller: the same in the four lanes that have the query.
    max: [f32; 4],
    /// The lane's part of the sum of weights.
    sum: [f32; 4],
    /// Sums of weighted values: as [`Scores`], of each 8 columns.
    pub(super) values: Sums,
}

impl Rows {
    /// Of no keys.
    pub(super) const NONE: Self = Self {
        max: [f32::NEG_INFINITY; 4],
        sum: [0.0; 4],
        values: [[[0.0; 4]; 16]; 2],
    };

    /// Makes weights of scores, whose exponents of 2 are `factor` times as great, and brings the sums of lines of `D` elements to them. For whole
    /// warps.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) fn weigh<const D: usize>(&mut self, scores: &mut Scores, factor: f32) {
        let mut most = [f32::NEG_INFINITY; 4];
        let mut is_greater = false;
        unroll!(4, line => {
            unroll!(8, group => {
                let [a, b] = pair(scores, line, group);
                most[line] = Float::maximum_number(most[line], Float::maximum_number(a, b));
            });
            most[line] *= factor;
            is_greater |= most[line] > self.max[line] + SLACK;
        });
        if warp::any(warp::FULL_MASK, is_greater) {
            self.take::<D>(most);
        }
        unroll!(4, line => {
            let base = base(self.max[line]);
            unroll!(8, group => {
                let weights = pair(scores, line, group).map(|score| approximate::exp2(Float::mul_add(score, factor, -base)));
                scores[line / 2][group][line % 2 * 2] = weights[0];
                scores[line / 2][group][line % 2 * 2 + 1] = weights[1];
                self.sum[line] += weights[0] + weights[1];
            });
        });
    }

    /// Takes the greatest exponents of all lanes that have a query for its greatest, where they are, and brings the sums to them.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn take<const D: usize>(&mut self, most: [f32; 4]) {
        unroll!(4, line => {
            let most = most[line];
            let most = Float::maximum_number(most, warp::shuffle_xor(warp::FULL_MASK, most, 1));
            let most = Float::maximum_number(most, warp::shuffle_xor(warp::FULL_MASK, most, 2));
            let max = Float::maximum_number(self.max[line], most);
            // Scores whose exponents are beyond numbers have no weights: the fused product less ∞ would be −∞, a weight of 0.
            let max = if max == f32::INFINITY { f32::NAN } else { max };
            let factor = approximate::exp2(self.max[line] - base(max));
            self.max[line] = max;
            self.sum[line] *= factor;
            unroll!(16, column => {
                if column < D / 8 {
                    unroll!(2, i => {
                        self.values[line / 2][column][line % 2 * 2 + i] *= factor;
                    });
                }
            });
        });
    }
}

/// The two scores of a line's keys among 8.
#[inline(always)]
fn pair(scores: &Scores, line: usize, group: usize) -> [f32; 2] {
    let of_group = &scores[line / 2][group];
    [of_group[line % 2 * 2], of_group[line % 2 * 2 + 1]]
}

impl<T: Half, const D: usize> Block<T, D> {
    /// Divides the sums, and stores them, by way of the memory that the warp's queries were in, so that a line is stored by 16 bytes a lane.
    /// For whole warps.
    ///
    /// # Safety
    ///
    /// The kernel's contract.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) unsafe fn store(
        &self,
        rows: &Rows,
        shape: &AttentionShape,
        out: &SliceMut<'_, T>,
        log_sums: SliceMut<'_, f32>,
    ) {
        let lane = thread::thread_idx_x() % 32;
        let warp_row = Self::warp_row();
        let head = self.tile.batch * shape.heads + self.tile.head;
        let first = self.sequence.first_query as usize + head as usize * shape.queries as usize;
        let row_of_warp = self.tile.row + warp_row;
        // 0 of a query that sees no key.
        let mut factors = [0.0; 4];
        unroll!(4, line => {
            let sum = rows.sum[line];
            let sum = sum + warp::shuffle_xor(warp::FULL_MASK, sum, 1);
            let sum = sum + warp::shuffle_xor(warp::FULL_MASK, sum, 2);
            let row = row_of_warp + lane / 4 + 8 * line as u32;
            let at = first + row as usize;
            if row < self.sequence.queries && lane.is_multiple_of(4) && at < log_sums.len() {
                log_sums.set(at, (rows.max[line] + Float::log2(sum)) * core::f32::consts::LN_2);
            }
            factors[line] = if sum == 0.0 { 0.0 } else { 1.0 / sum };
        });
        let of = |line: usize, sum: f32| if factors[line] == 0.0 { 0.0 } else { sum * factors[line] };
        let own = warp_row * Self::LINE;
        let lines = (
            first + row_of_warp as usize,
            self.sequence.queries.saturating_sub(row_of_warp),
        );
        warp::sync_warp(warp::FULL_MASK);
        // SAFETY (of both): the warp's queries, which nobody reads any more; `out` has the sequence's lines, by the kernel's contract.
        unsafe { products::put::<T, D>(self.memory, MATRICES, own, &rows.values, of) };
        warp::sync_warp(warp::FULL_MASK);
        unsafe { products::store::<T, D>(self.memory, MATRICES, own, out, lines) };
    }
}
