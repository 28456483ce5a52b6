// SPDX-License-Identifier: MIT OR Apache-2.0
//! Losses that are scaled, so that gradients of 16 bits are not lost.

use ndarray::{Axis, Ix0, IxDyn};

use super::{Parameter, number_on, of_each};
use crate::array::DeviceArray;
use crate::error::{Error, Result};
use crate::expr::{self, Expr, Value};
use crate::graph::{GraphArrays, HeldArrays};
use crate::ops::Number;
use crate::stream::Stream;
use crate::view::DeviceView;

/// A factor for the loss, and so for all gradients, that is as large as they allow: small gradients are 0 in `f16`, whose least
/// number is 6e-8, and large ones infinite.
///
/// The gradients of a step are made of a loss that is multiplied with [`value`](Self::value), and [shown](Self::update) to this
/// before the step. Where one of them is infinite or NaN, the factor was too large: it is halved, and
/// [`Sgd::step_scaled`](super::Sgd::step_scaled) and [`Adam::step_scaled`](super::Adam::step_scaled) change nothing, neither
/// parameters nor state. Where none has been for 2000 steps, it is doubled. Both steps divide gradients by the factor, in
/// `f32`. All as PyTorch's `GradScaler`. (P. Micikevicius and others, "Mixed precision training", 2018.)
///
/// The factor is on the device, and nothing waits: a step with it can be recorded into a [`Graph`](crate::Graph), which takes this
/// as one of its arguments. `bf16` has the exponents of `f32`, and wants no such factor.
///
/// # Examples
///
/// ```
/// use warpsmith::ndarray::array;
/// use warpsmith::optim::{LossScale, Sgd};
/// use warpsmith::{Device, DeviceArray, f16};
///
/// # fn main() -> warpsmith::Result<()> {
/// // The least of (w − 1)² / 2 · 1e-8, whose gradient is below what f16 has.
/// let device = Device::auto()?;
/// let stream = device.default_stream();
/// let mut w = DeviceArray::from_ndarray(stream, &array![0.0f32, 4.0])?;
/// let mut sgd = Sgd::new(&w, 1e8)?;
/// let mut scale = LossScale::new(stream, 65536.0)?;
/// let gradient = ((&w - 1.0) * 1e-8 * scale.value()).cast::<f16>().eval()?;
/// scale.update(&[gradient.view().into_dyn()])?;
/// sgd.step_scaled(&mut w, &gradient, &scale)?;
/// assert!((w.to_ndarray()? - 1.0).iter().all(|off| off.abs() < 1e-2));
///
/// // One that is too large is not taken, and halves the factor.
/// let before = w.to_ndarray()?;
/// let gradient = DeviceArray::from_ndarray(stream, &array![f16::INFINITY, f16::ONE])?;
/// scale.update(&[gradient.view().into_dyn()])?;
/// sgd.step_scaled(&mut w, &gradient, &scale)?;
/// assert_eq!(w.to_ndarray()?, before);
/// assert_eq!(scale.value().to_ndarray()?.into_scalar(), 32768.0);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct LossScale {
    value: DeviceArray<f32, Ix0>,
    /// Steps since it has changed.
    steps: DeviceArray<u32, Ix0>,
    /// `1 / value` of the gradients that were shown last.
    inverse: DeviceArray<f32, Ix0>,
    /// Whether these were finite.
    are_finite: DeviceArray<u8, Ix0>,
    interval: u32,
}

/// What a [`LossScale`] keeps from step to step, on the host: [given](LossScale::state) and [taken](LossScale::set_state) by it, so
/// that a training goes on where another one has ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LossScaleState {
    /// The factor; PyTorch's `scale`.
    pub value: f32,
    /// The steps with finite gradients since it has changed; PyTorch's `_growth_tracker`.
    pub steps: u32,
}

impl LossScale {
    /// One that is `initial` at first; 65,536 is PyTorch's.
    ///
    /// # Errors
    ///
    /// [`Error::Parameter`] if it is not positive, or not finite as `f32`; those of an allocation.
    pub fn new(stream: &Stream, initial: f64) -> Result<Self> {
        let value = checked_value("LossScale::new", "initial", initial)?;
        Ok(Self {
            value: number_on(stream, initial)?,
            steps: expr::scalar(0u32).eval_on(stream)?,
            inverse: number_on(stream, 1.0 / f64::from(value))?,
            are_finite: expr::scalar(1u8).eval_on(stream)?,
            interval: 2000,
        })
    }

