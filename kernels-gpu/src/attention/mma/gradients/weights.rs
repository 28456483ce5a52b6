// SPDX-License-Identifier: MIT OR Apache-2.0
//! What becomes of the products of a warp's lines and others: weights and gradients of scores.

use cuda_std::float::approximate;
use cuda_std::prelude::*;

use super::{Block, GROUPS, OTHERS};
use crate::attention::decode::tensor::Half;
use crate::attention::mma::products::Products;
use crate::matmul::unroll;

impl<T: Half, const D: usize> Block<'_, T, D> {
    /// Makes weights of scores, and of the products of incoming gradients and values the gradients of the scores. What is known of queries is of the
    /// lane's lines, or of its two columns of each group, where the warp has keys.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) fn weigh<const OF_KEYS: bool>(
        &self,
        [scores, products]: [&mut Products<GROUPS>; 2],
        of_rows: &[[f32; 2]; 4],
        of_columns: impl Fn(usize) -> [[f32; 2]; 2],
    ) {
        unroll!(4, group => {
            let mut columns = [[0.0; 2]; 2];
            if OF_KEYS {
                columns = of_columns(group);
            }
            unroll!(4, line => {
                if line < 2 * Self::MATRICES {
                    unroll!(2, i => {
                        let [log_sum, delta] = if OF_KEYS { columns[i] } else { of_rows[line] };
                        let at = line % 2 * 2 + i;
                        let score = &mut scores[line / 2][group][at];
                        let product = &mut products[line / 2][group][at];
                        let weight = approximate::exp2(Float::mul_add(*score, self.factor, -log_sum));
                        *product = weight * (*product - delta);
                        *score = weight;
                    });
                }
            });
        });
    }

    /// The first query and the first key of the warp's lines and the others from `at` on, and how many there are of each.
    #[inline(always)]
    fn pairs<const OF_KEYS: bool>(&self, at: u32) -> [(u32, u32); 2] {
        let own = (self.row + Self::warp_row(), 16 * Self::MATRICES as u32);
        let others = (at, OTHERS);
        if OF_KEYS { [others, own] } else { [own, others] }
    }

    /// Whether one of the warp's lines and one of the others from `at` on have to do with each other.
    #[inline(always)]
    pub(super) fn is_seen<const OF_KEYS: bool>(&self, at: u32) -> bool {
        let [(query, queries), (key, keys)] = self.pairs::<OF_KEYS>(at);
        key < self.sequence.end(query + queries - 1) && key + keys > self.sequence.begin(query)
    }

    /// Takes what is of keys that a query does not see, or of a query behind the last, for 0: of the warp's lines and the others from `at` on.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) fn hide<const OF_KEYS: bool>(&self, [weights, gradients]: [&mut Products<GROUPS>; 2], at: u32) {
        let sequence = &self.sequence;
        let [(query, queries), (key, keys)] = self.pairs::<OF_KEYS>(at);
        let sees_all = key + keys <= sequence.end(query)
            && key >= sequence.begin(query + queries - 1)
            && query + queries <= sequence.queries;
        if sees_all {
            return;
        }
        let lane = thread::thread_idx_x() % 32;
        let (own, other) = if OF_KEYS { (key, query) } else { (query, key) };
        unroll!(4, line => {
            if line < 2 * Self::MATRICES {
                let own = own + lane / 4 + 8 * line as u32;
                unroll!(4, group => {
                    unroll!(2, i => {
                        let other = other + 8 * group as u32 + lane % 4 * 2 + i as u32;
                        let (query, key) = if OF_KEYS { (other, own) } else { (own, other) };
                        let is_seen =
                            query < sequence.queries && key < sequence.end(query) && key >= sequence.begin(query);
                        if !is_seen {
                            weights[line / 2][group][line % 2 * 2 + i] = 0.0;
                            gradients[line / 2][group][line % 2 * 2 + i] = 0.0;
                        }
                    });
                });
            }
        });
    }
}
