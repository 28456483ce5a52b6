// SPDX-License-Identifier: MIT OR Apache-2.0
//! Numbers brought to a mean and a deviation, along axes or of each channel: layer norm, RMS norm, batch norm.

use std::sync::Arc;

use kernels_gpu::compiled::Real;
use ndarray::{Axis, Dimension, Ix1};

use super::{Number, add, check_repeats, check_same_shape, constant, mean, mul, reduced, sub, sum_to, wide_type};
use crate::expr::Expr;
use crate::expr::graph::composite::Composite;
use crate::expr::graph::fold::Operator;
use crate::expr::graph::function::{Ternary, Unary};
use crate::expr::graph::parts::{Parts, Shape};
use crate::expr::graph::problem::Problem;
use crate::expr::graph::walk::insert_axis;
use crate::expr::graph::{Part, cast, check_axes, ternary, unary};
use crate::expr::operand::Operand;
use crate::expr::reductions::{count, with_axes};
use crate::expr::value::Value;

/// The gradients of a norm: by the elements, the weight and the bias.
type Gradients<'a, T, D, W, E> = (Expr<'a, T, D>, Expr<'a, W, E>, Expr<'a, W, E>);

/// Norms. Weights, biases and statistics may be arrays, expressions or single numbers, of any type that has one together with
/// `T`: of `f32` beside `bf16`, say. Everything is computed in `f32`, or in `f64` where one of them is, and rounded to `T` once.
impl<'a, T: Value + Real, D: Dimension> Expr<'a, T, D> {
    /// Layer norm along axes: `(x − mean) / √(variance + ε) · weight + bias`, where mean and variance are those of the elements
    /// along the axes, and the variance is that of all, `Σ (x − mean)² / n`. (J. L. Ba, J. R. Kiros, G. E. Hinton, "Layer
    /// normalization", 2016.)
    ///
    /// Weight and bias are repeated to the elements' shape as beside an operator: for the last axis they are one row, for others
    /// [`insert_axis`](Self::insert_axis) brings them there; `1.0` and `0.0` are none.
    ///
    /// Along the last axis this is one kernel, which reads rows of up to 32,768 `f32` once, and of up to 262,144 that are multiples of
    /// four where the GPU has clusters (Hopper and later). Of longer ones, what has no room in a block is read three times: on GPUs of
    /// data centres from Ampere on 65,536 have room.
    /// The error is that of a mean, of the variance of what it leaves, and of four roundings.
    ///
    /// # Errors
    ///
    /// Evaluating it is [`Error::Axes`](crate::Error::Axes) if there is no such axis or one is there twice, and
    /// [`Error::Shape`](crate::Error::Shape) if weight or bias cannot be repeated to the elements' shape.
    ///
    /// # Examples
    ///
    /// ```
    /// use warpsmith::ndarray::array;
    /// use warpsmith::{Device, DeviceArray};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let stream = device.default_stream();
    /// let x = DeviceArray::from_ndarray(stream, &array![[1.0f32, 3.0], [2.0, 6.0]])?;
    /// let weight = DeviceArray::from_ndarray(stream, &array![1.0f32, 10.0])?;
    /// let y = x.expr().layer_norm(&[1], &weight, 0.5, 0.0).eval()?;
    /// assert_eq!(y.to_ndarray()?, array![[-0.5, 10.5], [-0.5, 10.5]]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn layer_norm(
        &self,
        axes: &[usize],
        weight: impl Operand<'a, T>,
        bias: impl Operand<'a, T>,
        epsilon: f64,
    ) -> Self {
        let (weight, bias) = (weight.operand().0, bias.operand().0);
        let norm = |x: Number<'a>| Norm::Layer.forward(&x, axes, &weight?, Some(bias?), epsilon);
        Self::of(self.part.clone().and_then(norm))
    }

    /// The gradients of [`layer_norm`](Self::layer_norm) of these elements, by the elements, the weight and the bias, of a number
    /// of which `gradient` is the gradient by the result. Weight and bias are of one shape.
    ///
    /// Each is an expression: that by the elements is one kernel along the last axis, those by weight and bias are sums over what
    /// these were repeated to, by a kernel of their own, together if they are [evaluated together](super::super::eval()).
    ///
    /// # Errors
    ///
    /// As [`layer_norm`](Self::layer_norm); [`Error::Shape`](crate::Error::Shape) also if the gradient's shape is not that of the
    /// elements.
    ///
    /// # Examples
    ///
    /// ```
    /// use warpsmith::ndarray::array;
    /// use warpsmith::{Device, DeviceArray, expr};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let stream = device.default_stream();
    /// let x = DeviceArray::from_ndarray(stream, &array![[1.0f32, 3.0], [2.0, 6.0]])?;
    /// let weight = DeviceArray::from_ndarray(stream, &array![1.0f32, 10.0])?;
    /// let gradient = DeviceArray::from_ndarray(stream, &array![[1.0f32, 0.0], [0.0, 1.0]])?;
    /// let (dx, dweight, dbias) = x.expr().layer_norm_backward(&[1], &weight, 1e-5, &gradient);
    /// let dx = dx.eval()?;
    /// let (dweight, dbias) = expr::eval((&dweight, &dbias))?;
    /// // Of two numbers the norm is ±1, whatever they are.
    /// assert!(dx.to_ndarray()?.iter().all(|dx| dx.abs() < 1e-4));
    /// assert!((dweight.to_ndarray()? - array![-1.0, 1.0]).iter().all(|off| off.abs() < 1e-4));
    /// assert_eq!(dbias.to_ndarray()?, array![1.0, 1.0]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn layer_norm_backward<W: Operand<'a, T>>(
        &self,
        axes: &[usize],
        weight: W,
        epsilon: f64,
        gradient: impl Operand<'a, T>,
    ) -> Gradients<'a, T, D, W::Together, W::Dim> {
        let (weight, gradient) = (weight.operand().0, gradient.operand().0);
        let norm = |x: Number<'a>| Norm::Layer.backward(&x, axes, &weight?, epsilon, &gradient?);
        expressions(self.part.clone().and_then(norm))
    }

    /// Root mean square norm along axes: `x / √(Σ x² / n + ε) · weight`. (B. Zhang, R. Sennrich, "Root mean square layer
    /// normalization", 2019.) The rest is as for [`layer_norm`](Self::layer_norm); long rows are read twice.
    ///
    /// # Errors
    ///
    /// As [`layer_norm`](Self::layer_norm).
    ///
    /// # Examples
    ///
    /// ```
    /// use warpsmith::ndarray::array;
    /// use warpsmith::{Device, DeviceArray};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let x = DeviceArray::from_ndarray(device.default_stream(), &array![[1.0f32, 7.0], [-4.0, 4.0]])?;
    /// let y = x.expr().rms_norm(&[1], 1.0, 0.0).eval()?.to_ndarray()?;
    /// assert!((y - array![[0.2, 1.4], [-1.0, 1.0]]).iter().all(|off| off.abs() < 1e-6));
    /// # Ok(())
    /// # }
    /// ```
    pub fn rms_norm(&self, axes: &[usize], weight: impl Operand<'a, T>, epsilon: f64) -> Self {
        let weight = weight.operand().0;
        let norm = |x: Number<'a>| Norm::RootMeanSquare.forward(&x, axes, &weight?, None, epsilon);
        Self::of(self.part.clone().and_then(norm))
    }

    /// The gradients of [`rms_norm`](Self::rms_norm) of these elements, by the elements and the weight; see
    /// [`layer_norm_backward`](Self::layer_norm_backward).
    ///
    /// # Errors
    ///
    /// As [`layer_norm_backward`](Self::layer_norm_backward).
    pub fn rms_norm_backward<W: Operand<'a, T>>(
        &self,
        axes: &[usize],
        weight: W,
        epsilon: f64,
        gradient: impl Operand<'a, T>,
    ) -> (Self, Expr<'a, W::Together, W::Dim>) {
        let (weight, gradient) = (weight.operand().0, gradient.operand().0);
        let norm = |x: Number<'a>| Norm::RootMeanSquare.backward(&x, axes, &weight?, epsilon, &gradient?);
        let (dx, dweight, _) = expressions(self.part.clone().and_then(norm));
        (dx, dweight)
    }

    /// Batch norm: `(x − mean) / √(variance + ε) · weight + bias`, where each of these has one number for every channel, the
    /// parts along `channels`, or one for all. (S. Ioffe, C. Szegedy, "Batch normalization", 2015.)
    ///
    /// For training, mean and variance are those of the batch, along all other axes: expressions or arrays. For inference they
    /// are the running ones.
    ///
    /// # Errors
    ///
    /// Evaluating it is [`Error::Axes`](crate::Error::Axes) if there is no such axis, and [`Error::Shape`](crate::Error::Shape) if
    /// mean, variance, weight or bias have neither no axis nor one as long as there are channels.
    ///
    /// # Examples
    ///
    /// ```
    /// use warpsmith::ndarray::{Array4, Axis, array};
    /// use warpsmith::{Device, DeviceArray, expr};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let stream = device.default_stream();
    /// // A batch of pictures with two channels.
    /// let pictures = Array4::from_shape_fn((3, 2, 4, 5), |(n, c, y, x)| (n * 7 + c * 100 + y * x) as f32);
    /// let x = DeviceArray::from_ndarray(stream, &pictures)?;
    /// let (mean, variance) = (x.expr().mean_axes(&[0, 2, 3]), x.expr().variance_axes(&[0, 2, 3], 0));
    /// let (mean, variance) = expr::eval((&mean, &variance))?;
    /// let y = x.expr().batch_norm(Axis(1), &mean, &variance, 1.0, 0.0, 1e-5).eval()?;
    /// assert!(y.expr().mean_axes(&[0, 2, 3]).abs().max().eval()?.to_ndarray()?.into_scalar() < 1e-5);
    ///
    /// // For inference later.
    /// let mut running_mean = DeviceArray::<f32, _>::zeros(stream, 2)?.into_dyn();
    /// let mut running_variance = DeviceArray::<f32, _>::ones(stream, 2)?.into_dyn();
    /// expr::update((&mut running_mean, &mut running_variance), |(m, v)| {
    ///     (m * 0.9 + &mean * 0.1, v * 0.9 + &variance * 0.1)
    /// })?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn batch_norm(
        &self,
        channels: Axis,
        mean: impl Operand<'a, T>,
        variance: impl Operand<'a, T>,
        weight: impl Operand<'a, T>,
        bias: impl Operand<'a, T>,
        epsilon: f64,
    ) -> Self {
        let parts = [
            mean.operand().0,
            variance.operand().0,
            weight.operand().0,
            bias.operand().0,
        ];
        let norm = |x: Number<'a>| {
            let of_channels = OfChannels::new("batch_norm", &x, channels.0)?;
            let [mean, variance, weight, bias] = of_channels.parts(["mean", "variance", "weight", "bias"], parts)?;
            batch_norm(&x, [mean, variance, weight, bias], epsilon)
        };
        Self::of(self.part.clone().and_then(norm))
    }

    /// The gradients of [`batch_norm`](Self::batch_norm) of these elements for training, by the elements and by weight and bias
    /// of each channel, where mean and variance are those of the batch: these follow from the elements, too.
    ///
    /// # Errors
    ///
    /// As [`batch_norm`](Self::batch_norm); [`Error::Shape`](crate::Error::Shape) also if the gradient's shape is not that of the
    /// elements.
    pub fn batch_norm_backward<W: Operand<'a, T>>(
        &self,
        channels: Axis,
        mean: impl Operand<'a, T>,
        variance: impl Operand<'a, T>,
        weight: W,
        epsilon: f64,
        gradient: impl Operand<'a, T>,
    ) -> Gradients<'a, T, D, W::Together, Ix1> {
        let parts = [mean.operand().0, variance.operand().0, weight.operand().0];
        let gradient = gradient.operand().0;
        let norm = |x: Number<'a>| {
            let of_channels = OfChannels::new("batch_norm_backward", &x, channels.0)?;
            let [mean, variance, weight] = of_channels.parts(["mean", "variance", "weight"], parts)?;
            batch_norm_backward(&of_channels, [&mean, &variance, &weight], epsilon, &gradient?)
        };
        expressions(self.part.clone().and_then(norm))
    }
}

