// SPDX-License-Identifier: MIT OR Apache-2.0
//! Adam and AdamW.

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

/// Adam for an array of parameters: steps by a running mean of the gradient, over the root of one of its squares.
///
/// In step `t`, `m ← β₁ m + (1 − β₁) g` and `v ← β₂ v + (1 − β₂) g²`, which begin with 0; what that makes them too small is
/// corrected, and `w ← w − α · m / (1 − β₁ᵗ) / (√(v / (1 − β₂ᵗ)) + ε)`. `β₁` is 0.9, `β₂` 0.999 and `ε` 1e-8 unless said
/// otherwise; all as PyTorch's `Adam`. (D. P. Kingma, J. Ba, "Adam: a method for stochastic optimization", 2015.)
///
/// [`weight_decay`](Self::weight_decay) adds a part of the parameters to their gradient;
/// [`decoupled_weight_decay`](Self::decoupled_weight_decay), AdamW's, subtracts one from the parameters themselves.
///
/// `β₁ᵗ` and `β₂ᵗ` are on the device, in `f64`. The [module](super) has an example, and one of a training that is
/// [interrupted](super#interrupted-trainings).
#[derive(Debug)]
pub struct Adam<T: Parameter> {
    mean: DeviceArray<T::State, IxDyn>,
    square: DeviceArray<T::State, IxDyn>,
    progress: Progress<T>,
    betas: [f64; 2],
    epsilon: f64,
    decay: Decay,
}

/// What an [`Adam`] keeps from step to step, on the host: [given](Adam::state) and [taken](Adam::set_state) by it, so that a
/// training goes on where another one has ended.
#[derive(Clone, Debug, PartialEq)]
pub struct AdamState<T: Parameter> {
    /// The steps that were taken, `t`; PyTorch's `step`.
    pub steps: u64,
    /// The running mean of the gradient, `m`, of the parameters' shape; PyTorch's `exp_avg`.
    pub mean: ArrayD<T::State>,
    /// The running mean of its square, `v`; PyTorch's `exp_avg_sq`.
    pub square: ArrayD<T::State>,
}

/// Numbers that change with each step, which reads them.
#[derive(Debug)]
struct Progress<T: Parameter> {
    learning_rate: DeviceArray<f64, Ix0>,
    /// `t`, for the [`AdamState`].
    steps: DeviceArray<u64, Ix0>,
    /// `βᵗ`
    powers: [DeviceArray<f64, Ix0>; 2],
    /// `α / (1 − β₁ᵗ)`
    rate: DeviceArray<T::State, Ix0>,
    /// `1 / √(1 − β₂ᵗ)`
    root: DeviceArray<T::State, Ix0>,
    /// What is left of the parameters by a decoupled decay.
    rest: DeviceArray<T::State, Ix0>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Decay {
    None,
    Coupled(f64),
    Decoupled(f64),
}

impl<T: Parameter> Adam<T> {
    /// One for these parameters, with two arrays as large as they.
    ///
    /// # Errors
    ///
    /// [`Error::Parameter`] if the learning rate is negative or not finite; those of an allocation.
    pub fn new<D: Dimension>(parameters: &DeviceArrayRef<T, D>, learning_rate: f64) -> Result<Self> {
        check_not_negative("Adam::new", "learning_rate", learning_rate)?;
        let (stream, shape) = (parameters.stream(), IxDyn(parameters.shape()));
        Ok(Self {
            mean: DeviceArray::zeros(stream, shape.clone())?,
            square: DeviceArray::zeros(stream, shape)?,
            progress: Progress {
                learning_rate: number_on(stream, learning_rate)?,
                steps: expr::scalar(0u64).eval_on(stream)?,
                powers: [number_on(stream, 1.0)?, number_on(stream, 1.0)?],
                rate: number_on(stream, 0.0)?,
                root: number_on(stream, 0.0)?,
                rest: number_on(stream, 1.0)?,
            },
            betas: [0.9, 0.999],
            epsilon: 1e-8,
            decay: Decay::None,
        })
    }

    /// With other `β₁` and `β₂`.
    ///
    /// # Errors
    ///
    /// [`Error::Parameter`] if they are not in [0, 1).
    pub fn betas(mut self, first: f64, second: f64) -> Result<Self> {
        check_below_one("Adam::betas", "first", first)?;
        check_below_one("Adam::betas", "second", second)?;
        self.betas = [first, second];
        Ok(self)
    }

