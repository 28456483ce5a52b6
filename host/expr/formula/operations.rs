// SPDX-License-Identifier: MIT OR Apache-2.0
//! What operators and functions of formulas make of numbers: their types are checked here, and what the library has no
//! function for is put together.

use std::sync::Arc;

use cuda_std::scalar::ScalarType;

use super::arrays::matmul;
use super::functions::{Operation, Takes};
use super::ints;
use super::numbers::{Number, Together, convert, is_signed, problem, together};
use crate::expr::graph::function::{Binary, Ternary, Unary, is_float};
use crate::expr::graph::problem::Problem;
use crate::expr::graph::{Kind, Node, Part, binary, cast, one, ternary, unary};

type Result<'a, T = Number<'a>> = std::result::Result<T, String>;

/// The operation, which is called `name`, of these numbers: as many as it takes.
pub(super) fn compute<'a>(name: &str, operation: Operation, numbers: Vec<Number<'a>>) -> Result<'a> {
    match (operation, numbers.as_slice()) {
        (Operation::Cast(ScalarType::Bool), [x]) => truth(x),
        (Operation::Cast(ty), [x]) => x.clone().in_type(ty).map(Number::Typed),
        (Operation::MatMul, [a, b]) => matmul(name, a, b),
        (Operation::Ternary(Ternary::Select), [condition, a, b]) => select(name, condition, a, b),
        (Operation::Binary(Binary::Pow), [x, exponent]) => match power(x, exponent)? {
            Some(power) => Ok(power),
            None => of_one_type(name, operation, &numbers),
        },
        (Operation::Binary(Binary::Shl | Binary::Shr), [Number::Typed(x), Number::Int(by)]) => {
            let bits = 8 * x.ty.bytes() as i128;
            if !is_float(x.ty) && !(0..bits).contains(by) {
                return Err(format!("{} is shifted by {by}, wanted 0 to {}", x.ty.name(), bits - 1));
            }
            of_one_type(name, operation, &numbers)
        }
        _ => of_one_type(name, operation, &numbers),
    }
}

/// The operation in the type that the numbers have together.
fn of_one_type<'a>(name: &str, operation: Operation, numbers: &[Number<'a>]) -> Result<'a> {
    let floats = match together(numbers).map_err(|message| format!("`{name}`: {message}"))? {
        Together::Typed(parts) => return typed(name, operation, parts).map(Number::Typed),
        Together::Ints(ints) => match ints::compute(operation, &ints) {
            Some(computed) => return computed,
            None => ints.into_iter().map(|number| number as f64).collect(),
        },
        Together::Floats(floats) => floats,
    };
    let parts = floats
        .into_iter()
        .map(|number| Node::scalar(ScalarType::F64, number.to_bits()));
    let computed = typed(name, operation, parts.collect())?;
    // Numbers of the text stay without a type.
    Ok(match computed.kind {
        Kind::Scalar(bits) if computed.ty == ScalarType::F64 => Number::Float(f64::from_bits(bits)),
        _ => Number::Typed(computed),
    })
}

/// The operation of numbers of one type.
fn typed<'a>(name: &str, operation: Operation, parts: Vec<Arc<Node<'a>>>) -> Result<'a, Arc<Node<'a>>> {
    part(operation, &taken(name, operation, parts)?).map_err(problem)
}

/// Numbers of one type as the operation takes them: integers are floats where it takes these.
pub(super) fn taken<'a>(
    name: &str,
    operation: Operation,
    mut parts: Vec<Arc<Node<'a>>>,
) -> Result<'a, Vec<Arc<Node<'a>>>> {
    let ty = parts[0].ty;
    let wanted = match operation.takes() {
        Takes::Numbers | Takes::Floats | Takes::Integers if ty == ScalarType::Bool => match name {
            "+" | "*" | "-" => "numbers; conditions have `|`, `&`, `^` and `~`",
            _ => "numbers; a cast makes them of a condition, as in `f32(a > 0)`",
        },
        Takes::Bits | Takes::Integers if is_float(ty) => match name {
            "^" => "integers or bool; the power is `**`",
            "&" | "|" | "~" | "!" => {
                "integers or bool; comparisons beside it stand in parentheses: `(a > 0) & (b > 0)`"
            }
            _ => "integers",
        },
        Takes::Floats if !is_float(ty) => {
            for part in &mut parts {
                *part = convert(Arc::clone(part), ScalarType::F64)?;
            }
            ""
        }
        _ => "",
    };
    if !wanted.is_empty() {
        return Err(format!("`{name}` of {}, wanted {wanted}", ty.name()));
    }
    Ok(parts)
}

