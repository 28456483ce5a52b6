// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rows of expressions: elementwise ones, and reductions of what they compute. Inputs are normal numbers.

use anyhow::Result;
use ndarray::{Array2, Axis, Ix0, Ix1, Ix2};
use rayon::prelude::*;
use warpsmith::expr::{self, Expr};
use warpsmith::{DeviceArray, f16};

use super::check;
use super::data::{self, bits, normal};
use super::measure::{Bench, Measurement};
use super::squares::host;

pub type Vector = DeviceArray<f32, Ix1>;
pub type Matrix = DeviceArray<f32, Ix2>;

/// The unit roundoff of `f32`, with a little for the second order.
pub const UNIT: f64 = 1.01 * f32::EPSILON as f64 / 2.0;

/// Whose distances from the elements are squared.
const CENTRE: f32 = 0.5;

/// By how much `tanh(x) · 2 + 1` may be off: twice the 2 ulp of `tanh`, and the rounding of a result below 4.
const OF_TANH_AFFINE: f64 = 6.0 * UNIT;

/// And the chain: what `e^y` is of is off by 5u, itself so by 7u of it, the root by 6u, and the logarithm, below 1, by 7u,
/// of which a quarter counts. A sum `s` is off by `s u`, less than u behind `tanh`, which is flat where it is large, and
/// has 2 ulp of its own.
const OF_CHAIN: f64 = 5.0 * UNIT;

/// The normal number of index `i`.
pub fn number(i: usize) -> f32 {
    normal(i) as f32
}

/// The normal numbers from number `first` on.
pub fn vector(bench: &Bench, first: usize, len: usize) -> Result<Vector> {
    bench.upload(&data::array(len, |i| number(first + i))?)
}

/// The same as a matrix.
pub fn matrix(bench: &Bench, first: usize, (rows, columns): (usize, usize)) -> Result<Matrix> {
    let numbers: Array2<f32> =
        data::array(rows * columns, |i| number(first + i))?.into_shape_with_order((rows, columns))?;
    bench.upload(&numbers)
}

/// The most additions one after another in a sum of so many, as `Expr::sum` says.
pub fn additions(len: usize) -> f64 {
    (len as f64 / 1024.0 + 40.0).min(1100.0)
}

/// As many arrays of `n` numbers, one behind the other.
fn vectors(bench: &Bench, n: usize, count: usize) -> Result<Vec<Vector>> {
    (0..count).map(|k| vector(bench, k * n, n)).collect()
}

/// What these arrays have at `i`.
fn at<const N: usize>(n: usize, i: usize) -> [f64; N] {
    std::array::from_fn(|k| number(k * n + i).into())
}

/// Measures an expression of `N` arrays. `wanted` gives an element of the elements there, and by how much it may be off.
fn elementwise<const N: usize>(
    bench: &Bench,
    n: usize,
    expression: impl for<'a> Fn(&'a [Vector]) -> Expr<'a, f32, Ix1>,
    wanted: impl Fn([f64; N]) -> (f64, f64) + Sync,
) -> Result<Measurement> {
    let inputs = vectors(bench, n, N)?;
    let mut out: Vector = bench.zeros(n)?;
    let times = bench.times(
        &mut out,
        |out| expression(&inputs).eval_into(out),
        |out| check::every_near(&host(out)?, &|i| wanted(at(n, i))),
    )?;
    Ok(Measurement::new("f32", n, (N + 1) * size_of::<f32>(), times))
}

/// Measures a sum over `N` arrays, whose terms `term` gives in the same way.
fn sum<const N: usize>(
    bench: &Bench,
    n: usize,
    expression: impl for<'a> Fn(&'a [Vector]) -> Expr<'a, f32, Ix0>,
    term: impl Fn([f64; N]) -> (f64, f64) + Sync,
) -> Result<Measurement> {
    let inputs = vectors(bench, n, N)?;
    let mut out: DeviceArray<f32, Ix0> = bench.zeros(())?;
    let times = bench.times(
        &mut out,
        |out| expression(&inputs).eval_into(out),
        |out| {
            let terms = (0..n).into_par_iter().map(|i| {
                let (term, bound) = term(at(n, i));
                [term, term.abs(), bound]
            });
            let add = |a: [f64; 3], b: [f64; 3]| std::array::from_fn(|k| a[k] + b[k]);
            let [sum, magnitude, of_terms] = terms.reduce(|| [0.0; 3], add);
            near_one(out, sum, of_terms + additions(n) * UNIT * magnitude)
        },
    )?;
    Ok(Measurement::new("f32", n, N * size_of::<f32>(), times))
}

fn near_one(got: &DeviceArray<f32, Ix0>, wanted: f64, bound: f64) -> Result<()> {
    check::near(format_args!("0"), got.to_ndarray()?.into_scalar().into(), wanted, bound)
}

