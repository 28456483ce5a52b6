// SPDX-License-Identifier: MIT OR Apache-2.0
//! e^x of `f32` that are not positive, or NaN: what softmax and its kind take of a row's numbers less the largest of them.
//!
//! It is `exp` of `cuda_std`, `2^n e^r` with the same `n` and the same polynomial, and has its bits, by 14 instructions in place
//! of 19. Where `x` is not positive, `−150 ≤ n ≤ 0`, and nothing overflows: so `x` is not clamped from above, and two factors
//! are enough that nobody computes: `2^(n + 32)`, by which the product is exact, since it is normal, and `2^−32`, by which the
//! result is rounded once, as there. What `exp` takes to keep NaN where it clamps `x` is one instruction from compute
//! capability 8.0 on. All `f32` with that sign have been tried: no result differs.
//!
//! And e^x of several `f32` of a thread. Those that are no larger than 87 in size, whose results are normal, have the bits by 12
//! instructions, one of which asks: the result's exponent is the polynomial's and `n`. If one of a thread's is larger, or NaN,
//! all go the general way, one after another.

use super::Malformed;
use super::writer::{Register, Writer};
use crate::backend::DeviceFnInfo;
use crate::expr::graph::function::{self, Binary, Unary};
use crate::expr::program::{Fold, Program, Step, Value};
use cuda_std::scalar::ScalarType;

/// Below this the result is 0.
const FLOOR: f32 = -104.0;

/// What the exponent is larger by until the last multiplication, so that it is one of a normal number.
const RAISED: i32 = 32;

/// Adding this rounds to an integer, whose low bits are those of the sum: the exponent's of a float.
const ROUNDER: f32 = 12_582_912.0 + (127 + RAISED) as f32;

/// The same, of an integer that is added to an exponent: its low nine bits are those of the integer.
const PLAIN_ROUNDER: f32 = 12_582_912.0;

/// The largest numbers, and the smallest, of which the results are normal.
const MOST: f32 = 87.0;

/// The least number that is not rare: its result is above 2^−100, so that [quotients](super::divide) of it are usual ones.
const LEAST: f32 = -69.0;

/// −ln 2 in two parts.
const LN_2: [f32; 2] = [-core::f32::consts::LN_2, 1.904_654_2e-9];

/// Of `e^r`, the last one first.
const COEFFICIENTS: [f32; 7] = [
    1.383_828_2e-3,
    8.369_298e-3,
    4.166_808_7e-2,
    1.666_651_5e-1,
    4.999_999_4e-1,
    1.0,
    1.0,
];

/// The step of which a step is the exponential, where that is an element less the largest of its row: then it is not positive.
pub(super) fn of_difference(program: &Program, number: usize, is_maximum: impl Fn(&Fold) -> bool) -> Option<Value> {
    let called = |step: usize| match program.steps[step] {
        Step::Call(function, arguments) => Some((program.functions[usize::from(function)], arguments)),
        _ => None,
    };
    let is = |function: &'static DeviceFnInfo, wanted: Option<&'static DeviceFnInfo>| wanted == Some(function);
    let (function, [difference, ..]) = called(number)?;
    if !is_exponential(function) {
        return None;
    }
    let (function, [element, largest, ..]) = called(usize::from(difference))?;
    let Step::Folded(fold, _) = program.steps[usize::from(largest)] else {
        return None;
    };
    let fold = &program.folds[usize::from(fold)];
    let is_difference = is(function, function::binary(Binary::Sub, ScalarType::F32));
    (is_difference && fold.elements == [element] && is_maximum(fold)).then_some(difference)
}

/// Whether a function is the exponential of `f32`.
pub(super) fn is_exponential(function: &'static DeviceFnInfo) -> bool {
    function::unary(Unary::Exp, ScalarType::F32) == Some(function)
}

fn bits(number: f32) -> String {
    format!("0f{:08X}", number.to_bits())
}

/// e^x of a number that is not positive, or NaN.
pub(super) fn exponential(x: Register, writer: &mut Writer) -> Register {
    let x = writer.new_word("max.NaN.f32", format_args!("{x}, {}", bits(FLOOR)));
    let (p, shifted) = without_power(x, ROUNDER, writer);
    let power = writer.new_word("shl.b32", format_args!("{shifted}, 23"));
    let raised = writer.new_word("mul.rn.f32", format_args!("{p}, {power}"));
    let lowering = bits(f32::from_bits(((127 - RAISED) as u32) << 23));
    writer.new_word("mul.rn.f32", format_args!("{raised}, {lowering}"))
}

/// e^x of each of these numbers, which are not positive, or NaN. The writer has noted where one of several is [rare](LEAST).
pub(super) fn exponentials_of_differences(numbers: &[Register], writer: &mut Writer) -> Vec<Register> {
    let is_rare = |number: &Register, writer: &mut Writer| {
        writer.new_predicate("setp.ltu.f32", format_args!("{number}, {}", bits(LEAST)))
    };
    let [first, rest @ ..] = numbers else { return Vec::new() };
    if rest.is_empty() {
        return vec![exponential(*first, writer)];
    }
    let mut is_any = is_rare(first, writer);
    for number in rest {
        let own = is_rare(number, writer);
        is_any = writer.new_predicate("or.pred", format_args!("{is_any}, {own}"));
    }
    let results: Vec<Register> = numbers.iter().map(|&number| exponential(number, writer)).collect();
    writer.note_rare(results[0], is_any);
    results
}

