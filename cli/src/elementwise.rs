// SPDX-License-Identifier: MIT OR Apache-2.0
//! `warpsmith add|sub|mul|div|min|max` and `warpsmith map`: one result for each element.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use anyhow::{Result, anyhow, bail, ensure};
use clap::ValueEnum;
use ndarray::IxDyn;
use warpsmith::ops::CastTo;
use warpsmith::{Device, DeviceArray};

use crate::npy::{self, NpyFile};
use crate::ops::{BinaryOp, UnaryOp};
use crate::output::Output;
use crate::scalar::{Dtype, Scalar, dispatch};
use crate::session::{Report, Session};
use crate::timing::Timings;

type DynArray<T> = DeviceArray<T, IxDyn>;

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
                    x.dtype == y.dtype,
                    "{op}: {a} is {} and {b} is {}, wanted the same element type",
                    x.dtype,
                    y.dtype
                );
                ensure!(
                    x.shape == y.shape,
                    "{op}: {a} has shape {:?} and {b} has shape {:?}, wanted the same shape",
                    x.shape,
                    y.shape
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

    /// An array that has the shape and the type of the result.
    fn array(&self) -> &NpyFile {
        match self {
            Operands::Arrays(x, _) | Operands::ArrayNumber(x, _) | Operands::NumberArray(_, x) => x,
        }
    }
}

/// `warpsmith OP A B -o C.npy`
pub fn binary(session: &Session, op: BinaryOp, operands: [&str; 2], output: &Path) -> Result<()> {
    let operands = Operands::open(op, operands)?;
    let job = Job {
        session,
        name: op.to_string(),
        path: output,
        output: Output::create(output)?,
    };
    let device = session.open_device()?;
    dispatch!(operands.array().dtype, T => binary_typed::<T>(job, &device, op, &operands))
}

fn binary_typed<T: Scalar>(job: Job, device: &Device, op: BinaryOp, operands: &Operands) -> Result<()> {
    match operands {
        Operands::Arrays(x, y) => {
            let (x, y) = (x.read::<T>(device)?, y.read::<T>(device)?);
            let copy_in = || Ok((npy::upload(device, &x)?, npy::upload(device, &y)?));
            job.run(device, x.shape(), copy_in, |(x, y), out| Ok(op.arrays(x, y, out)?))
        }
        Operands::ArrayNumber(x, number) => {
            let (x, number) = (x.read::<T>(device)?, parse::<T>(op, number)?);
            let copy_in = || npy::upload(device, &x);
            job.run(
                device,
                x.shape(),
                copy_in,
                |x, out| Ok(op.array_scalar(x, number, out)?),
            )
        }
        Operands::NumberArray(number, y) => {
            let (number, y) = (parse::<T>(op, number)?, y.read::<T>(device)?);
            let copy_in = || npy::upload(device, &y);
            job.run(
                device,
                y.shape(),
                copy_in,
                |y, out| Ok(op.scalar_array(number, y, out)?),
            )
        }
    }
}

/// The number that is an operand with elements of type `T`.
fn parse<T: Scalar>(op: BinaryOp, number: &str) -> Result<T> {
    let dtype = T::DTYPE;
    number
        .parse()
        .map_err(|_| anyhow!("{op}: {number} is no {dtype}, wanted one, as the array's elements are"))
}

/// `warpsmith map OP IN.npy -o OUT.npy`
pub fn map(session: &Session, op: MapOp, input: &Path, output: &Path) -> Result<()> {
    let file = NpyFile::open(input)?;
    if let MapOp::Unary(unary) = op {
        ensure!(
            unary.takes(file.dtype),
            "{}: {}",
            input.display(),
            unary.refuses(file.dtype)
        );
    }
    let job = Job {
        session,
        name: op.to_string(),
        path: output,
        output: Output::create(output)?,
    };
    let device = session.open_device()?;
    dispatch!(file.dtype, T => match op {
        MapOp::Unary(op) => map_typed::<T, T>(job, &device, &file, |x, out| T::unary(op, x, out)),
        MapOp::Cast(to) => dispatch!(to, U => map_typed::<T, U>(job, &device, &file, cast)),
    })
}

fn cast<T: Scalar + CastTo<U>, U: Scalar>(x: &DynArray<T>, out: &mut DynArray<U>) -> Result<()> {
    Ok(x.cast_into(out)?)
}

fn map_typed<T: Scalar, U: Scalar>(
    job: Job,
    device: &Device,
    file: &NpyFile,
    kernel: impl FnOnce(&DynArray<T>, &mut DynArray<U>) -> Result<()>,
) -> Result<()> {
    let x = file.read::<T>(device)?;
    job.run(device, x.shape(), || npy::upload(device, &x), kernel)
}

/// An operation whose output file is open.
struct Job<'a> {
    session: &'a Session<'a>,
    name: String,
    path: &'a Path,
    output: Output,
}

impl Job<'_> {
    /// Copies the operands in, makes the result and writes it.
    fn run<X, U: Scalar>(
        self,
        device: &Device,
        shape: &[usize],
        copy_in: impl FnOnce() -> warpsmith::Result<X>,
        kernel: impl FnOnce(&X, &mut DynArray<U>) -> Result<()>,
    ) -> Result<()> {
        let progress = self.session.progress(self.name.clone());
        let stream = device.default_stream();
        let mut timings = Timings::new(stream);
        let mut out = timings.time("allocation", || DeviceArray::zeros(stream, IxDyn(shape)))?;
        let operands = timings.time("copy in", copy_in)?;
        timings.time("kernel", || kernel(&operands, &mut out))?;
        let result = timings.time("copy out", || out.to_ndarray())?;
        npy::write(self.output, &result)?;
        drop(progress);
        let report = Report {
            operation: self.name,
            dtype: U::DTYPE.name(),
            shape,
            output: Some(self.path),
            value: None,
        };
        self.session.finish(&report, stream.device_id(), &timings)
    }
}
