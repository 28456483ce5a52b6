// SPDX-License-Identifier: MIT OR Apache-2.0
//! Arrays that are made on the device.

use kernels_gpu::compiled::{Number, Range, Real};
use kernels_gpu::create::{self, THREADS, tile_len};
use ndarray::{Array, Dimension, IntoDimension, Ix1, Ix2};

use super::tiles;
use crate::array::{DeviceArray, Element};
use crate::array_ref::DeviceArrayRef;
use crate::error::{Error, Result};
use crate::expr::{self, Value};
use crate::stream::Stream;

/// Arrays of one value, or of what a function of the host gives. Nothing waits but for the host's function.
impl<T: Element, D: Dimension> DeviceArray<T, D> {
    /// An array of that shape with one value: NumPy's `full`. Every element is written once.
    ///
    /// # Errors
    ///
    /// Those of an allocation and a launch.
    ///
    /// # Examples
    ///
    /// ```
    /// use ndarray::array;
    /// use warpsmith::{Device, DeviceArray};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let x = DeviceArray::from_elem(device.default_stream(), (2, 3), 1.5)?;
    /// assert_eq!(x.to_ndarray()?, array![[1.5, 1.5, 1.5], [1.5, 1.5, 1.5]]);
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "full")]
    pub fn from_elem(stream: &Stream, shape: impl IntoDimension<Dim = D>, value: T) -> Result<Self> {
        let mut result = Self::uninit(stream, shape.into_dimension())?;
        result.fill(value)?;
        Ok(result)
    }

    /// An array of that shape with what `function` gives for each index: ndarray's `from_shape_fn`, NumPy's
    /// `fromfunction`.
    ///
    /// The function runs on the host, in C order, and its results are uploaded. For functions that run on the device
    /// there is [`elementwise!`](kernels_gpu::elementwise!), of a [`range`](Self::range) for instance.
    ///
    /// # Errors
    ///
    /// Those of [`from_ndarray`](Self::from_ndarray).
    ///
    /// # Examples
    ///
    /// ```
    /// use ndarray::array;
    /// use warpsmith::{Device, DeviceArray};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let x = DeviceArray::from_shape_fn(device.default_stream(), (2, 3), |(i, j)| 10 * i as u32 + j as u32)?;
    /// assert_eq!(x.to_ndarray()?, array![[0, 1, 2], [10, 11, 12]]);
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "fromfunction")]
    pub fn from_shape_fn(
        stream: &Stream,
        shape: impl IntoDimension<Dim = D>,
        function: impl FnMut(D::Pattern) -> T,
    ) -> Result<Self> {
        let mut result = Self::uninit(stream, shape.into_dimension())?;
        let elements = Array::from_shape_fn(result.raw_dim(), function);
        result.assign_ndarray(&elements)?;
        Ok(result)
    }

    /// An array of zero bytes with this one's shape, type and stream.
    ///
    /// # Errors
    ///
    /// Those of an allocation.
    pub fn zeros_like(&self) -> Result<Self> {
        Self::zeros(self.stream(), self.raw_dim())
    }

    /// An array of one value with this one's shape, type and stream.
    ///
    /// # Errors
    ///
    /// Those of an allocation and a launch.
    pub fn full_like(&self, value: T) -> Result<Self> {
        Self::from_elem(self.stream(), self.raw_dim(), value)
    }
}

/// Arrays of ones.
impl<T: Number, D: Dimension> DeviceArray<T, D> {
    /// An array of that shape whose elements are all 1.
    ///
    /// # Errors
    ///
    /// Those of an allocation and a launch.
    ///
    /// # Examples
    ///
    /// ```
    /// use ndarray::array;
    /// use warpsmith::{Device, DeviceArray};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let x = DeviceArray::<f32, _>::ones(device.default_stream(), 3)?;
    /// assert_eq!(x.zeros_like()?.to_ndarray()?, array![0.0, 0.0, 0.0]);
    /// assert_eq!(x.to_ndarray()?, array![1.0, 1.0, 1.0]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn ones(stream: &Stream, shape: impl IntoDimension<Dim = D>) -> Result<Self> {
        Self::from_elem(stream, shape, T::ONE)
    }

    /// An array of ones with this one's shape, type and stream.
    ///
    /// # Errors
    ///
    /// Those of an allocation and a launch.
    pub fn ones_like(&self) -> Result<Self> {
        self.full_like(T::ONE)
    }
}

