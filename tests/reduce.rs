// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reductions of whole arrays: integers exactly, floats within a bound that follows from the order of the additions.

use crate::common::*;
use kernels_gpu::num::Num;
use kernels_gpu::op::{Moments, Statistic};
use kernels_gpu::reduce::{RowPlan, SHORT, tile_len};
use ndarray::{Array2, ArrayD, Ix0, IxDyn, array};
use proptest::prelude::*;
use warpsmith::ops;
use warpsmith::{DeviceArray, bf16, f16};

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

/// The depth of the tree in which `n` elements of type `T` are combined, in values of type `A`.
///
/// The error of a sum is at most `depth · u · Σ|x|`, to first order in the unit roundoff `u` (N. Higham, "Accuracy and
/// Stability of Numerical Algorithms", 4.2); the second order is below a thousandth of it here.
fn depth<T, A>(n: usize) -> f64 {
    RowPlan::new::<T, A>(1, n, n as u64).depth::<T, A>() as f64
}

/// The lengths of [`lengths`], and those around the limit of short rows.
fn row_lengths<T>() -> Vec<usize> {
    let mut lengths = lengths(tile_len::<T>());
    lengths.extend([4, 5, 17, 63, 64, 65, SHORT - 1, SHORT, SHORT + 1]);
    lengths
}

/// What an integer reduction gives.
trait Integer: Number + ops::Number + Statistic<Mean = f64, Total: Number> + Ord {
    fn sum(values: &[Self]) -> Self::Total;
    fn product(values: &[Self]) -> Self::Total;
    fn least(values: &[Self]) -> Self;
    fn greatest(values: &[Self]) -> Self;
    fn wide(self) -> f64;
}

macro_rules! integers {
    ($($total:ident: $($type:ident)*;)*) => {$($(
        impl Integer for $type {
            fn sum(values: &[Self]) -> $total {
                values.iter().map(|&x| x as i128).sum::<i128>() as $total
            }
            fn product(values: &[Self]) -> $total {
                values.iter().fold(1, |product: $total, &x| product.wrapping_mul(x as $total))
            }
            fn least(values: &[Self]) -> Self {
                *values.iter().min().expect("an element")
            }
            fn greatest(values: &[Self]) -> Self {
                *values.iter().max().expect("an element")
            }
            fn wide(self) -> f64 {
                self as f64
            }
        }
    )*)*};
}

integers! {
    i64: i32 i64;
    u64: u8 u16 u32 u64;
}

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
    let wide = || values.iter().map(|x| Integer::wide(*x));
    let (n, magnitude) = (values.len() as f64, wide().map(f64::abs).sum::<f64>());
    let bound = (depth::<T, f64>(values.len()) + 3.0) * f64::UNIT_ROUNDOFF * magnitude / n;
    let (got, wanted) = (x.mean().unwrap(), Wide::sum(wide()) / n);
    assert!(
        (got - wanted).abs() <= bound,
        "mean of {n} {}: {got}, wanted {wanted} to {bound:e}",
        T::NAME
    );
    let position = |wanted: T| values.iter().position(|&x| x == wanted).map(|i| i as u64);
    assert_eq!(Some(x.argmin().unwrap()), position(T::least(values)), "argmin of {n}");
    assert_eq!(
        Some(x.argmax().unwrap()),
        position(T::greatest(values)),
        "argmax of {n}"
    );
    let zero = T::SPECIAL[0];
    assert_eq!(x.any().unwrap(), values.iter().any(|&x| x != zero), "any of {n}");
    assert_eq!(x.all().unwrap(), values.iter().all(|&x| x != zero), "all of {n}");
}

fn integers_of_every_length<T: Integer>() {
    // Odd numbers, whose wrapped product is not 0; and what no narrower sum has room for.
    let equal = [T::SPECIAL[3], T::GREATEST, T::LEAST];
    for ((seed, len), number) in (1..).zip(row_lengths::<T>()).zip(equal.into_iter().cycle()) {
        check_integers::<T>(&random(len, seed));
        check_integers::<T>(&vec![number; len]);
    }
    let longest = row_lengths::<T>().into_iter().max().expect("there are lengths");
    for number in equal {
        check_integers::<T>(&vec![number; longest]);
    }
}

