// SPDX-License-Identifier: MIT OR Apache-2.0
//! From what a thread has combined of a row to what all of its threads have: by shuffles in a warp, and between warps by way of
//! shared memory.

use super::rows::Place;
use super::{Folding, NUMBER, Numbers, SHARED, load_shared, shuffle};
use crate::expr::program::{Fold, GROUP, WARP_LOG2};
use crate::expr::ptx::Malformed;
use crate::expr::ptx::steps::Values;
use crate::expr::ptx::writer::{Register, Writer};

/// Where the warps of a row leave their numbers for each other: those of a number side by side, [`NUMBER`] bytes each.
pub(super) struct Slots {
    /// The thread in its warp, and whether it is the first.
    pub lane: Register,
    pub is_first: Register,
    /// Where the memory begins, where the warp stores, and from where on the lane reads.
    base: Register,
    pub to: Register,
    from: Register,
}

impl Folding<'_> {
    /// From the chains of each thread to the numbers of its warp, or of its row if that has a part of a warp: the first thread has
    /// them then, or [each](is_symmetric).
    pub(super) fn of_warp(
        &self,
        folds: &[usize],
        chains: &[[Numbers; GROUP]],
        writer: &mut Writer,
    ) -> Result<Vec<Numbers>, Malformed> {
        let mut numbers = Vec::with_capacity(folds.len());
        for (&fold, chains) in folds.iter().zip(chains) {
            let fold = &self.kernel.program.folds[fold];
            let first = self.combine(fold, &chains[0], &chains[2], writer)?;
            let second = self.combine(fold, &chains[1], &chains[3], writer)?;
            let thread = self.combine(fold, &first, &second, writer)?;
            numbers.push(self.warp(fold, thread, self.width(), writer)?);
        }
        Ok(numbers)
    }

    /// The threads side by side that have a row, or a warp's part of one.
    fn width(&self) -> u32 {
        1 << self.reduce.threads_log2().min(WARP_LOG2)
    }

    /// The warps of a block that have a row.
    pub(super) fn warps(&self) -> usize {
        1 << (self.reduce.threads_log2() - WARP_LOG2)
    }

    /// How many blocks, or rounds of one, have a row.
    fn blocks(&self) -> usize {
        self.reduce.rounds() << self.reduce.blocks_log2
    }

    /// The bytes between what warps have of one number and what they have of the next.
    pub(super) fn of_number(&self) -> usize {
        self.blocks() * self.warps() * NUMBER
    }

    /// Has everybody have what the first thread of each warp, or each, has of the row.
    pub(super) fn tell(&self, folds: &[usize], numbers: &[Numbers], values: &mut Values, writer: &mut Writer) {
        for (&fold, numbers) in folds.iter().zip(numbers) {
            let is_everywhere = is_symmetric(&self.kernel.program.folds[fold]);
            let all = numbers.iter().map(|&number| {
                let number = match is_everywhere {
                    true => number,
                    false => shuffle("idx", number, 0, self.width(), writer),
                };
                self.finish(fold, number, writer)
            });
            let all: Vec<_> = all.map(|number| vec![number]).collect();
            self.set(fold, &all, values);
        }
    }

    /// The numbers of `width` threads side by side, which the first of them has then, or [each](is_symmetric).
    fn warp(&self, fold: &Fold, mut own: Numbers, width: u32, writer: &mut Writer) -> Result<Numbers, Malformed> {
        let mut offset = width / 2;
        while offset > 0 {
            own = self.with_others(fold, &own, (way(fold), offset, width), writer)?;
            offset /= 2;
        }
        Ok(own)
    }

    /// From the numbers of each warp to those of the row, which the first thread of each warp has then, or [each](is_symmetric).
    pub(super) fn block(
        &self,
        folds: &[usize],
        numbers: &mut [Numbers],
        place: &Place,
        shared: &mut usize,
        writer: &mut Writer,
    ) -> Result<(), Malformed> {
        let slots = self.slots(writer);
        let first = *shared;
        match place.rank {
            Some(rank) => self.tell_cluster(folds, numbers, (&slots, rank), first, writer),
            None => {
                self.leave(numbers, &slots, first, writer);
                writer.line("bar.sync 0");
            }
        }
        *shared += numbers.iter().flatten().count() * self.of_number();
        self.gather(folds, numbers, &slots, first, writer)
    }

    pub(super) fn slots(&self, writer: &mut Writer) -> Slots {
        let thread = writer.new_word("mov.u32", "%tid.x");
        let warp = writer.new_word("shr.u32", format_args!("{thread}, {WARP_LOG2}"));
        let lane = writer.new_word("and.b32", format_args!("{thread}, {}", (1 << WARP_LOG2) - 1));
        let is_first = writer.new_predicate("setp.eq.u32", format_args!("{lane}, 0"));
        let base = writer.new_word("mov.u32", SHARED);
        let to = writer.new_word("mad.lo.s32", format_args!("{warp}, {NUMBER}, {base}"));
        let other = writer.new_word("and.b32", format_args!("{lane}, {}", self.warps() - 1));
        let from = writer.new_word("mad.lo.s32", format_args!("{other}, {NUMBER}, {base}"));
        Slots {
            lane,
            is_first,
            base,
            to,
            from,
        }
    }

    /// Stores a warp's numbers, from that byte on.
    pub(super) fn leave(&self, numbers: &[Numbers], slots: &Slots, mut at: usize, writer: &mut Writer) {
        for number in numbers.iter().flatten() {
            let (bits, to, is_first) = (number.bits(), slots.to, slots.is_first);
            writer.line(format_args!("@{is_first} st.shared.b{bits} [{to}+{at}], {number}"));
            at += self.of_number();
        }
    }

    /// What all warps have left from that byte on, combined: first those of the same number in several blocks, then those of a block.
    pub(super) fn gather(
        &self,
        folds: &[usize],
        numbers: &mut [Numbers],
        slots: &Slots,
        mut at: usize,
        writer: &mut Writer,
    ) -> Result<(), Malformed> {
        let (warps, blocks) = (self.warps(), self.blocks());
        for (&fold, numbers) in folds.iter().zip(numbers) {
            let fold = &self.kernel.program.folds[fold];
            if is_symmetric(fold) && blocks == 1 && warps <= FEW_WARPS {
                let load = |warp: usize| load_shared(numbers[0].bits(), slots.base, at + warp * NUMBER, writer);
                let all = (0..warps).map(load).map(|number| vec![number]).collect();
                *numbers = self.combine_all(fold, all, writer)?;
                at += self.of_number();
                continue;
            }
            let mut of_blocks = vec![Numbers::new(); blocks];
            for number in &*numbers {
                for (block, of_block) in of_blocks.iter_mut().enumerate() {
                    let place = at + block * warps * NUMBER;
                    of_block.push(load_shared(number.bits(), slots.from, place, writer));
                }
                at += self.of_number();
            }
            let mut of_warps = self.combine_all(fold, of_blocks, writer)?;
            // Beyond the warps that there are, lanes have others' numbers, which do not reach the first.
            let mut offset = warps as u32 / 2;
            while offset > 0 {
                of_warps = self.with_others(fold, &of_warps, (way(fold), offset, 1 << WARP_LOG2), writer)?;
                offset /= 2;
            }
            *numbers = of_warps;
        }
        Ok(())
    }
}

/// The warps of a block of which each thread reads all numbers: that takes less time than shuffles, one after another.
const FEW_WARPS: usize = 8;

/// Whether threads may exchange numbers, so that each has those of all: those of two sets are the same, bit by bit, in either
/// order. Those of one number are; of several a zero may have either sign.
pub(super) fn is_symmetric(fold: &Fold) -> bool {
    fold.combine.types.len() == 1
}

/// How a thread finds another one's numbers.
pub(super) fn way(fold: &Fold) -> &'static str {
    if is_symmetric(fold) { "bfly" } else { "down" }
}
