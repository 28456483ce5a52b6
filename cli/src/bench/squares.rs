// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rows of matrices and pictures: squares of about as many elements as are asked for.

use anyhow::Result;
use kernels_gpu::num::Num;
use ndarray::{Array1, Array2, Array3, Axis, Dimension, IxDyn};
use warpsmith::ops::{Border, Number};
use warpsmith::{DeviceArray, Element};

use super::check;
use super::data::{self, Value, bits, byte};
use super::measure::{Bench, Measurement};

/// Of the Gaussian blur.
const SIGMA: f64 = 2.0;

/// The radius of the Gaussian's window.
const RADIUS: usize = (4.0 * SIGMA + 0.5) as usize;

/// The elements of a result, in C order.
pub fn host<T: Element, D: Dimension>(array: &DeviceArray<T, D>) -> Result<Vec<T>> {
    Ok(array.to_ndarray()?.into_raw_vec_and_offset().0)
}

fn matrix<T>(elements: Array1<T>, side: usize) -> Result<Array2<T>> {
    Ok(elements.into_shape_with_order((side, side))?)
}

/// A random picture of bytes.
fn picture(side: usize, channels: usize) -> Result<Array3<u8>> {
    let elements = data::array(side * side * channels, byte)?;
    Ok(elements.into_shape_with_order((side, side, channels))?)
}

pub fn transpose<T: Value>(bench: &Bench, n: usize) -> Result<Measurement> {
    let side = n.isqrt();
    let n = side * side;
    let element = |i| T::random(bits(i));
    let x = bench.upload(&matrix(data::array(n, element)?, side)?)?;
    let mut out = bench.zeros((side, side))?;
    let times = bench.times(
        &mut out,
        |out| x.transpose_into(out),
        |out| check::every(&host(out)?, &|i| element(i % side * side + i / side)),
    )?;
    Ok(Measurement::new(T::DTYPE, n, 2 * size_of::<T>(), times).of_shape(&[side, side]))
}

/// The sums of columns, of elements below 256.
pub fn sum_axis_0<T: Value + Number + Num<Total: Value>>(bench: &Bench, n: usize) -> Result<Measurement> {
    let side = n.isqrt();
    let element = |i| T::of_sum(T::term(bits(i)));
    let x = bench.upload(&matrix(data::array(side * side, element)?, side)?)?;
    let mut out = bench.zeros(side)?;
    let times = bench.times(
        &mut out,
        |out| x.sum_axis_into(Axis(0), out),
        |out| {
            check::every(&host(out)?, &|column| {
                let terms = (0..side).map(|row| T::term(bits(row * side + column)));
                T::Total::of_sum(terms.sum())
            })
        },
    )?;
    Ok(Measurement::new(T::DTYPE, side * side, size_of::<T>(), times).of_shape(&[side, side]))
}

/// The sums over the first and the last axis of three, which are brought together first.
pub fn sum_axes_0_2<T: Value + Number + Num<Total: Value>>(bench: &Bench, n: usize) -> Result<Measurement> {
    let middle = n.clamp(1, 64);
    let side = (n / middle).isqrt();
    let n = side * middle * side;
    let term = |i: usize| T::term(bits(i));
    let elements = data::array(n, |i| T::of_sum(term(i)))?;
    let x = bench.upload(&elements.into_shape_with_order((side, middle, side))?)?;
    let mut out = bench.zeros(IxDyn(&[middle]))?;
    let times = bench.times(
        &mut out,
        |out| x.sum_axes_into(&[0, 2], out),
        |out| {
            check::every(&host(out)?, &|column| {
                let terms = (0..side * side).map(|i| term((i / side * middle + column) * side + i % side));
                T::Total::of_sum(terms.sum())
            })
        },
    )?;
    Ok(Measurement::new(T::DTYPE, n, size_of::<T>(), times).of_shape(&[side, middle, side]))
}

