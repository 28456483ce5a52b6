// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pictures, pooling and convolutions.

use kernels_gpu::blur::box_blur::{THREADS, box_columns, box_rows};
use kernels_gpu::blur::sums::WideWords;
use ndarray::{Array2, Ix3};
use warpsmith::ops::{Border, Convolve, Pixel, Pool, Weights};
use warpsmith::{DeviceArray, LaunchConfig, bf16, f16};

use super::{AMPERE, HOPPER, Run, Value, each_type};

pub(super) fn blurs(run: &mut Run) {
    each_type!(run, blur: u8 u16 f32);
    wide_sums(run);
    for (columns, channels) in [(7, 1), (16, 1), (5, 3), (16, 3), (5, 4), (8, 4)] {
        let rows = 3 + run.len(40);
        let picture = run.array::<u8, _>((rows, columns, channels));
        run.keep(picture.box_blur_3x3());
        run.keep(picture.filter(&Array2::from_elem((3, 3), 0.125), Border::Reflect));
        run.keep(picture.filter(&Array2::from_elem((5, 5), 0.03), Border::Wrap));
        run.keep(picture.filter(&Array2::from_elem((7, 7), 0.02), Border::Reflect));
    }
}

fn picture<T: Value>(run: &mut Run, channels: usize) -> DeviceArray<T, Ix3> {
    let (rows, columns) = (9 + run.len(30), 9 + run.len(70));
    run.array((rows, columns, channels))
}

fn blur<T: Value + Pixel>(run: &mut Run) {
    for channels in [1, 3, 4] {
        let picture = picture::<T>(run, channels);
        let radius = 2 + run.len(5);
        run.keep(picture.box_blur(radius, Border::Reflect));
        run.keep(picture.gaussian_blur(1.2, Border::Clamp));
        run.keep(picture.filter(&Array2::from_elem((3, 3), 0.125), Border::Wrap));
        run.keep(picture.filter(&Array2::from_elem((5, 2), 0.125), Border::Constant(T::of(1))));
        run.keep(picture.filter(&Array2::from_elem((5, 5), 0.03), Border::Constant(T::of(1))));
        run.keep(picture.filter(&Array2::from_elem((2, 9), 0.125), Border::Clamp));
        if channels > 1 {
            run.keep(picture.grayscale());
            run.keep(picture.grayscale_with(Weights::Custom([0.25, 0.5, 0.25])));
        }
    }
}

/// What boxes of pictures of more than 2¹⁵ rows and columns are done by, at small ones.
fn wide_sums(run: &mut Run) {
    let config = LaunchConfig::new(2, THREADS as u32);
    let stream = run.stream().clone();
    for channels in [1, 3, 4] {
        let picture = picture::<u16>(run, channels);
        let columns = picture.shape()[1];
        let mut sums = run.ok(DeviceArray::zeros(&stream, picture.raw_dim()));
        let args = (&picture, columns, 3usize, 0u32, 0u16, &mut sums);
        run.ok(match channels {
            1 => stream.launch::<box_rows<WideWords, 1>>(&config, args),
            3 => stream.launch::<box_rows<WideWords, 3>>(&config, args),
            _ => stream.launch::<box_rows<WideWords, 4>>(&config, args),
        });
        let mut out = run.ok(DeviceArray::zeros(&stream, picture.raw_dim()));
        let args = (&sums, columns, channels, 3usize, 0u32, 0u16, &mut out);
        let result = stream.launch::<box_columns<WideWords>>(&config, args);
        run.keep_changed(out, result);
    }
}

pub(super) fn windows(run: &mut Run) {
    match run.generation() {
        HOPPER => each_type!(run, convolve_on_hopper: f16 bf16),
        AMPERE => each_type!(run, convolve_on_ampere: f16 bf16),
        _ => {
            each_type!(run, pool: f32 f64 f16 bf16);
            each_type!(run, convolve: f32 f64 f16 bf16);
        }
    }
}

fn pool<T: Value + Pool>(run: &mut Run) {
    let (rows, columns, channels) = (6 + run.len(9), 6 + run.len(9), run.len(20));
    let x = run.array::<T, _>((2, rows, columns, channels));
    // Windows apart, and windows that overlap.
    for stride in [3, 2] {
        let (most, mean) = (x.max_pool(3).stride(stride), x.average_pool(3).stride(stride));
        let out = run.ok(most.compute());
        let gradient = run.array::<T, _>(out.raw_dim());
        run.keep(Ok(out));
        run.keep(mean.compute());
        run.keep(most.gradient(&gradient));
        run.keep(mean.gradient(&gradient));
    }
}

