// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cross-entropy of logits and labels, and its gradient.

use std::array::from_fn;
use std::sync::Arc;

use cuda_std::scalar::ScalarType;
use kernels_gpu::compiled::Real;
use ndarray::{Axis, Ix0, RemoveAxis};

use super::softmax::{OF_HALVES, OF_SUMS, shifted, softmax_of};
use super::{Number, constant, div, mul, reduced, sub, wide, wide_type};
use crate::array::DeviceArray;
use crate::error::Result as OnDevice;
use crate::expr::Expr;
use crate::expr::compiled::evaluated::Procedure;
use crate::expr::eval::{dim, home, run_by};
use crate::expr::graph::composite::Composite;
use crate::expr::graph::fold::Operator;
use crate::expr::graph::function::{Binary, Ternary, Unary};
use crate::expr::graph::parts::{Parts, Shape, without};
use crate::expr::graph::problem::Problem;
use crate::expr::graph::walk::insert_axis;
use crate::expr::graph::{Elements, Node, Part, binary, cast, check_axes, ternary, unary, with_type};
use crate::expr::operand::{IntoExpr, Operand};
use crate::expr::plan;
use crate::expr::plan::run::{Runner, uninit_shape};
use crate::expr::reductions::with_axes;
use crate::expr::value::Value;

/// The types of labels: `i32`, `i64`, `u8`, `u16`, `u32` and `u64`.
#[diagnostic::on_unimplemented(
    message = "numbers of type `{Self}` cannot be labels",
    note = "wanted: `i32`, `i64`, `u8`, `u16`, `u32` or `u64`"
)]
pub trait Label: Value {}

impl Label for i32 {}
impl Label for i64 {}
impl Label for u8 {}
impl Label for u16 {}
impl Label for u32 {}
impl Label for u64 {}

/// A loss, and the gradient by the logits.
type LossAndGradient<T, D> = (DeviceArray<T, Ix0>, DeviceArray<T, D>);

/// Cross-entropy, computed in `f32` of 16-bit floats and rounded once.
impl<'a, T: Value + Real, D: RemoveAxis> Expr<'a, T, D> {
    /// The cross-entropy of logits along an axis and labels, the numbers of the right classes: the mean of
    /// `−ln softmax(x)[label]` over all rows along the axis whose label is a class.
    ///
    /// Rows whose label is negative, or not below the number of classes, are left out of sum and count, as those of PyTorch's
    /// `ignore_index`; of no rows it is NaN. Labels are of any type of integers.
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
        labels: impl IntoExpr<'a, Value: Label, Dim = D::Smaller>,
    ) -> Expr<'a, T, Ix0> {
        let labels = labels.hidden().0;
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
        labels: impl IntoExpr<'a, Value: Label, Dim = D::Smaller>,
        gradient: impl Operand<'a, T, Dim = Ix0>,
    ) -> Self {
        let (labels, gradient) = (labels.hidden().0, gradient.operand().0);
        let gradient = |x: Number<'a>| cross_entropy_backward(&x, axis.0, &labels?, &gradient?);
        Self::of(self.part.clone().and_then(gradient))
    }

    /// [`cross_entropy`](Self::cross_entropy) and its [gradient](Self::cross_entropy_backward) as arrays, for a step of training: what
    /// both need of a row, its largest number and the sum of its exponentials, is found once.
    ///
    /// Along the last axis a kernel counts the labels, one reads each row, writes its gradient and keeps its loss, and one sums the
    /// losses. So the logits are read once, where a block has registers for a row (16,384 `f32`), or a cluster of blocks (65,536, of
    /// multiples of four, on Hopper and later; other GPUs read of those what has no room in a block up to three times). Of other rows, and
    /// along other axes, a kernel finds what both need, and another one reads the logits once more. Results are those of the two evaluations, but that sums may be
    /// rounded otherwise.
    ///
    /// # Errors
    ///
    /// As those of the two, and of [`eval`](Self::eval).
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
    /// let (loss, gradient) = logits.expr().cross_entropy_with_gradient(Axis(1), &labels, 1.0)?;
    /// assert!((loss.to_ndarray()?.into_scalar() - (2f32.ln() - 0.75f32.ln()) / 2.0).abs() < 1e-6);
    /// let wanted = array![[-0.25, 0.25], [0.125, -0.125], [0.0, 0.0]];
    /// assert!((gradient.to_ndarray()? - wanted).iter().all(|off| off.abs() < 1e-6));
    /// # Ok(())
    /// # }
    /// ```
    pub fn cross_entropy_with_gradient(
        &self,
        axis: Axis,
        labels: impl IntoExpr<'a, Value: Label, Dim = D::Smaller>,
        gradient: impl Operand<'a, T, Dim = Ix0>,
    ) -> OnDevice<LossAndGradient<T::Element, D>> {
        let x = self.part.clone()?;
        let (labels, gradient) = (labels.hidden().0?, gradient.operand().0?);
        check_labels("cross_entropy_with_gradient", &x, axis.0, &labels)?;
        let gradient = cast(Arc::clone(&gradient), wide_type(&[&x, &gradient]))?;
        let stream = home(&x)?;
        let array = DeviceArray::uninit(&stream, dim(&x.shape))?;
        let loss = DeviceArray::uninit(&stream, Ix0())?;
        let by = Procedure {
            compute: loss_and_gradient,
            axis: axis.0,
        };
        run_by(&stream, by, &[&x, &labels, &gradient], &[&&*loss, &&*array])?;
        Ok((loss, array))
    }
}

