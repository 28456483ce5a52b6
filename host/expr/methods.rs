// SPDX-License-Identifier: MIT OR Apache-2.0
//! The functions that expressions have as methods: those of arrays, by the same names.

use cuda_std::scalar::Scalar;
use kernels_gpu::compiled::{Number, Real};
use ndarray::{DimMax, Dimension};

use super::Expr;
use super::graph::function::{Binary, Ternary, Unary};
use super::graph::{Part, binary, cast, one, repeated, ternary, unary};
use super::operand::{IntoExpr, Operand};
use super::operators::{Bits, Common, Common3, together};
use super::value::Value;

/// Methods of one number: `documentation name: operator;`.
macro_rules! unary_methods {
    ($($(#[$doc:meta])* $name:ident: $operator:ident;)*) => {$(
        $(#[$doc])*
        pub fn $name(&self) -> Self {
            Self::of(self.part.clone().and_then(|x| unary(Unary::$operator, x)))
        }
    )*};
}

/// Methods of two numbers, in the type that they have together: `documentation name: operator;`.
macro_rules! binary_methods {
    ($($(#[$doc:meta])* $name:ident: $operator:ident;)*) => {$(
        $(#[$doc])*
        pub fn $name<R: Operand<'a, T>>(&self, other: R) -> Expr<'a, R::Together, Common<D, R::Dim>>
        where
            D: DimMax<R::Dim>,
        {
            Expr::of(together::<R::Together>(Binary::$operator, self.part.clone(), other.operand().0))
        }
    )*};
}

/// Comparisons: `documentation name: operator [left, right] of a, b;`.
macro_rules! comparisons {
    ($($(#[$doc:meta])* $name:ident: $operator:ident [$left:ident, $right:ident] of $a:ident, $b:ident;)*) => {$(
        $(#[$doc])*
        pub fn $name<R: Operand<'a, T>>(&self, other: R) -> Expr<'a, bool, Common<D, R::Dim>>
        where
            D: DimMax<R::Dim>,
        {
            let ($a, $b) = (self.part.clone(), other.operand().0);
            Expr::of(together::<R::Together>(Binary::$operator, $left, $right))
        }
    )*};
}

/// What every number has.
impl<'a, T: Value + Number, D: Dimension> Expr<'a, T, D> {
    unary_methods! {
        /// `|x|` (the least integer, which has none, stays what it is).
        #[doc(alias = "absolute")]
        abs: Abs;
        /// `x²`
        square: Square;
        /// `max(x, 0)`; NaN stays NaN.
        relu: Relu;
    }

    binary_methods! {
        /// The smaller; NaN if either is NaN, as NumPy's `minimum`.
        minimum: Minimum;
        /// The larger; NaN if either is NaN, as NumPy's `maximum`.
        maximum: Maximum;
        /// The power `x^y`, as [`pow`](crate::DeviceArrayRef::pow) of arrays.
        #[doc(alias = "power")]
        pow: Pow;
    }

    comparisons! {
        /// `x < y`, as IEEE 754 says: not if either is NaN.
        less: Less [a, b] of a, b;
        /// `x ≤ y`, as IEEE 754 says: not if either is NaN.
        less_equal: LessEqual [a, b] of a, b;
        /// `x > y`, as IEEE 754 says: not if either is NaN.
        greater: Less [b, a] of a, b;
        /// `x ≥ y`, as IEEE 754 says: not if either is NaN.
        greater_equal: LessEqual [b, a] of a, b;
        /// `x = y`: not for NaN, and −0 equals 0.
        equal: Equal [a, b] of a, b;
        /// `x ≠ y`: also where either is NaN.
        not_equal: NotEqual [a, b] of a, b;
    }

    /// The power `x^n` by squaring, rounded at each product; the reciprocal of `x^−n` where `n` is negative.
    ///
    /// # Examples
    ///
    /// ```
    /// use warpsmith::ndarray::array;
    /// use warpsmith::{Device, DeviceArray};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let x = DeviceArray::from_ndarray(device.default_stream(), &array![2.0f32, -3.0])?;
    /// assert_eq!(x.expr().powi(3).eval()?.to_ndarray()?, array![8.0, -27.0]);
    /// assert_eq!(x.expr().powi(-1).eval()?.to_ndarray()?, array![0.5, -1.0 / 3.0]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn powi(&self, n: i32) -> Self {
        let part = self.part.clone().and_then(|x| {
            let one = one(x.ty)?;
            let (mut power, mut square, mut rest) = (None, x, n.unsigned_abs());
            while rest > 0 {
                if rest & 1 != 0 {
                    power = Some(match power {
                        None => square.clone(),
                        Some(power) => binary(Binary::Mul, power, square.clone())?,
                    });
                }
                rest >>= 1;
                if rest > 0 {
                    square = unary(Unary::Square, square)?;
                }
            }
            match power {
                None => Ok(repeated(one, &square)),
                Some(power) if n < 0 => binary(Binary::Div, one, power),
                Some(power) => Ok(power),
            }
        });
        Self::of(part)
    }

    /// `x · factor + summand`: of floats with one rounding (of 16-bit floats one in `f32`, whose result is rounded to 16 bits).
    /// All three are of one type.
    #[doc(alias = "fma")]
    pub fn mul_add<E: Dimension, F: Dimension>(
        &self,
        factor: impl Operand<'a, T, Together = T, Dim = E>,
        summand: impl Operand<'a, T, Together = T, Dim = F>,
    ) -> Expr<'a, T, Common3<D, E, F>>
    where
        D: DimMax<E>,
        Common<D, E>: DimMax<F>,
    {
        let parts = [self.part.clone(), factor.operand().0, summand.operand().0];
        Expr::of(of_three::<T>(Ternary::MulAdd, parts))
    }

    /// Each number, or the limit that it is beyond: `low` for one that is less, `high` for one that is greater. NaN stays NaN.
    ///
    /// Where `low` is greater than `high`, it is `low` for numbers below it and `high` for others.
    #[doc(alias = "clip")]
    pub fn clamp<E: Dimension, F: Dimension>(
        &self,
        low: impl Operand<'a, T, Together = T, Dim = E>,
        high: impl Operand<'a, T, Together = T, Dim = F>,
    ) -> Expr<'a, T, Common3<D, E, F>>
    where
        D: DimMax<E>,
        Common<D, E>: DimMax<F>,
    {
        let parts = [self.part.clone(), low.operand().0, high.operand().0];
        Expr::of(of_three::<T>(Ternary::Clamp, parts))
    }
}

/// `operator` of three parts, the first of which has the type of the others, `T`.
fn of_three<'a, T: Scalar>(operator: Ternary, [a, b, c]: [Part<'a>; 3]) -> Part<'a> {
    ternary(operator, [cast(a?, T::TYPE)?, cast(b?, T::TYPE)?, cast(c?, T::TYPE)?])
}

/// What floats have: the functions of [`Float`](cuda_std::Float), with the same accuracy.
impl<'a, T: Value + Real, D: Dimension> Expr<'a, T, D> {
    unary_methods! {
        /// The square root.
        sqrt: Sqrt;
        /// `1 / √x`
        rsqrt: Rsqrt;
        /// The cube root.
        cbrt: Cbrt;
        /// `1 / x`
        #[doc(alias = "reciprocal")]
        recip: Recip;
        /// `e^x`
        exp: Exp;
        /// `2^x`
        exp2: Exp2;
        /// `e^x − 1`
        #[doc(alias = "expm1")]
        exp_m1: ExpM1;
        /// The natural logarithm.
        #[doc(alias = "log")]
        ln: Ln;
        /// The logarithm to base 2.
        log2: Log2;
        /// The logarithm to base 10.
        log10: Log10;
        /// `ln(1 + x)`
        #[doc(alias = "log1p")]
        ln_1p: Ln1p;
        /// The sine of an angle in radians.
        sin: Sin;
        /// The cosine of an angle in radians.
        cos: Cos;
        /// The tangent of an angle in radians.
        tan: Tan;
        /// The arc sine.
        #[doc(alias = "arcsin")]
        asin: Asin;
        /// The arc cosine.
        #[doc(alias = "arccos")]
        acos: Acos;
        /// The arc tangent.
        #[doc(alias = "arctan")]
        atan: Atan;
        /// The hyperbolic sine.
        sinh: Sinh;
        /// The hyperbolic cosine.
        cosh: Cosh;
        /// The hyperbolic tangent.
        tanh: Tanh;
        /// `1 / (1 + e^−x)`
        sigmoid: Sigmoid;
        /// The error function.
        erf: Erf;
        /// `1 − erf x`
        erfc: Erfc;
        /// The greatest whole number that is not greater.
        floor: Floor;
        /// The least whole number that is not less.
        ceil: Ceil;
        /// The nearest whole number, of two the one that is farther from 0.
        round: Round;
        /// The nearest whole number, of two the even one.
        #[doc(alias("rint", "around"))]
        round_ties_even: RoundTiesEven;
        /// The whole number towards 0.
        #[doc(alias = "fix")]
        trunc: Trunc;
        /// 1 or −1 with the number's sign, of ±0 too; NaN stays NaN.
        #[doc(alias = "sign")]
        signum: Signum;
        /// `x · Φ(x)`, where `Φ` is the normal distribution: the GELU of D. Hendrycks and K. Gimpel. As
        /// [`FusedMatMul`](crate::ops::FusedMatMul) has it, with its [error](crate::ops::FusedMatMul::silu): of `f32` and 16-bit
        /// floats a GPU has other last bits than the simulated one.
        gelu: Gelu;
        /// GELU's approximation by `tanh`, computed as [`gelu`](Self::gelu).
        gelu_tanh: GeluTanh;
        /// `x · sigmoid(x)`, computed as [`gelu`](Self::gelu).
        silu: Silu;
    }

    binary_methods! {
        /// The angle of the point `(y, x)`, of which this is `y` and `x` is given, in radians from −π to π.
        #[doc(alias = "arctan2")]
        atan2: Atan2;
        /// `√(x² + y²)` without overflow on the way.
        hypot: Hypot;
        /// The number with the other one's sign.
        copysign: Copysign;
    }

    /// Whether it is NaN.
    #[doc(alias = "isnan")]
    pub fn is_nan(&self) -> Expr<'a, bool, D> {
        Expr::of(self.part.clone().and_then(|x| unary(Unary::IsNan, x)))
    }

    /// Whether it is neither infinite nor NaN.
    #[doc(alias = "isfinite")]
    pub fn is_finite(&self) -> Expr<'a, bool, D> {
        Expr::of(self.part.clone().and_then(|x| unary(Unary::IsFinite, x)))
    }

    /// Whether it is ∞ or −∞.
    #[doc(alias = "isinf")]
    pub fn is_infinite(&self) -> Expr<'a, bool, D> {
        Expr::of(self.part.clone().and_then(|x| unary(Unary::IsInfinite, x)))
    }
}

