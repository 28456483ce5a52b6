// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random arrays: to the last bit what `cuda_std::random` makes of the words that the layout names, and by statistics
//! with fixed seeds, whose bounds are those of 4 to 5 standard deviations unless they say otherwise.

use std::collections::HashMap;

use crate::common::*;
use cuda_std::Float;
use cuda_std::random::{Philox4x32, bounded_u32, bounded_u64, normal_f32, normal_f64, uniform_f32, uniform_f64};
use kernels_gpu::random::tile_len;
use ndarray::Ix1;
use warpsmith::{DeviceArray, Error, Generator, LaunchConfig, Result, Stream, ops};

fn stream() -> &'static Stream {
    device().default_stream()
}

fn words(random: Philox4x32, blocks: usize) -> Vec<u32> {
    (0..blocks as u64).flat_map(|number| random.block(number)).collect()
}

/// Places in a sequence, the end of the numbers among them.
const PLACES: [u64; 3] = [0, 12_345, u64::MAX - 3];

/// Calls `check` for lengths around every boundary, with a generator and what it is at; it moves on by `len` elements of
/// which a block makes `per_block`.
fn every_length(tile: usize, per_block: usize, mut check: impl FnMut(&mut Generator, Philox4x32, usize)) {
    for (len, place) in lengths(tile).into_iter().zip(PLACES.into_iter().cycle()) {
        let mut generator = Generator::new(0x0123_4567_89ab_cdef).with_sequence(9).at(place);
        let random = Philox4x32::new(0x0123_4567_89ab_cdef).with_sequence(9).skip(place);
        check(&mut generator, random, len);
        assert_eq!(
            generator.position(),
            place.wrapping_add(len.div_ceil(per_block) as u64),
            "{len}"
        );
    }
}

#[test]
fn uniform_f32_is_of_one_word() {
    every_length(tile_len::<f32>(), 4, |generator, random, len| {
        let x = generator.uniform(stream(), len, -1.0f32..2.0).unwrap();
        let wanted = words(random, len).into_iter().take(len);
        let wanted: Vec<f32> = wanted.map(|word| uniform_f32(word).mul_add(3.0, -1.0)).collect();
        assert_same(&elements(&x), &wanted, "uniform");
    });
}

#[test]
fn uniform_f64_is_of_two_words() {
    every_length(tile_len::<f64>(), 2, |generator, random, len| {
        let x = generator.uniform(stream(), len, -1.0f64..2.0).unwrap();
        let words = words(random, len);
        let pairs = words.chunks_exact(2).take(len);
        let wanted: Vec<f64> = pairs
            .map(|pair| uniform_f64([pair[0], pair[1]]).mul_add(3.0, -1.0))
            .collect();
        assert_same(&elements(&x), &wanted, "uniform");
    });
}

#[test]
fn normal_f32_is_of_a_pair_of_words() {
    every_length(tile_len::<f32>(), 4, |generator, random, len| {
        let x = generator.normal(stream(), len, 3.0f32, 0.5).unwrap();
        let words = words(random, len);
        let pairs = words
            .chunks_exact(2)
            .map(|pair| normal_f32([pair[0], pair[1]], 3.0, 0.5));
        let wanted: Vec<f32> = pairs.flatten().take(len).collect();
        assert_same(&elements(&x), &wanted, "normal");
    });
}

#[test]
fn normal_f64_is_of_four_words() {
    every_length(tile_len::<f64>(), 2, |generator, random, len| {
        let x = generator.normal(stream(), len, 3.0f64, 0.5).unwrap();
        let pairs = (0..len as u64).flat_map(|number| normal_f64(random.block(number), 3.0, 0.5));
        assert_same(&elements(&x), &pairs.take(len).collect::<Vec<_>>(), "normal");
    });
}

/// The words of the blocks, each behind the one of the same place of [`Philox4x32::more`].
fn with_more(random: Philox4x32, blocks: usize) -> Vec<[u32; 2]> {
    let pairs = |number| {
        let block = random.block(number);
        let more = random.more(block);
        [0, 1, 2, 3].map(|k| [more[k], block[k]])
    };
    (0..blocks as u64).flat_map(pairs).collect()
}

