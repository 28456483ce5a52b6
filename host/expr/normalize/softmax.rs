// SPDX-License-Identifier: MIT OR Apache-2.0
//! Softmax, its logarithm, and the logarithm of sums of exponentials.
//!
//! The largest number is subtracted before the exponential, so that nothing overflows, and the largest one counts 1. Rows that
//! fit into no cluster of blocks, and those that are only summed and fit into no block, have the largest number and the sum by one
//! reduction, which saves a pass.

use std::sync::Arc;

use cuda_std::scalar::ScalarType;
use kernels_gpu::compiled::Real;
use ndarray::{Axis, Dimension, Ix0, IxDyn, RemoveAxis};

use super::{Number, add, along_axes, check_same_shape, constant, div, mul, reduced, sub, sum, wide, wide_type};
use crate::array::{DeviceArray, Element};
use crate::array_ref::DeviceArrayRef;
use crate::expr::Expr;
use crate::expr::graph::composite::{Composite, Expand};
use crate::expr::graph::fold::Operator;
use crate::expr::graph::function::{Ternary, Unary};
use crate::expr::graph::parts::without;
use crate::expr::graph::problem::Problem;
use crate::expr::graph::{Node, Part, cast, check_axes, repeated, ternary, unary};
use crate::expr::operand::Operand;
use crate::expr::plan::{MOST_WORDS, longest_of_cluster, may_be_held, shares_rows};
use crate::expr::reductions::{count, with_axes};
use crate::expr::value::Value;

/// Softmax, of arrays.
impl<T: Value<Element = T> + Element + Real, D: Dimension> DeviceArrayRef<T, D> {
    /// `e^x / Σ e^x` along an axis: [`Expr::softmax`], which says what it costs, and how large the error is.
    ///
    /// # Errors
    ///
    /// [`Error::Axes`](crate::Error::Axes) if there is no such axis; those of an allocation and a launch.
    ///
    /// # Examples
    ///
    /// ```
    /// use ndarray::{Axis, array};
    /// use warpsmith::{Device, DeviceArray};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let x = DeviceArray::from_ndarray(device.default_stream(), &array![[2.0f32, 2.0], [1000.0, 0.0]])?;
    /// assert_eq!(x.softmax(Axis(1))?.to_ndarray()?, array![[0.5, 0.5], [1.0, 0.0]]);
    /// assert_eq!(x.log_softmax(Axis(1))?.get([1, 1])?, -1000.0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn softmax(&self, axis: Axis) -> crate::Result<DeviceArray<T, D>> {
        self.expr().softmax(axis).eval()
    }

    /// The natural logarithm of [`softmax`](Self::softmax), without rounding in between: [`Expr::log_softmax`].
    ///
    /// # Errors
    ///
    /// As [`softmax`](Self::softmax).
    pub fn log_softmax(&self, axis: Axis) -> crate::Result<DeviceArray<T, D>> {
        self.expr().log_softmax(axis).eval()
    }
}

/// Softmax and what belongs to it. Numbers of 16 bits are computed with in `f32`, and the result is rounded once.
impl<'a, T: Value + Real, D: Dimension> Expr<'a, T, D> {
    /// `e^x / Σ e^x` along an axis: positive numbers whose sum is 1. The largest number is subtracted first, so that nothing
    /// overflows.
    ///
    /// A NaN makes its row NaN; so does ∞, and so do numbers that are all −∞, as in PyTorch. Along an axis of no elements
    /// there is nothing to compute.
    ///
    /// The relative error of an element is, to first order, at most `|x − max| u` of the difference, the errors of two
    /// exponentials, that of [`sum`](Self::sum), of `f32` that are read twice three times that, and one rounding.
    ///
    /// Along the last axis this is one kernel. It reads rows of up to 262,144 numbers once, of `f64` 131,072, where the GPU has clusters
    /// (Hopper and later), whose blocks share a row, and rows are multiples of four elements, or of 16-bit ones; otherwise rows of up to
    /// 32,768, `f64` 16,384, and of longer ones what has no room in a block up to three times. Longer rows than that are read twice, of
    /// `f64` three times, and so are those of more than 65,536 `f32` that are no multiples. Along other axes one kernel
    /// reads rows of up to 4096 `f32` or 2048 `f64` once, of which 16 or more are neighbours (of fewer than 512 rows up to 1024 `f32`);
    /// of others two kernels read `f32`, and three `f64`.
    ///
    /// # Errors
    ///
    /// Evaluating it is [`Error::Axes`](crate::Error::Axes) if there is no such axis.
    ///
    /// # Examples
    ///
    /// ```
    /// use warpsmith::ndarray::{Axis, array};
    /// use warpsmith::{Device, DeviceArray};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let x = DeviceArray::from_ndarray(device.default_stream(), &array![[0.0f64, 3f64.ln()], [1000.0, 1000.0]])?;
    /// let y = x.expr().softmax(Axis(1)).eval()?.to_ndarray()?;
    /// assert!((y - array![[0.25, 0.75], [0.5, 0.5]]).iter().all(|off| off.abs() < 1e-15));
    /// # Ok(())
    /// # }
    /// ```
    pub fn softmax(&self, axis: Axis) -> Self {
        Self::of(self.part.clone().and_then(|x| softmax(&x, &[axis.0])))
    }

