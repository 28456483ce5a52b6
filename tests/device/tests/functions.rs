// SPDX-License-Identifier: MIT OR Apache-2.0
//! Device functions of one's own in expressions: the bits that the function has on the host.

use device_test_kernels::functions::{between, blend, gcd, softsign, twice, wave};
use device_tests::{device, upload};
use ndarray::{Array1, Array2, Axis, Zip, array, s};
use warpsmith::expr::{self, call};
use warpsmith::{DeviceArray, bf16};

/// Neither a multiple of a vector's elements nor of a block's, and more than one block.
const LEN: usize = 2051;

/// Numbers of both signs, of which none is NaN.
fn numbers(len: usize, seed: usize) -> Vec<f64> {
    (0..len)
        .map(|i| ((i * 7919 + seed) % 1009) as f64 / 64.0 - 8.0)
        .collect()
}

#[test]
fn functions_of_one_argument() {
    let device = device();
    let wide = numbers(LEN, 1);
    let narrow: Vec<f32> = wide.iter().map(|x| *x as f32).collect();
    let halves: Vec<bf16> = narrow.iter().map(|x| bf16::from_f32(*x)).collect();
    let (x, y, z) = (
        upload(&device, &wide),
        upload(&device, &narrow),
        upload(&device, &halves),
    );
    let got = call::<softsign<f64>, _>((&x,)).eval().unwrap();
    assert_eq!(
        got.to_ndarray().unwrap(),
        wide.iter().map(|x| softsign(*x)).collect::<Array1<_>>()
    );
    let got = call::<softsign<f32>, _>((&y,)).eval().unwrap();
    assert_eq!(
        got.to_ndarray().unwrap(),
        narrow.iter().map(|x| softsign(*x)).collect::<Array1<_>>()
    );
    let got = call::<twice, _>((&z,)).eval().unwrap();
    assert_eq!(
        got.to_ndarray().unwrap(),
        halves.iter().map(|x| twice(*x)).collect::<Array1<_>>()
    );
}

#[test]
fn functions_with_loops_and_of_many_instructions() {
    let device = device();
    let (a, b): (Vec<u64>, Vec<u64>) = (0..LEN as u64)
        .map(|i| (i * 7_919_000 % 100_003, i * 360 % 4096))
        .unzip();
    let (x, y) = (upload(&device, &a), upload(&device, &b));
    let wanted: Array1<_> = a.iter().zip(&b).map(|(a, b)| gcd(*a, *b)).collect();
    assert_eq!(
        call::<gcd<u64>, _>((&x, &y)).eval().unwrap().to_ndarray().unwrap(),
        wanted
    );
    let (narrow, others) = (x.cast::<u32>().unwrap(), y.cast::<u32>().unwrap());
    let got = call::<gcd<u32>, _>((&narrow, &others)).cast::<u64>().eval().unwrap();
    assert_eq!(got.to_ndarray().unwrap(), wanted);
    let x = numbers(LEN, 5);
    let got = call::<wave, _>((&upload(&device, &x), 0.25)).eval().unwrap();
    assert_eq!(
        got.to_ndarray().unwrap(),
        x.iter().map(|x| wave(*x, 0.25)).collect::<Array1<_>>()
    );
}

#[test]
fn arguments_of_several_types_and_shapes() {
    let device = device();
    let stream = device.default_stream();
    let on = |x: &Array2<u8>| DeviceArray::from_ndarray(stream, x).unwrap();
    let x = Array2::from_shape_fn((37, 21), |(i, j)| (i * 31 + j * 7) as u8);
    let y = Array2::from_shape_fn((21, 37), |(i, j)| (i * 13 + j * 101) as u8);
    let shares: Array1<i32> = (0..21).map(|j| j * 12).collect();
    let seen = Array2::from_shape_fn((37, 1), |(i, _)| u8::from(i % 3 != 0));
    let (on_x, on_y) = (on(&x), on(&y));
    let on_shares = DeviceArray::from_ndarray(stream, &shares).unwrap();
    let on_seen = DeviceArray::from_ndarray(stream, &seen).unwrap();
    let is_seen = on_seen.expr().not_equal(0);
    // A transposed view, a row, a column, and where they lie with gaps or backwards.
    let got = call::<blend, _>((&on_x, &on_y.t(), &on_shares, is_seen))
        .eval()
        .unwrap();
    let wanted = Array2::from_shape_fn((37, 21), |(i, j)| {
        blend(x[[i, j]], y[[j, i]], shares[j], seen[[i, 0]] != 0)
    });
    assert_eq!(got.to_ndarray().unwrap(), wanted);
    let part = on_x.slice(s![..;-1, 1..;2]).unwrap();
    let got = call::<blend, _>((&part, 200u8, 100, true)).eval().unwrap();
    let wanted = x.slice(s![..;-1, 1..;2]).mapv(|x| blend(x, 200, 100, true));
    assert_eq!(got.to_ndarray().unwrap(), wanted);
}

/// With operators ahead of it and behind it, and a reduction, in one kernel; into an array that is replaced.
#[test]
fn functions_among_other_operations() {
    let device = device();
    let stream = device.default_stream();
    let of = |seed| Array2::from_shape_vec((13, 50), numbers(650, seed)).unwrap();
    let (x, y) = (of(3), of(77));
    let (on_x, on_y) = (
        DeviceArray::from_ndarray(stream, &x).unwrap(),
        DeviceArray::from_ndarray(stream, &y).unwrap(),
    );
    let difference = &on_x - &on_y;
    let inside = call::<between<f64>, _>((&difference, -2.0, expr::scalar(3.0)));
    // Sums of numbers of few bits: exact, in whatever order.
    let sums = inside.select(difference.clone(), 0.5).sum_axis(Axis(1));
    let explained = sums.explain().unwrap();
    assert_eq!(
        explained.lines().filter(|line| line.starts_with("kernel ")).count(),
        1,
        "{explained}"
    );
    let wanted = Zip::from(&x)
        .and(&y)
        .map_collect(|x, y| match between(x - y, -2.0, 3.0) {
            true => x - y,
            false => 0.5,
        });
    assert_eq!(sums.eval().unwrap().to_ndarray().unwrap(), wanted.sum_axis(Axis(1)));
    let counts = DeviceArray::from_ndarray(stream, &array![-3, 0, 2, 5]).unwrap();
    let inside = call::<between<i32>, _>((counts.expr() + 1, 0, 4)).eval().unwrap();
    assert_eq!(inside.to_ndarray().unwrap(), array![0, 1, 1, 0]);
    let mut replaced = on_x.to_array().unwrap();
    replaced
        .update(|x| call::<softsign<f64>, _>((call::<softsign<f64>, _>((x,)) * 3.0,)) + &on_y)
        .unwrap();
    let wanted = Zip::from(&x)
        .and(&y)
        .map_collect(|x, y| softsign(softsign(*x) * 3.0) + y);
    assert_eq!(replaced.to_ndarray().unwrap(), wanted);
}