/// Numbers with equal steps. Every element is written once, and computed from its index: errors do not add up.
impl<T: Number> DeviceArray<T, Ix1> {
    /// The numbers `start + i · step` that lie before `end`: ndarray's `range`, NumPy's `arange`.
    ///
    /// There are `(end − start) / step` of them, rounded up, none if that is negative. Of floats this quotient is
    /// rounded, so that `end` may be among them: [`linspace`](Self::linspace) says how many. A float is computed by a
    /// fused multiply-add of f64, and rounded once more if it is a narrower one.
    ///
    /// # Errors
    ///
    /// [`Error::Parameter`] if the step is 0, or one of the three is not finite, or there are 2^63 elements or more;
    /// those of an allocation and a launch.
    ///
    /// # Examples
    ///
    /// ```
    /// use ndarray::array;
    /// use warpsmith::{Device, DeviceArray};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let stream = device.default_stream();
    /// assert_eq!(DeviceArray::range(stream, 0, 10, 3)?.to_ndarray()?, array![0, 3, 6, 9]);
    /// assert_eq!(DeviceArray::range(stream, 1.0f32, 0.0, -0.25)?.to_ndarray()?, array![1.0, 0.75, 0.5, 0.25]);
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "arange")]
    pub fn range(stream: &Stream, start: T, end: T, step: T) -> Result<Self> {
        let len = T::steps(start, end, step).ok_or_else(|| Error::Parameter {
            operation: "range",
            parameter: "start, end and step",
            given: format!("{start}, {end} and {step}"),
            wanted: "finite numbers, a step that is not 0, and fewer than 2^63 elements".into(),
        })?;
        let (start, step) = (start.exactly(), step.exactly());
        let last = T::at(start, step, len.saturating_sub(1));
        range(stream, len, start, step, last)
    }
}

/// Numbers of an interval.
impl<T: Real> DeviceArray<T, Ix1> {
    /// `len` numbers from `start` to `end`, both included, with equal steps: `start + i · (end − start) / (len − 1)`,
    /// computed in f64. The last one is `end` itself; one alone is `start`.
    ///
    /// # Errors
    ///
    /// Those of an allocation and a launch.
    ///
    /// # Examples
    ///
    /// ```
    /// use ndarray::array;
    /// use warpsmith::{Device, DeviceArray};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let x = DeviceArray::linspace(device.default_stream(), 0.0f32, 1.0, 5)?;
    /// assert_eq!(x.to_ndarray()?, array![0.0, 0.25, 0.5, 0.75, 1.0]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn linspace(stream: &Stream, start: T, end: T, len: usize) -> Result<Self> {
        let last = if len == 1 { start } else { end };
        let (start, end) = (start.exactly(), end.exactly());
        let steps = len.saturating_sub(1).max(1);
        range(stream, len, start, (end - start) / steps as f64, last)
    }
}

