// SPDX-License-Identifier: MIT OR Apache-2.0
//! `warpsmith add|sub|mul|div|min|max` and `warpsmith map`: one result for each element.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use anyhow::{Result, anyhow, bail, ensure};
use clap::ValueEnum;
use ndarray::Dimension;
use warpsmith::ops::CastTo;
use warpsmith::{Device, DeviceArray};

use crate::job::{DynArray, Job};
use crate::npy::{self, NpyFile};
use crate::ops::{BinaryOp, UnaryOp};
use crate::pieces::Pieces;
use crate::scalar::{Dtype, Scalar, dispatch};
use crate::session::Session;
use crate::stored::Stored;

/// A function of one element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapOp {
    Unary(UnaryOp),
    Cast(Dtype),
}

impl FromStr for MapOp {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        if let Some(dtype) = name.strip_prefix("cast:") {
            return dtype.parse().map(MapOp::Cast);
        }
        UnaryOp::from_str(name, false).map(MapOp::Unary).map_err(|_| {
            let names: Vec<String> = UnaryOp::value_variants().iter().map(ToString::to_string).collect();
            format!("wanted one of {}, cast:TYPE", names.join(", "))
        })
    }
}

impl fmt::Display for MapOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MapOp::Unary(op) => op.fmt(f),
            MapOp::Cast(dtype) => write!(f, "cast:{dtype}"),
        }
    }
}

/// What stands on one side of an operation.
enum Operand<'a> {
    Array(NpyFile),
    Number(&'a str),
}

impl<'a> Operand<'a> {
    /// What reads as a number is one; all else names a file.
    fn open(text: &'a str) -> Result<Self> {
        if text.parse::<f64>().is_ok() {
            return Ok(Operand::Number(text));
        }
        NpyFile::open(Path::new(text)).map(Operand::Array)
    }
}

/// The shape of the result for operands of these shapes, by NumPy's rules: axes are matched from the last, and one of
/// length 1 is repeated.
fn broadcast_shape(a: &[usize], b: &[usize]) -> Option<Vec<usize>> {
    let axes = a.len().max(b.len());
    let length = |shape: &[usize], axis: usize| (axis + shape.len()).checked_sub(axes).map_or(1, |axis| shape[axis]);
    let common = |axis| match (length(a, axis), length(b, axis)) {
        (1, n) | (n, 1) => Some(n),
        (m, n) => (m == n).then_some(m),
    };
    (0..axes).map(common).collect()
}

