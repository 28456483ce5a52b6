// SPDX-License-Identifier: MIT OR Apache-2.0
//! The operations, each on one core, on all, and by the library.

use anyhow::Result;
use cuda_std::random::{Philox4x32, uniform_f32};
use ndarray::linalg::general_mat_mul;
use ndarray::parallel::prelude::*;
use ndarray::{Array1, Array2, Array3, ArrayView2, Axis, Zip, s};
use warpsmith::ops::{Border, Sum};
use warpsmith::{DeviceArray, LaunchConfig};

use super::race::{Race, Seconds};
use crate::data::{array, small};
use crate::kernels::monte_carlo::pi_hits;

/// An operation.
pub struct Operation {
    pub name: &'static str,
    /// By how much the work grows from a size to the next, which has ten times as many elements.
    pub growth: f64,
    pub run: fn(&mut Race, usize) -> Result<Seconds>,
}

pub const OPERATIONS: [Operation; 7] = [
    Operation {
        name: "a + b",
        growth: 10.0,
        run: add,
    },
    Operation {
        name: "tanh(x)·2 + 1",
        growth: 10.0,
        run: tanh,
    },
    Operation {
        name: "sum",
        growth: 10.0,
        run: sum,
    },
    Operation {
        name: "prefix sums",
        growth: 10.0,
        run: scan,
    },
    Operation {
        name: "product of matrices",
        growth: 32.0,
        run: matmul,
    },
    Operation {
        name: "blur, 5 × 5",
        growth: 10.0,
        run: blur,
    },
    Operation {
        name: "π, random points",
        growth: 10.0,
        run: pi,
    },
];

fn add(race: &mut Race, n: usize) -> Result<Seconds> {
    let (a, b) = (array(n, small)?, array(n, |i| small(n + i))?);
    let bench = &race.lab.bench;
    let (x, y) = (bench.upload(&a)?, bench.upload(&b)?);
    let stream = bench.stream.clone();
    race.run(
        || &a + &b,
        || Zip::from(&a).and(&b).par_map_collect(|a, b| a + b),
        || x.add(&y).map(drop),
        || {
            let (x, y) = (
                DeviceArray::from_ndarray(&stream, &a)?,
                DeviceArray::from_ndarray(&stream, &b)?,
            );
            x.add(&y)?.to_ndarray()
        },
        |a, b| a == b,
    )
}

fn tanh(race: &mut Race, n: usize) -> Result<Seconds> {
    let a = array(n, small)?;
    let x = race.lab.bench.upload(&a)?;
    let stream = race.lab.bench.stream.clone();
    let function = |x: &f32| x.tanh() * 2.0 + 1.0;
    race.run(
        || a.map(function),
        || Zip::from(&a).par_map_collect(function),
        || (x.expr().tanh() * 2.0 + 1.0).eval().map(drop),
        || {
            let x = DeviceArray::from_ndarray(&stream, &a)?;
            (x.expr().tanh() * 2.0 + 1.0).eval()?.to_ndarray()
        },
        // The host's tanh and the library's are within some units of the last place of numbers up to 3.
        |a, b| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 4e-6),
    )
}

fn sum(race: &mut Race, n: usize) -> Result<Seconds> {
    let a = array(n, small)?;
    let x = race.lab.bench.upload(&a)?;
    let stream = race.lab.bench.stream.clone();
    let mut out = race.lab.bench.zeros(())?;
    race.run(
        || a.sum(),
        || a.par_iter().sum(),
        || x.sum_into(&mut out),
        || DeviceArray::from_ndarray(&stream, &a)?.sum(),
        |a, b| a == b,
    )
}

fn scan(race: &mut Race, n: usize) -> Result<Seconds> {
    let a = array(n, small)?;
    let x = race.lab.bench.upload(&a)?;
    let stream = race.lab.bench.stream.clone();
    race.run(
        || prefix_sums(&a),
        || parallel_prefix_sums(&a),
        || x.inclusive_scan::<Sum>().map(drop),
        || {
            DeviceArray::from_ndarray(&stream, &a)?
                .inclusive_scan::<Sum>()?
                .to_ndarray()
        },
        |a, b| a == b,
    )
}

fn prefix_sums(a: &Array1<f32>) -> Array1<f32> {
    let mut out = a.clone();
    out.accumulate_axis_inplace(Axis(0), |before, x| *x += before);
    out
}

/// Each part by itself; then what lies before it is added.
fn parallel_prefix_sums(a: &Array1<f32>) -> Array1<f32> {
    let mut out = a.clone();
    let part = a.len().div_ceil(rayon::current_num_threads()).max(1);
    let scan = |mut part: ndarray::ArrayViewMut1<f32>| {
        part.accumulate_axis_inplace(Axis(0), |before, x| *x += before);
        part.last().copied().unwrap_or(0.0)
    };
    let mut parts: Vec<f32> = Vec::new();
    out.axis_chunks_iter_mut(Axis(0), part)
        .into_par_iter()
        .map(scan)
        .collect_into_vec(&mut parts);
    let mut before = 0.0;
    for sum in &mut parts {
        (*sum, before) = (before, before + *sum);
    }
    let chunks = out.axis_chunks_iter_mut(Axis(0), part).into_par_iter();
    chunks.zip(parts).for_each(|(mut part, before)| part += before);
    out
}

