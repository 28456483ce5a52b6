// SPDX-License-Identifier: MIT OR Apache-2.0
//! Expressions: arithmetic on arrays that is written as arithmetic, and computed by one kernel.
//!
//! [`expr`](DeviceArrayRef::expr) makes an expression of an array or a view. Operators and methods make larger ones of
//! expressions, arrays and numbers, and compute nothing; [`eval`](Expr::eval) computes all of it at once, element by
//! element, and reads each array once:
//!
//! ```
//! use warpsmith::ndarray::array;
//! use warpsmith::{Device, DeviceArray};
//!
//! # fn main() -> warpsmith::Result<()> {
//! let device = Device::auto()?;
//! let x = DeviceArray::from_ndarray(device.default_stream(), &array![[1.0f32, 2.0], [3.0, 4.0]])?;
//! let row = DeviceArray::from_ndarray(device.default_stream(), &array![10.0f32, 20.0])?;
//! let y = (x.expr().square() * 3.0 + &row).eval()?;
//! assert_eq!(y.to_ndarray()?, array![[13.0, 32.0], [37.0, 68.0]]);
//! # Ok(())
//! # }
//! ```
//!
//! Arrays and views stand beside operators by reference, or by value: then the expression has the array for itself, and it goes
//! when the expression does, as in `(x.matmul(&w)? + &bias).eval()?`, and as ndarray's operators take an `Array`. Assignments such as
//! `+=` are not there, since they could not return an error: [`add_assign`](DeviceArrayRef::add_assign) and
//! [`update`](DeviceArrayRef::update) are.
//!
//! ```
//! use warpsmith::ndarray::array;
//! use warpsmith::{Device, DeviceArray};
//!
//! # fn main() -> warpsmith::Result<()> {
//! let device = Device::auto()?;
//! let x = DeviceArray::from_ndarray(device.default_stream(), &array![1.0f32, 2.0])?;
//! let y = DeviceArray::from_ndarray(device.default_stream(), &array![3.0f32, 5.0])?;
//! assert_eq!((&x - &y).eval()?.to_ndarray()?, array![-2.0, -3.0]);
//! assert_eq!((-x * 2.0 + y).eval()?.to_ndarray()?, array![1.0, 1.0]);
//! # Ok(())
//! # }
//! ```
//!
//! # Numbers
//!
//! Every operation gives the bits that the operation on arrays gives: it is the same function, rounded where that is. So
//! 16-bit floats are rounded after each step, and `a * b + c` is two roundings; [`mul_add`](Expr::mul_add) is one, and
//! [`fast_math`](Expr::fast_math) makes all of an expression's so. The simulated GPU gives the same bits as a GPU, but of what
//! differs in operations on arrays: long scans of floats, products of 16-bit floats; and of [`gelu`](Expr::gelu) and its kind.
//!
//! Integers wrap, and what is divided by zero is 0, its remainder too; `%` has the sign of what is divided, as in Rust, where NumPy's
//! `%` has the divisor's. Floats are IEEE 754's: nothing is trapped.
//!
//! Operands of two types have the type that [`Promote`] says. Shapes are broadcast as in NumPy. Where shapes do not fit, or
//! arrays are on two devices, evaluating is the error of the operation that put them together.
//!
//! # Reductions
//!
//! `sum`, `mean`, `variance`, `max`, `argmax` and their kind, of all elements or along axes, are of an expression, which is then
//! in no array; and their results are parts of expressions again, beside the elements by
//! [`insert_axis`](Expr::insert_axis):
//!
//! ```
//! use warpsmith::ndarray::{Axis, array};
//! use warpsmith::{Device, DeviceArray};
//!
//! # fn main() -> warpsmith::Result<()> {
//! let device = Device::auto()?;
//! let x = DeviceArray::from_ndarray(device.default_stream(), &array![[1.0f64, 3.0], [2.0, 6.0]])?;
//! let (mean, deviation) = (x.expr().mean_axis(Axis(1)), x.expr().std_axis(Axis(1), 0));
//! let y = ((x.expr() - mean.insert_axis(Axis(1))) / deviation.insert_axis(Axis(1))).eval()?;
//! assert_eq!(y.to_ndarray()?, array![[-1.0, 1.0], [-1.0, 1.0]]);
//! # Ok(())
//! # }
//! ```
//!
//! This is one kernel. In general:
//!
//! * Reductions along the same axes go together, and what follows from them too, where rows of elements lie along the last axis.
//!   Rows of up to 32,768 32-bit elements are read once, and longer ones too where the GPU has clusters, whose blocks share a row, or
//!   shared memory for the rest. Else some or all of their elements are read once for each reduction that depends on another.
//! * Reductions across rows, of few long rows, or along several sets of axes are kernels of their own, whose results are arrays
//!   for the next one.
//!
//! [`explain`](Expr::explain) tells which kernels there are, and what they read and write. In which order elements are combined
//! follows from shapes and strides, so that the bits are the same on every device and every run. They are not always those of
//! the reduction of an array, whose order is another one.
//!
//! [`softmax`](Expr::softmax), [`layer_norm`](Expr::layer_norm), [`cross_entropy`](Expr::cross_entropy) and their kind are made of
//! them, and so are their gradients, [`softmax_backward`](Expr::softmax_backward) and the like.
//!
//! # Scans, histograms and products of matrices
//!
//! `inclusive_scan` and its kind, `histogram`, `matmul` and `batched_matmul` are of an expression, too, and their results are
//! parts of expressions:
//!
//! ```
//! use warpsmith::ndarray::{Axis, array};
//! use warpsmith::ops::Sum;
//! use warpsmith::{Device, DeviceArray};
//!
//! # fn main() -> warpsmith::Result<()> {
//! let device = Device::auto()?;
//! let x = DeviceArray::from_ndarray(device.default_stream(), &array![[1.0f32, -2.0], [3.0, 4.0]])?;
//! let bias = DeviceArray::from_ndarray(device.default_stream(), &array![-5.0f32, 1.0])?;
//! let layer = (x.expr().matmul(&x) + &bias).relu();
//! assert_eq!(layer.eval()?.to_ndarray()?, array![[0.0, 0.0], [10.0, 11.0]]);
//! let sums = (layer * 2.0).inclusive_scan_axis::<Sum>(Axis(1));
//! assert_eq!(sums.eval()?.to_ndarray()?, array![[0.0, 0.0], [20.0, 42.0]]);
//! # Ok(())
//! # }
//! ```
//!
//! They are kernels of their own, those of the methods of arrays by the same names, with their results.
//!
//! * Scans and histograms of what nothing else needs compute it where they would read it, if it takes few operations: a cumulative
//!   sum of squares reads and writes what one of an array does.
//! * Else what an operation is of is computed into an array first, unless it is one, and what it gives is an array. Each is there
//!   once, however often it is written and however many others read it, until the last has.
//! * An expression that is nothing but such an operation is written where it is wanted.
//! * A bias, a function and a residual behind a product are done by the product's kernel, where nothing else needs the product and
//!   they have the same bits: see [`Expr::matmul`].
//!
//! # Kernels
//!
//! On a GPU the kernel is written when an expression of its form is first evaluated: the library's functions, which were
//! compiled from Rust with the library, stand in it as text, and the driver compiles it, in some 15 to 50 ms. It is kept
//! with the device, for all expressions of the same form with any values and any lengths, and by the driver on disk, where
//! the next process finds it.
//!
//! From the second evaluation on, an expression costs the host a microsecond more than a launch, to be built and looked up. That is for
//! expressions that are the same but for where their arrays are and for their numbers. A function that was [compiled](compile) is built
//! and looked up once, for all arrays of some shapes and strides, and then takes a launch and little more; a
//! [`Graph`](crate::Graph) that has recorded either takes a launch alone.
//!
//! A `#[device_fn]` of one's own is a part of an expression like any other: [`call`]. Ordinary functions and closures are, too, if
//! what they take and give are expressions: [`map2`] calls one with those of two arrays.
//!
//! Text that is known at run time only, such as `"tanh(a)*2 + 1"`, becomes an expression by a [`Formula`].
//!
//! Random numbers are parts of an expression too, in no array: [`Generator::uniform_expr`](crate::Generator::uniform_expr) and
//! its kind.
//!
//! Beyond some 1500 operations, or 400 numbers, an expression is cut, and computed by several kernels. It may be as deep as memory is
//! large: nothing that is done with it recurs.

