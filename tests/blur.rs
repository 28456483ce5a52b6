// SPDX-License-Identifier: MIT OR Apache-2.0
//! Box and Gaussian blurs: integers and the Gaussian to the last bit, sums of floats within the bound that the
//! documentation states.

use std::fmt::Debug;

use crate::common::{Number, assert_same, cases, rng, upload};
use ndarray::{Array2, Array3, Axis, Dimension, Ix2, array, s};
use proptest::prelude::*;
use test_reference::blur::{Outside, Pass, pass_f32, pass_f64};
use warpsmith::DeviceArrayRef;
use warpsmith::ops::{Border, Pixel};

/// Rows, columns, and radii. Less than a warp, on both sides of it, and more than a strip (256 columns, 32 rows).
const SIZES: [(usize, usize, &[usize]); 9] = [
    (1, 1, &[0, 1]),
    (1, 300, &[0, 1]),
    (300, 1, &[0, 1]),
    (2, 3, &[0, 1, 2]),
    (31, 33, &[0, 2]),
    (32, 32, &[7]),
    (33, 31, &[1, 7]),
    (9, 257, &[1, 2, 9]),
    (67, 20, &[2, 20]),
];

/// What the tests want of a type of pixels.
trait TestPixel: Pixel + Number + Debug {
    /// A constant for beyond the edges.
    const BEYOND: Self;
    const GREATEST: Self;

    /// A number of moderate size, with all bits of it random.
    fn noise(rng: &mut test_reference::random::Random) -> Self;
    fn wide(self) -> f64;
    /// A real number as the last pass of the Gaussian rounds it.
    fn rounded(x: f32) -> Self;
    /// Half the distance between two numbers, if they are the integers.
    const HALF: f64;
}

macro_rules! test_integers {
    ($($type:ident: $beyond:literal;)*) => {$(
        impl TestPixel for $type {
            const BEYOND: Self = $beyond;
            const GREATEST: Self = $type::MAX;
            const HALF: f64 = 0.5;

            fn noise(rng: &mut test_reference::random::Random) -> Self {
                rng.random()
            }

            fn wide(self) -> f64 {
                f64::from(self)
            }

            fn rounded(x: f32) -> Self {
                // Exact: an f32 and a half have few bits in f64.
                (f64::from(x) + 0.5).floor() as Self
            }
        }
    )*};
}

test_integers! { u8: 201; u16: 40_123; }

impl TestPixel for f32 {
    const BEYOND: Self = -2.75;
    const GREATEST: Self = f32::MAX;
    const HALF: f64 = 0.0;

    fn noise(rng: &mut test_reference::random::Random) -> Self {
        (rng.random::<f32>() - 0.25) * 1000.0
    }

    fn wide(self) -> f64 {
        f64::from(self)
    }

    fn rounded(x: f32) -> Self {
        x
    }
}

fn noise<T: TestPixel>(rows: usize, columns: usize, channels: usize, seed: u64) -> Array3<T> {
    let mut rng = rng(seed);
    Array3::from_shape_simple_fn((rows, columns, channels), || T::noise(&mut rng))
}

fn borders<T: TestPixel>() -> [Border<T>; 5] {
    [
        Border::Mean,
        Border::Clamp,
        Border::Reflect,
        Border::Wrap,
        Border::Constant(T::BEYOND),
    ]
}

/// The position that stands for position `i` of `n`; by the definition of each border, for every `i`.
fn source<T>(border: Border<T>, i: isize, n: usize) -> Option<usize> {
    let n = n as isize;
    let position = match border {
        Border::Clamp => i.clamp(0, n - 1),
        Border::Reflect => {
            let i = i.rem_euclid(2 * n);
            i.min(2 * n - 1 - i)
        }
        Border::Wrap => i.rem_euclid(n),
        Border::Mean | Border::Constant(_) if (0..n).contains(&i) => i,
        Border::Mean | Border::Constant(_) => return None,
    };
    Some(position as usize)
}

