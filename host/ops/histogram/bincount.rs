// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts of values.

use std::fmt::Display;

use kernels_gpu::compiled::CountValues;
use ndarray::{Axis, Dimension, Ix1};

use super::Histogram;
use super::launch::{clear, extent, launch_bincount};
use super::plan::equal_width;
use crate::array::{DeviceArray, Element};
use crate::array_ref::DeviceArrayRef;
use crate::error::{Error, Result};

/// The element types whose values can be counted: `u8`, `u16`, `i32`, `u32`, `i64` and `u64`, of which those of 64 bits are first
/// copied to 32.
pub trait Bincount: Element {
    /// The largest element, of some of which none is negative.
    #[doc(hidden)]
    fn greatest<D: Dimension>(x: &DeviceArrayRef<Self, D>) -> Result<u64>;

    /// Counts some values that have a place in some counts.
    #[doc(hidden)]
    fn count<D: Dimension>(x: &DeviceArrayRef<Self, D>, counts: &mut DeviceArrayRef<u64, Ix1>) -> Result<()>;
}

macro_rules! counted {
    ($($type:ty),*) => {$(
        impl Bincount for $type {
            fn greatest<D: Dimension>(x: &DeviceArrayRef<Self, D>) -> Result<u64> {
                let (least, greatest) = extent(x)?;
                check_sign(least)?;
                Ok(greatest as u64)
            }

            fn count<D: Dimension>(x: &DeviceArrayRef<Self, D>, counts: &mut DeviceArrayRef<u64, Ix1>) -> Result<()> {
                count(x, counts)
            }
        }
    )*};
}

counted!(u8, u16, i32, u32);

/// Negative ones of 64 bits are large ones without a sign.
macro_rules! counted_as_u32 {
    ($($type:ty),*) => {$(
        impl Bincount for $type {
            fn greatest<D: Dimension>(x: &DeviceArrayRef<Self, D>) -> Result<u64> {
                let greatest = x.bits::<u64>().max()?;
                check_sign(greatest as $type)?;
                if greatest < u32::MAX.into() {
                    return Ok(greatest);
                }
                Err(no_place(greatest, "elements below 2^32 − 1"))
            }

            fn count<D: Dimension>(x: &DeviceArrayRef<Self, D>, counts: &mut DeviceArrayRef<u64, Ix1>) -> Result<()> {
                let places = counts.len().min(u32::MAX as usize);
                let (mut counts, mut rest) = counts.split_at_mut(Axis(0), places)?;
                // What is `u32::MAX` then, or larger, has no place.
                count(&*x.bits::<u64>().cast_saturating::<u32>()?, &mut counts)?;
                clear("bincount", x, &mut rest)
            }
        }
    )*};
}

counted_as_u32!(i64, u64);

fn check_sign<T: PartialOrd + Default + Display>(least: T) -> Result<()> {
    if least >= T::default() {
        return Ok(());
    }
    Err(no_place(least, "no negative element"))
}

fn no_place(element: impl Display, wanted: &str) -> Error {
    Error::Parameter {
        operation: "bincount",
        parameter: "x",
        given: format!("an element {element}"),
        wanted: wanted.into(),
    }
}

fn count<T: Histogram + CountValues, D: Dimension>(
    x: &DeviceArrayRef<T, D>,
    counts: &mut DeviceArrayRef<u64, Ix1>,
) -> Result<()> {
    let bins = u32::try_from(counts.len()).unwrap_or(u32::MAX);
    let mut plan = equal_width(bins, 0.0, f64::from(bins));
    let greatest = T::at_most((counts.len() - 1) as f64).unwrap_or(T::ZERO);
    (plan.first, plan.last) = (0.0, greatest.to_f64());
    launch_bincount(x, plan, counts)
}

/// Counts of values.
impl<T: Bincount, D: Dimension> DeviceArrayRef<T, D> {
    /// How often each value from 0 to the largest element occurs: NumPy's `bincount`. No count for an empty array.
    /// Waits for the largest element, not for the counts; so every element is read twice. For a fixed number of
    /// counts, beyond which nothing is counted (NumPy's `minlength` has more then), without waiting:
    /// [`bincount_into`](Self::bincount_into) an array of that length, whatever is in it.
    ///
    /// # Errors
    ///
    /// [`Error::Parameter`] if an element is negative, or of 64 bits and 2³² − 1 or more, and those of an allocation (of 8 bytes for each value up to the
    /// largest) and a launch.
    ///
    /// # Examples
    ///
    /// ```
    /// # use ndarray::array;
    /// # use warpsmith::{Device, DeviceArray};
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let x = DeviceArray::from_ndarray(device.default_stream(), &array![1, 4, 1, 0])?;
    /// assert_eq!(x.bincount()?.to_ndarray()?, array![1, 2, 0, 0, 1]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn bincount(&self) -> Result<DeviceArray<u64, Ix1>> {
        if self.is_empty() {
            return DeviceArray::uninit(self.stream(), Ix1(0));
        }
        let places = usize::try_from(T::greatest(self)?).unwrap_or(usize::MAX);
        let mut counts = DeviceArray::uninit(self.stream(), Ix1(places.saturating_add(1)))?;
        self.bincount_into(&mut counts)?;
        Ok(counts)
    }

    /// How often each value from 0 occurs, into an existing array or view of any length: what was in it is overwritten, and
    /// values that have no place in it are not counted, nor are such from 2³² − 1 on. Does not wait.
    ///
    /// # Errors
    ///
    /// [`Error::DifferentDevices`], and those of a launch.
    pub fn bincount_into(&self, counts: &mut DeviceArrayRef<u64, Ix1>) -> Result<()> {
        if self.is_empty() || counts.is_empty() {
            return clear("bincount", self, counts);
        }
        T::count(self, counts)
    }
}
