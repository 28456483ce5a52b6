// SPDX-License-Identifier: MIT OR Apache-2.0
//! The demo's picture operations: on a photograph, and on a generated picture with transparency.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use ndarray::{Array, Array2, Array3, Axis, Dimension, s};
use rand::{RngExt, SeedableRng};
use warpsmith::DeviceArray;
use warpsmith::ops::Border;

use super::check::{self, Deviation};
use super::histogram;
use super::rows::{Demo, Row};
use crate::output::Output;
use crate::picture::{Format, Picture, decode, encode};

/// The photograph: Eileen Collins, from NASA's Great Images database, in the public domain.
static PHOTOGRAPH: &[u8] = include_bytes!("../../data/astronaut.png");

/// The photograph's smallest side, in which every filter's window has room.
const SMALLEST_SIDE: usize = 64;

/// What the demo made of the photograph.
pub struct Results {
    gray: Array3<u8>,
    blurred: Array3<u8>,
}

/// The files for the results.
pub struct Outputs {
    gray: (PathBuf, Output),
    blurred: (PathBuf, Output),
}

impl Outputs {
    /// Makes the folder; fails where a picture could not be written.
    pub fn create(folder: &Path) -> Result<Self> {
        std::fs::create_dir_all(folder).with_context(|| format!("{}: cannot be made", folder.display()))?;
        let create = |name: &str| {
            let path = folder.join(name);
            Output::create(&path).map(|output| (path, output))
        };
        Ok(Self {
            gray: create("gray.png")?,
            blurred: create("blur.png")?,
        })
    }

    /// Writes the pictures, and gives their paths.
    pub fn write(self, results: Results) -> Result<[PathBuf; 2]> {
        let write = |(path, output): (PathBuf, Output), picture: Array3<u8>| -> Result<PathBuf> {
            output.commit(|writer| encode(&Picture::Bytes(picture), Format::Png, writer))?;
            Ok(path)
        };
        Ok([write(self.gray, results.gray)?, write(self.blurred, results.blurred)?])
    }
}

/// Grayscale and blur of every kind of picture, of `len` pixels at most where the photograph can be that small.
pub fn run(demo: &mut Demo, len: usize) -> Result<Results> {
    let Picture::Bytes(photograph) = decode(PHOTOGRAPH)? else {
        bail!("the photograph is not of 8 bits");
    };
    let photograph = thinned(&photograph, len);
    let (height, width, _) = photograph.dim();
    let mut rng = rand::rngs::Xoshiro256PlusPlus::seed_from_u64(601);
    let transparent = Array3::from_shape_simple_fn((height, width, 4), || rng.random::<u8>());
    let gray = grayscale(demo, "grayscale RGB", &photograph)?.insert_axis(Axis(2));
    grayscale(demo, "grayscale RGBA", &transparent)?;
    let blurred = box_blur(demo, "box blur RGB", &photograph, 1)?;
    box_blur(demo, "box blur gray", &gray, 1)?;
    box_blur(demo, "box blur RGBA", &transparent, 1)?;
    box_blur(demo, "box blur RGB, radius 20", &photograph, 20)?;
    gaussian_blur(demo, "Gaussian blur RGB", &photograph, 2.0)?;
    histogram::of_picture(demo, &photograph)?;
    Ok(Results { gray, blurred })
}

/// Every second, third … pixel of every second, third … row, so that there are `len` pixels at most; but no side is
/// shorter than [`SMALLEST_SIDE`] for that.
fn thinned(picture: &Array3<u8>, len: usize) -> Array3<u8> {
    let (height, width, _) = picture.dim();
    let most = (height.min(width) / SMALLEST_SIDE).max(1);
    let step = (1..most)
        .find(|step| height.div_ceil(*step) * width.div_ceil(*step) <= len)
        .unwrap_or(most);
    picture.slice(s![..;step, ..;step, ..]).to_owned()
}

fn grayscale(demo: &mut Demo, kernel: &str, picture: &Array3<u8>) -> Result<Array2<u8>> {
    let x = DeviceArray::from_ndarray(&demo.stream, picture)?;
    let mut out = DeviceArray::zeros(&demo.stream, (picture.dim().0, picture.dim().1))?;
    let time = demo.measure(kernel, &mut || Ok(x.grayscale_into(&mut out)?))?;
    let got = out.to_ndarray()?;
    push_row(demo, kernel, picture, time, &got, &gray_reference(picture));
    Ok(got)
}

fn box_blur(demo: &mut Demo, kernel: &str, picture: &Array3<u8>, radius: usize) -> Result<Array3<u8>> {
    let x = DeviceArray::from_ndarray(&demo.stream, picture)?;
    let mut out = DeviceArray::zeros(&demo.stream, picture.dim())?;
    let time = demo.measure(kernel, &mut || Ok(x.box_blur_into(radius, Border::Mean, &mut out)?))?;
    let got = out.to_ndarray()?;
    push_row(demo, kernel, picture, time, &got, &blur_reference(picture, radius));
    Ok(got)
}

