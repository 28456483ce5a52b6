// SPDX-License-Identifier: MIT OR Apache-2.0
//! A chain of small operations: a kernel each, one kernel for all, and recorded as a graph.

use anyhow::Result;
use ndarray::Ix1;
use warpsmith::DeviceArray;

use crate::data::{array, small};
use crate::lab::{Lab, Steps, Unit, check_equal, note_of_host};
use crate::report::Report;

type Vector = DeviceArray<f32, Ix1>;

/// Operations of the chain.
const LENGTH: usize = 8;

/// `((x + 1) · 0.5 + 1) · 0.5 …`
fn chain(x: &Vector) -> warpsmith::Result<Vector> {
    let mut x = x.add_scalar(1.0)?.mul_scalar(0.5)?;
    for _ in 1..LENGTH / 2 {
        x = x.add_scalar(1.0)?.mul_scalar(0.5)?;
    }
    Ok(x)
}

pub fn run(lab: &Lab) -> Result<Report> {
    let sizes = [lab.size(1 << 12, 1 << 8), lab.size(1 << 26, 1 << 12)];
    let title = format!("{LENGTH} operations on each element, with their waits");
    let mut table = Steps::new(title, &["elements", "way"], Unit::Calls);
    for n in sizes {
        let host = array(n, small)?;
        // Steps of sixteenths, which have room in f32: nothing is rounded.
        let wanted = host.mapv(|x| (0..LENGTH / 2).fold(x, |x, _| (x + 1.0) * 0.5));
        let x = lab.bench.upload(&host)?;
        let stream = &lab.bench.stream;
        let mut out = lab.bench.zeros(n)?;
        let one_by_one = |out: &mut Vector| {
            *out = chain(&x)?;
            Ok(())
        };
        let cost = lab.wall_of(&mut out, one_by_one, |out| check_equal(out, &wanted))?;
        table.push([n.into(), "a kernel each".into()], cost, 1.0);
        let fused = |out: &mut Vector| {
            let mut expr = (x.expr() + 1.0) * 0.5;
            for _ in 1..LENGTH / 2 {
                expr = (expr + 1.0) * 0.5;
            }
            *out = expr.eval()?;
            Ok(())
        };
        let cost = lab.wall_of(&mut out, fused, |out| check_equal(out, &wanted))?;
        table.push([n.into(), "one kernel, an expression".into()], cost, 1.0);
        let mut graph = stream.capture(&x, |_, x| chain(x))?;
        graph.launch()?;
        check_equal(graph.output(), &wanted)?;
        let cost = lab.wall_of(&mut graph, |graph| graph.launch(), |_| Ok(()))?;
        table.push([n.into(), "a kernel each, a graph".into()], cost, 1.0);
    }
    let mut lines = explain(&table, sizes);
    if table.seconds().is_some() {
        note_of_host(&mut lines);
    }
    Ok(Report {
        lines,
        tables: vec![table.table()],
    })
}

fn explain(table: &Steps, [small, large]: [usize; 2]) -> Vec<String> {
    if let Some(seconds) = table.seconds() {
        let micros: Vec<f64> = seconds.iter().map(|x| x * 1e6).collect();
        return vec![
            format!(
                "Of {small} elements the chain takes {:.0} µs by a kernel each, {:.0} as a graph, {:.0} as one kernel: what it costs is its launches.",
                micros[0], micros[2], micros[1]
            ),
            format!(
                "Of {large} it takes {:.0} µs, {:.0} and {:.0}: what it costs is memory, and a graph reads and writes each step's result as before.",
                micros[3], micros[5], micros[4]
            ),
            format!(
                "One kernel reads each element once and writes it once, where {LENGTH} do so {LENGTH} times: {:.1} times as fast.",
                micros[3] / micros[4]
            ),
        ];
    }
    let once = 2 * large * size_of::<f32>();
    vec![format!(
        "Of {large} elements {LENGTH} kernels move {} bytes of global memory, what each reads and writes. One kernel moves {once}, what the first reads and the last writes: what lies between stays in registers. (That is computed; an operation with a number is an expression, too, which the simulated GPU interprets, and counts nothing of.)",
        LENGTH * once
    )]
}
