// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parts of arrays: slices, single elements, and what is written to them, against ndarray.

use std::fmt::Debug;

use crate::common::*;
use cuda_std::prelude::*;
use ndarray::{Array1, Array2, Array3, ArrayD, Axis, IxDyn, Slice, SliceInfoElem, array, aview0, s};
use proptest::prelude::*;
use warpsmith::ops::{Border, Max, Sum};
use warpsmith::{Device, DeviceArray, DeviceView, Element, LaunchConfig};

pub fn numbered<T>(shape: &[usize], of: impl Fn(usize) -> T) -> ArrayD<T> {
    let len = shape.iter().product::<usize>();
    ArrayD::from_shape_vec(IxDyn(shape), (0..len).map(of).collect()).expect("as many elements")
}

/// A shape, and for each axis what a slice has of it; negative places and steps too, and new axes.
pub fn slices() -> impl Strategy<Value = (Vec<usize>, Vec<SliceInfoElem>)> {
    let axis = (0..40usize, 0..100u32, 0..100u32, -4..5isize, 0..8u32, any::<bool>());
    prop::collection::vec(axis, 1..4).prop_map(|axes| {
        let shape: Vec<usize> = axes.iter().map(|axis| axis.0).collect();
        let mut slice = Vec::new();
        for (length, from, to, step, kind, backwards) in axes {
            let place = |part: u32| (length as u32 * part / 99) as isize;
            let shown = |place: isize| {
                if backwards && place > 0 {
                    place - length as isize
                } else {
                    place
                }
            };
            match kind {
                0 if length > 0 => slice.push(SliceInfoElem::Index(shown(place(from).min(length as isize - 1)))),
                1 => slice.extend([SliceInfoElem::NewAxis, SliceInfoElem::from(..)]),
                2 => slice.push(SliceInfoElem::from(..)),
                _ => {
                    let (start, end) = (place(from.min(to)), place(from.max(to)));
                    let end = if end == length as isize { None } else { Some(shown(end)) };
                    slice.push(SliceInfoElem::Slice {
                        start: if start == length as isize { start } else { shown(start) },
                        end,
                        step: if step == 0 { 7 } else { step },
                    });
                }
            }
        }
        (shape, slice)
    })
}

/// A slice read, and a slice of another array written with it, by the elements' size.
fn copies<T: Element + Debug + PartialEq>(shape: &[usize], slice: &[SliceInfoElem], of: impl Fn(usize) -> T) {
    let x = numbered(shape, &of);
    let on_device = upload(&x);
    let (part, wanted) = (on_device.slice(slice).unwrap(), x.slice(slice));
    assert_eq!(part.shape(), wanted.shape());
    assert_eq!(part.to_ndarray().unwrap(), wanted, "{shape:?} {slice:?}");
    assert_eq!(
        part.t().to_ndarray().unwrap(),
        wanted.t(),
        "{shape:?} {slice:?}, transposed"
    );
    let mut y = numbered(shape, |i| of(i + 77));
    let mut out = upload(&y);
    y.slice_mut(slice).assign(&wanted);
    out.slice_mut(slice).unwrap().assign(&part).unwrap();
    assert_eq!(out.to_ndarray().unwrap(), y, "{shape:?} {slice:?}, assigned");
    y.slice_mut(slice).fill(of(5));
    out.slice_mut(slice).unwrap().fill(of(5)).unwrap();
    assert_eq!(out.to_ndarray().unwrap(), y, "{shape:?} {slice:?}, filled");
}

#[test]
fn random_slices_are_copied() {
    proptest!(cases(64), |((shape, slice) in slices())| {
        copies(&shape, &slice, |i| i as u8);
        copies(&shape, &slice, |i| i as u16);
        copies(&shape, &slice, |i| [i as u8; 3]);
        copies(&shape, &slice, |i| i as f32);
        copies(&shape, &slice, |i| i as u64);
        copies(&shape, &slice, |i| i as u128);
    });
}

