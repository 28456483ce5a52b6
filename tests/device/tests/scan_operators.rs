// SPDX-License-Identifier: MIT OR Apache-2.0
//! Scans by operators that are not commutative, against the fold of one element after the other.

use std::fmt::Debug;

use device_test_kernels::scan_operators::{Affine, BLOCK, Compose, MatrixProduct, Runs, Triple, small_scans};
use device_tests::{device, download, upload, zeros};
use kernels_gpu::compiled::Scan;
use kernels_gpu::op::{ReduceOp, Sum};
use kernels_gpu::scan::Lines;
use kernels_gpu::scan::lookback::{self, narrow, tile_len};
use ndarray::{Array3, Axis};
use warpsmith::{DeviceArray, Element, LaunchConfig};

/// Results 0 to `x.len()`, of which the first is that of no element.
fn folds<T: Element, Op: ReduceOp<T>>(x: &[T]) -> Vec<Op::Output> {
    let mut acc = Op::identity();
    let mut results = vec![Op::finish(acc, 0)];
    for (i, &x) in (0..).zip(x) {
        acc = Op::combine(acc, Op::lift(x, i));
        results.push(Op::finish(acc, i + 1));
    }
    results
}

/// Lengths around a tile, and more tiles than a look-back sees at once.
fn lengths(tile: usize) -> [usize; 7] {
    [1, 31, 300, tile - 1, tile, tile + 1, 45 * tile + 5]
}

fn maps(len: usize) -> Vec<Affine> {
    (0..len).map(map).collect()
}

fn map(i: usize) -> Affine {
    Affine {
        scale: (i as u32).wrapping_mul(0x9e37_79b1) | 1,
        offset: (i as u32).wrapping_mul(0x85eb_ca6b) ^ 0x1234,
    }
}

#[test]
fn affine_maps_are_composed_in_order() {
    let device = device();
    for len in lengths(tile_len::<Affine, Compose>()) {
        let x = maps(len);
        let (wanted, on_device) = (folds::<_, Compose>(&x), upload(&device, &x));
        let inclusive = on_device.inclusive_scan::<Compose>().unwrap();
        assert!(download(&inclusive) == wanted[1..], "{len} maps, inclusive");
        let exclusive = on_device.exclusive_scan::<Compose>().unwrap();
        assert!(download(&exclusive) == wanted[..len], "{len} maps, exclusive");
    }
}

#[test]
fn values_of_32_bytes_and_results_of_another_type() {
    let device = device();
    for len in lengths(tile_len::<u8, MatrixProduct>()) {
        let x: Vec<u8> = (0..len).map(|i| (i * i % 251) as u8).collect();
        let (wanted, on_device) = (folds::<_, MatrixProduct>(&x), upload(&device, &x));
        let mut out = zeros::<u64>(&device, len);
        on_device.inclusive_scan_into::<MatrixProduct>(&mut out).unwrap();
        assert!(download(&out) == wanted[1..], "{len} matrices, inclusive");
        on_device.exclusive_scan_into::<MatrixProduct>(&mut out).unwrap();
        assert!(download(&out) == wanted[..len], "{len} matrices, exclusive");
    }
}

#[test]
fn values_of_12_bytes() {
    let device = device();
    for len in lengths(tile_len::<u16, Runs>()) {
        let x: Vec<u16> = (0..len).map(|i| (i / 3 * i % 11 / 4) as u16).collect();
        let (wanted, on_device) = (folds::<_, Runs>(&x), upload(&device, &x));
        let runs = on_device.inclusive_scan::<Runs>().unwrap();
        assert!(download::<Triple>(&runs) == wanted[1..], "runs of {len}, inclusive");
        let runs = on_device.exclusive_scan::<Runs>().unwrap();
        assert!(download::<Triple>(&runs) == wanted[..len], "runs of {len}, exclusive");
    }
}

/// A device with room for one tile of a block only: the next is begun when the last is written.
#[test]
fn one_tile_at_a_time() {
    let device = device();
    let tile = tile_len::<Affine, Compose>();
    for len in [tile - 1, tile, 5 * tile + 3] {
        let x = maps(len);
        let wanted = folds::<_, Compose>(&x);
        let tiles = lookback::tiles_of_row::<Affine, Compose>(len, len);
        let mut state = zeros::<u64>(&device, lookback::state_len::<Affine>(tiles));
        let (on_device, mut out) = (upload(&device, &x), zeros::<Affine>(&device, len));
        let config = LaunchConfig {
            dynamic_shared: lookback::shared_bytes::<Affine, Compose>(),
            ..LaunchConfig::new(2, lookback::THREADS as u32)
        };
        device
            .default_stream()
            .launch::<<Affine as Scan<Compose>>::LookBack>(&config, (&on_device, len, 0u32, &mut state, &mut out))
            .unwrap();
        assert!(download(&out) == wanted[1..], "{len} maps");
    }
}

