// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pooling: the largest element, or the mean, of windows, and the gradients of both.

use std::fmt;
use std::marker::PhantomData;

use cuda_std::launch::SafeKernel;
use kernels_gpu::compiled::{Pool, PoolParams};
use kernels_gpu::op::{Max, Mean};
use kernels_gpu::pool::{MOST, Side, THREADS, WindowAxis, Windows, vec_len};
use ndarray::{Axis, Dimension, Ix1};

use super::per_axis::PerAxis;
use super::tiles;
use crate::array::{DeviceArray, Element};
use crate::array_ref::DeviceArrayRef;
use crate::error::{Error, Result};
use crate::launch::{Words, WordsMut};
use crate::view::{DeviceView, DeviceViewMut};

/// A pooling, by [`max_pool`](DeviceArrayRef::max_pool) or [`average_pool`](DeviceArrayRef::average_pool); `P` is
/// [`Max`] or [`Mean`]. Nothing is computed before `compute` or `gradient` is called.
#[must_use = "nothing is computed before `compute` or `gradient`"]
pub struct Pooling<'a, T, D, P> {
    x: &'a DeviceArrayRef<T, D>,
    size: PerAxis,
    stride: Option<PerAxis>,
    padding: PerAxis,
    counts_padding: bool,
    _operator: PhantomData<P>,
}

impl<T: Element, D: Dimension, P> fmt::Debug for Pooling<'_, T, D, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pooling")
            .field("x", &self.x.shape())
            .field("size", &self.size)
            .field("stride", &self.stride)
            .field("padding", &self.padding)
            .finish_non_exhaustive()
    }
}

/// Pooling, as networks have it.
impl<T: Element + Pool, D: Dimension> DeviceArrayRef<T, D> {
    /// The largest element of each window of `size` places, along one, two or three axes.
    ///
    /// The input has the shape (images, places, channels), with one to three axes of places: of pictures, (images, rows, columns,
    /// channels). Windows are of one channel; `size` is a number for all axes, or
    /// one for each. A window begins [`stride`](Pooling::stride) places behind the one before, `size` unless said otherwise, and
    /// the first [`padding`](Pooling::padding) places ahead of the input. So an axis of `n` places gives
    ///
    /// `(n + 2 padding − size) / stride + 1`
    ///
    /// rounded down: places at the end that fill no window are in none.
    ///
    /// A window with a NaN has NaN; +0 is above −0. Places of the padding have no element and do not count.
    ///
    /// Channels lie side by side in memory. Inputs that lie otherwise are copied first, so those with their channels in front, as in
    /// PyTorch, are given by [`permuted_axes`](crate::DeviceView::permuted_axes)`([0, 2, 3, 1])`, and cost a copy.
    ///
    /// # Cost
    ///
    /// One kernel, which moves input and output once where windows do not overlap; what they share comes from the cache. It
    /// is at the speed of memory where the channels of a place have a multiple of 16 bytes; other elements are loaded one by one.
    ///
    /// # Examples
    ///
    /// ```
    /// # use ndarray::array;
    /// # use warpsmith::{Device, DeviceArray};
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// // One line of six places, with one channel.
    /// let x = DeviceArray::from_ndarray(device.default_stream(), &array![[[1.0f32], [5.0], [2.0], [2.0], [4.0], [3.0]]])?;
    /// let pool = x.max_pool(2);
    /// assert_eq!(pool.compute()?.to_ndarray()?, array![[[5.0], [2.0], [4.0]]]);
    /// // The gradient goes to the largest; of equal ones to the first.
    /// let gradient = DeviceArray::from_ndarray(device.default_stream(), &array![[[10.0f32], [20.0], [30.0]]])?;
    /// assert_eq!(pool.gradient(&gradient)?.to_ndarray()?, array![[[0.0], [10.0], [20.0], [0.0], [30.0], [0.0]]]);
    ///
    /// let overlapping = x.max_pool(3).stride(2).padding(1).compute()?;
    /// assert_eq!(overlapping.to_ndarray()?, array![[[5.0], [5.0], [4.0]]]);
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "max_pool2d")]
    pub fn max_pool(&self, size: impl Into<PerAxis>) -> Pooling<'_, T, D, Max> {
        Pooling::new(self, size.into())
    }

    /// The mean of each window of `size` places, along one, two or three axes. Shapes, windows and cost are those of
    /// [`max_pool`](DeviceArrayRef::max_pool).
    ///
    /// It is the sum over the number of elements in the window. At the edges of an input with padding there are fewer than places;
    /// [`counting_padding`](Pooling::counting_padding) divides by the number of places throughout.
    ///
    /// The mean of a whole picture is a reduction, [`mean_axes`](DeviceArrayRef::mean_axes).
    ///
    /// # Precision
    ///
    /// Elements are added one after another, those of 16 bits in `f32`, divided and rounded once: of a window of `n` elements the
    /// error is at most `n u` of the mean of their absolute values.
    ///
    /// # Examples
    ///
    /// ```
    /// # use ndarray::array;
    /// # use warpsmith::{Device, DeviceArray};
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let x = DeviceArray::from_ndarray(device.default_stream(), &array![[[1.0f32], [5.0], [2.0], [4.0]]])?;
    /// let pool = x.average_pool(2).padding(1);
    /// assert_eq!(pool.compute()?.to_ndarray()?, array![[[1.0], [3.5], [4.0]]]);
    /// let gradient = DeviceArray::from_ndarray(device.default_stream(), &array![[[10.0f32], [20.0], [30.0]]])?;
    /// assert_eq!(pool.gradient(&gradient)?.to_ndarray()?, array![[[10.0], [10.0], [10.0], [30.0]]]);
    ///
    /// let pytorch = x.average_pool(2).padding(1).counting_padding().compute()?;
    /// assert_eq!(pytorch.to_ndarray()?, array![[[0.5], [3.5], [2.0]]]);
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "avg_pool2d")]
    pub fn average_pool(&self, size: impl Into<PerAxis>) -> Pooling<'_, T, D, Mean> {
        Pooling::new(self, size.into())
    }
}