#[test]
fn random_slices_are_operands() {
    proptest!(cases(64), |((shape, slice) in slices())| {
        let x = numbered(&shape, |i| (i as i32).wrapping_mul(0x9e37) % 1000);
        let on_device = upload(&x);
        let (part, wanted) = (on_device.slice(&slice[..]).unwrap(), x.slice(&slice[..]));
        prop_assert_eq!(part.square().unwrap().to_ndarray().unwrap(), wanted.mapv(|x| x.wrapping_mul(x)));
        prop_assert_eq!(part.sum().unwrap(), wanted.iter().map(|&x| i64::from(x)).sum::<i64>());
        let whole = part.to_array().unwrap();
        prop_assert_eq!(part.add(&whole).unwrap().to_ndarray().unwrap(), &wanted + &wanted);
        prop_assert_eq!(part.add_scalar(3).unwrap().to_ndarray().unwrap(), wanted.mapv(|x| x + 3));
        prop_assert_eq!(
            part.less(&part.t().to_array().unwrap().t()).unwrap().any().unwrap(),
            false
        );
        prop_assert_eq!(
            part.inclusive_scan::<Sum>().unwrap().to_ndarray().unwrap(),
            whole.inclusive_scan::<Sum>().unwrap().to_ndarray().unwrap()
        );
        for axis in (0..part.ndim()).map(Axis) {
            let sums = part.sum_axis(axis).unwrap().to_ndarray().unwrap();
            prop_assert_eq!(sums, wanted.mapv(i64::from).sum_axis(axis));
        }
    });
}

/// Vectors that begin at every place between two that are aligned.
#[test]
fn vectors_from_every_place_on() {
    fn check<T: Element + Debug + PartialEq + warpsmith::ops::Number>(of: impl Fn(usize) -> T)
    where
        T::Total: Debug + PartialEq,
    {
        let x = Array1::from_iter((0..9000).map(&of));
        let on_device = upload(&x);
        for start in (0..16 / size_of::<T>() + 2).chain([31]) {
            let (part, whole) = (
                on_device.slice(s![start..]).unwrap(),
                upload(&x.slice(s![start..]).to_owned()),
            );
            assert_eq!(part.sum().unwrap(), whole.sum().unwrap(), "sum from {start}");
            let (one, other) = (part.neg().unwrap(), whole.neg().unwrap());
            assert_eq!(
                one.to_ndarray().unwrap(),
                other.to_ndarray().unwrap(),
                "neg from {start}"
            );
            let (one, other) = (part.add(&part).unwrap(), whole.add(&whole).unwrap());
            assert_eq!(
                one.to_ndarray().unwrap(),
                other.to_ndarray().unwrap(),
                "add from {start}"
            );
            let (one, other) = (
                part.inclusive_scan::<Max>().unwrap(),
                whole.inclusive_scan::<Max>().unwrap(),
            );
            assert_eq!(
                one.to_ndarray().unwrap(),
                other.to_ndarray().unwrap(),
                "scan from {start}"
            );
            assert_eq!(part.argmax().unwrap(), whole.argmax().unwrap(), "argmax from {start}");
        }
    }
    check(|i| (i % 251) as u8);
    check(|i| (i * 7 % 65_521) as u16);
    check(|i| i as f32 % 16.0);
    check(|i| i as i64 * 3 % 1001);
}

