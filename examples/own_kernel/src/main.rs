// SPDX-License-Identifier: MIT OR Apache-2.0
//! A kernel of one's own, launched: `cargo run --release -p own-kernel`.
#![forbid(unsafe_code)]

use my_kernels::mandelbrot;
use warpsmith::ndarray::Ix2;
use warpsmith::{Device, DeviceArray, LaunchConfig};

fn main() -> warpsmith::Result<()> {
    let device = Device::auto()?;
    device.register_kernels(warpsmith::kernels!(my_kernels))?;
    let stream = device.default_stream();

    let (width, height, most) = (78u32, 24usize, 1000u32);
    let mut steps: DeviceArray<u32, Ix2> = DeviceArray::zeros(stream, (height, width as usize))?;
    let config = LaunchConfig::for_shape((height, width as usize), (32, 4));
    stream.launch::<mandelbrot<f32>>(&config, (width, most, &mut steps))?;

    for row in steps.to_ndarray()?.rows() {
        let shade = |&steps: &u32| b" .:-=+*#%@"[(32 - steps.leading_zeros()).min(9) as usize] as char;
        println!("{}", row.iter().map(shade).collect::<String>());
    }
    Ok(())
}
