// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a device's memory is used for, a limit, and what is alive: `cargo run --release --example memory`, and with
//! `WARPSMITH_TRACE_ALLOC=1` the places that allocated.

use ndarray::Array2;
use warpsmith::{Device, DeviceArray, Error, MemoryInfo};

fn show(what: &str, memory: MemoryInfo) {
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    println!(
        "{what:>16}: {:.1} MiB allocated, at most {:.1}; {:.1} reserved; {:.0} of {:.0} free",
        mib(memory.allocated),
        mib(memory.peak),
        mib(memory.reserved),
        mib(memory.free),
        mib(memory.total)
    );
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let device = Device::auto()?;
    let stream = device.default_stream();
    show("at first", device.memory()?);

    let x = DeviceArray::from_ndarray(stream, &Array2::<f32>::ones((1000, 1000)))?;
    let y = x.exp()?.sqrt()?.mul_scalar(2.0)?;
    show("two arrays", device.memory()?);
    for allocation in device.live_allocations().unwrap_or_default() {
        println!("{allocation}");
    }

    drop(y);
    show("one array", device.memory()?);
    device.trim()?;
    device.reset_peak();
    show("after a trim", device.memory()?);

    // No more than 8 MiB: for a program that shares the device, or a test of what happens then.
    device.set_memory_limit(Some(8 << 20));
    match x.exp().and_then(|y| y.sqrt()) {
        Err(error @ Error::OutOfMemory { .. }) => println!("{error}"),
        other => return Err(format!("with the limit: {:?}", other.map(drop)).into()),
    }
    device.set_memory_limit(None);
    println!("without the limit: {}", x.exp()?.sqrt()?.mean()?);
    Ok(())
}
