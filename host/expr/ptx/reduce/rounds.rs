// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rows that a cluster's blocks would share, on GPUs that have none: a block is each of several in turn, with the same bits.

use super::rows::Place;
use super::{Folding, NUMBER, Numbers};
use crate::expr::program::GROUP;
use crate::expr::ptx::Malformed;
use crate::expr::ptx::steps::Values;
use crate::expr::ptx::writer::{Register, Writer};

impl Folding<'_> {
    /// A pass, of which the rounds that are in registers are done, with these chains. In each of the others a thread reads its elements
    /// in a loop, so many groups at a time. Behind the last one everybody has what is combined.
    pub(super) fn rounds(
        &self,
        place: &mut Place,
        groups: (usize, u8, u8, Option<Register>),
        (folds, chains, shared): (&[usize], Vec<[Numbers; GROUP]>, &mut usize),
        elements: &[usize],
        values: &mut Values,
        writer: &mut Writer,
    ) -> Result<(), Malformed> {
        let mut slots = self.slots(writer);
        let at = *shared;
        if place.first_round > 0 {
            let numbers = self.of_warp(folds, &chains, writer)?;
            self.leave(&numbers, &slots, at, writer);
        }
        // A register of its own, which changes from round to round.
        let of_round = self.warps() * NUMBER;
        slots.to = writer.new_word(
            "add.s32",
            format_args!("{}, {}", slots.to, place.first_round * of_round),
        );
        let name = format!("of_pass_{}", groups.2);
        let own = self.begin_rounds(place, &name, writer);
        let mut chains = self.identities(folds, writer);
        self.looped(place, groups, (folds, &mut chains), elements, values, writer)?;
        let mut numbers = self.of_warp(folds, &chains, writer)?;
        self.leave(&numbers, &slots, at, writer);
        writer.line(format_args!("add.s32 {0}, {0}, {of_round}", slots.to));
        self.end_round(place, own, &name, writer);
        if folds.is_empty() {
            return Ok(());
        }
        *shared += numbers.iter().flatten().count() * self.of_number();
        writer.line("bar.sync 0");
        self.gather(folds, &mut numbers, &slots, at, writer)?;
        self.tell(folds, &numbers, values, writer);
        Ok(())
    }

    /// Begins a loop through the rounds that are not in registers, in each of which the thread is another one of the row; gives the one
    /// that it was.
    pub(super) fn begin_rounds(&self, place: &mut Place, name: &str, writer: &mut Writer) -> Register {
        let first = place.first_round << self.reduce.threads_log2();
        let lane = writer.new_word("add.s32", format_args!("{}, {first}", place.lane));
        writer.mark(format_args!("$round_{name}:"));
        std::mem::replace(&mut place.lane, lane)
    }

    /// Ends it.
    pub(super) fn end_round(&self, place: &mut Place, own: Register, name: &str, writer: &mut Writer) {
        let (lane, threads) = (place.lane, 1usize << self.reduce.threads_log2());
        writer.line(format_args!("add.s32 {lane}, {lane}, {threads}"));
        let is_next = writer.new_predicate(
            "setp.lt.u32",
            format_args!("{lane}, {}", threads * self.reduce.rounds()),
        );
        writer.line(format_args!("@{is_next} bra $round_{name}"));
        place.lane = own;
    }
}
