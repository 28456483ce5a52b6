// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pictures of bytes: grayscale moves `(C + 1) n` bytes for `n` pixels of `C` channels, the 3 × 3 box blur `2 C n`, the
//! box of any radius (with 4-byte sums between its passes) and the Gaussian (with `f32`) `10 C n`.

use crate::common::{self, measure};
use criterion::{BenchmarkGroup, BenchmarkId, Criterion, measurement::WallTime};
use ndarray::{Array2, Array3, s};
use proptest::prelude::RngExt;
use warpsmith::ops::Border;
use warpsmith::{DeviceArray, Stream};

type Group<'a> = BenchmarkGroup<'a, WallTime>;

/// A square picture of that many pixels, a power of 4.
fn noise(pixels: usize, channels: usize) -> Array3<u8> {
    let edge = pixels.isqrt();
    let mut rng = common::rng();
    Array3::from_shape_simple_fn((edge, edge, channels), || rng.random())
}

fn grayscale(group: &mut Group<'_>, stream: &Stream, picture: &Array3<u8>) {
    let (rows, columns, channels) = picture.dim();
    let on_device = DeviceArray::from_ndarray(stream, picture).expect("the picture fits");
    let mut out = DeviceArray::zeros(stream, (rows, columns)).expect("the output fits");
    on_device.grayscale_into(&mut out).expect("the operation succeeds");
    let luma =
        |pixel: &[u8]| (299 * u32::from(pixel[0]) + 587 * u32::from(pixel[1]) + 114 * u32::from(pixel[2]) + 500) / 1000;
    let pixels = picture.as_slice().expect("one piece").chunks_exact(channels);
    let wanted = Array2::from_shape_vec((rows, columns), pixels.map(|pixel| luma(pixel) as u8).collect());
    assert!(
        out.to_ndarray().ok() == wanted.ok(),
        "grayscale computes something else"
    );
    let id = BenchmarkId::new(format!("grayscale_{channels}"), rows * columns);
    measure(group, id, stream, (channels + 1) * rows * columns, || {
        on_device.grayscale_into(&mut out)
    });
}

fn box_blur(group: &mut Group<'_>, stream: &Stream, picture: &Array3<u8>) {
    let (rows, columns, channels) = picture.dim();
    let on_device = DeviceArray::from_ndarray(stream, picture).expect("the picture fits");
    let mut out = DeviceArray::zeros(stream, picture.dim()).expect("the output fits");
    on_device.box_blur_3x3_into(&mut out).expect("the operation succeeds");
    let result = out.to_ndarray().expect("the result can be read");
    // Both edges and the middle: enough to see that the blur is one, and quick for the largest picture too.
    for y in [0, 1, rows / 2, rows - 1] {
        for x in 0..columns {
            let (top, left) = (y.saturating_sub(1), x.saturating_sub(1));
            let window = picture.slice(s![top..rows.min(y + 2), left..columns.min(x + 2), 0]);
            let (sum, count) = (
                window.iter().map(|&value| u32::from(value)).sum::<u32>(),
                window.len() as u32,
            );
            assert_eq!(
                u32::from(result[[y, x, 0]]),
                (sum + count / 2) / count,
                "the blur at row {y}, column {x}"
            );
        }
    }
    let id = BenchmarkId::new(format!("box_blur_3x3_{channels}"), rows * columns);
    measure(group, id, stream, 2 * picture.len(), || {
        on_device.box_blur_3x3_into(&mut out)
    });
}

/// The clamped position.
fn clamped(i: isize, n: usize) -> usize {
    i.clamp(0, n as isize - 1) as usize
}

/// Some pixels, along both edges and in the middle, of a blur with clamped borders by a weighted mean over a square
/// window, to 1: the kernels' own tests are exact.
fn check_blur(picture: &Array3<u8>, result: &Array3<u8>, weights: &[f64]) {
    let (rows, columns, _) = picture.dim();
    let radius = (weights.len() / 2) as isize;
    for y in [0, rows / 2, rows - 1] {
        for x in [0, 1, columns / 3, columns - 1] {
            let mut sum = 0.0;
            for (dy, row_weight) in (-radius..).zip(weights) {
                for (dx, weight) in (-radius..).zip(weights) {
                    let at = [clamped(y as isize + dy, rows), clamped(x as isize + dx, columns), 0];
                    sum += row_weight * weight * f64::from(picture[at]);
                }
            }
            let error = (f64::from(result[[y, x, 0]]) - sum).abs();
            assert!(error <= 0.51, "the blur at row {y}, column {x} is off by {error}");
        }
    }
}

fn any_box(group: &mut Group<'_>, stream: &Stream, picture: &Array3<u8>, radius: usize) {
    let on_device = DeviceArray::from_ndarray(stream, picture).expect("the picture fits");
    let mut out = DeviceArray::zeros(stream, picture.dim()).expect("the output fits");
    let mut blur = || on_device.box_blur_into(radius, Border::Clamp, &mut out);
    blur().expect("the operation succeeds");
    let (rows, columns, channels) = picture.dim();
    let id = BenchmarkId::new(format!("box_blur_{radius}_{channels}"), rows * columns);
    measure(group, id, stream, 10 * picture.len(), &mut blur);
    let weights = vec![1.0 / (2 * radius + 1) as f64; 2 * radius + 1];
    check_blur(picture, &out.to_ndarray().expect("the result can be read"), &weights);
}

fn gaussian(group: &mut Group<'_>, stream: &Stream, picture: &Array3<u8>, sigma: u32) {
    let on_device = DeviceArray::from_ndarray(stream, picture).expect("the picture fits");
    let mut out = DeviceArray::zeros(stream, picture.dim()).expect("the output fits");
    let mut blur = || on_device.gaussian_blur_into(f64::from(sigma), Border::Clamp, &mut out);
    blur().expect("the operation succeeds");
    let (rows, columns, channels) = picture.dim();
    let id = BenchmarkId::new(format!("gaussian_blur_{sigma}_{channels}"), rows * columns);
    measure(group, id, stream, 10 * picture.len(), &mut blur);
    let radius = 4 * sigma as i32;
    let weight = |k: i32| (-0.5 * (f64::from(k) / f64::from(sigma)).powi(2)).exp();
    let total: f64 = (-radius..=radius).map(weight).sum();
    let weights: Vec<f64> = (-radius..=radius).map(|k| weight(k) / total).collect();
    check_blur(picture, &out.to_ndarray().expect("the result can be read"), &weights);
}

pub fn image(criterion: &mut Criterion) {
    let device = common::device();
    let stream = device.default_stream();
    let mut group = criterion.benchmark_group("image");
    for pixels in common::sizes(&device, 6 * 4) {
        grayscale(&mut group, stream, &noise(pixels, 3));
        grayscale(&mut group, stream, &noise(pixels, 4));
        for channels in [1, 3, 4] {
            box_blur(&mut group, stream, &noise(pixels, channels));
            for radius in [2, 30] {
                any_box(&mut group, stream, &noise(pixels, channels), radius);
            }
            for sigma in [2, 8] {
                gaussian(&mut group, stream, &noise(pixels, channels), sigma);
            }
        }
    }
    group.finish();
}
