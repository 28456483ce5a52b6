// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rows, by name, and those of elementwise operations, reductions, scans and histograms.

use anyhow::Result;
use kernels_gpu::num::Num;
use ndarray::{Array1, Ix0, Ix1};
use rayon::prelude::*;
use warpsmith::ops::{Histogram, Number, ScanAlgorithm, Sum};
use warpsmith::{DeviceArray, DeviceGridBarrier, bf16, f16};
use warpsmith_cli_kernels::{THREADS, add_sum, tanh_affine};

use super::attention::{self, Form};
use super::check;
use super::data::{self, Value, bits, byte};
use super::measure::{Bench, Measurement};
use super::{bytes, expressions, grouped, networks, norms, products, sorting, squares};

type Vector<T> = DeviceArray<T, Ix1>;

/// What is measured, under the name that it is chosen by.
pub struct Row {
    pub name: &'static str,
    /// Checks and measures it for that many elements.
    pub run: fn(&Bench, usize) -> Result<Measurement>,
}

macro_rules! rows {
    ($($name:literal: $run:expr;)*) => { &[$(Row { name: $name, run: $run }),*] };
}

/// All rows, in the order of the table; the first is what the others are held against. Without a suffix, the elements
/// are `f32`, those of pictures `u8`, and those of attention `bf16`.
pub const ROWS: &[Row] = rows! {
    "copy": copy;
    "add": add::<f32>;
    "square": square::<f32>;
    "tanh_affine": tanh_of_elements;
    "axpy": axpy;
    "reduce_sum": reduce_sum::<f32>;
    "reduce_max": reduce_max::<f32>;
    "reduce_argmin": reduce_argmin;
    "scan_inclusive_sum": scan_inclusive_sum::<f32>;
    "scan_exclusive_sum": scan_exclusive_sum::<f32>;
    "scan_blelloch_sum": scan_blelloch_sum;
    "grid_sync": grid_sync;
    "histogram_i32": |bench, n| histogram(bench, n, "i32", |i| i32::from(byte(i)), byte);
    "histogram_u8": |bench, n| histogram(bench, n, "u8", byte, byte);
    "histogram_u8_equal": |bench, n| histogram(bench, n, "u8", |_| 42u8, |_| 42);
    "transpose": squares::transpose::<f32>;
    "grayscale": squares::grayscale;
    "blur3x3": squares::blur3x3;
    "blur_gaussian": squares::blur_gaussian;
    "matmul_f32": products::matmul::<f32>;
    "matmul_f16": products::matmul::<f16>;
    "matmul_bf16": products::matmul::<bf16>;
    "matmul_tf32": products::matmul::<products::Tf32>;
    "matmul_fp8": bytes::matmul::<bytes::Fp8<false>>;
    "matmul_fp8_fast": bytes::matmul::<bytes::Fp8<true>>;
    "matmul_int8": bytes::matmul::<bytes::Int8>;
    "matmul_f16_ampere": products::on_ampere::<f16>;
    "matmul_bf16_ampere": products::on_ampere::<bf16>;
    "matmul_tf32_ampere": products::on_ampere::<products::Tf32>;
    "matmul_bf16_bias_gelu": products::matmul_bias_gelu::<bf16>;
    "matmul_f32_bias_gelu": products::matmul_bias_gelu::<f32>;
    "matmul_grouped_bf16": grouped::matmul;
    "matvec_f32": products::matvec::<f32>;
    "matvec_bf16": products::matvec::<bf16>;
    "add_f64": add::<f64>;
    "add_i64": add::<i64>;
    "add_u8": add::<u8>;
    "add_f16": add::<f16>;
    "square_f64": square::<f64>;
    "square_i64": square::<i64>;
    "square_u8": square::<u8>;
    "square_f16": square::<f16>;
    "reduce_sum_f64": reduce_sum::<f64>;
    "reduce_sum_i64": reduce_sum::<i64>;
    "reduce_sum_i32": reduce_sum::<i32>;
    "reduce_sum_u8": reduce_sum::<u8>;
    "reduce_sum_u16": reduce_sum::<u16>;
    "reduce_sum_f16": reduce_sum::<f16>;
    "reduce_max_f64": reduce_max::<f64>;
    "reduce_max_i64": reduce_max::<i64>;
    "reduce_sum_axis_0_u8": squares::sum_axis_0::<u8>;
    "reduce_sum_axes_0_2": squares::sum_axes_0_2::<f32>;
    "scan_inclusive_sum_f64": scan_inclusive_sum::<f64>;
    "scan_inclusive_sum_i64": scan_inclusive_sum::<i64>;
    "scan_inclusive_sum_i32": scan_inclusive_sum::<i32>;
    "scan_inclusive_sum_u8": scan_inclusive_sum::<u8>;
    "scan_inclusive_sum_f16": scan_inclusive_sum::<f16>;
    "scan_exclusive_sum_f64": scan_exclusive_sum::<f64>;
    "scan_exclusive_sum_i64": scan_exclusive_sum::<i64>;
    "transpose_f64": squares::transpose::<f64>;
    "transpose_i64": squares::transpose::<i64>;
    "transpose_u8": squares::transpose::<u8>;
    "transpose_f16": squares::transpose::<f16>;
    "expr_tanh_affine": expressions::tanh_affine;
    "expr_chain": expressions::chain_of_twelve;
    "expr_tanh_affine_f16": expressions::tanh_affine_f16::<false>;
    "expr_tanh_affine_f16_fast": expressions::tanh_affine_f16::<true>;
    "expr_mixed": expressions::mixed;
    "expr_rows": expressions::rows;
    "expr_transposed": expressions::transposed;
    "expr_eight": expressions::eight;
    "expr_sum_squares": expressions::sum_squares;
    "expr_chain_sum": expressions::chain_sum;
    "expr_dot": expressions::dot;
    "expr_variance": expressions::variance;
    "expr_mean_variance": expressions::mean_variance;
    "expr_softmax_256": |bench, n| norms::softmax(bench, n, 256);
    "expr_softmax_1024": |bench, n| norms::softmax(bench, n, 1024);
    "expr_softmax_4096": |bench, n| norms::softmax(bench, n, 4096);
    "expr_softmax_32768": |bench, n| norms::softmax(bench, n, 32_768);
    "expr_layer_norm_1024": |bench, n| norms::layer_norm(bench, n, 1024);
    "expr_layer_norm_4096": |bench, n| norms::layer_norm(bench, n, 4096);
    "expr_rms_norm_4096": |bench, n| norms::rms_norm(bench, n, 4096);
    "expr_sum_axis_0": expressions::sum_axis_0;
    "max_pool": networks::max_pool;
    "max_pool_gradient": networks::max_pool_gradient;
    "average_pool": networks::average_pool;
    "top_k": networks::top_k;
    "sort": sorting::sort;
    "argsort": sorting::argsort;
    "embedding_gradient": |bench, n| networks::embedding_gradient(bench, n, false);
    "embedding_gradient_in_order": |bench, n| networks::embedding_gradient(bench, n, true);
    "attention": |bench, n| attention::forward(bench, n, Form::Plain);
    "attention_causal": |bench, n| attention::forward(bench, n, Form::Causal);
    "attention_window": |bench, n| attention::forward(bench, n, Form::Window);
    "attention_bias": |bench, n| attention::forward(bench, n, Form::Bias);
    "attention_packed": |bench, n| attention::forward(bench, n, Form::Packed);
    "attention_decode": |bench, n| attention::forward(bench, n, Form::Decode);
    "attention_gradients": |bench, n| attention::gradients(bench, n, Form::Plain);
    "attention_gradients_bias": |bench, n| attention::gradients(bench, n, Form::Bias);
    "attention_bias_gradient": attention::bias_gradient;
};

