// SPDX-License-Identifier: MIT OR Apache-2.0
//! The operations by name, as the command line and the demo have them.

use std::fmt;

use clap::ValueEnum;
use ndarray::Dimension;
use warpsmith::{DeviceArray, Result};

use crate::scalar::{Dtype, Scalar};

/// An operation on two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum BinaryOp {
    Add,
    Sub,
    Mul,
    Div,
    Min,
    Max,
}

/// An operation on one operand that keeps its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum UnaryOp {
    Neg,
    Abs,
    Square,
    Relu,
    Sqrt,
    Exp,
    Log,
    Sin,
    Cos,
    Tanh,
    Sigmoid,
}

/// A reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ReduceOp {
    Sum,
    Prod,
    Min,
    Max,
    Mean,
    Var,
    Std,
    Argmin,
    Argmax,
    Any,
    All,
}

/// A scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ScanOp {
    Sum,
    Prod,
    Min,
    Max,
}

macro_rules! names {
    ($($op:ident),*) => {$(
        impl fmt::Display for $op {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&format!("{self:?}").to_ascii_lowercase())
            }
        }
    )*};
}

names!(BinaryOp, UnaryOp, ReduceOp, ScanOp);

impl BinaryOp {
    /// `out = a op b`
    pub fn arrays<T: Scalar, D: Dimension>(
        self,
        a: &DeviceArray<T, D>,
        b: &DeviceArray<T, D>,
        out: &mut DeviceArray<T, D>,
    ) -> Result<()> {
        match self {
            BinaryOp::Add => a.add_into(b, out),
            BinaryOp::Sub => a.sub_into(b, out),
            BinaryOp::Mul => a.mul_into(b, out),
            BinaryOp::Div => a.div_into(b, out),
            BinaryOp::Min => a.minimum_into(b, out),
            BinaryOp::Max => a.maximum_into(b, out),
        }
    }

    /// `out = a op scalar`
    pub fn array_scalar<T: Scalar, D: Dimension>(
        self,
        a: &DeviceArray<T, D>,
        scalar: T,
        out: &mut DeviceArray<T, D>,
    ) -> Result<()> {
        match self {
            BinaryOp::Add => a.add_scalar_into(scalar, out),
            BinaryOp::Sub => a.sub_scalar_into(scalar, out),
            BinaryOp::Mul => a.mul_scalar_into(scalar, out),
            BinaryOp::Div => a.div_scalar_into(scalar, out),
            BinaryOp::Min => a.minimum_scalar_into(scalar, out),
            BinaryOp::Max => a.maximum_scalar_into(scalar, out),
        }
    }

    /// `out = scalar op b`; the operations that commute have no kernel of their own.
    pub fn scalar_array<T: Scalar, D: Dimension>(
        self,
        scalar: T,
        b: &DeviceArray<T, D>,
        out: &mut DeviceArray<T, D>,
    ) -> Result<()> {
        match self {
            BinaryOp::Sub => b.scalar_sub_into(scalar, out),
            BinaryOp::Div => b.scalar_div_into(scalar, out),
            _ => self.array_scalar(b, scalar, out),
        }
    }

    pub fn commutes(self) -> bool {
        !matches!(self, BinaryOp::Sub | BinaryOp::Div)
    }
}

impl UnaryOp {
    pub fn takes(self, dtype: Dtype) -> bool {
        use UnaryOp::{Abs, Neg, Relu, Square};
        dtype.is_float() || matches!(self, Neg | Abs | Square | Relu)
    }

    /// The error for an element type that the function does not take.
    pub fn refuses(self, dtype: impl fmt::Display) -> anyhow::Error {
        anyhow::anyhow!("{self} of {dtype}: wanted f16, f32 or f64 (`map cast:f64` makes one)")
    }
}
