// SPDX-License-Identifier: MIT OR Apache-2.0
//! An operation on arrays from files to a file.

use std::path::Path;

use anyhow::Result;
use ndarray::{Dimension, IntoDimension, IxDyn};
use ndarray_npy::WritableElement;
use warpsmith::{Device, DeviceArray, Element};

use crate::npy;
use crate::output::Output;
use crate::scalar::Number;
use crate::session::{Report, Session};
use crate::timing::Timings;

/// An array as a file has it: its number of axes is known at run time.
pub type DynArray<T> = DeviceArray<T, IxDyn>;

/// An operation whose output file is open.
pub struct Job<'a> {
    session: &'a Session<'a>,
    name: String,
    path: &'a Path,
    output: Output,
}

impl<'a> Job<'a> {
    /// Fails, before any work is done, where the file could not be written.
    pub fn open(session: &'a Session<'a>, name: impl Into<String>, path: &'a Path) -> Result<Self> {
        Ok(Self {
            session,
            name: name.into(),
            path,
            output: Output::create(path)?,
        })
    }

    /// Copies the operands in, makes the result, which has that shape, and writes it.
    pub fn run<X, U: Number + WritableElement + Element, D: Dimension>(
        self,
        device: &Device,
        shape: impl IntoDimension<Dim = D>,
        copy_in: impl FnOnce() -> warpsmith::Result<X>,
        kernel: impl FnOnce(&X, &mut DeviceArray<U, D>) -> Result<()>,
    ) -> Result<()> {
        let progress = self.session.progress(self.name.clone());
        let stream = device.default_stream();
        let mut timings = Timings::new(stream);
        let mut out = timings.time("allocation", || DeviceArray::zeros(stream, shape))?;
        let operands = timings.time("copy in", copy_in)?;
        timings.time("kernel", || kernel(&operands, &mut out))?;
        let result = timings.time("copy out", || out.to_ndarray())?;
        npy::write(self.output, &result)?;
        drop(progress);
        let report = Report {
            operation: self.name,
            dtype: std::any::type_name::<U>(),
            shape: result.shape(),
            output: Some(self.path),
            value: None,
        };
        self.session.finish(&report, stream.device_id(), &timings)
    }
}
