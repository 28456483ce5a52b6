// SPDX-License-Identifier: MIT OR Apache-2.0
//! Chapter "Hello, GPU".

// ANCHOR: kernel_uses
use cuda_std::prelude::*;
use cuda_std::println;
// ANCHOR_END: kernel_uses
// ANCHOR: launch_uses
use warpsmith::ndarray::{Array1, Array2};
use warpsmith::{DeviceArray, LaunchConfig, Stream};
// ANCHOR_END: launch_uses

use crate::book::{assert_shown, simulator};

// ANCHOR: places
/// Each thread says where it is.
#[kernel]
pub fn places() {
    println!("block {}, thread {}", thread::block_idx_x(), thread::thread_idx_x());
}
// ANCHOR_END: places

// ANCHOR: launch_places
fn launch_places(stream: &Stream) -> warpsmith::Result<()> {
    let config = LaunchConfig::new(2, 4); // 2 blocks of 4 threads
    stream.launch::<places>(&config, ())?; // queued: this does not wait
    stream.synchronize() // this does
}
// ANCHOR_END: launch_places

// ANCHOR: add
/// `out[i] = x[i] + y[i]`
#[kernel]
pub fn add(x: &[f32], y: &[f32], out: SliceMut<'_, f32>) {
    let i = thread::index_1d();
    if i < out.len() {
        out.set(i, x[i] + y[i]);
    }
}
// ANCHOR_END: add

// ANCHOR: launch_add
fn add_arrays(stream: &Stream, x: &Array1<f32>, y: &Array1<f32>) -> warpsmith::Result<Array1<f32>> {
    let on_x = DeviceArray::from_ndarray(stream, x)?;
    let on_y = DeviceArray::from_ndarray(stream, y)?;
    let mut out = DeviceArray::zeros(stream, x.len())?;
    let config = LaunchConfig::for_len(x.len(), 256); // as many blocks of 256 as it takes
    stream.launch::<add>(&config, (&on_x, &on_y, &mut out))?;
    out.to_ndarray()
}
// ANCHOR_END: launch_add

#[test]
fn adds_arrays_of_any_length() -> warpsmith::Result<()> {
    let device = simulator();
    launch_places(device.default_stream())?;
    for len in [1, 255, 256, 257, 1000] {
        let x = Array1::from_shape_fn(len, |i| i as f32);
        let sum = add_arrays(device.default_stream(), &x, &(2.0 * &x))?;
        assert_eq!(sum, 3.0 * x);
    }
    Ok(())
}

// ANCHOR: add_strided
/// As `add`, for any number of threads.
#[kernel]
pub fn add_strided(x: &[f32], y: &[f32], out: SliceMut<'_, f32>) {
    for i in (thread::index_1d()..out.len()).step_by(thread::stride_1d()) {
        out.set(i, x[i] + y[i]);
    }
}
// ANCHOR_END: add_strided

#[test]
fn strides_over_what_is_longer_than_the_grid() -> warpsmith::Result<()> {
    let device = simulator();
    let stream = device.default_stream();
    let x = DeviceArray::from_ndarray(stream, &Array1::<f32>::ones(1000))?;
    let mut out = DeviceArray::zeros(stream, 1000)?;
    stream.launch::<add_strided>(&LaunchConfig::new(3, 64), (&x, &x, &mut out))?;
    assert_eq!(out.to_ndarray()?, Array1::from_elem(1000, 2.0));
    Ok(())
}

// ANCHOR: brighten
/// Makes a picture that is `width` pixels wide brighter.
#[kernel]
pub fn brighten(picture: &[u8], width: usize, by: u8, out: SliceMut<'_, u8>) {
    let (row, column) = thread::index_2d();
    let i = row * width + column;
    if column < width && i < out.len() {
        out.set(i, picture[i].saturating_add(by));
    }
}
// ANCHOR_END: brighten

// ANCHOR: launch_brighten
fn brighter(stream: &Stream, picture: &Array2<u8>) -> warpsmith::Result<Array2<u8>> {
    let (height, width) = picture.dim();
    let x = DeviceArray::from_ndarray(stream, picture)?;
    let mut out = DeviceArray::zeros(stream, (height, width))?;
    let config = LaunchConfig::for_shape((height, width), (32, 8)); // blocks of 8 rows of 32
    stream.launch::<brighten>(&config, (&x, width, 40u8, &mut out))?;
    out.to_ndarray()
}
// ANCHOR_END: launch_brighten

#[test]
fn brightens_pictures_of_any_shape() -> warpsmith::Result<()> {
    let device = simulator();
    for shape in [(1, 1), (8, 32), (50, 70)] {
        let picture = Array2::from_shape_fn(shape, |(i, j)| (i * 7 + j * 3) as u8);
        let out = brighter(device.default_stream(), &picture)?;
        assert_eq!(out, picture.mapv(|p| p.saturating_add(40)));
    }
    Ok(())
}

// ANCHOR: add_beyond
/// As `add`, but for the question whether there is an element.
#[kernel]
pub fn add_beyond(x: &[f32], y: &[f32], out: SliceMut<'_, f32>) {
    let i = thread::index_1d();
    out.set(i, x[i] + y[i]);
}
// ANCHOR_END: add_beyond

#[test]
fn an_index_beyond_the_end_is_an_error() -> warpsmith::Result<()> {
    let device = simulator();
    let stream = device.default_stream();
    let x = DeviceArray::<f32, _>::ones(stream, 1000)?;
    let mut out = DeviceArray::zeros(stream, 1000)?;
    let error = stream.launch::<add_beyond>(&LaunchConfig::for_len(1000, 256), (&x, &x, &mut out));
    assert_shown("out-of-bounds", &error.unwrap_err().to_string());
    Ok(())
}
