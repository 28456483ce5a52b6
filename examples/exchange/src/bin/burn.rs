// SPDX-License-Identifier: MIT OR Apache-2.0
//! Arrays go to burn as tensors, and come back: `cargo run --release --bin burn` in examples/exchange.
//!
//! They go by way of the host, which any backend of burn's takes them from.

use anyhow::{Result, anyhow};
use burn::backend::NdArray;
use burn::tensor::activation::softmax;
use burn::tensor::{Tensor, TensorData};
use ndarray::{Array2, Axis, Ix2};
use warpsmith::{Device, DeviceArray, Stream};

type Backend = NdArray<f32>;

/// The array as a tensor, its elements copied.
fn to_burn(array: &DeviceArray<f32, Ix2>) -> Result<Tensor<Backend, 2>> {
    let host = array.to_ndarray()?;
    let shape = host.shape().to_vec();
    Ok(Tensor::from_data(
        TensorData::new(host.into_raw_vec_and_offset().0, shape),
        &Default::default(),
    ))
}

/// The tensor as an array, its elements copied.
fn from_burn(stream: &Stream, tensor: Tensor<Backend, 2>) -> Result<DeviceArray<f32, Ix2>> {
    let data = tensor.into_data();
    let (rows, columns) = (data.shape[0], data.shape[1]);
    let elements = data.into_vec().map_err(|error| anyhow!("{error:?}"))?;
    let host = Array2::from_shape_vec((rows, columns), elements)?;
    Ok(DeviceArray::from_ndarray(stream, &host)?)
}

fn main() -> Result<()> {
    let device = Device::auto()?;
    let stream = device.default_stream();
    let samples = Array2::from_shape_fn((64, 8), |(i, j)| ((7 * i + 3 * j) % 11) as f32);

    // What is done to the data is Warpsmith's: rows of length 1.
    let x = DeviceArray::from_ndarray(stream, &samples)?;
    let squares = x.expr().square().sum_axis(Axis(1));
    let unit = (x.expr() / squares.sqrt().insert_axis(Axis(1))).eval()?;

    // The model is burn's.
    let probabilities = softmax(to_burn(&unit)?, 1);

    // What it says goes on here.
    let sums = from_burn(stream, probabilities)?.sum_axis(Axis(1))?.to_ndarray()?;
    assert!(sums.iter().all(|sum| (sum - 1.0).abs() <= 1e-5), "{sums}");
    println!(
        "{} rows of probabilities by burn, prepared on {}",
        sums.len(),
        device.properties().name
    );
    Ok(())
}
