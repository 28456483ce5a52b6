// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reductions of whole arrays: integers exactly, floats within a bound that follows from the order of the additions.

#[macro_use]
mod common;

use common::*;
use kernels_gpu::reduce::{BLOCKS, THREADS, chains, tile_len};
use ndarray::{Array2, ArrayD, IxDyn, array};
use proptest::prelude::*;

/// A sum or a product in twice the precision of `f64`: the unevaluated sum of two of them.
#[derive(Clone, Copy)]
struct Wide(f64, f64);

impl Wide {
    /// Neumaier's compensated summation: every addition's rounding error is found exactly and kept.
    fn sum(terms: impl IntoIterator<Item = f64>) -> f64 {
        let Wide(sum, rest) = terms.into_iter().fold(Wide(0.0, 0.0), |Wide(sum, rest), x| {
            let total = sum + x;
            let lost = if sum.abs() >= x.abs() {
                (sum - total) + x
            } else {
                (x - total) + sum
            };
            Wide(total, rest + lost)
        });
        sum + rest
    }

    /// Every product's rounding error is what a fused multiply-add finds.
    fn product(factors: impl IntoIterator<Item = f64>) -> f64 {
        let Wide(product, rest) = factors.into_iter().fold(Wide(1.0, 0.0), |Wide(product, rest), x| {
            let total = product * x;
            Wide(total, rest.mul_add(x, product.mul_add(x, -total)))
        });
        product + rest
    }
}

/// The most roundings that any element goes through in a sum of `n` elements of type `T`, whose partial sums are `Acc`.
///
/// The first launch has `b` blocks of `t` threads, each with `c` chains, so that a step of the grid takes `b t c`
/// elements: `⌈n / (b t c)⌉` additions in a chain, `log2 c` to fold the chains, one for each of the (at most `c`)
/// elements that the rest of less than a tile leaves to a thread, and `log2 t` in the block. The second launch does the
/// same to the `b` partial sums, with one block. This is `n / (t c) + log2(t c)` of the documentation, where `t` counts
/// the threads of all blocks, and a small constant.
///
/// The error of the sum is then at most `depth · u · Σ|x|`, to first order in the unit roundoff `u` (N. Higham,
/// "Accuracy and Stability of Numerical Algorithms", 4.2); the second order is below a thousandth of it here.
fn depth<T, Acc>(n: usize) -> f64 {
    fn launch(n: usize, blocks: usize, chains: usize) -> usize {
        let tile = THREADS * chains;
        let rest = (n % tile).div_ceil(THREADS * blocks);
        n.div_ceil(blocks * tile) + chains.ilog2() as usize + rest + THREADS.ilog2() as usize
    }
    let resident = device().properties().multiprocessors as usize * BLOCKS;
    let blocks = n.div_ceil(tile_len::<T>()).clamp(1, resident);
    (launch(n, blocks, chains::<T>()) + launch(blocks, 1, chains::<Acc>())) as f64
}

/// What an integer reduction gives.
trait Integer: Number {
    fn sum(values: &[Self]) -> Self;
    fn product(values: &[Self]) -> Self;
    fn least(values: &[Self]) -> Self;
    fn greatest(values: &[Self]) -> Self;
    fn to_f64(self) -> f64;
    fn mean_of(x: &Dyn<Self>) -> f64;
}

macro_rules! integers {
    ($($type:ident)*) => {$(
        impl Integer for $type {
            fn sum(values: &[Self]) -> Self {
                values.iter().fold(0, |sum, &x| sum.wrapping_add(x))
            }
            fn product(values: &[Self]) -> Self {
                values.iter().fold(1, |product, &x| product.wrapping_mul(x))
            }
            fn least(values: &[Self]) -> Self {
                *values.iter().min().expect("an element")
            }
            fn greatest(values: &[Self]) -> Self {
                *values.iter().max().expect("an element")
            }
            fn to_f64(self) -> f64 {
                self as f64
            }
            fn mean_of(x: &Dyn<Self>) -> f64 {
                x.mean().unwrap()
            }
        }
    )*};
}