/// Numbers with equal quotients. Each is computed from its index in f64, by one kernel, and rounded to the type: errors do not add up.
impl<T: Real + Value<Element = T> + Element> DeviceArray<T, Ix1> {
    /// `len` powers of `base`, whose exponents go from `start` to `end`, both included, with equal steps: ndarray's and NumPy's
    /// `logspace`. One alone is `base^start`. If `base` is negative, so are all, `−|base|^x`, as ndarray's; NumPy's are `base^x`,
    /// which are of either sign where the exponent is an integer, and NaN elsewhere.
    ///
    /// # Errors
    ///
    /// Those of an allocation and a launch.
    ///
    /// # Examples
    ///
    /// ```
    /// use ndarray::array;
    /// use warpsmith::{Device, DeviceArray};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let x = DeviceArray::logspace(device.default_stream(), 10.0f32, -1.0, 2.0, 4)?;
    /// assert_eq!(x.to_ndarray()?, array![0.1, 1.0, 10.0, 100.0]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn logspace(stream: &Stream, base: T, start: T, end: T, len: usize) -> Result<Self> {
        let (base, start, end) = (base.exactly(), start.exactly(), end.exactly());
        let steps = len.saturating_sub(1).max(1) as u64;
        // One alone takes no step.
        let distance = if len > 1 { (end - start) / steps as f64 } else { 0.0 };
        let step = expr::index(len, 0);
        let between = step.cast::<f64>().mul_add(distance, start);
        let exponents = step.not_equal(steps).select(between, end);
        let magnitude = expr::scalar(base.abs()).pow(exponents);
        (magnitude * base.signum()).cast::<T>().eval_on(stream)
    }

    /// `len` numbers from `start` to `end`, both included, with equal quotients: ndarray's and NumPy's `geomspace`,
    /// `start^(1 − t) · end^t` with equal steps of `t`. Both ends are exact; one alone is `start`. If both are negative, so are all.
    ///
    /// # Errors
    ///
    /// [`Error::Parameter`] unless both ends are finite, not 0, and of the same sign; those of an allocation and a launch.
    ///
    /// # Examples
    ///
    /// ```
    /// use ndarray::array;
    /// use warpsmith::{Device, DeviceArray};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let x = DeviceArray::geomspace(device.default_stream(), 1.0f32, 1000.0, 4)?;
    /// assert_eq!(x.to_ndarray()?, array![1.0, 10.0, 100.0, 1000.0]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn geomspace(stream: &Stream, start: T, end: T, len: usize) -> Result<Self> {
        let (first, last) = (start.exactly(), end.exactly());
        let is_fit = |x: f64| x.is_finite() && x != 0.0;
        if !is_fit(first) || !is_fit(last) || first.signum() != last.signum() {
            return Err(Error::Parameter {
                operation: "geomspace",
                parameter: "start and end",
                given: format!("{start} and {end}"),
                wanted: "finite numbers of the same sign, and not 0".into(),
            });
        }
        let steps = len.saturating_sub(1).max(1) as u64;
        let step = expr::index(len, 0);
        let t = step.cast::<f64>() / steps as f64;
        let magnitude = expr::scalar(first.abs()).pow(1.0 - &t) * expr::scalar(last.abs()).pow(&t);
        let between = (magnitude * first.signum()).cast::<T>();
        let up_to_end = step.not_equal(steps).select(between, end);
        step.not_equal(0).select(up_to_end, start).eval_on(stream)
    }
}

/// `start + i · step` for `i` below `len`, but for the last.
fn range<T: Number>(
    stream: &Stream,
    len: usize,
    start: <T as create::Range>::Exact,
    step: <T as create::Range>::Exact,
    last: T,
) -> Result<DeviceArray<T, Ix1>> {
    let mut result = DeviceArray::uninit(stream, Ix1(len))?;
    if len > 0 {
        let config = tiles(len, tile_len::<T>(), THREADS);
        stream.launch::<<T as Range>::Kernel>(&config, (start, step, last, &mut result))?;
    }
    Ok(result)
}

/// Matrices with ones on the diagonal.
impl<T: Number> DeviceArray<T, Ix2> {
    /// The unit matrix of `n` rows: zeros, with ones on the diagonal.
    ///
    /// # Errors
    ///
    /// Those of an allocation and a launch.
    ///
    /// # Examples
    ///
    /// ```
    /// use ndarray::array;
    /// use warpsmith::{Device, DeviceArray};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let x = DeviceArray::<f64, _>::eye(device.default_stream(), 2)?;
    /// assert_eq!(x.to_ndarray()?, array![[1.0, 0.0], [0.0, 1.0]]);
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "identity")]
    pub fn eye(stream: &Stream, n: usize) -> Result<Self> {
        let mut result = Self::zeros(stream, (n, n))?;
        result.diag_mut().fill(T::ONE)?;
        Ok(result)
    }

    /// The square matrix with these elements on its diagonal, and 0 elsewhere: NumPy's `diag` of a vector.
    ///
    /// # Errors
    ///
    /// Those of an allocation and a launch.
    ///
    /// # Examples
    ///
    /// ```
    /// use ndarray::array;
    /// use warpsmith::{Device, DeviceArray};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let scales = DeviceArray::from_ndarray(device.default_stream(), &array![2.0, 3.0])?;
    /// assert_eq!(DeviceArray::from_diag(&scales)?.to_ndarray()?, array![[2.0, 0.0], [0.0, 3.0]]);
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "diag")]
    pub fn from_diag(diagonal: &DeviceArrayRef<T, Ix1>) -> Result<Self> {
        let n = diagonal.len();
        let mut result = Self::zeros(diagonal.stream(), (n, n))?;
        result.diag_mut().assign(diagonal)?;
        Ok(result)
    }
}
