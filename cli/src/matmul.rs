// SPDX-License-Identifier: MIT OR Apache-2.0
//! `warpsmith matmul`: products of matrices, of stacks of matrices, and of a matrix and a vector.

use std::path::PathBuf;

use anyhow::{Result, bail, ensure};
use clap::Args;
use ndarray::{ArrayD, Dimension, Ix1, Ix2, Ix3};
use warpsmith::ops::{MatMul, MatVec, Precision};
use warpsmith::{Device, DeviceArray, F8E4M3, f16};

use crate::job::Job;
use crate::npy::NpyFile;
use crate::scalar::{Dtype, Scalar};
use crate::session::Session;

#[derive(Args)]
pub struct MatmulArgs {
    /// A .npy file: a matrix, or a stack of matrices (three axes).
    #[arg(value_name = "A.npy")]
    a: PathBuf,
    /// A .npy file of the same element type: a matrix, a vector, or a stack of matrices.
    #[arg(value_name = "B.npy")]
    b: PathBuf,
    /// The .npy file that is written.
    #[arg(short, long, value_name = "C.npy")]
    output: PathBuf,
    /// How precisely matrices of f32 are multiplied: full; tf32, which rounds them to 11 bits for the tensor cores; or fp8,
    /// which rounds them to 8-bit floats of 4 bits, scaled so that the largest number of each file is the largest of those.
    #[arg(long, value_name = "full|tf32|fp8", default_value = "full", value_parser = parse_precision)]
    precision: Rounding,
}

/// `warpsmith matmul A.npy B.npy -o C.npy`
pub fn run(session: &Session, args: &MatmulArgs) -> Result<()> {
    let (a, b) = (NpyFile::open(&args.a)?, NpyFile::open(&args.b)?);
    ensure!(
        a.stored == b.stored,
        "matmul: {} is {} and {} is {}, wanted the same element type",
        a.name(),
        a.stored,
        b.name(),
        b.stored
    );
    ensure_shapes(a.shape(), b.shape())?;
    let (stored, dtype) = (a.stored, a.stored.dtype());
    ensure!(
        matches!(dtype, Dtype::F16 | Dtype::F32 | Dtype::F64 | Dtype::I32),
        "matmul of {stored}: wanted f16, f32, f64, i8, i16 or i32 (`map cast:f32` makes one)"
    );
    let of_matrices = b.shape().len() > 1;
    ensure!(
        args.precision == Rounding::Of(Precision::Full) || (dtype == Dtype::F32 && of_matrices),
        "matmul --precision {}: given {stored}{}, wanted matrices of f32",
        name(args.precision),
        if of_matrices { "" } else { " and a vector" }
    );
    let job = Job::open(session, "matmul", Some(&args.output))?.stored_as(stored);
    let device = session.open_device()?;
    match (dtype, args.precision) {
        (Dtype::F16, _) => matmul(job, &device, &a, &b, &Products::<f16>::ALL),
        (Dtype::F64, _) => matmul(job, &device, &a, &b, &Products::<f64>::ALL),
        (Dtype::I32, _) => matmul(job, &device, &a, &b, &Products::<i32>::ALL),
        (_, Rounding::Of(Precision::Full)) => matmul(job, &device, &a, &b, &Products::<f32>::ALL),
        (_, Rounding::Of(Precision::Tf32)) => matmul(job, &device, &a, &b, &Products::TF32),
        (_, Rounding::Fp8) => matmul(job, &device, &a, &b, &Products::FP8),
    }
}

/// How the elements are rounded ahead.
#[derive(Clone, Copy, PartialEq)]
enum Rounding {
    Of(Precision),
    Fp8,
}

/// What `--precision` calls it.
fn name(precision: Rounding) -> &'static str {
    match precision {
        Rounding::Of(Precision::Full) => "full",
        Rounding::Of(Precision::Tf32) => "tf32",
        Rounding::Fp8 => "fp8",
    }
}

fn parse_precision(text: &str) -> Result<Rounding, String> {
    let all = [
        Rounding::Of(Precision::Full),
        Rounding::Of(Precision::Tf32),
        Rounding::Fp8,
    ];
    let mut all = all.into_iter();
    all.find(|&precision| name(precision) == text)
        .ok_or_else(|| "wanted full, tf32 or fp8".into())
}

