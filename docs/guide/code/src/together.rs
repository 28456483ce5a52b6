// SPDX-License-Identifier: MIT OR Apache-2.0
//! Chapter "Threads that work together".

use warpsmith::ndarray::Array1;
use warpsmith::{Device, DeviceArray, LaunchConfig, Schedule, Stream};
use warpsmith_guide_kernels::together::{
    THREADS, block_sums, collective_sums, count_even, count_even_by_block, count_even_wrong, half_a_barrier,
    racing_sums, warp_sums,
};

use crate::book::{assert_shown, simulator};

// ANCHOR: launch_block_sum
fn sum(stream: &Stream, x: &Array1<f32>) -> warpsmith::Result<f32> {
    let blocks = x.len().div_ceil(THREADS);
    let x = DeviceArray::from_ndarray(stream, x)?;
    let mut sums = DeviceArray::zeros(stream, blocks)?;
    let config = LaunchConfig::new(blocks as u32, THREADS as u32);
    stream.launch::<block_sums>(&config, (&x, &mut sums))?;
    Ok(sums.to_ndarray()?.sum())
}
// ANCHOR_END: launch_block_sum

#[test]
fn sums_of_any_length() -> warpsmith::Result<()> {
    let device = simulator();
    for len in [1, 256, 257, 1000] {
        assert_eq!(sum(device.default_stream(), &Array1::ones(len))?, len as f32);
    }
    Ok(())
}

#[test]
fn a_missing_barrier_is_a_race() -> warpsmith::Result<()> {
    let device = simulator();
    let stream = device.default_stream();
    let x = DeviceArray::<f32, _>::ones(stream, THREADS)?;
    let mut out = DeviceArray::zeros(stream, 1)?;
    let error = stream.launch::<racing_sums>(&LaunchConfig::new(1, THREADS as u32), (&x, &mut out));
    assert_shown("missing-barrier", &error.unwrap_err().to_string());

    // Without checks, it is no error.
    let device = Device::scheduled_simulator(Schedule::InOrder);
    let stream = device.default_stream();
    let x = DeviceArray::<f32, _>::ones(stream, THREADS)?;
    let mut out = DeviceArray::zeros(stream, 1)?;
    stream.launch::<racing_sums>(&LaunchConfig::new(1, THREADS as u32), (&x, &mut out))?;
    assert_eq!(out.get([0])?, 9.0, "the sum that the chapter speaks of");
    Ok(())
}

#[test]
fn sums_of_warps() -> warpsmith::Result<()> {
    let device = simulator();
    let stream = device.default_stream();
    let x = DeviceArray::from_ndarray(stream, &Array1::from_shape_fn(100, |i| i as f32))?;
    let mut out = DeviceArray::zeros(stream, 4)?;
    stream.launch::<warp_sums>(&LaunchConfig::for_len(100, 64), (&x, &mut out))?;
    let expected: Vec<f32> = (0..4)
        .map(|w| (32 * w..(32 * w + 32).min(100)).map(|i| i as f32).sum())
        .collect();
    assert_eq!(out.to_ndarray()?.to_vec(), expected);
    Ok(())
}

#[test]
fn a_collective_sums_the_same() -> warpsmith::Result<()> {
    let device = simulator();
    let stream = device.default_stream();
    let x = DeviceArray::<f32, _>::ones(stream, 300)?;
    let mut out = DeviceArray::zeros(stream, 2)?;
    stream.launch::<collective_sums>(&LaunchConfig::new(2, THREADS as u32), (&x, &mut out))?;
    assert_eq!(out.to_ndarray()?.to_vec(), [256.0, 44.0]);
    Ok(())
}

#[test]
fn counts_even_numbers() -> warpsmith::Result<()> {
    let device = simulator();
    let stream = device.default_stream();
    let x = DeviceArray::<u32, _>::range(stream, 0, 1001, 1)?;
    let config = LaunchConfig::for_len(x.len(), 128);
    let mut count = DeviceArray::zeros(stream, 1)?;
    stream.launch::<count_even>(&config, (&x, &mut count))?;
    assert_eq!(count.get([0])?, 501);
    count.fill(0)?;
    stream.launch::<count_even_by_block>(&config, (&x, &mut count))?;
    assert_eq!(count.get([0])?, 501);

    let error = stream
        .launch::<count_even_wrong>(&config, (&x, &mut count))
        .unwrap_err();
    assert_shown("lost-update", &error.to_string());
    Ok(())
}

#[test]
fn a_barrier_for_some_is_an_error() -> warpsmith::Result<()> {
    let device = simulator();
    let stream = device.default_stream();
    let mut out = DeviceArray::zeros(stream, 64)?;
    let error = stream.launch::<half_a_barrier>(&LaunchConfig::new(1, 64), (&mut out,));
    assert_shown("half-a-barrier", &error.unwrap_err().to_string());
    Ok(())
}
