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

use super::broadcast::{Axes, Common, Operand, check_out, common_dim};
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

/// Two arrays that fit the shape of `out`, in the given order or `swapped`.
fn array_array<Op, T: HasCompare<Op>, D: Dimension, E: Dimension, F: Dimension>(
    (a, b): (&DeviceView<'_, T, D>, &DeviceView<'_, T, E>),
    swapped: bool,
    out: &mut DeviceArray<u8, F>,
) -> Result<()> {
    if out.is_empty() {
        return Ok(());
    }
    let stream = a.stream();
    let (a, b) = (&Operand::new(a, out.shape())?, &Operand::new(b, out.shape())?);
    let (a, b) = if swapped { (b, a) } else { (a, b) };
    let axes = Axes::new(out.shape(), [&a.strides, &b.strides]);
    if axes.are_dense() {
        let config = tiles(out.len(), tile_len::<T>(), THREADS);
        return stream.launch::<T::ArrayArray>(&config, (a, b, out));
    }
    axes.for_each_launch(size_of::<T>(), |config, shape, [a_strides, b_strides]| {
        stream.launch::<T::Broadcast>(config, (shape, a, a_strides, b, b_strides, &mut *out))
    })
}

/// An array of the shape of `out`, and one number.
fn array_scalar<Op, T: HasCompareScalar<Op>, D: Dimension>(
    a: &DeviceView<'_, T, D>,
    b: T,
    out: &mut DeviceArray<u8, D>,
) -> Result<()> {
    let config = tiles(out.len(), tile_len::<T>(), THREADS);
    let operand = Operand::new(a, out.shape())?;
    a.stream().launch::<T::ArrayScalar>(&config, (&operand, b, out))
}

/// `symbol: operator, operator of two arrays, whether they are swapped = with array, into array, with scalar, into
/// scalar`
macro_rules! compare_methods {
    ($($(#[$doc:meta])* $symbol:literal: $op:ty, $array_op:ty, $swapped:literal
       = $array:ident $array_into:ident $scalar:ident $scalar_into:ident;)*) => {$(
        #[doc = concat!("`self ", $symbol, " other`, element by element, broadcast as in NumPy: 1 where it holds, 0 where not.\n")]
        $(#[$doc])*
        ///
        /// # Errors
        ///
        /// [`Error::Shape`](crate::Error::Shape) if the shapes do not broadcast together,
        /// [`Error::DifferentDevices`](crate::Error::DifferentDevices), and those of an allocation and a launch.
        pub fn $array<E: Dimension>(&self, other: &impl AsView<T, Dim = E>) -> Result<DeviceArray<u8, Common<D, E>>>
        where
            D: DimMax<E>,
        {
            let (a, b) = (self.as_view(), other.as_view());
            let dim = common_dim(stringify!($array), &a.raw_dim(), &b.raw_dim())?;
            let mut out = DeviceArray::uninit(self.stream(), dim)?;
            array_array::<$array_op, _, _, _, _>((&a, &b), $swapped, &mut out)?;
            Ok(out)
        }

        #[doc = concat!("[`", stringify!($array), "`](Self::", stringify!($array), ") into an existing array, which has the \
                         shape of the result.\n\n# Errors\n\n")]
        #[doc = concat!("As [`", stringify!($array), "`](Self::", stringify!($array), ").")]
        pub fn $array_into<E: Dimension>(
            &self,
            other: &impl AsView<T, Dim = E>,
            out: &mut DeviceArray<u8, Common<D, E>>,
        ) -> Result<()>
        where
            D: DimMax<E>,
        {
            let (a, b) = (self.as_view(), other.as_view());
            let dim = common_dim(stringify!($array), &a.raw_dim(), &b.raw_dim())?;
            check_out(stringify!($array), dim.slice(), out.shape())?;
            array_array::<$array_op, _, _, _, _>((&a, &b), $swapped, out)
        }

        #[doc = concat!("[`", stringify!($array), "`](Self::", stringify!($array), ") with one number for every element.\n\n# Errors\n\n")]
        /// Those of an allocation and a launch.
        pub fn $scalar(&self, scalar: T) -> Result<DeviceArray<u8, D>> {
            let mut out = DeviceArray::uninit(self.stream(), self.raw_dim())?;
            self.$scalar_into(scalar, &mut out)?;
            Ok(out)
        }

        #[doc = concat!("[`", stringify!($scalar), "`](Self::", stringify!($scalar), ") into an existing array of the same \
                         shape.\n\n# Errors\n\n")]
        /// [`Error::Shape`](crate::Error::Shape) if the shapes differ, and those of a launch.
        pub fn $scalar_into(&self, scalar: T, out: &mut DeviceArray<u8, D>) -> Result<()> {
            check_out(stringify!($scalar), self.shape(), out.shape())?;
            let a = self.as_view();
            if out.is_empty() {
                return Ok(());
            }
            if a.is_standard_layout() {
                return array_scalar::<$op, _, _>(&a, scalar, out);
            }
            let scalar = DeviceArray::from_ndarray(self.stream(), &arr0(scalar))?;
            let b = scalar.view();
            array_array::<$array_op, _, _, _, _>((&a, &b), $swapped, out)
        }
    )*};
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
            "=": Equal, Equal, false = equal equal_into equal_scalar equal_scalar_into;
            "≠": NotEqual, NotEqual, false = not_equal not_equal_into not_equal_scalar not_equal_scalar_into;
            "<": Less, Less, false = less less_into less_scalar less_scalar_into;
            "≤": LessEqual, LessEqual, false = less_equal less_equal_into less_equal_scalar less_equal_scalar_into;
            ">": Greater, Less, true = greater greater_into greater_scalar greater_scalar_into;
            "≥": GreaterEqual, LessEqual, true
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
