// SPDX-License-Identifier: MIT OR Apache-2.0
//! `warpsmith bench`: how long the library's operations take, at several sizes.
//!
//! - Inputs are random numbers, uploaded once; outputs are allocated once. The forms of the operations are used that
//!   write into an existing array and do not make the host wait; what they allocate for themselves counts.
//! - The first call's result is checked against the CPU, on the same data, before anything is timed: every element of
//!   it, but for the Gaussian blur, the product of matrices and attention, of which places all over the result are.
//! - A row whose result is wrong, or that fails otherwise, is reported and left out; the others are measured, shown and
//!   written all the same, and the program fails at the end. With `--verbose` it says how long each row took in all.
//! - A row is shown and written as soon as it is measured: who stops the program keeps those that were.
//! - Then come 3 calls of warm-up, and those that are timed, each between two events of the stream. All are queued
//!   without a wait in between, behind fills of memory that keep the GPU busy for twice as long as that takes the host,
//!   so that the times are without the host's launching; they are read at the end. The table has the median and the
//!   minimum; throughput and the plot are of the median.
//! - Throughput counts the bytes that must move, each input read once and each result written once; for products of
//!   matrices it counts multiplications and additions. It is held against that of the device's own copy of as many
//!   `f32`, the latter against what the multiprocessors can do with that type.

mod attention;
mod bytes;
mod check;
mod data;
mod expressions;
mod grouped;
mod measure;
mod networks;
mod norms;
mod plot;
mod products;
mod rows;
mod sorting;
mod squares;
mod written;

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Result, bail, ensure};
use clap::Args;
use warpsmith::{Device, Properties};

use crate::output::Output;
use crate::session::{self, Session};
pub use measure::Bench;
use measure::{Limit, Measurement};
use rows::{ROWS, Row};
use written::Written;

/// Sizes on a GPU: one that fits into the L2 cache, one that does not, and one that is all about bandwidth.
const GPU_SIZES: &[usize] = &[1 << 20, 1 << 24, 1 << 28];

/// Sizes on the simulated GPU, where every thread is run by the CPU.
const SIMULATOR_SIZES: &[usize] = &[1 << 16];

const MOST_ELEMENTS: usize = 1 << 34;

#[derive(Args)]
pub struct BenchArgs {
    /// Numbers of elements, with Ki, Mi or Gi for 2^10, 2^20 or 2^30 [default: 1Mi,16Mi,256Mi on a GPU, 64Ki on the
    /// simulated one].
    #[arg(long, value_delimiter = ',', value_name = "N,…", value_parser = parse_size)]
    sizes: Vec<usize>,
    /// Only the rows whose names contain one of these.
    #[arg(long, value_delimiter = ',', value_name = "PART,…")]
    only: Vec<String>,
    /// Timed calls of each row.
    #[arg(long, default_value = "30", value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    repeats: u32,
    /// Draws the largest size as a roofline: operations per second over operations per byte.
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
    /// With --json: writes the list to this file, which is whole after each row, and prints the table.
    #[arg(value_name = "FILE.json")]
    file: Option<PathBuf>,
}

/// A row that was measured.
struct Outcome {
    name: &'static str,
    /// The elements that were asked for.
    size: usize,
    measured: Measurement,
    /// What the copy moves at that size, in bytes per second; nothing where the copy failed.
    copy: Option<f64>,
}

/// What came of all rows.
#[derive(Default)]
struct Outcomes {
    measured: Vec<Outcome>,
    /// The rows that failed, as `NAME of SIZE`.
    failed: Vec<String>,
    /// Rows that were not tried, since the device could not go on.
    skipped: usize,
}

