// SPDX-License-Identifier: MIT OR Apache-2.0
//! Elementwise operations on one array, in place too, and `y += α x`.

use std::cmp::Ordering;

use kernels_gpu::compiled::{Map, Number, Real};
use kernels_gpu::map::THREADS;
use kernels_gpu::op::{Abs, Cos, Exp, Ln, Neg, Relu, Sigmoid, Sin, Sqrt, Square, Tanh};
use ndarray::Dimension;

use super::tiles;
use crate::array::{DeviceArray, Element};
use crate::array_ref::DeviceArrayRef;
use crate::error::{Error, Result};
use crate::expr::one::{Term, replace};
use crate::launch::InPlace;

/// `out[i] = Op(x[i])`
fn apply_into<Op, T: Map<Op>, D: Dimension>(
    operation: &'static str,
    x: &DeviceArrayRef<T, D>,
    out: &mut DeviceArrayRef<T, D>,
) -> Result<()> {
    x.fits(operation, out)?;
    if x.is_empty() {
        return Ok(());
    }
    let (stream, config) = (x.stream(), tiles(x.len(), T::TILE, THREADS));
    let x = &*x.in_order()?;
    out.write_in_order(stream, &mut |out| stream.launch::<T::Kernel>(&config, (x, out)))
}

/// Functions of each element that are named as a type: those of [`ops`](crate::ops). Every element is read and written
/// once.
///
/// # Examples
///
/// ```
/// use ndarray::array;
/// use warpsmith::ops::Square;
/// use warpsmith::{Device, DeviceArray};
///
/// # fn main() -> warpsmith::Result<()> {
/// let device = Device::auto()?;
/// let x = DeviceArray::from_ndarray(device.default_stream(), &array![1, 2, 3])?;
/// assert_eq!(x.map::<Square>()?.to_ndarray()?, array![1, 4, 9]);
/// # Ok(())
/// # }
/// ```
impl<T: Element, D: Dimension> DeviceArrayRef<T, D> {
    /// `Op` of each element.
    ///
    /// # Errors
    ///
    /// Those of an allocation and a launch.
    pub fn map<Op>(&self) -> Result<DeviceArray<T, D>>
    where
        T: Map<Op>,
    {
        DeviceArray::made(self.stream(), self.raw_dim(), &mut |out| {
            apply_into::<Op, T, D>("map", self, out)
        })
    }

    /// [`map`](Self::map) into an existing array or view.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`] if the shapes differ, [`Error::DifferentDevices`], and those of a launch.
    pub fn map_into<Op>(&self, out: &mut DeviceArrayRef<T, D>) -> Result<()>
    where
        T: Map<Op>,
    {
        apply_into::<Op, T, D>("map", self, out)
    }
}

/// The same of an array or a view itself. Every element is read and written once, and nothing is allocated, unless a view
/// has gaps between its elements: then it is computed in a copy, which is copied back.
impl<T: Element, D: Dimension> DeviceArrayRef<T, D> {
    /// [`map`](Self::map), in place.
    ///
    /// # Errors
    ///
    /// Those of a launch.
    pub fn map_inplace<Op>(&mut self) -> Result<()>
    where
        T: Map<Op>,
    {
        self.change_each(&mut |x| {
            let (stream, config) = (x.stream().clone(), tiles(x.len(), T::TILE, THREADS));
            // SAFETY: the launch takes the elements mutably beside it; the kernels of this family keep the contract of
            // `Slice`.
            let input = unsafe { InPlace::of(x) };
            stream.launch::<T::Kernel>(&config, (input, x))
        })
    }
}

/// Functions of every number. Every element is read and written once.
///
/// # Examples
///
/// ```
/// use ndarray::array;
/// use warpsmith::{Device, DeviceArray};
///
/// # fn main() -> warpsmith::Result<()> {
/// let device = Device::auto()?;
/// let mut x = DeviceArray::from_ndarray(device.default_stream(), &array![1i32, -2, i32::MIN])?;
/// assert_eq!(x.abs()?.to_ndarray()?, array![1, 2, i32::MIN]);
/// x.neg_inplace()?;
/// assert_eq!(x.to_ndarray()?, array![-1, 2, i32::MIN]);
/// # Ok(())
/// # }
/// ```
impl<T: Number, D: Dimension> DeviceArrayRef<T, D> {
    /// `−x` (for unsigned integers 2^bits − x), element by element.
    ///
    /// # Errors
    ///
    /// Those of an allocation and a launch.
    #[doc(alias = "negative")]
    pub fn neg(&self) -> Result<DeviceArray<T, D>> {
        self.map::<Neg>()
    }