/// By ranges whose integers the block's words decide nearly always, never, and half of the time.
#[test]
fn integers_are_of_twice_their_bits() {
    every_length(tile_len::<u32>(), 4, |generator, random, len| {
        let from = generator.position();
        let words = with_more(random, len.div_ceil(4));
        let x = generator.integers(stream(), len, -20..=30i32).unwrap();
        let wanted = words.iter().take(len);
        let wanted: Vec<i32> = wanted.map(|&words| bounded_u32(words, 50) as i32 - 20).collect();
        assert_same(&elements(&x), &wanted, "i32");
        for last in [1 << 16, 1 << 31, u32::MAX - 1, u32::MAX] {
            let mut generator = generator.clone().at(from);
            let x = generator.integers(stream(), len, ..=last).unwrap();
            let wanted: Vec<u32> = words.iter().take(len).map(|&words| bounded_u32(words, last)).collect();
            assert_same(&elements(&x), &wanted, "u32");
        }
    });
    every_length(tile_len::<u64>(), 2, |generator, random, len| {
        let from = generator.position();
        let words = with_more(random, len.div_ceil(2));
        let words = words.chunks_exact(2).take(len);
        let words: Vec<_> = words.map(|two| [two[0][0], two[1][0], two[0][1], two[1][1]]).collect();
        let x = generator.integers(stream(), len, i64::MIN..5).unwrap();
        let last = i64::MAX as u64 + 5;
        let number = |&words: &[u32; 4]| i64::MIN.wrapping_add(bounded_u64(words, last) as i64);
        assert_same(&elements(&x), &words.iter().map(number).collect::<Vec<_>>(), "i64");
        for last in [999, 1 << 62, u64::MAX - 1, u64::MAX] {
            let mut generator = generator.clone().at(from);
            let x = generator.integers(stream(), len, ..=last).unwrap();
            let wanted: Vec<u64> = words.iter().map(|&words| bounded_u64(words, last)).collect();
            assert_same(&elements(&x), &wanted, "u64");
        }
    });
}

#[test]
fn bernoulli_compares_a_word() {
    every_length(tile_len::<u8>(), 4, |generator, random, len| {
        let x = generator.bernoulli(stream(), len, 0.375).unwrap();
        let wanted = words(random, len).into_iter().take(len);
        let wanted: Vec<u8> = wanted.map(|word| u8::from(word < 0x6000_0000)).collect();
        assert_same(&elements(&x), &wanted, "bernoulli");
    });
}

#[test]
fn certain_and_impossible() {
    let mut generator = Generator::new(5);
    assert_eq!(generator.bernoulli(stream(), 99_999, 0.0).unwrap().sum().unwrap(), 0);
    assert_eq!(
        generator.bernoulli(stream(), 99_999, 1.0).unwrap().sum().unwrap(),
        99_999
    );
    assert_eq!(generator.integers(stream(), 1000, 7..8i32).unwrap().min().unwrap(), 7);
    // Of the type that literals have where nothing else says.
    assert!(
        elements(&generator.integers(stream(), 10, 0..5).unwrap())
            .iter()
            .all(|x: &i32| (0..5).contains(x))
    );
    assert!(
        elements(&generator.integers(stream(), 10, 2..=5).unwrap())
            .iter()
            .all(|x: &i32| (2..=5).contains(x))
    );
    assert_eq!(
        generator.normal(stream(), 1000, 2.5f64, 0.0).unwrap().max().unwrap(),
        2.5
    );
}

/// Another launch of the kernel than the library's: the elements are the same.
#[test]
fn the_block_makes_no_difference() {
    let len = 3 * tile_len::<f32>() + 77;
    let wanted = elements(&Generator::new(3).standard_normal::<f32, _>(stream(), len).unwrap());
    for threads in [1u32, 32, 96, 255] {
        let mut x = DeviceArray::zeros(stream(), len).unwrap();
        let config = LaunchConfig::new(4, threads);
        let args = (Philox4x32::new(3), 0.0f32, 1.0f32, &mut x);
        stream()
            .launch::<kernels_gpu::random::normal<f32, 4>>(&config, args)
            .unwrap();
        assert_same(&elements(&x), &wanted, "normal");
    }
}

