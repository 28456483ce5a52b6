// SPDX-License-Identifier: MIT OR Apache-2.0
//! Scans by both algorithms: integers, minima and maxima exactly, float sums and products within a bound
//! that follows from the most roundings that a term can go through.

use crate::common::*;
use crate::scan_axis::scanned_axis;
use kernels_gpu::num::Num;
use kernels_gpu::op::ReduceOp;
use kernels_gpu::scan::lookback::{THREADS, tile_len, vectors};
use kernels_gpu::scan::{blelloch, vec_len};
use ndarray::{Array1, Array2, Array3, Axis, Dimension, Ix1, array};
use proptest::prelude::*;
use warpsmith::ops::{self, Max, Min, Product, Scan, ScanAlgorithm, ScanTree, Sum};
use warpsmith::{DeviceArray, Error, Stream, bf16, f16};

/// [`for_types!`] also for the 16-bit floats, whose names the compiler keeps for types of its own.
macro_rules! for_floats {
    ($function:ident: $($type:ident)*) => {
        mod $function {
            #[allow(unused_imports)]
            use warpsmith::{bf16, f16};
            $(
                #[test]
                fn $type() {
                    super::$function::<$type>();
                }
            )*
        }
    };
}
pub(crate) use for_floats;

const ALGORITHMS: [ScanAlgorithm; 2] = [ScanAlgorithm::LookBack, ScanAlgorithm::Blelloch];
/// Whether a result includes the element at its own place.
#[derive(Clone, Copy, Debug)]
pub enum ScanKind {
    Inclusive,
    Exclusive,
}

pub const KINDS: [ScanKind; 2] = [ScanKind::Inclusive, ScanKind::Exclusive];

/// An element type that all scans are compiled for.
pub trait Scanned: Number + ops::Number + Num<Total: Number> {}

impl<T: Number + ops::Number + Num<Total: Number>> Scanned for T {}

/// A float type, whose sums are of the same type.
pub trait ScannedFloat: Scanned + FloatNumber + Num<Total = Self> {}

impl<T: Scanned + FloatNumber + Num<Total = T>> ScannedFloat for T {}

/// The scan of the whole array on the device.
fn scanned<Op: ReduceOp<T>, T: Scan<Op> + ScanTree<Op, Output = Op::Output>, D: Dimension>(
    x: &DeviceArray<T, D>,
    kind: ScanKind,
    algorithm: ScanAlgorithm,
) -> DeviceArray<Op::Output, D> {
    match kind {
        ScanKind::Inclusive => x.inclusive_scan_by::<Op>(algorithm),
        ScanKind::Exclusive => x.exclusive_scan_by::<Op>(algorithm),
    }
    .expect("the scan succeeds")
}

/// The scan one by one, in the operator's own arithmetic.
pub fn sequential<Op: ReduceOp<T>, T: Number>(values: &[T], kind: ScanKind) -> Vec<Op::Output> {
    let mut acc = Op::identity();
    (0..)
        .zip(values)
        .map(|(i, &x)| {
            let before = acc;
            acc = Op::combine(acc, Op::lift(x, i));
            match kind {
                ScanKind::Inclusive => Op::finish(acc, i + 1),
                ScanKind::Exclusive => Op::finish(before, i),
            }
        })
        .collect()
}

/// Both algorithms and both kinds give what the sequential scan gives, to the last bit.
#[track_caller]
pub fn check_exact<Op: ReduceOp<T, Output: Number>, T: Number + Scan<Op> + ScanTree<Op, Output = Op::Output>>(
    values: &[T],
    what: &str,
) {
    let x = upload_vec(values);
    for kind in KINDS {
        let wanted = sequential::<Op, T>(values, kind);
        for algorithm in ALGORITHMS {
            let got = elements(&scanned::<Op, T, _>(&x, kind, algorithm));
            assert_same(
                &got,
                &wanted,
                &format!("{kind:?} {what} of {} by {algorithm:?}", values.len()),
            );
        }
    }
}

