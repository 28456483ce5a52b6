// SPDX-License-Identifier: MIT OR Apache-2.0
//! `warpsmith transpose`: an array with its axes in another order.

use std::path::PathBuf;

use anyhow::{Result, ensure};
use clap::Args;
use ndarray::IxDyn;
use warpsmith::Device;

use crate::job::{DynArray, Job};
use crate::npy::{self, NpyFile};
use crate::scalar::{Dtype, Scalar, dispatch};
use crate::session::Session;

#[derive(Args)]
pub struct TransposeArgs {
    /// The .npy file that is read.
    #[arg(value_name = "IN.npy")]
    input: PathBuf,
    /// The .npy file that is written.
    #[arg(short, long, value_name = "OUT.npy")]
    output: PathBuf,
    /// Where each axis of the result comes from; -1 is the last one [default: the axes in reverse order].
    #[arg(long, value_delimiter = ',', value_name = "2,0,1", allow_hyphen_values = true)]
    axes: Option<Vec<isize>>,
}

/// `warpsmith transpose IN.npy -o OUT.npy`
pub fn run(session: &Session, args: &TransposeArgs) -> Result<()> {
    let file = NpyFile::open(&args.input)?;
    let axes = match &args.axes {
        Some(axes) => axes
            .iter()
            .map(|&axis| file.axis("transpose", axis))
            .collect::<Result<Vec<_>>>()?,
        None => (0..file.shape().len()).rev().collect(),
    };
    let mut sorted = axes.clone();
    sorted.sort_unstable();
    ensure!(
        sorted.iter().copied().eq(0..file.shape().len()),
        "transpose: given axes {:?}, wanted each of the {} axes of {} once",
        args.axes.as_deref().unwrap_or_default(),
        file.shape().len(),
        file.name()
    );
    let job = Job::open(session, "transpose", Some(&args.output))?.stored_as(file.stored);
    let device = session.open_device()?;
    dispatch!(file.stored.dtype(), T => transpose::<T>(job, &device, &axes, &file))
}

fn transpose<T: Scalar>(job: Job, device: &Device, axes: &[usize], file: &NpyFile) -> Result<()> {
    let x = file.read::<T>(device)?;
    let shape: Vec<usize> = axes.iter().map(|&axis| x.shape()[axis]).collect();
    job.run(
        device,
        IxDyn(&shape),
        || npy::upload(device, &x),
        |x, out: &mut DynArray<T>| Ok(x.permute_into(IxDyn(axes), out)?),
    )
}
