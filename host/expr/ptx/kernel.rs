// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel itself: which elements a thread has, and where they lie.

use super::arguments::{
    Block, LANES_LOG2, THREADS, TURNED_VECTORS_LOG2, VECTORS_HEIGHT_LOG2, axes_of_rows, block_threads, is_flat,
    is_paired, least_blocks, spread_len, threads,
};
use super::halves::{AMPERE, Operation};
use super::inline::Callee;
use super::link::{Least, Linked, link};
use super::module::Module;
use super::order::Axis;
use super::reduce::{CLUSTERS, Folding, NAME_OF_STASH, STASH, has_extremes};
use super::steps::{Elements, Row, Span};
use super::stream::Streaming;
use super::together::Given;
use super::turned::Turned;
use super::writer::{Register, Writer};
use super::{Malformed, NAME, vector_len};
use crate::expr::program::{Layout, Program, Value, Vectors};

/// The name of the block of parameters.
pub(super) const PARAMETER: &str = "expression_param_0";

/// The most bytes of parameters that every GPU takes.
pub(super) const MOST_PARAMETERS: usize = 4096;

/// The PTX of the kernel [`NAME`], which computes `program`, for GPUs from that compute capability on. `texts` are those of
/// the program's functions: modules, each with the function and what it uses.
///
/// # Errors
///
/// What is wrong with a text, by the name of its function: anything in it that is not known to be right wherever it stands.
/// Or that the program has more values than a kernel takes.
pub(in crate::expr) fn kernel(
    program: &Program,
    texts: &[String],
    capability: (u32, u32),
) -> Result<String, Malformed> {
    let modules = Module::parse_all(program, texts)?;
    let newer = Newer::of(program, capability);
    let Linked { mut text, callees } = link(&program.functions, &modules, newer.least())?;
    text += &entry(program, &callees, &newer)?;
    Ok(text)
}

/// What a program's kernel has that not every GPU has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Newer {
    pub operations: Vec<Option<Operation>>,
    /// Whether there are [`extreme`](super::reduce)s.
    has_extremes: bool,
    /// Whether inputs are [streamed](Program::streamed).
    has_streams: bool,
    /// Whether elements are loaded that the first-level cache is not to keep.
    once: bool,
    /// Whether rows are [stashed](super::reduce).
    is_stashed: bool,
    /// Whether blocks [share](crate::expr::program::clusters) rows.
    has_clusters: bool,
}

/// The compute capability from which on GPUs have cache policies, and the version of PTX that has them.
const POLICIES: Least = ((8, 0), (7, 4));

/// Whether nothing that lies in rows is read twice, by whoever: of several inputs one may be the same for all elements of a column.
fn is_read_once(program: &Program) -> bool {
    let reduce = program.reduce.as_ref();
    let in_rows = program.inputs.iter().filter(|input| input.layout == Layout::Rows);
    reduce.is_some_and(|reduce| reduce.form.has_large_columns()) && in_rows.count() == 1
}

impl Newer {
    pub(super) fn of(program: &Program, capability: (u32, u32)) -> Self {
        Self {
            operations: Operation::all(program, capability),
            has_extremes: has_extremes(program, capability),
            has_streams: !program.streamed.is_empty() && capability >= POLICIES.0,
            once: capability >= POLICIES.0 && is_read_once(program),
            is_stashed: program.reduce.as_ref().is_some_and(|reduce| reduce.is_stashed) && capability >= STASH.0,
            has_clusters: program.reduce.as_ref().is_some_and(|reduce| reduce.blocks_log2 > 0),
        }
    }

    /// What it takes, if it takes more than every GPU has.
    fn least(&self) -> Option<Least> {
        let is_newer = self.has_extremes || self.operations.iter().flatten().any(Operation::is_newer);
        match () {
            () if self.has_clusters => Some(CLUSTERS),
            () if self.has_streams || self.once => Some(POLICIES),
            () if self.is_stashed => Some(STASH),
            () => is_newer.then_some(AMPERE),
        }
    }
}