/// The operation of numbers of a type that it takes.
fn part<'a>(operation: Operation, parts: &[Arc<Node<'a>>]) -> Part<'a> {
    match (operation, parts) {
        (Operation::Unary(operator), [x]) => unary(operator, Arc::clone(x)),
        (Operation::Sign, [x]) => sign(x),
        (Operation::Binary(operator), [a, b]) => binary(operator, Arc::clone(a), Arc::clone(b)),
        (Operation::Swapped(operator), [a, b]) => binary(operator, Arc::clone(b), Arc::clone(a)),
        (Operation::FloorDiv, [a, b]) => floor_div(a, b),
        (Operation::Modulo, [a, b]) => modulo(a, b),
        (Operation::Ternary(operator), [a, b, c]) => ternary(operator, [a, b, c].map(Arc::clone)),
        // `+x`: nothing else is left.
        _ => Ok(Arc::clone(&parts[0])),
    }
}

/// Whether the number is not 0.
fn truth<'a>(x: &Number<'a>) -> Result<'a> {
    match x {
        Number::Int(number) => Ok(Number::truth(*number != 0)),
        Number::Float(number) => Ok(Number::truth(*number != 0.0)),
        Number::Typed(node) if node.ty == ScalarType::Bool => Ok(x.clone()),
        Number::Typed(_) => of_one_type(
            "bool",
            Operation::Binary(Binary::NotEqual),
            &[x.clone(), Number::Int(0)],
        ),
    }
}

fn select<'a>(name: &str, condition: &Number<'a>, a: &Number<'a>, b: &Number<'a>) -> Result<'a> {
    let condition = match condition {
        Number::Typed(node) if node.ty == ScalarType::Bool => Arc::clone(node),
        other => {
            let given = other.type_name();
            return Err(format!(
                "`{name}`: the condition is {given}, wanted bool, as in `{name}(a != 0, …)`"
            ));
        }
    };
    let [a, b] = match together(&[a.clone(), b.clone()]).map_err(|message| format!("`{name}`: {message}"))? {
        Together::Typed(parts) => [Arc::clone(&parts[0]), Arc::clone(&parts[1])],
        // The result has a number for each condition, so it has a type.
        Together::Ints(ints) => [Number::Int(ints[0]).typed()?, Number::Int(ints[1]).typed()?],
        Together::Floats(floats) => [Number::Float(floats[0]).typed()?, Number::Float(floats[1]).typed()?],
    };
    let selected = ternary(Ternary::Select, [condition, a, b]);
    selected.map(Number::Typed).map_err(problem)
}

/// The power by an exponent of the text for which there is a faster function: of floats the square, the third power, the
/// reciprocal and the square root, of integers the first two. None for others.
fn power<'a>(x: &Number<'a>, exponent: &Number<'a>) -> Result<'a, Option<Number<'a>>> {
    let Number::Typed(base) = x else {
        return Ok(None);
    };
    let exponent = match exponent {
        Number::Int(exponent) => *exponent as f64,
        Number::Float(exponent) if is_float(base.ty) => *exponent,
        _ => return Ok(None),
    };
    let power = |operator| typed("**", Operation::Unary(operator), vec![Arc::clone(base)]);
    let power = match exponent {
        2.0 => power(Unary::Square)?,
        3.0 => binary(Binary::Mul, power(Unary::Square)?, Arc::clone(base)).map_err(problem)?,
        0.5 => power(Unary::Sqrt)?,
        -1.0 if is_float(base.ty) => power(Unary::Recip)?,
        _ if exponent < 0.0 && !is_float(base.ty) && base.ty != ScalarType::Bool => {
            let ty = base.ty.name();
            return Err(format!(
                "`**` of {ty} by {exponent}, wanted 0 or more, or floats, as in `f64(a)**-1`"
            ));
        }
        _ => return Ok(None),
    };
    Ok(Some(Number::Typed(power)))
}

