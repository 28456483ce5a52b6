// SPDX-License-Identifier: MIT OR Apache-2.0
//! An element of an array that is in a device's memory, as of one in the host's.

use warpsmith::{Device, DeviceArray};

fn main() -> warpsmith::Result<()> {
    let device = Device::auto()?;
    let x = DeviceArray::<f32, _>::zeros(device.default_stream(), 5)?;
    println!("{}", x[0]);
    Ok(())
}