integers!(i32 i64 u32 u64);

fn check_integers<T: Integer>(values: &[T]) {
    let x = upload_vec(values);
    assert_same(&[x.sum().unwrap()], &[T::sum(values)], "sum");
    assert_same(&[x.product().unwrap()], &[T::product(values)], "product");
    if values.is_empty() {
        return;
    }
    assert_same(&[x.min().unwrap()], &[T::least(values)], "min");
    assert_same(&[x.max().unwrap()], &[T::greatest(values)], "max");
    // Beside the additions: an element's conversion to f64, the reference's own, and the division.
    let wide = || values.iter().map(|x| x.to_f64());
    let (n, magnitude) = (values.len() as f64, wide().map(f64::abs).sum::<f64>());
    let bound = (depth::<T, f64>(values.len()) + 3.0) * f64::UNIT_ROUNDOFF * magnitude / n;
    let (got, wanted) = (T::mean_of(&x), Wide::sum(wide()) / n);
    assert!(
        (got - wanted).abs() <= bound,
        "mean of {n} {}: {got}, wanted {wanted} to {bound:e}",
        T::NAME
    );
}

fn integers_of_every_length<T: Integer>() {
    for (seed, len) in (1..).zip(lengths(tile_len::<T>())) {
        check_integers::<T>(&random(len, seed));
        // Odd numbers, whose wrapped product is not 0.
        check_integers::<T>(&vec![T::SPECIAL[3]; len]);
    }
}

fn random_integers<T: Integer>() {
    proptest!(cases(12), |(len in 0..3 * tile_len::<T>(), seed in any::<u64>())| {
        check_integers::<T>(&random(len, seed));
    });
}

for_types!(integers_of_every_length: i32 i64 u32 u64);
for_types!(random_integers: i32 i64 u32 u64);

/// A float type whose mean is a float of the same type.
trait Float: FloatNumber {
    fn mean_of(x: &Dyn<Self>) -> Self;
}

impl Float for f32 {
    fn mean_of(x: &Dyn<Self>) -> Self {
        x.mean().unwrap()
    }
}

impl Float for f64 {
    fn mean_of(x: &Dyn<Self>) -> Self {
        x.mean().unwrap()
    }
}

#[track_caller]
fn assert_close<T: FloatNumber>(got: T, wanted: f64, bound: f64, what: &str) {
    let error = (got.wide() - wanted).abs();
    assert!(
        error <= bound,
        "{what} of {}: {got:?}, wanted {wanted:?}: error {error:e}, more than {bound:e}",
        T::NAME
    );
}

fn check_floats<T: Float>(values: &[T]) {
    let (x, n) = (upload_vec(values), values.len());
    let wide = || values.iter().map(|x| x.wide());
    let (sum, magnitude) = (Wide::sum(wide()), wide().map(f64::abs).sum::<f64>());
    // One more rounding for the reference's own error.
    let bound = (depth::<T, T>(n) + 1.0) * T::UNIT_ROUNDOFF * magnitude;
    assert_close(x.sum().unwrap(), sum, bound, &format!("sum of {n}"));
    if n == 0 {
        return;
    }
    // Summed in f64; then the division, the rounding to T, and the reference's own.
    let mean = sum / n as f64;
    let bound = (depth::<T, f64>(n) + 2.0) * f64::UNIT_ROUNDOFF * magnitude / n as f64 + T::UNIT_ROUNDOFF * mean.abs();
    assert_close(T::mean_of(&x), mean, bound, &format!("mean of {n}"));
    // The least and the greatest are elements, so they are exact.
    let least = wide().fold(f64::INFINITY, f64::min);
    let greatest = wide().fold(f64::NEG_INFINITY, f64::max);
    assert_eq!(x.min().unwrap(), T::of(least), "min of {n}");
    assert_eq!(x.max().unwrap(), T::of(greatest), "max of {n}");
}

