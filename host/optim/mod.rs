// SPDX-License-Identifier: MIT OR Apache-2.0
//! Optimisers: what a step of training makes of parameters and their gradients.
//!
//! An optimiser is of one array of parameters, and has what it keeps from step to step, on the device. A [step](Adam::step) reads
//! and writes parameters and state once, in place, by one kernel ([`Adam`]'s counts by a second one, of one thread); nothing
//! waits. [`step_all`] does the steps of many arrays together, by a launch for some tens of them.
//!
//! What changes from step to step is on the device too: the count of steps, which Adam's corrections follow from, and the
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
//!
//! # Interrupted trainings
//!
//! `state` of an optimiser gives what it keeps from step to step, arrays of the host's by name, and `set_state` of another one, made
//! with the same numbers, goes on from there: with the parameters' own elements, its steps have the same bits as without the
//! interruption. PyTorch's `state_dict` has the learning rate besides; here that is the program's to keep. In which format the
//! state is saved is open; by the feature `npz` NumPy's archives are written and read:
//!
#![cfg_attr(feature = "npz", doc = "```")]
#![cfg_attr(not(feature = "npz"), doc = "```ignore")]
//! use std::io::Cursor;
//!
//! use warpsmith::ndarray::{Ix1, arr0, array};
//! use warpsmith::npy::{NpzReader, NpzWriter};
//! use warpsmith::optim::{Adam, AdamState};
//! use warpsmith::{Device, DeviceArray};
//!
//! # fn main() -> warpsmith::Result<()> {
//! let device = Device::auto()?;
//! let stream = device.default_stream();
//! let gradient = DeviceArray::from_ndarray(stream, &array![0.5f32, -1.0])?;
//! let mut weights = DeviceArray::<f32, _>::zeros(stream, 2)?;
//! let mut adam = Adam::new(&weights, 0.1)?;
//! adam.step(&mut weights, &gradient)?;
//!
//! let state = adam.state()?;
//! let mut archive = NpzWriter::new(Cursor::new(Vec::new())); // `NpzWriter::create("checkpoint.npz")?` for a file
//! archive.add("weights", &weights)?;
//! archive.add_ndarray("weights.steps", &arr0(state.steps))?;
//! archive.add_ndarray("weights.mean", &state.mean)?;
//! archive.add_ndarray("weights.square", &state.square)?;
//! let file = archive.finish()?;
//!
//! let mut archive = NpzReader::new(file)?;
//! let mut loaded: DeviceArray<f32, Ix1> = archive.load(stream, "weights")?;
//! let mut next = Adam::new(&loaded, 0.1)?;
//! next.set_state(&AdamState {
//!     steps: archive.load_ndarray("weights.steps")?.into_scalar(),
//!     mean: archive.load_ndarray("weights.mean")?,
//!     square: archive.load_ndarray("weights.square")?,
//! })?;
//! adam.step(&mut weights, &gradient)?;
//! next.step(&mut loaded, &gradient)?;
//! assert_eq!(loaded.to_ndarray()?, weights.to_ndarray()?);
//! # Ok(())
//! # }
//! ```

mod adam;
mod clip;
mod loss_scale;
mod sgd;

use std::fmt::Debug;

use half::{bf16, f16};
use ndarray::{ArrayD, Axis, DimMax, Dimension, Ix0, Ix1};

use crate::array::{DeviceArray, Element};
use crate::error::{Error, Result};
use crate::expr::{self, Deferred, Expr, Promote, Value};
use crate::ops::Real;
use crate::stream::Stream;

pub use adam::{Adam, AdamState};
pub use clip::clip_norm;
pub use loss_scale::{LossScale, LossScaleState};
pub use sgd::{Sgd, SgdState};

mod sealed {
    pub trait Sealed {}
}

