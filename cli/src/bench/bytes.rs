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

/// A kind of products that is measured.
pub trait Bytes {
    /// What is multiplied.
    type Element: Element;
    /// What the sums become.
    type Sum: Element;

    const DTYPE: &'static str;

    /// The random element of index `i`.
    fn element(i: usize) -> Self::Element;
    fn to_f64(x: Self::Element) -> f64;
    fn sum_to_f64(x: Self::Sum) -> f64;

    /// By how much a sum of `k` products may be off, of which `magnitude` is the sum of the absolute values.
    fn bound(k: usize, wanted: f64, magnitude: f64) -> f64;

    fn multiply(
        a: &DeviceArray<Self::Element, Ix2>,
        b: &DeviceView<'_, Self::Element, Ix2>,
        out: &mut DeviceArray<Self::Sum, Ix2>,
    ) -> warpsmith::Result<()>;
}

/// 8-bit floats, whose sums of 128 products are added up in `f32`, unless they are fast.
pub enum Fp8<const FAST: bool> {}

impl<const FAST: bool> Bytes for Fp8<FAST> {
    type Element = F8E4M3;
    type Sum = bf16;

    const DTYPE: &'static str = "e4m3";

    fn element(i: usize) -> F8E4M3 {
        F8E4M3::from_f32(normal(i) as f32)
    }

    fn to_f64(x: F8E4M3) -> f64 {
        x.to_f32().into()
    }

    fn sum_to_f64(x: bf16) -> f64 {
        x.to_f64()
    }

    /// What `ScaledMatMul` says of Hopper's tensor cores, and what it is rounded by.
    fn bound(k: usize, wanted: f64, magnitude: f64) -> f64 {
        let k = k as f64;
        let terms = if FAST { k + k / 32.0 } else { 0.0 };
        let of_sum = (terms + 132.0) * 2f64.powi(-13) * magnitude + k / 128.0 * 2f64.powi(-24) * magnitude;
        of_sum + (wanted.abs() + of_sum) / 256.0
    }

    fn multiply(
        a: &DeviceArray<F8E4M3, Ix2>,
        b: &DeviceView<'_, F8E4M3, Ix2>,
        out: &mut DeviceArray<bf16, Ix2>,
    ) -> warpsmith::Result<()> {
        let product = a.scaled_matmul(b);
        match FAST {
            true => product.fast_accumulation().compute_into(out),
            false => product.compute_into(out),
        }
    }
}

/// 8-bit integers, whose sums are exact.
pub enum Int8 {}

impl Bytes for Int8 {
    type Element = i8;
    type Sum = i32;

    const DTYPE: &'static str = "i8";

    fn element(i: usize) -> i8 {
        bits(i) as i8
    }

    fn to_f64(x: i8) -> f64 {
        x.into()
    }

    fn sum_to_f64(x: i32) -> f64 {
        x.into()
    }

    fn bound(_: usize, _: f64, _: f64) -> f64 {
        0.0
    }

    fn multiply(
        a: &DeviceArray<i8, Ix2>,
        b: &DeviceView<'_, i8, Ix2>,
        out: &mut DeviceArray<i32, Ix2>,
    ) -> warpsmith::Result<()> {
        a.matmul_i32_into(b, out)
    }
}

/// The product of two matrices. Checked at some ten thousand places, against sums in `f64`.
pub fn matmul<T: Bytes>(bench: &Bench, n: usize) -> Result<Measurement> {
    let side = side(bench, n);
    let n = side * side;
    let matrix = |first: usize| -> Result<Array2<T::Element>> {
        Ok(data::array(n, |i| T::element(first + i))?.into_shape_with_order((side, side))?)
    };
    let (x, y) = (bench.upload(&matrix(0)?)?, bench.upload(&matrix(n)?)?);
    let mut out = bench.zeros((side, side))?;
    let times = bench.times(
        &mut out,
        |out| T::multiply(&x, &y.t(), out),
        |out| {
            let got = out.to_ndarray()?;
            check::spread(side, 100, &|row, column| {
                let of = |i| T::to_f64(T::element(i));
                let product = |k| of(row * side + k) * of(n + column * side + k);
                let (wanted, magnitude) = (0..side).map(product).fold((0.0, 0.0), |(sum, magnitude), product| {
                    (sum + product, magnitude + product.abs())
                });
                let got = T::sum_to_f64(got[(row, column)]);
                check::near(
                    format_args!("{row}, {column}"),
                    got,
                    wanted,
                    T::bound(side, wanted, magnitude),
                )
            })
        },
    )?;
    let bytes = 2 * size_of::<T::Element>() + size_of::<T::Sum>();
    let measured = Measurement::new(T::DTYPE, n, bytes, times)
        .of_shape(&[side, side])
        .operations_each(2.0 * side as f64);
    Ok(Measurement {
        limit: Limit::Arithmetic,
        ..measured
    })
}
