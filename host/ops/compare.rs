// SPDX-License-Identifier: MIT OR Apache-2.0
//! Comparisons, element by element.

use cuda_std::launch::SafeKernel;
use cuda_std::param::ByValue;
use cuda_std::{Slice, SliceMut};
use half::{bf16, f16};
use kernels_gpu::broadcast::{Shape, Strides};
use kernels_gpu::compare::{self as kernels, THREADS, tile_len};
use kernels_gpu::op::{Equal, Greater, GreaterEqual, Less, LessEqual, NotEqual};
use ndarray::{DimMax, Dimension, arr0};

use super::broadcast::{Axes, Common, Operand, check_out, common_dim, two_operand_methods};
use super::tiles;
use crate::array::{DeviceArray, Element};
use crate::error::Result;
use crate::view::{AsView, DeviceView};

/// The parameters of a kernel with two arrays that lie as the output does.
type Dense<T> = (Slice<'static, T>, Slice<'static, T>, SliceMut<'static, u8>);

/// The parameters of a kernel with two arrays that lie otherwise.
type Strided<T> = (
    Shape,
    Slice<'static, T>,
    Strides,
    Slice<'static, T>,
    Strides,
    SliceMut<'static, u8>,
);

/// An element type that comparison `Op` of two arrays is compiled for.
#[doc(hidden)]
pub trait HasCompare<Op>: Element {
    type ArrayArray: SafeKernel<Params = Dense<Self>>;
    type Broadcast: SafeKernel<Params = Strided<Self>>;
}

impl<T: Element, Op> HasCompare<Op> for T
where
    kernels::compare<T, Op>: SafeKernel<Params = Dense<T>>,
    kernels::compare_broadcast<T, Op>: SafeKernel<Params = Strided<T>>,
{
    type ArrayArray = kernels::compare<T, Op>;
    type Broadcast = kernels::compare_broadcast<T, Op>;
}

/// An element type that comparison `Op` with a number is compiled for.
#[doc(hidden)]
pub trait HasCompareScalar<Op>: Element + ByValue {
    type ArrayScalar: SafeKernel<Params = (Slice<'static, Self>, Self, SliceMut<'static, u8>)>;
}

impl<T: Element + ByValue, Op> HasCompareScalar<Op> for T
where
    kernels::compare_scalar<T, Op>: SafeKernel<Params = (Slice<'static, T>, T, SliceMut<'static, u8>)>,
{
    type ArrayScalar = kernels::compare_scalar<T, Op>;
}

/// The element types of comparisons: `f32`, `f64`, `f16`, `bf16`, `i32`, `i64`, `u8`, `u16`, `u32`, `u64`.
pub trait Compare:
    HasCompare<Equal>
    + HasCompare<NotEqual>
    + HasCompare<Less>
    + HasCompare<LessEqual>
    + HasCompareScalar<Equal>
    + HasCompareScalar<NotEqual>
    + HasCompareScalar<Less>
    + HasCompareScalar<LessEqual>
    + HasCompareScalar<Greater>
    + HasCompareScalar<GreaterEqual>
{
}

macro_rules! implement {
    ($($type:ty),*) => { $(impl Compare for $type {})* };
}

implement!(f32, f64, f16, bf16, i32, i64, u8, u16, u32, u64);

/// Two arrays that fit the shape of `out`, in the given order or `SWAPPED`.
fn array_array<Op, const SWAPPED: bool, T: HasCompare<Op>, D: Dimension, E: Dimension, F: Dimension>(
    a: &DeviceView<'_, T, D>,
    b: &DeviceView<'_, T, E>,
    out: &mut DeviceArray<u8, F>,
) -> Result<()> {
    if out.is_empty() {
        return Ok(());
    }
    let stream = a.stream();
    let (a, b) = (&Operand::new(a, out.shape())?, &Operand::new(b, out.shape())?);
    let (a, b) = if SWAPPED { (b, a) } else { (a, b) };
    let axes = Axes::new(out.shape(), [&a.strides, &b.strides]);
    if axes.are_dense() {
        let config = tiles(out.len(), tile_len::<T>(), THREADS);
        return stream.launch::<T::ArrayArray>(&config, (a, b, out));
    }
    axes.for_each_launch(size_of::<T>(), |config, shape, [a_strides, b_strides]| {
        stream.launch::<T::Broadcast>(config, (shape, a, a_strides, b, b_strides, &mut *out))
    })
}

/// An array of the shape of `out`, and one number; `ArrayOp` and `SWAPPED` are those for two arrays.
fn array_scalar<Op, ArrayOp, const SWAPPED: bool, T, D: Dimension>(
    a: &DeviceView<'_, T, D>,
    b: T,
    out: &mut DeviceArray<u8, D>,
) -> Result<()>
where
    T: HasCompareScalar<Op> + HasCompare<ArrayOp>,
{
    if out.is_empty() {
        return Ok(());
    }
    if !a.is_standard_layout() {
        let b = DeviceArray::from_ndarray(a.stream(), &arr0(b))?;
        return array_array::<ArrayOp, SWAPPED, _, _, _, _>(a, &b.view(), out);
    }
    let config = tiles(out.len(), tile_len::<T>(), THREADS);
    let operand = Operand::new(a, out.shape())?;
    a.stream().launch::<T::ArrayScalar>(&config, (&operand, b, out))
}

/// `formula: operator, operator of two arrays, whether they are swapped = with array, into array, with scalar, into
/// scalar`
macro_rules! compare_methods {
    ($($(#[$doc:meta])* $formula:literal: $op:ty, $array_op:ty, $swapped:literal = $($method:ident)*;)*) => {
        two_operand_methods! {
            $(#[doc = "The result is 1 where that holds, and 0 where not.\n"] $(#[$doc])* $formula: u8,
              array_array::<$array_op, $swapped, _, _, _, _>, array_scalar::<$op, $array_op, $swapped, _, _>
              => $($method)*;)*
        }
    };
}

/// All comparisons, for arrays and for views.
macro_rules! methods {
    () => {
        compare_methods! {
            ///
            /// # Examples
            ///
            /// ```
            /// use ndarray::array;
            /// use warpsmith::{Device, DeviceArray};
            ///
            /// # fn main() -> warpsmith::Result<()> {
            /// let device = Device::auto()?;
            /// let x = DeviceArray::from_ndarray(device.default_stream(), &array![[1, 2], [3, 4]])?;
            /// let row = DeviceArray::from_ndarray(device.default_stream(), &array![1, 4])?;
            /// assert_eq!(x.equal(&row)?.to_ndarray()?, array![[1, 0], [0, 1]]);
            /// assert_eq!(x.equal_scalar(3)?.to_ndarray()?, array![[0, 0], [1, 0]]);
            /// # Ok(())
            /// # }
            /// ```
            "self = other": Equal, Equal, false = equal equal_into equal_scalar equal_scalar_into;
            "self ≠ other": NotEqual, NotEqual, false = not_equal not_equal_into not_equal_scalar not_equal_scalar_into;
            "self < other": Less, Less, false = less less_into less_scalar less_scalar_into;
            "self ≤ other": LessEqual, LessEqual, false = less_equal less_equal_into less_equal_scalar less_equal_scalar_into;
            "self > other": Greater, Less, true = greater greater_into greater_scalar greater_scalar_into;
            "self ≥ other": GreaterEqual, LessEqual, true
                = greater_equal greater_equal_into greater_equal_scalar greater_equal_scalar_into;
        }
    };
}

/// Comparisons with NumPy's names; a result is an array of bytes, 1 where the comparison holds and 0 where not: the
/// mask of [`select`](DeviceArray::select).
///
/// NaN compares as IEEE 754 says: it is not equal to anything, itself included, and neither less nor greater. −0
/// equals 0. Operands are broadcast as in [`add`](DeviceArray::add).
impl<T: Compare, D: Dimension> DeviceArray<T, D> {
    methods!();
}

/// Comparisons, as those of [`DeviceArray`].
impl<T: Compare, D: Dimension> DeviceView<'_, T, D> {
    methods!();
}
