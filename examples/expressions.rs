// SPDX-License-Identifier: MIT OR Apache-2.0
//! Arithmetic as one kernel, against a kernel for each operation: `cargo run --release --example expressions [ELEMENTS]`.

use std::env;
use std::time::Instant;

use warpsmith::ndarray::{Array1, Array2};
use warpsmith::{Device, DeviceArray, Result, Stream};

/// Milliseconds of a call: the median of 30, by events.
fn median<T>(stream: &Stream, mut call: impl FnMut() -> Result<T>) -> Result<f64> {
    let mut times = Vec::new();
    for _ in 0..30 {
        let start = stream.record()?;
        let result = call()?;
        times.push(stream.record()?.elapsed_since(&start)?.as_secs_f64() * 1e3);
        drop(result);
    }
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}

fn main() -> Result<()> {
    let device = Device::auto()?;
    let stream = device.default_stream();
    let default = if device.is_simulator() { 1 << 16 } else { 1 << 24 };
    let len = env::args()
        .nth(1)
        .map_or(default, |len| len.parse().expect("a number of elements"));
    let x = DeviceArray::from_ndarray(stream, &Array1::linspace(-3.0f32, 3.0, len))?;

    let start = Instant::now();
    let fused = (x.expr().tanh() * 2.0 + 1.0).eval()?;
    stream.synchronize()?;
    println!(
        "tanh(x)·2 + 1 of {len} numbers, evaluated for the first time: {:?}",
        start.elapsed()
    );
    let separate = x.tanh()?.mul_scalar(2.0)?.add_scalar(1.0)?;
    assert_eq!(fused.to_ndarray()?, separate.to_ndarray()?, "the same bits");

    let show = |what: &str, arrays: usize, ms: f64| {
        let gb_s = (arrays * len * size_of::<f32>()) as f64 / ms / 1e6;
        println!("{what:<44} {ms:>9.4} ms  {gb_s:>7.0} GB/s");
    };
    show(
        "tanh(x)·2 + 1, an expression",
        2,
        median(stream, || (x.expr().tanh() * 2.0 + 1.0).eval())?,
    );
    show(
        "tanh(x)·2 + 1, three kernels",
        6,
        median(stream, || x.tanh()?.mul_scalar(2.0)?.add_scalar(1.0))?,
    );
    show(
        "a chain of twelve operations",
        2,
        median(stream, || {
            let y = ((x.expr().sin() * 1.5 + 0.5).exp() - 1.0).abs();
            ((y + 1.0).sqrt().ln() * 0.25 + &x).tanh().eval()
        })?,
    );

    // Of few elements the host's time is what counts.
    let few = DeviceArray::from_ndarray(stream, &Array1::linspace(-3.0f32, 3.0, 1000))?;
    let per_call = |call: &dyn Fn() -> Result<DeviceArray<f32, _>>| -> Result<f64> {
        let calls = 2000;
        let start = Instant::now();
        for _ in 0..calls {
            call()?;
        }
        stream.synchronize()?;
        Ok(start.elapsed().as_secs_f64() * 1e6 / f64::from(calls))
    };
    println!(
        "1000 numbers: an expression {:.2} µs, tanh alone {:.2} µs",
        per_call(&|| (few.expr().tanh() * 2.0 + 1.0).eval())?,
        per_call(&|| few.tanh())?
    );

    // A square of about as many elements.
    let side = len.isqrt();
    let square = Array2::from_shape_fn((side, side), |(i, j)| (i * 7 + j) as f32 / side as f32);
    let (a, b) = (
        DeviceArray::from_ndarray(stream, &square)?,
        DeviceArray::from_ndarray(stream, &square)?,
    );
    let (row, column) = (
        a.index_axis(warpsmith::ndarray::Axis(0), 0)?,
        a.slice(warpsmith::ndarray::s![.., ..1])?,
    );
    show("x·row + column", 2, median(stream, || (&a * &row + &column).eval())?);
    let transposed = b.view().reversed_axes();
    show("x + yᵀ", 3, median(stream, || (&a + &transposed).eval())?);
    Ok(())
}
