// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which device function computes an operation on numbers of a type.

use cuda_std::scalar::ScalarType;
use kernels_gpu::function::{
    number_binary, number_bits, number_cast, number_cast_wrapping, number_clamp, number_compare, number_mul_add,
    number_narrow, number_narrow_div, number_predicate, number_random, number_random_integer, number_random_normal,
    number_rare, number_select, number_unary,
};
use kernels_gpu::op;

use crate::backend::DeviceFnInfo;

/// A function as a value.
macro_rules! info {
    ($function:ty) => {
        const { &DeviceFnInfo::of::<$function>() }
    };
}

/// The names of operations, which errors give.
macro_rules! names {
    ($type:ident: $($variant:ident = $name:literal),* $(,)?) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(in crate::expr) enum $type {
            $($variant,)*
        }

        impl $type {
            #[cfg(test)]
            pub(in crate::expr) const ALL: &[Self] = &[$(Self::$variant),*];

            pub(in crate::expr) const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }
    };
}

names! {
    Unary:
    Neg = "neg", Abs = "abs", Square = "square", Relu = "relu", Not = "not",
    Sqrt = "sqrt", Rsqrt = "rsqrt", Cbrt = "cbrt", Recip = "recip",
    Exp = "exp", Exp2 = "exp2", ExpM1 = "exp_m1", Ln = "ln", Log2 = "log2", Log10 = "log10", Ln1p = "ln_1p",
    Sin = "sin", Cos = "cos", Tan = "tan", Asin = "asin", Acos = "acos", Atan = "atan",
    Sinh = "sinh", Cosh = "cosh", Tanh = "tanh", Sigmoid = "sigmoid", Erf = "erf", Erfc = "erfc",
    Floor = "floor", Ceil = "ceil", Round = "round", RoundTiesEven = "round_ties_even", Trunc = "trunc", Signum = "signum",
    Gelu = "gelu", GeluTanh = "gelu_tanh", Silu = "silu",
    IsNan = "is_nan", IsFinite = "is_finite", IsInfinite = "is_infinite",
}

names! {
    Binary:
    Add = "add", Sub = "sub", Mul = "mul", Div = "div", Rem = "rem",
    Minimum = "minimum", Maximum = "maximum", Pow = "pow", Atan2 = "atan2", Hypot = "hypot", Copysign = "copysign",
    BitAnd = "bitand", BitOr = "bitor", BitXor = "bitxor", Shl = "shl", Shr = "shr",
    Equal = "equal", NotEqual = "not_equal", Less = "less", LessEqual = "less_equal",
}

names! {
    Ternary:
    MulAdd = "mul_add", Clamp = "clamp", Select = "select",
}

impl Unary {
    /// Whether it gives a `bool`.
    pub(super) fn is_predicate(self) -> bool {
        matches!(self, Self::IsNan | Self::IsFinite | Self::IsInfinite)
    }

    /// Whether it leaves a number of that type as it is.
    pub(super) fn is_identity(self, ty: ScalarType) -> bool {
        match self {
            Self::Abs | Self::Relu => {
                matches!(ty, ScalarType::U8 | ScalarType::U16 | ScalarType::U32 | ScalarType::U64)
            }
            Self::Floor | Self::Ceil | Self::Round | Self::RoundTiesEven | Self::Trunc => !is_float(ty),
            _ => false,
        }
    }
}

impl Binary {
    /// Whether it gives a `bool`.
    pub(super) fn is_comparison(self) -> bool {
        matches!(self, Self::Equal | Self::NotEqual | Self::Less | Self::LessEqual)
    }
}

/// Whether it is a type of floats that is computed with.
pub(in crate::expr) const fn is_float(ty: ScalarType) -> bool {
    matches!(
        ty,
        ScalarType::F16 | ScalarType::Bf16 | ScalarType::F32 | ScalarType::F64
    )
}

/// The unsigned integer of as many bytes.
pub(in crate::expr) const fn bits_of(ty: ScalarType) -> ScalarType {
    match ty.bytes() {
        1 => ScalarType::U8,
        2 => ScalarType::U16,
        4 => ScalarType::U32,
        _ => ScalarType::U64,
    }
}

/// The function of a family for a type, by the type's name in the family's list; none for others.
macro_rules! of_types {
    ($ty:expr; $($variant:ident),*; $function:ident $($op:ident)?) => {
        of_types!(@each $ty; $($variant),*; $function [$($op)?])
    };
    (@each $ty:expr; $($variant:ident),*; $function:ident $op:tt) => {
        match $ty {
            $(ScalarType::$variant => Some(of_types!(@one $variant $function $op)),)*
            _ => None,
        }
    };
    (@one $variant:ident $function:ident [$op:ident]) => { info!($function<types::$variant, op::$op>) };
    (@one $variant:ident $function:ident []) => { info!($function<types::$variant>) };
}

