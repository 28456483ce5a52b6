// SPDX-License-Identifier: MIT OR Apache-2.0
//! More elements than 32 bits can count: 2^32 + 5 of u8. That is for a GPU; the simulator, for which it would take an
//! hour, does the same with 2^20 + 5.

mod common;

use common::device;
use ndarray::Array1;
use warpsmith::DeviceArray;
use warpsmith::ops::{ScanAlgorithm, Sum};

fn len() -> usize {
    if device().is_simulator() {
        (1 << 20) + 5
    } else {
        (1 << 32) + 5
    }
}

/// Element `i`: no period of a power of two, and never 255.
fn element(i: usize) -> u8 {
    (((i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) % 255) as u8
}

#[test]
fn arrays_beyond_32_bits() {
    let len = len();
    let mut host: Array1<u8> = (0..len).map(element).collect();
    // One element that is larger than all others, where a 32-bit index would have wrapped around.
    let last = len - 2;
    host[last] = 255;
    let x = DeviceArray::from_ndarray(device().default_stream(), &host).unwrap();

    let mut counts = [0u64; 256];
    host.iter().for_each(|&x| counts[usize::from(x)] += 1);
    let total: u64 = (0..).zip(counts).map(|(value, count)| value * count).sum();

    assert_eq!(x.sum().unwrap(), total as u8, "sum, which wraps");
    assert_eq!(x.max().unwrap(), 255, "max");
    assert_eq!(x.argmax().unwrap(), last as u64, "argmax");
    let mean = total as f64 / len as f64;
    assert!((x.mean().unwrap() - mean).abs() <= 1e-12 * mean, "mean");
    assert_eq!(
        x.histogram(256, 0.0..=256.0).unwrap().to_ndarray().unwrap().to_vec(),
        counts,
        "histogram"
    );
    assert_eq!(x.bincount().unwrap().to_ndarray().unwrap().to_vec(), counts, "bincount");

    let negative = x.neg().unwrap().to_ndarray().unwrap();
    let differs = |(x, y): (&u8, &u8)| x.wrapping_neg() != *y;
    assert_eq!(host.iter().zip(&negative).position(differs), None, "neg");
    drop(negative);

    for algorithm in [ScanAlgorithm::LookBack, ScanAlgorithm::Blelloch] {
        let sums = x.inclusive_scan_by::<Sum>(algorithm).unwrap().to_ndarray().unwrap();
        let mut sum = 0u8;
        let differs = |(x, y): (&u8, &u8)| {
            sum = sum.wrapping_add(*x);
            sum != *y
        };
        assert_eq!(host.iter().zip(&sums).position(differs), None, "{algorithm:?} scan");
    }
}
