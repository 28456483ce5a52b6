// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reductions of views, which are read where they lie as far as there is a way, against ndarray.

use crate::common::*;
use crate::slicing::{numbered, slices};
use kernels_gpu::op::ReduceOp;
use ndarray::{Array1, Array2, Array3, ArrayD, ArrayViewD, Axis, IxDyn, SliceInfoElem, array, s};
use proptest::prelude::*;
use warpsmith::{Device, DeviceArray, DeviceView, Result, bf16, f16, ops};

/// Tells an order: the base-31 number of elements and places.
pub struct Ordered;

impl ReduceOp<i32> for Ordered {
    type Acc = u64;
    type Output = u64;

    fn identity() -> u64 {
        0
    }

    fn lift(x: i32, index: u64) -> u64 {
        (x as u64).wrapping_mul(index.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn combine(a: u64, b: u64) -> u64 {
        a.wrapping_add(b)
    }

    fn finish(acc: u64, count: u64) -> u64 {
        acc ^ count
    }
}

kernels_gpu::operator_kernels!(Ordered: i32 => reduce);

/// A slice of an array with its axes in another order, and perhaps repeated along one more in front.
#[derive(Debug)]
pub struct Place {
    /// Of the whole array.
    pub shape: Vec<usize>,
    slice: Vec<SliceInfoElem>,
    rotated: usize,
    transposed: bool,
    repeated: Option<usize>,
}

/// Such views of arrays of any shape.
pub fn places() -> impl Strategy<Value = Place> {
    let order = (0..4usize, any::<bool>(), prop::option::of(0..5usize));
    (slices(), order).prop_map(|((shape, slice), (rotated, transposed, repeated))| Place {
        shape,
        slice,
        rotated,
        transposed,
        repeated,
    })
}

impl Place {
    /// The order of the slice's axes.
    fn order(&self, axes: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..axes).collect();
        if axes > 0 {
            order.rotate_left(self.rotated % axes);
        }
        if self.transposed {
            order.reverse();
        }
        order
    }

    /// The view of the host's array, as an array of its own.
    pub fn of_array<'a, T: Number>(&self, x: &'a ArrayD<T>) -> ArrayD<T> {
        let part: ArrayViewD<'a, T> = x.slice(&self.slice[..]);
        let order = self.order(part.ndim());
        let part = part.permuted_axes(IxDyn(&order));
        match self.repeated {
            None => part.to_owned(),
            Some(times) => {
                let shape = [&[times], part.shape()].concat();
                part.broadcast(IxDyn(&shape)).unwrap().to_owned()
            }
        }
    }

    /// The view of the device's array.
    pub fn of_device<'a, T: Number>(&self, x: &'a Dyn<T>) -> DeviceView<'a, T, IxDyn> {
        let part = x.slice(&self.slice[..]).unwrap();
        let order = self.order(part.ndim());
        let part = part.permuted_axes(IxDyn(&order)).unwrap();
        match self.repeated {
            None => part,
            Some(times) => {
                let shape = [&[times], part.shape()].concat();
                part.broadcast(IxDyn(&shape)).unwrap()
            }
        }
    }
}

/// Whole numbers up to 100, of which every sum is exact in f32.
fn whole<T: FloatNumber>(i: usize) -> T {
    T::of(((i * 7919) % 201) as f64 - 100.0)
}

/// The sum over several axes.
fn sums_over(x: &ArrayD<f64>, axes: &[usize]) -> ArrayD<f64> {
    let mut axes = axes.to_vec();
    axes.sort_unstable();
    axes.iter().rev().fold(x.clone(), |x, &axis| x.sum_axis(Axis(axis)))
}