/// The positions of the window around `i`.
fn window<T: Copy>(border: Border<T>, i: usize, radius: usize, n: usize) -> Vec<Option<usize>> {
    let around = i as isize - radius as isize..=(i + radius) as isize;
    around.map(|i| source(border, i, n)).collect()
}

/// Of each window the sum, and of how many pixels that is: none that are missing. Along rows, then of these along columns.
fn sums<T: TestPixel>(picture: &Array3<T>, radius: usize, border: Border<T>) -> Array3<(f64, usize)> {
    let mut sums = picture.mapv(|x| (x.wide(), 1));
    for (axis, pixels) in [(1, 1), (0, 2 * radius + 1)] {
        let n = sums.shape()[axis];
        let windows: Vec<_> = (0..n).map(|i| window(border, i, radius, n)).collect();
        let beyond = match border {
            Border::Constant(constant) => (pixels as f64 * constant.wide(), pixels),
            _ => (0.0, 0),
        };
        for mut lane in sums.lanes_mut(Axis(axis)) {
            let values = lane.to_vec();
            for (sum, window) in lane.iter_mut().zip(&windows) {
                *sum = window.iter().fold((0.0, 0), |(sum, count), position| {
                    let (more, pixels) = position.map_or(beyond, |position| values[position]);
                    (sum + more, count + pixels)
                });
            }
        }
    }
    sums
}

/// Each element replaced by `f`, but for alpha.
fn map<T: TestPixel>(picture: &Array3<T>, f: impl Fn((usize, usize, usize)) -> T) -> Array3<T> {
    Array3::from_shape_fn(picture.dim(), |at| if at.2 == 3 { picture[at] } else { f(at) })
}

/// The box blur into an existing array; of small pictures also that the other form gives the same.
fn box_blur<T: TestPixel>(picture: &Array3<T>, radius: usize, border: Border<T>) -> Array3<T> {
    let on_device = upload(picture);
    let mut out = upload(&Array3::from_elem(picture.dim(), T::GREATEST));
    on_device.box_blur_into(radius, border, &mut out).unwrap();
    let got = out.to_ndarray().unwrap();
    if picture.len() < 1000 {
        let allocated = on_device.box_blur(radius, border).unwrap().to_ndarray().unwrap();
        assert_same(allocated.as_slice().unwrap(), got.as_slice().unwrap(), "box_blur");
    }
    got
}

fn same<T: TestPixel>(got: &Array3<T>, wanted: &Array3<T>, what: &str) {
    assert_eq!(got.dim(), wanted.dim());
    assert_same(got.as_slice().unwrap(), wanted.as_slice().unwrap(), what);
}

/// Integers (and the halves of f64 that those are, up to 2^53) to the last bit.
fn check_box<T: TestPixel>(picture: &Array3<T>, radius: usize, border: Border<T>) {
    let sums = sums(picture, radius, border);
    let wanted = map(picture, |at| {
        let (sum, count) = sums[at];
        if T::HALF > 0.0 {
            let (sum, count) = (sum as u64, count as u64);
            // Below 2^16, so exact on the way through f32.
            T::rounded(((sum + count / 2) / count) as f32)
        } else {
            T::rounded((sum * (1.0 / count as f64)) as f32)
        }
    });
    let what = format!("box_blur({radius}, {border:?}) of {:?}", picture.dim());
    same(&box_blur(picture, radius, border), &wanted, &what);
}

fn boxes_of_integers<T: TestPixel>() {
    for (seed, (rows, columns, radii)) in (1..).zip(SIZES) {
        for channels in [1, 3, 4] {
            let picture = noise::<T>(rows, columns, channels, seed);
            for &radius in radii {
                // Everything for gray; of the others all borders together.
                for (i, border) in borders().into_iter().enumerate() {
                    if channels == 1 || rows * columns < 50 || (i + radius) % 5 == seed as usize % 5 {
                        check_box(&picture, radius, border);
                    }
                }
            }
        }
    }
}

for_types!(boxes_of_integers: u8 u16);

