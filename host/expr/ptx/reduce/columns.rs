// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rows side by side: a warp, or each part of one, has neighbouring ones, and the warps of a block and their parts share their
//! elements.

use super::{Folding, NUMBER, Numbers, SHARED, identity, load_shared};
use crate::expr::program::{Layout, Step, WARP_LOG2};
use crate::expr::ptx::arguments::columns_of_block;
use crate::expr::ptx::order::Axis;
use crate::expr::ptx::steps::{Row, Span, Values};
use crate::expr::ptx::writer::{Register, Writer};
use crate::expr::ptx::{Malformed, vector_len};

/// What a thread knows of its columns.
pub(super) struct Across {
    pub thread: Register,
    /// Its number among those that have the same columns.
    pub share: Register,
    /// The first of its columns among those of the block.
    pub within: Register,
    /// The number of the rows along the other axes.
    pub number: Register,
    pub row: Row,
    pub span: Span,
}

impl Folding<'_> {
    pub(super) fn columns(&self, in_flight: usize, across_log2: u8, writer: &mut Writer) -> Result<(), Malformed> {
        let program = self.kernel.program;
        let Across {
            thread,
            share,
            within,
            number,
            row,
            span,
        } = self.across(across_log2, writer);
        let folds = self.folds(0);
        let chains = self.columns_of_thread(&row, span, (share, in_flight), &folds, writer)?;
        let chains = self.columns_of_warp(&folds, chains, across_log2, writer)?;
        let numbers = self.columns_of_block(&folds, chains, (thread, within), across_log2, writer)?;
        let mut values: Values = vec![Vec::new(); program.steps.len()];
        for (&fold, numbers) in folds.iter().zip(&numbers) {
            // Of each number, what the columns have.
            let of_numbers = 0..self.kernel.program.folds[fold].elements.len();
            let numbers: Vec<Numbers> = of_numbers
                .map(|number| numbers.iter().map(|column| column[number]).collect())
                .collect();
            self.set(fold, &numbers, &mut values);
        }
        self.store_columns(row, number, span, &mut values, writer)?;
        writer.line("ret");
        Ok(())
    }

    /// Which columns a thread has, and which share of them.
    pub(super) fn across(&self, across_log2: u8, writer: &mut Writer) -> Across {
        let (kernel, program) = (self.kernel, self.kernel.program);
        let len = if program.aligned { vector_len(program) } else { 1 };
        let block = kernel.block_number(Axis::X, writer);
        let thread = writer.new_word("mov.u32", "%tid.x");
        let lane = writer.new_word("and.b32", format_args!("{thread}, {}", (1 << across_log2) - 1));
        let share = writer.new_word("shr.u32", format_args!("{thread}, {across_log2}"));
        let (number, group) = kernel.divide(block, kernel.block.groups, writer);
        let within = writer.new_word("mul.lo.s32", format_args!("{lane}, {len}"));
        let own = writer.new_word(
            "mad.lo.s32",
            format_args!("{group}, {}, {within}", columns_of_block(program, across_log2)),
        );
        let columns = kernel.word(kernel.block.columns, writer);
        let exists = writer.new_predicate("setp.lt.u32", format_args!("{own}, {columns}"));
        let column = writer.new_word("selp.b32", format_args!("{own}, 0, {exists}"));
        Across {
            thread,
            share,
            within,
            number,
            row: kernel.row_along(number, 1, writer),
            span: Span {
                column,
                len,
                exists: Some(exists),
            },
        }
    }

    /// What a thread has of its columns: of each fold, of each column.
    fn columns_of_thread(
        &self,
        row: &Row,
        span: Span,
        (share, in_flight): (Register, usize),
        folds: &[usize],
        writer: &mut Writer,
    ) -> Result<Vec<Vec<Numbers>>, Malformed> {
        let program = self.kernel.program;
        let (begin, end) = self.part(writer);
        let identities = |fold: &usize, writer: &mut Writer| -> Vec<Numbers> {
            let combine = &self.kernel.program.folds[*fold].combine;
            (0..span.len).map(|_| identity(combine, writer)).collect()
        };
        let chains: Vec<Vec<Numbers>> = folds.iter().map(|fold| identities(fold, writer)).collect();
        let place = writer.new_word("add.s32", format_args!("{begin}, {share}"));
        writer.mark("$pass:");
        let is_over = writer.new_predicate("setp.ge.u32", format_args!("{place}, {end}"));
        writer.line(format_args!("@{is_over} bra $passed"));
        let needed = self.needed_in_pass(folds, &[]);
        let is_input = |step: &Step| matches!(step, Step::Input(_));
        let loads: Vec<bool> = (needed.iter().zip(&program.steps))
            .map(|(needed, step)| *needed && is_input(step))
            .collect();
        let mut loaded = Vec::with_capacity(in_flight);
        for k in 0..in_flight {
            let at = writer.new_word("add.s32", format_args!("{place}, {}", k * self.reduce.form.lanes()));
            let (at, exists) = match self.reduce.is_whole {
                true => (at, None),
                false => {
                    let exists = writer.new_predicate("setp.lt.u32", format_args!("{at}, {end}"));
                    let at = writer.new_word("selp.b32", format_args!("{at}, {begin}, {exists}"));
                    (at, Some(exists))
                }
            };
            let row = self.at(row, at, writer);
            let mut values: Values = vec![Vec::new(); program.steps.len()];
            self.kernel
                .elements_of(&row, &[span])
                .compute(&loads, &mut values, writer)?;
            loaded.push((row, exists, values));
        }
        let mut combined = chains.clone();
        for (row, exists, mut values) in loaded {
            self.kernel
                .elements_of(&row, &[span])
                .compute(&needed, &mut values, writer)?;
            for (&fold, columns) in folds.iter().zip(&mut combined) {
                let fold = &self.kernel.program.folds[fold];
                for (k, chain) in columns.iter_mut().enumerate() {
                    let numbers = self.numbers(fold, &values, k, exists, writer);
                    *chain = self.combine(fold, chain, &numbers, writer)?;
                }
            }
        }
        for (to, from) in chains
            .iter()
            .flatten()
            .flatten()
            .zip(combined.iter().flatten().flatten())
        {
            writer.line(format_args!("mov.b{} {to}, {from}", to.bits()));
        }
        writer.line(format_args!("add.s32 {place}, {place}, {}", self.reduce.form.step()));
        writer.line("bra.uni $pass");
        writer.mark("$passed:");
        Ok(chains)
    }

    /// A row's place along the first axis.
    pub(super) fn at(&self, row: &Row, place: Register, writer: &mut Writer) -> Row {
        let program = self.kernel.program;
        let wide = writer.new_double("cvt.u64.u32", place);
        let mut inputs = row.inputs.clone();
        for (number, (address, input)) in inputs.iter_mut().zip(&program.inputs).enumerate() {
            if input.layout != Layout::Single {
                let stride = self.kernel.double(self.kernel.block.stride(number, 0), writer);
                *address = writer.new_double("mad.lo.s64", format_args!("{wide}, {stride}, {address}"));
            }
        }
        let mut coordinates = row.coordinates.clone();
        coordinates.insert(0, wide);
        Row {
            first: row.first,
            coordinates,
            inputs,
            outputs: row.outputs.clone(),
        }
    }

    /// What the parts of a warp have together, in the threads of the first one.
    fn columns_of_warp(
        &self,
        folds: &[usize],
        mut chains: Vec<Vec<Numbers>>,
        across_log2: u8,
        writer: &mut Writer,
    ) -> Result<Vec<Vec<Numbers>>, Malformed> {
        let offsets = (across_log2..WARP_LOG2).rev().map(|log2| 1 << log2);
        for offset in offsets {
            for (&fold, columns) in folds.iter().zip(&mut chains) {
                let fold = &self.kernel.program.folds[fold];
                for numbers in columns {
                    *numbers = self.with_others(fold, numbers, ("down", offset, 1 << WARP_LOG2), writer)?;
                }
            }
        }
        Ok(chains)
    }

    /// What the warps have together, in the threads that store it; others end.
    fn columns_of_block(
        &self,
        folds: &[usize],
        chains: Vec<Vec<Numbers>>,
        (thread, within): (Register, Register),
        across_log2: u8,
        writer: &mut Writer,
    ) -> Result<Vec<Vec<Numbers>>, Malformed> {
        let width = columns_of_block(self.kernel.program, across_log2);
        let warps = self.reduce.form.lanes() >> (WARP_LOG2 - across_log2);
        let warp = writer.new_word("shr.u32", format_args!("{thread}, {WARP_LOG2}"));
        // Of a warp's parts, which have the same columns, the first one's numbers are all.
        let lane = writer.new_word("and.b32", format_args!("{thread}, {}", (1 << WARP_LOG2) - 1));
        let is_first = writer.new_predicate("setp.lt.u32", format_args!("{lane}, {}", 1 << across_log2));
        let base = writer.new_word("mov.u32", SHARED);
        let column = writer.new_word("mad.lo.s32", format_args!("{within}, {NUMBER}, {base}"));
        let own = writer.new_word("mad.lo.s32", format_args!("{warp}, {}, {column}", width * NUMBER));
        let of_number = warps * width * NUMBER;
        let shared = store_of_warps(&chains, (own, is_first), (0, of_number), writer);
        writer.local(format!(".shared .align 8 .b8 {SHARED}[{shared}]"));
        writer.line("bar.sync 0");
        let is_other = writer.new_predicate("setp.ge.u32", format_args!("{thread}, {}", 1 << across_log2));
        writer.line(format_args!("@{is_other} ret"));
        let mut at = 0;
        let mut combined = Vec::with_capacity(folds.len());
        for (&fold, columns) in folds.iter().zip(&chains) {
            let mut of_columns = Vec::with_capacity(columns.len());
            for (k, numbers) in columns.iter().enumerate() {
                let places = (at + k * NUMBER, of_number, width);
                let numbers = self.of_warps(fold, numbers, column, places, warps, writer)?;
                let finished = numbers
                    .into_iter()
                    .map(|of_column| self.finish(fold, of_column, writer));
                of_columns.push(finished.collect());
            }
            at += columns[0].len() * of_number;
            combined.push(of_columns);
        }
        Ok(combined)
    }

    /// What so many warps have of a column, combined: from that address on, where a number's begin so far behind the one before, and
    /// those of a warp so many columns behind those of another.
    pub(super) fn of_warps(
        &self,
        fold: usize,
        like: &[Register],
        address: Register,
        (at, of_number, width): (usize, usize, usize),
        warps: usize,
        writer: &mut Writer,
    ) -> Result<Numbers, Malformed> {
        let fold = &self.kernel.program.folds[fold];
        let load = |warp: usize, writer: &mut Writer| -> Numbers {
            let offset = |number: usize| at + number * of_number + warp * width * NUMBER;
            let all = like.iter().enumerate();
            all.map(|(number, register)| load_shared(register.bits(), address, offset(number), writer))
                .collect()
        };
        let all = (0..warps).map(|warp| load(warp, writer)).collect();
        self.combine_all(fold, all, writer)
    }

    /// Stores the outputs, behind those of the parts before.
    pub(super) fn store_columns(
        &self,
        mut row: Row,
        number: Register,
        span: Span,
        values: &mut Values,
        writer: &mut Writer,
    ) -> Result<(), Malformed> {
        let kernel = self.kernel;
        let columns = kernel.word(kernel.block.columns, writer);
        let before = match self.number_of_part(writer) {
            Some((_, part)) => {
                let rows = kernel.word(kernel.block.rows, writer);
                writer.new_word("mad.lo.s32", format_args!("{part}, {rows}, {number}"))
            }
            None => number,
        };
        row.first = Some(writer.new_word("mul.lo.s32", format_args!("{before}, {columns}")));
        let zero = writer.new_double("mov.b64", 0);
        row.coordinates.insert(0, zero);
        let steps = self.outputs(true).map(|output| kernel.program.outputs[output]);
        let needed = self.kernel.needed(steps);
        let spans = [span];
        let elements = self.kernel.elements_of(&row, &spans);
        elements.compute(&needed, values, writer)?;
        for output in self.outputs(true) {
            elements.store(output, values, writer);
        }
        Ok(())
    }
}

/// Stores what a warp has of its columns to shared memory, from place `at` of its own on, each number so far behind the one before, by
/// the threads of which the predicate is true; the first place behind all.
pub(super) fn store_of_warps(
    chains: &[Vec<Numbers>],
    (own, is_first): (Register, Register),
    (mut at, of_number): (usize, usize),
    writer: &mut Writer,
) -> usize {
    for columns in chains {
        for number in 0..columns[0].len() {
            for (k, column) in columns.iter().enumerate() {
                let (bits, offset) = (column[number].bits(), at + k * NUMBER);
                writer.line(format_args!(
                    "@{is_first} st.shared.b{bits} [{own}+{offset}], {}",
                    column[number]
                ));
            }
            at += of_number;
        }
    }
    at
}
