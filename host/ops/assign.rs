// SPDX-License-Identifier: MIT OR Apache-2.0
//! Elementwise operations on two operands in place: the first becomes the result.

use kernels_gpu::binary::{THREADS, tile_len};
use kernels_gpu::compiled::{Binary, Number, ScalarFirst};
use kernels_gpu::op::{Add, Div, Maximum, Minimum, Mul, Pow, Sub};
use ndarray::Dimension;

use super::broadcast::is_dense;
use super::tiles;
use crate::array::Element;
use crate::array_ref::DeviceArrayRef;
use crate::error::{Error, Result};
use crate::expr::one::{Term, replace};
use crate::launch::InPlace;

/// An array that becomes the result, and one that is repeated to its shape.
fn assign_array<Op, T: Element + Binary<Op>, D: Dimension, E: Dimension>(
    operation: &'static str,
    x: &mut DeviceArrayRef<T, D>,
    other: &DeviceArrayRef<T, E>,
) -> Result<()> {
    if other.layout.broadcast(x.raw_dim()).is_err() {
        return Err(Error::Shape {
            operation,
            given: format!("shapes {:?} and {:?}", x.shape(), other.shape()),
            wanted: "a second shape that broadcasts to the first".into(),
        });
    }
    let stream = x.stream().clone();
    stream.check_device(operation, other.stream())?;
    if x.is_empty() {
        return Ok(());
    }
    x.change_in_order(&mut |x| {
        if !is_dense(other, x) {
            return replace(x, |x| Term::binary(T::OPERATOR, x, Term::array(other)));
        }
        let config = tiles(x.len(), tile_len::<T>(), THREADS);
        // SAFETY: the launch takes the elements mutably beside it; the kernel reads an element in the thread that sets it.
        let left = unsafe { InPlace::of(x) };
        stream.launch::<T::ArrayArray>(&config, (left, other, x))
    })
}

fn assign_scalar<Op, T: Element + Binary<Op>, D: Dimension>(x: &mut DeviceArrayRef<T, D>, scalar: T) -> Result<()> {
    x.change_each(&mut |x| replace(x, |x| Term::binary(T::OPERATOR, x, Term::number(scalar))))
}

fn assign_scalar_first<Op, T: Element + ScalarFirst<Op>, D: Dimension>(
    x: &mut DeviceArrayRef<T, D>,
    scalar: T,
) -> Result<()> {
    x.change_each(&mut |x| replace(x, |x| Term::binary(T::OPERATOR, Term::number(scalar), x)))
}

/// Arithmetic in place. Every element is read and written once, and nothing is allocated, unless a view has gaps between
/// its elements: then it is computed in a copy, which is copied back.
impl<T: Number, D: Dimension> DeviceArrayRef<T, D> {
    /// `self = self + other`, element by element, in place; `other` is repeated to the shape of `self`.
    ///
    /// # Examples
    ///
    /// ```
    /// use ndarray::array;
    /// use warpsmith::{Device, DeviceArray};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let mut x = DeviceArray::from_ndarray(device.default_stream(), &array![[1.0, 2.0], [3.0, 4.0]])?;
    /// let row = DeviceArray::from_ndarray(device.default_stream(), &array![0.5, 0.25])?;
    /// x.add_assign(&row)?;
    /// x.mul_assign_scalar(2.0)?;
    /// assert_eq!(x.to_ndarray()?, array![[3.0, 4.5], [7.0, 8.5]]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Shape`] if the other shape does not broadcast to that of `self`, [`Error::DifferentDevices`], and those
    /// of a launch.
    pub fn add_assign<E: Dimension>(&mut self, other: &DeviceArrayRef<T, E>) -> Result<()> {
        assign_array::<Add, _, _, _>("add_assign", self, other)
    }

    /// [`add_assign`](Self::add_assign) with one number for every element.
    ///
    /// # Errors
    ///
    /// Those of a launch.
    pub fn add_assign_scalar(&mut self, scalar: T) -> Result<()> {
        assign_scalar::<Add, _, _>(self, scalar)
    }

    /// `self = self − other`, element by element, in place; `other` is repeated to the shape of `self`.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`] if the other shape does not broadcast to that of `self`, [`Error::DifferentDevices`], and those
    /// of a launch.
    pub fn sub_assign<E: Dimension>(&mut self, other: &DeviceArrayRef<T, E>) -> Result<()> {
        assign_array::<Sub, _, _, _>("sub_assign", self, other)
    }

