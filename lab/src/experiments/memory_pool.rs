// SPDX-License-Identifier: MIT OR Apache-2.0
//! What it costs to allocate an array: from memory that was freed before, and from the driver.

use anyhow::{Result, ensure};
use ndarray::Ix1;
use warpsmith::DeviceArray;

use crate::lab::{Lab, Steps, Unit, note_of_host};
use crate::report::Report;

/// Arrays in a row.
const ROW: usize = 20;

pub fn run(lab: &Lab) -> Result<Report> {
    let n = lab.size(1 << 24, 1 << 12);
    let (device, stream) = (&lab.bench.device, &lab.bench.stream);
    let title = format!("{ROW} times an array of {n} zeros, which is dropped again");
    let mut steps = Steps::new(title, &["memory"], Unit::Bytes);
    let bytes = (ROW * n * size_of::<f32>()) as f64;
    let make = || DeviceArray::<f32, Ix1>::zeros(stream, n);
    let mut kept = make()?;
    let cost = lab.wall(|| (0..ROW).try_for_each(|_| Ok(kept.fill(0.0)?)))?;
    steps.push(["the same array, filled again".into()], cost, bytes);
    let cost = lab.wall(|| (0..ROW).try_for_each(|_| Ok(make().map(drop)?)))?;
    steps.push(["freed and allocated in the stream's order".into()], cost, bytes);
    let before = device.memory()?.allocated;
    let cost = lab.wall(|| {
        (0..ROW).try_for_each(|_| {
            drop(make()?);
            Ok(device.trim()?)
        })
    })?;
    steps.push(["given back to the driver each time".into()], cost, bytes);
    let after = device.memory()?.allocated;
    ensure!(after == before, "{after} bytes are allocated, {before} were");
    let mut lines = match steps.seconds() {
        Some(seconds) => {
            let micros = |i: usize| seconds[i] * 1e6 / ROW as f64;
            vec![
                format!(
                    "An array that is made anew each time takes {:.1} µs, one that is filled again {:.1}: memory that is freed stays with the stream, which takes it for the next array.",
                    micros(1),
                    micros(0)
                ),
                format!(
                    "Where it goes back to the driver and is mapped anew each time, it is {:.0} µs, {:.1} times as long.",
                    micros(2),
                    micros(2) / micros(1)
                ),
                match micros(1) / micros(0) {
                    more if more < 1.1 => {
                        "So nothing is gained by keeping arrays for later by hand; what costs is to give memory back."
                            .into()
                    }
                    more => format!("An array that is kept by hand spares a factor of {more:.2}."),
                },
            ]
        }
        None => vec!["The simulated GPU's memory is the host's, and its allocations are the allocator's.".into()],
    };
    if steps.seconds().is_some() {
        note_of_host(&mut lines);
    }
    Ok(Report {
        tables: vec![steps.table()],
        lines,
    })
}
