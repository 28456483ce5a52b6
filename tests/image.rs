// SPDX-License-Identifier: MIT OR Apache-2.0
//! Grayscale and the 3 × 3 box blur, to the last bit, on noise of awkward sizes and on photographs.

use crate::common::{Number, assert_same, cases, random, rng, upload};
use ndarray::{Array2, Array3, ArrayView3, s};
use proptest::prelude::*;
use test_reference::blur::means_3x3;
use warpsmith::DeviceArray;
use warpsmith::ops::{Pixel, Weights};

const ASTRONAUT: &[u8] = include_bytes!("../cli/data/astronaut.png");
const CAMERA: &[u8] = include_bytes!("data/camera.png");

/// Rows and columns: less than a block, on both sides of its 32 × 8 threads, and several of them.
const SIZES: [(usize, usize); 9] = [
    (1, 1),
    (1, 300),
    (300, 1),
    (2, 2),
    (8, 32),
    (9, 33),
    (33, 17),
    (100, 65),
    (7, 31),
];

fn noise(rows: usize, columns: usize, channels: usize, seed: u64) -> Array3<u8> {
    let mut rng = rng(seed);
    Array3::from_shape_simple_fn((rows, columns, channels), || rng.random())
}

fn photograph(png: &[u8]) -> Array3<u8> {
    let decoded = image::load_from_memory(png).expect("the test picture is a PNG");
    let (rows, columns) = (decoded.height() as usize, decoded.width() as usize);
    let channels = usize::from(decoded.color().channel_count());
    Array3::from_shape_vec((rows, columns, channels), decoded.into_bytes()).expect("8 bits a channel")
}

/// `x` rounded to the nearest integer, halves up; `x` is a quotient of small integers, so `f64` decides it rightly.
fn rounded(x: f64) -> u8 {
    (x + 0.5 + 1e-9).floor() as u8
}

fn grayscale(picture: &Array3<u8>) -> Array2<u8> {
    let luma = |r: u8, g: u8, b: u8| 0.299 * f64::from(r) + 0.587 * f64::from(g) + 0.114 * f64::from(b);
    let (rows, columns, _) = picture.dim();
    Array2::from_shape_fn((rows, columns), |(y, x)| {
        rounded(luma(picture[[y, x, 0]], picture[[y, x, 1]], picture[[y, x, 2]]))
    })
}

fn box_blur_3x3(picture: &Array3<u8>) -> Array3<u8> {
    let (rows, columns, channels) = picture.dim();
    let elements: Vec<u8> = picture.iter().copied().collect();
    let means = means_3x3(&elements, [rows, columns, channels]);
    Array3::from_shape_vec(picture.dim(), means.into_iter().map(rounded).collect()).expect("as many")
}

fn check_grayscale(picture: &Array3<u8>) {
    let wanted = grayscale(picture);
    let on_device = upload(picture);
    assert_eq!(on_device.grayscale().unwrap().to_ndarray().unwrap(), wanted);
    let mut out = upload(&Array2::from_elem(wanted.dim(), 99));
    on_device.grayscale_into(&mut out).unwrap();
    assert_eq!(out.to_ndarray().unwrap(), wanted);
}

fn check_blur(picture: &Array3<u8>) {
    let wanted = box_blur_3x3(picture);
    let on_device = upload(picture);
    assert_eq!(on_device.box_blur_3x3().unwrap().to_ndarray().unwrap(), wanted);
    let mut out = upload(&Array3::from_elem(wanted.dim(), 99));
    on_device.box_blur_3x3_into(&mut out).unwrap();
    assert_eq!(out.to_ndarray().unwrap(), wanted);
}

#[test]
fn noise_of_every_size_to_gray() {
    for (seed, (rows, columns)) in (1..).zip(SIZES) {
        check_grayscale(&noise(rows, columns, 3, seed));
        check_grayscale(&noise(rows, columns, 4, seed));
    }
}

#[test]
fn noise_of_every_size_blurred() {
    for (seed, (rows, columns)) in (1..).zip(SIZES) {
        for channels in [1, 3, 4] {
            check_blur(&noise(rows, columns, channels, seed));
        }
    }
}

#[test]
fn noise_of_random_sizes() {
    proptest!(cases(16), |(rows in 1..70usize, columns in 1..70usize, seed in any::<u64>())| {
        check_grayscale(&noise(rows, columns, 3, seed));
        check_blur(&noise(rows, columns, 4, seed));
    });
}

/// Every value of each channel beside every other, so that each luma and each rounding occurs.
#[test]
fn every_pair_of_colours_to_gray() {
    let pairs = Array3::from_shape_fn((256, 256, 3), |(y, x, c)| [y, x, (y * 7 + x * 13) % 256][c] as u8);
    check_grayscale(&pairs);
}

