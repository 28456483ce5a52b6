// SPDX-License-Identifier: MIT OR Apache-2.0
//! A graph: many small operations, recorded once and launched by one call each time:
//! `cargo run --release --example graph [LENGTH]`.

use std::time::Instant;

use ndarray::{Array1, Ix1};
use warpsmith::{Device, DeviceArray, Result};

/// Steps of Newton's method for the square root of `a`, from `x`: 1,000 operations.
fn square_root(a: &DeviceArray<f32, Ix1>, x: &DeviceArray<f32, Ix1>) -> Result<DeviceArray<f32, Ix1>> {
    let mut x = x.try_clone()?;
    for _ in 0..333 {
        x = x.add(&a.div(&x)?)?.mul_scalar(0.5)?;
    }
    Ok(x)
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let len: usize = std::env::args().nth(1).map_or(Ok(1000), |len| len.parse())?;
    let device = Device::auto()?;
    let stream = device.default_stream();
    let a = DeviceArray::from_ndarray(stream, &Array1::from_elem(len, 2.0f32))?;
    let start = DeviceArray::from_elem(stream, len, 1.0f32)?;

    let by_operation = |a: &DeviceArray<f32, Ix1>| {
        let begin = Instant::now();
        let root = square_root(a, &start)?;
        stream.synchronize()?;
        Ok::<_, warpsmith::Error>((root, begin.elapsed()))
    };
    by_operation(&a)?; // kernels are loaded when they are first used
    let (root, elapsed) = by_operation(&a)?;
    println!("one by one: {elapsed:?} for {}", root.mean()?);

    // The graph takes `a`, and borrows `start`. Nothing is done yet.
    let mut graph = stream.capture((a, &start), |_, (a, start)| square_root(a, start))?;
    graph.launch()?;
    for value in [2.0, 3.0, 5.0] {
        // Another input, in the memory that the graph reads.
        graph.args_mut().0.assign_ndarray(&Array1::from_elem(len, value))?;
        stream.synchronize()?;
        let begin = Instant::now();
        graph.launch()?;
        stream.synchronize()?;
        let elapsed = begin.elapsed();
        println!("as a graph: {elapsed:?} for {}", graph.output().mean()?);
    }

    // Another array, and other work: what is the same in both the driver keeps.
    graph.args_mut().0 = DeviceArray::from_elem(stream, 10, 7.0)?;
    let ten = DeviceArray::from_elem(stream, 10, 1.0)?;
    graph.args_mut().1 = &ten;
    graph.update(|_, (a, start)| square_root(a, start))?;
    graph.launch()?;
    println!("and of 7: {}", graph.output().mean()?);
    Ok(())
}
