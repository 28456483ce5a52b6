// SPDX-License-Identifier: MIT OR Apache-2.0
//! The numbers that a [device function](crate::device_fn) takes and gives, and their types as values.

use half::{bf16, f16};

use crate::float8::{F8E4M3, F8E5M2};

/// Which [`Scalar`] a type is.
///
/// ```
/// use cuda_std::half::f16;
/// use cuda_std::scalar::{Scalar, ScalarType};
///
/// assert_eq!(f16::TYPE, ScalarType::F16);
/// assert_eq!((f16::TYPE.name(), f16::TYPE.bytes()), ("f16", 2));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum ScalarType {
    /// `bool`, a byte that is 0 or 1.
    Bool,
    /// `i8`
    I8,
    /// `i16`
    I16,
    /// `i32`
    I32,
    /// `i64`
    I64,
    /// `u8`
    U8,
    /// `u16`
    U16,
    /// `u32`
    U32,
    /// `u64`
    U64,
    /// [`f16`](struct@f16)
    F16,
    /// [`bf16`]
    Bf16,
    /// `f32`
    F32,
    /// `f64`
    F64,
    /// [`F8E4M3`]
    F8E4M3,
    /// [`F8E5M2`]
    F8E5M2,
}

impl ScalarType {
    /// The bytes of a value.
    pub const fn bytes(self) -> usize {
        match self {
            Self::Bool | Self::I8 | Self::U8 | Self::F8E4M3 | Self::F8E5M2 => 1,
            Self::I16 | Self::U16 | Self::F16 | Self::Bf16 => 2,
            Self::I32 | Self::U32 | Self::F32 => 4,
            Self::I64 | Self::U64 | Self::F64 => 8,
        }
    }

    /// The name of the type in Rust.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bool => "bool",
            Self::I8 => "i8",
            Self::I16 => "i16",
            Self::I32 => "i32",
            Self::I64 => "i64",
            Self::U8 => "u8",
            Self::U16 => "u16",
            Self::U32 => "u32",
            Self::U64 => "u64",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
            Self::F32 => "f32",
            Self::F64 => "f64",
            Self::F8E4M3 => "F8E4M3",
            Self::F8E5M2 => "F8E5M2",
        }
    }
}

/// A number that a [device function](crate::device_fn) takes or gives: `bool`, an integer, `f32`, `f64`, a 16-bit float or an
/// 8-bit one.
///
/// On a GPU it is passed by its bits in a register of 32 or 64 bits, the upper ones of a smaller number zero.
#[diagnostic::on_unimplemented(
    message = "a device function neither takes nor gives `{Self}`",
    label = "this is no `Scalar`",
    note = "a device function takes numbers by value: `bool`, `i8` to `u64`, `f16`, `bf16`, `f32`, `f64`, `F8E4M3`, `F8E5M2`"
)]
pub trait Scalar: sealed::Sealed + Copy + Send + Sync + 'static {
    /// Its type as a value, which says how many bytes it has.
    const TYPE: ScalarType;

    /// `u32`, of numbers of 8 bytes `u64`.
    type Register: Copy;

    /// The bits.
    fn to_register(self) -> Self::Register;

    /// The number of those bits; the upper ones of a smaller number do not count.
    fn from_register(register: Self::Register) -> Self;
}

mod sealed {
    /// What [`ScalarType`](super::ScalarType) says of a type, unsafe code relies on.
    pub trait Sealed {}
}

macro_rules! scalars {
    ($($type:ty: $name:ident, $register:ty, |$x:ident| $to:expr, |$bits:ident| $from:expr;)*) => {$(
        impl sealed::Sealed for $type {}

        impl Scalar for $type {
            const TYPE: ScalarType = ScalarType::$name;
            type Register = $register;

            #[inline(always)]
            fn to_register(self) -> $register {
                let $x = self;
                $to
            }

            #[inline(always)]
            fn from_register($bits: $register) -> Self {
                $from
            }
        }
    )*};
}

