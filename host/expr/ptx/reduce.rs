// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kernels that combine elements along an axis, and go on with what that gave.
//!
//! Where a row lies along the last axis, a warp or a part of one has it, or a block. Its threads have groups of neighbours in
//! turn. If a row is not too long, all of it is in registers at once, and is read once, however many reductions one after
//! another there are. Else threads go through the row in a loop, for each reduction that depends on another one once more,
//! and find it in the cache. A thread combines its elements in four chains, then the chains; then a warp by shuffles, and a
//! block by way of shared memory. Everybody has the row's numbers then, and computes what they are needed for.
//!
//! Where neighbours belong to different rows, a warp has as many rows side by side, and eight warps share the elements.
//!
//! A row that has more than a block's elements can have several parts; then what is stored are the numbers of each part.

use cuda_std::scalar::ScalarType;

use super::Malformed;
use super::arguments::{columns_of_block, rows_of_block};
use super::kernel::Kernel;
use super::memory;
use super::steps::{Elements, Row, Span, Values, element};
use super::vector_len;
use super::writer::{Register, Writer, register_bits};
use crate::expr::program::{COLUMN_LANES, Combine, Fold, Form, GROUP, Layout, Reduce, Step, Value, WARP_LOG2};

/// The name of the shared memory.
const SHARED: &str = "folded";

/// Bytes for a number there.
const NUMBER: usize = 8;

/// Elements of a row that a thread has in flight where rows lie side by side.
const IN_FLIGHT: usize = 4;

/// The numbers of a fold.
type Numbers = Vec<Register>;

/// Reductions as a part of a kernel.
pub(super) struct Folding<'a> {
    kernel: &'a Kernel<'a>,
    reduce: &'a Reduce,
    /// As [`Program::passes`](crate::expr::program::Program::passes).
    passes: Vec<u8>,
}

/// What a thread knows of its row.
struct Place {
    row: Row,
    /// The number of the row, and whether there is one; without a predicate there is.
    number: Register,
    exists: Option<Register>,
    /// Whether the thread stores the row's numbers.
    stores: Register,
    /// The thread among those of the row.
    lane: Register,
    /// Where its part begins and ends.
    begin: Register,
    end: Register,
}

impl<'a> Folding<'a> {
    pub(super) fn new(kernel: &'a Kernel<'a>, reduce: &'a Reduce) -> Self {
        Self {
            kernel,
            reduce,
            passes: kernel.program.passes(),
        }
    }

    pub(super) fn write(&self, writer: &mut Writer) -> Result<(), Malformed> {
        match self.reduce.form {
            Form::Rows {
                lanes_log2,
                groups,
                is_loop,
            } => self.rows(lanes_log2, usize::from(groups), is_loop, writer),
            Form::Columns => self.columns(writer),
        }
    }

    /// The folds of a pass.
    fn folds(&self, pass: u8) -> Vec<usize> {
        let program = self.kernel.program;
        let folds = 0..self.kernel.program.folds.len();
        folds
            .filter(|&fold| program.fold_pass(fold, &self.passes) == pass)
            .collect()
    }

    fn last_pass(&self) -> u8 {
        self.passes.iter().copied().max().unwrap_or(0)
    }

    /// What these steps need, they too.
    fn needed(&self, steps: impl Iterator<Item = Value>) -> Vec<bool> {
        let program = self.kernel.program;
        let mut needed = vec![false; program.steps.len()];
        steps.for_each(|step| needed[usize::from(step)] = true);
        for number in (0..program.steps.len()).rev() {
            if let (true, Step::Call(function, arguments)) = (needed[number], program.steps[number]) {
                let count = program.functions[usize::from(function)].arguments.len();
                arguments[..count]
                    .iter()
                    .for_each(|&value| needed[usize::from(value)] = true);
            }
        }
        needed
    }

    fn outputs(&self, is_row: bool) -> impl Iterator<Item = usize> {
        (0..self.reduce.is_row.len()).filter(move |&output| self.reduce.is_row[output] == is_row)
    }

