// SPDX-License-Identifier: MIT OR Apache-2.0
//! Shuffled batches of samples, gathered by threads ahead of their use, copied to the GPU while it works, and
//! normalised there: `cargo run --release --example batches [SAMPLES] [FEATURES] [BATCH]`.

use std::sync::Arc;
use std::time::Instant;

use ndarray::{Array2, Axis, Ix2};
use warpsmith::{Chunk, Device, DeviceArray, Error, Generator, PinnedArray, Pipeline};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Some of the samples, which one of the pipeline's threads gathers, straight into page-locked memory.
struct Batch {
    samples: Arc<Array2<f32>>,
    rows: Vec<u32>,
}

impl Chunk for Batch {
    type Elem = f32;
    type Dim = Ix2;
    type Error = Error;

    fn load(self, device: &Device) -> std::result::Result<PinnedArray<f32, Ix2>, Error> {
        let mut batch = PinnedArray::zeros(device, (self.rows.len(), self.samples.ncols()))?;
        let mut view = batch.view_mut();
        for (mut to, &row) in view.rows_mut().into_iter().zip(&self.rows) {
            to.assign(&self.samples.row(row as usize));
        }
        Ok(batch)
    }
}

/// Each feature less its mean, divided by its deviation.
fn normalised(x: &DeviceArray<f32, Ix2>) -> warpsmith::Result<DeviceArray<f32, Ix2>> {
    let (mean, deviation) = (x.mean_axis(Axis(0))?, x.std_axis(Axis(0), 0)?.add_scalar(1e-6)?);
    x.sub(&mean)?.div(&deviation)
}

fn main() -> Result<()> {
    let numbers: Vec<usize> = std::env::args()
        .skip(1)
        .map(|text| text.parse())
        .collect::<std::result::Result<_, _>>()?;
    let number = |index: usize, default| numbers.get(index).copied().unwrap_or(default);
    let device = Device::auto()?;
    // Fewer where each of the GPU's threads is simulated.
    let (count, features, batch) = match device.is_simulator() {
        true => (2000, 64, 256),
        false => (20_000, 256, 1024),
    };
    let (count, features, batch) = (number(0, count), number(1, features), number(2, batch).max(1));
    let samples = Arc::new(Array2::from_shape_fn((count, features), |(i, j)| {
        (i % 1009) as f32 + j as f32
    }));

    let mut generator = Generator::new(7);
    for epoch in 0..3 {
        let order = generator
            .permutation(device.default_stream(), count)?
            .to_ndarray()?
            .to_vec();
        let samples = Arc::clone(&samples);
        let batches = (0..count.div_ceil(batch)).map(move |i| Batch {
            samples: Arc::clone(&samples),
            rows: order[i * batch..((i + 1) * batch).min(count)]
                .iter()
                .map(|&row| row as u32)
                .collect(),
        });

        let (start, mut seen) = (Instant::now(), 0);
        // In the place of a step of training, which leaves its results on the device as well.
        let mut total = DeviceArray::<f32, _>::zeros(device.default_stream(), ())?;
        for x in Pipeline::new(&device).load(batches) {
            let x = x?;
            seen += x.shape()[0];
            let mut squares = DeviceArray::zeros(x.stream(), ())?;
            normalised(&x)?.square()?.sum_into(&mut squares)?;
            total = total.add(&squares)?;
        }
        let mean_square = f64::from(total.to_ndarray()?.into_scalar()) / (count * features) as f64;
        let seconds = start.elapsed().as_secs_f64();
        let bytes = (count * features * size_of::<f32>()) as f64;
        println!(
            "epoch {epoch} on {}: {seen} samples, {:.0} a second, {:.2} GB/s; mean square {mean_square:.4}",
            device.properties().name,
            seen as f64 / seconds,
            bytes / 1e9 / seconds
        );
        assert_eq!(seen, count);
        assert!(count < 2 * batch || (mean_square - 1.0).abs() < 0.01);
    }
    Ok(())
}