scalars! {
    bool: Bool, u32, |x| x as u32, |bits| bits != 0;
    i8: I8, u32, |x| x as u8 as u32, |bits| bits as i8;
    i16: I16, u32, |x| x as u16 as u32, |bits| bits as i16;
    i32: I32, u32, |x| x as u32, |bits| bits as i32;
    i64: I64, u64, |x| x as u64, |bits| bits as i64;
    u8: U8, u32, |x| x as u32, |bits| bits as u8;
    u16: U16, u32, |x| x as u32, |bits| bits as u16;
    u32: U32, u32, |x| x, |bits| bits;
    u64: U64, u64, |x| x, |bits| bits;
    f16: F16, u32, |x| x.to_bits() as u32, |bits| f16::from_bits(bits as u16);
    bf16: Bf16, u32, |x| x.to_bits() as u32, |bits| bf16::from_bits(bits as u16);
    f32: F32, u32, |x| x.to_bits(), |bits| f32::from_bits(bits);
    f64: F64, u64, |x| x.to_bits(), |bits| f64::from_bits(bits);
    F8E4M3: F8E4M3, u32, |x| x.to_bits() as u32, |bits| F8E4M3::from_bits(bits as u8);
    F8E5M2: F8E5M2, u32, |x| x.to_bits() as u32, |bits| F8E5M2::from_bits(bits as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<T: Scalar<Register: Into<u64> + TryFrom<u64>>>(name: &str, values: &[T], bits: &[u64]) {
        assert_eq!(T::TYPE.name(), name);
        assert_eq!(T::TYPE.bytes(), size_of::<T>());
        assert_eq!(size_of::<T::Register>(), if size_of::<T>() == 8 { 8 } else { 4 });
        for (&value, &bits) in values.iter().zip(bits) {
            assert_eq!(value.to_register().into(), bits, "{name}");
            let register = T::Register::try_from(bits).unwrap_or_else(|_| panic!("{bits:x} of {name}"));
            assert_eq!(T::from_register(register).to_register().into(), bits, "{name}");
        }
    }

    #[test]
    fn numbers_are_their_bits_without_a_sign_above() {
        check("bool", &[false, true], &[0, 1]);
        check("i8", &[-1_i8, i8::MIN, 5], &[0xff, 0x80, 5]);
        check("i16", &[-1_i16, i16::MIN], &[0xffff, 0x8000]);
        check("i32", &[-1_i32, 7], &[0xffff_ffff, 7]);
        check("i64", &[-1_i64, i64::MIN], &[u64::MAX, 1 << 63]);
        check("u8", &[255_u8], &[255]);
        check("u16", &[u16::MAX], &[0xffff]);
        check("u32", &[u32::MAX], &[0xffff_ffff]);
        check("u64", &[u64::MAX], &[u64::MAX]);
        check("f16", &[f16::ONE, f16::NEG_INFINITY], &[0x3c00, 0xfc00]);
        check("bf16", &[bf16::ONE, bf16::NEG_ONE], &[0x3f80, 0xbf80]);
        check("f32", &[1.0_f32, -0.0], &[0x3f80_0000, 0x8000_0000]);
        check("f64", &[1.0_f64, -0.0], &[0x3ff0_0000_0000_0000, 1 << 63]);
        check("F8E4M3", &[F8E4M3::ONE, F8E4M3::NAN], &[0x38, 0x7f]);
        check("F8E5M2", &[F8E5M2::ONE, -F8E5M2::MAX], &[0x3c, 0xfb]);
    }

    #[test]
    fn upper_bits_do_not_count() {
        assert_eq!(i8::from_register(0xdead_be80), i8::MIN);
        assert_eq!(u16::from_register(0x0001_0002), 2);
        assert_eq!(f16::from_register(0xffff_3c00), f16::ONE);
        assert_eq!(F8E4M3::from_register(0xffff_ff38), F8E4M3::ONE);
        assert!(bool::from_register(1) && !bool::from_register(0));
    }
}