#[test]
fn histograms_and_pictures_of_parts() {
    let x = Array3::from_shape_fn((33, 47, 4), |(i, j, k)| (i * 31 + j * 7 + k * 13) as u8);
    let on_device = upload(&x);
    for slice in [
        s![3..30, 5..40, ..3],
        s![1.., .., ..],
        s![..;-1, ..;2, 1..2],
        s![.., 1..46, ..],
        s![.., 1.., 1..],
    ] {
        let (part, whole) = (on_device.slice(slice).unwrap(), upload(&x.slice(slice).to_owned()));
        let counts = |x: &warpsmith::DeviceArrayRef<u8, _>| x.histogram(7, 0.0..=255.0).unwrap().to_ndarray().unwrap();
        assert_eq!(counts(&part), counts(&whole));
        let counts = |x: &warpsmith::DeviceArrayRef<u8, _>| x.bincount().unwrap().to_ndarray().unwrap();
        assert_eq!(counts(&part), counts(&whole));
        let channels =
            |x: &warpsmith::DeviceArrayRef<u8, _>| x.histogram_channels(5, 0.0..=255.0).unwrap().to_ndarray().unwrap();
        assert_eq!(channels(&part), channels(&whole));
        for border in [Border::Mean, Border::Clamp] {
            let blurred = |x: &warpsmith::DeviceArrayRef<u8, _>| x.box_blur(1, border).unwrap().to_ndarray().unwrap();
            assert_eq!(blurred(&part), blurred(&whole));
        }
    }
}

/// Rows from every place on, whose bytes are not aligned for words.
#[test]
fn pictures_that_begin_between_words() {
    let x = Array3::from_shape_fn((40, 33, 3), |(i, j, k)| (i * 31 + j * 7 + k * 13) as u8);
    let on_device = upload(&x);
    for first in 0..6 {
        let slice = s![first.., .., ..];
        let (part, whole) = (on_device.slice(slice).unwrap(), upload(&x.slice(slice).to_owned()));
        assert_eq!(
            part.box_blur_3x3().unwrap().to_ndarray().unwrap(),
            whole.box_blur_3x3().unwrap().to_ndarray().unwrap()
        );
        assert_eq!(
            part.grayscale().unwrap().to_ndarray().unwrap(),
            whole.grayscale().unwrap().to_ndarray().unwrap()
        );
        let gaussian = |x: &warpsmith::DeviceArrayRef<u8, _>| x.gaussian_blur(1.5, Border::Reflect).unwrap();
        assert_eq!(
            gaussian(&part).to_ndarray().unwrap(),
            gaussian(&whole).to_ndarray().unwrap()
        );
    }
}

/// `out = 2 x`, by vectors where both are aligned for them.
#[kernel]
pub fn double(x: &[f32], out: SliceMut<'_, f32>) {
    let i = 4 * thread::index_1d();
    if i + 4 <= out.len() && x.is_vec_aligned::<4>() && out.is_vec_aligned::<4>() {
        out.set_vec(i, x.load_vec::<4>(i).map(|x| 2.0 * x));
    } else {
        for i in i..Ord::min(i + 4, out.len()) {
            out.set(i, 2.0 * x.load(i));
        }
    }
}

/// `out = x`, by vectors.
#[kernel]
pub fn copy_vectors(x: &[f32], out: SliceMut<'_, f32>) {
    let i = 4 * thread::index_1d();
    if i + 4 <= out.len() {
        out.set_vec(i, x.load_vec::<4>(i));
    }
}

#[test]
fn kernels_of_ones_own_take_parts() {
    let device = Device::simulator();
    let stream = device.default_stream();
    let config = LaunchConfig::for_len(100, 32);
    let mut x = Array1::from_iter((0..300).map(|i| i as f32));
    let mut on_device = DeviceArray::from_ndarray(stream, &x).unwrap();
    for start in [0, 3, 8] {
        let (part, rest) = on_device.split_at_mut(Axis(0), 150).unwrap();
        let mut rest = rest;
        let mut out = rest.slice_mut(s![start..start + 101]).unwrap();
        stream
            .launch::<double>(&config, (&part.slice(s![start..start + 101]).unwrap(), &mut out))
            .unwrap();
        let doubled = x.slice(s![start..start + 101]).mapv(|x| 2.0 * x);
        x.slice_mut(s![150 + start..251 + start]).assign(&doubled);
        assert_eq!(on_device.to_ndarray().unwrap(), x);
    }
    let mut out = DeviceArray::zeros(stream, 8).unwrap();
    let error = stream
        .launch::<copy_vectors>(&config, (&on_device.slice(s![1..9]).unwrap(), &mut out))
        .unwrap_err();
    assert!(error.to_string().contains("vector access is not aligned"), "{error}");
    let error = stream
        .launch::<double>(&config, (&out, &mut on_device.slice_mut(s![..16;2]).unwrap()))
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "double: given a view of shape [8] and strides [2], wanted a view in C order, since a kernel knows no strides: \
         `to_array` puts it in order"
    );
}