    /// [`neg`](Self::neg) into an existing array or view.
    ///
    /// # Errors
    ///
    /// As [`map_into`](Self::map_into).
    pub fn neg_into(&self, out: &mut DeviceArrayRef<T, D>) -> Result<()> {
        apply_into::<Neg, T, D>("neg", self, out)
    }

    /// `|x|` (the least integer, which has none, stays what it is), element by element.
    ///
    /// # Errors
    ///
    /// Those of an allocation and a launch.
    #[doc(alias = "absolute")]
    pub fn abs(&self) -> Result<DeviceArray<T, D>> {
        self.map::<Abs>()
    }

    /// [`abs`](Self::abs) into an existing array or view.
    ///
    /// # Errors
    ///
    /// As [`map_into`](Self::map_into).
    pub fn abs_into(&self, out: &mut DeviceArrayRef<T, D>) -> Result<()> {
        apply_into::<Abs, T, D>("abs", self, out)
    }

    /// `x²`, element by element.
    ///
    /// # Errors
    ///
    /// Those of an allocation and a launch.
    pub fn square(&self) -> Result<DeviceArray<T, D>> {
        self.map::<Square>()
    }

    /// [`square`](Self::square) into an existing array or view.
    ///
    /// # Errors
    ///
    /// As [`map_into`](Self::map_into).
    pub fn square_into(&self, out: &mut DeviceArrayRef<T, D>) -> Result<()> {
        apply_into::<Square, T, D>("square", self, out)
    }

    /// `max(x, 0)`; NaN stays NaN, element by element.
    ///
    /// # Errors
    ///
    /// Those of an allocation and a launch.
    pub fn relu(&self) -> Result<DeviceArray<T, D>> {
        self.map::<Relu>()
    }

    /// [`relu`](Self::relu) into an existing array or view.
    ///
    /// # Errors
    ///
    /// As [`map_into`](Self::map_into).
    pub fn relu_into(&self, out: &mut DeviceArrayRef<T, D>) -> Result<()> {
        apply_into::<Relu, T, D>("relu", self, out)
    }

    /// Each element, or the limit that it is beyond: `low` for one that is less, `high` for one that is greater.
    ///
    /// As Rust's `clamp`: NaN stays NaN, and −0 is not less than 0.
    ///
    /// # Errors
    ///
    /// [`Error::Parameter`] if `low` is greater than `high` or one of them is NaN, and those of an allocation and a
    /// launch.
    ///
    /// # Examples
    ///
    /// ```
    /// use ndarray::array;
    /// use warpsmith::{Device, DeviceArray};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let x = DeviceArray::from_ndarray(device.default_stream(), &array![-3.0f32, 0.25, f32::INFINITY])?;
    /// assert_eq!(x.clamp(-1.0, 1.0)?.to_ndarray()?, array![-1.0, 0.25, 1.0]);
    /// assert!(x.clamp(1.0, -1.0).is_err());
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "clip")]
    pub fn clamp(&self, low: T, high: T) -> Result<DeviceArray<T, D>> {
        check_limits(low, high)?;
        DeviceArray::made(self.stream(), self.raw_dim(), &mut |out| {
            self.clamp_into(low, high, out)
        })
    }

    /// [`clamp`](Self::clamp) into an existing array or view.
    ///
    /// # Errors
    ///
    /// As [`clamp`](Self::clamp), [`Error::Shape`] if the shapes differ, and [`Error::DifferentDevices`].
    pub fn clamp_into(&self, low: T, high: T, out: &mut DeviceArrayRef<T, D>) -> Result<()> {
        check_limits(low, high)?;
        self.fits("clamp", out)?;
        Term::array(self)
            .clamp(Term::number(low), Term::number(high))?
            .write(self.stream(), out)
    }
}

/// The same of an array or a view itself. Every element is read and written once, and nothing is allocated, unless a view
/// has gaps between its elements: then it is computed in a copy, which is copied back.
impl<T: Number, D: Dimension> DeviceArrayRef<T, D> {
    /// [`neg`](Self::neg), in place.
    ///
    /// # Errors
    ///
    /// Those of a launch.
    pub fn neg_inplace(&mut self) -> Result<()> {
        self.map_inplace::<Neg>()
    }

    /// [`abs`](Self::abs), in place.
    ///
    /// # Errors
    ///
    /// Those of a launch.
    pub fn abs_inplace(&mut self) -> Result<()> {
        self.map_inplace::<Abs>()
    }

    /// [`square`](Self::square), in place.
    ///
    /// # Errors
    ///
    /// Those of a launch.
    pub fn square_inplace(&mut self) -> Result<()> {
        self.map_inplace::<Square>()
    }

