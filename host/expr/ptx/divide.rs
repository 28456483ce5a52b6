// SPDX-License-Identifier: MIT OR Apache-2.0
//! Quotients of `f32` by one divisor: by its reciprocal, and as exact.
//!
//! A division is some ten instructions, two of them of a unit that takes a quarter as many as others, and a branch, which
//! keeps each apart from the next one. Where a thread divides several numbers by the same `b`, as softmax does, it has the
//! reciprocal `y` once, rounded to nearest, and for each number `a` an approximation, what that leaves, and the quotient:
//! `q = a y`, `r = b q − a`, `q − r y`, each rounded once (P. Markstein, "Computation of elementary functions on the IBM RISC
//! System/6000 processor", 1990). That is the quotient rounded to nearest, by the following.
//!
//! Without overflow or underflow, `q` is off by less than two units in the last place (ulp), and what is rounded at last by
//! less than 2^−22 ulp from the exact quotient. That could be rounded otherwise only if it is so near to the middle of two
//! numbers: with whole numbers `2^23 ≤ A, B < 2^24` for the digits and an odd `M` for the middle, if
//! `0 < |2^k A − M B| < 8` for `k` of 24 or 25. Of all such `A` and `B` the quotient is right, even with 16 in place of 8, which are
//! 93 million: they were tried once, and the test `quotients_that_are_nearly_halfway` tries some.
//!
//! With `2^−25 ≤ b < 2^26` and `|a| ≥ 2^−100`, nothing underflows. What overflows, and what is infinite, becomes NaN. And of a
//! zero the signs come out right: `r` is +0, and `−r y` −0, which added to `q` leaves it as it is. So a thread that finds
//! another divisor, smaller numbers that are not zero, or NaN among its quotients divides all of its numbers once more.
//!
//! Exponentials of numbers that are not positive, which softmax divides, are often as small as that, but between 0 and 1, or NaN:
//! nothing overflows. So a thread that finds small ones scales all of its numbers by 2^64, of which the quotient `q` is right, and
//! back, which rounds once more where the result `k` is subnormal. There `b k − a`, of the scaled numbers, is exact for `b < 2^24`:
//! a multiple of the last places' product, and less than 2^24 of those. If it is more than half a last place of `k` times `b`,
//! then `k` is rounded to the wrong side, and its neighbour is the result. A tie is one of `q` too, and even.

use super::Malformed;
use super::writer::{Register, Writer};
use crate::backend::DeviceFnInfo;
use crate::expr::graph::function::{self, Binary};
use cuda_std::scalar::ScalarType;

/// The bits of the least divisor, 2^−25, and of one beyond the greatest, 2^26.
const DIVISORS: [u32; 2] = [0x3300_0000, 0x4c80_0000];

/// The label of the next division.
pub(super) const NEXT: &str = "$next";

/// Twice the bits of the least numerator, 2^−100, without its sign.
const NUMERATORS: u32 = 0x0d80_0000 << 1;

/// The bits of one beyond the greatest divisor of [small exponentials](small), 2^24.
const BEYOND_OF_SMALL: u32 = 0x4b80_0000;

/// 2^64, 2^−64, and half a last place of a subnormal number times 2^64, 2^−86.
const UP: f32 = f32::from_bits((127 + 64) << 23);
const DOWN: f32 = f32::from_bits((127 - 64) << 23);
const HALF: f32 = f32::from_bits((127 - 86) << 23);

/// The bits of the least normal number.
const NORMAL: u32 = 0x0080_0000;

/// What is known of numerators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Numerators {
    Any,
    /// They are from 0 to 1, or NaN.
    Exponentials,
}

/// Whether a function is the division of `f32`.
pub(super) fn is_division(function: &'static DeviceFnInfo) -> bool {
    function::binary(Binary::Div, ScalarType::F32) == Some(function)
}

