// SPDX-License-Identifier: MIT OR Apache-2.0
//! `warpsmith reduce`: one number for all elements, or for all along an axis.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use indicatif::ProgressBar;
use ndarray::{Axis, IxDyn, arr0};
use serde_json::Value;
use warpsmith::{Device, DeviceArray, f16};

use crate::job::{DynArray, Job};
use crate::npy::{self, NpyFile};
use crate::ops::ReduceOp;
use crate::output::Output;
use crate::pieces::{self, Pieces};
use crate::scalar::{Dtype, Number, Scalar, dispatch};
use crate::session::{Report, Session};
use crate::show;
use crate::slabs::{self, Parts, Slabs};
use crate::stored::Stored;
use crate::timing::Timings;

#[derive(Args)]
pub struct ReduceArgs {
    #[arg(value_name = "OP")]
    op: ReduceOp,
    /// The .npy file that is read.
    #[arg(value_name = "IN.npy")]
    input: PathBuf,
    /// Reduces along this axis, and leaves the others; -1 is the last one.
    #[arg(long, value_name = "K", allow_negative_numbers = true)]
    axis: Option<isize>,
    /// var and std divide by the number of elements less this.
    #[arg(long, value_name = "N", default_value_t = 0)]
    ddof: usize,
    /// The .npy file that is written; without it, the result is printed.
    #[arg(short, long, value_name = "OUT.npy")]
    output: Option<PathBuf>,
}

/// `warpsmith reduce OP IN.npy`
pub fn run(session: &Session, args: &ReduceArgs) -> Result<()> {
    let file = NpyFile::open(&args.input)?;
    let context = || file.name().to_string();
    let (dtype, stored) = types(args.op, file.stored);
    let output = args.output.as_deref();
    if let Some(axis) = args.axis {
        let name = format!("reduce {}", args.op);
        let axis = Axis(file.axis(&name, axis)?);
        let job = Job::open(session, name, output)?;
        let job = match stored {
            Some(stored) => job.stored_as(stored),
            None => job,
        };
        let device = session.open_device()?;
        let along = Along {
            job,
            device: &device,
            args,
            axis,
            file: &file,
        };
        return dispatch!(
            dtype,
            T => along.reduce::<T, T>(Ok, |sum| sum),
            // As one array does: in f32, rounded once.
            F16 => along.reduce::<f16, f32>(|x| x.cast::<f32>(), f16::from_f32)
        );
    }
    let output = output.map(|path| session.create_output(path)).transpose()?;
    let device = session.open_device()?;
    let command = Whole {
        session,
        device: &device,
        args,
        file: &file,
        stored,
    };
    let done = dispatch!(dtype, T => match command.pieces::<T>()? {
        Some(pieces) => command.of_pieces(output, pieces.bytes(), |bar| {
            let total = pieces.reduce(args.op, args.ddof, bar, Ok)?;
            Ok(Total::rounded::<T, T>(total, stored, |sum| sum, |x| x))
        }),
        None => command.of_array::<T>(output),
    }, F16 => match command.pieces::<f16>()? {
        // As one array does: in f32, rounded once.
        Some(pieces) => command.of_pieces(output, pieces.bytes(), |bar| {
            let total = pieces.reduce(args.op, args.ddof, bar, |x| x.cast::<f32>())?;
            Ok(Total::rounded::<f16, f32>(total, stored, f16::from_f32, f16::from_f32))
        }),
        None => command.of_array::<f16>(output),
    });
    done.with_context(context)
}

/// The type that elements are reduced in, and that of the result, where it is another than the operation's own.
fn types(op: ReduceOp, elements: Stored) -> (Dtype, Option<Stored>) {
    match op {
        ReduceOp::Sum | ReduceOp::Prod => (elements.sum_dtype(), None),
        ReduceOp::Min | ReduceOp::Max => (elements.dtype(), Some(elements)),
        ReduceOp::Any | ReduceOp::All => (elements.dtype(), Some(Stored::Bool)),
        _ => (elements.dtype(), None),
    }
}

/// A reduction along an axis.
struct Along<'a> {
    job: Job<'a>,
    device: &'a Device,
    args: &'a ReduceArgs,
    axis: Axis,
    file: &'a NpyFile,
}