    /// [`relu`](Self::relu), in place.
    ///
    /// # Errors
    ///
    /// Those of a launch.
    pub fn relu_inplace(&mut self) -> Result<()> {
        self.map_inplace::<Relu>()
    }

    /// [`clamp`](Self::clamp), in place.
    ///
    /// # Errors
    ///
    /// [`Error::Parameter`] as [`clamp`](Self::clamp), and those of a launch.
    pub fn clamp_inplace(&mut self, low: T, high: T) -> Result<()> {
        check_limits(low, high)?;
        self.change_each(&mut |x| replace(x, |x| x.clamp(Term::number(low), Term::number(high))))
    }

    /// Adds `alpha · x` to the array, element by element: BLAS's axpy, with the array as `y`.
    ///
    /// A float is computed with one fused multiply-add, so rounded once; of 16-bit floats that is one in `f32`, whose
    /// result is then rounded to 16 bits. Integers wrap.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`] if the shapes differ, [`Error::DifferentDevices`], and those of a launch.
    ///
    /// # Examples
    ///
    /// ```
    /// use ndarray::array;
    /// use warpsmith::{Device, DeviceArray};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let x = DeviceArray::from_ndarray(device.default_stream(), &array![1.0f32, 2.0, 3.0])?;
    /// let mut y = DeviceArray::from_ndarray(device.default_stream(), &array![10.0f32, 20.0, 30.0])?;
    /// y.axpy(0.5, &x)?;
    /// assert_eq!(y.to_ndarray()?, array![10.5, 21.0, 31.5]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn axpy(&mut self, alpha: T, x: &DeviceArrayRef<T, D>) -> Result<()> {
        self.fits("axpy", x)?;
        self.change_in_order(&mut |y| replace(y, |y| Term::number(alpha).mul_add(Term::array(x), y)))
    }
}

/// Whether numbers can be limited to `low ..= high`.
fn check_limits<T: Number>(low: T, high: T) -> Result<()> {
    match low.partial_cmp(&high) {
        Some(Ordering::Less | Ordering::Equal) => Ok(()),
        _ => Err(Error::Parameter {
            operation: "clamp",
            parameter: "limits",
            given: format!("{low} to {high}"),
            wanted: "a lower limit that is at most the upper one, and no NaN".into(),
        }),
    }
}

/// Functions of floats, to the error bounds of [`cuda_std::Float`], where each method states its own (of `f32` at most 2
/// ulp, the square root correctly rounded); those of `f16` are within 0.501 ulp ([`cuda_std::float::narrow`]), those of `bf16`
/// are those of `f32`, rounded to 16 bits. The same bits on every device. Every element is read and written once.
///
/// # Examples
///
/// ```
/// use ndarray::array;
/// use warpsmith::{Device, DeviceArray, f16};
///
/// # fn main() -> warpsmith::Result<()> {
/// let device = Device::auto()?;
/// let mut x = DeviceArray::from_ndarray(device.default_stream(), &array![4.0, 0.25].map(|&x| f16::from_f32(x)))?;
/// x.sqrt_inplace()?;
/// assert_eq!(x.to_ndarray()?, array![2.0, 0.5].map(|&x| f16::from_f32(x)));
/// # Ok(())
/// # }
/// ```
impl<T: Real, D: Dimension> DeviceArrayRef<T, D> {
    /// The square root, element by element.
    ///
    /// # Errors
    ///
    /// Those of an allocation and a launch.
    pub fn sqrt(&self) -> Result<DeviceArray<T, D>> {
        self.map::<Sqrt>()
    }

    /// [`sqrt`](Self::sqrt) into an existing array or view.
    ///
    /// # Errors
    ///
    /// As [`map_into`](Self::map_into).
    pub fn sqrt_into(&self, out: &mut DeviceArrayRef<T, D>) -> Result<()> {
        apply_into::<Sqrt, T, D>("sqrt", self, out)
    }

    /// `e^x`, element by element.
    ///
    /// # Errors
    ///
    /// Those of an allocation and a launch.
    pub fn exp(&self) -> Result<DeviceArray<T, D>> {
        self.map::<Exp>()
    }

    /// [`exp`](Self::exp) into an existing array or view.
    ///
    /// # Errors
    ///
    /// As [`map_into`](Self::map_into).
    pub fn exp_into(&self, out: &mut DeviceArrayRef<T, D>) -> Result<()> {
        apply_into::<Exp, T, D>("exp", self, out)
    }

    /// The natural logarithm, element by element.
    ///
    /// # Errors
    ///
    /// Those of an allocation and a launch.
    #[doc(alias = "log")]
    pub fn ln(&self) -> Result<DeviceArray<T, D>> {
        self.map::<Ln>()
    }