/// Integers, as floats: their sums are exact, so the mean is rounded once by a product and once to f32.
#[test]
fn boxes_of_floats_that_are_integers_are_exact() {
    for (seed, (rows, columns, radii)) in (1..).zip(SIZES) {
        for channels in [1, 3, 4] {
            let picture = noise::<u16>(rows, columns, channels, seed).mapv(|x| f32::from(x) - 30_000.0);
            for (border, &radius) in borders().into_iter().cycle().skip(seed as usize).zip(radii) {
                check_box(&picture, radius, border);
            }
        }
    }
}

/// The bound of the documentation. Derivation, with u = 2^−53 and sums of |x| ≤ M over at most w pixels, to first
/// order:
///
/// * Along a row: the strip's first sum, of 2 radius numbers in chains of at most w / 7 and a scan, is wrong by
///   (w / 7 + 6) u w M. For each step of 32 elements a scan of differences adds at most 6 u times the sum of their
///   magnitudes, 12 u a M for the strip, and adding the last window's sum u w M, in at most a / 8 + 1 steps. Together
///   less than (w + 13 a) u w M where w divides it again: w / 7 + a / 8 + 7 + 12 a / w ≤ w + 13 a for a ≥ 256.
/// * Along a column: 2 radius + 2 b additions of sums of at most (w + 1) w M, 2 (w + 2 b) u w² M after all.
///
/// So (3 w + 13 a + 4 b) u M for a window of w² pixels. Where pixels are missing, the sums that the error was made with
/// can have up to twice as many rows and twice as many columns as the window itself: four times that, which also has
/// room for the reciprocal and the product, 2 u |mean|. The conversion to f32 adds 2^−24 |mean|.
fn bound(radius: usize, largest: f64, mean: f64) -> f64 {
    let w = 2 * radius + 1;
    let terms = (3 * w + 13 * w.max(256) + 4 * w.max(32)) as f64;
    2f64.powi(-24) * mean.abs() + 2f64.powi(-51) * terms * largest + 2f64.powi(-150)
}

#[test]
fn boxes_of_floats_are_within_the_bound() {
    for (seed, (rows, columns, radii)) in (1..).zip(SIZES) {
        for channels in [1, 3, 4] {
            let mut picture = noise::<f32>(rows, columns, channels, seed);
            // Something large that leaves the sums again.
            picture[[rows / 2, columns / 2, 0]] = 1e9;
            let largest = picture.iter().fold(0.0, |largest: f64, x| largest.max(x.wide().abs()));
            for (border, &radius) in borders().into_iter().cycle().skip(seed as usize).zip(radii) {
                let got = box_blur(&picture, radius, border);
                let sums = sums(&picture, radius, border);
                for (at, &got) in got.indexed_iter() {
                    if at.2 == 3 {
                        assert!(got.same(picture[at]), "alpha at {at:?}");
                        continue;
                    }
                    let (sum, count) = sums[at];
                    let mean = sum / count as f64;
                    // The reference's own sum is wrong by 2^−53 for each value, which the bound has room for.
                    let (error, bound) = ((got.wide() - mean).abs(), bound(radius, largest, mean));
                    assert!(
                        error <= bound,
                        "{border:?}, {radius}, {at:?}: {got} for {mean}, {error:e} > {bound:e}"
                    );
                }
            }
        }
    }
}

/// NaN and infinities: where a window holds them, and nowhere else, though the sums run on.
#[test]
fn what_is_not_finite_stays_in_its_windows() {
    let mut picture = noise::<u8>(70, 300, 3, 5).mapv(f32::from);
    for (at, x) in [
        ([3, 4, 0], f32::NAN),
        ([40, 100, 0], f32::INFINITY),
        ([42, 103, 0], f32::INFINITY),
        ([40, 110, 0], f32::NEG_INFINITY),
        ([69, 299, 1], f32::NEG_INFINITY),
        ([0, 0, 2], -0.0),
    ] {
        picture[at] = x;
    }
    for (radius, border) in [(0, Border::Clamp), (2, Border::Mean), (6, Border::Wrap)] {
        let got = box_blur(&picture, radius, border);
        let sums = sums(&picture, radius, border);
        let mut not_finite = 0;
        for (at, &got) in got.indexed_iter() {
            let (sum, count) = sums[at];
            let wanted = (sum * (1.0 / count as f64)) as f32;
            not_finite += usize::from(!wanted.is_finite());
            assert!(
                got.same(wanted + 0.0),
                "radius {radius}, {at:?}: {got}, wanted {wanted}"
            );
        }
        assert!((5..70 * 300).contains(&not_finite));
    }
}

