// SPDX-License-Identifier: MIT OR Apache-2.0
//! Convolution of one to three axes with several channels, and its gradients.

mod ampere;
mod depthwise;
mod forward;
mod gathered;
mod geometry;
mod gradients;
mod hopper;
mod padding;
mod plans;

use std::fmt;

use half::{bf16, f16};
use kernels_gpu::compiled::{AmpereConvolve, Convolve as Compiled, Number};
use kernels_gpu::convolve::parts::{AT_ONCE, MOST_LOG_SHARES, THREADS as ADD_THREADS};
use kernels_gpu::num::Num;
use ndarray::{Axis, Dimension, Ix3, Ix5};

use self::forward::Task;
use self::geometry::{Problem, Settings, with_three_axes};
use self::gradients::Phase;
use self::padding::Fold;
use super::matmul::MatMul;
use super::per_axis::PerAxis;
use super::transpose::Ordered;
use crate::array::{DeviceArray, Element};
use crate::array_ref::DeviceArrayRef;
use crate::error::{Error, Result};
use crate::launch::LaunchConfig;

pub use padding::PaddingMode;

/// What errors call it.
const OPERATION: &str = "convolve";

/// The element types of [`convolve`](DeviceArrayRef::convolve): `f32`, `f64`, `f16` and `bf16`.
pub trait Convolve: Element + Compiled + Number + MatMul<Scalar = <Self as Num>::Wide> + sealed::Sealed {
    /// Computes by the tiles of ordinary cores, if there are such for the type.
    #[doc(hidden)]
    fn by_tiles(_task: &mut Task<'_, Self>) -> Result<bool> {
        Ok(false)
    }

    /// Computes by the kernel of depthwise convolutions that has what taps read in shared memory, if there is one for such operands.
    #[doc(hidden)]
    fn depthwise_by_patches(_task: &mut Task<'_, Self>) -> Result<bool> {
        Ok(false)
    }

    /// Computes by the kernel of few channels or outputs for the device's tensor cores, if there is one for such operands.
    #[doc(hidden)]
    fn by_patches(_task: &mut Task<'_, Self>) -> Result<bool> {
        Ok(false)
    }

    /// Computes by the kernel for the device's tensor cores, if there is one for such operands.
    #[doc(hidden)]
    fn by_tensor_cores(_task: &mut Task<'_, Self>) -> Result<bool> {
        Ok(false)
    }

    /// The gradient of the input by the kernel for the device's tensor cores, if there is one for such operands: of weights in C order, and a
    /// gradient of the output, none of which is empty.
    #[doc(hidden)]
    fn input_by_tensor_cores(
        _problem: &Problem,
        _phases: &[Vec<Phase>; 3],
        _weights: &DeviceArrayRef<Self, Ix5>,
        _out: &DeviceArrayRef<Self, Ix5>,
    ) -> Result<Option<DeviceArray<Self, Ix5>>> {
        Ok(None)
    }

    /// The gradient of the weights by the kernel for the device's tensor cores, if there is one for such operands: of an input and a
    /// gradient of the output, in C order, as groups, outputs, and taps with their channels.
    #[doc(hidden)]
    fn weights_by_tensor_cores(
        _problem: &Problem,
        _x: &DeviceArrayRef<Self, Ix5>,
        _out: &DeviceArrayRef<Self, Ix5>,
    ) -> Result<Option<DeviceArray<Self, Ix3>>> {
        Ok(None)
    }

    /// The gradient of an input of that of the padded one. Those of 16 bits are added in `f32`.
    #[doc(hidden)]
    fn folded(padded: DeviceArray<Self, Ix5>, fold: &Fold) -> Result<DeviceArray<Self, Ix5>>;

    /// Sums, rounded; of parts, if they are such, added along the first axis.
    #[doc(hidden)]
    fn of_sums(sums: DeviceArray<Self::Scalar, Ix3>, are_parts: bool) -> Result<DeviceArray<Self, Ix3>>;
}

mod sealed {
    pub trait Sealed {}

    impl Sealed for f32 {}
    impl Sealed for f64 {}
    impl Sealed for super::f16 {}
    impl Sealed for super::bf16 {}
}

