// SPDX-License-Identifier: MIT OR Apache-2.0
//! Products done as a table says: right by each choice, and by the one that is named.

use crate::common::choices_of_products;
use ndarray::{Array2, Ix2};
use warpsmith::ops::{MatMul, Precision, set_matmul_choices};
use warpsmith::{Device, DeviceArray, Element, bf16, f16};

/// m, n and k: of the class 5, 6, 6; k divides into two parts of multiples of 8, and has two of Hopper's steps of 16 bits and three of TF32.
const SHAPE: [usize; 3] = [40, 72, 80];

/// Where entries are for: the device, what is multiplied, and the layout.
fn key(device: &Device, factors: &str, layout: &str) -> String {
    let properties = device.properties();
    let (major, minor) = properties
        .compute_capability
        .or(properties.tensor_cores)
        .unwrap_or_default();
    format!(
        "{major}.{minor} {} {factors} {layout} 5 6 6",
        properties.multiprocessors
    )
}

/// The product of small integers by one choice, which is exact whatever that is, and the memory that it took.
#[track_caller]
fn check<T: Element + MatMul + PartialEq + std::fmt::Debug>(
    device: &Device,
    (factors, of): (&str, fn(i32) -> T),
    multiply: impl Fn(&DeviceArray<T, Ix2>, &DeviceArray<T, Ix2>) -> DeviceArray<T, Ix2>,
    choice: &str,
) -> u64 {
    let [m, n, k] = SHAPE;
    let a = Array2::from_shape_fn((m, k), |(i, j)| ((i * 7 + j * 3) % 5) as i32 - 2);
    let b = Array2::from_shape_fn((k, n), |(i, j)| ((i * 5 + j * 11) % 3) as i32 - 1);
    let upload = |x: &Array2<i32>| DeviceArray::from_ndarray(device.default_stream(), &x.mapv(of)).unwrap();
    let (x, y) = (upload(&a), upload(&b));
    set_matmul_choices(&format!("{} {choice}", key(device, factors, "nn"))).unwrap();
    device.reset_peak();
    let before = device.memory().unwrap().peak;
    let got = multiply(&x, &y).to_ndarray().unwrap();
    assert_eq!(got, a.dot(&b).mapv(of), "{factors} {choice}");
    device.memory().unwrap().peak - before
}

fn matmul<T: MatMul>(a: &DeviceArray<T, Ix2>, b: &DeviceArray<T, Ix2>) -> DeviceArray<T, Ix2> {
    a.matmul(b).unwrap()
}

/// One test, since the table is the process's. But for those of schedules, no other has products of this class on these devices
/// that care.
#[test]
fn every_choice_is_right() {
    let _alone = choices_of_products();
    let hopper = Device::simulated_hopper();
    let ampere = Device::simulator().as_ampere().unwrap();
    let small = |x: i32| x as f32;
    let bf16 = ("half", (|x| bf16::from_f32(x as f32)) as fn(i32) -> bf16);
    let f16 = ("half", (|x| f16::from_f32(x as f32)) as fn(i32) -> f16);
    let tf32 = |a: &DeviceArray<f32, Ix2>, b: &DeviceArray<f32, Ix2>| a.matmul_with(b, Precision::Tf32).unwrap();
    for (device, tile) in [
        (&hopper, "wgmma 64"),
        (&hopper, "wgmma 128"),
        (&hopper, "wgmma 192"),
        (&hopper, "wgmma 256"),
        (&hopper, "mma 64"),
        (&ampere, "mma 64"),
        (&ampere, "mma 128"),
        (&ampere, "mma 256"),
        // Which it does not have.
        (&ampere, "wgmma 64"),
    ] {
        let whole = check(device, bf16, matmul, &format!("{tile} 1"));
        let parts = check(device, bf16, matmul, &format!("{tile} 2"));
        let sums = if device.properties().tensor_cores == Some((8, 0)) && tile == "wgmma 64" {
            0
        } else {
            // The sums of the parts are in f32.
            2 * SHAPE[0] * SHAPE[1] * size_of::<f32>()
        };
        assert_eq!(parts, whole + sums as u64, "{tile}");
    }
    for tile in [
        "across 64",
        "across 112",
        "across 128",
        "across 160",
        "across 168",
        "across 176",
        "across 192",
    ] {
        check(&hopper, bf16, matmul, &format!("{tile} 1"));
    }
    for (device, tile, parts) in [(&hopper, "wgmma 64", 3), (&ampere, "mma 64", 2)] {
        check(device, f16, matmul, &format!("{tile} 1 transposed"));
        check(device, ("tf32", small), tf32, &format!("{tile} {parts}"));
    }
    for tile in ["gemm 32", "gemm 64", "gemm 128", "simt 64", "simt 128", "simt 256"] {
        check(&hopper, ("f32", small), matmul, &format!("{tile} 1"));
    }
    for tile in ["gemm 32", "gemm 64", "gemm 128", "dmma 32", "dmma 64", "dmma 128"] {
        check(&hopper, ("f64", f64::from), matmul, &format!("{tile} 1"));
    }
    // Not there: the model's choice.
    check(&Device::simulator(), ("f32", small), matmul, "simt 128 1");
    set_matmul_choices("").unwrap();
}
