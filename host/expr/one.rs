// SPDX-License-Identifier: MIT OR Apache-2.0
//! Expressions of one operation: what eager methods are for which no kernel is compiled. They have checked shapes and devices.

use std::sync::Arc;

use cuda_std::scalar::{Scalar, ScalarType};
use kernels_gpu::compiled::Operator;
use ndarray::Dimension;

use super::eval::run;
use super::graph::function::{self, Ternary};
use super::graph::{self, Elements, Node};
use crate::array::Element;
use crate::array_ref::DeviceArrayRef;
use crate::error::Result;
use crate::stream::Stream;

/// What becomes of a number that the other type has not.
#[derive(Clone, Copy)]
pub(crate) enum Conversion {
    /// As Rust's `as`.
    Plain,
    Saturating,
    Wrapping,
}

/// An operand, or what an operation gives.
pub(crate) struct Term<'a>(Arc<Node<'a>>);

impl<'a> Term<'a> {
    pub(crate) fn array<T: Element + Scalar, D: Dimension>(array: &'a DeviceArrayRef<T, D>) -> Self {
        Self(Node::array(array))
    }

    /// An array whose elements are the bits of a `ty`.
    pub(crate) fn array_of<T: Element, D: Dimension>(array: &'a DeviceArrayRef<T, D>, ty: ScalarType) -> Self {
        assert_eq!(ty.bytes(), size_of::<T>());
        Self(Node::of_array(Arc::new(array), ty))
    }

    /// One number for all elements.
    pub(crate) fn number<T: Element + Scalar>(number: T) -> Self {
        let mut bits = [0; 8];
        bits[..size_of::<T>()].copy_from_slice(bytemuck::bytes_of(&number));
        Self(Node::scalar(T::TYPE, u64::from_le_bytes(bits)))
    }

    pub(crate) fn cast(self, conversion: Conversion, to: ScalarType) -> Result<Self> {
        Ok(Self(match conversion {
            Conversion::Plain => graph::cast(self.0, to),
            Conversion::Saturating => graph::cast_saturating(self.0, to),
            Conversion::Wrapping => graph::cast_wrapping(self.0, to),
        }?))
    }

    /// Of two operands of one type.
    pub(crate) fn binary(operator: Operator, a: Self, b: Self) -> Result<Self> {
        use function::Binary;
        let (operator, a, b) = match operator {
            Operator::Add => (Binary::Add, a, b),
            Operator::Sub => (Binary::Sub, a, b),
            Operator::Mul => (Binary::Mul, a, b),
            Operator::Div => (Binary::Div, a, b),
            Operator::Minimum => (Binary::Minimum, a, b),
            Operator::Maximum => (Binary::Maximum, a, b),
            Operator::Pow => (Binary::Pow, a, b),
            Operator::Equal => (Binary::Equal, a, b),
            Operator::NotEqual => (Binary::NotEqual, a, b),
            Operator::Less => (Binary::Less, a, b),
            Operator::LessEqual => (Binary::LessEqual, a, b),
            Operator::Greater => (Binary::Less, b, a),
            Operator::GreaterEqual => (Binary::LessEqual, b, a),
        };
        Ok(Self(graph::binary(operator, a.0, b.0)?))
    }

    /// `a` where this one, of any type, is not 0, else `b`.
    pub(crate) fn select(self, a: Self, b: Self) -> Result<Self> {
        let zero = Node::scalar(self.0.ty, 0);
        let condition = graph::binary(function::Binary::NotEqual, self.0, zero)?;
        Ok(Self(graph::ternary(Ternary::Select, [condition, a.0, b.0])?))
    }

    pub(crate) fn clamp(self, low: Self, high: Self) -> Result<Self> {
        Ok(Self(graph::ternary(Ternary::Clamp, [self.0, low.0, high.0])?))
    }

    pub(crate) fn mul_add(self, factor: Self, summand: Self) -> Result<Self> {
        Ok(Self(graph::ternary(Ternary::MulAdd, [self.0, factor.0, summand.0])?))
    }

    /// Computes the elements, on a stream of their device, into an output of their shape.
    pub(crate) fn write<T: Element, D: Dimension>(
        &self,
        stream: &Stream,
        out: &mut DeviceArrayRef<T, D>,
    ) -> Result<()> {
        out.write_in_order(stream, &mut |out| self.run(stream, size_of::<T>(), &&*out))
    }

    fn run(&self, stream: &Stream, bytes: usize, out: &dyn Elements) -> Result<()> {
        assert_eq!((self.0.ty.bytes(), &*self.0.shape), (bytes, out.shape()));
        run(stream, &[&self.0], &[out])
    }
}

/// Replaces elements in C order by what `function` makes of them, of whose operands no other has any of them.
pub(crate) fn replace<'a, T: Element + Scalar, D: Dimension>(
    elements: &'a mut DeviceArrayRef<T, D>,
    function: impl FnOnce(Term<'a>) -> Result<Term<'a>>,
) -> Result<()> {
    let elements = &*elements;
    function(Term::array(elements))?.run(elements.stream(), size_of::<T>(), &elements)
}
