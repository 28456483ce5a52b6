// SPDX-License-Identifier: MIT OR Apache-2.0
//! Banks: strides in shared memory, and the transpose that runs into them.

use anyhow::{Result, ensure};
use ndarray::{Array1, Array2, ArrayView2, Axis, Ix2, Ix3};
use warpsmith::ops::Border;
use warpsmith::{DeviceArray, LaunchConfig};

use crate::data::{array, small};
use crate::kernels::blur::{COLUMNS, RADIUS, ROWS as BLUR_ROWS, blur_naive, blur_tiled};
use crate::kernels::shared_memory::{LOADS, THREADS, WORDS, strided_shared};
use crate::kernels::transpose::{EDGE, ROWS, transpose_naive, transpose_padded, transpose_tiled};
use crate::lab::{Count, Lab, Steps, Unit, check_equal};
use crate::report::Report;

/// The bank conflicts of a stride are 1, 2, 4 … 32 words of a bank, and 33 has none again.
const STRIDES: [usize; 7] = [1, 2, 4, 8, 16, 32, 33];

pub fn run(lab: &Lab) -> Result<Report> {
    let (strides, transposes, blurs) = (strides(lab)?, transposes(lab)?, blurs(lab)?);
    let mut lines = Vec::new();
    if let (Some(times), Some(rates)) = (strides.seconds(), transposes.rates()) {
        let slower = |i: usize| times[i] / times[0];
        let free = if slower(1) < 1.2 {
            " (the loop's other instructions hide that)"
        } else {
            ""
        };
        lines.push(format!(
            "The 32 lanes of a warp read words a stride apart: at stride 2 that takes {:.1} times as long as at 1{free}, at 8 {:.1} times, at 32 {:.1} times, and at 33 {:.1} times.",
            slower(1), slower(3), slower(5), slower(6)
        ));
        lines.push(
            "There are 32 banks, and word i is in bank i % 32: at stride 32 all lanes want the same bank, one after the other; at 33 each another one.".into(),
        );
        lines.push(transposed(&rates, &blurs.rates().unwrap_or_default()));
    } else if let Some(conflicts) = strides.counts(Count::BankConflicts) {
        lines.push(format!(
            "Rounds that bank conflicts add: {} at stride 1, {} at stride 8, {} at stride 32, {} at stride 33. There are 32 banks, and word i is in bank i % 32.",
            conflicts[0], conflicts[3], conflicts[5], conflicts[6]
        ));
        if let (Some(sectors), Some(conflicts)) = (
            transposes.counts(Count::SectorsPerRequest),
            transposes.counts(Count::BankConflicts),
        ) {
            lines.push(format!(
                "The tile brings the transpose from {:.1} sectors a request to {:.1}; padding takes its {} bank conflicts to {}.",
                sectors[0], sectors[1], conflicts[1], conflicts[2]
            ));
        }
    }
    Ok(Report {
        tables: vec![strides.table(), transposes.table(), blurs.table()],
        lines,
    })
}

/// What the transposes and the blurs show.
fn transposed(rates: &[f64], blurs: &[f64]) -> String {
    let [naive, tiled, padded, library] = [rates[0], rates[1], rates[2], rates[3]];
    let blur = match blurs {
        [naive, tiled, ..] if tiled > naive => format!("A tile makes the blur {:.2} times as fast", tiled / naive),
        [naive, tiled, ..] => format!(
            "The blur is not faster by a tile, as older texts have it, but {:.2} times as slow: the first-level cache serves its 25 loads",
            naive / tiled
        ),
        _ => String::new(),
    };
    format!(
        "The transpose: a tile makes it {:.1} times as fast as the naive one, padding {:.2} times as fast as that, and the library's has {:.2} times the padded one's rate. {blur}.",
        tiled / naive,
        padded / tiled,
        library / padded
    )
}

fn strides(lab: &Lab) -> Result<Steps> {
    let blocks = lab.size(1 << 18, 1 << 9).div_ceil(THREADS).min(1 << 14);
    let rounds = if lab.is_simulator() { 2 } else { 256 };
    let (n, config) = (blocks * THREADS, LaunchConfig::new(blocks as u32, THREADS as u32));
    let title = format!("{} loads from shared memory by each of {n} threads", rounds * LOADS);
    let mut steps = Steps::new(title, &["stride"], Unit::Bytes).counting(&[Count::Wavefronts, Count::BankConflicts]);
    for stride in STRIDES {
        let first = |t: usize, round: usize| (stride * t + round) % (WORDS / 2);
        let words = |first: usize| (0..LOADS).map(|k| (first + 32 * k) as u32).sum::<u32>();
        let sum = |t: usize| (0..rounds).map(|round| words(first(t, round))).sum();
        let of_block: Vec<u32> = (0..THREADS).map(sum).collect();
        let wanted: Array1<u32> = (0..n).map(|i| of_block[i % THREADS]).collect();
        let mut out = lab.bench.zeros(n)?;
        let launch = |out: &mut DeviceArray<u32, _>| {
            let args = (stride as u32, rounds as u32, out);
            lab.bench.stream.launch::<strided_shared>(&config, args)
        };
        let cost = lab.cost(&mut out, launch, |out| check_equal(out, &wanted))?;
        steps.push([stride.into()], cost, (n * rounds * LOADS * size_of::<u32>()) as f64);
    }
    Ok(steps)
}

type Matrix = DeviceArray<f32, Ix2>;

