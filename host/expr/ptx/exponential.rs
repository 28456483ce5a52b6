// SPDX-License-Identifier: MIT OR Apache-2.0
//! e^x of `f32` that are not positive, or NaN: what softmax and its kind take of a row's numbers less the largest of them.
//!
//! It is `exp` of `cuda_std`, `2^n e^r` with the same `n` and the same polynomial, and has its bits, by 14 instructions in place
//! of 19. Where `x` is not positive, `−150 ≤ n ≤ 0`, and nothing overflows: so `x` is not clamped from above, and two factors
//! are enough that nobody computes: `2^(n + 32)`, by which the product is exact, since it is normal, and `2^−32`, by which the
//! result is rounded once, as there. What `exp` takes to keep NaN where it clamps `x` is one instruction from compute
//! capability 8.0 on. All `f32` with that sign have been tried: no result differs.

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
    if !is(function, function::unary(Unary::Exp, ScalarType::F32)) {
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

/// e^x of a number that is not positive, or NaN.
pub(super) fn exponential(x: Register, writer: &mut Writer) -> Register {
    let bits = |number: f32| format!("0f{:08X}", number.to_bits());
    let x = writer.new_word("max.NaN.f32", format_args!("{x}, {}", bits(FLOOR)));
    let scale = bits(core::f32::consts::LOG2_E);
    let shifted = writer.new_word("fma.rn.f32", format_args!("{x}, {scale}, {}", bits(ROUNDER)));
    let n = writer.new_word("add.rn.f32", format_args!("{shifted}, {}", bits(-ROUNDER)));
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
    let power = writer.new_word("shl.b32", format_args!("{shifted}, 23"));
    let raised = writer.new_word("mul.rn.f32", format_args!("{p}, {power}"));
    let lowering = bits(f32::from_bits(((127 - RAISED) as u32) << 23));
    writer.new_word("mul.rn.f32", format_args!("{raised}, {lowering}"))
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