fn random_integers<T: Integer>() {
    proptest!(cases(12), |(len in 0..3 * tile_len::<T>(), seed in any::<u64>())| {
        check_integers::<T>(&random(len, seed));
    });
}

for_types!(integers_of_every_length: i32 i64 u8 u16 u32 u64);
for_types!(random_integers: i32 i64 u8 u16 u32 u64);

/// Sums and products are 64 bits wide, as in NumPy, and wrap around there.
#[test]
fn integers_are_summed_in_64_bits() {
    assert_eq!(upload_vec(&[200u8; 1000]).sum().unwrap(), 200_000u64);
    assert_eq!(upload_vec(&[u16::MAX; 100_001]).sum().unwrap(), 65_535 * 100_001);
    assert_eq!(upload_vec(&[u32::MAX; 3]).sum().unwrap(), 3 * u64::from(u32::MAX));
    assert_eq!(upload_vec(&[i32::MAX; 2]).sum().unwrap(), 2 * i64::from(i32::MAX));
    assert_eq!(upload_vec(&[i32::MIN; 5001]).sum().unwrap(), 5001 * i64::from(i32::MIN));
    assert_eq!(upload_vec(&[-1i32, 1, -1, -5]).sum().unwrap(), -6i64);
    assert_eq!(upload_vec(&[i64::MAX, 1]).sum().unwrap(), i64::MIN);
    assert_eq!(upload_vec(&[u64::MAX, 2]).sum().unwrap(), 1);
    assert_eq!(upload_vec(&[255u8; 8]).product().unwrap(), 255u64.pow(8));
    assert_eq!(upload_vec(&[65_535u16; 4]).product().unwrap(), 65_535u64.pow(4));
    assert_eq!(upload_vec(&[i32::MIN, -3]).product().unwrap(), 3i64 << 31);
    assert_eq!(
        upload_vec(&[i32::MIN; 3]).product().unwrap(),
        i64::from(i32::MIN).wrapping_pow(3)
    );
    assert_eq!(upload_vec(&[3u8; 100]).product().unwrap(), 3u64.wrapping_pow(100));
    let mut out = DeviceArray::<u64, Ix0>::zeros(device().default_stream(), ()).unwrap();
    upload_vec(&[200u8; 1000]).sum_into(&mut out).unwrap();
    assert_eq!(elements(&out), [200_000]);
    upload_vec(&[200u16; 5]).product_into(&mut out).unwrap();
    assert_eq!(elements(&out), [200u64.pow(5)]);
}

/// A float type, and what its sums and products are made in.
trait Float: FloatNumber + ops::Number + Statistic<Mean = Self, Total = Self> {
    /// The unit roundoff of the sums.
    const ROUNDOFF: f64;
    /// What the result is rounded to beside that.
    const LAST: f64;
}

macro_rules! floats {
    ($($type:ty: $acc:ty, $last:expr;)*) => {$(
        impl Float for $type {
            const ROUNDOFF: f64 = <$acc>::UNIT_ROUNDOFF;
            const LAST: f64 = $last;
        }
    )*};
}

floats! {
    f32: f32, 0.0;
    f64: f64, 0.0;
    f16: f32, f16::UNIT_ROUNDOFF;
    bf16: f32, bf16::UNIT_ROUNDOFF;
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
    // One more rounding for the reference's own error, and for 16-bit floats the last rounding.
    let bound = (depth::<T, f64>(n) + 1.0) * T::ROUNDOFF * magnitude + T::LAST * sum.abs();
    assert_close(x.sum().unwrap(), sum, bound, &format!("sum of {n}"));
    if n == 0 {
        return;
    }
    // Summed in f64; then the division, the rounding to T, and the reference's own.
    let mean = sum / n as f64;
    let bound = (depth::<T, f64>(n) + 2.0) * f64::UNIT_ROUNDOFF * magnitude / n as f64 + T::UNIT_ROUNDOFF * mean.abs();
    assert_close(x.mean().unwrap(), mean, bound, &format!("mean of {n}"));
    // The least and the greatest are elements, so they are exact.
    let least = wide().fold(f64::INFINITY, f64::min);
    let greatest = wide().fold(f64::NEG_INFINITY, f64::max);
    assert_eq!(x.min().unwrap(), T::of(least), "min of {n}");
    assert_eq!(x.max().unwrap(), T::of(greatest), "max of {n}");
    let position = |wanted: f64| wide().position(|x| x == wanted).map(|i| i as u64);
    assert_eq!(Some(x.argmin().unwrap()), position(least), "argmin of {n}");
    assert_eq!(Some(x.argmax().unwrap()), position(greatest), "argmax of {n}");
    check_variance(&x, values);
}