/// Strips longer than 256 columns, by sums of a table, since the definition would take a minute.
#[test]
fn a_radius_beyond_every_strip() {
    let (rows, columns, radius) = (131, 150, 130);
    let picture = noise::<u16>(rows, columns, 1, 9);
    let count = |i: isize, n: usize, border: Border<u16>| {
        let mut counts = vec![0u64; n];
        for i in i - radius..=i + radius {
            counts[source(border, i, n).unwrap()] += 1;
        }
        counts
    };
    for border in [Border::Clamp, Border::Reflect, Border::Wrap] {
        let (across, down): (Vec<_>, Vec<_>) = (
            (0..columns as isize).map(|x| count(x, columns, border)).collect(),
            (0..rows as isize).map(|y| count(y, rows, border)).collect(),
        );
        let row_sum = |y: usize, x: usize| (0..columns).map(|i| across[x][i] * u64::from(picture[[y, i, 0]])).sum();
        let row_sums = ndarray::Array2::<u64>::from_shape_fn((rows, columns), |(y, x)| row_sum(y, x));
        let area = ((2 * radius + 1) * (2 * radius + 1)) as u64;
        let wanted = map(&picture, |(y, x, _)| {
            let sum: u64 = (0..rows).map(|i| down[y][i] * row_sums[[i, x]]).sum();
            ((sum + area / 2) / area) as u16
        });
        same(&box_blur(&picture, radius as usize, border), &wanted, "a large radius");
    }
}

fn boxes_of_the_greatest_number<T: TestPixel>() {
    for border in borders::<T>() {
        let picture = Array3::from_elem((35, 40, 4), T::GREATEST);
        let border = if let Border::Constant(_) = border {
            Border::Constant(T::GREATEST)
        } else {
            border
        };
        same(&box_blur(&picture, 33, border), &picture, "all greatest");
    }
}

for_types!(boxes_of_the_greatest_number: u8 u16 f32);

#[test]
fn the_3x3_box_is_the_box_of_radius_1() {
    for (seed, (rows, columns, _)) in (1..).zip(SIZES) {
        for channels in [1, 3, 4] {
            let picture = noise::<u8>(rows, columns, channels, seed);
            let special = upload(&picture).box_blur_3x3().unwrap().to_ndarray().unwrap();
            same(&box_blur(&picture, 1, Border::Mean), &special, "box_blur_3x3");
        }
    }
}

/// The weights in f64.
fn weights(sigma: f64) -> Vec<f64> {
    let radius = (4.0 * sigma + 0.5) as i32;
    let exact = (-radius..=radius).map(|k| {
        let deviations = f64::from(k) / sigma;
        (-0.5 * deviations * deviations).exp()
    });
    let sum: f64 = exact.clone().sum();
    exact.map(|weight| weight / sum).collect()
}

/// One pass along an axis, by the arithmetic of the element type. Alpha is kept.
fn pass<F: Copy + Default>(x: &Array3<F>, axis: usize, weights: &[F], border: Border<F>, of: Pass<F>) -> Array3<F> {
    let n = x.shape()[axis];
    let windows: Vec<_> = (0..n).map(|i| window(border, i, weights.len() / 2, n)).collect();
    let outside = match border {
        Border::Mean => Outside::Ignored,
        Border::Constant(constant) => Outside::Is(constant),
        _ => Outside::Is(F::default()),
    };
    let shape = x.dim();
    let x: Vec<F> = x.iter().copied().collect();
    let sums = of(&x, shape.into(), axis, weights, &windows, outside);
    Array3::from_shape_vec(shape, sums).expect("as many elements")
}