/// e^x of each of these numbers; `call` calls the function of any number.
pub(super) fn exponentials(
    numbers: &[Register],
    call: impl Fn(Register, &mut Writer) -> Result<Register, Malformed>,
    writer: &mut Writer,
) -> Result<Vec<Register>, Malformed> {
    let mut is_any = None;
    for number in numbers {
        let size = writer.new_word("abs.f32", number);
        let own = writer.new_predicate("setp.gtu.f32", format_args!("{size}, {}", bits(MOST)));
        is_any = Some(match is_any {
            Some(any) => writer.new_predicate("or.pred", format_args!("{any}, {own}")),
            None => own,
        });
    }
    let Some(is_any) = is_any else { return Ok(Vec::new()) };
    let results: Vec<Register> = numbers.iter().map(|_| writer.word()).collect();
    let usual = |writer: &mut Writer| {
        for (&number, result) in numbers.iter().zip(&results) {
            let (p, shifted) = without_power(number, PLAIN_ROUNDER, writer);
            let power = writer.new_word("shl.b32", format_args!("{shifted}, 23"));
            writer.line(format_args!("add.s32 {result}, {p}, {power}"));
        }
        Ok(())
    };
    let calls = |writer: &mut Writer| {
        for (&number, result) in numbers.iter().zip(&results) {
            let any = call(number, writer)?;
            writer.line(format_args!("mov.b32 {result}, {any}"));
        }
        Ok(())
    };
    writer.usual_or_calls(is_any, usual, calls)?;
    Ok(results)
}

/// e^r, and the sum of x / ln 2 and `rounder`, rounded, which has `n` in its low bits.
fn without_power(x: Register, rounder: f32, writer: &mut Writer) -> (String, Register) {
    let scale = bits(core::f32::consts::LOG2_E);
    let shifted = writer.new_word("fma.rn.f32", format_args!("{x}, {scale}, {}", bits(rounder)));
    let n = writer.new_word("add.rn.f32", format_args!("{shifted}, {}", bits(-rounder)));
    let mut r = x;
    for part in LN_2 {
        r = writer.new_word("fma.rn.f32", format_args!("{n}, {}, {r}", bits(part)));
    }
    let [first, rest @ ..] = COEFFICIENTS;
    let mut p = bits(first);
    for coefficient in rest {
        let operands = format!("{r}, {p}, {}", bits(coefficient));
        p = writer.new_word("fma.rn.f32", operands).to_string();
    }
    (p, shifted)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the kernel has it.
    fn exponential(x: f32) -> f32 {
        let x = if x < FLOOR { FLOOR } else { x };
        let shifted = x.mul_add(core::f32::consts::LOG2_E, ROUNDER);
        let n = shifted - ROUNDER;
        let r = LN_2.into_iter().fold(x, |r, part| n.mul_add(part, r));
        let p = COEFFICIENTS
            .into_iter()
            .reduce(|p, coefficient| p.mul_add(r, coefficient));
        p.expect("coefficients") * f32::from_bits(shifted.to_bits() << 23) * 2f32.powi(-RAISED)
    }

    /// As the kernel has it of a number that is not large.
    fn usual(x: f32) -> f32 {
        let shifted = x.mul_add(core::f32::consts::LOG2_E, PLAIN_ROUNDER);
        let n = shifted - PLAIN_ROUNDER;
        let r = LN_2.into_iter().fold(x, |r, part| n.mul_add(part, r));
        let p = COEFFICIENTS
            .into_iter()
            .reduce(|p, coefficient| p.mul_add(r, coefficient));
        let power = shifted.to_bits() << 23;
        f32::from_bits(p.expect("coefficients").to_bits().wrapping_add(power))
    }

    #[test]
    fn exponentials_of_usual_numbers_have_their_bits() {
        let step = if cfg!(miri) { 1 << 20 } else { 4099 };
        let ends = [
            MOST,
            MOST.next_down(),
            0.5 * core::f32::consts::LN_2,
            f32::MIN_POSITIVE,
            1e-45,
        ];
        for x in (0..=MOST.to_bits()).step_by(step).map(f32::from_bits).chain(ends) {
            for x in [x, -x] {
                let wanted = cuda_std::Float::exp(x);
                assert_eq!(usual(x).to_bits(), wanted.to_bits(), "e^{x}");
            }
        }
    }

    #[test]
    fn exponentials_have_the_bits_of_those_of_any_numbers() {
        let step = if cfg!(miri) { 1 << 20 } else { 4099 };
        let negative = (0x8000_0000..=f32::NEG_INFINITY.to_bits())
            .step_by(step)
            .map(f32::from_bits);
        let ends = [
            0.0,
            -87.0,
            -87.33655,
            -103.9,
            -104.0,
            -104.1,
            f32::MIN,
            f32::NEG_INFINITY,
        ];
        for x in negative.chain(ends) {
            let wanted = cuda_std::Float::exp(x);
            assert_eq!(exponential(x).to_bits(), wanted.to_bits(), "e^{x}");
        }
        assert!(exponential(f32::NAN).is_nan());
    }
}
