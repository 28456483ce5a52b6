// SPDX-License-Identifier: MIT OR Apache-2.0
//! Numbers with gaps: reductions that leave NaN out, and numbers in place of it.

use std::sync::Arc;

use cuda_std::scalar::ScalarType;
use ndarray::{Axis, Dimension, Ix0, IxDyn, RemoveAxis};

use super::Expr;
use super::graph::fold::Operator;
use super::graph::function::{Binary, Ternary, Unary};
use super::graph::problem::Problem;
use super::graph::{Node, Part, binary, cast, check_axes, ternary, unary};
use super::reductions::{Statistic, check_elements, count, reduce, with_axes};
use super::value::Value;
use crate::array::{DeviceArray, Element};
use crate::array_ref::DeviceArrayRef;
use crate::error::Result;
use crate::ops::Real;

/// Reductions that leave NaN out, of expressions and of arrays: for each the documentation of what it computes, and which one it is.
macro_rules! reductions {
    ($($(#[$doc:meta])* $name:ident $name_axis:ident $name_axes:ident ($($ddof:ident)?) = $statistic:ident;)*) => {
        /// Reductions that leave NaN out. Each is the one without `nan_` of the elements that are numbers, in the types that that one
        /// has, but means are summed in `f64`, as those of arrays are; where all elements are NaN, a sum is 0, and others are NaN.
        /// One kernel where rows lie side by side, as of other [reductions](super#reductions).
        impl<'a, T: Value + Real, D: Dimension> Expr<'a, T, D> {$(
            $(#[$doc])*
            pub fn $name(&self $(, $ddof: usize)?) -> Expr<'a, T, Ix0> {
                let axes: Vec<usize> = (0..self.part.as_ref().map_or(0, |part| part.shape.len())).collect();
                self.without_nan(stringify!($name), Statistic::$statistic, &axes, reductions!(@ $($ddof)?))
            }

            #[doc = concat!("[`", stringify!($name), "`](Self::", stringify!($name), ") along an axis.")]
            pub fn $name_axis(&self, axis: Axis $(, $ddof: usize)?) -> Expr<'a, T, D::Smaller>
            where
                D: RemoveAxis,
            {
                self.without_nan(stringify!($name_axis), Statistic::$statistic, &[axis.0], reductions!(@ $($ddof)?))
            }

            #[doc = concat!("[`", stringify!($name), "`](Self::", stringify!($name), ") along several axes.")]
            pub fn $name_axes(&self, axes: &[usize] $(, $ddof: usize)?) -> Expr<'a, T, IxDyn> {
                self.without_nan(stringify!($name_axes), Statistic::$statistic, axes, reductions!(@ $($ddof)?))
            }
        )*}

        /// Reductions that leave NaN out: NumPy's `nansum`, `nanmean` and their kind. Each is the one without `nan_` of the elements
        /// that are numbers; where all elements are NaN, a sum is 0, and others are NaN. Those of all elements wait for the
        /// number. By [expressions](crate::expr): one kernel where rows lie side by side, which reads every element once
        /// as far as a block has room for a row.
        ///
        /// # Examples
        ///
        /// ```
        /// use ndarray::{Axis, array};
        /// use warpsmith::{Device, DeviceArray};
        ///
        /// # fn main() -> warpsmith::Result<()> {
        /// let device = Device::auto()?;
        /// let nan = f32::NAN;
        /// let x = DeviceArray::from_ndarray(device.default_stream(), &array![[1.0, nan, 3.0], [nan, 4.0, 8.0]])?;
        /// assert_eq!((x.nan_sum()?, x.nan_mean()?, x.nan_max()?), (16.0, 4.0, 8.0));
        /// assert_eq!(x.nan_mean_axis(Axis(0))?.to_ndarray()?, array![1.0, 4.0, 5.5]);
        /// assert_eq!(x.nan_variance_axis(Axis(1), 0)?.to_ndarray()?, array![1.0, 4.0]);
        /// # Ok(())
        /// # }
        /// ```
        impl<T: Value<Element = T> + Element + Real, D: Dimension> DeviceArrayRef<T, D> {$(
            $(#[$doc])*
            ///
            /// # Errors
            ///
            /// Those of the reduction without `nan_`: for too few elements, NaN included.
            pub fn $name(&self $(, $ddof: usize)?) -> Result<T> {
                self.expr().$name($($ddof)?).eval()?.item()
            }

            #[doc = concat!("[`", stringify!($name), "`](Self::", stringify!($name), ") of each lane along an axis, asynchronously.")]
            ///
            /// # Errors
            ///
            /// Those of the reduction without `nan_`; [`Error::Axes`](crate::Error::Axes) if there is no such axis.
            pub fn $name_axis(&self, axis: Axis $(, $ddof: usize)?) -> Result<DeviceArray<T, D::Smaller>>
            where
                D: RemoveAxis,
            {
                self.expr().$name_axis(axis $(, $ddof)?).eval()
            }

            #[doc = concat!("[`", stringify!($name), "`](Self::", stringify!($name), ") of each part along several axes, asynchronously.")]
            ///
            /// # Errors
            ///
            /// Those of the reduction without `nan_`; [`Error::Axes`](crate::Error::Axes) if there is no such axis or one is
            /// named twice.
            pub fn $name_axes(&self, axes: &[usize] $(, $ddof: usize)?) -> Result<DeviceArray<T, IxDyn>> {
                self.expr().$name_axes(axes $(, $ddof)?).eval()
            }
        )*}
    };
    (@) => { 0 };
    (@ $ddof:ident) => { $ddof };
}

reductions! {
    /// The sum of the elements that are not NaN; 0 of none.
    #[doc(alias = "nansum")]
    nan_sum nan_sum_axis nan_sum_axes () = Sum;
    /// The mean of the elements that are not NaN, summed in `f64` and rounded once.
    #[doc(alias = "nanmean")]
    nan_mean nan_mean_axis nan_mean_axes () = Mean;
    /// The smallest element that is not NaN.
    #[doc(alias = "nanmin")]
    nan_min nan_min_axis nan_min_axes () = Min;
    /// The largest element that is not NaN.
    #[doc(alias = "nanmax")]
    nan_max nan_max_axis nan_max_axes () = Max;
    /// The variance of the `n` elements that are not NaN, `Σ(x − mean)² / (n − ddof)`, computed in `f64`; NaN where `n` is not more
    /// than `ddof`. The distances from the mean are summed, so that the elements are gone through twice.
    #[doc(alias = "nanvar")]
    nan_variance nan_variance_axis nan_variance_axes (ddof) = Variance;
    /// The standard deviation of the elements that are not NaN, the root of the [`nan_variance`](Self::nan_variance), which is
    /// taken in `f64` and rounded once.
    #[doc(alias = "nanstd")]
    nan_std nan_std_axis nan_std_axes (ddof) = Std;
}

impl<'a, T: Value + Real, D: Dimension> Expr<'a, T, D> {
    fn without_nan<E: Dimension>(
        &self,
        operation: &'static str,
        statistic: Statistic,
        axes: &[usize],
        ddof: usize,
    ) -> Expr<'a, T, E> {
        let reduced = (self.part.clone()).and_then(|x| Numbers::of(operation, x, axes)?.reduced(statistic, ddof));
        Expr::of(reduced)
    }

    /// Each number, 0 in place of NaN, and the largest number of the type with its sign in place of ∞ and −∞: NumPy's `nan_to_num`.
    /// Another number in place of NaN: `x.is_nan().select(other, &x)`.
    ///
    /// # Examples
    ///
    /// ```
    /// use warpsmith::ndarray::array;
    /// use warpsmith::{Device, DeviceArray};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let x = DeviceArray::from_ndarray(device.default_stream(), &array![1.5f32, f32::NAN, f32::NEG_INFINITY])?;
    /// assert_eq!(x.nan_to_num()?.to_ndarray()?, array![1.5, 0.0, f32::MIN]);
    /// assert_eq!(x.expr().is_nan().select(-1.0f32, &x).eval()?.get(1)?, -1.0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn nan_to_num(&self) -> Self {
        Self::of(self.part.clone().and_then(nan_to_num))
    }
}