impl Along<'_> {
    /// Sums and products of parts are of the type that `widen` makes of the elements, and `round` makes results of them.
    fn reduce<T, W>(
        self,
        widen: impl Fn(DynArray<T>) -> warpsmith::Result<DynArray<W>>,
        round: impl Fn(W::Total) -> T::Total,
    ) -> Result<()>
    where
        T: Scalar,
        W: Scalar<Total: Scalar<Total = W::Total>>,
    {
        let (ddof, rows) = (self.args.ddof, self.file.shape()[self.axis.index()]);
        let rounded = |sums: Vec<W::Total>| sums.into_iter().map(&round).collect();
        let mean = |means: Vec<f64>| means.into_iter().map(T::mean_from).collect();
        let (own, wide, double) = (size_of::<T>(), size_of::<W>(), size_of::<f64>());
        let same = Ok::<DynArray<T>, warpsmith::Error>;
        // The results of parts are combined by the reduction itself.
        macro_rules! tree {
            ($result:ty: $into:ident, $method:ident of $widen:expr, $size:expr $(, $round:expr)?) => {
                self.run::<T, $result>(
                    $size,
                    |x, axis, out| x.$into(axis, out),
                    |parts| slabs::tree(parts, $widen, |x, axis| x.$method(axis), |x, axis| x.$method(axis))$(.map($round))?,
                )
            };
        }
        match self.args.op {
            ReduceOp::Sum => tree!(T::Total: sum_axis_into, sum_axis of &widen, wide, rounded),
            ReduceOp::Prod => tree!(T::Total: product_axis_into, product_axis of &widen, wide, rounded),
            ReduceOp::Min => tree!(T: min_axis_into, min_axis of same, own),
            ReduceOp::Max => tree!(T: max_axis_into, max_axis of same, own),
            ReduceOp::Any => tree!(u8: any_axis_into, any_axis of same, own),
            ReduceOp::All => tree!(u8: all_axis_into, all_axis of same, own),
            ReduceOp::Argmin => self.run::<T, u64>(
                own,
                |x, axis, out| x.argmin_axis_into(axis, out),
                |parts| slabs::index(parts, |x, axis| x.argmin_axis(axis), |x, axis| x.min_axis(axis)),
            ),
            ReduceOp::Argmax => self.run::<T, u64>(
                own,
                |x, axis, out| x.argmax_axis_into(axis, out),
                |parts| slabs::index(parts, |x, axis| x.argmax_axis(axis), |x, axis| x.max_axis(axis)),
            ),
            ReduceOp::Mean => self.run::<T, T::Mean>(
                double,
                |x, axis, out| x.mean_axis_into(axis, out),
                |parts| slabs::means(parts, rows).map(mean),
            ),
            ReduceOp::Var => self.run::<T, T::Mean>(
                double,
                |x, axis, out| x.variance_axis_into(axis, ddof, out),
                |parts| slabs::variances("variance_axis_into", parts, rows, ddof).map(mean),
            ),
            ReduceOp::Std => self.run::<T, T::Mean>(
                double,
                |x, axis, out| x.std_axis_into(axis, ddof, out),
                |parts| {
                    let variances = slabs::variances("std_axis_into", parts, rows, ddof)?;
                    Ok(mean(variances.into_iter().map(f64::sqrt).collect()))
                },
            ),
        }
    }

    /// Has `kernel` reduce an array, which is the file or some of its slabs, and `parts` the parts of a longer slab, in
    /// which the axis is that of the rows. Arrays that are made of the elements have up to `size` bytes for each.
    fn run<T: Scalar, U: Number>(
        self,
        size: usize,
        kernel: impl Fn(&DynArray<T>, Axis, &mut DynArray<U>) -> warpsmith::Result<()>,
        parts: impl FnMut(Parts<'_, T>) -> Result<Vec<U>>,
    ) -> Result<()> {
        let Self {
            job,
            device,
            axis,
            file,
            ..
        } = self;
        let mut shape = file.shape().to_vec();
        shape.remove(axis.index());
        if let Some(slabs) = Slabs::<T>::of(file, device, axis.index(), size.max(size_of::<U>()))? {
            return job.run_long(device, file, &shape, slabs.bytes(), |bar, sink| {
                slabs.reduce(bar, sink, kernel, parts)
            });
        }
        let x = file.read::<T>(device)?;
        let copy_in = || npy::upload(device, &x);
        job.run(device, IxDyn(&shape), copy_in, |x, out| Ok(kernel(x, axis, out)?))
            .with_context(|| file.name().to_string())
    }
}

/// A reduction of all elements.
struct Whole<'a> {
    session: &'a Session<'a>,
    device: &'a Device,
    args: &'a ReduceArgs,
    file: &'a NpyFile,
    stored: Option<Stored>,
}

