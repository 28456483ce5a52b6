// SPDX-License-Identifier: MIT OR Apache-2.0
//! How many threads it takes to keep memory busy, and what else does.

use anyhow::Result;
use warpsmith::{DeviceArray, LaunchConfig};

use crate::data::{array, small};
use crate::kernels::map::vector_add_several;
use crate::lab::{Count, Lab, Steps, Unit, check_equal};
use crate::report::Report;

const THREADS: u32 = 256;

/// Elements of each thread.
const EACH: [u32; 2] = [1, 8];

pub fn run(lab: &Lab) -> Result<Report> {
    let n = lab.size(1 << 26, 1 << 13);
    let (a, b) = (array(n, small)?, array(n, |i| small(n + i))?);
    let wanted = &a + &b;
    let (a, b) = (lab.bench.upload(&a)?, lab.bench.upload(&b)?);
    let device = &lab.bench.device;
    let properties = device.properties();
    let room = properties
        .shared_memory_per_multiprocessor
        .unwrap_or(properties.shared_memory_per_block_optin);
    let mut table = Steps::new(
        format!("the sum of two vectors of {n} f32, with blocks kept out by shared memory that nobody uses"),
        &["elements a thread", "blocks at a time", "threads at a time, %"],
        Unit::Bytes,
    )
    .counting(&[Count::SectorsPerRequest]);
    let mut lines: Vec<(String, Vec<(f64, f64)>)> = Vec::new();
    for each in EACH {
        let mut points = Vec::new();
        for blocks in [1, 2, 3, 4, 6, 8] {
            // A block may have a kilobyte for the system besides.
            let share = (room / blocks)
                .saturating_sub(1024)
                .min(properties.shared_memory_per_block_optin)
                / 128
                * 128;
            let blocks = device.occupancy::<vector_add_several>(THREADS, share as usize)?;
            let grid = n.div_ceil((THREADS * each) as usize).max(1) as u32;
            let config = LaunchConfig {
                dynamic_shared: share as usize,
                ..LaunchConfig::new(grid, THREADS)
            };
            let percent = 100.0 * f64::from(blocks * THREADS) / f64::from(properties.max_threads_per_multiprocessor);
            let mut out = lab.bench.zeros(n)?;
            let launch = |out: &mut DeviceArray<f32, _>| {
                lab.bench
                    .stream
                    .launch::<vector_add_several>(&config, (each, &a, &b, out))
            };
            let cost = lab.cost(&mut out, launch, |out| check_equal(out, &wanted))?;
            table.push(
                [(each as usize).into(), (blocks as usize).into(), percent.into()],
                cost,
                (3 * n * size_of::<f32>()) as f64,
            );
            points.push(percent);
        }
        let rates = table.rates().unwrap_or_default();
        let mine = rates.into_iter().skip(lines.len() * points.len());
        lines.push((
            format!("{each} elements a thread"),
            points.into_iter().zip(mine).collect(),
        ));
    }
    Ok(Report {
        lines: explain(&lines),
        tables: vec![table.table()],
    })
}

fn explain(lines: &[(String, Vec<(f64, f64)>)]) -> Vec<String> {
    let [(_, one), (_, several)] = lines else {
        return vec![];
    };
    let (Some(least), Some(most)) = (one.first(), one.last()) else {
        return vec!["The simulated GPU runs blocks on the host's cores: how many are at a time says nothing there of memory. The table shows what its driver would allow.".into()];
    };
    let enough = one.iter().find(|point| point.1 > 0.95 * most.1).unwrap_or(most);
    let of_several = several.first().map_or(0.0, |point| point.1);
    let on = match enough.0 < most.0 {
        true => format!(
            "From {:.0} % on it is within 5 % of the rate at {:.0} %: more threads than that buy nothing.",
            enough.0, most.0
        ),
        false => format!("No fewer than {:.0} % come within 5 % of that rate.", most.0),
    };
    vec![
        format!(
            "With {:.0} % of the threads at a time the kernel moves {:.0} GB/s, with {:.0} % {:.0}: loads are under way for hundreds of cycles, and other threads have to ask for more meanwhile.",
            least.0, least.1, most.0, most.1
        ),
        on,
        format!(
            "With {} elements a thread {:.0} % move {:.0} GB/s, {:.2} times as many as with one: threads go on where otherwise new blocks have to begin.",
            EACH[1],
            least.0,
            of_several,
            of_several / least.1
        ),
    ]
}
