// SPDX-License-Identifier: MIT OR Apache-2.0
//! Products of matrices, from a thread for each element to the tensor cores.

use anyhow::Result;
use ndarray::Ix2;
use warpsmith::ops::Precision;
use warpsmith::{DeviceArray, LaunchConfig, bf16};

use crate::data::{array, small};
use crate::kernels::matmul::{EDGE, THREADS, TILE, matmul_by_columns, matmul_by_rows, matmul_registers, matmul_tiled};
use crate::lab::{Count, Lab, Steps, Unit, check_equal};
use crate::report::Report;

type Matrix = DeviceArray<f32, Ix2>;

pub fn run(lab: &Lab) -> Result<Report> {
    let n = (lab.size(1 << 22, 1 << 12) as f64).sqrt() as usize;
    let matrix = |first: usize| -> Result<_> { Ok(array(n * n, |i| small(first + i))?.into_shape_with_order((n, n))?) };
    let (a, b) = (matrix(0)?, matrix(n * n)?);
    let wanted = a.dot(&b);
    let (x, y) = (lab.bench.upload(&a)?, lab.bench.upload(&b)?);
    let stream = &lab.bench.stream;
    let square = LaunchConfig::for_shape((n, n), (EDGE as u32, EDGE as u32));
    let tiles = n.div_ceil(TILE) as u32;
    let registers = LaunchConfig::new((tiles, tiles), THREADS as u32);
    type Step<'a> = Box<dyn Fn(&mut Matrix) -> warpsmith::Result<()> + 'a>;
    let steps: [(&str, Step); 6] = [
        (
            "a thread an element, by columns",
            Box::new(|out| stream.launch::<matmul_by_columns>(&square, (n, &x, &y, out))),
        ),
        (
            "a thread an element, by rows",
            Box::new(|out| stream.launch::<matmul_by_rows>(&square, (n, &x, &y, out))),
        ),
        (
            "tiles in shared memory",
            Box::new(|out| stream.launch::<matmul_tiled>(&square, (n, &x, &y, out))),
        ),
        (
            "tiles in registers",
            Box::new(|out| stream.launch::<matmul_registers>(&registers, (n, &x, &y, out))),
        ),
        ("the library, f32", Box::new(|out| x.matmul_into(&y, out))),
        (
            "the library, TF32",
            Box::new(|out| x.fused_matmul(&y).precision(Precision::Tf32).compute_into(out)),
        ),
    ];
    let title = format!("products of {n} × {n} matrices");
    let counts = [
        Count::Requests,
        Count::SectorsPerRequest,
        Count::BytesMoved,
        Count::BankConflicts,
    ];
    let mut table = Steps::new(title, &["step"], Unit::Operations).counting(&counts);
    let operations = 2.0 * (n as f64).powi(3);
    for (name, step) in steps {
        let mut out = lab.bench.zeros((n, n))?;
        let cost = lab.cost(&mut out, step, |out| check_equal(out, &wanted))?;
        table.push([name.into()], cost, operations);
    }
    let (x, y) = (x.cast::<bf16>()?, y.cast::<bf16>()?);
    let mut out = lab.bench.zeros::<bf16, _>((n, n))?;
    // The sums are integers that f32 has exactly, and are rounded once.
    let wanted = wanted.mapv(bf16::from_f32);
    let cost = lab.cost(&mut out, |out| x.matmul_into(&y, out), |out| check_equal(out, &wanted))?;
    table.push(["the library, bf16".into()], cost, operations);
    Ok(Report {
        lines: explain(&table),
        tables: vec![table.table()],
    })
}

fn explain(table: &Steps) -> Vec<String> {
    if let Some(rates) = table.rates() {
        let gain = |step: usize| rates[step] / rates[step - 1];
        return vec![
            format!(
                "Neighbouring threads on neighbouring columns: {:.1} times as fast, for a warp then reads and writes rows. Tiles in shared memory: {:.2} times on top.",
                gain(1),
                gain(2)
            ),
            format!(
                "4 × 4 results for each thread, 16 products of 8 numbers: {:.2} times the rate of the tiles; the library's f32 kernel goes {:.2} times as far again.",
                gain(3),
                gain(4)
            ),
            format!(
                "TF32 and bf16 have {:.1} and {:.1} times the rate of the library's f32, at fewer bits of the factors; from the first step to the last it is {:.0} times.",
                rates[5] / rates[4],
                rates[6] / rates[4],
                rates[6] / rates[0]
            ),
        ];
    }
    let (Some(requests), Some(sectors), Some(moved)) = (
        table.counts(Count::Requests),
        table.counts(Count::SectorsPerRequest),
        table.counts(Count::BytesMoved),
    ) else {
        return vec![];
    };
    vec![
        format!(
            "By columns a request takes {:.1} sectors, by rows {:.1}: a warp then reads and writes rows.",
            sectors[0], sectors[1]
        ),
        format!(
            "Each number that a tile holds is used by a whole row of threads: {:.1} times fewer requests of global memory; with tiles in registers {:.1} times fewer again.",
            requests[1] / requests[2],
            requests[2] / requests[3]
        ),
        format!("In bytes: from {:.0} to {:.0}.", moved[0], moved[3]),
    ]
}