/// Two arrays after one another are one array, if the first ends with a block.
#[test]
fn the_next_call_continues_the_sequence() {
    fn check<T: Number>(per_block: usize, make: impl Fn(&mut Generator, usize) -> Result<DeviceArray<T, Ix1>>) {
        let first = 500 * per_block;
        let whole = elements(&make(&mut Generator::new(8), first + 333).unwrap());
        let mut generator = Generator::new(8);
        let mut parts = elements(&make(&mut generator, first).unwrap());
        parts.extend(elements(&make(&mut generator, 333).unwrap()));
        assert_same(&parts, &whole, "in two parts");
    }
    check(4, |generator, len| generator.uniform(stream(), len, 0.0f32..1.0));
    check(4, |generator, len| generator.standard_normal::<f32, _>(stream(), len));
    check(2, |generator, len| generator.standard_normal::<f64, _>(stream(), len));
    check(4, |generator, len| generator.integers(stream(), len, 0..100u32));
    check(2, |generator, len| generator.integers(stream(), len, 0..100u64));
    check(4, |generator, len| generator.bernoulli(stream(), len, 0.5));
}

#[test]
fn into_existing_arrays() {
    let (mut a, mut b) = (Generator::new(1), Generator::new(1));
    let mut x = DeviceArray::zeros(stream(), (30, 40)).unwrap();
    a.uniform_into(0.0f32..5.0, &mut x).unwrap();
    assert_eq!(
        elements(&x),
        elements(&b.uniform(stream(), (30, 40), 0.0f32..5.0).unwrap())
    );
    a.normal_into(1.0, 2.0, &mut x).unwrap();
    assert_eq!(
        elements(&x),
        elements(&b.normal(stream(), (30, 40), 1.0f32, 2.0).unwrap())
    );
    let mut x = DeviceArray::zeros(stream(), 99).unwrap();
    a.integers_into(3..9i64, &mut x).unwrap();
    assert_eq!(elements(&x), elements(&b.integers(stream(), 99, 3..9i64).unwrap()));
    let mut x = DeviceArray::zeros(stream(), 99).unwrap();
    a.bernoulli_into(0.2, &mut x).unwrap();
    assert_eq!(elements(&x), elements(&b.bernoulli(stream(), 99, 0.2).unwrap()));
    assert_eq!(a, b);
}

/// Where the sum rounds to the end, it is the number before.
#[test]
fn the_end_of_the_range_does_not_occur() {
    for (start, end) in [
        (1.0f32, 1.0 + 2.0 * f32::EPSILON),
        (1.0, 1.0 + f32::EPSILON),
        (-1e-45, 1e-45),
        (16_777_213.0, 16_777_216.0),
        (-1e30, 1e-30),
        (f32::MIN / 2.0, f32::MAX / 2.0),
    ] {
        let x = Generator::new(2).uniform(stream(), 20_000, start..end).unwrap();
        let (least, most) = (x.min().unwrap(), x.max().unwrap());
        assert!(
            start <= least && most < end,
            "{start:e} to {end:e}: {least:e} to {most:e}"
        );
    }
    let x = elements(
        &Generator::new(2)
            .uniform(stream(), 1000, 1.0..1.0 + 2.0 * f32::EPSILON)
            .unwrap(),
    );
    assert!(x.contains(&1.0) && x.contains(&(1.0 + f32::EPSILON)));
}