fn border_of<T: TestPixel, F>(border: Border<T>, convert: impl Fn(T) -> F) -> Border<F> {
    match border {
        Border::Mean => Border::Mean,
        Border::Clamp => Border::Clamp,
        Border::Reflect => Border::Reflect,
        Border::Wrap => Border::Wrap,
        Border::Constant(constant) => Border::Constant(convert(constant)),
    }
}

fn gaussian<T: TestPixel>(picture: &Array3<T>, sigma: f64, border: Border<T>) -> Array3<T> {
    let on_device = upload(picture);
    let mut out = upload(&Array3::from_elem(picture.dim(), T::GREATEST));
    on_device.gaussian_blur_into(sigma, border, &mut out).unwrap();
    let got = out.to_ndarray().unwrap();
    if picture.len() < 1000 {
        let allocated = on_device.gaussian_blur(sigma, border).unwrap().to_ndarray().unwrap();
        assert_same(allocated.as_slice().unwrap(), got.as_slice().unwrap(), "gaussian_blur");
    }
    got
}

/// The bits of the documentation's formula.
fn gaussian_bits<T: TestPixel>(picture: &Array3<T>, sigma: f64, border: Border<T>) -> Array3<T> {
    let narrow: Vec<f32> = weights(sigma).into_iter().map(|weight| weight as f32).collect();
    // Every pixel is an f32.
    let mut x = picture.mapv(|x| x.wide() as f32);
    let border = border_of(border, |x| x.wide() as f32);
    for axis in [1, 0] {
        x = pass(&x, axis, &narrow, border, pass_f32);
    }
    x.mapv(T::rounded)
}

/// The distance to the weighted mean in f64, within the bound of the documentation.
///
/// With t = 2 r + 1 weights and u = 2^−24, to first order: a weight is rounded once and a sum t times, so a pass gives
/// (t + 1) u M, and both 2 (t + 1) u M = (4 r + 4) u M. Renormalising divides once by a sum of existing weights, wrong
/// by (t + 1) u of itself, so a pass is wrong by (2 t + 3) u M: both by (8 r + 10) u M, less than twice (4 r + 6) u M.
/// A term for products below the least normal number is left out, since M here is not so small.
fn check_gaussian_bound<T: TestPixel>(picture: &Array3<T>, got: &Array3<T>, sigma: f64, border: Border<T>) {
    let exact = weights(sigma);
    let mut x = picture.mapv(T::wide);
    let wide = border_of(border, T::wide);
    for axis in [1, 0] {
        x = pass(&x, axis, &exact, wide, pass_f64);
    }
    let beyond = if let Border::Constant(constant) = wide {
        constant
    } else {
        0.0
    };
    let largest = picture
        .iter()
        .fold(beyond.abs(), |largest, x| largest.max(x.wide().abs()));
    let factor = if border == Border::Mean { 2.0 } else { 1.0 };
    let r = (exact.len() / 2) as f64;
    // A hundredth for what is not of first order, and for the reference.
    let bound = 1.01 * factor * (4.0 * r + 6.0) * 2f64.powi(-24) * largest + T::HALF;
    for (at, &wanted) in x.indexed_iter() {
        let error = (got[at].wide() - wanted).abs();
        assert!(error <= bound, "{border:?}, {sigma}, {at:?}: {error:e} > {bound:e}");
    }
}

fn check_gaussian<T: TestPixel>(picture: &Array3<T>, sigma: f64, border: Border<T>) {
    let got = gaussian(picture, sigma, border);
    let what = format!("gaussian_blur({sigma}, {border:?}) of {:?}", picture.dim());
    same(&got, &gaussian_bits(picture, sigma, border), &what);
    check_gaussian_bound(picture, &got, sigma, border);
}