/// Measures an operation that makes an array of `inputs` arrays of random elements; `wanted` gives its elements.
fn elementwise<T: Value>(
    bench: &Bench,
    n: usize,
    inputs: usize,
    launch: impl Fn(&[Vector<T>], &mut Vector<T>) -> warpsmith::Result<()>,
    check: impl FnOnce(&[T]) -> Result<()>,
) -> Result<Measurement> {
    let input = |k: usize| bench.upload(&data::array(n, |i| element::<T>(k, n, i))?);
    let inputs = (0..inputs).map(input).collect::<Result<Vec<_>>>()?;
    let mut out = bench.zeros(n)?;
    let times = bench.times(&mut out, |out| launch(&inputs, out), |out| check(&host(out)?))?;
    let bytes = (inputs.len() + 1) * size_of::<T>();
    Ok(Measurement::new(T::DTYPE, n, bytes, times))
}

/// Element `i` of random array number `k`.
fn element<T: Value>(k: usize, n: usize, i: usize) -> T {
    T::random(bits(k * n + i))
}

fn host<T: Value>(array: &Vector<T>) -> Result<Vec<T>> {
    Ok(array.to_ndarray()?.into_raw_vec_and_offset().0)
}

fn copy(bench: &Bench, n: usize) -> Result<Measurement> {
    elementwise::<f32>(
        bench,
        n,
        1,
        |x, out| out.assign(&x[0]),
        |got| check::every(got, &|i| element(0, n, i)),
    )
}

