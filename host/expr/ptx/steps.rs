// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a thread does with its elements: loads, steps, stores, in this order.
//!
//! All loads come first, so that they are in flight together. Steps that are the same for all elements of the thread are
//! done once; each of the others for all elements before the next one, which leaves the processor independent work.

use cuda_std::scalar::ScalarType;
use rustc_hash::FxHashMap;

use super::Malformed;
use super::arguments::Block;
use super::divide::{Numerators, by_one, is_division};
use super::exponential::{exponentials, is_exponential};
use super::halves::Operation;
use super::inline::Callee;
use super::memory::{self, Hint, Loaded};
use super::stream::Streaming;
use super::together::Given;
use super::turned::Turned;
use super::writer::{Register, Writer, register_bits};
use crate::expr::program::{Layout, Program, Step};

/// Neighbours along the last axis, in one access.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    /// The column of the first, 32 bits.
    pub column: Register,
    pub len: usize,
    /// A predicate; without one they exist.
    pub exists: Option<Register>,
}

impl Span {
    /// One element, which exists.
    pub fn element(column: Register) -> Self {
        Self {
            column,
            len: 1,
            exists: None,
        }
    }

    /// The element of a column, if there are more columns; else none, in the place of another one.
    pub fn within(column: Register, columns: Register, other: Register, writer: &mut Writer) -> Self {
        let exists = writer.new_predicate("setp.lt.u32", format_args!("{column}, {columns}"));
        Self {
            column: writer.new_word("selp.b32", format_args!("{column}, {other}, {exists}")),
            len: 1,
            exists: Some(exists),
        }
    }
}

/// The row of a thread's elements.
#[derive(Debug)]
pub(super) struct Row {
    /// The number of its first element, 32 bits; without one it is 0.
    pub first: Option<Register>,
    /// The places along all axes but the last, 64 bits.
    pub coordinates: Vec<Register>,
    /// Where the row begins in each input.
    pub inputs: Vec<Register>,
    /// The outputs' addresses.
    pub outputs: Vec<Register>,
}

/// The code for a thread's elements.
pub(super) struct Elements<'a> {
    pub program: &'a Program,
    pub block: &'a Block,
    pub callees: &'a [Callee<'a>],
    pub operations: &'a [Option<Operation>],
    pub row: &'a Row,
    pub spans: &'a [Span],
    /// How inputs are loaded that are streamed, if some are.
    pub streaming: Option<Streaming>,
    /// Whether neighbours are loaded that nobody reads again soon.
    pub once: bool,
    pub given: Given,
    /// Where inputs are in shared memory.
    pub stashed: Option<&'a Stashed>,
    /// What a thread loads for others, where inputs are [turned](Layout::Turned).
    pub turned: Option<&'a Turned>,
}

/// Of inputs in shared memory the address of each span.
pub(super) type Stashed = FxHashMap<usize, Vec<Register>>;

/// An input's elements: of each span, or one.
pub(super) type Inputs = Vec<Vec<Loaded>>;

/// The numbers that each step has given: one for each element of the thread, or one for all; none yet.
pub(super) type Values = Vec<Vec<Register>>;