/// Sums, extremes and variances along every subset of the axes.
fn check_floats<T: FloatNumber + ops::Number<Total = T, Mean = T>>(
    view: &DeviceView<'_, T, IxDyn>,
    x: &ArrayD<T>,
    what: &str,
) {
    let wide = x.mapv(T::wide);
    assert_same(&[view.sum().unwrap()], &[T::of(wide.sum())], what);
    for mask in 0..1usize << x.ndim() {
        let axes: Vec<usize> = (0..x.ndim()).filter(|axis| mask >> axis & 1 != 0).collect();
        let what = format!("{what}, along {axes:?}");
        let wanted = sums_over(&wide, &axes);
        let sums = view.sum_axes(&axes).unwrap();
        assert_eq!(sums.shape(), wanted.shape(), "{what}");
        assert_same(
            &elements(&sums),
            &wanted.mapv(T::of).into_iter().collect::<Vec<T>>(),
            &what,
        );
        let count: usize = axes.iter().map(|&axis| x.shape()[axis]).product();
        if count < 2 {
            continue;
        }
        let least = axes.iter().rev().fold(x.clone(), |x, &axis| {
            x.map_axis(Axis(axis), |lane| {
                lane.iter()
                    .copied()
                    .min_by(|a, b| a.wide().total_cmp(&b.wide()))
                    .unwrap()
            })
        });
        assert_same(
            &elements(&view.min_axes(&axes).unwrap()),
            &least.into_iter().collect::<Vec<T>>(),
            &what,
        );
        // The sums are exact in f64, so the mean is the quotient, rounded.
        let means = wanted.mapv(|sum| T::of(sum / count as f64));
        assert_same(
            &elements(&view.mean_axes(&axes).unwrap()),
            &means.into_iter().collect::<Vec<T>>(),
            &format!("mean, {what}"),
        );
        let roots = elements(&view.std_axes(&axes, 1).unwrap());
        let ones = elements(&view.variance_axes(&axes, 1).unwrap());
        for (root, variance) in roots.iter().zip(&ones) {
            let (root, wanted) = (root.wide(), variance.wide().sqrt());
            assert!(
                (root - wanted).abs() <= 2.0 * T::UNIT_ROUNDOFF * wanted,
                "{what}: {root}, wanted {wanted}"
            );
        }
        // Of whole numbers up to 100: the squares' sum and the sum's square are exact in f64, their difference is rounded a
        // few times; what the device computes is within the bound that tests/reduce.rs derives, of which this is more.
        let squares = sums_over(&wide.mapv(|x| x * x), &axes);
        let variances = elements(&view.variance_axes(&axes, 0).unwrap());
        for (variance, (square, sum)) in variances.iter().zip(squares.iter().zip(&wanted)) {
            let n = count as f64;
            let wanted = (square - sum * sum / n) / n;
            let bound = T::UNIT_ROUNDOFF * 1.01 * wanted + 1e-9;
            assert!(
                (variance.wide() - wanted).abs() <= bound,
                "{what}: {variance:?}, wanted {wanted}"
            );
        }
    }
}

/// Of either type of 16 bits, for which places are the same, half of them.
#[test]
fn random_views_of_floats() {
    proptest!(cases(20), |(place in places(), is_f16 in any::<bool>())| {
        macro_rules! check {
            ($($type:ty)*) => {$(
                let x = numbered(&place.shape, whole::<$type>);
                let on_device = upload(&x);
                check_floats(&place.of_device(&on_device), &place.of_array(&x), &format!("{place:?}"));
            )*};
        }
        check!(f32 f64);
        if is_f16 {
            check!(f16);
        } else {
            check!(bf16);
        }
    });
}

