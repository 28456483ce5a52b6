// SPDX-License-Identifier: MIT OR Apache-2.0
//! Histograms and counts of values, to the last count, against NumPy's rule spelled out on the host.

use std::ops::RangeInclusive;

use crate::common::{Number, cases, elements, random, rng, upload, upload_vec};
use kernels_gpu::histogram::{self as kernels, CACHE, COLUMNS, Plan, Uniform};
use ndarray::{Array1, Array2, Array3, Ix1, array};
use proptest::prelude::*;
use warpsmith::ops::{Bincount, Histogram, histogram_bin_edges};
use warpsmith::{Device, DeviceArray, LaunchConfig};

/// A type of elements with what the tests want of it.
trait Element: Number + Histogram {
    /// The nearest element.
    fn of(value: f64) -> Self;
    /// Its neighbours on both sides.
    fn neighbours(self) -> [Self; 2];
    /// An edge as this type's data are compared with it.
    fn rounded(edge: f64) -> f64;
}

macro_rules! elements {
    ($($type:ident: |$x:ident| $neighbours:expr, |$edge:ident| $rounded:expr;)*) => {$(
        impl Element for $type {
            fn of(value: f64) -> Self {
                value as Self
            }

            fn neighbours(self) -> [Self; 2] {
                let $x = self;
                $neighbours
            }

            fn rounded($edge: f64) -> f64 {
                $rounded
            }
        }
    )*};
}

elements! {
    u8: |x| [x.saturating_sub(1), x.saturating_add(1)], |edge| edge;
    u16: |x| [x.saturating_sub(1), x.saturating_add(1)], |edge| edge;
    i32: |x| [x.saturating_sub(1), x.saturating_add(1)], |edge| edge;
    u32: |x| [x.saturating_sub(1), x.saturating_add(1)], |edge| edge;
    f32: |x| [x.next_down(), x.next_up()], |edge| f64::from(edge as f32);
    f64: |x| [x.next_down(), x.next_up()], |edge| edge;
}

/// A range over which random elements of the type spread well.
fn usual_range<T: Element>() -> RangeInclusive<f64> {
    match T::NAME {
        "u8" | "u16" | "u32" => 0.0..=250.0,
        _ => -100.0..=100.0,
    }
}

/// `numpy.linspace(lo, hi, bins + 1)`, in the type that NumPy's histogram has for the data.
fn linspace<T: Element>(bins: usize, range: &RangeInclusive<f64>) -> Vec<f64> {
    let (mut lo, mut hi) = (*range.start(), *range.end());
    if lo == hi {
        (lo, hi) = (lo - 0.5, hi + 0.5);
    }
    let step = (hi - lo) / bins as f64;
    let edge = |i: usize| match i {
        _ if i == bins => hi,
        _ if step == 0.0 => i as f64 / bins as f64 * (hi - lo) + lo,
        _ => i as f64 * step + lo,
    };
    (0..=bins).map(|i| T::rounded(edge(i))).collect()
}

/// The bin that an element is in: `edges[i] <= x < edges[i + 1]`, the last closed.
fn bin(x: f64, edges: &[f64]) -> Option<usize> {
    let last = edges.len() - 1;
    if x == edges[last] {
        return Some(last - 1);
    }
    let i = edges.partition_point(|&edge| edge <= x);
    (0 < i && i <= last && x < edges[i]).then(|| i - 1)
}

fn reference<T: Element>(x: &[T], edges: &[f64]) -> Vec<u64> {
    let mut counts = vec![0; edges.len() - 1];
    for i in x.iter().filter_map(|x| bin(x.to_f64(), edges)) {
        counts[i] += 1;
    }
    counts
}

#[track_caller]
fn check<T: Element>(x: &[T], bins: usize, range: RangeInclusive<f64>) {
    let wanted = reference(x, &linspace::<T>(bins, &range));
    let got = upload_vec(x).histogram(bins, range.clone()).expect("a histogram");
    crate::common::assert_same(
        &elements(&got),
        &wanted,
        &format!("{bins} bins in {range:?} of {}", T::NAME),
    );
}