/// The result in integers may be off by its rounding, a half, and what f32 loses of 255 in two passes of as many
/// products as the window has pixels.
fn gaussian_blur(demo: &mut Demo, kernel: &str, picture: &Array3<u8>, sigma: f64) -> Result<()> {
    let x = DeviceArray::from_ndarray(&demo.stream, picture)?;
    let mut out = DeviceArray::zeros(&demo.stream, picture.dim())?;
    let time = demo.measure(kernel, &mut || {
        Ok(x.gaussian_blur_into(sigma, Border::Clamp, &mut out)?)
    })?;
    let (got, want) = (out.to_ndarray()?, gaussian_reference(picture, sigma));
    let errors = got.iter().zip(&want).map(|(&got, want)| (f64::from(got) - want).abs());
    let window = 8.0 * sigma + 3.0;
    demo.push(Row {
        kernel: kernel.into(),
        dtype: "u8",
        size: size(picture),
        time,
        bytes: picture.len() + got.len(),
        deviation: Deviation {
            largest: errors.fold(0.0, f64::max),
            bound: 0.5 + 2.0 * window * 255.0 * f64::from(f32::EPSILON),
            unit: "absolute",
        },
    });
    Ok(())
}

/// The row of a kernel that made `got` of the picture, where the CPU makes `expected`.
fn push_row<D: Dimension>(
    demo: &mut Demo,
    kernel: &str,
    picture: &Array3<u8>,
    time: Duration,
    got: &Array<u8, D>,
    expected: &Array<u8, D>,
) {
    demo.push(Row {
        kernel: kernel.into(),
        dtype: "u8",
        size: size(picture),
        time,
        bytes: picture.len() + got.len(),
        deviation: check::exact(got, expected),
    });
}

fn size(picture: &Array3<u8>) -> String {
    let (height, width, _) = picture.dim();
    format!("{width} × {height}")
}

/// BT.601 luma, rounded to nearest, halves up: in thousandths, so that nothing is lost.
fn gray_reference(picture: &Array3<u8>) -> Array2<u8> {
    let channel = |channel: usize| picture.index_axis(Axis(2), channel).mapv(u32::from);
    let thousandths = channel(0) * 299 + channel(1) * 587 + channel(2) * 114;
    thousandths.mapv(|luma| ((luma + 500) / 1000) as u8)
}

/// The mean of the pixels that exist around each, rounded to nearest, halves up; alpha as it is.
fn blur_reference(picture: &Array3<u8>, radius: usize) -> Array3<u8> {
    let around = |pixels: Array2<u32>| (0..2).fold(pixels, |pixels, axis| window_sums(&pixels, Axis(axis), radius));
    let (height, width, channels) = picture.dim();
    let counts = around(Array2::ones((height, width)));
    let mut blurred = picture.clone();
    for channel in 0..channels.min(3) {
        let sums = around(picture.index_axis(Axis(2), channel).mapv(u32::from));
        let means = (sums + &counts / 2) / &counts;
        blurred
            .index_axis_mut(Axis(2), channel)
            .assign(&means.mapv(|mean| mean as u8));
    }
    blurred
}

/// The sum of each element and of those that exist within `radius` of it along the axis.
fn window_sums(x: &Array2<u32>, axis: Axis, radius: usize) -> Array2<u32> {
    let len = x.len_of(axis);
    let mut window = x.slice_axis(axis, (..radius.min(len)).into()).sum_axis(axis);
    let mut sums = Array2::zeros(x.dim());
    for i in 0..len {
        if i + radius < len {
            window += &x.index_axis(axis, i + radius);
        }
        if i > radius {
            window -= &x.index_axis(axis, i - radius - 1);
        }
        sums.index_axis_mut(axis, i).assign(&window);
    }
    sums
}

/// The Gaussian of the pixels, those at the edge standing for what lies beyond, in `f64` and not rounded.
fn gaussian_reference(picture: &Array3<u8>, sigma: f64) -> Array3<f64> {
    let radius = (4.0 * sigma + 0.5) as isize;
    let weights: Vec<f64> = (-radius..=radius)
        .map(|i| (-0.5 * (i as f64 / sigma).powi(2)).exp())
        .collect();
    let total: f64 = weights.iter().sum();
    // Along the first axis, in whole lines, which then becomes the second one: twice, and it is the first again.
    (0..2).fold(picture.mapv(f64::from), |picture, _| {
        let last = picture.len_of(Axis(0)) as isize - 1;
        let mut blurred = Array3::zeros(picture.dim());
        for (line, mut sum) in (0..).zip(blurred.outer_iter_mut()) {
            for (i, weight) in (-radius..=radius).zip(&weights) {
                let from = (line + i).clamp(0, last) as usize;
                sum.scaled_add(weight / total, &picture.index_axis(Axis(0), from));
            }
        }
        blurred.permuted_axes([1, 0, 2]).as_standard_layout().into_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_photograph_follows_the_length() {
        let photograph = Array3::zeros((512, 512, 3));
        let side = |len| thinned(&photograph, len).dim().0;
        assert_eq!(
            [1, 4096, 20_011, (1 << 18) - 1, 1 << 18, 1 << 25].map(side),
            [64, 64, 128, 256, 512, 512]
        );
        // A picture that is smaller already is left as it is.
        assert_eq!(thinned(&Array3::zeros((60, 200, 4)), 1).dim(), (60, 200, 4));
    }
}