/// A square matrix of about `n` elements, of two rows at least, as many as the blur's radius.
fn square(n: usize, first: usize) -> Result<Array2<f32>> {
    let side = n.isqrt().max(2);
    Ok(array(side * side, |i| small(first + i))?.into_shape_with_order((side, side))?)
}

fn matmul(race: &mut Race, n: usize) -> Result<Seconds> {
    let (a, b) = (square(n, 0)?, square(n, n)?);
    let bench = &race.lab.bench;
    let (x, y) = (bench.upload(&a)?, bench.upload(&b)?);
    let stream = bench.stream.clone();
    let by_rows = || {
        let mut out = Array2::zeros(a.raw_dim());
        let rows = a.nrows().div_ceil(rayon::current_num_threads());
        let parts = out.axis_chunks_iter_mut(Axis(0), rows).into_par_iter();
        let parts = parts.zip(a.axis_chunks_iter(Axis(0), rows));
        parts.for_each(|(mut out, a)| general_mat_mul(1.0, &a, &b, 0.0, &mut out));
        out
    };
    race.run(
        || a.dot(&b),
        by_rows,
        || x.matmul(&y).map(drop),
        || {
            let (x, y) = (
                DeviceArray::from_ndarray(&stream, &a)?,
                DeviceArray::from_ndarray(&stream, &b)?,
            );
            x.matmul(&y)?.to_ndarray()
        },
        |a, b| a == b,
    )
}

fn blur(race: &mut Race, n: usize) -> Result<Seconds> {
    let picture = square(n, 0)?.insert_axis(Axis(2));
    let x = race.lab.bench.upload(&picture)?;
    let stream = race.lab.bench.stream.clone();
    let flat = picture.index_axis(Axis(2), 0);
    let rows = |all: bool| {
        let mut out = Array3::zeros(picture.raw_dim());
        let row =
            |(i, mut row): (usize, ndarray::ArrayViewMut2<f32>)| blur_row(flat, i, row.index_axis_mut(Axis(1), 0));
        match all {
            true => out.axis_iter_mut(Axis(0)).into_par_iter().enumerate().for_each(row),
            false => out.axis_iter_mut(Axis(0)).enumerate().for_each(row),
        }
        out
    };
    race.run(
        || rows(false),
        || rows(true),
        || x.box_blur(2, Border::Clamp).map(drop),
        || {
            DeviceArray::from_ndarray(&stream, &picture)?
                .box_blur(2, Border::Clamp)?
                .to_ndarray()
        },
        // Sums of 25 integers, divided: one rounding, or that of 1/25 too.
        |a, b| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-6),
    )
}

/// The means of the 5 × 5 pixels around each of row `i`; the picture goes on as its nearest pixel. Rows are added up
/// first, in vectors.
fn blur_row(picture: ArrayView2<f32>, i: usize, mut out: ndarray::ArrayViewMut1<f32>) {
    let (rows, columns) = picture.dim();
    let mut sums = Array1::<f32>::zeros(columns + 4);
    for dy in 0..5 {
        let row = picture.row((i + dy).saturating_sub(2).min(rows - 1));
        sums.slice_mut(s![2..columns + 2])
            .zip_mut_with(&row, |sum, x| *sum += x);
    }
    let (first, last) = (sums[2], sums[columns + 1]);
    sums.slice_mut(s![..2]).fill(first);
    sums.slice_mut(s![columns + 2..]).fill(last);
    for dx in 0..5 {
        out.zip_mut_with(&sums.slice(s![dx..columns + dx]), |out, sum| *out += sum);
    }
    out.mapv_inplace(|sum| sum / 25.0);
}

/// Draws of each thread, of two points each.
const DRAWS: u32 = 16;

fn pi(race: &mut Race, n: usize) -> Result<Seconds> {
    // Whole blocks: all lanes of a warp add up their counts.
    let threads = n.div_ceil(2 * DRAWS as usize).next_multiple_of(128);
    let config = LaunchConfig::for_len(threads, 128);
    let random = Philox4x32::new(2026);
    let hits = |sequence: u64| -> u64 {
        let random = random.with_sequence(sequence);
        let draw = |draw| {
            let [a, b, c, d] = random.block(draw).map(uniform_f32);
            u64::from(a * a + b * b < 1.0) + u64::from(c * c + d * d < 1.0)
        };
        (0..u64::from(DRAWS)).map(draw).sum()
    };
    let stream = race.lab.bench.stream.clone();
    let mut count = race.lab.bench.zeros::<u64, _>(1)?;
    race.run(
        || (0..threads as u64).map(hits).sum(),
        || (0..threads as u64).into_par_iter().map(hits).sum(),
        || stream.launch::<pi_hits>(&config, (random, DRAWS, &mut count)),
        || {
            let mut count = DeviceArray::<u64, _>::zeros(&stream, 1)?;
            stream.launch::<pi_hits>(&config, (random, DRAWS, &mut count))?;
            Ok(count.to_ndarray()?[0])
        },
        |a, b| a == b,
    )
}
