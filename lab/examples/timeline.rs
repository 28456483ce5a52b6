// SPDX-License-Identifier: MIT OR Apache-2.0
//! The phases of a pipeline as a timeline, in one stream and in three, for chrome://tracing and ui.perfetto.dev:
//! `cargo run --release -p warpsmith-lab --example timeline [TRACE.json]`.

use std::error::Error;

use ndarray::Array1;
use warpsmith::{Device, DeviceArray, PinnedArray, Stream};
use warpsmith_lab::timeline::{Finished, Timeline};

/// Chunks that go in, are computed on and come out.
fn pipeline(device: &Device, streams: &[Stream], len: usize) -> warpsmith::Result<Finished> {
    let chunk = Array1::linspace(0.0f32, 1.0, len);
    let bytes = len * size_of::<f32>();
    let mut inputs = (0..6)
        .map(|_| PinnedArray::from_ndarray(device, &chunk))
        .collect::<Result<Vec<_>, _>>()?;
    let mut outputs = (0..6)
        .map(|_| PinnedArray::zeros(device, len))
        .collect::<Result<Vec<_>, _>>()?;
    let mut copies = Vec::new();
    let mut timeline = Timeline::new(device)?;
    for (i, (input, output)) in inputs.drain(..).zip(outputs.drain(..)).enumerate() {
        let stream = &streams[i % streams.len()];
        let (x, upload) = timeline.phase(stream, format!("copy {i} in"), 0, || {
            DeviceArray::upload_async(stream, input)
        })?;
        let y = timeline.phase(stream, format!("tanh {i}"), 2 * bytes, || x.tanh())?;
        let z = timeline.phase(stream, format!("square {i}"), 2 * bytes, || y.square())?;
        let download = timeline.phase(stream, format!("copy {i} out"), 0, || z.download_async_into(output))?;
        copies.push((upload, download));
    }
    for (upload, download) in copies {
        upload.wait()?;
        let last = f64::from(download.wait()?.view()[len - 1]);
        assert!((last - 1f64.tanh().powi(2)).abs() < 1e-6, "{last}");
    }
    timeline.finish()
}

fn main() -> Result<(), Box<dyn Error>> {
    let device = Device::auto()?;
    // Shorter where each of the GPU's threads is simulated.
    let len = if device.is_simulator() { 1 << 14 } else { 1 << 22 };
    let three = [
        device.create_stream()?,
        device.create_stream()?,
        device.create_stream()?,
    ];
    // The first time kernels are loaded.
    pipeline(&device, &three, len)?;
    for streams in [&three[..1], &three[..]] {
        let finished = pipeline(&device, streams, len)?;
        let end = |phase: &warpsmith_lab::timeline::Phase| phase.start + phase.duration;
        let end = finished.phases.iter().map(end).max().unwrap_or_default();
        println!(
            "{} streams: {end:?}, of which {:?} gaps",
            streams.len(),
            finished.gaps()
        );
        if streams.len() == 3 {
            for row in finished.table().rows {
                let cells: Vec<String> = row.iter().map(|cell| format!("{:>12}", cell.text())).collect();
                println!("{}", cells.join(" "));
            }
            if let Some(file) = std::env::args().nth(1) {
                std::fs::write(&file, finished.to_chrome_trace().to_string())?;
                println!("{file} is written");
            }
        }
    }
    Ok(())
}
