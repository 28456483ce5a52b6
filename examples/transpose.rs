// SPDX-License-Identifier: MIT OR Apache-2.0
//! Views and other orders of axes: `cargo run --release --example transpose`.

use ndarray::{Array3, array};
use warpsmith::{Device, DeviceArray};

fn main() -> warpsmith::Result<()> {
    let device = Device::auto()?;
    let stream = device.default_stream();

    // A picture with the channels of each pixel side by side becomes one plane for each channel.
    let picture = Array3::from_shape_fn((480, 640, 3), |(y, x, c)| (y + 2 * x + 85 * c) as u8);
    let planes = DeviceArray::from_ndarray(stream, &picture)?.permute([2, 0, 1])?;
    assert_eq!(planes.to_ndarray()?, picture.view().permuted_axes([2, 0, 1]));
    println!("{:?} to {:?}", picture.shape(), planes.shape());

    // A view costs nothing; its elements are moved when an array is made of it.
    let x = DeviceArray::from_ndarray(stream, &array![[1, 2, 3], [4, 5, 6]])?;
    let view = x.t();
    println!("the transpose has strides {:?}: {}", view.strides(), view.to_ndarray()?);

    // A host array in Fortran order goes to the device as it lies.
    let fortran = picture.t();
    let back = DeviceArray::from_ndarray(stream, &fortran)?.transpose()?;
    assert_eq!(back.to_ndarray()?, picture);
    Ok(())
}
