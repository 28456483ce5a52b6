// SPDX-License-Identifier: MIT OR Apache-2.0
//! Evaluation: an expression is cut where it is too long for a kernel, lowered to a program, and launched.

use std::sync::Arc;

use ndarray::{Dimension, IxDyn};

use super::Expr;
use super::compiled::evaluated::{self, KERNELS, Procedure};
use super::graph::{Elements, Node};
use super::plan;
use super::value::Value;
use crate::array::DeviceArray;
use crate::array_ref::DeviceArrayRef;
use crate::error::{Error, Result};
use crate::stream::Stream;

impl<'a, T: Value, D: Dimension> Expr<'a, T, D> {
    /// Computes the elements, at home on the stream of the expression's first array.
    ///
    /// # Errors
    ///
    /// That of the operation that put the expression together wrongly: [`Error::Shape`] or [`Error::DifferentDevices`].
    /// [`Error::Parameter`] for an expression of no array, which has no home: that is for [`eval_on`](Self::eval_on). Those of
    /// an allocation and a launch.
    pub fn eval(&self) -> Result<DeviceArray<T::Element, D>> {
        let root = self.part.as_ref().map_err(Clone::clone)?;
        self.eval_on(&home(root)?)
    }

    /// Computes the elements on `stream`, which is then the array's home.
    ///
    /// # Errors
    ///
    /// As [`eval`](Self::eval), and [`Error::DifferentDevices`] if the stream is another device's.
    pub fn eval_on(&self, stream: &Stream) -> Result<DeviceArray<T::Element, D>> {
        let root = self.part.as_ref().map_err(Clone::clone)?;
        let out = DeviceArray::uninit(stream, dim(&root.shape))?;
        run(stream, &[root], &[&&*out])?;
        Ok(out)
    }

    /// [`eval`](Self::eval) into an existing array or view, on its stream.
    ///
    /// # Errors
    ///
    /// As [`eval_on`](Self::eval_on), and [`Error::Shape`] if the output's shape is not the expression's.
    ///
    /// # Examples
    ///
    /// ```
    /// use warpsmith::ndarray::{array, s};
    /// use warpsmith::{Device, DeviceArray};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let x = DeviceArray::from_ndarray(device.default_stream(), &array![1.0f64, 2.0])?;
    /// let mut out = DeviceArray::zeros(device.default_stream(), (2, 2))?;
    /// (&x + 0.5).eval_into(&mut out.slice_mut(s![.., 1])?)?;
    /// assert_eq!(out.to_ndarray()?, array![[0.0, 1.5], [0.0, 2.5]]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn eval_into(&self, out: &mut DeviceArrayRef<T::Element, D>) -> Result<()> {
        let root = self.part.as_ref().map_err(Clone::clone)?;
        check_shape("eval_into", &root.shape, out.shape())?;
        let stream = out.stream().clone();
        out.write_in_order(&stream, &mut |out| run(&stream, &[root], &[&&*out]))
    }
}

impl<T: Value, D: Dimension> Expr<'_, T, D> {
    /// Computes the only element, as of a sum, and waits for it: PyTorch's `item`. That of a condition is a `bool`.
    ///
    /// # Errors
    ///
    /// As [`eval`](Self::eval); [`Error::Shape`], before anything is computed, unless there is one element; those of earlier
    /// kernels.
    ///
    /// # Examples
    ///
    /// ```
    /// use warpsmith::ndarray::array;
    /// use warpsmith::{Device, DeviceArray};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let x = DeviceArray::from_ndarray(device.default_stream(), &array![3.0f32, -4.0])?;
    /// assert_eq!(x.expr().square().sum().sqrt().item()?, 5.0);
    /// assert!(x.expr().less(0.0).any().item()?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn item(&self) -> Result<T> {
        let root = self.part.as_ref().map_err(Clone::clone)?;
        if root.shape.iter().product::<usize>() != 1 {
            return Err(Error::Shape {
                operation: "item",
                given: format!("an expression of shape {:?}", root.shape),
                wanted: "one element".into(),
            });
        }
        Ok(T::of_element(self.eval()?.item()?))
    }
}

/// Expressions that are evaluated together: a tuple of two to six expressions of one shape, or of references to
/// such.
pub trait Evaluate {
    /// The arrays, as a tuple.
    type Arrays;

    #[doc(hidden)]
    fn eval(self) -> Result<Self::Arrays>;
}

