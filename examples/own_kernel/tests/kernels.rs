// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel on the simulated GPU, which reports what a GPU would get wrong in silence.

use my_kernels::mandelbrot;
use warpsmith::ndarray::Ix2;
use warpsmith::{Device, DeviceArray, LaunchConfig};

#[test]
fn points_of_the_set_take_all_steps_and_others_leave() -> warpsmith::Result<()> {
    let device = Device::simulator();
    let (width, height, most) = (64u32, 32, 100u32);
    let mut steps: DeviceArray<u32, Ix2> = DeviceArray::zeros(device.default_stream(), (height, width as usize))?;
    let config = LaunchConfig::for_shape((height, width as usize), (32, 4));
    let stream = device.default_stream();
    stream.launch::<mandelbrot<f64>>(&config, (width, most, &mut steps))?;

    let steps = steps.to_ndarray()?;
    // −0.75 between the two largest parts of the set, and 1.25i above it.
    assert_eq!(steps[[height / 2, width as usize / 2]], most);
    assert!(steps[[0, width as usize / 2]] < 10);
    Ok(())
}