impl<T: Value<Element = T> + Element + Real, D: Dimension> DeviceArrayRef<T, D> {
    /// Each number, 0 in place of NaN, and the largest number of the type with its sign in place of ∞ and −∞: as
    /// [`Expr::nan_to_num`].
    ///
    /// # Errors
    ///
    /// Those of an allocation and a launch.
    pub fn nan_to_num(&self) -> Result<DeviceArray<T, D>> {
        self.expr().nan_to_num().eval()
    }
}

fn nan_to_num<'a>(x: Arc<Node<'a>>) -> Part<'a> {
    let ty = x.ty;
    let largest = match ty {
        ScalarType::F16 => half::f16::MAX.to_bits().into(),
        ScalarType::Bf16 => half::bf16::MAX.to_bits().into(),
        ScalarType::F32 => f32::MAX.to_bits().into(),
        _ => f64::MAX.to_bits(),
    };
    let sign = 1 << (8 * ty.bytes() - 1);
    let [least, largest] = [largest | sign, largest].map(|bits| Node::scalar(ty, bits));
    let finite = ternary(Ternary::Clamp, [Arc::clone(&x), least, largest])?;
    ternary(Ternary::Select, [unary(Unary::IsNan, x)?, Node::scalar(ty, 0), finite])
}

/// Floats of which NaN is left out, and the axes that are reduced.
struct Numbers<'a, 'b> {
    x: Arc<Node<'a>>,
    /// Whether each is a number.
    are: Arc<Node<'a>>,
    axes: &'b [usize],
    operation: &'static str,
}