/// Values between −100 and 100 that do not sum to something simple.
fn moderate<T: FloatNumber>(len: usize, seed: u64) -> Vec<T> {
    let mut rng = rng(seed);
    (0..len).map(|_| T::of(rng.random_range(-100.0..100.0))).collect()
}

fn floats_of_every_length<T: Float>() {
    for (seed, len) in (1..).zip(lengths(tile_len::<T>())) {
        check_floats::<T>(&moderate(len, seed));
        check_floats::<T>(&vec![T::of(0.1); len]);
    }
}

/// Large terms that cancel, and small ones that must not be lost by more than the bound.
fn floats_that_cancel<T: Float>() {
    let mut values = moderate::<T>(9_999, 5);
    for (i, value) in values.iter_mut().enumerate() {
        *value = T::of(value.wide() + [0.0, 1e6, -1e6][i % 3]);
    }
    check_floats::<T>(&values);
}

fn random_floats<T: Float>() {
    proptest!(cases(12), |(len in 0..3 * tile_len::<T>(), seed in any::<u64>())| {
        check_floats::<T>(&moderate(len, seed));
    });
}

/// A product's relative error is at most the number of multiplications, in unit roundoffs, to first order.
fn products_of_floats<T: Float>() {
    for (seed, len) in (1..).zip(lengths(tile_len::<T>())) {
        // Near 1, so that no product of them overflows; every third negative.
        let values = moderate::<T>(len, seed).into_iter().enumerate();
        let near_one = values.map(|(i, x)| (1.0 + x.wide() * 1e-5) * if i % 3 == 0 { -1.0 } else { 1.0 });
        let values: Vec<T> = near_one.map(T::of).collect();
        let wanted = Wide::product(values.iter().map(|x| x.wide()));
        // 1% for the orders above the first.
        let bound = 1.01 * (len as f64 + 1.0) * T::UNIT_ROUNDOFF * wanted.abs();
        assert_close(
            upload_vec(&values).product().unwrap(),
            wanted,
            bound,
            &format!("product of {len}"),
        );
    }
}

/// The order of the additions does not change from run to run.
fn the_same_bits_on_every_run<T: Float>() {
    let x = upload_vec(&moderate::<T>(99_991, 8));
    let results = || [x.sum().unwrap(), x.product().unwrap(), T::mean_of(&x)];
    let first = results();
    for _ in 0..5 {
        assert_same(&results(), &first, "repeated reductions");
    }
}

/// One NaN anywhere, among numbers of both signs, in the first and in the last tile.
fn nan_propagates<T: Float>() {
    let len = tile_len::<T>() + 100;
    for position in [0, 1, 33, 255, 256, len / 2, tile_len::<T>(), len - 1] {
        let mut values = moderate::<T>(len, 9);
        values[position] = T::of(f64::NAN);
        let x = upload_vec(&values);
        let results = [x.sum(), x.product(), x.min(), x.max()].map(|result| result.unwrap());
        assert_same(
            &results,
            &[T::of(f64::NAN); 4],
            &format!("sum, product, min, max with NaN at {position}"),
        );
        assert_same(&[T::mean_of(&x)], &[T::of(f64::NAN)], "mean");
    }
}

