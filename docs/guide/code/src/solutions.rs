// SPDX-License-Identifier: MIT OR Apache-2.0
//! The solutions of the exercises.

use cuda_std::prelude::*;
use warpsmith::ndarray::{Array1, Array2, Axis, Ix1, array};
use warpsmith::{Device, DeviceArray, LaunchConfig, PinnedArray, Stream, ops};

use crate::book::{assert_shown, simulator};

/// The numbers from 0, as floats.
fn counted(len: usize) -> Array1<f32> {
    Array1::from_shape_fn(len, |i| i as f32)
}

// ANCHOR: reverse
/// The elements from the last to the first.
#[kernel]
pub fn reverse(x: &[f32], out: SliceMut<'_, f32>) {
    let i = thread::index_1d();
    if i < out.len() {
        out.set(i, x[x.len() - 1 - i]);
    }
}
// ANCHOR_END: reverse

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

// ANCHOR: checkerboard
/// A board of fields that are `size` pixels wide and high: 0 and 255 in turns.
#[kernel]
pub fn checkerboard(width: usize, size: usize, out: SliceMut<'_, u8>) {
    let (row, column) = thread::index_2d();
    let i = row * width + column;
    if column < width && i < out.len() {
        let is_white = (row / size + column / size).is_multiple_of(2);
        out.set(i, if is_white { 255 } else { 0 });
    }
}
// ANCHOR_END: checkerboard

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

// ANCHOR: planes
/// Splits points (x, y, z), one behind the other, into a row of all x, one of all y and one of all z: a thread for each
/// number that is written, so that neighbours write neighbours.
#[kernel]
pub fn split_points(points: &[f32], out: SliceMut<'_, f32>) {
    let i = thread::index_1d();
    let count = out.len() / 3;
    if i < 3 * count {
        let (axis, point) = (i / count, i % count);
        out.set(i, points[3 * point + axis]);
    }
}
// ANCHOR_END: planes

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

// ANCHOR: neighbours
const THREADS: usize = 128;

/// The mean of each element and its two neighbours; the ends are their own neighbours. Each element is read from global
/// memory once, but for those at the edges of blocks.
#[kernel(max_threads = THREADS)]
pub fn smooth(x: &[f32], out: SliceMut<'_, f32>) {
    let tile = shared_array![f32; THREADS + 2];
    let (t, i) = (thread::thread_idx_x() as usize, thread::index_1d());
    let last = x.len() - 1;
    tile.set(t + 1, x[i.min(last)]);
    if t == 0 {
        tile.set(0, x[i.saturating_sub(1).min(last)]);
    }
    if t == THREADS - 1 {
        tile.set(THREADS + 1, x[(i + 1).min(last)]);
    }
    thread::sync_threads();
    if i < out.len() {
        out.set(i, (tile.get(t) + tile.get(t + 1) + tile.get(t + 2)) / 3.0);
    }
}
// ANCHOR_END: neighbours

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

// ANCHOR: maximum
/// The maximum of each 32 elements, in all of the warp's lanes.
#[kernel]
pub fn warp_maxima(x: &[f32], out: SliceMut<'_, f32>) {
    let i = thread::index_1d();
    let mut most = if i < x.len() { x[i] } else { f32::NEG_INFINITY };
    for distance in [16, 8, 4, 2, 1] {
        most = most.max(warp::shuffle_xor(warp::FULL_MASK, most, distance));
    }
    if i < out.len() {
        out.set(i, most);
    }
}
// ANCHOR_END: maximum

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

// ANCHOR: letters
/// How often each letter from a to z is there: counted in shared memory, and added to `counts` once for each block.
#[kernel]
pub fn count_letters(text: &[u8], counts: SliceMut<'_, u32>) {
    let block = shared_array![u32; 26];
    let t = thread::thread_idx_x() as usize;
    if t < 26 {
        block.set(t, 0);
    }
    thread::sync_threads();
    let i = thread::index_1d();
    if i < text.len() && text[i].is_ascii_lowercase() {
        block.atomic((text[i] - b'a') as usize).fetch_add(1);
    }
    thread::sync_threads();
    if t < 26 {
        counts.atomic(t).fetch_add(block.get(t));
    }
}
// ANCHOR_END: letters

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

// ANCHOR: branch
const BLOCK: usize = 256;

/// A barrier in the branch.
#[kernel(max_threads = BLOCK)]
pub fn stuck_sums(x: &[f32], out: SliceMut<'_, f32>) {
    let tile = shared_array![f32; BLOCK];
    let t = thread::thread_idx_x() as usize;
    tile.set(t, x[thread::index_1d()]);
    thread::sync_threads();
    let mut half = BLOCK / 2;
    while half > 0 {
        if t < half {
            tile.set(t, tile.get(t) + tile.get(t + half));
            thread::sync_threads();
        }
        half /= 2;
    }
    if t == 0 {
        out.set(thread::block_idx_x() as usize, tile.get(0));
    }
}
// ANCHOR_END: branch

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

// ANCHOR: blur_rows
/// The mean of the `2 * radius + 1` numbers around each one in its row; beyond the ends are the numbers at the ends.
#[kernel]
pub fn blur_rows(columns: usize, radius: usize, x: &[f32], out: SliceMut<'_, f32>) {
    let (row, column) = thread::index_2d();
    if column >= columns || row * columns >= out.len() {
        return;
    }
    let mut sum = 0.0;
    for d in 0..=2 * radius {
        let near = (column + d).saturating_sub(radius).min(columns - 1);
        sum += x[row * columns + near];
    }
    out.set(row * columns + column, sum / (2 * radius + 1) as f32);
}
// ANCHOR_END: blur_rows

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

// ANCHOR: compact
/// Writes the elements that are kept to their places, which an exclusive scan of `keep` has found.
#[kernel]
pub fn scatter_kept(x: &[f32], keep: &[u64], place: &[u64], out: SliceMut<'_, f32>) {
    let i = thread::index_1d();
    if i < x.len() && keep[i] == 1 {
        out.set(place[i] as usize, x[i]);
    }
}

fn positive(stream: &Stream, x: &DeviceArray<f32, Ix1>) -> warpsmith::Result<DeviceArray<f32, Ix1>> {
    let keep = x.expr().greater(0.0).cast::<u64>().eval()?;
    let place = keep.exclusive_scan::<ops::Sum>()?;
    let mut out = DeviceArray::zeros(stream, keep.sum()? as usize)?;
    let config = LaunchConfig::for_len(x.len(), 256);
    stream.launch::<scatter_kept>(&config, (x, &keep, &place, &mut out))?;
    Ok(out)
}
// ANCHOR_END: compact

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