/// The labels of logits.
struct Labels<'a> {
    /// Whether a row's label is a class.
    are_classes: Number<'a>,
    /// The same with the axis of the logits.
    are_classes_along: Number<'a>,
    /// Whether an element is that of its row's label.
    are_labels: Number<'a>,
}

impl<'a> Labels<'a> {
    fn new(x: &Number<'a>, axis: usize, labels: &Number<'a>) -> Result<Self, Problem> {
        // A negative one is a large one.
        let labels = match labels.ty {
            ScalarType::U64 => Arc::clone(labels),
            _ => with_type(cast(Arc::clone(labels), ScalarType::I64)?, ScalarType::U64),
        };
        let classes = Node::scalar(ScalarType::U64, x.shape[axis] as u64);
        let along = insert_axis(&labels, axis);
        Ok(Self {
            are_classes: binary(Binary::Less, labels, Arc::clone(&classes))?,
            are_classes_along: binary(Binary::Less, Arc::clone(&along), classes)?,
            are_labels: binary(Binary::Equal, Node::index(&x.shape, axis)?, along)?,
        })
    }

    /// How many are classes, in a type of floats.
    fn count(&self, ty: ScalarType) -> Part<'a> {
        let axes: Vec<usize> = (0..self.are_classes.shape.len()).collect();
        let ones = cast(Arc::clone(&self.are_classes), ScalarType::U64)?;
        cast(reduced(Operator::Sum, &ones, &axes)?, ty)
    }
}

/// An error unless these are the labels of logits along an axis.
fn check_labels(operation: &'static str, x: &Node<'_>, axis: usize, labels: &Node<'_>) -> Result<(), Problem> {
    check_axes(operation, &x.shape, &[axis])?;
    let rows = without(&x.shape, &[axis]);
    if labels.shape == rows {
        return Ok(());
    }
    Err(Problem::Shape {
        operation,
        given: format!("labels of shape {:?}", labels.shape),
        wanted: format!("{rows:?}, that of the logits without axis {axis}"),
    })
}

/// What the loss and its gradient have of each row.
struct Rows<'a> {
    largest: Number<'a>,
    /// Of the exponentials of what is less the largest.
    total: Number<'a>,
    /// The logit of the label.
    of_label: Number<'a>,
}

impl<'a> Rows<'a> {
    /// By passes of their own for the largest number and the sum of no more than `longest` elements.
    fn new(wide: &Number<'a>, axis: usize, labels: &Labels<'a>, longest: usize) -> Result<Self, Problem> {
        let [_, largest, total] = shifted(wide, &[axis], longest)?;
        // The logit of the label is found in the pass that finds the largest one: all others are 0 in this sum.
        let of_label = ternary(
            Ternary::Select,
            [
                Arc::clone(&labels.are_labels),
                Arc::clone(wide),
                constant(0.0, wide.ty)?,
            ],
        )?;
        let of_label = reduced(Operator::Sum, &of_label, &[axis])?;
        Ok(Self {
            largest,
            total,
            of_label,
        })
    }

    /// The same as arrays: by one kernel, unless few rows are so long that several blocks share one.
    fn evaluated(self, runner: &dyn Runner) -> OnDevice<Self> {
        let [largest, total, of_label] = arrays_of(runner, [self.largest, self.total, self.of_label])?;
        Ok(Self {
            largest,
            total,
            of_label,
        })
    }

    /// The loss of each row, 0 where the label is no class.
    fn losses(&self, labels: &Labels<'a>) -> Part<'a> {
        let logarithms = sub(
            &sub(&self.of_label, &self.largest)?,
            &unary(Unary::Ln, Arc::clone(&self.total))?,
        )?;
        let of_rows = unary(Unary::Neg, logarithms)?;
        let zero = constant(0.0, of_rows.ty)?;
        ternary(Ternary::Select, [Arc::clone(&labels.are_classes), of_rows, zero])
    }

    /// The gradient by the logits, of those in the type that all this is in, and what a row counts.
    fn gradient(
        &self,
        wide: &Number<'a>,
        axis: usize,
        labels: &Labels<'a>,
        of_row: &Number<'a>,
        ty: ScalarType,
    ) -> Part<'a> {
        let largest = with_axes(&self.largest, &[axis]);
        let powers = unary(Unary::Exp, sub(wide, &largest)?)?;
        let softmax = div(&powers, &with_axes(&self.total, &[axis]))?;
        gradient_of(&softmax, labels, of_row, ty)
    }
}

