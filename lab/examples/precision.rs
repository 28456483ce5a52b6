// SPDX-License-Identifier: MIT OR Apache-2.0
//! One sum in f64, f32, f16 and bf16: `cargo run --release -p warpsmith-lab --example precision`. The whole experiment is
//! `warpsmith lab precision`.

use anyhow::ensure;
use warpsmith::{bf16, f16};
use warpsmith_lab::Lab;
use warpsmith_lab::data::{array, bits};

fn main() -> anyhow::Result<()> {
    let lab = Lab::auto()?;
    let n = lab.size(1 << 16, 1 << 12);
    // From 0 to 1, in steps of 2^-24.
    let host = array(n, |i| (bits(i) >> 8) as f32 / (1 << 24) as f32)?;
    let exact: f64 = host.iter().map(|&x| f64::from(x)).sum();
    let x = lab.bench.upload(&host)?;
    let in_order = host.iter().fold(0.0f32, |sum, x| sum + x);
    // At most a rounding for each addition; of the narrow types elements and result are rounded, the sums between are f32.
    let additions = |bits: i32| n as f64 * 2f64.powi(-bits);
    for (what, sum, bound) in [
        ("f64", x.cast::<f64>()?.sum()?, additions(53)),
        ("f32", x.sum()?.into(), additions(24)),
        ("f32, one after the other", in_order.into(), additions(24)),
        ("f16", x.cast::<f16>()?.sum()?.into(), additions(24) + 2f64.powi(-10)),
        ("bf16", x.cast::<bf16>()?.sum()?.into(), additions(24) + 2f64.powi(-7)),
    ] {
        let error = ((sum - exact) / exact).abs();
        ensure!(error <= bound, "the sum in {what}: {sum}, wanted {exact}");
        println!("{what:24} {sum:14.6}, off by {error:.1e} of it");
    }
    Ok(())
}
