// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reductions of expressions: of all elements, along an axis, along several.

use std::sync::Arc;

use cuda_std::scalar::ScalarType;
use kernels_gpu::compiled::Number;
use ndarray::{Axis, Dimension, Ix0, IxDyn, RemoveAxis};

use super::Expr;
use super::graph::composite::{Composite, Expand};
use super::graph::fold::Operator;
use super::graph::function::{Binary, Unary, is_float};
use super::graph::parts::{Parts, without};
use super::graph::problem::Problem;
use super::graph::walk::{first_along, insert_axis};
use super::graph::{Node, Part, binary, cast, check_axes, repeated, unary, with_type};
use super::value::Value;

/// Reductions that have a name: for each the result's type, which is that of the reduction of an array, and what it computes.
macro_rules! reductions {
    (
        $($(#[$doc:meta])* $name:ident $name_axis:ident $name_axes:ident:
            $result:ty [$($of:ty)?] ($($ddof:ident)?) = $statistic:ident;)*
    ) => {$(
        $(#[$doc])*
        pub fn $name(&self $(, $ddof: usize)?) -> Expr<'a, $result, Ix0> $(where $of: Value)? {
            let axes: Vec<usize> = (0..self.axes()).collect();
            self.reduced(Statistic::$statistic, &axes, reductions!(@ $($ddof)?))
        }

        #[doc = concat!("[`", stringify!($name), "`](Self::", stringify!($name), ") along an axis.")]
        pub fn $name_axis(&self, axis: Axis $(, $ddof: usize)?) -> Expr<'a, $result, D::Smaller>
        where
            D: RemoveAxis,
            $($of: Value)?
        {
            self.reduced(Statistic::$statistic, &[axis.0], reductions!(@ $($ddof)?))
        }

        #[doc = concat!("[`", stringify!($name), "`](Self::", stringify!($name), ") along several axes.")]
        pub fn $name_axes(&self, axes: &[usize] $(, $ddof: usize)?) -> Expr<'a, $result, IxDyn> $(where $of: Value)? {
            self.reduced(Statistic::$statistic, axes, reductions!(@ $($ddof)?))
        }
    )*};
    (@) => { 0 };
    (@ $ddof:ident) => { $ddof };
}

