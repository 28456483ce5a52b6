// SPDX-License-Identifier: MIT OR Apache-2.0
//! Prefix sums within tiles, by Hillis and Steele, by Blelloch, and by Blelloch without bank conflicts; and the library's
//! of the whole array: `cargo run --release -p warpsmith-lab --example scan_steps`. The whole experiment is
//! `warpsmith lab scan-ladder`.

use cuda_std::launch::SafeKernel;
use cuda_std::{Slice, SliceMut};
use ndarray::{Array1, Ix1};
use warpsmith::ops::Sum;
use warpsmith::{DeviceArray, LaunchConfig};
use warpsmith_lab::data::{array, small};
use warpsmith_lab::kernels::scan::{THREADS, TILE, scan_blelloch, scan_blelloch_padded, scan_hillis_steele};
use warpsmith_lab::{Cost, Lab, check_equal};

/// The sums up to each element of `host`, from the first of its tile on.
fn sums(host: &Array1<f32>, tile: usize) -> Array1<f32> {
    let mut sums = host.clone();
    for tile in sums.as_slice_mut().expect("in one piece").chunks_mut(tile) {
        (1..tile.len()).for_each(|i| tile[i] += tile[i - 1]);
    }
    sums
}

fn cost<K>(lab: &Lab, host: &Array1<f32>, tile: usize) -> anyhow::Result<Cost>
where
    K: SafeKernel<Params = (Slice<'static, f32>, SliceMut<'static, f32>, SliceMut<'static, f32>)>,
{
    let (n, tiles) = (host.len(), host.len().div_ceil(tile));
    let config = LaunchConfig::new(tiles as u32, THREADS as u32);
    let (x, wanted) = (lab.bench.upload(host)?, sums(host, tile));
    let mut out = (lab.bench.zeros(n)?, lab.bench.zeros(tiles)?);
    let launch = |(out, of_tiles): &mut (DeviceArray<f32, Ix1>, DeviceArray<f32, Ix1>)| {
        lab.bench.stream.launch::<K>(&config, (&x, out, of_tiles))
    };
    lab.cost(&mut out, launch, |(out, _)| check_equal(out, &wanted))
}

fn main() -> anyhow::Result<()> {
    let lab = Lab::auto()?;
    let host = array(lab.size(1 << 25, 1 << 14), small)?;
    println!(
        "Hillis and Steele: {}",
        cost::<scan_hillis_steele>(&lab, &host, THREADS)?
    );
    println!("Blelloch:          {}", cost::<scan_blelloch>(&lab, &host, TILE)?);
    println!(
        "Blelloch, padded:  {}",
        cost::<scan_blelloch_padded>(&lab, &host, TILE)?
    );
    let (x, wanted) = (lab.bench.upload(&host)?, sums(&host, host.len()));
    let mut out = lab.bench.zeros(host.len())?;
    let launch = |out: &mut DeviceArray<f32, Ix1>| x.inclusive_scan_into::<Sum>(out);
    println!(
        "the library, all:  {}",
        lab.cost(&mut out, launch, |out| check_equal(out, &wanted))?
    );
    Ok(())
}
