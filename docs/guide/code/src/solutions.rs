// SPDX-License-Identifier: MIT OR Apache-2.0
//! The solutions of the exercises.

use warpsmith::ndarray::{Array1, Array2, Axis, Ix1, array};
use warpsmith::{Device, DeviceArray, LaunchConfig, PinnedArray, Stream, ops};
use warpsmith_guide_kernels::solutions::{
    BLOCK, THREADS, blur_rows, checkerboard, count_letters, reverse, scatter_kept, smooth, split_points, stuck_sums,
    warp_maxima,
};

use crate::book::{assert_shown, simulator};

/// The numbers from 0, as floats.
fn counted(len: usize) -> Array1<f32> {
    Array1::from_shape_fn(len, |i| i as f32)
}

#[test]
fn reverses() -> warpsmith::Result<()> {
    let device = simulator();
    let stream = device.default_stream();
    let x = DeviceArray::from_ndarray(stream, &counted(1000))?;
    let mut out = x.zeros_like()?;
    stream.launch::<reverse>(&LaunchConfig::for_len(1000, 256), (&x, &mut out))?;
    assert_eq!(out.to_ndarray()?, x.flip(Axis(0))?.to_ndarray()?);
    Ok(())
}

#[test]
fn paints_a_checkerboard() -> warpsmith::Result<()> {
    let device = simulator();
    let stream = device.default_stream();
    let mut out = DeviceArray::zeros(stream, (5, 6))?;
    let config = LaunchConfig::for_shape((5, 6), (32, 8));
    stream.launch::<checkerboard>(&config, (6usize, 2usize, &mut out))?;
    let (w, b) = (255u8, 0);
    let (one, other) = ([w, w, b, b, w, w], [b, b, w, w, b, b]);
    assert_eq!(out.to_ndarray()?, Array2::from(vec![one, one, other, other, one]));
    Ok(())
}

#[test]
fn splits_points() -> warpsmith::Result<()> {
    let device = simulator();
    let stream = device.default_stream();
    let x = DeviceArray::from_ndarray(stream, &Array2::from_shape_fn((100, 3), |(i, j)| (10 * i + j) as f32))?;
    let mut out = DeviceArray::zeros(stream, (3, 100))?;
    stream.launch::<split_points>(&LaunchConfig::for_len(300, 128), (&x, &mut out))?;
    assert_eq!(out.to_ndarray()?, x.transpose()?.to_ndarray()?);
    Ok(())
}

#[test]
fn smooths() -> warpsmith::Result<()> {
    let device = simulator();
    let stream = device.default_stream();
    for len in [1, 2, 128, 129, 300] {
        let x = Array1::from_shape_fn(len, |i| (i * i % 17) as f32);
        let on_device = DeviceArray::from_ndarray(stream, &x)?;
        let mut out = on_device.zeros_like()?;
        stream.launch::<smooth>(&LaunchConfig::for_len(len, THREADS as u32), (&on_device, &mut out))?;
        let expected = Array1::from_shape_fn(len, |i| (x[i.saturating_sub(1)] + x[i] + x[(i + 1).min(len - 1)]) / 3.0);
        assert_eq!(out.to_ndarray()?, expected);
    }
    Ok(())
}

#[test]
fn maxima_of_warps() -> warpsmith::Result<()> {
    let device = simulator();
    let stream = device.default_stream();
    let x = DeviceArray::from_ndarray(stream, &counted(40))?;
    let mut out = x.zeros_like()?;
    stream.launch::<warp_maxima>(&LaunchConfig::for_len(40, 64), (&x, &mut out))?;
    assert_eq!(
        out.to_ndarray()?,
        Array1::from_shape_fn(40, |i| if i < 32 { 31.0 } else { 39.0 })
    );
    Ok(())
}

#[test]
fn counts_letters() -> warpsmith::Result<()> {
    let device = simulator();
    let stream = device.default_stream();
    let text = Array1::from(b"the quick brown fox jumps over the lazy dog".repeat(20));
    let x = DeviceArray::from_ndarray(stream, &text)?;
    let mut counts = DeviceArray::zeros(stream, 26)?;
    stream.launch::<count_letters>(&LaunchConfig::for_len(text.len(), 256), (&x, &mut counts))?;
    let counts = counts.to_ndarray()?;
    assert_eq!((counts[0], counts[4], counts[25]), (20, 60, 20));
    assert_eq!(counts.sum(), 20 * 35);
    Ok(())
}

