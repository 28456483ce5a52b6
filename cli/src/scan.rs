// SPDX-License-Identifier: MIT OR Apache-2.0
//! `warpsmith scan`: prefix sums, products, minima and maxima.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, ValueEnum};
use ndarray::Axis;
use warpsmith::Device;
use warpsmith::ops::{Max, Min, Product, ReduceOp, Scan, ScanAlgorithm, ScanTree, Sum};

use crate::job::{DynArray, Job};
use crate::npy::{self, NpyFile};
use crate::ops::ScanOp;
use crate::scalar::{Dtype, Number, Scalar, dispatch};
use crate::session::Session;

#[derive(Args)]
pub struct ScanArgs {
    #[arg(value_name = "OP")]
    op: ScanOp,
    /// The .npy file that is read.
    #[arg(value_name = "IN.npy")]
    input: PathBuf,
    /// The .npy file that is written.
    #[arg(short, long, value_name = "OUT.npy")]
    output: PathBuf,
    /// Leaves out each element's own value: the first result is that of no element.
    #[arg(long)]
    exclusive: bool,
    /// Scans along this axis, -1 being the last one; without it, over all elements in C order.
    #[arg(long, value_name = "K", allow_negative_numbers = true)]
    axis: Option<isize>,
    /// look-back reads every element once; of floats, blelloch gives the same bits on every run.
    #[arg(long, value_enum, default_value_t = Algorithm::LookBack, conflicts_with = "axis")]
    algorithm: Algorithm,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Algorithm {
    LookBack,
    Blelloch,
}

/// `warpsmith scan OP IN.npy -o OUT.npy`
pub fn run(session: &Session, args: &ScanArgs) -> Result<()> {
    let file = NpyFile::open(&args.input)?;
    let axis = args.axis.map(|axis| file.axis("scan", axis)).transpose()?.map(Axis);
    let job = Job::open(session, format!("scan {}", args.op), Some(&args.output))?;
    let (dtype, job) = match args.op {
        ScanOp::Sum | ScanOp::Prod => (file.stored.sum_dtype(), job),
        ScanOp::Min | ScanOp::Max => (file.stored.dtype(), job.stored_as(file.stored)),
    };
    let device = session.open_device()?;
    dispatch!(dtype, T => scan::<T>(job, &device, args, axis, &file))
}

fn scan<T: Scalar>(job: Job, device: &Device, args: &ScanArgs, axis: Option<Axis>, file: &NpyFile) -> Result<()> {
    match args.op {
        ScanOp::Sum => scan_by::<Sum, T>(job, device, args, axis, file),
        ScanOp::Prod => scan_by::<Product, T>(job, device, args, axis, file),
        ScanOp::Min => scan_by::<Min, T>(job, device, args, axis, file),
        ScanOp::Max => scan_by::<Max, T>(job, device, args, axis, file),
    }
}

fn scan_by<Op, T>(job: Job, device: &Device, args: &ScanArgs, axis: Option<Axis>, file: &NpyFile) -> Result<()>
where
    Op: ReduceOp<T, Output: Number>,
    T: Scalar + Scan<Op> + ScanTree<Op, Output = Op::Output>,
{
    let algorithm = match args.algorithm {
        Algorithm::LookBack => ScanAlgorithm::LookBack,
        Algorithm::Blelloch => ScanAlgorithm::Blelloch,
    };
    let x = file.read::<T>(device)?;
    job.run(
        device,
        x.raw_dim(),
        || npy::upload(device, &x),
        |x, out: &mut DynArray<Op::Output>| {
            Ok(match (axis, args.exclusive) {
                (None, false) => x.inclusive_scan_by_into::<Op>(algorithm, out),
                (None, true) => x.exclusive_scan_by_into::<Op>(algorithm, out),
                (Some(axis), false) => x.inclusive_scan_axis_into::<Op>(axis, out),
                (Some(axis), true) => x.exclusive_scan_axis_into::<Op>(axis, out),
            }?)
        },
    )
}
