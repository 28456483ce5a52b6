// SPDX-License-Identifier: MIT OR Apache-2.0
//! What fewer bits cost and bring: sums and products in f64, f32, TF32, f16 and bf16.

use anyhow::{Result, ensure};
use ndarray::{Array2, Ix2};
use warpsmith::ops::{CastTo, MatMul, Precision};
use warpsmith::{DeviceArray, Element, bf16, f16};

use crate::data::{array, bits};
use crate::lab::{Lab, Steps, Unit};
use crate::report::{Report, Table};

/// A random number from 0 to 1, in steps of 2^−24.
fn unit(i: usize) -> f32 {
    (bits(i) >> 8) as f32 / (1 << 24) as f32
}

pub fn run(lab: &Lab) -> Result<Report> {
    let (sums, (products, errors)) = (sums(lab)?, products(lab)?);
    let table = Table {
        title: "sums of as many numbers from 0 to 1 as f16 has room for".into(),
        columns: ["numbers", "error"].map(String::from).to_vec(),
        rows: sums
            .iter()
            .map(|&(name, error)| vec![name.into(), error.into()])
            .collect(),
    };
    let all = errors.iter().map(|error| format!("{error:.0e}"));
    let rates = products.rates().map(|rates| {
        let rates: Vec<String> = rates.iter().map(|rate| format!("{:.0}", rate / 1e3)).collect();
        format!(
            "Their rates are {} TFLOP/s: f16 and TF32 have 11 bits, bf16 has 8; TF32 and bf16 the range of f32.",
            rates.join(", ")
        )
    });
    let lines = vec![
        format!(
            "Sums in f32, one addition after the other, are off by {:.1e}; the library's, which adds up parts first, by {:.1e}; those of f16 and bf16 by {:.1e} and {:.1e}: elements and result are rounded, the sums between are f32.",
            sums[0].1, sums[2].1, sums[3].1, sums[4].1
        ),
        format!(
            "Products in f64, f32, TF32, f16 and bf16 are off by {} of the largest element.",
            all.collect::<Vec<_>>().join(", ")
        ),
        rates.unwrap_or(
            "The simulated GPU has no tensor cores for TF32, and multiplies in f32 then; its times say nothing.".into(),
        ),
    ];
    Ok(Report {
        tables: vec![products.table(), table],
        lines,
    })
}

/// −log₂ of the error: 53 where there is none that f64 sees.
fn right_bits(error: f64) -> f64 {
    if error > 0.0 { -error.log2() } else { 53.0 }
}

/// Sums, by which each is off; of few enough numbers that f16 has room for them.
fn sums(lab: &Lab) -> Result<Vec<(&'static str, f64)>> {
    let n = lab.size(1 << 16, 1 << 12).min(1 << 16);
    let host = array(n, unit)?;
    let exact: f64 = host.iter().map(|&x| f64::from(x)).sum();
    let in_order = host.iter().fold(0.0f32, |sum, x| sum + x);
    let x = lab.bench.upload(&host)?;
    let found = [
        (
            "f32, one after the other",
            f64::from(in_order),
            n as f64 * 2f64.powi(-24),
        ),
        ("f64", x.cast::<f64>()?.sum()?, n as f64 * 2f64.powi(-53)),
        // No order of additions has more roundings than there are additions.
        ("f32", x.sum()?.into(), n as f64 * 2f64.powi(-24)),
        // The elements and the result are rounded, and the sums are of f32.
        (
            "f16",
            x.cast::<f16>()?.sum()?.into(),
            n as f64 * 2f64.powi(-24) + 2f64.powi(-10),
        ),
        (
            "bf16",
            x.cast::<bf16>()?.sum()?.into(),
            n as f64 * 2f64.powi(-24) + 2f64.powi(-7),
        ),
    ];
    let error = |(name, sum, bound): (&'static str, f64, f64)| {
        let error = ((sum - exact) / exact).abs();
        ensure!(error <= bound, "the sum in {name}: {sum} for {exact}");
        Ok((name, error))
    };
    found.into_iter().map(error).collect()
}

