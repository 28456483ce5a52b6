// SPDX-License-Identifier: MIT OR Apache-2.0
//! A file that the device has not the memory for: its columns' means in one pass, each byte read once, and a file of
//! what is left when they are subtracted: `cargo run --release --example larger_than_memory [IN.npy]`, of f32 with two
//! axes. Without a file it makes one, and lets the device have a sixteenth of the memory that it takes.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use ndarray::{Array2, Axis, Ix2};
use warpsmith::npy::{Header, NpyFile};
use warpsmith::{Device, DeviceArray, Pipeline};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> Result<()> {
    let device = Device::auto()?;
    match std::env::args_os().nth(1) {
        Some(path) => centre(&device, Path::new(&path), Path::new("centred.npy")),
        None => {
            let (path, output) = (temporary("input"), temporary("output"));
            // Fewer rows where each of the GPU's threads is simulated.
            let rows = if device.is_simulator() { 2048 } else { 16_384 };
            let x = Array2::from_shape_fn((rows, 256), |(i, j)| ((i * 7 + j) % 100) as f32);
            DeviceArray::from_ndarray(device.default_stream(), &x)?.save_npy(&path)?;
            device.trim()?;
            device.set_memory_limit(Some(device.memory()?.allocated + (rows as u64 * 64)));
            centre(&device, &path, &output)?;
            device.set_memory_limit(None);
            let y = DeviceArray::<f32, Ix2>::load_npy(device.default_stream(), &output)?.to_ndarray()?;
            let want = &x - &x.mean_axis(Axis(0)).ok_or("rows")?;
            assert!((&y - &want).iter().all(|error| error.abs() < 1e-3));
            std::fs::remove_file(path)?;
            Ok(std::fs::remove_file(output)?)
        }
    }
}

/// Writes the array of a file less its columns' means.
fn centre(device: &Device, path: &Path, output: &Path) -> Result<()> {
    let file = NpyFile::<f32, Ix2>::open(path)?;
    let pipeline = Pipeline::new(device);
    let rows = pipeline.chunk_len(file.row_bytes())?;
    let gigabytes = (file.rows() * file.row_bytes()) as f64 / 1e9;
    println!(
        "{:?} in chunks of {rows} rows on {}",
        file.shape(),
        device.properties().name
    );

    // Each chunk's sums stay on the device, and nothing waits for them.
    let start = Instant::now();
    let zero = DeviceArray::<f32, _>::zeros(device.default_stream(), file.shape()[1])?;
    let sums = pipeline
        .load(file.chunks(rows))
        .try_fold(zero, |sums, x| sums.add(&x?.sum_axis(Axis(0))?))?;
    let means = sums.div_scalar(file.rows() as f32)?;
    means.stream().synchronize()?;
    println!("means:    {:.2} GB/s", gigabytes / start.elapsed().as_secs_f64());

    let start = Instant::now();
    let mut writer = BufWriter::new(File::create(output)?);
    writer.write_all(&Header::new("<f4", file.shape()).to_bytes())?;
    for y in pipeline.run(file.chunks(rows), |x| x.sub(&means)) {
        let y = y?;
        let numbers = y.view();
        writer.write_all(bytemuck::cast_slice(numbers.as_slice().ok_or("numbers in C order")?))?;
    }
    writer.flush()?;
    println!(
        "centring: {:.2} GB/s, with the file written",
        gigabytes / start.elapsed().as_secs_f64()
    );
    Ok(())
}

fn temporary(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("warpsmith-{}-{name}.npy", std::process::id()))
}
