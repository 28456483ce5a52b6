// SPDX-License-Identifier: MIT OR Apache-2.0
//! Selection by a mask.

use kernels_gpu::compiled::Number;
use kernels_gpu::select::{THREADS, tile_len};
use ndarray::{DimMax, Dimension};

use super::broadcast::{Common, check_out, common_dim, is_dense};
use super::tiles;
use crate::array::{DeviceArray, Element};
use crate::array_ref::DeviceArrayRef;
use crate::error::{Error, Result};
use crate::expr::one::{Term, replace};

/// The dimension that a mask and two operands have together.
type Common3<D, E, F> = Common<Common<D, E>, F>;

/// The shape that all three, on one device, are repeated to.
fn common3<T: Number, D, E, F>(
    mask: &DeviceArrayRef<u8, D>,
    a: &DeviceArrayRef<T, E>,
    b: &DeviceArrayRef<T, F>,
) -> Result<Common3<D, E, F>>
where
    D: DimMax<E> + Dimension,
    E: Dimension,
    Common<D, E>: DimMax<F>,
    F: Dimension,
{
    for other in [a.stream(), b.stream()] {
        mask.stream().check_device("select", other)?;
    }
    common_dim("select", &mask.raw_dim(), &a.raw_dim())
        .and_then(|dim| common_dim("select", &dim, &b.raw_dim()))
        .map_err(|_| Error::Shape {
            operation: "select",
            given: format!(
                "a mask of shape {:?}, shapes {:?} and {:?}",
                mask.shape(),
                a.shape(),
                b.shape()
            ),
            wanted: "shapes that broadcast together: along each axis, from the last, equal lengths or a 1".into(),
        })
}

/// Of operands on the device of `out` that fit its shape.
fn select<T: Number, D: Dimension, E: Dimension, F: Dimension, G: Dimension>(
    mask: &DeviceArrayRef<u8, D>,
    a: &DeviceArrayRef<T, E>,
    b: &DeviceArrayRef<T, F>,
    out: &mut DeviceArrayRef<T, G>,
) -> Result<()> {
    if out.is_empty() {
        return Ok(());
    }
    let stream = mask.stream();
    if !is_dense(mask, out) || !is_dense(a, out) || !is_dense(b, out) {
        return Term::array(mask)
            .select(Term::array(a), Term::array(b))?
            .write(stream, out);
    }
    let config = tiles(out.len(), tile_len::<T>(), THREADS);
    out.write_in_order(stream, &mut |out| {
        stream.launch::<T::Select>(&config, (mask, a, b, out))
    })
}

/// Selection by a mask: each element of the mask and of both operands is read once.
impl<D: Dimension> DeviceArrayRef<u8, D> {
    /// The element of `a` where the mask, this array, is not 0, and that of `b` where it is: NumPy's `where`. All
    /// three are broadcast together.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`] if the shapes do not broadcast together, [`Error::DifferentDevices`], and those of an
    /// allocation and a launch.
    ///
    /// # Examples
    ///
    /// ```
    /// use ndarray::{arr0, array};
    /// use warpsmith::{Device, DeviceArray};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let x = DeviceArray::from_ndarray(device.default_stream(), &array![[1.0, f32::NAN], [f32::NAN, 4.0]])?;
    /// let zero = DeviceArray::from_ndarray(device.default_stream(), &arr0(0.0f32))?;
    /// let without_nan = x.equal(&x)?.select(&x, &zero)?;
    /// assert_eq!(without_nan.to_ndarray()?, array![[1.0, 0.0], [0.0, 4.0]]);
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "where")]
    pub fn select<T: Number, E: Dimension, F: Dimension>(
        &self,
        a: &DeviceArrayRef<T, E>,
        b: &DeviceArrayRef<T, F>,
    ) -> Result<DeviceArray<T, Common3<D, E, F>>>
    where
        D: DimMax<E>,
        Common<D, E>: DimMax<F>,
    {
        DeviceArray::made(self.stream(), common3(self, a, b)?, &mut |out| select(self, a, b, out))
    }

    /// [`select`](Self::select) into an existing array or view, which has the shape of the result.
    ///
    /// # Errors
    ///
    /// As [`select`](Self::select).
    pub fn select_into<T: Number, E: Dimension, F: Dimension>(
        &self,
        a: &DeviceArrayRef<T, E>,
        b: &DeviceArrayRef<T, F>,
        out: &mut DeviceArrayRef<T, Common3<D, E, F>>,
    ) -> Result<()>
    where
        D: DimMax<E>,
        Common<D, E>: DimMax<F>,
    {
        check_out("select", self.stream(), common3(self, a, b)?.slice(), out)?;
        select(self, a, b, out)
    }
}