fn expressions<'a, T: Value, D, W: Value, E>(parts: Result<[Number<'a>; 3], Problem>) -> Gradients<'a, T, D, W, E> {
    match parts {
        Ok([dx, dweight, dbias]) => (
            Expr::of(cast(dx, T::TYPE)),
            Expr::of(cast(dweight, W::TYPE)),
            Expr::of(cast(dbias, W::TYPE)),
        ),
        Err(problem) => (
            Expr::of(Err(problem.clone())),
            Expr::of(Err(problem.clone())),
            Expr::of(Err(problem)),
        ),
    }
}

/// A norm along axes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Norm {
    Layer,
    RootMeanSquare,
}

impl Norm {
    fn name(self) -> &'static str {
        match self {
            Self::Layer => "layer_norm",
            Self::RootMeanSquare => "rms_norm",
        }
    }

    fn name_backward(self) -> &'static str {
        match self {
            Self::Layer => "layer_norm_backward",
            Self::RootMeanSquare => "rms_norm_backward",
        }
    }

    /// What the elements are times their weight, and what they are multiplied with on the way.
    fn standardize<'a>(self, x: &Number<'a>, axes: &[usize], epsilon: &Number<'a>) -> Result<[Number<'a>; 2], Problem> {
        let centred = match self {
            Self::Layer => sub(x, &mean(x, axes)?)?,
            Self::RootMeanSquare => Arc::clone(x),
        };
        let square = mean(&unary(Unary::Square, Arc::clone(&centred))?, axes)?;
        let scale = inverse_deviation(&square, epsilon)?;
        Ok([mul(&centred, &scale)?, scale])
    }

    fn forward<'a>(
        self,
        x: &Number<'a>,
        axes: &[usize],
        weight: &Number<'a>,
        bias: Option<Number<'a>>,
        epsilon: f64,
    ) -> Part<'a> {
        check_axes(self.name(), &x.shape, axes)?;
        check_repeats(self.name(), "a weight", weight, x)?;
        if let Some(bias) = &bias {
            check_repeats(self.name(), "a bias", bias, x)?;
        }
        let ty = wide_type(&[x, weight, bias.as_ref().unwrap_or(weight)]);
        let parts = [Arc::clone(x), Arc::clone(weight), constant(epsilon, ty)?];
        let composite = Composite {
            expand: match self {
                Self::Layer => |of| Self::Layer.forward_of(of),
                Self::RootMeanSquare => |of| Self::RootMeanSquare.forward_of(of),
            },
            parts: parts.into_iter().chain(bias).collect(),
            settings: axes.into(),
        };
        composite.result(self.name(), x.ty, x.shape.clone())
    }

    /// Of elements, weight, ε and, if there is one, bias.
    fn forward_of<'a>(self, of: &Composite<'a>) -> Result<Parts<'a>, Problem> {
        let [x, weight, epsilon] = [&of.parts[0], &of.parts[1], &of.parts[2]];
        let ty = epsilon.ty;
        let [standard, _] = self.standardize(&cast(Arc::clone(x), ty)?, &of.settings, epsilon)?;
        let weight = cast(Arc::clone(weight), ty)?;
        let y = match of.parts.get(3) {
            None => mul(&standard, &weight)?,
            Some(bias) => ternary(Ternary::MulAdd, [standard, weight, cast(Arc::clone(bias), ty)?])?,
        };
        Ok([cast(y, x.ty)?].into())
    }

    /// With `g = gradient · weight`, and `y` the elements' own norm: `(g − mean g − y mean (g y)) / √(variance + ε)` by the
    /// elements, where `mean g` is that of the layer norm alone; by the weight the sum of `gradient · y`.
    fn backward<'a>(
        self,
        x: &Number<'a>,
        axes: &[usize],
        weight: &Number<'a>,
        epsilon: f64,
        gradient: &Number<'a>,
    ) -> Result<[Number<'a>; 3], Problem> {
        check_axes(self.name_backward(), &x.shape, axes)?;
        check_repeats(self.name_backward(), "a weight", weight, x)?;
        check_same_shape(self.name_backward(), "a gradient", gradient, x)?;
        let ty = wide_type(&[x, weight, gradient]);
        let [x, weight, gradient] = [x, weight, gradient].map(Arc::clone);
        let (of_x, of_weight) = ((ty, x.shape.clone()), (ty, weight.shape.clone()));
        let composite = Composite {
            expand: match self {
                Self::Layer => |of| Self::Layer.backward_of(of),
                Self::RootMeanSquare => |of| Self::RootMeanSquare.backward_of(of),
            },
            parts: vec![x, weight, gradient, constant(epsilon, ty)?].into(),
            settings: axes.into(),
        };
        composite.results(self.name_backward(), [of_x, of_weight.clone(), of_weight])
    }

    /// Of elements, weight, gradient and ε.
    fn backward_of<'a>(self, of: &Composite<'a>) -> Result<Parts<'a>, Problem> {
        let ([x, weight, gradient, epsilon], axes) = (parts_of(of), &of.settings);
        let ty = epsilon.ty;
        let [gradient, wide_weight] = [cast(Arc::clone(gradient), ty)?, cast(Arc::clone(weight), ty)?];
        let [standard, scale] = self.standardize(&cast(Arc::clone(x), ty)?, axes, epsilon)?;
        let weighted = mul(&gradient, &wide_weight)?;
        let along = mean(&mul(&weighted, &standard)?, axes)?;
        let centred = match self {
            Self::Layer => sub(&weighted, &mean(&weighted, axes)?)?,
            Self::RootMeanSquare => weighted,
        };
        let dx = mul(&scale, &sub(&centred, &mul(&standard, &along)?)?)?;
        let dweight = sum_to(&mul(&gradient, &standard)?, &weight.shape)?;
        Ok([dx, dweight, sum_to(&gradient, &weight.shape)?].into())
    }
}

