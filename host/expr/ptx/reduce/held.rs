// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rows side by side that the threads of a block have in registers: each element is read once, however many reductions there are.

use super::columns::{Across, store_of_warps};
use super::warps::{is_symmetric, way};
use super::{Folding, NUMBER, Numbers, SHARED, both, identity, shuffle};
use crate::expr::program::{Fold, GROUP, Layout, Step, WARP_LOG2};
use crate::expr::ptx::Malformed;
use crate::expr::ptx::arguments::columns_of_block;
use crate::expr::ptx::steps::{Inputs, Row, Span, Values};
use crate::expr::ptx::writer::{Register, Writer};

/// Elements that a thread has at one place of its columns.
struct Part {
    row: Row,
    /// Whether the place exists; without a predicate it does.
    exists: Option<Register>,
    values: Values,
}

/// So many groups at a time read what only later passes take.
const LATE_GROUPS: usize = 2;

/// So many warps, whose numbers each thread reads by itself: of each of its columns, so fewer than of one row.
const FEW_WARPS_ACROSS: usize = 4;

impl Folding<'_> {
    /// Rows side by side, all of whose elements the threads of a block have in registers, through all passes.
    pub(super) fn held_columns(&self, held: usize, across_log2: u8, writer: &mut Writer) -> Result<(), Malformed> {
        let program = self.kernel.program;
        let across = self.across(across_log2, writer);
        let mut parts = self.parts_across(&across, held, writer);
        let mut of_columns: Values = vec![Vec::new(); program.steps.len()];
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
            let mut chains: Vec<Vec<Numbers>> = Vec::with_capacity(folds.len());
            for &fold in &folds {
                let combine = &program.folds[fold].combine;
                chains.push((0..across.span.len).map(|_| identity(combine, writer)).collect());
            }
            self.pass_across(
                &across,
                (&mut parts, pass),
                &mut of_columns,
                (&folds, &mut chains),
                &elements,
                writer,
            )?;
            for (&fold, columns) in folds.iter().zip(&mut chains) {
                for numbers in columns {
                    *numbers = self.warp_across(&program.folds[fold], numbers.clone(), &across, across_log2, writer)?;
                }
            }
            if !folds.is_empty() {
                self.block_across(&folds, &mut chains, &across, across_log2, &mut shared, writer)?;
            }
            for (&fold, columns) in folds.iter().zip(&chains) {
                let finished = |number: usize, writer: &mut Writer| -> Numbers {
                    let of_columns = columns.iter().map(|column| self.finish(fold, column[number], writer));
                    of_columns.collect()
                };
                let numbers = 0..program.folds[fold].elements.len();
                let numbers: Vec<Numbers> = numbers.map(|number| finished(number, writer)).collect();
                self.set(fold, &numbers, &mut of_columns);
            }
        }
        if shared > 0 {
            writer.local(format!(".shared .align 8 .b8 {SHARED}[{shared}]"));
        }
        if self.outputs(true).next().is_some() {
            let is_first = writer.new_predicate("setp.eq.u32", format_args!("{}, 0", across.share));
            let span = Span {
                exists: both(across.span.exists, Some(is_first), writer),
                ..across.span
            };
            self.store_columns(across.row, across.number, span, &mut of_columns, writer)?;
        }
        writer.line("ret");
        Ok(())
    }

    /// A thread's elements, of which nothing is known yet.
    fn parts_across(&self, across: &Across, held: usize, writer: &mut Writer) -> Vec<Part> {
        let part = |k: usize| {
            let (row, exists) = self.place_across(across, (k, held), writer);
            let values = vec![Vec::new(); self.kernel.program.steps.len()];
            Part { row, exists, values }
        };
        (0..held).map(part).collect()
    }

    /// A place of a thread, and whether it exists. None but the last may lie beyond the row.
    fn place_across(&self, across: &Across, (k, held): (usize, usize), writer: &mut Writer) -> (Row, Option<Register>) {
        let (begin, end) = self.part(writer);
        let first = writer.new_word("add.s32", format_args!("{begin}, {}", across.share));
        let at = writer.new_word("add.s32", format_args!("{first}, {}", k * self.reduce.form.lanes()));
        if k + 1 < held || self.reduce.is_whole {
            return (self.at(&across.row, at, writer), None);
        }
        let exists = writer.new_predicate("setp.lt.u32", format_args!("{at}, {end}"));
        let at = writer.new_word("selp.b32", format_args!("{at}, {begin}, {exists}"));
        (self.at(&across.row, at, writer), Some(exists))
    }

    /// The number of the first element of the first place of a thread in C order, and by how much more that of each next one is.
    fn numbers_across(&self, across: &Across, writer: &mut Writer) -> (Register, Register) {
        let columns = self.kernel.word(self.kernel.block.columns, writer);
        let (_, end) = self.part(writer);
        let first = writer.new_word("mad.lo.s32", format_args!("{}, {end}, {}", across.number, across.share));
        let number = writer.new_word("mul.lo.s32", format_args!("{first}, {columns}"));
        let lanes = self.reduce.form.lanes();
        (
            number,
            writer.new_word("mul.lo.s32", format_args!("{columns}, {lanes}")),
        )
    }

    /// Whether steps differ along the columns, for all that a program knows.
    fn varying_along(&self) -> Vec<bool> {
        let program = self.kernel.program;
        program.varying(|step| match *step {
            Step::Input(input) => program.inputs[usize::from(input)].layout != Layout::Single,
            Step::Index(axis) => axis == 0,
            Step::Scalar(_) | Step::Folded(..) | Step::Call(..) => false,
        })
    }

    /// Combines a thread's elements with the folds' chains, and stores the outputs that have a number for each. What the first pass
    /// reads is in flight together, and stays.
    fn pass_across(
        &self,
        across: &Across,
        (parts, pass): (&mut [Part], u8),
        of_columns: &mut Values,
        (folds, chains): (&[usize], &mut [Vec<Numbers>]),
        elements: &[usize],
        writer: &mut Writer,
    ) -> Result<(), Malformed> {
        let (needed, varies) = (self.needed_in_pass(folds, elements), self.varying_along());
        let those = |is_varying: bool| -> Vec<bool> {
            let both = needed.iter().zip(&varies);
            both.map(|(needed, varies)| *needed && *varies == is_varying).collect()
        };
        let (own, uniform) = (those(true), those(false));
        let spans = [across.span];
        let mut numbers = match elements {
            [] => None,
            _ => Some(self.numbers_across(across, writer)),
        };
        let at_once = match pass {
            0 => parts.len(),
            _ => (LATE_GROUPS * GROUP / across.span.len).max(1),
        };
        let held = parts.len();
        for (chunk, parts) in parts.chunks_mut(at_once).enumerate() {
            // Addresses of what is read late are in no register before.
            for (k, part) in parts.iter_mut().enumerate().filter(|_| pass > 0) {
                part.row = self.place_across(across, (chunk * at_once + k, held), writer).0;
            }
            let load = |part: &Part, writer: &mut Writer| {
                self.kernel
                    .elements_of(&part.row, &spans)
                    .load_wanted(&own, &part.values, writer)
            };
            let loaded: Vec<Inputs> = parts.iter().map(|part| load(part, writer)).collect();
            self.kernel
                .elements_of(&parts[0].row, &spans)
                .compute(&uniform, of_columns, writer)?;
            for (part, loaded) in parts.iter_mut().zip(&loaded) {
                for (own, of_columns) in part.values.iter_mut().zip(&*of_columns) {
                    if own.is_empty() {
                        own.clone_from(of_columns);
                    }
                }
                let of_part = self.kernel.elements_of(&part.row, &spans);
                of_part.compute_loaded(&own, loaded, &mut part.values, writer)?;
                for (&fold, columns) in folds.iter().zip(&mut *chains) {
                    let fold = &self.kernel.program.folds[fold];
                    for (k, chain) in columns.iter_mut().enumerate() {
                        let numbers = self.numbers(fold, &part.values, k, part.exists, writer);
                        *chain = self.combine(fold, chain, &numbers, writer)?;
                    }
                }
                let Some((number, step)) = numbers else { continue };
                part.row.first = Some(number);
                numbers = Some((writer.new_word("add.s32", format_args!("{number}, {step}")), step));
                self.store_elements((&part.row, part.exists), &spans, elements, &part.values, writer);
            }
        }
        Ok(())
    }

    /// The numbers of the threads of a warp that have the same columns, in each of them.
    fn warp_across(
        &self,
        fold: &Fold,
        mut own: Numbers,
        across: &Across,
        across_log2: u8,
        writer: &mut Writer,
    ) -> Result<Numbers, Malformed> {
        if across_log2 >= WARP_LOG2 {
            return Ok(own);
        }
        for log2 in (across_log2..WARP_LOG2).rev() {
            own = self.with_others(fold, &own, (way(fold), 1 << log2, 1 << WARP_LOG2), writer)?;
        }
        if !is_symmetric(fold) {
            let first = writer.new_word("and.b32", format_args!("{}, {}", across.thread, (1 << across_log2) - 1));
            own = own
                .iter()
                .map(|&number| shuffle("idx", number, first, 1 << WARP_LOG2, writer))
                .collect();
        }
        Ok(own)
    }

    /// From the numbers of each warp to those of the block, which all threads have then.
    fn block_across(
        &self,
        folds: &[usize],
        chains: &mut [Vec<Numbers>],
        across: &Across,
        across_log2: u8,
        shared: &mut usize,
        writer: &mut Writer,
    ) -> Result<(), Malformed> {
        let of_warp = across_log2.max(WARP_LOG2);
        let warps = (self.reduce.form.lanes() << across_log2) >> of_warp;
        if warps == 1 {
            return Ok(());
        }
        let width = columns_of_block(self.kernel.program, across_log2);
        let of_number = warps * width * NUMBER;
        let base = writer.new_word("mov.u32", SHARED);
        let column = writer.new_word("mad.lo.s32", format_args!("{}, {NUMBER}, {base}", across.within));
        let warp = writer.new_word("shr.u32", format_args!("{}, {of_warp}", across.thread));
        let to = writer.new_word("mad.lo.s32", format_args!("{warp}, {}, {column}", width * NUMBER));
        let lane = writer.new_word("and.b32", format_args!("{}, {}", across.thread, (1 << of_warp) - 1));
        let is_first = writer.new_predicate("setp.lt.u32", format_args!("{lane}, {}", 1 << across_log2));
        let begin = *shared;
        *shared = store_of_warps(chains, (to, is_first), (begin, of_number), writer);
        writer.line("bar.sync 0");
        let mut counted = warps;
        if warps > FEW_WARPS_ACROSS {
            // A thread for each column; the others wait.
            let copy = writer.copy();
            let is_other = writer.new_predicate("setp.ge.u32", format_args!("{}, {width}", across.thread));
            writer.line(format_args!("@{is_other} bra $columns_{copy}"));
            let own = writer.new_word("mad.lo.s32", format_args!("{}, {NUMBER}, {base}", across.thread));
            let mut at = begin;
            for (&fold, columns) in folds.iter().zip(&*chains) {
                let numbers = self.of_warps(fold, &columns[0], own, (at, of_number, width), warps, writer)?;
                for (number, register) in numbers.iter().enumerate() {
                    let offset = at + number * of_number;
                    writer.line(format_args!(
                        "st.shared.b{} [{own}+{offset}], {register}",
                        register.bits()
                    ));
                }
                at += numbers.len() * of_number;
            }
            writer.mark(format_args!("$columns_{copy}:"));
            writer.line("bar.sync 0");
            counted = 1;
        }
        let mut at = begin;
        for (&fold, columns) in folds.iter().zip(chains) {
            for (k, numbers) in columns.iter_mut().enumerate() {
                let places = (at + k * NUMBER, of_number, width);
                *numbers = self.of_warps(fold, numbers, column, places, counted, writer)?;
            }
            at += columns[0].len() * of_number;
        }
        Ok(())
    }
}