#[track_caller]
fn check_edges<T: Element>(x: &[T], edges: &[f64]) {
    let got = upload_vec(x).histogram_edges(edges).expect("a histogram");
    let what = format!("{} edges of {}", edges.len(), T::NAME);
    crate::common::assert_same(&elements(&got), &reference(x, edges), &what);
}

macro_rules! for_all {
    ($($function:ident)*) => { $(for_types!($function: u8 u16 i32 u32 f32 f64);)* };
}

for_all! {
    every_number_of_bins every_length values_at_the_edges special_values runs_of_equal_values unusual_ranges
    explicit_edges edges_that_are_equal_or_infinite channels_of_pictures ranges_of_the_data properties
}

fn every_number_of_bins<T: Element>() {
    let x = random::<T>(3001, 1);
    for bins in [1, 2, 3, 7, 255, 256, 257, 1000, 4096, 65_536, 1 << 20] {
        check(&x, bins, usual_range::<T>());
    }
}

fn every_length<T: Element>() {
    let tile = kernels::tile_len::<T, Uniform, COLUMNS>();
    let longest = random::<T>(99_991, 2);
    for len in crate::common::lengths(tile) {
        check(&longest[..len], 100, usual_range::<T>());
    }
    // By way of each of the two other ways to count.
    for bins in [600, 30_000] {
        check(&longest, bins, usual_range::<T>());
    }
}

/// Every edge, and the elements beside it.
fn values_at_the_edges<T: Element>() {
    let ranges = [
        0.0..=1.0,
        0.0..=255.0,
        0.1..=0.7,
        -3.3..=100.1,
        1e6..=1e6 + 3.0,
        -1e-3..=7e4,
        16_777_216.0..=16_777_300.0,
        0.0..=256.0,
        -7.0..=2041.0,
        0.5..=1000.5,
        0.0..=4_294_967_295.0,
        -2_147_483_648.0..=2_147_483_648.0,
    ];
    // So many that most are counted by whole tiles, and not one by one.
    let len = kernels::tile_len::<T, Uniform, COLUMNS>() + 77;
    for range in ranges {
        for bins in [1, 3, 10, 255, 256, 1000, 70_000] {
            let edges = linspace::<T>(bins, &range);
            let some = edges
                .iter()
                .step_by(edges.len().div_ceil(1200))
                .chain(&edges[bins - 1..]);
            let x: Vec<T> = some
                .map(|&edge| T::of(edge))
                .flat_map(|x| [x.neighbours()[0], x, x.neighbours()[1]])
                .collect();
            if bins <= 1000 {
                check_edges(&x, &edges);
            }
            let repeated: Vec<T> = x.into_iter().cycle().take(len).collect();
            check(&repeated, bins, range.clone());
        }
    }
}

fn special_values<T: Element>() {
    let x = T::SPECIAL.repeat(20);
    for range in [
        -1.0..=1.0,
        0.0..=0.0,
        -0.0..=2.0,
        0.0..=255.0,
        -1e-310..=1e-310,
        -1e300..=1e300,
        0.0..=f64::MAX,
    ] {
        for bins in [1, 4, 7, 300] {
            check(&x, bins, range.clone());
        }
    }
}

/// All equal, sorted, two values in turn, one value after others: in each way to count.
fn runs_of_equal_values<T: Element>() {
    let len = 2 * kernels::tile_len::<T, Uniform, COLUMNS>() + 77;
    let one = vec![T::of(42.0); len];
    let mut sorted: Vec<T> = (0..len).map(|i| T::of((i * 101 / len) as f64)).collect();
    let turns: Vec<T> = (0..len).map(|i| T::of([3.0, 99.0][i % 2])).collect();
    let late: Vec<T> = (0..len)
        .map(|i| T::of(if i < len / 3 { (i % 100) as f64 } else { 7.0 }))
        .collect();
    for bins in [10, 256, 3000, 20_000] {
        for x in [&one, &sorted, &turns, &late] {
            check(x, bins, 0.0..=100.0);
        }
    }
    sorted.reverse();
    check(&sorted, 50, 0.0..=100.0);
    check(&one, 8, 42.0..=50.0);
    check(&one, 8, 30.0..=42.0);
}

