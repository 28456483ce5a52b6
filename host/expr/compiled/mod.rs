// SPDX-License-Identifier: MIT OR Apache-2.0
//! Functions of arrays, made of expressions once: what they launch is kept, and later calls only say where arrays are.

pub(super) mod evaluated;
mod inputs;
pub(super) mod plan;
mod trace;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use ndarray::Dimension;

use super::Expr;
use super::eval::check_shape;
use super::graph::description::alignment;
use super::value::Value;
use crate::array_ref::DeviceArrayRef;
use crate::error::{Error, Result};
use crate::stream::Stream;

pub use inputs::{Given, Input, Inputs, Parameters, Results};
use plan::Class;
pub(super) use trace::{Place, without_elements};
use trace::{Traced, trace};

/// The plans that a function keeps at most.
const MOST_PLANS: usize = 32;

/// A function of arrays that [`compile`] made: `P` is what it takes, `R` what it gives.
///
/// Threads may call it side by side.
#[must_use = "nothing is computed before `call`"]
pub struct Compiled<'a, P, R> {
    function: Box<dyn Fn(P) -> R + Send + Sync + 'a>,
    /// The one that was called last is the first.
    plans: Mutex<Vec<Arc<Traced<'a>>>>,
}

impl<P, R> fmt::Debug for Compiled<'_, P, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compiled").finish_non_exhaustive()
    }
}

/// A function of arrays whose launches are planned once.
///
/// `function` takes an [`Expr`] or a tuple of them, and gives one or a tuple of several of one shape. It is *traced*, that is
/// called with expressions of arrays that are not there yet, when the function is first called on arrays of a *class*: of these
/// shapes, these strides, addresses that are as far from a multiple of 16 bytes, and this device. What is to be launched then
/// is kept: kernels, their parameters, threads, and the arrays between them. Every later call of the class checks that it is one,
/// allocates its results (and arrays between kernels) on the stream, fills in addresses and numbers, and launches. Results have
/// the bits that [`eval`](Expr::eval) gives.
///
/// An argument for an `Expr<T, Ix0>` may be a number of type `T`, which goes with the call: another number is no other class.
/// But what `function` brings along is fixed when it is traced: numbers are part of the plan, also random ones (every call of a
/// class has the same), and arrays are read at every call as they are then, which is as they were, since they are borrowed.
///
/// The plans of the 32 classes that were called last are kept, with the arrays that `function` brought along; the plan of the
/// one that was called least recently goes first. A class that comes again is traced again, which takes some microseconds; its
/// kernels stay with the device.
///
/// With [`fast_math`](Expr::fast_math), arithmetic of numbers that go with the call is contracted too, while `eval` computes that
/// of numbers before.
///
/// # Examples
///
/// ```
/// use warpsmith::expr::{self, Expr};
/// use warpsmith::ndarray::{Axis, Ix0, Ix1, Ix2, array};
/// use warpsmith::{Device, DeviceArray};
///
/// # fn main() -> warpsmith::Result<()> {
/// let step = expr::compile(|(x, centre, rate): (Expr<f32, Ix2>, Expr<f32, Ix1>, Expr<f32, Ix0>)| {
///     let distance = (&x - centre).square().sum_axis(Axis(1)).sqrt();
///     x * (1.0 - rate) / distance.insert_axis(Axis(1))
/// });
/// let device = Device::auto()?;
/// let x = DeviceArray::from_ndarray(device.default_stream(), &array![[3.0f32, 4.0], [6.0, 8.0]])?;
/// let centre = DeviceArray::zeros(device.default_stream(), 2)?;
/// let y = step.call((&x, &centre, 0.5))?;
/// assert_eq!(y.to_ndarray()?, array![[0.3, 0.4], [0.3, 0.4]]);
/// // A known class: its kernel is launched with other addresses and another number.
/// let z = step.call((&y, &centre, 0.0))?;
/// assert_eq!(z.shape(), [2, 2]);
/// # Ok(())
/// # }
/// ```
pub fn compile<'a, P: Parameters<'a>, R: Results<'a>>(
    function: impl Fn(P) -> R + Send + Sync + 'a,
) -> Compiled<'a, P, R> {
    Compiled {
        function: Box::new(function),
        plans: Mutex::default(),
    }
}

impl<'a, P: Parameters<'a>, R: Results<'a>> Compiled<'a, P, R> {
    /// Computes the function of these arrays and numbers, at home on the stream of the first array.
    ///
    /// `inputs` is one argument, or a tuple of one for each `Expr` of the tuple that the function takes: a reference to an array
    /// or a view, or a number.
    ///
    /// # Errors
    ///
    /// When a class is first called: that of the operation that put the expression together wrongly, and [`Error::Shape`] if the
    /// results have not one shape. At every call: [`Error::Parameter`] if no array is given, whose stream it could run on, which is
    /// for [`call_on`](Self::call_on), and [`Error::DifferentDevices`] if the arrays are on several devices. Those of an allocation
    /// and a launch.
    pub fn call(&self, inputs: impl Inputs<P>) -> Result<R::Arrays> {
        inputs.with(|given| {
            let array = given.iter().find_map(|given| given.elements());
            let array = array.ok_or_else(|| Error::Parameter {
                operation: "call",
                parameter: "inputs",
                given: "no array".into(),
                wanted: "an array, whose stream it runs on, or `call_on`".into(),
            })?;
            self.compute(array.stream(), given)
        })
    }