/// An error unless the product of arrays of these shapes is defined.
fn ensure_shapes(a: &[usize], b: &[usize]) -> Result<()> {
    match (a, b) {
        (&[_, k], &[l, _] | &[l]) if k == l => Ok(()),
        (&[p, _, k], &[q, l, _]) if k == l && (p == q || p == 1 || q == 1) => Ok(()),
        _ => bail!("matmul: given shapes {a:?} and {b:?}, wanted m × k and k × n, m × k and k, or stacks of the first"),
    }
}

/// A product made on the device, of two arrays with so many axes.
type Product<T, A, B> = fn(&DeviceArray<T, A>, &DeviceArray<T, B>, &mut DeviceArray<T, B>) -> warpsmith::Result<()>;

/// The products of a type.
struct Products<T: Scalar> {
    matvec: Product<T, Ix2, Ix1>,
    matmul: Product<T, Ix2, Ix2>,
    batched: Product<T, Ix3, Ix3>,
}

impl<T: Scalar + MatMul + MatVec> Products<T> {
    const ALL: Self = Self {
        matvec: |a, x, out| a.matvec_into(x, out),
        matmul: |a, b, out| a.matmul_into(b, out),
        batched: |a, b, out| a.batched_matmul_into(b, out),
    };
}

impl Products<f32> {
    const TF32: Self = Self {
        matmul: |a, b, out| out.gemm_with(1.0, a, b, 0.0, Precision::Tf32),
        batched: |a, b, out| out.batched_gemm_with(1.0, a, b, 0.0, Precision::Tf32),
        ..Self::ALL
    };
}

/// The elements as 8-bit floats, and what these are to be multiplied with: so that the one of the greatest magnitude is the
/// greatest finite one.
fn quantized<D: Dimension>(
    x: &DeviceArray<f32, D>,
) -> warpsmith::Result<(DeviceArray<F8E4M3, D>, DeviceArray<f32, Ix1>)> {
    // NaN and infinities make NaN of all.
    let largest = if x.is_empty() { 0.0 } else { x.abs()?.max()? };
    let scale = if largest == 0.0 {
        1.0
    } else {
        largest / F8E4M3::MAX.to_f32()
    };
    let scales = DeviceArray::from_elem(x.stream(), 1, scale)?;
    Ok((x.mul_scalar(1.0 / scale)?.cast::<F8E4M3>()?, scales))
}

impl Products<f32> {
    const FP8: Self = Self {
        matmul: |a, b, out| {
            let ((a, of_a), (b, of_b)) = (quantized(a)?, quantized(b)?);
            a.scaled_matmul(&b).scale_a(&of_a).scale_b(&of_b).compute_into(out)
        },
        batched: |a, b, out| {
            let ((a, of_a), (b, of_b)) = (quantized(a)?, quantized(b)?);
            a.scaled_batched_matmul(&b)
                .scale_a(&of_a)
                .scale_b(&of_b)
                .compute_into(out)
        },
        ..Self::ALL
    };
}

fn matmul<T: Scalar>(job: Job, device: &Device, a: &NpyFile, b: &NpyFile, products: &Products<T>) -> Result<()> {
    let (x, y) = (a.read::<T>(device)?, b.read::<T>(device)?);
    match (a.shape(), b.shape()) {
        (&[m, _], &[_]) => {
            let copy_in = || Ok((upload::<T, Ix2>(device, &x)?, upload::<T, Ix1>(device, &y)?));
            job.run(device, m, copy_in, |(a, x), out| Ok((products.matvec)(a, x, out)?))
        }
        (&[m, _], &[_, n]) => {
            let copy_in = || Ok((upload::<T, Ix2>(device, &x)?, upload::<T, Ix2>(device, &y)?));
            job.run(device, (m, n), copy_in, |(a, b), out| Ok((products.matmul)(a, b, out)?))
        }
        (&[p, m, _], &[q, _, n]) => {
            let copy_in = || Ok((upload::<T, Ix3>(device, &x)?, upload::<T, Ix3>(device, &y)?));
            let stack = if p == 1 { q } else { p };
            job.run(device, (stack, m, n), copy_in, |(a, b), out| {
                Ok((products.batched)(a, b, out)?)
            })
        }
        _ => ensure_shapes(a.shape(), b.shape()),
    }
}

/// Copies an array to the device that has as many axes as `D`.
fn upload<T: Scalar, D: Dimension>(device: &Device, array: &ArrayD<T>) -> warpsmith::Result<DeviceArray<T, D>> {
    let array = array
        .view()
        .into_dimensionality()
        .expect("as many axes as were asked for");
    DeviceArray::from_ndarray(device.default_stream(), &array)
}
