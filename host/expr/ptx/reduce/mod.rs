// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kernels that combine elements along an axis, and go on with what that gave.
//!
//! Where a row lies along the last axis, a warp or a part of one has it, or a block. Its threads have groups of neighbours in
//! turn. If a row is not too long, all of it is in registers at once, and is read once, however many reductions one after
//! another there are. Else threads go through the row, or what of it is not in registers, in a loop, for each reduction that
//! depends on another one once more, and find it in the cache, or in shared memory, where that has room
//! ([`stash`]). A thread combines its elements in four chains, then the chains; then a warp by shuffles, and a
//! block by way of shared memory. Everybody has the row's numbers then, and computes what they are needed for.
//!
//! Where neighbours belong to different rows, a warp has as many rows side by side, or, of few, a part of a warp; the warps of a
//! block, and their parts, share the elements. They go through them in a loop, once, or have them in registers, where all have room
//! ([`held`]).
//!
//! A row that has more than a block's elements can have several parts; then what is stored are the numbers of each part.

mod cluster;
mod columns;
mod held;
mod parts;
mod rounds;
mod rows;
mod stash;
mod warps;

use std::fmt::Display;

use crate::expr::graph::function::{self, Binary};
use crate::expr::program::{Combine, Fold, Form, GROUP, Program, Reduce, Step, Value};
use crate::expr::ptx::Malformed;
use crate::expr::ptx::halves::{AMPERE, word};
use crate::expr::ptx::kernel::Kernel;
use crate::expr::ptx::order::Axis;
use crate::expr::ptx::steps::Values;
use crate::expr::ptx::writer::{Register, Writer, register_bits};
use cuda_std::scalar::ScalarType;

pub(in crate::expr) use cluster::CLUSTERS;
pub(super) use stash::NAME as NAME_OF_STASH;
pub(in crate::expr) use stash::STASH;

/// The name of the shared memory.
const SHARED: &str = "folded";

/// Bytes for a number there.
const NUMBER: usize = 8;

/// The numbers of a fold.
type Numbers = Vec<Register>;

/// Reductions as a part of a kernel.
pub(super) struct Folding<'a> {
    kernel: &'a Kernel<'a>,
    reduce: &'a Reduce,
    /// As [`Program::passes`](crate::expr::program::Program::passes).
    passes: Vec<u8>,
    /// Whether the GPU has [`extreme`]s.
    has_extremes: bool,
}

/// The instruction for the larger of two `f32`.
const MAXIMUM: &str = "max.NaN.f32";

/// The instruction for what a fold combines, where it is the smaller or larger of two `f32`: NaN if one is.
fn extreme(program: &Program, fold: &Fold) -> Option<&'static str> {
    let [(function, [0, 1, ..])] = fold.combine.calls[..] else {
        return None;
    };
    let is = |binary| function::binary(binary, ScalarType::F32) == Some(program.functions[usize::from(function)]);
    match () {
        () if is(Binary::Minimum) => Some("min.NaN.f32"),
        () if is(Binary::Maximum) => Some(MAXIMUM),
        () => None,
    }
}

/// Whether a fold gives the largest of `f32`.
pub(super) fn is_maximum(program: &Program, fold: &Fold) -> bool {
    extreme(program, fold) == Some(MAXIMUM)
}

/// Whether there are extremes, and a GPU of that compute capability has them.
pub(super) fn has_extremes(program: &Program, capability: (u32, u32)) -> bool {
    capability >= AMPERE.0 && program.folds.iter().any(|fold| extreme(program, fold).is_some())
}

impl<'a> Folding<'a> {
    pub(super) fn new(kernel: &'a Kernel<'a>, reduce: &'a Reduce, has_extremes: bool) -> Self {
        Self {
            kernel,
            reduce,
            has_extremes,
            passes: kernel.program.passes(),
        }
    }

