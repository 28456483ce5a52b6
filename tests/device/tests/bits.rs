// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bits of integers.

use device_test_kernels::bits::{byte_perms, dot_products};
use device_tests::{device, download, upload, zeros};
use warpsmith::LaunchConfig;

/// Every selector of four digits, and some with bits that do not count: the hardware would repeat a byte's sign for the
/// fourth bit of a digit.
#[test]
fn every_selector_chooses_its_bytes() {
    let device = device();
    let selectors: Vec<u32> = (0..0x1_0000).chain([0xffff_3210, 0x8000_fedc]).collect();
    let x: Vec<u32> = (0..selectors.len() as u32)
        .map(|i| i.wrapping_mul(0x9e37_79b9) ^ 0x80ff_7f01)
        .collect();
    let (on_device, chosen) = (upload(&device, &x), upload(&device, &selectors));
    let mut out = zeros::<u32>(&device, selectors.len());
    let config = LaunchConfig::new(selectors.len().div_ceil(256) as u32, 256);
    device
        .default_stream()
        .launch::<byte_perms>(&config, (&on_device, &chosen, &mut out))
        .unwrap();
    let wanted: Vec<u32> = (0..x.len())
        .map(|i| {
            let (low, high) = (x[i].to_le_bytes(), x[(i + 1) % x.len()].to_le_bytes());
            let bytes = [low, high].concat();
            u32::from_le_bytes([0, 4, 8, 12].map(|digit| bytes[(selectors[i] >> digit & 7) as usize]))
        })
        .collect();
    assert!(download(&out) == wanted);
}

#[test]
fn dot_products_are_unsigned_and_wrap_around() {
    let device = device();
    let x: Vec<u32> = (0..2000u32)
        .map(|i| i.wrapping_mul(0x9e37_79b9) ^ 0x80ff_7f01)
        .chain([0, u32::MAX])
        .collect();
    let on_device = upload(&device, &x);
    let (mut of_bytes, mut of_halves) = (zeros::<u32>(&device, x.len()), zeros::<u32>(&device, x.len()));
    let config = LaunchConfig::new(x.len().div_ceil(256) as u32, 256);
    device
        .default_stream()
        .launch::<dot_products>(&config, (&on_device, &mut of_bytes, &mut of_halves))
        .unwrap();
    let wanted = |bits: u32| -> Vec<u32> {
        let parts = |x: u32| (0..32 / bits).map(move |k| u64::from(x) >> (bits * k) & ((1 << bits) - 1));
        let sum = |(i, &x): (u64, &u32)| {
            parts(x)
                .zip(i..)
                .map(|(part, factor)| part * (factor & 0xff))
                .sum::<u64>()
        };
        (0..)
            .zip(&x)
            .map(|(i, x)| (u64::from(*x) + sum((i, x))) as u32)
            .collect()
    };
    assert_eq!(download(&of_bytes), wanted(8));
    assert_eq!(download(&of_halves), wanted(16));
}