/// Lengths around the boundaries of vectors, warps, blocks and the tiles of both algorithms, and of three tiles or so.
fn scan_lengths<T: Scanned>() -> Vec<usize> {
    let (tile, tree) = (tile_len::<T, Sum>(), blelloch::tile_len::<T, Sum>());
    let mut lengths = vec![0, 1, 2, 15, 31, 32, 33, 255, 256, 257, 1009];
    lengths.extend([tile - 1, tile, tile + 1, tree - 1, tree, tree + 1, 2 * tile + 7]);
    lengths
}

fn integers_of_every_length<T: Scanned>() {
    for (seed, len) in (1..).zip(scan_lengths::<T>()) {
        let values = random::<T>(len, seed);
        check_exact::<Sum, T>(&values, "sum");
        check_exact::<Product, T>(&values, "product");
        check_exact::<Min, T>(&values, "min");
        check_exact::<Max, T>(&values, "max");
    }
    // Odd numbers, whose wrapped product never becomes 0, and all equal.
    let tile = tile_len::<T, Sum>();
    check_exact::<Product, T>(&vec![T::SPECIAL[3]; tile + 77], "product of equal elements");
    // What several sums in one word would carry from one to the next.
    check_exact::<Sum, T>(&vec![T::GREATEST; tile + 77], "sum of greatest elements");
    check_exact::<Sum, T>(&vec![T::LEAST; tile + 77], "sum of least elements");
}

/// Sums and products are 64 bits wide, as in NumPy, and wrap around there.
#[test]
fn integers_are_scanned_in_64_bits() {
    let sums = |result: warpsmith::Result<DeviceArray<u64, Ix1>>| elements(&result.unwrap());
    let x = upload_vec(&[200u8; 1000]).into_shape(1000);
    let x = x.unwrap();
    let wanted: Vec<u64> = (1..=1000).map(|i| 200 * i).collect();
    for algorithm in ALGORITHMS {
        assert_eq!(sums(x.inclusive_scan_by::<Sum>(algorithm)), wanted);
    }
    assert_eq!(sums(x.inclusive_scan::<Sum>()), wanted);
    assert_eq!(sums(x.exclusive_scan::<Sum>())[999], 200 * 999);
    assert_eq!(sums(x.inclusive_scan_axis::<Sum>(Axis(0))), wanted);
    let x = upload(&array![i32::MAX, i32::MAX, -1, i32::MIN, i32::MIN]);
    let max = i64::from(i32::MAX);
    assert_eq!(
        elements(&x.inclusive_scan::<Sum>().unwrap()),
        [max, 2 * max, 2 * max - 1, max - 2, -3]
    );
    let x = upload(&array![i32::MIN, -2, 3]);
    assert_eq!(
        elements(&x.inclusive_scan::<Product>().unwrap()),
        [-(max + 1), 2 * (max + 1), 6 * (max + 1)]
    );
    let x = upload(&array![u64::MAX, 2]);
    assert_eq!(elements(&x.inclusive_scan::<Sum>().unwrap()), [u64::MAX, 1]);
}

for_types!(integers_of_every_length: i32 i64 u8 u16 u32 u64);

fn minima_and_maxima_of_floats<T: ScannedFloat>() {
    for (seed, len) in (1..).zip(scan_lengths::<T>()) {
        let values = random::<T>(len, seed);
        check_exact::<Min, T>(&values, "min of values that may be NaN");
        check_exact::<Max, T>(&values, "max of values that may be NaN");
        let numbers: Vec<T> = values.into_iter().filter(|x| !x.wide().is_nan()).collect();
        check_exact::<Min, T>(&numbers, "min");
        check_exact::<Max, T>(&numbers, "max");
    }
}

for_floats!(minima_and_maxima_of_floats: f32 f64 f16 bf16);

/// More tiles than the 32 that a look-back sees at once, in many orders of their progress.
fn many_tiles<T: Scanned>() {
    let len = 40 * tile_len::<T, Sum>() + 11;
    let values = random::<T>(len, 3);
    let x = upload_vec(&values);
    for kind in KINDS {
        let wanted = sequential::<Sum, T>(&values, kind);
        for repeat in 0..2 {
            let got = elements(&scanned::<Sum, T, _>(&x, kind, ScanAlgorithm::LookBack));
            assert_same(&got, &wanted, &format!("{kind:?} sum over many tiles, time {repeat}"));
        }
    }
}

