// SPDX-License-Identifier: MIT OR Apache-2.0
//! Shared memory, wide accesses, parameters.

use std::fmt::Debug;

use cuda_std::SliceMut;
use cuda_std::launch::SafeKernel;
use device_test_kernels::memory::{
    Affine, BLOCK, Motion, compound_parameters, copy_points, copy_vectors, equal_words, increment_vectors, parameters,
    reverse_dynamic, reverse_generic, reverse_static, tables, two_arrays, unchecked_copy,
};
use device_tests::{device, download, upload, zeros};
use warpsmith::{Element, LaunchConfig};

fn reversed_in<T: Copy>(x: &[T], part: usize) -> Vec<T> {
    x.chunks(part).flat_map(|part| part.iter().rev().copied()).collect()
}

#[test]
fn static_shared_memory() {
    let device = device();
    let x: Vec<u64> = (0..8 * BLOCK as u64)
        .map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15))
        .collect();
    let mut data = upload(&device, &x);
    device
        .default_stream()
        .launch::<reverse_static>(&LaunchConfig::new(8, BLOCK as u32), (&mut data,))
        .unwrap();
    assert_eq!(download(&data), reversed_in(&x, BLOCK));

    let mut out = zeros::<u32>(&device, 3 * BLOCK);
    device
        .default_stream()
        .launch::<two_arrays>(&LaunchConfig::new(1, BLOCK as u32), (&mut out,))
        .unwrap();
    let n = BLOCK as u32;
    let expected: Vec<u32> = (0..n)
        .chain((0..n).map(|t| 1000 + t))
        .chain((0..n).map(|t| t % 256))
        .collect();
    assert_eq!(download(&out), expected);
}

#[test]
fn static_shared_memory_of_a_generic_kernel() {
    fn check<T: Element + PartialEq + Debug, const PART: usize>(value: impl Fn(usize) -> T)
    where
        reverse_generic<T, PART>: SafeKernel<Params = (SliceMut<'static, T>, SliceMut<'static, u32>)>,
    {
        let device = device();
        let x: Vec<T> = (0..3 * PART).map(value).collect();
        let (mut data, mut lengths) = (upload(&device, &x), zeros::<u32>(&device, 3));
        device
            .default_stream()
            .launch::<reverse_generic<T, PART>>(&LaunchConfig::new(3, PART as u32), (&mut data, &mut lengths))
            .unwrap();
        assert_eq!(download(&data), reversed_in(&x, PART));
        assert_eq!(download(&lengths), [BLOCK as u32; 3]);
    }
    check::<u8, 64>(|i| (i * 7) as u8);
    check::<u8, 256>(|i| (i * 7) as u8);
    check::<f64, 64>(|i| i as f64);
    check::<f64, 256>(|i| i as f64);
}

fn check_dynamic<T: Element + PartialEq + Debug>(value: impl Fn(usize) -> T, bytes: usize)
where
    reverse_dynamic<T>: SafeKernel<Params = (SliceMut<'static, T>, SliceMut<'static, u32>)>,
{
    let device = device();
    let x: Vec<T> = (0..3 * 128).map(value).collect();
    let (mut data, mut lengths) = (upload(&device, &x), zeros::<u32>(&device, 3));
    let config = LaunchConfig {
        dynamic_shared: bytes,
        ..LaunchConfig::new(3, 128)
    };
    device
        .default_stream()
        .launch::<reverse_dynamic<T>>(&config, (&mut data, &mut lengths))
        .unwrap();
    assert_eq!(download(&data), reversed_in(&x, 128));
    assert_eq!(download(&lengths), vec![(bytes / size_of::<T>()) as u32; 3]);
}

#[test]
fn dynamic_shared_memory_of_any_size_to_the_limit() {
    check_dynamic(|i| i as u8, 128);
    check_dynamic(|i| i as u16, 256);
    check_dynamic(|i| i as f32, 512);
    check_dynamic(|i| i as f64, 48 << 10);
    let limit = device().properties().shared_memory_per_block_optin as usize;
    check_dynamic(|i| i as f64, limit);
}

fn check_vectors<T: Element + PartialEq + Debug, const N: usize>(value: impl Fn(usize) -> T)
where
    copy_vectors<T, N>: SafeKernel<Params = (&'static [T], SliceMut<'static, T>)>,
{
    let device = device();
    for len in [0, 1, N, 5 * N, 1000, 1003] {
        let x: Vec<T> = (0..len).map(&value).collect();
        let (x_device, mut out) = (upload(&device, &x), zeros::<T>(&device, len));
        let config = LaunchConfig::for_len(len.div_ceil(N), 64);
        device
            .default_stream()
            .launch::<copy_vectors<T, N>>(&config, (&x_device, &mut out))
            .unwrap();
        assert_eq!(download(&out), x, "{len} elements in vectors of {N}");
    }
}

fn check_all_vectors<T: Element + PartialEq + Debug>(value: impl Fn(usize) -> T + Copy)
where
    copy_vectors<T, 1>: SafeKernel<Params = (&'static [T], SliceMut<'static, T>)>,
    copy_vectors<T, 2>: SafeKernel<Params = (&'static [T], SliceMut<'static, T>)>,
    copy_vectors<T, 4>: SafeKernel<Params = (&'static [T], SliceMut<'static, T>)>,
    copy_vectors<T, 8>: SafeKernel<Params = (&'static [T], SliceMut<'static, T>)>,
    copy_vectors<T, 16>: SafeKernel<Params = (&'static [T], SliceMut<'static, T>)>,
{
    check_vectors::<T, 1>(value);
    check_vectors::<T, 2>(value);
    check_vectors::<T, 4>(value);
    check_vectors::<T, 8>(value);
    check_vectors::<T, 16>(value);
}