/// Reductions. What they are of is computed while they read it, and is in no array; what is made of their results, too, where
/// it can be: see the [module](super#reductions).
///
/// Sums and products of 16-bit floats are computed in `f32`, those of integers in 64 bits, as for arrays. Where the axis has
/// no elements, sums are 0 and products 1; evaluating others is [`Error::Empty`](crate::Error::Empty), and
/// [`Error::Axes`](crate::Error::Axes) if there is no such axis.
impl<'a, T: Value + Number, D: Dimension> Expr<'a, T, D> {
    reductions! {
        /// The sum of all elements. The error of floats is at most `d u Σ|x|`, to first order, where `u` is the unit roundoff and `d`
        /// the number of additions one after another: of `n` elements that lie side by side at most `n / 1024 + 40`, and from
        /// 2^20 on some 1100; of others at most `n / 8 + 40`.
        ///
        /// # Examples
        ///
        /// ```
        /// use warpsmith::ndarray::{Axis, array};
        /// use warpsmith::{Device, DeviceArray};
        ///
        /// # fn main() -> warpsmith::Result<()> {
        /// let device = Device::auto()?;
        /// let x = DeviceArray::from_ndarray(device.default_stream(), &array![[1.0f32, 2.0], [3.0, 4.0]])?;
        /// assert_eq!(x.expr().square().sum().eval()?.to_ndarray()?.into_scalar(), 30.0);
        ///
        /// // Softmax of each row, by one kernel.
        /// let largest = x.expr().max_axis(Axis(1)).insert_axis(Axis(1));
        /// let e = (x.expr() - largest).exp();
        /// let softmax = (&e / e.sum_axis(Axis(1)).insert_axis(Axis(1))).eval()?.to_ndarray()?;
        /// assert!(softmax.iter().zip([0.26894143, 0.7310586, 0.26894143, 0.7310586]).all(|(x, y)| (x - y).abs() < 1e-6f32));
        /// # Ok(())
        /// # }
        /// ```
        sum sum_axis sum_axes: T::Total [T::Total] () = Sum;
        /// The product of all elements.
        product product_axis product_axes: T::Total [T::Total] () = Product;
        /// The smallest element; NaN if any is. −0 is below +0.
        min min_axis min_axes: T [] () = Min;
        /// The largest element; NaN if any is. −0 is below +0.
        max max_axis max_axes: T [] () = Max;
        /// The arithmetic mean: an `f64` of integers, which are summed so, of floats one of their type. `f32` and 16-bit floats are
        /// summed in `f32`, as by NumPy and PyTorch: the sum of 3e38 and 3e38 is infinite, and so is their mean. What
        /// `x.cast::<f64>().mean()` is of is summed in `f64`, as [`mean`](crate::DeviceArrayRef::mean) of an array is.
        mean mean_axis mean_axes: T::Mean [T::Mean] () = Mean;
        /// The variance of all elements, `Σ(x − mean)² / (n − ddof)`: an `f64` of integers, of floats one of their type. They are
        /// read once, with their mean where that is wanted too: what is summed, in `f64`, are the distances from the first
        /// element and their squares.
        ///
        /// # Errors
        ///
        /// Evaluating it is [`Error::Parameter`](crate::Error::Parameter) if there are no more than `ddof` elements.
        variance variance_axis variance_axes: T::Mean [T::Mean] (ddof) = Variance;
        /// The standard deviation, the root of the [`variance`](Self::variance), which is taken in `f64` and rounded once.
        ///
        /// # Errors
        ///
        /// As [`variance`](Self::variance).
        std std_axis std_axes: T::Mean [T::Mean] (ddof) = Std;
        /// The place of the smallest element, in C order: of several the first. The first NaN comes before every number, and −0
        /// and +0 are equal.
        argmin argmin_axis argmin_axes: u64 [] () = ArgMin;
        /// The place of the largest element; the rest is as for [`argmin`](Self::argmin).
        argmax argmax_axis argmax_axes: u64 [] () = ArgMax;
    }
}

/// Reductions of conditions.
impl<'a, D: Dimension> Expr<'a, bool, D> {
    reductions! {
        /// Whether it holds for any element; not of none.
        any any_axis any_axes: bool [] () = Any;
        /// Whether it holds for all elements; of none, too.
        all all_axis all_axes: bool [] () = All;
        /// The number of elements that it holds for.
        count count_axis count_axes: u64 [] () = Sum;
    }
}

impl<'a, T: Value, D: Dimension> Expr<'a, T, D> {
    fn reduced<U: Value, E: Dimension>(&self, statistic: Statistic, axes: &[usize], ddof: usize) -> Expr<'a, U, E> {
        let reduced = self.part.clone().and_then(|x| reduce(statistic, x, axes, ddof));
        Expr::of(reduced.and_then(|x| cast(x, U::TYPE)))
    }

    /// The number of axes.
    fn axes(&self) -> usize {
        self.part.as_ref().map_or(0, |part| part.shape.len())
    }

    /// The same elements with an axis of length 1 ahead of `axis`: for what a reduction along an axis has left, to stand beside
    /// what it was of.
    ///
    /// # Errors
    ///
    /// Evaluating it is [`Error::Axes`](crate::Error::Axes) if there are fewer axes than `axis`.
    pub fn insert_axis(&self, axis: Axis) -> Expr<'a, T, D::Larger> {
        Expr::of(self.part.clone().and_then(|part| {
            if axis.0 > part.shape.len() {
                return Err(Problem::Axes {
                    operation: "insert_axis",
                    given: vec![axis.0],
                    wanted: format!("at most {}", part.shape.len()),
                });
            }
            Ok(insert_axis(&part, axis.0))
        }))
    }
}

/// What a reduction computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Statistic {
    Sum,
    Product,
    Min,
    Max,
    Mean,
    Variance,
    Std,
    Any,
    All,
    ArgMin,
    ArgMax,
}