#[test]
fn products_of_parts() {
    let x = Array2::from_shape_fn((70, 90), |(i, j)| ((i * 31 + j * 7) % 17) as f32);
    let on_device = upload(&x);
    for (a, b) in [
        (s![1..50, 3..40], s![2..39, 1..60]),
        (s![..;2, ..64], s![5..69, ..;3]),
        (s![..;-1, 8..40], s![32..64;-1, 4..;-2]),
    ] {
        let product = on_device
            .slice(a)
            .unwrap()
            .matmul(&on_device.slice(b).unwrap())
            .unwrap();
        assert_eq!(product.to_ndarray().unwrap(), x.slice(a).dot(&x.slice(b)));
    }
    let (row, matrix) = (s![3, 5..;-1], s![2..40, ..85;-1]);
    let vector = on_device.slice(row).unwrap();
    let product = on_device.slice(matrix).unwrap().matvec(&vector).unwrap();
    assert_eq!(product.to_ndarray().unwrap(), x.slice(matrix).dot(&x.slice(row)));
    assert_eq!(vector.dot(&vector).unwrap(), x.slice(row).dot(&x.slice(row)));
}

#[test]
fn parts_along_axes() {
    let x = Array3::from_shape_fn((5, 6, 7), |(i, j, k)| (i * 100 + j * 10 + k) as u16);
    let on_device = upload(&x);
    for axis in (0..3).map(Axis) {
        let length = x.len_of(axis);
        for index in 0..length {
            let part = on_device.index_axis(axis, index).unwrap();
            assert_eq!(part.to_ndarray().unwrap(), x.index_axis(axis, index));
        }
        for index in 0..=length {
            let (before, from) = on_device.split_at(axis, index).unwrap();
            let wanted = x.view().split_at(axis, index);
            assert_eq!(before.to_ndarray().unwrap(), wanted.0);
            assert_eq!(from.to_ndarray().unwrap(), wanted.1);
        }
        for size in [1, 2, 4, 100] {
            let parts = on_device.axis_chunks(axis, size).unwrap();
            assert_eq!(parts.len(), x.axis_chunks_iter(axis, size).len());
            for (part, wanted) in parts.zip(x.axis_chunks_iter(axis, size)) {
                assert_eq!(part.to_ndarray().unwrap(), wanted);
            }
        }
        for (part, wanted) in on_device.axis_iter(axis).unwrap().zip(x.axis_iter(axis)) {
            assert_eq!(part.to_ndarray().unwrap(), wanted);
        }
        let slice = Slice::new(-4, Some(-1), 2);
        assert_eq!(
            on_device.slice_axis(axis, slice).unwrap().to_ndarray().unwrap(),
            x.slice_axis(axis, slice)
        );
        let mut flipped = x.view();
        flipped.invert_axis(axis);
        assert_eq!(on_device.flip(axis).unwrap().to_ndarray().unwrap(), flipped);
    }
    for axis in (0..4).map(Axis) {
        let inserted = on_device.insert_axis(axis).unwrap();
        assert_eq!(inserted.to_ndarray().unwrap(), x.view().insert_axis(axis));
    }
    // A view of a view lasts as long as the array is borrowed.
    let column: DeviceView<'_, u16, _> = on_device.t().index_axis(Axis(0), 2).unwrap().slice(s![1, ..]).unwrap();
    assert_eq!(column.to_ndarray().unwrap(), x.slice(s![.., 1, 2]));
}

