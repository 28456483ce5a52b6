// SPDX-License-Identifier: MIT OR Apache-2.0
//! Elementwise operations on one array: `2 n` elements moved; `y += α x`: `3 n`.

use crate::common::{self, measure, random_f32, random_f64};
use criterion::{BenchmarkGroup, BenchmarkId, Criterion, measurement::WallTime};
use ndarray::{Array1, Ix1, Zip};
use warpsmith::{Device, DeviceArray, DeviceArrayRef, Element, Result, Stream, bf16, f16};

type Elements<T> = DeviceArrayRef<T, Ix1>;

/// A function that is measured, and the same on the host in `f64`.
struct Case<T, U = T> {
    name: &'static str,
    into: fn(&Elements<T>, &mut Elements<U>) -> Result<()>,
    oracle: fn(f64) -> f64,
}

fn run<T: Element + Into<f64>, U: Element + Into<f64>>(
    group: &mut BenchmarkGroup<'_, WallTime>,
    stream: &Stream,
    x: &Array1<T>,
    case: &Case<T, U>,
) {
    let on_device = DeviceArray::from_ndarray(stream, x).expect("the input fits");
    let mut out = DeviceArray::zeros(stream, x.len()).expect("the output fits");
    (case.into)(&on_device, &mut out).expect("the operation succeeds");
    let result = out.to_ndarray().expect("the result can be read");
    // Of either type, to a few units in the last place: this finds a wrong function, the tests find a wrong digit.
    let tolerance = 8.0
        * match size_of::<T>().min(size_of::<U>()) {
            1 | 2 => f64::from(bf16::EPSILON),
            4 => f64::from(f32::EPSILON),
            _ => f64::EPSILON,
        };
    let right = Zip::from(x).and(&result).all(|&x, &result| {
        let wanted = (case.oracle)(x.into());
        (result.into() - wanted).abs() <= tolerance * wanted.abs().max(0.5)
    });
    assert!(right, "{} computes something else", case.name);
    let bytes = (size_of::<T>() + size_of::<U>()) * x.len();
    measure(group, BenchmarkId::new(case.name, x.len()), stream, bytes, || {
        (case.into)(&on_device, &mut out)
    });
}

/// Measures `name: method, oracle` with the one input.
macro_rules! cases {
    ($group:expr, $stream:expr, $x:expr; $($name:literal: $into:expr, $oracle:expr;)*) => {$(
        run($group, $stream, $x, &Case { name: $name, into: $into, oracle: $oracle });
    )*};
}

pub fn map(criterion: &mut Criterion) {
    let device = common::device();
    let mut group = criterion.benchmark_group("map");
    functions(&mut group, &device);
    casts(&mut group, &device);
    in_place(&mut group, &device);
    group.finish();
}

fn functions(group: &mut BenchmarkGroup<'_, WallTime>, device: &Device) {
    let stream = device.default_stream();
    let mut rng = common::rng();
    for len in common::sizes(device, 2 * 4) {
        let x = random_f32(len, &mut rng);
        cases! { group, stream, &x;
            "neg_f32": Elements::neg_into, |x| -x;
            "sqrt_f32": Elements::sqrt_into, f64::sqrt;
            "exp_f32": Elements::exp_into, f64::exp;
            "ln_f32": Elements::ln_into, f64::ln;
            "sin_f32": Elements::sin_into, f64::sin;
            "tanh_f32": Elements::tanh_into, f64::tanh;
            "sigmoid_f32": Elements::sigmoid_into, |x| 1.0 / (1.0 + (-x).exp());
            "clamp_f32": |x, out| x.clamp_into(0.75, 1.25, out), |x| x.clamp(0.75, 1.25);
        }
    }
    for len in common::sizes(device, 2 * 8) {
        let x = random_f64(len, &mut rng);
        cases! { group, stream, &x;
            "exp_f64": Elements::exp_into, f64::exp;
            "sin_f64": Elements::sin_into, f64::sin;
        }
    }
    for len in common::sizes(device, 2 * 2) {
        let x = random_f32(len, &mut rng);
        cases! { group, stream, &x.mapv(f16::from_f32);
            "neg_f16": Elements::neg_into, |x| -x;
            "exp_f16": Elements::exp_into, f64::exp;
        }
        cases! { group, stream, &x.mapv(bf16::from_f32);
            "exp_bf16": Elements::exp_into, f64::exp;
        }
    }
    for len in common::sizes(device, 2) {
        let x = random_f32(len, &mut rng).mapv(|x| (x * 10.0) as u8);
        cases! { group, stream, &x;
            "square_u8": Elements::square_into, |x| x * x;
        }
    }
}

fn casts(group: &mut BenchmarkGroup<'_, WallTime>, device: &Device) {
    let stream = device.default_stream();
    let mut rng = common::rng();
    for len in common::sizes(device, 4 + 8) {
        let x = random_f32(len, &mut rng);
        cases! { group, stream, &x;
            "cast_f32_f64": Elements::<f32>::cast_into::<f64>, |x| x;
        }
    }
    for len in common::sizes(device, 4 + 2) {
        let x = random_f32(len, &mut rng);
        cases! { group, stream, &x;
            "cast_f32_f16": Elements::<f32>::cast_into::<f16>, |x| x;
            "cast_f32_bf16": Elements::<f32>::cast_into::<bf16>, |x| x;
            "cast_wrapping_f32_u16": Elements::<f32>::cast_wrapping_into::<u16>, f64::trunc;
        }
        cases! { group, stream, &x.mapv(|x| (x * 1000.0 - 600.0) as i32);
            "cast_saturating_i32_u8": Elements::<i32>::cast_saturating_into::<u8>, |x| x.clamp(0.0, 255.0);
        }
    }
}

/// Operations whose output is an input. Repeated, they keep to finite numbers.
fn in_place(group: &mut BenchmarkGroup<'_, WallTime>, device: &Device) {
    let stream = device.default_stream();
    let mut rng = common::rng();
    for len in common::sizes(device, 2 * 4) {
        let (x, y) = (random_f32(len, &mut rng), random_f32(len, &mut rng));
        let on_device = DeviceArray::from_ndarray(stream, &x).expect("the input fits");
        let mut result = DeviceArray::from_ndarray(stream, &y).expect("the output fits");
        result.axpy(1e-6, &on_device).expect("the operation succeeds");
        let wanted = Zip::from(&x).and(&y).map_collect(|&x, &y| 1e-6f32.mul_add(x, y));
        assert_eq!(result.to_ndarray().expect("the result can be read"), wanted);
        measure(group, BenchmarkId::new("axpy_f32", len), stream, 3 * 4 * len, || {
            result.axpy(1e-6, &on_device)
        });
        result.neg_inplace().expect("the operation succeeds");
        measure(
            group,
            BenchmarkId::new("neg_inplace_f32", len),
            stream,
            2 * 4 * len,
            || result.neg_inplace(),
        );
    }
}