fn add<T: Value + Number>(bench: &Bench, n: usize) -> Result<Measurement> {
    elementwise::<T>(
        bench,
        n,
        2,
        |x, out| x[0].add_into(&x[1], out),
        |got| check::every(got, &|i| element::<T>(0, n, i).plus(element(1, n, i))),
    )
}

fn square<T: Value + Number>(bench: &Bench, n: usize) -> Result<Measurement> {
    elementwise::<T>(
        bench,
        n,
        1,
        |x, out| x[0].square_into(out),
        |got| check::every(got, &|i| element::<T>(0, n, i).squared()),
    )
}

/// To twice the 2 ulp of `tanh`, which is below 1 here, and the rounding of a result below 4.
fn tanh_of_elements(bench: &Bench, n: usize) -> Result<Measurement> {
    const BOUND: f64 = 3.0 * f32::EPSILON as f64;
    let wanted = |i| (f64::from(element::<f32>(0, n, i)).tanh() * 2.0 + 1.0, BOUND);
    let measured = elementwise::<f32>(
        bench,
        n,
        1,
        |x, out| x[0].map_with_into::<tanh_affine>(out),
        |got| check::every_near(got, &wanted),
    )?;
    Ok(measured.operations_each(3.0))
}

/// In place, as BLAS has it: `y` grows from call to call.
fn axpy(bench: &Bench, n: usize) -> Result<Measurement> {
    const ALPHA: f32 = 0.5;
    let x = bench.upload(&data::array(n, |i| element::<f32>(0, n, i))?)?;
    let mut y = bench.upload(&data::array(n, |i| element::<f32>(1, n, i))?)?;
    let wanted = |i| ALPHA.mul_add(element(0, n, i), element(1, n, i));
    let times = bench.times(&mut y, |y| y.axpy(ALPHA, &x), |y| check::every(&host(y)?, &wanted))?;
    Ok(Measurement::new("f32", n, 3 * size_of::<f32>(), times).operations_each(2.0))
}

/// Measures a reduction, whose result stays on the device.
fn reduction<T: Value, O: warpsmith::Element + PartialEq + std::fmt::Debug>(
    bench: &Bench,
    x: &Array1<T>,
    launch: impl Fn(&Vector<T>, &mut DeviceArray<O, Ix0>) -> warpsmith::Result<()>,
    wanted: impl FnOnce() -> O,
) -> Result<Measurement> {
    let x = bench.upload(x)?;
    let mut out = bench.zeros(())?;
    let times = bench.times(
        &mut out,
        |out| launch(&x, out),
        |out| check::one(&out.to_ndarray()?.into_scalar(), &wanted()),
    )?;
    Ok(Measurement::new(T::DTYPE, x.len(), size_of::<T>(), times))
}

fn terms<T: Value>(n: usize) -> Result<Array1<T>> {
    data::array(n, |i| T::of_sum(T::term(bits(i))))
}

fn reduce_sum<T: Value + Number + Num<Total: Value>>(bench: &Bench, n: usize) -> Result<Measurement> {
    let wanted = || T::Total::of_sum(check::sum_of_terms::<T>(0..n));
    reduction(bench, &terms::<T>(n)?, |x, out| x.sum_into(out), wanted)
}

fn reduce_max<T: Value + Number + PartialOrd>(bench: &Bench, n: usize) -> Result<Measurement> {
    let elements = (0..n).into_par_iter().map(|i| element::<T>(0, n, i));
    let greater = |a: T, b: T| if b > a { b } else { a };
    let wanted = || elements.reduce(|| element(0, n, 0), greater);
    reduction(
        bench,
        &data::array(n, |i| element(0, n, i))?,
        |x, out| x.max_into(out),
        wanted,
    )
}