fn convolve<T: Value + Convolve>(run: &mut Run) {
    // Few outputs, few tiles, and many, of which large ones are the best.
    for (places, outputs) in [(run.len(60), 3), (run.len(60), 20), (100 + run.len(28), 250)] {
        let channels = run.len(9);
        let x = run.array::<T, _>((1, places, channels));
        let weights = run.array::<T, _>((outputs, 3, channels));
        run.keep(x.convolve(&weights).padding(1).compute());
    }
    // Groups of one channel, in vectors and not, of few taps and many.
    for (channels, taps) in [(4 * run.len(20), 3), (4 * run.len(20), 5), (run.len(70), 4)] {
        let (rows, columns) = (3 + run.len(9), 3 + run.len(30));
        let x = run.array::<T, _>((2, rows, columns, channels));
        let weights = run.array::<T, _>((channels, 3, taps, 1));
        let of = x.convolve(&weights).padding(1).groups(channels);
        let out = run.ok(of.compute());
        let gradient = run.array::<T, _>(out.raw_dim());
        run.keep(Ok(out));
        run.keep(of.input_gradient(&gradient));
        run.keep(of.weight_gradient(&gradient));
    }
}

/// Few channels, and outputs of each width, in one tile or several; groups, of which a block has several, and those with a kernel of their
/// own, as weights of depthwise ones have.
fn convolve_on_ampere<T: Value + Convolve>(run: &mut Run) {
    let of_groups = [(64, 64, 16), (32, 32, 4), (32, 32, 2), (48, 48, 48)];
    let others = [(3, 5, 1), (run.len(9), 20, 1), (3, 70, 1), (32, 64, 4)];
    for (channels, outputs, groups) in others.into_iter().chain(of_groups) {
        let (images, rows, columns) = (run.len(3), 3 + run.len(4), 3 + run.len(30));
        let x = run.array::<T, _>((images, rows, columns, channels));
        let weights = run.array::<T, _>((outputs, 3, 3, channels / groups));
        let of = x.convolve(&weights).padding(1).groups(groups);
        let out = run.ok(of.compute());
        let gradient = run.array::<T, _>(out.raw_dim());
        run.keep(Ok(out));
        run.keep(of.weight_gradient(&gradient));
    }
    // Depthwise ones by patches of other numbers of taps.
    for taps in [5, 7] {
        let (rows, columns) = (3 + run.len(4), 3 + run.len(30));
        let x = run.array::<T, _>((1, rows, columns, 16));
        let weights = run.array::<T, _>((16, taps, taps, 1));
        run.keep(x.convolve(&weights).padding(taps / 2).groups(16).compute());
    }
}

/// As many outputs as have two tiles of each width.
fn convolve_on_hopper<T: Value + Convolve>(run: &mut Run) {
    for outputs in [120, 248, 504] {
        let places = 1 + run.len(60);
        let x = run.array::<T, _>((1, places, 40));
        let weights = run.array::<T, _>((outputs, 2, 40));
        run.keep(x.convolve(&weights).stride(2).compute());
    }
    // With places as columns, two tiles for each multiprocessor; of so many channels that it is not by patches.
    let images = run.device.properties().multiprocessors as usize;
    let x = run.array::<T, _>((images, 197, 48));
    let weights = run.array::<T, _>((136, 2, 48));
    run.keep(x.convolve(&weights).compute());
    // By patches, of one tile of each width.
    for outputs in [24, 56, 120] {
        let places = 2 + run.len(200);
        let x = run.array::<T, _>((2, places, 24));
        let weights = run.array::<T, _>((outputs, 2, 24));
        run.keep(x.convolve(&weights).compute());
    }
    // Remainders of places by the stride, one of which no tap has.
    let (rows, columns) = (2 + run.len(6), 2 + run.len(20));
    let x = run.array::<T, _>((1, rows, columns, 40));
    let weights = run.array::<T, _>((72, 1, 3, 40));
    let of = x.convolve(&weights).padding([0, 1]).stride(2);
    let out = run.ok(of.compute());
    let gradient = run.array::<T, _>(out.raw_dim());
    run.keep(of.input_gradient(&gradient));
    // Of several parts, and a tile of outputs for each of a block's turns.
    let (images, outputs) = (1 + run.len(8), 8 * run.len(40));
    let x = run.array::<T, _>((images, 20, 72));
    let weights = run.array::<T, _>((outputs, 3, 72));
    let gradient = run.array::<T, _>((images, 10, outputs));
    run.keep(x.convolve(&weights).padding(1).stride(2).weight_gradient(&gradient));
}