/// The types by the names that [`ScalarType`] has for them.
mod types {
    pub(in crate::expr) type Bool = bool;
    pub(in crate::expr) type I32 = i32;
    pub(in crate::expr) type I64 = i64;
    pub(in crate::expr) type U8 = u8;
    pub(in crate::expr) type U16 = u16;
    pub(in crate::expr) type U32 = u32;
    pub(in crate::expr) type U64 = u64;
    pub(in crate::expr) type F16 = half::f16;
    pub(in crate::expr) type F32 = f32;
    pub(in crate::expr) type F64 = f64;
}

/// The type whose functions serve this one: where signs make no difference, that of unsigned integers.
const fn unsigned(ty: ScalarType) -> ScalarType {
    match ty {
        ScalarType::I8 | ScalarType::I16 | ScalarType::I32 | ScalarType::I64 => bits_of(ty),
        _ => ty,
    }
}

/// The function for `operator` of a number of that type. None of 16-bit floats, but for their signs.
pub(in crate::expr) fn unary(operator: Unary, ty: ScalarType) -> Option<&'static DeviceFnInfo> {
    macro_rules! floats {
        (rare of f32: $($rare:ident),*; $($variant:ident),*) => {
            match operator {
                $(Unary::$rare if ty == ScalarType::F32 => Some(info!(number_rare<op::$rare>)),)*
                $(Unary::$rare => of_types!(ty; F64; number_unary $rare),)*
                $(Unary::$variant => of_types!(ty; F32, F64; number_unary $variant),)*
                Unary::IsNan => of_types!(ty; F32, F64; number_predicate IsNan),
                Unary::IsFinite => of_types!(ty; F32, F64; number_predicate IsFinite),
                Unary::IsInfinite => of_types!(ty; F32, F64; number_predicate IsInfinite),
                Unary::Neg => {
                    let ty = if let ScalarType::Bf16 = ty { ScalarType::F16 } else { unsigned(ty) };
                    of_types!(ty; F32, F64, F16, U8, U16, U32, U64; number_unary Neg)
                }
                Unary::Abs => {
                    let ty = if let ScalarType::Bf16 = ty { ScalarType::F16 } else { ty };
                    of_types!(ty; F32, F64, F16, I32, I64; number_unary Abs)
                }
                Unary::Square => of_types!(unsigned(ty); F32, F64, U8, U16, U32, U64; number_unary Square),
                Unary::Relu => of_types!(ty; F32, F64, I32, I64; number_unary Relu),
                Unary::Not => of_types!(unsigned(ty); Bool, U8, U16, U32, U64; number_unary Not),
            }
        };
    }
    floats!(
        rare of f32: Sqrt, Rsqrt, Cbrt, Exp2, Ln, Log2, Log10;
        Recip,
        Exp,
        ExpM1,
        Ln1p,
        Sin,
        Cos,
        Tan,
        Asin,
        Acos,
        Atan,
        Sinh,
        Cosh,
        Tanh,
        Sigmoid,
        Erf,
        Erfc,
        Floor,
        Ceil,
        Round,
        RoundTiesEven,
        Trunc,
        Signum,
        Gelu,
        GeluTanh,
        Silu
    )
}

/// The function for `operator` of two numbers of that type; none of 16-bit floats.
pub(in crate::expr) fn binary(operator: Binary, ty: ScalarType) -> Option<&'static DeviceFnInfo> {
    macro_rules! operators {
        ($($variant:ident: $function:ident of $ty:expr => $($of:ident)*;)*) => {
            match operator {
                $(Binary::$variant => of_types!($ty; $($of),*; $function $variant),)*
            }
        };
    }
    let of_bits = match ty {
        ScalarType::F16 | ScalarType::Bf16 | ScalarType::F32 | ScalarType::F64 => ty,
        _ => bits_of(ty),
    };
    let shifted = if let Binary::Shr = operator { ty } else { of_bits };
    operators! {
        Add: number_binary of unsigned(ty) => F32 F64 U8 U16 U32 U64;
        Sub: number_binary of unsigned(ty) => F32 F64 U8 U16 U32 U64;
        Mul: number_binary of unsigned(ty) => F32 F64 U8 U16 U32 U64;
        Div: number_binary of ty => F32 F64 I32 I64 U8 U16 U32 U64;
        Rem: number_binary of ty => F32 F64 I32 I64 U8 U16 U32 U64;
        Minimum: number_binary of ty => F32 F64 I32 I64 U8 U16 U32 U64;
        Maximum: number_binary of ty => F32 F64 I32 I64 U8 U16 U32 U64;
        Pow: number_binary of ty => F32 F64 I32 I64 U8 U16 U32 U64;
        Atan2: number_binary of ty => F32 F64;
        Hypot: number_binary of ty => F32 F64;
        Copysign: number_binary of ty => F32 F64;
        BitAnd: number_bits of of_bits => U8 U16 U32 U64;
        BitOr: number_bits of of_bits => U8 U16 U32 U64;
        BitXor: number_bits of of_bits => U8 U16 U32 U64;
        Shl: number_bits of of_bits => U8 U16 U32 U64;
        Shr: number_bits of shifted => I32 I64 U8 U16 U32 U64;
        Equal: number_compare of of_bits => F32 F64 U8 U16 U32 U64;
        NotEqual: number_compare of of_bits => F32 F64 U8 U16 U32 U64;
        Less: number_compare of ty => F32 F64 I32 I64 U8 U16 U32 U64;
        LessEqual: number_compare of ty => F32 F64 I32 I64 U8 U16 U32 U64;
    }
}