/// `warpsmith bench`
pub fn run(session: &Session, args: &BenchArgs) -> Result<()> {
    let rows = selected(&args.only)?;
    let plot = open_files(session, args)?;
    let device = session.open_device()?;
    device.register_kernels(warpsmith::kernels!(warpsmith_cli_kernels))?;
    let sizes = match args.sizes.as_slice() {
        [] if device.is_simulator() => SIMULATOR_SIZES,
        [] => GPU_SIZES,
        sizes => sizes,
    };
    let mut written = Written::begin(session, device.properties(), args.file.clone(), &rows)?;
    let outcomes = measure_all(session, &device, args.repeats as usize, &rows, sizes, &mut written)?;
    written.end()?;
    // Without a row there is nothing to draw.
    if let Some(file) = plot.filter(|_| !outcomes.measured.is_empty()) {
        let svg = roofline(device.properties(), &outcomes.measured)?;
        file.commit(|file| Ok(file.write_all(svg.as_bytes())?))?;
    }
    outcomes.verdict()
}

/// A number of elements: `1000`, `64Ki`, `16Mi`, `1Gi`.
fn parse_size(text: &str) -> Result<usize, String> {
    let units = [("Ki", 1usize << 10), ("Mi", 1 << 20), ("Gi", 1 << 30)];
    let (digits, unit) = units
        .iter()
        .find_map(|&(suffix, unit)| Some((text.strip_suffix(suffix)?, unit)))
        .unwrap_or((text, 1));
    let size = digits.parse().ok().and_then(|count: usize| count.checked_mul(unit));
    size.filter(|size| (1..=MOST_ELEMENTS).contains(size))
        .ok_or_else(|| "wanted a number of elements from 1 to 16Gi, as 1000, 64Ki or 16Mi".into())
}

/// The rows whose names contain one of the parts; all without one.
fn selected(parts: &[String]) -> Result<Vec<&'static Row>> {
    let matching = |part: &String| ROWS.iter().any(|row| row.name.contains(part.as_str()));
    if let Some(part) = parts.iter().find(|part| part.is_empty() || !matching(part)) {
        let names: Vec<&str> = ROWS.iter().map(|row| row.name).collect();
        bail!(
            "--only: no row has '{part}' in its name: wanted parts of {}",
            names.join(", ")
        );
    }
    let chosen = |row: &&Row| parts.is_empty() || parts.iter().any(|part| row.name.contains(part.as_str()));
    Ok(ROWS.iter().filter(chosen).collect())
}

