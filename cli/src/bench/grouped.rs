// SPDX-License-Identifier: MIT OR Apache-2.0
//! The row of products of groups of rows: tokens that are sorted by expert, as many to each as chance has it.

use anyhow::Result;
use ndarray::Array1;
use rayon::prelude::*;
use warpsmith::bf16;

use super::check;
use super::data::{self, bits, normal};
use super::measure::{Bench, Limit, Measurement};
use super::products::{Factor, bound, side};

/// The most experts, elements of a token, and elements of a result's row: a mixture of experts such as DeepSeek's first.
const EXPERTS: usize = 64;
const K: usize = 2048;
const COLUMNS: usize = 1408;

/// Places that are checked.
const PLACES: usize = 10_000;

/// Where the experts' tokens end. An expert has the more the higher its number is, from almost none to twice the mean.
fn ends(tokens: usize, experts: usize) -> Vec<usize> {
    let mut counts = vec![0; experts];
    for token in 0..tokens {
        let one = |i: usize| bits(i) as usize % experts;
        counts[one(2 * token).max(one(2 * token + 1))] += 1;
    }
    let ends = counts.iter().scan(0, |end, count| {
        *end += count;
        Some(*end)
    });
    ends.collect()
}

/// Of `n` elements of tokens. Checked at some places, against sums in `f64` of the rounded elements.
pub fn matmul(bench: &Bench, n: usize) -> Result<Measurement> {
    let side = side(bench, n);
    let n = side * side;
    let (k, columns, experts) = (side.min(K), side.min(COLUMNS), (side / 8).clamp(1, EXPERTS));
    let tokens = n / k;
    let n = tokens * k;
    let ends = ends(tokens, experts);
    let (a, b) = (|i| bf16::of(normal(i)), |i| bf16::of(normal(n + i)));
    let x = bench.upload(&data::array(n, a)?.into_shape_with_order((tokens, k))?)?;
    let weights = data::array(experts * k * columns, b)?;
    let weights = bench.upload(&weights.into_shape_with_order((experts, k, columns))?)?;
    let on_device = bench.upload(&ends.iter().map(|&end| end as i32).collect::<Array1<_>>())?;
    let mut out = bench.zeros((tokens, columns))?;
    let times = bench.times(
        &mut out,
        |out| x.grouped_matmul_into(&weights, &on_device, out),
        |out| {
            let got = out.to_ndarray()?;
            (0..PLACES).into_par_iter().try_for_each(|i| {
                let (row, column) = (bits(2 * i) as usize % tokens, bits(2 * i + 1) as usize % columns);
                let expert = ends.partition_point(|&end| end <= row);
                let product = |j| a(row * k + j).to_f64() * b((expert * k + j) * columns + column).to_f64();
                let (wanted, magnitude) = (0..k).map(product).fold((0.0, 0.0), |(sum, magnitude), product| {
                    (sum + product, magnitude + product.abs())
                });
                let bound = bound::<bf16>(k, wanted, magnitude);
                check::near(
                    format_args!("{row}, {column}"),
                    got[(row, column)].to_f64(),
                    wanted,
                    bound,
                )
            })
        },
    )?;
    let measured = Measurement::new(<bf16 as Factor>::DTYPE, n, 0, times)
        .of_shape(&[tokens, k])
        .operations_each(2.0 * columns as f64);
    Ok(Measurement {
        bytes: (size_of::<bf16>() * (n + experts * k * columns + tokens * columns)) as f64,
        limit: Limit::Arithmetic,
        ..measured
    })
}
