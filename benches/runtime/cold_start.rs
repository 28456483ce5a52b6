// SPDX-License-Identifier: MIT OR Apache-2.0
//! From the start of a process to its first result: `cargo bench --bench runtime -- cold_start`. Each round is a process of
//! its own: this program again, which opens the device, uploads a million numbers, and says when `a + b` or `sum` has come back.
//! With the driver's cache of compiled kernels, and without (`CUDA_CACHE_DISABLE=1`), so that it compiles the one kernel.

use std::env;
use std::error::Error;
use std::io::Read;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use ndarray::Array1;
use warpsmith::{Device, DeviceArray};

/// What a process of a round computes.
const CASE: &str = "COLD_START_CASE";
/// The driver's variable; its cache is on without it.
const CACHE: &str = "CUDA_CACHE_DISABLE";
const ROUNDS: usize = 11;

/// Whether this process is one of those that are timed: then it has done what it is for.
pub fn is_round() -> warpsmith::Result<bool> {
    match env::var(CASE) {
        Ok(case) => compute(&case).map(|()| true),
        Err(_) => Ok(false),
    }
}

pub fn run() -> Result<(), Box<dyn Error>> {
    println!("{}", Device::auto()?.properties().name);
    println!("{:>8}  {:>10}  {:>10}  {:>10}", "", "cache", "median", "longest");
    for case in ["a + b", "sum"] {
        for cache in ["off", "on"] {
            // The first one is not counted: it fills the cache, and the system's of files.
            time(case, cache)?;
            let mut times: Vec<_> = (0..ROUNDS).map(|_| time(case, cache)).collect::<Result<_, _>>()?;
            times.sort_unstable();
            let [median, longest] = [times[ROUNDS / 2], times[ROUNDS - 1]].map(|time| time.as_secs_f64());
            println!("{case:>8}  {cache:>10}  {median:>8.3} s  {longest:>8.3} s");
        }
    }
    Ok(())
}

/// From the start of a process to its word that the result is there.
fn time(case: &str, cache: &str) -> Result<Duration, Box<dyn Error>> {
    let mut command = Command::new(env::current_exe()?);
    command.env(CASE, case).env_remove(CACHE).stdout(Stdio::piped());
    if cache == "off" {
        command.env(CACHE, "1");
    }
    let start = Instant::now();
    let mut process = command.spawn()?;
    let mut word = [0];
    process.stdout.take().ok_or("a pipe")?.read_exact(&mut word)?;
    let elapsed = start.elapsed();
    let status = process.wait()?;
    match status.success() {
        true => Ok(elapsed),
        false => Err(format!("{case}: {status}").into()),
    }
}

fn compute(case: &str) -> warpsmith::Result<()> {
    let device = Device::auto()?;
    let stream = device.default_stream();
    let a = Array1::from_shape_fn(1_000_000, |i| (i % 8) as f32);
    let x = DeviceArray::from_ndarray(stream, &a)?;
    let is_right = match case {
        "sum" => x.sum()? == a.sum(),
        _ => x.add(&DeviceArray::from_ndarray(stream, &a)?)?.to_ndarray()? == 2.0 * a,
    };
    println!("{}", if is_right { "right" } else { "wrong" });
    assert!(is_right, "{case}");
    Ok(())
}