/// What parameters may be: `f32`, `f64`, `f16` and `bf16`.
pub trait Parameter:
    Value<Element = Self> + Element + Real + Promote<Self, Output = Self> + Debug + sealed::Sealed
{
    /// What is computed with, and the type of an optimiser's state: `f32` of 16-bit floats, else the type itself.
    type State: Value<Element = Self::State>
        + Element
        + Real<Total = Self::State>
        + Promote<Self::State, Output = Self::State>
        + Debug;
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

/// A step of an optimiser, of one array of parameters, that is done later, by [`step_all`]: of [`Adam`] and [`Sgd`] by
/// `defer_step`. It borrows the optimiser and the parameters until then.
#[must_use = "nothing is computed before `step_all`"]
#[derive(Debug)]
pub struct Step<'a> {
    /// What the elements follow from.
    count: Option<Deferred<'a>>,
    elements: Deferred<'a>,
}

/// Does these steps, which may be of optimisers of different kinds and numbers: with the bits that they have one by one, but by as many
/// launches as there are kinds of steps, or a few times as many if parameters are many: some 25 of `Adam` go into one launch, 40 of
/// `Sgd`. Parameters that the device's cache does not hold, with their state, have a launch of their own.
///
/// # Errors
///
/// As `step` of the optimisers. Some of the steps may be done then.
///
/// # Examples
///
/// ```
/// use warpsmith::ndarray::array;
/// use warpsmith::optim::{self, Adam};
/// use warpsmith::{Device, DeviceArray};
///
/// # fn main() -> warpsmith::Result<()> {
/// let device = Device::auto()?;
/// let stream = device.default_stream();
/// let mut weights = DeviceArray::from_ndarray(stream, &array![[1.0f32, -2.0], [3.0, 0.5]])?;
/// let mut bias = DeviceArray::from_ndarray(stream, &array![0.0f32, 1.0])?;
/// let gradients = (weights.try_clone()?, bias.try_clone()?);
/// let mut adams = [Adam::new(&weights, 0.5)?, Adam::new(&bias, 0.5)?];
/// let [of_weights, of_bias] = &mut adams;
/// optim::step_all([
///     of_weights.defer_step(&mut weights, &gradients.0)?,
///     of_bias.defer_step(&mut bias, &gradients.1)?,
/// ])?;
/// assert_eq!(bias.to_ndarray()?, array![0.0, 0.5]);
/// # Ok(())
/// # }
/// ```
pub fn step_all<'a>(steps: impl IntoIterator<Item = Step<'a>>) -> Result<()> {
    let (counts, elements): (Vec<_>, Vec<_>) = steps.into_iter().map(|step| (step.count, step.elements)).unzip();
    expr::run_all(counts.into_iter().flatten())?;
    expr::run_all(elements)
}

/// A number as one of an optimiser's type.
fn number<T: Parameter>(value: f64) -> Expr<'static, T::State, Ix0> {
    expr::scalar(value).cast()
}

/// The numbers that these expressions have, such as one of each gradient, by few launches.
fn of_each<'a, T: Value<Element = T> + Element>(
    stream: &Stream,
    numbers: impl ExactSizeIterator<Item = Expr<'a, T, Ix0>>,
) -> Result<DeviceArray<T, Ix1>> {
    let mut out = DeviceArray::uninit(stream, Ix1(numbers.len()))?;
    let mut places: Vec<_> = out.axis_iter_mut(Axis(0))?.collect();
    let each = numbers.zip(&mut places);
    let each = each.map(|(number, place)| number.defer_into(place));
    expr::run_all(each.collect::<Result<Vec<_>>>()?)?;
    drop(places);
    Ok(out)
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

/// An error of `operation` unless that array of a state has the parameters' shape.
fn check_state_shape<T>(operation: &'static str, name: &str, array: &ArrayD<T>, shape: &[usize]) -> Result<()> {
    if array.shape() == shape {
        return Ok(());
    }
    Err(Error::Shape {
        operation,
        given: format!("{name} of shape {:?}", array.shape()),
        wanted: format!("that of the parameters, {shape:?}"),
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
