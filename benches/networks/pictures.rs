// SPDX-License-Identifier: MIT OR Apache-2.0
//! A picture of 16384 × 16384 numbers under weights of one's own, from 3 × 3 to 15 × 15, beside its copy.

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

/// Weights that are a column times a row, or, if they are not to be `separable`, one of them another.
fn many_weights(side: usize, separable: bool) -> Array2<f32> {
    let factor = |i: usize| 1.0 / (i + 2) as f32;
    let mut weights = Array2::from_shape_fn((side, side), |(i, j)| factor(i) * factor(j) * 0.2);
    if !separable {
        weights[[side - 1, 0]] *= 2.0;
    }
    weights
}

/// Checks a row in the middle, whose numbers are clamped and rounded to whole ones if `is_whole`.
fn check<T: Pixel + Into<f64>>(
    [x, out]: [&DeviceArray<T, Ix3>; 2],
    weights: &Array2<f32>,
    is_whole: bool,
) -> Result<()> {
    let at = x.shape()[0] / 2;
    let rows = |x: &DeviceArray<T, Ix3>, from, to| -> Result<Vec<f64>> {
        let rows = x.slice(s![from..to, .., ..])?.to_ndarray()?;
        Ok(rows.iter().map(|&x| x.into()).collect())
    };
    let (width, radius) = (x.shape()[1], weights.nrows() / 2);
    let (around, got) = (rows(x, at - radius, at + radius + 1)?, rows(out, at, at + 1)?);
    (radius..width - radius).step_by(radius).try_for_each(|column| {
        let terms = weights
            .indexed_iter()
            .map(|((i, j), &weight)| f64::from(weight) * around[i * width + column + j - radius]);
        let (sum, magnitude) = terms.fold((0.0, 0.0), |(sum, all), term| (sum + term, all + term.abs()));
        let (wanted, of_rounding) = if is_whole {
            (sum.clamp(0.0, 255.0), 0.5)
        } else {
            (sum, 0.0)
        };
        near(
            "a pixel",
            got[column],
            wanted,
            of_rounding + weights.len() as f64 * U * magnitude,
        )
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
    let by = |weights: Array2<f32>, what: &str| {
        of.measure(
            &format!("filter_{name}{what}"),
            || x.filter(&weights, Border::Clamp),
            |out| check([&x, out], &weights, is_whole),
        )
    };
    by(weights(), "")?;
    for side in [7, 9, 15] {
        by(many_weights(side, false), &format!("_{side}x{side}"))?;
        by(many_weights(side, true), &format!("_{side}x{side}_separable"))?;
    }
    Ok(())
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