for_types!(many_tiles: i32 u8 u64);

/// So many tiles that the tree has three levels.
#[test]
fn three_levels_of_trees() {
    let (tile, above) = (blelloch::tile_len::<i64, Sum>(), blelloch::tile_len::<i64, Sum>());
    let values: Vec<i64> = random(tile * above + tile + 3, 4);
    let x = upload_vec(&values);
    let got = elements(&scanned::<Sum, _, _>(&x, ScanKind::Inclusive, ScanAlgorithm::Blelloch));
    assert_same(
        &got,
        &sequential::<Sum, i64>(&values, ScanKind::Inclusive),
        "sum by three levels",
    );
}

/// The most additions that a term goes through on its way to a result, among `n` elements.
///
/// Look-back. In its tile: a fold of `V` elements, the five steps of a warp's scan, the carry over `U` vectors, the
/// fold of the warps' totals, the tile's prefix, what stands before warp and vector, and a fold of `V` elements once
/// more. Through the tiles behind it: what a tile looks back at are parts of what is before it, each combined with what
/// is not the identity at most once for each tile that it skips, so at most one addition for each tile.
///
/// Blelloch, for each level: a fold of `V` elements, up and down the tree, and a fold of `V` again.
///
/// The error of a result is then at most `depth · u · Σ|x|`, to first order in the unit roundoff `u` (N. Higham,
/// "Accuracy and Stability of Numerical Algorithms", 4.2); the second order is below a hundredth of it here.
fn depth<T: Scanned>(n: usize, algorithm: ScanAlgorithm) -> f64 {
    let vector = vec_len::<T, Sum>();
    let depth = match algorithm {
        ScanAlgorithm::LookBack => {
            2 * vector + 5 + vectors::<T, Sum>() + THREADS / 32 + 3 + n.div_ceil(tile_len::<T, Sum>())
        }
        ScanAlgorithm::Blelloch => {
            let (mut left, mut tile) = (n, blelloch::tile_len::<T, Sum>());
            let mut depth = 0;
            loop {
                depth += 2 * vector.max(4) + 2 * blelloch::LEAVES.ilog2() as usize;
                left = left.div_ceil(tile);
                // From the second level on, of what is summed in: vectors of 2 or 4.
                tile = blelloch::LEAVES * if size_of::<T>() == 8 { 2 } else { 4 };
                if left <= 1 {
                    break depth;
                }
            }
        }
    };
    depth as f64
}

/// The unit roundoff of what sums of `T` are computed in, and that of the last rounding if it is another one.
fn roundoffs<T: FloatNumber>() -> (f64, f64) {
    match size_of::<T>() {
        2 => (f32::UNIT_ROUNDOFF, T::UNIT_ROUNDOFF),
        _ => (T::UNIT_ROUNDOFF, 0.0),
    }
}

/// The exact prefix sums, to twice the precision of `f64` (Neumaier's compensated summation), and those of the
/// magnitudes.
fn prefix_sums<T: FloatNumber>(values: &[T]) -> Vec<(f64, f64)> {
    let (mut sum, mut rest, mut magnitude) = (0.0f64, 0.0f64, 0.0f64);
    values
        .iter()
        .map(|x| {
            let (x, total) = (x.wide(), sum + x.wide());
            rest += if sum.abs() >= x.abs() {
                (sum - total) + x
            } else {
                (x - total) + sum
            };
            sum = total;
            magnitude += x.abs();
            (sum + rest, magnitude)
        })
        .collect()
}

