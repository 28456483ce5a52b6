// SPDX-License-Identifier: MIT OR Apache-2.0
//! An array of `bool`, on the device and as a kernel's parameter: of `u8` it would be a mask.

use cuda_std::prelude::*;
use ndarray::array;
use warpsmith::{Device, DeviceArray};

#[kernel]
pub fn invert(x: &[bool], out: SliceMut<'_, u8>) {
    let i = thread::index_1d();
    out.set(i, u8::from(!x[i]));
}

fn main() -> warpsmith::Result<()> {
    let device = Device::auto()?;
    DeviceArray::from_ndarray(device.default_stream(), &array![true, false])?;
    Ok(())
}