/// One point, negative, beyond the type's limits, empty of values of the type, of huge and of subnormal width.
fn unusual_ranges<T: Element>() {
    let x = random::<T>(2000, 3);
    let subnormal = f64::from_bits(5);
    let ranges = [
        7.0..=7.0,
        -100.0..=-1.0,
        -1e30..=1e30,
        -5e9..=5e9,
        1e10..=2e10,
        -2e10..=-1e10,
        0.2..=0.8,
        1e300..=1e300,
        0.0..=f64::MAX,
        f64::MIN / 2.0..=f64::MAX / 2.0,
        f64::from(f32::MIN)..=f64::from(f32::MAX),
        0.0..=subnormal,
        -subnormal..=subnormal,
        1.0..=1.0f64.next_up(),
        0.0..=1e-44,
        0.0..=4_294_967_295.0,
        -2_147_483_648.0..=2_147_483_647.0,
        2_147_483_000.5..=2_147_483_999.5,
    ];
    for range in ranges {
        for bins in [1, 10, 256, 5000] {
            check(&x, bins, range.clone());
        }
    }
}

fn explicit_edges<T: Element>() {
    let x = random::<T>(40_000, 4);
    let mut rng = rng(5);
    for bins in [1, 2, 3, 7, 8, 9, 255, 256, 257, 1000, 20_000] {
        let mut edges: Vec<f64> = (0..=bins).map(|_| rng.random::<f64>() * 300.0 - 120.0).collect();
        edges.sort_by(f64::total_cmp);
        check_edges(&x[..x.len().min(30_000_000 / bins)], &edges);
    }
    // Not numbers of f32, and on both sides of what is.
    check_edges(&x, &[0.1, 0.1f32 as f64, 0.3, 100.0]);
    check_edges(&[T::of(0.1), T::of(1.0)], &[0.1, 0.1f64.next_up(), 1.0]);
}

fn edges_that_are_equal_or_infinite<T: Element>() {
    let mut x = random::<T>(3000, 6);
    x.extend_from_slice(T::SPECIAL);
    let (low, high) = (f64::NEG_INFINITY, f64::INFINITY);
    for edges in [
        &[1.0, 1.0][..],
        &[1.0, 1.0, 1.0],
        &[0.0, 1.0, 1.0, 1.0, 5.0, 5.0],
        &[low, high],
        &[low, low, 0.0, 50.5, high, high],
        &[low, low],
        &[high, high],
        &[-0.0, 0.0, 3.0],
        &[-10.0, -5.0],
        &[5e9, 6e9, 7e9],
        &[-7e9, 0.0, 7e9, 8e9],
        &[0.25, 0.5, 0.75],
    ] {
        check_edges(&x, edges);
    }
}

fn channels_of_pictures<T: Element>() {
    for (channels, bins, pixels) in [
        (1, 256, 1000),
        (2, 5, 70),
        (3, 256, 9000),
        (3, 1, 333),
        (4, 100, 5000),
        (5, 7, 1),
        (7, 3000, 700),
        (16, 16, 1200),
        (17, 2000, 900),
        (300, 6, 130),
    ] {
        let values = random::<T>(channels * pixels, channels as u64);
        let range = usual_range::<T>();
        let edges = linspace::<T>(bins, &range);
        let wanted: Vec<u64> = (0..channels)
            .flat_map(|c| {
                reference(
                    &values.iter().copied().skip(c).step_by(channels).collect::<Vec<_>>(),
                    &edges,
                )
            })
            .collect();
        let picture = upload(&Array3::from_shape_vec((pixels, 1, channels), values).expect("as many values"));
        let got = picture.histogram_channels(bins, range).expect("a histogram");
        assert_eq!(got.shape(), [channels, bins]);
        crate::common::assert_same(&elements(&got), &wanted, &format!("{channels} channels of {}", T::NAME));
    }
}

