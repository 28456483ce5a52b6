// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reductions by operators of one's own, of elements and values of any size.

use std::fmt::Debug;

use device_test_kernels::operators::{ChannelSums, LogSumExp, Support};
use device_tests::{device, upload};
use ndarray::{Array2, Array4, Axis, Ix1, Ix2};
use warpsmith::{DeviceArray, Element};

/// Within the bound of a sum: each of at most 64 levels rounds an exponential (2 ulp of its value, and its argument's
/// half ulp of at most 40), a product and a sum; all terms are positive, so the relative error of the sum, which is the
/// absolute one of its logarithm, adds up to at most that.
#[track_caller]
fn assert_close(got: f32, wanted: f64) {
    let bound = 64.0 * 50.0 * f64::from(f32::EPSILON) + wanted.abs() * f64::from(f32::EPSILON);
    assert!((f64::from(got) - wanted).abs() <= bound, "{got}, wanted {wanted}");
}

type OnDevice<T> = DeviceArray<T, Ix2>;

/// `reduce` gives what is `wanted` of each lane along both axes.
#[track_caller]
fn assert_lanes<T: Element, R: Element + PartialEq + Debug>(
    x: &Array2<T>,
    reduce: impl Fn(&OnDevice<T>, Axis) -> warpsmith::Result<DeviceArray<R, Ix1>>,
    wanted: impl Fn(&[T]) -> R,
) {
    let on_device = DeviceArray::from_ndarray(device().default_stream(), x).unwrap();
    for axis in [Axis(0), Axis(1)] {
        let got = reduce(&on_device, axis).unwrap().to_ndarray().unwrap().to_vec();
        let wanted: Vec<_> = x.lanes(axis).into_iter().map(|lane| wanted(&lane.to_vec())).collect();
        assert_eq!(got, wanted, "{:?}, {axis:?}", x.shape());
    }
}

fn reference<'a>(x: impl Iterator<Item = &'a f32> + Clone) -> f64 {
    let most = x.clone().fold(f64::NEG_INFINITY, |most, &x| most.max(f64::from(x)));
    most + x.map(|&x| (f64::from(x) - most).exp()).sum::<f64>().ln()
}

fn values(len: usize) -> Vec<f32> {
    (0..len).map(|i| (i * 7919 % 1000) as f32 / 25.0 + 100.0).collect()
}

#[test]
fn a_whole_array_is_combined() {
    let device = device();
    for len in [1, 2, 31, 1024, 1025, 4096, 20_001] {
        let x = values(len);
        // e^100 alone overflows.
        assert_close(upload(&device, &x).reduce::<LogSumExp>().unwrap(), reference(x.iter()));
    }
    let empty = upload::<f32>(&device, &[]).reduce::<LogSumExp>().unwrap();
    assert_eq!(empty, f32::NEG_INFINITY);
}

#[test]
fn lanes_are_combined() {
    let device = device();
    for shape in [(3, 2000), (2000, 3), (50, 70), (1, 9), (9, 1)] {
        let x = Array2::from_shape_vec(shape, values(shape.0 * shape.1)).unwrap();
        let on_device = DeviceArray::from_ndarray(device.default_stream(), &x).unwrap();
        for axis in [Axis(0), Axis(1)] {
            let result = on_device.reduce_axis::<LogSumExp>(axis);
            let got = result.unwrap().to_ndarray().unwrap();
            assert_eq!(got.len(), x.len() / x.len_of(axis));
            for (&got, lane) in got.iter().zip(x.lanes(axis)) {
                assert_close(got, reference(lane.iter()));
            }
        }
    }
}

#[test]
fn elements_of_any_size_have_their_index() {
    let device = device();
    let point = |i: usize| [1.0, 2.0, (i * 31 % 997) as f32];
    let wanted = |points: &[[f32; 3]]| {
        let most = points.iter().map(|p| p[2]).fold(0.0, f32::max);
        let index = points.iter().position(|p| p[2] == most).unwrap() as u64;
        let len = points.len() as u64;
        [index, 0, len * (len - 1) / 2]
    };
    for len in [1, 100, 1024, 1025, 5000] {
        let points: Vec<_> = (0..len).map(point).collect();
        assert_eq!(
            upload(&device, &points).reduce::<Support>().unwrap(),
            wanted(&points),
            "{len}"
        );
    }
    let points = Array2::from_shape_fn((700, 5), |(i, j)| point(i * 5 + j));
    let reduce = |x: &OnDevice<_>, axis| x.reduce_axis::<Support>(axis);
    assert_lanes(&points, reduce, wanted);
}

#[test]
fn pixels_are_combined_by_channel() {
    let device = device();
    let pixel = |i: usize| [(i * 31 % 251) as u8, (i * 7 % 256) as u8, (i / 256) as u8];
    let wanted =
        |pixels: &[[u8; 3]]| [0, 1, 2].map(|channel| pixels.iter().map(|pixel| u32::from(pixel[channel])).sum::<u32>());
    for len in [1, 3, 4, 100, 1023, 1024, 4096, 20_001] {
        let pixels: Vec<_> = (0..len).map(pixel).collect();
        let got = upload(&device, &pixels).reduce::<ChannelSums>().unwrap();
        assert_eq!(got, wanted(&pixels), "{len}");
    }
    let reduce = |x: &OnDevice<_>, axis| x.reduce_axis::<ChannelSums>(axis);
    // Rows that vectors fit into, and rows that they do not.
    for shape in [(50, 64), (50, 63), (3, 5000), (5, 2049), (700, 2)] {
        let pixels = Array2::from_shape_fn(shape, |(i, j)| pixel(i * shape.1 + j));
        assert_lanes(&pixels, reduce, wanted);
    }
}

#[test]
fn several_axes_are_combined() {
    let device = device();
    let pixel = |i: usize| [(i * 31 % 251) as u8, (i * 7 % 256) as u8, (i / 256) as u8];
    let shape = (7, 33, 5, 4);
    let pixels = Array4::from_shape_fn(shape, |(i, j, k, l)| pixel(((i * 33 + j) * 5 + k) * 4 + l));
    let on_device = DeviceArray::from_ndarray(device.default_stream(), &pixels).unwrap();
    for axes in [&[0, 2][..], &[1, 3], &[0, 3], &[0, 2, 3], &[1, 2], &[]] {
        let got = on_device
            .reduce_axes::<ChannelSums>(axes)
            .unwrap()
            .to_ndarray()
            .unwrap();
        let mut wanted = pixels.mapv(|pixel| pixel.map(u32::from)).into_dyn();
        for &axis in axes.iter().rev() {
            wanted = wanted.map_axis(Axis(axis), |lane| {
                lane.iter().fold([0; 3], |sums, x| [0, 1, 2].map(|c| sums[c] + x[c]))
            });
        }
        assert_eq!(got, wanted, "{axes:?}");
    }
}
