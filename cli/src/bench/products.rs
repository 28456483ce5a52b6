// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rows of products of matrices: squares of about as many elements as are asked for, of normal numbers.

use anyhow::Result;
use ndarray::{Array2, Ix1, Ix2};
use warpsmith::ops::{MatMul, MatVec, Precision, Real};
use warpsmith::{DeviceArray, Element, bf16, f16};

use super::check;
use super::data::{self, normal};
use super::measure::{Bench, Limit, Measurement};

/// The longest side of a matrix that is multiplied; on the simulated GPU the other.
const MOST: usize = 8192;
const MOST_SIMULATED: usize = 64;

/// The side of squares of about `n` elements.
pub fn side(bench: &Bench, n: usize) -> usize {
    n.isqrt().min(match bench.is_simulator {
        true => MOST_SIMULATED,
        false => MOST,
    })
}

/// A kind of products that is measured.
pub trait Factor {
    /// What is multiplied.
    type Element: Element;

    const DTYPE: &'static str;

    /// A sum of `k` products is off by at most `((k + 2) · OF_TERM + OF_FACTORS) · Σ|a b|`, to first order.
    const OF_TERM: f64;

    /// By how much of itself a product is off when its factors are rounded ahead.
    const OF_FACTORS: f64;

    /// By how much of itself the sum is off when it is stored: the unit roundoff, where it is rounded then.
    const OF_RESULT: f64;

    fn of(x: f64) -> Self::Element;
    fn to_f64(x: Self::Element) -> f64;

    fn multiply(a: &Matrix<Self>, b: &Matrix<Self>, out: &mut Matrix<Self>) -> warpsmith::Result<()>;
}

type Matrix<T> = DeviceArray<<T as Factor>::Element, Ix2>;

impl Factor for f32 {
    type Element = f32;

    const DTYPE: &'static str = "f32";
    // N. Higham, "Accuracy and Stability of Numerical Algorithms", 3.5.
    const OF_TERM: f64 = f32::EPSILON as f64 / 2.0;
    const OF_FACTORS: f64 = 0.0;
    const OF_RESULT: f64 = 0.0;

    fn of(x: f64) -> f32 {
        x as f32
    }

    fn to_f64(x: f32) -> f64 {
        x.into()
    }

    fn multiply(a: &Matrix<Self>, b: &Matrix<Self>, out: &mut Matrix<Self>) -> warpsmith::Result<()> {
        a.matmul_into(b, out)
    }
}

// A tensor core adds products with at least 23 bits, and truncates (M. Fasi et al., "Numerical behavior of NVIDIA tensor
// cores", 2021). Twice that leaves room for the second order.
const OF_TENSOR_CORE: f64 = 2.0 * f32::EPSILON as f64;

/// `f32` rounded to TF32, where there are tensor cores.
pub enum Tf32 {}

impl Factor for Tf32 {
    type Element = f32;

    const DTYPE: &'static str = "tf32";
    const OF_TERM: f64 = OF_TENSOR_CORE;
    // 2⁻¹¹ of each, and a little for the second order.
    const OF_FACTORS: f64 = 1.01 / 1024.0;
    const OF_RESULT: f64 = 0.0;

    fn of(x: f64) -> f32 {
        x as f32
    }

    fn to_f64(x: f32) -> f64 {
        x.into()
    }

    fn multiply(a: &Matrix<Self>, b: &Matrix<Self>, out: &mut Matrix<Self>) -> warpsmith::Result<()> {
        out.gemm_with(1.0, a, b, 0.0, Precision::Tf32)
    }
}

macro_rules! halves {
    ($($type:ident with unit roundoff $roundoff:expr;)*) => {$(
        impl Factor for $type {
            type Element = $type;

            const DTYPE: &'static str = stringify!($type);
            const OF_TERM: f64 = OF_TENSOR_CORE;
            const OF_FACTORS: f64 = 0.0;
            const OF_RESULT: f64 = $roundoff;

            fn of(x: f64) -> $type {
                <$type>::from_f64(x)
            }

            fn to_f64(x: $type) -> f64 {
                x.to_f64()
            }

            fn multiply(a: &Matrix<Self>, b: &Matrix<Self>, out: &mut Matrix<Self>) -> warpsmith::Result<()> {
                a.matmul_into(b, out)
            }
        }
    )*};
}

halves! {
    f16 with unit roundoff 1.0 / 2048.0;
    bf16 with unit roundoff 1.0 / 256.0;
}

/// By how much an element may be off that is a sum of `k` products, of which `magnitude` is the sum of the absolute
/// values.
pub fn bound<T: Factor>(k: usize, wanted: f64, magnitude: f64) -> f64 {
    let of_sum = ((k + 2) as f64 * T::OF_TERM + T::OF_FACTORS) * magnitude;
    // At the end what rounding to a subnormal f16 is off by at most.
    of_sum + T::OF_RESULT * (wanted.abs() + of_sum + 2f64.powi(-14))
}

/// The product of two matrices. Checked at some ten thousand places, against sums in `f64` of the rounded elements.
pub fn matmul<T: Factor>(bench: &Bench, n: usize) -> Result<Measurement> {
    product::<T>(bench, n, |x, y, _, out| T::multiply(x, y, out), |sum, _| sum)
}

/// The same with a bias for each column, and GELU by tanh, in one kernel.
pub fn matmul_bias_gelu<T: Factor<Element = T> + MatMul + Real>(bench: &Bench, n: usize) -> Result<Measurement> {
    product::<T>(
        bench,
        n,
        |x, y, bias, out| x.fused_matmul(y).bias(bias).gelu_tanh().compute_into(out),
        |sum, bias| {
            let x = sum + bias;
            0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3))).tanh())
        },
    )
}

