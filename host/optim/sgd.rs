// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gradient descent, with momentum.

use ndarray::{ArrayD, Dimension, Ix0, IxDyn};

use super::{
    LossScale, Parameter, Step, check_below_one, check_not_negative, check_state_shape, number, number_on, select,
    step_all,
};
use crate::array::DeviceArray;
use crate::array_ref::DeviceArrayRef;
use crate::error::{Error, Result};
use crate::expr::{self, Deferred, Expr, Operand};
use crate::graph::{GraphArrays, HeldArrays};

/// Gradient descent for an array of parameters: each [step](Self::step) subtracts the gradient times the learning rate.
///
/// With momentum `μ` a step has a velocity, `v ← μ v + g`, and subtracts that; with Nesterov's, `g + μ v`. Weight decay adds
/// `λ w` to the gradient ahead of that. All as PyTorch's `SGD` without dampening. (I. Sutskever, J. Martens, G. Dahl, G. Hinton,
/// "On the importance of initialization and momentum in deep learning", 2013.)
///
/// # Examples
///
/// ```
/// use warpsmith::ndarray::array;
/// use warpsmith::optim::Sgd;
/// use warpsmith::{Device, DeviceArray};
///
/// # fn main() -> warpsmith::Result<()> {
/// let device = Device::auto()?;
/// let stream = device.default_stream();
/// let mut weights = DeviceArray::from_ndarray(stream, &array![1.0f32, 2.0])?;
/// let gradient = DeviceArray::from_ndarray(stream, &array![4.0f32, -8.0])?;
/// let mut sgd = Sgd::new(&weights, 0.25)?.momentum(0.5)?;
/// sgd.step(&mut weights, &gradient)?;
/// assert_eq!(weights.to_ndarray()?, array![0.0, 4.0]);
/// sgd.step(&mut weights, &gradient)?; // the velocity is 1.5 gradients now
/// assert_eq!(weights.to_ndarray()?, array![-1.5, 7.0]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Sgd<T: Parameter> {
    learning_rate: DeviceArray<T::State, Ix0>,
    /// With momentum.
    velocity: Option<DeviceArray<T::State, IxDyn>>,
    momentum: f64,
    is_nesterov: bool,
    weight_decay: f64,
    shape: IxDyn,
}

/// What an [`Sgd`] keeps from step to step, on the host: [given](Sgd::state) and [taken](Sgd::set_state) by it, so that a
/// training goes on where another one has ended.
#[derive(Clone, Debug, PartialEq)]
pub struct SgdState<T: Parameter> {
    /// With momentum: the velocity, of the parameters' shape; PyTorch's `momentum_buffer`.
    pub velocity: Option<ArrayD<T::State>>,
}

impl<T: Parameter> Sgd<T> {
    /// One for these parameters, without momentum.
    ///
    /// # Errors
    ///
    /// [`Error::Parameter`] if the learning rate is negative or not finite; those of an allocation.
    pub fn new<D: Dimension>(parameters: &DeviceArrayRef<T, D>, learning_rate: f64) -> Result<Self> {
        check_not_negative("Sgd::new", "learning_rate", learning_rate)?;
        Ok(Self {
            learning_rate: number_on(parameters.stream(), learning_rate)?,
            velocity: None,
            momentum: 0.0,
            is_nesterov: false,
            weight_decay: 0.0,
            shape: IxDyn(parameters.shape()),
        })
    }

    /// With momentum: a velocity, as large as the parameters, which is 0 at first.
    ///
    /// # Errors
    ///
    /// [`Error::Parameter`] if it is not in [0, 1); those of an allocation.
    pub fn momentum(mut self, momentum: f64) -> Result<Self> {
        check_below_one("Sgd::momentum", "momentum", momentum)?;
        self.velocity = Some(DeviceArray::zeros(self.learning_rate.stream(), self.shape.clone())?);
        self.momentum = momentum;
        Ok(self)
    }

    /// With Nesterov's momentum.
    ///
    /// # Errors
    ///
    /// As [`momentum`](Self::momentum).
    pub fn nesterov(self, momentum: f64) -> Result<Self> {
        Ok(Self {
            is_nesterov: true,
            ..self.momentum(momentum)?
        })
    }

    /// With so much of the parameters added to their gradient.
    ///
    /// # Errors
    ///
    /// [`Error::Parameter`] if it is negative or not finite.
    pub fn weight_decay(mut self, weight_decay: f64) -> Result<Self> {
        check_not_negative("Sgd::weight_decay", "weight_decay", weight_decay)?;
        self.weight_decay = weight_decay;
        Ok(self)
    }

    /// Another learning rate, for the steps that are queued from now on; asynchronous.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new), and those of a launch.
    pub fn set_learning_rate(&mut self, learning_rate: f64) -> Result<()> {
        check_not_negative("Sgd::set_learning_rate", "learning_rate", learning_rate)?;
        number::<T>(learning_rate).eval_into(&mut self.learning_rate)
    }

    /// What this keeps from step to step. Waits for the steps that were queued. Rates and the other numbers that it was made with
    /// are no part of it.
    ///
    /// # Errors
    ///
    /// Those of [`to_ndarray`](DeviceArrayRef::to_ndarray).
    pub fn state(&self) -> Result<SgdState<T>> {
        let velocity = self.velocity.as_ref().map(|velocity| velocity.to_ndarray());
        Ok(SgdState {
            velocity: velocity.transpose()?,
        })
    }

