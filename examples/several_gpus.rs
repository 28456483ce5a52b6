// SPDX-License-Identifier: MIT OR Apache-2.0
//! A reduction over all GPUs of the machine, a thread for each: `cargo run --release --example several_gpus [LENGTH]`.
//! Where there is no GPU, two simulated ones.

use std::thread;
use std::time::Instant;

use ndarray::{Array1, ArrayView1, Axis, Ix0};
use warpsmith::{DEVICE_VARIABLE, Device, DeviceArray, Result, ops};

/// All GPUs. `WARPSMITH_DEVICE=sim` has the simulated ones taken all the same.
fn devices() -> Result<Vec<Device>> {
    let simulate = std::env::var(DEVICE_VARIABLE).is_ok_and(|name| name == "sim");
    let gpus = Device::list()?
        .into_iter()
        .filter(|found| found.id != "sim" && !simulate);
    let gpus: Vec<_> = gpus.map(|found| Device::named(&found.id)).collect::<Result<_>>()?;
    Ok(match gpus.is_empty() {
        true => vec![Device::simulator(), Device::simulator()],
        false => gpus,
    })
}

/// The sum of the squares of a part, which stays on the device: nothing here waits for it.
fn part_of_sum(device: &Device, part: ArrayView1<'_, f32>) -> Result<DeviceArray<f32, Ix0>> {
    // A stream for each thread. Calls for several devices from several threads do not wait for one another.
    let x = DeviceArray::from_ndarray(&device.thread_stream()?, &part)?;
    x.square()?.sum_axis(Axis(0))
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let devices = devices()?;
    // Shorter where each of the GPUs' threads is simulated.
    let default_len = if devices[0].is_simulator() { 1 << 17 } else { 1 << 24 };
    let len: usize = std::env::args().nth(1).map_or(Ok(default_len), |len| len.parse())?;
    for device in &devices {
        println!("{}: {}", device.properties().id, device.properties().name);
    }
    let host = Array1::from_shape_fn(len.max(1), |i| (i % 1000) as f32 / 1000.0);

    // As many parts as devices, each uploaded and reduced by a thread of its own.
    let start = Instant::now();
    let parts = host.axis_chunks_iter(Axis(0), host.len().div_ceil(devices.len()));
    let partials: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = devices
            .iter()
            .zip(parts)
            .map(|(device, part)| scope.spawn(move || part_of_sum(device, part)))
            .collect();
        let results = threads
            .into_iter()
            .map(|thread| thread.join().expect("no thread panics"));
        results.collect::<Result<_>>()
    })?;

    // An operation takes arrays of one device; those of two are an error that says how to copy.
    if let [one, other, ..] = &partials[..] {
        println!("{}", one.add(other).expect_err("arrays of two devices"));
    }
    // So the partial sums are copied to the first device, without the host where the GPUs reach each other.
    let first = devices[0].default_stream();
    let gathered: Vec<_> = partials
        .iter()
        .map(|partial| partial.to_device(first))
        .collect::<Result<_>>()?;
    let views: Vec<_> = gathered.iter().map(|partial| partial.view()).collect();
    let sum = ops::stack(Axis(0), &views)?.sum()?;
    println!(
        "the sum of the squares of {len} f32 is {sum}, after {:.1?}",
        start.elapsed()
    );
    let want: f64 = host.iter().map(|&x| f64::from(x) * f64::from(x)).sum();
    assert!((f64::from(sum) - want).abs() <= 1e-5 * want);

    for to in devices.iter().skip(1) {
        peer_copies(&devices[0], to)?;
        peer_copies(to, &devices[0])?;
    }
    Ok(())
}

/// How fast arrays get from one device to another: 256 MiB, or a quarter of one between simulated ones.
fn peer_copies(from: &Device, to: &Device) -> Result<()> {
    let len = if from.is_simulator() { 1 << 16 } else { 1 << 26 };
    let x = DeviceArray::range(from.default_stream(), 0u32, len, 1)?;
    // The first copy makes the memory that the next ones use again.
    let mut best = f64::INFINITY;
    for _ in 0..5 {
        from.synchronize()?;
        to.synchronize()?;
        let start = Instant::now();
        let copy = x.to_device(to.default_stream())?;
        copy.stream().synchronize()?;
        best = best.min(start.elapsed().as_secs_f64());
        assert_eq!(copy.max()?, len - 1);
    }
    let bytes = len as usize * size_of::<u32>();
    println!(
        "{} to {}: {:.2} MiB at {:.1} GB/s",
        from.properties().id,
        to.properties().id,
        bytes as f64 / f64::from(1 << 20),
        bytes as f64 / 1e9 / best
    );
    Ok(())
}
