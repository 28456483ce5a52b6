//! The kernels on the simulated GPU, which reports what a GPU would get wrong in silence.

use hello_kernels::saxpy;
use warpsmith::ndarray::Array1;
use warpsmith::{Device, DeviceArray, LaunchConfig};

#[test]
fn saxpy_multiplies_and_adds() -> warpsmith::Result<()> {
    let device = Device::simulator();
    let stream = device.default_stream();
    let (x, y) = (Array1::linspace(0.0f32, 1.0, 1001), Array1::linspace(3.0f32, 2.0, 1001));

    let mut out = DeviceArray::zeros(stream, x.len())?;
    let operands = (
        DeviceArray::from_ndarray(stream, &x)?,
        DeviceArray::from_ndarray(stream, &y)?,
    );
    let config = LaunchConfig::for_len(x.len(), 256);
    stream.launch::<saxpy<f32>>(&config, (2.0, &operands.0, &operands.1, &mut out))?;

    let expected: Vec<f32> = x.iter().zip(&y).map(|(x, y)| 2.0f32.mul_add(*x, *y)).collect();
    assert_eq!(out.to_ndarray()?.to_vec(), expected);
    Ok(())
}
