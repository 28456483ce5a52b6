// SPDX-License-Identifier: MIT OR Apache-2.0
//! The numbers of a formula, and the type that several have together.

use std::sync::Arc;

use cuda_std::scalar::ScalarType;

use crate::error::Error;
use crate::expr::graph::function::is_float;
use crate::expr::graph::problem::Problem;
use crate::expr::graph::{Node, cast};
use crate::expr::value::promoted;

/// A number, or one of each element.
#[derive(Clone)]
pub(super) enum Number<'a> {
    /// An integer of the text, which takes the type of what it stands beside.
    Int(i128),
    /// A float of the text, which takes the type of what floats it stands beside.
    Float(f64),
    /// One that has a type.
    Typed(Arc<Node<'a>>),
}

/// Numbers of one type.
pub(super) enum Together<'a> {
    Ints(Vec<i128>),
    Floats(Vec<f64>),
    Typed(Vec<Arc<Node<'a>>>),
}

pub(super) fn is_signed(ty: ScalarType) -> bool {
    is_float(ty) || matches!(ty, ScalarType::I32 | ScalarType::I64)
}

impl<'a> Number<'a> {
    pub(super) fn truth(value: bool) -> Self {
        Self::Typed(Node::scalar(ScalarType::Bool, value.into()))
    }

    /// What it is called in messages.
    pub(super) fn type_name(&self) -> &'static str {
        match self {
            Self::Int(_) => "an integer",
            Self::Float(_) => "a float",
            Self::Typed(node) => node.ty.name(),
        }
    }

    /// The number in that type, which is not `bool`; an integer of the text must be one of an integer type's values.
    pub(super) fn in_type(self, ty: ScalarType) -> Result<Arc<Node<'a>>, String> {
        match self {
            Self::Int(number) if is_float(ty) => Self::Float(number as f64).in_type(ty),
            Self::Int(number) => int(number, ty),
            Self::Float(number) => convert(Node::scalar(ScalarType::F64, number.to_bits()), ty),
            Self::Typed(node) => convert(node, ty),
        }
    }

    /// The number with a type: that of the result where nothing gave it another.
    pub(super) fn typed(self) -> Result<Arc<Node<'a>>, String> {
        match self {
            Self::Int(number) if number > i64::MAX.into() => int(number, ScalarType::U64),
            Self::Int(number) => int(number, ScalarType::I64),
            Self::Float(number) => Ok(Node::scalar(ScalarType::F64, number.to_bits())),
            Self::Typed(node) => Ok(node),
        }
    }
}

/// [`cast`] of a number that has a type.
pub(super) fn convert(number: Arc<Node<'_>>, ty: ScalarType) -> Result<Arc<Node<'_>>, String> {
    cast(number, ty).map_err(problem)
}

pub(super) fn problem(problem: Problem) -> String {
    Error::from(problem).to_string()
}

/// The integer as a number of that type of integers.
fn int<'a>(number: i128, ty: ScalarType) -> Result<Arc<Node<'a>>, String> {
    let bits = 8 * ty.bytes() as u32;
    let (least, most) = match is_signed(ty) {
        true => (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1),
        false => (0, (1i128 << bits) - 1),
    };
    if !(least..=most).contains(&number) {
        return Err(format!("{number} is no {}, wanted {least} to {most}", ty.name()));
    }
    Ok(Node::scalar(ty, number as u64 & (u64::MAX >> (64 - bits))))
}

/// The numbers in the type that they have together: that of those that have one ([`Promote`](crate::expr::Promote)), beside
/// which those of the text have none of their own, but that a float makes `f64` of integers.
pub(super) fn together<'a>(numbers: &[Number<'a>]) -> Result<Together<'a>, String> {
    let mut ty = None;
    for number in numbers {
        if let Number::Typed(node) = number {
            ty = Some(match ty {
                None => node.ty,
                Some(ty) => promoted(ty, node.ty).ok_or_else(|| none_together(ty.name(), node.ty.name()))?,
            });
        }
    }
    let has_float = numbers.iter().any(|number| matches!(number, Number::Float(_)));
    let Some(ty) = ty else {
        let ints = numbers.iter().filter_map(|number| match number {
            Number::Int(number) => Some(*number),
            _ => None,
        });
        let floats = numbers.iter().filter_map(|number| match number {
            Number::Int(number) => Some(*number as f64),
            Number::Float(number) => Some(*number),
            Number::Typed(_) => None,
        });
        return Ok(match has_float {
            true => Together::Floats(floats.collect()),
            false => Together::Ints(ints.collect()),
        });
    };
    let untyped = numbers.iter().find(|number| !matches!(number, Number::Typed(_)));
    if let (ScalarType::Bool, Some(number)) = (ty, untyped) {
        return Err(none_together("bool", number.type_name()));
    }
    let ty = if has_float && !is_float(ty) {
        ScalarType::F64
    } else {
        ty
    };
    let typed = numbers.iter().map(|number| number.clone().in_type(ty));
    typed.collect::<Result<_, _>>().map(Together::Typed)
}

fn none_together(one: &str, other: &str) -> String {
    let way_out = match one == "bool" || other == "bool" {
        true => "a cast makes a number of a condition, as in `f32(a > 0)`",
        false => "a cast makes one of the other, as in `i64(a)` or `f64(a)`",
    };
    format!("{one} and {other} have no type together; {way_out}")
}
