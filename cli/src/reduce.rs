// SPDX-License-Identifier: MIT OR Apache-2.0
//! `warpsmith reduce`: one number for all elements.

use std::path::Path;

use anyhow::{Context, Result};
use ndarray::IxDyn;
use serde_json::Value;
use warpsmith::{Device, DeviceArray};

use crate::npy::{self, NpyFile};
use crate::ops::ReduceOp;
use crate::scalar::{Dtype, Number, Scalar, dispatch};
use crate::session::{Report, Session};
use crate::timing::Timings;

/// `warpsmith reduce OP IN.npy`
pub fn run(session: &Session, op: ReduceOp, input: &Path) -> Result<()> {
    let file = NpyFile::open(input)?;
    let device = session.open_device()?;
    dispatch!(file.dtype, T => reduce::<T>(session, &device, op, &file, input))
}

fn reduce<T: Scalar>(session: &Session, device: &Device, op: ReduceOp, file: &NpyFile, path: &Path) -> Result<()> {
    let progress = session.progress(op.to_string());
    let array = file.read::<T>(device)?;
    let mut timings = Timings::new(device.default_stream());
    let x = timings.time("copy in", || npy::upload(device, &array))?;
    // The library waits for the result, so that the way of that one number cannot be timed apart.
    let value = timings
        .time("kernel and copy out", || value(op, &x))
        .with_context(|| path.display().to_string())?;
    drop(progress);
    let report = Report {
        operation: op.to_string(),
        dtype: T::DTYPE.name(),
        shape: &file.shape,
        output: None,
        value: Some(value),
    };
    session.finish(&report, &device.properties().id, &timings)
}

/// The result as text that reads back as the same number, and as JSON.
fn value<T: Scalar>(op: ReduceOp, x: &DeviceArray<T, IxDyn>) -> warpsmith::Result<(String, Value)> {
    fn shown<N: Number>(number: N) -> (String, Value) {
        (format!("{number:?}"), number.to_json())
    }
    Ok(match op {
        ReduceOp::Sum => shown(x.sum()?),
        ReduceOp::Prod => shown(x.product()?),
        ReduceOp::Min => shown(x.min()?),
        ReduceOp::Max => shown(x.max()?),
        ReduceOp::Mean => shown(x.mean()?),
    })
}