/// A product by `multiply`, which takes the operands, a bias and the output; of a sum and its bias it is `finish`, which is
/// off by at most 1.2 of what its argument is, and 10⁻⁷.
fn product<T: Factor>(
    bench: &Bench,
    n: usize,
    multiply: impl Fn(&Matrix<T>, &Matrix<T>, &DeviceArray<T::Element, Ix1>, &mut Matrix<T>) -> warpsmith::Result<()>,
    finish: impl Fn(f64, f64) -> f64 + Sync,
) -> Result<Measurement> {
    let side = side(bench, n);
    let n = side * side;
    let (a, b) = (|i| T::of(normal(i)), |i| T::of(normal(n + i)));
    let bias = |column| T::of(normal(2 * n + column));
    let x = bench.upload(&matrix::<T>(side, a)?)?;
    let y = bench.upload(&matrix::<T>(side, b)?)?;
    let z = bench.upload(&data::array(side, bias)?)?;
    let mut out = bench.zeros((side, side))?;
    let times = bench.times(
        &mut out,
        |out| multiply(&x, &y, &z, out),
        |out| {
            let got = out.to_ndarray()?;
            check::spread(side, 100, &|row, column| {
                let product = |k| T::to_f64(a(row * side + k)) * T::to_f64(b(k * side + column));
                let (sum, magnitude) = (0..side).map(product).fold((0.0, 0.0), |(sum, magnitude), product| {
                    (sum + product, magnitude + product.abs())
                });
                let bias = T::to_f64(bias(column));
                let wanted = finish(sum, bias);
                let place = format_args!("{row}, {column}");
                let bound = 1.2 * bound::<T>(side, wanted, magnitude + bias.abs()) + 1e-7;
                check::near(place, T::to_f64(got[(row, column)]), wanted, bound)
            })
        },
    )?;
    let measured = Measurement::new(T::DTYPE, n, 3 * size_of::<T::Element>(), times)
        .of_shape(&[side, side])
        .operations_each(2.0 * side as f64);
    Ok(Measurement {
        limit: Limit::Arithmetic,
        ..measured
    })
}

/// [`matmul`] by the instructions of Ampere's tensor cores, on a GPU that has others, too.
pub fn on_ampere<T: Factor>(bench: &Bench, n: usize) -> Result<Measurement> {
    matmul::<T>(&Bench::new(&bench.device.as_ampere()?, bench.repeats), n)
}

/// The longest side of a matrix that is multiplied with a vector: of 2 GiB in 16 bits.
const MOST_OF_VECTOR: usize = 32_768;

/// A square matrix times a vector, along its rows: what takes the time is to read it. A hundred elements are checked.
pub fn matvec<T: Factor<Element = T> + MatVec<Wide: Element>>(bench: &Bench, n: usize) -> Result<Measurement> {
    let side = n.isqrt().min(MOST_OF_VECTOR);
    let n = side * side;
    let (a, x) = (|i| T::of(normal(i)), |k| T::of(normal(n + k)));
    let matrix = bench.upload(&matrix::<T>(side, a)?)?;
    let vector = bench.upload(&data::array(side, x)?)?;
    let mut out = bench.zeros(side)?;
    let times = bench.times(
        &mut out,
        |out| matrix.matvec_into(&vector, out),
        |out| {
            let got = out.to_ndarray()?;
            (0..side).step_by(side.div_ceil(100)).try_for_each(|row| {
                let product = |k| <T as Factor>::to_f64(a(row * side + k)) * <T as Factor>::to_f64(x(k));
                let (wanted, magnitude) = (0..side).map(product).fold((0.0, 0.0), |(sum, magnitude), product| {
                    (sum + product, magnitude + product.abs())
                });
                check::near(
                    format_args!("{row}"),
                    <T as Factor>::to_f64(got[row]),
                    wanted,
                    bound::<T>(side, wanted, magnitude),
                )
            })
        },
    )?;
    Ok(Measurement::new(T::DTYPE, n, size_of::<T>(), times)
        .of_shape(&[side, side])
        .operations_each(2.0))
}

/// The square whose elements `element` gives, by their places in C order.
fn matrix<T: Factor>(side: usize, element: impl Fn(usize) -> T::Element + Sync + Send) -> Result<Array2<T::Element>> {
    Ok(data::array(side * side, element)?.into_shape_with_order((side, side))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is off by a unit in the last place is found in a type of few bits, and what is rounded is not.
    #[test]
    fn bounds_are_near_the_rounding() {
        let wanted = 37.3;
        let off = |got: f64, magnitude| (got - wanted).abs() / bound::<f16>(64, wanted, magnitude);
        let rounded = f16::from_f64(wanted);
        assert!(off(rounded.to_f64(), 40.0) <= 1.0);
        let next = f16::from_bits(rounded.to_bits() + 1);
        assert!(off(next.to_f64(), 40.0) > 1.0);
        assert!(bound::<f32>(64, wanted, 40.0) < bound::<f16>(64, wanted, 40.0) / 50.0);
    }

    #[test]
    fn tiny_results_have_room_to_be_rounded() {
        let tiny = 2f64.powi(-20) * 1.3;
        assert!((f16::from_f64(tiny).to_f64() - tiny).abs() <= bound::<f16>(1, tiny, tiny));
    }
}