/// That of elements along axes, in the type that it has of arrays. Of conditions, sums are numbers of those that hold, and there
/// are no others but [`Statistic::Any`] and [`Statistic::All`], which numbers are taken to where they are not 0.
pub(super) fn reduce<'a>(statistic: Statistic, x: Arc<Node<'a>>, axes: &[usize], ddof: usize) -> Part<'a> {
    match statistic {
        Statistic::Sum => total(Operator::Sum, x, axes),
        Statistic::Product => total(Operator::Product, x, axes),
        Statistic::Min => extreme(Operator::Min, x, axes),
        Statistic::Max => extreme(Operator::Max, x, axes),
        Statistic::Mean => mean(x, axes),
        Statistic::Variance => spread("variance", variance_of, x, axes, ddof),
        Statistic::Std => spread("std", std_of, x, axes, ddof),
        Statistic::Any => first(Node::reduce(Operator::Any, [truth(x)?], axes)),
        Statistic::All => first(Node::reduce(Operator::All, [truth(x)?], axes)),
        Statistic::ArgMin => place(Operator::ArgMin, x, axes),
        Statistic::ArgMax => place(Operator::ArgMax, x, axes),
    }
}

/// The same with axes of length 1 where `axes` were.
pub(super) fn with_axes<'a>(x: &Arc<Node<'a>>, axes: &[usize]) -> Arc<Node<'a>> {
    if let [axis] = axes {
        return insert_axis(x, *axis);
    }
    let mut axes = axes.to_vec();
    axes.sort_unstable();
    axes.iter().fold(Arc::clone(x), |x, &axis| insert_axis(&x, axis))
}

/// The part that a reduction of one number has.
fn first<'a>(parts: Result<Parts<'a>, Problem>) -> Part<'a> {
    Ok(parts?.into_first())
}

/// Whether a number is not 0.
fn truth<'a>(x: Arc<Node<'a>>) -> Part<'a> {
    if x.ty == ScalarType::Bool {
        return Ok(x);
    }
    let zero = cast(Node::scalar(ScalarType::U32, 0), x.ty)?;
    binary(Binary::NotEqual, x, zero)
}

fn total<'a>(operator: Operator, x: Arc<Node<'a>>, axes: &[usize]) -> Part<'a> {
    let ty = x.ty;
    let wide = match ty {
        ScalarType::F16 | ScalarType::Bf16 => ScalarType::F32,
        ScalarType::F32 | ScalarType::F64 => ty,
        ScalarType::U8 | ScalarType::U16 | ScalarType::U32 | ScalarType::U64 => ScalarType::U64,
        _ => ScalarType::I64,
    };
    // Of both signs the bits are the same.
    let bits = if wide == ScalarType::I64 { ScalarType::U64 } else { wide };
    let x = with_type(cast(x, wide)?, bits);
    let total = with_type(first(Node::reduce(operator, [x], axes))?, wide);
    if wide == ScalarType::F32 {
        cast(total, ty)
    } else {
        Ok(total)
    }
}

fn extreme<'a>(operator: Operator, x: Arc<Node<'a>>, axes: &[usize]) -> Part<'a> {
    let ty = x.ty;
    cast(first(Node::reduce(operator, [comparable(x)?], axes))?, ty)
}

/// The place of an element among those along the axes, in C order.
fn place<'a>(operator: Operator, x: Arc<Node<'a>>, axes: &[usize]) -> Part<'a> {
    if axes.is_empty() {
        // One element, which is the first.
        return Ok(with_type(
            repeated(Node::scalar(ScalarType::U64, 0), &x),
            ScalarType::U64,
        ));
    }
    let place = Node::places(&x.shape, axes)?;
    let numbers = Node::reduce(operator, [comparable(x)?, place], axes)?;
    Ok(Arc::clone(&numbers[1]))
}

/// The number in a type whose functions compare: `f32` of 16-bit floats.
fn comparable<'a>(x: Arc<Node<'a>>) -> Part<'a> {
    match x.ty {
        ScalarType::F16 | ScalarType::Bf16 => cast(x, ScalarType::F32),
        _ => Ok(x),
    }
}

