// SPDX-License-Identifier: MIT OR Apache-2.0
//! Softmax and layer norm of rows of 2^26 elements in all, and cross-entropy with its gradient, in `f32`.

use anyhow::Result;
use ndarray::{Axis, Ix0, Ix1, Ix2, s};
use warpsmith::{DeviceArray, Generator};

use super::{Measurements, near};

type Matrix = DeviceArray<f32, Ix2>;

const ELEMENTS: usize = 1 << 26;

const SOFTMAX: [usize; 7] = [256, 1024, 4096, 8192, 16_384, 32_768, 65_536];
const LAYER_NORM: [usize; 6] = [1024, 4096, 8192, 16_384, 32_768, 65_536];

/// Rows and classes.
const CROSS_ENTROPY: [(usize, usize); 3] = [(65_536, 1000), (8192, 32_000), (4096, 50_257)];

const EPSILON: f64 = 1e-5;

/// The unit roundoff of `f32`.
const U: f64 = 1.0 / (1 << 24) as f64;

fn matrix(of: &Measurements, rows: usize, columns: usize) -> Result<Matrix> {
    Ok(Generator::new(1).standard_normal(of.stream(), (rows, columns))?)
}

/// The row in the middle, or the only one.
fn row(x: &Matrix) -> Result<Vec<f64>> {
    let row = x.slice(s![x.shape()[0] / 2, ..])?.to_ndarray()?;
    Ok(row.iter().map(|&x| x.into()).collect())
}

fn largest(x: &[f64]) -> f64 {
    x.iter().fold(f64::NEG_INFINITY, |a, &b| a.max(b))
}

/// The exponentials of a row less its largest, with their sum, and by how much of itself any of their quotients may be off: a difference
/// is rounded, an exponential is within two units in the last place, of an element and of the sum; of the sum each addition is rounded.
fn exponentials(x: &[f64]) -> (Vec<f64>, f64, f64) {
    let largest = largest(x);
    let distance = x.iter().fold(0.0f64, |a, x| a.max(largest - x));
    let exponentials: Vec<f64> = x.iter().map(|x| (x - largest).exp()).collect();
    let sum = exponentials.iter().sum();
    (exponentials, sum, (2.0 * (distance + 4.0) + x.len() as f64 + 1.0) * U)
}

fn check_softmax(x: &Matrix, out: &Matrix) -> Result<()> {
    let (wanted, sum, bound) = exponentials(&row(x)?);
    let got = row(out)?;
    let mut both = got.iter().zip(&wanted);
    both.try_for_each(|(&got, wanted)| near("softmax", got, wanted / sum, bound * wanted / sum))
}

fn check_layer_norm(x: &Matrix, weight: &[f64], bias: &[f64], out: &Matrix) -> Result<()> {
    let x = row(x)?;
    let n = x.len() as f64;
    let mean = x.iter().sum::<f64>() / n;
    let deviation = (x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n + EPSILON).sqrt();
    let of_mean = (n + 1.0) * U * x.iter().map(|x| x.abs()).sum::<f64>() / n;
    let got = row(out)?;
    (0..x.len()).try_for_each(|i| {
        let scaled = (x[i] - mean) * weight[i] / deviation;
        // Of the variance half its error counts, then a root, a difference and two products.
        let bound = (n / 2.0 + 8.0) * U * scaled.abs() + of_mean * (weight[i] / deviation).abs();
        let wanted = scaled + bias[i];
        near("layer norm", got[i], wanted, bound + U * wanted.abs())
    })
}

/// The gradient in the row in the middle.
fn check_gradient(x: &Matrix, label: i32, gradient: &Matrix) -> Result<()> {
    let (exponentials, sum, bound) = exponentials(&row(x)?);
    let (got, rows) = (row(gradient)?, x.shape()[0] as f64);
    let mut all = got.iter().zip(&exponentials).enumerate();
    all.try_for_each(|(class, (&got, exponential))| {
        let is_label = if class == label as usize { 1.0 } else { 0.0 };
        let (part, wanted) = (exponential / sum, (exponential / sum - is_label) / rows);
        near(
            "its gradient",
            got,
            wanted,
            bound * part / rows + 3.0 * U * wanted.abs(),
        )
    })
}