fn transposes(lab: &Lab) -> Result<Steps> {
    // Neither is a multiple of the tile, nor of 32 banks.
    let side = (lab.size(1 << 26, 1 << 13) as f64).sqrt() as usize;
    let (rows, columns) = (side + 3, side + 5);
    let host = array(rows * columns, small)?.into_shape_with_order((rows, columns))?;
    let x = lab.bench.upload(&host)?;
    let grid = (columns.div_ceil(EDGE) as u32, rows.div_ceil(EDGE) as u32);
    let config = LaunchConfig::new(grid, (EDGE as u32, ROWS as u32));
    let stream = &lab.bench.stream;
    type Step<'a> = Box<dyn Fn(&mut Matrix) -> warpsmith::Result<()> + 'a>;
    let steps: [(&str, Step); 4] = [
        (
            "naive",
            Box::new(|out| stream.launch::<transpose_naive>(&config, (rows, columns, &x, out))),
        ),
        (
            "tiled",
            Box::new(|out| stream.launch::<transpose_tiled>(&config, (rows, columns, &x, out))),
        ),
        (
            "tiled, padded",
            Box::new(|out| stream.launch::<transpose_padded>(&config, (rows, columns, &x, out))),
        ),
        ("the library", Box::new(|out| out.assign(&x.t()))),
    ];
    let title = format!("the transpose of {rows} × {columns} f32");
    let counts = [Count::SectorsPerRequest, Count::BankConflicts];
    let mut table = Steps::new(title, &["step"], Unit::Bytes).counting(&counts);
    for (name, step) in steps {
        let mut out = lab.bench.zeros((columns, rows))?;
        let cost = lab.cost(&mut out, step, |out| check_equal(out, &host.t()))?;
        table.push([name.into()], cost, (2 * rows * columns * size_of::<f32>()) as f64);
    }
    Ok(table)
}

/// The mean of 5 × 5 pixels, from global memory and from a tile.
fn blurs(lab: &Lab) -> Result<Steps> {
    let side = lab.size(1 << 24, 1 << 12).isqrt();
    let (rows, columns) = (side + 3, side + 5);
    let host = array(rows * columns, small)?.into_shape_with_order((rows, columns, 1))?;
    let picture = lab.bench.upload(&host)?;
    let x = lab.bench.upload(&host.index_axis(Axis(2), 0).to_owned())?;
    let config = LaunchConfig::for_shape((rows, columns), (COLUMNS as u32, BLUR_ROWS as u32));
    let stream = &lab.bench.stream;
    type Step<'a> = Box<dyn Fn(&mut Matrix) -> warpsmith::Result<()> + 'a>;
    let steps: [(&str, Step); 2] = [
        (
            "naive",
            Box::new(|out| stream.launch::<blur_naive>(&config, (rows, columns, &x, out))),
        ),
        (
            "tiled",
            Box::new(|out| stream.launch::<blur_tiled>(&config, (rows, columns, &x, out))),
        ),
    ];
    let title = format!("the mean of 5 × 5 pixels, of {rows} × {columns} f32");
    let mut table = Steps::new(title, &["step"], Unit::Bytes).counting(&[Count::Requests, Count::BytesMoved]);
    let bytes = (2 * rows * columns * size_of::<f32>()) as f64;
    let wanted = blurred(&host.index_axis(Axis(2), 0));
    for (name, step) in steps {
        let mut out = lab.bench.zeros((rows, columns))?;
        let cost = lab.cost(&mut out, step, |out| check_equal(out, &wanted))?;
        table.push([name.into()], cost, bytes);
    }
    let mut out = lab.bench.zeros((rows, columns, 1))?;
    let check = |out: &DeviceArray<f32, Ix3>| {
        let out = out.to_ndarray()?;
        let off = out.iter().zip(&wanted).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        // A rounding, or that of 1/25 too, of numbers up to 4.
        ensure!(off < 2e-6, "the library's blur is off by {off}");
        Ok(())
    };
    let cost = lab.cost(&mut out, |out| picture.box_blur_into(RADIUS, Border::Clamp, out), check)?;
    table.push(["the library".into()], cost, bytes);
    Ok(table)
}

/// The same on the host: sums of integers, which are exact in any order, and one division.
fn blurred(x: &ArrayView2<f32>) -> Array2<f32> {
    let (rows, columns) = x.dim();
    let near = |i: usize, d: usize, most: usize| (i + d).saturating_sub(RADIUS).min(most - 1);
    let mean = |(i, j): (usize, usize)| {
        let row = |dy: usize| {
            (0..=2 * RADIUS)
                .map(|dx| x[(near(i, dy, rows), near(j, dx, columns))])
                .sum::<f32>()
        };
        (0..=2 * RADIUS).map(row).sum::<f32>() / 25.0
    };
    Array2::from_shape_fn((rows, columns), mean)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_the_blur_says_what_its_numbers_do() {
        let transposes = [411.0, 1407.0, 1699.0, 1719.0];
        let faster = transposed(&transposes, &[190.0, 354.0, 426.0]);
        assert!(
            faster.contains("3.4 times as fast as the naive one") && faster.contains("blur 1.86 times as fast"),
            "{faster}"
        );
        let slower = transposed(&transposes, &[300.0, 200.0, 426.0]);
        assert!(
            slower.contains("not faster by a tile") && slower.contains("1.50 times as slow"),
            "{slower}"
        );
    }
}