impl<'a, T: Element + Pool, D: Dimension, P> Pooling<'a, T, D, P> {
    fn new(x: &'a DeviceArrayRef<T, D>, size: PerAxis) -> Self {
        Self {
            x,
            size,
            stride: None,
            padding: 0.into(),
            counts_padding: false,
            _operator: PhantomData,
        }
    }

    /// Places from one window to the next: a number for all axes, or one for each. Their size, unless this says otherwise.
    pub fn stride(mut self, stride: impl Into<PerAxis>) -> Self {
        self.stride = Some(stride.into());
        self
    }

    /// So many places without an element on both sides of the input, fewer than a window has: a number for all axes, or one for each.
    /// None, unless this says otherwise.
    pub fn padding(mut self, padding: impl Into<PerAxis>) -> Self {
        self.padding = padding.into();
        self
    }

    /// The windows, if they fit the input, and the shape of the output.
    fn windows(&self, operation: &'static str) -> Result<([WindowAxis; 3], D)> {
        let shape = self.x.shape();
        let axes = shape.len().saturating_sub(2);
        let refuse = |wanted: String| Error::Shape {
            operation,
            given: format!("an input of shape {shape:?}"),
            wanted,
        };
        if !(1..=3).contains(&axes) {
            return Err(refuse("(images, 1 to 3 axes of places, channels)".into()));
        }
        let size = self.size.of(operation, "size", axes, [1, 1])?;
        let stride = self.stride.as_ref().unwrap_or(&self.size);
        let stride = stride.of(operation, "stride", axes, [1, 1])?;
        let padding = self.padding.of(operation, "padding", axes, [0, 0])?;
        let mut windows = [WindowAxis::none(); 3];
        let mut dim = self.x.raw_dim();
        for axis in 1..=axes {
            let at = 2 + axis - axes;
            let (len, size, padding) = (shape[axis], size[at], padding[at]);
            windows[at] = WindowAxis::new(len, size, stride[at], padding).ok_or_else(|| {
                refuse(format!(
                    "along axis {axis} from 1 to {} places, with the padding of {padding} on both sides no fewer than the {size} of \
                     a window, and less padding than that",
                    PerAxis::MOST
                ))
            })?;
            dim[axis] = windows[at].output();
        }
        Ok((windows, dim))
    }

