// SPDX-License-Identifier: MIT OR Apache-2.0
//! Results into parts of arrays, and operations in place on them, against ndarray: what is beside a part stays.

use std::fmt::Debug;

use crate::common::*;
use crate::slicing::{numbered, slices};
use ndarray::{
    Array, Array1, Array2, Array3, ArrayViewMutD, Axis, Dimension, Ix1, Ix3, IxDyn, Slice, SliceInfoElem, Zip, array, s,
};
use proptest::prelude::*;
use warpsmith::ops::{Border, Generator, ScanAlgorithm, Square, Sum, Weights, elementwise_into};
use warpsmith::{DeviceArray, DeviceArrayRef, Element, Result};

kernels_gpu::elementwise! {
    /// More than a product.
    pub fn product_and_one(x: i32, y: i32) -> i32 {
        x * y + 1
    }
}

/// Where a test writes: a slice of an array, in some order of its axes.
#[derive(Debug)]
struct Place {
    shape: Vec<usize>,
    slice: Vec<SliceInfoElem>,
    transposed: bool,
}

fn places() -> impl Strategy<Value = Place> {
    (slices(), any::<bool>()).prop_map(|((shape, slice), transposed)| Place {
        shape,
        slice,
        transposed,
    })
}

impl Place {
    /// The shape of what is written.
    fn written(&self) -> Vec<usize> {
        let all = numbered(&self.shape, |_| 0u8);
        let part = all.slice(&self.slice[..]);
        if self.transposed {
            part.t().shape().to_vec()
        } else {
            part.shape().to_vec()
        }
    }