    /// The gradient of [`softmax`](Self::softmax), whose result this is: that of a number of which `gradient` is the gradient by
    /// the result, `y (g − Σ g y)`. As large as this; of any type that has one together with `T`.
    ///
    /// # Errors
    ///
    /// As [`softmax`](Self::softmax), and evaluating it is [`Error::Shape`](crate::Error::Shape) if the shapes differ.
    ///
    /// # Examples
    ///
    /// ```
    /// use warpsmith::ndarray::{Axis, array};
    /// use warpsmith::{Device, DeviceArray};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let y = DeviceArray::from_ndarray(device.default_stream(), &array![[0.25f32, 0.75]])?;
    /// let of_first = DeviceArray::from_ndarray(device.default_stream(), &array![[1.0f32, 0.0]])?;
    /// let gradient = y.expr().softmax_backward(Axis(1), &of_first).eval()?;
    /// assert_eq!(gradient.to_ndarray()?, array![[0.1875, -0.1875]]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn softmax_backward(&self, axis: Axis, gradient: impl Operand<'a, T>) -> Self {
        let gradient = gradient.operand().0;
        Self::of((self.part.clone()).and_then(|y| softmax_backward(&y, axis.0, &gradient?)))
    }

    /// The natural logarithm of [`softmax`](Self::softmax), `x − max − ln Σ e^(x − max)`, without rounding in between: also
    /// where softmax is too small for a number.
    ///
    /// # Errors
    ///
    /// As [`softmax`](Self::softmax).
    ///
    /// # Examples
    ///
    /// ```
    /// use warpsmith::ndarray::{Axis, array};
    /// use warpsmith::{Device, DeviceArray};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let x = DeviceArray::from_ndarray(device.default_stream(), &array![0.0f32, -200.0])?;
    /// assert_eq!(x.expr().log_softmax(Axis(0)).eval()?.to_ndarray()?, array![0.0, -200.0]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn log_softmax(&self, axis: Axis) -> Self {
        Self::of(self.part.clone().and_then(|x| log_softmax(&x, &[axis.0])))
    }

    /// The gradient of [`log_softmax`](Self::log_softmax), whose result this is: `g − e^y Σ g`.
    ///
    /// # Errors
    ///
    /// As [`softmax_backward`](Self::softmax_backward).
    pub fn log_softmax_backward(&self, axis: Axis, gradient: impl Operand<'a, T>) -> Self {
        let gradient = gradient.operand().0;
        Self::of((self.part.clone()).and_then(|y| log_softmax_backward(&y, axis.0, &gradient?)))
    }

    /// `ln Σ e^x` of all elements, without overflow: SciPy's `logsumexp`.
    ///
    /// −∞ of none, and of numbers that are all −∞; ∞ if one of them is ∞ and none is NaN; NaN if one is. Its gradient is
    /// [`softmax`](Self::softmax).
    ///
    /// # Examples
    ///
    /// ```
    /// use warpsmith::ndarray::array;
    /// use warpsmith::{Device, DeviceArray};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let x = DeviceArray::from_ndarray(device.default_stream(), &array![1000.0f32, f32::NEG_INFINITY])?;
    /// assert_eq!(x.expr().log_sum_exp().eval()?.to_ndarray()?.into_scalar(), 1000.0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn log_sum_exp(&self) -> Expr<'a, T, Ix0> {
        Expr::of(self.part.clone().and_then(|x| {
            let axes: Vec<usize> = (0..x.shape.len()).collect();
            log_sum_exp(&x, &axes)
        }))
    }

    /// [`log_sum_exp`](Self::log_sum_exp) along an axis.
    ///
    /// # Errors
    ///
    /// As [`softmax`](Self::softmax).
    pub fn log_sum_exp_axis(&self, axis: Axis) -> Expr<'a, T, D::Smaller>
    where
        D: RemoveAxis,
    {
        Expr::of((self.part.clone()).and_then(|x| log_sum_exp(&x, &[axis.0])))
    }

    /// [`log_sum_exp`](Self::log_sum_exp) along several axes.
    ///
    /// # Errors
    ///
    /// As [`softmax`](Self::softmax).
    pub fn log_sum_exp_axes(&self, axes: &[usize]) -> Expr<'a, T, IxDyn> {
        Expr::of((self.part.clone()).and_then(|x| log_sum_exp(&x, axes)))
    }
}

