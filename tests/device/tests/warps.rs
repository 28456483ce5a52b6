// SPDX-License-Identifier: MIT OR Apache-2.0
//! Shuffles and votes.

use std::fmt::Debug;

use cuda_std::launch::SafeKernel;
use device_test_kernels::warps::{Triple, halves, shuffles, votes, warp_sums};
use device_tests::{device, download, upload, zeros};
use warpsmith::{Element, LaunchConfig};

const THREADS: usize = 128;

fn check_shuffles<T: Element + PartialEq + Debug>(value: impl Fn(usize) -> T)
where
    shuffles<T>: SafeKernel<Params = (&'static [T], u32, cuda_std::SliceMut<'static, T>)>,
{
    let device = device();
    let x: Vec<T> = (0..THREADS).map(value).collect();
    let x_device = upload(&device, &x);
    for argument in 0..32 {
        let mut out = zeros::<T>(&device, 4 * THREADS);
        let config = LaunchConfig::new(2, THREADS as u32 / 2);
        device
            .default_stream()
            .launch::<shuffles<T>>(&config, (&x_device, argument as u32, &mut out))
            .unwrap();
        let source = |select: fn(usize, usize) -> usize| {
            let x = &x;
            (0..THREADS).map(move |i| x[i / 32 * 32 + select(i % 32, argument)])
        };
        let expected: Vec<T> = source(|_, argument| argument)
            .chain(source(|lane, delta| if lane >= delta { lane - delta } else { lane }))
            .chain(source(
                |lane, delta| if lane + delta < 32 { lane + delta } else { lane },
            ))
            .chain(source(|lane, mask| lane ^ mask))
            .collect();
        assert_eq!(download(&out), expected, "argument {argument}");
    }
}

#[test]
fn values_of_every_size_are_shuffled() {
    check_shuffles(|i| i as u8);
    check_shuffles(|i| i as u32 * 0x0101_0101);
    check_shuffles(|i| 1.0 / (i as f64 + 1.0));
    check_shuffles(|i| Triple(i as f32, i as u32, -(i as i16), [i as u8, 7]));
}

#[test]
fn lanes_vote() {
    let device = device();
    let warps: [fn(usize) -> i32; 4] = [|_| 1, |_| -1, |lane| lane as i32 % 3 - 1, |lane| lane as i32 - 5];
    let x: Vec<i32> = (0..THREADS).map(|i| warps[i / 32](i % 32)).collect();
    let mut out = zeros::<u32>(&device, 6 * THREADS);
    let x_device = upload(&device, &x);
    device
        .default_stream()
        .launch::<votes>(&LaunchConfig::new(1, THREADS as u32), (&x_device, &mut out))
        .unwrap();
    let mask = |i: usize, holds: &dyn Fn(i32) -> bool| {
        (0..32)
            .filter(|lane| holds(x[i / 32 * 32 + lane]))
            .fold(0u32, |mask, lane| mask | 1 << lane)
    };
    let ballots = (0..THREADS).map(|i| mask(i, &|x| x > 0));
    let expected: Vec<u32> = ballots
        .clone()
        .chain(ballots.clone().map(|ballot| (ballot == u32::MAX) as u32))
        .chain(ballots.map(|ballot| (ballot != 0) as u32))
        .chain((0..THREADS).map(|i| mask(i, &|other| other == x[i])))
        .chain((0..THREADS).map(|i| i as u32 % 32))
        .chain((0..THREADS).map(|i| mask(i, &|other| other & 7 == x[i] & 7)))
        .collect();
    assert_eq!(download(&out), expected);
}

#[test]
fn halves_of_a_warp_exchange_in_different_branches() {
    let device = device();
    let x: Vec<u32> = (0..64).map(|i| i * i).collect();
    let mut out = zeros::<u32>(&device, 64);
    let x_device = upload(&device, &x);
    device
        .default_stream()
        .launch::<halves>(&LaunchConfig::new(1, 64), (&x_device, &mut out))
        .unwrap();
    let expected: Vec<u32> = (0..64).map(|i| x[if i % 2 == 0 { i ^ 2 } else { i ^ 4 }]).collect();
    assert_eq!(download(&out), expected);
}

#[test]
fn warps_sum() {
    let device = device();
    let config = LaunchConfig::new(1, 64);
    let x: Vec<i32> = (0..64).map(|i| i * 12_345 - 7).collect();
    let sums = |warp: usize| x[warp * 32..][..32].iter().sum::<i32>();
    let expected: Vec<i32> = (0..64).map(|i| sums(i / 32)).collect();

    let (x_device, mut out) = (upload(&device, &x), zeros::<i32>(&device, 64));
    device
        .default_stream()
        .launch::<warp_sums<i32>>(&config, (&x_device, &mut out))
        .unwrap();
    assert_eq!(download(&out), expected);

    let wide: Vec<f64> = x.iter().map(|&x| f64::from(x)).collect();
    let (x_device, mut out) = (upload(&device, &wide), zeros::<f64>(&device, 64));
    device
        .default_stream()
        .launch::<warp_sums<f64>>(&config, (&x_device, &mut out))
        .unwrap();
    assert_eq!(
        download(&out),
        expected.iter().map(|&x| f64::from(x)).collect::<Vec<_>>()
    );
}
