// SPDX-License-Identifier: MIT OR Apache-2.0
//! `warpsmith demo`: every kernel on generated arrays and on a photograph, each checked against ndarray
//! on the CPU and timed.
//!
//! A time is the median between events around the operation, after a warm-up; for a reduction that
//! includes the way of the result to the host. GB/s counts the bytes that must move: each input read
//! once, each output written once.

mod arrays;
mod check;
mod histogram;
mod matrices;
mod pictures;
mod reference;
mod scan;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;
use comfy_table::{CellAlignment, Table, presets};
use indicatif::ProgressBar;
use serde_json::{Value, json};
use warpsmith::{Device, Stream};

use crate::scalar::{Dtype, dispatch};
use crate::session::{Session, print};
use crate::timing::{milliseconds, timed};
use check::Deviation;

/// Elements of the generated arrays on a GPU: more than any L2 cache holds.
const GPU_LEN: usize = 1 << 25;

/// Elements of the generated arrays on the simulated GPU, where every thread is run by the CPU.
const SIMULATOR_LEN: usize = 1 << 18;

#[derive(Args)]
pub struct DemoArgs {
    /// The folder for the pictures that are made.
    #[arg(long, default_value = "warpsmith-demo", value_name = "DIR")]
    out: PathBuf,
    /// Elements of the generated arrays [default: 2^25 on a GPU, 2^18 on the simulated one].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1 << 32))]
    len: Option<u64>,
    /// Element types: f32, f64, i32, i64, u8, u16, u32, u64.
    #[arg(long, value_delimiter = ',', default_value = "f32,i64", value_name = "TYPE,…")]
    types: Vec<Dtype>,
}

/// `warpsmith demo`
pub fn run(session: &Session, args: &DemoArgs) -> Result<()> {
    let device = session.open_device()?;
    let outputs = pictures::Outputs::create(&args.out)?;
    let default_len = if device.is_simulator() { SIMULATOR_LEN } else { GPU_LEN };
    let len = args.len.map_or(default_len, |len| len as usize);
    let mut demo = Demo::new(&device, session.progress("demo"));
    for &dtype in &args.types {
        dispatch!(dtype, T => arrays::run::<T>(&mut demo, len))?;
        match dtype {
            Dtype::F32 => {
                arrays::float_functions::<f32>(&mut demo, len)?;
                matrices::matmul::<f32>(&mut demo, device.is_simulator())?;
                histogram::of_floats(&mut demo, len)?;
            }
            Dtype::F64 => {
                arrays::float_functions::<f64>(&mut demo, len)?;
                matrices::matmul::<f64>(&mut demo, device.is_simulator())?;
            }
            Dtype::I32 => matrices::matmul::<i32>(&mut demo, device.is_simulator())?,
            _ => {}
        }
    }
    let written = outputs.write(pictures::run(&mut demo)?)?;
    demo.progress.finish_and_clear();
    let device = device.properties();
    if session.json() {
        let rows: Vec<Value> = demo.rows.iter().map(Row::to_json).collect();
        let pictures: Vec<String> = written.iter().map(|path| path.display().to_string()).collect();
        let ok = demo.failed().is_empty();
        let object = json!({ "device": device.id, "name": device.name, "ok": ok, "rows": rows, "pictures": pictures });
        print(&format!("{object}\n"))?;
    } else {
        print(&format!("{} ({})\n{}\n", device.name, device.id, demo.table()))?;
        for path in written {
            print(&format!("wrote {}\n", path.display()))?;
        }
    }
    demo.verdict()
}

/// The rows so far, and what makes more.
pub struct Demo {
    stream: Stream,
    /// Timed runs of each kernel.
    runs: usize,
    progress: ProgressBar,
    rows: Vec<Row>,
}

/// A kernel that was run.
struct Row {
    kernel: String,
    dtype: &'static str,
    size: String,
    time: Duration,
    /// Bytes that must move.
    bytes: usize,
    deviation: Deviation,
}

impl Demo {
    fn new(device: &Device, progress: ProgressBar) -> Self {
        Self {
            stream: device.default_stream().clone(),
            runs: if device.is_simulator() { 3 } else { 20 },
            progress,
            rows: Vec::new(),
        }
    }

    /// Runs a kernel a few times, and gives the last result and the median time.
    fn measure<R, E: From<warpsmith::Error>>(
        &self,
        kernel: &str,
        mut run: impl FnMut() -> Result<R, E>,
    ) -> Result<(R, Duration), E> {
        self.progress.set_message(kernel.to_string());
        let mut result = run()?;
        let mut times = Vec::with_capacity(self.runs);
        for _ in 0..self.runs {
            let (last, time) = timed(&self.stream, &mut run)?;
            result = last;
            times.push(time);
        }
        times.sort();
        Ok((result, times[times.len() / 2]))
    }

    fn failed(&self) -> Vec<&Row> {
        self.rows.iter().filter(|row| !row.deviation.is_ok()).collect()
    }

    /// An error if a result was wrong.
    fn verdict(&self) -> Result<()> {
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

    fn table(&self) -> Table {
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