macro_rules! by_tiles {
    ($($type:ty),*) => {$(
        impl Convolve for $type {
            fn by_tiles(task: &mut Task<'_, $type>) -> Result<bool> {
                task.by_tiles().map(|()| true)
            }

            fn folded(padded: DeviceArray<$type, Ix5>, fold: &Fold) -> Result<DeviceArray<$type, Ix5>> {
                fold.run(padded)
            }

            fn of_sums(sums: DeviceArray<$type, Ix3>, are_parts: bool) -> Result<DeviceArray<$type, Ix3>> {
                match are_parts {
                    true => added(&sums),
                    false => Ok(sums),
                }
            }
        }
    )*};
}

by_tiles!(f32, f64);

macro_rules! by_products {
    ($($type:ty),*) => {$(
        impl Convolve for $type {
            fn depthwise_by_patches(task: &mut Task<'_, $type>) -> Result<bool> {
                ampere::pictures::compute(task)
            }

            fn by_patches(task: &mut Task<'_, $type>) -> Result<bool> {
                Ok(hopper::patches::compute(task)? || ampere::compute(task)?)
            }

            fn by_tensor_cores(task: &mut Task<'_, $type>) -> Result<bool> {
                hopper::compute(task)
            }

            fn input_by_tensor_cores(
                problem: &Problem,
                phases: &[Vec<Phase>; 3],
                weights: &DeviceArrayRef<$type, Ix5>,
                out: &DeviceArrayRef<$type, Ix5>,
            ) -> Result<Option<DeviceArray<$type, Ix5>>> {
                hopper::input_gradient(problem, phases, weights, out)
            }

            fn weights_by_tensor_cores(
                problem: &Problem,
                x: &DeviceArrayRef<$type, Ix5>,
                out: &DeviceArrayRef<$type, Ix5>,
            ) -> Result<Option<DeviceArray<$type, Ix3>>> {
                if depthwise::is_depthwise(problem) {
                    return ampere::depthwise::weight_gradient(problem, x, out);
                }
                match ampere::weight_gradient(problem, x, out)? {
                    Some(gradient) => Ok(Some(gradient)),
                    None => hopper::weight_gradient(problem, x, out),
                }
            }

            fn folded(padded: DeviceArray<$type, Ix5>, fold: &Fold) -> Result<DeviceArray<$type, Ix5>> {
                fold.run(padded.cast::<f32>()?)?.cast()
            }

            fn of_sums(sums: DeviceArray<f32, Ix3>, are_parts: bool) -> Result<DeviceArray<$type, Ix3>> {
                match are_parts {
                    true => added_and_rounded(&sums),
                    false => sums.cast(),
                }
            }
        }
    )*};
}

by_products!(f16, bf16);

/// Sums of parts, added along the first axis, which stays.
fn added<T: Number<Total = T>>(sums: &DeviceArray<T, Ix3>) -> Result<DeviceArray<T, Ix3>> {
    let (_, outputs, depth) = sums.raw_dim().into_pattern();
    sums.sum_axis(Axis(0))?.into_shape((1, outputs, depth))
}

/// Such sums of 16-bit types, which are rounded by the kernel that adds them.
fn added_and_rounded<T: Convolve + AmpereConvolve>(sums: &DeviceArray<f32, Ix3>) -> Result<DeviceArray<T, Ix3>> {
    let (parts, outputs, depth) = sums.raw_dim().into_pattern();
    let mut out = DeviceArray::uninit(sums.stream(), Ix3(1, outputs, depth))?;
    // So many shares that each has what is loaded at once.
    let log_shares = Ord::min((parts / AT_ONCE).max(1).ilog2(), MOST_LOG_SHARES);
    let width = ADD_THREADS >> log_shares;
    let blocks = (outputs * depth).div_ceil(width).clamp(1, i32::MAX as usize);
    let config = LaunchConfig::new(blocks as u32, ADD_THREADS as u32);
    sums.stream()
        .launch::<T::AddParts>(&config, (sums, &mut out, parts as u32, log_shares))?;
    Ok(out)
}

/// A convolution, by [`convolve`](DeviceArrayRef::convolve). Nothing is computed before [`compute`](Self::compute),
/// [`input_gradient`](Self::input_gradient) or [`weight_gradient`](Self::weight_gradient) is called.
#[must_use = "nothing is computed before `compute` or one of the gradients"]
pub struct Convolution<'a, T, D> {
    x: &'a DeviceArrayRef<T, D>,
    weights: &'a DeviceArrayRef<T, D>,
    settings: Settings,
}

impl<T: Element, D: Dimension> fmt::Debug for Convolution<'_, T, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Convolution")
            .field("x", &self.x.shape())
            .field("weights", &self.weights.shape())
            .field("settings", &self.settings)
            .finish()
    }
}