fn ranges_of_the_data<T: Element>() {
    for x in [&[5.0, 9.0, 7.5, 100.0, 6.0][..], &[3.0], &[0.0; 50], &[]] {
        let x: Vec<T> = x.iter().map(|&x| T::of(x)).collect();
        let wide = || x.iter().map(|x| x.to_f64());
        let range = if x.is_empty() {
            0.0..=1.0
        } else {
            wide().fold(f64::MAX, f64::min)..=wide().fold(f64::MIN, f64::max)
        };
        let on_device = upload_vec(&x);
        assert_eq!(on_device.histogram_range().unwrap(), range);
        let edges = linspace::<T>(6, &range);
        let (counts, got_edges) = on_device.histogram_auto(6).unwrap();
        assert_eq!(got_edges, edges);
        crate::common::assert_same(&elements(&counts), &reference(&x, &edges), "counts");
    }
    // Every element is looked at, at whatever place.
    for len in crate::common::lengths(kernels::tile_len::<T, Uniform, COLUMNS>())
        .into_iter()
        .skip(1)
    {
        let mut x = vec![T::of(50.0); len];
        x[len / 2] = T::of(3.0);
        x[len - 1] = T::of(120.0);
        let least = if len / 2 == len - 1 { 120.0 } else { 3.0 };
        assert_eq!(
            upload_vec(&x).histogram_range().unwrap(),
            least..=120.0,
            "{len} elements"
        );
    }
}

fn properties<T: Element>() {
    let limits = (-300.0..300.0f64, 0.0..600.0f64);
    proptest!(cases(12), |(seed in any::<u64>(), len in 0..3000usize, bins in 1..900usize, (lo, width) in limits)| {
        let x = random::<T>(len, seed);
        let range = lo..=lo + width;
        let counts = elements(&upload_vec(&x).histogram(bins, range.clone()).unwrap());
        let edges = linspace::<T>(bins, &range);
        prop_assert_eq!(&histogram_bin_edges::<T>(bins, range).unwrap(), &edges);
        prop_assert_eq!(&counts, &reference(&x, &edges));
        prop_assert_eq!(&counts, &elements(&upload_vec(&x).histogram_edges(&edges).unwrap()));
        let inside = x.iter().filter(|x| (edges[0]..=edges[bins]).contains(&x.to_f64())).count();
        prop_assert_eq!(counts.iter().sum::<u64>(), inside as u64);
    });
}

/// What `argmin_axis` gives, say; and what has no place, of 32 bits neither.
#[test]
fn values_of_64_bits_are_counted() -> warpsmith::Result<()> {
    let places = array![3u64, 0, 3, 3, 7];
    assert_eq!(
        upload(&places).bincount()?.to_ndarray()?,
        array![1, 0, 0, 3, 0, 0, 0, 1]
    );
    let signed = upload(&places.mapv(|place| place as i64));
    assert_eq!(signed.bincount()?.to_ndarray()?, array![1, 0, 0, 3, 0, 0, 0, 1]);
    let mut counts = upload(&array![9u64, 9, 9]);
    upload(&array![1i64, -1, i64::MIN, 1 << 32, (1 << 32) + 1, 2, 3]).bincount_into(&mut counts)?;
    assert_eq!(counts.to_ndarray()?, array![0, 1, 1]);
    assert_eq!(upload(&Array1::<u64>::zeros(0)).bincount()?.shape(), [0]);
    let message = |result: warpsmith::Result<DeviceArray<u64, _>>| result.unwrap_err().to_string();
    assert_eq!(
        message(upload(&array![3, -7i64, 5]).bincount()),
        "bincount: x: given an element -7, wanted no negative element"
    );
    assert_eq!(
        message(upload(&array![u64::MAX >> 32]).bincount()),
        "bincount: x: given an element 4294967295, wanted elements below 2^32 − 1"
    );
    Ok(())
}