/// What an operation is of, of which there is so much.
fn parts_of<'c, 'a, const N: usize>(of: &'c Composite<'a>) -> [&'c Number<'a>; N] {
    std::array::from_fn(|part| &of.parts[part])
}

/// `1 / √(variance + ε)`
fn inverse_deviation<'a>(variance: &Number<'a>, epsilon: &Number<'a>) -> Part<'a> {
    unary(Unary::Rsqrt, add(variance, epsilon)?)
}

/// Elements of which each channel has numbers of its own.
struct OfChannels<'x, 'a> {
    operation: &'static str,
    x: &'x Number<'a>,
    channels: usize,
}

impl<'x, 'a> OfChannels<'x, 'a> {
    fn new(operation: &'static str, x: &'x Number<'a>, channels: usize) -> Result<Self, Problem> {
        check_axes(operation, &x.shape, &[channels])?;
        Ok(Self { operation, x, channels })
    }

    /// Numbers of channels, along the elements' axes.
    fn parts<const N: usize>(&self, names: [&str; N], parts: [Part<'a>; N]) -> Result<[Number<'a>; N], Problem> {
        let mut along = Vec::with_capacity(N);
        for (name, part) in names.into_iter().zip(parts) {
            let (part, count) = (part?, self.x.shape[self.channels]);
            along.push(match *part.shape {
                [] => part,
                [len] if len == count => self.along(&part),
                _ => {
                    return Err(Problem::Shape {
                        operation: self.operation,
                        given: format!("a {name} of shape {:?}", part.shape),
                        wanted: format!("one number, or {count}, one for each channel"),
                    });
                }
            });
        }
        Ok(along
            .try_into()
            .unwrap_or_else(|_| unreachable!("as many as there were")))
    }

    /// One number for each channel, along the elements' axes.
    fn along(&self, of_channels: &Number<'a>) -> Number<'a> {
        let behind = self.x.shape.len() - 1 - self.channels;
        (0..behind).fold(Arc::clone(of_channels), |part, at| insert_axis(&part, 1 + at))
    }
}

fn batch_norm<'a>(x: &Number<'a>, parts: [Number<'a>; 4], epsilon: f64) -> Part<'a> {
    let [mean, variance, weight, bias] = &parts;
    let epsilon = constant(epsilon, wide_type(&[x, mean, variance, weight, bias]))?;
    let composite = Composite {
        expand: batch_norm_of,
        parts: [Arc::clone(x), epsilon].into_iter().chain(parts).collect(),
        settings: Shape::NONE,
    };
    composite.result("batch_norm", x.ty, x.shape.clone())
}

fn batch_norm_of<'a>(of: &Composite<'a>) -> Result<Parts<'a>, Problem> {
    let [x, epsilon, mean, variance, weight, bias] = parts_of(of);
    let wide = |part: &Number<'a>| cast(Arc::clone(part), epsilon.ty);
    let scale = inverse_deviation(&wide(variance)?, epsilon)?;
    let standard = mul(&sub(&wide(x)?, &wide(mean)?)?, &scale)?;
    let y = ternary(Ternary::MulAdd, [standard, wide(weight)?, wide(bias)?])?;
    Ok([cast(y, x.ty)?].into())
}

/// With `y` the elements' own norm, of `n` elements of a channel: by weight and bias `w = Σ gradient · y` and
/// `b = Σ gradient`, by the elements `(gradient − b / n − y w / n) weight / √(variance + ε)`.
fn batch_norm_backward<'a>(
    of_channels: &OfChannels<'_, 'a>,
    [mean, variance, weight]: [&Number<'a>; 3],
    epsilon: f64,
    gradient: &Number<'a>,
) -> Result<[Number<'a>; 3], Problem> {
    let x = of_channels.x;
    check_same_shape(of_channels.operation, "a gradient", gradient, x)?;
    let parts = [x, mean, variance, weight, gradient];
    let ty = wide_type(&parts);
    let composite = Composite {
        expand: batch_norm_backward_of,
        parts: parts.into_iter().cloned().chain([constant(epsilon, ty)?]).collect(),
        settings: [of_channels.channels][..].into(),
    };
    let of_channels: Shape = [x.shape[of_channels.channels]][..].into();
    let results = [(ty, x.shape.clone()), (ty, of_channels.clone()), (ty, of_channels)];
    composite.results("batch_norm_backward", results)
}

fn batch_norm_backward_of<'a>(of: &Composite<'a>) -> Result<Parts<'a>, Problem> {
    let [x, mean, variance, weight, gradient, epsilon] = parts_of(of);
    let wide = |part: &Number<'a>| cast(Arc::clone(part), epsilon.ty);
    let scale = inverse_deviation(&wide(variance)?, epsilon)?;
    let standard = mul(&sub(&wide(x)?, &wide(mean)?)?, &scale)?;
    let gradient = wide(gradient)?;
    let others: Vec<usize> = (0..x.shape.len()).filter(|&axis| axis != of.settings[0]).collect();
    let dweight = reduced(Operator::Sum, &mul(&gradient, &standard)?, &others)?;
    let dbias = reduced(Operator::Sum, &gradient, &others)?;
    let share = constant(1.0 / count(x, &others).max(1) as f64, epsilon.ty)?;
    let mean_of = |sum: &Number<'a>| mul(&with_axes(sum, &others), &share);
    let centred = sub(&gradient, &mean_of(&dbias)?)?;
    let rest = sub(&centred, &mul(&standard, &mean_of(&dweight)?)?)?;
    let dx = mul(&rest, &mul(&scale, &wide(weight)?)?)?;
    Ok([dx, dweight, dbias].into())
}