#[test]
fn random_views_of_integers() {
    proptest!(cases(48), |(place in places())| {
        let x = numbered(&place.shape, |i| ((i * 7919) % 997) as i32 - 500);
        let on_device = upload(&x);
        let (view, x) = (place.of_device(&on_device), place.of_array(&x));
        let order = |lane: ndarray::ArrayView1<'_, i32>| {
            let sum = lane.iter().zip(0..).fold(0, |acc, (&x, i)| Ordered::combine(acc, Ordered::lift(x, i)));
            Ordered::finish(sum, lane.len() as u64)
        };
        let all: Vec<i32> = x.iter().copied().collect();
        // This operator is the test's, of which there is no PTX.
        let has_operator = device().is_simulator();
        if has_operator {
            prop_assert_eq!(view.reduce::<Ordered>().unwrap(), order(ndarray::ArrayView1::from(&all[..])));
        }
        for axis in (0..x.ndim()).map(Axis) {
            if has_operator {
                let got = view.reduce_axis::<Ordered>(axis).unwrap().to_ndarray().unwrap();
                prop_assert_eq!(got, x.map_axis(axis, order));
            }
            let sums = view.sum_axis(axis).unwrap().to_ndarray().unwrap();
            prop_assert_eq!(sums, x.mapv(i64::from).sum_axis(axis));
            if x.len_of(axis) > 0 {
                let first = |lane: ndarray::ArrayView1<'_, i32>| {
                    let most = lane.iter().max().unwrap();
                    lane.iter().position(|x| x == most).unwrap() as u64
                };
                let got = view.argmax_axis(axis).unwrap().to_ndarray().unwrap();
                prop_assert_eq!(got, x.map_axis(axis, first));
            }
        }
        if x.ndim() > 2 && has_operator {
            let ends = [0, x.ndim() - 1];
            // The combined elements in C order are a lane of the array in which they are neighbours.
            let mut order_of_axes: Vec<usize> = (1..x.ndim() - 1).collect();
            order_of_axes.extend(ends);
            let brought = x.view().permuted_axes(IxDyn(&order_of_axes)).to_owned();
            let kept = &brought.shape()[..x.ndim() - 2];
            let lanes = brought.to_shape(IxDyn(&[kept, &[x.shape()[0] * x.shape()[x.ndim() - 1]]].concat())).unwrap();
            let got = view.reduce_axes::<Ordered>(&ends).unwrap().to_ndarray().unwrap();
            prop_assert_eq!(got, lanes.map_axis(Axis(x.ndim() - 2), order));
        }
    });
}

/// Long rows at a distance from one another, aligned for vectors or not; rows in pieces, of one chunk and of several; and
/// columns of a part of an array.
#[test]
fn long_rows_in_pieces_and_columns_at_a_distance() {
    let x = Array3::from_shape_fn((2, 4, 9000), |(i, j, k)| whole::<f32>(36_000 * i + 9000 * j + k));
    let on_device = upload(&x);
    for (from, to) in [(0, 9000), (0, 8192), (4, 1028), (3, 2100), (1, 1200), (7, 8999)] {
        let (part, wanted) = (
            on_device.slice(s![.., 1..3, from..to]).unwrap(),
            x.slice(s![.., 1..3, from..to]),
        );
        check_floats(
            &part.view().into_dyn(),
            &wanted.to_owned().into_dyn(),
            &format!("{from}..{to}"),
        );
        let (part, wanted) = (
            on_device.slice(s![1, ..;2, from..to]).unwrap(),
            x.slice(s![1, ..;2, from..to]),
        );
        check_floats(
            &part.into_dyn(),
            &wanted.to_owned().into_dyn(),
            &format!("rows {from}..{to}"),
        );
    }
    let bytes = x.mapv(|x| (x + 100.0) as u8);
    let on_device = upload(&bytes);
    for (from, to) in [(0, 9000), (16, 8208), (5, 8999), (5, 1000)] {
        let (part, wanted) = (
            on_device.slice(s![.., .., from..to]).unwrap(),
            bytes.slice(s![.., .., from..to]),
        );
        let wanted = wanted.mapv(u64::from);
        assert_eq!(
            part.sum_axes(&[0, 2]).unwrap().to_ndarray().unwrap(),
            wanted.sum_axis(Axis(2)).sum_axis(Axis(0)).into_dyn()
        );
        assert_eq!(
            part.sum_axis(Axis(0)).unwrap().to_ndarray().unwrap(),
            wanted.sum_axis(Axis(0))
        );
        assert_eq!(
            part.sum_axis(Axis(1)).unwrap().to_ndarray().unwrap(),
            wanted.sum_axis(Axis(1))
        );
        assert_eq!(
            part.sum_axis(Axis(2)).unwrap().to_ndarray().unwrap(),
            wanted.sum_axis(Axis(2))
        );
    }
    let tall = Array2::from_shape_fn((25_000, 6), |(i, j)| whole::<f32>(6 * i + j));
    let on_device = upload(&tall);
    for columns in [s![.., 1..4], s![..20_000, ..;2], s![..;3, 2..]] {
        let (part, wanted) = (on_device.slice(columns).unwrap(), tall.slice(columns));
        check_floats(&part.into_dyn(), &wanted.to_owned().into_dyn(), "a tall array");
    }
}

