// SPDX-License-Identifier: MIT OR Apache-2.0
//! The demo's histograms: of random floats, and of the channels of a photograph.

use anyhow::Result;
use ndarray::{Array1, Array2, Array3, Axis};
use rand::RngExt;
use warpsmith::DeviceArray;

use super::check;
use super::data::generator;
use super::rows::{Demo, Row};

const BINS: usize = 256;

/// Of floats from 0 to 1, a power of two of bins: their edges are exact, so that a product finds the bin.
pub fn of_floats(demo: &mut Demo, len: usize) -> Result<()> {
    let mut rng = generator();
    let host = Array1::from_shape_simple_fn(len, || rng.random::<f32>());
    let x = DeviceArray::from_ndarray(&demo.stream, &host)?;
    let mut counts = DeviceArray::zeros(&demo.stream, BINS)?;
    let time = demo.measure("histogram", &mut || Ok(x.histogram_into(0.0..=1.0, &mut counts)?))?;
    let mut want = Array1::zeros(BINS);
    for x in &host {
        want[((x * BINS as f32) as usize).min(BINS - 1)] += 1u64;
    }
    demo.push(Row {
        kernel: "histogram".into(),
        dtype: "f32",
        size: len.to_string(),
        time,
        bytes: len * size_of::<f32>(),
        deviation: check::exact(&counts.to_ndarray()?, &want),
    });
    Ok(())
}

/// Of each channel of a picture, one bin for each value.
pub fn of_picture(demo: &mut Demo, picture: &Array3<u8>) -> Result<()> {
    let channels = picture.dim().2;
    let x = DeviceArray::from_ndarray(&demo.stream, picture)?;
    let mut counts = DeviceArray::zeros(&demo.stream, (channels, BINS))?;
    let time = demo.measure("histogram RGB", &mut || {
        Ok(x.histogram_channels_into(0.0..=256.0, &mut counts)?)
    })?;
    let mut want = Array2::zeros((channels, BINS));
    for (channel, mut counts) in want.outer_iter_mut().enumerate() {
        for &value in picture.index_axis(Axis(2), channel) {
            counts[usize::from(value)] += 1u64;
        }
    }
    demo.push(Row {
        kernel: "histogram RGB".into(),
        dtype: "u8",
        size: format!("{} × {}", picture.dim().1, picture.dim().0),
        time,
        bytes: picture.len(),
        deviation: check::exact(&counts.to_ndarray()?, &want),
    });
    Ok(())
}