#[test]
fn a_photograph_in_colour() {
    let astronaut = photograph(ASTRONAUT);
    assert_eq!(astronaut.dim(), (512, 512, 3));
    check_grayscale(&astronaut);
    check_blur(&astronaut);
}

#[test]
fn a_photograph_with_alpha() {
    let alpha = Array3::from_shape_fn((512, 512, 1), |(y, x, _)| (x ^ y) as u8);
    let with_alpha = ndarray::concatenate![ndarray::Axis(2), photograph(ASTRONAUT), alpha];
    check_grayscale(&with_alpha);
    check_blur(&with_alpha);
}

#[test]
fn a_photograph_in_gray() {
    let camera = photograph(CAMERA);
    assert_eq!(camera.dim(), (512, 512, 1));
    check_blur(&camera);
}

/// A part of a picture, and one whose channels lie in planes, are put in order on the way up.
#[test]
fn pictures_in_other_layouts() {
    let planes = noise(3, 20, 30, 7);
    let views: [ArrayView3<'_, u8>; 2] = [
        planes.view().permuted_axes([1, 2, 0]),
        planes.slice(s![.., ..;-1, 3..6]),
    ];
    for view in views {
        assert_eq!(view.dim().2, 3);
        assert_eq!(
            upload(&view).grayscale().unwrap().to_ndarray().unwrap(),
            grayscale(&view.to_owned())
        );
        assert_eq!(
            upload(&view).box_blur_3x3().unwrap().to_ndarray().unwrap(),
            box_blur_3x3(&view.to_owned())
        );
    }
}

/// Noise of any bits, with special values among it.
fn any_noise<T: Number>(rows: usize, columns: usize, channels: usize, seed: u64) -> Array3<T> {
    Array3::from_shape_vec((rows, columns, channels), random(rows * columns * channels, seed)).expect("as many")
}

/// Both forms, against what `gray` makes of red, green and blue.
fn check_gray<T: Pixel + Number>(picture: &Array3<T>, weights: Weights, gray: impl Fn([T; 3]) -> T) {
    let (rows, columns, _) = picture.dim();
    let wanted = Array2::from_shape_fn((rows, columns), |(y, x)| {
        gray([picture[[y, x, 0]], picture[[y, x, 1]], picture[[y, x, 2]]])
    });
    let on_device = upload(picture);
    let got = on_device.grayscale_with(weights).unwrap().to_ndarray().unwrap();
    let what = format!("{weights:?} of {:?}", picture.dim());
    assert_same(got.as_slice().unwrap(), wanted.as_slice().unwrap(), &what);
    let mut out = upload(&picture.slice(s![.., .., 0]));
    on_device.grayscale_with_into(weights, &mut out).unwrap();
    assert_same(
        out.to_ndarray().unwrap().as_slice().unwrap(),
        wanted.as_slice().unwrap(),
        &what,
    );
}

/// The weights of the standards, in exact integers.
fn standards_of_integers<T: Pixel + Number + Into<u64> + TryFrom<u64>>() {
    for (weights, parts) in [
        (Weights::Bt601, [2990, 5870, 1140]),
        (Weights::Bt709, [2126, 7152, 722]),
    ] {
        for (seed, (rows, columns)) in (1..).zip(SIZES) {
            for channels in [3, 4] {
                check_gray(&any_noise::<T>(rows, columns, channels, seed), weights, |rgb| {
                    let sum: u64 = rgb.into_iter().zip(parts).map(|(x, part)| x.into() * part).sum();
                    T::try_from((sum + 5000) / 10_000)
                        .ok()
                        .expect("a mean of numbers of the type")
                });
            }
        }
    }
}

for_types!(standards_of_integers: u8 u16);

/// `fma(b, B, fma(g, G, r R))`
fn fused(weights: [f32; 3], [r, g, b]: [f32; 3]) -> f32 {
    b.mul_add(weights[2], g.mul_add(weights[1], weights[0] * r))
}

/// A negative one, ones that overflow, ones with results halfway between integers.
const CUSTOM: [[f32; 3]; 7] = [
    [0.25, 0.5, 0.25],
    [0.5, 0.0, 0.0],
    [1.0 / 3.0, 1.0 / 3.0, 1.0 / 3.0],
    [-1.0, 2.0, 0.3],
    [0.0, -0.0, 0.0],
    [1e30, -1e30, 1e-40],
    [f32::MAX, f32::MIN, f32::MAX],
];

fn custom_weights_of_integers<T: Pixel + Number + Into<f32>>(of: impl Fn(f64) -> T) {
    for (seed, weights) in (1..).zip(CUSTOM) {
        for channels in [3, 4] {
            let picture = any_noise::<T>(33, 17, channels, seed);
            check_gray(&picture, Weights::Custom(weights), |rgb| {
                // Exact in f64, unless it is far beyond the type's range; a cast saturates, and makes 0 of NaN.
                of((f64::from(fused(weights, rgb.map(Into::into))) + 0.5).floor())
            });
        }
    }
}