    /// With another `ε`.
    ///
    /// # Errors
    ///
    /// [`Error::Parameter`] if it is negative or not finite.
    pub fn epsilon(mut self, epsilon: f64) -> Result<Self> {
        check_not_negative("Adam::epsilon", "epsilon", epsilon)?;
        self.epsilon = epsilon;
        Ok(self)
    }

    /// With so much of the parameters added to their gradient, in place of another weight decay.
    ///
    /// # Errors
    ///
    /// [`Error::Parameter`] if it is negative or not finite.
    pub fn weight_decay(mut self, weight_decay: f64) -> Result<Self> {
        check_not_negative("Adam::weight_decay", "weight_decay", weight_decay)?;
        self.decay = Decay::Coupled(weight_decay);
        Ok(self)
    }

    /// AdamW: with so much of the parameters, times the learning rate, subtracted from them, in place of another weight decay.
    /// (I. Loshchilov, F. Hutter, "Decoupled weight decay regularization", 2019.)
    ///
    /// # Errors
    ///
    /// [`Error::Parameter`] if it is negative or not finite.
    pub fn decoupled_weight_decay(mut self, weight_decay: f64) -> Result<Self> {
        check_not_negative("Adam::decoupled_weight_decay", "weight_decay", weight_decay)?;
        self.decay = Decay::Decoupled(weight_decay);
        Ok(self)
    }

    /// Another learning rate, for the steps that are queued from now on; asynchronous.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new), and those of a launch.
    pub fn set_learning_rate(&mut self, learning_rate: f64) -> Result<()> {
        check_not_negative("Adam::set_learning_rate", "learning_rate", learning_rate)?;
        expr::scalar(learning_rate).eval_into(&mut self.progress.learning_rate)
    }

    /// What this keeps from step to step. Waits for the steps that were queued. Rates and the other numbers that it was made with
    /// are no part of it.
    ///
    /// # Errors
    ///
    /// Those of [`to_ndarray`](DeviceArrayRef::to_ndarray).
    pub fn state(&self) -> Result<AdamState<T>> {
        Ok(AdamState {
            steps: self.progress.steps.get(())?,
            mean: self.mean.to_ndarray()?,
            square: self.square.to_ndarray()?,
        })
    }

    /// Goes on from that state: the next steps have the bits of those of the `Adam` that has [given](Self::state) it, if this one
    /// has the same rate, `β` and so on. Also of the arguments of a [`Graph`](crate::Graph).
    ///
    /// # Errors
    ///
    /// [`Error::Shape`] if an array of it has not the parameters' shape; nothing is changed then. Those of
    /// [`assign_ndarray`](DeviceArrayRef::assign_ndarray) and of a launch.
    pub fn set_state(&mut self, state: &AdamState<T>) -> Result<()> {
        check_state_shape("Adam::set_state", "mean", &state.mean, self.mean.shape())?;
        check_state_shape("Adam::set_state", "square", &state.square, self.mean.shape())?;
        self.mean.assign_ndarray(&state.mean)?;
        self.square.assign_ndarray(&state.square)?;
        self.progress.set_steps(state.steps, self.betas)
    }

    /// One step of the parameters, in place, on their stream: a kernel of one thread for the count, and one for all else. The
    /// gradient is an array or an expression of their shape.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`] if gradient or state are of another shape than the parameters, [`Error::DifferentDevices`], and those of
    /// [`expr::update`](crate::expr::update()).
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
        let gradient = expr::of_shape::<T, T::State>("Adam::step", gradient, parameters.shape())?;
        self.step_where(parameters, gradient, None)
    }

