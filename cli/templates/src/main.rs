//! Launches a kernel of its own: on the first GPU, or on the simulated one.

use hello_kernels::saxpy;
use warpsmith::ndarray::Array1;
use warpsmith::{Device, DeviceArray, LaunchConfig};

fn main() -> warpsmith::Result<()> {
    let device = Device::auto()?;
    device.register_kernels(warpsmith::kernels!(hello_kernels))?;
    let stream = device.default_stream();

    let x = DeviceArray::from_ndarray(stream, &Array1::linspace(0.0f32, 1.0, 5))?;
    let y = DeviceArray::from_ndarray(stream, &Array1::ones(5))?;
    let mut out = DeviceArray::zeros(stream, x.len())?;
    let config = LaunchConfig::for_len(x.len(), 256);
    stream.launch::<saxpy<f32>>(&config, (2.0, &x, &y, &mut out))?;

    println!("{}: {}", device.properties().name, out.to_ndarray()?);
    Ok(())
}