/// Of RGB: BT.601 luma, rounded to nearest, halves up.
pub fn grayscale(bench: &Bench, n: usize) -> Result<Measurement> {
    let side = n.isqrt();
    let x = bench.upload(&picture(side, 3)?)?;
    let mut out = bench.zeros((side, side))?;
    let luma = |i: usize| {
        let channel = |channel| u32::from(byte(3 * i + channel));
        ((299 * channel(0) + 587 * channel(1) + 114 * channel(2) + 500) / 1000) as u8
    };
    let times = bench.times(
        &mut out,
        |out| x.grayscale_into(out),
        |out| check::every(&host(out)?, &luma),
    )?;
    Ok(Measurement::new("u8", side * side, 4, times)
        .of_shape(&[side, side, 3])
        .operations_each(5.0))
}

/// Of one channel: the mean of the pixels that exist around each, rounded to nearest, halves up.
pub fn blur3x3(bench: &Bench, n: usize) -> Result<Measurement> {
    let side = n.isqrt();
    let x = bench.upload(&picture(side, 1)?)?;
    let mut out = bench.zeros(x.raw_dim())?;
    let mean = |i: usize| {
        let around = |at: usize| at.saturating_sub(1)..(at + 2).min(side);
        let (rows, columns) = (around(i / side), around(i % side));
        let count = (rows.len() * columns.len()) as u32;
        let sum: u32 = rows
            .flat_map(|row| columns.clone().map(move |column| u32::from(byte(row * side + column))))
            .sum();
        ((sum + count / 2) / count) as u8
    };
    let times = bench.times(
        &mut out,
        |out| x.box_blur_3x3_into(out),
        |out| check::every(&host(out)?, &mean),
    )?;
    Ok(Measurement::new("u8", side * side, 2, times)
        .of_shape(&[side, side, 1])
        .operations_each(9.0))
}

/// Of one channel, the pixels at the edge standing for what lies beyond. Checked at about a million places, since each
/// takes the reference all pixels of its window.
pub fn blur_gaussian(bench: &Bench, n: usize) -> Result<Measurement> {
    // A half of the rounding to bytes, and the bound that the library states for what is rounded.
    const BOUND: f64 = 0.5 + (4 * RADIUS + 6) as f64 * 255.0 / (1 << 24) as f64;
    let side = n.isqrt();
    let x = bench.upload(&picture(side, 1)?)?;
    let mut out = bench.zeros(x.raw_dim())?;
    let weights = gaussian_weights();
    let times = bench.times(
        &mut out,
        |out| x.gaussian_blur_into(SIGMA, Border::Clamp, out),
        |out| {
            let got = host(out)?;
            check::spread(side, 1024, &|row, column| {
                let wanted = gaussian_at(&weights, side, row, column);
                let place = format_args!("{row}, {column}");
                check::near(place, got[row * side + column].into(), wanted, BOUND)
            })
        },
    )?;
    // A multiplication and an addition for each weight, in either direction.
    Ok(Measurement::new("u8", side * side, 2, times)
        .of_shape(&[side, side, 1])
        .operations_each((4 * (2 * RADIUS + 1)) as f64))
}

/// The weights of a window, whose sum is 1.
fn gaussian_weights() -> Vec<f64> {
    let weight = |i: usize| (-0.5 * ((i as f64 - RADIUS as f64) / SIGMA).powi(2)).exp();
    let weights: Vec<f64> = (0..=2 * RADIUS).map(weight).collect();
    let total: f64 = weights.iter().sum();
    weights.iter().map(|weight| weight / total).collect()
}

/// The blurred pixel of the random picture, not rounded.
fn gaussian_at(weights: &[f64], side: usize, row: usize, column: usize) -> f64 {
    let within = |at: usize, offset: usize| (at + offset).saturating_sub(RADIUS).min(side - 1);
    let of_row = |row: usize| -> f64 {
        let pixel = |offset| f64::from(byte(row * side + within(column, offset)));
        weights.iter().enumerate().map(|(i, weight)| weight * pixel(i)).sum()
    };
    let rows = weights.iter().enumerate();
    rows.map(|(i, weight)| weight * of_row(within(row, i))).sum()
}
