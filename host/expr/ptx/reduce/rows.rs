// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rows along the last axis: by a warp or a part of one, by a block, or by the blocks of a cluster.

use super::parts::{assign, own_registers};
use super::stash::Stash;
use super::{Folding, Numbers, SHARED, both};
use crate::expr::program::{GROUP, WARP_LOG2};
use crate::expr::ptx::arguments::rows_of_block;
use crate::expr::ptx::order::Axis;
use crate::expr::ptx::steps::{Elements, Row, Span, Values, element};
use crate::expr::ptx::writer::{Register, Writer};
use crate::expr::ptx::{Malformed, memory, vector_len};

/// What a thread knows of its row.
pub(super) struct Place {
    pub row: Row,
    /// The number of the row, and whether there is one; without a predicate there is.
    number: Register,
    pub exists: Option<Register>,
    /// Whether the thread stores the row's numbers.
    stores: Register,
    /// The thread among those of the row.
    pub lane: Register,
    /// Where its part begins and ends.
    pub begin: Register,
    pub end: Register,
    /// Where those begin that are not in registers, and where they are from pass to pass.
    pub behind: Register,
    /// The block among those that share the row.
    pub rank: Option<Register>,
    /// The rounds whose elements are in registers.
    pub first_round: usize,
    stash: Option<Stash>,
}