#[test]
fn single_elements() {
    let mut x = array![[1.5, 2.5], [3.5, 4.5]];
    let mut on_device = upload(&x);
    for (index, &value) in x.indexed_iter() {
        assert_eq!(on_device.get(index).unwrap(), value);
    }
    on_device.set([1, 0], -3.0).unwrap();
    on_device.slice_mut(s![..;-1, 1]).unwrap().set(0, 7.0).unwrap();
    x[[1, 0]] = -3.0;
    x[[1, 1]] = 7.0;
    assert_eq!(on_device.to_ndarray().unwrap(), x);
    assert_eq!(on_device.flip(Axis(1)).unwrap().get((1, 0)).unwrap(), 7.0);
    let zero = upload(&aview0(&5u8));
    assert_eq!(zero.get(()).unwrap(), 5);
    let dynamic = on_device.view().into_dyn();
    assert_eq!(dynamic.get(IxDyn(&[0, 1])).unwrap(), 2.5);
    assert_eq!(
        dynamic.get(IxDyn(&[0])).unwrap_err().to_string(),
        "get: given index [0], wanted an index within shape [2, 2]"
    );
    assert_eq!(
        on_device.set([0, 2], 0.0).unwrap_err().to_string(),
        "set: given index [0, 2], wanted an index within shape [2, 2]"
    );
}

#[test]
fn what_is_not_there_is_an_error() {
    let x = upload(&Array2::<u8>::zeros((3, 4)));
    let message = |slice: &[SliceInfoElem]| x.view().into_dyn().slice(slice).unwrap_err().to_string();
    let all = SliceInfoElem::from(..);
    let range = |start, end, step| SliceInfoElem::Slice { start, end, step };
    assert_eq!(
        message(&[range(1, Some(4), 1), all]),
        "slice: given 1..4 along axis 0 of shape [3, 4], wanted places from 0 to 3, and a step other than 0"
    );
    assert!(message(&[all, range(-5, None, -2)]).starts_with("slice: given -5..;-2 along axis 1"));
    assert!(message(&[all, range(0, None, 0)]).starts_with("slice: given 0..;0 along axis 1"));
    assert_eq!(
        message(&[SliceInfoElem::Index(-4), all]),
        "slice: given index -4 along axis 0 of shape [3, 4], wanted an index below 3"
    );
    assert!(message(&[all, SliceInfoElem::Index(isize::MIN)]).starts_with("slice: given index -9223372036854775808"));
    assert_eq!(
        message(&[all]),
        "slice: given a slice of 1 axes for shape [3, 4], wanted a slice of 2 axes"
    );
    assert_eq!(
        x.index_axis(Axis(2), 0).unwrap_err().to_string(),
        "index_axis: given axes [2], wanted an axis below 2"
    );
    assert_eq!(
        x.index_axis(Axis(0), 3).unwrap_err().to_string(),
        "index_axis: given index 3 along axis 0 of shape [3, 4], wanted an index below 3"
    );
    assert_eq!(
        x.split_at(Axis(1), 5).unwrap_err().to_string(),
        "split_at: given index 5 along axis 1 of shape [3, 4], wanted an index of at most 4"
    );
    assert_eq!(
        x.axis_chunks(Axis(1), 0).err().unwrap().to_string(),
        "axis_chunks: size: given 0, wanted at least 1"
    );
    let mut y = upload(&Array1::<u8>::zeros(3));
    assert_eq!(
        y.assign(&x).unwrap_err().to_string(),
        "assign: given shapes [3] and [3, 4], wanted a second shape that broadcasts to the first"
    );
    let other = Device::simulator();
    let other = DeviceArray::<u8, _>::zeros(other.default_stream(), 3).unwrap();
    assert!(
        y.assign(&other)
            .unwrap_err()
            .to_string()
            .starts_with("assign: given an operand on")
    );
}

/// Rows and columns that interlace, within one array.
#[test]
fn parts_of_one_array_are_assigned_to_another() {
    let mut x = Array2::from_shape_fn((20, 30), |(i, j)| (i * 100 + j) as u32);
    let mut on_device = upload(&x);
    for axis in [Axis(0), Axis(1)] {
        let (mut to, from) = x.view_mut().split_at(axis, 10);
        let from = from.slice_axis(axis, Slice::from(..10)).to_owned();
        to.assign(&from);
        let (mut to, from) = on_device.split_at_mut(axis, 10).unwrap();
        to.assign(&from.slice_axis(axis, Slice::from(..10)).unwrap()).unwrap();
        drop((to, from));
        assert_eq!(on_device.to_ndarray().unwrap(), x);
    }
}

