// SPDX-License-Identifier: MIT OR Apache-2.0
//! Attention of `bf16`: results, decoding, and the gradients of queries, keys and values.

use anyhow::Result;
use ndarray::{Ix4, s};
use warpsmith::ops::Attention;
use warpsmith::{DeviceArray, Generator, bf16};

use super::{Measurements, near};

type Array = DeviceArray<bf16, Ix4>;

/// Batch, heads, positions, head dimension, and whether it is causal.
type Shape = ([usize; 4], bool);

const FORWARD: [Shape; 5] = [
    ([4, 16, 4096, 128], false),
    ([4, 16, 4096, 128], true),
    ([1, 16, 16_384, 128], false),
    ([1, 16, 16_384, 128], true),
    ([4, 16, 4096, 64], false),
];

/// Sequences, keys, heads and head dimension of decoding.
const DECODE: [usize; 4] = [64, 8192, 8, 128];

/// The unit roundoff of `bf16`.
const RHO: f64 = 1.0 / 256.0;

fn random(of: &Measurements, seed: u64, shape: [usize; 4]) -> Result<Array> {
    Ok(Generator::new(seed).uniform(of.stream(), shape, -1.0f32..1.0)?.cast()?)
}

/// Some lines of the last head.
fn lines(x: &Array, from: usize, to: usize) -> Result<Vec<Vec<f64>>> {
    let [batch, heads, ..] = *x.shape() else {
        unreachable!("four axes")
    };
    let lines = x.slice(s![batch - 1, heads - 1, from..to, ..])?.to_ndarray()?;
    Ok(lines
        .rows()
        .into_iter()
        .map(|line| line.iter().map(|x| x.to_f64()).collect())
        .collect())
}

/// A line of the last head.
fn line(x: &Array, row: usize) -> Result<Vec<f64>> {
    Ok(lines(x, row, row + 1)?.remove(0))
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Sums of lines with these factors, which are off by so much of what they add up; `got` is rounded.
fn check(what: &str, got: &[f64], factors: &[f64], of: &[Vec<f64>], off: f64) -> Result<()> {
    got.iter().enumerate().try_for_each(|(column, &got)| {
        let terms = factors.iter().zip(of).map(|(factor, line)| factor * line[column]);
        let (sum, magnitude) = terms.fold((0.0, 0.0), |(sum, all), term| (sum + term, all + term.abs()));
        near(what, got, sum, off * magnitude + RHO * sum.abs())
    })
}

/// The weights of the keys that a query sees, whose scores are of `f32`.
fn weights(q: &[f64], k: &[Vec<f64>]) -> Vec<f64> {
    let scale = 1.0 / (q.len() as f64).sqrt();
    let exponentials: Vec<f64> = k.iter().map(|k| (scale * dot(q, k)).exp()).collect();
    let sum: f64 = exponentials.iter().sum();
    exponentials.iter().map(|x| x / sum).collect()
}

/// Checks a result: weights are rounded to `bf16`, and what is before and behind in `f32` is less than that again.
fn check_forward([q, k, v, out]: [&Array; 4], row: usize, seen: usize) -> Result<()> {
    let weights = weights(&line(q, row)?, &lines(k, 0, seen)?);
    check("a result", &line(out, row)?, &weights, &lines(v, 0, seen)?, 2.0 * RHO)
}

/// Checks the gradient of a query: that of a score is `w (dP − Σ dO O)`, rounded to `bf16`, of an `O` that is.
fn check_gradient([q, k, v, grad]: [&Array; 4], dq: &Array, row: usize, seen: usize) -> Result<()> {
    let (q, grad) = (line(q, row)?, line(grad, row)?);
    let (k, v) = (lines(k, 0, seen)?, lines(v, 0, seen)?);
    let weights = weights(&q, &k);
    let products: Vec<f64> = v.iter().map(|v| dot(&grad, v)).collect();
    let delta = dot(&weights, &products);
    let scale = 1.0 / (q.len() as f64).sqrt();
    let scores: Vec<f64> = weights
        .iter()
        .zip(&products)
        .map(|(w, p)| scale * w * (p - delta))
        .collect();
    // By the rounding of O, which the last sum is of, a query's gradient is off by that times a mean of keys, which are at most 1.
    let of_out =
        (0..grad.len()).map(|c| grad[c].abs() * weights.iter().zip(&v).map(|(w, v)| w * v[c]).sum::<f64>().abs());
    let of_delta = scale * RHO * of_out.sum::<f64>();
    line(dq, row)?.iter().enumerate().try_for_each(|(column, &got)| {
        let terms = scores.iter().zip(&k).map(|(score, k)| score * k[column]);
        let (sum, magnitude) = terms.fold((0.0, 0.0), |(sum, all), term| (sum + term, all + term.abs()));
        near(
            "a gradient",
            got,
            sum,
            2.0 * RHO * magnitude + of_delta + RHO * sum.abs(),
        )
    })
}

fn of<'a>([q, k, v]: [&'a Array; 3], is_causal: bool) -> Attention<'a, bf16> {
    let attention = q.attention(k, v);
    if is_causal { attention.causal() } else { attention }
}