impl Whole<'_> {
    /// The file in pieces, if it is long. Of equal elements the first in C order counts, which only a file in that order
    /// has ahead of the others.
    fn pieces<T: Scalar>(&self) -> Result<Option<Pieces<T>>> {
        match self.args.op {
            ReduceOp::Argmin | ReduceOp::Argmax if self.file.is_fortran_order() => Ok(None),
            _ => Pieces::of(self.file, self.device, 0),
        }
    }

    /// Copies the whole file to the device.
    fn of_array<T: Scalar>(&self, output: Option<Output>) -> Result<()> {
        let progress = self.session.progress(self.args.op.to_string());
        let array = self.file.read::<T>(self.device)?;
        let mut timings = Timings::new(self.device.default_stream());
        let x = timings.time("copy in", || npy::upload(self.device, &array))?;
        // The library waits for the result, so that the way of that one number cannot be timed apart.
        let total = timings.time("kernel and copy out", || Total::of(self.args, &x, self.stored))?;
        drop(progress);
        self.finish(total, output, &timings)
    }

    /// Has a long file of so many bytes reduced in pieces.
    fn of_pieces(
        &self,
        output: Option<Output>,
        bytes: u64,
        reduce: impl FnOnce(&ProgressBar) -> Result<Total>,
    ) -> Result<()> {
        let bar = self.session.progress_of(self.args.op.to_string(), bytes);
        let mut timings = Timings::new(self.device.default_stream());
        let total = timings.time("all", || reduce(&bar))?;
        drop(bar);
        self.finish(total, output, &timings)
    }

    fn finish(&self, total: Total, output: Option<Output>, timings: &Timings) -> Result<()> {
        if let Some(output) = output {
            (total.write)(output)?;
        }
        let report = Report {
            operation: self.args.op.to_string(),
            dtype: self.file.stored.name(),
            shape: self.file.shape(),
            output: self.args.output.as_deref(),
            value: Some((total.text, total.json)),
        };
        self.session.finish(&report, &self.device.properties().id, timings)
    }
}

/// The result of a whole array: as text that reads back as the same number, as JSON, and as a file.
struct Total {
    text: String,
    json: Value,
    write: Box<dyn FnOnce(Output) -> Result<()>>,
}

impl Total {
    fn of<T: Scalar>(args: &ReduceArgs, x: &DeviceArray<T, IxDyn>, stored: Option<Stored>) -> warpsmith::Result<Self> {
        Ok(match args.op {
            ReduceOp::Sum => Self::number(x.sum()?, stored),
            ReduceOp::Prod => Self::number(x.product()?, stored),
            ReduceOp::Min => Self::number(x.min()?, stored),
            ReduceOp::Max => Self::number(x.max()?, stored),
            ReduceOp::Mean => Self::number(x.mean()?, stored),
            ReduceOp::Var => Self::number(x.variance(args.ddof)?, stored),
            ReduceOp::Std => Self::number(x.std(args.ddof)?, stored),
            ReduceOp::Argmin => Self::number(x.argmin()?, stored),
            ReduceOp::Argmax => Self::number(x.argmax()?, stored),
            ReduceOp::Any => Self::number(u8::from(x.any()?), stored),
            ReduceOp::All => Self::number(u8::from(x.all()?), stored),
        })
    }

    /// A total that was computed in the type `W`, as one of elements `T`.
    fn rounded<T: Scalar, W: Scalar>(
        total: pieces::Total<W>,
        stored: Option<Stored>,
        sum: impl FnOnce(W::Total) -> T::Total,
        element: impl FnOnce(W) -> T,
    ) -> Self {
        match total {
            pieces::Total::Sum(number) => Self::number(sum(number), stored),
            pieces::Total::Element(number) => Self::number(element(number), stored),
            pieces::Total::Mean(number) => Self::number(T::mean_from(number), stored),
            pieces::Total::Index(index) => Self::number(index, stored),
            pieces::Total::Truth(truth) => Self::number(u8::from(truth), stored),
        }
    }

    fn number<N: Number>(number: N, stored: Option<Stored>) -> Self {
        let stored = stored.unwrap_or(Stored::Of(N::DTYPE));
        let number = arr0(number);
        Self {
            text: show::text(&number, stored),
            json: show::json(number.view().into_dyn(), stored),
            write: Box::new(move |output| npy::write(output, &number, stored)),
        }
    }
}
