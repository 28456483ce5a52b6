// SPDX-License-Identifier: MIT OR Apache-2.0
//! What was run: how a kernel is timed, and the table of the rows.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use comfy_table::{CellAlignment, Table, presets};
use indicatif::ProgressBar;
use ndarray::Array1;
use serde_json::{Value, json};
use warpsmith::{Device, DeviceArray, Stream};

use super::check::Deviation;
use super::data::{Operand, Vector};
use super::reference::Reference;
use crate::scalar::{Number, Scalar};
use crate::timing::milliseconds;

/// The rows so far, and what makes more.
pub struct Demo {
    pub stream: Stream,
    /// Timed runs of each kernel, after the first, which loads it; none on the simulator, where the first tells enough.
    runs: usize,
    progress: ProgressBar,
    rows: Vec<Row>,
}

/// A kernel that was run.
pub struct Row {
    pub kernel: String,
    pub dtype: &'static str,
    pub size: String,
    pub time: Duration,
    /// Bytes that must move.
    pub bytes: usize,
    pub deviation: Deviation,
}

impl Demo {
    pub fn new(device: &Device, progress: ProgressBar) -> Self {
        Self {
            stream: device.default_stream().clone(),
            runs: if device.is_simulator() { 0 } else { 20 },
            progress,
            rows: Vec::new(),
        }
    }

    /// Runs a kernel at least once, and gives the median time.
    pub fn measure(&self, kernel: &str, run: &mut dyn FnMut() -> Result<()>) -> Result<Duration> {
        self.progress.set_message(kernel.to_string());
        let mut timed = || {
            let start = self.stream.record()?;
            run()?;
            Ok::<_, anyhow::Error>(self.stream.record()?.elapsed_since(&start)?)
        };
        let first = timed()?;
        let mut times = (0..self.runs).map(|_| timed()).collect::<Result<Vec<_>>>()?;
        times.sort();
        Ok(times.get(times.len() / 2).copied().unwrap_or(first))
    }

    /// Runs a kernel that writes one element of type `U` for each of the `len`, and reads `bytes` for each.
    pub fn elementwise<U: Scalar, E: Into<anyhow::Error>>(
        &mut self,
        kernel: String,
        dtype: &'static str,
        len: usize,
        bytes: usize,
        mut run: impl FnMut(&mut Vector<U>) -> Result<(), E>,
        check: impl FnOnce(&Array1<U>) -> Deviation,
    ) -> Result<()> {
        let mut out = DeviceArray::zeros(&self.stream, len)?;
        let time = self.measure(&kernel, &mut || run(&mut out).map_err(Into::into))?;
        let deviation = check(&out.to_ndarray()?);
        let bytes = len * (bytes + size_of::<U>());
        self.push(Row {
            kernel,
            dtype,
            size: len.to_string(),
            time,
            bytes,
            deviation,
        });
        Ok(())
    }

    /// Runs a kernel that gives one number.
    pub fn reduction<T: Reference, R: Number>(
        &mut self,
        kernel: &str,
        x: &Operand<T>,
        run: impl Fn(&Vector<T>) -> warpsmith::Result<R>,
        check: impl FnOnce(R) -> Deviation,
    ) -> Result<()> {
        let mut result = None;
        let time = self.measure(kernel, &mut || {
            result = Some(run(&x.device)?);
            Ok(())
        })?;
        let result = result.context("a kernel that was measured has run")?;
        let (len, deviation) = (x.host.len(), check(result));
        let (kernel, bytes) = (kernel.to_string(), len * size_of::<T>());
        self.push(Row {
            kernel,
            dtype: T::DTYPE.name(),
            size: len.to_string(),
            time,
            bytes,
            deviation,
        });
        Ok(())
    }

    /// Adds the row of a kernel that was measured.
    pub fn push(&mut self, row: Row) {
        self.rows.push(row);
    }

    /// All rows, for the machine.
    pub fn to_json(&self) -> Vec<Value> {
        self.rows.iter().map(Row::to_json).collect()
    }

    /// Ends the display of the progress.
    pub fn finish(&self) {
        self.progress.finish_and_clear();
    }

    fn failed(&self) -> Vec<&Row> {
        self.rows.iter().filter(|row| !row.deviation.is_ok()).collect()
    }

    /// An error if a result was wrong.
    pub fn verdict(&self) -> Result<()> {
        let names: Vec<String> = self
            .failed()
            .iter()
            .map(|row| format!("{} {}", row.kernel, row.dtype))
            .collect();
        if names.is_empty() {
            return Ok(());
        }
        bail!(
            "{} of {} results are wrong: {}",
            names.len(),
            self.rows.len(),
            names.join(", ")
        )
    }

    pub fn table(&self) -> Table {
        let mut table = Table::new();
        table.load_style(presets::ASCII_MARKDOWN);
        table.set_header([
            "kernel",
            "type",
            "size",
            "time",
            "GB/s",
            "largest error",
            "allowed",
            "verdict",
        ]);
        for row in &self.rows {
            table.add_row([
                row.kernel.clone(),
                row.dtype.to_string(),
                row.size.clone(),
                format!("{:.4} ms", milliseconds(row.time)),
                format!("{:.2}", row.gigabytes_per_second()),
                row.deviation.show_largest(),
                row.deviation.show_bound(),
                row.verdict().to_string(),
            ]);
        }
        for column in 2..7 {
            if let Some(column) = table.column_mut(column) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        table
    }
}

impl Row {
    fn gigabytes_per_second(&self) -> f64 {
        self.bytes as f64 / self.time.as_secs_f64().max(1e-9) / 1e9
    }

    fn verdict(&self) -> &'static str {
        if self.deviation.is_ok() { "ok" } else { "WRONG" }
    }

    fn to_json(&self) -> Value {
        json!({
            "kernel": self.kernel,
            "type": self.dtype,
            "size": self.size,
            "time_ms": milliseconds(self.time),
            "gb_per_s": self.gigabytes_per_second(),
            "largest_error": self.deviation.largest,
            "allowed_error": self.deviation.bound,
            "error_unit": self.deviation.unit,
            "ok": self.deviation.is_ok(),
        })
    }
}
