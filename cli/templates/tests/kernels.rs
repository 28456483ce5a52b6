//! The kernels on the simulated GPU, which reports what a GPU would get wrong in silence: data races and uninitialised
//! shared memory among it.

use hello_kernels::saxpy;
use warpsmith::ndarray::Array1;
use warpsmith::{Checks, Device, DeviceArray, LaunchConfig};

#[test]
fn saxpy_multiplies_and_adds() -> warpsmith::Result<()> {
    let device = Device::checked_simulator(Checks::ALL);
    let stream = device.default_stream();
    let x = Array1::linspace(0.0f32, 1.0, 1001);
    let y = Array1::linspace(3.0f32, 2.0, 1001);

    let on_device = |array| DeviceArray::from_ndarray(stream, array);
    let (x_there, y_there) = (on_device(&x)?, on_device(&y)?);
    let mut out = DeviceArray::zeros(stream, x.len())?;
    let config = LaunchConfig::for_len(x.len(), 256);
    stream.launch::<saxpy<f32>>(&config, (2.0, &x_there, &y_there, &mut out))?;

    let out = out.to_ndarray()?;
    for ((&x, &y), &out) in x.iter().zip(&y).zip(&out) {
        assert_eq!(out, 2.0f32.mul_add(x, y));
    }
    Ok(())
}
