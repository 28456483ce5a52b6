// SPDX-License-Identifier: MIT OR Apache-2.0
//! Threads of a block: how many of them have room at a time, and what that does to a kernel that moves memory:
//! `cargo run --release -p warpsmith-lab --example block_size`. The whole experiments are `warpsmith lab launch-config`
//! and `warpsmith lab occupancy`.

use warpsmith::LaunchConfig;
use warpsmith_lab::data::{array, small};
use warpsmith_lab::kernels::map::vector_add;
use warpsmith_lab::{Lab, check_equal};

fn main() -> anyhow::Result<()> {
    let lab = Lab::auto()?;
    let n = lab.size(1 << 26, 1 << 13);
    let host = array(n, small)?;
    let wanted = &host + &host;
    let (x, mut out) = (lab.bench.upload(&host)?, lab.bench.zeros(n)?);
    for threads in [32, 64, 128, 256, 512, 1024] {
        let config = LaunchConfig::for_len(n, threads);
        let blocks = lab.bench.device.occupancy::<vector_add>(threads, 0)?;
        let launch = |out: &mut _| lab.bench.stream.launch::<vector_add>(&config, (&x, &x, out));
        let cost = lab.cost(&mut out, launch, |out| check_equal(out, &wanted))?;
        println!(
            "blocks of {threads:4} threads, {:4} threads at a time: {cost}",
            blocks * threads
        );
    }
    Ok(())
}