/// What a view shows is read where it lies: nothing is allocated but what the results take.
#[test]
fn views_are_not_copied() {
    let device = Device::auto().unwrap();
    let x = DeviceArray::from_ndarray(device.default_stream(), &Array3::<f32>::ones((16, 6, 1028))).unwrap();
    let [rows, columns] = [s![.., 1..5, ..], s![.., .., 2..1026]].map(|part| x.slice(part).unwrap());
    let repeated = x.broadcast((3, 16, 6, 1028)).unwrap();
    let runs: [(&str, &dyn Fn() -> Result<f32>); 9] = [
        ("transposed, along 0", &|| x.t().sum_axis(Axis(0))?.get([0, 0])),
        ("transposed, along 2", &|| x.t().sum_axis(Axis(2))?.get([0, 0])),
        ("permuted", &|| {
            x.view().permuted_axes([1, 2, 0])?.sum_axis(Axis(1))?.get([0, 0])
        }),
        ("columns, along 2", &|| columns.sum_axis(Axis(2))?.get([0, 0])),
        ("columns, along 0 and 2", &|| {
            columns.sum_axes(&[0, 2])?.get(IxDyn(&[0]))
        }),
        ("rows, along 0", &|| rows.sum_axis(Axis(0))?.get([0, 0])),
        ("all of the rows", &|| rows.sum()),
        ("backwards", &|| {
            x.slice(s![.., .., ..;-1])?.sum_axis(Axis(2))?.get([0, 0])
        }),
        ("repeated", &|| repeated.sum_axis(Axis(3))?.get([2, 0, 0])),
    ];
    for (what, run) in runs {
        // What a stream keeps for its launches is there from now on.
        run().unwrap();
        device.reset_peak();
        let before = device.memory().unwrap().allocated;
        run().unwrap();
        let more = device.memory().unwrap().peak - before;
        assert!(more < before / 4, "{what}: {more} bytes beside {before}");
    }
}

/// Means of axes that are no neighbours: those that are `f64` are made in two steps, and rounded once all the same.
#[test]
fn means_of_separated_axes_are_made_without_a_copy() {
    fn check<T: Number + ops::Number<Mean = f64>>(element: impl Fn(usize) -> T) {
        let device = Device::auto().unwrap();
        // 21 times 47 elements, of which neither the sums of 47 nor those of 21 divide by 987 without a remainder.
        let host = Array3::from_shape_fn((21, 30, 47), |(i, j, k)| element(i * 7 + j * 31 + k * 5));
        let x = DeviceArray::from_ndarray(device.default_stream(), &host).unwrap();
        let wanted = host.mapv(|x| x.to_f64()).sum_axis(Axis(2)).sum_axis(Axis(0)) / 987.0;
        let means = || x.mean_axes(&[0, 2]).unwrap().to_ndarray().unwrap();
        assert_eq!(means(), wanted.into_dyn());
        device.reset_peak();
        let before = device.memory().unwrap().allocated;
        means();
        let more = device.memory().unwrap().peak - before;
        assert!(more < (x.len() * size_of::<T>()) as u64 / 2, "{more} bytes");

        let every_other = x.slice(s![..;2, ..;3, ..;2]).unwrap();
        let sum = host.slice(s![..;2, ..;3, ..;2]).mapv(|x| x.to_f64()).sum();
        assert_eq!(every_other.mean().unwrap(), sum / every_other.len() as f64);
    }
    check::<i32>(|i| i as i32 % 1000 - 500);
    check::<u16>(|i| i as u16 % 1000);
    check::<f64>(|i| (i % 1000) as f64 * 0.25);
}

