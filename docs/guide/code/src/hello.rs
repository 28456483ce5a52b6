// SPDX-License-Identifier: MIT OR Apache-2.0
//! Chapter "Hello, GPU".

use cuda_std::prelude::*;
use warpsmith::ndarray::{Array1, Array2};
use warpsmith::{DeviceArray, LaunchConfig, Stream};

use crate::book::{assert_shown, simulator};

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
