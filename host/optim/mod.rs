// SPDX-License-Identifier: MIT OR Apache-2.0
//! Optimisers: what a step of training makes of parameters and their gradients.
//!
//! An optimiser is of one array of parameters, and has what it keeps from step to step, on the device. A [step](Adam::step) reads
//! and writes parameters and state once, in place, by one kernel ([`Adam`]'s counts by a second one, of one thread); nothing
//! waits. What changes from step to step is on the device too: the count of steps, which Adam's corrections follow from, and the
//! learning rate. So a step that was recorded into a [`Graph`](crate::Graph), to which the optimiser is given like an array, is
//! right each time that it is launched, and [`set_learning_rate`](Adam::set_learning_rate) of the graph's arguments holds from
//! the next launch on.
//!
//! ```
//! use warpsmith::ndarray::array;
//! use warpsmith::optim::Adam;
//! use warpsmith::{Device, DeviceArray};
//!
//! # fn main() -> warpsmith::Result<()> {
//! // The least of (w − goal)².
//! let device = Device::auto()?;
//! let stream = device.default_stream();
//! let goal = DeviceArray::from_ndarray(stream, &array![1.0f32, -2.0, 0.5])?;
//! let weights = DeviceArray::<f32, _>::zeros(stream, 3)?;
//! let adam = Adam::new(&weights, 0.1)?;
//! let mut step = stream.capture((weights, adam, &goal), |_, (weights, adam, goal)| {
//!     let gradient = ((&*weights - *goal) * 2.0).eval()?;
//!     adam.step(weights, &gradient)
//! })?;
//! for _ in 0..200 {
//!     step.launch()?;
//! }
//! let off = (step.args().0.to_ndarray()? - array![1.0, -2.0, 0.5]).mapv(f32::abs);
//! assert!(off.iter().all(|&off| off < 1e-2), "{off}");
//! # Ok(())
//! # }
//! ```
//!
//! # Types
//!
//! Parameters of 16 bits have their state in `f32`, are computed with in `f32`, and rounded once a step. A step that is less than
//! half a unit in a parameter's last place then changes nothing: train parameters of `f32`, and [cast](crate::Expr::cast) them to
//! 16 bits for products, unless that is known not to matter. Gradients are arrays or expressions of the parameters' shape, of any
//! type that has one together with theirs, so that `f32` parameters take `bf16` gradients, and a gradient that is scaled,
//! `gradient.expr() * (1.0 / 1024.0)`, is in no array. Gradients of `f16` want a loss that is scaled: [`LossScale`].

mod adam;
mod clip;
mod loss_scale;
mod sgd;

use half::{bf16, f16};
use ndarray::{DimMax, Dimension, Ix0};

use crate::array::{DeviceArray, Element};
use crate::error::{Error, Result};
use crate::expr::{self, Expr, Promote, Value};
use crate::ops::Real;
use crate::stream::Stream;

pub use adam::Adam;
pub use clip::clip_norm;
pub use loss_scale::LossScale;
pub use sgd::Sgd;

mod sealed {
    pub trait Sealed {}
}

/// What parameters may be: `f32`, `f64`, `f16` and `bf16`.
pub trait Parameter: Value<Element = Self> + Element + Real + Promote<Self, Output = Self> + sealed::Sealed {
    /// What is computed with, and the type of an optimiser's state: `f32` of 16-bit floats, else the type itself.
    type State: Value<Element = Self::State>
        + Element
        + Real<Total = Self::State>
        + Promote<Self::State, Output = Self::State>;
}

macro_rules! parameters {
    ($($type:ty => $state:ty),*) => {$(
        impl sealed::Sealed for $type {}

        impl Parameter for $type {
            type State = $state;
        }
    )*};
}

parameters!(f32 => f32, f64 => f64, f16 => f32, bf16 => f32);

/// A number as one of an optimiser's type.
fn number<T: Parameter>(value: f64) -> Expr<'static, T::State, Ix0> {
    expr::scalar(value).cast()
}

/// A number on the device.
fn number_on<T: Value<Element = T> + Element + Real>(stream: &Stream, value: f64) -> Result<DeviceArray<T, Ix0>> {
    expr::scalar(value).cast::<T>().eval_on(stream)
}

/// The new numbers if the condition holds, or there is none; else the old ones.
fn select<'a, T: Promote<T, Output = T>, D: Dimension + DimMax<D, Output = D>>(
    condition: &Option<Expr<'a, bool, Ix0>>,
    new: Expr<'a, T, D>,
    old: Expr<'a, T, D>,
) -> Expr<'a, T, D>
where
    Ix0: DimMax<D, Output = D>,
{
    match condition {
        None => new,
        Some(condition) => condition.select(new, old),
    }
}

/// An error of `operation` unless the number is finite and not below 0.
fn check_not_negative(operation: &'static str, parameter: &'static str, value: f64) -> Result<()> {
    if value.is_finite() && value >= 0.0 {
        return Ok(());
    }
    Err(Error::Parameter {
        operation,
        parameter,
        given: value.to_string(),
        wanted: "a finite number from 0 on".into(),
    })
}

/// An error of `operation` unless the number is in [0, 1).
fn check_below_one(operation: &'static str, parameter: &'static str, value: f64) -> Result<()> {
    if (0.0..1.0).contains(&value) {
        return Ok(());
    }
    Err(Error::Parameter {
        operation,
        parameter,
        given: value.to_string(),
        wanted: "a number from 0 to below 1".into(),
    })
}
