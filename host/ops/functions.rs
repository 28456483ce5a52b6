// SPDX-License-Identifier: MIT OR Apache-2.0
//! The functions of floats that have no kernel of their own, whole powers, remainders, and operations on the bits of integers: each is an
//! expression of one operation.

use kernels_gpu::compiled::Number;
use ndarray::{DimMax, Dimension};
use std::ops::{BitAnd, BitOr, BitXor, Rem};

use super::Real;
use super::broadcast::Common;
use crate::array::{DeviceArray, Element};
use crate::array_ref::DeviceArrayRef;
use crate::error::Result;
use crate::expr::{Bits, Promote, Value};

/// Functions of each element, into a new array and into an existing one: `documentation name name_into;`.
macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident $into:ident;)*) => {$(
        $(#[$doc])*
        ///
        /// # Errors
        ///
        /// Those of an allocation and a launch.
        pub fn $name(&self) -> Result<DeviceArray<T, D>> {
            self.expr().$name().eval()
        }

        #[doc = concat!("[`", stringify!($name), "`](Self::", stringify!($name), ") into an existing array or view.")]
        ///
        /// # Errors
        ///
        /// As [`map_into`](Self::map_into).
        pub fn $into(&self, out: &mut DeviceArrayRef<T, D>) -> Result<()> {
            self.fits(stringify!($name), out)?;
            self.expr().$name().eval_into(out)
        }
    )*};
}

/// Questions about each element: `documentation name;`.
macro_rules! questions {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        /// 1 for each element of which it is true, and 0 for others.
        ///
        /// # Errors
        ///
        /// Those of an allocation and a launch.
        pub fn $name(&self) -> Result<DeviceArray<u8, D>> {
            self.expr().$name().eval()
        }
    )*};
}

/// More functions of floats, element by element, with the bits and the error bounds of [`Expr`](crate::Expr)'s by the same names, which
/// are those of [`cuda_std::Float`]. Each is one kernel that reads and writes every element once, and is made when it is first wanted.
/// Of several operations in a row one [expression](crate::expr) makes one kernel; in place each is `x.update(|x| x.floor())`
/// ([`update`](Self::update)).
///
/// # Examples
///
/// ```
/// use ndarray::array;
/// use warpsmith::{Device, DeviceArray};
///
/// # fn main() -> warpsmith::Result<()> {
/// let device = Device::auto()?;
/// let x = DeviceArray::from_ndarray(device.default_stream(), &array![-1.5f32, 0.25, 100.0])?;
/// assert_eq!(x.floor()?.to_ndarray()?, array![-2.0, 0.0, 100.0]);
/// assert_eq!(x.log10()?.is_nan()?.to_ndarray()?, array![1, 0, 0]);
/// # Ok(())
/// # }
/// ```
impl<T: Value<Element = T> + Element + Real, D: Dimension> DeviceArrayRef<T, D> {
    functions! {
        /// `1 / √x`
        rsqrt rsqrt_into;
        /// The cube root.
        cbrt cbrt_into;
        /// `1 / x`
        #[doc(alias = "reciprocal")]
        recip recip_into;
        /// `2^x`
        exp2 exp2_into;
        /// `e^x − 1`
        #[doc(alias = "expm1")]
        exp_m1 exp_m1_into;
        /// The logarithm to base 2.
        log2 log2_into;
        /// The logarithm to base 10.
        log10 log10_into;
        /// `ln(1 + x)`
        #[doc(alias = "log1p")]
        ln_1p ln_1p_into;
        /// The tangent of an angle in radians.
        tan tan_into;
        /// The arc sine.
        #[doc(alias = "arcsin")]
        asin asin_into;
        /// The arc cosine.
        #[doc(alias = "arccos")]
        acos acos_into;
        /// The arc tangent.
        #[doc(alias = "arctan")]
        atan atan_into;
        /// The hyperbolic sine.
        sinh sinh_into;
        /// The hyperbolic cosine.
        cosh cosh_into;
        /// The error function.
        erf erf_into;
        /// `1 − erf x`
        erfc erfc_into;
        /// The greatest whole number that is not greater.
        floor floor_into;
        /// The least whole number that is not less.
        ceil ceil_into;
        /// The nearest whole number, of two the one that is farther from 0 (NumPy's `round` has the even one:
        /// [`round_ties_even`](Self::round_ties_even)).
        round round_into;
        /// The nearest whole number, of two the even one.
        #[doc(alias("rint", "around"))]
        round_ties_even round_ties_even_into;
        /// The whole number towards 0.
        #[doc(alias = "fix")]
        trunc trunc_into;
        /// 1 or −1 with the number's sign, of ±0 too (NumPy's `sign` of 0 is 0); NaN stays NaN.
        #[doc(alias = "sign")]
        signum signum_into;
        /// `x · Φ(x)`, where `Φ` is the normal distribution: as [`Expr::gelu`](crate::Expr::gelu), which says how exactly.
        gelu gelu_into;
        /// GELU's approximation by `tanh`: as [`Expr::gelu_tanh`](crate::Expr::gelu_tanh).
        gelu_tanh gelu_tanh_into;
        /// `x · sigmoid(x)`: as [`Expr::silu`](crate::Expr::silu).
        #[doc(alias = "swish")]
        silu silu_into;
    }

    questions! {
        /// Whether it is NaN:
        #[doc(alias = "isnan")]
        is_nan;
        /// Whether it is neither infinite nor NaN:
        #[doc(alias = "isfinite")]
        is_finite;
        /// Whether it is ∞ or −∞:
        #[doc(alias = "isinf")]
        is_infinite;
    }
}