/// The entry alone, which applies these functions, and has what is newer.
pub(super) fn entry(program: &Program, callees: &[Callee<'_>], newer: &Newer) -> Result<String, Malformed> {
    let block = Block::new(program);
    if block.size > MOST_PARAMETERS {
        let reason = format!(
            "an expression takes {} bytes of parameters, a kernel {MOST_PARAMETERS}",
            block.size
        );
        return Err(Malformed(reason));
    }
    let mut writer = Writer::default();
    let mut kernel = Kernel {
        program,
        block: &block,
        callees,
        operations: &newer.operations,
        streaming: None,
        once: newer.once,
        given: Given::Alone,
        is_stashed: newer.is_stashed,
    };
    if program.together {
        kernel.given = Given::find(&block, &mut writer);
    }
    if newer.has_streams {
        kernel.streaming = Some(Streaming::new(&kernel, &mut writer));
    }
    let (threads, blocks) = match &program.reduce {
        Some(reduce) => {
            Folding::new(&kernel, reduce, newer.has_extremes).write(&mut writer)?;
            (block_threads(reduce), least_blocks(reduce))
        }
        None => {
            kernel.write(&mut writer)?;
            (threads(program), None)
        }
    };
    let blocks = blocks.map_or(String::new(), |blocks| format!(".minnctapersm {blocks}\n"));
    let cluster = program.reduce.as_ref().map_or(0, |reduce| reduce.blocks_log2);
    let cluster = match cluster {
        0 => String::new(),
        // So every launch is in clusters, without being told.
        log2 => format!(".explicitcluster\n.reqnctapercluster {}, 1, 1\n", 1 << log2),
    };
    let size = if program.together { MOST_PARAMETERS } else { block.size };
    let stash = match newer.is_stashed {
        true => format!(".extern .shared .align 16 .b8 {NAME_OF_STASH}[];\n"),
        false => String::new(),
    };
    Ok(format!(
        "{stash}.visible .entry {NAME}(\n\t.param .align 8 .b8 {PARAMETER}[{size}]\n)\n.maxntid {threads}, 1, 1\n{blocks}{cluster}{{\n{}}}\n",
        writer.finish()
    ))
}

pub(super) struct Kernel<'a> {
    pub program: &'a Program,
    pub block: &'a Block,
    pub callees: &'a [Callee<'a>],
    pub operations: &'a [Option<Operation>],
    pub streaming: Option<Streaming>,
    pub once: bool,
    pub given: Given,
    pub is_stashed: bool,
}