    /// [`step`](Self::step) by a gradient of a loss that was multiplied with a [`LossScale`], which has been
    /// [shown](LossScale::update) the gradient: it is divided by the factor, and where not all gradients were finite, parameters, state
    /// and count stay what they are.
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
        let gradient = expr::of_shape::<T, T::State>("Adam::step_scaled", gradient, parameters.shape())?;
        self.step_where(parameters, gradient * scale.inverse(), Some(scale.are_finite()))
    }

    /// A step if the condition holds.
    fn step_where<'a, D: Dimension>(
        &'a mut self,
        parameters: &'a mut DeviceArrayRef<T, D>,
        gradient: Expr<'a, T::State, IxDyn>,
        condition: Option<Expr<'a, bool, Ix0>>,
    ) -> Result<Step<'a>> {
        self.check_state(parameters)?;
        let (this, parameters) = (&*self, &*parameters);
        let Progress { rate, root, rest, .. } = &this.progress;
        let [first, second] = this.betas;
        let old = expr::of_shape::<T, T>("Adam::step", parameters, parameters.shape())?;
        let (old_mean, old_square) = (this.mean.expr(), this.square.expr());
        let mut w = old.cast::<T::State>();
        let g = match this.decay {
            Decay::Coupled(decay) => gradient + &w * number::<T>(decay),
            _ => gradient,
        };
        let m = &old_mean * number::<T>(first) + &g * number::<T>(1.0 - first);
        let v = &old_square * number::<T>(second) + g.square() * number::<T>(1.0 - second);
        if let Decay::Decoupled(_) = this.decay {
            w = w * rest;
        }
        let step = &m * rate / (v.sqrt() * root + number::<T>(this.epsilon));
        // SAFETY (of both): parameters and state are borrowed mutably as long as the step is, and read by its expressions alone.
        let elements = unsafe {
            Deferred::on(parameters.stream())
                .replace(parameters, select(&condition, (w - step).cast(), old))?
                .replace(&this.mean, select(&condition, m, old_mean))?
                .replace(&this.square, select(&condition, v, old_square))?
        };
        Ok(Step {
            count: Some(unsafe { this.progress.step(this.betas, this.decay, &condition)? }),
            elements,
        })
    }

    /// What [`expr::update`] would find, ahead of the count.
    fn check_state<D: Dimension>(&self, parameters: &DeviceArrayRef<T, D>) -> Result<()> {
        let stream = self.mean.stream();
        stream.check_device("Adam::step", parameters.stream())?;
        if self.mean.shape() == parameters.shape() {
            return Ok(());
        }
        Err(Error::Shape {
            operation: "Adam::step",
            given: format!("parameters of shape {:?}", parameters.shape()),
            wanted: format!("those that it was made for, of shape {:?}", self.mean.shape()),
        })
    }
}

impl<T: Parameter> Progress<T> {
    /// One step further if the condition holds.
    ///
    /// # Safety
    ///
    /// The caller has borrowed this mutably for `'a`, and reads it by nothing but the expressions of the same step.
    unsafe fn step<'a>(
        &'a self,
        [first, second]: [f64; 2],
        decay: Decay,
        condition: &Option<Expr<'a, bool, Ix0>>,
    ) -> Result<Deferred<'a>> {
        let Self {
            learning_rate,
            steps,
            powers: [first_power, second_power],
            rate,
            root,
            rest,
        } = self;
        let one = || expr::scalar(1.0f64);
        let learning_rate = learning_rate.expr();
        let (a, b, old_steps) = (first_power.expr(), second_power.expr(), steps.expr());
        let (a, b) = (select(condition, &a * first, a), select(condition, &b * second, b));
        let new_rate = &learning_rate / (one() - &a);
        let new_root: Expr<'_, f64, Ix0> = (one() - &b).rsqrt();
        let decay = if let Decay::Decoupled(decay) = decay {
            decay
        } else {
            0.0
        };
        let new_rest = one() - learning_rate * decay;
        // SAFETY: the caller's promise.
        unsafe {
            Deferred::on(first_power.stream())
                .replace(first_power, a)?
                .replace(second_power, b)?
                .replace(rate, new_rate.cast::<T::State>())?
                .replace(root, new_root.cast::<T::State>())?
                .replace(rest, new_rest.cast::<T::State>())?
                .replace(steps, select(condition, &old_steps + 1u64, old_steps))
        }
    }

    /// As after so many steps: rates are computed by the next one.
    fn set_steps(&mut self, steps: u64, betas: [f64; 2]) -> Result<()> {
        expr::scalar(steps).eval_into(&mut self.steps)?;
        for (power, beta) in self.powers.iter_mut().zip(betas) {
            expr::scalar(power_by_steps(beta, steps)).eval_into(power)?;
        }
        Ok(())
    }
}

/// `βᵗ` with the bits that it has after as many steps, each of which multiplies once. It ends at 0, or at a number so small that
/// its product is rounded to itself.
fn power_by_steps(beta: f64, steps: u64) -> f64 {
    let mut power = 1.0;
    for _ in 0..steps {
        let next = power * beta;
        if next == power {
            break;
        }
        power = next;
    }
    power
}

// SAFETY: its own arrays.
unsafe impl<T: Parameter> GraphArrays for Adam<T> {
    fn arrays(&self, held: &mut HeldArrays<'_>) {
        let Progress {
            learning_rate,
            steps,
            powers,
            rate,
            root,
            rest,
        } = &self.progress;
        (&self.mean, &self.square, learning_rate, steps).arrays(held);
        (powers, rate, root, rest).arrays(held);
    }
}
