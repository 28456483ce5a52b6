// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cross-entropy of logits and labels, and its gradient.

use std::sync::Arc;

use cuda_std::scalar::ScalarType;
use kernels_gpu::compiled::Real;
use ndarray::{Axis, Ix0, RemoveAxis};

use super::softmax::{OF_SUMS, shifted, softmax};
use super::{Number, check_axes, constant, div, mul, reduced, sub, wide, wide_type};
use crate::expr::Expr;
use crate::expr::graph::fold::Operator;
use crate::expr::graph::function::{Binary, Ternary, Unary};
use crate::expr::graph::problem::Problem;
use crate::expr::graph::walk::insert_axis;
use crate::expr::graph::{Node, Part, binary, cast, ternary, unary, with_type};
use crate::expr::operand::Operand;
use crate::expr::value::Value;

/// Cross-entropy, computed in `f32` of 16-bit floats and rounded once.
impl<'a, T: Value + Real, D: RemoveAxis> Expr<'a, T, D> {
    /// The cross-entropy of logits along an axis and labels, the numbers of the right classes: the mean of
    /// `−ln softmax(x)[label]` over all rows along the axis whose label is a class.
    ///
    /// Rows whose label is negative, or not below the number of classes, are left out of sum and count, as those of PyTorch's
    /// `ignore_index`; of no rows it is NaN. Labels are `i32`, `i64`, `u8`, `u16` or `u32`.
    ///
    /// # Errors
    ///
    /// Evaluating it is [`Error::Axes`](crate::Error::Axes) if there is no such axis, and [`Error::Shape`](crate::Error::Shape) if
    /// the shape of the labels is not that of the logits without the axis.
    ///
    /// # Examples
    ///
    /// ```
    /// use warpsmith::ndarray::{Axis, array};
    /// use warpsmith::{Device, DeviceArray};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let stream = device.default_stream();
    /// let logits = DeviceArray::from_ndarray(stream, &array![[0.0f32, 0.0], [0.0, 3f32.ln()], [5.0, 7.0]])?;
    /// let labels = DeviceArray::from_ndarray(stream, &array![0, 1, -1])?;
    /// let loss = logits.expr().cross_entropy(Axis(1), &labels).eval()?.to_ndarray()?.into_scalar();
    /// assert!((loss - (2f32.ln() - 0.75f32.ln()) / 2.0).abs() < 1e-6);
    ///
    /// let gradient = logits.expr().cross_entropy_backward(Axis(1), &labels, 1.0).eval()?.to_ndarray()?;
    /// assert!((gradient - array![[-0.25, 0.25], [0.125, -0.125], [0.0, 0.0]]).iter().all(|off| off.abs() < 1e-6));
    /// # Ok(())
    /// # }
    /// ```
    pub fn cross_entropy(
        &self,
        axis: Axis,
        labels: impl Operand<'a, i64, Together = i64, Dim = D::Smaller>,
    ) -> Expr<'a, T, Ix0> {
        let labels = labels.operand().0;
        let loss = |x: Number<'a>| cross_entropy(&x, axis.0, &labels?);
        Expr::of(self.part.clone().and_then(loss))
    }

    /// The gradient of [`cross_entropy`](Self::cross_entropy) of these logits, `(softmax(x) − [class = label]) g / n`, where `n` is
    /// the number of rows that count; 0 in those that do not. `gradient` is that of what is made of the loss: 1, or by what it is
    /// scaled.
    ///
    /// # Errors
    ///
    /// As [`cross_entropy`](Self::cross_entropy).
    pub fn cross_entropy_backward(
        &self,
        axis: Axis,
        labels: impl Operand<'a, i64, Together = i64, Dim = D::Smaller>,
        gradient: impl Operand<'a, T, Dim = Ix0>,
    ) -> Self {
        let (labels, gradient) = (labels.operand().0, gradient.operand().0);
        let gradient = |x: Number<'a>| cross_entropy_backward(&x, axis.0, &labels?, &gradient?);
        Self::of(self.part.clone().and_then(gradient))
    }
}

/// The labels of logits.
struct Labels<'a> {
    /// Whether a row's label is a class.
    are_classes: Number<'a>,
    /// Whether an element is that of its row's label.
    are_labels: Number<'a>,
}

impl<'a> Labels<'a> {
    fn new(operation: &'static str, x: &Number<'a>, axis: usize, labels: &Number<'a>) -> Result<Self, Problem> {
        check_axes(operation, x, &[axis])?;
        let mut rows = x.shape.to_vec();
        let classes = rows.remove(axis);
        if *labels.shape != *rows {
            return Err(Problem::Shape {
                operation,
                given: format!("labels of shape {:?}", labels.shape),
                wanted: format!("{rows:?}, that of the logits without axis {axis}"),
            });
        }
        // A negative one is a large one.
        let labels = with_type(cast(Arc::clone(labels), ScalarType::I64)?, ScalarType::U64);
        let classes = Node::scalar(ScalarType::U64, classes as u64);
        Ok(Self {
            are_classes: binary(Binary::Less, Arc::clone(&labels), classes)?,
            are_labels: binary(Binary::Equal, Node::index(&x.shape, axis)?, insert_axis(&labels, axis))?,
        })
    }

    /// How many are classes, in a type of floats.
    fn count(&self, ty: ScalarType) -> Part<'a> {
        let axes: Vec<usize> = (0..self.are_classes.shape.len()).collect();
        let ones = cast(Arc::clone(&self.are_classes), ScalarType::U64)?;
        cast(reduced(Operator::Sum, &ones, &axes)?, ty)
    }
}

fn cross_entropy<'a>(x: &Number<'a>, axis: usize, labels: &Number<'a>) -> Part<'a> {
    let labels = Labels::new("cross_entropy", x, axis, labels)?;
    let wide = wide(x)?;
    let zero = constant(0.0, wide.ty)?;
    let [_, largest, total] = shifted(&wide, &[axis], OF_SUMS)?;
    // The logit of the label is found in the pass that finds the largest one: all others are 0 in this sum.
    let of_label = ternary(
        Ternary::Select,
        [Arc::clone(&labels.are_labels), wide, Arc::clone(&zero)],
    )?;
    let of_label = reduced(Operator::Sum, &of_label, &[axis])?;
    let logarithms = sub(&sub(&of_label, &largest)?, &unary(Unary::Ln, total)?)?;
    let of_rows = unary(Unary::Neg, logarithms)?;
    let counted = ternary(Ternary::Select, [Arc::clone(&labels.are_classes), of_rows, zero])?;
    let axes: Vec<usize> = (0..counted.shape.len()).collect();
    let total = reduced(Operator::Sum, &counted, &axes)?;
    cast(div(&total, &labels.count(total.ty)?)?, x.ty)
}

fn cross_entropy_backward<'a>(x: &Number<'a>, axis: usize, labels: &Number<'a>, gradient: &Number<'a>) -> Part<'a> {
    let labels = Labels::new("cross_entropy_backward", x, axis, labels)?;
    let ty = wide_type(&[x, gradient]);
    let of_row = div(&cast(Arc::clone(gradient), ty)?, &labels.count(ty)?)?;
    let wide = cast(Arc::clone(x), ty)?;
    let distance = sub(&softmax(&wide, &[axis])?, &cast(labels.are_labels, ty)?)?;
    let counted = mul(&distance, &of_row)?;
    let are_classes = insert_axis(&labels.are_classes, axis);
    cast(
        ternary(Ternary::Select, [are_classes, counted, constant(0.0, ty)?])?,
        x.ty,
    )
}
