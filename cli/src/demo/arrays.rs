// SPDX-License-Identifier: MIT OR Apache-2.0
//! The demo's elementwise operations, casts and reductions.

use anyhow::Result;
use kernels_gpu::num::Num;
use kernels_gpu::reduce::RowPlan;
use ndarray::Array1;
use rayon::prelude::*;
use warpsmith::ops::CastTo;

use super::check::{self, Deviation};
use super::data::{Operand, Vector, generator};
use super::reference::{CastFrom, Float, Reference, float_function};
use super::rows::Demo;
use crate::ops::{BinaryOp, UnaryOp};
use crate::scalar::Number;

const BINARY: [BinaryOp; 6] = [
    BinaryOp::Add,
    BinaryOp::Sub,
    BinaryOp::Mul,
    BinaryOp::Div,
    BinaryOp::Min,
    BinaryOp::Max,
];

/// What every number has, on random ones; gives the array that they were tried on.
pub fn run<T: Reference + CastFrom + Num<Total: Reference + CastFrom>>(
    demo: &mut Demo,
    len: usize,
) -> Result<Operand<T>> {
    let mut rng = generator();
    let mut random = || Operand::new(&demo.stream, Array1::from_shape_simple_fn(len, || T::random(&mut rng)));
    let (a, b) = (random()?, random()?);
    binary(demo, &a, &b)?;
    drop(b);
    let exact = [UnaryOp::Neg, UnaryOp::Abs, UnaryOp::Square, UnaryOp::Relu];
    unary(demo, &a, &exact, |op, got| {
        check::exact(got, &a.host.mapv(|x| T::exact_unary(op, x)))
    })?;
    cast::<T, f32>(demo, &a)?;
    cast::<T, f64>(demo, &a)?;
    cast::<T, i32>(demo, &a)?;
    cast::<T, i64>(demo, &a)?;
    cast::<T, u8>(demo, &a)?;
    cast::<T, u16>(demo, &a)?;
    cast::<T, u32>(demo, &a)?;
    cast::<T, u64>(demo, &a)?;
    reductions(demo, &a)?;
    Ok(a)
}

/// The functions that only floats have; of these, the root and the logarithm on positive numbers.
pub fn float_functions<T: Float>(demo: &mut Demo, len: usize) -> Result<()> {
    let mut rng = generator();
    let x = Operand::new(&demo.stream, Array1::from_shape_simple_fn(len, || T::random(&mut rng)))?;
    let positive = Operand::new(&demo.stream, x.host.mapv(|x| T::exact_unary(UnaryOp::Abs, x)))?;
    unary(demo, &positive, &[UnaryOp::Sqrt], |op, got| {
        check::exact(got, &positive.host.mapv(|x| T::exact_unary(op, x)))
    })?;
    unary(demo, &positive, &[UnaryOp::Log], |op, got| {
        in_ulps(op, got, &positive.host)
    })?;
    let others = [
        UnaryOp::Exp,
        UnaryOp::Sin,
        UnaryOp::Cos,
        UnaryOp::Tanh,
        UnaryOp::Sigmoid,
    ];
    unary(demo, &x, &others, |op, got| in_ulps(op, got, &x.host))
}

fn in_ulps<T: Float>(op: UnaryOp, got: &Array1<T>, x: &Array1<T>) -> Deviation {
    check::ulps(got, x, |x| float_function(op, x), T::ulps(op) + T::reference_ulps(op))
}

fn binary<T: Reference>(demo: &mut Demo, a: &Operand<T>, b: &Operand<T>) -> Result<()> {
    let (len, name, size) = (a.host.len(), T::DTYPE.name(), size_of::<T>());
    let number = b.host[len / 2];
    for op in BINARY {
        let want = || wanted(len, &|i| T::binary(op, a.host[i], b.host[i]));
        let run = |out: &mut Vector<T>| op.arrays(&a.device, &b.device, out);
        demo.elementwise(format!("{op}"), name, len, 2 * size, run, |got| {
            check::exact(got, &want())
        })?;
    }
    for op in BINARY {
        let want = || wanted(len, &|i| T::binary(op, a.host[i], number));
        let run = |out: &mut Vector<T>| op.array_scalar(&a.device, number, out);
        demo.elementwise(format!("{op} scalar"), name, len, size, run, |got| {
            check::exact(got, &want())
        })?;
    }
    for op in BINARY.into_iter().filter(|op| !op.commutes()) {
        let want = || wanted(len, &|i| T::binary(op, number, a.host[i]));
        let run = |out: &mut Vector<T>| op.scalar_array(number, &a.device, out);
        demo.elementwise(format!("scalar {op}"), name, len, size, run, |got| {
            check::exact(got, &want())
        })?;
    }
    Ok(())
}