    /// [`call`](Self::call) on `stream`, which is then the results' home.
    ///
    /// # Errors
    ///
    /// As [`call`](Self::call), and [`Error::DifferentDevices`] if the stream is another device's.
    pub fn call_on(&self, stream: &Stream, inputs: impl Inputs<P>) -> Result<R::Arrays> {
        inputs.with(|given| self.compute(stream, given))
    }

    fn compute(&self, stream: &Stream, given: &[Given<'_>]) -> Result<R::Arrays> {
        let traced = self.plan(stream, given, 0)?;
        let arrays = R::uninit(stream, &traced.shape)?;
        // SAFETY: the plan for this call. The arrays are new, of its shape and of the results' types, and allocated memory is
        // aligned to 256 bytes.
        R::with(&arrays, |outputs| unsafe { traced.plan.run(stream, given, outputs) })?;
        Ok(arrays)
    }

    /// The plan for a call whose outputs are so aligned: one that is kept, or a new one.
    fn plan(&self, stream: &Stream, given: &[Given<'_>], alignment: u64) -> Result<Arc<Traced<'a>>> {
        for array in given.iter().filter_map(|given| given.elements()) {
            stream.check_device("call", array.stream())?;
        }
        let find = |plans: &mut Vec<Arc<Traced<'a>>>| {
            let at = plans
                .iter()
                .position(|plan| plan.class.is_of(stream, given, alignment))?;
            plans[..=at].rotate_right(1);
            Some(Arc::clone(&plans[0]))
        };
        let lock = || self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(plan) = find(&mut lock()) {
            return Ok(plan);
        }
        // Without the lock: the function is somebody's code, and the driver may compile.
        let plan = Arc::new(trace(
            &*self.function,
            Class::of(stream, given, alignment),
            stream,
            given,
        )?);
        let mut plans = lock();
        if let Some(plan) = find(&mut plans) {
            // Another thread has traced the same meanwhile.
            return Ok(plan);
        }
        plans.insert(0, Arc::clone(&plan));
        let kept = plans.len().min(MOST_PLANS);
        let old = plans.split_off(kept);
        // What it has brought along is freed when nobody waits.
        drop(plans);
        drop(old);
        Ok(plan)
    }
}

impl<'a, P: Parameters<'a>, T: Value, D: Dimension> Compiled<'a, P, Expr<'a, T, D>> {
    /// [`call`](Self::call) into an existing array or view, on its stream.
    ///
    /// # Errors
    ///
    /// As [`call_on`](Self::call_on), and [`Error::Shape`] if the output's shape is not the result's.
    ///
    /// # Examples
    ///
    /// ```
    /// use warpsmith::expr::{self, Expr};
    /// use warpsmith::ndarray::{Ix0, Ix1, array};
    /// use warpsmith::{Device, DeviceArray};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let axpy = expr::compile(|(a, x, y): (Expr<f64, Ix0>, Expr<f64, Ix1>, Expr<f64, Ix1>)| x.mul_add(a, y));
    /// let device = Device::auto()?;
    /// let x = DeviceArray::from_ndarray(device.default_stream(), &array![1.0f64, 2.0])?;
    /// let y = DeviceArray::from_ndarray(device.default_stream(), &array![10.0, 20.0])?;
    /// let mut out = DeviceArray::zeros(device.default_stream(), 2)?;
    /// axpy.call_into((0.5, &x, &y), &mut out)?;
    /// assert_eq!(out.to_ndarray()?, array![10.5, 21.0]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn call_into(&self, inputs: impl Inputs<P>, out: &mut DeviceArrayRef<T::Element, D>) -> Result<()> {
        let stream = out.stream().clone();
        inputs.with(|given| {
            let alignment = match out.is_standard_layout() {
                true => alignment(out.first_address() as u64),
                false => 0,
            };
            let traced = self.plan(&stream, given, alignment)?;
            check_shape("call_into", &traced.shape, out.shape())?;
            out.write_in_order(&stream, &mut |out| {
                let output = &*out;
                // SAFETY: the plan for this call. The output is borrowed mutably, of the plan's shape, and of the result's type; it
                // is so aligned, or a new array in its place, and then aligned to 256 bytes.
                unsafe { traced.plan.run(&stream, given, &[Given::array(&output)]) }
            })
        })
    }
}
