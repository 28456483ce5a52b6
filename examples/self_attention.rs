// SPDX-License-Identifier: MIT OR Apache-2.0
//! Self-attention step by step, with a matrix of scores, and in one kernel, without:
//! `cargo run --release --example self_attention [POSITIONS]`.

use std::env;

use warpsmith::ndarray::{Array4, Axis, Ix3, Ix4};
use warpsmith::{Device, DeviceArray, DeviceArrayRef, Result};

const HEADS: usize = 8;
const DIM: usize = 64;

/// `softmax(Q Kᵀ / √d) V` by a product, an expression, and a product.
fn step_by_step(qkv: [&DeviceArrayRef<f32, Ix3>; 3]) -> Result<DeviceArray<f32, Ix3>> {
    let [q, k, v] = qkv;
    let scores = q.batched_matmul(&k.view().permuted_axes([0, 2, 1])?)?;
    let scores = scores.expr() * (1.0 / (DIM as f32).sqrt());
    scores.softmax(Axis(2)).eval()?.batched_matmul(v)
}

/// Prints the milliseconds of the second call and the most memory that it takes beside its operands, and gives its result.
fn measured<T>(what: &str, device: &Device, call: impl Fn() -> Result<T>) -> Result<T> {
    let stream = device.default_stream();
    drop(call()?);
    stream.synchronize()?;
    let before = device.memory()?.allocated;
    device.reset_peak();
    let start = stream.record()?;
    let result = call()?;
    let time = stream.record()?.elapsed_since(&start)?;
    let memory = device.memory()?.peak - before;
    println!(
        "{what:<13} {:>9.3} ms {:>9.2} MB",
        time.as_secs_f64() * 1e3,
        memory as f64 / 1e6
    );
    Ok(result)
}

fn main() -> Result<()> {
    let device = Device::auto()?;
    let stream = device.default_stream();
    let few = if device.is_simulator() { 48 } else { 4096 };
    let positions = env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(few);
    let number = |seed: usize| {
        let at = move |(_, head, position, d): (usize, usize, usize, usize)| {
            ((head * 7919 + position * 104_729 + d * 1299 + seed) % 1009) as f32 / 504.0 - 1.0
        };
        Array4::from_shape_fn((1, HEADS, positions, DIM), at)
    };
    let upload = |seed| DeviceArray::<f32, Ix4>::from_ndarray(stream, &number(seed));
    let [q, k, v] = [upload(1)?, upload(2)?, upload(3)?];
    println!("{HEADS} heads of {positions} positions on {}", device.properties().name);

    let fused = measured("one kernel", &device, || q.attention(&k, &v).compute())?;
    let heads = (HEADS, positions, DIM);
    let [a, b, c] = [q.reshape(heads)?, k.reshape(heads)?, v.reshape(heads)?];
    let plain = measured("step by step", &device, || step_by_step([&a, &b, &c]))?;

    // Values are at most 1, and scores are sums of 64 products of at most 1, divided by 8: in f32 off by at most
    // 64 · 2⁻²⁴ · 8, so that weights are off by some 10⁻⁴ of themselves at worst, in each of the two.
    let fused = fused.reshape(heads)?.to_ndarray()?;
    let differences = fused.iter().zip(plain.to_ndarray()?).map(|(a, b)| (a - b).abs());
    let greatest = differences.fold(0.0, f32::max);
    println!("greatest difference {greatest:e}");
    assert!(greatest < 2e-4);
    Ok(())
}