/// Elements that a mask names, in place: each element, and what it takes of the mask and of the values, is read once.
impl<T: Number, D: Dimension> DeviceArrayRef<T, D> {
    /// Replaces the elements where `mask` is not 0 by those of `values` at the same place: `x[mask] = values[mask]` in NumPy, its
    /// `putmask` and `copyto(x, values, where=mask)`. Mask and values are repeated to the shape of this array.
    ///
    /// Values that are as many as there are elements to replace, one for each in C order, as in NumPy's `x[mask] = values`, go by
    /// the elements' places: [`assign_at`](Self::assign_at) with [`mask.flatnonzero()`](Self::flatnonzero).
    ///
    /// # Errors
    ///
    /// [`Error::Shape`] if a shape does not broadcast to that of this array, [`Error::DifferentDevices`], and those of a launch.
    ///
    /// # Examples
    ///
    /// ```
    /// use ndarray::array;
    /// use warpsmith::{Device, DeviceArray};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let mut x = DeviceArray::from_ndarray(device.default_stream(), &array![[1.0, -2.0], [-3.0, 4.0]])?;
    /// let row = DeviceArray::from_ndarray(device.default_stream(), &array![10.0, 20.0])?;
    /// let is_negative = x.less_scalar(0.0)?;
    /// x.assign_where(&is_negative, &row)?;
    /// assert_eq!(x.to_ndarray()?, array![[1.0, 20.0], [10.0, 4.0]]);
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias("putmask", "copyto", "place", "masked_scatter", "where"))]
    pub fn assign_where<E: Dimension, F: Dimension>(
        &mut self,
        mask: &DeviceArrayRef<u8, E>,
        values: &DeviceArrayRef<T, F>,
    ) -> Result<()> {
        check_where("assign_where", self, "a mask", mask)?;
        check_where("assign_where", self, "values", values)?;
        self.replace_where(mask, || Term::array(values))
    }

    /// Sets the elements where `mask`, which is repeated to the shape of this array, is not 0: `x[mask] = value` in NumPy,
    /// PyTorch's `masked_fill_`. A condition on the elements themselves needs no array: [`x.update(|x| x.less(0.0).select(0.0,
    /// x))`](Self::update).
    ///
    /// A mask of the array's own elements is made ahead of the call, as below: `x.fill_where(&x.is_nan()?, 0.0)` does not compile (E0502).
    /// Arrays [dereference](std::ops::DerefMut) to what has this method, and so `x` is borrowed for the call before its arguments are
    /// computed, whatever they are.
    ///
    /// # Errors
    ///
    /// As [`assign_where`](Self::assign_where).
    ///
    /// # Examples
    ///
    /// ```
    /// use ndarray::array;
    /// use warpsmith::{Device, DeviceArray};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let mut x = DeviceArray::from_ndarray(device.default_stream(), &array![1.0, f32::NAN, 3.0])?;
    /// let is_nan = x.is_nan()?;
    /// x.fill_where(&is_nan, 0.0)?;
    /// assert_eq!(x.to_ndarray()?, array![1.0, 0.0, 3.0]);
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias("putmask", "masked_fill"))]
    pub fn fill_where<E: Dimension>(&mut self, mask: &DeviceArrayRef<u8, E>, value: T) -> Result<()> {
        check_where("fill_where", self, "a mask", mask)?;
        self.replace_where(mask, || Term::number(value))
    }

    fn replace_where<'a, E: Dimension>(
        &mut self,
        mask: &'a DeviceArrayRef<u8, E>,
        by: impl Fn() -> Term<'a>,
    ) -> Result<()> {
        if self.is_empty() {
            return Ok(());
        }
        self.change_in_order(&mut |x| replace(x, |x| Term::array(mask).select(by(), x)))
    }
}

/// An error if an operand is not repeated to the shape of `x`, or is on another device.
fn check_where<T: Element, U: Element, D: Dimension, E: Dimension>(
    operation: &'static str,
    x: &DeviceArrayRef<T, D>,
    name: &str,
    operand: &DeviceArrayRef<U, E>,
) -> Result<()> {
    x.stream().check_device(operation, operand.stream())?;
    match operand.layout.broadcast(x.raw_dim()) {
        Ok(_) => Ok(()),
        Err(_) => Err(Error::Shape {
            operation,
            given: format!("{name} of shape {:?} for shape {:?}", operand.shape(), x.shape()),
            wanted: "a shape that broadcasts to that of the array".into(),
        }),
    }
}
