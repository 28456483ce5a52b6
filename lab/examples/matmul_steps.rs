// SPDX-License-Identifier: MIT OR Apache-2.0
//! A product of matrices, whose threads read both from global memory, or tiles of them from shared memory; and the
//! library's: `cargo run --release -p warpsmith-lab --example matmul_steps`. The whole experiment is
//! `warpsmith lab matmul-ladder`.

use ndarray::Ix2;
use warpsmith::{DeviceArray, LaunchConfig};
use warpsmith_lab::data::{array, small};
use warpsmith_lab::kernels::matmul::{EDGE, matmul_by_rows, matmul_tiled};
use warpsmith_lab::{Lab, check_equal};

fn main() -> anyhow::Result<()> {
    let lab = Lab::auto()?;
    let n = lab.size(2048, 64);
    let [a, b] = [0, n * n].map(|first| array(n * n, |i| small(first + i)));
    let (a, b) = (a?.into_shape_with_order((n, n))?, b?.into_shape_with_order((n, n))?);
    // Small integers, so that no order of additions rounds.
    let wanted = a.dot(&b);
    let (a, b) = (lab.bench.upload(&a)?, lab.bench.upload(&b)?);
    let mut out: DeviceArray<f32, Ix2> = lab.bench.zeros((n, n))?;
    let (stream, config) = (
        &lab.bench.stream,
        LaunchConfig::for_shape((n, n), (EDGE as u32, EDGE as u32)),
    );
    let check = |out: &DeviceArray<f32, Ix2>| check_equal(out, &wanted);

    let cost = lab.cost(
        &mut out,
        |out| stream.launch::<matmul_by_rows>(&config, (n, &a, &b, out)),
        check,
    )?;
    println!("from global memory: {cost}");
    let cost = lab.cost(
        &mut out,
        |out| stream.launch::<matmul_tiled>(&config, (n, &a, &b, out)),
        check,
    )?;
    println!("from shared memory: {cost}");
    println!(
        "the library:        {}",
        lab.cost(&mut out, |out| a.matmul_into(&b, out), check)?
    );
    Ok(())
}