/// Convolutions, as networks have them.
impl<T: Convolve, D: Dimension> DeviceArrayRef<T, D> {
    /// The convolution of this input with `weights`, along one, two or three axes:
    ///
    /// `out[n, o, k] = Σ_t Σ_c x[n, o · stride + t · dilation − padding, c] · weights[k, t, c]`
    ///
    /// where `o` is a place of the output, and `t` a tap, a place of the weights. As in PyTorch and other libraries for networks, the
    /// weights are not reversed: mathematics calls it cross-correlation.
    ///
    /// The input has the shape (images, places, channels), the weights (outputs, taps, channels), and the result (images, places,
    /// outputs), with as many axes of places and of taps as the convolution has: of pictures, (images, rows, columns, channels). An
    /// axis of `n` places and `t` taps gives
    ///
    /// `(n + 2 padding − dilation (t − 1) − 1) / stride + 1`
    ///
    /// places, rounded down. With [`groups`](Convolution::groups), each group of channels has outputs of its own, and weights have
    /// the channels of a group.
    ///
    /// Operands lie as they like. What has its channels in front, as in PyTorch, (images, channels, rows, columns), is given as a view by
    /// [`permuted_axes`](crate::DeviceView::permuted_axes)`([0, 2, 3, 1])`, and the result seen so by `([0, 3, 1, 2])`. Channels that lie
    /// side by side are read fastest; weights are copied where they lie otherwise than in C order.
    ///
    /// # Precision
    ///
    /// `f32` and `f64` are multiplied and added in their own type, by fused multiply-add; `f16` and `bf16` are summed in `f32` and rounded
    /// once. A sum has one product for each tap and channel. Those with the zeros of the padding count too, or do not: they
    /// make no difference but where weights are infinite or NaN.
    ///
    /// # Cost
    ///
    /// Two operations for each output, tap and channel of its group. Who computes them:
    ///
    /// * Groups of one channel and fewer than 8 outputs, as depthwise convolutions have: a kernel by which each thread computes 8 places
    ///   along the last axis, and loads what neighbouring taps share once. Of `f16` and `bf16` on Ampere and later, along two axes with 3, 5
    ///   or 7 taps along the last one, equal strides of 1 or 2 and no dilation, where channels lie side by side and are a multiple of 8, what
    ///   a tile of places reads is in shared memory.
    /// * `f16`, `bf16` on Hopper, without stride, with several taps, one group, 16 channels or more and more than 8 outputs, both multiples
    ///   of 8, where channels lie side by side, are two thirds of the next multiple of 64 at most, and shared memory has room for the
    ///   weights of a block's outputs beside what two tiles of places read: a kernel that reads each element once for all taps, and
    ///   multiplies it on tensor cores.
    /// * `f16`, `bf16` on Ampere and later, with groups of up to 32 channels or up to 8 outputs: a kernel that has what a tile of places reads in
    ///   shared memory, and multiplies it on tensor cores. Channels in front are not copied for it.
    /// * Other groups of fewer than 8 outputs: a kernel by which each thread computes an output.
    /// * One tap without stride or padding: a product of matrices, as [`matmul`](DeviceArrayRef::matmul).
    /// * `f32`, `f64`: a kernel that makes the matrix of what all taps read (im2col) in shared memory, tile by tile.
    /// * `f16`, `bf16` on Hopper, with strides up to 8, one group, channels and outputs that are multiples of 8, and more than 32 channels and 8 outputs:
    ///   a kernel that multiplies boxes of the input, as they lie, on tensor cores. An input whose channels do not lie side by side is
    ///   copied first.
    /// * `f16`, `bf16` elsewhere: that matrix is made in memory, of at most 128 MiB at a time, and multiplied by the tensor cores.
    ///
    /// # Examples
    ///
    /// ```
    /// # use ndarray::{Array4, array};
    /// # use warpsmith::{Device, DeviceArray};
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let stream = device.default_stream();
    /// let picture = Array4::from_shape_fn((1, 4, 4, 1), |(_, row, column, _)| (4 * row + column) as f32);
    /// let picture = DeviceArray::from_ndarray(stream, &picture)?;
    /// // Two outputs: the step from left to right, and from above to below.
    /// let weights = array![[[[-1.0f32], [1.0]], [[0.0], [0.0]]], [[[-1.0], [0.0]], [[1.0], [0.0]]]];
    /// let weights = DeviceArray::from_ndarray(stream, &weights)?;
    /// let steps = picture.convolve(&weights).stride(2).compute()?;
    /// assert_eq!(steps.shape(), [1, 2, 2, 2]);
    /// assert_eq!(steps.get([0, 1, 1, 0])?, 1.0);
    /// assert_eq!(steps.get([0, 1, 1, 1])?, 4.0);
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias("conv1d", "conv2d", "conv3d"))]
    pub fn convolve<'a>(&'a self, weights: &'a DeviceArrayRef<T, D>) -> Convolution<'a, T, D> {
        Convolution {
            x: self,
            weights,
            settings: Settings {
                stride: 1.into(),
                padding: 0.into(),
                dilation: 1.into(),
                groups: 1,
                mode: PaddingMode::Zeros,
            },
        }
    }
}

