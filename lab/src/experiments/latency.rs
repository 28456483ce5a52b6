// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a launch costs, however little it does.

use anyhow::{Result, ensure};
use warpsmith::LaunchConfig;

use crate::kernels::hello::nothing;
use crate::lab::{Lab, Steps, Unit, note_of_host};
use crate::report::Report;

/// Launches in a row.
const ROW: usize = 500;

pub fn run(lab: &Lab) -> Result<Report> {
    let stream = &lab.bench.stream;
    let config = LaunchConfig::new(1, 32);
    let mut steps = Steps::new("what the host waits for", &["work"], Unit::Calls);
    let row = if lab.is_simulator() { 5 } else { ROW };
    let cost = lab.wall(|| (0..row).try_for_each(|_| Ok(stream.launch::<nothing>(&config, ())?)))?;
    steps.push(
        [format!("{row} launches, then one wait").as_str().into()],
        cost,
        row as f64,
    );
    let cost = lab.wall(|| {
        (0..row).try_for_each(|_| {
            stream.launch::<nothing>(&config, ())?;
            Ok(stream.synchronize()?)
        })
    })?;
    steps.push(
        [format!("{row} launches, each with a wait").as_str().into()],
        cost,
        row as f64,
    );
    let x = lab.bench.upload(&ndarray::arr0(2.5f32))?;
    let cost = lab.wall(|| {
        (0..row).try_for_each(|_| {
            ensure!(
                x.to_ndarray()?.into_scalar() == 2.5,
                "a number that is read back differs"
            );
            Ok(())
        })
    })?;
    steps.push([format!("{row} numbers read back").as_str().into()], cost, row as f64);
    let mut graph = stream.capture((), |stream, ()| {
        (0..row).try_for_each(|_| stream.launch::<nothing>(&config, ()))
    })?;
    let cost = lab.wall(|| Ok(graph.launch()?))?;
    steps.push([format!("{row} launches as a graph").as_str().into()], cost, row as f64);
    let mut lines = explain(&steps, row);
    if steps.seconds().is_some() {
        note_of_host(&mut lines);
    }
    Ok(Report {
        tables: vec![steps.table()],
        lines,
    })
}

fn explain(steps: &Steps, row: usize) -> Vec<String> {
    match steps.seconds() {
        Some(seconds) => {
            let micros = |i: usize| seconds[i] * 1e6 / row as f64;
            vec![
                format!(
                    "A launch costs the host {:.1} µs as long as nobody waits, {:.1} µs with a wait after each: the way there and back is the difference.",
                    micros(0),
                    micros(1)
                ),
                format!(
                    "To read a number back takes {:.1} µs. A loop that looks at a result in each step is as slow as that, whatever it computes.",
                    micros(2)
                ),
                format!(
                    "As a graph, a launch costs {:.1} µs: the GPU goes from kernel to kernel by itself.",
                    micros(3)
                ),
            ]
        }
        None => vec!["The simulated GPU has done a launch when the call returns: there is no latency to see.".into()],
    }
}