/// Products of matrices, with the largest error of an element as a part of the largest element.
fn products(lab: &Lab) -> Result<(Steps, Vec<f64>)> {
    let n = (lab.size(1 << 22, 1 << 12) as f64).sqrt() as usize;
    let matrix = |first: usize| -> Result<_> { Ok(array(n * n, |i| unit(first + i))?.into_shape_with_order((n, n))?) };
    let (a, b) = (matrix(0)?, matrix(n * n)?);
    let exact = a.mapv(f64::from).dot(&b.mapv(f64::from));
    let (x, y) = (lab.bench.upload(&a)?, lab.bench.upload(&b)?);
    let title = format!("products of {n} × {n} numbers from 0 to 1");
    let mut all = Products {
        lab,
        n,
        exact,
        steps: Steps::new(title, &["numbers", "error", "bits that are right"], Unit::Operations),
        errors: Vec::new(),
    };
    let u24 = 2f64.powi(-24);
    all.push("f64", of::<f64>(&x, &y)?, f64::from, 2f64.powi(-53), 0.0)?;
    all.push("f32", |out| x.matmul_into(&y, out), f64::from, u24, 0.0)?;
    let tf32 = |out: &mut DeviceArray<f32, Ix2>| x.fused_matmul(&y).precision(Precision::Tf32).compute_into(out);
    all.push("TF32", tf32, f64::from, 2.0 * u24, 2f64.powi(-10))?;
    all.push("f16", of::<f16>(&x, &y)?, f64::from, 2.0 * u24, 3.0 * 2f64.powi(-11))?;
    all.push("bf16", of::<bf16>(&x, &y)?, f64::from, 2.0 * u24, 3.0 * 2f64.powi(-8))?;
    Ok((all.steps, all.errors))
}

/// The product in another type.
fn of<T: MatMul>(x: &Matrix<f32>, y: &Matrix<f32>) -> Result<impl Fn(&mut Matrix<T>) -> warpsmith::Result<()>>
where
    f32: CastTo<T>,
{
    let (x, y) = (x.cast::<T>()?, y.cast::<T>()?);
    Ok(move |out: &mut Matrix<T>| x.matmul_into(&y, out))
}

type Matrix<T> = DeviceArray<T, Ix2>;

struct Products<'a> {
    lab: &'a Lab,
    n: usize,
    exact: Array2<f64>,
    steps: Steps,
    errors: Vec<f64>,
}

impl Products<'_> {
    /// A row. An element's error is at most `(factors + n · addition) Σ|a||b|`, to first order, and all elements are
    /// positive: so as a part of the largest element, too.
    fn push<T: Element>(
        &mut self,
        name: &'static str,
        multiply: impl Fn(&mut Matrix<T>) -> warpsmith::Result<()>,
        number: impl Fn(T) -> f64,
        addition: f64,
        factors: f64,
    ) -> Result<()> {
        let mut out = self.lab.bench.zeros((self.n, self.n))?;
        let most = self.exact.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
        let mut error = 0.0f64;
        let check = |out: &Matrix<T>| {
            let found = out.to_ndarray()?;
            let differences = found
                .iter()
                .zip(&self.exact)
                .map(|(&x, exact)| (number(x) - exact).abs());
            error = differences.fold(0.0, f64::max) / most;
            let bound = factors + self.n as f64 * addition;
            ensure!(
                error <= bound,
                "{name}: off by {error:e} of the largest element, of at most {bound:e}"
            );
            Ok(())
        };
        let cost = self.lab.cost(&mut out, |out| multiply(out), check)?;
        self.steps.push(
            [name.into(), error.into(), right_bits(error).into()],
            cost,
            2.0 * (self.n as f64).powi(3),
        );
        self.errors.push(error);
        Ok(())
    }
}
