// SPDX-License-Identifier: MIT OR Apache-2.0
//! Indices, barriers, and what the optimiser must leave as it is.

use cuda_std::launch::Kernel;
use device_test_kernels::threads::{
    branches_around_collectives, chained_blocks, hello, positions, rows_and_columns, votes_of_block,
};
use device_test_kernels::{memory, warps};
use device_tests::{PTX, device, download, upload, zeros};
use warpsmith::LaunchConfig;

#[test]
fn every_thread_knows_its_place() {
    let device = device();
    for (grid, block) in [
        ((5, 1, 1), (7, 1, 1)),
        ((3, 4, 1), (8, 6, 1)),
        ((2, 3, 4), (5, 4, 3)),
        ((1, 1, 1), (1, 1, 1)),
        ((1, 2, 1), (16, 8, 8)),
    ] {
        let config = LaunchConfig::new(grid, block);
        let len = (config.grid.count() * config.block.count()) as usize;
        let mut out = zeros::<u32>(&device, len);
        device
            .default_stream()
            .launch::<positions>(&config, (&mut out,))
            .unwrap();
        let mut expected = Vec::new();
        for b in 0..config.grid.count() as u32 {
            for t in 0..config.block.count() as u32 {
                let (bx, by, bz) = (b % grid.0, b / grid.0 % grid.1, b / grid.0 / grid.1);
                let (tx, ty, tz) = (t % block.0, t / block.0 % block.1, t / block.0 / block.1);
                expected.push(
                    [bz, by, bx, tz, ty, tx]
                        .iter()
                        .fold(0, |number, digit| number * 16 + digit),
                );
            }
        }
        assert_eq!(download(&out), expected, "{config:?}");
    }
}

#[test]
fn rows_and_columns_of_two_dimensions() {
    let device = device();
    for (rows, columns) in [(1, 1), (7, 100), (64, 64), (33, 31)] {
        let wanted: Vec<u64> = (0..rows * columns)
            .map(|i| ((i / columns) as u64) << 32 | (i % columns) as u64)
            .collect();
        // A thread for each element; and so few that each has several.
        let whole = LaunchConfig::for_shape((rows, columns), (16, 4));
        for config in [whole, LaunchConfig::new((2, 3), (8, 4))] {
            let mut out = zeros::<u64>(&device, rows * columns);
            device
                .default_stream()
                .launch::<rows_and_columns>(&config, (columns, &mut out))
                .unwrap();
            assert_eq!(download(&out), wanted, "{rows} x {columns}: {config:?}");
        }
    }
}

#[test]
fn barriers_count_and_vote() {
    let device = device();
    for block in [1usize, 31, 32, 33, 100, 1024] {
        let x: Vec<i32> = (0..4 * block as i32).collect();
        for limit in [-1, 0, block as i32 / 2, 5 * block as i32] {
            let mut out = zeros::<u32>(&device, 12);
            let config = LaunchConfig::new(4, block as u32);
            let x_device = upload(&device, &x);
            device
                .default_stream()
                .launch::<votes_of_block>(&config, (&x_device, limit, &mut out))
                .unwrap();
            let expected: Vec<u32> = x
                .chunks(block)
                .flat_map(|part| {
                    let count = part.iter().filter(|&&x| x > limit).count();
                    [count as u32, (count == block) as u32, (count > 0) as u32]
                })
                .collect();
            assert_eq!(download(&out), expected, "block {block}, limit {limit}");
        }
    }
}

/// rust-lang issue 137086, by its result and by the code: one barrier and one shuffle, not one for each branch.
#[test]
fn collectives_between_branches_stay_one() {
    let device = device();
    let x: Vec<u32> = (0..256u32).map(|i| i.wrapping_mul(0x9e37_79b9) >> 7).collect();
    let mut out = zeros::<u32>(&device, x.len());
    let config = LaunchConfig::new(2, 128);
    let x_device = upload(&device, &x);
    device
        .default_stream()
        .launch::<branches_around_collectives>(&config, (&x_device, &mut out))
        .unwrap();
    let value = |i: usize| {
        if x[i] % 2 == 1 {
            x[i].wrapping_mul(3)
        } else {
            x[i] + 100
        }
    };
    let expected: Vec<u32> = (0..x.len())
        .map(|i| {
            if x[i] % 2 == 1 {
                value(i).wrapping_add(value(i ^ 1))
            } else {
                value(i) ^ value(i ^ 1)
            }
        })
        .collect();
    assert_eq!(download(&out), expected);
}

#[test]
#[cfg_attr(sim_only, ignore = "wants device code")]
fn branches_around_collectives_have_one_of_each() {
    let ptx = PTX.text("branches_around_collectives", "sm_75").unwrap();
    assert_eq!(ptx.matches("shfl.sync").count(), 1, "{ptx}");
    assert_eq!(
        ptx.matches("bar.sync").count() + ptx.matches("barrier.sync").count(),
        1,
        "{ptx}"
    );
}

/// The host's compiler run and the device's have made the same numbers, also of generic kernels.
#[test]
#[cfg_attr(sim_only, ignore = "wants device code")]
fn signatures_are_those_of_the_ptx() {
    fn check<K: Kernel>() {
        assert_eq!(PTX.signature(K::NAME, "sm_75"), Some(K::SIGNATURE), "{}", K::NAME);
        assert_eq!((PTX.package(), PTX.version()), (K::PACKAGE, K::VERSION));
    }
    check::<branches_around_collectives>();
    check::<chained_blocks>();
    check::<hello>();
    check::<memory::copy_vectors<f64, 16>>();
    check::<memory::copy_points<2>>();
    check::<warps::shuffles<warps::Triple>>();
}

#[test]
fn blocks_can_wait_for_earlier_ones() {
    let device = device();
    let blocks = 500;
    let mut totals = zeros::<u64>(&device, blocks);
    let mut flags = zeros::<u32>(&device, blocks);
    let config = LaunchConfig::new(blocks as u32, 32);
    device
        .default_stream()
        .launch::<chained_blocks>(&config, (&mut totals, &mut flags))
        .unwrap();
    let expected: Vec<u64> = (0..blocks as u64).map(|b| b * (b + 1) / 2).collect();
    assert_eq!(download(&totals), expected);
}

/// What is printed goes past the test harness; that the kernel compiles, loads and ends is what is asserted.
#[test]
fn kernels_print() {
    let device = device();
    device
        .default_stream()
        .launch::<hello>(&LaunchConfig::new(2, 32), (1.5f32,))
        .unwrap();
    device.default_stream().synchronize().unwrap();
}
