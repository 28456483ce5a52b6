// SPDX-License-Identifier: MIT OR Apache-2.0
//! A least-squares line through points, by the normal equations: `cargo run --release --example matmul`.

use ndarray::{Array1, Array2};
use warpsmith::{Device, DeviceArray};

fn main() -> warpsmith::Result<()> {
    let device = Device::auto()?;
    let stream = device.default_stream();
    // Points on y = 3 t + 2, moved up and down in turn.
    let t = Array1::linspace(-1.0f64, 1.0, 10_000);
    let points = Array1::from_shape_fn(t.len(), |i| 3.0 * t[i] + 2.0 + if i % 2 == 0 { 0.1 } else { -0.1 });
    let design = Array2::from_shape_fn((t.len(), 2), |(i, j)| if j == 0 { t[i] } else { 1.0 });

    let a = DeviceArray::from_ndarray(stream, &design)?;
    let y = DeviceArray::from_ndarray(stream, &points)?;
    // (Aᵀ A) s = Aᵀ y, where the transposes are views.
    let normal = a.t().matmul(&a)?.to_ndarray()?;
    let right = a.t().matvec(&y)?.to_ndarray()?;

    let determinant = normal[[0, 0]] * normal[[1, 1]] - normal[[0, 1]] * normal[[1, 0]];
    let slope = (right[0] * normal[[1, 1]] - right[1] * normal[[0, 1]]) / determinant;
    let offset = (right[1] * normal[[0, 0]] - right[0] * normal[[1, 0]]) / determinant;
    println!("y = {slope:.4} t + {offset:.4}");
    assert!((slope - 3.0).abs() < 1e-3 && (offset - 2.0).abs() < 1e-3);
    Ok(())
}