/// The operands of a binary operation, of which one at least is an array.
enum Operands<'a> {
    Arrays(NpyFile, NpyFile),
    ArrayNumber(NpyFile, &'a str),
    NumberArray(&'a str, NpyFile),
}

impl<'a> Operands<'a> {
    fn open(op: BinaryOp, [a, b]: [&'a str; 2]) -> Result<Self> {
        match (Operand::open(a)?, Operand::open(b)?) {
            (Operand::Array(x), Operand::Array(y)) => {
                ensure!(
                    x.stored == y.stored,
                    "{op}: {a} is {} and {b} is {}, wanted the same element type",
                    x.stored,
                    y.stored
                );
                ensure!(
                    broadcast_shape(x.shape(), y.shape()).is_some(),
                    "{op}: {a} has shape {:?} and {b} has shape {:?}, wanted shapes that broadcast to one",
                    x.shape(),
                    y.shape()
                );
                Ok(Operands::Arrays(x, y))
            }
            (Operand::Array(x), Operand::Number(y)) => Ok(Operands::ArrayNumber(x, y)),
            (Operand::Number(x), Operand::Array(y)) => Ok(Operands::NumberArray(x, y)),
            (Operand::Number(x), Operand::Number(y)) => {
                bail!("{op}: {x} and {y} are numbers, wanted at least one .npy file")
            }
        }
    }

    fn stored(&self) -> Stored {
        match self {
            Operands::Arrays(x, _) | Operands::ArrayNumber(x, _) | Operands::NumberArray(_, x) => x.stored,
        }
    }

    /// The operation that computes the result; of bool, as NumPy has it: "or" is their maximum, "and" their minimum.
    fn computed_by(&self, op: BinaryOp) -> Result<BinaryOp> {
        match (self.stored(), self, op) {
            (Stored::Bool, Operands::Arrays(..), BinaryOp::Add | BinaryOp::Max) => Ok(BinaryOp::Max),
            (Stored::Bool, Operands::Arrays(..), BinaryOp::Mul | BinaryOp::Min) => Ok(BinaryOp::Min),
            (Stored::Bool, Operands::Arrays(..), _) => {
                bail!("{op} of bool: wanted numbers (`map cast:u8` makes them), or one of add, mul, min and max")
            }
            (Stored::Bool, ..) => bail!("{op} of bool and a number: wanted numbers (`map cast:u8` makes them)"),
            _ => Ok(op),
        }
    }
}

/// `warpsmith OP A B -o C.npy`
pub fn binary(session: &Session, op: BinaryOp, operands: [&str; 2], output: &Path) -> Result<()> {
    let operands = Operands::open(op, operands)?;
    let (stored, computed) = (operands.stored(), operands.computed_by(op)?);
    let job = Job::open(session, op.to_string(), Some(output))?.stored_as(stored);
    let device = session.open_device()?;
    dispatch!(stored.dtype(), T => binary_typed::<T>(job, &device, computed, &operands))
}

fn binary_typed<T: Scalar>(job: Job, device: &Device, op: BinaryOp, operands: &Operands) -> Result<()> {
    match operands {
        Operands::Arrays(x, y) => {
            let (x, y) = (x.read::<T>(device)?, y.read::<T>(device)?);
            let copy_in = || Ok((npy::upload(device, &x)?, npy::upload(device, &y)?));
            let shape = broadcast_shape(x.shape(), y.shape()).unwrap_or_default();
            job.run(device, shape, copy_in, |(x, y), out| Ok(op.arrays(x, y, out)?))
        }
        Operands::ArrayNumber(x, number) => {
            let (x, number) = (x.read::<T>(device)?, parse::<T>(op, x.stored, number)?);
            let copy_in = || npy::upload(device, &x);
            job.run(device, x.raw_dim(), copy_in, |x, out| {
                Ok(op.array_scalar(x, number, out)?)
            })
        }
        Operands::NumberArray(number, y) => {
            let (number, y) = (parse::<T>(op, y.stored, number)?, y.read::<T>(device)?);
            let copy_in = || npy::upload(device, &y);
            job.run(device, y.raw_dim(), copy_in, |y, out| {
                Ok(op.scalar_array(number, y, out)?)
            })
        }
    }
}

/// The number that is an operand with elements of that type, which `T` holds.
fn parse<T: Scalar>(op: BinaryOp, stored: Stored, number: &str) -> Result<T> {
    let fits = match stored {
        Stored::I8 => number.parse::<i8>().is_ok(),
        Stored::I16 => number.parse::<i16>().is_ok(),
        _ => true,
    };
    let parsed = number.parse().ok().filter(|_| fits);
    parsed.ok_or_else(|| anyhow!("{op}: {number} is no {stored}, wanted one, as the array's elements are"))
}

/// `warpsmith map OP IN.npy -o OUT.npy`
pub fn map(session: &Session, op: MapOp, input: &Path, output: &Path) -> Result<()> {
    let file = NpyFile::open(input)?;
    if let MapOp::Unary(unary) = op {
        ensure!(
            file.stored != Stored::Bool,
            "{}: {unary} of bool: wanted numbers (`map cast:u8` makes them)",
            file.name()
        );
        ensure!(
            unary.takes(file.stored.dtype()),
            "{}: {}",
            file.name(),
            unary.refuses(file.stored)
        );
    }
    let job = Job::open(session, op.to_string(), Some(output))?;
    let job = match op {
        MapOp::Unary(_) => job.stored_as(file.stored),
        MapOp::Cast(_) => job,
    };
    let device = session.open_device()?;
    dispatch!(file.stored.dtype(), T => match op {
        MapOp::Unary(op) => match Pieces::<T>::of(&file, &device, size_of::<T>())? {
            Some(pieces) => job.run_long::<T>(&device, &file, file.shape(), pieces.bytes(), |bar, sink| {
                pieces.run(bar, sink, |x, out| T::unary(op, x, out))
            }),
            None => map_typed::<T, T>(job, &device, &file, |x, out| T::unary(op, x, out)),
        },
        MapOp::Cast(to) => dispatch!(to, U => match Pieces::<T>::of(&file, &device, size_of::<U>())? {
            Some(pieces) => job.run_long::<U>(&device, &file, file.shape(), pieces.bytes(), |bar, sink| {
                pieces.run(bar, sink, cast)
            }),
            None => map_typed::<T, U>(job, &device, &file, cast),
        }),
    })
}

fn cast<T: Scalar + CastTo<U>, U: Scalar, D: Dimension>(
    x: &DeviceArray<T, D>,
    out: &mut DeviceArray<U, D>,
) -> Result<()> {
    Ok(x.cast_into(out)?)
}

fn map_typed<T: Scalar, U: Scalar>(
    job: Job,
    device: &Device,
    file: &NpyFile,
    kernel: impl FnOnce(&DynArray<T>, &mut DynArray<U>) -> Result<()>,
) -> Result<()> {
    let x = file.read::<T>(device)?;
    job.run(device, x.raw_dim(), || npy::upload(device, &x), kernel)
}
