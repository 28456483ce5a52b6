// SPDX-License-Identifier: MIT OR Apache-2.0
//! 16-bit floats: what GPUs have instructions for, on two numbers in the halves of a word where a thread has neighbours.
//!
//! In the graph an operation on 16-bit floats is one on `f32` between casts. Device functions for these would take and give
//! each number in a word of its own, and the moves would be most of what a kernel does. So the casts are written here; and the
//! sum, the difference and the product of two 16-bit floats, rounded to 16 bits, is one instruction, which gives the same
//! bits: `f32` has more than twice the digits and two, so that rounding to it first changes nothing (S. Figueroa, "When is
//! double rounding innocuous?", ACM SIGNUM Newsletter 30, 1995), and what is too small for that is 0 or exact.

use cuda_std::scalar::ScalarType;

use super::exponential::{exponentials_of_differences, of_difference};
use super::reduce::is_maximum;
use super::writer::{Register, Writer};
use crate::backend::DeviceFnInfo;
use crate::expr::graph::function::{self, Binary, Unary};
use crate::expr::program::{Program, Step, Value};

/// What a step is that calls no function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    /// The `f32` that a float of this type is.
    Widen(ScalarType, Value),
    /// The float of this type that is nearest to an `f32`.
    Round(ScalarType, Value),
    /// Of two floats of this type, the result too.
    Binary(ScalarType, Binary, [Value; 2]),
    /// [`exponentials_of_differences`].
    Exponential(Value),
}

/// The compute capability from which on GPUs have instructions for `bf16`, and extremes that are NaN where a number is; and the
/// version of PTX that has them.
pub(super) const AMPERE: ((u32, u32), (u32, u32)) = ((8, 0), (7, 0));

/// Whether a function casts between a 16-bit float and `f32`.
pub(super) fn is_cast(function: &DeviceFnInfo) -> bool {
    function::widened(function).or(function::rounded(function)).is_some()
}

/// Whether a function is a sum, a difference or a product of `f32`.
pub(super) fn is_arithmetic(function: &DeviceFnInfo) -> bool {
    let is = |binary| function::binary(binary, ScalarType::F32).is_some_and(|own| own == function);
    let is_square = || function::unary(Unary::Square, ScalarType::F32).is_some_and(|own| own == function);
    [Binary::Add, Binary::Sub, Binary::Mul].into_iter().any(is) || is_square()
}

impl Operation {
    /// What each step is on a GPU of that compute capability; `None` for those that are no such operations.
    pub(super) fn all(program: &Program, capability: (u32, u32)) -> Vec<Option<Self>> {
        let is_there = |operation: &Self| !operation.is_newer() || capability >= AMPERE.0;
        let of = |number| Self::of(program, number).filter(is_there);
        (0..program.steps.len()).map(of).collect()
    }

    fn of(program: &Program, number: usize) -> Option<Self> {
        let called = |value: Value| match program.steps[usize::from(value)] {
            Step::Call(function, arguments) => Some((program.functions[usize::from(function)], arguments)),
            _ => None,
        };
        let (function, [of, ..]) = called(number as Value)?;
        if let Some(difference) = of_difference(program, number, |fold| is_maximum(program, fold)) {
            return Some(Self::Exponential(difference));
        }
        if let Some(float) = function::widened(function) {
            return Some(Self::Widen(float, of));
        }
        let float = function::rounded(function)?;
        let widened = |value: Value| {
            let (function, [of, ..]) = called(value)?;
            (function::widened(function) == Some(float)).then_some(of)
        };
        let fused = || {
            let (function, [a, b, ..]) = called(of)?;
            let is = |binary: &Binary| function::binary(*binary, ScalarType::F32) == Some(function);
            if let Some(binary) = [Binary::Add, Binary::Sub, Binary::Mul].into_iter().find(is) {
                return Some(Self::Binary(float, binary, [widened(a)?, widened(b)?]));
            }
            let is_square = function::unary(Unary::Square, ScalarType::F32) == Some(function);
            is_square.then_some(Self::Binary(float, Binary::Mul, [widened(a)?; 2]))
        };
        Some(fused().unwrap_or(Self::Round(float, of)))
    }

    /// Whether it takes an instruction of [Ampere](AMPERE)'s.
    pub(super) fn is_newer(&self) -> bool {
        matches!(
            *self,
            Self::Round(ScalarType::Bf16, _) | Self::Binary(ScalarType::Bf16, ..) | Self::Exponential(_)
        )
    }

    /// Whether it is an exponential.
    #[cfg(test)]
    pub(super) fn is_exponential(&self) -> bool {
        matches!(self, Self::Exponential(_))
    }