/// Compares prefix sums with exact ones: `got[i]` is one of `count(i)` elements.
#[track_caller]
pub fn assert_sums<T: FloatNumber>(got: &[T], values: &[T], kind: ScanKind, depth: f64, what: &str) {
    let (unit, last) = roundoffs::<T>();
    let exact = prefix_sums(values);
    for (i, got) in got.iter().enumerate() {
        let (wanted, magnitude) = match kind {
            ScanKind::Inclusive => exact[i],
            ScanKind::Exclusive if i == 0 => (0.0, 0.0),
            ScanKind::Exclusive => exact[i - 1],
        };
        // 1% for the orders above the first, one rounding for the reference's own.
        let bound = 1.01 * (depth + 1.0) * unit * magnitude;
        let bound = bound + last * (wanted.abs() + bound) + if last > 0.0 { T::LEAST_NORMAL * last } else { 0.0 };
        let error = (got.wide() - wanted).abs();
        assert!(
            error <= bound,
            "{what} of {} {}: element {i} is {got:?}, wanted {wanted:e}: error {error:e}, more than {bound:e}",
            values.len(),
            T::NAME
        );
    }
}

/// Values between −1 and 1 that do not sum to something simple.
pub fn moderate<T: FloatNumber>(len: usize, seed: u64) -> Vec<T> {
    let mut rng = rng(seed);
    (0..len).map(|_| T::of(rng.random_range(-1.0..1.0))).collect()
}

fn sums_of_floats<T: ScannedFloat>() {
    let mut cases: Vec<Vec<T>> = (1..)
        .zip(scan_lengths::<T>())
        .map(|(seed, len)| moderate(len, seed))
        .collect();
    cases.push(vec![T::of(0.1); 3 * tile_len::<T, Sum>() + 5]);
    // Large terms that cancel: the small ones must not be lost by more than the bound.
    let cancelling = moderate::<T>(9_999, 5).into_iter().enumerate();
    cases.push(
        cancelling
            .map(|(i, x)| T::of(x.wide() + [0.0, 1e3, -1e3][i % 3]))
            .collect(),
    );
    for values in cases {
        let x = upload_vec(&values);
        for (kind, algorithm) in KINDS
            .into_iter()
            .flat_map(|kind| ALGORITHMS.map(|algorithm| (kind, algorithm)))
        {
            let got = elements(&scanned::<Sum, T, _>(&x, kind, algorithm));
            let what = format!("{kind:?} sum by {algorithm:?}");
            assert_sums(&got, &values, kind, depth::<T>(values.len(), algorithm), &what);
        }
    }
}

for_floats!(sums_of_floats: f32 f64 f16 bf16);

/// A product of `n` factors has a relative error of at most `n − 1` unit roundoffs, to first order, in any grouping.
fn products_of_floats<T: ScannedFloat>() {
    let (unit, last) = roundoffs::<T>();
    let len = tile_len::<T, Product>() + 300;
    let near_one = moderate::<T>(len, 6).into_iter().enumerate();
    // Near 1, so that no product of them overflows; every third negative.
    let values: Vec<T> = near_one
        .map(|(i, x)| T::of((1.0 + x.wide() * 1e-3) * if i % 3 == 0 { -1.0 } else { 1.0 }))
        .collect();
    let x = upload_vec(&values);
    for algorithm in ALGORITHMS {
        let got = elements(&scanned::<Product, T, _>(&x, ScanKind::Inclusive, algorithm));
        let (mut wanted, mut rest) = (1.0f64, 0.0f64);
        for (i, got) in got.iter().enumerate() {
            let factor = values[i].wide();
            let product = wanted * factor;
            rest = rest.mul_add(factor, wanted.mul_add(factor, -product));
            wanted = product;
            let relative = 1.01 * (i as f64 + 1.0) * unit + 1.01 * last;
            let error = (got.wide() - (wanted + rest)).abs();
            assert!(
                error <= relative * wanted.abs(),
                "{algorithm:?}, {}: element {i}: {got:?}, wanted {wanted:e}",
                T::NAME
            );
        }
    }
}

for_floats!(products_of_floats: f32 f64 f16 bf16);

/// The order of the additions does not depend on timing.
fn blelloch_gives_the_same_bits<T: ScannedFloat>() {
    let x = upload_vec(&moderate::<T>(5 * blelloch::tile_len::<T, Sum>() + 3, 8));
    let run = || elements(&scanned::<Sum, T, _>(&x, ScanKind::Inclusive, ScanAlgorithm::Blelloch));
    let first = run();
    for _ in 0..4 {
        assert_same(&run(), &first, "a repeated scan");
    }
}

