// SPDX-License-Identifier: MIT OR Apache-2.0
//! Arithmetic as one kernel, against a kernel for each operation, and what an expression takes the host, at first and later:
//! `cargo run --release --example expressions [ELEMENTS]`.
//!
//! With `CUDA_CACHE_DISABLE=1` the driver finds no kernel of an earlier run.

use std::env;
use std::time::Instant;

use warpsmith::expr::{self, Expr};
use warpsmith::ndarray::{Array1, Array2, Axis, Ix0, Ix1, Ix2, s};
use warpsmith::{Device, DeviceArray, Result, Stream};

/// Rows of softmax.
const COLUMNS: usize = 4096;

type Vector = DeviceArray<f32, Ix1>;

fn affine(x: &Vector) -> Expr<'_, f32, Ix1> {
    x.expr().tanh() * 2.0 + 1.0
}

fn chain(x: &Vector) -> Expr<'_, f32, Ix1> {
    let y = ((x.expr().sin() * 1.5 + 0.5).exp() - 1.0).abs();
    ((y + 1.0).sqrt().ln() * 0.25 + x).tanh()
}

fn softmax(x: Expr<'_, f32, Ix2>) -> Expr<'_, f32, Ix2> {
    let e = (&x - x.max_axis(Axis(1)).insert_axis(Axis(1))).exp();
    &e / e.sum_axis(Axis(1)).insert_axis(Axis(1))
}

fn sum_squares(x: &Vector, centre: f32) -> Expr<'_, f32, Ix0> {
    (x.expr() - centre).square().sum()
}

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

/// Says how long a first evaluation takes until its result is there: for the most part the driver compiles the kernel.
fn first<T>(what: &str, stream: &Stream, call: impl FnOnce() -> Result<T>) -> Result<()> {
    let start = Instant::now();
    let result = call()?;
    stream.synchronize()?;
    println!(
        "{what:<44} {:>9.2} ms for the first time",
        start.elapsed().as_secs_f64() * 1e3
    );
    drop(result);
    Ok(())
}

/// Says what a call takes the host: of ten batches the fastest, each of which a GPU's queue holds. The simulated one has no
/// queue: the host's time is what all the elements take.
fn per_call<T>(what: &str, stream: &Stream, mut call: impl FnMut() -> Result<T>) -> Result<()> {
    let calls = if stream.device_id() == "sim" { 10 } else { 200 };
    let mut least = f64::INFINITY;
    for _ in 0..10 {
        let start = Instant::now();
        for _ in 0..calls {
            call()?;
        }
        least = least.min(start.elapsed().as_secs_f64() * 1e6 / f64::from(calls));
        stream.synchronize()?;
    }
    println!("{what:<44} {least:>9.2} µs of the host");
    Ok(())
}

/// Of few elements the host's time is what counts.
fn host_times(stream: &Stream) -> Result<()> {
    let few = DeviceArray::from_ndarray(stream, &Array1::linspace(-3.0f32, 3.0, 1000))?;
    let rows = DeviceArray::from_ndarray(stream, &Array2::from_shape_fn((10, 100), |(i, j)| (i + j) as f32))?;
    let affine_of = expr::compile(|x: Expr<f32, Ix1>| x.tanh() * 2.0 + 1.0);
    let softmax_of = expr::compile(softmax);
    println!("of 1000 numbers:");
    per_call("tanh, an operation", stream, || few.tanh())?;
    per_call("tanh(x)·2 + 1", stream, || affine(&few).eval())?;
    per_call("tanh(x)·2 + 1, made and not evaluated", stream, || Ok(affine(&few)))?;
    per_call("tanh(x)·2 + 1, a compiled function", stream, || affine_of.call(&few))?;
    per_call("a chain of twelve operations", stream, || chain(&few).eval())?;
    per_call("softmax of 10 rows", stream, || softmax(rows.expr()).eval())?;
    per_call("softmax of 10 rows, a compiled function", stream, || {
        softmax_of.call(&rows)
    })?;
    per_call("Σ(x − m)²", stream, || sum_squares(&few, 0.5).eval())
}

fn main() -> Result<()> {
    let device = Device::auto()?;
    let stream = device.default_stream();
    let default = if device.is_simulator() { 1 << 14 } else { 1 << 24 };
    let len: usize = env::args()
        .nth(1)
        .map_or(default, |len| len.parse().expect("a number of elements"));
    let x = DeviceArray::from_ndarray(stream, &Array1::linspace(-3.0f32, 3.0, len))?;
    let rows = Array2::from_shape_fn((len.div_ceil(COLUMNS), COLUMNS), |(i, j)| ((i + j) % 7) as f32);
    let rows = DeviceArray::from_ndarray(stream, &rows)?;

    println!("of {len} numbers:");
    first("tanh(x)·2 + 1", stream, || affine(&x).eval())?;
    first("a chain of twelve operations", stream, || chain(&x).eval())?;
    first("softmax of rows", stream, || softmax(rows.expr()).eval())?;
    first("Σ(x − m)²", stream, || sum_squares(&x, 0.5).eval())?;
    let separate = x.tanh()?.mul_scalar(2.0)?.add_scalar(1.0)?;
    assert_eq!(
        affine(&x).eval()?.to_ndarray()?,
        separate.to_ndarray()?,
        "the same bits"
    );

    let show = |what: &str, numbers: usize, ms: f64| {
        let gb_s = (numbers * size_of::<f32>()) as f64 / ms / 1e6;
        println!("{what:<44} {ms:>9.4} ms  {gb_s:>7.0} GB/s");
    };
    show(
        "tanh(x)·2 + 1, an expression",
        2 * len,
        median(stream, || affine(&x).eval())?,
    );
    show(
        "tanh(x)·2 + 1, three kernels",
        6 * len,
        median(stream, || x.tanh()?.mul_scalar(2.0)?.add_scalar(1.0))?,
    );
    show(
        "a chain of twelve operations",
        2 * len,
        median(stream, || chain(&x).eval())?,
    );
    show(
        "softmax of rows",
        2 * rows.len(),
        median(stream, || softmax(rows.expr()).eval())?,
    );
    show("Σ(x − m)²", len, median(stream, || sum_squares(&x, 0.5).eval())?);

    // A square of about as many elements.
    let side = len.isqrt();
    let square = Array2::from_shape_fn((side, side), |(i, j)| (i * 7 + j) as f32 / side as f32);
    let (a, b) = (
        DeviceArray::from_ndarray(stream, &square)?,
        DeviceArray::from_ndarray(stream, &square)?,
    );
    let (row, column) = (a.index_axis(Axis(0), 0)?, a.slice(s![.., ..1])?);
    let elements = side * side;
    show(
        "x·row + column",
        2 * elements,
        median(stream, || (&a * &row + &column).eval())?,
    );
    let transposed = b.view().reversed_axes();
    show("x + yᵀ", 3 * elements, median(stream, || (&a + &transposed).eval())?);

    host_times(stream)
}
