// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which thread am I? Threads and blocks that say so, and a grid of two dimensions:
//! `cargo run --release -p warpsmith-lab --example hello`.

use warpsmith::{Device, DeviceArray, LaunchConfig};
use warpsmith_lab::kernels::hello::{coordinates, hello};

fn main() -> warpsmith::Result<()> {
    let device = Device::auto()?;
    warpsmith_lab::register(&device)?;
    let stream = device.default_stream();

    // Two blocks of four threads. The lines come in any order.
    stream.launch::<hello>(&LaunchConfig::new(2, 4), ())?;
    stream.synchronize()?;

    // Three rows of ten, by blocks of two rows of four: at the right and below there are threads too many, which do nothing.
    let (rows, columns) = (3, 10);
    let config = LaunchConfig::for_shape((rows, columns), (4, 2));
    println!(
        "{} blocks of {} threads for {rows} rows of {columns}:",
        config.grid, config.block
    );
    let mut out = DeviceArray::<u32, _>::zeros(stream, (rows, columns))?;
    stream.launch::<coordinates>(&config, (columns, &mut out))?;
    println!("{:?}", out.to_ndarray()?);
    Ok(())
}