for_types!(blelloch_gives_the_same_bits: f32 f64);

/// From a NaN on, and from infinities of both signs on, a sum is NaN; before, it is not.
fn nan_and_infinities<T: ScannedFloat>() {
    let len = tile_len::<T, Sum>() + 100;
    let (nan, inf) = (T::of(f64::NAN), T::of(f64::INFINITY));
    for at in [0, 31, 255, len / 2, tile_len::<T, Sum>(), len - 1] {
        let mut values = vec![T::of(0.0); len];
        values[at] = nan;
        check_exact::<Sum, T>(&values, "sum with NaN");
        check_exact::<Product, T>(&values, "product with NaN");
        check_exact::<Min, T>(&values, "min with NaN");
        check_exact::<Max, T>(&values, "max with NaN");
        values[at] = inf;
        check_exact::<Sum, T>(&values, "sum with infinity");
        values[len - 1] = T::of(f64::NEG_INFINITY);
        check_exact::<Sum, T>(&values, "sum with two infinities");
    }
}

for_floats!(nan_and_infinities: f32 f16);

/// A sum of nothing but −0 is +0; minima and maxima know −0 from +0.
fn zeros<T: ScannedFloat>() {
    let negative = T::of(-0.0);
    let values = vec![negative; tile_len::<T, Sum>() + 40];
    check_exact::<Sum, T>(&values, "sum of −0");
    check_exact::<Min, T>(&values, "min of −0");
    let sum = elements(&upload_vec(&values).inclusive_scan::<Sum>().unwrap());
    assert!(sum.iter().all(|x| x.same(T::of(0.0))), "a sum of −0 is +0");
    let mut values = values;
    values[7] = T::of(0.0);
    check_exact::<Min, T>(&values, "min of zeros");
    check_exact::<Max, T>(&values, "max of zeros");
}

for_floats!(zeros: f32 f64 bf16);

#[test]
fn identities_begin_an_exclusive_scan() {
    let x = upload(&array![5i32, 7]);
    assert_eq!(elements(&x.exclusive_scan::<Sum>().unwrap()), [0, 5]);
    assert_eq!(elements(&x.exclusive_scan::<Product>().unwrap()), [1, 5]);
    assert_eq!(elements(&x.exclusive_scan::<Min>().unwrap()), [i32::MAX, 5]);
    assert_eq!(elements(&x.exclusive_scan::<Max>().unwrap()), [i32::MIN, 5]);
    let x = upload(&array![5.0f64, 7.0]);
    assert_eq!(elements(&x.exclusive_scan::<Min>().unwrap()), [f64::INFINITY, 5.0]);
    assert_eq!(elements(&x.exclusive_scan::<Max>().unwrap()), [f64::NEG_INFINITY, 5.0]);
    let x = upload(&array![f16::ONE]);
    assert_eq!(elements(&x.exclusive_scan::<Min>().unwrap()), [f16::INFINITY]);
    let x = upload(&array![bf16::ONE]);
    assert_eq!(elements(&x.exclusive_scan::<Product>().unwrap()), [bf16::ONE]);
}

/// 16-bit floats: 4096 times 1 is 4096, though adding 1 to 2048 in f16 would stay there.
#[test]
fn narrow_floats_are_summed_wide() {
    let x = upload(&Array1::from_elem(4096, f16::ONE));
    for algorithm in ALGORITHMS {
        let sums = elements(&scanned::<Sum, _, Ix1>(&x, ScanKind::Inclusive, algorithm));
        for (i, sum) in sums.iter().enumerate() {
            assert!(
                sum.same(f16::from_f32(i as f32 + 1.0)),
                "{algorithm:?}, element {i}: {sum}"
            );
        }
    }
}