/// Computes several expressions of one shape at once, by one kernel: what they share is computed once.
///
/// # Errors
///
/// As [`Expr::eval`], and [`Error::Shape`] if the shapes differ.
///
/// # Examples
///
/// ```
/// use warpsmith::ndarray::array;
/// use warpsmith::{Device, DeviceArray, expr};
///
/// # fn main() -> warpsmith::Result<()> {
/// let device = Device::auto()?;
/// let x = DeviceArray::from_ndarray(device.default_stream(), &array![3.0f32, 6.0])?;
/// let y = DeviceArray::from_ndarray(device.default_stream(), &array![4.0f32, 8.0])?;
/// let length = x.expr().hypot(&y);
/// let (unit_x, unit_y) = expr::eval((&x / &length, &y / &length))?;
/// assert_eq!((unit_x.to_ndarray()?, unit_y.to_ndarray()?), (array![0.6, 0.6], array![0.8, 0.8]));
/// # Ok(())
/// # }
/// ```
pub fn eval<E: Evaluate>(expressions: E) -> Result<E::Arrays> {
    expressions.eval()
}

macro_rules! evaluate {
    ($first:ident $first_root:ident $first_out:ident $($type:ident $root:ident $out:ident)+) => {
        impl<$first: Value, $($type: Value,)+ D: Dimension> Evaluate for (&Expr<'_, $first, D>, $(&Expr<'_, $type, D>,)+) {
            type Arrays = (DeviceArray<$first::Element, D>, $(DeviceArray<$type::Element, D>,)+);

            fn eval(self) -> Result<Self::Arrays> {
                let ($first_root, $($root,)+) = self;
                let $first_root = $first_root.part.as_ref().map_err(Clone::clone)?;
                $(
                    let $root = $root.part.as_ref().map_err(Clone::clone)?;
                    check_shape("eval", &$root.shape, &$first_root.shape)?;
                )+
                let roots = [$first_root, $($root),+];
                let stream = roots.iter().find_map(|root| home(root).ok());
                let stream = stream.ok_or_else(no_home)?;
                let $first_out = DeviceArray::uninit(&stream, dim(&$first_root.shape))?;
                $(let $out = DeviceArray::uninit(&stream, dim(&$root.shape))?;)+
                run(&stream, &roots, &[&&*$first_out, $(&&*$out),+])?;
                Ok(($first_out, $($out,)+))
            }
        }

        impl<$first: Value, $($type: Value,)+ D: Dimension> Evaluate for (Expr<'_, $first, D>, $(Expr<'_, $type, D>,)+) {
            type Arrays = (DeviceArray<$first::Element, D>, $(DeviceArray<$type::Element, D>,)+);

            fn eval(self) -> Result<Self::Arrays> {
                let ($first_root, $($root,)+) = &self;
                ($first_root, $($root,)+).eval()
            }
        }
    };
}

evaluate!(A a a_out B b b_out);
evaluate!(A a a_out B b b_out C c c_out);
evaluate!(A a a_out B b b_out C c c_out E e e_out);
evaluate!(A a a_out B b b_out C c c_out E e e_out F f f_out);
evaluate!(A a a_out B b b_out C c c_out E e e_out F f f_out G g g_out);

/// The stream that an expression is computed on.
pub(super) fn home(root: &Node<'_>) -> Result<Stream> {
    let array = root.home.as_ref().ok_or_else(no_home)?;
    Ok(array.stream().clone())
}

fn no_home() -> Error {
    Error::Parameter {
        operation: "eval",
        parameter: "expression",
        given: "one of no array".into(),
        wanted: "one of an array, whose stream it runs on, or `eval_on`".into(),
    }
}

/// The shape as ndarray's dimension type, of which it has the number of axes: every operation keeps the two alike.
pub(super) fn dim<D: Dimension>(shape: &[usize]) -> D {
    D::from_dimension(&IxDyn(shape)).expect("a part has as many axes as its type says")
}

pub(super) fn check_shape(operation: &'static str, shape: &[usize], wanted: &[usize]) -> Result<()> {
    if shape == wanted {
        return Ok(());
    }
    Err(Error::Shape {
        operation,
        given: format!("an expression of shape {shape:?}"),
        wanted: format!("one of shape {wanted:?}"),
    })
}

/// Computes the roots, all of the outputs' shape, into outputs in C order.
pub(super) fn run(stream: &Stream, roots: &[&Arc<Node<'_>>], outputs: &[&dyn Elements]) -> Result<()> {
    run_by(stream, KERNELS, roots, outputs)
}

/// Computes what a procedure does of roots, into outputs in C order.
pub(super) fn run_by(
    stream: &Stream,
    by: Procedure,
    roots: &[&Arc<Node<'_>>],
    outputs: &[&dyn Elements],
) -> Result<()> {
    check_devices(stream, roots)?;
    let has_none = outputs.iter().any(|output| output.shape().contains(&0));
    match has_none || plan::has_applications(roots) {
        // Of no elements there is no plan; and operations are done again: nothing tells which are the same.
        true => by.run(stream, roots, outputs),
        false => evaluated::run(stream, by, roots, outputs),
    }
}

fn check_devices(stream: &Stream, roots: &[&Arc<Node<'_>>]) -> Result<()> {
    let mut homes = roots.iter().filter_map(|root| root.home.as_ref());
    homes.try_for_each(|array| array.stream().check_device("eval", stream))
}