/// The number 0 of a type.
fn zero<'a>(ty: ScalarType) -> Part<'a> {
    cast(Node::scalar(ScalarType::U32, 0), ty)
}

fn sign<'a>(x: &Arc<Node<'a>>) -> Part<'a> {
    let zero = zero(x.ty)?;
    if is_float(x.ty) {
        let is_not_zero = binary(Binary::NotEqual, Arc::clone(x), zero)?;
        let sign = unary(Unary::Signum, Arc::clone(x))?;
        return ternary(Ternary::Select, [is_not_zero, sign, Arc::clone(x)]);
    }
    let is_positive = binary(Binary::Less, Arc::clone(&zero), Arc::clone(x))?;
    let is_negative = binary(Binary::Less, Arc::clone(x), zero)?;
    binary(Binary::Sub, cast(is_positive, x.ty)?, cast(is_negative, x.ty)?)
}

/// The remainder of the quotient that is rounded towards 0, and whether that is not the quotient rounded down.
fn remainder<'a>(a: &Arc<Node<'a>>, b: &Arc<Node<'a>>) -> std::result::Result<[Arc<Node<'a>>; 2], Problem> {
    let zero = zero(a.ty)?;
    let remainder = binary(Binary::Rem, Arc::clone(a), Arc::clone(b))?;
    let is_left = binary(Binary::NotEqual, Arc::clone(&remainder), Arc::clone(&zero))?;
    let signs = [Arc::clone(&remainder), Arc::clone(b)].map(|x| binary(Binary::Less, x, Arc::clone(&zero)));
    let [one, other] = signs;
    let differ = binary(Binary::NotEqual, one?, other?)?;
    Ok([remainder, binary(Binary::BitAnd, is_left, differ)?])
}

fn modulo<'a>(a: &Arc<Node<'a>>, b: &Arc<Node<'a>>) -> Part<'a> {
    if !is_signed(a.ty) {
        return binary(Binary::Rem, Arc::clone(a), Arc::clone(b));
    }
    let [remainder, is_above] = remainder(a, b)?;
    let with_sign = binary(Binary::Add, Arc::clone(&remainder), Arc::clone(b))?;
    ternary(Ternary::Select, [is_above, with_sign, remainder])
}

fn floor_div<'a>(a: &Arc<Node<'a>>, b: &Arc<Node<'a>>) -> Part<'a> {
    if !is_signed(a.ty) {
        return binary(Binary::Div, Arc::clone(a), Arc::clone(b));
    }
    let [remainder, is_above] = remainder(a, b)?;
    let quotient = binary(Binary::Div, Arc::clone(a), Arc::clone(b))?;
    let towards_zero = match is_float(a.ty) {
        // Exact but for the rounding of the division, which `round_ties_even` makes good.
        true => binary(
            Binary::Div,
            binary(Binary::Sub, Arc::clone(a), remainder)?,
            Arc::clone(b),
        )?,
        false => Arc::clone(&quotient),
    };
    let below = binary(Binary::Sub, Arc::clone(&towards_zero), one(a.ty)?)?;
    let down = ternary(Ternary::Select, [is_above, below, towards_zero])?;
    if !is_float(a.ty) {
        return Ok(down);
    }
    let down = unary(Unary::RoundTiesEven, down)?;
    // As the quotient, infinite or NaN where the divisor is 0.
    let by_zero = binary(Binary::Equal, Arc::clone(b), zero(b.ty)?)?;
    ternary(Ternary::Select, [by_zero, quotient, down])
}