impl Folding<'_> {
    pub(super) fn rows(
        &self,
        lanes_log2: u8,
        (held, looped): (usize, usize),
        writer: &mut Writer,
    ) -> Result<(), Malformed> {
        let mut place = self.place(lanes_log2, writer);
        let mut values: Values = vec![Vec::new(); self.kernel.program.steps.len()];
        let has_rounds = self.reduce.rounds() > 1;
        if looped > 0 && !has_rounds {
            let of_registers = (held << lanes_log2) * GROUP;
            place.behind = writer.new_word("add.s32", format_args!("{}, {of_registers}", place.begin));
        }
        if looped > 0 {
            place.first_round = usize::from(has_rounds && held > 0);
            place.stash = self.stash(&mut place, lanes_log2, writer);
        }
        let mut is_there = false;
        let mut parts = match held {
            0 => Vec::new(),
            _ => self.parts(&place, (held, lanes_log2), looped == 0 || has_rounds, writer),
        };
        let mut shared = 0;
        for pass in 0..=self.last_pass() {
            let folds = self.folds(pass);
            let elements: Vec<usize> = match pass == self.last_pass() {
                true => self.outputs(false).collect(),
                false => Vec::new(),
            };
            if folds.is_empty() && elements.is_empty() {
                continue;
            }
            let mut chains = self.identities(&folds, writer);
            if held > 0 {
                let parts = (&mut parts[..], pass);
                self.at_once(&place, parts, (&folds, &mut chains), &elements, &mut values, writer)?;
            }
            if looped > 0 {
                if place.stash.is_some() && !is_there {
                    Stash::wait(writer);
                    is_there = true;
                }
                // Where nothing is in registers any more, several groups wait together for what they read then.
                let looped = match &place.stash {
                    Some(stash) if !elements.is_empty() => stash.groups,
                    _ => looped,
                };
                let at = place.stash.as_ref().map(|stash| stash.begin(writer));
                let groups = (looped, lanes_log2, pass, at);
                if has_rounds {
                    let folds = (&folds[..], chains, &mut shared);
                    self.rounds(&mut place, groups, folds, &elements, &mut values, writer)?;
                    continue;
                }
                let folds = (&folds[..], &mut chains);
                self.looped(&place, groups, folds, &elements, &mut values, writer)?;
            }
            let mut numbers = self.of_warp(&folds, &chains, writer)?;
            if lanes_log2 > WARP_LOG2 && !folds.is_empty() {
                self.block(&folds, &mut numbers, &place, &mut shared, writer)?;
            }
            self.tell(&folds, &numbers, &mut values, writer);
        }
        if shared > 0 {
            writer.local(format!(".shared .align 8 .b8 {SHARED}[{shared}]"));
        }
        self.store_rows(&place, &mut values, writer)?;
        writer.line("ret");
        Ok(())
    }

    /// Which row a thread has.
    fn place(&self, lanes_log2: u8, writer: &mut Writer) -> Place {
        let block = self.kernel.block_number(Axis::X, writer);
        let thread = writer.new_word("mov.u32", "%tid.x");
        let (mut number, mut lane, mut exists) = (block, thread, None);
        let of_block = rows_of_block(self.reduce);
        let rank = (self.reduce.blocks_log2 > 0).then(|| self.rank(block, writer));
        if let Some(rank) = rank {
            number = writer.new_word("shr.u32", format_args!("{block}, {}", self.reduce.blocks_log2));
            let threads = 1 << self.reduce.threads_log2();
            lane = writer.new_word("mad.lo.s32", format_args!("{rank}, {threads}, {thread}"));
        }
        if of_block > 1 {
            let within = writer.new_word("shr.u32", format_args!("{thread}, {lanes_log2}"));
            let any = writer.new_word("mad.lo.s32", format_args!("{block}, {of_block}, {within}"));
            lane = writer.new_word("and.b32", format_args!("{thread}, {}", (1 << lanes_log2) - 1));
            // Whose row does not exist goes along with the last one, and stores nothing.
            let rows = self.kernel.word(self.kernel.block.rows, writer);
            exists = Some(writer.new_predicate("setp.lt.u32", format_args!("{any}, {rows}")));
            let last = writer.new_word("sub.s32", format_args!("{rows}, 1"));
            number = writer.new_word("min.u32", format_args!("{any}, {last}"));
        }
        let is_first = writer.new_predicate("setp.eq.u32", format_args!("{lane}, 0"));
        let stores = match exists {
            Some(exists) => writer.new_predicate("and.pred", format_args!("{is_first}, {exists}")),
            None => is_first,
        };
        let (begin, end) = self.part(writer);
        Place {
            row: self.kernel.row_along(number, 0, writer),
            number,
            exists,
            stores,
            lane,
            begin,
            end,
            behind: begin,
            rank,
            first_round: 0,
            stash: None,
        }
    }

    /// Whether all threads have elements of so many groups, again and again.
    pub(super) fn is_whole(&self, groups: usize) -> bool {
        let step = self.reduce.form.lanes() * groups;
        self.reduce.is_whole && self.reduce.form.step().is_multiple_of(step)
    }

    /// The groups of a thread from `start` on, those beyond the row as the part's first elements: of those from `ragged` on some
    /// threads may have such.
    pub(super) fn spans(
        &self,
        place: &Place,
        start: Register,
        (groups, lanes_log2): (usize, u8),
        ragged: usize,
        writer: &mut Writer,
    ) -> Vec<Span> {
        let program = self.kernel.program;
        let len = if program.aligned { vector_len(program) } else { 1 };
        let own = writer.new_word("mad.lo.s32", format_args!("{}, {GROUP}, {start}", place.lane));
        let mut spans = Vec::with_capacity(groups * GROUP / len);
        for group in 0..groups {
            for k in (0..GROUP).step_by(len) {
                let offset = (group << lanes_log2) * GROUP + k;
                let column = writer.new_word("add.s32", format_args!("{own}, {offset}"));
                if group < ragged {
                    let exists = None;
                    spans.push(Span { column, len, exists });
                    continue;
                }
                let exists = writer.new_predicate("setp.lt.u32", format_args!("{column}, {}", place.end));
                // The part's first group, so that its vectors are aligned.
                let first = writer.new_word(
                    "add.s32",
                    format_args!("{}, {}", place.begin, if len > 1 { k } else { 0 }),
                );
                let column = writer.new_word("selp.b32", format_args!("{column}, {first}, {exists}"));
                spans.push(Span {
                    column,
                    len,
                    exists: Some(exists),
                });
            }
        }
        spans
    }

    /// Which steps a pass needs for each element, and which for the row.
    pub(super) fn needed_of_elements(
        &self,
        place: &Place,
        folds: &[usize],
        elements: &[usize],
    ) -> (Vec<bool>, Vec<bool>) {
        let needed = self.needed_in_pass(folds, elements);
        let varies = self.kernel.elements_of(&place.row, &[]).varying();
        let those = |is_varying: bool| {
            let both = needed.iter().zip(&varies);
            both.map(|(needed, varies)| *needed && *varies == is_varying).collect()
        };
        (those(true), those(false))
    }

    /// As [`at_once`](Self::at_once), of the elements behind those, in a loop; what is computed of them is gone behind it. Where they are
    /// stashed, from the address `at` on, which is then behind them.
    pub(super) fn looped(
        &self,
        place: &Place,
        (groups, lanes_log2, pass, at): (usize, u8, u8, Option<Register>),
        (folds, chains): (&[usize], &mut Vec<[Numbers; GROUP]>),
        elements: &[usize],
        values: &mut Values,
        writer: &mut Writer,
    ) -> Result<(), Malformed> {
        let (own, uniform) = self.needed_of_elements(place, folds, elements);
        // What is the same for all elements, ahead of the loop.
        self.kernel
            .elements_of(&place.row, &[])
            .compute(&uniform, values, writer)?;
        own_registers(chains, writer);
        let start = writer.new_word("mov.b32", place.behind);
        let stash = place.stash.as_ref();
        writer.mark(format_args!("$pass_{pass}:"));
        let is_over = writer.new_predicate("setp.ge.u32", format_args!("{start}, {}", place.end));
        writer.line(format_args!("@{is_over} bra $passed_{pass}"));
        let ragged = if self.is_whole(groups) { groups } else { 0 };
        let spans = self.spans(place, start, (groups, lanes_log2), ragged, writer);
        let mut of_elements = values.clone();
        let stashed = stash.zip(at).map(|(stash, at)| stash.at(at, &spans, writer));
        let of_spans = Elements {
            stashed: stashed.as_ref(),
            ..self.kernel.elements_of(&place.row, &spans)
        };
        of_spans.compute(&own, &mut of_elements, writer)?;
        let mut combined = chains.clone();
        self.accumulate(folds, &spans, &of_elements, &mut combined, writer)?;
        self.store_elements((&place.row, place.exists), &spans, elements, &of_elements, writer);
        assign(chains, &combined, writer);
        match stash.zip(at) {
            Some((stash, at)) => stash.step(start, at, (groups, lanes_log2), writer),
            None => {
                let step = (groups << lanes_log2) * GROUP;
                writer.line(format_args!("add.s32 {start}, {start}, {step}"));
            }
        }
        writer.line(format_args!("bra.uni $pass_{pass}"));
        writer.mark(format_args!("$passed_{pass}:"));
        Ok(())
    }

    /// Combines the elements of the spans with the chains, each with that of its place in the group.
    pub(super) fn accumulate(
        &self,
        folds: &[usize],
        spans: &[Span],
        values: &Values,
        chains: &mut [[Numbers; GROUP]],
        writer: &mut Writer,
    ) -> Result<(), Malformed> {
        let mut at = 0;
        for span in spans {
            for _ in 0..span.len {
                for (&fold, chains) in folds.iter().zip(&mut *chains) {
                    let fold = &self.kernel.program.folds[fold];
                    let numbers = self.numbers(fold, values, at, span.exists, writer);
                    chains[at % GROUP] = self.combine(fold, &chains[at % GROUP], &numbers, writer)?;
                }
                at += 1;
            }
        }
        Ok(())
    }

    /// Stores what outputs have of the spans of a row, where both exist; without a predicate a row does.
    pub(super) fn store_elements(
        &self,
        (row, exists): (&Row, Option<Register>),
        spans: &[Span],
        outputs: &[usize],
        values: &Values,
        writer: &mut Writer,
    ) {
        if outputs.is_empty() {
            return;
        }
        let there = |span: &Span| Span {
            exists: both(span.exists, exists, writer),
            ..*span
        };
        let spans: Vec<Span> = spans.iter().map(there).collect();
        for &output in outputs {
            self.kernel.elements_of(row, &spans).store(output, values, writer);
        }
    }

    /// Stores the outputs that have one number for each row, or part of one.
    fn store_rows(&self, place: &Place, values: &mut Values, writer: &mut Writer) -> Result<(), Malformed> {
        let outputs: Vec<usize> = self.outputs(true).collect();
        let steps = outputs.iter().map(|&output| self.kernel.program.outputs[output]);
        let needed = self.kernel.needed(steps);
        self.kernel
            .elements_of(&place.row, &[])
            .compute(&needed, values, writer)?;
        if outputs.is_empty() {
            return Ok(());
        }
        let number = match self.number_of_part(writer) {
            Some((parts, part)) => writer.new_word("mad.lo.s32", format_args!("{}, {parts}, {part}", place.number)),
            None => place.number,
        };
        for output in outputs {
            let step = usize::from(self.kernel.program.outputs[output]);
            let ty = self.kernel.program.types[step];
            let address = element(place.row.outputs[output], number, ty, writer);
            memory::store(ty, &values[step][..1], address, Some(place.stores), writer);
        }
        Ok(())
    }
}