/// Windows of 1, 3, 5, 17 and 65 weights, more than a thread's outputs and more than go into shared memory at once;
/// pictures of more than two tiles of a block (672, 224 and 168 pixels of 1, 3 and 4 channels), and of more rows than
/// blocks.
fn gaussians<T: TestPixel>() {
    let sizes: [(usize, usize, &[f64]); 8] = [
        (1, 1, &[0.1, 0.25]),
        (1, 321, &[0.3]),
        (300, 1, &[0.3]),
        (2, 3, &[0.5]),
        (8, 1361, &[2.0]),
        (33, 31, &[0.6, 1.7, 7.7]),
        (32, 32, &[8.0]),
        (34, 60, &[8.1]),
    ];
    for (seed, (rows, columns, sigmas)) in (1..).zip(sizes) {
        for channels in [1, 3, 4] {
            let picture = noise::<T>(rows, columns, channels, seed);
            for &sigma in sigmas {
                for (i, border) in borders().into_iter().enumerate() {
                    if rows * columns < 1100 && channels == 1 || (i + channels) % 5 == seed as usize % 5 {
                        check_gaussian(&picture, sigma, border);
                    }
                }
            }
        }
    }
}

for_types!(gaussians: u8 u16 f32);

#[test]
fn gaussians_of_the_greatest_number_stay_in_range() {
    for border in [Border::Mean, Border::Clamp, Border::Constant(u8::MAX)] {
        let picture = Array3::from_elem((20, 30, 3), u8::MAX);
        same(&gaussian(&picture, 3.0, border), &picture, "all 255");
    }
}

/// A NaN or an infinity is in its windows and nowhere else; alpha is kept to the bit, whatever it is.
#[test]
fn gaussians_of_what_is_not_finite() {
    let mut picture = noise::<f32>(40, 45, 4, 3);
    picture[[10, 12, 0]] = f32::NAN;
    picture[[20, 30, 1]] = f32::NEG_INFINITY;
    picture[[0, 0, 3]] = f32::from_bits(0xffc0_1234);
    picture[[0, 1, 3]] = -0.0;
    for border in borders() {
        let got = gaussian(&picture, 1.0, border);
        same(&got, &gaussian_bits(&picture, 1.0, border), "not finite");
        let boxed = box_blur(&picture, 2, border);
        for (at, &got) in got.indexed_iter() {
            let near = |y: usize, x: usize| at.0.abs_diff(y) <= 4 && at.1.abs_diff(x) <= 4;
            match at.2 {
                0 => assert_eq!(got.is_nan(), near(10, 12)),
                1 => assert_eq!(got == f32::NEG_INFINITY, near(20, 30)),
                2 => assert!(got.is_finite()),
                _ => {
                    assert_eq!(got.to_bits(), picture[at].to_bits());
                    assert_eq!(boxed[at].to_bits(), picture[at].to_bits());
                }
            }
        }
    }
}

#[test]
fn a_tiny_sigma_is_a_copy() {
    for sigma in [f64::MIN_POSITIVE, 1e-300, 0.124] {
        let picture = noise::<u16>(20, 30, 3, 1);
        same(&gaussian(&picture, sigma, Border::Reflect), &picture, "a copy");
    }
}

#[test]
fn pictures_of_random_sizes() {
    let strategy = (1..40usize, 1..70usize, 0..3usize, 0..5usize, 0.0..1.0f64, any::<u64>());
    proptest!(cases(24), |((rows, columns, channels, border, size, seed) in strategy)| {
        let channels = [1, 3, 4][channels];
        let least = rows.min(columns);
        let radius = (size * (least.min(10) + 1) as f64) as usize;
        check_box(&noise::<u16>(rows, columns, channels, seed), radius, borders()[border]);
        let sigma = 0.01 + size * (least as f64 + 0.4 - 0.05) / 4.0;
        check_gaussian(&noise::<u8>(rows, columns, channels, seed), sigma, borders()[border]);
    });
}

#[test]
fn pictures_without_pixels() {
    for (rows, columns) in [(0, 5), (5, 0), (0, 0)] {
        let picture = upload(&Array3::<u16>::zeros((rows, columns, 3)));
        assert_eq!(picture.box_blur(9, Border::Wrap).unwrap().shape(), [rows, columns, 3]);
        assert_eq!(
            picture.gaussian_blur(1e300, Border::Mean).unwrap().shape(),
            [rows, columns, 3]
        );
    }
}

