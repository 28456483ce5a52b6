// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pictures: grayscale moves `(C + 1) n` bytes for `n` pixels of `C` channels, the box blur `2 C n`.

mod common;

use common::measure;
use criterion::{BenchmarkGroup, BenchmarkId, Criterion, criterion_group, criterion_main, measurement::WallTime};
use ndarray::{Array2, Array3, s};
use proptest::prelude::RngExt;
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

fn image(criterion: &mut Criterion) {
    let device = common::device();
    let stream = device.default_stream();
    let mut group = criterion.benchmark_group("image");
    for pixels in common::sizes(&device, 2 * 4) {
        grayscale(&mut group, stream, &noise(pixels, 3));
        grayscale(&mut group, stream, &noise(pixels, 4));
        for channels in [1, 3, 4] {
            box_blur(&mut group, stream, &noise(pixels, channels));
        }
    }
    group.finish();
}

criterion_group!(name = benches; config = common::criterion(); targets = image);
criterion_main!(benches);