    /// The steps that it takes.
    pub(super) fn arguments(&self) -> &[Value] {
        match self {
            Self::Widen(_, of) | Self::Round(_, of) | Self::Exponential(of) => std::slice::from_ref(of),
            Self::Binary(_, _, of) => of,
        }
    }

    /// Writes it, of `count` elements; an argument has a number for each, or one for all.
    pub(super) fn write(self, count: usize, arguments: &[&[Register]], writer: &mut Writer) -> Vec<Register> {
        let at = |argument: usize, k: usize| arguments[argument][if arguments[argument].len() == 1 { 0 } else { k }];
        match self {
            Self::Exponential(_) => {
                let differences: Vec<Register> = (0..count).map(|k| at(0, k)).collect();
                exponentials_of_differences(&differences, writer)
            }
            Self::Widen(float, _) => (0..count).map(|k| widen(float, at(0, k), writer)).collect(),
            Self::Round(ScalarType::Bf16, _) if count.is_multiple_of(2) => {
                let pair = |k: usize| {
                    let both = format_args!("{}, {}", at(0, k + 1), at(0, k)).to_string();
                    halves(writer.new_word("cvt.rn.bf16x2.f32", both), writer)
                };
                (0..count).step_by(2).flat_map(pair).collect()
            }
            Self::Round(float, _) => {
                let opcode = match float {
                    ScalarType::F16 => "cvt.rn.f16.f32",
                    _ => "cvt.rn.bf16.f32",
                };
                (0..count).map(|k| writer.new_half(opcode, at(0, k))).collect()
            }
            Self::Binary(float, binary, _) if count.is_multiple_of(2) => {
                let pair = |k: usize| {
                    let [a, b] = [0, 1].map(|argument| pack(at(argument, k), at(argument, k + 1), writer));
                    halves(combine(float, binary, a, b, writer), writer)
                };
                (0..count).step_by(2).flat_map(pair).collect()
            }
            // Of the upper halves, which are 0, each of these is 0.
            Self::Binary(float, binary, _) => {
                let one = |k: usize| {
                    let [a, b] = [0, 1].map(|argument| word(at(argument, k), writer));
                    combine(float, binary, a, b, writer)
                };
                (0..count).map(one).collect()
            }
        }
    }
}

/// A number of 16 bits in a word, the upper half 0; any other as it is.
pub(super) fn word(number: Register, writer: &mut Writer) -> Register {
    match number {
        Register::Half(_) => writer.new_word("cvt.u32.u16", number),
        _ => number,
    }
}

/// Two numbers of 16 bits in a word.
pub(super) fn pack(low: Register, high: Register, writer: &mut Writer) -> Register {
    match (low, high) {
        (Register::Half(_), Register::Half(_)) => writer.new_word("mov.b32", format_args!("{{{low}, {high}}}")),
        _ => {
            let (low, high) = (word(low, writer), word(high, writer));
            writer.new_word("prmt.b32", format_args!("{low}, {high}, 0x5410"))
        }
    }
}

/// The halves of a word, the lower one first.
pub(super) fn halves(word: Register, writer: &mut Writer) -> [Register; 2] {
    let [low, high] = [writer.half(), writer.half()];
    writer.line(format_args!("mov.b32 {{{low}, {high}}}, {word}"));
    [low, high]
}

fn widen(float: ScalarType, number: Register, writer: &mut Writer) -> Register {
    match float {
        ScalarType::F16 => {
            let half = match number {
                Register::Half(_) => number,
                _ => writer.new_half("cvt.u16.u32", number),
            };
            writer.new_word("cvt.f32.f16", half)
        }
        // The upper half of the `f32`.
        _ => {
            let word = word(number, writer);
            writer.new_word("shl.b32", format_args!("{word}, 16"))
        }
    }
}

/// The results for both halves of two words.
fn combine(float: ScalarType, binary: Binary, a: Register, b: Register, writer: &mut Writer) -> Register {
    if float == ScalarType::F16 {
        // `.rn` keeps ptxas from making one of two.
        let opcode = match binary {
            Binary::Add => "add.rn.f16x2",
            Binary::Sub => "sub.rn.f16x2",
            _ => "mul.rn.f16x2",
        };
        return writer.new_word(opcode, format_args!("{a}, {b}"));
    }
    // a · 1 + b, b · −1 + a, a · b − 0: compute capability 8.0 has nothing else.
    let mut both = |bits: u32| writer.new_word("mov.b32", format_args!("{:#x}", bits << 16 | bits));
    let [a, b, c] = match binary {
        Binary::Add => [a, both(0x3f80), b],
        Binary::Sub => [b, both(0xbf80), a],
        _ => [a, b, both(0x8000)],
    };
    writer.new_word("fma.rn.bf16x2", format_args!("{a}, {b}, {c}"))
}
