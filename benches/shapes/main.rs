// SPDX-License-Identifier: MIT OR Apache-2.0
//! What moves memory, on arrays of all shapes: reductions and scans along either axis, softmax, transpositions, concatenation,
//! of 2^26 elements in 1 to 2^25 columns: `cargo bench --bench shapes [-- PART...]`, of those whose names have one of these parts.
//!
//! Prints a line for each operation and shape: the median of 10 calls in microseconds, and the part that it has of a copy's
//! bandwidth, each element read once and each result written once. One shape says little of its neighbours: here is where
//! to look for those that fall behind. Elements are 0 and 1, so that each result is checked by a sum.

use anyhow::{Result, ensure};
use ndarray::{Axis, Dimension, Ix2, s};
use warpsmith::ops::{CastTo, Sum, concatenate};
use warpsmith::{DeviceArray, DeviceArrayRef, DeviceView, Generator};
use warpsmith_lab::bench::{Bench, device_with_tensor_cores, is_wanted, parts_of_names};

type View<'a, T> = DeviceView<'a, T, Ix2>;

/// Columns; those that leave less than two rows are left out.
const WIDTHS: [usize; 36] = [
    1, 2, 3, 4, 5, 7, 8, 12, 16, 31, 32, 33, 48, 64, 100, 127, 128, 200, 256, 500, 777, 1024, 1280, 2047, 2048, 3000,
    4095, 4096, 8191, 8192, 10_000, 32_768, 100_000, 262_144, 2_097_152, 33_554_432,
];

/// The sum in `f64`.
fn total<T: CastTo<f64>, D: Dimension>(x: &DeviceArrayRef<T, D>) -> warpsmith::Result<f64> {
    x.cast::<f64>()?.sum()
}

/// The median of an operation; the sum of its result is to be near another.
fn seconds<T, D: Dimension>(
    bench: &Bench,
    name: &str,
    compute: impl Fn() -> warpsmith::Result<DeviceArray<T, D>>,
    (sum, Near(wanted, bound)): (impl Fn(&DeviceArrayRef<T, D>) -> warpsmith::Result<f64>, Near),
) -> Result<f64> {
    let mut out = None;
    let launch = |out: &mut Option<DeviceArray<T, D>>| compute().map(|result| *out = Some(result));
    let check = |out: &Option<DeviceArray<T, D>>| {
        let got = sum(out.as_ref().expect("the launch made one"))?;
        ensure!(
            (got - wanted).abs() <= bound,
            "{name}: the sum is {got}, wanted {wanted} to {bound:e}"
        );
        Ok(())
    };
    Ok(bench.times(&mut out, launch, check)?.median.as_secs_f64())
}

struct Shapes {
    bench: Bench,
    parts: Vec<String>,
    /// The seconds of a copy for each byte that is read or written.
    copy: f64,
}

/// A sum, and by how much it may be off.
struct Near(f64, f64);

impl Shapes {
    /// Measures an operation that moves so many bytes; the sum of its result is to be near another.
    fn measure<T, D: Dimension>(
        &self,
        name: &str,
        bytes: usize,
        compute: impl Fn() -> warpsmith::Result<DeviceArray<T, D>>,
        sum: (impl Fn(&DeviceArrayRef<T, D>) -> warpsmith::Result<f64>, Near),
    ) -> Result<()> {
        if is_wanted(name, &self.parts) {
            let seconds = seconds(&self.bench, name, compute, sum)?;
            let part = self.copy * bytes as f64 / seconds;
            println!("{name} {:.1} {:.0} %", seconds * 1e6, 100.0 * part);
        }
        Ok(())
    }

