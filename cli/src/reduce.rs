// SPDX-License-Identifier: MIT OR Apache-2.0
//! `warpsmith reduce`: one number for all elements, or for all along an axis.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use ndarray::{Axis, IxDyn, arr0};
use ndarray_npy::WritableElement;
use serde_json::Value;
use warpsmith::{Device, DeviceArray, Element};

use crate::job::{DynArray, Job};
use crate::npy::{self, NpyFile};
use crate::ops::ReduceOp;
use crate::output::Output;
use crate::scalar::{Dtype, Number, Scalar, dispatch};
use crate::session::{Report, Session};
use crate::timing::Timings;

#[derive(Args)]
pub struct ReduceArgs {
    #[arg(value_name = "OP")]
    op: ReduceOp,
    /// The .npy file that is read.
    #[arg(value_name = "IN.npy")]
    input: PathBuf,
    /// Reduces along this axis, and leaves the others.
    #[arg(long, value_name = "K", requires = "output")]
    axis: Option<usize>,
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
    let context = || args.input.display().to_string();
    if let (Some(axis), Some(output)) = (args.axis, &args.output) {
        file.ensure_axis(&format!("reduce {}", args.op), axis)?;
        let job = Job::open(session, format!("reduce {}", args.op), output)?;
        let device = session.open_device()?;
        return dispatch!(file.dtype, T => along_axis::<T>(job, &device, args, Axis(axis), &file))
            .with_context(context);
    }
    let output = args.output.as_deref().map(Output::create).transpose()?;
    let device = session.open_device()?;
    dispatch!(file.dtype, T => whole::<T>(session, &device, args, &file, output)).with_context(context)
}

fn along_axis<T: Scalar>(job: Job, device: &Device, args: &ReduceArgs, axis: Axis, file: &NpyFile) -> Result<()> {
    /// Runs the method that writes to an output of the type that it has.
    fn run<T: Scalar, U: Number + WritableElement + Element>(
        job: Job,
        device: &Device,
        axis: Axis,
        file: &NpyFile,
        kernel: impl FnOnce(&DynArray<T>, &mut DynArray<U>) -> warpsmith::Result<()>,
    ) -> Result<()> {
        let x = file.read::<T>(device)?;
        let mut shape = file.shape.clone();
        shape.remove(axis.index());
        job.run(
            device,
            IxDyn(&shape),
            || npy::upload(device, &x),
            |x, out| Ok(kernel(x, out)?),
        )
    }
    let ddof = args.ddof;
    match args.op {
        ReduceOp::Sum => run::<T, T>(job, device, axis, file, |x, out| x.sum_axis_into(axis, out)),
        ReduceOp::Prod => run::<T, T>(job, device, axis, file, |x, out| x.product_axis_into(axis, out)),
        ReduceOp::Min => run::<T, T>(job, device, axis, file, |x, out| x.min_axis_into(axis, out)),
        ReduceOp::Max => run::<T, T>(job, device, axis, file, |x, out| x.max_axis_into(axis, out)),
        ReduceOp::Mean => run::<T, T::Mean>(job, device, axis, file, |x, out| x.mean_axis_into(axis, out)),
        ReduceOp::Var => run::<T, T::Mean>(job, device, axis, file, |x, out| x.variance_axis_into(axis, ddof, out)),
        ReduceOp::Std => run::<T, T::Mean>(job, device, axis, file, |x, out| x.std_axis_into(axis, ddof, out)),
        ReduceOp::Argmin => run::<T, u64>(job, device, axis, file, |x, out| x.argmin_axis_into(axis, out)),
        ReduceOp::Argmax => run::<T, u64>(job, device, axis, file, |x, out| x.argmax_axis_into(axis, out)),
        ReduceOp::Any => run::<T, u8>(job, device, axis, file, |x, out| x.any_axis_into(axis, out)),
        ReduceOp::All => run::<T, u8>(job, device, axis, file, |x, out| x.all_axis_into(axis, out)),
    }
}

fn whole<T: Scalar>(
    session: &Session,
    device: &Device,
    args: &ReduceArgs,
    file: &NpyFile,
    output: Option<Output>,
) -> Result<()> {
    let progress = session.progress(args.op.to_string());
    let array = file.read::<T>(device)?;
    let mut timings = Timings::new(device.default_stream());
    let x = timings.time("copy in", || npy::upload(device, &array))?;
    // The library waits for the result, so that the way of that one number cannot be timed apart.
    let total = timings.time("kernel and copy out", || Total::of(args, &x))?;
    drop(progress);
    if let Some(output) = output {
        (total.write)(output)?;
    }
    let report = Report {
        operation: args.op.to_string(),
        dtype: T::DTYPE.name(),
        shape: &file.shape,
        output: args.output.as_deref(),
        value: Some((total.text, total.json)),
    };
    session.finish(&report, &device.properties().id, &timings)
}

/// The result of a whole array: as text that reads back as the same number, as JSON, and as a file.
struct Total {
    text: String,
    json: Value,
    write: Box<dyn FnOnce(Output) -> Result<()>>,
}

impl Total {
    fn of<T: Scalar>(args: &ReduceArgs, x: &DeviceArray<T, IxDyn>) -> warpsmith::Result<Self> {
        Ok(match args.op {
            ReduceOp::Sum => Self::number(x.sum()?),
            ReduceOp::Prod => Self::number(x.product()?),
            ReduceOp::Min => Self::number(x.min()?),
            ReduceOp::Max => Self::number(x.max()?),
            ReduceOp::Mean => Self::number(x.mean()?),
            ReduceOp::Var => Self::number(x.variance(args.ddof)?),
            ReduceOp::Std => Self::number(x.std(args.ddof)?),
            ReduceOp::Argmin => Self::number(x.argmin()?),
            ReduceOp::Argmax => Self::number(x.argmax()?),
            ReduceOp::Any => Self::truth(x.any()?),
            ReduceOp::All => Self::truth(x.all()?),
        })
    }

    fn number<N: Number + WritableElement + 'static>(number: N) -> Self {
        Self {
            text: format!("{number:?}"),
            json: number.to_json(),
            write: Box::new(move |output| npy::write(output, &arr0(number))),
        }
    }

    fn truth(value: bool) -> Self {
        Self {
            text: value.to_string(),
            json: value.into(),
            write: Box::new(move |output| npy::write(output, &arr0(u8::from(value)))),
        }
    }
}
