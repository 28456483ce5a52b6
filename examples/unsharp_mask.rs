// SPDX-License-Identifier: MIT OR Apache-2.0
//! A sharper picture by an unsharp mask: `cargo run --release --example unsharp_mask`.

use ndarray::Array3;
use warpsmith::ops::Border;
use warpsmith::{Device, DeviceArray};

fn main() -> warpsmith::Result<()> {
    let device = Device::auto()?;
    // A soft edge.
    let picture = Array3::from_shape_fn((240, 320, 3), |(_, x, _)| {
        1.0 / (1.0 + (-(x as f32 - 159.5) / 4.0).exp())
    });
    let picture = DeviceArray::from_ndarray(device.default_stream(), &picture)?;

    let blurred = picture.gaussian_blur(3.0, Border::Reflect)?;
    let sharp = picture.add(&picture.sub(&blurred)?.mul_scalar(0.8)?)?;
    let gray = sharp.grayscale()?.to_ndarray()?;

    let slope = |x: &ndarray::Array3<f32>| x[[120, 160, 0]] - x[[120, 159, 0]];
    let (before, after) = (slope(&picture.to_ndarray()?), slope(&sharp.to_ndarray()?));
    println!(
        "the edge's slope: {before:.4} before, {after:.4} after; gray beside it: {:.3}",
        gray[[120, 170]]
    );
    assert!(after > before);
    Ok(())
}