    /// [`ln`](Self::ln) into an existing array or view.
    ///
    /// # Errors
    ///
    /// As [`map_into`](Self::map_into).
    pub fn ln_into(&self, out: &mut DeviceArrayRef<T, D>) -> Result<()> {
        apply_into::<Ln, T, D>("ln", self, out)
    }

    /// The sine of an angle in radians, element by element.
    ///
    /// # Errors
    ///
    /// Those of an allocation and a launch.
    pub fn sin(&self) -> Result<DeviceArray<T, D>> {
        self.map::<Sin>()
    }

    /// [`sin`](Self::sin) into an existing array or view.
    ///
    /// # Errors
    ///
    /// As [`map_into`](Self::map_into).
    pub fn sin_into(&self, out: &mut DeviceArrayRef<T, D>) -> Result<()> {
        apply_into::<Sin, T, D>("sin", self, out)
    }

    /// The cosine of an angle in radians, element by element.
    ///
    /// # Errors
    ///
    /// Those of an allocation and a launch.
    pub fn cos(&self) -> Result<DeviceArray<T, D>> {
        self.map::<Cos>()
    }

    /// [`cos`](Self::cos) into an existing array or view.
    ///
    /// # Errors
    ///
    /// As [`map_into`](Self::map_into).
    pub fn cos_into(&self, out: &mut DeviceArrayRef<T, D>) -> Result<()> {
        apply_into::<Cos, T, D>("cos", self, out)
    }

    /// The hyperbolic tangent, element by element.
    ///
    /// # Errors
    ///
    /// Those of an allocation and a launch.
    pub fn tanh(&self) -> Result<DeviceArray<T, D>> {
        self.map::<Tanh>()
    }

    /// [`tanh`](Self::tanh) into an existing array or view.
    ///
    /// # Errors
    ///
    /// As [`map_into`](Self::map_into).
    pub fn tanh_into(&self, out: &mut DeviceArrayRef<T, D>) -> Result<()> {
        apply_into::<Tanh, T, D>("tanh", self, out)
    }

    /// The logistic function `1 / (1 + e^−x)`, element by element.
    ///
    /// # Errors
    ///
    /// Those of an allocation and a launch.
    pub fn sigmoid(&self) -> Result<DeviceArray<T, D>> {
        self.map::<Sigmoid>()
    }

    /// [`sigmoid`](Self::sigmoid) into an existing array or view.
    ///
    /// # Errors
    ///
    /// As [`map_into`](Self::map_into).
    pub fn sigmoid_into(&self, out: &mut DeviceArrayRef<T, D>) -> Result<()> {
        apply_into::<Sigmoid, T, D>("sigmoid", self, out)
    }
}

/// The same of an array or a view itself. Every element is read and written once, and nothing is allocated, unless a view
/// has gaps between its elements: then it is computed in a copy, which is copied back.
impl<T: Real, D: Dimension> DeviceArrayRef<T, D> {
    /// [`sqrt`](Self::sqrt), in place.
    ///
    /// # Errors
    ///
    /// Those of a launch.
    pub fn sqrt_inplace(&mut self) -> Result<()> {
        self.map_inplace::<Sqrt>()
    }

    /// [`exp`](Self::exp), in place.
    ///
    /// # Errors
    ///
    /// Those of a launch.
    pub fn exp_inplace(&mut self) -> Result<()> {
        self.map_inplace::<Exp>()
    }

    /// [`ln`](Self::ln), in place.
    ///
    /// # Errors
    ///
    /// Those of a launch.
    pub fn ln_inplace(&mut self) -> Result<()> {
        self.map_inplace::<Ln>()
    }

    /// [`sin`](Self::sin), in place.
    ///
    /// # Errors
    ///
    /// Those of a launch.
    pub fn sin_inplace(&mut self) -> Result<()> {
        self.map_inplace::<Sin>()
    }

    /// [`cos`](Self::cos), in place.
    ///
    /// # Errors
    ///
    /// Those of a launch.
    pub fn cos_inplace(&mut self) -> Result<()> {
        self.map_inplace::<Cos>()
    }

    /// [`tanh`](Self::tanh), in place.
    ///
    /// # Errors
    ///
    /// Those of a launch.
    pub fn tanh_inplace(&mut self) -> Result<()> {
        self.map_inplace::<Tanh>()
    }

    /// [`sigmoid`](Self::sigmoid), in place.
    ///
    /// # Errors
    ///
    /// Those of a launch.
    pub fn sigmoid_inplace(&mut self) -> Result<()> {
        self.map_inplace::<Sigmoid>()
    }
}