fn softmax(of: &Measurements) -> Result<()> {
    for columns in SOFTMAX {
        let name = format!("softmax_{columns}");
        if of.is_wanted(&name) {
            let x = matrix(of, of.length(ELEMENTS, 2 * columns) / columns, columns)?;
            let compute = || x.expr().softmax(Axis(1)).eval();
            of.measure(&name, compute, |out| check_softmax(&x, out))?;
        }
    }
    Ok(())
}

fn layer_norm(of: &Measurements) -> Result<()> {
    for columns in LAYER_NORM {
        let name = format!("layer_norm_{columns}");
        if of.is_wanted(&name) {
            let x = matrix(of, of.length(ELEMENTS, 2 * columns) / columns, columns)?;
            let mut generator = Generator::new(2);
            let mut vector = || generator.standard_normal::<f32, _>(of.stream(), columns);
            let (weight, bias) = (vector()?, vector()?);
            let host = |x: &DeviceArray<f32, Ix1>| -> Result<Vec<f64>> {
                Ok(x.to_ndarray()?.iter().map(|&x| x.into()).collect())
            };
            let (on_host, of_bias) = (host(&weight)?, host(&bias)?);
            let compute = || x.expr().layer_norm(&[1], &weight, &bias, EPSILON).eval();
            of.measure(&name, compute, |out| check_layer_norm(&x, &on_host, &of_bias, out))?;
        }
    }
    Ok(())
}

fn cross_entropy(of: &Measurements) -> Result<()> {
    for (rows, classes) in CROSS_ENTROPY {
        let name = format!("cross_entropy_{classes}");
        if of.is_wanted(&name) {
            let x = matrix(of, of.length(rows, 4), classes)?;
            let labels: DeviceArray<i32, Ix1> =
                Generator::new(3).integers(of.stream(), x.shape()[0], 0..classes as i32)?;
            let label = labels.get(x.shape()[0] / 2)?;
            let together = || x.expr().cross_entropy_with_gradient(Axis(1), &labels, 1.0);
            let apart = || {
                let loss = x.expr().cross_entropy(Axis(1), &labels).eval()?;
                Ok((loss, x.expr().cross_entropy_backward(Axis(1), &labels, 1.0).eval()?))
            };
            let check = |(loss, gradient): &(DeviceArray<f32, Ix0>, Matrix)| {
                // Of normal numbers the mean of exponentials is √e, to a hundredth of rows and classes of which there are many.
                let wanted = (classes as f64).ln() + 0.5;
                let deviation = 2.0 / (x.shape()[0] as f64).sqrt() + 0.1;
                near(
                    "cross-entropy",
                    loss.to_ndarray()?.into_scalar().into(),
                    wanted,
                    3.0 * deviation,
                )?;
                check_gradient(&x, label, gradient)
            };
            of.measure(&name, together, check)?;
            of.measure(&format!("{name}_apart"), apart, check)?;
        }
    }
    Ok(())
}

fn copy(of: &Measurements) -> Result<()> {
    if of.is_wanted("copy_rows") {
        let x = matrix(of, of.length(ELEMENTS, 4096) / 1024, 1024)?;
        of.measure(
            "copy_rows",
            || x.try_clone(),
            |out| {
                anyhow::ensure!(row(out)? == row(&x)?, "a copy differs");
                Ok(())
            },
        )?;
    }
    Ok(())
}

/// Measures all that are wanted.
pub fn run(of: &Measurements) -> Result<()> {
    copy(of)?;
    softmax(of)?;
    layer_norm(of)?;
    cross_entropy(of)
}