/// As many elements, computed side by side; compiled once for each type.
fn wanted<T: Send>(len: usize, element: &(dyn Fn(usize) -> T + Sync)) -> Array1<T> {
    (0..len).into_par_iter().map(element).collect::<Vec<T>>().into()
}

fn unary<T: Reference>(
    demo: &mut Demo,
    x: &Operand<T>,
    ops: &[UnaryOp],
    check: impl Fn(UnaryOp, &Array1<T>) -> Deviation,
) -> Result<()> {
    for &op in ops {
        let run = |out: &mut Vector<T>| T::unary(op, &x.device, out);
        demo.elementwise(
            op.to_string(),
            T::DTYPE.name(),
            x.host.len(),
            size_of::<T>(),
            run,
            |got| check(op, got),
        )?;
    }
    Ok(())
}

fn cast<T: Reference + CastTo<U>, U: Reference + CastFrom>(demo: &mut Demo, x: &Operand<T>) -> Result<()> {
    if T::DTYPE == U::DTYPE {
        return Ok(());
    }
    let want = || wanted(x.host.len(), &|i| x.host[i].cast_to::<U>());
    let run = |out: &mut Vector<U>| x.device.cast_into(out);
    let kernel = format!("cast to {}", U::DTYPE);
    demo.elementwise(kernel, T::DTYPE.name(), x.host.len(), size_of::<T>(), run, |got| {
        check::exact(got, &want())
    })
}

fn reductions<T: Reference + Num<Total: Reference + CastFrom>>(demo: &mut Demo, x: &Operand<T>) -> Result<()> {
    let host = x.host.as_slice().unwrap_or_default();
    let fold = |op, values: &[T]| values.iter().copied().reduce(|a, b| T::binary(op, a, b));
    let len = host.len();
    let depth = RowPlan::new::<T, T>(1, len, len as u64).depth::<T, T>() as f64;
    let position = |best: fn(&T, &T) -> bool| {
        let first = (1..len).fold(0, |first, i| if best(&host[i], &host[first]) { i } else { first });
        first as u64
    };

    let total = |op, values: &[T]| {
        let values = values.iter().map(|x| x.cast_to::<T::Total>());
        values.reduce(|a, b| T::Total::binary(op, a, b))
    };
    demo.reduction(
        "sum",
        x,
        |x| x.sum(),
        |got| match T::DTYPE.is_float() {
            true => Deviation::absolute(
                got.nearest_f64(),
                T::exact_sum(host),
                check::sum_bound(host, depth, T::UNIT_ROUNDOFF),
            ),
            false => one(got, total(BinaryOp::Add, host)),
        },
    )?;
    demo.reduction("min", x, |x| x.min(), |got| one(got, fold(BinaryOp::Min, host)))?;
    demo.reduction("max", x, |x| x.max(), |got| one(got, fold(BinaryOp::Max, host)))?;
    demo.reduction(
        "mean",
        x,
        |x| x.mean(),
        |got| {
            let want = T::exact_sum(host) / host.len() as f64;
            // One rounding of each element, and two of the quotient: as f64, and as the element type.
            let of_sum = check::sum_bound(host, depth + 1.0, f64::UNIT_ROUNDOFF) / host.len() as f64;
            Deviation::absolute(
                got.nearest_f64(),
                want,
                of_sum + (2.0 * f64::UNIT_ROUNDOFF + T::UNIT_ROUNDOFF) * want.abs(),
            )
        },
    )?;

    demo.reduction("argmin", x, |x| x.argmin(), |got| index(got, position(|a, b| a < b)))?;
    demo.reduction("argmax", x, |x| x.argmax(), |got| index(got, position(|a, b| a > b)))?;

    let mut rng = generator();
    let factors = Operand::new(
        &demo.stream,
        Array1::from_shape_fn(len, |i| T::factor(&mut rng, i, len)),
    )?;
    let want = total(BinaryOp::Mul, factors.host.as_slice().unwrap_or_default());
    demo.reduction("prod", &factors, |x| x.product(), |got| one(got, want))
}

/// The deviation of a single result that must be exact.
fn one<T: Reference>(got: T, want: Option<T>) -> Deviation {
    let want = Array1::from_iter(want);
    check::exact(&Array1::from_elem(want.len(), got), &want)
}

/// The deviation of an index.
fn index(got: u64, want: u64) -> Deviation {
    check::exact(&Array1::from_elem(1, got), &Array1::from_elem(1, want))
}