/// Twelve operations.
fn chain(x: &Vector) -> Expr<'_, f32, Ix1> {
    let y = ((x.expr().sin() * 1.5 + 0.5).exp() - 1.0).abs();
    ((y + 1.0).sqrt().ln() * 0.25 + x).tanh()
}

fn chain_of([x]: [f64; 1]) -> (f64, f64) {
    let y = ((x.sin() * 1.5 + 0.5).exp() - 1.0).abs();
    (((y + 1.0).sqrt().ln() * 0.25 + x).tanh(), OF_CHAIN)
}

pub fn tanh_affine(bench: &Bench, n: usize) -> Result<Measurement> {
    let wanted = |[x]: [f64; 1]| (x.tanh() * 2.0 + 1.0, OF_TANH_AFFINE);
    let measured = elementwise(bench, n, |x| x[0].expr().tanh() * 2.0 + 1.0, wanted)?;
    Ok(measured.operations_each(3.0))
}

pub fn chain_of_twelve(bench: &Bench, n: usize) -> Result<Measurement> {
    Ok(elementwise(bench, n, |x| chain(&x[0]), chain_of)?.operations_each(12.0))
}

/// `tanh` is rounded to 2⁻¹², and the result, below 4, to 2⁻¹⁰; that of [`fast_math`](warpsmith::expr::Expr::fast_math) alone.
pub fn tanh_affine_f16<const FAST: bool>(bench: &Bench, n: usize) -> Result<Measurement> {
    const BOUND: f64 = 2.0 / 4096.0 + 1.0 / 1024.0 + OF_TANH_AFFINE;
    let element = |i| f16::from_f64(normal(i));
    let x = bench.upload(&data::array(n, element)?)?;
    let mut out: DeviceArray<f16, Ix1> = bench.zeros(n)?;
    let times = bench.times(
        &mut out,
        |out| {
            let y = x.expr().tanh() * f16::from_f32(2.0) + f16::ONE;
            let y = if FAST { y.fast_math() } else { y };
            y.eval_into(out)
        },
        |out| {
            let wanted = |i| (element(i).to_f64().tanh() * 2.0 + 1.0, BOUND);
            check::every_near(&host(out)?, &wanted)
        },
    )?;
    Ok(Measurement::new("f16", n, 2 * size_of::<f16>(), times).operations_each(3.0))
}

/// Of `f32` the sum with `f16` and `i32` where a mask of bytes says so.
pub fn mixed(bench: &Bench, n: usize) -> Result<Measurement> {
    let half = |i: usize| f16::from_f64(normal(n + i));
    let integer = |i: usize| (bits(i) % 201) as i32 - 100;
    let mask = |i: usize| (bits(n + i) % 2) as u8;
    let (x, y) = (vector(bench, 0, n)?, bench.upload(&data::array(n, half)?)?);
    let (z, mask_on_device) = (
        bench.upload(&data::array(n, integer)?)?,
        bench.upload(&data::array(n, mask)?)?,
    );
    let mut out: Vector = bench.zeros(n)?;
    let times = bench.times(
        &mut out,
        |out| {
            let holds = mask_on_device.expr().not_equal(0);
            holds.select(&x + &y + &z, &x).eval_into(out)
        },
        |out| {
            let wanted = |i| {
                let (x, y, z) = (f64::from(number(i)), half(i).to_f64(), f64::from(integer(i)));
                match mask(i) {
                    0 => (x, 0.0),
                    _ => (x + y + z, UNIT * (2.0 * (x + y).abs() + z.abs())),
                }
            };
            check::every_near(&host(out)?, &wanted)
        },
    )?;
    let bytes = 2 * size_of::<f32>() + size_of::<f16>() + size_of::<i32>() + size_of::<u8>();
    Ok(Measurement::new("f32", n, bytes, times).operations_each(3.0))
}

pub fn eight(bench: &Bench, n: usize) -> Result<Measurement> {
    let wanted = |x: [f64; 8]| {
        let products = || x.chunks(2).map(|pair| pair[0] * pair[1]);
        // Rounded once, and then in up to three sums.
        (products().sum(), 4.0 * UNIT * products().map(f64::abs).sum::<f64>())
    };
    let measured = elementwise(
        bench,
        n,
        |x| &x[0] * &x[1] + &x[2] * &x[3] + &x[4] * &x[5] + &x[6] * &x[7],
        wanted,
    )?;
    Ok(measured.operations_each(7.0))
}

/// A row times a square matrix's rows, and a column added to its columns.
pub fn rows(bench: &Bench, n: usize) -> Result<Measurement> {
    let side = n.isqrt();
    let n = side * side;
    let x = matrix(bench, 0, (side, side))?;
    let (row, column) = (vector(bench, n, side)?, matrix(bench, n + side, (side, 1))?);
    let mut out: Matrix = bench.zeros((side, side))?;
    let times = bench.times(
        &mut out,
        |out| (&x * &row + &column).eval_into(out),
        |out| {
            check::every_near(&host(out)?, &|i| {
                let product = f64::from(number(i)) * f64::from(number(n + i % side));
                let summand = f64::from(number(n + side + i / side));
                (product + summand, UNIT * (2.0 * product.abs() + summand.abs()))
            })
        },
    )?;
    let measured = Measurement::new("f32", n, 0, times).of_shape(&[side, side]);
    Ok(measured.moving(2 * n + 2 * side).operations_each(2.0))
}