impl<'a, 'b> Numbers<'a, 'b> {
    fn of(operation: &'static str, x: Arc<Node<'a>>, axes: &'b [usize]) -> std::result::Result<Self, Problem> {
        check_axes(operation, &x.shape, axes)?;
        // NaN alone is not equal to itself.
        let are = binary(Binary::Equal, Arc::clone(&x), Arc::clone(&x))?;
        Ok(Self {
            x,
            are,
            axes,
            operation,
        })
    }

    fn reduced(&self, statistic: Statistic, ddof: usize) -> Part<'a> {
        match statistic {
            Statistic::Sum => reduce(statistic, self.or(0.0, &self.x)?, self.axes, 0),
            Statistic::Mean => cast(self.mean()?, self.x.ty),
            Statistic::Min => self.extreme(statistic, f64::INFINITY),
            Statistic::Max => self.extreme(statistic, f64::NEG_INFINITY),
            Statistic::Variance => cast(self.variance(ddof)?, self.x.ty),
            Statistic::Std => cast(unary(Unary::Sqrt, self.variance(ddof)?)?, self.x.ty),
            _ => unreachable!("{} has no form that leaves NaN out", self.operation),
        }
    }

    /// `x` where the element is a number, else `value`.
    fn or(&self, value: f64, x: &Arc<Node<'a>>) -> Part<'a> {
        ternary(
            Ternary::Select,
            [Arc::clone(&self.are), Arc::clone(x), constant(value, x.ty)?],
        )
    }

    /// An error where there are no elements, NaN included.
    fn check_elements(&self) -> std::result::Result<(), Problem> {
        check_elements(self.operation, &self.x, self.axes)
    }

    /// How many elements are numbers, as an `f64`.
    fn count(&self) -> Part<'a> {
        cast(
            reduce(Statistic::Sum, Arc::clone(&self.are), self.axes, 0)?,
            ScalarType::F64,
        )
    }

    fn sum(&self, x: &Arc<Node<'a>>) -> Part<'a> {
        Ok(Node::reduce(Operator::Sum, [self.or(0.0, x)?], self.axes)?.into_first())
    }

    /// The mean, an `f64`: 0 / 0 where there is no number.
    fn mean(&self) -> Part<'a> {
        self.check_elements()?;
        let x = cast(Arc::clone(&self.x), ScalarType::F64)?;
        binary(Binary::Div, self.sum(&x)?, self.count()?)
    }

    /// The smallest or largest of the numbers and of `beyond`, which stands for all that are none.
    fn extreme(&self, statistic: Statistic, beyond: f64) -> Part<'a> {
        self.check_elements()?;
        let extreme = reduce(statistic, self.or(beyond, &self.x)?, self.axes, 0)?;
        let has_numbers = reduce(Statistic::Any, Arc::clone(&self.are), self.axes, 0)?;
        ternary(Ternary::Select, [has_numbers, extreme, constant(f64::NAN, self.x.ty)?])
    }

    /// The variance, an `f64`.
    fn variance(&self, ddof: usize) -> Part<'a> {
        let elements = count(&self.x, self.axes);
        if elements <= ddof {
            return Err(Problem::Parameter {
                operation: self.operation,
                parameter: "ddof",
                given: ddof.to_string(),
                wanted: format!("less than {elements}, the number of elements"),
            });
        }
        let ty = ScalarType::F64;
        let mean = with_axes(&self.mean()?, self.axes);
        let distance = binary(Binary::Sub, cast(Arc::clone(&self.x), ty)?, mean)?;
        let squares = self.sum(&unary(Unary::Square, distance)?)?;
        let rest = binary(Binary::Sub, self.count()?, constant(ddof as f64, ty)?)?;
        let is_enough = binary(Binary::Less, constant(0.0, ty)?, Arc::clone(&rest))?;
        let variance = binary(Binary::Div, squares, rest)?;
        ternary(Ternary::Select, [is_enough, variance, constant(f64::NAN, ty)?])
    }
}

/// One number of that type, of no axes.
fn constant<'a>(value: f64, ty: ScalarType) -> Part<'a> {
    cast(Node::scalar(ScalarType::F64, value.to_bits()), ty)
}
