// SPDX-License-Identifier: MIT OR Apache-2.0
//! The demo's matrices: transposition and products.

use anyhow::Result;
use ndarray::{Array2, Ix2};
use warpsmith::ops::{MatMul, MatVec};
use warpsmith::{DeviceArray, DeviceArrayRef};

use super::check::{self, Deviation};
use super::data::{Operand, Vector, generator};
use super::reference::Reference;
use super::rows::{Demo, Row};
use crate::ops::BinaryOp;

/// Rows of the matrix that is transposed: no multiple of any tile.
const ROWS: usize = 1000;

/// The vector as a matrix of [`ROWS`] rows, transposed.
pub fn transpose<T: Reference>(demo: &mut Demo, x: &Operand<T>) -> Result<()> {
    let rows = ROWS.min(x.host.len());
    let columns = x.host.len() / rows;
    let host = x
        .host
        .slice(ndarray::s![..rows * columns])
        .to_shape((rows, columns))?
        .to_owned();
    let device = DeviceArray::from_ndarray(&demo.stream, &host)?;
    let mut out = DeviceArray::zeros(&demo.stream, (columns, rows))?;
    let time = demo.measure("transpose", &mut || Ok(device.transpose_into(&mut out)?))?;
    let want = host.t().as_standard_layout().to_owned();
    demo.push(Row {
        kernel: "transpose".into(),
        dtype: T::DTYPE.name(),
        size: format!("{rows} × {columns}"),
        time,
        bytes: 2 * host.len() * size_of::<T>(),
        deviation: check::exact(&out.to_ndarray()?, &want),
    });
    Ok(())
}

/// The product of two square matrices, of a matrix transposed and another, and of a matrix and a vector.
pub fn matmul<T: Reference + MatMul + MatVec>(demo: &mut Demo, is_simulator: bool) -> Result<()> {
    let n = if is_simulator { 129 } else { 1025 };
    let mut rng = generator();
    let mut random = || Array2::from_shape_simple_fn((n, n), || T::random(&mut rng));
    let (a, b) = (random(), random());
    let (x, y) = (
        DeviceArray::from_ndarray(&demo.stream, &a)?,
        DeviceArray::from_ndarray(&demo.stream, &b)?,
    );
    let mut out = DeviceArray::zeros(&demo.stream, (n, n))?;
    product(demo, "matmul", &a, &x, (&b, &y), &mut out)?;
    let transposed = a.t().as_standard_layout().to_owned();
    product(demo, "matmul, transposed", &transposed, &x.t(), (&b, &y), &mut out)?;

    let (column, mut out): (_, Vector<T>) = (b.column(0).to_owned(), DeviceArray::zeros(&demo.stream, n)?);
    let vector = DeviceArray::from_ndarray(&demo.stream, &column)?;
    let time = demo.measure("matvec", &mut || Ok(x.matvec_into(&vector, &mut out)?))?;
    let got = out.to_ndarray()?.insert_axis(ndarray::Axis(1));
    let column = column.insert_axis(ndarray::Axis(1));
    push_row(demo, "matvec", time, &a, &column, &got);
    Ok(())
}

fn product<T: Reference + MatMul + MatVec>(
    demo: &mut Demo,
    kernel: &str,
    a: &Array2<T>,
    x: &DeviceArrayRef<T, Ix2>,
    (b, y): (&Array2<T>, &DeviceArray<T, Ix2>),
    out: &mut DeviceArray<T, Ix2>,
) -> Result<()> {
    let time = demo.measure(kernel, &mut || Ok(x.matmul_into(y, out)?))?;
    let got = out.to_ndarray()?;
    push_row(demo, kernel, time, a, b, &got);
    Ok(())
}

fn push_row<T: Reference>(
    demo: &mut Demo,
    kernel: &str,
    time: std::time::Duration,
    a: &Array2<T>,
    b: &Array2<T>,
    got: &Array2<T>,
) {
    let ((m, k), n) = (a.dim(), b.ncols());
    demo.push(Row {
        kernel: kernel.into(),
        dtype: T::DTYPE.name(),
        size: format!("{m} × {k} × {n}"),
        time,
        bytes: (a.len() + b.len() + got.len()) * size_of::<T>(),
        deviation: deviation(a, b, got),
    });
}

/// Against the product in `f64`, to `k u Σ|a b|` (N. Higham, "Accuracy and Stability of Numerical Algorithms", 3.5),
/// and as much again of the reference's own; of integers exactly.
fn deviation<T: Reference>(a: &Array2<T>, b: &Array2<T>, got: &Array2<T>) -> Deviation {
    if !T::DTYPE.is_float() {
        let want = Array2::from_shape_fn(got.dim(), |(i, j)| {
            let products = a
                .row(i)
                .into_iter()
                .zip(b.column(j))
                .map(|(&a, &b)| T::binary(BinaryOp::Mul, a, b));
            products
                .reduce(|sum, x| T::binary(BinaryOp::Add, sum, x))
                .unwrap_or(got[(i, j)])
        });
        return check::exact(got, &want);
    }
    let (a, b) = (a.mapv(|x| x.nearest_f64()), b.mapv(|x| x.nearest_f64()));
    let (want, magnitude) = (a.dot(&b), a.mapv(f64::abs).dot(&b.mapv(f64::abs)));
    let sums = got
        .iter()
        .zip(&want)
        .zip(&magnitude)
        .map(|((&got, &want), &magnitude)| (got, want, magnitude));
    check::sums(sums, 2.0 * a.ncols() as f64)
}
