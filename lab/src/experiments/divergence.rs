// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lanes of a warp that want to go different ways.

use anyhow::Result;
use ndarray::Array1;
use warpsmith::{DeviceArray, LaunchConfig};

use crate::kernels::divergence::{WAYS, way, ways};
use crate::lab::{Count, Lab, Steps, Unit, check_equal};
use crate::report::Report;

const NUMBERS: [u32; 4] = [1, 2, 4, 8];

pub fn run(lab: &Lab) -> Result<Report> {
    let by_lane = sweep(lab, "neighbouring threads go different ways", 1)?;
    let by_warp = sweep(lab, "neighbouring warps go different ways", 32)?;
    let mut lines = Vec::new();
    if let (Some(lanes), Some(warps)) = (by_lane.seconds(), by_warp.seconds()) {
        let slower = |times: &[f64]| {
            NUMBERS
                .iter()
                .zip(times)
                .skip(1)
                .map(|(_, time)| format!("{:.2}", time / times[0]))
                .collect::<Vec<_>>()
                .join(", ")
        };
        lines.push(format!("In a warp whose lanes go 2, 4, 8 ways, all take {} times as long as one way: a warp goes each way in turn, with the other lanes at rest.", slower(&lanes)));
        lines.push(format!(
            "Where whole warps go different ways, it is {} times: they have a place in the program each.",
            slower(&warps)
        ));
        lines.push("So what matters is not how many branches there are, but whether the lanes of one warp part; sorting work by its kind is worth that much.".into());
    } else if let (Some(lanes), Some(warps)) = (
        by_lane.counts(Count::LanesPerRequest),
        by_warp.counts(Count::LanesPerRequest),
    ) {
        lines.push(format!("Lanes that take part in an instruction, of 32: {} for 1, 2, 4, 8 ways within a warp; {} where whole warps part.", list(&lanes), list(&warps)));
        lines.push("A warp goes each way in turn, with the other lanes at rest: with 8 ways it takes eight times as many steps for the same work.".into());
    }
    Ok(Report {
        tables: vec![by_lane.table(), by_warp.table()],
        lines,
    })
}

fn list(numbers: &[f64]) -> String {
    numbers.iter().map(|x| format!("{x:.1}")).collect::<Vec<_>>().join(", ")
}

fn sweep(lab: &Lab, title: &str, group: u32) -> Result<Steps> {
    let n = lab.size(1 << 22, 1 << 11);
    let rounds = if lab.is_simulator() { 4 } else { 256 };
    let mut steps = Steps::new(title, &["ways"], Unit::Elements).counting(&[Count::LanesPerRequest]);
    for number in NUMBERS {
        let wanted: Array1<u32> = (0..n as u32).map(|i| result(i / group % number, i, rounds)).collect();
        let mut out = lab.bench.zeros(n)?;
        let config = LaunchConfig::for_len(n, 256);
        let launch =
            |out: &mut DeviceArray<u32, _>| lab.bench.stream.launch::<ways>(&config, (number, group, rounds, out));
        let cost = lab.cost(&mut out, launch, |out| check_equal(out, &wanted))?;
        steps.push([(number as usize).into()], cost, n as f64);
    }
    Ok(steps)
}

/// Where a way leads.
fn result(number: u32, value: u32, rounds: u32) -> u32 {
    debug_assert!(number < WAYS);
    let ways: [fn(u32, u32) -> u32; WAYS as usize] = [
        way::<3>, way::<5>, way::<7>, way::<9>, way::<11>, way::<13>, way::<15>, way::<17>,
    ];
    ways[number as usize](value, rounds)
}