/// The function for `operator` of three numbers, the last of which is of that type; none of 16-bit floats, but for a
/// selection.
pub(in crate::expr) fn ternary(operator: Ternary, ty: ScalarType) -> Option<&'static DeviceFnInfo> {
    match operator {
        Ternary::MulAdd => of_types!(unsigned(ty); F32, F64, U8, U16, U32, U64; number_mul_add),
        Ternary::Clamp => of_types!(ty; F32, F64, I32, I64, U8, U16, U32, U64; number_clamp),
        Ternary::Select => of_types!(bits_of(ty); U8, U16, U32, U64; number_select),
    }
}

/// The operators that `f16` has functions of its own for.
macro_rules! narrow_operators {
    ($($variant:ident)*) => {
        const NARROW_UNARY: &[Unary] = &[$(Unary::$variant),*];

        fn unary_of_f16(operator: Unary) -> Option<&'static DeviceFnInfo> {
            match operator {
                $(Unary::$variant => Some(info!(number_narrow<half::f16, op::$variant>)),)*
                _ => None,
            }
        }
    };
}

narrow_operators!(
    Sqrt Rsqrt Cbrt Recip Exp Exp2 ExpM1 Ln Log2 Log10 Sin Cos Tan Acos Sinh Cosh Tanh Sigmoid Erf Erfc
);

/// The function for `operator` of a 16-bit float, from `f32` to the `f32` that is to be rounded, if it is not that of `f32`.
pub(super) fn narrow_unary(operator: Unary, ty: ScalarType) -> Option<&'static DeviceFnInfo> {
    match (ty, operator) {
        (ScalarType::F16, _) | (ScalarType::Bf16, Unary::Acos | Unary::Tanh | Unary::Erf) => unary_of_f16(operator),
        _ => None,
    }
}

/// As [`narrow_unary`], of two.
pub(super) fn narrow_binary(operator: Binary, ty: ScalarType) -> Option<&'static DeviceFnInfo> {
    (operator == Binary::Div && ty == ScalarType::F16).then_some(info!(number_narrow_div))
}

/// The function of `f32` in place of one of a 16-bit float.
pub(in crate::expr) fn of_f32(narrow: &DeviceFnInfo) -> Option<&'static DeviceFnInfo> {
    if *info!(number_narrow_div) == *narrow {
        return binary(Binary::Div, ScalarType::F32);
    }
    let operator = NARROW_UNARY
        .iter()
        .find(|operator| unary_of_f16(**operator) == Some(narrow))?;
    unary(*operator, ScalarType::F32)
}

/// What a random number is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::expr) enum Random {
    /// Bits, those of an unsigned integer.
    Bits,
    /// The normal distribution.
    Normal,
    /// The integers of a range.
    Integer,
}

/// The function for random numbers of a type with 32 or 64 bits.
pub(in crate::expr) fn random(of: Random, ty: ScalarType) -> &'static DeviceFnInfo {
    let is_wide = ty.bytes() == 8;
    match of {
        Random::Bits if is_wide => info!(number_random<u64>),
        Random::Bits => info!(number_random<u32>),
        Random::Normal if is_wide => info!(number_random_normal<f64>),
        Random::Normal => info!(number_random_normal<f32>),
        Random::Integer if is_wide => info!(number_random_integer<u64>),
        Random::Integer => info!(number_random_integer<u32>),
    }
}

/// The function that makes an `f32` or `f64` an integer modulo 2^64.
pub(super) fn cast_wrapping(ty: ScalarType) -> &'static DeviceFnInfo {
    match ty {
        ScalarType::F64 => info!(number_cast_wrapping<f64>),
        _ => info!(number_cast_wrapping<f32>),
    }
}