impl Kernel<'_> {
    fn write(&self, writer: &mut Writer) -> Result<(), Malformed> {
        match self.program.vectors {
            Vectors::Any => {}
            Vectors::One => return self.full_blocks(1, writer),
            Vectors::Two => return self.full_blocks(2, writer),
        }
        if is_paired(self.program) {
            return self.flat_pairs(writer);
        }
        let thread = self.thread(threads(self.program), writer);
        match (is_flat(self.program), self.program.aligned) {
            (true, true) => self.flat_vectors(thread, writer),
            (true, false) => {
                let row = self.flat_row(writer);
                let group = writer.new_word("shr.u32", format_args!("{thread}, {LANES_LOG2}"));
                let lane = writer.new_word("and.b32", format_args!("{thread}, {}", (1 << LANES_LOG2) - 1));
                self.spread(&row, group, (lane, LANES_LOG2.to_string()), writer)
            }
            (false, true) if self.program.transposed.is_none() => {
                let (number, group) = self.divide(thread, self.block.groups, writer);
                let row = self.row(number, writer);
                let column = writer.new_word("mul.lo.s32", format_args!("{group}, {}", vector_len(self.program)));
                self.elements(&row, &[self.vector(column)], writer)
            }
            (false, true) if self.program.has_turned() => self.whole_tile(writer),
            (false, is_aligned) => {
                let log2 = self.word(self.block.lanes_log2, writer);
                let (rest, lane) = split(thread, log2, writer);
                let (number, group) = match self.program.transposed.is_some() {
                    true => self.place_in_tile(rest, writer),
                    false => self.divide(rest, self.block.groups, writer),
                };
                let row = self.row(number, writer);
                match is_aligned {
                    true => self.vector_of_tile(&row, group, (lane, log2), writer),
                    false if self.program.ragged => self.ragged_vector(&row, group, (lane, log2), writer),
                    false => self.spread(&row, group, (lane, log2.to_string()), writer),
                }
            }
        }
    }

    /// The row of a thread, and the tile's number in it; `rest` is the thread's number without its place in the tile's row.
    fn place_in_tile(&self, rest: Register, writer: &mut Writer) -> (Register, Register) {
        let height = self.word(self.block.height_log2, writer);
        let (tile, within) = split(rest, height, writer);
        let (quotient, group) = self.divide(tile, self.block.groups, writer);
        let first = writer.new_word("shl.b32", format_args!("{quotient}, {height}"));
        (writer.new_word("add.s32", format_args!("{first}, {within}")), group)
    }

    /// One vector of a tile's row, if the array's row is as long.
    fn vector_of_tile(
        &self,
        row: &Row,
        group: Register,
        (lane, log2): (Register, Register),
        writer: &mut Writer,
    ) -> Result<(), Malformed> {
        let first = writer.new_word("shl.b32", format_args!("{group}, {log2}"));
        let vector = writer.new_word("add.s32", format_args!("{first}, {lane}"));
        let column = writer.new_word("mul.lo.s32", format_args!("{vector}, {}", vector_len(self.program)));
        self.return_beyond(column, self.block.columns, writer);
        self.elements(row, &[self.vector(column)], writer)
    }

    /// One vector of the outputs, of which a tile's row has some elements, or all.
    fn ragged_vector(
        &self,
        row: &Row,
        group: Register,
        (lane, log2): (Register, Register),
        writer: &mut Writer,
    ) -> Result<(), Malformed> {
        let len = vector_len(self.program);
        let of_row = row.first.expect("one of several rows");
        let before = writer.new_word("and.b32", format_args!("{of_row}, {}", len - 1));
        let first = writer.new_word("shl.b32", format_args!("{group}, {log2}"));
        let vector = writer.new_word("add.s32", format_args!("{first}, {lane}"));
        let start = writer.new_word("mul.lo.s32", format_args!("{vector}, {len}"));
        let begin = writer.new_word("sub.s32", format_args!("{start}, {before}"));
        let end = writer.new_word("add.s32", format_args!("{begin}, {len}"));
        let columns = self.word(self.block.columns, writer);
        let behind = writer.new_word("add.s32", format_args!("{columns}, {len}"));
        let is_beyond = writer.new_predicate("setp.ge.u32", format_args!("{end}, {behind}"));
        writer.line(format_args!("@{is_beyond} ret"));
        let begins_before = writer.new_predicate("setp.lt.u32", format_args!("{end}, {len}"));
        let ends_beyond = writer.new_predicate("setp.lt.u32", format_args!("{columns}, {end}"));
        let is_part = writer.new_predicate("or.pred", format_args!("{begins_before}, {ends_beyond}"));
        writer.line(format_args!("@{is_part} bra $part"));
        self.elements(row, &[self.vector(begin)], writer)?;
        writer.mark("$part:");
        // One that is there, and what is before the first has numbers beyond the last.
        let own = writer.new_word("selp.b32", format_args!("0, {begin}, {begins_before}"));
        let element = |k: usize| {
            let column = writer.new_word("add.s32", format_args!("{begin}, {k}"));
            Span::within(column, columns, own, writer)
        };
        let spans: Vec<Span> = (0..len).map(element).collect();
        self.elements(row, &spans, writer)
    }

    /// One vector of a row of a tile, which has all of its elements.
    fn whole_tile(&self, writer: &mut Writer) -> Result<(), Malformed> {
        let block = self.block_number(Axis::X, writer);
        let thread = writer.new_word("mov.u32", "%tid.x");
        let (quotient, group) = self.divide(block, self.block.groups, writer);
        let first = writer.new_word("shl.b32", format_args!("{quotient}, {VECTORS_HEIGHT_LOG2}"));
        let turned = Turned::new(self, (first, group), thread, writer);
        let number = writer.new_word("add.s32", format_args!("{first}, {}", turned.within));
        let row = self.row_along(number, 0, writer);
        let vector = writer.new_word(
            "mad.lo.s32",
            format_args!("{group}, {}, {}", 1 << TURNED_VECTORS_LOG2, turned.vector),
        );
        let column = writer.new_word("mul.lo.s32", format_args!("{vector}, {}", vector_len(self.program)));
        let needed = self.needed(self.program.outputs.iter().copied());
        let spans = [self.vector(column)];
        let elements = Elements {
            turned: Some(&turned),
            ..self.elements_of(&row, &spans)
        };
        elements.write(&needed, writer)?;
        writer.line("ret");
        Ok(())
    }

    /// One or two vectors of a thread, and behind the last one elements, where it has one.
    fn flat_pairs(&self, writer: &mut Writer) -> Result<(), Malformed> {
        let row = self.flat_row(writer);
        let len = vector_len(self.program);
        let vectors = self.word(self.block.rows, writer);
        let log2 = self.word(self.block.lanes_log2, writer);
        let block = self.block_number(Axis::X, writer);
        let thread = writer.new_word("mov.u32", "%tid.x");
        let first = writer.new_word("shl.b32", format_args!("{block}, {log2}"));
        let own = writer.new_word("mad.lo.s32", format_args!("{first}, {THREADS}, {thread}"));
        let is_single = writer.new_predicate("setp.ge.u32", format_args!("{own}, {vectors}"));
        writer.line(format_args!("@{is_single} bra $single"));
        let other = writer.new_word("add.s32", format_args!("{own}, {THREADS}"));
        let is_within = writer.new_predicate("setp.lt.u32", format_args!("{other}, {vectors}"));
        let has_two = writer.new_predicate("setp.ne.u32", format_args!("{log2}, 0"));
        let exists = writer.new_predicate("and.pred", format_args!("{is_within}, {has_two}"));
        // Without another one its first again, whose elements are not computed.
        let other = writer.new_word("selp.b32", format_args!("{other}, {own}, {exists}"));
        let is_missing = writer.new_predicate("setp.eq.u32", format_args!("{other}, {own}"));
        let needed = self.needed(self.program.outputs.iter().copied());
        let new = || vec![Vec::new(); self.program.steps.len()];
        let spans = [own, other].map(|vector| {
            let column = writer.new_word("mul.lo.s32", format_args!("{vector}, {len}"));
            [self.vector(column)]
        });
        let both = [0, 1].map(|k| self.elements_of(&row, &spans[k]).load_wanted(&needed, &new(), writer));
        for (k, loaded) in both.iter().enumerate() {
            if k > 0 {
                writer.line(format_args!("@{is_missing} ret"));
            }
            let (elements, mut values) = (self.elements_of(&row, &spans[k]), new());
            elements.compute_loaded(&needed, loaded, &mut values, writer)?;
            (0..self.program.outputs.len()).for_each(|output| elements.store(output, &values, writer));
        }
        writer.line("ret");
        self.single(&row, own, vectors, writer)
    }

    /// So many vectors of each thread, a block's threads apart. All of them are loaded first.
    fn full_blocks(&self, vectors: u32, writer: &mut Writer) -> Result<(), Malformed> {
        let row = self.flat_row(writer);
        let len = vector_len(self.program);
        let block = self.block_number(Axis::X, writer);
        let thread = writer.new_word("mov.u32", "%tid.x");
        let threads = threads(self.program);
        let first = writer.new_word("mad.lo.s32", format_args!("{block}, {}, {thread}", vectors * threads));
        let span = |k: u32| {
            let vector = match k {
                0 => first,
                _ => writer.new_word("add.s32", format_args!("{first}, {}", k * threads)),
            };
            let column = writer.new_word("mul.lo.s32", format_args!("{vector}, {len}"));
            [self.vector(column)]
        };
        let spans: Vec<[Span; 1]> = (0..vectors).map(span).collect();
        let needed = self.needed(self.program.outputs.iter().copied());
        let new = || vec![Vec::new(); self.program.steps.len()];
        let mut load = |spans| self.elements_of(&row, spans).load_wanted(&needed, &new(), writer);
        let loaded: Vec<_> = spans.iter().map(|spans| load(spans)).collect();
        for (spans, loaded) in spans.iter().zip(&loaded) {
            let (elements, mut values) = (self.elements_of(&row, spans), new());
            elements.compute_loaded(&needed, loaded, &mut values, writer)?;
            (0..self.program.outputs.len()).for_each(|output| elements.store(output, &values, writer));
        }
        writer.line("ret");
        Ok(())
    }

    /// Vectors, and behind the last one elements.
    fn flat_vectors(&self, thread: Register, writer: &mut Writer) -> Result<(), Malformed> {
        let row = self.flat_row(writer);
        let len = vector_len(self.program);
        let vectors = self.word(self.block.rows, writer);
        let is_single = writer.new_predicate("setp.ge.u32", format_args!("{thread}, {vectors}"));
        writer.line(format_args!("@{is_single} bra $single"));
        let column = writer.new_word("mul.lo.s32", format_args!("{thread}, {len}"));
        self.elements(&row, &[self.vector(column)], writer)?;
        self.single(&row, thread, vectors, writer)
    }

    /// Where threads beyond the last vector go on: each has an element behind it, if there is one.
    fn single(&self, row: &Row, thread: Register, vectors: Register, writer: &mut Writer) -> Result<(), Malformed> {
        let len = vector_len(self.program);
        writer.mark("$single:");
        let column = writer.new_word("mad.lo.s32", format_args!("{vectors}, {}, {thread}", len - 1));
        self.return_beyond(column, self.block.columns, writer);
        self.elements(row, &[Span::element(column)], writer)
    }

    /// Elements as far apart as there are lanes.
    fn spread(
        &self,
        row: &Row,
        group: Register,
        (lane, log2): (Register, String),
        writer: &mut Writer,
    ) -> Result<(), Malformed> {
        let len = spread_len(self.program);
        let first = writer.new_word("mul.lo.s32", format_args!("{group}, {len}"));
        let column = |k: usize, writer: &mut Writer| {
            let number = if k == 0 {
                first
            } else {
                writer.new_word("add.s32", format_args!("{first}, {k}"))
            };
            let start = writer.new_word("shl.b32", format_args!("{number}, {log2}"));
            writer.new_word("add.s32", format_args!("{start}, {lane}"))
        };
        let own = column(0, writer);
        let columns = self.return_beyond(own, self.block.columns, writer);
        let mut spans = vec![Span::element(own)];
        for k in 1..len {
            let column = column(k, writer);
            spans.push(Span::within(column, columns, own, writer));
        }
        self.elements(row, &spans, writer)
    }

    fn vector(&self, column: Register) -> Span {
        Span {
            column,
            len: vector_len(self.program),
            exists: None,
        }
    }

    fn elements(&self, row: &Row, spans: &[Span], writer: &mut Writer) -> Result<(), Malformed> {
        let needed = self.needed(self.program.outputs.iter().copied());
        self.elements_of(row, spans).write(&needed, writer)?;
        writer.line("ret");
        Ok(())
    }

    pub(super) fn elements_of<'s>(&'s self, row: &'s Row, spans: &'s [Span]) -> Elements<'s> {
        let Self {
            program,
            block,
            callees,
            operations,
            streaming,
            once,
            given,
            ..
        } = *self;
        Elements {
            program,
            block,
            callees,
            operations,
            row,
            spans,
            streaming,
            once,
            given,
            stashed: None,
            turned: None,
        }
    }

    /// What these steps need, they too.
    pub(super) fn needed(&self, steps: impl Iterator<Item = Value>) -> Vec<bool> {
        let program = self.program;
        program.needed(steps, |step| match &self.operations[step] {
            Some(operation) => operation.arguments(),
            None => program.arguments(&program.steps[step]),
        })
    }

    /// Ends the thread unless `number` is less than the word at that offset, which it gives.
    fn return_beyond(&self, number: Register, offset: usize, writer: &mut Writer) -> Register {
        let count = self.word(offset, writer);
        let is_beyond = writer.new_predicate("setp.ge.u32", format_args!("{number}, {count}"));
        writer.line(format_args!("@{is_beyond} ret"));
        count
    }

    /// All elements are one row.
    pub(super) fn flat_row(&self, writer: &mut Writer) -> Row {
        let inputs = (0..self.program.inputs.len()).map(|input| self.address(self.block.input(input), writer));
        let inputs = inputs.collect();
        Row {
            first: None,
            coordinates: Vec::new(),
            inputs,
            outputs: self.outputs(writer),
        }
    }

    /// Row `number`, if there is one.
    fn row(&self, number: Register, writer: &mut Writer) -> Row {
        self.return_beyond(number, self.block.rows, writer);
        self.row_along(number, 0, writer)
    }

    /// Row `number` along the axes from `from` on to the last but one. The place along those before is 0.
    pub(super) fn row_along(&self, number: Register, from: usize, writer: &mut Writer) -> Row {
        let outer = usize::from(self.program.axes) - 1;
        let mut coordinates = vec![number; outer - from];
        let mut rest = number;
        let order = axes_of_rows(self.program);
        for place in (from + 1..outer).rev() {
            let (quotient, coordinate) = self.divide(rest, self.block.middle(place), writer);
            coordinates[order[place] - from] = coordinate;
            rest = quotient;
        }
        if from < outer {
            coordinates[order[from] - from] = rest;
        }
        let wide = coordinates
            .iter()
            .map(|coordinate| writer.new_double("cvt.u64.u32", coordinate));
        let wide: Vec<Register> = wide.collect();
        let first = self.first_of_row(number, &coordinates, writer);
        let coordinates = wide;
        let mut inputs = Vec::with_capacity(self.program.inputs.len());
        for (input, of) in self.program.inputs.iter().enumerate() {
            let mut address = self.address(self.block.input(input), writer);
            for (axis, coordinate) in (from..).zip(&coordinates) {
                if of.layout != Layout::Single {
                    let stride = self.double(self.block.stride(input, axis), writer);
                    address = writer.new_double("mad.lo.s64", format_args!("{coordinate}, {stride}, {address}"));
                }
            }
            inputs.push(address);
        }
        let outputs = self.outputs(writer);
        Row {
            first: Some(first),
            coordinates,
            inputs,
            outputs,
        }
    }

    /// The number of a row's first element in C order.
    fn first_of_row(&self, number: Register, coordinates: &[Register], writer: &mut Writer) -> Register {
        let strides = (0..coordinates.len()).map_while(|axis| self.block.of_rows(axis));
        let along = coordinates.iter().zip(strides);
        let reordered = along.fold(None, |before: Option<Register>, (coordinate, stride)| {
            let stride = self.word(stride, writer);
            Some(match before {
                Some(before) => writer.new_word("mad.lo.s32", format_args!("{coordinate}, {stride}, {before}")),
                None => writer.new_word("mul.lo.s32", format_args!("{coordinate}, {stride}")),
            })
        });
        reordered.unwrap_or_else(|| {
            let columns = self.word(self.block.columns, writer);
            writer.new_word("mul.lo.s32", format_args!("{number}, {columns}"))
        })
    }

    /// The number of the thread, of blocks of so many.
    fn thread(&self, threads: u32, writer: &mut Writer) -> Register {
        let block = self.block_number(Axis::X, writer);
        let thread = writer.new_word("mov.u32", "%tid.x");
        writer.new_word("mad.lo.s32", format_args!("{block}, {threads}, {thread}"))
    }

    pub(super) fn outputs(&self, writer: &mut Writer) -> Vec<Register> {
        let outputs = 0..self.program.outputs.len();
        outputs
            .map(|output| self.address(self.block.output(output), writer))
            .collect()
    }

    /// Quotient and remainder of `number` by the extent at that offset, as `Extent::div_rem` has them.
    pub(super) fn divide(&self, number: Register, extent: usize, writer: &mut Writer) -> (Register, Register) {
        let [len, magic, shift] = [0, 4, 8].map(|offset| self.word(extent + offset, writer));
        let high = writer.new_word("mul.hi.u32", format_args!("{number}, {magic}"));
        let sum = writer.new_word("add.s32", format_args!("{high}, {number}"));
        let quotient = writer.new_word("shr.u32", format_args!("{sum}, {shift}"));
        let product = writer.new_word("mul.lo.s32", format_args!("{quotient}, {len}"));
        (
            quotient,
            writer.new_word("sub.s32", format_args!("{number}, {product}")),
        )
    }

    pub(super) fn word(&self, offset: usize, writer: &mut Writer) -> Register {
        writer.new_word("ld.param.b32", self.given.at(offset))
    }

    pub(super) fn double(&self, offset: usize, writer: &mut Writer) -> Register {
        writer.new_double("ld.param.b64", self.given.at(offset))
    }

    /// The address at that offset, as one of global memory.
    fn address(&self, offset: usize, writer: &mut Writer) -> Register {
        let address = self.double(offset, writer);
        writer.new_double("cvta.to.global.u64", address)
    }
}

/// Quotient and remainder of `number` by that power of two.
fn split(number: Register, log2: Register, writer: &mut Writer) -> (Register, Register) {
    let quotient = writer.new_word("shr.u32", format_args!("{number}, {log2}"));
    let first = writer.new_word("shl.b32", format_args!("{quotient}, {log2}"));
    (quotient, writer.new_word("sub.s32", format_args!("{number}, {first}")))
}