#[test]
fn parameters_that_are_none() {
    let mut generator = Generator::new(1);
    let message = generator.uniform(stream(), 1, 2.0f32..2.0).unwrap_err().to_string();
    assert_eq!(
        message,
        "uniform: range: given 2 to 2, wanted a finite start that is less than the end, at a finite distance"
    );
    let ranges = [
        (1.0, 0.0),
        (f64::NAN, 1.0),
        (0.0, f64::NAN),
        (0.0, f64::INFINITY),
        (f64::NEG_INFINITY, 0.0),
        (f64::MIN, f64::MAX),
    ];
    for (start, end) in ranges {
        let error = generator.uniform(stream(), 1, start..end);
        assert!(matches!(error, Err(Error::Parameter { .. })), "{start} {end}");
    }
    for (mean, deviation) in [
        (f64::NAN, 1.0),
        (f64::INFINITY, 1.0),
        (0.0, -1.0),
        (0.0, f64::NAN),
        (0.0, f64::INFINITY),
    ] {
        let error = generator.normal(stream(), 1, mean, deviation);
        assert!(matches!(error, Err(Error::Parameter { .. })), "{mean} {deviation}");
    }
    for probability in [-0.1, 1.1, f64::NAN] {
        let error = generator.bernoulli(stream(), 1, probability);
        assert!(matches!(error, Err(Error::Parameter { .. })), "{probability}");
    }
    let mut no_integers = |range: (std::ops::Bound<i32>, std::ops::Bound<i32>)| {
        generator.integers(stream(), 1, range).unwrap_err().to_string()
    };
    use std::ops::Bound::{Excluded, Included, Unbounded};
    assert_eq!(
        no_integers((Included(5), Excluded(5))),
        "integers: range: given 5 included to 5 excluded, wanted a range with a number in it"
    );
    no_integers((Included(6), Included(5)));
    no_integers((Unbounded, Excluded(i32::MIN)));
    no_integers((Excluded(i32::MAX), Unbounded));
    assert_eq!(generator.position(), 0, "what fails takes no block");
}

/// The elements of one kind, which the statistics take as f64.
fn sample<T: Number + Into<f64>>(make: impl Fn(&mut Generator) -> Result<DeviceArray<T, Ix1>>) -> Vec<f64> {
    let array = make(&mut Generator::new(2026)).unwrap();
    elements(&array).into_iter().map(Into::into).collect()
}

const SAMPLE: usize = 1 << 18;

/// Mean, variance and the correlations of neighbours up to the 8th, in units of their standard deviations.
fn check_moments(x: &[f64], mean: f64, variance: f64, fourth: f64, what: &str) {
    let n = x.len() as f64;
    let z: Vec<f64> = x.iter().map(|x| x - mean).collect();
    let of_mean = z.iter().sum::<f64>() / n / (variance / n).sqrt();
    let of_variance =
        (z.iter().map(|z| z * z).sum::<f64>() / n - variance) / ((fourth - variance * variance) / n).sqrt();
    assert!(of_mean.abs() < 4.0, "{what}: mean off by {of_mean}");
    assert!(of_variance.abs() < 4.0, "{what}: variance off by {of_variance}");
    for lag in 1..=8 {
        let sum: f64 = z.iter().zip(&z[lag..]).map(|(a, b)| a * b).sum();
        let correlation = sum / variance / n.sqrt();
        assert!(
            correlation.abs() < 4.5,
            "{what}: correlation {correlation} at lag {lag}"
        );
    }
}

/// Pearson's χ² of counts that are all as likely: within 4.5 standard deviations of its mean.
fn check_even(counts: &[u64], what: &str) {
    let (bins, n) = (counts.len() as f64, counts.iter().sum::<u64>() as f64);
    let wanted = n / bins;
    let square: f64 = counts
        .iter()
        .map(|&count| (count as f64 - wanted).powi(2) / wanted)
        .sum();
    let off = (square - (bins - 1.0)) / (2.0 * (bins - 1.0)).sqrt();
    assert!(off.abs() < 4.5, "{what}: χ² of {square} in {bins} bins");
}

/// Kolmogorov and Smirnov: the largest distance from the distribution, times √n, is above 1.95 in one of 1000 samples.
fn check_distribution(mut x: Vec<f64>, below: impl Fn(f64) -> f64, what: &str) {
    x.sort_by(f64::total_cmp);
    let n = x.len() as f64;
    let distance = |(i, &x): (usize, &f64)| (below(x) - i as f64 / n).max((i + 1) as f64 / n - below(x));
    let largest = x.iter().enumerate().map(distance).fold(0.0, f64::max);
    assert!(largest * n.sqrt() < 1.95, "{what}: {}", largest * n.sqrt());
}

fn counts(places: impl Iterator<Item = usize>, bins: usize) -> Vec<u64> {
    let mut counts = vec![0; bins];
    places.for_each(|place| counts[place] += 1);
    counts
}

