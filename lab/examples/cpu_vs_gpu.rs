// SPDX-License-Identifier: MIT OR Apache-2.0
//! One formula on all cores, on the GPU with copies there and back, and on arrays that are there already:
//! `cargo run --release -p warpsmith-lab --example cpu_vs_gpu`. The whole experiment is `warpsmith lab cpu-vs-gpu`.

use std::time::Instant;

use anyhow::ensure;
use ndarray::Array1;
use warpsmith::DeviceArray;
use warpsmith_lab::Lab;

fn main() -> anyhow::Result<()> {
    let lab = Lab::auto()?;
    let n = lab.size(100_000_000, 100_000);
    let host = Array1::linspace(0.0f32, 3.0, n);

    let mut of_cores = host.clone();
    let start = Instant::now();
    of_cores.par_mapv_inplace(|x| x.tanh() * 2.0 + 1.0);
    println!("all cores:             {:?}", start.elapsed());

    let formula = |x: &DeviceArray<f32, _>| (x.expr().tanh() * 2.0 + 1.0).eval();
    let there_and_back = lab.wall(|| {
        formula(&lab.bench.upload(&host)?)?.to_ndarray()?;
        Ok(())
    })?;
    println!("GPU, copies and all:   {there_and_back}");

    let (on_device, mut out) = (lab.bench.upload(&host)?, lab.bench.zeros(n)?);
    let check = |out: &DeviceArray<f32, _>| {
        let worst = (&out.to_ndarray()? - &of_cores)
            .mapv_into(f32::abs)
            .into_iter()
            .fold(0.0, f32::max);
        // Two functions tanh whose results are a few units in the last place apart, of numbers up to 3.
        ensure!(worst < 2e-6, "off by {worst}");
        Ok(())
    };
    let launch = |out: &mut DeviceArray<f32, _>| (on_device.expr().tanh() * 2.0 + 1.0).eval_into(out);
    let alone = lab.cost(&mut out, launch, check)?;
    println!("GPU, on what is there: {alone}");
    Ok(())
}
