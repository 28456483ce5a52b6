// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is computed of rows, along any axes: softmax, norms, cross-entropy, and their gradients.
//!
//! All of it is put together from reductions and arithmetic, so that it is one kernel where a row fits into a block, and a part
//! of other expressions. Numbers of 16 bits are computed with in `f32`, and only the result is rounded.
//!
//! Each is a [composite](super::graph::composite): checked where it is written, and put together where kernels are looked for.

mod cross_entropy;
mod norms;
mod softmax;

pub use cross_entropy::Label;
pub(super) use softmax::{log_softmax, log_sum_exp, softmax};

use std::sync::Arc;

use cuda_std::scalar::ScalarType;

use super::graph::composite::{Composite, Expand};
use super::graph::fold::Operator;
use super::graph::function::Binary;
use super::graph::parts::Shape;
use super::graph::problem::Problem;
use super::graph::walk::insert_axis;
use super::graph::{Node, Part, binary, binary_as_it_is, cast, check_axes};
use super::reductions::{count, with_axes};

type Number<'a> = Arc<Node<'a>>;

/// The type that numbers of these parts are computed in: `f64` if any is, else `f32`.
fn wide_type(parts: &[&Number<'_>]) -> ScalarType {
    match parts.iter().any(|part| part.ty == ScalarType::F64) {
        true => ScalarType::F64,
        false => ScalarType::F32,
    }
}

/// The number in the type that it is computed in.
fn wide<'a>(x: &Number<'a>) -> Part<'a> {
    cast(Arc::clone(x), wide_type(&[x]))
}

/// One number of that type, of no axes.
fn constant<'a>(value: f64, ty: ScalarType) -> Part<'a> {
    match ty {
        ScalarType::F32 => Ok(Node::scalar(ty, (value as f32).to_bits().into())),
        _ => cast(Node::scalar(ScalarType::F64, value.to_bits()), ty),
    }
}

fn add<'a>(a: &Number<'a>, b: &Number<'a>) -> Part<'a> {
    binary(Binary::Add, Arc::clone(a), Arc::clone(b))
}

fn sub<'a>(a: &Number<'a>, b: &Number<'a>) -> Part<'a> {
    binary(Binary::Sub, Arc::clone(a), Arc::clone(b))
}

fn mul<'a>(a: &Number<'a>, b: &Number<'a>) -> Part<'a> {
    binary(Binary::Mul, Arc::clone(a), Arc::clone(b))
}

fn div<'a>(a: &Number<'a>, b: &Number<'a>) -> Part<'a> {
    binary(Binary::Div, Arc::clone(a), Arc::clone(b))
}

/// Numbers along axes combined to one, without these axes.
fn reduced<'a>(operator: Operator, x: &Number<'a>, axes: &[usize]) -> Part<'a> {
    Ok(Node::reduce(operator, [Arc::clone(x)], axes)?.into_first())
}

/// The sum along axes, which have length 1 then.
fn sum<'a>(x: &Number<'a>, axes: &[usize]) -> Part<'a> {
    Ok(with_axes(&reduced(Operator::Sum, x, axes)?, axes))
}

/// The mean along axes, which have length 1 then; 0 of no elements, which nobody sees.
fn mean<'a>(x: &Number<'a>, axes: &[usize]) -> Part<'a> {
    let count = count(x, axes).max(1);
    // A product by the reciprocal of 1024 takes fewer instructions and gives the same bits, but ptxas then asks for what is read
    // behind it, as weights are, later: layer norm of 2^20 elements in such rows took 6.02 µs for 5.78.
    let count = constant(count as f64, x.ty)?;
    binary_as_it_is(Binary::Div, sum(x, axes)?, count)
}

/// The sums of all that numbers of `shape` were repeated to.
fn sum_to<'a>(x: &Number<'a>, shape: &[usize]) -> Part<'a> {
    let ahead = x.shape.len() - shape.len();
    let is_repeated = |&axis: &usize| axis < ahead || shape[axis - ahead] != x.shape[axis];
    let axes: Vec<usize> = (0..x.shape.len()).filter(is_repeated).collect();
    let sums = reduced(Operator::Sum, x, &axes)?;
    let kept = axes.iter().filter_map(|axis| axis.checked_sub(ahead));
    Ok(kept.fold(sums, |sums, axis| insert_axis(&sums, axis)))
}

/// An operation along axes of elements, which gives numbers of their type and that shape.
fn along_axes<'a>(
    operation: &'static str,
    expand: Expand,
    x: &Number<'a>,
    axes: &[usize],
    shape: impl FnOnce() -> Shape,
) -> Part<'a> {
    check_axes(operation, &x.shape, axes)?;
    let composite = Composite {
        expand,
        parts: [Arc::clone(x)].into(),
        settings: axes.into(),
    };
    composite.result(operation, x.ty, shape())
}

/// An error unless numbers, which `what` names, have the shape of the elements.
fn check_same_shape(operation: &'static str, what: &str, given: &Node<'_>, x: &Node<'_>) -> Result<(), Problem> {
    if given.shape == x.shape {
        return Ok(());
    }
    Err(Problem::Shape {
        operation,
        given: format!("{what} of shape {:?}", given.shape),
        wanted: format!("that of the elements, {:?}", x.shape),
    })
}

/// An error unless numbers, which `what` names, can be repeated to the shape of the elements.
fn check_repeats(operation: &'static str, what: &str, given: &Node<'_>, x: &Node<'_>) -> Result<(), Problem> {
    let fits = |(from_end, &len): (usize, &usize)| {
        let other = x.shape.len().checked_sub(from_end + 1);
        other.is_some_and(|axis| len == 1 || len == x.shape[axis])
    };
    if given.shape.iter().rev().enumerate().all(fits) {
        return Ok(());
    }
    Err(Problem::Shape {
        operation,
        given: format!("{what} of shape {:?}", given.shape),
        wanted: format!("one that is repeated to that of the elements, {:?}", x.shape),
    })
}