/// The largest number along axes, without these axes; −∞ of none.
fn largest<'a>(x: &Number<'a>, axes: &[usize]) -> Part<'a> {
    if axes.iter().any(|&axis| x.shape[axis] == 0) {
        return Ok(repeated(
            constant(f64::NEG_INFINITY, x.ty)?,
            &*reduced(Operator::Sum, x, axes)?,
        ));
    }
    reduced(Operator::Max, x, axes)
}

/// The longest rows that a block has room for. Where only sums are wanted, each of longer ones is read once.
pub(super) const OF_SUMS: usize = MOST_WORDS;

/// The same where elements are wanted too, of rows that no cluster of blocks shares: of `f32` a block has room for half of such a row,
/// and three passes over the other half take less time than two over more, since the functions of two leave less room. Longer rows of
/// 16 bits a cache keeps, and passes are what counts.
pub(super) const OF_HALVES: usize = 2 * MOST_WORDS;

/// The longest rows, of these numbers along these axes, whose largest number and sum have passes of their own where elements are
/// wanted too: those that a cluster has room for.
fn longest(x: &Number<'_>, axes: &[usize]) -> usize {
    let first = x.shape.len() - axes.len();
    let are_last = axes.iter().all(|&axis| axis >= first);
    match x.ty {
        ty if are_last && shares_rows(count(x, axes), ty.bytes()) => {
            longest_of_cluster(x.shape[..first].iter().product())
        }
        ScalarType::F32 => OF_HALVES,
        _ => OF_SUMS,
    }
}

/// Whether [`sum_exp`] takes less time than a pass for the largest number and one for the sum, which of `f64` it does not: of rows
/// of more than `longest` elements, and across, where each pass is a kernel, unless a block has room for the rows.
fn is_in_one_pass(x: &Number<'_>, axes: &[usize], longest: usize) -> bool {
    let len = count(x, axes);
    let is_across = axes.iter().max().is_some_and(|last| last + 1 < x.shape.len());
    x.ty == ScalarType::F32 && len > 0 && (len > longest || is_across)
}

/// Whether a kernel that gives elements, too, has the numbers of rows that lie side by side in registers, if it reads nothing else.
fn is_held_across(x: &Number<'_>, axes: &[usize]) -> bool {
    let (Some(&first), Some(&last)) = (axes.iter().min(), axes.iter().max()) else {
        return false;
    };
    let (len, neighbours) = (count(x, axes), x.shape[last + 1..].iter().product());
    let rows = x.shape.iter().product::<usize>() / len.max(1);
    last - first + 1 == axes.len() && may_be_held(len, rows, neighbours)
}

/// The largest number, and the sum of the exponentials of `x − max`, without these axes, in one pass.
fn sum_exp<'a>(x: &Number<'a>, axes: &[usize]) -> Result<[Number<'a>; 2], Problem> {
    let ones = repeated(constant(1.0, x.ty)?, x);
    let numbers = Node::reduce(Operator::SumExp, [Arc::clone(x), ones], axes)?;
    Ok([0, 1].map(|number| Arc::clone(&numbers[number])))
}

/// `x − max`; and without the axes the largest number, and the sum of the exponentials, by two passes where no more than
/// `longest` elements are summed.
pub(super) fn shifted<'a>(x: &Number<'a>, axes: &[usize], longest: usize) -> Result<[Number<'a>; 3], Problem> {
    let below = |largest: &Number<'a>| sub(x, &with_axes(largest, axes));
    if is_in_one_pass(x, axes, longest) && !is_held_across(x, axes) {
        let [largest, total] = sum_exp(x, axes)?;
        // ∞ less itself makes the sum NaN.
        let total = add(&total, &sub(&largest, &largest)?)?;
        return Ok([below(&largest)?, largest, total]);
    }
    let largest = largest(x, axes)?;
    let below = below(&largest)?;
    let total = reduced(Operator::Sum, &unary(Unary::Exp, Arc::clone(&below))?, axes)?;
    Ok([below, largest, total])
}