mod any;
mod call;
mod close;
mod compiled;
mod deferred;
mod eval;
#[cfg(test)]
mod every;
mod explain;
mod fast_math;
mod formula;
mod graph;
mod interpolate;
mod kernel;
mod lent;
mod map2;
mod methods;
mod nan;
mod norm;
mod normalize;
pub(crate) mod one;
mod operand;
mod operators;
mod plan;
mod product;
mod program;
mod ptx;
mod random;
mod reductions;
mod scan;
mod statistics;
mod triangle;
mod update;
mod value;

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use ndarray::{Dimension, IntoDimension, Ix0};

use crate::array::{DeviceArray, Element};
use crate::array_ref::DeviceArrayRef;
use crate::error::Error;
use crate::view::DeviceView;
use graph::{Node, Part};
use lent::Lent;

pub use any::AnyExpr;
pub use call::{Arguments, call};
#[doc(hidden)]
pub use compiled::Given;
pub use compiled::{Compiled, Input, Inputs, Parameters, Results, compile};
pub use deferred::{Deferred, defer_update, run_all};
pub use eval::{Evaluate, eval};
pub use formula::{Formula, FormulaError};
pub(crate) use kernel::Kernels;
#[doc(hidden)]
pub use kernel::reading::Reading;
pub use map2::map2;
pub use normalize::Label;
pub(crate) use operand::of_shape;
#[doc(hidden)]
pub use operand::{Hidden, HiddenParts};
pub use operand::{IntoExpr, Operand};
pub use operators::Behind;
pub(crate) use operators::Bits;
pub use update::{Replace, Update, update};
pub use value::{Promote, Value};

