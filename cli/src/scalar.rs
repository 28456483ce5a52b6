// SPDX-License-Identifier: MIT OR Apache-2.0
//! The element types: by name at run time ([`Dtype`]), and as Rust types ([`Scalar`]).

use std::fmt::{self, Debug};
use std::str::FromStr;

use kernels_gpu::op::Statistic;
use ndarray::Dimension;
use serde_json::Value;
use warpsmith::ops::{self, CastTo};
use warpsmith::{DeviceArray, Element, f16};

use crate::ops::UnaryOp;

/// An element type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dtype {
    F16,
    F32,
    F64,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
}

/// `dispatch!(dtype, T => expression)` is the expression with the type alias `T` of that element type;
/// `dispatch!(dtype, T => expression, F16 => other)` for all but one.
macro_rules! dispatch {
    ($dtype:expr, $type:ident => $body:expr) => {
        dispatch!($dtype, $type => $body, F16 => dispatch!(@case $type = warpsmith::f16, $body))
    };
    ($dtype:expr, $type:ident => $body:expr, F16 => $other:expr) => {
        match $dtype {
            Dtype::F16 => $other,
            Dtype::F32 => dispatch!(@case $type = f32, $body),
            Dtype::F64 => dispatch!(@case $type = f64, $body),
            Dtype::I32 => dispatch!(@case $type = i32, $body),
            Dtype::I64 => dispatch!(@case $type = i64, $body),
            Dtype::U8 => dispatch!(@case $type = u8, $body),
            Dtype::U16 => dispatch!(@case $type = u16, $body),
            Dtype::U32 => dispatch!(@case $type = u32, $body),
            Dtype::U64 => dispatch!(@case $type = u64, $body),
        }
    };
    (@case $type:ident = $element:ty, $body:expr) => {{
        type $type = $element;
        $body
    }};
}
pub(crate) use dispatch;

impl Dtype {
    pub const ALL: [Dtype; 9] = [
        Dtype::F16,
        Dtype::F32,
        Dtype::F64,
        Dtype::I32,
        Dtype::I64,
        Dtype::U8,
        Dtype::U16,
        Dtype::U32,
        Dtype::U64,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Dtype::F16 => "f16",
            Dtype::F32 => "f32",
            Dtype::F64 => "f64",
            Dtype::I32 => "i32",
            Dtype::I64 => "i64",
            Dtype::U8 => "u8",
            Dtype::U16 => "u16",
            Dtype::U32 => "u32",
            Dtype::U64 => "u64",
        }
    }

    /// NumPy's name without the byte order.
    pub fn numpy_name(self) -> &'static str {
        match self {
            Dtype::F16 => "f2",
            Dtype::F32 => "f4",
            Dtype::F64 => "f8",
            Dtype::I32 => "i4",
            Dtype::I64 => "i8",
            Dtype::U8 => "u1",
            Dtype::U16 => "u2",
            Dtype::U32 => "u4",
            Dtype::U64 => "u8",
        }
    }

    pub fn size(self) -> usize {
        dispatch!(self, T => size_of::<T>())
    }

    pub fn is_float(self) -> bool {
        matches!(self, Dtype::F16 | Dtype::F32 | Dtype::F64)
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Dtype {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|dtype| dtype.name() == name);
        let why = if name == "bf16" {
            " (NumPy has no bf16, so that no .npy file holds it)"
        } else {
            ""
        };
        found.ok_or_else(|| {
            format!("unknown element type '{name}'{why}: wanted f16, f32, f64, i32, i64, u8, u16, u32 or u64")
        })
    }
}

/// An element type that every operation of the program takes.
pub trait Scalar:
    ops::Number
    + Statistic<Mean: Number, Total: Number>
    + CastTo<f16>
    + CastTo<f32>
    + CastTo<f64>
    + CastTo<i32>
    + CastTo<i64>
    + CastTo<u8>
    + CastTo<u16>
    + CastTo<u32>
    + CastTo<u64>
    + FromStr
    + Number
    + 'static
{
    /// Writes a function of every element of `x` to `out`; some are errors for integers.
    fn unary<D: Dimension>(op: UnaryOp, x: &DeviceArray<Self, D>, out: &mut DeviceArray<Self, D>)
    -> anyhow::Result<()>;
}

/// A number that can be written and printed: [`Debug`] of Rust's numbers reads back as the same value.
pub trait Number: Debug + Element {
    const DTYPE: Dtype;

    /// The number for JSON, which has no NaN and no infinity: those are strings.
    fn to_json(self) -> Value;

    /// The nearest `f64`.
    fn nearest_f64(self) -> f64;
}

macro_rules! numbers {
    ($($type:ident: $dtype:ident = $to_json:expr, $nearest:expr;)*) => {$(
        impl Number for $type {
            const DTYPE: Dtype = Dtype::$dtype;

            fn to_json(self) -> Value {
                let to_json: fn(Self) -> Value = $to_json;
                match to_json(self) {
                    Value::Null => Value::from(format!("{self:?}")),
                    value => value,
                }
            }

            fn nearest_f64(self) -> f64 {
                let nearest: fn(Self) -> f64 = $nearest;
                nearest(self)
            }
        }
    )*};
}

macro_rules! floats {
    ($($type:ident),*) => {$(
        impl Scalar for $type {
            fn unary<D: Dimension>(
                op: UnaryOp,
                x: &DeviceArray<Self, D>,
                out: &mut DeviceArray<Self, D>,
            ) -> anyhow::Result<()> {
                Ok(match op {
                    UnaryOp::Neg => x.neg_into(out),
                    UnaryOp::Abs => x.abs_into(out),
                    UnaryOp::Square => x.square_into(out),
                    UnaryOp::Relu => x.relu_into(out),
                    UnaryOp::Sqrt => x.sqrt_into(out),
                    UnaryOp::Exp => x.exp_into(out),
                    UnaryOp::Log => x.ln_into(out),
                    UnaryOp::Sin => x.sin_into(out),
                    UnaryOp::Cos => x.cos_into(out),
                    UnaryOp::Tanh => x.tanh_into(out),
                    UnaryOp::Sigmoid => x.sigmoid_into(out),
                }?)
            }
        }
    )*};
}

macro_rules! integers {
    ($($type:ident),*) => {$(
        impl Scalar for $type {
            fn unary<D: Dimension>(
                op: UnaryOp,
                x: &DeviceArray<Self, D>,
                out: &mut DeviceArray<Self, D>,
            ) -> anyhow::Result<()> {
                Ok(match op {
                    UnaryOp::Neg => x.neg_into(out),
                    UnaryOp::Abs => x.abs_into(out),
                    UnaryOp::Square => x.square_into(out),
                    UnaryOp::Relu => x.relu_into(out),
                    _ => return Err(op.refuses(Self::DTYPE)),
                }?)
            }
        }
    )*};
}

numbers! {
    f16: F16 = |x| Value::from(x.to_f64()), f16::to_f64;
    f32: F32 = Value::from, f64::from;
    f64: F64 = Value::from, |x| x;
    i32: I32 = Value::from, f64::from;
    i64: I64 = Value::from, |x| x as f64;
    u8: U8 = Value::from, f64::from;
    u16: U16 = Value::from, f64::from;
    u32: U32 = Value::from, f64::from;
    u64: U64 = Value::from, |x| x as f64;
}
floats!(f16, f32, f64);
integers!(i32, i64, u8, u16, u32, u64);
