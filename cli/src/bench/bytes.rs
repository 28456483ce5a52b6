// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rows of products of matrices of 8-bit floats and integers: squares of about as many elements as are asked for, of which
//! the right one lies by columns, as tensor cores take bytes.

use anyhow::Result;
use ndarray::{Array2, Ix2};
use warpsmith::{DeviceArray, DeviceView, Element, F8E4M3, bf16};

use super::check;
use super::data::{self, bits, normal};
use super::measure::{Bench, Limit, Measurement};
use super::products::side;

/// Sums of 8-bit floats, rounded to `bf16`: of 128 products each, or in the tensor cores alone.
pub fn matmul_fp8(bench: &Bench, n: usize, fast: bool) -> Result<Measurement> {
    let element = |i| F8E4M3::from_f32(normal(i) as f32);
    product(
        bench,
        n,
        "e4m3",
        element,
        |x, y, out: &mut DeviceArray<bf16, Ix2>| {
            let product = x.scaled_matmul(y);
            match fast {
                true => product.fast_accumulation().compute_into(out),
                false => product.compute_into(out),
            }
        },
        |x| f64::from(x.to_f32()),
        bf16::to_f64,
        |k, wanted, magnitude| {
            // What `ScaledMatMul` says of Hopper's tensor cores.
            let k = k as f64;
            let terms = if fast {
                k + k / 32.0 + 33.0
            } else {
                132.0 + k / 128.0 / 2048.0
            };
            let of_sum = terms * 2f64.powi(-13) * magnitude;
            of_sum + (wanted.abs() + of_sum) / 256.0
        },
    )
}

/// Sums of 8-bit integers: exact.
pub fn matmul_int8(bench: &Bench, n: usize) -> Result<Measurement> {
    product(
        bench,
        n,
        "i8",
        |i| bits(i) as i8,
        |x, y, out: &mut DeviceArray<i32, Ix2>| x.matmul_i32_into(y, out),
        f64::from,
        f64::from,
        |_, _, _| 0.0,
    )
}

/// A product of elements that `element` gives, checked at some ten thousand places against sums in `f64`, to within what
/// `bound` says of k, the sum, and the sum of magnitudes.
#[allow(clippy::too_many_arguments, reason = "a row's parts, each named where it is called")]
fn product<T: Element, O: Element>(
    bench: &Bench,
    n: usize,
    dtype: &'static str,
    element: fn(usize) -> T,
    multiply: impl Fn(&DeviceArray<T, Ix2>, &DeviceView<'_, T, Ix2>, &mut DeviceArray<O, Ix2>) -> warpsmith::Result<()>,
    to_f64: fn(T) -> f64,
    out_to_f64: fn(O) -> f64,
    bound: fn(usize, f64, f64) -> f64,
) -> Result<Measurement> {
    let side = side(bench, n);
    let n = side * side;
    let matrix = |first: usize| -> Result<Array2<T>> {
        Ok(data::array(n, |i| element(first + i))?.into_shape_with_order((side, side))?)
    };
    let (x, y) = (bench.upload(&matrix(0)?)?, bench.upload(&matrix(n)?)?);
    let mut out = bench.zeros((side, side))?;
    let times = bench.times(
        &mut out,
        |out| multiply(&x, &y.t(), out),
        |out| {
            let got = out.to_ndarray()?;
            check::spread(side, 100, |row, column| {
                let product = |k| to_f64(element(row * side + k)) * to_f64(element(n + column * side + k));
                let (wanted, magnitude) = (0..side).map(product).fold((0.0, 0.0), |(sum, magnitude), product| {
                    (sum + product, magnitude + product.abs())
                });
                let place = format_args!("{row}, {column}");
                check::near(
                    place,
                    out_to_f64(got[(row, column)]),
                    wanted,
                    bound(side, wanted, magnitude),
                )
            })
        },
    )?;
    let bytes = 2 * size_of::<T>() + size_of::<O>();
    let measured = Measurement::new(dtype, n, bytes, times)
        .of_shape(&[side, side])
        .operations_each(2.0 * side as f64);
    Ok(Measurement {
        limit: Limit::Arithmetic,
        ..measured
    })
}