/// Of equal elements the first; an element grows with the upper 24 of its bits.
fn reduce_argmin(bench: &Bench, n: usize) -> Result<Measurement> {
    let wanted = || {
        let first = (0..n).into_par_iter().map(|i| (bits(i) >> 8, i)).min();
        first.map_or(0, |(_, i)| i as u64)
    };
    reduction(
        bench,
        &data::array(n, |i| element::<f32>(0, n, i))?,
        |x, out| x.argmin_into(out),
        wanted,
    )
}

/// Measures a scan by sums.
fn scan<T: Value + Num<Total: Value>>(
    bench: &Bench,
    n: usize,
    inclusive: bool,
    launch: impl Fn(&Vector<T>, &mut Vector<T::Total>) -> warpsmith::Result<()>,
) -> Result<Measurement> {
    let x = bench.upload(&terms::<T>(n)?)?;
    let mut out = bench.zeros(n)?;
    let times = bench.times(
        &mut out,
        |out| launch(&x, out),
        |out| check::prefix_sums(&host(out)?, inclusive),
    )?;
    let bytes = size_of::<T>() + size_of::<T::Total>();
    Ok(Measurement::new(T::DTYPE, n, bytes, times))
}

fn scan_inclusive_sum<T: Value + Number + Num<Total: Value>>(bench: &Bench, n: usize) -> Result<Measurement> {
    scan::<T>(bench, n, true, |x, out| x.inclusive_scan_into::<Sum>(out))
}

fn scan_exclusive_sum<T: Value + Number + Num<Total: Value>>(bench: &Bench, n: usize) -> Result<Measurement> {
    scan::<T>(bench, n, false, |x, out| x.exclusive_scan_into::<Sum>(out))
}

fn scan_blelloch_sum(bench: &Bench, n: usize) -> Result<Measurement> {
    scan::<f32>(bench, n, true, |x, out| {
        x.inclusive_scan_by_into::<Sum>(ScanAlgorithm::Blelloch, out)
    })
}

/// A kernel of one's own whose blocks meet at the grid's barrier: they sum the elements, and then add the sum to each.
fn grid_sync(bench: &Bench, n: usize) -> Result<Measurement> {
    let x = bench.upload(&data::array(n, bits)?)?;
    let mut barrier = DeviceGridBarrier::new(&bench.stream)?;
    let config = bench.device.cooperative_config::<add_sum>(THREADS as u32, 0)?;
    let mut sums = bench.zeros(config.grid.x as usize)?;
    let mut out = bench.zeros(n)?;
    let launch = |out: &mut Vector<u32>| {
        let args = (&mut barrier, &x, &mut sums, out);
        bench.stream.launch::<add_sum>(&config, args)
    };
    let times = bench.times(&mut out, launch, |out| {
        let sum = (0..n).into_par_iter().map(bits).reduce(|| 0, u32::wrapping_add);
        check::every(&out.to_ndarray()?.to_vec(), &|i| bits(i).wrapping_add(sum))
    })?;
    Ok(Measurement::new("u32", n, 2 * size_of::<u32>(), times).operations_each(2.0))
}

/// Measures a histogram of 256 bins from 0 to 256, of elements that lie in the bin that `bin` gives.
fn histogram<T: Histogram>(
    bench: &Bench,
    n: usize,
    dtype: &'static str,
    element: impl Fn(usize) -> T + Sync + Send,
    bin: impl Fn(usize) -> u8 + Sync,
) -> Result<Measurement> {
    let x = bench.upload(&data::array(n, element)?)?;
    let mut counts = bench.zeros(256)?;
    let count = |mut counts: Vec<u64>, i| {
        counts[usize::from(bin(i))] += 1;
        counts
    };
    let both = |a: Vec<u64>, b: Vec<u64>| a.iter().zip(&b).map(|(a, b)| a + b).collect();
    let none = || vec![0; 256];
    let times = bench.times(
        &mut counts,
        |counts| x.histogram_into(0.0..=256.0, counts),
        |counts: &Vector<u64>| {
            let wanted: Vec<u64> = (0..n).into_par_iter().fold(none, count).reduce(none, both);
            check::every(&counts.to_ndarray()?.to_vec(), &|bin| wanted[bin])
        },
    )?;
    Ok(Measurement::new(dtype, n, size_of::<T>(), times))
}