impl Elements<'_> {
    /// Writes it, where these steps are needed.
    pub(super) fn write(&self, needed: &[bool], writer: &mut Writer) -> Result<(), Malformed> {
        let mut values = vec![Vec::new(); self.program.steps.len()];
        self.compute(needed, &mut values, writer)?;
        for output in 0..self.program.outputs.len() {
            self.store(output, &values, writer);
        }
        Ok(())
    }

    /// Computes those of the wanted steps that have no values yet.
    pub(super) fn compute(&self, wanted: &[bool], values: &mut Values, writer: &mut Writer) -> Result<(), Malformed> {
        let inputs = self.load_wanted(wanted, values, writer);
        self.compute_loaded(wanted, &inputs, values, writer)
    }

    /// Loads the inputs among the wanted steps that have no values yet.
    pub(super) fn load_wanted(&self, wanted: &[bool], values: &Values, writer: &mut Writer) -> Inputs {
        let mut inputs = vec![Vec::new(); self.program.inputs.len()];
        let mut turned = Vec::new();
        for (number, step) in self.program.steps.iter().enumerate() {
            if let Step::Input(input) = *step
                && wanted[number]
                && values[number].is_empty()
            {
                let input = usize::from(input);
                match (self.turned, self.program.inputs[input].layout) {
                    (Some(own), Layout::Turned) => turned.push((input, own.load(self, input, writer))),
                    _ => inputs[input] = self.load(input, writer),
                }
            }
        }
        if let Some(own) = self.turned
            && !turned.is_empty()
        {
            own.exchange(&turned, &mut inputs, writer);
        }
        inputs
    }

    /// [`compute`](Self::compute) of inputs that are loaded.
    pub(super) fn compute_loaded(
        &self,
        wanted: &[bool],
        inputs: &Inputs,
        values: &mut Values,
        writer: &mut Writer,
    ) -> Result<(), Malformed> {
        let is_new = |number: usize, values: &Values| wanted[number] && values[number].is_empty();
        let varies = self.varying();
        for is_varying in [false, true] {
            for (number, step) in self.program.steps.iter().enumerate() {
                if varies[number] == is_varying && is_new(number, values) {
                    values[number] = match self.operations[number] {
                        Some(operation) => self.operation(operation, is_varying, values, writer),
                        None => self.step(step, is_varying, inputs, values, writer)?,
                    };
                }
            }
        }
        Ok(())
    }

    fn len(&self) -> usize {
        self.spans.iter().map(|span| span.len).sum()
    }

    /// Whether steps differ between the elements of a thread.
    pub(super) fn varying(&self) -> Vec<bool> {
        self.program.varying(|step| match *step {
            Step::Input(input) => !self.is_repeated(usize::from(input)),
            Step::Index(axis) => axis + 1 == self.program.axes,
            Step::Folded(..) => self.program.has_columns(),
            Step::Scalar(_) | Step::Call(..) => false,
        })
    }

    fn is_repeated(&self, input: usize) -> bool {
        matches!(self.program.inputs[input].layout, Layout::Single | Layout::Columns)
    }

    fn operation(&self, operation: Operation, is_varying: bool, values: &Values, writer: &mut Writer) -> Vec<Register> {
        let arguments = operation
            .arguments()
            .iter()
            .map(|&value| &values[usize::from(value)][..]);
        let arguments: Vec<&[Register]> = arguments.collect();
        operation.write(if is_varying { self.len() } else { 1 }, &arguments, writer)
    }

    /// The values of a step, one where it does not vary.
    fn step(
        &self,
        step: &Step,
        is_varying: bool,
        inputs: &Inputs,
        values: &Values,
        writer: &mut Writer,
    ) -> Result<Vec<Register>, Malformed> {
        match *step {
            Step::Input(input) => {
                let loaded = inputs[usize::from(input)].iter();
                Ok(loaded.flat_map(|loaded| loaded.unpack(writer)).collect())
            }
            Step::Scalar(scalar) => {
                let bits = register_bits(self.program.scalars[usize::from(scalar)]);
                let value = if bits == 64 { writer.double() } else { writer.word() };
                let at = self.block.scalar(self.program, usize::from(scalar));
                writer.line(format_args!("ld.param.b{bits} {value}, {}", self.given.at(at)));
                Ok(vec![value])
            }
            Step::Index(axis) => Ok(self.index(usize::from(axis), writer)),
            Step::Folded(..) => unreachable!("folds give their values when a pass is over"),
            Step::Call(function, _) => {
                let function = usize::from(function);
                let arguments = self.program.arguments(step);
                let count = if is_varying { self.len() } else { 1 };
                let list = |k: usize| {
                    let argument = |&value: &u16| {
                        let values = &values[usize::from(value)];
                        values[if values.len() == 1 { 0 } else { k }]
                    };
                    arguments.iter().map(argument).collect()
                };
                let lists: Vec<Vec<Register>> = (0..count).map(list).collect();
                let (callee, info) = (&self.callees[function], self.program.functions[function]);
                let applied = match arguments {
                    [numerator, divisor]
                        if count > 1 && is_division(info) && values[usize::from(*divisor)].len() == 1 =>
                    {
                        let divisor = values[usize::from(*divisor)][0];
                        let numerators: Vec<Register> = lists.iter().map(|list| list[0]).collect();
                        let divide = |numerator, writer: &mut Writer| callee.apply(&[numerator, divisor], writer);
                        let known = match self.operations[usize::from(*numerator)] {
                            Some(Operation::Exponential(_)) => Numerators::Exponentials,
                            _ => Numerators::Any,
                        };
                        by_one((&numerators, known), divisor, divide, writer)
                    }
                    _ if count > 1 && is_exponential(info) => {
                        let numbers: Vec<Register> = lists.iter().map(|list| list[0]).collect();
                        let any = |number, writer: &mut Writer| callee.call(number, writer);
                        exponentials(&numbers, any, writer)
                    }
                    _ => callee.apply_each(&lists, writer),
                };
                applied.map_err(|error| error.of(info.name))
            }
        }
    }

    /// The elements' places along an axis: all of them along the last, else one.
    fn index(&self, axis: usize, writer: &mut Writer) -> Vec<Register> {
        let first = |place: Register, writer: &mut Writer| {
            let at = match self.program.reduced_axis() {
                Some(reduced) if reduced == axis => self.block.reduce.start,
                _ if axis == 0 => self.block.first,
                _ => return place,
            };
            let first = writer.new_double("ld.param.b64", self.given.at(at));
            writer.new_double("add.s64", format_args!("{place}, {first}"))
        };
        if let Some(&place) = self.row.coordinates.get(axis) {
            return vec![first(place, writer)];
        }
        let mut places = Vec::with_capacity(self.len());
        for span in self.spans {
            let place = writer.new_double("cvt.u64.u32", span.column);
            let place = first(place, writer);
            places.push(place);
            for k in 1..span.len {
                places.push(writer.new_double("add.s64", format_args!("{place}, {k}")));
            }
        }
        places
    }

    /// An input's elements.
    fn load(&self, input: usize, writer: &mut Writer) -> Vec<Loaded> {
        let (ty, row) = (self.program.inputs[input].ty, self.row.inputs[input]);
        match self.program.inputs[input].layout {
            Layout::Single | Layout::Columns => vec![memory::load(ty, 1, row, Hint::None, writer)],
            Layout::Rows => {
                if let Some(addresses) = self.stashed.and_then(|stashed| stashed.get(&input)) {
                    let both = self.spans.iter().zip(addresses);
                    return both
                        .map(|(span, &address)| memory::load_shared(ty, span.len, address, writer))
                        .collect();
                }
                let load = |span: &Span| {
                    let address = element(row, span.column, ty, writer);
                    self.load_in_rows(input, span.len, address, writer)
                };
                self.spans.iter().map(load).collect()
            }
            Layout::Offset => self.load_apart(input, writer),
            Layout::Strided | Layout::Turned => self.load_strided(input, writer),
        }
    }

    /// Neighbours of an input that lies in rows.
    fn load_in_rows(&self, input: usize, len: usize, address: Register, writer: &mut Writer) -> Loaded {
        let ty = self.program.inputs[input].ty;
        let Some((streaming, back)) = self.streaming.zip(self.block.back(input)) else {
            let hint = if self.once { Hint::Once } else { Hint::None };
            return memory::load(ty, len, address, hint, writer);
        };
        let loaded = memory::load(ty, len, address, Hint::Policy(streaming.policy), writer);
        let back = writer.new_double("ld.param.b64", self.given.at(back));
        streaming.release(address, back, writer);
        loaded
    }

    /// Neighbours one by one.
    fn load_apart(&self, input: usize, writer: &mut Writer) -> Vec<Loaded> {
        let (ty, row) = (self.program.inputs[input].ty, self.row.inputs[input]);
        let mut loaded = Vec::with_capacity(self.len());
        for span in self.spans {
            let first = element(row, span.column, ty, writer);
            loaded.push(memory::load(ty, 1, first, Hint::None, writer));
            for k in 1..span.len {
                let address = writer.new_double("add.s64", format_args!("{first}, {}", k * ty.bytes()));
                loaded.push(memory::load(ty, 1, address, Hint::None, writer));
            }
        }
        loaded
    }

    /// The elements of a strided input, one by one.
    fn load_strided(&self, input: usize, writer: &mut Writer) -> Vec<Loaded> {
        let (ty, row) = (self.program.inputs[input].ty, self.row.inputs[input]);
        let at = self.block.stride(input, usize::from(self.program.axes) - 1);
        let stride = writer.new_double("ld.param.b64", self.given.at(at));
        let mut loaded = Vec::with_capacity(self.len());
        for span in self.spans {
            let column = writer.new_double("cvt.u64.u32", span.column);
            let mut address = writer.new_double("mad.lo.s64", format_args!("{column}, {stride}, {row}"));
            for k in 0..span.len {
                if k > 0 {
                    address = writer.new_double("add.s64", format_args!("{address}, {stride}"));
                }
                loaded.push(memory::load(ty, 1, address, Hint::None, writer));
            }
        }
        loaded
    }

    /// Stores an output's elements.
    pub(super) fn store(&self, output: usize, values: &Values, writer: &mut Writer) {
        let step = usize::from(self.program.outputs[output]);
        let (values, ty) = (&values[step], self.program.types[step]);
        let mut from = 0;
        for span in self.spans {
            let number = match self.row.first {
                Some(first) => writer.new_word("add.s32", format_args!("{first}, {}", span.column)),
                None => span.column,
            };
            let address = element(self.row.outputs[output], number, ty, writer);
            let elements = match values[..] {
                [one] => vec![one; span.len],
                _ => values[from..from + span.len].to_vec(),
            };
            memory::store(ty, &elements, address, span.exists, writer);
            from += span.len;
        }
    }
}

/// The address of element `number`, a word.
pub(super) fn element(first: Register, number: Register, ty: ScalarType, writer: &mut Writer) -> Register {
    writer.new_double("mad.wide.u32", format_args!("{number}, {}, {first}", ty.bytes()))
}
