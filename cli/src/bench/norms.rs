// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rows of expressions that reduce a matrix's rows and go on with their elements: softmax and norms.

use anyhow::Result;
use ndarray::{Axis, Ix2};
use rayon::prelude::*;
use warpsmith::expr::Expr;

use super::check;
use super::expressions::{Matrix, UNIT, Vector, additions, matrix, number, vector};
use super::measure::{Bench, Measurement};
use super::squares::host;

const EPSILON: f32 = 1e-5;

/// Measures an expression of about `n` normal numbers in rows of that many, or of all where these are fewer, and of
/// `weights` rows for all of them. `wanted` gives a row of the result, with the bounds, of the numbers and the weights.
fn of_rows(
    bench: &Bench,
    n: usize,
    columns: usize,
    weights: usize,
    expression: impl for<'a> Fn(&'a Matrix, &'a [Vector]) -> Expr<'a, f32, Ix2>,
    wanted: impl Fn(&[f64], &[Vec<f64>]) -> Vec<(f64, f64)> + Sync,
) -> Result<Measurement> {
    let columns = columns.min(n);
    let rows = n / columns;
    let n = rows * columns;
    let numbers = |row: usize| (0..columns).map(move |column| f64::from(number(row * columns + column)));
    let x = matrix(bench, 0, (rows, columns))?;
    let all_weights = (0..weights).map(|k| vector(bench, n + k * columns, columns));
    let all_weights = all_weights.collect::<Result<Vec<_>>>()?;
    let mut out: Matrix = bench.zeros((rows, columns))?;
    let times = bench.times(
        &mut out,
        |out| expression(&x, &all_weights).eval_into(out),
        |out| {
            // They are behind the matrix's rows, as if they were more of them.
            let weights: Vec<Vec<f64>> = (0..weights).map(|k| numbers(rows + k).collect()).collect();
            host(out)?.par_chunks(columns).enumerate().try_for_each(|(row, got)| {
                let wanted = wanted(&numbers(row).collect::<Vec<_>>(), &weights);
                got.iter()
                    .zip(wanted)
                    .enumerate()
                    .try_for_each(|(column, (&got, (wanted, bound)))| {
                        check::near(format_args!("{row}, {column}"), got.into(), wanted, bound)
                    })
            })
        },
    )?;
    let measured = Measurement::new("f32", n, 0, times).of_shape(&[rows, columns]);
    Ok(measured.moving(2 * n + weights * columns))
}

fn mean(x: impl ExactSizeIterator<Item = f64>) -> f64 {
    let len = x.len() as f64;
    x.sum::<f64>() / len
}

pub fn softmax(bench: &Bench, n: usize, columns: usize) -> Result<Measurement> {
    let measured = of_rows(
        bench,
        n,
        columns,
        0,
        |x, _| {
            let e = (x.expr() - x.expr().max_axis(Axis(1)).insert_axis(Axis(1))).exp();
            &e / e.sum_axis(Axis(1)).insert_axis(Axis(1))
        },
        |x, _| {
            let (least, largest) = x.iter().fold((f64::MAX, f64::MIN), |(a, b), &x| (a.min(x), b.max(x)));
            let e = || x.iter().map(|x| (x - largest).exp());
            let sum: f64 = e().sum();
            // What `exp` is of is rounded, and `exp` is off by an ulp, of an element and of the sum; then that is added
            // up, and divided by.
            let each = largest - least + 2.0;
            let bound = (2.0 * each + additions(x.len()) + 1.0) * UNIT;
            e().map(|e| (e / sum, e / sum * bound)).collect()
        },
    )?;
    Ok(measured.operations_each(5.0))
}

pub fn layer_norm(bench: &Bench, n: usize, columns: usize) -> Result<Measurement> {
    let measured = of_rows(
        bench,
        n,
        columns,
        2,
        |x, weights| {
            let centred = x.expr() - x.expr().mean_axis(Axis(1)).insert_axis(Axis(1));
            let deviation = (centred.square().mean_axis(Axis(1)) + EPSILON).rsqrt();
            centred * deviation.insert_axis(Axis(1)) * &weights[0] + &weights[1]
        },
        |x, weights| {
            let centre = mean(x.iter().copied());
            let variance = mean(x.iter().map(|x| (x - centre).powi(2)));
            let deviation = (variance + f64::from(EPSILON)).sqrt();
            let additions = additions(x.len());
            let of_mean = (additions + 1.0) * UNIT * mean(x.iter().map(|x| x.abs()));
            // Half of what the variance is off by, as of a root; the 1.5 ulp of that, a difference, two products.
            let of_factors = ((additions + 5.0) / 2.0 + 6.0) * UNIT;
            let element = |((x, scale), shift): ((&f64, &f64), &f64)| {
                let factor = scale / deviation;
                let scaled = (x - centre) * factor;
                let bound = of_factors * scaled.abs() + of_mean * factor.abs() + UNIT * (scaled + shift).abs();
                (scaled + shift, bound)
            };
            x.iter().zip(&weights[0]).zip(&weights[1]).map(element).collect()
        },
    )?;
    Ok(measured.operations_each(7.0))
}

pub fn rms_norm(bench: &Bench, n: usize, columns: usize) -> Result<Measurement> {
    let measured = of_rows(
        bench,
        n,
        columns,
        1,
        |x, weights| {
            let root = (x.expr().square().mean_axis(Axis(1)) + EPSILON).rsqrt();
            x.expr() * root.insert_axis(Axis(1)) * &weights[0]
        },
        |x, weights| {
            let root = (mean(x.iter().map(|x| x * x)) + f64::from(EPSILON)).sqrt();
            let bound = ((additions(x.len()) + 3.0) / 2.0 + 5.0) * UNIT;
            let element = |(x, scale): (&f64, &f64)| x / root * scale;
            let wanted = x.iter().zip(&weights[0]).map(element);
            wanted.map(|wanted| (wanted, wanted.abs() * bound)).collect()
        },
    )?;
    Ok(measured.operations_each(4.0))
}