fn check_points<const N: usize>()
where
    copy_points<N>: SafeKernel<Params = (&'static [[f32; 3]], SliceMut<'static, [f32; 3]>)>,
{
    let device = device();
    let x: Vec<_> = (0..2 * 64 * N)
        .map(|i| [0.0, 0.25, 0.5].map(|part| i as f32 + part))
        .collect();
    let (x_device, mut out) = (upload(&device, &x), zeros(&device, x.len()));
    device
        .default_stream()
        .launch::<copy_points<N>>(&LaunchConfig::new(2, 64), (&x_device, &mut out))
        .unwrap();
    assert_eq!(download(&out), x, "vectors of {N}");
}

#[test]
fn vectors_whose_size_is_no_power_of_two() {
    check_points::<1>();
    check_points::<2>();
    check_points::<4>();
}

#[test]
fn vectors_of_every_width() {
    check_all_vectors(|i| (i * 7) as u8);
    check_all_vectors(|i| (i * 777) as u16);
    check_all_vectors(|i| i as f32 / 3.0);
    check_all_vectors(|i| i as f64 / 3.0);

    let device = device();
    let mut data = upload(&device, &(0..400u32).collect::<Vec<_>>());
    device
        .default_stream()
        .launch::<increment_vectors>(&LaunchConfig::for_len(100, 32), (&mut data,))
        .unwrap();
    assert_eq!(download(&data), (1..401).collect::<Vec<_>>());
}

#[test]
fn slices_are_compared() {
    let device = device();
    let x: Vec<u8> = (0..100 * 11u32)
        .map(|i| {
            if i / 11 % 3 == 0 || i % 11 != 10 {
                (i % 11) as u8
            } else {
                99
            }
        })
        .collect();
    let (x_device, mut out) = (upload(&device, &x), zeros::<u32>(&device, 1));
    device
        .default_stream()
        .launch::<equal_words>(&LaunchConfig::for_len(100, 32), (&x_device, 11usize, &mut out))
        .unwrap();
    assert_eq!(download(&out), [34]);
}

#[test]
fn parameters_of_every_size() {
    let device = device();
    let x: Vec<f64> = (0..100).map(f64::from).collect();
    let (x_device, mut out) = (upload(&device, &x), zeros::<f64>(&device, 100));
    let affine = Affine {
        scale: 2.0,
        offset: 0.5,
        times: 3,
    };
    let (a, b, c) = (200u8, -300i16, 1i64 << 40);
    let config = LaunchConfig::for_len(100, 32);
    device
        .default_stream()
        .launch::<parameters>(&config, (a, affine, &x_device, b, c, &mut out))
        .unwrap();
    let expected: Vec<f64> = x.iter().map(|x| x * 8.0 + 3.5 - 100.0 + c as f64).collect();
    assert_eq!(download(&out), expected);
}

#[test]
fn arrays_tuples_and_truth_values_as_parameters() {
    let device = device();
    let x: Vec<f64> = (0..100).map(f64::from).collect();
    let (x_device, weights) = (upload(&device, &x), [0.5f32, 1.0, 2.0, 4.0, 8.0]);
    let config = LaunchConfig::for_len(100, 32);
    for (swap, shifted, on) in [(false, false, true), (true, true, true), (true, true, false)] {
        let mut out = zeros::<f64>(&device, 100);
        let motion = Motion {
            swap,
            by: [1.0, -3.0],
            scale: (0.25, 2),
        };
        let args = (&x_device, weights, (3u32, shifted), on, motion, [], &mut out);
        device
            .default_stream()
            .launch::<compound_parameters>(&config, args)
            .unwrap();
        let expected = (0..100usize).map(|i| {
            if !on {
                return 0.0;
            }
            let weight = f64::from(weights[(i + if shifted { 3 } else { 0 }) % 5]);
            let moved = (0..2).fold(x[if swap { i ^ 1 } else { i }] * weight, |value, _| {
                value * 0.25 + motion.by[i % 2]
            });
            moved + 8.0
        });
        assert_eq!(download(&out), expected.collect::<Vec<_>>());
    }
}

#[test]
fn arrays_in_constant_memory() {
    let device = device();
    let mut weights: [f64; 300] = std::array::from_fn(|i| i as f64 / 8.0);
    let colours = [[1u8, 2, 3], [40, 50, 60], [255, 255, 255], [7, 0, 0], [0, 0, 9]];
    for start in [0usize, 3, 299] {
        weights[start] += 0.5;
        let mut out = zeros::<f64>(&device, 1000);
        device
            .default_stream()
            .launch::<tables>(&LaunchConfig::new(8, 128), (&[], &colours, start, &weights, &mut out))
            .unwrap();
        let expected = (0..1000).map(|i| {
            let [r, g, b] = colours[(start + i) % 5].map(f64::from);
            (r + 256.0 * g + 65536.0 * b) * weights[start] + weights[299 - i % 300]
        });
        assert_eq!(download(&out), expected.collect::<Vec<_>>(), "{start}");
    }
}

#[test]
fn kernels_that_are_unsafe() {
    let device = device();
    let (x, mut out) = (upload(&device, &[3u32, 1, 4, 1]), zeros::<u32>(&device, 4));
    // SAFETY: four threads, four elements.
    let launched = unsafe {
        device
            .default_stream()
            .launch_unchecked::<unchecked_copy>(&LaunchConfig::new(1, 4), (&x, &mut out))
    };
    launched.unwrap();
    assert_eq!(download(&out), [3, 1, 4, 1]);
}
