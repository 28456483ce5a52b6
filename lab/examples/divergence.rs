// SPDX-License-Identifier: MIT OR Apache-2.0
//! Eight ways through a kernel: taken by neighbouring threads, and by neighbouring warps:
//! `cargo run --release -p warpsmith-lab --example divergence`. The whole experiment is `warpsmith lab divergence`.

use anyhow::ensure;
use warpsmith::{DeviceArray, LaunchConfig};
use warpsmith_lab::Lab;
use warpsmith_lab::kernels::divergence::{way, ways};

fn main() -> anyhow::Result<()> {
    let lab = Lab::auto()?;
    let n = lab.size(1 << 22, 1 << 11);
    let rounds = if lab.is_simulator() { 4 } else { 256 };
    let config = LaunchConfig::for_len(n, 256);
    for (what, number, group) in [
        ("all threads go one way", 1, 1),
        ("the threads of a warp go eight ways", 8, 1),
        ("eight warps go a way each", 8, 32),
    ] {
        let mut out = lab.bench.zeros(n)?;
        let launch = |out: &mut DeviceArray<u32, _>| {
            lab.bench
                .stream
                .launch::<ways>(&config, (number as u32, group as u32, rounds, out))
        };
        // Those that go the first way: as many as a group has, of each `number` groups.
        let check = |out: &DeviceArray<u32, _>| {
            for (i, found) in out
                .to_ndarray()?
                .into_iter()
                .enumerate()
                .filter(|(i, _)| i / group % number == 0)
            {
                ensure!(found == way::<3>(i as u32, rounds), "thread {i}: {found}");
            }
            Ok(())
        };
        println!("{what}: {}", lab.cost(&mut out, launch, check)?);
    }
    Ok(())
}