/// The errors' texts, and that the output stays as it is.
#[test]
fn what_is_impossible_is_an_error() {
    let picture = upload(&noise::<f32>(4, 6, 3, 1));
    let kept = Array3::from_elem((4, 6, 3), 99.0);
    let mut out = upload(&kept);
    let most = "wanted a radius of at most 4, for a picture of 4 rows and 6 columns";
    let mut check_box = |radius, border, wanted: &str| {
        let error = picture.box_blur_into(radius, border, &mut out).unwrap_err().to_string();
        assert_eq!(error, wanted);
        assert_eq!(picture.box_blur(radius, border).unwrap_err().to_string(), wanted);
    };
    check_box(5, Border::Mean, &format!("box_blur: radius: given 5, {most}"));
    check_box(
        usize::MAX,
        Border::Wrap,
        &format!("box_blur: radius: given {}, {most}", usize::MAX),
    );
    for (constant, name) in [(f32::NAN, "NaN"), (f32::INFINITY, "inf"), (f32::NEG_INFINITY, "-inf")] {
        let wanted = format!("box_blur: border: given Constant({name}), wanted a finite constant");
        check_box(1, Border::Constant(constant), &wanted);
    }
    let mut check_gaussian = |sigma, border, wanted: &str| {
        let error = picture
            .gaussian_blur_into(sigma, border, &mut out)
            .unwrap_err()
            .to_string();
        assert_eq!(error, wanted);
        assert_eq!(picture.gaussian_blur(sigma, border).unwrap_err().to_string(), wanted);
    };
    for (sigma, name) in [
        (0.0, "0"),
        (-0.0, "-0"),
        (-1.5, "-1.5"),
        (f64::NAN, "NaN"),
        (f64::INFINITY, "inf"),
    ] {
        let wanted = format!("gaussian_blur: sigma: given {name}, wanted a finite number above 0");
        check_gaussian(sigma, Border::Clamp, &wanted);
    }
    let given = "given 1.125, whose window has a radius of 5";
    check_gaussian(1.125, Border::Mean, &format!("gaussian_blur: sigma: {given}, {most}"));
    let wanted = "gaussian_blur: border: given Constant(NaN), wanted a finite constant";
    check_gaussian(1.0, Border::Constant(f32::NAN), wanted);
    assert_eq!(out.to_ndarray().unwrap(), kept);
}

#[test]
fn other_shapes_are_an_error() {
    for channels in [0, 2, 5] {
        let picture = upload(&Array3::<u16>::zeros((2, 3, channels)));
        let text = format!("given shape [2, 3, {channels}], wanted rows × columns × channels, with 1, 3 or 4 channels");
        let error = picture.box_blur(1, Border::Mean).unwrap_err().to_string();
        assert_eq!(error, format!("box_blur: {text}"));
        let error = picture.gaussian_blur(0.3, Border::Mean).unwrap_err().to_string();
        assert_eq!(error, format!("gaussian_blur: {text}"));
    }
    let picture = upload(&noise::<u16>(4, 6, 3, 1));
    let kept = Array3::from_elem((4, 6, 4), 99u16);
    let mut out = upload(&kept);
    let text = "given shapes [4, 6, 3] and [4, 6, 4], wanted equal shapes";
    let error = picture
        .box_blur_into(1, Border::Mean, &mut out)
        .unwrap_err()
        .to_string();
    assert_eq!(error, format!("box_blur: {text}"));
    let error = picture
        .gaussian_blur_into(1.0, Border::Mean, &mut out)
        .unwrap_err()
        .to_string();
    assert_eq!(error, format!("gaussian_blur: {text}"));
    assert_eq!(out.to_ndarray().unwrap(), kept);
}

