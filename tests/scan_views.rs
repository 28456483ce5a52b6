// SPDX-License-Identifier: MIT OR Apache-2.0
//! Scans along axes of views, which are read where they lie as far as there is a way, against one element after another.

use crate::common::*;
use crate::reduce_views::places;
use crate::scan::{KINDS, ScanKind, Scanned};
use crate::scan_axis::{scanned_axis, sequential_axis, shaped};
use crate::slicing::numbered;
use kernels_gpu::scan::lookback::tile_len;
use ndarray::{ArrayViewD, Axis, IxDyn, Slice, s};
use proptest::prelude::*;
use warpsmith::ops::{Max, Sum};
use warpsmith::{Device, DeviceArray, DeviceView, Result, bf16, f16};

/// Sums along an axis, and inclusive ones into an array whose axes are in another order.
fn check<T: Scanned>(view: &DeviceView<'_, T, IxDyn>, x: &ArrayViewD<'_, T>, axis: usize, what: &str) {
    let x = x.to_owned();
    for kind in KINDS {
        let wanted = sequential_axis::<Sum, T>(&x, axis, kind);
        let got = scanned_axis::<Sum, T, _>(view, axis, kind);
        let what = format!("{kind:?} scan of {what}, {:?} along axis {axis}", x.shape());
        assert_same(&elements(&got), wanted.as_slice().expect("C order"), &what);
    }
    let order: Vec<usize> = (1..x.ndim()).chain([0]).collect();
    let (first, others) = (x.shape()[0], &x.shape()[1..]);
    let shape = [others, &[first]].concat();
    let mut rotated = DeviceArray::<T::Total, IxDyn>::zeros(view.stream(), IxDyn(&shape)).unwrap();
    let back: Vec<usize> = [x.ndim() - 1].into_iter().chain(0..x.ndim() - 1).collect();
    let mut out = rotated.view_mut().into_dyn().permuted_axes(IxDyn(&back)).unwrap();
    view.inclusive_scan_axis_into::<Sum>(Axis(axis), &mut out).unwrap();
    let wanted = sequential_axis::<Sum, T>(&x, axis, ScanKind::Inclusive).permuted_axes(IxDyn(&order));
    let what = format!("scan of {what}, {:?} along axis {axis}, permuted", x.shape());
    assert_same(
        &elements(&rotated),
        wanted.as_standard_layout().as_slice().unwrap(),
        &what,
    );
}

/// Whole numbers, of which few have the same sums in whatever order they are added.
fn small<T: FloatNumber>(i: usize) -> T {
    T::of(((i * 7919) % 7) as f64 - 3.0)
}

#[test]
fn random_views() {
    proptest!(cases(40), |(place in places())| {
        macro_rules! check {
            ($($of:expr;)*) => {$(
                let x = numbered(&place.shape, $of);
                let on_device = upload(&x);
                let (view, x) = (place.of_device(&on_device), place.of_array(&x));
                for axis in 0..x.ndim() {
                    check(&view, &x.view(), axis, &format!("{place:?}"));
                }
            )*};
        }
        check! {
            |i| ((i * 7919) % 997) as i32 - 500;
            |i| (i * 31) as u8;
            small::<f32>;
            small::<f64>;
            small::<f16>;
            small::<bf16>;
        }
    });
}

/// Rows of lengths around what a thread, a warp and a block take, that begin at every place of a vector.
fn parts_of_rows<T: Scanned>() {
    let tile = tile_len::<T, Sum>();
    for (seed, n) in (1..).zip([1, 31, 32, 33, 64, 257, tile, tile + 1]) {
        for (from, behind) in [(0, 8), (8, 8), (1, 7), (3, 2), (0, 1)] {
            let columns = from + n + behind;
            let (x, part) = (shaped::<T>(&[5, columns], seed), Slice::from(from..from + n));
            let on_device = upload(&x);
            let view = on_device.slice_axis(Axis(1), part).unwrap();
            check(&view, &x.slice_axis(Axis(1), part), 1, &format!("columns {part:?}"));
        }
    }
}

for_types!(parts_of_rows: i32 u8 u16);

/// So many rows that a warp each is enough, longer than a tile.
#[test]
fn many_long_rows() {
    let rows = device().properties().multiprocessors as usize * 24 + 1;
    let n = tile_len::<u8, Max>() + 5;
    let (x, part) = (shaped::<u8>(&[rows, n + 3], 7), Slice::from(2..n + 2));
    let on_device = upload(&x);
    let view = on_device.slice_axis(Axis(1), part).unwrap();
    let got = scanned_axis::<Max, u8, _>(&view, 1, ScanKind::Inclusive);
    let wanted = sequential_axis::<Max, u8>(&x.slice_axis(Axis(1), part).to_owned(), 1, ScanKind::Inclusive);
    assert_same(&elements(&got), wanted.as_slice().unwrap(), "maxima of long rows");
}