    pub(super) fn write(&self, writer: &mut Writer) -> Result<(), Malformed> {
        match self.reduce.form {
            Form::Rows {
                lanes_log2,
                held,
                looped,
            } => self.rows(lanes_log2, (usize::from(held), usize::from(looped)), writer),
            Form::Columns {
                in_flight,
                across_log2,
                is_held,
                ..
            } => match is_held {
                true => self.held_columns(usize::from(in_flight), across_log2, writer),
                false => self.columns(usize::from(in_flight), across_log2, writer),
            },
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

    fn outputs(&self, is_row: bool) -> impl Iterator<Item = usize> {
        (0..self.reduce.is_row.len()).filter(move |&output| self.reduce.is_row[output] == is_row)
    }

    /// The part of a block: where it begins and ends.
    fn part(&self, writer: &mut Writer) -> (Register, Register) {
        let reduce = &self.kernel.block.reduce;
        if !self.reduce.in_parts {
            // It begins at 0, as its number: were that a constant, ptxas would have a thread's loads right behind each other,
            // which takes longer.
            let part = writer.new_word("mov.u32", "%ctaid.y");
            return (part, self.kernel.word(reduce.length, writer));
        }
        let part = self.kernel.block_number(Axis::Y, writer);
        let len = self.kernel.word(reduce.part_len, writer);
        let begin = writer.new_word("mul.lo.s32", format_args!("{part}, {len}"));
        let sum = writer.new_word("add.s32", format_args!("{begin}, {len}"));
        let length = self.kernel.word(reduce.length, writer);
        (begin, writer.new_word("min.u32", format_args!("{sum}, {length}")))
    }

    fn needed_in_pass(&self, folds: &[usize], elements: &[usize]) -> Vec<bool> {
        let of_folds = folds
            .iter()
            .flat_map(|&fold| self.kernel.program.folds[fold].elements.iter().copied());
        let of_outputs = elements.iter().map(|&output| self.kernel.program.outputs[output]);
        self.kernel.needed(of_folds.chain(of_outputs))
    }

    /// Chains of nothing, in registers of their own.
    fn identities(&self, folds: &[usize], writer: &mut Writer) -> Vec<[Numbers; GROUP]> {
        let chain = |fold: &usize, writer: &mut Writer| identity(&self.kernel.program.folds[*fold].combine, writer);
        folds
            .iter()
            .map(|fold| std::array::from_fn(|_| chain(fold, writer)))
            .collect()
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
            let value = word(of_step[if of_step.len() == 1 { 0 } else { at }], writer);
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

    /// Numbers with those of another thread, which is found in that way, so far away among so many neighbours.
    fn with_others(
        &self,
        fold: &Fold,
        own: &[Register],
        (way, by, width): (&str, u32, u32),
        writer: &mut Writer,
    ) -> Result<Numbers, Malformed> {
        let shuffled = own.iter().map(|&number| shuffle(way, number, by, width, writer));
        let other: Numbers = shuffled.collect();
        self.combine(fold, own, &other, writer)
    }

    /// All of these, a power of two, combined: the first half with the second, and so on.
    fn combine_all(&self, fold: &Fold, mut all: Vec<Numbers>, writer: &mut Writer) -> Result<Numbers, Malformed> {
        while all.len() > 1 {
            let second = all.split_off(all.len() / 2);
            for (a, b) in all.iter_mut().zip(second) {
                *a = self.combine(fold, a, &b, writer)?;
            }
        }
        Ok(all.swap_remove(0))
    }

    fn combine(&self, fold: &Fold, a: &[Register], b: &[Register], writer: &mut Writer) -> Result<Numbers, Malformed> {
        if self.has_extremes
            && let Some(opcode) = extreme(self.kernel.program, fold)
        {
            return Ok(vec![writer.new_word(opcode, format_args!("{}, {}", a[0], b[0]))]);
        }
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

    /// What a fold gives, with the NaN that the function for two numbers gives, where another one is.
    fn finish(&self, fold: usize, number: Register, writer: &mut Writer) -> Register {
        let fold = &self.kernel.program.folds[fold];
        if !self.has_extremes || extreme(self.kernel.program, fold).is_none() {
            return number;
        }
        let is_nan = writer.new_predicate("setp.nan.f32", format_args!("{number}, {number}"));
        writer.new_word(
            "selp.b32",
            format_args!("{:#x}, {number}, {is_nan}", f32::NAN.to_bits()),
        )
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

    /// How many parts a row has, and which one the block has, if it has several.
    fn number_of_part(&self, writer: &mut Writer) -> Option<(Register, Register)> {
        if !self.reduce.in_parts {
            return None;
        }
        let reduce = &self.kernel.block.reduce;
        let parts = self.kernel.word(reduce.parts, writer);
        let first = self.kernel.word(reduce.first_part, writer);
        let part = self.kernel.block_number(Axis::Y, writer);
        Some((parts, writer.new_word("add.s32", format_args!("{part}, {first}"))))
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

/// Where both hold; what has no predicate does.
fn both(a: Option<Register>, b: Option<Register>, writer: &mut Writer) -> Option<Register> {
    match (a, b) {
        (Some(a), Some(b)) => Some(writer.new_predicate("and.pred", format_args!("{a}, {b}"))),
        (a, b) => a.or(b),
    }
}

/// A number of another thread among `width` neighbours.
fn shuffle(which: &str, number: Register, by: impl Display, width: u32, writer: &mut Writer) -> Register {
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
