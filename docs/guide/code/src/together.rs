// SPDX-License-Identifier: MIT OR Apache-2.0
//! Chapter "Threads that work together".

use cuda_block::storage;
use cuda_std::prelude::*;
use warpsmith::ndarray::Array1;
use warpsmith::{Device, DeviceArray, LaunchConfig, Schedule, Stream};

use crate::book::{assert_shown, simulator};

// ANCHOR: block_sum
pub const THREADS: usize = 256;

/// The sum of each 256 elements: halves are added to halves.
#[kernel(max_threads = THREADS)]
pub fn block_sums(x: &[f32], out: SliceMut<'_, f32>) {
    let tile = shared_array![f32; THREADS];
    let (t, i) = (thread::thread_idx_x() as usize, thread::index_1d());
    tile.set(t, if i < x.len() { x[i] } else { 0.0 });
    thread::sync_threads();
    let mut half = THREADS / 2;
    while half > 0 {
        if t < half {
            tile.set(t, tile.get(t) + tile.get(t + half));
        }
        thread::sync_threads(); // outside of the `if`: all threads come here
        half /= 2;
    }
    if t == 0 {
        out.set(thread::block_idx_x() as usize, tile.get(0));
    }
}
// ANCHOR_END: block_sum

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

// ANCHOR: racing
/// As `block_sums`, without the barrier between two steps.
#[kernel(max_threads = THREADS)]
pub fn racing_sums(x: &[f32], out: SliceMut<'_, f32>) {
    let tile = shared_array![f32; THREADS];
    let t = thread::thread_idx_x() as usize;
    tile.set(t, x[thread::index_1d()]);
    thread::sync_threads();
    let mut half = THREADS / 2;
    while half > 0 {
        if t < half {
            tile.set(t, tile.get(t) + tile.get(t + half));
        }
        half /= 2;
    }
    if t == 0 {
        out.set(thread::block_idx_x() as usize, tile.get(0));
    }
}
// ANCHOR_END: racing

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

// ANCHOR: warp_sum
/// The sum of each 32 elements: a warp needs no memory for it.
#[kernel]
pub fn warp_sums(x: &[f32], out: SliceMut<'_, f32>) {
    let i = thread::index_1d();
    let mut sum = if i < x.len() { x[i] } else { 0.0 };
    for distance in [16, 8, 4, 2, 1] {
        sum += warp::shuffle_down(warp::FULL_MASK, sum, distance);
    }
    if warp::lane_id() == 0 && i < x.len() {
        out.set(i / 32, sum);
    }
}
// ANCHOR_END: warp_sum

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

// ANCHOR: collective
/// As `block_sums`, by a collective: warps by shuffles, then the eight sums of warps.
#[kernel(max_threads = THREADS)]
pub fn collective_sums(x: &[f32], out: SliceMut<'_, f32>) {
    let i = thread::index_1d();
    let value = if i < x.len() { x[i] } else { 0.0 };
    let storage = storage![f32; THREADS / 32]; // a place for each warp
    let (sum, _used) = storage.all_reduce::<THREADS>(value, 0.0, |a, b| a + b);
    if thread::thread_idx_x() == 0 {
        out.set(thread::block_idx_x() as usize, sum);
    }
}
// ANCHOR_END: collective

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

// ANCHOR: lost
/// Counts the even numbers, and loses some of them.
#[kernel]
pub fn count_even_wrong(x: &[u32], count: SliceMut<'_, u32>) {
    let i = thread::index_1d();
    if i < x.len() && x[i].is_multiple_of(2) {
        count.set(0, count.get(0) + 1);
    }
}
// ANCHOR_END: lost

// ANCHOR: atomic
/// Counts the even numbers.
#[kernel]
pub fn count_even(x: &[u32], count: SliceMut<'_, u32>) {
    let i = thread::index_1d();
    if i < x.len() && x[i].is_multiple_of(2) {
        count.atomic(0).fetch_add(1);
    }
}
// ANCHOR_END: atomic

// ANCHOR: aggregated
/// Counts the even numbers, with one atomic for each block.
#[kernel]
pub fn count_even_by_block(x: &[u32], count: SliceMut<'_, u32>) {
    let i = thread::index_1d();
    let is_even = i < x.len() && x[i].is_multiple_of(2);
    let of_block = thread::sync_threads_count(is_even); // a barrier that counts
    if thread::thread_idx_x() == 0 {
        count.atomic(0).fetch_add(of_block);
    }
}
// ANCHOR_END: aggregated

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

// ANCHOR: diverging
/// A barrier that half of the block does not come to.
#[kernel]
pub fn half_a_barrier(out: SliceMut<'_, f32>) {
    if thread::thread_idx_x() < thread::block_dim_x() / 2 {
        thread::sync_threads();
    }
    out.set(thread::index_1d(), 1.0);
}
// ANCHOR_END: diverging

#[test]
fn a_barrier_for_some_is_an_error() -> warpsmith::Result<()> {
    let device = simulator();
    let stream = device.default_stream();
    let mut out = DeviceArray::zeros(stream, 64)?;
    let error = stream.launch::<half_a_barrier>(&LaunchConfig::new(1, 64), (&mut out,));
    assert_shown("half-a-barrier", &error.unwrap_err().to_string());
    Ok(())
}