    /// [`sub_assign`](Self::sub_assign) with one number for every element.
    ///
    /// # Errors
    ///
    /// Those of a launch.
    pub fn sub_assign_scalar(&mut self, scalar: T) -> Result<()> {
        assign_scalar::<Sub, _, _>(self, scalar)
    }

    /// `self = self · other`, element by element, in place; `other` is repeated to the shape of `self`.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`] if the other shape does not broadcast to that of `self`, [`Error::DifferentDevices`], and those
    /// of a launch.
    pub fn mul_assign<E: Dimension>(&mut self, other: &DeviceArrayRef<T, E>) -> Result<()> {
        assign_array::<Mul, _, _, _>("mul_assign", self, other)
    }

    /// [`mul_assign`](Self::mul_assign) with one number for every element.
    ///
    /// # Errors
    ///
    /// Those of a launch.
    pub fn mul_assign_scalar(&mut self, scalar: T) -> Result<()> {
        assign_scalar::<Mul, _, _>(self, scalar)
    }

    /// `self = self / other`, element by element, in place; `other` is repeated to the shape of `self`.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`] if the other shape does not broadcast to that of `self`, [`Error::DifferentDevices`], and those
    /// of a launch.
    pub fn div_assign<E: Dimension>(&mut self, other: &DeviceArrayRef<T, E>) -> Result<()> {
        assign_array::<Div, _, _, _>("div_assign", self, other)
    }

    /// [`div_assign`](Self::div_assign) with one number for every element.
    ///
    /// # Errors
    ///
    /// Those of a launch.
    pub fn div_assign_scalar(&mut self, scalar: T) -> Result<()> {
        assign_scalar::<Div, _, _>(self, scalar)
    }

    /// `self = min(self, other)`, element by element, in place; `other` is repeated to the shape of `self`.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`] if the other shape does not broadcast to that of `self`, [`Error::DifferentDevices`], and those
    /// of a launch.
    pub fn minimum_assign<E: Dimension>(&mut self, other: &DeviceArrayRef<T, E>) -> Result<()> {
        assign_array::<Minimum, _, _, _>("minimum_assign", self, other)
    }

    /// [`minimum_assign`](Self::minimum_assign) with one number for every element.
    ///
    /// # Errors
    ///
    /// Those of a launch.
    pub fn minimum_assign_scalar(&mut self, scalar: T) -> Result<()> {
        assign_scalar::<Minimum, _, _>(self, scalar)
    }

    /// `self = max(self, other)`, element by element, in place; `other` is repeated to the shape of `self`.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`] if the other shape does not broadcast to that of `self`, [`Error::DifferentDevices`], and those
    /// of a launch.
    pub fn maximum_assign<E: Dimension>(&mut self, other: &DeviceArrayRef<T, E>) -> Result<()> {
        assign_array::<Maximum, _, _, _>("maximum_assign", self, other)
    }

    /// [`maximum_assign`](Self::maximum_assign) with one number for every element.
    ///
    /// # Errors
    ///
    /// Those of a launch.
    pub fn maximum_assign_scalar(&mut self, scalar: T) -> Result<()> {
        assign_scalar::<Maximum, _, _>(self, scalar)
    }

    /// `self = self^other`, element by element, in place; `other` is repeated to the shape of `self`.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`] if the other shape does not broadcast to that of `self`, [`Error::DifferentDevices`], and those
    /// of a launch.
    pub fn pow_assign<E: Dimension>(&mut self, other: &DeviceArrayRef<T, E>) -> Result<()> {
        assign_array::<Pow, _, _, _>("pow_assign", self, other)
    }

    /// [`pow_assign`](Self::pow_assign) with one number for every element.
    ///
    /// # Errors
    ///
    /// Those of a launch.
    pub fn pow_assign_scalar(&mut self, scalar: T) -> Result<()> {
        assign_scalar::<Pow, _, _>(self, scalar)
    }

    /// `self = scalar − self`, element by element, in place.
    ///
    /// # Errors
    ///
    /// Those of a launch.
    pub fn scalar_sub_assign(&mut self, scalar: T) -> Result<()> {
        assign_scalar_first::<Sub, _, _>(self, scalar)
    }

    /// `self = scalar / self`, element by element, in place.
    ///
    /// # Errors
    ///
    /// Those of a launch.
    pub fn scalar_div_assign(&mut self, scalar: T) -> Result<()> {
        assign_scalar_first::<Div, _, _>(self, scalar)
    }

    /// `self = scalar^self`, element by element, in place.
    ///
    /// # Errors
    ///
    /// Those of a launch.
    pub fn scalar_pow_assign(&mut self, scalar: T) -> Result<()> {
        assign_scalar_first::<Pow, _, _>(self, scalar)
    }
}