fn check_uniform(x: Vec<f64>, what: &str) {
    check_moments(&x, 0.5, 1.0 / 12.0, 1.0 / 80.0, what);
    check_even(&counts(x.iter().map(|x| (x * 1000.0) as usize), 1000), what);
    // Pairs, and the bits below the first ten.
    let pair = |pair: &[f64]| (pair[0] * 32.0) as usize * 32 + (pair[1] * 32.0) as usize;
    check_even(&counts(x.chunks_exact(2).map(pair), 1024), what);
    check_even(&counts(x.iter().map(|x| (x * 1_048_576.0) as usize & 1023), 1024), what);
    check_distribution(x, |x| x, what);
}

#[test]
fn uniform_numbers_are_uniform() {
    check_uniform(
        sample(|generator| generator.uniform(stream(), SAMPLE, 0.0f32..1.0)),
        "f32",
    );
    check_uniform(
        sample(|generator| generator.uniform(stream(), SAMPLE, 0.0f64..1.0)),
        "f64",
    );
}

/// The probability of less than x in the normal distribution.
fn normal_below(x: f64) -> f64 {
    0.5 * Float::erfc(-x * std::f64::consts::FRAC_1_SQRT_2)
}

fn check_normal(x: Vec<f64>, what: &str) {
    check_moments(&x, 0.0, 1.0, 3.0, what);
    let n = x.len() as f64;
    let third = x.iter().map(|x| x.powi(3)).sum::<f64>() / (15.0 * n).sqrt();
    let fourth = (x.iter().map(|x| x.powi(4)).sum::<f64>() - 3.0 * n) / (96.0 * n).sqrt();
    assert!(third.abs() < 4.0 && fourth.abs() < 4.0, "{what}: {third} {fourth}");
    // The two of a pair: neither they nor their squares know of each other.
    let of_pairs = |f: fn(f64) -> f64, variance: f64| {
        let sum: f64 = x.chunks_exact(2).map(|pair| f(pair[0]) * f(pair[1])).sum();
        sum / (variance * (n / 2.0).sqrt())
    };
    let (plain, squares) = (of_pairs(|x| x, 1.0), of_pairs(|x| x * x - 1.0, 2.0));
    assert!(plain.abs() < 4.0 && squares.abs() < 4.0, "{what}: {plain} {squares}");
    // Either tail, as a number of Poisson's distribution.
    for limit in [2.0, 3.0, 4.0] {
        let wanted = n * normal_below(-limit);
        for found in [
            x.iter().filter(|&&x| x < -limit).count(),
            x.iter().filter(|&&x| x > limit).count(),
        ] {
            let off = (found as f64 - wanted) / wanted.sqrt();
            assert!(off.abs() < 4.0, "{what}: {found} beyond {limit}, {wanted} wanted");
        }
    }
    check_even(
        &counts(x.iter().map(|&x| (normal_below(x) * 1000.0) as usize), 1000),
        what,
    );
    check_distribution(x, normal_below, what);
}

#[test]
fn normal_numbers_are_normal() {
    check_normal(
        sample(|generator| generator.standard_normal::<f32, _>(stream(), SAMPLE)),
        "f32",
    );
    check_normal(
        sample(|generator| generator.standard_normal::<f64, _>(stream(), SAMPLE)),
        "f64",
    );
}

fn integers_are_even<T: Number + ops::RandomInteger + TryFrom<i64> + TryInto<i64>>() {
    let of = |x: i64| T::try_from(x).ok().unwrap();
    for (low, high) in [(0, 1), (0, 5), (3, 102), (100, 999)] {
        let range = of(low)..=of(high);
        assert!(range.contains(&of(low)));
        let x = elements(&Generator::new(11).integers(stream(), SAMPLE / 2, range).unwrap());
        let places = x.into_iter().map(|x| {
            let x: i64 = x.try_into().ok().unwrap();
            assert!((low..=high).contains(&x));
            (x - low) as usize
        });
        check_even(&counts(places, (high - low + 1) as usize), T::NAME);
    }
}

for_types!(integers_are_even: i32 i64 u32 u64);

/// Every bit of whole words, and of the middle of large ranges.
#[test]
fn whole_words_have_random_bits() {
    let x = elements(&Generator::new(4).integers::<u64, _>(stream(), 50_000, ..).unwrap());
    for bit in 0..64 {
        let ones = x.iter().filter(|&&x| x >> bit & 1 == 1).count() as f64;
        assert!(
            (ones - 25_000.0).abs() < 4.5 * 50_000f64.sqrt() / 2.0,
            "bit {bit}: {ones}"
        );
    }
}