    fn elements<'s>(&'s self, row: &'s Row, spans: &'s [Span]) -> Elements<'s> {
        let Kernel {
            program,
            block,
            callees,
        } = *self.kernel;
        Elements {
            program,
            block,
            callees,
            row,
            spans,
        }
    }

    /// The part of a block: where it begins and ends.
    fn part(&self, writer: &mut Writer) -> (Register, Register) {
        let reduce = &self.kernel.block.reduce;
        let part = writer.new_word("mov.u32", "%ctaid.y");
        let len = self.kernel.word(reduce.part_len, writer);
        let begin = writer.new_word("mul.lo.s32", format_args!("{part}, {len}"));
        let sum = writer.new_word("add.s32", format_args!("{begin}, {len}"));
        let length = self.kernel.word(reduce.length, writer);
        (begin, writer.new_word("min.u32", format_args!("{sum}, {length}")))
    }

    // Rows along the last axis.

    fn rows(&self, lanes_log2: u8, groups: usize, is_loop: bool, writer: &mut Writer) -> Result<(), Malformed> {
        let place = self.place(lanes_log2, writer);
        let mut values: Values = vec![Vec::new(); self.kernel.program.steps.len()];
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
            let chains = match is_loop {
                false => self.at_once(&place, (groups, lanes_log2), &folds, &elements, &mut values, writer)?,
                true => self.looped(
                    &place,
                    (groups, lanes_log2, pass),
                    &folds,
                    &elements,
                    &mut values,
                    writer,
                )?,
            };
            let mut numbers = Vec::with_capacity(folds.len());
            for (&fold, chains) in folds.iter().zip(&chains) {
                let fold = &self.kernel.program.folds[fold];
                let first = self.combine(fold, &chains[0], &chains[2], writer)?;
                let second = self.combine(fold, &chains[1], &chains[3], writer)?;
                let thread = self.combine(fold, &first, &second, writer)?;
                numbers.push(self.warp(fold, thread, 1 << lanes_log2.min(WARP_LOG2), writer)?);
            }
            if lanes_log2 > WARP_LOG2 {
                self.block(&folds, &mut numbers, lanes_log2, &mut shared, writer)?;
            }
            let width = 1 << lanes_log2.min(WARP_LOG2);
            for (&fold, numbers) in folds.iter().zip(&numbers) {
                let all = numbers.iter().map(|&number| shuffle("idx", number, 0, width, writer));
                let all: Vec<_> = all.map(|number| vec![number]).collect();
                self.set(fold, &all, &mut values);
            }
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
        let block = writer.new_word("mov.u32", "%ctaid.x");
        let thread = writer.new_word("mov.u32", "%tid.x");
        let (mut number, mut lane, mut exists) = (block, thread, None);
        let of_block = rows_of_block(self.reduce.form);
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
        }
    }

    /// The groups of a thread from `start` on, those beyond the row as the part's first elements.
    fn spans(
        &self,
        place: &Place,
        start: Register,
        (groups, lanes_log2): (usize, u8),
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

    /// The chains of all folds over elements that are in registers all at once; stores the outputs that have one number for
    /// each element.
    fn at_once(
        &self,
        place: &Place,
        groups: (usize, u8),
        folds: &[usize],
        elements: &[usize],
        values: &mut Values,
        writer: &mut Writer,
    ) -> Result<Vec<[Numbers; GROUP]>, Malformed> {
        let spans = self.spans(place, place.begin, groups, writer);
        let all = self.elements(&place.row, &spans);
        all.compute(&self.needed_in_pass(folds, elements), values, writer)?;
        let mut chains = self.identities(folds, writer);
        self.accumulate(folds, &spans, values, &mut chains, writer)?;
        self.store_elements(place, &spans, elements, values, writer);
        Ok(chains)
    }

    /// As [`at_once`](Self::at_once), in a loop; what is computed of elements is gone behind it.
    fn looped(
        &self,
        place: &Place,
        (groups, lanes_log2, pass): (usize, u8, u8),
        folds: &[usize],
        elements: &[usize],
        values: &mut Values,
        writer: &mut Writer,
    ) -> Result<Vec<[Numbers; GROUP]>, Malformed> {
        let needed = self.needed_in_pass(folds, elements);
        // What is the same for all elements, ahead of the loop.
        let varies = self.elements(&place.row, &[]).varying();
        let uniform: Vec<bool> = needed
            .iter()
            .zip(&varies)
            .map(|(needed, varies)| *needed && !varies)
            .collect();
        self.elements(&place.row, &[]).compute(&uniform, values, writer)?;
        let chains = self.identities(folds, writer);
        let start = writer.new_word("mov.b32", place.begin);
        writer.mark(format_args!("$pass_{pass}:"));
        let is_over = writer.new_predicate("setp.ge.u32", format_args!("{start}, {}", place.end));
        writer.line(format_args!("@{is_over} bra $passed_{pass}"));
        let spans = self.spans(place, start, (groups, lanes_log2), writer);
        let mut of_elements = values.clone();
        self.elements(&place.row, &spans)
            .compute(&needed, &mut of_elements, writer)?;
        let mut combined = chains.clone();
        self.accumulate(folds, &spans, &of_elements, &mut combined, writer)?;
        self.store_elements(place, &spans, elements, &of_elements, writer);
        let numbers =
            |chains: &Vec<[Numbers; GROUP]>| -> Vec<Register> { chains.iter().flatten().flatten().copied().collect() };
        for (to, from) in numbers(&chains).into_iter().zip(numbers(&combined)) {
            writer.line(format_args!("mov.b{} {to}, {from}", to.bits()));
        }
        writer.line(format_args!(
            "add.s32 {start}, {start}, {}",
            (groups << lanes_log2) * GROUP
        ));
        writer.line(format_args!("bra.uni $pass_{pass}"));
        writer.mark(format_args!("$passed_{pass}:"));
        Ok(chains)
    }

    fn needed_in_pass(&self, folds: &[usize], elements: &[usize]) -> Vec<bool> {
        let of_folds = folds
            .iter()
            .flat_map(|&fold| self.kernel.program.folds[fold].elements.iter().copied());
        let of_outputs = elements.iter().map(|&output| self.kernel.program.outputs[output]);
        self.needed(of_folds.chain(of_outputs))
    }

    /// Chains of nothing, in registers of their own.
    fn identities(&self, folds: &[usize], writer: &mut Writer) -> Vec<[Numbers; GROUP]> {
        let chain = |fold: &usize, writer: &mut Writer| identity(&self.kernel.program.folds[*fold].combine, writer);
        folds
            .iter()
            .map(|fold| std::array::from_fn(|_| chain(fold, writer)))
            .collect()
    }

    /// Combines the elements of the spans with the chains, each with that of its place in the group.
    fn accumulate(
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

    /// What an element brings: nothing if it does not exist.
    fn numbers(
        &self,
        fold: &Fold,
        values: &Values,
        at: usize,
        exists: Option<Register>,
        writer: &mut Writer,
    ) -> Numbers {
        let number = |(&step, (&ty, &identity)): (&Value, (&ScalarType, &u64))| {
            let of_step = &values[usize::from(step)];
            let value = of_step[if of_step.len() == 1 { 0 } else { at }];
            let Some(exists) = exists else { return value };
            match register_bits(ty) {
                64 => writer.new_double("selp.b64", format_args!("{value}, {identity:#x}, {exists}")),
                _ => writer.new_word("selp.b32", format_args!("{value}, {identity:#x}, {exists}")),
            }
        };
        let combine = &fold.combine;
        fold.elements
            .iter()
            .zip(combine.types.iter().zip(&combine.identities))
            .map(number)
            .collect()
    }

    fn combine(&self, fold: &Fold, a: &[Register], b: &[Register], writer: &mut Writer) -> Result<Numbers, Malformed> {
        let mut numbers = [a, b].concat();
        for &(function, arguments) in &fold.combine.calls {
            let function = usize::from(function);
            let info = self.kernel.program.functions[function];
            let arguments = &arguments[..info.arguments.len()];
            let arguments: Numbers = arguments.iter().map(|&number| numbers[usize::from(number)]).collect();
            let result = self.kernel.callees[function].apply(&arguments, writer);
            numbers.push(result.map_err(|error| error.of(info.name))?);
        }
        let results = fold.combine.results.iter();
        Ok(results.map(|&number| numbers[usize::from(number)]).collect())
    }

    /// The numbers of `width` threads side by side, which the first of them has then.
    fn warp(&self, fold: &Fold, mut own: Numbers, width: u32, writer: &mut Writer) -> Result<Numbers, Malformed> {
        let mut offset = width / 2;
        while offset > 0 {
            let other: Numbers = own
                .iter()
                .map(|&number| shuffle("down", number, offset, width, writer))
                .collect();
            own = self.combine(fold, &own, &other, writer)?;
            offset /= 2;
        }
        Ok(own)
    }

    /// From the numbers of each warp to those of the block, which the first thread of each warp has then.
    fn block(
        &self,
        folds: &[usize],
        numbers: &mut [Numbers],
        lanes_log2: u8,
        shared: &mut usize,
        writer: &mut Writer,
    ) -> Result<(), Malformed> {
        let warps = 1usize << (lanes_log2 - WARP_LOG2);
        let thread = writer.new_word("mov.u32", "%tid.x");
        let warp = writer.new_word("shr.u32", format_args!("{thread}, {WARP_LOG2}"));
        let lane = writer.new_word("and.b32", format_args!("{thread}, {}", (1 << WARP_LOG2) - 1));
        let is_first = writer.new_predicate("setp.eq.u32", format_args!("{lane}, 0"));
        let base = writer.new_word("mov.u32", SHARED);
        let to = writer.new_word("mad.lo.s32", format_args!("{warp}, {NUMBER}, {base}"));
        let other = writer.new_word("and.b32", format_args!("{lane}, {}", warps - 1));
        let from = writer.new_word("mad.lo.s32", format_args!("{other}, {NUMBER}, {base}"));
        let first = *shared;
        for number in numbers.iter().flatten() {
            writer.line(format_args!(
                "@{is_first} st.shared.b{} [{to}+{shared}], {number}",
                number.bits()
            ));
            *shared += warps * NUMBER;
        }
        writer.line("bar.sync 0");
        let mut at = first;
        for (&fold, numbers) in folds.iter().zip(numbers) {
            let mut of_warps = Numbers::new();
            for number in &*numbers {
                of_warps.push(load_shared(number.bits(), from, at, writer));
                at += warps * NUMBER;
            }
            let fold = &self.kernel.program.folds[fold];
            // Beyond the warps that there are, lanes have others' numbers, which do not reach the first.
            let mut offset = warps as u32 / 2;
            while offset > 0 {
                let shuffled = of_warps
                    .iter()
                    .map(|&number| shuffle("down", number, offset, 1 << WARP_LOG2, writer));
                let other: Numbers = shuffled.collect();
                of_warps = self.combine(fold, &of_warps, &other, writer)?;
                offset /= 2;
            }
            *numbers = of_warps;
        }
        Ok(())
    }

    /// The values of the steps that a fold gives: of each number one for all, or one for each column.
    fn set(&self, fold: usize, numbers: &[Numbers], values: &mut Values) {
        for (values, step) in values.iter_mut().zip(&self.kernel.program.steps) {
            match *step {
                Step::Folded(of, number) if usize::from(of) == fold => *values = numbers[usize::from(number)].clone(),
                _ => {}
            }
        }
    }

    fn store_elements(&self, place: &Place, spans: &[Span], outputs: &[usize], values: &Values, writer: &mut Writer) {
        if outputs.is_empty() {
            return;
        }
        let both = |span: &Span| {
            let exists = match (span.exists, place.exists) {
                (Some(a), Some(b)) => Some(writer.new_predicate("and.pred", format_args!("{a}, {b}"))),
                (a, b) => a.or(b),
            };
            Span { exists, ..*span }
        };
        let spans: Vec<Span> = spans.iter().map(both).collect();
        for &output in outputs {
            self.elements(&place.row, &spans).store(output, values, writer);
        }
    }

    /// Stores the outputs that have one number for each row, or part of one.
    fn store_rows(&self, place: &Place, values: &mut Values, writer: &mut Writer) -> Result<(), Malformed> {
        let outputs: Vec<usize> = self.outputs(true).collect();
        let steps = outputs.iter().map(|&output| self.kernel.program.outputs[output]);
        let needed = self.needed(steps);
        self.elements(&place.row, &[]).compute(&needed, values, writer)?;
        if outputs.is_empty() {
            return Ok(());
        }
        let (parts, part) = self.number_of_part(writer);
        let number = writer.new_word("mad.lo.s32", format_args!("{}, {parts}, {part}", place.number));
        for output in outputs {
            let step = usize::from(self.kernel.program.outputs[output]);
            let ty = self.kernel.program.types[step];
            let address = element(place.row.outputs[output], number, ty, writer);
            memory::store(ty, &values[step][..1], address, Some(place.stores), writer);
        }
        Ok(())
    }

    /// How many parts a row has, and which one the block has.
    fn number_of_part(&self, writer: &mut Writer) -> (Register, Register) {
        let reduce = &self.kernel.block.reduce;
        let parts = self.kernel.word(reduce.parts, writer);
        let first = self.kernel.word(reduce.first_part, writer);
        let part = writer.new_word("mov.u32", "%ctaid.y");
        (parts, writer.new_word("add.s32", format_args!("{part}, {first}")))
    }

    // Rows side by side.

    fn columns(&self, writer: &mut Writer) -> Result<(), Malformed> {
        let (kernel, program) = (self.kernel, self.kernel.program);
        let len = if program.aligned { vector_len(program) } else { 1 };
        let block = writer.new_word("mov.u32", "%ctaid.x");
        let thread = writer.new_word("mov.u32", "%tid.x");
        let lane = writer.new_word("and.b32", format_args!("{thread}, {}", (1 << WARP_LOG2) - 1));
        let share = writer.new_word("shr.u32", format_args!("{thread}, {WARP_LOG2}"));
        let (number, group) = kernel.divide(block, kernel.block.groups, writer);
        let within = writer.new_word("mul.lo.s32", format_args!("{lane}, {len}"));
        let own = writer.new_word(
            "mad.lo.s32",
            format_args!("{group}, {}, {within}", columns_of_block(program)),
        );
        let columns = kernel.word(kernel.block.columns, writer);
        let exists = writer.new_predicate("setp.lt.u32", format_args!("{own}, {columns}"));
        let column = writer.new_word("selp.b32", format_args!("{own}, 0, {exists}"));
        let span = Span {
            column,
            len,
            exists: Some(exists),
        };
        let row = kernel.row_along(number, 1, writer);
        let folds = self.folds(0);
        let chains = self.columns_of_thread(&row, span, share, &folds, writer)?;
        let numbers = self.columns_of_block(&folds, chains, (share, within), writer)?;
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

    /// What a thread has of its columns: of each fold, of each column.
    fn columns_of_thread(
        &self,
        row: &Row,
        span: Span,
        share: Register,
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
        let mut in_flight = Vec::with_capacity(IN_FLIGHT);
        for k in 0..IN_FLIGHT {
            let at = writer.new_word("add.s32", format_args!("{place}, {}", k * COLUMN_LANES));
            let exists = writer.new_predicate("setp.lt.u32", format_args!("{at}, {end}"));
            let at = writer.new_word("selp.b32", format_args!("{at}, {begin}, {exists}"));
            let row = self.at(row, at, writer);
            let mut values: Values = vec![Vec::new(); program.steps.len()];
            self.elements(&row, &[span]).compute(&loads, &mut values, writer)?;
            in_flight.push((row, exists, values));
        }
        let mut combined = chains.clone();
        for (row, exists, mut values) in in_flight {
            self.elements(&row, &[span]).compute(&needed, &mut values, writer)?;
            for (&fold, columns) in folds.iter().zip(&mut combined) {
                let fold = &self.kernel.program.folds[fold];
                for (k, chain) in columns.iter_mut().enumerate() {
                    let numbers = self.numbers(fold, &values, k, Some(exists), writer);
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
        writer.line(format_args!("add.s32 {place}, {place}, {}", IN_FLIGHT * COLUMN_LANES));
        writer.line("bra.uni $pass");
        writer.mark("$passed:");
        Ok(chains)
    }

    /// A row's place along the first axis.
    fn at(&self, row: &Row, place: Register, writer: &mut Writer) -> Row {
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

    /// What the warps have together, in the threads of the first one; others end.
    fn columns_of_block(
        &self,
        folds: &[usize],
        chains: Vec<Vec<Numbers>>,
        (share, within): (Register, Register),
        writer: &mut Writer,
    ) -> Result<Vec<Vec<Numbers>>, Malformed> {
        let width = columns_of_block(self.kernel.program);
        let base = writer.new_word("mov.u32", SHARED);
        let column = writer.new_word("mad.lo.s32", format_args!("{within}, {NUMBER}, {base}"));
        let own = writer.new_word("mad.lo.s32", format_args!("{share}, {}, {column}", width * NUMBER));
        let mut at = 0;
        for columns in &chains {
            for number in 0..columns[0].len() {
                for (k, column) in columns.iter().enumerate() {
                    let (bits, offset) = (column[number].bits(), at + k * NUMBER);
                    writer.line(format_args!("st.shared.b{bits} [{own}+{offset}], {}", column[number]));
                }
                at += COLUMN_LANES * width * NUMBER;
            }
        }
        writer.local(format!(".shared .align 8 .b8 {SHARED}[{at}]"));
        writer.line("bar.sync 0");
        let is_other = writer.new_predicate("setp.ne.u32", format_args!("{share}, 0"));
        writer.line(format_args!("@{is_other} ret"));
        let mut at = 0;
        let mut combined = Vec::with_capacity(folds.len());
        for (&fold, columns) in folds.iter().zip(&chains) {
            let fold = &self.kernel.program.folds[fold];
            let of_number = COLUMN_LANES * width * NUMBER;
            let mut of_columns = Vec::with_capacity(columns.len());
            for (k, numbers) in columns.iter().enumerate() {
                let load = |lane: usize, writer: &mut Writer| -> Numbers {
                    let offset = |number: usize| at + number * of_number + (lane * width + k) * NUMBER;
                    let all = numbers.iter().enumerate();
                    all.map(|(number, register)| load_shared(register.bits(), column, offset(number), writer))
                        .collect()
                };
                let mut lanes: Vec<Numbers> = (0..COLUMN_LANES).map(|lane| load(lane, writer)).collect();
                while lanes.len() > 1 {
                    let second = lanes.split_off(lanes.len() / 2);
                    for (a, b) in lanes.iter_mut().zip(second) {
                        *a = self.combine(fold, a, &b, writer)?;
                    }
                }
                of_columns.push(lanes.swap_remove(0));
            }
            at += columns[0].len() * of_number;
            combined.push(of_columns);
        }
        Ok(combined)
    }

    /// Stores the outputs, behind those of the parts before.
    fn store_columns(
        &self,
        mut row: Row,
        number: Register,
        span: Span,
        values: &mut Values,
        writer: &mut Writer,
    ) -> Result<(), Malformed> {
        let kernel = self.kernel;
        let (_, part) = self.number_of_part(writer);
        let (rows, columns) = (
            kernel.word(kernel.block.rows, writer),
            kernel.word(kernel.block.columns, writer),
        );
        let before = writer.new_word("mad.lo.s32", format_args!("{part}, {rows}, {number}"));
        row.first = Some(writer.new_word("mul.lo.s32", format_args!("{before}, {columns}")));
        let zero = writer.new_double("mov.b64", 0);
        row.coordinates.insert(0, zero);
        let steps = self.outputs(true).map(|output| kernel.program.outputs[output]);
        let needed = self.needed(steps);
        let spans = [span];
        let elements = self.elements(&row, &spans);
        elements.compute(&needed, values, writer)?;
        for output in self.outputs(true) {
            elements.store(output, values, writer);
        }
        Ok(())
    }
}

/// Numbers that change nothing, in registers of their own.
fn identity(combine: &Combine, writer: &mut Writer) -> Numbers {
    let all = combine.types.iter().zip(&combine.identities);
    all.map(|(&ty, identity)| match register_bits(ty) {
        64 => writer.new_double("mov.b64", format_args!("{identity:#x}")),
        _ => writer.new_word("mov.b32", format_args!("{identity:#x}")),
    })
    .collect()
}

/// A number of another thread among `width` neighbours.
fn shuffle(which: &str, number: Register, by: u32, width: u32, writer: &mut Writer) -> Register {
    // The upper bits keep threads among their neighbours.
    let clamp = (32 - width) << 8 | 31;
    let word = |word: Register, writer: &mut Writer| {
        writer.new_word(
            &format!("shfl.sync.{which}.b32"),
            format_args!("{word}, {by}, {clamp}, 0xffffffff"),
        )
    };
    if number.bits() == 32 {
        return word(number, writer);
    }
    let [low, high] = [writer.word(), writer.word()];
    writer.line(format_args!("mov.b64 {{{low}, {high}}}, {number}"));
    let (low, high) = (word(low, writer), word(high, writer));
    writer.new_double("mov.b64", format_args!("{{{low}, {high}}}"))
}

fn load_shared(bits: u32, address: Register, offset: usize, writer: &mut Writer) -> Register {
    let opcode = format!("ld.shared.b{bits}");
    match bits {
        64 => writer.new_double(&opcode, format_args!("[{address}+{offset}]")),
        _ => writer.new_word(&opcode, format_args!("[{address}+{offset}]")),
    }
}

const _: () = assert!(GROUP == 4, "a group's four chains are combined one by one");