/// The type of a mean of numbers of that one.
fn mean_type(ty: ScalarType) -> ScalarType {
    if is_float(ty) { ty } else { ScalarType::F64 }
}

/// The mean, summed in `f32` of floats that have no more bits, else in `f64`.
fn mean<'a>(x: Arc<Node<'a>>, axes: &[usize]) -> Part<'a> {
    check_elements("mean", &x, axes)?;
    let (ty, count) = (mean_type(x.ty), count(&x, axes));
    let wide = if ty == ScalarType::F64 { ty } else { ScalarType::F32 };
    let sum = first(Node::reduce(Operator::Sum, [cast(x, wide)?], axes))?;
    cast(divided(sum, count)?, ty)
}

fn divided<'a>(x: Arc<Node<'a>>, count: usize) -> Part<'a> {
    let count = cast(Node::scalar(ScalarType::U64, count as u64), x.ty)?;
    binary(Binary::Div, x, count)
}

/// An error where no elements would be combined to one.
pub(super) fn check_elements(operation: &'static str, x: &Node<'_>, axes: &[usize]) -> Result<(), Problem> {
    if count(x, axes) > 0 {
        return Ok(());
    }
    Err(Problem::Empty {
        operation,
        shape: x.shape.to_vec(),
    })
}

/// How many elements are combined to one.
pub(super) fn count(x: &Node<'_>, axes: &[usize]) -> usize {
    if let [axis] = axes {
        return x.shape.get(*axis).copied().unwrap_or(1);
    }
    let mut axes: Vec<usize> = axes.iter().copied().filter(|&axis| axis < x.shape.len()).collect();
    axes.sort_unstable();
    axes.dedup();
    axes.iter().map(|&axis| x.shape[axis]).product()
}

/// The variance or its root, as `expand` says, which puts it together.
fn spread<'a>(operation: &'static str, expand: Expand, x: Arc<Node<'a>>, axes: &[usize], ddof: usize) -> Part<'a> {
    check_axes(operation, &x.shape, axes)?;
    let (ty, count) = (mean_type(x.ty), count(&x, axes));
    if count <= ddof {
        return Err(Problem::Parameter {
            operation,
            parameter: "ddof",
            given: ddof.to_string(),
            wanted: format!("less than {count}, the number of elements"),
        });
    }
    let shape = without(&x.shape, axes);
    let composite = Composite {
        expand,
        parts: [x].into(),
        settings: [ddof].into_iter().chain(axes.iter().copied()).collect(),
    };
    composite.result(operation, ty, shape)
}

fn variance_of<'a>(of: &Composite<'a>) -> Result<Parts<'a>, Problem> {
    Ok([cast(wide_variance(of)?, mean_type(of.parts[0].ty))?].into())
}

/// The root is taken in `f64`: the elements' type may have it where it has no variance.
fn std_of<'a>(of: &Composite<'a>) -> Result<Parts<'a>, Problem> {
    let root = unary(Unary::Sqrt, wide_variance(of)?)?;
    Ok([cast(root, mean_type(of.parts[0].ty))?].into())
}

/// By the sums of the elements' distances from the first of them and of these distances' squares, in `f64`: so the elements are
/// read once, and what the first one's distance from the mean costs of the 53 bits is none of a result's that has 24.
/// Along the axes behind what is taken from their number.
fn wide_variance<'a>(of: &Composite<'a>) -> Part<'a> {
    let (ddof, axes) = (of.settings[0], &of.settings[1..]);
    let x = cast(Arc::clone(&of.parts[0]), ScalarType::F64)?;
    let count = count(&x, axes);
    let distance = match first_along(&x, axes) {
        Some(first) => binary(Binary::Sub, x, first)?,
        None => x,
    };
    let square = unary(Unary::Square, Arc::clone(&distance))?;
    let sum = first(Node::reduce(Operator::Sum, [distance], axes))?;
    let squares = first(Node::reduce(Operator::Sum, [square], axes))?;
    let of_mean = divided(unary(Unary::Square, sum)?, count)?;
    let rest = unary(Unary::Relu, binary(Binary::Sub, squares, of_mean)?)?;
    divided(rest, count - ddof)
}