#[test]
fn many_dimensions_are_scanned_in_c_order() {
    let x = Array3::from_shape_fn((7, 11, 13), |(i, j, k)| (i * 1000 + j * 100 + k) as u32);
    let flat: Vec<u32> = x.iter().copied().collect();
    let got = upload(&x).inclusive_scan::<Sum>().unwrap();
    assert_eq!(got.shape(), [7, 11, 13]);
    assert_same(
        &elements(&got),
        &sequential::<Sum, u32>(&flat, ScanKind::Inclusive),
        "three axes",
    );
    // Fortran order on the host is C order on the device.
    let got = upload(&x.t()).inclusive_scan::<Sum>().unwrap();
    let flat: Vec<u32> = x.t().iter().copied().collect();
    assert_same(
        &elements(&got),
        &sequential::<Sum, u32>(&flat, ScanKind::Inclusive),
        "transposed",
    );
}

#[test]
fn one_element_without_an_axis() {
    let x = upload(&ndarray::arr0(3.5f32));
    for algorithm in ALGORITHMS {
        assert_eq!(
            elements(&scanned::<Sum, _, _>(&x, ScanKind::Inclusive, algorithm)),
            [3.5]
        );
        assert_eq!(
            elements(&scanned::<Product, _, _>(&x, ScanKind::Exclusive, algorithm)),
            [1.0]
        );
    }
}

#[test]
fn random_lengths() {
    proptest!(cases(16), |(len in 0..3 * tile_len::<u16, Sum>(), seed in any::<u64>())| {
        check_exact::<Sum, u16>(&random(len, seed), "sum");
        check_exact::<Min, i64>(&random(len / 2, seed), "min");
    });
}

#[test]
fn empty_arrays() {
    let x = upload(&Array2::<f32>::zeros((0, 5)));
    for algorithm in ALGORITHMS {
        assert_eq!(scanned::<Sum, _, _>(&x, ScanKind::Inclusive, algorithm).shape(), [0, 5]);
        assert_eq!(scanned::<Sum, _, _>(&x, ScanKind::Exclusive, algorithm).shape(), [0, 5]);
    }
    for axis in 0..2 {
        assert_eq!(scanned_axis::<Max, _, _>(&x, axis, ScanKind::Inclusive).shape(), [0, 5]);
    }
}

/// Scans on several streams at once do not meet each other's state. The stream keeps the state of a scan for the next:
/// what it says of other tiles, and of values of another size, is not taken for the next scan's.
#[test]
fn one_after_another_on_one_stream() {
    fn check<T: Scanned>(stream: &Stream, tiles: usize, round: u64) {
        let n = tiles * tile_len::<T, Sum>() + 7 * round as usize;
        let values = random::<T>(n, 91 + round);
        let x = DeviceArray::from_ndarray(stream, &Array1::from(values.clone())).unwrap();
        let kind = KINDS[round as usize % 2];
        let got = scanned::<Sum, T, Ix1>(&x, kind, ScanAlgorithm::LookBack);
        assert_same(
            &elements(&got),
            &sequential::<Sum, T>(&values, kind),
            &format!("{tiles} tiles of {}", T::NAME),
        );
    }
    let stream = device().create_stream().unwrap();
    for round in 0..6 {
        check::<u8>(&stream, 3, round);
        check::<i64>(&stream, 9, round);
        check::<i32>(&stream, 2 + 5 * round as usize, round);
        check::<u64>(&stream, 40 - 6 * round as usize, round);
    }
}