    /// Writes to the part of an array on the device and of one of ndarray's, which are the same before and after.
    fn check<T: Number>(
        &self,
        what: &str,
        old: impl Fn(usize) -> T,
        device: impl FnOnce(&mut DynRef<T>) -> Result<()>,
        host: impl FnOnce(ArrayViewMutD<'_, T>),
    ) {
        let mut wanted = numbered(&self.shape, old);
        let mut got = upload(&wanted);
        let (mut part, mut wanted_part) = (
            got.slice_mut(&self.slice[..]).unwrap(),
            wanted.slice_mut(&self.slice[..]),
        );
        if self.transposed {
            (part, wanted_part) = (part.reversed_axes(), wanted_part.reversed_axes());
        }
        device(&mut part).unwrap();
        host(wanted_part);
        assert_same(
            &elements(&got),
            &wanted.into_raw_vec_and_offset().0,
            &format!("{what}, {self:?}"),
        );
    }
}

fn number(i: usize) -> i32 {
    (i as i32).wrapping_mul(0x9e37) % 1000
}

#[test]
fn functions_of_elements_into_parts() {
    proptest!(cases(48), |(place in places())| {
        let x = numbered(&place.written(), |i| number(i + 5));
        let on_device = upload(&x);
        let each = |f: fn(i32) -> i32| { let x = &x; move |mut out: ArrayViewMutD<'_, i32>| out.assign(&x.mapv(f)) };
        place.check("map_into", number, |out| on_device.map_into::<Square>(out), each(|x| x.wrapping_mul(x)));
        place.check("neg_into", number, |out| on_device.neg_into(out), each(|x| -x));
        place.check("clamp_into", number, |out| on_device.clamp_into(-50, 50, out), each(|x| x.clamp(-50, 50)));
        place.check("cast_into", |i| i as u8, |out| on_device.cast_into(out), |mut out| out.assign(&x.mapv(|x| x as u8)));
        place.check("to_array_into", number, |out| on_device.to_array_into(out), each(|x| x));
        place.check("assign", number, |out| out.assign(&on_device), each(|x| x));
        place.check("fill", number, |out| out.fill(7), each(|_| 7));
        place.check("transpose_into", number, |out| on_device.t().to_array()?.transpose_into(out), each(|x| x));
        // This kernel is the test's, of which there is no PTX.
        if device().is_simulator() {
            place.check("elementwise_into", number, |out| elementwise_into::<product_and_one, _>((&on_device, &on_device), out),
                each(|x| x * x + 1));
        }
        place.check("neg_inplace", number, |out| out.neg_inplace(), |mut out| out.mapv_inplace(|x| -x));
        place.check("clamp_inplace", number, |out| out.clamp_inplace(-9, 99), |mut out| out.mapv_inplace(|x| x.clamp(-9, 99)));
        place.check("axpy", number, |out| out.axpy(3, &on_device), |mut out| out.scaled_add(3, &x));
    });
}

#[test]
fn arrays_of_the_host_into_parts_and_back() {
    proptest!(cases(32), |(place in places())| {
        let x = numbered(&place.written(), |i| number(i + 5));
        let fortran = x.t().as_standard_layout().into_owned().reversed_axes();
        let gaps = numbered(&[&place.written()[..], &[2]].concat(), number);
        let gaps = gaps.index_axis(Axis(place.written().len()), 1);
        place.check("assign_ndarray", number, |out| out.assign_ndarray(&x), |mut out| out.assign(&x));
        place.check("assign_ndarray of Fortran order", number, |out| out.assign_ndarray(&fortran), |mut out| out.assign(&x));
        place.check("assign_ndarray of a part", number, |out| out.assign_ndarray(&gaps), |mut out| out.assign(&gaps));
        let mut read = x.clone();
        place.check("copy_to_ndarray", number, |out| out.copy_to_ndarray(&mut read.view_mut()), |out| drop(out));
        let mut part = numbered(&place.shape, number);
        let part = part.slice_mut(&place.slice[..]);
        let part = if place.transposed { part.reversed_axes() } else { part };
        prop_assert_eq!(part, read);
    });
}

#[test]
fn two_operands_into_parts() {
    proptest!(cases(48), |(place in places())| {
        let shape = place.written();
        let (x, y) = (numbered(&shape, |i| number(i + 5)), numbered(&shape, |i| number(3 * i)));
        let (a, b) = (upload(&x), upload(&y));
        let row = x.shape().last().map(|&columns| numbered(&[columns], number));
        place.check("add_into", number, |out| a.add_into(&b, out), |mut out| out.assign(&(&x + &y)));
        place.check("sub_scalar_into", number, |out| a.sub_scalar_into(4, out), |mut out| out.assign(&(&x - 4)));
        place.check("scalar_sub_into", number, |out| a.scalar_sub_into(4, out), |mut out| out.assign(&(4 - &x)));
        place.check("less_into", |_| 9u8, |out| a.less_into(&b, out), |out| {
            Zip::from(out).and(&x).and(&y).for_each(|out, x, y| *out = u8::from(x < y));
        });
        place.check("less_scalar_into", |_| 9u8, |out| a.less_scalar_into(4, out), |mut out| {
            out.assign(&x.mapv(|x| u8::from(x < 4)));
        });
        place.check("select_into", number, |out| a.less(&b)?.select_into(&a, &b, out), |out| {
            Zip::from(out).and(&x).and(&y).for_each(|out, &x, &y| *out = x.min(y));
        });
        place.check("mul_assign", number, |out| out.mul_assign(&b), |mut out| out *= &y);
        place.check("mul_assign_scalar", number, |out| out.mul_assign_scalar(5), |mut out| out *= 5);
        place.check("scalar_sub_assign", number, |out| out.scalar_sub_assign(5), |mut out| out.mapv_inplace(|x| 5 - x));
        if let Some(row) = row {
            let on_device = upload(&row);
            place.check("add_assign of a row", number, |out| out.add_assign(&on_device), |mut out| out += &row);
        }
    });
}

#[test]
fn reductions_and_scans_into_parts() {
    proptest!(cases(48), |(place in places(), length in 0..70usize, at in 0..4usize)| {
        let (axis, mut shape) = (at.min(place.written().len()), place.written());
        let scanned = numbered(&shape, |i| i64::from(number(i + 5)));
        let x = upload(&scanned);
        shape.insert(axis, length);
        let reduced = numbered(&shape, |i| i64::from(number(i)));
        let y = upload(&reduced);
        let old = |i| i64::from(number(i));
        let sums = |mut out: ArrayViewMutD<'_, i64>| out.assign(&reduced.sum_axis(Axis(axis)));
        place.check("sum_axis_into", old, |out| y.sum_axis_into(Axis(axis), out), sums);
        place.check("sum_axes_into", old, |out| y.sum_axes_into(&[axis], out), sums);
        let scan = |mut out: ArrayViewMutD<'_, i64>| {
            let mut sum = 0;
            out.assign(&scanned.mapv(|x| { sum += x; sum }));
        };
        place.check("inclusive_scan_into", old, |out| x.inclusive_scan_into::<Sum>(out), scan);
        let by = ScanAlgorithm::Blelloch;
        place.check("inclusive_scan_by_into", old, |out| x.inclusive_scan_by_into::<Sum>(by, out), scan);
        for axis in (0..scanned.ndim()).map(Axis) {
            let lanes = |mut out: ArrayViewMutD<'_, i64>| {
                out.assign(&scanned);
                out.accumulate_axis_inplace(axis, |before, x| *x += before);
            };
            place.check("inclusive_scan_axis_into", old, |out| x.inclusive_scan_axis_into::<Sum>(axis, out), lanes);
        }
    });
}