/// The variance against two passes in `f64`.
///
/// Let `M` bound |x| and `u` be the unit roundoff of `f64`. A combination rounds a mean seven times at most, each time
/// something of at most `M`, on top of a convex combination of the errors of its two means; so after `d` levels a
/// difference of means is off by at most `e = (14 d + 4) u M`, where the vectors that are summed at once and the
/// conversion from 64-bit integers count as levels. The sum of squared deviations S is the sum of `w δ²` over all
/// combinations, where the weights `w` add up to at most `n d`; errors of δ change it by at most `2 e Σ w|δ| + e² Σ w ≤
/// 2 e √(S n d) + e² n d` (Cauchy and Schwarz), and the roundings of its own terms by `(d + 8) u S`. The same again
/// bounds the reference, whose `d` is `n`, unless it is summed exactly, as here.
fn check_variance<T: Float>(x: &Dyn<T>, values: &[T]) {
    let wide = || values.iter().map(|x| x.wide());
    let (n, u) = (values.len() as f64, f64::UNIT_ROUNDOFF);
    let mean = Wide::sum(wide()) / n;
    let squares = Wide::sum(wide().map(|x| (x - mean) * (x - mean)));
    let d = depth::<T, Moments>(values.len()) + 2.0;
    let e = (14.0 * d + 4.0) * u * wide().map(f64::abs).fold(0.0, f64::max);
    let error = 2.0 * e * (squares * n * d).sqrt() + e * e * n * d + (d + 8.0) * u * squares;
    for ddof in [0, 1] {
        if values.len() <= ddof {
            continue;
        }
        let (count, what) = (n - ddof as f64, format!("variance({ddof}) of {n}"));
        let variance = squares / count;
        let bound = error / count + (T::UNIT_ROUNDOFF + 2.0 * u) * variance + T::LEAST_NORMAL * T::UNIT_ROUNDOFF;
        assert_close(x.variance(ddof).unwrap(), variance, bound, &what);
        // |√a − √b| ≤ |a − b| / √b, and √|a − b|.
        let deviation = variance.sqrt();
        let off = (error / count / deviation).min((error / count).sqrt());
        let bound = off + (T::UNIT_ROUNDOFF + 3.0 * u) * deviation + T::LEAST_NORMAL * T::UNIT_ROUNDOFF;
        assert_close(x.std(ddof).unwrap(), deviation, bound, &what.replace("variance", "std"));
    }
}

/// Values between −100 and 100 that do not sum to something simple.
fn moderate<T: FloatNumber>(len: usize, seed: u64) -> Vec<T> {
    let mut rng = rng(seed);
    (0..len).map(|_| T::of(rng.random_range(-100.0..100.0))).collect()
}

fn floats_of_every_length<T: Float>() {
    for (seed, len) in (1..).zip(row_lengths::<T>()) {
        check_floats::<T>(&moderate(len, seed));
        check_floats::<T>(&vec![T::of(0.1); len]);
    }
}

