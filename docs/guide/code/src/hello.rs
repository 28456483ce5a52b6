// SPDX-License-Identifier: MIT OR Apache-2.0
//! Chapter "Hello, GPU".

use warpsmith::ndarray::{Array1, Array2};
use warpsmith::{DeviceArray, LaunchConfig, Stream};
use warpsmith_guide_kernels::hello::{add_beyond, add_strided, brighten};

use crate::book::{assert_shown, simulator};

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