/// The functions that make a number of one type one of another, one after another: see [`number_cast`]. None where the bits
/// are the same.
pub(in crate::expr) fn casts(from: ScalarType, to: ScalarType) -> Vec<&'static DeviceFnInfo> {
    let mut functions = Vec::new();
    let mut at = from;
    while at != to {
        let Some((function, next)) = cast_step(at, to) else {
            break;
        };
        functions.push(function);
        at = next;
    }
    functions
}

/// The 16-bit float that a function casts to `f32`.
pub(in crate::expr) fn widened(function: &DeviceFnInfo) -> Option<ScalarType> {
    NARROW.into_iter().find(|&ty| is_cast(function, ty, ScalarType::F32))
}

/// The 16-bit float that a function rounds an `f32` to.
pub(in crate::expr) fn rounded(function: &DeviceFnInfo) -> Option<ScalarType> {
    NARROW.into_iter().find(|&ty| is_cast(function, ScalarType::F32, ty))
}

/// Whether a function is the whole cast.
fn is_cast(function: &DeviceFnInfo, from: ScalarType, to: ScalarType) -> bool {
    cast_step(from, to).is_some_and(|(step, reached)| reached == to && step == function)
}

const NARROW: [ScalarType; 2] = [ScalarType::F16, ScalarType::Bf16];

/// The first step of a cast, and the type that is reached by it; none where the bits are the number already.
pub(super) fn cast_step(from: ScalarType, to: ScalarType) -> Option<(&'static DeviceFnInfo, ScalarType)> {
    use ScalarType::{Bf16, Bool, F8E4M3, F8E5M2, F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64};
    macro_rules! step {
        ($from:ty => $($name:ident $to:ty),*) => {
            match to {
                $($name => Some((info!(number_cast<$from, $to>), $name)),)*
                _ => None,
            }
        };
        ($from:ty as $name:ident $to:ty) => {
            Some((info!(number_cast<$from, $to>), $name))
        };
    }
    use cuda_std::float8::{F8E4M3 as E4m3, F8E5M2 as E5m2};
    use half::{bf16, f16};
    let is_float = matches!(to, F16 | Bf16 | F32 | F64 | F8E4M3 | F8E5M2);
    match from {
        Bool => step!(bool as U32 u32),
        I8 | U8 if to.bytes() == 1 && !is_float => None,
        I16 | U16 if to.bytes() == 2 && !is_float => None,
        I8 => step!(i8 as I32 i32),
        I16 => step!(i16 as I32 i32),
        U8 => step!(u8 as U32 u32),
        U16 => step!(u16 as U32 u32),
        I32 | U32 => match to {
            I32 | U32 => None,
            U8 | I8 => Some((info!(number_cast<u32, u8>), to)),
            U16 | I16 => Some((info!(number_cast<u32, u16>), to)),
            F8E4M3 | F8E5M2 if from == I32 => step!(i32 as F32 f32),
            F8E4M3 | F8E5M2 => step!(u32 as F32 f32),
            I64 | U64 if from == I32 => Some((info!(number_cast<i32, u64>), to)),
            I64 | U64 => Some((info!(number_cast<u32, u64>), to)),
            _ if from == I32 => step!(i32 => F32 f32, F64 f64, F16 f16, Bf16 bf16),
            _ => step!(u32 => F32 f32, F64 f64, F16 f16, Bf16 bf16),
        },
        I64 | U64 => match to {
            I64 | U64 => None,
            F8E4M3 | F8E5M2 if from == I64 => step!(i64 as F32 f32),
            F8E4M3 | F8E5M2 => step!(u64 as F32 f32),
            _ if !is_float => step!(u64 as U32 u32),
            _ if from == I64 => step!(i64 => F32 f32, F64 f64, F16 f16, Bf16 bf16),
            _ => step!(u64 => F32 f32, F64 f64, F16 f16, Bf16 bf16),
        },
        F32 => step!(
            f32 => F64 f64, F16 f16, Bf16 bf16, F8E4M3 E4m3, F8E5M2 E5m2, I8 i8, I16 i16, I32 i32, I64 i64, U8 u8, U16 u16,
            U32 u32, U64 u64
        ),
        F64 if matches!(to, F8E4M3 | F8E5M2) => step!(f64 as F32 f32),
        F64 => step!(
            f64 => F32 f32, F16 f16, Bf16 bf16, I8 i8, I16 i16, I32 i32, I64 i64, U8 u8, U16 u16, U32 u32, U64 u64
        ),
        F16 => step!(f16 as F32 f32),
        Bf16 => step!(bf16 as F32 f32),
        F8E4M3 => step!(E4m3 as F32 f32),
        F8E5M2 => step!(E5m2 as F32 f32),
    }
}