#[test]
fn random_numbers_into_parts() {
    proptest!(cases(24), |(place in places())| {
        let stream = device().default_stream();
        let shape = IxDyn(&place.written());
        let whole = Generator::new(3).integers(stream, shape.clone(), -9..9i32).unwrap().to_ndarray().unwrap();
        place.check("integers_into", number, |out| Generator::new(3).integers_into(-9..9, out), |mut out| out.assign(&whole));
        let whole = Generator::new(3).uniform(stream, shape, 0.0..1.0f32).unwrap().to_ndarray().unwrap();
        place.check("uniform_into", |_| 7.0, |out| Generator::new(3).uniform_into(0.0..1.0, out), |mut out| out.assign(&whole));
    });
}

/// Writes to every other column of an array, which has `old` elsewhere.
fn with_gaps<T: Element + PartialEq + Debug, D: Dimension>(
    wanted: &Array<T, D>,
    old: T,
    write: impl FnOnce(&mut DeviceArrayRef<T, D>) -> Result<()>,
) {
    let (mut dim, last) = (wanted.raw_dim(), wanted.ndim() - 1);
    dim[last] = 2 * dim[last] + 1;
    let mut all = Array::from_elem(dim, old);
    let mut got = upload(&all);
    let (axis, columns) = (Axis(last), Slice::new(1, None, 2));
    write(&mut got.slice_axis_mut(axis, columns).unwrap()).unwrap();
    all.slice_axis_mut(axis, columns).assign(wanted);
    assert_eq!(got.to_ndarray().unwrap(), all);
}

#[test]
fn products_into_parts() {
    let a = Array2::from_shape_fn((5, 7), |(i, j)| number(7 * i + j));
    let b = Array2::from_shape_fn((7, 3), |(i, j)| number(11 * i + j));
    let x = Array1::from_shape_fn(7, number);
    let (on_a, on_b, on_x) = (upload(&a), upload(&b), upload(&x));
    let mut out = upload(&Array2::from_elem((8, 9), 6));
    let mut wanted = Array2::from_elem((8, 9), 6);
    on_a.matmul_into(&on_b, &mut out.slice_mut(s![1..6, ..;3]).unwrap())
        .unwrap();
    wanted.slice_mut(s![1..6, ..;3]).assign(&a.dot(&b));
    assert_eq!(out.to_ndarray().unwrap(), wanted);
    out.slice_mut(s![..;-1, ..3])
        .unwrap()
        .slice_mut(s![..5, ..])
        .unwrap()
        .gemm(2, &on_a, &on_b, 3)
        .unwrap();
    let mut part = wanted.slice_mut(s![3..;-1, ..3]);
    let sum = a.dot(&b) * 2 + &part * 3;
    part.assign(&sum);
    assert_eq!(out.to_ndarray().unwrap(), wanted);
    on_a.matvec_into(&on_x, &mut out.slice_mut(s![..5, 4]).unwrap())
        .unwrap();
    wanted.slice_mut(s![..5, 4]).assign(&a.dot(&x));
    out.slice_mut(s![3.., 5]).unwrap().gemv(1, &on_a, &on_x, 2).unwrap();
    let mut part = wanted.slice_mut(s![3.., 5]);
    let sum = a.dot(&x) + &part * 2;
    part.assign(&sum);
    assert_eq!(out.to_ndarray().unwrap(), wanted);
    let mut batch = upload(&Array3::from_elem((2, 5, 6), 6));
    let (twice_a, once_b) = (on_a.broadcast((2, 5, 7)).unwrap(), on_b.insert_axis(Axis(0)).unwrap());
    twice_a
        .batched_matmul_into(&once_b, &mut batch.slice_mut(s![.., .., ..;2]).unwrap())
        .unwrap();
    batch
        .slice_mut(s![.., .., ..;2])
        .unwrap()
        .batched_gemm(1, &twice_a, &once_b, 1)
        .unwrap();
    let mut wanted = Array3::from_elem((2, 5, 6), 6);
    wanted.slice_mut(s![.., .., ..;2]).assign(&(a.dot(&b) * 2));
    assert_eq!(batch.to_ndarray().unwrap(), wanted);
}

