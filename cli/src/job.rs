// SPDX-License-Identifier: MIT OR Apache-2.0
//! An operation on arrays from files whose result is an array, to a file or to be printed.

use std::path::Path;

use anyhow::{Context, Result, anyhow, ensure};
use indicatif::ProgressBar;
use ndarray::{ArrayD, Dimension, IntoDimension, IxDyn, ShapeBuilder};
use warpsmith::npy::Header;
use warpsmith::{Device, DeviceArray, Stream};

use crate::npy::{self, NpyFile};
use crate::output::Output;
use crate::pieces::Sink;
use crate::scalar::Number;
use crate::session::{Report, Session};
use crate::show;
use crate::stored::Stored;
use crate::timing::Timings;

/// An array as a file has it: its number of axes is known at run time.
pub type DynArray<T> = DeviceArray<T, IxDyn>;

/// An operation whose output is open.
pub struct Job<'a> {
    session: &'a Session<'a>,
    name: String,
    path: Option<&'a Path>,
    output: Option<Output>,
    stored: Option<Stored>,
}

impl<'a> Job<'a> {
    /// Fails, before any work is done, where the file could not be written. Without one, the result is printed.
    pub fn open(session: &'a Session<'a>, name: impl Into<String>, path: Option<&'a Path>) -> Result<Self> {
        Ok(Self {
            session,
            name: name.into(),
            path,
            output: path.map(|path| session.create_output(path)).transpose()?,
            stored: None,
        })
    }

    /// The result becomes one of this element type, of which its own is a wider form.
    pub fn stored_as(self, stored: Stored) -> Self {
        Self {
            stored: Some(stored),
            ..self
        }
    }

    /// Copies the operands in, makes the result, which has that shape, and writes or prints it.
    pub fn run<X, U: Number, D: Dimension>(
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
        let result = timings.time("copy out", || out.to_ndarray())?.into_dyn();
        self.finish(progress, stream, &result, &timings)
    }

    /// Makes a result of that shape of a long file with so many bytes, and writes it as `make` hands over its elements, in
    /// the file's order of axes; or else prints it, when all are there.
    pub fn run_long<U: Number>(
        self,
        device: &Device,
        file: &NpyFile,
        shape: &[usize],
        bytes: u64,
        make: impl FnOnce(&ProgressBar, Sink<'_, U>) -> Result<()>,
    ) -> Result<()> {
        let stored = self.stored.unwrap_or(Stored::Of(U::DTYPE));
        let bar = self.session.progress_of(self.name.clone(), bytes);
        let mut timings = Timings::new(device.default_stream());
        let context = || file.name().to_string();
        let printed = match self.output {
            None => {
                let mut elements = Vec::new();
                let mut sink = |part: &[U]| {
                    elements.extend_from_slice(part);
                    Ok(())
                };
                timings.time("all", || make(&bar, &mut sink)).with_context(context)?;
                let shape = IxDyn(shape).set_f(file.is_fortran_order());
                let result = ArrayD::from_shape_vec(shape, elements)?;
                Some((show::text(&result, stored), show::json(result.view(), stored)))
            }
            Some(output) => {
                let mut header = npy::header(shape, stored);
                header.fortran_order = file.is_fortran_order();
                let made = timings.time("all", || write_made(output, &header, stored, |sink| make(&bar, sink)))?;
                made.with_context(context)?;
                None
            }
        };
        drop(bar);
        let report = Report {
            operation: self.name,
            dtype: stored.name(),
            shape,
            output: self.path,
            value: printed,
        };
        self.session.finish(&report, &device.properties().id, &timings)
    }

    /// Writes or prints the result.
    pub fn finish<U: Number>(
        self,
        progress: ProgressBar,
        stream: &Stream,
        result: &ArrayD<U>,
        timings: &Timings,
    ) -> Result<()> {
        let stored = self.stored.unwrap_or(Stored::Of(U::DTYPE));
        let printed = match self.output {
            Some(output) => npy::write(output, result, stored).map(|()| None)?,
            None => Some((show::text(result, stored), show::json(result.view(), stored))),
        };
        drop(progress);
        let report = Report {
            operation: self.name,
            dtype: stored.name(),
            shape: result.shape(),
            output: self.path,
            value: printed,
        };
        self.session.finish(&report, stream.device_id(), timings)
    }
}

/// Writes the elements that `make` hands over. The outer error is the output's, which names it; the inner one is of
/// `make`, and nothing is written then.
fn write_made<U: Number>(
    output: Output,
    header: &Header,
    stored: Stored,
    make: impl FnOnce(Sink<'_, U>) -> Result<()>,
) -> Result<Result<()>> {
    let mut failed = None;
    let written = npy::write_by(output, header, stored, |writer| {
        let mut broken = None;
        let made = make(&mut |part| {
            npy::write_slice(writer, part, stored).map_err(|error| {
                broken = Some(error);
                anyhow!("incomplete")
            })
        });
        if let Some(error) = broken {
            return Err(error.into());
        }
        failed = made.err();
        ensure!(failed.is_none(), "incomplete");
        Ok(())
    });
    match failed {
        Some(error) => Ok(Err(error)),
        None => written.map(Ok),
    }
}