/// Each stream writes its part, and whoever reads all of them waits for each.
#[test]
fn streams_write_parts() {
    let len = if device().is_simulator() { 1 << 12 } else { 1 << 22 };
    for axis in [Axis(0), Axis(1)] {
        let mut x = DeviceArray::<u32, _>::zeros(device().default_stream(), (64, len / 64)).unwrap();
        for round in 1..5u32 {
            let streams: Vec<_> = (0..4).map(|_| device().create_stream().unwrap()).collect();
            let size = x.shape()[axis.index()] / 4;
            for ((part, stream), number) in x.axis_chunks_mut(axis, size).unwrap().zip(&streams).zip(0..) {
                let mut part = part.into_stream(stream).unwrap();
                let more = part.add_scalar(number + 1).unwrap();
                part.assign(&more).unwrap();
            }
            let sums: Vec<u64> = x
                .axis_chunks(axis, size)
                .unwrap()
                .map(|part| part.sum().unwrap())
                .collect();
            let of_part = len as u64 / 4;
            let wanted: Vec<u64> = (1..5).map(|number| number * u64::from(round) * of_part).collect();
            assert_eq!(sums, wanted);
        }
    }
}

/// Threads that each have a stream and a part, which interlace in one case; whoever comes after them waits for all.
#[test]
fn threads_write_parts() {
    for axis in [Axis(0), Axis(1)] {
        let mut x = DeviceArray::<u32, _>::zeros(device().default_stream(), (32, 96)).unwrap();
        let mut wanted = Array2::<u32>::zeros((32, 96));
        for round in 1..20u32 {
            let size = x.shape()[axis.index()] / 4;
            std::thread::scope(|scope| {
                for (part, number) in x.axis_chunks_mut(axis, size).unwrap().zip(0..) {
                    scope.spawn(move || {
                        let mut part = part.into_stream(&device().create_stream().unwrap()).unwrap();
                        part.fill(number).unwrap();
                        let more = part.add_scalar(round).unwrap();
                        part.assign(&more).unwrap();
                        part.set([0, 0], 7).unwrap();
                    });
                }
            });
            for (mut part, number) in wanted.axis_chunks_iter_mut(axis, size).zip(0..) {
                part.fill(number + round);
                part[[0, 0]] = 7;
            }
            assert_eq!(x.to_ndarray().unwrap(), wanted);
        }
    }
}

#[test]
fn many_parts_on_many_streams() {
    let streams: Vec<_> = (0..3).map(|_| device().create_stream().unwrap()).collect();
    let mut x = DeviceArray::<u16, _>::zeros(device().default_stream(), 1000).unwrap();
    let mut wanted = Array1::<u16>::zeros(1000);
    for round in 0..3u16 {
        for (number, part) in x.axis_chunks_mut(Axis(0), 7).unwrap().enumerate() {
            let stream = &streams[(number + usize::from(round)) % 3];
            let mut part = part.into_stream(stream).unwrap();
            part.fill(round * 1000 + number as u16).unwrap();
        }
        for (number, mut part) in wanted.axis_chunks_iter_mut(Axis(0), 7).enumerate() {
            part.fill(round * 1000 + number as u16);
        }
        let read = x.view().into_stream(&streams[usize::from(round)]).unwrap();
        assert_eq!(read.to_ndarray().unwrap(), wanted);
    }
}