#[test]
fn several_streams_at_once() {
    let len = 40 * tile_len::<u32, Sum>() + 1;
    let threads: Vec<_> = (0..4u64)
        .map(|seed| {
            std::thread::spawn(move || {
                let stream = device().create_stream().expect("a stream can be made");
                let values: Vec<u32> = random(len, seed);
                let x = DeviceArray::from_ndarray(&stream, &Array1::from(values.clone())).expect("the array fits");
                let algorithm = ALGORITHMS[seed as usize % 2];
                let got = elements(&scanned::<Sum, _, _>(&x, ScanKind::Inclusive, algorithm));
                assert_same(
                    &got,
                    &sequential::<Sum, u32>(&values, ScanKind::Inclusive),
                    "one of several streams",
                );
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("the scan is right");
    }
}

#[test]
fn into_existing_arrays() {
    let x = upload(&array![[1u8, 2], [3, 250]]);
    let mut out = upload(&Array2::<u8>::zeros((2, 2)));
    let mut sums = upload(&Array2::<u64>::zeros((2, 2)));
    x.inclusive_scan_into::<Sum>(&mut sums).unwrap();
    assert_eq!(elements(&sums), [1, 3, 6, 256]);
    x.exclusive_scan_into::<Sum>(&mut sums).unwrap();
    assert_eq!(elements(&sums), [0, 1, 3, 6]);
    x.inclusive_scan_by_into::<Max>(ScanAlgorithm::Blelloch, &mut out)
        .unwrap();
    assert_eq!(elements(&out), [1, 2, 3, 250]);
    x.exclusive_scan_by_into::<Max>(ScanAlgorithm::Blelloch, &mut out)
        .unwrap();
    assert_eq!(elements(&out), [0, 1, 2, 3]);
    x.inclusive_scan_axis_into::<Sum>(Axis(0), &mut sums).unwrap();
    assert_eq!(elements(&sums), [1, 2, 4, 252]);
    x.exclusive_scan_axis_into::<Sum>(Axis(1), &mut sums).unwrap();
    assert_eq!(elements(&sums), [0, 1, 0, 3]);
    x.cumsum_into(&mut sums).unwrap();
    assert_eq!(elements(&sums), [1, 3, 6, 256]);
    x.cumsum_axis_into(Axis(0), &mut sums).unwrap();
    assert_eq!(elements(&sums), [1, 2, 4, 252]);
    x.cumprod_into(&mut sums).unwrap();
    assert_eq!(elements(&sums), [1, 2, 6, 1500]);
    x.cumprod_axis_into(Axis(1), &mut sums).unwrap();
    assert_eq!(elements(&sums), [1, 2, 3, 750]);
}

#[test]
fn what_does_not_fit_is_told_and_nothing_is_written() {
    let x = upload(&array![[1.0f32, 2.0], [3.0, 4.0]]);
    let message = |result: warpsmith::Result<()>| result.unwrap_err().to_string();
    let mut out = upload(&Array2::<f32>::from_elem((2, 3), 7.0));
    assert_eq!(
        message(x.inclusive_scan_into::<Sum>(&mut out)),
        "inclusive_scan: given shapes [2, 2] and [2, 3], wanted equal shapes"
    );
    assert_eq!(
        message(x.exclusive_scan_axis_into::<Sum>(Axis(0), &mut out)),
        "exclusive_scan_axis: given shapes [2, 2] and [2, 3], wanted equal shapes"
    );
    assert_eq!(
        message(x.inclusive_scan_axis::<Sum>(Axis(2)).map(drop)),
        "inclusive_scan_axis: given axes [2], wanted an axis below 2"
    );
    let scalar = upload(&ndarray::arr0(1.0f32));
    assert_eq!(
        message(scalar.inclusive_scan_axis::<Sum>(Axis(0)).map(drop)),
        "inclusive_scan_axis: given axes [0], wanted an array that has an axis"
    );
    let other = warpsmith::Device::simulator();
    let mut elsewhere = DeviceArray::zeros(other.default_stream(), (2, 2)).unwrap();
    let error = message(x.inclusive_scan_into::<Sum>(&mut elsewhere));
    assert!(error.starts_with("inclusive_scan: given an operand on"), "{error}");
    assert!(elements(&out).iter().all(|&x| x == 7.0), "nothing is written");
}

#[test]
fn running_sums_and_products() {
    let x = array![[1i32, 2, -3], [4, 5, 6]];
    let on_device = upload(&x);
    assert_eq!(elements(&on_device.cumsum().unwrap()), [1i64, 3, 0, 4, 9, 15]);
    assert_eq!(elements(&on_device.cumprod().unwrap()), [1i64, 2, -6, -24, -120, -720]);
    assert_eq!(
        elements(&on_device.cumsum_axis(Axis(0)).unwrap()),
        [1i64, 2, -3, 5, 7, 3]
    );
    assert_eq!(
        elements(&on_device.cumprod_axis(Axis(1)).unwrap()),
        [1i64, 2, -6, 4, 20, 120]
    );
    assert!(matches!(on_device.cumsum_axis(Axis(2)), Err(Error::Axes { .. })));
}