/// A gray picture has no axis for its channel, or one of length 1: both give the same, however they lie.
#[test]
fn gray_pictures_need_no_axis_for_their_channel() {
    fn same<T: TestPixel>(gray: &DeviceArrayRef<T, Ix2>, what: &str) {
        let weights = array![[0.25f32, -1.5], [3.0, 0.5], [-0.125, 1.0]];
        let picture = gray.insert_axis(Axis(2)).unwrap();
        for border in borders::<T>() {
            let wanted = picture.box_blur(2, border).unwrap();
            let mut boxes = wanted.to_ndarray().unwrap();
            assert_eq!(
                gray.box_blur(2, border)
                    .unwrap()
                    .to_ndarray()
                    .unwrap()
                    .insert_axis(Axis(2)),
                boxes,
                "{what}"
            );
            boxes.swap_axes(0, 1);
            // Into a view whose lines are the array's columns, with gaps.
            let (rows, columns) = gray.raw_dim().into_pattern();
            let mut out = upload(&Array2::from_elem((columns, 2 * rows), T::BEYOND));
            let mut lines = out.slice_mut(s![.., ..;2]).unwrap().reversed_axes();
            gray.box_blur_into(2, border, &mut lines).unwrap();
            let out = out.to_ndarray().unwrap();
            assert_eq!(out.slice(s![.., ..;2]), boxes.index_axis(Axis(2), 0), "{what}");
            assert!(out.slice(s![.., 1..;2]).iter().all(|x| *x == T::BEYOND), "{what}");
            let wanted = picture.gaussian_blur(0.4, border).unwrap().to_ndarray().unwrap();
            let got = gray.gaussian_blur(0.4, border).unwrap().to_ndarray().unwrap();
            assert_eq!(got.insert_axis(Axis(2)), wanted, "{what}");
            if !matches!(border, Border::Mean) {
                let wanted = picture.filter(&weights, border).unwrap().to_ndarray().unwrap();
                let got = gray.filter(&weights, border).unwrap().to_ndarray().unwrap();
                assert_eq!(got.insert_axis(Axis(2)), wanted, "{what}");
            }
        }
    }
    fn of_type<T: TestPixel>() {
        let gray = upload(&noise::<T>(9, 14, 1, 5).index_axis_move(Axis(2), 0));
        same(&gray, "an array");
        same(&gray.t(), "transposed");
        same(&gray.slice(s![..;-1, 1..;3]).unwrap(), "backwards, with gaps");
    }
    of_type::<u8>();
    of_type::<u16>();
    of_type::<f32>();
    let color = upload(&noise::<u8>(9, 14, 3, 6));
    let gray = color.grayscale().unwrap();
    let wanted = gray.insert_axis(Axis(2)).unwrap().box_blur_3x3().unwrap();
    let got = gray.box_blur_3x3().unwrap().to_ndarray().unwrap();
    assert_eq!(got.insert_axis(Axis(2)), wanted.to_ndarray().unwrap());
}

#[test]
fn gray_pictures_have_the_errors_of_their_shape() {
    let picture = upload(&Array2::<u8>::zeros((3, 5)));
    let error = picture.box_blur(4, Border::Clamp).unwrap_err().to_string();
    let most = "wanted a radius of at most 3, for a picture of 3 rows and 5 columns";
    assert_eq!(error, format!("box_blur: radius: given 4, {most}"));
    let mut out = upload(&Array2::<u8>::zeros((5, 3)));
    let error = picture
        .gaussian_blur_into(0.5, Border::Clamp, &mut out)
        .unwrap_err()
        .to_string();
    assert_eq!(
        error,
        "gaussian_blur: given shapes [3, 5] and [5, 3], wanted equal shapes"
    );
    for shape in [(0, 5), (5, 0), (0, 0)] {
        let empty = upload(&Array2::<u8>::zeros(shape));
        let shape = [shape.0, shape.1];
        assert_eq!(empty.box_blur(1, Border::Mean).unwrap().shape(), shape);
        assert_eq!(empty.box_blur_3x3().unwrap().shape(), shape);
        assert_eq!(empty.gaussian_blur(1.0, Border::Clamp).unwrap().shape(), shape);
        assert_eq!(empty.filter(&array![[1.0f32]], Border::Clamp).unwrap().shape(), shape);
    }
}