#[test]
fn custom_weights_of_bytes() {
    custom_weights_of_integers(|x| x as u8);
}

#[test]
fn custom_weights_of_words() {
    custom_weights_of_integers(|x| x as u16);
}

#[test]
fn floats_to_gray() {
    let standards = [
        (Weights::Bt601, [0.299, 0.587, 0.114]),
        (Weights::Bt709, [0.2126, 0.7152, 0.0722]),
    ];
    let custom = CUSTOM.map(|weights| (Weights::Custom(weights), weights));
    for (seed, (weights, numbers)) in (1..).zip(standards.into_iter().chain(custom)) {
        for channels in [3, 4] {
            check_gray(&any_noise::<f32>(100, 13, channels, seed), weights, |rgb| {
                fused(numbers, rgb)
            });
        }
    }
}

/// The number before a half is nearer to 0; adding a half to it would give 1.
#[test]
fn a_half_is_rounded_up_and_what_is_before_it_down() {
    let picture = Array3::from_elem((1, 1, 3), 1u8);
    for (weight, wanted) in [
        (0.5f32.next_down(), 0),
        (0.5, 1),
        (1.5f32.next_down(), 1),
        (1.5, 2),
        (-0.5, 0),
    ] {
        check_gray(&picture, Weights::Custom([weight, 0.0, 0.0]), |_| wanted);
    }
}

#[test]
fn weights_that_are_not_finite_are_an_error() {
    let picture = upload(&noise(4, 6, 3, 1));
    let mut gray = upload(&Array2::from_elem((4, 6), 99u8));
    for (weights, given) in [
        ([0.5, f32::NAN, 0.0], "[0.5, NaN, 0.0]"),
        ([f32::INFINITY, 0.0, 1.0], "[inf, 0.0, 1.0]"),
        ([0.0, 0.0, f32::NEG_INFINITY], "[0.0, 0.0, -inf]"),
    ] {
        let weights = Weights::Custom(weights);
        let wanted = format!("grayscale: weights: given {given}, wanted finite numbers");
        assert_eq!(picture.grayscale_with(weights).unwrap_err().to_string(), wanted);
        let error = picture.grayscale_with_into(weights, &mut gray).unwrap_err();
        assert_eq!(error.to_string(), wanted);
    }
    assert_eq!(gray.to_ndarray().unwrap(), Array2::from_elem((4, 6), 99));
}

#[test]
fn pictures_without_pixels() {
    for (rows, columns) in [(0, 5), (5, 0), (0, 0)] {
        let picture = upload(&Array3::<u8>::zeros((rows, columns, 3)));
        assert_eq!(picture.grayscale().unwrap().shape(), [rows, columns]);
        assert_eq!(picture.box_blur_3x3().unwrap().shape(), [rows, columns, 3]);
    }
}

#[test]
fn other_numbers_of_channels_are_an_error() {
    for channels in [0, 2, 5] {
        let picture = upload(&Array3::<u8>::zeros((2, 3, channels)));
        let text = format!("given shape [2, 3, {channels}], wanted rows × columns × channels, with 1, 3 or 4 channels");
        assert_eq!(
            picture.grayscale().unwrap_err().to_string(),
            format!("grayscale: {text}")
        );
        assert_eq!(
            picture.box_blur_3x3().unwrap_err().to_string(),
            format!("box_blur_3x3: {text}")
        );
    }
    let gray = upload(&Array3::<u8>::zeros((2, 3, 1)));
    let error = gray.grayscale().unwrap_err().to_string();
    let wanted = "wanted rows × columns × 3 or 4 channels into rows × columns";
    assert_eq!(error, format!("grayscale: given shape [2, 3, 1] into [2, 3], {wanted}"));
}

#[test]
fn outputs_of_other_shapes_are_an_error_and_stay_as_they_are() {
    let picture = upload(&noise(4, 6, 3, 1));
    let mut gray = upload(&Array2::from_elem((6, 4), 99u8));
    let error = picture.grayscale_into(&mut gray).unwrap_err().to_string();
    assert!(
        error.starts_with("grayscale: given shape [4, 6, 3] into [6, 4], wanted"),
        "{error}"
    );
    assert_eq!(gray.to_ndarray().unwrap(), Array2::from_elem((6, 4), 99));
    let mut blurred: DeviceArray<u8, _> = upload(&Array3::from_elem((4, 6, 4), 99));
    let error = picture.box_blur_3x3_into(&mut blurred).unwrap_err().to_string();
    assert_eq!(
        error,
        "box_blur_3x3: given shapes [4, 6, 3] and [4, 6, 4], wanted equal shapes"
    );
    assert_eq!(blurred.to_ndarray().unwrap(), Array3::from_elem((4, 6, 4), 99));
}
