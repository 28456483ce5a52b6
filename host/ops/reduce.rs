// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reductions of whole arrays.

use cuda_std::SliceMut;
use cuda_std::launch::SafeKernel;
use kernels_gpu::op::{Max, Min, Product, ReduceOp, Sum, WideSum};
use kernels_gpu::reduce::{self as kernels, BLOCKS, THREADS, tile_len};
use ndarray::{Dimension, Ix1};

use super::tiles;
use crate::array::{DeviceArray, Element};
use crate::error::{Error, Result};

/// An element type that operator `Op` is compiled for, with results of type `Acc`.
#[doc(hidden)]
pub trait HasReduce<Op, Acc: Element>: Element {
    type Kernel: SafeKernel<Params = (&'static [Self], SliceMut<'static, Acc>)>;
}

impl<T: Element, Op: ReduceOp<T>> HasReduce<Op, Op::Acc> for T
where
    Op::Acc: Element,
    kernels::reduce<T, Op>: SafeKernel<Params = (&'static [T], SliceMut<'static, Op::Acc>)>,
{
    type Kernel = kernels::reduce<T, Op>;
}

/// The element types of reductions: `f32`, `f64`, `i32`, `i64`, `u32`, `u64`.
pub trait Reduce:
    HasReduce<Sum, Self> + HasReduce<Product, Self> + HasReduce<Min, Self> + HasReduce<Max, Self> + HasReduce<WideSum, f64>
{
    /// The type of a mean: the float itself, and `f64` for integers.
    type Mean;

    /// The mean, from the sum in `f64` and the number of elements.
    #[doc(hidden)]
    fn mean(sum: f64, len: usize) -> Self::Mean;

    /// 0 and 1, which are the sum and the product of no element.
    #[doc(hidden)]
    const NEUTRAL: (Self, Self);
}

macro_rules! reduce_types {
    ($($type:ident -> $mean:ident),*) => {$(
        impl Reduce for $type {
            type Mean = $mean;
            const NEUTRAL: (Self, Self) = (0 as $type, 1 as $type);

            fn mean(sum: f64, len: usize) -> $mean {
                (sum / len as f64) as $mean
            }
        }
    )*};
}

reduce_types!(f32 -> f32, f64 -> f64, i32 -> f64, i64 -> f64, u32 -> f64, u64 -> f64);

/// One launch that gives a value for each block, and a second of one block that combines those. Waits for the result.
fn reduce<Op, T, Acc, D>(x: &DeviceArray<T, D>) -> Result<Acc>
where
    T: HasReduce<Op, Acc>,
    Acc: HasReduce<Op, Acc>,
    D: Dimension,
{
    let partials = partials::<Op, T, Acc, D>(x)?;
    let total = if partials.len() == 1 {
        partials
    } else {
        combined::<Op, Acc>(&partials)?
    };
    Ok(total.to_ndarray()?[0])
}

/// One value for each block of a grid that fills the device once.
fn partials<Op, T: HasReduce<Op, Acc>, Acc: Element, D: Dimension>(
    x: &DeviceArray<T, D>,
) -> Result<DeviceArray<Acc, Ix1>> {
    let multiprocessors = x.stream().backend().properties().multiprocessors as usize;
    let blocks = x.len().div_ceil(tile_len::<T>()).min(multiprocessors * BLOCKS);
    let mut partials = DeviceArray::uninit(x.stream(), Ix1(blocks))?;
    x.stream()
        .launch::<T::Kernel>(&tiles(blocks, 1, THREADS), (x, &mut partials))?;
    Ok(partials)
}

/// All values combined by one block.
fn combined<Op, Acc: HasReduce<Op, Acc>>(partials: &DeviceArray<Acc, Ix1>) -> Result<DeviceArray<Acc, Ix1>> {
    let mut total = DeviceArray::uninit(partials.stream(), Ix1(1))?;
    partials
        .stream()
        .launch::<Acc::Kernel>(&tiles(1, 1, THREADS), (partials, &mut total))?;
    Ok(total)
}

/// Reductions. Every element is read once; floats give the same bits on every run on one device.
///
/// The error of a float sum is bounded by `(n / (t c) + c + log2(t c)) u Σ|x|`, to first order, where `u` is the unit
/// roundoff, `t` the number of threads of the launch and `c` the chains of a thread
/// ([`kernels_gpu::reduce::chains`]; the middle term is for the elements behind the last whole tile). A sum of nothing
/// but −0 is +0.
impl<T: Reduce, D: Dimension> DeviceArray<T, D> {
    /// The sum; 0 for an empty array. Integers wrap around on overflow.
    ///
    /// # Errors
    ///
    /// Those of an allocation and a launch; waits for the result, so also those of earlier kernels.
    ///
    /// # Examples
    ///
    /// ```
    /// # use ndarray::Array2;
    /// # use warpsmith::{Device, DeviceArray};
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let x = DeviceArray::from_ndarray(device.default_stream(), &Array2::<i64>::ones((100, 200)))?;
    /// assert_eq!(x.sum()?, 20_000);
    /// # Ok(())
    /// # }
    /// ```
    pub fn sum(&self) -> Result<T> {
        if self.is_empty() {
            Ok(T::NEUTRAL.0)
        } else {
            reduce::<Sum, _, _, _>(self)
        }
    }

    /// The product; 1 for an empty array. Integers wrap around on overflow.
    ///
    /// # Errors
    ///
    /// As [`sum`](Self::sum).
    pub fn product(&self) -> Result<T> {
        if self.is_empty() {
            Ok(T::NEUTRAL.1)
        } else {
            reduce::<Product, _, _, _>(self)
        }
    }

    /// The smallest element; NaN if any element is.
    ///
    /// # Errors
    ///
    /// [`Error::Empty`] for an empty array, and as [`sum`](Self::sum).
    pub fn min(&self) -> Result<T> {
        self.not_empty("min")?;
        reduce::<Min, _, _, _>(self)
    }

    /// The largest element; NaN if any element is.
    ///
    /// # Errors
    ///
    /// [`Error::Empty`] for an empty array, and as [`sum`](Self::sum).
    pub fn max(&self) -> Result<T> {
        self.not_empty("max")?;
        reduce::<Max, _, _, _>(self)
    }

    /// The arithmetic mean, summed in `f64`: an `f64` for integers, the element type for floats.
    ///
    /// # Errors
    ///
    /// [`Error::Empty`] for an empty array, and as [`sum`](Self::sum).
    pub fn mean(&self) -> Result<T::Mean> {
        self.not_empty("mean")?;
        Ok(T::mean(wide_sum(self)?, self.len()))
    }

    fn not_empty(&self, operation: &'static str) -> Result<()> {
        if self.is_empty() {
            Err(Error::Empty {
                operation,
                shape: self.shape().to_vec(),
            })
        } else {
            Ok(())
        }
    }
}

/// The sum in `f64`.
fn wide_sum<T: Reduce, D: Dimension>(x: &DeviceArray<T, D>) -> Result<f64> {
    let partials = partials::<WideSum, T, f64, D>(x)?;
    reduce::<Sum, f64, f64, Ix1>(&partials)
}
