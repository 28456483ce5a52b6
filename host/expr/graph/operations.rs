// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parts made by operators: of 16-bit floats, for which few functions are compiled, by way of `f32`.

use std::ops::RangeInclusive;
use std::sync::Arc;

use cuda_std::scalar::ScalarType;

use super::function::{self, Binary, Ternary, Unary};
use super::{Kind, Node, Part};

/// The number in another type, as Rust's `as`.
pub(in crate::expr) fn cast<'a>(x: Arc<Node<'a>>, to: ScalarType) -> Part<'a> {
    let (mut ty, mut x) = (x.ty, x);
    while ty != to
        && let Some((function, next)) = function::cast_step(ty, to)
    {
        x = Node::call("cast", function, function.result, [x])?;
        ty = next;
    }
    Ok(with_type(x, to))
}

/// The integer in another type, and the nearest that it has where it has not that one; other casts are [`cast`]'s.
pub(in crate::expr) fn cast_saturating<'a>(x: Arc<Node<'a>>, to: ScalarType) -> Part<'a> {
    let (ty, mut x) = (x.ty, x);
    if let (Some(own), Some(others)) = (integers(ty), integers(to)) {
        // Limits that the number's own type has, by their bits.
        let limit = |limit: i128| Node::scalar(ty, limit as u64 & (u64::MAX >> (64 - 8 * ty.bytes())));
        if own.start() < others.start() {
            x = binary(Binary::Maximum, x, limit(*others.start()))?;
        }
        if own.end() > others.end() {
            x = binary(Binary::Minimum, x, limit(*others.end()))?;
        }
    }
    cast(x, to)
}

/// The float rounded towards zero, modulo 2^bits of an integer type; other casts are [`cast`]'s.
pub(in crate::expr) fn cast_wrapping<'a>(x: Arc<Node<'a>>, to: ScalarType) -> Part<'a> {
    if !function::is_float(x.ty) || integers(to).is_none() {
        return cast(x, to);
    }
    let x = match x.ty {
        ScalarType::F64 => x,
        _ => cast(x, ScalarType::F32)?,
    };
    let function = function::cast_wrapping(x.ty);
    cast(Node::call("cast_wrapping", function, ScalarType::U64, [x])?, to)
}

/// The numbers that an integer type has.
fn integers(ty: ScalarType) -> Option<RangeInclusive<i128>> {
    let is_signed = match ty {
        ScalarType::I8 | ScalarType::I16 | ScalarType::I32 | ScalarType::I64 => true,
        ScalarType::U8 | ScalarType::U16 | ScalarType::U32 | ScalarType::U64 => false,
        _ => return None,
    };
    let (bits, sign) = (8 * ty.bytes(), u32::from(is_signed));
    let end = 1 << (bits as u32 - sign);
    Some(if is_signed { -end } else { 0 }..=end - 1)
}

/// The same bits as a number of another type.
pub(in crate::expr) fn with_type<'a>(mut x: Arc<Node<'a>>, ty: ScalarType) -> Arc<Node<'a>> {
    if x.ty == ty {
        return x;
    }
    if let Some(own) = Arc::get_mut(&mut x) {
        own.ty = ty;
        return x;
    }
    let mut node = x.with_kind(x.kind.clone());
    node.ty = ty;
    Arc::new(node)
}

/// `operator` of one number. Functions of 16-bit floats are computed as `f32`, and rounded.
pub(in crate::expr) fn unary<'a>(operator: Unary, x: Arc<Node<'a>>) -> Part<'a> {
    let ty = x.ty;
    if operator.is_identity(ty) {
        return Ok(x);
    }
    let result = if operator.is_predicate() { ScalarType::Bool } else { ty };
    match function::unary(operator, ty) {
        Some(function) => Node::call(operator.name(), function, result, [x]),
        None => {
            let x = cast(x, wide(operator.name(), ty))?;
            let computed = match function::narrow_unary(operator, ty) {
                Some(function) => Node::call(operator.name(), function, ScalarType::F32, [x])?,
                None => unary(operator, x)?,
            };
            cast_unless_bool(computed, result)
        }
    }
}

/// `operator` of two numbers of one type; that of 16-bit floats as [`unary`].
pub(in crate::expr) fn binary<'a>(operator: Binary, a: Arc<Node<'a>>, b: Arc<Node<'a>>) -> Part<'a> {
    if operator == Binary::Div
        && let Some(reciprocal) = exact_reciprocal(&b)
        && let Some(function) = function::binary(Binary::Mul, a.ty)
    {
        let ty = a.ty;
        return Node::call(operator.name(), function, ty, [a, reciprocal]);
    }
    binary_as_it_is(operator, a, b)
}