/// Whole powers.
impl<T: Value<Element = T> + Element + Number, D: Dimension> DeviceArrayRef<T, D> {
    /// The power `x^n` by squaring, as [`Expr::powi`](crate::Expr::powi): of small `n` a few products, where
    /// [`pow_scalar`](Self::pow_scalar) takes a logarithm and an exponential.
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
    /// let x = DeviceArray::from_ndarray(device.default_stream(), &array![2.0f32, -3.0])?;
    /// assert_eq!(x.powi(3)?.to_ndarray()?, array![8.0, -27.0]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn powi(&self, n: i32) -> Result<DeviceArray<T, D>> {
        self.expr().powi(n).eval()
    }
}

/// Functions of two arrays: `documentation name;`.
macro_rules! functions_of_two {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        ///
        /// # Errors
        ///
        /// [`Error::Shape`](crate::Error::Shape) if the shapes do not broadcast together,
        /// [`Error::DifferentDevices`](crate::Error::DifferentDevices), and those of an allocation and a launch.
        pub fn $name<E: Dimension>(&self, other: &DeviceArrayRef<T, E>) -> Result<DeviceArray<T, Common<D, E>>>
        where
            D: DimMax<E>,
        {
            self.expr().$name(other).eval()
        }
    )*};
}

/// Functions of two floats, element by element, broadcast as in NumPy; with one number [expressions](crate::expr) have them,
/// `x.expr().hypot(1.0)`.
///
/// # Examples
///
/// ```
/// use ndarray::array;
/// use warpsmith::{Device, DeviceArray};
///
/// # fn main() -> warpsmith::Result<()> {
/// let device = Device::auto()?;
/// let x = DeviceArray::from_ndarray(device.default_stream(), &array![[3.0f32, -5.0], [8.0, 0.0]])?;
/// let y = DeviceArray::from_ndarray(device.default_stream(), &array![4.0f32, 12.0])?;
/// assert_eq!(x.hypot(&y)?.to_ndarray()?, array![[5.0, 13.0], [8f32.hypot(4.0), 12.0]]);
/// # Ok(())
/// # }
/// ```
impl<T, D: Dimension> DeviceArrayRef<T, D>
where
    T: Value<Element = T> + Element + Real + Promote<T, Output = T>,
{
    functions_of_two! {
        /// `√(x² + y²)` without overflow on the way.
        hypot;
        /// The angle of the point `(y, x)`, of which this is `y` and the other is `x`, in radians from −π to π.
        #[doc(alias = "arctan2")]
        atan2;
        /// The number with the other one's sign.
        copysign;
    }
}

/// Remainders, element by element, broadcast as in NumPy; by one number, `(&x % 3).eval()`.
impl<T, D: Dimension> DeviceArrayRef<T, D>
where
    T: Value<Element = T> + Element + Number + Promote<T, Output = T>,
{
    functions_of_two! {
        /// The remainder of a division rounded towards zero, which has the sign of what is divided, as Rust's `%` and NumPy's `fmod`;
        /// NumPy's `%` and `mod` have the divisor's. Of integers it is 0 by zero; of floats NaN.
        ///
        /// # Examples
        ///
        /// ```
        /// use ndarray::array;
        /// use warpsmith::{Device, DeviceArray};
        ///
        /// # fn main() -> warpsmith::Result<()> {
        /// let device = Device::auto()?;
        /// let x = DeviceArray::from_ndarray(device.default_stream(), &array![7, -7, 7])?;
        /// let y = DeviceArray::from_ndarray(device.default_stream(), &array![3, 3, 0])?;
        /// assert_eq!(x.rem(&y)?.to_ndarray()?, array![1, -1, 0]);
        /// # Ok(())
        /// # }
        /// ```
        #[doc(alias = "fmod")]
        rem;
    }
}

/// Operations on the bits of integers, masks among them, element by element, broadcast as in NumPy; with one number
/// [expressions](crate::expr) have them, `(&x & 0xff).eval()` and `x.expr().shl(3)`.
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
/// let is_between = x.greater_scalar(1.5)?.bitand(&x.less_scalar(2.5)?)?;
/// assert_eq!(is_between.to_ndarray()?, array![0, 1, 0]);
/// # Ok(())
/// # }
/// ```
impl<T, D: Dimension> DeviceArrayRef<T, D>
where
    T: Value<Element = T> + Element + Number + Bits + Promote<T, Output = T>,
{
    functions_of_two! {
        /// The bits that both have.
        #[doc(alias("bitwise_and", "logical_and"))]
        bitand;
        /// The bits that either has.
        #[doc(alias("bitwise_or", "logical_or"))]
        bitor;
        /// The bits that one of them has, and not the other.
        #[doc(alias("bitwise_xor", "logical_xor"))]
        bitxor;
        /// Shifted to the left by as many places: as [`Expr::shl`](crate::Expr::shl).
        #[doc(alias = "left_shift")]
        shl;
        /// Shifted to the right by as many places: as [`Expr::shr`](crate::Expr::shr).
        #[doc(alias = "right_shift")]
        shr;
    }

    /// All bits inverted. A mask's 1 becomes 254, which is true as well: the opposite of a mask is `mask.equal_scalar(0)`.
    ///
    /// # Errors
    ///
    /// Those of an allocation and a launch.
    #[doc(alias("invert", "bitwise_not"))]
    pub fn not(&self) -> Result<DeviceArray<T, D>> {
        (!self.expr()).eval()
    }
}
