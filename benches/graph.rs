// SPDX-License-Identifier: MIT OR Apache-2.0
//! 1,000 small operations launched one by one, and as a graph; a capture and an update of them:
//! `cargo bench --bench graph`. By the host's clock, medians, until the work is done; results are compared.

use std::time::{Duration, Instant};

use ndarray::{Array1, Ix1};
use warpsmith::{Device, DeviceArray, Result};

const OPERATIONS: usize = 1000;
const LEN: usize = 1000;

/// Adds 1 so many times.
fn work(x: &DeviceArray<f32, Ix1>) -> Result<DeviceArray<f32, Ix1>> {
    let mut y = x.add_scalar(1.0)?;
    for _ in 1..OPERATIONS {
        y = y.add_scalar(1.0)?;
    }
    Ok(y)
}

/// The median time of `work`.
fn median(rounds: usize, mut work: impl FnMut() -> Result<()>) -> Result<Duration> {
    let mut times = Vec::new();
    for _ in 0..rounds {
        let start = Instant::now();
        work()?;
        times.push(start.elapsed());
    }
    times.sort_unstable();
    Ok(times[rounds / 2])
}

fn main() -> Result<()> {
    let device = Device::auto()?;
    let rounds = if device.is_simulator() { 3 } else { 101 };
    let stream = device.default_stream();
    let x = DeviceArray::from_ndarray(stream, &Array1::from_elem(LEN, 0.0f32))?;
    let expected = Array1::from_elem(LEN, OPERATIONS as f32);
    println!(
        "{}: {OPERATIONS} operations on {LEN} elements",
        device.properties().name
    );
    let print = |name: &str, time: Duration| println!("{name:>24}  {:>10.1} µs", time.as_secs_f64() * 1e6);

    assert_eq!(work(&x)?.to_ndarray()?, expected);
    let one_by_one = median(rounds, || {
        work(&x)?;
        stream.synchronize()
    })?;
    print("one by one", one_by_one);

    let mut graph = stream.capture(&x, |_, x| work(x))?;
    graph.launch()?;
    assert_eq!(graph.output().to_ndarray()?, expected);
    let as_a_graph = median(rounds, || {
        graph.launch()?;
        stream.synchronize()
    })?;
    print("as a graph", as_a_graph);
    print(
        "capture",
        median(rounds, || stream.capture(&x, |_, x| work(x)).map(drop))?,
    );
    print("update", median(rounds, || graph.update(|_, x| work(x)))?);
    graph.launch()?;
    assert_eq!(graph.output().to_ndarray()?, expected);
    println!(
        "the graph is {:.1} × as fast",
        one_by_one.as_secs_f64() / as_a_graph.as_secs_f64()
    );
    Ok(())
}