/// [`binary`], a division by whatever number too.
pub(in crate::expr) fn binary_as_it_is<'a>(operator: Binary, a: Arc<Node<'a>>, b: Arc<Node<'a>>) -> Part<'a> {
    let ty = a.ty;
    let result = if operator.is_comparison() { ScalarType::Bool } else { ty };
    match function::binary(operator, ty) {
        Some(function) => Node::call(operator.name(), function, result, [a, b]),
        None => {
            let wide = wide(operator.name(), ty);
            let (a, b) = (cast(a, wide)?, cast(b, wide)?);
            let computed = match function::narrow_binary(operator, ty) {
                Some(function) => Node::call(operator.name(), function, ScalarType::F32, [a, b])?,
                None => binary(operator, a, b)?,
            };
            cast_unless_bool(computed, result)
        }
    }
}

/// The reciprocal of a number that is a power of two, or minus one: products by it are the quotients, bit for bit, since both are
/// the same number, rounded once. A division is some ten instructions, and a call for what is rare.
fn exact_reciprocal<'a>(x: &Node<'a>) -> Option<Arc<Node<'a>>> {
    let Kind::Scalar(bits) = x.kind else { return None };
    let (number, most) = match x.ty {
        ScalarType::F32 => (f64::from(f32::from_bits(bits as u32)), f32::MAX_EXP - 2),
        ScalarType::F64 => (f64::from_bits(bits), f64::MAX_EXP - 2),
        _ => return None,
    };
    // The reciprocal of what is larger, or subnormal, is no normal number.
    let exponent = (number.to_bits() >> 52 & 0x7ff) as i32 - 1023;
    if number.to_bits() << 12 != 0 || exponent.abs() > most {
        return None;
    }
    let reciprocal = match x.ty {
        ScalarType::F32 => u64::from((number.recip() as f32).to_bits()),
        _ => number.recip().to_bits(),
    };
    Some(Arc::new(x.with_kind(Kind::Scalar(reciprocal))))
}

/// `operator` of three numbers, of which those that are no conditions are of one type; that of 16-bit floats as [`unary`].
pub(in crate::expr) fn ternary<'a>(operator: Ternary, [a, b, c]: [Arc<Node<'a>>; 3]) -> Part<'a> {
    let ty = c.ty;
    match function::ternary(operator, ty) {
        Some(function) => Node::call(operator.name(), function, ty, [a, b, c]),
        // The limits and the number stay what they are, bit for bit.
        None if operator == Ternary::Clamp => {
            let is_less = binary(Binary::Less, Arc::clone(&a), Arc::clone(&b))?;
            let is_greater = binary(Binary::Less, Arc::clone(&c), Arc::clone(&a))?;
            let rest = ternary(Ternary::Select, [is_greater, c, a])?;
            ternary(Ternary::Select, [is_less, b, rest])
        }
        None => {
            let wide = wide(operator.name(), ty);
            cast(ternary(operator, [cast(a, wide)?, cast(b, wide)?, cast(c, wide)?])?, ty)
        }
    }
}

/// The type that functions of 16-bit floats are computed in.
fn wide(operation: &'static str, ty: ScalarType) -> ScalarType {
    let is_narrow = matches!(ty, ScalarType::F16 | ScalarType::Bf16);
    assert!(is_narrow, "{operation} of {} is not offered", ty.name());
    ScalarType::F32
}

/// The number in the type `ty`, if that is not what it is.
fn cast_unless_bool<'a>(x: Arc<Node<'a>>, ty: ScalarType) -> Part<'a> {
    if ty == ScalarType::Bool { Ok(x) } else { cast(x, ty) }
}

/// The number 1 of a type.
pub(in crate::expr) fn one<'a>(ty: ScalarType) -> Part<'a> {
    cast(Node::scalar(ScalarType::U32, 1), ty)
}

/// A number of no axes, repeated to the shape of a part, whose arrays it is computed beside.
pub(in crate::expr) fn repeated<'a>(number: Arc<Node<'a>>, like: &Node<'a>) -> Arc<Node<'a>> {
    Arc::new(like.with_kind(number.kind.clone()))
}