pub fn transposed(bench: &Bench, n: usize) -> Result<Measurement> {
    let side = n.isqrt();
    let n = side * side;
    let (x, y) = (matrix(bench, 0, (side, side))?, matrix(bench, n, (side, side))?);
    let mut out: Matrix = bench.zeros((side, side))?;
    let times = bench.times(
        &mut out,
        |out| (&x + &y.t()).eval_into(out),
        |out| {
            let wanted = |i| number(i) + number(n + i % side * side + i / side);
            check::every(&host(out)?, &wanted)
        },
    )?;
    Ok(Measurement::new("f32", n, 3 * size_of::<f32>(), times).of_shape(&[side, side]))
}

/// The square of the distance from the centre, which a difference is off by twice, and itself once.
fn square_of(x: f64) -> (f64, f64) {
    let square = (x - f64::from(CENTRE)).powi(2);
    (square, 3.0 * UNIT * square)
}

pub fn sum_squares(bench: &Bench, n: usize) -> Result<Measurement> {
    let measured = sum(bench, n, |x| (x[0].expr() - CENTRE).square().sum(), |[x]| square_of(x))?;
    Ok(measured.operations_each(3.0))
}

pub fn chain_sum(bench: &Bench, n: usize) -> Result<Measurement> {
    Ok(sum(bench, n, |x| chain(&x[0]).sum(), chain_of)?.operations_each(13.0))
}

pub fn dot(bench: &Bench, n: usize) -> Result<Measurement> {
    let term = |[x, y]: [f64; 2]| (x * y, UNIT * (x * y).abs());
    Ok(sum(bench, n, |x| (&x[0] * &x[1]).sum(), term)?.operations_each(2.0))
}

/// Mean and variance of the first `n` numbers, each with its bound.
fn moments(n: usize) -> [(f64, f64); 2] {
    let mean_of = |of: &(dyn Fn(f64) -> f64 + Sync)| {
        let numbers = (0..n).into_par_iter().map(|i| of(number(i).into()));
        numbers.sum::<f64>() / n as f64
    };
    let mean = mean_of(&|x| x);
    let of_mean = (additions(n) + 1.0) * UNIT * mean_of(&f64::abs);
    let variance = mean_of(&|x| (x - mean).powi(2));
    // Squares about another centre have the mean that is larger by the square of the distance.
    let of_variance = (additions(n) + 4.0) * UNIT * variance + of_mean.powi(2);
    [(mean, of_mean), (variance, of_variance)]
}

pub fn variance(bench: &Bench, n: usize) -> Result<Measurement> {
    let x = vector(bench, 0, n)?;
    let mut out = bench.zeros(())?;
    let times = bench.times(
        &mut out,
        |out| x.expr().variance(0).eval_into(out),
        |out| {
            let [_, (wanted, bound)] = moments(n);
            near_one(out, wanted, bound)
        },
    )?;
    Ok(Measurement::new("f32", n, size_of::<f32>(), times).operations_each(4.0))
}

/// Both at once.
pub fn mean_variance(bench: &Bench, n: usize) -> Result<Measurement> {
    let x = vector(bench, 0, n)?;
    let mut out = None;
    let times = bench.times(
        &mut out,
        |out| {
            *out = Some(expr::eval((&x.expr().mean(), &x.expr().variance(0)))?);
            Ok(())
        },
        |out| {
            let (mean, variance) = out.as_ref().expect("the call has been made");
            let [(wanted, bound), (wanted_variance, bound_of_variance)] = moments(n);
            near_one(mean, wanted, bound)?;
            near_one(variance, wanted_variance, bound_of_variance)
        },
    )?;
    Ok(Measurement::new("f32", n, size_of::<f32>(), times).operations_each(4.0))
}

/// The sums of squares of a square matrix's columns, in any order.
pub fn sum_axis_0(bench: &Bench, n: usize) -> Result<Measurement> {
    let side = n.isqrt();
    let x = matrix(bench, 0, (side, side))?;
    let mut out: Vector = bench.zeros(side)?;
    let times = bench.times(
        &mut out,
        |out| (x.expr() - CENTRE).square().sum_axis(Axis(0)).eval_into(out),
        |out| {
            check::every_near(&host(out)?, &|column| {
                let squares = (0..side).map(|row| square_of(number(row * side + column).into()).0);
                let sum: f64 = squares.sum();
                (sum, (side as f64 + 3.0) * UNIT * sum)
            })
        },
    )?;
    let measured = Measurement::new("f32", side * side, 0, times).of_shape(&[side, side]);
    Ok(measured.moving(side * side + side).operations_each(3.0))
}