fn name(what: &str, ([batch, heads, positions, dim], is_causal): Shape) -> String {
    let causal = if is_causal { "_causal" } else { "" };
    format!("{what}_{batch}x{heads}x{positions}x{dim}{causal}")
}

fn operands(of: &Measurements, shape: [usize; 4]) -> Result<[Array; 3]> {
    Ok([random(of, 5, shape)?, random(of, 6, shape)?, random(of, 7, shape)?])
}

/// The shape that is measured.
fn shaped(of: &Measurements, [batch, heads, positions, dim]: [usize; 4]) -> [usize; 4] {
    [of.length(batch, 1), of.length(heads, 2), of.length(positions, 128), dim]
}

fn forward(measurements: &Measurements) -> Result<()> {
    for (shape, is_causal) in FORWARD {
        let name = name("attention", (shape, is_causal));
        if measurements.is_wanted(&name) {
            let shape = shaped(measurements, shape);
            let [q, k, v] = operands(measurements, shape)?;
            let compute = || of([&q, &k, &v], is_causal).compute();
            let row = shape[2] / 2 + 1;
            let seen = if is_causal { row + 1 } else { shape[2] };
            measurements.measure(&name, compute, |out| check_forward([&q, &k, &v, out], row, seen))?;
            measurements.measure_continuously(&name, compute)?;
        }
    }
    Ok(())
}

fn decode(of: &Measurements) -> Result<()> {
    let [sequences, keys, heads, dim] = DECODE;
    let name = format!("decode_{sequences}x{keys}x{heads}x{dim}");
    if of.is_wanted(&name) {
        let (sequences, keys) = (of.length(sequences, 1), of.length(keys, 256));
        let q = random(of, 5, [sequences, heads, 1, dim])?;
        let [_, k, v] = operands(of, [sequences, heads, keys, dim])?;
        let compute = || q.attention(&k, &v).compute();
        of.measure(&name, compute, |out| check_forward([&q, &k, &v, out], 0, keys))?;
    }
    Ok(())
}

fn gradients(measurements: &Measurements) -> Result<()> {
    let shapes = [
        [4, 16, 4096, 64],
        [4, 16, 4096, 128],
        [1, 16, 16_384, 64],
        [1, 16, 16_384, 128],
    ];
    for (shape, is_causal) in shapes.into_iter().flat_map(|shape| [(shape, false), (shape, true)]) {
        let name = name("gradients", (shape, is_causal));
        if measurements.is_wanted(&name) {
            let shape = shaped(measurements, shape);
            let [q, k, v] = operands(measurements, shape)?;
            let grad = random(measurements, 8, shape)?;
            let (out, log_sums) = of([&q, &k, &v], is_causal).compute_with_log_sum_exp()?;
            let compute = || of([&q, &k, &v], is_causal).gradients(&out, &log_sums, &grad);
            let row = shape[2] / 2 + 1;
            let seen = if is_causal { row + 1 } else { shape[2] };
            measurements.measure(&name, compute, |[dq, ..]| {
                check_gradient([&q, &k, &v, &grad], dq, row, seen)
            })?;
        }
    }
    Ok(())
}

/// Measures all that are wanted.
pub fn run(of: &Measurements) -> Result<()> {
    forward(of)?;
    decode(of)?;
    gradients(of)
}