impl<T: Convolve, D: Dimension> Convolution<'_, T, D> {
    /// Places of the input from one of the output to the next; 1 unless this says otherwise. A number for all axes, or one for
    /// each.
    pub fn stride(mut self, stride: impl Into<PerAxis>) -> Self {
        self.settings.stride = stride.into();
        self
    }

    /// So many places more on both sides of the input; 0 unless this says otherwise. What they are says
    /// [`padding_mode`](Self::padding_mode).
    pub fn padding(mut self, padding: impl Into<PerAxis>) -> Self {
        self.settings.padding = padding.into();
        self
    }

    /// What the places of the padding are: [`PaddingMode::Zeros`], unless this says otherwise. For other modes the input is copied,
    /// with its padding.
    pub fn padding_mode(mut self, mode: PaddingMode) -> Self {
        self.settings.mode = mode;
        self
    }

    /// Places of the input from one tap to the next; 1 unless this says otherwise.
    pub fn dilation(mut self, dilation: impl Into<PerAxis>) -> Self {
        self.settings.dilation = dilation.into();
        self
    }

    /// Into how many groups channels and outputs are divided: outputs of a group see its channels alone. With as many groups as
    /// channels it is a depthwise convolution.
    pub fn groups(mut self, groups: usize) -> Self {
        self.settings.groups = groups;
        self
    }

    /// The result as a new array, on the stream of the input.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`] if the shapes do not fit, or the weights reach further than the input and its padding;
    /// [`Error::Parameter`] for a stride or dilation of 0, numbers for another number of axes, or more padding than its mode has
    /// places; [`Error::DifferentDevices`], and those of an allocation and a launch.
    pub fn compute(&self) -> Result<DeviceArray<T, D>> {
        let (problem, stream) = (self.problem()?, self.x.stream());
        let mut out = DeviceArray::uninit(stream, self.out_dim(&problem))?;
        if out.is_empty() {
            return Ok(out);
        }
        let (x, problem) = self.input(&problem)?;
        let weights = self.weights.in_order()?;
        let task = Task {
            problem: &problem,
            x: &x,
            weights: &weights.in_shape(problem.weights_dim()),
            stream,
            out: &mut out.in_shape_mut(problem.out_dim()),
        };
        task.run()?;
        Ok(out)
    }

    /// The gradient of the input, of the gradient `out` of the result: `Σ out · ∂result/∂x`, in the input's shape. The values of the
    /// input do not matter.
    ///
    /// It is a convolution of `out` with the weights reversed and their channels and outputs exchanged; with a stride, one for each
    /// remainder by it, of the taps that have it, so that none is multiplied with zeros in between. Where the input is cut into pieces, by
    /// strides as long as the taps reach, it is a product of matrices. With a [padding mode](Self::padding_mode) that copies the input, it
    /// is computed of the padded input, and what belongs to copies of a place is added to it: of `f16` and `bf16` in `f32`, so that each
    /// place of the padded input is rounded, and their sum.
    ///
    /// # Errors
    ///
    /// As [`compute`](Self::compute), and [`Error::Shape`] unless `out` has the shape of the result.
    ///
    /// # Examples
    ///
    /// ```
    /// # use ndarray::{Array3, array};
    /// # use warpsmith::{Device, DeviceArray};
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let stream = device.default_stream();
    /// let x = DeviceArray::from_ndarray(stream, &array![[[1.0f32], [2.0], [3.0], [4.0]]])?;
    /// let weights = DeviceArray::from_ndarray(stream, &array![[[10.0f32], [20.0]]])?;
    /// let layer = x.convolve(&weights);
    /// assert_eq!(layer.compute()?.to_ndarray()?, array![[[50.0], [80.0], [110.0]]]);
    /// let out = DeviceArray::from_ndarray(stream, &Array3::ones((1, 3, 1)))?;
    /// assert_eq!(layer.input_gradient(&out)?.to_ndarray()?, array![[[10.0], [30.0], [30.0], [20.0]]]);
    /// assert_eq!(layer.weight_gradient(&out)?.to_ndarray()?, array![[[6.0], [9.0]]]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn input_gradient(&self, out: &DeviceArrayRef<T, D>) -> Result<DeviceArray<T, D>> {
        let problem = self.problem_with(out)?;
        let gradient = gradients::of_input(self, &problem, out)?;
        gradient.into_shape(self.x.raw_dim())
    }

    /// The gradient of the weights, of the gradient `out` of the result: `Σ out · ∂result/∂weights`, in the weights' shape.
    ///
    /// It is a product of matrices for each group, of `out` and what the taps read (im2col), over all places. For `f16` and `bf16` on
    /// Hopper, and of few channels or outputs on Ampere and later, where [`convolve`](DeviceArrayRef::convolve) has a kernel for the tensor
    /// cores, that matrix is in no memory: parts of the
    /// places have sums of their own, in `f32`, which are added in an order that is the same on every run, and differs between devices. An
    /// infinite element of the input may be NaN there in the gradients of all taps of its channel. Elsewhere it is made in memory, of at
    /// most 128 MiB at a time, or of one row of places. Sums of `f16` and `bf16` are in `f32` throughout. Those of `f32` and `f64` are made in
    /// parts where that keeps the device busy, so that their last bits may differ between devices.
    ///
    /// Where groups have one channel and fewer than 8 outputs, it is a kernel that makes sums of parts of the places, which are added in
    /// the end: in `f32` for `f16` and `bf16`, in an order that is the same on every run, and differs between devices. Of `f16` and `bf16` with
    /// one output of each group, whose channels lie side by side and are a multiple of 16 or 24, or 8 of them, it is on tensor cores of Ampere and
    /// later, where an infinite element of the input may be NaN as above.
    ///
    /// # Errors
    ///
    /// As [`compute`](Self::compute), and [`Error::Shape`] unless `out` has the shape of the result.
    pub fn weight_gradient(&self, out: &DeviceArrayRef<T, D>) -> Result<DeviceArray<T, D>> {
        let problem = self.problem_with(out)?;
        let gradient = gradients::of_weights(self, &problem, out)?;
        gradient.into_shape(self.weights.raw_dim())
    }

    /// The convolution, if operands and settings fit.
    fn problem(&self) -> Result<Problem> {
        self.x.stream().check_device(OPERATION, self.weights.stream())?;
        Problem::new(self.x.shape(), self.weights.shape(), &self.settings)
    }

    /// The same, if `out` is as its result.
    fn problem_with(&self, out: &DeviceArrayRef<T, D>) -> Result<Problem> {
        let problem = self.problem()?;
        self.x.stream().check_device(OPERATION, out.stream())?;
        let wanted = self.out_dim(&problem);
        if out.raw_dim() != wanted {
            return Err(Error::Shape {
                operation: OPERATION,
                given: format!("a gradient of shape {:?}", out.shape()),
                wanted: format!("that of the result, {:?}", wanted.slice()),
            });
        }
        Ok(problem)
    }

    /// The shape of the result.
    fn out_dim(&self, problem: &Problem) -> D {
        let mut dim = self.x.raw_dim();
        let axes = dim.ndim() - 2;
        for axis in 0..axes {
            dim[axis + 1] = problem.output[3 - axes + axis];
        }
        dim[axes + 1] = problem.groups * problem.outputs;
        dim
    }

    /// The input, with its padding where that is not of zeros, and the convolution of it.
    fn input(&self, problem: &Problem) -> Result<(Ordered<'_, T, Ix5>, Problem)> {
        let x = match self.x.forwards::<Ix5>(None)? {
            Ordered::AsIs(_) => Ordered::AsIs(with_three_axes(self.x)),
            Ordered::Copied(copy) => Ordered::Copied(copy.into_shape(problem.x_dim())?),
        };
        if self.settings.mode == PaddingMode::Zeros {
            return Ok((x, *problem));
        }
        let missing = problem.all_missing();
        let padded = padding::pad(&x, missing, self.settings.mode)?;
        Ok((Ordered::Copied(padded), problem.padded(missing)))
    }
}