    /// The operations on `f32`, of which `ones` are 1.
    fn of_floats(&self, x: &View<'_, f32>, shape: &str, ones: f64) -> Result<()> {
        let n = x.len();
        for axis in 0..2 {
            let (along, lanes) = (Axis(axis), n / x.shape()[axis]);
            let name = |operation: &str| format!("{operation}_axis_{axis}_f32_{shape}");
            // All numbers in between are integers below 2^24, or, of averages of lanes, within a few roundings.
            self.measure(
                &name("sum"),
                4 * (n + lanes),
                || x.sum_axis(along),
                (total, Near(ones, ones * 1e-6)),
            )?;
            let squares = total(&x.mean_axis(along)?.square()?)?;
            let means = total(&x.mean_axis(along)?)?;
            let variance = Near(means - squares, lanes as f64 * 1e-5);
            self.measure(
                &name("variance"),
                4 * (n + lanes),
                || x.variance_axis(along, 0),
                (total, variance),
            )?;
            let scan = || x.inclusive_scan_axis::<Sum>(along);
            let last = |sums: &DeviceArrayRef<f32, Ix2>| total(&sums.index_axis(along, sums.shape()[axis] - 1)?);
            self.measure(&name("scan"), 8 * n, scan, (last, Near(ones, ones * 1e-6)))?;
            let softmax = || x.expr().softmax(along).eval();
            self.measure(
                &name("softmax"),
                8 * n,
                softmax,
                (total, Near(lanes as f64, lanes as f64 * 1e-4)),
            )?;
        }
        // Not the same twice, of which one launch reads memory once.
        let other = x.to_array()?;
        let concatenated = || concatenate(Axis(1), &[x.view(), other.view()]);
        self.measure(
            &format!("concatenate_f32_{shape}"),
            16 * n,
            concatenated,
            (total, Near(2.0 * ones, 0.0)),
        )?;
        self.measure(
            &format!("transpose_f32_{shape}"),
            8 * n,
            || x.transpose(),
            (total, Near(ones, 0.0)),
        )?;
        if x.shape()[1].is_multiple_of(8) {
            let eights = x.reshape((x.shape()[0], x.shape()[1] / 8, 8))?;
            let name = format!("permute_of_eights_f32_{shape}");
            self.measure(&name, 8 * n, || eights.permute((0, 2, 1)), (total, Near(ones, 0.0)))?;
        }
        Ok(())
    }

    /// The operations on bytes, of which `ones` are 1.
    fn of_bytes(&self, x: &View<'_, u8>, shape: &str, ones: f64) -> Result<()> {
        let n = x.len();
        for axis in 0..2 {
            let (along, lanes) = (Axis(axis), n / x.shape()[axis]);
            let name = format!("sum_axis_{axis}_u8_{shape}");
            self.measure(&name, n + 8 * lanes, || x.sum_axis(along), (total, Near(ones, 0.0)))?;
        }
        self.measure(
            &format!("transpose_u8_{shape}"),
            2 * n,
            || x.transpose(),
            (total, Near(ones, 0.0)),
        )?;
        Ok(())
    }
}

fn main() -> Result<()> {
    let device = device_with_tensor_cores()?;
    let (n, repeats) = if device.is_simulator() {
        (1 << 10, 1)
    } else {
        (1 << 26, 10)
    };
    let bench = Bench::new(&device, repeats);
    let bits = Generator::new(1)
        .integers::<u32, _>(&bench.stream, n, 0..=1)?
        .cast::<u8>()?;
    let floats = bits.cast::<f32>()?;
    let ones = total(&bits)?;
    let copy = seconds(&bench, "a copy", || floats.to_array(), (total, Near(ones, 0.0)))?;
    println!("copy_f32 {:.1}", copy * 1e6);
    let shapes = Shapes {
        bench,
        parts: parts_of_names(),
        copy: copy / (8 * n) as f64,
    };
    for columns in WIDTHS.into_iter().filter(|columns| n / columns > 1) {
        let (rows, shape) = (n / columns, format!("{}x{columns}", n / columns));
        let (floats, bits) = (floats.slice(s![..rows * columns])?, bits.slice(s![..rows * columns])?);
        let ones = total(&bits)?;
        shapes.of_floats(&floats.reshape((rows, columns))?, &shape, ones)?;
        shapes.of_bytes(&bits.reshape((rows, columns))?, &shape, ones)?;
    }
    Ok(())
}
