// SPDX-License-Identifier: MIT OR Apache-2.0
//! A histogram whose threads all add to counters in global memory, and one with counters of each block's own:
//! `cargo run --release -p warpsmith-lab --example atomics`. The whole experiment is `warpsmith lab atomics`.

use cuda_std::launch::SafeKernel;
use cuda_std::{Slice, SliceMut};
use ndarray::{Array1, Ix1};
use warpsmith::{DeviceArray, LaunchConfig};
use warpsmith_lab::data::{array, bits};
use warpsmith_lab::kernels::histogram::{BINS, THREADS, histogram_global, histogram_shared};
use warpsmith_lab::{Cost, Lab, check_equal};

fn cost<K>(lab: &Lab, host: &Array1<u32>) -> anyhow::Result<Cost>
where
    K: SafeKernel<Params = (Slice<'static, u32>, SliceMut<'static, u32>)>,
{
    let mut wanted = Array1::<u32>::zeros(BINS);
    host.iter().for_each(|&x| wanted[x as usize] += 1);
    let (x, mut counts) = (lab.bench.upload(host)?, lab.bench.zeros(BINS)?);
    let most = 8 * lab.bench.device.properties().multiprocessors;
    let config = LaunchConfig::new((host.len().div_ceil(THREADS) as u32).min(most), THREADS as u32);
    let launch = |counts: &mut DeviceArray<u32, Ix1>| {
        counts.fill(0)?;
        lab.bench.stream.launch::<K>(&config, (&x, counts))
    };
    lab.cost(&mut counts, launch, |counts| check_equal(counts, &wanted))
}

fn main() -> anyhow::Result<()> {
    let lab = Lab::auto()?;
    let n = lab.size(1 << 25, 1 << 13);
    for values in [BINS as u32, 1] {
        let host = array(n, |i| bits(i) % values)?;
        println!(
            "{values:3} values, global counters: {}",
            cost::<histogram_global>(&lab, &host)?
        );
        println!(
            "{values:3} values, shared counters: {}",
            cost::<histogram_shared>(&lab, &host)?
        );
    }
    Ok(())
}
