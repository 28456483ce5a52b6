// SPDX-License-Identifier: MIT OR Apache-2.0
//! The float functions on the device under test, within the bounds that their docs state. On the simulated GPU every
//! input of note is tested with `cuda_std` itself; here, that the device computes the same.

use cuda_std::SliceMut;
use cuda_std::launch::SafeKernel;
use device_test_kernels::floats::function;
use device_tests::{device, download, upload, zeros};
use warpsmith::{Element, LaunchConfig};

fn apply<T: Element>(number: u32, x: &[T], y: &[T]) -> Vec<T>
where
    function<T>: SafeKernel<Params = (u32, &'static [T], &'static [T], SliceMut<'static, T>)>,
{
    let device = device();
    let (x_device, y_device, mut out) = (upload(&device, x), upload(&device, y), zeros::<T>(&device, x.len()));
    let config = LaunchConfig::for_len(x.len(), 128);
    device
        .default_stream()
        .launch::<function<T>>(&config, (number, &x_device, &y_device, &mut out))
        .unwrap();
    download(&out)
}

/// A function's name, and the reference in f64.
type Function = (&'static str, fn(f64) -> f64);

/// The functions of one argument.
const FUNCTIONS: [Function; 6] = [
    ("sqrt", f64::sqrt),
    ("exp", f64::exp),
    ("ln", f64::ln),
    ("sin", f64::sin),
    ("cos", f64::cos),
    ("tanh", f64::tanh),
];

/// Every exponent, both signs, several mantissas.
fn inputs() -> Vec<f32> {
    let mantissas = [0, 1, 0x2a_aaaa, 0x49_0fdb, 0x7f_ffff];
    let words = (0..256u32).flat_map(|exponent| mantissas.map(|mantissa| exponent << 23 | mantissa));
    words
        .flat_map(|word| [f32::from_bits(word), f32::from_bits(word | 1 << 31)])
        .collect()
}

/// Whether `found` is within `ulps` units in the last place of `expected`, for the type with these parameters.
fn close(found: f64, expected: f64, ulps: f64, epsilon: f64, least: f64) -> bool {
    found == expected || (found.is_nan() && expected.is_nan()) || {
        (found - expected).abs() <= ulps * f64::max(expected.abs() * epsilon, least)
    }
}

#[test]
fn functions_of_f32() {
    let x = inputs();
    for (number, (name, reference)) in FUNCTIONS.into_iter().enumerate() {
        for (&x, found) in x.iter().zip(apply(number as u32, &x, &x)) {
            let expected = reference(f64::from(x));
            // An f32 overflows where the reference does not.
            let overflows = expected.abs() > f64::from(f32::MAX) && found.is_infinite();
            let near = close(
                f64::from(found),
                expected,
                2.5,
                f64::from(f32::EPSILON),
                f64::from(f32::from_bits(1)),
            );
            assert!(near || overflows, "{name}({x:e}) = {found:e}, expected {expected:e}");
        }
    }
}

#[test]
fn functions_of_f64() {
    let x: Vec<f64> = inputs()
        .into_iter()
        .map(f64::from)
        .chain([1e-310, 1e300, -1e300, 709.5, -745.0])
        .collect();
    for (number, (name, reference)) in FUNCTIONS.into_iter().enumerate() {
        for (&x, found) in x.iter().zip(apply(number as u32, &x, &x)) {
            let expected = reference(x);
            let near = close(found, expected, 2.5, f64::EPSILON, f64::from_bits(1));
            assert!(near, "{name}({x:e}) = {found:e}, expected {expected:e}");
        }
    }
}

#[test]
fn fused_multiply_add_minimum_and_maximum() {
    let x: Vec<f32> = vec![1.0 + f32::EPSILON, -0.0, f32::NAN, 3.0, f32::INFINITY, 1e-40];
    let y: Vec<f32> = vec![1.0 - f32::EPSILON, 0.0, 1.0, f32::NAN, -1.0, 2.0];
    let bits = |values: Vec<f32>| {
        values
            .into_iter()
            .map(|v| if v.is_nan() { u32::MAX } else { v.to_bits() })
            .collect::<Vec<_>>()
    };
    let fused = x.iter().zip(&y).map(|(x, y)| x.mul_add(*y, *x)).collect();
    assert_eq!(bits(apply(6, &x, &y)), bits(fused));
    let (minimum, maximum) = (apply(7, &x, &y), apply(8, &x, &y));
    for i in [2, 3] {
        assert!(minimum[i].is_nan() && maximum[i].is_nan());
    }
    assert_eq!(
        (minimum[4], maximum[4], minimum[5], maximum[5]),
        (-1.0, f32::INFINITY, 1e-40, 2.0)
    );
}