/// Softmax along axes.
pub(in crate::expr) fn softmax<'a>(x: &Number<'a>, axes: &[usize]) -> Part<'a> {
    let expand: Expand = |of| {
        Ok([softmax_of(
            &of.parts[0],
            &of.settings,
            longest(&of.parts[0], &of.settings),
        )?]
        .into())
    };
    along_axes("softmax", expand, x, axes, || x.shape.clone())
}

/// Softmax, with passes of their own for the largest number and the sum of no more than `longest` elements.
pub(super) fn softmax_of<'a>(x: &Number<'a>, axes: &[usize], longest: usize) -> Part<'a> {
    let [below, _, total] = shifted(&wide(x)?, axes, longest)?;
    cast(div(&unary(Unary::Exp, below)?, &with_axes(&total, axes))?, x.ty)
}

/// The logarithm of softmax along axes.
pub(in crate::expr) fn log_softmax<'a>(x: &Number<'a>, axes: &[usize]) -> Part<'a> {
    let expand: Expand = |of| Ok([log_softmax_of(&of.parts[0], &of.settings)?].into());
    along_axes("log_softmax", expand, x, axes, || x.shape.clone())
}

fn log_softmax_of<'a>(x: &Number<'a>, axes: &[usize]) -> Part<'a> {
    let [below, _, total] = shifted(&wide(x)?, axes, longest(x, axes))?;
    cast(sub(&below, &with_axes(&unary(Unary::Ln, total)?, axes))?, x.ty)
}

/// The logarithm of the sum of exponentials along axes, which are gone then.
pub(in crate::expr) fn log_sum_exp<'a>(x: &Number<'a>, axes: &[usize]) -> Part<'a> {
    let expand: Expand = |of| Ok([log_sum_exp_of(&of.parts[0], &of.settings)?].into());
    along_axes("log_sum_exp", expand, x, axes, || without(&x.shape, axes))
}

fn log_sum_exp_of<'a>(x: &Number<'a>, axes: &[usize]) -> Part<'a> {
    let wide = wide(x)?;
    if is_in_one_pass(&wide, axes, OF_SUMS) {
        let [largest, total] = sum_exp(&wide, axes)?;
        return cast(add(&unary(Unary::Ln, total)?, &largest)?, x.ty);
    }
    let largest = largest(&wide, axes)?;
    // ∞ is not subtracted from itself.
    let is_infinite = unary(Unary::IsInfinite, Arc::clone(&largest))?;
    let shift = ternary(Ternary::Select, [is_infinite, constant(0.0, wide.ty)?, largest])?;
    let powers = unary(Unary::Exp, sub(&wide, &with_axes(&shift, axes))?)?;
    let total = reduced(Operator::Sum, &powers, axes)?;
    cast(add(&unary(Unary::Ln, total)?, &shift)?, x.ty)
}

/// A gradient by what a result is of, along an axis.
fn backward<'a>(
    operation: &'static str,
    expand: Expand,
    y: &Number<'a>,
    axis: usize,
    gradient: &Number<'a>,
) -> Part<'a> {
    check_axes(operation, &y.shape, &[axis])?;
    check_same_shape(operation, "a gradient", gradient, y)?;
    let composite = Composite {
        expand,
        parts: [Arc::clone(y), Arc::clone(gradient)].into(),
        settings: [axis][..].into(),
    };
    composite.result(operation, y.ty, y.shape.clone())
}

/// The result and the gradient by it, in the type that they are computed in.
fn operands<'a>(of: &Composite<'a>) -> Result<[Number<'a>; 2], Problem> {
    let [y, gradient] = [&of.parts[0], &of.parts[1]];
    let ty = wide_type(&[y, gradient]);
    Ok([cast(Arc::clone(y), ty)?, cast(Arc::clone(gradient), ty)?])
}

fn softmax_backward<'a>(y: &Number<'a>, axis: usize, gradient: &Number<'a>) -> Part<'a> {
    let expand: Expand = |of| {
        let [wide, gradient] = operands(of)?;
        let along = sum(&mul(&gradient, &wide)?, &of.settings)?;
        Ok([cast(mul(&wide, &sub(&gradient, &along)?)?, of.parts[0].ty)?].into())
    };
    backward("softmax_backward", expand, y, axis, gradient)
}

fn log_softmax_backward<'a>(y: &Number<'a>, axis: usize, gradient: &Number<'a>) -> Part<'a> {
    let expand: Expand = |of| {
        let [wide, gradient] = operands(of)?;
        let along = sum(&gradient, &of.settings)?;
        let by_number = sub(&gradient, &mul(&unary(Unary::Exp, wide)?, &along)?)?;
        Ok([cast(by_number, of.parts[0].ty)?].into())
    };
    backward("log_softmax_backward", expand, y, axis, gradient)
}
