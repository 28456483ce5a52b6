// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reductions of expressions: of all elements, along an axis, along several.

use std::sync::Arc;

use cuda_std::scalar::{Scalar, ScalarType};
use kernels_gpu::compiled::Number;
use ndarray::{Axis, Dimension, Ix0, IxDyn, RemoveAxis};

use super::Expr;
use super::fold::Operator;
use super::function::{Binary, Unary};
use super::graph::insert_axis;
use super::node::{Node, Part, Problem, binary, cast, unary, with_type};
use super::value::Value;

/// Reductions that have a name: for each the result's type, which is that of the reduction of an array.
macro_rules! reductions {
    (
        $($(#[$doc:meta])* $name:ident $name_axis:ident $name_axes:ident: $result:ty [$($of:ty)?] = $function:expr;)*
    ) => {$(
        $(#[$doc])*
        pub fn $name(&self) -> Expr<'a, $result, Ix0> $(where $of: Value)? {
            let function: fn(Part<'a>, &[usize]) -> Part<'a> = $function;
            let axes: Vec<usize> = (0..self.axes()).collect();
            Expr::of(function(self.part.clone(), &axes).and_then(|part| cast(part, <$result>::TYPE)))
        }

        #[doc = concat!("[`", stringify!($name), "`](Self::", stringify!($name), ") along an axis.")]
        pub fn $name_axis(&self, axis: Axis) -> Expr<'a, $result, D::Smaller> where D: RemoveAxis, $($of: Value)? {
            let function: fn(Part<'a>, &[usize]) -> Part<'a> = $function;
            Expr::of(function(self.part.clone(), &[axis.0]).and_then(|part| cast(part, <$result>::TYPE)))
        }

        #[doc = concat!("[`", stringify!($name), "`](Self::", stringify!($name), ") along several axes.")]
        pub fn $name_axes(&self, axes: &[usize]) -> Expr<'a, $result, IxDyn> $(where $of: Value)? {
            let function: fn(Part<'a>, &[usize]) -> Part<'a> = $function;
            Expr::of(function(self.part.clone(), axes).and_then(|part| cast(part, <$result>::TYPE)))
        }
    )*};
}

/// Reductions. What they are of is computed while they read it, and is in no array; what is made of their results, too, where
/// it can be: see the [module](super#reductions).
///
/// Sums and products of 16-bit floats are computed in `f32`, those of integers in 64 bits, as for arrays. Where the axis has
/// no elements, sums are 0 and products 1; evaluating others is [`Error::Empty`](crate::Error::Empty), and
/// [`Error::Axes`](crate::Error::Axes) if there is no such axis.
impl<'a, T: Value + Number, D: Dimension> Expr<'a, T, D> {
    reductions! {
        /// The sum of all elements. The error of floats is at most `d u Σ|x|`, where `u` is the unit roundoff and `d` the number
        /// of additions one after another: of `n` elements, `n / 1024 + 40` at most up to 2^20, and 1100 beyond.
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
        sum sum_axis sum_axes: T::Total [T::Total] = |x, axes| total(Operator::Sum, x?, axes);
        /// The product of all elements.
        product product_axis product_axes: T::Total [T::Total] = |x, axes| total(Operator::Product, x?, axes);
        /// The smallest element; NaN if any is. −0 is below +0.
        min min_axis min_axes: T [] = |x, axes| extreme(Operator::Min, x?, axes);
        /// The largest element; NaN if any is. −0 is below +0.
        max max_axis max_axes: T [] = |x, axes| extreme(Operator::Max, x?, axes);
        /// The arithmetic mean: an `f64` of integers, which are summed so, of floats one of their type.
        mean mean_axis mean_axes: T::Mean [T::Mean] = |x, axes| mean(float(x?)?, axes);
    }

    /// The place of the smallest element along an axis: of several the first. The first NaN comes before every number, and −0
    /// and +0 are equal.
    pub fn argmin_axis(&self, axis: Axis) -> Expr<'a, u64, D::Smaller>
    where
        D: RemoveAxis,
    {
        Expr::of(self.part.clone().and_then(|x| place(Operator::ArgMin, x, axis.0)))
    }

    /// The place of the largest element along an axis; the rest is as for [`argmin_axis`](Self::argmin_axis).
    pub fn argmax_axis(&self, axis: Axis) -> Expr<'a, u64, D::Smaller>
    where
        D: RemoveAxis,
    {
        Expr::of(self.part.clone().and_then(|x| place(Operator::ArgMax, x, axis.0)))
    }

    /// The variance of all elements, `Σ(x − mean)² / (n − ddof)`: an `f64` of integers, of floats one of their type.
    ///
    /// # Errors
    ///
    /// Evaluating it is [`Error::Parameter`](crate::Error::Parameter) if there are no more than `ddof` elements.
    pub fn variance(&self, ddof: usize) -> Expr<'a, T::Mean, Ix0>
    where
        T::Mean: Value,
    {
        let axes: Vec<usize> = (0..self.axes()).collect();
        Expr::of(variance::<T::Mean>(self.part.clone(), &axes, ddof))
    }

    /// [`variance`](Self::variance) along an axis.
    pub fn variance_axis(&self, axis: Axis, ddof: usize) -> Expr<'a, T::Mean, D::Smaller>
    where
        D: RemoveAxis,
        T::Mean: Value,
    {
        Expr::of(variance::<T::Mean>(self.part.clone(), &[axis.0], ddof))
    }

    /// [`variance`](Self::variance) along several axes.
    pub fn variance_axes(&self, axes: &[usize], ddof: usize) -> Expr<'a, T::Mean, IxDyn>
    where
        T::Mean: Value,
    {
        Expr::of(variance::<T::Mean>(self.part.clone(), axes, ddof))
    }
}

/// Reductions of conditions.
impl<'a, D: Dimension> Expr<'a, bool, D> {
    reductions! {
        /// Whether it holds for any element; not of none.
        any any_axis any_axes: bool [] = |x, axes| first(Node::reduce(Operator::Any, vec![x?], axes));
        /// Whether it holds for all elements; of none, too.
        all all_axis all_axes: bool [] = |x, axes| first(Node::reduce(Operator::All, vec![x?], axes));
        /// The number of elements that it holds for.
        count count_axis count_axes: u64 [] = |x, axes| {
            first(Node::reduce(Operator::Sum, vec![cast(x?, ScalarType::U64)?], axes))
        };
    }
}

impl<'a, T: Value, D: Dimension> Expr<'a, T, D> {
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
                return Err(Problem::Axis {
                    operation: "insert_axis",
                    given: axis.0,
                    wanted: format!("at most {}", part.shape.len()),
                });
            }
            Ok(insert_axis(&part, axis.0))
        }))
    }
}