#[test]
fn mutable_views_are_taken_apart() {
    let mut x = Array2::<i32>::zeros((4, 6));
    let mut on_device = upload(&x);
    let mut view = on_device.view_mut();
    view.view_mut()
        .slice_axis_mut(Axis(1), Slice::new(1, None, 2))
        .unwrap()
        .fill(1)
        .unwrap();
    x.slice_mut(s![.., 1..;2]).fill(1);
    for (i, mut row) in view.axis_iter_mut(Axis(0)).unwrap().enumerate() {
        row.set(0, i as i32).unwrap();
        x[[i, 0]] = i as i32;
    }
    view.index_axis_mut(Axis(1), 5).unwrap().fill(9).unwrap();
    x.column_mut(5).fill(9);
    let row = upload(&array![7, 8, 9, 10]);
    view.reversed_axes().slice_mut(s![2, ..]).unwrap().assign(&row).unwrap();
    x.column_mut(2).assign(&array![7, 8, 9, 10]);
    let mut permuted = on_device.view_mut().permuted_axes([1, 0]).unwrap().into_dyn();
    assert_eq!(permuted.sum().unwrap(), i64::from(x.sum()));
    permuted.set(IxDyn(&[3, 0]), -1).unwrap();
    x[[0, 3]] = -1;
    assert_eq!(on_device.to_ndarray().unwrap(), x);
}

#[test]
fn axes_flipped_and_turned() {
    let x = Array3::from_shape_fn((2, 3, 4), |(i, j, k)| (i * 100 + j * 10 + k) as i32);
    let on_device = upload(&x);
    let flipped = |view: DeviceView<'_, i32, _>| view.to_ndarray().unwrap();
    assert_eq!(flipped(on_device.flip_axes(&[]).unwrap()), x);
    assert_eq!(
        flipped(on_device.flip_axes(&[2, 0]).unwrap()),
        x.slice(s![..;-1, .., ..;-1])
    );
    let error = on_device.flip_axes(&[1, 0, 1]).unwrap_err().to_string();
    assert_eq!(
        error,
        "flip_axes: given axes [1, 0, 1], wanted axes below 3, each at most once"
    );
    assert!(on_device.flip_axes(&[3]).is_err());

    let (from, to) = (Axis(1), Axis(2));
    let turned = |turns: i32| on_device.rot90(turns, from, to).unwrap().to_ndarray().unwrap();
    let once = Array3::from_shape_fn((2, 4, 3), |(i, j, k)| x[[i, k, 3 - j]]);
    assert_eq!(turned(1), once);
    assert_eq!(turned(2), x.slice(s![.., ..;-1, ..;-1]));
    assert_eq!(
        turned(-1),
        Array3::from_shape_fn((2, 4, 3), |(i, j, k)| x[[i, 2 - k, j]])
    );
    for turns in [-5, -4, 3, 7, i32::MIN, i32::MAX] {
        assert_eq!(turned(turns), turned(turns.rem_euclid(4)));
        let back = on_device.rot90(turns, to, from).unwrap();
        assert_eq!(back.to_ndarray().unwrap(), turned(turns.rem_euclid(4).wrapping_neg()));
    }
    let error = on_device.rot90(1, from, from).unwrap_err().to_string();
    assert_eq!(
        error,
        "rot90: given axes [1, 1], wanted axes below 3, each at most once"
    );
    assert!(on_device.rot90(0, from, Axis(3)).is_err());
    let none = upload(&Array2::<u8>::zeros((0, 5)));
    assert_eq!(none.rot90(1, Axis(0), Axis(1)).unwrap().shape(), [5, 0]);
}

#[test]
fn the_only_element() {
    assert_eq!(upload(&aview0(&7u8)).item().unwrap(), 7);
    assert_eq!(upload(&array![[[2.5f64]]]).item().unwrap(), 2.5);
    let x = upload(&array![[1, 2], [3, 4]]);
    assert_eq!(x.slice(s![1, 1..]).unwrap().item().unwrap(), 4);
    assert_eq!(x.view().into_dyn().slice(s![1, 0]).unwrap().item().unwrap(), 3);
    let error = x.item().unwrap_err().to_string();
    assert_eq!(error, "item: given shape [2, 2], wanted one element");
    assert!(upload(&Array1::<f32>::zeros(0)).item().is_err());
}