/// Columns of several tiles, and of a thread each: of parts of pictures, of pictures upside down and in reverse order.
#[test]
fn columns_of_views() {
    for (seed, shape) in [(1, [3, 700, 40]), (2, [2, 9, 34_000])] {
        let x = shaped::<i32>(&shape, seed);
        let on_device = upload(&x);
        macro_rules! check {
            ($what:literal, $axis:expr, $($slice:tt)*) => {
                let view = on_device.slice(s![$($slice)*]).unwrap().into_dyn();
                check(&view, &x.slice(s![$($slice)*]).into_dyn(), $axis, $what);
            };
        }
        check!("rows of pictures", 1, .., 3..shape[1] - 2, ..);
        check!("columns of a picture", 0, 1, .., 5..shape[2] - 1);
        check!("pictures upside down", 1, .., ..;-1, ..);
        check!("every third row, backwards", 1, ..;-1, ..;3, ..);
    }
}

/// The elements lie around the results: they are read before.
#[test]
fn elements_that_interlace_with_the_results() {
    let x = numbered(&[30, 50], |i| i as i64 % 101);
    let mut both = upload(&x);
    let (left, mut right) = both.split_at_mut(Axis(1), 20).unwrap();
    let column = left.slice(s![.., 7..8]).unwrap().reversed_axes().into_dyn();
    let mut row = right.slice_mut(s![2..3, ..]).unwrap().into_dyn();
    column.inclusive_scan_axis_into::<Sum>(Axis(1), &mut row).unwrap();
    let mut wanted = x.clone();
    let column = x.slice(s![.., 7..8]).reversed_axes().into_dyn().to_owned();
    let sums = sequential_axis::<Sum, i64>(&column, 1, ScanKind::Inclusive);
    wanted.slice_mut(s![2..3, 20..]).assign(&sums);
    assert_eq!(both.to_ndarray().unwrap(), wanted);
}

/// What a scan of a view takes beside its results, on a device of its own, in copies of the view.
fn copies_taken(
    shape: &[usize],
    scan: impl Fn(&DeviceArray<i64, IxDyn>) -> Result<DeviceArray<i64, IxDyn>>,
) -> Result<f64> {
    let device = Device::simulator();
    let x = DeviceArray::<i64, _>::zeros(device.default_stream(), IxDyn(shape))?;
    let before = device.memory()?.allocated;
    let results = scan(&x)?;
    let bytes = 8 * results.len() as u64;
    Ok((device.memory()?.peak - before - bytes) as f64 / bytes as f64)
}

#[test]
fn which_views_are_copied() -> Result<()> {
    let along = |axis: usize| move |view: DeviceView<'_, i64, IxDyn>| view.inclusive_scan_axis::<Sum>(Axis(axis));
    for (copies, taken) in [
        (
            0,
            copies_taken(&[300, 300], |x| along(0)(x.slice(s![.., 1..200])?.into_dyn()))?,
        ),
        (
            0,
            copies_taken(&[300, 300], |x| along(1)(x.slice(s![.., 1..200])?.into_dyn()))?,
        ),
        (
            0,
            copies_taken(&[300, 300], |x| along(0)(x.slice(s![..;-1, ..])?.into_dyn()))?,
        ),
        (
            0,
            copies_taken(&[300, 300], |x| along(1)(x.slice(s![..;2, ..])?.into_dyn()))?,
        ),
        (
            0,
            copies_taken(&[9, 90, 90], |x| along(1)(x.slice(s![.., 5..80, ..])?.into_dyn()))?,
        ),
        (1, copies_taken(&[300, 300], |x| along(0)(x.t()))?),
        (
            1,
            copies_taken(&[300, 300], |x| along(1)(x.slice(s![.., ..;-1])?.into_dyn()))?,
        ),
        (
            1,
            copies_taken(&[9, 90, 90], |x| along(0)(x.slice(s![.., .., 5..80])?.into_dyn()))?,
        ),
    ] {
        assert!(
            (taken - f64::from(copies)).abs() < 0.2,
            "{taken} copies, wanted {copies}"
        );
    }
    Ok(())
}

/// Results in the order of the elements, whatever that is, are made where they belong.
#[test]
fn results_in_the_order_of_the_elements() -> Result<()> {
    let taken = copies_taken(&[300, 300], |x| {
        let mut out = DeviceArray::zeros(x.stream(), x.raw_dim())?;
        x.t()
            .inclusive_scan_axis_into::<Sum>(Axis(0), &mut out.view_mut().reversed_axes())?;
        Ok(out)
    })?;
    assert!(taken < 0.2, "{taken} copies");
    Ok(())
}
