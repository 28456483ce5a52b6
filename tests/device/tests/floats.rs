// SPDX-License-Identifier: MIT OR Apache-2.0
//! The float functions on the device under test: the same bits as on the host, whose results `cuda_std`'s own tests
//! hold against the bounds in the docs.

use cuda_std::launch::SafeKernel;
use cuda_std::{Float, SliceMut};
use device_test_kernels::floats::{NAMES, apply, function};
use device_tests::{device, download, upload, zeros};
use warpsmith::{Element, LaunchConfig};

/// Every exponent, both signs, several mantissas; and what is near the ends of the functions' domains.
fn inputs() -> Vec<f32> {
    let mantissas = [0, 1, 0x2a_aaaa, 0x49_0fdb, 0x7f_ffff];
    let words = (0..256u32).flat_map(|exponent| mantissas.map(|mantissa| exponent << 23 | mantissa));
    let every_exponent = words.flat_map(|word| [f32::from_bits(word), f32::from_bits(word | 1 << 31)]);
    let small = (-200..200).map(|i| i as f32 * 0.517);
    every_exponent.chain(small).collect()
}

/// Compares the device's results for every function with those of the same code on the host.
fn check<T: Element + Float>(x: &[T], bits: impl Fn(T) -> u64)
where
    function<T>: SafeKernel<Params = (u32, &'static [T], &'static [T], SliceMut<'static, T>)>,
{
    let device = device();
    // The second argument: the same numbers in another order.
    let y: Vec<T> = (0..x.len()).map(|i| x[(i * 769 + 11) % x.len()]).collect();
    let (x_device, y_device) = (upload(&device, x), upload(&device, &y));
    for (number, name) in NAMES.iter().enumerate() {
        let number = number as u32;
        let mut out = zeros::<T>(&device, x.len());
        let config = LaunchConfig::for_len(x.len(), 128);
        device
            .default_stream()
            .launch::<function<T>>(&config, (number, &x_device, &y_device, &mut out))
            .unwrap();
        for (i, found) in download(&out).into_iter().enumerate() {
            let expected = apply(number, x[i], y[i]);
            let same = bits(found) == bits(expected) || (found.is_nan() && expected.is_nan());
            let words = [x[i], y[i], found, expected].map(&bits);
            assert!(same, "{name}: x, y, found, expected have the bits {words:x?}");
        }
    }
}

#[test]
fn functions_of_f32() {
    check(&inputs(), |x| f32::to_bits(x).into());
}

#[test]
fn functions_of_f64() {
    let x: Vec<f64> = inputs()
        .into_iter()
        .map(f64::from)
        .chain([1e-310, 1e300, -1e300, 709.5, -745.0])
        .collect();
    check(&x, f64::to_bits);
}
