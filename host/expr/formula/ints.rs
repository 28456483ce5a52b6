// SPDX-License-Identifier: MIT OR Apache-2.0
//! Integers of a formula's text among themselves: they have no type yet, and no operation of them wraps around.

use super::functions::Operation;
use super::numbers::Number;
use crate::expr::graph::function::{Binary, Ternary, Unary};

/// The operation of these integers; none where it is one of floats.
pub(super) fn compute<'a>(operation: Operation, numbers: &[i128]) -> Option<Result<Number<'a>, String>> {
    let computed = match (operation, numbers) {
        (Operation::Unary(operator), &[x]) => unary(operator, x)?,
        (Operation::Sign, &[x]) => Ok(x.signum()),
        (Operation::Binary(Binary::Less), [a, b]) => return Some(Ok(Number::truth(a < b))),
        (Operation::Binary(Binary::LessEqual), [a, b]) => return Some(Ok(Number::truth(a <= b))),
        (Operation::Swapped(Binary::Less), [a, b]) => return Some(Ok(Number::truth(b < a))),
        (Operation::Swapped(_), [a, b]) => return Some(Ok(Number::truth(b <= a))),
        (Operation::Binary(Binary::Equal), [a, b]) => return Some(Ok(Number::truth(a == b))),
        (Operation::Binary(Binary::NotEqual), [a, b]) => return Some(Ok(Number::truth(a != b))),
        (Operation::Binary(operator), &[a, b]) => binary(operator, a, b)?,
        (Operation::FloorDiv, &[a, b]) => floor_div(a, b),
        (Operation::Modulo, &[a, b]) => modulo(a, b),
        (Operation::Ternary(Ternary::MulAdd), &[a, b, c]) => {
            let product = a.checked_mul(b);
            product.and_then(|product| product.checked_add(c)).ok_or_else(too_large)
        }
        (Operation::Ternary(Ternary::Clamp), &[x, low, _]) if x < low => Ok(low),
        (Operation::Ternary(Ternary::Clamp), &[x, _, high]) => Ok(x.min(high)),
        _ => return None,
    };
    Some(computed.map(Number::Int))
}

fn unary(operator: Unary, x: i128) -> Option<Result<i128, String>> {
    let computed = match operator {
        Unary::Neg => x.checked_neg(),
        Unary::Abs => x.checked_abs(),
        Unary::Square => x.checked_mul(x),
        Unary::Relu => Some(x.max(0)),
        Unary::Not => Some(!x),
        Unary::Floor | Unary::Ceil | Unary::Round | Unary::RoundTiesEven | Unary::Trunc => Some(x),
        _ => return None,
    };
    Some(computed.ok_or_else(too_large))
}

fn binary(operator: Binary, a: i128, b: i128) -> Option<Result<i128, String>> {
    let bits = || u32::try_from(b).ok();
    let computed = match operator {
        Binary::Add => a.checked_add(b),
        Binary::Sub => a.checked_sub(b),
        Binary::Mul => a.checked_mul(b),
        Binary::Rem if b == 0 => return Some(Err(by_zero())),
        Binary::Rem => Some(a.wrapping_rem(b)),
        Binary::Minimum => Some(a.min(b)),
        Binary::Maximum => Some(a.max(b)),
        Binary::Pow if b >= 0 => bits().and_then(|b| a.checked_pow(b)),
        Binary::BitAnd => Some(a & b),
        Binary::BitOr => Some(a | b),
        Binary::BitXor => Some(a ^ b),
        Binary::Shl if (0..64).contains(&b) => a.checked_mul(1 << b),
        Binary::Shr if (0..64).contains(&b) => Some(a >> b),
        Binary::Shl | Binary::Shr => return Some(Err(format!("a shift by {b}, wanted 0 to 63"))),
        _ => return None,
    };
    Some(computed.ok_or_else(too_large))
}

fn floor_div(a: i128, b: i128) -> Result<i128, String> {
    if b == 0 {
        return Err(by_zero());
    }
    let quotient = a.checked_div(b).ok_or_else(too_large)?;
    let is_above = a % b != 0 && (a < 0) != (b < 0);
    Ok(quotient - i128::from(is_above))
}

fn modulo(a: i128, b: i128) -> Result<i128, String> {
    if b == 0 {
        return Err(by_zero());
    }
    let rest = a.wrapping_rem(b);
    let is_above = rest != 0 && (rest < 0) != (b < 0);
    Ok(if is_above { rest + b } else { rest })
}

fn too_large() -> String {
    "the integer is too large; a point makes a float, as in `2.0**100`".into()
}

fn by_zero() -> String {
    "division of an integer by 0".into()
}
