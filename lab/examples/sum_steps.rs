// SPDX-License-Identifier: MIT OR Apache-2.0
//! A sum within blocks, by every second thread, by neighbouring threads and by shuffles; and the library's:
//! `cargo run --release -p warpsmith-lab --example sum_steps`. The whole experiment is `warpsmith lab reduction-ladder`.

use anyhow::ensure;
use cuda_std::launch::SafeKernel;
use cuda_std::{Slice, SliceMut};
use ndarray::Ix1;
use warpsmith::{DeviceArray, LaunchConfig};
use warpsmith_lab::data::{array, small};
use warpsmith_lab::kernels::reduction::{THREADS, reduce_interleaved, reduce_sequential, reduce_shuffles};
use warpsmith_lab::{Cost, Lab};

/// Blocks that add up `share` elements each; the sum of their sums is checked.
fn cost<K>(lab: &Lab, x: &DeviceArray<f32, Ix1>, sum: f32, share: usize) -> anyhow::Result<Cost>
where
    K: SafeKernel<Params = (Slice<'static, f32>, SliceMut<'static, f32>)>,
{
    let blocks = x.len().div_ceil(share);
    let config = LaunchConfig::new(blocks as u32, THREADS as u32);
    let mut sums = lab.bench.zeros(blocks)?;
    let launch = |sums: &mut DeviceArray<f32, Ix1>| lab.bench.stream.launch::<K>(&config, (x, sums));
    lab.cost(&mut sums, launch, |sums| {
        let found = sums.sum()?;
        ensure!(found == sum, "{found}, wanted {sum}");
        Ok(())
    })
}

fn main() -> anyhow::Result<()> {
    let lab = Lab::auto()?;
    let host = array(lab.size(1 << 26, 1 << 14), small)?;
    let (x, sum) = (lab.bench.upload(&host)?, host.sum());
    println!(
        "every second thread:  {}",
        cost::<reduce_interleaved>(&lab, &x, sum, THREADS)?
    );
    println!(
        "neighbouring threads: {}",
        cost::<reduce_sequential>(&lab, &x, sum, THREADS)?
    );
    println!(
        "shuffles:             {}",
        cost::<reduce_shuffles>(&lab, &x, sum, 2 * THREADS)?
    );
    let mut out = lab.bench.zeros(())?;
    let check = |out: &DeviceArray<f32, _>| {
        let found = out.to_ndarray()?.into_scalar();
        ensure!(found == sum, "{found}, wanted {sum}");
        Ok(())
    };
    println!(
        "the library:          {}",
        lab.cost(&mut out, |out| x.sum_into(out), check)?
    );
    Ok(())
}