/// Each of these numbers divided by `divisor`; `divide` writes one division of any numbers.
pub(super) fn by_one(
    (numerators, known): (&[Register], Numerators),
    divisor: Register,
    divide: impl Fn(Register, &mut Writer) -> Result<Register, Malformed>,
    writer: &mut Writer,
) -> Result<Vec<Register>, Malformed> {
    let reciprocal = writer.new_word("rcp.rn.f32", divisor);
    let negative = writer.new_word("neg.f32", reciprocal);
    let is_beyond_all = is_beyond(divisor, DIVISORS, writer);
    let results: Vec<Register> = numerators
        .iter()
        .map(|&numerator| quotient(numerator, divisor, [reciprocal, negative], writer))
        .collect();
    // There already where they are right: what is rare writes them once more.
    let give = |_: &mut Writer| Ok(());
    let each = |writer: &mut Writer| one_by_one(numerators, &results, &divide, writer);
    let of_exponentials = |writer: &mut Writer| {
        let is_any = is_beyond(divisor, [DIVISORS[0], BEYOND_OF_SMALL], writer);
        let small = |numerator, writer: &mut Writer| Ok(small(numerator, divisor, [reciprocal, negative], writer));
        let divided = |writer: &mut Writer| one_by_one(numerators, &results, small, writer);
        writer.usual_or_any(is_any, divided, each)
    };
    let is_rare = match known {
        Numerators::Any => None,
        Numerators::Exponentials => writer.noted_rare(numerators[0]),
    };
    match is_rare {
        // Those that are rare may be 0, as masked ones are, of which the quotient is right.
        Some(is_rare) => {
            let is_any = or(is_beyond_all, &[is_rare], writer);
            let rare = |writer: &mut Writer| {
                let is_any = or(is_beyond_all, &are_small(numerators, known, writer), writer);
                writer.usual_or_any(is_any, give, of_exponentials)
            };
            writer.usual_or_any(is_any, give, rare)?;
        }
        None => {
            let small = are_small(numerators, Numerators::Any, writer);
            let is_nan = |both: &[Register], writer: &mut Writer| {
                writer.new_predicate("setp.nan.f32", format_args!("{}, {}", both[0], both[both.len() - 1]))
            };
            let nan: Vec<Register> = results.chunks(2).map(|both| is_nan(both, writer)).collect();
            let is_any = or(is_beyond_all, &[small, nan].concat(), writer);
            writer.usual_or_any(is_any, give, each)?;
        }
    }
    Ok(results)
}

/// Of each of these numbers whether it is small, and not 0.
fn are_small(numerators: &[Register], known: Numerators, writer: &mut Writer) -> Vec<Register> {
    let is_small = |&numerator: &Register| {
        // Zero becomes the greatest of all.
        let (bits, least) = match known {
            Numerators::Any => (writer.new_word("shl.b32", format_args!("{numerator}, 1")), NUMERATORS),
            Numerators::Exponentials => (numerator, NUMERATORS / 2),
        };
        let below = writer.new_word("sub.s32", format_args!("{bits}, 1"));
        writer.new_predicate("setp.lt.u32", format_args!("{below}, {}", least - 1))
    };
    numerators.iter().map(is_small).collect()
}

/// Whether one of these predicates holds.
fn or(first: Register, rest: &[Register], writer: &mut Writer) -> Register {
    rest.iter().fold(first, |any, one| {
        writer.new_predicate("or.pred", format_args!("{any}, {one}"))
    })
}

/// Whether a divisor is none of those from the bits of the first to those ahead of the second: negative, or NaN, too.
fn is_beyond(divisor: Register, [least, beyond]: [u32; 2], writer: &mut Writer) -> Register {
    let above = writer.new_word("sub.s32", format_args!("{divisor}, {least}"));
    writer.new_predicate("setp.ge.u32", format_args!("{above}, {}", beyond - least))
}