/// With and without a sign, which have the same kernels: at the ends of either type's range, and where the other's are.
#[test]
fn integers_of_32_bits() {
    let around = |centre: u32| (0..7).map(move |i| centre.wrapping_add(i).wrapping_sub(3));
    let bits: Vec<u32> = [0, 70_000, 1 << 31, 0u32.wrapping_sub(70_000)]
        .into_iter()
        .flat_map(around)
        .collect();
    let signed: Vec<i32> = bits.iter().map(|&bits| bits as i32).collect();
    let (least, greatest) = (f64::from(i32::MIN), f64::from(i32::MAX));
    check_edges(&signed, &[least, -69_999.5, -1.0, 0.0, 2.0, greatest]);
    check_edges(&signed, &[-2.5, 0.0, 1.0, 70_000.0]);
    check_edges(&signed, &[f64::NEG_INFINITY, -1.0, 1.0, f64::INFINITY]);
    let unsigned_limit = f64::from(u32::MAX);
    check_edges(&bits, &[0.0, 2.0, 70_000.0, greatest, greatest + 1.0, unsigned_limit]);
    check_edges(&bits, &[1.5, greatest + 2.5, unsigned_limit - 1.0]);
    for bins in [3, 256, 5000, 1 << 20] {
        check(&signed, bins, least..=greatest);
        check(&signed, bins, -70_000.5..=1.25);
        check(&bits, bins, 0.0..=unsigned_limit);
        check(&bits, bins, 1.5..=greatest + 1.5);
    }
}

for_types!(values_are_counted: u8 u16 i32 u32);

fn values_are_counted<T: Element + Bincount>() {
    let top = if T::NAME == "u8" { 255 } else { 20_000 };
    let mut rng = rng(7);
    for greatest in [0, 1, 40, 255, 256, 700, 16_383, 16_384, 19_999] {
        let greatest = greatest.min(top);
        let len = rng.random_range(1..40_000);
        let mut values: Vec<usize> = (0..len).map(|_| rng.random_range(0..=greatest)).collect();
        values[0] = greatest;
        let mut wanted = vec![0u64; greatest + 1];
        values.iter().for_each(|&value| wanted[value] += 1);
        let x = upload_vec(&values.iter().map(|&value| T::of(value as f64)).collect::<Vec<_>>());
        assert_eq!(elements(&x.bincount().unwrap()), wanted);
        for bins in [0, 1, greatest, greatest + 10] {
            let mut counts = upload(&Array1::from_elem(bins, 99u64));
            x.bincount_into(&mut counts).unwrap();
            wanted.resize(bins.max(wanted.len()), 0);
            assert_eq!(elements(&counts), wanted[..bins]);
        }
    }
    assert_eq!(upload_vec::<T>(&[]).bincount().unwrap().shape(), [0]);
    let extremes = upload_vec(&random::<T>(5000, 8));
    let mut counts = upload(&Array1::from_elem(300, 99u64));
    extremes.bincount_into(&mut counts).unwrap();
    let count = |value: usize| {
        random::<T>(5000, 8)
            .iter()
            .filter(|x| x.to_f64() == value as f64)
            .count() as u64
    };
    assert_eq!(elements(&counts), (0..300).map(count).collect::<Vec<_>>());
}

/// The plan of bins of width 1 from 0, in a launch that has so many copies of each counter.
fn bins_of_width_1(bins: u32, copies: u32) -> Plan {
    Plan {
        lo: 0.0,
        width: bins as f64,
        step: 1.0,
        first: 0.0,
        last: bins as f64,
        scale: 1.0,
        scale_f32: 1.0,
        offset: 0.0,
        above: 1.0,
        factor: 0,
        addend: 0,
        shift: 0,
        bins,
        channels: 1,
        counters: bins,
        copies,
    }
}

/// Blocks without an element make the counters of the launch 0 with the others, so that they serve again.
#[test]
fn more_blocks_than_tiles() {
    let x = upload_vec(&[0.5f32, 1.5, 1.0, 2.0, -1.0, f32::NAN]);
    let plan = bins_of_width_1(2, 32);
    let stream = crate::common::device().default_stream();
    let mut counters = DeviceArray::<u32, Ix1>::zeros(stream, kernels::COUNTERS).unwrap();
    let mut counts = upload(&Array1::from(vec![7u64, 8]));
    let config = LaunchConfig {
        dynamic_shared: plan.private_len() * size_of::<u32>(),
        ..LaunchConfig::new(5, kernels::THREADS as u32)
    };
    for _ in 0..3 {
        let args = (&x, plan, &x, &mut counters, &mut counts);
        stream
            .launch::<kernels::histogram<f32, Uniform, COLUMNS>>(&config, args)
            .unwrap();
        assert_eq!(elements(&counts), [1, 3]);
        assert_eq!(elements(&counters), [0, 0]);
    }
}

