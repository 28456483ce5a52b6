// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gradients that are kept short.

use ndarray::{Axis, Ix0, IxDyn};

use super::{LossScale, Parameter, check_not_negative, number, of_each};
use crate::array::DeviceArray;
use crate::error::{Error, Result};
use crate::expr::{self, Expr};
use crate::view::DeviceViewMut;

/// Scales gradients so that their norm, the root of the sum of all squares, is at most `most`, and gives the norm that they had.
/// Shorter ones stay what they are.
///
/// The factor is `most / norm`, or 1 if that is more. Nothing waits: the norm is on the device, where `first` and each of the
/// others are read twice and written once. A NaN among the gradients makes all of them NaN. PyTorch's `clip_grad_norm_`, but
/// for its 1e-6 beside the norm.
///
/// # Errors
///
/// [`Error::Parameter`] if there is no gradient, or `most` is negative or not finite; [`Error::DifferentDevices`]; those of an
/// allocation and a launch.
///
/// # Examples
///
/// ```
/// use warpsmith::ndarray::array;
/// use warpsmith::{Device, DeviceArray, optim};
///
/// # fn main() -> warpsmith::Result<()> {
/// let device = Device::auto()?;
/// let stream = device.default_stream();
/// let mut weights = DeviceArray::from_ndarray(stream, &array![[2.0f32, 4.0], [4.0, 8.0]])?;
/// let mut bias = DeviceArray::from_ndarray(stream, &array![0.0f32, 0.0])?;
/// let norm = optim::clip_norm(&mut [weights.view_mut().into_dyn(), bias.view_mut().into_dyn()], 5.0)?;
/// assert_eq!(norm.to_ndarray()?.into_scalar(), 10.0);
/// assert_eq!(weights.to_ndarray()?, array![[1.0, 2.0], [2.0, 4.0]]);
/// # Ok(())
/// # }
/// ```
#[doc(alias = "clip_grad_norm_")]
pub fn clip_norm<T: Parameter>(
    gradients: &mut [DeviceViewMut<'_, T, IxDyn>],
    most: f64,
) -> Result<DeviceArray<T::State, Ix0>> {
    clip(gradients, most, None)
}

impl LossScale {
    /// [`clip_norm`] of gradients of a scaled loss, after they were shown to [`update`](Self::update): so that their norm without the
    /// factor is at most `most`, and gives that norm. They keep the factor, which [`step_scaled`](super::Adam::step_scaled) divides by.
    /// Gradients that are not finite, with which no step is taken, become NaN or 0.
    ///
    /// # Errors
    ///
    /// As [`clip_norm`].
    ///
    /// # Examples
    ///
    /// ```
    /// use warpsmith::ndarray::array;
    /// use warpsmith::{Device, DeviceArray, f16, optim::LossScale};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let stream = device.default_stream();
    /// let mut scale = LossScale::new(stream, 1024.0)?;
    /// // Of a loss times 1024: without it they are 3 and 4.
    /// let scaled = array![3072.0, 4096.0].mapv(f16::from_f64);
    /// let mut gradient = DeviceArray::from_ndarray(stream, &scaled)?;
    /// scale.update(&[gradient.view().into_dyn()])?;
    /// let norm = scale.clip_norm(&mut [gradient.view_mut().into_dyn()], 2.5)?;
    /// assert_eq!(norm.to_ndarray()?.into_scalar(), 5.0);
    /// assert_eq!(gradient.to_ndarray()?, array![1536.0, 2048.0].mapv(f16::from_f64));
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "clip_grad_norm_")]
    pub fn clip_norm<T: Parameter>(
        &self,
        gradients: &mut [DeviceViewMut<'_, T, IxDyn>],
        most: f64,
    ) -> Result<DeviceArray<T::State, Ix0>> {
        clip(gradients, most, Some(self.inverse()))
    }
}

/// [`clip_norm`] by the norm of the gradients times `inverse`.
fn clip<T: Parameter>(
    gradients: &mut [DeviceViewMut<'_, T, IxDyn>],
    most: f64,
    inverse: Option<Expr<'_, T::State, Ix0>>,
) -> Result<DeviceArray<T::State, Ix0>> {
    check_not_negative("clip_norm", "most", most)?;
    let Some(first) = gradients.first() else {
        return Err(Error::Parameter {
            operation: "clip_norm",
            parameter: "gradients",
            given: "none".into(),
            wanted: "one at least".into(),
        });
    };
    let stream = first.stream().clone();
    let squares = gradients
        .iter()
        .map(|gradient| gradient.expr().cast::<T::State>().square().sum());
    let squares = of_each(&stream, squares)?;
    let squares: Vec<_> = squares.axis_iter(Axis(0))?.collect();
    let total = squares
        .iter()
        .map(|sum| sum.expr())
        .reduce(|a, b| a + b)
        .expect("one at least");
    let norm = match inverse {
        Some(inverse) => (total.sqrt() * inverse).eval()?,
        None => total.sqrt().eval()?,
    };
    let scaled = gradients.iter_mut().map(|gradient| {
        // Not the smaller of the quotient and 1: that of 0 by 0 is neither.
        let is_short = norm.expr().less_equal(number::<T>(most));
        let factor = is_short.select(number::<T>(1.0), number::<T>(most) / &norm);
        expr::defer_update(gradient, |gradient| (gradient.cast::<T::State>() * factor).cast())
    });
    expr::run_all(scaled.collect::<Result<Vec<_>>>()?)?;
    Ok(norm)
}
