// SPDX-License-Identifier: MIT OR Apache-2.0
//! Atomic operations.

use std::fmt::Debug;

use cuda_std::SliceMut;
use cuda_std::launch::SafeKernel;
use device_test_kernels::atomics::{accumulate, bits, shared_histogram};
use device_tests::{device, download, upload, zeros};
use warpsmith::{Element, LaunchConfig};

/// Values whose sums are exact in every type, in any order: `value(i)` for `i` below `n`.
fn check<T: Element + PartialEq + PartialOrd + Debug>(value: impl Fn(i32) -> T, sum: T, [start_min, start_max]: [T; 2])
where
    accumulate<T>: SafeKernel<Params = (&'static [T], SliceMut<'static, T>)>,
{
    let device = device();
    let x: Vec<T> = (0..2048).map(value).collect();
    let zero = T::zeroed();
    let mut out = upload(&device, &[zero, start_min, start_max, zero, zero, zero, zero]);
    let x_device = upload(&device, &x);
    // One block for `block_scope`; the warps of it compete.
    let in_one_block = LaunchConfig::new(1, 1024);
    device
        .default_stream()
        .launch::<accumulate<T>>(&in_one_block, (&x_device, &mut out))
        .unwrap();
    let found = download(&out);
    assert_eq!([found[0], found[4], found[5], found[6]], [sum; 4]);
    let least = x[..1024].iter().copied().reduce(|a, b| if b < a { b } else { a });
    let greatest = x[..1024].iter().copied().reduce(|a, b| if b > a { b } else { a });
    assert_eq!((Some(found[1]), Some(found[2])), (least, greatest));
    assert!(x[..1024].contains(&found[3]));
}

#[test]
fn every_type_accumulates() {
    check::<i32>(|i| i - 100, 523_776 - 102_400, [i32::MAX, i32::MIN]);
    check::<u32>(
        |i| i as u32 + 4_000_000,
        523_776u32.wrapping_add(4_000_000u32.wrapping_mul(1024)),
        [u32::MAX, 0],
    );
    check::<i64>(|i| i64::from(i) - (1 << 40), 523_776 - (1 << 50), [i64::MAX, i64::MIN]);
    check::<u64>(|i| i as u64 + (1 << 40), 523_776 + (1 << 50), [u64::MAX, 0]);
    check::<f32>(
        |i| i as f32 * 0.25 - 8.0,
        523_776.0 * 0.25 - 8192.0,
        [f32::INFINITY, f32::NEG_INFINITY],
    );
    check::<f64>(
        |i| f64::from(i) * 0.25 - 8.0,
        523_776.0 * 0.25 - 8192.0,
        [f64::INFINITY, f64::NEG_INFINITY],
    );
}

#[test]
fn many_blocks_accumulate() {
    let device = device();
    let x = vec![1u64; 64 * 1024];
    let mut out = upload(&device, &[0u64, u64::MAX, 0, 0, 0, 0, 0]);
    let x_device = upload(&device, &x);
    device
        .default_stream()
        .launch::<accumulate<u64>>(&LaunchConfig::new(256, 256), (&x_device, &mut out))
        .unwrap();
    let found = download(&out);
    assert_eq!([found[0], found[5], found[6]], [64 * 1024; 3]);
    assert_eq!([found[1], found[2], found[3]], [1; 3]);
}

#[test]
fn bits_accumulate() {
    let device = device();
    let x: Vec<u32> = (0..512u32)
        .map(|i| 0xff00_0000 | i.wrapping_mul(0x9e37_79b9) >> 8)
        .collect();
    let (mut out, mut wide) = (upload(&device, &[u32::MAX, 0, 0]), upload(&device, &[u64::MAX, 0, 0]));
    let x_device = upload(&device, &x);
    device
        .default_stream()
        .launch::<bits>(&LaunchConfig::new(4, 128), (&x_device, &mut out, &mut wide))
        .unwrap();
    let fold = |start: u32, f: fn(u32, u32) -> u32| x.iter().fold(start, |a, &b| f(a, b));
    let expected = [
        fold(u32::MAX, |a, b| a & b),
        fold(0, |a, b| a | b),
        fold(0, |a, b| a ^ b),
    ];
    assert_eq!(download(&out), expected);
    assert_eq!(download(&wide), expected.map(|bits| u64::from(bits) << 16));
}

#[test]
fn shared_memory_counts() {
    let device = device();
    let x: Vec<u32> = (0..1024u32).map(|i| i.wrapping_mul(0x9e37_79b9) >> 13).collect();
    let (mut out, mut ranks) = (zeros::<u32>(&device, 8), zeros::<u32>(&device, 1024));
    let (x_device, config) = (upload(&device, &x), LaunchConfig::new(4, 256));
    device
        .default_stream()
        .launch::<shared_histogram>(&config, (&x_device, &mut out, &mut ranks))
        .unwrap();
    let count = |part: &[u32], bin: u32| part.iter().filter(|&&x| x % 8 == bin).count() as u32;
    assert_eq!(download(&out), (0..8).map(|bin| count(&x, bin)).collect::<Vec<_>>());
    let ranks = download(&ranks);
    for (block, (values, ranks)) in x.chunks(256).zip(ranks.chunks(256)).enumerate() {
        for bin in 0..8 {
            let mut of_bin: Vec<u32> = values
                .iter()
                .zip(ranks)
                .filter(|(x, _)| *x % 8 == bin)
                .map(|(_, r)| *r)
                .collect();
            of_bin.sort_unstable();
            assert_eq!(
                of_bin,
                (0..count(values, bin)).collect::<Vec<_>>(),
                "block {block}, bin {bin}"
            );
        }
    }
}