/// A block that treats more than 64 tiles empties its hash table in between: bins that come first, and others later.
#[test]
fn the_hash_table_is_emptied_and_filled_again() {
    let tile = kernels::tile_len::<f64, Uniform, COLUMNS>();
    let (len, bins) = (66 * tile + 5, 50_000);
    let x: Vec<f64> = (0..len).map(|i| ((i % 3000) + i / (len / 4) * 10_000) as f64).collect();
    let plan = bins_of_width_1(bins, 1);
    let on_device = upload_vec(&x);
    let mut counts = DeviceArray::<u64, Ix1>::zeros(crate::common::device().default_stream(), bins as usize).unwrap();
    let config = LaunchConfig::new(1, kernels::THREADS as u32);
    let stream = crate::common::device().default_stream();
    let mut no_counters = DeviceArray::<u32, Ix1>::zeros(stream, 0).unwrap();
    let args = (&on_device, plan, &on_device, &mut no_counters, &mut counts);
    stream
        .launch::<kernels::histogram<f64, Uniform, CACHE>>(&config, args)
        .unwrap();
    let wanted = reference(&x, &linspace::<f64>(bins as usize, &(0.0..=f64::from(bins))));
    crate::common::assert_same(&elements(&counts), &wanted, "counts");
}

#[test]
fn pictures_without_pixels_or_channels() {
    for shape in [(0, 5, 3), (5, 0, 2)] {
        let counts = upload(&Array3::<u8>::zeros(shape))
            .histogram_channels(4, 0.0..=1.0)
            .unwrap();
        assert_eq!(counts.to_ndarray().unwrap(), Array2::<u64>::zeros((shape.2, 4)));
    }
    let counts = upload(&Array3::<f32>::zeros((5, 5, 0)))
        .histogram_channels(4, 0.0..=1.0)
        .unwrap();
    assert_eq!(counts.shape(), [0, 4]);
}

#[test]
fn outputs_are_overwritten() {
    let x = upload(&Array1::from(vec![0.5f32, 1.5, 1.6]));
    let mut counts = upload(&Array1::from(vec![7u64, 8]));
    x.histogram_into(0.0..=2.0, &mut counts).unwrap();
    assert_eq!(elements(&counts), [1, 2]);
    x.histogram_edges_into(&[1.0, 1.55, 3.0], &mut counts).unwrap();
    assert_eq!(elements(&counts), [1, 1]);
    x.histogram_edges_into(&[5.0, 6.0, 7.0], &mut counts).unwrap();
    assert_eq!(elements(&counts), [0, 0]);
    let mut counts = upload(&Array2::from_elem((1, 2), 9u64));
    let picture = upload(&Array3::from_elem((2, 2, 1), 1.5f32));
    picture.histogram_channels_into(0.0..=2.0, &mut counts).unwrap();
    assert_eq!(elements(&counts), [0, 4]);
}

#[test]
fn numbers_of_bins_and_ranges_that_are_errors() {
    let x = upload(&Array1::from(vec![1.0f32, 2.0]));
    let message = |bins, range: RangeInclusive<f64>| x.histogram(bins, range).unwrap_err().to_string();
    assert_eq!(message(0, 0.0..=1.0), "histogram: bins: given 0, wanted 1 to 1048576");
    assert_eq!(
        message(1_048_577, 0.0..=1.0),
        "histogram: bins: given 1048577, wanted 1 to 1048576"
    );
    assert_eq!(
        message(4, f64::NAN..=1.0),
        "histogram: range: given NaN..=1.0, wanted finite limits"
    );
    assert_eq!(
        message(4, 0.0..=f64::INFINITY),
        "histogram: range: given 0.0..=inf, wanted finite limits"
    );
    let reversed = RangeInclusive::new(2.0, 1.0);
    assert_eq!(
        message(4, reversed),
        "histogram: range: given 2.0..=1.0, wanted a lower limit that is not above the upper one"
    );
    assert!(message(4, f64::MIN..=f64::MAX).ends_with("wanted limits whose distance an f64 can hold"));
    let mut none = upload(&Array1::<u64>::zeros(0));
    let error = x.histogram_into(0.0..=1.0, &mut none).unwrap_err().to_string();
    assert_eq!(error, "histogram: bins: given 0, wanted 1 to 1048576");
    let error = histogram_bin_edges::<f32>(0, 0.0..=1.0).unwrap_err().to_string();
    assert_eq!(error, "histogram_bin_edges: bins: given 0, wanted 1 to 1048576");
}

