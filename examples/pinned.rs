// SPDX-License-Identifier: MIT OR Apache-2.0
//! Batches that are copied in, computed on and copied out side by side, by page-locked memory and three streams:
//! `cargo run --release --example pinned [BATCHES] [LENGTH]`.

use std::collections::VecDeque;
use std::time::Instant;

use ndarray::Array1;
use warpsmith::{Device, DeviceArray, PinnedArray, Stream};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// What the host has for batch `number`, and what it does with the result.
fn fill(batch: &mut PinnedArray<f32, ndarray::Ix1>, number: usize) {
    batch.view_mut().fill(number as f32);
}

fn main() -> Result<()> {
    let arguments: Vec<usize> = std::env::args()
        .skip(1)
        .map(|text| text.parse())
        .collect::<std::result::Result<_, _>>()?;
    let device = Device::auto()?;
    // Shorter where each of the GPU's threads is simulated.
    let default_len = if device.is_simulator() { 1 << 16 } else { 1 << 20 };
    let (batches, len) = (
        arguments.first().copied().unwrap_or(20),
        arguments.get(1).copied().unwrap_or(default_len),
    );

    let start = Instant::now();
    let expected = one_by_one(device.default_stream(), batches, len)?;
    let serial = start.elapsed();

    // Three streams: while one computes, another copies in and the third copies out.
    let streams = [
        device.create_stream()?,
        device.create_stream()?,
        device.create_stream()?,
    ];
    let mut unused: Vec<_> = (0..6)
        .map(|_| PinnedArray::zeros(&device, len))
        .collect::<warpsmith::Result<_>>()?;
    let (mut under_way, mut total) = (VecDeque::new(), 0.0);
    let start = Instant::now();
    for number in 0..batches {
        if under_way.len() == streams.len() {
            let (upload, download) = under_way.pop_front().ok_or("a batch is under way")?;
            total += finish(&mut unused, upload, download)?;
        }
        let (mut input, output) = unused.pop().zip(unused.pop()).ok_or("two arrays for each stream")?;
        fill(&mut input, number);
        let (x, upload) = DeviceArray::upload_async(&streams[number % streams.len()], input)?;
        // Nothing waits here: the copies own their arrays, and the stream keeps the order.
        let download = x.square()?.add_scalar(1.0)?.download_async_into(output)?;
        under_way.push_back((upload, download));
    }
    for (upload, download) in under_way {
        total += finish(&mut unused, upload, download)?;
    }
    let overlapped = start.elapsed();

    assert_eq!(total, expected);
    println!(
        "{batches} batches of {len} f32 on {}: {total}",
        device.properties().name
    );
    println!("one by one: {serial:.1?}; overlapped, by pinned memory: {overlapped:.1?}");
    Ok(())
}

type Copy = warpsmith::PendingCopy<f32, ndarray::Ix1>;

/// The first number of a result that has arrived. Its arrays can be used again.
fn finish(unused: &mut Vec<PinnedArray<f32, ndarray::Ix1>>, upload: Copy, download: Copy) -> Result<f64> {
    let result = download.wait()?;
    let first = f64::from(result.view()[0]);
    unused.extend([result, upload.wait()?]);
    Ok(first)
}

/// The same with ordinary memory, each batch after the one before.
fn one_by_one(stream: &Stream, batches: usize, len: usize) -> Result<f64> {
    let mut total = 0.0;
    for number in 0..batches {
        let x = DeviceArray::from_ndarray(stream, &Array1::from_elem(len, number as f32))?;
        total += f64::from(x.square()?.add_scalar(1.0)?.to_ndarray()?[0]);
    }
    Ok(total)
}
