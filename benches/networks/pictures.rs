// SPDX-License-Identifier: MIT OR Apache-2.0
//! A picture of 16384 × 16384 numbers under 3 × 3 weights of one's own, beside its copy.

use anyhow::{Result, ensure};
use ndarray::{Array2, Ix3, array, s};
use warpsmith::ops::{Border, Pixel};
use warpsmith::{DeviceArray, Element, Generator};

use super::{Measurements, near};

const SIDE: usize = 16_384;

/// The unit roundoff of `f32`.
const U: f64 = 1.0 / (1 << 24) as f64;

/// Weights of no symmetry, which are no product of a row and a column.
fn weights() -> Array2<f32> {
    array![[0.11, -0.23, 0.31], [0.42, 0.53, -0.64], [-0.07, 0.28, 0.19]]
}

/// Checks a row in the middle, whose numbers are clamped and rounded to whole ones if `is_whole`.
fn check<T: Pixel + Into<f64>>(x: &DeviceArray<T, Ix3>, out: &DeviceArray<T, Ix3>, is_whole: bool) -> Result<()> {
    let at = x.shape()[0] / 2;
    let rows = |x: &DeviceArray<T, Ix3>, from, to| -> Result<Vec<f64>> {
        let rows = x.slice(s![from..to, .., ..])?.to_ndarray()?;
        Ok(rows.iter().map(|&x| x.into()).collect())
    };
    let (width, weights) = (x.shape()[1], weights());
    let (around, got) = (rows(x, at - 1, at + 2)?, rows(out, at, at + 1)?);
    (1..width - 1).try_for_each(|column| {
        let terms = weights
            .indexed_iter()
            .map(|((i, j), &weight)| f64::from(weight) * around[i * width + column + j - 1]);
        let (sum, magnitude) = terms.fold((0.0, 0.0), |(sum, all), term| (sum + term, all + term.abs()));
        let (wanted, of_rounding) = if is_whole {
            (sum.clamp(0.0, 255.0), 0.5)
        } else {
            (sum, 0.0)
        };
        near("a pixel", got[column], wanted, of_rounding + 9.0 * U * magnitude)
    })
}

/// Measures a filter of a picture, and its copy.
fn filter<T: Pixel + Into<f64> + Element + PartialEq>(
    of: &Measurements,
    name: &str,
    make: impl FnOnce(&mut Generator, [usize; 3]) -> warpsmith::Result<DeviceArray<T, Ix3>>,
    is_whole: bool,
) -> Result<()> {
    if !of.is_wanted(&format!("filter_{name}")) {
        return Ok(());
    }
    let side = of.length(SIDE, 100);
    let x = make(&mut Generator::new(4), [side, side, 1])?;
    of.measure(
        &format!("filter_{name}_copy"),
        || x.try_clone(),
        |out| {
            let same = out.slice(s![side / 2, .., 0])?.to_ndarray()? == x.slice(s![side / 2, .., 0])?.to_ndarray()?;
            ensure!(same, "a copy differs");
            Ok(())
        },
    )?;
    let weights = weights();
    of.measure(
        &format!("filter_{name}"),
        || x.filter(&weights, Border::Clamp),
        |out| check(&x, out, is_whole),
    )
}

/// Measures all that are wanted.
pub fn run(of: &Measurements) -> Result<()> {
    let stream = of.stream();
    let bytes = |generator: &mut Generator, shape| generator.integers::<i32, _>(stream, shape, 0..256)?.cast::<u8>();
    filter(of, "u8", bytes, true)?;
    filter(
        of,
        "f32",
        |generator, shape| generator.uniform(stream, shape, -1.0..1.0),
        false,
    )
}