#[test]
fn edges_that_are_errors_and_leave_the_output_as_it_is() {
    let x = upload(&Array1::from(vec![1u8, 2]));
    let message = |edges: &[f64]| x.histogram_edges(edges).unwrap_err().to_string();
    assert_eq!(
        message(&[1.0]),
        "histogram_edges: edges: given 1, wanted 2 to 1048577 edges"
    );
    assert_eq!(
        message(&[1.0, f64::NAN]),
        "histogram_edges: edges: given NaN as edge 1, wanted numbers"
    );
    assert_eq!(
        message(&[1.0, 3.0, 2.0]),
        "histogram_edges: edges: given 3.0 as edge 1 and 2.0 as edge 2, wanted edges that never decrease"
    );
    let mut counts = upload(&Array1::from(vec![7u64, 8, 9]));
    let error = x
        .histogram_edges_into(&[1.0, 2.0], &mut counts)
        .unwrap_err()
        .to_string();
    assert_eq!(error, "histogram_edges: given 2 edges and shape [3], wanted shape [1]");
    assert_eq!(elements(&counts), [7, 8, 9]);
}

#[test]
fn data_without_a_range_are_an_error() {
    for (x, given) in [
        (vec![1.0f32, f32::INFINITY], "elements from 1.0 to inf"),
        (vec![f32::NAN, 1.0], "elements from NaN to NaN"),
        (vec![1.0, -f32::NAN], "elements from NaN to NaN"),
    ] {
        let error = upload_vec(&x).histogram_auto(4).unwrap_err().to_string();
        assert_eq!(
            error,
            format!("histogram_range: x: given {given}, wanted finite elements, or a range")
        );
    }
    let error = upload_vec(&[3, -7, 5]).bincount().unwrap_err().to_string();
    assert_eq!(error, "bincount: x: given an element -7, wanted no negative element");
}

#[test]
fn pictures_and_outputs_that_do_not_fit() {
    let picture = upload(&Array3::<u8>::zeros((2, 3, 4)));
    let mut counts = upload(&Array2::from_elem((3, 5), 9u64));
    let error = picture
        .histogram_channels_into(0.0..=1.0, &mut counts)
        .unwrap_err()
        .to_string();
    assert_eq!(
        error,
        "histogram_channels: given shape [2, 3, 4] into [3, 5], wanted rows × columns × channels into channels × bins"
    );
    assert_eq!(elements(&counts), [9; 15]);
    let error = picture.histogram_channels(0, 0.0..=1.0).unwrap_err().to_string();
    assert_eq!(error, "histogram_channels: bins: given 0, wanted 1 to 1048576");
    let many = upload(&Array3::<u8>::zeros((1, 1, 4000)));
    let error = many.histogram_channels(1 << 20, 0.0..=1.0).unwrap_err().to_string();
    let wanted = "histogram_channels: channels × bins: given 4000 × 1048576, wanted at most 2147483648";
    assert_eq!(error, wanted);
}

#[test]
fn an_output_of_another_device_is_an_error() {
    let other = Device::simulator();
    let mut counts = DeviceArray::from_ndarray(other.default_stream(), &Array1::from_elem(3, 9u64)).unwrap();
    let x = upload(&Array1::from(vec![1i32, 2]));
    let errors = [
        x.histogram_into(0.0..=1.0, &mut counts).unwrap_err(),
        x.histogram_edges_into(&[0.0, 1.0, 2.0, 3.0], &mut counts).unwrap_err(),
        x.bincount_into(&mut counts).unwrap_err(),
    ];
    for error in errors {
        assert!(matches!(error, warpsmith::Error::DifferentDevices { .. }), "{error}");
    }
    assert_eq!(elements(&counts), [9, 9, 9]);
}