/// Of logits, labels and a gradient in the type that all is computed in, the loss and the gradient by the logits.
fn loss_and_gradient<'a>(
    runner: &dyn Runner,
    axis: usize,
    roots: &[&Number<'a>],
    outputs: &[&dyn Elements],
) -> OnDevice<()> {
    let (&[x, labels, gradient], &[loss, array]) = (roots, outputs) else {
        unreachable!("as many as the method gives")
    };
    let (ty, labels) = (gradient.ty, Labels::new(x, axis, labels)?);
    let wide = cast(Arc::clone(x), ty)?;
    // What the gradient wants of all rows depends on the labels alone, and comes first.
    let count = labels.count(ty)?;
    let of_row = div(gradient, &count)?;
    let [count, of_row] = arrays_of(runner, [count, of_row])?;
    let rows = Rows::new(&wide, axis, &labels, OF_HALVES)?;
    let losses = rows.losses(&labels)?;
    let of_rows = uninit_shape(runner, ty, &losses.shape)?;
    let root = rows.gradient(&wide, axis, &labels, &of_row, x.ty)?;
    let losses = match plan::run_at_hand(runner, &[&root, &losses], &[array, &*of_rows])? {
        true => Node::of_array(of_rows, ty),
        false => {
            let rows = Rows::new(&wide, axis, &labels, OF_SUMS)?.evaluated(runner)?;
            let root = rows.gradient(&wide, axis, &labels, &of_row, x.ty)?;
            plan::run(runner, &[&root], &[array])?;
            rows.losses(&labels)?
        }
    };
    plan::run(runner, &[&cast(mean(&losses, &count)?, x.ty)?], &[loss])
}

/// Roots of one type and shape, as arrays.
fn arrays_of<'a, const N: usize>(runner: &dyn Runner, roots: [Number<'a>; N]) -> OnDevice<[Number<'a>; N]> {
    let arrays = roots.iter().map(|root| uninit_shape(runner, root.ty, &root.shape));
    let arrays = arrays.collect::<OnDevice<Vec<_>>>()?;
    let outputs: Vec<&dyn Elements> = arrays.iter().map(|array| &**array).collect();
    plan::run(runner, &roots.each_ref(), &outputs)?;
    Ok(from_fn(|k| Node::of_array(Arc::clone(&arrays[k]), roots[k].ty)))
}

/// The mean of the losses of so many rows.
fn mean<'a>(losses: &Number<'a>, count: &Number<'a>) -> Part<'a> {
    let axes: Vec<usize> = (0..losses.shape.len()).collect();
    div(&reduced(Operator::Sum, losses, &axes)?, count)
}

fn cross_entropy<'a>(x: &Number<'a>, axis: usize, labels: &Number<'a>) -> Part<'a> {
    check_labels("cross_entropy", x, axis, labels)?;
    let composite = Composite {
        expand: cross_entropy_of,
        parts: [x, labels].map(Arc::clone).into(),
        settings: [axis][..].into(),
    };
    composite.result("cross_entropy", x.ty, Shape::NONE)
}

fn cross_entropy_of<'a>(of: &Composite<'a>) -> Result<Parts<'a>, Problem> {
    let (x, axis) = (&of.parts[0], of.settings[0]);
    let labels = Labels::new(x, axis, &of.parts[1])?;
    let losses = Rows::new(&wide(x)?, axis, &labels, OF_SUMS)?.losses(&labels)?;
    let mean = mean(&losses, &labels.count(losses.ty)?)?;
    Ok([cast(mean, x.ty)?].into())
}

fn cross_entropy_backward<'a>(x: &Number<'a>, axis: usize, labels: &Number<'a>, gradient: &Number<'a>) -> Part<'a> {
    check_labels("cross_entropy_backward", x, axis, labels)?;
    let gradient = cast(Arc::clone(gradient), wide_type(&[x, gradient]))?;
    let composite = Composite {
        expand: cross_entropy_backward_of,
        parts: [Arc::clone(x), Arc::clone(labels), gradient].into(),
        settings: [axis][..].into(),
    };
    composite.result("cross_entropy_backward", x.ty, x.shape.clone())
}

fn cross_entropy_backward_of<'a>(of: &Composite<'a>) -> Result<Parts<'a>, Problem> {
    let ([x, labels, gradient], axis) = ([&of.parts[0], &of.parts[1], &of.parts[2]], of.settings[0]);
    let labels = Labels::new(x, axis, labels)?;
    let of_row = div(gradient, &labels.count(gradient.ty)?)?;
    let softmax = softmax_of(&cast(Arc::clone(x), gradient.ty)?, &[axis], OF_HALVES)?;
    Ok([gradient_of(&softmax, &labels, &of_row, x.ty)?].into())
}

/// The gradient by the logits, of their softmax and what a row counts, in a type.
fn gradient_of<'a>(softmax: &Number<'a>, labels: &Labels<'a>, of_row: &Number<'a>, ty: ScalarType) -> Part<'a> {
    let distance = sub(softmax, &cast(Arc::clone(&labels.are_labels), softmax.ty)?)?;
    let counted = mul(&distance, of_row)?;
    let zero = constant(0.0, softmax.ty)?;
    cast(
        ternary(Ternary::Select, [Arc::clone(&labels.are_classes_along), counted, zero])?,
        ty,
    )
}