/// The part that a reduction of one number has.
fn first<'a>(parts: Result<Vec<Arc<Node<'a>>>, Problem>) -> Part<'a> {
    Ok(parts?.swap_remove(0))
}

/// A sum or product, in the type that it is computed in.
fn total<'a>(operator: Operator, x: Arc<Node<'a>>, axes: &[usize]) -> Part<'a> {
    let wide = match x.ty {
        ScalarType::F16 | ScalarType::Bf16 => ScalarType::F32,
        ScalarType::F32 | ScalarType::F64 => x.ty,
        ScalarType::I8 | ScalarType::I16 | ScalarType::I32 | ScalarType::I64 => ScalarType::I64,
        _ => ScalarType::U64,
    };
    // Of both signs the bits are the same.
    let bits = if wide == ScalarType::I64 { ScalarType::U64 } else { wide };
    let x = with_type(cast(x, wide)?, bits);
    Ok(with_type(first(Node::reduce(operator, vec![x], axes))?, wide))
}

fn extreme<'a>(operator: Operator, x: Arc<Node<'a>>, axes: &[usize]) -> Part<'a> {
    let ty = x.ty;
    cast(first(Node::reduce(operator, vec![comparable(x)?], axes))?, ty)
}

fn place<'a>(operator: Operator, x: Arc<Node<'a>>, axis: usize) -> Part<'a> {
    let places = Node::index(&x.shape, axis)?;
    let mut numbers = Node::reduce(operator, vec![comparable(x)?, places], &[axis])?;
    Ok(numbers.swap_remove(1))
}

/// The number in a type whose functions compare: `f32` of 16-bit floats.
fn comparable<'a>(x: Arc<Node<'a>>) -> Part<'a> {
    match x.ty {
        ScalarType::F16 | ScalarType::Bf16 => cast(x, ScalarType::F32),
        _ => Ok(x),
    }
}

/// The number in the type that means are computed in.
fn float<'a>(x: Arc<Node<'a>>) -> Part<'a> {
    match x.ty {
        ScalarType::F16 | ScalarType::Bf16 | ScalarType::F32 => cast(x, ScalarType::F32),
        _ => cast(x, ScalarType::F64),
    }
}

/// The mean of numbers of `f32` or `f64`.
fn mean<'a>(x: Arc<Node<'a>>, axes: &[usize]) -> Part<'a> {
    let count = count(&x, axes);
    if count == 0 {
        return Err(Problem::Empty {
            operation: "mean",
            shape: x.shape.to_vec(),
        });
    }
    divided(first(Node::reduce(Operator::Sum, vec![x], axes))?, count)
}

fn divided<'a>(x: Arc<Node<'a>>, count: usize) -> Part<'a> {
    let count = cast(Node::scalar(ScalarType::U64, count as u64), x.ty)?;
    binary(Binary::Div, x, count)
}

/// How many elements are combined to one.
fn count(x: &Node<'_>, axes: &[usize]) -> usize {
    let mut axes: Vec<usize> = axes.iter().copied().filter(|&axis| axis < x.shape.len()).collect();
    axes.sort_unstable();
    axes.dedup();
    axes.iter().map(|&axis| x.shape[axis]).product()
}

fn variance<'a, M: Value>(x: Part<'a>, axes: &[usize], ddof: usize) -> Part<'a> {
    let x = float(x?)?;
    let count = count(&x, axes);
    if count <= ddof {
        return Err(Problem::Parameter {
            operation: "variance",
            parameter: "ddof",
            given: ddof.to_string(),
            wanted: format!("less than {count}, the number of elements"),
        });
    }
    let mut mean = mean(Arc::clone(&x), axes)?;
    let mut axes = axes.to_vec();
    axes.sort_unstable();
    axes.dedup();
    for &axis in &axes {
        mean = insert_axis(&mean, axis);
    }
    let square = unary(Unary::Square, binary(Binary::Sub, x, mean)?)?;
    cast(
        divided(first(Node::reduce(Operator::Sum, vec![square], &axes))?, count - ddof)?,
        M::TYPE,
    )
}
