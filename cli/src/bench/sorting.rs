// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rows of sorting: elements in order, and the places that they had.

use anyhow::Result;
use ndarray::Axis;
use rayon::prelude::*;

use super::check;
use super::data::{self, Value, bits};
use super::measure::{Bench, Measurement};
use super::squares::host;

fn element(i: usize) -> f32 {
    f32::random(bits(i))
}

/// Elements in order. As bytes that are moved count one load and one store of each, whatever passes there are.
pub fn sort(bench: &Bench, n: usize) -> Result<Measurement> {
    let x = bench.upload(&data::array(n, element)?)?;
    let mut out = bench.zeros(0)?;
    let times = bench.times(
        &mut out,
        |out| x.sort(Axis(0)).map(|sorted| *out = sorted),
        |out| {
            let mut wanted: Vec<f32> = (0..n).into_par_iter().map(element).collect();
            wanted.par_sort_unstable_by(f32::total_cmp);
            check::every(&host(out)?, &|i| wanted[i])
        },
    )?;
    Ok(Measurement::new("f32", n, 8, times))
}

/// Their places, of equal ones the first first.
pub fn argsort(bench: &Bench, n: usize) -> Result<Measurement> {
    let x = bench.upload(&data::array(n, element)?)?;
    let mut out = bench.zeros::<u64, _>(0)?;
    let times = bench.times(
        &mut out,
        |out| x.argsort(Axis(0)).map(|places| *out = places),
        |out| {
            let mut wanted: Vec<(f32, u64)> = (0..n).into_par_iter().map(|i| (element(i), i as u64)).collect();
            wanted.par_sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            check::every(&host(out)?, &|i| wanted[i].1)
        },
    )?;
    Ok(Measurement::new("f32", n, 12, times))
}