fn infinities_and_zeros<T: Float>() {
    let of = |values: &[f64]| upload_vec(&values.iter().copied().map(T::of).collect::<Vec<_>>());
    let same = |got: warpsmith::Result<T>, wanted: f64, what| assert_same(&[got.unwrap()], &[T::of(wanted)], what);
    let (infinity, nan) = (f64::INFINITY, f64::NAN);

    let x = of(&[1.0, infinity, -3.0]);
    same(x.sum(), infinity, "sum with an infinity");
    same(x.product(), -infinity, "product with an infinity");
    same(x.max(), infinity, "max with an infinity");
    same(x.min(), -3.0, "min with an infinity");
    let x = of(&[infinity, 0.0, -infinity]);
    same(x.sum(), nan, "sum of opposite infinities");
    same(x.product(), nan, "product of an infinity and zero");
    same(x.min(), -infinity, "min of infinities");
    // The identities of min and max must not show.
    same(of(&[infinity, infinity]).min(), infinity, "min of infinities alone");
    same(of(&[-infinity]).max(), -infinity, "max of negative infinity alone");
    // −0 is below +0, whichever comes first.
    for zeros in [[0.0, -0.0], [-0.0, 0.0]] {
        same(of(&zeros).min(), -0.0, "min of zeros");
        same(of(&zeros).max(), 0.0, "max of zeros");
        same(of(&zeros).sum(), 0.0, "sum of zeros");
        same(of(&zeros).product(), -0.0, "product of zeros");
    }
    same(of(&[-0.0; 3]).max(), -0.0, "max of negative zeros");
    assert_eq!(of(&[-0.0; 3]).sum().unwrap(), T::of(0.0), "sum of negative zeros");
    let subnormal = T::LEAST_NORMAL / 4.0;
    same(of(&[subnormal; 3]).sum(), 3.0 * subnormal, "sum of subnormals");
    same(of(&[-subnormal, subnormal]).min(), -subnormal, "min of subnormals");
}

for_types!(floats_of_every_length: f32 f64);
for_types!(floats_that_cancel: f32 f64);
for_types!(random_floats: f32 f64);
for_types!(products_of_floats: f32 f64);
for_types!(the_same_bits_on_every_run: f32 f64);
for_types!(nan_propagates: f32 f64);
for_types!(infinities_and_zeros: f32 f64);

#[test]
fn ten_million_numbers() {
    let values: Vec<f32> = (0..10_000_000u32)
        .map(|i| (i % 1000 * 7919 % 1000) as f32 / 8.0 - 40.0)
        .collect();
    check_floats::<f32>(&values);
}

#[test]
fn means_of_integers_do_not_overflow() {
    assert_eq!(upload(&array![i64::MAX, i64::MAX]).mean().unwrap(), i64::MAX as f64);
    assert_eq!(
        upload(&array![i32::MIN, i32::MIN, i32::MIN]).mean().unwrap(),
        f64::from(i32::MIN)
    );
    assert_eq!(upload(&array![u32::MAX, 0]).mean().unwrap(), f64::from(u32::MAX) / 2.0);
}

#[test]
fn every_layout_is_reduced_whole() {
    let base = layout_base::<i64>(4);
    for (layout, view) in layouts(&base) {
        let wanted = view.iter().fold(0i64, |sum, &x| sum.wrapping_add(x));
        assert_eq!(upload(&view).sum().unwrap(), wanted, "{layout}");
    }
}

fn empty_arrays<T: Number>() {
    let x = upload(&Array2::<T>::from_shape_vec((0, 3), Vec::new()).unwrap());
    assert_eq!(x.sum().unwrap(), T::SPECIAL[0]);
    let one = x.product().unwrap();
    assert_eq!(upload_vec(&[one]).square().unwrap().sum().unwrap(), one);
    assert_ne!(one, x.sum().unwrap());
    let message =
        |operation| format!("{operation} of an array without elements (shape [0, 3]): wanted at least one element");
    assert_eq!(x.min().unwrap_err().to_string(), message("min"));
    assert_eq!(x.max().unwrap_err().to_string(), message("max"));
    assert_eq!(x.mean().map(drop).unwrap_err().to_string(), message("mean"));
}

for_types!(empty_arrays);

#[test]
fn an_array_without_axes_has_one_element() {
    let x = upload(&ArrayD::from_elem(IxDyn(&[]), 42i32));
    let results = [x.sum(), x.product(), x.min(), x.max()].map(|result| result.unwrap());
    assert_eq!(results, [42; 4]);
    assert_eq!(x.mean().unwrap(), 42.0);
}
