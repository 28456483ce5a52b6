// SPDX-License-Identifier: MIT OR Apache-2.0
//! A transpose through shared memory whose columns lie in one bank, and one whose rows are a word longer:
//! `cargo run --release -p warpsmith-lab --example bank_conflicts`. The whole experiment is
//! `warpsmith lab shared-memory`.

use cuda_std::launch::SafeKernel;
use cuda_std::{Slice, SliceMut};
use ndarray::{Array2, Ix2};
use warpsmith::{DeviceArray, LaunchConfig};
use warpsmith_lab::data::{array, small};
use warpsmith_lab::kernels::transpose::{EDGE, ROWS, transpose_naive, transpose_padded, transpose_tiled};
use warpsmith_lab::{Cost, Lab, check_equal};

fn cost<K>(lab: &Lab, host: &Array2<f32>, x: &DeviceArray<f32, Ix2>) -> anyhow::Result<Cost>
where
    K: SafeKernel<Params = (usize, usize, Slice<'static, f32>, SliceMut<'static, f32>)>,
{
    let (rows, columns) = host.dim();
    let tiles = (columns.div_ceil(EDGE) as u32, rows.div_ceil(EDGE) as u32);
    let config = LaunchConfig::new(tiles, (EDGE as u32, ROWS as u32));
    let mut out = lab.bench.zeros((columns, rows))?;
    let launch = |out: &mut DeviceArray<f32, Ix2>| lab.bench.stream.launch::<K>(&config, (rows, columns, x, out));
    lab.cost(&mut out, launch, |out| check_equal(out, &host.t()))
}

fn main() -> anyhow::Result<()> {
    let lab = Lab::auto()?;
    let n = lab.size(8192, 64);
    let host = array(n * n, small)?.into_shape_with_order((n, n))?;
    let x = lab.bench.upload(&host)?;
    println!("straight:              {}", cost::<transpose_naive>(&lab, &host, &x)?);
    println!("through shared memory: {}", cost::<transpose_tiled>(&lab, &host, &x)?);
    println!("with padded rows:      {}", cost::<transpose_padded>(&lab, &host, &x)?);
    Ok(())
}
