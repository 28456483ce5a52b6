// SPDX-License-Identifier: MIT OR Apache-2.0
//! Elementwise operations on two operands.

use cuda_std::launch::SafeKernel;
use cuda_std::param::ByValue;
use cuda_std::{Slice, SliceMut};
use half::{bf16, f16};
use kernels_gpu::binary::{self as kernels, THREADS, tile_len};
use kernels_gpu::broadcast::{Shape, Strides, broadcast};
use kernels_gpu::op::{Add, Div, Maximum, Minimum, Mul, Pow, Sub};
use ndarray::{DimMax, Dimension, arr0};

use super::broadcast::{Axes, Common, Operand, check_out, common_dim, two_operand_methods};
use super::tiles;
use crate::array::{DeviceArray, Element};
use crate::error::{Error, Result};
use crate::stream::Stream;
use crate::view::{AsView, DeviceView};

/// The parameters of a kernel with two arrays that lie as the output does.
type Dense<T> = (Slice<'static, T>, Slice<'static, T>, SliceMut<'static, T>);

/// The parameters of a kernel with two arrays that lie otherwise.
type Strided<T> = (
    Shape,
    Slice<'static, T>,
    Strides,
    Slice<'static, T>,
    Strides,
    SliceMut<'static, T>,
);

/// An element type that operator `Op` is compiled for.
#[doc(hidden)]
pub trait HasBinary<Op>: Element + ByValue {
    type ArrayArray: SafeKernel<Params = Dense<Self>>;
    type ArrayScalar: SafeKernel<Params = (Slice<'static, Self>, Self, SliceMut<'static, Self>)>;
    type Broadcast: SafeKernel<Params = Strided<Self>>;
}

impl<T: Element + ByValue, Op> HasBinary<Op> for T
where
    kernels::binary<T, Op>: SafeKernel<Params = Dense<T>>,
    kernels::binary_scalar<T, Op>: SafeKernel<Params = (Slice<'static, T>, T, SliceMut<'static, T>)>,
    broadcast<T, Op>: SafeKernel<Params = Strided<T>>,
{
    type ArrayArray = kernels::binary<T, Op>;
    type ArrayScalar = kernels::binary_scalar<T, Op>;
    type Broadcast = broadcast<T, Op>;
}

/// An element type that operator `Op` is compiled for with the scalar first.
#[doc(hidden)]
pub trait HasScalarBinary<Op>: HasBinary<Op> {
    type ScalarArray: SafeKernel<Params = (Self, Slice<'static, Self>, SliceMut<'static, Self>)>;
}

impl<T: HasBinary<Op>, Op> HasScalarBinary<Op> for T
where
    kernels::scalar_binary<T, Op>: SafeKernel<Params = (T, Slice<'static, T>, SliceMut<'static, T>)>,
{
    type ScalarArray = kernels::scalar_binary<T, Op>;
}

/// The element types of arithmetic: `f32`, `f64`, `f16`, `bf16`, `i32`, `i64`, `u8`, `u16`, `u32`, `u64`.
///
/// Integers wrap around on overflow; a division by zero gives 0 for integers, and what IEEE 754 says for floats. 16-bit
/// floats are computed in `f32` and rounded once.
pub trait Arithmetic:
    HasBinary<Add>
    + HasBinary<Sub>
    + HasBinary<Mul>
    + HasBinary<Div>
    + HasBinary<Minimum>
    + HasBinary<Maximum>
    + HasBinary<Pow>
    + HasScalarBinary<Sub>
    + HasScalarBinary<Div>
    + HasScalarBinary<Pow>
{
}

macro_rules! implement {
    ($($type:ty),*) => { $(impl Arithmetic for $type {})* };
}

implement!(f32, f64, f16, bf16, i32, i64, u8, u16, u32, u64);

/// Launches the kernel for two operands along the axes of `out`.
fn launch<Op, T: HasBinary<Op>, D: Dimension>(
    stream: &Stream,
    a: &Operand<'_, T>,
    b: &Operand<'_, T>,
    out: &mut DeviceArray<T, D>,
) -> Result<()> {
    if out.is_empty() {
        return Ok(());
    }
    let axes = Axes::new(out.shape(), [&a.strides, &b.strides]);
    if axes.are_dense() {
        let config = tiles(out.len(), tile_len::<T>(), THREADS);
        return stream.launch::<T::ArrayArray>(&config, (a, b, out));
    }
    axes.for_each_launch(size_of::<T>(), |config, shape, [a_strides, b_strides]| {
        stream.launch::<T::Broadcast>(config, (shape, a, a_strides, b, b_strides, &mut *out))
    })
}

/// Two arrays that fit the shape of `out`.
fn array_array<Op, T: HasBinary<Op>, D: Dimension, E: Dimension, F: Dimension>(
    a: &DeviceView<'_, T, D>,
    b: &DeviceView<'_, T, E>,
    out: &mut DeviceArray<T, F>,
) -> Result<()> {
    let (left, right) = (Operand::new(a, out.shape())?, Operand::new(b, out.shape())?);
    launch::<Op, T, F>(a.stream(), &left, &right, out)
}

/// An array of the shape of `out`, and one number.
fn array_scalar<Op, T: HasBinary<Op>, D: Dimension>(
    a: &DeviceView<'_, T, D>,
    b: T,
    out: &mut DeviceArray<T, D>,
) -> Result<()> {
    if out.is_empty() {
        return Ok(());
    }
    if !a.is_standard_layout() {
        let b = DeviceArray::from_ndarray(a.stream(), &arr0(b))?;
        return array_array::<Op, _, _, _, _>(a, &b.view(), out);
    }
    let config = tiles(out.len(), tile_len::<T>(), THREADS);
    let operand = Operand::new(a, out.shape())?;
    a.stream().launch::<T::ArrayScalar>(&config, (&operand, b, out))
}

/// One number, and an array of the shape of `out`.
fn scalar_array<Op, T: HasScalarBinary<Op>, D: Dimension>(
    a: T,
    b: &DeviceView<'_, T, D>,
    out: &mut DeviceArray<T, D>,
) -> Result<()> {
    if out.is_empty() {
        return Ok(());
    }
    if !b.is_standard_layout() {
        let a = DeviceArray::from_ndarray(b.stream(), &arr0(a))?;
        let (left, right) = (Operand::new(&a.view(), out.shape())?, Operand::new(b, out.shape())?);
        return launch::<Op, T, D>(b.stream(), &left, &right, out);
    }
    let config = tiles(out.len(), tile_len::<T>(), THREADS);
    let operand = Operand::new(b, out.shape())?;
    b.stream().launch::<T::ScalarArray>(&config, (a, &operand, out))
}

/// An array that becomes the result, and one that is repeated to its shape.
fn assign_array<Op, T: HasBinary<Op>, D: Dimension, E: Dimension>(
    operation: &'static str,
    x: &mut DeviceArray<T, D>,
    other: &DeviceView<'_, T, E>,
) -> Result<()> {
    let right = Operand::new(other, x.shape()).map_err(|_| Error::Shape {
        operation,
        given: format!("shapes {:?} and {:?}", x.shape(), other.shape()),
        wanted: "a second shape that broadcasts to the first".into(),
    })?;
    let stream = x.stream().clone();
    // SAFETY: the launch takes `x` as its output, and its kernels read an element in the thread that sets it.
    let left = unsafe { Operand::in_place(x) };
    launch::<Op, T, D>(&stream, &left, &right, x)
}

fn assign_scalar<Op, T: HasBinary<Op>, D: Dimension>(x: &mut DeviceArray<T, D>, scalar: T) -> Result<()> {
    if x.is_empty() {
        return Ok(());
    }
    let (stream, config) = (x.stream().clone(), tiles(x.len(), tile_len::<T>(), THREADS));
    // SAFETY: as in `assign_array`.
    let operand = unsafe { Operand::in_place(x) };
    stream.launch::<T::ArrayScalar>(&config, (&operand, scalar, x))
}

fn assign_scalar_first<Op, T: HasScalarBinary<Op>, D: Dimension>(x: &mut DeviceArray<T, D>, scalar: T) -> Result<()> {
    if x.is_empty() {
        return Ok(());
    }
    let (stream, config) = (x.stream().clone(), tiles(x.len(), tile_len::<T>(), THREADS));
    // SAFETY: as in `assign_array`.
    let operand = unsafe { Operand::in_place(x) };
    stream.launch::<T::ScalarArray>(&config, (scalar, &operand, x))
}

/// `formula: operator = with array, into array, with scalar, into scalar`
macro_rules! binary_methods {
    ($($(#[$doc:meta])* $formula:literal: $op:ty = $($method:ident)*;)*) => {
        two_operand_methods! {
            $($(#[$doc])* $formula: T, array_array::<$op, _, _, _, _>, array_scalar::<$op, _, _> => $($method)*;)*
        }
    };
}

/// `formula: operator = method, into`
macro_rules! scalar_first_methods {
    ($($formula:literal: $op:ty = $method:ident $into:ident;)*) => {$(
        #[doc = concat!("`", $formula, "`, element by element.\n\n# Errors\n\n")]
        /// Those of an allocation and a launch.
        pub fn $method(&self, scalar: T) -> Result<DeviceArray<T, D>> {
            let mut out = DeviceArray::uninit(self.stream(), self.raw_dim())?;
            scalar_array::<$op, _, _>(scalar, &self.as_view(), &mut out)?;
            Ok(out)
        }

        #[doc = concat!("[`", stringify!($method), "`](Self::", stringify!($method), ") into an existing array of the same \
                         shape.\n\n# Errors\n\n")]
        /// [`Error::Shape`] if the shapes differ, and those of a launch.
        pub fn $into(&self, scalar: T, out: &mut DeviceArray<T, D>) -> Result<()> {
            check_out(stringify!($method), self.shape(), out.shape())?;
            scalar_array::<$op, _, _>(scalar, &self.as_view(), out)
        }
    )*};
}

/// All methods that read their operands, for arrays and for views.
macro_rules! methods {
    () => {
        binary_methods! {
            ///
            /// # Examples
            ///
            /// ```
            /// use ndarray::array;
            /// use warpsmith::{Device, DeviceArray};
            ///
            /// # fn main() -> warpsmith::Result<()> {
            /// let device = Device::auto()?;
            /// let a = DeviceArray::from_ndarray(device.default_stream(), &array![[1, 2, 3], [4, 5, 6]])?;
            /// let row = DeviceArray::from_ndarray(device.default_stream(), &array![10, 20, 30])?;
            /// assert_eq!(a.add(&row)?.to_ndarray()?, array![[11, 22, 33], [14, 25, 36]]);
            /// let column = DeviceArray::from_ndarray(device.default_stream(), &array![[100], [200], [300]])?;
            /// assert_eq!(a.t().add(&column)?.to_ndarray()?, array![[101, 104], [202, 205], [303, 306]]);
            /// # Ok(())
            /// # }
            /// ```
            "self + other": Add = add add_into add_scalar add_scalar_into;
            "self − other": Sub = sub sub_into sub_scalar sub_scalar_into;
            "self · other": Mul = mul mul_into mul_scalar mul_scalar_into;
            "self / other": Div = div div_into div_scalar div_scalar_into;
            "min(self, other), NaN where either is NaN": Minimum
                = minimum minimum_into minimum_scalar minimum_scalar_into;
            "max(self, other), NaN where either is NaN": Maximum
                = maximum maximum_into maximum_scalar maximum_scalar_into;
            ///
            /// Floats as [`Float::powf`](cuda_std::Float::powf), 16-bit ones computed in `f32`. Integers wrap around on
            /// overflow; a negative exponent gives the reciprocal of the power, rounded towards zero: 1 or −1 for these
            /// bases, 0 for all others, 0 included. `0^0` is 1.
            "self^other": Pow = pow pow_into pow_scalar pow_scalar_into;
        }

        scalar_first_methods! {
            "scalar − self": Sub = scalar_sub scalar_sub_into;
            "scalar / self": Div = scalar_div scalar_div_into;
            "scalar^self": Pow = scalar_pow scalar_pow_into;
        }
    };
}

/// Arithmetic on two operands. Every element is read and written once.
///
/// Arrays of different shapes are broadcast by NumPy's rules, as in ndarray's `&a + &b`: the axes are matched from the
/// last, and one of length 1, or missing, is repeated. Operands that lie in memory as the result does are read in the
/// widest accesses; repeated and permuted ones where they lie, without a copy.
impl<T: Arithmetic, D: Dimension> DeviceArray<T, D> {
    methods!();
}

/// Arithmetic on two operands, as that of [`DeviceArray`].
impl<T: Arithmetic, D: Dimension> DeviceView<'_, T, D> {
    methods!();
}

/// `formula: operator = with array, with scalar`
macro_rules! assign_methods {
    ($($(#[$doc:meta])* $formula:literal: $op:ty = $array:ident $scalar:ident;)*) => {$(
        #[doc = concat!("`self = ", $formula, "`, element by element, in place; `other` is repeated to the shape of `self`.\n")]
        $(#[$doc])*
        ///
        /// # Errors
        ///
        /// [`Error::Shape`] if the other shape does not broadcast to that of `self`, [`Error::DifferentDevices`], and
        /// those of a launch.
        pub fn $array<E: Dimension>(&mut self, other: &impl AsView<T, Dim = E>) -> Result<()> {
            assign_array::<$op, _, _, _>(stringify!($array), self, &other.as_view())
        }

        #[doc = concat!("[`", stringify!($array), "`](Self::", stringify!($array), ") with one number for every element.\n\n# Errors\n\n")]
        /// Those of a launch.
        pub fn $scalar(&mut self, scalar: T) -> Result<()> {
            assign_scalar::<$op, _, _>(self, scalar)
        }
    )*};
}

/// `formula: operator = method`
macro_rules! assign_scalar_first_methods {
    ($($formula:literal: $op:ty = $method:ident;)*) => {$(
        #[doc = concat!("`self = ", $formula, "`, element by element, in place.\n\n# Errors\n\n")]
        /// Those of a launch.
        pub fn $method(&mut self, scalar: T) -> Result<()> {
            assign_scalar_first::<$op, _, _>(self, scalar)
        }
    )*};
}

/// Arithmetic in place. Every element is read and written once, and nothing is allocated.
impl<T: Arithmetic, D: Dimension> DeviceArray<T, D> {
    assign_methods! {
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
        "self + other": Add = add_assign add_assign_scalar;
        "self − other": Sub = sub_assign sub_assign_scalar;
        "self · other": Mul = mul_assign mul_assign_scalar;
        "self / other": Div = div_assign div_assign_scalar;
        "min(self, other)": Minimum = minimum_assign minimum_assign_scalar;
        "max(self, other)": Maximum = maximum_assign maximum_assign_scalar;
        "self^other": Pow = pow_assign pow_assign_scalar;
    }

    assign_scalar_first_methods! {
        "scalar − self": Sub = scalar_sub_assign;
        "scalar / self": Div = scalar_div_assign;
        "scalar^self": Pow = scalar_pow_assign;
    }
}