#[test]
// ANCHOR: longest_run
fn longest_run_of_rain() -> warpsmith::Result<()> {
    let device = Device::auto()?;
    let stream = device.default_stream();
    let rain = DeviceArray::from_ndarray(stream, &array![1u64, 1, 0, 1, 1, 1, 0, 0, 1])?;
    let day = DeviceArray::<u64, _>::range(stream, 1, 10, 1)?;
    // The number of the last dry day up to each day: a scan by the maximum.
    let dry = rain.expr().equal(0).select(day.expr(), 0).eval()?;
    let last_dry = dry.inclusive_scan::<ops::Max>()?;
    assert_eq!(day.sub(&last_dry)?.max()?, 3);
    Ok(())
}
// ANCHOR_END: longest_run

#[test]
// ANCHOR: pinned
fn exercise_batches() -> warpsmith::Result<()> {
    let device = Device::auto()?;
    let (one, other) = (device.create_stream()?, device.create_stream()?);
    let mut copies = Vec::new();
    for (batch, stream) in [(1.0f32, &one), (2.0, &other)] {
        let input = PinnedArray::from_ndarray(&device, &Array1::from_elem(1000, batch))?;
        let (x, upload) = DeviceArray::upload_async(stream, input)?;
        copies.push((x.exp()?.download_async()?, upload));
    }
    for (batch, (download, upload)) in [1.0f32, 2.0].into_iter().zip(copies) {
        assert!((download.wait()?.view()[0] - batch.exp()).abs() < 1e-5);
        upload.wait()?; // its memory could take the next batch
    }
    Ok(())
}
// ANCHOR_END: pinned

#[test]
fn a_barrier_in_the_branch_is_an_error() -> warpsmith::Result<()> {
    let device = simulator();
    let stream = device.default_stream();
    let x = DeviceArray::<f32, _>::ones(stream, BLOCK)?;
    let mut out = DeviceArray::zeros(stream, 1)?;
    let error = stream.launch::<stuck_sums>(&LaunchConfig::new(1, BLOCK as u32), (&x, &mut out));
    assert_shown("barrier-in-the-branch", &error.unwrap_err().to_string());
    Ok(())
}

#[test]
fn blurs_rows() -> warpsmith::Result<()> {
    let device = simulator();
    let stream = device.default_stream();
    let (shape, radius) = ((5, 70), 2);
    let x = Array2::from_shape_fn(shape, |(i, j)| (i * 31 % 8 + j * j % 11) as f32);
    let on_device = DeviceArray::from_ndarray(stream, &x)?;
    let mut out = on_device.zeros_like()?;
    let config = LaunchConfig::for_shape(shape, (32, 4));
    stream.launch::<blur_rows>(&config, (shape.1, radius, &on_device, &mut out))?;
    let out = out.to_ndarray()?;
    // Sums of small integers are exact, whatever their order.
    for (row, out) in x.rows().into_iter().zip(out.rows()) {
        for (i, window) in row.windows(2 * radius + 1).into_iter().enumerate() {
            assert_eq!(out[i + radius], window.sum() / 5.0);
        }
        assert_eq!(out[0], (3.0 * row[0] + row[1] + row[2]) / 5.0);
    }
    Ok(())
}

// ANCHOR: launch_compact
fn positive(stream: &Stream, x: &DeviceArray<f32, Ix1>) -> warpsmith::Result<DeviceArray<f32, Ix1>> {
    let keep = x.expr().greater(0.0).cast::<u64>().eval()?;
    let place = keep.exclusive_scan::<ops::Sum>()?;
    let mut out = DeviceArray::zeros(stream, keep.sum()? as usize)?;
    let config = LaunchConfig::for_len(x.len(), 256);
    stream.launch::<scatter_kept>(&config, (x, &keep, &place, &mut out))?;
    Ok(out)
}
// ANCHOR_END: launch_compact

#[test]
fn keeps_what_is_positive() -> warpsmith::Result<()> {
    let device = simulator();
    let stream = device.default_stream();
    for len in [1, 300] {
        let x = Array1::from_shape_fn(len, |i| 3.0 - (i % 7) as f32);
        let kept = positive(stream, &DeviceArray::from_ndarray(stream, &x)?)?;
        let expected: Vec<f32> = x.iter().copied().filter(|&x| x > 0.0).collect();
        assert_eq!(kept.to_ndarray()?.to_vec(), expected);
    }
    Ok(())
}
