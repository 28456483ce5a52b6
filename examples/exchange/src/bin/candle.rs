// SPDX-License-Identifier: MIT OR Apache-2.0
//! Arrays go to candle as tensors, and come back: `cargo run --release --bin candle` in examples/exchange.
//!
//! They go by way of the host. A candle that is built with its feature `cuda` has its own kernels compiled by nvcc.

use anyhow::Result;
use candle_core::{Tensor, WithDType};
use ndarray::{Array2, ArrayD, Axis, Dimension, Ix2};
use warpsmith::{Device, DeviceArray, Element, Stream};

/// The array as a tensor, its elements copied.
fn to_candle<T: Element + WithDType, D: Dimension>(
    array: &DeviceArray<T, D>,
    device: &candle_core::Device,
) -> Result<Tensor> {
    let host = array.to_ndarray()?;
    let shape = host.shape().to_vec();
    Ok(Tensor::from_iter(host, device)?.reshape(shape)?)
}

/// The tensor as an array, its elements copied.
fn from_candle<T: Element + WithDType, D: Dimension>(stream: &Stream, tensor: &Tensor) -> Result<DeviceArray<T, D>> {
    let elements = tensor.flatten_all()?.to_vec1()?;
    let host = ArrayD::from_shape_vec(tensor.dims(), elements)?.into_dimensionality::<D>()?;
    Ok(DeviceArray::from_ndarray(stream, &host)?)
}

fn main() -> Result<()> {
    let device = Device::auto()?;
    let stream = device.default_stream();
    let samples = Array2::from_shape_fn((64, 8), |(i, j)| ((7 * i + 3 * j) % 11) as f32);
    let weights = Array2::from_shape_fn((8, 3), |(i, j)| ((5 * i + j) % 4) as f32 - 1.5);

    // What is done to the data is Warpsmith's: columns of mean 0.
    let x = DeviceArray::from_ndarray(stream, &samples)?;
    let means = x.mean_axis(Axis(0))?;
    let centred = (x.expr() - &means).eval()?;

    // The model is candle's.
    let cpu = candle_core::Device::Cpu;
    let tensor = to_candle(&centred, &cpu)?;
    let layer = Tensor::from_iter(weights.iter().copied(), &cpu)?.reshape(weights.shape())?;
    let scores = tensor.matmul(&layer)?;

    // What it says goes on here.
    let scores = from_candle::<f32, Ix2>(stream, &scores)?;
    let classes = scores.argmax_axis(Axis(1))?.to_ndarray()?;

    let centred = &samples - &samples.mean_axis(Axis(0)).unwrap();
    for (row, &class) in centred.dot(&weights).rows().into_iter().zip(&classes) {
        let most = row.iter().copied().fold(f32::MIN, f32::max);
        assert!(most - row[class as usize] <= 1e-4, "{class} of {row}");
    }
    println!(
        "{} samples, classified by candle, prepared on {}",
        classes.len(),
        device.properties().name
    );
    Ok(())
}
