// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rows that the blocks of a cluster share: each warp tells its numbers to all of them, through their shared memory.

use super::warps::{Slots, is_symmetric};
use super::{Folding, NUMBER, Numbers, shuffle};
use crate::expr::ptx::link::Least;
use crate::expr::ptx::writer::{Register, Writer};

/// The compute capability from which on GPUs have clusters, and the version of PTX that has them, and a barrier that orders nothing.
pub(in crate::expr) const CLUSTERS: Least = ((9, 0), (8, 0));

impl Folding<'_> {
    /// The block among those that share its row, which it tells that it has begun: what others tell it they may store from then on.
    pub(super) fn rank(&self, block: Register, writer: &mut Writer) -> Register {
        writer.line("barrier.cluster.arrive.relaxed.aligned");
        // In the order of rows, which may be the reverse of the grid's. Clusters are whole either way.
        let last = (1 << self.reduce.blocks_log2) - 1;
        writer.new_word("and.b32", format_args!("{block}, {last}"))
    }

    /// Stores a warp's numbers from byte `at` on of what each block shares with the cluster, and waits until all have.
    ///
    /// Each pass has bytes of its own, so that nobody waits again before the next one. Behind the last one a block may end: what
    /// others have stored to it was there before.
    pub(super) fn tell_cluster(
        &self,
        folds: &[usize],
        numbers: &[Numbers],
        (slots, rank): (&Slots, Register),
        mut at: usize,
        writer: &mut Writer,
    ) {
        let (to, lane, blocks) = (slots.to, slots.lane, 1u32 << self.reduce.blocks_log2);
        let own = writer.new_word("mad.lo.s32", format_args!("{rank}, {}, {to}", self.warps() * NUMBER));
        let block = writer.new_word("and.b32", format_args!("{lane}, {}", blocks - 1));
        let other = writer.new_word("mapa.shared::cluster.u32", format_args!("{own}, {block}"));
        let tells = writer.new_predicate("setp.lt.u32", format_args!("{lane}, {blocks}"));
        if at == 0 {
            // All have begun.
            writer.line("barrier.cluster.wait.aligned");
        }
        for (&fold, numbers) in folds.iter().zip(numbers) {
            let is_everywhere = is_symmetric(&self.kernel.program.folds[fold]);
            for &number in numbers {
                let number = match is_everywhere {
                    true => number,
                    false => shuffle("idx", number, 0, 32, writer),
                };
                let bits = number.bits();
                writer.line(format_args!(
                    "@{tells} st.shared::cluster.b{bits} [{other}+{at}], {number}"
                ));
                at += self.of_number();
            }
        }
        writer.line("barrier.cluster.arrive.aligned");
        writer.line("barrier.cluster.wait.aligned");
    }
}
