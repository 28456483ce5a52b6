// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a launch costs that does nothing, with and without a wait for it:
//! `cargo run --release -p warpsmith-lab --example latency`. The whole experiment is `warpsmith lab latency`.

use std::time::Instant;

use warpsmith::LaunchConfig;
use warpsmith_lab::Lab;
use warpsmith_lab::kernels::hello::nothing;

const LAUNCHES: u32 = 500;

fn main() -> anyhow::Result<()> {
    let lab = Lab::auto()?;
    let (stream, config) = (&lab.bench.stream, LaunchConfig::new(1, 32));
    // The first launch loads the kernel.
    stream.launch::<nothing>(&config, ())?;
    stream.synchronize()?;

    let start = Instant::now();
    for _ in 0..LAUNCHES {
        stream.launch::<nothing>(&config, ())?;
    }
    stream.synchronize()?;
    println!(
        "{LAUNCHES} launches and one wait: {:?} each",
        start.elapsed() / LAUNCHES
    );

    let start = Instant::now();
    for _ in 0..LAUNCHES {
        stream.launch::<nothing>(&config, ())?;
        stream.synchronize()?;
    }
    println!(
        "{LAUNCHES} launches and waits:    {:?} each",
        start.elapsed() / LAUNCHES
    );
    Ok(())
}
