// SPDX-License-Identifier: MIT OR Apache-2.0
//! Neighbouring threads that read neighbouring elements, and elements far apart:
//! `cargo run --release -p warpsmith-lab --example coalescing`. The whole experiment is `warpsmith lab coalescing`.

use ndarray::s;
use warpsmith::LaunchConfig;
use warpsmith_lab::data::{array, small};
use warpsmith_lab::kernels::coalescing::strided_read;
use warpsmith_lab::{Lab, check_equal};

fn main() -> anyhow::Result<()> {
    let lab = Lab::auto()?;
    let n = lab.size(1 << 23, 1 << 12);
    let host = array(32 * n, small)?;
    let (x, mut out) = (lab.bench.upload(&host)?, lab.bench.zeros(n)?);
    let config = LaunchConfig::for_len(n, 256);
    for stride in [1, 2, 8, 32] {
        let launch = |out: &mut _| {
            lab.bench
                .stream
                .launch::<strided_read>(&config, (stride as u32, &x, out))
        };
        let cost = lab.cost(&mut out, launch, |out| {
            check_equal(out, &host.slice(s![..n * stride; stride]))
        })?;
        println!("each thread reads an f32, {stride:2} from its neighbour's: {cost}");
    }
    Ok(())
}