    /// Goes on from that state: the next steps have the bits of those of the `Sgd` that has [given](Self::state) it, if this one
    /// has the same rate, momentum and so on. Also of the arguments of a [`Graph`](crate::Graph).
    ///
    /// # Errors
    ///
    /// [`Error::Parameter`] if of state and `Sgd` one alone has a velocity, [`Error::Shape`] if it has not the parameters' shape;
    /// nothing is changed then. Those of [`assign_ndarray`](DeviceArrayRef::assign_ndarray).
    pub fn set_state(&mut self, state: &SgdState<T>) -> Result<()> {
        match (&mut self.velocity, &state.velocity) {
            (None, None) => Ok(()),
            (Some(velocity), Some(given)) => {
                check_state_shape("Sgd::set_state", "velocity", given, velocity.shape())?;
                velocity.assign_ndarray(given)
            }
            (own, given) => {
                let text = |is_there: bool| if is_there { "one" } else { "none" };
                Err(Error::Parameter {
                    operation: "Sgd::set_state",
                    parameter: "velocity",
                    given: text(given.is_some()).into(),
                    wanted: format!("{}, as this one's momentum says", text(own.is_some())),
                })
            }
        }
    }

    /// One step of the parameters, in place, by one kernel on their stream. The gradient is an array or an expression of their
    /// shape.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`] if gradient or state are of another shape than the parameters,
    /// [`Error::DifferentDevices`], and those of [`expr::update`](crate::expr::update()).
    pub fn step<'a, D: Dimension>(
        &mut self,
        parameters: &mut DeviceArrayRef<T, D>,
        gradient: impl Operand<'a, T>,
    ) -> Result<()> {
        step_all([self.defer_step(parameters, gradient)?])
    }

    /// [`step`](Self::step) that is done later, by [`step_all`], together with those of other parameters.
    ///
    /// # Errors
    ///
    /// Those of [`step`](Self::step) that are known before anything is launched.
    pub fn defer_step<'a, 'g: 'a, D: Dimension>(
        &'a mut self,
        parameters: &'a mut DeviceArrayRef<T, D>,
        gradient: impl Operand<'g, T>,
    ) -> Result<Step<'a>> {
        let gradient = expr::of_shape::<T, T::State>("Sgd::step", gradient, parameters.shape())?;
        self.step_where(parameters, gradient, None)
    }

    /// [`step`](Self::step) by a gradient of a loss that was multiplied with a [`LossScale`], which has been
    /// [shown](LossScale::update) the gradient: it is divided by the factor, and where not all gradients were finite, parameters
    /// and velocity stay what they are.
    ///
    /// # Errors
    ///
    /// As [`step`](Self::step).
    pub fn step_scaled<'a, D: Dimension>(
        &mut self,
        parameters: &mut DeviceArrayRef<T, D>,
        gradient: impl Operand<'a, T>,
        scale: &'a LossScale,
    ) -> Result<()> {
        step_all([self.defer_step_scaled(parameters, gradient, scale)?])
    }

    /// [`step_scaled`](Self::step_scaled) that is done later, by [`step_all`], together with those of other parameters.
    ///
    /// # Errors
    ///
    /// Those of [`step_scaled`](Self::step_scaled) that are known before anything is launched.
    pub fn defer_step_scaled<'a, 'g: 'a, D: Dimension>(
        &'a mut self,
        parameters: &'a mut DeviceArrayRef<T, D>,
        gradient: impl Operand<'g, T>,
        scale: &'a LossScale,
    ) -> Result<Step<'a>> {
        let gradient = expr::of_shape::<T, T::State>("Sgd::step_scaled", gradient, parameters.shape())?;
        self.step_where(parameters, gradient * scale.inverse(), Some(scale.are_finite()))
    }

    /// A step if the condition holds.
    fn step_where<'a, D: Dimension>(
        &'a mut self,
        parameters: &'a mut DeviceArrayRef<T, D>,
        gradient: Expr<'a, T::State, IxDyn>,
        condition: Option<Expr<'a, bool, Ix0>>,
    ) -> Result<Step<'a>> {
        let (this, parameters) = (&*self, &*parameters);
        let rate = this.learning_rate.expr();
        let (momentum, decay) = (number::<T>(this.momentum), number::<T>(this.weight_decay));
        let old = expr::of_shape::<T, T>("Sgd::step", parameters, parameters.shape())?;
        let w = old.cast::<T::State>();
        let g = match this.weight_decay {
            0.0 => gradient,
            _ => gradient + &w * decay,
        };
        let elements = Deferred::on(parameters.stream());
        // SAFETY (of both): parameters and velocity are borrowed mutably as long as the step is, and read by its expressions alone.
        let elements = match &this.velocity {
            None => unsafe { elements.replace(parameters, select(&condition, (w - g * rate).cast(), old))? },
            Some(velocity) => {
                let old_velocity = velocity.expr();
                let v = &old_velocity * &momentum + &g;
                let direction = if this.is_nesterov { g + &v * momentum } else { v.clone() };
                unsafe {
                    elements
                        .replace(parameters, select(&condition, (w - direction * rate).cast(), old))?
                        .replace(velocity, select(&condition, v, old_velocity))?
                }
            }
        };
        Ok(Step { count: None, elements })
    }
}

// SAFETY: its own arrays.
unsafe impl<T: Parameter> GraphArrays for Sgd<T> {
    fn arrays(&self, held: &mut HeldArrays<'_>) {
        self.learning_rate.arrays(held);
        self.velocity.arrays(held);
    }
}