#[test]
fn counts_into_parts() {
    let x = Array1::from_shape_fn(5000, |i| (number(i).unsigned_abs() % 11) as u8);
    let on_device = upload(&x);
    let counts = on_device.bincount().unwrap().to_ndarray().unwrap();
    let edges: Vec<f64> = (0..12).map(|i| f64::from(i) - 0.5).collect();
    with_gaps(&counts, 7, |out| on_device.bincount_into(out));
    with_gaps(&counts, 7, |out| on_device.histogram_into(-0.5..=10.5, out));
    with_gaps(&counts, 7, |out| on_device.histogram_edges_into(&edges, out));
    let nothing = upload(&Array1::<u8>::zeros(0));
    with_gaps(&Array1::zeros(counts.len()), 7, |out| nothing.bincount_into(out));
    // A part without a gap: its neighbours stay.
    let mut out = upload(&Array1::from_elem(30, 7));
    nothing
        .histogram_into(0.0..=1.0, &mut out.slice_mut(s![10..20]).unwrap())
        .unwrap();
    let mut wanted = Array1::from_elem(30, 7);
    wanted.slice_mut(s![10..20]).fill(0);
    assert_eq!(out.to_ndarray().unwrap(), wanted);
}

#[test]
fn pictures_into_parts() {
    let picture = Array3::from_shape_fn((33, 40, 3), |(i, j, k)| (number(3 * (40 * i + j) + k) % 251) as u8);
    let picture = upload(&picture);
    let whole = |result: Result<DeviceArray<u8, Ix3>>| result.unwrap().to_ndarray().unwrap();
    with_gaps(&whole(picture.box_blur(2, Border::Clamp)), 7, |out| {
        picture.box_blur_into(2, Border::Clamp, out)
    });
    with_gaps(&whole(picture.box_blur_3x3()), 7, |out| picture.box_blur_3x3_into(out));
    with_gaps(&whole(picture.gaussian_blur(1.5, Border::Mean)), 7, |out| {
        picture.gaussian_blur_into(1.5, Border::Mean, out)
    });
    let gray = picture.grayscale_with(Weights::Bt709).unwrap().to_ndarray().unwrap();
    with_gaps(&gray, 7, |out| picture.grayscale_with_into(Weights::Bt709, out));
    let counts = picture
        .histogram_channels(9, 0.0..=255.0)
        .unwrap()
        .to_ndarray()
        .unwrap();
    with_gaps(&counts, 7, |out| picture.histogram_channels_into(0.0..=255.0, out));
}

#[test]
fn sums_where_indices_say_in_parts() {
    let indices = upload(&array![2u32, 0, 2, 3]);
    let values = Array2::from_shape_fn((4, 5), |(i, j)| number(5 * i + j));
    let mut sums = Array2::from_shape_fn((8, 5), |(i, j)| number(i * j));
    let mut got = upload(&sums);
    got.slice_mut(s![..;-2, ..])
        .unwrap()
        .scatter_add(Axis(0), &indices, &upload(&values))
        .unwrap();
    for (row, of) in [2, 0, 2, 3].into_iter().zip(values.rows()) {
        let mut row = sums.row_mut(7 - 2 * row);
        row += &of;
    }
    assert_eq!(got.to_ndarray().unwrap(), sums);
}