    /// An error unless the gradient is as the output.
    fn check_gradient(&self, operation: &'static str, gradient: &DeviceArrayRef<T, D>, wanted: &D) -> Result<()> {
        self.x.stream().check_device(operation, gradient.stream())?;
        if gradient.raw_dim() == *wanted {
            return Ok(());
        }
        Err(Error::Shape {
            operation,
            given: format!("a gradient of shape {:?}", gradient.shape()),
            wanted: format!("that of the result, {:?}", wanted.slice()),
        })
    }

    /// Launches by `launch` what treats some images: the windows, the number of the first image, and how many there are.
    fn for_images(
        &self,
        operation: &'static str,
        axes: [WindowAxis; 3],
        side: Side,
        addresses: &[u64],
        mut launch: impl FnMut(Windows, usize, usize) -> Result<()>,
    ) -> Result<()> {
        let (images, channels) = (self.x.shape()[0], self.x.shape()[self.x.ndim() - 1]);
        let is_aligned = addresses.iter().all(|address| address % 16 == 0);
        let vector = match vec_len::<T>() {
            vector if is_aligned && channels.is_multiple_of(vector) => vector,
            _ => 1,
        };
        let windows = |images| {
            let windows = Windows::new(images, axes, channels, side, vector);
            let counting = |windows: Windows| {
                if self.counts_padding {
                    windows.counting_padding()
                } else {
                    windows
                }
            };
            windows.map(counting)
        };
        let one = windows(1).ok_or_else(|| Error::Shape {
            operation,
            given: format!("an input of shape {:?}", self.x.shape()),
            wanted: format!("images of no more than {MOST} vectors of 16 bytes, or elements where these are none"),
        })?;
        let most = MOST / one.vectors();
        for first in (0..images).step_by(most) {
            let count = most.min(images - first);
            let windows = windows(count).expect("as many as have room");
            launch(windows, first, count)?;
        }
        Ok(())
    }

    /// Launches a kernel from the input to the output.
    fn forward<K: SafeKernel<Params = PoolParams<T>>>(&self, operation: &'static str) -> Result<DeviceArray<T, D>> {
        let (axes, dim) = self.windows(operation)?;
        let mut out = DeviceArray::uninit(self.x.stream(), dim)?;
        if !out.is_empty() {
            let x = self.x.in_order()?;
            let addresses = [x.address(), out.address()];
            self.for_images(operation, axes, Side::Output, &addresses, |windows, first, count| {
                let x = images(&x, first, count)?;
                let mut out = images_mut(&mut out, first, count)?;
                let args = (Words::of(&x), windows, WordsMut::of(&mut out));
                self.x
                    .stream()
                    .launch::<K>(&tiles(windows.threads(), THREADS, THREADS), args)
            })?;
        }
        Ok(out)
    }
}

/// Some images of an array in C order.
fn images<T: Element, D: Dimension>(
    x: &DeviceArrayRef<T, D>,
    first: usize,
    count: usize,
) -> Result<DeviceView<'_, T, D>> {
    x.slice_axis(Axis(0), (first..first + count).into())
}

fn images_mut<T: Element, D: Dimension>(
    x: &mut DeviceArrayRef<T, D>,
    first: usize,
    count: usize,
) -> Result<DeviceViewMut<'_, T, D>> {
    x.slice_axis_mut(Axis(0), (first..first + count).into())
}

