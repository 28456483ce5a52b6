// SPDX-License-Identifier: MIT OR Apache-2.0
//! An operation on arrays from files whose result is an array, to a file or to be printed.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use indicatif::ProgressBar;
use ndarray::{ArrayD, Dimension, IntoDimension, IxDyn};
use warpsmith::{Device, DeviceArray, Stream};

use crate::npy::{self, NpyFile};
use crate::output::Output;
use crate::pieces::{Pieces, Vector};
use crate::scalar::{Number, Scalar};
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

    /// Makes the result of the elements of a long file, and writes it piece by piece. It has the file's order of axes.
    pub fn run_pieces<T: Scalar, U: Number>(
        self,
        device: &Device,
        file: &NpyFile,
        pieces: &Pieces<T>,
        kernel: impl FnMut(&Vector<T>, &mut Vector<U>) -> Result<()>,
    ) -> Result<()> {
        let stored = self.stored.unwrap_or(Stored::Of(U::DTYPE));
        let mut header = npy::header(file.shape(), stored);
        header.fortran_order = file.is_fortran_order();
        let output = self.output.context("an output of a long file")?;
        let bar = self.session.progress_of(self.name.clone(), pieces.bytes());
        let mut timings = Timings::new(device.default_stream());
        // The output's errors name it, and those of the pieces the input.
        let mut failed = None;
        let written = timings.time("all", || {
            npy::write_by(output, &header, stored, |writer| {
                let written = pieces.write(&bar, writer, |wide| stored.narrow_from::<U>(wide), kernel)?;
                failed = written.err();
                ensure!(failed.is_none(), "incomplete");
                Ok(())
            })
        });
        drop(bar);
        if let Some(error) = failed {
            return Err(error.context(file.name().to_string()));
        }
        written?;
        let report = Report {
            operation: self.name,
            dtype: stored.name(),
            shape: file.shape(),
            output: self.path,
            value: None,
        };
        self.session.finish(&report, &device.properties().id, &timings)
    }

    /// Writes or prints the result.
    fn finish<U: Number>(
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