/// The quotient of usual numbers, by the divisor's reciprocal and the negative of that.
fn quotient(
    numerator: Register,
    divisor: Register,
    [reciprocal, negative]: [Register; 2],
    writer: &mut Writer,
) -> Register {
    let near = writer.new_word("mul.rn.f32", format_args!("{numerator}, {reciprocal}"));
    let opposite = writer.new_word("neg.f32", numerator);
    let left = writer.new_word("fma.rn.f32", format_args!("{divisor}, {near}, {opposite}"));
    writer.new_word("fma.rn.f32", format_args!("{left}, {negative}, {near}"))
}

/// The quotient of an exponential, of any size.
fn small(numerator: Register, divisor: Register, reciprocals: [Register; 2], writer: &mut Writer) -> Register {
    let bits = |number: f32| format!("0f{:08X}", number.to_bits());
    let scaled = writer.new_word("mul.rn.f32", format_args!("{numerator}, {}", bits(UP)));
    let raised = quotient(scaled, divisor, reciprocals, writer);
    let result = writer.new_word("mul.rn.f32", format_args!("{raised}, {}", bits(DOWN)));
    let again = writer.new_word("mul.rn.f32", format_args!("{result}, {}", bits(UP)));
    let opposite = writer.new_word("neg.f32", scaled);
    let left = writer.new_word("fma.rn.f32", format_args!("{divisor}, {again}, {opposite}"));
    let size = writer.new_word("and.b32", format_args!("{left}, {:#x}", u32::MAX >> 1));
    let half = writer.new_word("mul.rn.f32", format_args!("{divisor}, {}", bits(HALF)));
    let is_far = writer.new_predicate("setp.lt.u32", format_args!("{half}, {size}"));
    let is_subnormal = writer.new_predicate("setp.lt.u32", format_args!("{result}, {NORMAL}"));
    let is_other = writer.new_predicate("and.pred", format_args!("{is_far}, {is_subnormal}"));
    // Up where the result is too small.
    let is_below = writer.new_word("shr.u32", format_args!("{left}, 31"));
    let twice = writer.new_word("shl.b32", format_args!("{is_below}, 1"));
    let step = writer.new_word("sub.s32", format_args!("{twice}, 1"));
    let other = writer.new_word("add.s32", format_args!("{result}, {step}"));
    writer.new_word("selp.b32", format_args!("{other}, {result}, {is_other}"))
}