/// The same of few columns that lie side by side, of two matrices, each of which has several tiles.
#[track_caller]
fn assert_few_one_tile_at_a_time<T: Element + Scan<Sum>>(of: fn(usize) -> T)
where
    Sum: ReduceOp<T, Output: PartialEq + Debug>,
{
    const { assert!(<T as Scan<Sum>>::HAS_FEW) };
    let (device, columns) = (device(), 9);
    let tile = narrow::tile_rows::<T, Sum>(columns);
    for n in [tile - 1, 3 * tile, 4 * tile + 3] {
        let x = Array3::from_shape_fn((2, n, columns), |(i, j, k)| of((i * n + j) * columns + k));
        let on_device = upload(&device, x.as_slice().unwrap());
        let tiles = 2 * n.div_ceil(tile);
        let config = LaunchConfig {
            dynamic_shared: narrow::shared_bytes::<T, Sum>(1),
            ..LaunchConfig::new(2, lookback::THREADS as u32)
        };
        let mut state = zeros::<u64>(
            &device,
            lookback::state_len::<<Sum as ReduceOp<T>>::Acc>(tiles * columns),
        );
        for exclusive in [0, 1] {
            let lines = Lines::of_array(2 * columns, n, columns);
            let mut out = zeros::<<Sum as ReduceOp<T>>::Output>(&device, x.len());
            let arguments = (
                &on_device,
                lines,
                columns as u32,
                exclusive as u32,
                &mut state,
                &mut out,
            );
            device
                .default_stream()
                .launch::<<T as Scan<Sum>>::Few>(&config, arguments)
                .unwrap();
            let got = Array3::from_shape_vec(x.dim(), download(&out)).unwrap();
            for (got, x) in got.lanes(Axis(1)).into_iter().zip(x.lanes(Axis(1))) {
                let wanted = folds::<T, Sum>(&x.to_vec());
                let wanted = &wanted[1 - exclusive..][..n];
                assert_eq!(got.to_vec(), wanted, "2 times {n} rows, exclusive: {exclusive}");
            }
        }
    }
}

#[test]
fn few_columns_one_tile_at_a_time() {
    // Of 32 values for each thread, and of 16: sums have 4 bytes, and 8.
    assert_few_one_tile_at_a_time::<f32>(|i| (i * i % 251 % 17) as f32 - 8.0);
    assert_few_one_tile_at_a_time::<u32>(|i| (i as u32).wrapping_mul(0x9e37_79b1));
}

/// Along each axis of arrays whose lines are short and long, many and few.
#[track_caller]
fn assert_axes<T: Element + Scan<Op>, Op: ReduceOp<T, Output: PartialEq + Debug>>(of: fn(usize) -> T) {
    let device = device();
    for shape in [
        (3, 2000, 1),
        (1, 2000, 3),
        (40, 70, 5),
        (300, 20, 2),
        (2, 40, 300),
        (1, 9, 1),
    ] {
        let at = |(i, j, k): (usize, usize, usize)| of((i * shape.1 + j) * shape.2 + k);
        let x = Array3::from_shape_fn(shape, at);
        let on_device = DeviceArray::from_ndarray(device.default_stream(), &x).unwrap();
        for axis in [Axis(0), Axis(1), Axis(2)] {
            let inclusive = on_device.inclusive_scan_axis::<Op>(axis).unwrap().to_ndarray().unwrap();
            let exclusive = on_device.exclusive_scan_axis::<Op>(axis).unwrap().to_ndarray().unwrap();
            let lanes = inclusive.lanes(axis).into_iter().zip(exclusive.lanes(axis));
            for (x, (inclusive, exclusive)) in x.lanes(axis).into_iter().zip(lanes) {
                let wanted = folds::<T, Op>(&x.to_vec());
                assert_eq!(inclusive.to_vec(), wanted[1..], "{shape:?}, {axis:?}, inclusive");
                assert_eq!(exclusive.to_vec(), wanted[..x.len()], "{shape:?}, {axis:?}, exclusive");
            }
        }
    }
}

#[test]
fn axes_are_scanned_in_order() {
    assert_axes::<Affine, Compose>(map);
    assert_axes::<u8, MatrixProduct>(|i| (i * i % 251) as u8);
    assert_axes::<u16, Runs>(|i| (i / 3 * i % 11 / 4) as u16);
}

#[test]
fn an_empty_array() {
    let device = device();
    let x = upload::<Affine>(&device, &[]);
    assert_eq!(x.inclusive_scan::<Compose>().unwrap().len(), 0);
}

#[test]
fn warps_and_blocks_scan_in_order() {
    let (device, n) = (device(), 3 * BLOCK);
    let x = maps(n);
    let (on_device, mut out) = (upload(&device, &x), zeros::<Affine>(&device, 4 * n));
    device
        .default_stream()
        .launch::<small_scans>(&LaunchConfig::new(3, BLOCK as u32), (&on_device, &mut out))
        .unwrap();
    let groups = |size: usize| x.chunks(size).map(folds::<_, Compose>);
    let inclusive = groups(32).flat_map(|folds| folds[1..].to_vec());
    let exclusive = groups(32).flat_map(|folds| folds[..32].to_vec());
    let before = groups(BLOCK).flat_map(|folds| folds[..BLOCK].to_vec());
    let total = groups(BLOCK).flat_map(|folds| vec![folds[BLOCK]; BLOCK]);
    let wanted: Vec<Affine> = inclusive.chain(exclusive).chain(before).chain(total).collect();
    assert_eq!(download(&out), wanted);
}