/// A large mean and small deviations: squares of elements less the square of the mean would have no digit right.
fn variance_of_a_large_mean<T: Float>() {
    for len in [2, 100, 5 * SHORT] {
        let values: Vec<T> = moderate::<T>(len, 3)
            .iter()
            .map(|x| T::of(x.wide() / 100.0 + 30_000.0))
            .collect();
        check_variance(&upload_vec(&values), &values);
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
    for (seed, len) in (1..).zip(row_lengths::<T>()) {
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

/// The order of the additions does not change from run to run, nor with the stream.
fn the_same_bits_on_every_run<T: Float>() {
    let values = moderate::<T>(99_991, 8);
    let x = upload_vec(&values);
    let results = |x: &Dyn<T>| [x.sum(), x.product(), x.mean(), x.variance(1)].map(|result| result.unwrap());
    let first = results(&x);
    for _ in 0..4 {
        assert_same(&results(&x), &first, "repeated reductions");
    }
    let stream = device().create_stream().unwrap();
    let elsewhere = upload_vec(&values).into_stream(&stream).unwrap();
    assert_same(&results(&elsewhere), &first, "reductions on another stream");
}

/// Combined in pairs, those of the first half with those of the second.
fn pairwise(values: &[f32]) -> f32 {
    let mut values = values.to_vec();
    while values.len() > 1 {
        let half = values.len() / 2;
        values = (0..half).map(|i| values[i] + values[i + half]).collect();
    }
    values[0]
}

/// The order of the additions, spelled out for one chunk that is a tile, and for eight that are a quarter of one each:
/// a change of it would be a change of results between versions, and between devices if it came from them.
#[test]
fn the_order_of_the_additions_is_that_of_the_plan() {
    const N: usize = 4;
    let tile = tile_len::<f32>();
    let values = moderate::<f32>(2 * tile, 10);
    let vector = |start: usize, u: usize, t: usize| pairwise(&values[start + (u * 256 + t) * N..][..N]);
    let block = |thread: &dyn Fn(usize) -> f32| {
        let threads: Vec<f32> = (0..256).map(thread).collect();
        let warps: Vec<f32> = threads.chunks(32).map(pairwise).collect();
        pairwise(&warps)
    };
    // Four chains, each of two vectors.
    let chain = |t: usize, c: usize| vector(0, c, t) + vector(0, c + 4, t);
    let one = block(&|t| pairwise(&[0, 1, 2, 3].map(|c| chain(t, c))));
    let sum = upload_vec(&values[..tile]).sum().unwrap();
    assert_same(&[sum], &[one], "sum of one chunk");
    // Two chains, each of one vector.
    let quarter = |i: usize| block(&|t| vector(i * tile / 4, 0, t) + vector(i * tile / 4, 1, t));
    let quarters: Vec<f32> = (0..8).map(quarter).collect();
    let sum = upload_vec(&values).sum().unwrap();
    assert_same(&[sum], &[pairwise(&quarters)], "sum of eight chunks");
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
        let moments = [x.mean(), x.variance(0), x.std(1)].map(|result| result.unwrap());
        assert_same(&moments, &[T::of(f64::NAN); 3], "mean, variance, std");
        let positions = [x.argmin(), x.argmax()].map(|result| result.unwrap());
        assert_eq!(positions, [position as u64; 2], "argmin, argmax with NaN at {position}");
    }
}

/// Of several least, greatest or NaN elements, which neighbours, threads and tiles share, the first; and of zeros in a
/// long row, which are equal to the positions only, the one with the sign that is asked for.
fn the_first_of_several<T: Float>() {
    let len = 2 * tile_len::<T>() + 100;
    for first in [0, 3, 5, 255, 1025, tile_len::<T>() - 1, len - 101] {
        let mut values = moderate::<T>(len, 11);
        let marks = [first, first + 1, first + 7, first + 64, len - 2];
        for (of, wanted) in [
            (f64::NEG_INFINITY, "argmin"),
            (f64::INFINITY, "argmax"),
            (f64::NAN, "NaN"),
        ] {
            for at in marks {
                values[at] = T::of(of);
            }
            let x = upload_vec(&values);
            let got = if wanted == "argmin" { x.argmin() } else { x.argmax() };
            assert_eq!(got.unwrap(), first as u64, "{wanted} of several");
            if of.is_nan() {
                assert_eq!(x.argmin().unwrap(), first as u64, "argmin of several NaN");
            }
        }
    }
    let zeros: Vec<T> = (0..len).map(|i| T::of(if i % 3 == 1 { -0.0 } else { 0.0 })).collect();
    let x = upload_vec(&zeros);
    let results = [x.min(), x.max()].map(|result| result.unwrap());
    assert_same(&results, &[T::of(-0.0), T::of(0.0)], "min, max of zeros");
    assert_eq!((x.argmin().unwrap(), x.argmax().unwrap()), (0, 0));
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
    // To the positions, both zeros are equal, and the first NaN wins.
    for zeros in [[0.0, -0.0], [-0.0, 0.0]] {
        let x = of(&zeros);
        assert_eq!((x.argmin().unwrap(), x.argmax().unwrap()), (0, 0));
        assert!(!x.any().unwrap() && !x.all().unwrap());
    }
    let x = of(&[1.0, nan, -infinity, infinity, nan]);
    assert_eq!((x.argmin().unwrap(), x.argmax().unwrap()), (1, 1));
    assert!(x.any().unwrap() && x.all().unwrap());
    let x = of(&[-1.0, infinity, -infinity, infinity, -infinity]);
    assert_eq!((x.argmin().unwrap(), x.argmax().unwrap()), (2, 1));
    same(x.variance(0), nan, "variance with infinities");
    same(of(&[infinity]).variance(0), nan, "variance of an infinity");
    assert_eq!(of(&[infinity]).argmin().unwrap(), 0);
    assert_eq!(of(&[-infinity]).argmax().unwrap(), 0);
    same(of(&[5.0]).variance(0), 0.0, "variance of one element");
    let subnormal = T::LEAST_NORMAL / 4.0;
    same(of(&[subnormal; 3]).sum(), 3.0 * subnormal, "sum of subnormals");
    same(of(&[-subnormal, subnormal]).min(), -subnormal, "min of subnormals");
}

for_types!(floats_of_every_length: f32 f64 f16 bf16);
for_types!(floats_that_cancel: f32 f64);
for_types!(variance_of_a_large_mean: f32 f64 f16 bf16);
for_types!(random_floats: f32 f64 f16 bf16);
for_types!(products_of_floats: f32 f64);
for_types!(the_same_bits_on_every_run: f32 f64 f16 bf16);
for_types!(nan_propagates: f32 f64 f16 bf16);
for_types!(infinities_and_zeros: f32 f64 f16 bf16);
for_types!(the_first_of_several: f32 f64 f16 bf16);

/// Ten million numbers, of which the simulated GPU takes a tenth.
#[test]
fn millions_of_numbers() {
    let len = if device().is_simulator() { 1_000_000 } else { 10_000_000 };
    let values: Vec<f32> = (0..len)
        .map(|i: u32| (i % 1000 * 7919 % 1000) as f32 / 8.0 - 40.0)
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

fn empty_arrays<T: Number + ops::Number + Num<Total: Number>>() {
    let x = upload(&Array2::<T>::from_shape_vec((0, 3), Vec::new()).unwrap());
    assert_same(&[x.sum().unwrap()], &[T::Total::ZERO], "sum of nothing");
    assert_same(&[x.product().unwrap()], &[T::Total::ONE], "product of nothing");
    assert!(!x.any().unwrap() && x.all().unwrap());
    let message =
        |operation| format!("{operation} of an array without elements (shape [0, 3]): wanted at least one element");
    let mut out = DeviceArray::<T, Ix0>::zeros(device().default_stream(), ()).unwrap();
    assert_eq!(x.min().unwrap_err().to_string(), message("min"));
    assert_eq!(x.min_into(&mut out).unwrap_err().to_string(), message("min_into"));
    assert_eq!(x.max().unwrap_err().to_string(), message("max"));
    assert_eq!(x.mean().map(drop).unwrap_err().to_string(), message("mean"));
    assert_eq!(x.variance(0).map(drop).unwrap_err().to_string(), message("variance"));
    assert_eq!(x.std(0).map(drop).unwrap_err().to_string(), message("std"));
    assert_eq!(x.argmin().unwrap_err().to_string(), message("argmin"));
    assert_eq!(x.argmax().unwrap_err().to_string(), message("argmax"));
}

for_types!(empty_arrays: f32 f64 f16 bf16 i32 i64 u8 u16 u32 u64);

#[test]
fn a_variance_wants_more_elements_than_ddof() {
    let x = upload(&array![1.0, 2.0]);
    let message = x.variance(2).unwrap_err().to_string();
    let wanted = "given 2, wanted less than the number of elements that are combined, 2";
    assert_eq!(message, format!("variance: ddof: {wanted}"));
    assert_eq!(x.std(2).unwrap_err().to_string(), format!("std: ddof: {wanted}"));
    assert_eq!(x.variance(1).unwrap(), 0.5);
}

#[test]
fn an_output_on_another_device_is_refused() {
    let other = warpsmith::Device::simulator();
    let mut out = DeviceArray::<f64, Ix0>::zeros(other.default_stream(), ()).unwrap();
    let message = upload(&array![1.0]).sum_into(&mut out).unwrap_err().to_string();
    assert!(message.starts_with("sum_into: given an operand on"), "{message}");
}

#[test]
fn results_stay_on_the_device() {
    let stream = device().default_stream();
    let x = upload_vec(&random::<i32>(5000, 11));
    let (mut sum, mut position) = (
        DeviceArray::zeros(stream, ()).unwrap(),
        DeviceArray::zeros(stream, ()).unwrap(),
    );
    let (mut mean, mut all) = (
        DeviceArray::zeros(stream, ()).unwrap(),
        DeviceArray::zeros(stream, ()).unwrap(),
    );
    x.sum_into(&mut sum).unwrap();
    x.argmax_into(&mut position).unwrap();
    x.variance_into(1, &mut mean).unwrap();
    x.all_into(&mut all).unwrap();
    assert_eq!(elements(&sum), [x.sum().unwrap()]);
    assert_eq!(elements(&position), [x.argmax().unwrap()]);
    assert_eq!(elements(&mean), [x.variance(1).unwrap()]);
    assert_eq!(elements(&all), [u8::from(x.all().unwrap())]);
}

/// 16-bit results are rounded once: the mean is just above the middle of 1 and the next f16, by less than f32 can show.
#[test]
fn means_of_16_bit_floats_are_rounded_once() {
    let ulp = f16::EPSILON.to_f64();
    let mut values = vec![f16::from_f64(1.0), f16::from_f64(1.0 + ulp)];
    assert_eq!(upload_vec(&values).mean().unwrap(), f16::ONE);
    values.resize(1 << 16, f16::ONE);
    for pair in values.chunks_mut(2) {
        pair[1] = f16::from_f64(1.0 + ulp);
    }
    // Two elements that are one ulp more together.
    values[0] = f16::from_f64(0.5);
    values[2] = f16::from_f64(1.5 + ulp);
    assert_eq!(upload_vec(&values).mean().unwrap(), f16::from_f64(1.0 + ulp));
}

#[test]
fn an_array_without_axes_has_one_element() {
    let x = upload(&ArrayD::from_elem(IxDyn(&[]), 42i32));
    assert_eq!([x.sum(), x.product()].map(|result| result.unwrap()), [42i64; 2]);
    assert_eq!([x.min(), x.max()].map(|result| result.unwrap()), [42i32; 2]);
    assert_eq!(x.mean().unwrap(), 42.0);
    assert_eq!((x.argmin().unwrap(), x.variance(0).unwrap()), (0, 0.0));
}

/// The plans of lengths that no test has the memory for: enough blocks to fill a device, and a depth that grows as the
/// logarithm.
#[test]
fn plans_of_long_rows_have_a_small_depth() {
    let depth = |log: u32| depth::<f32, f32>(1 << log);
    let plan = |log: u32| RowPlan::new::<f32, f32>(1, 1 << log, 0);
    assert_eq!(plan(13).chunks(), 1);
    assert_eq!(plan(14).chunks(), 8);
    assert_eq!(plan(18).chunks(), 128);
    assert_eq!(plan(19).chunks(), 64);
    assert_eq!(plan(20).chunks(), 128);
    assert_eq!(plan(24).chunks(), 512);
    assert_eq!(plan(28).chunks(), 2048);
    assert_eq!(plan(29).chunks(), 2048);
    assert_eq!(plan(36).chunks(), 1 << 17);
    for log in 12..44 {
        assert!(depth(log) <= 128.0 + 14.0 + 24.0 * 3.0, "{log}: {}", depth(log));
        assert!(depth(log + 1) >= depth(log));
    }
}