#[test]
fn results_of_views_into_parts_of_the_same_array() {
    let mut x = array![[1.0f32, 2.0, 3.0, 0.0], [4.0, 5.0, 6.0, 0.0], [7.0, 8.0, 9.0, 0.0]];
    let mut on_device = upload(&x);
    let (from, mut to) = on_device.split_at_mut(Axis(1), 3).unwrap();
    from.sum_axis_into(Axis(1), &mut to.index_axis_mut(Axis(1), 0).unwrap())
        .unwrap();
    from.t()
        .max_axis_into(Axis(1), &mut to.index_axis_mut(Axis(1), 0).unwrap())
        .unwrap();
    x.column_mut(3).assign(&array![7.0, 8.0, 9.0]);
    assert_eq!(on_device.to_ndarray().unwrap(), x);
    let nothing = DeviceArray::<f32, _>::zeros(device().default_stream(), (0, 3)).unwrap();
    nothing
        .t()
        .sum_axis_into(Axis(1), &mut on_device.slice_mut(s![.., 1]).unwrap())
        .unwrap();
    x.column_mut(1).fill(0.0);
    assert_eq!(on_device.to_ndarray().unwrap(), x);
}

/// Columns of bytes are added four at a time where they lie in whole words, and one by one elsewhere.
#[test]
fn columns_of_bytes_in_words_and_beside_them() {
    // The largest bytes, and as many rows as a thread has of a chunk.
    let full = Array2::from_elem((13_000, 36), u8::MAX);
    let sums = upload(&full).sum_axis(Axis(0));
    assert_eq!(sums.unwrap().to_ndarray().unwrap(), Array1::from_elem(36, 13_000 * 255));

    for (rows, columns) in [
        (1, 4),
        (2, 8),
        (7, 60),
        (97, 132),
        (1_031, 64),
        (700, 260),
        (5, 1_028),
        (4_099, 12),
    ] {
        let x = Array2::from_shape_fn((rows, columns), |(i, j)| (i * 31 + j * 7 + i * j) as u8);
        let on_device = upload(&x);
        for (from, to) in [
            (0, columns),
            (0, columns - 1),
            (1, columns),
            (columns / 8 * 4, columns),
            (2, columns - 1),
        ] {
            let columns = s![..;2, from..to];
            for flipped in [false, true] {
                let (mut wanted, mut view) = (x.slice(columns), on_device.slice(columns).unwrap());
                if flipped {
                    wanted.invert_axis(Axis(0));
                    view = view.flip(Axis(0)).unwrap();
                }
                let sums = view.sum_axis(Axis(0)).unwrap().to_ndarray().unwrap();
                let wanted = wanted.mapv(u64::from).sum_axis(Axis(0));
                assert_eq!(sums, wanted, "{:?}", view.shape());
            }
        }
    }
}

/// Several arrays of columns, whose blocks have columns of more than one of them.
#[test]
fn columns_of_bytes_in_several_arrays() {
    for shape in [[3, 40, 4], [5, 9, 8], [2, 300, 20], [9, 17, 6], [70, 3, 4]] {
        let x = Array3::from_shape_fn(shape, |(i, j, k)| (i * 91 + j * 31 + k * 7) as u8);
        let sums = upload(&x).sum_axis(Axis(1)).unwrap();
        assert_eq!(
            sums.to_ndarray().unwrap(),
            x.mapv(u64::from).sum_axis(Axis(1)),
            "{shape:?}"
        );
    }
}
