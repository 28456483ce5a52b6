// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a thread has of a row in registers: read once, computed a few groups at a time.

use super::rows::Place;
use super::{Folding, Numbers};
use crate::expr::plan::{GROUPS, MOST_WITH_LATE};
use crate::expr::program::{GROUP, WARP_LOG2, Words};
use crate::expr::ptx::Malformed;
use crate::expr::ptx::steps::{Span, Values};
use crate::expr::ptx::writer::{Register, Writer};

/// Some of a thread's elements, where it has all of them at once.
pub(super) struct Part {
    spans: Vec<Span>,
    /// What has been computed of them, and of the row.
    values: Values,
    /// Where the thread's warp may have none of them, whether it has none.
    is_past: Option<Register>,
}

impl Part {
    /// Takes over what has been computed of the row.
    fn add(&mut self, of_row: &Values) {
        for (own, of_row) in self.values.iter_mut().zip(of_row) {
            if own.is_empty() {
                own.clone_from(of_row);
            }
        }
    }
}

impl Folding<'_> {
    /// The groups that a thread has in registers, which are all if there is none behind them.
    pub(super) fn parts(&self, place: &Place, groups: (usize, u8), are_all: bool, writer: &mut Writer) -> Vec<Part> {
        // Fewer groups would not be enough: none but the last goes beyond the row. The loads of those that may have to know, each
        // in its turn, where they are, and ptxas lets each wait for the one before when it has no registers for that.
        let ragged = groups.0 - usize::from(are_all && !self.reduce.is_whole);
        let spans = self.spans(place, place.begin, groups, ragged, writer);
        // What is only combined, and what later passes read, is in no register any more when the next groups have their turn.
        let Words { kept, late, late_bytes } = self.words(place);
        let room = MOST_WITH_LATE.saturating_sub(groups.0 * GROUP * kept);
        let most = match late >= MANY_LATE {
            true => (LATE_BYTES / (GROUP * late_bytes)).max(1),
            false => GROUPS,
        };
        let at_a_time = room
            .checked_div(GROUP * late)
            .map_or(GROUPS, |groups| groups.clamp(1, most));
        let of_part = spans.len() / groups.0 * at_a_time;
        let part = |spans: &[Span], is_past| Part {
            spans: spans.to_vec(),
            values: vec![Vec::new(); self.kernel.program.steps.len()],
            is_past,
        };
        let last = match self.reduce.skips_last {
            true => spans.len() / groups.0,
            false => 0,
        };
        let (first, last) = spans.split_at(spans.len() - last);
        let mut parts: Vec<_> = first.chunks(of_part).map(|spans| part(spans, None)).collect();
        if !last.is_empty() {
            parts.push(part(last, Some(self.is_past(place, groups, writer))));
        }
        parts
    }

    /// Whether no thread of the warp has elements in the last of so many groups. Whole warps go past them together: what they call
    /// wants all threads.
    fn is_past(&self, place: &Place, (groups, lanes_log2): (usize, u8), writer: &mut Writer) -> Register {
        let first = writer.new_word("and.b32", format_args!("{}, {}", place.lane, !0u32 << WARP_LOG2));
        let own = writer.new_word("mad.lo.s32", format_args!("{first}, {GROUP}, {}", place.begin));
        let offset = ((groups - 1) << lanes_log2) * GROUP;
        let column = writer.new_word("add.s32", format_args!("{own}, {offset}"));
        writer.new_predicate("setp.ge.u32", format_args!("{column}, {}", place.end))
    }

    fn words(&self, place: &Place) -> Words {
        let program = self.kernel.program;
        let stored: Vec<_> = self.outputs(false).map(|output| program.outputs[output]).collect();
        program.words(&self.kernel.elements_of(&place.row, &[]).varying(), &stored)
    }

    /// Combines the elements that are in registers all at once, `parts` of them computed one after another, with the folds'
    /// chains; stores the outputs that have one number for each element. What the first pass reads is in flight together, and
    /// stays; what later ones read, each part reads in its turn.
    pub(super) fn at_once(
        &self,
        place: &Place,
        (parts, pass): (&mut [Part], u8),
        (folds, chains): (&[usize], &mut [[Numbers; GROUP]]),
        elements: &[usize],
        values: &mut Values,
        writer: &mut Writer,
    ) -> Result<(), Malformed> {
        let of_row = self.kernel.elements_of(&place.row, &[]);
        let (own, uniform) = self.needed_of_elements(place, folds, elements);
        let inputs_of_row = of_row.load_wanted(&uniform, values, writer);
        let load = |part: &Part, writer: &mut Writer| {
            let elements = self.kernel.elements_of(&place.row, &part.spans);
            elements.load_wanted(&own, &part.values, writer)
        };
        // The first ones while the row's own numbers are computed.
        let ahead = if pass == 0 { parts.len() } else { 1 };
        let mut loaded: Vec<_> = parts[..ahead].iter().map(|part| load(part, writer)).collect();
        of_row.compute_loaded(&uniform, &inputs_of_row, values, writer)?;
        for (number, part) in parts.iter_mut().enumerate() {
            if number >= ahead {
                loaded.push(load(part, writer));
            }
            part.add(values);
            if let Some(is_past) = part.is_past {
                own_registers(chains, writer);
                writer.line(format_args!("@{is_past} bra $past_{pass}"));
            }
            let of_part = self.kernel.elements_of(&place.row, &part.spans);
            of_part.compute_loaded(&own, &loaded[number], &mut part.values, writer)?;
            let mut combined = chains.to_vec();
            self.accumulate(folds, &part.spans, &part.values, &mut combined, writer)?;
            self.store_elements((&place.row, place.exists), &part.spans, elements, &part.values, writer);
            if part.is_past.is_none() {
                chains.clone_from_slice(&combined);
                continue;
            }
            assign(chains, &combined, writer);
            writer.mark(format_args!("$past_{pass}:"));
        }
        Ok(())
    }
}

/// Gives chains registers of their own, which code that not every thread runs, or that runs several times, changes.
pub(super) fn own_registers(chains: &mut [[Numbers; GROUP]], writer: &mut Writer) {
    for number in chains.iter_mut().flatten().flatten() {
        *number = match number.bits() {
            64 => writer.new_double("mov.b64", *number),
            _ => writer.new_word("mov.b32", *number),
        };
    }
}

/// Sets the registers of chains to those of others.
pub(super) fn assign(chains: &[[Numbers; GROUP]], combined: &[[Numbers; GROUP]], writer: &mut Writer) {
    let both = chains.iter().zip(combined).flat_map(|(to, from)| to.iter().zip(from));
    for (to, from) in both.flat_map(|(to, from)| to.iter().zip(from)) {
        writer.line(format_args!("mov.b{} {to}, {from}", to.bits()));
    }
}

/// So many arrays that a later pass reads, as a norm's weights and biases, are in registers of a few groups at a time, with so many
/// bytes of them, at least of one group: a multiprocessor has room for more threads then, which have so much more of their rows on its
/// way. Layer norm on an H200, 2^26 `f32` in rows of 4096: 32 registers for 39, 125.9 µs for 133.5; of `bf16` in rows of 8192 40 for 46,
/// 72.3 for 87.8. Of one such array more groups wait together.
const MANY_LATE: usize = 2;
const LATE_BYTES: usize = 32;