/// What integers and `bool` have beside the operators.
impl<'a, T: Value + Bits + Number, D: Dimension> Expr<'a, T, D> {
    binary_methods! {
        /// Shifted to the left by as many places, as NumPy's: 0 from as many on as the type has bits, and for a negative number.
        #[doc(alias = "left_shift")]
        shl: Shl;
        /// Shifted to the right by as many places, as NumPy's; signed numbers keep their sign. From as many places on as the type has
        /// bits, and for a negative number, nothing but the sign is left: 0, or −1.
        #[doc(alias = "right_shift")]
        shr: Shr;
    }
}

/// What all have.
impl<'a, T: Value, D: Dimension> Expr<'a, T, D> {
    /// The number in another type, as Rust's `as`: integers wrap, floats are rounded, a float becomes the nearest integer
    /// towards zero that the type has, and NaN becomes 0; `true` is 1.
    #[doc(alias = "astype")]
    pub fn cast<U: Value + Number>(&self) -> Expr<'a, U, D> {
        Expr::of(self.part.clone().and_then(|x| cast(x, U::TYPE)))
    }
}

/// Conditions.
impl<'a, D: Dimension> Expr<'a, bool, D> {
    /// `a` where the condition holds, else `b`, in the type that both have together: NumPy's `where`. Either is an expression, a
    /// reference to an array, or a number; where `a` is a number, it says of what type (`0.0f32`).
    ///
    /// # Examples
    ///
    /// ```
    /// use warpsmith::ndarray::array;
    /// use warpsmith::{Device, DeviceArray};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let x = DeviceArray::from_ndarray(device.default_stream(), &array![4.0f32, -1.0])?;
    /// let root = x.expr().less(0.0).select(x.expr() * 0.0, x.expr().sqrt());
    /// assert_eq!(root.eval()?.to_ndarray()?, array![2.0, 0.0]);
    /// let black_and_white = x.expr().greater(1.5).select(255u8, 0);
    /// assert_eq!(black_and_white.eval()?.to_ndarray()?, array![255, 0]);
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "where")]
    pub fn select<A: IntoExpr<'a>, R: Operand<'a, A::Value>>(
        &self,
        a: A,
        b: R,
    ) -> Expr<'a, R::Together, Common3<D, A::Dim, R::Dim>>
    where
        D: DimMax<A::Dim>,
        Common<D, A::Dim>: DimMax<R::Dim>,
    {
        let (condition, a, b) = (self.part.clone(), a.hidden().0, b.operand().0);
        let ty = R::Together::TYPE;
        let select = || ternary(Ternary::Select, [condition?, cast(a?, ty)?, cast(b?, ty)?]);
        Expr::of(select())
    }
}
