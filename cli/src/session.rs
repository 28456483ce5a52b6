// SPDX-License-Identifier: MIT OR Apache-2.0
//! What all commands share: the options that hold for each, and how results and progress are shown.

use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, ensure};
use clap::Args;
use indicatif::{ProgressBar, ProgressFinish, ProgressStyle};
use serde_json::{Map, Value, json};
use warpsmith::Device;

use crate::input::is_stream;
use crate::output::Output;
use crate::timing::Timings;

#[derive(Args)]
pub struct SessionArgs {
    /// The device: auto (WARPSMITH_DEVICE, else the first GPU, else the simulated one), cuda:N or sim.
    #[arg(long, global = true, default_value = "auto", value_name = "auto|cuda:N|sim")]
    device: String,
    /// Prints the result as one JSON object.
    #[arg(long, global = true)]
    json: bool,
    /// Says on standard error how long each phase took.
    #[arg(short, long, global = true)]
    verbose: bool,
}

/// One run of the program.
pub struct Session<'a> {
    args: &'a SessionArgs,
}

/// What an operation did.
pub struct Report<'a> {
    pub operation: String,
    pub dtype: &'static str,
    pub shape: &'a [usize],
    pub output: Option<&'a Path>,
    /// The result that is printed: as text and as JSON.
    pub value: Option<(String, Value)>,
}

impl<'a> Session<'a> {
    pub fn new(args: &'a SessionArgs) -> Self {
        Self { args }
    }

    pub fn device_name(&self) -> &str {
        &self.args.device
    }

    pub fn json(&self) -> bool {
        self.args.json
    }

    /// Whether standard error is told how long things take.
    pub fn verbose(&self) -> bool {
        self.args.verbose
    }

    /// Opens the device that was asked for.
    pub fn open_device(&self) -> anyhow::Result<Device> {
        Ok(Device::named(&self.args.device)?)
    }

    /// Opens an output, before any work is done.
    pub fn create_output(&self, path: &Path) -> anyhow::Result<Output> {
        ensure!(
            !(self.args.json && is_stream(path)),
            "--json and the output - both write to standard output, wanted one of them"
        );
        Output::create(path)
    }

    /// Shows that work goes on, until the bar is dropped: on a terminal only.
    pub fn progress(&self, message: impl Into<String>) -> ProgressBar {
        if self.args.json {
            return ProgressBar::hidden();
        }
        let bar = ProgressBar::new_spinner()
            .with_message(message.into())
            .with_finish(ProgressFinish::AndClear);
        bar.enable_steady_tick(Duration::from_millis(100));
        bar
    }

    /// Shows how many of so many bytes are done, until the bar is dropped: on a terminal only.
    pub fn progress_of(&self, message: impl Into<String>, bytes: u64) -> ProgressBar {
        if self.args.json {
            return ProgressBar::hidden();
        }
        let style = "{msg} {wide_bar} {binary_bytes}/{binary_total_bytes}, {binary_bytes_per_sec}, {eta}";
        let style = ProgressStyle::with_template(style).expect("a template that is right");
        ProgressBar::new(bytes)
            .with_style(style)
            .with_message(message.into())
            .with_finish(ProgressFinish::AndClear)
    }

    /// Prints what an operation did, as the options ask, unless its output is what standard output is for.
    pub fn finish(&self, report: &Report, device: &str, timings: &Timings) -> anyhow::Result<()> {
        if self.args.verbose {
            // Timings that cannot be shown are no reason to fail.
            let _ = io::stderr().write_all(timings.to_text().as_bytes());
        }
        if report.output.is_some_and(is_stream) {
            return Ok(());
        }
        if !self.args.json {
            return report
                .value
                .as_ref()
                .map_or(Ok(()), |(text, _)| print(&format!("{text}\n")));
        }
        let mut object = Map::new();
        object.insert("operation".into(), json!(report.operation));
        object.insert("device".into(), json!(device));
        object.insert("dtype".into(), json!(report.dtype));
        object.insert("shape".into(), json!(report.shape));
        if let Some(output) = report.output {
            object.insert("output".into(), json!(output.display().to_string()));
        }
        if let Some((_, value)) = &report.value {
            object.insert("value".into(), value.clone());
        }
        object.insert("timings_ms".into(), timings.to_json());
        print(&format!("{}\n", Value::from(object)))
    }
}

/// Writes to standard output.
pub fn print(text: &str) -> anyhow::Result<()> {
    print_by(|stdout| Ok(stdout.write_all(text.as_bytes())?))
}

/// A line on standard error. Nothing is left to be done where that cannot be written.
pub fn say(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// Writes to standard output. A reader that went away (`| head`) has had what it wanted.
pub fn print_by(write: impl FnOnce(&mut dyn Write) -> anyhow::Result<()>) -> anyhow::Result<()> {
    // Standard output itself hands on each line of what may be an array's bytes.
    let mut stdout = BufWriter::with_capacity(1 << 20, io::stdout().lock());
    let written = write(&mut stdout).and_then(|()| Ok(stdout.flush()?));
    let gone = |error: &anyhow::Error| {
        let mut causes = error.chain();
        causes.any(|cause| {
            cause
                .downcast_ref::<io::Error>()
                .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
        })
    };
    match written {
        Err(error) if !gone(&error) => Err(error).context("standard output"),
        _ => Ok(()),
    }
}