/// Measures the rows, writes each, and says at once which of them fail and why; how long each took in all, where that is asked for.
fn measure_all(
    session: &Session,
    device: &Device,
    repeats: usize,
    rows: &[&'static Row],
    sizes: &[usize],
    written: &mut Written<'_>,
) -> Result<Outcomes> {
    let bench = Bench::new(device, repeats);
    let progress = session.progress("bench");
    let mut outcomes = Outcomes::default();
    for (number, &size) in sizes.iter().enumerate() {
        let mut measure = |row: &Row| {
            let title = format!("{} of {size}", row.name);
            progress.set_message(title.clone());
            let begin = Instant::now();
            let measured = (row.run)(&bench, size);
            if session.verbose() {
                progress.suspend(|| session::say(&format!("{title}: {:.2} s", begin.elapsed().as_secs_f64())));
            }
            measured
                .inspect_err(|error| {
                    let message = format!("{title}: {error:#}").replace(['\n', '\r'], " ");
                    progress.suspend(|| session::say(&format!("warpsmith: error: {message}")));
                    outcomes.failed.push(title);
                })
                .ok()
        };
        // Also where it is not asked for: the others are held against it.
        let copy = measure(&ROWS[0]);
        for (place, row) in rows.iter().enumerate() {
            let is_copy = row.name == ROWS[0].name;
            let measured = if is_copy { copy.clone() } else { measure(row) };
            if let Some(measured) = measured {
                let outcome = Outcome {
                    name: row.name,
                    size,
                    measured,
                    copy: copy.as_ref().map(Measurement::bytes_per_second),
                };
                progress.suspend(|| written.add(&outcome))?;
                outcomes.measured.push(outcome);
            } else if bench.stream.synchronize().is_err() {
                // As after a kernel's trap: nothing runs on this device any more.
                outcomes.skipped = rows.len() - place - 1 + (sizes.len() - number - 1) * rows.len();
                return Ok(outcomes);
            }
        }
    }
    Ok(outcomes)
}

impl Outcomes {
    /// An error where not every row was measured.
    fn verdict(&self) -> Result<()> {
        let skipped = match self.skipped {
            0 => String::new(),
            count => format!("; {count} more were not tried, since the device cannot go on"),
        };
        ensure!(
            self.failed.is_empty(),
            "rows that failed: {}{skipped}",
            self.failed.join(", ")
        );
        Ok(())
    }
}

/// The plot's file, if one was asked for. Fails, before any work is done, where a file could not be written.
fn open_files(session: &Session, args: &BenchArgs) -> Result<Option<Output>> {
    if let Some(file) = &args.file {
        ensure!(session.json(), "{}: is written with --json only", file.display());
        session.create_output(file)?;
    }
    let Some(plot) = &args.plot else {
        return Ok(None);
    };
    let is_svg = plot.extension().is_some_and(|extension| extension == "svg");
    ensure!(is_svg, "{}: wanted a name that ends in .svg", plot.display());
    session.create_output(plot).map(Some)
}

/// The roofline of the largest size.
fn roofline(device: &Properties, outcomes: &[Outcome]) -> Result<String> {
    let largest = outcomes.iter().map(|outcome| outcome.size).max().unwrap_or(0);
    let points: Vec<plot::Point> = outcomes
        .iter()
        .filter(|outcome| outcome.size == largest)
        .map(|Outcome { name, measured, .. }| plot::Point {
            label: name,
            intensity: measured.intensity(),
            performance: measured.operations_per_second() / 1e9,
        })
        .collect();
    let copies = outcomes.iter().filter(|outcome| outcome.size == largest);
    let roof = plot::Roof {
        bandwidth: copies
            .filter_map(|outcome| outcome.copy)
            .map(|copy| copy / 1e9)
            .fold(0.0, f64::max),
        peaks: peaks(device, outcomes),
    };
    plot::roofline(&format!("{}, {largest} elements", device.name), &roof, &points)
}

/// The flat parts of the roof, from low to high: that of `f32`, and those of the types of the rows that arithmetic
/// limits. Where they are not known, the best of these rows.
fn peaks(device: &Properties, outcomes: &[Outcome]) -> Vec<plot::Peak> {
    let products = outcomes
        .iter()
        .map(|outcome| &outcome.measured)
        .filter(|measured| measured.limit == Limit::Arithmetic);
    let types = ["f32"]
        .into_iter()
        .chain(products.clone().map(|measured| measured.dtype));
    let known = types.filter_map(|dtype| Some((dtype, arithmetic_peak(device, dtype)?)));
    let best = products.map(|measured| ("measured", measured.operations_per_second()));
    let mut all: Vec<_> = known.collect();
    if all.is_empty() {
        all.extend(best.max_by(|(_, a), (_, b)| a.total_cmp(b)));
    }
    all.sort_by(|(_, a), (_, b)| a.total_cmp(b));
    all.dedup_by(|(_, a), (_, b)| a == b);
    let peak = |(label, peak)| plot::Peak {
        label,
        performance: peak / 1e9,
    };
    all.into_iter().map(peak).collect()
}

/// Operations of a product of matrices of that type in a second, a fused multiply-add counted as two, at the highest
/// clock. Numbers of 16 bits and TF32 are multiplied by tensor cores, of which Blackwell's newest instructions are not
/// used; those of a GeForce reach half of that.
fn arithmetic_peak(device: &Properties, dtype: &str) -> Option<f64> {
    let lanes = match (device.compute_capability?, dtype) {
        ((9, 0), "f16" | "bf16") => 2048.0,
        ((9, 0), "tf32") | ((8, 0), "f16" | "bf16") => 1024.0,
        ((8, 0), "tf32") | ((8, _), "f16" | "bf16") => 512.0,
        ((8, _), "tf32") => 256.0,
        ((10..=12, _), "f16" | "bf16" | "tf32") => return None,
        ((7, 5) | (8, 0), _) => 64.0,
        ((8..=12, _), _) => 128.0,
        _ => return None,
    };
    let clock = 1e3 * f64::from(device.clock_khz?);
    Some(f64::from(device.multiprocessors) * clock * lanes * 2.0)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::measure::Times;
    use super::*;

    #[test]
    fn sizes_have_binary_units() {
        let sizes = ["1", "1000", "64Ki", "16Mi", "1Gi", "16Gi"].map(parse_size);
        assert_eq!(sizes, [1, 1000, 1 << 16, 1 << 24, 1 << 30, 1 << 34].map(Ok));
    }

    /// An H200 and an A100, by NVIDIA's documents of the multiprocessors' lanes.
    #[test]
    fn the_peak_is_that_of_all_lanes() {
        let mut device = Device::simulator().properties().clone();
        assert_eq!(arithmetic_peak(&device, "f32"), None);
        device.compute_capability = Some((9, 0));
        (device.multiprocessors, device.clock_khz) = (132, Some(1_980_000));
        assert_eq!(arithmetic_peak(&device, "f32"), Some(66.908_16e12));
        assert_eq!(arithmetic_peak(&device, "bf16"), Some(1_070.530_56e12));
        device.compute_capability = Some((8, 0));
        (device.multiprocessors, device.clock_khz) = (108, Some(1_410_000));
        assert_eq!(arithmetic_peak(&device, "f32"), Some(19.491_84e12));
        assert_eq!(arithmetic_peak(&device, "f16"), Some(311.869_44e12));
        assert_eq!(arithmetic_peak(&device, "tf32"), Some(155.934_72e12));
        device.clock_khz = None;
        assert_eq!(arithmetic_peak(&device, "f32"), None);
    }

    #[test]
    fn the_verdict_names_what_failed_and_counts_what_was_not_tried() {
        let verdict = |failed: &[&str], skipped| {
            let failed = failed.iter().map(|row| row.to_string()).collect();
            let outcomes = Outcomes {
                failed,
                skipped,
                ..Outcomes::default()
            };
            outcomes.verdict().map_err(|error| error.to_string())
        };
        assert_eq!(verdict(&[], 0), Ok(()));
        let message = verdict(&["add of 5", "sort of 5"], 0).unwrap_err();
        assert_eq!(message, "rows that failed: add of 5, sort of 5");
        let message = verdict(&["add of 5"], 3).unwrap_err();
        assert_eq!(
            message,
            "rows that failed: add of 5; 3 more were not tried, since the device cannot go on"
        );
    }

    #[test]
    fn the_roof_has_a_part_for_each_peak_of_the_products() {
        let mut device = Device::simulator().properties().clone();
        let outcome = |dtype, limit, operations| {
            let none = Duration::from_secs(1);
            let times = Times {
                median: none,
                min: none,
                repeats: 1,
                is_ahead: true,
            };
            let measured = Measurement::new(dtype, 1, 1, times).operations_each(operations);
            Outcome {
                name: "a row",
                size: 1,
                measured: Measurement { limit, ..measured },
                copy: Some(1.0),
            }
        };
        let products = ["f32", "f16", "bf16"].map(|dtype| outcome(dtype, Limit::Arithmetic, 5e9));
        let of = |device: &Properties, outcomes: &[Outcome]| -> Vec<_> {
            let peaks = peaks(device, outcomes).into_iter();
            peaks.map(|peak| (peak.label, peak.performance)).collect()
        };
        assert_eq!(of(&device, &products), [("measured", 5.0)]);
        assert_eq!(of(&device, &[outcome("f32", Limit::Bandwidth, 5e9)]), []);
        device.compute_capability = Some((9, 0));
        (device.multiprocessors, device.clock_khz) = (1, Some(1_000_000));
        assert_eq!(of(&device, &products), [("f32", 256.0), ("f16", 4096.0)]);
        assert_eq!(of(&device, &products[..1]), [("f32", 256.0)]);
    }
}