/// Elements of type `T` that are yet to be computed, of arrays that live for `'a`: see the [module](self).
///
/// A clone is the same expression. What two parts of an expression share is computed once. Its arrays are borrowed until it is used
/// for the last time, and not until it is dropped: `x = (x.expr() * 2.0).eval()?` compiles.
#[must_use = "nothing is computed before `eval`"]
pub struct Expr<'a, T, D> {
    part: Lent<'a>,
    _elements: PhantomData<fn() -> (T, D)>,
}

impl<T, D> Clone for Expr<'_, T, D> {
    fn clone(&self) -> Self {
        Self::of(self.part.clone())
    }
}

/// What it would be, for who prints it in place of its elements: they are not there before [`eval`](Expr::eval).
impl<T, D> fmt::Debug for Expr<'_, T, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let element = std::any::type_name::<T>();
        match &*self.part {
            Ok(node) => write!(f, "Expr({element}, shape={:?}, not computed: see eval)", node.shape),
            Err(problem) => write!(f, "Expr({element}, {})", Error::from(problem.clone())),
        }
    }
}

impl<'a, T, D> Expr<'a, T, D> {
    /// That part, which has that type and so many axes.
    fn of(part: Part<'a>) -> Self {
        Self {
            part: Lent::new(part),
            _elements: PhantomData,
        }
    }

    fn into_part(self) -> Part<'a> {
        self.part.into_part()
    }
}

impl<T: Value<Element = T> + Element, D: Dimension> DeviceArrayRef<T, D> {
    /// The elements as an [expression](crate::expr).
    pub fn expr(&self) -> Expr<'_, T, D> {
        Expr::of(Ok(Node::array(self)))
    }
}

impl<'a, T: Value<Element = T> + Element, D: Dimension + 'a> DeviceView<'a, T, D> {
    /// The elements as an [expression](crate::expr), which borrows what the view borrows: the view itself may go.
    ///
    /// # Examples
    ///
    /// ```
    /// use ndarray::{Axis, array};
    /// use warpsmith::{Device, DeviceArray};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let x = DeviceArray::from_ndarray(device.default_stream(), &array![[1.0, 2.0], [3.0, 4.0]])?;
    /// let means = x.mean_axis(Axis(1))?;
    /// let centred = &x - means.insert_axis(Axis(1))?.expr();
    /// assert_eq!(centred.eval()?.to_ndarray()?, array![[-0.5, 0.5], [-0.5, 0.5]]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn expr(&self) -> Expr<'a, T, D> {
        Expr::of(Ok(Node::of_array(Arc::new(self.clone()), T::TYPE)))
    }
}

impl<T: Value<Element = T> + Element, D: Dimension + 'static> DeviceArray<T, D> {
    /// The elements as an [expression](crate::expr), which has the array for itself.
    pub fn into_expr(self) -> Expr<'static, T, D> {
        Expr::of(Ok(Node::owned(self, T::TYPE)))
    }
}

/// One number as an expression of no axes.
///
/// A number beside an operator is one by itself; this is for where there is no operator: `scalar(2.0).eval_on(stream)`.
pub fn scalar<T: Value>(value: T) -> Expr<'static, T, Ix0> {
    Expr::of(Ok(Node::scalar(T::TYPE, value.bits())))
}

/// The place of each element along `axis`, of an array of that shape.
///
/// # Errors
///
/// Evaluating it is [`Error::Axes`] if there is no such axis.
///
/// # Examples
///
/// ```
/// use warpsmith::ndarray::array;
/// use warpsmith::{Device, expr};
///
/// # fn main() -> warpsmith::Result<()> {
/// let device = Device::auto()?;
/// let (row, column) = (expr::index((2, 3), 0), expr::index((2, 3), 1));
/// let table = (row * 10 + column).eval_on(device.default_stream())?;
/// assert_eq!(table.to_ndarray()?, array![[0, 1, 2], [10, 11, 12]]);
/// # Ok(())
/// # }
/// ```
#[doc(alias("indices", "meshgrid", "arange"))]
pub fn index<D: Dimension>(shape: impl IntoDimension<Dim = D>, axis: usize) -> Expr<'static, u64, D> {
    Expr::of(Node::index(shape.into_dimension().slice(), axis))
}
