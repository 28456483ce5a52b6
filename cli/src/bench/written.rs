// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where rows go as soon as they are measured, so that none is lost when the program is stopped: a line of a table or of a
//! list on standard output, and the file, which is whole after each of them.

use std::path::PathBuf;

use anyhow::Result;
use serde_json::{Value, json};
use warpsmith::Properties;
use warpsmith_lab::report::figures;

use super::measure::Limit;
use super::rows::Row;
use super::{Outcome, arithmetic_peak};
use crate::session::{Session, print};

const HEADER: [&str; 7] = ["row", "type", "n", "median", "min", "throughput", "of copy or peak"];

/// The columns' widths that most cells have room in, but for that of the rows' names; a cell that has not makes its line longer.
const WIDTHS: [usize; 7] = [0, 5, 11, 12, 12, 14, 15];

/// What is written of the rows.
pub struct Written<'a> {
    session: &'a Session<'a>,
    device: &'a Properties,
    file: Option<PathBuf>,
    /// Whether standard output is a table, and not the list.
    is_table: bool,
    widths: [usize; 7],
    rows: Vec<Value>,
}

impl<'a> Written<'a> {
    /// Prints the table's head, if there is to be one.
    pub fn begin(
        session: &'a Session<'a>,
        device: &'a Properties,
        file: Option<PathBuf>,
        rows: &[&'static Row],
    ) -> Result<Self> {
        let names = rows.iter().map(|row| row.name.len());
        let mut widths = WIDTHS;
        widths[0] = names.max().unwrap_or(0).max(HEADER[0].len());
        let written = Self {
            session,
            device,
            is_table: !session.json() || file.is_some(),
            file,
            widths,
            rows: Vec::new(),
        };
        if written.is_table {
            let rule = written.widths.map(|width| "-".repeat(width + 2)).join("|");
            let head = written.line(&HEADER.map(String::from));
            print(&format!("{} ({})\n{head}|{rule}|\n", device.name, device.id))?;
        }
        Ok(written)
    }

    /// One more row.
    pub fn add(&mut self, outcome: &Outcome) -> Result<()> {
        let row = to_json(outcome);
        if self.is_table {
            self.rows.push(row);
            self.write_file()?;
            return print(&self.line(&cells(outcome, self.device)));
        }
        let before = if self.rows.is_empty() { "[" } else { ",\n" };
        print(&format!("{before}{row}"))?;
        self.rows.push(row);
        Ok(())
    }

    /// After the last row.
    pub fn end(self) -> Result<()> {
        match (self.is_table, self.rows.is_empty()) {
            (true, true) => self.write_file(),
            (true, false) => Ok(()),
            (false, true) => print("[]\n"),
            (false, false) => print("]\n"),
        }
    }

    /// The list so far, in the place of the file that was there.
    fn write_file(&self) -> Result<()> {
        let Some(path) = &self.file else {
            return Ok(());
        };
        let list = json!(self.rows);
        self.session
            .create_output(path)?
            .commit(|file| Ok(writeln!(file, "{list}")?))
    }

    /// A line of the table: words to the left, numbers to the right.
    fn line(&self, cells: &[String; 7]) -> String {
        let mut line = String::from("|");
        for (column, (cell, width)) in cells.iter().zip(self.widths).enumerate() {
            let cell = match column {
                0 | 1 => format!(" {cell:<width$} |"),
                _ => format!(" {cell:>width$} |"),
            };
            line.push_str(&cell);
        }
        line.push('\n');
        line
    }
}

/// A row of the table.
fn cells(outcome: &Outcome, device: &Properties) -> [String; 7] {
    let Outcome {
        name, measured, copy, ..
    } = outcome;
    let (throughput, share) = match measured.limit {
        Limit::Bandwidth => (
            format!("{} GB/s", figures(measured.bytes_per_second() / 1e9)),
            copy.map(|copy| measured.bytes_per_second() / copy),
        ),
        Limit::Arithmetic => (
            format!("{} TFLOP/s", figures(measured.operations_per_second() / 1e12)),
            arithmetic_peak(device, measured.dtype).map(|peak| measured.operations_per_second() / peak),
        ),
    };
    [
        name.to_string(),
        measured.dtype.to_string(),
        measured.n.to_string(),
        format!("{:.4} ms", measured.median_ms()),
        format!("{:.4} ms", measured.min_ms()),
        throughput,
        share.map_or("unknown".into(), |share| format!("{:.1} %", 100.0 * share)),
    ]
}

/// A row of the list.
fn to_json(Outcome { name, measured, .. }: &Outcome) -> Value {
    let mut object = json!({
        "name": name,
        "dtype": measured.dtype,
        "n": measured.n,
        "ms_median": measured.median_ms(),
        "ms_min": measured.min_ms(),
        "repeats": measured.times.repeats,
    });
    if let Some(shape) = &measured.shape {
        object["shape"] = json!(shape);
    }
    match measured.limit {
        Limit::Bandwidth => object["gb_s"] = json!(measured.bytes_per_second() / 1e9),
        Limit::Arithmetic => object["tflop_s"] = json!(measured.operations_per_second() / 1e12),
    }
    object
}