/// What is read and what is written interlace in one array.
#[test]
fn parts_of_one_array_are_operands_and_results() {
    type Columns<'a> = warpsmith::DeviceView<'a, f32, ndarray::Ix2>;
    type Parts<'a> = (Columns<'a>, &'a mut DeviceArrayRef<f32, ndarray::Ix2>);
    type Operation = (fn(Parts<'_>) -> Result<()>, fn(f32) -> f32);
    let operations: [Operation; 6] = [
        (|(x, out)| x.add_into(&x, out), |x| x + x),
        (|(x, out)| x.mul_scalar_into(3.0, out), |x| x * 3.0),
        (|(x, out)| x.square_into(out), |x| x * x),
        (|(x, out)| x.to_array_into(out), |x| x),
        (|(x, out)| x.greater_scalar(0.0)?.select_into(&x, &x, out), |x| x),
        (|(x, out)| out.axpy(0.0, &x).and_then(|()| out.assign(&x)), |x| x),
    ];
    for (axis, (run, f)) in (0..2).flat_map(|axis| operations.map(|operation| (Axis(axis), operation))) {
        let mut wanted = Array2::from_shape_fn((12, 14), |(i, j)| number(14 * i + j) as f32);
        let mut got = upload(&wanted);
        let (mut to, from) = got.split_at_mut(axis, 6).unwrap();
        run((from.slice_axis(axis, Slice::from(..6)).unwrap(), &mut to)).unwrap();
        let (mut to, from) = wanted.view_mut().split_at(axis, 6);
        to.assign(&from.slice_axis(axis, Slice::from(..6)).mapv(f));
        assert_eq!(got.to_ndarray().unwrap(), wanted);
    }
    // A row beside columns, between whose first element and last it lies.
    let mut x = upload(&Array2::from_shape_fn((6, 5), |(i, j)| (5 * i + j) as f32));
    let (left, mut right) = x.split_at_mut(Axis(1), 1).unwrap();
    let column = left.slice(s![..4, 0]).unwrap();
    column
        .add_into(&column, &mut right.index_axis_mut(Axis(0), 2).unwrap())
        .unwrap();
    let columns = left.broadcast((6, 4)).unwrap();
    columns
        .sum_axis_into(Axis(0), &mut right.index_axis_mut(Axis(0), 1).unwrap())
        .unwrap();
    let (a, b) = (upload(&Array2::<f32>::eye(6)), left.broadcast((6, 2)).unwrap());
    a.matmul_into(&b, &mut right.slice_mut(s![.., 2..]).unwrap()).unwrap();
    a.matvec_into(
        &left.slice(s![.., 0]).unwrap(),
        &mut right.slice_mut(s![.., 1]).unwrap(),
    )
    .unwrap();
    let sums = [75.0, 75.0, 75.0, 75.0];
    let mut wanted = Array2::from_shape_fn((6, 5), |(i, j)| (5 * i + j) as f32);
    wanted.slice_mut(s![2, 1..]).assign(&array![0.0, 10.0, 20.0, 30.0]);
    wanted
        .slice_mut(s![1, 1..])
        .assign(&array![sums[0], sums[1], sums[2], sums[3]]);
    for row in 0..6 {
        wanted.slice_mut(s![row, 2..]).fill(5.0 * row as f32);
    }
    assert_eq!(x.to_ndarray().unwrap(), wanted);
}

/// What an operation takes is inferred: arrays, views and the results of functions.
#[test]
fn operands_are_inferred() {
    fn made() -> Result<DeviceArray<f32, Ix1>> {
        Ok(upload(&array![1.0, 2.0, 3.0]))
    }
    let mut x = made().unwrap();
    let y = made().unwrap();
    x.axpy(1.0, &made().unwrap()).unwrap();
    let run = |x: &mut DeviceArray<f32, Ix1>| -> Result<()> {
        x.axpy(1.0, &made()?)?;
        x.axpy(1.0, &y)?;
        x.axpy(1.0, &y.slice(s![..;-1])?)?;
        x.add_assign(&made()?.slice(s![..1])?)?;
        y.add(&made()?)?.add_into(&y.view(), &mut x.view_mut())?;
        y.add_into(&made()?, x)?;
        y.slice(s![..2])?
            .add_into(&made()?.slice(s![..2])?, &mut x.slice_mut(s![1..])?)?;
        x.slice_mut(s![..1])?.assign(&made()?.slice(s![2..])?)
    };
    run(&mut x).unwrap();
    assert_eq!(x.to_ndarray().unwrap(), array![3.0, 2.0, 4.0]);
    let shared = std::sync::Arc::new(made().unwrap());
    assert_eq!(shared.dot(&shared).unwrap(), 14.0);
}

#[test]
fn wrong_parts_are_refused() {
    let x = upload(&Array2::<f32>::zeros((4, 6)));
    let mut out = upload(&Array2::<f32>::zeros((4, 12)));
    let error = x
        .neg_into(&mut out.slice_mut(s![.., ..;3]).unwrap())
        .unwrap_err()
        .to_string();
    assert_eq!(error, "neg: given shapes [4, 6] and [4, 4], wanted equal shapes");
    let other = warpsmith::Device::simulator();
    let mut other = DeviceArray::<f32, _>::zeros(other.default_stream(), (4, 12)).unwrap();
    let mut part = other.slice_mut(s![.., ..;2]).unwrap();
    for result in [
        x.exp_into(&mut part),
        x.add_into(&x, &mut part),
        x.add_scalar_into(1.0, &mut part),
        x.to_array_into(&mut part),
        x.inclusive_scan_into::<Sum>(&mut part),
        x.cast_into(&mut part),
        x.broadcast((3, 4, 6)).unwrap().sum_axis_into(Axis(0), &mut part),
        x.slice(s![.., ..4]).unwrap().matmul_into(&x, &mut part),
        part.axpy(1.0, &x),
        part.add_assign(&x),
    ] {
        let error = result.unwrap_err().to_string();
        assert!(error.contains("on"), "{error}");
    }
}