    /// Doubled after so many steps with finite gradients, in place of 2000.
    ///
    /// # Errors
    ///
    /// [`Error::Parameter`] if it is 0.
    pub fn growth_interval(mut self, steps: u32) -> Result<Self> {
        if steps == 0 {
            return Err(Error::Parameter {
                operation: "LossScale::growth_interval",
                parameter: "steps",
                given: "0".into(),
                wanted: "1 at least".into(),
            });
        }
        self.interval = steps;
        Ok(self)
    }

    /// What this keeps from step to step. Waits for the steps that were queued.
    ///
    /// # Errors
    ///
    /// Those of [`get`](crate::DeviceArrayRef::get).
    pub fn state(&self) -> Result<LossScaleState> {
        Ok(LossScaleState {
            value: self.value.get(())?,
            steps: self.steps.get(())?,
        })
    }

    /// Goes on from that state. Also of the arguments of a [`Graph`](crate::Graph).
    ///
    /// # Errors
    ///
    /// [`Error::Parameter`] if the value is not positive and finite, as [`new`](Self::new) wants it; those of a launch.
    pub fn set_state(&mut self, state: &LossScaleState) -> Result<()> {
        let value = checked_value("LossScale::set_state", "value", state.value.into())?;
        expr::scalar(value).eval_into(&mut self.value)?;
        // One that has waited for longer than this one's interval is doubled by the next step.
        expr::scalar(state.steps.min(self.interval - 1)).eval_into(&mut self.steps)
    }

    /// What the next loss is to be multiplied with, on the device: beside an operator, or as the gradient of
    /// [`cross_entropy_backward`](Expr::cross_entropy_backward).
    pub fn value(&self) -> &DeviceArray<f32, Ix0> {
        &self.value
    }

    /// Looks at all gradients of a step, which were made with the present [`value`](Self::value): what
    /// [`step_scaled`](super::Adam::step_scaled) does next, and the factor of the next step, follow from it. Call it once a step, ahead
    /// of the optimisers.
    ///
    /// Gradients are read once, tens of them by one launch; another one is of one thread. Nothing waits.
    ///
    /// # Errors
    ///
    /// [`Error::Parameter`] if there is no gradient, [`Error::DifferentDevices`], and those of an allocation and a launch.
    pub fn update<T: Parameter>(&mut self, gradients: &[DeviceView<'_, T, IxDyn>]) -> Result<()> {
        let are_finite = gradients
            .iter()
            .map(|gradient| gradient.expr().is_finite().all().cast::<u8>());
        let are_finite = of_each(self.value.stream(), are_finite)?;
        let are_finite: Vec<_> = are_finite.axis_iter(Axis(0))?.collect();
        let each = are_finite.iter().map(|all| all.expr().not_equal(0));
        let Some(all) = each.reduce(|a, b| a & b) else {
            return Err(Error::Parameter {
                operation: "LossScale::update",
                parameter: "gradients",
                given: "none".into(),
                wanted: "one at least".into(),
            });
        };
        let (
            Self {
                value,
                steps,
                inverse,
                are_finite,
                interval,
            },
            one,
        ) = (self, expr::scalar(1.0f32));
        expr::update((value, steps, inverse, are_finite), |(value, steps, _, _)| {
            let steps = all.select(steps + 1, 0);
            let grows = steps.equal(*interval) & (&value * 2.0).is_finite();
            let next = grows.select(
                &value * 2.0,
                all.select(value.clone(), (&value * 0.5).maximum(f32::MIN_POSITIVE)),
            );
            let steps = steps.equal(*interval).select(expr::scalar(0u32), steps);
            (next, steps, one / value, all.cast())
        })
    }

    /// Whether the gradients that were shown last were finite.
    pub(super) fn are_finite(&self) -> Expr<'_, bool, Ix0> {
        self.are_finite.expr().not_equal(0)
    }

    /// What they are multiplied with to be without the factor.
    pub(super) fn inverse<S: Value + Number>(&self) -> Expr<'_, S, Ix0> {
        self.inverse.expr().cast()
    }
}

/// The factor as it is kept; an error of `operation` unless it can be divided by.
fn checked_value(operation: &'static str, parameter: &'static str, given: f64) -> Result<f32> {
    let value = given as f32;
    if value.is_normal() && value > 0.0 {
        return Ok(value);
    }
    Err(Error::Parameter {
        operation,
        parameter,
        given: given.to_string(),
        wanted: "a positive number that f32 has".into(),
    })
}

// SAFETY: its own arrays.
unsafe impl GraphArrays for LossScale {
    fn arrays(&self, held: &mut HeldArrays<'_>) {
        (&self.value, &self.steps, &self.inverse, &self.are_finite).arrays(held);
    }
}
