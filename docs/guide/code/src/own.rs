// SPDX-License-Identifier: MIT OR Apache-2.0
//! Chapter "Operators, functions and projects of your own".

use warpsmith::expr;
use warpsmith::ndarray::{Axis, array};
use warpsmith::{DeviceArray, ops};
use warpsmith_guide_kernels::own::{Norm, huber, mix};

use crate::book::simulator;

#[test]
fn norms() -> warpsmith::Result<()> {
    let device = simulator();
    // ANCHOR: use_operator
    let x = DeviceArray::from_ndarray(device.default_stream(), &array![[3.0f32, 4.0], [6.0, 8.0]])?;
    assert_eq!(x.reduce_axis::<Norm>(Axis(1))?.to_ndarray()?, array![5.0, 10.0]);
    // ANCHOR_END: use_operator
    Ok(())
}

#[test]
fn mixes() -> warpsmith::Result<()> {
    let device = simulator();
    let upload = |x| DeviceArray::from_ndarray(device.default_stream(), &x);
    let (x, y, weight) = (
        upload(array![0u8, 100, 7])?,
        upload(array![255, 200, 9])?,
        upload(array![51, 255, 0])?,
    );
    // ANCHOR: use_elementwise
    let mixed = ops::elementwise::<mix, _>((&x, &y, &weight))?;
    assert_eq!(mixed.to_ndarray()?, array![51, 200, 7]);
    // ANCHOR_END: use_elementwise
    Ok(())
}

#[test]
fn losses() -> warpsmith::Result<()> {
    let device = simulator();
    let upload = |x| DeviceArray::from_ndarray(device.default_stream(), &x);
    let (y, goal) = (upload(array![1.0f32, 5.0])?, upload(array![1.5, 2.0])?);
    // ANCHOR: use_device_fn
    // The difference, the loss of each and their mean: one kernel.
    let loss = expr::call::<huber<f32>, _>((y.expr() - &goal, 1.0f32)).mean();
    assert_eq!(loss.eval()?.to_ndarray()?.into_scalar(), (0.125 + 2.5) / 2.0);
    // ANCHOR_END: use_device_fn
    Ok(())
}