impl<T: Element + Pool, D: Dimension> Pooling<'_, T, D, Max> {
    /// The largest element of each window, as a new array on the stream of the input.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`] if the input has not one to three axes of places, or a window is longer than they are with their padding;
    /// [`Error::Parameter`] for a size or a stride of 0, or numbers for another number of axes; those of an allocation and a
    /// launch.
    pub fn compute(&self) -> Result<DeviceArray<T, D>> {
        self.forward::<T::Max>("max_pool")
    }

    /// The gradient of the input, of a number of which `gradient` is the gradient by the result: that of a window goes to its largest
    /// element, of equal ones to the first in C order, and of NaN to the first. Elements that are the largest of several windows have
    /// the sum.
    ///
    /// The largest are found anew, so that the forward pass need not keep places: input and gradient are read. Where windows overlap, one
    /// launch writes for each where its largest is, four bytes, and a second one has each element look at its windows. Sums of
    /// 16-bit floats are made in `f32` and rounded once; there are no atomics, and the bits are the same on every run.
    ///
    /// # Errors
    ///
    /// As [`compute`](Self::compute), [`Error::Shape`] if the gradient is not of the shape of the result, and
    /// [`Error::DifferentDevices`].
    pub fn gradient(&self, gradient: &DeviceArrayRef<T, D>) -> Result<DeviceArray<T, D>> {
        const OPERATION: &str = "max_pool gradient";
        let (axes, dim) = self.windows(OPERATION)?;
        self.check_gradient(OPERATION, gradient, &dim)?;
        let mut out = DeviceArray::uninit(self.x.stream(), self.x.raw_dim())?;
        if !out.is_empty() {
            let (x, gradient) = (self.x.in_order()?, gradient.in_order()?);
            let addresses = [x.address(), gradient.address(), out.address()];
            let stream = self.x.stream();
            let config = |windows: &Windows| tiles(windows.threads(), THREADS, THREADS);
            self.for_images(OPERATION, axes, Side::Output, &addresses, |windows, first, count| {
                let (x, gradient) = (images(&x, first, count)?, images(&gradient, first, count)?);
                let mut out = images_mut(&mut out, first, count)?;
                let (x, gradient, out) = (Words::of(&x), Words::of(&gradient), WordsMut::of(&mut out));
                let Some(by_elements) = windows.by_elements() else {
                    return stream.launch::<T::MaxGradient>(&config(&windows), (x, gradient, windows, out));
                };
                let mut places = DeviceArray::<u32, _>::uninit(stream, Ix1(windows.outputs()))?;
                stream.launch::<T::MaxPlaces>(&config(&windows), (x, windows, &mut places))?;
                let args = (gradient, &places, by_elements, out);
                stream.launch::<T::MaxGradientAt>(&config(&by_elements), args)
            })?;
        }
        Ok(out)
    }
}

impl<T: Element + Pool, D: Dimension> Pooling<'_, T, D, Mean> {
    /// Divides by the number of places of a window, those of the padding too, as PyTorch's `avg_pool2d` does unless it is told
    /// `count_include_pad=False`.
    pub fn counting_padding(mut self) -> Self {
        self.counts_padding = true;
        self
    }

    /// The mean of each window, as a new array on the stream of the input.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`] if the input has not one to three axes of places, or a window is longer than they are with their padding;
    /// [`Error::Parameter`] for a size or a stride of 0, or numbers for another number of axes; those of an allocation and a
    /// launch.
    pub fn compute(&self) -> Result<DeviceArray<T, D>> {
        self.forward::<T::Average>("average_pool")
    }

    /// The gradient of the input, of a number of which `gradient` is the gradient by the result: each element has that of each of its
    /// windows over the number that the mean divides by. Sums of 16-bit floats are made in `f32` and rounded once.
    ///
    /// # Errors
    ///
    /// As [`compute`](Self::compute), [`Error::Shape`] if the gradient is not of the shape of the result, and
    /// [`Error::DifferentDevices`].
    pub fn gradient(&self, gradient: &DeviceArrayRef<T, D>) -> Result<DeviceArray<T, D>> {
        const OPERATION: &str = "average_pool gradient";
        let (axes, dim) = self.windows(OPERATION)?;
        self.check_gradient(OPERATION, gradient, &dim)?;
        let mut out = DeviceArray::uninit(self.x.stream(), self.x.raw_dim())?;
        if !out.is_empty() {
            let gradient = gradient.in_order()?;
            let addresses = [gradient.address(), out.address()];
            let side = Windows::side_of_gradient(&axes);
            self.for_images(OPERATION, axes, side, &addresses, |windows, first, count| {
                let gradient = images(&gradient, first, count)?;
                let mut out = images_mut(&mut out, first, count)?;
                let args = (Words::of(&gradient), windows, WordsMut::of(&mut out));
                let config = tiles(windows.threads(), THREADS, THREADS);
                self.x.stream().launch::<T::AverageGradient>(&config, args)
            })?;
        }
        Ok(out)
    }
}
