// SPDX-License-Identifier: MIT OR Apache-2.0
//! Chapter "Expressions and networks".

use warpsmith::expr::{self, Expr};
use warpsmith::ndarray::{Array1, Array2, Axis, Ix1};
use warpsmith::optim::Adam;
use warpsmith::{Device, DeviceArray, Generator};

#[test]
// ANCHOR: fused
fn one_kernel() -> warpsmith::Result<()> {
    let device = Device::auto()?;
    let x = DeviceArray::from_ndarray(device.default_stream(), &Array1::linspace(-3.0f32, 3.0, 1000))?;
    let separate = x.tanh()?.mul_scalar(2.0)?.add_scalar(1.0)?; // three kernels, two arrays in between
    let fused = (x.expr().tanh() * 2.0 + 1.0).eval()?; // one kernel, no array in between
    assert_eq!(fused.to_ndarray()?, separate.to_ndarray()?);
    Ok(())
}
// ANCHOR_END: fused

#[test]
// ANCHOR: reduced
fn standardised_columns() -> warpsmith::Result<()> {
    let device = Device::auto()?;
    let table = Array2::from_shape_fn((100, 3), |(i, j)| (i * (j + 1)) as f32);
    let x = DeviceArray::from_ndarray(device.default_stream(), &table)?;
    let x = x.expr();
    let standard = (&x - x.mean_axis(Axis(0))) / x.std_axis(Axis(0), 0); // the means are broadcast
    let (means, largest) = expr::eval((&standard.mean_axis(Axis(0)), &standard.max_axis(Axis(0))))?;
    assert!(means.to_ndarray()?.iter().all(|mean| mean.abs() < 1e-5));
    assert!(largest.to_ndarray()?.iter().all(|&largest| largest > 1.7));
    Ok(())
}
// ANCHOR_END: reduced

#[test]
// ANCHOR: update
fn in_place_and_again() -> warpsmith::Result<()> {
    let device = Device::auto()?;
    let stream = device.default_stream();
    let mut x = DeviceArray::<f32, _>::ones(stream, 1000)?;
    x.update(|x| x * 0.5 + 1.0)?; // reads and writes x's memory

    let gauss = expr::compile(|x: Expr<f32, Ix1>| (-x.square()).exp()); // planned once
    for _ in 0..3 {
        x = gauss.call(&x)?;
    }
    assert!(x.max()? < 1.0);
    Ok(())
}
// ANCHOR_END: update

#[test]
// ANCHOR: network
fn a_layer_learns() -> warpsmith::Result<()> {
    let device = Device::auto()?;
    let stream = device.default_stream();
    let mut random = Generator::new(1);
    // 256 samples of 8 numbers; the class says whether their sum is positive.
    let x = random.standard_normal::<f32, _>(stream, (256, 8))?;
    let labels = x.expr().sum_axis(Axis(1)).greater(0.0).cast::<i32>().eval()?;

    let mut w = random.normal(stream, (8, 2), 0.0f32, 0.1)?;
    let mut adam = Adam::new(&w, 0.05)?;
    let mut losses = Vec::new();
    for _ in 0..30 {
        let logits = x.matmul(&w)?;
        let loss = logits.expr().cross_entropy(Axis(1), &labels);
        losses.push(loss.eval()?.to_ndarray()?.into_scalar());
        // The gradient by the logits, and by the weights: of a product x · w it is xᵀ · dy.
        let by_logits = logits.expr().cross_entropy_backward(Axis(1), &labels, 1.0).eval()?;
        adam.step(&mut w, &x.t().matmul(&by_logits)?)?;
    }
    assert!(losses[29] < 0.3 * losses[0], "{losses:?}");
    Ok(())
}
// ANCHOR_END: network