#[test]
fn bernoulli_has_its_probability() {
    for probability in [0.01, 0.25, 0.7, 0.999] {
        let x: Vec<f64> = sample(|generator| generator.bernoulli(stream(), SAMPLE, probability));
        let variance = probability * (1.0 - probability);
        let fourth = variance * (1.0 - 3.0 * variance);
        check_moments(&x, probability, variance, fourth, "bernoulli");
    }
}

/// Sequences and seeds beside one another have nothing to do with one another.
#[test]
fn neighbouring_seeds_and_sequences_are_independent() {
    let normal = |mut generator: Generator| elements(&generator.standard_normal::<f64, _>(stream(), 20_000).unwrap());
    let others = [
        Generator::new(7),
        Generator::new(8),
        Generator::new(7 + (1 << 32)),
        Generator::new(7).with_sequence(1),
        Generator::new(7).with_sequence(1 << 32),
    ];
    let samples: Vec<_> = others.into_iter().map(normal).collect();
    for (i, a) in samples.iter().enumerate() {
        for b in &samples[..i] {
            let correlation = a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>() / 20_000f64.sqrt();
            assert!(correlation.abs() < 4.0, "{correlation}");
        }
    }
}

#[test]
fn permutations_have_every_number_once() {
    let mut generator = Generator::new(6);
    for n in (0..70).chain([127, 128, 129, 1000, 4096, 4097, 65_537]) {
        let mut order = elements(&generator.permutation(stream(), n).unwrap());
        order.sort();
        assert!(order.into_iter().eq(0..n as u64), "{n}");
    }
    assert_eq!(generator.position(), 77 * 4);
}

/// Of up to five elements, each order is as likely as the others.
#[test]
fn small_permutations_are_equally_likely() {
    for (n, orders) in [(2, 2), (3, 6), (4, 24), (5, 120)] {
        let mut seen = HashMap::new();
        let mut generator = Generator::new(n as u64);
        for _ in 0..orders * 40 {
            let order = elements(&generator.permutation(stream(), n).unwrap());
            *seen.entry(order).or_insert(0u64) += 1;
        }
        assert_eq!(seen.len(), orders, "{n}");
        check_even(&seen.into_values().collect::<Vec<_>>(), "orders");
    }
}

/// Of large ones: fixed points, inversions, where a number goes, and which follow one another.
#[test]
fn large_permutations_look_random() {
    let mut generator = Generator::new(12);
    let mut fixed = 0;
    for n in [1000, 1024, 2000, 2047, 3001] {
        for _ in 0..4 {
            let order = elements(&generator.permutation(stream(), n).unwrap());
            fixed += (0..n).filter(|&i| order[i] == i as u64).count();
            let inversions: usize = (0..n)
                .map(|i| order[i + 1..].iter().filter(|&&x| x < order[i]).count())
                .sum();
            let length = n as f64;
            let off = inversions as f64 - length * (length - 1.0) / 4.0;
            let deviation = (length * (length - 1.0) * (2.0 * length + 5.0) / 72.0).sqrt();
            assert!((off / deviation).abs() < 4.0, "{n}: {inversions} inversions");
            let centred = |x: u64| (x as f64 + 0.5) / length - 0.5;
            let sum: f64 = order.windows(2).map(|pair| centred(pair[0]) * centred(pair[1])).sum();
            let correlation = sum * 12.0 / length.sqrt();
            assert!(correlation.abs() < 4.0, "{n}: correlation {correlation} of neighbours");
        }
    }
    // Poisson's distribution, with mean 1 for each of the 20.
    assert!((4..45).contains(&fixed), "{fixed} fixed points");
    // Where the first and a middle number go, over many permutations.
    let mut places = [vec![0; 10], vec![0; 10]];
    for _ in 0..2000 {
        let order = elements(&generator.permutation(stream(), 100).unwrap());
        for (places, i) in places.iter_mut().zip([0, 57]) {
            places[order[i] as usize / 10] += 1;
        }
    }
    places.iter().for_each(|counts| check_even(counts, "places"));
}
