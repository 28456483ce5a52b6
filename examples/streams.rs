// SPDX-License-Identifier: MIT OR Apache-2.0
//! Streams, events and callbacks: work side by side, an urgent stream, and what the host does when something is done:
//! `cargo run --release --example streams [LENGTH]`.

use std::sync::mpsc::channel;
use std::thread;

use ndarray::Array1;
use warpsmith::{Device, DeviceArray};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let device = Device::auto()?;
    // Shorter where each of the GPU's threads is simulated.
    let default_len = if device.is_simulator() { 1 << 17 } else { 1 << 20 };
    let len: usize = std::env::args().nth(1).map_or(Ok(default_len), |len| len.parse())?;
    let host = Array1::from_shape_fn(len, |i| (i % 10) as f32);

    // Two streams. The sum is ordered behind both of its operands; nobody has to wait for anything.
    let (one, other) = (device.create_stream()?, device.create_stream()?);
    let start = one.record()?;
    let x = DeviceArray::from_ndarray(&one, &host)?.square()?;
    let y = DeviceArray::from_ndarray(&other, &host)?.exp()?;
    let z = x.add(&y)?;
    let end = one.record()?;

    // What is to happen on the host when the work up to here is done.
    let (done, wait) = channel();
    one.on_reached(move || done.send("the sum is there").expect("the program waits"))?;
    println!("queued; is it done already? {}", end.is_reached()?);
    println!("{}", wait.recv()?);
    println!(
        "it took {:?} on {}; the mean is {}",
        end.elapsed_since(&start)?,
        device.properties().name,
        z.mean()?
    );

    // Work that is not to wait behind the rest: of the streams with something to do, the device serves this one first.
    let urgent = device.create_stream_with_priority(*device.stream_priorities()?.start())?;
    println!(
        "of an urgent stream: {}",
        DeviceArray::from_ndarray(&urgent, &host)?.max()?
    );

    // A stream for each thread, by request.
    thread::scope(|scope| {
        let sums = [1.0, 2.0, 3.0].map(|factor| {
            let (device, host) = (&device, &host);
            scope.spawn(move || {
                DeviceArray::from_ndarray(&device.thread_stream()?, host)?
                    .mul_scalar(factor)?
                    .mean()
            })
        });
        for sum in sums {
            println!("of a thread: {}", sum.join().expect("the thread does not panic")?);
        }
        warpsmith::Result::Ok(())
    })?;
    device.synchronize()?;
    Ok(())
}
