// SPDX-License-Identifier: MIT OR Apache-2.0
//! The demo's scans: prefix sums by both algorithms, and exclusive prefix maxima.

use anyhow::Result;
use kernels_gpu::num::Num;
use ndarray::Array1;
use warpsmith::ops::{Max, ScanAlgorithm, Sum};

use super::check::{self, Deviation};
use super::data::{Operand, Vector};
use super::reference::{CastFrom, Reference};
use super::rows::Demo;
use crate::ops::BinaryOp;

/// Additions that a term goes through at most, besides one for each tile that is looked back at: docs/kernels/scan.md has
/// them for each algorithm, and two levels of Blelloch's tree are enough for 2^20 elements, three for 2^30.
const DEPTH: usize = 100;

/// Elements of a tile at least.
const TILE: usize = 2048;

pub fn run<T: Reference + Num<Total: Reference + CastFrom>>(demo: &mut Demo, x: &Operand<T>) -> Result<()> {
    let (name, len, size) = (T::DTYPE.name(), x.host.len(), size_of::<T>());
    for (kernel, algorithm) in [
        ("scan sum", ScanAlgorithm::LookBack),
        ("scan sum, Blelloch", ScanAlgorithm::Blelloch),
    ] {
        let run = |out: &mut Vector<T::Total>| x.device.inclusive_scan_by_into::<Sum>(algorithm, out);
        demo.elementwise(kernel.into(), name, len, size, run, |got| prefix_sums(&x.host, got))?;
    }
    let run = |out: &mut Vector<T>| x.device.exclusive_scan_into::<Max>(out);
    demo.elementwise("scan max, exclusive".into(), name, len, size, run, |got| {
        let mut largest = None;
        let want = x.host.iter().zip(got).map(|(&x, &got)| {
            // Before the first element stands the operator's identity, whatever that is.
            let before = largest.unwrap_or(got);
            largest = Some(largest.map_or(x, |largest| T::binary(BinaryOp::Max, largest, x)));
            before
        });
        check::exact(got, &want.collect())
    })
}

fn prefix_sums<T: Reference + Num<Total: Reference + CastFrom>>(x: &Array1<T>, got: &Array1<T::Total>) -> Deviation {
    if !T::DTYPE.is_float() {
        let want = x.iter().scan(None, |sum: &mut Option<T::Total>, x| {
            let x = x.cast_to::<T::Total>();
            *sum = Some(sum.map_or(x, |sum| T::Total::binary(BinaryOp::Add, sum, x)));
            *sum
        });
        return check::exact(got, &want.collect());
    }
    // Neumaier's compensated summation.
    let (mut sum, mut rest, mut magnitude) = (0.0f64, 0.0f64, 0.0f64);
    let sums = x.iter().zip(got).map(|(x, &got)| {
        let x = x.nearest_f64();
        let total = sum + x;
        rest += if sum.abs() >= x.abs() {
            (sum - total) + x
        } else {
            (x - total) + sum
        };
        sum = total;
        magnitude += x.abs();
        (got, sum + rest, magnitude)
    });
    check::sums(sums, (DEPTH + x.len().div_ceil(TILE)) as f64)
}