/// Divides the numbers in a loop, through which they go in turn: a division for each would be most of the code.
fn one_by_one(
    numerators: &[Register],
    results: &[Register],
    divide: impl Fn(Register, &mut Writer) -> Result<Register, Malformed>,
    writer: &mut Writer,
) -> Result<(), Malformed> {
    for (result, numerator) in results.iter().zip(numerators) {
        writer.line(format_args!("mov.b32 {result}, {numerator}"));
    }
    let number = writer.copy();
    let left = writer.new_word("mov.u32", results.len());
    writer.line(".pragma \"nounroll\"");
    writer.mark(format_args!("{NEXT}_{number}:"));
    let quotient = divide(results[0], writer)?;
    for both in results.windows(2) {
        writer.line(format_args!("mov.b32 {}, {}", both[0], both[1]));
    }
    writer.line(format_args!("mov.b32 {}, {quotient}", results[results.len() - 1]));
    writer.line(format_args!("sub.s32 {left}, {left}, 1"));
    let is_left = writer.new_predicate("setp.ne.u32", format_args!("{left}, 0"));
    writer.line(format_args!("@{is_left} bra {NEXT}_{number}"));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The quotient as the kernel has it of usual numbers.
    fn quotient(a: f32, b: f32) -> f32 {
        let reciprocal = 1.0 / b;
        let near = a * reciprocal;
        b.mul_add(near, -a).mul_add(-reciprocal, near)
    }

    /// The quotient as the kernel has it of small exponentials.
    fn small(a: f32, b: f32) -> f32 {
        let scaled = a * UP;
        let result = quotient(scaled, b) * DOWN;
        let left = b.mul_add(result * UP, -scaled);
        match left.abs() > b * HALF && result.to_bits() < NORMAL {
            true => f32::from_bits(result.to_bits().wrapping_add_signed(if left < 0.0 { 1 } else { -1 })),
            false => result,
        }
    }

    #[test]
    fn quotients_of_small_exponentials() {
        let mut state = 1u64;
        let mut random = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as u32
        };
        let (least, beyond) = (DIVISORS[0], BEYOND_OF_SMALL);
        for _ in 0..if cfg!(miri) { 1000 } else { 300_000 } {
            let any = f32::from_bits(least + random() % (beyond - least));
            // Few digits bring ties.
            let even = (1 + random() % 64) as f32;
            for b in [
                any,
                even,
                1.0 + any.min(1.0),
                f32::from_bits(least),
                f32::from_bits(beyond - 1),
            ] {
                for bits in [
                    random() % NORMAL,
                    random() % (60 * NORMAL),
                    random() % 64,
                    random() % 0x3f80_0000,
                ] {
                    let a = f32::from_bits(bits);
                    assert_eq!(small(a, b).to_bits(), (a / b).to_bits(), "{a:e} / {b:e}");
                }
            }
        }
        assert_eq!(small(0.0, 3.0).to_bits(), 0);
        assert!(small(f32::NAN, 3.0).is_nan());
        assert_eq!(
            [f32::from_bits(BEYOND_OF_SMALL), f32::from_bits(NORMAL)],
            [2f32.powi(24), f32::MIN_POSITIVE]
        );
        assert_eq!([UP, DOWN, HALF], [64, -64, -86].map(|power| 2f32.powi(power)));
    }

    /// The inverse of 2 to that power modulo an odd number.
    fn inverse(power: u32, modulus: u64) -> u64 {
        let halved = |number: u64| {
            if number.is_multiple_of(2) {
                number / 2
            } else {
                (number + modulus) / 2
            }
        };
        (0..power).fold(1 % modulus, |number, _| halved(number))
    }

    #[test]
    fn quotients_that_are_nearly_halfway() {
        let digits = 1u64 << 23..1 << 24;
        let mut tried = 0;
        // Even divisors too, those with few zeros at their end: else no product of an odd number is as near.
        for b in digits.clone().step_by(997).chain(digits.end - 50..digits.end) {
            let zeros = b.trailing_zeros();
            let modulus = b >> zeros;
            for (power, left) in [24u32, 25]
                .into_iter()
                .flat_map(|power| (-16i64..=16).map(move |left| (power, left)))
            {
                if left == 0 || left.trailing_zeros() != zeros {
                    continue;
                }
                // 2^power a − left is an odd multiple of b.
                let left = (left >> zeros).rem_euclid(modulus as i64) as u64;
                let first = left * inverse(power - zeros, modulus) % modulus;
                let begin = first + (digits.start.saturating_sub(first)).next_multiple_of(modulus);
                for a in (begin..digits.end)
                    .step_by(modulus as usize)
                    .filter(|&a| (power == 24) == (a >= b))
                {
                    let (a, b) = (a as f32, b as f32);
                    assert_eq!(quotient(a, b), a / b, "{a} / {b}");
                    tried += 1;
                }
            }
        }
        assert!(tried > 50_000, "{tried}");
    }

    #[test]
    fn the_least_and_greatest_of_usual_numbers() {
        let [least, beyond] = DIVISORS.map(f32::from_bits);
        assert_eq!([least, beyond], [2f32.powi(-25), 2f32.powi(26)]);
        let smallest = f32::from_bits(NUMERATORS / 2);
        assert_eq!(smallest, 2f32.powi(-100));
        for a in [smallest, smallest.next_up(), f32::MAX, 0.0] {
            for b in [least, least.next_up(), 1.0, 3.0, beyond.next_down()] {
                for a in [a, -a] {
                    let quotient = quotient(a, b);
                    // What overflows is divided again.
                    assert!(
                        quotient.is_nan() && a.abs() == f32::MAX || quotient.to_bits() == (a / b).to_bits(),
                        "{a} / {b}"
                    );
                }
            }
        }
    }
}
